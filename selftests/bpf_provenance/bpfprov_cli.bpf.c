// SPDX-License-Identifier: GPL-2.0
/*
 * Holds one sample of bpfprov, between its stack and its query for a frame; or connect(), between
 * its hook and the connection.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "wait.bpf.h"

char _license[] SEC("license") = "GPL";

/* The process, or the thread that connects, and the range of the frame. */
pid_t target;
u64 start, end;

bool waiting, filled;	/* in this order; user space sets the second */
bool filled_first;

SEC("fentry/bpf_task_vma_query")
int BPF_PROG(on_query, u64 addr)
{
	if (bpf_get_current_pid_tgid() >> 32 != target || addr < start || addr >= end || waiting)
		return 0;
	*(volatile bool *)&waiting = true;
	filled_first = becomes_true(&filled);
	return 0;
}

static int on_connect(void)
{
	if ((pid_t)bpf_get_current_pid_tgid() != target || waiting)
		return 0;
	*(volatile bool *)&waiting = true;
	filled_first = becomes_true(&filled);
	return 0;
}

SEC("?fentry/udp_connect")
int BPF_PROG(on_udp_connect)
{
	return on_connect();
}

SEC("?fentry/udpv6_connect")
int BPF_PROG(on_udpv6_connect)
{
	return on_connect();
}
