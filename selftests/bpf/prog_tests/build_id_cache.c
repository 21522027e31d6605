// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <test_progs.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

#include "build_id_cache.skel.h"

static char path[64];
static char build_id[BPF_BUILD_ID_SIZE];
static sigjmp_buf after_fault;
static long page_sz;

/* It has no page table entry, so that the page can be dropped from the page cache. */
static void *unmapped_page;
static int file_fd;

static bool page_in_memory(bool wanted)
{
	unsigned char vec = !wanted;
	char c;

	if (wanted)
		ASSERT_EQ(pread(file_fd, &c, 1, 0), 1, "pread");
	else
		ASSERT_OK(posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
	ASSERT_OK(mincore(unmapped_page, page_sz, &vec), "mincore");
	return ASSERT_EQ(vec & 1, wanted, "page_in_memory");
}

static void open_for_write(void)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (ASSERT_OK_FD(fd, "open_for_write"))
		close(fd);
}

static void check_file(struct build_id_cache *skel, int size, int res, const char *name)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	char zeros[BPF_BUILD_ID_SIZE] = {};

	skel->bss->addr = (uintptr_t)unmapped_page;
	skel->bss->size = size;
	skel->bss->res = 0;
	memset(skel->bss->id, 0xaa, sizeof(skel->bss->id));
	ASSERT_OK(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.file_build_id), &opts),
		  "test_run");
	ASSERT_EQ(skel->bss->res, res, name);
	ASSERT_MEMEQ(skel->bss->id, res > 0 ? build_id : zeros, size, "file_id");
}

static void subtest_file(struct build_id_cache *skel)
{
	void *map;

	if (!page_in_memory(false))
		return;
	check_file(skel, sizeof(build_id), -EAGAIN, "not_in_memory");

	if (!page_in_memory(true))
		return;
	check_file(skel, sizeof(build_id), sizeof(build_id), "in_memory");
	check_file(skel, sizeof(build_id) - 1, -E2BIG, "short_buffer");
	check_file(skel, 0, -EINVAL, "no_buffer");

	/* Like the loader, map the file to execute. That caches its build ID. */
	map = mmap(NULL, page_sz, PROT_READ | PROT_EXEC, MAP_PRIVATE, file_fd, 0);
	if (!ASSERT_NEQ(map, MAP_FAILED, "mmap_exec"))
		return;
	munmap(map, page_sz);
	if (!page_in_memory(false))
		return;
	check_file(skel, sizeof(build_id), sizeof(build_id), "cached");
	open_for_write();
	check_file(skel, sizeof(build_id), -EAGAIN, "after_writer");
}

static void handle_fault(int sig)
{
	siglongjmp(after_fault, 1);
}

/* Take a stack whose top frame is in the file: a jump there faults. */
static void check_stack(struct build_id_cache *skel, int status, const char *name)
{
	struct sigaction old, act = { .sa_handler = handle_fault };
	struct bpf_stack_build_id frame = {};

	skel->bss->stackid = -1;
	skel->bss->pid = getpid();
	ASSERT_OK(sigaction(SIGSEGV, &act, &old), "sigaction");
	if (!sigsetjmp(after_fault, 1))
		((void (*)(void))(unmapped_page + 16))();
	sigaction(SIGSEGV, &old, NULL);
	skel->bss->pid = 0;

	if (!ASSERT_GE(skel->bss->stackid, 0, "stackid") ||
	    !ASSERT_OK(bpf_map__lookup_elem(skel->maps.stackmap, &skel->bss->stackid,
					    sizeof(__u32), &frame, sizeof(frame), 0), "lookup"))
		return;
	ASSERT_EQ(frame.status, status, name);
	if (frame.status == BPF_STACK_BUILD_ID_VALID) {
		ASSERT_EQ(frame.offset, 16, "offset");
		ASSERT_MEMEQ(frame.build_id, build_id, sizeof(build_id), "build_id");
	}
}

static void subtest_stackmap(struct build_id_cache *skel)
{
	if (!ASSERT_OK(build_id_cache__attach(skel), "attach") || !page_in_memory(true))
		return;
	check_stack(skel, BPF_STACK_BUILD_ID_VALID, "in_memory");
	if (!page_in_memory(false))
		return;
	check_stack(skel, BPF_STACK_BUILD_ID_VALID, "cached");
	open_for_write();
	check_stack(skel, BPF_STACK_BUILD_ID_IP, "after_writer");
}

static void run_subtest(const char *prog, void (*subtest)(struct build_id_cache *skel))
{
	struct build_id_cache *skel;

	skel = build_id_cache__open();
	if (!ASSERT_OK_PTR(skel, "open"))
		return;
	bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, prog), true);
	if (ASSERT_OK(build_id_cache__load(skel), "load"))
		subtest(skel);
	build_id_cache__destroy(skel);
}

/* The cache needs a file system that counts its writers: tmpfs and 9p do not. */
void test_build_id_cache(void)
{
	char dir[] = "/tmp/build_id_cache_XXXXXX";

	page_sz = sysconf(_SC_PAGESIZE);
	if (!ASSERT_OK(mount_ext4_image(dir), "mount_ext4_image"))
		return;
	snprintf(path, sizeof(path), "%s/mnt/file", dir);
	SYS(umount, "cp urandom_read %s && sync %s", path, path);
	if (!ASSERT_EQ(read_build_id(path, build_id, sizeof(build_id)), sizeof(build_id),
		       "read_build_id"))
		goto umount;
	file_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!ASSERT_OK_FD(file_fd, "open"))
		goto umount;
	unmapped_page = mmap(NULL, page_sz, PROT_NONE, MAP_PRIVATE, file_fd, 0);
	if (ASSERT_NEQ(unmapped_page, MAP_FAILED, "mmap")) {
		if (test__start_subtest("file"))
			run_subtest("file_build_id", subtest_file);
		if (test__start_subtest("stackmap"))
			run_subtest("sample_fault", subtest_stackmap);
		munmap(unmapped_page, page_sz);
	}
	close(file_fd);
umount:
	umount_ext4_image(dir);
}
