// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

pid_t target;		/* the task to look at, set by user space */

#define FRAMES 8

/* Counted on top of the target. */
unsigned long long nmis;	/* NMIs, each counted once */
unsigned long long frames;	/* user frames in their stacks */
unsigned long long valid;	/* the frames with a build ID */

struct bpf_stack_build_id stack[FRAMES];

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, s64 delta_ns, int handled)
{
	struct task_struct *task = bpf_get_current_task_btf();
	long size;
	int i;

	/* An NMI is offered to each handler; "handled" is set for the one that took it. */
	if (!handled || task->pid != target || !bpf_in_nmi())
		return 0;

	size = bpf_get_stack(ctx, stack, sizeof(stack),
			     BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	for (i = 0; i < FRAMES; i++) {
		if (size < (long)((i + 1) * sizeof(stack[0])))
			break;
		frames++;
		if (stack[i].status == BPF_STACK_BUILD_ID_VALID)
			valid++;
	}
	barrier();
	nmis++;
	return 0;
}
