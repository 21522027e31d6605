// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_atomic.h"

char _license[] SEC("license") = "GPL";

int pid;

struct bpf_stack_build_id top;
long top_res;

struct bpf_stack_build_id stack[16];
long stack_res;

__u64 collapsed_ino;

bool opened;
long read_res;

/* A folio whose last reference the program may hold, with interrupts off */
__u64 held_folio;
bool truncated, truncated_first, putting;
int held_refs;
int last_puts;

static bool is_test(void)
{
	return bpf_get_current_pid_tgid() >> 32 == pid;
}

/* Interrupts are on, and the user mode registers are those of the fault. */
SEC("?fentry/force_sig_fault")
int BPF_PROG(sample_fault)
{
	if (is_test())
		top_res = bpf_get_stack(ctx, &top, sizeof(top),
					BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}

SEC("?lsm.s/file_open")
int BPF_PROG(read_opened, struct file *file)
{
	struct bpf_dynptr ptr;
	char c;

	if (!is_test())
		return 0;

	if (!bpf_dynptr_from_file(file, 0, &ptr))
		read_res = bpf_dynptr_read(&c, sizeof(c), &ptr, 0, 0);
	bpf_dynptr_file_discard(&ptr);
	opened = true;
	return 0;
}

/* For five seconds. One loop has at most 8 million rounds: less than a second. */
static bool wait_for_truncation(void)
{
	__u64 end = bpf_ktime_get_ns() + 5000000000ULL;
	int i, j;

	bpf_for(i, 0, 1 << 10)
		bpf_for(j, 0, 1 << 20)
			if (READ_ONCE(truncated) || bpf_ktime_get_ns() > end)
				return READ_ONCE(truncated);
	return false;
}

/* A file of one page, which user space truncates after the read. */
SEC("?lsm/file_open")
int BPF_PROG(hold_irqs_off, struct file *file)
{
	struct bpf_dynptr ptr;
	struct folio *folio;
	unsigned long flags;
	char c;

	if (!is_test())
		return 0;

	bpf_local_irq_save(&flags);
	if (!bpf_dynptr_from_file(file, 0, &ptr)) {
		read_res = bpf_dynptr_read(&c, sizeof(c), &ptr, 0, 0);
		/* A single entry is in xa_head itself. */
		folio = file->f_mapping->i_pages.xa_head;
		held_refs = BPF_CORE_READ(folio, _refcount.counter);
		WRITE_ONCE(held_folio, (__u64)folio);
		truncated_first = wait_for_truncation();
		WRITE_ONCE(putting, true);
	}
	bpf_dynptr_file_discard(&ptr);
	WRITE_ONCE(putting, false);
	bpf_local_irq_restore(&flags);
	opened = true;
	return 0;
}

SEC("?fentry/__folio_put")
int BPF_PROG(last_put, struct folio *folio)
{
	if (putting && (__u64)folio == held_folio)
		last_puts++;
	return 0;
}

/* collapse_file() calls this function while the holes of the file have retry entries. */
SEC("?fentry/folio_add_lru")
int BPF_PROG(sample_collapse, struct folio *folio)
{
	if (is_test() && folio->mapping && folio->mapping->host->i_ino == collapsed_ino)
		top_res = bpf_get_stack(ctx, &top, sizeof(top),
					BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}

/* Reclaim calls this function while the reference count of the folio is 0. */
SEC("?fentry/__filemap_remove_folio")
int BPF_PROG(sample_reclaim)
{
	char comm[TASK_COMM_LEN];

	bpf_get_current_comm(comm, sizeof(comm));
	if (!bpf_strncmp(comm, sizeof(comm), "uprobe_multi"))
		stack_res = bpf_get_stack(ctx, stack, sizeof(stack),
					  BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}

/* No file yet, or no longer */
static void read_backing_file(struct file *file)
{
	struct bpf_dynptr ptr;
	char c;

	if (!bpf_dynptr_from_file(file, 0, &ptr))
		read_res = bpf_dynptr_read(&c, sizeof(c), &ptr, 0, 0);
	bpf_dynptr_file_discard(&ptr);
}

SEC("?lsm/backing_file_alloc")
int BPF_PROG(read_new_file, struct file *backing_file)
{
	read_backing_file(backing_file);
	return 0;
}

SEC("?lsm/backing_file_free")
int BPF_PROG(read_freed_file, struct file *backing_file)
{
	read_backing_file(backing_file);
	return 0;
}

/* Control */
SEC("?lsm/mmap_backing_file")
int BPF_PROG(read_mapped_file, struct vm_area_struct *vma, struct file *backing_file)
{
	read_backing_file(backing_file);
	return 0;
}
