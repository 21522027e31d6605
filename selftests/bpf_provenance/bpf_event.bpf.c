// SPDX-License-Identifier: GPL-2.0
/* Programs whose text bpf_event checks; each test loads those it needs. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

int sink;

__noinline int second_subprog(int x)
{
	return x * bpf_get_prandom_u32();
}

__noinline int third_subprog(int x)
{
	return x + bpf_get_prandom_u32();
}

SEC("?raw_tp/sys_enter")
int three_subprogs(void *ctx)
{
	return second_subprog(1) + third_subprog(2);
}

/* No callback is set: the verifier adds one. */
SEC("?tc")
int throws(struct __sk_buff *skb)
{
	if (skb->len == 1)
		bpf_throw(1);
	return 0;
}

__noinline int replaced(struct __sk_buff *skb)
{
	sink = skb->len;
	return sink;
}

SEC("?tc")
int has_replaced(struct __sk_buff *skb)
{
	return replaced(skb);
}

SEC("?freplace/replaced")
int replacement(struct __sk_buff *skb)
{
	return second_subprog(skb->len);
}

/* Enough stack for the verifier to make it private. */
SEC("?kprobe")
__attribute__((naked)) void private_stack(void)
{
	asm volatile ("r1 = 42;"
		      "*(u64 *)(r10 - 256) = r1;"
		      "r0 = 0;"
		      "exit;" ::: "r0", "r1", "memory");
}

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
} arena SEC(".maps");

int __attribute__((address_space(1))) in_arena;

SEC("?syscall")
int uses_arena(void *ctx)
{
	in_arena++;
	return 0;
}

SEC("?uprobe.s")
int sleepable(void *ctx)
{
	char c;

	return bpf_copy_from_user(&c, sizeof(c), NULL);
}

SEC("?lsm_cgroup/socket_bind")
int BPF_PROG(of_cgroup, struct socket *sock, struct sockaddr *address, int addrlen)
{
	return 1;
}

SEC("?xdp")
int pass_packets(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("?struct_ops")
void BPF_PROG(ca_init, struct sock *sk)
{
}

SEC("?struct_ops")
__u32 BPF_PROG(ca_ssthresh, struct sock *sk)
{
	return 2;
}

SEC("?struct_ops")
void BPF_PROG(ca_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("?struct_ops")
__u32 BPF_PROG(ca_undo_cwnd, struct sock *sk)
{
	return 2;
}

SEC("?.struct_ops")
struct tcp_congestion_ops ca = {
	.init = (void *)ca_init,
	.ssthresh = (void *)ca_ssthresh,
	.cong_avoid = (void *)ca_cong_avoid,
	.undo_cwnd = (void *)ca_undo_cwnd,
	.name = "bpf_event_ca",
};
