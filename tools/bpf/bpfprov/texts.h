/* SPDX-License-Identifier: GPL-2.0 */
/* Find the BPF program that was at an address at a given time. */
#ifndef __BPFPROV_TEXTS_H
#define __BPFPROV_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpftext.h"

/* All times are CLOCK_MONOTONIC, in ns. */
struct text_life {
	struct bpf_text text;	/* addr and len include the prefix, if it is known */
	uint64_t from, until;	/* from 0: not known; until UINT64_MAX: still loaded */
	bool keep;		/* a frame refers to it */
};

struct texts {
	struct text_life *life;
	size_t count, room;
	uint32_t *order;	/* numbers of those that texts_find() can return, by address */
	size_t ordered;
	uint32_t *unused;	/* numbers of those that were forgotten */
	size_t unused_count;
	uint32_t longest;	/* of all of them, bytes */
	uint64_t dropped;	/* over the limit */
};

/*
 * @t, which has an address and a length, was loaded or unloaded at @time. The two calls may
 * come in either order, and one may be missing.
 */
void texts_begin(struct texts *ts, const struct bpf_text *t, uint64_t time);
void texts_end(struct texts *ts, const struct bpf_text *t, uint64_t time);

/*
 * The number of the text at @addr at @time, or -1. A CPU can execute a text that is being
 * unloaded, so it is found for another second, unless another text has its address.
 */
int64_t texts_find(const struct texts *ts, uint64_t addr, uint64_t time);

/* Forget those that cannot be found at @time or later, except those with keep set. */
void texts_forget(struct texts *ts, uint64_t time);

void texts_free(struct texts *ts);

#endif
