/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read files of other users in a child process. A read may never end, as from a FUSE server
 * that does not answer, or take any amount of memory. Then the child is killed, and the
 * results that it has sent so far are kept.
 */
#ifndef __BPFPROV_APART_H
#define __BPFPROV_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define APART_ABANDONED	16	/* documented in bpfprov.8 */

struct apart {
	pid_t pid;		/* 0: none */
	int fd;
	long vain;		/* ms of waits in vain, for earlier children too */
	uint64_t waited;	/* ns of all waits, likewise */
	bool in_total;		/* the limit is for all messages since @spent was 0 */
	uint64_t spent;		/* ns: waiting for them */
	uint64_t end;		/* of all waits, CLOCK_MONOTONIC, ns; 0: none */
	pid_t abandoned[APART_ABANDONED];	/* killed, and not ended yet; 0: free */
};

/*
 * Run @fn in a child. It has no other descriptor than @fd, and sends and receives messages
 * there. Returns 0 or a negative errno; -ETIMEDOUT if too many were abandoned.
 */
int apart_start(struct apart *a, void (*fn)(int fd, void *ctx), void *ctx);

/*
 * Wait for a message. Returns its length; 0 if the child has ended; or -1 if there was no message
 * for too long, or the user interrupts.
 */
ssize_t apart_receive(struct apart *a, void *buf, size_t size);

/* Was that in vain for so long that the limit is short now? */
bool apart_is_short(const struct apart *a);

/* ms: the limit. */
long apart_limit(const struct apart *a);

/* Kill it, if it runs. One that waits uninterruptibly is abandoned. */
void apart_end(struct apart *a);

/* CPU seconds of the child that runs. Those of others are in RUSAGE_CHILDREN. */
double apart_cpu_time(const struct apart *a);

/*
 * In the child, while it waits for something that the user can interrupt: it needs more time.
 * With @waits, the limit is not short until the next message.
 */
void apart_alive(bool waits);

/*
 * In the child: allow the memory to map @fd, and with @more the previous file as well. False:
 * the file is too large.
 */
bool apart_allow(int fd, bool more);

/*
 * Likewise, after it was mapped: its owner may have truncated it before that, so that the memory
 * is not needed for it.
 */
void apart_mapped(void);

#endif
