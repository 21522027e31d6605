/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_FAIL_NTH_H
#define __BPF_PROVENANCE_FAIL_NTH_H

#include <stdbool.h>

/*
 * Faults in an operation of the calling thread: where it allocates memory, or copies
 * from or to user space, the first time it does so fails, then the second instead:
 *
 *	do {
 *		fault_arm(&f);
 *		err = operation();
 *	} while (fault_hit(&f));
 *
 * In the last round nothing failed. What the operation does in interrupts, or has
 * another thread do, does not fail.
 */
struct faults {
	int fd;
	unsigned int nth;
};

/* -EOPNOTSUPP: the kernel has not CONFIG_FAULT_INJECTION and all that belongs to it. */
int faults_open(struct faults *f);
void faults_close(struct faults *f);
void fault_arm(struct faults *f);

/* Has it failed? If not, nothing will any more. */
bool fault_hit(struct faults *f);

#endif
