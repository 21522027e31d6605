/* SPDX-License-Identifier: GPL-2.0 */
/* The data of "bpfprov profile": unique frames, and unique stacks of them. */
#ifndef __BPFPROV_FRAMES_H
#define __BPFPROV_FRAMES_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ksyms.h"
#include "profile.h"
#include "ring.h"
#include "symbols.h"
#include "texts.h"

/* A growing open hash table of indices, to find equal entries. */
struct table {
	uint32_t *slots;	/* index + 1; 0: free */
	size_t size, used;
};

enum kind { KERNEL, BPF, USER, ANON, NOWHERE, UNKNOWN, CROWDED };

struct frame {
	enum kind kind;
	uint32_t is_return;
	uint64_t where;		/* address, file offset, or index of a text */
	struct binary *binary;
	uint64_t missing;	/* the outcome if the binary is not found, or if it is UNKNOWN */
	/* Not compared. */
	uint64_t count;
	const char *name;
	const char *module;
	enum outcome outcome;
};

struct stack {
	char comm[COMM_SIZE];
	uint32_t kernel, count_frames;
	uint64_t count;
	uint32_t *frames;	/* leaf first, kernel before user */
};

struct profile {
	struct frame *frames;
	size_t frame_count, frame_room;
	struct table frame_table;
	struct stack *stacks;
	size_t stack_count, stack_room;
	struct table stack_table;
	void *names;			/* of user frames: a tree of tsearch() */
	size_t name_bytes;
	struct texts texts;
	struct rings rings;
	uint64_t read_at;		/* when @rings were last read, CLOCK_MONOTONIC, ns */
	uint64_t samples, lost, dropped, lost_records;
	uint64_t by_id, by_query, by_proc;
	uint64_t given_up;		/* lookups in /proc that took too long, or failed */
	uint64_t crowded;		/* processes with more mappings than were searched */
	uint64_t end;			/* of sampling, CLOCK_MONOTONIC, ns; 0: the user ends it */
	bool sampling;
	int pid;			/* of -p: only its mappings name frames; 0: those of all */
	struct ksyms ksyms, late_ksyms;	/* from before and after sampling; late: for modules */
	bool subprog;
};

extern struct profile data;

/* Before sampling: find loaded BPF programs, and the files of @pid, or of all processes. */
void frames_scan(int pid);

/*
 * Read the records in the rings. It leaves those that it does not reach in ten seconds after the
 * end of sampling, or after a second signal.
 */
void frames_read_records(void);

/* At the end: count the records that did not fit into the rings, and those that were left. */
void frames_count_lost(void);

/*
 * Take a struct sample, for ring_buffer__new(). Returns -EINTR while sampling if the user
 * interrupts or the time is over. That sample was taken.
 */
int frames_add_sample(void *ctx, void *sample, size_t size);

/* The one copy of this name; NULL: there is no room. */
const char *frames_name(const char *name);

/* No more samples. */
void frames_end(void);

/* CPU seconds of this process and of its children so far, without those abandoned. */
double frames_cpu_time(void);

void frames_free(void);

#endif
