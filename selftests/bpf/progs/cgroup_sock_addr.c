// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include "bpf_tracing_net.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* The context of the last run, and the result of bpf_bind() */
int runs;
__u32 user_family;
__u32 user_port;
__u32 user_ip[4];
int bind_err;
/* Set by the test */
int redirect, reject;

static __always_inline void record(struct bpf_sock_addr *ctx)
{
	runs++;
	user_family = ctx->user_family;
	user_port = ctx->user_port;
}

SEC("cgroup/bind4")
int record_bind4(struct bpf_sock_addr *ctx)
{
	record(ctx);
	user_ip[0] = ctx->user_ip4;
	return 1;
}

/* Like a policy, set the source only for the expected family. */
SEC("cgroup/sendmsg4")
int source_sendmsg4(struct bpf_sock_addr *ctx)
{
	record(ctx);
	user_ip[0] = ctx->user_ip4;
	if (redirect)
		ctx->user_port = bpf_htons(9);
	if (ctx->user_family == AF_INET)
		ctx->msg_src_ip4 = bpf_htonl(0x7f000002);
	return 1;
}

SEC("cgroup/sendmsg6")
int source_sendmsg6(struct bpf_sock_addr *ctx)
{
	record(ctx);
	user_ip[0] = ctx->user_ip6[0];
	user_ip[1] = ctx->user_ip6[1];
	user_ip[2] = ctx->user_ip6[2];
	user_ip[3] = ctx->user_ip6[3];
	if (redirect)
		ctx->user_port = bpf_htons(9);
	if (ctx->user_family == AF_INET6) {
		ctx->msg_src_ip6[0] = 0;
		ctx->msg_src_ip6[1] = 0;
		ctx->msg_src_ip6[2] = 0;
		ctx->msg_src_ip6[3] = bpf_htonl(2);
	}
	return 1;
}

static __always_inline void bind4(struct bpf_sock_addr *ctx, __u32 ip)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = bpf_htonl(ip) };

	record(ctx);
	bind_err = bpf_bind(ctx, (struct sockaddr *)&sin, sizeof(sin));
}

SEC("cgroup/connect4")
int bind4_and_reject(struct bpf_sock_addr *ctx)
{
	bind4(ctx, 0x7f000002);
	return 0;
}

SEC("cgroup/connect6")
int bind4_in_connect6(struct bpf_sock_addr *ctx)
{
	bind4(ctx, 0x7f000002);
	return !reject;
}

SEC("cgroup/connect4")
int bind6_in_connect4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = {
		.sin6_family = AF_INET6,
		.sin6_addr.s6_addr32[3] = bpf_htonl(1),
	};

	record(ctx);
	bind_err = bpf_bind(ctx, (struct sockaddr *)&sin6, sizeof(sin6));
	return 1;
}

SEC("cgroup/connect4")
int bind_broadcast(struct bpf_sock_addr *ctx)
{
	bind4(ctx, 0x7fffffff);
	return 1;
}

char _license[] SEC("license") = "GPL";
