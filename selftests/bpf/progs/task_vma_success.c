// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* A record of a ring buffer is filled in place. */
SEC("perf_event")
__success
int query_into_ring(void *ctx)
{
	struct bpf_task_vma_record *rec;

	rec = bpf_ringbuf_reserve(&ring, sizeof(*rec), 0);
	if (!rec)
		return 0;
	if (bpf_task_vma_query(0, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, rec, sizeof(*rec)))
		bpf_ringbuf_discard(rec, 0);
	else
		bpf_ringbuf_submit(rec, 0);
	return 0;
}

SEC("kprobe")
__success
int query_in_kprobe(void *ctx)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, sizeof(rec));
}

SEC("raw_tp")
__success
int error_of_iterator(void *ctx)
{
	struct bpf_iter_task_vma it;
	int err;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while (bpf_iter_task_vma_next(&it))
		;
	err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	return err;
}

SEC("raw_tp")
__success
int walk_with_irqs_off(void *ctx)
{
	struct bpf_iter_task_vma it;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while (bpf_iter_task_vma_next(&it))
		;
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	return 0;
}
