/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_CONTEXTS_H
#define __BPF_PROVENANCE_CONTEXTS_H

/* What a program of contexts.bpf.c saw, on top of the task it watches alone. */
struct context {
	__u64 runs;		/* how often it ran */
	__u64 in_nmi;		/* and of these in an NMI */
	__u64 in_hardirq;	/* in a hard interrupt */
	__u64 in_task;		/* in neither, nor in a softirq */
	__u64 preemptible;	/* with a preempt count of zero */
	__u64 user_ip;		/* of the last run: top of the user stack */
};

#endif
