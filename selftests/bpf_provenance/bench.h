/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPF_PROVENANCE_BENCH_H
#define __BPF_PROVENANCE_BENCH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A chain of calls through the functions of several files: libframe.so is
 * loaded from as many copies. The last call is leaf() of the first file.
 */
struct bench_chain {
	int depth;
	int files;
	long (*frame[8])(struct bench_chain *chain);
	long (*leaf)(void);
};

/*
 * Each bench_*.c measures one feature. BENCH(NAME, FUNCTION) registers FUNCTION,
 * which is called if an operation whose name starts with NAME was requested.
 */
struct bench_group {
	const char *name;
	void (*run)(void);
};

#define BENCH(prefix, function)							\
	static const struct bench_group bench_##function = { (prefix), (function) };	\
	static const struct bench_group *const bench_ptr_##function		\
		__attribute__((used, section("bench_groups"))) = &bench_##function

/*
 * An operation: op() is measured; before() and after() are not. Each dies when
 * something fails.
 */
struct op {
	void (*before)(void *arg);
	void (*op)(void *arg);
	void (*after)(void *arg);
	void *arg;
	unsigned int times;
};

/* Print @what and errno, and exit. */
void die(const char *what) __attribute__((noreturn));

/* Was the operation @name requested? */
bool is_wanted(const char *name);

/* The cost of @op in nanoseconds, without that of reading the clock. */
double cost(const struct op *op);

/* Measure @op and print the costs less @base, each divided by @by. */
void report(const char *name, const char *x, const struct op *op, double base, double by);

/* A directory on a disk; all of its files are removed by the code that made them. */
extern char scratch[200];

/* The path of copy @i of libframe.so in the scratch directory. */
void frame_path(char *path, size_t size, int i);

/* Make @n copies of libframe.so, or remove them. */
void copy_frames(int n, bool remove);

/* Map the first copy of libframe.so, executable, and make or remove the copy. */
void *map_frame(void);
void unmap_frame(void *p);

#endif
