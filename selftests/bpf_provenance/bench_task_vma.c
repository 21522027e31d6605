// SPDX-License-Identifier: GPL-2.0
/* The cost of walks over mappings, and of looking one up. */
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "bench_task_vma.h"
#include "bench_task_vma.skel.h"
#include "common.h"

static struct bench_task_vma *skel;
static int maps_fd;

static void start(void)
{
	skel = bench_task_vma__open_and_load();
	if (!skel)
		die("open and load");
	skel->bss->target = getpid();
	skel->bss->syscall_nr = SYS_getppid;
	skel->links.on_sys_enter = bpf_program__attach(skel->progs.on_sys_enter);
	if (!skel->links.on_sys_enter)
		die("attach to sys_enter");
}

static void query_all(void *arg)
{
	struct procmap_query query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
	};

	while (!ioctl(maps_fd, PROCMAP_QUERY, &query))
		query.query_addr = query.vma_end;
	if (errno != ENOENT)
		die("PROCMAP_QUERY");
}

static void read_all(void *arg)
{
	static char buf[65536];
	ssize_t n;

	if (lseek(maps_fd, 0, SEEK_SET))
		die("seek in maps");
	while ((n = read(maps_fd, buf, sizeof(buf))) > 0)
		;
	if (n)
		die("read maps");
}

static void walk_all(void *arg)
{
	syscall(SYS_getppid);
	if (skel->bss->result || (skel->bss->mode && !skel->bss->vmas)) {
		errno = ENODATA;
		die("walk");
	}
}

/* Measures a walk, if the running kernel can do it. */
static void report_walk(const char *name, const char *x, enum bench_vma_mode mode, struct op *walk,
			double base, double all)
{
	skel->bss->mode = mode;
	skel->bss->result = 0;
	skel->bss->vmas = 0;
	syscall(SYS_getppid);
	if (!skel->bss->result && skel->bss->vmas == all)
		report(name, x, walk, base, all);
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->result = 0;
}

#define MAX_MAPPINGS 40000

/* Walks over mappings of @file, or anonymous ones if that is -1: @group/iterator etc. */
static void bench_walks_over(const char *group, int file)
{
	static const int counts[] = { 40, 2000, MAX_MAPPINGS };
	struct op walk = { .op = walk_all }, text = { .op = read_all },
		  queries = { .op = query_all };
	size_t page = sysconf(_SC_PAGESIZE), size;
	char x[16], name[5][40];
	double base, all;
	char *p;
	int i, j;

	snprintf(name[0], sizeof(name[0]), "%s/iterator", group);
	snprintf(name[1], sizeof(name[1]), "%s/iterator_irqs_off", group);
	snprintf(name[2], sizeof(name[2]), "%s/task_vma_query", group);
	snprintf(name[3], sizeof(name[3]), "%s/maps_text", group);
	snprintf(name[4], sizeof(name[4]), "%s/procmap_query", group);
	start();
	maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps_fd < 0)
		die("/proc/self/maps");
	for (i = 0; i < (int)ARRAY_LEN(counts); i++) {
		/* Every second page differs from its neighbours: no two merge. */
		size = counts[i] * page;
		p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0),
			 file, 0);
		if (p == MAP_FAILED)
			die("mmap");
		for (j = 1; j < counts[i]; j += 2)
			if (mprotect(p + j * page, page, PROT_NONE))
				die("mprotect");
		walk.times = counts[i] < 10000 ? 50 : 3;
		text.times = walk.times;
		queries.times = walk.times;

		skel->bss->result = 0;
		skel->bss->mode = BENCH_NOTHING;
		base = cost(&walk);
		skel->bss->mode = BENCH_WALK;
		walk_all(NULL);
		all = skel->bss->vmas;
		snprintf(x, sizeof(x), "%.0f", all);
		report(name[0], x, &walk, base, all);
		report_walk(name[1], x, BENCH_WALK_IRQS_OFF, &walk, base, all);
		report_walk(name[2], x, BENCH_QUERIES, &walk, base, all);
		report(name[3], x, &text, 0, all);
		report(name[4], x, &queries, 0, all);
		munmap(p, size);
	}
	close(maps_fd);
	bench_task_vma__destroy(skel);
}

static void bench_walks(void)
{
	bench_walks_over("walk", -1);
}
BENCH("walk", bench_walks);

/* The file is an ELF file on a disk, with a build ID, and holes at its end. */
static void bench_file_walks(void)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/mapped", scratch);
	if (copy_file("/proc/self/exe", path) ||
	    truncate(path, MAX_MAPPINGS * sysconf(_SC_PAGESIZE)))
		die(path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	bench_walks_over("file_walk", fd);
	close(fd);
	unlink(path);
}
BENCH("file_walk", bench_file_walks);

static void *queried;

/* Look one address up from a program; by a query, if the running kernel has it. */
static void report_lookups(const char *x, const void *addr, const struct op *op, double base)
{
	skel->bss->query_addr = (uintptr_t)addr;
	skel->bss->mode = BENCH_FIND_VMA;
	report("lookup/find_vma", x, op, base, 1);
	skel->bss->mode = BENCH_QUERY;
	skel->bss->result = 1;
	skel->bss->build_id_len = 0;
	syscall(SYS_getppid);
	if (!skel->bss->result) {
		if (addr == queried && !skel->bss->build_id_len)
			die("the query returned no build ID");
		report("lookup/task_vma_query", x, op, base, 1);
	}
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->result = 0;
}

/* The text of this program; a file whose build ID is cached; the stack, which has no file. */
static void bench_lookups(void)
{
	struct op op = { .op = walk_all, .times = 200 };
	double base;

	start();
	skel->bss->mode = BENCH_NOTHING;
	skel->bss->vmas = 1;
	skel->bss->result = 0;
	base = cost(&op);
	queried = map_frame();
	report_lookups("text", &bench_lookups, &op, base);
	report_lookups("build_id", queried, &op, base);
	report_lookups("stack", &op, &op, base);
	unmap_frame(queried);
	bench_task_vma__destroy(skel);
}
BENCH("lookup", bench_lookups);
