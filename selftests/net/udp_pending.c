// SPDX-License-Identifier: GPL-2.0

/* Test that pending data of a UDP socket and other datagrams keep their addresses. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "kselftest_harness.h"

union addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

FIXTURE(udp_pending)
{
	int first;		/* receivers */
	int second;
	int first6;
	int fd;			/* the sender, of either family */
	int fd6;
};

/* A socket at a port of loopback. */
static int receiver(int family)
{
	const struct timeval second = { .tv_sec = 1 };
	union addr addr = { .sa.sa_family = family };
	int fd = socket(family, SOCK_DGRAM, 0);

	if (family == AF_INET)
		addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		addr.v6.sin6_addr = in6addr_loopback;
	if (fd >= 0 &&
	    (bind(fd, &addr.sa, sizeof(addr)) ||
	     setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The address of @receiver, v4-mapped with @mapped. */
static union addr addr_of(int receiver, bool mapped)
{
	union addr addr = {}, v6 = { .v6.sin6_family = AF_INET6 };
	socklen_t len = sizeof(addr);

	getsockname(receiver, &addr.sa, &len);
	if (!mapped)
		return addr;
	v6.v6.sin6_port = addr.v4.sin_port;
	v6.v6.sin6_addr.s6_addr[10] = 0xff;
	v6.v6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&v6.v6.sin6_addr.s6_addr[12], &addr.v4.sin_addr, 4);
	return v6;
}

static ssize_t send_to(int fd, const char *data, int flags, int receiver, bool mapped)
{
	union addr addr = addr_of(receiver, mapped);

	return sendto(fd, data, strlen(data), flags, &addr.sa, sizeof(addr));
}

static int connect_to(int fd, int receiver, bool mapped)
{
	union addr addr = addr_of(receiver, mapped);

	return connect(fd, &addr.sa, sizeof(addr));
}

/*
 * An IPv6 address that has no route. Where struct flowi6 has this destination, struct
 * flowi4 has 127.0.0.2 as source and 127.0.0.3 as destination.
 */
static int connect_nowhere(int fd)
{
	union addr addr = { .v6.sin6_family = AF_INET6, .v6.sin6_port = htons(9) };

	inet_pton(AF_INET6, "7f00:2:7f00:3::1", &addr.v6.sin6_addr);
	return connect(fd, &addr.sa, sizeof(addr));
}

/* Does @receiver get @data, from loopback? */
static bool receives(int receiver, const char *data)
{
	union addr from = {};
	socklen_t len = sizeof(from);
	char buf[16] = "";

	if (recvfrom(receiver, buf, sizeof(buf) - 1, 0, &from.sa, &len) < 0 ||
	    strcmp(buf, data))
		return false;
	if (from.sa.sa_family == AF_INET)
		return from.v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
	return IN6_IS_ADDR_LOOPBACK(&from.v6.sin6_addr);
}

FIXTURE_SETUP(udp_pending)
{
	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, system("ip link set dev lo up"));

	self->first = receiver(AF_INET);
	self->second = receiver(AF_INET);
	self->first6 = receiver(AF_INET6);
	self->fd = socket(AF_INET, SOCK_DGRAM, 0);
	self->fd6 = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, self->first);
	ASSERT_LE(0, self->second);
	ASSERT_LE(0, self->first6);
	ASSERT_LE(0, self->fd);
	ASSERT_LE(0, self->fd6);
}

FIXTURE_TEARDOWN(udp_pending)
{
	close(self->first);
	close(self->second);
	close(self->first6);
	close(self->fd);
	close(self->fd6);
}

/* connect() does not change where the pending data goes. */
TEST_F(udp_pending, connect_v4)
{
	ASSERT_EQ(1, send_to(self->fd, "a", MSG_MORE, self->first, false));
	ASSERT_EQ(0, connect_to(self->fd, self->second, false));
	ASSERT_EQ(1, send(self->fd, "b", 1, 0));
	EXPECT_TRUE(receives(self->first, "ab"));

	ASSERT_EQ(1, send(self->fd, "c", 1, 0));
	EXPECT_TRUE(receives(self->second, "c"));
}

TEST_F(udp_pending, connect_v4mapped)
{
	ASSERT_EQ(1, send_to(self->fd6, "a", MSG_MORE, self->first6, false));
	ASSERT_EQ(0, connect_to(self->fd6, self->second, true));
	ASSERT_EQ(1, send(self->fd6, "b", 1, 0));
	EXPECT_TRUE(receives(self->first6, "ab"));
}

TEST_F(udp_pending, connect_v6)
{
	union addr addr = addr_of(self->first6, false);

	addr.v6.sin6_port = htons(9);
	ASSERT_EQ(1, send_to(self->fd6, "a", MSG_MORE, self->first6, false));
	ASSERT_EQ(0, connect(self->fd6, &addr.sa, sizeof(addr)));
	ASSERT_EQ(1, send(self->fd6, "b", 1, 0));
	EXPECT_TRUE(receives(self->first6, "ab"));
}

TEST_F(udp_pending, connect_nowhere)
{
	ASSERT_EQ(1, send_to(self->fd6, "a", MSG_MORE, self->first, true));
	ASSERT_EQ(-1, connect_nowhere(self->fd6));
	ASSERT_EQ(ENETUNREACH, errno);
	ASSERT_EQ(1, send(self->fd6, "b", 1, 0));
	EXPECT_TRUE(receives(self->first, "ab"));
}

/* The second part is too long for a datagram. */
TEST_F(udp_pending, too_long)
{
	static char data[65535];

	ASSERT_EQ(1, send_to(self->fd, "a", MSG_MORE, self->first, false));
	ASSERT_EQ(-1, send(self->fd, data, sizeof(data), 0));
	EXPECT_EQ(EMSGSIZE, errno);
}

/* Data that was pending does not change where a connected socket sends to. */
TEST_F(udp_pending, connected)
{
	ASSERT_EQ(0, connect_to(self->fd, self->second, false));
	ASSERT_EQ(1, send_to(self->fd, "a", MSG_MORE, self->first, false));
	ASSERT_EQ(1, send_to(self->fd, "b", 0, self->first, false));
	EXPECT_TRUE(receives(self->first, "ab"));

	ASSERT_EQ(1, send(self->fd, "c", 1, 0));
	EXPECT_TRUE(receives(self->second, "c"));
}

/* An AF_UNSPEC address stands for the peer of connect(), also if that is v4-mapped. */
TEST_F(udp_pending, unspec_v4mapped)
{
	union addr any = { .v6.sin6_family = AF_INET6 }, unspec = {};
	int one = 1, ipv6;
	char c;

	/* Receives IPv6 packets that are sent to v4-mapped addresses. */
	ASSERT_EQ(0, system("ip -6 route add local ::ffff:0:0/96 dev lo"));
	any.v6.sin6_port = addr_of(self->first, true).v6.sin6_port;
	ipv6 = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, ipv6);
	ASSERT_EQ(0, setsockopt(ipv6, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
	ASSERT_EQ(0, bind(ipv6, &any.sa, sizeof(any)));

	ASSERT_EQ(0, connect_to(self->fd6, self->first, true));
	ASSERT_EQ(1, sendto(self->fd6, "a", 1, 0, &unspec.sa, sizeof(unspec)));
	EXPECT_TRUE(receives(self->first, "a"));
	EXPECT_EQ(-1, recv(ipv6, &c, 1, MSG_DONTWAIT));

	ASSERT_EQ(1, sendto(self->fd6, "b", 1, MSG_MORE, &unspec.sa, sizeof(unspec)));
	ASSERT_EQ(1, sendto(self->fd6, "c", 1, 0, &unspec.sa, sizeof(unspec)));
	EXPECT_TRUE(receives(self->first, "bc"));
	EXPECT_EQ(-1, recv(ipv6, &c, 1, MSG_DONTWAIT));
	close(ipv6);
}

TEST_HARNESS_MAIN
