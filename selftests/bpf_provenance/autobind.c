// SPDX-License-Identifier: GPL-2.0
#include <linux/bpf.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "autobind.h"
#include "common.h"

bool has_autobind(void)
{
	static const struct bpf_insn allow[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = BPF_CGROUP_INET_AUTOBIND);
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "allow", "GPL", allow,
			       ARRAY_LEN(allow), &opts);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}
