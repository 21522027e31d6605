/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_TASK_VMA_H
#define __BPF_PROVENANCE_TASK_VMA_H

#define PAGE_SIZE 4096UL

/* More mappings than a test program has. */
#define MAX_VMAS 512

/* A VMA as returned by the iterator. */
struct seen_vma {
	__u64 start, end, pgoff, flags;
};

/* struct bpf_task_vma_record, for user space. */
struct record {
	__u64 start, end, offset, ino, mm;
	__u32 flags, seq, dev_major, dev_minor, generation;
	__u8 build_id_status, build_id_len, reserved[2], build_id[20], reserved2[4];
};

/* Results of one program in its context; it only watches the target task. */
struct seen {
	__u64 runs;		/* number of runs */
	__u64 in_context;	/* runs in the context under test */
	__u64 walks;		/* walks that started */
	__u64 complete;		/* walks that reached the end */
	__u64 find_vma;		/* calls of bpf_find_vma() that succeeded */
	__u64 queries;		/* point queries that succeeded, of QUERIES in each run */
	__u64 stacks;		/* stacks whose first frame has a build ID */
	__s64 walk_err;		/* start or end status of the last walk */
	__s64 query_err;	/* error of the last query that failed */
	__s64 find_vma_first;	/* result of the very first bpf_find_vma() */
	__s64 find_vma_err;	/* error of the last bpf_find_vma() that failed */
	__u32 nr_vmas, nr_files, nr_records, find_vma_calls;
	__u32 nr_has_file;	/* VMAs with a file, even if vm_file is not available */
};

#define QUERIES 20
#define ASKED_FOR 16		/* requests at once: more than a CPU has room for */
#define TOKENS 16
#define VMAS_COPIED 10		/* VMAs copied before the check in fork() */

/* In one of these mmap() calls, before it changes anything. */
#define NO_MAPPING_CALLS 3
struct no_mapping {
	__s64 user_err, kernel_err;	/* of queries */
	__u64 kernel_mm;		/* in the record of the second query */
	__u32 frees, frees_known;	/* mm->vma_frees, and whether that exists */
};

/* A lookup that is tried again, while another thread changes mappings so many times. */
enum how_to_try { TRY_WALK, TRY_QUERY, TRY_STACK, WAYS_TO_TRY };
#define MAX_CHANGES 64

/* --- the storms --------------------------------------------------------------- */

#define WORK_PAGES 4		/* per slot; the next page is a sentinel */
#define SLOT_SIZE ((WORK_PAGES + 1) * PAGE_SIZE)
#define SLOTS 16
/*
 * The arena is mapped twice, side by side. Address arena + i * ARENA_SIZE + x maps
 * file n at offset n * ARENA_SIZE + x, for some n.
 */
#define ARENA_SIZE (SLOTS * SLOT_SIZE)
#define ARENAS 2
#define FILES 4

/*
 * Mappings of one page, each of its own new, unlinked file. The offset in pages
 * identifies the file: IDENTITY() of its inode.
 */
#define FILE_SLOTS 16
#define IDENTITY(ino, generation) \
	((__u64)((generation) & 0x7fff) << 16 | ((ino) & 0xffff))

struct storm {
	__u64 asked, again, passes, wrong;
	__u64 points, unmapped;	/* single addresses: mapped, not mapped */
	__u64 walks, walks_ended, refused, vmas;
	struct record first_wrong;
	__u64 first_wrong_asked_at;
	__u32 why;		/* line of task_vma.bpf.c */
};

/* Mappings whose second page is split off and merged again, followed by a sentinel. */
#define SPLITS 32
#define SPLIT_SIZE (3 * PAGE_SIZE)

struct split_storm {
	__u64 walks;		/* that reached the end */
	__u64 given_up;		/* walks that were incomplete in every attempt */
	__u64 errors;		/* incomplete attempts */
	__u64 dropped;		/* first pages missing, though always mapped */
	__u64 sentinels_missing, sentinels_twice;
};

/* Walks over a task that forks, maps, execs and exits at the same time. */
struct foreign {
	__u64 asked, walks, complete;
	__u64 left_out;		/* incomplete walks */
	__u64 no_task, no_mm, busy;
	__u64 vmas;
	__u64 wrong;		/* steps that go backwards, or out of the address space */
	__u64 missing, twice;	/* of the sentinel, or of files, in complete walks */
	__s64 err;		/* any other error */
};

#define SENTINEL 0x7e0000000000UL

/* --- fuzzing -------------------------------------------------------------------- */

#define FUZZ_PAGES 64
#define FUZZ_FILES 3

/* Expected mapping of a page, updated by the task itself. */
struct fuzz_page {
	__u64 offset;
	__u32 flags;		/* as in a record */
	__s32 file;		/* FUZZ_FILES: none, anonymous memory */
	__u32 mapped;
};

struct fuzz_seen {
	__u64 nmis, interrupts;	/* without those during a change */
	__u64 changing;		/* NMIs and interrupts during a change */
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
