// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include "bpf_tracing_net.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* The addresses to set */
__u32 pin4;
__u32 pin6[4];

/* Runs that set them, and that of connect6 */
int bind_runs;
int autobind_runs;
int connect_runs;
int bpf_bind_err;

static __always_inline int pin_both(struct bpf_sock_addr *ctx, int *runs)
{
	/* The servers of the test bind to an address. */
	if (ctx->user_ip6[0] | ctx->user_ip6[1] | ctx->user_ip6[2] | ctx->user_ip6[3])
		return 1;
	(*runs)++;
	ctx->user_ip6[0] = pin6[0];
	ctx->user_ip6[1] = pin6[1];
	ctx->user_ip6[2] = pin6[2];
	ctx->user_ip6[3] = pin6[3];
	ctx->user_ip4 = pin4;
	return 1;
}

SEC("cgroup/bind6")
int pin_bind6(struct bpf_sock_addr *ctx)
{
	return pin_both(ctx, &bind_runs);
}

SEC("cgroup/autobind")
int pin_autobind(struct bpf_sock_addr *ctx)
{
	return ctx->user_family == AF_INET6 ? pin_both(ctx, &autobind_runs) : 1;
}

/* Like a policy that does not rely on bind6, set the source of the family of the peer. */
SEC("cgroup/connect6")
int pin_connect6(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = pin4 };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };

	connect_runs++;
	if (ctx->user_ip6[2] == bpf_htonl(0xffff)) {	/* ::ffff:127.0.0.1 */
		bpf_bind_err = bpf_bind(ctx, (struct sockaddr *)&sin, sizeof(sin));
	} else {
		__builtin_memcpy(&sin6.sin6_addr, pin6, sizeof(pin6));
		bpf_bind_err = bpf_bind(ctx, (struct sockaddr *)&sin6, sizeof(sin6));
	}
	return !bpf_bind_err;
}

char _license[] SEC("license") = "GPL";
