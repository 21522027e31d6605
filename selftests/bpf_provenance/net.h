/* SPDX-License-Identifier: GPL-2.0 */
/* A host with several addresses, a peer on a wire, and what can be seen of it. */
#ifndef __BPF_PROVENANCE_NET_H
#define __BPF_PROVENANCE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The host has OTHER, from which the kernel takes the source of what goes to
 * the peer, and PIN, which it only takes when told to. Nobody has VIRT.
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
 * Leaves the caller in a new network namespace, the host, for good. It needs
 * CAP_SYS_ADMIN.
 */
int net_setup(struct net *net);

/* A socket of the peer. */
int peer_socket(const struct net *net, int domain, int type, int protocol);

/* @text: IPv4, IPv6, or "::ffff:" and IPv4. Returns the length. */
socklen_t make_addr(union addr *a, const char *text, int port);
bool same_ip(const union addr *a, const char *text);
int port_of(int fd);

/* What RAW sockets of tests talk: a protocol number for experiments. */
#define IPPROTO_TEST 253

/*
 * Takes what packets of the host have reached the peer since last time, of TCP,
 * UDP, SCTP, IPPROTO_TEST and requests for echo, and counts those whose source
 * is @src, of either family, and the rest.
 */
int wire_count(const struct net *net, const char *src4, const char *src6, int *from_src,
	       int *others);

/*
 * Asks sock_diag for TCP sockets that listen and for all UDP sockets, of both
 * families, in the caller's namespace. Counts those whose local address is one
 * of the two, and the rest.
 */
int diag_count(const char *ip4, const char *ip6, int *at, int *elsewhere);

/*
 * The same for SCTP endpoints that listen, by /proc/net/sctp, which is what there
 * is without a further option of the kernel. And how many associations are there?
 */
int sctp_count(const char *ip4, const char *ip6, int *at, int *elsewhere);
int sctp_assocs(void);

/*
 * One request, submitted and waited for, @ms milliseconds at most. Returns its result, or
 * -ETIME.
 */
struct io_uring_sqe;
int uring_do(const struct io_uring_sqe *sqe, int ms);

/* Open a file for reading, in a worker of a ring. */
int uring_open(const char *path);

#endif
