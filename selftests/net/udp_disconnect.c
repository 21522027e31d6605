// SPDX-License-Identifier: GPL-2.0

/* Test that an AF_INET6 socket receives from any peer again after connect(AF_UNSPEC). */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/l2tp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "kselftest_harness.h"

#define PORT		5555		/* of UDP; the connection ID of L2TP/IP */
#define OTHER		"fd00::1"	/* sends, but is never connected to */
#define GROUP		"ff15::1"

#ifndef IPPROTO_L2TP
#define IPPROTO_L2TP	115
#endif

FIXTURE(udp_disconnect)
{
	int fd;
	int sender;
};

FIXTURE_VARIANT(udp_disconnect)
{
	int protocol;
	const char *peer, *to;
};

FIXTURE_VARIANT_ADD(udp_disconnect, udp)
{
	.peer = "::1",
	.to = "::1",
};

FIXTURE_VARIANT_ADD(udp_disconnect, udp_v4mapped)
{
	.peer = "::ffff:127.0.0.1",
	.to = "::1",
};

FIXTURE_VARIANT_ADD(udp_disconnect, udp_group)
{
	.peer = "::1",
	.to = GROUP,
};

FIXTURE_VARIANT_ADD(udp_disconnect, l2tp)
{
	.protocol = IPPROTO_L2TP,
	.peer = "::1",
	.to = "::1",
};

/* The address of any of the protocols. */
union addr {
	struct sockaddr sa;
	struct sockaddr_in6 v6;
	struct sockaddr_l2tpip6 l2tp;
};

static socklen_t make_addr(union addr *addr, int protocol, const char *ip)
{
	*addr = (union addr){ .v6.sin6_family = AF_INET6 };
	inet_pton(AF_INET6, ip, &addr->v6.sin6_addr);
	if (protocol == IPPROTO_L2TP) {
		addr->l2tp.l2tp_conn_id = PORT;
		return sizeof(addr->l2tp);
	}
	if (!protocol)
		addr->v6.sin6_port = htons(PORT);
	return sizeof(addr->v6);
}

FIXTURE_SETUP(udp_disconnect)
{
	const struct timeval second = { .tv_sec = 1 };
	struct ipv6_mreq group;
	union addr addr;
	socklen_t len;

	self->fd = -1;
	self->sender = -1;
	if (unshare(CLONE_NEWNET))
		SKIP(return, "needs root");
	ASSERT_EQ(0, system("ip link set dev lo up"));
	ASSERT_EQ(0, system("ip link add dummy0 up type dummy"));
	ASSERT_EQ(0, system("ip addr add " OTHER "/64 dev dummy0 nodad"));

	self->fd = socket(AF_INET6, SOCK_DGRAM, variant->protocol);
	if (self->fd < 0 && variant->protocol == IPPROTO_L2TP)
		SKIP(return, "needs CONFIG_L2TP_IP");
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)));
	len = make_addr(&addr, variant->protocol, "::");
	ASSERT_EQ(0, bind(self->fd, &addr.sa, len));
	inet_pton(AF_INET6, GROUP, &group.ipv6mr_multiaddr);
	group.ipv6mr_interface = if_nametoindex("dummy0");
	ASSERT_EQ(0, setsockopt(self->fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof(group)));

	/* L2TP/IP delivers control messages alone, which a raw socket can send. */
	self->sender = socket(AF_INET6, variant->protocol ? SOCK_RAW : SOCK_DGRAM,
			      variant->protocol);
	ASSERT_LE(0, self->sender);
	addr = (union addr){ .v6.sin6_family = AF_INET6 };
	inet_pton(AF_INET6, OTHER, &addr.v6.sin6_addr);
	ASSERT_EQ(0, bind(self->sender, &addr.sa, sizeof(addr.v6)));
	ASSERT_EQ(0, setsockopt(self->sender, IPPROTO_IPV6, IPV6_MULTICAST_IF,
				&group.ipv6mr_interface, sizeof(group.ipv6mr_interface)));
}

FIXTURE_TEARDOWN(udp_disconnect)
{
	close(self->fd);
	close(self->sender);
}

/* Whether the socket receives from OTHER. */
static bool receives(struct __test_metadata *_metadata, FIXTURE_DATA(udp_disconnect) *self,
		     const FIXTURE_VARIANT(udp_disconnect) *variant)
{
	/* For L2TP/IP, the header of a control message. */
	const __be32 data[] = { 0, htonl(0xc803000c), htonl(PORT), 0 };
	char buf[sizeof(data)];
	union addr addr;

	make_addr(&addr, variant->protocol, variant->to);
	/* A raw socket takes the port for the protocol. */
	if (variant->protocol)
		addr.v6.sin6_port = 0;
	EXPECT_EQ(sizeof(data), sendto(self->sender, data, sizeof(data), 0, &addr.sa,
				       sizeof(addr.v6)))
		TH_LOG("sendto: %m");
	return recv(self->fd, buf, sizeof(buf), 0) > 0;
}

TEST_F(udp_disconnect, receive)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	union addr addr;
	socklen_t len;

	ASSERT_TRUE(receives(_metadata, self, variant));

	len = make_addr(&addr, variant->protocol, variant->peer);
	ASSERT_EQ(0, connect(self->fd, &addr.sa, len));
	EXPECT_FALSE(receives(_metadata, self, variant))
		TH_LOG("While it is connected to another address.");

	ASSERT_EQ(0, connect(self->fd, &none, sizeof(none)));
	EXPECT_TRUE(receives(_metadata, self, variant))
		TH_LOG("Not after a disconnect.");
}

TEST_HARNESS_MAIN
