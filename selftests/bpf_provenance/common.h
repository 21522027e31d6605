/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers shared by the programs of this target: CPUs, contexts, cgroups. */
#ifndef __BPF_PROVENANCE_COMMON_H
#define __BPF_PROVENANCE_COMMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Default in seconds: the slowest test takes 22 on emulated CPUs. A hanging test costs this,
 * and not the rest of its program.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 60

struct bpf_insn;

/*
 * $TIMEOUT_SCALE, or 1: a kernel with KASAN and lockdep is several times slower. Multiply
 * all timeouts by it.
 */
int timeout_scale(void);

/* A test's timeout of @seconds: scaled, plus the time for $STORM_SECONDS or $FUZZ_SECONDS. */
int test_timeout(int seconds);

#ifdef __KSELFTEST_HARNESS_H
/* Runs after the harness's constructors, which have a priority and build the lists. */
static void __attribute__((constructor)) set_test_timeouts(void)
{
	struct __fixture_metadata *f;
	struct __test_metadata *t;

	for (f = __fixture_list; f; f = f->next)
		for (t = f->tests; t; t = t->next)
			t->timeout = test_timeout(t->timeout);
}
#endif

/* All of these return 0 or a file descriptor, or a negative errno. */

/*
 * Make a private directory in $SCRATCH, or in /var/tmp, where files are on a disk.
 * The caller removes it.
 */
int scratch_dir(char *path, size_t size);

int pin_to_cpu(int cpu);

/* Is this a CONFIG_PREEMPT_RT kernel? */
bool is_preempt_rt(void);

/* Duration of a storm: $STORM_SECONDS if set, or @usual seconds. */
int storm_seconds(int usual);

/*
 * Number of operations of a storm that takes about ten seconds for @usual of them: a
 * tenth for each of $STORM_SECONDS, if set, but never more than @usual.
 */
int storm_count(int usual);

/* Write a file in /proc, /sys or similar, with one write(). */
int write_value(const char *path, const char *value);

/* The number in a field of /proc/PID/status, such as "VmRSS", or -1. */
long proc_status(pid_t pid, const char *field);

/*
 * A machine-wide setting, such as a sysctl, changed while a test needs it. A separate
 * process keeps the old value and writes it back on setting_restore(), or when the test
 * ends in any way, including failed assertions and timeouts. It is a fork of the test: change
 * settings before mapping files and entering cgroups. Later changes of the same setting are
 * plain writes.
 */
struct setting {
	pid_t keeper;
	int pipe;
};

int setting_change(struct setting *s, const char *path, const char *value);

/* Returns once the old value is restored. Without a change, nothing is done. */
void setting_restore(struct setting *s);

/*
 * May a test bring down a buggy kernel, or set the clock? For virtual machines:
 * $MAY_END_KERNEL is set by the code that creates them.
 */
bool may_end_kernel(void);
#define NEEDS_TO_END_KERNEL "can end the kernel, and runs with MAY_END_KERNEL=1 only"

/* Copy a file to a new executable one, and sync it to disk. */
int copy_file(const char *from, const char *to);

/*
 * Send an NMI to every CPU except the caller's, with SysRq l. Each prints its
 * registers to the console, which is not a fault.
 */
int nmi_to_other_cpus(void);

/* A stack map with build IDs, or -errno. It keeps the build ID cache on, if there is one. */
int make_stack_map(void);

/* A CPU-clock event on @cpu: its overflow runs in a hard interrupt. */
int cpu_clock_event(int cpu, uint64_t period_ns);

/*
 * A thread that does nothing but run spin_text() on one CPU, in user mode, so
 * that an interrupt finds that function on top of the user stack.
 */
struct spinner {
	pthread_t thread;
	pid_t tid;
	int cpu;
	void (*spin)(struct spinner *s);
	unsigned long rounds;
	bool ready;
	bool stop;
};

int spinner_start(struct spinner *s, int cpu);

/* The same in another function, which counts s->rounds until s->stop. */
int spinner_start_in(struct spinner *s, int cpu, void (*spin)(struct spinner *s));
void spinner_stop(struct spinner *s);

/*
 * Wait until the spinner runs. It does not while its CPU is busy, for example
 * printing SysRq output to a slow console.
 */
void spinner_wait(const struct spinner *s);

/*
 * Send NMIs while the spinner runs, until @runs, counted by a program, is @n, but at most
 * 10 * @n NMIs. The caller checks @runs.
 */
int nmi_until(const struct spinner *s, const unsigned long long *runs, unsigned int n);

/*
 * Create a cgroup with this name below the root of the cgroup2 hierarchy, and
 * move the caller into it. Returns a descriptor of it, for attaching programs;
 * -EOPNOTSUPP where that hierarchy is not mounted at /sys/fs/cgroup, or the kernel has no
 * programs for cgroups.
 */
int cgroup_enter(const char *name);
#define NEEDS_CGROUP2 "needs CONFIG_CGROUP_BPF, and cgroup2 at /sys/fs/cgroup"

/* Move the caller back to the root, and remove the cgroup. */
void cgroup_leave(const char *name);

/* Take a capability from the calling thread. */
int drop_cap(int cap);

/* linux/filter.h is not installed. */
#define INSN(c, d, s, o, i)						\
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s),	\
			    .off = (o), .imm = (i) })

/*
 * Make a program of @n functions that return 0: the first calls each of the
 * others, which are all the same. Returns the number of instructions.
 */
int make_functions(struct bpf_insn *insns, int n);
#define FUNCTIONS_INSNS(n) (3 * (n))

/* Does @ip lie in the code that a spinner runs? */
bool in_spinner(uint64_t ip);

#endif
