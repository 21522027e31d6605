/* SPDX-License-Identifier: GPL-2.0 */
/* From (build ID, file offset) to a name, after the fact. */
#ifndef __BPFPROV_SYMBOLS_H
#define __BPFPROV_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps.h"

/* What became of a user frame. */
enum outcome {
	SYMBOLIZED,
	NO_SYMBOL,	/* the file is there, and names nothing at this offset */
	/* The file is not to be found: with this build ID, or by its inode if ... */
	NO_FILE,
	NO_FILE_NO_ID,	/* it has none */
	NO_FILE_PENDING,	/* the kernel had not read it yet */
	NO_FILE_NOT_KEPT,	/* the kernel does not keep it */
	ANONYMOUS,	/* no file was mapped: a JIT, vdso */
	NOT_MAPPED,	/* nothing was: no address of code, but what looked like one */
	NO_MAPPING,	/* what was mapped there is not known */
	NOT_LOOKED_UP,	/* the user would not wait */
	OUTCOMES,
};

/* A file, by its build ID, or by its inode if it has none. */
struct binary;

/*
 * The file with this build ID, or with length 0 and these BUILD_ID_MAX bytes that
 * name its inode. An ID of BUILD_ID_MAX bytes may be a shorter one with zeroes behind
 * it, as the kernel has them in stacks. NULL: no memory.
 */
struct binary *binary_get(const uint8_t *id, size_t len);

/* It was mapped as @path by @pid. */
void binary_path(struct binary *b, const char *path, int pid);

/* Its short name: that of the file, or the build ID; never NULL. */
const char *binary_name(const struct binary *b);

/* Its path, if it was seen mapped; else NULL. Its ID in hexadecimal, "" if it has none. */
const char *binary_where(const struct binary *b);
void binary_id(const struct binary *b, char *hex, size_t size);

/*
 * The name of what is at @offset of the file; @is_return: it is where a call
 * returns to, and the call is what is asked for. The string, NULL when there is
 * none, stays valid until binary_free_all(). @outcome is SYMBOLIZED, NO_SYMBOL, or left
 * alone where there is no file. Looks for the file where it was
 * mapped, below /usr/lib/debug, and where debuginfod-find finds it; then for its
 * debug file.
 */
const char *binary_symbol(struct binary *b, uint64_t offset, bool is_return,
			  enum outcome *outcome);

/* Files that were not remembered: there were too many. */
uint64_t binary_dropped(void);

void binary_free_all(void);

#endif
