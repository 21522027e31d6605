// SPDX-License-Identifier: GPL-2.0
/* The BPF programs of Documentation/bpf/task_vma.rst. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"

char _license[] SEC("license") = "GPL";

/* [kfuncs] */
/* Weak: the program also loads on a kernel without them, where they are NULL. */
extern int bpf_task_vma_query(__u64 addr, __u64 flags, void *out, __u32 out__sz) __ksym __weak;
extern bool bpf_iter_task_vma_has_file(struct bpf_iter_task_vma *it__iter) __ksym __weak;
extern int bpf_iter_task_vma_error(struct bpf_iter_task_vma *it__iter) __ksym __weak;
extern __u64 bpf_iter_task_vma_error_addr(struct bpf_iter_task_vma *it__iter) __ksym __weak;
/* [end of kfuncs] */

/* [sampler] */
#define MAX_FRAMES 32

struct sampled_frame {
	__u64 ip;
	__s64 err;
	struct bpf_task_vma_record vma;
};

struct sampled_stack {
	__u32 pid, nr;
	struct sampled_frame frames[MAX_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} samples SEC(".maps");

SEC("perf_event")
int on_sample(void *ctx)
{
	struct bpf_task_vma_record *vma;
	__u64 ips[MAX_FRAMES];
	struct sampled_stack *s;
	long size;
	int i;

	if (!bpf_ksym_exists(bpf_task_vma_query))
		return 0;
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
/* [end of sampler] */

/* [pieces] */
#define EAGAIN 11

/* A walk over current, in pieces of 100 queries. Begins with all fields 0. */
struct walk {
	__u64 next;		/* address to continue at */
	__u64 mm;		/* of the first record */
	__u64 files;		/* mappings of files so far */
	__u32 seq;
	bool begun;
	bool changed;		/* not a snapshot: mappings changed during the walk */
};

/* Returns 0 or -EAGAIN: continue in a later sample; -ENOENT: this was the end. */
static int walk_piece(struct walk *w)
{
	struct bpf_task_vma_record rec;
	int i, err;

	bpf_for(i, 0, 100) {
		err = bpf_task_vma_query(w->next, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, &rec,
					 sizeof(rec));
		if (err == -EAGAIN)
			return err;
		if (!w->begun) {
			w->begun = true;
			w->mm = rec.mm;
			w->seq = rec.seq;
		}
		/* Another mm: the task called exec(), and the walk must begin again. */
		if (rec.mm != w->mm || rec.seq != w->seq || rec.seq & 1)
			w->changed = true;
		if (err)
			return err;
		w->next = rec.end;
		if (rec.ino)
			w->files++;
	}
	return 0;
}
/* [end of pieces] */

/* For the caller of the walks: current, and the result. */
struct walk pieces;
int piece_err;
__u64 vmas, left_out_at;
int walk_err;
__u32 target;

/* [iterator] */
/* Returns 0 if no VMA was left out. Otherwise, *at is the first address left out. */
static int count_vmas(struct task_struct *task, __u64 *nr, __u64 *at)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	int err;

	*nr = 0;
	bpf_iter_task_vma_new(&it, task, 0);
	while ((vma = bpf_iter_task_vma_next(&it)))
		(*nr)++;
	/* That of bpf_iter_task_vma_new(), too. */
	err = bpf_iter_task_vma_error(&it);
	*at = bpf_iter_task_vma_error_addr(&it);
	bpf_iter_task_vma_destroy(&it);
	return err;
}
/* [end of iterator] */

/* [for each] */
/* The same, without the address. */
static int count_vmas_again(struct task_struct *task, __u64 *nr)
{
	struct vm_area_struct *vma;
	int err;

	*nr = 0;
	bpf_for_each_err(task_vma, vma, err, task, 0)
		(*nr)++;
	return err;
}
/* [end of for each] */

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 again;

	if (task->pid != target || !bpf_ksym_exists(bpf_task_vma_query) ||
	    !bpf_ksym_exists(bpf_iter_task_vma_error) ||
	    !bpf_ksym_exists(bpf_iter_task_vma_error_addr))
		return 0;
	piece_err = walk_piece(&pieces);
	walk_err = count_vmas(task, &vmas, &left_out_at);
	if (!walk_err)
		walk_err = count_vmas_again(task, &again);
	if (!walk_err && again != vmas)
		walk_err = 1;
	return 0;
}
