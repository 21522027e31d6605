// SPDX-License-Identifier: GPL-2.0
/*
 * Not a test: measures what operations cost that the series touches, and prints
 * a line for each:
 *
 *	bench TAB operation TAB x TAB costs
 *
 * x is what grows (frames, VMAs, listeners) or which programs are attached;
 * costs are those of REPEAT runs, in nanoseconds per operation. In a VM with
 * QEMU's -icount shift=0 a nanosecond is an instruction, user mode's few of
 * the measuring loop included.
 *
 * Arguments select operations by the start of their name. It fails when an
 * operation fails; nothing that went wrong is reported as a cost.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/bpf.h>
#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bench.h"
#include "bench.skel.h"
#include "common.h"

#define REPEAT 7
#define MAX_FILES ARRAY_LEN(chain.frame)
#define CGROUP "bpf_provenance_bench"
#define SIBLING "bpf_provenance_bench_sibling"

static struct bench *skel;
static char **wanted;

static void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool is_wanted(const char *name)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(name, *w, strlen(*w)))
			return true;
	return w == wanted;
}

/* Is any operation wanted whose name starts with @group? */
static bool group_wanted(const char *group)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(group, *w, strlen(group)))
			return true;
	return is_wanted(group);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/*
 * An operation: op() is what is measured; before() and after() are not. Each
 * dies when something fails.
 */
struct op {
	void (*before)(void *arg);
	void (*op)(void *arg);
	void (*after)(void *arg);
	void *arg;
	unsigned int times;
};

#define MAX_TIMES 1000

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median: a timer's tick, or work of others that came due, is not what it costs. */
static double once(const struct op *op)
{
	static uint64_t costs[MAX_TIMES];
	unsigned int i;
	uint64_t start;

	for (i = 0; i < op->times; i++) {
		if (op->before)
			op->before(op->arg);
		start = now();
		if (op->op)
			op->op(op->arg);
		costs[i] = now() - start;
		if (op->after)
			op->after(op->arg);
	}
	qsort(costs, op->times, sizeof(costs[0]), compare);
	return costs[(op->times - 1) / 2];
}

/* What reading the clock costs, which every operation contains. */
static double clock_cost(void)
{
	static const struct op nothing = { .times = MAX_TIMES };
	static double cost;

	if (!cost)
		cost = once(&nothing);
	return cost;
}

/* Measures @op and prints the costs less @base, each divided by @by. */
static void report(const char *name, const char *x, const struct op *op, double base, double by)
{
	int i;

	if (!is_wanted(name))
		return;
	once(op);	/* warm: page cache, slab caches, branches that patch */
	printf("bench\t%s\t%s\t", name, x);
	for (i = 0; i < REPEAT; i++)
		printf("%s%.1f", i ? " " : "", (once(op) - clock_cost() - base) / by);
	printf("\n");
	fflush(stdout);
}

static double cost(const struct op *op)
{
	once(op);
	return once(op) - clock_cost();
}

/* --- stacks --------------------------------------------------------------- */

static struct bench_chain chain;

static void call_chain(void *arg)
{
	chain.depth = BENCH_FRAMES;
	chain.frame[0](&chain);
}

static char scratch[200];

static void frame_path(char *path, size_t size, int i)
{
	snprintf(path, size, "%s/frame%d.so", scratch, i);
}

/* Makes @n copies of libframe.so, or removes them. */
static void copy_frames(int n, bool remove)
{
	char path[256];
	int i;

	for (i = 0; i < n; i++) {
		frame_path(path, sizeof(path), i);
		if (remove ? unlink(path) : copy_file("libframe.so", path))
			die(path);
	}
}

/* Loads the first @files copies: each is a file of its own. */
static void load_frames(int files)
{
	char path[256];
	void *lib;
	int i;

	chain.files = files;
	for (i = 0; i < files; i++) {
		frame_path(path, sizeof(path), i);
		lib = dlopen(path, RTLD_NOW);
		if (!lib)
			die(dlerror());
		chain.frame[i] = dlsym(lib, "frame");
		if (!i)
			chain.leaf = dlsym(lib, "leaf");
	}
}

static void bench_stack(const char *name, enum bench_mode mode, int files)
{
	static const int frames[] = { 1, 4, 16, 50 };
	struct op op = { .op = call_chain, .times = 200 };
	size_t each = mode == BENCH_STACK ? sizeof(uint64_t) : sizeof(struct bpf_stack_build_id);
	char x[16];
	double base;
	int i;

	if (!is_wanted(name))
		return;
	load_frames(files);
	skel->bss->mode = BENCH_NOTHING;
	base = cost(&op);
	skel->bss->mode = mode;
	for (i = 0; i < (int)ARRAY_LEN(frames); i++) {
		skel->bss->stack_size = frames[i] * each;
		snprintf(x, sizeof(x), "%d", frames[i]);
		report(name, x, &op, base, 1);
		if (READ_ONCE(skel->bss->result) != (long)(frames[i] * each)) {
			errno = ENODATA;
			die(name);
		}
	}
	skel->bss->mode = BENCH_NOTHING;
}

static void bench_stacks(void)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = "leaf");
	static const int files[] = { 1, 2, MAX_FILES };
	char name[64], path[256];
	struct bpf_link *link;
	int i;

	if (!group_wanted("stack"))
		return;
	copy_frames(MAX_FILES, false);
	bench_stack("stack/plain", BENCH_STACK, 1);
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		snprintf(name, sizeof(name), "stack/build_id/%d_files", files[i]);
		bench_stack(name, BENCH_STACK_BUILD_ID, files[i]);
	}
	/* From here on the stack is taken by the uprobe alone. */
	bpf_link__destroy(skel->links.on_sys_enter);
	frame_path(path, sizeof(path), 0);
	link = bpf_program__attach_uprobe_opts(skel->progs.on_leaf, 0, path, 0, &opts);
	if (!link)
		die("attach to leaf()");
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		snprintf(name, sizeof(name), "stack/sleepable_build_id/%d_files", files[i]);
		bench_stack(name, BENCH_STACK_BUILD_ID, files[i]);
	}
	bpf_link__destroy(link);
	copy_frames(MAX_FILES, true);
	skel->links.on_sys_enter = bpf_program__attach(skel->progs.on_sys_enter);
	if (!skel->links.on_sys_enter)
		die("attach to sys_enter");
}

/* --- maps, queries, walks --------------------------------------------------- */

static int maps_fd;
static struct procmap_query query;
static char build_id[64];
static void *queried;

/* This program may lie on a file system whose files are not cached: a file that is. */
static void map_queried(void)
{
	char path[256];
	int fd;

	copy_frames(1, false);
	frame_path(path, sizeof(path), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	queried = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd < 0 || queried == MAP_FAILED)
		die(path);
	close(fd);
}

static void unmap_queried(void)
{
	munmap(queried, 4096);
	copy_frames(1, true);
}

static void query_one(void *arg)
{
	query.size = sizeof(query);
	query.query_addr = (uintptr_t)queried;
	query.build_id_addr = arg ? (uintptr_t)build_id : 0;
	query.build_id_size = arg ? sizeof(build_id) : 0;
	if (ioctl(maps_fd, PROCMAP_QUERY, &query) || (arg && !query.build_id_size))
		die("PROCMAP_QUERY");
}

static void query_all(void *arg)
{
	memset(&query, 0, sizeof(query));
	query.size = sizeof(query);
	query.query_flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA;
	while (!ioctl(maps_fd, PROCMAP_QUERY, &query))
		query.query_addr = query.vma_end;
	if (errno != ENOENT)
		die("PROCMAP_QUERY");
	query.query_flags = 0;
}

static void read_all(void *arg)
{
	static char buf[65536];
	ssize_t n;

	if (lseek(maps_fd, 0, SEEK_SET))
		die("seek in maps");
	while ((n = read(maps_fd, buf, sizeof(buf))) > 0)
		;
	if (n)
		die("read maps");
}

static void walk_all(void *arg)
{
	syscall(SYS_getppid);
	if (skel->bss->result || (skel->bss->mode && !skel->bss->vmas)) {
		errno = ENODATA;
		die("walk");
	}
}

/* Measures a walk, if the running kernel can do it. */
static void report_walk(const char *name, const char *x, enum bench_mode mode, struct op *walk,
			double base, double all)
{
	skel->bss->mode = mode;
	skel->bss->result = 0;
	skel->bss->vmas = 0;
	syscall(SYS_getppid);
	if (!skel->bss->result && skel->bss->vmas == all)
		report(name, x, walk, base, all);
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->result = 0;
}

static void bench_walks(void)
{
	static const int counts[] = { 40, 2000, 40000 };
	struct op walk = { .op = walk_all }, text = { .op = read_all },
		  queries = { .op = query_all };
	size_t page = sysconf(_SC_PAGESIZE), size;
	double base, all;
	char x[16];
	char *p;
	int i, j;

	if (!group_wanted("walk"))
		return;
	for (i = 0; i < (int)ARRAY_LEN(counts); i++) {
		/* Every second page differs from its neighbours: no two merge. */
		size = counts[i] * page;
		p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			die("mmap");
		for (j = 1; j < counts[i]; j += 2)
			if (mprotect(p + j * page, page, PROT_NONE))
				die("mprotect");
		walk.times = counts[i] < 10000 ? 50 : 3;
		text.times = walk.times;
		queries.times = walk.times;

		skel->bss->result = 0;
		skel->bss->mode = BENCH_NOTHING;
		base = cost(&walk);
		skel->bss->mode = BENCH_WALK;
		walk_all(NULL);
		all = skel->bss->vmas;
		snprintf(x, sizeof(x), "%.0f", all);
		report("walk/iterator", x, &walk, base, all);
		report_walk("walk/iterator_irqs_off", x, BENCH_WALK_IRQS_OFF, &walk, base, all);
		report_walk("walk/task_vma_query", x, BENCH_QUERIES, &walk, base, all);
		report("walk/maps_text", x, &text, 0, all);
		report("walk/procmap_query", x, &queries, 0, all);
		munmap(p, size);
	}
}

/* One address, from a program; by a query, if the running kernel can do it. */
static void report_lookups(const char *x, const void *addr, const struct op *op, double base)
{
	skel->bss->query_addr = (uintptr_t)addr;
	skel->bss->mode = BENCH_FIND_VMA;
	report("lookup/find_vma", x, op, base, 1);
	skel->bss->mode = BENCH_QUERY;
	skel->bss->result = 1;
	skel->bss->build_id_len = 0;
	syscall(SYS_getppid);
	if (!skel->bss->result) {
		if (addr == queried && !skel->bss->build_id_len)
			die("the build ID is not known");
		report("lookup/task_vma_query", x, op, base, 1);
	}
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->result = 0;
}

/* The text of this program; a file whose build ID is kept; no file. */
static void bench_lookups(void)
{
	struct op op = { .op = walk_all, .times = 200 };
	double base;

	if (!group_wanted("lookup"))
		return;
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->vmas = 1;
	skel->bss->result = 0;
	base = cost(&op);
	map_queried();
	report_lookups("text", &bench_lookups, &op, base);
	report_lookups("build_id", queried, &op, base);
	report_lookups("stack", &op, &op, base);
	unmap_queried();
}

static void bench_queries(void)
{
	struct op op = { .op = query_one, .times = 200 };

	if (!group_wanted("procmap_query"))
		return;
	map_queried();
	report("procmap_query", "no_build_id", &op, 0, 1);
	op.arg = build_id;
	report("procmap_query", "build_id", &op, 0, 1);
	unmap_queried();
}

/* --- files ------------------------------------------------------------------ */

static char tiny[256];
static int lib_fd;

static void run_tiny(void *arg)
{
	int status;
	pid_t pid;

	pid = vfork();
	if (!pid) {
		execl(tiny, tiny, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die(tiny);
}

static void map_exec(void *arg)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, lib_fd, 0);

	if (p == MAP_FAILED || munmap(p, 4096))
		die("mmap of a file");
}

static void open_lib(const char *path, int flags)
{
	lib_fd = open(path, flags | O_CLOEXEC);
	if (lib_fd < 0)
		die(path);
}

static void open_write(void *arg)
{
	open_lib(arg, O_WRONLY);
}

static void close_lib(void *arg)
{
	close(lib_fd);
}

/* Has its build ID kept. */
static void map_once(void *arg)
{
	open_lib(arg, O_RDONLY);
	map_exec(NULL);
	close(lib_fd);
}

static void report_files(const char *x, char *path)
{
	struct op exec = { .op = run_tiny, .times = 20 },
		  map = { .op = map_exec, .times = 200 },
		  first = { map_once, open_write, close_lib, path, 200 },
		  again = { NULL, open_write, close_lib, path, 200 };

	report("file/exec", x, &exec, 0, 1);
	open_lib(path, O_RDONLY);
	report("file/mmap_exec", x, &map, 0, 1);
	close(lib_fd);
	report("file/open_write_mapped", x, &first, 0, 1);
	report("file/open_write", x, &again, 0, 1);
}

/* While build IDs are kept, and while that is switched off, where there is such a switch. */
static void bench_files(void)
{
	static const char cache[] = "/proc/sys/kernel/build_id_cache";
	char path[256];

	if (!group_wanted("file"))
		return;
	snprintf(tiny, sizeof(tiny), "%s/tiny", scratch);
	frame_path(path, sizeof(path), 0);
	copy_frames(1, false);
	if (copy_file("tiny", tiny))
		die(tiny);
	report_files("kept", path);
	write_value(cache, "0");
	report_files("off", path);
	write_value(cache, "1");
	copy_frames(1, true);
	unlink(tiny);
}

/* --- loads ------------------------------------------------------------------ */

#define MAX_FUNCTIONS 256
#define MAX_LISTENERS 64
#define RING_PAGES 64

static struct listener {
	int fd;
	struct perf_event_mmap_page *ring;
} listeners[MAX_LISTENERS];
static int listening;

/*
 * Listeners that want to know whose an address is: with @subprog they ask for
 * the records that say so, and where there are none for what there is.
 */
static void listen_to(int n, bool subprog)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.ksymbol = 1,
		.bpf_event = 1,
		.bpf_subprog = subprog,
		.watermark = 1,
		.wakeup_watermark = 1U << 30,
	};
	struct listener *l;

	for (; listening < n; listening++) {
		l = &listeners[listening];
		l->fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
		if (l->fd < 0 && errno == EINVAL) {
			attr.bpf_subprog = 0;
			l->fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1,
					PERF_FLAG_FD_CLOEXEC);
		}
		if (l->fd < 0)
			die("perf_event_open");
		l->ring = mmap(NULL, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE),
			       PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
		if (l->ring == MAP_FAILED)
			die("mmap a ring");
	}
}

/* A full ring drops, which costs less. */
static void drain(void *arg)
{
	int i;

	for (i = 0; i < listening; i++)
		__atomic_store_n(&listeners[i].ring->data_tail,
				 __atomic_load_n(&listeners[i].ring->data_head, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
}

static struct bpf_insn insns[FUNCTIONS_INSNS(MAX_FUNCTIONS)];
static int insn_cnt;

static void load_and_close(void *arg)
{
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "bench", "GPL", insns, insn_cnt, NULL);

	if (fd < 0)
		die("load a program");
	close(fd);
}

static void bench_loads_heard(bool subprog)
{
	static const int functions[] = { 1, 21, MAX_FUNCTIONS };
	static const int counts[] = { 0, 1, 16, MAX_LISTENERS };
	struct op op = { .op = load_and_close, .after = drain };
	char name[64], x[16];
	int i, j;

	/* Listeners are only added: the number goes up in the outer loop. */
	for (j = 0; j < (int)ARRAY_LEN(counts); j++) {
		listen_to(counts[j], subprog);
		for (i = 0; i < (int)ARRAY_LEN(functions); i++) {
			insn_cnt = make_functions(insns, functions[i]);
			op.times = functions[i] < MAX_FUNCTIONS ? 20 : 2;
			snprintf(name, sizeof(name), "load/%d_functions%s",
				 functions[i], subprog ? "_subprog" : "");
			snprintf(x, sizeof(x), "%d", counts[j]);
			report(name, x, &op, 0, 1);
		}
	}
	while (listening) {
		listening--;
		munmap(listeners[listening].ring, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE));
		close(listeners[listening].fd);
	}
}

static void bench_loads(void)
{
	if (!group_wanted("load"))
		return;
	bench_loads_heard(false);
	bench_loads_heard(true);
}

/* --- sockets ---------------------------------------------------------------- */

static struct sockaddr_in any_port = { .sin_family = AF_INET };
static struct sockaddr_in peer;
static int sock, server;

static void new_tcp(void *arg)
{
	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (sock < 0)
		die("socket");
}

static void new_udp(void *arg)
{
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0)
		die("socket");
}

static void new_sctp(void *arg)
{
	sock = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	if (sock < 0)
		die("socket");
}

static void do_bind(void *arg)
{
	if (bind(sock, (void *)&any_port, sizeof(any_port)))
		die("bind");
}

static void new_bound_tcp(void *arg)
{
	new_tcp(arg);
	do_bind(arg);
}

static void do_listen(void *arg)
{
	if (listen(sock, 1))
		die("listen");
}

static void do_connect(void *arg)
{
	if (connect(sock, (void *)&peer, sizeof(peer)))
		die("connect");
}

static void new_connected_tcp(void *arg)
{
	new_tcp(arg);
	do_connect(arg);
}

static void new_connected_udp(void *arg)
{
	new_udp(arg);
	do_connect(arg);
}

static void do_sendto(void *arg)
{
	if (sendto(sock, "x", 1, 0, (void *)&peer, sizeof(peer)) != 1)
		die("sendto");
}

static void do_send(void *arg)
{
	if (sendto(sock, "x", 1, 0, NULL, 0) != 1)
		die("send");
}

static void close_sock(void *arg)
{
	close(sock);
}

static void receive_and_close(void *arg)
{
	char c;

	if (recv(server, &c, 1, 0) != 1)
		die("recv");
	close(sock);
}

/* Reset, so that no port stays in TIME_WAIT. */
static void accept_and_close(void *arg)
{
	struct linger now = { .l_onoff = 1 };
	int fd = accept(server, NULL, NULL);

	if (fd < 0)
		die("accept");
	setsockopt(sock, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(sock);
	close(fd);
}

static void serve(int type, int protocol)
{
	socklen_t len = sizeof(peer);

	server = socket(AF_INET, type, protocol);
	if (server < 0 || bind(server, (void *)&any_port, sizeof(any_port)) ||
	    (type == SOCK_STREAM && listen(server, 8)) ||
	    getsockname(server, (void *)&peer, &len))
		die("server");
}

static const struct sock_op {
	const char *name;
	int server;		/* its type, or 0 */
	struct op op;
	int protocol;		/* of the server */
} sock_ops[] = {
	{ "sock/tcp_bind", 0, { new_tcp, do_bind, close_sock, NULL, 100 } },
	{ "sock/tcp_listen", 0, { new_bound_tcp, do_listen, close_sock, NULL, 100 } },
	{ "sock/tcp_listen_unbound", 0, { new_tcp, do_listen, close_sock, NULL, 100 } },
	{ "sock/tcp_connect", SOCK_STREAM, { new_tcp, do_connect, accept_and_close, NULL, 100 } },
	{ "sock/tcp_sendto", SOCK_STREAM,
	  { new_connected_tcp, do_send, accept_and_close, NULL, 100 } },
	{ "sock/udp_bind", 0, { new_udp, do_bind, close_sock, NULL, 100 } },
	{ "sock/udp_connect", SOCK_DGRAM, { new_udp, do_connect, close_sock, NULL, 100 } },
	{ "sock/udp_reconnect", SOCK_DGRAM,
	  { new_connected_udp, do_connect, close_sock, NULL, 100 } },
	{ "sock/udp_sendto", SOCK_DGRAM, { new_udp, do_sendto, receive_and_close, NULL, 100 } },
	{ "sock/sctp_bind", 0, { new_sctp, do_bind, close_sock, NULL, 100 } },
	{ "sock/sctp_listen_unbound", 0, { new_sctp, do_listen, close_sock, NULL, 100 } },
	{ "sock/sctp_connect", SOCK_STREAM, { new_sctp, do_connect, accept_and_close, NULL, 100 },
	  IPPROTO_SCTP },
};

static void bench_sock_ops(const char *programs)
{
	int i;

	for (i = 0; i < (int)ARRAY_LEN(sock_ops); i++) {
		if (sock_ops[i].server)
			serve(sock_ops[i].server, sock_ops[i].protocol);
		report(sock_ops[i].name, programs, &sock_ops[i].op, 0, 1);
		if (sock_ops[i].server)
			close(server);
	}
}

static void bench_sockets(void)
{
	struct bpf_program *progs[] = {
		skel->progs.pass_bind4, skel->progs.pass_post_bind4,
		skel->progs.pass_connect4, skel->progs.pass_sendmsg4,
		skel->progs.pass_autobind,
	};
	/* The last program only where the kernel has it: elsewhere it costs nothing. */
	static const struct {
		const char *name;
		int cgroup, progs;
	} sets[] = {
		{ "sibling", 0, ARRAY_LEN(progs) },
		{ "own", 1, ARRAY_LEN(progs) - 1 },
		{ "own_autobind", 1, ARRAY_LEN(progs) },
	};
	struct bpf_link *links[ARRAY_LEN(progs)];
	int cgroups[2], i, j;

	if (!group_wanted("sock"))
		return;
	any_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cgroups[0] = cgroup_enter(SIBLING);
	cgroups[1] = cgroup_enter(CGROUP);
	if (cgroups[0] < 0 || cgroups[1] < 0)
		die("cgroup");
	bench_sock_ops("none");
	for (i = 0; i < (int)ARRAY_LEN(sets); i++) {
		for (j = 0; j < sets[i].progs; j++) {
			links[j] = NULL;
			if (bpf_program__fd(progs[j]) < 0)
				continue;
			links[j] = bpf_program__attach_cgroup(progs[j], cgroups[sets[i].cgroup]);
			if (!links[j])
				die("attach to a cgroup");
		}
		bench_sock_ops(sets[i].name);
		for (j = 0; j < sets[i].progs; j++)
			bpf_link__destroy(links[j]);
	}
	for (i = 0; i < 2; i++)
		close(cgroups[i]);
	cgroup_leave(CGROUP);
	cgroup_leave(SIBLING);
}

int main(int argc, char **argv)
{
	char dir[256];
	ssize_t n;

	/* Its files lie beside it. */
	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	if (n < 0)
		die("/proc/self/exe");
	dir[n] = 0;
	if (chdir(dirname(dir)))
		die(dir);
	wanted = argv + 1;
	if (scratch_dir(scratch, sizeof(scratch)))
		die("scratch directory");
	maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps_fd < 0)
		die("/proc/self/maps");
	skel = bench__open();
	if (!skel)
		die("open");
	bpf_program__set_autoload(skel->progs.pass_autobind, has_autobind());
	if (bench__load(skel))
		die("load");
	skel->bss->target = getpid();
	skel->bss->syscall_nr = SYS_getppid;
	skel->links.on_sys_enter = bpf_program__attach(skel->progs.on_sys_enter);
	if (!skel->links.on_sys_enter)
		die("attach to sys_enter");
	bench_stacks();
	bench_walks();
	bench_lookups();
	/* The rest is measured without a program on every system call. */
	bpf_link__destroy(skel->links.on_sys_enter);
	skel->links.on_sys_enter = NULL;
	bench_queries();
	bench_files();
	bench_loads();
	bench_sockets();
	bench__destroy(skel);
	rmdir(scratch);
	return 0;
}
