// SPDX-License-Identifier: GPL-2.0
/*
 * attr.bpf_subprog of perf_event_open(): a PERF_RECORD_BPF_EVENT for each
 * subprogram and image, read from a ring on each CPU, because kernel threads free
 * some of them.
 */
#include <test_progs.h>
#include "bpf_subprog_event.skel.h"
#include "cap_helpers.h"
#include "sysctl_helpers.h"
#include "tcp_ca_update.skel.h"

#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define NR_SUBPROGS	3
#define NR_CA_OPS	3	/* of ca_no_link in tcp_ca_update.c */
#define RING_PAGES	32
#define MAX_RECORDS	512
#define TIMEOUT_MS	30000

struct bpf_record {
	struct perf_event_header header;
	__u16 type;
	__u16 flags;
	__u32 id;
	__u8 tag[BPF_TAG_SIZE];
};

struct text_record {
	struct bpf_record bpf;
	__u32 sub_id;
	__u32 sub_cnt;
	__u64 addr;
	__u32 len;
	__u16 name_off;
	__u8 kind;
	__u8 prefix_len;
	__u32 prog_type;
	__u32 attach_type;
	__u64 load_time;
	__u64 seq;
};

struct ksymbol_record {
	struct perf_event_header header;
	__u64 addr;
	__u32 len;
	__u16 ksym_type;
	__u16 flags;
	char name[];
};

struct text {
	struct text_record r;
	char name[128];
};

struct symbol {
	__u64 addr;
	__u32 len;
	bool removed;
	char name[128];
};

struct listener {
	struct perf_buffer *pb;
	int map_fd;
	bool lost;
	int texts;
	int progs;
	int symbols;
	struct text text[MAX_RECORDS];		/* in order of seq */
	struct bpf_record prog[MAX_RECORDS];
	struct symbol symbol[MAX_RECORDS];
};

static struct listener listener, plain;

static void take_text(struct listener *l, struct text_record *r)
{
	struct text *t;

	if (l->texts == MAX_RECORDS) {
		l->lost = true;
		return;
	}
	for (t = &l->text[l->texts++]; t > l->text && t[-1].r.seq > r->seq; t--)
		t[0] = t[-1];
	t->r = *r;
	strscpy(t->name, (char *)r + r->name_off);
}

static void take_symbol(struct listener *l, struct ksymbol_record *r)
{
	struct symbol *s;

	if (l->symbols == MAX_RECORDS) {
		l->lost = true;
		return;
	}
	s = &l->symbol[l->symbols++];
	s->addr = r->addr;
	s->len = r->len;
	s->removed = r->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	strscpy(s->name, r->name);
}

static enum bpf_perf_event_ret on_record(void *ctx, int cpu, struct perf_event_header *h)
{
	struct bpf_record *r = (void *)h;
	struct listener *l = ctx;

	if (h->type == PERF_RECORD_LOST)
		l->lost = true;
	else if (h->type == PERF_RECORD_KSYMBOL)
		take_symbol(l, (void *)h);
	else if (h->type != PERF_RECORD_BPF_EVENT)
		return LIBBPF_PERF_EVENT_CONT;
	else if (r->type >= PERF_BPF_EVENT_SUBPROG_LOAD)
		take_text(l, (void *)h);
	else if (l->progs < MAX_RECORDS)
		l->prog[l->progs++] = *r;
	else
		l->lost = true;
	return LIBBPF_PERF_EVENT_CONT;
}

static bool listener_open(struct listener *l, bool bpf_subprog)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.ksymbol = bpf_subprog,
		.bpf_event = 1,
		.bpf_subprog = bpf_subprog,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	memset(l, 0, sizeof(*l));
	l->map_fd = bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, NULL, sizeof(int),
				   sizeof(int), libbpf_num_possible_cpus(), NULL);
	if (!ASSERT_OK_FD(l->map_fd, "bpf_map_create"))
		return false;
	l->pb = perf_buffer__new_raw(l->map_fd, RING_PAGES, &attr, on_record, l, NULL);
	return ASSERT_OK_PTR(l->pb, "perf_buffer__new_raw");
}

static bool listener_read(struct listener *l)
{
	return ASSERT_OK(perf_buffer__consume(l->pb), "perf_buffer__consume") &&
	       ASSERT_FALSE(l->lost, "lost records");
}

static void listener_close(struct listener *l)
{
	perf_buffer__free(l->pb);
	if (l->map_fd >= 0)
		close(l->map_fd);
}

/* The only record of this subprogram, or NULL. */
static struct text *find_subprog(struct listener *l, int type, __u32 id, __u32 sub_id)
{
	struct text *found = NULL;
	int i;

	for (i = 0; i < l->texts; i++) {
		struct text *t = &l->text[i];

		if (t->r.bpf.type != type || t->r.bpf.id != id || t->r.sub_id != sub_id)
			continue;
		if (!ASSERT_NULL(found, "another record"))
			return NULL;
		found = t;
	}
	return found;
}

static struct text *find_image_add(struct listener *l, const char *prefix)
{
	int i;

	for (i = 0; i < l->texts; i++) {
		struct text *t = &l->text[i];

		if (t->r.bpf.type == PERF_BPF_EVENT_IMAGE_ADD &&
		    !strncmp(t->name, prefix, strlen(prefix)))
			return t;
	}
	return NULL;
}

/* Images of the same name, which earlier tests used, may be freed at any time. */
static struct text *find_image_del(struct listener *l, struct text *add)
{
	int i;

	for (i = 0; i < l->texts; i++) {
		struct text *t = &l->text[i];

		if (t->r.bpf.type == PERF_BPF_EVENT_IMAGE_DEL && t->r.seq > add->r.seq &&
		    t->r.addr == add->r.addr)
			return t;
	}
	return NULL;
}

/* Is there a PERF_RECORD_KSYMBOL with the same content? */
static bool has_symbol(struct listener *l, struct text *t, bool removed)
{
	int i;

	for (i = 0; i < l->symbols; i++) {
		struct symbol *s = &l->symbol[i];

		if (s->addr == t->r.addr && s->len == t->r.len && s->removed == removed &&
		    !strcmp(s->name, t->name))
			return true;
	}
	return false;
}

/* All fields are equal, except the type, F_ASYNC and the number. */
static void check_same(struct text *add, struct text *del)
{
	struct text_record r = del->r;

	ASSERT_GT(del->r.seq, add->r.seq, "seq");
	r.bpf.type = add->r.bpf.type;
	r.bpf.flags = add->r.bpf.flags;
	r.seq = add->r.seq;
	ASSERT_MEMEQ(&r, &add->r, sizeof(r), "fields");
	ASSERT_STREQ(del->name, add->name, "name");
}

/* Wait for the end of the image. @add is a copy, as records move when others arrive. */
static void check_image_del(struct listener *l, struct text *add)
{
	struct text *del;

	while (!find_image_del(l, add))
		if (!ASSERT_GT(perf_buffer__poll(l->pb, TIMEOUT_MS), 0, "perf_buffer__poll"))
			return;
	/* The ksymbol came before, but maybe to the ring of another CPU. */
	if (!listener_read(l))
		return;
	del = find_image_del(l, add);
	/* A kernel thread frees it. */
	ASSERT_EQ(del->r.bpf.flags, PERF_BPF_EVENT_F_ASYNC, "flags");
	check_same(add, del);
	ASSERT_TRUE(has_symbol(l, del, true), "ksymbol");
}

static struct bpf_subprog_event *load_three(void)
{
	struct bpf_subprog_event *skel;

	skel = bpf_subprog_event__open();
	if (!ASSERT_OK_PTR(skel, "bpf_subprog_event__open"))
		return NULL;
	bpf_program__set_autoload(skel->progs.three, true);
	if (ASSERT_OK(bpf_subprog_event__load(skel), "bpf_subprog_event__load"))
		return skel;
	bpf_subprog_event__destroy(skel);
	return NULL;
}

/* Does the JIT place a CFI prefix before programs? Not if x86 was booted with cfi=off. */
static bool may_have_prefix(void)
{
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__s390x__)
	unsigned long long addr;

	return !kallsyms_find("report_cfi_failure", &addr);
#else
	return false;
#endif
}

static void test_subprogs(void)
{
	static const char * const func[NR_SUBPROGS] = { "three", "first", "second" };
	__u8 tag[NR_SUBPROGS][BPF_TAG_SIZE] = {};
	__u64 addr[NR_SUBPROGS] = {}, seq = 0;
	__u32 len[NR_SUBPROGS] = {}, size;
	bool prefix = may_have_prefix();
	struct bpf_subprog_event *skel;
	struct bpf_prog_info info = {
		.jited_ksyms = (uintptr_t)addr,
		.nr_jited_ksyms = NR_SUBPROGS,
		.jited_func_lens = (uintptr_t)len,
		.nr_jited_func_lens = NR_SUBPROGS,
		.prog_tags = (uintptr_t)tag,
		.nr_prog_tags = NR_SUBPROGS,
	};
	struct text *t, *load;
	struct text_record *r;
	char name[64];
	int i, j, n;

	skel = load_three();
	if (!skel)
		return;
	size = sizeof(info);
	if (!ASSERT_OK(bpf_prog_get_info_by_fd(bpf_program__fd(skel->progs.three), &info, &size),
		       "bpf_prog_get_info_by_fd") ||
	    !ASSERT_EQ(info.nr_jited_ksyms, NR_SUBPROGS, "nr_jited_ksyms") ||
	    !listener_read(&listener))
		goto out;
	/* The tag of the program is not the one of its first function. */
	memcpy(tag[0], info.tag, BPF_TAG_SIZE);

	for (i = 0; i < NR_SUBPROGS; i++) {
		t = find_subprog(&listener, PERF_BPF_EVENT_SUBPROG_LOAD, info.id, i);
		if (!ASSERT_OK_PTR(t, "SUBPROG_LOAD"))
			goto out;
		r = &t->r;
		ASSERT_EQ(r->bpf.flags, 0, "flags");
		ASSERT_MEMEQ(r->bpf.tag, tag[i], BPF_TAG_SIZE, "tag");
		ASSERT_EQ(r->sub_cnt, NR_SUBPROGS, "sub_cnt");
		ASSERT_EQ(r->addr, addr[i], "addr");
		ASSERT_EQ(r->len, len[i], "len");
		ASSERT_GE(r->name_off, sizeof(*r), "name_off");
		ASSERT_EQ(r->kind, PERF_BPF_EVENT_KIND_PROG, "kind");
		if (!prefix)
			ASSERT_EQ(r->prefix_len, 0, "prefix_len");
		ASSERT_EQ(r->prog_type, BPF_PROG_TYPE_CGROUP_SKB, "prog_type");
		ASSERT_EQ(r->attach_type, BPF_CGROUP_INET_EGRESS, "attach_type");
		ASSERT_EQ(r->load_time, info.load_time, "load_time");
		ASSERT_GT(r->seq, seq, "seq");
		seq = r->seq;

		n = snprintf(name, sizeof(name), "bpf_prog_");
		for (j = 0; j < BPF_TAG_SIZE; j++)
			n += snprintf(name + n, sizeof(name) - n, "%02x", tag[i][j]);
		snprintf(name + n, sizeof(name) - n, "_%s", func[i]);
		ASSERT_STREQ(t->name, name, "name");
		ASSERT_TRUE(has_symbol(&listener, t, false), "ksymbol");
	}

	bpf_subprog_event__destroy(skel);
	skel = NULL;
	if (!listener_read(&listener))
		return;
	for (i = 0; i < NR_SUBPROGS; i++) {
		load = find_subprog(&listener, PERF_BPF_EVENT_SUBPROG_LOAD, info.id, i);
		t = find_subprog(&listener, PERF_BPF_EVENT_SUBPROG_UNLOAD, info.id, i);
		if (!ASSERT_OK_PTR(load, "SUBPROG_LOAD") || !ASSERT_OK_PTR(t, "SUBPROG_UNLOAD"))
			return;
		ASSERT_EQ(t->r.bpf.flags, 0, "flags");
		check_same(load, t);
		ASSERT_GT(t->r.seq, seq, "seq");
		seq = t->r.seq;
		ASSERT_TRUE(has_symbol(&listener, t, true), "ksymbol");
	}
out:
	bpf_subprog_event__destroy(skel);
}

static void check_image(struct text *t, int kind)
{
	static const __u8 no_tag[BPF_TAG_SIZE];

	ASSERT_EQ(t->r.bpf.flags, 0, "flags");
	ASSERT_MEMEQ(t->r.bpf.tag, no_tag, BPF_TAG_SIZE, "tag");
	ASSERT_EQ(t->r.sub_id, 0, "sub_id");
	ASSERT_EQ(t->r.sub_cnt, 0, "sub_cnt");
	ASSERT_NEQ(t->r.addr, 0, "addr");
	ASSERT_GT(t->r.len, 0, "len");
	ASSERT_EQ(t->r.kind, kind, "kind");
	ASSERT_EQ(t->r.prefix_len, 0, "prefix_len");
	ASSERT_EQ(t->r.prog_type, 0, "prog_type");
	ASSERT_EQ(t->r.attach_type, 0, "attach_type");
	ASSERT_TRUE(has_symbol(&listener, t, false), "ksymbol");
}

static void test_trampoline(void)
{
	struct bpf_subprog_event *skel;
	struct text add, *t;

	skel = bpf_subprog_event__open();
	if (!ASSERT_OK_PTR(skel, "bpf_subprog_event__open"))
		return;
	bpf_program__set_autoload(skel->progs.fentry1, true);
	if (!ASSERT_OK(bpf_subprog_event__load(skel), "bpf_subprog_event__load") ||
	    !ASSERT_OK(bpf_subprog_event__attach(skel), "bpf_subprog_event__attach") ||
	    !listener_read(&listener))
		goto out;
	t = find_image_add(&listener, "bpf_trampoline_");
	if (!ASSERT_OK_PTR(t, "IMAGE_ADD"))
		goto out;
	check_image(t, PERF_BPF_EVENT_KIND_TRAMPOLINE);
	ASSERT_EQ(t->r.bpf.id, 0, "id");
	ASSERT_EQ(t->r.load_time, 0, "load_time");
	add = *t;
	bpf_subprog_event__detach(skel);
	check_image_del(&listener, &add);
out:
	bpf_subprog_event__destroy(skel);
}

static void test_struct_ops(void)
{
	static const char * const image[NR_CA_OPS] = {
		"bpf__tcp_congestion_ops_cong_control",
		"bpf__tcp_congestion_ops_ssthresh",
		"bpf__tcp_congestion_ops_undo_cwnd",
	};
	struct bpf_program *prog[NR_CA_OPS];
	struct text *t, add[NR_CA_OPS];
	struct tcp_ca_update *skel;
	struct bpf_link *link;
	int i = 0;

	skel = tcp_ca_update__open_and_load();
	if (!ASSERT_OK_PTR(skel, "tcp_ca_update__open_and_load"))
		return;
	prog[0] = skel->progs.ca_update_cong_control;
	prog[1] = skel->progs.ca_update_ssthresh;
	prog[2] = skel->progs.ca_update_undo_cwnd;
	link = bpf_map__attach_struct_ops(skel->maps.ca_no_link);
	if (!ASSERT_OK_PTR(link, "attach_struct_ops") || !listener_read(&listener))
		goto out;
	for (i = 0; i < NR_CA_OPS; i++) {
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);

		t = find_image_add(&listener, image[i]);
		if (!ASSERT_OK_PTR(t, "IMAGE_ADD") ||
		    !ASSERT_OK(bpf_prog_get_info_by_fd(bpf_program__fd(prog[i]), &info, &size),
			       "bpf_prog_get_info_by_fd"))
			goto out;
		check_image(t, PERF_BPF_EVENT_KIND_STRUCT_OPS);
		/* It calls one program. */
		ASSERT_EQ(t->r.bpf.id, info.id, "id");
		ASSERT_EQ(t->r.load_time, info.load_time, "load_time");
		add[i] = *t;
	}
out:
	bpf_link__destroy(link);
	tcp_ca_update__destroy(skel);
	while (i)
		check_image_del(&listener, &add[--i]);
}

/* Without the bit, nothing changes, even while another event has it. */
static void test_bit_clear(void)
{
	struct bpf_prog_info info = {};
	struct bpf_subprog_event *skel;
	__u32 size = sizeof(info);
	int i, loads = 0, unloads = 0;
	struct bpf_record want;

	if (!listener_open(&plain, false))
		goto out;
	skel = load_three();
	if (!skel)
		goto out;
	ASSERT_OK(bpf_prog_get_info_by_fd(bpf_program__fd(skel->progs.three), &info, &size),
		  "bpf_prog_get_info_by_fd");
	bpf_subprog_event__destroy(skel);
	if (!listener_read(&plain) || !listener_read(&listener))
		goto out;

	memset(&want, 0, sizeof(want));
	want.header.type = PERF_RECORD_BPF_EVENT;
	want.header.size = sizeof(want);
	want.id = info.id;
	memcpy(want.tag, info.tag, sizeof(want.tag));
	for (i = 0; i < plain.progs; i++) {
		if (plain.prog[i].id != info.id)
			continue;
		want.type = plain.prog[i].type;
		loads += want.type == PERF_BPF_EVENT_PROG_LOAD;
		unloads += want.type == PERF_BPF_EVENT_PROG_UNLOAD;
		ASSERT_MEMEQ(&plain.prog[i], &want, sizeof(want), "record");
	}
	ASSERT_EQ(loads, 1, "PROG_LOAD");
	ASSERT_EQ(unloads, 1, "PROG_UNLOAD");
	ASSERT_EQ(plain.texts, 0, "records of subprograms");
	ASSERT_GE(listener.texts, 2 * NR_SUBPROGS, "records of the other listener");
out:
	listener_close(&plain);
}

static int try_open(struct perf_event_attr *attr)
{
	int fd = syscall(__NR_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void test_attr(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.bpf_event = 1,
		.bpf_subprog = 1,
	};
	__u64 caps;

	ASSERT_OK(try_open(&attr), "bpf_event and bpf_subprog");
	attr.bpf_event = 0;
	ASSERT_EQ(try_open(&attr), -EINVAL, "bpf_subprog alone");
	attr.ksymbol = 1;
	ASSERT_EQ(try_open(&attr), -EINVAL, "ksymbol and bpf_subprog");

	/* Addresses need the permission to profile the kernel. */
	attr.ksymbol = 0;
	attr.bpf_event = 1;
	if (!ASSERT_OK(cap_disable_effective(1ULL << CAP_SYS_ADMIN | 1ULL << CAP_PERFMON, &caps),
		       "cap_disable_effective"))
		return;
	ASSERT_EQ(try_open(&attr), -EACCES, "bpf_subprog without CAP_PERFMON");
	attr.bpf_subprog = 0;
	ASSERT_OK(try_open(&attr), "bpf_event without CAP_PERFMON");
	ASSERT_OK(cap_enable_effective(caps, NULL), "cap_enable_effective");
}

static void run(const char *name, void (*test)(void))
{
	if (!test__start_subtest(name))
		return;
	if (listener_open(&listener, true))
		test();
	listener_close(&listener);
}

/* The records of other tests' programs would fill the rings. */
void serial_test_bpf_subprog_event(void)
{
	char paranoid[16] = "";

	if (test__start_subtest("attr") &&
	    ASSERT_OK(sysctl_set_or_fail(PARANOID, paranoid, "2"), "perf_event_paranoid")) {
		test_attr();
		sysctl_set_or_fail(PARANOID, NULL, paranoid);
	}
	run("subprogs", test_subprogs);
	run("trampoline", test_trampoline);
	run("struct_ops", test_struct_ops);
	run("bit_clear", test_bit_clear);
}
