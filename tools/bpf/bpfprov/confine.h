/* SPDX-License-Identifier: GPL-2.0 */
/* What the hooks of "bpfprov confine" and the program that attaches them share. */
#ifndef __BPFPROV_CONFINE_H
#define __BPFPROV_CONFINE_H

/* Changes with struct policy, and with what the hooks do with it. */
#define POLICY_VERSION	2
#define MAX_REDIRECTS	16
#define MAX_ALLOWED	8
#define CGROUP_PATH	512

/* To localhost, to this port: goes there instead. All in network byte order. */
struct redirect {
	__u32 ip[4];		/* IPv4: ip[3], the others as in a mapped address */
	__u16 from_port;
	__u16 to_port;
};

struct policy {
	__u32 version;
	__u32 has_ip4, has_ip6;
	__u32 ip4;		/* network byte order, as are those below */
	__u32 ip6[4];
	/*
	 * Those of the policy before: what one hook did before it was replaced, the
	 * next one, which looks after, lets pass. 0: there was none.
	 */
	__u32 old_ip4;
	__u32 old_ip6[4];
	/* Localhost that stays what it is; from_port 0: any. */
	__u32 allowed;
	struct redirect allow[MAX_ALLOWED];
	__u32 redirects;
	struct redirect redirect[MAX_REDIRECTS];
	char cgroup[CGROUP_PATH];	/* as it was named: for --show */
};

#endif
