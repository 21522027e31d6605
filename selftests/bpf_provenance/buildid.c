// SPDX-License-Identifier: GPL-2.0
/*
 * Build IDs of files: bugs in reading them, and the cache.
 *
 *  faults.*	one for each bug, in the context named in its comment
 *  nmi.*	stacks with build IDs, taken in real NMIs (SysRq l from another CPU)
 *		that interrupt a thread spinning in code of a file whose ELF header
 *		is not in the page cache
 *  cache.*	reads, fills and invalidations, counted by the tracepoints, in
 *		task context
 *  kind.*	the same on file systems with and without caching
 *  overwrite.*	a file is overwritten in every possible way while a thread reads
 *		its build ID: a result that was not right at any moment during
 *		the call fails the test
 *  kfunc.*	bpf_file_build_id() compared with libelf
 *  opening.*	bpf_file_build_id() of a file that is being opened
 *  fail_nth*	a fault at each memory allocation, and each copy from or to user
 *		space
 *
 * On a kernel with the bug, faults.frozen_folio or faults.collapsed_file takes down
 * the machine: run them in a virtual machine.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/btrfs.h>
#include <linux/falloc.h>
#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/hw_breakpoint.h>
#include <linux/io_uring.h>
#include <linux/kernel-page-flags.h>
#include <linux/loop.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <bpf/bpf.h>

#include "../kselftest_harness.h"
#include "buildid.h"
#include "buildid.skel.h"
#include "buildid_doc.skel.h"
#include "common.h"
#include "elf_file.h"
#include "fail_nth.h"
#include "fs.h"
#include "lsm.h"

#define PAGE 4096UL
#define ID_SIZE BUILD_ID_SIZE

/* --- files ------------------------------------------------------------------ */

/* The build ID of a file by libelf: its length, 0 if none, or -1. */
static int libelf_build_id(const char *path, unsigned char *id)
{
	size_t n, i, off, name_off, desc_off;
	int fd, len = 0;
	GElf_Nhdr nhdr;
	GElf_Phdr phdr;
	Elf_Data *data;
	Elf *elf;

	elf_version(EV_CURRENT);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_getphdrnum(elf, &n)) {
		len = -1;
		n = 0;
	}
	for (i = 0; i < n && !len; i++) {
		if (!gelf_getphdr(elf, i, &phdr) || phdr.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(elf, phdr.p_offset, phdr.p_filesz, ELF_T_NHDR);
		for (off = 0; data && !len; ) {
			off = gelf_getnote(data, off, &nhdr, &name_off, &desc_off);
			if (!off)
				break;
			if (nhdr.n_type != NT_GNU_BUILD_ID || nhdr.n_namesz != 4 ||
			    nhdr.n_descsz > ID_SIZE || memcmp(data->d_buf + name_off, "GNU", 4))
				continue;
			len = nhdr.n_descsz;
			memcpy(id, data->d_buf + desc_off, len);
		}
	}
	elf_end(elf);
	close(fd);
	return len;
}

static bool resident(void *page)
{
	unsigned char vec = 0;

	return !mincore(page, PAGE, &vec) && vec & 1;
}

/* Evicts a mapped page from the page cache. Leaves the caller on CPU 0. */
static int page_out(void *page)
{
	int i = 0;

	/*
	 * A page just read or written can't be reclaimed while it is in a
	 * per-CPU batch, and a failed attempt unmaps it. The first access waits for
	 * the end of a readahead: until then, the page counts as not resident.
	 */
	do {
		pin_to_cpu(i % 2);
		READ_ONCE(*(char *)page);
		if (madvise(page, PAGE, MADV_PAGEOUT))
			return -errno;
		sched_yield();
	} while (resident(page) && ++i < 1000);
	pin_to_cpu(0);
	return resident(page) ? -EBUSY : 0;
}

static void ignore_signal(int sig)
{
}

/*
 * Marks the memory of the first page of a file as failed, for good. Returns 0 if read()
 * then fails, and -EINVAL if the kernel does not handle such errors.
 */
static int inject_memory_error(const char *path)
{
	struct sigaction old, act = { .sa_handler = ignore_signal };
	int fd, err = 0;
	void *map;
	char c;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || sigaction(SIGBUS, &act, &old)) {
		err = -errno;
	} else {
		/* Sends SIGBUS, as this task has mapped the page. */
		if (madvise(map, PAGE, MADV_HWPOISON))
			err = -errno;
		sigaction(SIGBUS, &old, NULL);
		munmap(map, PAGE);
	}
	/* The page may have failed even if the kernel could not do all it wants to. */
	if (!err || err == -EBUSY)
		err = pread(fd, &c, 1, 0) < 0 && errno == EIO ? 0 : -EUCLEAN;
	close(fd);
	return err;
}

#define NEEDS_MEMORY_FAILURE "needs CONFIG_MEMORY_FAILURE"

/* What /proc/kpageflags, or a similar file, has about a page that is mapped, or 0. */
static uint64_t page_entry(const void *page, const char *path)
{
	uint64_t map = 0, entry = 0;
	int fd;

	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pread(fd, &map, sizeof(map), (uintptr_t)page / PAGE * sizeof(map)) < 0)
		map = 0;
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (pread(fd, &entry, sizeof(entry), (map & ((1ULL << 55) - 1)) * sizeof(entry)) < 0)
		entry = 0;
	close(fd);
	return map >> 63 ? entry : 0;
}

/* Is a mapped page part of a large folio, and not its first? */
static bool is_folio_tail(const void *page)
{
	return page_entry(page, "/proc/kpageflags") & (1ULL << KPF_COMPOUND_TAIL);
}

/* Build ID of the mapping at @addr from PROCMAP_QUERY: its length, or 0. */
static int procmap_build_id(const void *addr, unsigned char *id)
{
	struct procmap_query query = {
		.size = sizeof(query),
		.query_addr = (uintptr_t)addr,
		.build_id_size = ID_SIZE,
		.build_id_addr = (uintptr_t)id,
	};
	int fd, err;

	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = ioctl(fd, PROCMAP_QUERY, &query) ? -errno : 0;
	close(fd);
	return err ?: (int)query.build_id_size;
}

#define SYSCTL "/proc/sys/kernel/build_id_cache"

static bool has_cache(void)
{
	return !access(SYSCTL, F_OK);
}

/* Without a cache, there is nothing to switch. */
static int switch_cache(bool on)
{
	return has_cache() ? write_value(SYSCTL, on ? "1" : "0") : 0;
}

/* Switch it on for a test, which may use switch_cache(), until setting_restore(). */
static int keep_switch(struct setting *s)
{
	return has_cache() ? setting_change(s, SYSCTL, "1") : 0;
}

/* --- stacks ------------------------------------------------------------------ */

/* A system call that, by its frame pointers, returns to @caller. */
static long syscall_called_from(const void *caller, long nr, long a, long b, long c)
{
#ifdef __x86_64__
	uint64_t chain[2] = { 0, (uintptr_t)caller };
	uint64_t *frame = chain;
	long ret;

	asm volatile("xchg %%rbp, %[frame]\n\tsyscall\n\txchg %%rbp, %[frame]"
		     : "=a"(ret), [frame] "+b"(frame)
		     : "0"(nr), "D"(a), "S"(b), "d"(c)
		     : "rcx", "r11", "memory");
	return ret;
#else
	return -EOPNOTSUPP;
#endif
}

/* The same without arguments, and with a caller of @caller. */
static long syscall_called_by(const void *caller, const void *its_caller, long nr)
{
#ifdef __x86_64__
	uint64_t chain[2][2] = {
		{ (uintptr_t)chain[1], (uintptr_t)caller },
		{ 0, (uintptr_t)its_caller },
	};
	uint64_t *frame = chain[0];
	long ret;

	asm volatile("xchg %%rbp, %[frame]\n\tsyscall\n\txchg %%rbp, %[frame]"
		     : "=a"(ret), [frame] "+b"(frame)
		     : "0"(nr)
		     : "rcx", "r11", "memory");
	return ret;
#else
	return -EOPNOTSUPP;
#endif
}

/* on_sleepable() is attached here. Does not touch the frame pointer. */
noinline void sample_sleepable(void)
{
	asm volatile("");
}

/*
 * The same for sample_sleepable(), called on the stack below the red zone, with up to
 * DEEP_FRAMES - 1 callers.
 */
static void sample_sleepable_called_by(const void * const *callers, int n)
{
#ifdef __x86_64__
	uint64_t chain[DEEP_FRAMES - 1][2] = {};
	uint64_t *frame = chain[0];
	int i;

	for (i = 0; i < n; i++) {
		chain[i][0] = i + 1 < n ? (uintptr_t)chain[i + 1] : 0;
		chain[i][1] = (uintptr_t)callers[i];
	}

	asm volatile("mov %%rsp, %%r12\n\tlea -128(%%rsp), %%rsp\n\tand $-16, %%rsp\n\t"
		     "xchg %%rbp, %[frame]\n\tcall *%[fn]\n\txchg %%rbp, %[frame]\n\t"
		     "mov %%r12, %%rsp"
		     : [frame] "+b"(frame)
		     : [fn] "r"(&sample_sleepable)
		     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
		       "memory", "cc");
#endif
}

static void sample_sleepable_called_from(const void *caller)
{
	sample_sleepable_called_by(&caller, 1);
}

/* --- fault injection -------------------------------------------------------------- */

/*
 * Task context: the first user since boot creates the table. If that fails, the user
 * at most has no cache, and the next one tries again. Must be the first test: those
 * that cache build IDs create the table, too.
 */
TEST(fail_nth_table)
{
	struct faults faults;
	int fd, without = 0, failed = 0;
	bool hit;

	if (faults_open(&faults))
		SKIP(return, NEEDS_FAULT_INJECTION);
	/* Let libbpf probe the kernel's features now. */
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "array", sizeof(int), sizeof(int), 1, NULL);
	ASSERT_LE(0, fd);
	close(fd);
	do {
		fault_arm(&faults);
		fd = make_stack_map();
		hit = fault_hit(&faults);
		if (fd < 0) {
			failed++;
			EXPECT_TRUE(hit && (fd == -ENOMEM || fd == -EFAULT))
				TH_LOG("%s at fault %u", strerror(-fd), faults.nth);
		} else {
			without += hit;
			close(fd);
		}
	} while (hit);
	faults_close(&faults);
	TH_LOG("%u faults: %d maps that could not be made, %d that could nevertheless",
	       faults.nth - 1, failed, without);
	ASSERT_LT(0, failed);
	if (!without)
		SKIP(return, "the table was made before, which happens once in a boot");
}

FIXTURE(faults)
{
	struct setting cache;
	struct buildid *skel;
	enum own_fs fs;		/* mounted at @dir */
	char dir[200], path[256];
	unsigned char id[ID_SIZE];
	char *map;
	size_t map_size;
	int fd;
};

static void new_fixture(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	self->fd = -1;
	self->map = MAP_FAILED;
	self->fs = FS_NONE;
	memset(self->id, 0xab, ID_SIZE);
	ASSERT_EQ(0, keep_switch(&self->cache));
	self->skel = buildid__open();
	ASSERT_NE(NULL, self->skel);
	self->skel->data->wait_scale = timeout_scale();
	self->skel->bss->target = gettid();
	self->skel->bss->sample_nr = SYS_getppid;
	ASSERT_EQ(0, scratch_dir(self->dir, sizeof(self->dir)));
	snprintf(self->path, sizeof(self->path), "%s/file", self->dir);
}

/* It may be called again by the teardown. */
static void free_fixture(FIXTURE_DATA(faults) *self)
{
	buildid__destroy(self->skel);
	self->skel = NULL;
	if (self->map != MAP_FAILED)
		munmap(self->map, self->map_size);
	self->map = MAP_FAILED;
	close(self->fd);
	self->fd = -1;
	fs_unmount(self->fs, self->dir);
	unlink(self->path);
	rmdir(self->dir);
	setting_restore(&self->cache);
}

/* Mounts a file system for the fixture's file. Frees the fixture if that fails. */
static int use_fs(FIXTURE_DATA(faults) *self, enum own_fs fs)
{
	int err = fs_mount(fs, self->dir);

	if (err)
		free_fixture(self);
	else
		self->fs = fs;
	return err;
}

static void create_file(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			off_t note_at)
{
	struct stat st;

	self->fd = open(self->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, write_elf(self->fd, self->id, note_at));
	ASSERT_EQ(0, ftruncate(self->fd, note_at + PAGE));
	ASSERT_EQ(0, fstat(self->fd, &st));
	self->skel->bss->inode_nr = st.st_ino;
}

/* Creates the file, and writes all of it to disk. */
static void new_file(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self, off_t note_at)
{
	create_file(_metadata, self, note_at);
	ASSERT_EQ(0, fsync(self->fd));
}

/* Opened read-only, so that there is no writer. */
static void map_file(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self, size_t size)
{
	close(self->fd);
	self->fd = open(self->path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->fd);
	self->map_size = size;
	self->map = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->map);
}

static void load(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
		 struct bpf_program *a, struct bpf_program *b)
{
	bpf_program__set_autoload(a, true);
	if (b)
		bpf_program__set_autoload(b, true);
	ASSERT_EQ(0, buildid__load(self->skel));
	ASSERT_EQ(0, buildid__attach(self->skel));
}

static bool is_valid(const struct bpf_stack_build_id *frame)
{
	return frame->status == BPF_STACK_BUILD_ID_VALID;
}

/* The cache would hide how a file is read. */
FIXTURE_SETUP(faults)
{
	new_fixture(_metadata, self);
	ASSERT_EQ(0, switch_cache(false));
}

FIXTURE_TEARDOWN(faults)
{
	free_fixture(self);
}

/* Not sleepable, interrupts on: an address in the hole below a mapping. */
TEST_F(faults, gap_below_mapping)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	char *hole;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	load(_metadata, self, self->skel->progs.on_sys_enter, NULL);
	new_file(_metadata, self, 256);
	map_file(_metadata, self, PAGE);
	/* Move it above a hole that nothing else gets mapped into. */
	hole = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, hole);
	ASSERT_EQ(hole + PAGE, mremap(self->map, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
				      hole + PAGE));
	self->map = hole + PAGE;
	ASSERT_EQ(0, munmap(hole, PAGE));

	syscall_called_from(hole + PAGE - 16, SYS_getppid, 0, 0, 0);
	syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);

	ASSERT_EQ(2, self->skel->bss->nr_samples);
	EXPECT_FALSE(is_valid(caller))
		TH_LOG("an address below the mapping has its build ID, at offset %llx",
		       (unsigned long long)caller->offset);
	/* The mapping itself has it. */
	EXPECT_TRUE(is_valid(caller + STACK_FRAMES));
	EXPECT_EQ(16, caller[STACK_FRAMES].offset);
	EXPECT_EQ(0, memcmp(caller[STACK_FRAMES].build_id, self->id, ID_SIZE));
}

/* Task context, may sleep: a block device that starts like an ELF file. */
TEST_F(faults, block_device)
{
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	unsigned char id[ID_SIZE];
	int control, loop, nr, len;
	char dev[32], *map;

	new_file(_metadata, self, 256);
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		SKIP(return, "needs CONFIG_BLK_DEV_LOOP");
	nr = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	ASSERT_LE(0, nr);
	snprintf(dev, sizeof(dev), "/dev/loop%d", nr);
	loop = open(dev, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, loop);
	config.fd = self->fd;
	ASSERT_EQ(0, ioctl(loop, LOOP_CONFIGURE, &config));
	map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, loop, 0);
	ASSERT_NE(MAP_FAILED, map);

	len = procmap_build_id(map, id);

	EXPECT_EQ(0, memcmp(map, ELFMAG, SELFMAG));
	EXPECT_EQ(0, len)
		TH_LOG("a block device was read, and has a build ID of %d bytes", len);
	munmap(map, PAGE);
	close(loop);
}

struct elf32_headers {
	Elf32_Ehdr ehdr;
	Elf32_Phdr phdr[2];
};

/* For a 32-bit file: a segment of type @first at @first_at, a note at @note_at. */
static struct elf32_headers elf32_headers(Elf32_Word first, Elf32_Off first_at, Elf32_Off note_at)
{
	return (struct elf32_headers) {
		.ehdr = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_386,
			.e_version = EV_CURRENT,
			.e_phoff = offsetof(struct elf32_headers, phdr),
			.e_ehsize = sizeof(Elf32_Ehdr),
			.e_phentsize = sizeof(Elf32_Phdr),
			.e_phnum = 2,
		},
		.phdr = {
			{ .p_type = first, .p_offset = first_at, .p_align = 4,
			  .p_filesz = sizeof(struct elf_note) },
			{ .p_type = PT_NOTE, .p_offset = note_at, .p_align = 4,
			  .p_filesz = sizeof(struct elf_note) },
		},
	};
}

/*
 * Not sleepable, interrupts on: the first note is not in the page cache, the
 * second one is. The build ID is that of the first.
 */
static void note_not_resident(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			      bool elf32)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	off_t note_at = 1024 * 1024;
	struct elf32_headers headers = elf32_headers(PT_NOTE, note_at, 256);
	unsigned char second[ID_SIZE];

	load(_metadata, self, self->skel->progs.on_sys_enter, NULL);
	ASSERT_EQ(0, pin_to_cpu(0));
	memset(second, 0xcd, ID_SIZE);
	new_file(_metadata, self, note_at);
	ASSERT_EQ(0, write_note(self->fd, 1, second, 256));
	if (elf32)
		ASSERT_EQ(sizeof(headers), pwrite(self->fd, &headers, sizeof(headers), 0));
	ASSERT_EQ(0, fsync(self->fd));
	map_file(_metadata, self, note_at + PAGE);
	ASSERT_EQ(0, madvise(self->map, self->map_size, MADV_RANDOM));
	ASSERT_EQ(0, page_out(self->map + note_at));
	ASSERT_EQ(ELFMAG[1], READ_ONCE(self->map[1]));

	syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);

	ASSERT_EQ(1, self->skel->bss->nr_samples);
	EXPECT_FALSE(resident(self->map + note_at));
	EXPECT_FALSE(is_valid(caller))
		TH_LOG("the build ID is that of note %d",
		       1 + !memcmp(caller->build_id, second, ID_SIZE));
	/* Once the note can be read, its build ID is found. */
	READ_ONCE(self->map[note_at]);
	syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);
	ASSERT_EQ(2, self->skel->bss->nr_samples);
	EXPECT_TRUE(is_valid(caller + STACK_FRAMES));
	EXPECT_EQ(0, memcmp(caller[STACK_FRAMES].build_id, self->id, ID_SIZE));
}

TEST_F(faults, note_not_resident)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	note_not_resident(_metadata, self, false);
}

TEST_F(faults, note_not_resident_32)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	note_not_resident(_metadata, self, true);
}

#define LARGE_FOLIO (16 * PAGE)
#define NEEDS_LARGE_FOLIO "needs CONFIG_TRANSPARENT_HUGEPAGE and CONFIG_PROC_PAGE_MONITOR"

/* Writes all of the file again, in one go: file systems size folios by the length of a write. */
static void make_large_folio(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	char contents[LARGE_FOLIO] = {};

	ASSERT_LT(0, pread(self->fd, contents, sizeof(contents), 0));
	ASSERT_EQ(0, ftruncate(self->fd, 0));
	ASSERT_EQ(sizeof(contents), pwrite(self->fd, contents, sizeof(contents), 0));
}

/*
 * Not sleepable, interrupts on: the note is not in the first page of its folio. With
 * CONFIG_DEBUG_KMAP_LOCAL_FORCE_MAP, folios are read page by page, as in high memory.
 */
TEST_F(faults, large_folio)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	off_t note_at = 3 * PAGE + 128;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	load(_metadata, self, self->skel->progs.on_sys_enter, NULL);
	new_file(_metadata, self, note_at);
	make_large_folio(_metadata, self);
	map_file(_metadata, self, LARGE_FOLIO);
	ASSERT_EQ(NT_GNU_BUILD_ID, READ_ONCE(self->map[note_at + 8]));
	if (!is_folio_tail(self->map + note_at))
		SKIP(return, NEEDS_LARGE_FOLIO);

	syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);

	ASSERT_EQ(1, self->skel->bss->nr_samples);
	EXPECT_TRUE(is_valid(caller));
	EXPECT_EQ(0, memcmp(caller->build_id, self->id, ID_SIZE));
}

/* Not sleepable, interrupts on: the file ends within its build ID, in the middle of a page. */
TEST_F(faults, truncated_note)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	unsigned char id[ID_SIZE];
	int i;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	load(_metadata, self, self->skel->progs.on_sys_enter, NULL);
	new_file(_metadata, self, 256);
	map_file(_metadata, self, PAGE);
	/* Before it is truncated, and after. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(ELFMAG[1], READ_ONCE(self->map[1]));
		syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);
		ASSERT_EQ(i + 1, self->skel->bss->nr_samples);
		ASSERT_EQ(0, truncate(self->path, 256 + offsetof(struct elf_note, id) + 10));
	}

	EXPECT_TRUE(is_valid(caller));
	EXPECT_EQ(BPF_STACK_BUILD_ID_IP, caller[STACK_FRAMES].status)
		TH_LOG("the build ID has bytes past the end of the file");
	/* As when the file is read. */
	EXPECT_EQ(0, procmap_build_id(self->map, id));
}

/* bpf_mmap_unlock_guard_get() does not allow mmap_lock there, so only the cache is used. */
#define RT_READS_NOTHING "PREEMPT_RT: stacks read no file with interrupts off"

/* Not sleepable: tmpfs keeps a page whose memory failed. Reading it could be fatal. */
static void memory_error(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			 struct bpf_program *prog)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	unsigned char id[ID_SIZE];
	int err;

	err = use_fs(self, FS_TMPFS);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_TMPFS));
	ASSERT_EQ(0, err);
	load(_metadata, self, prog, NULL);
	new_file(_metadata, self, 256);
	map_file(_metadata, self, 2 * PAGE);
	syscall_called_from(self->map + PAGE + 16, SYS_getppid, 0, 0, 0);
	ASSERT_EQ(1, self->skel->bss->nr_samples);
	EXPECT_TRUE(is_valid(caller));
	EXPECT_EQ(0, memcmp(caller->build_id, self->id, ID_SIZE));

	err = inject_memory_error(self->path);
	if (err == -EINVAL)
		SKIP(return, NEEDS_MEMORY_FAILURE);
	ASSERT_EQ(0, err);
	syscall_called_from(self->map + PAGE + 16, SYS_getppid, 0, 0, 0);

	ASSERT_EQ(2, self->skel->bss->nr_samples);
	EXPECT_EQ(BPF_STACK_BUILD_ID_IP, caller[STACK_FRAMES].status)
		TH_LOG("the build ID was read from memory that failed");
	EXPECT_EQ(0, procmap_build_id(self->map + PAGE, id));
}

/* Interrupts on. */
TEST_F(faults, memory_error)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	memory_error(_metadata, self, self->skel->progs.on_sys_enter);
}

TEST_F(faults, memory_error_irqs_off)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (is_preempt_rt())
		SKIP(return, RT_READS_NOTHING);
	memory_error(_metadata, self, self->skel->progs.on_sys_enter_irqs_off);
}

/*
 * Task context: notes may be empty, and many segments may contain the same ones. Those
 * after the 64th are ignored: an NMI would need to wait for them.
 */
TEST_F(faults, many_notes)
{
	static const int empty[] = { 63, 64 };
	unsigned char id[ID_SIZE];
	Elf64_Phdr phdr = {
		.p_type = PT_NOTE,
		.p_offset = 256,
		.p_align = 4,
	};
	int i;

	for (i = 0; i < (int)ARRAY_LEN(empty); i++) {
		phdr.p_filesz = empty[i] * sizeof(Elf64_Nhdr) + sizeof(struct elf_note);
		new_file(_metadata, self, phdr.p_offset + empty[i] * sizeof(Elf64_Nhdr));
		ASSERT_EQ(sizeof(phdr), pwrite(self->fd, &phdr, sizeof(phdr),
					       offsetof(struct elf_file, phdr[0])));
		map_file(_metadata, self, PAGE);
		EXPECT_EQ(i ? 0 : ID_SIZE, procmap_build_id(self->map, id))
			TH_LOG("behind %d notes", empty[i]);
		munmap(self->map, self->map_size);
		self->map = MAP_FAILED;
		close(self->fd);
		self->fd = -1;
	}
	unlink(self->path);
}

struct truncation {
	const struct buildid *skel;
	int fd, err;
	pthread_barrier_t on_its_cpu;
};

static void *truncate_held(void *arg)
{
	struct truncation *t = arg;
	struct buildid__bss *bss = t->skel->bss;

	t->err = pin_to_cpu(1);
	pthread_barrier_wait(&t->on_its_cpu);
	while (!t->err && !READ_ONCE(bss->held_folio) && !READ_ONCE(bss->open_runs))
		;
	if (!t->err && ftruncate(t->fd, 0))
		t->err = -errno;
	WRITE_ONCE(bss->truncated, true);
	return NULL;
}

/*
 * LSM, interrupts off: after reading a file, a program holds no reference to its pages.
 * It could be the last one, and freeing a page takes locks that are held with interrupts
 * off.
 */
TEST_F(faults, last_reference)
{
	struct truncation t = { .skel = self->skel };
	struct buildid__bss *bss = self->skel->bss;
	pthread_t thread;
	struct stat st;
	char path[32];
	int exe;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	load(_metadata, self, self->skel->progs.on_opening_irqs_off,
	     self->skel->progs.on_last_put);
	/* No journal holds a reference to its page. */
	t.fd = memfd_create("held", MFD_CLOEXEC);
	ASSERT_LE(0, t.fd);
	ASSERT_EQ(0, write_elf(t.fd, self->id, 256));
	ASSERT_EQ(0, fstat(t.fd, &st));
	bss->inode_nr = st.st_ino;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t.fd);
	/* Nor do this CPU's LRU batches: past the end, DONTNEED only drains these. */
	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_EQ(0, posix_fadvise(exe, 1L << 40, PAGE, POSIX_FADV_DONTNEED));
	close(exe);
	pthread_barrier_init(&t.on_its_cpu, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, truncate_held, &t));
	pthread_barrier_wait(&t.on_its_cpu);
	close(open(path, O_RDONLY | O_CLOEXEC));
	pthread_join(thread, NULL);
	close(t.fd);

	ASSERT_EQ(0, t.err);
	ASSERT_EQ(1, bss->open_runs);
	ASSERT_EQ(0, bss->read_result);
	ASSERT_TRUE(bss->truncated_first)
		TH_LOG("the other thread took ten seconds");
	EXPECT_EQ(0, bss->puts_of_program)
		TH_LOG("a folio is freed with interrupts off, by a task that may hold its locks");
	/* Nor does it read the old contents. */
	EXPECT_EQ(-EFAULT, bss->read_again_result);
}

/* Files of one page: the first one gets the page that the CPU has freed last. */
#define REUSES 64

struct reuse {
	const struct buildid *skel;
	int fd, others[REUSES], err;
	pthread_barrier_t on_its_cpu;
};

static void *reuse_held(void *arg)
{
	static char page[PAGE];
	struct reuse *r = arg;
	struct buildid__bss *bss = r->skel->bss;
	int i;

	memset(page, 'x', sizeof(page));
	r->err = pin_to_cpu(1);
	pthread_barrier_wait(&r->on_its_cpu);
	while (!r->err && !READ_ONCE(bss->waiting) && READ_ONCE(bss->open_runs) < 2)
		;
	if (!r->err && ftruncate(r->fd, 0))
		r->err = -errno;
	for (i = 0; !r->err && i < REUSES; i++)
		if (pwrite(r->others[i], page, PAGE, 0) != PAGE)
			r->err = -errno;
	WRITE_ONCE(bss->truncated, true);
	return NULL;
}

/* Runs @prog when this thread accesses kernel memory. NULL, and ENOENT: not possible. */
static struct bpf_link *watch_memory(struct bpf_program *prog, uint64_t addr, uint32_t type,
				     uint64_t len)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = type,
		.bp_addr = addr,
		.bp_len = len,
		.sample_period = 1,
	};
	int event;

	event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return event < 0 ? NULL : bpf_program__attach_perf_event(prog, event);
}

/*
 * LSM: after a read found a folio, and before it takes a reference, the file is truncated,
 * and the page is reused for another file. The read must not return the contents of that.
 */
TEST_F(faults, reused_folio)
{
	struct reuse r = { .skel = self->skel };
	struct buildid__bss *bss = self->skel->bss;
	struct bpf_link *link;
	int exe, i;
	pthread_t thread;
	struct stat st;
	char path[32];

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	load(_metadata, self, self->skel->progs.on_opening_watched,
	     self->skel->progs.on_refcount);
	for (i = 0; i < REUSES; i++) {
		r.others[i] = memfd_create("other", MFD_CLOEXEC);
		ASSERT_LE(0, r.others[i]);
	}
	r.fd = memfd_create("held", MFD_CLOEXEC);
	ASSERT_LE(0, r.fd);
	ASSERT_EQ(0, write_elf(r.fd, self->id, 256));
	ASSERT_EQ(0, fstat(r.fd, &st));
	bss->inode_nr = st.st_ino;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r.fd);
	close(open(path, O_RDONLY | O_CLOEXEC));
	ASSERT_EQ(1, bss->open_runs);
	ASSERT_EQ(0, bss->read_result);
	ASSERT_EQ(0, memcmp(bss->read_magic, ELFMAG, SELFMAG));

	link = watch_memory(self->skel->progs.on_refcount, bss->held_refcount, HW_BREAKPOINT_RW,
			    HW_BREAKPOINT_LEN_4);
	if (!link && errno == ENOENT)
		SKIP(return, "needs CONFIG_HAVE_HW_BREAKPOINT");
	ASSERT_NE(NULL, link)
		TH_LOG("breakpoint: %s", strerror(errno));
	/* LRU batches of this CPU hold no reference: past the end, DONTNEED only drains them. */
	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_EQ(0, posix_fadvise(exe, 1L << 40, PAGE, POSIX_FADV_DONTNEED));
	close(exe);
	pthread_barrier_init(&r.on_its_cpu, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, reuse_held, &r));
	pthread_barrier_wait(&r.on_its_cpu);
	close(open(path, O_RDONLY | O_CLOEXEC));
	pthread_join(thread, NULL);
	bpf_link__destroy(link);
	close(r.fd);
	for (i = 0; i < REUSES; i++)
		close(r.others[i]);

	ASSERT_EQ(0, r.err);
	ASSERT_EQ(2, bss->open_runs);
	ASSERT_TRUE(bss->truncated_first)
		TH_LOG("the other thread took ten seconds");
	ASSERT_TRUE(bss->page_of_other_file)
		TH_LOG("none of %d files got the page", REUSES);
	EXPECT_EQ(-EFAULT, bss->read_result)
		TH_LOG("the contents of another file were read: %.4s", bss->read_magic);
	EXPECT_EQ(0, bss->references_left);
}

/* LSM, interrupts off: a read uses up nothing that the next one needs. */
TEST_F(faults, many_reads_irqs_off)
{
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	load(_metadata, self, self->skel->progs.on_opening_often, NULL);
	new_file(_metadata, self, 256);
	close(open(self->path, O_RDONLY | O_CLOEXEC));

	ASSERT_EQ(1, self->skel->bss->open_runs);
	EXPECT_EQ(MANY_READS, self->skel->bss->reads_irqs_off);
}

/* The same for a stack that does not get mmap_lock. */
TEST_F(faults, busy_lock_irqs_off)
{
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (is_preempt_rt())
		SKIP(return, RT_READS_NOTHING);
	if (libbpf_find_vmlinux_btf_id("security_file_mprotect", BPF_TRACE_FENTRY) < 0)
		SKIP(return, "needs CONFIG_SECURITY");
	ASSERT_EQ(0, pin_to_cpu(0));
	load(_metadata, self, self->skel->progs.on_mprotect_irqs_off,
	     self->skel->progs.on_sys_enter_irqs_off);
	new_file(_metadata, self, 256);
	map_file(_metadata, self, PAGE);
	ASSERT_EQ(ELFMAG[1], READ_ONCE(self->map[1]));

	ASSERT_EQ(0, syscall_called_from(self->map + 16, SYS_mprotect, (long)self->map, PAGE,
					 PROT_READ | PROT_EXEC));
	ASSERT_EQ(1, self->skel->bss->nr_samples);
	ASSERT_FALSE(is_valid(caller));
	syscall_called_from(self->map + 16, SYS_getppid, 0, 0, 0);
	ASSERT_EQ(2, self->skel->bss->nr_samples);
	EXPECT_TRUE(is_valid(caller + STACK_FRAMES));
}

struct watched {
	unsigned long returned;		/* system calls that have returned */
	bool done;
};

/*
 * Crashes the kernel if a system call does not return within ten seconds, after a
 * backtrace of the CPU.
 */
static void *watch_calls(void *arg)
{
	unsigned long returned, last = 0;
	struct watched *w = arg;
	int i = 0;

	while (!__atomic_load_n(&w->done, __ATOMIC_ACQUIRE)) {
		returned = __atomic_load_n(&w->returned, __ATOMIC_RELAXED);
		i = returned == last ? i + 1 : 0;
		last = returned;
		if (i == 1000 * timeout_scale()) {
			nmi_to_other_cpus();
			write_value("/proc/sysrq-trigger", "c");
			break;
		}
		usleep(10 * 1000);
	}
	return NULL;
}

/* More than a CPU has slots for last references. */
#define FROZEN_READS 5

/*
 * fentry in reclaim, interrupts off: the task's own build ID would be read from
 * the folio whose reference count is frozen.
 */
TEST_F(faults, frozen_folio)
{
	struct watched w = {};
	pthread_t watch;
	int i;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (!may_end_kernel())
		SKIP(return, NEEDS_TO_END_KERNEL);
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	if (pin_to_cpu(0) || pin_to_cpu(1))
		SKIP(return, "needs CPUs 0 and 1");
	load(_metadata, self, self->skel->progs.on_remove, self->skel->progs.on_opening_often);
	new_file(_metadata, self, 256);
	map_file(_metadata, self, PAGE);
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, pthread_create(&watch, NULL, watch_calls, &w));
	ASSERT_EQ(0, pin_to_cpu(1));

	for (i = 0; i < 1000 && READ_ONCE(self->skel->bss->removed) < FROZEN_READS; i++) {
		READ_ONCE(*self->map);
		syscall_called_from(self->map + 16, SYS_madvise, (long)self->map, PAGE,
				    MADV_PAGEOUT);
		__atomic_fetch_add(&w.returned, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&w.done, true, __ATOMIC_RELEASE);
	pthread_join(watch, NULL);

	EXPECT_EQ(FROZEN_READS, self->skel->bss->removed);
	EXPECT_EQ(FROZEN_READS, self->skel->bss->nr_samples);

	/* None of these reads uses up anything that a later one needs. */
	READ_ONCE(*self->map);
	self->skel->bss->reads_irqs_off = 0;
	close(open(self->path, O_RDONLY | O_CLOEXEC));
	EXPECT_EQ(MANY_READS, self->skel->bss->reads_irqs_off);
}

/*
 * fentry in collapse_file(), interrupts off: the header of the task's own file is in a
 * hole, which has a retry entry.
 */
TEST_F(faults, collapsed_file)
{
	const size_t huge = 2 << 20;
	struct bpf_stack_build_id *caller = &self->skel->bss->samples[0][1];
	struct watched w = {};
	pthread_t watch;
	struct stat st;
	char *area;
	long err;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (!may_end_kernel())
		SKIP(return, NEEDS_TO_END_KERNEL);
	if (pin_to_cpu(0) || pin_to_cpu(1))
		SKIP(return, "needs CPUs 0 and 1");
	load(_metadata, self, self->skel->progs.on_collapse, NULL);
	self->fd = memfd_create("holes", MFD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ftruncate(self->fd, huge));
	ASSERT_EQ(1, pwrite(self->fd, "", 1, PAGE));
	ASSERT_EQ(0, fstat(self->fd, &st));
	self->skel->bss->inode_nr = st.st_ino;
	area = mmap(NULL, 2 * huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	self->map_size = huge;
	self->map = mmap(area + huge - (uintptr_t)area % huge, huge, PROT_READ | PROT_EXEC,
			 MAP_SHARED | MAP_FIXED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->map);
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, pthread_create(&watch, NULL, watch_calls, &w));
	ASSERT_EQ(0, pin_to_cpu(1));

	err = syscall_called_from(self->map + PAGE + 16, SYS_madvise, (long)self->map, huge,
				  MADV_COLLAPSE);
	__atomic_store_n(&w.done, true, __ATOMIC_RELEASE);
	pthread_join(watch, NULL);
	munmap(area, 2 * huge);
	self->map = MAP_FAILED;

	if (err == -EINVAL || err == -ENOMEM)
		SKIP(return, "needs CONFIG_TRANSPARENT_HUGEPAGE, and a free huge page");
	ASSERT_EQ(0, err);
	ASSERT_EQ(1, self->skel->bss->collapsed);
	EXPECT_EQ(1, self->skel->bss->nr_samples);
	EXPECT_EQ(BPF_STACK_BUILD_ID_IP, caller->status);
}

/* LSM, may sleep: /proc/PID/mem is a regular file, which only has ->read(). */
TEST_F(faults, read_to_user_only)
{
	struct stat st;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	load(_metadata, self, self->skel->progs.on_opened, NULL);
	ASSERT_EQ(0, stat("/proc/self/mem", &st));
	self->skel->bss->inode_nr = st.st_ino;
	self->skel->bss->read_result = 1;
	close(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
	ASSERT_EQ(1, self->skel->bss->open_runs);
	EXPECT_EQ(-EBADF, self->skel->bss->read_result);
}

/* Calls each of the hooks once, except inode_setattr, which is called three times. */
static void call_locked_hooks(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			      mode_t mode)
{
	struct sockaddr addr;
	char path[300], c;
	struct stat st;
	socklen_t len;
	int fd;

	memset(self->skel->bss->locked_runs, 0, sizeof(self->skel->bss->locked_runs));
	ASSERT_EQ(0, fchmod(self->fd, mode));
	ASSERT_EQ(0, fchown(self->fd, 0, 0));
	ASSERT_EQ(0, fstat(self->fd, &st));
	ASSERT_EQ(0, truncate(self->path, st.st_size));
	ASSERT_EQ(-1, fgetxattr(self->fd, "user.none", NULL, 0));

	snprintf(path, sizeof(path), "%s.deleted", self->path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &st));
	self->skel->bss->freed_inode_nr = st.st_ino;
	ASSERT_EQ(0, unlink(path));
	ASSERT_EQ(0, close(fd));
	self->skel->bss->freed_inode_nr = 0;

	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(-1, send(fd, "x", 1, MSG_DONTWAIT));
	ASSERT_EQ(-1, recv(fd, &c, 1, MSG_DONTWAIT));
	len = sizeof(addr);
	ASSERT_EQ(0, getsockname(fd, &addr, &len));
	ASSERT_EQ(0, shutdown(fd, SHUT_RDWR));
	close(fd);

	if (!self->skel->links.on_task_vma)
		return;
	/* The program prints nothing. */
	fd = bpf_iter_create(bpf_link__fd(self->skel->links.on_task_vma));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, read(fd, &c, 1));
	close(fd);
}

/*
 * LSM and an iterator, may sleep: while the inode is locked, only pages in the page cache
 * are read. XFS and NFS lock it to read others. Nor is storage read where reclaim may be the
 * caller, where storage may wait for the program, and with mmap_lock held or within
 * rcu_read_lock().
 */
TEST_F(faults, inode_locked)
{
	struct buildid__bss *bss = self->skel->bss;
	int i, zero = 0, nr_hooks = LOCKED_HOOKS;
	struct stat st;

	if (!has_cache())
		SKIP(return, "this kernel has no bpf_file_build_id()");
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	if (libbpf_find_vmlinux_btf_id("path_chmod", BPF_LSM_MAC) < 0 ||
	    libbpf_find_vmlinux_btf_id("socket_create", BPF_LSM_MAC) < 0)
		SKIP(return, "needs CONFIG_SECURITY_PATH and CONFIG_SECURITY_NETWORK");
	/* Lockdep warns of any such program: bpf_iter_run_prog() calls might_fault(). */
	if (!access("/proc/lockdep", F_OK))
		nr_hooks = ITER_TASK_VMA;
	bpf_program__set_autoload(self->skel->progs.on_task_vma, nr_hooks == LOCKED_HOOKS);
	bpf_program__set_autoload(self->skel->progs.on_getsockname, true);
	bpf_program__set_autoload(self->skel->progs.on_shutdown, true);
	bpf_program__set_autoload(self->skel->progs.on_path_chmod, true);
	bpf_program__set_autoload(self->skel->progs.on_path_chown, true);
	bpf_program__set_autoload(self->skel->progs.on_path_truncate, true);
	bpf_program__set_autoload(self->skel->progs.on_getattr, true);
	bpf_program__set_autoload(self->skel->progs.on_getxattr, true);
	bpf_program__set_autoload(self->skel->progs.on_socket_create, true);
	bpf_program__set_autoload(self->skel->progs.on_socket_post_create, true);
	bpf_program__set_autoload(self->skel->progs.on_socket_sendmsg, true);
	bpf_program__set_autoload(self->skel->progs.on_socket_recvmsg, true);
	load(_metadata, self, self->skel->progs.on_setattr, self->skel->progs.on_inode_free);
	ASSERT_EQ(0, bpf_map__update_elem(self->skel->maps.one_element, &zero, sizeof(zero), &zero,
					  sizeof(zero), BPF_ANY));
	new_file(_metadata, self, 256);
	ASSERT_EQ(0, fstat(self->fd, &st));
	/* MKDEV() of the kernel */
	bss->locked_dev = major(st.st_dev) << 20 | minor(st.st_dev);
	map_file(_metadata, self, PAGE);
	bss->mapped_at = (uintptr_t)self->map;
	ASSERT_EQ(0, page_out(self->map));
	call_locked_hooks(_metadata, self, 0700);
	for (i = 0; i < nr_hooks; i++) {
		ASSERT_EQ(i == SETATTR ? 3 : 1, bss->locked_runs[i])
			TH_LOG("hook %d", i);
		EXPECT_EQ(-EAGAIN, bss->locked_results[i])
			TH_LOG("hook %d", i);
	}
	EXPECT_FALSE(resident(self->map));

	ASSERT_EQ(ELFMAG[1], READ_ONCE(self->map[1]));
	call_locked_hooks(_metadata, self, 0755);
	for (i = 0; i < nr_hooks; i++) {
		ASSERT_EQ(i == SETATTR ? 3 : 1, bss->locked_runs[i])
			TH_LOG("hook %d", i);
		EXPECT_EQ(ID_SIZE, bss->locked_results[i])
			TH_LOG("hook %d", i);
	}
	EXPECT_EQ(0, memcmp(self->id, bss->open_id, ID_SIZE));
}

/*
 * LSM, may sleep: a file that is not open yet, or not for reading, can't be read. That
 * must not cause a warning, which here panics the kernel. The page cache has its build ID.
 */
TEST_F(faults, not_open_for_reading)
{
	static const int modes[] = { O_RDONLY, O_WRONLY };
	struct setting panic_on_warn;
	int i;

	if (!may_end_kernel())
		SKIP(return, NEEDS_TO_END_KERNEL);
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	load(_metadata, self, self->skel->progs.on_opening, NULL);
	new_file(_metadata, self, 256);
	ASSERT_EQ(0, setting_change(&panic_on_warn, "/proc/sys/kernel/panic_on_warn", "1"));
	for (i = 0; i < (int)ARRAY_LEN(modes); i++) {
		self->skel->bss->read_result = 1;
		self->skel->bss->open_result = 1;
		close(open(self->path, modes[i] | O_CLOEXEC));
		EXPECT_EQ(i + 1, self->skel->bss->open_runs);
		EXPECT_EQ(-EBADF, self->skel->bss->read_result);
		EXPECT_EQ(has_cache() ? ID_SIZE : 1, self->skel->bss->open_result);
	}
	setting_restore(&panic_on_warn);
}

/*
 * Task context, may sleep: callers in more files than are remembered, two mapped twice.
 * None of these files is in use afterwards.
 */
TEST_F(faults, many_files)
{
	static const int files[DEEP_FRAMES - 1] = { 0, 1, 2, 2, 0 };
	const struct bpf_stack_build_id *frame = self->skel->bss->deep + 1;
	const void *callers[ARRAY_LEN(files)];
	unsigned char ids[3][ID_SIZE];
	char *maps[ARRAY_LEN(files)];
	int fds[3], i, err;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	err = use_fs(self, FS_TMPFS);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_TMPFS));
	ASSERT_EQ(0, err);
	load(_metadata, self, self->skel->progs.on_sleepable_deep, NULL);
	for (i = 0; i < 3; i++) {
		memset(self->id, i + 1, ID_SIZE);
		memcpy(ids[i], self->id, ID_SIZE);
		new_file(_metadata, self, 256);
		fds[i] = self->fd;
		ASSERT_EQ(0, unlink(self->path));
	}
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		maps[i] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fds[files[i]], 0);
		ASSERT_NE(MAP_FAILED, maps[i]);
		callers[i] = maps[i] + 16 * (i + 1);
	}

	sample_sleepable_called_by(callers, ARRAY_LEN(callers));

	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		EXPECT_TRUE(is_valid(frame + i))
			TH_LOG("caller %d", i);
		EXPECT_EQ(16 * (i + 1), frame[i].offset);
		EXPECT_EQ(0, memcmp(frame[i].build_id, ids[files[i]], ID_SIZE));
		munmap(maps[i], PAGE);
	}
	for (i = 0; i < 3; i++)
		close(fds[i]);
	self->fd = -1;
	EXPECT_EQ(0, fs_unmount(self->fs, self->dir));
	self->fs = FS_NONE;
}

/* Write @nr program headers, of which the last one is that of the note at @note_at. */
static int write_headers(int fd, bool elf32, int nr, off_t note_at)
{
	struct elf32_headers elf32_file = elf32_headers(PT_NULL, 0, note_at);
	struct elf_file elf;
	Elf64_Phdr phdr;

	if (elf32) {
		elf32_file.ehdr.e_phnum = nr;
		return pwrite(fd, &elf32_file, sizeof(elf32_file.ehdr), 0) < 0 ||
		       pwrite(fd, &elf32_file.phdr[0], sizeof(Elf32_Phdr),
			      offsetof(struct elf32_headers, phdr[0])) < 0 ||
		       pwrite(fd, &elf32_file.phdr[0], sizeof(Elf32_Phdr),
			      offsetof(struct elf32_headers, phdr[1])) < 0 ||
		       pwrite(fd, &elf32_file.phdr[1], sizeof(Elf32_Phdr),
			      offsetof(struct elf32_headers, phdr[nr - 1])) < 0;
	}
	if (pread(fd, &elf, sizeof(elf), 0) != sizeof(elf))
		return -1;
	elf.ehdr.e_phnum = nr;
	phdr = elf.phdr[0];
	elf.phdr[0].p_type = PT_NULL;
	return pwrite(fd, &elf, sizeof(elf), 0) < 0 ||
	       pwrite(fd, &phdr, sizeof(phdr), offsetof(struct elf_file, phdr[nr - 1])) < 0;
}

/* Task context: program headers after the 256th are ignored. */
TEST_F(faults, many_headers)
{
	static const int nr[] = { 256, 257 };
	unsigned char id[ID_SIZE];
	int i, elf32;

	for (elf32 = 0; elf32 < 2; elf32++) {
		for (i = 0; i < (int)ARRAY_LEN(nr); i++) {
			new_file(_metadata, self, 5 * PAGE);
			ASSERT_EQ(0, write_headers(self->fd, elf32, nr[i], 5 * PAGE));
			map_file(_metadata, self, PAGE);
			EXPECT_EQ(i ? 0 : ID_SIZE, procmap_build_id(self->map, id))
				TH_LOG("%d headers, %d bits", nr[i], elf32 ? 32 : 64);
			munmap(self->map, self->map_size);
			self->map = MAP_FAILED;
			close(self->fd);
			self->fd = -1;
		}
	}
	unlink(self->path);
}

/* Task context: notes whose build ID is not valid, and one that is. */
TEST_F(faults, bad_notes)
{
	static const struct {
		const char *name;
		off_t at;
		int len, segment, found;
	} cases[] = {
		{ "control", 256, ID_SIZE, sizeof(struct elf_note), ID_SIZE },
		{ "longer than a build ID", 256, ID_SIZE + 1, sizeof(struct elf_note) + 4, 0 },
		{ "longer than its segment", 256, ID_SIZE, sizeof(struct elf_note) - 4, 0 },
		{ "above 4 GiB", (1LL << 32) + 256, ID_SIZE, sizeof(struct elf_note), 0 },
	};
	unsigned char id[ID_SIZE];
	struct elf_file elf;
	Elf64_Nhdr nhdr;
	int i;

	for (i = 0; i < (int)ARRAY_LEN(cases); i++) {
		new_file(_metadata, self, cases[i].at);
		ASSERT_EQ(sizeof(elf), pread(self->fd, &elf, sizeof(elf), 0));
		elf.phdr[0].p_filesz = cases[i].segment;
		ASSERT_EQ(sizeof(elf), pwrite(self->fd, &elf, sizeof(elf), 0));
		ASSERT_EQ(sizeof(nhdr), pread(self->fd, &nhdr, sizeof(nhdr), cases[i].at));
		nhdr.n_descsz = cases[i].len;
		ASSERT_EQ(sizeof(nhdr), pwrite(self->fd, &nhdr, sizeof(nhdr), cases[i].at));
		/* What follows the note is part of it. */
		ASSERT_EQ(4, pwrite(self->fd, "next", 4, cases[i].at + sizeof(struct elf_note)));
		map_file(_metadata, self, PAGE);
		EXPECT_EQ(cases[i].found, procmap_build_id(self->map, id))
			TH_LOG("%s", cases[i].name);
		munmap(self->map, self->map_size);
		self->map = MAP_FAILED;
		close(self->fd);
		self->fd = -1;
	}
	unlink(self->path);
}

/* Task context: a 32-bit program has a build ID on every kernel. */
TEST_F(faults, elf32)
{
	struct elf32_headers elf = elf32_headers(PT_LOAD, 0, 256);
	unsigned char id[ID_SIZE];

	new_file(_metadata, self, 256);
	ASSERT_EQ(sizeof(elf), pwrite(self->fd, &elf, sizeof(elf), 0));
	map_file(_metadata, self, PAGE);
	ASSERT_EQ(ID_SIZE, procmap_build_id(self->map, id));
	EXPECT_EQ(0, memcmp(id, self->id, ID_SIZE));
	/* Headers past the end of the file. */
	close(self->fd);
	self->fd = open(self->path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd);
	elf.ehdr.e_phoff = PAGE * 16;
	ASSERT_EQ(sizeof(elf), pwrite(self->fd, &elf, sizeof(elf), 0));
	EXPECT_EQ(0, procmap_build_id(self->map, id));
}

/* --- in the NMI --------------------------------------------------------------- */

FIXTURE(nmi)
{
	struct setting cache;
	struct buildid *skel;
	char dir[200], path[256];
	unsigned char id[ID_SIZE];
	void *lib, *header;
	struct spinner spinner;
	enum own_fs fs;		/* mounted at @dir */
	/* A child, which spins instead of the thread, and maps a file of a tmpfs. */
	pid_t child;
	struct spinner *in_child;
	char tmpfs[200];
};

FIXTURE_SETUP(nmi)
{
	if (access("/proc/sysrq-trigger", F_OK))
		SKIP(return, "needs CONFIG_MAGIC_SYSRQ");
	self->spinner.tid = -1;
	ASSERT_EQ(0, keep_switch(&self->cache));
	/* A page just written is in this CPU's batch, see page_out(). */
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, scratch_dir(self->dir, sizeof(self->dir)));
	snprintf(self->path, sizeof(self->path), "%s/libframe.so", self->dir);
	ASSERT_EQ(0, copy_file("libframe.so", self->path));
	ASSERT_EQ(ID_SIZE, libelf_build_id(self->path, self->id));
	self->skel = buildid__open();
	ASSERT_NE(NULL, self->skel);
	bpf_program__set_autoload(self->skel->progs.on_nmi, true);
}

FIXTURE_TEARDOWN(nmi)
{
	/* The thread may wait for it. */
	if (self->fs == FS_STALLING)
		fs_stall(false);
	if (self->spinner.tid > 0)
		spinner_stop(&self->spinner);
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		waitpid(self->child, NULL, 0);
	}
	if (self->tmpfs[0]) {
		umount2(self->tmpfs, MNT_DETACH);
		rmdir(self->tmpfs);
	}
	buildid__destroy(self->skel);
	if (self->lib)
		dlclose(self->lib);
	fs_unmount(self->fs, self->dir);
	rmdir(self->dir);
	setting_restore(&self->cache);
}

/* Maps the library, with a thread spinning in it. Returns the function, or NULL for a skip. */
static void *spin_in_mapped(struct __test_metadata *_metadata, FIXTURE_DATA(nmi) *self)
{
	void (*spin)(struct spinner *s);
	Dl_info info;

	self->lib = dlopen(self->path, RTLD_NOW);
	ASSERT_NE(NULL, self->lib);
	spin = dlsym(self->lib, "spin_in_library");
	ASSERT_NE(NULL, spin);
	ASSERT_NE(0, dladdr(spin, &info));
	self->header = info.dli_fbase;
	if (spinner_start_in(&self->spinner, 1, spin))
		SKIP(return NULL, "needs CPUs 0 and 1");
	return spin;
}

/* The same, with its header paged out. */
static void spin_in_library(struct __test_metadata *_metadata, FIXTURE_DATA(nmi) *self)
{
	if (spin_in_mapped(_metadata, self))
		ASSERT_EQ(0, page_out(self->header));
}

static void attach_nmi(struct __test_metadata *_metadata, FIXTURE_DATA(nmi) *self)
{
	self->skel->bss->target = self->spinner.tid;
	ASSERT_EQ(0, buildid__attach(self->skel));
}

/* Sends NMIs until @n more of them have hit the thread, or the child. */
static void sample(struct __test_metadata *_metadata, FIXTURE_DATA(nmi) *self, int n)
{
	int i, goal = self->skel->bss->nr_samples + n;

	ASSERT_GE(MAX_SAMPLES, goal);
	for (i = 0; i < 20 * n && READ_ONCE(self->skel->bss->nr_samples) < goal; i++) {
		spinner_wait(self->in_child ?: &self->spinner);
		ASSERT_EQ(0, nmi_to_other_cpus());
	}
	ASSERT_LE(goal, READ_ONCE(self->skel->bss->nr_samples));
}

static bool sample_is_valid(FIXTURE_DATA(nmi) *self, int n)
{
	struct bpf_stack_build_id *top = &self->skel->bss->samples[n][0];

	return is_valid(top) && !memcmp(top->build_id, self->id, ID_SIZE);
}

/* All stacks from number @from on have the build ID. */
static void expect_valid(struct __test_metadata *_metadata, FIXTURE_DATA(nmi) *self, int from)
{
	int i, n = self->skel->bss->nr_samples, valid = 0, last = -1;

	for (i = from; i < n; i++) {
		if (sample_is_valid(self, i))
			valid++;
		else
			last = i;
	}
	EXPECT_EQ(n - from, valid)
		TH_LOG("%d of %d stacks have the build ID, the header is %sresident; not %d",
		       valid, n - from, resident(self->header) ? "" : "not ", last - from);
}

/* The header was resident when the file was mapped, but not when it is needed. */
TEST_F(nmi, cold)
{
#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	ASSERT_EQ(0, buildid__load(self->skel));
	spin_in_library(_metadata, self);
	attach_nmi(_metadata, self);
	sample(_metadata, self, 20);

	expect_valid(_metadata, self, 0);
	EXPECT_FALSE(resident(self->header));
}

/* The memory of the page with the header failed, and tmpfs keeps the page. */
TEST_F(nmi, memory_error)
{
	int err, i, first, valid = 0;
	char header[PAGE];
	void *spin;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	err = fs_mount(FS_TMPFS, self->dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_TMPFS));
	ASSERT_EQ(0, err);
	self->fs = FS_TMPFS;
	ASSERT_EQ(0, copy_file("libframe.so", self->path));
	spin = spin_in_mapped(_metadata, self);
	if (!spin)
		return;
	ASSERT_LE((uintptr_t)self->header + PAGE, (uintptr_t)spin);
	ASSERT_EQ(0, buildid__load(self->skel));
	attach_nmi(_metadata, self);
	/* With PREEMPT_RT, NMIs do not read the page cache. */
	if (!is_preempt_rt()) {
		sample(_metadata, self, 5);
		expect_valid(_metadata, self, 0);
	}

	memcpy(header, self->header, PAGE);
	err = inject_memory_error(self->path);
	/* The dynamic linker needs a header. */
	ASSERT_EQ(self->header, mmap(self->header, PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	memcpy(self->header, header, PAGE);
	if (err == -EINVAL)
		SKIP(return, NEEDS_MEMORY_FAILURE);
	ASSERT_EQ(0, err);
	/* An NMI that started to count has finished by then. */
	spinner_wait(&self->spinner);
	first = self->skel->bss->nr_samples;
	sample(_metadata, self, 20);

	for (i = first; i < self->skel->bss->nr_samples; i++)
		valid += sample_is_valid(self, i);
	EXPECT_EQ(0, valid)
		TH_LOG("%d stacks have a build ID that was read from memory that failed", valid);
}

/* The cache was off when the file was mapped: the first sample requests a read. */
TEST_F(nmi, after_user_mode)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_nsec = UTIME_OMIT } };
	struct stat st;
	time_t end;
	int first;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	ASSERT_EQ(0, switch_cache(false));
	spin_in_library(_metadata, self);
	/* An atime before the mtime, so that a read would update it. */
	ASSERT_EQ(0, utimensat(AT_FDCWD, self->path, long_ago, 0));
	ASSERT_EQ(0, stat(self->path, &st));
	self->skel->bss->inode_nr = st.st_ino;
	ASSERT_EQ(0, switch_cache(true));
	bpf_program__set_autoload(self->skel->progs.on_page_read, true);
	ASSERT_EQ(0, buildid__load(self->skel));
	attach_nmi(_metadata, self);
	sample(_metadata, self, 1);
	/* Only the first one: another NMI may have hit the thread since. */
	EXPECT_FALSE(is_valid(&self->skel->bss->samples[0][0]));

	/*
	 * The return to user mode triggers readahead of the header; a disk may be busy.
	 * Without a cache, nothing does.
	 */
	end = time(NULL) + (has_cache() ? 10 * timeout_scale() : 1);
	do {
		spinner_wait(&self->spinner);
	} while (!resident(self->header) && time(NULL) < end);
	/* An NMI that started to count has finished by then. */
	spinner_wait(&self->spinner);
	/* With PREEMPT_RT, NMIs do not read the page cache: one more must request it. */
	if (is_preempt_rt())
		sample(_metadata, self, 1);
	first = self->skel->bss->nr_samples;
	sample(_metadata, self, 20);

	expect_valid(_metadata, self, first);
	/* Not by the thread itself: readahead can wait for storage. */
	EXPECT_EQ(0, self->skel->bss->pages_by_target);
	EXPECT_LT(0, self->skel->bss->pages_by_others);
	ASSERT_EQ(0, stat(self->path, &st));
	EXPECT_EQ(1, st.st_atim.tv_sec);
	/* Now it need not be resident. */
	ASSERT_EQ(0, page_out(self->header));
	first = self->skel->bss->nr_samples;
	sample(_metadata, self, 20);
	expect_valid(_metadata, self, first);
}

/* For a read to get to the device or back: a disk may be busy. */
#define DEVICE_SECONDS (10 * timeout_scale())

/* Enough rounds of the spinner, with its CPU busy for some of the time. */
#define MANY_ROUNDS 1000000UL

/* Waits for @n rounds of the spinner. Returns the number in the end: it may be stuck. */
static unsigned long wait_for_rounds(const struct spinner *s, unsigned long n)
{
	const time_t end = time(NULL) + DEVICE_SECONDS;
	unsigned long start = READ_ONCE(s->rounds), rounds;

	do {
		sched_yield();
		rounds = READ_ONCE(s->rounds) - start;
	} while (rounds < n && time(NULL) < end);
	return rounds;
}

/* Waits for a read of the stalled device. Without a cache, nothing reads the header. */
static off_t wait_for_stalled_read(void)
{
	const time_t end = time(NULL) + (has_cache() ? DEVICE_SECONDS : 1);

	while (fs_stalled_read() < 0 && time(NULL) < end)
		sched_yield();
	return fs_stalled_read();
}

/*
 * The storage does not answer when the header is read. The thread, which has real-time
 * priority and all other pages locked, still returns to user mode each time.
 */
TEST_F(nmi, storage_stalls)
{
	const struct sched_param fifo = { .sched_priority = 1 };
	unsigned long rounds, start;
	struct stat st;
	int first, err;
	off_t read_at;
	time_t end;
	long waits;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	err = fs_mount(FS_STALLING, self->dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	self->fs = FS_STALLING;
	ASSERT_EQ(0, stat(self->path, &st));
	ASSERT_EQ(0, switch_cache(false));
	spin_in_library(_metadata, self);
	ASSERT_EQ(0, mlockall(MCL_CURRENT));
	ASSERT_EQ(0, munlock(self->header, PAGE));
	ASSERT_EQ(0, page_out(self->header));
	ASSERT_EQ(0, sched_setscheduler(self->spinner.tid, SCHED_FIFO, &fifo));
	ASSERT_EQ(0, switch_cache(true));
	ASSERT_EQ(0, buildid__load(self->skel));
	attach_nmi(_metadata, self);
	waits = proc_status(self->spinner.tid, "voluntary_ctxt_switches");
	ASSERT_LE(0, waits);
	fs_stall(true);
	sample(_metadata, self, 1);

	read_at = wait_for_stalled_read();
	ASSERT_LE(0, read_at)
		TH_LOG("no read waits for the device");
	EXPECT_LT(read_at, st.st_size);

	start = READ_ONCE(self->spinner.rounds);
	rounds = wait_for_rounds(&self->spinner, MANY_ROUNDS);
	ASSERT_LE(MANY_ROUNDS, rounds)
		TH_LOG("%lu rounds in user mode: the thread waits for the device", rounds);
	/* Each of these requests the read again. */
	first = self->skel->bss->nr_samples;
	sample(_metadata, self, 20);
	rounds = wait_for_rounds(&self->spinner, MANY_ROUNDS);
	EXPECT_LE(MANY_ROUNDS, rounds);
	/* With PREEMPT_RT, a spinlock can put it to sleep as well. */
	if (!is_preempt_rt())
		EXPECT_EQ(waits, proc_status(self->spinner.tid, "voluntary_ctxt_switches"));
	for (; first < self->skel->bss->nr_samples; first++)
		EXPECT_FALSE(is_valid(&self->skel->bss->samples[first][0]));
	/* All of this before the read was answered. */
	ASSERT_EQ(read_at, fs_stalled_read());
	ASSERT_FALSE(resident(self->header));
	TH_LOG("%lu rounds in user mode, 20 NMIs, %ld waits, and the read at %ld not answered",
	       READ_ONCE(self->spinner.rounds) - start,
	       proc_status(self->spinner.tid, "voluntary_ctxt_switches") - waits,
	       (long)read_at);

	fs_stall(false);
	end = time(NULL) + DEVICE_SECONDS;
	while (!resident(self->header) && time(NULL) < end)
		sched_yield();
	/* With PREEMPT_RT, NMIs do not read the page cache: one more must request it. */
	if (is_preempt_rt())
		sample(_metadata, self, 1);
	first = self->skel->bss->nr_samples;
	sample(_metadata, self, 20);
	expect_valid(_metadata, self, first);
}

/* In the child: its own mapping of the library has the header paged out. */
static void spin_in_child(FIXTURE_DATA(nmi) *self)
{
	struct spinner once = { .stop = true };
	void (*spin)(struct spinner *s);
	char path[256];
	Dl_info info;
	void *lib;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/file", self->tmpfs);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED || close(fd))
		return;
	lib = dlopen(self->path, RTLD_NOW);
	spin = lib ? dlsym(lib, "spin_in_library") : NULL;
	if (!spin || !dladdr(spin, &info))
		return;
	/* Reads in the code. */
	spin(&once);
	if (page_out(info.dli_fbase) || pin_to_cpu(1))
		return;
	spin(self->in_child);
}

/*
 * The sampled task ends while its header is being read. Its memory and the other files
 * that it has mapped do not wait for the storage.
 */
TEST_F(nmi, exit_while_reading)
{
	char path[256];
	off_t read_at;
	time_t end;
	int err;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs CPUs 0 and 1");
	err = fs_mount(FS_STALLING, self->dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	self->fs = FS_STALLING;
	ASSERT_EQ(0, scratch_dir(self->tmpfs, sizeof(self->tmpfs)));
	err = fs_mount(FS_TMPFS, self->tmpfs);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_TMPFS));
	ASSERT_EQ(0, err);
	snprintf(path, sizeof(path), "%s/file", self->tmpfs);
	ASSERT_EQ(0, fs_new_page(path));

	ASSERT_EQ(0, switch_cache(false));
	self->in_child = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			      -1, 0);
	ASSERT_NE(MAP_FAILED, self->in_child);
	self->child = fork();
	if (!self->child) {
		spin_in_child(self);
		_exit(1);
	}
	ASSERT_LT(0, self->child);
	end = time(NULL) + DEVICE_SECONDS;
	while (!READ_ONCE(self->in_child->rounds) && time(NULL) < end)
		sched_yield();
	ASSERT_LT(0, READ_ONCE(self->in_child->rounds));
	ASSERT_EQ(0, switch_cache(true));
	ASSERT_EQ(0, buildid__load(self->skel));
	self->skel->bss->target = self->child;
	ASSERT_EQ(0, buildid__attach(self->skel));
	fs_stall(true);
	sample(_metadata, self, 1);
	read_at = wait_for_stalled_read();
	ASSERT_LE(0, read_at)
		TH_LOG("no read waits for the device");
	ASSERT_EQ(-1, umount(self->tmpfs));
	ASSERT_EQ(EBUSY, errno);

	ASSERT_EQ(0, kill(self->child, SIGKILL));
	ASSERT_EQ(self->child, waitpid(self->child, NULL, 0));
	self->child = 0;
	err = umount(self->tmpfs) ? -errno : 0;
	EXPECT_EQ(0, err)
		TH_LOG("a file is still mapped by a task that has ended: %s", strerror(-err));
	/* All of this before the read was answered. */
	ASSERT_EQ(read_at, fs_stalled_read());
}

static bool storm_stop;

/* On CPU 0, preempted by the sender of NMIs, with or without mmap_lock held. */
static void *map_and_unmap(void *arg)
{
	bool *failed = arg;
	void *p;
	int i;

	while (!READ_ONCE(storm_stop) && !*failed) {
		p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		*failed = p == MAP_FAILED || munmap(p, 64 * PAGE);
		/* Also run long enough without the lock. */
		for (i = 0; i < 8; i++)
			getppid();
	}
	return NULL;
}

/* Enough samples, of both kinds, or as many as there is room for. */
static bool has_both_kinds(const FIXTURE_DATA(nmi) *self, int samples)
{
	int n = READ_ONCE(self->skel->bss->nr_samples), changing = 0, i;

	if (n < samples || n >= MAX_SAMPLES)
		return n >= samples;
	for (i = 0; i < n; i++)
		changing += self->skel->bss->changing[i];
	return changing && changing < n;
}

/*
 * Another thread of the process maps and unmaps. Build IDs are missing only
 * while it changes mappings.
 */
TEST_F(nmi, writer)
{
	const struct sched_param fifo = { .sched_priority = 1 };
	int valid = 0, changing = 0, missing = 0, samples = storm_count(MAX_SAMPLES), i;
	bool failed = false;
	pthread_t writer;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	if (samples < 100)
		samples = 100;
	ASSERT_EQ(0, buildid__load(self->skel));
	spin_in_library(_metadata, self);
	attach_nmi(_metadata, self);
	storm_stop = false;
	ASSERT_EQ(0, pthread_create(&writer, NULL, map_and_unmap, &failed));
	/* From here on, this thread preempts the writer on CPU 0 at any point. */
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &fifo));
	/* The harness times out if the samples never come. */
	for (i = 0; !has_both_kinds(self, samples); i++) {
		struct timespec ts = { .tv_nsec = 200000 + i * 7919 % 100000 };

		/* All of one kind: on a slow CPU, the writer hardly runs in this time. */
		if (i > samples)
			ts.tv_nsec *= 20;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		ASSERT_EQ(0, nmi_to_other_cpus());
	}
	WRITE_ONCE(storm_stop, true);
	pthread_join(writer, NULL);
	ASSERT_FALSE(failed);

	ASSERT_LE(samples, self->skel->bss->nr_samples);
	samples = self->skel->bss->nr_samples;
	for (i = 0; i < samples; i++) {
		bool is_there = sample_is_valid(self, i);

		valid += is_there;
		changing += self->skel->bss->changing[i];
		missing += !is_there && !self->skel->bss->changing[i];
	}
	ASSERT_LT(0, changing);
	ASSERT_LT(changing, samples);
	EXPECT_EQ(0, missing)
		TH_LOG("%d stacks have no build ID though nobody was changing mappings", missing);
	EXPECT_FALSE(resident(self->header));
	TH_LOG("%d NMIs: %d while a thread held mmap_lock for writing, %d stacks with the build ID",
	       samples, changing, valid);
}

/* --- the cache ------------------------------------------------------------------ */

/* Counts cache events of the fixture's file. Loading switches the cache on. */
static void count_events(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	bpf_program__set_autoload(self->skel->progs.on_build_id_parse, true);
	bpf_program__set_autoload(self->skel->progs.on_build_id_hit, true);
	bpf_program__set_autoload(self->skel->progs.on_build_id_fill, true);
	bpf_program__set_autoload(self->skel->progs.on_failed_fill, true);
	bpf_program__set_autoload(self->skel->progs.on_build_id_invalidate, true);
	bpf_program__set_autoload(self->skel->progs.on_queue_work, true);
	bpf_program__set_autoload(self->skel->progs.on_task_work_add, true);
	bpf_program__set_autoload(self->skel->progs.on_work_done, true);
	bpf_program__set_autoload(self->skel->progs.on_opflags, true);
	/* Each attached by one test only: the first one slows each allocation down. */
	bpf_program__set_autoload(self->skel->progs.on_entry_alloc, true);
	bpf_program__set_autoattach(self->skel->progs.on_entry_alloc, false);
	bpf_program__set_autoload(self->skel->progs.on_sleepable_deep, true);
	bpf_program__set_autoattach(self->skel->progs.on_sleepable_deep, false);
	bpf_program__set_autoload(self->skel->progs.on_sleepable, true);
	bpf_program__set_autoload(self->skel->progs.on_sys_enter, true);
	ASSERT_EQ(0, buildid__load(self->skel));
	ASSERT_EQ(0, buildid__attach(self->skel));
}

FIXTURE(cache)
{
	FIXTURE_DATA(faults) f;
};

FIXTURE_SETUP(cache)
{
	if (!has_cache())
		SKIP(return, "this kernel keeps no build IDs");
	new_fixture(_metadata, &self->f);
	count_events(_metadata, &self->f);
}

FIXTURE_TEARDOWN(cache)
{
	if (self->f.skel)
		free_fixture(&self->f);
}

/* Task context, sleepable or not: a cached file's headers are not read. */
TEST_F(cache, known_file)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	int i;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);
	ASSERT_EQ(1, events->parses);

	for (i = 0; i < 10; i++) {
		ASSERT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		ASSERT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		syscall_called_from(self->f.map + 16, SYS_getppid, 0, 0, 0);
		ASSERT_TRUE(is_valid(&self->f.skel->bss->samples[2 * i][1]));
		sample_sleepable_called_from(self->f.map + 16);
		ASSERT_TRUE(is_valid(&self->f.skel->bss->samples[2 * i + 1][1]));
	}
	EXPECT_EQ(1, events->parses);
	EXPECT_EQ(30, events->hits);
}

/* How a build ID is read or cached. */
enum asking { QUERY, SLEEPABLE, NOT_SLEEPABLE, MAPPING };

FIXTURE(fail_nth)
{
	FIXTURE_DATA(faults) f;
	struct faults faults;
};

FIXTURE_VARIANT(fail_nth)
{
	enum asking how;
};

FIXTURE_VARIANT_ADD(fail_nth, query) { .how = QUERY };
FIXTURE_VARIANT_ADD(fail_nth, sleepable) { .how = SLEEPABLE };
FIXTURE_VARIANT_ADD(fail_nth, not_sleepable) { .how = NOT_SLEEPABLE };
FIXTURE_VARIANT_ADD(fail_nth, mapping) { .how = MAPPING };

FIXTURE_SETUP(fail_nth)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (!has_cache())
		SKIP(return, "this kernel keeps no build IDs");
	if (faults_open(&self->faults))
		SKIP(return, NEEDS_FAULT_INJECTION);
	new_fixture(_metadata, &self->f);
	count_events(_metadata, &self->f);
}

FIXTURE_TEARDOWN(fail_nth)
{
	if (!self->f.skel)
		return;
	faults_close(&self->faults);
	free_fixture(&self->f);
}

/* The length of the build ID found @at, 0 for none, or an error of a system call. */
static int ask(FIXTURE_DATA(faults) *f, const char *at, enum asking how, unsigned char *id)
{
	const struct bpf_stack_build_id *caller = &f->skel->bss->samples[0][1];
	char *map;

	f->skel->bss->nr_samples = 0;
	switch (how) {
	case QUERY:
		return procmap_build_id(at, id);
	case MAPPING:
		map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, f->fd, 0);
		if (map == MAP_FAILED)
			return -errno;
		munmap(map, PAGE);
		return 0;
	case SLEEPABLE:
		sample_sleepable_called_from(at + 16);
		break;
	case NOT_SLEEPABLE:
		syscall_called_from(at + 16, SYS_getppid, 0, 0, 0);
		break;
	}
	if (!f->skel->bss->nr_samples || !is_valid(caller))
		return 0;
	memcpy(id, caller->build_id, ID_SIZE);
	return ID_SIZE;
}

/*
 * Task context: a fault in each allocation and copy of a build ID lookup. The result is
 * never wrong; a build ID that could not be cached is cached the next time.
 */
TEST_F(fail_nth, ask)
{
	struct cache_events *events = &self->f.skel->bss->events;
	int len, answers = 0, errors = 0, not_kept = 0;
	unsigned long long fills, hits;
	unsigned char id[ID_SIZE];
	bool hit;

	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	/* Allocate per-task state first: it is not tested here. */
	ask(&self->f, self->f.map, variant->how, id);
	do {
		/* Drops the cached build ID. */
		close(open(self->f.path, O_WRONLY | O_CLOEXEC));
		fills = events->fills;
		memset(id, 0, sizeof(id));
		fault_arm(&self->faults);
		len = ask(&self->f, self->f.map, variant->how, id);
		hit = fault_hit(&self->faults);
		if (len < 0) {
			errors++;
			EXPECT_TRUE(hit && (len == -ENOMEM || len == -EFAULT))
				TH_LOG("%s at fault %u", strerror(-len), self->faults.nth);
		} else if (len) {
			answers++;
			EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		} else {
			EXPECT_TRUE(hit || variant->how == MAPPING);
		}
		not_kept += hit && len >= 0 && events->fills == fills;

		ASSERT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		ASSERT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		hits = events->hits;
		ASSERT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		ASSERT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		EXPECT_EQ(hits + 1, events->hits);
	} while (hit);
	TH_LOG("%u faults: %d errors, %d answers; %d times it was not kept",
	       self->faults.nth - 1, errors, answers, not_kept);
	EXPECT_LT(0, not_kept);
}

/* Task context: a file open for write is read each time, as without a cache. */
TEST_F(cache, open_for_write)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	int fd;

	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);

	fd = open(self->f.path, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(1, events->invalidations);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->fills);
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(3, events->parses);
	close(fd);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(2, events->fills);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->hits);
}

/*
 * Task context: a writer that removes an entry clears the flag in the inode after that. A
 * second writer that does not see the flag does not wait for the first one.
 */
TEST_F(cache, flag_cleared_last)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct bpf_link *link;

	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, bss->events.fills);
	link = watch_memory(self->f.skel->progs.on_opflags, bss->opflags, HW_BREAKPOINT_W,
			    HW_BREAKPOINT_LEN_2);
	if (!link && errno == ENOENT)
		SKIP(return, "needs CONFIG_HAVE_HW_BREAKPOINT");
	ASSERT_NE(NULL, link)
		TH_LOG("breakpoint: %s", strerror(errno));
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	bpf_link__destroy(link);
	ASSERT_EQ(1, bss->events.invalidations);
	ASSERT_LE(1, bss->flag_clears);
	EXPECT_EQ(1, bss->invalidations_before_clear)
		TH_LOG("the flag was cleared while the entry was in the table");
	EXPECT_EQ(1, bss->flag_clears);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Task context: only a mapping that can be executed caches the build ID of its file. */
TEST_F(cache, mapped_to_read)
{
	struct cache_events *events = &self->f.skel->bss->events;
	void *map;

	new_file(_metadata, &self->f, 256);
	/* Files that are open for write are not cached. */
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(0, events->fills);
	munmap(map, PAGE);
	map_file(_metadata, &self->f, PAGE);
	EXPECT_EQ(1, events->fills);
}

/*
 * Task context: an entry from before a change of ctime is not used, and is replaced,
 * though nobody opened the file for write.
 */
TEST_F(cache, changed_ctime)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	struct stat before, st;

	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);
	ASSERT_EQ(0, stat(self->f.path, &before));
	/* Until the clock of the file system has moved: most often within the same second. */
	do {
		ASSERT_EQ(0, chmod(self->f.path, 0700));
		ASSERT_EQ(0, stat(self->f.path, &st));
	} while (same_time(&st.st_ctim, &before.st_ctim));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(2, events->fills);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->hits);
	EXPECT_EQ(0, events->invalidations);
}

/*
 * Task context, not sleepable: two stacks in one system call lack build IDs of two files,
 * one of them in both stacks. Each file is requested once. A request that
 * was served does not prevent the next one.
 */
TEST_F(cache, requested_once)
{
	struct buildid__bss *bss = self->f.skel->bss;
	char other[sizeof(self->f.path)];
	char *first, *second;
	time_t end;
	int fd;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	new_file(_metadata, &self->f, 256);
	snprintf(other, sizeof(other), "%s/other", self->f.dir);
	ASSERT_EQ(0, copy_file(self->f.path, other));
	/* The mapping keeps the open file: if that could write, nothing would be requested. */
	fd = open(other, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	second = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, second);
	close(fd);
	map_file(_metadata, &self->f, PAGE);
	first = self->f.map;
	ASSERT_EQ(0, page_out(first));
	ASSERT_EQ(0, page_out(second));
	/* Removes the entries that were added when the files were mapped. */
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	close(open(other, O_WRONLY | O_CLOEXEC));
	bss->aheads = 0;
	bss->stack_of_callers = true;
	syscall_called_by(first + 16, second + 16, SYS_getppid);
	bss->stack_of_callers = false;

	ASSERT_EQ(1, bss->nr_samples);
	ASSERT_FALSE(is_valid(&bss->samples[0][1]));
	ASSERT_FALSE(is_valid(&bss->deep[1]));
	ASSERT_EQ(1, bss->events.fills);
	EXPECT_EQ(2, bss->aheads)
		TH_LOG("%d reads ahead for two files", bss->aheads);
	/* As soon as the page has been read, the same request fills the entry. */
	end = time(NULL) + 10 * timeout_scale();
	do {
		bss->nr_samples = 0;
		syscall_called_from(first + 16, SYS_getppid, 0, 0, 0);
	} while (bss->events.fills < 2 && time(NULL) < end);
	EXPECT_EQ(2, bss->events.fills);
	munmap(second, PAGE);
}

/* Frames in one mapping request its build ID once, also where each looks the mapping up. */
TEST_F(cache, requested_once_per_mapping)
{
	struct buildid__bss *bss = self->f.skel->bss;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(0, page_out(self->f.map));
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	bss->requests = 0;
	bss->stack_of_callers = true;
	syscall_called_by(self->f.map + 16, self->f.map + 32, SYS_getppid);
	bss->stack_of_callers = false;

	ASSERT_EQ(1, bss->nr_samples);
	ASSERT_FALSE(is_valid(&bss->deep[0]));
	ASSERT_FALSE(is_valid(&bss->deep[1]));
	EXPECT_EQ(1, bss->requests)
		TH_LOG("%d requests for one mapping", bss->requests);
}

/*
 * Task context, may sleep: all build IDs are cached. A frame at an address where nothing is
 * mapped is between others. That says nothing about the mapping of the frame before it, which
 * is looked up again after those of two other files.
 */
TEST_F(cache, unmapped_frame)
{
	static const int files[DEEP_FRAMES - 1] = { 0, -1, 1, 2, 0 };
	const struct bpf_stack_build_id *frame = self->f.skel->bss->deep + 1;
	struct cache_events *events = &self->f.skel->bss->events;
	const void *callers[ARRAY_LEN(files)];
	unsigned char ids[3][ID_SIZE];
	char *maps[3], *hole;
	struct bpf_link *link;
	int i;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	link = bpf_program__attach(self->f.skel->progs.on_sleepable_deep);
	ASSERT_NE(NULL, link);
	/* The first one last: its events are counted. */
	for (i = 2; i >= 0; i--) {
		memset(self->f.id, i + 1, ID_SIZE);
		memcpy(ids[i], self->f.id, ID_SIZE);
		snprintf(self->f.path, sizeof(self->f.path), "%s/%d", self->f.dir, i);
		new_file(_metadata, &self->f, 256);
		map_file(_metadata, &self->f, PAGE);
		maps[i] = self->f.map;
		if (i)
			close(self->f.fd);
	}
	ASSERT_EQ(3, events->fills);
	ASSERT_EQ(0, events->hits);
	hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, hole);
	ASSERT_EQ(0, munmap(hole, PAGE));
	for (i = 0; i < (int)ARRAY_LEN(files); i++)
		callers[i] = (files[i] < 0 ? hole : maps[files[i]]) + 16 * (i + 1);

	sample_sleepable_called_by(callers, ARRAY_LEN(callers));

	bpf_link__destroy(link);
	/* The first frame's in both stacks that were taken here, and the last one's. */
	EXPECT_EQ(3, events->hits);
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		ASSERT_EQ(files[i] >= 0, is_valid(frame + i))
			TH_LOG("caller %d", i);
		if (files[i] < 0)
			continue;
		EXPECT_EQ(16 * (i + 1), frame[i].offset);
		EXPECT_EQ(0, memcmp(frame[i].build_id, ids[files[i]], ID_SIZE));
	}
	for (i = 1; i < 3; i++)
		munmap(maps[i], PAGE);
}

/*
 * Task context: each mapping of a page takes a reference, a pin takes as many as
 * this file has mappings. It is still cached.
 */
TEST_F(cache, mapped_often)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	char *maps[1200];
	int i;

	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	/* Not executable: mapping them reads no build ID. */
	for (i = 0; i < (int)ARRAY_LEN(maps); i++) {
		maps[i] = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, self->f.fd, 0);
		ASSERT_NE(MAP_FAILED, maps[i]);
		ASSERT_TRUE(resident(maps[i]));
	}
	ASSERT_EQ(0, events->parses);
	map_file(_metadata, &self->f, PAGE);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	EXPECT_EQ(1, events->hits);
	EXPECT_EQ(1, events->parses);
	for (i = 0; i < (int)ARRAY_LEN(maps); i++)
		munmap(maps[i], PAGE);
}

/* Fills pipes with 600 references to the first page of a file. */
static int fill_pipes(int fd, int pipes[3][2])
{
	int i, n;

	for (i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) || fcntl(pipes[i][1], F_SETPIPE_SZ, 256 * PAGE) < 0)
			return -errno;
	for (n = 0; n < 600; n++) {
		loff_t pos = 0;

		if (splice(fd, &pos, pipes[n / 256][1], NULL, 1, 0) != 1)
			return -errno;
	}
	return 0;
}

/* Maps a file whose build ID cannot be kept until the pipes are closed. */
static void map_file_in_pipes(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *f,
			      int pipes[3][2])
{
	new_file(_metadata, f, 256);
	close(f->fd);
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, f->fd);
	ASSERT_EQ(0, fill_pipes(f->fd, pipes));
	map_file(_metadata, f, PAGE);
}

static void close_pipes(int pipes[3][2])
{
	int i;

	for (i = 0; i < 3; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

/*
 * Task context: pipes that hold 600 references to a page look like a pin of a device.
 * The file is read each time, correctly, and kept once the pipes are closed. The page
 * is there: nothing reads it ahead.
 */
TEST_F(cache, full_pipes)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	int pipes[3][2], i;

	map_file_in_pipes(_metadata, &self->f, pipes);
	for (i = 0; i < 3; i++) {
		memset(id, 0, ID_SIZE);
		EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		ASSERT_EQ(0, ask(&self->f, self->f.map, MAPPING, id));
	}
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(0, events->fills);
	/* One parse for each time that it was mapped, and three for each query. */
	EXPECT_EQ(4 + 3 * 3, events->parses);
	EXPECT_EQ(0, self->f.skel->bss->aheads)
		TH_LOG("%d times, a page that is there was read ahead", self->f.skel->bss->aheads);
	close_pipes(pipes);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->hits);
}

/*
 * On the way to user mode: a stack that a program takes while a request is served makes no
 * further request. If the file cannot be kept, the task would never get there.
 */
TEST_F(cache, requested_while_served)
{
	struct buildid__bss *bss = self->f.skel->bss;
	unsigned char id[ID_SIZE];
	int pipes[3][2];

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	map_file_in_pipes(_metadata, &self->f, pipes);
	/* The file of the innermost frame must not be requested. */
	procmap_build_id(procmap_build_id, id);
	bss->requests = 0;
	bss->stack_at_failed_fill = true;
	syscall_called_from(self->f.map + 16, SYS_getppid, 0, 0, 0);
	bss->stack_at_failed_fill = false;

	/* At the system call, and in the only fill. */
	EXPECT_EQ(2, bss->nr_samples);
	EXPECT_EQ(1, bss->requests)
		TH_LOG("%d requests after one sample", bss->requests);
	ASSERT_EQ(0, bss->events.fills);
	close_pipes(pipes);
}

/*
 * Entry of exit_group(), not sleepable: the file of the caller is requested. The task serves
 * that when it has released its memory, and cannot know the file any more.
 */
TEST_F(cache, requested_at_exit)
{
	struct buildid__bss *bss = self->f.skel->bss;
	unsigned char id[ID_SIZE];
	int status = -1;
	pid_t child;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, bss->events.fills);
	/* Removes the entry. */
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	/* The file of the innermost frame must not be requested. */
	procmap_build_id(procmap_build_id, id);
	bss->requests = 0;
	bss->sample_nr = SYS_exit_group;
	child = fork();
	if (!child) {
		bss->target = gettid();
		syscall_called_from(self->f.map + 16, SYS_exit_group, 0, 0, 0);
	}
	ASSERT_LT(0, child);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	bss->target = gettid();
	bss->sample_nr = SYS_getppid;

	EXPECT_EQ(0, status);
	ASSERT_EQ(1, bss->nr_samples);
	ASSERT_EQ(1, bss->requests);
	EXPECT_EQ(1, bss->events.fills);
	/* Nothing of the request is left. */
	syscall_called_from(self->f.map + 16, SYS_getppid, 0, 0, 0);
	EXPECT_EQ(2, bss->requests);
	EXPECT_EQ(2, bss->events.fills);
}

/*
 * Task context, not sleepable: a stack taken while its caller's file is read for the
 * first time has the build ID of that file, not that of an entry without one.
 */
TEST_F(cache, pending)
{
	struct buildid__bss *bss = self->f.skel->bss;
	unsigned char id[ID_SIZE];
	struct procmap_query query = {
		.size = sizeof(query), .build_id_size = ID_SIZE, .build_id_addr = (uintptr_t)id,
	};
	int maps, writer;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, maps);
	new_file(_metadata, &self->f, 256);
	/* Not read when it is mapped. */
	writer = open(self->f.path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, writer);
	map_file(_metadata, &self->f, PAGE);
	close(writer);
	ASSERT_EQ(0, bss->events.fills);
	query.query_addr = (uintptr_t)self->f.map;
	bss->stack_at_parse = true;
	ASSERT_EQ(0, syscall_called_from(self->f.map + 16, SYS_ioctl, maps, PROCMAP_QUERY,
					 (long)&query));
	bss->stack_at_parse = false;
	close(maps);
	ASSERT_EQ(1, bss->nr_samples);
	ASSERT_EQ(1, bss->events.fills);
	EXPECT_TRUE(is_valid(&bss->samples[0][1]));
	EXPECT_EQ(0, memcmp(bss->samples[0][1].build_id, self->f.id, ID_SIZE));
}

struct direct_read {
	int fd;
	void *buf;
	pid_t tid;
	ssize_t result;
};

static void *direct_read(void *arg)
{
	struct direct_read *d = arg;

	__atomic_store_n(&d->tid, gettid(), __ATOMIC_SEQ_CST);
	d->result = read(d->fd, d->buf, PAGE);
	return NULL;
}

/* Is this thread waiting? */
static bool is_waiting(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S' || state == 'D';
}

/*
 * Task context: a page that a device may be writing to, of a file no longer open for
 * write. Its contents are not cached before the device is done.
 */
static void pinned(struct __test_metadata *_metadata, FIXTURE_DATA(cache) *self, bool large)
{
	struct cache_events *events = &self->f.skel->bss->events;
	struct direct_read d = {};
	unsigned char id[ID_SIZE];
	char dir[256], path[300];
	pthread_t thread;
	int i, err;

	/*
	 * A server that never answers acts as a slow device. It must not inherit the file,
	 * which is open for write.
	 */
	snprintf(dir, sizeof(dir), "%s/fuse", self->f.dir);
	snprintf(path, sizeof(path), "%s/file", dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	ASSERT_EQ(0, fs_new_page(path));
	err = fs_mount(FS_FUSE_HUNG, dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE));
	ASSERT_EQ(0, err);

	new_file(_metadata, &self->f, 256);
	if (large)
		make_large_folio(_metadata, &self->f);
	d.buf = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, d.buf);
	*(volatile char *)d.buf = *(volatile char *)d.buf;
	/* Is the second page in the same folio? */
	READ_ONCE(*(char *)(d.buf + PAGE));
	if (large && !is_folio_tail(d.buf + PAGE)) {
		fs_unmount(FS_FUSE_HUNG, dir);
		rmdir(dir);
		SKIP(return, NEEDS_LARGE_FOLIO);
	}
	ASSERT_EQ(large, is_folio_tail(d.buf + PAGE));
	d.fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, d.fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, direct_read, &d));
	while (!__atomic_load_n(&d.tid, __ATOMIC_SEQ_CST) || !is_waiting(d.tid))
		sched_yield();
	munmap(d.buf, 2 * PAGE);

	map_file(_metadata, &self->f, PAGE);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	}
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(0, events->fills);

	/* Ends the read. */
	umount2(dir, MNT_FORCE);
	pthread_join(thread, NULL);
	EXPECT_EQ(-1, d.result);
	close(d.fd);
	EXPECT_EQ(0, fs_unmount(FS_FUSE_HUNG, dir));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->fills);
	EXPECT_EQ(1, events->hits);
	rmdir(dir);
}

TEST_F(cache, pinned)
{
	pinned(_metadata, self, false);
}

/* Large folios count their pins apart from references. */
TEST_F(cache, pinned_large_folio)
{
	pinned(_metadata, self, true);
}

/* As in lib/buildid_cache.c. */
#define AHEAD_MAX 8

/* Number of reads that the file's device has not finished, or -1. */
static int nr_reads(int fd)
{
	char path[64];
	struct stat st;
	int reads;
	FILE *f;

	if (fstat(fd, &st))
		return -1;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/inflight", major(st.st_dev),
		 minor(st.st_dev));
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &reads) != 1)
		reads = -1;
	fclose(f);
	return reads;
}

/* Waits until the page is resident. */
static bool gets_resident(void *page)
{
	const time_t end = time(NULL) + DEVICE_SECONDS;

	while (!resident(page) && time(NULL) < end)
		sched_yield();
	return resident(page);
}

/*
 * Task context: files are mapped while their storage does not answer. mmap() does not wait
 * for it, and a limited number of workers does. Afterwards, as many can read again.
 */
TEST_F(cache, storage_stalls)
{
	char *maps[2 * AHEAD_MAX + 1], path[256];
	int fds[ARRAY_LEN(maps)], i, err;
	time_t end;

	/* All requests from here: workers start in the order of these. */
	ASSERT_EQ(0, pin_to_cpu(0));
	for (i = 0; i < (int)ARRAY_LEN(maps); i++) {
		snprintf(path, sizeof(path), "%s/%d", self->f.dir, i);
		fds[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
		ASSERT_LE(0, fds[i]);
		memset(self->f.id, i, ID_SIZE);
		ASSERT_EQ(0, write_elf(fds[i], self->f.id, 256));
		close(fds[i]);
	}
	err = use_fs(&self->f, FS_STALLING);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	for (i = 0; i < (int)ARRAY_LEN(maps); i++) {
		snprintf(path, sizeof(path), "%s/%d", self->f.dir, i);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, fds[i]);
	}

	fs_stall(true);
	for (i = 0; i < 2 * AHEAD_MAX; i++) {
		maps[i] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fds[i], 0);
		ASSERT_NE(MAP_FAILED, maps[i]);
	}
	end = time(NULL) + DEVICE_SECONDS;
	while ((nr_reads(fds[0]) < AHEAD_MAX || fs_stalled_read() < 0) && time(NULL) < end)
		sched_yield();
	EXPECT_EQ(AHEAD_MAX, nr_reads(fds[0]));
	ASSERT_LE(0, fs_stalled_read());
	fs_stall(false);

	for (i = 0; i < AHEAD_MAX; i++)
		EXPECT_TRUE(gets_resident(maps[i]));
	maps[2 * AHEAD_MAX] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
				   fds[2 * AHEAD_MAX], 0);
	ASSERT_NE(MAP_FAILED, maps[2 * AHEAD_MAX]);
	EXPECT_TRUE(gets_resident(maps[2 * AHEAD_MAX]))
		TH_LOG("no worker reads any more");
	/* These were requested before, when all workers waited. */
	for (i = AHEAD_MAX; i < 2 * AHEAD_MAX; i++)
		EXPECT_FALSE(resident(maps[i]))
			TH_LOG("read %d was one too many", i);
	for (i = 0; i < (int)ARRAY_LEN(maps); i++) {
		munmap(maps[i], PAGE);
		close(fds[i]);
	}
}

/* Waits for a flag of a BPF program. */
static bool gets_true(const bool *flag)
{
	const time_t end = time(NULL) + DEVICE_SECONDS;

	while (!READ_ONCE(*flag) && time(NULL) < end)
		sched_yield();
	return READ_ONCE(*flag);
}

/*
 * Task context: the page with the headers is being read, and its storage does not answer.
 * Another request for it does not keep a second worker.
 */
TEST_F(cache, read_twice)
{
	struct buildid__bss *bss = self->f.skel->bss;
	char *maps[2];
	int err;

	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = -1;
	err = fs_mount(FS_STALLING, self->f.dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	self->f.fs = FS_STALLING;
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	fs_stall(true);
	maps[0] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, maps[0]);
	ASSERT_LE(0, wait_for_stalled_read());
	ASSERT_EQ(1, bss->aheads);
	ASSERT_FALSE(bss->ahead_ran);

	maps[1] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, maps[1]);
	ASSERT_EQ(2, bss->aheads);
	EXPECT_TRUE(gets_true(&bss->ahead_ran))
		TH_LOG("the second worker waits for the first one's read");
	EXPECT_LE(0, fs_stalled_read());
	munmap(maps[0], PAGE);
	munmap(maps[1], PAGE);
}

/*
 * Maps a file whose first page is cached in part: of its blocks, only the one with the
 * headers. Returns false for a skip. Leaves the cache switched off.
 */
static bool map_cached_in_part(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	char block[1024];
	int err;

	err = fs_mount(FS_EXT4_1K, self->dir);
	if (err == -EOPNOTSUPP)
		SKIP(return false, "%s", fs_needs(FS_EXT4_1K));
	ASSERT_EQ(0, err);
	self->fs = FS_EXT4_1K;
	new_file(_metadata, self, 256);
	ASSERT_EQ(sizeof(block), pread(self->fd, block, sizeof(block), 0));
	ASSERT_EQ(0, posix_fadvise(self->fd, 0, 0, POSIX_FADV_DONTNEED));
	/* A whole block is written without reading the others. */
	ASSERT_EQ(sizeof(block), pwrite(self->fd, block, sizeof(block), 0));
	ASSERT_EQ(0, switch_cache(false));
	map_file(_metadata, self, PAGE);
	ASSERT_FALSE(resident(self->map));
	return true;
}

/* Task context: the headers are in a page that is cached in part. A worker reads the rest. */
TEST_F(cache, page_in_part)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	char *map;

	if (!map_cached_in_part(_metadata, &self->f))
		return;
	ASSERT_EQ(0, switch_cache(true));
	/* Stays: the worker looks for it. */
	map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(1, events->parses);
	ASSERT_EQ(1, self->f.skel->bss->aheads);
	EXPECT_TRUE(gets_resident(self->f.map))
		TH_LOG("the rest of the page has not been read");

	ASSERT_EQ(0, ask(&self->f, self->f.map, MAPPING, id));
	EXPECT_EQ(1, events->fills);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	EXPECT_EQ(1, events->hits);
	munmap(map, PAGE);
}

/*
 * Task context, sleepable: the same. To read the headers, the rest of the page is not
 * needed. It is read afterwards, or the file would not be cached.
 */
TEST_F(cache, page_in_part_sleepable)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	int i;

	if (!map_cached_in_part(_metadata, &self->f))
		return;
	ASSERT_EQ(0, switch_cache(true));
	for (i = 0; i < 3; i++) {
		memset(id, 0, ID_SIZE);
		EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		if (!i)
			EXPECT_TRUE(gets_resident(self->f.map))
				TH_LOG("the rest of the page has not been read");
	}
	EXPECT_EQ(1, events->fills);
	EXPECT_LE(1, events->hits);
	/* Without a worker. */
	EXPECT_EQ(0, self->f.skel->bss->aheads);
}

struct late_writer {
	FIXTURE_DATA(faults) *f;
	off_t size;	/* that it gives the file, or 0 */
	int fd;
	pthread_barrier_t on_its_cpu;
};

/* On CPU 1: a writer of the file for which the fill of the other thread waits. */
static void *open_during_fill(void *arg)
{
	struct late_writer *w = arg;
	struct buildid__bss *bss = w->f->skel->bss;

	w->fd = -1;
	pin_to_cpu(1);
	pthread_barrier_wait(&w->on_its_cpu);
	if (gets_true(&bss->fill_held))
		w->fd = open(w->f->path, O_WRONLY | O_CLOEXEC);
	if (w->size && ftruncate(w->fd, w->size)) {
		close(w->fd);
		w->fd = -1;
	}
	WRITE_ONCE(bss->release_fill, true);
	return NULL;
}

/*
 * Task context: after a fill found no writer, and before it sets the flag in the inode, a
 * writer opens the file, and does not see the flag. The fill must see the writer.
 */
TEST_F(cache, writer_during_fill)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct late_writer w = { .f = &self->f };
	unsigned long long fills, hits;
	unsigned char id[ID_SIZE];
	struct bpf_link *link;
	pthread_t thread;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	ASSERT_EQ(1, bss->events.invalidations);
	link = bpf_program__attach(self->f.skel->progs.on_entry_alloc);
	ASSERT_NE(NULL, link);
	fills = bss->events.fills;
	bss->hold_fill = true;
	pthread_barrier_init(&w.on_its_cpu, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_during_fill, &w));
	pthread_barrier_wait(&w.on_its_cpu);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	pthread_join(thread, NULL);
	bpf_link__destroy(link);
	ASSERT_LE(0, w.fd);
	ASSERT_TRUE(bss->fill_released)
		TH_LOG("the writer took ten seconds");
	/* It did not see the flag. */
	ASSERT_EQ(1, bss->events.invalidations);

	EXPECT_EQ(fills, bss->events.fills);
	hits = bss->events.hits;
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(hits, bss->events.hits)
		TH_LOG("the build ID is cached while the file is open for write");
	close(w.fd);
}

/*
 * Task context: when a fill has read the headers, a writer removes its entry, and changes the
 * size. The fill must not remove it again: the number of entries would be wrong, and one
 * would stay when the cache is switched off.
 */
TEST_F(cache, writer_at_end_of_fill)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct late_writer w = { .f = &self->f, .size = 4 * PAGE };
	unsigned long long fills, hits;
	unsigned char id[ID_SIZE];
	pthread_t thread;

	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	ASSERT_EQ(1, bss->events.invalidations);
	fills = bss->events.fills;
	bss->hold_at_parse = true;
	bss->hold_fill = true;
	pthread_barrier_init(&w.on_its_cpu, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_during_fill, &w));
	pthread_barrier_wait(&w.on_its_cpu);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	pthread_join(thread, NULL);
	ASSERT_LE(0, w.fd);
	ASSERT_TRUE(bss->fill_released)
		TH_LOG("the writer took ten seconds");
	ASSERT_EQ(2, bss->events.invalidations);
	EXPECT_EQ(fills, bss->events.fills);
	close(w.fd);

	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	ASSERT_EQ(fills + 1, bss->events.fills);
	ASSERT_EQ(0, switch_cache(false));
	ASSERT_EQ(0, switch_cache(true));
	hits = bss->events.hits;
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(hits, bss->events.hits)
		TH_LOG("an entry has stayed while the cache was off");
}

struct map_at {
	FIXTURE_DATA(faults) *f;
	void *at;
};

/* On CPU 1: its fill waits in a BPF program. Returns the address. */
static void *map_as_target(void *arg)
{
	const struct map_at *m = arg;

	if (pin_to_cpu(1))
		return MAP_FAILED;
	m->f->skel->bss->target = gettid();
	return mmap(m->at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, m->f->fd, 0);
}

/*
 * Task context: the headers are not in the page cache. Before a worker is queued that
 * reads them ahead, a file of a FUSE server is mapped there. The worker reads the first one.
 */
TEST_F(cache, remapped)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct map_at m = { .f = &self->f };
	char dir[256], path[300];
	void *result, *map;
	pthread_t thread;
	struct stat st;
	int fd, err;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs CPUs 0 and 1");
	snprintf(dir, sizeof(dir), "%s/fuse", self->f.dir);
	snprintf(path, sizeof(path), "%s/file", dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	ASSERT_EQ(0, fs_new_page(path));
	/* The server must not inherit the file, which is open for write. */
	err = fs_mount(FS_FUSE, dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE));
	ASSERT_EQ(0, err);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);

	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	/* Not executable: mapping it reads no build ID. */
	self->f.map_size = PAGE;
	self->f.map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, self->f.map);
	ASSERT_EQ(0, page_out(self->f.map));
	m.at = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, m.at);

	bss->hold_fill = true;
	ASSERT_EQ(0, pthread_create(&thread, NULL, map_as_target, &m));
	EXPECT_TRUE(gets_true(&bss->fill_held));
	map = mmap(m.at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	EXPECT_EQ(0, bss->aheads);
	WRITE_ONCE(bss->release_fill, true);
	pthread_join(thread, &result);
	ASSERT_EQ(m.at, map);
	ASSERT_EQ(m.at, result);
	ASSERT_TRUE(bss->fill_released);
	ASSERT_EQ(1, bss->aheads);
	ASSERT_TRUE(gets_true(&bss->ahead_ran));

	/* The server has received all earlier requests when it answers this one. */
	snprintf(path, sizeof(path), "%s/none", dir);
	EXPECT_EQ(-1, stat(path, &st));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(0, fuse_reads())
		TH_LOG("a file that was mapped later has been read ahead");
	EXPECT_TRUE(resident(self->f.map));
	/* A page fault does read it. */
	READ_ONCE(*(char *)map);
	EXPECT_LT(0, fuse_reads());
	munmap(map, PAGE);
	close(fd);
	EXPECT_EQ(0, fs_unmount(FS_FUSE, dir));
	rmdir(dir);
}

/* Makes it a swap file, like mkswap(8). The ELF headers are in the boot block. */
static bool make_swap(const char *path, unsigned int pages)
{
	struct {
		char boot[1024];
		uint32_t version, last_page, bad_pages;
		char rest[PAGE - 1024 - 3 * sizeof(uint32_t) - 10], magic[10];
	} page = { .version = 1, .last_page = pages - 1, .magic = "SWAPSPACE2" };
	static const char zeros[PAGE];
	unsigned int i;
	bool ok;
	int fd;

	fd = open(path, O_RDWR | O_CLOEXEC);
	ok = pread(fd, page.boot, sizeof(page.boot), 0) == sizeof(page.boot) &&
	     pwrite(fd, &page, PAGE, 0) == PAGE;
	/* Without holes, and written to disk. */
	for (i = 1; i < pages; i++)
		ok = ok && pwrite(fd, zeros, PAGE, i * PAGE) == PAGE;
	ok = ok && !fsync(fd);
	close(fd);
	return ok;
}

/*
 * Task context: the kernel writes to a swap file below the file system. It has the file
 * open for write, so the build ID is dropped, and not cached before swapoff(). Nothing is
 * swapped out here: afterwards, the build ID would be that of the old pages, which
 * swapoff() leaves in the page cache. The kernel does not detect that.
 */
TEST_F(cache, swap_file)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];
	int i;

	new_file(_metadata, &self->f, 256);
	ASSERT_TRUE(make_swap(self->f.path, 16));
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);
	if (swapon(self->f.path, 0)) {
		ASSERT_EQ(ENOSYS, errno);
		SKIP(return, "needs CONFIG_SWAP");
	}
	EXPECT_EQ(1, events->invalidations);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	}
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(1, events->fills);
	ASSERT_EQ(0, swapoff(self->f.path));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(2, events->fills);
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	EXPECT_EQ(1, events->hits);
}

/* Task context: a missing build ID is cached, a failure to read it is not. */
TEST_F(cache, no_build_id)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];

	new_file(_metadata, &self->f, 256);
	ASSERT_EQ(1, pwrite(self->f.fd, "X", 1, 3));
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);
	EXPECT_EQ(0, procmap_build_id(self->f.map, id));
	EXPECT_EQ(1, events->parses);
	EXPECT_EQ(1, events->hits);
}

/* Task context: setting the sysctl to 0 empties the cache and disables it. */
TEST_F(cache, sysctl)
{
	struct cache_events *events = &self->f.skel->bss->events;
	unsigned char id[ID_SIZE];

	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	ASSERT_EQ(1, events->fills);
	ASSERT_EQ(0, switch_cache(false));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, events->hits);
	EXPECT_EQ(1, events->fills);
	ASSERT_EQ(0, switch_cache(true));
	EXPECT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(2, events->fills);
	EXPECT_NE(0, write_value(SYSCTL, "2"));
}

enum trigger { NO_TRIGGER, PERF_EVENT, STACK_MAP, GET_STACK };

FIXTURE(trigger)
{
	FIXTURE_DATA(faults) f;
};

FIXTURE_VARIANT(trigger)
{
	enum trigger trigger;
};

FIXTURE_VARIANT_ADD(trigger, none) { .trigger = NO_TRIGGER };
FIXTURE_VARIANT_ADD(trigger, perf_event) { .trigger = PERF_EVENT };
FIXTURE_VARIANT_ADD(trigger, stack_map) { .trigger = STACK_MAP };
FIXTURE_VARIANT_ADD(trigger, get_stack) { .trigger = GET_STACK };

/* None of the programs here uses build IDs. */
FIXTURE_SETUP(trigger)
{
	if (!has_cache())
		SKIP(return, "this kernel keeps no build IDs");
	new_fixture(_metadata, &self->f);
	load(_metadata, &self->f, self->f.skel->progs.on_build_id_fill, NULL);
	/* Off from here on, unless users of earlier tests still exist. */
	ASSERT_EQ(0, switch_cache(false));
	ASSERT_EQ(0, switch_cache(true));
}

FIXTURE_TEARDOWN(trigger)
{
	if (self->f.skel)
		free_fixture(&self->f);
}

/* Is the build ID of a newly mapped file cached? */
static bool keeps_new_file(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	self->skel->bss->events.fills = 0;
	new_file(_metadata, self, 256);
	map_file(_metadata, self, PAGE);
	munmap(self->map, self->map_size);
	self->map = MAP_FAILED;
	close(self->fd);
	self->fd = -1;
	unlink(self->path);
	return self->skel->bss->events.fills;
}

/* A program that gets user stacks, with build IDs or only addresses. */
static int load_get_stack(__u64 flags)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2,
		  .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2,
		  .imm = -(int)sizeof(struct bpf_stack_build_id) },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3,
		  .imm = sizeof(struct bpf_stack_build_id) },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4, .imm = flags },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_stack },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "get_stack", "GPL", insns,
			     ARRAY_LEN(insns), NULL);
}

static int open_trigger(enum trigger trigger)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
	};

	if (trigger == STACK_MAP)
		return make_stack_map();
	if (trigger == GET_STACK)
		return load_get_stack(BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Closed users, including those of earlier tests, are freed by RCU and workers. */
static void wait_until_off(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *f)
{
	time_t end = time(NULL) + 30 * timeout_scale();

	while (keeps_new_file(_metadata, f) && time(NULL) < end)
		sched_yield();
	ASSERT_FALSE(keeps_new_file(_metadata, f));
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/*
 * The last user was closed at @closed: off after one second. When the user is freed, and
 * how long a look takes, can only make that later. Ten seconds more are for a busy machine.
 */
static void expect_second_until_off(struct __test_metadata *_metadata,
				    FIXTURE_DATA(faults) *self, double closed)
{
	double looked, seen_on = 0;

	do {
		looked = seconds() - closed;
		if (!keeps_new_file(_metadata, self))
			break;
		seen_on = looked;
	} while (looked < 20 * timeout_scale());
	/* A timer counts whole ticks: the first one may be short. */
	EXPECT_LT(0.98, seconds() - closed)
		TH_LOG("off %.3f s after the last user", seconds() - closed);
	EXPECT_GT(1 + 10 * timeout_scale(), seen_on)
		TH_LOG("on %.3f s after the last user", seen_on);
}

/*
 * Task context: build IDs are cached while there are users, and for one second after the
 * last one.
 */
TEST_F(trigger, on_and_off)
{
	double closed;
	int fd;

	wait_until_off(_metadata, &self->f);
	if (variant->trigger == NO_TRIGGER) {
		fd = load_get_stack(BPF_F_USER_STACK);
		ASSERT_LE(0, fd);
		EXPECT_FALSE(keeps_new_file(_metadata, &self->f));
		ASSERT_EQ(0, close(fd));
		return;
	}
	fd = open_trigger(variant->trigger);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(keeps_new_file(_metadata, &self->f));
	closed = seconds();
	ASSERT_EQ(0, close(fd));
	expect_second_until_off(_metadata, &self->f, closed);

	/* Not while the sysctl is 0, even with users. */
	ASSERT_EQ(0, switch_cache(false));
	fd = open_trigger(variant->trigger);
	ASSERT_LE(0, fd);
	EXPECT_FALSE(keeps_new_file(_metadata, &self->f));
	ASSERT_EQ(0, close(fd));
	ASSERT_EQ(0, switch_cache(true));
}

/* Task context: the cache stays on for a new user after the last one's second, and only then. */
TEST_F(trigger, next_user)
{
	double closed, end;
	int fd;

	/* A user that still exists would be the last one instead. */
	wait_until_off(_metadata, &self->f);
	fd = open_trigger(PERF_EVENT);
	ASSERT_LE(0, fd);
	closed = seconds();
	ASSERT_EQ(0, close(fd));
	wait_until_off(_metadata, &self->f);
	if (variant->trigger == NO_TRIGGER)
		return;
	/* Twice the time that it takes without another user. */
	end = 2 * (seconds() - closed);
	fd = open_trigger(PERF_EVENT);
	ASSERT_LE(0, fd);
	closed = seconds();
	ASSERT_EQ(0, close(fd));
	fd = open_trigger(variant->trigger);
	ASSERT_LE(0, fd);
	while (keeps_new_file(_metadata, &self->f) && seconds() - closed < end)
		;
	EXPECT_TRUE(keeps_new_file(_metadata, &self->f));
	ASSERT_EQ(0, close(fd));
}

/*
 * Malformed ELF files. If kernel and libelf differ, the file is in one of these
 * classes; each has a reason, and the differences it allows.
 */
enum mutant_class {
	OTHER_TYPE,	/* neither ET_EXEC nor ET_DYN: the kernel ignores it */
	OTHER_HEADER,	/* libelf checks versions and byte order, and e_phentsize */
	SECTIONS,	/* libelf requires section headers to be in the file, if any */
	MANY_PHDRS,	/* the kernel reads 256; libelf requires all in the file */
	PAST_END,	/* a note extends past the file: libelf ignores all of it */
	UNLISTED,
	CLASSES
};

enum { KERNEL_ALONE = 1, LIBELF_ALONE = 2, TWO_IDS = 4 };

static const struct {
	const char *name;
	int may;
} classes[CLASSES] = {
	[OTHER_TYPE] = { "e_type", LIBELF_ALONE },
	[OTHER_HEADER] = { "header", KERNEL_ALONE | TWO_IDS },
	[SECTIONS] = { "section headers", KERNEL_ALONE },
	[MANY_PHDRS] = { "many program headers", KERNEL_ALONE },
	[PAST_END] = { "past the end", KERNEL_ALONE | TWO_IDS },
	[UNLISTED] = { "not listed", 0 },
};

static enum mutant_class classify(const char *data, size_t size)
{
	const struct elf_file *f = (const void *)data;
	const Elf64_Ehdr *e = &f->ehdr;
	uint64_t end;
	int i;

	if (size < sizeof(*e))
		return PAST_END;
	if (e->e_type != ET_EXEC && e->e_type != ET_DYN)
		return OTHER_TYPE;
	if (e->e_ident[EI_DATA] != ELFDATA2LSB || e->e_ident[EI_VERSION] != EV_CURRENT ||
	    e->e_version != EV_CURRENT || e->e_phentsize != sizeof(Elf64_Phdr))
		return OTHER_HEADER;
	if (e->e_shoff || e->e_shnum)
		return SECTIONS;
	if (__builtin_add_overflow(e->e_phoff, e->e_phnum * sizeof(Elf64_Phdr), &end) || end > size)
		return MANY_PHDRS;
	for (i = 0; i < e->e_phnum; i++) {
		const Elf64_Phdr *p = (const void *)(data + e->e_phoff + i * sizeof(*p));

		if (p->p_type == PT_NOTE &&
		    (__builtin_add_overflow(p->p_offset, p->p_filesz, &end) || end > size))
			return PAST_END;
	}
	return UNLISTED;
}

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Overwrites a field of the headers or notes with a bad value. */
static size_t mutate(char *data, size_t size, uint32_t *state)
{
	const uint64_t hurts[] = {
		0, 1, 3, 4, 20, 21, 0xff, 0xffff, PAGE - 1, PAGE, size, size - 1, size + 1,
		0x7fffffff, 0xffffffff, 1ULL << 32, 1ULL << 63, ~0ULL, ~0ULL - 15,
	};
	const size_t interesting = 256 + 3 * sizeof(struct elf_note);
	static const int widths[] = { 1, 2, 4, 8 };
	int width = widths[random_next(state) % 4];
	size_t at = random_next(state) % (interesting / width) * width;

	switch (random_next(state) % 4) {
	case 0:
		return random_next(state) % size;
	case 1:
		data[at] ^= 1 << random_next(state) % 8;
		return size;
	default:
		memcpy(data + at, &hurts[random_next(state) % ARRAY_LEN(hurts)], width);
		return size;
	}
}

#define MUTANTS 1000

/* Task context: the cached build ID of a hostile file is the parsed one, and libelf's. */
TEST_F(cache, mutated)
{
	int i, j, n, fd, first, second, want, how, with = 0, without = 0, same = 0;
	int mutants = storm_count(MUTANTS);
	int count[CLASSES] = {};
	unsigned char id[ID_SIZE], again[ID_SIZE], elf[ID_SIZE];
	uint32_t state = 20261121;
	char good[2 * PAGE], data[2 * PAGE];
	enum mutant_class class;
	size_t size;
	void *map;

	new_file(_metadata, &self->f, 256);
	memset(elf, 0xcd, ID_SIZE);
	ASSERT_EQ(0, write_note(self->f.fd, 1, elf, 256 + 2 * sizeof(struct elf_note)));
	memset(good, 0, sizeof(good));
	ASSERT_LT(PAGE, pread(self->f.fd, good, sizeof(good), 0));

	for (i = 0; i < mutants; i++) {
		memcpy(data, good, sizeof(data));
		size = PAGE + 256;
		for (j = 0, n = random_next(&state) % 3; j <= n; j++)
			size = mutate(data, size ?: 1, &state);
		unlink(self->f.path);
		fd = open(self->f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
		ASSERT_LE(0, fd);
		ASSERT_EQ(size, write(fd, data, size));
		close(fd);
		fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, fd);
		map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		close(fd);
		memset(id, 0, ID_SIZE);
		memset(again, 0, ID_SIZE);
		first = procmap_build_id(map, id);
		second = procmap_build_id(map, again);
		munmap(map, PAGE);
		EXPECT_LE(0, first);
		EXPECT_EQ(first, second);
		EXPECT_EQ(0, memcmp(id, again, ID_SIZE));
		first > 0 ? with++ : without++;

		want = libelf_build_id(self->f.path, elf);
		if (first == (want < 0 ? 0 : want) && !memcmp(id, elf, first)) {
			same++;
			continue;
		}
		class = classify(data, size);
		count[class]++;
		how = !first ? LIBELF_ALONE : want > 0 ? TWO_IDS : KERNEL_ALONE;
		EXPECT_TRUE(classes[class].may & how)
			TH_LOG("mutant %d of %zu bytes, %s: the kernel has %d bytes, libelf %d",
			       i, size, classes[class].name, first, want);
	}
	TH_LOG("%d with a build ID, %d without; %d as libelf", with, without, same);
	for (i = 0; i < CLASSES; i++)
		TH_LOG("  %4d differ: %s", count[i], classes[i].name);
	EXPECT_LT(mutants / 4, with);
	EXPECT_LT(mutants / 20, without);
}

/*
 * The number of entries, and the size of one in bytes. Free objects in per-CPU caches
 * count as used before these are flushed.
 */
static long count_entries(unsigned int *size)
{
	unsigned long active;
	char line[512];
	FILE *slabs;
	long n = 0;

	if (write_value("/sys/kernel/slab/build_id_entry/shrink", "1"))
		return -errno;
	slabs = fopen("/proc/slabinfo", "r");
	if (!slabs)
		return -errno;
	while (fgets(line, sizeof(line), slabs))
		if (sscanf(line, "build_id_entry %lu %*u %u", &active, size) == 2)
			n = active;
	fclose(slabs);
	return n;
}

/* Entries are freed after a grace period: wait until @n are left, but not for long. */
static long wait_for_entries(long n)
{
	unsigned int size;
	int i;

	for (i = 0; i < 1000 && count_entries(&size) > n; i++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	return count_entries(&size);
}

/* Empties the cache, including this process's libraries. Returns the entries left. */
static long start_empty(struct __test_metadata *_metadata)
{
	unsigned int size;
	long left;

	ASSERT_EQ(0, switch_cache(false));
	ASSERT_EQ(0, wait_for_entries(0));
	ASSERT_EQ(0, switch_cache(true));
	left = count_entries(&size);
	ASSERT_LE(0, left);
	return left;
}

/* One of many files: its path, the file itself, and one use of it. */
static void path_nr(FIXTURE_DATA(faults) *self, int n)
{
	snprintf(self->path, sizeof(self->path), "%s/%d", self->dir, n);
}

static void make_id(unsigned char *id, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < ID_SIZE; i += sizeof(n))
		memcpy(id + i, &n, sizeof(n));
}

static void new_file_nr(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self, int n)
{
	path_nr(self, n);
	make_id(self->id, n);
	new_file(_metadata, self, 256);
}

/* True if the kernel returns the build ID of the fixture. */
static bool has_own_id(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	unsigned char id[ID_SIZE];
	bool ok;

	map_file(_metadata, self, PAGE);
	ok = procmap_build_id(self->map, id) == ID_SIZE && !memcmp(id, self->id, ID_SIZE);
	close(self->fd);
	self->fd = -1;
	munmap(self->map, PAGE);
	self->map = MAP_FAILED;
	return ok;
}

static bool file_nr_has_own_id(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			       int n)
{
	struct stat st;

	path_nr(self, n);
	make_id(self->id, n);
	ASSERT_EQ(0, stat(self->path, &st));
	self->skel->bss->inode_nr = st.st_ino;
	return has_own_id(_metadata, self);
}

#define MANY 3000

/* Task context: memory used for many files, all freed when they are removed. */
TEST_F(cache, memory)
{
	int i, many = storm_count(MANY);
	unsigned int size = 0;
	long before, n;
	char *header;

	if (access("/proc/slabinfo", F_OK))
		SKIP(return, "needs CONFIG_SLUB_DEBUG");
	before = start_empty(_metadata);
	for (i = 0; i < many; i++) {
		new_file_nr(_metadata, &self->f, i);
		ASSERT_TRUE(has_own_id(_metadata, &self->f));
	}
	n = count_entries(&size) - before;
	/* A full bucket evicts one for another. */
	EXPECT_LE(many - 8, n);
	EXPECT_GE(many, n);
	TH_LOG("%d files: %ld entries of %u bytes, %ld bytes", many, n, size, n * size);

	for (i = 0; i < many; i++) {
		path_nr(&self->f, i);
		ASSERT_EQ(0, unlink(self->f.path));
	}
	EXPECT_EQ(before, wait_for_entries(before));

	/* No entries are left either of files that could not be read. */
	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	header = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, header);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, page_out(header));
		map_file(_metadata, &self->f, PAGE);
		munmap(self->f.map, PAGE);
		self->f.map = MAP_FAILED;
	}
	munmap(header, PAGE);
	close(self->f.fd);
	self->f.fd = -1;
	ASSERT_EQ(0, unlink(self->f.path));
	EXPECT_EQ(before, wait_for_entries(before));

	/* Switched off. */
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	EXPECT_LT(0, count_entries(&size));
	ASSERT_EQ(0, switch_cache(false));
	EXPECT_EQ(0, wait_for_entries(0));
	ASSERT_EQ(0, switch_cache(true));
}

#define CGROUP "buildid_test"
#define OTHER_CGROUP "buildid_test_other"
#define FREED "/sys/fs/cgroup/" OTHER_CGROUP
#define CONTROLLERS "/sys/fs/cgroup/cgroup.subtree_control"
#define LIMIT "/sys/fs/cgroup/" CGROUP "/memory.max"

FIXTURE(limit)
{
	FIXTURE_DATA(faults) f;
	char ballast[300];
	bool enabled;	/* the memory controller, by this fixture */
	int cgroup;
};

FIXTURE_SETUP(limit)
{
#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	if (!has_cache())
		SKIP(return, "this kernel keeps no build IDs");
	new_fixture(_metadata, &self->f);
	snprintf(self->ballast, sizeof(self->ballast), "%s/ballast", self->f.dir);
	bpf_program__set_autoload(self->f.skel->progs.on_cgroup_release,
				  libbpf_find_vmlinux_btf_id("cgroup_release",
							     BPF_TRACE_RAW_TP) > 0);
	count_events(_metadata, &self->f);
	/* Not charged to the cgroup, so that its limit does not evict it. */
	new_file(_metadata, &self->f, 256);
	map_file(_metadata, &self->f, PAGE);
	self->cgroup = cgroup_enter(CGROUP);
	if (self->cgroup == -EOPNOTSUPP) {
		free_fixture(&self->f);
		SKIP(return, NEEDS_CGROUP2);
	}
	ASSERT_LE(0, self->cgroup);
	if (access(LIMIT, F_OK)) {
		self->enabled = !write_value(CONTROLLERS, "+memory");
		if (!self->enabled) {
			cgroup_leave(CGROUP);
			free_fixture(&self->f);
			SKIP(return, "needs CONFIG_MEMCG, and its controller in cgroup2");
		}
	}
}

FIXTURE_TEARDOWN(limit)
{
	write_value(LIMIT, "max");
	unlink(self->ballast);
	free_fixture(&self->f);
	close(self->cgroup);
	cgroup_leave(CGROUP);
	rmdir(FREED);
	if (self->enabled)
		write_value(CONTROLLERS, "-memory");
}

/* The memory charged to the cgroup. After the first call, this charges nothing. */
static unsigned long charged(int fd)
{
	char text[32] = "";

	return pread(fd, text, sizeof(text) - 1, 0) < 0 ? 0 : strtoul(text, NULL, 10);
}

static int set_limit(int fd, unsigned long limit)
{
	char text[32];
	int len;

	len = snprintf(text, sizeof(text), "%lu", limit);
	return pwrite(fd, text, len, 0) == len ? 0 : -errno;
}

/*
 * Task context, not sleepable, in a cgroup at its memory limit: entries are not charged to
 * the task, so that its files are cached, too. The cgroup has pages to reclaim; an
 * allocation that does not wait cannot do that.
 */
TEST_F(limit, not_charged)
{
	struct cache_events *events = &self->f.skel->bss->events;
	int fd, current, max, i, full = 0;
	static char pages[64 * PAGE];
	unsigned char id[ID_SIZE];
	unsigned long limit;

	pin_to_cpu(0);
	fd = open(self->ballast, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	for (i = 0; i < 16; i++)
		ASSERT_EQ(sizeof(pages), write(fd, pages, sizeof(pages)));
	ASSERT_EQ(0, fsync(fd));
	close(fd);
	current = open("/sys/fs/cgroup/" CGROUP "/memory.current", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, current);
	ASSERT_LE(16 * sizeof(pages), charged(current));
	max = open(LIMIT, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, max);

	/* Allocate per-task state first. */
	ask(&self->f, self->f.map, NOT_SLEEPABLE, id);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, write_value(LIMIT, "max"));
		/* Drops the cached build ID. */
		close(open(self->f.path, O_WRONLY | O_CLOEXEC));
		/*
		 * If more than the limit is charged, this CPU returns its advance charge.
		 * From here on nothing is freed, either.
		 */
		ASSERT_EQ(0, set_limit(max, charged(current) - PAGE));
		limit = charged(current);
		ASSERT_EQ(0, set_limit(max, limit));

		events->fills = 0;
		ASSERT_EQ(ID_SIZE, ask(&self->f, self->f.map, NOT_SLEEPABLE, id));
		full += charged(current) == limit;
		ASSERT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
		EXPECT_EQ(1, events->fills);
	}
	TH_LOG("%d of %d fills in a cgroup at its limit", full, i);
	EXPECT_LT(0, full);
	close(max);
	close(current);
}

/* Task context: a page that a worker reads ahead is charged to the cgroup of the task. */
TEST_F(limit, read_ahead_charged)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct stat st;
	char *map;

	if (access("/proc/kpagecgroup", F_OK))
		SKIP(return, "needs CONFIG_PROC_PAGE_MONITOR");
	ASSERT_EQ(0, fstat(self->cgroup, &st));
	ASSERT_EQ(0, page_out(self->f.map));
	/* Drops the cached build ID. */
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	bss->aheads = 0;
	map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(1, bss->aheads);
	ASSERT_TRUE(gets_resident(map));
	READ_ONCE(*map);
	EXPECT_EQ(st.st_ino, page_entry(map, "/proc/kpagecgroup"))
		TH_LOG("the page is charged to another cgroup");
	munmap(map, PAGE);
}

/* Task context: after reading ahead, a worker charges no cgroup, and has no reference to it. */
TEST_F(limit, read_ahead_frees_cgroup)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct stat st;
	int status;
	pid_t pid;

	ASSERT_EQ(0, page_out(self->f.map));
	/* Drops the cached build ID. */
	close(open(self->f.path, O_WRONLY | O_CLOEXEC));
	bss->aheads = 0;
	bss->ahead_ran = false;
	/* A task of its own: all of its memory is charged to that cgroup. */
	pid = fork();
	if (!pid) {
		int dir = cgroup_enter(OTHER_CGROUP);

		bss->target = gettid();
		if (dir < 0 || fstat(dir, &st))
			_exit(1);
		bss->cgroup = st.st_ino;
		_exit(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->f.fd, 0) ==
		      MAP_FAILED);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(1, bss->aheads);
	ASSERT_TRUE(gets_true(&bss->ahead_ran));
	EXPECT_FALSE(bss->ahead_charges)
		TH_LOG("the worker still charges the cgroup");
	/* Empties the batch of pages of the worker's CPU, which need not be 0 or 1. */
	ASSERT_EQ(0, posix_fadvise(self->f.fd, 0, PAGE, POSIX_FADV_DONTNEED));
	ASSERT_EQ(0, page_out(self->f.map));
	ASSERT_EQ(0, rmdir(FREED));
	EXPECT_TRUE(gets_true(&bss->cgroup_freed))
		TH_LOG("the cgroup is not freed");
}

/*
 * Task context: a full bucket evicts its oldest entry. New files are found in the cache;
 * evicted ones are read again.
 */
TEST_F_TIMEOUT(cache, eviction, 300)
{
	struct cache_events *events = &self->f.skel->bss->events;
	int i, dir, nr = 0, wrong = 0, max = 30000, first_evicted = -1;
	unsigned long long parses;
	unsigned int size;
	long before, kept;

	if (access("/proc/slabinfo", F_OK))
		SKIP(return, "needs CONFIG_SLUB_DEBUG");
	dir = open(self->f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, dir);
	before = start_empty(_metadata);
	/* Buckets can't be predicted: add files until some have overflowed. */
	do {
		for (i = nr; i < nr + 1000; i++) {
			path_nr(&self->f, i);
			make_id(self->f.id, i);
			create_file(_metadata, &self->f, 256);
			close(self->f.fd);
			self->f.fd = -1;
		}
		/* One sync: most of the test's time was fsync() of each file. */
		ASSERT_EQ(0, syncfs(dir));
		for (; nr < i; nr++)
			wrong += !file_nr_has_own_id(_metadata, &self->f, nr);
		kept = count_entries(&size) - before;
	} while (nr - kept < 4 && nr < max);
	TH_LOG("%d files: %ld entries", nr, kept);
	EXPECT_LT(0, kept);
	EXPECT_GT(nr, kept);
	EXPECT_EQ(nr, events->hits);
	ASSERT_EQ(nr, events->parses);
	for (i = 0; i < nr; i++) {
		parses = events->parses;
		wrong += !file_nr_has_own_id(_metadata, &self->f, i);
		if (first_evicted < 0 && events->parses > parses)
			first_evicted = i;
		ASSERT_EQ(0, unlink(self->f.path));
	}
	EXPECT_EQ(0, wrong);
	/*
	 * The oldest of nine files is in the newer half only once in 2^8 full buckets, and that
	 * of all four once in 2^32; the second newest nearly always is.
	 */
	TH_LOG("file %d is the first one that was not kept", first_evicted);
	EXPECT_GT(nr / 2, first_evicted);
	EXPECT_LT(nr, events->parses);
	close(dir);
}

/* --- kinds of files ---------------------------------------------------------------- */

enum made_as { IN_FS, BELOW, SEALED, MEMFD, HUGE_PAGES, SECRET, NETWORK, WATCHED };

#define HUGE_PAGES_POOL "/proc/sys/vm/nr_hugepages"
#define HUGE_PAGE (2UL << 20)

FIXTURE(kind)
{
	FIXTURE_DATA(faults) f;
	struct setting huge_pages;
	int fanotify;
};

FIXTURE_VARIANT(kind)
{
	enum own_fs fs;
	enum made_as made_as;
	bool not_kept;
	bool unreadable;
};

FIXTURE_VARIANT_ADD(kind, ext4) { .fs = FS_NONE };
FIXTURE_VARIANT_ADD(kind, ext4_128) { .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(kind, verity) { .fs = FS_EXT4_VERITY, .made_as = SEALED };
FIXTURE_VARIANT_ADD(kind, xfs) { .fs = FS_XFS };
FIXTURE_VARIANT_ADD(kind, btrfs) { .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(kind, squashfs) { .fs = FS_SQUASHFS, .made_as = BELOW };
FIXTURE_VARIANT_ADD(kind, overlay_upper) { .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(kind, overlay_lower) { .fs = FS_OVERLAY, .made_as = BELOW };
FIXTURE_VARIANT_ADD(kind, erofs) { .fs = FS_EROFS, .made_as = BELOW };
FIXTURE_VARIANT_ADD(kind, erofs_file) { .fs = FS_EROFS_FILE, .made_as = BELOW, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, tmpfs) { .fs = FS_TMPFS, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, memfd) { .made_as = MEMFD, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, hugetlb) { .made_as = HUGE_PAGES, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, secret) { .made_as = SECRET, .not_kept = true, .unreadable = true };
FIXTURE_VARIANT_ADD(kind, network) { .made_as = NETWORK, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, access_perm) { .made_as = WATCHED, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, fuse) { .fs = FS_FUSE, .made_as = BELOW, .not_kept = true };
FIXTURE_VARIANT_ADD(kind, fuse_hung) {
	.fs = FS_FUSE_HUNG, .made_as = BELOW, .not_kept = true, .unreadable = true
};

FIXTURE_SETUP(kind)
{
	const char *layer = variant->fs == FS_OVERLAY ? "/lower" : "";
	char path[256];
	int fd, err;

	self->fanotify = -1;
	new_fixture(_metadata, &self->f);
	/* Before a file system that uses it is mounted over it. */
	if (variant->made_as == BELOW) {
		snprintf(path, sizeof(path), "%s%s", self->f.dir, layer);
		ASSERT_TRUE(!mkdir(path, 0755) || errno == EEXIST);
		snprintf(path, sizeof(path), "%s%s/file", self->f.dir, layer);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, write_elf(fd, self->f.id, 256));
		close(fd);
	}
	if (has_cache())
		count_events(_metadata, &self->f);
	else
		load(_metadata, &self->f, self->f.skel->progs.on_sys_enter,
		     self->f.skel->progs.on_sleepable);
	err = use_fs(&self->f, variant->fs);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(variant->fs));
	ASSERT_EQ(0, err);
}

FIXTURE_TEARDOWN(kind)
{
	close(self->fanotify);
	setting_restore(&self->huge_pages);
	free_fixture(&self->f);
}

/* Adds one huge page to the pool. */
static bool add_huge_page(FIXTURE_DATA(kind) *self)
{
	char old[32] = "", one_more[32], now[32] = "";
	bool added;
	int fd;

	fd = open(HUGE_PAGES_POOL, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	added = read(fd, old, sizeof(old) - 1) > 0;
	snprintf(one_more, sizeof(one_more), "%lu\n", strtoul(old, NULL, 10) + 1);
	added = added && !setting_change(&self->huge_pages, HUGE_PAGES_POOL, one_more) &&
		pread(fd, now, sizeof(now) - 1, 0) > 0 && !strcmp(now, one_more);
	close(fd);
	return added;
}

/* Maps @size bytes of a file that can only be written through a mapping. */
static void map_and_copy(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
			 size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, write_elf(fd, self->id, 256));
	ASSERT_EQ(0, ftruncate(self->fd, size));
	self->map_size = size;
	self->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->map);
	ASSERT_LT(256, pread(fd, self->map, PAGE, 0));
	close(fd);
}

/* Returns why the file can't be used, or NULL. */
static const char *map_kind(struct __test_metadata *_metadata, FIXTURE_DATA(kind) *kind,
			    enum made_as made_as)
{
	FIXTURE_DATA(faults) *self = &kind->f;
	struct fsverity_enable_arg verity = {
		.version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256, .block_size = PAGE,
	};
	struct stat st;

	switch (made_as) {
	case IN_FS:
		new_file(_metadata, self, 256);
		if (self->fs == FS_NONE && !fs_is(self->fd, "ext4"))
			return "needs ext4 at $SCRATCH";
		map_file(_metadata, self, PAGE);
		break;
	case BELOW:
		map_file(_metadata, self, PAGE);
		break;
	case SEALED:
		new_file(_metadata, self, 256);
		close(self->fd);
		self->fd = open(self->path, O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, self->fd);
		if (ioctl(self->fd, FS_IOC_ENABLE_VERITY, &verity)) {
			ASSERT_EQ(EOPNOTSUPP, errno);
			return "needs CONFIG_FS_VERITY";
		}
		map_file(_metadata, self, PAGE);
		break;
	case MEMFD:
		self->fd = memfd_create("kind", MFD_CLOEXEC);
		ASSERT_LE(0, self->fd);
		map_and_copy(_metadata, self, PAGE);
		break;
	case HUGE_PAGES:
		self->fd = memfd_create("kind", MFD_CLOEXEC | MFD_HUGETLB);
		if (self->fd < 0 || fstat(self->fd, &st) || st.st_blksize != HUGE_PAGE ||
		    !add_huge_page(kind))
			return "needs CONFIG_HUGETLBFS, and a huge page of 2 MiB";
		map_and_copy(_metadata, self, HUGE_PAGE);
		break;
	case SECRET:
		self->fd = syscall(SYS_memfd_secret, O_CLOEXEC);
		if (self->fd < 0) {
			ASSERT_EQ(ENOSYS, errno);
			return "needs CONFIG_SECRETMEM";
		}
		map_and_copy(_metadata, self, PAGE);
		break;
	case NETWORK:
		self->fd = open("libframe.so", O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, self->fd);
		if (!fs_is(self->fd, "9p") && !fs_is(self->fd, "nfs4"))
			return "needs to be run from a network file system";
		ASSERT_EQ(ID_SIZE, libelf_build_id("libframe.so", self->id));
		self->map_size = PAGE;
		self->map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, self->fd, 0);
		ASSERT_NE(MAP_FAILED, self->map);
		break;
	case WATCHED:
		new_file(_metadata, self, 256);
		kind->fanotify = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC,
					       O_RDONLY | O_CLOEXEC);
		if (kind->fanotify < 0) {
			ASSERT_EQ(ENOSYS, errno);
			return "needs CONFIG_FANOTIFY";
		}
		/* For later open(). Reads for a build ID cause no event. */
		if (fanotify_mark(kind->fanotify, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD,
				  self->path)) {
			ASSERT_EQ(EINVAL, errno);
			return "needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS";
		}
		map_file(_metadata, self, PAGE);
		break;
	}
	return NULL;
}

/*
 * Task context, sleepable or not. If writes to a file can't be detected, it is read each
 * time, as without a cache; if it is cached, its file system can be unmounted.
 */
TEST_F(kind, asked)
{
	struct cache_events *events = &self->f.skel->bss->events;
	int how, i, asked = 0, expected = variant->unreadable ? 0 : ID_SIZE;
	bool hung = variant->fs == FS_FUSE_HUNG;
	unsigned char id[ID_SIZE];
	const char *missing;
	struct stat st;

#ifndef __x86_64__
	SKIP(return, "sets the frame pointer with x86 instructions");
#endif
	missing = map_kind(_metadata, self, variant->made_as);
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(0, fstat(self->f.fd, &st));
	self->f.skel->bss->inode_nr = st.st_ino;
	/* In case mapping it was not enough. A sleepable read would wait for a server. */
	if (!hung)
		procmap_build_id(self->f.map, id);
	/* The file of the innermost frame must not be requested. */
	procmap_build_id(procmap_build_id, id);
	memset(events, 0, sizeof(*events));
	self->f.skel->bss->requests = 0;

	for (how = hung ? NOT_SLEEPABLE : QUERY; how <= NOT_SLEEPABLE; how++) {
		for (i = 0; i < 2; i++, asked++) {
			memset(id, 0, sizeof(id));
			EXPECT_EQ(expected, ask(&self->f, self->f.map, how, id));
			EXPECT_EQ(expected ? 0 : 1, !!memcmp(id, self->f.id, ID_SIZE));
		}
	}
	if (!has_cache())
		return;
	EXPECT_EQ(variant->not_kept ? 0 : asked, events->hits);
	EXPECT_EQ(variant->not_kept ? asked : 0, events->parses);
	EXPECT_EQ(0, events->fills);
	/* Nothing is to be gained. */
	EXPECT_EQ(0, self->f.skel->bss->requests);

	/* The worker that map_kind() made read ahead holds the file. */
	EXPECT_GE(1, self->f.skel->bss->aheads);
	if (self->f.skel->bss->aheads)
		ASSERT_TRUE(gets_true(&self->f.skel->bss->ahead_ran));
	munmap(self->f.map, self->f.map_size);
	self->f.map = MAP_FAILED;
	close(self->f.fd);
	self->f.fd = -1;
	EXPECT_EQ(0, fs_unmount(self->f.fs, self->f.dir));
	self->f.fs = FS_NONE;
}

/* An erofs whose image is written to while mounted. */
FIXTURE(image)
{
	FIXTURE_DATA(faults) f;
	int fd;
};

FIXTURE_SETUP(image)
{
	char path[256];
	int fd, err;

	new_fixture(_metadata, &self->f);
	fd = open(self->f.path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, write_elf(fd, self->f.id, 256));
	close(fd);
	snprintf(path, sizeof(path), "%s/image", self->f.dir);
	self->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, self->fd);
	if (has_cache())
		count_events(_metadata, &self->f);
	err = use_fs(&self->f, FS_EROFS_FILE);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_EROFS_FILE));
	ASSERT_EQ(0, err);
}

FIXTURE_TEARDOWN(image)
{
	close(self->fd);
	free_fixture(&self->f);
}

/*
 * Task context: neither writers nor times of the mounted file show that the image was
 * written to. Its pages are read again after they leave the page cache.
 */
TEST_F(image, written)
{
	const off_t id_at = EROFS_FILE_AT + 256 + offsetof(struct elf_note, id);
	unsigned char id[ID_SIZE];
	int i;

	map_file(_metadata, &self->f, PAGE);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
		ASSERT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
	}
	memset(self->f.id, 0xcd, ID_SIZE);
	ASSERT_EQ(ID_SIZE, pwrite(self->fd, self->f.id, ID_SIZE, id_at));
	READ_ONCE(*self->f.map);
	ASSERT_EQ(0, page_out(self->f.map));
	ASSERT_EQ(ID_SIZE, procmap_build_id(self->f.map, id));
	EXPECT_EQ(0, memcmp(id, self->f.id, ID_SIZE));
}

/* --- overwriting --------------------------------------------------------------- */

#define QUESTIONS 2000
#define WRITES 100
#define SWITCHES 10

enum how {
	PWRITE, TRUNCATE, SHARED, SHARED_CLOSED, CHMOD, RENAME, UNLINK,
	DIRECT,		/* O_DIRECT */
	AIO_CLOSED,	/* the same, with the file closed before completion */
	DIRECT_FAULT,	/* O_DIRECT, of two pages, and a third that cannot be read */
	IO_URING,	/* by an io_uring worker; the file is closed before that */
	PUNCH,		/* a hole, and then as PWRITE */
	ZERO,		/* the same with FALLOC_FL_ZERO_RANGE */
	INSERT,		/* the same with FALLOC_FL_INSERT_RANGE */
	COLLAPSE,	/* the second page becomes the first */
	CLONE,		/* the extents of another file */
	DEDUPE,		/* as PWRITE, and then the extents of a file with the same contents */
	DEDUPE_PINNED,	/* the extents of a file with the same page cache and other contents */
	EXCHANGE,	/* the extents of another file, which gets those of this one */
	ENCODED,	/* compressed by the caller */
	MOVE_EXT,	/* as PWRITE, and then to other blocks */
	SWAP_BOOT,	/* as PWRITE, then to the boot loader's inode and back */
	SWAP_FILE,	/* as PWRITE, and then a swap file for a moment */
	VERITY,		/* a new file that is then sealed */
	COPY_UP,	/* another file each time, from the lower layer of overlayfs */
};

FIXTURE(overwrite)
{
	FIXTURE_DATA(faults) f;
	pthread_t thread, switcher;
	enum how how;
	bool switching;
	unsigned int begun, done, last;	/* build IDs, written by the thread */
	unsigned int asked, switched;
	bool failed, stop;
};

FIXTURE_VARIANT(overwrite)
{
	enum how how;
	enum own_fs fs;
	bool switching;
};

FIXTURE_VARIANT_ADD(overwrite, pwrite) { .how = PWRITE };
FIXTURE_VARIANT_ADD(overwrite, truncate) { .how = TRUNCATE };
FIXTURE_VARIANT_ADD(overwrite, shared_mapping) { .how = SHARED };
FIXTURE_VARIANT_ADD(overwrite, shared_mapping_closed) { .how = SHARED_CLOSED };
FIXTURE_VARIANT_ADD(overwrite, chmod) { .how = CHMOD };
FIXTURE_VARIANT_ADD(overwrite, rename) { .how = RENAME };
FIXTURE_VARIANT_ADD(overwrite, unlink) { .how = UNLINK };
FIXTURE_VARIANT_ADD(overwrite, direct) { .how = DIRECT };
FIXTURE_VARIANT_ADD(overwrite, direct_fault) { .how = DIRECT_FAULT };
FIXTURE_VARIANT_ADD(overwrite, aio_closed) { .how = AIO_CLOSED };
FIXTURE_VARIANT_ADD(overwrite, punch) { .how = PUNCH };
FIXTURE_VARIANT_ADD(overwrite, zero) { .how = ZERO };
FIXTURE_VARIANT_ADD(overwrite, insert) { .how = INSERT };
FIXTURE_VARIANT_ADD(overwrite, collapse) { .how = COLLAPSE };
FIXTURE_VARIANT_ADD(overwrite, move_ext) { .how = MOVE_EXT };
FIXTURE_VARIANT_ADD(overwrite, swap_boot) { .how = SWAP_BOOT };
FIXTURE_VARIANT_ADD(overwrite, swap_file) { .how = SWAP_FILE };
FIXTURE_VARIANT_ADD(overwrite, io_uring) { .how = IO_URING };
FIXTURE_VARIANT_ADD(overwrite, verity) { .how = VERITY, .fs = FS_EXT4_VERITY };
FIXTURE_VARIANT_ADD(overwrite, switching) { .how = PWRITE, .switching = true };
FIXTURE_VARIANT_ADD(overwrite, ext4_128_pwrite) { .how = PWRITE, .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(overwrite, ext4_128_truncate) { .how = TRUNCATE, .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(overwrite, ext4_128_shared) { .how = SHARED, .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(overwrite, ext4_128_shared_closed) {
	.how = SHARED_CLOSED, .fs = FS_EXT4_128
};
FIXTURE_VARIANT_ADD(overwrite, ext4_128_rename) { .how = RENAME, .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(overwrite, ext4_128_unlink) { .how = UNLINK, .fs = FS_EXT4_128 };
FIXTURE_VARIANT_ADD(overwrite, xfs_pwrite) { .how = PWRITE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_truncate) { .how = TRUNCATE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_shared) { .how = SHARED, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_shared_closed) {
	.how = SHARED_CLOSED, .fs = FS_XFS
};
FIXTURE_VARIANT_ADD(overwrite, xfs_direct) { .how = DIRECT, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_direct_fault) { .how = DIRECT_FAULT, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_aio_closed) { .how = AIO_CLOSED, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_punch) { .how = PUNCH, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_clone) { .how = CLONE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_zero) { .how = ZERO, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_insert) { .how = INSERT, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_collapse) { .how = COLLAPSE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_dedupe) { .how = DEDUPE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_dedupe_pinned) { .how = DEDUPE_PINNED, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_exchange) { .how = EXCHANGE, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_io_uring) { .how = IO_URING, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, xfs_rename) { .how = RENAME, .fs = FS_XFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_pwrite) { .how = PWRITE, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_truncate) { .how = TRUNCATE, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_shared) { .how = SHARED, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_shared_closed) {
	.how = SHARED_CLOSED, .fs = FS_BTRFS
};
FIXTURE_VARIANT_ADD(overwrite, btrfs_direct) { .how = DIRECT, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_aio_closed) { .how = AIO_CLOSED, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_punch) { .how = PUNCH, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_clone) { .how = CLONE, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_dedupe) { .how = DEDUPE, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_encoded) { .how = ENCODED, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, btrfs_rename) { .how = RENAME, .fs = FS_BTRFS };
FIXTURE_VARIANT_ADD(overwrite, overlay_pwrite) { .how = PWRITE, .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(overwrite, overlay_truncate) { .how = TRUNCATE, .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(overwrite, overlay_shared) { .how = SHARED, .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(overwrite, overlay_shared_closed) {
	.how = SHARED_CLOSED, .fs = FS_OVERLAY
};
FIXTURE_VARIANT_ADD(overwrite, overlay_rename) { .how = RENAME, .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(overwrite, overlay_copy_up) { .how = COPY_UP, .fs = FS_OVERLAY };

/* The name of file @n. There is one, except with COPY_UP. */
static void overwrite_path(const FIXTURE_DATA(overwrite) *self, const char *layer,
			   unsigned int n, char *path, size_t size)
{
	if (self->how == COPY_UP)
		snprintf(path, size, "%s%s/%u", self->f.dir, layer, n);
	else
		snprintf(path, size, "%s", self->f.path);
}

/* Writes all of a file, and closes it. */
static bool put_elf(int fd, const unsigned char *id)
{
	return fd >= 0 && !write_elf(fd, id, 256) && !ftruncate(fd, 256 + PAGE) && !close(fd);
}

/* Files 1 to @last in the lower layer. File n has build ID n - 1. */
static bool make_lower(FIXTURE_DATA(overwrite) *self)
{
	unsigned char id[ID_SIZE];
	char path[256];
	unsigned int n;

	snprintf(path, sizeof(path), "%s/lower", self->f.dir);
	if (mkdir(path, 0755))
		return false;
	for (n = 1; n <= self->last; n++) {
		overwrite_path(self, "/lower", n, path, sizeof(path));
		make_id(id, n - 1);
		if (!put_elf(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755), id))
			return false;
	}
	return true;
}

FIXTURE_SETUP(overwrite)
{
	int err;

	if (!has_cache())
		SKIP(return, "this kernel keeps no build IDs");
	if (pin_to_cpu(1) || pin_to_cpu(0))
		SKIP(return, "needs CPUs 0 and 1");
	new_fixture(_metadata, &self->f);
	count_events(_metadata, &self->f);
	self->how = variant->how;
	self->switching = variant->switching;
	self->last = UINT_MAX;
	if (self->how == COPY_UP) {
		self->last = storm_count(WRITES) + 1;
		ASSERT_TRUE(make_lower(self));
	}
	err = use_fs(&self->f, variant->fs);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(variant->fs));
	ASSERT_EQ(0, err);
}

FIXTURE_TEARDOWN(overwrite)
{
	if (self->f.skel)
		free_fixture(&self->f);
}

/* The first page of the file, with a build ID, aligned for direct I/O. */
static char *direct_page(const unsigned char *id)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	int fd = memfd_create("page", MFD_CLOEXEC);

	if (fd < 0 || write_elf(fd, id, 256) || pread(fd, page, PAGE, 0) <= 0)
		return NULL;
	close(fd);
	return page;
}

/* Another file next to @path, with this build ID. */
static int new_file_next_to(const char *path, const unsigned char *id)
{
	char tmp[300];

	snprintf(tmp, sizeof(tmp), "%s.new", path);
	if (!put_elf(open(tmp, O_RDWR | O_CREAT | O_CLOEXEC, 0755), id))
		return -1;
	return open(tmp, O_RDWR | O_CLOEXEC);
}

static bool overwrite_open(const char *path, const unsigned char *id, int flags)
{
	return put_elf(open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0755), id);
}

static bool overwrite_unlink(const char *path, const unsigned char *id, int unused)
{
	return !unlink(path) && overwrite_open(path, id, O_EXCL);
}

static bool overwrite_chmod(const char *path, const unsigned char *id, int unused)
{
	return overwrite_open(path, id, 0) && !chmod(path, id[0] % 2 ? 0755 : 0700);
}

static bool overwrite_rename(const char *path, const unsigned char *id, int unused)
{
	int fd = new_file_next_to(path, id);
	char tmp[300];

	snprintf(tmp, sizeof(tmp), "%s.new", path);
	return fd >= 0 && !close(fd) && !rename(tmp, path);
}

static bool overwrite_shared(const char *path, const unsigned char *id, int close_first)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct elf_note *note;
	unsigned char seen;
	void *map;

	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || (close_first && close(fd)))
		return false;
	note = map + 256;
	/* Read first: then the store finds the page mapped, and may go unnoticed. */
	seen = READ_ONCE(note->id[0]);
	(void)seen;
	memcpy(note->id, id, ID_SIZE);
	munmap(map, PAGE);
	return close_first || !close(fd);
}

static bool overwrite_direct(const char *path, const unsigned char *id, int unused)
{
	char *page = direct_page(id);
	int fd;

	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	return page && fd >= 0 && pwrite(fd, page, PAGE, 0) == PAGE && !close(fd);
}

/*
 * The write drops page 0 from the page cache, and then reads its old contents again, as the
 * source of page 1. It fails at page 2, after two pages were submitted: the file system must
 * drop page 0 once more. A read by O_DIRECT shows the contents on disk.
 */
static bool overwrite_direct_fault(const char *path, const unsigned char *id, int unused)
{
	static char on_disk[PAGE] __attribute__((aligned(PAGE)));
	char *page = direct_page(id);
	struct iovec iov[3];
	ssize_t written;
	int fd, i;
	bool ok;

	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	/* All three pages are written in place. */
	if (!page || fd < 0 || pwrite(fd, page, PAGE, 2 * PAGE) != PAGE)
		return false;
	iov[0].iov_base = page;
	iov[1].iov_base = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	iov[2].iov_base = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (iov[1].iov_base == MAP_FAILED || iov[2].iov_base == MAP_FAILED)
		return false;
	for (i = 0; i < 3; i++)
		iov[i].iov_len = PAGE;
	written = pwritev(fd, iov, 3, 0);
	/* Not by iomap, or with a fallback to the page cache, as on btrfs */
	if (written >= 0)
		errno = EOPNOTSUPP;
	ok = written < 0 && errno == EFAULT &&
	     pread(fd, on_disk, PAGE, 0) == PAGE && !memcmp(on_disk, page, PAGE);
	munmap(iov[1].iov_base, PAGE);
	munmap(iov[2].iov_base, PAGE);
	return !close(fd) && ok;
}

static bool overwrite_aio_closed(const char *path, const unsigned char *id, int unused)
{
	struct iocb cb = { .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_nbytes = PAGE };
	struct iocb *cbs[] = { &cb };
	struct io_event done = {};
	aio_context_t ctx = 0;
	bool ok;

	cb.aio_buf = (uintptr_t)direct_page(id);
	cb.aio_fildes = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	ok = cb.aio_buf && !syscall(SYS_io_setup, 1, &ctx) &&
	     syscall(SYS_io_submit, ctx, 1, cbs) == 1;
	close(cb.aio_fildes);
	ok = ok && syscall(SYS_io_getevents, ctx, 1, 1, &done, NULL) == 1 && done.res == PAGE;
	syscall(SYS_io_destroy, ctx);
	return ok;
}

static bool overwrite_io_uring(const char *path, const unsigned char *id, int unused)
{
	const int prot = PROT_READ | PROT_WRITE;
	struct io_uring_params p = {};
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	size_t size, sqes_size;
	int fd, ring, res;
	char *rings;

	ring = syscall(SYS_io_uring_setup, 1, &p);
	if (ring < 0)
		return false;
	size = p.sq_off.array + p.sq_entries * sizeof(unsigned int);
	if (size < p.cq_off.cqes + p.cq_entries * sizeof(*cqe))
		size = p.cq_off.cqes + p.cq_entries * sizeof(*cqe);
	sqes_size = p.sq_entries * sizeof(*sqe);
	rings = mmap(NULL, size, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqe = mmap(NULL, sqes_size, prot, MAP_SHARED, ring, IORING_OFF_SQES);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (rings == MAP_FAILED || sqe == MAP_FAILED || fd < 0)
		return false;
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_WRITE, .flags = IOSQE_ASYNC, .fd = fd, .len = PAGE,
		.addr = (uintptr_t)direct_page(id),
	};
	*(unsigned int *)(rings + p.sq_off.array) = 0;
	__atomic_store_n((unsigned int *)(rings + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1 || close(fd) ||
	    syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return false;
	cqe = (void *)(rings + p.cq_off.cqes);
	res = __atomic_load_n((unsigned int *)(rings + p.cq_off.tail), __ATOMIC_ACQUIRE) == 1 ?
	      cqe->res : -1;
	munmap(sqe, sqes_size);
	munmap(rings, size);
	return !close(ring) && res == PAGE;
}

static bool overwrite_fallocate(const char *path, const unsigned char *id, int mode)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd >= 0 && !fallocate(fd, mode, 0, PAGE) && put_elf(fd, id);
}

static bool overwrite_collapse(const char *path, const unsigned char *id, int mode)
{
	char *page = direct_page(id);
	int fd;

	fd = open(path, O_RDWR | O_CLOEXEC);
	return page && fd >= 0 && pwrite(fd, page, PAGE, PAGE) == PAGE &&
	       !ftruncate(fd, 2 * PAGE + 256) && !fallocate(fd, mode, 0, PAGE) && !close(fd);
}

static bool overwrite_clone(const char *path, const unsigned char *id, int unused)
{
	int from = new_file_next_to(path, id), to = open(path, O_RDWR | O_CLOEXEC);

	return from >= 0 && to >= 0 && !ioctl(to, FICLONE, from) && !close(from) && !close(to);
}

/* The owner of a file may do that without write access: there is no writer. */
static bool dedupe(int from, const char *path)
{
	uint64_t room[(sizeof(struct file_dedupe_range) +
		       sizeof(struct file_dedupe_range_info)) / sizeof(uint64_t)] = {};
	struct file_dedupe_range *range = (void *)room;
	struct file_dedupe_range_info *info = range->info;

	range->src_length = PAGE;
	range->dest_count = 1;
	info->dest_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (info->dest_fd < 0 || ioctl(from, FIDEDUPERANGE, range))
		return false;
	close(info->dest_fd);
	if (info->status < 0)
		errno = -info->status;
	return info->status == FILE_DEDUPE_RANGE_SAME && info->bytes_deduped == PAGE;
}

static bool overwrite_dedupe(const char *path, const unsigned char *id, int unused)
{
	int from = new_file_next_to(path, id);

	return from >= 0 && overwrite_open(path, id, 0) && dedupe(from, path) && !close(from);
}

/* Two pages that are written to two others, which are pinned meanwhile. */
struct pinned_write {
	char *from, *to;
	ssize_t written;
};

static void *write_pinned(void *arg)
{
	struct pinned_write *w = arg;
	struct iovec from = { w->from, 2 * PAGE }, to = { w->to, 2 * PAGE };

	w->written = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	return NULL;
}

/* Returns true when a thread waits for a page of @uffd. */
static bool page_is_missing(int uffd)
{
	struct pollfd p = { .fd = uffd, .events = POLLIN };

	return poll(&p, 1, 20000 * timeout_scale()) == 1 && p.revents == POLLIN;
}

static bool supply_page(int uffd, const void *page)
{
	struct uffdio_copy copy = { .src = (uintptr_t)page, .len = PAGE };
	struct uffd_msg fault;

	if (read(uffd, &fault, sizeof(fault)) != sizeof(fault))
		return false;
	copy.dst = fault.arg.pagefault.address & ~(PAGE - 1ULL);
	return !ioctl(uffd, UFFDIO_COPY, &copy);
}

/*
 * The new file has build ID @id on disk, and its page cache the contents of @path: these are
 * written to its page while that is pinned, after fsync(). So the page is clean, until the
 * whole write is complete.
 */
static bool overwrite_dedupe_pinned(const char *path, const unsigned char *id, int unused)
{
	static char old[PAGE] __attribute__((aligned(PAGE)));
	static char on_disk[PAGE] __attribute__((aligned(PAGE)));
	const struct elf_note *note = (void *)on_disk + 256;
	struct pinned_write w = {};
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int from = new_file_next_to(path, id), fd = open(path, O_RDONLY | O_CLOEXEC), uffd;
	const int prot = PROT_READ | PROT_WRITE;
	pthread_t thread;
	bool ok;

	/* Fails with ENOSYS, too: nothing is written. */
	if (process_vm_writev(getpid(), NULL, 0, NULL, 0, 0))
		return false;
	/* Otherwise poll() fails. */
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0)
		return false;
	w.from = mmap(NULL, 2 * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w.to = mmap(NULL, 2 * PAGE, prot, MAP_SHARED, from, 0);
	if (w.from == MAP_FAILED || w.to == MAP_FAILED || fd < 0 || pread(fd, old, PAGE, 0) != PAGE)
		return false;
	reg.range.start = (uintptr_t)w.from;
	reg.range.len = 2 * PAGE;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg) ||
	    pthread_create(&thread, NULL, write_pinned, &w))
		return false;
	/* Both pages are pinned by now. */
	ok = page_is_missing(uffd) && !fsync(from) && supply_page(uffd, old) &&
	     page_is_missing(uffd) && dedupe(from, path);
	/* The rest is not needed: the thread's copy ends with EFAULT. */
	munmap(w.from, 2 * PAGE);
	close(uffd);
	pthread_join(thread, NULL);
	munmap(w.to, 2 * PAGE);
	close(fd);
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ok = ok && pread(fd, on_disk, PAGE, 0) > 256 && !memcmp(note->id, id, ID_SIZE);
	return !close(from) && !close(fd) && ok;
}

/* As in fs/xfs/libxfs/xfs_fs.h */
struct exchange_range {
	int32_t file1_fd;
	uint32_t pad;
	uint64_t file1_offset, file2_offset, length, flags;
};

#define XFS_IOC_EXCHANGE_RANGE _IOW('X', 129, struct exchange_range)

static bool overwrite_exchange(const char *path, const unsigned char *id, int unused)
{
	struct exchange_range range = { .length = PAGE };
	int to;

	range.file1_fd = new_file_next_to(path, id);
	to = open(path, O_RDWR | O_CLOEXEC);
	return range.file1_fd >= 0 && to >= 0 && !ioctl(to, XFS_IOC_EXCHANGE_RANGE, &range) &&
	       !close(range.file1_fd) && !close(to);
}

/* Refused unless the compressed data is smaller. */
static bool overwrite_encoded(const char *path, const unsigned char *id, int unused)
{
	unsigned char plain[2 * PAGE] = "", encoded[2 * PAGE];
	unsigned long size = sizeof(encoded);
	struct iovec iov = { encoded };
	struct btrfs_ioctl_encoded_io_args args = {
		.iov = &iov, .iovcnt = 1, .len = sizeof(plain), .unencoded_len = sizeof(plain),
		.compression = BTRFS_ENCODED_IO_COMPRESSION_ZLIB,
	};
	char *page = direct_page(id);
	int fd;

	if (!page)
		return false;
	memcpy(plain, page, PAGE);
	if (compress(encoded, &size, plain, sizeof(plain)) != Z_OK)
		return false;
	iov.iov_len = size;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd >= 0 && ioctl(fd, BTRFS_IOC_ENCODED_WRITE, &args) >= 0 && !close(fd);
}

/* As in fs/ext4/ext4.h */
struct move_extent {
	uint32_t reserved, donor_fd;
	uint64_t orig_start, donor_start, len, moved_len;
};

#define EXT4_IOC_MOVE_EXT _IOWR('f', 15, struct move_extent)
#define EXT4_IOC_SWAP_BOOT _IO('f', 17)

static bool overwrite_move_ext(const char *path, const unsigned char *id, int unused)
{
	struct move_extent move = {};
	int fd, tries = 100;
	struct stat st;

	if (!overwrite_open(path, id, 0))
		return false;
	fd = open(path, O_RDWR | O_CLOEXEC);
	move.donor_fd = new_file_next_to(path, id);
	/* Blocks that have not been allocated are not moved. */
	if (fd < 0 || fsync(fd) || fsync(move.donor_fd) || fstat(fd, &st))
		return false;
	do {
		move.len = PAGE / st.st_blksize;
		move.moved_len = 0;
	} while (ioctl(fd, EXT4_IOC_MOVE_EXT, &move) && errno == EBUSY && --tries);
	return move.moved_len == PAGE / st.st_blksize && !close(fd) && !close(move.donor_fd);
}

static bool overwrite_swap_boot(const char *path, const unsigned char *id, int unused)
{
	int fd;

	if (!overwrite_open(path, id, 0))
		return false;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd >= 0 && !ioctl(fd, EXT4_IOC_SWAP_BOOT) && !ioctl(fd, EXT4_IOC_SWAP_BOOT) &&
	       !close(fd);
}

/* The kernel does not swap to the first page, which has the build ID. */
static bool overwrite_swap_file(const char *path, const unsigned char *id, int unused)
{
	return overwrite_open(path, id, 0) && make_swap(path, 16) && !swapon(path, 0) &&
	       !swapoff(path);
}

static bool enable_verity(int fd)
{
	struct fsverity_enable_arg verity = {
		.version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256, .block_size = PAGE,
	};

	return !ioctl(fd, FS_IOC_ENABLE_VERITY, &verity);
}

static bool overwrite_verity(const char *path, const unsigned char *id, int unused)
{
	int fd;

	if (!overwrite_unlink(path, id, 0))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && enable_verity(fd) && !close(fd);
}

static const struct {
	/* Returns false, with errno, on failure. */
	bool (*once)(const char *path, const unsigned char *id, int arg);
	int arg;
	bool by_name;		/* the name refers to another file each time */
	const char *option;	/* without it, the errno is ENOSYS */
} ways[] = {
	[PWRITE]	= { overwrite_open },
	[TRUNCATE]	= { overwrite_open, .arg = O_TRUNC },
	[SHARED]	= { overwrite_shared, .arg = false },
	[SHARED_CLOSED]	= { overwrite_shared, .arg = true },
	[CHMOD]		= { overwrite_chmod },
	[RENAME]	= { overwrite_rename, .by_name = true },
	[UNLINK]	= { overwrite_unlink, .by_name = true },
	[DIRECT]	= { overwrite_direct },
	[DIRECT_FAULT]	= { overwrite_direct_fault },
	[AIO_CLOSED]	= { overwrite_aio_closed, .option = "CONFIG_AIO" },
	[IO_URING]	= { overwrite_io_uring, .option = "CONFIG_IO_URING" },
	[PUNCH]		= { overwrite_fallocate, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE },
	[ZERO]		= { overwrite_fallocate, FALLOC_FL_ZERO_RANGE },
	[INSERT]	= { overwrite_fallocate, FALLOC_FL_INSERT_RANGE },
	[COLLAPSE]	= { overwrite_collapse, FALLOC_FL_COLLAPSE_RANGE },
	[CLONE]		= { overwrite_clone },
	[DEDUPE]	= { overwrite_dedupe },
	[DEDUPE_PINNED]	= { overwrite_dedupe_pinned,
			    .option = "CONFIG_USERFAULTFD and CONFIG_CROSS_MEMORY_ATTACH" },
	[EXCHANGE]	= { overwrite_exchange },
	[ENCODED]	= { overwrite_encoded },
	[MOVE_EXT]	= { overwrite_move_ext },
	[SWAP_BOOT]	= { overwrite_swap_boot },
	[SWAP_FILE]	= { overwrite_swap_file, .option = "CONFIG_SWAP" },
	[VERITY]	= { overwrite_verity, .by_name = true },
	[COPY_UP]	= { overwrite_open, .by_name = true },
};

/* Writes build ID @n, in the way of the variant. */
static bool overwrite_once(FIXTURE_DATA(overwrite) *self, unsigned int n)
{
	unsigned char id[ID_SIZE];
	char path[256];

	make_id(id, n);
	overwrite_path(self, "", n, path, sizeof(path));
	errno = 0;
	return ways[self->how].once(path, id, ways[self->how].arg);
}

static void *overwriter(void *arg)
{
	FIXTURE_DATA(overwrite) *self = arg;
	unsigned int n, asked;

	if (pin_to_cpu(1))
		self->failed = true;
	for (n = 2; n <= self->last && !READ_ONCE(self->stop) && !self->failed; n++) {
		__atomic_store_n(&self->begun, n, __ATOMIC_SEQ_CST);
		if (!overwrite_once(self, n))
			self->failed = true;
		__atomic_store_n(&self->done, n, __ATOMIC_SEQ_CST);
		/* At once, or after a fill, or after a hit. */
		asked = READ_ONCE(self->asked) + n % 4;
		while ((int)(READ_ONCE(self->asked) - asked) < 0 && !READ_ONCE(self->stop))
			sched_yield();
	}
	return NULL;
}

/* Switches the cache off and on, as fast as possible. */
static void *switcher(void *arg)
{
	FIXTURE_DATA(overwrite) *self = arg;

	while (!READ_ONCE(self->stop) && !self->failed) {
		if (switch_cache(false) || switch_cache(true))
			self->failed = true;
		WRITE_ONCE(self->switched, self->switched + 1);
	}
	return NULL;
}

/* Longer with $STORM_SECONDS. */
static bool storm_goes_on(FIXTURE_DATA(overwrite) *self, time_t end)
{
	return !READ_ONCE(self->failed) &&
	       (self->asked < storm_count(QUESTIONS) ||
		READ_ONCE(self->done) < storm_count(WRITES) ||
		(self->switching && READ_ONCE(self->switched) < storm_count(SWITCHES)) ||
		time(NULL) < end);
}

/* Can this byte belong to one of the build IDs @first to @last? */
static bool byte_is_of(const unsigned char *id, int i, unsigned int first, unsigned int last)
{
	unsigned char expected[ID_SIZE];

	/* Being written, past the old end of the file. */
	if (first != last && !id[i])
		return true;
	for (; first <= last; first++) {
		make_id(expected, first);
		if (id[i] == expected[i])
			return true;
	}
	return false;
}

/*
 * Task context, sleepable or not. Build ID n is right from the start of its write until
 * the next one is complete. Each byte counts by itself: a file read during a write can
 * be half of each.
 */
TEST_F(overwrite, storm)
{
	bool by_name = ways[variant->how].by_name;
	unsigned int before, after, answers = 0, wrong = 0;
	struct cache_events *events;
	unsigned char id[ID_SIZE];
	int len, fd, i;
	char path[256];
	char *map;
	time_t end;

	self->begun = 1;
	self->done = 1;
	make_id(self->f.id, 1);
	new_file(_metadata, &self->f, 256);
	if (!overwrite_once(self, 1)) {
		if (errno == ENOSYS && ways[variant->how].option)
			SKIP(return, "needs %s", ways[variant->how].option);
		ASSERT_TRUE(errno == EOPNOTSUPP || errno == ENOTTY) TH_LOG("%s", strerror(errno));
		SKIP(return, "needs a file system with that way to write");
	}
	map_file(_metadata, &self->f, PAGE);
	events = &self->f.skel->bss->events;
	end = time(NULL) + storm_seconds(0);
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, overwriter, self));
	if (self->switching)
		ASSERT_EQ(0, pthread_create(&self->switcher, NULL, switcher, self));

	for (; storm_goes_on(self, end); WRITE_ONCE(self->asked, self->asked + 1)) {
		map = self->f.map;
		before = __atomic_load_n(&self->done, __ATOMIC_SEQ_CST);
		if (by_name) {
			/* The next file to be overwritten, or the last one. */
			overwrite_path(self, "", before < self->last ? before + 1 : self->last,
				       path, sizeof(path));
			fd = open(path, O_RDONLY | O_CLOEXEC);
			map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
			close(fd);
			if (map == MAP_FAILED)
				continue;
		}
		len = ask(&self->f, map, self->asked % 2 ? NOT_SLEEPABLE : QUERY, id);
		after = __atomic_load_n(&self->begun, __ATOMIC_SEQ_CST);
		if (by_name)
			munmap(map, PAGE);
		if (len != ID_SIZE)
			continue;
		answers++;
		for (i = 0; i < ID_SIZE && byte_is_of(id, i, before, after); i++)
			;
		if (i < ID_SIZE && !wrong++)
			TH_LOG("byte %d is %02x when the build ID was %u to %u", i, id[i], before,
			       after);
	}
	WRITE_ONCE(self->stop, true);
	pthread_join(self->thread, NULL);
	if (self->switching)
		pthread_join(self->switcher, NULL);

	/* The last three are of the first file. */
	TH_LOG("%u questions, %u answers, %u overwrites; %llu hits, %llu fills, %llu drops",
	       self->asked, answers, self->done, events->hits, events->fills,
	       events->invalidations);
	EXPECT_FALSE(self->failed);
	EXPECT_EQ(0, wrong);
	/* Otherwise nothing was tested. */
	EXPECT_LT(storm_count(QUESTIONS) / 10, answers);
	if (!by_name && !self->switching)
		EXPECT_LT(storm_count(WRITES) / 4, events->invalidations);
}

/* --- bpf_file_build_id() ----------------------------------------------------------- */

/* Programs to execute, with and without a build ID. */
static const char * const programs[] = {
	"/bin/true", "/bin/cat", "/usr/bin/env", "/bin/sh", "tiny",
};

FIXTURE(kfunc)
{
	FIXTURE_DATA(faults) f;
};

FIXTURE_VARIANT(kfunc)
{
	enum own_fs fs;		/* in a mount namespace of its own, if any */
	bool below;		/* files in the lower layer */
};

FIXTURE_VARIANT_ADD(kfunc, plain) { .fs = FS_NONE };
FIXTURE_VARIANT_ADD(kfunc, overlay_upper) { .fs = FS_OVERLAY };
FIXTURE_VARIANT_ADD(kfunc, overlay_lower) { .fs = FS_OVERLAY, .below = true };
/* Metadata in the upper layer, data in the lower one, without a digest to verify. */
FIXTURE_VARIANT_ADD(kfunc, overlay_metadata) { .fs = FS_OVERLAY_META, .below = true };

static void program_path(FIXTURE_DATA(faults) *self, const char *layer, int n)
{
	snprintf(self->path, sizeof(self->path), "%s%s/%d", self->dir, layer, n);
}

/* Copies up the metadata, but no data. */
static void chmod_files(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self)
{
	struct stat st;
	int i;

	for (i = 0; i < (int)ARRAY_LEN(programs); i++) {
		program_path(self, "", i);
		ASSERT_EQ(0, chmod(self->path, 0700));
	}
	snprintf(self->path, sizeof(self->path), "%s/file", self->dir);
	ASSERT_EQ(0, chmod(self->path, 0700));
	ASSERT_EQ(0, stat(self->path, &st));
	ASSERT_EQ(0700, st.st_mode & 0777);
}

/* The programs, and a file written to disk. */
static void make_files(struct __test_metadata *_metadata, FIXTURE_DATA(faults) *self,
		       const char *layer)
{
	int i;

	for (i = 0; i < (int)ARRAY_LEN(programs); i++) {
		program_path(self, layer, i);
		ASSERT_EQ(0, copy_file(programs[i], self->path));
	}
	snprintf(self->path, sizeof(self->path), "%s%s/file", self->dir, layer);
	new_file(_metadata, self, 256);
	close(self->fd);
	self->fd = -1;
}

FIXTURE_SETUP(kfunc)
{
	char path[256];
	int err;

	if (!has_cache())
		SKIP(return, "this kernel has no bpf_file_build_id()");
	new_fixture(_metadata, &self->f);
	if (variant->below) {
		snprintf(path, sizeof(path), "%s/lower", self->f.dir);
		ASSERT_EQ(0, mkdir(path, 0755));
		make_files(_metadata, &self->f, "/lower");
	}
	err = use_fs(&self->f, variant->fs);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(variant->fs));
	ASSERT_EQ(0, err);
	if (!variant->below)
		make_files(_metadata, &self->f, "");
	if (variant->fs == FS_OVERLAY_META)
		chmod_files(_metadata, &self->f);
}

FIXTURE_TEARDOWN(kfunc)
{
	if (self->f.skel)
		free_fixture(&self->f);
}

/* Runs the program with the child as target. */
static int run_target(FIXTURE_DATA(faults) *self)
{
	int fds[2], status;
	pid_t pid;
	char c;

	if (pipe(fds))
		return -errno;
	pid = fork();
	if (!pid) {
		/* Waits until it is the target. */
		dup2(open("/dev/null", O_RDWR), STDOUT_FILENO);
		dup2(STDOUT_FILENO, STDERR_FILENO);
		if (read(fds[0], &c, 1) == 1)
			execl(self->path, self->path, "--version", NULL);
		_exit(127);
	}
	self->skel->bss->target = pid;
	self->skel->bss->exec_runs = 0;
	if (write(fds[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid)
		return -errno;
	close(fds[0]);
	close(fds[1]);
	return 0;
}

/* tp_btf/sched_process_exec, may not sleep: same as libelf, and -ENOENT for none. */
TEST_F(kfunc, exec)
{
	int i, j, len, with = 0, without = 0;
	unsigned char id[ID_SIZE];

	load(_metadata, &self->f, self->f.skel->progs.on_exec, NULL);
	for (i = 0; i < (int)ARRAY_LEN(programs); i++) {
		program_path(&self->f, "", i);
		len = libelf_build_id(self->f.path, id);
		ASSERT_LE(0, len);
		memset(self->f.skel->bss->exec_id, 0xff, sizeof(self->f.skel->bss->exec_id));
		self->f.skel->bss->exec_small[0] = 0xff;
		ASSERT_EQ(0, run_target(&self->f));

		ASSERT_EQ(1, self->f.skel->bss->exec_runs);
		EXPECT_EQ(len ?: -ENOENT, self->f.skel->bss->exec_result)
			TH_LOG("%s", programs[i]);
		EXPECT_EQ(0, memcmp(id, self->f.skel->bss->exec_id, len));
		/* Zeros up to 20 bytes, and unchanged after them. */
		for (j = len; j < (int)sizeof(self->f.skel->bss->exec_id); j++)
			EXPECT_EQ(j < ID_SIZE ? 0 : 0xff, self->f.skel->bss->exec_id[j]);
		EXPECT_EQ(0, self->f.skel->bss->exec_small[0]);
		EXPECT_EQ(len ?: -ENOENT, self->f.skel->bss->exec_large_result);
		EXPECT_EQ(len > 1 ? -E2BIG : -ENOENT, self->f.skel->bss->exec_small_result);
		len ? with++ : without++;
	}
	EXPECT_LT(0, with);
	EXPECT_LT(0, without);
}

/* The last line that the task has printed with bpf_printk(), or an empty string. */
static void last_printed(pid_t pid, char *text, size_t size)
{
	char line[256], task[32], *at;
	FILE *trace;

	text[0] = 0;
	snprintf(task, sizeof(task), "-%d ", pid);
	trace = fopen("/sys/kernel/tracing/trace", "re");
	while (trace && fgets(line, sizeof(line), trace)) {
		at = strstr(line, task);
		at = at ? strstr(at, "bpf_trace_printk: ") : NULL;
		if (at)
			snprintf(text, size, "%s", at + strlen("bpf_trace_printk: "));
	}
	if (trace)
		fclose(trace);
	text[strcspn(text, "\n")] = 0;
}

/* The program of Documentation/bpf/build_id.rst, unchanged. */
TEST_F(kfunc, documented)
{
	struct setting event = {};
	struct buildid_doc *doc;
	unsigned char id[ID_SIZE];
	char want[64], text[256];
	int i, len;

	/* Loading a program with bpf_printk() enables the event too, but later, in a work. */
	if (setting_change(&event, "/sys/kernel/tracing/events/bpf_trace/bpf_trace_printk/enable",
			   "1"))
		SKIP(return, "needs tracefs at /sys/kernel/tracing");
	doc = buildid_doc__open_and_load();
	ASSERT_NE(NULL, doc);
	ASSERT_EQ(0, buildid_doc__attach(doc));
	for (i = 0; i < (int)ARRAY_LEN(programs); i++) {
		program_path(&self->f, "", i);
		len = libelf_build_id(self->f.path, id);
		ASSERT_EQ(0, run_target(&self->f));
		want[0] = 0;
		if (len > 0)
			snprintf(want, sizeof(want), "%d: %02x%02x%02x%02x...", i,
				 id[0], id[1], id[2], id[3]);
		last_printed(self->f.skel->bss->target, text, sizeof(text));
		EXPECT_STREQ(want, text) TH_LOG("%s", programs[i]);
	}
	buildid_doc__destroy(doc);
	setting_restore(&event);
}

/* Does the file system refuse unaligned O_DIRECT reads? Some do not. */
static bool refuses_unaligned(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	bool refused;
	char c[3];

	refused = fd >= 0 && pread(fd, c + 1, 1, 0) < 0 && errno == EINVAL;
	close(fd);
	return refused;
}

/*
 * In open(): if a file is not in the page cache, a program that may not sleep fails;
 * one that may sleep reads it. Then it is cached, and both succeed.
 */
TEST_F(kfunc, open)
{
	static const struct {
		enum asks_at_open who;
		int flags, result;
	} opens[] = {
		{ MAY_NOT_SLEEP, 0, -EAGAIN },
		/* The parser's reads are not aligned for that. */
		{ MAY_SLEEP, O_DIRECT, -EAGAIN },
		{ MAY_SLEEP, 0, ID_SIZE },
		{ MAY_NOT_SLEEP, 0, ID_SIZE },
	};
	struct stat st;
	int i;

	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	load(_metadata, &self->f, self->f.skel->progs.on_open,
	     self->f.skel->progs.on_open_sleepable);
	ASSERT_EQ(0, pin_to_cpu(0));
	snprintf(self->f.path, sizeof(self->f.path), "%s/file", self->f.dir);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	ASSERT_EQ(0, fstat(self->f.fd, &st));
	self->f.skel->bss->inode_nr = st.st_ino;
	/* Not executable: mapping it reads no build ID. */
	self->f.map_size = PAGE;
	self->f.map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, self->f.map);

	for (i = 0; i < (int)ARRAY_LEN(opens); i++) {
		if (opens[i].flags & O_DIRECT && !refuses_unaligned(self->f.path))
			continue;
		ASSERT_EQ(0, page_out(self->f.map));
		self->f.skel->bss->open_runs = 0;
		self->f.skel->bss->asks_at_open = opens[i].who;
		close(open(self->f.path, O_RDONLY | O_CLOEXEC | opens[i].flags));
		self->f.skel->bss->asks_at_open = NOBODY;
		ASSERT_EQ(1, self->f.skel->bss->open_runs);
		EXPECT_EQ(opens[i].result, self->f.skel->bss->open_result);
		if (opens[i].result == ID_SIZE)
			EXPECT_EQ(0, memcmp(self->f.id, self->f.skel->bss->open_id, ID_SIZE));
	}
	EXPECT_FALSE(resident(self->f.map));
}

FIXTURE(opening)
{
	FIXTURE_DATA(faults) f;
};

FIXTURE_SETUP(opening)
{
	if (!has_cache())
		SKIP(return, "this kernel has no bpf_file_build_id()");
	if (!has_bpf_lsm())
		SKIP(return, NEEDS_BPF_LSM);
	new_fixture(_metadata, &self->f);
}

FIXTURE_TEARDOWN(opening)
{
	if (self->f.skel)
		free_fixture(&self->f);
}

/*
 * A program that may sleep, at file_open: the file is not open yet, and cannot be read. Its
 * build ID is taken from the page cache, even if it is not kept because the file is opened for
 * writing.
 */
TEST_F(opening, not_open_yet)
{
	struct buildid__bss *bss = self->f.skel->bss;
	struct stat st;
	int i;

	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->f.fd);
	ASSERT_EQ(0, fstat(self->f.fd, &st));
	bss->inode_nr = st.st_ino;
	bss->fs_dev = major(st.st_dev) << 20 | minor(st.st_dev);
	load(_metadata, &self->f, self->f.skel->progs.on_opening, NULL);
	self->f.map_size = PAGE;
	self->f.map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, self->f.fd, 0);
	ASSERT_NE(MAP_FAILED, self->f.map);
	for (i = 0; i < 2; i++) {
		if (i) {
			ASSERT_EQ(ELFMAG[1], READ_ONCE(self->f.map[1]));
		} else {
			ASSERT_EQ(0, page_out(self->f.map));
		}
		bss->open_runs = 0;
		close(open(self->f.path, O_RDWR | O_CLOEXEC));
		ASSERT_EQ(1, bss->open_runs);
		EXPECT_EQ(i ? ID_SIZE : -EAGAIN, bss->open_result);
	}
	EXPECT_EQ(0, memcmp(self->f.id, bss->open_id, ID_SIZE));
}

/*
 * In open(), sleepable or not: overlayfs verifies the digest of data in the lower layer when a file
 * is first opened. Before that, no build ID is taken from there.
 */
TEST_F(opening, digest)
{
	struct buildid__bss *bss = self->f.skel->bss;
	char lower[220];
	struct stat st;
	int i, err;

	err = fs_mount(FS_EXT4_VERITY, self->f.dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_EXT4_VERITY));
	ASSERT_EQ(0, err);
	snprintf(lower, sizeof(lower), "%s/lower", self->f.dir);
	ASSERT_EQ(0, mkdir(lower, 0755));
	snprintf(self->f.path, sizeof(self->f.path), "%s/file", lower);
	new_file(_metadata, &self->f, 256);
	close(self->f.fd);
	self->f.fd = open(self->f.path, O_RDONLY | O_CLOEXEC);
	if (!enable_verity(self->f.fd)) {
		ASSERT_EQ(EOPNOTSUPP, errno);
		SKIP(return, "needs CONFIG_FS_VERITY");
	}
	close(self->f.fd);
	self->f.fd = -1;
	err = fs_mount(FS_OVERLAY_META, self->f.dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_OVERLAY_META));
	ASSERT_EQ(0, err);
	snprintf(self->f.path, sizeof(self->f.path), "%s/file", self->f.dir);
	/* Copies up the metadata, with the digest. */
	ASSERT_EQ(0, chmod(self->f.path, 0700));
	ASSERT_EQ(0, stat(self->f.path, &st));
	bss->inode_nr = st.st_ino;
	/* overlayfs opens the file in the lower layer, which has the same inode number. */
	bss->fs_dev = major(st.st_dev) << 20 | minor(st.st_dev);

	load(_metadata, &self->f, self->f.skel->progs.on_opening,
	     self->f.skel->progs.on_opening_nowait);
	for (i = 0; i < 2; i++) {
		close(open(self->f.path, O_RDONLY | O_CLOEXEC));
		ASSERT_EQ(i + 1, bss->open_runs);
		/* The page with the headers is there all the time. */
		EXPECT_EQ(i ? ID_SIZE : -EAGAIN, bss->open_result);
		EXPECT_EQ(i ? ID_SIZE : -EAGAIN, bss->opening_nowait_result);
	}
	buildid__detach(self->f.skel);
	EXPECT_EQ(0, fs_unmount(FS_OVERLAY_META, self->f.dir));
	EXPECT_EQ(0, fs_unmount(FS_EXT4_VERITY, self->f.dir));
}

TEST_HARNESS_MAIN
