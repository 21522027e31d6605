// SPDX-License-Identifier: GPL-2.0
/*
 * Looking mappings up without a lock, from any context
 *
 * mmap_lock can't be taken in an NMI or under a spinlock, and trying to take
 * it, as with a VMA's own lock, writes to a cache line that page faults on
 * other CPUs want. Here nothing is written. What makes the reads right:
 *
 *  - mm->mm_lock_seq is odd from before the first change of a writer until it
 *    unlocks, or downgrades, mmap_lock. If it was even before the first read
 *    and is the same after the last one, no writer was there in between. An
 *    NMI on top of a writer finds it odd and gives up: no waiting, no retry.
 *  - Until that is checked, every pointer may be stale. RCU keeps the memory
 *    of maple tree nodes; VMAs and files are SLAB_TYPESAFE_BY_RCU; an inode that
 *    can be mapped is freed after a grace period. So reading is safe, and what
 *    was read may be wrong: it is used only after the check.
 *  - The walk only descends. A writer publishes new nodes before it marks the
 *    old ones dead, so one that meets a dead node and starts again from the
 *    root makes progress, even if that writer is not running.
 *
 * KCSAN: fields of VMAs, files, dentries and inodes are read with READ_ONCE(),
 * or in data_race(), where writers store them plainly under mmap_lock or a lock
 * of their own. Tearing does no harm: a writer under mmap_lock has made the
 * sequence count odd, and of what changes without it (i_state, i_size and such)
 * only i_generation is read here, which is a word that few ioctls change.
 */
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/file_ref.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/vma_snapshot.h>

/*
 * How often to descend for one mapping. A gap ends at the edge of a leaf even if
 * the next leaf begins with a gap; three in a row are not found in a tree that
 * is not being changed.
 */
#define MAX_DESCENTS 8

/*
 * The first VMA at or above @mas->index, or NULL, or -EAGAIN after too many gaps.
 * Maybe not there any more.
 */
static const struct vm_area_struct *find_next(struct ma_state *mas)
{
	const struct vm_area_struct *vma;
	int i;

	for (i = 0; i < MAX_DESCENTS; i++) {
		vma = mas_walk(mas);
		/* A fork that failed leaves zero entries to the mm that it gives up. */
		if (xa_is_zero(vma))
			vma = NULL;
		if (vma || mas->last == ULONG_MAX)
			return vma;
		mas_set(mas, mas->last + 1);
	}
	return ERR_PTR(-EAGAIN);
}

/**
 * vma_snapshot_next() - what does the mapping at or after this address say?
 * @mm: as for vma_snapshot_at()
 * @addr: the address, in bytes
 * @snap: filled on success, where @snap->end is above @addr; with -ENOENT, only
 *	@snap->seq counts
 *
 * A few descents of the maple tree, whatever lies between @addr and the mapping.
 *
 * Context: as for vma_snapshot_at().
 *
 * Return: 0; -ENOENT: there is no mapping at @addr nor above; -EAGAIN: as for
 * vma_snapshot_at().
 */
int vma_snapshot_next(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	const struct vm_area_struct *vma;

	if (!mmap_lock_speculate_try_begin(mm, &snap->seq))
		return -EAGAIN;
	vma = find_next(&mas);
	if (IS_ERR(vma)) {
		/* KCSAN is to know that the section ends here. */
		vma_snapshot_stale(mm, snap);
		return PTR_ERR(vma);
	}
	return __vma_snapshot(mm, vma, snap);
}

/*
 * For vma_snapshot_file_id(), where a stacking file system maps another file than
 * the one which the user opened: the inode of that, or NULL if @snap is stale.
 */
const struct inode *vma_snapshot_user_inode(struct mm_struct *mm, const struct vma_snapshot *snap)
{
	/* Backing files have a slab cache of their own: it is one, maybe another by now. */
	const struct dentry *dentry = READ_ONCE(backing_file_user_path(snap->file)->dentry);
	const struct inode *inode;

	/*
	 * If the file was there until now, so was its reference to the dentry,
	 * which RCU keeps from here on. Those that are freed at once (DCACHE_NORCU)
	 * are cursors and of pseudo files; this one was opened by a path in a file
	 * system that stacks.
	 */
	if (vma_snapshot_stale(mm, snap))
		return NULL;
	inode = READ_ONCE(dentry->d_inode);
	/* And so was the dentry's to the inode. */
	return vma_snapshot_stale(mm, snap) ? NULL : inode;
}

/* Takes a reference to a file of which RCU keeps the memory, if @walk isn't stale then. */
static bool get_file_of_walk(struct mm_struct *mm, const struct vma_snapshot_walk *walk,
			     struct file *file)
{
	if (!file_ref_get(&file->f_ref))
		return false;
	/* Its memory may have become another file's before. */
	if (!mmap_lock_speculate_retry(mm, walk->seq))
		return true;
	fput(file);
	return false;
}

/* The leaf is in the tree in this RCU read-side section, whichever it was found in. */
static void walk_same_leaf(struct ma_state *mas)
{
#if defined(CONFIG_LOCKDEP) && defined(CONFIG_RCU_STRICT_GRACE_PERIOD)
	mas->rcu_gp = get_state_synchronize_rcu();
#endif
}

/**
 * vma_snapshot_walk_next() - copy the next mapping of a walk
 * @walk: the walk. What the caller does between two calls is its own affair: it
 *	may leave its RCU read-side section, and sleep
 * @copy: filled on success. vm_start, vm_end, vm_mm, vm_pgoff, vm_file and
 *	vm_flags, but for those that change under mmap_lock held for reading, are
 *	as they were together at one moment. No pointer but vm_mm and, with
 *	@get_file, vm_file may be followed. On failure, either nothing is written,
 *	or vm_mm is that of the walk, vm_file NULL, and the rest undefined
 * @get_file: take a reference to vm_file, which the caller puts. If not set,
 *	vm_file is NULL in @copy
 *
 * Context: any, NMI included; with @get_file, where fput() may be called. Takes
 * no lock, waits for no one.
 *
 * Return: 0; -ENOENT: there are no more mappings; -EAGAIN: mappings are being
 * changed, and the walk is where it was. See vma_snapshot_at().
 */
int vma_snapshot_walk_next(struct vma_snapshot_walk *walk, struct vm_area_struct *copy,
			   bool get_file)
{
	struct mm_struct *mm = container_of(walk->mas.tree, struct mm_struct, mm_mt);
	const struct vm_area_struct *vma = NULL;

	guard(rcu)();
	/*
	 * If no writer was there since the last step, the leaf of the last step
	 * is in the tree, and RCU keeps it from now on. Should 2^31 writers fit
	 * between two steps, they take longer than a tick.
	 */
	if (walk->mas.status == ma_active && !time_after(jiffies, walk->stamp) &&
	    !mmap_lock_speculate_retry(mm, walk->seq)) {
		walk_same_leaf(&walk->mas);
		vma = mas_next_in_leaf(&walk->mas);
		if (xa_is_zero(vma))
			vma = NULL;
	}
	if (!vma) {
		mas_set(&walk->mas, walk->addr);
		walk->stamp = jiffies;
		if (!mmap_lock_speculate_try_begin(mm, &walk->seq))
			return -EAGAIN;
		vma = find_next(&walk->mas);
	}
	if (!IS_ERR_OR_NULL(vma))
		/* All of it, at the price of garbage that is dropped below. */
		data_race(memcpy(copy, vma, sizeof(*copy)));
	if (mmap_lock_speculate_retry(mm, walk->seq) || IS_ERR(vma))
		goto again;
	if (!vma)
		return -ENOENT;

	walk->has_file = copy->vm_file;
	if (!get_file)
		copy->vm_file = NULL;
	else if (copy->vm_file && !get_file_of_walk(mm, walk, copy->vm_file))
		goto again;
	walk->addr = copy->vm_end;
	return 0;
again:
	/* The caller may have handed the last copy out, with these two to be followed. */
	copy->vm_mm = mm;
	copy->vm_file = NULL;
	mas_reset(&walk->mas);
	return -EAGAIN;
}
