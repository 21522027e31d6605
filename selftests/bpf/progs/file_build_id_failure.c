// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

SEC("?lsm/file_open")
__failure __msg("Possibly NULL pointer passed to trusted R1")
int BPF_PROG(no_file, struct file *file)
{
	char id[20];

	bpf_file_build_id(NULL, id, sizeof(id));
	return 0;
}

/* A task may have no executable. */
SEC("?lsm/file_open")
__failure __msg("Possibly NULL pointer passed to trusted R1")
int BPF_PROG(file_without_check, struct file *file)
{
	struct file *exe = bpf_get_task_exe_file(bpf_get_current_task_btf());
	char id[20];

	bpf_file_build_id(exe, id, sizeof(id));
	if (exe)
		bpf_put_file(exe);
	return 0;
}

/* Not a file. */
SEC("?lsm/file_open")
__failure __msg("R1 is fp expected STRUCT file")
int BPF_PROG(stack_for_file, struct file *file)
{
	char id[20];
	long x = 0;

	bpf_file_build_id((struct file *)&x, id, sizeof(id));
	return 0;
}

/* A trusted pointer, but not to a file. */
SEC("?lsm/file_open")
__failure __msg("R1 expected pointer to STRUCT file but R1 has a pointer to STRUCT task_struct")
int BPF_PROG(task_for_file, struct file *file)
{
	char id[20];

	bpf_file_build_id((void *)bpf_get_current_task_btf(), id, sizeof(id));
	return 0;
}

/* The program holds no reference to the file of another task. */
SEC("?lsm/file_open")
__failure __msg("R1 must be referenced or trusted")
int BPF_PROG(walked_to_file, struct file *file)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->real_parent->mm;
	char id[20];

	bpf_file_build_id(mm->exe_file, id, sizeof(id));
	return 0;
}

/* The reference was put. */
SEC("?lsm/file_open")
__failure __msg("R1 is scalar expected STRUCT file")
int BPF_PROG(file_after_put, struct file *file)
{
	struct file *exe = bpf_get_task_exe_file(bpf_get_current_task_btf());
	char id[20];

	if (!exe)
		return 0;
	bpf_put_file(exe);
	bpf_file_build_id(exe, id, sizeof(id));
	return 0;
}

/* The size is larger than the buffer. */
SEC("?lsm/file_open")
__failure __msg("memory, len pair leads to invalid memory access")
int BPF_PROG(beyond_buffer, struct file *file)
{
	char id[20];

	bpf_file_build_id(file, id, sizeof(id) + 8);
	return 0;
}

__u32 unknown_size;

/* The size is not bounded. */
SEC("?lsm/file_open")
__failure __msg("R3 unbounded memory access")
int BPF_PROG(unbounded_size, struct file *file)
{
	char id[20];

	bpf_file_build_id(file, id, unknown_size);
	return 0;
}

/* The buffer is read-only. */
SEC("?lsm/file_open")
__failure __msg("write into map forbidden")
int BPF_PROG(into_rodata, struct file *file)
{
	static const char id[20];

	bpf_file_build_id(file, (void *)id, sizeof(id));
	return 0;
}
