// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of loading BPF programs and of making images while perf events listen, and of
 * filters of classic BPF, which have no records.
 */
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bench.h"
#include "common.h"
#include "perf_ring.h"

#define MAX_FUNCTIONS 256
#define MAX_LISTENERS 64
#define RING_PAGES 64

static struct listener {
	int fd;
	struct perf_event_mmap_page *ring;
} listeners[MAX_LISTENERS];
static int listening;

/*
 * Listeners that attribute addresses to programs. With @subprog they request records of
 * subprograms, or the other ones on a kernel without these.
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

static void stop_listening(void)
{
	while (listening) {
		listening--;
		munmap(listeners[listening].ring, (1 + RING_PAGES) * sysconf(_SC_PAGESIZE));
		close(listeners[listening].fd);
	}
}

/* A full ring drops records, which costs less. */
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

static void bench_loads_with(bool subprog)
{
	static const int functions[] = { 1, 21, MAX_FUNCTIONS };
	static const int counts[] = { 0, 1, 16, MAX_LISTENERS };
	struct op op = { .op = load_and_close, .after = drain };
	char name[64], x[16];
	int i, j;

	/* Listeners are only added: the number grows in the outer loop. */
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
	stop_listening();
}

static void bench_loads(void)
{
	bench_loads_with(false);
	bench_loads_with(true);
}
BENCH("load", bench_loads);

/* --- images ----------------------------------------------------------------- */

#define MULTI_FUNCTIONS 256

static struct {
	uint32_t ids[MULTI_FUNCTIONS];
	int nr;
	int prog;
	int link;
} multi;

static int link_functions(const uint32_t *ids, int nr)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);

	opts.tracing_multi.ids = (uint32_t *)ids;
	opts.tracing_multi.cnt = nr;
	return bpf_link_create(multi.prog, 0, BPF_TRACE_FENTRY_MULTI, &opts);
}

/* Images are freed in work items, some grace periods after their link. */
static void open_observer(struct perf_rings *observer)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();

	attr.ksymbol = 1;
	errno = -perf_rings_open(observer, &attr, RING_PAGES);
	if (errno)
		die("listen to the end of images");
}

static void wait_for_images(struct perf_rings *observer, int nr)
{
	const struct {
		struct perf_event_header header;
		uint64_t addr;
		uint32_t len;
		uint16_t ksym_type;
		uint16_t flags;
		char name[];
	} *k;
	int i;

	for (;;) {
		for (i = 0; i < observer->nr; i++)
			while ((k = (const void *)perf_ring_next(observer->ring[i])))
				nr -= k->header.type == PERF_RECORD_KSYMBOL &&
				      k->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER &&
				      !strncmp(k->name, "bpf_trampoline_", 15);
		if (nr <= 0)
			break;
		usleep(1000);
	}
	perf_rings_close(observer);
}

/* System calls to which a program can be attached. */
static void find_functions(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct perf_rings observer;
	uint32_t id;
	int link;

	if (!btf)
		die("BTF of the kernel");
	open_observer(&observer);
	for (id = 1; id < btf__type_cnt(btf) && multi.nr < MULTI_FUNCTIONS; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!btf_is_func(t) ||
		    strncmp(btf__name_by_offset(btf, t->name_off), "__x64_sys_", 10))
			continue;
		link = link_functions(&id, 1);
		if (link < 0)
			continue;
		close(link);
		multi.ids[multi.nr++] = id;
	}
	wait_for_images(&observer, multi.nr);
	btf__free(btf);
	errno = ENOENT;
	if (multi.nr < MULTI_FUNCTIONS)
		die("functions to attach to");
}

static void make_link(void *arg)
{
	multi.link = link_functions(multi.ids, multi.nr);
	if (multi.link < 0)
		die("link to many functions");
}

static void close_link(void *arg)
{
	struct perf_rings observer;

	drain(arg);
	open_observer(&observer);
	close(multi.link);
	wait_for_images(&observer, multi.nr);
	drain(arg);
}

static void bench_multi_with(bool subprog)
{
	static const int counts[] = { 0, 1, 16, MAX_LISTENERS };
	struct op op = { .op = make_link, .after = close_link, .times = 1 };
	char name[64], x[16];
	int i;

	snprintf(name, sizeof(name), "multi/%d_functions%s", MULTI_FUNCTIONS,
		 subprog ? "_subprog" : "");
	for (i = 0; i < (int)ARRAY_LEN(counts); i++) {
		listen_to(counts[i], subprog);
		snprintf(x, sizeof(x), "%d", counts[i]);
		report(name, x, &op, 0, multi.nr);
	}
	stop_listening();
}

/* One link makes an image for each function: the cost of one. */
static void bench_multi(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY_MULTI);

	multi.prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "bench", "GPL", insns,
				   make_functions(insns, 1), &opts);
	if (multi.prog < 0)
		die("load a program for many functions");
	find_functions();
	bench_multi_with(false);
	bench_multi_with(true);
	close(multi.prog);
}
BENCH("multi", bench_multi);

/* --- classic BPF ------------------------------------------------------------ */

static struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
static struct sock_fprog filter = { .len = ARRAY_LEN(allow), .filter = allow };
static int sock;

/* It replaces the previous one. */
static void attach_filter(void *arg)
{
	if (setsockopt(sock, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)))
		die("attach a filter to a socket");
}

static void install_filter(void *arg)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		die("install a seccomp filter");
}

static void bench_classic(void)
{
	static const struct op on_socket = { .op = attach_filter, .times = 100 };
	/* Each system call runs all filters, and a filter can't be removed: only a few. */
	static const struct op of_seccomp = { .op = install_filter, .times = 1 };
	int status;
	pid_t pid;

	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0)
		die("socket");
	report("classic/socket_filter", "1", &on_socket, 0, 1);
	close(sock);

	pid = fork();
	if (!pid) {
		report("classic/seccomp_filter", "1", &of_seccomp, 0, 1);
		_exit(0);
	}
	errno = ECHILD;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("a process with seccomp filters");
}
BENCH("classic", bench_classic);
