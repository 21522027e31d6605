// SPDX-License-Identifier: GPL-2.0

/* Tests for bind() on a socket that has an address but no port. */

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <linux/l2tp.h>

#include "kselftest_harness.h"

union addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static const int zero, one = 1;

static socklen_t make_addr(union addr *addr, const char *ip, __u16 port)
{
	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, ip, &addr->v4.sin_addr) == 1) {
		addr->v4.sin_family = AF_INET;
		addr->v4.sin_port = htons(port);
		return sizeof(addr->v4);
	}
	inet_pton(AF_INET6, ip, &addr->v6.sin6_addr);
	addr->v6.sin6_family = AF_INET6;
	addr->v6.sin6_port = htons(port);
	return sizeof(addr->v6);
}

static int bind_to(int fd, const char *ip, __u16 port)
{
	union addr addr;
	socklen_t len;

	len = make_addr(&addr, ip, port);
	return bind(fd, &addr.sa, len);
}

static int connect_to(int fd, const char *ip, __u16 port)
{
	union addr addr;
	socklen_t len;

	len = make_addr(&addr, ip, port);
	return connect(fd, &addr.sa, len);
}

static int disconnect(int fd)
{
	struct sockaddr addr = { .sa_family = AF_UNSPEC };

	return connect(fd, &addr, sizeof(addr));
}

static int local_port(int fd)
{
	socklen_t len = sizeof(union addr);
	union addr addr;

	if (getsockname(fd, &addr.sa, &len))
		return -1;
	/* At the same offset in both families. */
	return ntohs(addr.v4.sin_port);
}

static const char *local_ip(int fd)
{
	static char ip[INET6_ADDRSTRLEN];
	socklen_t len = sizeof(union addr);
	union addr addr;

	if (getsockname(fd, &addr.sa, &len))
		return "";
	if (addr.sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &addr.v4.sin_addr, ip, sizeof(ip));
	else
		inet_ntop(AF_INET6, &addr.v6.sin6_addr, ip, sizeof(ip));
	return ip;
}

FIXTURE(bind_again)
{
	int fd;
	int peer;
	int peer_port;
};

FIXTURE_VARIANT(bind_again)
{
	int family;
	int type;
	int protocol;
	const char *any;
	const char *first;
	const char *second;
	/* The route to it has neither first nor second as its source. */
	const char *peer;
};

#define IPV4						\
	.family = AF_INET,				\
	.any = "0.0.0.0",				\
	.first = "127.0.0.2",				\
	.second = "127.0.0.3",				\
	.peer = "127.0.0.1"

#define IPV6						\
	.family = AF_INET6,				\
	.any = "::",					\
	.first = "2001:db8::2",				\
	.second = "2001:db8::3",			\
	.peer = "::1"

#define MAPPED						\
	.family = AF_INET6,				\
	.any = "::",					\
	.first = "::ffff:127.0.0.2",			\
	.second = "::ffff:127.0.0.3",			\
	.peer = "::ffff:127.0.0.1"

FIXTURE_VARIANT_ADD(bind_again, tcp_v4)
{
	IPV4,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(bind_again, tcp_v6)
{
	IPV6,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(bind_again, tcp_v4mapped)
{
	MAPPED,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(bind_again, udp_v4)
{
	IPV4,
	.type = SOCK_DGRAM,
};

FIXTURE_VARIANT_ADD(bind_again, udp_v6)
{
	IPV6,
	.type = SOCK_DGRAM,
};

FIXTURE_VARIANT_ADD(bind_again, udp_v4mapped)
{
	MAPPED,
	.type = SOCK_DGRAM,
};

FIXTURE_VARIANT_ADD(bind_again, ping_v4)
{
	IPV4,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_ICMP,
};

FIXTURE_VARIANT_ADD(bind_again, ping_v6)
{
	IPV6,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_ICMPV6,
};

static void setup_netns(struct __test_metadata *_metadata)
{
	FILE *f;

	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, system("ip link set dev lo up"));
	ASSERT_EQ(0, system("ip addr add dev lo 2001:db8::2/128 nodad"));
	ASSERT_EQ(0, system("ip addr add dev lo 2001:db8::3/128 nodad"));
	ASSERT_EQ(0, system("ip addr add dev lo fe80::1/64 nodad"));

	f = fopen("/proc/sys/net/ipv4/ping_group_range", "w");
	ASSERT_NE(NULL, f);
	ASSERT_LT(0, fprintf(f, "0 0\n"));
	ASSERT_EQ(0, fclose(f));
}

FIXTURE_SETUP(bind_again)
{
	setup_netns(_metadata);

	self->peer = socket(variant->family, variant->type, variant->protocol);
	ASSERT_LE(0, self->peer);
	ASSERT_EQ(0, bind_to(self->peer, variant->peer, 0));
	self->peer_port = local_port(self->peer);
	if (variant->type == SOCK_STREAM)
		ASSERT_EQ(0, listen(self->peer, 2));

	self->fd = socket(variant->family, variant->type, variant->protocol);
	ASSERT_LE(0, self->fd);
	/* It is set in new ping sockets. */
	ASSERT_EQ(0, setsockopt(self->fd, SOL_SOCKET, SO_REUSEADDR, &zero,
				sizeof(zero)));
}

FIXTURE_TEARDOWN(bind_again)
{
	close(self->fd);
	close(self->peer);
}

/* The port that the kernel chose is released with the connection, but
 * the address stays.
 */
static void bind_first(struct __test_metadata *_metadata,
		       FIXTURE_DATA(bind_again) *self,
		       const FIXTURE_VARIANT(bind_again) *variant)
{
	ASSERT_EQ(0, bind_to(self->fd, variant->first, 0));
	ASSERT_EQ(0, connect_to(self->fd, variant->peer, self->peer_port));
	ASSERT_EQ(0, disconnect(self->fd));
	ASSERT_STREQ(variant->first, local_ip(self->fd));
}

/* Both the second address and its port are in use. */
static void bind_second_fails(struct __test_metadata *_metadata,
			      FIXTURE_DATA(bind_again) *self,
			      const FIXTURE_VARIANT(bind_again) *variant)
{
	int busy;

	busy = socket(variant->family, variant->type, variant->protocol);
	ASSERT_LE(0, busy);
	ASSERT_EQ(0, bind_to(busy, variant->second, 0));

	ASSERT_EQ(-1, bind_to(self->fd, variant->second, local_port(busy)));
	ASSERT_EQ(EADDRINUSE, errno);
	EXPECT_STREQ(variant->first, local_ip(self->fd));

	EXPECT_EQ(0, connect_to(self->fd, variant->peer, self->peer_port));
	EXPECT_STREQ(variant->first, local_ip(self->fd));
	EXPECT_EQ(0, disconnect(self->fd));
	EXPECT_STREQ(variant->first, local_ip(self->fd));

	close(busy);
}

TEST_F(bind_again, fails)
{
	bind_first(_metadata, self, variant);
	bind_second_fails(_metadata, self, variant);
}

TEST_F(bind_again, fails_no_port)
{
	ASSERT_EQ(0, setsockopt(self->fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT,
				&one, sizeof(one)));
	ASSERT_EQ(0, bind_to(self->fd, variant->first, 0));
	if (variant->protocol) {
		/* Ping sockets ignore the option. */
		EXPECT_EQ(-1, bind_to(self->fd, variant->second, 0));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_STREQ(variant->first, local_ip(self->fd));
		return;
	}
	bind_second_fails(_metadata, self, variant);
}

/* An address that connect() selects ends with the connection. */
TEST_F(bind_again, any)
{
	bind_first(_metadata, self, variant);
	ASSERT_EQ(0, bind_to(self->fd, variant->any, 0));
	EXPECT_STREQ(variant->any, local_ip(self->fd));
	ASSERT_EQ(0, connect_to(self->fd, variant->peer, self->peer_port));
	EXPECT_STREQ(variant->peer, local_ip(self->fd));
	ASSERT_EQ(0, disconnect(self->fd));
	EXPECT_STREQ(variant->any, local_ip(self->fd));
}

/* AF_UNSPEC with INADDR_ANY is an IPv4 address, and no IPv6 address. */
TEST_F(bind_again, any_unspec)
{
	union addr addr = {};

	bind_first(_metadata, self, variant);
	if (variant->family == AF_INET) {
		ASSERT_EQ(0, bind(self->fd, &addr.sa, sizeof(addr.v4)));
		EXPECT_STREQ(variant->any, local_ip(self->fd));
	} else {
		EXPECT_EQ(-1, bind(self->fd, &addr.sa, sizeof(addr.v6)));
		EXPECT_EQ(EAFNOSUPPORT, errno);
		EXPECT_STREQ(variant->first, local_ip(self->fd));
	}
}

static int bound_device(int fd)
{
	socklen_t len = sizeof(int);
	int ifindex = -1;

	getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &ifindex, &len);
	return ifindex;
}

/* A bind() to a link-local address of lo fails, and does not bind to lo. */
static void link_local_fails(struct __test_metadata *_metadata, int fd,
			     const char *ip, __u16 port, int err)
{
	union addr addr;
	socklen_t len;

	ASSERT_LE(0, fd);
	len = make_addr(&addr, ip, port);
	addr.v6.sin6_scope_id = if_nametoindex("lo");
	ASSERT_EQ(-1, bind(fd, &addr.sa, len));
	ASSERT_EQ(err, errno);
	EXPECT_EQ(0, bound_device(fd));
	close(fd);
}

/* bind() to a link-local address binds to its device, too. */
TEST(device)
{
	union addr addr;
	socklen_t len;
	int busy;

	setup_netns(_metadata);

	busy = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_LE(0, busy);
	len = make_addr(&addr, "fe80::1", 0);
	addr.v6.sin6_scope_id = if_nametoindex("lo");
	ASSERT_EQ(0, bind(busy, &addr.sa, len));

	link_local_fails(_metadata, socket(AF_INET6, SOCK_STREAM, 0), "fe80::1",
			 local_port(busy), EADDRINUSE);
	link_local_fails(_metadata, socket(AF_INET6, SOCK_STREAM, 0), "fe80::2",
			 0, EADDRNOTAVAIL);
	link_local_fails(_metadata, socket(AF_INET6, SOCK_DGRAM, 0), "fe80::2",
			 0, EADDRNOTAVAIL);
	close(busy);
}

TEST(device_raw)
{
	setup_netns(_metadata);
	link_local_fails(_metadata, socket(AF_INET6, SOCK_RAW, IPPROTO_UDP),
			 "fe80::2", 0, EADDRNOTAVAIL);
}

/* A ping socket that has a port cannot be bound again. */
TEST(device_ping)
{
	int fd;

	setup_netns(_metadata);

	fd = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind_to(fd, "2001:db8::2", 0));
	ASSERT_EQ(0, bound_device(fd));
	link_local_fails(_metadata, fd, "fe80::1", 0, EINVAL);
}

static int bind_l2tp(int fd, const char *ip, __u32 conn_id)
{
	struct sockaddr_l2tpip addr = {
		.l2tp_family = AF_INET,
		.l2tp_conn_id = conn_id,
	};

	inet_pton(AF_INET, ip, &addr.l2tp_addr);
	return bind(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* A socket whose address and connection ID are in use has no address. */
TEST(l2tp)
{
	int busy, fd;

	setup_netns(_metadata);

	busy = socket(AF_INET, SOCK_DGRAM, IPPROTO_L2TP);
	if (busy < 0 && (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		SKIP(return, "No L2TP/IP");
	ASSERT_LE(0, busy);
	ASSERT_EQ(0, bind_l2tp(busy, "127.0.0.2", 1));

	fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_L2TP);
	ASSERT_LE(0, fd);
	ASSERT_EQ(-1, bind_l2tp(fd, "127.0.0.2", 1));
	ASSERT_EQ(EADDRINUSE, errno);
	ASSERT_EQ(0, bind_l2tp(fd, "0.0.0.0", 2));
	EXPECT_STREQ("0.0.0.0", local_ip(fd));
	close(fd);
	close(busy);
}

/* A socket that is bound to an IPv6 address has no IPv4 source. bind() sets
 * IPV6_V6ONLY, but without a port it can be cleared again.
 */
static int bind_v6_clear_v6only(struct __test_metadata *_metadata, int type,
				const char *ip)
{
	int fd;

	fd = socket(AF_INET6, type, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one,
				sizeof(one)));
	ASSERT_EQ(0, bind_to(fd, ip, 0));
	ASSERT_EQ(0, local_port(fd));
	ASSERT_EQ(0, setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &zero,
				sizeof(zero)));
	return fd;
}

static ssize_t send_to(int fd, const char *ip, __u16 port)
{
	union addr addr;
	socklen_t len = make_addr(&addr, ip, port);

	return sendto(fd, "x", 1, 0, &addr.sa, len);
}

TEST(tcp_v6_to_v4mapped)
{
	int fd, peer;

	setup_netns(_metadata);

	peer = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, peer);
	ASSERT_EQ(0, bind_to(peer, "127.0.0.1", 0));
	ASSERT_EQ(0, listen(peer, 1));

	fd = bind_v6_clear_v6only(_metadata, SOCK_STREAM, "2001:db8::2");
	EXPECT_EQ(-1, connect_to(fd, "::ffff:127.0.0.1", local_port(peer))) {
		TH_LOG("connected from %s", local_ip(fd));
	}
	EXPECT_EQ(ENETUNREACH, errno);
	close(fd);
	close(peer);
}

TEST(udp_v6_to_v4mapped)
{
	static const char * const sources[] = { "2001:db8::2", "ff0e::1" };
	static const char * const peers[] = { "::ffff:127.0.0.1", "127.0.0.1" };
	int fd, peer, port;
	size_t i, j;

	setup_netns(_metadata);

	peer = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, peer);
	ASSERT_EQ(0, bind_to(peer, "127.0.0.1", 0));
	port = local_port(peer);

	for (i = 0; i < ARRAY_SIZE(sources); i++)
		for (j = 0; j < ARRAY_SIZE(peers); j++) {
			fd = bind_v6_clear_v6only(_metadata, SOCK_DGRAM, sources[i]);
			EXPECT_EQ(-1, send_to(fd, peers[j], port)) {
				TH_LOG("sent to %s", peers[j]);
			}
			EXPECT_EQ(ENETUNREACH, errno);
			EXPECT_EQ(-1, connect_to(fd, peers[j], port)) {
				TH_LOG("connected to %s", peers[j]);
			}
			EXPECT_EQ(ENETUNREACH, errno);
			close(fd);
		}
	close(peer);
}

/* Does @to receive a datagram from @port of 127.0.0.6 that is sent to 127.0.0.6 and its port?
 * If not, the sender gets ECONNREFUSED.
 */
static bool receives_at_no_ipv4(struct __test_metadata *_metadata, int to, __u16 port)
{
	int from = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd fds[] = {
		{ .fd = to, .events = POLLIN },
		{ .fd = from },
	};
	bool received;
	char c;

	ASSERT_LE(0, from);
	ASSERT_EQ(0, bind_to(from, "127.0.0.6", port));
	ASSERT_EQ(0, connect_to(from, "127.0.0.6", local_port(to)));
	ASSERT_EQ(1, send(from, "x", 1, 0));
	ASSERT_LT(0, poll(fds, 2, 10000));
	received = recv(to, &c, 1, MSG_DONTWAIT) == 1;
	if (!received) {
		EXPECT_EQ(-1, recv(from, &c, 1, MSG_DONTWAIT));
		EXPECT_EQ(ECONNREFUSED, errno);
	}
	close(from);
	return received;
}

TEST(udp_v6_receives_no_ipv4)
{
	int fd;

	setup_netns(_metadata);

	/* Bound to an IPv6 address; sending selects a port. */
	fd = bind_v6_clear_v6only(_metadata, SOCK_DGRAM, "2001:db8::2");
	ASSERT_EQ(1, send_to(fd, "2001:db8::3", 9));
	ASSERT_NE(0, local_port(fd));
	EXPECT_FALSE(receives_at_no_ipv4(_metadata, fd, 0));
	close(fd);

	/* Connected over IPv6. */
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect_to(fd, "2001:db8::3", 9));
	EXPECT_FALSE(receives_at_no_ipv4(_metadata, fd, 9));
	close(fd);

	/* Control: 127.0.0.6 can be the address of a socket. */
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind_to(fd, "::ffff:127.0.0.6", 0));
	EXPECT_TRUE(receives_at_no_ipv4(_metadata, fd, 0));
	close(fd);
}

TEST_HARNESS_MAIN
