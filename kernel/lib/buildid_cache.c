// SPDX-License-Identifier: GPL-2.0
/*
 * Build IDs of files, kept for readers in any context
 *
 * An entry holds the build ID of the ELF file of an inode, or the fact that it
 * has none. Entries are in a hash table, so that struct inode does not grow;
 * IOP_BUILD_ID in i_opflags is set if there may be an entry.
 *
 * An entry is right because it exists only while nobody can write to the file:
 *
 *  1. A fill inserts a pending entry and sets IOP_BUILD_ID, both under i_lock,
 *     and then reads i_writecount. If that is above 0, it gives up.
 *  2. A writer raises i_writecount first, in get_write_access(), then reads
 *     IOP_BUILD_ID, and removes the entry if the flag is set, pending or not.
 *     Both sides have a full barrier between their store and their load, so at
 *     least one of them sees the other. It clears the flag after that, with a
 *     release: if a second writer does not see the flag, there is no entry.
 *  3. A writer that was done before the fill read i_writecount may not have seen
 *     the flag. put_write_access() releases the count that it lowers, the fill
 *     acquires it: the fill sees the writes of that writer.
 *  4. FIDEDUPERANGE is not a writer, but can change the contents. It does so first,
 *     and then removes the entry, as in point 2.
 *  5. The fill reads the headers from the page cache, and publishes only if its
 *     own pending entry is still in the table. A different entry is not enough: a
 *     writer may have been there in the meantime, and another fill begun.
 *
 * All of these barriers are needed: see fill-against-writer.litmus and
 * two-writers-against-reader.litmus in Documentation/litmus-tests/build-id.
 *
 * Point 3 relies on writes being complete before the access is put. write() returns
 * before its file can be put. The store of another thread to a shared mapping is
 * complete when munmap() has flushed the TLB of its CPU, and the mapping has a
 * reference to the file until then. Direct I/O and io_uring hold the file until the
 * request is complete, with or without an error. By then, pages that were read into
 * the page cache during the write have been invalidated. truncate(2) has write
 * access itself.
 *
 * So an entry in the table matches the contents of the file at any moment since
 * the fill began. This needs a file system that counts its writers
 * (SB_I_WRITERS_COUNTED), or contents that are sealed (fs-verity).
 *
 * These are not detected:
 *  - Changes below the file system: to its block device, or to the file of a
 *    loop device, while it is mounted. A pNFS client with a block layout of a file on
 *    XFS writes to the device, too; only a file that it has opened for write counts.
 *    So does swap to a swap file. No entry exists until swapoff(), but that leaves the
 *    old pages in the page cache, and the next fill reads them. Root alone can do it.
 *  - A page that a device continues to write to after the last writer has closed
 *    the file. So a fill leaves out pages that may be pinned. Plain references
 *    do not count, as most are held to read. So these are not detected: writes
 *    without a pin into a mapping that has been unmapped, such as direct I/O of NFS
 *    and Ceph, zero-copy of 9p, vhost-scsi, and reads of /dev/fuse.
 *  - A page that cannot be invalidated after a direct write
 *    (dio_warn_stale_pagecache()), or that btrfs leaves in the page cache of the
 *    destination of FIDEDUPERANGE. It keeps the old contents, which read() returns as
 *    well, until it is evicted. The entry is as old as the page, and is not dropped then.
 *  - Contents that are lost by a failed writeback, or with the memory of a dirty
 *    page, where the file then reads as it did before it was written.
 * Size and ctime are compared as well: they cost little, and catch a file system
 * that set the flag wrongly.
 *
 * Lifetime: an entry holds no reference to the inode. clear_inode() removes it
 * before the inode's memory can become another inode. Entries are freed after
 * a grace period; a reader in an RCU section may see one that has just been
 * removed, and was right a moment before. A pending entry belongs to its fill,
 * which frees it; other code that removes it only unhashes it.
 *
 * Lock order: inode->i_lock, then the lock of the bucket. Readers take no locks,
 * and can run in an NMI. A bucket has at most BUCKET_MAX entries; the oldest one
 * is removed to make room. That bounds the walk of a reader and the size of the
 * table. An rhashtable does not fit: a lookup that misses while the table is
 * being resized starts again, forever if it is in an NMI on the CPU that resizes.
 */
#define pr_fmt(fmt) "build_id_cache: " fmt

#include <linux/buildid.h>
#include <linux/fadvise.h>
#include <linux/file.h>
#include <linux/filemap_copy.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/vma_snapshot.h>
#include <linux/workqueue.h>

#include "buildid.h"

#define CREATE_TRACE_POINTS
#include <trace/events/build_id.h>

#define BUCKET_MAX 8

enum build_id_state {
	BUILD_ID_PENDING,
	BUILD_ID_KNOWN,
	BUILD_ID_NONE,
};

/* Constant once @state is no longer BUILD_ID_PENDING. */
struct build_id_entry {
	struct hlist_node node;		/* bucket's lock; RCU */
	const struct inode *inode;
	loff_t size;
	time64_t ctime_sec;
	u32 ctime_nsec;
	u8 state;			/* enum build_id_state */
	u8 len;
	u8 id[BUILD_ID_SIZE_MAX];
	struct rcu_head rcu;
};

struct build_id_bucket {
	spinlock_t lock;		/* @nr, the list, and states in it */
	unsigned int nr;
	struct hlist_head head;
};

/*
 * Can entries be inserted? Written under switch_lock, read under the lock of a bucket;
 * elsewhere a hint. Not a static key: anyone who may open a perf event for its own task
 * could then interrupt all CPUs.
 */
bool build_id_cache_on __read_mostly;

/* Made when the cache is first switched on, and never freed. */
static struct build_id_bucket *buckets;
static unsigned int bucket_bits;
static struct kmem_cache *entry_cache;

static bool have_table(void)
{
	/*
	 * build_id_cache_on is not a barrier. Pairs with the release in make_table():
	 * Documentation/litmus-tests/build-id/first-use-of-table.litmus.
	 */
	return smp_load_acquire(&buckets);
}

static struct build_id_bucket *bucket_of(const struct inode *inode)
{
	return &buckets[hash_ptr(inode, bucket_bits)];
}

static void entry_free_rcu(struct rcu_head *rcu)
{
	kmem_cache_free(entry_cache, container_of(rcu, struct build_id_entry, rcu));
}

static struct build_id_entry *bucket_find(struct build_id_bucket *b, const struct inode *inode)
{
	struct build_id_entry *e;

	hlist_for_each_entry_rcu(e, &b->head, node, lockdep_is_held(&b->lock))
		if (e->inode == inode)
			return e;
	return NULL;
}

static void bucket_remove(struct build_id_bucket *b, struct build_id_entry *e)
{
	lockdep_assert_held(&b->lock);
	hlist_del_init_rcu(&e->node);
	b->nr--;
	/*
	 * Pairs with the RCU read-side section of the callers of cache_read():
	 * Documentation/litmus-tests/build-id/lookup-against-free.litmus.
	 */
	if (e->state != BUILD_ID_PENDING)
		call_rcu(&e->rcu, entry_free_rcu);
}

static void bucket_remove_oldest(struct build_id_bucket *b)
{
	struct build_id_entry *e, *oldest = NULL;

	hlist_for_each_entry(e, &b->head, node)
		oldest = e;
	if (oldest)
		bucket_remove(b, oldest);
}

void __build_id_cache_forget(struct inode *inode)
{
	struct build_id_entry *e;
	struct build_id_bucket *b;

	/* The flag was set under i_lock, when the table existed. */
	guard(spinlock)(&inode->i_lock);
	b = bucket_of(inode);
	scoped_guard(spinlock, &b->lock) {
		e = bucket_find(b, inode);
		if (e) {
			bucket_remove(b, e);
			trace_build_id_invalidate(inode, 0);
		}
	}
	/*
	 * Last, and with a release: a second writer that does not see the flag does not
	 * wait for i_lock. A reader that begins after its write must not find the entry.
	 * Pairs with the load in build_id_cache_forget():
	 * Documentation/litmus-tests/build-id/two-writers-against-reader.litmus.
	 */
	smp_store_release(&inode->i_opflags, inode->i_opflags & ~IOP_BUILD_ID);
}
EXPORT_SYMBOL(__build_id_cache_forget);

/* --- reading -------------------------------------------------------------- */

static bool entry_matches(const struct build_id_entry *e, const struct inode *inode)
{
	return e->size == i_size_read(inode) &&
	       e->ctime_sec == inode_get_ctime_sec(inode) &&
	       e->ctime_nsec == inode_get_ctime_nsec(inode);
}

/*
 * The caller is in an RCU section, which keeps the memory of @inode. If it does
 * not hold @inode, it then checks that this is still the same inode.
 */
static __always_inline int cache_read(const struct inode *inode, unsigned char *build_id,
				      __u32 *size)
{
	const struct build_id_entry *e;
	enum build_id_state state;

	if (unlikely(!have_table()))
		return -EAGAIN;
	e = bucket_find(bucket_of(inode), inode);
	if (!e)
		return -EAGAIN;
	/*
	 * The rest is complete. Pairs with the release in fill_end():
	 * Documentation/litmus-tests/build-id/publish-against-reader.litmus.
	 */
	state = smp_load_acquire(&e->state);
	if (state == BUILD_ID_PENDING || inode_is_open_for_write(inode) ||
	    !entry_matches(e, inode))
		return -EAGAIN;
	if (state == BUILD_ID_NONE)
		return -ENOENT;
	memcpy(build_id, e->id, BUILD_ID_SIZE_MAX);
	if (size)
		*size = e->len;
	return 0;
}

/* Can @inode have an entry? As for cache_read(), the caller need not hold it. */
static bool cacheable_inode(const struct inode *inode)
{
	return S_ISREG(inode->i_mode) && !IS_DAX(inode) &&
	       (inode->i_sb->s_iflags & SB_I_WRITERS_COUNTED || IS_VERITY(inode)) &&
	       !inode_is_open_for_write(inode);
}

int __build_id_cached(const struct file *file, unsigned char *build_id, __u32 *size)
{
	const struct address_space *mapping = build_id_mapping(file);
	const struct inode *inode;
	int err;

	if (!mapping)
		return -EAGAIN;
	inode = mapping->host;
	guard(rcu)();
	err = cache_read(inode, build_id, size);
	if (err != -EAGAIN)
		trace_build_id_hit(inode, err);
	else
		trace_build_id_miss(inode, err);
	return err;
}

/**
 * vma_snapshot_build_id() - get the cached build ID of the file of a snapshot
 * @mm:       the mm that has the mapping
 * @snap:     filled by vma_snapshot_at() or vma_snapshot_next() in this RCU
 *            read-side critical section
 * @build_id: buffer of BUILD_ID_SIZE_MAX bytes
 * @size:     returns the size of the build ID, if not NULL
 *
 * Takes no lock and no reference, reads no file.
 *
 * Context: any, NMI included.
 *
 * Return: as build_id_at()
 */
int vma_snapshot_build_id(struct mm_struct *mm, const struct vma_snapshot *snap,
			  unsigned char *build_id, __u32 *size)
{
	int err;

	if (!snap->inode || snap->anon)
		return -ENOENT;
	if (!READ_ONCE(build_id_cache_on))
		return -EOPNOTSUPP;

	err = cache_read(snap->inode, build_id, size);
	if (err == -EAGAIN && (!cacheable_inode(snap->inode) ||
			       FMODE_FSNOTIFY_HSM(READ_ONCE(snap->file->f_mode))))
		err = -EOPNOTSUPP;
	if (vma_snapshot_stale(mm, snap))
		return -EAGAIN;

	if (!err || err == -ENOENT)
		trace_build_id_hit(snap->inode, err);
	else
		trace_build_id_miss(snap->inode, err);
	return err;
}

int __build_id_at(unsigned long addr, struct vma_snapshot *snap, unsigned char *build_id,
		  __u32 *size)
{
	struct mm_struct *mm = current->mm;
	int err, tries = VMA_SNAPSHOT_TRIES;

	/*
	 * Keeps the memory that @snap points to; vma_snapshot_stale() checks its identity.
	 * Documentation/litmus-tests/vma/memory-of-snapshot.litmus.
	 */
	guard(rcu)();
	do {
		err = vma_snapshot_at(mm, addr, snap);
		if (likely(!err)) {
			err = vma_snapshot_build_id(mm, snap, build_id, size);
			/* A writer interfered, or it is a miss. */
			if (likely(err != -EAGAIN) || !vma_snapshot_stale(mm, snap))
				return err;
		}
	} while (err == -EAGAIN && vma_snapshot_retry(mm, snap) && --tries);
	snap->end = 0;
	return err;
}

/* --- filling -------------------------------------------------------------- */

static bool cacheable_file(const struct file *file, const struct address_space *mapping)
{
	const struct inode *inode = mapping->host;

	return cacheable_inode(inode) && inode->i_mapping == mapping &&
	       !FMODE_FSNOTIFY_HSM(file->f_mode);
}

/* Publishes @build_id, or that there is none, if the entry is still in the table. */
static void fill_end(struct build_id_entry *e, int err, const unsigned char *build_id, u32 size)
{
	const struct inode *inode = e->inode;
	struct build_id_bucket *b = bucket_of(inode);
	bool publish = false;

	spin_lock(&b->lock);
	if (!hlist_unhashed(&e->node)) {
		publish = (!err || build_id_error_of_file(err)) && entry_matches(e, inode);
		if (!publish) {
			bucket_remove(b, e);
		} else {
			if (!err) {
				memcpy(e->id, build_id, BUILD_ID_SIZE_MAX);
				e->len = size;
			}
			/*
			 * Pairs with the acquire in cache_read():
			 * Documentation/litmus-tests/build-id/publish-against-reader.litmus.
			 */
			smp_store_release(&e->state, err ? BUILD_ID_NONE : BUILD_ID_KNOWN);
		}
	}
	spin_unlock(&b->lock);

	trace_build_id_fill(inode, publish ? 0 : -EAGAIN);
	if (!publish)
		call_rcu(&e->rcu, entry_free_rcu);
}

/*
 * Begins a fill for the inode of @mapping, which @file reads from. Returns NULL if there
 * is an entry already, or the inode cannot have one.
 */
static struct build_id_entry *fill_begin(const struct file *file,
					 const struct address_space *mapping)
{
	struct inode *inode = mapping->host;
	struct build_id_entry *e, *old;
	struct build_id_bucket *b;
	bool inserted = false;

	if (!READ_ONCE(build_id_cache_on) || !have_table() ||
	    !cacheable_file(file, mapping))
		return NULL;
	/* Without an entry nothing is lost, and the task may be returning to user mode. */
	e = kmem_cache_zalloc(entry_cache, GFP_NOWAIT);
	if (!e)
		return NULL;
	e->inode = inode;

	b = bucket_of(inode);
	spin_lock(&inode->i_lock);
	spin_lock(&b->lock);
	old = bucket_find(b, inode);
	if (READ_ONCE(build_id_cache_on) &&
	    !(old && (old->state == BUILD_ID_PENDING || entry_matches(old, inode)))) {
		if (old)
			bucket_remove(b, old);
		else if (b->nr >= BUCKET_MAX)
			bucket_remove_oldest(b);
		/*
		 * A release. Pairs with the address dependency in bucket_find():
		 * Documentation/litmus-tests/build-id/insert-against-lookup.litmus.
		 */
		hlist_add_head_rcu(&e->node, &b->head);
		b->nr++;
		WRITE_ONCE(inode->i_opflags, inode->i_opflags | IOP_BUILD_ID);
		inserted = true;
	}
	spin_unlock(&b->lock);
	spin_unlock(&inode->i_lock);
	if (!inserted) {
		kmem_cache_free(entry_cache, e);
		return NULL;
	}

	/*
	 * Pairs with atomic_inc_unless_negative() in get_write_access(): a writer
	 * that does not see the flag is seen here, while it has write access or after
	 * it has put that. The acquire pairs with the release in put_write_access():
	 * in the second case, its writes are visible below. Litmus test:
	 * Documentation/litmus-tests/build-id/fill-against-writer.litmus.
	 */
	smp_mb();
	if (atomic_read_acquire(&inode->i_writecount) > 0) {
		fill_end(e, -EAGAIN, NULL, 0);
		return NULL;
	}
	e->size = i_size_read(inode);
	e->ctime_sec = inode_get_ctime_sec(inode);
	e->ctime_nsec = inode_get_ctime_nsec(inode);
	return e;
}

/*
 * A file cannot be read before it is open, as at the hook file_open, or if it is open for
 * writing alone. The page cache may have it.
 */
static int read_wait(struct file *file, struct address_space *mapping,
		     unsigned char *build_id, __u32 *size)
{
	struct build_id_from page_cache = { .mapping = mapping };
	struct build_id_from wait = { .file = file };
	int err;

	err = build_id_read(&wait, build_id, size);
	if (err == -EBADF && mapping)
		err = build_id_read(&page_cache, build_id, size);
	return err;
}

int build_id_fill_wait(struct file *file, unsigned char *build_id, __u32 *size)
{
	struct build_id_from page_cache = { .mapping = build_id_mapping(file), .unpinned = true };
	struct build_id_entry *e = NULL;
	__u32 len = 0;
	int err, kept;

	if (page_cache.mapping)
		e = fill_begin(file, page_cache.mapping);
	if (!e)
		return read_wait(file, page_cache.mapping, build_id, size);

	/* Only contents of pages that no device may be writing to are kept. */
	err = build_id_read(&page_cache, build_id, &len);
	kept = err;
	if (err == -EFAULT || err == -EBUSY) {
		err = read_wait(file, page_cache.mapping, build_id, &len);
		if (!err || build_id_error_of_file(err))
			kept = build_id_read(&page_cache, build_id, &len);
	}
	fill_end(e, kept, build_id, len);
	/* A part of the page was enough for read(). The next fill needs all of it. */
	if (kept == -EFAULT && (!err || build_id_error_of_file(err)))
		filemap_start_read(file, page_cache.missing);
	if (!err && size)
		*size = len;
	return err;
}

/*
 * Returns the file that is mapped at @addr of current, with a reference, or NULL. It is
 * taken from the mapping: overlayfs maps another file than was passed to mmap(), and
 * since the miss something else may have been mapped.
 */
static struct file *get_file_at(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct file *file = NULL;

	vma = lock_vma_under_rcu(mm, addr);
	if (vma) {
		if (vma->vm_file && !vma_is_anonymous(vma))
			file = get_file(vma->vm_file);
		vma_end_read(vma);
	} else if (mmap_read_trylock(mm)) {
		/*
		 * Rarely: mostly a writer holds both locks. Here, one has just released
		 * them, or it replaced the VMA between the walk of the tree and the lock.
		 * After mmap(), no sample may ever request this again.
		 */
		vma = vma_lookup(mm, addr);
		if (vma && vma->vm_file && !vma_is_anonymous(vma))
			file = get_file(vma->vm_file);
		mmap_read_unlock(mm);
	}
	return file;
}

/*
 * Reading ahead can wait: for memory, for locks of the file system, and for the
 * blocks with the map of the file. A task must not wait for that because it was
 * sampled, so a worker does it. It holds the file and not the mm_struct: if the
 * task exits, its memory and its other files must not wait for this read.
 */
struct build_id_ahead {
	struct work_struct work;
	struct file *file;
	struct mem_cgroup *memcg;	/* of the task, for the pages */
	loff_t pos;
};

/* The maximum number of workers that unresponsive storage can occupy. */
#define AHEAD_MAX 8

static atomic_t nr_ahead;

static void ahead_work(struct work_struct *work)
{
	struct build_id_ahead *ahead = container_of(work, struct build_id_ahead, work);
	struct mem_cgroup *old = set_active_memcg(ahead->memcg);

	/*
	 * Not by read(), which would set the access time and change the state of the
	 * file's readahead. A page that is cached in part is skipped by readahead.
	 */
	filemap_start_read(ahead->file, ahead->pos);
	vfs_fadvise(ahead->file, ahead->pos, 1, POSIX_FADV_WILLNEED);
	set_active_memcg(old);
	mem_cgroup_put(ahead->memcg);
	/* Put it now: fput() would defer the last put. */
	__fput_sync(ahead->file);
	kfree(ahead);
	atomic_dec(&nr_ahead);
}

/* Queues reading ahead of the page at @pos. If that fails, the next miss tries again. */
static void read_ahead(struct file *file, loff_t pos)
{
	struct build_id_ahead *ahead;

	if (atomic_inc_return(&nr_ahead) > AHEAD_MAX)
		goto later;
	ahead = kmalloc_obj(*ahead, GFP_NOWAIT);
	if (!ahead)
		goto later;
	INIT_WORK(&ahead->work, ahead_work);
	ahead->file = get_file(file);
	ahead->memcg = get_mem_cgroup_from_mm(current->mm);
	ahead->pos = pos;
	queue_work(system_dfl_wq, &ahead->work);
	return;
later:
	atomic_dec(&nr_ahead);
}

/*
 * Fills the entry of the file that is mapped at @addr of current from the page cache.
 * A page that is missing is read ahead, for the next fill. One that may be pinned
 * (-EBUSY) is there already. Does not wait for the page.
 */
static void fill_at(unsigned long addr)
{
	struct build_id_from page_cache = { .unpinned = true };
	unsigned char build_id[BUILD_ID_SIZE_MAX];
	struct build_id_entry *e;
	struct file *file;
	__u32 len = 0;
	int err;

	if (!current->mm)
		return;
	file = get_file_at(addr);
	if (!file)
		return;
	/* With overlayfs, the file of a VMA is the one in the layer. */
	e = fill_begin(file, file->f_mapping);
	if (e) {
		page_cache.mapping = file->f_mapping;
		err = build_id_read(&page_cache, build_id, &len);
		fill_end(e, err, build_id, len);
		if (err == -EFAULT)
			read_ahead(file, page_cache.missing);
	}
	fput(file);
}

void __build_id_mapped(const struct file *file, unsigned long addr)
{
	unsigned char build_id[BUILD_ID_SIZE_MAX];
	struct vma_snapshot snap;
	int err;

	/* Nearly always there is an entry: then the mapping need not be looked up. */
	rcu_read_lock();
	err = cache_read(file_inode(file), build_id, NULL);
	rcu_read_unlock();
	if (err != -EAGAIN)
		return;
	if (build_id_at(addr, &snap, build_id, NULL) == -EAGAIN)
		fill_at(addr);
}

/* --- misses --------------------------------------------------------------- */

/*
 * A miss holds only an address. A reference to the file could not be dropped in
 * an NMI, and would prevent unmounting.
 */
struct build_id_miss {
	struct callback_head work;
	struct task_struct *task;	/* that had the miss, NULL: free */
	unsigned long addr;
};

#define MISSES 8

struct build_id_misses {
	struct build_id_miss miss[MISSES];
	struct irq_work take_back;
};

/* Of the CPU on which a miss occurs; its work runs where the task is then. */
static struct build_id_misses __percpu *misses;

/*
 * BPF programs that run in fill_at() may take user stacks, too. task_work_run() would
 * execute what they request next, and again as long as the fill fails: the task would
 * never return to user mode, not even to be killed. in_build_id_fill prevents that for
 * programs that run in fill_at(). ftrace runs none at the entry of this function, before
 * it is set: it does not trace functions of lib/. Programs that run later on the same way
 * to user mode, such as at blkcg_maybe_throttle_current(), can still request again;
 * between these requests, the task handles signals. A program at a function that
 * task_work_run() itself calls, such as _raw_spin_lock_irq(), is not covered: if the
 * fills of two mappings fail, each run of works can request the other one, until a fill
 * succeeds or the program is detached.
 */
static void miss_work(struct callback_head *work)
{
	struct build_id_miss *m = container_of(work, struct build_id_miss, work);
	unsigned long addr = m->addr;

	current->in_build_id_fill = 1;
	/*
	 * From here on another miss can claim it. Pairs with cmpxchg() in
	 * build_id_request():
	 * Documentation/litmus-tests/build-id/miss-slot-reuse.litmus.
	 */
	smp_store_release(&m->task, NULL);
	fill_at(addr);
	current->in_build_id_fill = 0;
}

/*
 * A task that sleeps may not return to user mode for hours. The slots that it has
 * claimed are taken back when no free one is left; its next sample claims one again.
 * Only from the head of its list of works: task_work_cancel() searches the list with
 * interrupts off, and the task may have closed any number of files, each of which is put
 * by a work.
 *
 * task_work_cancel() takes pi_lock, which a caller of build_id_request() may hold.
 * This is called from an irq_work, which cannot interrupt a holder of pi_lock.
 *
 * @task can be dereferenced: when it was read, its miss_work() had not run yet, which
 * it does before the task has exited, and from then on RCU keeps the task's memory.
 */
static void take_back_from_sleepers(struct irq_work *work)
{
	struct build_id_misses *all = container_of(work, struct build_id_misses, take_back);
	struct task_struct *task;
	struct build_id_miss *m;

	guard(rcu)();
	for (m = all->miss; m < all->miss + MISSES; m++) {
		task = READ_ONCE(m->task);
		if (task && READ_ONCE(task->__state) != TASK_RUNNING &&
		    READ_ONCE(task->task_works) == &m->work && task_work_cancel(task, &m->work))
			/*
			 * As in miss_work(): task_work_cancel() was the last access
			 * to m->work. Pairs with cmpxchg() in build_id_request():
			 * Documentation/litmus-tests/build-id/miss-slot-reuse.litmus.
			 */
			smp_store_release(&m->task, NULL);
	}
}

/**
 * build_id_request() - request that the build ID at an address be cached
 * @addr: user address of current
 *
 * When current returns to user mode, the headers of the file that is mapped at
 * @addr then are read from the page cache. If they are not there, a worker reads
 * them ahead, for a later request; current does not wait for it. Does nothing for kernel
 * threads and io_uring workers, which never return to user mode, nor while current serves
 * such a request.
 *
 * Context: any, NMI included, after build_id_at() has returned -EAGAIN.
 */
void build_id_request(unsigned long addr)
{
	struct build_id_misses *mine;
	struct build_id_miss *m;

	if (current->flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING) ||
	    current->in_build_id_fill || !have_table())
		return;
	/* The slots of any CPU would do: a claim does not depend on the CPU. */
	mine = raw_cpu_ptr(misses);
	for (m = mine->miss; m < mine->miss + MISSES; m++)
		if (READ_ONCE(m->task) == current && READ_ONCE(m->addr) == addr)
			return;
	for (m = mine->miss; m < mine->miss + MISSES; m++) {
		/*
		 * Pairs with the releases in miss_work() and take_back_from_sleepers():
		 * Documentation/litmus-tests/build-id/miss-slot-reuse.litmus.
		 */
		if (READ_ONCE(m->task) || cmpxchg(&m->task, NULL, current))
			continue;
		WRITE_ONCE(m->addr, addr);
		init_task_work(&m->work, miss_work);
		if (task_work_add(current, &m->work, in_nmi() ? TWA_NMI_CURRENT : TWA_RESUME))
			WRITE_ONCE(m->task, NULL);	/* exiting: nothing was queued */
		return;
	}
	/* All are claimed: the next sample requests it again. */
	irq_work_queue(&mine->take_back);
}

/* --- switching on and off ------------------------------------------------- */

static DEFINE_MUTEX(switch_lock);
static atomic_t users;

/*
 * One or two buckets for each MiB of memory, 16,384 at most: 131,072 files, and no more
 * than 0.2 % of memory in entries. They are not charged to a memory cgroup: that bound
 * is for all of them, and an entry serves every later reader, not the task that was
 * sampled. If the cgroup of that task were charged, nothing would be kept in a cgroup
 * at its limit, as entries are allocated without reclaim.
 */
static int make_table(void)
{
	unsigned long nr = clamp(totalram_pages() >> (20 - PAGE_SHIFT), 64UL, 16384UL);
	struct build_id_bucket *table;
	unsigned long i;
	int cpu;

	if (buckets)
		return 0;
	if (!entry_cache)
		entry_cache = KMEM_CACHE(build_id_entry, 0);
	if (!entry_cache)
		return -ENOMEM;
	if (!misses)
		misses = alloc_percpu(struct build_id_misses);
	if (!misses)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		init_irq_work(&per_cpu_ptr(misses, cpu)->take_back, take_back_from_sleepers);
	nr = roundup_pow_of_two(nr);
	table = kvcalloc(nr, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		spin_lock_init(&table[i].lock);
	bucket_bits = ilog2(nr);
	/*
	 * The rest is complete. Pairs with the acquire in have_table():
	 * Documentation/litmus-tests/build-id/first-use-of-table.litmus.
	 */
	smp_store_release(&buckets, table);
	return 0;
}

static u8 sysctl_build_id_cache = 1;

static void switch_on(void)
{
	lockdep_assert_held(&switch_lock);
	if (build_id_cache_on || !sysctl_build_id_cache)
		return;
	if (make_table()) {
		pr_warn_once("no memory for the table, build IDs are not kept\n");
		return;
	}
	WRITE_ONCE(build_id_cache_on, true);
}

static void switch_off(void)
{
	struct build_id_bucket *b;

	lockdep_assert_held(&switch_lock);
	if (!build_id_cache_on)
		return;
	/*
	 * A fill sees this under the lock of the bucket, or its entry is removed here:
	 * Documentation/litmus-tests/build-id/switch-off-against-fill.litmus.
	 */
	WRITE_ONCE(build_id_cache_on, false);
	for (b = buckets; b < buckets + (1UL << bucket_bits); b++) {
		scoped_guard(spinlock, &b->lock)
			while (b->nr)
				bucket_remove_oldest(b);
		/* IOP_BUILD_ID stays: it means that there may be an entry. */
		cond_resched();
	}
}

static void switch_off_idle(struct work_struct *work)
{
	guard(mutex)(&switch_lock);
	if (!atomic_read(&users))
		switch_off();
}

static DECLARE_DELAYED_WORK(idle_work, switch_off_idle);

/**
 * build_id_cache_get() - start to keep build IDs
 *
 * Called when something is created that needs build IDs in contexts that cannot
 * read files. The first user switches the cache on; entries are made when files
 * are mapped or build IDs are requested. A failure is not reported: then build
 * IDs are read each time, as they are without the cache.
 *
 * Context: process; may sleep.
 */
void build_id_cache_get(void)
{
	if (atomic_inc_not_zero(&users))
		return;
	guard(mutex)(&switch_lock);
	switch_on();
	atomic_inc(&users);
}

/**
 * build_id_cache_put() - undo one build_id_cache_get()
 *
 * The cache is emptied and switched off when it has had no user for a second,
 * so that tools which are started one after the other share it.
 *
 * Context: any but NMI.
 */
void build_id_cache_put(void)
{
	if (atomic_dec_and_test(&users))
		mod_delayed_work(system_dfl_wq, &idle_work, HZ);
}

static int build_id_cache_sysctl(const struct ctl_table *table, int write, void *buffer,
				 size_t *lenp, loff_t *ppos)
{
	int err;

	guard(mutex)(&switch_lock);
	err = proc_dou8vec_minmax(table, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	if (!sysctl_build_id_cache)
		switch_off();
	else if (atomic_read(&users))
		switch_on();
	return 0;
}

static const struct ctl_table build_id_cache_table[] = {
	{
		.procname	= "build_id_cache",
		.data		= &sysctl_build_id_cache,
		.maxlen		= sizeof(sysctl_build_id_cache),
		.mode		= 0644,
		.proc_handler	= build_id_cache_sysctl,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init build_id_cache_init(void)
{
	register_sysctl_init("kernel", build_id_cache_table);
	return 0;
}
late_initcall(build_id_cache_init);
