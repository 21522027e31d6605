/* SPDX-License-Identifier: GPL-2.0 */
/* Symbols from /proc/kallsyms. */
#ifndef __BPFPROV_KSYMS_H
#define __BPFPROV_KSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ksym {
	uint64_t addr;
	/*
	 * Of its module, or of the kernel's text, or of BPF at the latest; UINT64_MAX: not known.
	 */
	uint64_t end;
	const char *name;
	const char *module;	/* NULL: the kernel itself */
	bool is_bpf;
};

struct ksyms {
	struct ksym *sym;
	size_t count;
	char *names;
};

/*
 * Read all symbols, or with @only_bpf those of BPF programs and images. Returns 0 or a
 * negative errno; -EACCES if the kernel hides the addresses. Call ksyms_free() in any case.
 */
int ksyms_read(struct ksyms *k, bool only_bpf);
void ksyms_free(struct ksyms *k);

/* The symbol at or before @addr; NULL: there is none, or @addr is beyond its end. */
const struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr);

#endif
