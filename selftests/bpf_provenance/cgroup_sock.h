/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_CGROUP_SOCK_H
#define __BPF_PROVENANCE_CGROUP_SOCK_H

/* bpf_bind() argument in connect4. */
enum bind_address {
	V4,		/* 127.0.0.2 */
	V4_MAPPED,	/* ::ffff:127.0.0.2 */
	V6_LOOPBACK,	/* ::1 */
};

enum hook {
	BIND4,
	BIND6,
	POST_BIND4,
	POST_BIND6,
	CONNECT4,
	CONNECT6,
	SENDMSG4,
	SENDMSG6,
	AUTOBIND,
	EGRESS,
	HOOKS
};

/* Values read by a program's last run. */
struct seen {
	__u32 runs;
	__u32 user_family;
	__u32 ip[4];		/* IPv4: ip[0] */
	__u32 port;
	__u32 family;
	__u32 type;
	__u32 protocol;
};

/* Like systemd's SocketBindDeny=: 0 is any. */
struct bind_rule {
	__u32 active;
	__u32 post_bind;	/* deny all at post_bind */
	__u32 family;
	__u32 protocol;
	__u32 first, last;	/* ports, in host byte order; last 0: any */
};

/* A TCP port released by the test task. */
struct put_port {
	__u32 tgid;		/* the task */
	__u32 runs;
	__u32 ip[4];		/* the socket's address at that time; IPv4: ip[0] */
	__u32 bucket[4];	/* AF_INET6: that of the bucket that holds the port */
};

/* Datagrams to a port for which UDP runs a program at sk_lookup, which drops them. */
struct udp_lookup {
	__u32 port;		/* in host byte order */
	__u32 runs;
};

/* The last IPv6 connection that a listener accepted with a SYN cookie. */
struct cookie_child {
	__u32 port;		/* of the listener, in host byte order */
	__u32 runs;
	__u32 was_syn;		/* the memory of the request was that of a SYN's request */
	__u32 rcv_saddr, daddr;	/* IPv4 */
	__u32 lost;		/* requests that are not in the map */
};

/* A UDP socket that joins an SO_REUSEPORT group, in the thread @tid. */
struct joining {
	__u32 tid;
	__u32 runs;
	__u32 port;		/* that senders see */
};

/* A thread that waits in a BPF program. */
struct held_thread {
	__u32 tid;
	bool arrived, go;
};

/*
 * The "one IP" policy for the sockets of one network namespace. All addresses in network byte
 * order.
 */
struct policy {
	__u64 netns;		/* cookie; 0: ignore all sockets */
	__u32 deny;		/* bit mask of hooks */
	__u32 mapped;		/* AUTOBIND: AF_INET6 sockets use IPv4 */
	__s32 retval;		/* AUTOBIND: for bpf_set_retval(), if negative */
	__u32 leave;		/* don't rewrite or set a source */
	__u32 late_deny;	/* connect: refuse after bpf_bind() */
	__u32 refuse4;		/* bind4 and connect4: refuse this address */
	__u32 port;		/* connect4: for bpf_bind() */
	__u32 scope;		/* connect6: for bpf_bind() */
	__u32 other_family;	/* connect6: bpf_bind() to an AF_INET address */
	__u32 pin4, pin6[4];	/* the one IP */
	__u32 from4, from6[4];	/* connections and sends to this ... */
	__u32 to4, to6[4];	/* ... are sent here */
};

#endif
