// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

/* Programs that allow everything. */
SEC("cgroup/bind4")
int pass_bind4(struct bpf_sock_addr *ctx)
{
	return 1;
}

SEC("cgroup/post_bind4")
int pass_post_bind4(struct bpf_sock *ctx)
{
	return 1;
}

SEC("cgroup/connect4")
int pass_connect4(struct bpf_sock_addr *ctx)
{
	return 1;
}

SEC("cgroup/sendmsg4")
int pass_sendmsg4(struct bpf_sock_addr *ctx)
{
	return 1;
}

SEC("cgroup/autobind")
int pass_autobind(struct bpf_sock_addr *ctx)
{
	return 1;
}

/* One address of each family. */
SEC("?cgroup/bind6")
int pin_both(struct bpf_sock_addr *ctx)
{
	ctx->user_ip6[3] = bpf_htonl(1);
	ctx->user_ip4 = bpf_htonl(0x7f000001);
	return 1;
}
