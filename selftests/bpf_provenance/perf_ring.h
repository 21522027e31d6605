/* SPDX-License-Identifier: GPL-2.0 */
/* A perf event for side-band records only, and its ring. */
#ifndef __BPF_PROVENANCE_PERF_RING_H
#define __BPF_PROVENANCE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_CPUS 1024

struct perf_ring {
	int fd;
	struct perf_event_mmap_page *page;
	size_t size;		/* of the data */
	uint64_t at;		/* the next record; with write_backward, 0 is the newest */
	struct perf_event_attr attr;
	uint64_t buf[8192];	/* a record that wraps */
};

/*
 * Open an event with a ring of @pages, a power of two; with 0 it writes to the
 * ring of another, after PERF_EVENT_IOC_SET_OUTPUT. Returns 0 or a negative errno.
 */
int perf_ring_open(struct perf_ring *r, const struct perf_event_attr *attr, pid_t pid, int cpu,
		   int pages);
void perf_ring_close(struct perf_ring *r);

/* The next record, valid until the next call; NULL when there is none. */
const struct perf_event_header *perf_ring_next(struct perf_ring *r);

/* Number of lost records of this event; needs PERF_FORMAT_LOST alone. */
uint64_t perf_ring_lost(struct perf_ring *r);

/* Attributes of an event that only gets records of BPF operations. */
struct perf_event_attr perf_ring_bpf_attr(void);

/* The same event on each online CPU. */
struct perf_rings {
	int nr;
	struct perf_ring *ring[MAX_CPUS];
};

int perf_rings_open(struct perf_rings *rs, const struct perf_event_attr *attr, int pages);
void perf_rings_close(struct perf_rings *rs);

#endif
