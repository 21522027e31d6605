// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
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
