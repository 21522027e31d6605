// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <test_progs.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "task_vma_walk.skel.h"

static long page_sz;

static void *run_next_after_end(void *skel)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int fd;

	fd = bpf_program__fd(((struct task_vma_walk *)skel)->progs.next_after_end);
	return (void *)(long)bpf_prog_test_run_opts(fd, &opts);
}

/* Once next() has returned NULL, it must do so again, even if there is a new mapping. */
static void subtest_end(struct task_vma_walk *skel)
{
	void *block, *map = MAP_FAILED, *ret;
	struct uffdio_zeropage zero = {};
	struct pollfd pfd = {};
	struct uffd_msg msg;
	pthread_t thread;

	block = mmap(NULL, page_sz, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ASSERT_NEQ(block, MAP_FAILED, "mmap_block"))
		return;
	pfd.fd = uffd_block_page(block);
	pfd.events = POLLIN;
	if (!ASSERT_OK_FD(pfd.fd, "uffd_block_page"))
		goto unmap;
	skel->bss->fault_addr = block;
	if (!ASSERT_OK(pthread_create(&thread, NULL, run_next_after_end, skel), "pthread_create")) {
		close(pfd.fd);
		goto unmap;
	}

	if (ASSERT_EQ(poll(&pfd, 1, 10000), 1, "poll") &&
	    ASSERT_EQ(read(pfd.fd, &msg, sizeof(msg)), sizeof(msg), "read_uffd")) {
		map = mmap((void *)skel->bss->last_end, page_sz, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		ASSERT_EQ(map, (void *)skel->bss->last_end, "mmap_above_last");
		zero.range.start = (uintptr_t)block;
		zero.range.len = page_sz;
		ASSERT_OK(ioctl(pfd.fd, UFFDIO_ZEROPAGE, &zero), "uffd_zeropage");
	}
	/* A program that still waits for the page continues. */
	close(pfd.fd);
	if (ASSERT_OK(pthread_join(thread, &ret), "pthread_join") && map != MAP_FAILED) {
		ASSERT_NULL(ret, "test_run");
		ASSERT_OK(skel->bss->copy_err, "copy_from_user");
		ASSERT_EQ(skel->bss->after_end, 0, "next_after_end");
	}
	if (map != MAP_FAILED)
		munmap(map, page_sz);
unmap:
	munmap(block, page_sz);
}

static void check_walk(struct task_vma_walk *skel, int nr_changing, int err)
{
	ASSERT_EQ(skel->bss->nr_walks, 1, "nr_walks");
	ASSERT_EQ(skel->bss->nr_other, 2, "nr_other");
	ASSERT_EQ(skel->bss->nr_changing, nr_changing, "nr_changing");
	ASSERT_EQ(skel->bss->err, err, "error");
	skel->bss->nr_walks = 0;
	skel->bss->nr_other = 0;
	skel->bss->nr_changing = 0;
}

/* A walk on top of a writer leaves out the VMA that it has locked, and must report that. */
static void subtest_left_out(struct task_vma_walk *skel)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	void *map, *mid;

	map = mmap(NULL, 3 * page_sz, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!ASSERT_NEQ(map, MAP_FAILED, "mmap"))
		return;
	mid = map + page_sz;
	if (!ASSERT_OK(mprotect(mid, page_sz, PROT_READ), "mprotect_read"))
		goto unmap;
	skel->bss->start = (uintptr_t)map;
	skel->bss->changing = (uintptr_t)mid;
	skel->bss->end = (uintptr_t)map + 3 * page_sz;

	ASSERT_OK(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.walk_unlocked), &opts),
		  "test_run");
	check_walk(skel, 1, 0);

	skel->links.walk_in_mprotect = bpf_program__attach(skel->progs.walk_in_mprotect);
	if (!ASSERT_OK_PTR(skel->links.walk_in_mprotect, "attach"))
		goto unmap;
	skel->bss->pid = getpid();
	ASSERT_OK(mprotect(mid, page_sz, PROT_READ | PROT_WRITE), "mprotect_write");
	skel->bss->pid = 0;
	ASSERT_TRUE(skel->bss->write_locked, "write_locked");
	check_walk(skel, 0, -EAGAIN);
unmap:
	munmap(map, 3 * page_sz);
}

void test_task_vma_walk(void)
{
	struct task_vma_walk *skel;

	page_sz = sysconf(_SC_PAGESIZE);
	skel = task_vma_walk__open_and_load();
	if (!ASSERT_OK_PTR(skel, "open_and_load"))
		return;
	if (test__start_subtest("next_after_end"))
		subtest_end(skel);
	if (test__start_subtest("left_out"))
		subtest_left_out(skel);
	task_vma_walk__destroy(skel);
}
