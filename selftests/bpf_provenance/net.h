/* SPDX-License-Identifier: GPL-2.0 */
/* A host with several addresses, a peer on a wire, packet and socket counts. */
#ifndef __BPF_PROVENANCE_NET_H
#define __BPF_PROVENANCE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The host has OTHER, the kernel's default source for packets to the peer, and PIN, which is
 * used only on request. VIRT is not assigned.
 */
#define OTHER4	"10.0.0.1"
#define PIN4	"10.0.0.2"
#define VIRT4	"10.0.0.8"
#define PEER4	"10.0.0.9"
#define OTHER6	"fd00::1"
#define PIN6	"fd00::2"
#define VIRT6	"fd00::8"
#define PEER6	"fd00::9"

struct net {
	int host, peer;		/* network namespaces */
	int wire;		/* packet socket at the peer's end */
	uint64_t cookie;	/* of host */
};

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* All of these return 0 or a descriptor, or a negative errno. */

/*
 * Moves the caller permanently to a new network namespace, the host. Needs CAP_SYS_ADMIN.
 * -EOPNOTSUPP if the kernel lacks an option.
 */
int net_setup(struct net *net);
#define NEEDS_NET "needs CONFIG_NET_NS, CONFIG_VETH, CONFIG_PACKET and CONFIG_IPV6"

/* A socket of the peer. */
int peer_socket(const struct net *net, int domain, int type, int protocol);

/* @text: IPv4, IPv6, or "::ffff:" and IPv4. Returns the length. */
socklen_t make_addr(union addr *a, const char *text, int port);
bool same_ip(const union addr *a, const char *text);
int port_of(int fd);

/* Protocol of the tests' RAW sockets: a number for experiments. */
#define IPPROTO_TEST 253

/*
 * Consumes the host's packets that reached the peer since the last call: TCP, UDP, SCTP,
 * IPPROTO_TEST and echo requests. Counts those from @src4 or @src6, and the rest.
 */
int wire_count(const struct net *net, const char *src4, const char *src6, int *from_src,
	       int *others);

/*
 * Dumps listening TCP sockets and all UDP sockets of both families in the caller's namespace
 * with sock_diag. Counts those with one of the two local addresses, and the rest.
 */
int diag_count(const char *ip4, const char *ip6, int *at, int *elsewhere);

/* Does the kernel have sock_diag for TCP and UDP? */
bool has_diag(void);

#define NEEDS_DIAG "needs CONFIG_INET_DIAG and CONFIG_INET_UDP_DIAG"

/*
 * The same for listening SCTP endpoints, and the number of associations. Both use
 * /proc/net/sctp, which needs no additional kernel option.
 */
int sctp_count(const char *ip4, const char *ip6, int *at, int *elsewhere);
int sctp_assocs(void);

/* Submits one request and waits up to @ms milliseconds. Returns its result, or -ETIME. */
struct io_uring_sqe;
int uring_do(const struct io_uring_sqe *sqe, int ms);

/* Open a file for reading, in an io_uring worker. */
int uring_open(const char *path);

#endif
