// SPDX-License-Identifier: GPL-2.0
/*
 * Find sockets that the hooks of a cgroup do not change: those that had an address before
 * the hooks were attached, and those that were passed in.
 *
 * sock_diag reports the cgroup in which a socket was created, so sockets that were passed in
 * are found as descriptors of the cgroup's processes. It dumps one network namespace: dump
 * those of this program and of all processes of the cgroup. Each thread can have its own
 * descriptors and namespace.
 *
 * A process can make all of these reads wait, without end: in execve(), while a task with the
 * same memory waits for a FUSE server in mmap(). So a child process reads them, which is killed
 * and replaced if it takes too long for one of them.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/inet_diag.h>
#include <linux/kcmp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpfprov.h"
#include "apart.h"
#include "confine.h"
#include "sockets.h"

/* TCP_TIME_WAIT, TCP_SYN_RECV and TCP_NEW_SYN_RECV: no process has a socket in these states. */
#define NOT_SOCKETS	0x1048

/* A descriptor of a socket. */
struct owner {
	__u32 inode;
	int pid;
};

/* As in a policy: IPv4 in the last word of a mapped address. */
struct ip {
	__u32 w[4];
};

/* A socket with an address that is not allowed. */
struct other {
	const struct protocol *protocol;
	__u64 cgroup;		/* in which it was created */
	struct ip ip;
	__u32 inode;
	__u16 port;		/* network byte order */
};

/* Of one print_other_sockets(). */
static struct {
	FILE *f;
	const char *prefix;
	const struct policy *policy;
	__u64 *cgroups;
	struct owner *owners;
	struct other *others;
	ino_t *netns;		/* those that were dumped, and this program's */
	int *tables;		/* a task for each table of descriptors, ordered by kcmp() */
	size_t cgroup_cnt, owner_cnt, owner_max, other_cnt, netns_cnt, table_cnt;
	unsigned int unlisted;	/* a bit for each of protocols[] */
	unsigned int failed;	/* processes that could not be read */
	int reason;		/* the first error of these */
	int err;		/* the first error of anything else */
} list;

/* From the child process, as soon as it has them: the rest may be lost. */
struct message {
	enum { NETNS, OWNERS, OTHERS, END } kind;
	__u32 count;
	union {
		ino_t netns;			/* before its sockets, so that none comes twice */
		struct owner owners[512];
		struct other others[128];
		struct {			/* of a process */
			unsigned int unlisted;
			int failed, err;
		} end;
	};
};

/* The processes that a child reads. */
struct batch {
	const int *ids;
	size_t count, next;
	bool threaded;
};

/* Of all cgroups: for how long it has waited in vain, and the children it could not kill. */
static struct apart apart;

/* In the child: where messages go, and those of descriptors that were not sent yet. */
static int child_fd = -1;
static struct message descriptors, sockets;

static int dump_all(void);

static void *resize(void *array, size_t size)
{
	array = realloc(array, size);
	if (!array) {
		say("listing sockets: %s", strerror(ENOMEM));
		exit(BPFPROV_FAILED);
	}
	return array;
}

/* Returns @array with room for element @n; its size is a power of two. */
static void *grow(void *array, size_t n, size_t size)
{
	return n & (n - 1) ? array : resize(array, (n ? 2 * n : 1) * size);
}

/* --- the cgroup's processes ------------------------------------------------------ */

/* The error @err, or 0 if it only means that a task or a descriptor has gone. */
static int unless_gone(int err)
{
	return err == ENOENT || err == ESRCH ? 0 : err;
}

/* In the child: the parent, which takes them at once, may have been killed. */
static void send_message(const struct message *m, size_t size)
{
	if (send(child_fd, m, size, MSG_NOSIGNAL) != (ssize_t)size)
		_exit(1);
}

static void send_owners(void)
{
	if (descriptors.count)
		send_message(&descriptors, offsetof(struct message, owners[descriptors.count]));
	descriptors.count = 0;
}

static void send_others(void)
{
	if (sockets.count)
		send_message(&sockets, offsetof(struct message, others[sockets.count]));
	sockets.count = 0;
}

static void remember_netns(ino_t inode)
{
	struct message m = { .kind = NETNS, .netns = inode };

	if (child_fd >= 0)
		send_message(&m, offsetof(struct message, netns) + sizeof(m.netns));
	list.netns = grow(list.netns, list.netns_cnt, sizeof(*list.netns));
	list.netns[list.netns_cnt++] = inode;
}

/*
 * Dump the network namespace at @path, unless that was done. Do not keep it open: there may
 * be more of them than descriptors. So its inode number may be used again while the list is
 * made. Sockets of that new namespace are younger than the hooks.
 */
static int add_netns(const char *path)
{
	struct stat st;
	int fd, err;
	size_t i;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		goto failed;
	for (i = 0; i < list.netns_cnt; i++)
		if (list.netns[i] == st.st_ino)
			goto close;
	if (setns(fd, CLONE_NEWNET))
		goto failed;
	remember_netns(st.st_ino);
	err = dump_all();
	list.err = list.err ?: err;
close:
	close(fd);
	return 0;
failed:
	err = errno;
	close(fd);
	return err;
}

static long compare_tables(int a, int b)
{
	return syscall(SYS_kcmp, a, b, KCMP_FILES, 0, 0);
}

/*
 * Was the table of descriptors of @tid read already? Threads usually share one, and processes
 * can. If that is not known, it is read again.
 */
static bool is_read(int tid)
{
	size_t low = 0, high = list.table_cnt, middle;
	long order;

	while (low < high) {
		middle = (low + high) / 2;
		order = compare_tables(tid, list.tables[middle]);
		if (!order)	/* the same ID can be another task now */
			return list.tables[middle] != tid;
		if (order == 1) {		/* less */
			high = middle;
		} else if (order == 2) {	/* greater */
			low = middle + 1;
		} else {
			if (compare_tables(tid, tid))
				return false;
			/* The other task has ended: search among the rest. */
			list.table_cnt--;
			memmove(&list.tables[middle], &list.tables[middle + 1],
				(list.table_cnt - middle) * sizeof(*list.tables));
			high--;
		}
	}
	list.tables = grow(list.tables, list.table_cnt, sizeof(*list.tables));
	memmove(&list.tables[low + 1], &list.tables[low],
		(list.table_cnt - low) * sizeof(*list.tables));
	list.tables[low] = tid;
	list.table_cnt++;
	return false;
}

/* Sort by inode, and where several processes have the socket, by PID. */
static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->pid - y->pid;
}

/* Sort them, and keep the first process with each socket. */
static void sort_owners(void)
{
	size_t i, cnt = 0;

	if (list.owner_cnt)
		qsort(list.owners, list.owner_cnt, sizeof(*list.owners), compare_owners);
	for (i = 0; i < list.owner_cnt; i++)
		if (!cnt || list.owners[i].inode != list.owners[cnt - 1].inode)
			list.owners[cnt++] = list.owners[i];
	list.owner_cnt = cnt;
}

static void add_owner(__u32 inode, int pid)
{
	/* A task can duplicate a socket as often as it likes. */
	if (list.owner_cnt == list.owner_max) {
		sort_owners();
		list.owner_max = 2 * list.owner_cnt + 1024;
		list.owners = resize(list.owners, list.owner_max * sizeof(*list.owners));
	}
	list.owners[list.owner_cnt++] = (struct owner){ .inode = inode, .pid = pid };
}

static void send_owner(__u32 inode, int pid)
{
	descriptors.kind = OWNERS;
	descriptors.owners[descriptors.count++] = (struct owner){ .inode = inode, .pid = pid };
	if (descriptors.count == ARRAY_LEN(descriptors.owners))
		send_owners();
}

static void add_other(const struct other *other)
{
	list.others = grow(list.others, list.other_cnt, sizeof(*list.others));
	list.others[list.other_cnt++] = *other;
}

/* Returns 0, or an error, as do those below. */
static int add_descriptors(const char *path, int pid)
{
	unsigned int inode;
	struct dirent *e;
	char target[64];
	int err = 0;
	ssize_t len;
	DIR *d;

	d = opendir(path);
	if (!d)
		return unless_gone(errno);
	while (errno = 0, (e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		if (len < 0) {
			err = err ?: unless_gone(errno);
			continue;
		}
		target[len] = 0;
		if (sscanf(target, "socket:[%u]", &inode) == 1)
			send_owner(inode, pid);
	}
	err = err ?: unless_gone(errno);
	closedir(d);
	send_owners();
	return err;
}

static int add_task(int pid, int tid)
{
	char path[64];
	int err, e;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/ns/net", pid, tid);
	err = unless_gone(add_netns(path));
	if (is_read(tid))
		return err;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, tid);
	e = add_descriptors(path, pid);
	return err ?: e;
}

/* All threads: the first one may have ended. */
static int add_process(int pid)
{
	int err = 0, tid, e;
	struct dirent *t;
	char path[32];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d) {
		err = errno;
		/* It can also be hidden (hidepid=). */
		if (err == ENOENT && (!kill(pid, 0) || errno == EPERM))
			return EACCES;
		return unless_gone(err);
	}
	while (errno = 0, (t = readdir(d))) {
		tid = atoi(t->d_name);
		e = tid > 0 ? add_task(pid, tid) : 0;
		err = err ?: e;
	}
	err = err ?: unless_gone(errno);
	closedir(d);
	return err;
}

/*
 * Add the IDs in file @name of the cgroup to @ids. All of them are read before the first of these
 * processes, which takes longer than fork(): a list that grows meanwhile would have no end.
 */
static int read_ids(const char *path, const char *name, int **ids, size_t *cnt)
{
	char file[CGROUP_PATH + 32];
	int id, err;
	FILE *f;

	if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, name) >= sizeof(file))
		return ENAMETOOLONG;
	f = fopen(file, "re");
	if (!f)
		return unless_gone(errno);
	while (errno = 0, fscanf(f, "%d", &id) == 1) {
		*ids = grow(*ids, *cnt, sizeof(**ids));
		(*ids)[(*cnt)++] = id;
	}
	err = ferror(f) ? errno : 0;
	fclose(f);
	return err;
}

/* In the child. */
static void read_batch(int fd, void *ctx)
{
	const struct batch *b = ctx;
	struct message m;
	size_t i;
	int id;

	child_fd = fd;
	for (i = b->next; i < b->count; i++) {
		list.err = 0;
		list.unlisted = 0;
		id = b->ids[i];
		memset(&m, 0, sizeof(m));
		m.kind = END;
		/* 0: in another PID namespace */
		m.end.failed = id <= 0 ? ESRCH : b->threaded ? add_task(id, id) : add_process(id);
		m.end.err = list.err;
		m.end.unlisted = list.unlisted;
		send_message(&m, offsetof(struct message, end) + sizeof(m.end));
	}
}

static void add_failed(size_t count, int err)
{
	list.failed += count;
	list.reason = list.reason ?: err;
}

static void take_message(struct batch *b, const struct message *m)
{
	__u32 i;

	switch (m->kind) {
	case NETNS:
		remember_netns(m->netns);
		break;
	case OWNERS:
		for (i = 0; i < m->count; i++)
			add_owner(m->owners[i].inode, m->owners[i].pid);
		break;
	case OTHERS:
		for (i = 0; i < m->count; i++)
			add_other(&m->others[i]);
		break;
	case END:
		b->next++;
		if (m->end.failed)
			add_failed(1, m->end.failed);
		list.err = list.err ?: m->end.err;
		list.unlisted |= m->end.unlisted;
	}
}

static void add_batch(struct batch *b)
{
	struct message m;
	ssize_t len;
	int err;

	while (b->next < b->count) {
		err = apart_start(&apart, read_batch, b);
		if (err) {
			add_failed(b->count - b->next, -err);
			return;
		}
		do {
			len = apart_receive(&apart, &m, sizeof(m));
			if (len > 0)
				take_message(b, &m);
		} while (len > 0 && b->next < b->count);
		apart_end(&apart);
		if (b->next < b->count) {
			add_failed(1, len < 0 ? ETIMEDOUT : ECHILD);
			b->next++;
		}
	}
}

static int add_cgroup(const char *path, __u64 id)
{
	struct batch b = {};
	int *ids = NULL, err;
	size_t cnt = 0;

	list.cgroups = grow(list.cgroups, list.cgroup_cnt, sizeof(*list.cgroups));
	list.cgroups[list.cgroup_cnt++] = id;
	err = read_ids(path, "cgroup.procs", &ids, &cnt);
	/* In a threaded cgroup, it cannot be read. */
	b.threaded = !cnt;
	if (b.threaded)
		err = read_ids(path, "cgroup.threads", &ids, &cnt);
	b.ids = ids;
	b.count = cnt;
	add_batch(&b);
	free(ids);
	/* ENODEV: it was removed. */
	return err == ENODEV ? 0 : err;
}

/*
 * Add the cgroup with this path and those below it. Their paths may be too long for open():
 * fts(3) changes the working directory, and fts_accpath is relative to it.
 */
static void add_cgroups(const char *path)
{
	char *paths[] = { (char *)path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV, NULL);
	FTSENT *entry;
	int err;

	if (!fts) {
		list.err = list.err ?: errno;
		return;
	}
	while (errno = 0, (entry = fts_read(fts))) {
		err = 0;
		if (entry->fts_info == FTS_D)
			/* The inode number of the directory is the ID. */
			err = add_cgroup(entry->fts_accpath, entry->fts_statp->st_ino);
		else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS ||
			 entry->fts_info == FTS_ERR)
			err = unless_gone(entry->fts_errno);
		list.err = list.err ?: err;
	}
	list.err = list.err ?: errno;
	if (fts_close(fts))
		list.err = list.err ?: errno;
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

static void print_socket(const struct other *other)
{
	const struct owner *owner = find_owner(other->inode);
	char path[32], comm[32] = "?", text[INET6_ADDRSTRLEN];
	const struct ip *ip = &other->ip;
	bool ip4 = is_ip4(ip);
	FILE *f;

	if (!owner && !is_in_cgroup(other->cgroup))
		return;
	inet_ntop(ip4 ? AF_INET : AF_INET6, ip4 ? &ip->w[3] : ip->w, text, sizeof(text));
	fprintf(list.f, "%s%s %s%s%s:%u ", list.prefix, other->protocol->name, ip4 ? "" : "[",
		text, ip4 ? "" : "]", ntohs(other->port));
	if (!owner) {
		fprintf(list.f, "inode %u\n", other->inode);
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

/* Its owners may not be known yet. */
static void one_socket(const struct protocol *protocol, const struct inet_diag_msg *msg, int len)
{
	struct ip ip = ip_of(msg->idiag_family, msg->id.idiag_src);
	struct rtattr *a = (void *)(msg + 1), *addrs = NULL;
	struct sockaddr_storage addr;
	struct other other;
	__u64 cgroup = 0;
	size_t i;

	for (len -= NLMSG_ALIGN(sizeof(*msg)); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == INET_DIAG_CGROUP_ID)
			memcpy(&cgroup, RTA_DATA(a), sizeof(cgroup));
		else if (a->rta_type == INET_DIAG_LOCALS)
			addrs = a;
	}
	/* Without an inode it was not accepted yet, or was closed: no process has it. */
	if (!msg->idiag_inode)
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
	other = (struct other){
		.protocol = protocol, .cgroup = cgroup, .ip = ip,
		.inode = msg->idiag_inode, .port = msg->id.idiag_sport,
	};
	if (child_fd < 0) {
		add_other(&other);
		return;
	}
	sockets.kind = OTHERS;
	sockets.others[sockets.count++] = other;
	if (sockets.count == ARRAY_LEN(sockets.others))
		send_others();
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
	struct sockaddr_nl from = {};
	struct nlmsghdr *h;
	socklen_t from_len;
	int len;

	if (send(fd, &req, sizeof(req), 0) < 0)
		return errno;
	for (;;) {
		from_len = sizeof(from);
		len = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &from_len);
		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			return len ? errno : EPROTO;
		if (from.nl_pid)	/* sent before connect() */
			continue;
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
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd, err = 0, e;
	size_t i, j;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return errno;
	/* Tasks may own the namespace: without this, they could answer, or fill the queue. */
	if (connect(fd, (const void *)&kernel, sizeof(kernel))) {
		err = errno;
		close(fd);
		return err;
	}
	for (i = 0; i < ARRAY_LEN(protocols); i++)
		for (j = 0; j < ARRAY_LEN(families); j++) {
			e = dump(fd, families[j], &protocols[i]);
			if (e != ENOENT)
				err = err ?: e;
			else if (has_sockets(&protocols[i]))
				list.unlisted |= 1U << i;
		}
	close(fd);
	send_others();
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

static const char *failed_reason(void)
{
	if (list.reason == ETIMEDOUT)
		return "reading them took too long";
	if (list.reason == ECHILD)
		return "the child process has ended, as with too few open files";
	return strerror(list.reason);
}

void print_other_sockets(FILE *f, const char *prefix, const char *cgroup,
			 const struct policy *policy)
{
	struct stat st;
	size_t i;
	int err;

	list.f = f;
	list.prefix = prefix;
	list.policy = policy;
	if (stat("/proc/self/ns/net", &st)) {
		list.err = errno;
	} else {
		/* Dump it last: sockets of other cgroups can be passed in meanwhile. */
		remember_netns(st.st_ino);
		add_cgroups(cgroup);
		err = dump_all();
		list.err = list.err ?: err;
	}
	sort_owners();
	for (i = 0; i < list.other_cnt; i++)
		print_socket(&list.others[i]);
	if (list.err)
		say("%sreduced:%s sockets with other addresses may be missing from the list: %s",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), strerror(list.err));
	if (list.failed)
		say("%sreduced:%s sockets of %u process%s could not be listed: %s",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), list.failed,
		    list.failed == 1 ? "" : "es", failed_reason());
	say_unlisted();
	free(list.cgroups);
	free(list.owners);
	free(list.others);
	free(list.netns);
	free(list.tables);
	memset(&list, 0, sizeof(list));
}
