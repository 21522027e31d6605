/* SPDX-License-Identifier: GPL-2.0 */
/* What "bpfprov profile" and its program share. */
#ifndef __BPFPROV_PROFILE_H
#define __BPFPROV_PROFILE_H

#include "file_key.h"

#define MAX_FRAMES	127
#define COMM_SIZE	16

/* Further values of bpf_stack_build_id.status, behind those of the kernel. */
enum {
	/*
	 * build_id is a struct file_key: the file has no build ID, it is not known yet, or
	 * it is not kept.
	 */
	FRAME_FILE = 16,
	FRAME_PENDING,
	FRAME_NOT_KEPT,
	/* No file is mapped there; nothing is. */
	FRAME_ANON,
	FRAME_NOWHERE,
};

struct sample {
	__u32 pid;			/* in the PID namespace of the tool; 0: not there */
	char comm[COMM_SIZE];
	__u64 time;			/* CLOCK_MONOTONIC, ns */
	__s32 kernel_len, user_len;	/* bytes, or a negative errno */
	__u32 queried;			/* build IDs that came from bpf_task_vma_query() */
	__u64 kernel[MAX_FRAMES];
	struct bpf_stack_build_id user[MAX_FRAMES];
};

#endif
