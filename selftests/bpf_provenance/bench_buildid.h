/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BENCH_BUILDID_H
#define __BPF_PROVENANCE_BENCH_BUILDID_H

#define BENCH_FRAMES 64

/* The action of the programs in bench_buildid.bpf.c. */
enum bench_stack_mode {
	BENCH_NOTHING,
	BENCH_STACK,
	BENCH_STACK_BUILD_ID,
};

#endif
