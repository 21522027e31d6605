/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_TASK_VMA_H
#define __BPF_PROVENANCE_TASK_VMA_H

#define PAGE_SIZE 4096UL

/* More mappings than a test program has. */
#define MAX_VMAS 512

/* What the iterator says of a VMA. */
struct seen_vma {
	__u64 start, end, pgoff, flags;
};

/* struct bpf_task_vma_record, for user space. */
struct record {
	__u64 start, end, offset, ino, mm;
	__u32 flags, seq, dev_major, dev_minor, generation;
	__u8 build_id_status, build_id_len, reserved[2], build_id[20], reserved2[4];
};

/* What one program saw in its context, on top of the task that it watches alone. */
struct seen {
	__u64 runs;		/* how often it ran */
	__u64 in_context;	/* and of these in the context that it is for */
	__u64 walks;		/* of these, walks that could begin */
	__u64 complete;		/* and of these, walks that came to the end */
	__u64 find_vma;		/* calls of bpf_find_vma() that succeeded */
	__u64 queries;		/* point queries that succeeded, of QUERIES in each run */
	__u64 stacks;		/* stacks whose first frame has a build ID */
	__s64 walk_err;		/* what the last walk began, or ended, with */
	__s64 query_err;	/* what the last query failed with */
	__s64 find_vma_first;	/* what the very first bpf_find_vma() returned */
	__s64 find_vma_err;	/* what the last bpf_find_vma() failed with */
	__u32 nr_vmas, nr_files, nr_records, find_vma_calls;
	__u32 nr_has_file;	/* of nr_vmas, also where vm_file can't be had */
};

#define QUERIES 20
#define ASKED_FOR 16		/* at once: more than a CPU has room for */
#define TOKENS 16
#define VMAS_COPIED 10		/* before a look is taken in fork() */

/* --- the storms --------------------------------------------------------------- */

#define WORK_PAGES 4		/* of a slot; the page behind them is a sentinel */
#define SLOT_SIZE ((WORK_PAGES + 1) * PAGE_SIZE)
#define SLOTS 16
/*
 * The arena is mapped twice, side by side. What lies at the address arena + i *
 * ARENA_SIZE + x belongs to the file n at the offset n * ARENA_SIZE + x, for some n.
 */
#define ARENA_SIZE (SLOTS * SLOT_SIZE)
#define ARENAS 2
#define FILES 4

/*
 * Mappings of a page, each of another file, which is made for it and unlinked. The
 * offset in pages says which one: IDENTITY() of its inode.
 */
#define FILE_SLOTS 16
#define IDENTITY(ino, generation) \
	((__u64)((generation) & 0x7fff) << 16 | ((ino) & 0xffff))

struct storm {
	__u64 asked, again, passes, wrong;
	__u64 points, unmapped;	/* of single addresses: what has it, or nothing */
	__u64 walks, walks_ended, refused, vmas;
	struct record first_wrong;
	__u64 first_wrong_asked_at;
	__u32 why;		/* line of task_vma.bpf.c */
};

/* Mappings whose second page is split off and merged again, and a sentinel behind. */
#define SPLITS 32
#define SPLIT_SIZE (3 * PAGE_SIZE)

struct split_storm {
	__u64 walks;		/* that came to the end */
	__u64 given_up;		/* that left something out, in as many attempts as a walk has */
	__u64 errors;		/* attempts that left something out */
	__u64 dropped;		/* first pages missing, though always mapped */
	__u64 sentinels_missing, sentinels_twice;
};

/* Walks over a task that forks, maps, executes and exits meanwhile. */
struct foreign {
	__u64 asked, walks, complete;
	__u64 left_out;		/* walks that left something out */
	__u64 no_task, no_mm, busy;
	__u64 vmas;
	__u64 wrong;		/* steps that go backwards, or out of the address space */
	__u64 missing, twice;	/* of the sentinel, in complete walks */
	__s64 err;		/* another one */
};

#define SENTINEL 0x7e0000000000UL

/* --- fuzzing -------------------------------------------------------------------- */

#define FUZZ_PAGES 64
#define FUZZ_FILES 3

/* What is mapped at a page, as the task itself knows it. */
struct fuzz_page {
	__u64 offset;
	__u32 flags;		/* as in a record */
	__s32 file;		/* FUZZ_FILES: none, that is anonymous memory */
	__u32 mapped;
};

struct fuzz_seen {
	__u64 nmis, interrupts;
	__u64 changing;		/* nothing to compare with */
	__u64 queries, build_ids, walks;
	__u64 wrong;
	struct record record;	/* the first wrong one */
	__u64 page;
	__s64 err;
	__u32 why;		/* line of task_vma.bpf.c */
};

/* --- exit ----------------------------------------------------------------------- */

/* How a sample is attributed. */
enum method { AT_SAMPLE, TASK_WORK, PROCESS_EXIT, METHODS };

#endif
