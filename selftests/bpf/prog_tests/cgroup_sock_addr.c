// SPDX-License-Identifier: GPL-2.0
#include "test_progs.h"
#include "network_helpers.h"
#include "cgroup_sock_addr.skel.h"

#define TEST_NS		"cgroup_sock_addr_ns"
#define SOURCE4		"127.0.0.2"	/* set by the programs */
#define SOURCE6		"::2"

static void check_datagram_from(int fd, const char *ip)
{
	struct sockaddr_storage ss = {};
	socklen_t len = sizeof(ss);
	char c;

	if (ASSERT_EQ(recvfrom(fd, &c, 1, 0, (struct sockaddr *)&ss, &len), 1, "recvfrom"))
		check_sockaddr_ip(&ss, ip, "source_ip");
}

static void reset(struct cgroup_sock_addr *skel)
{
	memset(skel->bss, 0, sizeof(*skel->bss));
}

static int attach(struct bpf_program *prog, int cgroup_fd, struct bpf_link **link)
{
	*link = bpf_program__attach_cgroup(prog, cgroup_fd);
	return ASSERT_OK_PTR(*link, "attach_cgroup") ? 0 : -1;
}

static void test_unspec_bind(struct cgroup_sock_addr *skel)
{
	struct sockaddr_in addr = { .sin_family = AF_UNSPEC };
	int fd;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;
	reset(skel);

	/* bind() refuses this address, so a program must not replace it. */
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), -1, "bind_loopback");
	ASSERT_EQ(errno, EAFNOSUPPORT, "bind_loopback_errno");
	ASSERT_EQ(skel->bss->runs, 0, "bind_loopback_runs");
	reset(skel);

	addr.sin_addr.s_addr = htonl(INADDR_ANY);
	ASSERT_OK(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), "bind_any");
	ASSERT_EQ(skel->bss->runs, 1, "bind_any_runs");
	ASSERT_EQ(skel->bss->user_family, AF_INET, "user_family");
	close(fd);
}

/* An IPv4 server at @addr, and in @fd a socket of @family. Returns the server, or -1. */
static int server_and_socket(int family, int *fd, void *addr, socklen_t *len)
{
	int server_fd = start_server(AF_INET, SOCK_DGRAM, "127.0.0.1", 0, 0);

	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return -1;
	if (!ASSERT_OK(getsockname(server_fd, addr, len), "getsockname"))
		goto close_server;
	*fd = socket(family, SOCK_DGRAM, 0);
	if (!ASSERT_OK_FD(*fd, "socket"))
		goto close_server;
	return server_fd;

close_server:
	close(server_fd);
	return -1;
}

static void test_unspec_sendto(struct cgroup_sock_addr *skel)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int server_fd, fd;

	server_fd = server_and_socket(AF_INET, &fd, &addr, &len);
	if (server_fd < 0)
		return;
	reset(skel);

	addr.sin_family = AF_UNSPEC;
	if (!ASSERT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&addr, len), 1, "sendto"))
		goto out;
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_EQ(skel->bss->user_family, AF_INET, "user_family");
	ASSERT_EQ(skel->bss->user_port, addr.sin_port, "user_port");
	ASSERT_EQ(skel->bss->user_ip[0], addr.sin_addr.s_addr, "user_ip4");
	check_datagram_from(server_fd, SOURCE4);
out:
	close(fd);
	close(server_fd);
}

/* The control message requests the source that connect() chose. */
static int send_pktinfo(int fd, int family)
{
	char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] __aligned(8) = {};
	struct in6_pktinfo info6 = { .ipi6_addr = IN6ADDR_LOOPBACK_INIT };
	struct in_pktinfo info4 = { .ipi_spec_dst.s_addr = htonl(INADDR_LOOPBACK) };
	size_t size = family == AF_INET ? sizeof(info4) : sizeof(info6);
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(size),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_len = CMSG_LEN(size);
	if (family == AF_INET) {
		cmsg->cmsg_level = IPPROTO_IP;
		cmsg->cmsg_type = IP_PKTINFO;
		memcpy(CMSG_DATA(cmsg), &info4, sizeof(info4));
	} else {
		cmsg->cmsg_level = IPPROTO_IPV6;
		cmsg->cmsg_type = IPV6_PKTINFO;
		memcpy(CMSG_DATA(cmsg), &info6, sizeof(info6));
	}
	return sendmsg(fd, &msg, 0);
}

static void test_connected_cmsg(struct cgroup_sock_addr *skel, int family)
{
	bool v4 = family == AF_INET;
	__u32 peer[4] = {};
	int server_fd, fd;

	inet_pton(family, v4 ? "127.0.0.1" : "::1", peer);
	server_fd = start_server(family, SOCK_DGRAM, v4 ? "127.0.0.1" : "::1", 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return;
	fd = connect_to_fd(server_fd, 0);
	if (!ASSERT_OK_FD(fd, "connect_to_fd"))
		goto out;
	reset(skel);
	/* Ignored: connect() has decided on the peer. */
	skel->bss->redirect = 1;

	if (!ASSERT_EQ(send_pktinfo(fd, family), 1, "sendmsg"))
		goto close_fd;
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_EQ(skel->bss->user_family, family, "user_family");
	ASSERT_EQ(skel->bss->user_port, get_socket_local_port(server_fd), "user_port");
	ASSERT_MEMEQ(skel->bss->user_ip, peer, sizeof(peer), "user_ip");
	check_datagram_from(server_fd, v4 ? SOURCE4 : SOURCE6);
close_fd:
	skel->bss->redirect = 0;
	close(fd);
out:
	close(server_fd);
}

static void test_v4mapped_send(struct cgroup_sock_addr *skel)
{
	struct sockaddr_storage addr;
	int server_fd, fd = -1;
	socklen_t len;

	server_fd = start_server(AF_INET, SOCK_DGRAM, "127.0.0.1", 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return;
	if (!ASSERT_OK(make_sockaddr(AF_INET6, "::ffff:127.0.0.1",
				     ntohs(get_socket_local_port(server_fd)), &addr, &len),
		       "make_sockaddr"))
		goto out;
	fd = connect_to_addr(SOCK_DGRAM, &addr, len, NULL);
	if (!ASSERT_OK_FD(fd, "connect_to_addr"))
		goto out;
	reset(skel);

	ASSERT_EQ(send(fd, "x", 1, 0), 1, "send");
	ASSERT_EQ(skel->bss->runs, 0, "send_runs");
	check_datagram_from(server_fd, "127.0.0.1");
	reset(skel);

	/* An explicit address is checked, even if it is that of connect(). */
	ASSERT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&addr, len), 1, "sendto");
	ASSERT_EQ(skel->bss->runs, 1, "sendto_runs");
out:
	if (fd >= 0)
		close(fd);
	close(server_fd);
}

static void test_bpf_bind4_sock6(struct cgroup_sock_addr *skel, int cgroup_fd)
{
	int server_fd, fd, peer_fd = -1;
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char c;

	server_fd = server_and_socket(AF_INET6, &fd, &addr, &len);
	if (server_fd < 0)
		return;
	reset(skel);

	if (attach(skel->progs.bind4_and_reject, cgroup_fd, &skel->links.bind4_and_reject))
		goto out;
	ASSERT_EQ(connect(fd, (struct sockaddr *)&addr, len), -1, "connect");
	ASSERT_EQ(errno, EPERM, "connect_errno");
	bpf_link__destroy(skel->links.bind4_and_reject);
	skel->links.bind4_and_reject = NULL;
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_OK(skel->bss->bind_err, "bpf_bind");
	check_local_ip(fd, "::ffff:" SOURCE4);

	/* Get a port. The socket must not receive from IPv6 there. */
	if (!ASSERT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&addr, len), 1, "sendto"))
		goto out;
	peer_fd = connect_to_addr_str(AF_INET6, SOCK_DGRAM, "::1",
				      ntohs(get_socket_local_port(fd)), NULL);
	if (!ASSERT_OK_FD(peer_fd, "connect_to_addr_str"))
		goto out;
	ASSERT_EQ(send(peer_fd, "x", 1, 0), 1, "send");
	ASSERT_EQ(recv(peer_fd, &c, 1, 0), -1, "recv");
	ASSERT_EQ(errno, ECONNREFUSED, "recv_errno");
	ASSERT_EQ(recv(fd, &c, 1, MSG_DONTWAIT), -1, "recv_from_ipv6");
out:
	if (peer_fd >= 0)
		close(peer_fd);
	close(fd);
	close(server_fd);
}

static void connect_to_mapped(struct cgroup_sock_addr *skel, int fd)
{
	struct sockaddr_storage addr;
	socklen_t len;

	if (!ASSERT_OK(make_sockaddr(AF_INET6, "::ffff:127.0.0.1", 9, &addr, &len),
		       "make_sockaddr"))
		return;
	skel->bss->reject = 1;
	ASSERT_EQ(connect(fd, (struct sockaddr *)&addr, len), -1, "connect_mapped");
	ASSERT_EQ(errno, EPERM, "connect_mapped_errno");
}

static void test_bpf_bind4_connect6(struct cgroup_sock_addr *skel, int cgroup_fd)
{
	int server_fd, fd, one = 1;

	server_fd = start_server(AF_INET6, SOCK_DGRAM, "::1", 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return;
	reset(skel);
	if (attach(skel->progs.bind4_in_connect6, cgroup_fd, &skel->links.bind4_in_connect6))
		goto out;

	/* The IPv6 side stays unbound, so that connect() to IPv6 works. */
	fd = connect_to_fd(server_fd, 0);
	if (ASSERT_OK_FD(fd, "connect_to_fd")) {
		check_local_ip(fd, "::1");
		close(fd);
	}
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_OK(skel->bss->bind_err, "bpf_bind");

	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		goto detach;
	connect_to_mapped(skel, fd);
	ASSERT_OK(skel->bss->bind_err, "bpf_bind_mapped");
	check_local_ip(fd, "::ffff:" SOURCE4);
	close(fd);

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		goto detach;
	ASSERT_OK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), "v6only");
	connect_to_mapped(skel, fd);
	ASSERT_EQ(skel->bss->bind_err, -EINVAL, "bpf_bind_v6only");
	close(fd);
detach:
	bpf_link__destroy(skel->links.bind4_in_connect6);
	skel->links.bind4_in_connect6 = NULL;
out:
	close(server_fd);
}

static void test_bpf_bind6_sock4(struct cgroup_sock_addr *skel, int cgroup_fd, int type)
{
	int server_fd, fd;

	server_fd = start_server(AF_INET, type, "127.0.0.1", 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return;
	reset(skel);
	if (attach(skel->progs.bind6_in_connect4, cgroup_fd, &skel->links.bind6_in_connect4))
		goto out;

	fd = connect_to_fd(server_fd, 0);
	if (ASSERT_OK_FD(fd, "connect_to_fd")) {
		check_local_ip(fd, "127.0.0.1");
		close(fd);
	}
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_EQ(skel->bss->bind_err, -EAFNOSUPPORT, "bpf_bind");
	bpf_link__destroy(skel->links.bind6_in_connect4);
	skel->links.bind6_in_connect4 = NULL;
out:
	close(server_fd);
}

/*
 * A socket can be bound to a broadcast address, but cannot send from it: connect() takes the
 * source of the route, and fails with a broadcast address as source.
 */
static void test_bpf_bind_broadcast(struct cgroup_sock_addr *skel, int cgroup_fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int server_fd, fd;

	server_fd = server_and_socket(AF_INET6, &fd, &addr, &len);
	if (server_fd < 0)
		return;
	reset(skel);

	if (attach(skel->progs.bind_broadcast, cgroup_fd, &skel->links.bind_broadcast))
		goto out;
	ASSERT_OK(connect(fd, (struct sockaddr *)&addr, len), "connect");
	bpf_link__destroy(skel->links.bind_broadcast);
	skel->links.bind_broadcast = NULL;
	ASSERT_EQ(skel->bss->runs, 1, "runs");
	ASSERT_OK(skel->bss->bind_err, "bpf_bind");
	check_local_ip(fd, "::ffff:127.255.255.255");
out:
	close(fd);
	close(server_fd);
}

void test_cgroup_sock_addr(void)
{
	struct cgroup_sock_addr *skel = NULL;
	struct netns_obj *ns;
	int cgroup_fd;

	cgroup_fd = test__join_cgroup("/cgroup_sock_addr");
	if (!ASSERT_OK_FD(cgroup_fd, "join_cgroup"))
		return;
	ns = netns_new(TEST_NS, true);
	if (!ASSERT_OK_PTR(ns, "netns_new"))
		goto out;
	SYS(out, "ip -6 addr add " SOURCE6 "/128 nodad dev lo");

	skel = cgroup_sock_addr__open_and_load();
	if (!ASSERT_OK_PTR(skel, "open_and_load"))
		goto out;
	if (attach(skel->progs.record_bind4, cgroup_fd, &skel->links.record_bind4) ||
	    attach(skel->progs.source_sendmsg4, cgroup_fd, &skel->links.source_sendmsg4) ||
	    attach(skel->progs.source_sendmsg6, cgroup_fd, &skel->links.source_sendmsg6))
		goto out;

	if (test__start_subtest("unspec_bind"))
		test_unspec_bind(skel);
	if (test__start_subtest("unspec_sendto"))
		test_unspec_sendto(skel);
	if (test__start_subtest("connected_cmsg4"))
		test_connected_cmsg(skel, AF_INET);
	if (test__start_subtest("connected_cmsg6"))
		test_connected_cmsg(skel, AF_INET6);
	if (test__start_subtest("v4mapped_send"))
		test_v4mapped_send(skel);
	if (test__start_subtest("bpf_bind4_sock6"))
		test_bpf_bind4_sock6(skel, cgroup_fd);
	if (test__start_subtest("bpf_bind4_connect6"))
		test_bpf_bind4_connect6(skel, cgroup_fd);
	if (test__start_subtest("bpf_bind_broadcast"))
		test_bpf_bind_broadcast(skel, cgroup_fd);
	/* Last: kernels without the check crash here. */
	if (test__start_subtest("bpf_bind6_sock4_udp"))
		test_bpf_bind6_sock4(skel, cgroup_fd, SOCK_DGRAM);
	if (test__start_subtest("bpf_bind6_sock4_tcp"))
		test_bpf_bind6_sock4(skel, cgroup_fd, SOCK_STREAM);
out:
	cgroup_sock_addr__destroy(skel);
	netns_free(ns);
	close(cgroup_fd);
}
