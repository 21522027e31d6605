// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* As in prog_tests/cgroup_sock_protocols.c */
enum { HOOK_BIND, HOOK_POST_BIND, HOOK_CONNECT };

/* The programs of the other hooks allow the call, and are not counted. */
int refusing_hook;

/* The socket that a program refused last */
int runs;
__u32 family;
__u32 type;
__u32 protocol;

static __always_inline int refuse(int hook, __u32 f, __u32 t, __u32 p)
{
	if (hook != refusing_hook)
		return 1;
	runs++;
	family = f;
	type = t;
	protocol = p;
	return 0;
}

SEC("cgroup/bind4")
int refuse_bind4(struct bpf_sock_addr *ctx)
{
	return refuse(HOOK_BIND, ctx->user_family, ctx->type, ctx->protocol);
}

SEC("cgroup/bind6")
int refuse_bind6(struct bpf_sock_addr *ctx)
{
	return refuse(HOOK_BIND, ctx->user_family, ctx->type, ctx->protocol);
}

SEC("cgroup/post_bind4")
int refuse_post_bind4(struct bpf_sock *ctx)
{
	return refuse(HOOK_POST_BIND, ctx->family, ctx->type, ctx->protocol);
}

SEC("cgroup/post_bind6")
int refuse_post_bind6(struct bpf_sock *ctx)
{
	return refuse(HOOK_POST_BIND, ctx->family, ctx->type, ctx->protocol);
}

SEC("cgroup/connect4")
int refuse_connect4(struct bpf_sock_addr *ctx)
{
	return refuse(HOOK_CONNECT, ctx->user_family, ctx->type, ctx->protocol);
}

SEC("cgroup/connect6")
int refuse_connect6(struct bpf_sock_addr *ctx)
{
	return refuse(HOOK_CONNECT, ctx->user_family, ctx->type, ctx->protocol);
}

char _license[] SEC("license") = "GPL";
