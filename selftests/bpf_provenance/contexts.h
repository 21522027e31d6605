/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_CONTEXTS_H
#define __BPF_PROVENANCE_CONTEXTS_H

/* Results of a program of contexts.bpf.c; it only watches the target task. */
struct ctx_info {
	__u64 runs;		/* number of runs */
	__u64 in_nmi;		/* runs in an NMI */
	__u64 in_hardirq;	/* in a hard interrupt */
	__u64 in_task;		/* in neither, nor in a softirq */
	__u64 preemptible;	/* with a preempt count of zero */
	__u64 user_ip;		/* top of the user stack in the last run */
};

#endif
