/* SPDX-License-Identifier: GPL-2.0 */
/* One perf event with a ring on each CPU. */
#ifndef __BPFPROV_RING_H
#define __BPFPROV_RING_H

#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct rings {
	int count;
	struct ring *ring;
	struct pollfd *pollfds;
	uint8_t *record;	/* room for the longest one */
	bool has_lost;		/* the kernel has PERF_FORMAT_LOST */
	uint64_t lost;		/* of each PERF_RECORD_LOST that was read */
	bool (*stop)(void);	/* rings_read() asks it before each record; NULL: read all */
};

/* Appended to each record by attr.sample_id_all with RING_SAMPLE_TYPE. */
#define RING_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
struct ring_id {
	uint32_t pid, tid;
	uint64_t time;		/* of the clock that rings_open() was given, ns */
	uint32_t cpu, res;
};

/*
 * Open @attr, with sample_id_all and @clock set, on each online CPU, with a ring of @pages
 * pages, a power of two. Returns 0, or a negative errno after printing the reason; then
 * nothing is open.
 */
int rings_open(struct rings *r, struct perf_event_attr *attr, clockid_t clock,
	       unsigned int pages);
void rings_close(struct rings *r);

/* The reason of perf_event_open(), which failed with errno @err, for a message. */
const char *perf_open_error(int err);

/* Wait @ms milliseconds for records, or until a signal. */
void rings_wait(const struct rings *r, int ms);

typedef void (*ring_fn)(void *ctx, const struct perf_event_header *h, const struct ring_id *id);

/*
 * The number of records that did not fit into the rings. PERF_RECORD_LOST reports them with
 * the next record that fits, which may never be written: before Linux 6.0, only those that
 * rings_read() has found there are counted.
 */
uint64_t rings_lost(const struct rings *r);

/* Call @fn for each record in the rings, until @r->stop() returns true: the others stay there. */
void rings_read(struct rings *r, ring_fn fn, void *ctx);

#endif
