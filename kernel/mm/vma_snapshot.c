// SPDX-License-Identifier: GPL-2.0
/*
 * Look up mappings without a lock, in any context
 *
 * mmap_lock can't be taken in an NMI or under a spinlock. Trying to take it, or
 * a VMA's own lock, writes to a cache line that page faults on other CPUs need.
 * Nothing shared is written here, except the reference count of a file if a walk
 * asks for it. The reads are correct for these reasons:
 *
 *  - mm->mm_lock_seq is odd from before the first change of a writer until it
 *    unlocks, or downgrades, mmap_lock. If it was even before the first read
 *    and is the same after the last one, there was no writer in between.
 *  - If it was odd, a writer holds mmap_lock, maybe the interrupted task. It
 *    locks a VMA before it changes it. If the VMA was not locked yet after the
 *    fields were read, they are correct. See "Under a writer".
 *  - Until that is checked, every pointer may be stale. RCU keeps the memory
 *    of maple tree nodes; VMAs and files are SLAB_TYPESAFE_BY_RCU; an inode that
 *    can be mapped is freed after a grace period. So the reads are safe, and
 *    their results are used only after the check.
 *  - The walk only descends. A writer publishes new nodes before it marks the
 *    old ones dead, so a walk that meets a dead node and starts again from the
 *    root makes progress, even if that writer is not running.
 *
 * Under a writer
 * --------------
 *
 * The order of stores and reads, where a writer holds mmap_lock from before (z)
 * until after (e):
 *
 *	writer					reader
 *
 *	smp_wmb()			(z)
 *	mm_lock_seq = s (odd)			s = mm_lock_seq
 *	smp_wmb()			(a)	acquire			(1)
 *	for each VMA to be changed:		f = vma_frees
 *	  vm_lock_seq = s			acquire			(2)
 *	  smp_wmb()			(b)	find the VMA in the tree
 *	  change fields, tree, files		read fields
 *	for each VMA to be freed:		smp_rmb()		(3)
 *	  smp_wmb()			(c)	vm_lock_seq != s?
 *	  vma_frees++				smp_rmb()		(4)
 *	  smp_wmb()			(d)	vma_frees == f?
 *	  free it: reused as any VMA		mm_lock_seq == s?
 *	smp_wmb()			(e)
 *	mm_lock_seq = s + 1
 *
 * If all three are true, the fields are those that the VMA had when this writer
 * took mmap_lock:
 *
 *  - Earlier writers: the reader sees all their stores. If they ran in the same
 *    thread, (e) pairs with (1). If not, mmap_lock orders their stores before
 *    this writer's for the two of them, but not for a reader on a third CPU: (z)
 *    pairs with (1). Litmus test: vma/under-writer-after-writer.
 *  - Later writers: a change by one comes after its (a), so the read of
 *    mm_lock_seq, which is after (3), is not s. Litmus test:
 *    vma/under-writer-before-writer.
 *  - The memory is that VMA's until the last read. A VMA is out of the tree
 *    before (c). If the free is counted in the reader's f, (c) pairs with (2),
 *    and the VMA was not found. If it is not, and the reader read anything of
 *    the reuse, (d) pairs with (4), and vma_frees is not f. Litmus test:
 *    vma/under-writer-reuse. Neither vm_mm nor a second look into the tree can
 *    replace the count: the memory may be back in the same place after it was
 *    another VMA's twice.
 *  - A writer that downgrades mmap_lock, as munmap() does, frees the VMAs after
 *    that, and does not count them. (d) is then after the store of s + 1, so the
 *    read of mm_lock_seq, which is after (4), is not s. Litmus test:
 *    vma/under-writer-reuse-downgraded.
 *  - The VMA is locked before it is put in the tree, changed, or taken out, and
 *    until mm_lock_seq is s + 1. If the reader read any of these changes, (b)
 *    pairs with (3), or with the dependency by which the VMA was found, and
 *    vm_lock_seq is s. Litmus test: vma/under-writer.
 *
 * The VMA keeps its file while it is not locked. The same check after a read of
 * the file or the inode covers that read as well.
 *
 * Cost of (z) to (e): on x86, only the increment. On arm64, a dmb ishst each. Only
 * (z), (b), (c) and (d) are additional: one per lock of mmap_lock, one per VMA
 * locked, two per VMA freed, or one after a downgrade.
 *
 * A gap is not locked. A node's content is changed in place, or by a new node, so
 * that each address that the writer does not store to keeps its entry, and can be
 * found at any time. So a VMA that is not locked is never passed over; but there may
 * have been one in the gap. vma_snapshot_at() gives up on a gap, vma_snapshot_next()
 * and walks pass over it.
 *
 * In place means, in a tree that readers use (mt_in_rcu()): the entry of one slot
 * is replaced, or the pivot between two slots is moved together with the entry of
 * one of them. A reader may see the one store without the other. Then it finds the
 * old entry of one of the two slots at addresses of the other. The writer stores to
 * both ranges, so each of these entries is a locked VMA, or a gap.
 *
 * KCSAN: fields of VMAs, files, dentries and inodes are read with READ_ONCE(),
 * or in data_race(), where writers store them plainly under mmap_lock or a lock
 * of their own. Tearing is harmless: a writer under mmap_lock has made the
 * sequence count odd. Of the fields that change without it (i_state, i_size and
 * such), only i_generation is read here, which is a word that few ioctls change.
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
 * Descents for one mapping. A gap ends at the edge of a leaf. In a tree that no writer
 * is changing, two are never adjacent.
 */
#define MAX_DESCENTS 8

/*
 * Return: the first VMA at or above @mas->index, which may have been removed by now;
 * NULL if there is none; -EAGAIN after too many gaps.
 */
static const struct vm_area_struct *find_next(struct ma_state *mas)
{
	const struct vm_area_struct *vma;
	int i;

	for (i = 0; i < MAX_DESCENTS; i++) {
		vma = mas_walk(mas);
		if (vma || mas->last == ULONG_MAX)
			return vma;
		mas_set(mas, mas->last + 1);
	}
	return ERR_PTR(-EAGAIN);
}

/*
 * vma_snapshot_stale() for an odd @seq. @vma: the fields were read there; NULL: a gap.
 * "Under a writer", above, has the protocol.
 */
bool __vma_snapshot_stale(struct mm_struct *mm, const struct vm_area_struct *vma,
			  unsigned int seq, unsigned int frees)
{
	bool freed;

	/*
	 * (3) pairs with (b), the smp_wmb() in __vma_start_write():
	 * Documentation/litmus-tests/vma/under-writer.litmus.
	 */
	smp_rmb();
	if (!vma || READ_ONCE(vma->vm_lock_seq) == seq) {
		/* KCSAN: the section ends here. */
		mmap_lock_speculate_retry(mm, seq);
		return true;
	}
	/*
	 * (4) pairs with (d), the second smp_wmb() in vma_count_free():
	 * Documentation/litmus-tests/vma/under-writer-reuse.litmus.
	 */
	smp_rmb();
	freed = READ_ONCE(mm->vma_frees) != frees;
	return mmap_lock_speculate_retry(mm, seq) || freed;
}

/*
 * After -EAGAIN: may trying again help? Not for a VMA that a writer has locked, nor for a
 * gap, until that writer is done.
 */
bool vma_snapshot_retry(struct mm_struct *mm, const struct vma_snapshot *snap)
{
	if (!(snap->seq & 1) || mmap_lock_speculate_retry(mm, snap->seq))
		return true;
	return snap->vma && READ_ONCE(snap->vma->vm_lock_seq) != snap->seq;
}

/**
 * vma_snapshot_next() - read the mapping at or after an address
 * @mm: as for vma_snapshot_at()
 * @addr: the address, in bytes
 * @snap: filled on success, where @snap->end is above @addr; with -ENOENT, only
 *	@snap->seq counts
 *
 * Needs a few descents of the maple tree, however large the gap above @addr is.
 *
 * Context: as for vma_snapshot_at().
 *
 * Return: 0; -ENOENT: there is no mapping at @addr nor above; if @snap->seq is odd, a
 * writer may be adding one. -EAGAIN: as for vma_snapshot_at(), but not for a gap, which is
 * passed over.
 */
int vma_snapshot_next(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	const struct vm_area_struct *vma;

	vma_snapshot_begin(mm, &snap->seq, &snap->frees);
	vma = find_next(&mas);
	if (IS_ERR(vma)) {
		/* KCSAN: the section ends here. */
		mmap_lock_speculate_retry(mm, snap->seq);
		snap->vma = NULL;
		return PTR_ERR(vma);
	}
	/* Under a writer, all mappings above that are not being changed were passed. */
	if (unlikely(!vma && snap->seq & 1))
		return mmap_lock_speculate_retry(mm, snap->seq) ? -EAGAIN : -ENOENT;
	return __vma_snapshot(mm, vma, snap);
}

/*
 * For vma_snapshot_file_id(): a stacking file system maps another file than the one
 * that the user opened. Return: the inode of the user's file, or NULL if @snap is stale.
 */
const struct inode *vma_snapshot_user_inode(struct mm_struct *mm, const struct vma_snapshot *snap)
{
	/*
	 * Backing files have a slab cache of their own: this is the memory of one, but
	 * maybe of another one by now.
	 */
	const struct dentry *dentry = READ_ONCE(backing_file_user_path(snap->file)->dentry);
	const struct inode *inode;

	/*
	 * If the file was mapped until now, it had a reference to the dentry, which
	 * RCU keeps from here on. Dentries that are freed without a grace period
	 * (DCACHE_NORCU) are cursors or belong to pseudo files; this one was opened
	 * by a path in a file system that stacks.
	 */
	if (vma_snapshot_stale(mm, snap))
		return NULL;
	inode = READ_ONCE(dentry->d_inode);
	/* The same is true of the dentry's reference to the inode. */
	return vma_snapshot_stale(mm, snap) ? NULL : inode;
}

static bool walk_stale(struct mm_struct *mm, const struct vma_snapshot_walk *walk,
		       const struct vm_area_struct *vma)
{
	return vma_snapshot_stale_at(mm, vma, walk->seq, walk->frees);
}

/*
 * Takes a reference to @file, whose memory RCU keeps, and drops it again if @walk is stale
 * by then.
 */
static bool get_file_of_walk(struct mm_struct *mm, const struct vma_snapshot_walk *walk,
			     const struct vm_area_struct *vma, struct file *file)
{
	if (!file_ref_get(&file->f_ref))
		return false;
	/*
	 * The memory may have become another file's before. The barrier in
	 * walk_stale() pairs with the writer's before it puts the file:
	 * Documentation/litmus-tests/vma/file-reference-of-walk.litmus.
	 */
	if (!walk_stale(mm, walk, vma))
		return true;
	fput(file);
	return false;
}

/* The leaf was in the tree in this RCU read-side section, too, not only when it was found. */
static void walk_same_leaf(struct ma_state *mas)
{
#if defined(CONFIG_LOCKDEP) && defined(CONFIG_RCU_STRICT_GRACE_PERIOD)
	mas->rcu_gp = get_state_synchronize_rcu();
#endif
}

/* vma_snapshot_walk_next(), once */
static int walk_step(struct mm_struct *mm, struct vma_snapshot_walk *walk,
		     struct vm_area_struct *copy, bool get_file)
{
	const struct vm_area_struct *vma = NULL;

	/*
	 * If there was no writer since the last step, the leaf of the last step
	 * is in the tree, and RCU keeps it from now on. mm_lock_seq repeats after
	 * 2^31 writers, which take longer than a tick. Under a writer, leaves may
	 * be replaced at any time. Litmus test:
	 * Documentation/litmus-tests/vma/walk-cursor.litmus.
	 */
	if (walk->mas.status == ma_active && !(walk->seq & 1) &&
	    !time_after(jiffies, walk->stamp) && !mmap_lock_speculate_retry(mm, walk->seq)) {
		walk_same_leaf(&walk->mas);
		vma = mas_next_in_leaf(&walk->mas);
	}
	if (!vma) {
		mas_set(&walk->mas, walk->addr);
		walk->stamp = jiffies;
		vma_snapshot_begin(mm, &walk->seq, &walk->frees);
		vma = find_next(&walk->mas);
		/* A writer may be changing the range, too: the cursor must move. */
		walk->skip_to = IS_ERR_OR_NULL(vma) ? 0 :
				max(walk->mas.last + 1, walk->addr + PAGE_SIZE);
	}
	if (IS_ERR_OR_NULL(vma))
		return (mmap_lock_speculate_retry(mm, walk->seq) || vma) ? -EAGAIN : -ENOENT;

	/* Copy all of it: if there was a writer, the result is dropped below. */
	data_race(memcpy(copy, vma, sizeof(*copy)));
	if (walk_stale(mm, walk, vma))
		goto stale;
	walk->has_file = copy->vm_file;
	if (!get_file)
		copy->vm_file = NULL;
	else if (copy->vm_file && !get_file_of_walk(mm, walk, vma, copy->vm_file))
		goto stale;
	walk->addr = copy->vm_end;
	return 0;

stale:
	/*
	 * Only a VMA that is locked may be left out. If a writer took or released
	 * mmap_lock, or freed a VMA, this one may be unchanged. Then its memory
	 * was not reused, its vm_lock_seq is not walk->seq, and it is not skipped.
	 */
	if (!(walk->seq & 1) || READ_ONCE(vma->vm_lock_seq) != walk->seq)
		walk->skip_to = 0;
	return -EAGAIN;
}

/**
 * vma_snapshot_walk_next() - copy the next mapping of a walk
 * @walk: the walk. Between two calls, the caller may leave its RCU read-side
 *	section, and sleep
 * @copy: filled on success. vm_start, vm_end, vm_mm, vm_pgoff, vm_file and
 *	vm_flags, except flags that change under mmap_lock held for reading, are
 *	from one moment. The only pointers that may be followed are vm_mm and, with
 *	@get_file, vm_file. On failure, either nothing is written, or vm_file is
 *	NULL, and the rest undefined
 * @get_file: take a reference to vm_file, which the caller must put. If not set,
 *	vm_file is NULL in @copy
 *
 * Context: any, NMI included; with @get_file, where fput() may be called. Takes
 * no lock and never waits.
 *
 * Return: 0; -ENOENT: there are no more mappings; -EAGAIN: the next mapping is
 * being changed, and the position of @walk has not moved. If a writer has locked
 * it, @walk->skip_to is its end in the tree; otherwise 0. See vma_snapshot_at().
 */
int vma_snapshot_walk_next(struct vma_snapshot_walk *walk, struct vm_area_struct *copy,
			   bool get_file)
{
	struct mm_struct *mm = container_of(walk->mas.tree, struct mm_struct, mm_mt);
	int err, tries = VMA_SNAPSHOT_TRIES;

	guard(rcu)();
	do {
		err = walk_step(mm, walk, copy, get_file);
		if (likely(err != -EAGAIN))
			return err;
		mas_reset(&walk->mas);
		/* The caller puts it. */
		copy->vm_file = NULL;
		/* A VMA that is locked stays locked until the writer is done. */
	} while (!walk->skip_to && --tries);
	return -EAGAIN;
}
