/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BENCH_TASK_VMA_H
#define __BPF_PROVENANCE_BENCH_TASK_VMA_H

/* The action of the program in bench_task_vma.bpf.c. */
enum bench_vma_mode {
	BENCH_NOTHING,
	BENCH_WALK,
	BENCH_WALK_IRQS_OFF,
	BENCH_QUERIES,		/* bpf_task_vma_query() from one VMA to the next */
	BENCH_QUERY,		/* one of them */
	BENCH_FIND_VMA,		/* bpf_find_vma() at the same address */
};

#endif
