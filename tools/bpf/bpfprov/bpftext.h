/* SPDX-License-Identifier: GPL-2.0 */
/* The text of loaded BPF programs. */
#ifndef __BPFPROV_BPFTEXT_H
#define __BPFPROV_BPFTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "ksyms.h"
#include "ring.h"

#define BPF_TEXT_NAME	128

/* A subprogram, or an image that the kernel generated to call programs. */
struct bpf_text {
	uint64_t addr;		/* 0: no JIT, or hidden */
	uint32_t len;		/* 0: not known */
	uint32_t prefix;	/* bytes before @addr that belong to it, as of FineIBT */
	bool len_is_guess;	/* it may be shorter */
	uint32_t id;		/* of the program, which an image calls; 0: none, or not known */
	uint32_t sub_id;
	uint32_t sub_cnt;	/* 0: an image */
	uint32_t prog_type;
	uint32_t uid;
	uint64_t load_time;	/* CLOCK_BOOTTIME, ns */
	uint8_t tag[8];		/* of the subprogram */
	/* As in kallsyms, or that of the program, or of a subprogram bpf_prog_TAG */
	char name[BPF_TEXT_NAME];
};

typedef void (*bpf_text_fn)(void *ctx, const struct bpf_text *t);

/*
 * Call @fn for each subprogram of the program @id, with names from @k, which may be NULL.
 * Returns 0, -ENOENT if the program was unloaded, or another -errno.
 */
int bpf_text_of(uint32_t id, const struct ksyms *k, bpf_text_fn fn, void *ctx);

/* Likewise for all loaded programs. Skips those that are unloaded, or whose device is gone. */
int bpf_text_all(const struct ksyms *k, bpf_text_fn fn, void *ctx);

/* As in PERF_RECORD_BPF_EVENT, from SUBPROG_LOAD on. */
struct subprog_record {
	struct perf_event_header header;
	uint16_t type, flags;
	uint32_t id;
	uint8_t tag[8];
	uint32_t sub_id, sub_cnt;
	uint64_t addr;
	uint32_t len;
	uint16_t name_off;
	uint8_t kind, prefix_len;
	uint32_t prog_type, attach_type;
	uint64_t load_time;
	uint64_t seq;
};

struct ksymbol_record {
	struct perf_event_header header;
	uint64_t addr;
	uint32_t len;
	uint16_t type, flags;
	char name[];
};

/* Convert a record. False: the record is too short. */
bool bpf_text_of_subprog(const struct perf_event_header *h, struct bpf_text *t);
bool bpf_text_of_ksymbol(const struct perf_event_header *h, struct bpf_text *t);

#endif
