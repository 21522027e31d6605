/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_AUTOBIND_H
#define __BPF_PROVENANCE_AUTOBIND_H

#include <linux/bpf.h>
#include <stdbool.h>

#ifndef BPF_F_ALL_PROTOCOLS
#define BPF_F_ALL_PROTOCOLS (1U << 8)
#endif

struct bpf_object;

/* Does the kernel have BPF_CGROUP_INET_AUTOBIND? */
bool has_autobind(void);

/* Does the kernel have BPF_F_ALL_PROTOCOLS? */
bool has_all_protocols(void);

/* Load a program that returns 1. Returns its fd, or -errno. */
int load_allow(enum bpf_prog_type type, enum bpf_attach_type attach_type, __u32 flags);

/*
 * Before loading: set BPF_F_ALL_PROTOCOLS on bind, post_bind and connect programs, if the
 * kernel has it. Programs named old_* are skipped.
 */
void use_all_protocols(struct bpf_object *obj);

#endif
