/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_FUZZ_H
#define __BPF_PROVENANCE_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * The seed of a fuzzer determines its actions: FUZZ_SEED, or a new one. It runs for
 * FUZZ_SECONDS, or for a few.
 */
#define FUZZ_TIMEOUT 300	/* FUZZ_SECONDS adds to it, see test_timeout() */
/* Seconds for each kind of result to be seen once. */
#define FUZZ_PATIENCE (60 * timeout_scale())

struct fuzz {
	uint32_t seed;
	uint32_t x;
	unsigned long rounds;
	time_t end;
};

void fuzz_begin(struct fuzz *f);
bool fuzz_goes_on(struct fuzz *f);

/* A number from 0 to @n - 1. */
unsigned int fuzz_pick(struct fuzz *f, unsigned int n);

#endif
