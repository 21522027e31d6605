// SPDX-License-Identifier: GPL-2.0
/* Ask the kernel for the length of a BPF image, which /proc/kallsyms does not have. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "profile.h"

char _license[] SEC("license") = "GPL";

SEC("syscall")
int find_symbol(struct symbol_request *r)
{
	static const char format[] = "%pS";
	__u64 addr = r->addr;

	return bpf_snprintf(r->text, sizeof(r->text), format, &addr, sizeof(addr));
}
