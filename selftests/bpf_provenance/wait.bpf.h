/* SPDX-License-Identifier: GPL-2.0 */
/* For BPF programs that wait for user space. */
#ifndef __BPF_PROVENANCE_WAIT_BPF_H
#define __BPF_PROVENANCE_WAIT_BPF_H

/* Set to timeout_scale() by user space. */
__u32 wait_scale = 1;

/*
 * Wait until user space has set a flag, for ten seconds, scaled. One loop has at most 8 million
 * rounds, which can take less than a second.
 */
static bool becomes_true(volatile bool *flag)
{
	u64 end = bpf_ktime_get_ns() + 10000000000ULL * wait_scale;
	int i, j;

	bpf_for(i, 0, 1 << 10)
		bpf_for(j, 0, 1 << 20)
			if (*flag || bpf_ktime_get_ns() > end)
				return *flag;
	return false;
}

#endif
