// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/inet_diag.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "net.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define TCP_STATE_LISTEN 10	/* include/net/tcp_states.h */

/*
 * An rtnetlink request in the caller's namespace. Programs such as ip(8) would work, but
 * hundreds of tests set up a network, and in an emulator each execve() takes as long as all of
 * these requests.
 */
struct rtnl_req {
	struct nlmsghdr h;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
	};
	char attrs[256];
};

static struct rtattr *rtnl_attr(struct rtnl_req *req, int type, const void *data, size_t len)
{
	struct rtattr *a = (void *)req + NLMSG_ALIGN(req->h.nlmsg_len);

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(len);
	if (data)
		memcpy(RTA_DATA(a), data, len);
	req->h.nlmsg_len = NLMSG_ALIGN(req->h.nlmsg_len) + RTA_SPACE(len);
	return a;
}

/* Nest everything added since rtnl_attr() returned @a. */
static void rtnl_attr_end(const struct rtnl_req *req, struct rtattr *a)
{
	a->rta_len = (void *)req + req->h.nlmsg_len - (void *)a;
}

static int rtnl_do(struct rtnl_req *req)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr err;
		char request[sizeof(*req)];
	} ack;
	int fd, err = 0;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	req->h.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	errno = 0;
	if (send(fd, req, req->h.nlmsg_len, 0) != req->h.nlmsg_len ||
	    recv(fd, &ack, sizeof(ack), 0) < (ssize_t)NLMSG_LENGTH(sizeof(ack.err)) ||
	    ack.h.nlmsg_type != NLMSG_ERROR)
		err = -errno ?: -EPROTO;
	else
		err = ack.err.error;
	close(fd);
	return err;
}

/*
 * wire0 in the caller's namespace, wire1 in that of @peer. By default both get the same index.
 * The kernel then considers neither linked to the other, and may report them running only with
 * the next link event, a second later (linkwatch_urgent_event()).
 */
static int add_wire(int peer)
{
	const struct ifinfomsg wire1 = { .ifi_index = 11 };
	struct rtnl_req req = {
		.h = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(req.link)),
			.nlmsg_type = RTM_NEWLINK,
			.nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL,
		},
		.link = { .ifi_index = 10 },
	};
	struct rtattr *info, *data, *end;

	rtnl_attr(&req, IFLA_IFNAME, "wire0", sizeof("wire0"));
	info = rtnl_attr(&req, IFLA_LINKINFO, NULL, 0);
	rtnl_attr(&req, IFLA_INFO_KIND, "veth", strlen("veth"));
	data = rtnl_attr(&req, IFLA_INFO_DATA, NULL, 0);
	end = rtnl_attr(&req, VETH_INFO_PEER, &wire1, sizeof(wire1));
	rtnl_attr(&req, IFLA_IFNAME, "wire1", sizeof("wire1"));
	rtnl_attr(&req, IFLA_NET_NS_FD, &peer, sizeof(peer));
	rtnl_attr_end(&req, end);
	rtnl_attr_end(&req, data);
	rtnl_attr_end(&req, info);
	return rtnl_do(&req);
}

/* A @deprecated address is not chosen as a source. */
static int add_addr(const char *dev, const char *text, bool deprecated)
{
	const struct ifa_cacheinfo lifetime = { .ifa_valid = ~0U };
	struct rtnl_req req = {
		.h = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(req.addr)),
			.nlmsg_type = RTM_NEWADDR,
			.nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL,
		},
		.addr = {
			.ifa_family = strchr(text, ':') ? AF_INET6 : AF_INET,
			.ifa_index = if_nametoindex(dev),
		},
	};
	bool v6 = req.addr.ifa_family == AF_INET6;
	unsigned char ip[16];

	inet_pton(req.addr.ifa_family, text, ip);
	req.addr.ifa_prefixlen = v6 ? 64 : 24;
	req.addr.ifa_flags = v6 ? IFA_F_NODAD : 0;
	rtnl_attr(&req, IFA_LOCAL, ip, v6 ? 16 : 4);
	rtnl_attr(&req, IFA_ADDRESS, ip, v6 ? 16 : 4);
	if (deprecated)
		rtnl_attr(&req, IFA_CACHEINFO, &lifetime, sizeof(lifetime));
	return rtnl_do(&req);
}

static int set_up(const char *dev)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {};
	int err = 0;

	if (fd < 0)
		return -errno;
	strcpy(ifr.ifr_name, dev);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr)) {
		err = -errno;
	} else {
		ifr.ifr_flags |= IFF_UP;
		if (ioctl(fd, SIOCSIFFLAGS, &ifr))
			err = -errno;
	}
	close(fd);
	return err;
}

/* A device that was just set up drops packets until it is running. */
static int wait_running(const char *dev)
{
	struct ifreq ifr = {};
	struct timespec now;
	time_t end;
	int fd, err = 0;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	strcpy(ifr.ifr_name, dev);
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + 30 * timeout_scale();
	for (;;) {
		if (ioctl(fd, SIOCGIFFLAGS, &ifr)) {
			err = -errno;
			break;
		}
		if (ifr.ifr_flags & IFF_RUNNING)
			break;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end) {
			err = -ETIMEDOUT;
			break;
		}
		sched_yield();
	}
	close(fd);
	return err;
}

static int open_netns(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int setup_peer(struct net *net)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
	};
	int err;

	err = set_up("lo") ?: add_addr("wire1", PEER4, false) ?:
	      add_addr("wire1", PEER6, false) ?: set_up("wire1");
	if (err)
		return err;
	net->wire = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (net->wire < 0)
		return errno == EAFNOSUPPORT ? -EOPNOTSUPP : -errno;
	ll.sll_ifindex = if_nametoindex("wire1");
	if (bind(net->wire, (void *)&ll, sizeof(ll)))
		return -errno;
	return wait_running("wire1");
}

int net_setup(struct net *net)
{
	socklen_t len = sizeof(net->cookie);
	int err, fd;

	net->wire = -1;
	if (unshare(CLONE_NEWNET))
		return errno == EINVAL ? -EOPNOTSUPP : -errno;
	net->peer = open_netns();
	if (unshare(CLONE_NEWNET))
		return -errno;
	net->host = open_netns();
	if (net->peer < 0 || net->host < 0)
		return -EMFILE;
	/* The first of two IPv4 addresses is the source. */
	err = set_up("lo") ?: add_wire(net->peer) ?: add_addr("wire0", OTHER4, false) ?:
	      add_addr("wire0", PIN4, false) ?: add_addr("wire0", OTHER6, false) ?:
	      add_addr("wire0", PIN6, true) ?: set_up("wire0");
	if (err)
		return err;
	if (setns(net->peer, CLONE_NEWNET))
		return -errno;
	err = setup_peer(net);
	if (setns(net->host, CLONE_NEWNET))
		return -errno;
	if (err)
		return err;
	err = wait_running("wire0");
	if (err)
		return err;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &net->cookie, &len))
		err = -errno;
	close(fd);
	return err;
}

int peer_socket(const struct net *net, int domain, int type, int protocol)
{
	int fd;

	if (setns(net->peer, CLONE_NEWNET))
		return -errno;
	fd = socket(domain, type | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		fd = -errno;
	if (setns(net->host, CLONE_NEWNET))
		return -errno;
	return fd;
}

socklen_t make_addr(union addr *a, const char *text, int port)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &a->in.sin_addr) == 1) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		return sizeof(a->in);
	}
	inet_pton(AF_INET6, text, &a->in6.sin6_addr);
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = htons(port);
	return sizeof(a->in6);
}

bool same_ip(const union addr *a, const char *text)
{
	union addr b;

	make_addr(&b, text, 0);
	if (a->sa.sa_family != b.sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b.in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b.in6.sin6_addr, sizeof(b.in6.sin6_addr));
}

int port_of(int fd)
{
	socklen_t len = sizeof(union addr);
	union addr a;

	if (getsockname(fd, &a.sa, &len))
		return -errno;
	return ntohs(a.in.sin_port);	/* at sin6_port's offset */
}

/* Do the tests count this packet? @type: byte after the IP header. */
static bool is_counted(unsigned char proto, unsigned char type)
{
	switch (proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
	case IPPROTO_TEST:
		return true;
	case IPPROTO_ICMP:
		return type == 8;	/* echo request */
	case IPPROTO_ICMPV6:
		return type == 128;	/* the same; not neighbour discovery */
	default:
		return false;
	}
}

int wire_count(const struct net *net, const char *src4, const char *src6, int *from_src,
	       int *others)
{
	unsigned char p[2048], want[16];
	struct sockaddr_ll ll;
	socklen_t len;
	ssize_t n;
	bool same;

	*from_src = 0;
	*others = 0;
	for (;;) {
		len = sizeof(ll);
		n = recvfrom(net->wire, p, sizeof(p), MSG_DONTWAIT, (void *)&ll, &len);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (ll.sll_pkttype == PACKET_OUTGOING)
			continue;
		if (n > 20 && ll.sll_protocol == htons(ETH_P_IP) && is_counted(p[9], p[20])) {
			inet_pton(AF_INET, src4, want);
			same = !memcmp(p + 12, want, 4);
		} else if (n > 40 && ll.sll_protocol == htons(ETH_P_IPV6) &&
			   is_counted(p[6], p[40])) {
			inet_pton(AF_INET6, src6, want);
			same = !memcmp(p + 8, want, 16);
		} else {
			continue;
		}
		*(same ? from_src : others) += 1;
	}
}

/* One dump. IPv6 sockets with v4-mapped addresses are listed as IPv6. */
static int diag_dump(int fd, int family, int protocol, const char *ip4, const char *ip6,
		     int *at, int *elsewhere)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = {
		.h = {
			.nlmsg_len = sizeof(req),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.r = {
			.sdiag_family = family,
			.sdiag_protocol = protocol,
			.idiag_states = protocol == IPPROTO_TCP ? 1U << TCP_STATE_LISTEN : ~0U,
		},
	};
	unsigned char want4[4], want6[16], mapped[16] = { [10] = 0xff, [11] = 0xff };
	char buf[16384] __aligned(8);
	struct inet_diag_msg *m;
	struct nlmsghdr *h;
	ssize_t n;

	inet_pton(AF_INET, ip4, want4);
	inet_pton(AF_INET6, ip6, want6);
	memcpy(mapped + 12, want4, 4);
	if (send(fd, &req, sizeof(req), 0) != sizeof(req))
		return -errno;
	for (;;) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0)
			return -errno;
		for (h = (void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			/* Both begin with a negative errno, or 0. */
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				return *(int *)NLMSG_DATA(h);
			m = NLMSG_DATA(h);
			if (!m->id.idiag_sport)
				continue;
			if (m->idiag_family == AF_INET ?
			    !memcmp(m->id.idiag_src, want4, 4) :
			    !memcmp(m->id.idiag_src, want6, 16) ||
			    !memcmp(m->id.idiag_src, mapped, 16))
				*at += 1;
			else
				*elsewhere += 1;
		}
	}
}

int diag_count(const char *ip4, const char *ip6, int *at, int *elsewhere)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const int protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	int fd, i, j, err = 0;

	*at = 0;
	*elsewhere = 0;
	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -errno;
	for (i = 0; !err && i < (int)ARRAY_LEN(families); i++)
		for (j = 0; !err && j < (int)ARRAY_LEN(protocols); j++)
			err = diag_dump(fd, families[i], protocols[j], ip4, ip6, at, elsewhere);
	close(fd);
	return err;
}

bool has_diag(void)
{
	int at, elsewhere;

	return diag_count("0.0.0.0", "::", &at, &elsewhere) != -ENOENT;
}

/* Count lines of @path below the heading. Call @line on each, if set. */
static int proc_lines(const char *path, void (*line)(char *text, void *arg), void *arg)
{
	char text[1024];
	FILE *f = fopen(path, "r");
	int n = -1;

	if (!f)
		return -errno;
	while (fgets(text, sizeof(text), f)) {
		if (n >= 0 && line)
			line(text, arg);
		n++;
	}
	fclose(f);
	return n < 0 ? -EIO : n;
}

struct sctp_counts {
	struct in6_addr want[2];	/* v4-mapped, IPv6 */
	int at, elsewhere;
};

/* Eight columns, then the local addresses. */
static void sctp_endpoint(char *text, void *arg)
{
	struct sctp_counts *c = arg;
	char *save, *word = strtok_r(text, "\n ", &save);
	struct in6_addr a = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	int i;

	for (i = 0; word && i < 8; i++)
		word = strtok_r(NULL, "\n ", &save);
	for (; word; word = strtok_r(NULL, "\n ", &save)) {
		if (inet_pton(AF_INET, word, &a.s6_addr[12]) != 1)
			inet_pton(AF_INET6, word, &a);
		if (!memcmp(&a, &c->want[0], sizeof(a)) || !memcmp(&a, &c->want[1], sizeof(a)))
			c->at++;
		else
			c->elsewhere++;
	}
}

int sctp_count(const char *ip4, const char *ip6, int *at, int *elsewhere)
{
	struct sctp_counts c = { .want[0].s6_addr = { [10] = 0xff, [11] = 0xff } };
	int n;

	inet_pton(AF_INET, ip4, &c.want[0].s6_addr[12]);
	inet_pton(AF_INET6, ip6, &c.want[1]);
	n = proc_lines("/proc/thread-self/net/sctp/eps", sctp_endpoint, &c);
	*at = c.at;
	*elsewhere = c.elsewhere;
	return n < 0 ? n : 0;
}

int sctp_assocs(void)
{
	return proc_lines("/proc/thread-self/net/sctp/assocs", NULL, NULL);
}

int uring_do(const struct io_uring_sqe *sqe, int ms)
{
	/* connect() in an io_uring worker ignores SO_SNDTIMEO. */
	const struct __kernel_timespec timeout = {
		.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000,
	};
	const struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&timeout };
	struct io_uring_params p = {};
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqe;
	size_t cq_size, sq_size;
	unsigned char *sq, *cq;
	unsigned int tail;
	int fd, ret;

	fd = syscall(__NR_io_uring_setup, 1, &p);
	if (fd < 0)
		return -errno;
	sq_size = p.sq_off.array + p.sq_entries * sizeof(__u32);
	cq_size = p.cq_off.cqes + p.cq_entries * sizeof(*cqe);
	sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, IORING_OFF_SQES);
	ret = -ENOMEM;
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		goto out;
	sqes[0] = *sqe;
	*(__u32 *)(sq + p.sq_off.array) = 0;
	tail = *(__u32 *)(sq + p.sq_off.tail);
	__atomic_store_n((__u32 *)(sq + p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	ret = syscall(__NR_io_uring_enter, fd, 1, 1,
		      IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg));
	if (ret != 1) {
		ret = ret < 0 ? -errno : -EIO;
		goto out;
	}
	ret = -ETIMEDOUT;
	if (!__atomic_load_n((__u32 *)(cq + p.cq_off.tail), __ATOMIC_ACQUIRE))
		goto out;
	cqe = (void *)(cq + p.cq_off.cqes);
	ret = cqe->res;
out:
	if (sqes != MAP_FAILED)
		munmap(sqes, p.sq_entries * sizeof(*sqe));
	if (cq != MAP_FAILED)
		munmap(cq, cq_size);
	if (sq != MAP_FAILED)
		munmap(sq, sq_size);
	close(fd);
	return ret;
}

int uring_open(const char *path)
{
	const struct io_uring_sqe sqe = {
		.opcode = IORING_OP_OPENAT,
		.flags = IOSQE_ASYNC,
		.fd = AT_FDCWD,
		.addr = (uintptr_t)path,
		.open_flags = O_RDONLY | O_CLOEXEC,
	};

	return uring_do(&sqe, 3000 * timeout_scale());
}
