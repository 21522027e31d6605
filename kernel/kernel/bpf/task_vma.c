// SPDX-License-Identifier: GPL-2.0
/*
 * Map an address of current to a file and an offset, for BPF programs that take samples,
 * in any context. See Documentation/bpf/task_vma.rst.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/buildid.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kdev_t.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/uaccess.h>
#include <linux/vma_snapshot.h>

/**
 * enum bpf_task_vma_build_id - status of the build ID of a mapping
 * @BPF_TASK_VMA_BUILD_ID_NO_FILE: no file is mapped
 * @BPF_TASK_VMA_BUILD_ID_VALID: it is in the record
 * @BPF_TASK_VMA_BUILD_ID_NONE: the file has none, or is not an ELF file
 * @BPF_TASK_VMA_BUILD_ID_PENDING: not in the cache. It was requested, and is read
 *	when the task returns to user mode. The request is dropped if the task does
 *	not return there, or if eight requests of this CPU were waiting
 * @BPF_TASK_VMA_BUILD_ID_UNKNOWN: not in the cache, and another query soon doesn't
 *	help: build IDs of this file are not cached, because the kernel does not
 *	detect all writes to it, or it is open for write, or kernel.build_id_cache
 *	is 0, or the kernel has no CONFIG_BUILD_ID_CACHE
 */
enum bpf_task_vma_build_id {
	BPF_TASK_VMA_BUILD_ID_NO_FILE,
	BPF_TASK_VMA_BUILD_ID_VALID,
	BPF_TASK_VMA_BUILD_ID_NONE,
	BPF_TASK_VMA_BUILD_ID_PENDING,
	BPF_TASK_VMA_BUILD_ID_UNKNOWN,
};

/**
 * struct bpf_task_vma_record - a mapping, as bpf_task_vma_query() returns it
 * @start: first address, in bytes
 * @end: first address past the end, in bytes
 * @offset: offset of @start in the file, in bytes; 0 if no file is mapped
 * @ino: inode number of the file, 0 if no file is mapped. This and @dev_major,
 *	@dev_minor are the values in /proc/PID/maps
 * @mm: a token that represents the address space: equal for two records of one
 *	task if it did not call exec() in between, and different with a probability
 *	of 1 - 2^-64 if it did. A sample inside exec(), after the new mm was
 *	installed, may have a third value. After a task has exited, another one can
 *	have its token
 * @flags: PROCMAP_QUERY_VMA_READABLE, _WRITABLE, _EXECUTABLE, _SHARED
 * @seq: a different value whenever the address space may have changed, until it
 *	wraps around, after 2^31 changes. Compare it for equality only: two records
 *	with equal @mm and @seq, and fewer changes than that in between, were true
 *	at the same time. Odd if another mapping was being changed: then, each
 *	mapping that was found is described correctly, but one that is missing may
 *	exist. @mm and @seq are also set if there is no such mapping
 * @dev_major: major number of the file's device, 0 if no file is mapped
 * @dev_minor: its minor number
 * @generation: of the inode, 0 if the file system has none: it distinguishes a
 *	file from a later one with the same inode number
 * @build_id_status: enum bpf_task_vma_build_id
 * @build_id_len: length of the build ID in bytes, 0 if @build_id is not valid
 * @reserved: 0
 * @build_id: GNU build ID of the file, padded with zeros
 * @reserved2: 0
 *
 * New fields are only added at the end.
 */
struct bpf_task_vma_record {
	__u64 start;
	__u64 end;
	__u64 offset;
	__u64 ino;
	__u64 mm;
	__u32 flags;
	__u32 seq;
	__u32 dev_major;
	__u32 dev_minor;
	__u32 generation;
	__u8 build_id_status;
	__u8 build_id_len;
	__u8 reserved[2];
	__u8 build_id[BUILD_ID_SIZE_MAX];
	__u8 reserved2[4];
};

/* The size of the record when it was introduced: programs pass at least this. */
#define RECORD_SIZE_VER0 88

/* Mappings that one call skips at most. With this many, a call takes some 10 us. */
#define MAX_PASSED_OVER 64

#define PERMISSIONS (PROCMAP_QUERY_VMA_READABLE | PROCMAP_QUERY_VMA_WRITABLE | \
		     PROCMAP_QUERY_VMA_EXECUTABLE | PROCMAP_QUERY_VMA_SHARED)
#define VALID_FLAGS (PERMISSIONS | PROCMAP_QUERY_COVERING_OR_NEXT_VMA | \
		     PROCMAP_QUERY_FILE_BACKED_VMA)

static siphash_key_t token_key __ro_after_init;

/* The last token on each CPU: hashing takes longer than the rest of a point query. */
struct token_cache {
	const struct mm_struct *mm;
	u64 exec_id;
	u64 token;
};

static DEFINE_PER_CPU(struct token_cache, token_cache);

/*
 * The memory of an mm may become that of the next one. exec() increments self_exec_id,
 * which is part of the token for this reason: a task that gets the same memory again has
 * another token. User space may read records, so the address is hashed with a key.
 *
 * The token depends only on mm and exec_id, so that a cached one never gets stale. An
 * interrupt, or an NMI, in the middle of this has the same current, and so stores the
 * same values.
 */
static u64 mm_token(const struct mm_struct *mm)
{
	u64 token, exec_id = READ_ONCE(current->self_exec_id);
	struct token_cache *c;

	guard(preempt_notrace)();
	c = this_cpu_ptr(&token_cache);
	if (likely(READ_ONCE(c->mm) == mm && READ_ONCE(c->exec_id) == exec_id))
		return READ_ONCE(c->token);

	token = siphash_2u64((unsigned long)mm, exec_id, &token_key);
	WRITE_ONCE(c->mm, NULL);
	/* It must not be found before it is complete. */
	barrier();
	WRITE_ONCE(c->exec_id, exec_id);
	WRITE_ONCE(c->token, token);
	barrier();
	WRITE_ONCE(c->mm, mm);
	return token;
}

static u32 permissions(vm_flags_t flags)
{
	return (flags & VM_READ ? PROCMAP_QUERY_VMA_READABLE : 0) |
	       (flags & VM_WRITE ? PROCMAP_QUERY_VMA_WRITABLE : 0) |
	       (flags & VM_EXEC ? PROCMAP_QUERY_VMA_EXECUTABLE : 0) |
	       (flags & VM_MAYSHARE ? PROCMAP_QUERY_VMA_SHARED : 0);
}

/* Does a mapping with these @perms match @flags? As in PROCMAP_QUERY. */
static bool matches(const struct vma_snapshot *snap, u32 perms, u64 flags)
{
	if (flags & PROCMAP_QUERY_FILE_BACKED_VMA && !snap->file)
		return false;
	return !(flags & PERMISSIONS & ~perms);
}

/* @rec may be in memory of the program: nothing is read from it. */
static void set_build_id(struct bpf_task_vma_record *rec, struct mm_struct *mm,
			 const struct vma_snapshot *snap)
{
	u32 len = 0;
	u8 status;

	switch (vma_snapshot_build_id(mm, snap, rec->build_id, &len)) {
	case 0:
		status = BPF_TASK_VMA_BUILD_ID_VALID;
		break;
	case -ENOENT:
		status = BPF_TASK_VMA_BUILD_ID_NONE;
		break;
	case -EAGAIN:
		status = BPF_TASK_VMA_BUILD_ID_PENDING;
		/* If it is stale, the caller returns -EAGAIN. */
		if (!vma_snapshot_stale(mm, snap))
			build_id_request(snap->start);
		break;
	default:
		status = BPF_TASK_VMA_BUILD_ID_UNKNOWN;
	}
	/* The caller does not clear it. */
	if (status != BPF_TASK_VMA_BUILD_ID_VALID) {
		memset(rec->build_id, 0, sizeof(rec->build_id));
		len = 0;
	}
	rec->build_id_status = status;
	rec->build_id_len = len;
}

/*
 * In an RCU read-side section. Fills in all of @rec on success. After -EAGAIN, @retry is
 * set if trying again may help.
 */
static __always_inline int query(struct mm_struct *mm, u64 addr, u64 flags,
				 struct bpf_task_vma_record *rec, bool *retry)
{
	struct vma_file_id id = {};
	struct vma_snapshot snap __uninitialized;	/* filled in, or not used */
	int err, passed = 0;
	u32 perms;

	for (;;) {
		if (!(flags & PROCMAP_QUERY_COVERING_OR_NEXT_VMA))
			err = vma_snapshot_at(mm, addr, &snap);
		else
			err = vma_snapshot_next(mm, addr, &snap);
		/* No writer maps anything there. Stacks have such words. */
		if (err && addr >= TASK_SIZE_MAX)
			err = -ENOENT;
		if (err == -ENOENT)
			goto no_match;
		if (err)
			goto again;
		perms = permissions(snap.flags);
		if (matches(&snap, perms, flags))
			break;
		err = -ENOENT;
		if (!(flags & PROCMAP_QUERY_COVERING_OR_NEXT_VMA))
			goto no_match;
		addr = snap.end;
		if (++passed == MAX_PASSED_OVER) {
			err = -EINPROGRESS;
			goto no_match;
		}
	}

	if (snap.file) {
		/* First, so that the identity need not be saved across a call. */
		set_build_id(rec, mm, &snap);
		err = vma_snapshot_file_id(mm, &snap, &id);
		if (err)
			goto again;
		rec->offset = (u64)snap.pgoff << PAGE_SHIFT;
	} else {
		rec->offset = 0;
		rec->build_id_status = BPF_TASK_VMA_BUILD_ID_NO_FILE;
		rec->build_id_len = 0;
		memset(rec->build_id, 0, sizeof(rec->build_id));
	}
	rec->start = snap.start;
	rec->end = snap.end;
	rec->ino = id.ino;
	rec->mm = mm_token(mm);
	rec->flags = perms;
	rec->seq = snap.seq;
	rec->dev_major = MAJOR(id.dev);
	rec->dev_minor = MINOR(id.dev);
	rec->generation = id.generation;
	memset(rec->reserved, 0, sizeof(rec->reserved));
	memset(rec->reserved2, 0, sizeof(rec->reserved2));
	return 0;

no_match:
	/* With @mm and @seq, a walk can check that it was a snapshot up to its end. */
	memset(rec, 0, sizeof(*rec));
	rec->end = err == -EINPROGRESS ? addr : 0;
	rec->mm = mm_token(mm);
	rec->seq = snap.seq;
	return err;

again:
	*retry = vma_snapshot_retry(mm, &snap);
	return err;
}

__bpf_kfunc_start_defs();

/**
 * bpf_task_vma_query() - look up the mapping at an address of the current task
 * @addr:	user address, in bytes, without a tag: see untagged_addr()
 * @flags:	flags of PROCMAP_QUERY, enum procmap_query_flags. 0: the mapping
 *		at @addr. PROCMAP_QUERY_COVERING_OR_NEXT_VMA: or else the next one
 *		above. PROCMAP_QUERY_FILE_BACKED_VMA and the permissions: only
 *		mappings of files, or with these permissions
 * @out:	filled with a struct bpf_task_vma_record
 * @out__sz:	size of @out in bytes, at least that of the record when it was
 *		introduced. A newer kernel fills as much of its record as fits; an
 *		older one fills its own, and zeros after it
 *
 * A record is consistent: its fields were read while nobody was changing the
 * mapping. Takes no lock and no reference, and never waits. The time that it takes
 * is bounded while nobody changes mappings: a descent of the tree starts again each
 * time that a writer on another CPU replaced the node that it is in. A loop that
 * queries the mapping at or after the end of the previous one is a walk, with the
 * guarantees of bpf_iter_task_vma_new(). If it queries all mappings, with no further
 * flag, and all its records, including that of the -ENOENT at the end, have the same
 * @mm and the same even @seq, it is a snapshot of the address space.
 *
 * Paths and names like [heap] are not returned, as they require a lock. [vsyscall] is
 * not a mapping. The build ID comes from the kernel's cache, which is on while a
 * program that calls this is loaded; no file is read.
 *
 * Context: any, NMI included.
 *
 * Return: 0; -ENOENT: there is no such mapping, or, if @mm is 0, the task has no
 * user memory of its own (a kernel thread), or @addr is above ULONG_MAX; -EAGAIN:
 * the mapping is being changed, or, without PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
 * nothing is mapped there while other mappings are being changed. If this program runs
 * on top of the writer, an immediate retry can't help; -EINPROGRESS: none of the 64
 * mappings that one call looks at matched: to continue, query the record's @end;
 * -EINVAL: unknown @flags, or @out__sz is too small; -E2BIG: @out__sz is larger than a
 * page. With -E2BIG, nothing is written to @out; with other errors, it is all zeros,
 * except @mm and @seq with -ENOENT, and @mm, @seq and @end with -EINPROGRESS.
 */
__bpf_kfunc int bpf_task_vma_query(u64 addr, u64 flags, void *out, u32 out__sz)
{
	struct task_struct *task = current;
	struct mm_struct *mm = task->mm;
	/* Filled in completely before it is used. */
	struct bpf_task_vma_record copy __uninitialized, *rec = out;
	int err, tries = VMA_SNAPSHOT_TRIES;
	bool retry;

	BUILD_BUG_ON(sizeof(*rec) != RECORD_SIZE_VER0);

	/* Too much to be cleared in an NMI. */
	if (unlikely(out__sz > PAGE_SIZE))
		return -E2BIG;

	err = -EINVAL;
	if (unlikely(flags & ~(u64)VALID_FLAGS || out__sz < RECORD_SIZE_VER0))
		goto nothing;
	err = -ENOENT;
	/* The interrupted task may be changing its other flags. */
	if (unlikely(!mm || data_race(task->flags) & PF_KTHREAD || addr > ULONG_MAX))
		goto nothing;
	if (!IS_ALIGNED((unsigned long)out, __alignof__(*rec)))
		rec = &copy;
	/*
	 * Keeps the memory of the inode:
	 * Documentation/litmus-tests/vma/memory-of-snapshot.litmus.
	 */
	scoped_guard(rcu) {
		do
			err = query(mm, addr, flags, rec, &retry);
		while (unlikely(err == -EAGAIN) && retry && --tries);
	}
	if (unlikely(err == -EAGAIN))
		goto nothing;
	if (rec != out)
		memcpy(out, rec, sizeof(*rec));
	if (out__sz > sizeof(*rec))
		memset(out + sizeof(*rec), 0, out__sz - sizeof(*rec));
	return err;

nothing:
	memset(out, 0, out__sz);
	return err;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(task_vma_kfunc_ids)
BTF_ID_FLAGS(func, bpf_task_vma_query)
BTF_KFUNCS_END(task_vma_kfunc_ids)

/* Not for networking programs: when a packet arrives, current is an unrelated task. */
static const struct btf_kfunc_id_set task_vma_kfunc_set = {
	.owner = THIS_MODULE,
	.set   = &task_vma_kfunc_ids,
};

static int __init task_vma_init(void)
{
	int err;

	BTF_TYPE_EMIT(struct bpf_task_vma_record);
	BTF_TYPE_EMIT_ENUM(BPF_TASK_VMA_BUILD_ID_NO_FILE);
	BTF_TYPE_EMIT_ENUM(PROCMAP_QUERY_VMA_READABLE);

	get_random_bytes(&token_key, sizeof(token_key));
	err = register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &task_vma_kfunc_set);
	err = err ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE, &task_vma_kfunc_set);
	return err ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_SYSCALL, &task_vma_kfunc_set);
}
late_initcall(task_vma_init);
