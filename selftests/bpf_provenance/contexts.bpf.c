// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "contexts.h"

char _license[] SEC("license") = "GPL";

/* Set by user space: the task to watch, and the address to read. */
pid_t target;
const void *unread;

/* Read by user space after the events have stopped. */
struct ctx_info nmi, hardirq, sleepable;

/* Reading it with page faults disabled, then enabled. */
long nofault_err = 1;
long read_err = 1;
char read_first_byte;

/* Counts the run last: once user space sees the count, it sees all results. */
static void look(struct ctx_info *c, void *ctx)
{
	bpf_get_stack(ctx, &c->user_ip, sizeof(c->user_ip), BPF_F_USER_STACK);
	if (bpf_in_nmi())
		c->in_nmi++;
	if (bpf_in_hardirq())
		c->in_hardirq++;
	if (!bpf_in_interrupt())
		c->in_task++;
	/* x86 keeps "no reschedule needed" in the top bit. */
	if (!(get_preempt_count() & ~(1U << 31)))
		c->preemptible++;
	barrier();
	c->runs++;
}

static bool on_target(void)
{
	return (pid_t)bpf_get_current_pid_tgid() == target;
}

SEC("raw_tp/nmi_handler")
int on_nmi(struct bpf_raw_tracepoint_args *ctx)
{
	/* An NMI is offered to each handler; args[2] is set for the one that took it. */
	if (!ctx->args[2] || !on_target())
		return 0;
	look(&nmi, ctx);
	return 0;
}

SEC("perf_event")
int on_cpu_clock(void *ctx)
{
	if (!on_target())
		return 0;
	look(&hardirq, ctx);
	return 0;
}

SEC("uprobe.s//proc/self/exe:sleepable_here")
int on_sleepable(void *ctx)
{
	if (!on_target())
		return 0;
	look(&sleepable, ctx);
	nofault_err = bpf_probe_read_user(&read_first_byte, sizeof(read_first_byte), unread);
	read_err = bpf_copy_from_user(&read_first_byte, sizeof(read_first_byte), unread);
	return 0;
}
