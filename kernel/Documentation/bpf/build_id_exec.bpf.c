// SPDX-License-Identifier: GPL-2.0
/* The BPF program of Documentation/bpf/build_id.rst. [program] */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#define EAGAIN 11

char _license[] SEC("license") = "GPL";

extern int bpf_file_build_id(struct file *file, void *buf, u32 buf__sz) __ksym __weak;

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, pid_t old_pid,
	     struct linux_binprm *bprm)
{
	u32 id[5];
	int len;

	if (!bpf_ksym_exists(bpf_file_build_id))
		return 0;
	len = bpf_file_build_id(bprm->file, id, sizeof(id));
	if (len > 0)
		bpf_printk("%s: %08x...", task->comm, bpf_ntohl(id[0]));
	else if (len == -EAGAIN)
		bpf_printk("%s: not available now", task->comm);
	return 0;
}
