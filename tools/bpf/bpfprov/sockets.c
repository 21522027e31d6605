// SPDX-License-Identifier: GPL-2.0
/*
 * Find sockets that the hooks of a cgroup do not change: those that had an address before
 * the hooks were attached, and those that were passed in.
 *
 * sock_diag reports the cgroup in which a socket was created, so sockets that were passed in
 * are found as descriptors of the cgroup's processes. It dumps one network namespace: dump
 * those of this program and of all processes of the cgroup.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpfprov.h"
#include "confine.h"
#include "sockets.h"

/* TCP_TIME_WAIT, TCP_SYN_RECV and TCP_NEW_SYN_RECV: no process has a socket in these states. */
#define NOT_SOCKETS	0x1048

/* A descriptor of a socket. */
struct owner {
	__u32 inode;
	int pid;
};

struct netns {
	ino_t inode;
	int fd;
};

/* Of one print_other_sockets(), because nftw() has no argument for it. */
static struct {
	FILE *f;
	const char *prefix;
	const struct policy *policy;
	__u64 *cgroups;
	struct owner *owners;
	struct netns *netns;
	size_t cgroup_cnt, owner_cnt, netns_cnt;
	unsigned int unlisted;	/* a bit for each of protocols[] */
} list;

/* Returns @array with room for element @n; its size is a power of two. */
static void *grow(void *array, size_t n, size_t size)
{
	void *bigger;

	if (n & (n - 1))
		return array;
	bigger = realloc(array, (n ? 2 * n : 1) * size);
	if (!bigger) {
		say("listing sockets: %s", strerror(ENOMEM));
		exit(BPFPROV_FAILED);
	}
	return bigger;
}

/* --- the cgroup's processes ------------------------------------------------------ */

static void add_netns(const char *path)
{
	struct stat st;
	size_t i;
	int fd;

	if (stat(path, &st))
		return;
	for (i = 0; i < list.netns_cnt; i++)
		if (list.netns[i].inode == st.st_ino)
			return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	list.netns = grow(list.netns, list.netns_cnt, sizeof(*list.netns));
	list.netns[list.netns_cnt++] = (struct netns){ .inode = st.st_ino, .fd = fd };
}

static void add_process(int pid)
{
	char path[64], target[64];
	unsigned int inode;
	struct dirent *e;
	ssize_t len;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	add_netns(path);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = 0;
		if (sscanf(target, "socket:[%u]", &inode) != 1)
			continue;
		list.owners = grow(list.owners, list.owner_cnt, sizeof(*list.owners));
		list.owners[list.owner_cnt++] = (struct owner){ .inode = inode, .pid = pid };
	}
	if (d)
		closedir(d);
}

/* For nftw(): a directory is a cgroup, and its inode number is the ID. */
static int add_cgroup(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* In a threaded cgroup, cgroup.procs cannot be read. */
	static const char * const names[] = { "cgroup.procs", "cgroup.threads" };
	char procs[CGROUP_PATH + 32];
	int pid, found = 0;
	size_t i;
	FILE *f;

	if (type != FTW_D)
		return 0;
	list.cgroups = grow(list.cgroups, list.cgroup_cnt, sizeof(*list.cgroups));
	list.cgroups[list.cgroup_cnt++] = st->st_ino;
	for (i = 0; i < ARRAY_LEN(names) && !found; i++) {
		snprintf(procs, sizeof(procs), "%s/%s", path, names[i]);
		f = fopen(procs, "re");
		while (f && fscanf(f, "%d", &pid) == 1) {
			/* 0: in another PID namespace */
			if (pid > 0)
				add_process(pid);
			found++;
		}
		if (f)
			fclose(f);
	}
	return 0;
}

/* Sort by inode, and where several processes have the socket, by PID. */
static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->pid - y->pid;
}

/* The first process with this socket; NULL: none. */
static const struct owner *find_owner(__u32 inode)
{
	size_t low = 0, high = list.owner_cnt, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (list.owners[middle].inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list.owner_cnt && list.owners[low].inode == inode ? &list.owners[low] : NULL;
}

static bool is_in_cgroup(__u64 id)
{
	size_t i;

	for (i = 0; i < list.cgroup_cnt; i++)
		if (list.cgroups[i] == id)
			return true;
	return false;
}

/* --- addresses ------------------------------------------------------------------- */

/* As in a policy: IPv4 in the last word of a mapped address. */
struct ip {
	__u32 w[4];
};

static struct ip ip_of(int family, const void *addr)
{
	struct ip ip = { { 0, 0, htonl(0xffff), 0 } };

	if (family == AF_INET)
		memcpy(&ip.w[3], addr, sizeof(ip.w[3]));
	else
		memcpy(&ip, addr, sizeof(ip));
	return ip;
}

static bool is_ip4(const struct ip *ip)
{
	return !ip->w[0] && !ip->w[1] && ip->w[2] == htonl(0xffff);
}

static bool is_any(const struct ip *ip)
{
	return !ip->w[0] && !ip->w[1] && (!ip->w[2] || is_ip4(ip)) && !ip->w[3];
}

/* Does local_source() of the hooks set it? */
static bool is_localhost(const struct ip *ip)
{
	if (is_ip4(ip))
		return ntohl(ip->w[3]) == INADDR_LOOPBACK;
	return !ip->w[0] && !ip->w[1] && !ip->w[2] && ntohl(ip->w[3]) == 1;
}

/* Is it exempt by --allow-localhost? @port in network byte order. */
static bool is_exempt(const struct ip *ip, __u16 port)
{
	const struct policy *p = list.policy;
	__u32 i;

	for (i = 0; i < p->allowed && i < MAX_ALLOWED; i++)
		if (!memcmp(p->allow[i].ip, ip, sizeof(*ip)) &&
		    (!p->allow[i].from_port || p->allow[i].from_port == port))
			return true;
	return false;
}

/* May a socket with this peer have the local address @ip? */
static bool is_allowed(const struct ip *ip, const struct inet_diag_msg *msg)
{
	struct ip peer = ip_of(msg->idiag_family, msg->id.idiag_dst);
	const struct policy *p = list.policy;

	if (is_ip4(ip) ? p->has_ip4 && ip->w[3] == p->ip4 :
			 p->has_ip6 && !memcmp(ip, p->ip6, sizeof(*ip)))
		return true;
	return is_localhost(ip) && is_exempt(&peer, msg->id.idiag_dport);
}

/* --- sockets ------------------------------------------------------------------------ */

static const struct protocol {
	int number;
	const char *name;
} protocols[] = {
	{ IPPROTO_TCP, "tcp" },		/* and MPTCP, by its subflows */
	{ IPPROTO_UDP, "udp" },
	{ IPPROTO_SCTP, "sctp" },
	{ IPPROTO_RAW, "raw" },		/* of all protocols */
};

/*
 * Each protocol has a module for sock_diag, which can be missing, or must not be loaded. SCTP is
 * a module itself: without it, there are no such sockets.
 */
static bool has_sockets(const struct protocol *protocol)
{
	return protocol->number != IPPROTO_SCTP || !access("/proc/net/sctp", F_OK);
}

static void print_socket(const char *protocol, const struct ip *ip, __u16 port, __u32 inode,
			 const struct owner *owner)
{
	char path[32], comm[32] = "?", text[INET6_ADDRSTRLEN];
	bool ip4 = is_ip4(ip);
	FILE *f;

	inet_ntop(ip4 ? AF_INET : AF_INET6, ip4 ? &ip->w[3] : ip->w, text, sizeof(text));
	fprintf(list.f, "%s%s %s%s%s:%u ", list.prefix, protocol, ip4 ? "" : "[", text,
		ip4 ? "" : "]", ntohs(port));
	if (!owner) {
		fprintf(list.f, "inode %u\n", inode);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", owner->pid);
	f = fopen(path, "re");
	if (f && fgets(comm, sizeof(comm), f))
		comm[strcspn(comm, "\n")] = 0;
	if (f)
		fclose(f);
	print_clean(list.f, comm);
	fprintf(list.f, "[%d]\n", owner->pid);
}

static void one_socket(const struct protocol *protocol, const struct inet_diag_msg *msg, int len)
{
	struct ip ip = ip_of(msg->idiag_family, msg->id.idiag_src);
	struct rtattr *a = (void *)(msg + 1), *addrs = NULL;
	struct sockaddr_storage addr;
	const struct owner *owner;
	__u64 cgroup = 0;
	size_t i;

	for (len -= NLMSG_ALIGN(sizeof(*msg)); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == INET_DIAG_CGROUP_ID)
			memcpy(&cgroup, RTA_DATA(a), sizeof(cgroup));
		else if (a->rta_type == INET_DIAG_LOCALS)
			addrs = a;
	}
	owner = find_owner(msg->idiag_inode);
	/* Without an inode it was not accepted yet, or was closed: no process has it. */
	if (!msg->idiag_inode || (!owner && !is_in_cgroup(cgroup)))
		return;
	/* SCTP: find the first address that is not allowed. */
	for (i = 0; addrs && (i + 1) * sizeof(addr) <= RTA_PAYLOAD(addrs); i++) {
		memcpy(&addr, RTA_DATA(addrs) + i * sizeof(addr), sizeof(addr));
		ip = ip_of(addr.ss_family, addr.ss_family == AF_INET ?
			   (void *)&((struct sockaddr_in *)&addr)->sin_addr :
			   (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr);
		if (!is_allowed(&ip, msg))
			break;
	}
	/* Raw sockets can be used without an address. */
	if (is_allowed(&ip, msg) || (protocol->number == IPPROTO_RAW && is_any(&ip)))
		return;
	print_socket(protocol->name, &ip, msg->id.idiag_sport, msg->idiag_inode, owner);
}

/* Returns 0, or an error. */
static int dump(int fd, int family, const struct protocol *protocol)
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
			.sdiag_protocol = protocol->number,
			.idiag_states = ~NOT_SOCKETS,
		},
	};
	static struct nlmsghdr buf[65536 / sizeof(struct nlmsghdr)];
	struct nlmsghdr *h;
	int len;

	if (send(fd, &req, sizeof(req), 0) < 0)
		return errno;
	for (;;) {
		len = recv(fd, buf, sizeof(buf), 0);
		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			return len ? errno : EPROTO;
		for (h = buf; NLMSG_OK(h, (unsigned int)len); h = NLMSG_NEXT(h, len)) {
			/* Both begin with a negative errno, or 0. */
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				return -*(int *)NLMSG_DATA(h);
			if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
				one_socket(protocol, NLMSG_DATA(h), NLMSG_PAYLOAD(h, 0));
		}
	}
}

/* Dump the sockets of the caller's network namespace. Returns 0, or an error. */
static int dump_all(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	int fd, err = 0, e;
	size_t i, j;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return errno;
	for (i = 0; i < ARRAY_LEN(protocols); i++)
		for (j = 0; j < ARRAY_LEN(families); j++) {
			e = dump(fd, families[j], &protocols[i]);
			if (e != ENOENT)
				err = err ?: e;
			else if (has_sockets(&protocols[i]))
				list.unlisted |= 1U << i;
		}
	close(fd);
	return err;
}

static void say_unlisted(void)
{
	char names[64] = "";
	size_t i;

	for (i = 0; i < ARRAY_LEN(protocols); i++) {
		if (!(list.unlisted & 1U << i))
			continue;
		strcat(names, *names ? ", " : "");
		strcat(names, protocols[i].name);
	}
	if (*names)
		say("%sreduced:%s sockets with other addresses are not listed: this kernel has no sock_diag for %s",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), names);
}

void print_other_sockets(FILE *f, const char *prefix, const char *cgroup,
			 const struct policy *policy)
{
	int err, e;
	size_t i;

	list.f = f;
	list.prefix = prefix;
	list.policy = policy;
	add_netns("/proc/self/ns/net");
	err = list.netns_cnt ? 0 : errno;
	if (!err && nftw(cgroup, add_cgroup, 16, FTW_PHYS | FTW_MOUNT))
		err = errno;
	if (list.owner_cnt)
		qsort(list.owners, list.owner_cnt, sizeof(*list.owners), compare_owners);
	for (i = 0; i < list.netns_cnt; i++) {
		e = i && setns(list.netns[i].fd, CLONE_NEWNET) ? errno : dump_all();
		err = err ?: e;
	}
	if (list.netns_cnt > 1 && setns(list.netns[0].fd, CLONE_NEWNET))
		err = err ?: errno;
	if (err)
		say("%sreduced:%s sockets with other addresses may be missing from the list: %s",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), strerror(err));
	say_unlisted();
	for (i = 0; i < list.netns_cnt; i++)
		close(list.netns[i].fd);
	free(list.cgroups);
	free(list.owners);
	free(list.netns);
	memset(&list, 0, sizeof(list));
}
