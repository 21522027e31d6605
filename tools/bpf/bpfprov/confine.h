/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the hooks of "bpfprov confine" and the program that attaches them. */
#ifndef __BPFPROV_CONFINE_H
#define __BPFPROV_CONFINE_H

/* Increment it when struct policy or its meaning changes. */
#define POLICY_VERSION	5
#define MAX_REDIRECTS	16
#define MAX_ALLOWED	8
#define CGROUP_PATH	512

/* Traffic to localhost:from_port is sent here instead. All in network byte order. */
struct redirect {
	__u32 ip[4];		/* IPv4: ip[3], the others as in a mapped address */
	__u16 from_port;
	__u16 to_port;
};

struct policy {
	__u32 version;
	__u32 hooks;		/* a checksum of the programs that are attached */
	__u32 has_ip4, has_ip6;
	__u32 has_autobind;	/* the kernel has this hook, so it is attached */
	__u32 ip4;		/* network byte order, as are those below */
	__u32 ip6[4];
	/*
	 * Addresses of the previous policy: a socket that one hook bound before the policy
	 * was replaced passes the next hook. 0: there is none.
	 */
	__u32 old_ip4;
	__u32 old_ip6[4];
	/* Localhost addresses that are not redirected; from_port 0: any port. */
	__u32 allowed;
	struct redirect allow[MAX_ALLOWED];
	__u32 redirects;
	struct redirect redirect[MAX_REDIRECTS];
	char cgroup[CGROUP_PATH];	/* its path, for --show */
};

#endif
