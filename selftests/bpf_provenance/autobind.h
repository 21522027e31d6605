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

/* Load a program that returns 1: its descriptor, or -errno. */
int load_allow(enum bpf_prog_type type, enum bpf_attach_type attach_type, __u32 flags);

/*
 * Before the load: set BPF_F_ALL_PROTOCOLS for the programs at bind, post_bind and
 * connect, if the kernel has it. Programs whose name begins with old_ are left without.
 */
void use_all_protocols(struct bpf_object *obj);

#endif
