// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/compiler.h>
#include <linux/init.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "common.h"

int scratch_dir(char *path, size_t size)
{
	const char *dir = getenv("SCRATCH") ?: "/var/tmp";

	snprintf(path, size, "%s/bpf_provenance.XXXXXX", dir);
	return mkdtemp(path) ? 0 : -errno;
}

int pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

bool is_preempt_rt(void)
{
	struct utsname kernel;

	return !uname(&kernel) && strstr(kernel.version, "PREEMPT_RT");
}

static int number_of(const char *variable, int usual)
{
	const char *value = getenv(variable);

	return value ? atoi(value) : usual;
}

int timeout_scale(void)
{
	int scale = number_of("TIMEOUT_SCALE", 1);

	return scale < 1 ? 1 : scale;
}

int test_timeout(int seconds)
{
	int storm = number_of("STORM_SECONDS", 0), fuzz = number_of("FUZZ_SECONDS", 0);

	return seconds * timeout_scale() + 2 * (storm > fuzz ? storm : fuzz);
}

int storm_seconds(int usual)
{
	return number_of("STORM_SECONDS", usual);
}

int storm_count(int usual)
{
	int seconds = number_of("STORM_SECONDS", 10);

	return seconds < 1 ? usual / 10 : seconds < 10 ? usual / 10 * seconds : usual;
}

int write_value(const char *path, const char *value)
{
	int fd, err = 0;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

long proc_status(pid_t pid, const char *field)
{
	char path[32], line[256];
	size_t len = strlen(field);
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && value < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, len) && line[len] == ':')
			value = strtol(line + len + 1, NULL, 10);
	if (f)
		fclose(f);
	return value;
}

/* Returns 0 if the old value was written. */
static int end_keeper(struct setting *s)
{
	int status = -1;

	if (s->keeper <= 0)
		return 0;
	/* Closing is not enough: a child of the test may have this end open, too. */
	if (write(s->pipe, "", 1) == 1)
		waitpid(s->keeper, &status, 0);
	close(s->pipe);
	s->keeper = 0;
	return status;
}

int setting_change(struct setting *s, const char *path, const char *value)
{
	int fd, pipes[2], err;
	char old[64], c;
	ssize_t len = 0;

	s->keeper = 0;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	errno = 0;
	/* Wait for the keeper of a test that was killed: it still has this lock. */
	if (!flock(fd, LOCK_EX))
		len = read(fd, old, sizeof(old));
	if (len <= 0 || pipe2(pipes, O_CLOEXEC)) {
		err = -errno ?: -EIO;
		close(fd);
		return err;
	}
	s->keeper = fork();
	if (!s->keeper) {
		/* First the file: its descriptor is 0 if a test has no standard input. */
		dup2(fd, STDOUT_FILENO);
		dup2(pipes[0], STDIN_FILENO);
		closefrom(STDERR_FILENO);
		while (read(STDIN_FILENO, &c, 1) < 0 && errno == EINTR)
			;
		/* Not pwrite(): files of debugfs cannot seek, and do not need to. */
		lseek(STDOUT_FILENO, 0, SEEK_SET);
		_exit(write(STDOUT_FILENO, old, len) != len);
	}
	/* Out of the process group that the harness kills, and before the change. */
	err = s->keeper < 0 || setpgid(s->keeper, 0) ? -errno : 0;
	close(pipes[0]);
	close(fd);
	s->pipe = pipes[1];
	err = err ?: write_value(path, value);
	/* The old value may be one that can no longer be written. */
	if (err)
		end_keeper(s);
	return err;
}

void setting_restore(struct setting *s)
{
	/* The test fails, even in a teardown. */
	if (end_keeper(s)) {
		fprintf(stderr, "a setting was not restored\n");
		abort();
	}
}

bool may_end_kernel(void)
{
	return number_of("MAY_END_KERNEL", 0);
}

int copy_file(const char *from, const char *to)
{
	int in, out, err = 0;
	ssize_t n = -1;

	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (in < 0 || out < 0)
		err = -errno;
	/* Longer writes make large folios: the header could not be paged out alone. */
	while (!err && (n = sendfile(out, in, NULL, 4096)) > 0)
		;
	if (!err && (n < 0 || fsync(out)))
		err = -errno;
	close(in);
	close(out);
	return err;
}

int nmi_to_other_cpus(void)
{
	return write_value("/proc/sysrq-trigger", "l");
}

int make_stack_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_STACK_BUILD_ID);

	return bpf_map_create(BPF_MAP_TYPE_STACK_TRACE, "stacks", sizeof(int),
			      sizeof(struct bpf_stack_build_id), 4, &opts);
}

int cpu_clock_event(int cpu, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
	};
	int fd;

	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * In a section of its own, so that its bounds are known without symbols. No
 * system call, no fault, nothing on top of it in the stack.
 */
static noinline __section("spin_text") void spin(struct spinner *s)
{
	while (!READ_ONCE(s->stop))
		WRITE_ONCE(s->rounds, s->rounds + 1);
}

extern const char __start_spin_text[], __stop_spin_text[];

bool in_spinner(uint64_t ip)
{
	return ip >= (uintptr_t)__start_spin_text &&
	       ip < (uintptr_t)__stop_spin_text;
}

static void *spinner_main(void *arg)
{
	struct spinner *s = arg;

	s->tid = pin_to_cpu(s->cpu) ? -1 : gettid();
	__atomic_store_n(&s->ready, true, __ATOMIC_RELEASE);
	if (s->tid > 0)
		s->spin(s);
	return NULL;
}

int spinner_start(struct spinner *s, int cpu)
{
	return spinner_start_in(s, cpu, spin);
}

int spinner_start_in(struct spinner *s, int cpu, void (*spin)(struct spinner *s))
{
	int err;

	memset(s, 0, sizeof(*s));
	s->cpu = cpu;
	s->spin = spin;
	err = pthread_create(&s->thread, NULL, spinner_main, s);
	if (err)
		return -err;
	while (!__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
		sched_yield();
	if (s->tid < 0) {
		pthread_join(s->thread, NULL);
		return -EINVAL;
	}
	return 0;
}

void spinner_wait(const struct spinner *s)
{
	unsigned long seen = READ_ONCE(s->rounds);

	while (READ_ONCE(s->rounds) == seen)
		sched_yield();
}

int nmi_until(const struct spinner *s, const unsigned long long *runs, unsigned int n)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < 10 * n && READ_ONCE(*runs) < n && !err; i++) {
		spinner_wait(s);
		err = nmi_to_other_cpus();
	}
	return err;
}

void spinner_stop(struct spinner *s)
{
	WRITE_ONCE(s->stop, true);
	pthread_join(s->thread, NULL);
}

#define CGROUP_ROOT "/sys/fs/cgroup"

/* Moves the calling process to the cgroup whose path is given. */
static int cgroup_join(const char *path)
{
	char procs[256];

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	return write_value(procs, "0");
}

int cgroup_enter(const char *name)
{
	struct statfs fs;
	char path[200];
	int fd, err;

	if (statfs(CGROUP_ROOT, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC ||
	    !libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_CGROUP_SKB, NULL))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), CGROUP_ROOT "/%s", name);
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	err = cgroup_join(path);
	if (err) {
		rmdir(path);
		return err;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	err = -errno;
	cgroup_leave(name);
	return err;
}

void cgroup_leave(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), CGROUP_ROOT "/%s", name);
	if (!cgroup_join(CGROUP_ROOT))
		rmdir(path);
}

int drop_cap(int cap)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &h, d))
		return -errno;
	d[cap / 32].effective &= ~(1U << cap % 32);
	return syscall(SYS_capset, &h, d) ? -errno : 0;
}

int make_functions(struct bpf_insn *insns, int n)
{
	int i, cnt = 0;

	for (i = 1; i < n; i++)
		insns[cnt++] = INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0,
				    (n - 1) + 2 + 2 * (i - 1) - i);
	for (i = 0; i < n; i++) {
		insns[cnt++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
		insns[cnt++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	}
	return cnt;
}
