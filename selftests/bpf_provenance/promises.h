/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_PROMISES_H
#define __BPF_PROVENANCE_PROMISES_H

#include <sys/types.h>

/*
 * Each promises_*.c measures one feature: PROMISE(ORDER, FUNCTION) registers FUNCTION, which
 * prints a row or returns nonzero after fail(). Functions run in increasing ORDER.
 */
struct promise {
	int order;
	int (*measure)(void);
};

#define PROMISE(number, function)							\
	static const struct promise promise_##function = { (number), (function) };	\
	static const struct promise *const promise_ptr_##function			\
		__attribute__((used, section("promises"))) = &promise_##function

#define NMIS 20

void row(const char *key, const char *text, const char *tests, const char *measured);

/* Print @what and the error, and return 1. */
int fail(const char *what, int err);

/*
 * A task for NMIs to interrupt: this program again, run from a copy on a disk whose
 * ELF header is not in the page cache.
 */
struct interrupted {
	char dir[200], path[256];
	struct spinner *s;
	int fd;
	pid_t pid;
};

/* Start one. Returns nonzero after fail(). */
int interrupted_start(struct interrupted *t);
void interrupted_stop(struct interrupted *t);

/* Send NMIs on top of the task until NMIS of them are counted in @nmis. */
int interrupted_nmis(const struct interrupted *t, const unsigned long long *nmis);

#endif
