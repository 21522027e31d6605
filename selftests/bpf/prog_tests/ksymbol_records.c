// SPDX-License-Identifier: GPL-2.0
/*
 * The PERF_RECORD_KSYMBOLs of BPF programs and images, read from a ring on each
 * CPU, because kernel threads free some of them.
 */
#include <test_progs.h>
#include "ksymbol_records.skel.h"
#include "sysctl_helpers.h"
#include "tcp_ca_update.skel.h"

#ifndef ENOTSUPP
#define ENOTSUPP	524
#endif

#define JIT_ENABLE	"/proc/sys/net/core/bpf_jit_enable"
#define TRAMPOLINE	"bpf_trampoline_"
#define CA_OPS		"bpf__tcp_congestion_ops_"
#define NR_TRAMPOLINES	3
#define NR_CA_OPS	3	/* of ca_no_link in tcp_ca_update.c */
#define RING_PAGES	32
#define MAX_SYMBOLS	1024
#define TIMEOUT_MS	30000

struct ksymbol_record {
	struct perf_event_header header;
	__u64 addr;
	__u32 len;
	__u16 ksym_type;
	__u16 flags;
	char name[];
};

struct symbol {
	__u64 time;
	__u64 addr;
	__u32 len;
	bool removed;
	char name[128];
};

struct records {
	struct perf_buffer *pb;
	int map_fd;
	bool lost;
	int bpf_events;
	int cnt;
	struct symbol sym[MAX_SYMBOLS];		/* in order of time */
};

static struct records records;
static struct ksymbol_records *resolver;

static enum bpf_perf_event_ret on_record(void *ctx, int cpu, struct perf_event_header *h)
{
	struct ksymbol_record *r = (void *)h;
	struct records *rs = ctx;
	struct symbol *s;
	__u64 time;

	if (h->type == PERF_RECORD_LOST)
		rs->lost = true;
	if (h->type == PERF_RECORD_BPF_EVENT)
		rs->bpf_events++;
	if (h->type != PERF_RECORD_KSYMBOL || r->ksym_type != PERF_RECORD_KSYMBOL_TYPE_BPF)
		return LIBBPF_PERF_EVENT_CONT;
	if (rs->cnt == MAX_SYMBOLS) {
		rs->lost = true;
		return LIBBPF_PERF_EVENT_CONT;
	}

	/* With sample_id_all, the time ends the record. */
	memcpy(&time, (void *)h + h->size - sizeof(time), sizeof(time));
	for (s = &rs->sym[rs->cnt++]; s > rs->sym && s[-1].time > time; s--)
		s[0] = s[-1];
	s->time = time;
	s->addr = r->addr;
	s->len = r->len;
	s->removed = r->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	strscpy(s->name, r->name);
	return LIBBPF_PERF_EVENT_CONT;
}

static bool records_open(struct records *rs)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.ksymbol = 1,
		.bpf_event = 1,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		/* That of bpf_ktime_get_ns(). */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	memset(rs, 0, sizeof(*rs));
	rs->map_fd = bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, NULL, sizeof(int),
				    sizeof(int), libbpf_num_possible_cpus(), NULL);
	if (!ASSERT_OK_FD(rs->map_fd, "bpf_map_create"))
		return false;
	rs->pb = perf_buffer__new_raw(rs->map_fd, RING_PAGES, &attr, on_record, rs, NULL);
	return ASSERT_OK_PTR(rs->pb, "perf_buffer__new_raw");
}

static void records_close(struct records *rs)
{
	perf_buffer__free(rs->pb);
	if (rs->map_fd >= 0)
		close(rs->map_fd);
}

/* The record that ends the range that @s begins, or NULL. */
static struct symbol *end_of(struct records *rs, struct symbol *s)
{
	struct symbol *e;

	for (e = s + 1; e < rs->sym + rs->cnt; e++)
		if (e->removed && e->addr == s->addr && !strcmp(e->name, s->name))
			return e;
	return NULL;
}

static bool is_added(struct symbol *s, const char *prefix)
{
	return !s->removed && !strncmp(s->name, prefix, strlen(prefix));
}

static int count_live(struct records *rs, const char *prefix)
{
	struct symbol *s;
	int live = 0;

	for (s = rs->sym; s < rs->sym + rs->cnt; s++)
		live += is_added(s, prefix) && !end_of(rs, s);
	return live;
}

static bool same_as_kallsyms(struct symbol *s)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	unsigned int size = 0;
	char name[128] = "";
	int n;

	/* The first byte may also be the end of the symbol before it. */
	resolver->bss->addr = s->addr + 1;
	if (!ASSERT_OK(bpf_prog_test_run_opts(bpf_program__fd(resolver->progs.resolve), &opts),
		       "resolve"))
		return false;
	n = sscanf(resolver->bss->text, "%127[^+]+0x1/%x", name, &size);
	if (!ASSERT_EQ(n, 2, resolver->bss->text))
		return false;
	return ASSERT_STREQ(s->name, name, "name") && ASSERT_EQ(s->len, size, s->name);
}

/* Compare the records of live symbols with kallsyms. */
static void check_live(struct records *rs, const char *prefix)
{
	struct symbol *s;

	for (s = rs->sym; s < rs->sym + rs->cnt; s++)
		if (is_added(s, prefix) && !end_of(rs, s) && !same_as_kallsyms(s))
			return;
}

/* Wait until all are removed, with the length that they were added with. */
static void check_removed(struct records *rs, const char *prefix)
{
	struct symbol *s;

	while (count_live(rs, prefix))
		if (!ASSERT_GT(perf_buffer__poll(rs->pb, TIMEOUT_MS), 0, "perf_buffer__poll"))
			return;
	for (s = rs->sym; s < rs->sym + rs->cnt; s++)
		if (is_added(s, prefix))
			ASSERT_EQ(end_of(rs, s)->len, s->len, s->name);
}

static struct ksymbol_records *attach_fentry(void)
{
	struct ksymbol_records *skel;

	skel = ksymbol_records__open();
	if (!ASSERT_OK_PTR(skel, "ksymbol_records__open"))
		return NULL;
	bpf_program__set_autoload(skel->progs.fentry1, true);
	bpf_program__set_autoload(skel->progs.fentry2, true);
	bpf_program__set_autoload(skel->progs.fentry3, true);
	if (ASSERT_OK(ksymbol_records__load(skel), "ksymbol_records__load") &&
	    ASSERT_OK(ksymbol_records__attach(skel), "ksymbol_records__attach"))
		return skel;
	ksymbol_records__destroy(skel);
	return NULL;
}

static void test_trampoline(struct records *rs)
{
	struct ksymbol_records *skel;

	skel = attach_fentry();
	if (!skel)
		return;
	if (ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume") &&
	    ASSERT_GE(count_live(rs, TRAMPOLINE), NR_TRAMPOLINES, "trampolines"))
		check_live(rs, TRAMPOLINE);
	ksymbol_records__destroy(skel);
	check_removed(rs, TRAMPOLINE);
}

static void test_struct_ops(struct records *rs)
{
	struct tcp_ca_update *skel;
	struct bpf_link *link;

	skel = tcp_ca_update__open_and_load();
	if (!ASSERT_OK_PTR(skel, "tcp_ca_update__open_and_load"))
		return;
	link = bpf_map__attach_struct_ops(skel->maps.ca_no_link);
	if (ASSERT_OK_PTR(link, "attach_struct_ops") &&
	    ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume") &&
	    ASSERT_EQ(count_live(rs, CA_OPS), NR_CA_OPS, "images"))
		check_live(rs, CA_OPS);
	bpf_link__destroy(link);
	tcp_ca_update__destroy(skel);
	check_removed(rs, CA_OPS);
}

static void check_disjoint(struct records *rs)
{
	struct symbol *a, *b, *e;

	for (a = rs->sym; a < rs->sym + rs->cnt; a++) {
		if (a->removed)
			continue;
		e = end_of(rs, a) ?: rs->sym + rs->cnt;
		for (b = a + 1; b < e; b++) {
			if (b->removed || a->addr >= b->addr + b->len ||
			    b->addr >= a->addr + a->len)
				continue;
			PRINT_FAIL("%llx+%x %s overlaps %llx+%x %s\n", b->addr, b->len,
				   b->name, a->addr, a->len, a->name);
			return;
		}
	}
}

static void test_disjoint(struct records *rs)
{
	struct ksymbol_records *fentry;
	struct bpf_link *link = NULL;
	struct tcp_ca_update *ca;

	fentry = attach_fentry();
	ca = tcp_ca_update__open_and_load();
	if (!fentry || !ASSERT_OK_PTR(ca, "tcp_ca_update__open_and_load"))
		goto out;
	link = bpf_map__attach_struct_ops(ca->maps.ca_no_link);
	if (!ASSERT_OK_PTR(link, "attach_struct_ops") ||
	    !ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume"))
		goto out;
	ASSERT_GE(count_live(rs, TRAMPOLINE), NR_TRAMPOLINES, "trampolines");
	ASSERT_EQ(count_live(rs, CA_OPS), NR_CA_OPS, "images");
	check_disjoint(rs);
out:
	bpf_link__destroy(link);
	tcp_ca_update__destroy(ca);
	ksymbol_records__destroy(fentry);
}

/* Is the symbol of a trampoline there when reg() publishes the trampoline? */
static void test_struct_ops_reg(struct records *rs)
{
	struct ksymbol_records *skel;
	struct tcp_ca_update *ca;
	struct bpf_link *link = NULL;
	struct symbol *s;

	ca = tcp_ca_update__open_and_load();
	skel = ksymbol_records__open();
	if (!ASSERT_OK_PTR(ca, "tcp_ca_update__open_and_load") ||
	    !ASSERT_OK_PTR(skel, "ksymbol_records__open"))
		goto out;
	bpf_program__set_autoload(skel->progs.on_reg, true);
	skel->bss->pid = getpid();
	if (!ASSERT_OK(ksymbol_records__load(skel), "ksymbol_records__load") ||
	    !ASSERT_OK(ksymbol_records__attach(skel), "ksymbol_records__attach"))
		goto out;
	link = bpf_map__attach_struct_ops(ca->maps.ca_no_link);
	if (!ASSERT_OK_PTR(link, "attach_struct_ops") ||
	    !ASSERT_NEQ(skel->bss->reg_time, 0, "reg_time") ||
	    !ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume"))
		goto out;

	ASSERT_STRNEQ(skel->bss->text, CA_OPS "ssthresh+", sizeof(CA_OPS "ssthresh+") - 1,
		      "symbol in kallsyms");
	for (s = rs->sym; s < rs->sym + rs->cnt; s++)
		if (is_added(s, CA_OPS "ssthresh"))
			break;
	if (ASSERT_LT(s - rs->sym, rs->cnt, "record"))
		ASSERT_LT(s->time, skel->bss->reg_time, "time of the record");
out:
	bpf_link__destroy(link);
	tcp_ca_update__destroy(ca);
	ksymbol_records__destroy(skel);
}

/* A registration that fails leaves no symbol. */
static void test_struct_ops_refused(struct records *rs)
{
	struct tcp_ca_update *ca, *twin;
	struct bpf_link *link = NULL;

	ca = tcp_ca_update__open_and_load();
	twin = tcp_ca_update__open_and_load();
	if (!ASSERT_OK_PTR(ca, "tcp_ca_update__open_and_load") ||
	    !ASSERT_OK_PTR(twin, "tcp_ca_update__open_and_load"))
		goto out;
	link = bpf_map__attach_struct_ops(ca->maps.ca_no_link);
	if (!ASSERT_OK_PTR(link, "attach_struct_ops") ||
	    !ASSERT_ERR_PTR(bpf_map__attach_struct_ops(twin->maps.ca_no_link), "name is taken") ||
	    !ASSERT_EQ(errno, EEXIST, "errno") ||
	    !ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume"))
		goto out;
	ASSERT_EQ(count_live(rs, CA_OPS), NR_CA_OPS, "images");
out:
	bpf_link__destroy(link);
	tcp_ca_update__destroy(twin);
	tcp_ca_update__destroy(ca);
}

static void test_exception_callback(struct records *rs)
{
	struct ksymbol_records *skel;
	int err;

	skel = ksymbol_records__open();
	if (!ASSERT_OK_PTR(skel, "ksymbol_records__open"))
		return;
	bpf_program__set_autoload(skel->progs.throws, true);
	err = ksymbol_records__load(skel);
	if (err == -ENOTSUPP) {
		test__skip();
		goto out;
	}
	if (!ASSERT_OK(err, "ksymbol_records__load") ||
	    !ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume"))
		goto out;
	/* The program and the callback. */
	if (ASSERT_EQ(count_live(rs, "bpf_prog_"), 2, "subprograms"))
		check_live(rs, "bpf_prog_");
out:
	ksymbol_records__destroy(skel);
}

static void test_no_jit(struct records *rs)
{
	struct bpf_insn insns[] = {
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};
	char jit_enable[16] = "";
	struct symbol *s;
	int fd;

	if (sysctl_set(JIT_ENABLE, jit_enable, "0")) {
		test__skip();
		return;
	}
	/* CONFIG_BPF_JIT_ALWAYS_ON */
	if (is_jit_enabled()) {
		test__skip();
		return;
	}
	fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "no_jit", "GPL", insns,
			   ARRAY_SIZE(insns), NULL);
	sysctl_set(JIT_ENABLE, NULL, jit_enable);
	if (!ASSERT_OK_FD(fd, "bpf_prog_load"))
		return;
	close(fd);
	if (!ASSERT_OK(perf_buffer__consume(rs->pb), "perf_buffer__consume"))
		return;
	ASSERT_GE(rs->bpf_events, 2, "load and unload");
	for (s = rs->sym; s < rs->sym + rs->cnt; s++)
		if (!ASSERT_NEQ(s->len, 0, "length"))
			return;
}

static void run(const char *name, void (*test)(struct records *rs))
{
	if (!test__start_subtest(name))
		return;
	if (records_open(&records)) {
		test(&records);
		ASSERT_FALSE(records.lost, "lost records");
	}
	records_close(&records);
}

/* The records of other tests' programs would fill the rings. */
void serial_test_ksymbol_records(void)
{
	resolver = ksymbol_records__open();
	if (!ASSERT_OK_PTR(resolver, "ksymbol_records__open"))
		return;
	bpf_program__set_autoload(resolver->progs.resolve, true);
	if (ASSERT_OK(ksymbol_records__load(resolver), "ksymbol_records__load")) {
		run("trampoline", test_trampoline);
		run("struct_ops", test_struct_ops);
		run("disjoint", test_disjoint);
		run("struct_ops_reg", test_struct_ops_reg);
		run("struct_ops_refused", test_struct_ops_refused);
		run("exception_callback", test_exception_callback);
		run("no_jit", test_no_jit);
	}
	ksymbol_records__destroy(resolver);
}
