// SPDX-License-Identifier: GPL-2.0
#include "test_progs.h"
#include "network_helpers.h"
#include "cgroup_autobind.skel.h"

#define TEST_NS		"cgroup_autobind_ns"

static int tcp_listen(int fd, const struct sockaddr *peer, socklen_t len)
{
	return listen(fd, 1);
}

static int udp_sendto(int fd, const struct sockaddr *peer, socklen_t len)
{
	return sendto(fd, "x", 1, 0, peer, len) == 1 ? 0 : -1;
}

static int udp_connect(int fd, const struct sockaddr *peer, socklen_t len)
{
	if (connect(fd, peer, len))
		return -1;
	return send(fd, "x", 1, 0) == 1 ? 0 : -1;
}

static const struct family {
	int domain;
	const char *any;
	const char *loopback;
	const char *pin;
} families[] = {
	{ AF_INET, "0.0.0.0", "127.0.0.1", "127.0.0.2" },
	{ AF_INET6, "::", "::1", "::2" },
};

static const struct autobind_test {
	const char *name;
	int type;
	/* Gets a port without bind(). */
	int (*call)(int fd, const struct sockaddr *peer, socklen_t len);
	/* Without a program, the route sets the local address. */
	bool connects;
	/* TCP connect() runs autobind if a connect program set the address. */
	bool uses_bpf_bind;
} tests[] = {
	{ "tcp_listen", SOCK_STREAM, tcp_listen },
	{ "tcp_connect", SOCK_STREAM, connect, .connects = true, .uses_bpf_bind = true },
	{ "udp_sendto", SOCK_DGRAM, udp_sendto },
	{ "udp_connect", SOCK_DGRAM, udp_connect, .connects = true },
};

static void check_local(int fd, const char *ip)
{
	check_local_ip(fd, ip);
	ASSERT_GT(get_socket_local_port(fd), 0, "local_port");
}

/* The connection or datagram at the server comes from this address. */
static void check_source(int server_fd, int type, const char *ip)
{
	struct sockaddr_storage ss = {};
	socklen_t len = sizeof(ss);
	int fd;
	char c;

	if (type == SOCK_STREAM) {
		fd = accept(server_fd, (struct sockaddr *)&ss, &len);
		if (!ASSERT_OK_FD(fd, "accept"))
			return;
		close(fd);
	} else if (!ASSERT_EQ(recvfrom(server_fd, &c, 1, 0, (struct sockaddr *)&ss, &len), 1,
			      "recvfrom")) {
		return;
	}
	check_sockaddr_ip(&ss, ip, "source_ip");
}

/* Only the address of the listener accepts connections. */
static void check_listener(int fd, const struct family *f)
{
	int client_fd;

	client_fd = connect_to_fd(fd, 0);
	if (ASSERT_OK_FD(client_fd, "connect_to_fd"))
		close(client_fd);

	client_fd = connect_to_addr_str(f->domain, SOCK_STREAM, f->loopback,
					ntohs(get_socket_local_port(fd)), NULL);
	if (!ASSERT_EQ(client_fd, -1, "connect_to_addr_str"))
		close(client_fd);
	else
		ASSERT_EQ(errno, ECONNREFUSED, "connect_errno");
}

static void check_unpinned(const struct autobind_test *t, const struct family *f,
			   int server_fd, const struct sockaddr *peer, socklen_t len)
{
	int fd;

	fd = socket(f->domain, t->type, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;
	if (ASSERT_OK(t->call(fd, peer, len), "call_without_program")) {
		check_local(fd, t->connects ? f->loopback : f->any);
		if (t->call != tcp_listen)
			check_source(server_fd, t->type, f->loopback);
	}
	close(fd);
}

static void check_pinned(const struct autobind_test *t, const struct family *f,
			 int server_fd, const struct sockaddr *peer, socklen_t len,
			 struct cgroup_autobind *skel)
{
	__u32 bound[4] = {};
	int fd;

	if (t->uses_bpf_bind)
		inet_pton(f->domain, f->pin, bound);
	fd = socket(f->domain, t->type, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;

	skel->bss->reject = true;
	ASSERT_EQ(t->call(fd, peer, len), -1, "call_rejected");
	ASSERT_EQ(errno, EPERM, "call_rejected_errno");
	ASSERT_EQ(skel->bss->runs, 1, "runs_rejected");
	ASSERT_EQ(get_socket_local_port(fd), 0, "port_rejected");

	/* The same socket can try again. */
	skel->bss->reject = false;
	if (ASSERT_OK(t->call(fd, peer, len), "call")) {
		ASSERT_EQ(skel->bss->runs, 2, "runs");
		ASSERT_EQ(skel->bss->user_family, f->domain, "user_family");
		ASSERT_EQ(skel->bss->user_port, 0, "user_port");
		ASSERT_MEMEQ(skel->bss->user_ip, bound, sizeof(bound), "user_ip");
		check_local(fd, f->pin);
		if (t->call == tcp_listen)
			check_listener(fd, f);
		else
			check_source(server_fd, t->type, f->pin);
	}
	close(fd);
}

static void run_test(const struct autobind_test *t, const struct family *f, int cgroup_fd)
{
	struct sockaddr_storage peer;
	struct cgroup_autobind *skel;
	socklen_t len = sizeof(peer);
	struct bpf_link *link;
	int server_fd;

	skel = cgroup_autobind__open_and_load();
	if (!ASSERT_OK_PTR(skel, "open_and_load"))
		return;
	inet_pton(AF_INET, families[0].pin, &skel->bss->pin4);
	inet_pton(AF_INET6, families[1].pin, skel->bss->pin6);

	server_fd = start_server(f->domain, t->type, f->loopback, 0, 0);
	if (!ASSERT_OK_FD(server_fd, "start_server"))
		goto out;
	if (!ASSERT_OK(getsockname(server_fd, (struct sockaddr *)&peer, &len), "getsockname"))
		goto close_server;

	check_unpinned(t, f, server_fd, (struct sockaddr *)&peer, len);

	if (t->uses_bpf_bind && f->domain == AF_INET) {
		link = bpf_program__attach_cgroup(skel->progs.pin_connect4, cgroup_fd);
		skel->links.pin_connect4 = link;
		if (!ASSERT_OK_PTR(link, "attach_connect4"))
			goto close_server;
	} else if (t->uses_bpf_bind) {
		link = bpf_program__attach_cgroup(skel->progs.pin_connect6, cgroup_fd);
		skel->links.pin_connect6 = link;
		if (!ASSERT_OK_PTR(link, "attach_connect6"))
			goto close_server;
	}
	link = bpf_program__attach_cgroup(skel->progs.pin_autobind, cgroup_fd);
	skel->links.pin_autobind = link;
	if (!ASSERT_OK_PTR(link, "attach_autobind"))
		goto close_server;

	check_pinned(t, f, server_fd, (struct sockaddr *)&peer, len, skel);
close_server:
	close(server_fd);
out:
	cgroup_autobind__destroy(skel);
}

void test_cgroup_autobind(void)
{
	struct netns_obj *ns;
	int cgroup_fd, i, j;
	char name[32];

	cgroup_fd = test__join_cgroup("/cgroup_autobind");
	if (!ASSERT_OK_FD(cgroup_fd, "join_cgroup"))
		return;
	ns = netns_new(TEST_NS, true);
	if (!ASSERT_OK_PTR(ns, "netns_new"))
		goto out;
	SYS(out, "ip -6 addr add %s/128 nodad dev lo", families[1].pin);

	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		for (j = 0; j < ARRAY_SIZE(families); j++) {
			snprintf(name, sizeof(name), "%s%s", tests[i].name, j ? "6" : "4");
			if (test__start_subtest(name))
				run_test(&tests[i], &families[j], cgroup_fd);
		}
	}
out:
	netns_free(ns);
	close(cgroup_fd);
}
