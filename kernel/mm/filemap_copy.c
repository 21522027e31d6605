// SPDX-License-Identifier: GPL-2.0
/*
 * Copying bytes of a file out of the page cache, for callers that are neither
 * the file system nor the owner of a user buffer: parsers of file headers, and
 * BPF programs.
 */
#include <linux/filemap_copy.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/secretmem.h>

/*
 * Dropping the last reference of a folio frees it, which takes the locks of the
 * LRU lists, of the zones and of hugetlb. They are held with interrupts
 * off, and an NMI or a BPF program may run on top of their holder. So where
 * interrupts are off, an irq_work drops a last reference. With PREEMPT_RT these
 * locks are held with interrupts on, by any task that was preempted: there it is
 * always an irq_work. It is reserved before the reference is taken, because
 * nothing can be done about a reference that cannot be dropped; if none is free,
 * the page counts as missing. A CPU has several, because an NMI can come on top
 * of a caller with interrupts off, and with PREEMPT_RT a task can be preempted.
 */
#define LAST_PUTS 4

struct last_put {
	unsigned long reserved;		/* bit 0 */
	struct folio *folio;
	struct irq_work work;
};

static void put_last(struct irq_work *work)
{
	struct last_put *last = container_of(work, struct last_put, work);
	struct folio *folio = last->folio;

	/* last->folio was read: Documentation/litmus-tests/build-id/last-put-reuse.litmus. */
	clear_bit_unlock(0, &last->reserved);
	folio_put(folio);
}

static DEFINE_PER_CPU(struct last_put[LAST_PUTS], last_puts) = {
	[0 ... LAST_PUTS - 1] = { .work = IRQ_WORK_INIT(put_last) },
};

/* Without irq_work there are no callers in NMIs, nor BPF programs. */
static bool may_put_last(void)
{
	return !IS_ENABLED(CONFIG_IRQ_WORK) ||
	       (!IS_ENABLED(CONFIG_PREEMPT_RT) && !in_nmi() && !irqs_disabled());
}

/* Before a reference is taken: provides for dropping it. False if that is impossible. */
static bool reserve_put(struct last_put **reserved)
{
	struct last_put *mine, *last;

	*reserved = NULL;
	if (may_put_last())
		return true;
	/* If the task migrates, the slots of the previous CPU work just as well. */
	mine = *raw_cpu_ptr(&last_puts);
	for (last = mine; last < mine + LAST_PUTS; last++) {
		/* Pairs with clear_bit_unlock() in put_last(). */
		if (test_and_set_bit_lock(0, &last->reserved))
			continue;
		*reserved = last;
		return true;
	}
	return false;
}

/*
 * Undoes reserve_put(), and drops the reference to @folio if that is not NULL, which
 * orders the copy before the folio is reused:
 * Documentation/litmus-tests/build-id/copy-against-removal.litmus.
 */
static void release_put(struct last_put *last, struct folio *folio)
{
	if (!IS_ENABLED(CONFIG_IRQ_WORK) || !last) {
		if (folio)
			folio_put(folio);
	} else if (!folio || folio_ref_dec_unless_one(folio)) {
		clear_bit_unlock(0, &last->reserved);
	} else {
		last->folio = folio;
		irq_work_queue(&last->work);
	}
}

/*
 * The entry at @index, read once. xa_load() tries again for as long as it is a
 * retry entry. collapse_file() leaves these in the holes of a file until it has
 * stored the huge page, and may be the function that was interrupted.
 */
static struct folio *load_folio(struct address_space *mapping, pgoff_t index)
{
	XA_STATE(xas, &mapping->i_pages, index);
	struct folio *folio = xas_load(&xas);

	return xa_is_value(folio) || xa_is_internal(folio) ? NULL : folio;
}

/*
 * The folio at @index, with a reference, or NULL. filemap_get_folio() retries
 * for as long as the folio's reference count is frozen. The task that froze it
 * (reclaim, migration, a split) may be the one that was interrupted, by an NMI
 * or by a BPF program attached to a function that it called in between, and
 * would never get to unfreeze it.
 */
static struct folio *try_get_folio(struct address_space *mapping, pgoff_t index,
				   struct last_put **last)
{
	struct folio *folio;

	guard(rcu)();
	folio = load_folio(mapping, index);
	if (!folio || !reserve_put(last))
		return NULL;
	if (!folio_try_get(folio)) {
		release_put(*last, NULL);
		return NULL;
	}
	/*
	 * Removed, and reused for something else, before the reference was taken?
	 * folio_try_get() is a full barrier. It pairs with the last put of the folio,
	 * or with the locks that are taken after its count was frozen:
	 * Documentation/litmus-tests/build-id/copy-against-removal.litmus and
	 * copy-against-reclaim.litmus.
	 */
	if (likely(folio == load_folio(mapping, index)))
		return folio;
	release_put(*last, folio);
	return NULL;
}

/*
 * May a device be writing to the folio? In a small folio a pin counts as many
 * references, and a mapping as one: those of mappings are subtracted, or a page
 * mapped by a thousand processes would count as pinned. The two counts are not
 * read at once: it is assumed that fewer than 512 mappings come or go in between.
 * References of other kinds, such as those of pages spliced into pipes, count as
 * pins if there are that many: then the folio is left out though it need not be.
 */
static bool folio_may_be_written_by_device(struct folio *folio)
{
	unsigned int refs;

	if (folio_has_pincount(folio))
		return folio_maybe_dma_pinned(folio);
	refs = folio_ref_count(folio) - folio_mapcount(folio);
	return refs >= GUP_PIN_COUNTING_BIAS / 2;
}

/*
 * Copies up to the end of the folio, or of its page in high memory. The errors are those
 * of filemap_copy_nowait().
 */
static ssize_t copy_from_folio(struct address_space *mapping, loff_t pos, void *to, size_t len,
			       bool unpinned)
{
	struct last_put *last;
	struct folio *folio;
	ssize_t copied;
	size_t offset;
	void *from;

	folio = try_get_folio(mapping, pos >> PAGE_SHIFT, &last);
	if (!folio)
		return -EFAULT;
	/*
	 * tmpfs and hugetlbfs keep a folio with a memory error, up to date. Not in part:
	 * in an NMI, the failed pages of a hugetlb folio cannot be listed.
	 */
	if (!folio_test_uptodate(folio) ||
	    folio_contain_hwpoisoned_page(folio)) {
		copied = -EFAULT;
	} else if (unpinned && folio_may_be_written_by_device(folio)) {
		copied = -EBUSY;
	} else {
		/*
		 * Contents after the count: a device has written before its pin is
		 * dropped. Pairs with the atomic operation in gup_put_folio():
		 * Documentation/litmus-tests/build-id/copy-against-pin.litmus.
		 */
		smp_rmb();
		offset = pos - folio_pos(folio);
		len = min(len, folio_size(folio) - offset);
		if (folio_test_partial_kmap(folio))
			len = min(len, PAGE_SIZE - offset_in_page(offset));
		from = kmap_local_folio(folio, offset);
		/* It may be written to meanwhile. The caller checks the copy. */
		data_race(memcpy(to, from, len));
		kunmap_local(from);
		copied = len;
	}
	release_put(last, folio);
	return copied;
}

/* Neither negative nor beyond the range of a page index. */
static bool valid_range(loff_t pos, size_t len)
{
	loff_t end;

	return pos >= 0 && !check_add_overflow(pos, len, &end) && end <= MAX_LFS_FILESIZE;
}

/**
 * filemap_copy_nowait() - copy bytes of a file from the page cache, without waiting
 * @mapping:	the page cache of a regular file, whose inode the caller holds
 * @pos:	offset in the file
 * @buf:	where to copy to
 * @len:	how many bytes
 * @unpinned:	leave out folios that a device may be writing to: for a caller that
 *		keeps the bytes. Others use them once, and would lose pages for no
 *		gain if these are pinned to be read
 *
 * Takes no locks, and no references that outlast the call, except a last one until an
 * irq_work drops it. Starts no I/O, and never retries. The contents can change while
 * they are being copied, as under any read of the page cache.
 *
 * On 64-bit, bytes past the end of the file are not copied. On 32-bit, reading the
 * size could wait for the task that an NMI has interrupted: there, the bytes up to the
 * end of the last page are copied, whatever they are.
 *
 * Context: any, NMI included.
 *
 * Return: the number of bytes copied, which is less than @len at the end of the file or
 * where the next page is missing or left out; 0: @pos is at the end of the file, or
 * past it; -EFAULT: the page at @pos is missing, is not up to date, is in a folio with a
 * memory error, cannot be accessed now or must not be accessed (memfd_secret(),
 * guest_memfd); -EBUSY: with @unpinned, a device may be writing to it; -EOVERFLOW: no
 * file has such an offset
 */
ssize_t filemap_copy_nowait(struct address_space *mapping, loff_t pos, void *buf, size_t len,
			    bool unpinned)
{
	size_t done = 0;
	ssize_t ret;

	if (!valid_range(pos, len))
		return -EOVERFLOW;
	if (secretmem_mapping(mapping) ||
	    mapping_inaccessible(mapping))
		return -EFAULT;
	if (IS_ENABLED(CONFIG_64BIT)) {
		loff_t size = i_size_read(mapping->host);

		if (pos >= size)
			return 0;
		len = min_t(u64, len, size - pos);
	}
	for (; done < len; done += ret) {
		ret = copy_from_folio(mapping, pos + done, buf + done, len - done, unpinned);
		if (ret < 0)
			return done ?: ret;
	}
	return done;
}

/**
 * filemap_copy() - copy bytes of a file, reading them if need be
 * @file:	the file; -EBADF is returned if it is not open for reading
 * @pos:	offset in the file
 * @buf:	where to copy to
 * @len:	how many bytes
 *
 * Like kernel_read(), but without access control, and with an error, not a warning, for
 * a file that is not open for reading.
 *
 * Context: process; may sleep. The caller holds no lock that reading a file takes.
 *
 * Return: the number of bytes copied, which may be less than @len; 0: end of file;
 * -EBADF: not open for reading, or cannot be read into a kernel buffer (/proc/PID/mem,
 * guest_memfd); -EIO: a read error, a page with a memory error, an offset that is not
 * aligned in a file opened with O_DIRECT, or nothing was read although @pos is below the
 * end of the file; -EFAULT: memfd_secret(); -EOVERFLOW: no file has such an offset;
 * otherwise an error of the file system
 */
ssize_t filemap_copy(struct file *file, loff_t pos, void *buf, size_t len)
{
	const fmode_t readable = FMODE_READ | FMODE_OPENED;
	ssize_t ret;

	if (!valid_range(pos, len))
		return -EOVERFLOW;
	if ((file->f_mode & readable) != readable)
		return -EBADF;
	if (secretmem_mapping(file->f_mapping))
		return -EFAULT;
	/* __kernel_read() prints a warning for a file that only has ->read(), as in procfs. */
	if (!file->f_op->read_iter || file->f_op->read)
		return -EBADF;
	ret = __kernel_read(file, buf, len, &pos);
	/* To callers, -EINVAL and the end of the file are properties of the contents. */
	if ((ret == -EINVAL && file->f_flags & O_DIRECT) ||
	    (!ret && len && pos < i_size_read(file_inode(file))))
		return -EIO;
	return ret;
}

/**
 * filemap_start_read() - start to read the rest of a folio that is cached in part
 * @file:	the file; nothing is read if it is not open for reading, or is one of
 *		overlayfs, whose pages are those of a file in a layer
 * @pos:	offset in the file; nothing is read if no folio is there
 *
 * If blocks are smaller than a folio, a write can leave some of them up to date, and the
 * folio not. Readahead skips a folio that is in the page cache, and read() reads it only if
 * it needs another block. Until a page fault does, filemap_copy_nowait() returns -EFAULT.
 *
 * Does not wait for another read of the folio, nor for the end of its own, unless the file
 * system reads synchronously, as it then does in readahead. If the last read of the folio
 * failed, it is read again.
 *
 * Context: process; may sleep. The caller holds no lock that reading a file takes.
 */
void filemap_start_read(struct file *file, loff_t pos)
{
	const fmode_t readable = FMODE_READ | FMODE_OPENED;
	struct address_space *mapping = file->f_mapping;
	struct folio *folio;

	if ((file->f_mode & readable) != readable || !mapping->a_ops->read_folio)
		return;
	folio = filemap_get_folio(mapping, pos >> PAGE_SHIFT);
	if (IS_ERR(folio))
		return;
	/*
	 * As for any read: a hole punch must not free the blocks meanwhile. Only
	 * try the lock: a hole punch may be waiting for another read that never
	 * ends.
	 */
	if (!filemap_invalidate_trylock_shared(mapping))
		goto out;
	if (folio_trylock(folio)) {
		/* By now it may have been truncated, or read. */
		if (folio->mapping == mapping && !folio_test_uptodate(folio))
			mapping->a_ops->read_folio(file, folio);	/* unlocks it */
		else
			folio_unlock(folio);
	}
	filemap_invalidate_unlock_shared(mapping);
out:
	folio_put(folio);
}
