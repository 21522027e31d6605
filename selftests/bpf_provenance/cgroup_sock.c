// SPDX-License-Identifier: GPL-2.0
/*
 * The cgroup hooks on bind() and connect().
 *
 *  bpf_bind.*	bpf_bind() from connect4, in the context of connect(): an IPv6
 *		address on an IPv4 socket is refused and the connection goes on;
 *		an IPv4 address works on an IPv4 socket, and on an IPv6 one that
 *		is connected to an IPv4 address, where a v4-mapped one works too.
 *
 * Where bpf_bind() does not check the family, the *_v6_addr tests oops in
 * __inet6_bind(): run them in a virtual machine.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "cgroup_sock.h"
#include "cgroup_sock.skel.h"
#include "common.h"

#define CGROUP "bpf_provenance_sock"

FIXTURE(bpf_bind)
{
	struct cgroup_sock *skel;
	int cgroup, server, client;
	struct sockaddr_in peer;	/* where the server listens */
};

FIXTURE_VARIANT(bpf_bind)
{
	int domain, type;
	enum bind_address address;
	int result;
	const char *source;		/* of the connected client */
};

FIXTURE_VARIANT_ADD(bpf_bind, tcp4_v6_addr)
{
	.domain = AF_INET, .type = SOCK_STREAM,
	.address = V6_LOOPBACK, .result = -EAFNOSUPPORT, .source = "127.0.0.1",
};

FIXTURE_VARIANT_ADD(bpf_bind, udp4_v6_addr)
{
	.domain = AF_INET, .type = SOCK_DGRAM,
	.address = V6_LOOPBACK, .result = -EAFNOSUPPORT, .source = "127.0.0.1",
};

FIXTURE_VARIANT_ADD(bpf_bind, tcp4_v4_addr)
{
	.domain = AF_INET, .type = SOCK_STREAM,
	.address = V4, .source = "127.0.0.2",
};

FIXTURE_VARIANT_ADD(bpf_bind, udp6_v4_addr)
{
	.domain = AF_INET6, .type = SOCK_DGRAM,
	.address = V4, .source = "127.0.0.2",
};

FIXTURE_VARIANT_ADD(bpf_bind, udp6_mapped_addr)
{
	.domain = AF_INET6, .type = SOCK_DGRAM,
	.address = V4_MAPPED, .source = "127.0.0.2",
};

FIXTURE_SETUP(bpf_bind)
{
	socklen_t len = sizeof(self->peer);
	int fd;

	self->cgroup = -1;
	self->server = -1;
	self->client = -1;
	self->skel = cgroup_sock__open_and_load();
	ASSERT_NE(NULL, self->skel);
	self->server = socket(AF_INET, variant->type, 0);
	ASSERT_LE(0, self->server);
	self->peer.sin_family = AF_INET;
	self->peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(0, bind(self->server, (void *)&self->peer, sizeof(self->peer)));
	if (variant->type == SOCK_STREAM)
		ASSERT_EQ(0, listen(self->server, 1));
	ASSERT_EQ(0, getsockname(self->server, (void *)&self->peer, &len));
	fd = socket(variant->domain, variant->type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT)
		SKIP(return, "no IPv6");
	ASSERT_LE(0, fd);
	close(fd);

	/* Last: what fails above leaves no cgroup behind. */
	self->cgroup = cgroup_enter(CGROUP);
	if (self->cgroup == -EOPNOTSUPP)
		SKIP(return, "no cgroup2 at /sys/fs/cgroup");
	ASSERT_LE(0, self->cgroup);
}

FIXTURE_TEARDOWN(bpf_bind)
{
	if (self->client >= 0)
		close(self->client);
	if (self->server >= 0)
		close(self->server);
	if (self->cgroup >= 0)
		close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

TEST_F(bpf_bind, connect4)
{
	struct sockaddr_in name;
	socklen_t len = sizeof(name);
	char source[INET_ADDRSTRLEN];

	self->skel->bss->address = variant->address;
	self->skel->links.bind_in_connect4 =
		bpf_program__attach_cgroup(self->skel->progs.bind_in_connect4,
					   self->cgroup);
	ASSERT_NE(NULL, self->skel->links.bind_in_connect4);

	/* A socket is of the cgroup in which it was made. */
	self->client = socket(variant->domain, variant->type, 0);
	ASSERT_LE(0, self->client);
	ASSERT_EQ(0, connect(self->client, (void *)&self->peer, sizeof(self->peer)));
	EXPECT_EQ(1, self->skel->bss->connect4_runs);
	EXPECT_EQ(variant->result, self->skel->bss->bind_result);

	/* What the server sees, not what the client believes. */
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	if (variant->type == SOCK_STREAM) {
		int conn = accept(self->server, (void *)&name, &len);

		ASSERT_LE(0, conn);
		close(conn);
	} else {
		char c;

		ASSERT_EQ(1, recvfrom(self->server, &c, 1, 0, (void *)&name, &len));
	}
	ASSERT_NE(NULL, inet_ntop(AF_INET, &name.sin_addr, source, sizeof(source)));
	EXPECT_STREQ(variant->source, source);
}

TEST_HARNESS_MAIN
