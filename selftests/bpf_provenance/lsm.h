/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_LSM_H
#define __BPF_PROVENANCE_LSM_H

#include <linux/lsm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Does the kernel run BPF programs at the hooks of LSMs? */
static inline bool has_bpf_lsm(void)
{
	uint64_t ids[32];
	uint32_t size = sizeof(ids);
	int i, n = syscall(__NR_lsm_list_modules, ids, &size, 0);

	for (i = 0; i < n; i++)
		if (ids[i] == LSM_ID_BPF)
			return true;
	return false;
}

#define NEEDS_BPF_LSM "needs CONFIG_BPF_LSM, and bpf in CONFIG_LSM"

#endif
