// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "buildid.h"
#include "wait.bpf.h"

char _license[] SEC("license") = "GPL";

/* Set by user space: the task and the file to watch. */
pid_t target;
u64 inode_nr;
u32 fs_dev;		/* as in the kernel; 0: any */
int sample_nr;		/* the system call at which stacks are taken */

/* Stacks, in the order taken. */
struct bpf_stack_build_id samples[MAX_SAMPLES][STACK_FRAMES];
int nr_samples;
bool changing[MAX_SAMPLES];	/* NMIs: mappings were being changed */

struct bpf_stack_build_id deep[DEEP_FRAMES];

int removed, collapsed, open_runs, read_result, read_again_result, reads_irqs_off;
struct cache_events events;
bool stack_at_parse, stack_at_failed_fill;

/*
 * A second stack at the same system call, without the innermost frame. Interrupts are off:
 * the first one holds mmap_lock until they are on again, so this one does not get it.
 */
bool stack_of_callers;

/* i_opflags of the file, and invalidations before target cleared the flag in it. */
u64 opflags;
int flag_clears;
u64 invalidations_before_clear;

/*
 * A fill by target waits for user space: one that finds no headers, one that has parsed them
 * if hold_at_parse is set, or at on_entry_alloc().
 */
bool hold_fill, hold_at_parse, fill_held, release_fill, fill_released;

/*
 * Reads ahead that target has queued; the last one, whether it has run, and whether its worker
 * still charges memory to a cgroup.
 */
int aheads;
u64 ahead;
bool ahead_ran, ahead_charges;

/* A cgroup, and whether it has been freed. */
u64 cgroup;
bool cgroup_freed;
int pages_by_target, pages_by_others;

/* bpf_file_build_id() of the file executed by target. */
int exec_runs, exec_result, exec_large_result, exec_small_result;
unsigned char exec_id[24];
unsigned char exec_large[128 * 1024];
unsigned char exec_small[1];

/* The same of a file opened by target, in the program chosen by user space. */
enum asks_at_open asks_at_open;
int open_result;
int opening_nowait_result;
unsigned char open_id[24];

/*
 * The same in hooks that must not read files, or while @freed_inode_nr is freed. Other mapped
 * files can have the same inode number on another device.
 */
int locked_runs[LOCKED_HOOKS], locked_results[LOCKED_HOOKS];
u32 locked_dev;
u64 freed_inode_nr, mapped_at;

/* A folio that a program reads while another thread removes it from the page cache. */
u64 held_folio;
bool truncated, truncated_first, putting;
int puts_of_program, puts_of_others;

/* A folio that is reused while a program is about to take a reference to it. */
u64 held_refcount, held_sb;
bool reading, waiting, page_of_other_file;
char read_magic[4];
int references_left;		/* by the read */

static int refcount_of_held(void)
{
	return bpf_core_cast((void *)held_folio, struct folio)->_refcount.counter;
}

static bool on_target(void)
{
	return (pid_t)bpf_get_current_pid_tgid() == target;
}

static void take_stack(void *ctx)
{
	int n = nr_samples;

	if (n < 0 || n >= MAX_SAMPLES)
		return;
	bpf_get_stack(ctx, samples[n], sizeof(samples[n]),
		      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	barrier();
	nr_samples = n + 1;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	unsigned long flags;

	if (!on_target() || id != sample_nr)
		return 0;
	if (!stack_of_callers) {
		take_stack(ctx);
		return 0;
	}
	bpf_local_irq_save(&flags);
	take_stack(ctx);
	bpf_get_stack(ctx, deep, sizeof(samples[0]), BPF_F_USER_STACK | BPF_F_USER_BUILD_ID | 1);
	bpf_local_irq_restore(&flags);
	return 0;
}

static void take_stack_irqs_off(void *ctx)
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	take_stack(ctx);
	bpf_local_irq_restore(&flags);
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_irqs_off, struct pt_regs *regs, long id)
{
	if (on_target() && id == sample_nr)
		take_stack_irqs_off(ctx);
	return 0;
}

/* mprotect() calls it with mmap_lock held for writing. */
SEC("?fentry/security_file_mprotect")
int BPF_PROG(on_mprotect_irqs_off)
{
	if (on_target())
		take_stack_irqs_off(ctx);
	return 0;
}

SEC("?uprobe.s//proc/self/exe:sample_sleepable")
int on_sleepable(void *ctx)
{
	if (on_target())
		take_stack(ctx);
	return 0;
}

SEC("?uprobe.s//proc/self/exe:sample_sleepable")
int on_sleepable_deep(void *ctx)
{
	if (on_target())
		bpf_get_stack(ctx, deep, sizeof(deep), BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return 0;
}

SEC("?tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, s64 delta_ns, int handled)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	__u32 seq;
	int n;

	/* Runs for each NMI handler: skip those that did not handle it. */
	if (!handled || !on_target() || !bpf_in_nmi())
		return 0;
	n = nr_samples;
	if (n < 0 || n >= MAX_SAMPLES)
		return 0;
	seq = *(volatile __u32 *)&mm->mm_lock_seq.sequence;
	take_stack(ctx);
	/* Odd while another thread holds mmap_lock for writing: most of the time here. */
	changing[n] = seq & 1 || seq != *(volatile __u32 *)&mm->mm_lock_seq.sequence;
	return 0;
}

/* Reclaim calls it with the folio's reference count frozen. */
SEC("?fentry/__filemap_remove_folio")
int BPF_PROG(on_remove, struct folio *folio)
{
	if (on_target() && folio->mapping->host->i_ino == inode_nr) {
		take_stack(ctx);
		removed++;
	}
	return 0;
}

/* collapse_file() calls it, with retry entries in the holes of the file. */
SEC("?fentry/folio_add_lru")
int BPF_PROG(on_collapse, struct folio *folio)
{
	if (on_target() && inode_nr && folio->mapping &&
	    folio->mapping->host->i_ino == inode_nr) {
		take_stack(ctx);
		collapsed++;
	}
	return 0;
}

/* Reads, waits until another thread has truncated the file, and reads again. */
SEC("?lsm/file_open")
int BPF_PROG(on_opening_irqs_off, struct file *file)
{
	struct bpf_dynptr ptr;
	unsigned long flags;
	char magic[4];

	if (!on_target() || file->f_inode->i_ino != inode_nr || open_runs)
		return 0;
	bpf_local_irq_save(&flags);
	if (!bpf_dynptr_from_file(file, 0, &ptr)) {
		read_result = bpf_dynptr_read(magic, sizeof(magic), &ptr, 0, 0);
		/* A single page: xa_head is not a node. */
		*(volatile u64 *)&held_folio = (u64)file->f_mapping->i_pages.xa_head;
		truncated_first = becomes_true(&truncated);
		*(volatile bool *)&putting = true;
		read_again_result = bpf_dynptr_read(magic, sizeof(magic), &ptr, 0, 0);
	}
	bpf_dynptr_file_discard(&ptr);
	*(volatile bool *)&putting = false;
	bpf_local_irq_restore(&flags);
	open_runs++;
	return 0;
}

/* Reads more often than a CPU has slots for last references. */
SEC("?lsm/file_open")
int BPF_PROG(on_opening_often, struct file *file)
{
	struct bpf_dynptr ptr;
	unsigned long flags;
	char magic[4];
	int i;

	if (!on_target() || file->f_inode->i_ino != inode_nr)
		return 0;
	bpf_local_irq_save(&flags);
	bpf_for(i, 0, MANY_READS) {
		if (!bpf_dynptr_from_file(file, 0, &ptr) &&
		    !bpf_dynptr_read(magic, sizeof(magic), &ptr, 0, 0))
			reads_irqs_off++;
		bpf_dynptr_file_discard(&ptr);
	}
	bpf_local_irq_restore(&flags);
	open_runs++;
	return 0;
}

SEC("?fentry/__folio_put")
int BPF_PROG(on_last_put, struct folio *folio)
{
	if ((u64)folio != held_folio || !truncated)
		return 0;
	if (putting)
		puts_of_program++;
	else
		puts_of_others++;
	return 0;
}

/* Reads the first bytes of a file of one page. */
SEC("?lsm/file_open")
int BPF_PROG(on_opening_watched, struct file *file)
{
	struct bpf_dynptr ptr;

	if (!on_target() || file->f_inode->i_ino != inode_nr)
		return 0;
	/* A single page: xa_head is not a node. */
	held_folio = (u64)file->f_mapping->i_pages.xa_head;
	held_sb = (u64)file->f_inode->i_sb;
	held_refcount = held_folio + bpf_core_field_offset(struct folio, _refcount);
	if (!bpf_dynptr_from_file(file, 0, &ptr)) {
		reading = true;
		barrier();
		read_result = bpf_dynptr_read(read_magic, sizeof(read_magic), &ptr, 0, 0);
		barrier();
		reading = false;
		if (waiting)
			references_left += refcount_of_held();
	}
	bpf_dynptr_file_discard(&ptr);
	open_runs++;
	return 0;
}

/* The page of a file of the same file system, and written. */
static bool is_page_of_other_file(struct folio *folio)
{
	u64 uptodate = 1UL << bpf_core_enum_value(enum pageflags, PG_uptodate);
	struct inode *inode = folio->mapping->host;

	return (u64)inode->i_sb == held_sb && inode->i_ino != inode_nr && !folio->index &&
	       folio->flags.f & uptodate;
}

/*
 * A breakpoint on the reference count, which the read accesses after it found the folio.
 * Waits until another thread has truncated the file and filled other files. An atomic
 * increment that must not start at zero reads the count first.
 */
SEC("?perf_event")
int on_refcount(void *ctx)
{
	if (!on_target() || !reading || waiting)
		return 0;
	*(volatile bool *)&waiting = true;
	truncated_first = becomes_true(&truncated);
	page_of_other_file = is_page_of_other_file(bpf_core_cast((void *)held_folio,
								 struct folio));
	references_left = -refcount_of_held();
	return 0;
}

/* Reads a file that is not open yet. */
SEC("?lsm.s/file_open")
int BPF_PROG(on_opening, struct file *file)
{
	struct bpf_dynptr ptr;
	char magic[4];

	if (!on_target() || file->f_inode->i_ino != inode_nr)
		return 0;
	if (fs_dev && file->f_inode->i_sb->s_dev != fs_dev)
		return 0;
	if (!bpf_dynptr_from_file(file, 0, &ptr))
		read_result = bpf_dynptr_read(magic, sizeof(magic), &ptr, 0, 0);
	bpf_dynptr_file_discard(&ptr);
	if (bpf_ksym_exists(bpf_file_build_id))
		open_result = bpf_file_build_id(file, open_id, sizeof(open_id));
	open_runs++;
	return 0;
}

/* Reads a file that is open. */
SEC("?lsm.s/file_post_open")
int BPF_PROG(on_opened, struct file *file, int mask)
{
	struct bpf_dynptr ptr;
	char magic[4];

	if (!on_target() || file->f_inode->i_ino != inode_nr)
		return 0;
	if (!bpf_dynptr_from_file(file, 0, &ptr))
		read_result = bpf_dynptr_read(magic, sizeof(magic), &ptr, 0, 0);
	bpf_dynptr_file_discard(&ptr);
	open_runs++;
	return 0;
}

/* The build ID of the file, which is mapped. */
static __always_inline int at_locked(enum locked_hook hook)
{
	struct vm_area_struct *vma;
	struct file *file;

	bpf_for_each(task_vma, vma, bpf_get_current_task_btf(), 0) {
		file = vma->vm_file;
		if (!file || file->f_inode->i_ino != inode_nr ||
		    file->f_inode->i_sb->s_dev != locked_dev)
			continue;
		locked_results[hook] = bpf_file_build_id(file, open_id, sizeof(open_id));
		locked_runs[hook]++;
	}
	return 0;
}

static bool is_of_file(const struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	return on_target() && inode && inode->i_ino == inode_nr;
}

/* These may sleep, but the inode is locked. */
SEC("?lsm.s/inode_setattr")
int BPF_PROG(on_setattr, struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attr)
{
	return is_of_file(dentry) ? at_locked(SETATTR) : 0;
}

SEC("?lsm.s/path_chmod")
int BPF_PROG(on_path_chmod, const struct path *path)
{
	return is_of_file(path->dentry) ? at_locked(PATH_CHMOD) : 0;
}

SEC("?lsm.s/path_chown")
int BPF_PROG(on_path_chown, const struct path *path)
{
	return is_of_file(path->dentry) ? at_locked(PATH_CHOWN) : 0;
}

/* on_getattr can make a tail call to a program here. */
SEC("?lsm.s/path_truncate")
int BPF_PROG(on_path_truncate, const struct path *path)
{
	return is_of_file(path->dentry) ? at_locked(PATH_TRUNCATE) : 0;
}

/* nfsd locks the inode for these two. */
SEC("?lsm.s/inode_getattr")
int BPF_PROG(on_getattr, const struct path *path)
{
	return is_of_file(path->dentry) ? at_locked(GETATTR) : 0;
}

SEC("?lsm.s/inode_getxattr")
int BPF_PROG(on_getxattr, struct dentry *dentry, const char *name)
{
	return is_of_file(dentry) ? at_locked(GETXATTR) : 0;
}

SEC("?lsm.s/socket_create")
int BPF_PROG(on_socket_create, int family, int type, int protocol, int kern)
{
	return on_target() ? at_locked(SOCKET_CREATE) : 0;
}

SEC("?lsm.s/socket_post_create")
int BPF_PROG(on_socket_post_create, struct socket *sock, int family, int type, int protocol,
	     int kern)
{
	return on_target() ? at_locked(SOCKET_POST_CREATE) : 0;
}

SEC("?lsm.s/socket_sendmsg")
int BPF_PROG(on_socket_sendmsg, struct socket *sock, struct msghdr *msg, int size)
{
	return on_target() ? at_locked(SOCKET_SENDMSG) : 0;
}

SEC("?lsm.s/socket_recvmsg")
int BPF_PROG(on_socket_recvmsg, struct socket *sock, struct msghdr *msg, int size, int flags)
{
	return on_target() ? at_locked(SOCKET_RECVMSG) : 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, int);
	__type(value, int);
} one_element SEC(".maps");

/* Within rcu_read_lock() */
static long at_element(struct bpf_map *map, const int *key, int *value, void *ctx)
{
	return at_locked(MAP_CALLBACK);
}

SEC("?lsm.s/socket_getsockname")
int BPF_PROG(on_getsockname, struct socket *sock)
{
	if (on_target())
		bpf_for_each_map_elem(&one_element, at_element, NULL, 0);
	return 0;
}

/* With mmap_lock */
static long at_vma(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	return at_locked(VMA_CALLBACK);
}

SEC("?lsm.s/socket_shutdown")
int BPF_PROG(on_shutdown, struct socket *sock, int how)
{
	if (on_target())
		bpf_find_vma(bpf_get_current_task_btf(), mapped_at, at_vma, NULL, 0);
	return 0;
}

/* With mmap_lock of the target, at its first mapping. */
SEC("?iter.s/task_vma")
int on_task_vma(struct bpf_iter__task_vma *ctx)
{
	struct task_struct *task = ctx->task;

	if (ctx->vma && task && task->pid == target && on_target() &&
	    !locked_runs[ITER_TASK_VMA])
		at_locked(ITER_TASK_VMA);
	return 0;
}

/* Reclaim frees inodes. Here it is one that was deleted. */
SEC("?lsm.s/inode_free_security")
int BPF_PROG(on_inode_free, struct inode *inode)
{
	if (on_target() && freed_inode_nr && inode->i_ino == freed_inode_nr)
		at_locked(FREE_INODE);
	return 0;
}

SEC("?lsm/file_open")
int BPF_PROG(on_opening_nowait, struct file *file)
{
	if (!on_target() || file->f_inode->i_ino != inode_nr ||
	    file->f_inode->i_sb->s_dev != fs_dev)
		return 0;
	opening_nowait_result = bpf_file_build_id(file, open_id, sizeof(open_id));
	return 0;
}

/* A page of the file is added to the page cache, for the target or for others. */
SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(on_page_read, struct folio *folio)
{
	if (folio->mapping->host->i_ino != inode_nr)
		return 0;
	if (on_target())
		pages_by_target++;
	else
		pages_by_others++;
	return 0;
}

/* Holds the first fill up until user space has done something else, if it wants that. */
static void hold_first_fill(void)
{
	if (!hold_fill || fill_held || !on_target())
		return;
	*(volatile bool *)&fill_held = true;
	fill_released = becomes_true(&release_fill);
}

SEC("?tp_btf/build_id_parse")
int BPF_PROG(on_build_id_parse, struct inode *inode, int err)
{
	if (inode->i_ino != inode_nr)
		return 0;
	__sync_fetch_and_add(&events.parses, 1);
	if (stack_at_parse && on_target())
		take_stack(ctx);
	if (hold_at_parse)
		hold_first_fill();
	return 0;
}

SEC("?tp_btf/build_id_hit")
int BPF_PROG(on_build_id_hit, struct inode *inode, int err)
{
	if (inode->i_ino == inode_nr)
		__sync_fetch_and_add(&events.hits, 1);
	return 0;
}

SEC("?tp_btf/build_id_fill")
int BPF_PROG(on_build_id_fill, struct inode *inode, int err)
{
	if (inode->i_ino != inode_nr)
		return 0;
	opflags = (u64)inode + bpf_core_field_offset(struct inode, i_opflags);
	if (err)
		hold_first_fill();
	else
		__sync_fetch_and_add(&events.fills, 1);
	return 0;
}

/* Not in the program above, which would be a user of the cache then. */
SEC("?tp_btf/build_id_fill")
int BPF_PROG(on_failed_fill, struct inode *inode, int err)
{
	if (err && stack_at_failed_fill && inode->i_ino == inode_nr && on_target())
		take_stack(ctx);
	return 0;
}

/* A fill allocates its entry after it found no writer. */
SEC("?tp_btf/kmem_cache_alloc")
int BPF_PROG(on_entry_alloc, unsigned long call_site, const void *ptr, struct kmem_cache *s)
{
	char name[] = "build_id_entry", found[sizeof(name)];

	if (hold_fill && on_target() &&
	    bpf_probe_read_kernel_str(found, sizeof(found), s->name) == sizeof(name) &&
	    !__builtin_memcmp(found, name, sizeof(name)))
		hold_first_fill();
	return 0;
}

extern const void miss_work __ksym __weak;

/* Requests of target for the build ID of a mapping. */
int requests;

SEC("?fentry/task_work_add")
int BPF_PROG(on_task_work_add, struct task_struct *task, struct callback_head *work)
{
	if (on_target() && (const void *)work->func == &miss_work)
		requests++;
	return 0;
}

extern const void ahead_work __ksym __weak;

SEC("?tp_btf/workqueue_queue_work")
int BPF_PROG(on_queue_work, int cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	if (!on_target() || (const void *)work->func != &ahead_work)
		return 0;
	ahead = (u64)work;
	aheads++;
	return 0;
}

/* Without CONFIG_MEMCG, it has no such field. */
struct task_struct___memcg {
	struct mem_cgroup *active_memcg;
} __attribute__((preserve_access_index));

SEC("?tp_btf/workqueue_execute_end")
int BPF_PROG(on_work_done, struct work_struct *work)
{
	struct task_struct___memcg *worker = (void *)bpf_get_current_task_btf();

	if (!ahead || (u64)work != ahead)
		return 0;
	if (bpf_core_field_exists(worker->active_memcg))
		ahead_charges = BPF_CORE_READ(worker, active_memcg);
	barrier();
	*(volatile bool *)&ahead_ran = true;
	return 0;
}

SEC("?tp_btf/cgroup_release")
int BPF_PROG(on_cgroup_release, struct cgroup *cgrp)
{
	if (cgroup && cgrp->kn->id == cgroup)
		*(volatile bool *)&cgroup_freed = true;
	return 0;
}

SEC("?tp_btf/build_id_invalidate")
int BPF_PROG(on_build_id_invalidate, struct inode *inode, int err)
{
	if (inode->i_ino == inode_nr)
		__sync_fetch_and_add(&events.invalidations, 1);
	return 0;
}

#define IOP_BUILD_ID 0x0200	/* include/linux/fs.h */

/* A breakpoint on stores to i_opflags. */
SEC("?perf_event")
int on_opflags(void *ctx)
{
	u16 flags;

	if (!on_target() || bpf_probe_read_kernel(&flags, sizeof(flags), (void *)opflags) ||
	    flags & IOP_BUILD_ID)
		return 0;
	if (!flag_clears++)
		invalidations_before_clear = events.invalidations;
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	if (p->tgid != target)
		return 0;
	exec_result = bpf_file_build_id(bprm->file, exec_id, sizeof(exec_id));
	exec_large_result = bpf_file_build_id(bprm->file, exec_large, sizeof(exec_large));
	exec_small_result = bpf_file_build_id(bprm->file, exec_small, sizeof(exec_small));
	exec_runs++;
	return 0;
}

static __always_inline int at_open(struct file *file, enum asks_at_open who)
{
	if (!on_target() || file->f_inode->i_ino != inode_nr || asks_at_open != who)
		return 0;
	open_result = bpf_file_build_id(file, open_id, sizeof(open_id));
	open_runs++;
	return 0;
}

SEC("?lsm/file_post_open")
int BPF_PROG(on_open, struct file *file, int mask)
{
	return at_open(file, MAY_NOT_SLEEP);
}

SEC("?lsm.s/file_post_open")
int BPF_PROG(on_open_sleepable, struct file *file, int mask)
{
	return at_open(file, MAY_SLEEP);
}
