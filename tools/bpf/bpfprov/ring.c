// SPDX-License-Identifier: GPL-2.0
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bpfprov.h"
#include "ring.h"

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
	size_t size;		/* of the records, in bytes */
};

/* Debian's kernels accept higher values than mainline's, which stop at 2. */
static bool is_restricted(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int value;
	bool high;

	if (!f)
		return false;
	high = fscanf(f, "%d", &value) == 1 && value > 2;
	fclose(f);
	return high && !have_cap(CAP_SYS_ADMIN);
}

const char *perf_open_error(int err)
{
	if (is_denied(err) && is_restricted())
		return "needs CAP_SYS_ADMIN on this kernel, or a kernel.perf_event_paranoid of at most 2";
	return strerror(err);
}

static int ring_open(struct ring *r, struct perf_event_attr *attr, int cpu, unsigned int pages)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int err;

	r->fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	/* Kernels before 6.0 refuse PERF_FORMAT_LOST. */
	if (r->fd < 0 && errno == EINVAL && attr->read_format & PERF_FORMAT_LOST) {
		attr->read_format &= ~PERF_FORMAT_LOST;
		r->fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (r->fd < 0) {
		err = -errno;
		if (err != -ENODEV)	/* offline */
			say("perf_event_open(): %s", perf_open_error(-err));
		return err;
	}
	r->size = pages * page;
	r->page = mmap(NULL, page + r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->page == MAP_FAILED) {
		err = -errno;
		say("mapping a ring of %u pages: %s%s", pages, strerror(-err), err == -EPERM ?
		    ": over the limit of locked memory: use fewer --ring-pages, or CAP_IPC_LOCK" : "");
		close(r->fd);
		return err;
	}
	return 0;
}

int rings_open(struct rings *r, struct perf_event_attr *attr, clockid_t clock,
	       unsigned int pages)
{
	int cpus = libbpf_num_possible_cpus(), cpu, err;

	memset(r, 0, sizeof(*r));
	if (cpus < 0)
		return cpus;
	attr->size = sizeof(*attr);
	attr->sample_id_all = 1;
	attr->sample_type |= RING_SAMPLE_TYPE;
	attr->read_format |= PERF_FORMAT_LOST;
	attr->use_clockid = 1;
	attr->clockid = clock;
	r->ring = calloc(cpus, sizeof(*r->ring));
	r->pollfds = calloc(cpus, sizeof(*r->pollfds));
	r->record = malloc(1 << 16);
	err = r->ring && r->pollfds && r->record ? 0 : -ENOMEM;
	for (cpu = 0; !err && cpu < cpus; cpu++) {
		err = ring_open(&r->ring[r->count], attr, cpu, pages);
		if (err == -ENODEV) {
			err = 0;
			continue;
		}
		if (err)
			break;
		r->pollfds[r->count].fd = r->ring[r->count].fd;
		r->pollfds[r->count].events = POLLIN;
		r->count++;
	}
	r->has_lost = attr->read_format & PERF_FORMAT_LOST;
	if (err)
		rings_close(r);
	return err;
}

void rings_close(struct rings *r)
{
	int i;

	for (i = 0; i < r->count; i++) {
		munmap(r->ring[i].page, sysconf(_SC_PAGESIZE) + r->ring[i].size);
		close(r->ring[i].fd);
	}
	free(r->ring);
	free(r->pollfds);
	free(r->record);
	memset(r, 0, sizeof(*r));
}

void rings_wait(const struct rings *r, int ms)
{
	poll(r->pollfds, r->count, ms);
}

uint64_t rings_lost(const struct rings *r)
{
	struct {
		uint64_t value, lost;
	} counts;
	uint64_t sum = 0;
	int i;

	if (!r->has_lost)
		return r->lost;
	for (i = 0; i < r->count; i++)
		if (read(r->ring[i].fd, &counts, sizeof(counts)) == sizeof(counts))
			sum += counts.lost;
	return sum;
}

static void ring_read(struct rings *rs, struct ring *r, ring_fn fn, void *ctx)
{
	uint8_t *data = (uint8_t *)r->page + sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = r->page->data_tail;
	struct perf_event_header *h;
	struct ring_id id;
	size_t at, first;

	while (tail < head && !(rs->stop && rs->stop())) {
		at = tail & (r->size - 1);
		/* Records are a multiple of 8 bytes long, so a header never wraps. */
		h = (struct perf_event_header *)(data + at);
		if (at + h->size > r->size) {
			first = r->size - at;
			memcpy(rs->record, data + at, first);
			memcpy(rs->record + first, data, h->size - first);
		} else {
			memcpy(rs->record, h, h->size);
		}
		h = (struct perf_event_header *)rs->record;
		if (h->size < sizeof(*h))	/* cannot happen */
			break;
		tail += h->size;
		/* The record was copied: free its room before calling @fn, which may take long. */
		__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
		memset(&id, 0, sizeof(id));
		if (h->size >= sizeof(*h) + sizeof(id))
			memcpy(&id, rs->record + h->size - sizeof(id), sizeof(id));
		if (h->type == PERF_RECORD_LOST)
			rs->lost += ((const uint64_t *)(h + 1))[1];
		fn(ctx, h, &id);
	}
}

void rings_read(struct rings *r, ring_fn fn, void *ctx)
{
	int i;

	for (i = 0; i < r->count; i++)
		ring_read(r, &r->ring[i], fn, ctx);
}
