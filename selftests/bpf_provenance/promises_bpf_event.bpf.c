// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

/* Three subprograms, so that one symbol per program is not enough. */
__noinline int second_subprog(int x)
{
	return x * bpf_get_prandom_u32();
}

__noinline int third_subprog(int x)
{
	return x + bpf_get_prandom_u32();
}

SEC("raw_tp/sys_enter")
int three_subprogs(void *ctx)
{
	return second_subprog(1) + third_subprog(2);
}
