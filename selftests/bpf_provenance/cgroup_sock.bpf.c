// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10

char _license[] SEC("license") = "GPL";

/* Set by user space: the family of the address that connect4 binds to. */
int bind_family;

/* How often connect4 ran, and what bpf_bind() said last. */
int connect4_runs;
int bind_result;

SEC("cgroup/connect4")
int bind_in_connect4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = {
		.sin6_family = AF_INET6,
		.sin6_addr.in6_u.u6_addr8[15] = 1,
	};
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = bpf_htonl(0x7f000002),
	};

	connect4_runs++;
	if (bind_family == AF_INET6)
		bind_result = bpf_bind(ctx, (void *)&sin6, sizeof(sin6));
	else
		bind_result = bpf_bind(ctx, (void *)&sin, sizeof(sin));
	return 1;
}
