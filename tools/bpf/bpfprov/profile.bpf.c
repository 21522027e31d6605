// SPDX-License-Identifier: GPL-2.0
/*
 * A sample: both stacks, the user's as build IDs and file offsets. It runs in the
 * interrupt that takes the sample, NMI included, so nothing of it can have changed.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "profile.h"

char _license[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u32 only_tgid;
const volatile bool only_cgroup;
const volatile __u32 wakeup_bytes;

/* Counted here, read at the end. */
__u64 samples, lost;

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
 * Where a sample is put together: only as much of it goes into the ring as it has
 * frames. No program of this type interrupts itself on a CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} scratch SEC(".maps");

/*
 * As in the kernel, which adds fields at the end only: a kernel without the kfunc
 * has no such type either.
 */
struct vma_record {
	__u64 start, end, offset, ino, mm;
	__u32 flags, seq, dev_major, dev_minor, generation;
	__u8 build_id_status, build_id_len, reserved[2];
	__u8 build_id[BPF_BUILD_ID_SIZE];
	__u8 reserved2[4];
};

_Static_assert(sizeof(struct vma_record) == 88, "struct bpf_task_vma_record");
_Static_assert(sizeof(struct file_key) == BPF_BUILD_ID_SIZE, "fits into a frame");

extern int bpf_task_vma_query(__u64 addr, __u64 flags, void *out, __u32 out__sz) __ksym __weak;

/* What is mapped at a frame's address, when the stack has no build ID for it. */
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
		return err == -ENOENT;
	if (rec.build_id_len) {
		__builtin_memcpy(frame->build_id, rec.build_id, sizeof(frame->build_id));
		frame->status = BPF_STACK_BUILD_ID_VALID;
	} else if (rec.ino) {
		key.ino = rec.ino;
		key.dev_major = rec.dev_major;
		key.dev_minor = rec.dev_minor;
		key.generation = rec.generation;
		__builtin_memcpy(frame->build_id, &key, sizeof(key));
		frame->status = FRAME_FILE;
	} else {
		frame->status = FRAME_ANON;
		return true;
	}
	frame->offset = ip - rec.start + rec.offset;
	return true;
}

SEC("perf_event")
int profile(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 zero = 0, len = 0, i;
	struct sample *s;
	__u64 wakeup;

	/* The idle task says where nothing was done. */
	if (!id || (only_tgid && id >> 32 != only_tgid) ||
	    (only_cgroup && bpf_current_task_under_cgroup(&cgroup, 0) != 1))
		return 0;
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	__sync_fetch_and_add(&samples, 1);
	s->pid = id >> 32;
	s->tid = id;
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
	/* Who reads comes by itself, ten times a second; unless there is much to read. */
	wakeup = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < wakeup_bytes ?
		 BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(&ring, s, __builtin_offsetof(struct sample, user) + len, wakeup))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}
