/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_SEEDS_H
#define __BPF_PROVENANCE_SEEDS_H

#define SEEDS_FRAMES 8

/* What on_nmi() counted on top of the task that it watches. */
struct nmi_seen {
	__u64 nmis;		/* NMIs, each counted once */
	__u64 frames;		/* user frames in their build ID stacks */
	__u64 valid;		/* and of these with a build ID */
	__u64 walks;		/* VMA walks that could begin */
	__u64 complete;		/* and of these, walks that saw all VMAs */
	__s64 walk_err;		/* what the others got */
};

#endif
