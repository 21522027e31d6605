/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BENCH_H
#define __BPF_PROVENANCE_BENCH_H

#define BENCH_FRAMES 64

/* What the programs of bench.bpf.c do. */
enum bench_mode {
	BENCH_NOTHING,
	BENCH_STACK,
	BENCH_STACK_BUILD_ID,
	BENCH_WALK,
	BENCH_WALK_IRQS_OFF,
	BENCH_QUERIES,		/* bpf_task_vma_query() from one VMA to the next */
	BENCH_QUERY,		/* one of them */
	BENCH_FIND_VMA,		/* bpf_find_vma() at the same address */
};

/*
 * A chain of calls through the functions of several files: libframe.so is
 * loaded from as many copies. The last call is leaf() of the first file.
 */
struct bench_chain {
	int depth;
	int files;
	long (*frame[8])(struct bench_chain *chain);
	long (*leaf)(void);
};

#endif
