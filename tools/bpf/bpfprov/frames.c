// SPDX-License-Identifier: GPL-2.0
/* Map the addresses of a sample to files and BPF programs. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apart.h"
#include "bpfprov.h"
#include "bpftext.h"
#include "frames.h"
#include "frames.skel.h"

/* Bounds the memory: samples beyond it are counted as dropped. */
#define MAX_STACKS	131072
#define MAX_UNIQUE	1048576
/* Bytes of the names of user frames. */
#define MAX_NAMES	(64 << 20)
/*
 * Limit of mappings of a process to search for files; and a lower one, after as many of all
 * processes were searched.
 */
#define MAX_MAPPINGS	4096
#define FEW_MAPPINGS	256
#define ALL_MAPPINGS	1048576
/* Seconds: to search processes before sampling, and to look samples up after it. */
#define TIME_SCAN	60
#define TIME_LATE	10
/* Processes that are remembered, because they were given up, or a search was in vain. */
#define MAX_PROCESSES	256

#define FRAME_KEY offsetof(struct frame, count)

struct profile data;

/* --- interning ------------------------------------------------------------------ */

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

static uint64_t frame_hash(uint32_t i)
{
	return hash_bytes(&data.frames[i], FRAME_KEY, 0);
}

static uint64_t stack_hash(uint32_t i)
{
	const struct stack *s = &data.stacks[i];

	return hash_bytes(s->frames, s->count_frames * sizeof(*s->frames),
		       hash_bytes(s->comm, COMM_SIZE, 0));
}

/* Make room for one more element. */
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

/* The index of @f, or -1 if there is no room. */
static int64_t frame_index(const struct frame *f)
{
	struct table *t = &data.frame_table;
	size_t at;

	if (t->used * 2 >= t->size && !table_grow(t, frame_hash))
		return -1;
	for (at = hash_bytes(f, FRAME_KEY, 0) & (t->size - 1); t->slots[at];
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

/* Count a stack. False: there is no room. */
static bool count_stack(const char *comm, const uint32_t *frames, uint32_t kernel, uint32_t count)
{
	struct table *t = &data.stack_table;
	struct stack *s;
	size_t at;

	if (t->used * 2 >= t->size && !table_grow(t, stack_hash))
		return false;
	at = hash_bytes(frames, count * sizeof(*frames), hash_bytes(comm, COMM_SIZE, 0));
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

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *frames_name(const char *name)
{
	char **known = tfind(name, &data.names, by_name), *copy;
	size_t size = strlen(name) + 1;

	if (known)
		return *known;
	if (data.name_bytes + size > MAX_NAMES)
		return NULL;
	copy = strdup(name);
	if (!copy || !tsearch(copy, &data.names, by_name)) {
		free(copy);
		return NULL;
	}
	data.name_bytes += size;
	return copy;
}

/* --- lookups in a child process ---------------------------------------------------- */

/*
 * The kernel reads a file for its build ID in PROCMAP_QUERY, and a FUSE server may not answer.
 * A process for which that takes too long is given up.
 */
struct request {
	int pid;
	uint32_t serial;	/* of a walk through the mappings of a process; 0: a file */
	uint64_t addr, end;
	enum which which;
	struct file_key key;
	char path[PATH_MAX + sizeof(" (deleted)")];
};

struct reply {
	int err;
	struct mapping v;
};

struct processes {
	struct {
		int pid;	/* 0: free */
		int pidfd;	/* -1: it had ended by then, or there is none */
	} list[MAX_PROCESSES];
	size_t next;		/* the oldest of these, or a free one */
};

static struct {
	struct apart apart;
	uint32_t serial;
	struct processes given_up, in_vain;
	uint64_t searched;	/* mappings of all processes */
} lookups;

/* The build ID of the file that is mapped there, or of that at the path if it is the same. */
static size_t find_id(const struct request *q, uint8_t *id)
{
	size_t len = mapped_build_id(q->pid, q->addr, q->end, &q->key, id);

	if (!len)
		len = file_build_id(q->pid, q->path, &q->key, id);
	return len || !is_path_here(q->pid) ? len : file_build_id(0, q->path, &q->key, id);
}

static void serve(int fd, void *ctx)
{
	static struct request q;
	static struct reply r;
	struct maps m = { .fd = -1 };
	uint32_t serial = 0;

	while (recv(fd, &q, sizeof(q), 0) == sizeof(q)) {
		r.err = 0;
		if (!q.serial) {
			r.v.build_id_len = find_id(&q, r.v.build_id);
		} else {
			if (q.serial != serial) {
				if (serial)
					maps_close(&m);
				r.err = maps_open(&m, q.pid, false);
				/* The process has ended. -ENOENT: nothing is mapped there. */
				if (r.err == -ENOENT)
					r.err = -ESRCH;
				serial = r.err ? 0 : q.serial;
			}
			if (!r.err)
				r.err = maps_find(&m, q.addr, q.which, &r.v);
		}
		if (send(fd, &r, sizeof(r), MSG_NOSIGNAL) < 0)
			return;
	}
}

/*
 * Is @pid one of these, and not a later process with the same PID? The start time in /proc shows
 * that, too, but a read of it may never return: only a child may read it.
 */
static bool is_among(const struct processes *p, int pid)
{
	size_t i;

	for (i = 0; i < MAX_PROCESSES; i++) {
		if (!pid || p->list[i].pid != pid)
			continue;
		if ((p->list[i].pidfd >= 0 && !has_ended(p->list[i].pidfd)) || process_ended(pid))
			return true;
	}
	return false;
}

static void forget(struct processes *p, size_t i)
{
	if (p->list[i].pid && p->list[i].pidfd >= 0)
		close(p->list[i].pidfd);
	p->list[i].pid = 0;
}

static void remember(struct processes *p, int pid)
{
	forget(p, p->next);
	p->list[p->next].pid = pid;
	p->list[p->next].pidfd = syscall(SYS_pidfd_open, pid, 0);
	p->next = (p->next + 1) % MAX_PROCESSES;
}

static void give_up(int pid)
{
	remember(&lookups.given_up, pid);
	data.given_up++;
}

/* Is it time to end sampling? The first signal ends it. */
static bool is_over(void)
{
	uint64_t time = clock_ns(CLOCK_MONOTONIC);

	if (exiting() && (!data.end || time < data.end))
		data.end = time;
	return data.end && time >= data.end;
}

/* Is it over for so long that no lookup is begun, and no record read, any more? */
static bool is_late(void)
{
	return is_over() && clock_ns(CLOCK_MONOTONIC) >= data.end + TIME_LATE * NSEC_PER_SEC;
}

static bool is_valid(const struct reply *r)
{
	return r->err <= 0 && mapping_is_valid(&r->v);
}

/* Returns 0 if there is a reply; -EINTR, -ETIMEDOUT if it was given up, or another -errno. */
static int look_up(struct request *q, struct reply *r)
{
	int err;

	if (interrupted())
		return -EINTR;
	/* After the end, look samples up as well, but do not wait again and again. */
	if ((is_over() && apart_is_short(&lookups.apart)) || is_late())
		return -ETIMEDOUT;
	if (is_among(&lookups.given_up, q->pid))
		return -ETIMEDOUT;
	err = lookups.apart.pid ? 0 : apart_start(&lookups.apart, serve, NULL);
	if (err == -ETIMEDOUT)
		data.given_up++;
	if (err)
		return err;
	if (send(lookups.apart.fd, q, sizeof(*q), MSG_NOSIGNAL) == sizeof(*q) &&
	    apart_receive(&lookups.apart, r, sizeof(*r)) == sizeof(*r) && is_valid(r))
		return 0;
	apart_end(&lookups.apart);
	if (interrupted())
		return -EINTR;
	give_up(q->pid);
	return -ETIMEDOUT;
}

/* A walk: a child opens the maps of the process once. */
struct walk {
	int pid;
	uint32_t serial;
	uint64_t end;	/* CLOCK_MONOTONIC, ns: then the process is given up; 0: not begun */
	int err;	/* there was no reply, and this is why */
	bool in_vain;	/* do not search it for files */
};

/* Likewise, the lookups of the mmap records that are read at a time. */
static struct walk records;

static struct walk walk_of(int pid)
{
	return (struct walk){ .pid = pid, .serial = ++lookups.serial ?: ++lookups.serial };
}

/* Each reply can be in time, and all of them together take hours: is the time for them over? */
static bool is_spent(struct walk *w)
{
	uint64_t time = clock_ns(CLOCK_MONOTONIC);

	if (!w->end)
		w->end = time + apart_limit(&lookups.apart) * NSEC_PER_MSEC;
	if (time < w->end)
		return false;
	w->err = -ETIMEDOUT;
	lookups.apart.vain += apart_limit(&lookups.apart);
	return true;
}

static int walk_find(struct walk *w, uint64_t addr, enum which which, struct mapping *v)
{
	static struct request q;
	static struct reply r;

	if (w->err)
		return w->err;
	if (is_spent(w)) {
		give_up(w->pid);
		return w->err;
	}
	q.pid = w->pid;
	q.serial = w->serial;
	q.addr = addr;
	q.which = which;
	w->err = look_up(&q, &r);
	if (w->err)
		return w->err;
	if (!r.err)
		*v = r.v;
	return r.err;
}

static uint64_t max_mappings(void)
{
	return lookups.searched < ALL_MAPPINGS ? MAX_MAPPINGS : FEW_MAPPINGS;
}

/* --- mappings and BPF text -------------------------------------------------------- */

/* Loaded before sampling began. */
static void add_text(void *ctx, const struct bpf_text *t)
{
	if (t->addr)
		texts_begin(&data.texts, t, 0);
}

/* The length of the image with this symbol; 0: not known. */
static uint32_t image_len(struct frames_bpf *skel, const struct ksym *s)
{
	/* At its start, the kernel can find the image before: it includes the end of an image. */
	struct symbol_request r = { .addr = s->addr + 1 };
	struct bpf_test_run_opts opts = {
		.sz = sizeof(opts),
		.ctx_in = &r,
		.ctx_size_in = sizeof(r),
	};
	size_t len = strlen(s->name);
	unsigned int size;

	if (!skel || bpf_prog_test_run_opts(bpf_program__fd(skel->progs.find_symbol), &opts) ||
	    strncmp(r.text, s->name, len) || sscanf(r.text + len, "+0x1/0x%x", &size) != 1)
		return 0;
	return size;
}

/*
 * Text that bpf_prog_info does not list: images, and callbacks that the kernel adds. Other text can
 * follow that has no symbol, of classic filters. So, if the kernel does not have the program, the
 * end of an image is a guess.
 */
static void add_symbols(void)
{
	struct frames_bpf *skel = data.ksyms.count ? frames_bpf__open_and_load() : NULL;
	uint64_t time = clock_ns(CLOCK_MONOTONIC);
	const struct ksym *s;
	struct bpf_text t;

	for (s = data.ksyms.sym; s < data.ksyms.sym + data.ksyms.count; s++) {
		if (!s->is_bpf || texts_find(&data.texts, s->addr, time) >= 0)
			continue;
		t = (struct bpf_text){ .addr = s->addr, .len = image_len(skel, s) };
		if (!t.len) {
			t.len_is_guess = true;
			t.len = sysconf(_SC_PAGESIZE);
			if (s->end - s->addr < t.len)
				t.len = s->end - s->addr;
		}
		snprintf(t.name, sizeof(t.name), "%s", s->name);
		if (t.len)
			add_text(NULL, &t);
	}
	frames_bpf__destroy(skel);
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
static bool add_path(const uint8_t *id, size_t len, const char *path, int pid,
		     const struct file_key *key)
{
	struct binary *b;
	bool is_new;

	/* [vdso] etc., //anon, memfds. */
	if (*path != '/' || path[1] == '/')
		return false;
	b = binary_get(id, len);
	if (!b)
		return false;
	is_new = !binary_where(b);
	binary_path(b, path, pid, key);
	return is_new;
}

static void read_mmap2(const struct perf_event_header *h)
{
	const struct mmap2_record *r = (const void *)h;
	static struct request q;
	static struct reply found;
	struct file_key key;
	int pid;

	if (h->size <= sizeof(*r) + sizeof(struct ring_id))
		return;
	/* 0: it is in another PID namespace. */
	pid = r->pid ? (int)r->pid : -1;
	/* Another process may have mapped a file with the build ID of this one's program. */
	if (data.pid && pid != data.pid)
		return;
	if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		if (r->build_id_len && r->build_id_len <= BUILD_ID_MAX)
			add_path(r->build_id, r->build_id_len, r->filename, pid, NULL);
		return;
	}
	key = (struct file_key){
		.ino = r->ino,
		.dev_major = r->major,
		.dev_minor = r->minor,
		.generation = r->generation,
	};
	/*
	 * No build ID, or the kernel could not read it in the context of mmap(). A later
	 * sample may have it.
	 */
	if (!r->ino || !add_path((const uint8_t *)&key, 0, r->filename, pid, &key))
		return;
	if (records.err || is_spent(&records)) {
		data.given_up++;
		return;
	}
	q.pid = pid;
	q.addr = r->addr;
	q.end = r->addr + r->len;
	q.key = key;
	snprintf(q.path, sizeof(q.path), "%s", r->filename);
	if (!look_up(&q, &found) && found.v.build_id_len)
		add_path(found.v.build_id, found.v.build_id_len, r->filename, pid, &key);
}

static void read_record(void *ctx, const struct perf_event_header *h, const struct ring_id *id)
{
	const struct subprog_record *b = (const void *)h;
	const struct ksymbol_record *k = (const void *)h;
	struct bpf_text t;
	bool begins;

	switch (h->type) {
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
	t.addr -= t.prefix;
	t.len += t.prefix;
	if (begins)
		texts_begin(&data.texts, &t, id->time);
	else
		texts_end(&data.texts, &t, id->time);
}

static bool must_stop(void)
{
	return interrupted() || is_late();
}

void frames_read_records(void)
{
	data.read_at = clock_ns(CLOCK_MONOTONIC);
	data.rings.stop = must_stop;
	records = (struct walk){};
	rings_read(&data.rings, read_record, NULL);
}

static void count_record(void *ctx, const struct perf_event_header *h, const struct ring_id *id)
{
	data.lost_records += (h->type == PERF_RECORD_MMAP2 || h->type == PERF_RECORD_BPF_EVENT ||
			      h->type == PERF_RECORD_KSYMBOL) && id->time < data.end;
}

void frames_count_lost(void)
{
	data.rings.stop = NULL;
	rings_read(&data.rings, count_record, NULL);
	data.lost_records += rings_lost(&data.rings);
}

static struct file_key key_of(const struct mapping *v)
{
	return (struct file_key){
		.ino = v->inode,
		.dev_major = v->dev_major,
		.dev_minor = v->dev_minor,
	};
}

/* By inode too: a sample has only that if the build ID is missing or was not read yet. */
static void add_mapping(const struct mapping *v, int pid)
{
	struct file_key key = key_of(v);

	if (v->inode)
		add_path((const uint8_t *)&key, 0, v->path, pid, &key);
	if (v->build_id_len)
		add_path(v->build_id, v->build_id_len, v->path, pid, v->inode ? &key : NULL);
}

static void scan_process(int pid)
{
	static struct mapping v;
	uint64_t addr = 0, i, max = max_mappings();
	struct walk w = walk_of(pid);

	for (i = 0; !exiting() && !walk_find(&w, addr, MAP_NEXT_CODE, &v); i++) {
		lookups.searched++;
		if (i == max) {
			data.crowded++;
			break;
		}
		addr = v.end;
		add_mapping(&v, pid);
	}
}

/*
 * Files of running processes have no further mmap records. Each search can be in time, and all of
 * them together take days.
 */
void frames_scan(int pid)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + TIME_SCAN * NSEC_PER_SEC;
	struct dirent *e;
	DIR *d;
	int err = 0;

	if (have_cap(CAP_SYS_ADMIN))
		err = bpf_text_all(data.ksyms.count ? &data.ksyms : NULL, add_text, NULL);
	if (err && err != -EINTR)
		say("listing BPF programs: %s", strerror(-err));
	add_symbols();
	if (pid) {
		scan_process(pid);
		return;
	}
	d = opendir("/proc");
	while (d && (e = readdir(d)) && !exiting()) {
		if (*e->d_name < '1' || *e->d_name > '9')
			continue;
		if (clock_ns(CLOCK_MONOTONIC) < end)
			scan_process(atoi(e->d_name));
		else
			data.given_up++;
	}
	if (d)
		closedir(d);
}

/* --- samples -------------------------------------------------------------------------- */

/* The outcome of a walk without a reply. */
static enum outcome outcome_of(const struct walk *w)
{
	return w->err == -EINTR ? NOT_LOOKED_UP : w->err == -ETIMEDOUT ? GIVEN_UP : NOT_STARTED;
}

/*
 * Without bpf_task_vma_query(): look the address up in /proc. The process may have ended
 * by now, or have mapped another file there.
 */
static void ask_proc(struct walk *w, int pid, uint64_t ip, struct frame *f)
{
	static struct mapping v;
	struct file_key key;
	int err;

	if (!pid)
		return;
	err = walk_find(w, ip, MAP_AT, &v);
	if (err == -ENOENT)
		f->kind = NOWHERE;
	else if (w->err)
		f->missing = outcome_of(w);
	if (err)
		return;
	if (!v.inode) {
		f->kind = ANON;
		return;
	}
	key = key_of(&v);
	f->missing = v.build_id_len ? NO_FILE : NO_FILE_NO_ID;
	f->binary = v.build_id_len ? binary_get(v.build_id, v.build_id_len) :
				     binary_get((const uint8_t *)&key, 0);
	if (!f->binary) {
		f->kind = CROWDED;
		return;
	}
	data.by_proc += !!v.build_id_len;
	add_mapping(&v, pid);
	f->kind = USER;
	f->where = ip - v.start + v.offset;
}

/* The kernel had no build ID in the interrupt. Take that of /proc if it is the same file. */
static void ask_later(struct walk *w, int pid, const struct bpf_stack_build_id *u,
		      struct frame *f)
{
	static struct mapping v;
	struct file_key key;
	uint64_t i, addr = 0, max = max_mappings();
	struct binary *b = f->binary;

	if (!w->in_vain)
		w->in_vain = !pid || is_among(&lookups.in_vain, pid);
	if (w->in_vain)
		return;
	memcpy(&key, u->build_id, sizeof(key));
	for (i = 0; i < max && !walk_find(w, addr, MAP_NEXT, &v); i++) {
		lookups.searched++;
		addr = v.end;
		if (v.inode != key.ino || v.dev_major != key.dev_major ||
		    v.dev_minor != key.dev_minor)
			continue;
		add_path(u->build_id, 0, v.path, pid, &key);
		if (v.build_id_len) {
			add_path(v.build_id, v.build_id_len, v.path, pid, &key);
			f->binary = binary_get(v.build_id, v.build_id_len) ?: f->binary;
			f->missing = NO_FILE;
			data.by_proc++;
		}
		break;
	}
	if (w->err) {
		f->missing = outcome_of(w);
		return;
	}
	/* Not found, or the path is longer than PATH_MAX. */
	if (!binary_where(b)) {
		w->in_vain = true;
		remember(&lookups.in_vain, pid);
	}
}

static struct frame user_frame(const struct sample *s, uint32_t i, struct walk *w)
{
	const struct bpf_stack_build_id *u = &s->user[i];
	struct frame f;

	memset(&f, 0, sizeof(f));	/* the padding is compared */
	f.kind = UNKNOWN;
	f.missing = NO_MAPPING;
	f.is_return = i > 0;
	switch (u->status) {
	case BPF_STACK_BUILD_ID_VALID:
		/* Older kernels use the next mapping if there is none. */
		if ((int64_t)u->offset < 0) {
			f.kind = NOWHERE;
			break;
		}
		f.binary = binary_get(u->build_id, BUILD_ID_MAX);
		f.missing = NO_FILE;
		f.where = u->offset;
		f.kind = f.binary ? USER : CROWDED;
		break;
	case FRAME_FILE:
	case FRAME_PENDING:
	case FRAME_NOT_KEPT:
		f.binary = binary_get(u->build_id, 0);
		f.missing = u->status == FRAME_FILE ? NO_FILE_NO_ID :
			    u->status == FRAME_PENDING ? NO_FILE_PENDING : NO_FILE_NOT_KEPT;
		f.where = u->offset;
		f.kind = f.binary ? USER : CROWDED;
		if (f.binary && !binary_where(f.binary) && u->status != FRAME_FILE)
			ask_later(w, s->pid, u, &f);
		break;
	case FRAME_ANON:
		f.kind = ANON;
		break;
	case FRAME_NOWHERE:
		f.kind = NOWHERE;
		break;
	case BPF_STACK_BUILD_ID_IP:
		ask_proc(w, s->pid, u->ip, &f);
		break;
	}
	if (f.kind != USER) {
		f.is_return = 0;
		f.where = 0;
		f.binary = NULL;
		if (f.kind != UNKNOWN)
			f.missing = 0;
	}
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

int frames_add_sample(void *ctx, void *sample, size_t size)
{
	const struct sample *s = sample;
	uint32_t frames[2 * MAX_FRAMES], count = 0, kernel, i, n, ids = 0;
	uint64_t by_proc = data.by_proc;
	char comm[COMM_SIZE] = {};
	struct walk w = walk_of(s->pid);
	struct frame f;
	int64_t index;

	data.samples++;
	/* The records that describe its addresses were written before it. */
	if (s->time >= data.read_at)
		frames_read_records();
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
		f = user_frame(s, i, &w);
		if (s->user[i].status == BPF_STACK_BUILD_ID_VALID && f.kind == USER)
			ids++;
		index = frame_index(&f);
		if (index < 0)
			goto dropped;
		frames[count++] = index;
	}
	snprintf(comm, sizeof(comm), "%s", s->comm);
	if (!count_stack(comm, frames, kernel, count))
		goto dropped;
	for (i = 0; i < count; i++)
		data.frames[frames[i]].count++;
	data.by_id += ids;
	data.by_query += s->queried < ids ? s->queried : ids;
	goto out;
dropped:
	/* Its frames are not counted. */
	data.by_proc = by_proc;
	data.dropped++;
out:
	return data.sampling && is_over() ? -EINTR : 0;
}

void frames_end(void)
{
	size_t i;

	apart_end(&lookups.apart);
	for (i = 0; i < MAX_PROCESSES; i++) {
		forget(&lookups.given_up, i);
		forget(&lookups.in_vain, i);
	}
}

static double seconds_of(int who)
{
	struct rusage r;

	getrusage(who, &r);
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

double frames_cpu_time(void)
{
	return seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN) +
	       apart_cpu_time(&lookups.apart);
}

void frames_free(void)
{
	size_t i;

	frames_end();
	for (i = 0; i < data.stack_count; i++)
		free(data.stacks[i].frames);
	tdestroy(data.names, free);
	free(data.stacks);
	free(data.stack_table.slots);
	free(data.frames);
	free(data.frame_table.slots);
	texts_free(&data.texts);
	ksyms_free(&data.ksyms);
	ksyms_free(&data.late_ksyms);
	binary_free_all();
}
