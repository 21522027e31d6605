// SPDX-License-Identifier: GPL-2.0
/*
 * Not a test: measures the cost of operations, and prints a line for each:
 *
 *	bench TAB operation TAB x TAB costs
 *
 * x is the number that grows (frames, VMAs, listeners) or the set of programs that
 * is attached; costs are those of REPEAT runs, in nanoseconds per operation. In a
 * VM with QEMU's -icount shift=0 a nanosecond is an instruction. The few
 * instructions of the measuring loop in user mode are included.
 *
 * Arguments select operations by the start of their name. The program fails when an
 * operation fails; a failed operation is never reported as a cost.
 *
 * This file has the clock and the files to work on. bench_*.c has the operations
 * of one feature each.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "common.h"

#define REPEAT 7

char scratch[200];

static char **wanted;

void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

bool is_wanted(const char *name)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(name, *w, strlen(*w)))
			return true;
	return w == wanted;
}

/* Was an operation requested whose name starts with @group? */
static bool group_wanted(const char *group)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(group, *w, strlen(group)))
			return true;
	return is_wanted(group);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

#define MAX_TIMES 1000

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median: a timer's tick, or other work that came due, is not part of the cost. */
static double once(const struct op *op)
{
	static uint64_t costs[MAX_TIMES];
	unsigned int i;
	uint64_t start;

	for (i = 0; i < op->times; i++) {
		if (op->before)
			op->before(op->arg);
		start = now();
		if (op->op)
			op->op(op->arg);
		costs[i] = now() - start;
		if (op->after)
			op->after(op->arg);
	}
	qsort(costs, op->times, sizeof(costs[0]), compare);
	return costs[(op->times - 1) / 2];
}

/* The cost of reading the clock, which every operation contains. */
static double clock_cost(void)
{
	static const struct op nothing = { .times = MAX_TIMES };
	static double cost;

	if (!cost)
		cost = once(&nothing);
	return cost;
}

void report(const char *name, const char *x, const struct op *op, double base, double by)
{
	int i;

	if (!is_wanted(name))
		return;
	once(op);	/* warm: page cache, slab caches, static branches */
	printf("bench\t%s\t%s\t", name, x);
	for (i = 0; i < REPEAT; i++)
		printf("%s%.1f", i ? " " : "", (once(op) - clock_cost() - base) / by);
	printf("\n");
	fflush(stdout);
}

double cost(const struct op *op)
{
	once(op);
	return once(op) - clock_cost();
}

/* --- files to work on ------------------------------------------------------- */

void frame_path(char *path, size_t size, int i)
{
	snprintf(path, size, "%s/frame%d.so", scratch, i);
}

void copy_frames(int n, bool remove)
{
	char path[256];
	int i;

	for (i = 0; i < n; i++) {
		frame_path(path, sizeof(path), i);
		if (remove ? unlink(path) : copy_file("libframe.so", path))
			die(path);
	}
}

/*
 * The program itself may be on a file system whose build IDs are not cached; this file is
 * on one where they are.
 */
void *map_frame(void)
{
	char path[256];
	void *p;
	int fd;

	copy_frames(1, false);
	frame_path(path, sizeof(path), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd < 0 || p == MAP_FAILED)
		die(path);
	close(fd);
	return p;
}

void unmap_frame(void *p)
{
	munmap(p, 4096);
	copy_frames(1, true);
}

/* Weak: without any bench_*.c there is no such section. */
extern const struct bench_group *const __start_bench_groups[] __attribute__((weak));
extern const struct bench_group *const __stop_bench_groups[] __attribute__((weak));

int main(int argc, char **argv)
{
	const struct bench_group *const *g;
	char dir[256];
	ssize_t n;

	/* Its files are in the same directory. */
	n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	if (n < 0)
		die("/proc/self/exe");
	dir[n] = 0;
	if (chdir(dirname(dir)))
		die(dir);
	wanted = argv + 1;
	if (scratch_dir(scratch, sizeof(scratch)))
		die("scratch directory");
	for (g = __start_bench_groups; g < __stop_bench_groups; g++)
		if (group_wanted((*g)->name))
			(*g)->run();
	rmdir(scratch);
	return 0;
}
