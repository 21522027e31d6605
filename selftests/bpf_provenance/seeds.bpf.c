// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "seeds.h"

char _license[] SEC("license") = "GPL";

pid_t target;		/* set by user space: whom to look at */
struct nmi_seen seen;
struct bpf_stack_build_id stack[SEEDS_FRAMES];

int bind_runs;

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, s64 delta_ns, int handled)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	long size, err, vmas = 0;
	int i;

	/* An NMI is offered to each handler; the one that took it says so. */
	if (!handled || task->pid != target || !bpf_in_nmi())
		return 0;

	err = bpf_iter_task_vma_new(&it, task, 0);
	while (bpf_iter_task_vma_next(&it))
		vmas++;
	bpf_iter_task_vma_destroy(&it);
	if (err)
		seen.walk_err = err;
	else
		seen.walks++;
	/* The task maps nothing while it spins. */
	if (!err && vmas == task->mm->map_count)
		seen.complete++;

	size = bpf_get_stack(ctx, stack, sizeof(stack),
			     BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	for (i = 0; i < SEEDS_FRAMES; i++) {
		if (size < (long)((i + 1) * sizeof(stack[0])))
			break;
		seen.frames++;
		if (stack[i].status == BPF_STACK_BUILD_ID_VALID)
			seen.valid++;
	}
	barrier();
	seen.nmis++;
	return 0;
}

/* Three subprograms, so that one symbol per program would not do. */
__noinline int second_subprog(int x)
{
	return x * bpf_get_prandom_u32();
}

__noinline int third_subprog(int x)
{
	return x + bpf_get_prandom_u32();
}

SEC("raw_tp/sys_enter")
int three_subprogs(void *ctx)
{
	return second_subprog(1) + third_subprog(2);
}

/* A policy that lets nobody have a local address. */
SEC("cgroup/bind4")
int deny_bind4(struct bpf_sock_addr *ctx)
{
	bind_runs++;
	return 0;
}

SEC("cgroup/post_bind4")
int deny_post_bind4(struct bpf_sock *ctx)
{
	bind_runs++;
	return 0;
}

SEC("cgroup/autobind")
int deny_autobind(struct bpf_sock_addr *ctx)
{
	bind_runs++;
	return 0;
}
