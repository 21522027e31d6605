// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov confine - hold a cgroup to its addresses.
 *
 * A cgroup that is confined has a directory in the BPF file system, named after
 * its ID: the links to its hooks, which keep them attached, and "policy", the map
 * that they all read. Who changes it holds a lock on that directory.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bpfprov.h"
#include "confine.h"
#include "confine.skel.h"

#define BPFFS		"/sys/fs/bpf"
#define CONFINE_DIR	BPFFS "/bpfprov"
#define CGROUPFS	"/sys/fs/cgroup"
#define CGROUP2_MAGIC	0x63677270
#define BPFFS_MAGIC	0xcafe4a11
/* CONFINE_DIR and an ID. */
#define DIR_SIZE	64

static struct {
	const char *cgroup;
	struct policy policy;
	bool show, remove;
} env;

enum { OPT_IP = 1, OPT_MAP, OPT_SHOW, OPT_REMOVE };

static const struct argp_option options[] = {
	{ "ip", OPT_IP, "ADDR", 0, "the address; once for IPv4, once for IPv6", 0 },
	{ "map", OPT_MAP, "localhost:PORT=ADDR:PORT", 0,
	  "what goes to localhost:PORT goes to ADDR:PORT; [ADDR6]:PORT for IPv6", 0 },
	{ "show", OPT_SHOW, NULL, 0, "show what is confined to what; all of it without CGROUP", 0 },
	{ "remove", OPT_REMOVE, NULL, 0, "confine it no more", 0 },
	{}
};

static const char doc[] =
	"Hold the sockets of a cgroup, and of those below it, to one IP address per family.\n"
	"\vExample:\n"
	"  bpfprov confine web --ip 192.0.2.10 --map localhost:5432=192.0.2.20:5432\n"
	"  bpfprov confine --show\n"
	"  bpfprov confine web --remove\n"
	"\n"
	"CGROUP is a path, or one below /sys/fs/cgroup. Listening on any address or\n"
	"on localhost listens on ADDR; connections come from ADDR; localhost is ADDR,\n"
	"but for the ports that --map sends elsewhere. Any other local address, and a\n"
	"family without ADDR, is refused with EPERM. It stays when this program ends.\n"
	"A second call replaces addresses and maps in one step. Sockets that are bound\n"
	"or connected already stay as they are.\n"
	"Needs CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN.";

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
	/* any, mapped, multicast; and link-local, which needs an interface. */
	return (ip[0] || ip[1] || (ip[2] && ip[2] != htonl(0xffff)) || ntohl(ip[3]) == 1) &&
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct policy *p = &env.policy;
	bool is_ip4;
	__u32 ip[4];
	char *copy;

	switch (key) {
	case OPT_IP:
		if (!parse_ip(arg, ip, &is_ip4))
			argp_error(state, "--ip %s is no address to hold a socket to", arg);
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
		free(copy);
		p->redirects++;
		return 0;
	case OPT_SHOW:
		env.show = true;
		return 0;
	case OPT_REMOVE:
		env.remove = true;
		return 0;
	case ARGP_KEY_ARG:
		if (env.cgroup)
			argp_error(state, "one cgroup at a time");
		env.cgroup = arg;
		return 0;
	case ARGP_KEY_END:
		if (env.show + env.remove + (p->has_ip4 || p->has_ip6 || p->redirects) != 1)
			argp_error(state, "one of --ip, --show and --remove is needed");
		if (!env.show && !env.cgroup)
			argp_error(state, "which cgroup?");
		if (p->redirects && !p->has_ip4 && !p->has_ip6)
			argp_error(state, "--map needs --ip");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- hooks ------------------------------------------------------------------ */

#define HOOKS 9

struct hook {
	const char *name;
	struct bpf_program *prog;
	bool there;		/* pinned already */
};

/*
 * autobind comes first and post_bind next, so that no socket that the others have
 * let pass is refused later; nothing depends on the rest of the order.
 */
static void list_hooks(struct confine_bpf *skel, struct hook *hooks)
{
	hooks[0] = (struct hook){ "autobind", skel->progs.autobind };
	hooks[1] = (struct hook){ "bind4", skel->progs.bind4 };
	hooks[2] = (struct hook){ "bind6", skel->progs.bind6 };
	hooks[3] = (struct hook){ "connect4", skel->progs.connect4 };
	hooks[4] = (struct hook){ "connect6", skel->progs.connect6 };
	hooks[5] = (struct hook){ "sendmsg4", skel->progs.sendmsg4 };
	hooks[6] = (struct hook){ "sendmsg6", skel->progs.sendmsg6 };
	hooks[7] = (struct hook){ "post_bind4", skel->progs.post_bind4 };
	hooks[8] = (struct hook){ "post_bind6", skel->progs.post_bind6 };
}

/* --- places ------------------------------------------------------------------ */

/* The path of CGROUP, and a descriptor of it, or -1 after saying why not. */
static int open_cgroup(char *path, size_t size)
{
	const char *name = env.cgroup;
	struct statfs fs;
	int fd;

	if ((size_t)snprintf(path, size, "%s", name) >= size) {
		say("%.40s...: a path of less than %zu bytes is needed", name, size);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && !fstatfs(fd, &fs) && fs.f_type == CGROUP2_MAGIC)
		return fd;
	if (fd >= 0)
		close(fd);
	if ((size_t)snprintf(path, size, CGROUPFS "/%s", name) >= size) {
		say("%.40s...: a path of less than %zu bytes is needed", name, size);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		say("there is no cgroup %s", name);
		return -1;
	}
	if (fstatfs(fd, &fs) || fs.f_type != CGROUP2_MAGIC) {
		say("%s is no cgroup of version 2", path);
		close(fd);
		return -1;
	}
	return fd;
}

static bool have_bpffs(void)
{
	struct statfs fs;

	if (!statfs(BPFFS, &fs) && (unsigned int)fs.f_type == BPFFS_MAGIC)
		return true;
	say("no BPF file system is mounted: mount -t bpf none %s", BPFFS);
	return false;
}

/* A directory of what is confined, with a lock on it; -1 with errno. */
static int lock_dir(const char *dir, bool make)
{
	struct stat mine, there;
	int fd;

	if (make && ((mkdir(CONFINE_DIR, 0700) && errno != EEXIST) ||
		     (mkdir(dir, 0700) && errno != EEXIST)))
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX)) {
		close(fd);
		return -1;
	}
	/* Removed by who had the lock before, and maybe made anew by another. */
	if (fstat(fd, &mine) || stat(dir, &there) || mine.st_ino != there.st_ino ||
	    mine.st_dev != there.st_dev) {
		close(fd);
		errno = make ? EAGAIN : ENOENT;
		return -1;
	}
	return fd;
}

static int pinned(const char *dir, const char *name)
{
	char path[DIR_SIZE + 256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return bpf_obj_get(path);
}

/* --- policies ---------------------------------------------------------------- */

/* A map that holds @p, for the map of maps; or -1 with errno. */
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

static bool read_policy(int policies, struct policy *p)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0, id;
	bool ok;
	int fd;

	if (bpf_map_lookup_elem(policies, &zero, &id))
		return false;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return false;
	ok = !bpf_map_get_info_by_fd(fd, &info, &len) && info.value_size == sizeof(*p) &&
	     !bpf_map_lookup_elem(fd, &zero, p) && p->version == POLICY_VERSION;
	close(fd);
	return ok;
}

/* Returns 0 when @policies has it: from then on, all that is attached goes by it. */
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

/* --- confine ------------------------------------------------------------------ */

static void unpin(const char *dir, const char *name)
{
	char path[DIR_SIZE + 256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Attach what is missing. On an error everything that this call did is undone. */
static int attach(struct hook *hooks, int cgroup, const char *dir)
{
	char path[DIR_SIZE + 256];
	int i, fd, err;

	for (i = 0; i < HOOKS; i++) {
		if (hooks[i].there || !bpf_program__autoload(hooks[i].prog))
			continue;
		fd = bpf_link_create(bpf_program__fd(hooks[i].prog), cgroup,
				     bpf_program__expected_attach_type(hooks[i].prog), NULL);
		err = fd < 0 ? -errno : 0;
		snprintf(path, sizeof(path), "%s/%s", dir, hooks[i].name);
		if (!err && bpf_obj_pin(fd, path))
			err = -errno;
		if (fd >= 0)
			close(fd);
		if (err) {
			say("attaching %s: %s", hooks[i].name, strerror(-err));
			while (--i >= 0)
				if (!hooks[i].there && bpf_program__autoload(hooks[i].prog))
					unpin(dir, hooks[i].name);
			return err;
		}
	}
	return 0;
}

static void remove_dir(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int link;

	/*
	 * The links first: without a policy they would refuse everything. Taking the
	 * last reference detaches them some time later; this is to be over now.
	 */
	while (d && (e = readdir(d))) {
		if (*e->d_name == '.' || !strcmp(e->d_name, "policy"))
			continue;
		link = pinned(dir, e->d_name);
		if (link >= 0) {
			bpf_link_detach(link);
			close(link);
		}
		unpin(dir, e->d_name);
	}
	if (d)
		closedir(d);
	unpin(dir, "policy");
	rmdir(dir);
}

static int do_confine(int cgroup, const char *dir, const char *path)
{
	struct policy old, *p = &env.policy;
	int policies = -1, lock, i, fd, err, rc = BPFPROV_FAILED;
	struct hook hooks[HOOKS];
	struct confine_bpf *skel;
	bool missing = false;

	p->version = POLICY_VERSION;
	snprintf(p->cgroup, sizeof(p->cgroup), "%s", path);
	if (!has_feature(AUTOBIND))
		say_reduced(AUTOBIND, "who listens or sends without bind() is not confined");

	lock = lock_dir(dir, true);
	if (lock < 0) {
		say("%s: %s", dir, strerror(errno));
		return is_denied(errno) ? BPFPROV_CAP : BPFPROV_FAILED;
	}
	skel = confine_bpf__open();
	if (!skel) {
		say("the hooks: %s", strerror(errno));
		goto close_lock;
	}
	bpf_program__set_autoload(skel->progs.autobind, has_feature(AUTOBIND));
	list_hooks(skel, hooks);
	for (i = 0; i < HOOKS; i++) {
		fd = pinned(dir, hooks[i].name);
		hooks[i].there = fd >= 0;
		if (fd >= 0)
			close(fd);
		else if (bpf_program__autoload(hooks[i].prog))
			missing = true;
	}

	/*
	 * What is attached has the new policy with this one update. What is not
	 * attached yet comes after it, and finds it.
	 */
	policies = pinned(dir, "policy");
	if (policies >= 0) {
		if (!read_policy(policies, &old)) {
			say("%s was confined by another version of this program: --remove first",
			    env.cgroup);
			goto destroy;
		}
		if (old.has_ip4)
			p->old_ip4 = old.ip4;
		if (old.has_ip6)
			memcpy(p->old_ip6, old.ip6, sizeof(old.ip6));
		err = replace_policy(policies, p);
		if (err) {
			say("replacing the policy: %s", strerror(-err));
			goto destroy;
		}
		bpf_map__reuse_fd(skel->maps.policies, policies);
	}
	if (missing) {
		err = confine_bpf__load(skel);
		if (err) {
			say("loading the hooks: %s", strerror(-err));
			rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_KERNEL;
			goto undo;
		}
		if (policies < 0) {
			char pin[DIR_SIZE + 8];

			err = replace_policy(bpf_map__fd(skel->maps.policies), p);
			snprintf(pin, sizeof(pin), "%s/policy", dir);
			if (!err && bpf_obj_pin(bpf_map__fd(skel->maps.policies), pin))
				err = -errno;
			if (err) {
				say("the policy: %s", strerror(-err));
				goto undo;
			}
		}
		err = attach(hooks, cgroup, dir);
		if (err) {
			rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
			goto undo;
		}
	}
	rc = BPFPROV_OK;
	goto destroy;
undo:
	if (policies < 0)
		remove_dir(dir);
	else
		replace_policy(policies, &old);
destroy:
	confine_bpf__destroy(skel);
	if (policies >= 0)
		close(policies);
close_lock:
	close(lock);
	return rc;
}

/* --- show ---------------------------------------------------------------------- */

static void print_ip(const __u32 ip[4])
{
	char s[INET6_ADDRSTRLEN];
	bool ip4 = !ip[0] && !ip[1] && ip[2] == htonl(0xffff);

	inet_ntop(ip4 ? AF_INET : AF_INET6, ip4 ? &ip[3] : ip, s, sizeof(s));
	printf("%s", s);
}

/* Is the cgroup that the link was attached to still there? */
static bool is_attached(int link)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);

	return !bpf_link_get_info_by_fd(link, &info, &len) && info.cgroup.cgroup_id;
}

static int show_dir(const char *dir, const char *id)
{
	static const char * const names[HOOKS] = {
		"autobind", "bind4", "bind6", "connect4", "connect6", "sendmsg4", "sendmsg6",
		"post_bind4", "post_bind6",
	};
	int policies = pinned(dir, "policy"), link;
	struct policy p;
	__u32 i;
	bool ok;

	ok = policies >= 0 && read_policy(policies, &p);
	if (policies >= 0)
		close(policies);
	if (!ok) {
		say("cgroup %s: its policy cannot be read", id);
		return BPFPROV_FAILED;
	}
	p.cgroup[sizeof(p.cgroup) - 1] = 0;
	printf("%s%s%s (id %s)\n", colour(stdout, BOLD), p.cgroup, colour(stdout, PLAIN), id);
	if (p.has_ip4) {
		const __u32 ip[4] = { 0, 0, htonl(0xffff), p.ip4 };

		printf("  ip ");
		print_ip(ip);
		printf("\n");
	}
	if (p.has_ip6) {
		printf("  ip ");
		print_ip(p.ip6);
		printf("\n");
	}
	for (i = 0; i < p.redirects && i < MAX_REDIRECTS; i++) {
		const struct redirect *r = &p.redirect[i];
		bool ip4 = !r->ip[0] && !r->ip[1] && r->ip[2] == htonl(0xffff);

		printf("  map localhost:%u=%s", ntohs(r->from_port), ip4 ? "" : "[");
		print_ip(r->ip);
		printf("%s:%u\n", ip4 ? "" : "]", ntohs(r->to_port));
	}
	printf("  hooks");
	for (i = 0; i < ARRAY_LEN(names); i++) {
		link = pinned(dir, names[i]);
		if (link >= 0)
			printf(" %s%s", names[i], is_attached(link) ? "" : "(cgroup is gone)");
		else
			printf(" %sno-%s%s", colour(stdout, RED), names[i], colour(stdout, PLAIN));
		if (link >= 0)
			close(link);
	}
	printf("\n");
	return BPFPROV_OK;
}

static int show_all(void)
{
	int rc = BPFPROV_OK, one;
	struct dirent *e;
	char dir[DIR_SIZE];
	DIR *d;

	d = opendir(CONFINE_DIR);
	while (d && (e = readdir(d))) {
		if (*e->d_name < '0' || *e->d_name > '9')
			continue;
		snprintf(dir, sizeof(dir), CONFINE_DIR "/%.20s", e->d_name);
		one = show_dir(dir, e->d_name);
		if (one)
			rc = one;
	}
	if (d)
		closedir(d);
	return rc;
}

int cmd_confine(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "CGROUP --ip ADDR [--ip ADDR6]\n[CGROUP] --show\nCGROUP --remove",
		.doc = doc,
	};
	/* CAP_SYS_ADMIN: to read a policy that is in force, by its ID. */
	static const int caps[] = { CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN, -1 };
	char path[CGROUP_PATH], dir[DIR_SIZE], id[24];
	int cgroup = -1, lock, rc;
	struct stat st;

	parse_args(&argp, argc, argv);
	if (!have_caps(caps))
		return BPFPROV_CAP;
	if (!have_bpffs())
		return BPFPROV_FAILED;
	if (!env.cgroup) {
		rc = show_all();
		return finish_output(stdout, "standard output") ? BPFPROV_FAILED : rc;
	}

	/* One that is gone can be named by its ID, which --show prints. */
	snprintf(id, sizeof(id), "%s", env.cgroup);
	snprintf(dir, sizeof(dir), CONFINE_DIR "/%s", id);
	if (env.cgroup[strspn(env.cgroup, "0123456789")] || access(dir, F_OK)) {
		cgroup = open_cgroup(path, sizeof(path));
		if (cgroup < 0)
			return BPFPROV_GONE;
		if (fstat(cgroup, &st)) {
			say("%s: %s", path, strerror(errno));
			return BPFPROV_FAILED;
		}
		snprintf(id, sizeof(id), "%llu", (unsigned long long)st.st_ino);
		snprintf(dir, sizeof(dir), CONFINE_DIR "/%s", id);
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
	lock = lock_dir(dir, false);
	if (lock < 0) {
		say("%s is not confined", env.cgroup);
		return BPFPROV_GONE;
	}
	if (env.show) {
		rc = show_dir(dir, id);
		if (finish_output(stdout, "standard output"))
			rc = BPFPROV_FAILED;
	} else {
		remove_dir(dir);
		rc = access(dir, F_OK) ? BPFPROV_OK : BPFPROV_FAILED;
		if (rc)
			say("%s: not all could be removed", dir);
	}
	close(lock);
	return rc;
}
