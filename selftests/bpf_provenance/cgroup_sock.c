// SPDX-License-Identifier: GPL-2.0
/*
 * The cgroup hooks on bind() and connect().
 *
 *  bpf_bind.*	bpf_bind() from connect4, in the context of connect(): an IPv6
 *		address on an IPv4 socket is refused and the connection continues;
 *		an IPv4 address works on an IPv4 socket, and on an IPv6 one that
 *		is connected to an IPv4 address, where a v4-mapped one works too.
 *  hooks.*	The family that programs see if the caller passed AF_UNSPEC; which
 *		sends of a connected UDPv6 socket run sendmsg4; which callers may
 *		send packets to an address other than the one that is checked;
 *		the state of an earlier bind() after a refused or repeated one.
 *  autobind.*	Values that BPF_CGROUP_INET_AUTOBIND accepts and refuses, and the
 *		state it leaves; which programs of its type load and attach.
 *  one_ip.*	Two services and a client in one cgroup, on a host with several
 *		addresses: their local addresses, and their source on the wire.
 *		And programs that are attached and detached while sockets are bound,
 *		or while random calls are made on sockets of each protocol.
 *  sctp.*	Several addresses, if one is refused or if they become the same;
 *		one association for one peer; the state after a refusal; which
 *		cgroup's programs accepted and peeled off sockets run.
 *  known.*	Policies modelled on existing ones, and protocols that were added
 *		after them.
 *  matrix.*	Every way to a local address or a peer, by protocol and form of
 *		address: which hooks run, the values they see, that they are obeyed.
 *  fail_nth.*	The same with a fault in each memory allocation and each copy from
 *		user space.
 *
 * All run in the context of a task's system calls.
 *
 * Where bpf_bind() does not check the family, the *_v6_addr tests oops in
 * __inet6_bind(): they are skipped without MAY_END_KERNEL=1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/compiler.h>
#include <linux/genetlink.h>
#include <linux/io_uring.h>
#include <linux/rtnetlink.h>
#include <linux/sctp.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <netinet/in.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "../kselftest_harness.h"
#include "autobind.h"
#include "cgroup_sock.h"
#include "cgroup_sock.skel.h"
#include "common.h"
#include "fail_nth.h"
#include "fuzz.h"
#include "net.h"

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
	if (variant->result == -EAFNOSUPPORT && !may_end_kernel())
		SKIP(return, NEEDS_TO_END_KERNEL);
	self->skel = cgroup_sock__open();
	ASSERT_NE(NULL, self->skel);
	bpf_program__set_autoload(self->skel->progs.one_ip_autobind, false);
	ASSERT_EQ(0, cgroup_sock__load(self->skel));
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
		SKIP(return, "needs CONFIG_IPV6");
	ASSERT_LE(0, fd);
	close(fd);

	/* Last, so that a failure above leaves no cgroup. */
	self->cgroup = cgroup_enter(CGROUP);
	if (self->cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
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

	/* A socket belongs to the cgroup that created it. */
	self->client = socket(variant->domain, variant->type, 0);
	ASSERT_LE(0, self->client);
	ASSERT_EQ(0, connect(self->client, (void *)&self->peer, sizeof(self->peer)));
	EXPECT_EQ(1, self->skel->bss->connect4_runs);
	EXPECT_EQ(variant->result, self->skel->bss->bind_result);

	/* The source seen by the server, not by the client. */
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

/*
 * The policy programs. On a kernel without AUTOBIND, all except that one: tests then detect
 * that it is missing.
 */
static struct cgroup_sock *load_policy(void)
{
	struct cgroup_sock *skel = cgroup_sock__open();

	if (!skel)
		return NULL;
	skel->data->wait_scale = timeout_scale();
	bpf_program__set_autoload(skel->progs.bind_in_connect4, false);
	bpf_program__set_autoload(skel->progs.one_ip_autobind, has_autobind());
	use_all_protocols(skel->obj);
	if (!cgroup_sock__load(skel))
		return skel;
	cgroup_sock__destroy(skel);
	return NULL;
}

/*
 * Loaded once by the parent of the tests: to relocate, load and verify the programs takes
 * longer than most tests. A test is a child that inherits the descriptors and the mapping of
 * the global variables. Programs can change only these variables here, and links belong to the
 * test that attached them.
 */
static struct cgroup_sock *shared_policy;

static struct cgroup_sock *open_policy(void)
{
	if (!shared_policy)
		shared_policy = load_policy();
	if (shared_policy)
		memset(shared_policy->bss, 0, sizeof(*shared_policy->bss));
	return shared_policy;
}

/* Number of these programs in @cgroup that are not this test's. */
static int count_foreign(const struct cgroup_sock *skel, int cgroup)
{
	struct bpf_program *prog;
	__u32 nr, all = 0;

	bpf_object__for_each_program(prog, skel->obj) {
		if (bpf_program__fd(prog) < 0 || bpf_program__type(prog) == BPF_PROG_TYPE_TRACING)
			continue;
		nr = 0;
		if (bpf_prog_query(cgroup, bpf_program__expected_attach_type(prog), 0, NULL, NULL,
				   &nr))
			return -errno;
		all += nr;
	}
	return all;
}

static int attach_policy(struct cgroup_sock *skel, int cgroup)
{
	struct {
		struct bpf_program *prog;
		struct bpf_link **link;
	} all[] = {
		{ skel->progs.one_ip_bind4, &skel->links.one_ip_bind4 },
		{ skel->progs.one_ip_bind6, &skel->links.one_ip_bind6 },
		{ skel->progs.one_ip_post_bind4, &skel->links.one_ip_post_bind4 },
		{ skel->progs.one_ip_post_bind6, &skel->links.one_ip_post_bind6 },
		{ skel->progs.one_ip_connect4, &skel->links.one_ip_connect4 },
		{ skel->progs.one_ip_connect6, &skel->links.one_ip_connect6 },
		{ skel->progs.one_ip_sendmsg4, &skel->links.one_ip_sendmsg4 },
		{ skel->progs.one_ip_sendmsg6, &skel->links.one_ip_sendmsg6 },
		{ skel->progs.one_ip_autobind, &skel->links.one_ip_autobind },
		{ skel->progs.one_ip_egress, &skel->links.one_ip_egress },
	};
	int i;

	for (i = 0; i < (int)ARRAY_LEN(all); i++) {
		if (bpf_program__fd(all[i].prog) < 0)
			continue;
		*all[i].link = bpf_program__attach_cgroup(all[i].prog, cgroup);
		if (!*all[i].link)
			return -errno;
	}
	return 0;
}

/* The policy of the tests on @net: VIRT is redirected to PEER. */
static void set_policy(struct policy *p, const struct net *net)
{
	memset(p, 0, sizeof(*p));
	inet_pton(AF_INET, PIN4, &p->pin4);
	inet_pton(AF_INET6, PIN6, p->pin6);
	inet_pton(AF_INET, VIRT4, &p->from4);
	inet_pton(AF_INET6, VIRT6, p->from6);
	inet_pton(AF_INET, PEER4, &p->to4);
	inet_pton(AF_INET6, PEER6, p->to6);
	p->netns = net->cookie;
}

/*
 * A cgroup and a network for the caller, and the programs with the policy of the
 * tests, not attached yet. NULL if the test is skipped.
 */
static struct cgroup_sock *enter_policy(struct __test_metadata *_metadata, int *cgroup,
					struct net *net)
{
	struct cgroup_sock *skel;
	int err;

	*cgroup = cgroup_enter(CGROUP);
	if (*cgroup == -EOPNOTSUPP)
		SKIP(return NULL, NEEDS_CGROUP2);
	ASSERT_LE(0, *cgroup);
	err = net_setup(net);
	if (err == -EOPNOTSUPP) {
		cgroup_leave(CGROUP);
		SKIP(return NULL, NEEDS_NET);
	}
	ASSERT_EQ(0, err);
	skel = open_policy();
	ASSERT_NE(NULL, skel);
	/* None left by another test. */
	ASSERT_EQ(0, count_foreign(skel, *cgroup));
	set_policy(&skel->bss->policy, net);
	return skel;
}

FIXTURE(hooks)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup;
};

FIXTURE_SETUP(hooks)
{
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	ASSERT_EQ(0, attach_policy(self->skel, self->cgroup));
}

FIXTURE_TEARDOWN(hooks)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

TEST_F(hooks, unspec_bind)
{
	struct seen *seen = &self->skel->bss->seen[BIND4];
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	make_addr(&a, "0.0.0.0", 0);
	a.sa.sa_family = AF_UNSPEC;
	ASSERT_EQ(0, bind(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(1, seen->runs);
	EXPECT_EQ(AF_INET, seen->user_family);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	close(fd);

	/* Refused as before, without running a program. */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	make_addr(&a, OTHER4, 0);
	a.sa.sa_family = AF_UNSPEC;
	EXPECT_EQ(-1, bind(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	EXPECT_EQ(1, seen->runs);
	close(fd);
}

TEST_F(hooks, unspec_sendto)
{
	struct seen *seen = &self->skel->bss->seen[SENDMSG4];
	socklen_t len = sizeof(union addr);
	union addr a, from;
	int fd, server;
	char c;

	server = peer_socket(&self->net, AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PEER4, 0)));
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	make_addr(&a, VIRT4, port_of(server));
	a.sa.sa_family = AF_UNSPEC;
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in)));
	EXPECT_EQ(1, seen->runs);
	ASSERT_EQ(AF_INET, seen->user_family);
	/* The caller's address is unchanged. */
	EXPECT_EQ(AF_UNSPEC, a.sa.sa_family);
	ASSERT_EQ(1, recvfrom(server, &c, 1, 0, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, PIN4));
	close(fd);
	close(server);
}

TEST_F(hooks, mapped_connected_send)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	union addr peer;
	int fd, server, i;
	socklen_t len;
	char c;

	server = peer_socket(&self->net, AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &peer.sa, make_addr(&peer, PEER4, 0)));
	len = make_addr(&peer, "::ffff:" PEER4, port_of(server));
	policy->mapped = 1;
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &peer.sa, len));
	EXPECT_EQ(1, seen[CONNECT6].runs);

	/* connect6 already checked the peer. */
	policy->deny = 1 << SENDMSG4;
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(1, send(fd, "x", 1, 0));
		ASSERT_EQ(1, recv(server, &c, 1, 0));
	}
	EXPECT_EQ(0, seen[SENDMSG4].runs);

	/* An explicit address is checked, even the same one. */
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &peer.sa, len));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(1, seen[SENDMSG4].runs);
	close(fd);
	close(server);
}

/*
 * With an AF_UNSPEC address, a connected AF_INET6 socket sends to its peer, which programs at
 * connect have checked: to a v4-mapped one by IPv4.
 */
TEST_F(hooks, unspec_for_mapped_peer)
{
	struct policy *policy = &self->skel->bss->policy;
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(union addr);
	union addr a, from;
	int fd, server;
	char buf[4];

	server = peer_socket(&self->net, AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PEER4, 0)));
	policy->mapped = 1;
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, "::ffff:" PEER4, port_of(server))));
	policy->deny = 1 << SENDMSG4 | 1 << SENDMSG6;
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &unspec, sizeof(unspec)))
		TH_LOG("%m");
	ASSERT_EQ(1, recvfrom(server, buf, sizeof(buf), 0, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, PIN4));
	ASSERT_EQ(1, sendto(fd, "y", 1, MSG_MORE, &unspec, sizeof(unspec)));
	ASSERT_EQ(1, sendto(fd, "z", 1, 0, &unspec, sizeof(unspec)));
	EXPECT_EQ(2, recv(server, buf, sizeof(buf), 0));
	close(fd);
	close(server);
}

TEST_F(hooks, routing_header_needs_cap)
{
	/* Segment routing via ::1, in the layout of struct ipv6_sr_hdr. */
	unsigned char srh[24] = { [1] = 2, [2] = 4, [23] = 1 };
	/* sendmsg() accepts only a Mobile IPv6 header. */
	unsigned char rt2[24] = { [1] = 2, [2] = 2, [3] = 1 };
	char control[CMSG_SPACE(sizeof(rt2))] __aligned(8) = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	union addr to;
	struct msghdr msg = {
		.msg_name = &to, .msg_namelen = make_addr(&to, PEER6, 9),
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	bool mip6;
	int fd;

	inet_pton(AF_INET6, PEER6, rt2 + 8);
	cmsg->cmsg_level = IPPROTO_IPV6;
	cmsg->cmsg_type = IPV6_RTHDR;
	cmsg->cmsg_len = CMSG_LEN(sizeof(rt2));
	memcpy(CMSG_DATA(cmsg), rt2, sizeof(rt2));
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, srh, sizeof(srh)));
	EXPECT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, NULL, 0));
	mip6 = sendmsg(fd, &msg, 0) == 1;
	ASSERT_TRUE(mip6 || errno == EINVAL);
	ASSERT_EQ(0, drop_cap(CAP_NET_RAW));
	if (mip6) {	/* CONFIG_IPV6_MIP6 */
		EXPECT_EQ(-1, sendmsg(fd, &msg, 0));
		EXPECT_EQ(EPERM, errno);
	}
	EXPECT_EQ(-1, setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, srh, sizeof(srh)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, NULL, 0));
	srh[2] = 77;
	EXPECT_EQ(-1, setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, srh, sizeof(srh)));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
}

/*
 * The matrix: all ways to get a local address or reach a peer, for each protocol and each form
 * of address. "late": a port is chosen after bind() with IP_BIND_ADDRESS_NO_PORT; "iou": by
 * io_uring; "on6": AF_INET addresses on AF_INET6 sockets; "unspec": AF_UNSPEC ones on AF_INET
 * sockets.
 */
enum proto { TCP, MPTCP, UDP, PING, RAW, HDRINCL, SCTP1, SCTPN, PROTOS };
enum form { INET, INET6, MAPPED, ON6, UNSPEC, FORMS };
enum op {
	BIND, LISTEN, CONNECT, FASTOPEN, SENDTO, PKTINFO, LATE_LISTEN, LATE_CONNECT,
	LATE_SENDTO, IOU_LISTEN, IOU_CONNECT, IOU_SEND, BINDX, CONNECTX, DSTADDR, OPS
};

static const char * const proto_names[] = {
	"tcp", "mptcp", "udp", "ping", "raw", "hdrincl", "sctp_stream", "sctp_seqpacket",
};

static const char * const form_names[] = { "inet", "inet6", "mapped", "inet_on_6", "unspec" };
static const char * const op_names[] = {
	"bind", "listen", "connect", "fastopen", "sendto", "pktinfo", "late_listen",
	"late_connect", "late_sendto", "io_uring_listen", "io_uring_connect", "io_uring_send",
	"bindx", "connectx", "dstaddr",
};

static const char * const hook_names[] = {
	"bind4", "bind6", "post_bind4", "post_bind6", "connect4", "connect6", "sendmsg4",
	"sendmsg6", "autobind", "egress",
};

/*
 * The tested cells, and the hooks that must run there, each once. The programs at connect4 and
 * connect6 set the source with bpf_bind(), and leave the port of a stream socket to the kernel:
 * autobind.
 */
#define H(hook) (1 << (hook))
#define STREAM_CELLS(X, P)						\
	X(P, INET, BIND, H(BIND4) | H(POST_BIND4))			\
	X(P, INET, LISTEN, H(AUTOBIND))					\
	X(P, INET, CONNECT, H(CONNECT4) | H(AUTOBIND))	\
	X(P, INET, FASTOPEN, H(CONNECT4) | H(AUTOBIND))	\
	X(P, INET, LATE_LISTEN, H(BIND4) | H(AUTOBIND))		\
	X(P, INET, LATE_CONNECT, H(BIND4) | H(CONNECT4) | H(AUTOBIND)) \
	X(P, INET, IOU_LISTEN, H(AUTOBIND))				\
	X(P, INET, IOU_CONNECT, H(CONNECT4) | H(AUTOBIND))	\
	X(P, INET6, BIND, H(BIND6) | H(POST_BIND6))			\
	X(P, INET6, LISTEN, H(AUTOBIND))				\
	X(P, INET6, CONNECT, H(CONNECT6) | H(AUTOBIND))	\
	X(P, INET6, FASTOPEN, H(CONNECT6) | H(AUTOBIND))	\
	X(P, INET6, LATE_LISTEN, H(BIND6) | H(AUTOBIND))		\
	X(P, INET6, LATE_CONNECT, H(BIND6) | H(CONNECT6) | H(AUTOBIND)) \
	X(P, INET6, IOU_LISTEN, H(AUTOBIND))				\
	X(P, INET6, IOU_CONNECT, H(CONNECT6) | H(AUTOBIND))	\
	X(P, MAPPED, BIND, H(BIND6) | H(POST_BIND6))			\
	X(P, MAPPED, LISTEN, H(AUTOBIND))				\
	X(P, MAPPED, CONNECT, H(CONNECT6) | H(AUTOBIND))	\
	X(P, MAPPED, FASTOPEN, H(CONNECT6) | H(AUTOBIND))	\
	X(P, MAPPED, LATE_LISTEN, H(BIND6) | H(AUTOBIND))		\
	X(P, MAPPED, LATE_CONNECT, H(BIND6) | H(CONNECT6) | H(AUTOBIND)) \
	X(P, MAPPED, IOU_LISTEN, H(AUTOBIND))				\
	X(P, MAPPED, IOU_CONNECT, H(CONNECT6) | H(AUTOBIND))	\
	X(P, UNSPEC, BIND, H(BIND4) | H(POST_BIND4))			\
	X(P, UNSPEC, LATE_LISTEN, H(BIND4) | H(AUTOBIND))		\
	X(P, UNSPEC, LATE_CONNECT, H(BIND4) | H(CONNECT4) | H(AUTOBIND))

#define UDP_CELLS(X)							\
	X(UDP, INET, BIND, H(BIND4) | H(POST_BIND4))			\
	X(UDP, INET, CONNECT, H(CONNECT4) | H(AUTOBIND))		\
	X(UDP, INET, SENDTO, H(AUTOBIND) | H(SENDMSG4))			\
	X(UDP, INET, PKTINFO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, INET, LATE_CONNECT, H(BIND4) | H(CONNECT4) | H(AUTOBIND)) \
	X(UDP, INET, LATE_SENDTO, H(BIND4) | H(AUTOBIND) | H(SENDMSG4)) \
	X(UDP, INET, IOU_CONNECT, H(CONNECT4) | H(AUTOBIND))		\
	X(UDP, INET, IOU_SEND, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, INET6, BIND, H(BIND6) | H(POST_BIND6))			\
	X(UDP, INET6, CONNECT, H(CONNECT6) | H(AUTOBIND))		\
	X(UDP, INET6, SENDTO, H(AUTOBIND) | H(SENDMSG6))		\
	X(UDP, INET6, PKTINFO, H(AUTOBIND) | H(SENDMSG6))		\
	X(UDP, INET6, LATE_CONNECT, H(BIND6) | H(CONNECT6) | H(AUTOBIND)) \
	X(UDP, INET6, LATE_SENDTO, H(BIND6) | H(AUTOBIND) | H(SENDMSG6)) \
	X(UDP, INET6, IOU_CONNECT, H(CONNECT6) | H(AUTOBIND))		\
	X(UDP, INET6, IOU_SEND, H(AUTOBIND) | H(SENDMSG6))		\
	X(UDP, MAPPED, BIND, H(BIND6) | H(POST_BIND6))			\
	X(UDP, MAPPED, CONNECT, H(CONNECT6) | H(AUTOBIND))		\
	X(UDP, MAPPED, SENDTO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, MAPPED, PKTINFO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, MAPPED, LATE_CONNECT, H(BIND6) | H(CONNECT6) | H(AUTOBIND)) \
	X(UDP, MAPPED, LATE_SENDTO, H(BIND6) | H(AUTOBIND) | H(SENDMSG4)) \
	X(UDP, MAPPED, IOU_CONNECT, H(CONNECT6) | H(AUTOBIND))	\
	X(UDP, MAPPED, IOU_SEND, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, ON6, CONNECT, H(CONNECT4) | H(AUTOBIND))		\
	X(UDP, ON6, SENDTO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, ON6, PKTINFO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, ON6, IOU_CONNECT, H(CONNECT4) | H(AUTOBIND))	\
	X(UDP, ON6, IOU_SEND, H(AUTOBIND) | H(SENDMSG4))	\
	X(UDP, UNSPEC, BIND, H(BIND4) | H(POST_BIND4))			\
	X(UDP, UNSPEC, SENDTO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, UNSPEC, PKTINFO, H(AUTOBIND) | H(SENDMSG4))		\
	X(UDP, UNSPEC, LATE_CONNECT, H(BIND4) | H(CONNECT4) | H(AUTOBIND)) \
	X(UDP, UNSPEC, LATE_SENDTO, H(BIND4) | H(AUTOBIND) | H(SENDMSG4)) \
	X(UDP, UNSPEC, IOU_SEND, H(AUTOBIND) | H(SENDMSG4))

/*
 * Only egress programs see a source that autobind did not choose. ICMPv6 ignores one in a
 * control message if the socket has an address.
 */
#define PING_CELLS(X)							\
	X(PING, INET, BIND, H(BIND4) | H(POST_BIND4))			\
	X(PING, INET, CONNECT, H(CONNECT4) | H(AUTOBIND))		\
	X(PING, INET, SENDTO, H(AUTOBIND))				\
	X(PING, INET, PKTINFO, H(AUTOBIND))				\
	X(PING, INET, IOU_CONNECT, H(CONNECT4) | H(AUTOBIND))		\
	X(PING, INET, IOU_SEND, H(AUTOBIND))				\
	X(PING, INET6, BIND, H(BIND6) | H(POST_BIND6))			\
	X(PING, INET6, CONNECT, H(CONNECT6) | H(AUTOBIND))		\
	X(PING, INET6, SENDTO, H(AUTOBIND))				\
	X(PING, INET6, PKTINFO, H(AUTOBIND))				\
	X(PING, INET6, IOU_CONNECT, H(CONNECT6) | H(AUTOBIND))		\
	X(PING, INET6, IOU_SEND, H(AUTOBIND))				\
	X(PING, UNSPEC, BIND, H(BIND4) | H(POST_BIND4))

/* Only egress sees the packets of a raw socket. */
#define RAW_CELLS(X, P)							\
	X(P, INET, BIND, H(BIND4) | H(POST_BIND4))			\
	X(P, INET, CONNECT, H(CONNECT4))				\
	X(P, INET, SENDTO, H(EGRESS))					\
	X(P, INET, PKTINFO, H(EGRESS))					\
	X(P, INET, IOU_CONNECT, H(CONNECT4))				\
	X(P, INET, IOU_SEND, H(EGRESS))					\
	X(P, INET6, BIND, H(BIND6) | H(POST_BIND6))			\
	X(P, INET6, CONNECT, H(CONNECT6))				\
	X(P, INET6, SENDTO, H(EGRESS))					\
	X(P, INET6, PKTINFO, H(EGRESS))					\
	X(P, INET6, IOU_CONNECT, H(CONNECT6))				\
	X(P, INET6, IOU_SEND, H(EGRESS))				\
	X(P, UNSPEC, BIND, H(BIND4) | H(POST_BIND4))			\
	X(P, UNSPEC, SENDTO, H(EGRESS))					\
	X(P, UNSPEC, PKTINFO, H(EGRESS))				\
	X(P, UNSPEC, IOU_SEND, H(EGRESS))

/*
 * A send that connects runs connect. The port is chosen for a connection that connect has seen:
 * autobind runs only for listen().
 */
#define SCTP_FORM_CELLS(X, P, F, B, PB, C)				\
	X(P, F, BIND, H(B) | H(PB))					\
	X(P, F, BINDX, H(B) | H(PB))					\
	X(P, F, CONNECT, H(C))						\
	X(P, F, CONNECTX, H(C))						\
	X(P, F, SENDTO, H(C))						\
	X(P, F, DSTADDR, H(C))						\
	X(P, F, IOU_CONNECT, H(C))					\
	X(P, F, IOU_SEND, H(C))
#define SCTP_CELLS(X, P)						\
	SCTP_FORM_CELLS(X, P, INET, BIND4, POST_BIND4, CONNECT4)	\
	SCTP_FORM_CELLS(X, P, INET6, BIND6, POST_BIND6, CONNECT6)	\
	SCTP_FORM_CELLS(X, P, MAPPED, BIND6, POST_BIND6, CONNECT6)	\
	SCTP_FORM_CELLS(X, P, ON6, BIND4, POST_BIND6, CONNECT4)		\
	X(P, INET, LISTEN, H(AUTOBIND))					\
	X(P, INET, IOU_LISTEN, H(AUTOBIND))				\
	X(P, INET6, LISTEN, H(AUTOBIND))				\
	X(P, INET6, IOU_LISTEN, H(AUTOBIND))				\
	X(P, MAPPED, LISTEN, H(AUTOBIND))				\
	X(P, MAPPED, IOU_LISTEN, H(AUTOBIND))

#define CELLS(X)							\
	STREAM_CELLS(X, TCP) STREAM_CELLS(X, MPTCP) UDP_CELLS(X)	\
	PING_CELLS(X) RAW_CELLS(X, RAW) RAW_CELLS(X, HDRINCL)		\
	SCTP_CELLS(X, SCTP1) SCTP_CELLS(X, SCTPN)

struct cell {
	enum proto proto;
	enum form form;
	enum op op;
	unsigned int hooks;
};

static const struct cell cells[] = {
#define X(p, f, o, h) { p, f, o, h },
	CELLS(X)
#undef X
};

FIXTURE(matrix)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup, server, port;
};

FIXTURE_VARIANT(matrix)
{
	struct cell cell;
};

#define X(p, f, o, h) FIXTURE_VARIANT_ADD(matrix, p ## _ ## f ## _ ## o) { .cell = { p, f, o, h } };
CELLS(X)
#undef X

static bool is_v6_form(enum form f)
{
	return f == INET6;
}

/* Socket domain and address text for this form. */
static int domain_of(enum form f)
{
	return f == INET || f == UNSPEC ? AF_INET : AF_INET6;
}

static const char *text_of(enum form f, const char *v4, const char *v6)
{
	static char mapped[8 + INET_ADDRSTRLEN];

	if (f == INET6)
		return v6;
	if (f != MAPPED)
		return v4;
	snprintf(mapped, sizeof(mapped), "::ffff:%s", v4);
	return mapped;
}

/* Address text that a socket of this form reports. */
static const char *name_of(enum form f, const char *v4, const char *v6)
{
	return text_of(f == ON6 ? MAPPED : f, v4, v6);
}

static bool is_sctp(enum proto p)
{
	return p == SCTP1 || p == SCTPN;
}

static bool is_raw(enum proto p)
{
	return p == RAW || p == HDRINCL;
}

static int type_of(enum proto p)
{
	return is_raw(p) ? SOCK_RAW : p == UDP || p == PING ? SOCK_DGRAM :
	       p == SCTPN ? SOCK_SEQPACKET : SOCK_STREAM;
}

/* Of a socket; programs see MPTCP as TCP. */
static int protocol_of(enum proto p, int domain)
{
	return is_raw(p) ? IPPROTO_TEST : is_sctp(p) ? IPPROTO_SCTP :
	       p == PING ? domain == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP :
	       p == MPTCP ? IPPROTO_MPTCP : p == UDP ? IPPROTO_UDP : IPPROTO_TCP;
}

static bool has_proto(enum proto p)
{
	int fd = socket(AF_INET6, type_of(p), protocol_of(p, AF_INET6));

	if (fd < 0)
		return errno != EPROTONOSUPPORT && errno != ESOCKTNOSUPPORT;
	close(fd);
	return true;
}

#define NEEDS_SCTP "needs CONFIG_IP_SCTP"
#define NEEDS_MPTCP "needs CONFIG_MPTCP and CONFIG_MPTCP_IPV6"
#define NEEDS_SCTP_AND_MPTCP "needs CONFIG_IP_SCTP, CONFIG_MPTCP and CONFIG_MPTCP_IPV6"

static bool has_sctp_and_mptcp(void)
{
	return has_proto(SCTP1) && has_proto(MPTCP);
}

static bool is_uring(enum op o)
{
	return o == IOU_LISTEN || o == IOU_CONNECT || o == IOU_SEND;
}

static bool has_uring(void)
{
	const struct io_uring_sqe nop = { .opcode = IORING_OP_NOP };

	return uring_do(&nop, 1000 * timeout_scale()) != -ENOSYS;
}

/* Timeouts for a peer, and for calls that a program must refuse at once. */
#define PEER_MS (2000 * timeout_scale())
#define REFUSED_MS (100 * timeout_scale())

static int set_patience(int fd, int ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) ? -errno : 0;
}

/* Unless a program redirects it, no peer answers or connects. */
static int impatient(int fd)
{
	const struct timeval accept = { .tv_sec = 20 * timeout_scale() };

	if (fd < 0 || (!set_patience(fd, PEER_MS) &&
		       !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &accept, sizeof(accept))))
		return fd;
	close(fd);
	return -1;
}

static int make_socket(const struct cell *c)
{
	int domain = domain_of(c->form), fd, one = 1;

	fd = socket(domain, type_of(c->proto), protocol_of(c->proto, domain));
	if (is_sctp(c->proto))
		fd = impatient(fd);
	if (fd < 0 || c->proto != HDRINCL)
		return fd;
	if (setsockopt(fd, domain == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP,
		       domain == AF_INET6 ? IPV6_HDRINCL : IP_HDRINCL, &one, sizeof(one))) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * The payload of the cell's socket, with source and destination if it has its own header; the
 * kernel fills in zero fields.
 */
static int make_payload(const struct cell *c, char *buf, const char *src4, const char *src6)
{
	struct ip6_hdr *ip6 = (void *)buf;
	struct iphdr *ip = (void *)buf;

	memset(buf, 0, 64);
	if (c->proto == PING) {
		*buf = c->form == INET6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
		return sizeof(struct icmphdr);
	}
	if (c->proto != HDRINCL) {
		*buf = 'x';
		return 1;
	}
	if (c->form == INET6) {
		ip6->ip6_vfc = 6 << 4;
		ip6->ip6_plen = htons(1);
		ip6->ip6_nxt = IPPROTO_TEST;
		ip6->ip6_hlim = 64;
		inet_pton(AF_INET6, src6, &ip6->ip6_src);
		inet_pton(AF_INET6, PEER6, &ip6->ip6_dst);
		buf[sizeof(*ip6)] = 'x';
		return sizeof(*ip6) + 1;
	}
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 64;
	ip->protocol = IPPROTO_TEST;
	inet_pton(AF_INET, src4, &ip->saddr);
	inet_pton(AF_INET, PEER4, &ip->daddr);
	buf[sizeof(*ip)] = 'x';
	return sizeof(*ip) + 1;
}

static int do_bind_any(const struct cell *c, int fd)
{
	union addr a;
	socklen_t len = make_addr(&a, text_of(c->form, "0.0.0.0", "::"), 0);

	if (c->form == UNSPEC)
		a.sa.sa_family = AF_UNSPEC;
	return bind(fd, &a.sa, len) ? -errno : 0;
}

static int set_noport(int fd)
{
	int one = 1;

	return setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)) ? -errno : 0;
}

/* Sends a packet with a control message that requests another source. */
static int do_pktinfo(const struct cell *c, int fd, union addr *to, socklen_t len)
{
	char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {}, buf[64];
	int size = make_payload(c, buf, OTHER4, OTHER6);
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = {
		.msg_name = to, .msg_namelen = len,
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	union addr other;

	if (domain_of(c->form) == AF_INET6) {
		struct in6_pktinfo info = {};

		make_addr(&other, text_of(c->form == INET6 ? INET6 : MAPPED, OTHER4, OTHER6), 0);
		info.ipi6_addr = other.in6.sin6_addr;
		cmsg->cmsg_level = IPPROTO_IPV6;
		cmsg->cmsg_type = IPV6_PKTINFO;
		cmsg->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	} else {
		struct in_pktinfo info = {};

		/* ping refuses another source: hooks.ping_pktinfo */
		make_addr(&other, c->proto == PING ? PIN4 : OTHER4, 0);
		info.ipi_spec_dst = other.in.sin_addr;
		cmsg->cmsg_level = IPPROTO_IP;
		cmsg->cmsg_type = IP_PKTINFO;
		cmsg->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	}
	msg.msg_controllen = CMSG_SPACE(cmsg->cmsg_len - CMSG_LEN(0));
	return sendmsg(fd, &msg, 0) == size ? 0 : -errno;
}

/* Sends a byte to a peer, with its address listed twice. */
static int do_dstaddr(const struct cell *c, int fd, union addr *to, socklen_t len)
{
	bool v6 = to->sa.sa_family == AF_INET6;
	char control[CMSG_SPACE(sizeof(struct in6_addr))] = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = {
		.msg_name = to, .msg_namelen = len,
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	size_t size = v6 ? sizeof(to->in6.sin6_addr) : sizeof(to->in.sin_addr);

	cmsg->cmsg_level = IPPROTO_SCTP;
	cmsg->cmsg_type = v6 ? SCTP_DSTADDRV6 : SCTP_DSTADDRV4;
	cmsg->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(cmsg), v6 ? (void *)&to->in6.sin6_addr : (void *)&to->in.sin_addr, size);
	msg.msg_controllen = CMSG_SPACE(size);
	return sendmsg(fd, &msg, 0) == 1 ? 0 : -errno;
}

static int do_uring(const struct cell *c, int fd, union addr *to, socklen_t len, int ms)
{
	char buf[64];
	int size = make_payload(c, buf, OTHER4, OTHER6);
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = {
		.msg_name = to, .msg_namelen = len, .msg_iov = &iov, .msg_iovlen = 1,
	};
	struct io_uring_sqe sqe = { .fd = fd };
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int ret;

	switch (c->op) {
	case IOU_LISTEN:
		sqe.opcode = IORING_OP_LISTEN;
		sqe.len = 1;
		return uring_do(&sqe, ms);
	case IOU_CONNECT:
		sqe.opcode = IORING_OP_CONNECT;
		sqe.addr = (uintptr_t)to;
		sqe.off = len;
		ret = uring_do(&sqe, ms);
		/* SCTP returns it if task work made the ring retry in the meantime. */
		if (ret != -EALREADY || !is_sctp(c->proto))
			return ret;
		return poll(&p, 1, ms) == 1 && p.revents == POLLOUT ? 0 : -ETIMEDOUT;
	default:
		sqe.opcode = IORING_OP_SENDMSG;
		sqe.addr = (uintptr_t)&msg;
		sqe.len = 1;
		ret = uring_do(&sqe, ms);
		return ret == size ? 0 : ret < 0 ? ret : -EIO;
	}
}

/*
 * Run the cell's operation on a fresh socket. Returns 0 or -errno. io_uring requests wait up to
 * @ms milliseconds; otherwise the socket has its own timeout.
 */
static int do_op_within(const struct cell *c, int fd, int port, int ms)
{
	union addr to;
	socklen_t len = make_addr(&to, text_of(c->form, VIRT4, VIRT6), port);
	char buf[64];
	int err, size;

	/* No program can redirect these to another peer. */
	if ((is_raw(c->proto) || c->proto == PING) && c->op != CONNECT && c->op != IOU_CONNECT)
		make_addr(&to, text_of(c->form, PEER4, PEER6), 0);
	switch (c->op) {
	case LATE_LISTEN:
	case LATE_CONNECT:
	case LATE_SENDTO:
		err = set_noport(fd) ?: do_bind_any(c, fd);
		if (err)
			return err;
		break;
	default:
		break;
	}
	if (c->form == UNSPEC && (c->op == SENDTO || c->op == PKTINFO || c->op == IOU_SEND ||
				  c->op == LATE_SENDTO))
		to.sa.sa_family = AF_UNSPEC;
	switch (c->op) {
	case BIND:
		return do_bind_any(c, fd);
	case LISTEN:
	case LATE_LISTEN:
		return listen(fd, 1) ? -errno : 0;
	case CONNECT:
	case LATE_CONNECT:
		return connect(fd, &to.sa, len) ? -errno : 0;
	case FASTOPEN:
		return sendto(fd, "x", 1, MSG_FASTOPEN, &to.sa, len) == 1 ? 0 : -errno;
	case SENDTO:
	case LATE_SENDTO:
		size = make_payload(c, buf, OTHER4, OTHER6);
		return sendto(fd, buf, size, 0, &to.sa, len) == size ? 0 : -errno;
	case PKTINFO:
		return do_pktinfo(c, fd, &to, len);
	case DSTADDR:
		return do_dstaddr(c, fd, &to, len);
	case BINDX:
		len = make_addr(&to, text_of(c->form, "0.0.0.0", "::"), 0);
		return setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, &to, len) ? -errno : 0;
	case CONNECTX:
		/* Returns the ID of the association, or an error. */
		return setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, &to, len) < 0 ?
		       -errno : 0;
	default:
		return do_uring(c, fd, &to, len, ms);
	}
}

static int do_op(const struct cell *c, int fd, int port)
{
	return do_op_within(c, fd, port, PEER_MS + 1000);
}

/* Type of the peer's server. SCTP one-to-one and one-to-many interoperate. */
static int server_type(enum proto p)
{
	return is_raw(p) ? SOCK_RAW : p == UDP || p == PING ? SOCK_DGRAM : SOCK_STREAM;
}

static void allow_ping(struct __test_metadata *_metadata)
{
	int range = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY);

	ASSERT_LE(0, range);
	ASSERT_EQ(3, write(range, "0 0", 3));
	close(range);
}

/* Opens the peer's server for a cell. Returns its port, or an error. */
static int serve(const struct net *net, const struct cell *c, int *server)
{
	int type = server_type(c->proto);
	union addr a;
	socklen_t len;

	len = make_addr(&a, is_v6_form(c->form) ? PEER6 : PEER4, 0);
	*server = peer_socket(net, a.sa.sa_family, type,
			      is_raw(c->proto) ? IPPROTO_TEST :
			      is_sctp(c->proto) ? IPPROTO_SCTP : 0);
	if (*server < 0)
		return *server;
	if (bind(*server, &a.sa, len) || (type == SOCK_STREAM && listen(*server, 8)))
		return -errno;
	/* RAW has no ports, and ping talks to the peer's kernel. */
	return is_raw(c->proto) || c->proto == PING ? 9 : port_of(*server);
}

FIXTURE_SETUP(matrix)
{
	const struct cell *c = &variant->cell;

	if (!has_proto(c->proto))
		SKIP(return, "%s", is_sctp(c->proto) ? NEEDS_SCTP : NEEDS_MPTCP);
	if (is_uring(c->op) && !has_uring())
		SKIP(return, "needs CONFIG_IO_URING");
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	self->skel->bss->policy.mapped = c->form == MAPPED || c->form == ON6;
	ASSERT_EQ(0, attach_policy(self->skel, self->cgroup));

	if (c->proto == PING)
		allow_ping(_metadata);
	self->port = serve(&self->net, c, &self->server);
	ASSERT_LT(0, self->port);
}

FIXTURE_TEARDOWN(matrix)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

/* The source chosen by the task, seen only at egress. */
static void check_egress(struct __test_metadata *_metadata, const struct cell *c,
			 const struct seen *seen)
{
	bool v6 = is_v6_form(c->form);
	struct in6_addr other = {};

	inet_pton(v6 ? AF_INET6 : AF_INET, v6 ? OTHER6 : OTHER4, &other);
	EXPECT_EQ(0, memcmp(&other, seen->ip, sizeof(other)));
}

/* Check the values that each program read. */
static void check_seen(struct __test_metadata *_metadata, const struct cell *c,
		       const struct seen *seen, int port, unsigned int hooks)
{
	int i, family;

	for (i = 0; i < HOOKS; i++) {
		EXPECT_EQ(!(hooks & H(i)) ? 0 : c->op == DSTADDR ? 2 : 1, seen[i].runs)
			TH_LOG("%s", hook_names[i]);
		if (!(hooks & H(i)) || !seen[i].runs)
			continue;
		if (i == EGRESS) {
			check_egress(_metadata, c, &seen[i]);
			continue;
		}
		EXPECT_EQ(type_of(c->proto), seen[i].type);
		EXPECT_EQ(c->proto == MPTCP ? IPPROTO_TCP :
			  protocol_of(c->proto, domain_of(c->form)), seen[i].protocol);
		EXPECT_EQ(domain_of(c->form), seen[i].family);
		if (i == POST_BIND4 || i == POST_BIND6)
			continue;
		family = i == AUTOBIND ? domain_of(c->form) :
			 i == BIND4 || i == CONNECT4 || i == SENDMSG4 ? AF_INET : AF_INET6;
		EXPECT_EQ(family, seen[i].user_family)
			TH_LOG("%s", hook_names[i]);
		if (i == BIND4 || i == BIND6 || i == AUTOBIND) {
			EXPECT_EQ(0, seen[i].port);
			continue;
		}
		/* The caller's destination, not the redirected one. */
		EXPECT_EQ(htons(port), seen[i].port);
		if (family == AF_INET) {
			EXPECT_EQ(inet_addr(VIRT4), seen[i].ip[0]);
		} else if (c->form == INET6) {
			struct in6_addr virt;

			inet_pton(AF_INET6, VIRT6, &virt);
			EXPECT_EQ(0, memcmp(&virt, seen[i].ip, sizeof(virt)));
		} else {
			EXPECT_EQ(inet_addr(VIRT4), seen[i].ip[3]);
		}
	}
}

/* From the peer to the host's address @text. */
static int knock(struct __test_metadata *_metadata, const struct cell *c, const struct net *net,
		 const char *text, int port)
{
	union addr a;
	socklen_t len = make_addr(&a, text, port);
	bool stream = server_type(c->proto) == SOCK_STREAM;
	int fd, ret;

	/* A port has another meaning for a raw IPv6 socket. */
	if (is_raw(c->proto))
		make_addr(&a, text, 0);
	fd = peer_socket(net, a.sa.sa_family, server_type(c->proto),
			 is_raw(c->proto) ? IPPROTO_TEST : is_sctp(c->proto) ? IPPROTO_SCTP : 0);
	ASSERT_LE(0, fd);
	if (!stream)
		ret = sendto(fd, text, strlen(text), 0, &a.sa, len) < 0 ? -errno : 0;
	else
		ret = connect(fd, &a.sa, len) ? -errno : 0;
	/* SCTP returns it if io_uring task work restarted it in the meantime. */
	if (ret == -EISCONN && is_sctp(c->proto))
		ret = 0;
	if (ret < 0 || stream) {
		close(fd);
		return ret;
	}
	return fd;
}

/* An echo request and its reply: earlier packets have been on the wire. */
static void ping_peer(struct __test_metadata *_metadata, const struct cell *c, int fd)
{
	char buf[64];
	int size = make_payload(c, buf, NULL, NULL);
	union addr to;
	socklen_t len = make_addr(&to, text_of(c->form, PEER4, PEER6), 0);

	ASSERT_EQ(size, sendto(fd, buf, size, 0, &to.sa, len));
	ASSERT_EQ(size, recv(fd, buf, sizeof(buf), 0));
	EXPECT_EQ(c->form == INET6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY, *(unsigned char *)buf);
}

/* A receiving socket: it is reachable only at the one IP. */
static void check_server(struct __test_metadata *_metadata, const struct cell *c,
			 const struct net *net, int fd)
{
	const char *pin = is_v6_form(c->form) ? PIN6 : PIN4;
	const char *other = is_v6_form(c->form) ? OTHER6 : OTHER4;
	int port = port_of(fd), from, others, conn, peer;
	char buf[sizeof(struct iphdr) + INET6_ADDRSTRLEN] = "";
	socklen_t len = sizeof(union addr);
	int skip = is_raw(c->proto) && !is_v6_form(c->form) ? sizeof(struct iphdr) : 0;
	union addr a;

	ASSERT_LT(0, port);
	if (c->proto == PING) {
		ping_peer(_metadata, c, fd);
		ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
		EXPECT_LT(0, from);
		EXPECT_EQ(0, others);
		return;
	}
	if (server_type(c->proto) == SOCK_STREAM) {
		if (c->op == BIND || c->op == BINDX)
			ASSERT_EQ(0, listen(fd, 1));
		ASSERT_EQ(0, knock(_metadata, c, net, pin, port));
		/* One-to-many sockets accept implicitly. */
		if (c->proto != SCTPN) {
			conn = accept(fd, NULL, NULL);
			ASSERT_LE(0, conn);
			close(conn);
		}
		ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
		EXPECT_LT(0, from);
		EXPECT_EQ(0, others);
		EXPECT_EQ(-ECONNREFUSED, knock(_metadata, c, net, other, port));
		/* Discard the kernel's own answer. */
		ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
		return;
	}
	/* In this order: the first packet is read first. */
	close(knock(_metadata, c, net, other, port));
	peer = knock(_metadata, c, net, pin, port);
	ASSERT_LE(0, peer);
	ASSERT_LT(0, recvfrom(fd, buf, sizeof(buf) - 1, 0, &a.sa, &len));
	EXPECT_STREQ(pin, buf + skip);
	if (c->proto == HDRINCL) {
		/* The kernel fills in only an IPv4 source. */
		skip = make_payload(c, buf, "0.0.0.0", PIN6);
		ASSERT_EQ(skip, sendto(fd, buf, skip, 0, &a.sa, len));
	} else {
		ASSERT_EQ(1, sendto(fd, "y", 1, 0, &a.sa, len));
	}
	ASSERT_LT(0, recv(peer, buf, sizeof(buf), 0));
	close(peer);
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	EXPECT_LT(0, from);
	EXPECT_EQ(0, others);
}

/* A socket that talked to the peer: check the source the peer saw. */
static void check_client(struct __test_metadata *_metadata, const struct cell *c,
			 const struct net *net, int fd, int server)
{
	bool connected = c->op == CONNECT || c->op == LATE_CONNECT || c->op == IOU_CONNECT ||
			 c->op == FASTOPEN || c->op == CONNECTX;
	const char *pin = is_v6_form(c->form) ? PIN6 : PIN4;
	socklen_t len = sizeof(union addr);
	int from, others, conn = -1;
	union addr a;
	char x, buf[64];
	int size;

	if (connected && c->proto == SCTPN) {
		/* No peer name. The peer has the redirected address. */
		len = make_addr(&a, text_of(c->form, PEER4, PEER6), port_of(server));
		ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
	} else if (connected) {
		ASSERT_EQ(0, getpeername(fd, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, name_of(c->form, PEER4, PEER6)));
		size = make_payload(c, buf, "0.0.0.0", PIN6);
		if (c->op != FASTOPEN)
			ASSERT_EQ(size, send(fd, buf, size, 0));
	}
	len = sizeof(a);
	if (c->proto == PING && c->hooks & H(EGRESS)) {
		/* The reply was sent to an address that the socket does not have. */
		ping_peer(_metadata, c, fd);
	} else if (c->proto == PING) {
		ASSERT_LT(0, recv(fd, buf, sizeof(buf), 0));
		make_addr(&a, pin, 0);
	} else if (server_type(c->proto) != SOCK_STREAM) {
		ASSERT_LT(0, recvfrom(server, buf, sizeof(buf), 0, &a.sa, &len));
	} else {
		conn = accept(server, &a.sa, &len);
		ASSERT_LE(0, conn);
		ASSERT_EQ(1, recv(conn, &x, 1, 0));
	}
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	if (c->hooks & H(EGRESS)) {
		/* The other source is the one to be seen and refused. */
		EXPECT_EQ(c->proto == PING, from);
		EXPECT_EQ(1, others);
		return;
	}
	EXPECT_TRUE(same_ip(&a, pin));
	EXPECT_LT(0, from);
	EXPECT_EQ(0, others);
	if (conn >= 0)
		close(conn);
	if (c->proto == UDP && !connected)
		check_server(_metadata, c, net, fd);
}

/*
 * Each hook of the cell refuses once; then nothing is held and a retry works. The newest hook
 * first: without it the rest waits for packets that never come.
 */
TEST_F(matrix, cell)
{
	const struct cell *c = &variant->cell;
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	int fd, i, from, others;
	socklen_t len;
	union addr a;

	for (i = HOOKS - 1; i >= 0; i--) {
		unsigned int hooks = c->hooks;

		if (!(c->hooks & H(i)))
			continue;
		fd = make_socket(c);
		ASSERT_LE(0, fd);
		memset(seen, 0, HOOKS * sizeof(*seen));
		policy->deny = H(i);
		/* A program refuses before any wait for a packet. */
		if (is_sctp(c->proto))
			ASSERT_EQ(0, set_patience(fd, REFUSED_MS));
		ASSERT_EQ(-EPERM, do_op_within(c, fd, self->port, REFUSED_MS))
			TH_LOG("%s does not refuse", hook_names[i]);
		policy->deny = 0;
		if (is_sctp(c->proto)) {
			EXPECT_EQ(0, sctp_assocs());
			ASSERT_EQ(0, set_patience(fd, PEER_MS));
		}
		if (i == EGRESS) {
			ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
			EXPECT_EQ(0, from + others);
		}
		/* When these refuse, the socket already has its port. */
		if (i == SENDMSG4 || i == SENDMSG6 || i == EGRESS) {
			hooks &= ~H(AUTOBIND);
			if (c->op == LATE_SENDTO) {
				close(fd);
				continue;
			}
		} else if (is_raw(c->proto)) {
			/* A raw socket's port is its protocol. */
			len = sizeof(a);
			ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
			EXPECT_TRUE(same_ip(&a, text_of(c->form, "0.0.0.0", "::")));
		} else {
			EXPECT_EQ(0, port_of(fd));
		}
		memset(seen, 0, HOOKS * sizeof(*seen));
		ASSERT_EQ(0, do_op(c, fd, self->port));
		check_seen(_metadata, c, seen, self->port, hooks);
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		/* Sending does not give a raw socket a local address. */
		if (!is_raw(c->proto) || !(c->hooks & H(EGRESS)))
			ASSERT_TRUE(same_ip(&a, name_of(c->form, PIN4, PIN6)));
		if (c->op == BIND || c->op == BINDX || c->op == LISTEN || c->op == LATE_LISTEN ||
		    c->op == IOU_LISTEN)
			check_server(_metadata, c, &self->net, fd);
		else
			check_client(_metadata, c, &self->net, fd, self->server);
		close(fd);
	}
}

/*
 * Each cell with a fault in each memory allocation and copy from user space. Either it fails,
 * with one of these errors, and works on retry; or it works as without a fault: from the one
 * IP, and from no other.
 */
FIXTURE(fail_nth)
{
	struct cgroup_sock *skel;
	struct net net;
	struct faults faults;
	int cgroup;
};

FIXTURE_VARIANT(fail_nth)
{
	enum proto proto;
};

FIXTURE_VARIANT_ADD(fail_nth, tcp) { .proto = TCP };
FIXTURE_VARIANT_ADD(fail_nth, mptcp) { .proto = MPTCP };
FIXTURE_VARIANT_ADD(fail_nth, udp) { .proto = UDP };
FIXTURE_VARIANT_ADD(fail_nth, ping) { .proto = PING };
FIXTURE_VARIANT_ADD(fail_nth, raw) { .proto = RAW };
FIXTURE_VARIANT_ADD(fail_nth, hdrincl) { .proto = HDRINCL };
FIXTURE_VARIANT_ADD(fail_nth, sctp_stream) { .proto = SCTP1 };
FIXTURE_VARIANT_ADD(fail_nth, sctp_seqpacket) { .proto = SCTPN };

FIXTURE_SETUP(fail_nth)
{
	if (!has_proto(variant->proto))
		SKIP(return, "%s", is_sctp(variant->proto) ? NEEDS_SCTP : NEEDS_MPTCP);
	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	if (faults_open(&self->faults))
		SKIP(return, NEEDS_FAULT_INJECTION);
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	ASSERT_EQ(0, attach_policy(self->skel, self->cgroup));
	if (variant->proto == PING)
		allow_ping(_metadata);
	/* A packet for which there was no memory is sent again soon, not after seconds. */
	if (is_sctp(variant->proto)) {
		ASSERT_EQ(0, write_value("/proc/sys/net/sctp/rto_min", "20"));
		ASSERT_EQ(0, write_value("/proc/sys/net/sctp/rto_initial", "20"));
	}
}

FIXTURE_TEARDOWN(fail_nth)
{
	faults_close(&self->faults);
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

static bool error_of_fault(const struct cell *c, int err)
{
	switch (err) {
	case -ENOMEM:
	case -ENOBUFS:
	case -EFAULT:
	case -ENETUNREACH:	/* no memory for a route, */
		return true;
	case -EADDRINUSE:	/* or for the state of a port */
	case -EAGAIN:
		return server_type(c->proto) == SOCK_STREAM;
	case -ENFILE:		/* for the TCP socket inside */
		return c->proto == MPTCP;
	case -EINPROGRESS:	/* a packet was not sent, and will be retried */
	case -ECONNREFUSED:	/* the error of the retry: sctp_wait_for_connect() */
		return is_sctp(c->proto);
	default:
		return false;
	}
}

/* inet_listen() chooses the port; SCTP has a listen() of its own. */
static bool is_inet_listen(const struct cell *c)
{
	return c->op == LISTEN && !is_sctp(c->proto);
}

/* A socket that closes immediately, with a short timeout. */
static int make_abrupt_socket(const struct cell *c)
{
	const struct linger now = { .l_onoff = 1 };
	int fd = make_socket(c), one = 1;

	/* With SO_REUSEPORT, listen() also allocates memory after it has chosen a port. */
	if (fd >= 0 && server_type(c->proto) == SOCK_STREAM &&
	    (setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) ||
	     set_patience(fd, 500 * timeout_scale()) ||
	     (is_inet_listen(c) &&
	      setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one))))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns the number of faults. */
static int fail_cell(struct __test_metadata *_metadata, FIXTURE_DATA(fail_nth) *self,
		     const struct cell *c)
{
	bool late = c->op == LATE_LISTEN || c->op == LATE_CONNECT || c->op == LATE_SENDTO;
	int fd, err, server, port, conn, from, others, all_others = 0, faults = 0, failed = 0;
	bool hit, same;

	port = serve(&self->net, c, &server);
	ASSERT_LT(0, port);
	ASSERT_EQ(0, fcntl(server, F_SETFL, O_NONBLOCK));
	self->skel->bss->policy.mapped = c->form == MAPPED || c->form == ON6;
	self->faults.nth = 0;
	do {
		union addr a;
		socklen_t len = sizeof(a);

		fd = make_abrupt_socket(c);
		ASSERT_LE(0, fd);
		fault_arm(&self->faults);
		err = do_op(c, fd, port);
		hit = fault_hit(&self->faults);
		faults += hit;
		if (err) {
			failed++;
			EXPECT_TRUE(hit && error_of_fault(c, err))
				TH_LOG("%s %s: %s at fault %u", form_names[c->form],
				       op_names[c->op], strerror(-err), self->faults.nth);
			/* Its bind or begun connection stays, as for any socket. */
			if (late || err == -EINPROGRESS || c->op == FASTOPEN) {
				close(fd);
				fd = make_abrupt_socket(c);
				ASSERT_LE(0, fd);
			}
			/* This resets the address that programs chose, and no port may stay. */
			a.sa.sa_family = AF_UNSPEC;
			if (is_inet_listen(c))
				EXPECT_EQ(0, connect(fd, &a.sa, sizeof(a)));
			err = do_op(c, fd, port);
			EXPECT_EQ(0, err)
				TH_LOG("%s %s after fault %u, again: %s", form_names[c->form],
				       op_names[c->op], self->faults.nth, strerror(-err));
		}
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		/* Sending does not give a raw socket a local address. */
		same = (is_raw(c->proto) && c->hooks & H(EGRESS)) ||
		       same_ip(&a, name_of(c->form, PIN4, PIN6));
		EXPECT_TRUE(same)
			TH_LOG("%s %s: another address after fault %u", form_names[c->form],
			       op_names[c->op], self->faults.nth);
		close(fd);
		while (server_type(c->proto) == SOCK_STREAM &&
		       (conn = accept(server, NULL, NULL)) >= 0)
			close(conn);
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		all_others += others;
		/* Where no hook runs, the other faults would take minutes to show the same. */
	} while (hit && same);
	close(server);
	if (!(c->hooks & H(EGRESS)))
		EXPECT_EQ(0, all_others);
	TH_LOG("%s %s: %d faults, %d errors", form_names[c->form], op_names[c->op], faults, failed);
	return faults;
}

TEST_F(fail_nth, cells)
{
	int faults = 0, at, elsewhere;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cells); i++) {
		/* io_uring_enter() may return before its request is complete. */
		if (cells[i].proto == variant->proto && !is_uring(cells[i].op))
			faults += fail_cell(_metadata, self, &cells[i]);
	}
	EXPECT_LT(0, faults);
	ASSERT_EQ(0, diag_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(0, at + elsewhere);
	if (is_sctp(variant->proto))
		EXPECT_EQ(0, sctp_assocs());
	TH_LOG("%d faults", faults);
}

/* Why a cell of the product is not tested; NULL if it is, or must be. */
static const char *excluded(enum proto p, enum form f, enum op o)
{
	bool stream = p == TCP || p == MPTCP, sctp = p == SCTP1 || p == SCTPN;

	if ((o == BINDX || o == CONNECTX || o == DSTADDR) && !sctp)
		return "of SCTP only";
	if (o == FASTOPEN && !stream)
		return "of TCP and MPTCP only";
	if ((o == LISTEN || o == LATE_LISTEN || o == IOU_LISTEN) && !stream && !sctp)
		return "EOPNOTSUPP, no listen()";
	if (stream && (o == SENDTO || o == PKTINFO || o == LATE_SENDTO || o == IOU_SEND))
		return "no address in a send: fastopen is that";
	if (sctp && o == PKTINFO)
		return "no such control message: dstaddr is that";
	if (sctp && f == UNSPEC)
		return "EINVAL or EOPNOTSUPP, SCTP takes no AF_UNSPEC";
	if (sctp && (o == LATE_LISTEN || o == LATE_CONNECT || o == LATE_SENDTO))
		return "bind() of SCTP leaves no port open";
	if ((p == PING || p == RAW || p == HDRINCL) &&
	    (o == LATE_CONNECT || o == LATE_SENDTO))
		return "no ports to leave open";
	if ((p == PING || p == RAW || p == HDRINCL) && (f == MAPPED || f == ON6))
		return "IPv6 sockets send no IPv4";
	if (p == PING && f == UNSPEC && (o == SENDTO || o == PKTINFO || o == IOU_SEND))
		return "sendto() of AF_UNSPEC: EAFNOSUPPORT";
	if (!sctp && f == ON6 && (o == BIND || o == BINDX || o == LATE_LISTEN ||
				  o == LATE_CONNECT || o == LATE_SENDTO))
		return "bind() of AF_INET6: EAFNOSUPPORT";
	if (f == ON6 && (o == LISTEN || o == IOU_LISTEN))
		return "listen() has no address: mapped is that";
	if (f == ON6 && stream)
		return "connect() of AF_INET6: EAFNOSUPPORT";
	if (f == UNSPEC && (o == CONNECT || o == FASTOPEN || o == IOU_CONNECT || o == CONNECTX))
		return "disconnects";
	if (f == UNSPEC && (o == LISTEN || o == IOU_LISTEN))
		return "listen() has no address: inet is that";
	return NULL;
}

/* Every cell of the product is either tested or excluded. */
TEST(matrix_is_complete)
{
	static bool tested[PROTOS][FORMS][OPS];
	int p, f, o, in = 0, out = 0;
	const char *why;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cells); i++)
		tested[cells[i].proto][cells[i].form][cells[i].op] = true;
	for (p = 0; p < PROTOS; p++) {
		for (f = 0; f < FORMS; f++) {
			for (o = 0; o < OPS; o++) {
				why = excluded(p, f, o);
				EXPECT_FALSE(why && tested[p][f][o]);
				if (tested[p][f][o]) {
					in++;
					continue;
				}
				out++;
				TH_LOG("%s %s %s: %s", proto_names[p], form_names[f], op_names[o],
				       why ?: "neither tested nor excluded");
				EXPECT_NE(NULL, why);
			}
		}
	}
	TH_LOG("%d cells: %d tested, %d excluded", in + out, in, out);
}

/* A local address other than the policy's, denied or lost. */
FIXTURE(autobind)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup;
};

FIXTURE_SETUP(autobind)
{
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	self->skel->links.one_ip_autobind =
		bpf_program__attach_cgroup(self->skel->progs.one_ip_autobind, self->cgroup);
	/* Without the attach type there is nothing to test: a failure. */
	ASSERT_NE(NULL, self->skel->links.one_ip_autobind);
}

FIXTURE_TEARDOWN(autobind)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

/* bind() without a port to another address, unseen by programs. */
TEST_F(autobind, bound_address_stays)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_noport(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, OTHER4, 0)));
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, port_of(fd));

	/* A program that writes the same address, or none, allows it. */
	inet_pton(AF_INET, OTHER4, &self->skel->bss->policy.pin4);
	EXPECT_EQ(0, listen(fd, 1));
	EXPECT_EQ(2, self->skel->bss->seen[AUTOBIND].runs);
	EXPECT_EQ(inet_addr(OTHER4), self->skel->bss->seen[AUTOBIND].ip[0]);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, OTHER4));
	close(fd);
}

/* An address the host does not have: error as from bind(). */
TEST_F(autobind, foreign_address)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	inet_pton(AF_INET, VIRT4, &self->skel->bss->policy.pin4);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "0.0.0.0"));
	inet_pton(AF_INET, PIN4, &self->skel->bss->policy.pin4);
	EXPECT_EQ(0, listen(fd, 1));
	close(fd);
}

/* Limit @fd to port 40000, which is taken at PIN6, outside the policy. */
static int hold_port_of(struct __test_metadata *_metadata, FIXTURE_DATA(autobind) *self, int fd)
{
	int holder, range = 40000 | 40000 << 16;
	union addr a;

	self->skel->bss->policy.netns = 0;
	holder = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, holder);
	ASSERT_EQ(0, bind(holder, &a.sa, make_addr(&a, PIN6, 40000)));
	self->skel->bss->policy.netns = self->net.cookie;
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IP, 51 /* IP_LOCAL_PORT_RANGE */, &range,
				sizeof(range)));
	return holder;
}

/* No port is left at the address: the address is not kept. */
TEST_F(autobind, no_port_left)
{
	socklen_t len = sizeof(union addr);
	int fd, holder, one = 1;
	union addr a;

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	holder = hold_port_of(_metadata, self, fd);
	make_addr(&a, PEER6, 9);
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in6)));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "::"));
	EXPECT_EQ(0, a.in6.sin6_port);
	len = sizeof(one);
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, &len));
	EXPECT_EQ(0, one);
	close(holder);
	make_addr(&a, PEER6, 9);
	EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in6)));
	EXPECT_EQ(2, self->skel->bss->seen[AUTOBIND].runs);
	EXPECT_EQ(40000, port_of(fd));
	close(fd);
}

/* A UDP socket that got @pin when it sent, and lost its port. */
static int disconnected_udp(struct __test_metadata *_metadata, const char *pin, const char *peer)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	socklen_t len, size = sizeof(union addr);
	union addr a;
	int fd;

	len = make_addr(&a, peer, 9);
	fd = socket(a.sa.sa_family, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &size));
	EXPECT_TRUE(same_ip(&a, pin));
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	EXPECT_EQ(0, port_of(fd));
	/* Senders that had a port may still read the address. */
	ASSERT_EQ(0, getsockname(fd, &a.sa, &size));
	EXPECT_TRUE(same_ip(&a, pin));
	return fd;
}

/* The address is released with the port, and the program runs again. */
TEST_F(autobind, released_with_the_port)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = disconnected_udp(_metadata, PIN4, PEER4);
	inet_pton(AF_INET, OTHER4, &self->skel->bss->policy.pin4);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER4, 9)));
	/* Its former choice is not an address set by bind(). */
	EXPECT_EQ(0, self->skel->bss->seen[AUTOBIND].ip[0]);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, OTHER4));
	close(fd);

	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, shutdown(fd, SHUT_RDWR));
	/* getsockname() still shows the port, on all kernels. */
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "0.0.0.0"));
	inet_pton(AF_INET, PIN4, &self->skel->bss->policy.pin4);
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	EXPECT_EQ(4, self->skel->bss->seen[AUTOBIND].runs);
	close(fd);
}

/* A detached program no longer chooses, and its choice is not kept forever. */
TEST_F(autobind, released_with_the_program)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = disconnected_udp(_metadata, PIN4, PEER4);
	ASSERT_EQ(0, bpf_link__destroy(self->skel->links.one_ip_autobind));
	self->skel->links.one_ip_autobind = NULL;
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_NE(0, port_of(fd));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "0.0.0.0"));
	close(fd);
}

/* No port is left for a socket that had one: a sender may be about to read its address. */
TEST_F(autobind, kept_where_no_port_is_left)
{
	socklen_t len = sizeof(union addr);
	int fd, holder, v6only;
	union addr a;

	fd = disconnected_udp(_metadata, PIN6, PEER6);
	holder = hold_port_of(_metadata, self, fd);
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER6, 9)));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN6));
	EXPECT_EQ(0, a.in6.sin6_port);
	len = sizeof(v6only);
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(0, v6only);
	close(holder);
	EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER6, 9)));
	EXPECT_EQ(40000, port_of(fd));
	close(fd);
}

/* The same for IPV6_V6ONLY, set by an IPv6 address. */
TEST_F(autobind, ipv6only_released_with_the_port)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(int);
	int fd, v6only, one = 1;
	union addr a;

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER6, 9)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(1, v6only);
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(0, v6only);
	self->skel->bss->policy.mapped = 1;
	EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, "::ffff:" PEER4, 9)));
	close(fd);

	/* An option set by the task stays. */
	self->skel->bss->policy.mapped = 0;
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER6, 9)));
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(1, v6only);
	close(fd);
}

/* A call of a thread that a BPF program holds. */
struct held_call {
	struct held_thread *held;
	int (*call)(struct held_call *c);
	union addr to;
	socklen_t len;
	int fd, ret, err;
	bool done;
};

static void *run_held(void *arg)
{
	struct held_call *c = arg;

	c->held->tid = gettid();
	c->ret = c->call(c);
	c->err = c->ret < 0 ? errno : 0;
	WRITE_ONCE(c->done, true);
	return NULL;
}

static void *run_held_on_cpu1(void *arg)
{
	struct held_call *c = arg;

	c->err = pin_to_cpu(1);
	if (!c->err)
		return run_held(c);
	WRITE_ONCE(c->done, true);
	return NULL;
}

/* Waits until the call is held. False if it has ended. */
static bool is_held(const struct held_call *c)
{
	while (!READ_ONCE(c->held->arrived) && !READ_ONCE(c->done))
		sched_yield();
	return !READ_ONCE(c->done);
}

/* Starts @c->call in a thread on CPU 1, where the program may loop. Returns when it is held. */
static void start_held(struct __test_metadata *_metadata, pthread_t *thread, struct held_call *c)
{
	memset(c->held, 0, sizeof(*c->held));
	c->done = false;
	ASSERT_EQ(0, pthread_create(thread, NULL, run_held_on_cpu1, c));
	ASSERT_TRUE(is_held(c))
		TH_LOG("the call does not get there: %s", strerror(c->err));
}

static void finish_held(struct __test_metadata *_metadata, pthread_t thread, struct held_call *c)
{
	WRITE_ONCE(c->held->go, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

struct slow_send {
	int fd, err, size;
	ssize_t sent;
	void *buf;
	union addr to;
	socklen_t len;
};

static void *send_slowly(void *arg)
{
	struct slow_send *s = arg;

	s->sent = sendto(s->fd, s->buf, s->size, 0, &s->to.sa, s->len);
	s->err = errno;
	return NULL;
}

/* Map a page that is missing until UFFDIO_COPY of @copy. Returns the userfaultfd, or -1. */
static int missing_page(struct __test_metadata *_metadata, const void *page, size_t size,
			struct uffdio_copy *copy)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	void *buf;
	int uffd;

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0) {
		ASSERT_EQ(ENOSYS, errno);
		return -1;
	}
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, buf);
	copy->src = (uintptr_t)page;
	copy->dst = (uintptr_t)buf;
	copy->len = size;
	reg.range.start = copy->dst;
	reg.range.len = copy->len;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &reg));
	return uffd;
}

/*
 * One thread sends a buffer not yet paged in, and another removes the socket's port meanwhile:
 * the packet leaves from the one IP, or not at all. ping sockets, where the sender takes no
 * lock and reads its address last.
 */
TEST_F(autobind, disconnected_under_a_sender)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct uffdio_copy copy = {};
	struct cell c = { .proto = PING };
	int uffd, i, from, others;
	char page[4096] = "";
	struct slow_send s;
	struct uffd_msg fault;
	pthread_t sender;

	allow_ping(_metadata);
	uffd = missing_page(_metadata, page, sizeof(page), &copy);
	if (uffd < 0)
		SKIP(return, "needs CONFIG_USERFAULTFD");
	s.buf = (void *)(uintptr_t)copy.dst;

	for (i = 0; i < 2; i++) {
		c.form = i ? INET6 : INET;
		s.fd = make_socket(&c);
		ASSERT_LE(0, s.fd);
		s.len = make_addr(&s.to, text_of(c.form, PEER4, PEER6), 0);
		s.size = make_payload(&c, page, NULL, NULL);
		ASSERT_EQ(0, madvise(s.buf, sizeof(page), MADV_DONTNEED));
		ASSERT_EQ(0, pthread_create(&sender, NULL, send_slowly, &s));
		ASSERT_EQ(sizeof(fault), read(uffd, &fault, sizeof(fault)));
		ASSERT_EQ(UFFD_EVENT_PAGEFAULT, fault.event);
		/* It has a port and an address, but has not read them. */
		EXPECT_EQ(1, self->skel->bss->seen[AUTOBIND].runs);
		EXPECT_EQ(0, connect(s.fd, &none, sizeof(none)));
		EXPECT_EQ(0, port_of(s.fd));
		ASSERT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
		ASSERT_EQ(0, pthread_join(sender, NULL));
		EXPECT_EQ(s.size, s.sent) TH_LOG("%s", strerror(s.err));
		close(s.fd);
		/* An answered packet was on the wire, like those before it. */
		s.fd = make_socket(&c);
		ping_peer(_metadata, &c, s.fd);
		close(s.fd);
		self->skel->bss->seen[AUTOBIND].runs = 0;
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(2, from);
		EXPECT_EQ(0, others);
	}
	munmap(s.buf, sizeof(page));
	close(uffd);
}

static const struct {
	enum form form;
	const char *any, *pin, *peer;
	unsigned int post_bind;
} refusals[] = {
	{ INET, "0.0.0.0", PIN4, PEER4, H(POST_BIND4) },
	{ INET6, "::", PIN6, PEER6, H(POST_BIND6) },
};

/* bind() gives the pinned address, and post_bind can refuse it. */
static void attach_bind(struct __test_metadata *_metadata, struct cgroup_sock *skel, int cgroup)
{
	skel->links.one_ip_bind4 = bpf_program__attach_cgroup(skel->progs.one_ip_bind4, cgroup);
	ASSERT_NE(NULL, skel->links.one_ip_bind4);
	skel->links.one_ip_bind6 = bpf_program__attach_cgroup(skel->progs.one_ip_bind6, cgroup);
	ASSERT_NE(NULL, skel->links.one_ip_bind6);
	skel->links.one_ip_post_bind4 =
		bpf_program__attach_cgroup(skel->progs.one_ip_post_bind4, cgroup);
	ASSERT_NE(NULL, skel->links.one_ip_post_bind4);
	skel->links.one_ip_post_bind6 =
		bpf_program__attach_cgroup(skel->progs.one_ip_post_bind6, cgroup);
	ASSERT_NE(NULL, skel->links.one_ip_post_bind6);
}

static int call_bind(struct held_call *c)
{
	return bind(c->fd, &c->to.sa, c->len);
}

/*
 * The same where post_bind refuses the port that the sender has seen: the sender must not find
 * a socket without an address.
 */
TEST_F(autobind, refused_under_a_sender)
{
	struct seen *seen = self->skel->bss->seen;
	struct uffdio_copy copy = {};
	struct cell c = { .proto = PING };
	pthread_t binder, sender;
	int uffd, i, from, others;
	char page[4096] = "";
	struct uffd_msg fault;
	struct held_call b = { .call = call_bind };
	struct slow_send s;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	allow_ping(_metadata);
	attach_bind(_metadata, self->skel, self->cgroup);
	uffd = missing_page(_metadata, page, sizeof(page), &copy);
	if (uffd < 0)
		SKIP(return, "needs CONFIG_USERFAULTFD");
	s.buf = (void *)(uintptr_t)copy.dst;
	b.held = &self->skel->bss->held_thread;

	for (i = 0; i < (int)ARRAY_LEN(refusals); i++) {
		c.form = refusals[i].form;
		self->skel->bss->policy.deny = refusals[i].post_bind;
		b.fd = make_socket(&c);
		ASSERT_LE(0, b.fd);
		b.len = make_addr(&b.to, refusals[i].any, 0);
		s.fd = b.fd;
		s.len = make_addr(&s.to, refusals[i].peer, 0);
		s.size = make_payload(&c, page, NULL, NULL);
		ASSERT_EQ(0, madvise(s.buf, sizeof(page), MADV_DONTNEED));
		memset(seen, 0, HOOKS * sizeof(*seen));

		start_held(_metadata, &binder, &b);
		ASSERT_EQ(0, pthread_create(&sender, NULL, send_slowly, &s));
		ASSERT_EQ(sizeof(fault), read(uffd, &fault, sizeof(fault)));
		ASSERT_EQ(UFFD_EVENT_PAGEFAULT, fault.event);
		finish_held(_metadata, binder, &b);
		EXPECT_EQ(EPERM, b.err);
		EXPECT_EQ(0, port_of(b.fd));
		/* The sender has seen the port of bind(), and needed none. */
		EXPECT_EQ(0, seen[AUTOBIND].runs);
		ASSERT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
		ASSERT_EQ(0, pthread_join(sender, NULL));
		EXPECT_EQ(s.size, s.sent) TH_LOG("%s", strerror(s.err));

		/* The next datagram finds no port. Its answer was on the wire after the first. */
		ping_peer(_metadata, &c, s.fd);
		EXPECT_EQ(1, seen[AUTOBIND].runs);
		close(s.fd);
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(2, from);
		EXPECT_EQ(0, others) TH_LOG("sent from another address");
	}
	munmap(s.buf, sizeof(page));
	close(uffd);
}

/* bind() that post_bind refuses. getsockname() shows @ip afterwards, without a port. */
static int refused_bind(struct __test_metadata *_metadata, const struct cell *c, int i,
			const char *ip)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = make_socket(c);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, refusals[i].any, 0)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(0, port_of(fd));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, ip))
		TH_LOG("%s is not at %s", proto_names[c->proto], ip);
	return fd;
}

/*
 * The address that post_bind refused stays for senders, like one that is released with its
 * port: it is not bound, and programs choose another one with the next port.
 */
TEST_F(autobind, refused_address_stays)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	enum proto protos[] = { UDP, PING };
	socklen_t len;
	int fd, i, j, v6only;
	struct cell c = {};
	union addr a;

	allow_ping(_metadata);
	attach_bind(_metadata, self->skel, self->cgroup);
	for (i = 0; i < (int)ARRAY_LEN(refusals) * (int)ARRAY_LEN(protos); i++) {
		j = i % (int)ARRAY_LEN(refusals);
		c.proto = protos[i / (int)ARRAY_LEN(refusals)];
		c.form = refusals[j].form;
		set_policy(policy, &self->net);
		policy->deny = refusals[j].post_bind;
		memset(seen, 0, HOOKS * sizeof(*seen));
		fd = refused_bind(_metadata, &c, j, refusals[j].pin);
		EXPECT_EQ(0, seen[AUTOBIND].runs);
		len = sizeof(v6only);
		/* It is always set on ping sockets. */
		if (c.form == INET6 && c.proto == UDP) {
			ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
			EXPECT_EQ(0, v6only);
		}
		inet_pton(AF_INET, OTHER4, &policy->pin4);
		inet_pton(AF_INET6, OTHER6, policy->pin6);
		/* A bind() that is refused again does not bind either. */
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, refusals[j].any, 0)));
		EXPECT_EQ(EPERM, errno);
		ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, refusals[j].peer, 9)));
		EXPECT_EQ(1, seen[AUTOBIND].runs);
		EXPECT_EQ(0, seen[AUTOBIND].ip[0] | seen[AUTOBIND].ip[3]);
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, text_of(c.form, OTHER4, OTHER6)));
		close(fd);
	}

	/* Without an autobind program, nothing would choose another one. */
	ASSERT_EQ(0, bpf_link__destroy(self->skel->links.one_ip_autobind));
	self->skel->links.one_ip_autobind = NULL;
	for (i = 0; i < (int)ARRAY_LEN(refusals) * (int)ARRAY_LEN(protos); i++) {
		j = i % (int)ARRAY_LEN(refusals);
		c.proto = protos[i / (int)ARRAY_LEN(refusals)];
		c.form = refusals[j].form;
		policy->deny = refusals[j].post_bind;
		close(refused_bind(_metadata, &c, j, refusals[j].any));
	}
}

struct send_storm {
	pthread_barrier_t begin, end;
	union addr to;
	socklen_t len;
	int fd;
};

static void *send_storm(void *arg)
{
	struct icmphdr echo = { .type = ICMP_ECHO };
	struct send_storm *s = arg;

	for (;;) {
		pthread_barrier_wait(&s->begin);
		if (s->fd < 0)
			return NULL;
		sendto(s->fd, &echo, sizeof(echo), 0, &s->to.sa, s->len);
		pthread_barrier_wait(&s->end);
	}
}

/* One thread sends, another disconnects: no socket has a port without an address. */
TEST_F(autobind, disconnect_storm)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int both = 0, neither = 0, torn = 0, delay = 0, i;
	struct send_storm s;
	union addr a;
	socklen_t len;
	pthread_t sender;
	time_t end;

	allow_ping(_metadata);
	s.len = make_addr(&s.to, PEER4, 0);
	ASSERT_EQ(0, pthread_barrier_init(&s.begin, NULL, 2));
	ASSERT_EQ(0, pthread_barrier_init(&s.end, NULL, 2));
	ASSERT_EQ(0, pthread_create(&sender, NULL, send_storm, &s));
	end = time(NULL) + storm_seconds(10);
	/* Until both have happened, which can take longer. */
	while (time(NULL) < end || (!(both && neither) &&
				    time(NULL) < end + 10 * timeout_scale())) {
		s.fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
		ASSERT_LE(0, s.fd);
		pthread_barrier_wait(&s.begin);
		for (i = 0; i < delay; i++)
			barrier();
		connect(s.fd, &none, sizeof(none));
		pthread_barrier_wait(&s.end);
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(s.fd, &a.sa, &len));
		/* Adjust the delay so that the two calls overlap. */
		if (!a.in.sin_port) {
			neither++;
			delay -= delay / 8;
		} else {
			if (same_ip(&a, PIN4))
				both++;
			else
				torn++;
			delay += delay / 8 + 8;
		}
		close(s.fd);
	}
	s.fd = -1;
	pthread_barrier_wait(&s.begin);
	ASSERT_EQ(0, pthread_join(sender, NULL));
	TH_LOG("%d sockets sent last, %d were disconnected last", both, neither);
	EXPECT_EQ(0, torn);
	EXPECT_LT(0, both);
	EXPECT_LT(0, neither);
}

struct connect_storm {
	int fd;
	union addr to;
	socklen_t len;
	bool stop;
	unsigned long disconnects;	/* odd while one is under way */
	unsigned long connected, invalid, other, open_to_ipv4;
	unsigned long refused, released;	/* of the disconnects */
	int err;
};

static void *connect_storm(void *arg)
{
	struct connect_storm *s = arg;
	unsigned long disconnects;
	socklen_t len;
	int v6only;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		disconnects = __atomic_load_n(&s->disconnects, __ATOMIC_SEQ_CST);
		if (!connect(s->fd, &s->to.sa, s->len)) {
			len = sizeof(v6only);
			if (s->to.sa.sa_family == AF_INET6 &&
			    !getsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len) &&
			    !v6only && !(disconnects & 1) &&
			    disconnects == __atomic_load_n(&s->disconnects, __ATOMIC_SEQ_CST))
				s->open_to_ipv4++;
			__atomic_store_n(&s->connected, s->connected + 1, __ATOMIC_RELEASE);
		} else if (errno == EINVAL) {
			s->invalid++;
		} else {
			s->other++;
			s->err = errno;
		}
	}
	return NULL;
}

/* One thread connects, another disconnects: the socket can always be connected again. */
TEST_F(autobind, connect_storm)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	static const char * const peers[] = { PEER4, PEER6 };
	struct connect_storm s;
	unsigned long n;
	pthread_t thread;
	socklen_t len;
	union addr a;
	time_t end;
	int i;

	for (i = 0; i < 2; i++) {
		s = (struct connect_storm){};
		s.len = make_addr(&s.to, peers[i], 9);
		s.fd = socket(s.to.sa.sa_family, SOCK_DGRAM, 0);
		ASSERT_LE(0, s.fd);
		ASSERT_EQ(0, pthread_create(&thread, NULL, connect_storm, &s));
		end = time(NULL) + storm_seconds(4);
		/* Until both have happened, which can take longer. */
		while (time(NULL) < end || (!(__atomic_load_n(&s.connected, __ATOMIC_ACQUIRE) &&
					      s.released) &&
					    time(NULL) < end + 10 * timeout_scale())) {
			__atomic_fetch_add(&s.disconnects, 1, __ATOMIC_SEQ_CST);
			if (connect(s.fd, &none, sizeof(none)))
				s.refused++;
			len = sizeof(a);
			if (!getsockname(s.fd, &a.sa, &len) && !a.in.sin_port)
				s.released++;
			__atomic_fetch_add(&s.disconnects, 1, __ATOMIC_SEQ_CST);
			/* Every other time, let the socket reconnect undisturbed. */
			n = __atomic_load_n(&s.connected, __ATOMIC_ACQUIRE);
			while (s.disconnects & 2 && time(NULL) < end &&
			       __atomic_load_n(&s.connected, __ATOMIC_ACQUIRE) < n + 2)
				;
		}
		__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		TH_LOG("%s: %lu connects, %lu disconnects, no port after %lu of them", peers[i],
		       s.connected, s.disconnects / 2, s.released);
		EXPECT_LT(0, s.connected);
		EXPECT_LT(0, s.released);
		EXPECT_EQ(0, s.refused);
		EXPECT_EQ(0, s.invalid);
		EXPECT_EQ(0, s.open_to_ipv4)
			TH_LOG("bound to an IPv6 address alone, and not IPV6_V6ONLY");
		EXPECT_EQ(0, s.other)
			TH_LOG("%s", strerror(s.err));
		close(s.fd);
	}
}

/* The option that left the port to connect() is cleared before it. */
TEST_F(autobind, late_port_is_seen)
{
	int fd, server, zero = 0;
	union addr a;

	server = peer_socket(&self->net, AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PEER4, 0)));
	ASSERT_EQ(0, listen(server, 1));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_noport(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PIN4, 0)));
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &zero, sizeof(zero)));
	self->skel->bss->policy.deny = H(AUTOBIND);
	make_addr(&a, PEER4, port_of(server));
	EXPECT_EQ(-1, connect(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(1, self->skel->bss->seen[AUTOBIND].runs);
	EXPECT_EQ(0, port_of(fd));
	self->skel->bss->policy.deny = 0;
	EXPECT_EQ(0, connect(fd, &a.sa, sizeof(a.in)));
	close(fd);
	close(server);
}

/* The caller gets the program's error. */
TEST_F(autobind, set_retval)
{
	union addr a;
	int fd;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	make_addr(&a, PEER4, 9);
	self->skel->bss->policy.retval = -ENOBUFS;
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in)));
	EXPECT_EQ(ENOBUFS, errno);
	EXPECT_EQ(0, port_of(fd));
	self->skel->bss->policy.retval = 0;
	EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in)));
	EXPECT_EQ(2, self->skel->bss->seen[AUTOBIND].runs);
	close(fd);
}

/* An ICMPv6 socket takes no v4-mapped address, not even from a program. */
TEST_F(autobind, ping_mapped)
{
	struct icmp6_hdr echo = { .icmp6_type = ICMP6_ECHO_REQUEST };
	struct seen *seen = self->skel->bss->seen;
	union addr a;
	int fd, v6only;

	allow_ping(_metadata);
	for (v6only = 1; v6only >= 0; v6only--) {
		seen[AUTOBIND].runs = 0;
		fd = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only,
					sizeof(v6only)));
		make_addr(&a, PEER6, 0);
		self->skel->bss->policy.mapped = 1;
		EXPECT_EQ(-1, sendto(fd, &echo, sizeof(echo), 0, &a.sa, sizeof(a.in6)));
		EXPECT_EQ(EINVAL, errno);
		self->skel->bss->policy.mapped = 0;
		EXPECT_EQ(sizeof(echo), sendto(fd, &echo, sizeof(echo), 0, &a.sa,
					       sizeof(a.in6)));
		EXPECT_EQ(2, seen[AUTOBIND].runs);
		close(fd);
	}
}

/*
 * A ping socket takes no group and no broadcast address, with the error of bind(). It would send
 * from any address of the host.
 */
TEST_F(autobind, ping_group)
{
	static const char * const groups[] = {
		"239.1.1.1", "10.0.0.255", "255.255.255.255", "ff0e::1",
	};
	struct policy *policy = &self->skel->bss->policy;
	struct icmphdr echo = {};
	int fd, i, v6, refused, ret;
	union addr group, to, name;
	socklen_t len;

	allow_ping(_metadata);
	for (i = 0; i < (int)ARRAY_LEN(groups); i++) {
		len = make_addr(&group, groups[i], 0);
		v6 = group.sa.sa_family == AF_INET6;
		echo.type = v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
		fd = socket(group.sa.sa_family, SOCK_DGRAM, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
		ASSERT_LE(0, fd);
		ASSERT_EQ(-1, bind(fd, &group.sa, len))
			TH_LOG("%s", groups[i]);
		refused = errno;
		if (v6)
			memcpy(policy->pin6, &group.in6.sin6_addr, sizeof(policy->pin6));
		else
			policy->pin4 = group.in.sin_addr.s_addr;
		len = make_addr(&to, v6 ? PEER6 : PEER4, 0);
		ret = sendto(fd, &echo, sizeof(echo), 0, &to.sa, len);
		EXPECT_EQ(-refused, ret < 0 ? -errno : 0)
			TH_LOG("%s", groups[i]);
		ASSERT_EQ(0, getsockname(fd, &name.sa, &(socklen_t){ sizeof(name) }));
		EXPECT_TRUE(same_ip(&name, v6 ? "::" : "0.0.0.0"))
			TH_LOG("%s", groups[i]);
		set_policy(policy, &self->net);
		EXPECT_EQ(sizeof(echo), sendto(fd, &echo, sizeof(echo), 0, &to.sa, len))
			TH_LOG("%s: %m", groups[i]);
		ASSERT_EQ(0, getsockname(fd, &name.sa, &(socklen_t){ sizeof(name) }));
		EXPECT_TRUE(same_ip(&name, v6 ? PIN6 : PIN4))
			TH_LOG("%s", groups[i]);
		close(fd);
	}
	EXPECT_EQ(2 * ARRAY_LEN(groups), self->skel->bss->seen[AUTOBIND].runs);
}

/*
 * A UDP socket with an address from AUTOBIND or bind() does not receive packets to a group that
 * it joined. One that AUTOBIND left alone does.
 */
static int group_reaches(struct __test_metadata *_metadata, const struct net *net)
{
	struct ip_mreqn mreq = {};
	int fd, peer, got;
	union addr a;
	char c;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	inet_pton(AF_INET, "239.1.1.1", &mreq.imr_multiaddr);
	mreq.imr_ifindex = if_nametoindex("wire0");
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &mreq, sizeof(mreq)));
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER4, 9)));
	peer = peer_socket(net, AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, peer);
	inet_pton(AF_INET, PEER4, &mreq.imr_address);
	mreq.imr_ifindex = 0;
	ASSERT_EQ(0, setsockopt(peer, IPPROTO_IP, IP_MULTICAST_IF, &mreq, sizeof(mreq)));
	ASSERT_EQ(1, sendto(peer, "g", 1, 0, &a.sa, make_addr(&a, "239.1.1.1", port_of(fd))));
	/* A packet to the one IP arrives, after the group's. */
	ASSERT_EQ(1, sendto(peer, "u", 1, 0, &a.sa, make_addr(&a, PIN4, port_of(fd))));
	ASSERT_EQ(1, recv(fd, &c, 1, 0));
	got = c == 'g';
	close(peer);
	close(fd);
	return got;
}

TEST_F(autobind, multicast)
{
	EXPECT_EQ(0, group_reaches(_metadata, &self->net));
	self->skel->bss->policy.pin4 = 0;
	EXPECT_EQ(1, group_reaches(_metadata, &self->net));
	EXPECT_EQ(2, self->skel->bss->seen[AUTOBIND].runs);
}

/* Refused by the verifier or on attach. */
#define LD(r, o) { .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = r, .src_reg = BPF_REG_1, .off = o }
#define ST(o) { .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_1, .off = o }
#define RET(n) { .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = n }, { .code = BPF_JMP | BPF_EXIT }
#define CTX(field) offsetof(struct bpf_sock_addr, field)

static const struct {
	const char *what;
	struct bpf_insn insns[4];
	int cnt;
	const char *log;	/* NULL: loads */
} programs[] = {
	{ "return 0", { RET(0) }, 2, NULL },
	{ "return 1", { RET(1) }, 2, NULL },
	{ "return 2", { RET(2) }, 2, "should have been in [0, 1]" },
	{ "read both addresses", { LD(0, CTX(user_ip4)), LD(0, CTX(user_ip6[3])), RET(1) }, 4,
	  NULL },
	{ "write an IPv4 address", { ST(CTX(user_ip4)), RET(1) }, 3, NULL },
	{ "write an IPv6 address", { ST(CTX(user_ip6[3])), RET(1) }, 3, NULL },
	{ "read the port", { LD(0, CTX(user_port)), RET(1) }, 3, NULL },
	{ "write the port", { ST(CTX(user_port)), RET(1) }, 3, "invalid bpf_context access" },
	{ "write the family", { ST(CTX(user_family)), RET(1) }, 3, "invalid bpf_context access" },
	{ "read msg_src_ip4", { LD(0, CTX(msg_src_ip4)), RET(1) }, 3,
	  "invalid bpf_context access" },
	{ "bpf_bind()", { { .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_bind }, RET(1) }, 3,
	  "cannot use helper bpf_bind" },
};

static int load_program(int i, enum bpf_prog_type type, char *log, size_t size)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = BPF_CGROUP_INET_AUTOBIND,
		    .log_buf = log, .log_size = log ? size : 0, .log_level = log ? 1 : 0);

	return bpf_prog_load(type, "autobind", "GPL", programs[i].insns, programs[i].cnt, &opts);
}

TEST(autobind_programs)
{
	static char log[65536];
	int i, fd, cgroup;

	for (i = 0; i < (int)ARRAY_LEN(programs); i++) {
		*log = 0;
		fd = load_program(i, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, log, sizeof(log));
		EXPECT_EQ(!programs[i].log, fd >= 0)
			TH_LOG("%s: %s", programs[i].what, log);
		if (programs[i].log)
			EXPECT_NE(NULL, strstr(log, programs[i].log))
				TH_LOG("%s: %s", programs[i].what, log);
		if (fd >= 0)
			close(fd);
	}
	EXPECT_EQ(-EINVAL, load_program(1, BPF_PROG_TYPE_CGROUP_SOCK, NULL, 0));

	cgroup = cgroup_enter(CGROUP);
	if (cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
	ASSERT_LE(0, cgroup);
	fd = load_program(1, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, NULL, 0);
	EXPECT_LE(0, fd);
	EXPECT_EQ(-EINVAL, bpf_prog_attach(fd, cgroup, BPF_CGROUP_INET4_BIND, 0));
	EXPECT_EQ(0, bpf_prog_attach(fd, cgroup, BPF_CGROUP_INET_AUTOBIND, 0));
	EXPECT_EQ(0, bpf_prog_detach2(fd, cgroup, BPF_CGROUP_INET_AUTOBIND));
	close(fd);
	close(cgroup);
	cgroup_leave(CGROUP);
}

/*
 * The purpose of the hooks. In one cgroup: a service that binds to any address, one that does
 * not bind, and a client that talks to both via localhost, and to the peer. All programs as
 * they are written today.
 */
FIXTURE(one_ip)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup;
	unsigned long turns;
	bool stop;
};

FIXTURE_SETUP(one_ip)
{
	struct policy *policy;

	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	policy = &self->skel->bss->policy;
	/* Localhost is the one IP. */
	inet_pton(AF_INET, "127.0.0.1", &policy->from4);
	inet_pton(AF_INET6, "::1", policy->from6);
	policy->to4 = policy->pin4;
	memcpy(policy->to6, policy->pin6, sizeof(policy->to6));
	ASSERT_EQ(0, attach_policy(self->skel, self->cgroup));
}

FIXTURE_TEARDOWN(one_ip)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

/* The client talks to @to; @listener reports the source. */
static int talk(struct __test_metadata *_metadata, int domain, int type, int protocol,
		const char *to, int listener, const char *pin)
{
	socklen_t len = sizeof(union addr);
	union addr a, from;
	int fd, conn;
	char c;

	fd = socket(domain, type, protocol);
	ASSERT_LE(0, fd);
	len = make_addr(&a, to, port_of(listener));
	if (type == SOCK_STREAM) {
		ASSERT_EQ(0, connect(fd, &a.sa, len));
		len = sizeof(from);
		conn = accept(listener, &from.sa, &len);
		ASSERT_LE(0, conn);
		close(conn);
	} else {
		ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
		len = sizeof(from);
		ASSERT_EQ(1, recvfrom(listener, &c, 1, 0, &from.sa, &len));
	}
	EXPECT_TRUE(same_ip(&from, pin));
	return fd;
}

static int peer_service(struct __test_metadata *_metadata, const struct net *net, int type,
			const char *peer)
{
	union addr a;
	socklen_t len = make_addr(&a, peer, 0);
	int fd = peer_socket(net, a.sa.sa_family, type, 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, len));
	if (type == SOCK_STREAM)
		ASSERT_EQ(0, listen(fd, 8));
	return fd;
}

static void scenario(struct __test_metadata *_metadata, const struct net *net, int domain,
		     const char *any, const char *local, const char *pin, const char *other,
		     const char *peer)
{
	static const int protocols[] = { IPPROTO_TCP, IPPROTO_MPTCP };
	const struct cell tcp = { .proto = TCP }, udp = { .proto = UDP };
	int at, elsewhere, from, others, i, datagrams, far_stream, far_datagrams;
	int services[ARRAY_LEN(protocols)][2], clients[16], n = 0;
	socklen_t len;
	union addr a;

	len = make_addr(&a, any, 0);
	for (i = 0; i < (int)ARRAY_LEN(protocols); i++) {
		services[i][0] = socket(domain, SOCK_STREAM, protocols[i]);
		services[i][1] = socket(domain, SOCK_STREAM, protocols[i]);
		ASSERT_LE(0, services[i][0]);
		ASSERT_LE(0, services[i][1]);
		ASSERT_EQ(0, bind(services[i][0], &a.sa, len));
		ASSERT_EQ(0, listen(services[i][0], 8));
		ASSERT_EQ(0, listen(services[i][1], 8));
	}
	datagrams = socket(domain, SOCK_DGRAM, 0);
	ASSERT_LE(0, datagrams);
	ASSERT_EQ(0, bind(datagrams, &a.sa, len));
	far_stream = peer_service(_metadata, net, SOCK_STREAM, peer);
	far_datagrams = peer_service(_metadata, net, SOCK_DGRAM, peer);

	for (i = 0; i < (int)ARRAY_LEN(protocols); i++) {
		clients[n++] = talk(_metadata, domain, SOCK_STREAM, protocols[i], local,
				    services[i][0], pin);
		clients[n++] = talk(_metadata, domain, SOCK_STREAM, protocols[i], local,
				    services[i][1], pin);
		clients[n++] = talk(_metadata, domain, SOCK_STREAM, protocols[i], peer,
				    far_stream, pin);
	}
	clients[n++] = talk(_metadata, domain, SOCK_DGRAM, 0, local, datagrams, pin);
	clients[n++] = talk(_metadata, domain, SOCK_DGRAM, 0, peer, far_datagrams, pin);

	ASSERT_EQ(0, diag_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(0, elsewhere);
	/* The services, and the clients' UDP sockets. */
	EXPECT_LE(7, at);
	for (i = 0; i < (int)ARRAY_LEN(protocols); i++) {
		ASSERT_EQ(0, knock(_metadata, &tcp, net, pin, port_of(services[i][0])));
		ASSERT_EQ(0, knock(_metadata, &tcp, net, pin, port_of(services[i][1])));
	}
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	TH_LOG("%d packets and %d sockets of %s, %d and %d others", from, at, pin, others,
	       elsewhere);
	EXPECT_LT(0, from);
	EXPECT_EQ(0, others);
	/* Last: the kernel itself answers these. */
	for (i = 0; i < (int)ARRAY_LEN(protocols); i++) {
		EXPECT_EQ(-ECONNREFUSED,
			  knock(_metadata, &tcp, net, other, port_of(services[i][0])));
		EXPECT_EQ(-ECONNREFUSED,
			  knock(_metadata, &tcp, net, other, port_of(services[i][1])));
	}
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	close(knock(_metadata, &udp, net, other, port_of(datagrams)));
	EXPECT_EQ(-1, recv(datagrams, &a, 1, MSG_DONTWAIT));
	while (n)
		close(clients[--n]);
	for (i = 0; i < (int)ARRAY_LEN(protocols); i++) {
		close(services[i][0]);
		close(services[i][1]);
	}
	close(datagrams);
	close(far_stream);
	close(far_datagrams);
}

TEST_F(one_ip, scenario)
{
	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	scenario(_metadata, &self->net, AF_INET, "0.0.0.0", "127.0.0.1", PIN4, OTHER4, PEER4);
	scenario(_metadata, &self->net, AF_INET6, "::", "::1", PIN6, OTHER6, PEER6);
}

/* SCTP: several addresses at once, many peers at one socket. */
FIXTURE(sctp)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup, server;		/* one-to-one, at PEER */
	union addr virt, peer;		/* its virtual and real address */
};

FIXTURE_SETUP(sctp)
{
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	self->server = impatient(peer_socket(&self->net, AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, self->server);
	make_addr(&self->peer, PEER4, 0);
	ASSERT_EQ(0, bind(self->server, &self->peer.sa, sizeof(self->peer.in)));
	ASSERT_EQ(0, listen(self->server, 8));
	make_addr(&self->peer, PEER4, port_of(self->server));
	make_addr(&self->virt, VIRT4, port_of(self->server));
	ASSERT_EQ(0, attach_policy(self->skel, self->cgroup));
}

FIXTURE_TEARDOWN(sctp)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

/* Packs up to three addresses. Returns their size. */
static int pack(char *buf, int port, const char *a, const char *b, const char *c)
{
	const char *text;
	int i, size = 0, len;
	union addr addr;

	for (i = 0; i < 3; i++) {
		text = i == 0 ? a : i == 1 ? b : c;
		if (!text)
			break;
		len = make_addr(&addr, text, port);
		memcpy(buf + size, &addr, len);
		size += len;
	}
	return size;
}

static int set_addrs(int fd, int opt, int port, const char *a, const char *b, const char *c)
{
	char buf[3 * sizeof(union addr)];
	int size = pack(buf, port, a, b, c);

	return setsockopt(fd, IPPROTO_SCTP, opt, buf, size) ? -errno : 0;
}

static int bindx(int fd, int port, const char *a, const char *b, const char *c)
{
	return set_addrs(fd, SCTP_SOCKOPT_BINDX_ADD, port, a, b, c);
}

static int bindx_rem(int fd, int port, const char *a, const char *b, const char *c)
{
	return set_addrs(fd, SCTP_SOCKOPT_BINDX_REM, port, a, b, c);
}

static int connectx(int fd, int port, const char *a, const char *b, const char *c)
{
	char buf[3 * sizeof(union addr)];
	int size = pack(buf, port, a, b, c), id;

	id = setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, buf, size);
	return id < 0 ? -errno : id;
}

/*
 * Number of a socket's local addresses, or of a peer's. If @only is not NULL, other addresses
 * are subtracted.
 */
static int count_addrs(int fd, int opt, int id, const char *only)
{
	union {
		struct sctp_getaddrs get;
		char buf[512];
	} u = { .get.assoc_id = id };
	socklen_t len = sizeof(u);
	int i, n = 0;
	char *p = (char *)u.get.addrs;
	union addr a;

	if (getsockopt(fd, IPPROTO_SCTP, opt, &u, &len))
		return -errno;
	for (i = 0; i < (int)u.get.addr_num; i++) {
		memcpy(&a, p, sizeof(a));
		p += a.sa.sa_family == AF_INET ? sizeof(a.in) : sizeof(a.in6);
		n += !only || same_ip(&a, only) ? 1 : -1;
	}
	return n;
}

static int local_addrs(int fd, const char *only)
{
	return count_addrs(fd, SCTP_GET_LOCAL_ADDRS, 0, only);
}

static bool has_ip(int fd, const char *text)
{
	socklen_t len = sizeof(union addr);
	union addr a;

	return !getsockname(fd, &a.sa, &len) && same_ip(&a, text);
}

/* An address that the host does not have, without a policy. */
TEST_F(sctp, bindx_undone)
{
	struct policy *policy = &self->skel->bss->policy;
	socklen_t len = sizeof(union addr);
	union addr a, b;
	int fd;

	policy->netns = 0;
	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EADDRNOTAVAIL, bindx(fd, 0, PIN4, VIRT4, OTHER4));
	ASSERT_EQ(0, port_of(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, OTHER4, 0)));

	/* And a bound socket keeps its address. */
	EXPECT_EQ(-EADDRNOTAVAIL, bindx(fd, port_of(fd), "127.0.0.1", PIN4, VIRT4));
	EXPECT_EQ(1, local_addrs(fd, OTHER4));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, OTHER4));
	EXPECT_EQ(0, bindx(fd, port_of(fd), PIN4, "127.0.0.1", NULL));
	EXPECT_EQ(3, local_addrs(fd, NULL));
	close(fd);

	/* v4-mapped addresses are shortened on the way. */
	fd = impatient(socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, OTHER6, 0)));
	EXPECT_EQ(-EADDRNOTAVAIL, bindx(fd, port_of(fd), "::ffff:" PIN4, PIN6, VIRT6));
	EXPECT_EQ(1, local_addrs(fd, OTHER6));
	close(fd);

	/* A connected socket still shows its source afterwards. */
	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &self->peer.sa, sizeof(self->peer.in)));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	ASSERT_FALSE(same_ip(&a, "0.0.0.0"));
	EXPECT_EQ(-EADDRNOTAVAIL, bindx(fd, port_of(fd), VIRT4, NULL, NULL));
	b = a;
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_EQ(0, memcmp(&a.in, &b.in, sizeof(a.in)));
	close(fd);
}

/* A failed removal changes nothing, even on a port that needs a capability. */
TEST_F(sctp, bindx_rem_undone)
{
	int fd;

	self->skel->bss->policy.netns = 0;
	fd = impatient(socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bindx(fd, 80, "::ffff:" PIN4, "::ffff:" OTHER4, "::ffff:127.0.0.1"));
	ASSERT_EQ(3, local_addrs(fd, NULL));
	ASSERT_EQ(0, drop_cap(CAP_NET_BIND_SERVICE));
	/* The last one can't be removed, whichever it is. */
	EXPECT_EQ(-EBUSY, bindx_rem(fd, 80, "::ffff:" PIN4, "::ffff:" OTHER4, "::ffff:127.0.0.1"));
	EXPECT_EQ(3, local_addrs(fd, NULL))
		TH_LOG("addresses are lost");
	EXPECT_EQ(-EINVAL, bindx_rem(fd, 80, "::ffff:" PIN4, "::ffff:" VIRT4, NULL));
	EXPECT_EQ(3, local_addrs(fd, NULL));
	/* The port may be left out. */
	EXPECT_EQ(-EINVAL, bindx_rem(fd, 81, "::ffff:" PIN4, NULL, NULL));
	/* Each one once. */
	EXPECT_EQ(-EINVAL, bindx_rem(fd, 80, "::ffff:" PIN4, "::ffff:" PIN4, NULL));
	EXPECT_EQ(3, local_addrs(fd, NULL));
	EXPECT_EQ(0, bindx_rem(fd, 0, "::ffff:" PIN4, "::ffff:" OTHER4, NULL));
	EXPECT_EQ(1, local_addrs(fd, "::ffff:127.0.0.1"));
	close(fd);
}

TEST_F(sctp, bindx_denied_in_the_middle)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	union addr a;
	int fd;

	policy->leave = 1;
	inet_pton(AF_INET, PIN4, &policy->refuse4);
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(-EPERM, bindx(fd, 0, OTHER4, PIN4, "127.0.0.1"));
	EXPECT_EQ(2, seen[BIND4].runs);
	EXPECT_EQ(1, seen[POST_BIND4].runs);
	EXPECT_EQ(0, port_of(fd));
	/* It is as if it had not been bound: a program chooses its address. */
	policy->leave = 0;
	ASSERT_EQ(0, listen(fd, 1));
	policy->leave = 1;
	EXPECT_EQ(1, seen[AUTOBIND].runs);
	EXPECT_EQ(1, local_addrs(fd, PIN4));
	close(fd);

	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, OTHER4, 0)));
	EXPECT_EQ(-EPERM, bindx(fd, port_of(fd), "127.0.0.1", PIN4, NULL));
	EXPECT_EQ(1, local_addrs(fd, OTHER4));
	close(fd);

	/* The same for post_bind. */
	policy->refuse4 = 0;
	policy->deny = 1 << POST_BIND4;
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EPERM, bindx(fd, 0, OTHER4, PIN4, NULL));
	EXPECT_EQ(0, port_of(fd));
	policy->deny = 0;
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, OTHER4, 0)));
	policy->deny = 1 << POST_BIND4;
	EXPECT_EQ(-EPERM, bindx(fd, port_of(fd), PIN4, NULL, NULL));
	EXPECT_EQ(1, local_addrs(fd, OTHER4));
	close(fd);
}

TEST_F(sctp, bindx_collapses)
{
	struct seen *seen = self->skel->bss->seen;
	union addr a;
	int fd, port;

	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bindx(fd, 0, OTHER4, PIN4, "127.0.0.1"));
	EXPECT_EQ(1, local_addrs(fd, PIN4));
	EXPECT_EQ(3, seen[BIND4].runs);
	EXPECT_EQ(1, seen[POST_BIND4].runs);
	/* The same again, another port, and the bound address. */
	port = port_of(fd);
	EXPECT_EQ(0, bindx(fd, port, OTHER4, NULL, NULL));
	EXPECT_EQ(-EINVAL, bindx(fd, port + 1, OTHER4, NULL, NULL));
	EXPECT_EQ(-EINVAL, bindx(fd, port, PIN4, NULL, NULL));
	EXPECT_EQ(1, local_addrs(fd, PIN4));
	close(fd);

	/* One of each family. */
	fd = impatient(socket(AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	EXPECT_EQ(0, bindx(fd, port_of(fd), "::ffff:" OTHER4, OTHER6, OTHER4));
	EXPECT_EQ(2, local_addrs(fd, NULL));
	close(fd);
}

TEST_F(sctp, connectx)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	socklen_t len = sizeof(union addr);
	int fd, conn, id, port = ntohs(self->peer.in.sin_port);
	union addr a;

	/* All are checked before anything is created. */
	inet_pton(AF_INET, "10.0.0.77", &policy->refuse4);
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(-EPERM, connectx(fd, port, VIRT4, "10.0.0.77", NULL));
	EXPECT_EQ(2, seen[CONNECT4].runs);
	EXPECT_EQ(0, port_of(fd));
	EXPECT_EQ(0, sctp_assocs());

	/* Two rewritten to one. */
	memset(seen, 0, HOOKS * sizeof(*seen));
	id = connectx(fd, port, VIRT4, PEER4, NULL);
	ASSERT_LT(0, id);
	EXPECT_EQ(2, seen[CONNECT4].runs);
	EXPECT_EQ(0, seen[AUTOBIND].runs);
	EXPECT_EQ(1, count_addrs(fd, SCTP_GET_PEER_ADDRS, id, PEER4));
	EXPECT_EQ(1, local_addrs(fd, PIN4));
	conn = accept(self->server, &a.sa, &len);
	ASSERT_LE(0, conn);
	EXPECT_TRUE(same_ip(&a, PIN4));
	/* No program runs for the redirected address; one does for VIRT4. */
	EXPECT_EQ(-EISCONN, connectx(fd, port, PEER4, NULL, NULL));
	EXPECT_EQ(2, seen[CONNECT4].runs);
	EXPECT_EQ(-EISCONN, connectx(fd, port, VIRT4, NULL, NULL));
	EXPECT_EQ(3, seen[CONNECT4].runs);
	close(conn);
	close(fd);
}

static void one_association(struct __test_metadata *_metadata, struct seen *seen, int server,
			    int type, const union addr *virt)
{
	struct mmsghdr msgs[2] = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	socklen_t len = sizeof(union addr);
	union addr from, to = *virt;
	int fd, conn, i;
	char c;

	memset(seen, 0, HOOKS * sizeof(*seen));
	fd = impatient(socket(AF_INET, type, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &to.sa, sizeof(to.in)));
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &to.sa, sizeof(to.in)));
	for (i = 0; i < 2; i++) {
		msgs[i].msg_hdr.msg_name = &to;
		msgs[i].msg_hdr.msg_namelen = sizeof(to.in);
		msgs[i].msg_hdr.msg_iov = &iov;
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(2, sendmmsg(fd, msgs, 2, 0));
	EXPECT_EQ(4, seen[CONNECT4].runs);
	/* The caller's address is unchanged. */
	EXPECT_EQ(0, memcmp(&to.in, &virt->in, sizeof(to.in)));
	EXPECT_EQ(1, sctp_assocs());
	conn = accept(server, &from.sa, &len);
	ASSERT_LE(0, conn);
	EXPECT_TRUE(same_ip(&from, PIN4));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(1, recv(conn, &c, 1, 0));
	EXPECT_EQ(-1, accept4(server, NULL, NULL, SOCK_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);

	/* No program runs for the redirected address. */
	inet_pton(AF_INET, PEER4, &to.in.sin_addr);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &to.sa, sizeof(to.in)));
	ASSERT_EQ(1, recv(conn, &c, 1, 0));
	EXPECT_EQ(4, seen[CONNECT4].runs);
	/* Closing is quick when nothing is in flight. */
	close(conn);
	close(fd);
}

TEST_F(sctp, one_association)
{
	int flags = fcntl(self->server, F_GETFL);

	ASSERT_EQ(0, fcntl(self->server, F_SETFL, flags | O_NONBLOCK));
	one_association(_metadata, self->skel->bss->seen, self->server, SOCK_SEQPACKET,
			&self->virt);
}

TEST_F(sctp, one_association_one_to_one)
{
	int flags = fcntl(self->server, F_GETFL);

	ASSERT_EQ(0, fcntl(self->server, F_SETFL, flags | O_NONBLOCK));
	one_association(_metadata, self->skel->bss->seen, self->server, SOCK_STREAM,
			&self->virt);
}

/* Sends to @to, with @too as another address. */
static int send_dstaddr(int fd, const union addr *to, const char *too)
{
	char control[CMSG_SPACE(sizeof(struct in6_addr))] __aligned(8) = {};
	bool v6 = strchr(too, ':');
	int too_len = v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = {
		.msg_name = (void *)to,
		.msg_namelen = to->sa.sa_family == AF_INET6 ? sizeof(to->in6) : sizeof(to->in),
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = CMSG_SPACE(too_len),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = IPPROTO_SCTP;
	cmsg->cmsg_type = v6 ? SCTP_DSTADDRV6 : SCTP_DSTADDRV4;
	cmsg->cmsg_len = CMSG_LEN(too_len);
	inet_pton(v6 ? AF_INET6 : AF_INET, too, CMSG_DATA(cmsg));
	return sendmsg(fd, &msg, 0) == 1 ? 0 : -errno;
}

TEST_F(sctp, denied_leaves_nothing)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	int fd, conn, i, from, others;

	for (i = 0; i < (int)ARRAY_LEN(types); i++) {
		fd = impatient(socket(AF_INET, types[i], IPPROTO_SCTP));
		ASSERT_LE(0, fd);

		/* After bpf_bind(). */
		policy->late_deny = 1;
		ASSERT_EQ(-1, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
		ASSERT_EQ(EPERM, errno);
		EXPECT_EQ(0, port_of(fd));
		EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &self->virt.sa, sizeof(self->virt.in)));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(0, port_of(fd));
		policy->late_deny = 0;

		/* With an association for the first address. */
		inet_pton(AF_INET, "10.0.0.77", &policy->refuse4);
		memset(seen, 0, HOOKS * sizeof(*seen));
		EXPECT_EQ(-EPERM, send_dstaddr(fd, &self->virt, "10.0.0.77"));
		EXPECT_EQ(2, seen[CONNECT4].runs);
		EXPECT_EQ(0, port_of(fd));
		EXPECT_EQ(0, sctp_assocs());
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(0, from + others);

		/* Nothing is left that would block another attempt. */
		EXPECT_EQ(0, send_dstaddr(fd, &self->virt, PEER4));
		EXPECT_EQ(1, sctp_assocs());
		EXPECT_EQ(1, local_addrs(fd, PIN4));
		conn = accept(self->server, NULL, NULL);
		ASSERT_LE(0, conn);
		close(conn);
		close(fd);
		/* The host frees the association some packets later. */
		while (sctp_assocs())
			sched_yield();
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(0, others);
	}
}

/* A program chose a peer that is not a valid destination. */
TEST_F(sctp, invalid_peer)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	int fd, i;

	inet_pton(AF_INET, "224.0.0.1", &policy->to4);
	for (i = 0; i < 2; i++) {
		memset(seen, 0, HOOKS * sizeof(*seen));
		fd = impatient(socket(AF_INET, i ? SOCK_STREAM : SOCK_SEQPACKET, IPPROTO_SCTP));
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &self->virt.sa, sizeof(self->virt.in)));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(2, seen[CONNECT4].runs);
		EXPECT_EQ(0, port_of(fd));
		EXPECT_EQ(0, sctp_assocs());
		close(fd);
	}
}

/* bpf_bind() to a port: the association's source port. */
TEST_F(sctp, bpf_bind_port)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	struct policy *policy = &self->skel->bss->policy;
	socklen_t len;
	int fd, conn, i;
	union addr a;

	for (i = 0; i < (int)ARRAY_LEN(types); i++) {
		policy->port = htons(7000 + i);
		fd = impatient(socket(AF_INET, types[i], IPPROTO_SCTP));
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
		EXPECT_EQ(7000 + i, port_of(fd));
		EXPECT_EQ(1, local_addrs(fd, PIN4));
		len = sizeof(a);
		conn = accept(self->server, &a.sa, &len);
		ASSERT_LE(0, conn);
		EXPECT_TRUE(same_ip(&a, PIN4));
		EXPECT_EQ(policy->port, a.in.sin_port);
		close(conn);
		close(fd);
	}
}

/* A socket refused by post_bind leaves the list that follows the host's addresses. */
TEST_F(sctp, auto_asconf)
{
	struct policy *policy = &self->skel->bss->policy;
	socklen_t len = sizeof(int);
	union addr a;
	int fd, on = -1;

	/* In the test's netns. */
	ASSERT_EQ(0, write_value("/proc/sys/net/sctp/default_auto_asconf", "1"));
	policy->leave = 1;
	policy->deny = 1 << POST_BIND4;
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(0, port_of(fd));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_SCTP, SCTP_AUTO_ASCONF, &on, &len));
	EXPECT_EQ(0, on);
	policy->deny = 0;
	ASSERT_EQ(0, write_value("/proc/sys/net/sctp/default_auto_asconf", "0"));
	EXPECT_EQ(0, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_SCTP, SCTP_AUTO_ASCONF, &on, &len));
	EXPECT_EQ(0, on);
	close(fd);

	ASSERT_EQ(0, write_value("/proc/sys/net/sctp/default_auto_asconf", "1"));
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_SCTP, SCTP_AUTO_ASCONF, &on, &len));
	EXPECT_EQ(1, on);
	close(fd);
}

/* In listen(), autobind addresses follow the rules of bind(). */
TEST_F(sctp, autobind)
{
	struct policy *policy = &self->skel->bss->policy;
	socklen_t len = sizeof(union addr);
	int fd, at, elsewhere;
	union addr a;

	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	inet_pton(AF_INET, VIRT4, &policy->pin4);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
	EXPECT_EQ(0, port_of(fd));
	policy->retval = -ENOBUFS;
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(ENOBUFS, errno);
	policy->retval = 0;
	ASSERT_EQ(0, sctp_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(0, at + elsewhere);

	/* An address set for a refused connection stays set. */
	inet_pton(AF_INET, PIN4, &policy->pin4);
	policy->late_deny = 1;
	EXPECT_EQ(-1, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
	EXPECT_EQ(EPERM, errno);
	inet_pton(AF_INET, OTHER4, &policy->pin4);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EINVAL, errno);
	inet_pton(AF_INET, PIN4, &policy->pin4);
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	ASSERT_EQ(0, sctp_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(1, at);
	EXPECT_EQ(0, elsewhere);
	close(fd);
}

/* The port of connect() and sendto() is not a bypass: the socket can listen on it. */
TEST_F(sctp, listen_on_the_port_of)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	union addr a;
	int fd, i;

	for (i = 0; i < 2; i++) {
		policy->leave = 1;
		policy->deny = 1 << AUTOBIND;
		memset(seen, 0, HOOKS * sizeof(*seen));
		fd = impatient(socket(AF_INET, i ? SOCK_STREAM : SOCK_SEQPACKET, IPPROTO_SCTP));
		ASSERT_LE(0, fd);
		if (i) {
			/* Nobody listens there. The source is another address. */
			ASSERT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PIN4, 9)));
			ASSERT_EQ(ECONNREFUSED, errno);
		} else {
			/* The source is another address, and the socket is bound to any. */
			ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PIN4, 9)));
		}
		ASSERT_NE(0, port_of(fd));
		ASSERT_TRUE(has_ip(fd, OTHER4));
		EXPECT_EQ(-1, listen(fd, 1))
			TH_LOG("listens, and no program was asked");
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(1, seen[AUTOBIND].runs);
		/* The source of the route is not its address, but is shown. */
		EXPECT_EQ(0, seen[AUTOBIND].ip[0]);
		EXPECT_TRUE(has_ip(fd, OTHER4));

		/* It is bound to any address, which can't be changed. */
		policy->deny = 0;
		policy->leave = 0;
		EXPECT_EQ(-1, listen(fd, 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_TRUE(has_ip(fd, OTHER4));
		policy->leave = 1;
		EXPECT_EQ(0, listen(fd, 1));
		EXPECT_TRUE(has_ip(fd, OTHER4));
		close(fd);
	}

	/* If a program has set the one IP, it is the only one. */
	policy->leave = 0;
	fd = impatient(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &self->peer.sa, sizeof(self->peer.in)));
	EXPECT_EQ(0, listen(fd, 1));
	EXPECT_EQ(1, local_addrs(fd, PIN4));
	close(fd);
}

/* An accepted or peeled-off socket belongs to its parent's cgroup, wherever the task is. */
TEST_F(sctp, descent)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	int fd, peer, root, i, child, port;
	sctp_peeloff_arg_t peel;
	union addr a;
	socklen_t len;
	char c;

	for (i = 0; i < (int)ARRAY_LEN(types); i++) {
		fd = impatient(socket(AF_INET, types[i], IPPROTO_SCTP));
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
		ASSERT_EQ(0, listen(fd, 1));
		port = port_of(fd);
		peer = impatient(peer_socket(&self->net, AF_INET, SOCK_STREAM, IPPROTO_SCTP));
		ASSERT_LE(0, peer);
		ASSERT_EQ(0, connect(peer, &a.sa, make_addr(&a, PIN4, port)));
		ASSERT_EQ(1, send(peer, "x", 1, 0));

		root = open("/sys/fs/cgroup/cgroup.procs", O_WRONLY);
		ASSERT_LE(0, root);
		ASSERT_EQ(1, write(root, "0", 1));
		close(root);
		if (types[i] == SOCK_STREAM) {
			child = accept(fd, NULL, NULL);
		} else {
			struct sctp_sndrcvinfo *info;
			char control[CMSG_SPACE(sizeof(*info))];
			struct iovec iov = { .iov_base = &c, .iov_len = 1 };
			struct msghdr msg = {
				.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
				.msg_controllen = sizeof(control),
			};
			struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };

			ASSERT_EQ(0, setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events,
						sizeof(events)));
			ASSERT_EQ(1, recvmsg(fd, &msg, 0));
			ASSERT_NE(NULL, CMSG_FIRSTHDR(&msg));
			info = (void *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
			peel.associd = info->sinfo_assoc_id;
			len = sizeof(peel);
			child = getsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF, &peel, &len);
			child = child < 0 ? child : peel.sd;
		}
		ASSERT_LE(0, child);
		memset(seen, 0, HOOKS * sizeof(*seen));
		policy->deny = 1 << BIND4;
		EXPECT_EQ(-EPERM, bindx(child, port, OTHER4, NULL, NULL));
		policy->deny = 0;
		EXPECT_EQ(0, bindx(child, port, OTHER4, NULL, NULL));
		EXPECT_EQ(2, seen[BIND4].runs);
		EXPECT_EQ(1, local_addrs(child, PIN4));
		close(child);
		close(peer);
		close(fd);
		/* For the next socket, and for the fixture. */
		close(cgroup_enter(CGROUP));
	}
}

/* The scenario with SCTP: a separate test, as it can't run without SCTP. */
static void sctp_scenario(struct __test_metadata *_metadata, const struct net *net, int domain,
			  const char *any, const char *local, const char *pin,
			  const char *other, const char *peer)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	const struct cell cell = { .proto = SCTP1 };
	int services[4], clients[16], n = 0, i, at, elsewhere, from, others, far, conn, fd;
	socklen_t len;
	union addr a, src;

	len = make_addr(&a, any, 0);
	for (i = 0; i < 4; i++) {
		services[i] = impatient(socket(domain, types[i % 2], IPPROTO_SCTP));
		ASSERT_LE(0, services[i]);
		if (i < 2)
			ASSERT_EQ(0, bind(services[i], &a.sa, len));
		ASSERT_EQ(0, listen(services[i], 8));
	}
	len = make_addr(&a, peer, 0);
	far = impatient(peer_socket(net, domain, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, far);
	ASSERT_EQ(0, bind(far, &a.sa, len));
	ASSERT_EQ(0, listen(far, 8));

	/* Clients of both kinds, by connect() and by sendto(), to all. */
	for (i = 0; i < 2; i++) {
		int to[] = { services[0], services[2], far }, j;

		for (j = 0; j < (int)ARRAY_LEN(to); j++) {
			fd = impatient(socket(domain, types[i], IPPROTO_SCTP));
			ASSERT_LE(0, fd);
			clients[n++] = fd;
			len = make_addr(&a, to[j] == far ? peer : local, port_of(to[j]));
			ASSERT_EQ(0, j == 1 ? sendto(fd, "x", 1, 0, &a.sa, len) - 1 :
					      connect(fd, &a.sa, len));
			len = sizeof(src);
			conn = accept(to[j], &src.sa, &len);
			ASSERT_LE(0, conn);
			EXPECT_TRUE(same_ip(&src, pin));
			clients[n++] = conn;
		}
	}
	ASSERT_EQ(0, sctp_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(4, at);
	EXPECT_EQ(0, elsewhere);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, knock(_metadata, &cell, net, pin, port_of(services[i])));
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	TH_LOG("%d packets and %d sockets of %s, %d and %d others", from, at, pin, others,
	       elsewhere);
	EXPECT_LT(0, from);
	EXPECT_EQ(0, others);
	/* Last: the kernel itself answers these. */
	for (i = 0; i < 4; i++)
		EXPECT_EQ(-ECONNREFUSED,
			  knock(_metadata, &cell, net, other, port_of(services[i])));
	ASSERT_EQ(0, wire_count(net, PIN4, PIN6, &from, &others));
	while (n)
		close(clients[--n]);
	for (i = 0; i < 4; i++)
		close(services[i]);
	close(far);
}

TEST_F(one_ip, sctp)
{
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	sctp_scenario(_metadata, &self->net, AF_INET, "0.0.0.0", "127.0.0.1", PIN4, OTHER4, PEER4);
	sctp_scenario(_metadata, &self->net, AF_INET6, "::", "::1", PIN6, OTHER6, PEER6);
}

/*
 * A connected socket that requests another source in a control message: sendmsg4 and sendmsg6
 * see its peer, can't change it, and make the final choice of the source.
 */
TEST_F(hooks, connected_control)
{
	static const struct {
		enum form form;
		enum hook hook;
		const char *to;
	} sends[] = {
		{ INET, SENDMSG4, PEER4 },
		{ INET6, SENDMSG6, PEER6 },
		{ MAPPED, SENDMSG4, "::ffff:" PEER4 },
	};
	struct policy *policy = &self->skel->bss->policy;
	int i, fd, server, from, others;
	char buf[8];

	for (i = 0; i < (int)ARRAY_LEN(sends); i++) {
		struct seen *seen = &self->skel->bss->seen[sends[i].hook];
		struct cell c = { .proto = UDP, .form = sends[i].form };
		struct in6_addr ip = {};
		union addr peer;
		socklen_t len;
		int port;

		port = serve(&self->net, &c, &server);
		ASSERT_LT(0, port);
		ASSERT_EQ(server, impatient(server));
		policy->mapped = c.form == MAPPED;
		fd = make_socket(&c);
		ASSERT_LE(0, fd);
		len = make_addr(&peer, sends[i].to, port);
		ASSERT_EQ(0, connect(fd, &peer.sa, len));
		memset(seen, 0, sizeof(*seen));
		/* The programs would redirect it to an unused address. */
		inet_pton(AF_INET, PEER4, &policy->from4);
		inet_pton(AF_INET, VIRT4, &policy->to4);
		inet_pton(AF_INET6, PEER6, policy->from6);
		inet_pton(AF_INET6, VIRT6, policy->to6);
		ASSERT_EQ(0, do_pktinfo(&c, fd, NULL, 0));
		set_policy(policy, &self->net);
		ASSERT_EQ(sends[i].hook == SENDMSG6 ? AF_INET6 : AF_INET, seen->user_family)
			TH_LOG("%s: the program found user_family %u", form_names[c.form],
			       seen->user_family);
		EXPECT_EQ(1, recv(server, buf, sizeof(buf), 0));
		EXPECT_EQ(1, seen->runs);
		EXPECT_EQ(htons(port), seen->port);
		inet_pton(sends[i].hook == SENDMSG6 ? AF_INET6 : AF_INET,
			  sends[i].hook == SENDMSG6 ? PEER6 : PEER4, &ip);
		EXPECT_EQ(0, memcmp(&ip, seen->ip, sends[i].hook == SENDMSG6 ? 16 : 4));
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(1, from);
		EXPECT_EQ(0, others);
		close(fd);
		close(server);
	}
}

/* An address from bpf_bind() is an AF_INET6 socket's only one, connected or not. */
TEST_F(hooks, refused_after_bpf_bind)
{
	struct policy *policy = &self->skel->bss->policy;
	struct timeval wait = { .tv_sec = 20 * timeout_scale() };
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd, peer;
	char c;

	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	ASSERT_LE(0, fd);
	policy->late_deny = 1;
	ASSERT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER4, 9)));
	ASSERT_EQ(EPERM, errno);
	policy->late_deny = 0;
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "::ffff:" PIN4));

	/* Now it has a port, and the peer connects to another address. */
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, "::ffff:" PEER4, 9)));
	peer = peer_socket(&self->net, AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, peer);
	ASSERT_EQ(0, setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)));
	ASSERT_EQ(0, connect(peer, &a.sa, make_addr(&a, OTHER6, port_of(fd))));
	ASSERT_EQ(1, send(peer, "x", 1, 0));
	ASSERT_EQ(-1, recv(fd, &c, 1, 0))
		TH_LOG("it receives what is sent to " OTHER6);
	EXPECT_EQ(-1, recv(peer, &c, 1, 0));
	EXPECT_EQ(ECONNREFUSED, errno);
	close(peer);
	close(fd);
}

static const struct {
	int domain;
	const char *any, *other, *pin, *peer;
	unsigned int post_bind;
	int words;			/* of an address */
	int ping;
} families[] = {
	{ AF_INET, "0.0.0.0", OTHER4, PIN4, PEER4, H(POST_BIND4), 1, IPPROTO_ICMP },
	{ AF_INET6, "::", OTHER6, PIN6, PEER6, H(POST_BIND6), 4, IPPROTO_ICMPV6 },
};

/*
 * Programs do not run for an address that is too short, and read nothing beyond it. Raw sockets
 * accept one without a scope, as TCP and UDP do.
 * @protocol: 0 for ping
 */
static void bind_too_short(struct __test_metadata *_metadata, const struct seen *seen, int type,
			   int protocol)
{
	int scope = sizeof(struct sockaddr_in6) - offsetof(struct sockaddr_in6, sin6_scope_id);
	socklen_t len;
	union addr a;
	int fd, i;

	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		fd = socket(families[i].domain, type, protocol ?: families[i].ping);
		ASSERT_LE(0, fd);
		len = make_addr(&a, families[i].any, 0) - 1;
		if (type == SOCK_RAW && families[i].domain == AF_INET6)
			len -= scope;
		EXPECT_EQ(-1, bind(fd, &a.sa, len));
		EXPECT_EQ(EINVAL, errno);
		close(fd);
	}
	EXPECT_EQ(0, seen[BIND4].runs);
	EXPECT_EQ(0, seen[BIND6].runs);
}

TEST_F(hooks, raw_short_address)
{
	bind_too_short(_metadata, self->skel->bss->seen, SOCK_RAW, IPPROTO_TEST);
}

TEST_F(hooks, ping_short_address)
{
	allow_ping(_metadata);
	bind_too_short(_metadata, self->skel->bss->seen, SOCK_DGRAM, 0);
}

/* Programs see the family of a ping socket alone. AF_UNSPEC is IPv4 if the address is any. */
TEST_F(hooks, ping_family)
{
	struct seen *seen = self->skel->bss->seen;
	socklen_t len = sizeof(union addr);
	union addr a = {};
	int fd;

	allow_ping(_metadata);
	fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	ASSERT_LE(0, fd);
	inet_pton(AF_INET, PIN4, &a.in.sin_addr);
	EXPECT_EQ(-1, bind(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	a.sa.sa_family = AF_INET6;
	EXPECT_EQ(-1, bind(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	EXPECT_EQ(0, seen[BIND4].runs);
	a = (union addr){};
	EXPECT_EQ(0, bind(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(1, seen[BIND4].runs);
	EXPECT_EQ(AF_INET, seen[BIND4].user_family);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	close(fd);

	a = (union addr){};
	fd = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, bind(fd, &a.sa, sizeof(a.in6)));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	EXPECT_EQ(0, seen[BIND6].runs);
	close(fd);
}

TEST_F(sctp, short_address)
{
	bind_too_short(_metadata, self->skel->bss->seen, SOCK_STREAM, IPPROTO_SCTP);
}

/* Programs do not run for an address of a family that the socket does not have. */
TEST_F(sctp, other_family)
{
	static const struct {
		int domain;
		const char *ip;
	} others[] = { { AF_INET, OTHER6 }, { AF_INET6, OTHER4 } };
	static const enum hook hooks[] = { BIND4, BIND6, CONNECT4, CONNECT6 };
	struct seen *seen = self->skel->bss->seen;
	int fd, one = 1, i, j;
	socklen_t len;
	union addr a;

	for (i = 0; i < (int)ARRAY_LEN(others); i++) {
		fd = impatient(socket(others[i].domain, SOCK_SEQPACKET, IPPROTO_SCTP));
		ASSERT_LE(0, fd);
		/* An AF_INET6 socket has IPv4 otherwise. */
		if (others[i].domain == AF_INET6)
			ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
		memset(seen, 0, HOOKS * sizeof(*seen));
		len = make_addr(&a, others[i].ip, 9);
		EXPECT_EQ(-1, bind(fd, &a.sa, len));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-EINVAL, bindx(fd, 9, others[i].ip, NULL, NULL));
		EXPECT_EQ(-1, connect(fd, &a.sa, len));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-EINVAL, connectx(fd, 9, others[i].ip, NULL, NULL));
		EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &a.sa, len));
		EXPECT_EQ(EINVAL, errno);
		for (j = 0; j < (int)ARRAY_LEN(hooks); j++)
			EXPECT_EQ(0, seen[hooks[j]].runs)
				TH_LOG("%s: %s", others[i].ip, hook_names[hooks[j]]);
		EXPECT_EQ(0, port_of(fd));
		EXPECT_EQ(0, sctp_assocs());

		/* A further address of a peer, in a control message */
		make_addr(&a, others[i].domain == AF_INET ? VIRT4 : VIRT6, 9);
		memset(seen, 0, HOOKS * sizeof(*seen));
		EXPECT_EQ(-EINVAL, send_dstaddr(fd, &a, others[i].ip));
		EXPECT_EQ(1, seen[CONNECT4].runs + seen[CONNECT6].runs)
			TH_LOG("%s: also in the control message", others[i].ip);
		EXPECT_EQ(0, sctp_assocs());
		close(fd);
	}
}

/* A raw socket may be bound again, and is unchanged if that is refused. */
TEST_F(hooks, raw_bound_again)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	socklen_t len;
	union addr a;
	int fd, i;

	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		set_policy(policy, &self->net);
		fd = socket(families[i].domain, SOCK_RAW, IPPROTO_TEST);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].other, 0)));
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		ASSERT_TRUE(same_ip(&a, families[i].pin));
		inet_pton(AF_INET, OTHER4, &policy->pin4);
		inet_pton(AF_INET6, OTHER6, policy->pin6);
		policy->deny = families[i].post_bind;
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		EXPECT_EQ(EPERM, errno);
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, families[i].pin));

		/* bpf_bind() does not override bind() either. */
		policy->deny = 0;
		EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, families[i].peer, 9)));
		EXPECT_EQ(EPERM, errno);
		inet_pton(AF_INET, PIN4, &policy->pin4);
		inet_pton(AF_INET6, PIN6, policy->pin6);
		EXPECT_EQ(0, connect(fd, &a.sa, make_addr(&a, families[i].peer, 9)));
		close(fd);
	}

	/* A short address is refused for its family, as without programs, which do not see it. */
	seen[CONNECT4].runs = 0;
	seen[CONNECT6].runs = 0;
	fd = socket(AF_INET6, SOCK_RAW, IPPROTO_TEST);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	make_addr(&a, PEER6, 9);
	EXPECT_EQ(-1, connect(fd, &a.sa, sizeof(a.in)));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_TEST);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER4, 9) - 1));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
	EXPECT_EQ(0, seen[CONNECT4].runs);
	EXPECT_EQ(0, seen[CONNECT6].runs);
}

/*
 * bpf_bind() to the link-local address of a bound socket does not change the device: the scope
 * must be that of the socket, or 0. Other addresses have no scope.
 */
TEST_F(hooks, scope_of_a_bound_socket)
{
	int wire = if_nametoindex("wire0"), lo = if_nametoindex("lo"), fd, i, j;
	static const struct {
		int type, protocol;
		const char *name;
	} kinds[] = {
		{ SOCK_DGRAM, 0, "UDP" }, { SOCK_RAW, IPPROTO_TEST, "raw" },
	};
	const struct {
		const char *pin, *peer;
		int scope, result;
		const char *name;
	} binds[] = {
		{ "fe80::1", "fe80::9", wire, 0, "the scope of its device" },
		{ "fe80::1", "fe80::9", 0, 0, "no scope" },
		{ "fe80::1", "fe80::9", lo, -EINVAL, "the scope of another device" },
		{ PIN6, PEER6, lo, 0, "a scope, which is ignored" },
	};
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	socklen_t len;

	ASSERT_EQ(0, system("ip addr add fe80::1/64 dev wire0 nodad"));
	for (i = 0; i < (int)ARRAY_LEN(kinds); i++) {
		for (j = 0; j < (int)ARRAY_LEN(binds); j++) {
			policy->netns = 0;
			fd = socket(AF_INET6, kinds[i].type, kinds[i].protocol);
			ASSERT_LE(0, fd);
			len = make_addr(&a, binds[j].pin, 0);
			a.in6.sin6_scope_id = wire;
			ASSERT_EQ(0, bind(fd, &a.sa, len));
			inet_pton(AF_INET6, binds[j].pin, policy->pin6);
			policy->scope = binds[j].scope;
			policy->netns = self->net.cookie;
			self->skel->bss->bind_result = 1;
			len = make_addr(&a, binds[j].peer, 9);
			a.in6.sin6_scope_id = wire;
			EXPECT_EQ(binds[j].result ? -EPERM : 0,
				  connect(fd, &a.sa, len) ? -errno : 0)
				TH_LOG("%s with %s", kinds[i].name, binds[j].name);
			EXPECT_EQ(binds[j].result, self->skel->bss->bind_result)
				TH_LOG("%s with %s", kinds[i].name, binds[j].name);
			close(fd);
		}
	}
}

/*
 * An IPv6 socket that is not bound to IPv4 stores 127.0.0.6 or 0.0.0.0 in place of an IPv4
 * address. bpf_bind() to that does not succeed as if the socket were bound to it.
 */
TEST_F(hooks, not_bound_to_ipv4)
{
	static const struct {
		const char *at, *stored;
	} binds[] = {
		{ PIN6, "127.0.0.6" }, { "::", "0.0.0.0" },
	};
	struct policy *policy = &self->skel->bss->policy;
	int fd, i, other;
	union addr a;

	for (i = 0; i < (int)ARRAY_LEN(binds); i++) {
		for (other = 0; other < 2; other++) {
			policy->netns = 0;
			fd = socket(AF_INET6, SOCK_DGRAM, 0);
			ASSERT_LE(0, fd);
			ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, binds[i].at, 0)));
			inet_pton(AF_INET, binds[i].stored, &policy->pin4);
			policy->other_family = other;
			policy->netns = self->net.cookie;
			self->skel->bss->bind_result = 1;
			EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, "::ffff:" PEER4, 9)));
			EXPECT_EQ(EPERM, errno);
			EXPECT_EQ(-EINVAL, self->skel->bss->bind_result)
				TH_LOG("bound to %s, %s address", binds[i].at,
				       other ? "AF_INET" : "v4-mapped");
			close(fd);
		}
	}
}

/* bpf_bind() to an IPv4 address, which is shorter, does not bind an IPv6 raw socket. */
TEST_F(hooks, raw_other_family)
{
	struct policy *policy = &self->skel->bss->policy;
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = socket(AF_INET6, SOCK_RAW, IPPROTO_TEST);
	ASSERT_LE(0, fd);
	policy->other_family = 1;
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER6, 9)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-EAFNOSUPPORT, self->skel->bss->bind_result);
	ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, "::"));
	close(fd);
}

/* When post_bind refuses a port, TCP looks up its owner by address. */
TEST_F(hooks, refused_port)
{
	struct put_port *put = &self->skel->bss->put_port;
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	int fd, i;

	self->skel->links.see_put_port = bpf_program__attach(self->skel->progs.see_put_port);
	ASSERT_NE(NULL, self->skel->links.see_put_port);
	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		policy->deny = families[i].post_bind;
		fd = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		memset(put, 0, sizeof(*put));
		put->tgid = getpid();
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, families[i].other, 0)));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(1, put->runs);
		EXPECT_EQ(0, memcmp(put->ip, families[i].domain == AF_INET ? &policy->pin4 :
				    policy->pin6, families[i].words * sizeof(__u32)))
			TH_LOG("the socket had another address when it gave its port back");
		put->tgid = 0;
		close(fd);
	}
}

/* An address without a port survives a failed bind(), but not one to any. */
TEST_F(hooks, bound_again)
{
	struct policy *policy = &self->skel->bss->policy;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd, busy, twin, server, port, i;
	union addr a;

	allow_ping(_metadata);
	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		policy->netns = 0;
		server = peer_socket(&self->net, families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, families[i].peer, 0)));
		ASSERT_EQ(0, listen(server, 1));
		busy = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, busy);
		ASSERT_EQ(0, bind(busy, &a.sa, make_addr(&a, families[i].other, 0)));
		port = port_of(busy);

		fd = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, set_noport(fd));
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, families[i].other, port)));
		EXPECT_EQ(EADDRINUSE, errno);
		EXPECT_TRUE(has_ip(fd, families[i].pin))
			TH_LOG("a port that is taken cost the address");
		/* A socket bound to any address would have the port at all of them. */
		ASSERT_EQ(0, listen(fd, 1));
		twin = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, twin);
		EXPECT_EQ(0, bind(twin, &a.sa, make_addr(&a, families[i].other, port_of(fd))))
			TH_LOG("a port that is taken cost the address");
		close(twin);
		close(fd);

		fd = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, set_noport(fd));
		close(busy);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		policy->netns = self->net.cookie;
		policy->deny = families[i].post_bind;
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, families[i].other, port)));
		EXPECT_EQ(EPERM, errno);
		EXPECT_TRUE(has_ip(fd, families[i].pin))
			TH_LOG("a port that is refused cost the address");

		policy->netns = 0;
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].any, 0)));
		ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, families[i].peer, port_of(server))));
		ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
		EXPECT_TRUE(has_ip(fd, families[i].any))
			TH_LOG("the source of a connection that is gone has stayed");
		close(fd);
		close(server);

		fd = socket(families[i].domain, SOCK_DGRAM, families[i].ping);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, families[i].peer, 0)));
		ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].any, 0)));
		ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, families[i].peer, 0)));
		ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
		EXPECT_TRUE(has_ip(fd, families[i].any))
			TH_LOG("the source that a ping socket was connected with has stayed");
		close(fd);
	}
}

/*
 * Policies that were written before their hooks ran for SCTP, ping and RAW. Loaded with
 * BPF_F_ALL_PROTOCOLS, rules for all protocols apply to these too and rules for TCP and
 * UDP do not; loaded without it (old_*), the programs do not run for them.
 */
FIXTURE(known)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup;
};

FIXTURE_SETUP(known)
{
	struct cgroup_sock *skel;

	/* All of newcomers[] are tested. */
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	self->skel = enter_policy(_metadata, &self->cgroup, &self->net);
	if (!self->skel)
		return;
	skel = self->skel;
	allow_ping(_metadata);
	skel->links.bind_rules4 = bpf_program__attach_cgroup(skel->progs.bind_rules4,
							     self->cgroup);
	ASSERT_NE(NULL, skel->links.bind_rules4);
	skel->links.bind_rules6 = bpf_program__attach_cgroup(skel->progs.bind_rules6,
							     self->cgroup);
	ASSERT_NE(NULL, skel->links.bind_rules6);
	skel->links.balance4 = bpf_program__attach_cgroup(skel->progs.balance4, self->cgroup);
	ASSERT_NE(NULL, skel->links.balance4);
}

FIXTURE_TEARDOWN(known)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

static const struct {
	const char *name;
	int domain, type, protocol;
} newcomers[] = {
	{ "SCTP", AF_INET, SOCK_STREAM, IPPROTO_SCTP },
	{ "SCTP on IPv6", AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP },
	{ "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
	{ "ping on IPv6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6 },
	{ "RAW", AF_INET, SOCK_RAW, IPPROTO_TEST },
	{ "RAW on IPv6", AF_INET6, SOCK_RAW, IPPROTO_TEST },
};

/* bind() each of them to any address and @port: @err. */
static void bind_all(struct __test_metadata *_metadata, int port, int err)
{
	socklen_t len;
	union addr a;
	int fd, i;

	for (i = 0; i < (int)ARRAY_LEN(newcomers); i++) {
		fd = socket(newcomers[i].domain, newcomers[i].type, newcomers[i].protocol);
		ASSERT_LE(0, fd);
		len = make_addr(&a, newcomers[i].domain == AF_INET ? "0.0.0.0" : "::", port);
		EXPECT_EQ(err, bind(fd, &a.sa, len) ? -errno : 0)
			TH_LOG("%s", newcomers[i].name);
		close(fd);
	}
}

TEST_F(known, bind_rules)
{
	struct bind_rule *rule = &self->skel->bss->bind_rule;

	/* SocketBindDeny=any */
	rule->active = 1;
	bind_all(_metadata, 0, -EPERM);
	/* SocketBindDeny=tcp, SocketBindDeny=udp:1000-2000 */
	rule->protocol = IPPROTO_TCP;
	bind_all(_metadata, 0, 0);
	rule->protocol = IPPROTO_UDP;
	rule->first = 1000;
	rule->last = 2000;
	bind_all(_metadata, 1500, 0);
	/* SocketBindDeny=1000-2000 */
	rule->protocol = 0;
	bind_all(_metadata, 1500, -EPERM);
	bind_all(_metadata, 2500, 0);
}

/* A balancer translates the peer of a UDP socket. */
static void expect_translated(struct __test_metadata *_metadata, const struct seen *seen)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	int fd;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, VIRT4, 9)));
	ASSERT_EQ(0, getpeername(fd, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PEER4));
	EXPECT_EQ(1, seen->runs);
	close(fd);
}

/* connect() of newcomer @i (AF_INET) must run @runs programs. Returns the socket. */
static int connect_newcomer(struct __test_metadata *_metadata, struct seen *seen, int i, int runs)
{
	union addr a;
	int fd;

	fd = socket(AF_INET, newcomers[i].type | SOCK_NONBLOCK, newcomers[i].protocol);
	ASSERT_LE(0, fd);
	seen->runs = 0;
	if (connect(fd, &a.sa, make_addr(&a, VIRT4, 9)))
		ASSERT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(runs, seen->runs)
		TH_LOG("%s", newcomers[i].name);
	return fd;
}

TEST_F(known, balancer)
{
	struct seen *seen = &self->skel->bss->seen[CONNECT4];
	socklen_t len;
	union addr a;
	int fd, i;

	/* It translates one protocol, which shows that it works ... */
	expect_translated(_metadata, seen);
	/* ... but not these, although it sees them. */
	for (i = 0; i < (int)ARRAY_LEN(newcomers); i++) {
		if (newcomers[i].domain != AF_INET)
			continue;
		fd = connect_newcomer(_metadata, seen, i, 1);
		EXPECT_EQ(newcomers[i].protocol, seen->protocol);
		/* SCTP has no peer name before the peer answers. */
		len = sizeof(a);
		if (newcomers[i].protocol != IPPROTO_SCTP) {
			ASSERT_EQ(0, getpeername(fd, &a.sa, &len));
			EXPECT_TRUE(same_ip(&a, VIRT4));
		}
		close(fd);
	}
}

static bool is_ping(int i)
{
	return newcomers[i].type == SOCK_DGRAM;
}

/*
 * A balancer that treats SOCK_STREAM as TCP, like those of calico and Istio. It must not run
 * for protocols that were added to connect later.
 */
TEST_F(known, balancer_by_type)
{
	struct seen *seen = &self->skel->bss->seen[CONNECT4];
	int i;

	ASSERT_EQ(0, bpf_link__destroy(self->skel->links.balance4));
	self->skel->links.balance4 = NULL;
	self->skel->links.old_balance_by_type4 =
		bpf_program__attach_cgroup(self->skel->progs.old_balance_by_type4, self->cgroup);
	ASSERT_NE(NULL, self->skel->links.old_balance_by_type4);
	expect_translated(_metadata, seen);
	/* Ping is not new here: connect has run for it since 6.1. */
	for (i = 0; i < (int)ARRAY_LEN(newcomers); i++)
		if (newcomers[i].domain == AF_INET)
			close(connect_newcomer(_metadata, seen, i, is_ping(i)));
}

/* Rules for bind() like systemd's, loaded without the flag: they apply to TCP and UDP. */
TEST_F(known, old_bind_rules)
{
	struct bind_rule *rule = &self->skel->bss->bind_rule;
	struct cgroup_sock *skel = self->skel;
	struct {
		struct bpf_program *prog;
		struct bpf_link **link;
	} old[] = {
		{ skel->progs.old_bind_rules4, &skel->links.old_bind_rules4 },
		{ skel->progs.old_bind_rules6, &skel->links.old_bind_rules6 },
		{ skel->progs.old_post_bind4, &skel->links.old_post_bind4 },
		{ skel->progs.old_post_bind6, &skel->links.old_post_bind6 },
	};
	union addr a;
	int fd, i;

	ASSERT_EQ(0, bpf_link__destroy(skel->links.bind_rules4));
	ASSERT_EQ(0, bpf_link__destroy(skel->links.bind_rules6));
	skel->links.bind_rules4 = NULL;
	skel->links.bind_rules6 = NULL;
	for (i = 0; i < (int)ARRAY_LEN(old); i++) {
		*old[i].link = bpf_program__attach_cgroup(old[i].prog, self->cgroup);
		ASSERT_NE(NULL, *old[i].link);
	}
	/* SocketBindDeny=any, at bind and then at post_bind */
	for (i = 0; i < 2; i++) {
		rule->active = !i;
		rule->post_bind = i;
		fd = socket(AF_INET, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
		EXPECT_EQ(EPERM, errno);
		close(fd);
		fd = socket(AF_INET6, SOCK_DGRAM, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		EXPECT_EQ(EPERM, errno);
		close(fd);
		bind_all(_metadata, 0, 0);
	}
}

/* Programs attached together each run by their own flag. */
TEST_F(known, both)
{
	struct seen *seen = &self->skel->bss->seen[CONNECT4];
	struct bind_rule *rule = &self->skel->bss->bind_rule;
	struct cgroup_sock *skel = self->skel;
	union addr a;
	int fd, i;

	if (!has_all_protocols())
		SKIP(return, "no BPF_F_ALL_PROTOCOLS");
	skel->links.old_balance_by_type4 =
		bpf_program__attach_cgroup(skel->progs.old_balance_by_type4, self->cgroup);
	ASSERT_NE(NULL, skel->links.old_balance_by_type4);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, VIRT4, 9)));
	EXPECT_EQ(2, seen->runs);
	close(fd);
	for (i = 0; i < (int)ARRAY_LEN(newcomers); i++)
		if (newcomers[i].domain == AF_INET)
			close(connect_newcomer(_metadata, seen, i, 1 + is_ping(i)));

	/* bind_rules4 has the flag, and lets the old one's refusal stand for TCP. */
	skel->links.old_post_bind4 =
		bpf_program__attach_cgroup(skel->progs.old_post_bind4, self->cgroup);
	ASSERT_NE(NULL, skel->links.old_post_bind4);
	skel->links.old_post_bind6 =
		bpf_program__attach_cgroup(skel->progs.old_post_bind6, self->cgroup);
	ASSERT_NE(NULL, skel->links.old_post_bind6);
	rule->post_bind = 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)));
	EXPECT_EQ(EPERM, errno);
	close(fd);
	bind_all(_metadata, 0, 0);
	rule->active = 1;
	bind_all(_metadata, 0, -EPERM);
}

/* Types that take the flag, and where it is shown. */
TEST(all_protocols)
{
	static const struct {
		enum bpf_prog_type type;
		enum bpf_attach_type attach_type;
		int err;
	} all[] = {
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_BIND, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_BIND, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_CONNECT, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET4_POST_BIND, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET6_POST_BIND, 0 },
		{ BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_CREATE, -EINVAL },
		/* Treated as BPF_CGROUP_INET_SOCK_CREATE by the kernel */
		{ BPF_PROG_TYPE_CGROUP_SOCK, 0, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET4_CONNECT, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_POST_BIND, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET_AUTOBIND, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UDP4_SENDMSG, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_UNIX_CONNECT, -EINVAL },
		{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS, -EINVAL },
		{ BPF_PROG_TYPE_SOCKET_FILTER, 0, -EINVAL },
	};
	int fd, i, flag;

	if (!has_all_protocols())
		SKIP(return, "no BPF_F_ALL_PROTOCOLS");
	for (i = 0; i < (int)ARRAY_LEN(all); i++) {
		fd = load_allow(all[i].type, all[i].attach_type, BPF_F_ALL_PROTOCOLS);
		EXPECT_EQ(all[i].err, fd < 0 ? fd : 0)
			TH_LOG("program type %d, attach type %d", all[i].type, all[i].attach_type);
		if (fd >= 0)
			close(fd);
	}
	for (flag = 0; flag < 2; flag++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		fd = load_allow(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_BIND,
				flag ? BPF_F_ALL_PROTOCOLS : 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bpf_prog_get_info_by_fd(fd, &info, &len));
		EXPECT_EQ(flag, (int)info.all_protocols);
		close(fd);
	}
}

/*
 * Attach and detach programs while sockets are bound. If none changed meanwhile, a socket must
 * be bound as with the programs, or as without.
 */
#define STORM_SECONDS 3

enum { DETACHED, ATTACHING, ATTACHED, DETACHING };

struct storm {
	unsigned int epoch;	/* the lowest two bits: state of the attacher */
	bool stop;
	int domain;
	unsigned long attached, detached, wrong;
};

static bool bound_as(int fd, const char *text)
{
	socklen_t len = sizeof(union addr);
	union addr a;

	return !getsockname(fd, &a.sa, &len) && a.in.sin_port && same_ip(&a, text);
}

static void *storm_binds(void *arg)
{
	struct storm *s = arg;
	const char *any = s->domain == AF_INET ? "0.0.0.0" : "::";
	const char *pin = s->domain == AF_INET ? PIN4 : PIN6;
	union addr peer, local;
	socklen_t len = make_addr(&peer, s->domain == AF_INET ? PEER4 : PEER6, 9);
	unsigned int before, after;
	int fd, ret, how;

	for (how = 0; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); how = (how + 1) % 4) {
		fd = socket(s->domain, how < 3 ? SOCK_STREAM : SOCK_DGRAM,
			    how == 1 ? IPPROTO_MPTCP : 0);
		before = __atomic_load_n(&s->epoch, __ATOMIC_SEQ_CST);
		if (how == 2)
			ret = bind(fd, &local.sa, make_addr(&local, any, 0));
		else if (how < 3)
			ret = listen(fd, 1);
		else
			ret = sendto(fd, "x", 1, 0, &peer.sa, len) == 1 ? 0 : -1;
		after = __atomic_load_n(&s->epoch, __ATOMIC_SEQ_CST);
		if (ret || (!bound_as(fd, any) && !bound_as(fd, pin))) {
			__sync_fetch_and_add(&s->wrong, 1);
		} else if (before == after && (before & 3) == ATTACHED) {
			__sync_fetch_and_add(&s->attached, 1);
			if (!bound_as(fd, pin))
				__sync_fetch_and_add(&s->wrong, 1);
		} else if (before == after && (before & 3) == DETACHED) {
			__sync_fetch_and_add(&s->detached, 1);
			if (!bound_as(fd, any))
				__sync_fetch_and_add(&s->wrong, 1);
		}
		close(fd);
	}
	return NULL;
}

TEST_F(one_ip, storm)
{
	struct storm storms[2] = { { .domain = AF_INET }, { .domain = AF_INET6 } };
	unsigned long turns = 0, seen[2][2];
	struct bpf_link **links[] = {
		&self->skel->links.one_ip_autobind, &self->skel->links.one_ip_bind4,
		&self->skel->links.one_ip_bind6,
	};
	struct bpf_program *progs[] = {
		self->skel->progs.one_ip_autobind, self->skel->progs.one_ip_bind4,
		self->skel->progs.one_ip_bind6,
	};
	struct timespec now, end;
	pthread_t threads[2];
	int i;

	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	ASSERT_NE(NULL, self->skel->links.one_ip_autobind);
	for (i = 0; i < 2; i++) {
		storms[i].epoch = ATTACHED;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, storm_binds, &storms[i]));
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += storm_seconds(STORM_SECONDS);
	do {
		/* Wait until both have made progress in this state. */
		for (i = 0; i < 2; i++) {
			seen[i][0] = __atomic_load_n(&storms[i].attached, __ATOMIC_RELAXED);
			while (__atomic_load_n(&storms[i].attached, __ATOMIC_RELAXED) ==
			       seen[i][0] &&
			       !__atomic_load_n(&storms[i].wrong, __ATOMIC_RELAXED))
				sched_yield();
			__atomic_add_fetch(&storms[i].epoch, 1, __ATOMIC_SEQ_CST);
		}
		for (i = 0; i < (int)ARRAY_LEN(links); i++) {
			bpf_link__destroy(*links[i]);
			*links[i] = NULL;
		}
		for (i = 0; i < 2; i++)
			__atomic_add_fetch(&storms[i].epoch, 1, __ATOMIC_SEQ_CST);
		for (i = 0; i < 2; i++) {
			seen[i][1] = __atomic_load_n(&storms[i].detached, __ATOMIC_RELAXED);
			while (__atomic_load_n(&storms[i].detached, __ATOMIC_RELAXED) ==
			       seen[i][1] &&
			       !__atomic_load_n(&storms[i].wrong, __ATOMIC_RELAXED))
				sched_yield();
			__atomic_add_fetch(&storms[i].epoch, 1, __ATOMIC_SEQ_CST);
		}
		for (i = 0; i < (int)ARRAY_LEN(links); i++) {
			*links[i] = bpf_program__attach_cgroup(progs[i], self->cgroup);
			ASSERT_NE(NULL, *links[i]);
		}
		for (i = 0; i < 2; i++)
			__atomic_add_fetch(&storms[i].epoch, 1, __ATOMIC_SEQ_CST);
		turns++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec && !storms[0].wrong && !storms[1].wrong);
	for (i = 0; i < 2; i++) {
		__atomic_store_n(&storms[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, storms[i].wrong);
		EXPECT_LT(0, storms[i].attached);
		EXPECT_LT(0, storms[i].detached);
		TH_LOG("%lu turns, %lu sockets with and %lu without programs", turns,
		       storms[i].attached, storms[i].detached);
	}
}

#define FUZZ_SOCKETS 16

#define FUZZ_PAST 12

struct fuzzer {
	struct fuzz fuzz;
	struct cell sockets[FUZZ_SOCKETS];
	int fds[FUZZ_SOCKETS];
	char past[FUZZ_SOCKETS][FUZZ_PAST][120];		/* history of each */
	int steps[FUZZ_SOCKETS], last;
	int servers[PROTOS][2], ports[PROTOS][2];	/* IPv4, IPv6 */
	unsigned long done, refused, failed;
};

/* Attach and detach two no-op programs next to those of the policy. */
static void *come_and_go(void *arg)
{
	FIXTURE_DATA(one_ip) *self = arg;
	struct cgroup_sock *skel = self->skel;

	while (!__atomic_load_n(&self->stop, __ATOMIC_RELAXED)) {
		skel->links.bind_rules4 = bpf_program__attach_cgroup(skel->progs.bind_rules4,
								     self->cgroup);
		skel->links.bind_rules6 = bpf_program__attach_cgroup(skel->progs.bind_rules6,
								     self->cgroup);
		self->turns += skel->links.bind_rules4 && skel->links.bind_rules6;
		bpf_link__destroy(skel->links.bind_rules4);
		bpf_link__destroy(skel->links.bind_rules6);
		skel->links.bind_rules4 = NULL;
		skel->links.bind_rules6 = NULL;
	}
	return NULL;
}

/* Any option that affects where a socket is bound. */
static void fuzz_option(struct fuzz *f, int fd)
{
	static const struct { int level, name; } options[] = {
		{ SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_REUSEPORT },
		{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT }, { IPPROTO_IP, IP_FREEBIND },
		{ IPPROTO_IPV6, IPV6_V6ONLY }, { IPPROTO_IPV6, IPV6_FREEBIND },
	};
	int i = fuzz_pick(f, ARRAY_LEN(options)), value = fuzz_pick(f, 2);

	setsockopt(fd, options[i].level, options[i].name, &value, sizeof(value));
}

/* The peer connects to the one IP. */
static void fuzz_knock(const struct net *net, const struct cell *c, int port)
{
	bool v6 = is_v6_form(c->form);
	union addr a;
	socklen_t len = make_addr(&a, v6 ? PIN6 : PIN4, port);
	int fd;

	fd = peer_socket(net, a.sa.sa_family, server_type(c->proto) | SOCK_NONBLOCK,
			 is_sctp(c->proto) ? IPPROTO_SCTP : 0);
	if (fd >= 0 && port > 0)
		connect(fd, &a.sa, len);
	close(fd);
}

/* Record the step taken on a socket, for the report. */
__printf(3, 4)
static void fuzz_note(struct fuzzer *z, int i, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(z->past[i][z->steps[i]++ % FUZZ_PAST], sizeof(z->past[i][0]), fmt, args);
	va_end(args);
}

static void fuzz_step(FIXTURE_DATA(one_ip) *self, struct fuzzer *z)
{
	struct policy *policy = &self->skel->bss->policy;
	struct fuzz *f = &z->fuzz;
	int i = fuzz_pick(f, FUZZ_SOCKETS), *fd = &z->fds[i], how, conn, port, err = 0;
	struct cell *c = &z->sockets[i];
	char local[INET6_ADDRSTRLEN] = "";
	const char *what = "";
	union addr a = {};
	enum form form;
	socklen_t len;

	if (*fd < 0) {
		z->steps[i] = 0;
		c->proto = fuzz_pick(f, PROTOS);
		c->form = fuzz_pick(f, FORMS);
		*fd = make_abrupt_socket(c);
		if (*fd >= 0)
			fcntl(*fd, F_SETFL, O_NONBLOCK);
		return;
	}
	/* Egress must refuse packets that no earlier hook sees. */
	policy->deny = H(EGRESS) | (fuzz_pick(f, 4) ? 0 : H(fuzz_pick(f, HOOKS)));
	policy->late_deny = !fuzz_pick(f, 16);
	policy->mapped = c->form == MAPPED || c->form == ON6;
	how = fuzz_pick(f, 16);
	switch (how) {
	case 0:
		close(*fd);
		*fd = -1;
		return;
	case 1:
		what = "disconnect";
		err = connect(*fd, &a.sa, sizeof(a)) ? -errno : 0;	/* AF_UNSPEC */
		break;
	case 2:
		what = "setsockopt";
		fuzz_option(f, *fd);
		break;
	case 3:
		what = "shutdown";
		err = shutdown(*fd, fuzz_pick(f, 3)) ? -errno : 0;
		break;
	case 4:
		what = "accept";
		conn = accept(*fd, NULL, NULL);
		err = conn < 0 ? -errno : 0;
		close(conn);
		break;
	case 5:
		what = "knock";
		if (server_type(c->proto) == SOCK_STREAM)
			fuzz_knock(&self->net, c, port_of(*fd));
		break;
	case 6:
		what = "bind with a port";
		port = 2000 + fuzz_pick(f, 8);
		len = fuzz_pick(f, 2) ? make_addr(&a, text_of(c->form, "0.0.0.0", "::"), port) :
					make_addr(&a, text_of(c->form, OTHER4, OTHER6), port);
		err = bind(*fd, &a.sa, len) ? -errno : 0;
		break;
	case 7:
		what = "sendmsg";
		err = do_pktinfo(c, *fd, NULL, 0);
		break;
	case 8:
		what = "send";
		err = send(*fd, "x", 1, 0) < 0 ? -errno : 0;
		break;
	default:
		/* Another form only within the same domain. */
		form = c->form;
		do
			c->form = fuzz_pick(f, FORMS);
		while (domain_of(c->form) != domain_of(form));
		do
			c->op = fuzz_pick(f, OPS);
		while (is_uring(c->op));
		what = op_names[c->op];
		policy->mapped = c->form == MAPPED || c->form == ON6;
		err = do_op(c, *fd, z->ports[c->proto][is_v6_form(c->form)]);
		break;
	}
	len = sizeof(a);
	getsockname(*fd, &a.sa, &len);
	inet_ntop(a.sa.sa_family, a.sa.sa_family == AF_INET ? (void *)&a.in.sin_addr :
		  (void *)&a.in6.sin6_addr, local, sizeof(local));
	fuzz_note(z, i, "%s %s (deny %x%s): %s, then %s port %d", form_names[c->form], what,
		  policy->deny, policy->late_deny ? ", late" : "", strerrorname_np(-err) ?: "0",
		  local, ntohs(a.in.sin_port));
	z->last = i;
	z->done += !err;
	z->refused += err == -EPERM;
	z->failed += err && err != -EPERM;
}

/* Does a socket hold a port at an address other than the one IP? */
static bool is_elsewhere(const struct cell *c, int fd)
{
	socklen_t len = sizeof(union addr), size = sizeof(int);
	union addr a, peer;
	int listens = 0;

	/* These have no ports, and are checked when they send. */
	if (fd < 0 || is_raw(c->proto) || c->proto == PING || getsockname(fd, &a.sa, &len))
		return false;
	/* TCP still shows the port that it released on disconnect. */
	len = sizeof(peer);
	if ((c->proto == TCP || c->proto == MPTCP) &&
	    !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && !listens &&
	    getpeername(fd, &peer.sa, &len))
		return false;
	return a.in.sin_port && !same_ip(&a, PIN4) && !same_ip(&a, PIN6) &&
	       !same_ip(&a, "::ffff:" PIN4);
}

static void fuzz_report(struct __test_metadata *_metadata, const struct fuzzer *z, int i)
{
	int j = z->steps[i] < FUZZ_PAST ? 0 : z->steps[i] - FUZZ_PAST;

	TH_LOG("FUZZ_SEED=%u, step %lu: a socket of %s", z->fuzz.seed, z->fuzz.rounds,
	       proto_names[z->sockets[i].proto]);
	for (; j < z->steps[i]; j++)
		TH_LOG("%s", z->past[i][j % FUZZ_PAST]);
}

/*
 * Random calls on sockets of each protocol, with programs that sometimes refuse while others
 * are attached and detached. Ports are held only at the one IP, also after a failure, and no
 * packet leaves from another. In the end nothing is left.
 */
TEST_F_TIMEOUT(one_ip, fuzz, FUZZ_TIMEOUT)
{
	struct cell c = {};
	struct fuzzer z = {};
	int i, from, others, at, elsewhere = 0, all_from = 0;
	pthread_t attacher;
	time_t end;

	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	ASSERT_NE(NULL, self->skel->links.one_ip_autobind)
		TH_LOG("no BPF_CGROUP_INET_AUTOBIND");
	signal(SIGPIPE, SIG_IGN);
	set_policy(&self->skel->bss->policy, &self->net);
	allow_ping(_metadata);
	for (c.proto = 0; c.proto < PROTOS; c.proto++) {
		for (i = 0; i < 2; i++) {
			c.form = i ? INET6 : INET;
			z.ports[c.proto][i] = serve(&self->net, &c, &z.servers[c.proto][i]);
			ASSERT_LT(0, z.ports[c.proto][i]);
			ASSERT_EQ(0, fcntl(z.servers[c.proto][i], F_SETFL, O_NONBLOCK));
		}
	}
	for (i = 0; i < FUZZ_SOCKETS; i++)
		z.fds[i] = -1;
	ASSERT_EQ(0, pthread_create(&attacher, NULL, come_and_go, self));
	fuzz_begin(&z.fuzz);
	/* On a slow machine, some seconds pass without a packet, or a refused call. */
	end = time(NULL) + FUZZ_PATIENCE;
	do {
		fuzz_step(self, &z);
		for (i = 0; i < FUZZ_SOCKETS && !elsewhere; i++) {
			elsewhere = is_elsewhere(&z.sockets[i], z.fds[i]);
			EXPECT_FALSE(elsewhere)
				TH_LOG("a socket is elsewhere");
			if (elsewhere)
				fuzz_report(_metadata, &z, i);
		}
		for (i = 0; i < 2 * PROTOS && z.fuzz.rounds % 64 == 0; i++)
			close(accept(z.servers[i / 2][i % 2], NULL, NULL));
		if (wire_count(&self->net, PIN4, PIN6, &from, &others))
			others = -1;
		all_from += from;
		EXPECT_EQ(0, others)
			TH_LOG("%d packets from elsewhere", others);
		if (others && !elsewhere)
			fuzz_report(_metadata, &z, z.last);
		elsewhere |= others;
	} while ((fuzz_goes_on(&z.fuzz) ||
		  (time(NULL) < end && !(z.done && z.refused && all_from))) && !elsewhere);
	__atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
	pthread_join(attacher, NULL);
	for (i = 0; i < FUZZ_SOCKETS; i++)
		close(z.fds[i]);
	for (i = 0; i < 2 * PROTOS; i++)
		close(z.servers[i / 2][i % 2]);
	TH_LOG("FUZZ_SEED=%u: %lu steps; %lu calls succeeded, %lu were refused, %lu failed",
	       z.fuzz.seed, z.fuzz.rounds, z.done, z.refused, z.failed);
	TH_LOG("%d packets from the one IP; programs came and went %lu times", all_from,
	       self->turns);
	EXPECT_LT(0, z.done);
	EXPECT_LT(0, z.refused);
	EXPECT_LT(0, all_from);
	EXPECT_LT(0, self->turns);
	ASSERT_EQ(0, diag_count(PIN4, PIN6, &at, &elsewhere));
	EXPECT_EQ(0, at + elsewhere);
	EXPECT_EQ(0, sctp_assocs());
}

/*
 * Dual-stack sockets, as created by Java, Go and Node: AF_INET6, not IPV6_V6ONLY. In a cgroup
 * confined to one address per family, each family sends from and is bound to its own, and no
 * other.
 */
FIXTURE(dual)
{
	struct cgroup_sock *skel;
	struct net net;
	int cgroup;
	bool both;	/* programs can give a socket two addresses */
};

/* Can programs at bind6 access user_ip4? */
static bool has_dual(void)
{
	static const struct bpf_insn insns[] = { LD(0, CTX(user_ip4)), RET(1) };
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET6_BIND);
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "dual", "GPL", insns,
			       ARRAY_LEN(insns), &opts);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static struct cgroup_sock *open_dual(void)
{
	struct cgroup_sock *skel = cgroup_sock__open();

	if (!skel)
		return NULL;
	bpf_program__set_autoload(skel->progs.bind_in_connect4, false);
	bpf_program__set_autoload(skel->progs.one_ip_bind6, false);
	bpf_program__set_autoload(skel->progs.one_ip_autobind, false);
	bpf_program__set_autoload(skel->progs.dual_bind6, true);
	bpf_program__set_autoload(skel->progs.dual_autobind, true);
	bpf_program__set_autoload(skel->progs.always_both, true);
	bpf_program__set_autoload(skel->progs.any_port6, true);
	bpf_program__set_autoload(skel->progs.bind_ipv4_in_connect6, true);
	use_all_protocols(skel->obj);
	if (!cgroup_sock__load(skel))
		return skel;
	cgroup_sock__destroy(skel);
	return NULL;
}

FIXTURE_SETUP(dual)
{
	struct cgroup_sock *skel;
	int err;

	self->cgroup = cgroup_enter(CGROUP);
	if (self->cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
	ASSERT_LE(0, self->cgroup);
	err = net_setup(&self->net);
	if (err == -EOPNOTSUPP) {
		cgroup_leave(CGROUP);
		SKIP(return, NEEDS_NET);
	}
	ASSERT_EQ(0, err);
	self->both = has_dual();
	skel = self->both ? open_dual() : open_policy();
	ASSERT_NE(NULL, skel);
	self->skel = skel;
	ASSERT_EQ(0, attach_policy(skel, self->cgroup));
	if (self->both) {
		skel->links.dual_bind6 = bpf_program__attach_cgroup(skel->progs.dual_bind6,
								    self->cgroup);
		ASSERT_NE(NULL, skel->links.dual_bind6);
		skel->links.dual_autobind =
			bpf_program__attach_cgroup(skel->progs.dual_autobind, self->cgroup);
		ASSERT_NE(NULL, skel->links.dual_autobind);
	}
	set_policy(&skel->bss->policy, &self->net);
}

FIXTURE_TEARDOWN(dual)
{
	close(self->cgroup);
	cgroup_leave(CGROUP);
	cgroup_sock__destroy(self->skel);
}

static const struct {
	const char *name;
	int type, protocol, peer;
} dual_kinds[] = {
	{ "TCP", SOCK_STREAM, IPPROTO_TCP, IPPROTO_TCP },
	/* matrix.cell has the fallback to TCP. */
	{ "MPTCP", SOCK_STREAM, IPPROTO_MPTCP, IPPROTO_MPTCP },
	{ "SCTP", SOCK_STREAM, IPPROTO_SCTP, IPPROTO_SCTP },
	{ "UDP", SOCK_DGRAM, IPPROTO_UDP, IPPROTO_UDP },
	{ "one-to-many SCTP", SOCK_SEQPACKET, IPPROTO_SCTP, IPPROTO_SCTP },
};

#define DUAL_STREAMS 3		/* the first of them */

static bool dual_listens(int kind)
{
	return dual_kinds[kind].type != SOCK_DGRAM;
}

static const struct {
	const char *peer, *to, *from, *other;
	int domain;
} dual_ways[] = {
	{ PEER4, "::ffff:" PEER4, PIN4, OTHER4, AF_INET },
	{ PEER6, PEER6, PIN6, OTHER6, AF_INET6 },
};

static int dual_socket(int kind)
{
	return impatient(socket(AF_INET6, dual_kinds[kind].type, dual_kinds[kind].protocol));
}

/* A service of one family at the peer. */
static int dual_server(struct __test_metadata *_metadata, const struct net *net, int kind,
		       int way)
{
	union addr a;
	int fd;

	fd = impatient(peer_socket(net, dual_ways[way].domain, dual_kinds[kind].type,
				   dual_kinds[kind].peer));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, dual_ways[way].peer, 0)));
	if (dual_listens(kind))
		ASSERT_EQ(0, listen(fd, 8));
	return fd;
}

/* Is @from the server's next client? */
static bool dual_got(int server, int kind, const char *from)
{
	socklen_t len = sizeof(union addr);
	union addr a;
	char c;
	int fd;

	if (dual_kinds[kind].type != SOCK_STREAM)
		return recvfrom(server, &c, 1, 0, &a.sa, &len) == 1 && same_ip(&a, from);
	fd = accept(server, &a.sa, &len);
	if (fd < 0)
		return false;
	close(fd);
	return same_ip(&a, from);
}

TEST_F(dual, sendto)
{
	int servers[2], fd, bound, first, i, way, ret;
	union addr a;
	socklen_t len;

	for (i = 0; i < 2; i++)
		servers[i] = dual_server(_metadata, &self->net, 3, i);
	for (bound = 0; bound < 2; bound++) {
		for (first = 0; first < 2; first++) {
			fd = dual_socket(3);
			ASSERT_LE(0, fd);
			if (bound)
				ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
			for (i = 0; i < 3; i++) {
				way = (first + i) % 2;
				len = make_addr(&a, dual_ways[way].to, port_of(servers[way]));
				ret = sendto(fd, "x", 1, 0, &a.sa, len);
				EXPECT_EQ(1, ret)
					TH_LOG("%s, %s: %m", bound ? "bound" : "not bound",
					       dual_ways[way].to);
				if (ret != 1)
					continue;
				EXPECT_TRUE(dual_got(servers[way], 3, dual_ways[way].from))
					TH_LOG("%s, %s", bound ? "bound" : "not bound",
					       dual_ways[way].to);
			}
			close(fd);
		}
	}
}

TEST_F(dual, connect)
{
	int server, fd, kind, bound, way, ret;
	char name[INET6_ADDRSTRLEN + 8];
	union addr a;
	socklen_t len;

	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	for (kind = 0; kind < (int)ARRAY_LEN(dual_kinds); kind++) {
		for (way = 0; way < 2; way++) {
			server = dual_server(_metadata, &self->net, kind, way);
			for (bound = 0; bound < 2; bound++) {
				fd = dual_socket(kind);
				ASSERT_LE(0, fd);
				if (bound)
					ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
				len = make_addr(&a, dual_ways[way].to, port_of(server));
				ret = connect(fd, &a.sa, len);
				EXPECT_EQ(0, ret)
					TH_LOG("%s to %s, %s: %m", dual_kinds[kind].name,
					       dual_ways[way].to, bound ? "bound" : "not bound");
				if (ret) {
					close(fd);
					continue;
				}
				if (kind >= DUAL_STREAMS)
					EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
				EXPECT_TRUE(dual_got(server, kind, dual_ways[way].from))
					TH_LOG("%s to %s, %s", dual_kinds[kind].name,
					       dual_ways[way].to, bound ? "bound" : "not bound");
				snprintf(name, sizeof(name), "%s%s", way ? "" : "::ffff:",
					 dual_ways[way].from);
				/* It has any number of peers, and is not connected. */
				if (dual_kinds[kind].type == SOCK_SEQPACKET && bound)
					strcpy(name, PIN6);
				len = sizeof(a);
				ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
				EXPECT_TRUE(same_ip(&a, name))
					TH_LOG("name of %s", dual_kinds[kind].name);
				close(fd);
			}
			close(server);
		}
	}
}

/*
 * Connects a socket of the peer to @port at @to. Returns 0 or an error. Without a UDP socket,
 * the host reports it and the peer's recv() fails: tests that expect that WAIT, others LOOK.
 */
enum { LOOK = MSG_DONTWAIT, WAIT = 0 };

static int dual_reach(struct __test_metadata *_metadata, const struct net *net, int kind,
		      int way, const char *to, int port, int wait)
{
	socklen_t len;
	union addr a;
	char c = 'x';
	int fd, err = 0;

	fd = impatient(peer_socket(net, dual_ways[way].domain, dual_kinds[kind].type,
				   dual_kinds[kind].peer));
	ASSERT_LE(0, fd);
	len = make_addr(&a, to, port);
	if (connect(fd, &a.sa, len))
		err = -errno;
	if (!err && kind >= DUAL_STREAMS)
		ASSERT_EQ(1, sendto(fd, &c, 1, 0, &a.sa, len));
	if (!err && dual_kinds[kind].type == SOCK_DGRAM &&
	    recv(fd, &c, 1, wait) < 0 && errno == ECONNREFUSED)
		err = -errno;
	close(fd);
	return err;
}

/* Is @fd reachable at the given address of each family? */
static void dual_reachable(struct __test_metadata *_metadata, const struct net *net, int kind,
			   int fd, const char *at4, const char *at6)
{
	const char * const at[] = { at4, at6 };
	int way, err, port = port_of(fd);

	for (way = 0; way < 2; way++) {
		err = dual_reach(_metadata, net, kind, way, at[way], port, LOOK);
		EXPECT_EQ(0, err)
			TH_LOG("%s at %s", dual_kinds[kind].name, at[way]);
		if (err)
			continue;
		EXPECT_TRUE(dual_got(fd, kind, way ? PEER6 : "::ffff:" PEER4))
			TH_LOG("%s at %s", dual_kinds[kind].name, at[way]);
	}
}

TEST_F(dual, listen)
{
	int fd, kind, bound, way;
	union addr a;

	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	for (kind = 0; kind < (int)ARRAY_LEN(dual_kinds); kind++) {
		for (bound = 0; bound < 2 && dual_listens(kind); bound++) {
			fd = dual_socket(kind);
			ASSERT_LE(0, fd);
			if (bound)
				ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
			ASSERT_EQ(0, listen(fd, 8));
			dual_reachable(_metadata, &self->net, kind, fd, PIN4, PIN6);
			for (way = 0; way < 2; way++)
				EXPECT_EQ(-ECONNREFUSED,
					  dual_reach(_metadata, &self->net, kind, way,
						     dual_ways[way].other, port_of(fd), WAIT))
					TH_LOG("%s, IPv%d", dual_kinds[kind].name, way ? 6 : 4);
			close(fd);
		}
	}
}

TEST_F(dual, receive)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, any[2], way, one = 1;
	union addr a;

	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	dual_reachable(_metadata, &self->net, 3, fd, PIN4, PIN6);
	for (way = 0; way < 2; way++)
		EXPECT_EQ(-ECONNREFUSED, dual_reach(_metadata, &self->net, 3, way,
						    dual_ways[way].other, port_of(fd), WAIT));
	close(fd);

	/* A specific address beats any, even if both may be bound. */
	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	policy->netns = 0;
	for (way = 0; way < 2; way++) {
		any[way] = socket(way ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
		ASSERT_LE(0, any[way]);
		ASSERT_EQ(0, setsockopt(any[way], SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
		if (way)
			ASSERT_EQ(0, setsockopt(any[way], IPPROTO_IPV6, IPV6_V6ONLY, &one,
						sizeof(one)));
		ASSERT_EQ(0, bind(any[way], &a.sa,
				  make_addr(&a, way ? "::" : "0.0.0.0", port_of(fd))));
	}
	dual_reachable(_metadata, &self->net, 3, fd, PIN4, PIN6);
	close(any[0]);
	close(any[1]);
	close(fd);
}

/*
 * Binds to a port that was just released: a connection that was accepted there can keep it
 * for a moment.
 */
static int bind_to_released(int fd, const union addr *a, socklen_t len)
{
	time_t end = time(NULL) + 10 * timeout_scale();
	int err;

	while ((err = bind(fd, &a->sa, len)) && errno == EADDRINUSE && time(NULL) < end)
		sched_yield();
	return err;
}

/* Two cgroups use one port without a conflict: each has its own. */
TEST_F(dual, port_of_another_cgroup)
{
	const struct linger abort = { .l_onoff = 1 };
	struct policy *policy = &self->skel->bss->policy;
	int kind, first, second;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	for (kind = 0; kind < (int)ARRAY_LEN(dual_kinds); kind++) {
		set_policy(policy, &self->net);
		first = dual_socket(kind);
		ASSERT_LE(0, first);
		ASSERT_EQ(0, bind(first, &a.sa, make_addr(&a, "::", 0)));
		inet_pton(AF_INET, OTHER4, &policy->pin4);
		inet_pton(AF_INET6, OTHER6, policy->pin6);
		second = dual_socket(kind);
		ASSERT_LE(0, second);
		ASSERT_EQ(0, bind(second, &a.sa, make_addr(&a, "::", port_of(first))))
			TH_LOG("%s", dual_kinds[kind].name);
		if (dual_listens(kind)) {
			ASSERT_EQ(0, listen(first, 8));
			ASSERT_EQ(0, listen(second, 8));
		}
		/*
		 * An association that is shut down, or a connection that this side ends first, as
		 * MPTCP can, would keep the port for a minute. Accepted sockets inherit this.
		 */
		if (dual_kinds[kind].type != SOCK_DGRAM)
			ASSERT_EQ(0, setsockopt(first, SOL_SOCKET, SO_LINGER, &abort,
						sizeof(abort)));
		dual_reachable(_metadata, &self->net, kind, first, PIN4, PIN6);
		dual_reachable(_metadata, &self->net, kind, second, OTHER4, OTHER6);
		close(first);
		/* The released port can be taken again. */
		set_policy(policy, &self->net);
		first = dual_socket(kind);
		ASSERT_LE(0, first);
		EXPECT_EQ(0, bind_to_released(first, &a, make_addr(&a, "::", port_of(second))))
			TH_LOG("%s: %m", dual_kinds[kind].name);
		close(first);
		close(second);
	}
}

/*
 * Bind another socket to the port, before or after. @crowd: number of sockets at the port,
 * enough for UDP to look for conflicts by address.
 */
static void dual_conflict(struct __test_metadata *_metadata, struct policy *policy,
			  uint64_t cookie, int kind, const char *text, int v6only, int expected,
			  bool before, int crowd)
{
	int fd, other, many[12], i, port;
	char local[INET_ADDRSTRLEN];
	union addr a;
	int err;

	policy->netns = 0;
	for (i = 0; i < crowd; i++) {
		snprintf(local, sizeof(local), "127.1.0.%d", i + 1);
		many[i] = socket(AF_INET, dual_kinds[kind].type, 0);
		ASSERT_LE(0, many[i]);
		ASSERT_EQ(0, bind(many[i], &a.sa,
				  make_addr(&a, local, i ? port_of(many[0]) : 0)));
	}
	port = crowd ? port_of(many[0]) : 0;
	fd = dual_socket(kind);
	ASSERT_LE(0, fd);
	make_addr(&a, text, 0);
	other = socket(a.sa.sa_family, dual_kinds[kind].type, 0);
	ASSERT_LE(0, other);
	if (v6only)
		ASSERT_EQ(0, setsockopt(other, IPPROTO_IPV6, IPV6_V6ONLY, &v6only,
					sizeof(v6only)));
	if (before) {
		ASSERT_EQ(0, bind(other, &a.sa, make_addr(&a, text, port)));
		policy->netns = cookie;
		err = bind(fd, &a.sa, make_addr(&a, "::", port_of(other)));
	} else {
		policy->netns = cookie;
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", port)));
		policy->netns = 0;
		err = bind(other, &a.sa, make_addr(&a, text, port_of(fd)));
	}
	EXPECT_EQ(expected, err ? -errno : 0)
		TH_LOG("%s at %s%s, %s", dual_kinds[kind].name, text,
		       v6only ? " without IPv4" : "", before ? "before" : "after");
	for (i = 0; i < crowd; i++)
		close(many[i]);
	close(fd);
	close(other);
}

TEST_F(dual, conflicts)
{
	static const struct {
		const char *text;
		int err, v6only;
	} others[] = {
		{ PIN4, -EADDRINUSE }, { OTHER4, 0 },
		{ PIN6, -EADDRINUSE }, { OTHER6, 0 },
		{ "::ffff:" PIN4, -EADDRINUSE }, { "::ffff:" OTHER4, 0 },
		{ "0.0.0.0", -EADDRINUSE }, { "::", -EADDRINUSE },
		{ "::", -EADDRINUSE, 1 },
	};
	static const int kinds[] = { 0, 3 };
	struct policy *policy = &self->skel->bss->policy;
	int i, k, way;

	if (!self->both)
		SKIP(return, "a socket has one address");
	for (k = 0; k < (int)ARRAY_LEN(kinds); k++)
		for (i = 0; i < (int)ARRAY_LEN(others); i++)
			for (way = 0; way < 2; way++) {
				dual_conflict(_metadata, policy, self->net.cookie, kinds[k],
					      others[i].text, others[i].v6only,
					      others[i].err, way, 0);
				if (i < 6)	/* not a wildcard */
					dual_conflict(_metadata, policy, self->net.cookie,
						      kinds[k], others[i].text, 0,
						      others[i].err, way, 12);
			}
}

/* SCTP binds one address after the other: if the second is in use, the first is free again. */
TEST_F(dual, second_address_in_use)
{
	struct policy *policy = &self->skel->bss->policy;
	int first, fd, last, port;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	policy->netns = 0;
	first = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	ASSERT_LE(0, first);
	ASSERT_EQ(0, bind(first, &a.sa, make_addr(&a, PIN4, 0)));
	port = port_of(first);

	policy->netns = self->net.cookie;
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EADDRINUSE, bind(fd, &a.sa, make_addr(&a, "::", port)) ? -errno : 0);
	EXPECT_TRUE(has_ip(fd, "::"));
	EXPECT_EQ(0, port_of(fd));

	policy->netns = 0;
	last = dual_socket(2);
	ASSERT_LE(0, last);
	EXPECT_EQ(0, bind(last, &a.sa, make_addr(&a, PIN6, port)))
		TH_LOG("%m");
	close(last);
	close(fd);
	close(first);
}

/*
 * A connected TCP socket has one address: at the other one, its port is free for others. These
 * bind outside the policy, which would give them both.
 */
TEST_F(dual, port_of_connected)
{
	struct policy *policy = &self->skel->bss->policy;
	static const char * const pins[] = { PIN4, PIN6 };
	int server, fd, other, kind, way, i;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	for (kind = 0; kind < 2; kind++)
		for (way = 0; way < 2; way++) {
			server = dual_server(_metadata, &self->net, kind, way);
			policy->netns = self->net.cookie;
			fd = dual_socket(kind);
			ASSERT_LE(0, fd);
			ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
			make_addr(&a, dual_ways[way].to, port_of(server));
			ASSERT_EQ(0, connect(fd, &a.sa, sizeof(a.in6)));
			policy->netns = 0;
			for (i = 0; i < 2; i++) {
				other = socket(dual_ways[i].domain, SOCK_STREAM, 0);
				ASSERT_LE(0, other);
				EXPECT_EQ(i == way ? -EADDRINUSE : 0,
					  bind(other, &a.sa, make_addr(&a, pins[i], port_of(fd))) ?
					  -errno : 0)
					TH_LOG("%s to %s, then %s", dual_kinds[kind].name,
					       dual_ways[way].to, pins[i]);
				close(other);
			}
			close(fd);
			close(server);
		}
}

/*
 * SO_REUSEPORT: the IPv6 address may be free for such sockets while another socket has the port
 * for itself at the IPv4 address.
 */
TEST_F(dual, reuseport)
{
	struct policy *policy = &self->skel->bss->policy;
	int alone, shared, fd, one = 1;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	policy->netns = 0;
	alone = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, alone);
	ASSERT_EQ(0, bind(alone, &a.sa, make_addr(&a, PIN4, 0)));
	shared = dual_socket(0);
	ASSERT_LE(0, shared);
	ASSERT_EQ(0, setsockopt(shared, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	ASSERT_EQ(0, bind(shared, &a.sa, make_addr(&a, PIN6, port_of(alone))));
	policy->netns = self->net.cookie;
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "::", port_of(alone))));
	EXPECT_EQ(EADDRINUSE, errno);
	close(alone);
	EXPECT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", port_of(shared))));
	close(fd);
	close(shared);
}

/* A socket of each kind refuses the wildcard address, by bind() and when it needs a port. */
static void dual_refuses(struct __test_metadata *_metadata, int v6only, const char *why)
{
	union addr a;
	int kind, ret, fd;

	for (kind = 0; kind < (int)ARRAY_LEN(dual_kinds); kind++) {
		fd = dual_socket(kind);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)));
		EXPECT_EQ(-EINVAL, bind(fd, &a.sa, make_addr(&a, "::", 0)) ? -errno : 0)
			TH_LOG("bind() of %s, %s, v6only %d", dual_kinds[kind].name, why, v6only);
		if (dual_listens(kind))
			ret = listen(fd, 1);
		else
			ret = sendto(fd, "x", 1, 0, &a.sa, make_addr(&a, PEER6, 9));
		EXPECT_EQ(-EINVAL, ret < 0 ? -errno : 0)
			TH_LOG("port of %s, %s, v6only %d", dual_kinds[kind].name, why, v6only);
		EXPECT_TRUE(has_ip(fd, "::"))
			TH_LOG("%s, %s, v6only %d", dual_kinds[kind].name, why, v6only);
		close(fd);
	}
}

/* Single-family sockets are unchanged, and invalid writes of programs are refused. */
TEST_F(dual, refused)
{
	struct policy *policy = &self->skel->bss->policy;
	static const char echo6[8] = { (char)ICMP6_ECHO_REQUEST };
	int fd, one = 1, v6only = -1, domain, kind, ret;
	socklen_t len = sizeof(int);
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	EXPECT_TRUE(has_ip(fd, PIN6));
	ASSERT_EQ(0, listen(fd, 1));
	EXPECT_EQ(0, dual_reach(_metadata, &self->net, 0, 1, PIN6, port_of(fd), LOOK));
	EXPECT_EQ(-ECONNREFUSED, dual_reach(_metadata, &self->net, 0, 0, PIN4, port_of(fd), WAIT));
	close(fd);

	/* A dual-stack socket keeps the option. */
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(0, v6only);
	close(fd);

	/* Of two IPv4 addresses none is the right one. */
	policy->mapped = 1;
	dual_refuses(_metadata, 0, "two IPv4 addresses");
	policy->mapped = 0;

	/* An IPv4 address alone would leave IPv6 open, also if the socket has no IPv4. */
	policy->leave = 1;
	for (v6only = 0; v6only < 2; v6only++)
		dual_refuses(_metadata, v6only, "an IPv4 address alone");
	allow_ping(_metadata);
	for (kind = 0; kind < 2; kind++) {
		fd = kind ? socket(AF_INET6, SOCK_RAW, IPPROTO_TEST) :
			    socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EINVAL, bind(fd, &a.sa, make_addr(&a, "::", 0)) ? -errno : 0)
			TH_LOG("bind() of %s", kind ? "RAW" : "ping");
		if (!kind) {
			ret = sendto(fd, echo6, sizeof(echo6), 0, &a.sa, make_addr(&a, PEER6, 0));
			EXPECT_EQ(-EINVAL, ret < 0 ? -errno : 0)
				TH_LOG("identifier of ping");
		}
		close(fd);
	}
	policy->leave = 0;

	/* It must be an address of the host, not a group. */
	inet_pton(AF_INET, VIRT4, &policy->pin4);
	for (kind = 0; kind < DUAL_STREAMS; kind++) {
		fd = dual_socket(kind);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EADDRNOTAVAIL, listen(fd, 1) ? -errno : 0)
			TH_LOG("%s", dual_kinds[kind].name);
		EXPECT_TRUE(has_ip(fd, "::"))
			TH_LOG("%s", dual_kinds[kind].name);
		close(fd);
	}
	for (domain = 0; domain < 2; domain++) {
		inet_pton(AF_INET, domain ? "239.1.1.1" : VIRT4, &policy->pin4);
		fd = dual_socket(3);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		EXPECT_EQ(EADDRNOTAVAIL, errno);
		EXPECT_TRUE(has_ip(fd, "::"));
		close(fd);
	}
	set_policy(policy, &self->net);

	/* The task's value in the field for the address is ignored. */
	policy->netns = 0;
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	len = make_addr(&a, "::", 0);
	inet_pton(AF_INET, OTHER4, &a.in6.sin6_flowinfo);
	ASSERT_EQ(0, bind(fd, &a.sa, len));
	EXPECT_TRUE(has_ip(fd, "::"));
	close(fd);
	allow_ping(_metadata);
	for (kind = 0; kind < 2; kind++) {
		fd = socket(AF_INET6, kind ? SOCK_RAW : SOCK_DGRAM, IPPROTO_ICMPV6);
		ASSERT_LE(0, fd);
		len = make_addr(&a, "::", 0);
		inet_pton(AF_INET, OTHER4, &a.in6.sin6_flowinfo);
		EXPECT_EQ(0, bind(fd, &a.sa, len))
			TH_LOG("%s: %s", kind ? "raw" : "ping", strerror(errno));
		close(fd);
	}
	policy->netns = self->net.cookie;
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	len = make_addr(&a, "::", 0);
	inet_pton(AF_INET, OTHER4, &a.in6.sin6_flowinfo);
	EXPECT_EQ(0, bind(fd, &a.sa, len));
	close(fd);

	/* An AF_INET socket has no IPv6 address. */
	policy->mapped = 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
}

/* IPV6_ADDRFORM turns a socket that is connected over IPv4 into an AF_INET socket. */
TEST_F(dual, addrform)
{
	int fd, server, form = AF_INET;
	socklen_t len;
	union addr a;
	char c;

	if (!self->both)
		SKIP(return, "a socket has one address");
	server = dual_server(_metadata, &self->net, 3, 0);
	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, dual_ways[0].to, port_of(server))));
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &form, sizeof(form)));
	EXPECT_TRUE(has_ip(fd, PIN4));
	ASSERT_EQ(1, send(fd, "x", 1, 0));
	len = sizeof(a);
	ASSERT_EQ(1, recvfrom(server, &c, 1, 0, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	ASSERT_EQ(1, sendto(server, "y", 1, 0, &a.sa, len));
	EXPECT_EQ(1, recv(fd, &c, 1, 0))
		TH_LOG("the socket receives nothing");
	close(fd);
	close(server);
}

/* A program that allows a privileged port allows it at both addresses. */
TEST_F(dual, privileged_port)
{
	struct policy *policy = &self->skel->bss->policy;
	struct bpf_link *link;
	int fd, kind, allowed;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	link = bpf_program__attach_cgroup(self->skel->progs.any_port6, self->cgroup);
	ASSERT_NE(NULL, link);
	ASSERT_EQ(0, drop_cap(CAP_NET_BIND_SERVICE));
	for (allowed = 0; allowed < 2; allowed++) {
		policy->netns = allowed ? self->net.cookie : 0;
		for (kind = 0; kind < (int)ARRAY_LEN(dual_kinds); kind++) {
			fd = dual_socket(kind);
			ASSERT_LE(0, fd);
			EXPECT_EQ(allowed ? 0 : -EACCES,
				  bind(fd, &a.sa, make_addr(&a, "::", 80)) ? -errno : 0)
				TH_LOG("%s", dual_kinds[kind].name);
			EXPECT_TRUE(has_ip(fd, allowed ? PIN6 : "::"))
				TH_LOG("%s", dual_kinds[kind].name);
			close(fd);
		}
	}
	bpf_link__destroy(link);
}

/* sctp_bindx() with addresses for which the program sets the same IPv4 address. */
TEST_F(dual, bindx)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, server;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	/* The task names the IPv4 address too, before. */
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bindx(fd, 0, "0.0.0.0", "::", NULL));
	EXPECT_EQ(2, local_addrs(fd, NULL));
	ASSERT_EQ(0, listen(fd, 8));
	dual_reachable(_metadata, &self->net, 2, fd, PIN4, PIN6);
	close(fd);

	/* Two IPv6 addresses. */
	policy->leave = 1;
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bindx(fd, 0, PIN6, OTHER6, NULL));
	EXPECT_EQ(3, local_addrs(fd, NULL));
	/* A bound endpoint is not given an IPv4 address. */
	EXPECT_EQ(-EINVAL, bindx(fd, port_of(fd), "::1", NULL, NULL));
	EXPECT_EQ(-EINVAL, bindx(fd, port_of(fd), PIN6, NULL, NULL));
	EXPECT_EQ(3, local_addrs(fd, NULL));
	close(fd);

	/* The task names the IPv4 address too, after the program has added it. */
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, bindx(fd, 0, PIN6, PIN4, NULL));
	EXPECT_EQ(2, local_addrs(fd, NULL));
	close(fd);
	policy->leave = 0;

	/* Without the IPv4 address, it is bound to the other one alone. */
	server = dual_server(_metadata, &self->net, 2, 1);
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(2, local_addrs(fd, NULL));
	ASSERT_EQ(0, bindx_rem(fd, port_of(fd), PIN4, NULL, NULL));
	ASSERT_EQ(1, local_addrs(fd, PIN6));
	EXPECT_EQ(0, connect(fd, &a.sa, make_addr(&a, PEER6, port_of(server))))
		TH_LOG("bpf_bind() counts an address that was removed");
	close(fd);
	close(server);
}

/*
 * bpf_bind() to IPv4 in a connection over IPv6: TCP finds the bucket of the port by the IPv6
 * address, so it must be that of the bucket. It was not once there had been a dual socket.
 */
TEST_F(dual, bucket_of_a_connection)
{
	struct put_port *put = &self->skel->bss->put_port;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd, server;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	self->skel->links.see_put_port = bpf_program__attach(self->skel->progs.see_put_port);
	ASSERT_NE(NULL, self->skel->links.see_put_port);
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	close(fd);

	ASSERT_EQ(0, bpf_link__destroy(self->skel->links.one_ip_connect6));
	self->skel->links.one_ip_connect6 =
		bpf_program__attach_cgroup(self->skel->progs.bind_ipv4_in_connect6, self->cgroup);
	ASSERT_NE(NULL, self->skel->links.one_ip_connect6);
	self->skel->bss->policy.port = htons(7100);
	server = dual_server(_metadata, &self->net, 0, 1);
	fd = dual_socket(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, PEER6, port_of(server))));
	ASSERT_EQ(1, self->skel->bss->seen[CONNECT6].runs);
	ASSERT_EQ(0, self->skel->bss->bind_result);
	ASSERT_EQ(7100, port_of(fd));
	/* The address and the port are the program's, and stay. */
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	put->tgid = getpid();
	close(fd);
	put->tgid = 0;
	EXPECT_EQ(1, put->runs);
	EXPECT_EQ(0, memcmp(put->ip, put->bucket, sizeof(put->ip)))
		TH_LOG("the port is in the bucket of another address");
	close(server);
}

/*
 * A connection that a dual socket accepted over IPv6 has no IPv4 address, and is not
 * IPV6_V6ONLY. It may be disconnected, and connected again.
 */
TEST_F(dual, no_ipv4_source)
{
	struct policy *policy = &self->skel->bss->policy;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int listener, fd, server;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	listener = dual_socket(0);
	ASSERT_LE(0, listener);
	ASSERT_EQ(0, bind(listener, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, dual_reach(_metadata, &self->net, 0, 1, PIN6, port_of(listener), LOOK));
	fd = accept(listener, NULL, NULL);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	ASSERT_TRUE(has_ip(fd, PIN6));

	policy->netns = 0;
	server = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, "127.0.0.1", 0)));
	ASSERT_EQ(0, listen(server, 1));
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, "::ffff:127.0.0.1", port_of(server))));
	EXPECT_EQ(ENETUNREACH, errno);
	close(server);
	close(fd);
	close(listener);
}

/*
 * A failed connection leaves a TCP socket bound to that address of the two, for good: a
 * connection to the other family fails.
 */
TEST_F(dual, after_a_failure)
{
	struct policy *policy = &self->skel->bss->policy;
	static const int errors[] = { EAFNOSUPPORT, ENETUNREACH };
	int servers[2], closed[2], fd, way, i;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	for (i = 0; i < 2; i++) {
		fd = dual_server(_metadata, &self->net, 0, i);
		closed[i] = port_of(fd);
		servers[i] = dual_server(_metadata, &self->net, 0, i);
		close(fd);
	}
	for (way = 0; way < 2; way++) {
		policy->netns = self->net.cookie;
		fd = dual_socket(0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		policy->netns = 0;
		make_addr(&a, dual_ways[way].to, closed[way]);
		ASSERT_EQ(-1, connect(fd, &a.sa, sizeof(a.in6)));
		ASSERT_EQ(ECONNREFUSED, errno);
		make_addr(&a, dual_ways[!way].to, port_of(servers[!way]));
		EXPECT_EQ(-1, connect(fd, &a.sa, sizeof(a.in6)));
		EXPECT_EQ(errors[way], errno)
			TH_LOG("%s: %m", dual_ways[!way].to);
		make_addr(&a, dual_ways[way].to, port_of(servers[way]));
		ASSERT_EQ(0, connect(fd, &a.sa, sizeof(a.in6)));
		EXPECT_TRUE(dual_got(servers[way], 0, dual_ways[way].from));
		close(fd);
	}
	for (i = 0; i < 2; i++)
		close(servers[i]);
}

/* If the task binds it again, programs choose both. */
TEST_F(dual, bind_after_a_failure)
{
	int closed[2], fd, way;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	for (way = 0; way < 2; way++) {
		fd = dual_server(_metadata, &self->net, 0, way);
		closed[way] = port_of(fd);
		close(fd);
	}
	for (way = 0; way < 2; way++) {
		fd = dual_socket(0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		make_addr(&a, dual_ways[way].to, closed[way]);
		ASSERT_EQ(-1, connect(fd, &a.sa, sizeof(a.in6)));
		ASSERT_EQ(ECONNREFUSED, errno);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		ASSERT_EQ(0, listen(fd, 8));
		dual_reachable(_metadata, &self->net, 0, fd, PIN4, PIN6);
		close(fd);
	}
}

/*
 * After bpf_bind() to an IPv6 address, the socket has no IPv4: a program at autobind may set the
 * same address and an IPv4 one, which is ignored.
 */
TEST_F(dual, autobind_after_bpf_bind)
{
	static const int kinds[] = { 0, 3 };
	struct cgroup_sock *skel = self->skel;
	int server, fd, k, ret;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	skel->links.always_both = bpf_program__attach_cgroup(skel->progs.always_both,
							     self->cgroup);
	ASSERT_NE(NULL, skel->links.always_both);
	for (k = 0; k < (int)ARRAY_LEN(kinds); k++) {
		server = dual_server(_metadata, &self->net, kinds[k], 1);
		fd = dual_socket(kinds[k]);
		ASSERT_LE(0, fd);
		ret = connect(fd, &a.sa, make_addr(&a, PEER6, port_of(server)));
		EXPECT_EQ(0, ret)
			TH_LOG("%s: %m", dual_kinds[kinds[k]].name);
		EXPECT_TRUE(has_ip(fd, PIN6))
			TH_LOG("%s is at another address", dual_kinds[kinds[k]].name);
		close(fd);
		close(server);
	}
}

/*
 * A disconnected UDP socket still has the addresses that programs chose for its former port, but
 * is not bound to them: bpf_bind() binds it. Without programs that choose again, the kernel
 * drops the addresses of a socket that is not bound.
 */
TEST_F(dual, bpf_bind_after_autobind)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int server, fd, port;
	union addr a;
	socklen_t len;

	if (!self->both)
		SKIP(return, "a socket has one address");
	server = dual_server(_metadata, &self->net, 3, 1);
	port = port_of(server);
	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	len = make_addr(&a, PEER6, port);
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
	ASSERT_TRUE(dual_got(server, 3, PIN6));
	ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	ASSERT_EQ(0, port_of(fd));

	ASSERT_EQ(0, bpf_link__destroy(self->skel->links.dual_autobind));
	self->skel->links.dual_autobind = NULL;
	ASSERT_EQ(0, connect(fd, &a.sa, len));
	EXPECT_TRUE(has_ip(fd, PIN6))
		TH_LOG("the address is that of the route");
	close(fd);
	close(server);
}

/* A UDP socket connected to one family, then the other, keeps both addresses. */
TEST_F(dual, reconnected)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int servers[2], fd, i, bound, way, ret;
	union addr a;

	for (i = 0; i < 2; i++)
		servers[i] = dual_server(_metadata, &self->net, 3, i);
	/* 2: with a port at connect() */
	for (bound = 0; bound < 3; bound++) {
		fd = dual_socket(3);
		ASSERT_LE(0, fd);
		if (bound == 2)
			ASSERT_EQ(0, set_noport(fd));
		if (bound)
			ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		if (bound == 2)
			ASSERT_EQ(0, port_of(fd));
		for (i = 0; i < 6; i++) {
			way = i % 2;
			make_addr(&a, dual_ways[way].to, port_of(servers[way]));
			ret = connect(fd, &a.sa, sizeof(a.in6));
			EXPECT_EQ(0, ret)
				TH_LOG("%s, %d, bound %d: %m", dual_ways[way].to, i, bound);
			if (ret)
				continue;
			EXPECT_EQ(1, send(fd, "x", 1, 0));
			EXPECT_TRUE(dual_got(servers[way], 3, dual_ways[way].from))
				TH_LOG("%s, %d, bound %d", dual_ways[way].to, i, bound);
			/* After bind(), even without a disconnect in between. */
			if (!bound || i >= 3)
				ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
		}
		close(fd);
	}
}

/*
 * To sort the addresses of a name, getaddrinfo() of glibc connects an AF_INET6 socket to port 0 of
 * each of them, with a disconnect in between. It aborts the program if getsockname() returns an
 * IPv6 address while the peer is an IPv4 one.
 */
TEST_F(dual, connected_to_port_0)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd, i, way;
	socklen_t len;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	/* They bind to the address of one family. */
	ASSERT_EQ(0, bpf_link__detach(self->skel->links.one_ip_connect4));
	ASSERT_EQ(0, bpf_link__detach(self->skel->links.one_ip_connect6));
	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	for (i = 0; i < 4; i++) {
		way = !(i % 2);
		len = make_addr(&a, dual_ways[way].peer, 0);
		ASSERT_EQ(0, connect(fd, &a.sa, len));
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(fd, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, way ? PIN6 : "::ffff:" PIN4))
			TH_LOG("%d: the name is not that of IPv%d", i, way ? 6 : 4);
		ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
	}
	close(fd);
}

/*
 * Sends from the peer's @server, which is connected to @fd. Returns 0 if @fd receives it, or
 * the error that the host reported.
 */
static int dual_arrives(int server, int fd)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = server, .events = POLLIN } };
	char c;

	if (send(server, "x", 1, 0) != 1)
		return -errno;
	if (poll(p, ARRAY_LEN(p), 20000 * timeout_scale()) <= 0)
		return -ETIME;
	return recv(p[0].revents ? fd : server, &c, 1, 0) == 1 ? 0 : -errno;
}

/* A UDP socket that keeps its port after a disconnect, because bind() requests that port. */
static int dual_udp(struct __test_metadata *_metadata)
{
	union addr a;
	int fd;

	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 7200)));
	return fd;
}

/* A socket of the peer on @port, or on any if that is 0, which is connected to @fd. */
static int dual_udp_peer(struct __test_metadata *_metadata, const struct net *net, int fd,
			 int way, int port)
{
	socklen_t len;
	union addr a;
	int peer;

	peer = impatient(peer_socket(net, dual_ways[way].domain, SOCK_DGRAM, 0));
	ASSERT_LE(0, peer);
	len = make_addr(&a, dual_ways[way].peer, port);
	ASSERT_EQ(0, bind(peer, &a.sa, len));
	len = make_addr(&a, dual_ways[way].from, port_of(fd));
	ASSERT_EQ(0, connect(peer, &a.sa, len));
	return peer;
}

/*
 * A UDP socket that is connected to a peer of one family receives nothing of the other one,
 * from the same port.
 */
TEST_F(dual, peer_of_one_family)
{
	/* The peer's family, or -1: not connected. The last connect() fails. */
	static const int states[] = { -1, 1, 0, 1, -1, 0, -1, 0 };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int servers[2], fd, i, way, state = -1, port = 0;
	socklen_t len;
	union addr a;
	char c;

	if (!self->both)
		SKIP(return, "a socket has one address");
	fd = dual_udp(_metadata);
	for (way = 0; way < 2; way++) {
		servers[way] = dual_udp_peer(_metadata, &self->net, fd, way, port);
		port = port_of(servers[way]);
	}
	for (i = 0; i <= (int)ARRAY_LEN(states); i++) {
		if (i < (int)ARRAY_LEN(states)) {
			state = states[i];
			len = state < 0 ? 0 : make_addr(&a, dual_ways[state].to, port);
			ASSERT_EQ(0, state < 0 ? connect(fd, &none, sizeof(none)) :
						 connect(fd, &a.sa, len));
		} else {
			/* No route: it keeps its IPv4 peer. */
			ASSERT_EQ(0, state);
			EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, "2001:db8::1", port)));
			EXPECT_EQ(ENETUNREACH, errno);
		}
		for (way = 0; way < 2; way++) {
			EXPECT_EQ(state < 0 || state == way ? 0 : -ECONNREFUSED,
				  dual_arrives(servers[way], fd))
				TH_LOG("%d: from IPv%d, connected to IPv%d", i, way ? 6 : 4,
				       state < 0 ? 0 : state ? 6 : 4);
			/* It sends to both. */
			len = make_addr(&a, dual_ways[way].to, port);
			EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
			EXPECT_EQ(1, recv(servers[way], &c, 1, 0));
		}
		if (state < 0)
			continue;
		EXPECT_EQ(1, send(fd, "x", 1, 0));
		EXPECT_EQ(1, recv(servers[state], &c, 1, 0));
	}
	close(fd);
}

/*
 * Sends from the peer's @server, which is connected to the port of both sockets. Returns the index
 * of the one that receives it, or -1.
 */
static int dual_receiver(int server, const int fds[2])
{
	struct pollfd p[] = {
		{ .fd = fds[0], .events = POLLIN }, { .fd = fds[1], .events = POLLIN },
		{ .fd = server, .events = POLLIN },
	};
	char c;
	int i;

	if (send(server, "x", 1, 0) != 1 || poll(p, ARRAY_LEN(p), 20000 * timeout_scale()) <= 0)
		return -1;
	for (i = 0; i < 2; i++)
		if (p[i].revents)
			return recv(fds[i], &c, 1, 0) == 1 ? i : -1;
	recv(server, &c, 1, 0);		/* the error */
	return -1;
}

/* A UDP socket that shares @port at @ip with others that set @option. */
static int dual_shared(struct __test_metadata *_metadata, int option, const char *ip, int port)
{
	int fd, one = 1;
	union addr a;
	socklen_t len;

	len = make_addr(&a, ip, port);
	fd = impatient(socket(a.sa.sa_family, SOCK_DGRAM, 0));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, option, &one, sizeof(one)));
	ASSERT_EQ(0, bind(fd, &a.sa, len))
		TH_LOG("%s: %m", ip);
	return fd;
}

/*
 * A connected UDP socket receives from its peer, also if others share its address and port. These
 * receive the rest.
 */
TEST_F(dual, receive_connected)
{
	static const struct {
		int way;
		const char *ip;		/* of the other socket; NULL: both addresses */
	} others[] = {
		{ 0, PIN4 }, { 0, "::ffff:" PIN4 }, { 0, "0.0.0.0" }, { 0, NULL },
		{ 1, PIN6 }, { 1, "::" }, { 1, NULL },
	};
	static const int options[] = { SO_REUSEADDR, SO_REUSEPORT };
	struct policy *policy = &self->skel->bss->policy;
	int fds[2], server, stranger, i, option, way;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	for (i = 0; i < 2 * (int)ARRAY_LEN(others); i++) {
		way = others[i / 2].way;
		option = options[i % 2];
		policy->netns = self->net.cookie;
		fds[0] = dual_shared(_metadata, option, "::", 0);
		server = dual_udp_peer(_metadata, &self->net, fds[0], way, 0);
		stranger = dual_udp_peer(_metadata, &self->net, fds[0], way, 0);
		if (others[i / 2].ip)
			policy->netns = 0;
		fds[1] = dual_shared(_metadata, option, others[i / 2].ip ?: "::", port_of(fds[0]));
		make_addr(&a, dual_ways[way].to, port_of(server));
		ASSERT_EQ(0, connect(fds[0], &a.sa, sizeof(a.in6)));
		EXPECT_EQ(0, dual_receiver(server, fds))
			TH_LOG("IPv%d, %s at %s: not the connected socket", way ? 6 : 4,
			       i % 2 ? "SO_REUSEPORT" : "SO_REUSEADDR",
			       others[i / 2].ip ?: "both");
		EXPECT_EQ(1, dual_receiver(stranger, fds))
			TH_LOG("IPv%d, %s at %s: not the other socket", way ? 6 : 4,
			       i % 2 ? "SO_REUSEPORT" : "SO_REUSEADDR",
			       others[i / 2].ip ?: "both");
		close(fds[0]);
		close(fds[1]);
		close(server);
		close(stranger);
	}
}

/* The same for one that IPV6_ADDRFORM has made an AF_INET socket. It stays bound to its address. */
TEST_F(dual, addrform_receive)
{
	static const char * const others[] = { PIN4, "0.0.0.0" };
	struct policy *policy = &self->skel->bss->policy;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fds[2], server, stranger, i, form = AF_INET;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	fds[0] = dual_shared(_metadata, SO_REUSEADDR, "::", 7200);
	server = dual_udp_peer(_metadata, &self->net, fds[0], 0, 0);
	stranger = dual_udp_peer(_metadata, &self->net, fds[0], 0, 0);
	make_addr(&a, dual_ways[0].to, port_of(server));
	ASSERT_EQ(0, connect(fds[0], &a.sa, sizeof(a.in6)));
	ASSERT_EQ(0, setsockopt(fds[0], IPPROTO_IPV6, IPV6_ADDRFORM, &form, sizeof(form)));
	policy->netns = 0;
	for (i = 0; i < (int)ARRAY_LEN(others); i++) {
		if (i)
			close(fds[1]);
		fds[1] = dual_shared(_metadata, SO_REUSEADDR, others[i], 7200);
		EXPECT_EQ(0, dual_receiver(server, fds))
			TH_LOG("%s: not the connected socket", others[i]);
		EXPECT_EQ(1, dual_receiver(stranger, fds))
			TH_LOG("%s: not the other socket", others[i]);
	}
	/* The last one is bound to any address. */
	ASSERT_EQ(0, connect(fds[0], &none, sizeof(none)));
	EXPECT_EQ(0, dual_receiver(stranger, fds))
		TH_LOG("not the socket that is bound to the address");
	close(fds[0]);
	close(fds[1]);
	close(server);
	close(stranger);
}

/*
 * An AF_INET6 socket that is connected over IPv6 has 127.0.0.6 as its IPv4 address, and does not
 * receive packets sent there, even from the port of its peer.
 */
TEST_F(dual, placeholder)
{
	int fd, fds[2], sender, port;
	union addr a;

	fd = dual_socket(3);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	close(fd);

	self->skel->bss->policy.netns = 0;
	fds[0] = dual_shared(_metadata, SO_REUSEADDR, "0.0.0.0", 0);
	port = port_of(fds[0]);
	fds[1] = dual_shared(_metadata, SO_REUSEADDR, "::", port);
	sender = dual_shared(_metadata, SO_REUSEADDR, "127.0.0.1", 0);
	ASSERT_EQ(0, connect(sender, &a.sa, make_addr(&a, "127.0.0.6", port)));
	ASSERT_EQ(0, connect(fds[1], &a.sa, make_addr(&a, "::1", port_of(sender))));
	EXPECT_EQ(0, dual_receiver(sender, fds))
		TH_LOG("not the socket that is bound to any address");
	close(fds[0]);
	fds[0] = -1;
	EXPECT_EQ(-1, dual_receiver(sender, fds))
		TH_LOG("receives IPv4");
	close(fds[1]);
	close(sender);
}

static uint16_t checksum(const void *data, size_t len)
{
	const uint16_t *word = data;
	uint32_t sum = 0;

	for (; len; len -= 2)
		sum += *word++;
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* An ICMP error that quotes another peer than the IPv6 one does not reach the socket. */
TEST_F(dual, forged_error)
{
	struct {
		struct icmphdr icmp;
		struct iphdr ip;
		struct udphdr udp;
	} error = {
		.icmp = { .type = ICMP_DEST_UNREACH, .code = ICMP_PORT_UNREACH },
		.ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP },
	};
	static const char * const peers[] = { "255.255.255.255", "127.0.0.6", PEER4 };
	int server, raw, fd, i;
	union addr a;
	socklen_t len;
	char c;

	if (!self->both)
		SKIP(return, "a socket has one address");
	fd = dual_udp(_metadata);
	server = dual_udp_peer(_metadata, &self->net, fd, 1, 0);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, PEER6, port_of(server))));
	ASSERT_LE(0, impatient(fd));
	raw = peer_socket(&self->net, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	ASSERT_LE(0, raw);
	inet_pton(AF_INET, PIN4, &error.ip.saddr);
	error.ip.tot_len = htons(sizeof(error.ip) + sizeof(error.udp));
	error.udp.source = htons(7200);
	error.udp.dest = htons(port_of(server));
	len = make_addr(&a, PIN4, 0);
	for (i = 0; i < (int)ARRAY_LEN(peers); i++) {
		inet_pton(AF_INET, peers[i], &error.ip.daddr);
		error.ip.check = 0;
		error.ip.check = checksum(&error.ip, sizeof(error.ip));
		error.icmp.checksum = 0;
		error.icmp.checksum = checksum(&error, sizeof(error));
		ASSERT_EQ(sizeof(error), sendto(raw, &error, sizeof(error), 0, &a.sa, len));
		/* Arrives after it. */
		ASSERT_EQ(1, send(server, "x", 1, 0));
		EXPECT_EQ(1, recv(fd, &c, 1, 0))
			TH_LOG("%s: %m", peers[i]);
	}
	/* One that quotes an IPv4 peer reaches it. */
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, "::ffff:" PEER4, port_of(server))));
	ASSERT_EQ(sizeof(error), sendto(raw, &error, sizeof(error), 0, &a.sa,
					make_addr(&a, PIN4, 0)));
	EXPECT_EQ(-1, recv(fd, &c, 1, 0));
	EXPECT_EQ(ECONNREFUSED, errno);
	close(raw);
	close(server);
	close(fd);
}

/* To load some programs only, in addition to those of the fixture. */
static struct cgroup_sock *open_without_programs(void)
{
	struct cgroup_sock *skel = cgroup_sock__open();
	struct bpf_program *prog;

	if (!skel)
		return NULL;
	skel->data->wait_scale = timeout_scale();
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, false);
	return skel;
}

/* Attaches a program of tracing, in addition to the programs of the fixture. */
static struct cgroup_sock *attach_alone(struct __test_metadata *_metadata, const char *name)
{
	struct cgroup_sock *skel = open_without_programs();
	struct bpf_program *prog;

	ASSERT_NE(NULL, skel);
	prog = bpf_object__find_program_by_name(skel->obj, name);
	ASSERT_NE(NULL, prog);
	bpf_program__set_autoload(prog, true);
	ASSERT_EQ(0, cgroup_sock__load(skel));
	ASSERT_EQ(0, cgroup_sock__attach(skel));
	return skel;
}

/*
 * UDP runs no program at sk_lookup for a datagram to a connected socket. The program drops all
 * that it sees.
 */
TEST_F(dual, sk_lookup)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd, server, stranger, way;
	struct udp_lookup *lookup;
	struct cgroup_sock *skel;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	skel = attach_alone(_metadata, "drop_lookup");
	lookup = &skel->bss->udp_lookup;
	lookup->port = 7200;
	skel->links.drop_lookup = bpf_program__attach_netns(skel->progs.drop_lookup,
							    self->net.host);
	ASSERT_NE(NULL, skel->links.drop_lookup);
	fd = dual_udp(_metadata);
	for (way = 0; way < 2; way++) {
		server = dual_udp_peer(_metadata, &self->net, fd, way, 0);
		stranger = dual_udp_peer(_metadata, &self->net, fd, way, 0);
		/* It does for a socket that is not connected. */
		lookup->runs = 0;
		EXPECT_EQ(-ECONNREFUSED, dual_arrives(server, fd));
		ASSERT_EQ(1, lookup->runs);

		make_addr(&a, dual_ways[way].to, port_of(server));
		ASSERT_EQ(0, connect(fd, &a.sa, sizeof(a.in6)));
		EXPECT_EQ(0, dual_arrives(server, fd))
			TH_LOG("IPv%d: dropped", way ? 6 : 4);
		EXPECT_EQ(1, lookup->runs)
			TH_LOG("IPv%d: the program runs for a connected socket", way ? 6 : 4);
		/* And it does for a datagram that is not from the peer. */
		lookup->runs = 0;
		EXPECT_EQ(-ECONNREFUSED, dual_arrives(stranger, fd));
		EXPECT_EQ(1, lookup->runs);
		ASSERT_EQ(0, connect(fd, &none, sizeof(none)));
		close(server);
		close(stranger);
	}
	close(fd);
	cgroup_sock__destroy(skel);
}

#define TCP_SYNCOOKIES	"/proc/sys/net/ipv4/tcp_syncookies"
#define FIRST_HELD	512
#define HELD		32
#define COOKIE_ROUNDS	64
#define COOKIES		8

/*
 * The request that an ACK with a SYN cookie makes has no IPv4 addresses. They would be those of
 * the request of a SYN, and so correct by chance, if that had the same memory: the ACK is
 * processed on another CPU than its SYN, after other SYNs have taken the memory that is free on
 * that CPU.
 */
TEST_F(dual, syn_cookie)
{
	struct rlimit files = { 4096, 4096 };
	int listener, fd, round, cookies, i;
	struct cookie_child *child;
	struct cgroup_sock *skel;
	int off = 0, wait = 30;
	union addr a;
	socklen_t len;

	if (access(TCP_SYNCOOKIES, F_OK))
		SKIP(return, "needs CONFIG_SYN_COOKIES");
	if (pin_to_cpu(0) || pin_to_cpu(1))
		SKIP(return, "needs CPUs 0 and 1");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	self->skel->bss->policy.netns = 0;
	skel = open_without_programs();
	ASSERT_NE(NULL, skel);
	bpf_program__set_autoload(skel->progs.see_synack, true);
	bpf_program__set_autoload(skel->progs.see_cookie, true);
	ASSERT_EQ(0, cgroup_sock__load(skel));
	skel->links.see_synack = bpf_program__attach(skel->progs.see_synack);
	ASSERT_NE(NULL, skel->links.see_synack);
	skel->links.see_cookie = bpf_program__attach(skel->progs.see_cookie);
	ASSERT_NE(NULL, skel->links.see_cookie);
	child = &skel->bss->cookie_child;

	listener = dual_socket(0);
	ASSERT_LE(0, listener);
	ASSERT_EQ(0, bind(listener, &a.sa, make_addr(&a, "::", 0)));
	/* Keeps the request of a SYN until data arrives. */
	ASSERT_EQ(0, setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &wait, sizeof(wait)));
	ASSERT_EQ(0, listen(listener, 4096));
	len = make_addr(&a, "::1", port_of(listener));
	child->port = port_of(listener);
	for (round = cookies = 0; cookies < COOKIES; round++) {
		ASSERT_GT(COOKIE_ROUNDS, round)
			TH_LOG("only %d requests had other memory than that of a SYN's", cookies);
		ASSERT_EQ(0, pin_to_cpu(1));
		ASSERT_EQ(0, write_value(TCP_SYNCOOKIES, "1"));
		/* Not closed: the end of the test does that. */
		for (i = 0; i < (round ? HELD : FIRST_HELD); i++) {
			fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
			ASSERT_LE(0, fd);
			ASSERT_EQ(-1, connect(fd, &a.sa, len));
			ASSERT_EQ(EINPROGRESS, errno);
		}

		ASSERT_EQ(0, write_value(TCP_SYNCOOKIES, "2"));
		ASSERT_EQ(0, pin_to_cpu(0));
		fd = dual_socket(0);
		ASSERT_LE(0, fd);
		/* The next segment is the ACK. */
		ASSERT_EQ(0, setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)));
		ASSERT_EQ(0, connect(fd, &a.sa, len));
		ASSERT_EQ(0, pin_to_cpu(1));
		ASSERT_EQ(1, send(fd, "x", 1, 0));
		i = accept(listener, NULL, NULL);
		ASSERT_LE(0, i);
		close(i);
		close(fd);
		ASSERT_EQ(round + 1, child->runs);
		ASSERT_EQ(0, child->lost);
		if (child->was_syn)
			continue;
		cookies++;
		EXPECT_EQ(htonl(0x7f000006), child->rcv_saddr)
			TH_LOG("local IPv4 address of a connection from a SYN cookie");
		EXPECT_EQ(htonl(0x7f000006), child->daddr)
			TH_LOG("IPv4 peer of a connection from a SYN cookie");
	}
	close(listener);
	cgroup_sock__destroy(skel);
}

static int call_send(struct held_call *c)
{
	return send(c->fd, "x", 1, 0);
}

/*
 * send() finds an IPv4 datagram to append to, and before it takes the lock, another thread sends
 * that datagram. The socket is connected to an IPv6 peer, so there is no IPv4 peer to send to.
 */
TEST_F(dual, connected_meanwhile)
{
	struct policy *policy = &self->skel->bss->policy;
	int server, receiver, one = 1, zero = 0, i;
	struct held_call s = { .call = call_send };
	struct cgroup_sock *skel;
	pthread_t thread;
	union addr a;
	socklen_t len;
	char c;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	skel = attach_alone(_metadata, "hold_udp_sendmsg");
	s.held = &skel->bss->held_thread;

	server = dual_server(_metadata, &self->net, 3, 1);
	/* Receives broadcasts, too. */
	receiver = impatient(peer_socket(&self->net, AF_INET, SOCK_DGRAM, 0));
	ASSERT_LE(0, receiver);
	ASSERT_EQ(0, bind(receiver, &a.sa, make_addr(&a, "0.0.0.0", port_of(server))));
	/* With an address of each family in the second round */
	for (i = 0; i < 1 + self->both; i++) {
		policy->netns = i ? self->net.cookie : 0;
		s.fd = dual_socket(3);
		ASSERT_LE(0, s.fd);
		ASSERT_EQ(0, bind(s.fd, &a.sa, make_addr(&a, "::", 0)));
		policy->netns = 0;
		ASSERT_EQ(0, setsockopt(s.fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)));
		len = make_addr(&a, PEER6, port_of(server));
		ASSERT_EQ(0, connect(s.fd, &a.sa, len));
		len = make_addr(&a, "::ffff:" PEER4, port_of(server));
		ASSERT_EQ(1, sendto(s.fd, "1", 1, MSG_MORE, &a.sa, len));

		start_held(_metadata, &thread, &s);
		EXPECT_EQ(0, setsockopt(s.fd, IPPROTO_UDP, UDP_CORK, &zero, sizeof(zero)));
		finish_held(_metadata, thread, &s);
		EXPECT_EQ(-1, s.ret)
			TH_LOG("sent over IPv4 by a socket with an IPv6 peer");
		EXPECT_EQ(ENETUNREACH, s.err);

		/* Received in this order, and nothing in between. */
		ASSERT_EQ(1, sendto(s.fd, "2", 1, 0, &a.sa, len));
		ASSERT_EQ(1, recv(receiver, &c, 1, 0));
		EXPECT_EQ('1', c);
		ASSERT_EQ(1, recv(receiver, &c, 1, 0));
		EXPECT_EQ('2', c);
		close(s.fd);
	}
	close(receiver);
	close(server);
	cgroup_sock__destroy(skel);
}

/* A sender must not see a port that the SO_REUSEPORT group may still refuse. */
TEST_F(hooks, port_after_group)
{
	static const char * const any[] = { "0.0.0.0", "::" };
	struct cgroup_sock *skel;
	struct joining *joining;
	int first, second, one = 1, i;
	socklen_t len;
	union addr a;

	skel = attach_alone(_metadata, "see_join");
	joining = &skel->bss->joining;
	for (i = 0; i < (int)ARRAY_LEN(any); i++) {
		len = make_addr(&a, any[i], 0);
		first = socket(a.sa.sa_family, SOCK_DGRAM, 0);
		second = socket(a.sa.sa_family, SOCK_DGRAM, 0);
		ASSERT_LE(0, first);
		ASSERT_LE(0, second);
		ASSERT_EQ(0, setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
		ASSERT_EQ(0, setsockopt(second, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
		ASSERT_EQ(0, bind(first, &a.sa, len));
		memset(joining, 0, sizeof(*joining));
		joining->tid = gettid();
		make_addr(&a, any[i], port_of(first));
		ASSERT_EQ(0, bind(second, &a.sa, len));
		ASSERT_EQ(1, joining->runs);
		EXPECT_EQ(0, joining->port)
			TH_LOG("%s: the port is visible before the socket is in the group", any[i]);
		close(first);
		close(second);
	}
	cgroup_sock__destroy(skel);
}

static int call_connect(struct held_call *c)
{
	return connect(c->fd, &c->to.sa, c->len);
}

/*
 * connect() has seen the port that post_bind refuses, and finds a route from the refused
 * address. Datagrams must not use it when programs leave the next address to the kernel.
 */
TEST_F(autobind, refused_under_a_connect)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	socklen_t len = sizeof(union addr);
	struct held_call b = { .call = call_bind }, c = { .call = call_connect };
	struct cgroup_sock *skel;
	pthread_t binder, other;
	union addr from;
	int server;
	char byte;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	skel = attach_alone(_metadata, "hold_udp_connect");
	attach_bind(_metadata, self->skel, self->cgroup);
	policy->deny = H(POST_BIND4);
	server = impatient(peer_socket(&self->net, AF_INET, SOCK_DGRAM, 0));
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &from.sa, make_addr(&from, PEER4, 0)));
	c.held = &skel->bss->held_thread;
	/* It waits for the lock, which bind() holds. */
	c.held->go = true;
	c.fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, c.fd);
	c.len = make_addr(&c.to, PEER4, port_of(server));
	b.held = &self->skel->bss->held_thread;
	b.fd = c.fd;
	b.len = make_addr(&b.to, "0.0.0.0", 0);

	start_held(_metadata, &binder, &b);
	ASSERT_EQ(0, pthread_create(&other, NULL, run_held, &c));
	ASSERT_TRUE(is_held(&c)) TH_LOG("connect() does not wait for bind()");
	finish_held(_metadata, binder, &b);
	ASSERT_EQ(0, pthread_join(other, NULL));
	ASSERT_EQ(EPERM, b.err);
	ASSERT_EQ(0, c.err) TH_LOG("%s", strerror(c.err));
	ASSERT_EQ(0, seen[AUTOBIND].runs);
	ASSERT_EQ(0, port_of(c.fd));
	ASSERT_TRUE(has_ip(c.fd, PIN4));

	policy->leave = 1;
	ASSERT_EQ(1, send(c.fd, "x", 1, 0));
	EXPECT_EQ(1, seen[AUTOBIND].runs);
	ASSERT_EQ(1, recvfrom(server, &byte, 1, 0, &from.sa, &len));
	EXPECT_FALSE(same_ip(&from, PIN4))
		TH_LOG("sent from the address that post_bind refused");
	close(c.fd);
	close(server);
	cgroup_sock__destroy(skel);
}

/* Sends to a one-to-many SCTP @server of the peer. Does it arrive from the right address? */
static void dual_send(struct __test_metadata *_metadata, int fd, int server, int way,
		      const char *when)
{
	union addr a;
	int ret;

	make_addr(&a, dual_ways[way].to, port_of(server));
	ret = sendto(fd, "x", 1, 0, &a.sa, sizeof(a.in6));
	EXPECT_EQ(1, ret)
		TH_LOG("%s, to %s: %m", when, dual_ways[way].to);
	if (ret == 1)
		EXPECT_TRUE(dual_got(server, 4, dual_ways[way].from))
			TH_LOG("%s, to %s", when, dual_ways[way].to);
}

/* An association over one family does not take the other one away. */
TEST_F(dual, associations)
{
	int servers[2][2], fd, first, i, way, ret;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	for (i = 0; i < 4; i++)
		servers[i % 2][i / 2] = dual_server(_metadata, &self->net, 4, i % 2);
	for (first = 0; first < 2; first++) {
		fd = dual_socket(4);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
		for (i = 0; i < 4; i++) {
			way = (first + i) % 2;
			dual_send(_metadata, fd, servers[way][i / 2], way,
				  first ? "IPv6 first" : "IPv4 first");
		}
		EXPECT_TRUE(has_ip(fd, PIN6));
		close(fd);
	}

	/* The peer makes it. */
	fd = dual_socket(4);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(0, listen(fd, 8));
	ASSERT_EQ(0, dual_reach(_metadata, &self->net, 4, 0, PIN4, port_of(fd), LOOK));
	ASSERT_TRUE(dual_got(fd, 4, "::ffff:" PEER4));
	for (way = 1; way >= 0; way--)
		dual_send(_metadata, fd, servers[way][0], way, "listening");
	close(fd);

	/* The IPv4 address is removed after one. */
	fd = dual_socket(4);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	dual_send(_metadata, fd, servers[0][0], 0, "to be removed");
	ASSERT_EQ(0, bindx_rem(fd, port_of(fd), PIN4, NULL, NULL));
	for (i = 0; i < 2; i++)
		dual_send(_metadata, fd, servers[1][i], 1, "removed");
	close(fd);

	/* The peer refuses it. */
	fd = dual_socket(2);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	for (i = 0; i < 4; i++) {
		way = i / 2;
		ret = connect(fd, &a.sa, make_addr(&a, dual_ways[way].to, 9));
		EXPECT_EQ(-ECONNREFUSED, ret ? -errno : 0)
			TH_LOG("%d: %s", i, dual_ways[way].to);
	}
	close(fd);
}

/* A control message of a ping socket sets a source that no program sees. */
TEST_F(hooks, ping_pktinfo)
{
	char control[CMSG_SPACE(sizeof(struct in_pktinfo))] __aligned(8) = {};
	struct icmphdr echo = { .type = ICMP_ECHO };
	struct iovec iov = { .iov_base = &echo, .iov_len = sizeof(echo) };
	struct policy *policy = &self->skel->bss->policy;
	struct in_pktinfo *info;
	int fd, i, from, others;
	struct cmsghdr *cmsg;
	union addr to;
	struct msghdr msg = {
		.msg_name = &to, .msg_namelen = make_addr(&to, PEER4, 0),
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	static const struct {
		const char *src;
		bool leave, connected;
		int err;
	} tries[] = {
		{ OTHER4, false, false, -EPERM }, { PIN4, false, false, 0 },
		{ "0.0.0.0", false, false, 0 },
		{ OTHER4, true, false, 0 },	/* the policy left the source open */
		/* connect() has set it to that of the route. */
		{ PIN4, true, true, -EPERM }, { OTHER4, true, true, 0 },
	};

	allow_ping(_metadata);
	cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(*info));
	info = (void *)CMSG_DATA(cmsg);
	for (i = 0; i < (int)ARRAY_LEN(tries); i++) {
		policy->leave = tries[i].leave;
		fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
		ASSERT_LE(0, fd);
		if (tries[i].connected) {
			ASSERT_EQ(0, connect(fd, &to.sa, msg.msg_namelen));
			ASSERT_TRUE(has_ip(fd, OTHER4));
		}
		inet_pton(AF_INET, tries[i].src, &info->ipi_spec_dst);
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(tries[i].err, sendmsg(fd, &msg, 0) < 0 ? -errno : 0)
			TH_LOG("from %s%s", tries[i].src, tries[i].connected ? ", connected" : "");
		ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
		EXPECT_EQ(tries[i].leave && !tries[i].err, others);
		close(fd);
	}
}

/* A socket that is bound to a group has no source; the policy sets it at connect. */
TEST_F(hooks, source_of_a_group)
{
	static const struct {
		const char *group, *peer, *pin;
	} families[] = {
		{ "239.1.1.1", PEER4, PIN4 }, { "ff05::1:3", PEER6, PIN6 },
	};
	static const char * const no_sources[] = { "239.1.1.2", "255.255.255.255", "0.0.0.0" };
	struct policy *policy = &self->skel->bss->policy;
	union addr a, from;
	int fd, server, i, j;
	socklen_t len;
	char c;

	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		policy->netns = 0;
		make_addr(&a, families[i].peer, 0);
		server = impatient(peer_socket(&self->net, a.sa.sa_family, SOCK_DGRAM, 0));
		ASSERT_LE(0, server);
		ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, families[i].peer, 0)));
		fd = socket(a.sa.sa_family, SOCK_DGRAM, 0);
		ASSERT_LE(0, fd);
		/* A policy for one address may allow groups. */
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].group, 0)));
		len = make_addr(&a, families[i].peer, port_of(server));
		/* An address that the host does not have is refused, and is not set. */
		set_policy(policy, &self->net);
		inet_pton(AF_INET, VIRT4, &policy->pin4);
		inet_pton(AF_INET6, VIRT6, policy->pin6);
		EXPECT_EQ(-1, connect(fd, &a.sa, len));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(-EADDRNOTAVAIL, self->skel->bss->bind_result);
		/* As is one that is not the address of a host. */
		for (j = 0; j < (int)ARRAY_LEN(no_sources); j++) {
			inet_pton(AF_INET, no_sources[j], &policy->pin4);
			inet_pton(AF_INET6, j == 2 ? "::" : "ff05::1:4", policy->pin6);
			EXPECT_EQ(-1, connect(fd, &a.sa, len));
			EXPECT_EQ(-EINVAL, self->skel->bss->bind_result)
				TH_LOG("%s", no_sources[j]);
		}
		set_policy(policy, &self->net);
		ASSERT_EQ(0, connect(fd, &a.sa, len));
		ASSERT_EQ(1, send(fd, "x", 1, 0));
		len = sizeof(from);
		ASSERT_EQ(1, recvfrom(server, &c, 1, 0, &from.sa, &len));
		EXPECT_TRUE(same_ip(&from, families[i].pin));
		/* The source stays, even with a policy for another address. */
		inet_pton(AF_INET, OTHER4, &policy->pin4);
		inet_pton(AF_INET6, OTHER6, policy->pin6);
		len = make_addr(&a, families[i].peer, port_of(server));
		EXPECT_EQ(-1, connect(fd, &a.sa, len));
		EXPECT_EQ(EPERM, errno);
		set_policy(policy, &self->net);
		close(fd);
		close(server);
	}
}

/* bpf_bind() does not set the source of a socket with a port at the wildcard address. */
TEST_F(hooks, source_of_any)
{
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	int fd, i;

	for (i = 0; i < (int)ARRAY_LEN(families); i++) {
		policy->netns = 0;
		fd = socket(families[i].domain, SOCK_DGRAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].any, 0)));
		policy->netns = self->net.cookie;
		self->skel->bss->bind_result = 0;
		EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, families[i].peer, 9)));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(-EINVAL, self->skel->bss->bind_result);
		EXPECT_TRUE(has_ip(fd, families[i].any));
		close(fd);
	}
	/* Nor that of a TCP socket at a group, which is hashed by its address. */
	policy->netns = 0;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "239.1.1.1", 0)));
	policy->netns = self->net.cookie;
	self->skel->bss->bind_result = 0;
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-EINVAL, self->skel->bss->bind_result);
	close(fd);
	/* Nor that of a UDP socket at a broadcast address: in a VRF, the pin can be one. */
	policy->netns = 0;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "127.255.255.255", 0)));
	policy->netns = self->net.cookie;
	policy->pin4 = a.in.sin_addr.s_addr;
	self->skel->bss->bind_result = 0;
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-EINVAL, self->skel->bss->bind_result);
	close(fd);
}

/* bpf_bind() to the address already bound is not refused. */
TEST_F(hooks, connected_again)
{
	static const struct {
		int type, protocol4, protocol6;
		const char *name;
	} kinds[] = {
		{ SOCK_DGRAM, 0, 0, "UDP" },
		{ SOCK_DGRAM, IPPROTO_ICMP, IPPROTO_ICMPV6, "ping" },
		{ SOCK_RAW, IPPROTO_TEST, IPPROTO_TEST, "raw" },
	};
	int fd, i, way, times;
	union addr a;
	socklen_t len;

	allow_ping(_metadata);
	for (i = 0; i < (int)ARRAY_LEN(kinds); i++) {
		for (way = 0; way < 2; way++) {
			fd = socket(way ? AF_INET6 : AF_INET, kinds[i].type,
				    way ? kinds[i].protocol6 : kinds[i].protocol4);
			ASSERT_LE(0, fd);
			len = make_addr(&a, way ? PEER6 : PEER4, 9);
			for (times = 0; times < 3; times++)
				EXPECT_EQ(0, connect(fd, &a.sa, len))
					TH_LOG("%s, %d: %m", kinds[i].name, times);
			EXPECT_TRUE(has_ip(fd, way ? PIN6 : PIN4));
			close(fd);
		}
	}
}

/* The same for a bound TCP socket, and for a port that is not its own. */
TEST_F(hooks, bound_and_connected)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, server, way;
	union addr a;
	socklen_t len;

	for (way = 0; way < 2; way++) {
		server = peer_socket(&self->net, way ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, way ? PEER6 : PEER4, 0)));
		ASSERT_EQ(0, listen(server, 8));
		fd = socket(way ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, way ? "::" : "0.0.0.0", 0)));
		len = make_addr(&a, way ? PEER6 : PEER4, port_of(server));
		if (!way) {
			policy->port = htons(port_of(fd) ^ 1);
			EXPECT_EQ(-1, connect(fd, &a.sa, len));
			EXPECT_EQ(EPERM, errno);
			policy->port = htons(port_of(fd));
		}
		EXPECT_EQ(0, connect(fd, &a.sa, len))
			TH_LOG("%s: %m", way ? "IPv6" : "IPv4");
		close(fd);
		close(server);
	}
}

static int bound_device(int fd)
{
	socklen_t len = sizeof(int);
	int dev = -1;

	return getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &dev, &len) ? -errno : dev;
}

/* A refused bind() does not keep the address's device. */
TEST_F(hooks, device_of_a_refused_bind)
{
	int wire = if_nametoindex("wire0"), lo = if_nametoindex("lo"), fd, busy, i;
	static const int types[] = { SOCK_RAW, SOCK_STREAM, SOCK_DGRAM };
	static const struct {
		int type, protocol;
	} refused[] = {
		{ SOCK_RAW, IPPROTO_TEST }, { SOCK_DGRAM, 0 }, { SOCK_DGRAM, IPPROTO_ICMPV6 },
	};
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	socklen_t len;

	policy->netns = 0;
	allow_ping(_metadata);
	ASSERT_EQ(0, system("ip addr add fe80::1/64 dev wire0 nodad"));
	ASSERT_EQ(0, system("ip addr add fe80::2/64 dev lo nodad"));
	fd = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
	ASSERT_LE(0, fd);
	len = make_addr(&a, "fe80::1", 0);
	a.in6.sin6_scope_id = wire;
	ASSERT_EQ(0, bind(fd, &a.sa, len));
	ASSERT_EQ(wire, bound_device(fd));
	len = make_addr(&a, "fe80::2", 0);
	a.in6.sin6_scope_id = lo;
	EXPECT_EQ(-1, bind(fd, &a.sa, len));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(wire, bound_device(fd));
	close(fd);

	/* An address that the host does not have. */
	for (i = 0; i < (int)ARRAY_LEN(types); i++) {
		fd = socket(AF_INET6, types[i], types[i] == SOCK_RAW ? IPPROTO_TEST : 0);
		ASSERT_LE(0, fd);
		len = make_addr(&a, "fe80::9", 0);
		a.in6.sin6_scope_id = lo;
		EXPECT_EQ(-1, bind(fd, &a.sa, len));
		EXPECT_EQ(EADDRNOTAVAIL, errno);
		EXPECT_EQ(0, bound_device(fd))
			TH_LOG("type %d", types[i]);
		close(fd);
	}

	busy = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_LE(0, busy);
	len = make_addr(&a, "fe80::1", 0);
	a.in6.sin6_scope_id = wire;
	ASSERT_EQ(0, bind(busy, &a.sa, len));
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	len = make_addr(&a, "fe80::1", port_of(busy));
	a.in6.sin6_scope_id = wire;
	EXPECT_EQ(-1, bind(fd, &a.sa, len));
	EXPECT_EQ(EADDRINUSE, errno);
	EXPECT_EQ(0, bound_device(fd));
	close(fd);
	close(busy);

	policy->netns = self->net.cookie;
	policy->deny = H(POST_BIND6);
	inet_pton(AF_INET6, "fe80::2", policy->pin6);
	for (i = 0; i < (int)ARRAY_LEN(refused); i++) {
		fd = socket(AF_INET6, refused[i].type, refused[i].protocol);
		ASSERT_LE(0, fd);
		self->skel->bss->seen[POST_BIND6].runs = 0;
		len = make_addr(&a, "fe80::2", 0);
		a.in6.sin6_scope_id = lo;
		EXPECT_EQ(-1, bind(fd, &a.sa, len));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(1, self->skel->bss->seen[POST_BIND6].runs);
		EXPECT_EQ(0, bound_device(fd))
			TH_LOG("type %d", refused[i].type);
		close(fd);
	}
}

/* IPV6_V6ONLY that the user sets outlasts the address of a program that refused connect(). */
TEST_F(hooks, v6only_of_user)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, one = 1, v6only = 0;
	socklen_t len = sizeof(int);
	union addr a;

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	policy->late_deny = 1;
	ASSERT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER6, 9)));
	ASSERT_EQ(EPERM, errno);
	ASSERT_EQ(0, self->skel->bss->bind_result);
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
	policy->netns = 0;
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::", 0)));
	ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
	EXPECT_EQ(1, v6only);
	close(fd);
}

/* bpf_bind() to an IPv4 address, which is shorter, binds an IPv6 socket that connects to IPv4. */
TEST_F(hooks, bpf_bind_ipv4)
{
	static const struct {
		int type, protocol;
	} kinds[] = {
		{ SOCK_STREAM, 0 }, { SOCK_DGRAM, 0 },
		{ SOCK_STREAM, IPPROTO_SCTP }, { SOCK_SEQPACKET, IPPROTO_SCTP },
	};
	struct policy *policy = &self->skel->bss->policy;
	int fd, server, one = 1, i;
	union addr a;
	socklen_t len;

	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	policy->other_family = 1;
	for (i = 0; i < (int)ARRAY_LEN(kinds); i++) {
		server = peer_socket(&self->net, AF_INET, kinds[i].type, kinds[i].protocol);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PEER4, 0)));
		if (kinds[i].type != SOCK_DGRAM)
			ASSERT_EQ(0, listen(server, 1));
		fd = impatient(socket(AF_INET6, kinds[i].type, kinds[i].protocol));
		ASSERT_LE(0, fd);
		len = make_addr(&a, "::ffff:" PEER4, port_of(server));
		self->skel->bss->bind_result = 1;
		EXPECT_EQ(0, connect(fd, &a.sa, len))
			TH_LOG("kind %d: %m", i);
		EXPECT_EQ(0, self->skel->bss->bind_result);
		EXPECT_TRUE(has_ip(fd, "::ffff:" PIN4))
			TH_LOG("kind %d: another source", i);
		close(fd);

		/* Without IPv4, there is no such address to bind to. */
		if (kinds[i].protocol == IPPROTO_SCTP) {
			fd = impatient(socket(AF_INET6, kinds[i].type, kinds[i].protocol));
			ASSERT_LE(0, fd);
			ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
			len = make_addr(&a, PEER6, port_of(server));
			EXPECT_EQ(-1, connect(fd, &a.sa, len));
			EXPECT_EQ(EPERM, errno);
			EXPECT_EQ(-EINVAL, self->skel->bss->bind_result);
			EXPECT_TRUE(has_ip(fd, "::"));
			close(fd);
		}
		close(server);
	}
}

/*
 * A program that writes a link-local address leaves the scope to the task: it must be that of
 * the address, and is not kept otherwise.
 */
TEST_F(hooks, scope_of_a_rewritten_bind)
{
	int wire = if_nametoindex("wire0"), lo = if_nametoindex("lo"), fd, i;
	static const struct {
		int type, protocol;
		int no_scope;		/* the error */
	} kinds[] = {
		{ SOCK_STREAM, 0, EINVAL }, { SOCK_DGRAM, 0, EINVAL },
		{ SOCK_DGRAM, IPPROTO_ICMPV6, EINVAL }, { SOCK_RAW, IPPROTO_TEST, EINVAL },
		{ SOCK_STREAM, IPPROTO_SCTP, EADDRNOTAVAIL },
	};
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = &self->skel->bss->seen[BIND6];
	union addr a;
	socklen_t len;

	if (!has_proto(SCTP1))
		SKIP(return, NEEDS_SCTP);
	allow_ping(_metadata);
	ASSERT_EQ(0, system("ip addr add fe80::1/64 dev wire0 nodad"));
	ASSERT_EQ(0, system("ip addr add fe80::2/64 dev lo nodad"));
	inet_pton(AF_INET6, "fe80::2", policy->pin6);
	for (i = 0; i < (int)ARRAY_LEN(kinds); i++) {
		seen->runs = 0;
		fd = socket(AF_INET6, kinds[i].type, kinds[i].protocol);
		ASSERT_LE(0, fd);
		len = make_addr(&a, "fe80::1", 0);
		a.in6.sin6_scope_id = wire;
		EXPECT_EQ(-1, bind(fd, &a.sa, len))
			TH_LOG("kind %d: at the device of another address", i);
		EXPECT_EQ(EADDRNOTAVAIL, errno);
		EXPECT_EQ(0, bound_device(fd))
			TH_LOG("kind %d: keeps the device", i);
		EXPECT_TRUE(has_ip(fd, "::"));

		len = make_addr(&a, "::", 0);
		EXPECT_EQ(-1, bind(fd, &a.sa, len))
			TH_LOG("kind %d: at no device", i);
		EXPECT_EQ(kinds[i].no_scope, errno);
		EXPECT_EQ(0, bound_device(fd));
		EXPECT_TRUE(has_ip(fd, "::"));

		len = make_addr(&a, "::", 0);
		a.in6.sin6_scope_id = lo;
		EXPECT_EQ(0, bind(fd, &a.sa, len))
			TH_LOG("kind %d: %m", i);
		EXPECT_TRUE(has_ip(fd, "fe80::2"));
		if (kinds[i].protocol != IPPROTO_SCTP)	/* stores no device */
			EXPECT_EQ(lo, bound_device(fd));
		EXPECT_EQ(3, seen->runs);
		close(fd);
	}
}

/* A placeholder address is not a source. */
TEST_F(hooks, no_ipv4_source)
{
	int fd, server, zero = 0;
	socklen_t len;
	union addr a;

	self->skel->bss->policy.netns = 0;
	server = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, "127.0.0.1", 0)));
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_noport(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PIN6, 0)));
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)));
	len = make_addr(&a, "::ffff:127.0.0.1", port_of(server));
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, &a.sa, len));
	EXPECT_EQ(ENETUNREACH, errno);
	close(fd);

	/* A socket may bind to it explicitly. */
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::ffff:127.0.0.6", 0)));
	len = make_addr(&a, "::ffff:127.0.0.1", port_of(server));
	EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
	close(fd);
	close(server);

	/* The same for a connection. */
	server = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, "127.0.0.1", 0)));
	ASSERT_EQ(0, listen(server, 1));
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_noport(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PIN6, 0)));
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)));
	len = make_addr(&a, "::ffff:127.0.0.1", port_of(server));
	EXPECT_EQ(-1, connect(fd, &a.sa, len));
	EXPECT_EQ(ENETUNREACH, errno);
	close(fd);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "::ffff:127.0.0.6", 0)));
	len = make_addr(&a, "::ffff:127.0.0.1", port_of(server));
	EXPECT_EQ(0, connect(fd, &a.sa, len));
	close(fd);
	close(server);
}

static int udp_at(const char *ip)
{
	int fd = socket(strchr(ip, ':') ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	union addr a;

	if (fd >= 0 && bind(fd, &a.sa, make_addr(&a, ip, 0))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The datagram @data arrives at @server from @source. */
static bool arrives_from(int server, const char *data, const char *source)
{
	struct pollfd p = { .fd = server, .events = POLLIN };
	char buf[16] = "";
	union addr from;
	socklen_t len = sizeof(from);

	return poll(&p, 1, 1000 * timeout_scale()) == 1 &&
		recvfrom(server, buf, sizeof(buf) - 1, 0, &from.sa, &len) > 0 &&
		!strcmp(buf, data) && same_ip(&from, source);
}

/*
 * Pending data keeps its addresses in a connect(), which can fail, and does not change those of a
 * connected socket.
 */
TEST_F(hooks, pending_data)
{
	const struct {
		int family;
		const char *to, *source, *then;
		int err;
	} connects[] = {
		/* There, a struct flowi4 has the source 127.0.0.2 and the destination 127.0.0.3. */
		{ AF_INET6, "::ffff:127.0.0.1", "127.0.0.1", "7f00:2:7f00:3::1", ENETUNREACH },
		{ AF_INET6, "::1", "::1", "::ffff:127.0.0.1", 0 },
		{ AF_INET6, "::1", "::1", "::1", 0 },
		{ AF_INET, "127.0.0.1", "127.0.0.1", "127.0.0.1", 0 },
	};
	int fd, server, server4, server6, other, i;
	socklen_t len;
	union addr a;

	self->skel->bss->policy.netns = 0;
	server4 = udp_at("127.0.0.1");
	other = udp_at("127.0.0.1");
	server6 = udp_at("::1");
	ASSERT_LE(0, server4);
	ASSERT_LE(0, other);
	ASSERT_LE(0, server6);

	for (i = 0; i < (int)ARRAY_LEN(connects); i++) {
		server = strcmp(connects[i].source, "::1") ? server4 : server6;
		fd = socket(connects[i].family, SOCK_DGRAM, 0);
		ASSERT_LE(0, fd);
		len = make_addr(&a, connects[i].to, port_of(server));
		ASSERT_EQ(1, sendto(fd, "a", 1, MSG_MORE, &a.sa, len));
		len = make_addr(&a, connects[i].then, 9);
		ASSERT_EQ(connects[i].err, connect(fd, &a.sa, len) ? errno : 0);
		ASSERT_EQ(1, send(fd, "b", 1, 0));
		EXPECT_TRUE(arrives_from(server, "ab", connects[i].source))
			TH_LOG("%s, then %s", connects[i].to, connects[i].then);
		close(fd);
	}

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, "127.0.0.1", port_of(other))));
	len = make_addr(&a, "127.0.0.1", port_of(server4));
	ASSERT_EQ(1, sendto(fd, "a", 1, MSG_MORE, &a.sa, len));
	ASSERT_EQ(1, sendto(fd, "b", 1, 0, &a.sa, len));
	EXPECT_TRUE(arrives_from(server4, "ab", "127.0.0.1"));
	ASSERT_EQ(1, send(fd, "c", 1, 0));
	EXPECT_TRUE(arrives_from(other, "c", "127.0.0.1"));
	close(fd);
	close(server4);
	close(server6);
	close(other);
}

/* A socket that is bound to a group has no source, also if it had an address before. */
TEST_F(hooks, group_has_no_source)
{
	int fd, server;
	socklen_t len;
	union addr a;

	self->skel->bss->policy.netns = 0;
	server = udp_at("::1");
	ASSERT_LE(0, server);
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_noport(fd));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PIN6, 0)));
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, "ff15::1", 7000)));
	len = make_addr(&a, "::1", port_of(server));
	ASSERT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len));
	EXPECT_TRUE(arrives_from(server, "x", "::1"));
	close(fd);
	close(server);
}

/* From an IPv6 address of the host, whatever the address of the socket is. */
static int call_sendto(struct held_call *c)
{
	char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] __aligned(8) = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = {
		.msg_name = &c->to, .msg_namelen = c->len,
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = IPPROTO_IPV6;
	cmsg->cmsg_type = IPV6_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(struct in6_pktinfo));
	inet_pton(AF_INET6, OTHER6, CMSG_DATA(cmsg));
	return sendmsg(c->fd, &msg, 0);
}

/* A service of the peer at IPv4. */
static int service4(struct __test_metadata *_metadata, const struct net *net, int type)
{
	union addr a;
	int fd;

	fd = impatient(peer_socket(net, AF_INET, type, 0));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PEER4, 0)));
	if (type == SOCK_STREAM)
		ASSERT_EQ(0, listen(fd, 8));
	return fd;
}

static void connect_mapped(struct __test_metadata *_metadata, int fd, int server)
{
	union addr a;

	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, "::ffff:" PEER4, port_of(server))));
}

/* Makes a connected AF_INET6 socket an AF_INET one. */
static void drop_ipv6(struct __test_metadata *_metadata, int fd)
{
	int form = AF_INET;

	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &form, sizeof(form)));
}

/*
 * The socket becomes an AF_INET one after programs have seen an IPv6 address, and before bind()
 * has the lock: an AF_INET socket must not be bound to an IPv6 address. Its IPv4 address would
 * be 127.0.0.6.
 */
TEST_F(hooks, addrform_under_a_bind)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int types[] = { SOCK_STREAM, SOCK_DGRAM }, server, i;
	struct held_call b = { .call = call_bind };
	struct cgroup_sock *skel;
	pthread_t binder;
	union addr a;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	skel = attach_alone(_metadata, "hold_inet6_bind");
	b.held = &skel->bss->held_thread;
	b.len = make_addr(&b.to, "::", 0);
	for (i = 0; i < (int)ARRAY_LEN(types); i++) {
		server = service4(_metadata, &self->net, types[i]);
		b.fd = socket(AF_INET6, types[i], 0);
		ASSERT_LE(0, b.fd);
		start_held(_metadata, &binder, &b);
		connect_mapped(_metadata, b.fd, server);
		drop_ipv6(_metadata, b.fd);
		ASSERT_EQ(0, connect(b.fd, &none, sizeof(none)));
		finish_held(_metadata, binder, &b);
		EXPECT_FALSE(has_ip(b.fd, "127.0.0.6"))
			TH_LOG("type %d: bound to 127.0.0.6", types[i]);
		EXPECT_EQ(-1, b.ret);
		EXPECT_EQ(EAFNOSUPPORT, b.err);
		EXPECT_EQ(0, bind(b.fd, &a.sa, make_addr(&a, PIN4, 0)))
			TH_LOG("type %d: %m", types[i]);
		close(b.fd);
		close(server);
	}
	cgroup_sock__destroy(skel);
}

/*
 * The same before connect() has the lock: the socket would send to the IPv4 address of its
 * former peer at the port of the IPv6 one. Programs have not seen these together.
 */
TEST_F(dual, addrform_under_a_connect)
{
	struct held_call c = { .call = call_connect };
	struct cgroup_sock *skel;
	pthread_t connector;
	int first, second;
	union addr a;

	if (!self->both)
		SKIP(return, "a socket has one address");
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	skel = attach_alone(_metadata, "hold_udpv6_connect");
	first = service4(_metadata, &self->net, SOCK_DGRAM);
	second = service4(_metadata, &self->net, SOCK_DGRAM);
	c.held = &skel->bss->held_thread;
	c.fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, c.fd);
	ASSERT_EQ(0, bind(c.fd, &a.sa, make_addr(&a, "::", 0)));
	c.len = make_addr(&c.to, PEER6, port_of(second));
	connect_mapped(_metadata, c.fd, first);
	start_held(_metadata, &connector, &c);
	drop_ipv6(_metadata, c.fd);
	finish_held(_metadata, connector, &c);
	EXPECT_EQ(-1, c.ret);
	EXPECT_EQ(EAFNOSUPPORT, c.err);
	EXPECT_EQ(1, send(c.fd, "x", 1, 0));
	EXPECT_FALSE(arrives_from(second, "x", PIN4))
		TH_LOG("sent to the port of another peer");
	EXPECT_TRUE(arrives_from(first, "x", PIN4));
	close(c.fd);
	close(second);
	close(first);
	cgroup_sock__destroy(skel);
}

/*
 * An IPv6 socket, for a call that is held in ip6_sk_dst_lookup_flow(), and an IPv4 service of the
 * peer. Returns the program that holds it.
 */
static struct cgroup_sock *hold_ipv6_sender(struct __test_metadata *_metadata,
					    FIXTURE_DATA(hooks) *self, struct held_call *s,
					    int *server)
{
	struct cgroup_sock *skel = attach_alone(_metadata, "hold_dst_lookup");

	self->skel->bss->policy.netns = 0;
	*server = service4(_metadata, &self->net, SOCK_DGRAM);
	s->held = &skel->bss->held_thread;
	s->fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, s->fd);
	return skel;
}

/*
 * The same before a corked sendto() has the lock: pending IPv6 data would be sent as that of
 * IPv4, with addresses that programs have not seen.
 */
TEST_F(hooks, addrform_under_a_send)
{
	struct held_call s = { .call = call_sendto };
	int server, one = 1, zero = 0, from, others;
	struct cgroup_sock *skel;
	pthread_t sender;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	skel = hold_ipv6_sender(_metadata, self, &s, &server);
	s.len = make_addr(&s.to, PEER6, 9);
	connect_mapped(_metadata, s.fd, server);
	ASSERT_EQ(0, setsockopt(s.fd, IPPROTO_UDP, UDP_CORK, &one, sizeof(one)));
	start_held(_metadata, &sender, &s);
	drop_ipv6(_metadata, s.fd);
	finish_held(_metadata, sender, &s);
	EXPECT_EQ(-1, s.ret)
		TH_LOG("IPv6 data is pending on an AF_INET socket");
	EXPECT_EQ(EAFNOSUPPORT, s.err);
	EXPECT_EQ(1, send(s.fd, "y", 1, 0)) TH_LOG("%m");
	EXPECT_EQ(0, setsockopt(s.fd, IPPROTO_UDP, UDP_CORK, &zero, sizeof(zero)));
	EXPECT_TRUE(arrives_from(server, "y", OTHER4));
	ASSERT_EQ(0, wire_count(&self->net, OTHER4, OTHER6, &from, &others));
	EXPECT_EQ(1, from);
	EXPECT_EQ(0, others);
	close(s.fd);
	close(server);
	cgroup_sock__destroy(skel);
}

/*
 * The same before send() over IPv6 has looked up its route, which it then stores in the AF_INET
 * socket. A route with a nexthop object is valid whatever the cookie of the socket is.
 */
TEST_F(hooks, addrform_under_a_route)
{
	struct held_call s = { .call = call_send };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct cgroup_sock *skel;
	int server;
	pthread_t sender;
	union addr a;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	ASSERT_EQ(0, system("ip -6 nexthop add id 7 via " PEER6 " dev wire0"));
	ASSERT_EQ(0, system("ip -6 route add fd99::/64 nhid 7"));
	skel = hold_ipv6_sender(_metadata, self, &s, &server);
	ASSERT_EQ(0, connect(s.fd, &a.sa, make_addr(&a, "fd99::1", 9)));
	start_held(_metadata, &sender, &s);
	ASSERT_EQ(0, connect(s.fd, &none, sizeof(none)));
	connect_mapped(_metadata, s.fd, server);
	finish_held(_metadata, sender, &s);
	ASSERT_EQ(1, s.ret)
		TH_LOG("no route was stored: %s", strerror(s.err));
	drop_ipv6(_metadata, s.fd);
	EXPECT_EQ(1, send(s.fd, "y", 1, 0)) TH_LOG("%m");
	EXPECT_TRUE(arrives_from(server, "y", OTHER4))
		TH_LOG("sent over an IPv6 route");
	close(s.fd);
	close(server);
	cgroup_sock__destroy(skel);
}

#ifndef AF_SMC
#define AF_SMC 43
#endif
#ifndef IPPROTO_SMC
#define IPPROTO_SMC 256
#endif
#ifndef TCP_FASTOPEN_NO_COOKIE
#define TCP_FASTOPEN_NO_COOKIE 34
#endif

/*
 * The TCP socket inside an SMC one belongs to the kernel, or to the user after a fallback to
 * TCP, which a socket option triggers.
 */
TEST_F(autobind, smc)
{
	static const struct {
		int domain, protocol;
		const char *pin;
	} smc[] = {
		{ AF_SMC, 0, PIN4 }, { AF_SMC, 1, PIN6 },
		{ AF_INET, IPPROTO_SMC, PIN4 }, { AF_INET6, IPPROTO_SMC, PIN6 },
	};
	struct seen *seen = &self->skel->bss->seen[AUTOBIND];
	int fd, i, fallback, one = 1;

	for (i = 0; i < (int)ARRAY_LEN(smc); i++) {
		for (fallback = 0; fallback < 2; fallback++) {
			fd = socket(smc[i].domain, SOCK_STREAM, smc[i].protocol);
			if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT))
				SKIP(return, "needs CONFIG_SMC");
			ASSERT_LE(0, fd);
			if (fallback)
				ASSERT_EQ(0, setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE,
							&one, sizeof(one)));
			self->skel->bss->policy.deny = 1 << AUTOBIND;
			EXPECT_EQ(-1, listen(fd, 1));
			EXPECT_EQ(EPERM, errno);
			self->skel->bss->policy.deny = 0;
			seen->runs = 0;
			EXPECT_EQ(0, listen(fd, 1));
			EXPECT_EQ(1, seen->runs);
			EXPECT_TRUE(has_ip(fd, smc[i].pin))
				TH_LOG("%d, %d, %s fallback", smc[i].domain, smc[i].protocol,
				       fallback ? "after" : "before");
			close(fd);
		}
	}
}

/* No port left for listen(): the address is dropped, unless bind() set it. */
TEST_F(autobind, listen_no_port_left)
{
	static const struct {
		int domain;
		const char *any, *pin;
	} families[] = { { AF_INET, "0.0.0.0", PIN4 }, { AF_INET6, "::", PIN6 } };
	int fd, holder, i, v6only;
	socklen_t len;
	union addr a;

	ASSERT_EQ(0, write_value("/proc/sys/net/ipv4/ip_local_port_range", "40000 40000"));
	for (i = 0; i < 2; i++) {
		self->skel->bss->policy.netns = 0;
		holder = socket(AF_INET6, SOCK_STREAM, 0);
		ASSERT_LE(0, holder);
		ASSERT_EQ(0, bind(holder, &a.sa, make_addr(&a, "::", 40000)));
		self->skel->bss->policy.netns = self->net.cookie;
		fd = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, listen(fd, 1));
		EXPECT_EQ(EADDRINUSE, errno);
		EXPECT_TRUE(has_ip(fd, families[i].any));
		len = sizeof(v6only);
		if (i) {
			ASSERT_EQ(0, getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &len));
			EXPECT_EQ(0, v6only);
		}
		close(fd);

		fd = socket(families[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, set_noport(fd));
		ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, families[i].pin, 0)));
		EXPECT_EQ(-1, listen(fd, 1));
		EXPECT_EQ(EADDRINUSE, errno);
		EXPECT_TRUE(has_ip(fd, families[i].pin));
		close(holder);
		EXPECT_EQ(0, listen(fd, 1));
		EXPECT_EQ(40000, port_of(fd));
		close(fd);
	}
}

/* bpf_bind() to one of several bound addresses would leave the others in use. */
TEST_F(sctp, bound_to_two)
{
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	int fd;

	policy->netns = 0;
	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, PIN4, 0)));
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, &a.sa,
				make_addr(&a, OTHER4, port_of(fd))));
	policy->netns = self->net.cookie;
	EXPECT_EQ(-1, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(0, sctp_assocs());
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_REM, &a.sa,
				make_addr(&a, OTHER4, port_of(fd))));
	EXPECT_EQ(0, connect(fd, &self->virt.sa, sizeof(self->virt.in)));
	close(fd);
}

/* An SCTP socket can't store the device of a link-local address. */
TEST_F(sctp, link_local)
{
	struct policy *policy = &self->skel->bss->policy;
	union addr a;
	int fd;

	ASSERT_EQ(0, system("ip addr add fe80::1/64 dev wire0 nodad"));
	inet_pton(AF_INET6, "fe80::1", policy->pin6);
	policy->scope = if_nametoindex("wire0");
	fd = impatient(socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, connect(fd, &a.sa, make_addr(&a, PEER6, 9)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_TRUE(has_ip(fd, "::"));
	close(fd);
}

/* No port left for listen(): the address is dropped. */
TEST_F(sctp, listen_no_port_left)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, holder;
	union addr a;

	ASSERT_EQ(0, write_value("/proc/sys/net/ipv4/ip_local_port_range", "40000 40000"));
	policy->netns = 0;
	holder = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, holder);
	ASSERT_EQ(0, bind(holder, &a.sa, make_addr(&a, "0.0.0.0", 40000)));
	policy->netns = self->net.cookie;
	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_TRUE(has_ip(fd, "0.0.0.0"));
	close(holder);
	EXPECT_EQ(0, listen(fd, 1));
	EXPECT_TRUE(has_ip(fd, PIN4));
	close(fd);
}

/* Programs of several cgroups: each reads earlier programs' writes. */
TEST_F(autobind, several_cgroups)
{
	struct seen *above;
	struct cgroup_sock *skel;
	struct bpf_link *link;
	struct in6_addr pin;
	int root, fd, i;

	root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, root);
	skel = cgroup_sock__open();
	ASSERT_NE(NULL, skel);
	bpf_program__set_autoload(skel->progs.bind_in_connect4, false);
	bpf_program__set_autoload(skel->progs.autobind_above, true);
	ASSERT_EQ(0, cgroup_sock__load(skel));
	set_policy(&skel->bss->policy, &self->net);
	link = bpf_program__attach_cgroup(skel->progs.autobind_above, root);
	ASSERT_NE(NULL, link);
	above = &skel->bss->seen_above;
	for (i = 0; i < 2; i++) {
		memset(above, 0, sizeof(*above));
		fd = socket(i ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, listen(fd, 1));
		EXPECT_EQ(1, above->runs);
		EXPECT_EQ(i ? AF_INET6 : AF_INET, (int)above->user_family);
		inet_pton(i ? AF_INET6 : AF_INET, i ? PIN6 : PIN4, &pin);
		EXPECT_EQ(0, memcmp(above->ip, &pin, i ? 16 : 4));
		EXPECT_TRUE(has_ip(fd, i ? PIN6 : PIN4));
		close(fd);
	}
	bpf_link__destroy(link);
	cgroup_sock__destroy(skel);
	close(root);
}

/* The other return value of a bind program, for each protocol that has ports. */
TEST_F(autobind, privileged_port)
{
	static const struct {
		const char *name;
		int type, protocol;
	} kinds[] = {
		{ "TCP", SOCK_STREAM, IPPROTO_TCP }, { "MPTCP", SOCK_STREAM, IPPROTO_MPTCP },
		{ "UDP", SOCK_DGRAM, IPPROTO_UDP }, { "SCTP", SOCK_STREAM, IPPROTO_SCTP },
		{ "SCTP", SOCK_SEQPACKET, IPPROTO_SCTP },
	};
	struct cgroup_sock *skel;
	struct bpf_link *link;
	int fd, i, allowed;
	union addr a;

	if (!has_sctp_and_mptcp())
		SKIP(return, NEEDS_SCTP_AND_MPTCP);
	skel = cgroup_sock__open();
	ASSERT_NE(NULL, skel);
	bpf_program__set_autoload(skel->progs.bind_in_connect4, false);
	bpf_program__set_autoload(skel->progs.any_port4, true);
	use_all_protocols(skel->obj);
	ASSERT_EQ(0, cgroup_sock__load(skel));
	link = bpf_program__attach_cgroup(skel->progs.any_port4, self->cgroup);
	ASSERT_NE(NULL, link);
	ASSERT_EQ(0, drop_cap(CAP_NET_BIND_SERVICE));
	for (allowed = 0; allowed < 2; allowed++) {
		skel->bss->policy.netns = allowed ? self->net.cookie : 0;
		for (i = 0; i < (int)ARRAY_LEN(kinds); i++) {
			fd = socket(AF_INET, kinds[i].type, kinds[i].protocol);
			ASSERT_LE(0, fd);
			EXPECT_EQ(allowed ? 0 : -EACCES,
				  bind(fd, &a.sa, make_addr(&a, PIN4, 80)) ? -errno : 0)
				TH_LOG("%s", kinds[i].name);
			close(fd);
		}
	}
	bpf_link__destroy(link);
	cgroup_sock__destroy(skel);
}

/*
 * An additional MPTCP subflow, which a kernel thread binds to an address set by the
 * administrator: it is in the task's cgroup, and from the one IP.
 */
TEST_F(hooks, mptcp_late_subflow)
{
	struct policy *policy = &self->skel->bss->policy;
	int fd, conn, server, from, others;
	unsigned char subflows = 0;	/* the first field of struct mptcp_info */
	socklen_t len;
	union addr a;
	time_t end;
	char c;

	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	ASSERT_EQ(0, system("ip mptcp endpoint add " OTHER4 " dev wire0 subflow"));
	server = impatient(peer_socket(&self->net, AF_INET, SOCK_STREAM, IPPROTO_MPTCP));
	ASSERT_LE(0, server);
	ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PEER4, 0)));
	ASSERT_EQ(0, listen(server, 8));
	fd = impatient(socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
	ASSERT_EQ(0, connect(fd, &a.sa, make_addr(&a, PEER4, port_of(server))));
	conn = accept(server, NULL, NULL);
	ASSERT_LE(0, conn);
	/* Both ends have received data: more subflows are allowed. */
	ASSERT_EQ(1, send(fd, "x", 1, 0));
	ASSERT_EQ(1, recv(conn, &c, 1, 0));
	ASSERT_EQ(1, send(conn, "x", 1, 0));
	ASSERT_EQ(1, recv(fd, &c, 1, 0));
	for (end = time(NULL) + 20 * timeout_scale(); !subflows && time(NULL) < end;
	     sched_yield()) {
		len = sizeof(subflows);
		ASSERT_EQ(0, getsockopt(fd, 284 /* SOL_MPTCP */, 1 /* MPTCP_INFO */,
					&subflows, &len));
	}
	EXPECT_EQ(1, subflows)
		TH_LOG("no further subflow");
	EXPECT_LE(1, self->skel->bss->seen[BIND4].runs);
	EXPECT_LE(2, self->skel->bss->seen[CONNECT4].runs);
	ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
	EXPECT_LT(0, from);
	EXPECT_EQ(0, others);
	policy->netns = 0;
	close(fd);
	close(conn);
	close(server);
}

/*
 * Multicast, broadcast and link-local: from the one IP, with any interface set, and also
 * where the kernel would choose a link-local address.
 */
TEST_F(hooks, groups)
{
	static const struct {
		const char *to;
		int domain;
		bool link;	/* the address needs one */
	} all[] = {
		{ "239.1.1.1", AF_INET }, { "224.0.0.1", AF_INET }, { "10.0.0.255", AF_INET },
		{ "255.255.255.255", AF_INET },
		{ "::ffff:239.1.1.1", AF_INET6 }, { "ff05::1", AF_INET6 },
		{ "ff02::1", AF_INET6, true }, { "fe80::9", AF_INET6, true },
	};
	int wire = if_nametoindex("wire0"), one = 1, fd, i, connected, from, others;
	struct in_addr other;
	union addr a;
	socklen_t len;

	inet_pton(AF_INET, OTHER4, &other);
	ASSERT_EQ(0, system("ip route add 239.0.0.0/8 dev wire0"));
	ASSERT_EQ(0, system("ip route add 255.255.255.255 dev wire0"));
	ASSERT_EQ(0, system("ip addr add fe80::1/64 dev wire0 nodad"));
	ASSERT_EQ(0, system("ip neigh add fe80::9 lladdr 02:00:00:00:00:09 dev wire0"));
	ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
	for (i = 0; i < (int)ARRAY_LEN(all); i++) {
		for (connected = 0; connected < 2; connected++) {
			self->skel->bss->policy.mapped = !strncmp(all[i].to, "::ffff:", 7);
			fd = socket(all[i].domain, SOCK_DGRAM, 0);
			ASSERT_LE(0, fd);
			ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)));
			ASSERT_EQ(0, setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &other,
						sizeof(other)));
			if (all[i].domain == AF_INET6)
				ASSERT_EQ(0, setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &wire,
							sizeof(wire)));
			len = make_addr(&a, all[i].to, 9);
			if (all[i].link)
				a.in6.sin6_scope_id = wire;
			if (connected) {
				EXPECT_EQ(0, connect(fd, &a.sa, len))
					TH_LOG("%s: %m", all[i].to);
				EXPECT_EQ(1, send(fd, "x", 1, 0))
					TH_LOG("%s: %m", all[i].to);
			} else {
				EXPECT_EQ(1, sendto(fd, "x", 1, 0, &a.sa, len))
					TH_LOG("%s: %m", all[i].to);
			}
			close(fd);
			ASSERT_EQ(0, wire_count(&self->net, PIN4, PIN6, &from, &others));
			EXPECT_EQ(1, from)
				TH_LOG("%s", all[i].to);
			EXPECT_EQ(0, others)
				TH_LOG("%s", all[i].to);
		}
	}
}

/*
 * Sends one message of @type with @len bytes of payload, zero without @payload. Returns the
 * error of the answer, or its length. Stores the answer in @answer, if not NULL.
 */
static int netlink_answer(int protocol, int type, const void *payload, int len, char *answer,
			  int size)
{
	struct {
		struct nlmsghdr h;
		char payload[64];
	} msg = { .h = {
		.nlmsg_len = NLMSG_LENGTH(len),
		.nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
	} };
	const struct nlmsghdr *h = (void *)answer;
	int fd, n;

	if (payload)
		memcpy(msg.payload, payload, len);
	fd = socket(AF_NETLINK, SOCK_RAW, protocol);
	if (fd < 0)
		return -errno;
	n = send(fd, &msg, msg.h.nlmsg_len, 0);
	if (n > 0)
		n = recv(fd, answer, size, 0);
	if (n < 0)
		n = -errno;
	else if (n >= (int)NLMSG_LENGTH(sizeof(int)) && h->nlmsg_type == NLMSG_ERROR)
		n = *(const int *)NLMSG_DATA(h);
	close(fd);
	return n;
}

static int netlink_call(int protocol, int type, const void *payload, int len)
{
	_Alignas(struct nlmsghdr) char answer[1024];

	return netlink_answer(protocol, type, payload, len, answer, sizeof(answer));
}

/* The ID of a generic netlink family, or a negative errno. */
static int genl_family(const char *name)
{
	struct {
		struct genlmsghdr g;
		struct nlattr attr;
		char name[16];
	} ask = {
		.g = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 },
		.attr = { .nla_type = CTRL_ATTR_FAMILY_NAME },
	};
	_Alignas(struct nlmsghdr) char answer[8192];
	struct nlattr *a;
	int n, at;

	strncpy(ask.name, name, sizeof(ask.name) - 1);
	ask.attr.nla_len = NLA_HDRLEN + strlen(name) + 1;
	n = netlink_answer(NETLINK_GENERIC, GENL_ID_CTRL, &ask, sizeof(ask.g) +
			   NLA_ALIGN(ask.attr.nla_len), answer, sizeof(answer));
	for (at = NLMSG_LENGTH(GENL_HDRLEN); at + (int)sizeof(*a) <= n;
	     at += NLA_ALIGN(a->nla_len)) {
		a = (void *)(answer + at);
		if (a->nla_len < sizeof(*a))
			break;
		if (a->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(__u16 *)(a + 1);
	}
	return n < 0 ? n : -ENOENT;
}

/* Move the caller to the cgroup of @dir, or of CGROUP_ROOT. 0 or -errno. */
static int enter_cgroup(int dir)
{
	int fd = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return err;
}

/* Passed sockets belong to the cgroup that created them, whichever task uses them. */
TEST_F(hooks, passed_in)
{
	struct seen *seen = self->skel->bss->seen;
	socklen_t len = sizeof(union addr);
	union addr a;
	int root, tcp, udp, own;

	root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, root);
	ASSERT_EQ(0, enter_cgroup(root));
	tcp = socket(AF_INET, SOCK_STREAM, 0);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, tcp);
	ASSERT_LE(0, udp);
	ASSERT_EQ(0, enter_cgroup(self->cgroup));
	EXPECT_EQ(0, bind(tcp, &a.sa, make_addr(&a, OTHER4, 0)));
	EXPECT_EQ(0, listen(tcp, 1));
	EXPECT_TRUE(has_ip(tcp, OTHER4));
	EXPECT_EQ(0, connect(udp, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_TRUE(has_ip(udp, OTHER4));
	EXPECT_EQ(0, seen[BIND4].runs);
	EXPECT_EQ(0, seen[AUTOBIND].runs);
	EXPECT_EQ(0, seen[CONNECT4].runs);

	/* A socket created here stays confined if the task moves. */
	own = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, own);
	ASSERT_EQ(0, enter_cgroup(root));
	EXPECT_EQ(0, bind(own, &a.sa, make_addr(&a, OTHER4, 0)));
	EXPECT_EQ(1, seen[BIND4].runs);
	ASSERT_EQ(0, getsockname(own, &a.sa, &len));
	EXPECT_TRUE(same_ip(&a, PIN4));
	ASSERT_EQ(0, enter_cgroup(self->cgroup));
	close(own);
	close(udp);
	close(tcp);
	close(root);
}

/* A socket that had a port before the programs were attached keeps its address. */
TEST_F(hooks, had_a_port)
{
	struct cgroup_sock *skel = self->skel;
	struct seen *seen = skel->bss->seen;
	union addr a;
	int tcp, udp;

	ASSERT_EQ(0, bpf_link__destroy(skel->links.one_ip_bind4));
	skel->links.one_ip_bind4 = NULL;
	tcp = socket(AF_INET, SOCK_STREAM, 0);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	ASSERT_LE(0, tcp);
	ASSERT_LE(0, udp);
	ASSERT_EQ(0, bind(tcp, &a.sa, make_addr(&a, OTHER4, 0)));
	ASSERT_EQ(0, bind(udp, &a.sa, make_addr(&a, OTHER4, 0)));
	skel->links.one_ip_bind4 = bpf_program__attach_cgroup(skel->progs.one_ip_bind4,
							      self->cgroup);
	ASSERT_NE(NULL, skel->links.one_ip_bind4);
	EXPECT_EQ(0, listen(tcp, 1));
	EXPECT_TRUE(has_ip(tcp, OTHER4));
	EXPECT_EQ(0, seen[BIND4].runs);
	EXPECT_EQ(0, seen[AUTOBIND].runs);
	/* connect runs, and bpf_bind() to the one IP fails: the policy refuses it. */
	EXPECT_EQ(-1, connect(udp, &a.sa, make_addr(&a, PEER4, 9)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(1, seen[CONNECT4].runs);
	close(udp);
	close(tcp);
}

/* A counter of MPTCP in a network namespace. Returns to that of the host. */
static long mptcp_counter(const struct net *net, int netns, const char *name)
{
	char names[8192], values[8192], *n, *v, *n_next, *v_next;
	long count = -1;
	FILE *f;

	if (setns(netns, CLONE_NEWNET))
		return -errno;
	f = fopen("/proc/net/netstat", "re");
	while (f && fgets(names, sizeof(names), f) && fgets(values, sizeof(values), f)) {
		if (strncmp(names, "MPTcpExt:", 9))
			continue;
		n = strtok_r(names, "\n ", &n_next);
		v = strtok_r(values, "\n ", &v_next);
		while (n && v) {
			if (!strcmp(n, name))
				count = atol(v);
			n = strtok_r(NULL, "\n ", &n_next);
			v = strtok_r(NULL, "\n ", &v_next);
		}
	}
	if (f)
		fclose(f);
	return setns(net->host, CLONE_NEWNET) ? -errno : count;
}

static int peer_system(const struct net *net, const char *command)
{
	int ret;

	if (setns(net->peer, CLONE_NEWNET))
		return -errno;
	ret = system(command);
	return setns(net->host, CLONE_NEWNET) ? -errno : ret;
}

static int reusing_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP), one = 1;

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd;
}

/*
 * A peer opens a further subflow to a connection of the cgroup. At a listener of another
 * cgroup, and at an address that the cgroup did not use, this must fail.
 */
TEST_F(hooks, mptcp_foreign_listener)
{
#define SIGNAL "ip mptcp endpoint add " OTHER4
	static const struct {
		const char *name;
		const char *listen;	/* a second listener, on the port of the first */
		bool own_cgroup;	/* that listener is in the cgroup, not in the root */
		bool unconfined;	/* without the program at autobind */
		const char *host, *peer;	/* commands that make the peer open a subflow */
		unsigned char subflows;	/* further ones */
	} ways[] = {
		{ "another cgroup", .listen = OTHER4, .host = SIGNAL " signal" },
		{ "an announced port", .host = SIGNAL " port 4242 signal" },
		{ "the same cgroup", .listen = OTHER4, .own_cgroup = true,
		  .host = SIGNAL " signal", .subflows = 1 },
		{ "the same address", .listen = PIN4,
		  .peer = "ip addr add 10.0.0.10/24 dev wire1 && "
			  "ip mptcp endpoint add 10.0.0.10 dev wire1 subflow", .subflows = 1 },
		/* Last, as the program is not attached again. */
		{ "another cgroup, unconfined", .listen = OTHER4, .unconfined = true,
		  .host = SIGNAL " signal", .subflows = 1 },
	};
#undef SIGNAL
	struct policy *policy = &self->skel->bss->policy;
	int root, server, client, conn, second, port, i;
	long rejected, joined, answered;
	unsigned char subflows;	/* the first field of struct mptcp_info */
	struct net *net = &self->net;
	socklen_t len;
	union addr a;
	time_t end;
	char c;

	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, root);
	ASSERT_EQ(0, peer_system(net, "ip mptcp limits set subflows 2 add_addr_accepted 2"));
	for (i = 0; i < (int)ARRAY_LEN(ways); i++) {
		if (ways[i].unconfined) {
			ASSERT_EQ(0, bpf_link__destroy(self->skel->links.one_ip_autobind));
			self->skel->links.one_ip_autobind = NULL;
		}
		server = impatient(reusing_socket());
		ASSERT_LE(0, server);
		ASSERT_EQ(0, bind(server, &a.sa, make_addr(&a, PIN4, 0)));
		ASSERT_EQ(0, listen(server, 8));
		port = port_of(server);
		client = impatient(peer_socket(net, AF_INET, SOCK_STREAM, IPPROTO_MPTCP));
		ASSERT_LE(0, client);
		ASSERT_EQ(0, connect(client, &a.sa, make_addr(&a, PIN4, port)));
		conn = impatient(accept(server, NULL, NULL));
		ASSERT_LE(0, conn);
		/* Both ends have received data: more subflows are allowed. */
		ASSERT_EQ(1, send(client, "x", 1, 0));
		ASSERT_EQ(1, recv(conn, &c, 1, 0));
		ASSERT_EQ(1, send(conn, "x", 1, 0));
		ASSERT_EQ(1, recv(client, &c, 1, 0));
		close(server);

		/* The policy would change the address. */
		policy->netns = 0;
		second = -1;
		if (!ways[i].own_cgroup)
			ASSERT_EQ(0, enter_cgroup(root));
		if (ways[i].listen) {
			second = reusing_socket();
			ASSERT_LE(0, second);
			ASSERT_EQ(0, bind(second, &a.sa, make_addr(&a, ways[i].listen, port)));
			ASSERT_EQ(0, listen(second, 8));
		}
		policy->netns = net->cookie;

		rejected = mptcp_counter(net, net->host, "MPJoinRejected");
		joined = mptcp_counter(net, net->host, "MPJoinAckRx");
		answered = mptcp_counter(net, net->peer, "MPJoinSynAckRx");
		ASSERT_LE(0, rejected);
		ASSERT_LE(0, joined);
		ASSERT_LE(0, answered);
		if (ways[i].host)
			ASSERT_EQ(0, system(ways[i].host));
		if (ways[i].peer)
			ASSERT_EQ(0, peer_system(net, ways[i].peer));
		ASSERT_EQ(0, enter_cgroup(self->cgroup));
		for (end = time(NULL) + 20 * timeout_scale(); time(NULL) < end; sched_yield())
			if (mptcp_counter(net, net->host, "MPJoinRejected") > rejected ||
			    mptcp_counter(net, net->host, "MPJoinAckRx") > joined)
				break;
		len = sizeof(subflows);
		ASSERT_EQ(0, getsockopt(conn, 284 /* SOL_MPTCP */, 1 /* MPTCP_INFO */,
					&subflows, &len));
		EXPECT_EQ(ways[i].subflows, subflows)
			TH_LOG("%s: %d further subflows", ways[i].name, subflows);
		EXPECT_EQ(ways[i].subflows,
			  mptcp_counter(net, net->host, "MPJoinAckRx") - joined)
			TH_LOG("%s: joined", ways[i].name);
		EXPECT_EQ(!ways[i].subflows,
			  mptcp_counter(net, net->host, "MPJoinRejected") - rejected)
			TH_LOG("%s: rejected", ways[i].name);
		EXPECT_EQ(ways[i].subflows,
			  mptcp_counter(net, net->peer, "MPJoinSynAckRx") - answered)
			TH_LOG("%s: the SYN was answered", ways[i].name);
		close(client);
		close(conn);
		if (second >= 0)
			close(second);
		ASSERT_EQ(0, system("ip mptcp endpoint flush"));
		ASSERT_EQ(0, peer_system(net, "ip mptcp endpoint flush"));
	}
	close(root);
}

/* A task does not escape its cgroup's programs with new namespaces. */
TEST_F(hooks, namespaces)
{
	struct policy *policy = &self->skel->bss->policy;
	struct seen *seen = self->skel->bss->seen;
	socklen_t len = sizeof(policy->netns);
	union addr a;
	int fd, status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			_exit(errno == EPERM || errno == EINVAL ? KSFT_SKIP : 1);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */,
					 &policy->netns, &len))
			_exit(2);
		policy->deny = 1 << BIND4;
		if (!bind(fd, &a.sa, make_addr(&a, "0.0.0.0", 0)))
			_exit(3);
		_exit(errno == EPERM ? 0 : 4);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	policy->deny = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
		SKIP(return, "needs CONFIG_USER_NS");
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, seen[BIND4].runs);
}

/* IORING_OP_BIND runs the same programs as bind(). */
TEST_F(hooks, uring_bind)
{
	static const struct {
		const char *any, *pin;
		enum hook hook;
	} all[] = {
		{ "0.0.0.0", PIN4, BIND4 }, { "::", PIN6, BIND6 },
		{ "::ffff:0.0.0.0", "::ffff:" PIN4, BIND6 },
	};
	struct policy *policy = &self->skel->bss->policy;
	struct io_uring_sqe sqe;
	int i, type, deny;
	union addr a;

	if (!has_uring())
		SKIP(return, "needs CONFIG_IO_URING");
	for (i = 0; i < (int)ARRAY_LEN(all); i++) {
		for (type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
			memset(&sqe, 0, sizeof(sqe));
			sqe.opcode = IORING_OP_BIND;
			sqe.addr = (uintptr_t)&a;
			sqe.addr2 = make_addr(&a, all[i].any, 0);
			sqe.fd = socket(a.sa.sa_family, type, 0);
			ASSERT_LE(0, sqe.fd);
			for (deny = 1; deny >= 0; deny--) {
				policy->deny = deny << all[i].hook;
				EXPECT_EQ(deny ? -EPERM : 0, uring_do(&sqe, PEER_MS))
					TH_LOG("%s, type %d", all[i].any, type);
				EXPECT_TRUE(has_ip(sqe.fd, deny ? i ? "::" : "0.0.0.0" :
								 all[i].pin))
					TH_LOG("%s, type %d, deny %d", all[i].any, type, deny);
			}
			close(sqe.fd);
		}
	}
}

/* bind() and connect() of SMC, before and after the fallback to TCP. */
TEST_F(hooks, smc)
{
	static const struct {
		int domain, protocol, way;
	} smc[] = {
		{ AF_SMC, 0, 0 }, { AF_SMC, 1, 1 },
		{ AF_INET, IPPROTO_SMC, 0 }, { AF_INET6, IPPROTO_SMC, 1 },
	};
	static const char * const pins[] = { PIN4, PIN6 }, * const virts[] = { VIRT4, VIRT6 };
	static const char * const anys[] = { "0.0.0.0", "::" };
	struct policy *policy = &self->skel->bss->policy;
	int servers[2], fd, i, way, fallback, bound, one = 1, ret;
	socklen_t len;
	union addr a;

	for (way = 0; way < 2; way++) {
		servers[way] = impatient(peer_socket(&self->net, way ? AF_INET6 : AF_INET,
						     SOCK_STREAM, 0));
		ASSERT_LE(0, servers[way]);
		len = make_addr(&a, way ? PEER6 : PEER4, 0);
		ASSERT_EQ(0, bind(servers[way], &a.sa, len));
		ASSERT_EQ(0, listen(servers[way], 8));
	}
	for (i = 0; i < (int)ARRAY_LEN(smc) * 4; i++) {
		way = smc[i / 4].way;
		fallback = i & 1;
		bound = i & 2;
		fd = socket(smc[i / 4].domain, SOCK_STREAM, smc[i / 4].protocol);
		if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT))
			SKIP(return, "needs CONFIG_SMC");
		ASSERT_LE(0, fd);
		ASSERT_LE(0, impatient(fd));
		if (fallback)
			ASSERT_EQ(0, setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &one,
						sizeof(one)));
		policy->deny = 1 << BIND4 | 1 << BIND6;
		len = make_addr(&a, anys[way], 0);
		if (bound) {
			EXPECT_EQ(-EPERM, bind(fd, &a.sa, len) ? -errno : 0)
				TH_LOG("%d", i);
			policy->deny = 0;
			EXPECT_EQ(0, bind(fd, &a.sa, len))
				TH_LOG("%d: %m", i);
			EXPECT_TRUE(has_ip(fd, pins[way]))
				TH_LOG("%d", i);
		}
		/* Only a program makes a connection of it. */
		policy->deny = 1 << CONNECT4 | 1 << CONNECT6;
		len = make_addr(&a, virts[way], port_of(servers[way]));
		EXPECT_EQ(-EPERM, connect(fd, &a.sa, len) ? -errno : 0)
			TH_LOG("%d", i);
		policy->deny = 0;
		close(fd);

		fd = impatient(socket(smc[i / 4].domain, SOCK_STREAM, smc[i / 4].protocol));
		ASSERT_LE(0, fd);
		if (fallback)
			ASSERT_EQ(0, setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &one,
						sizeof(one)));
		if (bound)
			ASSERT_EQ(0, bind(fd, &a.sa, make_addr(&a, anys[way], 0)));
		len = make_addr(&a, virts[way], port_of(servers[way]));
		ret = connect(fd, &a.sa, len);
		EXPECT_EQ(0, ret)
			TH_LOG("%d: %m", i);
		if (!ret)
			EXPECT_TRUE(dual_got(servers[way], 0, pins[way]))
				TH_LOG("%d", i);
		close(fd);
	}
}

#ifndef IPPROTO_L2TP
#define IPPROTO_L2TP 115
#endif

/*
 * Calls that need a capability, that a program refuses, or that do not exist. The other rows
 * of "Ways to bypass the hooks" in Documentation/bpf/prog_cgroup_sock_addr.rst are tested by:
 *
 *   bind(), listen(), connect(), sendto(), late ports, MSG_FASTOPEN, io_uring, IP_PKTINFO
 *   of UDP, ping, RAW                    matrix, one_ip
 *   IORING_OP_BIND                       hooks.uring_bind
 *   AF_INET6 sockets that use IPv4 too   dual
 *   SMC without RDMA                     autobind.smc, hooks.smc
 *   late subflows of MPTCP               hooks.mptcp_late_subflow
 *   subflows of MPTCP by a peer          hooks.mptcp_foreign_listener
 *   a group as the local address         hooks.source_of_a_group
 *   AF_UNSPEC for a v4-mapped peer       hooks.unspec_for_mapped_peer
 *   multicast, broadcast, link-local     hooks.groups
 *   ping with IP_PKTINFO                 hooks.ping_pktinfo
 *   address lists and peers of SCTP      sctp, one_ip.sctp
 *   new namespaces                       hooks.namespaces
 *   IPv6 routing headers                 hooks.routing_header_needs_cap
 *   sockets passed by SCM_RIGHTS         hooks.passed_in
 *   sockets that had a port before       hooks.had_a_port
 *
 * Without a test: RDMA, SMC with RDMA, request_key(), pidfd_getfd(), an io_uring of another
 * cgroup, and where the kernel has them, RDS, RxRPC, TIPC and PPPoX.
 */
TEST_F(hooks, ways_out)
{
	static const struct {
		const char *name;
		int domain, type, protocol;
		int absent;	/* the error of a kernel without the protocol */
		int present;	/* and with it; 0: to be refused, see the document */
	} sockets[] = {
		{ "packet", AF_PACKET, SOCK_DGRAM, 0, EAFNOSUPPORT, EPERM },
		{ "raw", AF_INET, SOCK_RAW, IPPROTO_TEST, EPROTONOSUPPORT, EPERM },
		{ "raw on IPv6", AF_INET6, SOCK_RAW, IPPROTO_TEST, EPROTONOSUPPORT, EPERM },
		{ "XDP", AF_XDP, SOCK_RAW, 0, EAFNOSUPPORT, EPERM },
		{ "RDS", AF_RDS, SOCK_SEQPACKET, 0, EAFNOSUPPORT, 0 },
		{ "RxRPC", AF_RXRPC, SOCK_DGRAM, AF_INET, EAFNOSUPPORT, 0 },
		{ "TIPC", AF_TIPC, SOCK_DGRAM, 0, EAFNOSUPPORT, 0 },
		{ "PPPoX", AF_PPPOX, SOCK_DGRAM, 0 /* PX_PROTO_OE */, EAFNOSUPPORT, 0 },
		{ "L2TP", AF_INET, SOCK_DGRAM, IPPROTO_L2TP, EPROTONOSUPPORT, EPERM },
		{ "L2TP on IPv6", AF_INET6, SOCK_DGRAM, IPPROTO_L2TP, EPROTONOSUPPORT, EPERM },
		{ "UDP-Lite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, EPROTONOSUPPORT, EPERM },
	};
	static const char route4[] = { 131, 7, 4, 10, 0, 0, 9, 0 };
	static const char options6[8] = { 0, 0, 1, 4 };
	static const int one = 1;
	static const struct {
		const char *name;
		int domain, level, option;
		const void *val;
		socklen_t len;
		int err;
		int err2;	/* the same, if it depends on the kernel */
	} options[] = {
		{ "IP_TRANSPARENT", AF_INET, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one), EPERM },
		{ "IPV6_TRANSPARENT", AF_INET6, IPPROTO_IPV6, 75, &one, sizeof(one), EPERM },
		{ "IPv4 source route", AF_INET, IPPROTO_IP, IP_OPTIONS, route4, sizeof(route4),
		  EPERM },
		{ "IPv6 destination options", AF_INET6, IPPROTO_IPV6, IPV6_DSTOPTS, options6,
		  sizeof(options6), EPERM },
		{ "TCP_REPAIR", AF_INET, IPPROTO_TCP, TCP_REPAIR, &one, sizeof(one), EPERM },
		/* A kernel with kTLS has it for connected sockets only. */
		{ "kTLS", AF_INET, IPPROTO_TCP, TCP_ULP, "tls", 4, ENOENT, ENOTCONN },
	};
	struct ifreq ifr = { .ifr_flags = 1 /* IFF_TUN */ };
	struct cgroup_sock *skel = self->skel;
	int fd, i, mptcp, err;
	bool has[ARRAY_LEN(sockets)];
	union addr a;

	if (!has_proto(MPTCP))
		SKIP(return, NEEDS_MPTCP);
	mptcp = genl_family("mptcp_pm");
	ASSERT_LT(0, mptcp);
	for (i = 0; i < (int)ARRAY_LEN(sockets); i++) {
		fd = socket(sockets[i].domain, sockets[i].type, sockets[i].protocol);
		has[i] = fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	/* L2TP/IP needs no capability: a program refuses it. */
	skel->links.no_l2tp = bpf_program__attach_cgroup(skel->progs.no_l2tp, self->cgroup);
	ASSERT_NE(NULL, skel->links.no_l2tp);
	ASSERT_EQ(0, drop_cap(CAP_NET_RAW));
	ASSERT_EQ(0, drop_cap(CAP_NET_ADMIN));
	for (i = 0; i < (int)ARRAY_LEN(sockets); i++) {
		if (has[i] && !sockets[i].present) {
			TH_LOG("%s: not tested here, see prog_cgroup_sock_addr.rst",
			       sockets[i].name);
			continue;
		}
		fd = socket(sockets[i].domain, sockets[i].type, sockets[i].protocol);
		err = fd < 0 ? errno : 0;
		EXPECT_EQ(has[i] ? sockets[i].present : sockets[i].absent, err)
			TH_LOG("%s", sockets[i].name);
		if (fd >= 0)
			close(fd);
	}
	for (i = 0; i < (int)ARRAY_LEN(options); i++) {
		fd = socket(options[i].domain, SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-1, setsockopt(fd, options[i].level, options[i].option, options[i].val,
					 options[i].len))
			TH_LOG("%s", options[i].name);
		err = errno;
		EXPECT_TRUE(err == options[i].err || (options[i].err2 && err == options[i].err2))
			TH_LOG("%s: %s", options[i].name, strerror(err));
		close(fd);
	}
	/* Only the administrator adds tunnels, addresses and subflows. */
	EXPECT_EQ(-EPERM, netlink_call(NETLINK_ROUTE, RTM_NEWLINK, NULL,
				       sizeof(struct ifinfomsg)));
	EXPECT_EQ(-EPERM, netlink_call(NETLINK_ROUTE, RTM_NEWADDR, NULL,
				       sizeof(struct ifaddrmsg)));
	EXPECT_EQ(-EPERM, netlink_call(NETLINK_GENERIC, mptcp, &(struct genlmsghdr){
				       .cmd = 1 /* MPTCP_PM_CMD_ADD_ADDR */, .version = 1 },
				       sizeof(struct genlmsghdr)));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, ioctl(fd, SIOCGIFADDR + 1 /* SIOCSIFADDR */, &ifr));
	EXPECT_EQ(EPERM, errno);
	close(fd);
	fd = open("/dev/net/tun", O_RDWR);
	if (fd >= 0) {
		EXPECT_EQ(-1, ioctl(fd, _IOW('T', 202, int) /* TUNSETIFF */, &ifr));
		EXPECT_EQ(EPERM, errno);
		close(fd);
	}
	/* An unassigned address does not bypass the policy. */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)));
	EXPECT_EQ(0, bind(fd, &a.sa, make_addr(&a, VIRT4, 0)));
	EXPECT_TRUE(has_ip(fd, PIN4));
	close(fd);
}

/* Like TEST_HARNESS_MAIN, but the policy is loaded before the first test, see open_policy(). */
int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "-l") && strcmp(argv[i], "-h"); i++)
		;
	/* If that fails, a test fails. */
	if (i == argc)
		open_policy();
	return test_harness_run(argc, argv);
}
