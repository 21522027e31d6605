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
 * struct vma_snapshot - the fields of a VMA at one moment
 * @start: first address
 * @end: first address past the end
 * @pgoff: offset of @start in the file, in pages; see vma_start_pgoff()
 * @flags: vm_flags, without those that change under mmap_lock held for reading
 * @anon: vma_is_anonymous(), which a private mapping of /dev/zero is too
 * @file: the file that is mapped, or NULL. Not pinned: to compare with, and to
 *	read fields that vma_snapshot_stale() confirms afterwards
 * @inode: its inode, or NULL. Not pinned either: its memory stays until the
 *	RCU read-side section of the caller ends, but may become another inode's
 * @vma: where the fields were read, or NULL. Only for vma_snapshot_stale()
 * @seq: for vma_snapshot_stale(). Odd if a writer was changing other mappings
 * @frees: for vma_snapshot_stale(), if @seq is odd
 */
struct vma_snapshot {
	unsigned long start;
	unsigned long end;
	unsigned long pgoff;
	vm_flags_t flags;
	bool anon;
	const struct file *file;
	const struct inode *inode;
	const struct vm_area_struct *vma;
	unsigned int seq;
	unsigned int frees;
};

/*
 * Lookups of a mapping before giving up with -EAGAIN. Trying again helps if a writer on
 * another CPU took or released mmap_lock, or freed a VMA, meanwhile: vma_snapshot_retry().
 */
#define VMA_SNAPSHOT_TRIES 4

/**
 * struct vma_file_id - identity of a mapped file, as user space sees it
 * @ino: inode number, as in /proc/PID/maps and struct stat
 * @dev: device, as in /proc/PID/maps
 * @generation: of the inode, 0 if the file system has none
 */
struct vma_file_id {
	u64 ino;
	dev_t dev;
	u32 generation;
};

/**
 * struct vma_snapshot_walk - position of a walk over mappings
 * @mas: at the last mapping, if no writer was there since
 * @addr: the next address to look at
 * @skip_to: after -EAGAIN, the end of the mapping if a writer has locked it, or 0
 * @stamp: when @seq was read, in jiffies
 * @seq: mm->mm_lock_seq before @mas descended
 * @frees: mm->vma_frees at that time, if @seq is odd
 * @has_file: the last mapping maps a file, whether or not a reference to it was taken
 *
 * The rest is private to vma_snapshot_walk_next(). Holds no reference.
 */
struct vma_snapshot_walk {
	struct ma_state mas;
	unsigned long addr;
	unsigned long skip_to;
	unsigned long stamp;
	unsigned int seq;
	unsigned int frees;
	bool has_file;
};

/**
 * vma_snapshot_walk_init() - begin a walk over mappings
 * @walk: to be initialized
 * @mm: the address space. The caller keeps it until the end of the walk
 * @addr: the address to begin at, in bytes
 *
 * Context: any.
 */
static inline void vma_snapshot_walk_init(struct vma_snapshot_walk *walk, struct mm_struct *mm,
					  unsigned long addr)
{
	mas_init(&walk->mas, &mm->mm_mt, addr);
	walk->addr = addr;
	walk->skip_to = 0;
	walk->has_file = false;
}

#ifdef CONFIG_VMA_SNAPSHOT
int vma_snapshot_next(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap);
const struct inode *vma_snapshot_user_inode(struct mm_struct *mm, const struct vma_snapshot *snap);
int vma_snapshot_walk_next(struct vma_snapshot_walk *walk, struct vm_area_struct *copy,
			   bool get_file);
bool vma_snapshot_retry(struct mm_struct *mm, const struct vma_snapshot *snap);
bool __vma_snapshot_stale(struct mm_struct *mm, const struct vm_area_struct *vma,
			  unsigned int seq, unsigned int frees);
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

#ifdef CONFIG_VMA_SNAPSHOT
/* Call it before the tree is read. See "Under a writer" in mm/vma_snapshot.c. */
static inline void vma_snapshot_begin(struct mm_struct *mm, unsigned int *seq, unsigned int *frees)
{
	/*
	 * (1) An acquire, which pairs with the smp_wmb() in mm_lock_seqcount_begin()
	 * and in mm_lock_seqcount_end():
	 * Documentation/litmus-tests/vma/under-writer-after-writer.litmus and
	 * snapshot-against-writer.litmus. Begins a section for KCSAN; does not wait.
	 */
	*seq = raw_read_seqcount(&mm->mm_lock_seq);
	/*
	 * (2) pairs with (c), the first smp_wmb() in vma_count_free():
	 * Documentation/litmus-tests/vma/under-writer-reuse.litmus.
	 */
	if (unlikely(*seq & 1))
		*frees = smp_load_acquire(&mm->vma_frees);
}

/*
 * May the VMA have changed since vma_snapshot_begin()? @vma: where its fields were read;
 * NULL: a gap. Then an odd @seq proves nothing.
 */
static inline bool vma_snapshot_stale_at(struct mm_struct *mm, const struct vm_area_struct *vma,
					 unsigned int seq, unsigned int frees)
{
	if (likely(!(seq & 1)))
		return mmap_lock_speculate_retry(mm, seq);
	return __vma_snapshot_stale(mm, vma, seq, frees);
}

/**
 * vma_snapshot_stale() - may the mapping have changed since the snapshot?
 * @mm: as for vma_snapshot_at()
 * @snap: filled by that
 *
 * Results of reads through @snap->inode are valid only if this is false afterwards:
 * then the VMA kept the file, and so the inode, all the time.
 *
 * Context: in the RCU read-side section in which @snap was filled.
 *
 * Return: true if the results must be dropped.
 */
static inline bool vma_snapshot_stale(struct mm_struct *mm, const struct vma_snapshot *snap)
{
	return vma_snapshot_stale_at(mm, snap->vma, snap->seq, snap->frees);
}

/*
 * Fills @snap, for which vma_snapshot_begin() was called, from @vma, which was found after
 * that. mm/vma_snapshot.c explains why the result is right.
 */
static inline int __vma_snapshot(struct mm_struct *mm, const struct vm_area_struct *vma,
				 struct vma_snapshot *snap)
{
	snap->vma = vma;
	if (vma) {
		snap->start = READ_ONCE(vma->vm_start);
		snap->end = READ_ONCE(vma->vm_end);
		snap->pgoff = READ_ONCE(vma->vm_pgoff);
		snap->flags = READ_ONCE(vma->vm_flags) & ~VM_ATOMIC_SET_ALLOWED;
		snap->anon = !READ_ONCE(vma->vm_ops);
		snap->file = READ_ONCE(vma->vm_file);
	}
	/* If not stale, @vma mapped the file until here, and the file was alive... */
	if (vma_snapshot_stale(mm, snap))
		return -EAGAIN;
	if (!vma)
		return -ENOENT;

	/*
	 * ... but it may be closed by now, and its memory may be another file's:
	 * Documentation/litmus-tests/vma/inode-of-snapshot.litmus.
	 */
	snap->inode = snap->file ? READ_ONCE(snap->file->f_inode) : NULL;
	if (snap->file && (!snap->inode || vma_snapshot_stale(mm, snap)))
		return -EAGAIN;
	return 0;
}

/**
 * vma_snapshot_at() - read the mapping at an address
 * @mm: the address space. The caller keeps it, as current does its own
 * @addr: the address, in bytes
 * @snap: filled on success; with -ENOENT, only @snap->seq counts
 *
 * Context: any, NMI included. The caller is in an RCU read-side section, and
 * stays there for as long as it uses @snap->inode. Takes no lock, never waits,
 * and writes only to @snap.
 *
 * If a writer holds mmap_lock, @snap is filled if the writer has not locked the
 * mapping, and @snap->seq is odd.
 *
 * Return: 0; -ENOENT: no mapping has this address; -EAGAIN: the mapping, or the
 * gap, is being changed, or the kernel has no CONFIG_VMA_SNAPSHOT. Trying again
 * helps if a writer on another CPU took or released mmap_lock, or freed a VMA,
 * meanwhile, but not if the mapping is locked by a writer below this interrupt.
 */
static inline int vma_snapshot_at(struct mm_struct *mm, unsigned long addr,
				  struct vma_snapshot *snap)
{
	vma_snapshot_begin(mm, &snap->seq, &snap->frees);
	return __vma_snapshot(mm, mtree_load(&mm->mm_mt, addr), snap);
}

/**
 * vma_snapshot_file_id() - identify the mapped file
 * @mm: as for vma_snapshot_at()
 * @snap: filled by that, with @snap->file not NULL
 * @id: filled on success
 *
 * The inode is the one that /proc/PID/maps shows, that of file_user_inode().
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
	 * The memory of a struct file until the end of the RCU read-side section, but
	 * maybe of another one by now.
	 */
	if (unlikely(READ_ONCE(snap->file->f_mode) & FMODE_BACKING)) {
		inode = vma_snapshot_user_inode(mm, snap);
		if (!inode)
			return -EAGAIN;
	}
	/*
	 * The inode was alive in this RCU read-side section, when @snap was filled,
	 * and only inodes of one file system use its memory: i_sb is valid.
	 */
	id->dev = READ_ONCE(READ_ONCE(inode->i_sb)->s_dev);
	id->ino = READ_ONCE(inode->i_ino);
	id->generation = READ_ONCE(inode->i_generation);
	/* But it may be another inode of that file system by now. */
	return vma_snapshot_stale(mm, snap) ? -EAGAIN : 0;
}
#endif

#endif /* _LINUX_VMA_SNAPSHOT_H */
