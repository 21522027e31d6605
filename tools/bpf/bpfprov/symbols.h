/* SPDX-License-Identifier: GPL-2.0 */
/* From (build ID, file offset) to a name. */
#ifndef __BPFPROV_SYMBOLS_H
#define __BPFPROV_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps.h"

/* Result of the lookup of a user frame. */
enum outcome {
	SYMBOLIZED,
	NO_SYMBOL,	/* the file was found, and has no symbol at this offset */
	UNREADABLE,	/* the file was found, and cannot be opened or read */
	/* The file was not found: by its build ID, or by its inode if ... */
	NO_FILE,
	NO_FILE_NO_ID,	/* it has none */
	NO_FILE_PENDING,	/* the kernel had not read it yet */
	NO_FILE_NOT_KEPT,	/* the kernel does not keep it */
	ANONYMOUS,	/* no file is mapped: JIT-compiled code, vdso */
	NOT_MAPPED,	/* nothing is mapped: not an address of code */
	NO_MAPPING,	/* the mapping is not known */
	GIVEN_UP,	/* looking it up took too long, or failed */
	NO_ROOM,	/* over the limit of files */
	OVER_LIMIT,	/* reading the file took too much time or memory */
	FAILED,		/* the child process that read the file crashed, or sent nonsense */
	NOT_LOOKED_UP,	/* interrupted by the user */
	NOT_STARTED,	/* no memory, or no child process */
	OUTCOMES,
};

/* A file, by its build ID, or by its inode if it has none. */
struct binary;

/*
 * The file with this build ID or, if @len is 0, with the inode that the BUILD_ID_MAX
 * bytes at @id identify. An ID of BUILD_ID_MAX bytes may be a shorter one, padded with
 * zeroes, as in stacks. NULL: there are too many.
 */
struct binary *binary_get(const uint8_t *id, size_t len);

/* Record that @pid mapped it as @path. @key: of the file, NULL if it is not known. */
void binary_path(struct binary *b, const char *path, int pid, const struct file_key *key);

/* Its short name: that of the file, or the start of the build ID; never NULL. */
const char *binary_name(const struct binary *b);

/* Its path, if it was seen mapped; else NULL. */
const char *binary_where(const struct binary *b);

/* For the output, to number the binaries. 0 at first. */
uint32_t *binary_number(struct binary *b);

/* Its ID in hexadecimal, "" if it has none. */
void binary_id(const struct binary *b, char *hex, size_t size);

/* For the caller, how often it is in samples. 0 at first. */
uint64_t *binary_samples(struct binary *b);

/*
 * The symbol at @offset of the file; @is_return: it is a return address, so look up the
 * call before it. The caller frees the string; NULL: there is none. @outcome becomes
 * SYMBOLIZED, NO_SYMBOL or UNREADABLE, and is unchanged if the file is not found. The file
 * is searched where it was mapped, below /usr/lib/debug, and with debuginfod-find; then
 * its debug file.
 *
 * Opens files of other users: call it in a child process, see apart.h. One file is open at a
 * time: look up all symbols of a file before those of the next.
 */
char *binary_symbol(struct binary *b, uint64_t offset, bool is_return, enum outcome *outcome);

/* To be called before the first child process, for binary_avoid(). */
void binary_watch(void);

/*
 * In the parent, after a child that looked @b up has hung, and was killed: was it in a process that
 * mapped @b? Then that one is not looked at any more, with @everywhere for no file, and another
 * child can look @b up without it. If the file is not found there, the outcome is OVER_LIMIT.
 */
bool binary_avoid(struct binary *b, bool everywhere);

/* Was memory leaked, because a file was truncated while it was read? */
bool binary_leaked(void);

/* The number of calls of binary_get() for files beyond the limit, which can be the same ones. */
uint64_t binary_dropped(void);

/* Longer names are cut. Documented in bpfprov.8. */
#define MAX_NAME	1024

void binary_free_all(void);

#endif
