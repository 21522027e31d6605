// SPDX-License-Identifier: GPL-2.0
/*
 * Print the ranges of BPF text as they are added and removed, for some seconds: an
 * example for Documentation/userspace-api/perf_bpf_event.rst. It needs CAP_PERFMON,
 * and the headers of a kernel with attr.bpf_subprog:
 *
 *   gcc -Wall -O2 -I/path/to/kernel/usr/include perf_bpf_event_reader.c
 *
 * One event per CPU, the rings merged by seq, and gaps in seq reported.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READER_CPUS	1024
#define READER_PAGES	64		/* of a ring, a power of two */
#define READER_LATE	50000000	/* how long a record may be late, in ns */

/* The record up to its name, as in linux/perf_event.h. */
struct reader_record {
	struct perf_event_header header;
	uint16_t type;
	uint16_t flags;
	uint32_t id;
	uint8_t tag[8];
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
};

struct reader_text {
	struct reader_record r;
	uint64_t taken;			/* from the ring, CLOCK_MONOTONIC */
	char name[512];
};

struct reader_ring {
	int fd;
	struct perf_event_mmap_page *page;
};

struct reader {
	struct reader_ring ring[READER_CPUS];
	int nr;
	struct reader_text **text;	/* taken from the rings, sorted by seq */
	struct reader_text *returned;	/* by reader_next() */
	size_t texts, room;
	uint64_t next;			/* the seq to return next; 0: any */
	uint64_t missing;		/* numbers that never came */
};

static uint64_t reader_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Insert a record, nearly always at the end. Returns 0 or -ENOMEM. */
static int reader_add(struct reader *rd, const struct perf_event_header *h)
{
	const struct reader_record *r = (const void *)h;
	struct reader_text *t, **text;
	size_t i, room;

	/* Other types have another layout, or none that is known here. */
	if (h->type != PERF_RECORD_BPF_EVENT || h->size < sizeof(*r) ||
	    (r->type != PERF_BPF_EVENT_SUBPROG_LOAD && r->type != PERF_BPF_EVENT_SUBPROG_UNLOAD &&
	     r->type != PERF_BPF_EVENT_IMAGE_ADD && r->type != PERF_BPF_EVENT_IMAGE_DEL))
		return 0;
	/* A newer kernel may have members between these and the name. */
	if (r->name_off < sizeof(*r) || r->name_off >= h->size)
		return 0;

	if (rd->texts == rd->room) {
		room = rd->room ? 2 * rd->room : 256;
		text = realloc(rd->text, room * sizeof(*text));
		if (!text)
			return -ENOMEM;
		rd->text = text;
		rd->room = room;
	}
	t = malloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	for (i = rd->texts; i && rd->text[i - 1]->r.seq > r->seq; i--)
		rd->text[i] = rd->text[i - 1];
	rd->text[i] = t;
	t->r = *r;
	t->taken = reader_now();
	snprintf(t->name, sizeof(t->name), "%.*s", (int)(h->size - r->name_off),
		 (const char *)h + r->name_off);
	rd->texts++;
	return 0;
}

/* Take all that is in one ring. After an error, the rest is still in it. */
static int reader_take_ring(struct reader *rd, struct reader_ring *ring)
{
	size_t page = sysconf(_SC_PAGESIZE), size = READER_PAGES * page, at, part;
	uint64_t tail = ring->page->data_tail, buf[8192];
	const char *data = (const char *)ring->page + page;
	const struct perf_event_header *h;
	/* Pairs with the barrier in perf_output_put_handle(). */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	int err = 0;

	while (tail < head) {
		/* Records are multiples of 8: a header does not wrap. */
		at = tail % size;
		h = (const void *)(data + at);
		part = size - at;
		if (h->size > part) {
			memcpy(buf, h, part);
			memcpy((char *)buf + part, data, h->size - part);
			h = (const void *)buf;
		}
		err = reader_add(rd, h);
		if (err)
			break;
		tail += h->size;
	}
	/* The kernel may overwrite the records that were read from here on. */
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}

/* Take all that is in the rings. Returns 0 or a negative errno. */
static int reader_take(struct reader *rd)
{
	int i, err = 0;

	for (i = 0; i < rd->nr && !err; i++)
		err = reader_take_ring(rd, &rd->ring[i]);
	return err;
}

/*
 * Take the rings for the last time. They are read one after the other, so of the records
 * that are written meanwhile only some are taken: wait for those up to the highest number
 * that is there now, and discard later ones. Returns 0 or a negative errno.
 */
static int reader_take_last(struct reader *rd)
{
	const struct timespec late = { .tv_nsec = READER_LATE };
	uint64_t highest;
	int err;

	err = reader_take(rd);
	if (err)
		return err;
	highest = rd->texts ? rd->text[rd->texts - 1]->r.seq : 0;
	nanosleep(&late, NULL);
	err = reader_take(rd);
	while (rd->texts && rd->text[rd->texts - 1]->r.seq > highest)
		free(rd->text[--rd->texts]);
	return err;
}

/*
 * The next record in the order of seq, which the caller has until the next call, or
 * NULL: there is none yet. With @last, a number that is missing is not waited for:
 * call reader_take_last() before.
 */
static const struct reader_text *reader_next(struct reader *rd, int last)
{
	struct reader_text *next = rd->texts ? rd->text[0] : NULL;

	if (!next)
		return NULL;
	/*
	 * A number that was passed over may be on its way to another ring. If it does
	 * not come, records of text that was unloaded before may be missing.
	 */
	if (rd->next && next->r.seq > rd->next) {
		if (!last && reader_now() - next->taken < READER_LATE)
			return NULL;
		rd->missing += next->r.seq - rd->next;
	}
	if (next->r.seq >= rd->next)
		rd->next = next->r.seq + 1;
	else if (rd->missing)
		rd->missing--;		/* even later than that */
	memmove(rd->text, rd->text + 1, --rd->texts * sizeof(*rd->text));
	free(rd->returned);
	rd->returned = next;
	return next;
}

/*
 * The number of records of all types that did not fit into the rings. If a record is
 * lost after the last one received, there is no gap in seq, but it is counted here.
 */
static uint64_t reader_lost(const struct reader *rd)
{
	uint64_t values[2], lost = 0;
	int i;

	for (i = 0; i < rd->nr; i++)
		if (read(rd->ring[i].fd, values, sizeof(values)) == sizeof(values))
			lost += values[1];
	return lost;
}

/* Discard the records that were taken from the rings. */
static void reader_forget(struct reader *rd)
{
	while (rd->texts)
		free(rd->text[--rd->texts]);
}

static void reader_close(struct reader *rd)
{
	reader_forget(rd);
	free(rd->returned);
	rd->returned = NULL;
	while (rd->nr) {
		rd->nr--;
		munmap(rd->ring[rd->nr].page, (1 + READER_PAGES) * sysconf(_SC_PAGESIZE));
		close(rd->ring[rd->nr].fd);
	}
	free(rd->text);
	rd->text = NULL;
}

/* Returns 0 or a negative errno; -EINVAL where the kernel has no such records. */
static int reader_open(struct reader *rd)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.read_format = PERF_FORMAT_LOST,
		.bpf_event = 1,
		.bpf_subprog = 1,
		.watermark = 1,
		.wakeup_watermark = READER_PAGES * 1024,
	};
	int cpu, err, cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t page = sysconf(_SC_PAGESIZE);
	struct reader_ring *ring;

	memset(rd, 0, sizeof(*rd));
	for (cpu = 0; cpu < cpus && cpu < READER_CPUS; cpu++) {
		ring = &rd->ring[rd->nr];
		ring->fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (ring->fd < 0 && errno == ENODEV)
			continue;	/* offline */
		if (ring->fd < 0) {
			err = -errno;
			goto err;
		}
		ring->page = mmap(NULL, (1 + READER_PAGES) * page, PROT_READ | PROT_WRITE,
				  MAP_SHARED, ring->fd, 0);
		if (ring->page == MAP_FAILED) {
			err = -errno;
			close(ring->fd);
			goto err;
		}
		rd->nr++;
	}
	/*
	 * Up to here some CPUs had no ring. Discard the records of the others: the
	 * caller enumerates the programs that are loaded now.
	 */
	err = reader_take(rd);
	if (err)
		goto err;
	reader_forget(rd);
	return 0;
err:
	reader_close(rd);
	return err;
}

#ifndef READER_NO_MAIN
int main(int argc, char **argv)
{
	uint64_t missing = 0, end = reader_now() + (argc > 1 ? atoi(argv[1]) : 10) * 1000000000ULL;
	const struct timespec pause = { .tv_nsec = 10000000 };
	const struct reader_text *t;
	static struct reader rd;
	int err, last = 0;

	err = reader_open(&rd);
	while (!err && !last) {
		last = reader_now() >= end;
		err = last ? reader_take_last(&rd) : reader_take(&rd);
		while ((t = reader_next(&rd, last))) {
			if (rd.missing > missing)
				printf("%llu missing\n",
				       (unsigned long long)(rd.missing - missing));
			missing = rd.missing;
			printf("%llu type %u id %u/%u %llx+%x %s\n", (unsigned long long)t->r.seq,
			       t->r.type, t->r.id, t->r.sub_id, (unsigned long long)t->r.addr,
			       t->r.len, t->name);
		}
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
	if (err) {
		fprintf(stderr, "%s\n", strerror(-err));
		return 1;
	}
	printf("%llu of all types lost\n", (unsigned long long)reader_lost(&rd));
	reader_close(&rd);
	return 0;
}
#endif
