/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_AUTOBIND_H
#define __BPF_PROVENANCE_AUTOBIND_H

#include <stdbool.h>

/* Does the kernel have BPF_CGROUP_INET_AUTOBIND? */
bool has_autobind(void);

#endif
