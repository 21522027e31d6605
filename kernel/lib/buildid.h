/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LIB_BUILDID_H
#define _LIB_BUILDID_H

#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/types.h>

/* Where to read the headers of a file. */
struct build_id_from {
	struct address_space *mapping;	/* the page cache, without waiting, or NULL: */
	struct file *file;		/* the file, which may wait for storage */
	bool unpinned;			/* from pages that no device may be writing to */
	loff_t missing;			/* set: offset of the first unread byte */
};

/*
 * The page cache that @file reads from. A file of overlayfs reads from the file in a
 * layer, which is also the file of its mappings; bprm->file, and others that BPF
 * programs get, are the file of overlayfs. NULL: the file in the layer would first be
 * looked up or verified, which may sleep.
 *
 * Context: any, NMI included. @file holds its dentry, that holds the dentries of its
 * layers, and a dentry with a reference keeps its inode. If the file is copied up
 * meanwhile, the result was right a moment before.
 */
static inline struct address_space *build_id_mapping(const struct file *file)
{
	struct dentry *dentry = file->f_path.dentry;

	if (likely(!(dentry->d_flags & DCACHE_OP_REAL)))
		return file->f_mapping;
	dentry = d_real(dentry, D_REAL_DATA_NOWAIT);
	return dentry ? d_inode(dentry)->i_mapping : NULL;
}

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
