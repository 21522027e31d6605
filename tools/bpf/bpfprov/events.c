// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov events - report BPF programs as they are loaded and unloaded.
 *
 * With attr.bpf_subprog, records are self-contained and numbered: they are printed in
 * that order, and a missing number is a lost record. A record may be read after its
 * successor, which is in another CPU's ring, so records after a gap are held back for
 * a while. If records were lost, a program that is loaded at the end shows the last gap.
 *
 * Without it, records have only a program's ID and tag. The rest is queried from the
 * kernel, which fails if the program is already unloaded.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bpfprov.h"
#include "bpftext.h"
#include "ring.h"

#define HOLD_NS		50000000ULL
#define MAX_PENDING	1000000
/* Limit of remembered programs: more than are usually loaded. */
#define MAX_PROGS	65536

static struct {
	bool now, json;
	long pages, seconds;
} env;

enum { OPT_NOW = 1, OPT_JSON, OPT_PAGES };

static const struct argp_option options[] = {
	{ "now", OPT_NOW, NULL, 0, "list the loaded programs and exit", 0 },
	{ "json", OPT_JSON, NULL, 0, "print a JSON object per line", 0 },
	{ "duration", 'd', "SECS", 0, "exit after this time", 0 },
	{ "ring-pages", OPT_PAGES, "N", 0, "pages per CPU, a power of two up to 65536 (64)", 0 },
	{}
};

static const char doc[] =
	"Print BPF programs, subprograms and images as they are loaded and unloaded.\n"
	"\vExamples:\n"
	"  bpfprov events\n"
	"  bpfprov events --now --json\n"
	"\n"
	"Each line has the time, the event, ID and number of the subprogram, program type,\n"
	"tag, range, name, and the task; ~ means that the task only completed an unload that\n"
	"another one began. A range stays valid until another one overlaps it.\n"
	"Needs CAP_PERFMON; CAP_SYS_ADMIN for --now, and for names without bpf-subprog.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case OPT_NOW:
		env.now = true;
		return 0;
	case OPT_JSON:
		env.json = true;
		return 0;
	case OPT_PAGES:
		env.pages = parse_ring_pages(state, arg);
		return 0;
	case 'd':
		env.seconds = parse_number(state, arg, "--duration", 1, 1000000000);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "%s: no arguments are expected", arg);
		return 0;
	case ARGP_KEY_END:
		if (env.now && (env.seconds || env.pages))
			argp_error(state, "--now cannot be combined with --duration or --ring-pages");
		if (!env.pages)
			env.pages = 64;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- output ------------------------------------------------------------------- */

enum what { LOAD, UNLOAD, IMAGE_ADD, IMAGE_DEL, LOST, LOADED };

static const char * const what_names[] = {
	"load", "unload", "image-add", "image-del", "lost", "loaded",
};

struct event {
	enum what what;
	uint64_t realtime;	/* ns; 0: not known */
	uint64_t boottime;	/* of a record; 0 with --now */
	struct bpf_text text;
	uint32_t pid;
	bool async;
	bool has_pid;
	uint32_t attach_type;
	uint64_t seq;		/* 0: none */
	/* LOST */
	uint64_t count, last_seq;
	uint32_t cpu;
	bool at_end;		/* neither located by a number nor by a CPU */
	bool at_most;		/* the count may include other types, and numbered gaps */
};

/* The current name of the task; "" if it has ended. */
static void comm_of(uint32_t pid, char *comm, size_t size)
{
	char path[32];
	FILE *f;

	*comm = 0;
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "r");
	if (!f)
		return;
	if (fgets(comm, size, f))
		comm[strcspn(comm, "\n")] = 0;
	fclose(f);
}

/* A program that was unloaded before it was queried has no type. */
static const char *type_name(uint32_t type)
{
	const char *name = libbpf_bpf_prog_type_str(type);

	return type == BPF_PROG_TYPE_UNSPEC ? "-" : name ? name : "unknown";
}

static bool has_tag(const struct bpf_text *t)
{
	static const uint8_t none[sizeof(t->tag)];

	return memcmp(t->tag, none, sizeof(none));
}

/* The page that a kernel without bpf_subprog reports for an image is not its length. */
static uint32_t known_len(const struct bpf_text *t)
{
	return t->len_is_guess ? 0 : t->len;
}

static void print_json(const struct event *e, const char *comm)
{
	const struct bpf_text *t = &e->text;
	const char *attach;

	putchar('{');
	if (e->realtime)
		printf("\"time\":%" PRIu64 ".%09" PRIu64 ",",
		       (uint64_t)(e->realtime / NSEC_PER_SEC),
		       (uint64_t)(e->realtime % NSEC_PER_SEC));
	printf("\"event\":\"%s\"", what_names[e->what]);
	if (e->what == LOST) {
		printf(",\"count\":%" PRIu64, e->count);
		if (e->seq)
			printf(",\"first_seq\":%" PRIu64 ",\"last_seq\":%" PRIu64, e->seq,
			       e->last_seq);
		else if (!e->at_end)
			printf(",\"cpu\":%u", e->cpu);
		if (e->at_most)
			printf(",\"at_most\":true");
		printf("}\n");
		return;
	}
	if (t->id)
		printf(",\"id\":%u", t->id);
	if (t->sub_cnt) {
		printf(",\"sub_id\":%u,\"sub_cnt\":%u", t->sub_id, t->sub_cnt);
		if (t->prog_type)
			printf(",\"type\":\"%s\"", type_name(t->prog_type));
		attach = libbpf_bpf_attach_type_str(e->attach_type);
		/* Of struct_ops, it is the number of a member. */
		if (e->attach_type && attach && t->prog_type != BPF_PROG_TYPE_STRUCT_OPS)
			printf(",\"attach_type\":\"%s\"", attach);
	}
	if (has_tag(t)) {
		printf(",\"tag\":\"");
		print_hex(stdout, t->tag, sizeof(t->tag));
		putchar('"');
	}
	if (t->addr)
		printf(",\"addr\":\"0x%" PRIx64 "\"", t->addr);
	if (t->addr && known_len(t))
		printf(",\"len\":%u", known_len(t));
	if (*t->name) {
		printf(",\"name\":");
		json_string(stdout, t->name);
	}
	if (e->what == LOADED && t->sub_cnt)
		printf(",\"uid\":%u", t->uid);
	if (e->has_pid) {
		printf(",\"pid\":%u", e->pid);
		if (e->seq)
			printf(",\"async\":%s", e->async ? "true" : "false");
		if (*comm) {
			printf(",\"comm\":");
			json_string(stdout, comm);
		}
	}
	if (e->seq)
		printf(",\"seq\":%" PRIu64, e->seq);
	printf("}\n");
}

static void print_text(const struct event *e, const char *comm)
{
	static const enum colour colours[] = {
		[LOAD] = GREEN, [UNLOAD] = YELLOW, [IMAGE_ADD] = GREEN, [IMAGE_DEL] = YELLOW,
		[LOST] = RED, [LOADED] = PLAIN,
	};
	const struct bpf_text *t = &e->text;
	time_t s = e->realtime / NSEC_PER_SEC;
	char when[24] = "-", range[40] = "-", id[24] = "-";
	struct tm tm;
	size_t len;

	if (e->realtime) {
		len = strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&s, &tm));
		snprintf(when + len, sizeof(when) - len, ".%06u",
			 (unsigned int)(e->realtime % NSEC_PER_SEC / 1000));
	}
	printf("%-15s %s%-9s%s ", when, colour(stdout, colours[e->what]), what_names[e->what],
	       colour(stdout, PLAIN));
	if (e->what == LOST) {
		if (e->seq)
			printf("%" PRIu64 " records, number %" PRIu64 " to %" PRIu64 "\n", e->count,
			       e->seq, e->last_seq);
		else if (e->at_most)
			printf("at most %" PRIu64 " more records\n", e->count);
		else if (e->at_end)
			printf("%" PRIu64 " records after the last one\n", e->count);
		else
			printf("%" PRIu64 " records of CPU %u\n", e->count, e->cpu);
		return;
	}
	if (t->sub_cnt)
		snprintf(id, sizeof(id), "%u.%u/%u", t->id, t->sub_id, t->sub_cnt);
	else if (t->id)
		snprintf(id, sizeof(id), "%u", t->id);
	if (t->addr && known_len(t))
		snprintf(range, sizeof(range), "%" PRIx64 "+%x", t->addr, known_len(t));
	else if (t->addr)
		snprintf(range, sizeof(range), "%" PRIx64, t->addr);
	printf("%-10s %-16s ", id, t->sub_cnt ? type_name(t->prog_type) : "image");
	if (has_tag(t))
		print_hex(stdout, t->tag, sizeof(t->tag));
	else
		printf("%-16s", "-");
	printf(" %-22s ", range);
	print_clean(stdout, *t->name ? t->name : "-");
	putchar(' ');
	if (e->has_pid) {
		printf("%s", e->async ? "~" : "");
		print_clean(stdout, *comm ? comm : "-");
		printf("[%u]\n", e->pid);
	} else if (t->sub_cnt) {
		printf("uid:%u\n", t->uid);
	} else {
		printf("-\n");
	}
}

static bool own_proc;	/* /proc shows the PID namespace of this process */

static void print_event(const struct event *e)
{
	char comm[64] = "";

	if (e->has_pid && own_proc)
		comm_of(e->pid, comm, sizeof(comm));
	if (env.json)
		print_json(e, comm);
	else
		print_text(e, comm);
}

/* --- loaded programs ------------------------------------------------------------- */

struct now {
	uint64_t boot;		/* CLOCK_REALTIME - CLOCK_BOOTTIME */
	const struct ksyms *k;
	uint8_t *seen;		/* of k's symbols */
};

static void print_loaded(void *ctx, const struct bpf_text *t)
{
	struct now *n = ctx;
	const struct ksym *s = t->addr && n->seen ? ksyms_find(n->k, t->addr) : NULL;
	struct event e = { .what = LOADED, .text = *t, .realtime = n->boot + t->load_time };

	if (s && s->addr == t->addr)
		n->seen[s - n->k->sym] = 1;
	print_event(&e);
}

static int list_loaded(void)
{
	struct now n = { .boot = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) };
	struct ksyms k;
	size_t i;
	int err;

	err = ksyms_read(&k, true);
	if (!err || err == -EACCES)
		n.k = &k;
	if (!err && k.count)
		n.seen = calloc(k.count, 1);
	err = bpf_text_all(n.k, print_loaded, &n);

	/* Symbols of programs that were loaded or unloaded in between are not images. */
	for (i = 0; n.seen && !err && i < k.count; i++) {
		struct event e = { .what = LOADED };

		if (n.seen[i] || !strncmp(k.sym[i].name, "bpf_prog_", 9))
			continue;
		e.text.addr = k.sym[i].addr;
		snprintf(e.text.name, sizeof(e.text.name), "%s", k.sym[i].name);
		print_event(&e);
	}
	free(n.seen);
	ksyms_free(&k);
	if (err) {
		say("listing programs: %s", strerror(-err));
		return is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
	}
	return BPFPROV_OK;
}

/* --- the stream -------------------------------------------------------------------- */

struct prog_record {
	struct perf_event_header header;
	uint16_t type, flags;
	uint32_t id;
	uint8_t tag[8];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

struct pending {
	struct event e;
	uint64_t order;		/* the number, or the time */
	uint64_t since;		/* when it was read */
};

static struct {
	bool subprog;			/* the kernel has attr.bpf_subprog */
	uint64_t real;			/* CLOCK_REALTIME - CLOCK_BOOTTIME, now */
	struct pending *pending;
	size_t count, room;
	uint64_t next;			/* the next expected number; 0: any */
	uint64_t begin, end;		/* CLOCK_BOOTTIME: all rings were open, and read */
	uint64_t events, lost, gone;
	uint64_t lost_before;		/* in the rings, before stream.begin */
	uint32_t marker;		/* ID of the program that is loaded at the end; 0: none */
	bool complete;			/* the marker was read: all gaps before it are known */
	bool no_memory;
	void *progs;			/* of the reduced form: a tree of struct prog */
	size_t prog_count;
} stream;

static void hold(const struct event *e, uint64_t order)
{
	void *p;

	if (stream.count == stream.room) {
		size_t room = stream.room ? stream.room * 2 : 256;

		p = room > MAX_PENDING ? NULL :
		    realloc(stream.pending, room * sizeof(*stream.pending));
		if (!p) {
			stream.no_memory = true;
			/* Of numbered records, the gap is counted. */
			stream.lost += !stream.subprog;
			return;
		}
		stream.pending = p;
		stream.room = room;
	}
	stream.pending[stream.count++] = (struct pending){ *e, order, clock_ns(CLOCK_MONOTONIC) };
}

static struct event new_event(enum what what, const struct ring_id *id)
{
	return (struct event){
		.what = what,
		.realtime = stream.real + id->time,
		.boottime = id->time,
		.pid = id->pid,
		.has_pid = true,
		.cpu = id->cpu,
	};
}

static void read_subprog(const struct perf_event_header *h, const struct ring_id *id)
{
	const struct subprog_record *r = (const void *)h;
	struct bpf_text text;
	enum what what;
	struct event e;

	if (!bpf_text_of_subprog(h, &text))
		return;
	switch (r->type) {
	case PERF_BPF_EVENT_SUBPROG_LOAD:
		what = LOAD;
		break;
	case PERF_BPF_EVENT_SUBPROG_UNLOAD:
		what = UNLOAD;
		break;
	case PERF_BPF_EVENT_IMAGE_ADD:
		what = IMAGE_ADD;
		break;
	case PERF_BPF_EVENT_IMAGE_DEL:
		what = IMAGE_DEL;
		break;
	default:
		return;
	}
	e = new_event(what, id);
	e.async = r->flags & PERF_BPF_EVENT_F_ASYNC;
	e.attach_type = r->attach_type;
	e.seq = r->seq;
	e.text = text;
	hold(&e, r->seq);
}

/* --- without bpf_subprog -------------------------------------------------------- */

/* A program as it was when it was loaded, for its unload record. */
struct prog {
	uint32_t id, count;
	struct bpf_text *text;
};

static int by_id(const void *a, const void *b)
{
	const struct prog *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void remember(void *ctx, const struct bpf_text *t)
{
	struct prog *p = ctx;
	void *text = realloc(p->text, (p->count + 1) * sizeof(*t));

	if (!text)
		return;
	p->text = text;
	p->text[p->count++] = *t;
}

static void free_prog(void *prog)
{
	struct prog *p = prog;

	free(p->text);
	free(p);
}

static struct prog *find_prog(uint32_t id)
{
	struct prog key = { .id = id }, **p = tfind(&key, &stream.progs, by_id);

	return p ? *p : NULL;
}

static void forget_prog(struct prog *p)
{
	tdelete(p, &stream.progs, by_id);
	free_prog(p);
	stream.prog_count--;
}

static void add_prog(uint32_t id)
{
	struct prog *p = find_prog(id);

	if (p)	/* the ID was reused, and the unload record of its first program lost */
		forget_prog(p);
	/* Programs beyond the limit are printed with their ID only. */
	p = stream.prog_count < MAX_PROGS ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return;
	p->id = id;
	if (bpf_text_of(id, NULL, remember, p) || !p->count || !tsearch(p, &stream.progs, by_id))
		free_prog(p);
	else
		stream.prog_count++;
}

static void read_prog(const struct perf_event_header *h, const struct ring_id *id)
{
	const struct prog_record *r = (const void *)h;
	struct event e = new_event(r->type == PERF_BPF_EVENT_PROG_LOAD ? LOAD : UNLOAD, id);
	struct prog *p;
	uint32_t i;

	if (r->type == PERF_BPF_EVENT_PROG_LOAD)
		add_prog(r->id);
	else if (r->type != PERF_BPF_EVENT_PROG_UNLOAD)
		return;
	p = find_prog(r->id);
	if (!p) {
		stream.gone++;
		e.text.id = r->id;
		e.text.sub_cnt = 1;
		memcpy(e.text.tag, r->tag, sizeof(e.text.tag));
		hold(&e, id->time);
		return;
	}
	for (i = 0; i < p->count; i++) {
		e.text = p->text[i];
		hold(&e, id->time);
	}
	if (e.what == UNLOAD)
		forget_prog(p);
}

static void read_ksymbol(const struct perf_event_header *h, const struct ring_id *id)
{
	const struct ksymbol_record *r = (const void *)h;
	struct event e = new_event(r->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER ?
				   IMAGE_DEL : IMAGE_ADD, id);

	/* Some kernels emit these for interpreted programs, with a length of 0. */
	if (r->type != PERF_RECORD_KSYMBOL_TYPE_BPF || !bpf_text_of_ksymbol(h, &e.text) ||
	    !e.text.len)
		return;
	/*
	 * Programs have no ID here, and no name if they were loaded without CAP_BPF. They are
	 * printed for their PERF_RECORD_BPF_EVENT.
	 */
	if (*e.text.name && strncmp(e.text.name, "bpf_prog_", 9))
		hold(&e, id->time);
}

static void read_record(void *ctx, const struct perf_event_header *h, const struct ring_id *id)
{
	const struct lost_record *lost = (const void *)h;
	struct event e;

	switch (h->type) {
	case PERF_RECORD_LOST:
		if (stream.subprog)
			return;		/* located by the numbers */
		e = new_event(LOST, id);
		e.count = lost->lost;
		stream.lost += lost->lost;
		hold(&e, id->time);
		return;
	case PERF_RECORD_BPF_EVENT:
		if (stream.subprog)
			read_subprog(h, id);
		else
			read_prog(h, id);
		return;
	case PERF_RECORD_KSYMBOL:
		if (!stream.subprog)
			read_ksymbol(h, id);
		return;
	}
}

static int by_order(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

static void say_lost(uint64_t first, uint64_t last, uint64_t realtime)
{
	struct event e = { .what = LOST, .realtime = realtime, .seq = first, .last_seq = last,
			   .count = last - first + 1 };

	stream.lost += e.count;
	print_event(&e);
}

/*
 * Records that were lost after the last one of a ring leave no gap, and no PERF_RECORD_LOST. With
 * bpf_subprog, these can be of other types as well.
 */
static void say_lost_at_end(uint64_t count)
{
	struct event e = { .what = LOST, .realtime = clock_ns(CLOCK_REALTIME), .count = count,
			   .at_end = true, .at_most = stream.subprog };

	if (!e.at_most)
		stream.lost += count;
	print_event(&e);
}

/*
 * Load a program, whose record has a number, and store its ID. Returns a descriptor, or -1 if it is
 * not allowed. Not by libbpf, which loads others to probe the kernel.
 */
static int load_marker(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)insns,
		.insn_cnt = ARRAY_LEN(insns),
		.license = (uintptr_t)"GPL",
	};
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);
	int fd;

	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &len))
		stream.marker = info.id;
	return fd;
}

/*
 * Print the next record in order, and records that were held for HOLD_NS when the rings
 * were read at @now; with @all, every record written before stream.end. Gaps from before
 * all rings were open are not losses.
 */
static void release(uint64_t now, bool all)
{
	size_t i;

	if (!stream.count)
		return;
	/* Need not be stable: records of the same time have no order between CPUs. */
	qsort(stream.pending, stream.count, sizeof(*stream.pending), by_order);
	for (i = 0; i < stream.count; i++) {
		struct pending *p = &stream.pending[i];
		bool ignored, is_marker;

		if (!all && !(stream.subprog && p->order == stream.next) &&
		    now < p->since + HOLD_NS)
			break;
		ignored = all && p->e.boottime > stream.end;
		if (stream.subprog && stream.next && p->order > stream.next && !ignored)
			say_lost(stream.next, p->order - 1, p->e.realtime);
		is_marker = stream.marker && p->e.text.id == stream.marker;
		if (is_marker && stream.next)
			stream.complete = true;
		if (stream.subprog && p->order >= stream.next && p->e.boottime > stream.begin)
			stream.next = p->order + 1;
		if (ignored || is_marker)
			continue;
		print_event(&p->e);
		stream.events++;
	}
	stream.count -= i;
	memmove(stream.pending, stream.pending + i, stream.count * sizeof(*stream.pending));
}

static int listen_all(struct rings *rings)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.bpf_event = 1,
		.bpf_subprog = stream.subprog,
		.ksymbol = !stream.subprog,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	return rings_open(rings, &attr, CLOCK_BOOTTIME, env.pages);
}

/* The time of day may be set while this runs. */
static void read_clocks(void)
{
	stream.real = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
}

static int follow(void)
{
	struct rings rings;
	uint64_t end, now, lost;
	int err, marker = -1;

	own_proc = is_own_proc();
	stream.subprog = has_feature(BPF_SUBPROG);
	if (!stream.subprog)
		say_reduced(BPF_SUBPROG,
			    "programs that are unloaded at once have no name and range, losses are not located");
	read_clocks();
	err = listen_all(&rings);
	if (err)
		return is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
	stream.lost_before = rings_lost(&rings);
	stream.begin = clock_ns(CLOCK_BOOTTIME);
	say("listening on %d CPUs, %ld pages each", rings.count, env.pages);
	end = clock_ns(CLOCK_MONOTONIC) + env.seconds * NSEC_PER_SEC;
	while (!exiting() && !ferror(stdout)) {
		if (env.seconds && clock_ns(CLOCK_MONOTONIC) >= end)
			break;
		rings_wait(&rings, 20);
		now = clock_ns(CLOCK_MONOTONIC);
		read_clocks();
		rings_read(&rings, read_record, NULL);
		release(now, false);
		fflush(stdout);
	}
	/* Make room for the record of the marker. */
	rings_read(&rings, read_record, NULL);
	if (stream.subprog && rings_lost(&rings) > rings.lost)
		marker = load_marker();
	/* A CPU that has taken a number may not have written its record yet. */
	stream.end = clock_ns(CLOCK_BOOTTIME);
	lost = rings_lost(&rings);
	nanosleep(&(struct timespec){ .tv_nsec = HOLD_NS }, NULL);
	rings_read(&rings, read_record, NULL);
	release(0, true);
	/* Those that a PERF_RECORD_LOST reported came before another record of their ring. */
	if (!stream.subprog && lost - stream.lost_before > stream.lost)
		say_lost_at_end(lost - stream.lost_before - stream.lost);
	else if (stream.subprog && !stream.complete && lost > rings.lost)
		say_lost_at_end(lost - rings.lost);
	if (marker >= 0)
		close(marker);
	rings_close(&rings);
	free(stream.pending);
	tdestroy(stream.progs, free_prog);

	say("%" PRIu64 " events, %" PRIu64 " lost%s", stream.events, stream.lost,
	    stream.no_memory ? ", some because memory ran out" : "");
	if (stream.gone)
		say("%" PRIu64 " programs were unloaded before they could be queried", stream.gone);
	return BPFPROV_OK;
}

int cmd_events(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	int caps[] = { CAP_PERFMON, -1 };
	int rc;

	parse_args(&argp, argc, argv);
	raise_file_limit();
	if (env.now)
		caps[0] = CAP_SYS_ADMIN;
	if (!have_caps(caps))
		return BPFPROV_CAP;
	if (!env.now && !has_feature(BPF_SUBPROG) && !have_cap(CAP_SYS_ADMIN))
		say("%sreduced:%s without CAP_SYS_ADMIN, programs have an ID and a tag only",
		    colour(stderr, YELLOW), colour(stderr, PLAIN));
	catch_signals();
	rc = env.now ? list_loaded() : follow();
	if (finish_output(stdout, "standard output"))
		return BPFPROV_FAILED;
	return rc;
}
