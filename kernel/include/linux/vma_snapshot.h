/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_VMA_SNAPSHOT_H
#define _LINUX_VMA_SNAPSHOT_H

#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/maple_tree.h>
#include <linux/mm.h>
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

/**
 * struct vma_file_id - which file is mapped, as user space sees it
 * @ino: inode number, as in /proc/PID/maps and in what stat() says
 * @dev: device, as in /proc/PID/maps
 * @generation: of the inode, 0 where the file system has none
 */
struct vma_file_id {
	u64 ino;
	dev_t dev;
	u32 generation;
};

/**
 * struct vma_snapshot_walk - where a walk over mappings is
 * @mas: at the last mapping, if no writer was there since
 * @addr: the next address to look at
 * @stamp: when @seq was read, in jiffies
 * @seq: of the time when @mas descended
 * @has_file: the last mapping maps a file, whether or not a reference to it was taken
 *
 * The rest is private to vma_snapshot_walk_next(). Holds no reference.
 */
struct vma_snapshot_walk {
	struct ma_state mas;
	unsigned long addr;
	unsigned long stamp;
	unsigned int seq;
	bool has_file;
};

/**
 * vma_snapshot_walk_init() - begin a walk over mappings
 * @walk: to be initialized
 * @mm: whose mappings. The caller keeps it for as long as the walk lasts
 * @addr: the address to begin at, in bytes
 *
 * Context: any.
 */
static inline void vma_snapshot_walk_init(struct vma_snapshot_walk *walk, struct mm_struct *mm,
					  unsigned long addr)
{
	mas_init(&walk->mas, &mm->mm_mt, addr);
	walk->addr = addr;
	walk->has_file = false;
}

#ifdef CONFIG_VMA_SNAPSHOT
int vma_snapshot_next(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap);
const struct inode *vma_snapshot_user_inode(struct mm_struct *mm, const struct vma_snapshot *snap);
int vma_snapshot_walk_next(struct vma_snapshot_walk *walk, struct vm_area_struct *copy,
			   bool get_file);
#else
static inline int vma_snapshot_at(struct mm_struct *mm, unsigned long addr,
				  struct vma_snapshot *snap)
{
	return -EAGAIN;
}

static inline int vma_snapshot_walk_next(struct vma_snapshot_walk *walk,
					 struct vm_area_struct *copy, bool get_file)
{
	return -EAGAIN;
}
#endif

#ifdef CONFIG_BUILD_ID_CACHE
int vma_snapshot_build_id(struct mm_struct *mm, const struct vma_snapshot *snap,
			  unsigned char *build_id, __u32 *size);
#else
static inline int vma_snapshot_build_id(struct mm_struct *mm, const struct vma_snapshot *snap,
					unsigned char *build_id, __u32 *size)
{
	return -EOPNOTSUPP;
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

#ifdef CONFIG_VMA_SNAPSHOT
/*
 * Fills @snap, whose @seq is set, from what was found since that was read. What makes
 * that right is said in mm/vma_snapshot.c.
 */
static inline int __vma_snapshot(struct mm_struct *mm, const struct vm_area_struct *vma,
				 struct vma_snapshot *snap)
{
	if (vma) {
		snap->start = READ_ONCE(vma->vm_start);
		snap->end = READ_ONCE(vma->vm_end);
		snap->pgoff = READ_ONCE(vma->vm_pgoff);
		snap->flags = READ_ONCE(vma->vm_flags) & ~VM_ATOMIC_SET_ALLOWED;
		snap->anon = !READ_ONCE(vma->vm_ops);
		snap->file = READ_ONCE(vma->vm_file);
	}
	/* From here on @vma and the file were a pair, and the file is alive... */
	if (vma_snapshot_stale(mm, snap))
		return -EAGAIN;
	if (!vma)
		return -ENOENT;

	/* ... but it may be closed by now, and its memory be another file's. */
	snap->inode = snap->file ? READ_ONCE(snap->file->f_inode) : NULL;
	if (snap->file && (!snap->inode || vma_snapshot_stale(mm, snap)))
		return -EAGAIN;
	return 0;
}

/**
 * vma_snapshot_at() - what does the mapping at this address say?
 * @mm: whose mappings. The caller keeps it, as current does its own
 * @addr: the address, in bytes
 * @snap: filled on success; with -ENOENT, only @snap->seq counts
 *
 * Context: any, NMI included. The caller is in an RCU read-side section, and
 * stays there for as long as it uses @snap->inode. Takes no lock, waits for no
 * one, writes nothing but @snap.
 *
 * Return: 0; -ENOENT: no mapping has this address; -EAGAIN: mappings are being
 * changed, or the kernel has no CONFIG_PER_VMA_LOCK. Trying again within the
 * same interrupt can't help if the writer is below it.
 */
static inline int vma_snapshot_at(struct mm_struct *mm, unsigned long addr,
				  struct vma_snapshot *snap)
{
	if (!mmap_lock_speculate_try_begin(mm, &snap->seq))
		return -EAGAIN;
	return __vma_snapshot(mm, mtree_load(&mm->mm_mt, addr), snap);
}

/**
 * vma_snapshot_file_id() - which file is it?
 * @mm: as for vma_snapshot_at()
 * @snap: what that filled, with @snap->file not NULL
 * @id: filled on success
 *
 * The inode is the one that /proc/PID/maps shows, as file_user_inode() has it.
 *
 * Context: as for vma_snapshot_at(), in the same RCU read-side section.
 *
 * Return: 0; -EAGAIN: mappings have been changed.
 */
static inline int vma_snapshot_file_id(struct mm_struct *mm, const struct vma_snapshot *snap,
				       struct vma_file_id *id)
{
	const struct inode *inode = snap->inode;

	/*
	 * Memory of a struct file as long as the RCU read-side section lasts, maybe
	 * not of this one any more.
	 */
	if (unlikely(READ_ONCE(snap->file->f_mode) & FMODE_BACKING)) {
		inode = vma_snapshot_user_inode(mm, snap);
		if (!inode)
			return -EAGAIN;
	}
	/*
	 * It was found alive in this RCU read-side section, by vma_snapshot_at() or
	 * the like, and only inodes of one file system use its memory: i_sb is valid.
	 */
	id->dev = READ_ONCE(READ_ONCE(inode->i_sb)->s_dev);
	id->ino = READ_ONCE(inode->i_ino);
	id->generation = READ_ONCE(inode->i_generation);
	/* But it may be another inode of it by now. */
	return vma_snapshot_stale(mm, snap) ? -EAGAIN : 0;
}
#endif

#endif /* _LINUX_VMA_SNAPSHOT_H */
