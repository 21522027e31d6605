/* SPDX-License-Identifier: GPL-2.0 */
/* Which text of BPF was at an address at some time. */
#ifndef __BPFPROV_TEXTS_H
#define __BPFPROV_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpftext.h"

/* All times are CLOCK_MONOTONIC, in ns. */
struct text_life {
	struct bpf_text text;
	uint64_t from, until;	/* 0: before we looked; UINT64_MAX: still there */
	bool keep;		/* somebody has its number */
};

struct texts {
	struct text_life *life;
	size_t count, room;
	uint32_t *order;	/* numbers of those that can be found, by address */
	size_t ordered;
	uint32_t *unused;	/* numbers of those that were forgotten */
	size_t unused_count;
	uint32_t longest;	/* of all of them, bytes */
	uint64_t dropped;	/* for want of room */
};

/*
 * @t, which has an address and a length, is there from @time on, or goes. The two may
 * come in any order, and one may be missing.
 */
void texts_begin(struct texts *ts, const struct bpf_text *t, uint64_t time);
void texts_end(struct texts *ts, const struct bpf_text *t, uint64_t time);

/*
 * The number of the text at @addr at @time, or -1. Whoever is in a text when it goes
 * is there a little longer: it is found for another second, unless the next has begun.
 */
int64_t texts_find(const struct texts *ts, uint64_t addr, uint64_t time);

/* Forget those that cannot be found at @time or later, but for those to keep. */
void texts_forget(struct texts *ts, uint64_t time);

void texts_free(struct texts *ts);

#endif
