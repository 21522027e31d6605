// SPDX-License-Identifier: GPL-2.0
/*
 * The task_vma iterator, and bpf_task_vma_query().
 *
 *  context.*	the iterator, and a loop of queries, against /proc/self/maps, in
 *		each context that profilers sample in, asserted by the program
 *  nmi.*	as many lookups in one NMI as a stack has frames
 *  query.*	flags against PROCMAP_QUERY, sizes, resuming, the token; in mmap(),
 *		fork(), exec() and exit() of the task itself; irqs on
 *  end.*	the value returned after the end of a walk
 *  foreign	a walk over a task that forks, maps, execs and exits at the same time
 *  alloc_lock, no_memory, no_vma_lock	errors of bpf_iter_task_vma_new()
 *  storm.*	another thread changes mappings whose address, file and offset
 *		match: a record in which they don't fails the test
 *  files.*	another thread or process maps new files over others, which are
 *		unlinked: a record that mixes two files fails the test
 *  fuzz.*	the task changes its mappings and overwrites files at random, while
 *		NMIs and hard interrupts compare them with the expected mappings
 *  split.*	another thread splits and merges mappings, but never changes one
 *		half: a walk that leaves that half out fails the test
 *  writer.*	does sampling delay a thread that maps and unmaps, and are samples beside
 *		it and on top of it answered?
 *  exit.*	samples of processes that exit, unmap or exec right afterwards:
 *		which attribution methods still work
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/hw_breakpoint.h>
#include <linux/init.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "common.h"
#include "elf_file.h"
#include "fail_nth.h"
#include "fs.h"
#include "fuzz.h"
#include "lsm.h"
#include "net.h"
#include "task_vma.h"
#include "task_vma.skel.h"

/* More than one, so that a single lucky interrupt does not pass for a context. */
#define SAMPLES 20

/* include/linux/mm.h */
#define VM_MAYSHARE 0x80

/* enum bpf_task_vma_build_id */
#define BUILD_ID_NO_FILE 0
#define BUILD_ID_VALID 1
#define BUILD_ID_NONE 2
#define BUILD_ID_PENDING 3
#define BUILD_ID_UNKNOWN 4

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* --- /proc/self/maps ---------------------------------------------------------- */

struct maps_line {
	unsigned long start, end, offset, ino;
	unsigned int flags, major, minor;
};

static struct maps_line maps[MAX_VMAS];
static char maps_text[1 << 17];

/* Fills maps[] without allocating, which could map something. */
static int read_maps(void)
{
	size_t len = 0;
	int fd, n = 0;
	ssize_t got;
	char *line;

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((got = read(fd, maps_text + len, sizeof(maps_text) - 1 - len)) > 0)
		len += got;
	close(fd);
	maps_text[len] = 0;
	for (line = maps_text; *line && n < MAX_VMAS; line = strchr(line, '\n') + 1) {
		struct maps_line *m = &maps[n];
		char perms[5];

		if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &m->start, &m->end, perms,
			   &m->offset, &m->major, &m->minor, &m->ino) != 7)
			return -EINVAL;
		m->flags = (perms[0] == 'r' ? PROCMAP_QUERY_VMA_READABLE : 0) |
			   (perms[1] == 'w' ? PROCMAP_QUERY_VMA_WRITABLE : 0) |
			   (perms[2] == 'x' ? PROCMAP_QUERY_VMA_EXECUTABLE : 0) |
			   (perms[3] == 's' ? PROCMAP_QUERY_VMA_SHARED : 0);
		/* [vsyscall] is not a mapping: it lies above the user address space. */
		if ((long)m->start > 0)
			n++;
	}
	return n;
}

/* Opens a new ELF file on a disk that was never queried: a copy of this program. */
static int copy_self(char *dir, size_t dir_size, char *path, size_t size)
{
	int fd, err;

	err = scratch_dir(dir, dir_size);
	if (err)
		return err;
	snprintf(path, size, "%s/file", dir);
	err = copy_file("/proc/self/exe", path);
	if (err)
		return err;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* --- contexts ------------------------------------------------------------------ */

/* The text of this program, mapped from a copy of it on a disk. */
struct copy {
	char dir[200], path[256];
	uintptr_t text;		/* address of the original */
	size_t size;
	char *map;
};

/* Reads the build ID of the file at @addr, which caches it if it can be cached. */
static bool has_build_id(const void *addr)
{
	char id[20];
	struct procmap_query q = {
		.size = sizeof(q),
		.query_addr = (uintptr_t)addr,
		.build_id_size = sizeof(id),
		.build_id_addr = (uintptr_t)id,
	};
	bool has;
	int fd;

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	has = fd >= 0 && !ioctl(fd, PROCMAP_QUERY, &q) && q.build_id_size;
	close(fd);
	return has;
}

static int make_copy(struct copy *copy)
{
	const struct maps_line *text = maps;
	int fd, err;

	err = read_maps();
	if (err < 0)
		return err;
	while (text->end <= (uintptr_t)&make_copy)
		text++;
	fd = copy_self(copy->dir, sizeof(copy->dir), copy->path, sizeof(copy->path));
	if (fd < 0)
		return fd;
	copy->text = text->start;
	copy->size = text->end - text->start;
	copy->map = mmap(NULL, copy->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, text->offset);
	close(fd);
	if (copy->map == MAP_FAILED)
		return -ENOMEM;
	return has_build_id(copy->map) ? 0 : -ENODATA;
}

static void *in_copy(const struct copy *copy, const void *function)
{
	return copy->map + ((uintptr_t)function - copy->text);
}

static void remove_copy(const struct copy *copy)
{
	unlink(copy->path);
	rmdir(copy->dir);
}

/* How the program is triggered. */
enum trigger { NMI, CPU_CLOCK, SYSCALL, SWITCH, INT3, GETPGID, FAULT, UPROBE, PRCTL };

FIXTURE(context)
{
	struct task_vma *skel;
	struct bpf_link *link;
	struct spinner spinner;
	struct copy copy;
	void *deleted, *memfd, *huge;
	void (*spin)(struct spinner *s);
	long (*syscall)(long nr, long arg1, long arg2);
	char (*read)(const char *p);
	char *page;
	struct setting optimization;
	int event;
};

FIXTURE_VARIANT(context)
{
	enum trigger trigger;
	const char *program;
	bool irqs_on;
};

FIXTURE_VARIANT_ADD(context, nmi) { NMI, "nmi", false };
FIXTURE_VARIANT_ADD(context, hardirq) { CPU_CLOCK, "hardirq", false };
FIXTURE_VARIANT_ADD(context, irqs_off) { SYSCALL, "irqs_off", false };
FIXTURE_VARIANT_ADD(context, sched_switch) { SWITCH, "sched_switch", false };
FIXTURE_VARIANT_ADD(context, int3) { INT3, "kprobe_int3", false };
/* Software events overflow with interrupts off, wherever they occur. */
FIXTURE_VARIANT_ADD(context, page_fault) { FAULT, "page_fault", false };
FIXTURE_VARIANT_ADD(context, syscall) { SYSCALL, "syscall_entry", true };
FIXTURE_VARIANT_ADD(context, fentry) { GETPGID, "fentry_getpgid", true };
FIXTURE_VARIANT_ADD(context, uprobe) { UPROBE, "uprobe", true };
FIXTURE_VARIANT_ADD(context, sleepable) { UPROBE, "sleepable", true };
FIXTURE_VARIANT_ADD(context, lsm) { PRCTL, "sleepable_lsm", true };

#define OPTIMIZATION "/proc/sys/debug/kprobes-optimization"

#define SIZE (4 * PAGE_SIZE)

/*
 * Code that is interrupted, or enters the kernel, in a context with interrupts off. It
 * runs in a copy of this program on a disk: build IDs are not cached for files that can
 * change unnoticed, for example on the server of a network file system this may be on.
 * The code only uses registers and addresses passed to it.
 */
#define __on_disk noinline __section("on_disk_text")

static __on_disk void spin_on_disk(struct spinner *s)
{
	while (!READ_ONCE(s->stop))
		WRITE_ONCE(s->rounds, s->rounds + 1);
}

static __on_disk long syscall_on_disk(long nr, long arg1, long arg2)
{
#ifdef __x86_64__
	asm volatile("syscall" : "+a"(nr) : "D"(arg1), "S"(arg2) : "rcx", "r11", "memory");
	return nr;
#else
	return -ENOSYS;
#endif
}

static __on_disk char read_on_disk(const char *p)
{
	return READ_ONCE(*p);
}

/* Mappings with special entries in /proc/self/maps, and one to fault in. */
static void map_things(struct __test_metadata *_metadata, FIXTURE_DATA(context) *self)
{
	int fd;

	ASSERT_EQ(0, make_copy(&self->copy));
	self->spin = in_copy(&self->copy, &spin_on_disk);
#ifdef __x86_64__
	self->syscall = in_copy(&self->copy, &syscall_on_disk);
#else
	self->syscall = (void *)&syscall;
#endif
	self->read = in_copy(&self->copy, &read_on_disk);

	snprintf(maps_text, sizeof(maps_text), "%s/deleted", self->copy.dir);
	fd = open(maps_text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));
	self->deleted = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, self->deleted);
	close(fd);
	ASSERT_EQ(0, unlink(maps_text));

	fd = memfd_create("task_vma", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));
	self->memfd = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, PAGE_SIZE);
	ASSERT_NE(MAP_FAILED, self->memfd);
	close(fd);

	/* Needs no huge page until it is touched. */
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	ASSERT_LE(0, fd);
	self->huge = mmap(NULL, 2 << 20, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 2 << 20);
	ASSERT_NE(MAP_FAILED, self->huge);
	close(fd);

	self->page = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
}

#define STACK_GROWTH 100

/* Grows the stack by at least @depth pages. */
static noinline int grow_stack(int depth)
{
	char frame[PAGE_SIZE];

	WRITE_ONCE(frame[0], depth);
	return depth ? grow_stack(depth - 1) + READ_ONCE(frame[0]) : 0;
}

/* Returns the option that the kernel lacks for a variant, as the text of a SKIP(), or NULL. */
static const char *lacks(enum trigger trigger)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);

	if (fd < 0 && errno == ENOSYS)
		return "needs CONFIG_HUGETLBFS";
	close(fd);
	if (trigger == NMI && access("/proc/sysrq-trigger", F_OK))
		return "needs CONFIG_MAGIC_SYSRQ";
	if (trigger == INT3 && access("/sys/bus/event_source/devices/kprobe", F_OK))
		return "needs CONFIG_KPROBE_EVENTS";
	if ((trigger == INT3 || trigger == GETPGID) &&
	    libbpf_find_vmlinux_btf_id("security_task_getpgid", BPF_TRACE_FENTRY) < 0)
		return "needs CONFIG_SECURITY";
	return trigger == PRCTL && !has_bpf_lsm() ? NEEDS_BPF_LSM : NULL;
}

FIXTURE_SETUP(context)
{
	const char *missing = lacks(variant->trigger);
	struct bpf_program *prog;

	if (missing)
		SKIP(return, "%s", missing);
	self->event = -1;
	self->spinner.tid = -1;
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	prog = bpf_object__find_program_by_name(self->skel->obj, variant->program);
	ASSERT_NE(NULL, prog);
	bpf_program__set_autoload(prog, true);
	/* From now on build IDs are cached. */
	ASSERT_EQ(0, task_vma__load(self->skel));
	map_things(_metadata, self);
	grow_stack(STACK_GROWTH);
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	self->skel->bss->query_addr = (uintptr_t)&read_maps;
	self->skel->bss->fault_addr = (uintptr_t)self->page;
#ifdef __x86_64__
	self->skel->bss->sleep_start = (uintptr_t)self->copy.map;
	self->skel->bss->sleep_end = (uintptr_t)self->copy.map + self->copy.size;
#else
	/* syscall() of the C library */
	self->skel->bss->sleep_end = -1;
	if (variant->trigger == NMI || variant->trigger == INT3)
		SKIP(return, "not known how to get there but on x86");
#endif
	if (variant->trigger == NMI || variant->trigger == CPU_CLOCK) {
		if (pin_to_cpu(0) || spinner_start_in(&self->spinner, 1, self->spin))
			SKIP(return, "needs CPUs 0 and 1");
		spinner_wait(&self->spinner);
		self->skel->bss->target = self->spinner.tid;
	}
}

FIXTURE_TEARDOWN(context)
{
	if (self->spinner.tid > 0)
		spinner_stop(&self->spinner);
	bpf_link__destroy(self->link);
	setting_restore(&self->optimization);
	if (self->event >= 0)
		close(self->event);
	task_vma__destroy(self->skel);
	remove_copy(&self->copy);
}

/* Attach point of the uprobe programs. */
noinline void sample_uprobe(void)
{
	asm volatile("");
}

/*
 * After the call at the start of the function, where kprobes would use ftrace: offset 9
 * with indirect branch tracking, 5 without.
 */
static struct bpf_link *attach_int3(const struct bpf_program *prog, struct setting *optimization)
{
	LIBBPF_OPTS(bpf_kprobe_opts, opts, .offset = 9);
	struct bpf_link *link;

	/* A jump instead of the breakpoint would be a different context. */
	if (!access(OPTIMIZATION, F_OK) && setting_change(optimization, OPTIMIZATION, "0"))
		return NULL;
	link = bpf_program__attach_kprobe_opts(prog, "security_task_getpgid", &opts);
	if (link)
		return link;
	opts.offset = 5;
	return bpf_program__attach_kprobe_opts(prog, "security_task_getpgid", &opts);
}

static int page_fault_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_type = PERF_SAMPLE_ADDR,
		.sample_period = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Runs the program at least SAMPLES times, without changing mappings. */
static void run_program(struct __test_metadata *_metadata, FIXTURE_DATA(context) *self,
			const FIXTURE_VARIANT(context) *variant)
{
	const struct timespec soon = { .tv_nsec = 1000 };
	struct seen *seen = &self->skel->bss->seen;
	struct bpf_program *prog;
	int i;

	prog = bpf_object__find_program_by_name(self->skel->obj, variant->program);
	if (variant->trigger == CPU_CLOCK || variant->trigger == FAULT) {
		self->event = variant->trigger == FAULT ? page_fault_event() :
							  cpu_clock_event(1, 1000 * 1000);
		ASSERT_LE(0, self->event);
		self->link = bpf_program__attach_perf_event(prog, self->event);
	} else if (variant->trigger == INT3) {
		self->link = attach_int3(prog, &self->optimization);
	} else {
		self->link = bpf_program__attach(prog);
	}
	ASSERT_NE(NULL, self->link);
	self->event = -1;	/* the link owns it */

	switch (variant->trigger) {
	case NMI:
		ASSERT_EQ(0, nmi_until(&self->spinner, &seen->runs, SAMPLES));
		break;
	case CPU_CLOCK:
		/* The harness times out a test that gets no interrupts. */
		while (READ_ONCE(seen->runs) < SAMPLES)
			usleep(1000);
		break;
	case SYSCALL:
		for (i = 0; i < SAMPLES; i++)
			self->syscall(SYS_getppid, 0, 0);
		break;
	case SWITCH:
		/* Each call switches to another task, at least the idle task. */
		while (READ_ONCE(seen->runs) < SAMPLES)
			self->syscall(SYS_nanosleep, (long)&soon, 0);
		break;
	case INT3:
	case GETPGID:
		for (i = 0; i < SAMPLES; i++)
			self->syscall(SYS_getpgid, getpid(), 0);
		break;
	case FAULT:
		for (i = 0; i < SAMPLES; i++) {
			ASSERT_EQ(0, madvise(self->page, PAGE_SIZE, MADV_DONTNEED));
			self->read(self->page);
		}
		break;
	case UPROBE:
		for (i = 0; i < SAMPLES; i++)
			sample_uprobe();
		break;
	case PRCTL:
		for (i = 0; i < SAMPLES; i++)
			prctl(PR_GET_DUMPABLE);
		break;
	}
	/* No program runs after this: the counters are consistent. */
	bpf_link__destroy(self->link);
	self->link = NULL;
	ASSERT_LE(SAMPLES, READ_ONCE(seen->runs));
	ASSERT_EQ(seen->in_context, seen->runs);
}

static bool has_symbol(const char *name)
{
	char line[256], symbol[200];
	bool has = false;
	FILE *f;

	f = fopen("/proc/kallsyms", "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*s %199s", symbol) == 1 && !strcmp(symbol, name))
			has = true;
	if (f)
		fclose(f);
	return has;
}

static bool has_query(void)
{
	static int has = -1;

	if (has < 0)
		has = has_symbol("bpf_task_vma_query");
	return has;
}

/* Iterates over all mappings: addresses, offset and permissions, and vm_file. */
TEST_F(context, walk)
{
	struct seen *seen = &self->skel->bss->seen;
	int i, n, files = 0;

	run_program(_metadata, self, variant);
	n = read_maps();
	ASSERT_LT(20, n);

	EXPECT_EQ(seen->runs, seen->complete)
		TH_LOG("%llu of %llu walks began, %llu came to the end; the last: %s", seen->walks,
		       seen->runs, seen->complete, strerrorname_np(-seen->walk_err) ?: "0");
	ASSERT_EQ(n, seen->nr_vmas);
	for (i = 0; i < n; i++) {
		struct seen_vma *v = &self->skel->bss->vmas[i];

		ASSERT_EQ(maps[i].start, v->start);
		ASSERT_EQ(maps[i].end, v->end);
		ASSERT_EQ(maps[i].flags & 7, v->flags & 7);
		ASSERT_EQ(!!(maps[i].flags & PROCMAP_QUERY_VMA_SHARED),
			  !!(v->flags & VM_MAYSHARE));
		if (maps[i].ino)
			ASSERT_EQ(maps[i].offset, v->pgoff * PAGE_SIZE);
		files += !!maps[i].ino;
	}
	ASSERT_LT(4, files);
	/* No reference can be taken, or kept, with interrupts off. */
	EXPECT_EQ(variant->irqs_on ? files : 0, seen->nr_files);
	if (has_symbol("bpf_iter_task_vma_has_file"))
		EXPECT_EQ(files, seen->nr_has_file);
}

/* A loop over bpf_task_vma_query(): the same, and the identity of files. */
TEST_F(context, queries)
{
	struct seen *seen = &self->skel->bss->seen;
	void * const things[] = {
		self->copy.map, self->deleted, self->memfd, self->huge,
		(void *)getauxval(AT_SYSINFO_EHDR),
	};
	int i, j, n, found = 0;
	unsigned long stack = 0;

	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	run_program(_metadata, self, variant);
	n = read_maps();
	ASSERT_LT(20, n);

	EXPECT_EQ(0, seen->query_err);
	ASSERT_EQ(n, seen->nr_records);
	for (i = 0; i < n; i++) {
		struct record *r = &self->skel->bss->records[i];

		ASSERT_EQ(maps[i].start, r->start);
		ASSERT_EQ(maps[i].end, r->end);
		ASSERT_EQ(maps[i].flags, r->flags);
		ASSERT_EQ(maps[i].ino ? maps[i].offset : 0, r->offset);
		ASSERT_EQ(maps[i].ino, r->ino);
		ASSERT_EQ(maps[i].major, r->dev_major);
		ASSERT_EQ(maps[i].minor, r->dev_minor);
		ASSERT_EQ(!maps[i].ino, !r->build_id_status);
		/* Nothing was mapped in between: a snapshot. */
		ASSERT_EQ(self->skel->bss->records[0].seq, r->seq);
		ASSERT_EQ(self->skel->bss->records[0].mm, r->mm);
		for (j = 0; j < (int)ARRAY_LEN(things); j++)
			found += r->start == (uintptr_t)things[j];
		if (r->start <= (uintptr_t)&n && (uintptr_t)&n < r->end)
			stack = r->end - r->start;
	}
	EXPECT_EQ(ARRAY_LEN(things), found);
	/* It has grown to this since it was mapped. */
	EXPECT_LT(STACK_GROWTH * PAGE_SIZE, stack);
}

/*
 * bpf_find_vma() twice, then a stack with build IDs. With interrupts off, bpf_find_vma()
 * works once, or never with PREEMPT_RT; the stack does not depend on it.
 */
TEST_F(context, stack)
{
	int busy = variant->irqs_on ? 0 : -EBUSY;
	struct seen *seen = &self->skel->bss->seen;

#ifndef __x86_64__
	SKIP(return, "not known how to call the kernel from a copy but on x86");
#endif
	run_program(_metadata, self, variant);
	EXPECT_EQ(is_preempt_rt() ? busy : 0, seen->find_vma_first);
	EXPECT_EQ(busy, seen->find_vma_err);
	EXPECT_EQ(seen->runs, seen->stacks)
		TH_LOG("%llu of %llu stacks have a build ID", seen->stacks, seen->runs);
}

/* --- many in one NMI -------------------------------------------------------------- */

FIXTURE(nmi)
{
	struct task_vma *skel;
	struct spinner spinner;
	struct copy copy;
};

FIXTURE_SETUP(nmi)
{
	self->spinner.tid = -1;
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	bpf_program__set_autoload(self->skel->progs.nmi_lookups, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, make_copy(&self->copy));
}

FIXTURE_TEARDOWN(nmi)
{
	if (self->spinner.tid > 0)
		spinner_stop(&self->spinner);
	task_vma__destroy(self->skel);
	remove_copy(&self->copy);
}

/* In an NMI: a stack with build IDs, and 20 lookups, each in another mapping. */
TEST_F(nmi, lookups)
{
	struct seen *seen = &self->skel->bss->seen;
	int i, n;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	if (access("/proc/sysrq-trigger", F_OK))
		SKIP(return, "needs CONFIG_MAGIC_SYSRQ");
	if (pin_to_cpu(0) ||
	    spinner_start_in(&self->spinner, 1, in_copy(&self->copy, &spin_on_disk)))
		SKIP(return, "needs CPUs 0 and 1");
	self->skel->bss->target = self->spinner.tid;
	n = read_maps();
	ASSERT_LE(QUERIES, n);
	for (i = 0; i < QUERIES; i++)
		self->skel->bss->lookup_addrs[i] = maps[i * n / QUERIES].start;
	ASSERT_EQ(0, task_vma__attach(self->skel));
	ASSERT_EQ(0, nmi_until(&self->spinner, &seen->runs, SAMPLES));
	task_vma__detach(self->skel);

	ASSERT_LE(SAMPLES, seen->runs);
	EXPECT_EQ(seen->in_context, seen->runs);
	EXPECT_EQ(seen->runs, seen->stacks);
	if (seen->find_vma_calls) {
		EXPECT_EQ(seen->runs * QUERIES, seen->find_vma)
			TH_LOG("bpf_find_vma() failed in %llu of %u calls, the last: %s",
			       seen->find_vma_calls - seen->find_vma, seen->find_vma_calls,
			       strerrorname_np(-seen->find_vma_err));
	} else {
		EXPECT_EQ(seen->runs * QUERIES, seen->queries)
			TH_LOG("the last failed with %s", strerrorname_np(-seen->query_err));
		for (i = 0; i < QUERIES; i++)
			EXPECT_EQ(self->skel->bss->lookup_addrs[i],
				  self->skel->bss->records[i].start);
	}
	TH_LOG("%llu NMIs, %llu queries, %llu stacks with a build ID", seen->runs,
	       seen->queries, seen->stacks);
}

/* --- queries -------------------------------------------------------------------------- */

FIXTURE(query)
{
	struct task_vma *skel;
	int maps;
};

FIXTURE_SETUP(query)
{
	self->maps = -1;
	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	self->maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->maps);
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->data->wait_scale = timeout_scale();
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
}

FIXTURE_TEARDOWN(query)
{
	task_vma__destroy(self->skel);
	if (self->maps >= 0)
		close(self->maps);
}

static void load_query(struct __test_metadata *_metadata, struct task_vma *skel,
		       struct bpf_program *a, struct bpf_program *b)
{
	bpf_program__set_autoload(a, true);
	if (b)
		bpf_program__set_autoload(b, true);
	ASSERT_EQ(0, task_vma__load(skel));
	ASSERT_EQ(0, task_vma__attach(skel));
}

static long query(struct task_vma *skel, uint64_t addr, uint64_t flags, uint32_t size)
{
	skel->bss->query_addr = addr;
	skel->bss->query_flags = flags;
	skel->bss->query_size = size;
	skel->bss->query_result = 1;
	memset(skel->bss->query_out, 0xff, sizeof(skel->bss->query_out));
	syscall(SYS_getppid);
	return READ_ONCE(skel->bss->query_result);
}

/* Resumes after calls that skipped the maximum number of mappings. */
static long query_on(struct task_vma *skel, uint64_t addr, uint64_t flags)
{
	const struct record *r = (void *)skel->bss->query_out;
	long err;

	while ((err = query(skel, addr, flags, sizeof(*r))) == -EINPROGRESS)
		addr = r->end;
	return err;
}

static bool all_zeros(const char *p, size_t size)
{
	while (size && !*p) {
		p++;
		size--;
	}
	return !size;
}

/* Syscall entry: every combination of flags, at every edge of a mapping. */
TEST_F(query, flags)
{
	struct record here, *r = (void *)self->skel->bss->query_out;
	int i, n, fd, matched = 0, without_id = 0;
	uint64_t flags;
	void *p;

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	/* A mapping without a build ID: the kernel caches none for such files. */
	fd = memfd_create("no_id", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE_SIZE));
	p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	close(fd);
	n = read_maps();
	ASSERT_LT(10, n);
	ASSERT_EQ(0, query(self->skel, (uintptr_t)&read_maps, 0, sizeof(here)));
	here = *r;
	ASSERT_NE(0, here.mm);
	for (i = 0; i < 3 * n; i++) {
		uint64_t addr = i % 3 == 0 ? maps[i / 3].start :
				i % 3 == 1 ? maps[i / 3].end - 1 : maps[i / 3].end;

		for (flags = 0; flags < 0x40; flags++) {
			struct procmap_query q = {
				.size = sizeof(q),
				.query_addr = addr,
				.query_flags = flags,
			};
			int err = ioctl(self->maps, PROCMAP_QUERY, &q) ? -errno : 0;

			ASSERT_EQ(err, query_on(self->skel, addr, flags))
				TH_LOG("address %#lx, flags %#lx", addr, flags);
			/* Nothing was mapped in between. */
			ASSERT_EQ(here.mm, r->mm);
			ASSERT_EQ(here.seq, r->seq);
			if (err) {
				r->mm = 0;
				r->seq = 0;
				ASSERT_TRUE(all_zeros((char *)r, sizeof(*r)));
				continue;
			}
			matched++;
			ASSERT_EQ(q.vma_start, r->start);
			ASSERT_EQ(q.vma_end, r->end);
			ASSERT_EQ(q.vma_flags, r->flags);
			ASSERT_EQ(q.vma_offset, r->offset);
			ASSERT_EQ(q.inode, r->ino);
			ASSERT_EQ(q.dev_major, r->dev_major);
			ASSERT_EQ(q.dev_minor, r->dev_minor);
			if (r->build_id_status == BUILD_ID_VALID)
				continue;
			without_id += r->ino != 0;
			ASSERT_EQ(0, r->build_id_len);
			ASSERT_TRUE(all_zeros((char *)r->build_id, sizeof(r->build_id)));
		}
	}
	EXPECT_LT(n, matched);
	EXPECT_LT(0, without_id);
	munmap(p, PAGE_SIZE);
}

/* Syscall entry: the status of mappings without a build ID. */
TEST_F(query, no_build_id)
{
	static const struct {
		const char *path;	/* NULL: memfd */
		int flags, status;
	} maps[] = {
		{ "/dev/zero", MAP_PRIVATE | MAP_ANONYMOUS, BUILD_ID_NO_FILE },
		/* Anonymous memory, with a file. */
		{ "/dev/zero", MAP_PRIVATE, BUILD_ID_NONE },
		/* Writes to it are not counted. */
		{ NULL, MAP_PRIVATE, BUILD_ID_UNKNOWN },
	};
	const struct record *r = (void *)self->skel->bss->query_out;
	void *p;
	int i, fd;

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	for (i = 0; i < (int)ARRAY_LEN(maps); i++) {
		fd = maps[i].path ? open(maps[i].path, O_RDWR | O_CLOEXEC) :
				    memfd_create("no_id", MFD_CLOEXEC);
		ASSERT_LE(0, fd);
		p = mmap(NULL, PAGE_SIZE, PROT_READ, maps[i].flags,
			 maps[i].flags & MAP_ANONYMOUS ? -1 : fd, 0);
		ASSERT_NE(MAP_FAILED, p);
		close(fd);
		ASSERT_EQ(0, query(self->skel, (uintptr_t)p, 0, sizeof(*r)));
		EXPECT_EQ(maps[i].status, r->build_id_status)
			TH_LOG("mapping %d", i);
		munmap(p, PAGE_SIZE);
	}
}

#define BUILD_ID_CACHE "/proc/sys/kernel/build_id_cache"

/* Queries until a build ID that was requested has been read. Returns its status. */
static int final_status(struct task_vma *skel, const void *p)
{
	const struct record *r = (void *)skel->bss->query_out;

	do {
		if (query(skel, (uintptr_t)p, 0, sizeof(*r)))
			return -1;
	} while (r->build_id_status == BUILD_ID_PENDING);
	return r->build_id_status;
}

/* Syscall entry: while a file is open for write, its build ID is not requested. */
TEST_F(query, open_for_write)
{
	const struct record *r = (void *)self->skel->bss->query_out;
	char dir[200], path[256];
	int fd, writer;
	void *p;

	if (access(BUILD_ID_CACHE, F_OK))
		SKIP(return, "this kernel keeps no build IDs");
	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	fd = copy_self(dir, sizeof(dir), path, sizeof(path));
	ASSERT_LE(0, fd);
	writer = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, writer);
	unlink(path);
	rmdir(dir);
	p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	close(fd);
	ASSERT_EQ(0, query(self->skel, (uintptr_t)p, 0, sizeof(*r)));
	EXPECT_EQ(BUILD_ID_UNKNOWN, r->build_id_status);
	close(writer);
	/* The same file is cached when it can no longer be written to. */
	EXPECT_EQ(BUILD_ID_VALID, final_status(self->skel, p));
	munmap(p, PAGE_SIZE);
}

/* Syscall entry: while the cache is switched off, no build ID is requested. */
TEST_F(query, cache_off)
{
	const struct record *r = (void *)self->skel->bss->query_out;
	struct setting cache = {};
	char dir[200], path[256];
	int i, fd;
	void *p;

	if (access(BUILD_ID_CACHE, F_OK))
		SKIP(return, "this kernel keeps no build IDs");
	ASSERT_EQ(0, setting_change(&cache, BUILD_ID_CACHE, "0"));
	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	fd = copy_self(dir, sizeof(dir), path, sizeof(path));
	ASSERT_LE(0, fd);
	unlink(path);
	rmdir(dir);
	p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	close(fd);
	/* Before the file is cached, and after. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, query(self->skel, (uintptr_t)p, 0, sizeof(*r)));
		EXPECT_EQ(BUILD_ID_UNKNOWN, r->build_id_status);
		ASSERT_EQ(0, write_value(BUILD_ID_CACHE, "1"));
		EXPECT_EQ(BUILD_ID_VALID, final_status(self->skel, p));
		ASSERT_EQ(0, write_value(BUILD_ID_CACHE, "0"));
	}
	munmap(p, PAGE_SIZE);
	setting_restore(&cache);
}

/* Syscall entry: rejected queries, and records of other sizes. */
TEST_F(query, errors)
{
	char *out = self->skel->bss->query_out;
	size_t size = sizeof(struct record);

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	EXPECT_EQ(-EINVAL, query(self->skel, 0, 0x40, size));
	EXPECT_TRUE(all_zeros(out, size));
	EXPECT_EQ(-EINVAL, query(self->skel, 0, 1ULL << 63, size));
	EXPECT_EQ(-EINVAL, query(self->skel, 0, 0, size - 1));
	EXPECT_TRUE(all_zeros(out, size - 1));
	/* Not past the given size. */
	EXPECT_EQ('\xff', out[size - 1]);
	EXPECT_EQ(-EINVAL, query(self->skel, 0, 0, 0));
	EXPECT_EQ('\xff', out[0]);
	/* A program built for a later record. */
	EXPECT_EQ(0, query(self->skel, (uintptr_t)&read_maps, 0, 2 * size));
	EXPECT_FALSE(all_zeros(out, size));
	EXPECT_TRUE(all_zeros(out + size, size));
	/* A buffer larger than an NMI should clear is not touched at all. */
	EXPECT_EQ(0, query(self->skel, (uintptr_t)&read_maps, 0, 4096));
	EXPECT_EQ(-E2BIG, query(self->skel, (uintptr_t)&read_maps, 0, 4097));
	EXPECT_EQ('\xff', out[0]);

	EXPECT_EQ(-ENOENT, query(self->skel, 0, 0, size));
	EXPECT_EQ(-ENOENT, query(self->skel, ~0ULL, 0, size));
	EXPECT_EQ(-ENOENT, query(self->skel, ~0ULL, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, size));
	EXPECT_EQ(-ENOENT, query(self->skel, 0xffffffffff600000ULL, 0, size));
}

/* Syscall entry: a record not aligned to eight bytes is the same. */
TEST_F(query, misaligned)
{
	char *out = self->skel->bss->query_out;
	struct record aligned;
	unsigned int shift;

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	do {
		ASSERT_EQ(0, query(self->skel, (uintptr_t)&read_maps, 0, sizeof(aligned)));
		memcpy(&aligned, out, sizeof(aligned));
	} while (aligned.build_id_status == BUILD_ID_PENDING);
	ASSERT_NE(0, aligned.ino);
	for (shift = 1; shift < 8; shift++) {
		self->skel->bss->query_shift = shift;
		ASSERT_EQ(0, query(self->skel, (uintptr_t)&read_maps, 0, sizeof(aligned)));
		EXPECT_EQ(0, memcmp(out + shift, &aligned, sizeof(aligned)));
		EXPECT_EQ('\xff', out[shift - 1]);
		EXPECT_EQ('\xff', out[shift + sizeof(aligned)]);
	}
}

/* Syscall entry: a call skips a limited number of mappings, and returns where to resume. */
TEST_F(query, bounded)
{
	struct record *r = (void *)self->skel->bss->query_out;
	uint64_t flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_FILE_BACKED_VMA;
	int i, calls = 1, n = 1000;
	uint64_t at;
	char *p;

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	p = mmap(NULL, n * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	for (i = 1; i < n; i += 2)
		ASSERT_EQ(0, mprotect(p + i * PAGE_SIZE, PAGE_SIZE, PROT_NONE));

	at = (uintptr_t)p;
	while (query(self->skel, at, flags, sizeof(*r)) == -EINPROGRESS) {
		ASSERT_LT(at, r->end);
		ASSERT_EQ(0, r->start);
		ASSERT_NE(0, r->mm);
		at = r->end;
		calls++;
	}
	EXPECT_EQ(0, self->skel->bss->query_result);
	EXPECT_LE((uintptr_t)p + n * PAGE_SIZE, r->start);
	EXPECT_NE(0, r->ino);
	EXPECT_LT(4, calls);
	EXPECT_GT(n / 2, calls);
	munmap(p, n * PAGE_SIZE);
}

/* Syscall entry: the last record of a walk shows that a mapping moved below its cursor. */
TEST_F(query, moved)
{
	struct record last, *r = (void *)self->skel->bss->query_out;
	const uint64_t next = PROCMAP_QUERY_COVERING_OR_NEXT_VMA;
	char *p;

	load_query(_metadata, self->skel, self->skel->progs.query_once, NULL);
	p = mmap(NULL, 4 * PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, munmap(p + PAGE_SIZE, PAGE_SIZE));
	ASSERT_EQ(0, query(self->skel, 0, next, sizeof(*r)));
	do {
		last = *r;
	} while (!query(self->skel, r->end, next, sizeof(*r)));
	ASSERT_EQ(-ENOENT, self->skel->bss->query_result);
	EXPECT_EQ(last.mm, r->mm);
	EXPECT_EQ(last.seq, r->seq);

	ASSERT_EQ(p + PAGE_SIZE, mremap(p + 3 * PAGE_SIZE, PAGE_SIZE, PAGE_SIZE,
					MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE_SIZE));
	ASSERT_EQ(-ENOENT, query(self->skel, last.end, next, sizeof(*r)));
	EXPECT_EQ(last.mm, r->mm);
	EXPECT_NE(last.seq, r->seq);
	munmap(p, 3 * PAGE_SIZE);
}

/* Syscall entry: 100,000 mappings, in chunks of 1,000. */
TEST_F_TIMEOUT(query, resume, 240)
{
	int i, chunks = 0, n = 100000, vmas = 0;
	struct setting max_map_count;
	time_t start;
	char *p;

	if (setting_change(&max_map_count, "/proc/sys/vm/max_map_count", "200000"))
		SKIP(return, "needs to set vm.max_map_count");
	load_query(_metadata, self->skel, self->skel->progs.chunk, NULL);
	p = mmap(NULL, n * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	/*
	 * From the end: splitting the first of many is slow. A kernel with all checks
	 * enabled does not split all of them, but enough for several chunks.
	 */
	for (start = time(NULL), i = n - 1;
	     i > 0 && (vmas < 5000 || time(NULL) < start + 120); i -= 2) {
		ASSERT_EQ(0, mprotect(p + i * PAGE_SIZE, PAGE_SIZE, PROT_NONE));
		vmas += 2;
	}
	do {
		syscall(SYS_getppid);
		chunks++;
	} while (!self->skel->bss->chunk_err && chunks < 1000);

	EXPECT_EQ(-ENOENT, self->skel->bss->chunk_err);
	EXPECT_LE(vmas, self->skel->bss->chunk_vmas);
	EXPECT_GT(vmas + 500, self->skel->bss->chunk_vmas);
	EXPECT_LE(vmas / 1000, chunks);
	/* Nothing was mapped in between: a snapshot of all of them. */
	EXPECT_EQ(0, self->skel->bss->chunk_other);
	munmap(p, n * PAGE_SIZE);
	setting_restore(&max_map_count);
}

/* Syscall entry: neither a query nor a walk allocates, or copies from user space. */
TEST_F(query, fail_nth)
{
	struct seen *seen = &self->skel->bss->seen;
	struct faults faults;
	long err;

	if (faults_open(&faults))
		SKIP(return, NEEDS_FAULT_INJECTION);
	load_query(_metadata, self->skel, self->skel->progs.query_once,
		   self->skel->progs.syscall_entry);
	fault_arm(&faults);
	err = query(self->skel, (uintptr_t)&read_maps, 0, sizeof(struct record));
	EXPECT_FALSE(fault_hit(&faults));
	EXPECT_EQ(0, err);
	EXPECT_EQ(1, seen->runs);
	EXPECT_EQ(1, seen->complete);

	/* Verify that faults are injected. */
	fault_arm(&faults);
	close(memfd_create("fault", MFD_CLOEXEC));
	EXPECT_TRUE(fault_hit(&faults));
	faults_close(&faults);
}

/*
 * Syscall entry and sched_process_exec: each address space has its own token, even if it
 * reuses the memory of an earlier one, as the exec() after next on this CPU often does.
 */
TEST_F(query, token)
{
	struct task_vma__bss *bss = self->skel->bss;
	unsigned int i, j, n, reused, tries;
	int status;
	pid_t pid;

	bss->target = 0;
	bss->parent = getpid();
	load_query(_metadata, self->skel, self->skel->progs.token_sample,
		   self->skel->progs.token_exec);
	ASSERT_EQ(0, pin_to_cpu(0));
	/* If only every other exec() queries, the CPU's last token is of the same memory. */
	for (bss->token_every = 1; bss->token_every <= 2; bss->token_every++) {
		for (reused = 0, tries = 0; !reused && tries < 20; tries++) {
			bss->nr_tokens = 0;
			bss->nr_execs = 0;
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				syscall(SYS_getppid);
				execl("/bin/sh", "sh", "-c",
				      "exec sh -c 'exec sh -c \"exec sh -c \\\"exec sh -c :\\\"\"'",
				      NULL);
				_exit(127);
			}
			ASSERT_EQ(pid, waitpid(pid, &status, 0));
			ASSERT_EQ(0, status);
			/* One before, and those of the five exec(). */
			n = bss->nr_tokens;
			ASSERT_EQ(1 + 5 / bss->token_every, n);
			for (i = 0; i < n; i++) {
				EXPECT_NE(0, bss->tokens[i]);
				for (j = 0; j < i; j++) {
					EXPECT_NE(bss->tokens[i], bss->tokens[j]);
					reused += bss->token_mms[i] == bss->token_mms[j];
				}
			}
		}
		EXPECT_LT(0, reused)
			TH_LOG("no mm had the memory of a former one");
	}
}

/* Scheduler, interrupts off: kernel threads have no mappings, even if they use an mm. */
TEST_F(query, kthread)
{
	struct seen *seen = &self->skel->bss->seen;

	load_query(_metadata, self->skel, self->skel->progs.kthread, NULL);
	/* Waiting for a grace period makes RCU's threads run. */
	while (READ_ONCE(seen->runs) < SAMPLES)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	task_vma__detach(self->skel);
	EXPECT_EQ(seen->runs, seen->in_context);
	EXPECT_EQ(seen->runs, seen->walks);
	EXPECT_EQ(seen->runs, seen->queries);
}

/* Maps the headers of a new file @n times, and unlinks the file. */
static int map_new_file(char **maps, int n)
{
	char dir[200], path[256];
	int i, fd;

	fd = copy_self(dir, sizeof(dir), path, sizeof(path));
	if (fd < 0)
		return fd;
	unlink(path);
	rmdir(dir);
	for (i = 0; i < n; i++) {
		maps[i] = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
		if (maps[i] == MAP_FAILED)
			return -errno;
	}
	close(fd);
	return 0;
}

/*
 * Scheduler, interrupts off: a task queries more files than a CPU has room for, and then
 * sleeps. A build ID that another task queries on that CPU must still arrive soon.
 */
TEST_F(query, asleep)
{
	const struct record *r = (void *)self->skel->bss->query_out;
	struct seen *seen = &self->skel->bss->seen;
	char *mine, *asked[ASKED_FOR];
	int i, status;
	pid_t pid;

	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, map_new_file(&mine, 1));
	ASSERT_EQ(0, map_new_file(asked, ASKED_FOR));
	for (i = 0; i < ASKED_FOR; i++)
		self->skel->bss->asked[i] = (uintptr_t)asked[i];
	load_query(_metadata, self->skel, self->skel->progs.query_once, self->skel->progs.asleep);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		self->skel->bss->sleeper = getpid();
		for (;;)
			syscall(SYS_pause);
	}
	while (!READ_ONCE(seen->runs))
		sched_yield();
	EXPECT_EQ(1, seen->in_context);
	EXPECT_EQ(ASKED_FOR, seen->queries);

	/* The harness times out a test whose build ID stays pending. */
	do {
		ASSERT_EQ(0, query(self->skel, (uintptr_t)mine, 0, sizeof(*r)));
	} while (r->build_id_status == BUILD_ID_PENDING);
	EXPECT_EQ(BUILD_ID_VALID, r->build_id_status);
	/* It slept all that time: nothing was requested a second time. */
	EXPECT_EQ(1, seen->runs);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
}

/* Files that are opened after one was freed: one of them gets its memory. */
#define REUSES 64

/* Above all file descriptors of the test. */
#define FD_LIMIT (4 * REUSES)

struct reuse {
	struct task_vma *skel;
	void *map;
	int others[REUSES], err;
	bool done;			/* the walk is over */
	pthread_barrier_t on_its_cpu;
};

static void *replace_held(void *arg)
{
	struct reuse *r = arg;
	struct task_vma__bss *bss = r->skel->bss;
	char path[32];
	int i;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->others[0]);
	r->err = pin_to_cpu(1);
	pthread_barrier_wait(&r->on_its_cpu);
	while (!r->err && !READ_ONCE(bss->waiting) && !READ_ONCE(r->done))
		;
	/*
	 * The CPU that waits has interrupts off, and is in an RCU read-side section: nothing
	 * here may send it an interrupt, or wait for a grace period. The page was never touched,
	 * so that there is nothing to flush from its TLB. The last reference to the file is put
	 * on return from here.
	 */
	if (!r->err && mmap(r->map, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			    -1, 0) != r->map)
		r->err = -errno;
	for (i = 1; !r->err && i < REUSES; i++) {
		r->others[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (r->others[i] < 0)
			r->err = -errno;
	}
	WRITE_ONCE(bss->replaced, true);
	return NULL;
}

static uint64_t new_memfd(int *fd)
{
	struct stat st;

	*fd = memfd_create("file", MFD_CLOEXEC);
	return *fd < 0 || ftruncate(*fd, PAGE_SIZE) || fstat(*fd, &st) ? 0 : st.st_ino;
}

/*
 * Walks once, and replaces the file at access number @hold_at to mm_lock_seq. False if there
 * are fewer.
 */
static bool walk_and_replace(struct __test_metadata *_metadata, struct task_vma *skel,
			     char *map, int hold_at)
{
	struct reuse r = { .skel = skel, .map = map };
	struct task_vma__bss *bss = skel->bss;
	pthread_t thread;
	int fd, i;

	for (i = 1; i < REUSES; i++)
		r.others[i] = -1;
	bss->held_ino = new_memfd(&fd);
	ASSERT_NE(0, bss->held_ino);
	bss->other_ino = new_memfd(&r.others[0]);
	ASSERT_NE(0, bss->other_ino);
	ASSERT_NE(bss->held_ino, bss->other_ino);
	ASSERT_EQ(map, mmap(map, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
	close(fd);
	/* Where the file is, and mm_lock_seq. */
	bss->hold_at = 0;
	syscall(SYS_getppid);
	ASSERT_EQ(bss->held_ino, bss->taken_ino);

	pthread_barrier_init(&r.on_its_cpu, NULL, 2);
	bss->waiting = false;
	bss->replaced = false;
	bss->replaced_first = false;
	bss->is_other_file = false;
	ASSERT_EQ(0, pthread_create(&thread, NULL, replace_held, &r));
	pthread_barrier_wait(&r.on_its_cpu);
	bss->accesses = 0;
	bss->hold_at = hold_at;
	syscall(SYS_getppid);
	WRITE_ONCE(r.done, true);
	pthread_join(thread, NULL);
	ASSERT_EQ(0, r.err);
	for (i = 0; i < REUSES; i++) {
		EXPECT_GT(FD_LIMIT, r.others[i]);
		close(r.others[i]);
	}
	if (!bss->waiting)
		return false;
	EXPECT_TRUE(bss->replaced_first)
		TH_LOG("the other thread was not done in time, at access %d", hold_at);
	EXPECT_NE(bss->other_ino, bss->taken_ino)
		TH_LOG("a file that was never mapped was taken, at access %d", hold_at);
	return true;
}

/*
 * Syscall entry, interrupts on: during a step of a walk, the file that is mapped is replaced
 * and freed, and its memory becomes another file's. The walk must not take that one.
 */
TEST_F(query, reused_file)
{
	struct task_vma__bss *bss = self->skel->bss;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_RW,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.sample_period = 1,
	};
	int event, fd, at, reused = 0;
	struct bpf_link *link;
	char *map;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	/* While threads share it, the table of open files only grows after a grace period. */
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FD_LIMIT);
	ASSERT_LE(0, fd);
	close(fd);
	load_query(_metadata, self->skel, self->skel->progs.walk_watched,
		   self->skel->progs.on_mm_lock_seq);
	/* Between others, so that no page table is freed. */
	map = mmap(NULL, 3 * PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	map += PAGE_SIZE;
	bss->query_addr = (uintptr_t)map;
	syscall(SYS_getppid);
	ASSERT_EQ(1, bss->seen.runs);
	attr.bp_addr = bss->held_seq;
	event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0 && errno == ENOENT)
		SKIP(return, "needs CONFIG_HAVE_HW_BREAKPOINT");
	ASSERT_LE(0, event)
		TH_LOG("breakpoint: %s", strerror(errno));
	link = bpf_program__attach_perf_event(self->skel->progs.on_mm_lock_seq, event);
	ASSERT_NE(NULL, link);
	for (at = 1; at < 100 && walk_and_replace(_metadata, self->skel, map, at); at++)
		reused += bss->is_other_file;
	bpf_link__destroy(link);
	munmap(map - PAGE_SIZE, 3 * PAGE_SIZE);

	/* Before the fields are read, after, and when there is a reference. */
	EXPECT_LT(3, at);
	EXPECT_LE(2, reused);
	TH_LOG("%d accesses; at %d, the file became another one", at - 1, reused);
}

struct changer {
	struct task_vma *skel;
	char *map;
	int err;
	bool stop;
	pthread_barrier_t on_its_cpu;
};

/* On CPU 1: changes mappings once per request of the program. */
static void *change_when_asked(void *arg)
{
	struct changer *c = arg;
	struct task_vma__bss *bss = c->skel->bss;
	int prot = PROT_NONE;

	c->err = pin_to_cpu(1);
	pthread_barrier_wait(&c->on_its_cpu);
	while (!c->err && !READ_ONCE(c->stop)) {
		if (!READ_ONCE(bss->change))
			continue;
		WRITE_ONCE(bss->change, false);
		/* As in replace_held(): nothing may wait for the other CPU. */
		prot ^= PROT_READ;
		if (mmap(c->map, PAGE_SIZE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != c->map)
			c->err = -errno;
		WRITE_ONCE(bss->changed, true);
	}
	return NULL;
}

/*
 * Syscall entry: while a lookup reads mappings, another thread changes one each time. The
 * lookup is tried again a few times, and then ends. Interrupts are off in the walk.
 */
TEST_F(query, tries)
{
	static const char * const names[] = {
		[TRY_WALK] = "walk", [TRY_QUERY] = "query", [TRY_STACK] = "stack",
	};
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_RW,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.sample_period = 1,
	};
	struct task_vma__bss *bss = self->skel->bss;
	struct changer c = { .skel = self->skel };
	struct bpf_link *link;
	pthread_t thread;
	int event, i;
	char *map;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	load_query(_metadata, self->skel, self->skel->progs.try_lookup,
		   self->skel->progs.change_at_access);
	/* Between others, so that no page table is freed. */
	map = mmap(NULL, 3 * PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	c.map = map + PAGE_SIZE;
	bss->query_addr = (uintptr_t)&read_maps;
	bss->max_changes = 0;
	syscall(SYS_getppid);
	ASSERT_EQ(1, bss->seen.runs);
	attr.bp_addr = bss->held_seq;
	event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0 && errno == ENOENT)
		SKIP(return, "needs CONFIG_HAVE_HW_BREAKPOINT");
	ASSERT_LE(0, event)
		TH_LOG("breakpoint: %s", strerror(errno));
	link = bpf_program__attach_perf_event(self->skel->progs.change_at_access, event);
	ASSERT_NE(NULL, link);
	pthread_barrier_init(&c.on_its_cpu, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_when_asked, &c));
	pthread_barrier_wait(&c.on_its_cpu);
	for (i = 0; i < WAYS_TO_TRY; i++) {
		bss->how_to_try = i;
		bss->changes = 0;
		bss->late_changes = 0;
		bss->max_changes = MAX_CHANGES;
		syscall(SYS_getppid);
		EXPECT_EQ(0, bss->late_changes)
			TH_LOG("%s: the other thread took ten seconds", names[i]);
		/* Twice at least, with two accesses each: before and after the fields are read. */
		EXPECT_LE(4, bss->changes)
			TH_LOG("%s: it was not tried again", names[i]);
		EXPECT_GT(MAX_CHANGES, bss->changes)
			TH_LOG("%s: it went on until nothing changed", names[i]);
		if (i != TRY_STACK)
			EXPECT_EQ(-EAGAIN, bss->try_err);
	}
	WRITE_ONCE(c.stop, true);
	pthread_join(thread, NULL);
	bpf_link__destroy(link);
	EXPECT_EQ(0, c.err);
	EXPECT_EQ(1 + WAYS_TO_TRY, bss->seen.runs);
	EXPECT_EQ(1 + WAYS_TO_TRY, bss->seen.in_context);
	munmap(map, 3 * PAGE_SIZE);
}

/*
 * LSM hook within mmap(), interrupts on, and off: the task itself holds mmap_lock for
 * writing, but no VMA lock.
 */
TEST_F(query, within_mmap)
{
	struct seen *seen = &self->skel->bss->seen;
	void *p;
	int n;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	self->skel->bss->query_addr = (uintptr_t)&read_maps;
	load_query(_metadata, self->skel, self->skel->progs.in_mmap, NULL);
	n = read_maps();
	p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	task_vma__detach(self->skel);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(1, seen->runs);
	EXPECT_EQ(1, seen->in_context);
	EXPECT_EQ(0, seen->query_err);
	EXPECT_EQ(1, seen->queries);
	EXPECT_EQ(n, seen->nr_records);
	EXPECT_EQ(0, seen->find_vma_err);
	EXPECT_EQ(0, seen->walk_err);
	EXPECT_EQ(n, seen->nr_vmas);
	munmap(p, PAGE_SIZE);
}

/*
 * In mmap(), at addresses without a mapping: one of a user address may be about to appear, but
 * none of a kernel address. And VMAs are counted when they are freed, but not by munmap(), which
 * has downgraded mmap_lock by then.
 */
TEST_F(query, no_mapping_within_mmap)
{
	struct seen *seen = &self->skel->bss->seen;
	struct no_mapping *calls = self->skel->bss->no_mapping;
	const int flags = MAP_SHARED | MAP_ANONYMOUS;
	void *p;
	int i;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	p = mmap(NULL, 3 * PAGE_SIZE, PROT_NONE, flags, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, munmap(p + PAGE_SIZE, PAGE_SIZE));
	self->skel->bss->query_addr = (uintptr_t)p + PAGE_SIZE;
	load_query(_metadata, self->skel, self->skel->progs.in_mmap_no_mapping, NULL);
	/* The two others are freed by munmap(), and under the lock of mmap(). */
	ASSERT_EQ(p, mmap(p, PAGE_SIZE, PROT_READ, flags | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, munmap(p + 2 * PAGE_SIZE, PAGE_SIZE));
	ASSERT_EQ(p, mmap(p, PAGE_SIZE, PROT_NONE, flags | MAP_FIXED, -1, 0));
	ASSERT_EQ(p, mmap(p, PAGE_SIZE, PROT_READ, flags | MAP_FIXED, -1, 0));
	task_vma__detach(self->skel);
	munmap(p, PAGE_SIZE);
	ASSERT_EQ(NO_MAPPING_CALLS, seen->runs);
	EXPECT_EQ(NO_MAPPING_CALLS, seen->in_context);
	for (i = 0; i < NO_MAPPING_CALLS; i++) {
		EXPECT_EQ(-EAGAIN, calls[i].user_err);
		EXPECT_EQ(-ENOENT, calls[i].kernel_err);
		EXPECT_NE(0, calls[i].kernel_mm);
	}
	ASSERT_EQ(1, calls[0].frees_known);
	EXPECT_EQ(calls[0].frees + 1, calls[1].frees)
		TH_LOG("the VMA that mmap() replaced, and that of munmap()");
	EXPECT_EQ(calls[1].frees + 1, calls[2].frees)
		TH_LOG("the VMA that mmap() replaced");
}

/* Runs @what() in a sampled child; @killed: the signal that ends it, or 0. */
static void run_child(struct __test_metadata *_metadata, struct task_vma *skel,
		      void (*what)(struct task_vma *skel), int killed)
{
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_DUMPABLE, 0);
		what(skel);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(killed, status);
	task_vma__detach(skel);
	ASSERT_EQ(1, skel->bss->seen.runs);
	ASSERT_EQ(1, skel->bss->seen.in_context);
}

/* Walk and query loop reached the end, and saw as many VMAs. */
static void expect_vmas(struct __test_metadata *_metadata, const struct seen *seen, int at_least)
{
	EXPECT_EQ(0, seen->walk_err);
	EXPECT_EQ(0, seen->query_err);
	EXPECT_LE(at_least, seen->nr_vmas);
	EXPECT_EQ(seen->nr_vmas, seen->nr_records);
}

static void do_nothing(struct task_vma *skel)
{
}

static void do_exec(struct task_vma *skel)
{
	execl("tiny", "tiny", NULL);
	_exit(127);
}

/* The return address is unmapped, too. */
static void do_unmap_all(struct task_vma *skel)
{
	int n = read_maps();

	if (n > 0)
		munmap(NULL, maps[n - 1].end);
	_exit(1);
}

/*
 * fentry within fork(): the task itself holds mmap_lock for writing, and has locked the
 * mappings copied so far, but not the others.
 */
TEST_F(query, within_fork)
{
	struct seen *seen = &self->skel->bss->seen;

	ASSERT_LT(VMAS_COPIED + 5, read_maps());
	self->skel->bss->look_at_copy = VMAS_COPIED;
	load_query(_metadata, self->skel, self->skel->progs.in_fork, NULL);
	self->skel->bss->left_out_at = 1;
	run_child(_metadata, self->skel, do_nothing, 0);
	EXPECT_EQ(-EAGAIN, seen->walk_err);
	EXPECT_EQ(-EAGAIN, seen->query_err);
	EXPECT_EQ(0, seen->nr_records);
	EXPECT_EQ(-EAGAIN, self->skel->bss->for_each_err);
	/* Where the walk began: its first VMA is locked. */
	EXPECT_EQ(0, self->skel->bss->left_out_at);
}

/*
 * The same with interrupts off, where a step skips at most 64 mappings. These are of a file, to
 * which it takes no reference, and puts none.
 */
TEST_F(query, within_fork_irqs_off)
{
	struct seen *seen = &self->skel->bss->seen;
	char *low = (char *)0x10000000;
	int i, n, fd;

	fd = memfd_create("locked", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	/* Below all others, which are copied later. */
	ASSERT_EQ(low, mmap(low, 100 * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
			    fd, 0));
	close(fd);
	for (i = 1; i < 100; i += 2)
		ASSERT_EQ(0, mprotect(low + i * PAGE_SIZE, PAGE_SIZE, PROT_NONE));
	load_query(_metadata, self->skel, self->skel->progs.in_fork_irqs_off, NULL);
	n = read_maps();
	self->skel->bss->look_at_copy = VMAS_COPIED;
	run_child(_metadata, self->skel, do_nothing, 0);
	EXPECT_EQ(n - VMAS_COPIED, seen->nr_vmas);
	EXPECT_EQ(-EAGAIN, seen->walk_err);

	ASSERT_EQ(0, task_vma__attach(self->skel));
	memset(seen, 0, sizeof(*seen));
	self->skel->bss->vmas_copied = 0;
	self->skel->bss->look_at_copy = 65;
	run_child(_metadata, self->skel, do_nothing, 0);
	EXPECT_EQ(0, seen->nr_vmas);
	EXPECT_EQ(-EAGAIN, seen->walk_err);
	/* Its last step copied a mapping of the file, and was refused. */
	ASSERT_TRUE(self->skel->bss->is_file_locked);
	EXPECT_EQ(0, self->skel->bss->file_refs_put);

	/* The same number if interrupts were on in bpf_iter_task_vma_new(). */
	self->skel->bss->irqs_off_later = true;
	for (i = 64; i <= 65; i++) {
		ASSERT_EQ(0, task_vma__attach(self->skel));
		memset(seen, 0, sizeof(*seen));
		self->skel->bss->vmas_copied = 0;
		self->skel->bss->look_at_copy = i;
		run_child(_metadata, self->skel, do_nothing, 0);
		EXPECT_EQ(i == 64, seen->nr_vmas);
		EXPECT_EQ(-EAGAIN, seen->walk_err);
	}
	munmap(low, 100 * PAGE_SIZE);
}

/* LSM hook within exec(): the old mappings are removed, and there is a new stack. */
TEST_F(query, within_exec)
{
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	self->skel->bss->parent = getpid();
	load_query(_metadata, self->skel, self->skel->progs.in_exec, NULL);
	run_child(_metadata, self->skel, do_exec, 0);
	expect_vmas(_metadata, &self->skel->bss->seen, 1);
	EXPECT_EQ(1, self->skel->bss->seen.nr_vmas);
}

/* Tracepoint within exit(): all mappings still exist. */
TEST_F(query, within_exit)
{
	self->skel->bss->parent = getpid();
	load_query(_metadata, self->skel, self->skel->progs.exiting, NULL);
	run_child(_metadata, self->skel, do_nothing, 0);
	expect_vmas(_metadata, &self->skel->bss->seen, 20);
}

static void *exit_thread(void *arg)
{
	struct task_vma *skel = arg;

	WRITE_ONCE(skel->bss->target, gettid());
	syscall(SYS_exit, 0);
	return NULL;
}

static void do_exit_thread(struct task_vma *skel)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, exit_thread, skel))
		_exit(1);
	while (!READ_ONCE(skel->bss->seen.runs))
		sched_yield();
	_exit(0);
}

/* fentry later within exit() of a thread: it has dropped its mm, which others still use. */
TEST_F(query, without_mm)
{
	struct seen *seen = &self->skel->bss->seen;

	self->skel->bss->parent = getpid();
	load_query(_metadata, self->skel, self->skel->progs.without_mm, NULL);
	run_child(_metadata, self->skel, do_exit_thread, 0);
	EXPECT_EQ(-ENOENT, seen->walk_err);
	/* -ENOENT too, at the first address. */
	EXPECT_EQ(0, seen->query_err);
	EXPECT_EQ(0, seen->nr_records);
}

/* The same as within_exit, with an mm without mappings. */
TEST_F(query, empty_mm)
{
	if (mprotect((void *)getauxval(AT_SYSINFO_EHDR), PAGE_SIZE, PROT_READ | PROT_EXEC))
		SKIP(return, "the vDSO is sealed: CONFIG_MSEAL_SYSTEM_MAPPINGS");
	self->skel->bss->parent = getpid();
	load_query(_metadata, self->skel, self->skel->progs.exiting, NULL);
	run_child(_metadata, self->skel, do_unmap_all, SIGSEGV);
	expect_vmas(_metadata, &self->skel->bss->seen, 0);
	EXPECT_EQ(0, self->skel->bss->seen.nr_vmas);
}

/* LSM hook in an io_uring worker, which uses the mm of the submitting task. */
TEST_F(query, io_worker)
{
	struct seen *seen = &self->skel->bss->seen;
	int fd;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	load_query(_metadata, self->skel, self->skel->progs.io_worker, NULL);
	fd = uring_open("/proc/self/maps");
	task_vma__detach(self->skel);
	if (fd == -ENOSYS || fd == -EPERM)
		SKIP(return, "needs CONFIG_IO_URING, and kernel.io_uring_disabled=0");
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(1, seen->runs);
	ASSERT_EQ(1, seen->in_context);
	expect_vmas(_metadata, seen, 20);
}

/* Syscall entry of a child that shares the mm of its parent: the same token. */
TEST_F(query, shared_mm)
{
	struct seen *seen = &self->skel->bss->seen;
	uint64_t token;
	int status;
	pid_t pid;

	load_query(_metadata, self->skel, self->skel->progs.syscall_entry, NULL);
	syscall(SYS_getppid);
	expect_vmas(_metadata, seen, 20);
	token = self->skel->bss->records[0].mm;
	EXPECT_NE(0, token);
	self->skel->bss->records[0].mm = 0;
	pid = vfork();
	if (!pid) {
		self->skel->bss->target = syscall(SYS_gettid);
		syscall(SYS_getppid);
		_exit(0);
	}
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(2, seen->runs);
	expect_vmas(_metadata, seen, 20);
	EXPECT_EQ(token, self->skel->bss->records[0].mm);
}

/* A thread that outlives its group leader, which is then a zombie without an mm. */
static void *outlive(void *arg)
{
	struct task_vma *skel = arg;
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", getpid());
	while (state != 'Z') {
		f = fopen(path, "r");
		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			_exit(1);
		fclose(f);
	}
	skel->bss->other_pid = getpid();
	skel->bss->target = gettid();
	syscall(SYS_getppid);
	_exit(0);
}

static void do_outlive(struct task_vma *skel)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, outlive, skel))
		_exit(1);
	pthread_exit(NULL);
}

/* Syscall entry of that thread. */
TEST_F(query, zombie_leader)
{
	struct seen *seen = &self->skel->bss->seen;

	load_query(_metadata, self->skel, self->skel->progs.syscall_entry, NULL);
	run_child(_metadata, self->skel, do_outlive, 0);
	expect_vmas(_metadata, seen, 20);
}

/* The same thread walks the zombie. */
TEST_F(query, zombie)
{
	load_query(_metadata, self->skel, self->skel->progs.other_task, NULL);
	self->skel->bss->seen.in_context = 1;
	run_child(_metadata, self->skel, do_outlive, 0);
	EXPECT_EQ(-ENOENT, self->skel->bss->other_err[0]);
	EXPECT_EQ(0, self->skel->bss->other_vmas);
	EXPECT_EQ(-EBUSY, self->skel->bss->other_err[1]);
}

/* --- storms --------------------------------------------------------------------------- */

#define STORM_QUERIES 10000000
#define STORM_SECONDS 3
#define STORM_TIMEOUT 900
/* All queries are answered by then. */
#define STORM_MAX_SECONDS ((STORM_TIMEOUT - 60) * timeout_scale())

/* Far from where the kernel places mappings without an address. */
#define ARENA ((char *)(1UL << 40))

static char *storm_arena;
static int storm_files[FILES];
static bool storm_stop;
static unsigned long storm_changes;
/* For the writer: a fixed seed makes the same changes each time. */
static struct fuzz storm_fuzz = { .x = 1 };

static off_t offset_in(int file, const char *at)
{
	return file * ARENA_SIZE + (at - storm_arena) % ARENA_SIZE;
}

/* Not PROT_READ alone: the mapping would merge with a sentinel. */
static int random_prot(void)
{
	static const int prots[] = { PROT_NONE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC };

	return prots[fuzz_pick(&storm_fuzz, ARRAY_LEN(prots))];
}

/* Changes some pages of a slot: maps, unmaps, splits, merges, moves to the other arena. */
static int change_slot(void)
{
	unsigned int slot = fuzz_pick(&storm_fuzz, SLOTS);
	unsigned int from = fuzz_pick(&storm_fuzz, WORK_PAGES);
	unsigned int pages = 1 + fuzz_pick(&storm_fuzz, WORK_PAGES - from);
	unsigned int half = fuzz_pick(&storm_fuzz, ARENAS), file = fuzz_pick(&storm_fuzz, FILES);
	char *p = storm_arena + half * ARENA_SIZE + slot * SLOT_SIZE + from * PAGE_SIZE;
	char *other = storm_arena + !half * ARENA_SIZE + slot * SLOT_SIZE + from * PAGE_SIZE;
	void *ret;

	switch (fuzz_pick(&storm_fuzz, 8)) {
	case 0:
		return munmap(p, pages * PAGE_SIZE);
	case 1 ... 3:
		ret = mmap(p, pages * PAGE_SIZE, random_prot(), MAP_PRIVATE | MAP_FIXED,
			   storm_files[file], offset_in(file, p));
		return ret == MAP_FAILED;
	case 4 ... 6:
		/* Fails where a part is not mapped. */
		return mprotect(p, pages * PAGE_SIZE, random_prot()) && errno != ENOMEM;
	default:
		ret = mremap(p, PAGE_SIZE, PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, other);
		return ret == MAP_FAILED && errno != EFAULT;
	}
}

static void *storm_writer(void *arg)
{
	bool *failed = arg;
	int pause;

	if (pin_to_cpu(1)) {
		*failed = true;
		return NULL;
	}
	while (!READ_ONCE(storm_stop)) {
		if (change_slot())
			*failed = true;
		WRITE_ONCE(storm_changes, storm_changes + 1);
		/* So that readers run at any point, and not always within a change. */
		for (pause = fuzz_pick(&storm_fuzz, 32768); pause; pause--)
			barrier();
	}
	return NULL;
}

FIXTURE(storm)
{
	struct task_vma *skel;
	pthread_t writer;
	bool failed;
};

FIXTURE_SETUP(storm)
{
	struct stat st;
	char *p;
	int i;

	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	storm_arena = ARENA;
	for (i = 0; i < FILES; i++) {
		storm_files[i] = memfd_create("storm", MFD_CLOEXEC);
		ASSERT_LE(0, storm_files[i]);
		ASSERT_EQ(0, fstat(storm_files[i], &st));
		self->skel->bss->inodes[i] = st.st_ino;
		self->skel->bss->dev_major = major(st.st_dev);
		self->skel->bss->dev_minor = minor(st.st_dev);
	}
	for (p = storm_arena; p < storm_arena + ARENAS * ARENA_SIZE; p += SLOT_SIZE)
		ASSERT_EQ(p + WORK_PAGES * PAGE_SIZE,
			  mmap(p + WORK_PAGES * PAGE_SIZE, PAGE_SIZE, PROT_READ,
			       MAP_PRIVATE | MAP_FIXED_NOREPLACE, storm_files[0],
			       offset_in(0, p + WORK_PAGES * PAGE_SIZE)));
	self->skel->bss->arena = (uintptr_t)storm_arena;
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
}

FIXTURE_TEARDOWN(storm)
{
	task_vma__destroy(self->skel);
}

static void start_storm(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&self->writer, NULL, storm_writer, &self->failed));
	while (READ_ONCE(storm_changes) < 100)
		sched_yield();
}

static void end_storm(struct __test_metadata *_metadata, FIXTURE_DATA(storm) *self)
{
	struct storm *s = &self->skel->bss->storm;
	struct record *r = &s->first_wrong;

	WRITE_ONCE(storm_stop, true);
	pthread_join(self->writer, NULL);
	EXPECT_FALSE(self->failed);
	EXPECT_EQ(0, s->wrong)
		TH_LOG("line %u, asked at %#llx: %#llx-%#llx, offset %#llx, ino %llu, flags %x",
		       s->why, s->first_wrong_asked_at, r->start, r->end, r->offset, r->ino,
		       r->flags);
}

/* Syscall entry, in task context; the writer runs on another CPU. */
TEST_F_TIMEOUT(storm, queries, STORM_TIMEOUT)
{
	struct storm *s = &self->skel->bss->storm;
	unsigned long queries = STORM_QUERIES;
	int seconds = storm_seconds(0);
	double end;

	bpf_program__set_autoload(self->skel->progs.storm_query, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, task_vma__attach(self->skel));
	start_storm(_metadata, self);
	/* KASAN and KCSAN, which call these for each access, and lockdep. */
	if (has_symbol("__asan_load8") || has_symbol("__tsan_read8") || has_symbol("lock_acquire"))
		queries /= 100;
	end = now() + (seconds ?: STORM_MAX_SECONDS);
	/* Fewer of any kind are not a storm, and end with a time-out. */
	while (!s->wrong && ((now() < end && (s->asked - s->again < queries || seconds)) ||
			     s->passes <= 100 || s->points <= 1000 || s->unmapped <= 1000 ||
			     READ_ONCE(storm_changes) <= 1000))
		syscall(SYS_getppid);
	end_storm(_metadata, self);

	if (!seconds)
		EXPECT_LE(queries, s->asked - s->again);
	TH_LOG("%llu answers, %llu times EAGAIN, %llu passes, %lu changes", s->asked - s->again,
	       s->again, s->passes, storm_changes);
	TH_LOG("of single addresses: %llu records, %llu without one", s->points, s->unmapped);
}

/* Syscall entry, interrupts off; the writer runs on another CPU. */
TEST_F_TIMEOUT(storm, walks, STORM_TIMEOUT)
{
	struct storm *s = &self->skel->bss->storm;
	double end;

	bpf_program__set_autoload(self->skel->progs.storm_walk, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, task_vma__attach(self->skel));
	start_storm(_metadata, self);
	end = now() + storm_seconds(STORM_SECONDS);
	/* Fewer of any kind are not a storm, and end with a time-out. */
	while (!s->wrong &&
	       (now() < end || s->walks <= 100 || s->walks_ended <= 10 || s->refused <= 10))
		syscall(SYS_getppid);
	end_storm(_metadata, self);

	TH_LOG("%llu walks, %llu of them to the end, %llu stopped before, %llu VMAs, %lu changes",
	       s->walks, s->walks_ended, s->refused, s->vmas, storm_changes);
}

/* --- files that are replaced ----------------------------------------------------------- */

FIXTURE(files)
{
	struct task_vma *skel;
	pthread_t writer;
	bool failed;
	char dir[200];
};

FIXTURE_VARIANT(files)
{
	enum own_fs fs;
};

FIXTURE_VARIANT_ADD(files, ext4) { FS_NONE };
FIXTURE_VARIANT_ADD(files, overlay) { FS_OVERLAY };

/* Fewer are not a storm, however long they take. */
#define FILES_AT_LEAST 200

static const char *files_dir;
static bool files_have_generation;
static dev_t files_dev;
static unsigned int last_generation[1 << 16];
static unsigned long files_reused;

/* Maps a new file in a slot, which frees the file that was mapped there. */
static int change_file(unsigned int slot)
{
	unsigned int generation = 0, *last;
	struct stat st;
	char path[256];
	void *p;
	int fd;

	snprintf(path, sizeof(path), "%s/%lu", files_dir, storm_changes);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlink(path);
	if (fstat(fd, &st) ||
	    (files_have_generation && ioctl(fd, FS_IOC_GETVERSION, &generation))) {
		close(fd);
		return -errno;
	}
	files_dev = st.st_dev;
	last = &last_generation[st.st_ino & 0xffff];
	files_reused += *last && *last != generation;
	*last = generation;
	p = mmap(ARENA + slot * PAGE_SIZE, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd,
		 IDENTITY(st.st_ino, generation) * PAGE_SIZE);
	close(fd);
	return p == MAP_FAILED ? -errno : 0;
}

static void *files_writer(void *arg)
{
	bool *failed = arg;

	if (pin_to_cpu(1))
		*failed = true;
	while (!READ_ONCE(storm_stop) && !*failed) {
		if (change_file(fuzz_pick(&storm_fuzz, FILE_SLOTS)))
			*failed = true;
		WRITE_ONCE(storm_changes, storm_changes + 1);
	}
	return NULL;
}

FIXTURE_SETUP(files)
{
	unsigned int i;
	int err, fd;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	ASSERT_EQ(0, scratch_dir(self->dir, sizeof(self->dir)));
	err = fs_mount(variant->fs, self->dir);
	if (err) {
		fs_unmount(variant->fs, self->dir);
		rmdir(self->dir);
		if (err == -EOPNOTSUPP)
			SKIP(return, "%s", fs_needs(variant->fs));
		ASSERT_EQ(0, err);
	}
	files_dir = self->dir;
	fd = open(self->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	files_have_generation = fs_is(fd, "ext4");
	close(fd);
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	self->skel->bss->arena = (uintptr_t)ARENA;
	self->skel->bss->has_generation = files_have_generation;
	for (i = 0; i < FILE_SLOTS; i++, storm_changes++)
		ASSERT_EQ(0, change_file(i));
	self->skel->bss->dev_major = major(files_dev);
	self->skel->bss->dev_minor = minor(files_dev);
}

FIXTURE_TEARDOWN(files)
{
	task_vma__destroy(self->skel);
	munmap(ARENA, FILE_SLOTS * PAGE_SIZE);
	EXPECT_EQ(0, fs_unmount(variant->fs, self->dir));
	rmdir(self->dir);
}

/* Syscall entry, in task context; the writer runs on another CPU. */
static void run_files_storm(struct __test_metadata *_metadata, FIXTURE_DATA(files) *self,
			    struct bpf_program *prog)
{
	struct storm *s = &self->skel->bss->storm;
	struct record *r = &s->first_wrong;
	double end;

	bpf_program__set_autoload(prog, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, task_vma__attach(self->skel));
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&self->writer, NULL, files_writer, &self->failed));
	end = now() + storm_seconds(2 * STORM_SECONDS);
	while ((now() < end || READ_ONCE(storm_changes) < FILES_AT_LEAST) &&
	       !READ_ONCE(self->failed))
		syscall(SYS_getppid);
	WRITE_ONCE(storm_stop, true);
	pthread_join(self->writer, NULL);
	EXPECT_FALSE(self->failed);
	EXPECT_EQ(0, s->wrong)
		TH_LOG("line %u, asked at %#llx: %#llx, offset %#llx, %u:%u ino %llu, gen %u",
		       s->why, s->first_wrong_asked_at, r->start, r->offset, r->dev_major,
		       r->dev_minor, r->ino, r->generation);
	/* Otherwise nothing was tested. */
	EXPECT_LT(1000, s->points);
	if (files_have_generation)
		EXPECT_LT(100, files_reused);
	TH_LOG("%llu records, %llu times EAGAIN, %lu files, %lu with an inode number used again",
	       s->points, s->again, storm_changes, files_reused);
}

/* Syscall entry: the identity that a query reports. */
TEST_F(files, storm)
{
	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	run_files_storm(_metadata, self, self->skel->progs.storm_files);
}

/* Syscall entry, interrupts on: the file that a walk holds. */
TEST_F(files, walk)
{
	run_files_storm(_metadata, self, self->skel->progs.storm_files_walk);
}

/* Shared by this process, one that replaces its files, and its children. */
struct replacer {
	pid_t child;
	bool stop;
	unsigned long files, reused;	/* as storm_changes and files_reused */
	unsigned long forks, execs, exits;
};

static void replace_file(struct replacer *r)
{
	files_reused = 0;
	if (change_file(fuzz_pick(&storm_fuzz, FILE_SLOTS)))
		_exit(1);
	/* The parent waits for its child: nobody else creates a file of the next name. */
	storm_changes++;
	r->reused += files_reused;
	WRITE_ONCE(r->files, r->files + 1);
}

/* Replaces files, and forks a child that does the same, and then executes or exits. */
static void replace_and_fork(struct replacer *r)
{
	int i, status;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(1))
		_exit(1);
	while (!READ_ONCE(r->stop)) {
		for (i = 0; i < 8; i++)
			replace_file(r);
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			WRITE_ONCE(r->child, getpid());
			for (i = 0; i < 8; i++)
				replace_file(r);
			if (r->forks % 2)
				_exit(0);
			execl("tiny", "tiny", NULL);
			_exit(1);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			_exit(1);
		if (r->forks % 2)
			WRITE_ONCE(r->exits, r->exits + 1);
		else
			WRITE_ONCE(r->execs, r->execs + 1);
		WRITE_ONCE(r->forks, r->forks + 1);
	}
	_exit(0);
}

/* Syscall entry, interrupts on: walks over that process and its children, on another CPU. */
TEST_F(files, foreign)
{
	struct task_vma__bss *bss = self->skel->bss;
	struct storm *s = &bss->storm;
	struct foreign *f = &bss->foreign;
	struct record *r = &s->first_wrong;
	struct replacer *shared;
	unsigned long turn = 0;
	int status;
	double end;
	pid_t pid;

	shared = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	load_query(_metadata, self->skel, self->skel->progs.storm_files_foreign, NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		replace_and_fork(shared);
	end = now() + storm_seconds(2 * STORM_SECONDS);
	while (now() < end || READ_ONCE(shared->files) < FILES_AT_LEAST ||
	       READ_ONCE(shared->exits) < 5) {
		bss->other_pid = turn++ % 2 ? READ_ONCE(shared->child) : pid;
		syscall(SYS_getppid);
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	}
	WRITE_ONCE(shared->stop, true);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	EXPECT_EQ(0, s->wrong)
		TH_LOG("line %u: %#llx, offset %#llx, ino %llu, gen %u", s->why, r->start,
		       r->offset, r->ino, r->generation);
	EXPECT_EQ(0, f->wrong);
	EXPECT_EQ(0, f->missing)
		TH_LOG("%llu walks left out a file without an error", f->missing);
	EXPECT_EQ(0, f->err);
	/* Otherwise nothing was tested. */
	EXPECT_LT(1000, s->points);
	EXPECT_LT(10, f->complete);
	EXPECT_LT(0, f->left_out);
	EXPECT_LT(0, f->no_task + f->no_mm);
	EXPECT_LT(0, shared->execs);
	if (files_have_generation)
		EXPECT_LT(50, shared->reused);
	TH_LOG("%llu records, %lu files, %lu with an inode number used again, %lu execs, %lu exits",
	       s->points, shared->files, shared->reused, shared->execs, shared->exits);
	TH_LOG("%llu walks, %llu complete, %llu left something out, %llu busy, %llu without mm",
	       f->walks, f->complete, f->left_out, f->busy, f->no_mm + f->no_task);
}

/* --- fuzzing -------------------------------------------------------------------------- */

#define FUZZ_FILE_SIZE (2 * FUZZ_PAGES * PAGE_SIZE)

FIXTURE(fuzz)
{
	struct task_vma *skel;
	struct bpf_link *link;
	struct fuzz fuzz;
	pthread_t nmis;
	char dir[200], path[FUZZ_FILES][256];
	int files[FUZZ_FILES];
};

FIXTURE_SETUP(fuzz)
{
	unsigned char id[BUILD_ID_SIZE] = {};
	struct stat st;
	int i;

	for (i = 0; i < FUZZ_FILES; i++)
		self->files[i] = -1;
	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	if (access("/proc/sysrq-trigger", F_OK))
		SKIP(return, "needs CONFIG_MAGIC_SYSRQ");
	if (pin_to_cpu(1))
		SKIP(return, "needs CPUs 0 and 1");
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	bpf_program__set_autoload(self->skel->progs.fuzz_nmi, true);
	bpf_program__set_autoload(self->skel->progs.fuzz_interrupt, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, scratch_dir(self->dir, sizeof(self->dir)));
	for (i = 0; i < FUZZ_FILES; i++) {
		int fd;

		snprintf(self->path[i], sizeof(self->path[i]), "%s/%d", self->dir, i);
		fd = open(self->path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0700);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, write_elf(fd, id, 256));
		ASSERT_EQ(0, ftruncate(fd, FUZZ_FILE_SIZE));
		ASSERT_EQ(0, fstat(fd, &st));
		self->skel->bss->fuzz_inodes[i] = st.st_ino;
		close(fd);
		self->files[i] = open(self->path[i], O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, self->files[i]);
	}
	self->skel->bss->arena = (uintptr_t)ARENA;
	self->skel->bss->target = gettid();
	fuzz_begin(&self->fuzz);
}

FIXTURE_TEARDOWN(fuzz)
{
	int i;

	bpf_link__destroy(self->link);
	task_vma__destroy(self->skel);
	for (i = 0; i < FUZZ_FILES; i++) {
		close(self->files[i]);
		unlink(self->path[i]);
	}
	rmdir(self->dir);
}

static void *send_nmis(void *arg)
{
	bool *failed = arg;

	*failed = pin_to_cpu(0);
	while (!READ_ONCE(storm_stop) && !*failed) {
		*failed = nmi_to_other_cpus();
		usleep(1000);
	}
	return NULL;
}

static unsigned int flags_of(int prot, bool shared)
{
	return (prot & PROT_READ ? PROCMAP_QUERY_VMA_READABLE : 0) |
	       (prot & PROT_WRITE ? PROCMAP_QUERY_VMA_WRITABLE : 0) |
	       (prot & PROT_EXEC ? PROCMAP_QUERY_VMA_EXECUTABLE : 0) |
	       (shared ? PROCMAP_QUERY_VMA_SHARED : 0);
}

/* Makes one system call and updates the model. Returns 0, or the line that failed. */
static int fuzz_step(FIXTURE_DATA(fuzz) *self)
{
	struct fuzz_page *pages = self->skel->bss->fuzz_pages, *p;
	struct fuzz *f = &self->fuzz;
	unsigned int i, from = fuzz_pick(f, FUZZ_PAGES), file = fuzz_pick(f, FUZZ_FILES + 1);
	unsigned int nr = 1 + fuzz_pick(f, FUZZ_PAGES - from > 8 ? 8 : FUZZ_PAGES - from);
	unsigned int prot = fuzz_pick(f, 8), first = fuzz_pick(f, FUZZ_PAGES), to;
	unsigned char id[BUILD_ID_SIZE] = {};
	char *at = ARENA + from * PAGE_SIZE;
	bool shared;
	int fd;

	p = &pages[from];
	switch (fuzz_pick(f, 10)) {
	case 0:
		if (munmap(at, nr * PAGE_SIZE))
			return __LINE__;
		for (i = 0; i < nr; i++)
			p[i].mapped = 0;
		return 0;
	case 1 ... 3:
		shared = fuzz_pick(f, 2);
		/* The files are opened read-only. */
		if (shared && file < FUZZ_FILES)
			prot &= ~PROT_WRITE;
		if (mmap(at, nr * PAGE_SIZE, prot, MAP_FIXED | MAP_NORESERVE |
			 (shared ? MAP_SHARED : MAP_PRIVATE) |
			 (file < FUZZ_FILES ? 0 : MAP_ANONYMOUS),
			 file < FUZZ_FILES ? self->files[file] : -1,
			 file < FUZZ_FILES ? first * PAGE_SIZE : 0) == MAP_FAILED)
			return __LINE__;
		/* Shared anonymous memory has a file, whose identity is unknown. */
		if (shared && file == FUZZ_FILES)
			return munmap(at, nr * PAGE_SIZE) ? __LINE__ :
			       (memset(p, 0, nr * sizeof(*p)), 0);
		for (i = 0; i < nr; i++)
			p[i] = (struct fuzz_page){
				.mapped = 1,
				.file = file,
				.offset = (first + i) * PAGE_SIZE,
				.flags = flags_of(prot, shared),
			};
		return 0;
	case 4 ... 6:
		for (i = 0; i < nr; i++)
			if (!p[i].mapped || p[i].flags & PROCMAP_QUERY_VMA_SHARED)
				return 0;
		if (mprotect(at, nr * PAGE_SIZE, prot))
			return __LINE__;
		for (i = 0; i < nr; i++)
			p[i].flags = flags_of(prot, false);
		return 0;
	case 7:
		to = fuzz_pick(f, FUZZ_PAGES);
		if (!p->mapped || to == from)
			return 0;
		if (mremap(at, PAGE_SIZE, PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   ARENA + to * PAGE_SIZE) == MAP_FAILED)
			return __LINE__;
		pages[to] = *p;
		p->mapped = 0;
		return 0;
	case 8:
		/* New contents, with a new build ID. */
		if (file == FUZZ_FILES)
			return 0;
		self->skel->bss->fuzz_contents[file] += 1 + fuzz_pick(f, 1000);
		memcpy(id, &self->skel->bss->fuzz_contents[file], sizeof(uint32_t));
		fd = open(self->path[file], O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write_note(fd, 0, id, 256))
			return __LINE__;
		close(fd);
		return 0;
	default:
		if (p->mapped)
			madvise(at, PAGE_SIZE, fuzz_pick(f, 2) ? MADV_PAGEOUT : MADV_WILLNEED);
		return 0;
	}
}

static bool fuzz_saw_all(const struct fuzz_seen *seen)
{
	return READ_ONCE(seen->nmis) && READ_ONCE(seen->interrupts) &&
	       READ_ONCE(seen->changing) && READ_ONCE(seen->build_ids) &&
	       READ_ONCE(seen->walks);
}

/*
 * NMIs and hard interrupts on top of a task that maps, unmaps, protects, moves and
 * overwrites at random. Except during such a change, they must see the expected mappings.
 */
TEST_F_TIMEOUT(fuzz, mappings, FUZZ_TIMEOUT)
{
	struct fuzz_seen *seen = &self->skel->bss->fuzz;
	bool failed = false;
	double end;
	int event, line = 0, err = 0, i;

	WRITE_ONCE(self->skel->bss->fuzz_changing, 1);
	event = cpu_clock_event(1, 100 * 1000);
	ASSERT_LE(0, event);
	self->link = bpf_program__attach_perf_event(self->skel->progs.fuzz_interrupt, event);
	ASSERT_NE(NULL, self->link);
	self->skel->links.fuzz_nmi = bpf_program__attach(self->skel->progs.fuzz_nmi);
	ASSERT_NE(NULL, self->skel->links.fuzz_nmi);
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&self->nmis, NULL, send_nmis, &failed));
	/* On a slow machine, some seconds pass without an NMI or a build ID. */
	end = now() + FUZZ_PATIENCE;
	while ((fuzz_goes_on(&self->fuzz) || (now() < end && !fuzz_saw_all(seen))) && !line &&
	       !READ_ONCE(seen->wrong)) {
		line = fuzz_step(self);
		err = errno;
		/* An interrupt on this CPU sees all writes up to here. */
		barrier();
		WRITE_ONCE(self->skel->bss->fuzz_changing, 0);
		/* Time to be interrupted. */
		for (i = fuzz_pick(&self->fuzz, 20000); i; i--)
			barrier();
		WRITE_ONCE(self->skel->bss->fuzz_changing, 1);
		barrier();
	}
	WRITE_ONCE(storm_stop, true);
	pthread_join(self->nmis, NULL);
	TH_LOG("FUZZ_SEED=%u: %lu changes, compared in %llu NMIs and %llu interrupts",
	       self->fuzz.seed, self->fuzz.rounds, seen->nmis, seen->interrupts);
	TH_LOG("%llu NMIs and interrupts during a change", seen->changing);
	TH_LOG("%llu queries, %llu build IDs, %llu walks", seen->queries, seen->build_ids,
	       seen->walks);
	EXPECT_FALSE(failed);
	EXPECT_EQ(0, line)
		TH_LOG("a system call failed in line %d: %s", line, strerror(err));
	EXPECT_EQ(0, seen->wrong)
		TH_LOG("line %u: page %llu, err %lld, %#llx-%#llx, at %#llx, ino %llu, flags %x",
		       seen->why, seen->page % FUZZ_PAGES, seen->err, seen->record.start,
		       seen->record.end, seen->record.offset, seen->record.ino, seen->record.flags);
	EXPECT_LT(0, seen->nmis);
	EXPECT_LT(0, seen->interrupts);
	EXPECT_LT(0, seen->changing);
	EXPECT_LT(0, seen->build_ids);
	EXPECT_LT(0, seen->walks);
}

/* --- splitting --------------------------------------------------------------------- */

FIXTURE(split)
{
	struct task_vma *skel;
	pthread_t writer;
	bool failed;
};

FIXTURE_SETUP(split)
{
	int i;

	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	bpf_program__set_autoload(self->skel->progs.split_walk, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	storm_arena = mmap(ARENA, SPLITS * SPLIT_SIZE + PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_EQ(ARENA, storm_arena);
	for (i = 0; i < SPLITS; i++)
		ASSERT_EQ(0, mprotect(storm_arena + i * SPLIT_SIZE + 2 * PAGE_SIZE, PAGE_SIZE,
				      PROT_READ));
	/* A walk that reaches the next page has seen all. */
	ASSERT_EQ(0, mprotect(storm_arena + SPLITS * SPLIT_SIZE, PAGE_SIZE, PROT_EXEC));
	self->skel->bss->arena = (uintptr_t)storm_arena;
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
}

FIXTURE_TEARDOWN(split)
{
	task_vma__destroy(self->skel);
}

static void *split_writer(void *arg)
{
	bool *failed = arg;
	int i, prot = PROT_NONE;

	if (pin_to_cpu(1))
		*failed = true;
	while (!READ_ONCE(storm_stop) && !*failed) {
		for (i = 0; i < SPLITS; i++)
			if (mprotect(storm_arena + i * SPLIT_SIZE + PAGE_SIZE, PAGE_SIZE, prot))
				*failed = true;
		prot ^= PROT_READ | PROT_WRITE;
		WRITE_ONCE(storm_changes, storm_changes + SPLITS);
	}
	return NULL;
}

/*
 * Syscall entry, interrupts on; the writer runs on another CPU. If the
 * iterator reports an error, the walk is repeated.
 */
TEST_F(split, iterator)
{
	struct split_storm *s = &self->skel->bss->splits;
	double end;

	ASSERT_EQ(0, task_vma__attach(self->skel));
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&self->writer, NULL, split_writer, &self->failed));
	end = now() + 3;
	/* A slow machine takes longer for the numbers below. */
	while (now() < end || ((s->walks <= 100 || READ_ONCE(storm_changes) <= 1000) &&
			       !self->failed && now() < end + 10 * timeout_scale()))
		syscall(SYS_getppid);
	WRITE_ONCE(storm_stop, true);
	pthread_join(self->writer, NULL);

	EXPECT_FALSE(self->failed);
	EXPECT_LT(100, s->walks);
	EXPECT_LT(1000, storm_changes);
	EXPECT_EQ(0, s->dropped)
		TH_LOG("%llu mappings were left out of %llu walks", s->dropped, s->walks);
	EXPECT_EQ(0, s->sentinels_missing);
	EXPECT_EQ(0, s->sentinels_twice);
	TH_LOG("%llu walks, %llu given up, %llu times taken up again, %lu changes", s->walks,
	       s->given_up, s->errors, storm_changes);
}

/* --- the end of a walk -------------------------------------------------------------- */

FIXTURE(end)
{
	struct task_vma *skel;
	pthread_t writer;
	void *above;
	bool ready;
};

FIXTURE_SETUP(end)
{
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->data->wait_scale = timeout_scale();
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	bpf_program__set_autoload(self->skel->progs.walk_past_end, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
}

FIXTURE_TEARDOWN(end)
{
	task_vma__destroy(self->skel);
}

/* Maps a page above all others once the walk has reached its end. */
static void *map_above(void *arg)
{
	FIXTURE_DATA(end) *self = arg;
	int n = pin_to_cpu(1);
	char *top;

	/* From now on the program may occupy CPU 0. */
	WRITE_ONCE(self->ready, true);
	while (!READ_ONCE(self->skel->bss->at_end))
		barrier();
	n = n ?: read_maps();
	if (n > 0) {
		top = (char *)(uintptr_t)maps[n - 1].end;
		self->above = mmap(top + PAGE_SIZE, PAGE_SIZE, PROT_READ, MAP_PRIVATE |
				   MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	WRITE_ONCE(self->skel->bss->mapped, true);
	return NULL;
}

/*
 * Syscall entry, interrupts on. NULL must follow NULL, even if memory is mapped meanwhile: a
 * program that the verifier accepts could otherwise add a pointer to an address.
 */
TEST_F(end, stays)
{
	int n = read_maps(), fd;
	char *last;

	ASSERT_LT(0, n);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	/* The last mapping is one of a file. */
	last = (char *)(uintptr_t)maps[n - 1].end + PAGE_SIZE;
	ASSERT_EQ(last, mmap(last, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
			     0));
	close(fd);
	ASSERT_EQ(0, task_vma__attach(self->skel));
	self->above = MAP_FAILED;
	ASSERT_EQ(0, pthread_create(&self->writer, NULL, map_above, self));
	while (!READ_ONCE(self->ready))
		sched_yield();
	syscall(SYS_getppid);
	pthread_join(self->writer, NULL);
	ASSERT_NE(MAP_FAILED, self->above);
	ASSERT_TRUE(self->skel->bss->mapped_in_time);
	EXPECT_EQ(0, self->skel->bss->seen.walk_err);
	EXPECT_LT(10, self->skel->bss->seen.nr_vmas);
	EXPECT_EQ(0, self->skel->bss->after_end)
		TH_LOG("bpf_iter_task_vma_next() returned a VMA after it had returned NULL");
	if (has_symbol("bpf_iter_task_vma_has_file"))
		EXPECT_TRUE(self->skel->bss->last_has_file);
	EXPECT_FALSE(self->skel->bss->has_file_at_end)
		TH_LOG("bpf_iter_task_vma_has_file() returned true at the end");
	munmap(last, PAGE_SIZE);
}

/* --- other tasks ------------------------------------------------------------------- */

static int count_maps(pid_t pid)
{
	char path[64];
	int c, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

/* A task that waits to be killed. */
static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

/* Syscall entry: the mm of another task is held, which needs interrupts on. */
TEST(other_task)
{
	struct task_vma *skel = task_vma__open();
	int lines;
	pid_t pid;

	ASSERT_NE(NULL, skel);
	skel->bss->target = gettid();
	skel->bss->sample_nr = SYS_getppid;
	load_query(_metadata, skel, skel->progs.other_task, NULL);
	pid = start_sleeper();
	ASSERT_LT(0, pid);
	skel->bss->other_pid = pid;
	syscall(SYS_getppid);
	EXPECT_EQ(1, skel->bss->seen.runs);
	EXPECT_EQ(0, skel->bss->other_err[0]);
	/* /proc/PID/maps also has [vsyscall], which is not a mapping. */
	EXPECT_LT(10, skel->bss->other_vmas);
	lines = count_maps(pid);
	EXPECT_TRUE(lines == (int)skel->bss->other_vmas || lines - 1 == (int)skel->bss->other_vmas)
		TH_LOG("%d lines in maps, %u VMAs", lines, skel->bss->other_vmas);
	EXPECT_EQ(-EBUSY, skel->bss->other_err[1]);
	EXPECT_FALSE(skel->bss->refused_has_file);
	EXPECT_EQ(0, skel->bss->refused_addr);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);

	/* kthreadd */
	skel->bss->other_pid = 2;
	syscall(SYS_getppid);
	EXPECT_EQ(2, skel->bss->seen.runs);
	EXPECT_EQ(-ENOENT, skel->bss->other_err[0]);
	EXPECT_EQ(0, skel->bss->other_vmas);
	EXPECT_EQ(0, skel->bss->other_refs)
		TH_LOG("a walk that failed has kept a reference to the task");
	task_vma__destroy(skel);
}

/* State of the walked task, in memory shared with the walking task. */
struct walked {
	pid_t mapper, executer;
	unsigned long forks;
};

/*
 * Maps, and forks a child that executes another program and exits, in a loop. The child
 * has a copy of the sentinel until it has another mm.
 */
static void map_and_fork(struct walked *w)
{
	int i, status;
	pid_t pid;
	void *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(1))
		_exit(1);
	for (;;) {
		for (i = 0; i < 20; i++) {
			p = mmap(NULL, 3 * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
			mprotect(p + PAGE_SIZE, PAGE_SIZE, PROT_NONE);
			munmap(p, 3 * PAGE_SIZE);
		}
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			WRITE_ONCE(w->executer, getpid());
			execl("tiny", "tiny", NULL);
			_exit(1);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			_exit(1);
		WRITE_ONCE(w->forks, w->forks + 1);
	}
}

/*
 * Syscall entry, on a different CPU than the walked task. First the forking task, then
 * its children, which exec and exit.
 */
TEST(foreign)
{
	struct task_vma *skel = task_vma__open();
	struct foreign forks, execs;
	struct walked *w;
	unsigned long n;
	void *sentinel;
	int status;
	pid_t pid;

	ASSERT_NE(NULL, skel);
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	sentinel = mmap((void *)SENTINEL, PAGE_SIZE, PROT_READ,
			MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_EQ((void *)SENTINEL, sentinel);
	w = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, w);
	skel->bss->target = gettid();
	skel->bss->sample_nr = SYS_getppid;
	load_query(_metadata, skel, skel->progs.foreign_task, NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		map_and_fork(w);

	skel->bss->other_pid = pid;
	for (n = READ_ONCE(w->forks) + 10; READ_ONCE(w->forks) < n;) {
		syscall(SYS_getppid);
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	}
	forks = skel->bss->foreign;
	memset(&skel->bss->foreign, 0, sizeof(skel->bss->foreign));
	for (n = READ_ONCE(w->forks) + 10; READ_ONCE(w->forks) < n;) {
		skel->bss->other_pid = READ_ONCE(w->executer);
		syscall(SYS_getppid);
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
	}
	execs = skel->bss->foreign;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);

	EXPECT_LT(10, forks.complete);
	EXPECT_EQ(0, forks.wrong);
	EXPECT_EQ(0, forks.missing);
	EXPECT_EQ(0, forks.twice);
	EXPECT_EQ(0, forks.no_mm + forks.no_task);
	EXPECT_EQ(0, forks.err);
	EXPECT_LT(10, execs.walks);
	EXPECT_EQ(0, execs.wrong);
	/* There is no sentinel after exec(). */
	EXPECT_LT(0, execs.missing);
	EXPECT_EQ(0, execs.twice);
	/* One child has exited, and the next does not exist yet. */
	EXPECT_LT(0, execs.no_mm + execs.no_task);
	EXPECT_EQ(0, execs.err);
	TH_LOG("forking: %llu walks, %llu complete, %llu left something out, %llu busy",
	       forks.walks, forks.complete, forks.left_out, forks.busy);
	TH_LOG("executing: %llu walks, %llu complete, %llu left something out, %llu busy, %llu without mm",
	       execs.walks, execs.complete, execs.left_out, execs.busy,
	       execs.no_mm + execs.no_task);
	task_vma__destroy(skel);
}

/* LSM hook within prlimit(), which holds the task's alloc_lock: only current needs none. */
TEST(alloc_lock)
{
	struct task_vma *skel = task_vma__open();
	struct rlimit limit;
	pid_t pid;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	ASSERT_NE(NULL, skel);
	ASSERT_EQ(0, getrlimit(RLIMIT_CORE, &limit));
	skel->bss->target = gettid();
	skel->bss->other_err[0] = 1;
	skel->bss->other_err[1] = 1;
	load_query(_metadata, skel, skel->progs.alloc_lock, NULL);
	pid = start_sleeper();
	ASSERT_LT(0, pid);
	skel->bss->other_pid = pid;
	ASSERT_EQ(0, prlimit(pid, RLIMIT_CORE, &limit, NULL));
	EXPECT_EQ(1, skel->bss->seen.runs);
	EXPECT_EQ(-EBUSY, skel->bss->other_err[0]);
	EXPECT_EQ(0, skel->bss->other_vmas);
	ASSERT_EQ(0, setrlimit(RLIMIT_CORE, &limit));
	EXPECT_EQ(2, skel->bss->seen.runs);
	EXPECT_EQ(0, skel->bss->other_err[1]);
	EXPECT_LT(10, skel->bss->other_vmas);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	task_vma__destroy(skel);
}

/* Interrupts off: no memory for the state of a walk. */
TEST_F(query, no_memory)
{
	struct seen *seen = &self->skel->bss->seen;

	load_query(_metadata, self->skel, self->skel->progs.no_memory, NULL);
	syscall(SYS_getppid);
	ASSERT_EQ(1, seen->runs);
	EXPECT_LT(0, seen->nr_records);
	EXPECT_EQ(-ENOMEM, seen->walk_err);
	EXPECT_EQ(0, seen->nr_vmas);
	EXPECT_EQ(-ENOMEM, seen->query_err);
}

/* A kernel without CONFIG_PER_VMA_LOCK: walks with interrupts on only. */
TEST(no_vma_lock)
{
	struct task_vma *skel;

	if (has_symbol("lock_vma_under_rcu"))
		SKIP(return, "for kernels without CONFIG_PER_VMA_LOCK");
	skel = task_vma__open();
	ASSERT_NE(NULL, skel);
	skel->bss->target = gettid();
	skel->bss->sample_nr = SYS_getppid;
	load_query(_metadata, skel, skel->progs.both_ways, NULL);
	syscall(SYS_getppid);
	EXPECT_EQ(1, skel->bss->seen.runs);
	EXPECT_EQ(0, skel->bss->seen.walk_err);
	EXPECT_EQ(read_maps(), skel->bss->seen.nr_vmas);
	EXPECT_EQ(-EOPNOTSUPP, skel->bss->other_err[1]);
	EXPECT_FALSE(has_query());
	task_vma__destroy(skel);
}

/*
 * fentry within fork(), interrupts on: the walk sees all mappings that are not copied yet,
 * even on kernels that silently skip mappings they can't lock. Without CONFIG_PER_VMA_LOCK,
 * it sees none: fork() holds mmap_lock.
 */
TEST(forking)
{
	struct task_vma *skel = task_vma__open();
	int n = read_maps();

	ASSERT_NE(NULL, skel);
	skel->bss->target = gettid();
	skel->bss->look_at_copy = VMAS_COPIED;
	ASSERT_LT(VMAS_COPIED + 5, n);
	load_query(_metadata, skel, skel->progs.in_fork, NULL);
	/* Count again: loading added mappings. */
	n = read_maps();
	run_child(_metadata, skel, do_nothing, 0);
	if (has_symbol("lock_vma_under_rcu")) {
		EXPECT_EQ(n - VMAS_COPIED, skel->bss->seen.nr_vmas);
	} else {
		EXPECT_EQ(0, skel->bss->seen.nr_vmas);
		EXPECT_EQ(-EAGAIN, skel->bss->seen.walk_err);
	}
	task_vma__destroy(skel);
}

/* Syscall entry: a program that leaves a walk early does not keep a file reference. */
TEST(left_walk)
{
	struct task_vma *skel = task_vma__open();
	char dir[200], path[256];
	double end;
	int fd, err;
	void *p;

	ASSERT_NE(NULL, skel);
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	err = fs_mount(FS_TMPFS, dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_TMPFS));
	ASSERT_EQ(0, err);
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE_SIZE));
	p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	close(fd);
	skel->bss->target = gettid();
	skel->bss->sample_nr = SYS_getppid;
	skel->bss->query_addr = (uintptr_t)p;
	load_query(_metadata, skel, skel->progs.leave_walk, NULL);
	syscall(SYS_getppid);
	EXPECT_EQ(1, skel->bss->seen.runs);
	EXPECT_EQ(1, skel->bss->seen.nr_files);
	munmap(p, PAGE_SIZE);
	/* The last reference may be put by a worker. */
	end = now() + 10 * timeout_scale();
	do {
		err = fs_unmount(FS_TMPFS, dir);
	} while (err == -EBUSY && now() < end);
	EXPECT_EQ(0, err)
		TH_LOG("the file system is in use");
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	task_vma__destroy(skel);
}

/* --- the writer -------------------------------------------------------------------- */

#define WRITER_SAMPLES 5000

FIXTURE(writer)
{
	struct task_vma *skel;
	struct bpf_link *link;
	struct spinner spinner;
};

FIXTURE_SETUP(writer)
{
	self->spinner.tid = -1;
	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	if (is_preempt_rt())
		SKIP(return, "PREEMPT_RT: no bpf_find_vma() in an interrupt to compare with");
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	bpf_program__set_autoload(self->skel->progs.sample_4khz, true);
	bpf_program__set_autoload(self->skel->progs.contention, true);
	bpf_program__set_autoload(self->skel->progs.nmi_on_writer, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
}

FIXTURE_TEARDOWN(writer)
{
	if (self->spinner.tid > 0)
		spinner_stop(&self->spinner);
	bpf_link__destroy(self->link);
	task_vma__destroy(self->skel);
}

/* Maps and unmaps until there are @samples; returns the number of waits. */
static unsigned long map_and_unmap(struct task_vma *skel, unsigned long samples)
{
	unsigned int i;
	void *p;

	/* A sample of the previous kind may hold the lock until the next one starts. */
	skel->bss->samples = 0;
	while (READ_ONCE(skel->bss->samples) < 2)
		barrier();
	skel->bss->samples = 0;
	skel->bss->answered = 0;
	skel->bss->contentions = 0;
	while (READ_ONCE(skel->bss->samples) < samples)
		for (i = 0; i < 100; i++) {
			p = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			munmap(p, PAGE_SIZE);
		}
	return READ_ONCE(skel->bss->contentions);
}

/*
 * Hard interrupt, 4 kHz, on top of a thread that maps nothing, while this one maps and
 * unmaps: only the program can make this one wait.
 */
TEST_F(writer, contention)
{
	unsigned long find_vma, query, walk;
	int event;

	if (pin_to_cpu(0) || spinner_start(&self->spinner, 1))
		SKIP(return, "needs CPUs 0 and 1");
	self->skel->bss->target = self->spinner.tid;
	self->skel->bss->query_addr = (uintptr_t)&read_maps;
	event = cpu_clock_event(1, 250 * 1000);
	ASSERT_LE(0, event);
	self->link = bpf_program__attach_perf_event(self->skel->progs.sample_4khz, event);
	ASSERT_NE(NULL, self->link);
	self->skel->links.contention = bpf_program__attach(self->skel->progs.contention);
	ASSERT_NE(NULL, self->skel->links.contention);

	self->skel->bss->with_find_vma = true;
	find_vma = map_and_unmap(self->skel, WRITER_SAMPLES);
	TH_LOG("bpf_find_vma(): %llu of %llu samples answered, the writer waited %lu times",
	       self->skel->bss->answered, self->skel->bss->samples, find_vma);
	/* Otherwise the next number is meaningless. */
	EXPECT_LT(0, find_vma);

	self->skel->bss->with_find_vma = false;
	self->skel->bss->with_walk = true;
	walk = map_and_unmap(self->skel, WRITER_SAMPLES);
	TH_LOG("bpf_iter_task_vma_next(): %llu of %llu samples answered, the writer waited %lu times",
	       self->skel->bss->answered, self->skel->bss->samples, walk);
	EXPECT_EQ(0, walk);
	EXPECT_LE(self->skel->bss->samples * 95, self->skel->bss->answered * 100);

	self->skel->bss->with_walk = false;
	query = map_and_unmap(self->skel, WRITER_SAMPLES);
	TH_LOG("bpf_task_vma_query(): %llu of %llu samples answered, the writer waited %lu times",
	       self->skel->bss->answered, self->skel->bss->samples, query);
	EXPECT_EQ(0, query);
	EXPECT_LE(self->skel->bss->samples * 95, self->skel->bss->answered * 100);
	EXPECT_EQ(0, self->skel->bss->sampled_err);
}

static void change_mappings(void)
{
	void *p;

	p = mmap(NULL, 3 * PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(p + PAGE_SIZE, PAGE_SIZE, PROT_NONE);
	munmap(p, 3 * PAGE_SIZE);
	sbrk(PAGE_SIZE);
	sbrk(-PAGE_SIZE);
}

/*
 * Hard interrupt, 4 kHz, on top of a thread that maps, protects and unmaps other mappings
 * than the one looked up, and moves the end of the heap: all lookups succeed.
 */
TEST_F(writer, own)
{
	struct task_vma__bss *bss = self->skel->bss;
	int event, i, walk;

	ASSERT_EQ(0, pin_to_cpu(1));
	bss->target = gettid();
	bss->query_addr = (uintptr_t)&read_maps;
	event = cpu_clock_event(1, 250 * 1000);
	ASSERT_LE(0, event);
	self->link = bpf_program__attach_perf_event(self->skel->progs.sample_4khz, event);
	ASSERT_NE(NULL, self->link);
	for (walk = 0; walk < 2; walk++) {
		WRITE_ONCE(bss->with_walk, walk);
		WRITE_ONCE(bss->answered, 0);
		/* A sample between these two is answered, but not counted. */
		WRITE_ONCE(bss->samples, 0);
		while (READ_ONCE(bss->samples) < WRITER_SAMPLES)
			for (i = 0; i < 100; i++)
				change_mappings();
		TH_LOG("%s: %llu of %llu samples answered",
		       walk ? "bpf_iter_task_vma_next()" : "bpf_task_vma_query()",
		       bss->answered, bss->samples);
		EXPECT_LE(bss->samples, bss->answered);
	}
	EXPECT_EQ(0, bss->sampled_err);
}

static void change_until_stopped(struct spinner *s)
{
	while (!READ_ONCE(s->stop)) {
		change_mappings();
		WRITE_ONCE(s->rounds, s->rounds + 1);
	}
}

/*
 * NMI on top of such a thread: all lookups succeed, by a query and by a walk, also while
 * the thread holds mmap_lock for writing.
 */
TEST_F(writer, nmi)
{
	struct task_vma__bss *bss = self->skel->bss;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	if (access("/proc/sysrq-trigger", F_OK))
		SKIP(return, "needs CONFIG_MAGIC_SYSRQ");
	bss->query_addr = (uintptr_t)&read_maps;
	self->link = bpf_program__attach(self->skel->progs.nmi_on_writer);
	ASSERT_NE(NULL, self->link);
	/* The thread moves the end of the heap: no malloc() here while it runs. */
	if (pin_to_cpu(0) || spinner_start_in(&self->spinner, 1, change_until_stopped))
		SKIP(return, "needs CPUs 0 and 1");
	WRITE_ONCE(bss->target, self->spinner.tid);
	ASSERT_EQ(0, nmi_until(&self->spinner, &bss->in_writer, SAMPLES));
	spinner_stop(&self->spinner);
	self->spinner.tid = -1;

	TH_LOG("%llu of %llu NMIs answered, %llu of them under a writer", bss->answered,
	       bss->samples, bss->in_writer);
	EXPECT_LE(SAMPLES, bss->in_writer);
	EXPECT_EQ(bss->samples, bss->answered)
		TH_LOG("the last failed with %s", strerrorname_np(-bss->sampled_err));
}

/* --- exit -------------------------------------------------------------------------- */

#define CHILDREN 20
#define RANDOM_US 2000

FIXTURE(exit)
{
	struct task_vma *skel;
	char *map;
	unsigned long sampled, before[METHODS], proc;
};

FIXTURE_SETUP(exit)
{
	struct stat st;
	int fd;

	if (!has_query())
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &st));
	self->map = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, self->map);
	close(fd);
	self->skel = task_vma__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->bss->parent = getpid();
	self->skel->bss->exit_ino = st.st_ino;
	self->skel->bss->query_addr = (uintptr_t)self->map;
	bpf_program__set_autoload(self->skel->progs.exit_sample, true);
	bpf_program__set_autoload(self->skel->progs.process_exit, true);
	ASSERT_EQ(0, task_vma__load(self->skel));
	ASSERT_EQ(0, task_vma__attach(self->skel));
}

FIXTURE_TEARDOWN(exit)
{
	task_vma__destroy(self->skel);
}

/* Does /proc still list the child's mapping? */
static bool proc_knows(pid_t pid, const void *map, unsigned long ino)
{
	unsigned long start, end, found;
	char path[64], line[512];
	bool knows = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %*x %*x:%*x %lu", &start, &end, &found) == 3 &&
		    start == (uintptr_t)map && found == ino)
			knows = true;
	if (f)
		fclose(f);
	return knows;
}

/*
 * Samples CHILDREN children at the entry of system call @nr. That is the one with which the
 * mapping ends, and so the last moment at which a sample can need it; except for getppid(),
 * after which a child continues for up to RANDOM_US.
 */
static void sample_children(struct __test_metadata *_metadata, FIXTURE_DATA(exit) *self,
			    const char *what, int nr)
{
	unsigned long i, proc = 0, had[METHODS];
	struct task_vma__bss *bss = self->skel->bss;
	unsigned long samples = bss->exit_samples;
	int status, m;
	pid_t pid;

	for (m = 0; m < METHODS; m++)
		had[m] = bss->attributed[m];
	bss->sample_nr = nr;
	for (i = 0; i < CHILDREN; i++) {
		unsigned long seen = READ_ONCE(bss->exit_samples);
		double until, rest = random() % RANDOM_US * 1e-6;

		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (nr == SYS_getppid) {
				syscall(SYS_getppid);
				for (until = now() + rest; now() < until; )
					;
			}
			if (nr == SYS_munmap)
				munmap(self->map, PAGE_SIZE);
			if (nr == SYS_execve)
				execl("tiny", "tiny", NULL);
			syscall(SYS_exit_group, 0);
		}
		/* A profiler reads its ring buffer, and then /proc. */
		while (READ_ONCE(bss->exit_samples) == seen)
			sched_yield();
		proc += proc_knows(pid, self->map, bss->exit_ino);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	ASSERT_EQ(CHILDREN, bss->exit_samples - samples);
	EXPECT_EQ(CHILDREN, bss->attributed[AT_SAMPLE] - had[AT_SAMPLE]);
	TH_LOG("%-10s  /proc %3lu %%  task_work %3llu %%  process_exit %3llu %%  query %3llu %%",
	       what, proc * 100 / CHILDREN,
	       (bss->attributed[TASK_WORK] - had[TASK_WORK]) * 100 / CHILDREN,
	       (bss->attributed[PROCESS_EXIT] - had[PROCESS_EXIT]) * 100 / CHILDREN,
	       (bss->attributed[AT_SAMPLE] - had[AT_SAMPLE]) * 100 / CHILDREN);
}

/* Syscall entry, task_work and sched_process_exit of short-lived processes. */
TEST_F(exit, race)
{
	sample_children(_metadata, self, "exit_group", SYS_exit_group);
	sample_children(_metadata, self, "munmap", SYS_munmap);
	sample_children(_metadata, self, "execve", SYS_execve);
	sample_children(_metadata, self, "random", SYS_getppid);
}

TEST_HARNESS_MAIN
