// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bench_buildid.h"

char _license[] SEC("license") = "GPL";

/* Set by user space before each measurement. */
pid_t target;
long syscall_nr;
enum bench_stack_mode mode;
__u32 stack_size;	/* bytes to request */

/* Checked by user space: a failure must not be measured. */
long result;

struct bpf_stack_build_id stack[BENCH_FRAMES];

static void get_stack(void *ctx, __u64 flags)
{
	__u32 size = stack_size;

	if (size <= sizeof(stack))
		result = bpf_get_stack(ctx, stack, size, BPF_F_USER_STACK | flags);
}

static void get_stack_in_mode(void *ctx)
{
	if (mode == BENCH_STACK)
		get_stack(ctx, 0);
	else if (mode == BENCH_STACK_BUILD_ID)
		get_stack(ctx, BPF_F_USER_BUILD_ID);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	if ((pid_t)bpf_get_current_pid_tgid() == target && id == syscall_nr)
		get_stack_in_mode(ctx);
	return 0;
}

SEC("uprobe.s")
int on_leaf(void *ctx)
{
	if ((pid_t)bpf_get_current_pid_tgid() == target)
		get_stack_in_mode(ctx);
	return 0;
}
