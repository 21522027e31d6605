// SPDX-License-Identifier: GPL-2.0
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "autobind.h"
#include "common.h"

static const struct bpf_insn allow[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
	{ .code = BPF_JMP | BPF_EXIT },
};

bool has_autobind(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = BPF_CGROUP_INET_AUTOBIND);
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "allow", "GPL", allow,
			       ARRAY_LEN(allow), &opts);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int load_allow(enum bpf_prog_type type, enum bpf_attach_type attach_type, __u32 flags)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = attach_type,
		    .prog_flags = flags);

	return bpf_prog_load(type, "allow", "GPL", allow, ARRAY_LEN(allow), &opts);
}

bool has_all_protocols(void)
{
	int fd = load_allow(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT,
			    BPF_F_ALL_PROTOCOLS);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void use_all_protocols(struct bpf_object *obj)
{
	struct bpf_program *prog;

	if (!has_all_protocols())
		return;
	bpf_object__for_each_program(prog, obj) {
		if (!strncmp(bpf_program__name(prog), "old_", 4))
			continue;
		switch (bpf_program__expected_attach_type(prog)) {
		case BPF_CGROUP_INET4_BIND:
		case BPF_CGROUP_INET6_BIND:
		case BPF_CGROUP_INET4_POST_BIND:
		case BPF_CGROUP_INET6_POST_BIND:
		case BPF_CGROUP_INET4_CONNECT:
		case BPF_CGROUP_INET6_CONNECT:
			bpf_program__set_flags(prog, BPF_F_ALL_PROTOCOLS);
			break;
		default:
			break;
		}
	}
}
