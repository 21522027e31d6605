// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

/* More than there is. */
SEC("?raw_tp")
__failure __msg("memory, len pair leads to invalid memory access")
int query_beyond_record(void *ctx)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, sizeof(rec) + 8);
}

__u32 unknown_size;

/* As much as somebody says. */
SEC("?raw_tp")
__failure __msg("R4 unbounded memory access")
int query_unbounded_size(void *ctx)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, unknown_size);
}

/* Where the program may not write. */
SEC("?raw_tp")
__failure __msg("write into map forbidden")
int query_into_rodata(void *ctx)
{
	static const struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, (void *)&rec, sizeof(rec));
}

/* Whose task is current when a packet comes? */
SEC("?tc")
__failure __msg("calling kernel function bpf_task_vma_query is not allowed")
int query_in_tc(struct __sk_buff *skb)
{
	struct bpf_task_vma_record rec;

	return bpf_task_vma_query(0, 0, &rec, sizeof(rec));
}

/* A walk that holds a task and its mm for ever. */
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

/* Nothing keeps what task->last_wakee points to. */
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

/* With interrupts off there is no vm_file: it has to be looked at first. */
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
