// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

#define BPF_BUILD_ID_SIZE 20	/* include/uapi/linux/bpf.h */

char _license[] SEC("license") = "GPL";

int pid;

/* A mapping of the file, the size to pass, and the result */
__u64 addr;
__u32 size;
int res;
unsigned char id[BPF_BUILD_ID_SIZE];

int stackid;

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(map_flags, BPF_F_STACK_BUILD_ID);
	__uint(max_entries, 16);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_stack_build_id));
} stackmap SEC(".maps");

/* A program that may not sleep: the file is read from the page cache, or not at all. */
SEC("?raw_tp")
int file_build_id(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	__u32 sz = size;
	struct file *file;

	/* Keep clang from reading it again after the check. */
	barrier_var(sz);
	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), addr);
	vma = bpf_iter_task_vma_next(&it);
	if (vma && vma->vm_start == addr) {
		file = vma->vm_file;
		if (file && sz <= sizeof(id))
			res = bpf_file_build_id(file, id, sz);
	}
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

/* The user mode registers are those of the fault. */
SEC("?fentry/force_sig_fault")
int BPF_PROG(sample_fault)
{
	if (bpf_get_current_pid_tgid() >> 32 == pid)
		stackid = bpf_get_stackid(ctx, &stackmap,
					  BPF_F_USER_STACK | BPF_F_REUSE_STACKID);
	return 0;
}
