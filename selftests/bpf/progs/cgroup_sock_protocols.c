// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* The socket that a program refused last */
int runs;
__u32 family;
__u32 type;
__u32 protocol;

static __always_inline int refuse(struct bpf_sock_addr *ctx)
{
	runs++;
	family = ctx->user_family;
	type = ctx->type;
	protocol = ctx->protocol;
	return 0;
}

SEC("cgroup/bind4")
int refuse_bind4(struct bpf_sock_addr *ctx)
{
	return refuse(ctx);
}

SEC("cgroup/bind6")
int refuse_bind6(struct bpf_sock_addr *ctx)
{
	return refuse(ctx);
}

SEC("cgroup/connect4")
int refuse_connect4(struct bpf_sock_addr *ctx)
{
	return refuse(ctx);
}

SEC("cgroup/connect6")
int refuse_connect6(struct bpf_sock_addr *ctx)
{
	return refuse(ctx);
}

char _license[] SEC("license") = "GPL";
