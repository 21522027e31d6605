// SPDX-License-Identifier: GPL-2.0

/* Tests that sctp_bindx() changes all addresses or none. */

#include <arpa/inet.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "kselftest_harness.h"

#define PORT		5000
#define LOW_PORT	80
#define NOBODY		65534
#define MAX_ADDRS	8

union addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

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

static bool same_ip(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr,
		       sizeof(a->v6.sin6_addr));
}

static int bindx(int fd, int opt, __u16 port, const char *const *ips)
{
	char buf[MAX_ADDRS * sizeof(union addr)];
	union addr addr;
	socklen_t len;
	int size = 0;

	for (; *ips; ips++) {
		len = make_addr(&addr, *ips, port);
		memcpy(buf + size, &addr, len);
		size += len;
	}
	return setsockopt(fd, IPPROTO_SCTP, opt, buf, size);
}

#define IPS(...)	((const char *const[]){ __VA_ARGS__, NULL })

#define bindx_add(fd, port, ...) \
	bindx(fd, SCTP_SOCKOPT_BINDX_ADD, port, IPS(__VA_ARGS__))
#define bindx_rem(fd, port, ...) \
	bindx(fd, SCTP_SOCKOPT_BINDX_REM, port, IPS(__VA_ARGS__))

static int get_addrs(int fd, int opt, union addr *addrs)
{
	char buf[sizeof(struct sctp_getaddrs) +
		 MAX_ADDRS * sizeof(union addr)] = {};
	struct sctp_getaddrs *get = (struct sctp_getaddrs *)buf;
	socklen_t len = sizeof(buf);
	__u8 *p = get->addrs;
	unsigned int i;

	if (getsockopt(fd, IPPROTO_SCTP, opt, get, &len))
		return -1;
	for (i = 0; i < get->addr_num; i++) {
		memcpy(&addrs[i], p, sizeof(addrs[i]));
		p += addrs[i].sa.sa_family == AF_INET ?
			sizeof(addrs[i].v4) : sizeof(addrs[i].v6);
	}
	return get->addr_num;
}

static int nr_peers(int fd)
{
	union addr addrs[MAX_ADDRS];

	return get_addrs(fd, SCTP_GET_PEER_ADDRS, addrs);
}

static int nr_local(int fd)
{
	union addr addrs[MAX_ADDRS];

	return get_addrs(fd, SCTP_GET_LOCAL_ADDRS, addrs);
}

static bool has_local(int fd, const char *ip)
{
	union addr addrs[MAX_ADDRS], addr;
	int i, nr;

	make_addr(&addr, ip, 0);
	nr = get_addrs(fd, SCTP_GET_LOCAL_ADDRS, addrs);
	for (i = 0; i < nr; i++)
		if (same_ip(&addrs[i], &addr))
			return true;
	return false;
}

static bool has_name(int fd, const char *ip, __u16 port)
{
	socklen_t len = sizeof(union addr);
	union addr name, addr;

	make_addr(&addr, ip, port);
	if (getsockname(fd, &name.sa, &len))
		return false;
	/* The port is at the same offset in both families. */
	return same_ip(&name, &addr) && name.v4.sin_port == addr.v4.sin_port;
}

FIXTURE(sctp_bindx)
{
	int fd;
};

FIXTURE_VARIANT(sctp_bindx)
{
	int family;
	const char *any;
	const char *a;
	const char *b;
	const char *c;
	const char *peer;
	/* Not an address of this host. */
	const char *foreign;
};

FIXTURE_VARIANT_ADD(sctp_bindx, v4)
{
	.family = AF_INET,
	.any = "0.0.0.0",
	.a = "10.0.0.1",
	.b = "10.0.0.2",
	.c = "10.0.0.3",
	.peer = "10.0.0.4",
	.foreign = "192.0.2.1",
};

FIXTURE_VARIANT_ADD(sctp_bindx, v6)
{
	.family = AF_INET6,
	.any = "::",
	.a = "2001:db8::1",
	.b = "2001:db8::2",
	.c = "2001:db8::3",
	.peer = "2001:db8::4",
	.foreign = "2001:db8::99",
};

FIXTURE_VARIANT_ADD(sctp_bindx, v4mapped)
{
	.family = AF_INET6,
	.any = "::",
	.a = "::ffff:10.0.0.1",
	.b = "::ffff:10.0.0.2",
	.c = "::ffff:10.0.0.3",
	.peer = "::ffff:10.0.0.4",
	.foreign = "::ffff:192.0.2.1",
};

static void enable_sysctl(struct __test_metadata *_metadata, const char *path)
{
	FILE *f;

	f = fopen(path, "w");
	ASSERT_NE(NULL, f);
	ASSERT_LT(0, fprintf(f, "1\n"));
	ASSERT_EQ(0, fclose(f));
}

FIXTURE_SETUP(sctp_bindx)
{
	char cmd[64];
	int i;

	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	self->fd = socket(variant->family, SOCK_STREAM, IPPROTO_SCTP);
	if (self->fd < 0 &&
	    (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		SKIP(return, "No SCTP");
	ASSERT_LE(0, self->fd);
	close(self->fd);

	ASSERT_EQ(0, system("ip link set dev lo up"));
	for (i = 1; i <= 4; i++) {
		snprintf(cmd, sizeof(cmd), "ip addr add dev lo 10.0.0.%d/32",
			 i);
		ASSERT_EQ(0, system(cmd));
		snprintf(cmd, sizeof(cmd),
			 "ip addr add dev lo 2001:db8::%d/128 nodad", i);
		ASSERT_EQ(0, system(cmd));
	}

	/* Only new sockets use these. */
	enable_sysctl(_metadata, "/proc/sys/net/sctp/addip_enable");
	enable_sysctl(_metadata, "/proc/sys/net/sctp/addip_noauth_enable");
	self->fd = socket(variant->family, SOCK_STREAM, IPPROTO_SCTP);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(sctp_bindx)
{
	close(self->fd);
}

/* A socket that was not bound is not bound afterwards. */
TEST_F(sctp_bindx, add_unbound)
{
	union addr addr;
	socklen_t len;
	int other;

	ASSERT_EQ(-1, bindx_add(self->fd, PORT, variant->a, variant->foreign,
				variant->b));
	ASSERT_EQ(EADDRNOTAVAIL, errno);
	EXPECT_EQ(0, nr_local(self->fd));
	EXPECT_TRUE(has_name(self->fd, variant->any, 0));

	/* Neither is its port in use. */
	other = socket(variant->family, SOCK_STREAM, IPPROTO_SCTP);
	ASSERT_LE(0, other);
	EXPECT_EQ(0, bindx_add(other, PORT, variant->a));

	len = make_addr(&addr, variant->b, PORT);
	EXPECT_EQ(0, bind(self->fd, &addr.sa, len));
	EXPECT_TRUE(has_name(self->fd, variant->b, PORT));
	EXPECT_EQ(1, nr_local(self->fd));

	close(other);
}

/* A bound socket keeps its address, and its name. */
TEST_F(sctp_bindx, add_bound)
{
	ASSERT_EQ(0, bindx_add(self->fd, PORT, variant->a));
	ASSERT_TRUE(has_name(self->fd, variant->a, PORT));

	ASSERT_EQ(-1, bindx_add(self->fd, PORT, variant->b, variant->c,
				variant->foreign));
	ASSERT_EQ(EADDRNOTAVAIL, errno);
	EXPECT_EQ(1, nr_local(self->fd));
	EXPECT_TRUE(has_local(self->fd, variant->a));
	EXPECT_TRUE(has_name(self->fd, variant->a, PORT));

	EXPECT_EQ(0, bindx_add(self->fd, PORT, variant->b, variant->c));
	EXPECT_EQ(3, nr_local(self->fd));
}

/* One address must remain. */
TEST_F(sctp_bindx, rem_last)
{
	ASSERT_EQ(0, bindx_add(self->fd, PORT, variant->a, variant->b,
			       variant->c));

	ASSERT_EQ(-1, bindx_rem(self->fd, PORT, variant->a, variant->b,
				variant->c));
	ASSERT_EQ(EBUSY, errno);
	EXPECT_EQ(3, nr_local(self->fd));
	EXPECT_TRUE(has_local(self->fd, variant->a));
	EXPECT_TRUE(has_local(self->fd, variant->b));
	EXPECT_TRUE(has_local(self->fd, variant->c));

	EXPECT_EQ(0, bindx_rem(self->fd, PORT, variant->a, variant->b));
	EXPECT_EQ(1, nr_local(self->fd));
	EXPECT_TRUE(has_local(self->fd, variant->c));
}

/* A task that may no longer bind to the port may still keep it. */
TEST_F(sctp_bindx, rem_unprivileged)
{
	ASSERT_EQ(0, bindx_add(self->fd, LOW_PORT, variant->a, variant->b,
			       variant->c));

	ASSERT_EQ(0, seteuid(NOBODY));
	ASSERT_EQ(-1, bindx_rem(self->fd, LOW_PORT, variant->a,
				variant->foreign));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(0, seteuid(0));

	EXPECT_EQ(3, nr_local(self->fd));
	EXPECT_TRUE(has_local(self->fd, variant->a));
	EXPECT_TRUE(has_local(self->fd, variant->b));
	EXPECT_TRUE(has_local(self->fd, variant->c));
}

/* Connect to the peer. Return the socket that accepted. */
static int connect_peer(struct __test_metadata *_metadata,
			FIXTURE_DATA(sctp_bindx) *self,
			const FIXTURE_VARIANT(sctp_bindx) *variant)
{
	int server, conn;
	union addr addr;
	socklen_t len;

	server = socket(variant->family, SOCK_STREAM, IPPROTO_SCTP);
	ASSERT_LE(0, server);
	len = make_addr(&addr, variant->peer, PORT);
	ASSERT_EQ(0, bind(server, &addr.sa, len));
	ASSERT_EQ(0, listen(server, 1));
	ASSERT_EQ(0, connect(self->fd, &addr.sa, len));
	conn = accept(server, NULL, NULL);
	ASSERT_LE(0, conn);
	close(server);
	return conn;
}

/* The peer is notified of the addresses that were added. */
TEST_F(sctp_bindx, add_connected)
{
	int conn;

	ASSERT_EQ(0, bindx_add(self->fd, PORT, variant->a));
	conn = connect_peer(_metadata, self, variant);
	ASSERT_EQ(1, nr_peers(conn));

	ASSERT_EQ(0, bindx_add(self->fd, PORT, variant->b, variant->c));
	EXPECT_EQ(3, nr_local(self->fd));
	/* Until the request arrives. */
	while (nr_peers(conn) == 1)
		sched_yield();
	EXPECT_EQ(3, nr_peers(conn));

	close(conn);
}

/* The peer is notified of the addresses that were removed. */
TEST_F(sctp_bindx, rem_connected)
{
	int conn;

	ASSERT_EQ(0, bindx_add(self->fd, PORT, variant->a, variant->b,
			       variant->c));
	conn = connect_peer(_metadata, self, variant);
	ASSERT_EQ(3, nr_peers(conn));

	ASSERT_EQ(0, bindx_rem(self->fd, PORT, variant->a, variant->b));
	EXPECT_EQ(1, nr_local(self->fd));
	EXPECT_TRUE(has_local(self->fd, variant->c));
	/* Until the request arrives. */
	while (nr_peers(conn) == 3)
		sched_yield();
	EXPECT_EQ(1, nr_peers(conn));

	close(conn);
}

TEST_HARNESS_MAIN
