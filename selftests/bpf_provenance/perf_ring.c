// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "perf_ring.h"

int perf_ring_open(struct perf_ring *r, const struct perf_event_attr *attr, pid_t pid, int cpu,
		   int pages)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int prot = PROT_READ | (attr->write_backward ? 0 : PROT_WRITE);
	int err;

	memset(r, 0, sizeof(*r));
	r->attr = *attr;
	r->size = pages * page;
	r->fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	if (!pages)
		return 0;
	r->page = mmap(NULL, page + r->size, prot, MAP_SHARED, r->fd, 0);
	if (r->page == MAP_FAILED) {
		err = -errno;
		close(r->fd);
		r->fd = -1;
		return err;
	}
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, sysconf(_SC_PAGESIZE) + r->size);
	if (r->fd >= 0)
		close(r->fd);
	r->page = NULL;
	r->fd = -1;
}

const struct perf_event_header *perf_ring_next(struct perf_ring *r)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t start = r->attr.write_backward ? head + r->at : r->at;
	char *data = (char *)r->page + sysconf(_SC_PAGESIZE);
	struct perf_event_header *h;
	size_t tail;

	/* The kernel may now overwrite the record returned last. */
	if (!r->attr.write_backward)
		__atomic_store_n(&r->page->data_tail, r->at, __ATOMIC_RELEASE);
	/* Backward, the head is negative, and the first record ends at 0. */
	if (start == (r->attr.write_backward ? 0 : head))
		return NULL;
	/* Records are multiples of 8, as the ring is: a header never wraps. */
	h = (void *)(data + start % r->size);
	if (h->size < sizeof(*h) || h->size % 8) {
		fprintf(stderr, "a record of %d bytes at %llx\n", h->size,
			(unsigned long long)start);
		abort();
	}
	tail = r->size - start % r->size;
	if (h->size > tail) {
		memcpy(r->buf, h, tail);
		memcpy((char *)r->buf + tail, data, h->size - tail);
		h = (void *)r->buf;
	}
	r->at += h->size;
	return h;
}

uint64_t perf_ring_lost(struct perf_ring *r)
{
	uint64_t values[2];

	if (read(r->fd, values, sizeof(values)) != sizeof(values))
		return UINT64_MAX;
	return values[1];
}

struct perf_event_attr perf_ring_bpf_attr(void)
{
	return (struct perf_event_attr) {
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.read_format = PERF_FORMAT_LOST,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.bpf_event = 1,
		/* No wakeups: nobody sleeps waiting for records. */
		.watermark = 1,
		.wakeup_watermark = 1U << 30,
	};
}

int perf_rings_open(struct perf_rings *rs, const struct perf_event_attr *attr, int pages)
{
	int cpu, err, cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct perf_ring *r;

	rs->nr = 0;
	for (cpu = 0; cpu < cpus; cpu++) {
		r = malloc(sizeof(*r));
		err = -ENOMEM;
		if (r)
			err = rs->nr < MAX_CPUS ? perf_ring_open(r, attr, -1, cpu, pages) : -E2BIG;
		if (!err) {
			rs->ring[rs->nr++] = r;
			continue;
		}
		free(r);
		/* offline */
		if (err == -ENODEV)
			continue;
		perf_rings_close(rs);
		return err;
	}
	return 0;
}

void perf_rings_close(struct perf_rings *rs)
{
	while (rs->nr) {
		rs->nr--;
		perf_ring_close(rs->ring[rs->nr]);
		free(rs->ring[rs->nr]);
	}
}
