// SPDX-License-Identifier: GPL-2.0
/*
 * Test how the verifier handles programs that use the task_vma iterator and
 * bpf_task_vma_query(), and their results with interrupts off. Tests in NMIs, and
 * while mappings change, are in tools/testing/selftests/bpf_provenance/task_vma.c.
 */
#define _GNU_SOURCE
#include <test_progs.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "task_vma.skel.h"
#include "task_vma_failure.skel.h"
#include "task_vma_success.skel.h"

/* enum bpf_task_vma_build_id */
#define ID_NO_FILE	0
#define ID_VALID	1

#define RECORD_SIZE	88	/* of the first version */

static char path[64];
static long page_sz;

/* Map the second page of a file, anonymous memory, a hole and another page. */
static void *map_pages(int fd)
{
	void *map;

	map = mmap(NULL, 4 * page_sz, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ASSERT_NEQ(map, MAP_FAILED, "mmap"))
		return NULL;
	ASSERT_EQ(mmap(map, page_sz, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, page_sz),
		  map, "mmap_file");
	ASSERT_OK(munmap(map + 2 * page_sz, page_sz), "munmap");
	ASSERT_OK(mprotect(map + 3 * page_sz, page_sz, PROT_READ), "mprotect");
	return map;
}

static void check_vma(struct task_vma *skel, int i, void *start, __u64 pgoff, bool has_file)
{
	ASSERT_EQ(skel->bss->vmas[i].start, (uintptr_t)start, "start");
	ASSERT_EQ(skel->bss->vmas[i].end, (uintptr_t)start + page_sz, "end");
	ASSERT_EQ(skel->bss->vmas[i].has_file, has_file, "has_file");
	/* No reference could be put. */
	ASSERT_FALSE(skel->bss->vmas[i].vm_file, "vm_file");
	if (has_file)
		ASSERT_EQ(skel->bss->vmas[i].pgoff, pgoff, "pgoff");
}

static void subtest_walk(struct task_vma *skel, void *map, int fd)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	skel->bss->walk_start = (uintptr_t)map;
	skel->bss->walk_end = (uintptr_t)map + 4 * page_sz;
	ASSERT_OK(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.walk_irqs_off), &opts),
		  "test_run");
	ASSERT_OK(skel->bss->walk_err, "walk_err");
	if (!ASSERT_EQ(skel->bss->nr_vmas, 3, "nr_vmas"))
		return;
	check_vma(skel, 0, map, 1, true);
	check_vma(skel, 1, map + page_sz, 0, false);
	check_vma(skel, 2, map + 3 * page_sz, 0, false);
}

static void query(struct task_vma *skel, void *addr, __u64 flags, __u32 size, int err,
		  const char *name)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	skel->bss->query_addr = (uintptr_t)addr;
	skel->bss->query_flags = flags;
	skel->bss->query_size = size;
	memset(skel->bss->record, 0xaa, sizeof(skel->bss->record));
	ASSERT_OK(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.query_irqs_off), &opts),
		  "test_run");
	ASSERT_EQ(skel->bss->query_err, err, name);
}

static void check_range(struct task_vma *skel, void *start, __u32 perms, int id_status)
{
	ASSERT_EQ(skel->bss->start, (uintptr_t)start, "start");
	ASSERT_EQ(skel->bss->end, (uintptr_t)start + page_sz, "end");
	ASSERT_EQ(skel->bss->perms, perms, "perms");
	ASSERT_EQ(skel->bss->id_status, id_status, "id_status");
}

static void subtest_query(struct task_vma *skel, void *map, int fd)
{
	char id[BPF_BUILD_ID_SIZE];
	struct stat st;

	ASSERT_EQ(read_build_id(path, id, sizeof(id)), sizeof(id), "read_build_id");
	ASSERT_OK(fstat(fd, &st), "fstat");

	query(skel, map + 16, 0, RECORD_SIZE, 0, "file");
	check_range(skel, map, PROCMAP_QUERY_VMA_READABLE | PROCMAP_QUERY_VMA_EXECUTABLE,
		    ID_VALID);
	ASSERT_EQ(skel->bss->offset, page_sz, "offset");
	ASSERT_EQ(skel->bss->ino, st.st_ino, "ino");
	ASSERT_EQ(skel->bss->id_len, sizeof(id), "id_len");
	ASSERT_MEMEQ(skel->bss->id, id, sizeof(id), "id");

	query(skel, map + page_sz, 0, RECORD_SIZE, 0, "anonymous");
	check_range(skel, map + page_sz, 0, ID_NO_FILE);
	ASSERT_EQ(skel->bss->ino, 0, "anonymous_ino");

	query(skel, map + 2 * page_sz, 0, RECORD_SIZE, -ENOENT, "hole");
	ASSERT_EQ(skel->bss->start, 0, "hole_start");
	query(skel, map + 2 * page_sz, PROCMAP_QUERY_COVERING_OR_NEXT_VMA, RECORD_SIZE, 0, "next");
	check_range(skel, map + 3 * page_sz, PROCMAP_QUERY_VMA_READABLE, ID_NO_FILE);

	query(skel, map, 0, RECORD_SIZE - 1, -EINVAL, "small");
	query(skel, map, 1ULL << 40, RECORD_SIZE, -EINVAL, "flags");
	query(skel, map, 0, page_sz + 1, -E2BIG, "big");
}

static void run_subtest(const char *prog, void (*subtest)(struct task_vma *, void *, int))
{
	struct task_vma *skel;
	void *map;
	int fd;

	skel = task_vma__open();
	if (!ASSERT_OK_PTR(skel, "open"))
		return;
	bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, prog), true);
	if (!ASSERT_OK(task_vma__load(skel), "load"))
		goto destroy;
	/* The program is loaded, so that mmap() caches the build ID. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	map = ASSERT_OK_FD(fd, "open_file") ? map_pages(fd) : NULL;
	if (map) {
		subtest(skel, map, fd);
		munmap(map, 4 * page_sz);
	}
	close(fd);
destroy:
	task_vma__destroy(skel);
}

/* Build IDs are cached on file systems that count their writers, not on tmpfs and 9p. */
static void test_irqs_off(void)
{
	char dir[] = "/tmp/task_vma_XXXXXX";

	page_sz = sysconf(_SC_PAGESIZE);
	if (!ASSERT_OK(mount_ext4_image(dir), "mount_ext4_image"))
		return;
	snprintf(path, sizeof(path), "%s/mnt/file", dir);
	SYS(umount, "cp urandom_read %s && sync %s", path, path);
	if (test__start_subtest("walk_irqs_off"))
		run_subtest("walk_irqs_off", subtest_walk);
	if (test__start_subtest("query_irqs_off"))
		run_subtest("query_irqs_off", subtest_query);
umount:
	umount_ext4_image(dir);
}

void test_task_vma(void)
{
	RUN_TESTS(task_vma_success);
	RUN_TESTS(task_vma_failure);
	test_irqs_off();
}
