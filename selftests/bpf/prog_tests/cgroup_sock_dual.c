// SPDX-License-Identifier: GPL-2.0
#include "test_progs.h"
#include "network_helpers.h"
#include "cgroup_sock_dual.skel.h"

#define TEST_NS		"cgroup_sock_dual_ns"
#define PIN4		"127.0.0.2"	/* set by the programs */
#define PIN6		"::2"

/* A server of one family gets a connection or a datagram from the address of this one. */
static void check_source(int fd, int type, bool v6)
{
	int server_fd, conn_fd;
	struct sockaddr_storage ss;
	socklen_t len;
	char c;

	server_fd = start_server(v6 ? AF_INET6 : AF_INET, type, v6 ? "::1" : "127.0.0.1", 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		return;
	if (!ASSERT_OK(make_sockaddr(AF_INET6, v6 ? "::1" : "::ffff:127.0.0.1",
				     ntohs(get_socket_local_port(server_fd)), &ss, &len),
		       "make_sockaddr"))
		goto out;

	if (type == SOCK_STREAM) {
		ASSERT_OK(connect(fd, (struct sockaddr *)&ss, len), "connect");
		len = sizeof(ss);
		conn_fd = accept(server_fd, (struct sockaddr *)&ss, &len);
		if (!ASSERT_OK_FD(conn_fd, "accept"))
			goto out;
		close(conn_fd);
	} else {
		ASSERT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&ss, len), 1, "sendto");
		len = sizeof(ss);
		if (!ASSERT_EQ(recvfrom(server_fd, &c, 1, 0, (struct sockaddr *)&ss, &len), 1,
			       "recvfrom"))
			goto out;
	}
	check_sockaddr_ip(&ss, v6 ? PIN6 : PIN4, v6 ? "source_ip6" : "source_ip4");
out:
	close(server_fd);
}

static void check_client(int listen_fd, int family, const char *ip, int err)
{
	int fd;

	fd = connect_to_addr_str(family, SOCK_STREAM, ip, ntohs(get_socket_local_port(listen_fd)),
				 NULL);
	ASSERT_EQ(fd < 0 ? errno : 0, err, ip);
	if (fd >= 0)
		close(fd);
}

/* A listener on :: answers at the two addresses, and only there. */
static void test_tcp_listen(struct cgroup_sock_dual *skel, int fd)
{
	if (!ASSERT_OK(listen(fd, 2), "listen"))
		return;
	check_client(fd, AF_INET, PIN4, 0);
	check_client(fd, AF_INET6, PIN6, 0);
	check_client(fd, AF_INET, "127.0.0.1", ECONNREFUSED);
	check_client(fd, AF_INET6, "::1", ECONNREFUSED);
}

/* bpf_bind() may repeat the address that the socket has in the family of the peer. */
static void test_tcp_connect(struct cgroup_sock_dual *skel, int fd)
{
	check_source(fd, SOCK_STREAM, false);
	ASSERT_EQ(skel->bss->connect_runs, 1, "connect_runs");
	ASSERT_OK(skel->bss->bpf_bind_err, "bpf_bind");
	check_local_ip(fd, "::ffff:" PIN4);
}

static void test_udp(struct cgroup_sock_dual *skel, int fd)
{
	check_source(fd, SOCK_DGRAM, true);
	check_source(fd, SOCK_DGRAM, false);
	check_local_ip(fd, PIN6);
}

static void run_test(int cgroup_fd, int type, bool autobind,
		     void (*test)(struct cgroup_sock_dual *skel, int fd))
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct cgroup_sock_dual *skel;
	int fd = -1;

	skel = cgroup_sock_dual__open_and_load();
	if (!ASSERT_OK_PTR(skel, "open_and_load"))
		return;
	inet_pton(AF_INET, PIN4, &skel->bss->pin4);
	inet_pton(AF_INET6, PIN6, skel->bss->pin6);
	skel->links.pin_bind6 = bpf_program__attach_cgroup(skel->progs.pin_bind6, cgroup_fd);
	skel->links.pin_autobind = bpf_program__attach_cgroup(skel->progs.pin_autobind, cgroup_fd);
	skel->links.pin_connect6 = bpf_program__attach_cgroup(skel->progs.pin_connect6, cgroup_fd);
	if (!ASSERT_OK_PTR(skel->links.pin_bind6, "attach_bind6") ||
	    !ASSERT_OK_PTR(skel->links.pin_autobind, "attach_autobind") ||
	    !ASSERT_OK_PTR(skel->links.pin_connect6, "attach_connect6"))
		goto destroy;

	fd = socket(AF_INET6, type, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		goto destroy;
	if (!autobind) {
		if (!ASSERT_OK(bind(fd, (struct sockaddr *)&any, sizeof(any)), "bind"))
			goto close_fd;
		check_local_ip(fd, PIN6);
	}
	test(skel, fd);
	ASSERT_EQ(skel->bss->bind_runs, autobind ? 0 : 1, "bind_runs");
	ASSERT_EQ(skel->bss->autobind_runs, autobind ? 1 : 0, "autobind_runs");
close_fd:
	close(fd);
destroy:
	cgroup_sock_dual__destroy(skel);
}

void test_cgroup_sock_dual(void)
{
	struct netns_obj *ns;
	int cgroup_fd;

	cgroup_fd = test__join_cgroup("/cgroup_sock_dual");
	if (!ASSERT_OK_FD(cgroup_fd, "join_cgroup"))
		return;
	ns = netns_new(TEST_NS, true);
	if (!ASSERT_OK_PTR(ns, "netns_new"))
		goto out;
	SYS(out, "ip -6 addr add " PIN6 "/128 nodad dev lo");

	if (test__start_subtest("tcp_listen"))
		run_test(cgroup_fd, SOCK_STREAM, false, test_tcp_listen);
	if (test__start_subtest("tcp_connect"))
		run_test(cgroup_fd, SOCK_STREAM, false, test_tcp_connect);
	if (test__start_subtest("udp_bind"))
		run_test(cgroup_fd, SOCK_DGRAM, false, test_udp);
	if (test__start_subtest("udp_autobind"))
		run_test(cgroup_fd, SOCK_DGRAM, true, test_udp);
out:
	netns_free(ns);
	close(cgroup_fd);
}
