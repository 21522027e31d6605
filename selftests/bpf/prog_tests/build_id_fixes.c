// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <test_progs.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "build_id_fixes.skel.h"

struct note {
	Elf64_Nhdr nhdr;
	char name[4];
	unsigned char id[BPF_BUILD_ID_SIZE];
};

struct elf_file {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	struct note note;
};

/* The fields that the kernel reads. The second program header is unused. */
static const struct elf_file elf_file = {
	.ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 },
		.e_type = ET_DYN,
		.e_phoff = offsetof(struct elf_file, phdr),
		.e_phnum = 2,
	},
	.phdr[0] = {
		.p_type = PT_NOTE,
		.p_offset = offsetof(struct elf_file, note),
		.p_filesz = sizeof(struct note),
	},
	.note = {
		.nhdr = {
			.n_namesz = 4,
			.n_descsz = BPF_BUILD_ID_SIZE,
			.n_type = NT_GNU_BUILD_ID,
		},
		.name = "GNU",
		.id = "build ID of a note.",
	},
};

static long page_sz;

/* Create a file of @size bytes that starts with @elf. */
static int create_elf(const struct elf_file *elf, off_t size)
{
	int fd;

	fd = memfd_create("build_id_fixes", MFD_CLOEXEC);
	if (!ASSERT_OK_FD(fd, "memfd_create"))
		return -1;
	if (!ASSERT_EQ(pwrite(fd, elf, sizeof(*elf), 0), sizeof(*elf), "write_elf") ||
	    !ASSERT_OK(ftruncate(fd, size), "ftruncate")) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Map the first page. Without access rights, so that a jump to it faults. */
static void *map_header(int fd, void *addr)
{
	void *map;

	map = mmap(addr, page_sz, PROT_NONE, MAP_PRIVATE | (addr ? MAP_FIXED : 0), fd, 0);
	return ASSERT_NEQ(map, MAP_FAILED, "mmap_elf") ? map : NULL;
}

static struct build_id_fixes *attach_progs(const char *name, const char *second)
{
	struct build_id_fixes *skel;
	struct bpf_program *prog;

	skel = build_id_fixes__open();
	if (!ASSERT_OK_PTR(skel, "skel_open"))
		return NULL;
	prog = bpf_object__find_program_by_name(skel->obj, name);
	if (!ASSERT_OK_PTR(prog, "find_program"))
		goto err;
	bpf_program__set_autoload(prog, true);
	prog = second ? bpf_object__find_program_by_name(skel->obj, second) : prog;
	if (!ASSERT_OK_PTR(prog, "find_second_program"))
		goto err;
	bpf_program__set_autoload(prog, true);
	if (!ASSERT_OK(build_id_fixes__load(skel), "skel_load") ||
	    !ASSERT_OK(build_id_fixes__attach(skel), "skel_attach"))
		goto err;
	skel->bss->pid = getpid();
	return skel;
err:
	build_id_fixes__destroy(skel);
	return NULL;
}

static struct build_id_fixes *attach_prog(const char *name)
{
	return attach_progs(name, NULL);
}

static sigjmp_buf after_fault;

static void handle_fault(int sig)
{
	siglongjmp(after_fault, 1);
}

/* Take a stack whose top frame is @addr: a jump there faults. */
static bool sample_at(struct build_id_fixes *skel, void *addr)
{
	struct sigaction old, act = { .sa_handler = handle_fault };

	skel->bss->top_res = 0;
	memset(&skel->bss->top, 0, sizeof(skel->bss->top));
	if (!ASSERT_OK(sigaction(SIGSEGV, &act, &old), "sigaction"))
		return false;
	if (!sigsetjmp(after_fault, 1))
		((void (*)(void))addr)();
	sigaction(SIGSEGV, &old, NULL);
	return ASSERT_EQ(skel->bss->top_res, sizeof(skel->bss->top), "sample");
}

static void check_valid(const struct bpf_stack_build_id *frame, __u64 offset,
			const struct note *note)
{
	ASSERT_EQ(frame->status, BPF_STACK_BUILD_ID_VALID, "valid_status");
	ASSERT_EQ(frame->offset, offset, "valid_offset");
	ASSERT_MEMEQ(frame->build_id, note->id, sizeof(note->id), "valid_build_id");
}

static void subtest_gap_below_mapping(void)
{
	struct build_id_fixes *skel;
	void *gap, *map;
	int fd;

	fd = create_elf(&elf_file, page_sz);
	if (fd < 0)
		return;
	skel = attach_prog("sample_fault");
	if (!skel)
		goto close_fd;
	gap = mmap(NULL, 2 * page_sz, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ASSERT_NEQ(gap, MAP_FAILED, "mmap_gap"))
		goto destroy;
	map = map_header(fd, gap + page_sz);
	if (!map || !ASSERT_OK(munmap(gap, page_sz), "munmap_gap"))
		goto unmap;

	if (sample_at(skel, map - 16)) {
		ASSERT_EQ(skel->bss->top.status, BPF_STACK_BUILD_ID_IP, "gap_status");
		ASSERT_EQ(skel->bss->top.ip, (uintptr_t)map - 16, "gap_ip");
	}
	if (sample_at(skel, map + 16))
		check_valid(&skel->bss->top, 16, &elf_file.note);
unmap:
	munmap(gap, 2 * page_sz);
destroy:
	build_id_fixes__destroy(skel);
close_fd:
	close(fd);
}

/*
 * A page of a memfd is not in the page cache before its first access. The parser can't
 * distinguish that from a page that was evicted.
 */
static void subtest_uncached_note(void)
{
	const off_t uncached = 1L << 30;	/* no large folio reaches that far */
	struct elf_file elf = elf_file;
	struct note first = elf_file.note;
	struct build_id_fixes *skel;
	void *map;
	int fd;

	elf.phdr[1] = elf.phdr[0];
	elf.phdr[0].p_offset = uncached;
	fd = create_elf(&elf, uncached + page_sz);
	if (fd < 0)
		return;
	map = map_header(fd, NULL);
	if (!map)
		goto close_fd;
	skel = attach_prog("sample_fault");
	if (!skel)
		goto unmap;

	if (sample_at(skel, map + 16))
		ASSERT_EQ(skel->bss->top.status, BPF_STACK_BUILD_ID_IP, "uncached_status");

	first.id[0]++;
	if (ASSERT_EQ(pwrite(fd, &first, sizeof(first), uncached), sizeof(first), "write_note") &&
	    sample_at(skel, map + 16))
		check_valid(&skel->bss->top, 16, &first);

	build_id_fixes__destroy(skel);
unmap:
	munmap(map, page_sz);
close_fd:
	close(fd);
}

/* Map @fd, and return the size of the build ID that PROCMAP_QUERY finds, or an error. */
static int query_build_id_size(int fd)
{
	unsigned char id[BPF_BUILD_ID_SIZE];
	struct procmap_query query = {
		.size = sizeof(query),
		.build_id_size = sizeof(id),
		.build_id_addr = (uintptr_t)id,
	};
	int maps_fd, err;
	void *map;

	map = map_header(fd, NULL);
	if (!map)
		return -EINVAL;
	query.query_addr = (uintptr_t)map;
	maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	err = ioctl(maps_fd, PROCMAP_QUERY, &query) ? -errno : 0;
	close(maps_fd);
	munmap(map, page_sz);
	return err ?: query.build_id_size;
}

static void subtest_block_device(void)
{
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int fd, control_fd, nr, loop_fd;
	char path[32], magic[SELFMAG];

	fd = create_elf(&elf_file, page_sz);
	if (fd < 0)
		return;
	ASSERT_EQ(query_build_id_size(fd), BPF_BUILD_ID_SIZE, "regular_file");

	control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control_fd < 0) {
		printf("%s:SKIP: no loop devices\n", __func__);
		test__skip();
		goto close_fd;
	}
	nr = ioctl(control_fd, LOOP_CTL_GET_FREE);
	close(control_fd);
	if (!ASSERT_GE(nr, 0, "loop_get_free"))
		goto close_fd;
	snprintf(path, sizeof(path), "/dev/loop%d", nr);
	loop_fd = open(path, O_RDWR | O_CLOEXEC);
	if (!ASSERT_OK_FD(loop_fd, "open_loop"))
		goto close_fd;
	config.fd = fd;
	if (ASSERT_OK(ioctl(loop_fd, LOOP_CONFIGURE, &config), "loop_configure") &&
	    ASSERT_EQ(pread(loop_fd, magic, SELFMAG, 0), SELFMAG, "read_magic") &&
	    ASSERT_MEMEQ(magic, ELFMAG, SELFMAG, "magic"))
		ASSERT_EQ(query_build_id_size(loop_fd), 0, "block_device");
	close(loop_fd);
close_fd:
	close(fd);
}

/* Put @cnt empty notes before the build ID, and return the size that is found. */
static int build_id_size_after_notes(int cnt)
{
	struct elf_file elf = elf_file;
	off_t off;
	int fd, size;

	memset(&elf.note, 0, sizeof(elf.note));
	elf.phdr[0].p_filesz += cnt * sizeof(Elf64_Nhdr);
	off = elf.phdr[0].p_offset + cnt * sizeof(Elf64_Nhdr);
	fd = create_elf(&elf, off + page_sz);
	if (fd < 0)
		return -EINVAL;
	if (ASSERT_EQ(pwrite(fd, &elf_file.note, sizeof(elf_file.note), off),
		      sizeof(elf_file.note), "write_note"))
		size = query_build_id_size(fd);
	else
		size = -EINVAL;
	close(fd);
	return size;
}

static void subtest_many_notes(void)
{
	ASSERT_EQ(build_id_size_after_notes(60), BPF_BUILD_ID_SIZE, "after_60_notes");
	ASSERT_EQ(build_id_size_after_notes(100000), 0, "after_100000_notes");
}

static void subtest_write_only_file(void)
{
	struct build_id_fixes *skel;
	int fd, write_fd;
	char path[32];

	fd = create_elf(&elf_file, page_sz);
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	skel = attach_prog("read_opened");
	if (!skel)
		goto close_fd;

	write_fd = open(path, O_WRONLY | O_CLOEXEC);
	skel->bss->pid = 0;
	if (!ASSERT_OK_FD(write_fd, "open_write_only"))
		goto destroy;
	close(write_fd);
	if (skel->bss->opened) {
		ASSERT_EQ(skel->bss->read_res, -EBADF, "dynptr_read");
	} else {
		printf("%s:SKIP: BPF is not among the active LSMs\n", __func__);
		test__skip();
	}
destroy:
	build_id_fixes__destroy(skel);
close_fd:
	close(fd);
}

static void ignore_signal(int sig)
{
}

/* The memory of the page is lost until the next boot. */
static void subtest_memory_error(void)
{
	struct sigaction old, act = { .sa_handler = ignore_signal };
	struct build_id_fixes *skel;
	void *map, *header;
	int fd, err;
	char c;

	fd = create_elf(&elf_file, page_sz);
	if (fd < 0)
		return;
	skel = attach_prog("sample_fault");
	if (!skel)
		goto close_fd;
	map = mmap(NULL, page_sz, PROT_READ, MAP_SHARED, fd, 0);
	header = map_header(fd, NULL);
	if (!ASSERT_NEQ(map, MAP_FAILED, "mmap") || !header)
		goto unmap;
	if (sample_at(skel, header + 16))
		check_valid(&skel->bss->top, 16, &elf_file.note);

	/* Also sends SIGBUS, because this task has mapped the page. */
	if (!ASSERT_OK(sigaction(SIGBUS, &act, &old), "sigaction"))
		goto unmap;
	err = madvise(map, page_sz, MADV_HWPOISON) ? errno : 0;
	sigaction(SIGBUS, &old, NULL);
	if (err == EINVAL) {
		printf("%s:SKIP: needs CONFIG_MEMORY_FAILURE\n", __func__);
		test__skip();
		goto unmap;
	}
	/* EBUSY: the page has failed, but something else uses it, too. */
	if (ASSERT_OK(err == EBUSY ? 0 : err, "hwpoison") &&
	    ASSERT_EQ(pread(fd, &c, 1, 0), -1, "read_failed_page") &&
	    sample_at(skel, header + 16))
		ASSERT_EQ(skel->bss->top.status, BPF_STACK_BUILD_ID_IP, "failed_page_status");
unmap:
	munmap(header, page_sz);
	munmap(map, page_sz);
	build_id_fixes__destroy(skel);
close_fd:
	close(fd);
}

struct truncation {
	struct build_id_fixes__bss *bss;
	pthread_barrier_t on_its_cpu;
	cpu_set_t cpus;
	int fd, err;
};

static void *truncate_held(void *arg)
{
	struct truncation *t = arg;

	t->err = sched_setaffinity(0, sizeof(t->cpus), &t->cpus);
	pthread_barrier_wait(&t->on_its_cpu);
	while (!READ_ONCE(t->bss->held_folio) && !READ_ONCE(t->bss->opened))
		;
	t->err = t->err ?: ftruncate(t->fd, 0);
	WRITE_ONCE(t->bss->truncated, true);
	return NULL;
}

/* The file is truncated while a program may hold a reference to its page. */
static void run_last_reference(struct build_id_fixes *skel, struct truncation *t, const char *path)
{
	pthread_t thread;
	int fd;

	/* Nor may a batch of this CPU hold one. Past the end, DONTNEED only drains them. */
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_OK(posix_fadvise(fd, 1L << 40, page_sz, POSIX_FADV_DONTNEED), "drain");
	close(fd);

	pthread_barrier_init(&t->on_its_cpu, NULL, 2);
	if (!ASSERT_OK(pthread_create(&thread, NULL, truncate_held, t), "pthread_create"))
		return;
	pthread_barrier_wait(&t->on_its_cpu);
	skel->bss->pid = getpid();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	skel->bss->pid = 0;
	WRITE_ONCE(skel->bss->opened, true);
	pthread_join(thread, NULL);
	close(fd);
	ASSERT_OK(t->err, "truncate");
	if (!skel->bss->held_folio) {
		printf("%s:SKIP: BPF is not among the active LSMs\n", __func__);
		test__skip();
		return;
	}
	ASSERT_OK(skel->bss->read_res, "dynptr_read");
	ASSERT_TRUE(skel->bss->truncated_first, "truncated_first");
	/* At most those of the page cache and the program */
	ASSERT_LE(skel->bss->held_refs, 2, "held_refs");
	ASSERT_EQ(skel->bss->last_puts, 0, "freed_with_interrupts_off");
}

static void subtest_last_reference(void)
{
	struct truncation t = {};
	struct build_id_fixes *skel;
	cpu_set_t old, this;
	char path[32];

	if (!ASSERT_OK(sched_getaffinity(0, sizeof(old), &old), "getaffinity"))
		return;
	CPU_ZERO(&this);
	CPU_SET(sched_getcpu(), &this);
	CPU_XOR(&t.cpus, &old, &this);
	if (!CPU_COUNT(&t.cpus)) {
		printf("%s:SKIP: needs two CPUs\n", __func__);
		test__skip();
		return;
	}
	skel = attach_progs("hold_irqs_off", "last_put");
	if (!skel)
		return;
	skel->bss->pid = 0;
	t.bss = skel->bss;
	if (!ASSERT_OK(sched_setaffinity(0, sizeof(this), &this), "setaffinity"))
		goto destroy;
	t.fd = create_elf(&elf_file, page_sz);
	if (t.fd >= 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", t.fd);
		run_last_reference(skel, &t, path);
		close(t.fd);
	}
	ASSERT_OK(sched_setaffinity(0, sizeof(old), &old), "restore_affinity");
destroy:
	build_id_fixes__destroy(skel);
}

/* A kernel that waits for the frozen folio hangs here. */
static void subtest_frozen_folio(void)
{
	struct build_id_fixes *skel;

	skel = attach_prog("sample_reclaim");
	if (!skel)
		return;

	/* uprobe_multi evicts a page of its own file: the one with its build ID */
	ASSERT_OK(system("./uprobe_multi uprobe-paged-out"), "page_out");
	if (skel->bss->stack_res) {
		ASSERT_GT(skel->bss->stack_res, 0, "stack");
	} else {
		printf("%s:SKIP: the page was not evicted\n", __func__);
		test__skip();
	}
	build_id_fixes__destroy(skel);
}

/*
 * Code in a memfd collapses the memfd, whose ELF header would be in a hole. A kernel that
 * waits for the retry entry in the hole hangs here.
 */
static void subtest_collapsed_file(void)
{
#ifdef __x86_64__
	/* mov $SYS_madvise,%eax; syscall; ret */
	static const unsigned char code[] = { 0xb8, SYS_madvise, 0, 0, 0, 0x0f, 0x05, 0xc3 };
	const size_t huge = 2 << 20;
	int (*call)(void *addr, size_t len, int advice);
	struct build_id_fixes *skel;
	struct stat st;
	void *area, *map;
	int fd;

	area = mmap(NULL, 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ASSERT_NEQ(area, MAP_FAILED, "mmap_area"))
		return;
	map = area + huge - (uintptr_t)area % huge;
	fd = memfd_create("holes", MFD_CLOEXEC);
	if (!ASSERT_OK_FD(fd, "memfd") || !ASSERT_OK(ftruncate(fd, huge), "ftruncate") ||
	    !ASSERT_EQ(pwrite(fd, code, sizeof(code), page_sz), sizeof(code), "pwrite") ||
	    !ASSERT_OK(fstat(fd, &st), "fstat") ||
	    !ASSERT_EQ(mmap(map, huge, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0), map,
		       "mmap"))
		goto close_fd;
	skel = attach_prog("sample_collapse");
	if (!skel)
		goto close_fd;
	skel->bss->collapsed_ino = st.st_ino;
	call = map + page_sz;
	if (call(map, huge, MADV_COLLAPSE)) {
		printf("%s:SKIP:no huge page\n", __func__);
		test__skip();
	} else if (ASSERT_GT(skel->bss->top_res, 0, "stack")) {
		ASSERT_EQ(skel->bss->top.status, BPF_STACK_BUILD_ID_IP, "status");
	}
	build_id_fixes__destroy(skel);
close_fd:
	close(fd);
	munmap(area, 2 * huge);
#else
	test__skip();
#endif
}

/* A backing file is not a file yet when it is allocated, and no longer when it is freed. */
static void subtest_backing_file(void)
{
	static const struct {
		const char *prog;
		int err;
	} loads[] = {
		{ "read_mapped_file", 0 },
		{ "read_new_file", -EINVAL },
		{ "read_freed_file", -EINVAL },
	};
	struct build_id_fixes *skel;
	struct bpf_program *prog;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		skel = build_id_fixes__open();
		if (!ASSERT_OK_PTR(skel, "skel_open"))
			return;
		prog = bpf_object__find_program_by_name(skel->obj, loads[i].prog);
		if (ASSERT_OK_PTR(prog, "find_program")) {
			bpf_program__set_autoload(prog, true);
			ASSERT_EQ(build_id_fixes__load(skel), loads[i].err, loads[i].prog);
		}
		build_id_fixes__destroy(skel);
	}
}

void serial_test_build_id_fixes(void)
{
	page_sz = sysconf(_SC_PAGESIZE);

	if (test__start_subtest("gap-below-mapping"))
		subtest_gap_below_mapping();
	if (test__start_subtest("uncached-note"))
		subtest_uncached_note();
	if (test__start_subtest("block-device"))
		subtest_block_device();
	if (test__start_subtest("many-notes"))
		subtest_many_notes();
	if (test__start_subtest("last-reference"))
		subtest_last_reference();
	if (test__start_subtest("memory-error"))
		subtest_memory_error();
	if (test__start_subtest("backing-file"))
		subtest_backing_file();
	/* Without the fixes, the last three may end in a panic or a hang. */
	if (test__start_subtest("write-only-file"))
		subtest_write_only_file();
	if (test__start_subtest("frozen-folio"))
		subtest_frozen_folio();
	if (test__start_subtest("collapsed-file"))
		subtest_collapsed_file();
}
