/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BUILDID_H
#define __BPF_PROVENANCE_BUILDID_H

#define MAX_SAMPLES 400

/* The top of a user stack: the instruction, and one return address. */
#define STACK_FRAMES 2

/* For a deeper stack. */
#define DEEP_FRAMES 6

/* Reads of one file, with interrupts off. */
#define MANY_READS 16

/*
 * Hooks that may sleep, but not read a file: a lock is held, it is reclaim, or storage waits.
 * SOCKET_CREATE and the next three: as called by network storage.
 */
enum locked_hook {
	SETATTR, PATH_CHMOD, PATH_CHOWN, PATH_TRUNCATE, GETATTR, GETXATTR, FREE_INODE,
	SOCKET_CREATE, SOCKET_POST_CREATE, SOCKET_SENDMSG, SOCKET_RECVMSG, MAP_CALLBACK,
	VMA_CALLBACK, ITER_TASK_VMA, LOCKED_HOOKS
};

/* The program that reads the build ID of a file at open. */
enum asks_at_open { NOBODY, MAY_NOT_SLEEP, MAY_SLEEP };

/* Events of the build ID cache seen for one inode. */
struct cache_events {
	unsigned long long parses, hits, fills, invalidations;
};

#endif
