/* SPDX-License-Identifier: GPL-2.0 */
/* What "bpfprov profile" and its program share. */
#ifndef __BPFPROV_PROFILE_H
#define __BPFPROV_PROFILE_H

#ifndef __packed
#define __packed __attribute__((__packed__))
#endif

#define MAX_FRAMES	127
#define COMM_SIZE	16

/* Further values of bpf_stack_build_id.status, behind those of the kernel. */
enum {
	/* The file has no build ID: build_id is a struct file_key. */
	FRAME_FILE = 16,
	/* No file is mapped there; nothing is. */
	FRAME_ANON,
	FRAME_NOWHERE,
};

/* As long as a build ID. */
struct file_key {
	__u64 ino;
	__u32 dev_major, dev_minor;
	__u32 generation;
} __packed;

struct sample {
	__u32 pid, tid;
	char comm[COMM_SIZE];
	__u64 time;			/* CLOCK_MONOTONIC, ns */
	__s32 kernel_len, user_len;	/* bytes, or a negative errno */
	__u32 queried;			/* frames that bpf_task_vma_query() knew */
	__u32 pad;
	__u64 kernel[MAX_FRAMES];
	struct bpf_stack_build_id user[MAX_FRAMES];
};

#endif
