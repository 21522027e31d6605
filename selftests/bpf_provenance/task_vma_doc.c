// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the code of Documentation/bpf/task_vma.rst unchanged: the BPF programs are loaded
 * and run, and user space resolves their records.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/compiler.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "common.h"

/* In memory that the BPF programs share. */
struct walk {
	uint64_t next, mm, files;
	uint32_t seq;
	bool begun, changed;
};

#include "task_vma_doc.skel.h"

#include "../../../../Documentation/bpf/task_vma_resolve.c"

#define MAX_FRAMES 32

struct sampled_frame {
	uint64_t ip;
	int64_t err;
	struct bpf_task_vma_record vma;
};

struct sampled_stack {
	uint32_t pid, nr;
	struct sampled_frame frames[MAX_FRAMES];
};

FIXTURE(task_vma_doc)
{
	struct task_vma_doc *skel;
	struct bpf_link *link;
	struct ring_buffer *ring;
};

FIXTURE_SETUP(task_vma_doc)
{
	int query;

	self->skel = task_vma_doc__open_and_load();
	/* Must load even without the kfuncs. */
	ASSERT_NE(NULL, self->skel);
	query = libbpf_find_vmlinux_btf_id("bpf_task_vma_query", BPF_TRACE_FENTRY);
	if (query < 0)
		SKIP(return, "this kernel has no bpf_task_vma_query()");
}

FIXTURE_TEARDOWN(task_vma_doc)
{
	ring_buffer__free(self->ring);
	bpf_link__destroy(self->link);
	task_vma_doc__destroy(self->skel);
}

static unsigned long spun;

/* Sampled, and found by its name. */
noinline void spin_documented(void)
{
	int i;

	for (i = 0; i < 1000000; i++)
		WRITE_ONCE(spun, spun + 1);
}

struct resolved {
	unsigned long stacks, frames;
	bool found, file, same_file;
};

static int resolve(void *ctx, void *data, size_t size)
{
	const struct sampled_stack *s = data;
	const struct sampled_frame *f = s->frames;
	char path[200], name[100];
	struct resolved *r = ctx;
	int fd, again;

	if (size != sizeof(*s) || s->pid != (uint32_t)getpid() || !s->nr)
		return 0;
	r->stacks++;
	r->frames += s->nr;
	if (f->err || !f->vma.ino)
		return 0;
	fd = open_file_of(s->pid, &f->vma, path, sizeof(path));
	if (fd < 0)
		return 0;
	if (symbol_at(fd, file_offset(&f->vma, f->ip), name, sizeof(name)) &&
	    !strcmp(name, "spin_documented")) {
		r->found = true;
		again = open(path, O_RDONLY | O_CLOEXEC);
		r->file = again >= 0 && is_file_of(again, &f->vma);
		close(again);
		again = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		r->same_file = is_file_of(again, &f->vma);
		close(again);
	}
	close(fd);
	return 0;
}

/* Hard interrupt on top of a function of this program, until a sample is resolved to it. */
TEST_F(task_vma_doc, sample)
{
	struct resolved r = {};
	int event;

	ASSERT_EQ(0, pin_to_cpu(0));
	self->ring = ring_buffer__new(bpf_map__fd(self->skel->maps.samples), resolve, &r, NULL);
	ASSERT_NE(NULL, self->ring);
	event = cpu_clock_event(0, 1000 * 1000);
	ASSERT_LE(0, event);
	self->link = bpf_program__attach_perf_event(self->skel->progs.on_sample, event);
	ASSERT_NE(NULL, self->link);
	/* The harness times out a test that never gets there. */
	while (!r.found) {
		spin_documented();
		/* On a slow machine, the next sample would come before one is resolved. */
		ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_DISABLE, 0));
		ASSERT_LE(0, ring_buffer__consume(self->ring));
		ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_ENABLE, 0));
	}
	EXPECT_TRUE(r.file);
	EXPECT_FALSE(r.same_file);
	TH_LOG("%lu stacks with %lu frames", r.stacks, r.frames);
}

/* Lines of /proc/self/maps, and how many of them are mappings of files. */
static int count_maps(unsigned long *nr, unsigned long *files)
{
	unsigned long start, ino;
	char line[512];
	FILE *f;

	*nr = *files = 0;
	f = fopen("/proc/self/maps", "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%*x %*s %*x %*x:%*x %lu", &start, &ino) != 2)
			break;
		/* [vsyscall] is not a mapping. */
		*nr += (long)start > 0;
		*files += !!ino;
	}
	fclose(f);
	return 0;
}

/* Syscall entry: a walk in pieces, and the iterator, against /proc/self/maps. */
TEST_F(task_vma_doc, walks)
{
	struct task_vma_doc__bss *bss = self->skel->bss;
	unsigned long nr, files;
	int i;

	self->link = bpf_program__attach(self->skel->progs.on_sys_enter);
	ASSERT_NE(NULL, self->link);
	/* No new mappings from here on. */
	ASSERT_EQ(0, count_maps(&nr, &files));
	bss->walk_err = 1;
	bss->target = gettid();
	for (i = 0; i < 100 && READ_ONCE(bss->piece_err) != -ENOENT; i++)
		syscall(SYS_getppid);
	bss->target = 0;
	EXPECT_EQ(-ENOENT, bss->piece_err);
	EXPECT_FALSE(bss->pieces.changed);
	EXPECT_EQ(files, bss->pieces.files);
	EXPECT_LT(3, files);
	EXPECT_EQ(0, bss->walk_err);
	EXPECT_EQ(0, bss->left_out_at);
	EXPECT_EQ(nr, bss->vmas);
}

TEST_HARNESS_MAIN
