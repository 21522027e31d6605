// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

/* Walk: where to begin and to stop, and the VMAs from there */
#define MAX_VMAS 4
__u64 walk_start, walk_end;
int walk_err;
__u32 nr_vmas;
struct {
	__u64 start, end, pgoff;
	bool vm_file, has_file;
} vmas[MAX_VMAS];

/* Query: the arguments, and fields of the record */
__u64 query_addr, query_flags;
__u32 query_size;
int query_err;
__u64 start, end, offset, ino;
__u32 perms;
__u8 id_status, id_len;
__u8 id[20];
__u64 record[65536 / 8 + 1];	/* more than a page */

SEC("?raw_tp")
int walk_irqs_off(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	unsigned long flags;
	__u32 i = 0;

	bpf_local_irq_save(&flags);
	walk_err = bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), walk_start);
	while ((vma = bpf_iter_task_vma_next(&it)) && vma->vm_start < walk_end) {
		if (i >= MAX_VMAS)
			break;
		vmas[i].start = vma->vm_start;
		vmas[i].end = vma->vm_end;
		vmas[i].pgoff = vma->vm_pgoff;
		vmas[i].vm_file = vma->vm_file;
		if (bpf_ksym_exists(bpf_iter_task_vma_has_file))
			vmas[i].has_file = bpf_iter_task_vma_has_file(&it);
		i++;
	}
	if (!walk_err && bpf_ksym_exists(bpf_iter_task_vma_error))
		walk_err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	nr_vmas = i;
	return 0;
}

SEC("?raw_tp")
int query_irqs_off(void *ctx)
{
	struct bpf_task_vma_record *rec = (void *)record;
	__u32 size = query_size;
	unsigned long flags;

	/* Keep clang from reading it again after the check. */
	barrier_var(size);
	if (size > sizeof(record))
		return 1;
	bpf_local_irq_save(&flags);
	query_err = bpf_task_vma_query(query_addr, query_flags, record, size);
	bpf_local_irq_restore(&flags);
	start = rec->start;
	end = rec->end;
	offset = rec->offset;
	ino = rec->ino;
	perms = rec->flags;
	id_status = rec->build_id_status;
	id_len = rec->build_id_len;
	__builtin_memcpy(id, rec->build_id, sizeof(id));
	return 0;
}
