// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

pid_t target;		/* the task to look at, set by user space */

/* Counted on top of the target. */
unsigned long long nmis;	/* NMIs, each counted once */
unsigned long long complete;	/* walks that saw all VMAs */
long walk_err;			/* of bpf_iter_task_vma_new() */

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, s64 delta_ns, int handled)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	long err, vmas = 0;

	/* An NMI is offered to each handler; "handled" is set for the one that took it. */
	if (!handled || task->pid != target || !bpf_in_nmi())
		return 0;

	err = bpf_iter_task_vma_new(&it, task, 0);
	while (bpf_iter_task_vma_next(&it))
		vmas++;
	bpf_iter_task_vma_destroy(&it);
	if (err)
		walk_err = err;
	/* The task maps nothing while it spins. */
	if (!err && vmas == task->mm->map_count)
		complete++;
	barrier();
	nmis++;
	return 0;
}
