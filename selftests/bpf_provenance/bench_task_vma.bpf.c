// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bench_task_vma.h"

char _license[] SEC("license") = "GPL";

/* Set by user space before each measurement. */
pid_t target;
long syscall_nr;
enum bench_vma_mode mode;
__u64 query_addr;

/* Checked by user space: a failure must not be measured. */
long result;
__u64 vmas;
__u8 build_id_len;	/* in the answer */

static void walk(struct task_struct *task)
{
	struct bpf_iter_task_vma it;

	vmas = 0;
	result = bpf_iter_task_vma_new(&it, task, 0);
	while (bpf_iter_task_vma_next(&it))
		vmas++;
	bpf_iter_task_vma_destroy(&it);
}

static void queries(void)
{
	struct bpf_task_vma_record rec;
	__u64 addr = 0;
	long err = 0;
	int i;

	if (!bpf_ksym_exists(bpf_task_vma_query))
		return;
	vmas = 0;
	bpf_for(i, 0, 1 << 20) {
		err = bpf_task_vma_query(addr, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec,
					 sizeof(rec));
		if (err)
			break;
		addr = rec.end;
		vmas++;
	}
	result = err == -2 ? 0 : err ?: -1;	/* -ENOENT: no more */
}

static long found(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	vmas = 1;
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	unsigned long flags;

	if (task->pid != target || id != syscall_nr)
		return 0;
	switch (mode) {
	case BENCH_WALK:
		walk(task);
		break;
	case BENCH_WALK_IRQS_OFF:
		bpf_local_irq_save(&flags);
		walk(task);
		bpf_local_irq_restore(&flags);
		break;
	case BENCH_QUERIES:
		queries();
		break;
	case BENCH_QUERY:
		if (bpf_ksym_exists(bpf_task_vma_query)) {
			result = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
			build_id_len = rec.build_id_len;
		}
		break;
	case BENCH_FIND_VMA:
		result = bpf_find_vma(task, query_addr, found, NULL, 0);
		break;
	default:
		break;
	}
	return 0;
}
