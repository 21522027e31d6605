// SPDX-License-Identifier: GPL-2.0
/* Name the frames of a profile, and write it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apart.h"
#include "bpfprov.h"
#include "frames.h"
#include "profile_out.h"

/* --- names ----------------------------------------------------------------------------- */

static uint64_t address_of(const struct frame *f)
{
	return f->where - f->is_return;
}

/* Can it be of a module? Symbols of the kernel itself do not change. */
static bool is_of_module(const struct frame *f)
{
	const struct ksym *k;

	if (f->kind != KERNEL)
		return false;
	k = ksyms_find(&data.ksyms, address_of(f));
	return !k || k->module || k->end == UINT64_MAX;
}

/*
 * A module may have been loaded or unloaded while sampling: of the symbols from before and
 * after, take the one that begins closer below @addr. If two different symbols begin at the
 * same address it is not known which one was sampled. BPF programs are in data.texts.
 */
static const struct ksym *find_ksym(uint64_t addr)
{
	const struct ksym *a = ksyms_find(&data.ksyms, addr);
	const struct ksym *b = ksyms_find(&data.late_ksyms, addr);

	if (a && b && a->addr == b->addr && strcmp(a->name, b->name))
		return NULL;
	if (!a || (b && b->addr > a->addr))
		a = b;
	return a && !a->is_bpf ? a : NULL;
}

static void name_frame(struct frame *f)
{
	const struct ksym *k;

	switch (f->kind) {
	case KERNEL:
		k = find_ksym(address_of(f));
		f->name = k ? k->name : NULL;
		f->module = k ? k->module : NULL;
		break;
	case BPF:
		f->name = data.texts.life[f->where].text.name;
		break;
	case USER:		/* by name_user() */
		break;
	case ANON:
		f->outcome = ANONYMOUS;
		break;
	case NOWHERE:
		f->outcome = NOT_MAPPED;
		break;
	case UNKNOWN:
		f->outcome = f->missing;
		break;
	case CROWDED:
		f->outcome = NO_ROOM;
		break;
	}
}

/* Documented in bpfprov.8: seconds for all names. */
#define TIME_NAMES	600

/* Frequent ones first: there are limits of time, for a file and for all of them. */
static int by_binary(const void *a, const void *b)
{
	const struct frame *x = &data.frames[*(const uint32_t *)a];
	const struct frame *y = &data.frames[*(const uint32_t *)b];
	uint64_t m = *binary_samples(x->binary), n = *binary_samples(y->binary);

	if (m != n)
		return m > n ? -1 : 1;
	if (x->binary != y->binary)
		return x->binary < y->binary ? -1 : 1;
	return x->count > y->count ? -1 : x->count < y->count;
}

/* User frames, in the order in which they are named. */
struct job {
	const uint32_t *order;
	size_t at, count;
};

struct result {
	enum outcome outcome;
	char name[MAX_NAME + 1];
};

/* The child read files of any user: do not trust it. */
static bool is_valid(const struct result *r, size_t len)
{
	return len > offsetof(struct result, name) && len <= sizeof(*r) &&
	       (unsigned int)r->outcome < OUTCOMES &&
	       !r->name[len - offsetof(struct result, name) - 1];
}

static void name_apart(int fd, void *ctx)
{
	static struct result r;
	struct job *j = ctx;
	char *name;

	for (; j->at < j->count; j->at++) {
		struct frame *f = &data.frames[j->order[j->at]];

		r.outcome = f->missing;
		name = binary_symbol(f->binary, f->where, f->is_return, &r.outcome);
		snprintf(r.name, sizeof(r.name), "%s", name ?: "");
		free(name);
		if (send(fd, &r, offsetof(struct result, name) + strlen(r.name) + 1,
			 MSG_NOSIGNAL) < 0)
			return;
		/* Another child continues with all of its memory. */
		if (binary_leaked() && j->at + 1 < j->count &&
		    data.frames[j->order[j->at + 1]].binary != f->binary)
			return;
	}
}

static void set_name(struct frame *f, const struct result *r)
{
	f->outcome = r->outcome;
	f->name = *r->name ? frames_name(r->name) : NULL;
	if (*r->name && !f->name)
		f->outcome = OVER_LIMIT;
}

/*
 * Files are read in a child process, which may be killed: then the file at hand is given up,
 * and another child continues with the next one, or with this one again if it hung in a process
 * that mapped it: not without end, as that process is avoided from then on. The limit of time is
 * for all frames of a file: each of them can take seconds if it has millions of symbols.
 */
static void name_user(const uint32_t *order, size_t count)
{
	static struct result r;
	struct job j = { .order = order, .count = count };
	bool tty = isatty(STDERR_FILENO), hasty;
	enum outcome rest = NOT_LOOKED_UP;
	struct binary *costly, *last = NULL;
	struct apart a = {
		.in_total = true,
		.end = clock_ns(CLOCK_MONOTONIC) + TIME_NAMES * NSEC_PER_SEC,
	};
	struct frame *f;
	size_t begin;
	ssize_t len;
	int err;

	binary_watch();
	while (j.at < count && !interrupted()) {
		if (clock_ns(CLOCK_MONOTONIC) >= a.end) {
			rest = OVER_LIMIT;
			break;
		}
		err = apart_start(&a, name_apart, &j);
		if (err) {
			say("a child process, to read files: %s",
			    err == -ETIMEDOUT ? "too many of them hang" : strerror(-err));
			rest = err == -ETIMEDOUT ? OVER_LIMIT : NOT_STARTED;
			break;
		}
		begin = j.at;
		/* Not reading a file in a tenth of a second is no reason to do without others. */
		hasty = apart_is_short(&a);
		len = 0;
		while (j.at < count) {
			f = &data.frames[order[j.at]];
			if (f->binary != last)
				a.spent = 0;
			last = f->binary;
			len = apart_receive(&a, &r, sizeof(r));
			if (len <= 0 || !is_valid(&r, len))
				break;
			set_name(f, &r);
			j.at++;
			if (tty && j.at % 256 == 0)
				fprintf(stderr, "\rnaming frames: %zu of %zu", j.at, count);
		}
		apart_end(&a);
		if (interrupted())
			break;
		/* It has ended after a file. */
		if (!len && j.at > begin)
			continue;
		if (len < 0 && j.at < count &&
		    binary_avoid(data.frames[order[j.at]].binary, !hasty))
			continue;
		for (costly = j.at < count ? data.frames[order[j.at]].binary : NULL;
		     j.at < count && data.frames[order[j.at]].binary == costly; j.at++)
			data.frames[order[j.at]].outcome = len < 0 ? OVER_LIMIT : FAILED;
	}
	/* The search was cut short, so "not found" would be wrong. */
	for (; j.at < count; j.at++)
		data.frames[order[j.at]].outcome = rest;
}

static void name_all(void)
{
	uint32_t *order = calloc(data.frame_count + 1, sizeof(*order));
	bool tty = isatty(STDERR_FILENO), late = false;
	size_t i, user = 0;

	interrupt_at_once();
	/* One file after the other, because only one is open at a time. */
	for (i = 0; i < data.frame_count; i++) {
		late |= is_of_module(&data.frames[i]);
		if (data.frames[i].kind != USER)
			continue;
		*binary_samples(data.frames[i].binary) += data.frames[i].count;
		data.frames[i].outcome = NOT_STARTED;
		if (order)
			order[user++] = i;
	}
	if (user)
		qsort(order, user, sizeof(*order), by_binary);
	if (late && data.ksyms.count && ksyms_read(&data.late_ksyms, false))
		ksyms_free(&data.late_ksyms);
	for (i = 0; i < data.frame_count; i++)
		name_frame(&data.frames[i]);
	name_user(order, user);
	free(order);
	if (interrupted())
		say("interrupted: frames that were not looked up yet have no names");
	if (tty)
		fprintf(stderr, "\r\033[K");
}

/* Would this end of a folded stack, before the number of samples, be another number? */
static bool is_number(const char *s)
{
	return *s && !s[strspn(s, "0123456789.")];
}

/*
 * In a folded stack, ";" and control characters are special, and so is a space before a number.
 * So are brackets in the name of a user frame: "_[k]" would make it a frame of the kernel.
 */
static void put_name(FILE *out, const char *s, bool user)
{
	enum char_type type;
	int len;

	for (; *s; s += len) {
		len = char_len(s, &type);
		if (type != CHAR_TEXT || *s == ';')
			fputc(type == CHAR_TEXT ? ':' : '?', out);
		else if (*s == ' ' && is_number(s + 1))
			fputc('_', out);
		else if (user && (*s == '[' || *s == ']'))
			fputc(*s == '[' ? '(' : ')', out);
		else
			fwrite(s, 1, len, out);
	}
}

static void put_clean(FILE *out, const char *s)
{
	put_name(out, s, false);
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
		if (f->module) {
			fprintf(out, "_[");
			put_clean(out, f->module);
			fputc(']', out);
		}
		fprintf(out, "_[k]");
		break;
	case BPF:
		t = &data.texts.life[f->where].text;
		put_clean(out, t->name);
		if (t->id && t->sub_cnt)
			fprintf(out, "[%u.%u]", t->id, t->sub_id);
		else if (t->id)
			fprintf(out, "[%u]", t->id);
		fprintf(out, "_[k]");
		break;
	case USER:
		if (f->name) {
			put_name(out, f->name, true);
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
	case CROWDED:
		fprintf(out, "[unknown]");
		break;
	}
}

static const char * const outcome_names[OUTCOMES] = {
	[SYMBOLIZED] = "symbolized",
	[NO_SYMBOL] = "no symbol",
	[UNREADABLE] = "file not readable",
	[NO_FILE] = "file not found",
	[NO_FILE_NO_ID] = "file without build ID not found",
	[NO_FILE_PENDING] = "build ID not read yet, and file not found",
	[NO_FILE_NOT_KEPT] = "build ID not kept, and file not found",
	[ANONYMOUS] = "anonymous memory",
	[NOT_MAPPED] = "not mapped: no frame pointers",
	[NO_MAPPING] = "mapping not known",
	[GIVEN_UP] = "mapping not known: given up",
	[NO_ROOM] = "file dropped: too many files",
	[OVER_LIMIT] = "file over the limits of time or memory",
	[FAILED] = "reading failed",
	[NOT_LOOKED_UP] = "not looked up: interrupted",
	[NOT_STARTED] = "not looked up: out of memory or processes",
};

/* Frames by kind, and user frames by outcome. */
struct counts {
	uint64_t user, kernel, bpf, outcomes[OUTCOMES];
};

static struct counts count_frames(void)
{
	struct counts c = {};
	size_t i;

	for (i = 0; i < data.frame_count; i++) {
		const struct frame *f = &data.frames[i];

		if (f->kind == KERNEL) {
			c.kernel += f->count;
		} else if (f->kind == BPF) {
			c.bpf += f->count;
		} else {
			c.user += f->count;
			c.outcomes[f->outcome] += f->count;
		}
	}
	return c;
}

static void write_folded(FILE *out)
{
	size_t i, j;

	for (i = 0; i < data.stack_count; i++) {
		const struct stack *s = &data.stacks[i];

		put_clean(out, *s->comm ? s->comm : "?");
		/* Root first: user frames, then kernel frames. */
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
		fprintf(out, "{\"kind\":\"bpf\",\"address\":\"0x%" PRIx64 "\"",
			t->addr + t->prefix);
		if (t->id)
			fprintf(out, ",\"id\":%u", t->id);
		if (t->id && t->sub_cnt)
			fprintf(out, ",\"sub_id\":%u", t->sub_id);
		break;
	case USER:
		fprintf(out, "{\"kind\":\"user\"");
		binary_id(f->binary, hex, sizeof(hex));
		if (*hex)
			fprintf(out, ",\"build_id\":\"%s\"", hex);
		fprintf(out, ",\"offset\":\"0x%" PRIx64 "\"", f->where);
		if (*binary_number(f->binary))
			fprintf(out, ",\"file\":%u", *binary_number(f->binary) - 1);
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
	if (f->module) {
		fprintf(out, ",\"module\":");
		json_string(out, f->module);
	}
	fprintf(out, ",\"count\":%" PRIu64 "}", f->count);
}

/* Any user chooses paths and names: a path of 4 KiB for each frame of a stack would fill a disk. */
static void write_tables(FILE *out)
{
	uint32_t files = 0;
	size_t i;

	fprintf(out, ",\n\"files\":[");
	for (i = 0; i < data.frame_count; i++) {
		struct binary *b = data.frames[i].binary;

		if (!b || !binary_where(b) || *binary_number(b))
			continue;
		fprintf(out, "%s\n", files ? "," : "");
		json_string(out, binary_where(b));
		*binary_number(b) = ++files;
	}
	fprintf(out, "\n],\n\"frame_table\":[");
	for (i = 0; i < data.frame_count; i++) {
		fprintf(out, "%s\n", i ? "," : "");
		write_json_frame(out, &data.frames[i]);
	}
	fprintf(out, "\n]");
}

static void write_json(FILE *out, long hz)
{
	struct counts c = count_frames();
	size_t i, j;

	fprintf(out, "{\"samples\":%" PRIu64 ",\"frequency\":%ld,\"lost\":%" PRIu64
		",\"dropped\":%" PRIu64, data.samples, hz, data.lost, data.dropped);
	fprintf(out, ",\n\"frames\":{\"user\":%" PRIu64 ",\"kernel\":%" PRIu64 ",\"bpf\":%" PRIu64
		"},\n\"outcomes\":{", c.user, c.kernel, c.bpf);
	for (i = 0; i < OUTCOMES; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", outcome_names[i], c.outcomes[i]);
	fputc('}', out);
	write_tables(out);
	fprintf(out, ",\n\"stacks\":[");
	for (i = 0; i < data.stack_count; i++) {
		const struct stack *s = &data.stacks[i];

		fprintf(out, "%s\n{\"comm\":", i ? "," : "");
		json_string(out, s->comm);
		/* Leaf first, as in the sample. */
		fprintf(out, ",\"count\":%" PRIu64 ",\"frames\":[", s->count);
		for (j = 0; j < s->count_frames; j++)
			fprintf(out, "%s%u", j ? "," : "", s->frames[j]);
		fprintf(out, "]}");
	}
	fprintf(out, "\n]}\n");
}

void profile_write(FILE *out, bool json, long hz)
{
	name_all();
	if (json)
		write_json(out, hz);
	else
		write_folded(out);
}

/* --- the end ------------------------------------------------------------------------------ */

void profile_report(double seconds, double cpu, double irq)
{
	struct counts c = count_frames();
	struct rusage self, children;
	size_t i;

	say("%" PRIu64 " samples in %.1f s, %" PRIu64 " lost, %" PRIu64
	    " dropped: too many stacks or frames", data.samples, seconds, data.lost, data.dropped);
	say("frames: %" PRIu64 " user, %" PRIu64 " kernel, %" PRIu64 " BPF", c.user, c.kernel,
	    c.bpf);
	for (i = 0; i < OUTCOMES; i++)
		if (c.outcomes[i])
			say("  %5.1f %% of user frames: %s", 100.0 * c.outcomes[i] / c.user,
			    outcome_names[i]);
	say("build IDs: %" PRIu64 " taken with the sample, %" PRIu64 " of these by a query, %"
	    PRIu64 " from /proc later", data.by_id, data.by_query, data.by_proc);
	if (data.given_up)
		say("%" PRIu64 " lookups in /proc took too long or failed, and were given up",
		    data.given_up);
	if (data.crowded)
		say("%" PRIu64 " processes have too many mappings: not all of their files were found",
		    data.crowded);
	if (binary_dropped())
		say("%" PRIu64 " lookups of files dropped: too many files", binary_dropped());
	if (data.lost_records)
		say("%" PRIu64 " records of mappings or text lost: names can be missing or wrong",
		    data.lost_records);
	if (data.texts.dropped)
		say("%" PRIu64 " ranges of BPF programs dropped: too many ranges",
		    data.texts.dropped);
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	say("own cost: %.1f %% of a CPU in the interrupts that took samples, %.1f %% to read them, %.2f s for the rest, %ld KiB of memory, %ld KiB in a child process",
	    seconds > 0 ? 100 * irq / seconds : 0, seconds > 0 ? 100 * cpu / seconds : 0,
	    frames_cpu_time() - cpu, self.ru_maxrss, children.ru_maxrss);
}
