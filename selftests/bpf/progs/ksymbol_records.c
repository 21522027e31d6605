// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

/* "name+offset/size" if kallsyms has a symbol, a hexadecimal number otherwise. */
char text[128];
__u64 addr;
__u64 reg_time;
int pid;

SEC("?syscall")
int resolve(void *ctx)
{
	BPF_SNPRINTF(text, sizeof(text), "%pS", addr);
	return 0;
}

SEC("?fentry/bpf_fentry_test1")
int BPF_PROG(fentry1)
{
	return 0;
}

SEC("?fentry/bpf_fentry_test2")
int BPF_PROG(fentry2)
{
	return 0;
}

SEC("?fentry/bpf_fentry_test3")
int BPF_PROG(fentry3)
{
	return 0;
}

/* reg() of the struct_ops calls this, and publishes the trampolines. */
SEC("?fentry/tcp_register_congestion_control")
int BPF_PROG(on_reg, struct tcp_congestion_ops *ca)
{
	if (bpf_get_current_pid_tgid() >> 32 != pid)
		return 0;
	reg_time = bpf_ktime_get_ns();
	addr = (__u64)ca->ssthresh + 1;
	BPF_SNPRINTF(text, sizeof(text), "%pS", addr);
	return 0;
}

/* Names no callback, so the verifier adds the default one. */
SEC("?tc")
int throws(struct __sk_buff *skb)
{
	if (skb->len == 1)
		bpf_throw(0);
	return 0;
}
