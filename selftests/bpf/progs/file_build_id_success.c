// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

/* A file that the kernel holds for the program. */
SEC("lsm/file_open")
__success
int BPF_PROG(file_of_hook, struct file *file)
{
	char id[20];

	bpf_file_build_id(file, id, sizeof(id));
	return 0;
}

/* The same in a program that may sleep, so that the file may be read. */
SEC("lsm.s/file_open")
__success
int BPF_PROG(file_of_sleepable_hook, struct file *file)
{
	char id[20];

	bpf_file_build_id(file, id, sizeof(id));
	return 0;
}

/* A file that the program holds. */
SEC("lsm/file_open")
__success
int BPF_PROG(file_of_task, struct file *file)
{
	struct file *exe = bpf_get_task_exe_file(bpf_get_current_task_btf());
	char id[20];

	if (!exe)
		return 0;
	bpf_file_build_id(exe, id, sizeof(id));
	bpf_put_file(exe);
	return 0;
}

/* A file that the iterator holds, until the next VMA. */
SEC("raw_tp")
__success
int file_of_vma(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct file *file;
	char id[20];

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		file = vma->vm_file;
		if (file)
			bpf_file_build_id(file, id, sizeof(id));
	}
	bpf_iter_task_vma_destroy(&it);
	return 0;
}
