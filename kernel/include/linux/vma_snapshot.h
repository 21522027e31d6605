/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_VMA_SNAPSHOT_H
#define _LINUX_VMA_SNAPSHOT_H

#include <linux/errno.h>
#include <linux/mm_types.h>
#include <linux/mmap_lock.h>

/**
 * struct vma_snapshot - what a VMA said while no one could change it
 * @start: first address
 * @end: first address behind it
 * @pgoff: offset of @start in the file, in pages; see vma_start_pgoff()
 * @flags: vm_flags, without those that change under mmap_lock held for reading
 * @anon: vma_is_anonymous(), which a private mapping of /dev/zero is too
 * @file: the file that is mapped, or NULL. Not pinned: only to compare with
 * @inode: its inode, or NULL. Not pinned either: its memory stays until the
 *	RCU read-side section of the caller ends, but may become another inode's
 * @seq: for vma_snapshot_stale()
 */
struct vma_snapshot {
	unsigned long start;
	unsigned long end;
	unsigned long pgoff;
	vm_flags_t flags;
	bool anon;
	const struct file *file;
	const struct inode *inode;
	unsigned int seq;
};

#ifdef CONFIG_VMA_SNAPSHOT
int vma_snapshot_at(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap);
#else
static inline int vma_snapshot_at(struct mm_struct *mm, unsigned long addr,
				  struct vma_snapshot *snap)
{
	return -EAGAIN;
}
#endif

/**
 * vma_snapshot_stale() - may mappings have changed since the snapshot?
 * @mm: as for vma_snapshot_at()
 * @snap: what that filled
 *
 * What was read through @snap->inode counts only if this is false afterwards:
 * then the VMA kept the file, and so the inode, all the time.
 *
 * Return: true if what was read has to be dropped.
 */
static inline bool vma_snapshot_stale(struct mm_struct *mm, const struct vma_snapshot *snap)
{
	return mmap_lock_speculate_retry(mm, snap->seq);
}

#endif /* _LINUX_VMA_SNAPSHOT_H */
