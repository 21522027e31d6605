// SPDX-License-Identifier: GPL-2.0
/* The cost of loading BPF programs while perf events listen. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bench.h"
#include "common.h"

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
	bench_loads_with(false);
	bench_loads_with(true);
}
BENCH("load", bench_loads);
