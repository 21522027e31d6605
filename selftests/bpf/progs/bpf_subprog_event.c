// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

__noinline int first(int x)
{
	return x * bpf_get_prandom_u32();
}

__noinline int second(int x)
{
	return x + bpf_get_prandom_u32();
}

SEC("?cgroup_skb/egress")
int three(struct __sk_buff *skb)
{
	return (first(skb->len) + second(skb->len)) & 1;
}

SEC("?fentry/bpf_fentry_test1")
int BPF_PROG(fentry1)
{
	return 0;
}
