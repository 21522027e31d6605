// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "cgroup_sock.h"

#define AF_INET 2
#define AF_INET6 10

char _license[] SEC("license") = "GPL";

/* Set by user space. */
enum bind_address address;

/* How often connect4 ran, and what bpf_bind() said last. */
int connect4_runs;
int bind_result;

SEC("cgroup/connect4")
int bind_in_connect4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = bpf_htonl(0x7f000002),
	};

	connect4_runs++;
	if (address == V4) {
		bind_result = bpf_bind(ctx, (void *)&sin, sizeof(sin));
		return 1;
	}
	if (address == V4_MAPPED) {
		sin6.sin6_addr.in6_u.u6_addr32[2] = bpf_htonl(0xffff);
		sin6.sin6_addr.in6_u.u6_addr32[3] = sin.sin_addr.s_addr;
	} else {
		sin6.sin6_addr.in6_u.u6_addr32[3] = bpf_htonl(1);
	}
	bind_result = bpf_bind(ctx, (void *)&sin6, sizeof(sin6));
	return 1;
}
