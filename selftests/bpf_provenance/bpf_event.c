// SPDX-License-Identifier: GPL-2.0
/*
 * perf records of BPF text: PERF_RECORD_KSYMBOL, and PERF_RECORD_BPF_EVENT with
 * attr.bpf_subprog. All tests run in task context; records emitted from other
 * contexts are noted and asserted in the test.
 *
 *  ksymbol.*	the ranges and names of images and programs, with and without a
 *		JIT, and the timing of struct_ops records
 *  attr.*	permissions for bpf_subprog, and no change for listeners without it
 *  subprog.*	each kind of program and image compared with bpf_prog_info, kallsyms
 *		and the other records; classic BPF, which has none
 *  functions.*	programs of 1, 7 and 256 functions
 *  fail_nth.*	a fault at each memory allocation, and each copy from user space
 *  unload.*	the ways to unload a program, and the task that does it
 *  storm.*	10,000 programs with one tag and name on two CPUs: attribute addresses
 *  stream.*	lost records, including those of a link to 2,000 functions; records
 *		that a listener must not get; the forms of a record and of a ring; a
 *		task that is to be preempted while it emits
 *  fuzz.*	programs, trampolines and listeners added and removed at random
 *  listeners.*	1, 8 and 64 of them
 *
 * The ksymbol tests check records that every kernel since 5.1 emits; the others
 * fail if perf_event_open() does not support attr.bpf_subprog. Needs root.
 */
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/compiler.h>
#include <linux/hw_breakpoint.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "../kselftest_harness.h"
#include "bpf_event.skel.h"
#include "common.h"
#include "fail_nth.h"
#include "fuzz.h"
#include "lsm.h"
#include "perf_ring.h"

/* The example from the documentation; a test makes its allocations fail. */
static bool no_memory;

static void *reader_realloc(void *old, size_t size)
{
	return no_memory ? NULL : realloc(old, size);
}

#define READER_NO_MAIN
#define realloc reader_realloc
#include "../../../../Documentation/userspace-api/perf_bpf_event_reader.c"
#undef realloc

#define RING_PAGES 64
#define MAX_FUNCTIONS 256
#define MAX_LIVE 1024	/* ranges at a time */
#define JIT_ENABLE "/proc/sys/net/core/bpf_jit_enable"

/* --- records --------------------------------------------------------------- */

struct ksymbol_record {
	struct perf_event_header header;
	uint64_t addr;
	uint32_t len;
	uint16_t ksym_type;
	uint16_t flags;
	char name[];
};

struct bpf_record {
	struct perf_event_header header;
	uint16_t type;
	uint16_t flags;
	uint32_t id;
	uint8_t tag[BPF_TAG_SIZE];
};

struct text_record {
	struct bpf_record bpf;
	uint32_t sub_id;
	uint32_t sub_cnt;
	uint64_t addr;
	uint32_t len;
	uint16_t name_off;
	uint8_t kind;
	uint8_t prefix_len;
	uint32_t prog_type;
	uint32_t attach_type;
	uint64_t load_time;
	uint64_t seq;
	char name[];
};

/* perf_ring_bpf_attr() appends these to each record. */
struct id_sample {
	uint32_t pid;
	uint32_t tid;
	uint64_t time;
};

/* A record of any type: fields it does not have are 0. */
struct event {
	uint32_t type;
	struct text_record r;
	char name[128];
	struct id_sample id;
};

struct events {
	struct event *e;
	size_t nr, room;
};

static void take_record(struct events *ev, const struct perf_event_header *h)
{
	const struct text_record *t = (void *)h;
	const struct ksymbol_record *k = (void *)h;
	struct event *e;

	if (ev->nr == ev->room) {
		ev->room = ev->room ? 2 * ev->room : 1024;
		ev->e = realloc(ev->e, ev->room * sizeof(*ev->e));
		if (!ev->e)
			abort();
	}
	e = &ev->e[ev->nr++];
	memset(e, 0, sizeof(*e));
	e->type = h->type;
	memcpy(&e->id, (char *)h + h->size - sizeof(e->id), sizeof(e->id));
	if (h->type == PERF_RECORD_KSYMBOL) {
		e->r.addr = k->addr;
		e->r.len = k->len;
		e->r.bpf.flags = k->flags;
		snprintf(e->name, sizeof(e->name), "%s", k->name);
	} else if (h->type == PERF_RECORD_BPF_EVENT) {
		if (t->bpf.type < PERF_BPF_EVENT_SUBPROG_LOAD) {
			e->r.bpf = t->bpf;
			return;
		}
		e->r = *t;
		snprintf(e->name, sizeof(e->name), "%s", (char *)h + t->name_off);
	}
}

static void take_ring(struct events *ev, struct perf_ring *r)
{
	const struct perf_event_header *h;

	while ((h = perf_ring_next(r)))
		take_record(ev, h);
}

static void take_all(struct events *ev, struct perf_rings *rs)
{
	int i;

	for (i = 0; i < rs->nr; i++)
		take_ring(ev, rs->ring[i]);
}

static void forget(struct events *ev)
{
	free(ev->e);
	memset(ev, 0, sizeof(*ev));
}

static bool is_text(const struct event *e)
{
	return e->type == PERF_RECORD_BPF_EVENT && e->r.bpf.type >= PERF_BPF_EVENT_SUBPROG_LOAD;
}

/* A BPF symbol is added or removed. */
static bool is_symbol(const struct event *e)
{
	return e->type == PERF_RECORD_KSYMBOL && !strncmp(e->name, "bpf_", 4);
}

static bool ends(const struct event *e)
{
	if (e->type == PERF_RECORD_KSYMBOL)
		return e->r.bpf.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	return e->r.bpf.type == PERF_BPF_EVENT_SUBPROG_UNLOAD ||
	       e->r.bpf.type == PERF_BPF_EVENT_IMAGE_DEL;
}

static struct event *find(struct events *ev, int bpf_type, uint32_t id, uint32_t sub_id)
{
	size_t i;

	for (i = 0; i < ev->nr; i++)
		if (ev->e[i].type == PERF_RECORD_BPF_EVENT &&
		    ev->e[i].r.bpf.type == bpf_type && ev->e[i].r.bpf.id == id &&
		    ev->e[i].r.sub_id == sub_id)
			return &ev->e[i];
	return NULL;
}

/* Waits for the record: it may take a grace period. */
static struct event *wait_for(struct events *ev, struct perf_rings *rs, int bpf_type, uint32_t id,
			      uint32_t sub_id)
{
	struct event *e;

	while (take_all(ev, rs), !(e = find(ev, bpf_type, id, sub_id)))
		usleep(1000);
	return e;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->id.time < y->id.time ? -1 : x->id.time > y->id.time;
}

static int by_seq(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->r.seq < y->r.seq ? -1 : x->r.seq > y->r.seq;
}

static bool overlap(const struct event *a, const struct event *b)
{
	return a->r.addr < b->r.addr + b->r.len && b->r.addr < a->r.addr + a->r.len;
}

/*
 * How many of the ranges selected by @which overlapped an existing one when
 * added? Sorts the events.
 */
static int count_overlaps(struct events *ev, bool (*which)(const struct event *))
{
	const struct event *live[MAX_LIVE], *e;
	int i, nr = 0, overlaps = 0;
	size_t j;

	qsort(ev->e, ev->nr, sizeof(*ev->e), by_time);
	for (j = 0; j < ev->nr; j++) {
		e = &ev->e[j];
		if (!which(e))
			continue;
		for (i = 0; i < nr; i++) {
			if (!ends(e) ? overlap(live[i], e) :
			    live[i]->r.addr == e->r.addr && !strcmp(live[i]->name, e->name))
				break;
		}
		if (ends(e)) {
			if (i < nr)
				live[i] = live[--nr];
			continue;
		}
		if (i < nr && !overlaps++)
			ksft_print_msg("%s overlaps the %u bytes of %s, %lld behind\n", e->name,
				       live[i]->r.len, live[i]->name,
				       (long long)(e->r.addr - live[i]->r.addr));
		if (nr == MAX_LIVE)
			abort();
		live[nr++] = e;
	}
	return overlaps;
}

/*
 * Is each range that was added removed once, with the same fields? Returns how many
 * were not. Sorts the events.
 */
static int count_unpaired(struct events *ev)
{
	const struct event *live[MAX_LIVE], *e;
	int i, nr = 0, unpaired = 0;
	size_t j;

	qsort(ev->e, ev->nr, sizeof(*ev->e), by_seq);
	for (j = 0; j < ev->nr; j++) {
		e = &ev->e[j];
		if (!is_text(e))
			continue;
		if (!ends(e)) {
			if (nr == MAX_LIVE)
				abort();
			live[nr++] = e;
			continue;
		}
		for (i = 0; i < nr; i++)
			if (live[i]->r.addr == e->r.addr && live[i]->r.len == e->r.len &&
			    live[i]->r.kind == e->r.kind && live[i]->r.bpf.id == e->r.bpf.id &&
			    live[i]->r.sub_id == e->r.sub_id && !strcmp(live[i]->name, e->name))
				break;
		if (i < nr)
			live[i] = live[--nr];
		else
			unpaired++;
	}
	return unpaired + nr;
}

/* How many numbers from the first to the last are missing, or duplicate? */
static uint64_t count_gaps(const struct events *ev)
{
	uint64_t first = ~0ULL, last = 0, text = 0;
	size_t i;

	for (i = 0; i < ev->nr; i++) {
		if (!is_text(&ev->e[i]))
			continue;
		text++;
		if (ev->e[i].r.seq < first)
			first = ev->e[i].r.seq;
		if (ev->e[i].r.seq > last)
			last = ev->e[i].r.seq;
	}
	return text ? last - first + 1 - text : 0;
}

/* How many ranges are there now? */
static int count_live(const struct events *ev)
{
	int live = 0;
	size_t i;

	for (i = 0; i < ev->nr; i++)
		if (is_text(&ev->e[i]))
			live += ends(&ev->e[i]) ? -1 : 1;
	return live;
}

/* --- kallsyms and bpf_prog_info ---------------------------------------------- */

struct symbol {
	uint64_t addr;
	char name[128];
};

struct symbols {
	struct symbol s[2048];
	int nr;
	bool cfi;	/* the kernel was built with it */
};

/* The BPF symbols in kallsyms. */
static struct symbols *read_kallsyms(void)
{
	struct symbols *sy = calloc(1, sizeof(*sy));
	char line[1024], name[128], module[64];
	unsigned long long addr;
	FILE *f = fopen("/proc/kallsyms", "r");
	int n;

	if (!f || !sy)
		abort();
	while (fgets(line, sizeof(line), f)) {
		n = sscanf(line, "%llx %*c %127s %63s", &addr, name, module);
		/* Only x86 has symbols of prefixes. */
		if (n >= 2 && (!strncmp(name, "__cfi_", 6) ||
			       !strcmp(name, "report_cfi_failure")))
			sy->cfi = true;
		if (n != 3 || strcmp(module, "[bpf]") || sy->nr == ARRAY_LEN(sy->s))
			continue;
		sy->s[sy->nr].addr = addr;
		snprintf(sy->s[sy->nr].name, sizeof(sy->s[0].name), "%s", name);
		sy->nr++;
	}
	fclose(f);
	return sy;
}

static const char *symbol_at(const struct symbols *sy, uint64_t addr)
{
	int i;

	for (i = 0; i < sy->nr; i++)
		if (sy->s[i].addr == addr)
			return sy->s[i].name;
	return NULL;
}

/* The last __cfi_NAME before @addr: programs may have the same name. */
static const struct symbol *prefix_of(const struct symbols *sy, uint64_t addr, const char *name)
{
	const struct symbol *prefix = NULL;
	int i;

	for (i = 0; i < sy->nr; i++)
		if (!strncmp(sy->s[i].name, "__cfi_", 6) && !strcmp(sy->s[i].name + 6, name) &&
		    sy->s[i].addr < addr && (!prefix || sy->s[i].addr > prefix->addr))
			prefix = &sy->s[i];
	return prefix;
}

/* The bpf_prog_info of a program. */
struct truth {
	struct bpf_prog_info info;
	uint64_t addr[MAX_FUNCTIONS];
	uint32_t len[MAX_FUNCTIONS];
	uint8_t tag[MAX_FUNCTIONS][BPF_TAG_SIZE];
};

static int get_truth(struct truth *t, int fd)
{
	uint32_t len = sizeof(t->info);

	memset(&t->info, 0, sizeof(t->info));
	t->info.jited_ksyms = (uintptr_t)t->addr;
	t->info.nr_jited_ksyms = MAX_FUNCTIONS;
	t->info.jited_func_lens = (uintptr_t)t->len;
	t->info.nr_jited_func_lens = MAX_FUNCTIONS;
	t->info.prog_tags = (uintptr_t)t->tag;
	t->info.nr_prog_tags = MAX_FUNCTIONS;
	return bpf_prog_get_info_by_fd(fd, &t->info, &len);
}

/* --- programs without a skeleton --------------------------------------------- */

static int load_functions(int n)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET_EGRESS);
	struct bpf_insn insns[FUNCTIONS_INSNS(MAX_FUNCTIONS)];
	int cnt = make_functions(insns, n);

	return bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, "functions", "GPL", insns, cnt, &opts);
}

/* Any type that only needs a return value of 0. */
static int load_zero(enum bpf_prog_type type)
{
	struct bpf_insn insns[FUNCTIONS_INSNS(1)];

	return bpf_prog_load(type, "zero", "GPL", insns, make_functions(insns, 1), NULL);
}

/*
 * libbpf loads programs to probe kernel features. Let it do so before any test
 * counts: they are children of this process.
 */
static __attribute__((constructor)) void probe_features(void)
{
	int fd = load_zero(BPF_PROG_TYPE_SOCKET_FILTER);

	if (fd >= 0)
		close(fd);
}

/* An fentry program for the function at @id in the kernel's BTF. */
static int load_fentry(int id)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = id);
	struct bpf_insn insns[FUNCTIONS_INSNS(1)];

	return bpf_prog_load(BPF_PROG_TYPE_TRACING, "zero", "GPL", insns,
			     make_functions(insns, 1), &opts);
}

/* The next function of a system call after type @id, 0 after the last. */
static int next_syscall(const struct btf *btf, int id)
{
	while (++id < (int)btf__type_cnt(btf)) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (btf_is_func(t) &&
		    !strncmp(btf__name_by_offset(btf, t->name_off), "__x64_sys_", 10))
			return id;
	}
	return 0;
}

/* Attaches a program to the system call at @id, to create a trampoline. */
static int make_trampoline(int id)
{
	int prog = load_fentry(id), link;

	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, 0, BPF_TRACE_FENTRY, NULL);
	close(prog);
	return link;
}

/* The same for @n system calls. */
static int make_trampolines(int *links, int n)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id, made = 0;

	if (!btf)
		return -errno;
	for (id = next_syscall(btf, 0); id && made < n; id = next_syscall(btf, id)) {
		links[made] = make_trampoline(id);
		if (links[made] >= 0)
			made++;
	}
	btf__free(btf);
	return made;
}

struct traceable {
	char name[64];
	bool taken;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct traceable *)a)->name, ((const struct traceable *)b)->name);
}

/*
 * The file system functions that ftrace can trace, sorted by name. A name with several
 * addresses is listed several times.
 */
static struct traceable *read_traceable(int *nr)
{
	static const char * const prefixes[] = { "btrfs_", "ext4_", "xfs_" };
	FILE *f = fopen("/sys/kernel/tracing/available_filter_functions", "r");
	struct traceable *all = NULL;
	char line[256], name[64];
	int i, room = 0;

	*nr = 0;
	if (!f)
		return NULL;
	while (fgets(line, sizeof(line), f)) {
		/* Skip module functions: the module's name follows. */
		if (sscanf(line, "%63s", name) != 1 || strchr(line, '['))
			continue;
		for (i = 0; i < ARRAY_LEN(prefixes); i++)
			if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
				break;
		if (i == ARRAY_LEN(prefixes))
			continue;
		if (*nr == room) {
			room = room ? 2 * room : 1024;
			all = realloc(all, room * sizeof(*all));
			if (!all)
				abort();
		}
		all[*nr].taken = false;
		snprintf(all[(*nr)++].name, sizeof(all->name), "%s", name);
	}
	fclose(f);
	if (all)
		qsort(all, *nr, sizeof(*all), by_name);
	return all;
}

static bool is_scalar(const struct btf *btf, int id)
{
	const struct btf_type *t = btf__type_by_id(btf, btf__resolve_type(btf, id));

	return t && (btf_is_ptr(t) || btf_is_any_enum(t) || (btf_is_int(t) && t->size <= 8));
}

/* Up to six arguments and a return value, if any, each in one register. */
static bool is_plain(const struct btf *btf, const struct btf_type *func)
{
	const struct btf_type *proto = btf__type_by_id(btf, func->type);
	int i;

	if (btf_vlen(proto) > 6 || (proto->type && !is_scalar(btf, proto->type)))
		return false;
	for (i = 0; i < btf_vlen(proto); i++)
		if (!btf_params(proto)[i].type || !is_scalar(btf, btf_params(proto)[i].type))
			return false;
	return true;
}

/* The BTF IDs of up to @max functions to which one program can be attached. */
static int traceable_ids(uint32_t *ids, int max)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct traceable *all, *one, key;
	int nr_all, id, nr = 0;

	all = read_traceable(&nr_all);
	for (id = 1; btf && all && id < (int)btf__type_cnt(btf) && nr < max; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!btf_is_func(t) || !is_plain(btf, t))
			continue;
		snprintf(key.name, sizeof(key.name), "%s", btf__name_by_offset(btf, t->name_off));
		one = bsearch(&key, all, nr_all, sizeof(*all), by_name);
		if (!one || one->taken || (one > all && !by_name(one, one - 1)) ||
		    (one < all + nr_all - 1 && !by_name(one, one + 1)))
			continue;
		one->taken = true;
		ids[nr++] = id;
	}
	free(all);
	btf__free(btf);
	return nr;
}

static int load_fentry_multi(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY_MULTI);
	struct bpf_insn insns[FUNCTIONS_INSNS(1)];

	return bpf_prog_load(BPF_PROG_TYPE_TRACING, "zero", "GPL", insns,
			     make_functions(insns, 1), &opts);
}

/* Opens the object with only the named programs. */
static struct bpf_event *open_only(const char *const *names)
{
	struct bpf_event *skel = bpf_event__open();
	struct bpf_program *prog;

	for (; skel && *names; names++) {
		prog = bpf_object__find_program_by_name(skel->obj, *names);
		if (!prog)
			abort();
		bpf_program__set_autoload(prog, true);
	}
	return skel;
}

#define OPEN_ONLY(...) open_only((const char *const []){ __VA_ARGS__, NULL })

/* A congestion control with four functions, registered without a link. */
static struct bpf_event *load_struct_ops(void)
{
	struct bpf_event *skel = OPEN_ONLY("ca_init", "ca_ssthresh", "ca_cong_avoid",
					   "ca_undo_cwnd");

	if (!skel)
		return NULL;
	bpf_map__set_autocreate(skel->maps.ca, true);
	if (!bpf_event__load(skel))
		return skel;
	bpf_event__destroy(skel);
	return NULL;
}

/* --- PERF_RECORD_KSYMBOL ------------------------------------------------------ */

#define TRAMPOLINES 64

static bool is_trampoline(const struct event *e)
{
	return is_symbol(e) && !strncmp(e->name, "bpf_trampoline_", 15);
}

/* How many programs and trampolines are left? Other images are freed before these. */
static int count_left(const struct events *ev)
{
	const struct event *e;
	int left = 0;

	for (e = ev->e; e < ev->e + ev->nr; e++) {
		if (is_trampoline(e))
			left += ends(e) ? -1 : 1;
		else if (e->type == PERF_RECORD_BPF_EVENT && !is_text(e))
			left += e->r.bpf.type == PERF_BPF_EVENT_PROG_LOAD ? 1 : -1;
	}
	return left;
}

FIXTURE(ksymbol)
{
	struct perf_rings rings;
	struct events ev;
	struct bpf_event *skel;
	struct bpf_link *link;
	int trampolines[TRAMPOLINES];
	int nr_trampolines;
	struct setting jit;
};

FIXTURE_SETUP(ksymbol)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();

	attr.ksymbol = 1;
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, perf_rings_open(&self->rings, &attr, RING_PAGES));
}

/* Symbols that are removed with a different size than added. */
static int count_resized(struct events *ev)
{
	const struct event *e = ev->e;
	size_t i, j;
	int n = 0;

	qsort(ev->e, ev->nr, sizeof(*ev->e), by_time);
	for (i = 0; i < ev->nr; i++) {
		if (!is_symbol(&e[i]) || !ends(&e[i]))
			continue;
		for (j = i; j-- > 0;) {
			if (!is_symbol(&e[j]) || e[j].r.addr != e[i].r.addr ||
			    strcmp(e[j].name, e[i].name))
				continue;
			n += !ends(&e[j]) && e[j].r.len != e[i].r.len;
			break;
		}
	}
	return n;
}

FIXTURE_TEARDOWN(ksymbol)
{
	while (self->nr_trampolines)
		close(self->trampolines[--self->nr_trampolines]);
	bpf_link__destroy(self->link);
	bpf_event__destroy(self->skel);
	setting_restore(&self->jit);
	/* Some are freed after a grace period: not during the next test. */
	while (take_all(&self->ev, &self->rings), count_left(&self->ev) > 0)
		usleep(1000);
	EXPECT_EQ(0, count_resized(&self->ev));
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

TEST_F(ksymbol, trampolines)
{
	int i, images = 0;

	self->nr_trampolines = make_trampolines(self->trampolines, TRAMPOLINES);
	ASSERT_EQ(TRAMPOLINES, self->nr_trampolines);
	take_all(&self->ev, &self->rings);
	for (i = 0; i < (int)self->ev.nr; i++)
		images += is_trampoline(&self->ev.e[i]) && !ends(&self->ev.e[i]);
	ASSERT_LE(TRAMPOLINES, images);
	EXPECT_EQ(0, count_overlaps(&self->ev, is_symbol));
}

/* Several in one page. */
TEST_F(ksymbol, struct_ops)
{
	int i, images = 0;

	self->skel = load_struct_ops();
	ASSERT_NE(NULL, self->skel);
	self->link = bpf_map__attach_struct_ops(self->skel->maps.ca);
	ASSERT_NE(NULL, self->link);
	take_all(&self->ev, &self->rings);
	for (i = 0; i < (int)self->ev.nr; i++)
		images += !strncmp(self->ev.e[i].name, "bpf__tcp_congestion_ops_", 24);
	ASSERT_EQ(4, images);
	EXPECT_EQ(0, count_overlaps(&self->ev, is_symbol));
}

/*
 * A kprobe event in the same ring marks when reg() publishes the trampolines:
 * their symbols must come first.
 */
TEST_F(ksymbol, struct_ops_before_reg)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	int i, before = 0, after = 0, regs = 0;
	struct perf_ring kprobe;
	FILE *f;

	f = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	if (!f)
		SKIP(return, "needs CONFIG_KPROBE_EVENTS");
	ASSERT_EQ(1, fscanf(f, "%u", &attr.type));
	fclose(f);
	attr.config = 0;
	attr.kprobe_func = (uintptr_t)"tcp_register_congestion_control";
	attr.sample_period = 1;
	attr.bpf_event = 0;
	ASSERT_EQ(0, perf_ring_open(&kprobe, &attr, -1, 0, 0));
	ASSERT_EQ(0, ioctl(kprobe.fd, PERF_EVENT_IOC_SET_OUTPUT, self->rings.ring[0]->fd));

	self->skel = load_struct_ops();
	ASSERT_NE(NULL, self->skel);
	self->link = bpf_map__attach_struct_ops(self->skel->maps.ca);
	ASSERT_NE(NULL, self->link);
	take_ring(&self->ev, self->rings.ring[0]);
	for (i = 0; i < (int)self->ev.nr; i++) {
		regs += self->ev.e[i].type == PERF_RECORD_SAMPLE;
		if (!strncmp(self->ev.e[i].name, "bpf__tcp_congestion_ops_", 24))
			*(regs ? &after : &before) += 1;
	}
	perf_ring_close(&kprobe);
	ASSERT_EQ(1, regs);
	EXPECT_EQ(4, before);
	EXPECT_EQ(0, after);
}

/* A failed registration leaves no symbol, and the map can be used again. */
TEST_F(ksymbol, struct_ops_refused)
{
	struct bpf_event *twin;
	struct symbols *sy;
	int i, came = 0, left = 0;

	self->skel = load_struct_ops();
	ASSERT_NE(NULL, self->skel);
	self->link = bpf_map__attach_struct_ops(self->skel->maps.ca);
	ASSERT_NE(NULL, self->link);
	twin = load_struct_ops();
	ASSERT_NE(NULL, twin);
	/* The name is taken. */
	ASSERT_EQ(NULL, bpf_map__attach_struct_ops(twin->maps.ca));
	EXPECT_EQ(EEXIST, errno);
	ASSERT_EQ(NULL, bpf_map__attach_struct_ops(twin->maps.ca));
	EXPECT_EQ(EEXIST, errno);

	sy = read_kallsyms();
	for (i = 0; i < sy->nr; i++)
		left += !strncmp(sy->s[i].name, "bpf__tcp_congestion_ops_", 24);
	free(sy);
	EXPECT_EQ(4, left);
	take_all(&self->ev, &self->rings);
	for (i = 0; i < (int)self->ev.nr; i++)
		if (!strncmp(self->ev.e[i].name, "bpf__tcp_congestion_ops_", 24))
			came += ends(&self->ev.e[i]) ? -1 : 1;
	EXPECT_EQ(4, came);

	bpf_link__destroy(self->link);
	self->link = bpf_map__attach_struct_ops(twin->maps.ca);
	EXPECT_NE(NULL, self->link);
	bpf_link__destroy(self->link);
	self->link = NULL;
	bpf_event__destroy(twin);
}

TEST_F(ksymbol, no_jit)
{
	int fd, i, err, symbols = 0, loads = 0;

	err = setting_change(&self->jit, JIT_ENABLE, "0");
	if (err == -EINVAL)
		SKIP(return, "CONFIG_BPF_JIT_ALWAYS_ON");
	ASSERT_EQ(0, err);
	fd = load_zero(BPF_PROG_TYPE_SOCKET_FILTER);
	ASSERT_LE(0, fd);
	close(fd);
	take_all(&self->ev, &self->rings);
	for (i = 0; i < (int)self->ev.nr; i++) {
		loads += self->ev.e[i].type == PERF_RECORD_BPF_EVENT;
		if (self->ev.e[i].type != PERF_RECORD_KSYMBOL)
			continue;
		if (!symbols++)
			TH_LOG("a symbol '%s' at %llx, %u bytes", self->ev.e[i].name,
			       (unsigned long long)self->ev.e[i].r.addr, self->ev.e[i].r.len);
	}
	EXPECT_EQ(2, loads);
	EXPECT_EQ(0, symbols);
}

/* kallsyms has one function more than bpf_prog_info, and so must the records. */
TEST_F(ksymbol, exception_callback)
{
	struct symbols *before = read_kallsyms(), *after;
	int i, j, new = 0, missing = 0;
	const char *old;
	struct truth t;

	self->skel = OPEN_ONLY("throws");
	ASSERT_NE(NULL, self->skel);
	ASSERT_EQ(0, bpf_event__load(self->skel));
	after = read_kallsyms();
	ASSERT_EQ(0, get_truth(&t, bpf_program__fd(self->skel->progs.throws)));
	ASSERT_EQ(1, t.info.nr_jited_ksyms);

	take_all(&self->ev, &self->rings);
	for (i = 0; i < after->nr; i++) {
		/* One freed in between can have been there. */
		old = symbol_at(before, after->s[i].addr);
		if (old && !strcmp(old, after->s[i].name))
			continue;
		new++;
		for (j = 0; j < (int)self->ev.nr; j++)
			if (is_symbol(&self->ev.e[j]) && !ends(&self->ev.e[j]) &&
			    self->ev.e[j].r.addr == after->s[i].addr &&
			    !strcmp(self->ev.e[j].name, after->s[i].name))
				break;
		if (j == (int)self->ev.nr && !missing++)
			TH_LOG("no record of %s", after->s[i].name);
	}
	EXPECT_EQ(2, new);
	EXPECT_EQ(0, missing);
	free(before);
	free(after);
}

/* --- perf_event_open() --------------------------------------------------------- */

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"

FIXTURE(attr)
{
	struct setting paranoid;
};

FIXTURE_SETUP(attr)
{
	ASSERT_EQ(0, pin_to_cpu(0));
}

FIXTURE_TEARDOWN(attr)
{
	setting_restore(&self->paranoid);
}

static int try_open(const struct perf_event_attr *attr)
{
	struct perf_ring r;
	int err;

	err = perf_ring_open(&r, attr, 0, -1, 0);
	if (!err)
		perf_ring_close(&r);
	return err;
}

TEST_F(attr, bits)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	/* The word after read_format. */
	__u64 *bits = &attr.read_format + 1;

	attr.bpf_subprog = 1;
	EXPECT_EQ(0, try_open(&attr));
	/* It extends bpf_event, so needs it. */
	attr.bpf_event = 0;
	EXPECT_EQ(-EINVAL, try_open(&attr));
	/* ksymbol is not enough. */
	attr.ksymbol = 1;
	EXPECT_EQ(-EINVAL, try_open(&attr));

	/* The bits after it are still reserved. */
	attr = perf_ring_bpf_attr();
	ASSERT_FALSE(*bits >> 40);
	attr.bpf_subprog = 1;
	ASSERT_EQ(1, *bits >> 40);
	*bits |= 1ULL << 41;
	EXPECT_EQ(-EINVAL, try_open(&attr));
	*bits = (*bits & ~(1ULL << 41)) | 1ULL << 63;
	EXPECT_EQ(-EINVAL, try_open(&attr));
}

/* Addresses of other users' programs need permission to profile the kernel. */
TEST_F(attr, unprivileged)
{
	struct perf_event_attr attr = perf_ring_bpf_attr(), plain;
	int status;
	pid_t pid;

	attr.exclude_kernel = 1;
	plain = attr;
	attr.bpf_subprog = 1;
	ASSERT_EQ(0, setting_change(&self->paranoid, PARANOID, "2"));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		ASSERT_EQ(0, setresuid(65534, 65534, 65534));
		EXPECT_EQ(0, try_open(&plain));
		EXPECT_EQ(-EACCES, try_open(&attr));
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	ASSERT_EQ(0, write_value(PARANOID, "1"));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		ASSERT_EQ(0, setresuid(65534, 65534, 65534));
		EXPECT_EQ(0, try_open(&attr));
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/*
 * Without the bit, a listener gets the two records of 5.1, byte for byte,
 * even while another listener has it set.
 */
TEST_F(attr, bit_clear)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	struct perf_ring plain, other;
	struct bpf_record want;
	struct truth t;
	bool with_other;
	char *data;
	int fd;

	attr.sample_id_all = 0;
	ASSERT_EQ(0, perf_ring_open(&plain, &attr, -1, 0, 1));
	attr.bpf_subprog = 1;
	with_other = !perf_ring_open(&other, &attr, -1, 0, 1);
	fd = load_functions(7);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, get_truth(&t, fd));
	close(fd);

	memset(&want, 0, sizeof(want));
	want.header.type = PERF_RECORD_BPF_EVENT;
	want.header.size = 24;
	want.type = PERF_BPF_EVENT_PROG_LOAD;
	want.id = t.info.id;
	memcpy(want.tag, t.info.tag, sizeof(want.tag));
	ASSERT_EQ(48, plain.page->data_head);
	data = (char *)plain.page + sysconf(_SC_PAGESIZE);
	EXPECT_EQ(0, memcmp(&want, data, 24));
	want.type = PERF_BPF_EVENT_PROG_UNLOAD;
	EXPECT_EQ(0, memcmp(&want, data + 24, 24));
	perf_ring_close(&plain);
	if (with_other) {
		EXPECT_LT(48, other.page->data_head);
		perf_ring_close(&other);
	}
}

/* --- one record per subprogram ------------------------------------------------- */

#define RECORD_SIZE 72	/* without the name; larger only on newer kernels */

static int open_listener(struct __test_metadata *_metadata, struct perf_rings *rs, int pages)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	int err;

	attr.bpf_subprog = 1;
	err = perf_rings_open(rs, &attr, pages);
	if (err)
		TH_LOG("perf_event_open with bpf_subprog: %s", strerror(-err));
	return err;
}

/*
 * The records of a loaded program: one for each subprogram, matching
 * bpf_prog_info and kallsyms. Returns how many.
 */
static int check_loaded(struct __test_metadata *_metadata, struct events *ev, int fd,
			uint32_t attach_type)
{
	struct symbols *sy = read_kallsyms();
	const struct symbol *prefix;
	struct event *e;
	struct truth t;
	uint32_t i, nr;
	size_t j;
	int seen;

	ASSERT_EQ(0, get_truth(&t, fd));
	ASSERT_NE(0, t.info.nr_jited_ksyms);
	e = find(ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	ASSERT_NE(NULL, e);
	nr = e->r.sub_cnt;
	EXPECT_LE(t.info.nr_jited_ksyms, nr);
	for (i = 0; i < nr; i++) {
		e = NULL;
		for (seen = 0, j = 0; j < ev->nr; j++) {
			/* A struct_ops image has the id, too. */
			if (!is_text(&ev->e[j]) || ev->e[j].r.bpf.id != t.info.id ||
			    ev->e[j].r.kind != PERF_BPF_EVENT_KIND_PROG ||
			    ev->e[j].r.sub_id != i)
				continue;
			e = &ev->e[j];
			seen++;
		}
		ASSERT_EQ(1, seen)
			TH_LOG("%d records of subprogram %u", seen, i);
		EXPECT_EQ(PERF_BPF_EVENT_SUBPROG_LOAD, e->r.bpf.type);
		EXPECT_EQ(0, e->r.bpf.flags);
		EXPECT_EQ(nr, e->r.sub_cnt);
		if (i < t.info.nr_jited_ksyms) {
			EXPECT_EQ(t.addr[i], e->r.addr);
			EXPECT_EQ(t.len[i], e->r.len);
			EXPECT_EQ(0, memcmp(e->r.bpf.tag, i ? t.tag[i] : t.info.tag, BPF_TAG_SIZE));
		}
		EXPECT_LT(0, e->r.len);
		EXPECT_LE(RECORD_SIZE, e->r.name_off);
		EXPECT_EQ(PERF_BPF_EVENT_KIND_PROG, e->r.kind);
		EXPECT_EQ(t.info.type, e->r.prog_type);
		EXPECT_EQ(attach_type, e->r.attach_type);
		EXPECT_EQ(t.info.load_time, e->r.load_time);
		ASSERT_NE(NULL, symbol_at(sy, e->r.addr))
			TH_LOG("subprogram %u, '%s', is not in kallsyms", i, e->name);
		EXPECT_STREQ(symbol_at(sy, e->r.addr), e->name);
		/* Without FineIBT, x86 has no symbols of the prefixes of programs. */
		prefix = prefix_of(sy, e->r.addr, e->name);
		if (prefix || !sy->cfi)
			EXPECT_EQ(prefix ? e->r.addr - prefix->addr : 0, e->r.prefix_len);
		EXPECT_EQ(getpid(), e->id.pid);
		EXPECT_EQ(gettid(), e->id.tid);
	}
	free(sy);
	return nr;
}

/* Each range added for @id is removed again, with the same fields. */
static void check_unloaded(struct __test_metadata *_metadata, struct events *ev, uint32_t id,
			   uint16_t flags)
{
	struct event *load, *unload;
	uint32_t i = 0, nr;

	do {
		load = find(ev, PERF_BPF_EVENT_SUBPROG_LOAD, id, i);
		ASSERT_NE(NULL, load);
		unload = find(ev, PERF_BPF_EVENT_SUBPROG_UNLOAD, id, i);
		ASSERT_NE(NULL, unload);
		nr = load->r.sub_cnt;
		EXPECT_EQ(flags, unload->r.bpf.flags);
		EXPECT_LT(load->r.seq, unload->r.seq);
		EXPECT_STREQ(load->name, unload->name);
		/* Compare all other fields. */
		load->r.bpf = unload->r.bpf;
		load->r.seq = unload->r.seq;
		EXPECT_EQ(0, memcmp(&load->r, &unload->r, RECORD_SIZE));
	} while (++i < nr);
}

FIXTURE(subprog)
{
	struct perf_rings rings;
	struct events ev;
	struct bpf_event *skel;
	struct bpf_link *link;
	int trampolines[TRAMPOLINES];
	int nr_trampolines;
	struct setting jit;
};

FIXTURE_SETUP(subprog)
{
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, open_listener(_metadata, &self->rings, RING_PAGES));
}

FIXTURE_TEARDOWN(subprog)
{
	while (self->nr_trampolines)
		close(self->trampolines[--self->nr_trampolines]);
	bpf_link__destroy(self->link);
	bpf_event__destroy(self->skel);
	setting_restore(&self->jit);
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

/* Loads one program of the skeleton and checks its records. */
static int check_one(struct __test_metadata *_metadata, FIXTURE_DATA(subprog) *self,
		     const char *name)
{
	struct bpf_program *prog;

	self->skel = OPEN_ONLY(name);
	ASSERT_NE(NULL, self->skel);
	ASSERT_EQ(0, bpf_event__load(self->skel));
	prog = bpf_object__find_program_by_name(self->skel->obj, name);
	take_all(&self->ev, &self->rings);
	return check_loaded(_metadata, &self->ev, bpf_program__fd(prog),
			    bpf_program__expected_attach_type(prog));
}

TEST_F(subprog, records)
{
	struct truth t;
	int i;

	ASSERT_EQ(3, check_one(_metadata, self, "three_subprogs"));
	ASSERT_EQ(0, get_truth(&t, bpf_program__fd(self->skel->progs.three_subprogs)));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
	bpf_event__destroy(self->skel);
	self->skel = NULL;
	take_all(&self->ev, &self->rings);
	check_unloaded(_metadata, &self->ev, t.info.id, 0);
	for (i = 0; i < (int)self->ev.nr; i++)
		if (is_text(&self->ev.e[i]))
			EXPECT_EQ(RECORD_SIZE, self->ev.e[i].r.name_off);
}

/* The same code and name twice: the tags and names are equal, the ids differ. */
TEST_F(subprog, twins)
{
	int fd[2] = { load_functions(1), load_functions(1) };
	struct event *one, *two;
	struct truth t[2];

	ASSERT_LE(0, fd[0]);
	ASSERT_LE(0, fd[1]);
	ASSERT_EQ(0, get_truth(&t[0], fd[0]));
	ASSERT_EQ(0, get_truth(&t[1], fd[1]));
	take_all(&self->ev, &self->rings);
	check_loaded(_metadata, &self->ev, fd[0], BPF_CGROUP_INET_EGRESS);
	check_loaded(_metadata, &self->ev, fd[1], BPF_CGROUP_INET_EGRESS);
	one = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t[0].info.id, 0);
	two = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t[1].info.id, 0);
	EXPECT_STREQ(one->name, two->name);
	EXPECT_EQ(0, memcmp(one->r.bpf.tag, two->r.bpf.tag, BPF_TAG_SIZE));
	EXPECT_NE(one->r.bpf.id, two->r.bpf.id);
	EXPECT_NE(one->r.addr, two->r.addr);
	close(fd[0]);
	take_all(&self->ev, &self->rings);
	check_unloaded(_metadata, &self->ev, t[0].info.id, 0);
	EXPECT_EQ(NULL, find(&self->ev, PERF_BPF_EVENT_SUBPROG_UNLOAD, t[1].info.id, 0));
	close(fd[1]);
}

TEST_F(subprog, exception_callback)
{
	struct truth t;

	/* The one added by the verifier comes last. */
	EXPECT_EQ(2, check_one(_metadata, self, "throws"));
	ASSERT_EQ(0, get_truth(&t, bpf_program__fd(self->skel->progs.throws)));
	EXPECT_EQ(1, t.info.nr_jited_ksyms);
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
}

TEST_F(subprog, freplace)
{
	struct bpf_event *ext;
	int target, fd;

	self->skel = OPEN_ONLY("has_replaced");
	ASSERT_NE(NULL, self->skel);
	ASSERT_EQ(0, bpf_event__load(self->skel));
	target = bpf_program__fd(self->skel->progs.has_replaced);
	ext = OPEN_ONLY("replacement");
	ASSERT_NE(NULL, ext);
	ASSERT_EQ(0, bpf_program__set_attach_target(ext->progs.replacement, target, "replaced"));
	ASSERT_EQ(0, bpf_event__load(ext));
	fd = bpf_program__fd(ext->progs.replacement);
	self->link = bpf_program__attach_freplace(ext->progs.replacement, 0, NULL);
	EXPECT_NE(NULL, self->link);

	take_all(&self->ev, &self->rings);
	EXPECT_EQ(2, check_loaded(_metadata, &self->ev, target, 0));
	EXPECT_EQ(2, check_loaded(_metadata, &self->ev, fd, 0));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
	bpf_event__destroy(ext);
}

TEST_F(subprog, private_stack)
{
	static const uint8_t load_r9[] = { 0x49, 0xb9 };
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);
	uint8_t text[1024];

	EXPECT_EQ(1, check_one(_metadata, self, "private_stack"));
#ifdef __x86_64__
	/* It has one: r9 points to it. */
	info.jited_prog_insns = (uintptr_t)text;
	info.jited_prog_len = sizeof(text);
	ASSERT_EQ(0, bpf_prog_get_info_by_fd(bpf_program__fd(self->skel->progs.private_stack),
					     &info, &len));
	ASSERT_GE(sizeof(text), info.jited_prog_len);
	EXPECT_NE(NULL, memmem(text, info.jited_prog_len, load_r9, sizeof(load_r9)));
#endif
}

TEST_F(subprog, arena)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	EXPECT_EQ(1, check_one(_metadata, self, "uses_arena"));
	ASSERT_EQ(0, bpf_prog_get_info_by_fd(bpf_program__fd(self->skel->progs.uses_arena),
					     &info, &len));
	EXPECT_LE(1, info.nr_map_ids);
}

TEST_F(subprog, sleepable)
{
	EXPECT_EQ(1, check_one(_metadata, self, "sleepable"));
}

/*
 * The shim that runs LSM programs of cgroups has no id, and is freed like a program:
 * a listener to bpf_event sees that, one to bpf_subprog must not.
 */
TEST_F(subprog, lsm_cgroup)
{
	struct truth t;
	int cgroup, fd;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	if (libbpf_find_vmlinux_btf_id("socket_bind", BPF_LSM_MAC) < 0)
		SKIP(return, "needs CONFIG_SECURITY_NETWORK");
	EXPECT_EQ(1, check_one(_metadata, self, "of_cgroup"));
	cgroup = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, cgroup);
	self->link = bpf_program__attach_cgroup(self->skel->progs.of_cgroup, cgroup);
	ASSERT_NE(NULL, self->link);
	close(cgroup);
	bpf_link__destroy(self->link);
	self->link = NULL;
	wait_for(&self->ev, &self->rings, PERF_BPF_EVENT_PROG_UNLOAD, 0, 0);

	/* Records of its unload have lower numbers than the next ones. */
	fd = load_functions(1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, get_truth(&t, fd));
	wait_for(&self->ev, &self->rings, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	close(fd);
	/* A work item frees the trampoline, maybe during this loop. */
	while (count_gaps(&self->ev))
		take_all(&self->ev, &self->rings);
	EXPECT_EQ(NULL, find(&self->ev, PERF_BPF_EVENT_SUBPROG_UNLOAD, 0, 0));

	/* Keep its records out of the next test. */
	bpf_event__destroy(self->skel);
	self->skel = NULL;
	while (take_all(&self->ev, &self->rings), count_live(&self->ev) > 0)
		usleep(1000);
}

/*
 * An image is not a program: it has a range, a kind and a name, and for struct_ops
 * the program that it calls.
 */
static void check_image(struct __test_metadata *_metadata, const struct event *e, int kind)
{
	static const struct text_record none;

	EXPECT_EQ(kind, e->r.kind);
	EXPECT_LT(0, e->r.len);
	EXPECT_GE(sysconf(_SC_PAGESIZE), e->r.len);
	EXPECT_EQ(0, e->r.prefix_len);
	if (kind != PERF_BPF_EVENT_KIND_STRUCT_OPS) {
		EXPECT_EQ(0, e->r.bpf.id);
		EXPECT_EQ(0, e->r.load_time);
	}
	EXPECT_EQ(0, memcmp(e->r.bpf.tag, none.bpf.tag, BPF_TAG_SIZE));
	EXPECT_EQ(0, e->r.sub_id);
	EXPECT_EQ(0, e->r.sub_cnt);
	EXPECT_EQ(0, e->r.prog_type);
	EXPECT_EQ(0, e->r.attach_type);
}

/* Both records of each struct_ops image have the program that it calls. */
static void check_calls(struct __test_metadata *_metadata, struct events *ev, const char *name,
			const struct truth *t, int type)
{
	int records = 0;
	struct event *e;
	size_t i;

	for (i = 0; i < ev->nr; i++) {
		e = &ev->e[i];
		if (!is_text(e) || e->r.bpf.type != type || strcmp(e->name, name))
			continue;
		EXPECT_EQ(t->info.id, e->r.bpf.id);
		EXPECT_EQ(t->info.load_time, e->r.load_time);
		records++;
	}
	EXPECT_EQ(1, records);
}

/* How many images of this kind exist now? All must be in kallsyms. */
static int check_images(struct __test_metadata *_metadata, struct events *ev, int kind)
{
	struct symbols *sy = read_kallsyms();
	int there = 0, known = 0;
	struct event *e;
	size_t i;
	int j;

	qsort(ev->e, ev->nr, sizeof(*ev->e), by_seq);
	for (i = 0; i < ev->nr; i++) {
		e = &ev->e[i];
		if (!is_text(e) || e->r.bpf.type < PERF_BPF_EVENT_IMAGE_ADD || e->r.kind != kind)
			continue;
		check_image(_metadata, e, kind);
		there += ends(e) ? -1 : 1;
	}
	for (j = 0; j < sy->nr; j++)
		for (i = 0; i < ev->nr; i++) {
			e = &ev->e[i];
			if (!is_text(e) || ends(e) || e->r.kind != kind ||
			    e->r.addr != sy->s[j].addr)
				continue;
			EXPECT_STREQ(sy->s[j].name, e->name);
			known++;
			break;
		}
	EXPECT_EQ(there, known);
	free(sy);
	return there;
}

TEST_F(subprog, struct_ops)
{
	struct truth t, init;

	self->skel = load_struct_ops();
	ASSERT_NE(NULL, self->skel);
	self->link = bpf_map__attach_struct_ops(self->skel->maps.ca);
	ASSERT_NE(NULL, self->link);
	take_all(&self->ev, &self->rings);
	EXPECT_EQ(1,
		  check_loaded(_metadata, &self->ev,
			       bpf_program__fd(self->skel->progs.ca_ssthresh),
			       bpf_program__expected_attach_type(self->skel->progs.ca_ssthresh)));
	EXPECT_EQ(4, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_STRUCT_OPS));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));

	ASSERT_EQ(0, get_truth(&t, bpf_program__fd(self->skel->progs.ca_ssthresh)));
	ASSERT_EQ(0, get_truth(&init, bpf_program__fd(self->skel->progs.ca_init)));
	check_calls(_metadata, &self->ev, "bpf__tcp_congestion_ops_ssthresh", &t,
		    PERF_BPF_EVENT_IMAGE_ADD);
	check_calls(_metadata, &self->ev, "bpf__tcp_congestion_ops_init", &init,
		    PERF_BPF_EVENT_IMAGE_ADD);

	/* A work item frees the map, and the programs with it. */
	bpf_link__destroy(self->link);
	self->link = NULL;
	bpf_event__destroy(self->skel);
	self->skel = NULL;
	wait_for(&self->ev, &self->rings, PERF_BPF_EVENT_SUBPROG_UNLOAD, t.info.id, 0);
	check_unloaded(_metadata, &self->ev, t.info.id, PERF_BPF_EVENT_F_ASYNC);
	check_calls(_metadata, &self->ev, "bpf__tcp_congestion_ops_ssthresh", &t,
		    PERF_BPF_EVENT_IMAGE_DEL);
	check_calls(_metadata, &self->ev, "bpf__tcp_congestion_ops_init", &init,
		    PERF_BPF_EVENT_IMAGE_DEL);
	EXPECT_EQ(0, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_STRUCT_OPS));
}

TEST_F(subprog, trampolines)
{
	int i, gone;

	self->nr_trampolines = make_trampolines(self->trampolines, TRAMPOLINES);
	ASSERT_EQ(TRAMPOLINES, self->nr_trampolines);
	take_all(&self->ev, &self->rings);
	EXPECT_EQ(TRAMPOLINES, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_TRAMPOLINE));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));

	while (self->nr_trampolines)
		close(self->trampolines[--self->nr_trampolines]);
	/* Two grace periods later, in a work item. */
	do {
		usleep(1000);
		take_all(&self->ev, &self->rings);
		for (i = 0, gone = 0; i < (int)self->ev.nr; i++)
			gone += is_text(&self->ev.e[i]) &&
				self->ev.e[i].r.bpf.type == PERF_BPF_EVENT_IMAGE_DEL;
	} while (gone < TRAMPOLINES);
	EXPECT_EQ(0, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_TRAMPOLINE));
	for (i = 0; i < (int)self->ev.nr; i++)
		if (is_text(&self->ev.e[i]) &&
		    self->ev.e[i].r.bpf.type == PERF_BPF_EVENT_IMAGE_DEL)
			EXPECT_EQ(PERF_BPF_EVENT_F_ASYNC, self->ev.e[i].r.bpf.flags);
}

/* It gets its page at the first use, and keeps it: nothing to unregister. */
TEST_F(subprog, dispatcher)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct symbols *sy = read_kallsyms();
	char packet[64] = "";
	int i;

	for (i = 0; i < sy->nr; i++)
		if (!strcmp(sy->s[i].name, "bpf_dispatcher_xdp"))
			SKIP(return, "an XDP program was used since boot");
	free(sy);
	EXPECT_EQ(1, check_one(_metadata, self, "pass_packets"));
	opts.data_in = packet;
	opts.data_size_in = sizeof(packet);
	opts.repeat = 2;	/* a single run bypasses it */
	ASSERT_EQ(0, bpf_prog_test_run_opts(bpf_program__fd(self->skel->progs.pass_packets),
					    &opts));
	take_all(&self->ev, &self->rings);
	EXPECT_EQ(1, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_DISPATCHER));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
	bpf_event__destroy(self->skel);
	self->skel = NULL;
	take_all(&self->ev, &self->rings);
	EXPECT_EQ(1, check_images(_metadata, &self->ev, PERF_BPF_EVENT_KIND_DISPATCHER));
}

/* Objects that are loaded with a fault. */
enum loading { FUNCTIONS, TRAMPOLINE, STRUCT_OPS };

FIXTURE(fail_nth)
{
	struct perf_rings rings;
	struct events ev;
	struct bpf_event *skel;
	struct faults faults;
	int prog;
};

FIXTURE_VARIANT(fail_nth)
{
	enum loading what;
};

FIXTURE_VARIANT_ADD(fail_nth, functions) { .what = FUNCTIONS };
FIXTURE_VARIANT_ADD(fail_nth, trampoline) { .what = TRAMPOLINE };
FIXTURE_VARIANT_ADD(fail_nth, struct_ops) { .what = STRUCT_OPS };

FIXTURE_SETUP(fail_nth)
{
	self->prog = -1;
	ASSERT_EQ(0, pin_to_cpu(0));
	if (faults_open(&self->faults))
		SKIP(return, NEEDS_FAULT_INJECTION);
	ASSERT_EQ(0, open_listener(_metadata, &self->rings, RING_PAGES));
	if (variant->what == TRAMPOLINE) {
		struct btf *btf = btf__load_vmlinux_btf();

		ASSERT_NE(NULL, btf);
		self->prog = load_fentry(next_syscall(btf, 0));
		btf__free(btf);
		ASSERT_LE(0, self->prog);
	} else if (variant->what == STRUCT_OPS) {
		self->skel = load_struct_ops();
		ASSERT_NE(NULL, self->skel);
	}
}

FIXTURE_TEARDOWN(fail_nth)
{
	close(self->prog);
	faults_close(&self->faults);
	bpf_event__destroy(self->skel);
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

/*
 * A fault at each step of creating programs and images: those that fail are not announced,
 * or withdrawn. In the end, all ranges are removed, and no number is missing.
 */
TEST_F(fail_nth, load)
{
	struct bpf_link *link = NULL;
	int fd, failed = 0;
	bool hit;

	do {
		fault_arm(&self->faults);
		fd = -1;
		switch (variant->what) {
		case FUNCTIONS:
			fd = load_functions(7);
			break;
		case TRAMPOLINE:
			fd = bpf_link_create(self->prog, 0, BPF_TRACE_FENTRY, NULL);
			break;
		case STRUCT_OPS:
			link = bpf_map__attach_struct_ops(self->skel->maps.ca);
			fd = link ? -1 : -errno;
			break;
		}
		hit = fault_hit(&self->faults);
		if (fd >= 0) {
			close(fd);
		} else if (!link) {
			failed++;
			/* EINVAL: no memory for struct bpf_prog. */
			EXPECT_TRUE(hit && (fd == -ENOMEM || fd == -EFAULT || fd == -ENOSPC ||
					    (fd == -EINVAL && variant->what == FUNCTIONS)))
				TH_LOG("%s at fault %u", strerror(-fd), self->faults.nth);
		}
		/* A map can be registered only once. */
		if (link && hit) {
			bpf_link__destroy(link);
			link = NULL;
			bpf_event__destroy(self->skel);
			self->skel = load_struct_ops();
			ASSERT_NE(NULL, self->skel);
		}
		take_all(&self->ev, &self->rings);
	} while (hit);
	EXPECT_LT(0, failed);
	bpf_link__destroy(link);
	bpf_event__destroy(self->skel);
	self->skel = NULL;
	close(self->prog);
	self->prog = -1;

	/* Some are freed in a work item after a grace period. The harness limits the wait. */
	while (count_live(&self->ev) > 0) {
		usleep(1000);
		take_all(&self->ev, &self->rings);
	}
	EXPECT_LT(0, self->ev.nr);
	EXPECT_EQ(0, count_unpaired(&self->ev));
	EXPECT_EQ(0, count_gaps(&self->ev));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
	TH_LOG("%u faults, %d errors", self->faults.nth - 1, failed);
}

/* "bpf_prog_TAG_NAME", as in kallsyms. */
static void expected_name(char *name, size_t size, const struct truth *t)
{
	int i, n = snprintf(name, size, "bpf_prog_");

	for (i = 0; i < BPF_TAG_SIZE; i++)
		n += snprintf(name + n, size - n, "%02x", t->info.tag[i]);
	snprintf(name + n, size - n, "_%s", t->info.name);
}

TEST_F(subprog, no_jit)
{
	char name[128];
	struct event *e;
	struct truth t;
	int fd, err;

	err = setting_change(&self->jit, JIT_ENABLE, "0");
	if (err == -EINVAL)
		SKIP(return, "CONFIG_BPF_JIT_ALWAYS_ON");
	ASSERT_EQ(0, err);
	fd = load_zero(BPF_PROG_TYPE_SOCKET_FILTER);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, get_truth(&t, fd));
	ASSERT_EQ(0, t.info.jited_prog_len);
	take_all(&self->ev, &self->rings);
	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	ASSERT_NE(NULL, e);
	EXPECT_EQ(PERF_BPF_EVENT_F_NOJIT, e->r.bpf.flags);
	EXPECT_EQ(0, e->r.addr);
	EXPECT_EQ(0, e->r.len);
	EXPECT_EQ(1, e->r.sub_cnt);
	expected_name(name, sizeof(name), &t);
	EXPECT_STREQ(name, e->name);
	close(fd);
	take_all(&self->ev, &self->rings);
	check_unloaded(_metadata, &self->ev, t.info.id, PERF_BPF_EVENT_F_NOJIT);
}

#define UNPRIVILEGED_BPF "/proc/sys/kernel/unprivileged_bpf_disabled"

/* Programs loaded without CAP_BPF are not in kallsyms, but do run. */
TEST_F(subprog, without_cap_bpf)
{
	struct setting unprivileged;
	int fd, status, pipes[2];
	char name[128];
	struct event *e;
	struct truth t;
	pid_t pid;

	if (setting_change(&unprivileged, UNPRIVILEGED_BPF, "0"))
		SKIP(return, "unprivileged BPF is off until the next boot");
	ASSERT_EQ(0, pipe(pipes));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		fd = load_zero(BPF_PROG_TYPE_SOCKET_FILTER);
		/* It can't get its addresses. */
		if (fd < 0 || get_truth(&t, fd) || write(pipes[1], &t, sizeof(t)) != sizeof(t))
			_exit(1);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	setting_restore(&unprivileged);
	ASSERT_EQ(0, status);
	ASSERT_EQ(sizeof(t), read(pipes[0], &t, sizeof(t)));
	take_all(&self->ev, &self->rings);
	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	ASSERT_NE(NULL, e);
	EXPECT_EQ(0, e->r.bpf.flags);
	EXPECT_NE(0, e->r.addr);
	EXPECT_LT(0, e->r.len);
	expected_name(name, sizeof(name), &t);
	EXPECT_STREQ(name, e->name);
	check_unloaded(_metadata, &self->ev, t.info.id, 0);
}

/*
 * Classic BPF has no records, and uses no numbers: those of two programs loaded before
 * and after filters are attached and replaced are consecutive.
 */
TEST_F(subprog, classic)
{
	/* struct sock_filter and sock_fprog, without linux/filter.h (see common.h) */
	struct {
		uint16_t code;
		uint8_t jt, jf;
		uint32_t k;
	} accept_all = { .code = BPF_RET | BPF_K, .k = 0xffff };
	struct {
		uint16_t len;
		void *filter;
	} filter = { .len = 1, .filter = &accept_all };
	uint64_t seq[2];
	struct event *e;
	struct truth t;
	int i, n, sock;
	int fd[2];

	sock = socket(AF_UNIX, SOCK_DGRAM, 0);
	ASSERT_LE(0, sock);
	for (i = 0; i < 2; i++) {
		fd[i] = load_functions(1);
		ASSERT_EQ(0, get_truth(&t, fd[i]));
		take_all(&self->ev, &self->rings);
		e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
		ASSERT_NE(NULL, e);
		seq[i] = e->r.seq;
		for (n = 0; n < 100 && !i; n++)
			ASSERT_EQ(0, setsockopt(sock, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
						sizeof(filter)));
	}
	EXPECT_EQ(seq[0] + 1, seq[1]);
	close(fd[0]);
	close(fd[1]);
	close(sock);
}

FIXTURE(functions)
{
	struct perf_rings rings;
	struct events ev;
};

FIXTURE_VARIANT(functions)
{
	int n;
};

FIXTURE_VARIANT_ADD(functions, one) { .n = 1 };
FIXTURE_VARIANT_ADD(functions, seven) { .n = 7 };
FIXTURE_VARIANT_ADD(functions, most) { .n = MAX_FUNCTIONS };

FIXTURE_SETUP(functions)
{
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, open_listener(_metadata, &self->rings, RING_PAGES));
}

FIXTURE_TEARDOWN(functions)
{
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

TEST_F(functions, load_unload)
{
	struct truth t;
	int fd;

	fd = load_functions(variant->n);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, get_truth(&t, fd));
	take_all(&self->ev, &self->rings);
	EXPECT_EQ(variant->n, check_loaded(_metadata, &self->ev, fd, BPF_CGROUP_INET_EGRESS));
	EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
	close(fd);
	take_all(&self->ev, &self->rings);
	check_unloaded(_metadata, &self->ev, t.info.id, 0);
	EXPECT_EQ(0, perf_ring_lost(self->rings.ring[0]));
}

/* --- unloading ------------------------------------------------------------------ */

enum way { BY_CLOSE, BY_LINK, BY_UNPIN, BY_EXIT, BY_MAP, BY_ELEMENT };

FIXTURE(unload)
{
	struct perf_rings rings;
	struct events ev;
	char dir[64];
	bool mounted;
};

FIXTURE_VARIANT(unload)
{
	enum way way;
	uint16_t flags;
};

/* In the system call, or on return from it. */
FIXTURE_VARIANT_ADD(unload, close) { .way = BY_CLOSE };
/* After a grace period, in the context in which it ends. */
FIXTURE_VARIANT_ADD(unload, link) { .way = BY_LINK, .flags = PERF_BPF_EVENT_F_ASYNC };
FIXTURE_VARIANT_ADD(unload, unpin) { .way = BY_UNPIN };
FIXTURE_VARIANT_ADD(unload, exit) { .way = BY_EXIT };
/* In the work item that frees a program array. */
FIXTURE_VARIANT_ADD(unload, map) { .way = BY_MAP, .flags = PERF_BPF_EVENT_F_ASYNC };
/* In the system call. */
FIXTURE_VARIANT_ADD(unload, element) { .way = BY_ELEMENT };

FIXTURE_SETUP(unload)
{
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, open_listener(_metadata, &self->rings, RING_PAGES));
	if (variant->way != BY_UNPIN)
		return;
	strcpy(self->dir, "/tmp/bpf_event.XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->dir));
	ASSERT_EQ(0, mount("bpf", self->dir, "bpf", 0, NULL));
	self->mounted = true;
}

FIXTURE_TEARDOWN(unload)
{
	if (self->mounted)
		umount(self->dir);
	if (*self->dir)
		rmdir(self->dir);
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

TEST_F(unload, range)
{
	int fd, other = -1, status, pipes[2];
	uint32_t key = 0, cause = getpid();	/* pid of the last user */
	struct event *unload;
	struct truth t;
	char pin[80];
	pid_t pid;

	switch (variant->way) {
	case BY_CLOSE:
		fd = load_functions(7);
		ASSERT_EQ(0, get_truth(&t, fd));
		close(fd);
		break;
	case BY_LINK:
		fd = load_zero(BPF_PROG_TYPE_RAW_TRACEPOINT);
		ASSERT_EQ(0, get_truth(&t, fd));
		other = bpf_raw_tracepoint_open("sys_enter", fd);
		ASSERT_LE(0, other);
		close(fd);
		close(other);
		break;
	case BY_UNPIN:
		fd = load_functions(7);
		ASSERT_EQ(0, get_truth(&t, fd));
		snprintf(pin, sizeof(pin), "%s/functions", self->dir);
		ASSERT_EQ(0, bpf_obj_pin(fd, pin));
		close(fd);
		take_all(&self->ev, &self->rings);
		ASSERT_EQ(NULL, find(&self->ev, PERF_BPF_EVENT_SUBPROG_UNLOAD, t.info.id, 0));
		ASSERT_EQ(0, unlink(pin));
		break;
	case BY_EXIT:
		ASSERT_EQ(0, pipe(pipes));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			fd = load_functions(7);
			if (get_truth(&t, fd) || write(pipes[1], &t, sizeof(t)) != sizeof(t))
				_exit(1);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(sizeof(t), read(pipes[0], &t, sizeof(t)));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		cause = pid;
		break;
	case BY_MAP:
	case BY_ELEMENT:
		fd = load_functions(7);
		ASSERT_EQ(0, get_truth(&t, fd));
		other = bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, NULL, 4, 4, 1, NULL);
		ASSERT_LE(0, other);
		ASSERT_EQ(0, bpf_map_update_elem(other, &key, &fd, BPF_ANY));
		close(fd);
		EXPECT_EQ(0, variant->way == BY_MAP ? close(other) :
						      bpf_map_delete_elem(other, &key));
		break;
	}
	unload = wait_for(&self->ev, &self->rings, PERF_BPF_EVENT_SUBPROG_UNLOAD, t.info.id, 0);
	EXPECT_EQ(!variant->flags, cause == unload->id.pid);
	/* The last of them may come later. */
	wait_for(&self->ev, &self->rings, PERF_BPF_EVENT_SUBPROG_UNLOAD, t.info.id,
		 unload->r.sub_cnt - 1);
	EXPECT_NE(0, t.info.id);
	check_unloaded(_metadata, &self->ev, t.info.id, variant->flags);
	if (variant->way == BY_ELEMENT)
		close(other);
}

/* --- storms --------------------------------------------------------------------- */

#define STORM 10000
/* When addresses can't be attributed, so the test must fail. */
#define STORM_IN_VAIN 1000
#define STORM_RING_PAGES 1024

/* A time at which an address is known to be that of a loader's program. */
struct sighting {
	uint32_t id;
	uint64_t addr;
	uint64_t time;
};

struct loader {
	pthread_t thread;
	int cpu, loads, functions, link_every;
	struct sighting *seen;		/* loads of them, or NULL */
	int err;
	bool done;
};

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Loads and closes; with link_every, some are freed after a grace period. */
static void *loader_main(void *arg)
{
	struct loader *l = arg;
	struct truth *t = malloc(sizeof(*t));
	int i, fd, link;

	l->err = t ? pin_to_cpu(l->cpu) : -ENOMEM;
	for (i = 0; i < l->loads && !l->err; i++) {
		link = -1;
		if (l->link_every && i % l->link_every == 0) {
			fd = load_zero(BPF_PROG_TYPE_RAW_TRACEPOINT);
			link = fd < 0 ? -1 : bpf_raw_tracepoint_open("sys_enter", fd);
			if (link < 0)
				l->err = -errno;
		} else {
			fd = load_functions(l->functions);
		}
		if (fd < 0) {
			l->err = -errno;
			break;
		}
		if (l->seen) {
			l->err = get_truth(t, fd);
			l->seen[i].id = t->info.id;
			l->seen[i].addr = t->addr[0] + t->len[0] / 2;
			l->seen[i].time = now();
		}
		close(fd);
		/* Last: closing the link must free the program. */
		if (link >= 0)
			close(link);
	}
	free(t);
	__atomic_store_n(&l->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool all_done(struct loader *l, int n)
{
	int i, done = 0;

	for (i = 0; i < n; i++)
		done += __atomic_load_n(&l[i].done, __ATOMIC_ACQUIRE);
	return done == n;
}

/*
 * The earliest time from each event on. @ev is sorted by seq, and times nearly are:
 * a task may be interrupted between taking the number and the time.
 */
static uint64_t *earliest_from(const struct events *ev)
{
	uint64_t *earliest = malloc((ev->nr + 1) * sizeof(*earliest)), min = UINT64_MAX;
	size_t i;

	if (!earliest)
		abort();
	for (i = ev->nr; i--; ) {
		if (ev->e[i].id.time < min)
			min = ev->e[i].id.time;
		earliest[i] = min;
	}
	return earliest;
}

/*
 * The program at @s->addr at @s->time: that of the last range added before then;
 * it stays until another overlaps it.
 */
static uint32_t attribute(const struct events *ev, const uint64_t *earliest,
			  const struct sighting *s)
{
	size_t low = 0, high = ev->nr, mid;
	const struct event *e;

	while (low < high) {
		mid = (low + high) / 2;
		if (earliest[mid] <= s->time)
			low = mid + 1;
		else
			high = mid;
	}
	while (low--) {
		e = &ev->e[low];
		if (!is_text(e) || ends(e) || e->id.time > s->time)
			continue;
		if (s->addr >= e->r.addr && s->addr < e->r.addr + e->r.len)
			return e->r.bpf.id;
	}
	return 0;
}

/*
 * In the order of seq, which has no gap, a range is never added before those that
 * it overlaps are removed. Sorts the events. Programs that were loaded before the rings
 * were opened, so with lower IDs, may be freed late.
 */
static void check_reuse(struct __test_metadata *_metadata, struct events *ev)
{
	const struct event *live[MAX_LIVE], *e;
	int nr = 0, early = 0, gaps = 0, strays = 0, j;
	uint32_t first = UINT32_MAX;
	uint64_t last = 0;
	size_t i;

	qsort(ev->e, ev->nr, sizeof(*ev->e), by_seq);
	for (i = 0; i < ev->nr; i++) {
		e = &ev->e[i];
		if (is_text(e) && !ends(e) && e->r.bpf.id < first)
			first = e->r.bpf.id;
	}
	for (i = 0; i < ev->nr; i++) {
		e = &ev->e[i];
		if (!is_text(e))
			continue;
		gaps += last && e->r.seq != last + 1;
		last = e->r.seq;
		if (ends(e)) {
			for (j = 0; j < nr; j++)
				if (live[j]->r.addr == e->r.addr && live[j]->r.len == e->r.len &&
				    live[j]->r.bpf.id == e->r.bpf.id)
					break;
			if (j < nr)
				live[j] = live[--nr];
			else if (e->r.bpf.id >= first)
				strays++;
			continue;
		}
		for (j = 0; j < nr; j++)
			early += overlap(live[j], e);
		ASSERT_GT(ARRAY_LEN(live), nr);
		live[nr++] = e;
	}
	EXPECT_EQ(0, gaps);
	EXPECT_EQ(0, strays);
	EXPECT_EQ(0, early);
}

FIXTURE(storm)
{
	struct perf_rings rings;
	struct events ev;
	struct loader loaders[2];
	int loads;			/* of each */
};

FIXTURE_SETUP(storm)
{
	int i;

	self->loads = storm_count(STORM) / 2;
	for (i = 0; i < 2; i++) {
		self->loaders[i].cpu = i;
		self->loaders[i].loads = self->loads;
		self->loaders[i].functions = 1;
		self->loaders[i].seen = calloc(self->loads, sizeof(struct sighting));
		ASSERT_NE(NULL, self->loaders[i].seen);
	}
}

FIXTURE_TEARDOWN(storm)
{
	free(self->loaders[0].seen);
	free(self->loaders[1].seen);
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

/* A consumer of the old records must look up the id. */
static void ask_after_each(struct perf_rings *rs, struct loader *l, int *asked, int *answered)
{
	struct truth *t = malloc(sizeof(*t));
	struct events ev = {};
	size_t i;
	bool end;
	int fd;

	do {
		end = all_done(l, 2);
		take_all(&ev, rs);
		for (i = 0; i < ev.nr; i++) {
			if (ev.e[i].type != PERF_RECORD_BPF_EVENT ||
			    ev.e[i].r.bpf.type != PERF_BPF_EVENT_PROG_LOAD)
				continue;
			++*asked;
			fd = bpf_prog_get_fd_by_id(ev.e[i].r.bpf.id);
			if (fd < 0)
				continue;
			*answered += !get_truth(t, fd);
			close(fd);
		}
		ev.nr = 0;
	} while (!end);
	forget(&ev);
	free(t);
}

/* The consumer makes no bpf() call if the records are complete. */
TEST_F(storm, attributed)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	int i, j, right = 0, asked = 0, answered = 0;
	uint64_t *earliest;
	bool end;

	attr.bpf_subprog = 1;
	if (perf_rings_open(&self->rings, &attr, STORM_RING_PAGES)) {
		attr.bpf_subprog = 0;
		ASSERT_EQ(0, perf_rings_open(&self->rings, &attr, STORM_RING_PAGES));
		for (i = 0; i < 2; i++)
			self->loaders[i].loads = STORM_IN_VAIN / 2;
	}
	if (self->rings.nr < 2)
		SKIP(return, "needs CPUs 0 and 1");
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&self->loaders[i].thread, NULL, loader_main,
					    &self->loaders[i]));
	if (attr.bpf_subprog) {
		do {
			end = all_done(self->loaders, 2);
			take_all(&self->ev, &self->rings);
			usleep(1000);
		} while (!end);
	} else {
		ask_after_each(&self->rings, self->loaders, &asked, &answered);
	}
	for (i = 0; i < 2; i++) {
		pthread_join(self->loaders[i].thread, NULL);
		ASSERT_EQ(0, self->loaders[i].err);
		ASSERT_EQ(0, perf_ring_lost(self->rings.ring[i]));
	}
	ASSERT_EQ(1, !!attr.bpf_subprog)
		TH_LOG("asked about %d programs, %d were still there", asked, answered);

	check_reuse(_metadata, &self->ev);
	earliest = earliest_from(&self->ev);
	for (i = 0; i < 2; i++)
		for (j = 0; j < self->loaders[i].loads; j++)
			right += attribute(&self->ev, earliest, &self->loaders[i].seen[j]) ==
				 self->loaders[i].seen[j].id;
	free(earliest);
	TH_LOG("attributed %d of %d addresses", right, 2 * self->loads);
	EXPECT_EQ(2 * self->loads, right);
}

/* --- the stream -------------------------------------------------------------------- */

FIXTURE(stream)
{
	struct perf_ring ring, other;
	struct perf_rings rings, small;
	struct events ev, some;
	struct perf_event_attr attr;
	struct setting cpu1;
};

FIXTURE_SETUP(stream)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	int err;

	self->ring.fd = -1;
	self->other.fd = -1;
	ASSERT_EQ(0, pin_to_cpu(0));
	attr.bpf_subprog = 1;
	self->attr = attr;
	err = try_open(&attr);
	ASSERT_EQ(0, err)
		TH_LOG("perf_event_open with bpf_subprog: %s", strerror(-err));
}

FIXTURE_TEARDOWN(stream)
{
	setting_restore(&self->cpu1);
	perf_ring_close(&self->ring);
	perf_ring_close(&self->other);
	perf_rings_close(&self->rings);
	perf_rings_close(&self->small);
	forget(&self->ev);
	forget(&self->some);
}

static uint32_t load_and_close(void)
{
	struct truth t = {};
	int fd = load_functions(1);

	if (get_truth(&t, fd))
		return 0;
	close(fd);
	return t.info.id;
}

/* Loads and unloads in another process. Returns its pid. */
static pid_t load_elsewhere(int times)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		while (times--)
			if (!load_and_close())
				_exit(1);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status ? pid : -1;
}

#define LOSSY_LOADS 300
#define LOSSY_FUNCTIONS 7

/*
 * Rings of one page, read now and then: the records received and those counted
 * as lost are exactly those emitted, which is the span of seq.
 */
TEST_F(stream, loss)
{
	struct loader loaders[2] = {};
	uint64_t lost, seen = 0, text = 0, plain = 0, emitted, first, last;
	struct event *e;
	struct truth t;
	size_t j;
	int i, fd;

	ASSERT_EQ(0, perf_rings_open(&self->rings, &self->attr, 1));
	if (self->rings.nr < 2)
		SKIP(return, "needs CPUs 0 and 1");
	/* Into empty rings: this one is not lost. */
	fd = load_functions(1);
	ASSERT_EQ(0, get_truth(&t, fd));
	take_all(&self->ev, &self->rings);
	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	ASSERT_NE(NULL, e);
	first = e->r.seq;

	for (i = 0; i < 2; i++) {
		loaders[i].cpu = i;
		loaders[i].loads = LOSSY_LOADS;
		loaders[i].functions = LOSSY_FUNCTIONS;
		ASSERT_EQ(0, pthread_create(&loaders[i].thread, NULL, loader_main, &loaders[i]));
	}
	/* However slow they are, read only after more records were lost. */
	while (!all_done(loaders, 2)) {
		for (lost = 0, i = 0; i < 2; i++)
			lost += perf_ring_lost(self->rings.ring[i]);
		if (lost > seen) {
			take_all(&self->ev, &self->rings);
			seen = lost;
		}
		usleep(1000);
	}
	for (i = 0; i < 2; i++) {
		pthread_join(loaders[i].thread, NULL);
		ASSERT_EQ(0, loaders[i].err);
	}
	take_all(&self->ev, &self->rings);
	close(fd);
	fd = load_functions(1);
	ASSERT_EQ(0, get_truth(&t, fd));
	take_all(&self->ev, &self->rings);
	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, 0);
	ASSERT_NE(NULL, e);
	last = e->r.seq;
	close(fd);

	for (lost = 0, i = 0; i < 2; i++)
		lost += perf_ring_lost(self->rings.ring[i]);
	for (j = 0; j < self->ev.nr; j++) {
		text += is_text(&self->ev.e[j]);
		plain += self->ev.e[j].type == PERF_RECORD_BPF_EVENT && !is_text(&self->ev.e[j]);
	}
	TH_LOG("%llu subprogram records and %llu others received, %llu lost",
	       (unsigned long long)text, (unsigned long long)plain, (unsigned long long)lost);
	/* Loads and unloads of each, and three more of the first and the last. */
	emitted = 2 * 2 * LOSSY_LOADS * LOSSY_FUNCTIONS + 3;
	EXPECT_EQ(emitted, last - first + 1);
	EXPECT_LT(0, lost);
	EXPECT_EQ(emitted + 2 * 2 * LOSSY_LOADS + 3, text + plain + lost);
}

/*
 * The last records of a burst are lost, and no record follows: there is no gap, only
 * PERF_FORMAT_LOST shows it.
 */
TEST_F(stream, silence)
{
	uint64_t lost = 0, text = 0, plain = 0;
	const int loads = 200;
	size_t j;
	int i;

	ASSERT_EQ(0, perf_rings_open(&self->rings, &self->attr, 1));
	for (i = 0; i < loads; i++)
		ASSERT_NE(0, load_and_close());
	take_all(&self->ev, &self->rings);
	for (i = 0; i < self->rings.nr; i++)
		lost += perf_ring_lost(self->rings.ring[i]);
	for (j = 0; j < self->ev.nr; j++) {
		text += is_text(&self->ev.e[j]);
		plain += self->ev.e[j].type == PERF_RECORD_BPF_EVENT && !is_text(&self->ev.e[j]);
	}
	EXPECT_LT(0, text);
	EXPECT_EQ(0, count_gaps(&self->ev));
	EXPECT_LT(0, lost);
	/* Load and unload, each with a record of the program and one of its subprogram. */
	EXPECT_EQ(4 * loads, text + plain + lost);
}

#define MULTI_FUNCTIONS 2000

static int by_addr(const void *a, const void *b)
{
	const struct event *x = *(const struct event *const *)a;
	const struct event *y = *(const struct event *const *)b;

	return x->r.addr < y->r.addr ? -1 : x->r.addr > y->r.addr;
}

/*
 * One link to many functions makes an image for each. All of them exist at the same time,
 * so their ranges are disjoint. Rings that are large enough have each record once. For
 * rings of one page, received and lost ones add up to the span of seq.
 */
TEST_F(stream, multi)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	uint64_t lost = 0, text = 0, plain = 0, adds = 0, dels, first, last;
	const struct event *images[MULTI_FUNCTIONS];
	int prog, link, fd[2], want = storm_count(MULTI_FUNCTIONS);
	uint32_t ids[MULTI_FUNCTIONS];
	struct truth t[2];
	struct event *e;
	size_t j;
	int i;

	if (traceable_ids(ids, want) < want)
		SKIP(return,
		     "needs tracefs, CONFIG_EXT4_FS=y, CONFIG_BTRFS_FS=y and CONFIG_XFS_FS=y");
	ASSERT_EQ(0, perf_rings_open(&self->rings, &self->attr, STORM_RING_PAGES));
	ASSERT_EQ(0, perf_rings_open(&self->small, &self->attr, 1));
	prog = load_fentry_multi();
	ASSERT_LE(0, prog);
	fd[0] = load_functions(1);
	ASSERT_EQ(0, get_truth(&t[0], fd[0]));
	take_all(&self->some, &self->small);

	opts.tracing_multi.ids = ids;
	opts.tracing_multi.cnt = want;
	link = bpf_link_create(prog, 0, BPF_TRACE_FENTRY_MULTI, &opts);
	ASSERT_LE(0, link)
		TH_LOG("link to %d functions: %s", want, strerror(errno));
	close(link);
	/* Some grace periods later, in work items. */
	do {
		usleep(1000);
		take_all(&self->ev, &self->rings);
		for (dels = 0, j = 0; j < self->ev.nr; j++)
			dels += is_text(&self->ev.e[j]) &&
				self->ev.e[j].r.bpf.type == PERF_BPF_EVENT_IMAGE_DEL;
	} while (dels < (uint64_t)want);
	take_all(&self->some, &self->small);
	/* Into empty rings: this one is not lost. */
	fd[1] = load_functions(1);
	ASSERT_EQ(0, get_truth(&t[1], fd[1]));
	take_all(&self->ev, &self->rings);
	take_all(&self->some, &self->small);

	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t[0].info.id, 0);
	ASSERT_NE(NULL, e);
	first = e->r.seq;
	e = find(&self->ev, PERF_BPF_EVENT_SUBPROG_LOAD, t[1].info.id, 0);
	ASSERT_NE(NULL, e);
	last = e->r.seq;
	EXPECT_EQ(2 * want + 2, last - first + 1);

	for (i = 0; i < self->rings.nr; i++)
		EXPECT_EQ(0, perf_ring_lost(self->rings.ring[i]));
	EXPECT_EQ(0, count_gaps(&self->ev));
	for (j = 0; j < self->ev.nr; j++) {
		e = &self->ev.e[j];
		if (!is_text(e) || e->r.bpf.type != PERF_BPF_EVENT_IMAGE_ADD)
			continue;
		check_image(_metadata, e, PERF_BPF_EVENT_KIND_TRAMPOLINE);
		ASSERT_GT(want, adds);
		images[adds++] = e;
	}
	ASSERT_EQ(want, adds);
	qsort(images, adds, sizeof(*images), by_addr);
	for (j = 1; j < adds; j++)
		ASSERT_LE(images[j - 1]->r.addr + images[j - 1]->r.len, images[j]->r.addr);

	for (i = 0; i < self->small.nr; i++)
		lost += perf_ring_lost(self->small.ring[i]);
	for (j = 0; j < self->some.nr; j++) {
		e = &self->some.e[j];
		text += is_text(e) && e->r.seq >= first;
		plain += e->type == PERF_RECORD_BPF_EVENT && !is_text(e) &&
			 (e->r.bpf.id == t[0].info.id || e->r.bpf.id == t[1].info.id);
	}
	TH_LOG("%d functions: %llu records received, %llu lost", want,
	       (unsigned long long)text, (unsigned long long)lost);
	EXPECT_EQ(2, plain);
	EXPECT_LT(0, lost);
	EXPECT_EQ(last - first + 1, text + lost);
	close(fd[0]);
	close(fd[1]);
	close(prog);
}

/* The reader from the documentation: all records in order of seq, and the lost ones. */
TEST_F(stream, reader)
{
	struct loader loaders[2] = {};
	const struct reader_text *t;
	uint64_t seq = 0, texts = 0, loads = 0, first;
	static struct reader rd;
	uint32_t id;
	int i;

	ASSERT_EQ(0, reader_open(&rd));
	for (i = 0; i < 2; i++) {
		loaders[i].cpu = i % rd.nr;
		loaders[i].loads = 200;
		loaders[i].functions = 3;
		ASSERT_EQ(0, pthread_create(&loaders[i].thread, NULL, loader_main, &loaders[i]));
	}
	while (texts < 2 * 2 * 200 * 3) {
		ASSERT_EQ(0, reader_take(&rd));
		while ((t = reader_next(&rd, 0))) {
			EXPECT_LT(seq, t->r.seq);
			seq = t->r.seq;
			EXPECT_EQ(0, strncmp(t->name, "bpf_prog_", 9));
			loads += t->r.type == PERF_BPF_EVENT_SUBPROG_LOAD;
			texts++;
		}
		usleep(1000);
	}
	for (i = 0; i < 2; i++) {
		pthread_join(loaders[i].thread, NULL);
		ASSERT_EQ(0, loaders[i].err);
	}
	EXPECT_EQ(2 * 200 * 3, loads);
	EXPECT_EQ(0, rd.missing);
	EXPECT_EQ(0, reader_lost(&rd));

	/* More than the rings hold, then one that shows the gap. */
	for (i = 0; i < 2; i++) {
		memset(&loaders[i], 0, sizeof(loaders[i]));
		loaders[i].cpu = i % rd.nr;
		loaders[i].loads = 400;
		loaders[i].functions = 7;
		ASSERT_EQ(0, pthread_create(&loaders[i].thread, NULL, loader_main, &loaders[i]));
	}
	for (i = 0; i < 2; i++) {
		pthread_join(loaders[i].thread, NULL);
		ASSERT_EQ(0, loaders[i].err);
	}
	ASSERT_EQ(0, reader_take(&rd));
	id = load_and_close();
	ASSERT_NE(0, id);
	ASSERT_EQ(0, reader_take_last(&rd));
	first = seq + 1;
	for (loads = 0, texts = 0; (t = reader_next(&rd, 1)); texts++) {
		EXPECT_LT(seq, t->r.seq);
		seq = t->r.seq;
		loads += t->r.id == id;
	}
	EXPECT_EQ(2, loads);
	EXPECT_LT(0, rd.missing);
	EXPECT_EQ(seq - first + 1, texts + rd.missing);
	/* The latter counts records of other types too. */
	EXPECT_LE(rd.missing, reader_lost(&rd));
	reader_close(&rd);
}

/* It has no memory, twice, and then gets all records. */
TEST_F(stream, reader_no_memory)
{
	const struct reader_text *t;
	static struct reader rd;
	uint32_t id[2];
	int i, texts[2] = {};

	ASSERT_EQ(0, reader_open(&rd));
	id[0] = load_and_close();
	ASSERT_NE(0, id[0]);
	no_memory = true;
	ASSERT_EQ(-ENOMEM, reader_take(&rd));
	ASSERT_EQ(-ENOMEM, reader_take(&rd));
	EXPECT_EQ(NULL, reader_next(&rd, 1));
	no_memory = false;
	id[1] = load_and_close();
	ASSERT_NE(0, id[1]);
	ASSERT_EQ(0, reader_take(&rd));
	while ((t = reader_next(&rd, 1)))
		for (i = 0; i < 2; i++)
			texts[i] += t->r.id == id[i];
	EXPECT_EQ(2, texts[0]);
	EXPECT_EQ(2, texts[1]);
	EXPECT_EQ(0, reader_lost(&rd));
	reader_close(&rd);
}

/* A task that is to be preempted while it emits a record. */

struct preemption {
	struct perf_ring ring;		/* of a breakpoint on the number */
	pthread_barrier_t ready;
	struct reader *rd;
	uint32_t id;			/* of the program that the other CPU loads */
	uint64_t missing;
	bool loaded, woken, woken_first, done;
	int woken_err, read_err;
};

/* Is this the name of a static variable seq of a function? */
static bool is_named_seq(const char *name)
{
	const char *end = strrchr(name, '.');

	/* gcc: seq.1, clang: perf_event_bpf_text.seq */
	return end && (!strcmp(end, ".seq") || (!strncmp(name, "seq.", 4) && end == name + 3));
}

static int open_breakpoint(struct perf_ring *r, uint64_t addr, bool wake)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = addr,
		.bp_len = HW_BREAKPOINT_LEN_8,
		.sample_period = wake,
		.wakeup_events = wake,
	};

	return perf_ring_open(r, &attr, 0, -1, wake);
}

/*
 * The address of the number: of the variables with its name, the one that is written
 * twice by a load and an unload. Returns 0 if there is no such name.
 */
static int find_seq(uint64_t *found)
{
	unsigned long long addr;
	char line[1024], type, name[128];
	FILE *f = fopen("/proc/kallsyms", "r");
	struct perf_ring r;
	uint64_t writes;
	int err = f ? 0 : -errno, names = 0;

	while (!err && !*found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %127s", &addr, &type, name) != 3 ||
		    !strchr("bd", type) || !is_named_seq(name) || addr % sizeof(writes))
			continue;
		names++;
		err = open_breakpoint(&r, addr, false);
		if (err)
			break;
		if (!load_and_close() || read(r.fd, &writes, sizeof(writes)) != sizeof(writes))
			err = -EIO;
		else if (writes == 2)
			*found = addr;
		perf_ring_close(&r);
	}
	if (f)
		fclose(f);
	return err ?: names;
}

/* On CPU 0: once it is woken, nothing else runs there until the reader is done. */
static void *keep_cpu(void *arg)
{
	struct sched_param param = { .sched_priority = 1 };
	struct preemption *p = arg;
	struct pollfd poll_fd = { .fd = p->ring.fd, .events = POLLIN };

	p->woken_err = pin_to_cpu(0) ?:
		       -pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	/* The other task on this CPU does not run again until this one sleeps in poll(). */
	pthread_barrier_wait(&p->ready);
	if (!p->woken_err && poll(&poll_fd, 1, 10000 * timeout_scale()) != 1)
		p->woken_err = -ETIMEDOUT;
	p->woken_first = !__atomic_load_n(&p->loaded, __ATOMIC_ACQUIRE);
	__atomic_store_n(&p->woken, true, __ATOMIC_RELEASE);
	while (!p->woken_err && !__atomic_load_n(&p->done, __ATOMIC_ACQUIRE))
		;
	return NULL;
}

/* On CPU 1: takes the next number, and reads up to its record. */
static void *read_beside(void *arg)
{
	struct preemption *p = arg;
	const struct reader_text *t;
	bool end = false;

	p->read_err = pin_to_cpu(1);
	while (!__atomic_load_n(&p->woken, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!p->read_err && !p->woken_err)
		p->id = load_and_close();
	if (!p->id)
		end = true;
	while (!end && !p->read_err) {
		p->read_err = reader_take(p->rd);
		while (!end && (t = reader_next(p->rd, 0))) {
			if (p->rd->missing > p->missing)
				p->missing = p->rd->missing;
			end = t->r.id == p->id;
		}
	}
	__atomic_store_n(&p->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * A task is to be preempted as soon as it has taken a number, for longer than a reader
 * waits for a record. That must not happen before the record is in the ring: a reader on
 * another CPU, which gets a higher number meanwhile, must not miss it.
 */
TEST_F(stream, preempted)
{
	static struct reader rd;
	struct preemption p = { .rd = &rd, .ring.fd = -1 };
	pthread_t keeper, reader;
	const struct reader_text *t;
	uint64_t addr = 0, next;
	uint32_t id;
	int err, fd;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	ASSERT_EQ(0, reader_open(&rd));
	err = find_seq(&addr);
	if (err == -ENOENT)
		SKIP(return, "needs CONFIG_HAVE_HW_BREAKPOINT");
	if (!err)
		SKIP(return, "needs CONFIG_KALLSYMS_ALL");
	ASSERT_LT(0, err)
		TH_LOG("breakpoint: %s", strerror(-err));
	ASSERT_NE(0, addr)
		TH_LOG("none of %d variables named seq has the number", err);
	id = load_and_close();
	ASSERT_NE(0, id);
	ASSERT_EQ(0, reader_take(&rd));
	while ((t = reader_next(&rd, 0)))
		;
	ASSERT_EQ(0, rd.missing);
	next = rd.next;
	ASSERT_NE(0, next);

	ASSERT_EQ(0, open_breakpoint(&p.ring, addr, true));
	pthread_barrier_init(&p.ready, NULL, 2);
	ASSERT_EQ(0, pthread_create(&reader, NULL, read_beside, &p));
	ASSERT_EQ(0, pthread_create(&keeper, NULL, keep_cpu, &p));
	pthread_barrier_wait(&p.ready);
	fd = load_functions(1);
	__atomic_store_n(&p.loaded, true, __ATOMIC_RELEASE);
	pthread_join(keeper, NULL);
	pthread_join(reader, NULL);
	perf_ring_close(&p.ring);

	ASSERT_EQ(0, p.woken_err);
	ASSERT_EQ(0, p.read_err);
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_NE(0, p.id);
	EXPECT_TRUE(p.woken_first)
		TH_LOG("the load had returned before the other task ran");
	/* That of the preempted task, and the first of the other CPU. */
	EXPECT_EQ(next + 2, rd.next);
	EXPECT_EQ(0, p.missing)
		TH_LOG("a number was taken long before its record was there");
	reader_close(&rd);
}

/*
 * Two programs that the listener sees, and between them two that it does not: the
 * records of the former, and gaps in seq for those of the latter.
 */
static void check_two_and_two(struct __test_metadata *_metadata, FIXTURE_DATA(stream) *self)
{
	uint64_t last = 0, gaps = 0, records = 0;
	size_t i;

	take_ring(&self->ev, &self->ring);
	for (i = 0; i < self->ev.nr; i++) {
		if (!is_text(&self->ev.e[i]))
			continue;
		gaps += last ? self->ev.e[i].r.seq - last - 1 : 0;
		last = self->ev.e[i].r.seq;
		records++;
	}
	EXPECT_EQ(4, records);
	EXPECT_EQ(4, gaps);
	EXPECT_EQ(0, perf_ring_lost(&self->ring));
}

/* A listener to one task has gaps only where others loaded programs. */
TEST_F(stream, per_task)
{
	size_t i;

	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, 0, -1, RING_PAGES));
	ASSERT_NE(0, load_and_close());
	ASSERT_LT(0, load_elsewhere(2));
	ASSERT_NE(0, load_and_close());
	check_two_and_two(_metadata, self);
	for (i = 0; i < self->ev.nr; i++)
		if (is_text(&self->ev.e[i]))
			EXPECT_EQ(getpid(), self->ev.e[i].id.pid);
}

/* The same for a listener to one CPU. */
TEST_F(stream, per_cpu)
{
	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, -1, 0, RING_PAGES));
	ASSERT_NE(0, load_and_close());
	if (pin_to_cpu(1))
		SKIP(return, "needs CPU 1");
	ASSERT_NE(0, load_and_close());
	ASSERT_NE(0, load_and_close());
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_NE(0, load_and_close());
	check_two_and_two(_metadata, self);
}

/* Two events that write to one ring: it has each record twice. */
TEST_F(stream, set_output)
{
	uint32_t id;
	int n = 0;
	size_t i;

	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, -1, 0, RING_PAGES));
	ASSERT_EQ(0, perf_ring_open(&self->other, &self->attr, -1, 0, 0));
	ASSERT_EQ(0, ioctl(self->other.fd, PERF_EVENT_IOC_SET_OUTPUT, self->ring.fd));
	id = load_and_close();
	ASSERT_NE(0, id);
	take_ring(&self->ev, &self->ring);
	qsort(self->ev.e, self->ev.nr, sizeof(*self->ev.e), by_seq);
	for (i = 0; i < self->ev.nr; i++) {
		if (!is_text(&self->ev.e[i]))
			continue;
		EXPECT_EQ(id, self->ev.e[i].r.bpf.id);
		if (n++ % 2)
			EXPECT_EQ(0, memcmp(&self->ev.e[i].r, &self->ev.e[i - 1].r, RECORD_SIZE));
	}
	EXPECT_EQ(4, n);
}

/* The newest comes first. */
TEST_F(stream, write_backward)
{
	uint32_t ids[3];
	int i, n = 0;
	size_t j;

	self->attr.write_backward = 1;
	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, -1, 0, RING_PAGES));
	for (i = 0; i < 3; i++) {
		ids[i] = load_and_close();
		ASSERT_NE(0, ids[i]);
	}
	take_ring(&self->ev, &self->ring);
	for (j = 0; j < self->ev.nr; j++) {
		if (!is_text(&self->ev.e[j]))
			continue;
		ASSERT_GT(6, n);
		EXPECT_EQ(ids[2 - n / 2], self->ev.e[j].r.bpf.id);
		EXPECT_EQ(n % 2 ? PERF_BPF_EVENT_SUBPROG_LOAD : PERF_BPF_EVENT_SUBPROG_UNLOAD,
			  self->ev.e[j].r.bpf.type);
		n++;
	}
	EXPECT_EQ(6, n);
}

TEST_F(stream, inherit)
{
	pid_t child, grandchild[2];
	int n = 0, pipes[2], status;
	size_t i;

	self->attr.inherit = 1;
	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, 0, 0, RING_PAGES));
	ASSERT_EQ(0, pipe(pipes));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		grandchild[0] = load_elsewhere(1);
		_exit(write(pipes[1], grandchild, sizeof(pid_t)) != sizeof(pid_t));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(sizeof(pid_t), read(pipes[0], grandchild, sizeof(pid_t)));
	ASSERT_LT(0, grandchild[0]);
	take_ring(&self->ev, &self->ring);
	for (i = 0; i < self->ev.nr; i++) {
		if (!is_text(&self->ev.e[i]))
			continue;
		EXPECT_EQ(grandchild[0], (pid_t)self->ev.e[i].id.pid);
		n++;
	}
	EXPECT_EQ(2, n);
}

/*
 * Returns the number of records in a ring, or -1 if one has another identifier, or a pid
 * outside of @first to @last. An inherited event has its own stream_id.
 */
static int check_ids(struct perf_ring *ring, uint32_t first, uint32_t last, bool inherited,
		     uint64_t id)
{
	const struct perf_event_header *h;
	const struct text_record *r;
	struct {
		uint32_t pid, tid;
		uint64_t stream_id, identifier;
	} ids;
	int n = 0;

	while ((h = perf_ring_next(ring))) {
		r = (const void *)h;
		if (r->bpf.type < PERF_BPF_EVENT_SUBPROG_LOAD)
			continue;
		memcpy(&ids, (const char *)h + h->size - sizeof(ids), sizeof(ids));
		if (ids.identifier != id || (ids.stream_id != id) != inherited ||
		    ids.pid < first || ids.pid > last)
			return -1;
		n++;
	}
	return n;
}

/* Runs @fn as the first process of a new PID namespace: 0 if it returns 0. */
static int in_new_pid_namespace(int (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return -1;
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status ? 0 : -1;
}

/*
 * Listens, too: its child inherits an event of either namespace. A task that has an event
 * which is not inherited does not swap its events with those of its children in a context
 * switch.
 */
static int load_as_second(void *attr)
{
	struct perf_event_attr own = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(own), .config = PERF_COUNT_SW_DUMMY,
	};
	struct perf_ring ring;
	uint64_t id;

	return syscall(SYS_perf_event_open, &own, 0, -1, -1, 0) < 0 ||
	       perf_ring_open(&ring, attr, 0, 0, RING_PAGES) ||
	       ioctl(ring.fd, PERF_EVENT_IOC_ID, &id) || load_elsewhere(1) != 2 ||
	       check_ids(&ring, 2, 2, true, id) != 2;
}

struct listener {
	const struct perf_event_attr *attr;
	int ready[2], loaded[2];
};

/* The loading process is not in this namespace. */
static int listen_elsewhere(void *arg)
{
	struct listener *l = arg;
	struct perf_ring ring;
	uint64_t id;
	char c = 0;

	if (perf_ring_open(&ring, l->attr, -1, 0, RING_PAGES) ||
	    ioctl(ring.fd, PERF_EVENT_IOC_ID, &id) || write(l->ready[1], &c, 1) != 1 ||
	    read(l->loaded[0], &c, 1) != 1)
		return 1;
	return check_ids(&ring, 0, 0, false, id) != 2;
}

/*
 * The pid is from the PID namespace in which the event was opened, the identifier from the
 * opened event: for an event inherited by a process in another namespace, and for one of
 * two listeners in different namespaces.
 */
TEST_F(stream, namespaces)
{
	struct listener l = { .attr = &self->attr };
	pid_t child;
	uint64_t id;
	int status;
	char c = 0;

	if (access("/proc/self/ns/pid", F_OK))
		SKIP(return, "needs CONFIG_PID_NS");
	self->attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_IDENTIFIER;
	self->attr.inherit = 1;
	ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, 0, 0, RING_PAGES));
	ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_ID, &id));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(!!in_new_pid_namespace(load_as_second, &self->attr));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	/* Its pid in that namespace is 2. */
	EXPECT_EQ(2, check_ids(&self->ring, child + 1, UINT32_MAX, true, id));

	self->attr.inherit = 0;
	ASSERT_EQ(0, perf_ring_open(&self->other, &self->attr, -1, 0, RING_PAGES));
	ASSERT_EQ(0, ioctl(self->other.fd, PERF_EVENT_IOC_ID, &id));
	ASSERT_EQ(0, pipe(l.ready));
	ASSERT_EQ(0, pipe(l.loaded));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(!!in_new_pid_namespace(listen_elsewhere, &l));
	ASSERT_EQ(1, read(l.ready[0], &c, 1));
	ASSERT_NE(0, load_and_close());
	ASSERT_EQ(1, write(l.loaded[1], &c, 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(2, check_ids(&self->other, getpid(), getpid(), false, id));
}

/* All fields of sample_id, in all combinations, and none. */
static const uint64_t sample_fields[] = {
	PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER,
};

/*
 * Concurrent listeners with different forms of the same record: each one has another
 * sample_type or clock than the one before, or the same ones and another ID.
 */
TEST_F(stream, sample_ids)
{
	static const struct {
		uint64_t type;
		int clock;
		bool none;
	} forms[] = {
		{ PERF_SAMPLE_TIME | PERF_SAMPLE_ID, CLOCK_MONOTONIC },
		{ PERF_SAMPLE_TIME | PERF_SAMPLE_ID, CLOCK_MONOTONIC },
		{ PERF_SAMPLE_TIME | PERF_SAMPLE_ID, CLOCK_REALTIME },
		{ PERF_SAMPLE_TIME, CLOCK_REALTIME },
		{ PERF_SAMPLE_TIME | PERF_SAMPLE_ID, CLOCK_MONOTONIC, .none = true },
		{ PERF_SAMPLE_TID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_IDENTIFIER,
		  CLOCK_MONOTONIC },
		{ 0, CLOCK_MONOTONIC },
		{ PERF_SAMPLE_TID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_IDENTIFIER,
		  CLOCK_MONOTONIC },
	};
	uint64_t id, before[ARRAY_LEN(forms)], seq[2][ARRAY_LEN(forms)];
	static struct perf_ring rings[ARRAY_LEN(forms)];
	const struct perf_event_header *h;
	const struct text_record *r;
	struct timespec ts;
	const uint64_t *v;
	int i, j, seen;

	for (i = 0; i < (int)ARRAY_LEN(forms); i++) {
		self->attr.sample_type = forms[i].type;
		self->attr.clockid = forms[i].clock;
		self->attr.sample_id_all = !forms[i].none;
		ASSERT_EQ(0, perf_ring_open(&rings[i], &self->attr, -1, 0, RING_PAGES));
		clock_gettime(forms[i].clock, &ts);
		before[i] = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	}
	ASSERT_NE(0, load_and_close());
	for (i = 0; i < (int)ARRAY_LEN(forms); i++) {
		ASSERT_EQ(0, ioctl(rings[i].fd, PERF_EVENT_IOC_ID, &id));
		for (seen = 0; (h = perf_ring_next(&rings[i])); ) {
			r = (const void *)h;
			if (r->bpf.type < PERF_BPF_EVENT_SUBPROG_LOAD)
				continue;
			ASSERT_GT(2, seen);
			seq[seen++][i] = r->seq;
			v = (const void *)((const char *)h + RECORD_SIZE + 40);
			for (j = 0; !forms[i].none && j < (int)ARRAY_LEN(sample_fields); j++) {
				if (!(forms[i].type & sample_fields[j]))
					continue;
				switch (sample_fields[j]) {
				case PERF_SAMPLE_TID:
					EXPECT_EQ(getpid() | (uint64_t)gettid() << 32, *v);
					break;
				case PERF_SAMPLE_TIME:
					clock_gettime(forms[i].clock, &ts);
					EXPECT_LE(before[i], *v);
					EXPECT_GE(ts.tv_sec * 1000000000ULL + ts.tv_nsec, *v);
					break;
				default:
					EXPECT_EQ(id, *v);
				}
				v++;
			}
			EXPECT_EQ((const char *)h + h->size, (const char *)v);
		}
		EXPECT_EQ(2, seen);
		EXPECT_EQ(seq[0][0], seq[0][i]);
		EXPECT_EQ(seq[1][0], seq[1][i]);
		perf_ring_close(&rings[i]);
	}
}

TEST_F(stream, sample_id)
{
	const uint64_t *fields = sample_fields;
	const int nr_fields = ARRAY_LEN(sample_fields);
	const struct perf_event_header *h;
	int mask, i, seen;
	uint64_t id, before;
	const uint64_t *v;
	uint16_t size;

	for (mask = 0; mask <= 1 << nr_fields; mask++) {
		/* The last round requests all of them, but no sample_id. */
		self->attr.sample_id_all = mask < 1 << nr_fields;
		self->attr.sample_type = 0;
		for (i = 0, size = RECORD_SIZE + 40; i < nr_fields; i++) {
			if (mask & 1 << i || !self->attr.sample_id_all)
				self->attr.sample_type |= fields[i];
			size += mask & 1 << i && self->attr.sample_id_all ? 8 : 0;
		}
		ASSERT_EQ(0, perf_ring_open(&self->ring, &self->attr, -1, 0, RING_PAGES));
		ASSERT_EQ(0, ioctl(self->ring.fd, PERF_EVENT_IOC_ID, &id));
		before = now();
		ASSERT_NE(0, load_and_close());
		for (seen = 0; (h = perf_ring_next(&self->ring)); ) {
			const struct text_record *r = (const void *)h;

			ASSERT_EQ(PERF_RECORD_BPF_EVENT, h->type);
			if (r->bpf.type < PERF_BPF_EVENT_SUBPROG_LOAD)
				continue;
			seen++;
			/* "bpf_prog_", the tag, "_functions" and NULs are 40 bytes. */
			ASSERT_EQ(size, h->size);
			ASSERT_EQ(35, strlen((const char *)h + r->name_off));
			v = (const void *)((const char *)h + RECORD_SIZE + 40);
			if (!self->attr.sample_id_all)
				continue;
			for (i = 0; i < nr_fields; i++) {
				if (!(mask & 1 << i))
					continue;
				switch (fields[i]) {
				case PERF_SAMPLE_TID:
					EXPECT_EQ(getpid() | (uint64_t)gettid() << 32, *v);
					break;
				case PERF_SAMPLE_TIME:
					EXPECT_LE(before, *v);
					EXPECT_GE(now(), *v);
					break;
				case PERF_SAMPLE_CPU:
					EXPECT_EQ(0, *v);
					break;
				default:
					EXPECT_EQ(id, *v);
				}
				v++;
			}
		}
		EXPECT_EQ(2, seen);
		perf_ring_close(&self->ring);
	}
}

struct wanderer {
	pthread_t thread;
	int loads, err;
	bool stop;
};

/* Loads programs of three functions, on CPU 1 while that is online. */
static void *wanderer_main(void *arg)
{
	struct wanderer *w = arg;
	int fd;

	while (!READ_ONCE(w->stop) && !w->err) {
		pin_to_cpu(1);
		fd = load_functions(3);
		if (fd < 0)
			w->err = -errno;
		else
			w->loads++;
		close(fd);
	}
	return NULL;
}

/*
 * CPU 1 is taken off- and online while it loads and unloads programs. Records it
 * missed are gaps; received records are complete, and CPU 0 misses nothing.
 */
TEST_F(stream, hotplug)
{
	struct loader l = { .cpu = 0, .loads = 400, .functions = 7 };
	const char *online = "/sys/devices/system/cpu/cpu1/online";
	int i, loads = 0, unloads = 0, rounds = 0, on_cpu1 = 0, texts = 0;
	uint64_t last = 0, gaps = 0;
	struct wanderer w = {};
	struct event *e;
	size_t j;

	if (access(online, W_OK))
		SKIP(return, "needs CONFIG_HOTPLUG_CPU, and a CPU 1 that can be taken offline");
	ASSERT_EQ(0, setting_change(&self->cpu1, online, "1"));
	ASSERT_EQ(0, perf_rings_open(&self->rings, &self->attr, 256));
	/* Records of CPU 0 before and after all others: each one that is missing is a gap. */
	ASSERT_NE(0, load_and_close());
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, wanderer_main, &w));
	ASSERT_EQ(0, pthread_create(&l.thread, NULL, loader_main, &l));
	while (!all_done(&l, 1)) {
		ASSERT_EQ(0, write_value(online, "0"));
		ASSERT_EQ(0, write_value(online, "1"));
		if (!pin_to_cpu(1))
			on_cpu1++;
		ASSERT_NE(0, load_and_close());
		ASSERT_EQ(0, pin_to_cpu(0));
		take_all(&self->ev, &self->rings);
		rounds++;
	}
	WRITE_ONCE(w.stop, true);
	pthread_join(w.thread, NULL);
	pthread_join(l.thread, NULL);
	ASSERT_EQ(0, l.err);
	ASSERT_EQ(0, w.err);
	EXPECT_LT(0, on_cpu1);
	EXPECT_LT(0, w.loads);
	ASSERT_NE(0, load_and_close());
	take_all(&self->ev, &self->rings);
	qsort(self->ev.e, self->ev.nr, sizeof(*self->ev.e), by_seq);
	for (j = 0; j < self->ev.nr; j++) {
		e = &self->ev.e[j];
		if (!is_text(e))
			continue;
		texts++;
		gaps += last ? e->r.seq - last - 1 : 0;
		last = e->r.seq;
		EXPECT_LE(RECORD_SIZE, e->r.name_off);
		EXPECT_EQ(0, strncmp(e->name, "bpf_prog_", 9));
		if (e->r.sub_cnt != 7)
			continue;
		loads += !ends(e);
		unloads += ends(e);
	}
	for (i = 0; i < self->rings.nr; i++)
		EXPECT_EQ(0, perf_ring_lost(self->rings.ring[i]));
	EXPECT_EQ(7 * l.loads, loads);
	EXPECT_EQ(7 * l.loads, unloads);
	EXPECT_EQ(2 * (7 * l.loads + 3 * w.loads + rounds + 2), texts + gaps);
}

/* Four tasks on two CPUs; one program in four waits for a grace period. */
TEST_F(stream, parallel)
{
	int i, loads = 0, unloads = 0, async = 0, want = 0, each = storm_count(400);
	struct loader loaders[4] = {};
	struct event *e;
	size_t j;

	ASSERT_EQ(0, perf_rings_open(&self->rings, &self->attr, STORM_RING_PAGES));
	for (i = 0; i < 4; i++) {
		loaders[i].cpu = i % self->rings.nr;
		loaders[i].loads = each;
		loaders[i].functions = 3;
		loaders[i].link_every = 4;
		want += each / 4 + each / 4 * 3 * 3;
		ASSERT_EQ(0, pthread_create(&loaders[i].thread, NULL, loader_main, &loaders[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(loaders[i].thread, NULL);
		ASSERT_EQ(0, loaders[i].err);
	}
	while (unloads < want) {
		take_all(&self->ev, &self->rings);
		loads = 0;
		unloads = 0;
		async = 0;
		for (j = 0; j < self->ev.nr; j++) {
			e = &self->ev.e[j];
			if (!is_text(e))
				continue;
			loads += !ends(e);
			unloads += ends(e);
			async += !!(e->r.bpf.flags & PERF_BPF_EVENT_F_ASYNC);
		}
		usleep(1000);
	}
	EXPECT_EQ(want, loads);
	EXPECT_EQ(want, unloads);
	/* The links, and nothing else. */
	EXPECT_EQ(each, async);
	for (i = 0; i < self->rings.nr; i++)
		EXPECT_EQ(0, perf_ring_lost(self->rings.ring[i]));
	check_reuse(_metadata, &self->ev);
}

/* --- fuzzing ------------------------------------------------------------------------ */

#define FUZZ_PROGS 16
#define FUZZ_LINKS 8
#define FUZZ_LISTENERS 4
#define FUZZ_ROUND 100

FIXTURE(fuzz)
{
	struct perf_rings rings;
	struct events ev;
	struct fuzz fuzz;
	int progs[FUZZ_PROGS], links[FUZZ_LINKS], syscalls[FUZZ_LINKS];
	struct perf_ring *listeners[FUZZ_LISTENERS];
	unsigned long loads, trampolines, opened, records;
};

FIXTURE_SETUP(fuzz)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int i;

	ASSERT_NE(NULL, btf);
	for (i = 0; i < FUZZ_PROGS; i++)
		self->progs[i] = -1;
	for (i = 0; i < FUZZ_LINKS; i++) {
		self->links[i] = -1;
		self->syscalls[i] = next_syscall(btf, i ? self->syscalls[i - 1] : 0);
		ASSERT_NE(0, self->syscalls[i]);
	}
	btf__free(btf);
	ASSERT_EQ(0, open_listener(_metadata, &self->rings, RING_PAGES));
	fuzz_begin(&self->fuzz);
}

/* Closes all except the listener that counts. */
static void fuzz_close(FIXTURE_DATA(fuzz) *self)
{
	int i;

	for (i = 0; i < FUZZ_PROGS; i++) {
		close(self->progs[i]);
		self->progs[i] = -1;
	}
	for (i = 0; i < FUZZ_LINKS; i++) {
		close(self->links[i]);
		self->links[i] = -1;
	}
	for (i = 0; i < FUZZ_LISTENERS; i++) {
		if (self->listeners[i])
			perf_ring_close(self->listeners[i]);
		free(self->listeners[i]);
		self->listeners[i] = NULL;
	}
}

FIXTURE_TEARDOWN(fuzz)
{
	fuzz_close(self);
	perf_rings_close(&self->rings);
	forget(&self->ev);
}

/* A random listener: with a ring of any size, another one's ring, or none. */
static struct perf_ring *fuzz_listen(FIXTURE_DATA(fuzz) *self)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	struct perf_ring *r = calloc(1, sizeof(*r));
	struct fuzz *f = &self->fuzz;
	int pages = fuzz_pick(f, 4) ? 1 << fuzz_pick(f, 4) : 0;
	bool task = fuzz_pick(f, 2);

	if (!r)
		abort();
	attr.bpf_subprog = fuzz_pick(f, 2);
	attr.write_backward = pages && !fuzz_pick(f, 4);
	attr.sample_id_all = fuzz_pick(f, 2);
	/* Always on one CPU: that of a task on all CPUs cannot have a ring. */
	if (perf_ring_open(r, &attr, task ? 0 : -1, fuzz_pick(f, 2), pages)) {
		free(r);
		return NULL;
	}
	self->opened++;
	if (!pages && self->listeners[0])
		ioctl(r->fd, PERF_EVENT_IOC_SET_OUTPUT, self->listeners[0]->fd);
	return r;
}

/* 0, or the line of a call that failed but must not. */
static int fuzz_step(FIXTURE_DATA(fuzz) *self)
{
	static const enum bpf_prog_type types[] = {
		BPF_PROG_TYPE_SOCKET_FILTER, BPF_PROG_TYPE_XDP, BPF_PROG_TYPE_SCHED_CLS,
		BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_PERF_EVENT,
	};
	struct fuzz *f = &self->fuzz;
	int *prog = &self->progs[fuzz_pick(f, FUZZ_PROGS)], i = fuzz_pick(f, FUZZ_LINKS);
	struct perf_ring **r = &self->listeners[fuzz_pick(f, FUZZ_LISTENERS)];
	int records;

	switch (fuzz_pick(f, 12)) {
	case 0 ... 4:
		close(*prog);
		*prog = fuzz_pick(f, 2) ? load_functions(1 + fuzz_pick(f, 20)) :
			load_zero(types[fuzz_pick(f, ARRAY_LEN(types))]);
		self->loads++;
		return *prog < 0 ? __LINE__ : 0;
	case 5 ... 6:
		close(*prog);
		*prog = -1;
		return 0;
	case 7:
		close(self->links[i]);
		self->links[i] = make_trampoline(self->syscalls[i]);
		self->trampolines++;
		return self->links[i] < 0 ? __LINE__ : 0;
	case 8:
		if (!*r) {
			*r = fuzz_listen(self);
			return 0;
		}
		perf_ring_close(*r);
		free(*r);
		*r = NULL;
		return 0;
	case 9:
		return load_elsewhere(1 + fuzz_pick(f, 3)) < 0 ? __LINE__ : 0;
	case 10:
		return pin_to_cpu(fuzz_pick(f, 2)) ? __LINE__ : 0;
	default:
		records = fuzz_pick(f, 32);
		if (*r && (*r)->size && !(*r)->attr.write_backward)
			while (records-- && perf_ring_next(*r))
				self->records++;
		return 0;
	}
}

/* Does each function of a program match its record? */
static bool is_announced(struct events *ev, int fd)
{
	struct event *e;
	struct truth t;
	uint32_t i;

	if (get_truth(&t, fd))
		return false;
	for (i = 0; i < t.info.nr_jited_ksyms; i++) {
		e = find(ev, PERF_BPF_EVENT_SUBPROG_LOAD, t.info.id, i);
		if (!e || e->r.addr != t.addr[i] || e->r.len != t.len[i])
			return false;
	}
	return true;
}

/*
 * Add and remove programs, trampolines and listeners of all sorts. The listener to all CPUs
 * gets every record, each range is removed as it was added, and none overlap.
 */
TEST_F_TIMEOUT(fuzz, programs, FUZZ_TIMEOUT)
{
	int i, line = 0, err = 0, unknown = 0;
	uint64_t lost, all = 0;
	bool goes_on = true;

	if (self->rings.nr < 2)
		SKIP(return, "needs CPUs 0 and 1");
	do {
		for (i = 0; i < FUZZ_ROUND && !line; i++) {
			goes_on = fuzz_goes_on(&self->fuzz);
			line = fuzz_step(self);
			err = errno;
			take_all(&self->ev, &self->rings);
			if (self->progs[i % FUZZ_PROGS] >= 0)
				unknown += !is_announced(&self->ev, self->progs[i % FUZZ_PROGS]);
		}
		fuzz_close(self);
		/* The harness times out if some are never freed. */
		while (take_all(&self->ev, &self->rings), count_live(&self->ev) > 0)
			usleep(1000);
		for (lost = 0, i = 0; i < self->rings.nr; i++)
			lost += perf_ring_lost(self->rings.ring[i]);
		EXPECT_EQ(0, line)
			TH_LOG("a call failed in line %d: %s", line, strerror(err));
		EXPECT_EQ(0, unknown);
		EXPECT_EQ(0, lost);
		EXPECT_EQ(0, count_gaps(&self->ev));
		EXPECT_EQ(0, count_unpaired(&self->ev));
		EXPECT_EQ(0, count_overlaps(&self->ev, is_text));
		all += self->ev.nr;
		forget(&self->ev);
	} while (goes_on && !_metadata->exit_code);
	TH_LOG("FUZZ_SEED=%u: %lu steps, %lu loads, %lu trampolines, %llu records",
	       self->fuzz.seed, self->fuzz.rounds, self->loads, self->trampolines,
	       (unsigned long long)all);
	TH_LOG("%lu other listeners, %lu records of theirs", self->opened, self->records);
	EXPECT_LT(0, self->loads);
	EXPECT_LT(0, self->trampolines);
	EXPECT_LT(0, self->opened);
}

FIXTURE(listeners)
{
	struct perf_ring *rings;
};

FIXTURE_VARIANT(listeners)
{
	int n;
};

FIXTURE_VARIANT_ADD(listeners, one) { .n = 1 };
FIXTURE_VARIANT_ADD(listeners, eight) { .n = 8 };
FIXTURE_VARIANT_ADD(listeners, sixty_four) { .n = 64 };

FIXTURE_SETUP(listeners)
{
	struct perf_event_attr attr = perf_ring_bpf_attr();
	int i, err;

	ASSERT_EQ(0, pin_to_cpu(0));
	self->rings = calloc(variant->n, sizeof(*self->rings));
	ASSERT_NE(NULL, self->rings);
	attr.sample_id_all = 0;
	attr.bpf_subprog = 1;
	for (i = 0; i < variant->n; i++) {
		err = perf_ring_open(&self->rings[i], &attr, -1, 0, 16);
		ASSERT_EQ(0, err)
			TH_LOG("perf_event_open with bpf_subprog: %s", strerror(-err));
	}
}

FIXTURE_TEARDOWN(listeners)
{
	int i;

	for (i = 0; i < variant->n; i++)
		perf_ring_close(&self->rings[i]);
	free(self->rings);
}

/* All get the same bytes: no listener affects the record of the next. */
TEST_F(listeners, same_bytes)
{
	const struct perf_event_header *h;
	int i, fd, text = 0;
	uint64_t size;
	char *first;

	fd = load_functions(7);
	ASSERT_LE(0, fd);
	close(fd);
	first = (char *)self->rings[0].page + sysconf(_SC_PAGESIZE);
	size = self->rings[0].page->data_head;
	for (i = 1; i < variant->n; i++) {
		ASSERT_EQ(size, self->rings[i].page->data_head);
		EXPECT_EQ(0, memcmp(first, (char *)self->rings[i].page + sysconf(_SC_PAGESIZE),
				    size));
	}
	while ((h = perf_ring_next(&self->rings[0]))) {
		const struct text_record *r = (const void *)h;

		if (r->bpf.type < PERF_BPF_EVENT_SUBPROG_LOAD)
			continue;
		/* The name of the first has "functions", of the others "F". */
		EXPECT_EQ(RECORD_SIZE + (r->sub_id ? 32 : 40), h->size);
		text++;
	}
	EXPECT_EQ(14, text);
}

TEST_HARNESS_MAIN
