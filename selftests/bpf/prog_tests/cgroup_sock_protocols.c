// SPDX-License-Identifier: GPL-2.0
#include "test_progs.h"
#include "network_helpers.h"
#include "cgroup_sock_protocols.skel.h"

#define TEST_NS		"cgroup_sock_protocols_ns"

/* As in progs/cgroup_sock_protocols.c */
enum { HOOK_BIND, HOOK_POST_BIND, HOOK_CONNECT };

static const char * const names[] = {
	[HOOK_BIND] = "bind_runs",
	[HOOK_POST_BIND] = "post_bind_runs",
	[HOOK_CONNECT] = "connect_runs",
};

static const struct protocol {
	const char *name;
	int type;
	int protocol4;
	int protocol6;
	/* A program without BPF_F_ALL_PROTOCOLS runs as well. */
	bool default_bind;
	bool default_connect;
	/* Nothing listens. */
	int connect_err;
} protocols[] = {
	{ "raw", SOCK_RAW, IPPROTO_UDP, IPPROTO_UDP },
	{ "ping", SOCK_DGRAM, IPPROTO_ICMP, IPPROTO_ICMPV6, .default_connect = true },
	{ "sctp", SOCK_STREAM, IPPROTO_SCTP, IPPROTO_SCTP, .connect_err = ECONNREFUSED },
	{ "tcp", SOCK_STREAM, IPPROTO_TCP, IPPROTO_TCP, .default_bind = true,
	  .default_connect = true, .connect_err = ECONNREFUSED },
};

/* The programs of @hook refuse each call for which they run. */
static void check_call(struct cgroup_sock_protocols *skel, const struct protocol *p, int family,
		       int hook, bool runs)
{
	bool is_bind = hook != HOOK_CONNECT;
	int protocol = family == AF_INET ? p->protocol4 : p->protocol6;
	const char *ip = family == AF_INET ? "127.0.0.1" : "::1";
	struct sockaddr_storage addr;
	socklen_t len;
	int fd, err;

	if (!ASSERT_OK(make_sockaddr(family, ip, is_bind ? 0 : 1, &addr, &len), "make_sockaddr"))
		return;
	fd = socket(family, p->type, protocol);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;
	memset(skel->bss, 0, sizeof(*skel->bss));
	skel->bss->refusing_hook = hook;

	if (is_bind)
		err = bind(fd, (struct sockaddr *)&addr, len) ? errno : 0;
	else
		err = connect(fd, (struct sockaddr *)&addr, len) ? errno : 0;
	ASSERT_EQ(skel->bss->runs, runs, names[hook]);
	if (runs) {
		ASSERT_EQ(err, EPERM, "errno");
		ASSERT_EQ(skel->bss->family, family, "family");
		ASSERT_EQ(skel->bss->type, p->type, "type");
		ASSERT_EQ(skel->bss->protocol, protocol, "protocol");
	} else {
		ASSERT_EQ(err, is_bind ? 0 : p->connect_err, "errno");
	}
	close(fd);
}

static void run_test(const struct protocol *p, int cgroup_fd, bool all_protocols)
{
	struct cgroup_sock_protocols *skel;
	struct bpf_program *prog;
	struct bpf_link *links[6];
	bool bind_runs, connect_runs;
	int fd, i, nr_links = 0;

	fd = socket(AF_INET, p->type, p->protocol4);
	if (fd < 0 && errno == EPROTONOSUPPORT) {
		printf("%s:SKIP: no %s\n", __func__, p->name);
		test__skip();
		return;
	}
	close(fd);

	skel = cgroup_sock_protocols__open();
	if (!ASSERT_OK_PTR(skel, "open"))
		return;
	if (all_protocols)
		bpf_object__for_each_program(prog, skel->obj)
			bpf_program__set_flags(prog, BPF_F_ALL_PROTOCOLS);
	if (!ASSERT_OK(cgroup_sock_protocols__load(skel), "load"))
		goto destroy;
	bpf_object__for_each_program(prog, skel->obj) {
		links[nr_links] = bpf_program__attach_cgroup(prog, cgroup_fd);
		if (!ASSERT_OK_PTR(links[nr_links], "attach_cgroup"))
			goto destroy_links;
		nr_links++;
	}

	bind_runs = all_protocols || p->default_bind;
	connect_runs = all_protocols || p->default_connect;
	check_call(skel, p, AF_INET, HOOK_BIND, bind_runs);
	check_call(skel, p, AF_INET6, HOOK_BIND, bind_runs);
	check_call(skel, p, AF_INET, HOOK_POST_BIND, bind_runs);
	check_call(skel, p, AF_INET6, HOOK_POST_BIND, bind_runs);
	check_call(skel, p, AF_INET, HOOK_CONNECT, connect_runs);
	check_call(skel, p, AF_INET6, HOOK_CONNECT, connect_runs);
destroy_links:
	for (i = 0; i < nr_links; i++)
		bpf_link__destroy(links[i]);
destroy:
	cgroup_sock_protocols__destroy(skel);
}

void test_cgroup_sock_protocols(void)
{
	struct netns_obj *ns;
	int cgroup_fd, i;
	char name[32];

	cgroup_fd = test__join_cgroup("/cgroup_sock_protocols");
	if (!ASSERT_OK_FD(cgroup_fd, "join_cgroup"))
		return;
	ns = netns_new(TEST_NS, true);
	if (!ASSERT_OK_PTR(ns, "netns_new"))
		goto out;
	if (!ASSERT_OK(write_sysctl("/proc/sys/net/ipv4/ping_group_range", "0 0"), "sysctl"))
		goto out;

	for (i = 0; i < ARRAY_SIZE(protocols); i++) {
		snprintf(name, sizeof(name), "%s_all_protocols", protocols[i].name);
		if (test__start_subtest(name))
			run_test(&protocols[i], cgroup_fd, true);
		snprintf(name, sizeof(name), "%s_default", protocols[i].name);
		if (test__start_subtest(name))
			run_test(&protocols[i], cgroup_fd, false);
	}
out:
	netns_free(ns);
	close(cgroup_fd);
}
