// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

int pid;

struct bpf_stack_build_id top;
long top_res;

struct bpf_stack_build_id stack[16];
long stack_res;

bool opened;
long read_res;

static bool is_test(void)
{
	return bpf_get_current_pid_tgid() >> 32 == pid;
}

/* Interrupts are on, and the user mode registers are those of the fault. */
SEC("?fentry/force_sig_fault")
int BPF_PROG(sample_fault)
{
	if (is_test())
		top_res = bpf_get_stack(ctx, &top, sizeof(top),
					BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}

SEC("?lsm.s/file_open")
int BPF_PROG(read_opened, struct file *file)
{
	struct bpf_dynptr ptr;
	char c;

	if (!is_test())
		return 0;

	if (!bpf_dynptr_from_file(file, 0, &ptr))
		read_res = bpf_dynptr_read(&c, sizeof(c), &ptr, 0, 0);
	bpf_dynptr_file_discard(&ptr);
	opened = true;
	return 0;
}

/* Reclaim calls this function while the reference count of the folio is 0. */
SEC("?fentry/__filemap_remove_folio")
int BPF_PROG(sample_reclaim)
{
	char comm[TASK_COMM_LEN];

	bpf_get_current_comm(comm, sizeof(comm));
	if (!bpf_strncmp(comm, sizeof(comm), "uprobe_multi"))
		stack_res = bpf_get_stack(ctx, stack, sizeof(stack),
					  BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}
