// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "texts.h"

/* Bounds the memory. */
#define MAX_TEXTS	262144
#define GRACE_NS	1000000000ULL

/* The number of texts in @order that begin at or below @addr. */
static size_t upper_bound(const struct texts *ts, uint64_t addr)
{
	size_t low = 0, high = ts->ordered, at;

	while (low < high) {
		at = low + (high - low) / 2;
		if (ts->life[ts->order[at]].text.addr <= addr)
			low = at + 1;
		else
			high = at;
	}
	return low;
}

/* Same text? Records of symbols have no ID, and no name if it was loaded without CAP_BPF. */
static bool is_same(const struct bpf_text *a, const struct bpf_text *b)
{
	if (a->addr + a->prefix != b->addr + b->prefix)
		return false;
	if (a->id && b->id)
		return a->id == b->id && a->sub_id == b->sub_id;
	return !*a->name || !*b->name || !strcmp(a->name, b->name);
}

static bool make_room(struct texts *ts)
{
	size_t room = ts->room ? ts->room * 2 : 1024;
	void *p;

	if (ts->count < ts->room)
		return true;
	if (room > MAX_TEXTS)
		return false;
	p = realloc(ts->life, room * sizeof(*ts->life));
	if (!p)
		return false;
	ts->life = p;
	p = realloc(ts->order, room * sizeof(*ts->order));
	if (!p)
		return false;
	ts->order = p;
	p = realloc(ts->unused, room * sizeof(*ts->unused));
	if (!p)
		return false;
	ts->unused = p;
	ts->room = room;
	return true;
}

static void add(struct texts *ts, const struct bpf_text *t, uint64_t from, uint64_t until)
{
	size_t at = upper_bound(ts, t->addr);
	uint32_t n;

	if (ts->unused_count) {
		n = ts->unused[--ts->unused_count];
	} else if (make_room(ts)) {
		n = ts->count++;
	} else {
		ts->dropped++;
		return;
	}
	ts->life[n] = (struct text_life){ .text = *t, .from = from, .until = until };
	memmove(ts->order + at + 1, ts->order + at, (ts->ordered - at) * sizeof(*ts->order));
	ts->order[at] = n;
	ts->ordered++;
	if (t->len > ts->longest)
		ts->longest = t->len;
}

/* The next before *@at in order that overlaps [@addr, @addr + @len), or NULL. */
static struct text_life *next_overlap(const struct texts *ts, size_t *at, uint64_t addr,
				      uint32_t len)
{
	struct text_life *l;

	while (*at) {
		l = &ts->life[ts->order[--*at]];
		if (l->text.addr + ts->longest <= addr)
			break;
		if (l->text.addr < addr + len && addr < l->text.addr + l->text.len)
			return l;
	}
	return NULL;
}

void texts_begin(struct texts *ts, const struct bpf_text *t, uint64_t time)
{
	size_t at = upper_bound(ts, t->addr + t->len - 1);
	uint64_t until = UINT64_MAX;
	struct bpf_text text = *t;
	struct text_life *l;
	bool known = false;

	while ((l = next_overlap(ts, &at, t->addr, t->len))) {
		if (l->text.addr < t->addr && l->text.len_is_guess) {
			l->text.len = t->addr - l->text.addr;
		} else if (l->text.addr > t->addr && t->len_is_guess) {
			/* The last of these is the closest. */
			if (l->until == UINT64_MAX)
				text.len = l->text.addr - t->addr;
		} else if (!l->from && l->until >= time && l->until != UINT64_MAX &&
		    is_same(&l->text, t)) {
			/* Its unload record, from another CPU's ring, was read first. */
			l->from = time;
			known = true;
		} else if (l->from > time) {
			/* The record of its successor was read first. */
			if (l->from < until)
				until = l->from;
		} else if (l->until == UINT64_MAX || (l->from && l->until > time)) {
			/* Its unload record was lost. */
			l->until = time;
		}
	}
	if (!known)
		add(ts, &text, time, until);
}

void texts_end(struct texts *ts, const struct bpf_text *t, uint64_t time)
{
	size_t at = upper_bound(ts, t->addr + t->len - 1);
	struct text_life *l, *last = NULL;

	while ((l = next_overlap(ts, &at, t->addr, t->len)))
		if (is_same(&l->text, t) && l->from <= time && l->until > time &&
		    (!last || l->from > last->from))
			last = l;
	if (last)
		last->until = time;
	else
		add(ts, t, 0, time);
}

int64_t texts_find(const struct texts *ts, uint64_t addr, uint64_t time)
{
	const struct text_life *l, *last = NULL;
	size_t at = upper_bound(ts, addr);

	while ((l = next_overlap(ts, &at, addr, 1)))
		if (l->from <= time && (l->until >= time || time - l->until <= GRACE_NS) &&
		    (!last || l->from > last->from))
			last = l;
	return last ? last - ts->life : -1;
}

void texts_forget(struct texts *ts, uint64_t time)
{
	size_t i, left = 0;
	uint32_t n;

	for (i = 0; i < ts->ordered; i++) {
		n = ts->order[i];
		if (ts->life[n].until >= time || time - ts->life[n].until <= GRACE_NS)
			ts->order[left++] = n;
		else if (!ts->life[n].keep)
			ts->unused[ts->unused_count++] = n;
	}
	ts->ordered = left;
}

void texts_free(struct texts *ts)
{
	free(ts->life);
	free(ts->order);
	free(ts->unused);
	memset(ts, 0, sizeof(*ts));
}
