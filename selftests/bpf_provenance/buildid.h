/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BUILDID_H
#define __BPF_PROVENANCE_BUILDID_H

#define MAX_SAMPLES 400

/* The top of a user stack: the instruction, and one return address. */
#define STACK_FRAMES 2

/* Of a deeper one. */
#define DEEP_FRAMES 6

/* Of one file, with interrupts off. */
#define MANY_READS 16

/* Which program asks for the build ID of a file that is opened. */
enum asks_at_open { NOBODY, MAY_NOT_SLEEP, MAY_SLEEP };

/* What the build ID cache was seen to do for one inode. */
struct cache_events {
	unsigned long long parses, hits, fills, invalidations;
};

#endif
