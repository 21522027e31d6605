// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

int bind_runs;

/* A policy that allows no local address. */
SEC("cgroup/bind4")
int deny_bind4(struct bpf_sock_addr *ctx)
{
	bind_runs++;
	return 0;
}

SEC("cgroup/post_bind4")
int deny_post_bind4(struct bpf_sock *ctx)
{
	bind_runs++;
	return 0;
}

SEC("cgroup/autobind")
int deny_autobind(struct bpf_sock_addr *ctx)
{
	bind_runs++;
	return 0;
}
