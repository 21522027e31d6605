/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LIB_BUILDID_H
#define _LIB_BUILDID_H

#include <linux/types.h>

struct address_space;
struct file;
struct inode;

/* Where the headers of a file are read. */
struct build_id_from {
	struct address_space *mapping;	/* the page cache, without waiting, or NULL: */
	struct file *file;		/* the file, which may wait for storage */
	bool unpinned;			/* from pages that no device may be writing to */
	loff_t missing;			/* set: what could not be read */
};

int build_id_read(struct build_id_from *from, unsigned char *build_id, __u32 *size);
bool build_id_error_of_file(int err);

#ifdef CONFIG_BUILD_ID_CACHE
#include <trace/events/build_id.h>

int build_id_fill_wait(struct file *file, unsigned char *build_id, __u32 *size);
#else
static inline void trace_build_id_parse(const struct inode *inode, int err) { }

static inline int build_id_fill_wait(struct file *file, unsigned char *build_id, __u32 *size)
{
	struct build_id_from wait = { .file = file };

	return build_id_read(&wait, build_id, size);
}
#endif

#endif
