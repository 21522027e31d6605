// SPDX-License-Identifier: GPL-2.0

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

__u32 tgid;
__u32 calls;
__u32 saddr4;
struct in6_addr saddr6;

SEC("cgroup/post_bind4")
int refuse4(struct bpf_sock *ctx)
{
	return 0;
}

SEC("cgroup/post_bind6")
int refuse6(struct bpf_sock *ctx)
{
	return 0;
}

SEC("fentry/inet_put_port")
int BPF_PROG(put_port, struct sock *sk)
{
	if (bpf_get_current_pid_tgid() >> 32 != tgid)
		return 0;

	calls++;
	saddr4 = sk->__sk_common.skc_rcv_saddr;
	saddr6 = sk->__sk_common.skc_v6_rcv_saddr;
	return 0;
}

char _license[] SEC("license") = "GPL";
