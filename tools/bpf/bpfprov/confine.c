// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov confine - restrict a cgroup to its addresses.
 *
 * A confined cgroup has a directory in the BPF file system, named after its ID: the links
 * of its hooks, which keep them attached, and "policy", the map that all of them read.
 * A process that reads or changes any of them holds a lock on the directory above.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include "bpfprov.h"
#include "confine.h"
#include "confine.skel.h"
#include "sockets.h"

#define BPFFS		"/sys/fs/bpf"
#define CONFINE_DIR	BPFFS "/bpfprov"
#define BPFFS_MAGIC	0xcafe4a11
#ifndef FILEID_KERNFS
#define FILEID_KERNFS	0xfe
#endif
/* Size of a path: CONFINE_DIR and an ID. */
#define DIR_SIZE	64
/* Advice for a cgroup that is removed and recreated. */
#define REMAKE	"a unit's ExecStartPre=+bpfprov confine --self ... confines each new one"

static struct {
	const char *cgroup;
	struct policy policy;
	bool show, remove, self;
} env;

enum { OPT_IP = 1, OPT_MAP, OPT_ALLOW, OPT_SHOW, OPT_REMOVE, OPT_SELF };

static const struct argp_option options[] = {
	{ "ip", OPT_IP, "ADDR", 0, "the address; once for IPv4, once for IPv6", 0 },
	{ "map", OPT_MAP, "localhost:PORT=ADDR:PORT", 0,
	  "send traffic for localhost:PORT to ADDR:PORT; [ADDR6]:PORT for IPv6", 0 },
	{ "allow-localhost", OPT_ALLOW, "ADDR[:PORT]", 0,
	  "do not redirect this localhost address, such as 127.0.0.53:53 for DNS", 0 },
	{ "show", OPT_SHOW, NULL, 0, "show the policy; without CGROUP, all policies", 0 },
	{ "self", OPT_SELF, NULL, 0, "use the cgroup of this process, for ExecStartPre=", 0 },
	{ "remove", OPT_REMOVE, NULL, 0, "remove the policy", 0 },
	{}
};

static const char doc[] =
	"Restrict the sockets of a cgroup, and of those below it, to one IP address per family.\n"
	"\vExample:\n"
	"  bpfprov confine web --ip 192.0.2.10 --map localhost:5432=192.0.2.20:5432\n"
	"  bpfprov confine --show\n"
	"  bpfprov confine web --remove\n"
	"\n"
	"CGROUP is a path, or one below /sys/fs/cgroup. A socket that listens on any address\n"
	"or on localhost listens on ADDR; connections come from ADDR; localhost is ADDR,\n"
	"except ports redirected by --map, and addresses given to --allow-localhost. Any other\n"
	"local address is refused with EPERM; a family without ADDR fails with ENETUNREACH, or\n"
	"EADDRNOTAVAIL when binding.\n"
	"The policy outlives this program. It is lost with the cgroup: a unit's\n"
	"ExecStartPre=+bpfprov confine --self --ip ADDR confines the cgroup at each start.\n"
	"A second call replaces addresses and maps in one step. Sockets that are bound or\n"
	"connected already are not changed: those that keep another address are listed.\n"
	"Needs CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN. To list sockets of processes of other\n"
	"users: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.";

static bool is_mapped(const __u32 ip[4])
{
	return !ip[0] && !ip[1] && ip[2] == htonl(0xffff);
}

static bool parse_ip(const char *s, __u32 ip[4], bool *is_ip4)
{
	ip[0] = 0;
	ip[1] = 0;
	ip[2] = htonl(0xffff);
	*is_ip4 = inet_pton(AF_INET, s, &ip[3]) == 1;
	if (*is_ip4)
		return ip[3] && ntohl(ip[3]) >> 28 != 0xe && ntohl(ip[3]) != 0xffffffff;
	if (inet_pton(AF_INET6, s, ip) != 1)
		return false;
	/* Refuse any, mapped, multicast, and link-local, which needs an interface. */
	return (ip[0] || ip[1] || (ip[2] ? ip[2] != htonl(0xffff) : ntohl(ip[3]) == 1)) &&
	       (ntohl(ip[0]) >> 24) != 0xff && (ntohl(ip[0]) >> 22) != 0xfe80 >> 6;
}

static bool parse_port(const char *s, __u16 *port)
{
	char *end;
	long n = strtol(s, &end, 10);

	*port = htons(n);
	return *s >= '0' && *s <= '9' && !*end && n > 0 && n < 65536;
}

static bool parse_redirect(char *s, struct redirect *r)
{
	char *eq = strchr(s, '='), *to, *colon;
	bool is_ip4;

	if (!eq || strncmp(s, "localhost:", 10))
		return false;
	*eq = 0;
	to = eq + 1;
	colon = strrchr(to, ':');
	if (!colon)
		return false;
	*colon = 0;
	if (*to == '[') {
		if (colon[-1] != ']')
			return false;
		to++;
		colon[-1] = 0;
	} else if (strchr(to, ':')) {
		return false;
	}
	return parse_port(s + 10, &r->from_port) && parse_port(colon + 1, &r->to_port) &&
	       parse_ip(to, r->ip, &is_ip4);
}

/* Is its port redirected already, in the same family? The hooks use the first one. */
static bool is_redirected(const struct policy *p, const struct redirect *r)
{
	__u32 i;

	for (i = 0; i < p->redirects; i++)
		if (p->redirect[i].from_port == r->from_port &&
		    is_mapped(p->redirect[i].ip) == is_mapped(r->ip))
			return true;
	return false;
}

/* 127.0.0.53, 127.0.0.53:53, ::1 or [::1]:53 */
static bool parse_allowed(char *s, struct redirect *r)
{
	char *colon = strrchr(s, ':'), *end;
	bool is_ip4;

	r->from_port = 0;
	if (*s == '[') {
		end = strchr(s, ']');
		if (!end || (end[1] && (end[1] != ':' || !parse_port(end + 2, &r->from_port))))
			return false;
		*end = 0;
		s++;
	} else if (colon && strchr(s, ':') == colon) {
		if (!parse_port(colon + 1, &r->from_port))
			return false;
		*colon = 0;
	}
	if (!parse_ip(s, r->ip, &is_ip4))
		return false;
	return is_ip4 ? ntohl(r->ip[3]) >> 24 == 127 :
			!r->ip[0] && !r->ip[1] && !r->ip[2] && r->ip[3] == htonl(1);
}

/*
 * Do both treat localhost in the same way? The hooks of a cgroup run before those of the cgroups
 * above, which would refuse what it exempts, and do not see what it has redirected. The order of
 * options counts.
 */
static bool is_same_localhost(const struct policy *a, const struct policy *b)
{
	return !memcmp(a->redirect, b->redirect, sizeof(a->redirect)) &&
	       !memcmp(a->allow, b->allow, sizeof(a->allow));
}

/* Is there a localhost address of a family that the cgroup has no address of? */
static bool lacks_family(const struct policy *p, const struct redirect *r, __u32 n)
{
	__u32 i;

	for (i = 0; i < n; i++)
		if (is_mapped(r[i].ip) ? !p->has_ip4 : !p->has_ip6)
			return true;
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct policy *p = &env.policy;
	bool is_ip4;
	__u32 ip[4];
	char *copy;

	switch (key) {
	case OPT_IP:
		if (!parse_ip(arg, ip, &is_ip4))
			argp_error(state, "--ip %s: sockets cannot be bound to it", arg);
		if (is_ip4 ? p->has_ip4 : p->has_ip6)
			argp_error(state, "--ip %s is a second address of its family", arg);
		if (is_ip4) {
			p->has_ip4 = 1;
			p->ip4 = ip[3];
		} else {
			p->has_ip6 = 1;
			memcpy(p->ip6, ip, sizeof(ip));
		}
		return 0;
	case OPT_MAP:
		if (p->redirects == MAX_REDIRECTS)
			argp_error(state, "more than %d of --map", MAX_REDIRECTS);
		copy = strdup(arg);
		if (!copy || !parse_redirect(copy, &p->redirect[p->redirects]))
			argp_error(state, "--map %s is not localhost:PORT=ADDR:PORT", arg);
		if (is_redirected(p, &p->redirect[p->redirects]))
			argp_error(state, "--map %s: this port is already mapped", arg);
		free(copy);
		p->redirects++;
		return 0;
	case OPT_ALLOW:
		if (p->allowed == MAX_ALLOWED)
			argp_error(state, "more than %d of --allow-localhost", MAX_ALLOWED);
		copy = strdup(arg);
		if (!copy || !parse_allowed(copy, &p->allow[p->allowed]))
			argp_error(state, "--allow-localhost %s is not an address of localhost",
				   arg);
		free(copy);
		p->allowed++;
		return 0;
	case OPT_SHOW:
		env.show = true;
		return 0;
	case OPT_REMOVE:
		env.remove = true;
		return 0;
	case OPT_SELF:
		env.self = true;
		return 0;
	case ARGP_KEY_ARG:
		if (env.cgroup)
			argp_error(state, "one cgroup at a time");
		env.cgroup = arg;
		return 0;
	case ARGP_KEY_END:
		if (env.show + env.remove +
		    (p->has_ip4 || p->has_ip6 || p->redirects || p->allowed) != 1)
			argp_error(state, "one of --ip, --show and --remove is needed");
		if (env.self && env.cgroup)
			argp_error(state, "either CGROUP or --self");
		if (!env.show && !env.cgroup && !env.self)
			argp_error(state, "a cgroup is needed");
		if (lacks_family(p, p->redirect, p->redirects) ||
		    lacks_family(p, p->allow, p->allowed))
			argp_error(state, "--map and --allow-localhost need --ip of the same family");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- hooks ------------------------------------------------------------------ */

/* Names of programs and of pins, in the order of attaching. */
static const char * const hook_names[] = {
	"create", "autobind", "ingress", "bind4", "bind6", "connect4", "connect6", "sendmsg4",
	"sendmsg6", "post_bind4", "post_bind6", "recvmsg4", "recvmsg6", "getpeername4",
	"getpeername6",
};

#define HOOKS ARRAY_LEN(hook_names)

/* Pinned maps. The policy is pinned first, and removed last. */
static const struct {
	const char *pin, *map;
} maps[] = {
	{ "policy", "policies" }, { "reverse", "reverse" }, { "local", "local" },
};

struct hook {
	struct bpf_program *prog;
	bool there;		/* attached already */
	bool old;		/* by another version of this program */
};

/* ingress sees each packet: it is attached only for --allow-localhost. */
static bool is_needed(const char *hook, const struct policy *p)
{
	if (!strcmp(hook, "autobind"))
		return p->has_autobind;
	return strcmp(hook, "ingress") || p->allowed;
}

/* --- places ------------------------------------------------------------------ */

static bool have_bpffs(void)
{
	struct statfs fs;

	if (!statfs(BPFFS, &fs) && (unsigned int)fs.f_type == BPFFS_MAGIC)
		return true;
	say("no BPF file system is mounted: mount -t bpf -o mode=0700 none %s", BPFFS);
	return false;
}

/* Print errno for @path. Returns an exit code. */
static int say_errno(const char *path)
{
	int err = errno;

	say("%s: %s", path, strerror(err));
	return is_denied(err) ? BPFPROV_CAP : BPFPROV_FAILED;
}

static bool is_own(const struct stat *st)
{
	return !st->st_uid || st->st_uid == geteuid();
}

/*
 * Is it safe from other users? A BPF file system can be writable for all. Then any task could
 * make CONFINE_DIR first, and unlink the hooks that are pinned there. Returns 0 if it is safe
 * or does not exist, or an exit code after printing the reason.
 */
static int check_safe(const char *dir, bool sticky)
{
	struct stat st;

	if (lstat(dir, &st))
		return errno == ENOENT ? 0 : say_errno(dir);
	if (S_ISDIR(st.st_mode) && is_own(&st) &&
	    (!(st.st_mode & 022) || (sticky && st.st_mode & S_ISVTX)))
		return 0;
	if (S_ISDIR(st.st_mode))
		say("%s: other users can change it, and detach the hooks: %s", dir,
		    sticky ? "mount it with mode=0700" : "remove it");
	else
		say("%s: this is not a directory: remove it", dir);
	return BPFPROV_FAILED;
}

/*
 * Likewise for the directory of a cgroup. Others may have made it, or pins in it, while the
 * directory above was not safe. That one is safe now, and locked: if this one is safe too, nobody
 * else can replace it, or what it has. Call this before anything in it is used.
 */
static int check_pins(const char *dir)
{
	int rc = check_safe(dir, false);
	struct dirent *e;
	struct stat st;
	DIR *d;

	if (rc)
		return rc;
	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : say_errno(dir);
	while (!rc && (e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			rc = say_errno(dir);
		} else if (!S_ISREG(st.st_mode) || !is_own(&st)) {
			say("%s: another user has made \"%s\" in it: remove this directory", dir,
			    e->d_name);
			rc = BPFPROV_FAILED;
		}
	}
	closedir(d);
	return rc;
}

/*
 * Lock the directory of all confined cgroups, because policies of different cgroups must not
 * contradict each other. Check first that it is safe: another task may have made it, and have
 * the lock. Returns 0 and a descriptor in @lock, -1 if there is no directory; or an exit code
 * after printing the reason. Messages are held until the lock has been released: their reader
 * may be slow.
 */
static int lock_all(bool make, int *lock)
{
	int rc;

	if (make && mkdir(CONFINE_DIR, 0700) && errno != EEXIST)
		return say_errno(CONFINE_DIR);
	rc = check_safe(BPFFS, true) ?: check_safe(CONFINE_DIR, false);
	if (rc)
		return rc;
	*lock = open(CONFINE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*lock < 0)
		return errno == ENOENT && !make ? 0 : say_errno(CONFINE_DIR);
	if (flock(*lock, LOCK_EX)) {
		rc = say_errno(CONFINE_DIR);
		close(*lock);
	} else {
		hold_messages();
	}
	return rc;
}

/*
 * Block all signals while hooks are attached or detached: some of them alone are not a policy.
 */
static void block_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, old);
}

static bool is_map(const char *pin)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(maps); i++)
		if (!strcmp(pin, maps[i].pin))
			return true;
	return false;
}

static int pinned(const char *dir, const char *name)
{
	char path[DIR_SIZE + 256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return bpf_obj_get(path);
}

/* Is the pinned link attached? A detached one has no cgroup. Returns 1, 0, or -errno. */
static int query_link(const char *dir, const char *name)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);
	int link, rc;

	link = pinned(dir, name);
	if (link < 0)
		return -errno;
	rc = bpf_link_get_info_by_fd(link, &info, &len) ? -errno : !!info.cgroup.cgroup_id;
	close(link);
	return rc;
}

static bool is_attached(const char *dir, const char *name)
{
	return query_link(dir, name) == 1;
}

/* --- policies ---------------------------------------------------------------- */

/* A map with @p, for the map of maps; or -1 with errno. */
static int make_policy_map(const struct policy *p)
{
	__u32 zero = 0;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "policy", sizeof(zero), sizeof(*p), 1, NULL);

	if (fd >= 0 && bpf_map_update_elem(fd, &zero, p, BPF_ANY)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Is it such a map? The kernel reads as many bytes of a key, and writes as many of a value. */
static bool is_like(int fd, __u32 type, __u32 value_size)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return !bpf_map_get_info_by_fd(fd, &info, &len) && info.type == type &&
	       info.key_size == sizeof(__u32) && info.value_size == value_size;
}

/* Read the current policy. The error is -EPROTO if another version of this program made it. */
static int read_policy(int policies, struct policy *p)
{
	__u32 zero = 0, id;
	int fd, err = 0;

	if (!is_like(policies, BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(id)))
		return -EPROTO;
	if (bpf_map_lookup_elem(policies, &zero, &id))
		return -errno;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return -errno;
	if (!is_like(fd, BPF_MAP_TYPE_ARRAY, sizeof(*p)) ||
	    bpf_map_lookup_elem(fd, &zero, p) || p->version != POLICY_VERSION)
		err = -EPROTO;
	close(fd);
	return err;
}

/* Returns 0 if it was replaced: from then on, all attached hooks use @p. */
static int replace_policy(int policies, const struct policy *p)
{
	__u32 zero = 0;
	int fd, err;

	fd = make_policy_map(p);
	if (fd < 0)
		return -errno;
	err = bpf_map_update_elem(policies, &zero, &fd, BPF_ANY) ? -errno : 0;
	close(fd);
	return err;
}

/* --- pins --------------------------------------------------------------------- */

static void unpin(const char *dir, const char *name)
{
	char path[DIR_SIZE + 256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Detach it explicitly, because dropping the last reference does it some time later. */
static void detach(const char *dir, const char *name)
{
	int link = pinned(dir, name);

	if (link >= 0) {
		bpf_link_detach(link);
		close(link);
	}
	unpin(dir, name);
}

/* A checksum of the hooks, to recognize those of another version of this program. */
static __u32 hooks_version(void)
{
	const void *bytes;
	size_t size;

	bytes = confine_bpf__elf_bytes(&size);
	return crc32(crc32(0, NULL, 0), bytes, size);
}

/* Replace the programs of hooks that another version has attached. */
static int replace_hooks(struct hook *hooks, const char *dir)
{
	int link, err;
	size_t i;

	for (i = 0; i < HOOKS; i++) {
		if (!hooks[i].old || !bpf_program__autoload(hooks[i].prog))
			continue;
		link = pinned(dir, hook_names[i]);
		err = link < 0 || bpf_link_update(link, bpf_program__fd(hooks[i].prog), NULL) ?
		      -errno : 0;
		if (link >= 0)
			close(link);
		if (err) {
			say("replacing %s: %s", hook_names[i], strerror(-err));
			return err;
		}
	}
	return 0;
}

/* Attach the missing hooks. On an error, detach those that this call has attached. */
static int attach(struct hook *hooks, int cgroup, const char *dir)
{
	char path[DIR_SIZE + 256];
	int fd, err;
	size_t i;

	for (i = 0; i < HOOKS; i++) {
		if (hooks[i].there || !bpf_program__autoload(hooks[i].prog))
			continue;
		fd = bpf_link_create(bpf_program__fd(hooks[i].prog), cgroup,
				     bpf_program__expected_attach_type(hooks[i].prog), NULL);
		err = fd < 0 ? -errno : 0;
		/* A detached link is still pinned. */
		unpin(dir, hook_names[i]);
		snprintf(path, sizeof(path), "%s/%s", dir, hook_names[i]);
		if (!err && bpf_obj_pin(fd, path))
			err = -errno;
		if (fd >= 0)
			close(fd);
		if (err) {
			say("attaching %s: %s", hook_names[i], strerror(-err));
			while (i-- > 0)
				if (!hooks[i].there && bpf_program__autoload(hooks[i].prog))
					detach(dir, hook_names[i]);
			return err;
		}
	}
	return 0;
}

static void remove_dir(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	size_t i;

	if (!d)
		return;
	/* The links first: without a policy the hooks would refuse everything. */
	while ((e = readdir(d)))
		if (*e->d_name != '.' && !is_map(e->d_name))
			detach(dir, e->d_name);
	closedir(d);
	for (i = ARRAY_LEN(maps); i-- > 0;)
		unpin(dir, maps[i].pin);
	rmdir(dir);
}

#ifndef BPF_F_ALL_PROTOCOLS
#define BPF_F_ALL_PROTOCOLS (1U << 8)
#endif

struct kernel {
	bool autobind;		/* has the hook */
	/* AF_INET6 sockets can have an address of each family. */
	bool dual;
	/* Programs at bind, post_bind and connect run for SCTP, ping and raw sockets. */
	bool all_protocols;
};

/*
 * Does the kernel load this program? If not, and the error is not @absent, it says nothing about
 * the feature: without that, the policy would have a hole. Returns 0, or -errno after printing it.
 */
static int try_load(const struct bpf_insn *insns, size_t count, enum bpf_attach_type type,
		    __u32 flags, int absent, bool *there)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type, .prog_flags = flags);
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "trial", "GPL", insns, count,
			       &opts);

	*there = fd >= 0;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || fd == -absent)
		return 0;
	say("loading a program as a trial: %s", strerror(-fd));
	return fd;
}

/*
 * By trial: the BTF of the kernel may not be readable. A kernel without a hook or a flag refuses
 * it with EINVAL. One that has sockets with two addresses lets bind6 programs access user_ip4.
 */
static int try_kernel(struct kernel *k)
{
	static const struct bpf_insn allow[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	static const struct bpf_insn read_ip4[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1,
		  .off = offsetof(struct bpf_sock_addr, user_ip4) },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return try_load(allow, ARRAY_LEN(allow), BPF_CGROUP_INET_AUTOBIND, 0, EINVAL,
			&k->autobind) ?:
	       try_load(read_ip4, ARRAY_LEN(read_ip4), BPF_CGROUP_INET6_BIND, 0, EACCES,
			&k->dual) ?:
	       try_load(allow, ARRAY_LEN(allow), BPF_CGROUP_INET4_CONNECT, BPF_F_ALL_PROTOCOLS,
			EINVAL, &k->all_protocols);
}

/* The policy is for all protocols. A kernel without the flag refuses their sockets. */
static void use_all_protocols(struct confine_bpf *skel, const struct kernel *k)
{
	struct bpf_program *progs[] = {
		skel->progs.bind4, skel->progs.bind6, skel->progs.post_bind4,
		skel->progs.post_bind6, skel->progs.connect4, skel->progs.connect6,
	};
	size_t i;

	skel->rodata->has_all_protocols = k->all_protocols;
	if (!skel->rodata->has_all_protocols) {
		say("%sreduced:%s SCTP, raw and ping sockets are refused: no hook confines them on this kernel",
		    colour(stderr, YELLOW), colour(stderr, PLAIN));
		return;
	}
	for (i = 0; i < ARRAY_LEN(progs); i++)
		bpf_program__set_flags(progs[i], BPF_F_ALL_PROTOCOLS);
}

/* --- other cgroups that are confined --------------------------------------------- */

enum state {
	CONFINED,
	NOT_WHOLE,	/* the cgroup exists, but a hook is not attached */
	REMADE,		/* it was removed, and another cgroup has its path */
	REPLACED,	/* likewise, and that one is confined: sockets of the first may exist */
	REMOVED,
};

static bool is_hook_missing(const char *dir, size_t i, const struct policy *p)
{
	return is_needed(hook_names[i], p) && !is_attached(dir, hook_names[i]);
}

/*
 * Does the path of the policy lead to this cgroup here? A process in another cgroup or mount
 * namespace may have stored the path: here it can be missing, or that of another cgroup.
 */
static bool is_here(const char *id, const struct policy *p)
{
	struct stat st;

	return !stat(p->cgroup, &st) && st.st_ino == strtoull(id, NULL, 10);
}

/*
 * Open the cgroup with this ID, anywhere in the hierarchy. Returns a descriptor, or -errno: -ESTALE
 * if there is none.
 */
static int open_id(__u64 id)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + sizeof(id)];
	} h = { .handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	struct statfs fs;
	int top, fd;

	memcpy(h.bytes + sizeof(h.handle), &id, sizeof(id));
	top = open(CGROUPFS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return -errno;
	/* Another file system also has ESTALE for it. */
	if (fstatfs(top, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC) {
		close(top);
		return -ENOTSUP;
	}
	fd = open_by_handle_at(top, &h.handle, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(top);
	return fd;
}

/* Returns 0 if the ID exists, or an error. */
static int find_id(__u64 id)
{
	int fd = open_id(id);

	if (fd < 0)
		return -fd;
	close(fd);
	return 0;
}

/* The path of an open directory. Returns 0, or -1 with errno. */
static int path_of(int fd, char *path, size_t size)
{
	char link[32];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, size - 1);
	if (len == (ssize_t)size - 1) {
		errno = ENAMETOOLONG;
		len = -1;
	}
	path[len < 0 ? 0 : len] = 0;
	return len < 0 ? -1 : 0;
}

/* Are all hooks detached, as those of a removed cgroup are, some time later? */
static bool is_detached(const char *dir)
{
	size_t i;
	int rc;

	for (i = 0; i < HOOKS; i++) {
		rc = query_link(dir, hook_names[i]);
		if (rc && rc != -ENOENT)
			return false;
	}
	return true;
}

/*
 * Was the cgroup removed? Its policy may be removed then, so this needs proof. Without
 * CAP_DAC_READ_SEARCH it is that all hooks are detached, which is some time later.
 */
static bool is_gone(const char *dir, const char *id, const struct policy *p)
{
	int err;

	if (is_here(id, p))
		return false;
	/* ESTALE is also the error if an LSM denies the lookup, or too many files are open. */
	err = find_id(strtoull(id, NULL, 10));
	if (!err || err == ESTALE)
		return err == ESTALE;
	return is_detached(dir);
}

/* Is there a policy of the cgroup at this path? */
static bool is_confined(const char *path)
{
	char dir[64];
	struct stat st;

	if (stat(path, &st))
		return false;
	snprintf(dir, sizeof(dir), CONFINE_DIR "/%llu", (unsigned long long)st.st_ino);
	return !access(dir, F_OK);
}

static enum state state_of(const char *dir, const char *id, const struct policy *p)
{
	size_t i;

	if (is_gone(dir, id, p)) {
		if (access(p->cgroup, F_OK))
			return REMOVED;
		return is_confined(p->cgroup) ? REPLACED : REMADE;
	}
	for (i = 0; i < HOOKS; i++)
		if (is_hook_missing(dir, i, p))
			return NOT_WHOLE;
	return CONFINED;
}

/* Read the policy in @dir. The error is -EPROTO if another version of this program made it. */
static int policy_in(const char *dir, struct policy *p)
{
	int policies = pinned(dir, "policy"), err;

	err = policies < 0 ? -errno : read_policy(policies, p);
	if (policies >= 0)
		close(policies);
	p->cgroup[sizeof(p->cgroup) - 1] = 0;
	return err;
}

/*
 * Call @fn for each confined cgroup, until it returns a value other than 0. Returns this value,
 * or an exit code after printing why they cannot be read. @lock is -1 if there is no directory:
 * one that was made since then was not checked.
 */
static int each_confined(int lock, int (*fn)(void *ctx, const char *dir, const char *id), void *ctx)
{
	char dir[DIR_SIZE];
	struct dirent *e;
	int rc = 0;
	DIR *d;

	if (lock < 0)
		return 0;
	d = opendir(CONFINE_DIR);
	if (!d)
		return say_errno(CONFINE_DIR);
	while (!rc && (e = readdir(d))) {
		if (*e->d_name < '0' || *e->d_name > '9')
			continue;
		snprintf(dir, sizeof(dir), CONFINE_DIR "/%.20s", e->d_name);
		rc = fn(ctx, dir, e->d_name);
	}
	closedir(d);
	return rc;
}

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strncmp(path, top, len) && path[len] == '/';
}

/*
 * The hooks of a cgroup and of its ancestors must agree. If one allows an address that
 * another one refuses, no socket can be bound.
 */
static bool allows_more(const struct policy *p, const struct policy *than)
{
	return (p->has_ip4 && (!than->has_ip4 || p->ip4 != than->ip4)) ||
	       (p->has_ip6 && (!than->has_ip6 || memcmp(p->ip6, than->ip6, sizeof(p->ip6))));
}

/* Policies of other versions cannot be compared: refuse one above or below such a policy. */
static int check_other_version(const char *path, const char *id)
{
	int fd = open_id(strtoull(id, NULL, 10)), rc = 0;
	char other[CGROUP_PATH];

	if (fd < 0)
		return 0;
	if (!path_of(fd, other, sizeof(other)) &&
	    (is_below(path, other) || is_below(other, path))) {
		say("%s, which is %s, was confined by another version of this program: --remove that policy first",
		    other, is_below(path, other) ? "above" : "below");
		rc = BPFPROV_FAILED;
	}
	close(fd);
	return rc;
}

/*
 * Refuse a policy that contradicts another; remove that of an old cgroup at the same path, and of
 * a removed one that is no longer used.
 */
static int check_other(void *ctx, const char *dir, const char *id)
{
	const char *path = ctx;
	struct policy other;
	enum state state;
	int err;

	err = check_pins(dir);
	if (err)
		return err;
	err = policy_in(dir, &other);
	if (err)
		return err == -EPROTO ? check_other_version(path, id) : 0;
	state = state_of(dir, id, &other);
	/* Sockets that still exist keep the hooks, also after the service has started again. */
	if ((((state == REMADE || state == REPLACED) && !strcmp(other.cgroup, path)) ||
	     (state == REMOVED && find_id(strtoull(id, NULL, 10)) == ESTALE)) &&
	    is_detached(dir)) {
		remove_dir(dir);
		return 0;
	}
	/* Paths of different namespaces cannot be compared. */
	if (state == REMOVED || state == REMADE || state == REPLACED || !is_here(id, &other))
		return 0;
	if (is_below(path, other.cgroup) && allows_more(&env.policy, &other)) {
		say("%s, which is above, is confined to other addresses: nothing could be bound",
		    other.cgroup);
		return BPFPROV_FAILED;
	}
	if (is_below(other.cgroup, path) && allows_more(&other, &env.policy)) {
		say("%s, which is below, is confined to other addresses: nothing could be bound",
		    other.cgroup);
		return BPFPROV_FAILED;
	}
	if ((is_below(path, other.cgroup) || is_below(other.cgroup, path)) &&
	    !is_same_localhost(&env.policy, &other)) {
		say("%s, which is %s, has other options for localhost, or another order: one of them would have no effect",
		    other.cgroup, is_below(path, other.cgroup) ? "above" : "below");
		return BPFPROV_FAILED;
	}
	return 0;
}

/* --- confine ------------------------------------------------------------------ */

/*
 * Remember the last address that differs from the new one: sockets that have it can still
 * send, even if the same policy is applied again.
 */
static void keep_old(struct policy *p, const struct policy *old)
{
	bool same4 = p->has_ip4 && old->has_ip4 && p->ip4 == old->ip4;
	bool same6 = p->has_ip6 && old->has_ip6 && !memcmp(p->ip6, old->ip6, sizeof(p->ip6));

	p->old_ip4 = old->has_ip4 && !same4 ? old->ip4 : old->old_ip4;
	memcpy(p->old_ip6, old->has_ip6 && !same6 ? old->ip6 : old->old_ip6,
	       sizeof(p->old_ip6));
}

static int do_confine(int cgroup, const char *dir, const char *path)
{
	struct policy old, *p = &env.policy;
	int fds[ARRAY_LEN(maps)], policies, lock, err, rc;
	const __u32 version = hooks_version();
	struct hook hooks[HOOKS];
	struct confine_bpf *skel;
	struct kernel kernel;
	bool missing = false, made = false;
	sigset_t signals;
	size_t i;

	/* If the reader of stderr ends, the exit code is still right. */
	signal(SIGPIPE, SIG_IGN);
	p->version = POLICY_VERSION;
	p->hooks = version;
	snprintf(p->cgroup, sizeof(p->cgroup), "%s", path);
	err = try_kernel(&kernel);
	if (err)
		return load_status(-err);
	p->has_autobind = kernel.autobind;
	if (!kernel.autobind)
		say_reduced(AUTOBIND, "listen() and send() without bind() are not confined");

	rc = lock_all(true, &lock);
	if (rc)
		return rc;
	block_signals(&signals);
	rc = each_confined(lock, check_other, (void *)path);
	if (rc)
		goto close_lock;
	/* One that exists has been checked, too. */
	made = !mkdir(dir, 0700);
	if (!made && errno != EEXIST) {
		rc = say_errno(dir);
		goto close_lock;
	}
	rc = BPFPROV_FAILED;
	skel = confine_bpf__open();
	if (!skel) {
		say("the hooks: %s", strerror(errno));
		goto close_lock;
	}
	bpf_program__set_autoload(skel->progs.autobind, kernel.autobind);
	/* One that is attached stays, and may be of another version. */
	bpf_program__set_autoload(skel->progs.ingress,
				  p->allowed || is_attached(dir, "ingress"));
	/* For a libbpf that does not have its section. */
	bpf_program__set_type(skel->progs.autobind, BPF_PROG_TYPE_CGROUP_SOCK_ADDR);
	bpf_program__set_expected_attach_type(skel->progs.autobind, BPF_CGROUP_INET_AUTOBIND);
	skel->rodata->has_dual = kernel.dual;
	if (p->has_ip4 && p->has_ip6 && !kernel.dual)
		say("%sreduced:%s AF_INET6 sockets have one address on this kernel: those that are bound to any have the IPv6 one, and no IPv4",
		    colour(stderr, YELLOW), colour(stderr, PLAIN));
	use_all_protocols(skel, &kernel);
	memset(fds, -1, sizeof(fds));
	for (i = 0; i < ARRAY_LEN(maps); i++) {
		fds[i] = pinned(dir, maps[i].pin);
		if (fds[i] < 0 && errno != ENOENT) {
			rc = say_errno(dir);
			goto destroy;
		}
	}
	policies = fds[0];
	for (i = 0; i < HOOKS; i++) {
		hooks[i].prog = bpf_object__find_program_by_name(skel->obj, hook_names[i]);
		hooks[i].there = policies >= 0 && is_attached(dir, hook_names[i]);
		hooks[i].old = false;
		missing |= !hooks[i].there && bpf_program__autoload(hooks[i].prog);
	}

	/*
	 * This update switches all attached hooks to the new policy. Hooks that are attached
	 * after it find it in the map.
	 */
	if (policies >= 0) {
		err = read_policy(policies, &old);
		if (err == -EPROTO)
			say("%s was confined by another version of this program: --remove first",
			    env.cgroup);
		else if (err)
			say("the current policy: %s", strerror(-err));
		if (err)
			goto destroy;
		keep_old(p, &old);
		for (i = 0; i < HOOKS; i++) {
			hooks[i].old = hooks[i].there && old.hooks != p->hooks;
			missing |= hooks[i].old && bpf_program__autoload(hooks[i].prog);
		}
		/* Until all of them are replaced, as this process may be killed. */
		p->hooks = old.hooks;
		err = replace_policy(policies, p);
		if (err) {
			say("replacing the policy: %s", strerror(-err));
			goto destroy;
		}
		for (i = 0; i < ARRAY_LEN(maps) && !err; i++)
			if (fds[i] >= 0)
				err = bpf_map__reuse_fd(bpf_object__find_map_by_name(skel->obj,
										     maps[i].map),
							fds[i]);
		if (err) {
			say("the maps of the hooks: %s", strerror(-err));
			goto undo;
		}
	}
	if (missing) {
		err = confine_bpf__load(skel);
		if (err) {
			say("loading the hooks: %s", strerror(-err));
			rc = load_status(-err);
			goto undo;
		}
		err = policies < 0 ? replace_policy(bpf_map__fd(skel->maps.policies), p) : 0;
		for (i = 0; i < ARRAY_LEN(maps) && !err; i++) {
			char pin[DIR_SIZE + 16];
			struct bpf_map *map;

			if (fds[i] >= 0)
				continue;
			map = bpf_object__find_map_by_name(skel->obj, maps[i].map);
			snprintf(pin, sizeof(pin), "%s/%s", dir, maps[i].pin);
			if (bpf_obj_pin(bpf_map__fd(map), pin))
				err = -errno;
		}
		if (err) {
			say("the policy: %s", strerror(-err));
			goto undo;
		}
		err = replace_hooks(hooks, dir) ?: attach(hooks, cgroup, dir);
		if (err) {
			rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
			goto undo;
		}
	}
	if (p->hooks != version) {
		p->hooks = version;
		err = replace_policy(policies, p);
		if (err) {
			say("replacing the policy: %s", strerror(-err));
			goto undo;
		}
	}
	rc = BPFPROV_OK;
	goto destroy;
undo:
	/* It may have all the descriptors and memory that this process can get. */
	confine_bpf__destroy(skel);
	skel = NULL;
	if (policies < 0)
		remove_dir(dir);
	else
		err = replace_policy(policies, &old);
	if (policies >= 0 && err) {
		say("%s keeps the new policy: %s", env.cgroup, strerror(-err));
		rc = BPFPROV_FAILED;
	}
destroy:
	confine_bpf__destroy(skel);
	for (i = 0; i < ARRAY_LEN(maps); i++)
		if (fds[i] >= 0)
			close(fds[i]);
close_lock:
	/* It can be one that is still empty, which would be shown as a policy. */
	if (rc && made)
		rmdir(dir);
	close(lock);
	/* A signal may end it before they are printed, but only if the reader is slow. */
	if (poll(&(struct pollfd){ STDERR_FILENO, POLLOUT }, 1, 0) > 0)
		release_messages();
	sigprocmask(SIG_SETMASK, &signals, NULL);
	release_messages();
	if (rc)
		return rc;
	if (!env.self)
		say("lasts until the cgroup is removed (systemd: when the unit stops); %s", REMAKE);
	print_other_sockets(stderr, "bpfprov confine: keeps another address: ", path, p);
	return BPFPROV_OK;
}

/* --- show ---------------------------------------------------------------------- */

static void print_ip(FILE *f, const __u32 ip[4])
{
	char s[INET6_ADDRSTRLEN];
	bool ip4 = is_mapped(ip);

	inet_ntop(ip4 ? AF_INET : AF_INET6, ip4 ? &ip[3] : ip, s, sizeof(s));
	fputs(s, f);
}

struct show {
	FILE *f;
	int rc;
	/* The policies whose sockets are listed. */
	struct policy *lists;
	size_t count;
};

/*
 * A task of one of these cgroups can delay the list of sockets: make it later, without the lock,
 * after all policies have been printed.
 */
static void list_later(struct show *s, const struct policy *p)
{
	void *lists = reallocarray(s->lists, s->count + 1, sizeof(*s->lists));

	if (!lists) {
		say("%s: %s", p->cgroup, strerror(ENOMEM));
		s->rc = BPFPROV_FAILED;
		return;
	}
	s->lists = lists;
	s->lists[s->count++] = *p;
}

/* With the path of the cgroup, if other policies have been printed. */
static int list_sockets(const struct policy *p, bool with_path)
{
	char *lines = NULL;
	size_t size = 0;
	FILE *f;
	int err;

	f = open_memstream(&lines, &size);
	if (!f) {
		say("%s: %s", p->cgroup, strerror(errno));
		return -1;
	}
	print_other_sockets(f, "  other-address ", p->cgroup, p);
	err = finish_output(f, "the list of sockets");
	if (!err && size && with_path) {
		fputs(colour(stdout, BOLD), stdout);
		print_clean(stdout, p->cgroup);
		printf("%s: sockets with another address\n", colour(stdout, PLAIN));
	}
	if (!err)
		fwrite(lines, 1, size, stdout);
	fflush(stdout);
	free(lines);
	return err;
}

static int show_dir(void *ctx, const char *dir, const char *id)
{
	struct show *s = ctx;
	int rc = BPFPROV_OK;
	FILE *f = s->f;
	enum state state;
	struct policy p;
	__u32 i;
	int err;

	if (check_pins(dir)) {
		s->rc = BPFPROV_FAILED;
		return 0;
	}
	err = policy_in(dir, &p);
	if (err) {
		say("cgroup %s: its policy cannot be read: %s", id,
		    err == -EPROTO ? "another version of this program made it: --remove it" :
		    strerror(-err));
		s->rc = BPFPROV_FAILED;
		return 0;
	}
	state = state_of(dir, id, &p);
	fputs(colour(stdout, BOLD), f);
	print_clean(f, p.cgroup);
	fprintf(f, "%s (id %s)%s\n", colour(stdout, PLAIN), id,
		state == REMOVED ? ": the cgroup is gone" :
		state == REPLACED ? ": for sockets of an earlier cgroup with this path" :
		state == REMADE ? ": not confined: the cgroup was removed and made again" :
		state == NOT_WHOLE ? ": not confined: a hook is not attached" : "");
	if (p.has_ip4) {
		const __u32 ip[4] = { 0, 0, htonl(0xffff), p.ip4 };

		fprintf(f, "  ip ");
		print_ip(f, ip);
		fprintf(f, "\n");
	}
	if (p.has_ip6) {
		fprintf(f, "  ip ");
		print_ip(f, p.ip6);
		fprintf(f, "\n");
	}
	for (i = 0; i < p.redirects && i < MAX_REDIRECTS; i++) {
		const struct redirect *r = &p.redirect[i];
		bool ip4 = is_mapped(r->ip);

		fprintf(f, "  map localhost:%u=%s", ntohs(r->from_port), ip4 ? "" : "[");
		print_ip(f, r->ip);
		fprintf(f, "%s:%u\n", ip4 ? "" : "]", ntohs(r->to_port));
	}
	for (i = 0; i < p.allowed && i < MAX_ALLOWED; i++) {
		bool ip4 = is_mapped(p.allow[i].ip);

		fprintf(f, "  allow-localhost %s", ip4 ? "" : "[");
		print_ip(f, p.allow[i].ip);
		fprintf(f, "%s", ip4 ? "" : "]");
		if (p.allow[i].from_port)
			fprintf(f, ":%u", ntohs(p.allow[i].from_port));
		fprintf(f, "\n");
	}
	fprintf(f, "  hooks");
	for (i = 0; i < HOOKS; i++) {
		if (is_attached(dir, hook_names[i]))
			fprintf(f, " %s", hook_names[i]);
		else if (strcmp(hook_names[i], "ingress") || p.allowed)
			fprintf(f, " %sno-%s%s", colour(stdout, RED), hook_names[i],
				colour(stdout, PLAIN));
	}
	fprintf(f, "\n");
	if (state == CONFINED || state == NOT_WHOLE) {
		if (is_here(id, &p))
			list_later(s, &p);
		else
			fputs("  removed, or in another namespace: its sockets are not listed\n", f);
	}
	if (state == NOT_WHOLE) {
		say("%s: not all hooks are attached: confine it again", p.cgroup);
		rc = BPFPROV_FAILED;
	} else if (state == REMADE) {
		say("%s: made again since it was confined; %s", p.cgroup, REMAKE);
		rc = BPFPROV_GONE;
	} else if (state == REMOVED) {
		rc = BPFPROV_GONE;
	}
	/* A missing hook outweighs a cgroup that was removed. */
	if (rc && s->rc != BPFPROV_FAILED)
		s->rc = rc;
	return 0;
}

/*
 * Show the policy in @dir, or all policies if it is NULL, and release @lock. A pager may stop
 * reading: print nothing while other processes wait for the lock.
 */
static int show(int lock, const char *dir, const char *id)
{
	struct show s = { .rc = BPFPROV_OK };
	size_t size = 0, i;
	char *text = NULL;

	s.f = open_memstream(&text, &size);
	if (!s.f)
		say("the policies: %s", strerror(errno));
	else if (dir)
		show_dir(&s, dir, id);
	else
		s.rc = each_confined(lock, show_dir, &s) ?: s.rc;
	if (lock >= 0)
		close(lock);
	release_messages();
	if (!s.f || finish_output(s.f, "the policies")) {
		s.rc = BPFPROV_FAILED;
	} else {
		fwrite(text, 1, size, stdout);
		fflush(stdout);
		for (i = 0; i < s.count; i++)
			if (list_sockets(&s.lists[i], !dir))
				s.rc = BPFPROV_FAILED;
	}
	free(s.lists);
	free(text);
	return finish_output(stdout, "standard output") ? BPFPROV_FAILED : s.rc;
}

/* Returns -1 if an earlier cgroup at this path was confined. */
static int was_confined(void *ctx, const char *dir, const char *id)
{
	struct policy p;

	return !check_pins(dir) && !policy_in(dir, &p) && !strcmp(p.cgroup, ctx) &&
	       state_of(dir, id, &p) == REMADE ? -1 : 0;
}

/* The path of this process's cgroup, without the child in which systemd starts helpers. */
static int own_cgroup(char *path, size_t size)
{
	static const char control[] = "/.control";
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *line = NULL;
	size_t len, room = 0;

	*path = 0;
	/* Lines as a whole: a part of a long path may look like another line. */
	while (f && getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		/* A path that is too long for a policy is not found. */
		if (!strncmp(line, "0::/", 4) &&
		    (size_t)snprintf(path, size, CGROUPFS "%s", line + 3) >= size)
			*path = 0;
	}
	free(line);
	if (f)
		fclose(f);
	len = strlen(path);
	if (len > strlen(control) && !strcmp(path + len - strlen(control), control))
		path[len - strlen(control)] = 0;
	return *path ? 0 : -1;
}

/*
 * Is this process in the cgroup, or in the child in which systemd starts helpers? The path
 * in /proc/self/cgroup is relative to the root of the cgroup namespace, and another root may
 * be mounted at CGROUPFS.
 */
static bool is_member(int cgroup)
{
	static const char * const names[] = { "cgroup.threads", ".control/cgroup.threads" };
	bool found = false;
	int i, fd, tid;
	FILE *f;

	for (i = 0; i < 2 && !found; i++) {
		fd = openat(cgroup, names[i], O_RDONLY | O_CLOEXEC);
		f = fd < 0 ? NULL : fdopen(fd, "r");
		while (f && !found && fscanf(f, "%d", &tid) == 1)
			found = tid == gettid();
		if (f)
			fclose(f);
		else if (fd >= 0)
			close(fd);
	}
	return found;
}

/*
 * Find the cgroup @env.cgroup: its path, ID and directory, and a descriptor in @cgroup: -1 if it
 * was given as the ID of a confined cgroup, which may have been removed. Returns 0, or an exit
 * code after printing the reason.
 */
static int find_cgroup(int *cgroup, char *path, size_t size, char *dir, size_t dir_size, char *id,
		       size_t id_size)
{
	const char *name = env.cgroup, *digits = name;
	struct stat st;
	int rc;

	if (!strncmp(name, "id:", 3))
		digits = name + 3;
	snprintf(id, id_size, "%.20s", digits);
	snprintf(dir, dir_size, CONFINE_DIR "/%s", id);
	if (*digits && !digits[strspn(digits, "0123456789")] && !lstat(dir, &st)) {
		snprintf(path, size, CGROUPFS "/%s", name);
		/* A cgroup's name can consist of digits. */
		*cgroup = -1;
		if (digits != name || access(path, F_OK))
			return 0;
	}
	*cgroup = open_cgroup(name, path, size);
	if (*cgroup < 0)
		return -*cgroup;
	if (path_of(*cgroup, path, size) || fstat(*cgroup, &st)) {
		rc = say_errno(name);
		close(*cgroup);
		return rc;
	}
	snprintf(id, id_size, "%llu", (unsigned long long)st.st_ino);
	snprintf(dir, dir_size, CONFINE_DIR "/%s", id);
	return 0;
}

int cmd_confine(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc =
			"CGROUP|--self --ip ADDR [--ip ADDR6] [--map localhost:PORT=ADDR:PORT]... [--allow-localhost ADDR[:PORT]]...\n"
			"[CGROUP|--self|id:N] --show\n"
			"CGROUP|--self|id:N --remove",
		.doc = doc,
	};
	/* CAP_SYS_ADMIN: to read the current policy by its ID. */
	static const int caps[] = { CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN, -1 };
	char path[CGROUP_PATH], own[CGROUP_PATH], dir[DIR_SIZE], id[24];
	int cgroup, lock, rc;
	sigset_t signals;
	struct stat st;
	bool again;

	parse_args(&argp, argc, argv);
	if (!have_caps(caps))
		return BPFPROV_CAP;
	if (!have_bpffs())
		return BPFPROV_FAILED;
	/* Sockets are searched below /proc. */
	if (!env.remove && !have_own_proc())
		return BPFPROV_FAILED;
	if (env.self) {
		if (own_cgroup(own, sizeof(own))) {
			say("this process is not in a cgroup v2, or its path is too long");
			return BPFPROV_GONE;
		}
		env.cgroup = own;
	}
	if (!env.cgroup)
		return lock_all(false, &lock) ?: show(lock, NULL, NULL);

	rc = find_cgroup(&cgroup, path, sizeof(path), dir, sizeof(dir), id, sizeof(id));
	if (rc)
		return rc;
	if (env.self && !is_member(cgroup)) {
		say("this process is not in %s: " CGROUPFS
		    " has another root than its cgroup namespace", path);
		close(cgroup);
		return BPFPROV_GONE;
	}
	if (!env.show && !env.remove) {
		if (cgroup < 0) {
			say("there is no cgroup %s", env.cgroup);
			return BPFPROV_GONE;
		}
		rc = do_confine(cgroup, dir, path);
		close(cgroup);
		return rc;
	}

	if (cgroup >= 0)
		close(cgroup);
	rc = lock_all(false, &lock);
	if (rc)
		return rc;
	if (lock < 0 || (lstat(dir, &st) && errno == ENOENT)) {
		again = cgroup >= 0 && each_confined(lock, was_confined, path) < 0;
		if (lock >= 0)
			close(lock);
		release_messages();
		if (again)
			say("%s is not confined: it was made again since; %s", env.cgroup, REMAKE);
		else
			say("%s is not confined", env.cgroup);
		return BPFPROV_GONE;
	}
	rc = check_pins(dir);
	if (rc) {
		close(lock);
		release_messages();
		return rc;
	}
	if (env.show)
		return show(lock, dir, id);
	block_signals(&signals);
	remove_dir(dir);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	rc = access(dir, F_OK) ? BPFPROV_OK : BPFPROV_FAILED;
	close(lock);
	release_messages();
	if (rc)
		say("%s: not all could be removed", dir);
	return rc;
}
