// SPDX-License-Identifier: GPL-2.0
/* The cost of socket calls with programs on the hooks of the cgroup, or of a sibling. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "autobind.h"
#include "bench.h"
#include "bench_cgroup_sock.skel.h"
#include "common.h"

#define CGROUP "bpf_provenance_bench"
#define SIBLING "bpf_provenance_bench_sibling"

static struct sockaddr_in any_port = { .sin_family = AF_INET };
static struct sockaddr_in peer;
static struct sockaddr_in same_port;	/* that of the peer, at another address */
static int sock, server;

static void new_tcp(void *arg)
{
	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (sock < 0)
		die("socket");
}

static void new_udp(void *arg)
{
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0)
		die("socket");
}

static void new_sctp(void *arg)
{
	sock = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	if (sock < 0)
		die("socket");
}

static void do_bind(void *arg)
{
	if (bind(sock, (void *)&any_port, sizeof(any_port)))
		die("bind");
}

static void do_bind_same_port(void *arg)
{
	if (bind(sock, (void *)&same_port, sizeof(same_port)))
		die("bind");
}

static void new_bound_tcp(void *arg)
{
	new_tcp(arg);
	do_bind(arg);
}

static void do_listen(void *arg)
{
	if (listen(sock, 1))
		die("listen");
}

static void do_connect(void *arg)
{
	if (connect(sock, (void *)&peer, sizeof(peer)))
		die("connect");
}

static void new_connected_tcp(void *arg)
{
	new_tcp(arg);
	do_connect(arg);
}

static void new_connected_udp(void *arg)
{
	new_udp(arg);
	do_connect(arg);
}

static void do_sendto(void *arg)
{
	if (sendto(sock, "x", 1, 0, (void *)&peer, sizeof(peer)) != 1)
		die("sendto");
}

static void do_send(void *arg)
{
	if (sendto(sock, "x", 1, 0, NULL, 0) != 1)
		die("send");
}

static void close_sock(void *arg)
{
	close(sock);
}

static void receive_and_close(void *arg)
{
	char c;

	if (recv(server, &c, 1, 0) != 1)
		die("recv");
	close(sock);
}

/* Reset, so that no port stays in TIME_WAIT. */
static void accept_and_close(void *arg)
{
	struct linger now = { .l_onoff = 1 };
	int fd = accept(server, NULL, NULL);

	if (fd < 0)
		die("accept");
	setsockopt(sock, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(sock);
	close(fd);
}

static void serve(int type, int protocol)
{
	socklen_t len = sizeof(peer);

	server = socket(AF_INET, type, protocol);
	if (server < 0 || bind(server, (void *)&any_port, sizeof(any_port)) ||
	    (type == SOCK_STREAM && listen(server, 8)) ||
	    getsockname(server, (void *)&peer, &len))
		die("server");
}

static const struct sock_op {
	const char *name;
	int server;		/* its type, or 0 */
	struct op op;
	int protocol;		/* of the server */
} sock_ops[] = {
	{ "sock/tcp_bind", 0, { new_tcp, do_bind, close_sock, NULL, 100 } },
	{ "sock/tcp_listen", 0, { new_bound_tcp, do_listen, close_sock, NULL, 100 } },
	{ "sock/tcp_listen_unbound", 0, { new_tcp, do_listen, close_sock, NULL, 100 } },
	{ "sock/tcp_connect", SOCK_STREAM, { new_tcp, do_connect, accept_and_close, NULL, 100 } },
	{ "sock/tcp_sendto", SOCK_STREAM,
	  { new_connected_tcp, do_send, accept_and_close, NULL, 100 } },
	{ "sock/udp_bind", 0, { new_udp, do_bind, close_sock, NULL, 100 } },
	{ "sock/udp_connect", SOCK_DGRAM, { new_udp, do_connect, close_sock, NULL, 100 } },
	{ "sock/udp_reconnect", SOCK_DGRAM,
	  { new_connected_udp, do_connect, close_sock, NULL, 100 } },
	{ "sock/udp_sendto", SOCK_DGRAM, { new_udp, do_sendto, receive_and_close, NULL, 100 } },
	{ "sock/udp_send", SOCK_DGRAM,
	  { new_connected_udp, do_send, receive_and_close, NULL, 100 } },
	{ "sock/sctp_bind", 0, { new_sctp, do_bind, close_sock, NULL, 100 } },
	{ "sock/sctp_listen_unbound", 0, { new_sctp, do_listen, close_sock, NULL, 100 } },
	{ "sock/sctp_connect", SOCK_STREAM, { new_sctp, do_connect, accept_and_close, NULL, 100 },
	  IPPROTO_SCTP },
};

/* Calls that search the tables of sockets. */
static const struct lookup_op {
	const char *name;
	int type;
	bool any;		/* the server is bound to the wildcard */
	int others;		/* number of sockets that have its port at other addresses */
	struct op op;
} lookup_ops[] = {
	{ "sock/tcp_connect_to_any", SOCK_STREAM, true, 0,
	  { new_tcp, do_connect, accept_and_close, NULL, 100 } },
	{ "sock/udp_sendto_1_socket", SOCK_DGRAM, false, 0,
	  { new_udp, do_sendto, receive_and_close, NULL, 100 } },
	{ "sock/udp_sendto_100_sockets", SOCK_DGRAM, false, 99,
	  { new_udp, do_sendto, receive_and_close, NULL, 100 } },
	{ "sock/udp_bind_100_sockets", SOCK_DGRAM, false, 99,
	  { new_udp, do_bind_same_port, close_sock, NULL, 100 } },
};

static void bench_sock_ops(const char *programs)
{
	int i;

	for (i = 0; i < (int)ARRAY_LEN(sock_ops); i++) {
		if (sock_ops[i].server)
			serve(sock_ops[i].server, sock_ops[i].protocol);
		report(sock_ops[i].name, programs, &sock_ops[i].op, 0, 1);
		if (sock_ops[i].server)
			close(server);
	}
}

static void bench_lookups(const char *sockets)
{
	const struct lookup_op *l;
	int i, others[99];

	for (l = lookup_ops; l < lookup_ops + ARRAY_LEN(lookup_ops); l++) {
		any_port.sin_addr.s_addr = htonl(l->any ? INADDR_ANY : INADDR_LOOPBACK);
		serve(l->type, 0);
		peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		same_port = peer;
		for (i = 0; i < l->others; i++) {
			same_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i);
			new_udp(NULL);
			do_bind_same_port(NULL);
			others[i] = sock;
		}
		same_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i);
		report(l->name, sockets, &l->op, 0, 1);
		while (i-- > 0)
			close(others[i]);
		close(server);
	}
}

/*
 * A socket with an address of each family, where the kernel has them. From then on, lookups
 * search more. Returns it.
 */
static int new_dual(int cgroup)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct bench_cgroup_sock *skel = bench_cgroup_sock__open();
	struct bpf_program *prog;
	struct bpf_link *link = NULL;
	int fd, err;

	if (!skel)
		die("open");
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, prog == skel->progs.pin_both);
	/* The verifier of older kernels refuses user_ip4 at bind6. */
	err = bench_cgroup_sock__load(skel);
	if (err && err != -EACCES)
		die("load");
	if (!err) {
		link = bpf_program__attach_cgroup(skel->progs.pin_both, cgroup);
		if (!link)
			die("attach to a cgroup");
	}
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	if (fd < 0 || bind(fd, (void *)&any, sizeof(any)))
		die("bind");
	bpf_link__destroy(link);
	bench_cgroup_sock__destroy(skel);
	return fd;
}

static void bench_sockets(void)
{
	struct bench_cgroup_sock *skel;
	struct bpf_program *progs[5];
	/* The last program is attached only if the kernel has its hook. */
	static const struct {
		const char *name;
		int cgroup, progs;
	} sets[] = {
		{ "sibling", 0, ARRAY_LEN(progs) },
		{ "own", 1, ARRAY_LEN(progs) - 1 },
		{ "own_autobind", 1, ARRAY_LEN(progs) },
	};
	struct bpf_link *links[ARRAY_LEN(progs)];
	int cgroups[2], dual, i, j;

	skel = bench_cgroup_sock__open();
	if (!skel)
		die("open");
	progs[0] = skel->progs.pass_bind4;
	progs[1] = skel->progs.pass_post_bind4;
	progs[2] = skel->progs.pass_connect4;
	progs[3] = skel->progs.pass_sendmsg4;
	progs[4] = skel->progs.pass_autobind;
	bpf_program__set_autoload(skel->progs.pass_autobind, has_autobind());
	if (bench_cgroup_sock__load(skel))
		die("load");
	any_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cgroups[0] = cgroup_enter(SIBLING);
	cgroups[1] = cgroup_enter(CGROUP);
	if (cgroups[0] < 0 || cgroups[1] < 0)
		die("cgroup");
	bench_sock_ops("none");
	for (i = 0; i < (int)ARRAY_LEN(sets); i++) {
		for (j = 0; j < sets[i].progs; j++) {
			links[j] = NULL;
			if (bpf_program__fd(progs[j]) < 0)
				continue;
			links[j] = bpf_program__attach_cgroup(progs[j], cgroups[sets[i].cgroup]);
			if (!links[j])
				die("attach to a cgroup");
		}
		bench_sock_ops(sets[i].name);
		for (j = 0; j < sets[i].progs; j++)
			bpf_link__destroy(links[j]);
	}
	/* Last: the lookups remain as they are with dual sockets. */
	bench_lookups("no_dual");
	dual = new_dual(cgroups[1]);
	bench_lookups("dual");
	close(dual);
	for (i = 0; i < 2; i++)
		close(cgroups[i]);
	cgroup_leave(CGROUP);
	cgroup_leave(SIBLING);
	bench_cgroup_sock__destroy(skel);
}
BENCH("sock", bench_sockets);
