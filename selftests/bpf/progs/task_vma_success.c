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

/* Many records in one reservation, as a profiler would fill it. */
#define MAX_FRAMES 16

struct sampled_frame {
	__u64 ip;
	long err;
	struct bpf_task_vma_record vma;
};

struct sampled_stack {
	__u32 pid, nr;
	struct sampled_frame frames[MAX_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} samples SEC(".maps");

SEC("perf_event")
__success
int on_sample(void *ctx)
{
	struct bpf_task_vma_record *vma;
	__u64 ips[MAX_FRAMES];
	struct sampled_stack *s;
	long size;
	int i;

	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s)
		return 0;
	s->pid = bpf_get_current_pid_tgid() >> 32;
	s->nr = 0;
	size = bpf_get_stack(ctx, ips, sizeof(ips), BPF_F_USER_STACK);
	bpf_for(i, 0, MAX_FRAMES) {
		if (size < (long)((i + 1) * sizeof(ips[0])))
			break;
		vma = &s->frames[i].vma;
		s->frames[i].ip = ips[i];
		s->frames[i].err = bpf_task_vma_query(ips[i], 0, vma, sizeof(*vma));
		s->nr = i + 1;
	}
	bpf_ringbuf_submit(s, 0);
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

int left_out;

/* bpf_for_each() with the error at the end. */
SEC("raw_tp")
__success
int for_each_with_error(void *ctx)
{
	struct vm_area_struct *vma;
	int err, n = 0;

	bpf_for_each_err(task_vma, vma, err, bpf_get_current_task_btf(), 0) {
		if (vma->vm_start > 4096)
			n++;
	}
	left_out = err;
	return n;
}

/* Continue where the previous walk left VMAs out. */
SEC("raw_tp")
__success
int walk_left_out_again(void *ctx)
{
	struct bpf_iter_task_vma it;
	int i, err, n = 0;
	__u64 addr = 0;

	bpf_for(i, 0, 3) {
		bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), addr);
		while (bpf_iter_task_vma_next(&it))
			n++;
		err = bpf_iter_task_vma_error(&it);
		addr = bpf_iter_task_vma_error_addr(&it);
		bpf_iter_task_vma_destroy(&it);
		if (!err)
			break;
	}
	return n;
}
