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
 *    of maple tree nodes; VMAs and files are SLAB_TYPESAFE_BY_RCU; an inode is
 *    freed after a grace period. So reading is safe, and what was read may be
 *    wrong: it is used only after the check.
 *  - The walk only descends. A writer publishes new nodes before it marks the
 *    old ones dead, so one that meets a dead node and starts again from the
 *    root makes progress, even if that writer is not running.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/vma_snapshot.h>

/**
 * vma_snapshot_at() - what does the mapping at this address say?
 * @mm: whose mappings. The caller keeps it, as current does its own
 * @addr: the address, in bytes
 * @snap: filled on success
 *
 * Context: any, NMI included. The caller is in an RCU read-side section, and
 * stays there for as long as it uses @snap->inode. Takes no lock, waits for no
 * one, writes nothing but @snap.
 *
 * Return: 0; -ENOENT: no mapping has this address; -EAGAIN: mappings are being
 * changed, or the kernel has no CONFIG_PER_VMA_LOCK. Trying again within the
 * same interrupt can't help if the writer is below it.
 */
int vma_snapshot_at(struct mm_struct *mm, unsigned long addr, struct vma_snapshot *snap)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);
	const struct vm_area_struct *vma;

	if (!mmap_lock_speculate_try_begin(mm, &snap->seq))
		return -EAGAIN;

	vma = mas_walk(&mas);
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
