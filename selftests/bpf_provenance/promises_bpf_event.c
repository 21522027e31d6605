// SPDX-License-Identifier: GPL-2.0
/* The records of a program with subprograms. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "promises.h"
#include "promises_bpf_event.skel.h"

static int measure_records(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.ksymbol = 1,
		.bpf_event = 1,
		.bpf_subprog = 1,
		.watermark = 1,
	};
	size_t page = sysconf(_SC_PAGESIZE), size = 64 * page;
	int fd, events = 0, symbols = 0, subprogs = 0;
	struct perf_event_mmap_page *ring;
	struct promises_bpf_event *skel;
	uint64_t at, head;
	char text[64];

	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL) {
		attr.bpf_subprog = 0;
		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (fd < 0)
		return fail("perf_event_open", errno);
	ring = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return fail("mmap a ring", errno);
	skel = promises_bpf_event__open_and_load();
	if (!skel)
		return fail("load three subprograms", errno);

	head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
	for (at = ring->data_tail; at < head; ) {
		struct perf_event_header *h = (void *)ring + page + at % size;
		uint16_t *bpf_type = (void *)(h + 1);
		/* Part of their names. libbpf loads programs of its own. */
		bool is_ours = memmem(h, h->size, "subprog", strlen("subprog"));

		symbols += h->type == PERF_RECORD_KSYMBOL && is_ours;
		if (h->type == PERF_RECORD_BPF_EVENT) {
			events += *bpf_type == PERF_BPF_EVENT_PROG_LOAD;
			subprogs += *bpf_type == PERF_BPF_EVENT_SUBPROG_LOAD && is_ours;
		}
		at += h->size;
	}
	if (!events || symbols < 3)
		return fail("no records of the load", ENODATA);
	snprintf(text, sizeof(text), "records=%d", subprogs);
	row("bpf-event", text);
	promises_bpf_event__destroy(skel);
	munmap(ring, page + size);
	close(fd);
	return 0;
}
PROMISE(3, measure_records);
