// SPDX-License-Identifier: GPL-2.0

/* Tests for the TCP socket inside an SMC socket: its address and port after a
 * connect() that fails, and a second listen().
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "kselftest_harness.h"

#ifndef AF_SMC
#define AF_SMC		43
#endif
#define SMCPROTO_SMC	0

static socklen_t make_addr(struct sockaddr_in *addr, const char *ip, __u16 port)
{
	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_port = htons(port);
	inet_pton(AF_INET, ip, &addr->sin_addr);
	return sizeof(*addr);
}

static int bind_to(int fd, const char *ip, __u16 port)
{
	struct sockaddr_in addr;
	socklen_t len = make_addr(&addr, ip, port);

	return bind(fd, (struct sockaddr *)&addr, len);
}

static int connect_to(int fd, const char *ip, __u16 port)
{
	struct sockaddr_in addr;
	socklen_t len = make_addr(&addr, ip, port);

	return connect(fd, (struct sockaddr *)&addr, len);
}

static int local_port(int fd)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -1;
	return ntohs(addr.sin_port);
}

static const char *local_ip(int fd)
{
	static char ip[INET_ADDRSTRLEN];
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return "";
	return inet_ntop(AF_INET, &addr.sin_addr, ip, sizeof(ip));
}

static bool has_smc(void)
{
	int fd = socket(AF_SMC, SOCK_STREAM, SMCPROTO_SMC);

	if (fd < 0)
		return errno != EAFNOSUPPORT;
	close(fd);
	return true;
}

static void setup_netns(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, system("ip link set dev lo up"));
}

FIXTURE(connect_again)
{
	int fd;
	int closed;
	int server;
};

FIXTURE_VARIANT(connect_again)
{
	int family;
	int protocol;
	__u16 port;
};

/* Control: SMC must do the same as TCP. */
FIXTURE_VARIANT_ADD(connect_again, tcp)
{
	.family = AF_INET,
};

FIXTURE_VARIANT_ADD(connect_again, tcp_port)
{
	.family = AF_INET,
	.port = 4321,
};

FIXTURE_VARIANT_ADD(connect_again, smc)
{
	.family = AF_SMC,
	.protocol = SMCPROTO_SMC,
};

FIXTURE_VARIANT_ADD(connect_again, smc_port)
{
	.family = AF_SMC,
	.protocol = SMCPROTO_SMC,
	.port = 4321,
};

FIXTURE_SETUP(connect_again)
{
	if (variant->family == AF_SMC && !has_smc())
		SKIP(return, "needs CONFIG_SMC");
	setup_netns(_metadata);

	/* It has a port, but does not listen. */
	self->closed = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, self->closed);
	ASSERT_EQ(0, bind_to(self->closed, "127.0.0.1", 0));

	self->server = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, self->server);
	ASSERT_EQ(0, bind_to(self->server, "127.0.0.1", 0));
	ASSERT_EQ(0, listen(self->server, 1));

	self->fd = socket(variant->family, SOCK_STREAM, variant->protocol);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(connect_again)
{
	close(self->fd);
	close(self->server);
	close(self->closed);
}

/* A socket stays bound if connect() fails. */
TEST_F(connect_again, stays_bound)
{
	char ip[INET_ADDRSTRLEN];
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int conn;

	ASSERT_EQ(0, bind_to(self->fd, "127.0.0.2", variant->port));
	ASSERT_EQ(-1, connect_to(self->fd, "127.0.0.1", local_port(self->closed)));
	ASSERT_EQ(ECONNREFUSED, errno);
	EXPECT_STREQ("127.0.0.2", local_ip(self->fd));

	ASSERT_EQ(0, connect_to(self->fd, "127.0.0.1", local_port(self->server)));
	conn = accept(self->server, (struct sockaddr *)&peer, &len);
	ASSERT_LE(0, conn);
	inet_ntop(AF_INET, &peer.sin_addr, ip, sizeof(ip));
	EXPECT_STREQ("127.0.0.2", ip);
	if (variant->port)
		EXPECT_EQ(variant->port, ntohs(peer.sin_port));
	close(conn);
}

FIXTURE(listen_again)
{
};

FIXTURE_SETUP(listen_again)
{
	if (!has_smc())
		SKIP(return, "needs CONFIG_SMC");
	setup_netns(_metadata);
}

FIXTURE_TEARDOWN(listen_again)
{
}

/* Several sockets can share a port until one of them listens. The fixture makes
 * this the last test: a kernel that calls smc_tcp_syn_recv_sock() from itself does
 * not survive it.
 */
TEST_F(listen_again, accepts)
{
	struct pollfd pfd = { .events = POLLIN };
	int fds[2], client, conn, port, i, one = 1;
	char c = 0;

	for (i = 0; i < 2; i++) {
		fds[i] = socket(AF_SMC, SOCK_STREAM, SMCPROTO_SMC);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, setsockopt(fds[i], SOL_SOCKET, SO_REUSEADDR, &one,
					sizeof(one)));
		ASSERT_EQ(0, bind_to(fds[i], "127.0.0.1", i ? local_port(fds[0]) : 0));
	}
	port = local_port(fds[1]);
	ASSERT_LT(0, port);
	ASSERT_EQ(0, listen(fds[0], 1));
	ASSERT_EQ(-1, listen(fds[1], 1));
	ASSERT_EQ(EADDRINUSE, errno);
	close(fds[0]);
	ASSERT_EQ(0, listen(fds[1], 1));
	ASSERT_EQ(port, local_port(fds[1]));

	client = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, client);
	ASSERT_EQ(0, connect_to(client, "127.0.0.1", port));
	pfd.fd = fds[1];
	ASSERT_EQ(1, poll(&pfd, 1, 10000));
	conn = accept(fds[1], NULL, NULL);
	ASSERT_LE(0, conn);
	ASSERT_EQ(1, send(client, "x", 1, 0));
	ASSERT_EQ(1, recv(conn, &c, 1, 0));
	EXPECT_EQ('x', c);
	close(conn);
	close(client);
	close(fds[1]);
}

TEST_HARNESS_MAIN
