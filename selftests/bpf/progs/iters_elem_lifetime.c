// SPDX-License-Identifier: GPL-2.0
/*
 * Lifetime of the pointers that an open-coded iterator returns. A pointer to an object
 * that only the iterator keeps ends with the next step, and with the iterator.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_misc.h"

char _license[] SEC("license") = "GPL";

struct cgroup *bpf_cgroup_from_id(u64 cgid) __ksym;
void bpf_cgroup_release(struct cgroup *p) __ksym;
struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;

struct inode *bpf_real_data_inode(struct file *file) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, int);
} inodes SEC(".maps");

/* Programs of the type fentry must return 0. */
int result;

SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int vma_after_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	bpf_iter_task_vma_destroy(&it);
	return vma ? vma->vm_flags : 0;
}

SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int file_after_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct file *file = NULL;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma)
		file = vma->vm_file;
	bpf_iter_task_vma_destroy(&it);
	return file ? file->f_flags : 0;
}

SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int inode_after_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct inode *inode = NULL;
	struct vm_area_struct *vma;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		file = vma->vm_file;
		if (file)
			inode = file->f_inode;
	}
	bpf_iter_task_vma_destroy(&it);
	return inode ? inode->i_ino : 0;
}

/* A pointer returned without a reference of its own is invalid once its argument is. */
SEC("?lsm.s/file_open")
__failure __msg("invalid mem access 'scalar'")
int BPF_PROG(real_inode_after_destroy, struct file *opened)
{
	struct bpf_iter_task_vma it;
	struct inode *inode = NULL;
	struct vm_area_struct *vma;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		file = vma->vm_file;
		if (file)
			inode = bpf_real_data_inode(file);
	}
	bpf_iter_task_vma_destroy(&it);
	if (inode)
		result = inode->i_ino;
	return 0;
}

SEC("?lsm.s/file_open")
__success
int BPF_PROG(real_inode_before_destroy, struct file *opened)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct inode *inode;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		file = vma->vm_file;
		if (file) {
			inode = bpf_real_data_inode(file);
			if (inode)
				result = inode->i_ino;
		}
	}
	/* The file of the hook outlasts the iterator. */
	inode = bpf_real_data_inode(opened);
	bpf_iter_task_vma_destroy(&it);
	if (inode)
		result = inode->i_ino;
	return 0;
}

/* A trusted pointer in an object to which the program has a reference */
SEC("?lsm.s/file_open")
__failure __msg("invalid mem access 'scalar'")
int BPF_PROG(inode_after_put_file, struct file *opened)
{
	struct inode *inode;
	struct file *file;

	file = bpf_get_task_exe_file(bpf_get_current_task_btf());
	if (!file)
		return 0;
	inode = file->f_inode;
	bpf_put_file(file);
	result = inode->i_ino;
	return 0;
}

/* A field of an RCU pointer, here exe_file of an element's mm, is valid as long as that */
SEC("?lsm.s/file_open")
__failure __msg("R2 type=untrusted_ptr_")
int BPF_PROG(inode_after_rcu_unlock, struct file *opened)
{
	struct bpf_iter_task_vma it;
	struct inode *inode = NULL;
	struct vm_area_struct *vma;
	struct mm_struct *mm;
	struct file *exe;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		mm = vma->vm_mm;
		if (mm) {
			bpf_rcu_read_lock();
			exe = mm->exe_file;
			if (exe)
				inode = exe->f_inode;
			bpf_rcu_read_unlock();
		}
	}
	bpf_iter_task_vma_destroy(&it);
	if (inode)
		bpf_inode_storage_get(&inodes, inode, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

SEC("?lsm.s/file_open")
__success
int BPF_PROG(inode_before_rcu_unlock, struct file *opened)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct inode *inode;
	struct mm_struct *mm;
	struct file *exe;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		mm = vma->vm_mm;
		if (mm) {
			bpf_rcu_read_lock();
			exe = mm->exe_file;
			if (exe) {
				inode = exe->f_inode;
				/* Creating a storage would need a reference. */
				bpf_inode_storage_get(&inodes, inode, 0, 0);
			}
			bpf_rcu_read_unlock();
		}
	}
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

SEC("?lsm.s/file_open")
__success
int BPF_PROG(inode_before_put_file, struct file *opened)
{
	struct inode *inode, *other = opened->f_inode;
	struct file *file;

	file = bpf_get_task_exe_file(bpf_get_current_task_btf());
	if (!file)
		return 0;
	inode = file->f_inode;
	result = inode->i_ino;
	bpf_inode_storage_get(&inodes, inode, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bpf_put_file(file);
	/* The inode of another file is not affected. */
	result += other->i_ino;
	return 0;
}

SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int vma_after_next(void *ctx)
{
	struct vm_area_struct *first, *second;
	struct bpf_iter_task_vma it;
	int ret = 0;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	first = bpf_iter_task_vma_next(&it);
	if (first) {
		second = bpf_iter_task_vma_next(&it);
		if (second)
			ret = first->vm_flags == second->vm_flags;
	}
	bpf_iter_task_vma_destroy(&it);
	return ret;
}

/* The last step, which returns NULL, puts the file as well. */
SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int vma_after_last_next(void *ctx)
{
	struct vm_area_struct *first, *second;
	struct bpf_iter_task_vma it;
	int ret = 0;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	first = bpf_iter_task_vma_next(&it);
	if (first) {
		second = bpf_iter_task_vma_next(&it);
		if (!second)
			ret = first->vm_flags;
	}
	bpf_iter_task_vma_destroy(&it);
	return ret;
}

SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int file_after_next(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct file *file = NULL;
	int ret = 0;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (vma) {
		file = vma->vm_file;
		vma = bpf_iter_task_vma_next(&it);
		if (vma && file)
			ret = file->f_flags;
	}
	bpf_iter_task_vma_destroy(&it);
	return ret;
}

/* The same, from one iteration of a loop to the next. */
SEC("?raw_tp")
__failure __msg("invalid mem access 'scalar'")
int vma_of_last_round(void *ctx)
{
	struct vm_area_struct *vma, *last = NULL;
	struct bpf_iter_task_vma it;
	int n = 0;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		if (last && last->vm_flags == vma->vm_flags)
			n++;
		last = vma;
	}
	bpf_iter_task_vma_destroy(&it);
	return n;
}

/* A file dynptr takes no reference: it reads the file that the iterator keeps. */
SEC("?raw_tp")
__failure __msg("Leaking reference id={{[0-9]+}} alloc_insn={{[0-9]+}}. Release it first.")
int file_dynptr_at_destroy(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct bpf_dynptr dynptr;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (!vma)
		goto out;
	file = vma->vm_file;
	if (!file)
		goto out;
	bpf_dynptr_from_file(file, 0, &dynptr);
	bpf_iter_task_vma_destroy(&it);
	bpf_dynptr_file_discard(&dynptr);
	return 0;
out:
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

SEC("?raw_tp")
__failure __msg("Leaking reference id={{[0-9]+}} alloc_insn={{[0-9]+}}. Release it first.")
int file_dynptr_at_next(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct bpf_dynptr dynptr;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	vma = bpf_iter_task_vma_next(&it);
	if (!vma)
		goto out;
	file = vma->vm_file;
	if (!file)
		goto out;
	bpf_dynptr_from_file(file, 0, &dynptr);
	bpf_iter_task_vma_next(&it);
	bpf_dynptr_file_discard(&dynptr);
out:
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

SEC("?raw_tp")
__success
int file_dynptr_between(void *ctx)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct bpf_dynptr dynptr;
	struct file *file;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		file = vma->vm_file;
		if (!file)
			continue;
		bpf_dynptr_from_file(file, 0, &dynptr);
		bpf_dynptr_file_discard(&dynptr);
	}
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

/* Two iterators: the step of one leaves the element of the other alone. */
SEC("?raw_tp")
__success
int two_iterators(void *ctx)
{
	struct bpf_iter_task_vma it1, it2;
	struct vm_area_struct *a, *b;
	struct file *file = NULL;
	int ret = 0;

	bpf_iter_task_vma_new(&it1, bpf_get_current_task_btf(), 0);
	bpf_iter_task_vma_new(&it2, bpf_get_current_task_btf(), 0);
	a = bpf_iter_task_vma_next(&it1);
	if (a)
		file = a->vm_file;
	b = bpf_iter_task_vma_next(&it2);
	bpf_iter_task_vma_next(&it2);
	bpf_iter_task_vma_destroy(&it2);
	if (a && file)
		ret = a->vm_flags == file->f_flags;
	bpf_iter_task_vma_destroy(&it1);
	return ret + !!b;
}

/* The next step puts the task, as destroy does. */
SEC("?fentry.s/" SYS_PREFIX "sys_getpgid")
__failure __msg("invalid mem access 'scalar'")
int css_task_after_next(void *ctx)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(bpf_get_current_cgroup_id());
	struct task_struct *first, *second;
	struct bpf_iter_css_task it;

	if (!cgrp)
		return 0;
	bpf_iter_css_task_new(&it, &cgrp->self, CSS_TASK_ITER_PROCS);
	first = bpf_iter_css_task_next(&it);
	if (first) {
		second = bpf_iter_css_task_next(&it);
		if (second)
			result = first->pid == second->pid;
	}
	bpf_iter_css_task_destroy(&it);
	bpf_cgroup_release(cgrp);
	return 0;
}

/* A reference that the program acquired outlives the iterator. */
SEC("?fentry.s/" SYS_PREFIX "sys_getpgid")
__success
int css_task_acquired(void *ctx)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(bpf_get_current_cgroup_id());
	struct task_struct *task, *mine = NULL;
	struct bpf_iter_css_task it;

	if (!cgrp)
		return 0;
	bpf_iter_css_task_new(&it, &cgrp->self, CSS_TASK_ITER_PROCS);
	task = bpf_iter_css_task_next(&it);
	if (task)
		mine = bpf_task_acquire(task);
	bpf_iter_css_task_destroy(&it);
	if (mine) {
		result = mine->pid;
		bpf_task_release(mine);
	}
	bpf_cgroup_release(cgrp);
	return 0;
}

SEC("?syscall")
__failure __msg("invalid mem access 'scalar'")
int kmem_cache_after_destroy(void *ctx)
{
	struct bpf_iter_kmem_cache it;
	struct kmem_cache *s;

	bpf_iter_kmem_cache_new(&it);
	s = bpf_iter_kmem_cache_next(&it);
	bpf_iter_kmem_cache_destroy(&it);
	return s ? s->size : 0;
}

/* RCU keeps the tasks of this iterator, at any position. */
SEC("?raw_tp")
__success
int task_after_next(void *ctx)
{
	struct task_struct *first, *second;
	struct bpf_iter_task it;
	int ret = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	first = bpf_iter_task_next(&it);
	second = bpf_iter_task_next(&it);
	bpf_iter_task_destroy(&it);
	if (first && second)
		ret = first->pid == second->pid;
	return ret;
}

/* The numbers are part of the iterator, and last as long as it does. */
SEC("?raw_tp")
__success
int num_after_next(void *ctx)
{
	struct bpf_iter_num it;
	int *first, *second, ret = 0;

	bpf_iter_num_new(&it, 0, 10);
	first = bpf_iter_num_next(&it);
	second = bpf_iter_num_next(&it);
	if (first && second)
		ret = *first + *second;
	bpf_iter_num_destroy(&it);
	return ret;
}
