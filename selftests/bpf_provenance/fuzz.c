// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <unistd.h>

#include "fuzz.h"

void fuzz_begin(struct fuzz *f)
{
	const char *seed = getenv("FUZZ_SEED"), *seconds = getenv("FUZZ_SECONDS");

	f->seed = seed ? strtoul(seed, NULL, 0) :
			 (unsigned long)time(NULL) ^ (unsigned long)getpid() << 16;
	/* xorshift stays at 0. */
	f->x = f->seed ?: 1;
	f->rounds = 0;
	f->end = time(NULL) + (seconds ? atoi(seconds) : 5);
}

bool fuzz_goes_on(struct fuzz *f)
{
	f->rounds++;
	return time(NULL) < f->end;
}

unsigned int fuzz_pick(struct fuzz *f, unsigned int n)
{
	f->x ^= f->x << 13;
	f->x ^= f->x >> 17;
	f->x ^= f->x << 5;
	return f->x % n;
}
