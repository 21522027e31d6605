// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov profile - where the time goes, in user and kernel code.
 *
 * User frames come as build ID and file offset, taken when the sample was: what
 * ends before it is looked at is resolved all the same. Paths of files come from the
 * mmap records of all processes, and from /proc for what runs already. The text
 * of BPF programs comes from what is loaded and from the records of what comes and
 * goes: whose it was when the sample was taken.
 * Names are looked up when sampling has ended.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "bpfprov.h"
#include "bpftext.h"
#include "ksyms.h"
#include "profile.h"
#include "profile.skel.h"
#include "ring.h"
#include "symbols.h"
#include "texts.h"

#define CGROUPFS	"/sys/fs/cgroup"
#define CGROUP2_MAGIC	0x63677270
/* What bounds the memory: beyond it, samples are counted and not kept. */
#define MAX_STACKS	131072
#define MAX_UNIQUE	1048576

static struct {
	long pid, hz, seconds, pages;
	const char *cgroup, *output;
	bool all, json;
} env = { .hz = 99, .pages = 64 };

enum { OPT_FORMAT = 1, OPT_PAGES };

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "this process", 0 },
	{ "cgroup", 'G', "CGROUP", 0, "this cgroup and those below it", 0 },
	{ "all", 'a', NULL, 0, "everything (default)", 0 },
	{ "frequency", 'F', "HZ", 0, "samples per second and CPU (99)", 0 },
	{ "duration", 'd', "SECS", 0, "end after that time (else Ctrl-C ends it)", 0 },
	{ "output", 'o', "FILE", 0, "write there and not to standard output", 0 },
	{ "format", OPT_FORMAT, "folded|json", 0, "folded stacks (default), or JSON", 0 },
	{ "ring-pages", OPT_PAGES, "N", 0, "memory per CPU for records, a power of two (64)", 0 },
	{}
};

static const char doc[] =
	"Sample the stacks of what runs, in user and kernel code.\n"
	"\vExample:\n"
	"  bpfprov profile -d 10 -o out.folded\n"
	"  flamegraph.pl out.folded > out.svg\n"
	"\n"
	"flamegraph.pl and speedscope read the folded form. Ctrl-C ends the sampling and\n"
	"keeps the data. Kernel frames end with _[k], BPF programs' with their ID and\n"
	"subprogram. Needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		env.pid = parse_number(state, arg, "--pid", 1, INT32_MAX);
		return 0;
	case 'G':
		env.cgroup = arg;
		return 0;
	case 'a':
		env.all = true;
		return 0;
	case 'F':
		env.hz = parse_number(state, arg, "--frequency", 1, 10000);
		return 0;
	case 'd':
		env.seconds = parse_number(state, arg, "--duration", 1, 1000000000);
		return 0;
	case 'o':
		env.output = arg;
		return 0;
	case OPT_FORMAT:
		env.json = !strcmp(arg, "json");
		if (!env.json && strcmp(arg, "folded"))
			argp_error(state, "--format: %s is neither folded nor json", arg);
		return 0;
	case OPT_PAGES:
		env.pages = parse_ring_pages(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "%s: no arguments are expected", arg);
		return 0;
	case ARGP_KEY_END:
		if (env.all + !!env.pid + !!env.cgroup > 1)
			argp_error(state, "only one of --pid, --cgroup and --all");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- interning ------------------------------------------------------------------ */

/* Indices of equal things, by hash: an open table that grows. */
struct table {
	uint32_t *slots;	/* index + 1; 0: free */
	size_t size, used;
};

static uint64_t hash_of(const void *p, size_t len, uint64_t hash)
{
	const uint8_t *b = p;

	while (len--)
		hash = (hash ^ *b++) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}

#define HASH_SEED 0xcbf29ce484222325ULL

static bool table_grow(struct table *t, uint64_t (*hash)(uint32_t index))
{
	struct table n = { .size = t->size ? t->size * 2 : 1024, .used = t->used };
	size_t i, at;

	n.slots = calloc(n.size, sizeof(*n.slots));
	if (!n.slots)
		return false;
	for (i = 0; i < t->size; i++) {
		if (!t->slots[i])
			continue;
		for (at = hash(t->slots[i] - 1) & (n.size - 1); n.slots[at];)
			at = (at + 1) & (n.size - 1);
		n.slots[at] = t->slots[i];
	}
	free(t->slots);
	*t = n;
	return true;
}

enum kind { KERNEL, BPF, USER, ANON, NOWHERE, UNKNOWN };

struct frame {
	enum kind kind;
	uint32_t is_return;
	uint64_t where;		/* address, file offset, or index of a text */
	struct binary *binary;
	/* Not part of what makes two frames equal. */
	uint64_t count;
	const char *name;
	enum outcome outcome;
};

#define FRAME_KEY offsetof(struct frame, count)

struct stack {
	char comm[COMM_SIZE];
	uint32_t kernel, count_frames;
	uint64_t count;
	uint32_t *frames;	/* leaf first, kernel before user */
};

static struct {
	struct frame *frames;
	size_t frame_count, frame_room;
	struct table frame_table;
	struct stack *stacks;
	size_t stack_count, stack_room;
	struct table stack_table;
	struct texts texts;
	struct rings rings;
	uint64_t read_at;		/* when @rings were, CLOCK_MONOTONIC, ns */
	uint64_t samples, dropped, lost_records;
	uint64_t by_id, by_query, by_proc;
	struct ksyms ksyms;
	bool subprog;
} data;

static uint64_t frame_hash(uint32_t i)
{
	return hash_of(&data.frames[i], FRAME_KEY, HASH_SEED);
}

static uint64_t stack_hash(uint32_t i)
{
	const struct stack *s = &data.stacks[i];

	return hash_of(s->frames, s->count_frames * sizeof(*s->frames),
		       hash_of(s->comm, COMM_SIZE, HASH_SEED));
}

/* Room for one more of an array that doubles. */
static bool room_for(void *array, size_t *room, size_t count, size_t size)
{
	void **p = array, *n;

	if (count < *room)
		return true;
	n = realloc(*p, (*room ? *room * 2 : 1024) * size);
	if (!n)
		return false;
	*p = n;
	*room = *room ? *room * 2 : 1024;
	return true;
}

/* The index of @f, or -1 when there is no room. */
static int64_t frame_index(const struct frame *f)
{
	struct table *t = &data.frame_table;
	size_t at;

	if (t->used * 2 >= t->size && !table_grow(t, frame_hash))
		return -1;
	for (at = hash_of(f, FRAME_KEY, HASH_SEED) & (t->size - 1); t->slots[at];
	     at = (at + 1) & (t->size - 1))
		if (!memcmp(&data.frames[t->slots[at] - 1], f, FRAME_KEY))
			return t->slots[at] - 1;
	if (data.frame_count == MAX_UNIQUE ||
	    !room_for(&data.frames, &data.frame_room, data.frame_count, sizeof(*f)))
		return -1;
	data.frames[data.frame_count] = *f;
	t->slots[at] = ++data.frame_count;
	t->used++;
	return data.frame_count - 1;
}

/* Count a stack. False when there is no room. */
static bool count_stack(const char *comm, const uint32_t *frames, uint32_t kernel, uint32_t count)
{
	struct table *t = &data.stack_table;
	struct stack *s;
	size_t at;

	if (t->used * 2 >= t->size && !table_grow(t, stack_hash))
		return false;
	at = hash_of(frames, count * sizeof(*frames), hash_of(comm, COMM_SIZE, HASH_SEED));
	for (at &= t->size - 1; t->slots[at]; at = (at + 1) & (t->size - 1)) {
		s = &data.stacks[t->slots[at] - 1];
		if (s->count_frames == count && s->kernel == kernel &&
		    !memcmp(s->comm, comm, COMM_SIZE) &&
		    !memcmp(s->frames, frames, count * sizeof(*frames))) {
			s->count++;
			return true;
		}
	}
	if (data.stack_count == MAX_STACKS ||
	    !room_for(&data.stacks, &data.stack_room, data.stack_count, sizeof(*s)))
		return false;
	s = &data.stacks[data.stack_count];
	s->frames = malloc(count * sizeof(*frames) + 1);
	if (!s->frames)
		return false;
	memcpy(s->frames, frames, count * sizeof(*frames));
	memcpy(s->comm, comm, COMM_SIZE);
	s->kernel = kernel;
	s->count_frames = count;
	s->count = 1;
	t->slots[at] = ++data.stack_count;
	t->used++;
	return true;
}

/* --- what is mapped, and what BPF text there is ------------------------------------ */

/* There before we looked, as far as we know. */
static void add_text(void *ctx, const struct bpf_text *t)
{
	if (t->addr)
		texts_begin(&data.texts, t, 0);
}

/* What bpf_prog_info has not: images, and callbacks that the kernel added. */
static void add_symbols(void)
{
	uint64_t time = clock_ns(CLOCK_MONOTONIC), end;
	const struct ksym *s;
	struct bpf_text t;

	for (s = data.ksyms.sym; s < data.ksyms.sym + data.ksyms.count; s++) {
		if (!s->is_bpf || texts_find(&data.texts, s->addr, time) >= 0)
			continue;
		end = s + 1 < data.ksyms.sym + data.ksyms.count ? s[1].addr : UINT64_MAX;
		t = (struct bpf_text){ .addr = s->addr, .len_is_guess = true };
		t.len = sysconf(_SC_PAGESIZE);
		if (end - s->addr < t.len)
			t.len = end - s->addr;
		snprintf(t.name, sizeof(t.name), "%s", s->name);
		if (t.len)
			add_text(NULL, &t);
	}
}

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	union {
		struct {
			uint32_t major, minor;
			uint64_t ino, generation;
		};
		struct {
			uint8_t build_id_len, reserved[3];
			uint8_t build_id[BUILD_ID_MAX];
		};
	};
	uint32_t prot, flags;
	char filename[];
};

/* Returns true when the file had no path before. */
static bool add_path(const uint8_t *id, size_t len, const char *path, int pid)
{
	struct binary *b;
	bool is_new;

	/* [vdso] and the like, //anon, memfds. */
	if (*path != '/' || path[1] == '/')
		return false;
	b = binary_get(id, len);
	if (!b)
		return false;
	is_new = !binary_where(b);
	binary_path(b, path, pid);
	return is_new;
}

static void read_mmap2(const struct perf_event_header *h)
{
	const struct mmap2_record *r = (const void *)h;
	uint8_t id[BUILD_ID_MAX];
	struct file_key key;
	size_t len;

	if (h->size <= sizeof(*r) + sizeof(struct ring_id))
		return;
	if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		if (r->build_id_len && r->build_id_len <= BUILD_ID_MAX)
			add_path(r->build_id, r->build_id_len, r->filename, r->pid);
		return;
	}
	key = (struct file_key){
		.ino = r->ino,
		.dev_major = r->major,
		.dev_minor = r->minor,
		.generation = r->generation,
	};
	/*
	 * It has none, or the kernel could not read it there and then, while a sample
	 * that comes later has one.
	 */
	if (!r->ino || !add_path((const uint8_t *)&key, 0, r->filename, r->pid))
		return;
	len = file_build_id(r->filename, id);
	if (len)
		add_path(id, len, r->filename, r->pid);
}

static void read_record(void *ctx, const struct perf_event_header *h, const struct ring_id *id)
{
	const struct subprog_record *b = (const void *)h;
	const struct ksymbol_record *k = (const void *)h;
	struct bpf_text t;
	bool begins;

	switch (h->type) {
	case PERF_RECORD_LOST:
		data.lost_records += ((const uint64_t *)(h + 1))[1];
		return;
	case PERF_RECORD_MMAP2:
		read_mmap2(h);
		return;
	case PERF_RECORD_BPF_EVENT:
		if (!data.subprog || !bpf_text_of_subprog(h, &t))
			return;
		begins = b->type == PERF_BPF_EVENT_SUBPROG_LOAD ||
			 b->type == PERF_BPF_EVENT_IMAGE_ADD;
		if (!begins && b->type != PERF_BPF_EVENT_SUBPROG_UNLOAD &&
		    b->type != PERF_BPF_EVENT_IMAGE_DEL)
			return;
		break;
	case PERF_RECORD_KSYMBOL:
		if (data.subprog || k->type != PERF_RECORD_KSYMBOL_TYPE_BPF ||
		    !bpf_text_of_ksymbol(h, &t))
			return;
		begins = !(k->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
		break;
	default:
		return;
	}
	if (!t.len)	/* no JIT */
		return;
	if (begins)
		texts_begin(&data.texts, &t, id->time);
	else
		texts_end(&data.texts, &t, id->time);
}

static void read_rings(void)
{
	data.read_at = clock_ns(CLOCK_MONOTONIC);
	rings_read(&data.rings, read_record, NULL);
}

static void scan_process(int pid)
{
	static struct mapping v;
	uint64_t addr = 0;
	struct maps m;

	if (maps_open(&m, pid, false))
		return;
	while (!maps_find(&m, addr, true, &v)) {
		addr = v.end;
		if (v.perms[2] == 'x' && v.build_id_len)
			add_path(v.build_id, v.build_id_len, v.path, pid);
	}
	maps_close(&m);
}

/* What runs already: its files are not mapped again. */
static void scan_all(void)
{
	struct dirent *e;
	DIR *d;

	if (env.pid) {
		scan_process(env.pid);
		return;
	}
	d = opendir("/proc");
	while (d && (e = readdir(d)) && !exiting())
		if (*e->d_name >= '1' && *e->d_name <= '9')
			scan_process(atoi(e->d_name));
	if (d)
		closedir(d);
}

/* --- samples -------------------------------------------------------------------------- */

/*
 * Without the kernel's answer: what /proc says now. The process may have gone, or
 * have mapped something else meanwhile.
 */
static void ask_proc(struct maps *m, int pid, uint64_t ip, struct frame *f)
{
	static struct mapping v;
	int err;

	if (m->fd < 0 || (!m->pid && maps_open(m, pid, false))) {
		m->fd = -1;
		return;
	}
	err = maps_find(m, ip, false, &v);
	if (err == -ENOENT)
		f->kind = NOWHERE;
	if (err)
		return;
	data.by_proc++;
	if (!v.build_id_len) {
		f->kind = ANON;
		return;
	}
	f->binary = binary_get(v.build_id, v.build_id_len);
	if (!f->binary)
		return;
	add_path(v.build_id, v.build_id_len, v.path, pid);
	f->kind = USER;
	f->where = ip - v.start + v.offset;
}

static struct frame user_frame(const struct sample *s, uint32_t i, struct maps *m)
{
	const struct bpf_stack_build_id *u = &s->user[i];
	struct frame f;

	memset(&f, 0, sizeof(f));	/* the padding is compared */
	f.kind = UNKNOWN;
	f.is_return = i > 0;
	switch (u->status) {
	case BPF_STACK_BUILD_ID_VALID:
	case FRAME_FILE:
		f.binary = binary_get(u->build_id, u->status == FRAME_FILE ? 0 : BUILD_ID_MAX);
		if (!f.binary)
			return f;
		f.kind = USER;
		f.where = u->offset;
		return f;
	case FRAME_ANON:
		f.kind = ANON;
		break;
	case FRAME_NOWHERE:
		f.kind = NOWHERE;
		break;
	case BPF_STACK_BUILD_ID_IP:
		ask_proc(m, s->pid, u->ip, &f);
		break;
	}
	if (f.kind != USER)
		f.is_return = 0;
	return f;
}

static struct frame kernel_frame(uint64_t addr, bool is_return, uint64_t time)
{
	struct frame f;
	int64_t text;

	memset(&f, 0, sizeof(f));
	text = texts_find(&data.texts, addr - is_return, time);
	if (text >= 0)
		data.texts.life[text].keep = true;
	f.kind = text >= 0 ? BPF : KERNEL;
	f.where = text >= 0 ? (uint64_t)text : addr;
	f.is_return = text >= 0 ? 0 : is_return;
	return f;
}

static int read_sample(void *ctx, void *sample, size_t size)
{
	const struct sample *s = sample;
	uint32_t frames[2 * MAX_FRAMES], count = 0, kernel, i, n;
	char comm[COMM_SIZE] = {};
	struct maps m = {};
	struct frame f;
	int64_t index;

	data.samples++;
	/* Records of what it may be in were written before it. */
	if (s->time >= data.read_at)
		read_rings();
	n = s->kernel_len > 0 ? s->kernel_len / sizeof(s->kernel[0]) : 0;
	for (i = 0; i < n && i < MAX_FRAMES; i++) {
		f = kernel_frame(s->kernel[i], i > 0, s->time);
		index = frame_index(&f);
		if (index < 0)
			goto dropped;
		frames[count++] = index;
	}
	kernel = count;
	n = s->user_len > 0 ? s->user_len / sizeof(s->user[0]) : 0;
	if (n > (size - offsetof(struct sample, user)) / sizeof(s->user[0]))
		n = (size - offsetof(struct sample, user)) / sizeof(s->user[0]);
	for (i = 0; i < n; i++) {
		f = user_frame(s, i, &m);
		if (s->user[i].status == BPF_STACK_BUILD_ID_VALID)
			data.by_id++;
		index = frame_index(&f);
		if (index < 0)
			goto dropped;
		frames[count++] = index;
	}
	data.by_query += s->queried;
	snprintf(comm, sizeof(comm), "%s", s->comm);
	if (!count_stack(comm, frames, kernel, count))
		goto dropped;
	for (i = 0; i < count; i++)
		data.frames[frames[i]].count++;
	goto out;
dropped:
	data.dropped++;
out:
	if (m.pid)
		maps_close(&m);
	return 0;
}

/* --- names ----------------------------------------------------------------------------- */

static void name_frame(struct frame *f)
{
	const struct ksym *k;

	switch (f->kind) {
	case KERNEL:
		/* Of BPF, all that was there is among the texts. */
		k = ksyms_find(&data.ksyms, f->where - f->is_return);
		f->name = k && !k->is_bpf ? k->name : NULL;
		break;
	case BPF:
		f->name = data.texts.life[f->where].text.name;
		break;
	case USER:
		f->name = binary_symbol(f->binary, f->where, f->is_return, &f->outcome);
		break;
	case ANON:
		f->outcome = ANONYMOUS;
		break;
	case NOWHERE:
		f->outcome = NOT_MAPPED;
		break;
	case UNKNOWN:
		f->outcome = NO_MAPPING;
		break;
	}
}

static void name_all(void)
{
	bool tty = isatty(STDERR_FILENO);
	size_t i;

	for (i = 0; i < data.frame_count; i++) {
		if (tty && i % 256 == 0)
			fprintf(stderr, "\rnaming frames: %zu of %zu", i, data.frame_count);
		name_frame(&data.frames[i]);
	}
	if (tty)
		fprintf(stderr, "\r\033[K");
}

/* In a folded stack, ; and blanks at the end have a meaning. */
static void put_clean(FILE *out, const char *s)
{
	for (; *s; s++)
		fputc(*s == ';' ? ':' : (unsigned char)*s < ' ' ? '?' : *s, out);
}

static void put_frame(FILE *out, const struct frame *f)
{
	const struct bpf_text *t;

	switch (f->kind) {
	case KERNEL:
		if (f->name)
			put_clean(out, f->name);
		else
			fprintf(out, "0x%" PRIx64, f->where);
		fprintf(out, "_[k]");
		break;
	case BPF:
		t = &data.texts.life[f->where].text;
		put_clean(out, t->name);
		if (t->id)
			fprintf(out, "[%u.%u]", t->id, t->sub_id);
		fprintf(out, "_[k]");
		break;
	case USER:
		if (f->name) {
			put_clean(out, f->name);
			break;
		}
		fputc('[', out);
		put_clean(out, binary_name(f->binary));
		fprintf(out, "+0x%" PRIx64 "]", f->where);
		break;
	case ANON:
		fprintf(out, "[anonymous]");
		break;
	case NOWHERE:
	case UNKNOWN:
		fprintf(out, "[unknown]");
		break;
	}
}

static const char * const outcome_names[OUTCOMES] = {
	[SYMBOLIZED] = "symbolized",
	[NO_SYMBOL] = "no symbol",
	[NO_FILE] = "file not found",
	[ANONYMOUS] = "anonymous memory",
	[NOT_MAPPED] = "not mapped: no frame pointers",
	[NO_MAPPING] = "mapping not known",
};

static void write_folded(FILE *out)
{
	size_t i, j;

	for (i = 0; i < data.stack_count; i++) {
		const struct stack *s = &data.stacks[i];

		put_clean(out, *s->comm ? s->comm : "?");
		/* Root first: the user's part, then the kernel's. */
		for (j = s->count_frames; j-- > 0;) {
			fputc(';', out);
			put_frame(out, &data.frames[s->frames[j]]);
		}
		fprintf(out, " %" PRIu64 "\n", s->count);
	}
}

static void write_json_frame(FILE *out, const struct frame *f)
{
	char hex[2 * BUILD_ID_MAX + 1];
	const struct bpf_text *t;

	switch (f->kind) {
	case KERNEL:
		fprintf(out, "{\"kind\":\"kernel\",\"address\":\"0x%" PRIx64 "\"", f->where);
		break;
	case BPF:
		t = &data.texts.life[f->where].text;
		fprintf(out, "{\"kind\":\"bpf\",\"address\":\"0x%" PRIx64 "\"", t->addr);
		if (t->id)
			fprintf(out, ",\"id\":%u,\"sub_id\":%u", t->id, t->sub_id);
		break;
	case USER:
		fprintf(out, "{\"kind\":\"user\"");
		binary_id(f->binary, hex, sizeof(hex));
		if (*hex)
			fprintf(out, ",\"build_id\":\"%s\"", hex);
		fprintf(out, ",\"offset\":\"0x%" PRIx64 "\"", f->where);
		if (binary_where(f->binary)) {
			fprintf(out, ",\"file\":");
			json_string(out, binary_where(f->binary));
		}
		break;
	default:
		fprintf(out, "{\"kind\":\"user\"");
	}
	if (f->kind >= USER)
		fprintf(out, ",\"outcome\":\"%s\"", outcome_names[f->outcome]);
	if (f->name) {
		fprintf(out, ",\"symbol\":");
		json_string(out, f->name);
	}
	fputc('}', out);
}

static void write_json(FILE *out)
{
	size_t i, j;

	fprintf(out, "{\"samples\":%" PRIu64 ",\"frequency\":%ld,\"stacks\":[", data.samples,
		env.hz);
	for (i = 0; i < data.stack_count; i++) {
		const struct stack *s = &data.stacks[i];

		fprintf(out, "%s\n{\"comm\":", i ? "," : "");
		json_string(out, s->comm);
		/* Leaf first, as the kernel gives them. */
		fprintf(out, ",\"count\":%" PRIu64 ",\"frames\":[", s->count);
		for (j = 0; j < s->count_frames; j++) {
			if (j)
				fputc(',', out);
			write_json_frame(out, &data.frames[s->frames[j]]);
		}
		fprintf(out, "]}");
	}
	fprintf(out, "\n]}\n");
}

/* --- the end ------------------------------------------------------------------------------ */

static double cpu_time(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void report(uint64_t lost, double seconds, double cpu)
{
	uint64_t outcomes[OUTCOMES] = {}, frames = 0, kernel = 0, bpf = 0;
	struct rusage r;
	size_t i;

	for (i = 0; i < data.frame_count; i++) {
		const struct frame *f = &data.frames[i];

		if (f->kind == KERNEL)
			kernel += f->count;
		else if (f->kind == BPF)
			bpf += f->count;
		else
			outcomes[f->outcome] += f->count;
	}
	say("%" PRIu64 " samples in %.1f s, %" PRIu64 " lost, %" PRIu64 " dropped for want of room",
	    data.samples, seconds, lost, data.dropped);
	for (i = 0; i < OUTCOMES; i++)
		frames += outcomes[i];
	say("frames: %" PRIu64 " user, %" PRIu64 " kernel, %" PRIu64 " BPF", frames, kernel, bpf);
	for (i = 0; i < OUTCOMES; i++)
		if (outcomes[i])
			say("  %5.1f %% of user frames: %s", 100.0 * outcomes[i] / frames,
			    outcome_names[i]);
	say("build IDs: %" PRIu64 " taken with the sample, %" PRIu64 " of these by a query, %"
	    PRIu64 " from /proc later", data.by_id, data.by_query, data.by_proc);
	if (data.lost_records)
		say("%" PRIu64 " records of mappings or text lost: names can be missing or wrong",
		    data.lost_records);
	if (data.texts.dropped)
		say("%" PRIu64 " ranges of BPF programs dropped for want of room",
		    data.texts.dropped);
	getrusage(RUSAGE_SELF, &r);
	say("own cost: %.1f %% of a CPU while sampling, %.2f s for the rest, %ld KiB of memory",
	    seconds > 0 ? 100 * cpu / seconds : 0, cpu_time() - cpu, r.ru_maxrss);
}

/*
 * A file is written beside its name and takes it at the end: what was there before
 * is not lost to a disk that is full. Returns NULL after saying why.
 */
static FILE *open_output(char *temp, size_t size)
{
	struct stat st;
	FILE *f;

	*temp = 0;
	if (!env.output)
		return stdout;
	if (stat(env.output, &st) || S_ISREG(st.st_mode)) {
		int fd;

		if ((size_t)snprintf(temp, size, "%s.XXXXXX", env.output) >= size) {
			say("%.40s...: the name is too long", env.output);
			return NULL;
		}
		fd = mkstemp(temp);
		f = fd < 0 ? NULL : fdopen(fd, "w");
		if (fd >= 0)
			fchmod(fd, 0644);
	} else {
		f = fopen(env.output, "w");
	}
	if (!f)
		say("%s: %s", env.output, strerror(errno));
	return f;
}

static int write_output(FILE *out, const char *temp)
{
	int rc = BPFPROV_OK;

	name_all();
	if (env.json)
		write_json(out);
	else
		write_folded(out);
	if (finish_output(out, env.output ? env.output : "standard output"))
		rc = BPFPROV_FAILED;
	if (*temp && rc == BPFPROV_OK && rename(temp, env.output)) {
		say("%s: %s", env.output, strerror(errno));
		rc = BPFPROV_FAILED;
	}
	if (*temp && rc)
		unlink(temp);
	return rc;
}

/* --- sampling -------------------------------------------------------------------------------- */

/* A path as confine takes it. Returns a descriptor, or -1 after saying why. */
static int open_cgroup(void)
{
	char path[PATH_MAX];
	struct statfs fs;
	int fd;

	fd = open(env.cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(path, sizeof(path), CGROUPFS "/%s", env.cgroup);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd >= 0 && !fstatfs(fd, &fs) && fs.f_type == CGROUP2_MAGIC)
		return fd;
	say("there is no cgroup %s", env.cgroup);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* One event per CPU: of the processor where it has one, else a timer. */
static int attach(struct bpf_program *prog, struct bpf_link **links, int cpus, bool *timer)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.freq = 1,
		.sample_freq = env.hz,
	};
	int cpu, fd, attached = 0;

	for (cpu = 0; cpu < cpus; cpu++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0 && !attached && attr.type == PERF_TYPE_HARDWARE && errno != ENODEV &&
		    !is_denied(errno)) {
			*timer = true;
			attr.type = PERF_TYPE_SOFTWARE;
			attr.config = PERF_COUNT_SW_CPU_CLOCK;
			fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		}
		if (fd < 0 && errno == ENODEV)	/* offline */
			continue;
		if (fd < 0)
			return -errno;
		links[attached] = bpf_program__attach_perf_event(prog, fd);
		if (!links[attached]) {
			int err = -errno;

			close(fd);
			return err;
		}
		attached++;
	}
	return attached;
}

static void detach(struct bpf_link **links, int cpus)
{
	int i;

	for (i = 0; i < cpus; i++) {
		bpf_link__destroy(links[i]);
		links[i] = NULL;
	}
}

static int sample(struct profile_bpf *skel, struct bpf_link **links, int cpus, double *seconds,
		  double *cpu)
{
	double start, next = 0, t;
	struct ring_buffer *rb;
	bool gone = false, tty = isatty(STDERR_FILENO);

	rb = ring_buffer__new(bpf_map__fd(skel->maps.ring), read_sample, NULL, NULL);
	if (!rb)
		return -errno;
	start = clock_ns(CLOCK_MONOTONIC) / 1e9;
	*cpu = cpu_time();
	for (;;) {
		t = clock_ns(CLOCK_MONOTONIC) / 1e9 - start;
		if (exiting() || gone || (env.seconds && t >= env.seconds))
			break;
		ring_buffer__poll(rb, 100);
		read_rings();
		ring_buffer__consume(rb);
		if (t < next)
			continue;
		next = t + 1;
		/* All samples that are older than this have been looked at. */
		texts_forget(&data.texts, data.read_at);
		gone = env.pid && kill(env.pid, 0) && errno == ESRCH;
		if (tty)
			fprintf(stderr, "\rsampling: %.0f s, %" PRIu64 " samples", t, data.samples);
	}
	if (tty)
		fprintf(stderr, "\r\033[K");
	if (gone)
		say("process %ld has ended", env.pid);
	*seconds = clock_ns(CLOCK_MONOTONIC) / 1e9 - start;
	detach(links, cpus);
	read_rings();
	ring_buffer__consume(rb);
	*cpu = cpu_time() - *cpu;
	ring_buffer__free(rb);
	return 0;
}

static int run(FILE *out, const char *temp)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.bpf_event = 1,
		.watermark = 1,
		.wakeup_watermark = 4096,
	};
	int cpus = libbpf_num_possible_cpus(), err, rc = BPFPROV_FAILED, cgroup = -1;
	struct bpf_link **links = NULL;
	struct profile_bpf *skel;
	bool timer = false;
	uint32_t zero = 0;
	size_t size;
	double seconds = 0, cpu = 0;

	data.subprog = has_feature(BPF_SUBPROG);
	attr.bpf_subprog = data.subprog;
	attr.ksymbol = !data.subprog;
	if (env.cgroup) {
		cgroup = open_cgroup();
		if (cgroup < 0)
			return BPFPROV_GONE;
	}
	skel = profile_bpf__open();
	if (!skel) {
		say("the program: %s", strerror(errno));
		goto close_cgroup;
	}
	skel->rodata->only_tgid = env.pid;
	skel->rodata->only_cgroup = cgroup >= 0;
	/* Room for 64 samples of the longest kind, or for ten times as many usual ones. */
	for (size = 1 << 20; size < (size_t)cpus * 64 * sizeof(struct sample);)
		size *= 2;
	bpf_map__set_max_entries(skel->maps.ring, size);
	skel->rodata->wakeup_bytes = size / 4;
	err = profile_bpf__load(skel);
	if (err) {
		say("loading the program: %s", strerror(-err));
		rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_KERNEL;
		goto destroy;
	}
	if (cgroup >= 0 && bpf_map_update_elem(bpf_map__fd(skel->maps.cgroup), &zero, &cgroup, 0)) {
		say("%s: %s", env.cgroup, strerror(errno));
		goto destroy;
	}

	/* Listen first, then look at what is there: nothing falls between. */
	err = rings_open(&data.rings, &attr, env.pages);
	if (err) {
		say("perf_event_open(): %s", strerror(-err));
		rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
		goto destroy;
	}
	err = ksyms_read(&data.ksyms, false);
	if (err) {
		ksyms_free(&data.ksyms);
		say("%sreduced:%s /proc/kallsyms: %s: kernel frames have no names",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), strerror(-err));
	}
	err = bpf_text_all(err ? NULL : &data.ksyms, add_text, NULL);
	if (err && err != -EINTR)
		say("listing BPF programs: %s", strerror(-err));
	add_symbols();
	scan_all();

	links = calloc(cpus > 0 ? cpus : 1, sizeof(*links));
	err = links && cpus > 0 ? attach(skel->progs.profile, links, cpus, &timer) : -ENOMEM;
	if (err <= 0) {
		say("sampling: %s", strerror(err ? -err : ENODEV));
		rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
		goto close_rings;
	}
	say("sampling %d CPUs at %ld Hz%s", err, env.hz,
	    timer ? ", by a timer: the processor has no cycle counter" : "");
	err = sample(skel, links, cpus, &seconds, &cpu);
	if (err) {
		say("the ring: %s", strerror(-err));
		goto close_rings;
	}
	/* Naming can take long: a second Ctrl-C ends it, and the first was for this. */
	rc = write_output(out, temp);
	report(skel->bss->lost, seconds, cpu);
close_rings:
	if (links)
		detach(links, cpus);
	rings_close(&data.rings);
	free(links);
destroy:
	profile_bpf__destroy(skel);
close_cgroup:
	if (cgroup >= 0)
		close(cgroup);
	return rc;
}

int cmd_profile(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	/* CAP_SYS_ADMIN: for the BPF programs of others. */
	static const int caps[] = { CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, -1 };
	char temp[PATH_MAX];
	FILE *out;
	int rc;

	parse_args(&argp, argc, argv);
	if (!have_caps(caps))
		return BPFPROV_CAP;
	if (env.pid && kill(env.pid, 0) && errno == ESRCH) {
		say("there is no process %ld", env.pid);
		return BPFPROV_GONE;
	}
	/* Before the time is spent. */
	out = open_output(temp, sizeof(temp));
	if (!out)
		return BPFPROV_FAILED;
	catch_signals();
	if (!has_feature(BUILD_ID_CACHE))
		say_reduced(BUILD_ID_CACHE, "user frames have one if the page cache has the file");
	if (!has_feature(TASK_VMA_QUERY))
		say_reduced(TASK_VMA_QUERY, "what has no build ID is looked up in /proc, later");
	if (!has_feature(BPF_SUBPROG))
		say_reduced(BPF_SUBPROG, "BPF text that comes while sampling has no ID");
	rc = run(out, temp);
	if (rc && *temp)
		unlink(temp);
	return rc;
}
