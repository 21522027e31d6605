/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_CGROUP_SOCK_H
#define __BPF_PROVENANCE_CGROUP_SOCK_H

/* What connect4 gives bpf_bind(). */
enum bind_address {
	V4,		/* 127.0.0.2 */
	V4_MAPPED,	/* ::ffff:127.0.0.2 */
	V6_LOOPBACK,	/* ::1 */
};

#endif
