// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "task_vma.h"
#include "wait.bpf.h"

char _license[] SEC("license") = "GPL";

/* include/linux/sched.h */
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000

#define PR_GET_DUMPABLE 3	/* include/uapi/linux/prctl.h */

/* Set by user space: the task to watch, and the system call to sample at. */
pid_t target;
int sample_nr;

struct seen seen;
struct seen_vma vmas[MAX_VMAS];
struct record records[MAX_VMAS];
struct bpf_stack_build_id stack[2];
__u64 fault_addr;
__u64 query_addr;

static bool on_target(void)
{
	return (pid_t)bpf_get_current_pid_tgid() == target;
}

/* --- the contexts ----------------------------------------------------------------- */

static void walk(void)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	long err;

	seen.nr_vmas = 0;
	seen.nr_files = 0;
	seen.nr_has_file = 0;
	err = bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	if (!err)
		seen.walks++;
	while ((vma = bpf_iter_task_vma_next(&it))) {
		__u32 i = seen.nr_vmas;

		if (i >= MAX_VMAS)
			break;
		vmas[i].start = vma->vm_start;
		vmas[i].end = vma->vm_end;
		vmas[i].pgoff = vma->vm_pgoff;
		vmas[i].flags = vma->vm_flags;
		if (vma->vm_file)
			seen.nr_files++;
		if (bpf_ksym_exists(bpf_iter_task_vma_has_file) && bpf_iter_task_vma_has_file(&it))
			seen.nr_has_file++;
		seen.nr_vmas = i + 1;
	}
	if (!err && bpf_ksym_exists(bpf_iter_task_vma_error))
		err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	seen.walk_err = err;
	if (!err)
		seen.complete++;
}

static void query_all(void)
{
	__u64 addr = 0;
	long err = 0;
	int i;

	if (!bpf_ksym_exists(bpf_task_vma_query))
		return;
	seen.nr_records = 0;
	bpf_for(i, 0, MAX_VMAS) {
		err = bpf_task_vma_query(addr, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &records[i],
					 sizeof(records[i]));
		if (err)
			break;
		addr = records[i].end;
		seen.nr_records++;
	}
	if (err != -2)	/* -ENOENT: no more */
		seen.query_err = err ?: 1;
}

static long found(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	return 0;
}

static void count_stack(long size)
{
	if (size >= (long)sizeof(stack[0]) && stack[0].status == BPF_STACK_BUILD_ID_VALID)
		seen.stacks++;
}

/* Other users of mappings; with interrupts off, bpf_find_vma() works at most once. */
static void look_elsewhere(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	long err;

	err = bpf_find_vma(task, query_addr, found, NULL, 0);
	if (!seen.runs)
		seen.find_vma_first = err;
	seen.find_vma_err = bpf_find_vma(task, query_addr, found, NULL, 0);
	count_stack(bpf_get_task_stack(task, stack, sizeof(stack),
				       BPF_F_USER_STACK | BPF_F_USER_BUILD_ID));
}

static void look(bool in_context)
{
	if (in_context)
		seen.in_context++;
	walk();
	query_all();
	look_elsewhere();
	barrier();
	seen.runs++;
}

SEC("?tp_btf/nmi_handler")
int BPF_PROG(nmi, void *handler, s64 delta_ns, int handled)
{
	/* An NMI is offered to each handler; "handled" is set for the one that took it. */
	if (handled && on_target())
		look(bpf_in_nmi());
	return 0;
}

SEC("?perf_event")
int hardirq(void *ctx)
{
	if (on_target())
		look(bpf_in_hardirq() && !bpf_in_nmi());
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(irqs_off, struct pt_regs *regs, long id)
{
	unsigned long flags;

	if (!on_target() || id != sample_nr)
		return 0;
	bpf_local_irq_save(&flags);
	look(!bpf_in_interrupt());
	bpf_local_irq_restore(&flags);
	return 0;
}

/* Code in which the task sleeps on purpose: not in a page fault or a libbpf system call. */
__u64 sleep_start, sleep_end;

/* The scheduler holds the run queue's lock, with interrupts off. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pt_regs *regs;
	__u64 ip;

	if (prev->pid != target || preempt)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(prev);
	ip = PT_REGS_IP(regs);
	if (ip >= sleep_start && ip < sleep_end)
		look(on_target() && !bpf_in_interrupt());
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(syscall_entry, struct pt_regs *regs, long id)
{
	if (on_target() && id == sample_nr)
		look(!bpf_in_interrupt());
	return 0;
}

/* On a breakpoint instruction, which is handled like an NMI. */
SEC("?kprobe/security_task_getpgid")
int kprobe_int3(void *ctx)
{
	if (on_target())
		look(bpf_in_nmi());
	return 0;
}

SEC("?fentry/security_task_getpgid")
int BPF_PROG(fentry_getpgid, struct task_struct *p)
{
	if (on_target())
		look(!bpf_in_interrupt());
	return 0;
}

/* In the exception itself, before the fault is handled. */
SEC("?perf_event")
int page_fault(struct bpf_perf_event_data *ctx)
{
	if (on_target() && ctx->addr == fault_addr)
		look(!bpf_in_interrupt());
	return 0;
}

SEC("?uprobe//proc/self/exe:sample_uprobe")
int uprobe(void *ctx)
{
	if (on_target())
		look(!bpf_in_interrupt());
	return 0;
}

/* x86 keeps "no reschedule needed" in the top bit. */
static bool preemptible(void)
{
	return !(get_preempt_count() & ~(1U << 31));
}

SEC("?uprobe.s//proc/self/exe:sample_uprobe")
int sleepable(void *ctx)
{
	if (on_target())
		look(preemptible());
	return 0;
}

SEC("?lsm.s/task_prctl")
int BPF_PROG(sleepable_lsm, int option)
{
	if (on_target() && option == PR_GET_DUMPABLE)
		look(preemptible());
	return -38;	/* -ENOSYS: prctl() proceeds as usual */
}

/* --- many lookups in one NMI ------------------------------------------------------ */

__u64 lookup_addrs[QUERIES];

SEC("?tp_btf/nmi_handler")
int BPF_PROG(nmi_lookups, void *handler, s64 delta_ns, int handled)
{
	struct task_struct *task = bpf_get_current_task_btf();
	long err;
	int i;

	if (!handled || !on_target())
		return 0;
	if (bpf_in_nmi())
		seen.in_context++;
	count_stack(bpf_get_stack(ctx, stack, sizeof(stack),
				  BPF_F_USER_STACK | BPF_F_USER_BUILD_ID));
	bpf_for(i, 0, QUERIES) {
		if (bpf_ksym_exists(bpf_task_vma_query)) {
			err = bpf_task_vma_query(lookup_addrs[i], 0, &records[i],
						 sizeof(records[i]));
			if (err)
				seen.query_err = err;
			else
				seen.queries++;
		} else {
			err = bpf_find_vma(task, lookup_addrs[i], found, NULL, 0);
			seen.find_vma_calls++;
			if (err)
				seen.find_vma_err = err;
			else
				seen.find_vma++;
		}
	}
	barrier();
	seen.runs++;
	return 0;
}

/* --- special cases ------------------------------------------------------------------- */

/* Kernel threads, which may run on a borrowed mm. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(kthread, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	struct bpf_iter_task_vma it;

	if (!(task->flags & PF_KTHREAD) || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	if (!preemptible() && !bpf_in_interrupt() && task->active_mm)
		__sync_fetch_and_add(&seen.in_context, 1);
	if (bpf_iter_task_vma_new(&it, task, 0) == -2)		/* -ENOENT */
		__sync_fetch_and_add(&seen.walks, 1);
	bpf_iter_task_vma_destroy(&it);
	if (bpf_task_vma_query(0, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec, sizeof(rec)) == -2)
		__sync_fetch_and_add(&seen.queries, 1);
	__sync_fetch_and_add(&seen.runs, 1);
	return 0;
}

/* Queries of a task that then sleeps. */
pid_t sleeper;
__u64 asked[ASKED_FOR];

SEC("?tp_btf/sched_switch")
int BPF_PROG(asleep, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct bpf_task_vma_record rec;
	int i;

	if (prev->pid != sleeper || !prev_state || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	seen.in_context += !preemptible() && !bpf_in_interrupt();
	bpf_for(i, 0, ASKED_FOR)
		if (!bpf_task_vma_query(asked[i], 0, &rec, sizeof(rec)) &&
		    rec.build_id_status == BPF_TASK_VMA_BUILD_ID_PENDING)
			seen.queries++;
	barrier();
	seen.runs++;
	return 0;
}

/* Of each mmap() of the task itself: mm->vma_frees, and lookups of addresses without a mapping. */
struct no_mapping no_mapping[NO_MAPPING_CALLS];

SEC("?lsm/mmap_addr")
int BPF_PROG(in_mmap_no_mapping, unsigned long addr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct no_mapping *call;
	struct record rec;
	__u32 i = seen.runs;

	if (!on_target() || !bpf_ksym_exists(bpf_task_vma_query) || i >= NO_MAPPING_CALLS)
		return 0;
	seen.in_context += !bpf_in_interrupt() && task->mm->mm_lock_seq.sequence & 1;
	call = &no_mapping[i];
	seen.runs = i + 1;
	call->frees_known = bpf_core_field_exists(task->mm->vma_frees);
	if (call->frees_known)
		call->frees = task->mm->vma_frees;
	call->user_err = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
	call->kernel_err = bpf_task_vma_query(bpf_get_current_task(), 0, &rec, sizeof(rec));
	call->kernel_mm = rec.mm;
	return 0;
}

/* In the task's own mmap(), which holds mmap_lock for writing. */
SEC("?lsm/mmap_addr")
int BPF_PROG(in_mmap, unsigned long addr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	struct bpf_iter_task_vma it;
	unsigned long flags;

	if (!on_target() || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	/* The sequence count of an mm is odd while its mmap_lock is held for writing. */
	seen.in_context += !bpf_in_interrupt() && task->mm->mm_lock_seq.sequence & 1;
	seen.query_err = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
	if (!seen.query_err && rec.start <= query_addr && rec.end > query_addr)
		seen.queries++;
	bpf_local_irq_save(&flags);
	bpf_iter_task_vma_new(&it, task, 0);
	while (bpf_iter_task_vma_next(&it))
		seen.nr_records++;
	seen.find_vma_err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	/* With interrupts on, a walk takes the per-VMA locks. */
	walk();
	seen.runs++;
	return 0;
}

/* --- one query -------------------------------------------------------------------- */

__u64 query_flags;
__u32 query_size, query_shift;
long query_result;
char query_out[4096 + 2 * sizeof(__u64)];

SEC("?tp_btf/sys_enter")
int BPF_PROG(query_once, struct pt_regs *regs, long id)
{
	__u32 size = query_size, shift = query_shift;

	if (!on_target() || id != sample_nr || size > sizeof(query_out) - sizeof(__u64) ||
	    shift >= sizeof(__u64) || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	query_result = bpf_task_vma_query(query_addr, query_flags, query_out + shift, size);
	return 0;
}

/* --- a file that is reused while a walk takes it ---------------------------------- */

__u64 held_seq;		/* where mm_lock_seq of target is */
__u64 held_file;	/* the struct file that is mapped */
__u64 held_ino, other_ino;
__u32 hold_at, accesses;
bool stepping, waiting, replaced, replaced_first, is_other_file;
__u64 taken_ino;

/* The file of the first VMA of a walk that begins at query_addr. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(walk_watched, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct file *file;

	if (!on_target() || id != sample_nr)
		return 0;
	held_seq = (__u64)task->mm + bpf_core_field_offset(struct mm_struct, mm_lock_seq.sequence);
	taken_ino = 0;
	bpf_iter_task_vma_new(&it, task, query_addr);
	stepping = true;
	barrier();
	vma = bpf_iter_task_vma_next(&it);
	barrier();
	stepping = false;
	file = vma && vma->vm_start == query_addr ? vma->vm_file : NULL;
	if (file) {
		held_file = (__u64)file;
		taken_ino = file->f_inode->i_ino;
	}
	bpf_iter_task_vma_destroy(&it);
	seen.runs++;
	return 0;
}

/*
 * A breakpoint on mm_lock_seq, which a step reads before and after the fields of a VMA, and
 * after it has taken a reference to the file. At one of them, waits until another thread has
 * unmapped the file and opened others.
 */
SEC("?perf_event")
int on_mm_lock_seq(void *ctx)
{
	struct file *file;

	if (!on_target() || !stepping || ++accesses != hold_at)
		return 0;
	*(volatile bool *)&waiting = true;
	replaced_first = becomes_true(&replaced);
	file = bpf_core_cast((void *)held_file, struct file);
	is_other_file = file->f_inode->i_ino == other_ino;
	return 0;
}

/* At each access to mm_lock_seq, another thread changes mappings, up to max_changes times. */
enum how_to_try how_to_try;
__u32 changes, max_changes, late_changes;
bool change, changed;
long try_err;

SEC("?tp_btf/sys_enter")
int BPF_PROG(try_lookup, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	struct bpf_iter_task_vma it;
	unsigned long flags;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_task_vma_query) ||
	    !bpf_ksym_exists(bpf_iter_task_vma_error))
		return 0;
	held_seq = (__u64)task->mm + bpf_core_field_offset(struct mm_struct, mm_lock_seq.sequence);
	switch (how_to_try) {
	case TRY_WALK:
		bpf_local_irq_save(&flags);
		bpf_iter_task_vma_new(&it, task, query_addr);
		stepping = true;
		barrier();
		bpf_iter_task_vma_next(&it);
		barrier();
		stepping = false;
		try_err = bpf_iter_task_vma_error(&it);
		bpf_iter_task_vma_destroy(&it);
		bpf_local_irq_restore(&flags);
		break;
	case TRY_QUERY:
		stepping = true;
		barrier();
		try_err = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
		barrier();
		stepping = false;
		break;
	default:
		stepping = true;
		barrier();
		bpf_get_stack(ctx, stack, sizeof(stack[0]),
			      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
		barrier();
		stepping = false;
	}
	seen.in_context += !bpf_in_interrupt();
	seen.runs++;
	return 0;
}

/* A breakpoint on mm_lock_seq: waits for the other thread. */
SEC("?perf_event")
int change_at_access(void *ctx)
{
	if (!on_target() || !stepping || changes >= max_changes)
		return 0;
	changes++;
	changed = false;
	barrier();
	change = true;
	barrier();
	late_changes += !becomes_true(&changed);
	return 0;
}

/* Another task's mappings: their number, or the error, with interrupts on and off. */
pid_t other_pid;
long other_err[2];
__u32 other_vmas;
int other_refs;			/* that the walks have left */
/* Of the walk that was refused. */
bool refused_has_file;
__u64 refused_addr;

SEC("?tp_btf/sys_enter")
int BPF_PROG(other_task, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct task_struct *task;
	unsigned long flags;

	if (!on_target() || id != sample_nr)
		return 0;
	task = bpf_task_from_pid(other_pid);
	if (!task)
		return 0;
	other_vmas = 0;
	other_refs = -task->usage.refs.counter;
	other_err[0] = bpf_iter_task_vma_new(&it, task, 0);
	while (bpf_iter_task_vma_next(&it))
		other_vmas++;
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_save(&flags);
	other_err[1] = bpf_iter_task_vma_new(&it, task, 0);
	if (bpf_ksym_exists(bpf_iter_task_vma_has_file))
		refused_has_file = bpf_iter_task_vma_has_file(&it);
	if (bpf_ksym_exists(bpf_iter_task_vma_error_addr))
		refused_addr = bpf_iter_task_vma_error_addr(&it);
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	other_refs += task->usage.refs.counter;
	bpf_task_release(task);
	seen.runs++;
	return 0;
}

struct foreign foreign;

/*
 * State of the current walk. As local variables, each combination of their values would be
 * a state for the verifier to check.
 */
static struct {
	__u64 end, mm, sentinels, slots;
} volatile walked;

/* @err: of bpf_iter_task_vma_new() */
static void count_foreign(long err)
{
	if (err == -2)			/* -ENOENT */
		foreign.no_mm++;
	else if (err == -16)		/* -EBUSY */
		foreign.busy++;
	else if (err)
		foreign.err = err;
	else
		foreign.walks++;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(foreign_task, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	__u64 mm = 0;
	struct task_struct *task;
	long err;

	if (!on_target() || id != sample_nr)
		return 0;
	foreign.asked++;
	task = bpf_task_from_pid(other_pid);
	if (!task) {
		foreign.no_task++;
		return 0;
	}
	walked.end = 0;
	walked.mm = 0;
	walked.sentinels = 0;
	err = bpf_iter_task_vma_new(&it, task, 0);
	count_foreign(err);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		/* As a number: the pointer is only valid for this step. */
		bpf_probe_read_kernel(&mm, sizeof(mm), &vma->vm_mm);
		if (vma->vm_start < walked.end || vma->vm_end <= vma->vm_start ||
		    (walked.mm && mm != walked.mm))
			foreign.wrong++;
		walked.mm = mm;
		walked.end = vma->vm_end;
		if (vma->vm_start == SENTINEL)
			walked.sentinels++;
		foreign.vmas++;
	}
	if (!err && bpf_ksym_exists(bpf_iter_task_vma_error))
		err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	bpf_task_release(task);
	if (err == -11)			/* -EAGAIN */
		foreign.left_out++;
	if (err)
		return 0;
	foreign.complete++;
	if (!walked.sentinels)
		foreign.missing++;
	if (walked.sentinels > 1)
		foreign.twice++;
	return 0;
}

/* In prlimit(), which holds the alloc_lock of the task it changes. */
SEC("?lsm/task_setrlimit")
int BPF_PROG(alloc_lock, struct task_struct *p, unsigned int resource)
{
	struct bpf_iter_task_vma it;
	bool own = p->pid == target;

	if (!on_target() || (!own && p->pid != other_pid))
		return 0;
	other_err[own] = bpf_iter_task_vma_new(&it, p, 0);
	other_vmas = 0;
	while (bpf_iter_task_vma_next(&it))
		other_vmas++;
	if (bpf_ksym_exists(bpf_iter_task_vma_error) &&
	    bpf_iter_task_vma_error(&it) != other_err[own])
		other_err[own] = 1;
	bpf_iter_task_vma_destroy(&it);
	seen.runs++;
	return 0;
}

/* Allocated to exhaust all memory of the sizes that a walk's state may have. */
struct half_kib {
	char data[480];
};

struct kib {
	char data[990];
};

struct taken {
	struct half_kib __kptr *half_kib;
	struct kib __kptr *kib;
};

#define MAX_TAKEN 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TAKEN);
	__type(key, __u32);
	__type(value, struct taken);
} taken SEC(".maps");

/* With interrupts off, nothing refills that memory. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(no_memory, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct half_kib *half_kib;
	unsigned long flags;
	struct kib *kib;
	struct taken *t;
	__u32 key;
	int i;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_iter_task_vma_error))
		return 0;
	bpf_local_irq_save(&flags);
	bpf_for(i, 0, MAX_TAKEN) {
		key = i;
		t = bpf_map_lookup_elem(&taken, &key);
		if (!t)
			break;
		half_kib = bpf_obj_new(struct half_kib);
		if (half_kib) {
			seen.nr_records++;
			half_kib = bpf_kptr_xchg(&t->half_kib, half_kib);
			if (half_kib)
				bpf_obj_drop(half_kib);
		}
		kib = bpf_obj_new(struct kib);
		if (kib) {
			kib = bpf_kptr_xchg(&t->kib, kib);
			if (kib)
				bpf_obj_drop(kib);
		}
	}
	seen.walk_err = bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	if (bpf_iter_task_vma_next(&it))
		seen.nr_vmas++;
	seen.query_err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	bpf_for(i, 0, MAX_TAKEN) {
		key = i;
		t = bpf_map_lookup_elem(&taken, &key);
		if (!t)
			break;
		half_kib = bpf_kptr_xchg(&t->half_kib, NULL);
		if (half_kib)
			bpf_obj_drop(half_kib);
		kib = bpf_kptr_xchg(&t->kib, NULL);
		if (kib)
			bpf_obj_drop(kib);
	}
	bpf_local_irq_restore(&flags);
	seen.runs++;
	return 0;
}

/* With interrupts on, and off. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(both_ways, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	unsigned long flags;

	if (!on_target() || id != sample_nr)
		return 0;
	walk();
	bpf_local_irq_save(&flags);
	other_err[1] = bpf_iter_task_vma_new(&it, task, 0);
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	seen.runs++;
	return 0;
}

/* A chunk of a walk that continues in the next run. */
__u64 chunk_addr, chunk_vmas, chunk_mm, chunk_other;
__u32 chunk_seq;
long chunk_err;

SEC("?tp_btf/sys_enter")
int BPF_PROG(chunk, struct pt_regs *regs, long id)
{
	struct bpf_task_vma_record rec;
	int i;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	bpf_for(i, 0, 1000) {
		chunk_err = bpf_task_vma_query(chunk_addr, PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
					       &rec, sizeof(rec));
		if (!chunk_vmas) {
			chunk_seq = rec.seq;
			chunk_mm = rec.mm;
		}
		if (rec.seq != chunk_seq || rec.mm != chunk_mm)
			chunk_other++;
		if (chunk_err)
			break;
		chunk_vmas++;
		chunk_addr = rec.end;
	}
	return 0;
}

/* Before and after exec(), in children of this process. */
pid_t parent;
__u64 tokens[TOKENS], token_mms[TOKENS];
__u32 nr_tokens, nr_execs;
__u32 token_every;	/* look at every exec(), or every other one */

static void add_token(struct task_struct *task)
{
	struct bpf_task_vma_record rec;
	__u32 i = nr_tokens;

	if (i >= TOKENS || !bpf_ksym_exists(bpf_task_vma_query) ||
	    bpf_task_vma_query(0, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec, sizeof(rec)))
		return;
	tokens[i] = rec.mm;
	token_mms[i] = (__u64)task->mm;
	nr_tokens = i + 1;
}

static bool is_child(struct task_struct *task)
{
	return parent && task->real_parent->tgid == parent;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(token_sample, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();

	/* Only the first call, before the first exec(): the shell makes it, too. */
	if (is_child(task) && id == sample_nr && !nr_tokens)
		add_token(task);
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(token_exec, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	if (is_child(p) && ++nr_execs % (token_every ?: 1) == 0)
		add_token(p);
	return 0;
}

/* Points where a task has a new mm, or none. */
__u32 vmas_copied, look_at_copy;

/* Results of bpf_for_each_err() and bpf_iter_task_vma_error_addr(). */
int for_each_err;
__u64 left_out_at;

/* In fork(), which holds write locks on the mappings it has copied so far. */
SEC("?fentry/anon_vma_fork")
int BPF_PROG(in_fork, struct vm_area_struct *vma, struct vm_area_struct *pvma)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct vm_area_struct *seen_vma;
	struct bpf_iter_task_vma it;

	if (!on_target() || ++vmas_copied != look_at_copy)
		return 0;
	look(!bpf_in_interrupt());
	if (!bpf_ksym_exists(bpf_iter_task_vma_error) ||
	    !bpf_ksym_exists(bpf_iter_task_vma_error_addr))
		return 0;
	bpf_for_each_err(task_vma, seen_vma, for_each_err, task, 0)
		;
	bpf_iter_task_vma_new(&it, task, 0);
	bpf_iter_task_vma_next(&it);
	left_out_at = bpf_iter_task_vma_error_addr(&it);
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

/* The last mapping that is locked, in in_fork_irqs_off(), and what the walk does to its file. */
bool is_file_locked;
long file_refs_put;
/* Interrupts are off at the first step only. */
bool irqs_off_later;

SEC("?fentry/anon_vma_fork")
int BPF_PROG(in_fork_irqs_off, struct vm_area_struct *vma, struct vm_area_struct *pvma)
{
	struct file *file = pvma->vm_file;
	struct bpf_iter_task_vma it;
	unsigned long flags;

	if (!on_target() || ++vmas_copied != look_at_copy)
		return 0;
	seen.in_context += !bpf_in_interrupt();
	seen.runs++;
	if (irqs_off_later) {
		bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
		bpf_local_irq_save(&flags);
		seen.nr_vmas = !!bpf_iter_task_vma_next(&it);
		bpf_local_irq_restore(&flags);
		if (bpf_ksym_exists(bpf_iter_task_vma_error))
			seen.walk_err = bpf_iter_task_vma_error(&it);
		bpf_iter_task_vma_destroy(&it);
		return 0;
	}
	bpf_local_irq_save(&flags);
	is_file_locked = file;
	file_refs_put = file ? file->f_ref.refcnt.counter : 0;
	walk();
	file_refs_put -= file ? file->f_ref.refcnt.counter : 0;
	bpf_local_irq_restore(&flags);
	return 0;
}

/* In exec(): the new address space has a stack, but no code yet. */
SEC("?lsm/bprm_committing_creds")
int BPF_PROG(in_exec, const struct linux_binprm *bprm)
{
	if (is_child(bpf_get_current_task_btf()))
		look(!bpf_in_interrupt());
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(exiting, struct task_struct *p)
{
	if (is_child(p))
		look(!bpf_in_interrupt());
	return 0;
}

/* In exit(), after the task has dropped its mm. */
SEC("?fentry/exit_files")
int BPF_PROG(without_mm, struct task_struct *task)
{
	if (is_child(task) && on_target())
		look(!bpf_in_interrupt());
	return 0;
}

SEC("?lsm/file_open")
int BPF_PROG(io_worker, struct file *file)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->tgid == target)
		look(task->flags & PF_IO_WORKER);
	return 0;
}

/* A walk that is left at its first mapping, which is of a file. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(leave_walk, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;

	if (!on_target() || id != sample_nr)
		return 0;
	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), query_addr);
	vma = bpf_iter_task_vma_next(&it);
	if (vma && vma->vm_file)
		seen.nr_files++;
	bpf_iter_task_vma_destroy(&it);
	seen.runs++;
	return 0;
}

/* --- the storms ------------------------------------------------------------------- */

struct storm storm;
__u64 arena, inodes[FILES];
__u32 dev_major, dev_minor;
__u64 storm_addr, storm_sentinels;

/* @rec: struct bpf_task_vma_record, or struct record on kernels that lack the former */
static void is_wrong(const void *rec, __u64 asked_at, __u32 why)
{
	if (!storm.wrong++) {
		__builtin_memcpy(&storm.first_wrong, rec, sizeof(storm.first_wrong));
		storm.first_wrong_asked_at = asked_at;
		storm.why = why;
	}
}

/* Checks a record that starts in the arena. Returns whether it is a sentinel's. */
static bool check_record(const struct bpf_task_vma_record *rec, __u64 asked_at)
{
	__u64 at = (rec->start - arena) % ARENA_SIZE, in_slot = at % SLOT_SIZE;
	__u64 size = rec->end - rec->start;
	int file = -1, i;

	for (i = 0; i < FILES; i++)
		if (rec->ino == inodes[i])
			file = i;
	if (file < 0 || rec->dev_major != dev_major || rec->dev_minor != dev_minor)
		is_wrong(rec, asked_at, __LINE__);
	else if (rec->offset != file * ARENA_SIZE + at)
		is_wrong(rec, asked_at, __LINE__);
	else if (rec->end <= rec->start || rec->end <= asked_at ||
		 (rec->start | rec->end) % PAGE_SIZE)
		is_wrong(rec, asked_at, __LINE__);
	if (in_slot == WORK_PAGES * PAGE_SIZE) {
		if (size != PAGE_SIZE || file || rec->flags != PROCMAP_QUERY_VMA_READABLE)
			is_wrong(rec, asked_at, __LINE__);
		return true;
	}
	if (in_slot + size > WORK_PAGES * PAGE_SIZE || rec->flags == PROCMAP_QUERY_VMA_READABLE)
		is_wrong(rec, asked_at, __LINE__);
	return false;
}

/* Queries one address. A sentinel's page is always mapped. */
static void storm_point(void)
{
	__u64 addr = arena + bpf_get_prandom_u32() % (ARENAS * ARENA_SIZE);
	struct bpf_task_vma_record rec;
	long err;

	storm.asked++;
	err = bpf_task_vma_query(addr, 0, &rec, sizeof(rec));
	if (err == -11) {	/* -EAGAIN */
		storm.again++;
	} else if (err == -2) {	/* -ENOENT */
		storm.unmapped++;
		if ((addr - arena) % SLOT_SIZE >= WORK_PAGES * PAGE_SIZE)
			is_wrong(&rec, addr, __LINE__);
	} else if (err || rec.start > addr) {
		is_wrong(&rec, addr, __LINE__);
	} else {
		storm.points++;
		check_record(&rec, addr);
	}
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(storm_query, struct pt_regs *regs, long id)
{
	struct bpf_task_vma_record rec;
	long err;
	int i;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	bpf_for(i, 0, 10000) {
		storm_point();
		if (storm_addr < arena || storm_addr >= arena + ARENAS * ARENA_SIZE) {
			storm_addr = arena;
			storm_sentinels = 0;
		}
		storm.asked++;
		err = bpf_task_vma_query(storm_addr, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec,
					 sizeof(rec));
		if (err == -11) {	/* -EAGAIN */
			storm.again++;
			continue;
		}
		if (err) {
			is_wrong(&rec, storm_addr, __LINE__);
			storm_addr = arena;
			continue;
		}
		if (rec.start < arena + ARENAS * ARENA_SIZE) {
			storm_sentinels += check_record(&rec, storm_addr);
			storm_addr = rec.end;
			if (storm_addr < arena + ARENAS * ARENA_SIZE)
				continue;
		}
		/* The last page of the arena is a sentinel: here the pass ends. */
		storm.passes++;
		if (storm_sentinels != ARENAS * SLOTS)
			is_wrong(&rec, storm_addr, __LINE__);
		storm_addr = 0;
	}
	return 0;
}

bool has_generation;

/* Files whose memory is reused for other files while they are queried. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(storm_files, struct pt_regs *regs, long id)
{
	struct bpf_task_vma_record rec;
	__u64 addr, page;
	long err;
	int i;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	bpf_for(i, 0, 1000) {
		addr = arena + bpf_get_prandom_u32() % FILE_SLOTS * PAGE_SIZE;
		storm.asked++;
		err = bpf_task_vma_query(addr, 0, &rec, sizeof(rec));
		if (err == -11) {	/* -EAGAIN */
			storm.again++;
			continue;
		}
		page = IDENTITY(rec.ino, has_generation ? rec.generation : 0);
		if (err || rec.start != addr || rec.end != addr + PAGE_SIZE ||
		    rec.dev_major != dev_major || rec.dev_minor != dev_minor ||
		    rec.offset != page * PAGE_SIZE)
			is_wrong(&rec, addr, __LINE__);
		else
			storm.points++;
	}
	return 0;
}

/* Checks the file that a walk holds. Returns false past the arena. */
static bool check_held_file(struct vm_area_struct *vma)
{
	struct record rec = {};
	struct file *file = vma->vm_file;

	rec.start = vma->vm_start;
	rec.offset = vma->vm_pgoff * PAGE_SIZE;
	if (rec.start >= arena + FILE_SLOTS * PAGE_SIZE)
		return false;
	if (!file) {
		is_wrong(&rec, arena, __LINE__);
		return true;
	}
	rec.ino = file->f_inode->i_ino;
	rec.generation = has_generation ? file->f_inode->i_generation : 0;
	if (vma->vm_pgoff != IDENTITY(rec.ino, rec.generation))
		is_wrong(&rec, arena, __LINE__);
	else
		storm.points++;
	return true;
}

/* The same with the iterator, interrupts on: each VMA holds its file. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(storm_files_walk, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	int i;

	if (!on_target() || id != sample_nr)
		return 0;
	bpf_for(i, 0, 100) {
		bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), arena);
		while ((vma = bpf_iter_task_vma_next(&it)))
			if (!check_held_file(vma))
				break;
		bpf_iter_task_vma_destroy(&it);
		storm.walks++;
	}
	return 0;
}

/* The same in another process, which also forks, executes another program and exits. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(storm_files_foreign, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	struct task_struct *task;
	__u64 mm = 0;
	long err;
	int i;

	if (!on_target() || id != sample_nr)
		return 0;
	bpf_for(i, 0, 10) {
		foreign.asked++;
		task = bpf_task_from_pid(other_pid);
		if (!task) {
			foreign.no_task++;
			break;
		}
		walked.end = 0;
		walked.mm = 0;
		walked.slots = 0;
		err = bpf_iter_task_vma_new(&it, task, arena);
		count_foreign(err);
		while ((vma = bpf_iter_task_vma_next(&it))) {
			bpf_probe_read_kernel(&mm, sizeof(mm), &vma->vm_mm);
			if (vma->vm_start < walked.end || (walked.mm && mm != walked.mm))
				foreign.wrong++;
			walked.mm = mm;
			walked.end = vma->vm_end;
			if (!check_held_file(vma))
				break;
			walked.slots++;
		}
		if (!err && bpf_ksym_exists(bpf_iter_task_vma_error))
			err = bpf_iter_task_vma_error(&it);
		bpf_iter_task_vma_destroy(&it);
		bpf_task_release(task);
		if (err == -11)		/* -EAGAIN */
			foreign.left_out++;
		if (err)
			continue;
		foreign.complete++;
		/* A file is mapped in each slot, until exec() replaces the mm. */
		if (walked.slots && walked.slots != FILE_SLOTS)
			foreign.missing++;
	}
	return 0;
}

/* The same with interrupts off, where the iterator can't provide the file. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(storm_walk, struct pt_regs *regs, long id)
{
	struct bpf_task_vma_record rec = {};
	struct task_struct *task = bpf_get_current_task_btf();
	struct vm_area_struct *vma;
	struct bpf_iter_task_vma it;
	bool behind = false;
	unsigned long flags;
	__u64 at;
	long err;

	if (!on_target() || id != sample_nr || !bpf_ksym_exists(bpf_iter_task_vma_error))
		return 0;
	storm_sentinels = 0;
	storm_addr = arena;
	bpf_local_irq_save(&flags);
	bpf_iter_task_vma_new(&it, task, arena);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		rec.start = vma->vm_start;
		rec.end = vma->vm_end;
		rec.offset = vma->vm_pgoff * PAGE_SIZE;
		if (rec.start >= arena + ARENAS * ARENA_SIZE) {
			behind = true;
			break;
		}
		storm.vmas++;
		at = (rec.start - arena) % ARENA_SIZE;
		if (rec.offset % ARENA_SIZE != at || rec.offset / ARENA_SIZE >= FILES ||
		    rec.end <= storm_addr || rec.start >= rec.end ||
		    rec.end - rec.start > WORK_PAGES * PAGE_SIZE)
			is_wrong(&rec, storm_addr, __LINE__);
		if (at % SLOT_SIZE == WORK_PAGES * PAGE_SIZE)
			storm_sentinels++;
		storm_addr = rec.end;
	}
	err = bpf_iter_task_vma_error(&it);
	if (err) {
		storm.refused++;
		at = bpf_iter_task_vma_error_addr(&it);
		if (at < arena || at > arena + ARENAS * ARENA_SIZE)
			is_wrong(&rec, at, __LINE__);
	}
	bpf_iter_task_vma_destroy(&it);
	bpf_local_irq_restore(&flags);
	storm.walks++;
	/* Sentinels never change, even if other mappings were left out. */
	if ((!err || behind) && storm_sentinels != ARENAS * SLOTS)
		is_wrong(&rec, storm_addr, __LINE__);
	if (!err)
		storm.walks_ended++;
	return 0;
}

struct split_storm splits;
__u8 first_pages[SPLITS], sentinels[SPLITS];
__u64 split_addr;
bool split_end;

static void split_step(__u64 start, __u64 end)
{
	__u64 at = start - arena, n = at / SPLIT_SIZE;

	split_addr = end;
	if (start >= arena + SPLITS * SPLIT_SIZE) {
		split_end = true;
		return;
	}
	if (start < arena || n >= SPLITS)
		return;
	if (at % SPLIT_SIZE == 0)
		first_pages[n]++;
	if (at % SPLIT_SIZE == 2 * PAGE_SIZE)
		sentinels[n]++;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(split_walk, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	long err = 0;
	int i;

	if (!on_target() || id != sample_nr)
		return 0;
	bpf_for(i, 0, 100) {
		__builtin_memset(first_pages, 0, sizeof(first_pages));
		__builtin_memset(sentinels, 0, sizeof(sentinels));
		split_addr = arena;
		split_end = false;
		bpf_iter_task_vma_new(&it, task, split_addr);
		while (!split_end && (vma = bpf_iter_task_vma_next(&it)))
			split_step(vma->vm_start, vma->vm_end);
		err = 0;
		if (bpf_ksym_exists(bpf_iter_task_vma_error))
			err = bpf_iter_task_vma_error(&it);
		bpf_iter_task_vma_destroy(&it);
		if (!err)
			break;
		splits.errors++;
	}
	if (err) {
		splits.given_up++;
		return 0;
	}
	splits.walks++;
	bpf_for(i, 0, SPLITS) {
		if (!first_pages[i])
			splits.dropped++;
		if (!sentinels[i])
			splits.sentinels_missing++;
		if (sentinels[i] > 1)
			splits.sentinels_twice++;
	}
	return 0;
}

/* --- the end of a walk ------------------------------------------------------------ */

bool at_end, mapped, mapped_in_time;
bool last_has_file, has_file_at_end;
__u64 after_end;

/*
 * After a NULL, the verifier assumes that bpf_iter_task_vma_next() returns 0, and allows
 * arithmetic on it. Only storing it shows the real value.
 */
SEC("?tp_btf/sys_enter")
int BPF_PROG(walk_past_end, struct pt_regs *regs, long id)
{
	struct bpf_iter_task_vma it;

	if (!on_target() || id != sample_nr)
		return 0;
	seen.walk_err = bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), 0);
	while (bpf_iter_task_vma_next(&it)) {
		seen.nr_vmas++;
		if (bpf_ksym_exists(bpf_iter_task_vma_has_file))
			last_has_file = bpf_iter_task_vma_has_file(&it);
	}
	if (bpf_ksym_exists(bpf_iter_task_vma_has_file))
		has_file_at_end = bpf_iter_task_vma_has_file(&it);
	at_end = true;
	mapped_in_time = becomes_true(&mapped);
	after_end = (__u64)bpf_iter_task_vma_next(&it);
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

/* --- contention ------------------------------------------------------------------- */

bool with_find_vma, with_walk;
__u64 contentions, samples, answered;
long sampled_err;	/* an error not caused by a writer */
struct mm_struct *target_mm;

/* The first step of a walk that starts at @addr. */
static long walk_at(struct task_struct *task, __u64 addr)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	long err;

	err = bpf_iter_task_vma_new(&it, task, addr);
	vma = bpf_iter_task_vma_next(&it);
	if (bpf_ksym_exists(bpf_iter_task_vma_error))
		err = err ?: bpf_iter_task_vma_error(&it);
	if (!err && (!vma || vma->vm_start > addr || vma->vm_end <= addr))
		err = 1;
	bpf_iter_task_vma_destroy(&it);
	return err;
}

SEC("?perf_event")
int sample_4khz(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	long err = -1;

	if (!on_target() || !bpf_in_hardirq() || bpf_in_nmi())
		return 0;
	target_mm = task->mm;
	if (with_find_vma)
		err = bpf_find_vma(task, query_addr, found, NULL, 0);
	else if (with_walk)
		err = walk_at(task, query_addr);
	else if (bpf_ksym_exists(bpf_task_vma_query))
		err = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
	samples++;
	if (!err)
		answered++;
	else if (err != (with_find_vma ? -16 : -11))	/* -EBUSY, -EAGAIN */
		sampled_err = err;
	return 0;
}

__u64 in_writer;	/* samples while a writer held mmap_lock */

/* Both lookups, on top of a task that changes its own mappings. */
SEC("?tp_btf/nmi_handler")
int BPF_PROG(nmi_on_writer, void *handler, s64 delta_ns, int handled)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_task_vma_record rec;
	long err;

	if (!handled || !on_target() || !bpf_in_nmi() || !bpf_ksym_exists(bpf_task_vma_query))
		return 0;
	err = bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec));
	err = err ?: walk_at(task, query_addr);
	samples++;
	if (!err)
		answered++;
	else
		sampled_err = err;
	if (task->mm->mm_lock_seq.sequence & 1)
		in_writer++;
	return 0;
}

/* Called by a writer that can't get the lock at once, before it spins or sleeps. */
SEC("?fentry/rwsem_down_write_slowpath")
int BPF_PROG(contention, struct rw_semaphore *sem)
{
	if (target_mm && sem == &target_mm->mmap_lock)
		__sync_fetch_and_add(&contentions, 1);
	return 0;
}

/* --- fuzzing ---------------------------------------------------------------------- */

struct fuzz_seen fuzz;
/* An interrupt on the task's CPU sees these as the task left them. */
struct fuzz_page fuzz_pages[FUZZ_PAGES];
__u64 fuzz_inodes[FUZZ_FILES];
__u32 fuzz_contents[FUZZ_FILES];	/* the beginning of the file's build ID */
__u32 fuzz_changing;

static void fuzz_wrong(const struct bpf_task_vma_record *rec, __u64 page, long err, __u32 why)
{
	if (fuzz.wrong++)
		return;
	__builtin_memcpy(&fuzz.record, rec, sizeof(*rec));
	fuzz.page = page;
	fuzz.err = err;
	fuzz.why = why;
}

static void fuzz_query(__u64 page)
{
	const struct fuzz_page *p = &fuzz_pages[page % FUZZ_PAGES];
	__u64 addr = arena + page % FUZZ_PAGES * PAGE_SIZE;
	struct bpf_task_vma_record rec;
	long err = bpf_task_vma_query(addr, 0, &rec, sizeof(rec));
	int file = p->file;
	__u32 id;

	fuzz.queries++;
	if (!p->mapped) {
		if (err != -2)	/* -ENOENT */
			fuzz_wrong(&rec, page, err, __LINE__);
		return;
	}
	if (err || rec.start > addr || rec.end <= addr || rec.flags != p->flags)
		return fuzz_wrong(&rec, page, err, __LINE__);
	if (file < 0 || file >= FUZZ_FILES) {
		if (rec.ino || rec.offset || rec.build_id_status)
			fuzz_wrong(&rec, page, err, __LINE__);
		return;
	}
	if (rec.ino != fuzz_inodes[file] || rec.offset + (addr - rec.start) != p->offset)
		return fuzz_wrong(&rec, page, err, __LINE__);
	if (rec.build_id_status != BPF_TASK_VMA_BUILD_ID_VALID)
		return;
	fuzz.build_ids++;
	__builtin_memcpy(&id, rec.build_id, sizeof(id));
	if (id != fuzz_contents[file])
		fuzz_wrong(&rec, page, err, __LINE__);
}

static void fuzz_walk(void)
{
	struct bpf_task_vma_record rec = {};
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	__u64 pages = 0, mapped = 0;
	long err;
	int i;

	bpf_iter_task_vma_new(&it, bpf_get_current_task_btf(), arena);
	while ((vma = bpf_iter_task_vma_next(&it))) {
		if (vma->vm_start >= arena + FUZZ_PAGES * PAGE_SIZE)
			break;
		bpf_for(i, (vma->vm_start - arena) / PAGE_SIZE,
			(vma->vm_end - arena) / PAGE_SIZE) {
			if (i < 0 || i >= FUZZ_PAGES || !fuzz_pages[i].mapped)
				fuzz_wrong(&rec, i, 0, __LINE__);
			pages++;
		}
	}
	err = bpf_iter_task_vma_error(&it);
	bpf_iter_task_vma_destroy(&it);
	/* An NMI during the interrupt's allocation. */
	if (err == -12)		/* -ENOMEM */
		return;
	bpf_for(i, 0, FUZZ_PAGES)
		mapped += fuzz_pages[i].mapped;
	fuzz.walks++;
	if (err || pages != mapped)
		fuzz_wrong(&rec, pages, err, __LINE__);
}

/* Common to NMIs and hard interrupts. Counts those that are compared in @compared. */
static void fuzz_look(__u64 *compared)
{
	int i;

	if (!bpf_ksym_exists(bpf_task_vma_query) || !bpf_ksym_exists(bpf_iter_task_vma_error))
		return;
	if (*(volatile __u32 *)&fuzz_changing) {
		struct bpf_task_vma_record rec;

		/* The only requirement is that it returns. */
		bpf_task_vma_query(arena, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec, sizeof(rec));
		fuzz.changing++;
		return;
	}
	(*compared)++;
	bpf_for(i, 0, 8)
		fuzz_query(bpf_get_prandom_u32());
	fuzz_walk();
}

SEC("?tp_btf/nmi_handler")
int BPF_PROG(fuzz_nmi, void *handler, s64 delta_ns, int handled)
{
	if (!handled || !on_target() || !bpf_in_nmi())
		return 0;
	fuzz_look(&fuzz.nmis);
	return 0;
}

SEC("?perf_event")
int fuzz_interrupt(void *ctx)
{
	if (!on_target() || !bpf_in_hardirq())
		return 0;
	fuzz_look(&fuzz.interrupts);
	return 0;
}

/* --- exit ------------------------------------------------------------------------- */

__u64 exit_ino;
__u64 exit_samples, attributed[METHODS];

struct work {
	struct bpf_task_work tw;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static void attribute(enum method m)
{
	struct bpf_task_vma_record rec;

	if (bpf_ksym_exists(bpf_task_vma_query) &&
	    !bpf_task_vma_query(query_addr, 0, &rec, sizeof(rec)) && rec.ino == exit_ino)
		__sync_fetch_and_add(&attributed[m], 1);
}

static int on_task_work(struct bpf_map *map, void *key, void *value)
{
	attribute(TASK_WORK);
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(exit_sample, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct work empty = {}, *w;
	__u32 pid = task->pid;

	if (!is_child(task) || id != sample_nr)
		return 0;
	attribute(AT_SAMPLE);
	bpf_map_update_elem(&works, &pid, &empty, BPF_NOEXIST);
	w = bpf_map_lookup_elem(&works, &pid);
	if (w)
		bpf_task_work_schedule_resume(task, &w->tw, &works, on_task_work);
	__sync_fetch_and_add(&exit_samples, 1);
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *p)
{
	if (is_child(p))
		attribute(PROCESS_EXIT);
	return 0;
}
