// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include "bpf_tracing_net.h"
#include <bpf/bpf_helpers.h>

/* The local addresses to set, and whether to reject the socket instead */
__u32 pin4;
__u32 pin6[4];
bool reject;

/* The context of the last run of autobind */
int runs;
__u32 user_family;
__u32 user_port;
__u32 user_ip[4];

SEC("cgroup/autobind")
int pin_autobind(struct bpf_sock_addr *ctx)
{
	runs++;
	user_family = ctx->user_family;
	user_port = ctx->user_port;

	if (ctx->user_family == AF_INET) {
		user_ip[0] = ctx->user_ip4;
		if (reject)
			return 0;
		if (!ctx->user_ip4)
			ctx->user_ip4 = pin4;
		/* Keep clang from merging this store with one below. */
		barrier();
		return 1;
	}

	user_ip[0] = ctx->user_ip6[0];
	user_ip[1] = ctx->user_ip6[1];
	user_ip[2] = ctx->user_ip6[2];
	user_ip[3] = ctx->user_ip6[3];
	if (reject)
		return 0;
	if (!(user_ip[0] | user_ip[1] | user_ip[2] | user_ip[3])) {
		ctx->user_ip6[0] = pin6[0];
		ctx->user_ip6[1] = pin6[1];
		ctx->user_ip6[2] = pin6[2];
		ctx->user_ip6[3] = pin6[3];
	}
	return 1;
}

SEC("cgroup/connect4")
int pin_connect4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = pin4,
	};

	return !bpf_bind(ctx, (struct sockaddr *)&sin, sizeof(sin));
}

SEC("cgroup/connect6")
int pin_connect6(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = {
		.sin6_family = AF_INET6,
	};

	__builtin_memcpy(&sin6.sin6_addr, pin6, sizeof(pin6));
	return !bpf_bind(ctx, (struct sockaddr *)&sin6, sizeof(sin6));
}

char _license[] SEC("license") = "GPL";
