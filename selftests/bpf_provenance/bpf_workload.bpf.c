// SPDX-License-Identifier: GPL-2.0
/* Programs whose images bpf_workload runs. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* The image of their function calls all of them, so it takes much of the time. */
#define ENTRY(n)							\
SEC("fentry/bpf_fentry_test1")						\
int BPF_PROG(entry_##n, int a)						\
{									\
	return 0;							\
}

ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)
ENTRY(6)
ENTRY(7)
ENTRY(8)
ENTRY(9)
ENTRY(10)
ENTRY(11)
ENTRY(12)
ENTRY(13)
ENTRY(14)
ENTRY(15)

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("struct_ops")
void BPF_PROG(ca_init, struct sock *sk)
{
}

SEC("struct_ops")
void BPF_PROG(ca_release, struct sock *sk)
{
}

SEC("struct_ops")
__u32 BPF_PROG(ca_ssthresh, struct sock *sk)
{
	return 2;
}

SEC("struct_ops")
void BPF_PROG(ca_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops")
__u32 BPF_PROG(ca_undo_cwnd, struct sock *sk)
{
	return 2;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops ca = {
	.init = (void *)ca_init,
	.release = (void *)ca_release,
	.ssthresh = (void *)ca_ssthresh,
	.cong_avoid = (void *)ca_cong_avoid,
	.undo_cwnd = (void *)ca_undo_cwnd,
	.name = "bpf_workload",
};
