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

struct bpf_program;

void row(const char *key, const char *measured);

/* Print @what and the error, and return 1. */
int fail(const char *what, int err);

/*
 * Attach @prog and send NMIs on top of a task, whose ELF header is not in the page cache,
 * until the program has counted NMIS of them in @nmis. The task's ID is in @target before.
 * Returns nonzero after fail().
 */
int run_in_nmis(const struct bpf_program *prog, pid_t *target, const unsigned long long *nmis);

#endif
