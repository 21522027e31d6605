// SPDX-License-Identifier: GPL-2.0
/* The ways to get a local address that programs can refuse. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "autobind.h"
#include "common.h"
#include "promises.h"
#include "promises_cgroup_sock.skel.h"

#define CGROUP "bpf_provenance_promises"

/*
 * Ways to get a local address in a cgroup that denies all. "bind": names one;
 * "listen": gets one from the kernel.
 */
static const struct way {
	const char *name;
	int type, protocol;
	bool listen;
} ways[] = {
	{ "TCP bind", SOCK_STREAM, IPPROTO_TCP, false },
	{ "UDP bind", SOCK_DGRAM, IPPROTO_UDP, false },
	{ "MPTCP bind", SOCK_STREAM, IPPROTO_MPTCP, false },
	{ "TCP listen without bind", SOCK_STREAM, IPPROTO_TCP, true },
	{ "MPTCP listen without bind", SOCK_STREAM, IPPROTO_MPTCP, true },
	{ "SCTP bind", SOCK_STREAM, IPPROTO_SCTP, false },
	{ "RAW bind", SOCK_RAW, IPPROTO_UDP, false },
	{ "ping bind", SOCK_DGRAM, IPPROTO_ICMP, false },
};

/* 1: the socket got an address; 0: it was refused; or -errno. */
static int takes_address(const struct way *w)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd, err;

	fd = socket(AF_INET, w->type, w->protocol);
	if (fd < 0)
		return -errno;
	err = w->listen ? listen(fd, 1) : bind(fd, (void *)&addr, sizeof(addr));
	err = err ? -errno : 1;
	close(fd);
	return err == -EPERM ? 0 : err;
}

/* Fills @text; the caller has attached the programs. */
static int try_ways(char *text, size_t size)
{
	char open_ways[256] = "";
	int i, ret, denied = 0;

	for (i = 0; i < (int)ARRAY_LEN(ways); i++) {
		ret = takes_address(&ways[i]);
		if (ret < 0)
			return fail(ways[i].name, ret);
		if (!ret) {
			denied++;
			continue;
		}
		if (*open_ways)
			strcat(open_ways, ", ");
		strcat(open_ways, ways[i].name);
	}
	snprintf(text, size, "refused=%d\tways=%zu\topen=%s", denied, ARRAY_LEN(ways),
		 *open_ways ? open_ways : "none");
	return 0;
}

#define PING_GROUPS "/proc/sys/net/ipv4/ping_group_range"

static int measure_hooks(void)
{
	struct setting ping_groups;
	char text[512];
	struct promises_cgroup_sock *skel;
	int cgroup, err;

	/* The groups that may open a ping socket. */
	err = setting_change(&ping_groups, PING_GROUPS, "0 0");
	if (err)
		return fail(PING_GROUPS, err);
	cgroup = cgroup_enter(CGROUP);
	if (cgroup < 0) {
		err = fail("cgroup", cgroup);
		goto out_groups;
	}
	skel = promises_cgroup_sock__open();
	if (!skel) {
		err = fail("open", errno);
		goto out_cgroup;
	}
	/* A policy denies all that its kernel lets it deny. */
	bpf_program__set_autoload(skel->progs.deny_autobind, has_autobind());
	use_all_protocols(skel->obj);
	if (promises_cgroup_sock__load(skel)) {
		err = fail("load", errno);
		goto out_skel;
	}
	skel->links.deny_bind4 = bpf_program__attach_cgroup(skel->progs.deny_bind4, cgroup);
	skel->links.deny_post_bind4 =
		bpf_program__attach_cgroup(skel->progs.deny_post_bind4, cgroup);
	if (has_autobind())
		skel->links.deny_autobind =
			bpf_program__attach_cgroup(skel->progs.deny_autobind, cgroup);
	if (!skel->links.deny_bind4 || !skel->links.deny_post_bind4 ||
	    (has_autobind() && !skel->links.deny_autobind))
		err = fail("attach", errno);
	else
		err = try_ways(text, sizeof(text));
	if (!err && !skel->bss->bind_runs)
		err = fail("no hook ran", ENODATA);
out_skel:
	promises_cgroup_sock__destroy(skel);
out_cgroup:
	close(cgroup);
	cgroup_leave(CGROUP);
out_groups:
	setting_restore(&ping_groups);
	if (!err)
		row("cgroup-sock", text);
	return err;
}
PROMISE(4, measure_hooks);
