/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by "bpfprov profile" and its BPF programs. */
#ifndef __BPFPROV_PROFILE_H
#define __BPFPROV_PROFILE_H

#include "file_key.h"

#define MAX_FRAMES	127
#define COMM_SIZE	16

/* Further values of bpf_stack_build_id.status, after those of the kernel. */
enum {
	/*
	 * build_id is a struct file_key, because the file has no build ID, the kernel has not
	 * read it yet, or does not keep it.
	 */
	FRAME_FILE = 16,
	FRAME_PENDING,
	FRAME_NOT_KEPT,
	/* Anonymous memory is mapped there; nothing is mapped there. */
	FRAME_ANON,
	FRAME_NOWHERE,
};

struct sample {
	__u32 pid;			/* in the PID namespace of the tool; 0: it has none */
	char comm[COMM_SIZE];
	__u64 time;			/* CLOCK_MONOTONIC, ns */
	__s32 kernel_len, user_len;	/* bytes, or a negative errno */
	__u32 queried;			/* build IDs that came from bpf_task_vma_query() */
	__u64 kernel[MAX_FRAMES];
	struct bpf_stack_build_id user[MAX_FRAMES];
};

/* A symbol of the kernel: "name+0xoffset/0xsize", and its module. */
struct symbol_request {
	__u64 addr;
	char text[640];
};

#endif
