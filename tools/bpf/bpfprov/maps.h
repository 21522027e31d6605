/* SPDX-License-Identifier: GPL-2.0 */
/* The mappings of a task, and the build IDs of files. */
#ifndef __BPFPROV_MAPS_H
#define __BPFPROV_MAPS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "file_key.h"

#define BUILD_ID_MAX	20

struct mapping {
	unsigned long long start, end, offset, inode;
	unsigned int dev_major, dev_minor;
	char perms[5];
	uint8_t build_id[BUILD_ID_MAX];
	uint32_t build_id_len;		/* 0: none, or it cannot be read */
	/* As in /proc/PID/maps; "" if there is none. */
	char path[PATH_MAX + sizeof(" (deleted)")];
};

struct maps {
	int pid, fd;
	bool text;			/* the kernel has no PROCMAP_QUERY */
	bool no_id;			/* do not read build IDs */
	FILE *f;
	char *line;
	size_t size;
	uint64_t last_end;
};

/* Returns 0, -ENOENT if there is no such process, or another -errno. */
int maps_open(struct maps *m, int pid, bool no_query);
void maps_close(struct maps *m);

enum which {
	MAP_AT,		/* the mapping at the address */
	MAP_NEXT,	/* or the next one if there is none */
	MAP_NEXT_CODE,	/* likewise, of the executable mappings of files */
};

/*
 * Find a mapping by its address. Returns 0, -ENOENT if there is none, -ESRCH if the process
 * has ended, or another -errno.
 */
int maps_find(struct maps *m, uint64_t addr, enum which which, struct mapping *v);

/* Of one that a child process sent: it read files of any user, so do not trust it. */
bool mapping_is_valid(const struct mapping *v);

/*
 * Is a path of @pid a path here, too? Only if they have the same mounts, and the same root
 * directory. True if the process has ended; false if @pid is -1.
 */
bool is_path_here(int pid);

/*
 * @pid, or a thread of that process that is still running if its main thread has ended: /proc shows
 * neither mappings nor directories of that one.
 */
int live_thread(int pid);

/*
 * Has the process ended? It has if all of its threads are zombies, and no tracer has to reap one
 * of them.
 */
bool has_ended(int pidfd);

/* Likewise. True if @pid is -1. */
bool process_ended(int pid);

/*
 * Open @path for reading, if it is a regular file of a file system for data and matches @key,
 * which may be NULL: below the root directory of @pid, which may be a container's, or here if
 * @pid is 0. The path may name anything: a device or a FIFO is not opened. @has_id: the caller
 * compares the build ID, so the key is not required to match on btrfs and overlayfs, where
 * stat() reports another device than /proc/PID/maps. Returns a descriptor or -1.
 */
int open_file(int pid, const char *path, const struct file_key *key, bool has_id);

/* Store the build ID of an ELF file in @id and return its length; 0: none. */
size_t fd_build_id(int fd, uint8_t *id);

/*
 * Open a file that @pid has mapped, by its build ID @id, padded with zeroes, or if @by_key
 * by the struct file_key in @id. This finds files that were deleted, replaced or belong to
 * another mount namespace, and those for which stat() reports another device than
 * /proc/PID/maps, as on overlayfs and btrfs. Returns a descriptor or -1.
 */
int open_mapped(int pid, const uint8_t id[BUILD_ID_MAX], bool by_key);

/* The build ID of the file that @pid has mapped there, if it is the one with the key @key; or 0. */
size_t mapped_build_id(int pid, uint64_t start, uint64_t end, const struct file_key *key,
		       uint8_t *id);

/* Likewise for a file that open_file() opens. */
size_t file_build_id(int pid, const char *path, const struct file_key *key, uint8_t *id);

#endif
