// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov profile - sample stacks of user and kernel code.
 *
 * User frames are a build ID and a file offset, taken in the interrupt of the sample, so
 * short-lived processes are resolved, too. Paths of files come from the mmap records of -p PID or
 * all processes, and from /proc for processes that run already. BPF text comes from the
 * list of loaded programs and from load and unload records, and is looked up by the time
 * of the sample. Names are looked up after sampling.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "bpfprov.h"
#include "frames.h"
#include "profile.skel.h"
#include "profile_out.h"

static struct {
	long pid, hz, seconds, pages;
	const char *cgroup, *output;
	bool all, json;
} env = { .hz = 99, .pages = 64 };

enum { OPT_FORMAT = 1, OPT_PAGES };

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "this process", 0 },
	{ "cgroup", 'G', "CGROUP", 0, "this cgroup and those below it", 0 },
	{ "all", 'a', NULL, 0, "everything (default)", 0 },
	{ "frequency", 'F', "HZ", 0, "samples per second and CPU, 1 to 10000 (99)", 0 },
	{ "duration", 'd', "SECS", 0, "end after this time (default: Ctrl-C ends it)", 0 },
	{ "output", 'o', "FILE", 0, "write to FILE; - is standard output (default)", 0 },
	{ "format", OPT_FORMAT, "folded|json", 0, "folded stacks (default), or JSON", 0 },
	{ "ring-pages", OPT_PAGES, "N", 0,
	  "pages per CPU for records, a power of two up to 65536 (64)", 0 },
	{}
};

static const char doc[] =
	"Sample the stacks of user and kernel code.\n"
	"\vExample:\n"
	"  bpfprov profile -d 10 -o out.folded\n"
	"  flamegraph.pl out.folded > out.svg\n"
	"\n"
	"flamegraph.pl and speedscope read the folded form. Ctrl-C ends the sampling and\n"
	"keeps the data. Kernel frames end with _[k], BPF programs' with their ID and\n"
	"subprogram. Needs CAP_BPF and CAP_PERFMON; CAP_SYS_ADMIN for all names.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		env.pid = parse_number(state, arg, "--pid", 1, INT32_MAX);
		return 0;
	case 'G':
		if (!*arg)
			argp_error(state, "--cgroup: the name is empty");
		env.cgroup = arg;
		return 0;
	case 'a':
		env.all = true;
		return 0;
	case 'F':
		env.hz = parse_number(state, arg, "--frequency", 1, 10000);
		return 0;
	case 'd':
		env.seconds = parse_number(state, arg, "--duration", 1, 1000000000);
		return 0;
	case 'o':
		if (!*arg)
			argp_error(state, "--output: the name is empty");
		env.output = arg;
		return 0;
	case OPT_FORMAT:
		env.json = !strcmp(arg, "json");
		if (!env.json && strcmp(arg, "folded"))
			argp_error(state, "--format: %s is neither folded nor json", arg);
		return 0;
	case OPT_PAGES:
		env.pages = parse_ring_pages(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "%s: no arguments are expected", arg);
		return 0;
	case ARGP_KEY_END:
		if (env.all + !!env.pid + !!env.cgroup > 1)
			argp_error(state, "only one of --pid, --cgroup and --all");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- the file -------------------------------------------------------------------- */

/*
 * Store the path of the regular file @fd. Returns false if it has none, as when it was deleted.
 * Of a symbolic link such as /dev/stdout, this is the target.
 */
static bool find_path(int fd, const struct stat *st, char *path, size_t size)
{
	struct stat at;
	char link[32];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, size - 1);
	if (len < 0 || len == (ssize_t)size - 1)
		return false;
	path[len] = 0;
	return !lstat(path, &at) && at.st_dev == st->st_dev && at.st_ino == st->st_ino;
}

/* Is it /dev/stdout, or the same by another name? Others may have it open, to append to it. */
static bool is_stdout(const struct stat *st)
{
	struct stat out;

	return !fstat(STDOUT_FILENO, &out) && out.st_dev == st->st_dev && out.st_ino == st->st_ino;
}

/*
 * Did another user make this FIFO, to get the profile? fs.protected_fifos does not apply to
 * /proc/self/fd. A pipe of the shell belongs to another user, too, as with sudo.
 */
static bool is_fifo_of_others(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISFIFO(st->st_mode) && st->st_uid != geteuid() &&
	       !(!fstatfs(fd, &fs) && fs.f_type == PIPEFS_MAGIC);
}

/*
 * Write to a temporary file that is renamed at the end, so that a full disk does not
 * destroy an old profile. Returns NULL after printing the reason. @is_new: env.output was made, and
 * is empty.
 *
 * Another user may own the file, or replace it at any time: it is looked up once, and its mode is
 * kept only if it is the file of this user.
 */
static FILE *open_output(char *temp, size_t size, bool *is_new)
{
	static char target[PATH_MAX];
	char link[32];
	struct stat st = {};
	bool created = false;
	int old, fd, err;
	FILE *f;

	*temp = 0;
	*is_new = false;
	if (env.output && !strcmp(env.output, "-"))
		env.output = NULL;
	if (!env.output)
		return stdout;
	old = open(env.output, O_PATH | O_CLOEXEC);
	err = errno;
	/* A symbolic link to a file that does not exist yet. */
	if (old < 0 && err == ENOENT && !lstat(env.output, &st)) {
		/* By now it can lead to anything, as to a FIFO that has no reader. */
		old = open(env.output, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			   0600);
		if (old < 0 || fstat(old, &st) || !S_ISREG(st.st_mode)) {
			say("%s: %s", env.output, old < 0 ? strerror(errno) : "it was replaced");
			if (old >= 0)
				close(old);
			return NULL;
		}
		created = true;
	}
	if (old >= 0 && fstat(old, &st)) {
		close(old);
		old = -1;
	}
	if (old < 0 && err != ENOENT) {
		say("%s: %s", env.output, strerror(err));
		return NULL;
	}
	if (old >= 0 && is_fifo_of_others(old, &st)) {
		say("%s: this is a FIFO of another user", env.output);
		close(old);
		return NULL;
	}
	if (old >= 0 && is_stdout(&st)) {
		close(old);
		env.output = NULL;
		return stdout;
	}
	if (old >= 0 && S_ISREG(st.st_mode) && find_path(old, &st, target, sizeof(target))) {
		env.output = target;
		*is_new = created;
	}
	if (old < 0 || env.output == target) {
		if ((size_t)snprintf(temp, size, "%s.XXXXXX", env.output) >= size) {
			say("%.40s...: the name is too long", env.output);
			if (old >= 0)
				close(old);
			return NULL;
		}
		fd = mkstemp(temp);
		if (fd >= 0)
			unlink_when_killed(temp);
		f = fd < 0 ? NULL : fdopen(fd, "w");
		/* Else 0600, as there are addresses of the kernel in it. */
		if (fd >= 0 && old >= 0 && st.st_uid == geteuid())
			fchmod(fd, st.st_mode & 0777);
	} else {
		/* This one, whatever has its name by now. */
		snprintf(link, sizeof(link), "/proc/self/fd/%d", old);
		f = fopen(link, "w");
	}
	if (!f)
		say("%s: %s", env.output, strerror(errno));
	if (old >= 0)
		close(old);
	return f;
}

/* @temp becomes "" if that file is kept. */
static int write_output(FILE *out, char *temp)
{
	int rc = BPFPROV_OK, err;

	profile_write(out, env.json, env.hz);
	if (finish_output(out, env.output ? env.output : "standard output"))
		rc = BPFPROV_FAILED;
	if (*temp && rc == BPFPROV_OK && rename(temp, env.output)) {
		err = errno;
		/* The reader of stderr may be slow, and the user interrupt that. */
		unlink_when_killed("");
		say("%s: %s: the profile is in %s", env.output, strerror(err), temp);
		*temp = 0;
		rc = BPFPROV_FAILED;
	}
	return rc;
}

/* --- the process ------------------------------------------------------------------ */

/* Was the cgroup removed, and perhaps made again? Then it has no processes any more. */
static bool is_removed(int cgroup, const char *path)
{
	struct stat old, now;

	return !fstat(cgroup, &old) && (stat(path, &now) ? errno == ENOENT :
							   now.st_ino != old.st_ino);
}

/* The process of a thread, or 0. */
static long process_of(long tid)
{
	char path[32], line[64];
	long tgid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", tid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %ld", &tgid) == 1)
			break;
	if (f)
		fclose(f);
	return tgid;
}

/* A pidfd, or -1 after printing the reason, with the exit code in @rc. */
static int open_process(long pid, int *rc)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);
	long tgid;

	if (fd < 0 && errno != ESRCH) {
		tgid = process_of(pid);
		if (tgid && tgid != pid) {
			say("%ld is a thread: its process is %ld", pid, tgid);
			*rc = BPFPROV_USAGE;
			return -1;
		}
	}
	if (fd < 0 || has_ended(fd)) {
		if (fd < 0 && errno != ESRCH && errno != ENOENT && errno != EINVAL) {
			say("process %ld: %s", pid, strerror(errno));
			*rc = BPFPROV_FAILED;
			return -1;
		}
		say(fd < 0 ? "there is no process %ld" : "process %ld has ended", pid);
		if (fd >= 0)
			close(fd);
		*rc = BPFPROV_GONE;
		return -1;
	}
	return fd;
}

/* The initial PID namespace. */
#define FIRST_PID_NS	0xeffffffcU

/* The inode of the PID namespace of this process; 0: the initial one. */
static uint32_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NS ? 0 : st.st_ino;
}

/* --- sampling -------------------------------------------------------------------------------- */

/* In Hz. The kernel lowers it if interrupts take too long. */
static long max_rate(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	long n = LONG_MAX;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = LONG_MAX;
		fclose(f);
	}
	return n;
}

/* One event per CPU: the cycle counter if there is one, else a timer. */
static int attach(struct bpf_program *prog, struct bpf_link **links, int cpus, bool *timer)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.freq = 1,
		.sample_freq = env.hz,
	};
	int cpu, fd, attached = 0;

	for (cpu = 0; cpu < cpus; cpu++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0 && !attached && attr.type == PERF_TYPE_HARDWARE && errno != ENODEV &&
		    !is_denied(errno)) {
			*timer = true;
			attr.type = PERF_TYPE_SOFTWARE;
			attr.config = PERF_COUNT_SW_CPU_CLOCK;
			fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		}
		if (fd < 0 && errno == ENODEV)	/* offline */
			continue;
		if (fd < 0)
			return -errno;
		links[attached] = bpf_program__attach_perf_event(prog, fd);
		if (!links[attached]) {
			int err = -errno;

			close(fd);
			return err;
		}
		attached++;
	}
	return attached;
}

static void detach(struct bpf_link **links, int cpus)
{
	int i;

	for (i = 0; i < cpus; i++) {
		bpf_link__destroy(links[i]);
		links[i] = NULL;
	}
}

/* -1: no @pidfd, no @cgroup, which has this path. */
static int sample(struct profile_bpf *skel, struct bpf_link **links, int cpus, int pidfd,
		  int cgroup, const char *path, double *seconds, double *cpu)
{
	double start, next = 0, t;
	uint64_t end;
	struct ring_buffer *rb;
	bool gone = false, removed = false, tty = isatty(STDERR_FILENO);

	rb = ring_buffer__new(bpf_map__fd(skel->maps.ring), frames_add_sample, NULL, NULL);
	if (!rb)
		return -errno;
	start = clock_ns(CLOCK_MONOTONIC) / 1e9;
	*cpu = frames_cpu_time();
	data.end = env.seconds ? clock_ns(CLOCK_MONOTONIC) + env.seconds * NSEC_PER_SEC : 0;
	data.sampling = true;
	for (;;) {
		t = clock_ns(CLOCK_MONOTONIC) / 1e9 - start;
		if (exiting() || gone || removed || (env.seconds && t >= env.seconds))
			break;
		/* It continues while data arrives, until frames_add_sample() ends it. */
		ring_buffer__poll(rb, 100);
		frames_read_records();
		ring_buffer__consume(rb);
		gone = pidfd >= 0 && has_ended(pidfd);
		removed = cgroup >= 0 && is_removed(cgroup, path);
		if (t < next)
			continue;
		next = t + 1;
		/* All older samples were read. */
		texts_forget(&data.texts, data.read_at);
		if (tty)
			fprintf(stderr, "\rsampling: %.0f s, %" PRIu64 " samples", t, data.samples);
	}
	if (tty)
		fprintf(stderr, "\r\033[K");
	if (gone)
		say("process %ld has ended", env.pid);
	if (removed)
		say("cgroup %s was removed", env.cgroup);
	*seconds = clock_ns(CLOCK_MONOTONIC) / 1e9 - start;
	detach(links, cpus);
	data.sampling = false;
	/* It may have ended before: after @seconds, or at the first signal. */
	end = clock_ns(CLOCK_MONOTONIC);
	if (!data.end || end < data.end)
		data.end = end;
	frames_read_records();
	ring_buffer__consume(rb);
	frames_count_lost();
	*cpu = frames_cpu_time() - *cpu;
	frames_end();
	ring_buffer__free(rb);
	return 0;
}

static int run(FILE *out, char *temp, int pidfd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.bpf_event = 1,
		.watermark = 1,
		.wakeup_watermark = 4096,
	};
	int cpus = libbpf_num_possible_cpus(), err, rc = BPFPROV_FAILED, cgroup = -1;
	/* Only online CPUs are sampled; in a VM many more can be possible. */
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct bpf_link **links = NULL;
	struct profile_bpf *skel;
	bool timer = false;
	uint32_t zero = 0;
	char path[PATH_MAX] = "";
	size_t size;
	double seconds = 0, cpu = 0;

	data.subprog = has_feature(BPF_SUBPROG);
	attr.bpf_subprog = data.subprog;
	attr.ksymbol = !data.subprog;
	if (env.cgroup) {
		cgroup = open_cgroup(env.cgroup, path, sizeof(path));
		if (cgroup < 0)
			return -cgroup;
	}
	skel = profile_bpf__open();
	if (!skel) {
		say("the program: %s", strerror(errno));
		goto close_cgroup;
	}
	data.pid = env.pid;
	skel->rodata->only_tgid = env.pid;
	skel->rodata->pid_ns = own_pid_ns();
	skel->rodata->only_cgroup = cgroup >= 0;
	/* Room for 64 samples of maximum size per CPU, or for ten times as many usual ones. */
	for (size = 1 << 20; online > 0 && size < online * 64 * sizeof(struct sample);)
		size *= 2;
	bpf_map__set_max_entries(skel->maps.ring, size);
	skel->rodata->wakeup_bytes = size / 4;
	err = profile_bpf__load(skel);
	if (err) {
		say("loading the program: %s", strerror(-err));
		rc = load_status(-err);
		goto destroy;
	}
	if (cgroup >= 0 && bpf_map_update_elem(bpf_map__fd(skel->maps.cgroup), &zero, &cgroup, 0)) {
		say("%s: %s", env.cgroup, strerror(errno));
		goto destroy;
	}

	/* Open the rings before the scan, so that nothing is missed in between. */
	err = rings_open(&data.rings, &attr, CLOCK_MONOTONIC, env.pages);
	if (err) {
		rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
		goto destroy;
	}
	err = ksyms_read(&data.ksyms, false);
	if (err) {
		ksyms_free(&data.ksyms);
		say("%sreduced:%s /proc/kallsyms: %s: kernel frames have no names",
		    colour(stderr, YELLOW), colour(stderr, PLAIN), strerror(-err));
	}
	frames_scan(env.pid);

	links = calloc(cpus > 0 ? cpus : 1, sizeof(*links));
	err = links && cpus > 0 ? attach(skel->progs.profile, links, cpus, &timer) : -ENOMEM;
	if (err <= 0) {
		if (err == -EINVAL && env.hz > max_rate())
			say("%ld Hz are more than kernel.perf_event_max_sample_rate: %ld", env.hz,
			    max_rate());
		else
			say("sampling: %s", perf_open_error(err ? -err : ENODEV));
		rc = is_denied(-err) ? BPFPROV_CAP : BPFPROV_FAILED;
		goto close_rings;
	}
	say("sampling %d CPUs at %ld Hz%s", err, env.hz,
	    timer ? ", by a timer: the processor has no cycle counter" : "");
	err = sample(skel, links, cpus, pidfd, cgroup, path, &seconds, &cpu);
	if (err) {
		say("the ring: %s", strerror(-err));
		goto close_rings;
	}
	data.lost = skel->bss->lost;
	rc = write_output(out, temp);
	profile_report(seconds, cpu, skel->bss->spent / 1e9);
close_rings:
	if (links)
		detach(links, cpus);
	rings_close(&data.rings);
	free(links);
destroy:
	frames_free();
	profile_bpf__destroy(skel);
close_cgroup:
	if (cgroup >= 0)
		close(cgroup);
	return rc;
}

int cmd_profile(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	static const int caps[] = { CAP_BPF, CAP_PERFMON, -1 };
	char temp[PATH_MAX];
	int rc, pidfd = -1;
	bool is_new;
	FILE *out;

	parse_args(&argp, argc, argv);
	raise_file_limit();
	if (!have_caps(caps))
		return BPFPROV_CAP;
	if (!have_own_proc())
		return BPFPROV_FAILED;
	if (env.pid) {
		pidfd = open_process(env.pid, &rc);
		if (pidfd < 0)
			return rc;
	}
	catch_signals();
	/* If the reader of stderr ends, the profile is still written to its file. */
	signal(SIGPIPE, SIG_IGN);
	/* Fail before sampling. */
	rc = BPFPROV_FAILED;
	out = open_output(temp, sizeof(temp), &is_new);
	if (!out)
		goto undo;
	if (!have_cap(CAP_SYS_ADMIN))
		say("%sreduced:%s without CAP_SYS_ADMIN, BPF programs that are loaded already have no ID, and files of other users may not be readable",
		    colour(stderr, YELLOW), colour(stderr, PLAIN));
	if (!has_feature(BUILD_ID_CACHE))
		say_reduced(BUILD_ID_CACHE, "user frames have a build ID only if the headers of the file are in the page cache");
	if (!has_feature(TASK_VMA_QUERY))
		say_reduced(TASK_VMA_QUERY, "frames without a build ID are looked up in /proc, later");
	if (!has_feature(BPF_SUBPROG))
		say_reduced(BPF_SUBPROG, "BPF programs that are loaded while sampling have no ID");
	rc = run(out, temp, pidfd);
	if (rc && *temp)
		unlink(temp);
undo:
	if (rc && is_new)
		unlink(env.output);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}
