/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets with an address that the policy of their cgroup does not allow. */
#ifndef __BPFPROV_SOCKETS_H
#define __BPFPROV_SOCKETS_H

#include <stdio.h>

struct policy;

/*
 * Print a line to @f, after @prefix, for each socket with a local address that @policy does
 * not allow, in the cgroup with the path @cgroup and those below it.
 */
void print_other_sockets(FILE *f, const char *prefix, const char *cgroup,
			 const struct policy *policy);

#endif
