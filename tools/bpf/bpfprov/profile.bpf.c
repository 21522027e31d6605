// SPDX-License-Identifier: GPL-2.0
/*
 * Take a sample: both stacks, the user stack as build IDs and file offsets. This runs in
 * the interrupt of the sample, which can be an NMI, so the mappings are those of the stack.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "profile.h"

char _license[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u32 only_tgid;
const volatile __u32 pid_ns;		/* inode of the tool's PID namespace; 0: the initial one */
const volatile bool only_cgroup;
const volatile __u32 wakeup_bytes;

/* Counted here, read at the end. */
__u64 samples, lost;
__u64 spent;				/* ns, in the interrupts that took samples */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cgroup SEC(".maps");

/*
 * Buffer for a sample. Only the used part is copied to the ring. The program does not
 * interrupt itself on a CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} scratch SEC(".maps");

/*
 * As in the kernel, which only adds fields at the end. A kernel without the kfunc
 * does not have this type, either.
 */
struct vma_record {
	__u64 start, end, offset, ino, mm;
	__u32 flags, seq, dev_major, dev_minor, generation;
	__u8 build_id_status, build_id_len, reserved[2];
	__u8 build_id[BPF_BUILD_ID_SIZE];
	__u8 reserved2[4];
};

/* vma_record.build_id_status */
enum {
	ID_NO_FILE,
	ID_VALID,
	ID_NONE,
	ID_PENDING,
	ID_UNKNOWN,
};

_Static_assert(sizeof(struct vma_record) == 88, "struct bpf_task_vma_record");
_Static_assert(sizeof(struct file_key) == BPF_BUILD_ID_SIZE, "fits into a frame");

extern int bpf_task_vma_query(__u64 addr, __u64 flags, void *out, __u32 out__sz) __ksym __weak;

/* The PID of a process in each PID namespace. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
} __attribute__((preserve_access_index));

#define MAX_PID_NS_LEVEL 32

/* The PID of the current process in the PID namespace @pid_ns; 0: it has none there. */
static __always_inline __u32 tgid_in_ns(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level), i;
	struct upid *at;

	for (i = 0; i <= MAX_PID_NS_LEVEL && i <= level; i++) {
		at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
		     i * bpf_core_type_size(struct upid);
		if (BPF_CORE_READ(at, ns, ns.inum) == pid_ns)
			return BPF_CORE_READ(at, nr);
	}
	return 0;
}

/*
 * Look up the mapping at a frame's address, if the stack has no build ID for it. Returns
 * true for a build ID.
 */
static __always_inline bool query(struct bpf_stack_build_id *frame)
{
	struct vma_record rec;
	struct file_key key;
	__u64 ip = frame->ip;
	int err;

	err = bpf_task_vma_query(ip, 0, &rec, sizeof(rec));
	if (err == -ENOENT)
		frame->status = FRAME_NOWHERE;
	if (err)
		return false;
	if (rec.build_id_status == ID_NO_FILE) {
		frame->status = FRAME_ANON;
		return false;
	}
	frame->offset = ip - rec.start + rec.offset;
	if (rec.build_id_status == ID_VALID) {
		__builtin_memcpy(frame->build_id, rec.build_id, sizeof(frame->build_id));
		frame->status = BPF_STACK_BUILD_ID_VALID;
		return true;
	}
	key.ino = rec.ino;
	key.dev_major = rec.dev_major;
	key.dev_minor = rec.dev_minor;
	key.generation = rec.generation;
	__builtin_memcpy(frame->build_id, &key, sizeof(key));
	frame->status = rec.build_id_status == ID_NONE ? FRAME_FILE :
			rec.build_id_status == ID_PENDING ? FRAME_PENDING : FRAME_NOT_KEPT;
	return false;
}

SEC("perf_event")
int profile(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 zero = 0, len = 0, i, tgid;
	struct sample *s;
	__u64 wakeup;

	/* Skip the idle task. */
	if (!id)
		return 0;
	tgid = pid_ns ? tgid_in_ns() : id >> 32;
	if ((only_tgid && tgid != only_tgid) ||
	    (only_cgroup && bpf_current_task_under_cgroup(&cgroup, 0) != 1))
		return 0;
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	__sync_fetch_and_add(&samples, 1);
	s->pid = tgid;
	s->queried = 0;
	s->time = bpf_ktime_get_ns();
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	s->kernel_len = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	s->user_len = bpf_get_stack(ctx, s->user, sizeof(s->user),
				    BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	if (s->user_len > 0)
		len = s->user_len;
	if (bpf_ksym_exists(bpf_task_vma_query)) {
		for (i = 0; i < MAX_FRAMES; i++) {
			if (i * sizeof(s->user[0]) >= len)
				break;
			if (s->user[i].status != BPF_STACK_BUILD_ID_VALID && query(&s->user[i]))
				s->queried++;
		}
	}
	if (len > sizeof(s->user))
		len = sizeof(s->user);
	/* The reader polls ten times a second. Wake it only if there is much to read. */
	wakeup = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < wakeup_bytes ?
		 BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&ring, s, __builtin_offsetof(struct sample, user) + len, wakeup))
		__sync_fetch_and_add(&lost, 1);
	__sync_fetch_and_add(&spent, bpf_ktime_get_ns() - s->time);
	return 0;
}
