/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LIB_BUILDID_H
#define _LIB_BUILDID_H

#include <linux/types.h>

struct file;
struct inode;

/* How the headers of a file are read. */
struct build_id_from {
	bool may_fault;		/* with __kernel_read(), else from the page cache */
	bool unpinned;		/* from pages that no device may be writing to */
	loff_t missing;		/* set: what the page cache did not have */
};

int build_id_read(struct file *file, unsigned char *build_id, __u32 *size,
		  struct build_id_from *from);
bool build_id_error_of_file(int err);

#ifdef CONFIG_BUILD_ID_CACHE
#include <trace/events/build_id.h>

int build_id_fill_wait(struct file *file, unsigned char *build_id, __u32 *size);
#else
static inline void trace_build_id_parse(const struct inode *inode, int err) { }

static inline int build_id_fill_wait(struct file *file, unsigned char *build_id, __u32 *size)
{
	struct build_id_from wait = { .may_fault = true };

	return build_id_read(file, build_id, size, &wait);
}
#endif

#endif
