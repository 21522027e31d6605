// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

/* The size is larger than the buffer. */
SEC("?raw_tp")
__failure __msg("memory, len pair leads to invalid memory access")
int query_beyond_record(void *ctx)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, sizeof(rec) + 8);
}

__u32 unknown_size;

/* The size is not bounded. */
SEC("?raw_tp")
__failure __msg("R4 unbounded memory access")
int query_unbounded_size(void *ctx)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, unknown_size);
}

/* The buffer is read-only. */
SEC("?raw_tp")
__failure __msg("write into map forbidden")
int query_into_rodata(void *ctx)
{
	static const struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, (void *)&rec, sizeof(rec));
}

/* When a packet arrives, current is an unrelated task. */
SEC("?tc")
__failure __msg("calling kernel function bpf_task_vma_query is not allowed")
int query_in_tc(struct __sk_buff *skb)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, sizeof(rec));
}

/* A walk that is never destroyed would hold a task and its mm forever. */
SEC("?raw_tp")
__failure __msg("Unreleased reference")
int no_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	return 0;
}

SEC("?raw_tp")
__failure __msg("expected an initialized iter_task_vma as R1")
int error_of_nothing(void *ctx)
{
	struct bpf_iter_task_vma it;

	return bpf_iter_task_vma_error(&it);
}

/* The iterator's memory has been freed. */
SEC("?raw_tp")
__failure __msg("expected an initialized iter_task_vma as R1")
int error_after_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	bpf_iter_task_vma_destroy(&it);
	return bpf_iter_task_vma_error(&it);
}

SEC("?raw_tp")
__failure __msg("expected an initialized iter_task_vma as R1")
int next_after_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	bpf_iter_task_vma_destroy(&it);
	return !!bpf_iter_task_vma_next(&it);
}

/* Nothing keeps the task at task->last_wakee alive. */
SEC("?raw_tp")
__failure __msg("R2 must be a rcu pointer")
int walk_of_any_task(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf()->last_wakee;
	struct bpf_iter_task_vma it;

	bpf_iter_task_vma_new(&it, task, 0);
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

/* vm_file can be NULL, as it is with interrupts off: it must be checked first. */
SEC("?raw_tp")
__failure __msg("Possibly NULL pointer passed to trusted R1")
int file_without_check(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	char id[20];

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma)
		bpf_file_build_id(vma->vm_file, id, sizeof(id));
	bpf_iter_task_vma_destroy(&it);
	return 0;
}
