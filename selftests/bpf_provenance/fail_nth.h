/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_FAIL_NTH_H
#define __BPF_PROVENANCE_FAIL_NTH_H

#include <stdbool.h>

#include "common.h"

/*
 * Inject faults into an operation of the calling thread: its first memory allocation
 * or copy from or to user space fails, then the second one instead, and so on:
 *
 *	do {
 *		fault_arm(&f);
 *		err = operation();
 *	} while (fault_hit(&f));
 *
 * In the last round nothing failed. Work of the operation in interrupts or in other
 * threads does not fail.
 */
struct faults {
	int fd;
	unsigned int nth;
	struct setting settings[7];
};

/* -EOPNOTSUPP: the kernel lacks one of these options. */
int faults_open(struct faults *f);
#define NEEDS_FAULT_INJECTION "needs CONFIG_FAULT_INJECTION_DEBUG_FS, CONFIG_FAILSLAB, "	\
			      "CONFIG_FAIL_PAGE_ALLOC and CONFIG_FAULT_INJECTION_USERCOPY"
void faults_close(struct faults *f);
void fault_arm(struct faults *f);

/* Was there a fault? If not, none are left. */
bool fault_hit(struct faults *f);

#endif
