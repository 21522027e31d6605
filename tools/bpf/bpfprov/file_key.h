/* SPDX-License-Identifier: GPL-2.0 */
/* Identifies a file without a build ID. Also included by BPF programs. */
#ifndef __BPFPROV_FILE_KEY_H
#define __BPFPROV_FILE_KEY_H

#include <linux/types.h>

#ifndef __packed
#define __packed __attribute__((__packed__))
#endif

/* As long as a build ID. */
struct file_key {
	__u64 ino;
	__u32 dev_major, dev_minor;
	__u32 generation;
} __packed;

#endif
