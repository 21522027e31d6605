// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

int pid;

/* Addresses of the test: a page that blocks, and the limits of its mappings */
void *fault_addr;
__u64 start, changing, end;

long copy_err;
__u64 last_end, after_end;

__u32 nr_other, nr_changing, nr_walks;
bool write_locked;
int err;

/* User space maps a page above the last mapping while bpf_copy_from_user() waits. */
SEC("syscall")
int next_after_end(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	char c;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while ((vma = bpf_iter_task_vma_next(&it)))
		last_end = vma->vm_end;
	copy_err = bpf_copy_from_user(&c, sizeof(c), fault_addr);
	/* The verifier treats this as 0, and does not keep the pointer from being stored. */
	after_end = (unsigned long)bpf_iter_task_vma_next(&it);
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

static void walk(void)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;

	nr_walks++;
	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), start);
	while ((vma = bpf_iter_task_vma_next(&it)) && vma->vm_start < end) {
		if (vma->vm_start == changing)
			nr_changing++;
		else
			nr_other++;
	}
	/* Without this kfunc, a walk that left out a VMA cannot be distinguished. */
	if (bpf_ksym_exists(bpf_iter_task_vma_error))
		err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
}

SEC("raw_tp")
int walk_unlocked(void *ctx)
{
	walk();
	return 0;
}

/* mprotect() calls this function with the VMA and mmap_lock locked for writing. */
SEC("fentry/perf_event_mmap")
int BPF_PROG(walk_in_mprotect, struct vm_area_struct *vma)
{
	if (bpf_get_current_pid_tgid() >> 32 != pid || vma->vm_start != changing)
		return 0;
	write_locked = vma->vm_lock_seq == vma->vm_mm->mm_lock_seq.sequence;
	walk();
	return 0;
}
