// SPDX-License-Identifier: GPL-2.0
/*
 * Test tools/bpf/bpfprov through its command line, output and exit codes.
 *
 *  usage.*	Bad arguments, help, and errors without privileges. As in all tests,
 *		the tool runs as a child of this program, in process context.
 *  maps.*	Mappings of this and other processes: deleted files, exited
 *		processes, kernel threads, a full disk.
 *  events.*	Programs that this process loads and closes, with the records that
 *		the kernel emits in its context; a reader that is stopped while a
 *		one-page ring overflows; 10000 programs.
 *  confine.*	Sockets of a child in its own cgroup and network namespace:
 *		addresses, replacing a policy while the child binds, removal.
 *  profile.*	Samples from a timer in hard-interrupt context, of processes that
 *		exit before names are looked up, and of a BPF program.
 *
 * Tests wait for a line of the tool's output, or for a process. Sampled code runs for
 * some time, and tests check the samples that were taken.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/compiler.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <linux/membarrier.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "autobind.h"
#include "bpfprov_cli.skel.h"
#include "kselftest_harness.h"
#include "common.h"
#include "elf_file.h"
#include "fs.h"
#include "net.h"

#define TOOL	"./bpfprov"

/* As documented in bpfprov.8. */
enum { OK, FAILED, USAGE, CAP, KERNEL, GONE };

/* --- the tool ------------------------------------------------------------------ */

struct tool {
	pid_t pid;
	FILE *err;		/* a pipe */
	char errors[16384];	/* text read from it */
	char *out;		/* standard output, after tool_end() */
	int out_fd;
};

/* The tool is traced by this process. */
static bool traced;

/* Capabilities that user nobody keeps, one bit each. */
static uint64_t keep_caps;

/* RLIMIT_NOFILE of the tool; 0: keep it. */
static rlim_t max_files;

/* The standard error of the tool is a pipe that is full. */
static bool full_stderr;

/* The tool gets no standard error. */
static bool no_stderr;

/* Its soft limit of open files alone; 0: keep it. */
static rlim_t soft_files;

/* The tool inherits that SIGCHLD is ignored. */
static bool ignore_sigchld;

static int become_nobody(void)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	int cap;

	if (prctl(PR_SET_KEEPCAPS, 1) || setgid(65534) || setuid(65534))
		return -1;
	for (cap = 0; cap < 2; cap++) {
		data[cap].effective = keep_caps >> 32 * cap;
		data[cap].permitted = keep_caps >> 32 * cap;
		data[cap].inheritable = keep_caps >> 32 * cap;
	}
	if (syscall(SYS_capset, &hdr, data))
		return -1;
	for (cap = 0; cap < 64; cap++)
		if (keep_caps >> cap & 1 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0))
			return -1;
	return 0;
}

/* Start it with NULL-terminated @args, its output to @out; NULL: keep it. */
static int tool_start_to(struct tool *t, const char *out, bool nobody, char **args)
{
	char *argv[64] = { TOOL };
	char path[] = "/tmp/bpfprov_cli.XXXXXX";
	int fds[2], i;

	memset(t, 0, sizeof(*t));
	for (i = 0; args[i] && i < (int)ARRAY_LEN(argv) - 2; i++)
		argv[i + 1] = args[i];
	t->out_fd = out ? open(out, O_WRONLY) : mkstemp(path);
	if (t->out_fd < 0)
		return -errno;
	if (!out)
		unlink(path);
	if (pipe2(fds, O_CLOEXEC | (full_stderr ? O_NONBLOCK : 0)))
		return -errno;
	if (full_stderr) {
		fcntl(fds[1], F_SETPIPE_SZ, 4096);
		while (write(fds[1], "\n", 1) == 1)
			;
		fcntl(fds[1], F_SETFL, 0);
		fcntl(fds[0], F_SETFL, 0);
	}
	t->pid = fork();
	if (!t->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (traced)
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		dup2(t->out_fd, STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		if (no_stderr)
			close(STDERR_FILENO);
		/* systemd has services ignore it. */
		signal(SIGPIPE, SIG_DFL);
		signal(SIGCHLD, ignore_sigchld ? SIG_IGN : SIG_DFL);
		if (soft_files) {
			struct rlimit files;

			getrlimit(RLIMIT_NOFILE, &files);
			files.rlim_cur = soft_files;
			setrlimit(RLIMIT_NOFILE, &files);
		}
		setenv("TERM", "xterm", 1);	/* not a terminal: still no colours */
		if (nobody && become_nobody())
			_exit(126);
		if (max_files && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ max_files, max_files }))
			_exit(126);
		execv(TOOL, argv);
		_exit(127);
	}
	close(fds[1]);
	t->err = fdopen(fds[0], "r");
	return t->pid > 0 && t->err ? 0 : -errno;
}

/* Read its stderr, waiting for a line with @text; NULL: until EOF. */
static bool tool_says(struct tool *t, const char *text)
{
	size_t len = strlen(t->errors);

	while (fgets(t->errors + len, sizeof(t->errors) - len, t->err)) {
		if (text && strstr(t->errors + len, text))
			return true;
		len += strlen(t->errors + len);
	}
	return false;
}

/* Returns the exit code, or minus the signal. */
static int tool_end(struct tool *t)
{
	struct stat st;
	int status;

	tool_says(t, NULL);
	fclose(t->err);
	waitpid(t->pid, &status, 0);
	if (!fstat(t->out_fd, &st) && S_ISREG(st.st_mode)) {
		t->out = calloc(1, st.st_size + 1);
		if (t->out && pread(t->out_fd, t->out, st.st_size, 0) != st.st_size)
			*t->out = 0;
	}
	close(t->out_fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void tool_free(struct tool *t)
{
	free(t->out);
	t->out = NULL;
}

#define ARGS(...) ((char *[]){ __VA_ARGS__, NULL })

/* Run it to completion. */
static int tool_run(struct tool *t, char **args)
{
	return tool_start_to(t, NULL, false, args) ? -1000 : tool_end(t);
}

static int count_lines(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* Find the next line of @s with both @a and @b; NULL: none. */
static const char *find_line(const char *s, const char *a, const char *b, char *line, size_t size)
{
	size_t len;

	while (*s) {
		len = strcspn(s, "\n");
		snprintf(line, size, "%.*s", (int)len, s);
		s += len + !!s[len];
		if (strstr(line, a) && strstr(line, b))
			return s;
	}
	return NULL;
}

#define PID(p) ({ static char _s[16]; snprintf(_s, sizeof(_s), "%d", p); _s; })

/* --- processes ------------------------------------------------------------------- */

/* The function that profiles must find: no library has its name. */
noinline unsigned long bpfprov_cli_spin(unsigned long rounds)
{
	unsigned long i, sum = 0;

	for (i = 0; i < rounds; i++) {
		sum += i * i;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static bool has_ended(const struct tool *t)
{
	siginfo_t info = {};

	return waitid(P_PID, t->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Wait for the tool; false: it does not end. */
static bool ends_within(struct tool *t, int seconds)
{
	double end = now() + seconds * timeout_scale();

	do {
		if (has_ended(t))
			return true;
		poll(NULL, 0, 10);
	} while (now() < end);
	return false;
}

/* This program as "bpfprov_cli --spin MS"; 0: spin until killed. */
__attribute__((constructor))
static void spin_main(int argc, char **argv)
{
	double end;
	int ms;

	if (argc != 3 || strcmp(argv[1], "--spin"))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ms = atoi(argv[2]);
	for (end = now() + ms / 1000.0; !ms || now() < end;)
		bpfprov_cli_spin(1000000);
	_exit(0);
}

static pid_t spawn_spinner(const char *exe, int ms)
{
	pid_t pid = fork();

	if (!pid) {
		execl(exe, "bpfprov_cli", "--spin", PID(ms), NULL);
		_exit(127);
	}
	return pid;
}

/* Wait until @pid has executed @exe: fork() returns before that. */
static bool wait_for_exec(pid_t pid, const char *exe)
{
	char link[64], path[PATH_MAX];
	double end = now() + 20 * timeout_scale();
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	while (now() < end) {
		n = readlink(link, path, sizeof(path) - 1);
		if (n > 0) {
			path[n] = 0;
			if (!strcmp(path, exe))
				return true;
		}
		sched_yield();
	}
	return false;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * fork() into a new PID namespace, where /proc still shows the one outside. The child must not use
 * ASSERT_EQ(), which would run the teardown in it, and ends with _exit().
 */
static pid_t fork_in_pid_namespace(void)
{
	pid_t child = unshare(CLONE_NEWPID) ? -1 : fork();

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static void refuses_foreign_proc(struct __test_metadata *_metadata, char **args)
{
	int status = -1;
	struct tool t;
	pid_t child;

	if (access("/proc/self/ns/pid", F_OK))
		SKIP(return, "needs CONFIG_PID_NS");
	child = fork_in_pid_namespace();
	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_EQ(FAILED, tool_run(&t, args));
		EXPECT_NE(NULL, strstr(t.errors, "another PID namespace")) TH_LOG("%s", t.errors);
		_exit(_metadata->exit_code);
	}
	waitpid(child, &status, 0);
	EXPECT_EQ(0, status);
}

/* A spinning process, of a file that no other process uses. */
struct target {
	char dir[PATH_MAX - 64], exe[PATH_MAX - 32];
	pid_t pid;
};

/* Start a copy of @from, modified by @change, which may be NULL. */
static int target_start(struct target *t, const char *from, int (*change)(const char *path))
{
	t->pid = 0;
	if (scratch_dir(t->dir, sizeof(t->dir)))
		return -1;
	snprintf(t->exe, sizeof(t->exe), "%s/target", t->dir);
	if (copy_file(from, t->exe) || (change && change(t->exe)))
		return -1;
	t->pid = spawn_spinner(t->exe, 0);
	return t->pid > 0 && wait_for_exec(t->pid, t->exe) ? 0 : -1;
}

static void target_end(struct target *t)
{
	if (t->pid > 0)
		end_process(t->pid);
	unlink(t->exe);
	rmdir(t->dir);
}

/* A child process of @pid, with @busy one that has a child itself; 0: none. */
static pid_t child_of(pid_t pid, bool busy)
{
	DIR *d = opendir("/proc");
	pid_t found = 0, p;
	struct dirent *e;

	while (d && !found && (e = readdir(d))) {
		p = atoi(e->d_name);
		if (p > 0 && busy)
			p = proc_status(p, "PPid");
		if (p > 0 && proc_status(p, "PPid") == pid)
			found = p;
	}
	if (d)
		closedir(d);
	return found;
}

/* The PID of an exited process. */
static pid_t vanished(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

/* --- BPF programs ------------------------------------------------------------------ */

/* Two subprograms: main, which calls one that returns 0. */
static int load_two(const char *name)
{
	struct bpf_insn insns[] = {
		INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 1),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns, ARRAY_LEN(insns),
			     NULL);
}

/* Counts to 10000 in its only function. */
static int load_loop(const char *name)
{
	struct bpf_insn insns[] = {
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1),
		INSN(BPF_JMP | BPF_JLT | BPF_K, 1, 0, -2, 10000),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns, ARRAY_LEN(insns),
			     NULL);
}

static uint32_t prog_id(int fd)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	return bpf_prog_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/* A numeric JSON member; -1: not found. */
static long long json_number(const char *line, const char *member)
{
	char key[64];
	const char *p;

	snprintf(key, sizeof(key), "\"%s\":", member);
	p = strstr(line, key);
	return p ? strtoll(p + strlen(key), NULL, 10) : -1;
}

/*
 * Empty, because only tests with a fixture have a time limit of their own, and starting
 * the tool under emulation takes seconds.
 */
#define PLAIN_FIXTURE(name)		\
	FIXTURE(name) { int unused; };	\
	FIXTURE_SETUP(name) {}		\
	FIXTURE_TEARDOWN(name) {}

PLAIN_FIXTURE(usage)
PLAIN_FIXTURE(maps)
PLAIN_FIXTURE(events)
PLAIN_FIXTURE(profile)

/* --- usage ---------------------------------------------------------------------------- */

TEST_F(usage, bad_arguments)
{
	static char *cases[][8] = {
		{ NULL },
		{ "nonsense" },
		{ "--nonsense" },
		{ "features", "extra" },
		{ "maps" },
		{ "maps", "0" },
		{ "maps", "1x" },
		{ "maps", "1", "xyz" },
		{ "maps", "1", " -1" },
		{ "maps", "1", "+1" },
		{ "maps", "1", "-1" },
		{ "events", "extra" },
		{ "events", "-d", "0" },
		{ "events", "--ring-pages", "3" },
		{ "events", "--ring-pages", "" },
		{ "events", "--now", "-d", "1" },
		{ "confine" },
		{ "confine", "x" },
		{ "confine", "--ip", "192.0.2.1" },
		{ "confine", "x", "--ip", "192.0.2" },
		{ "confine", "x", "--ip", "0.0.0.0" },
		{ "confine", "x", "--ip", "224.0.0.1" },
		{ "confine", "x", "--ip", "fe80::1" },
		{ "confine", "x", "--ip", "::ffff:192.0.2.1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--ip", "192.0.2.2" },
		{ "confine", "x", "--map", "localhost:1=192.0.2.1:1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--map", "localhost:0=192.0.2.1:1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--map", "localhost:1=192.0.2.1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--map", "host:1=192.0.2.1:1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--map", "localhost:1=2001:db8::1:1" },
		{ "confine", "x", "--ip", "192.0.2.1", "--map=localhost:1=192.0.2.1:1",
		  "--map=localhost:1=192.0.2.1:2" },
		{ "confine", "x", "--allow-localhost", "127.0.0.53" },
		{ "confine", "x", "--ip", "192.0.2.1", "--allow-localhost", "192.0.2.53:53" },
		{ "confine", "x", "--ip", "192.0.2.1", "--allow-localhost", "127.0.0.53:" },
		{ "confine", "x", "--self", "--ip", "192.0.2.1" },
		{ "confine", "x", "--show", "--remove" },
		{ "confine", "x", "y", "--show" },
		{ "profile", "extra" },
		{ "profile", "-F", "0" },
		{ "profile", "-F", "1e3" },
		{ "profile", "-p", "1", "-a" },
		{ "profile", "-p", "-1" },
		{ "profile", "-d", "1", "-o", "" },
		{ "profile", "-d", "1", "-G", "" },
		{ "profile", "--format", "xml" },
	};
	struct tool t;
	size_t i;
	int rc;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		rc = tool_run(&t, cases[i]);
		EXPECT_EQ(USAGE, rc) {
			TH_LOG("case %zu, %s %s: %s", i, cases[i][0], cases[i][1], t.errors);
		}
		EXPECT_STREQ("", t.out);
		EXPECT_NE('\0', *t.errors);
		tool_free(&t);
	}
}

/*
 * A policy has room for 16 of --map and 8 of --allow-localhost. A port can be redirected for each
 * family.
 */
TEST_F(usage, limits)
{
	static const struct {
		char *option, *values[2];	/* in turn, with a number for each pair */
		int max;
	} cases[] = {
		{ "--map", { "localhost:%d=192.0.2.1:1", "localhost:%d=[fd77::1]:1" }, 16 },
		{ "--allow-localhost", { "127.0.0.%d:53", "[::1]:%d" }, 8 },
	};
	char *args[64] = { "confine", "there/is/none", "--ip", "192.0.2.1", "--ip", "fd77::1" };
	char values[17][32];
	struct tool t;
	size_t i;
	int n;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		for (n = 0; n <= cases[i].max; n++) {
			snprintf(values[n], sizeof(values[n]), cases[i].values[n % 2], n / 2 + 1);
			args[6 + 2 * n] = cases[i].option;
			args[7 + 2 * n] = values[n];
		}
		args[6 + 2 * n] = NULL;
		EXPECT_EQ(USAGE, tool_run(&t, args)) TH_LOG("%s: %s", cases[i].option, t.errors);
		EXPECT_NE(NULL, strstr(t.errors, "more than ")) TH_LOG("%s", t.errors);
		EXPECT_NE(NULL, strstr(t.errors, cases[i].option));
		tool_free(&t);
		/* One less is accepted: the next error is reported. */
		args[6 + 2 * cases[i].max] = NULL;
		EXPECT_EQ(GONE, tool_run(&t, args)) TH_LOG("%s: %s", cases[i].option, t.errors);
		tool_free(&t);
	}
}

TEST_F(usage, help)
{
	static char * const commands[] = { "features", "maps", "events", "confine", "profile" };
	struct tool t;
	size_t i;

	ASSERT_EQ(OK, tool_run(&t, ARGS("--help")));
	for (i = 0; i < ARRAY_LEN(commands); i++)
		EXPECT_NE(NULL, strstr(t.out, commands[i]));
	tool_free(&t);
	for (i = 0; i < ARRAY_LEN(commands); i++) {
		EXPECT_EQ(OK, tool_run(&t, ARGS(commands[i], "--help")));
		EXPECT_NE(NULL, strstr(t.out, "Example")) {
			TH_LOG("%s --help has no example", commands[i]);
		}
		EXPECT_EQ(NULL, strchr(t.out, '\033'));
		tool_free(&t);
	}
}

TEST_F(usage, unprivileged)
{
	static char *cases[][8] = {
		{ "maps", "1" },
		{ "events" },
		{ "events", "--now" },
		{ "confine", "--show" },
		{ "confine", "x", "--ip", "192.0.2.1" },
		{ "profile", "-d", "1" },
	};
	struct tool t;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		ASSERT_EQ(0, tool_start_to(&t, NULL, true, cases[i]));
		EXPECT_EQ(CAP, tool_end(&t)) {
			TH_LOG("%s: %s", cases[i][0], t.errors);
		}
		EXPECT_EQ(1, count_lines(t.errors));
		EXPECT_NE(NULL, strstr(t.errors, "CAP_"));
		tool_free(&t);
	}
	/* This one needs no capability. */
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, ARGS("features")));
	EXPECT_EQ(OK, tool_end(&t));
	tool_free(&t);
}

/* The tool reads BTF; has_autobind() probes in another way. */
TEST_F(usage, features)
{
	char line[256];
	struct tool t;

	ASSERT_EQ(OK, tool_run(&t, ARGS("features")));
	ASSERT_NE(NULL, find_line(t.out, "autobind", has_autobind() ? "yes" : "no", line,
				  sizeof(line)));
	tool_free(&t);
}

/* The kernel keeps no build IDs: the feature is not there. */
TEST_F(usage, switched_off)
{
	static const char reduced[] = "reduced: a sysctl switches off build-id-cache ";
	static const char sysctl[] = "/proc/sys/kernel/build_id_cache";
	struct setting cache;
	char line[256];
	struct tool t;

	if (access(sysctl, F_OK))
		SKIP(return, "this kernel has no kernel.build_id_cache");
	ASSERT_EQ(OK, tool_run(&t, ARGS("features")));
	EXPECT_NE(NULL, find_line(t.out, "build-id-cache ", " yes ", line, sizeof(line)));
	tool_free(&t);
	ASSERT_EQ(0, setting_change(&cache, sysctl, "0"));
	ASSERT_EQ(OK, tool_run(&t, ARGS("features")));
	EXPECT_NE(NULL, find_line(t.out, "build-id-cache ", " off ", line, sizeof(line)))
		TH_LOG("%s", t.out);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1")));
	EXPECT_NE(NULL, strstr(t.errors, reduced)) TH_LOG("%s", t.errors);
	tool_free(&t);
	setting_restore(&cache);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1")));
	EXPECT_EQ(NULL, strstr(t.errors, reduced));
	tool_free(&t);
}

/* --- maps --------------------------------------------------------------------------------- */

/* Both ways of reading give the columns of /proc/PID/maps, and one more. */
TEST_F(maps, as_in_proc)
{
	char path[64], *line = NULL, perms[8], perms2[8];
	unsigned long start, end, off, start2, end2, off2;
	unsigned int major, minor, major2, minor2;
	unsigned long long ino, ino2;
	size_t size = 0, mappings = 0;
	struct tool query, text;
	const char *p;
	char id[128];
	pid_t pid;
	bool elf;
	FILE *f;
	int n;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(wait_for_exec(pid, realpath("/proc/self/exe", NULL)));
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	EXPECT_EQ(OK, tool_run(&query, ARGS("maps", PID(pid))));
	EXPECT_EQ(OK, tool_run(&text, ARGS("maps", "--no-query", PID(pid))));
	EXPECT_NE(NULL, strstr(text.errors, "reduced"));

	p = query.out;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	ASSERT_NE(NULL, f);
	while (getline(&line, &size, f) > 0) {
		if (strstr(line, "[vsyscall]"))
			continue;
		n = sscanf(line, "%lx-%lx %7s %lx %x:%x %llu", &start, &end, perms, &off,
			   &major, &minor, &ino);
		ASSERT_EQ(7, n);
		n = sscanf(p, "%lx-%lx %7s %lx %x:%x %llu %127s", &start2, &end2, perms2,
			   &off2, &major2, &minor2, &ino2, id);
		ASSERT_EQ(8, n);
		EXPECT_EQ(start, start2);
		EXPECT_EQ(end, end2);
		EXPECT_STREQ(perms, perms2);
		EXPECT_EQ(off, off2);
		EXPECT_EQ(major, major2);
		EXPECT_EQ(minor, minor2);
		EXPECT_EQ(ino, ino2);
		/* Only ELF files have a build ID; this program and libc do. */
		elf = strstr(line, "/bpfprov_cli") || strstr(line, "/libc.so");
		EXPECT_TRUE(!elf || strlen(id) == 40);
		EXPECT_TRUE(ino || !strcmp(id, "-"));
		p += strcspn(p, "\n") + 1;
		mappings++;
	}
	EXPECT_LT(10, mappings);
	EXPECT_EQ('\0', *p);
	EXPECT_STREQ(query.out, text.out);
	fclose(f);
	free(line);
	end_process(pid);
	tool_free(&query);
	tool_free(&text);
}

/* As documented in bpfprov.8, for a line of the text form. */
static void json_of(const char *text, char *json, size_t size)
{
	unsigned long start, end, off;
	unsigned int major, minor;
	unsigned long long inode;
	char perms[8], id[128];
	int path = 0, len;

	*json = 0;
	if (sscanf(text, "%lx-%lx %7s %lx %x:%x %llu %127s%n", &start, &end, perms, &off, &major,
		   &minor, &inode, id, &path) != 8)
		return;
	len = snprintf(json, size, "{\"start\":\"0x%lx\",\"end\":\"0x%lx\",\"perms\":\"%s\"",
		       start, end, perms);
	if (inode)
		len += snprintf(json + len, size - len,
				",\"offset\":\"0x%lx\",\"dev\":\"%u:%u\",\"inode\":%llu", off,
				major, minor, inode);
	if (strcmp(id, "-"))
		len += snprintf(json + len, size - len, ",\"build_id\":\"%s\"", id);
	if (text[path])
		len += snprintf(json + len, size - len, ",\"path\":\"%s\"", text + path + 1);
	snprintf(json + len, size - len, "}");
}

/* A file that this process maps. */
struct mapped {
	char dir[PATH_MAX - 64], file[PATH_MAX - 32];
	void *page;
};

/* Map a new file of this name. */
static int mapped_start(struct mapped *m, const char *name)
{
	int fd;

	m->page = MAP_FAILED;
	if (scratch_dir(m->dir, sizeof(m->dir)))
		return -1;
	snprintf(m->file, sizeof(m->file), "%s/%s", m->dir, name);
	fd = open(m->file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 && !ftruncate(fd, 4096))
		m->page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return m->page == MAP_FAILED ? -1 : 0;
}

static void mapped_end(struct mapped *m)
{
	munmap(m->page, 4096);
	unlink(m->file);
	rmdir(m->dir);
}

TEST_F(maps, json)
{
	char line[PATH_MAX], want[2 * PATH_MAX];
	struct tool text, json;
	struct mapped mapped;
	const char *p, *q;
	int files = 0;
	pid_t pid;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(wait_for_exec(pid, realpath("/proc/self/exe", NULL)));
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	EXPECT_EQ(OK, tool_run(&text, ARGS("maps", PID(pid))));
	EXPECT_EQ(OK, tool_run(&json, ARGS("maps", "--json", PID(pid))));
	end_process(pid);
	EXPECT_LT(10, count_lines(text.out));
	for (p = text.out, q = json.out; (p = find_line(p, "", "", line, sizeof(line)));) {
		json_of(line, want, sizeof(want));
		files += strstr(want, "\"build_id\"") && strstr(want, "\"path\"");
		q = find_line(q, "", "", line, sizeof(line));
		ASSERT_NE(NULL, q);
		EXPECT_STREQ(want, line);
	}
	EXPECT_EQ('\0', *q);
	EXPECT_LT(4, files);
	tool_free(&text);
	tool_free(&json);

	/* Special characters, and a byte that is not UTF-8. */
	ASSERT_EQ(0, mapped_start(&mapped, "\"\\\001\377\303\244"));
	EXPECT_EQ(OK, tool_run(&json, ARGS("maps", "--json", PID(getpid()))));
	snprintf(want, sizeof(want), "\"path\":\"%s/\\\"\\\\\\u0001\\ufffd\303\244\"}\n",
		 mapped.dir);
	EXPECT_NE(NULL, strstr(json.out, want)) TH_LOG("no %s in %s", want, json.out);
	tool_free(&json);
	mapped_end(&mapped);
}

TEST_F(maps, deleted_binary)
{
	char before[PATH_MAX], after[PATH_MAX];
	struct target target;
	struct tool t;

	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(target.pid))));
	EXPECT_NE(NULL, find_line(t.out, "r-xp", target.exe, before, sizeof(before)));
	tool_free(&t);
	unlink(target.exe);
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(target.pid))));
	EXPECT_NE(NULL, find_line(t.out, "r-xp", "(deleted)", after, sizeof(after)));
	tool_free(&t);
	/* Only " (deleted)" is new; address, build ID etc. match. */
	EXPECT_EQ(0, strncmp(before, after, strlen(before)));
	EXPECT_EQ(NULL, strstr(after, " - "));
	target_end(&target);
}

/* Map a file named @name. Its line has @text, and with --json it has @json. */
static void check_map_name(struct __test_metadata *_metadata, const char *name,
			   const char *text, const char *json)
{
	struct mapped mapped;
	char line[PATH_MAX];
	struct tool t;

	ASSERT_EQ(0, mapped_start(&mapped, name));
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(getpid()))));
	EXPECT_NE(NULL, find_line(t.out, mapped.dir, text, line, sizeof(line)));
	EXPECT_EQ(NULL, strchr(t.out, '\033'));
	EXPECT_EQ(NULL, strchr(t.out, '\177'));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", "--json", PID(getpid()))));
	EXPECT_NE(NULL, find_line(t.out, mapped.dir, json, line, sizeof(line)));
	tool_free(&t);
	mapped_end(&mapped);
}

/* A name that would change a terminal is printed without control characters. */
TEST_F(maps, control_characters)
{
	check_map_name(_metadata, "\033[2Jx\177", "/\\033[2Jx\\177", "/\\u001b[2Jx\\u007f\"");
}

/*
 * U+009B is CSI, as ESC [ is, and so is the byte 0x9b without UTF-8. U+00E4 is a letter. U+202E
 * reverses the text after it.
 */
TEST_F(maps, control_characters_8bit)
{
	check_map_name(_metadata, "\302\2332J\2332K\303\244\177\342\200\256",
		       "/\\302\\2332J\\2332K\303\244\\177\\342\\200\\256",
		       "/\\u009b2J\\ufffd2K\303\244\\u007f\\u202e\"");
}

/*
 * The text of /proc/PID/maps has \012 for a newline, and [vsyscall], which is not a mapping.
 * Neither way of reading shows that.
 */
TEST_F(maps, special_names)
{
	static char * const cases[][2] = {
		{}, { "--no-query" }, { "--json" }, { "--json", "--no-query" },
	};
	static const char * const names[] = { "/new\\012line", "/new\\u000aline\"" };
	char line[ARRAY_LEN(cases)][PATH_MAX] = {};
	struct mapped mapped;
	struct tool t;
	size_t i;

	ASSERT_EQ(0, mapped_start(&mapped, "new\nline"));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(getpid()), cases[i][0], cases[i][1])));
		EXPECT_NE(NULL, find_line(t.out, mapped.dir, names[i / 2], line[i],
					  sizeof(line[i])))
			TH_LOG("case %zu: %s", i, t.out);
		EXPECT_EQ(NULL, strstr(t.out, "[vsyscall]")) TH_LOG("case %zu", i);
		/* The line is that of the query. */
		EXPECT_STREQ(line[i & ~1], line[i]);
		tool_free(&t);
	}
	mapped_end(&mapped);
}

/* Make @fd a sparse ELF file with 2^24 program headers. All but one byte are a hole. */
static int write_many_headers(int fd)
{
	const uint32_t count = 1 << 24;
	const ElfW(Ehdr) e = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = 4096,
		.e_shoff = 1024,
		.e_ehsize = sizeof(e),
		.e_phentsize = sizeof(ElfW(Phdr)),
		.e_shentsize = sizeof(ElfW(Shdr)),
		.e_phnum = PN_XNUM,
		.e_shnum = 1,
	};
	const ElfW(Shdr) s = { .sh_info = count };

	return pwrite(fd, &e, sizeof(e), 0) == sizeof(e) &&
	       pwrite(fd, &s, sizeof(s), 1024) == sizeof(s) &&
	       !ftruncate(fd, 4096 + (off_t)count * sizeof(ElfW(Phdr))) ? 0 : -1;
}

/*
 * "maps" on a file of any user that @write made: it takes at most @kib, finds no build ID there,
 * and those of other files.
 */
static void maps_of_hostile(struct __test_metadata *_metadata, int (*write)(int fd), long kib)
{
	struct mapped mapped;
	char line[PATH_MAX];
	struct rusage r;
	struct tool t;
	int fd;

	ASSERT_EQ(0, mapped_start(&mapped, "many"));
	fd = open(mapped.file, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, write(fd));
	close(fd);
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", "--no-query", PID(getpid()))));
	ASSERT_NE(NULL, find_line(t.out, mapped.file, "", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, " - "));
	/* Control: other files have their build IDs. */
	ASSERT_NE(NULL, find_line(t.out, "r-xp", "/bpfprov_cli", line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(line, " - "));
	tool_free(&t);
	ASSERT_EQ(0, getrusage(RUSAGE_CHILDREN, &r));
	EXPECT_GT(kib, r.ru_maxrss) TH_LOG("%ld KiB", r.ru_maxrss);
	mapped_end(&mapped);
}

/* Many program headers are not all read at once. */
TEST_F(maps, many_headers)
{
	maps_of_hostile(_metadata, write_many_headers, 100 << 10);
}

/* In KiB: of the tool and its children. The files in the tests would take some 600 MiB. */
#define MAX_TAKEN	(200 << 10)

/* Make @fd an ELF file with 600 overlapping notes of 1 MiB. All but the headers are a hole. */
static int write_many_notes(int fd)
{
	const off_t size = 1 << 20, notes = 64 << 10;
	const ElfW(Ehdr) e = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(e),
		.e_ehsize = sizeof(e),
		.e_phentsize = sizeof(ElfW(Phdr)),
		.e_phnum = 600,
	};
	ElfW(Phdr) p = { .p_type = PT_NOTE, .p_filesz = size, .p_memsz = size, .p_align = 4 };
	int i;

	if (pwrite(fd, &e, sizeof(e), 0) != sizeof(e))
		return -1;
	for (i = 0; i < e.e_phnum; i++) {
		/* Not the same, which libelf would read once. */
		p.p_offset = notes + 8 * i;
		if (pwrite(fd, &p, sizeof(p), e.e_phoff + i * sizeof(p)) != sizeof(p))
			return -1;
	}
	return ftruncate(fd, p.p_offset + size);
}

/* Many notes are not all kept in memory. */
TEST_F(maps, many_notes)
{
	maps_of_hostile(_metadata, write_many_notes, MAX_TAKEN);
}

TEST_F(maps, vanished)
{
	struct tool t;
	pid_t pid;

	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", PID(vanished()))));
	EXPECT_EQ(1, count_lines(t.errors));
	tool_free(&t);
	/* A zombie. */
	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, pid, &(siginfo_t){}, WEXITED | WNOWAIT);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", PID(pid))));
	tool_free(&t);
	waitpid(pid, NULL, 0);
	/* kthreadd has no memory. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", "2")));
	EXPECT_STREQ("", t.out);
	tool_free(&t);
}

/* Without PROCMAP_QUERY, the text of a process without memory is empty, and opens. */
TEST_F(maps, vanished_text)
{
	struct tool t;
	pid_t pid;

	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", "--no-query", PID(vanished()))));
	tool_free(&t);
	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, pid, &(siginfo_t){}, WEXITED | WNOWAIT);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", "--no-query", PID(pid)))) TH_LOG("a zombie");
	EXPECT_NE(NULL, strstr(t.errors, "has no memory")) TH_LOG("%s", t.errors);
	tool_free(&t);
	waitpid(pid, NULL, 0);
	/* kthreadd */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", "--no-query", "2"))) TH_LOG("a kernel thread");
	EXPECT_STREQ("", t.out);
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("maps", "--no-query", "2", "1000")));
	tool_free(&t);
	/* Control: this process has memory, above which nothing is mapped. */
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("maps", "--no-query", PID(getpid()),
					    "fffffffffffff000")));
	EXPECT_NE(NULL, strstr(t.errors, "has no mapping at")) TH_LOG("%s", t.errors);
	tool_free(&t);
}

TEST_F(maps, addresses)
{
	struct tool t;
	char addr[32];

	snprintf(addr, sizeof(addr), "0x%lx", (unsigned long)bpfprov_cli_spin);
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(getpid()), addr, addr)));
	EXPECT_EQ(2, count_lines(t.out));
	EXPECT_NE(NULL, strstr(t.out, "r-xp"));
	EXPECT_NE(NULL, strstr(t.out, "/bpfprov_cli"));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("maps", PID(getpid()), "0", addr)));
	EXPECT_EQ(1, count_lines(t.out));
	tool_free(&t);
}

/* Watch for opens of @path; returns the inotify descriptor. */
static int watch_opens(const char *path)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0)
		return -1;
	if (inotify_add_watch(fd, path, IN_OPEN) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int count_opens(int fd)
{
	char buf[4096] __attribute__((aligned(8)));
	struct inotify_event *e;
	ssize_t n, at;
	int count = 0;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at += sizeof(*e) + e->len) {
			e = (void *)(buf + at);
			count += !!(e->mask & IN_OPEN);
		}
	return count;
}

/* A mapped device is looked up in /proc/PID/map_files, but not opened. */
TEST_F(maps, device)
{
	char dir[PATH_MAX - 16], node[PATH_MAX], line[256];
	int fd, watch;
	struct tool t;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(node, sizeof(node), "%s/zero", dir);
	ASSERT_EQ(0, mknod(node, S_IFCHR | 0600, makedev(1, 5)));
	fd = open(node, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		unlink(node);
		rmdir(dir);
		SKIP(return, "needs a file system with devices");
	}
	ASSERT_NE(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	close(fd);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	watch = watch_opens(node);
	if (watch < 0) {
		end_process(pid);
		unlink(node);
		rmdir(dir);
		SKIP(return, "needs CONFIG_INOTIFY_USER");
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", "--no-query", PID(pid))));
	ASSERT_NE(NULL, find_line(t.out, node, "", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, " - "));
	EXPECT_EQ(0, count_opens(watch));
	tool_free(&t);
	/* Control: this open is seen. */
	close(open(node, O_RDONLY | O_CLOEXEC));
	EXPECT_EQ(1, count_opens(watch));
	end_process(pid);
	close(watch);
	unlink(node);
	rmdir(dir);
}

TEST_F(maps, full_disk)
{
	struct tool t;

	ASSERT_EQ(0, tool_start_to(&t, "/dev/full", false, ARGS("maps", PID(getpid()))));
	EXPECT_EQ(FAILED, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, "No space left"));
}

/* --- events --------------------------------------------------------------------------------- */

/* Read the output repeatedly, until it has a line with @a and @b. */
static bool wait_for_line(struct tool *t, const char *a, const char *b)
{
	char line[1024], *out;
	double end = now() + 30 * timeout_scale();
	bool found = false;
	struct stat st;

	while (!found && now() < end) {
		if (fstat(t->out_fd, &st))
			return false;
		out = calloc(1, st.st_size + 1);
		found = out && pread(t->out_fd, out, st.st_size, 0) == st.st_size &&
			find_line(out, a, b, line, sizeof(line));
		free(out);
		sched_yield();
	}
	return found;
}

/* A program that stays loaded: ID, type, tag, loader; reduced, the same. */
TEST_F(events, resident)
{
	char id[32], line[1024];
	struct tool t;
	int fd;

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	fd = load_two("resident");
	EXPECT_LE(0, fd);
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
	EXPECT_TRUE(wait_for_line(&t, "\"event\":\"load\"", id));
	close(fd);
	EXPECT_TRUE(wait_for_line(&t, "\"event\":\"unload\"", id));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	ASSERT_NE(NULL, find_line(t.out, "\"load\"", id, line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, "\"sub_id\":0,\"sub_cnt\":2"));
	EXPECT_NE(NULL, strstr(line, "\"type\":\"socket_filter\""));
	EXPECT_NE(NULL, strstr(line, "\"tag\":"));
	EXPECT_NE(NULL, strstr(line, "\"addr\":\"0xffff"));
	EXPECT_NE(NULL, strstr(line, "resident"));
	EXPECT_EQ(getpid(), json_number(line, "pid"));
	tool_free(&t);
}

/* Programs unloaded at once have a range and name for each subprogram. */
TEST_F(events, short_lived)
{
	int i, fd, ranges = 0, described = 0;
	char id[32], line[1024];
	const char *p;
	struct tool t;

	/* On the first load, libbpf loads programs of its own to probe the kernel. */
	fd = load_two("probes");
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	/* The reader is stopped while they are loaded and unloaded. */
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	for (i = 0; i < 20; i++) {
		fd = load_two("short_lived");
		ASSERT_LE(0, fd);
		close(fd);
	}
	fd = load_two("last");
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
	kill(t.pid, SIGCONT);
	EXPECT_TRUE(wait_for_line(&t, "\"load\"", "last"));
	close(fd);
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	for (p = t.out; (p = find_line(p, "\"load\"", "\"id\"", line, sizeof(line)));) {
		if (strstr(line, id) || json_number(line, "pid") != getpid())
			continue;
		ranges += strstr(line, "\"addr\":\"0xffff") && json_number(line, "len") > 0;
		described += strstr(line, "\"sub_cnt\":2") &&
			     (json_number(line, "sub_id") || strstr(line, "short_lived"));
	}
	EXPECT_EQ(40, ranges) {
		TH_LOG("%d of 40 subprograms have a range", ranges);
	}
	EXPECT_EQ(40, described);
	tool_free(&t);
}

/* The number of lost records that the tool reports at the end. */
static long long said_lost(const char *errors)
{
	const char *p = strstr(errors, " events, ");

	return p ? atoll(p + strlen(" events, ")) : -1;
}

/*
 * A one-page ring without a reader: lost records are located, and printed and lost
 * records add up to all records.
 */
TEST_F(events, one_page_ring)
{
	long long seq, first = -1, last = -1, printed = 0, lost = 0, gaps = 0, unlocated = 0;
	char line[1024], id[32];
	const char *p;
	struct tool t;
	int i, fd;

	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json", "--ring-pages", "1")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	fd = load_two("first");
	ASSERT_LE(0, fd);
	ASSERT_TRUE(wait_for_line(&t, "\"load\"", "first"));
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	close(fd);
	for (i = 0; i < 200; i++) {
		fd = load_two("many");
		ASSERT_LE(0, fd);
		close(fd);
	}
	kill(t.pid, SIGCONT);
	/* The ring was full. Once read, it has room for a record that shows the gap. */
	EXPECT_TRUE(wait_for_line(&t, "\"event\":\"unload\"", id));
	fd = load_two("last");
	EXPECT_LE(0, fd);
	EXPECT_TRUE(wait_for_line(&t, "\"load\"", "last"));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	for (p = t.out; (p = find_line(p, "\"event\"", "", line, sizeof(line)));) {
		if (strstr(line, "\"lost\"")) {
			if (json_number(line, "first_seq") < 0) {
				TH_LOG("records were lost, and which is not said");
				unlocated++;
				continue;
			}
			gaps++;
			lost += json_number(line, "count");
			last = json_number(line, "last_seq");
			continue;
		}
		seq = json_number(line, "seq");
		if (seq < 0)	/* without bpf_subprog there is none */
			continue;
		first = first < 0 ? seq : first;
		EXPECT_LT(last, seq);
		last = seq;
		printed++;
	}
	TH_LOG("%lld printed, %lld lost in %lld gaps, numbers %lld to %lld", printed, lost, gaps,
	       first, last);
	EXPECT_LT(0, lost);
	EXPECT_EQ(last - first + 1, printed + lost);
	EXPECT_EQ(0, unlocated);
	EXPECT_EQ(lost, said_lost(t.errors)) TH_LOG("%s", t.errors);
	close(fd);
	tool_free(&t);
}

#define BURST 200

/* Overflow a one-page ring without a reader, and end the tool. No record comes after the burst. */
static void lose_at_end(struct __test_metadata *_metadata, struct tool *t, bool nobody)
{
	char id[32];
	int i, fd, first;

	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, tool_start_to(t, NULL, nobody, ARGS("events", "--json", "--ring-pages", "1")));
	ASSERT_TRUE(tool_says(t, "listening"));
	first = load_two("first");
	ASSERT_LE(0, first);
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(first));
	ASSERT_TRUE(wait_for_line(t, "\"load\"", id));
	kill(t->pid, SIGSTOP);
	waitpid(t->pid, NULL, WUNTRACED);
	for (i = 0; i < BURST; i++) {
		fd = load_two("many");
		ASSERT_LE(0, fd);
		close(fd);
	}
	/* It is freed after a grace period: so are those before it. */
	ASSERT_EQ(0, syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
	kill(t->pid, SIGINT);
	kill(t->pid, SIGCONT);
	EXPECT_EQ(OK, tool_end(t));
	close(first);
}

/*
 * A one-page ring without a reader, and no record after the burst, which would show the gap:
 * printed and lost records still add up, and are located.
 */
TEST_F(events, lost_at_end)
{
	long long seq, first, last = -1, all = 0, printed = 0, lost = 0;
	char line[1024];
	const char *p;
	struct tool t;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < 0)
		SKIP(return, "needs CONFIG_MEMBARRIER");
	lose_at_end(_metadata, &t, false);
	first = json_number(t.out, "seq");
	for (p = t.out; (p = find_line(p, "\"event\"", "", line, sizeof(line)));) {
		if (strstr(line, "\"lost\"")) {
			lost += json_number(line, "count");
			seq = json_number(line, "last_seq");
			EXPECT_EQ(first >= 0, seq >= 0) TH_LOG("%s", line);
		} else {
			all++;
			printed += strstr(line, "first") || strstr(line, "many") ||
				   strstr(line, "\"sub_id\":1,");
			seq = json_number(line, "seq");
		}
		last = seq > last ? seq : last;
	}
	TH_LOG("%lld printed, %lld lost", printed, lost);
	EXPECT_LT(0, lost) TH_LOG("%s", t.errors);
	EXPECT_EQ(lost, said_lost(t.errors)) TH_LOG("%s", t.errors);
	if (first >= 0) {
		EXPECT_LE(2 + 4 * BURST, printed + lost);
		EXPECT_EQ(last - first + 1, all + lost);
	}
	tool_free(&t);
}

/*
 * Likewise, and the tool must not load a program that shows the gap: the number of lost records is
 * an upper bound, and not in the total.
 */
TEST_F(events, lost_at_end_few_capabilities)
{
	static const char sysctl[] = "/proc/sys/kernel/unprivileged_bpf_disabled";
	struct setting unprivileged;
	char line[1024], c = 0;
	long long lost = 0, at_most = 0;
	const char *p;
	struct tool t;
	int fd;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < 0)
		SKIP(return, "needs CONFIG_MEMBARRIER");
	fd = open(sysctl, O_RDONLY | O_CLOEXEC);
	ASSERT_TRUE(fd < 0 || read(fd, &c, 1) == 1);
	close(fd);
	if (c == '0')
		ASSERT_EQ(0, setting_change(&unprivileged, sysctl, "2"));
	keep_caps = 1ULL << CAP_PERFMON;
	lose_at_end(_metadata, &t, true);
	if (c == '0')
		setting_restore(&unprivileged);
	for (p = t.out; (p = find_line(p, "\"lost\"", "", line, sizeof(line)));) {
		if (strstr(line, "\"at_most\":true"))
			at_most += json_number(line, "count");
		else
			lost += json_number(line, "count");
	}
	EXPECT_EQ(json_number(t.out, "seq") >= 0, at_most > 0) TH_LOG("%s", t.out);
	EXPECT_LT(0, at_most + lost) TH_LOG("%s", t.out);
	EXPECT_EQ(lost, said_lost(t.errors)) TH_LOG("%s", t.errors);
	tool_free(&t);
}

TEST_F(events, now)
{
	char id[32], line[1024];
	const char *p;
	struct tool t;
	int fd, n = 0;

	fd = load_two("listed");
	ASSERT_LE(0, fd);
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now", "--json")));
	for (p = t.out; (p = find_line(p, "\"loaded\"", id, line, sizeof(line))); n++) {
		EXPECT_NE(NULL, strstr(line, "\"addr\":\"0xffff"));
		EXPECT_LT(0, json_number(line, "len"));
		EXPECT_EQ(getuid(), json_number(line, "uid"));
	}
	EXPECT_EQ(2, n);
	tool_free(&t);
	ASSERT_EQ(0, tool_start_to(&t, "/dev/full", false, ARGS("events", "--now")));
	EXPECT_EQ(FAILED, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, "No space left"));
	close(fd);
}

/* A program without a name, whose symbol is hidden: there is no empty member in its place. */
TEST_F(events, no_name)
{
	struct setting hidden = {};
	char id[32], line[1024];
	struct tool t;
	int fd;

	ASSERT_EQ(0, setting_change(&hidden, "/proc/sys/kernel/kptr_restrict", "2"));
	fd = load_two(NULL);
	ASSERT_LE(0, fd);
	snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now", "--json")));
	ASSERT_NE(NULL, find_line(t.out, "\"loaded\"", id, line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(line, "\"name\"")) TH_LOG("%s", line);
	EXPECT_NE(NULL, strstr(line, "\"tag\":\""));
	tool_free(&t);
	close(fd);
	setting_restore(&hidden);
}

/* A link of a program to a function of the kernel, which makes a trampoline; or -errno. */
static int make_trampoline(void)
{
	const struct bpf_insn insns[] = {
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY);
	int id = libbpf_find_vmlinux_btf_id("bpf_fentry_test1", BPF_TRACE_FENTRY), prog, link;

	if (id < 0)
		return id;
	opts.attach_btf_id = id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "traced", "GPL", insns, ARRAY_LEN(insns),
			     &opts);
	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, 0, BPF_TRACE_FENTRY, NULL);
	close(prog);
	return link;
}

/*
 * An image has an address and a name. --now has neither its length nor its time; without
 * bpf_subprog, records do not have its length. No other value is printed.
 */
TEST_F(events, image)
{
	char line[1024], *range;
	bool has_len;
	struct tool t;
	int link;

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	link = make_trampoline();
	ASSERT_LE(0, link);
	EXPECT_TRUE(wait_for_line(&t, "\"image-add\"", "\"bpf_trampoline_"));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	ASSERT_NE(NULL, find_line(t.out, "\"image-add\"", "\"bpf_trampoline_", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, "\"time\":"));
	EXPECT_NE(NULL, strstr(line, "\"addr\":\"0xffff"));
	has_len = !strstr(t.errors, "no bpf-subprog");
	EXPECT_EQ(has_len, !!strstr(line, "\"len\":")) TH_LOG("%s", line);
	if (has_len)
		EXPECT_LT(0, json_number(line, "len"));
	tool_free(&t);

	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now", "--json")));
	ASSERT_NE(NULL, find_line(t.out, "\"loaded\"", "\"bpf_trampoline_", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, "\"addr\":\"0xffff"));
	EXPECT_EQ(NULL, strstr(line, "\"len\":")) TH_LOG("%s", line);
	EXPECT_EQ(NULL, strstr(line, "\"time\":")) TH_LOG("%s", line);
	/* Control: that of the program is known. */
	ASSERT_NE(NULL, find_line(t.out, "\"loaded\"", "_traced\"", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, "\"time\":"));
	tool_free(&t);

	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now")));
	ASSERT_NE(NULL, find_line(t.out, " image ", " bpf_trampoline_", line, sizeof(line)));
	range = strstr(line, " ffff");
	ASSERT_NE(NULL, range);
	EXPECT_EQ(0, strncmp(line, "- ", 2)) TH_LOG("%s", line);
	EXPECT_EQ(16, strspn(range + 1, "0123456789abcdef+")) TH_LOG("%s", line);
	tool_free(&t);
	close(link);
}

/* bpf_workload with images. It runs them after it could read a byte from @in. */
struct workload {
	pid_t pid;
	int in;
};

static int start_images(struct workload *w)
{
	char line[1024] = "";
	int in[2], out[2];
	FILE *f;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -errno;
	w->in = in[1];
	w->pid = fork();
	if (!w->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("./bpf_workload", "bpf_workload", "images", "2", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f = fdopen(out[0], "r");
	while (f && fgets(line, sizeof(line), f) && strcmp(line, "ready\n"))
		;
	if (f)
		fclose(f);
	return w->pid > 0 && !strcmp(line, "ready\n") ? 0 : -ECHILD;
}

static void end_images(struct workload *w)
{
	end_process(w->pid);
	close(w->in);
}

/*
 * An image of struct_ops has the ID of the program that it calls, if there are records of
 * subprograms, but it is not one of these. The attach type of such a program is the number of a
 * member, and not printed.
 */
TEST_F(events, struct_ops)
{
	struct workload w = {};
	bool has_subprog;
	char line[1024];
	struct tool t;

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	ASSERT_EQ(0, start_images(&w));
	EXPECT_TRUE(wait_for_line(&t, "\"image-add\"", "\"bpf__tcp_congestion_ops_ssthresh\""));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	end_images(&w);
	ASSERT_NE(NULL, find_line(t.out, "\"image-add\"", "\"bpf__tcp_congestion_ops_ssthresh\"",
				  line, sizeof(line)));
	has_subprog = !strstr(t.errors, "no bpf-subprog");
	EXPECT_EQ(has_subprog, json_number(line, "id") > 0) TH_LOG("%s", line);
	EXPECT_EQ(NULL, strstr(line, "\"sub_")) TH_LOG("%s", line);
	EXPECT_NE(NULL, find_line(t.out, "\"load\"", "\"struct_ops\"", line, sizeof(line)));
	EXPECT_EQ(NULL, find_line(t.out, "\"struct_ops\"", "\"attach_type\"", line, sizeof(line)))
		TH_LOG("%s", line);
	/* Control */
	EXPECT_EQ(has_subprog, !!find_line(t.out, "\"load\"", "\"attach_type\":\"trace_fentry\"",
					   line, sizeof(line)));
	tool_free(&t);
}

/*
 * Subprograms that kallsyms does not list have tags of their own, and no other name. The prefix
 * that FineIBT adds to a program is not an image. Here, /proc/kallsyms is a file of the test.
 */
TEST_F(events, other_symbols)
{
	static const char symbols[] =
		"ffffffffa0001000 t __cfi_bpf_prog_0123456789abcdef_x\t[bpf]\n"
		"ffffffffa0001010 t bpf_prog_0123456789abcdef_x\t[bpf]\n"
		"ffffffffa0002000 t bpf_trampoline_1\t[bpf]\n";
	char path[] = "/tmp/bpfprov_cli.XXXXXX", id[64], line[1024], tag[2][17] = {};
	int fd, file, sub;
	const char *p;
	struct tool t;

	file = mkstemp(path);
	ASSERT_LE(0, file);
	ASSERT_EQ(sizeof(symbols) - 1, write(file, symbols, sizeof(symbols) - 1));
	close(file);
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount(path, "/proc/kallsyms", NULL, MS_BIND, NULL));
	fd = load_two("unlisted");
	ASSERT_LE(0, fd);
	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now", "--json")));
	EXPECT_NE(NULL, find_line(t.out, "\"loaded\"", "\"bpf_trampoline_1\"", line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(t.out, "__cfi_"));
	for (sub = 0; sub < 2; sub++) {
		snprintf(id, sizeof(id), "\"id\":%u,\"sub_id\":%d,", prog_id(fd), sub);
		ASSERT_NE(NULL, find_line(t.out, "\"loaded\"", id, line, sizeof(line)));
		p = strstr(line, "\"tag\":\"");
		ASSERT_NE(NULL, p);
		snprintf(tag[sub], sizeof(tag[sub]), "%.16s", p + 7);
		snprintf(id, sizeof(id), "\"bpf_prog_%s\"", tag[sub]);
		EXPECT_NE(NULL, strstr(line, sub ? id : "\"unlisted\"")) TH_LOG("%s", line);
	}
	EXPECT_NE(0, strcmp(tag[0], tag[1]));
	tool_free(&t);
	close(fd);
	ASSERT_EQ(0, umount("/proc/kallsyms"));
	unlink(path);
}

#define MANY 10000

TEST_F(events, now_10000)
{
	int *fds, i, n = 0, many = storm_count(MANY);
	struct rlimit limit = { many + 100, many + 100 };
	const char *p;
	char line[1024];
	struct tool t;

	fds = calloc(many, sizeof(*fds));
	ASSERT_NE(NULL, fds);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	for (i = 0; i < many; i++) {
		fds[i] = load_two("one_of_many");
		ASSERT_LE(0, fds[i]);
	}
	/* The tool does not inherit them: they are close-on-exec. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("events", "--now", "--json")));
	for (p = t.out; (p = find_line(p, "\"sub_id\":0,", "one_of_many", line, sizeof(line)));)
		n++;
	EXPECT_EQ(many, n);
	tool_free(&t);
	for (i = 0; i < many; i++)
		close(fds[i]);
	free(fds);
}

/* The time of day is current, even if the clock was set meanwhile, as after a suspend. */
TEST_F(events, clock_set)
{
	struct timespec ts;
	char line[1024];
	const char *time;
	struct tool t;
	double when;
	int fd;

	if (!may_end_kernel())
		SKIP(return, "sets the clock, and runs with MAY_END_KERNEL=1 only");
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("events", "--json")));
	ASSERT_TRUE(tool_says(&t, "listening"));
	ASSERT_EQ(0, clock_gettime(CLOCK_REALTIME, &ts));
	ts.tv_sec += 1000;
	if (clock_settime(CLOCK_REALTIME, &ts)) {
		end_process(t.pid);
		SKIP(return, "the clock cannot be set");
	}
	fd = load_two("clock_set");
	EXPECT_LE(0, fd);
	EXPECT_TRUE(wait_for_line(&t, "\"load\"", "clock_set"));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	clock_gettime(CLOCK_REALTIME, &ts);
	when = ts.tv_sec + ts.tv_nsec / 1e9;
	ts.tv_sec -= 1000;
	clock_settime(CLOCK_REALTIME, &ts);
	ASSERT_NE(NULL, find_line(t.out, "\"load\"", "clock_set", line, sizeof(line)));
	time = strstr(line, "\"time\":");
	ASSERT_NE(NULL, time);
	EXPECT_GT(500, when - atof(time + 7));
	EXPECT_GT(500, atof(time + 7) - when);
	close(fd);
	tool_free(&t);
}

/* CAP_PERFMON alone allows records, but not queries for the rest. */
TEST_F(events, few_capabilities)
{
	static char *args[] = { "events", "--json", "-d", "1", NULL };
	struct tool t;

	keep_caps = 1ULL << CAP_PERFMON;
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, args));
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, "listening"));
	tool_free(&t);
}

/*
 * In a new PID namespace, /proc still shows that of the host: a PID in a record is another process
 * there, whose name is not printed.
 */
TEST_F(events, own_proc)
{
	char id[32], line[1024];
	int fd, status = -1;
	struct tool t;
	pid_t child;

	if (access("/proc/self/ns/pid", F_OK))
		SKIP(return, "needs CONFIG_PID_NS");
	child = fork_in_pid_namespace();
	ASSERT_LE(0, child);
	if (!child) {
		if (getpid() != 1 ||
		    tool_start_to(&t, NULL, false, ARGS("events", "--json")) ||
		    !tool_says(&t, "listening"))
			_exit(1);
		fd = load_two("own_proc");
		EXPECT_LE(0, fd);
		snprintf(id, sizeof(id), "\"id\":%u,", prog_id(fd));
		EXPECT_TRUE(wait_for_line(&t, "\"event\":\"load\"", id));
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
		if (!t.out || !find_line(t.out, "\"load\"", id, line, sizeof(line)))
			_exit(2);
		/* On the host, this is init. */
		EXPECT_EQ(1, json_number(line, "pid"));
		EXPECT_EQ(NULL, strstr(line, "\"comm\"")) TH_LOG("%s", line);
		_exit(_metadata->exit_code);
	}
	waitpid(child, &status, 0);
	EXPECT_EQ(0, status);
}

/* The number of samples that it reports. */
static long said_samples(const char *errors)
{
	const char *p = strstr(errors, " samples in ");

	if (!p)
		return -1;
	while (p > errors && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return atol(p);
}

/* --- memory ---------------------------------------------------------------------------------- */

#define BUSY_FILES 16

/* A process that loads programs and maps files all the time, and counts both. */
struct busy {
	char dir[PATH_MAX - 64], file[PATH_MAX - 32];
	pid_t pid;
	unsigned long *counts;		/* shared: programs, mappings */
};

/* For each program, BUSY_FILES mappings of one file, each time with another build ID. */
static void run_busy(const struct busy *b, int file)
{
	unsigned char id[BUILD_ID_SIZE] = "busy";
	unsigned long n;
	void *page;
	int fd;

	for (n = 0;; n++) {
		if (n % BUSY_FILES == 0) {
			fd = load_two("busy");
			if (fd < 0)
				_exit(1);
			close(fd);
			__atomic_fetch_add(&b->counts[0], 1, __ATOMIC_RELAXED);
		}
		memcpy(id + sizeof(id) - sizeof(n), &n, sizeof(n));
		if (write_elf(file, id, 1024))
			_exit(1);
		page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
		if (page == MAP_FAILED)
			_exit(1);
		munmap(page, 4096);
		__atomic_fetch_add(&b->counts[1], 1, __ATOMIC_RELAXED);
	}
}

static int busy_start(struct busy *b)
{
	int file;

	b->pid = -1;
	b->counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->counts == MAP_FAILED || scratch_dir(b->dir, sizeof(b->dir)))
		return -1;
	snprintf(b->file, sizeof(b->file), "%s/file", b->dir);
	file = open(b->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, 4096))
		return -1;
	b->pid = fork();
	if (!b->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_busy(b, file);
	}
	close(file);
	return b->pid > 0 ? 0 : -1;
}

static void busy_end(struct busy *b)
{
	if (b->pid > 0)
		end_process(b->pid);
	munmap(b->counts, 4096);
	unlink(b->file);
	rmdir(b->dir);
}

/* The memory of the tool and of its child process, in KiB. */
static long tool_memory(pid_t pid)
{
	long own = proc_status(pid, "VmRSS"), more;
	pid_t child = child_of(pid, false);

	more = child > 0 ? proc_status(child, "VmRSS") : 0;
	return own < 0 ? own : own + (more > 0 ? more : 0);
}

/* In KiB: the rings, of 1 MiB and more, are mapped, and count as they are first used. */
#define MAY_GROW 4096

/* Files that a profile keeps. */
#define MAX_FILES 65536

/*
 * Bytes that a profile may keep: for a file 96, its path and its name, less than 200 in all; for a
 * sample a stack of 40, with 4 for each frame, and new frames of 64 each, which become few. The
 * arrays double.
 */
#define PER_FILE 256
#define PER_SAMPLE 1024

/*
 * Run the tool with @args, until it has printed @ready and for the time of a storm. In the
 * last two thirds of that, it takes no more memory than in the first third. A profile may keep new
 * files, up to MAX_FILES, which a long storm exceeds, and samples.
 */
static void watch_memory(struct __test_metadata *_metadata, char **args, const char *ready)
{
	unsigned long loads, maps, warm_maps = 0, files, samples = 0;
	double begin, end, warm;
	long first = 0, last = 0, kib, may_grow = MAY_GROW;
	struct busy busy;
	struct tool t;

	ASSERT_EQ(0, busy_start(&busy));
	ASSERT_EQ(0, tool_start_to(&t, "/dev/null", false, args));
	ASSERT_TRUE(tool_says(&t, ready));
	begin = now();
	end = begin + storm_seconds(10);
	warm = begin + (end - begin) / 3;
	loads = __atomic_load_n(&busy.counts[0], __ATOMIC_RELAXED);
	maps = __atomic_load_n(&busy.counts[1], __ATOMIC_RELAXED);
	do {
		poll(NULL, 0, 50);
		kib = tool_memory(t.pid);
		ASSERT_LT(0, kib);
		/* On a slow machine, a storm of one second can be a single measurement. */
		if (now() < warm || !first) {
			warm_maps = __atomic_load_n(&busy.counts[1], __ATOMIC_RELAXED);
			first = kib > first ? kib : first;
		} else {
			last = kib > last ? kib : last;
		}
	} while (now() < end || !last);
	files = __atomic_load_n(&busy.counts[1], __ATOMIC_RELAXED) - warm_maps;
	loads = __atomic_load_n(&busy.counts[0], __ATOMIC_RELAXED) - loads;
	maps = __atomic_load_n(&busy.counts[1], __ATOMIC_RELAXED) - maps;
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	busy_end(&busy);
	if (said_samples(t.errors) > 0) {
		samples = said_samples(t.errors);
		files = files < MAX_FILES ? files : MAX_FILES;
		may_grow += (files * PER_FILE + samples * PER_SAMPLE) / 1024;
	}
	TH_LOG("%lu programs, %lu mappings in %.0f s: at most %ld KiB, then %ld KiB of %ld", loads,
	       maps, end - begin, first, last, first + may_grow);
	EXPECT_LT(0, loads);
	EXPECT_LE(last, first + may_grow);
	tool_free(&t);
}

TEST_F(events, memory)
{
	watch_memory(_metadata, ARGS("events", "--json"), "listening");
}

/* One process is sampled: the memory that grows holds the records of all processes. */
TEST_F(profile, memory)
{
	int cgroup = cgroup_enter("bpfprov_cli_profile");
	pid_t pid;

	if (cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
	ASSERT_LE(0, cgroup);
	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	watch_memory(_metadata, ARGS("profile", "-G", "bpfprov_cli_profile"), " Hz");
	end_process(pid);
	close(cgroup);
	cgroup_leave("bpfprov_cli_profile");
}

TEST_F(profile, memory_of_all)
{
	watch_memory(_metadata, ARGS("profile", "-a"), " Hz");
}

/* --- confine --------------------------------------------------------------------------------- */

#define CGROUP	"bpfprov_cli"
#define UNIT	"bpfprov_cli_unit"
#define CHILD	"/sys/fs/cgroup/" CGROUP "/child"
#define ADDR1	"10.77.0.1"
#define ADDR2	"10.77.0.2"
#define ADDR1_6	"fd77::1"
#define ADDR2_6	"fd77::2"

FIXTURE(confine)
{
	int cgroup;
};

static int add_address(const char *label, const char *addr)
{
	struct ifreq ifr = { .ifr_flags = IFF_UP };
	struct sockaddr_in *sin = (struct sockaddr_in *)&ifr.ifr_addr;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", label);
	sin->sin_family = AF_INET;
	inet_pton(AF_INET, addr, &sin->sin_addr);
	err = ioctl(s, SIOCSIFADDR, &ifr);
	if (!err) {
		ifr.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
		err = ioctl(s, SIOCSIFFLAGS, &ifr);
	}
	close(s);
	return err;
}

/* Not tentative: with SIOCSIFADDR, bind() fails until a worker has run. */
static int add_address6(const char *addr)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "ip addr add %s/128 dev lo nodad", addr);
	return system(cmd);
}

/* The cgroups that a failed or killed test has left. Moves the caller to the root. */
static void remove_cgroups(void)
{
	static const char * const paths[] = {
		CHILD, "/sys/fs/cgroup/" UNIT "none", "/sys/fs/cgroup/" UNIT "1",
		"/sys/fs/cgroup/" UNIT "2", "/sys/fs/cgroup/bpfprov_cli_gone",
	};
	size_t i;

	cgroup_leave(UNIT);
	for (i = 0; i < ARRAY_LEN(paths); i++)
		rmdir(paths[i]);
}

FIXTURE_SETUP(confine)
{
	int s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 && errno == EAFNOSUPPORT)
		SKIP(return, "needs CONFIG_IPV6");
	close(s);
	if (unshare(CLONE_NEWNET)) {
		ASSERT_EQ(EINVAL, errno);
		SKIP(return, "needs CONFIG_NET_NS");
	}
	/* A BPF file system of this test alone: without the policies of others. */
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("none", "/sys/fs/bpf", "bpf", 0, NULL));
	ASSERT_EQ(0, add_address("lo", "127.0.0.1"));
	ASSERT_EQ(0, add_address("lo:1", ADDR1));
	ASSERT_EQ(0, add_address("lo:2", ADDR2));
	remove_cgroups();
	self->cgroup = cgroup_enter(CGROUP);
	if (self->cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
	ASSERT_LE(0, self->cgroup);
}

FIXTURE_TEARDOWN(confine)
{
	struct tool t;

	tool_run(&t, ARGS("confine", CGROUP, "--remove"));
	tool_free(&t);
	close(self->cgroup);
	remove_cgroups();
	cgroup_leave(CGROUP);
}

/* Bind a TCP socket to @addr; its address, or the errno, as text. */
static const char *bound_to(const char *addr, int port, int *fd)
{
	static char text[INET_ADDRSTRLEN];
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	socklen_t len = sizeof(sin);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	inet_pton(AF_INET, addr, &sin.sin_addr);
	if (bind(s, (void *)&sin, len) || getsockname(s, (void *)&sin, &len))
		snprintf(text, sizeof(text), "%s", errno == EPERM ? "EPERM" : "error");
	else
		inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text));
	if (fd)
		*fd = s;
	else
		close(s);
	return text;
}

/* A socket that is bound to an address, which is IPv4 or IPv6. */
static int bound_socket(int type, const char *addr, int port)
{
	union addr a;
	socklen_t len = make_addr(&a, addr, port);
	int s = socket(a.sa.sa_family, type | SOCK_CLOEXEC, 0);

	if (s >= 0 && bind(s, &a.sa, len)) {
		close(s);
		return -1;
	}
	return s;
}

TEST_F(confine, addresses)
{
	struct sockaddr_in to = { .sin_family = AF_INET }, from;
	socklen_t len = sizeof(from);
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	static const char * const here[] = { "127.0.0.1", "0.0.0.0" };
	char text[INET_ADDRSTRLEN];
	int server, s, port, i;
	struct tool t;

	/* Control: there is no policy yet. */
	ASSERT_STREQ("0.0.0.0", bound_to("0.0.0.0", 0, NULL));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--map",
					"localhost:81=" ADDR1 ":80"))) {
		TH_LOG("%s", t.errors);
	}
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_STREQ(ADDR1, bound_to("127.0.0.1", 0, NULL));
	EXPECT_STREQ("EPERM", bound_to(ADDR2, 0, NULL));
	EXPECT_STREQ(ADDR1, bound_to(ADDR1, 80, &server));
	ASSERT_EQ(0, listen(server, 8));
	/* localhost is the address, and its port 81 is redirected to 80. */
	for (i = 0; i < 4; i++) {
		inet_pton(AF_INET, here[i / 2], &to.sin_addr);
		port = 80 + i % 2;
		to.sin_port = htons(port);
		s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ASSERT_EQ(0, connect(s, (void *)&to, sizeof(to)));
		ASSERT_EQ(0, getsockname(s, (void *)&from, &len));
		EXPECT_STREQ(ADDR1, inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text)));
		/* The task sees the address it used. "Any" has always been 127.0.0.1. */
		ASSERT_EQ(0, getpeername(s, (void *)&from, &len));
		EXPECT_STREQ("127.0.0.1", inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text)));
		EXPECT_EQ(port, ntohs(from.sin_port));
		close(s);
	}
	/* A family without an address. */
	s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT_EQ(-1, bind(s, (void *)&sin6, sizeof(sin6)));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
	close(s);
	close(server);
}

/* A family without an address has the errors of a host without it: musl resolves names then. */
TEST_F(confine, other_family)
{
	static const struct {
		char *own;
		int family;
		const char *to;
	} cases[] = {
		{ ADDR1, AF_INET6, "::1" },
		{ "::1", AF_INET, "127.0.0.1" },
		{ "::1", AF_INET6, "::ffff:127.0.0.1" },
	};
	union addr local, to;
	socklen_t len;
	struct tool t;
	int s, bound;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		len = make_addr(&to, cases[i].to, 65535);
		make_addr(&local, cases[i].to, 0);
		bound = socket(cases[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_EQ(0, bind(bound, &local.sa, len));
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", cases[i].own)));
		tool_free(&t);
		s = socket(cases[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_LE(0, s);
		EXPECT_EQ(-1, connect(s, &to.sa, len));
		EXPECT_EQ(ENETUNREACH, errno) TH_LOG("connect() to %s", cases[i].to);
		EXPECT_EQ(-1, bind(s, &local.sa, len));
		EXPECT_EQ(EADDRNOTAVAIL, errno) TH_LOG("bind() to %s", cases[i].to);
		EXPECT_EQ(-1, sendto(bound, "x", 1, 0, &to.sa, len));
		EXPECT_EQ(ENETUNREACH, errno) TH_LOG("sendto() to %s", cases[i].to);
		close(s);
		close(bound);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
	}
}

/* The addresses of a policy, and of sockets that it does not allow, of each family. */
static const struct {
	char *own, *other;
	const char *any, *localhost;
} addresses[] = {
	{ ADDR1, ADDR2, "0.0.0.0", "127.0.0.1" },
	{ ADDR1_6, ADDR2_6, "::", "::1" },
};

/* Sockets that were bound to another address before neither connect nor send. */
TEST_F(confine, bound_before)
{
	int server, tcp, udp;
	struct tool t;
	union addr to;
	socklen_t len;
	size_t i;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	for (i = 0; i < ARRAY_LEN(addresses); i++) {
		server = bound_socket(SOCK_STREAM, addresses[i].own, 0);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, listen(server, 8));
		tcp = bound_socket(SOCK_STREAM, addresses[i].other, 0);
		ASSERT_LE(0, tcp);
		udp = bound_socket(SOCK_DGRAM, addresses[i].other, 0);
		ASSERT_LE(0, udp);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", addresses[i].own)));
		tool_free(&t);
		len = make_addr(&to, addresses[i].own, port_of(server));
		EXPECT_EQ(-1, connect(tcp, &to.sa, len));
		EXPECT_EQ(EPERM, errno);
		EXPECT_EQ(-1, sendto(udp, "x", 1, 0, &to.sa, len));
		EXPECT_EQ(EPERM, errno);
		close(udp);
		close(tcp);
		close(server);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
	}
}

/* A program at bind() that replaces the address by @addr: its link, or -errno. */
static int replace_bind(int cgroup, const char *addr)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET4_BIND);
	int at = offsetof(struct bpf_sock_addr, user_ip4), words = 1, n = 0, i, prog, link;
	struct bpf_insn insns[10];
	const __u32 *ip;
	union addr a;

	make_addr(&a, addr, 0);
	ip = &a.in.sin_addr.s_addr;
	if (a.sa.sa_family == AF_INET6) {
		opts.expected_attach_type = BPF_CGROUP_INET6_BIND;
		at = offsetof(struct bpf_sock_addr, user_ip6);
		words = 4;
		ip = a.in6.sin6_addr.s6_addr32;
	}
	for (i = 0; i < words; i++) {
		insns[n++] = INSN(BPF_ALU | BPF_MOV | BPF_K, 2, 0, 0, ip[i]);
		insns[n++] = INSN(BPF_STX | BPF_MEM | BPF_W, 1, 2, at + 4 * i, 0);
	}
	insns[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
	insns[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	prog = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "other", "GPL", insns, n, &opts);
	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, cgroup, opts.expected_attach_type, NULL);
	close(prog);
	return link;
}

/* A program of another owner runs later, and replaces the address of the policy. */
TEST_F(confine, other_owner)
{
	socklen_t len;
	struct tool t;
	union addr a;
	int link, s;
	size_t i;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	for (i = 0; i < ARRAY_LEN(addresses); i++) {
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", addresses[i].own)));
		tool_free(&t);
		link = replace_bind(self->cgroup, addresses[i].other);
		ASSERT_LE(0, link);
		EXPECT_EQ(-1, bound_socket(SOCK_STREAM, addresses[i].any, 0))
			TH_LOG("bound to an address of another program");
		EXPECT_EQ(EPERM, errno);
		/* Control: it does replace it. */
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
		s = bound_socket(SOCK_STREAM, addresses[i].any, 0);
		ASSERT_LE(0, s);
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(s, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, addresses[i].other));
		close(s);
		close(link);
	}
}

/* connect() of a socket that has a protocol instead of a port. */
TEST_F(confine, raw)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	char text[INET_ADDRSTRLEN];
	struct tool t;
	int s;

	if (!has_all_protocols())
		SKIP(return, "no BPF_F_ALL_PROTOCOLS");
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	s = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	ASSERT_LE(0, s);
	inet_pton(AF_INET, ADDR2, &sin.sin_addr);
	ASSERT_EQ(0, connect(s, (void *)&sin, sizeof(sin)));
	ASSERT_EQ(0, getsockname(s, (void *)&sin, &len));
	inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text));
	EXPECT_STREQ(ADDR1, text) {
		TH_LOG("a raw socket connects from %s", text);
	}
	close(s);
}

/* An AF_INET6 SCTP socket used for IPv4 has its address in fewer places. */
TEST_F(confine, sctp6)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct tool t;
	socklen_t len = sizeof(sin);
	char text[INET_ADDRSTRLEN];
	int server, s;

	if (!has_all_protocols())
		SKIP(return, "no BPF_F_ALL_PROTOCOLS");
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
	if (server < 0 && (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		SKIP(return, "needs CONFIG_IP_SCTP");
	ASSERT_LE(0, server);
	inet_pton(AF_INET, ADDR2, &sin.sin_addr);
	ASSERT_EQ(0, bind(server, (void *)&sin, sizeof(sin)));
	ASSERT_EQ(0, listen(server, 1));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);

	s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
	ASSERT_LE(0, s);
	EXPECT_EQ(0, bind(s, (void *)&any, sizeof(any)));
	inet_pton(AF_INET6, "::ffff:" ADDR2, &to.sin6_addr);
	EXPECT_EQ(0, connect(s, (void *)&to, sizeof(to)))
		TH_LOG("%s", strerror(errno));
	close(s);
	s = accept(server, (void *)&sin, &len);
	ASSERT_LE(0, s);
	EXPECT_STREQ(ADDR1, inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text)));
	close(s);
	close(server);
}

/* A socket bound to the replaced address can still send from it. */
TEST_F(confine, replaced_sender)
{
	socklen_t len, from_len;
	int server, s, other;
	union addr to, from;
	struct tool t;
	size_t i;
	char c;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	for (i = 0; i < ARRAY_LEN(addresses); i++) {
		other = bound_socket(SOCK_DGRAM, addresses[i].localhost, 0);
		ASSERT_LE(0, other);
		server = bound_socket(SOCK_DGRAM, addresses[i].other, 0);
		ASSERT_LE(0, server);
		len = make_addr(&to, addresses[i].other, port_of(server));

		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", addresses[i].own)));
		tool_free(&t);
		s = bound_socket(SOCK_DGRAM, addresses[i].any, 0);
		ASSERT_LE(0, s);
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", addresses[i].other)));
		tool_free(&t);

		ASSERT_EQ(1, sendto(s, "x", 1, 0, &to.sa, len)) TH_LOG("%s", strerror(errno));
		from_len = sizeof(from);
		ASSERT_EQ(1, recvfrom(server, &c, 1, 0, &from.sa, &from_len));
		EXPECT_TRUE(same_ip(&from, addresses[i].own));
		/* Bound before both policies, to neither address. */
		EXPECT_EQ(-1, sendto(other, "x", 1, 0, &to.sa, len));
		EXPECT_EQ(EPERM, errno);
		close(other);
		close(server);
		close(s);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
	}
}

/* listen() without bind(), and the first datagram. */
TEST_F(confine, autobind)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(9) };
	socklen_t len = sizeof(sin);
	char text[INET_ADDRSTRLEN];
	struct tool t;
	int s;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	EXPECT_EQ(has_autobind(), !strstr(t.errors, "reduced"));
	tool_free(&t);
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, listen(s, 1));
	ASSERT_EQ(0, getsockname(s, (void *)&sin, &len));
	inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text));
	EXPECT_STREQ(ADDR1, text) {
		TH_LOG("listen() without bind() is on %s", text);
	}
	close(s);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, ADDR2, &sin.sin_addr);
	ASSERT_EQ(1, sendto(s, "x", 1, 0, (void *)&sin, sizeof(sin)));
	ASSERT_EQ(0, getsockname(s, (void *)&sin, &len));
	inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text));
	EXPECT_STREQ(ADDR1, text);
	close(s);
}

/* While a policy replaces another, no socket gets an address that is in neither. */
TEST_F(confine, replace_without_gap)
{
	static char * const addrs[] = { ADDR1, ADDR2 };
	unsigned long *seen, i;
	const char *got;
	struct tool t;
	pid_t pid;

	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, seen);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			got = bound_to("0.0.0.0", 0, NULL);
			i = !strcmp(got, ADDR1) ? 0 : !strcmp(got, ADDR2) ? 1 : 2;
			__atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
		}
	}
	for (i = 0; i < 20; i++) {
		unsigned long before;

		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", addrs[(i + 1) % 2])));
		tool_free(&t);
		before = __atomic_load_n(&seen[(i + 1) % 2], __ATOMIC_RELAXED);
		/* It is in force when the tool exits. */
		EXPECT_STREQ(addrs[(i + 1) % 2], bound_to("0.0.0.0", 0, NULL));
		while (__atomic_load_n(&seen[(i + 1) % 2], __ATOMIC_RELAXED) == before &&
		       !__atomic_load_n(&seen[2], __ATOMIC_RELAXED))
			sched_yield();
	}
	end_process(pid);
	TH_LOG("%lu and %lu sockets got the one and the other, %lu neither", seen[0], seen[1],
	       seen[2]);
	EXPECT_EQ(0, seen[2]);
}

TEST_F(confine, show_and_remove)
{
	struct tool t;

	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	tool_free(&t);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", "2001:db8::1",
					"--map", "localhost:5=[2001:db8::2]:6")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show")));
	EXPECT_NE(NULL, strstr(t.out, "/sys/fs/cgroup/" CGROUP));
	EXPECT_NE(NULL, strstr(t.out, "ip " ADDR1));
	EXPECT_NE(NULL, strstr(t.out, "ip 2001:db8::1"));
	EXPECT_NE(NULL, strstr(t.out, "map localhost:5=[2001:db8::2]:6"));
	EXPECT_EQ(!has_autobind(), !!strstr(t.out, "no-autobind"));
	EXPECT_EQ(NULL, strchr(t.out, '\033'));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
	tool_free(&t);
	EXPECT_STREQ("0.0.0.0", bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "there/is/none", "--ip", ADDR1)));
	tool_free(&t);
	/* A directory, not a cgroup. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "/tmp", "--ip", ADDR1)));
	tool_free(&t);
}

/* A removed cgroup leaves its pins: they can be shown and removed by ID. */
TEST_F(confine, cgroup_is_gone)
{
	struct tool t;
	struct stat st;
	char id[32];

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/bpfprov_cli_gone", 0755));
	ASSERT_EQ(0, stat("/sys/fs/cgroup/bpfprov_cli_gone", &st));
	snprintf(id, sizeof(id), "%llu", (unsigned long long)st.st_ino);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "bpfprov_cli_gone", "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_EQ(0, rmdir("/sys/fs/cgroup/bpfprov_cli_gone"));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", id, "--show")));
	EXPECT_NE(NULL, strstr(t.out, ADDR1));
	EXPECT_NE(NULL, strstr(t.out, "the cgroup is gone"));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", id, "--ip", ADDR2)));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", id, "--remove")));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", id, "--show")));
	tool_free(&t);
}

/* Send a byte to @to from @s, and have @server answer it. Returns the answer's source. */
static const char *answer_from(int s, const struct sockaddr_in *to, int server)
{
	static char text[INET6_ADDRSTRLEN + 8];
	struct sockaddr_in6 from6 = { .sin6_family = AF_INET6 }, mapped = from6;
	struct sockaddr_in from;
	struct sockaddr *where = (void *)to;
	socklen_t len = sizeof(from), to_len = sizeof(*to), family_len = sizeof(int);
	struct pollfd p = { .fd = s, .events = POLLIN };
	char ip[INET6_ADDRSTRLEN], c;
	int family = 0;

	getsockopt(s, SOL_SOCKET, SO_DOMAIN, &family, &family_len);
	if (family == AF_INET6) {
		mapped.sin6_port = to->sin_port;
		mapped.sin6_addr.s6_addr32[2] = htonl(0xffff);
		mapped.sin6_addr.s6_addr32[3] = to->sin_addr.s_addr;
		where = (void *)&mapped;
		to_len = sizeof(mapped);
	}
	if (sendto(s, "x", 1, 0, where, to_len) != 1)
		return strerror(errno);
	p.fd = server;
	if (poll(&p, 1, 20000 * timeout_scale()) != 1 ||
	    recvfrom(server, &c, 1, 0, (void *)&from, &len) != 1 ||
	    sendto(server, "y", 1, 0, (void *)&from, len) != 1)
		return "not received";
	p.fd = s;
	len = sizeof(from6);
	if (poll(&p, 1, 20000 * timeout_scale()) != 1 ||
	    recvfrom(s, &c, 1, 0, (void *)&from6, &len) != 1)
		return "not answered";
	if (family == AF_INET6) {
		inet_ntop(AF_INET6, &from6.sin6_addr, ip, sizeof(ip));
		snprintf(text, sizeof(text), "%s:%d", ip, ntohs(from6.sin6_port));
	} else {
		inet_ntop(AF_INET, &((struct sockaddr_in *)&from6)->sin_addr, ip, sizeof(ip));
		snprintf(text, sizeof(text), "%s:%d", ip,
			 ntohs(((struct sockaddr_in *)&from6)->sin_port));
	}
	return text;
}

/* A datagram to localhost is answered from localhost, as resolvers require. */
TEST_F(confine, answers)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(5300) }, to = sin;
	struct tool t;
	int server, s, s6;

	/* The server belongs to the root cgroup. */
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/" CGROUP "/cgroup.procs", "0"));
	inet_pton(AF_INET, ADDR2, &sin.sin_addr);
	ASSERT_EQ(0, bind(server, (void *)&sin, sizeof(sin)));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", "::1",
					"--map", "localhost:53=" ADDR2 ":5300",
					"--map", "localhost:54=" ADDR2 ":5300")));
	tool_free(&t);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_LE(0, s6);
	inet_pton(AF_INET, "127.0.0.53", &to.sin_addr);
	to.sin_port = htons(53);
	EXPECT_STREQ("127.0.0.53:53", answer_from(s, &to, server));
	to.sin_port = htons(54);
	EXPECT_STREQ("127.0.0.53:54", answer_from(s, &to, server));
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	EXPECT_STREQ("127.0.0.1:54", answer_from(s, &to, server));
	/* The real address is not translated. */
	EXPECT_STREQ(ADDR2 ":5300", answer_from(s, &sin, server));
	if (has_autobind()) {
		EXPECT_STREQ("::ffff:127.0.0.1:54", answer_from(s6, &to, server));
		EXPECT_STREQ("::ffff:" ADDR2 ":5300", answer_from(s6, &sin, server));
	}
	close(s6);
	close(s);
	close(server);
}

/* Exempt localhost: both source and destination, for systemd-resolved. */
TEST_F(confine, allow_localhost)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(53) }, to = sin, from;
	char text[INET_ADDRSTRLEN], c;
	socklen_t len = sizeof(from);
	struct tool t;
	int server, s;

	server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, "127.0.0.53", &sin.sin_addr);
	ASSERT_EQ(0, bind(server, (void *)&sin, sizeof(sin)));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1,
					"--allow-localhost", "127.0.0.53:53")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_NE(NULL, strstr(t.out, "allow-localhost 127.0.0.53:53"));
	tool_free(&t);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(s, (void *)&sin, sizeof(sin))) TH_LOG("%s", strerror(errno));
	ASSERT_EQ(1, send(s, "x", 1, 0));
	ASSERT_EQ(1, recvfrom(server, &c, 1, 0, (void *)&from, &len));
	EXPECT_STREQ("127.0.0.1", inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text)));
	ASSERT_EQ(0, getpeername(s, (void *)&from, &len));
	EXPECT_STREQ("127.0.0.53", inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text)));
	/* Other ports and localhost addresses become the cgroup's. */
	to.sin_port = htons(54);
	inet_pton(AF_INET, "127.0.0.53", &to.sin_addr);
	close(s);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(s, (void *)&to, sizeof(to)));
	ASSERT_EQ(0, getsockname(s, (void *)&from, &len));
	EXPECT_STREQ(ADDR1, inet_ntop(AF_INET, &from.sin_addr, text, sizeof(text)));
	close(s);
	/* No socket is bound to it. */
	EXPECT_STREQ(ADDR1, bound_to("127.0.0.53", 53, NULL));
	EXPECT_STREQ(ADDR1, bound_to("127.0.0.1", 0, NULL));
	close(server);
}

static const struct sockaddr unspec = { .sa_family = AF_UNSPEC };

static int udp_on(const char *addr, int port)
{
	return bound_socket(SOCK_DGRAM, addr, port);
}

/* Send a byte from @s to @addr; NULL: to its peer. Returns the source that @server sees. */
static const char *source_at(int server, int s, const char *addr, int port)
{
	static char text[INET6_ADDRSTRLEN];
	struct pollfd p = { .fd = server, .events = POLLIN };
	union addr to, from;
	socklen_t len = addr ? make_addr(&to, addr, port) : 0;
	const void *ip;
	char c;

	if (sendto(s, "x", 1, 0, addr ? &to.sa : NULL, len) != 1)
		return strerror(errno);
	len = sizeof(from);
	if (poll(&p, 1, 20000 * timeout_scale()) != 1 ||
	    recvfrom(server, &c, 1, 0, &from.sa, &len) != 1)
		return "not received";
	ip = from.sa.sa_family == AF_INET ? (void *)&from.in.sin_addr : &from.in6.sin6_addr;
	return inet_ntop(from.sa.sa_family, ip, text, sizeof(text));
}

/*
 * A socket that is connected to exempt localhost, and has that source, sends elsewhere: only
 * exempt destinations see it.
 */
TEST_F(confine, allow_localhost_sendto)
{
	static const struct {
		/* The destination, and its IPv4 address if it is v4-mapped. */
		const char *exempt, *server;
		const char *remote, *remote_ip;
		const char *source, *own;
	} cases[] = {
		{ "127.0.0.53", "127.0.0.53", ADDR2, ADDR2, "127.0.0.1", ADDR1 },
		{ "::ffff:127.0.0.53", "127.0.0.53", "::ffff:" ADDR2, ADDR2, "127.0.0.1", ADDR1 },
		{ "::1", "::1", ADDR2_6, ADDR2_6, "::1", ADDR1_6 },
	};
	int server, remote, own, s, early;
	socklen_t len;
	struct tool t;
	union addr a;
	size_t i;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		TH_LOG("%s", cases[i].exempt);
		server = udp_on(cases[i].server, 53);
		ASSERT_LE(0, server);
		remote = udp_on(cases[i].remote_ip, 53);
		ASSERT_LE(0, remote);
		early = udp_on("127.0.0.2", 0);
		ASSERT_LE(0, early);
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", ADDR1_6,
						"--allow-localhost", "127.0.0.53:53",
						"--allow-localhost", "[::1]:53")));
		tool_free(&t);
		own = udp_on(cases[i].own, 54);
		ASSERT_LE(0, own);

		len = make_addr(&a, cases[i].exempt, 53);
		s = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_LE(0, s);
		ASSERT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
		EXPECT_STREQ(cases[i].source, source_at(server, s, NULL, 0));
		EXPECT_STREQ(cases[i].source, source_at(server, s, cases[i].exempt, 53));
		/* Any other port of localhost is that of the cgroup's address. */
		EXPECT_STREQ(cases[i].own, source_at(own, s, cases[i].exempt, 54));
		EXPECT_STREQ(cases[i].own, source_at(remote, s, cases[i].remote, 53));
		/* Control: it still has this source. */
		EXPECT_STREQ(cases[i].source, source_at(server, s, NULL, 0));
		/* This address is not from the policy. */
		EXPECT_STREQ(strerror(EPERM), source_at(remote, early, ADDR2, 53));
		/* Disconnected, it can be connected to any destination. */
		ASSERT_EQ(0, connect(s, &unspec, sizeof(unspec)));
		len = make_addr(&a, cases[i].remote, 53);
		EXPECT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
		EXPECT_STREQ(cases[i].own, source_at(remote, s, NULL, 0));
		close(s);
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
		close(early);
		close(own);
		close(remote);
		close(server);
	}
}

/* Exempt destinations, their address without a v4-mapped prefix, and the source. */
static const struct {
	const char *exempt, *server, *source;
} exempts[] = {
	{ "127.0.0.53", "127.0.0.53", "127.0.0.1" },
	{ "::ffff:127.0.0.53", "127.0.0.53", "127.0.0.1" },
	{ "::1", "::1", "::1" },
};

#define EXEMPT	"--ip", ADDR1, "--ip", ADDR1_6, "--allow-localhost", "127.0.0.53",	\
		"--allow-localhost", "::1"

/* A connection to exempt localhost failed, or ended: its source is not listened on. */
TEST_F(confine, allow_localhost_listen)
{
	int server, s, i, again;
	socklen_t len;
	struct tool t;
	union addr a;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	for (i = 0; i < (int)ARRAY_LEN(exempts); i++) {
		TH_LOG("%s", exempts[i].exempt);
		server = bound_socket(SOCK_STREAM, exempts[i].server, 54);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, listen(server, 8));
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, EXEMPT)));
		tool_free(&t);
		for (again = 0; again < 2; again++) {
			len = make_addr(&a, exempts[i].exempt, again ? 54 : 55);
			s = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
			/* Control: it connects, to a server or to a closed port. */
			if (again) {
				EXPECT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
				EXPECT_EQ(0, connect(s, &unspec, sizeof(unspec)));
			} else {
				EXPECT_EQ(-1, connect(s, &a.sa, len));
				EXPECT_EQ(ECONNREFUSED, errno);
			}
			EXPECT_EQ(-1, listen(s, 1)) TH_LOG("listens on %s", exempts[i].source);
			/* If it does not listen, it connects again. */
			len = make_addr(&a, exempts[i].exempt, 54);
			EXPECT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
			close(s);
		}
		/* Control: a socket that was not connected listens. */
		s = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(0, listen(s, 1)) TH_LOG("%s", strerror(errno));
		close(s);
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
		close(server);
	}
}

/* Does @s receive a byte that @from sends to it, before @other receives a later one? */
static bool receives(int s, int from, int other)
{
	struct pollfd p = { .fd = other, .events = POLLIN };
	union addr a;
	socklen_t len = sizeof(a);
	char c;

	if (getsockname(s, &a.sa, &len))
		return false;
	/* An AF_INET socket does not accept a v4-mapped address. */
	if (a.sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr))
		len = make_addr(&a, "127.0.0.1", ntohs(a.in6.sin6_port));
	if (sendto(from, "x", 1, 0, &a.sa, len) != 1)
		return false;
	len = sizeof(a);
	if (getsockname(other, &a.sa, &len) || sendto(from, "y", 1, 0, &a.sa, len) != 1 ||
	    poll(&p, 1, 20000 * timeout_scale()) != 1 || recv(other, &c, 1, 0) != 1)
		return false;
	return recv(s, &c, 1, MSG_DONTWAIT) == 1 && c == 'x';
}

/* UDP sockets around an exempt destination. */
struct exempt {
	int server;	/* at the destination, in another cgroup */
	int outside;	/* not bound, in another cgroup */
	int other;	/* at the source, from before the policy */
	int s;		/* confined, connected to the destination */
	union addr a;
	socklen_t len;
};

/* Confines the cgroup by @args. None of the first three sockets is restricted. */
static void exempt_start(struct __test_metadata *_metadata, struct exempt *e, size_t i,
			 char **args)
{
	struct tool t;

	TH_LOG("%s", exempts[i].exempt);
	e->len = make_addr(&e->a, exempts[i].exempt, 53);
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	e->server = udp_on(exempts[i].server, 53);
	ASSERT_LE(0, e->server);
	e->outside = socket(e->a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/" CGROUP "/cgroup.procs", "0"));
	e->other = udp_on(exempts[i].source, 0);
	ASSERT_LE(0, e->other);
	ASSERT_EQ(OK, tool_run(&t, args));
	tool_free(&t);
	e->s = socket(e->a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(e->s, &e->a.sa, e->len)) TH_LOG("%s", strerror(errno));
	EXPECT_STREQ(exempts[i].source, source_at(e->server, e->s, NULL, 0));
}

static void exempt_end(struct __test_metadata *_metadata, const struct exempt *e)
{
	struct tool t;

	close(e->s);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
	tool_free(&t);
	close(e->other);
	close(e->outside);
	close(e->server);
}

/* A socket that was connected to exempt localhost receives only from there. */
TEST_F(confine, allow_localhost_receive)
{
	struct exempt e;
	size_t i;

	/* The packets of a CPU are received in order. */
	ASSERT_EQ(0, pin_to_cpu(0));
	ASSERT_EQ(0, add_address6(ADDR1_6));
	for (i = 0; i < ARRAY_LEN(exempts); i++) {
		exempt_start(_metadata, &e, i, ARGS("confine", CGROUP, EXEMPT));
		/* Control: it receives from its peer. */
		EXPECT_TRUE(receives(e.s, e.server, e.other));
		EXPECT_FALSE(receives(e.s, e.outside, e.other));
		/* Disconnected, it has no port. Sending gives it one. */
		ASSERT_EQ(0, connect(e.s, &unspec, sizeof(unspec)));
		EXPECT_STRNE("not received", source_at(e.server, e.s, exempts[i].exempt, 53));
		EXPECT_FALSE(receives(e.s, e.outside, e.other))
			TH_LOG("receives at %s from any source", exempts[i].source);
		/* Control: a socket from before the policy does. */
		EXPECT_TRUE(receives(e.other, e.outside, e.server));
		/* Connected again, it works. */
		ASSERT_EQ(0, connect(e.s, &unspec, sizeof(unspec)));
		ASSERT_EQ(0, connect(e.s, &e.a.sa, e.len));
		EXPECT_STREQ(exempts[i].source, source_at(e.server, e.s, NULL, 0));
		EXPECT_TRUE(receives(e.s, e.server, e.other));
		exempt_end(_metadata, &e);
	}
}

/* The source for exempt localhost is the cgroup's own address: it can be a server there. */
TEST_F(confine, allow_localhost_own)
{
	char **own = ARGS("confine", CGROUP, "--ip", "127.0.0.1", "--ip", "::1",
			  "--allow-localhost", "127.0.0.53", "--allow-localhost", "::1");
	struct exempt e;
	size_t i;

	/* The packets of a CPU are received in order. */
	ASSERT_EQ(0, pin_to_cpu(0));
	for (i = 0; i < ARRAY_LEN(exempts); i++) {
		exempt_start(_metadata, &e, i, own);
		/* Disconnected, it has no port. Sending gives it one. */
		ASSERT_EQ(0, connect(e.s, &unspec, sizeof(unspec)));
		EXPECT_STREQ(exempts[i].source, source_at(e.server, e.s, exempts[i].exempt, 53));
		EXPECT_TRUE(receives(e.s, e.outside, e.other))
			TH_LOG("receives nothing at its own address %s", exempts[i].source);
		exempt_end(_metadata, &e);
	}
}

/* A cgroup and one below it must exempt the same: the hooks of both run. */
TEST_F(confine, allow_localhost_nested)
{
	static char *plain[] = { "confine", CGROUP, "--ip", ADDR1, NULL };
	static char *exempt[] = { "confine", CGROUP, "--ip", ADDR1, "--allow-localhost",
				  "127.0.0.53:53", NULL };
	struct tool t;

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" CGROUP "/child", 0755));
	ASSERT_EQ(OK, tool_run(&t, plain));
	tool_free(&t);
	exempt[1] = CGROUP "/child";
	EXPECT_EQ(FAILED, tool_run(&t, exempt));
	EXPECT_NE(NULL, strstr(t.errors, "above, has other options for localhost"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	/* Nothing was attached. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", CGROUP "/child", "--show")));
	tool_free(&t);
	exempt[1] = CGROUP;
	EXPECT_EQ(OK, tool_run(&t, exempt));
	tool_free(&t);
	exempt[1] = CGROUP "/child";
	EXPECT_EQ(OK, tool_run(&t, exempt)) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, plain));
	EXPECT_NE(NULL, strstr(t.errors, "below, has other options for localhost"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--remove")));
	tool_free(&t);
	rmdir("/sys/fs/cgroup/" CGROUP "/child");
}

/* The answer to ::1 comes from ::1, and the peer is ::1: without v4-mapped addresses. */
TEST_F(confine, answers6)
{
	struct pollfd p = { .events = POLLIN };
	int server, tcp, s, conn;
	union addr to, from;
	socklen_t to_len, len;
	struct tool t;
	char c;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	/* The servers belong to the root cgroup. */
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	server = udp_on(ADDR2_6, 5300);
	ASSERT_LE(0, server);
	tcp = bound_socket(SOCK_STREAM, ADDR2_6, 5300);
	ASSERT_LE(0, tcp);
	ASSERT_EQ(0, listen(tcp, 8));
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/" CGROUP "/cgroup.procs", "0"));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1_6,
					"--map", "localhost:53=[" ADDR2_6 "]:5300")));
	tool_free(&t);

	to_len = make_addr(&to, "::1", 53);
	s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(1, sendto(s, "x", 1, 0, &to.sa, to_len)) TH_LOG("%s", strerror(errno));
	len = sizeof(from);
	p.fd = server;
	ASSERT_EQ(1, poll(&p, 1, 20000 * timeout_scale()));
	ASSERT_EQ(1, recvfrom(server, &c, 1, 0, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, ADDR1_6));
	ASSERT_EQ(1, sendto(server, "y", 1, 0, &from.sa, len));
	len = sizeof(from);
	p.fd = s;
	ASSERT_EQ(1, poll(&p, 1, 20000 * timeout_scale()));
	ASSERT_EQ(1, recvfrom(s, &c, 1, 0, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, "::1"));
	EXPECT_EQ(53, ntohs(from.in6.sin6_port));
	close(s);

	conn = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(conn, &to.sa, to_len)) TH_LOG("%s", strerror(errno));
	len = sizeof(from);
	ASSERT_EQ(0, getpeername(conn, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, "::1"));
	EXPECT_EQ(53, ntohs(from.in6.sin6_port));
	len = sizeof(from);
	ASSERT_EQ(0, getsockname(conn, &from.sa, &len));
	EXPECT_TRUE(same_ip(&from, ADDR1_6));
	close(conn);
	close(tcp);
	close(server);
}

/* send() with a control message: it runs the hooks of sendmsg(), although there is a peer. */
static ssize_t send_with_control(int fd, int level, int type)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	return sendmsg(fd, &msg, 0);
}

/* The peer stays the one that the task connected to, whatever it sends. */
TEST_F(confine, answers_after_control)
{
	static const struct {
		const char *server, *to;
		int family, level, type;
	} cases[] = {
		{ ADDR2, "127.0.0.53", AF_INET, IPPROTO_IP, IP_TOS },
		{ ADDR2_6, "::1", AF_INET6, IPPROTO_IPV6, IPV6_TCLASS },
	};
	int server[ARRAY_LEN(cases)], s, i, j;
	struct pollfd p = { .events = POLLIN };
	union addr to, from;
	socklen_t len;
	struct tool t;
	char c;

	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	/* The servers belong to the root cgroup. */
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	for (i = 0; i < (int)ARRAY_LEN(cases); i++) {
		server[i] = udp_on(cases[i].server, 5300);
		ASSERT_LE(0, server[i]);
	}
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/" CGROUP "/cgroup.procs", "0"));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", ADDR1_6,
					"--map", "localhost:53=" ADDR2 ":5300",
					"--map", "localhost:53=[" ADDR2_6 "]:5300")));
	tool_free(&t);
	for (i = 0; i < (int)ARRAY_LEN(cases); i++) {
		s = socket(cases[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_LE(0, s);
		ASSERT_EQ(0, connect(s, &to.sa, make_addr(&to, cases[i].to, 53)));
		for (j = 0; j < 2; j++) {
			len = sizeof(from);
			ASSERT_EQ(0, getpeername(s, &from.sa, &len));
			EXPECT_TRUE(same_ip(&from, cases[i].to)) TH_LOG("%s", cases[i].to);
			ASSERT_EQ(1, send_with_control(s, cases[i].level, cases[i].type));
			len = sizeof(from);
			p.fd = server[i];
			ASSERT_EQ(1, poll(&p, 1, 20000 * timeout_scale()));
			ASSERT_EQ(1, recvfrom(server[i], &c, 1, 0, &from.sa, &len));
			ASSERT_EQ(1, sendto(server[i], "y", 1, 0, &from.sa, len));
			len = sizeof(from);
			p.fd = s;
			ASSERT_EQ(1, poll(&p, 1, 20000 * timeout_scale()));
			ASSERT_EQ(1, recvfrom(s, &c, 1, 0, &from.sa, &len));
			EXPECT_TRUE(same_ip(&from, cases[i].to)) TH_LOG("from %s", cases[i].to);
		}
		close(s);
		close(server[i]);
	}
}

#ifndef IPPROTO_L2TP
#define IPPROTO_L2TP 115
#endif

/*
 * Protocols that no hook confines are refused: L2TP over IP, which needs no capability, and
 * without BPF_F_ALL_PROTOCOLS also SCTP, raw and ping sockets.
 */
TEST_F(confine, other_protocols)
{
	enum { ALWAYS, WITH_FLAG, NEVER };
	static const struct {
		int type, protocol, allowed;
	} cases[] = {
		{ SOCK_STREAM, IPPROTO_TCP, ALWAYS }, { SOCK_DGRAM, IPPROTO_UDP, ALWAYS },
		{ SOCK_STREAM, IPPROTO_MPTCP, ALWAYS },
		{ SOCK_STREAM, IPPROTO_SCTP, WITH_FLAG },
		{ SOCK_SEQPACKET, IPPROTO_SCTP, WITH_FLAG },
		{ SOCK_RAW, IPPROTO_ICMP, WITH_FLAG }, { SOCK_RAW, IPPROTO_RAW, WITH_FLAG },
		{ SOCK_DGRAM, IPPROTO_ICMP, WITH_FLAG }, { SOCK_DGRAM, IPPROTO_ICMPV6, WITH_FLAG },
		{ SOCK_DGRAM, IPPROTO_L2TP, NEVER },
	};
	static const int families[] = { AF_INET, AF_INET6 };
	bool flag = has_all_protocols(), there[ARRAY_LEN(cases)][2], allowed;
	struct tool t;
	int i, j, fd;

	/* Of this network namespace. */
	ASSERT_EQ(0, write_value("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"));
	for (i = 0; i < (int)ARRAY_LEN(cases); i++) {
		for (j = 0; j < 2; j++) {
			fd = socket(families[j], cases[i].type, cases[i].protocol);
			there[i][j] = fd >= 0;
			close(fd);
		}
	}
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", ADDR1_6)));
	EXPECT_EQ(!flag, !!strstr(t.errors, "SCTP, raw and ping sockets are refused"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	for (i = 0; i < (int)ARRAY_LEN(cases); i++) {
		allowed = cases[i].allowed == ALWAYS || (cases[i].allowed == WITH_FLAG && flag);
		for (j = 0; j < 2; j++) {
			if (!there[i][j])
				continue;
			fd = socket(families[j], cases[i].type, cases[i].protocol);
			EXPECT_EQ(allowed, fd >= 0)
				TH_LOG("family %d, type %d, protocol %d", families[j],
				       cases[i].type, cases[i].protocol);
			if (fd < 0)
				EXPECT_EQ(EPERM, errno);
			close(fd);
		}
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_NE(NULL, strstr(t.out, " create ")) TH_LOG("%s", t.out);
	tool_free(&t);
	if (!there[ARRAY_LEN(cases) - 1][0])
		TH_LOG("L2TP was left out: needs CONFIG_L2TP_IP");
}

#define PINS "/sys/fs/bpf/bpfprov"

/* The path of a pin of CGROUP. */
static const char *pin_path(int cgroup, const char *name)
{
	static char path[128];
	struct stat st = {};

	fstat(cgroup, &st);
	snprintf(path, sizeof(path), PINS "/%llu/%s", (unsigned long long)st.st_ino, name);
	return path;
}

/* A BPF file system can be writable for all: a task may make the directory first. */
TEST_F(confine, directory_of_others)
{
	char own[64];
	const char * const dirs[] = { PINS, own };
	struct stat st;
	struct tool t;
	int i;

	ASSERT_EQ(0, fstat(self->cgroup, &st));
	snprintf(own, sizeof(own), PINS "/%llu", (unsigned long long)st.st_ino);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, i % 2 ? chmod(dirs[i / 2], 0777) : chown(dirs[i / 2], 65534, 65534));
		EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
		EXPECT_NE(NULL, strstr(t.errors, ": other users can change it"))
			TH_LOG("%s: %s", dirs[i / 2], t.errors);
		EXPECT_NE(NULL, strstr(t.errors, dirs[i / 2]));
		tool_free(&t);
		if (!(i / 2)) {
			EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "--show")));
			EXPECT_STREQ("", t.out);
			tool_free(&t);
		}
		EXPECT_EQ(0, chown(dirs[i / 2], 0, 0));
		EXPECT_EQ(0, chmod(dirs[i / 2], 0700));
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	tool_free(&t);
}

/* The root cgroup has all processes: no name and no --self stands for it. */
TEST_F(confine, root_cgroup)
{
	static const char * const names[] = { "", "/", "/sys/fs/cgroup", CGROUP "/.." };
	struct tool t;
	int i;

	for (i = 0; i < (int)ARRAY_LEN(names); i++) {
		EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", (char *)names[i], "--ip", ADDR1)));
		EXPECT_NE(NULL, strstr(t.errors, "this is the root cgroup"))
			TH_LOG("'%s': %s", names[i], t.errors);
		tool_free(&t);
	}
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/cgroup.procs", "0"));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "--self", "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_STREQ("0.0.0.0", bound_to("0.0.0.0", 0, NULL));
	ASSERT_EQ(0, write_value("/sys/fs/cgroup/" CGROUP "/cgroup.procs", "0"));
	EXPECT_EQ(USAGE, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1,
					   "--map", "localhost:53=[" ADDR2_6 "]:53")));
	tool_free(&t);
}

/*
 * A dual-stack socket that is bound to any address gets the cgroup's address of each
 * family, if supported: a server on :: is reachable over IPv4, at that address.
 */
TEST_F(confine, dual_stack)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 }, six;
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t len = sizeof(any);
	struct tool t;
	int server, s;

	server = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_LE(0, server);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1, "--ip", "::1")));
	if (strstr(t.errors, "AF_INET6 sockets have one address")) {
		tool_free(&t);
		SKIP(return, "AF_INET6 sockets have one address on this kernel");
	}
	tool_free(&t);
	ASSERT_EQ(0, bind(server, (void *)&any, sizeof(any))) TH_LOG("%s", strerror(errno));
	ASSERT_EQ(0, listen(server, 8));
	ASSERT_EQ(0, getsockname(server, (void *)&any, &len));
	to.sin_port = any.sin6_port;
	inet_pton(AF_INET, ADDR1, &to.sin_addr);
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT_EQ(0, connect(s, (void *)&to, sizeof(to))) TH_LOG("%s", strerror(errno));
	close(s);
	six = any;
	inet_pton(AF_INET6, "::1", &six.sin6_addr);
	s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT_EQ(0, connect(s, (void *)&six, sizeof(six))) TH_LOG("%s", strerror(errno));
	close(s);
	close(server);
}

/* A detached hook is still pinned: it is reported, and attached again. */
TEST_F(confine, detached)
{
	char pin[128];
	struct stat st;
	struct tool t;
	int link;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	tool_free(&t);
	ASSERT_EQ(0, fstat(self->cgroup, &st));
	snprintf(pin, sizeof(pin), "/sys/fs/bpf/bpfprov/%llu/bind4",
		 (unsigned long long)st.st_ino);
	link = bpf_obj_get(pin);
	ASSERT_LE(0, link);
	ASSERT_EQ(0, bpf_link_detach(link));
	close(link);
	ASSERT_STREQ("EPERM", bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_EQ(NULL, strstr(t.out, "is gone"));
	EXPECT_NE(NULL, strstr(t.out, "no-bind4"));
	EXPECT_EQ(NULL, strstr(t.out, "no-bind6"));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "--show")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_EQ(NULL, strstr(t.out, "no-bind4"));
	tool_free(&t);
}

/* The BTF of the kernel cannot be read: the hook at autobind is neither left out nor forgotten. */
TEST_F(confine, without_btf)
{
	struct tool t;
	int link, rc;

	if (!has_autobind())
		SKIP(return, "no BPF_CGROUP_INET_AUTOBIND");
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL));
	rc = tool_run(&t, ARGS("features"));
	tool_free(&t);
	if (rc != KERNEL)
		SKIP(return, "libbpf finds BTF in a file of the kernel");
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1))) TH_LOG("%s", t.errors);
	tool_free(&t);
	link = bpf_obj_get(pin_path(self->cgroup, "autobind"));
	ASSERT_LE(0, link) TH_LOG("it is not attached");
	EXPECT_EQ(0, bpf_link_detach(link));
	close(link);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_NE(NULL, strstr(t.out, "no-autobind")) TH_LOG("%s", t.out);
	tool_free(&t);
}

/*
 * In a new cgroup UNIT, run the tool with arguments @first, unless NULL, then bind to any
 * address. Returns the resulting address, or an error.
 */
static const char *bound_in_unit(struct tool *t, char **first, int *rc)
{
	const char *got;
	int cgroup;

	cgroup = cgroup_enter(UNIT);
	if (cgroup < 0)
		return "no cgroup";
	*rc = first ? tool_run(t, first) : OK;
	got = bound_to("0.0.0.0", 0, NULL);
	close(cgroup);
	return got;
}

static int count_files(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int n = 0;

	while (d && (e = readdir(d)))
		n += *e->d_name != '.';
	if (d)
		closedir(d);
	return n;
}

/*
 * Confines the cgroup until its policy is the only one. The kernel detaches the hooks of removed
 * cgroups some time later, and then their policies are removed.
 */
static bool becomes_the_only_one(char *cgroup)
{
	double end = now() + 20 * timeout_scale();
	struct tool t;
	int left;

	do {
		tool_run(&t, ARGS("confine", cgroup, "--ip", ADDR1));
		tool_free(&t);
		left = count_files("/sys/fs/bpf/bpfprov");
	} while (left != 1 && now() < end);
	return left == 1;
}

/* The cgroup is removed and recreated, as by systemd at every restart of a unit. */
TEST_F(confine, made_again)
{
	char **first = ARGS("confine", "--self", "--ip", ADDR1);
	struct tool t;
	int rc;

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" UNIT, 0755));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT, "--ip", ADDR1)));
	/* A message names a permanent alternative. */
	EXPECT_NE(NULL, strstr(t.errors, "ExecStartPre="));
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_in_unit(&t, NULL, &rc));
	cgroup_leave(UNIT);
	EXPECT_STREQ("0.0.0.0", bound_in_unit(&t, NULL, &rc));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", UNIT, "--show")));
	EXPECT_NE(NULL, strstr(t.errors, "ExecStartPre="));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "--show")));
	EXPECT_NE(NULL, strstr(t.out, UNIT));
	EXPECT_NE(NULL, strstr(t.out, "not confined"));
	tool_free(&t);
	cgroup_leave(UNIT);

	/* This confines it before its first process binds. */
	EXPECT_STREQ(ADDR1, bound_in_unit(&t, first, &rc));
	EXPECT_EQ(OK, rc) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "ExecStartPre="));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT, "--show")));
	tool_free(&t);
	/* The policy of the previous one is removed. */
	EXPECT_TRUE(becomes_the_only_one(UNIT));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT, "--remove")));
	tool_free(&t);
	cgroup_leave(UNIT);
}

/* Likewise, and a socket of the first cgroup remains, as in the descriptor store of systemd. */
TEST_F(confine, kept_socket)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	char text[INET_ADDRSTRLEN];
	int cgroup, fd, i;
	struct tool t;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" UNIT, 0755));
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT, "--ip", ADDR1)))
			TH_LOG("%s", t.errors);
		tool_free(&t);
		if (i)
			break;
		cgroup = cgroup_enter(UNIT);
		ASSERT_LE(0, cgroup);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		close(cgroup);
		cgroup_leave(UNIT);
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show")));
	EXPECT_NE(NULL, strstr(t.out, "for sockets of an earlier cgroup")) TH_LOG("%s", t.out);
	tool_free(&t);
	EXPECT_EQ(0, bind(fd, (void *)&a, sizeof(a)));
	EXPECT_EQ(0, getsockname(fd, (void *)&a, &len));
	EXPECT_STREQ(ADDR1, inet_ntop(AF_INET, &a.sin_addr, text, sizeof(text)));
	close(fd);
	EXPECT_TRUE(becomes_the_only_one(UNIT));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT, "--remove")));
	tool_free(&t);
	cgroup_leave(UNIT);
}

/*
 * The working directory can belong to another user, and have the name of a cgroup that leads to
 * another one. A name is below /sys/fs/cgroup, and a path begins with a dot or a slash.
 */
TEST_F(confine, name_in_directory)
{
	char dir[PATH_MAX - 64], exe[PATH_MAX], tool[PATH_MAX], link[PATH_MAX], id[32];
	struct stat st;
	struct tool t;
	int old;

	old = open(".", O_PATH | O_CLOEXEC);
	ASSERT_LE(0, old);
	ASSERT_NE(NULL, realpath(TOOL, exe));
	ASSERT_TRUE(!mkdir("/sys/fs/cgroup/" UNIT, 0755) || errno == EEXIST);
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(tool, sizeof(tool), "%s/%s", dir, TOOL);
	snprintf(link, sizeof(link), "%s/%s", dir, CGROUP);
	ASSERT_EQ(0, symlink(exe, tool));
	ASSERT_EQ(0, symlink("/sys/fs/cgroup/" UNIT, link));
	ASSERT_EQ(0, chdir(dir));

	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "/sys/fs/cgroup/" CGROUP, "--show")))
		TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.out, "ip " ADDR1));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "/sys/fs/cgroup/" UNIT, "--show")))
		TH_LOG("the link was followed: %s", t.out);
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));

	/* Nor a name or an ID for which there is no cgroup below /sys/fs/cgroup. */
	ASSERT_EQ(0, symlink("/sys/fs/cgroup/" UNIT, UNIT "none"));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", UNIT "none", "--ip", ADDR2)))
		TH_LOG("the link was followed");
	tool_free(&t);
	unlink(UNIT "none");
	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" UNIT "none", 0755));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT "none", "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_EQ(0, stat("/sys/fs/cgroup/" UNIT "none", &st));
	snprintf(id, sizeof(id), "%llu", (unsigned long long)st.st_ino);
	EXPECT_EQ(0, rmdir("/sys/fs/cgroup/" UNIT "none"));
	ASSERT_EQ(0, symlink("/sys/fs/cgroup/" CGROUP, id));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", id, "--remove"))) TH_LOG("%s", t.errors);
	tool_free(&t);
	unlink(id);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));

	/* Control: this is a path, which leads to the other cgroup. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "./" CGROUP, "--ip", ADDR2)))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "/sys/fs/cgroup/" UNIT, "--show")));
	EXPECT_NE(NULL, strstr(t.out, "ip " ADDR2));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_NE(NULL, strstr(t.out, "ip " ADDR1)) TH_LOG("%s", t.out);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
	tool_free(&t);
	EXPECT_STREQ("0.0.0.0", bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "/sys/fs/cgroup/" UNIT, "--remove")));
	tool_free(&t);
	rmdir("/sys/fs/cgroup/" UNIT);
	ASSERT_EQ(0, fchdir(old));
	close(old);
	unlink(link);
	unlink(tool);
	rmdir(dir);
}

/* A hook is not attached, and another cgroup was removed: the former is the exit status. */
TEST_F(confine, worst_status)
{
	/* In any order of their directories, one that was removed comes last. */
	static char * const names[] = { UNIT "1", CGROUP, UNIT "2" };
	char path[64];
	struct tool t;
	size_t i;
	int link;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", names[i]);
		ASSERT_TRUE(!mkdir(path, 0755) || errno == EEXIST);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", names[i], "--ip", ADDR1)));
		tool_free(&t);
	}
	EXPECT_EQ(0, rmdir("/sys/fs/cgroup/" UNIT "1"));
	EXPECT_EQ(0, rmdir("/sys/fs/cgroup/" UNIT "2"));
	/* Control. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "--show")));
	tool_free(&t);
	link = bpf_obj_get(pin_path(self->cgroup, "bind4"));
	ASSERT_LE(0, link);
	EXPECT_EQ(0, bpf_link_detach(link));
	close(link);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "--show"))) TH_LOG("%s", t.out);
	tool_free(&t);
	EXPECT_TRUE(becomes_the_only_one(CGROUP));
}

/* Cgroups with other paths each time are confined and removed: their policies are removed. */
TEST_F(confine, removed)
{
	static const char * const names[] = { UNIT "1", UNIT "2" };
	char path[64];
	struct tool t;
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", names[i]);
		ASSERT_EQ(0, mkdir(path, 0755));
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", (char *)names[i], "--ip", ADDR1)));
		tool_free(&t);
		EXPECT_EQ(0, rmdir(path));
	}
	EXPECT_TRUE(becomes_the_only_one(CGROUP));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show"))) TH_LOG("%s", t.errors);
	tool_free(&t);
}

/* Words of a policy: the version of its format, and the checksum of the hooks. */
enum { VERSION, CHECKSUM };

/* Changes a word of the policy, as if another version of the tool had made it. */
static void make_other_version(struct __test_metadata *_metadata, int cgroup, int word)
{
	__u32 zero = 0, id, value[1024], len;
	struct bpf_map_info info = {};
	int policies, policy;

	policies = bpf_obj_get(pin_path(cgroup, "policy"));
	ASSERT_EQ(0, bpf_map_lookup_elem(policies, &zero, &id));
	policy = bpf_map_get_fd_by_id(id);
	ASSERT_LE(0, policy);
	len = sizeof(info);
	ASSERT_EQ(0, bpf_map_get_info_by_fd(policy, &info, &len));
	ASSERT_GE(sizeof(value), info.value_size);
	ASSERT_EQ(0, bpf_map_lookup_elem(policy, &zero, value));
	value[word]++;
	ASSERT_EQ(0, bpf_map_update_elem(policy, &zero, value, BPF_ANY));
	close(policy);
	close(policies);
}

/* Run the tool, and kill it at the entry of its first bpf() with this command. */
static bool is_killed_at(int cmd, char **args)
{
	/* struct ptrace_syscall_info, which older glibc calls __ptrace_syscall_info */
	struct {
		__u8 op, pad[3];
		__u32 arch;
		__u64 ip, sp, nr, args[6];
	} info;
	bool killed = false;
	struct tool t;
	int status;

	traced = true;
	if (tool_start_to(&t, NULL, false, args))
		return false;
	traced = false;
	while (waitpid(t.pid, &status, 0) == t.pid && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GET_SYSCALL_INFO, t.pid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && info.nr == SYS_bpf &&
		    info.args[0] == (__u64)cmd) {
			killed = true;
			kill(t.pid, SIGKILL);
		} else {
			ptrace(PTRACE_SETOPTIONS, t.pid, NULL, PTRACE_O_TRACESYSGOOD);
			ptrace(PTRACE_SYSCALL, t.pid, NULL, NULL);
		}
	}
	fclose(t.err);
	close(t.out_fd);
	return killed;
}

/*
 * Another version has attached a hook, which does nothing: this one replaces it, also if it was
 * killed before it could.
 */
TEST_F(confine, other_version)
{
	struct bpf_insn insns[] = {
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_CGROUP_INET4_BIND);
	struct tool t;
	int fds[2], i;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	fds[0] = bpf_obj_get(pin_path(self->cgroup, "bind4"));
	ASSERT_LE(0, fds[0]);
	fds[1] = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "nothing", "GPL", insns,
			       ARRAY_LEN(insns), &opts);
	ASSERT_LE(0, fds[1]);
	ASSERT_EQ(0, bpf_link_update(fds[0], fds[1], NULL));
	/* post_bind4 refuses the address that bind4 has left. */
	ASSERT_STREQ("EPERM", bound_to("0.0.0.0", 0, NULL));
	make_other_version(_metadata, self->cgroup, CHECKSUM);
	EXPECT_TRUE(is_killed_at(BPF_LINK_UPDATE, ARGS("confine", CGROUP, "--ip", ADDR1)));
	EXPECT_STREQ("EPERM", bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1))) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	for (i = 0; i < 2; i++)
		close(fds[i]);
}

/* The ID of the program of the ingress hook. */
static __u32 ingress_program(int cgroup)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);
	int fd = bpf_obj_get(pin_path(cgroup, "ingress"));

	if (fd < 0 || bpf_link_get_info_by_fd(fd, &info, &len))
		info.prog_id = 0;
	close(fd);
	return info.prog_id;
}

/* A hook that only some policies need is replaced, too, if another version has attached it. */
TEST_F(confine, other_version_of_ingress)
{
	static char *with[] = { "confine", CGROUP, "--ip", ADDR1, "--allow-localhost",
				"127.0.0.53:53", NULL };
	struct tool t;
	__u32 id;

	ASSERT_EQ(OK, tool_run(&t, with));
	tool_free(&t);
	id = ingress_program(self->cgroup);
	ASSERT_NE(0, id);
	make_other_version(_metadata, self->cgroup, CHECKSUM);
	/* This policy does not need it, and the next one does. */
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_EQ(OK, tool_run(&t, with));
	tool_free(&t);
	EXPECT_NE(0, ingress_program(self->cgroup));
	EXPECT_NE(id, ingress_program(self->cgroup))
		TH_LOG("the hook of the other version is still attached");
}

/*
 * A policy with the format of another version cannot be read: not to show it, nor to compare it
 * with one above or below.
 */
TEST_F(confine, other_version_of_policy)
{
	static char *above[] = { "confine", CGROUP, "--ip", ADDR1, NULL };
	static char *below[] = { "confine", CGROUP "/child", "--ip", ADDR1, NULL };
	struct tool t;
	int child;

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" CGROUP "/child", 0755));
	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" UNIT "1", 0755));
	child = open("/sys/fs/cgroup/" CGROUP "/child", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, child);
	ASSERT_EQ(OK, tool_run(&t, below));
	tool_free(&t);
	make_other_version(_metadata, child, VERSION);
	EXPECT_EQ(FAILED, tool_run(&t, below));
	EXPECT_NE(NULL, strstr(t.errors, "by another version of this program: --remove first"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, above));
	EXPECT_NE(NULL, strstr(t.errors, CGROUP "/child, which is below, was confined by another"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "--show")));
	EXPECT_NE(NULL, strstr(t.errors, "cannot be read: another version of this program made it"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT "1", "--ip", ADDR2)));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--remove")));
	tool_free(&t);
	ASSERT_EQ(OK, tool_run(&t, above));
	tool_free(&t);
	make_other_version(_metadata, self->cgroup, VERSION);
	EXPECT_EQ(FAILED, tool_run(&t, below));
	EXPECT_NE(NULL, strstr(t.errors, CGROUP ", which is above, was confined by another"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	tool_run(&t, ARGS("confine", UNIT "1", "--remove"));
	tool_free(&t);
	close(child);
	rmdir("/sys/fs/cgroup/" UNIT "1");
	rmdir("/sys/fs/cgroup/" CGROUP "/child");
}

/* Nobody reads its messages any more: it is confined, and the exit code is that. */
TEST_F(confine, no_reader)
{
	struct tool t;

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", CGROUP, "--ip", ADDR1)));
	fclose(t.err);
	t.err = fopen("/dev/null", "re");
	EXPECT_EQ(OK, tool_end(&t));
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
}

/* The same policy again is not a replacement: the old address is kept. */
TEST_F(confine, same_twice)
{
	struct sockaddr_in sin = { .sin_family = AF_INET }, to = sin;
	struct tool t;
	int s, i;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, bind(s, (void *)&sin, sizeof(sin)));
	to.sin_port = htons(9);
	inet_pton(AF_INET, ADDR2, &to.sin_addr);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR2)));
		tool_free(&t);
		EXPECT_EQ(1, sendto(s, "x", 1, 0, (void *)&to, sizeof(to)))
			TH_LOG("applied %d times: %s", i + 1, strerror(errno));
	}
	close(s);
}

/* A number is a cgroup's name, if there is such a cgroup. */
TEST_F(confine, digits)
{
	struct stat st;
	char id[24], path[64], by_id[32];
	struct tool t;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_EQ(0, fstat(self->cgroup, &st));
	snprintf(id, sizeof(id), "%llu", (unsigned long long)st.st_ino);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", id);
	ASSERT_EQ(0, mkdir(path, 0755));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", id, "--show")));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", id, "--remove")));
	tool_free(&t);
	snprintf(by_id, sizeof(by_id), "id:%s", id);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", by_id, "--show")));
	EXPECT_NE(NULL, strstr(t.out, "/" CGROUP));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", id, "--ip", ADDR2)));
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", id, "--remove")));
	tool_free(&t);
	rmdir(path);
}

/* If a cgroup and its ancestor allowed different addresses, nothing could be bound. */
TEST_F(confine, nested)
{
	struct tool t;

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" CGROUP "/child", 0755));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP "/child", "--ip", ADDR2)));
	EXPECT_NE(NULL, strstr(t.errors, "above"));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP "/child", "--ip", ADDR1,
					    "--map", "localhost:81=" ADDR1 ":80")));
	EXPECT_NE(NULL, strstr(t.errors, "above, has other options for localhost"));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", CGROUP "/child", "--show")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR2)));
	EXPECT_NE(NULL, strstr(t.errors, "below"));
	tool_free(&t);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1,
					    "--map", "localhost:81=" ADDR1 ":80")));
	EXPECT_NE(NULL, strstr(t.errors, "below, has other options for localhost"));
	tool_free(&t);
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--remove")));
	tool_free(&t);
	rmdir("/sys/fs/cgroup/" CGROUP "/child");
}

/* Wait until @pid is in the system call @nr, for its file descriptor @fd, or -1: any. */
static bool waits_in(pid_t pid, long nr, int fd)
{
	double end = now() + 20 * timeout_scale();
	char path[32], want[32], text[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	if (fd >= 0)
		snprintf(want, sizeof(want), "%ld 0x%x ", nr, fd);
	else
		snprintf(want, sizeof(want), "%ld ", nr);
	while (now() < end) {
		*text = 0;
		f = fopen(path, "re");
		if (f && !fgets(text, sizeof(text), f))
			*text = 0;
		if (f)
			fclose(f);
		if (!strncmp(text, want, strlen(want)))
			return true;
		sched_yield();
	}
	return false;
}

/*
 * Two calls at the same time, for a cgroup and one below it, contradict each other. Both wait
 * for the lock of the policies.
 */
TEST_F(confine, nested_at_once)
{
	static char *above[] = { "confine", CGROUP, "--ip", ADDR1, NULL };
	static char *below[] = { "confine", CGROUP "/child", "--ip", ADDR2, NULL };
	struct tool a, b;
	int rc_a, rc_b, lock;

	ASSERT_EQ(0, mkdir("/sys/fs/cgroup/" CGROUP "/child", 0755));
	ASSERT_TRUE(!mkdir("/sys/fs/bpf/bpfprov", 0700) || errno == EEXIST);
	lock = open("/sys/fs/bpf/bpfprov", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, lock);
	ASSERT_EQ(0, flock(lock, LOCK_EX));
	ASSERT_EQ(0, tool_start_to(&a, NULL, false, above));
	ASSERT_EQ(0, tool_start_to(&b, NULL, false, below));
	EXPECT_TRUE(waits_in(a.pid, SYS_flock, -1));
	EXPECT_TRUE(waits_in(b.pid, SYS_flock, -1));
	close(lock);
	rc_a = tool_end(&a);
	rc_b = tool_end(&b);
	tool_free(&a);
	tool_free(&b);
	EXPECT_EQ(FAILED, rc_a ^ rc_b) TH_LOG("above: %d, below: %d", rc_a, rc_b);
	EXPECT_EQ(OK, rc_a & rc_b);
	tool_run(&a, ARGS("confine", CGROUP "/child", "--remove"));
	tool_free(&a);
	rmdir("/sys/fs/cgroup/" CGROUP "/child");
}

/* A pager does not read the policies: meanwhile, they can be changed. */
TEST_F(confine, slow_reader)
{
	static char *shows[][4] = {
		{ "confine", "--show" },
		{ "confine", CGROUP, "--show" },
	};
	char page[4096] = "", to[32];
	struct tool show, other;
	int fds[2], size;
	size_t i;

	ASSERT_EQ(OK, tool_run(&show, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&show);
	ASSERT_EQ(0, pipe2(fds, O_CLOEXEC | O_NONBLOCK));
	size = fcntl(fds[1], F_SETPIPE_SZ, sizeof(page));
	if (size != sizeof(page))
		SKIP(return, "needs pages of 4096 bytes");
	snprintf(to, sizeof(to), "/proc/self/fd/%d", fds[1]);
	for (i = 0; i < ARRAY_LEN(shows); i++) {
		ASSERT_EQ(size, write(fds[1], page, size));
		ASSERT_EQ(0, tool_start_to(&show, to, false, shows[i]));
		ASSERT_TRUE(waits_in(show.pid, SYS_write, STDOUT_FILENO));
		ASSERT_EQ(0, tool_start_to(&other, NULL, false,
					   ARGS("confine", CGROUP, "--ip", i ? ADDR1 : ADDR2)));
		EXPECT_TRUE(ends_within(&other, 10)) TH_LOG("a process that prints has the lock");
		/* Control: it has not ended because of another reason. */
		EXPECT_FALSE(has_ended(&show));
		while (!has_ended(&show))
			if (read(fds[0], page, size) < 0)
				sched_yield();
		EXPECT_EQ(OK, tool_end(&show));
		EXPECT_EQ(OK, tool_end(&other));
		tool_free(&other);
		while (read(fds[0], page, size) > 0)
			;
	}
	close(fds[0]);
	close(fds[1]);
}

/* Nor does an error wait for the reader of standard error, with the lock and without signals. */
TEST_F(confine, slow_reader_of_errors)
{
	struct tool t, show;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_TRUE(!mkdir("/sys/fs/cgroup/" CGROUP "/child", 0755) || errno == EEXIST);
	full_stderr = true;
	ASSERT_EQ(0, tool_start_to(&t, NULL, false,
				   ARGS("confine", CGROUP "/child", "--ip", ADDR2)));
	full_stderr = false;
	EXPECT_TRUE(waits_in(t.pid, SYS_write, STDERR_FILENO));
	ASSERT_EQ(0, tool_start_to(&show, NULL, false, ARGS("confine", "--show")));
	EXPECT_TRUE(ends_within(&show, 10)) TH_LOG("a process that reports an error has the lock");
	/* Control: it has not ended because of another reason. */
	EXPECT_FALSE(has_ended(&t));
	kill(t.pid, SIGTERM);
	EXPECT_TRUE(ends_within(&t, 10)) TH_LOG("it cannot be terminated");
	tool_end(&t);
	tool_free(&t);
	EXPECT_EQ(OK, tool_end(&show));
	tool_free(&show);
	rmdir("/sys/fs/cgroup/" CGROUP "/child");
}

static int listener(const char *addr, int port)
{
	int s = bound_socket(SOCK_STREAM, addr, port);

	if (s >= 0 && listen(s, 1)) {
		close(s);
		return -1;
	}
	return s;
}

static int enter(const char *procs)
{
	return write_value(procs, "0");
}

#define ROOT_PROCS	"/sys/fs/cgroup/cgroup.procs"
#define PROCS		"/sys/fs/cgroup/" CGROUP "/cgroup.procs"

/* Wait until the child @pid has written a byte to the pipe. Returns @pid, or -1: it has ended. */
static pid_t wait_for_byte(pid_t pid, const int fds[2])
{
	char c;

	close(fds[1]);
	if (read(fds[0], &c, 1) != 1) {
		end_process(pid);
		pid = -1;
	}
	close(fds[0]);
	return pid;
}

/*
 * A child process that listens on @port of any address, in a new network namespace, or in
 * the cgroup with the file @procs, and then leaves for the root cgroup.
 */
static pid_t spawn_listener(int port, const char *procs)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if ((procs ? enter(procs) : unshare(CLONE_NEWNET)) ||
		    listener("0.0.0.0", port) < 0 || (procs && enter(ROOT_PROCS)) ||
		    write(fds[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	return wait_for_byte(pid, fds);
}

/* Does a line of the list of sockets have @socket and @process? */
static bool is_listed(const char *text, const char *socket, const char *process)
{
	char line[1024], want[128];

	snprintf(want, sizeof(want), " %s ", socket);
	return find_line(text, want, process, line, sizeof(line));
}

/*
 * Sockets that had an address before the policy, or belong to another cgroup: listed with a
 * process of the cgroup that has them, or their inode.
 */
TEST_F(confine, other_addresses)
{
	struct {
		const char *socket;
		pid_t pid;	/* 0: none in the cgroup */
		bool missing;	/* from the list */
		int fd;
	} cases[] = {
		{ "tcp 0.0.0.0:8001", getpid(), false, listener("0.0.0.0", 8001) },
		{ "tcp [::]:8002", getpid(), false, listener("::", 8002) },
		{ "tcp " ADDR2 ":8003", getpid(), false, bound_socket(SOCK_STREAM, ADDR2, 8003) },
		{ "udp 127.0.0.1:8004", getpid(), false, udp_on("127.0.0.1", 8004) },
		{ "udp [::1]:8005", getpid(), false, udp_on("::1", 8005) },
		{ "tcp " ADDR1 ":8006", getpid(), true, listener(ADDR1, 8006) },
		{ "udp " ADDR1 ":8007", getpid(), true, udp_on(ADDR1, 8007) },
		{ "tcp 0.0.0.0:8008", getpid(), false, -1 },
		{ "tcp 0.0.0.0:8009", 0, true, -1 },
		{ "tcp 0.0.0.0:8010", 0, false, -1 },
		{ "tcp 0.0.0.0:8011", 0, false, -1 },
	};
	enum { PASSED_IN = 7, OUTSIDE, PASSED_OUT, ELSEWHERE };
	char who[64], socket_at[32];
	pid_t out, away, outside;
	int server, s, raw, sctp;
	socklen_t len;
	struct tool t;
	union addr a;
	size_t i;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	ASSERT_EQ(0, prctl(PR_SET_NAME, "x\033[2J"));
	for (i = 0; i < PASSED_IN && cases[i].fd >= 0; i++)
		;
	ASSERT_EQ(PASSED_IN, i) TH_LOG("%s", cases[i].socket);
	/* A raw socket can be without an address, at any time. */
	raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	ASSERT_LE(0, raw);
	/* Needs CONFIG_IP_SCTP. */
	sctp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
	ASSERT_TRUE(sctp < 0 || !listen(sctp, 1));
	server = udp_on("127.0.0.53", 53);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, enter(ROOT_PROCS));
	cases[PASSED_IN].fd = listener("0.0.0.0", 8008);
	ASSERT_LE(0, cases[PASSED_IN].fd);
	ASSERT_EQ(0, mkdir(CHILD, 0755));
	outside = spawn_listener(8009, ROOT_PROCS);
	ASSERT_LT(0, outside);
	/* The socket of a child cgroup, in a process that left it. */
	out = spawn_listener(8010, CHILD "/cgroup.procs");
	ASSERT_LT(0, out);
	ASSERT_EQ(0, enter(PROCS));
	away = spawn_listener(8011, NULL);
	ASSERT_LT(0, away);
	cases[ELSEWHERE].pid = away;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1,
					"--allow-localhost", "127.0.0.53:53")));
	EXPECT_EQ(NULL, strchr(t.errors, '\033'));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(who, sizeof(who), "x\\033[2J[%d]", cases[i].pid);
		if (!cases[i].pid)
			strcpy(who, "inode ");
		EXPECT_EQ(!cases[i].missing, is_listed(t.errors, cases[i].socket, who))
			TH_LOG("%s %s: %s", cases[i].socket, who, t.errors);
	}
	EXPECT_EQ(NULL, strstr(t.errors, "address: raw "));
	snprintf(socket_at, sizeof(socket_at), "sctp 0.0.0.0:%d", port_of(sctp));
	EXPECT_EQ(sctp >= 0, is_listed(t.errors, socket_at, "")) TH_LOG("%s", t.errors);
	tool_free(&t);
	/* The source of a socket that is connected to exempt localhost is allowed. */
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	len = make_addr(&a, "127.0.0.53", 53);
	ASSERT_EQ(0, connect(s, &a.sa, len));
	ASSERT_LT(0, port_of(s));
	snprintf(socket_at, sizeof(socket_at), "udp 127.0.0.1:%d", port_of(s));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		EXPECT_EQ(!cases[i].missing, is_listed(t.out, cases[i].socket, ""))
			TH_LOG("%s: %s", cases[i].socket, t.out);
	}
	EXPECT_FALSE(is_listed(t.out, socket_at, ""));
	tool_free(&t);
	for (i = 0; i <= PASSED_IN; i++)
		close(cases[i].fd);
	close(server);
	close(sctp);
	end_process(outside);
	end_process(out);
	end_process(away);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_EQ(NULL, strstr(t.out, "other-address")) TH_LOG("%s", t.out);
	tool_free(&t);
	close(raw);
	close(s);
	rmdir(CHILD);
}

/* A child process that has a network namespace of its own, and sends forged answers there. */
static pid_t spawn_forger(int port, const pid_t *receiver)
{
	struct {
		struct nlmsghdr h;
		int err;
	} done = { { .nlmsg_len = sizeof(done), .nlmsg_type = NLMSG_DONE } };
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	int fds[2], fd;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || udp_on("0.0.0.0", port) < 0)
			_exit(1);
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
		if (fd < 0 || write(fds[1], "", 1) != 1)
			_exit(1);
		for (;;) {
			/* The first netlink socket of a process has its PID as the address. */
			to.nl_pid = READ_ONCE(*receiver);
			if (to.nl_pid)
				sendto(fd, &done, sizeof(done), MSG_DONTWAIT, (void *)&to,
				       sizeof(to));
		}
	}
	return wait_for_byte(pid, fds);
}

/*
 * A task can send messages to the tool where its user namespace owns the network namespace. They do
 * not end the list of sockets.
 */
TEST_F(confine, forged_answers)
{
	pid_t pid, *receiver;
	char who[64];
	struct tool t;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	receiver = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, receiver);
	pid = spawn_forger(8012, receiver);
	if (pid < 0) {
		munmap(receiver, 4096);
		SKIP(return, "needs CONFIG_USER_NS");
	}
	snprintf(who, sizeof(who), "[%d]", pid);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", CGROUP, "--ip", ADDR1)));
	*receiver = t.pid;
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_TRUE(is_listed(t.errors, "udp 0.0.0.0:8012", who)) TH_LOG("%s", t.errors);
	tool_free(&t);
	end_process(pid);
	munmap(receiver, 4096);
}

/* A socket of the root cgroup, in this process in CGROUP. */
static int passed_in(int port)
{
	int s = -1;

	if (!enter(ROOT_PROCS))
		s = listener("0.0.0.0", port);
	return enter(PROCS) ? -1 : s;
}

struct unsharer {
	int flags;
	int port;	/* 0: do not listen */
	int err;
	pthread_barrier_t done;
};

static void *unshare_and_wait(void *arg)
{
	struct unsharer *u = arg;

	u->err = unshare(u->flags) || (u->port && listener("0.0.0.0", u->port) < 0) ? -errno : 0;
	pthread_barrier_wait(&u->done);
	for (;;)
		pause();
	return NULL;
}

static int start_unsharer(struct unsharer *u)
{
	pthread_t thread;
	int err;

	pthread_barrier_init(&u->done, NULL, 2);
	err = pthread_create(&thread, NULL, unshare_and_wait, u);
	if (err)
		return -err;
	pthread_barrier_wait(&u->done);
	return u->err;
}

static bool is_zombie(pid_t pid)
{
	char path[32], stat[128] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && !fgets(stat, sizeof(stat), f))
		*stat = 0;
	if (f)
		fclose(f);
	return strstr(stat, ") Z ");
}

/* A process with a socket that was passed in. Its first thread ends, another one waits. */
static pid_t spawn_headless(int port)
{
	static struct unsharer second;
	double end = now() + 20 * timeout_scale();
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (passed_in(port) < 0 || start_unsharer(&second))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	while (pid > 0 && !is_zombie(pid)) {
		if (now() > end) {
			end_process(pid);
			return -1;
		}
		sched_yield();
	}
	return pid;
}

/*
 * Threads with their own table of descriptors, or network namespace, and one that outlives the
 * first thread of its process: their sockets are listed, once.
 */
TEST_F(confine, threads)
{
	struct unsharer files = { .flags = CLONE_FILES };
	struct unsharer shared = {};
	struct unsharer netns = { .flags = CLONE_NEWNET, .port = 8013 };
	char self_pid[16], line[1024];
	pid_t headless;
	struct tool t;
	const char *p;
	int s;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	s = passed_in(8012);
	ASSERT_LE(0, s);
	ASSERT_EQ(0, start_unsharer(&files));
	close(s);
	ASSERT_EQ(0, start_unsharer(&shared));
	ASSERT_EQ(0, start_unsharer(&netns));
	headless = spawn_headless(8014);
	ASSERT_LT(0, headless);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	snprintf(self_pid, sizeof(self_pid), "[%d]", getpid());
	EXPECT_TRUE(is_listed(t.errors, "tcp 0.0.0.0:8012", self_pid)) TH_LOG("%s", t.errors);
	EXPECT_TRUE(is_listed(t.errors, "tcp 0.0.0.0:8013", self_pid)) TH_LOG("%s", t.errors);
	snprintf(self_pid, sizeof(self_pid), "[%d]", headless);
	EXPECT_TRUE(is_listed(t.errors, "tcp 0.0.0.0:8014", self_pid)) TH_LOG("%s", t.errors);
	p = find_line(t.errors, " 0.0.0.0:8014 ", "", line, sizeof(line));
	EXPECT_TRUE(!p || !find_line(p, " 0.0.0.0:8014 ", "", line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(t.errors, "could not be listed"));
	tool_free(&t);
	end_process(headless);
}

/* More than read() returns of cgroup.procs at once: a page of IDs. */
#define FORKS 1500

static int live_for_a_while(void *arg)
{
	poll(NULL, 0, 500);
	return 0;
}

/*
 * A process that forks as fast as it can, in a cgroup of its own. Each of its children lives for
 * 0.5 s, and has descriptors: it takes longer to read them than to fork.
 */
static pid_t spawn_forker(unsigned long *forks)
{
	static struct {
		char stack[4096] __aligned(16);
		int tid;
	} *child;
	pid_t pid = fork();
	int i, tid;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	child = calloc(FORKS, sizeof(*child));
	for (i = 0; i < 64; i++)
		dup(STDIN_FILENO);
	if (!child || enter(CHILD "/cgroup.procs"))
		_exit(1);
	for (i = 0; ; i = (i + 1) % FORKS) {
		while (READ_ONCE(child[i].tid))
			sched_yield();
		child[i].tid = -1;
		tid = clone(live_for_a_while, child[i].stack + sizeof(child[i].stack),
			    CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL, NULL,
			    &child[i].tid);
		if (tid < 0)
			_exit(1);
		WRITE_ONCE(*forks, *forks + 1);
	}
}

/* Tasks fork faster than processes can be searched for sockets: the list ends. */
TEST_F(confine, forking)
{
	unsigned long *forks;
	struct tool t;
	pid_t forker[2];
	double end;
	int i;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	forks = mmap(NULL, sizeof(*forks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ASSERT_NE(MAP_FAILED, forks);
	ASSERT_EQ(0, mkdir(CHILD, 0755));
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	for (i = 0; i < (int)ARRAY_LEN(forker); i++) {
		forker[i] = spawn_forker(forks);
		ASSERT_LT(0, forker[i]);
	}
	while (READ_ONCE(*forks) < 2 * FORKS && !waitpid(forker[0], NULL, WNOHANG))
		sched_yield();
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", CGROUP, "--show")));
	/* So that it is slower than they are, on any machine. */
	ASSERT_EQ(0, setpriority(PRIO_PROCESS, t.pid, 10));
	EXPECT_TRUE(ends_within(&t, 30))
		kill(t.pid, SIGKILL);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	tool_free(&t);
	for (i = 0; i < (int)ARRAY_LEN(forker); i++) {
		EXPECT_EQ(0, waitpid(forker[i], NULL, WNOHANG));
		end_process(forker[i]);
	}
	munmap(forks, sizeof(*forks));
	end = now() + 20 * timeout_scale();
	while (rmdir(CHILD) && errno == EBUSY && now() < end)
		sched_yield();
	EXPECT_NE(0, access(CHILD, F_OK));
}

/* Move to the cgroup that is @levels below CGROUP, in directories with long names. */
static int enter_deep(int levels, const char *name)
{
	int i, err = chdir("/sys/fs/cgroup/" CGROUP);

	for (i = 0; i < levels && !err; i++) {
		err = mkdir(name, 0755) && errno != EEXIST;
		err = err || chdir(name);
	}
	return err ? -errno : enter("cgroup.procs");
}

/* Remove these cgroups, some of which may be missing. Changes the directory. */
static void remove_deep(const char *name)
{
	double end = now() + 20 * timeout_scale();

	if (chdir("/sys/fs/cgroup/" CGROUP))
		return;
	while (!chdir(name))
		;
	/* A process that has ended may be there for a while. */
	while (!chdir("..") && (!rmdir(name) || errno == EBUSY) && now() < end) {
		if (!access(name, F_OK) && chdir(name))
			break;
	}
}

/* Cgroups with paths that are longer than the array in the policy, or than open() takes. */
TEST_F(confine, deep)
{
	static const struct {
		int levels, port;
	} cases[] = { { 4, 8015 }, { 24, 8016 } };
	char name[201] = "", who[16], socket_at[32];
	int fds[2], s, dir;
	struct tool t;
	pid_t pid;
	size_t i;
	char c;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	memset(name, 'd', sizeof(name) - 1);
	dir = open(".", O_PATH | O_CLOEXEC);
	ASSERT_LE(0, dir);
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		s = passed_in(cases[i].port);
		ASSERT_LE(0, s);
		ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (enter_deep(cases[i].levels, name) || write(fds[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		close(s);
		close(fds[1]);
		EXPECT_EQ(1, read(fds[0], &c, 1));
		close(fds[0]);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
		snprintf(who, sizeof(who), "[%d]", pid);
		snprintf(socket_at, sizeof(socket_at), "tcp 0.0.0.0:%d", cases[i].port);
		EXPECT_TRUE(is_listed(t.errors, socket_at, who)) TH_LOG("%s", t.errors);
		EXPECT_EQ(NULL, strstr(t.errors, "may be missing")) TH_LOG("%s", t.errors);
		tool_free(&t);
		end_process(pid);
		remove_deep(name);
		ASSERT_EQ(0, fchdir(dir));
	}
	close(dir);
}

/*
 * More network namespaces than the tool can have open files. With even fewer files, a warning
 * reports that sockets are missing from the list.
 */
TEST_F(confine, few_files)
{
	enum { FILES = 64, PROCESSES = 70, LEFT = 2, PORT = 8100 };
	pid_t pids[PROCESSES];
	bool warned = false;
	char socket_at[32];
	int i, listed, rc;
	struct tool t;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	for (i = 0; i < PROCESSES; i++) {
		pids[i] = spawn_listener(PORT + i, NULL);
		ASSERT_LT(0, pids[i]);
	}
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	max_files = FILES;
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	for (i = 0; i < PROCESSES; i++) {
		snprintf(socket_at, sizeof(socket_at), "tcp 0.0.0.0:%d", PORT + i);
		EXPECT_TRUE(is_listed(t.out, socket_at, ""))
			TH_LOG("%s is missing: %s", socket_at, t.errors);
	}
	EXPECT_EQ(NULL, strstr(t.errors, "could not be listed")) TH_LOG("%s", t.errors);
	tool_free(&t);
	for (i = LEFT; i < PROCESSES; i++)
		end_process(pids[i]);
	for (max_files = 4; max_files < 32; max_files++) {
		rc = tool_run(&t, ARGS("confine", CGROUP, "--show"));
		for (i = listed = 0; i < LEFT; i++) {
			snprintf(socket_at, sizeof(socket_at), "tcp 0.0.0.0:%d", PORT + i);
			listed += is_listed(t.out, socket_at, "");
		}
		EXPECT_TRUE(rc || listed == LEFT || strstr(t.errors, "could not be listed") ||
			    strstr(t.errors, "may be missing"))
			TH_LOG("%d files: %s%s", (int)max_files, t.out, t.errors);
		warned |= !!strstr(t.errors, "could not be listed: the child process has ended");
		tool_free(&t);
	}
	max_files = 0;
	EXPECT_TRUE(warned);
	for (i = 0; i < LEFT; i++)
		end_process(pids[i]);
}

#define ELSEWHERE	"/sys/fs/cgroup/bpfprov_cli_elsewhere"

static void remove_cgroup(const char *path)
{
	double end = now() + 20 * timeout_scale();

	/* A process that has ended may be there for a while. */
	while (rmdir(path) && errno == EBUSY && now() < end)
		sched_yield();
}

/* In a cgroup namespace with ELSEWHERE as its root: show the policies, and confine a CGROUP. */
static void confine_elsewhere(struct __test_metadata *_metadata)
{
	struct tool t;
	int i;

	/* No ASSERT_EQ(): it would run the teardown in this child process. */
	if (enter(ELSEWHERE "/cgroup.procs") || unshare(CLONE_NEWNS | CLONE_NEWCGROUP) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    (mkdir(ELSEWHERE "/" CGROUP, 0755) && errno != EEXIST) ||
	    enter(ELSEWHERE "/" CGROUP "/cgroup.procs"))
		_exit(1);
	/* The mount is still that of the first namespace, where CGROUP is another cgroup. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "--self", "--ip", ADDR2)));
	EXPECT_NE(NULL, strstr(t.errors, "another root")) TH_LOG("%s", t.errors);
	tool_free(&t);
	if (enter(ELSEWHERE "/cgroup.procs") || umount2("/sys/fs/cgroup", MNT_DETACH) ||
	    mount("none", "/sys/fs/cgroup", "cgroup2", 0, NULL) ||
	    (mkdir("/sys/fs/cgroup/" CGROUP, 0755) && errno != EEXIST) ||
	    (mkdir(CHILD, 0755) && errno != EEXIST))
		_exit(1);
	/* The second time without CAP_DAC_READ_SEARCH: it cannot look for the ID. */
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_NET_ADMIN | 1ULL << CAP_SYS_ADMIN |
		    1ULL << CAP_DAC_OVERRIDE;
	for (i = 0; i < 2; i++) {
		if (tool_start_to(&t, NULL, i, ARGS("confine", "--show")))
			_exit(1);
		EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%d: %s%s", i, t.out, t.errors);
		EXPECT_NE(NULL, strstr(t.out, "in another namespace"));
		tool_free(&t);
	}
	/* It is not below the CGROUP of the first namespace. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--ip", ADDR2)))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP "/child", "--remove")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR2)));
	tool_free(&t);
}

/*
 * In another cgroup namespace, with the same BPF file system, another cgroup has the path of
 * CGROUP. Each is confined; neither is taken for one that was made again.
 */
TEST_F(confine, same_path_elsewhere)
{
	struct stat st = {};
	int status = -1;
	char by_id[32];
	struct tool t;
	pid_t pid;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_TRUE(!mkdir(ELSEWHERE, 0755) || errno == EEXIST);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		confine_elsewhere(_metadata);
		_exit(_metadata->exit_code);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);

	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show"))) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.out, "in another namespace"));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	EXPECT_EQ(0, stat(ELSEWHERE "/" CGROUP, &st));
	snprintf(by_id, sizeof(by_id), "id:%llu", (unsigned long long)st.st_ino);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", by_id, "--show"))) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", by_id, "--remove")));
	tool_free(&t);
	remove_cgroup(ELSEWHERE "/" CGROUP "/child");
	remove_cgroup(ELSEWHERE "/" CGROUP);
	remove_cgroup(ELSEWHERE);
}

/*
 * Run "confine CGROUP --show", which lists a socket. Returns the most memory that it had mapped, in
 * KiB, or -1.
 */
static long peak_of_show(struct tool *t)
{
	static char page[65536];
	int fds[2], size, rest = 0;
	long kib = -1;
	char *sockets;
	char to[32];

	if (tool_run(t, ARGS("confine", CGROUP, "--show")) == OK) {
		sockets = strstr(t->out, "  other-address ");
		rest = sockets ? sockets - t->out : 0;
	}
	tool_free(t);
	if (!rest || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -1;
	size = fcntl(fds[1], F_SETPIPE_SZ, 1);
	snprintf(to, sizeof(to), "/proc/self/fd/%d", fds[1]);
	/* The pipe is full after the policy: it waits when it prints the sockets. */
	if (size > rest && size <= (int)sizeof(page) &&
	    write(fds[1], page, size - rest) == size - rest &&
	    !tool_start_to(t, to, false, ARGS("confine", CGROUP, "--show"))) {
		if (waits_in(t->pid, SYS_write, STDOUT_FILENO))
			kib = proc_status(t->pid, "VmPeak");
		while (!has_ended(t))
			if (read(fds[0], page, size) < 0)
				sched_yield();
		tool_end(t);
		tool_free(t);
	}
	close(fds[0]);
	close(fds[1]);
	return kib;
}

enum { COPIES = 16384 };

/* Two sockets that were passed in, and COPIES descriptors of both in turn. */
static int copy_descriptors(int port, int s[2])
{
	const struct rlimit files = { COPIES + 256, COPIES + 256 };
	int i;

	if (setrlimit(RLIMIT_NOFILE, &files))
		return -1;
	for (i = 0; i < 2; i++) {
		s[i] = passed_in(port + i);
		if (s[i] < 0)
			return -1;
	}
	for (i = 0; i < COPIES; i++)
		if (fcntl(s[i % 2], F_DUPFD_CLOEXEC, 0) < 0)
			return -1;
	return 0;
}

static int wait_for_end(void *unused)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

static pid_t spawn_waiting(void)
{
	pid_t pid = fork();

	if (!pid)
		wait_for_end(NULL);
	return pid;
}

static bool is_listed_once(const char *text, int port)
{
	char want[32], line[1024];
	const char *p;

	snprintf(want, sizeof(want), " 0.0.0.0:%d ", port);
	p = find_line(text, want, "", line, sizeof(line));
	return p && !find_line(p, want, "", line, sizeof(line));
}

/* Many descriptors of a socket take no memory of the tool. */
TEST_F(confine, copied_descriptors)
{
	enum { PROCESSES = 8, MAY_DIFFER = 256 };
	int one = passed_in(8021);
	pid_t pids[PROCESSES];
	long before, after;
	struct tool t;
	int s[2], i;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	ASSERT_LE(0, one);
	before = peak_of_show(&t);
	ASSERT_LT(0, before);
	ASSERT_EQ(0, copy_descriptors(8017, s));
	for (i = 0; i < PROCESSES; i++) {
		pids[i] = spawn_waiting();
		ASSERT_LT(0, pids[i]);
	}
	after = peak_of_show(&t);
	ASSERT_LT(0, after);
	EXPECT_LE(after, before + MAY_DIFFER) TH_LOG("%ld KiB, with copies %ld", before, after);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	EXPECT_TRUE(is_listed_once(t.out, 8017)) TH_LOG("%s", t.out);
	EXPECT_TRUE(is_listed_once(t.out, 8018)) TH_LOG("%s", t.out);
	tool_free(&t);
	for (i = 0; i < PROCESSES; i++)
		end_process(pids[i]);
	close(one);
}

/* Stop a child of the tool, which is not one of this process, after the tool. */
static bool stop_reader(pid_t pid)
{
	double end = now() + 20 * timeout_scale();
	char path[32], line[512];
	bool stopped = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	kill(pid, SIGSTOP);
	while (!stopped && now() < end) {
		f = fopen(path, "re");
		stopped = f && fgets(line, sizeof(line), f) && strstr(line, ") T ");
		if (f)
			fclose(f);
	}
	return stopped;
}

/*
 * A table of descriptors that processes share is read once, also if processes with other
 * tables end meanwhile. The tool is stopped in the table of one of these, which is long.
 */
TEST_F(confine, shared_files)
{
	enum { SHARING = 8, ENDING = 32 };
	static char stack[16384] __aligned(16);
	pid_t sharing[SHARING], ending[ENDING], reader;
	int watches[SHARING + 1], watch, s[2], i, opens = 0;
	double end = now() + 20 * timeout_scale();
	char path[64];
	struct tool t;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILES, 0, 0))
		SKIP(return, "needs CONFIG_KCMP");
	watch = watch_opens("/");
	if (watch < 0)
		SKIP(return, "needs CONFIG_INOTIFY_USER");
	close(watch);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	for (i = 0; i < ENDING - 1; i++) {
		ending[i] = spawn_waiting();
		ASSERT_LT(0, ending[i]);
	}
	ASSERT_EQ(0, copy_descriptors(8019, s));
	ending[i] = spawn_waiting();
	ASSERT_LT(0, ending[i]);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", ending[i], ending[i]);
	watch = watch_opens(path);
	ASSERT_LE(0, watch);
	for (i = 0; i <= SHARING; i++) {
		pid_t pid = getpid();

		if (i < SHARING) {
			pid = clone(wait_for_end, stack + sizeof(stack), CLONE_FILES | SIGCHLD,
				    NULL);
			ASSERT_LT(0, pid);
			sharing[i] = pid;
		}
		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, pid);
		watches[i] = watch_opens(path);
		ASSERT_LE(0, watches[i]);
	}
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", CGROUP, "--show")));
	while (!count_opens(watch) && now() < end)
		sched_yield();
	EXPECT_GT(end, now());
	kill(t.pid, SIGSTOP);
	EXPECT_EQ(0, waitid(P_PID, t.pid, &(siginfo_t){}, WSTOPPED | WEXITED | WNOWAIT));
	reader = child_of(t.pid, false);
	ASSERT_LT(0, reader);
	EXPECT_TRUE(stop_reader(reader));
	for (i = 0; i < ENDING; i++)
		end_process(ending[i]);
	kill(t.pid, SIGCONT);
	kill(reader, SIGCONT);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	for (i = 0; i <= SHARING; i++) {
		opens += !!count_opens(watches[i]);
		close(watches[i]);
	}
	EXPECT_EQ(1, opens);
	EXPECT_TRUE(is_listed_once(t.out, 8019)) TH_LOG("%s", t.out);
	EXPECT_TRUE(is_listed_once(t.out, 8020)) TH_LOG("%s", t.out);
	tool_free(&t);
	for (i = 0; i < SHARING; i++)
		end_process(sharing[i]);
	close(watch);
}

/* A signal that comes after the first hook waits for the others. */
TEST_F(confine, terminated)
{
	char first[128], last[128];
	int i, partial = 0;
	struct tool t;

	strcpy(first, pin_path(self->cgroup, "create"));
	strcpy(last, pin_path(self->cgroup, "getpeername6"));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, tool_start_to(&t, NULL, false,
					   ARGS("confine", CGROUP, "--ip", ADDR1)));
		while (access(first, F_OK) && !has_ended(&t))
			;
		partial += !!access(last, F_OK);
		kill(t.pid, SIGTERM);
		tool_end(&t);
		EXPECT_EQ(0, access(last, F_OK)) TH_LOG("%s", t.errors);
		tool_free(&t);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")))
			TH_LOG("%s%s", t.out, t.errors);
		tool_free(&t);
		EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
		tool_free(&t);
	}
	/* Control: it does come before the last hook. */
	EXPECT_LT(0, partial);
}

/*
 * The last hook cannot be attached: those before it are detached at once, although another process
 * has one of them open.
 */
TEST_F(confine, attached_in_part)
{
	int prog, link, i, seen = 0;
	struct bpf_link_info info;
	char first[128];
	struct tool t;
	__u32 len;

	strcpy(first, pin_path(self->cgroup, "create"));
	prog = load_allow(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET6_GETPEERNAME, 0);
	ASSERT_LE(0, prog);
	/* Without BPF_F_ALLOW_MULTI. */
	ASSERT_EQ(0, bpf_prog_attach(prog, self->cgroup, BPF_CGROUP_INET6_GETPEERNAME, 0));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, tool_start_to(&t, NULL, false,
					   ARGS("confine", CGROUP, "--ip", ADDR1)));
		do
			link = bpf_obj_get(first);
		while (link < 0 && !has_ended(&t));
		EXPECT_EQ(CAP, tool_end(&t)) TH_LOG("%s", t.errors);
		EXPECT_NE(NULL, strstr(t.errors, "attaching getpeername6"));
		tool_free(&t);
		EXPECT_NE(0, access(pin_path(self->cgroup, ""), F_OK));
		if (link < 0)
			continue;
		seen++;
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		EXPECT_EQ(0, bpf_link_get_info_by_fd(link, &info, &len));
		EXPECT_EQ(0, info.cgroup.cgroup_id) TH_LOG("a hook is still attached");
		close(link);
	}
	EXPECT_LT(0, seen);
	EXPECT_EQ(0, bpf_prog_detach2(prog, self->cgroup, BPF_CGROUP_INET6_GETPEERNAME));
	close(prog);
}

/* A process that was killed has pinned the policy alone: the rest is pinned later. */
TEST_F(confine, killed)
{
	static char *args[] = { "confine", CGROUP, "--ip", ADDR1, "--allow-localhost",
				"127.0.0.53:53", NULL };
	struct dirent *e;
	struct tool t;
	DIR *d;

	ASSERT_EQ(OK, tool_run(&t, args));
	tool_free(&t);
	d = opendir(pin_path(self->cgroup, ""));
	ASSERT_NE(NULL, d);
	while ((e = readdir(d)))
		if (*e->d_name != '.' && strcmp(e->d_name, "policy"))
			EXPECT_EQ(0, unlinkat(dirfd(d), e->d_name, 0));
	closedir(d);
	EXPECT_EQ(OK, tool_run(&t, args)) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(0, access(pin_path(self->cgroup, "local"), F_OK));
	EXPECT_EQ(0, access(pin_path(self->cgroup, "reverse"), F_OK));
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
}

/*
 * Others can have made something in the directory, before it became that of the tool: a pin of
 * another kind, whose value is longer than an ID, a pin of their own, a symbolic link. None of them
 * is used, or followed when it is removed.
 */
TEST_F(confine, pins_of_others)
{
	char value[16384] = "", other[] = "/sys/fs/bpf/other", kept[64], dir[64], pin[64];
	char * const by_id[] = { "confine", "id:77", "--show", NULL };
	__u32 zero = 0;
	struct tool t;
	int map, i;

	memset(value, 'A', sizeof(value));
	snprintf(dir, sizeof(dir), PINS "/77");
	snprintf(pin, sizeof(pin), PINS "/77/policy");
	snprintf(kept, sizeof(kept), "%s/map", other);
	ASSERT_TRUE(!mkdir(PINS, 0700) || errno == EEXIST);
	ASSERT_EQ(0, mkdir(dir, 0700));
	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", sizeof(zero), sizeof(value), 1, NULL);
	ASSERT_LE(0, map);
	ASSERT_EQ(0, bpf_map_update_elem(map, &zero, value, BPF_ANY));
	ASSERT_EQ(0, bpf_obj_pin(map, pin));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(FAILED, tool_run(&t, i ? (char **)by_id : ARGS("confine", "--show")))
			TH_LOG("the value of another map was read");
		EXPECT_NE(NULL, strstr(t.errors, "another version of this program made it"))
			TH_LOG("%s", t.errors);
		tool_free(&t);
	}
	/* That is no reason to confine nothing. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1))) TH_LOG("%s", t.errors);
	tool_free(&t);

	/* A pin, then a directory of another user, and then a link to one. */
	for (i = 0; i < 3; i++) {
		if (i == 2) {
			EXPECT_EQ(0, mkdir(other, 0700));
			EXPECT_EQ(0, rename(pin, kept));
			EXPECT_EQ(0, rmdir(dir));
			EXPECT_EQ(0, symlink(other, dir));
		} else {
			EXPECT_EQ(0, chown(i ? dir : pin, 65534, 65534));
		}
		EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "--show")));
		EXPECT_NE(NULL, strstr(t.errors, ": remove "))
			TH_LOG("%d: %s", i, t.errors);
		EXPECT_NE(NULL, strstr(t.errors, PINS "/77: ")) TH_LOG("%d: %s", i, t.errors);
		EXPECT_NE(NULL, strstr(t.out, "ip " ADDR1)) TH_LOG("the others are not shown");
		tool_free(&t);
		EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
		tool_free(&t);
		EXPECT_EQ(FAILED, tool_run(&t, (char **)by_id));
		tool_free(&t);
		EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", "id:77", "--remove")));
		tool_free(&t);
		EXPECT_EQ(0, access(i == 2 ? kept : pin, F_OK))
			TH_LOG("%d: a pin of another user was removed", i);
	}
	close(map);
	unlink(kept);
	rmdir(other);
	unlink(dir);
}

/* A failed call leaves no directory, which would be shown as a policy that cannot be read. */
TEST_F(confine, no_directory_left)
{
	char * const args[] = { "confine", CGROUP, "--ip", ADDR1, NULL };
	struct tool t;
	mode_t mask;

	ASSERT_TRUE(!mkdir(PINS, 0700) || errno == EEXIST);
	ASSERT_EQ(0, chown(PINS, 65534, 65534));
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_NET_ADMIN | 1ULL << CAP_SYS_ADMIN;
	/* The tool may not search the directory that it makes. */
	mask = umask(0177);
	EXPECT_EQ(0, tool_start_to(&t, NULL, true, (char **)args));
	umask(mask);
	EXPECT_EQ(CAP, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, "Permission denied"));
	tool_free(&t);
	EXPECT_EQ(0, count_files(PINS)) TH_LOG("a directory is left");
	EXPECT_EQ(0, chown(PINS, 0, 0));
}

/*
 * A cgroup that cannot be looked up may exist, and be confined: the exit code is not that of one
 * that does not exist.
 */
TEST_F(confine, no_access_to_cgroup)
{
	char long_path[600], loop[] = "/tmp/bpfprov_cli.loop";
	struct tool t;
	size_t i;

	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = 0;
	for (i = 100; i < sizeof(long_path) - 1; i += 100)
		long_path[i] = '/';
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", long_path, "--show")));
	tool_free(&t);
	unlink(loop);
	ASSERT_EQ(0, symlink(loop, loop));
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("confine", loop, "--show")));
	EXPECT_NE(NULL, strstr(t.errors, strerror(ELOOP))) TH_LOG("%s", t.errors);
	tool_free(&t);
	unlink(loop);
	ASSERT_TRUE(!mkdir(CHILD, 0755) || errno == EEXIST);
	ASSERT_EQ(0, fchmod(self->cgroup, 0700));
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_NET_ADMIN | 1ULL << CAP_SYS_ADMIN;
	EXPECT_EQ(0, tool_start_to(&t, NULL, true, ARGS("confine", CGROUP "/child", "--show")));
	EXPECT_EQ(CAP, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, strerror(EACCES))) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(0, fchmod(self->cgroup, 0755));
	/* Control. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", CGROUP "/child", "--show")));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "/sys/fs/cgroup/" CGROUP "/cgroup.procs",
					  "--show")));
	tool_free(&t);
	rmdir(CHILD);
}

/* The capabilities that are documented, but no access to the pins. */
TEST_F(confine, no_access)
{
	static char *cases[][6] = {
		{ "confine", "--show" },
		{ "confine", CGROUP, "--show" },
		{ "confine", CGROUP, "--remove" },
		{ "confine", CGROUP, "--ip", ADDR1 },
	};
	struct tool t;
	size_t i;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_NET_ADMIN | 1ULL << CAP_SYS_ADMIN;
	for (i = 0; i < 2 * ARRAY_LEN(cases); i++) {
		/*
		 * First the directory of the tool, then the file system, whose mode need not be
		 * restored.
		 */
		EXPECT_EQ(0, chmod("/sys/fs/bpf", i < ARRAY_LEN(cases) ? 01777 : 0700));
		EXPECT_EQ(0, tool_start_to(&t, NULL, true, cases[i % ARRAY_LEN(cases)]));
		EXPECT_EQ(CAP, tool_end(&t)) TH_LOG("case %zu: %s", i, t.errors);
		EXPECT_NE(NULL, strstr(t.errors, "Permission denied"));
		EXPECT_STREQ("", t.out);
		tool_free(&t);
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--show")));
	tool_free(&t);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--remove")));
	tool_free(&t);
}

/* With too few open files, the policies are shown or there is an error, and they are kept. */
TEST_F(confine, too_few_files)
{
	bool autobind = has_autobind();
	struct tool t;
	int rc;

	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
	tool_free(&t);
	for (max_files = 4; max_files < 12; max_files++) {
		rc = tool_run(&t, ARGS("confine", "--show"));
		EXPECT_NE(NULL, rc ? strchr(t.errors, '\n') : strstr(t.out, CGROUP))
			TH_LOG("%d files: %d %s%s", (int)max_files, rc, t.out, t.errors);
		tool_free(&t);
		tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1));
		/* Too many open files do not mean that the kernel has no hook. */
		if (autobind)
			EXPECT_EQ(NULL, strstr(t.errors, "has no autobind"))
				TH_LOG("%d files: %s", (int)max_files, t.errors);
		tool_free(&t);
	}
	max_files = 0;
	EXPECT_STREQ(ADDR1, bound_to("0.0.0.0", 0, NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", "--show"))) TH_LOG("%s", t.errors);
	tool_free(&t);
}

/*
 * With too few open files, a policy is replaced as a whole or kept, and a new one is made as a
 * whole or not at all. That is hardest with one file less than are needed.
 */
TEST_F(confine, too_few_files_to_replace)
{
	int existing, too_few, enough, files;
	struct tool t;

	for (existing = 0; existing < 2; existing++) {
		too_few = 10;
		enough = 60;
		while (enough - too_few > 1) {
			if (existing) {
				ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR1)));
				tool_free(&t);
			}
			files = (too_few + enough) / 2;
			max_files = files;
			if (tool_run(&t, ARGS("confine", CGROUP, "--ip", ADDR2,
					      "--allow-localhost", "127.0.0.53:53")) == OK)
				enough = files;
			else
				too_few = files;
			max_files = 0;
			if (enough == files || existing) {
				EXPECT_STREQ(enough == files ? ADDR2 : ADDR1,
					     bound_to("0.0.0.0", 0, NULL))
					TH_LOG("%d files: %s", files, t.errors);
			} else {
				EXPECT_NE(0, access(pin_path(self->cgroup, ""), F_OK))
					TH_LOG("%d files: %s", files, t.errors);
			}
			tool_free(&t);
			tool_run(&t, ARGS("confine", CGROUP, "--remove"));
			tool_free(&t);
		}
		EXPECT_LT(10, too_few);
		EXPECT_GT(60, enough);
	}
}

/* A process chooses the names of cgroups below its own, and so a part of a long line. */
TEST_F(confine, long_path)
{
	/* Where the buffer of a path ends. */
	const int part = 512 - 16 - 1;
	char names[3][256] = { "", "", "" }, path[1024] = "/sys/fs/cgroup/" CGROUP;
	const char *line = path + strlen("/sys/fs/cgroup") - strlen("0::");
	int i, lens[3] = {};
	struct tool t;

	memset(names[0], 'a', 200);
	memset(names[1], 'b', 200);
	memset(names[2], 'c', part - strlen("0::/" CGROUP "/") - 200 - 1 - 200 - 1);
	strcat(names[2], "0::");
	for (i = 0; i < 3; i++) {
		lens[i] = strlen(path);
		strcat(strcat(path, "/"), names[i]);
		ASSERT_TRUE(!mkdir(path, 0755) || errno == EEXIST);
	}
	ASSERT_EQ(0, strcmp(line + part, "0::"));
	ASSERT_TRUE(!mkdir("/sys/fs/cgroup/bpfprov_other", 0755) || errno == EEXIST);
	i = strlen(path);
	strcat(path, "/bpfprov_other");
	ASSERT_TRUE(!mkdir(path, 0755) || errno == EEXIST);
	strcat(path, "/cgroup.procs");
	ASSERT_EQ(0, enter(path));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "--self", "--ip", ADDR1)))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	ASSERT_EQ(0, enter(PROCS));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("confine", "bpfprov_other", "--remove")))
		TH_LOG("another cgroup was confined");
	tool_free(&t);
	path[i + strlen("/bpfprov_other")] = 0;
	rmdir(path);
	path[i] = 0;
	for (i = 2; i >= 0; i--) {
		rmdir(path);
		path[lens[i]] = 0;
	}
	rmdir("/sys/fs/cgroup/bpfprov_other");
}

/* A connect() that waits in the kernel, after its hook and the choice of a port. */
struct half_connect {
	struct bpfprov_cli *skel;
	union addr to;
	socklen_t len;
	int s, ret;
};

static void *half_connect(void *arg)
{
	struct half_connect *h = arg;

	h->skel->bss->target = gettid();
	h->ret = connect(h->s, &h->to.sa, h->len) ? -errno : 0;
	return NULL;
}

/*
 * Between the hook of connect() and the connection, another thread connects the socket to exempt
 * localhost, also after it has connected it to the other family: the first connection is still
 * made from the cgroup's address.
 */
TEST_F(confine, allow_localhost_race)
{
	static const struct {
		int exempt;
		const char *remote, *between;
	} cases[] = {
		{ 0, ADDR2 },
		{ 1, "::ffff:" ADDR2 },
		{ 2, ADDR2_6 },
		{ 1, "::ffff:" ADDR2, ADDR2_6 },
		{ 2, ADDR2_6, "::ffff:" ADDR2 },
	};
	struct bpfprov_cli *skel = bpfprov_cli__open();
	struct half_connect h = { .skel = skel };
	pthread_t thread;
	struct exempt e;
	union addr a;
	socklen_t len;
	double end;
	int remote;
	size_t i;

	ASSERT_NE(NULL, skel);
	skel->data->wait_scale = timeout_scale();
	bpf_program__set_autoload(skel->progs.on_query, false);
	bpf_program__set_autoload(skel->progs.on_udp_connect, true);
	bpf_program__set_autoload(skel->progs.on_udpv6_connect, true);
	ASSERT_EQ(0, bpfprov_cli__load(skel));
	ASSERT_EQ(0, bpfprov_cli__attach(skel));
	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		remote = udp_on(cases[i].exempt == 2 ? ADDR2_6 : ADDR2, 53);
		ASSERT_LE(0, remote);
		exempt_start(_metadata, &e, cases[i].exempt, ARGS("confine", CGROUP, EXEMPT));
		skel->bss->waiting = false;
		skel->bss->filled = false;
		h.len = make_addr(&h.to, cases[i].remote, 53);
		h.s = socket(h.to.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_LE(0, h.s);
		ASSERT_EQ(0, pthread_create(&thread, NULL, half_connect, &h));
		for (end = now() + 10 * timeout_scale();
		     !READ_ONCE(skel->bss->waiting) && now() < end;)
			sched_yield();
		ASSERT_TRUE(skel->bss->waiting);
		EXPECT_EQ(0, connect(h.s, &unspec, sizeof(unspec)));
		if (cases[i].between) {
			len = make_addr(&a, cases[i].between, 53);
			EXPECT_EQ(0, connect(h.s, &a.sa, len)) TH_LOG("%s", strerror(errno));
			EXPECT_EQ(0, connect(h.s, &unspec, sizeof(unspec)));
		}
		EXPECT_EQ(0, connect(h.s, &e.a.sa, e.len)) TH_LOG("%s", strerror(errno));
		WRITE_ONCE(skel->bss->filled, true);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_TRUE(skel->bss->filled_first);
		EXPECT_EQ(0, h.ret);
		len = sizeof(a);
		ASSERT_EQ(0, getpeername(h.s, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, cases[i].remote));
		EXPECT_STREQ(cases[i].exempt == 2 ? ADDR1_6 : ADDR1,
			     source_at(remote, h.s, NULL, 0)) TH_LOG("case %zu", i);
		close(h.s);
		exempt_end(_metadata, &e);
		close(remote);
	}
	bpfprov_cli__destroy(skel);
}

/*
 * A socket with the cgroup's own address connects from there to exempt localhost, and one with
 * another address, from before the policy, does not connect. A ping socket has no port to compare:
 * it gets the cgroup's own address.
 */
TEST_F(confine, allow_localhost_bound)
{
	static const struct {
		const char *any, *own;
		int protocol;
	} families[] = {
		{ "0.0.0.0", ADDR1, IPPROTO_ICMP },
		{ "::", ADDR1_6, IPPROTO_ICMPV6 },
	};
	static const char * const exempt[] = { "127.0.0.53", "::1" };
	int early[2], s, i, one = 1;
	socklen_t len;
	struct tool t;
	union addr a;

	ASSERT_EQ(0, write_value("/proc/sys/net/ipv4/ping_group_range", "0 0"));
	ASSERT_EQ(0, add_address6(ADDR1_6));
	ASSERT_EQ(0, add_address6(ADDR2_6));
	early[0] = udp_on(ADDR2, 0);
	early[1] = udp_on(ADDR2_6, 0);
	ASSERT_LE(0, early[1]);
	ASSERT_EQ(OK, tool_run(&t, ARGS("confine", CGROUP, EXEMPT)));
	tool_free(&t);
	for (i = 0; i < 2; i++) {
		len = make_addr(&a, exempt[i], 53);
		EXPECT_EQ(-1, connect(early[i], &a.sa, len));
		EXPECT_EQ(EPERM, errno);
		close(early[i]);

		s = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ASSERT_EQ(0, setsockopt(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)));
		len = make_addr(&a, families[i].any, 0);
		ASSERT_EQ(0, bind(s, &a.sa, len));
		len = make_addr(&a, exempt[i], 53);
		EXPECT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(s, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, families[i].own));
		close(s);

		/* Other kernels have no hooks for ping sockets, which are refused. */
		s = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, families[i].protocol);
		EXPECT_EQ(has_autobind(), s >= 0);
		if (s < 0)
			continue;
		len = make_addr(&a, exempt[i], 53);
		EXPECT_EQ(0, connect(s, &a.sa, len)) TH_LOG("%s", strerror(errno));
		len = sizeof(a);
		ASSERT_EQ(0, getsockname(s, &a.sa, &len));
		EXPECT_TRUE(same_ip(&a, families[i].own))
			TH_LOG("a ping socket sends from localhost");
		close(s);
	}
}

/* With /proc of another PID namespace, sockets would be searched in other processes. */
TEST_F(confine, own_proc)
{
	refuses_foreign_proc(_metadata, ARGS("confine", "--show"));
}

/* A user with a delegated cgroup chooses the names of those below it. */
TEST_F(confine, control_characters)
{
	static struct {
		char *args[6];
		int rc;
		bool shown;	/* the name is part of the output */
	} cases[] = {
		{ { "confine", CGROUP "/\033[2Jx", "--ip", ADDR1 }, OK },
		{ { "confine", "--show" }, OK, true },
		{ { "confine", CGROUP, "--ip", ADDR2 }, FAILED, true },
		{ { "confine", CGROUP "/\033[2Jx", "--remove" }, OK },
		{ { "confine", CGROUP "/\033[2Jx", "--show" }, GONE, true },
	};
	struct tool t;
	bool shown;
	size_t i;

	ASSERT_TRUE(!mkdir("/sys/fs/cgroup/" CGROUP "/\033[2Jx", 0755) || errno == EEXIST);
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		EXPECT_EQ(cases[i].rc, tool_run(&t, cases[i].args)) TH_LOG("case %zu", i);
		EXPECT_EQ(NULL, strchr(t.out, '\033')) TH_LOG("case %zu", i);
		EXPECT_EQ(NULL, strchr(t.errors, '\033')) TH_LOG("case %zu", i);
		shown = strstr(t.out, "/\\033[2Jx") || strstr(t.errors, "/\\033[2Jx");
		EXPECT_EQ(cases[i].shown, shown) TH_LOG("case %zu", i);
		tool_free(&t);
	}
	rmdir("/sys/fs/cgroup/" CGROUP "/\033[2Jx");
}

/* --- profile --------------------------------------------------------------------------------- */

/* The sum of the counts at the end of lines with @text. */
static long sum_counts(const char *folded, const char *text)
{
	char line[16384];
	const char *p;
	long sum = 0;

	for (p = folded; (p = find_line(p, text, "", line, sizeof(line)));)
		sum += strrchr(line, ' ') ? atol(strrchr(line, ' ')) : 0;
	return sum;
}

/* Records of mappings are lost, and none comes after them. */
TEST_F(profile, lost_at_end)
{
	struct tool t;
	void *at;
	int i, fd;

	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "--ring-pages", "1")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	for (i = 0; i < 1000; i++) {
		at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, at);
		munmap(at, 4096);
	}
	kill(t.pid, SIGINT);
	kill(t.pid, SIGCONT);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, "records of mappings or text lost"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	close(fd);
}

/* Processes of 30 ms: all exit before names are looked up. */
TEST_F(profile, short_lived)
{
	char dir[PATH_MAX - 16], exe[PATH_MAX];
	struct tool t;
	pid_t pid;
	int n;

	/* No other process uses this file: its path is in records only. */
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(exe, sizeof(exe), "%s/short_lived", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", exe));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	for (n = 0; n < 40; n++) {
		pid = spawn_spinner(exe, 30);
		waitpid(pid, NULL, 0);
	}
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	TH_LOG("%d processes, %ld of their %ld samples are in the function", n,
	       sum_counts(t.out, ";bpfprov_cli_spin "), sum_counts(t.out, "short_lived;"));
	EXPECT_LT(50, sum_counts(t.out, ";bpfprov_cli_spin "));
	/* Each sample is in one line. */
	EXPECT_EQ(said_samples(t.errors), sum_counts(t.out, ""));
	EXPECT_NE(NULL, strstr(t.errors, "symbolized"));
	EXPECT_NE(NULL, strstr(t.errors, "own cost"));
	tool_free(&t);
	unlink(exe);
	rmdir(dir);
}

#define SPIN_JSON	"\"symbol\":\"bpfprov_cli_spin\""

/*
 * A frame of @file with @rest after the number of the file, in the output of "profile --format
 * json"; NULL: none. A path is there more than once if there were several files.
 */
static const char *find_frame(const char *json, const char *file, const char *rest)
{
	char line[PATH_MAX + 8], path[PATH_MAX + 8], want[512];
	const char *p = strstr(json, "\"files\":[\n"), *found = NULL;
	int i;

	snprintf(path, sizeof(path), "\"%s\"", file);
	for (i = -1; p && !found && (p = find_line(p, "", "", line, sizeof(line))); i++) {
		if (*line == ']')
			break;
		snprintf(want, sizeof(want), "\"file\":%d,%s", i, rest);
		if (!strncmp(line, path, strlen(path)))
			found = strstr(json, want);
	}
	return found;
}

/* Sample a process of @exe, a deleted copy of @from, until the process ends. */
static int profile_gone(struct tool *t, const char *from, const char *exe)
{
	bool started;
	double end;
	pid_t pid;
	int err;

	if (copy_file(from, exe))
		return -1;
	pid = spawn_spinner(exe, 0);
	if (!wait_for_exec(pid, exe) || unlink(exe)) {
		end_process(pid);
		return -1;
	}
	err = tool_start_to(t, NULL, false,
			    ARGS("profile", "-p", PID(pid), "-d", "60", "--format", "json"));
	started = !err && tool_says(t, " Hz");
	for (end = now() + 1; started && now() < end;)
		sched_yield();
	end_process(pid);
	if (!err)
		err = tool_end(t);
	return started ? err : -1;
}

/* A deleted file is found through its process while that runs, else by build ID. */
TEST_F(profile, deleted_binary)
{
	struct target target;
	char exe[PATH_MAX];
	struct tool t;

	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", NULL));
	unlink(target.exe);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-p", PID(target.pid), "-d", "5",
					"--format", "json")));
	EXPECT_EQ(NULL, strstr(t.errors, "has ended"));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON));
	tool_free(&t);
	end_process(target.pid);

	/* It reports that the process ends. */
	snprintf(exe, sizeof(exe), "%s/bpfprov_gone", target.dir);
	ASSERT_EQ(OK, profile_gone(&t, "/proc/self/exe", exe));
	EXPECT_NE(NULL, strstr(t.errors, "has ended"));
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"file not found\""));
	EXPECT_NE(NULL, strstr(t.out, "\"build_id\":\""));
	EXPECT_NE(NULL, strstr(t.out, "/bpfprov_gone\""));
	tool_free(&t);
	rmdir(target.dir);
}

/* Remove the build ID of @path, by hiding its notes. */
static int drop_notes(const char *path)
{
	ElfW(Ehdr) e;
	ElfW(Phdr) p;
	int i, fd, err = -1;
	off_t at;

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &e, sizeof(e), 0) != sizeof(e))
		return -1;
	for (i = 0; i < e.e_phnum; i++) {
		at = e.e_phoff + i * sizeof(p);
		if (pread(fd, &p, sizeof(p), at) != sizeof(p) || p.p_type != PT_NOTE)
			continue;
		p.p_type = PT_NULL;
		err = pwrite(fd, &p, sizeof(p), at) == sizeof(p) ? 0 : -1;
	}
	close(fd);
	return err;
}

/* A writer of a FIFO: its open() waits until the FIFO is opened for reading. */
static pid_t wait_for_reader(const char *fifo)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(open(fifo, O_WRONLY | O_CLOEXEC) < 0);
	}
	return pid;
}

/*
 * Run ELF files that have the names @one and @other in a new mount namespace. Only these
 * identify them: @one has a unique build ID, @other has none.
 */
static int run_elsewhere(const char *dir, const char *one, const char *other)
{
	pid_t child = fork(), pid;
	int status;

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("tmpfs", dir, "tmpfs", 0, NULL) || copy_file("bpfprov_cli.md5", one) ||
		    copy_file("/proc/self/exe", other) || drop_notes(other))
			_exit(1);
		pid = spawn_spinner(one, 500);
		waitpid(pid, &status, 0);
		if (status)
			_exit(2);
		pid = spawn_spinner(other, 500);
		waitpid(pid, &status, 0);
		_exit(status ? 3 : 0);
	}
	waitpid(child, &status, 0);
	return status;
}

/*
 * A container's path /x may name anything here: FIFOs of that name are not opened, for a
 * build ID or for names.
 */
TEST_F(profile, foreign_path)
{
	char dir[PATH_MAX - 64], fifo[2][PATH_MAX - 32];
	pid_t writer[2];
	struct tool t;
	int i, fd;

	if (access("bpfprov_cli.md5", R_OK))
		SKIP(return, "no bpfprov_cli.md5");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	for (i = 0; i < 2; i++) {
		snprintf(fifo[i], sizeof(fifo[i]), "%s/fifo%d", dir, i);
		ASSERT_EQ(0, mkfifo(fifo[i], 0600));
		writer[i] = wait_for_reader(fifo[i]);
		ASSERT_LT(0, writer[i]);
	}
	ASSERT_EQ(0, tool_start_to(&t, NULL, false,
				   ARGS("profile", "-F", "199", "-d", "60", "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	EXPECT_EQ(0, run_elsewhere(dir, fifo[0], fifo[1]));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	/* It was sampled and looked up. */
	EXPECT_NE(NULL, find_frame(t.out, fifo[0], ""));
	tool_free(&t);
	for (i = 0; i < 2; i++) {
		/* Control: an open is seen. */
		bool opened = waitpid(writer[i], NULL, WNOHANG) != 0;

		EXPECT_FALSE(opened) TH_LOG("%s", fifo[i]);
		if (!opened) {
			fd = open(fifo[i], O_RDONLY | O_CLOEXEC);
			EXPECT_LE(0, fd);
			waitpid(writer[i], NULL, 0);
			close(fd);
		}
		unlink(fifo[i]);
	}
	rmdir(dir);
}

/* The build ID of @exe in the output of "profile --format json"; "": none. */
static void json_build_id(const char *json, const char *exe, char id[41])
{
	const char *p = find_frame(json, exe, "");

	*id = 0;
	while (p && p > json && *p != '{')
		p--;
	if (p)
		sscanf(p, "{\"kind\":\"user\",\"build_id\":\"%40[0-9a-f]\"", id);
}

/* Make the text's offset in a debug file ambiguous: not aligned, no gap. */
static int forget_text(const char *path)
{
	ElfW(Ehdr) e;
	ElfW(Phdr) p;
	int i, fd, err = -1;
	off_t at;

	fd = open(path, O_RDWR);
	if (fd < 0 || pread(fd, &e, sizeof(e), 0) != sizeof(e))
		return -1;
	for (i = 0; i < e.e_phnum; i++) {
		at = e.e_phoff + i * sizeof(p);
		if (pread(fd, &p, sizeof(p), at) != sizeof(p) || !(p.p_flags & PF_X) ||
		    p.p_type != PT_LOAD)
			continue;
		p.p_align = 1;
		err = pwrite(fd, &p, sizeof(p), at) == sizeof(p) ? 0 : -1;
	}
	close(fd);
	return err;
}

/* Stacks pad a build ID of 16 bytes with zeroes, records do not. */
TEST_F(profile, short_build_id)
{
	struct target target;
	struct tool t;
	char id[41];

	if (access("bpfprov_cli.md5", R_OK))
		SKIP(return, "no bpfprov_cli.md5");
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.md5", NULL));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-p", PID(target.pid), "-d", "3",
					"--format", "json")));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON));
	json_build_id(t.out, target.exe, id);
	EXPECT_EQ(32, strlen(id)) TH_LOG("build ID \"%s\"", id);
	tool_free(&t);
	target_end(&target);
}

/* Only the debug file is left: below /usr/lib/debug, or with debuginfod. */
TEST_F(profile, debug_file)
{
	char dir[PATH_MAX - 64], exe[PATH_MAX], id[41], path[PATH_MAX], script[3 * PATH_MAX];
	const char *old_path = getenv("PATH") ?: "/usr/bin:/bin";
	bool made;
	struct tool t;
	int fd;

	if (access("bpfprov_cli.stripped", R_OK) || access("bpfprov_cli.debug", R_OK))
		SKIP(return, "no bpfprov_cli.stripped or bpfprov_cli.debug");
	made = !mkdir("/usr/lib/debug", 0755);
	if (!made && errno != EEXIST)
		SKIP(return, "no /usr/lib/debug");
	/* Do not query debuginfod for this file. */
	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(exe, sizeof(exe), "%s/stripped", dir);
	ASSERT_EQ(OK, profile_gone(&t, "bpfprov_cli.stripped", exe));
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"file not found\""));
	EXPECT_EQ(NULL, strstr(t.out, SPIN_JSON));
	json_build_id(t.out, exe, id);
	ASSERT_EQ(40, strlen(id));
	tool_free(&t);

	/* Hide the machine's files. */
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("tmpfs", "/usr/lib/debug", "tmpfs", 0, NULL));
	ASSERT_EQ(0, mkdir("/usr/lib/debug/.build-id", 0755));
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s", id);
	ASSERT_EQ(0, mkdir(path, 0755));
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	ASSERT_EQ(0, copy_file("bpfprov_cli.debug", path));
	ASSERT_EQ(OK, profile_gone(&t, "bpfprov_cli.stripped", exe));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON));
	EXPECT_EQ(NULL, strstr(t.out, "\"outcome\":\"file not found\""));
	tool_free(&t);

	/* No wrong name. */
	ASSERT_EQ(0, forget_text(path));
	ASSERT_EQ(OK, profile_gone(&t, "bpfprov_cli.stripped", exe));
	EXPECT_EQ(NULL, strstr(t.out, SPIN_JSON));
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"no symbol\""));
	tool_free(&t);
	ASSERT_EQ(0, unlink(path));

	/* Act like debuginfod-find(1) if the server has debug files only, as Debian's. */
	snprintf(path, sizeof(path), "%s/debuginfod-find", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0755);
	ASSERT_LE(0, fd);
	snprintf(script, sizeof(script),
		 "#!/bin/sh\necho $1 $2 >>'%s/asked'\n[ $1 = debuginfo ] && echo $PWD/bpfprov_cli.debug\n",
		 dir);
	ASSERT_EQ(strlen(script), write(fd, script, strlen(script)));
	close(fd);
	snprintf(script, sizeof(script), "%s:%s", dir, old_path);
	setenv("PATH", script, 1);
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	ASSERT_EQ(OK, profile_gone(&t, "bpfprov_cli.stripped", exe));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON));
	tool_free(&t);
	snprintf(script, sizeof(script), "executable %s\ndebuginfo %s\n", id, id);
	unlink(path);
	snprintf(path, sizeof(path), "%s/asked", dir);
	fd = open(path, O_RDONLY);
	memset(exe, 0, sizeof(exe));
	EXPECT_LT(0, read(fd, exe, sizeof(exe) - 1));
	EXPECT_NE(NULL, strstr(exe, script));
	close(fd);
	unlink(path);
	rmdir(dir);
	umount2("/usr/lib/debug", MNT_DETACH);
	if (made)
		rmdir("/usr/lib/debug");
}

/* Count frames with this text in all samples. */
static long long count_frames(const char *json, const char *text)
{
	char line[8192];
	long long sum = 0;
	const char *p;

	for (p = json; (p = find_line(p, "{\"kind\":", text, line, sizeof(line)));)
		sum += json_number(line, "count");
	return sum;
}

/* A number that the tool reports after @text; -1: none. */
static double said_number(const char *errors, const char *text)
{
	const char *p = strstr(errors, text);

	return p ? strtod(p + strlen(text), NULL) : -1;
}

/*
 * The sources of build IDs add up. The kernel answers queries about a file without one, and
 * these answers are not counted as build IDs.
 */
TEST_F(profile, sources)
{
	long long with_sample, by_query, from_proc;
	struct target with, without;
	struct tool t;
	int cgroup;

	/* Only these two: the build IDs of other files may be read between two lookups. */
	cgroup = cgroup_enter("bpfprov_cli_profile");
	if (cgroup == -EOPNOTSUPP)
		SKIP(return, NEEDS_CGROUP2);
	ASSERT_LE(0, cgroup);
	ASSERT_EQ(0, target_start(&with, "/proc/self/exe", NULL));
	ASSERT_EQ(0, target_start(&without, "/proc/self/exe", drop_notes));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "3", "-G", "bpfprov_cli_profile",
					"--format", "json")));
	EXPECT_EQ(0, json_number(t.out, "dropped"));
	with_sample = said_number(t.errors, "build IDs: ");
	by_query = said_number(t.errors, " taken with the sample, ");
	from_proc = said_number(t.errors, " of these by a query, ");
	EXPECT_LT(0, with_sample);
	EXPECT_LE(0, from_proc);
	EXPECT_EQ(count_frames(t.out, "\"build_id\""), with_sample + from_proc);
	/* There are frames without one, which the kernel answers if it has the query. */
	EXPECT_NE(NULL, strstr(t.out, "{\"kind\":\"user\",\"offset\":"));
	EXPECT_EQ(0, by_query) TH_LOG("%s", t.errors);
	tool_free(&t);
	target_end(&with);
	target_end(&without);
	close(cgroup);
	cgroup_leave("bpfprov_cli_profile");
}

/* The cost of sampling follows the frequency. */
TEST_F(profile, own_cost)
{
	static char * const hz[] = { "19", "499" };
	double irq[ARRAY_LEN(hz)];
	struct tool t;
	pid_t pid;
	size_t i;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	for (i = 0; i < ARRAY_LEN(hz); i++) {
		EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-F", hz[i])));
		irq[i] = said_number(t.errors, "own cost: ");
		EXPECT_LE(0, said_number(t.errors, "that took samples, "));
		/* A ring of 1 MiB or more is mapped. */
		EXPECT_LT(1024, said_number(t.errors, "for the rest, "));
		TH_LOG("%s Hz: %.1f %% of a CPU in interrupts", hz[i], irq[i]);
		tool_free(&t);
	}
	end_process(pid);
	EXPECT_LT(irq[0], irq[1]);
	EXPECT_LT(irq[1], 100.0 * sysconf(_SC_NPROCESSORS_ONLN));
}

/* The kernel allows fewer samples than requested: the message names the sysctl. */
TEST_F(profile, high_rate)
{
	static const char sysctl[] = "/proc/sys/kernel/perf_event_max_sample_rate";
	struct setting rate;
	struct tool t;
	int err;

	err = setting_change(&rate, sysctl, "500");
	if (err == -EINVAL)
		SKIP(return, "a kernel.perf_cpu_time_max_percent of 0 or 100 locks the rate");
	ASSERT_EQ(0, err);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("profile", "-d", "1", "-F", "1000")));
	EXPECT_NE(NULL, strstr(t.errors, "perf_event_max_sample_rate")) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "timer")) TH_LOG("%s", t.errors);
	EXPECT_STREQ("", t.out);
	tool_free(&t);
	/* Control: the limit does not matter below it. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-F", "99"))) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "perf_event_max_sample_rate"));
	tool_free(&t);
	setting_restore(&rate);
}

/* A file without a build ID, already running: found by its inode. */
TEST_F(profile, without_build_id)
{
	struct target target;
	struct tool t;

	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", drop_notes));
	/* Sample all processes, so that it is one of many. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "3", "--format", "json")));
	EXPECT_LT(0, json_number(t.out, "samples"));
	EXPECT_NE(NULL, find_frame(t.out, target.exe, "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	target_end(&target);
}

/* Give @path another build ID, one for each @mask. */
static int flip_build_id(const char *path, unsigned char mask)
{
	static const char gnu[] = "\4\0\0\0\24\0\0\0\3\0\0\0GNU";
	char buf[8192], *note;
	int fd, err = -1;

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && pread(fd, buf, sizeof(buf), 0) == sizeof(buf)) {
		note = memmem(buf, sizeof(buf), gnu, sizeof(gnu));
		if (note) {
			note[sizeof(gnu)] ^= mask;
			err = pwrite(fd, buf, sizeof(buf), 0) == sizeof(buf) ? 0 : -1;
		}
	}
	close(fd);
	return err;
}

/* Give @path a unique build ID. */
static int change_build_id(const char *path)
{
	return flip_build_id(path, 0xff);
}

/* Remove the ELF magic of @path. */
static int drop_magic(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err;

	err = fd >= 0 && pwrite(fd, "JIT!", 4, 0) == 4 ? 0 : -1;
	close(fd);
	return err;
}

/* A copy of this program that is mapped at any address, and bpfprov_cli_spin() in it. */
struct copy {
	void *image;
	size_t size;
	unsigned long (*spin)(unsigned long rounds);
};

static int map_copy(struct copy *c, const char *path)
{
	unsigned long start, end, off, addr = (unsigned long)bpfprov_cli_spin;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *line = NULL;
	size_t size = 0;
	struct stat st;
	FILE *f;

	c->spin = NULL;
	c->image = fd < 0 || fstat(fd, &st) ? MAP_FAILED :
		   mmap(NULL, st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	f = fopen("/proc/self/maps", "re");
	if (c->image == MAP_FAILED || !f)
		return -1;
	c->size = st.st_size;
	while (!c->spin && getline(&line, &size, f) > 0)
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &off) == 3 &&
		    addr >= start && addr < end)
			c->spin = c->image + off + (addr - start);
	free(line);
	fclose(f);
	return c->spin ? 0 : -1;
}

/* Run it. */
static void spin_mapped(const char *path, int ready)
{
	struct copy c;

	/* khugepaged would make the header a part of a huge page, which cannot be evicted. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (map_copy(&c, path))
		_exit(1);
	/* From here on, it accesses neither the header nor other pages of the file. */
	c.spin(1);
	if (madvise(c.image, 4096, MADV_DONTNEED) || write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		c.spin(1000000);
}

/* Profile code in a copy of this program, modified by @change, deleted if @gone. */
static int profile_mapped(struct tool *t, char *file, size_t size, bool gone,
			  int (*change)(const char *path))
{
	char dir[PATH_MAX - 128];
	int rc = -1, ready[2];
	pid_t pid;
	bool runs;
	char c;

	if (scratch_dir(dir, sizeof(dir)) || pipe2(ready, O_CLOEXEC))
		return -1;
	if (snprintf(file, size, "%s/library", dir) >= (int)size)
		return -1;
	if (copy_file("/proc/self/exe", file) || change(file))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spin_mapped(file, ready[1]);
	}
	close(ready[1]);
	runs = read(ready[0], &c, 1) == 1;
	if (gone)
		unlink(file);
	if (runs)
		rc = tool_run(t, ARGS("profile", "-d", "3", "-p", PID(pid), "--format", "json"));
	end_process(pid);
	close(ready[0]);
	unlink(file);
	rmdir(dir);
	return rc;
}

/* Code in a file that is not ELF: the file was found, and has no symbols. */
TEST_F(profile, not_elf)
{
	char file[PATH_MAX - 64];
	struct tool t;

	ASSERT_EQ(OK, profile_mapped(&t, file, sizeof(file), false, drop_magic));
	EXPECT_NE(NULL, find_frame(t.out, file, "\"outcome\":\"no symbol\""))
		TH_LOG("%s", t.errors);
	tool_free(&t);
}

/*
 * A child process that runs code in @file, in short calls: even an emulated CPU, which takes
 * interrupts at branches, has samples of more than one address in it.
 */
static pid_t spawn_short_calls(const char *file)
{
	pid_t pid = fork();
	struct copy c;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (map_copy(&c, file))
			_exit(1);
		for (;;)
			c.spin(2);
	}
	return pid;
}

/* The path of a file is printed once, not for each of its frames: any user can choose it. */
TEST_F(profile, path_once)
{
	char dir[PATH_MAX - 128], file[PATH_MAX - 64];
	const char *first;
	struct tool t;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/library", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", file));
	ASSERT_EQ(0, change_build_id(file));
	pid = spawn_short_calls(file);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-p", PID(pid), "-d", "3", "--format", "json")));
	end_process(pid);
	first = strstr(t.out, file);
	ASSERT_NE(NULL, first);
	EXPECT_EQ(NULL, strstr(first + 1, file));
	/* Control: it has more than one frame. */
	first = strstr(t.out, SPIN_JSON);
	ASSERT_NE(NULL, first);
	EXPECT_NE(NULL, strstr(first + 1, SPIN_JSON));
	EXPECT_NE(NULL, find_frame(t.out, file, "\"outcome\":\"symbolized\"," SPIN_JSON));
	tool_free(&t);
	unlink(file);
	rmdir(dir);
}

/* A file system on a directory of its own. */
struct mounted {
	enum own_fs fs;
	char dir[PATH_MAX - 128];
	char file[PATH_MAX - 64];
};

/*
 * Mount it, with a copy of this program as @m->file: with @unique, this program, which runs too,
 * cannot be found instead. Returns 0 or a negative errno, see fs_mount().
 */
static int mount_copy(struct mounted *m, enum own_fs fs, bool unique)
{
	int err = -EIO;

	m->fs = fs;
	if (scratch_dir(m->dir, sizeof(m->dir)))
		return err;
	snprintf(m->file, sizeof(m->file), "%s/file", m->dir);
	if (!copy_file("/proc/self/exe", m->file) && (!unique || !change_build_id(m->file)))
		err = fs_mount(fs, m->dir);
	if (err) {
		fs_unmount(fs, m->dir);
		rmdir(m->dir);
	}
	return err;
}

/* Unmount it. Its last user may still be exiting. */
static int unmount_copy(struct mounted *m)
{
	double end = now() + 20 * timeout_scale();
	int err;

	while ((err = fs_unmount(m->fs, m->dir)) == -EBUSY && now() < end)
		sched_yield();
	return err ?: rmdir(m->dir);
}

/* Code on a file system that no longer answers: the profile is written without its names. */
TEST_F_TIMEOUT(profile, hung_server, 240)
{
	struct mounted m;
	int err, ready[2];
	struct tool t;
	pid_t pid;
	char c;

	err = mount_copy(&m, FS_FUSE, true);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE));
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spin_mapped(m.file, ready[1]);
	}
	EXPECT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "3", "-p", PID(pid),
							 "--format", "json")));
	EXPECT_TRUE(tool_says(&t, " Hz"));
	fuse_stop(true);
	EXPECT_TRUE(ends_within(&t, 120)) TH_LOG("it waits for the server");
	fuse_stop(false);
	end_process(pid);
	EXPECT_EQ(0, unmount_copy(&m));
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"file over the limits of time or memory\""))
		TH_LOG("%s", t.errors);
	EXPECT_LT(0, json_number(t.out, "samples"));
	tool_free(&t);
}

/* A library that is deleted, as by an upgrade, while a process still uses it. */
TEST_F(profile, deleted_library)
{
	char file[PATH_MAX - 64];
	struct tool t;

	ASSERT_EQ(OK, profile_mapped(&t, file, sizeof(file), true, change_build_id));
	EXPECT_NE(NULL, find_frame(t.out, file, "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	tool_free(&t);
}

/* A file that exists, but that the user may not open. */
TEST_F(profile, unreadable)
{
	struct target target;
	struct tool t;

	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", NULL));
	ASSERT_EQ(0, chmod(target.dir, 0700));
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_PERFMON;
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, ARGS("profile", "-d", "3", "-p",
							PID(target.pid), "--format", "json")));
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"file not readable\"")) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.out, "\"outcome\":\"file not found\""));
	tool_free(&t);
	target_end(&target);
}

/* Count user frames with this outcome in all samples; NULL: all. */
static long long count_outcome(const char *json, const char *outcome)
{
	char want[128];

	snprintf(want, sizeof(want), outcome ? "\"outcome\":\"%s\"" : "\"kind\":\"user\"", outcome);
	return count_frames(json, want);
}

/* A child process in spin_mapped(); -1: it does not get there. */
static pid_t spawn_mapped(const char *file)
{
	int ready[2];
	pid_t pid;
	bool runs;
	char c;

	if (pipe2(ready, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spin_mapped(file, ready[1]);
	}
	close(ready[1]);
	runs = read(ready[0], &c, 1) == 1;
	close(ready[0]);
	if (pid > 0 && !runs)
		end_process(pid);
	return runs ? pid : -1;
}

/* Why a page stays: its number of mappings, and its flags as in linux/kernel-page-flags.h. */
static void print_page(const volatile char *page)
{
	static const char * const files[] = { "/proc/kpagecount", "/proc/kpageflags" };
	uint64_t entry = *page, value;
	size_t i;
	int fd;

	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pread(fd, &entry, 8, (uintptr_t)page / 4096 * 8) != 8)
		entry = 0;
	close(fd);
	entry &= (1ULL << 55) - 1;
	for (i = 0; i < ARRAY_LEN(files); i++) {
		fd = open(files[i], O_RDONLY | O_CLOEXEC);
		if (pread(fd, &value, 8, entry * 8) == 8)
			ksft_print_msg("page %#llx, %s: %#llx\n", (unsigned long long)entry,
				       files[i], (unsigned long long)value);
		close(fd);
	}
}

/* Evict the first page of a file. No process may have it mapped in its page tables. */
static bool drop_header(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	unsigned char resident = 1;
	double end = now() + 20 * timeout_scale();
	void *page;

	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	/* A page that is dirty stays. */
	fsync(fd);
	while (page != MAP_FAILED && resident & 1 && now() < end) {
		posix_fadvise(fd, 0, 4096, POSIX_FADV_DONTNEED);
		if (mincore(page, 4096, &resident))
			break;
	}
	if (page != MAP_FAILED) {
		if (resident & 1)
			print_page(page);
		munmap(page, 4096);
	}
	close(fd);
	return !(resident & 1);
}

static void stall(enum own_fs fs, bool stall)
{
	if (fs == FS_FUSE)
		fuse_stop(stall);
	else
		fs_stall(stall);
}

/*
 * The kernel cannot read the build ID of a file, because the storage does not answer. One
 * lookup in /proc waits for it, and not one for each sample; the process is given up, and that
 * is the reason.
 */
TEST_F_TIMEOUT(profile, given_up, 240)
{
	static const enum own_fs cases[] = { FS_FUSE, FS_STALLING };
	static const char outcome[] = "mapping not known: given up";
	struct mounted m;
	struct tool t;
	int err, ran = 0;
	pid_t pid;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		err = mount_copy(&m, cases[i], true);
		if (err == -EOPNOTSUPP) {
			TH_LOG("left out: %s", fs_needs(cases[i]));
			continue;
		}
		ASSERT_EQ(0, err);
		ran++;
		pid = spawn_mapped(m.file);
		ASSERT_LT(0, pid);
		ASSERT_TRUE(drop_header(m.file));
		stall(cases[i], true);
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "3", "-p",
								 PID(pid), "--format", "json")));
		EXPECT_TRUE(ends_within(&t, 60)) TH_LOG("it waits again and again");
		stall(cases[i], false);
		end_process(pid);
		EXPECT_EQ(OK, tool_end(&t));
		EXPECT_NE(NULL, strstr(t.errors, ": 1 lookups in /proc took too long"))
			TH_LOG("%s", t.errors);
		EXPECT_LT(0, count_outcome(t.out, outcome)) TH_LOG("%s: %s", outcome, t.errors);
		tool_free(&t);
		EXPECT_EQ(0, unmount_copy(&m));
	}
	if (!ran)
		SKIP(return, "%s", fs_needs(FS_FUSE));
}

static int count_children(pid_t pid)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += atoi(e->d_name) > 0 && proc_status(atoi(e->d_name), "PPid") == pid;
	if (d)
		closedir(d);
	return n;
}

/* More than the child processes that the tool abandons, which is documented in bpfprov.8. */
#define MAX_ABANDONED 16
#define SILENT (MAX_ABANDONED + 4)

/*
 * Processes that map a file whose server receives requests and does not answer: a child process
 * that waits for one cannot be killed. The first three lookups take 10 s each, all later ones
 * less.
 */
TEST_F_TIMEOUT(profile, abandoned, 240)
{
	long given_up = 0;
	pid_t pid[SILENT];
	struct mounted m;
	char line[256];
	struct tool t;
	void *page;
	int i, err, fd;
	double begun;

	err = mount_copy(&m, FS_FUSE_SILENT, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SILENT));
	ASSERT_EQ(0, err);
	fd = open(m.file, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	close(fd);
	for (i = 0; i < SILENT; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
	begun = now();
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "600")));
	EXPECT_TRUE(tool_says(&t, " Hz"));
	EXPECT_GT(10 * MAX_ABANDONED, now() - begun) TH_LOG("ten seconds for each lookup");
	EXPECT_EQ(MAX_ABANDONED, count_children(t.pid));
	kill(t.pid, SIGINT);
	EXPECT_TRUE(ends_within(&t, 60));
	for (i = 0; i < SILENT; i++)
		end_process(pid[i]);
	munmap(page, 4096);
	EXPECT_EQ(0, unmount_copy(&m));
	EXPECT_EQ(OK, tool_end(&t));
	if (find_line(t.errors, " lookups in /proc took too long", "", line, sizeof(line)))
		sscanf(line, "bpfprov profile: %ld ", &given_up);
	/* This process is one, too. */
	EXPECT_LE(SILENT + 1, given_up) TH_LOG("%s", t.errors);
	tool_free(&t);
}

/*
 * A process whose stat, maps, fd and ns in /proc cannot be read: the reader waits. In execve(), it
 * holds exec_update_lock and waits for mmap_lock. Another one that shares its memory holds that: it
 * waits in mmap() for a page that a third one reads, from a server that does not answer.
 */
struct locked {
	struct mounted m;
	pid_t reader, pid, prober;
};

static char locked_stack[16384] __aligned(16);

static int map_and_wait(void *fd)
{
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, *(int *)fd, 0);
	_exit(0);
}

/* Map @files, then run another program when told to. The PID of the one in mmap() goes to @to. */
static void lock_itself(int fd, char **files, int to, int go)
{
	char *argv[] = { "bpfprov_cli", "--spin", "0", NULL }, c;
	pid_t sharer;
	int file;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; files && *files; files++) {
		file = open(*files, O_RDONLY | O_CLOEXEC);
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
			_exit(1);
		close(file);
	}
	/* Page faults would wait for the lock, too: of execve(), before it takes its own. */
	if (mlockall(MCL_CURRENT))
		_exit(1);
	sharer = clone(map_and_wait, locked_stack + sizeof(locked_stack), CLONE_VM | SIGCHLD, &fd);
	if (write(to, &sharer, sizeof(sharer)) == sizeof(sharer) && read(go, &c, 1) == 1)
		execv("/proc/self/exe", argv);
	_exit(1);
}

/* Read the stat of @pid again and again. */
static void probe(pid_t pid)
{
	char path[32], text[64];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (pread(fd, text, sizeof(text), 0) > 0)
		;
	_exit(1);
}

/* Start it; it maps @files, which end with NULL. Returns 0 or a negative errno, see fs_mount(). */
static int locked_start(struct locked *l, char **files)
{
	double end = now() + 20 * timeout_scale();
	int fd, to[2], go[2], err;
	pid_t sharer = 0;
	char *page;

	memset(l, 0, sizeof(*l));
	err = mount_copy(&l->m, FS_FUSE_SILENT, false);
	if (err)
		return err;
	if (pipe2(to, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
		return -errno;
	fd = open(l->m.file, O_RDONLY | O_CLOEXEC);
	/* Mapped before the read, which locks the page. */
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	l->reader = fork();
	if (!l->reader) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(READ_ONCE(*page));
	}
	munmap(page, 4096);
	while (!fuse_reads() && now() < end)
		sched_yield();
	l->pid = fork();
	if (!l->pid)
		lock_itself(fd, files, to[1], go[0]);
	close(fd);
	close(to[1]);
	if (read(to[0], &sharer, sizeof(sharer)) != sizeof(sharer) || sharer <= 0 ||
	    !waits_in(sharer, SYS_mmap, -1) || write(go[1], "", 1) != 1)
		return -EIO;
	l->prober = fork();
	if (!l->prober)
		probe(l->pid);
	close(to[0]);
	close(go[0]);
	close(go[1]);
	return waits_in(l->prober, SYS_pread64, -1) ? 0 : -ETIME;
}

/* None of them can end before the server has. */
static int locked_end(struct locked *l)
{
	pid_t pids[] = { l->prober, l->pid, l->reader };
	size_t i;
	int err;

	for (i = 0; i < ARRAY_LEN(pids); i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
	err = unmount_copy(&l->m);
	for (i = 0; i < ARRAY_LEN(pids); i++)
		if (pids[i] > 0)
			waitpid(pids[i], NULL, 0);
	return err;
}

/* A process whose stat in /proc cannot be read is given up, and the profile ends in time. */
TEST_F_TIMEOUT(profile, locked_process, 240)
{
	struct locked l;
	struct tool t;
	int err;

	err = locked_start(&l, NULL);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SILENT));
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "1", "-p", PID(l.pid))));
	EXPECT_TRUE(ends_within(&t, 60)) TH_LOG("it waits for the process, itself");
	EXPECT_EQ(0, locked_end(&l));
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, ": 1 lookups in /proc took too long"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
}

/*
 * Such a process is the latest that mapped two files. One of them is there, and its names are
 * found without that process. The other one was deleted: it was not searched everywhere.
 */
TEST_F_TIMEOUT(profile, locked_place, 240)
{
	static const char over[] = "\"outcome\":\"file over the limits of time or memory\"";
	char dir[PATH_MAX - 64], file[2][PATH_MAX - 32];
	struct locked l;
	struct tool t;
	int err, i, status = -1;
	pid_t pid;

	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	for (i = 0; i < 2; i++) {
		snprintf(file[i], sizeof(file[i]), "%s/file%d", dir, i);
		ASSERT_EQ(0, copy_file("/proc/self/exe", file[i]));
		ASSERT_EQ(0, flip_build_id(file[i], i + 1));
	}
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* So that the records are read in their order. */
	ASSERT_EQ(0, pin_to_cpu(0));
	for (i = 0; i < 2; i++) {
		pid = spawn_spinner(file[i], 1000);
		waitpid(pid, &status, 0);
		EXPECT_EQ(0, status);
	}
	err = locked_start(&l, ARGS(file[0], file[1]));
	if (err != -EOPNOTSUPP)
		EXPECT_EQ(0, err);
	unlink(file[1]);
	kill(t.pid, SIGINT);
	EXPECT_TRUE(ends_within(&t, 120));
	if (err != -EOPNOTSUPP)
		EXPECT_EQ(0, locked_end(&l));
	EXPECT_EQ(OK, tool_end(&t));
	unlink(file[0]);
	rmdir(dir);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SILENT));
	EXPECT_NE(NULL, find_frame(t.out, file[0], "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, find_frame(t.out, file[0], over)) TH_LOG("the process takes its names");
	EXPECT_NE(NULL, find_frame(t.out, file[1], over)) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, find_frame(t.out, file[1], "\"outcome\":\"file not found\""));
	tool_free(&t);
}

/* Mappings of a file whose build ID cannot be read, as its server does not answer. */
#define HUNG_MAPPINGS 3

/*
 * "maps" of such a process ends. It waits for the first two build IDs, and lists all mappings, with
 * the build IDs of other files before these.
 */
TEST_F_TIMEOUT(maps, hung_server, 120)
{
	char line[PATH_MAX];
	int i, err, fd, said = 0, listed = 0;
	void *page[HUNG_MAPPINGS];
	struct mounted m;
	const char *p;
	struct tool t;

	err = mount_copy(&m, FS_FUSE, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE));
	ASSERT_EQ(0, err);
	fd = open(m.file, O_RDONLY | O_CLOEXEC);
	for (i = 0; i < HUNG_MAPPINGS; i++) {
		page[i] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, page[i]);
	}
	close(fd);
	ASSERT_TRUE(drop_header(m.file));
	fuse_stop(true);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("maps", PID(getpid()))));
	EXPECT_TRUE(ends_within(&t, 60)) TH_LOG("it waits for the server");
	fuse_stop(false);
	EXPECT_EQ(FAILED, tool_end(&t)) TH_LOG("%s", t.errors);
	for (p = t.errors; (p = find_line(p, "reading the build ID took too long", "", line,
					  sizeof(line)));)
		said++;
	EXPECT_EQ(2, said) TH_LOG("%s", t.errors);
	for (p = t.out; (p = find_line(p, m.file, " - ", line, sizeof(line)));)
		listed++;
	EXPECT_EQ(HUNG_MAPPINGS, listed);
	/* The lowest and the highest ones. */
	ASSERT_NE(NULL, find_line(t.out, "r-xp", "/bpfprov_cli", line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(line, " - "));
	EXPECT_NE(NULL, find_line(t.out, "[stack]", "", line, sizeof(line)));
	tool_free(&t);
	for (i = 0; i < HUNG_MAPPINGS; i++)
		munmap(page[i], 4096);
	EXPECT_EQ(0, unmount_copy(&m));
}

static bool read_is_stalled(void)
{
	double end = now() + 20 * timeout_scale();

	while (fs_stalled_read() < 0 && now() < end)
		sched_yield();
	return fs_stalled_read() >= 0;
}

static bool map_at(char *at, const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	void *page = mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);

	close(fd);
	return page == at;
}

/*
 * "maps" has read the lines of two mappings, and waits for the build ID of the first, when another
 * file is mapped in place of the second. It does not print the build ID of that file.
 */
TEST_F_TIMEOUT(maps, mapped_over, 120)
{
	/* The lowest mappings are in the first lines, which are read at once. */
	char *low = (char *)0x10000, dir[PATH_MAX - 64], other[PATH_MAX], line[PATH_MAX];
	struct mounted m;
	struct tool t;
	int err;

	err = mount_copy(&m, FS_STALLING, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(other, sizeof(other), "%s/other", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", other));
	ASSERT_TRUE(map_at(low, m.file));
	ASSERT_TRUE(map_at(low + 4096, "/proc/self/exe"));
	ASSERT_TRUE(drop_header(m.file));
	fs_stall(true);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("maps", "--no-query", PID(getpid()))));
	EXPECT_TRUE(read_is_stalled());
	EXPECT_TRUE(map_at(low + 4096, other));
	fs_stall(false);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	ASSERT_NE(NULL, find_line(t.out, "00011000-00012000 ", "/bpfprov_cli", line, sizeof(line)));
	EXPECT_NE(NULL, strstr(line, " - ")) TH_LOG("%s", line);
	/* Control. */
	ASSERT_NE(NULL, find_line(t.out, "00010000-00011000 ", m.file, line, sizeof(line)));
	EXPECT_EQ(NULL, strstr(line, " - ")) TH_LOG("%s", line);
	tool_free(&t);
	munmap(low, 2 * 4096);
	unlink(other);
	rmdir(dir);
	EXPECT_EQ(0, unmount_copy(&m));
}

/*
 * A process ends while "maps" waits for a build ID, and another one gets its PID. The mappings of
 * that one are not printed.
 */
TEST_F_TIMEOUT(maps, reused_pid, 120)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid_size = 1 };
	char *low = (char *)0x10000, line[PATH_MAX];
	struct mounted m;
	struct tool t;
	pid_t pid, again;
	int err;

	err = mount_copy(&m, FS_STALLING, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_STALLING));
	ASSERT_EQ(0, err);
	ASSERT_TRUE(map_at(low, m.file));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	munmap(low, 4096);
	ASSERT_TRUE(drop_header(m.file));
	fs_stall(true);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("maps", "--no-query", PID(pid))));
	EXPECT_TRUE(read_is_stalled());
	end_process(pid);
	args.set_tid = (uintptr_t)&pid;
	again = syscall(SYS_clone3, &args, sizeof(args));
	if (!again) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	EXPECT_EQ(pid, again);
	/* It waits for ten seconds, and then in a second child process, without build IDs. */
	EXPECT_TRUE(ends_within(&t, 60));
	fs_stall(false);
	end_process(again);
	EXPECT_EQ(GONE, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, "has ended")) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, find_line(t.out, "[stack]", "", line, sizeof(line)));
	tool_free(&t);
	EXPECT_EQ(0, unmount_copy(&m));
}

/* Two seconds each: less than "maps" waits for one, and more than it waits for all of them. */
#define SLOW_FILES 14

/* Each build ID is read in time, and all of them together take too long. */
TEST_F_TIMEOUT(maps, slow_server, 120)
{
	char line[PATH_MAX], path[PATH_MAX];
	int i, err, fd, listed = 0, known = 0;
	void *page[SLOW_FILES];
	struct mounted m;
	const char *p;
	struct tool t;

	err = mount_copy(&m, FS_FUSE_SLOW, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SLOW));
	ASSERT_EQ(0, err);
	for (i = 0; i < SLOW_FILES; i++) {
		snprintf(path, sizeof(path), "%s%d", m.file, i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		page[i] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, page[i]);
		close(fd);
	}
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("maps", PID(getpid())))) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, "reading its build IDs takes too long"))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "reading the build ID took too long"))
		TH_LOG("%s", t.errors);
	for (p = t.out; (p = find_line(p, m.file, "", line, sizeof(line))); listed++)
		known += !strstr(line, " - ");
	EXPECT_EQ(SLOW_FILES, listed);
	EXPECT_LT(0, known);
	EXPECT_GT(SLOW_FILES, known);
	tool_free(&t);
	for (i = 0; i < SLOW_FILES; i++)
		munmap(page[i], 4096);
	EXPECT_EQ(0, unmount_copy(&m));
}

/* The tool lists @socket_at and ends in time: it gives the locked process up, and reports it. */
static void expect_given_up(struct __test_metadata *_metadata, struct tool *t,
			    const char *socket_at, bool in_output)
{
	EXPECT_TRUE(ends_within(t, 60)) TH_LOG("it waits for the process");
	if (!has_ended(t))
		kill(t->pid, SIGKILL);
	EXPECT_EQ(OK, tool_end(t));
	EXPECT_NE(NULL, strstr(t->errors, "1 process could not be listed: reading them took"))
		TH_LOG("%s", t->errors);
	EXPECT_TRUE(is_listed(in_output ? t->out : t->errors, socket_at, ""))
		TH_LOG("%s%s", t->out, t->errors);
	tool_free(t);
}

/*
 * A process whose descriptors cannot be read in time is given up, and reported. All policies are
 * printed before, also those of other cgroups, and the sockets of other processes are listed.
 */
TEST_F_TIMEOUT(confine, stuck_process, 240)
{
	char text[8192], socket_at[32];
	struct locked l;
	bool all = false;
	struct tool t;
	double end;
	pid_t other;
	ssize_t n;
	int err;

	if (!has_diag())
		SKIP(return, NEEDS_DIAG);
	err = locked_start(&l, NULL);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SILENT));
	ASSERT_EQ(0, err);
	ASSERT_TRUE(!mkdir("/sys/fs/cgroup/" UNIT "1", 0755) || errno == EEXIST);
	EXPECT_EQ(OK, tool_run(&t, ARGS("confine", UNIT "1", "--ip", ADDR2)));
	tool_free(&t);
	other = spawn_listener(8022, NULL);
	EXPECT_LT(0, other);
	snprintf(socket_at, sizeof(socket_at), "tcp 0.0.0.0:8022");

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", CGROUP, "--ip", ADDR1)));
	expect_given_up(_metadata, &t, socket_at, false);

	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("confine", "--show")));
	end = now() + 60 * timeout_scale();
	while (!all && !has_ended(&t) && now() < end) {
		n = pread(t.out_fd, text, sizeof(text) - 1, 0);
		text[n < 0 ? 0 : n] = 0;
		/* While a child process reads the first one of the sockets. */
		all = strstr(text, "ip " ADDR1) && strstr(text, "ip " ADDR2) &&
		      count_children(t.pid) == 1;
		sched_yield();
	}
	EXPECT_TRUE(all) TH_LOG("a policy is not shown before the sockets: %s", text);
	expect_given_up(_metadata, &t, socket_at, true);

	end_process(other);
	EXPECT_EQ(0, locked_end(&l));
	tool_run(&t, ARGS("confine", UNIT "1", "--remove"));
	tool_free(&t);
	rmdir("/sys/fs/cgroup/" UNIT "1");
}

/*
 * Map the files when told to. Samples of this process would be looked up, too: it takes little
 * time, and is hardly ever sampled at 1 Hz.
 */
static void map_slow(const char *file, int begin, int done)
{
	char path[PATH_MAX], c;
	int i, fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(begin, &c, 1) != 1)
		_exit(1);
	for (i = 0; i < SLOW_FILES; i++) {
		snprintf(path, sizeof(path), "%s%d", file, i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			_exit(1);
		close(fd);
	}
	if (write(done, "", 1) == 1)
		pause();
	_exit(1);
}

/*
 * Likewise, files that are mapped while "profile" samples, with records that have no build ID: one
 * that is reached after ten seconds is not read any more.
 */
TEST_F_TIMEOUT(profile, slow_server, 120)
{
	int err, begin[2], done[2];
	char line[256], c;
	struct mounted m;
	struct tool t;
	double end;
	pid_t pid;

	err = mount_copy(&m, FS_FUSE_SLOW, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE_SLOW));
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, pipe2(begin, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(done, O_CLOEXEC));
	pid = fork();
	if (!pid)
		map_slow(m.file, begin[0], done[1]);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "1", "-p", PID(pid))));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* Then it reads all records at a time. */
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	EXPECT_EQ(1, write(begin[1], "", 1));
	close(done[1]);
	EXPECT_EQ(1, read(done[0], &c, 1)) TH_LOG("the files are not mapped");
	kill(t.pid, SIGCONT);
	/* Those of the first ten seconds. */
	for (end = now() + 60 * timeout_scale(); fuse_reads() < 3 && now() < end;)
		poll(NULL, 0, 10);
	kill(t.pid, SIGINT);
	EXPECT_TRUE(ends_within(&t, 60));
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_LE(3, fuse_reads());
	EXPECT_GT(SLOW_FILES - 4, fuse_reads());
	EXPECT_NE(NULL, find_line(t.errors, " lookups in /proc took too long", "", line,
				  sizeof(line))) TH_LOG("%s", t.errors);
	tool_free(&t);
	end_process(pid);
	EXPECT_EQ(0, unmount_copy(&m));
}

/* Append a section to an ELF file. */
static int add_section(const char *path, const char *name, const void *bytes, size_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), n, err = -1;
	Elf64_Shdr *s = NULL;
	char *names = NULL;
	struct stat st;
	Elf64_Ehdr e;
	size_t len;
	off_t at;

	if (fd < 0 || fstat(fd, &st) || pread(fd, &e, sizeof(e), 0) != sizeof(e))
		goto out;
	n = e.e_shnum;
	s = calloc(n + 1, sizeof(*s));
	if (!s || pread(fd, s, n * sizeof(*s), e.e_shoff) != (ssize_t)(n * sizeof(*s)))
		goto out;
	len = s[e.e_shstrndx].sh_size;
	names = calloc(1, len + strlen(name) + 1);
	if (!names || pread(fd, names, len, s[e.e_shstrndx].sh_offset) != (ssize_t)len)
		goto out;
	strcpy(names + len, name);
	at = st.st_size;
	s[n] = (Elf64_Shdr){
		.sh_name = len,
		.sh_type = SHT_PROGBITS,
		.sh_offset = at,
		.sh_size = size,
		.sh_addralign = 1,
	};
	if (pwrite(fd, bytes, size, at) != (ssize_t)size)
		goto out;
	at += size;
	len += strlen(name) + 1;
	s[e.e_shstrndx].sh_offset = at;
	s[e.e_shstrndx].sh_size = len;
	if (pwrite(fd, names, len, at) != (ssize_t)len)
		goto out;
	e.e_shoff = (at + len + 7) & ~7UL;
	e.e_shnum = n + 1;
	len = (n + 1) * sizeof(*s);
	if (pwrite(fd, s, len, e.e_shoff) == (ssize_t)len &&
	    pwrite(fd, &e, sizeof(e), 0) == sizeof(e))
		err = 0;
out:
	free(names);
	free(s);
	close(fd);
	return err;
}

/* Add a .gnu_debugdata that takes 512 MiB to unpack: that is the size of its dictionary. */
static int add_debugdata(const char *path)
{
	/*
	 * From: head -c 128K /dev/zero | xz --check=none --lzma2=dict=4KiB,lc=0,pb=0,nice=273
	 * without the end, and with another size of the dictionary in bytes 16 and 20 to 23.
	 */
	static const char stream[] =
		"\xfd\x37\x7a\x58\x5a\x00\x00\x00\xff\x12\xd9\x41"
		"\x02\x00\x21\x01\x22\x00\x00\x00\x82\x40\xac\xdc"
		"\xe1\xff\xff\x00"
		"\x45\x00\x00\x00\x70\x7d\xfd\xff\xae\x90\xa1\x40\x13\xbd\x53\x36"
		"\x9d\xb4\x18\x63\x6b\xa1\xee\x71\xf7\xe6\x8d\x7b\x7d\x65\xf9\xd6"
		"\x31\x7d\x20\x98\x30\x08\xd0\xaa\x63\x74\x59\x0f\xa5\x2b\xc9\xea"
		"\xdd\xe2\x79\x08\x7c\xde\xa8\x9a\x58\x55\x21\xa4\xd1\x74\xb2\x87"
		"\x7e\x71\x45\xdd\x2b\xf7\x99\x00\x00\x00\x00\x00";

	return add_section(path, ".gnu_debugdata", stream, sizeof(stream) - 1) ?:
	       change_build_id(path);
}

static int make_huge(const char *path)
{
	return truncate(path, 17LL << 30) ?: change_build_id(path);
}

/* It is within the limit. With less memory, libelf would read it. */
static int make_unmappable(const char *path)
{
	return truncate(path, 15LL << 30) ?: change_build_id(path);
}

static bool has_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && !munmap(p, size);
}

/* Files of any user that take too much memory: their frames have no names. */
TEST_F_TIMEOUT(profile, hostile_files, 120)
{
	static const struct {
		const char *from;
		int (*change)(const char *path);
		const char *overcommit;
	} cases[] = {
		/* Otherwise the machine may have too little memory to map it. */
		{ "bpfprov_cli.stripped", add_debugdata, "1" },
		{ "/proc/self/exe", make_huge, "1" },
		{ "/proc/self/exe", make_unmappable, "0" },
	};
	struct setting overcommit = {};
	struct target target;
	struct tool t;
	size_t i;

	if (access("bpfprov_cli.stripped", R_OK))
		SKIP(return, "no bpfprov_cli.stripped");
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		ASSERT_EQ(0, setting_change(&overcommit, "/proc/sys/vm/overcommit_memory",
					    cases[i].overcommit));
		if (cases[i].change == make_unmappable && has_memory(15LL << 30)) {
			setting_restore(&overcommit);
			continue;
		}
		ASSERT_EQ(0, target_start(&target, cases[i].from, cases[i].change));
		EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(target.pid),
						"--format", "json")));
		EXPECT_NE(NULL,
			  find_frame(t.out, target.exe,
				     "\"outcome\":\"file over the limits of time or memory\""))
			TH_LOG("case %zu: %s", i, t.errors);
		tool_free(&t);
		target_end(&target);
		setting_restore(&overcommit);
	}
}

/* Wait until a process has run for that long. The CPUs may be busy. */
static bool wait_for_cpu_time(pid_t pid, double seconds)
{
	double end = now() + 40 * timeout_scale();
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return false;
	seconds += ts.tv_sec + ts.tv_nsec / 1e9;
	while (now() < end) {
		if (clock_gettime(clock, &ts))
			return false;
		if (ts.tv_sec + ts.tv_nsec / 1e9 >= seconds)
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

/*
 * A file of any user that has many notes is mapped while the tool samples: they are not all
 * kept in memory, and the child that reads them has a limit.
 */
TEST_F(profile, many_notes)
{
	struct pollfd p = { .fd = inotify_init1(IN_CLOEXEC), .events = POLLIN };
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	struct mapped mapped;
	struct target target;
	struct tool t;
	void *page;
	pid_t child;
	long kib;
	int fd;

	if (p.fd < 0)
		SKIP(return, "needs CONFIG_INOTIFY_USER");
	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", NULL));
	ASSERT_EQ(0, mapped_start(&mapped, "many"));
	fd = open(mapped.file, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, write_many_notes(fd));
	/* Of all processes: this one maps the file. */
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "--format",
							 "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	child = child_of(t.pid, false);
	ASSERT_LT(0, child);
	EXPECT_EQ(0, prlimit(child, RLIMIT_DATA, NULL, &limit));
	EXPECT_NE(RLIM_INFINITY, limit.rlim_cur);
	ASSERT_LE(0, inotify_add_watch(p.fd, mapped.file, IN_CLOSE_NOWRITE));
	page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	/* The child has read it. */
	EXPECT_EQ(1, poll(&p, 1, 60000 * timeout_scale()));
	kib = proc_status(child, "VmHWM");
	EXPECT_LT(0, kib);
	EXPECT_GT(MAX_TAKEN, kib) TH_LOG("%ld KiB", kib);
	EXPECT_TRUE(wait_for_cpu_time(target.pid, 1));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	/* Control: the names of other files are found. */
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON)) TH_LOG("%s", t.errors);
	tool_free(&t);
	munmap(page, 4096);
	close(fd);
	close(p.fd);
	mapped_end(&mapped);
	target_end(&target);
}

/*
 * The file that spin_elsewhere() has run: it stays; or it is replaced by a symbolic link; or a
 * file of /proc, which no other program reads, is mounted on it.
 */
enum fate { STAYS, LINK, PROC };

/*
 * In a new mount namespace, run a copy of this program that is @file in @dir there. If it does
 * not stay, then unmap it first. @other: for the symbolic link.
 */
static void spin_elsewhere(const char *dir, const char *file, const char *other, enum fate fate,
			   int ready)
{
	struct copy c;
	double end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, NULL) || copy_file("/proc/self/exe", file) ||
	    change_build_id(file) || map_copy(&c, file))
		_exit(1);
	end = now() + 1;
	while (now() < end)
		c.spin(1000000);
	if (fate != STAYS && munmap(c.image, c.size))
		_exit(1);
	if (fate == LINK && (unlink(file) || symlink(other, file)))
		_exit(1);
	if (fate == PROC && mount("/proc/execdomains", file, NULL, MS_BIND, NULL))
		_exit(1);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(1);
}

/*
 * A container's path names a regular file here, too: it is not opened while the process exists,
 * even if the file is not found in the container. There, a file of /proc is not opened either.
 */
TEST_F_TIMEOUT(profile, foreign_file, 120)
{
	char dir[PATH_MAX - 128], file[2][PATH_MAX - 96], there[PATH_MAX], want[64];
	int i, ready[2], watch[2], watch_there;
	enum fate fate;
	struct tool t;
	pid_t pid;
	char c;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	for (i = 0; i < 2; i++) {
		snprintf(file[i], sizeof(file[i]), "%s/file%d", dir, i);
		ASSERT_EQ(0, copy_file("/proc/self/exe", file[i]));
		watch[i] = watch_opens(file[i]);
		if (watch[i] < 0) {
			unlink(file[i]);
			rmdir(dir);
			SKIP(return, "needs CONFIG_INOTIFY_USER");
		}
	}
	for (fate = STAYS; fate <= PROC; fate++) {
		ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
								 "--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		pid = fork();
		if (!pid)
			spin_elsewhere(dir, file[0], file[1], fate, ready[1]);
		close(ready[1]);
		EXPECT_EQ(1, read(ready[0], &c, 1));
		/* From here, the symbolic link leads to file[1]. */
		snprintf(there, sizeof(there), "/proc/%d/root%s", pid, file[0]);
		watch_there = watch_opens(there);
		EXPECT_LE(0, watch_there);
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		end_process(pid);
		close(ready[0]);
		snprintf(want, sizeof(want), "\"outcome\":\"%s\"",
			 fate == STAYS ? "symbolized" : "file not found");
		EXPECT_NE(NULL, find_frame(t.out, file[0], want)) TH_LOG("%s: %s", want, t.errors);
		tool_free(&t);
		EXPECT_EQ(fate == STAYS, count_opens(watch_there) > 0) TH_LOG("fate %d", fate);
		close(watch_there);
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(0, count_opens(watch[i])) TH_LOG("fate %d, file %d", fate, i);
		}
	}
	for (i = 0; i < 2; i++) {
		/* Control: this open is seen. */
		close(open(file[i], O_RDONLY | O_CLOEXEC));
		EXPECT_EQ(1, count_opens(watch[i]));
		close(watch[i]);
		unlink(file[i]);
	}
	rmdir(dir);
}

/* Make @path a file for @machine, where bpfprov_cli_spin() has this name, and no size. */
static int rename_spin(const char *path, int machine, const char *name)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), err = -1;
	const ElfW(Shdr) *sections, *s;
	ElfW(Sym) *sym, *end;
	struct stat st;
	ElfW(Ehdr) *e;
	char *names;

	e = fd < 0 || fstat(fd, &st) ? MAP_FAILED :
	    mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (e == MAP_FAILED)
		return -1;
	e->e_machine = machine;
	sections = (void *)e + e->e_shoff;
	for (s = sections; s < sections + e->e_shnum; s++) {
		if (s->sh_type != SHT_SYMTAB)
			continue;
		names = (char *)e + sections[s->sh_link].sh_offset;
		sym = (void *)e + s->sh_offset;
		for (end = (void *)sym + s->sh_size; sym < end; sym++) {
			if (strcmp(names + sym->st_name, "bpfprov_cli_spin"))
				continue;
			strcpy(names + sym->st_name, name);
			sym->st_size = 0;
			sym->st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE);
			err = 0;
		}
	}
	munmap(e, st.st_size);
	return err;
}

/* A mapping symbol marks code or data, and is not the name of a function. */
TEST_F(profile, mapping_symbols)
{
	static const struct {
		int machine;
		const char *name;
		bool used;
	} cases[] = {
		{ EM_AARCH64, "$x", false },
		{ EM_AARCH64, "$d.12", false },
		{ EM_RISCV, "$xrv64i2p1", false },
		{ EM_RISCV, "$x", false },
		/* Controls: a name that is longer, and one of another machine. */
		{ EM_AARCH64, "$xx", true },
		{ EM_AARCH64, "$xrv64i2p1", true },
		{ EM_X86_64, "$x", true },
	};
	char dir[PATH_MAX - 128], file[ARRAY_LEN(cases)][PATH_MAX - 64], want[128];
	pid_t pid[ARRAY_LEN(cases)];
	struct tool t;
	size_t i;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(file[i], sizeof(file[i]), "%s/file%zu", dir, i);
		ASSERT_EQ(0, copy_file("/proc/self/exe", file[i]));
		/* Otherwise they all have the same build ID. */
		ASSERT_EQ(0, drop_notes(file[i]));
		ASSERT_EQ(0, rename_spin(file[i], cases[i].machine, cases[i].name));
		pid[i] = spawn_mapped(file[i]);
		ASSERT_LT(0, pid[i]);
	}
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	for (i = 0; i < ARRAY_LEN(cases); i++)
		EXPECT_TRUE(wait_for_cpu_time(pid[i], 0.3));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		end_process(pid[i]);
		snprintf(want, sizeof(want), "\"outcome\":\"%s",
			 cases[i].used ? "symbolized\",\"symbol\":\"" : "no symbol\"");
		if (cases[i].used)
			strcat(strcat(want, cases[i].name), "\"");
		EXPECT_NE(NULL, find_frame(t.out, file[i], want))
			TH_LOG("%s: no %s: %s", file[i], want, t.errors);
		unlink(file[i]);
	}
	tool_free(&t);
	rmdir(dir);
}

/* The owner of a file chooses the names in it: none of them makes a frame of the kernel. */
TEST_F(profile, name_with_brackets)
{
	char dir[PATH_MAX - 128], file[PATH_MAX - 64];
	struct tool t;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/file", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", file));
	/* Otherwise, this program is another file with this build ID. */
	ASSERT_EQ(0, drop_notes(file));
	ASSERT_EQ(0, rename_spin(file, EM_X86_64, "forged_[k] 9.9"));
	pid = spawn_mapped(file);
	ASSERT_LT(0, pid);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "3", "-p", PID(pid))));
	end_process(pid);
	/* Nor does one end in a second number of samples. */
	EXPECT_LT(0, sum_counts(t.out, ";forged_(k)_9.9 ")) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.out, "forged_[k]"));
	tool_free(&t);
	unlink(file);
	rmdir(dir);
}

/* A process that maps @file, runs it for a moment, and ends. It stays a zombie. */
static int spin_shortly(const char *file)
{
	siginfo_t info = {};
	pid_t pid = fork();
	struct copy c;

	if (!pid) {
		if (map_copy(&c, file))
			_exit(1);
		c.spin(1);
		_exit(0);
	}
	return waitid(P_PID, pid, &info, WEXITED | WNOWAIT) || info.si_code != CLD_EXITED ||
	       info.si_status ? -1 : 0;
}

/*
 * In a new mount namespace, run a copy of this program. Other processes there map it as well, two
 * before and two after this one. With @gone, it is then deleted.
 */
static void spin_as_server(const char *dir, const char *file, bool gone, int ready)
{
	struct copy c;
	double end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* So that the records are read in their order. */
	if (pin_to_cpu(0) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, NULL) || copy_file("/proc/self/exe", file) ||
	    change_build_id(file) || spin_shortly(file) || spin_shortly(file) ||
	    map_copy(&c, file))
		_exit(1);
	for (end = now() + 1; now() < end;)
		c.spin(1000000);
	if (spin_shortly(file) || spin_shortly(file) || (gone && unlink(file)))
		_exit(1);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(1);
}

/*
 * A server in a container still runs, and other processes that mapped the same file there have
 * ended: the file is found through the server.
 */
TEST_F(profile, earlier_process)
{
	char dir[PATH_MAX - 64], file[PATH_MAX - 32];
	int gone, ready[2];
	struct tool t;
	pid_t pid;
	char c;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/file", dir);
	for (gone = 0; gone < 2; gone++) {
		ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
								 "--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		pid = fork();
		if (!pid)
			spin_as_server(dir, file, gone, ready[1]);
		close(ready[1]);
		EXPECT_EQ(1, read(ready[0], &c, 1));
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		end_process(pid);
		close(ready[0]);
		EXPECT_NE(NULL, find_frame(t.out, file, "\"outcome\":\"symbolized\""))
			TH_LOG("gone %d: %s", gone, t.errors);
		tool_free(&t);
	}
	rmdir(dir);
}

/*
 * A program and a copy of it have the same build ID. The one that was mapped first is deleted: the
 * names are those of the other one.
 */
TEST_F(profile, second_path)
{
	char dir[PATH_MAX - 64], decoy[PATH_MAX - 32], service[PATH_MAX - 32];
	int status = -1;
	struct tool t;
	pid_t pid;

	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(decoy, sizeof(decoy), "%s/decoy", dir);
	snprintf(service, sizeof(service), "%s/service", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", decoy));
	/* Otherwise, this program is a third file with this build ID. */
	ASSERT_EQ(0, change_build_id(decoy));
	ASSERT_EQ(0, copy_file(decoy, service));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* So that the records are read in their order. */
	ASSERT_EQ(0, pin_to_cpu(0));
	pid = spawn_spinner(decoy, 100);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, unlink(decoy));
	pid = spawn_spinner(service, 1000);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	/* No other process runs this function. */
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, find_frame(t.out, service, "\"outcome\":\"file not found\""));
	EXPECT_EQ(NULL, find_frame(t.out, decoy, "\"outcome\":\"file not found\""))
		TH_LOG("only the deleted file was tried");
	tool_free(&t);
	unlink(service);
	rmdir(dir);
}

/* A process that maps @file as soon as it is told to, and runs it. */
static void spin_later(const char *file, int begin)
{
	struct copy c;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pin_to_cpu(0) || read(begin, &byte, 1) != 1 || map_copy(&c, file))
		_exit(1);
	for (;;)
		c.spin(1000000);
}

/*
 * A process maps a file that has the build ID of a program, and other symbols, before the program
 * is run: they do not name frames of the program if it is sampled with -p.
 */
TEST_F(profile, file_of_other_process)
{
	char dir[PATH_MAX - 64], forged[PATH_MAX - 32], own[PATH_MAX - 32];
	int begin[2], all;
	pid_t pid, other;
	struct tool t;

	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(forged, sizeof(forged), "%s/forged", dir);
	snprintf(own, sizeof(own), "%s/own", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", own));
	/* Otherwise, this program is a third file with this build ID. */
	ASSERT_EQ(0, change_build_id(own));
	ASSERT_EQ(0, copy_file(own, forged));
	ASSERT_EQ(0, rename_spin(forged, EM_X86_64, "forged"));
	/* The second time, without -p, is a control. */
	for (all = 0; all < 2; all++) {
		ASSERT_EQ(0, pipe2(begin, O_CLOEXEC));
		pid = fork();
		if (!pid)
			spin_later(own, begin[0]);
		ASSERT_LT(0, pid);
		ASSERT_EQ(0, tool_start_to(&t, NULL, false,
					   ARGS("profile", "-F", "199", "-d", "60", "--format",
						"json", all ? "-a" : "-p",
						all ? NULL : PID(pid))));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		/* So that the records are read in their order. */
		ASSERT_EQ(0, pin_to_cpu(0));
		other = spawn_mapped(forged);
		ASSERT_LT(0, other);
		EXPECT_EQ(1, write(begin[1], "", 1));
		EXPECT_TRUE(wait_for_cpu_time(pid, 1));
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		/* Its file could be opened until the end. */
		end_process(other);
		end_process(pid);
		EXPECT_EQ(all, !!strstr(t.out, "\"symbol\":\"forged\""))
			TH_LOG("all: %d, %s", all, t.errors);
		EXPECT_EQ(!all, !!find_frame(t.out, own, "\"outcome\":\"symbolized\"," SPIN_JSON))
			TH_LOG("all: %d, %s", all, t.errors);
		tool_free(&t);
		close(begin[0]);
		close(begin[1]);
	}
	unlink(own);
	unlink(forged);
	rmdir(dir);
}

/* The soft limit of open files is lower than the number of CPUs and the hard one: it is raised. */
TEST_F(profile, soft_limit)
{
	static char *cases[][6] = {
		{ "events", "-d", "1" },
		{ "profile", "-d", "1", "--format", "json" },
	};
	struct tool t;
	size_t i;

	/* The lowest one with which it starts. */
	for (soft_files = 3; soft_files < 32; soft_files++) {
		int rc = tool_run(&t, ARGS("--version"));

		tool_free(&t);
		if (rc == OK)
			break;
	}
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		EXPECT_EQ(OK, tool_run(&t, cases[i])) TH_LOG("%s: %s", cases[i][0], t.errors);
		tool_free(&t);
	}
}

/* Replace @path by a copy of this program that has the same inode number. */
static int reuse_inode(const char *path)
{
	double end = now() + 20 * timeout_scale();
	struct stat old, st;

	if (stat(path, &old))
		return -1;
	do {
		if (unlink(path) || copy_file("/proc/self/exe", path) || stat(path, &st))
			return -1;
	} while (st.st_ino != old.st_ino && now() < end);
	return st.st_ino == old.st_ino ? 0 : -1;
}

enum reuse { KEPT, REUSED, MAPPED };

/*
 * Run a file without a build ID. Then, if it is not KEPT, unmap it, and replace it by another
 * one with the same inode number, which is mapped if it is MAPPED.
 */
static void spin_reused(const char *file, enum reuse reuse, int ready)
{
	struct copy c;
	double end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (map_copy(&c, file))
		_exit(1);
	end = now() + 1;
	while (now() < end)
		c.spin(1000000);
	/* Nothing else gets this address, at which samples may still be looked up. */
	if (reuse != KEPT) {
		c.image = mmap(c.image, c.size, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		if (c.image == MAP_FAILED || reuse_inode(file))
			_exit(1);
	}
	if (reuse == MAPPED && map_copy(&c, file))
		_exit(1);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(1);
}

/* Another file has the inode of a file without a build ID, and its path: its names are not used. */
TEST_F_TIMEOUT(profile, reused_inode, 120)
{
	static const char * const outcomes[] = {
		[KEPT] = "symbolized",
		[REUSED] = "file without build ID not found",
		[MAPPED] = "file without build ID not found",
	};
	char want[64];
	struct mounted m;
	enum reuse reuse;
	int err, ready[2];
	struct tool t;
	pid_t pid;
	char c;

	err = mount_copy(&m, FS_EXT4_128, false);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_EXT4_128));
	ASSERT_EQ(0, err);
	for (reuse = KEPT; reuse <= MAPPED; reuse++) {
		ASSERT_EQ(0, copy_file("/proc/self/exe", m.file));
		ASSERT_EQ(0, drop_notes(m.file));
		ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
								 "--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		pid = fork();
		if (!pid)
			spin_reused(m.file, reuse, ready[1]);
		close(ready[1]);
		EXPECT_EQ(1, read(ready[0], &c, 1));
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		end_process(pid);
		close(ready[0]);
		snprintf(want, sizeof(want), "\"outcome\":\"%s\"", outcomes[reuse]);
		EXPECT_NE(NULL, find_frame(t.out, m.file, want)) TH_LOG("%s: %s", want, t.errors);
		EXPECT_EQ(reuse == KEPT,
			  !!find_frame(t.out, m.file, "\"outcome\":\"symbolized\""))
			TH_LOG("case %d", reuse);
		tool_free(&t);
		unlink(m.file);
	}
	EXPECT_EQ(0, unmount_copy(&m));
}

/* Run a copy of this program that is mapped in place of another copy, which was never run. */
static void spin_in_place(const char *first, const char *second, int ready)
{
	int fd = open(second, O_RDONLY | O_CLOEXEC);
	struct copy c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* So that the records are read in their order. */
	if (pin_to_cpu(0) || map_copy(&c, first) || munmap(c.image, c.size) ||
	    mmap(c.image, c.size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
		 0) != c.image ||
	    write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		c.spin(1000000);
}

/*
 * When the record of a file without a build ID is read, another file is mapped in its place: the
 * build ID is that of the second file only.
 */
TEST_F(profile, replaced_mapping)
{
	char dir[PATH_MAX - 64], file[2][PATH_MAX - 32], c;
	int i, ready[2];
	struct tool t;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	for (i = 0; i < 2; i++) {
		snprintf(file[i], sizeof(file[i]), "%s/file%d", dir, i);
		ASSERT_EQ(0, copy_file("/proc/self/exe", file[i]));
	}
	ASSERT_EQ(0, drop_notes(file[0]));
	ASSERT_EQ(0, change_build_id(file[1]));
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* It reads the record of the first file when the second one is mapped. */
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	pid = fork();
	if (!pid)
		spin_in_place(file[0], file[1], ready[1]);
	close(ready[1]);
	EXPECT_EQ(1, read(ready[0], &c, 1));
	close(ready[0]);
	kill(t.pid, SIGCONT);
	EXPECT_TRUE(wait_for_cpu_time(pid, 1));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	end_process(pid);
	EXPECT_EQ(NULL, find_frame(t.out, file[0], ""))
		TH_LOG("frames of a file that was not run");
	EXPECT_NE(NULL, find_frame(t.out, file[1], "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	for (i = 0; i < 2; i++)
		unlink(file[i]);
	rmdir(dir);
}

/* No child process can be created to read files: that is the reason that is counted. */
TEST_F(profile, no_child)
{
	struct rlimit limit;
	struct target target;
	struct tool t;

	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", NULL));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
							 PID(target.pid), "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	EXPECT_TRUE(wait_for_cpu_time(target.pid, 1));
	/* It gets no further descriptors, as for the socket to the child. */
	ASSERT_EQ(0, prlimit(t.pid, RLIMIT_NOFILE, NULL, &limit));
	limit.rlim_cur = 0;
	ASSERT_EQ(0, prlimit(t.pid, RLIMIT_NOFILE, &limit, NULL));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, "a child process, to read files: "));
	EXPECT_LT(0, count_outcome(t.out, "not looked up: out of memory or processes"))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(0, count_outcome(t.out, "not looked up: interrupted"));
	tool_free(&t);
	target_end(&target);
}

/* A debug file without a build ID is found by its checksum, which is not read of any size. */
TEST_F_TIMEOUT(profile, debug_link, 120)
{
	char debug[PATH_MAX];
	struct target target;
	struct stat st;
	struct tool t;

	if (access("bpfprov_cli.stripped", R_OK) || access("bpfprov_cli.debug", R_OK))
		SKIP(return, "no bpfprov_cli.stripped or bpfprov_cli.debug");
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", drop_notes));
	snprintf(debug, sizeof(debug), "%s/bpfprov_cli.debug", target.dir);
	ASSERT_EQ(0, copy_file("bpfprov_cli.debug", debug));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(target.pid),
					"--format", "json")));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON)) TH_LOG("%s", t.errors);
	tool_free(&t);
	/* A longer file has another checksum. */
	ASSERT_EQ(0, stat(debug, &st));
	ASSERT_EQ(0, truncate(debug, st.st_size + 1));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(target.pid),
					"--format", "json")));
	EXPECT_LT(0, count_outcome(t.out, "no symbol")) TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.out, SPIN_JSON));
	tool_free(&t);
	/* It is sparse. Reading it takes hours. */
	ASSERT_EQ(0, truncate(debug, 8LL << 40));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(target.pid),
					"--format", "json")));
	EXPECT_LT(0, count_outcome(t.out, "no symbol")) TH_LOG("%s", t.errors);
	EXPECT_EQ(0, count_outcome(t.out, "file over the limits of time or memory"))
		TH_LOG("all of it is read: %s", t.errors);
	tool_free(&t);
	unlink(debug);
	target_end(&target);
}

/*
 * Give @path a symbol table in which bpfprov_cli_spin() is the only symbol, is 1 MiB long, and has
 * a name of @len bytes. @empty entries follow it.
 */
static int replace_symbols(const char *path, size_t len, size_t empty)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), i, err = -1;
	char *old = MAP_FAILED, *name = malloc(len + 1);
	Elf64_Sym *sym, table[2] = {};
	Elf64_Shdr *s, *names;
	struct stat st = {};
	Elf64_Ehdr *e;
	off_t at;

	if (fd < 0 || !name || fstat(fd, &st))
		goto out;
	old = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (old == MAP_FAILED)
		goto out;
	e = (void *)old;
	s = (void *)old + e->e_shoff;
	for (i = 0; i < e->e_shnum && s->sh_type != SHT_SYMTAB; i++)
		s++;
	if (i == e->e_shnum)
		goto out;
	names = (Elf64_Shdr *)(old + e->e_shoff) + s->sh_link;
	for (sym = (void *)old + s->sh_offset; strcmp(old + names->sh_offset + sym->st_name,
						      "bpfprov_cli_spin");)
		sym++;
	table[1] = *sym;
	table[1].st_name = 1;
	table[1].st_size = 1 << 20;
	memset(name, 'n', len);
	name[len] = 0;
	at = (st.st_size + 7) & ~7UL;
	/* The first byte of the names is 0. The end is sparse. */
	if (pwrite(fd, name, len + 1, at + 1) != (ssize_t)len + 1)
		goto out;
	names->sh_offset = at;
	names->sh_size = len + 2;
	at = (at + len + 2 + 7) & ~7UL;
	s->sh_offset = at;
	s->sh_size = sizeof(table) + empty * sizeof(*sym);
	s->sh_info = 1;
	if (pwrite(fd, table, sizeof(table), at) == sizeof(table) &&
	    !ftruncate(fd, at + s->sh_size))
		err = 0;
out:
	if (old != MAP_FAILED)
		munmap(old, st.st_size);
	free(name);
	close(fd);
	return err ?: change_build_id(path);
}

/* Return addresses of a forged stack, and how many of them differ. */
#define FORGED		120
#define FORGED_RANGE	65536

/* Spin below @stack, which returns to other addresses above @text all the time. */
static noinline void spin_forged(void **stack, char *text)
{
	void **frame = __builtin_frame_address(0);
	unsigned int i, n = 0;

	for (i = 0; i < FORGED; i++)
		stack[2 * i] = i + 1 < FORGED ? &stack[2 * i + 2] : NULL;
	/* The caller's frame, and the return address. */
	WRITE_ONCE(frame[0], stack);
	for (;; n++)
		WRITE_ONCE(stack[2 * (n % FORGED) + 1], text + n % FORGED_RANGE);
}

/* A process with such stacks, in a file with other symbols, until the tool has sampled it. */
static void profile_forged(struct __test_metadata *_metadata, struct tool *t, size_t len,
			   size_t empty)
{
	char dir[PATH_MAX - 128], file[PATH_MAX - 64], byte;
	void *stack[2 * FORGED] = {};
	int ready[2];
	struct copy c;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/image", dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", file));
	ASSERT_EQ(0, replace_symbols(file, len, empty));
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (map_copy(&c, file) || write(ready[1], "", 1) != 1)
			_exit(1);
		spin_forged(stack, (char *)c.spin);
	}
	close(ready[1]);
	EXPECT_EQ(1, read(ready[0], &byte, 1));
	close(ready[0]);
	ASSERT_EQ(0, tool_start_to(t, "/dev/null", false, ARGS("profile", "-F", "199", "-d", "60",
							       "-p", PID(pid))));
	ASSERT_TRUE(tool_says(t, " Hz"));
	EXPECT_TRUE(wait_for_cpu_time(pid, 2));
	kill(t->pid, SIGINT);
	EXPECT_TRUE(ends_within(t, 50)) TH_LOG("it names all frames");
	/* If it does not end. */
	kill(t->pid, SIGINT);
	EXPECT_EQ(OK, tool_end(t));
	end_process(pid);
	unlink(file);
	rmdir(dir);
}

/*
 * A file of any user has a million symbols, so that each of many frames takes long to name: the
 * limit of time is for all of them.
 */
TEST_F_TIMEOUT(profile, many_symbols, 180)
{
	struct tool t;

	profile_forged(_metadata, &t, 8, 1000000);
	EXPECT_NE(NULL, strstr(t.errors, "file over the limits of time or memory"))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "interrupted"));
	tool_free(&t);
}

/* In KiB. Stacks with 40000 different frames take 5 MiB, and the symbols of the kernel more. */
#define MAX_NAMED	(96 * 1024)

/* A name of any length is cut, and kept once for all frames that have it. */
TEST_F(profile, long_name)
{
	struct tool t;
	double kib;

	profile_forged(_metadata, &t, 4095, 0);
	kib = said_number(t.errors, "for the rest, ");
	EXPECT_LT(0, kib);
	EXPECT_GT(MAX_NAMED, kib) TH_LOG("%.0f KiB: %s", kib, t.errors);
	/* Control: the frames have names. */
	EXPECT_NE(NULL, strstr(t.errors, " % of user frames: symbolized")) TH_LOG("%s", t.errors);
	tool_free(&t);
}

/* CPU seconds of children that were waited for. */
static double children_time(void)
{
	struct rusage r;

	if (getrusage(RUSAGE_CHILDREN, &r))
		return 0;
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Files are read in a child process: its time and memory are costs of the tool, too. */
TEST_F_TIMEOUT(profile, child_cost, 120)
{
	double said[2], used[2];
	char debug[PATH_MAX];
	struct target target;
	struct tool t;
	int i;

	if (access("bpfprov_cli.stripped", R_OK) || access("bpfprov_cli.debug", R_OK))
		SKIP(return, "no bpfprov_cli.stripped or bpfprov_cli.debug");
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", drop_notes));
	snprintf(debug, sizeof(debug), "%s/bpfprov_cli.debug", target.dir);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, copy_file("bpfprov_cli.debug", debug));
		/* The checksum is that of all of it. */
		if (i)
			ASSERT_EQ(0, truncate(debug, 512 << 20));
		used[i] = children_time();
		EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-p", PID(target.pid))));
		used[i] = children_time() - used[i];
		said[i] = said_number(t.errors, "to read them, ");
		EXPECT_LT(1024, said_number(t.errors, "KiB of memory, ")) TH_LOG("%s", t.errors);
		tool_free(&t);
		unlink(debug);
	}
	target_end(&target);
	TH_LOG("%.2f s of %.2f, then %.2f s of %.2f", said[0], used[0], said[1], used[1]);
	EXPECT_LT(used[0], used[1]);
	EXPECT_LT((used[1] - used[0]) / 2, said[1] - said[0]);
}

/*
 * Another file takes the path of a program: its names are not used. The two differ in the build ID,
 * or, if neither has one, in the inode. Of a program that has ended, only the path is left. That
 * one is on tmpfs, which reports no generation by which the files could differ, too.
 */
TEST_F(profile, replaced_binary)
{
	static const struct {
		bool id, ends;
	} cases[] = { { .id = true }, {}, { .ends = true } };
	char other[PATH_MAX + 8];
	const char *want;
	struct target target;
	struct tool t;
	size_t i;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		if (cases[i].ends)
			setenv("SCRATCH", "/dev/shm", 1);
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "60",
								 "--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		ASSERT_EQ(0, target_start(&target, "/proc/self/exe",
					  cases[i].id ? change_build_id : drop_notes));
		snprintf(other, sizeof(other), "%s.new", target.exe);
		ASSERT_EQ(0, copy_file("bpfprov_cli.stripped", other));
		if (!cases[i].id)
			ASSERT_EQ(0, drop_notes(other));
		ASSERT_EQ(0, rename(other, target.exe));
		EXPECT_TRUE(wait_for_cpu_time(target.pid, 1));
		if (cases[i].ends) {
			end_process(target.pid);
			target.pid = 0;
		}
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		/* A kernel that keeps build IDs keeps none of tmpfs. */
		want = find_frame(t.out, target.exe,
				  "\"outcome\":\"file without build ID not found\"") ?:
		       find_frame(t.out, target.exe,
				  "\"outcome\":\"build ID not kept, and file not found\"");
		if (!cases[i].ends)
			want = strstr(t.out, SPIN_JSON);
		EXPECT_NE(NULL, want) TH_LOG("case %zu: %s", i, t.errors);
		tool_free(&t);
		target_end(&target);
	}
}

/* There are more files than it keeps: those beyond are counted, and have no names. */
TEST_F_TIMEOUT(profile, many_files, 180)
{
	char dir[PATH_MAX - 64], file[PATH_MAX - 32];
	unsigned char id[BUILD_ID_SIZE] = "many";
	struct target target;
	struct tool t;
	double end;
	void *page;
	int i, fd;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/file", dir);
	fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT_EQ(0, ftruncate(fd, 4096));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "600", "--format", "json",
							 "--ring-pages", "4096")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* bpfprov reads one ring after the other: the target's records come last. */
	ASSERT_EQ(0, pin_to_cpu(0));
	/*
	 * One file, with another build ID each time. Some more, as the kernel cannot read one
	 * while the page is being moved or reclaimed.
	 */
	for (i = 0; i < MAX_FILES + 4096; i++) {
		memcpy(id + sizeof(id) - sizeof(i), &i, sizeof(i));
		ASSERT_EQ(0, write_elf(fd, id, 1024));
		page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, page);
		munmap(page, 4096);
	}
	ASSERT_EQ(0, target_start(&target, "/proc/self/exe", change_build_id));
	for (end = now() + 2; now() < end;)
		sched_yield();
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	/* Not because of a full ring. */
	EXPECT_EQ(NULL, strstr(t.errors, "records of mappings or text lost"));
	EXPECT_NE(NULL, strstr(t.errors, " files dropped: too many files")) TH_LOG("%s", t.errors);
	EXPECT_LT(0, count_outcome(t.out, "file dropped: too many files"));
	EXPECT_EQ(NULL, strstr(t.out, target.exe));
	tool_free(&t);
	target_end(&target);
	close(fd);
	unlink(file);
	rmdir(dir);
}

/* A unique copy of this program that a child process executes in a mapping. */
struct image {
	char dir[PATH_MAX - 128], file[PATH_MAX - 64];
	pid_t pid;
};

static int image_start(struct image *m)
{
	m->pid = -1;
	if (scratch_dir(m->dir, sizeof(m->dir)))
		return -1;
	snprintf(m->file, sizeof(m->file), "%s/image", m->dir);
	if (copy_file("/proc/self/exe", m->file) || change_build_id(m->file))
		return -1;
	m->pid = spawn_mapped(m->file);
	return m->pid > 0 ? 0 : -1;
}

static void image_end(struct image *m)
{
	if (m->pid > 0)
		end_process(m->pid);
	unlink(m->file);
	rmdir(m->dir);
}

/* More than the tool searches in a process. */
#define CROWD	5000

/*
 * Likewise, above CROWD other mappings. With @writes, the process keeps the file open for
 * writing.
 */
static int crowd_start(struct image *m, int prot, bool writes)
{
	int fd, i, ready[2];
	uintptr_t at;
	char c;

	m->pid = -1;
	if (scratch_dir(m->dir, sizeof(m->dir)) || pipe2(ready, O_CLOEXEC))
		return -1;
	snprintf(m->file, sizeof(m->file), "%s/image", m->dir);
	if (copy_file("/proc/self/exe", m->file) || change_build_id(m->file))
		return -1;
	m->pid = fork();
	if (!m->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		for (i = 0; i < CROWD; i++) {
			at = (1UL << 32) + i * 65536UL;
			if (mmap((void *)at, 4096, prot, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
				 0) != (void *)at)
				_exit(1);
		}
		if (writes && open(m->file, O_RDWR | O_CLOEXEC) < 0)
			_exit(1);
		spin_mapped(m->file, ready[1]);
	}
	close(ready[1]);
	i = read(ready[0], &c, 1);
	close(ready[0]);
	return i == 1 ? 0 : -1;
}

/* A process with more mappings than are searched is counted. Those of data do not count. */
TEST_F(profile, many_mappings)
{
	static const int prot[] = { PROT_READ, PROT_READ | PROT_EXEC };
	struct image image;
	bool query, by_address;
	struct tool t;
	size_t i;

	query = libbpf_find_vmlinux_btf_id("bpf_task_vma_query", BPF_TRACE_FENTRY) >= 0;
	for (i = 0; i < ARRAY_LEN(prot); i++) {
		ASSERT_EQ(0, crowd_start(&image, prot[i], false));
		EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(image.pid),
						"--format", "json")));
		EXPECT_EQ(!!(prot[i] & PROT_EXEC),
			  !!strstr(t.errors, ": 1 processes have too many mappings"))
			TH_LOG("case %zu: %s", i, t.errors);
		/*
		 * A kernel without bpf_task_vma_query() takes a sample without a build ID if the
		 * lock of the mappings is held. Its address is looked up in /proc, not searched.
		 */
		by_address = !query && !strstr(t.errors, " 0 from /proc later");
		EXPECT_EQ(!(prot[i] & PROT_EXEC) || by_address, !!strstr(t.out, SPIN_JSON))
			TH_LOG("case %zu: %s", i, t.errors);
		tool_free(&t);
		image_end(&image);
	}
}

/*
 * A file that the kernel keeps no build ID of, above more mappings than are searched: they are
 * searched once, and not for each sample.
 */
TEST_F(profile, searched_once)
{
	struct rusage before, after;
	struct image image;
	struct tool t;
	int fd;

	if (libbpf_find_vmlinux_btf_id("bpf_task_vma_query", BPF_TRACE_FENTRY) < 0)
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	ASSERT_EQ(0, crowd_start(&image, PROT_READ | PROT_EXEC, true));
	fd = open(image.file, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, getrusage(RUSAGE_CHILDREN, &before));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "3", "-p",
							 PID(image.pid), "--format", "json")));
	/* Each sample has the header read in again: there is one in 10 ms. */
	while (!has_ended(&t)) {
		posix_fadvise(fd, 0, 4096, POSIX_FADV_DONTNEED);
		usleep(1000);
	}
	EXPECT_EQ(OK, tool_end(&t));
	ASSERT_EQ(0, getrusage(RUSAGE_CHILDREN, &after));
	EXPECT_LT(20, count_outcome(t.out, "build ID not kept, and file not found") +
		      count_outcome(t.out, "build ID not read yet, and file not found"))
		TH_LOG("%s", t.errors);
	/* The tool and its child both wait for each lookup of a mapping. */
	EXPECT_GT(20 * CROWD, after.ru_nvcsw - before.ru_nvcsw);
	TH_LOG("%ld waits", after.ru_nvcsw - before.ru_nvcsw);
	tool_free(&t);
	close(fd);
	image_end(&image);
}

/*
 * The header of the file is not in the page cache when samples are taken, and the process has
 * exited when they are read: all frames are named by the build IDs in the samples.
 */
TEST_F(profile, cold_header)
{
	long long named, all;
	struct image image;
	struct tool t;

	ASSERT_EQ(0, image_start(&image));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
							 PID(image.pid), "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	ASSERT_TRUE(drop_header(image.file));
	ASSERT_TRUE(wait_for_cpu_time(image.pid, 0.3));
	end_process(image.pid);
	image.pid = 0;
	kill(t.pid, SIGINT);
	kill(t.pid, SIGCONT);
	EXPECT_EQ(OK, tool_end(&t));
	named = count_outcome(t.out, "symbolized");
	all = count_outcome(t.out, NULL);
	/* It takes 99 samples per second. */
	EXPECT_LT(10, all) TH_LOG("%s", t.errors);
	/* Its stack has no frame pointers above the leaf. */
	EXPECT_LT(10, named + count_outcome(t.out, "mapping not known"));
	EXPECT_EQ(0, count_outcome(t.out, "mapping not known"))
		TH_LOG("%lld of %lld frames are named", named, all);
	EXPECT_EQ(0, count_outcome(t.out, "file not found"));
	/* The samples had the build IDs: /proc was not needed. */
	EXPECT_EQ(0, said_number(t.errors, " of these by a query, "));
	tool_free(&t);
	image_end(&image);
}

/* Spin in a function that returns to @to, as far as its stack shows. */
static noinline void spin_below(void *to)
{
	void **frame = __builtin_frame_address(0);

	/* No caller's frame, and the return address. */
	WRITE_ONCE(frame[0], NULL);
	WRITE_ONCE(frame[1], to);
	for (;;)
		barrier();
}

/*
 * A child process that maps a unique copy of this program as data. After a byte is written to
 * @go, its stack has a frame there. Neither a record of a mapping nor the scan before sampling
 * has the path.
 */
static int data_start(struct image *m, int *go)
{
	int i, ready[2], start[2];
	struct copy c;
	char byte;

	m->pid = -1;
	if (scratch_dir(m->dir, sizeof(m->dir)) || pipe2(ready, O_CLOEXEC) ||
	    pipe2(start, O_CLOEXEC))
		return -1;
	snprintf(m->file, sizeof(m->file), "%s/image", m->dir);
	if (copy_file("/proc/self/exe", m->file) || change_build_id(m->file))
		return -1;
	m->pid = fork();
	if (!m->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* As in spin_mapped(). */
		prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
		if (map_copy(&c, m->file) || mprotect(c.image, c.size, PROT_READ) ||
		    write(ready[1], "", 1) != 1 || read(start[0], &byte, 1) != 1)
			_exit(1);
		spin_below((void *)c.spin + 16);
	}
	close(ready[1]);
	close(start[0]);
	*go = start[1];
	i = read(ready[0], &byte, 1);
	close(ready[0]);
	return i == 1 ? 0 : -1;
}

/*
 * The sample has the inode of that file only, because the header is not in the page cache: the
 * file is looked up in /proc while the process runs, and else the frame has its true reason.
 */
TEST_F(profile, frame_in_data)
{
	const char *outcome;
	struct image image;
	int gone, go, wr;
	struct tool t;

	for (gone = 0; gone < 2; gone++) {
		ASSERT_EQ(0, data_start(&image, &go));
		ASSERT_TRUE(drop_header(image.file));
		/* The kernel forgets a build ID that it has kept. */
		wr = open(image.file, O_WRONLY | O_CLOEXEC);
		ASSERT_LE(0, wr);
		close(wr);
		ASSERT_EQ(0, tool_start_to(&t, NULL, false,
					   ARGS("profile", "-d", "60", "-p", PID(image.pid),
						"--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		if (gone) {
			kill(t.pid, SIGSTOP);
			waitpid(t.pid, NULL, WUNTRACED);
		}
		ASSERT_EQ(1, write(go, "", 1));
		EXPECT_TRUE(wait_for_cpu_time(image.pid, 0.3));
		if (gone) {
			end_process(image.pid);
			image.pid = 0;
		}
		kill(t.pid, SIGINT);
		kill(t.pid, SIGCONT);
		EXPECT_EQ(OK, tool_end(&t));
		if (gone) {
			outcome = strstr(t.errors, "no task-vma-query") ?
				  "mapping not known" : "build ID not read yet, and file not found";
			EXPECT_LT(0, count_outcome(t.out, outcome))
				TH_LOG("%s: %s", outcome, t.errors);
		} else {
			EXPECT_NE(NULL, find_frame(t.out, image.file,
						   "\"outcome\":\"symbolized\"," SPIN_JSON))
				TH_LOG("%s", t.errors);
		}
		tool_free(&t);
		close(go);
		image_end(&image);
	}
}

/*
 * A build ID that gets into the cache between two lookups in one interrupt: that of the stack,
 * and the query for frames that it has no build ID for. Both read the same cache, so only
 * this shows that the answer of the query is used.
 */
TEST_F(profile, by_query)
{
	struct procmap_query q = { .size = sizeof(q) };
	unsigned long start, end, header = 0;
	char id[64], path[32], line[PATH_MAX];
	struct bpfprov_cli *skel;
	struct image image;
	struct tool t;
	int maps, wr;
	FILE *f;

	if (libbpf_find_vmlinux_btf_id("bpf_task_vma_query", BPF_TRACE_FENTRY) < 0)
		SKIP(return, "this kernel has no bpf_task_vma_query()");
	/* The child process gets the other CPU. */
	if (pin_to_cpu(1))
		SKIP(return, "needs CPUs 0 and 1");
	ASSERT_EQ(0, image_start(&image));
	ASSERT_EQ(0, pin_to_cpu(0));
	snprintf(path, sizeof(path), "/proc/%d/maps", image.pid);
	f = fopen(path, "re");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, image.file))
			continue;
		ASSERT_EQ(2, sscanf(line, "%lx-%lx ", &start, &end));
		header = header ?: start;
		if (strstr(line, " r-xp "))
			break;
	}
	ASSERT_FALSE(feof(f));
	fclose(f);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	skel = bpfprov_cli__open_and_load();
	ASSERT_NE(NULL, skel);
	skel->data->wait_scale = timeout_scale();
	skel->bss->target = image.pid;
	skel->bss->start = start;
	skel->bss->end = end;
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
							 PID(image.pid), "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	ASSERT_EQ(0, bpfprov_cli__attach(skel));
	/* Evict the header, and then forget the build ID: the next stack is without it. */
	ASSERT_TRUE(drop_header(image.file));
	wr = open(image.file, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, wr);
	close(wr);
	while (!READ_ONCE(skel->bss->waiting) && !has_ended(&t))
		sched_yield();
	q.query_addr = header;
	q.build_id_addr = (uintptr_t)id;
	q.build_id_size = sizeof(id);
	EXPECT_EQ(0, ioctl(maps, PROCMAP_QUERY, &q));
	EXPECT_EQ(20, q.build_id_size);
	WRITE_ONCE(skel->bss->filled, true);
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_TRUE(skel->bss->filled_first);
	EXPECT_LT(0, said_number(t.errors, " taken with the sample, "))
		TH_LOG("no build ID came from a query: %s", t.errors);
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON));
	tool_free(&t);
	bpfprov_cli__destroy(skel);
	close(maps);
	image_end(&image);
}

/* Its messages have no reader any more: the file is written, for this user alone. */
TEST_F(profile, no_reader)
{
	mode_t mask = umask(0);
	char dir[PATH_MAX - 64], file[PATH_MAX];
	struct stat st = {};
	struct tool t;
	pid_t pid;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/folded", dir);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "1", "-o", file)));
	umask(mask);
	ASSERT_TRUE(tool_says(&t, " Hz"));
	fclose(t.err);
	t.err = fopen("/dev/null", "re");
	EXPECT_EQ(OK, tool_end(&t));
	end_process(pid);
	EXPECT_EQ(0, stat(file, &st));
	EXPECT_LT(0, st.st_size);
	EXPECT_EQ(0600, st.st_mode & 0777);
	tool_free(&t);
	unlink(file);
	/* And nothing else is left. */
	EXPECT_EQ(0, rmdir(dir));
}

/* The contents of a file; NULL: it cannot be read. */
static char *contents_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st))
		text = calloc(1, st.st_size + 1);
	if (text && pread(fd, text, st.st_size, 0) != st.st_size)
		*text = 0;
	close(fd);
	return text;
}

/* Standard error is closed: the file does not take its place, and has no messages. */
TEST_F(profile, closed_stderr)
{
	static const char end[] = "\n]}\n";
	char dir[PATH_MAX - 64], file[PATH_MAX], *json;
	struct tool t;
	pid_t pid;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(file, sizeof(file), "%s/json", dir);
	no_stderr = true;
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-a", "-d", "1", "--format", "json", "-o",
					file)));
	no_stderr = false;
	end_process(pid);
	tool_free(&t);
	json = contents_of(file);
	ASSERT_NE(NULL, json);
	EXPECT_EQ('{', *json) TH_LOG("%.80s", json);
	EXPECT_EQ(NULL, strstr(json, "bpfprov profile: "));
	ASSERT_LT(strlen(end), strlen(json));
	EXPECT_STREQ(end, json + strlen(json) - strlen(end));
	EXPECT_LT(0, json_number(json, "samples"));
	free(json);
	unlink(file);
	/* And nothing else is left. */
	EXPECT_EQ(0, rmdir(dir));
}

/* Each user frame has one outcome, and the summary counts all of them. */
TEST_F(profile, outcomes)
{
	static const char * const names[] = {
		"symbolized", "no symbol", "file not readable", "file not found",
		"file without build ID not found",
		"build ID not read yet, and file not found",
		"build ID not kept, and file not found", "anonymous memory",
		"not mapped: no frame pointers", "mapping not known",
		"mapping not known: given up", "file dropped: too many files",
		"file over the limits of time or memory", "reading failed",
		"not looked up: interrupted",
		"not looked up: out of memory or processes",
	};
	long long user, counted, all = 0;
	const char *outcomes;
	struct tool t;
	size_t i;
	pid_t pid;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "3", "--format", "json")));
	end_process(pid);
	user = json_number(t.out, "user");
	EXPECT_LT(0, user);
	EXPECT_EQ(user, count_outcome(t.out, NULL));
	outcomes = strstr(t.out, "\"outcomes\":{");
	ASSERT_NE(NULL, outcomes);
	for (i = 0; i < ARRAY_LEN(names); i++) {
		counted = json_number(outcomes, names[i]);
		EXPECT_EQ(counted, count_outcome(t.out, names[i])) TH_LOG("%s", names[i]);
		all += counted;
	}
	EXPECT_EQ(user, all);
	tool_free(&t);
}

/* A process that is a zombie before sampling, or becomes one meanwhile. */
TEST_F(profile, zombie)
{
	struct tool t;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, pid, &(siginfo_t){}, WEXITED | WNOWAIT);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-d", "1", "-p", PID(pid))));
	EXPECT_NE(NULL, strstr(t.errors, "has ended"));
	tool_free(&t);
	waitpid(pid, NULL, 0);

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "20", "-p", PID(pid))));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	kill(pid, SIGKILL);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, "has ended"));
	tool_free(&t);
	waitpid(pid, NULL, 0);
}

static void *write_tid(void *arg)
{
	__atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_RELEASE);
	pause();
	return NULL;
}

/* A thread ID is not a process ID. */
TEST_F(profile, thread)
{
	pthread_t thread;
	struct tool t;
	pid_t tid = 0;

	ASSERT_EQ(0, pthread_create(&thread, NULL, write_tid, &tid));
	while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		sched_yield();
	EXPECT_EQ(USAGE, tool_run(&t, ARGS("profile", "-d", "1", "-p", PID(tid))));
	EXPECT_NE(NULL, strstr(t.errors, "is a thread"));
	EXPECT_NE(NULL, strstr(t.errors, PID(getpid())));
	tool_free(&t);
}

static void *spin_copy(void *arg)
{
	struct copy *c = arg;

	for (;;)
		c->spin(1000000);
	return NULL;
}

/* Run the copy in a second thread. The first thread of the process ends. */
static int headless_start(struct image *m)
{
	double end = now() + 20 * timeout_scale();
	static struct copy c;
	pthread_t thread;

	m->pid = -1;
	if (scratch_dir(m->dir, sizeof(m->dir)))
		return -1;
	snprintf(m->file, sizeof(m->file), "%s/image", m->dir);
	if (copy_file("/proc/self/exe", m->file) || change_build_id(m->file))
		return -1;
	m->pid = fork();
	if (!m->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (map_copy(&c, m->file) || pthread_create(&thread, NULL, spin_copy, &c))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	while (!is_zombie(m->pid) && now() < end)
		sched_yield();
	/* That one has ended; the process has not. */
	return is_zombie(m->pid) && wait_for_cpu_time(m->pid, 0.1) ? 0 : -1;
}

/* /proc/PID of such a process has no mappings, and those of its other threads do. */
TEST_F(maps, exited_leader)
{
	char line[PATH_MAX], addr[32];
	struct image image;
	struct tool t;
	int no_query;

	ASSERT_EQ(0, headless_start(&image));
	for (no_query = 0; no_query < 2; no_query++) {
		EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(image.pid),
						no_query ? "--no-query" : NULL)))
			TH_LOG("%s", t.errors);
		EXPECT_NE(NULL, find_line(t.out, "r-xp", image.file, line, sizeof(line)));
		EXPECT_NE(NULL, find_line(t.out, "r-xp", "/bpfprov_cli", line, sizeof(line)))
			TH_LOG("%s", t.errors);
		/* With the query, the kernel reads the build ID. */
		EXPECT_TRUE(no_query || !strstr(line, " - ")) TH_LOG("%s", line);
		tool_free(&t);
	}
	snprintf(addr, sizeof(addr), "0x%lx", (unsigned long)bpfprov_cli_spin);
	EXPECT_EQ(OK, tool_run(&t, ARGS("maps", PID(image.pid), addr)));
	EXPECT_NE(NULL, strstr(t.out, "/bpfprov_cli"));
	tool_free(&t);
	image_end(&image);
}

/* Likewise, the files of its frames are found. */
TEST_F(profile, exited_leader)
{
	struct image image;
	struct tool t;

	ASSERT_EQ(0, headless_start(&image));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(image.pid), "--format",
					"json")));
	EXPECT_NE(NULL, find_frame(t.out, image.file, "\"outcome\":\"symbolized\"," SPIN_JSON))
		TH_LOG("%s", t.errors);
	EXPECT_EQ(NULL, strstr(t.errors, "has ended"));
	tool_free(&t);
	image_end(&image);
}

/* Threads that have ended, and that their tracer does not reap. */
#define ZOMBIES	1000
/* The files that a process maps in turn, more than are kept of one build ID, and how often. */
#define LINKS	8
#define TURNS	2000

/* Shared with that process. */
struct turns {
	bool go, done;
	char dir[PATH_MAX - 64];
};

static void *end_traced(void *unused)
{
	if (!ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		syscall(SYS_exit, 0);
	_exit(1);
}

static void *map_in_turn(void *arg)
{
	struct turns *s = arg;
	char path[PATH_MAX];
	int i, fd[LINKS];

	for (i = 0; i < LINKS; i++) {
		snprintf(path, sizeof(path), "%s/link%d", s->dir, i);
		fd[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
	while (!__atomic_load_n(&s->go, __ATOMIC_ACQUIRE))
		sched_yield();
	for (i = 0; i < TURNS; i++)
		munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd[i % LINKS], 0),
		       4096);
	__atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
	pause();
	return NULL;
}

/* Its first thread ends as well. */
static void zombies_main(struct turns *s)
{
	pthread_attr_t attr;
	pthread_t thread;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (i = 0; i < ZOMBIES; i++)
		if (pthread_create(&thread, &attr, end_traced, NULL))
			_exit(1);
	if (pthread_create(&thread, NULL, map_in_turn, s))
		_exit(1);
	syscall(SYS_exit, 0);
}

/*
 * Whether a process still runs is found in the same time, however many zombies it has: a user
 * cannot keep the tool from ending.
 */
TEST_F_TIMEOUT(profile, zombie_threads, 120)
{
	double end = now() + 20 * timeout_scale();
	char path[PATH_MAX], link[PATH_MAX];
	struct turns *s;
	struct tool t;
	pid_t pid;
	int i;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, s);
	ASSERT_EQ(0, scratch_dir(s->dir, sizeof(s->dir)));
	snprintf(path, sizeof(path), "%s/link0", s->dir);
	ASSERT_EQ(0, copy_file("/proc/self/exe", path));
	ASSERT_EQ(0, change_build_id(path));
	for (i = 1; i < LINKS; i++) {
		snprintf(link, sizeof(link), "%s/link%d", s->dir, i);
		ASSERT_EQ(0, linkat(AT_FDCWD, path, AT_FDCWD, link, 0));
	}
	pid = fork();
	if (!pid)
		zombies_main(s);
	ASSERT_LT(0, pid);
	while (!is_zombie(pid) && now() < end)
		sched_yield();
	ASSERT_TRUE(is_zombie(pid));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-p", PID(pid),
							 "--ring-pages", "256")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	__atomic_store_n(&s->go, true, __ATOMIC_RELEASE);
	for (end = now() + 20 * timeout_scale(); !__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) &&
	     now() < end;)
		sched_yield();
	EXPECT_TRUE(s->done);
	kill(t.pid, SIGINT);
	kill(t.pid, SIGCONT);
	EXPECT_TRUE(ends_within(&t, 10));
	/* This ends a wait for zombies, too. */
	kill(pid, SIGKILL);
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	/* It has read them all: none was left when its time was over. */
	EXPECT_EQ(NULL, strstr(t.errors, "text lost")) TH_LOG("%s", t.errors);
	tool_free(&t);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	for (i = 0; i < LINKS; i++) {
		snprintf(link, sizeof(link), "%s/link%d", s->dir, i);
		unlink(link);
	}
	EXPECT_EQ(0, rmdir(s->dir));
	munmap(s, sizeof(*s));
}

/* In a PID namespace, PIDs are those of that namespace. */
TEST_F(profile, pid_namespace)
{
	long counts[2] = {};
	int fds[2], status;
	struct tool t;
	pid_t child;

	if (access("/proc/self/ns/pid", F_OK))
		SKIP(return, "needs CONFIG_PID_NS");
	ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
	ASSERT_EQ(0, unshare(CLONE_NEWPID | CLONE_NEWNS));
	child = fork();
	if (!child) {
		pid_t pid, here;

		if (getpid() != 1 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("proc", "/proc", "proc", 0, NULL))
			_exit(1);
		pid = spawn_spinner("/proc/self/exe", 0);
		/* This PID is also in use outside. */
		here = pid;
		if (here > 10)
			_exit(2);
		if (tool_run(&t, ARGS("profile", "-d", "3", "-p", PID(pid))))
			_exit(3);
		counts[0] = sum_counts(t.out, "");
		counts[1] = sum_counts(t.out, ";bpfprov_cli_spin ");
		if (write(fds[1], counts, sizeof(counts)) != sizeof(counts))
			_exit(4);
		end_process(pid);
		_exit(0);
	}
	waitpid(child, &status, 0);
	ASSERT_EQ(0, status);
	ASSERT_EQ(sizeof(counts), read(fds[0], counts, sizeof(counts)));
	TH_LOG("%ld of %ld samples are in the function", counts[1], counts[0]);
	EXPECT_LT(20, counts[1]);
	close(fds[0]);
	close(fds[1]);
}

/* With /proc of another PID namespace, the files of other processes would be read. */
TEST_F(profile, own_proc)
{
	refuses_foreign_proc(_metadata, ARGS("profile", "-d", "1"));
}

/* Closing the terminal acts like Ctrl-C: it leaves the profile and no other file. */
TEST_F(profile, hangup)
{
	char dir[PATH_MAX - 16], path[PATH_MAX];
	struct tool t;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(path, sizeof(path), "%s/out", dir);
	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-o", path)));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	kill(t.pid, SIGHUP);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_EQ(0, access(path, R_OK));
	EXPECT_EQ(1, count_files(dir));
	end_process(pid);
	tool_free(&t);
	unlink(path);
	rmdir(dir);
}

/*
 * A FIFO that another user made in a directory for all would get the profile, with addresses of
 * the kernel. Pipes belong to other users, too, as with sudo.
 */
TEST_F(profile, fifo_of_others)
{
	char dir[PATH_MAX - 64], path[PATH_MAX - 32], out[32];
	int fd, fds[2];
	struct tool t;
	char c;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	ASSERT_EQ(0, chmod(dir, 01777));
	snprintf(path, sizeof(path), "%s/out", dir);
	ASSERT_EQ(0, mkfifo(path, 0666));
	/* Room for all of it: the tool does not wait. */
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_LE(1 << 20, fcntl(fd, F_SETPIPE_SZ, 1 << 20));
	/* Control: the own one gets it. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-p", PID(getpid()), "-d", "1",
					"--format", "json", "-o", path)))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(1, read(fd, &c, 1));
	while (read(fd, out, sizeof(out)) > 0)
		;
	EXPECT_EQ(0, chown(path, 65534, 65534));
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("profile", "-p", PID(getpid()), "-d", "1",
					    "--format", "json", "-o", path)));
	EXPECT_NE(NULL, strstr(t.errors, "FIFO of another user")) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(-1, read(fd, &c, 1));
	EXPECT_EQ(EAGAIN, errno);
	close(fd);

	ASSERT_EQ(0, pipe2(fds, O_CLOEXEC));
	ASSERT_LE(1 << 20, fcntl(fds[1], F_SETPIPE_SZ, 1 << 20));
	EXPECT_EQ(0, fchown(fds[1], 65534, 65534));
	snprintf(out, sizeof(out), "/proc/self/fd/%d", fds[1]);
	ASSERT_EQ(0, tool_start_to(&t, out, false,
				   ARGS("profile", "-p", PID(getpid()), "-d", "1",
					"--format", "json", "-o", "/proc/self/fd/1")));
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	tool_free(&t);
	close(fds[1]);
	EXPECT_EQ(1, read(fds[0], &c, 1));
	close(fds[0]);
	unlink(path);
	EXPECT_EQ(0, rmdir(dir));
}

/* The file is a mount point, so it cannot be replaced: the profile is kept next to it. */
TEST_F(profile, mounted_output)
{
	char dir[PATH_MAX - 64], path[PATH_MAX - 32], line[PATH_MAX + 128], *kept;
	struct stat st = {};
	struct tool t;
	int fd;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount(path, path, NULL, MS_BIND, NULL));
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("profile", "-d", "1", "--format", "json", "-o", path)));
	EXPECT_NE(NULL, find_line(t.errors, "the profile is in ", "", line, sizeof(line)))
		TH_LOG("%s", t.errors);
	kept = strstr(line, dir);
	kept = kept ? strstr(kept + 1, dir) : NULL;
	ASSERT_NE(NULL, kept);
	EXPECT_EQ(0, stat(kept, &st)) TH_LOG("'%s'", kept);
	EXPECT_LT(0, st.st_size);
	/* And nothing else. */
	EXPECT_EQ(2, count_files(dir));
	tool_free(&t);
	EXPECT_EQ(0, umount2(path, MNT_DETACH));
	unlink(kept);
	unlink(path);
	EXPECT_EQ(0, rmdir(dir));
}

/* A symbolic link such as /dev/stdout is kept: its target gets the profile. */
TEST_F(profile, symbolic_link)
{
	char dir[PATH_MAX - 64], path[PATH_MAX - 32], link[PATH_MAX - 32];
	struct stat st;
	struct tool t;
	pid_t pid;
	int fd;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(path, sizeof(path), "%s/out", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(0, symlink("out", link));
	pid = spawn_spinner("/proc/self/exe", 0);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "2", "-p", PID(pid), "-o", link)));
	end_process(pid);
	tool_free(&t);
	EXPECT_EQ(0, lstat(link, &st));
	EXPECT_TRUE(S_ISLNK(st.st_mode));
	EXPECT_EQ(0, stat(path, &st));
	EXPECT_LT(0, st.st_size);
	EXPECT_EQ(2, count_files(dir));
	unlink(link);
	unlink(path);
	rmdir(dir);
}

/* Standard output is a file, to which others append: it is not replaced by a new one. */
TEST_F(profile, output_is_stdout)
{
	static char * const outputs[] = { "/proc/self/fd/1", "-" };
	char dir[PATH_MAX - 64], path[PATH_MAX - 32];
	struct stat old = {}, st = {};
	struct tool t;
	size_t i;
	int fd;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &old));
	for (i = 0; i < ARRAY_LEN(outputs); i++) {
		ASSERT_EQ(0, ftruncate(fd, 0));
		ASSERT_EQ(0, tool_start_to(&t, path, false,
					   ARGS("profile", "-d", "1", "--format", "json", "-o",
						outputs[i])));
		EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
		tool_free(&t);
		EXPECT_EQ(0, stat(path, &st));
		EXPECT_EQ(old.st_ino, st.st_ino) TH_LOG("-o %s replaces it", outputs[i]);
		EXPECT_LT(0, st.st_size) TH_LOG("-o %s", outputs[i]);
		EXPECT_EQ(1, count_files(dir));
	}
	close(fd);
	unlink(path);
	rmdir(dir);
}

/* The target of a symbolic link does not exist: it is made for a profile only. */
TEST_F(profile, dangling_output)
{
	char dir[PATH_MAX - 64], path[PATH_MAX - 32], link[PATH_MAX - 32];
	struct stat st = {};
	struct tool t;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(path, sizeof(path), "%s/out", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	ASSERT_EQ(0, symlink("out", link));
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-G", "there/is/none", "-o", link)));
	tool_free(&t);
	EXPECT_EQ(-1, lstat(path, &st)) TH_LOG("a file without a profile");
	EXPECT_EQ(ENOENT, errno);
	/* The link alone is left. */
	EXPECT_EQ(1, count_files(dir));
	EXPECT_EQ(0, lstat(link, &st));
	EXPECT_TRUE(S_ISLNK(st.st_mode));
	/* Control: a profile gets there. */
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "--format", "json", "-o", link)))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(0, lstat(link, &st));
	EXPECT_TRUE(S_ISLNK(st.st_mode));
	EXPECT_EQ(0, lstat(path, &st));
	EXPECT_TRUE(S_ISREG(st.st_mode));
	EXPECT_EQ(0600, st.st_mode & 0777);
	EXPECT_LT(0, st.st_size);
	EXPECT_EQ(2, count_files(dir));
	/* It stays if the next one fails. */
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-G", "there/is/none", "-o", link)));
	tool_free(&t);
	EXPECT_EQ(0, lstat(path, &st));
	EXPECT_LT(0, st.st_size);
	EXPECT_EQ(2, count_files(dir));
	unlink(path);
	unlink(link);
	rmdir(dir);
}

/*
 * Start the tool, and let it run on at the entry of its first openat() that creates a file, after
 * @link was replaced by a FIFO.
 */
static bool replace_at_open(struct tool *t, const char *link, char **args)
{
	/* struct ptrace_syscall_info, which older glibc calls __ptrace_syscall_info */
	struct {
		__u8 op, pad[3];
		__u32 arch;
		__u64 ip, sp, nr, args[6];
	} info;
	bool replaced = false;
	int status;

	traced = true;
	if (tool_start_to(t, NULL, false, args))
		return false;
	traced = false;
	while (!replaced && waitpid(t->pid, &status, 0) == t->pid && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && info.nr == SYS_openat &&
		    (info.args[2] & (O_CREAT | O_EXCL)) == O_CREAT) {
			replaced = !unlink(link) && !mkfifo(link, 0600);
			ptrace(PTRACE_DETACH, t->pid, NULL, NULL);
			break;
		}
		ptrace(PTRACE_SETOPTIONS, t->pid, NULL, PTRACE_O_TRACESYSGOOD);
		ptrace(PTRACE_SYSCALL, t->pid, NULL, NULL);
	}
	return replaced;
}

/* A dangling link becomes a FIFO when its target is about to be made: it waits for no reader. */
TEST_F(profile, replaced_output)
{
	char dir[PATH_MAX - 64], link[PATH_MAX - 32];
	struct tool t;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(link, sizeof(link), "%s/link", dir);
	ASSERT_EQ(0, symlink("out", link));
	ASSERT_TRUE(replace_at_open(&t, link, ARGS("profile", "-d", "1", "-o", link)));
	EXPECT_TRUE(ends_within(&t, 20)) TH_LOG("it waits for a reader");
	/* If it does not end. */
	kill(t.pid, SIGKILL);
	EXPECT_EQ(FAILED, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_NE(NULL, strstr(t.errors, link)) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(1, count_files(dir));
	unlink(link);
	rmdir(dir);
}

/* A file that another user made in a directory for all: its mode is not kept. */
TEST_F(profile, file_of_others)
{
	char dir[PATH_MAX - 64], path[PATH_MAX - 32];
	struct stat st = {};
	struct tool t;
	int fd;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	ASSERT_EQ(0, chmod(dir, 01777));
	snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, fchown(fd, 65534, 65534));
	EXPECT_EQ(0, fchmod(fd, 0666));
	close(fd);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-o", path)));
	EXPECT_EQ(0, stat(path, &st));
	EXPECT_EQ(0, st.st_uid);
	EXPECT_EQ(0600, st.st_mode & 0777);
	tool_free(&t);
	/* Control: that of the own file is kept. */
	EXPECT_EQ(0, chmod(path, 0606));
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-o", path)));
	EXPECT_EQ(0, stat(path, &st));
	EXPECT_EQ(0606, st.st_mode & 0777);
	tool_free(&t);
	unlink(path);
	EXPECT_EQ(0, rmdir(dir));
}

/*
 * Create a debuginfod-find in @dir that writes a line to the FIFO @asked and runs @then,
 * if it is called for the build ID @id; "*": any.
 */
static int fake_debuginfod(const char *dir, char *asked, size_t size, const char *id,
			   const char *then)
{
	char path[PATH_MAX], script[3 * PATH_MAX];
	const char *old_path = getenv("PATH") ?: "/usr/bin:/bin";
	ssize_t n = -1;
	int fd;

	snprintf(asked, size, "%s/asked", dir);
	snprintf(path, sizeof(path), "%s/debuginfod-find", dir);
	snprintf(script, sizeof(script),
		 "#!/bin/sh\ncase $2 in\n%s) ;;\n*) exit 1 ;;\nesac\necho >'%s'\n%s\n", id, asked,
		 then);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	if (fd >= 0) {
		n = write(fd, script, strlen(script));
		close(fd);
	}
	if (n != (ssize_t)strlen(script) || mkfifo(asked, 0600))
		return -1;
	snprintf(script, sizeof(script), "%s:%s", dir, old_path);
	setenv("PATH", script, 1);
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	return 0;
}

/* Wait until it was called. */
static bool was_asked(const char *asked)
{
	struct pollfd p = { .events = POLLIN };
	bool ok;
	char c;

	p.fd = open(asked, O_RDWR | O_CLOEXEC);
	ok = poll(&p, 1, 60000 * timeout_scale()) == 1 && read(p.fd, &c, 1) == 1;
	close(p.fd);
	return ok;
}

static void end_debuginfod(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/debuginfod-find", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/asked", dir);
	unlink(path);
}

/*
 * The owner truncates a file that libdw has mapped, while its debug file is looked up: the
 * profile is written without its names.
 */
TEST_F(profile, truncated)
{
	char dir[PATH_MAX - 64], asked[PATH_MAX], then[PATH_MAX + 128], id[41];
	struct target target;
	struct tool t;
	double end;
	int fd;

	if (access("bpfprov_cli.stripped", R_OK))
		SKIP(return, "no bpfprov_cli.stripped");
	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", NULL));
	ASSERT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-p", PID(target.pid),
					"--format", "json")));
	json_build_id(t.out, target.exe, id);
	ASSERT_EQ(40, strlen(id));
	tool_free(&t);

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(asked, sizeof(asked), "%s/go", dir);
	ASSERT_EQ(0, mkfifo(asked, 0600));
	snprintf(then, sizeof(then), "read x <'%s'\nexit 1", asked);
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), id, then));
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
							 PID(target.pid), "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	for (end = now() + 1; now() < end;)
		sched_yield();
	end_process(target.pid);
	target.pid = 0;
	EXPECT_TRUE(was_asked(asked));
	EXPECT_EQ(0, truncate(target.exe, 0)) TH_LOG("%s", strerror(errno));
	snprintf(asked, sizeof(asked), "%s/go", dir);
	fd = open(asked, O_WRONLY | O_CLOEXEC);
	EXPECT_EQ(1, write(fd, "\n", 1));
	close(fd);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"file not readable\""));
	EXPECT_NE(NULL, strstr(t.out, "\"samples\":"));
	tool_free(&t);
	unlink(asked);
	target_end(&target);
	end_debuginfod(dir);
	rmdir(dir);
}

/* Send a message to the parent of @pid, by the sockets of @pid. Returns how many there are. */
static int send_as(pid_t pid, const void *msg, size_t size)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), fd, s, sent = 0;
	struct stat st;

	for (fd = 3; pidfd >= 0 && fd < 64; fd++) {
		s = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (s < 0)
			continue;
		if (!fstat(s, &st) && S_ISSOCK(st.st_mode))
			sent += send(s, msg, size, MSG_NOSIGNAL) == (ssize_t)size;
		close(s);
	}
	close(pidfd);
	return sent;
}

/*
 * A file takes the child process over that reads it, and sends an outcome that does not exist,
 * or a name without an end, or ends it: the file is given up. It was not over a limit.
 */
TEST_F_TIMEOUT(profile, bad_answers, 120)
{
	static const struct {
		int outcome;
		char name[4];
	} cases[] = {
		{ INT_MAX, "xxx" },
		{ -1, "xxx" },
		{ 0, { 'x', 'x', 'x', 'x' } },
		{},	/* killed */
	};
	char dir[PATH_MAX - 64], asked[PATH_MAX], id[41];
	struct target target;
	struct tool t;
	pid_t child;
	size_t i;

	if (access("bpfprov_cli.stripped", R_OK))
		SKIP(return, "no bpfprov_cli.stripped");
	unsetenv("DEBUGINFOD_URLS");
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", NULL));
	ASSERT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-p", PID(target.pid),
					"--format", "json")));
	json_build_id(t.out, target.exe, id);
	ASSERT_EQ(40, strlen(id));
	tool_free(&t);

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), id, "exec sleep 1000"));
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
								 PID(target.pid),
								 "--format", "json")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		EXPECT_TRUE(wait_for_cpu_time(target.pid, 1));
		kill(t.pid, SIGINT);
		EXPECT_TRUE(was_asked(asked));
		child = child_of(t.pid, true);
		ASSERT_LT(0, child);
		if (*cases[i].name) {
			EXPECT_EQ(1, send_as(child, &cases[i], sizeof(cases[i])));
		} else {
			EXPECT_EQ(0, kill(child, SIGKILL));
		}
		EXPECT_EQ(OK, tool_end(&t)) TH_LOG("case %zu: %s", i, t.errors);
		EXPECT_LT(0, count_outcome(t.out, "reading failed"))
			TH_LOG("case %zu: %s", i, t.errors);
		EXPECT_EQ(0, count_outcome(t.out, "file over the limits of time or memory"));
		EXPECT_EQ(NULL, strstr(t.out, "\"symbol\":\"xxx"));
		tool_free(&t);
	}
	target_end(&target);
	end_debuginfod(dir);
	rmdir(dir);
}

/*
 * The sampling has ended. Ctrl-C ends the wait for a server: the profile is written without the
 * names.
 */
TEST_F(profile, second_interrupt)
{
	char dir[PATH_MAX - 64], asked[PATH_MAX];
	struct target target;
	struct tool t;
	double end;

	if (access("bpfprov_cli.stripped", R_OK))
		SKIP(return, "no bpfprov_cli.stripped");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), "*", "exec sleep 1000"));
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", NULL));
	unlink(target.exe);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
							 PID(target.pid), "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	for (end = now() + 1; now() < end;)
		sched_yield();
	target_end(&target);
	EXPECT_TRUE(was_asked(asked));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, "interrupted"));
	EXPECT_NE(NULL, strstr(t.out, "\"samples\":"));
	/* The search was not finished, so "not found" is not the reason. */
	EXPECT_NE(NULL, strstr(t.out, "\"outcome\":\"not looked up: interrupted\""));
	EXPECT_EQ(NULL, strstr(t.out, "\"outcome\":\"file not found\""));
	tool_free(&t);
	end_debuginfod(dir);
	rmdir(dir);
}

/* Files are looked up in the order of their samples, as the time for all of them has a limit. */
TEST_F(profile, frequent_files_first)
{
	/* Neither in the order of the files, nor in the reverse one. */
	static const double seconds[] = { 0.5, 3, 1.5 };
	char dir[PATH_MAX - 64], asked[PATH_MAX], order[PATH_MAX - 32], then[PATH_MAX + 32];
	char file[ARRAY_LEN(seconds)][PATH_MAX - 32], id[ARRAY_LEN(seconds)][41], *text;
	const char *at[ARRAY_LEN(seconds)];
	struct tool t;
	int fd, i;
	pid_t pid;

	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(order, sizeof(order), "%s/order", dir);
	snprintf(then, sizeof(then), "echo $2 >>'%s'\nexit 1", order);
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), "*", then));
	/* So that it does not wait for a reader. */
	fd = open(asked, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "199", "-d", "600",
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	for (i = 0; i < (int)ARRAY_LEN(seconds); i++) {
		snprintf(file[i], sizeof(file[i]), "%s/file%d", dir, i);
		ASSERT_EQ(0, copy_file("/proc/self/exe", file[i]));
		ASSERT_EQ(0, flip_build_id(file[i], i + 1));
		pid = spawn_spinner(file[i], 0);
		EXPECT_TRUE(wait_for_cpu_time(pid, seconds[i]));
		end_process(pid);
		unlink(file[i]);
	}
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	text = contents_of(order);
	ASSERT_NE(NULL, text);
	for (i = 0; i < (int)ARRAY_LEN(seconds); i++) {
		json_build_id(t.out, file[i], id[i]);
		ASSERT_NE(0, *id[i]) TH_LOG("file %d: %s", i, t.errors);
		at[i] = strstr(text, id[i]);
		ASSERT_NE(NULL, at[i]) TH_LOG("file %d: %s", i, text);
	}
	EXPECT_LT(at[1], at[2]);
	EXPECT_LT(at[2], at[0]);
	free(text);
	tool_free(&t);
	close(fd);
	unlink(order);
	end_debuginfod(dir);
	rmdir(dir);
}

/* A parent of the tool ignores SIGCHLD: the result of debuginfod-find is still used. */
TEST_F(profile, sigchld_ignored)
{
	char dir[PATH_MAX - 64], exe[PATH_MAX], asked[PATH_MAX];
	struct tool t;
	int fd;

	if (access("bpfprov_cli.stripped", R_OK) || access("bpfprov_cli.debug", R_OK))
		SKIP(return, "no bpfprov_cli.stripped or bpfprov_cli.debug");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), "*",
				     "echo $PWD/bpfprov_cli.debug"));
	/* So that it does not wait for a reader. */
	fd = open(asked, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	snprintf(exe, sizeof(exe), "%s/stripped", dir);
	ignore_sigchld = true;
	ASSERT_EQ(OK, profile_gone(&t, "bpfprov_cli.stripped", exe));
	EXPECT_TRUE(was_asked(asked));
	EXPECT_NE(NULL, strstr(t.out, SPIN_JSON)) TH_LOG("%s", t.errors);
	tool_free(&t);
	close(fd);
	end_debuginfod(dir);
	rmdir(dir);
}

/* Does a child process of @pid wait for a FUSE server? */
static bool child_waits_for_server(pid_t pid)
{
	char path[32], text[64];
	DIR *d = opendir("/proc");
	bool waits = false;
	struct dirent *e;
	FILE *f;

	while (d && !waits && (e = readdir(d))) {
		if (atoi(e->d_name) <= 0 || proc_status(atoi(e->d_name), "PPid") != pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/wchan", atoi(e->d_name));
		f = fopen(path, "re");
		if (f && fgets(text, sizeof(text), f))
			waits = strstr(text, "fuse") || strstr(text, "request_wait");
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return waits;
}

/*
 * The tool is stopped while it waits for a file, for longer than the limit of ten seconds for its
 * names, and continued. The results that are there by then are used.
 */
TEST_F_TIMEOUT(profile, stopped, 120)
{
	struct mounted m;
	struct tool t;
	bool waits;
	double end;
	pid_t pid;
	int err;

	err = mount_copy(&m, FS_FUSE, true);
	if (err == -EOPNOTSUPP)
		SKIP(return, "%s", fs_needs(FS_FUSE));
	ASSERT_EQ(0, err);
	pid = spawn_short_calls(m.file);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p", PID(pid),
							 "--format", "json")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	EXPECT_TRUE(wait_for_cpu_time(pid, 1));
	fuse_stop(true);
	kill(t.pid, SIGINT);
	end = now() + 20 * timeout_scale();
	do
		waits = child_waits_for_server(t.pid);
	while (!waits && now() < end);
	EXPECT_TRUE(waits);
	kill(t.pid, SIGSTOP);
	waitpid(t.pid, NULL, WUNTRACED);
	fuse_stop(false);
	for (end = now() + 10.5; now() < end;)
		poll(NULL, 0, 100);
	kill(t.pid, SIGCONT);
	EXPECT_EQ(OK, tool_end(&t));
	/* The server has no answer to statfs(), so the file is not opened. */
	EXPECT_LT(0, count_outcome(t.out, "file not found")) TH_LOG("%s", t.errors);
	EXPECT_EQ(0, count_outcome(t.out, "file over the limits of time or memory"))
		TH_LOG("%s", t.errors);
	tool_free(&t);
	end_process(pid);
	EXPECT_EQ(0, unmount_copy(&m));
}

/* The number in a line that is written to the FIFO; -1: none. */
static pid_t read_pid(const char *fifo)
{
	FILE *f = fopen(fifo, "re");
	pid_t pid = -1;

	if (f && fscanf(f, "%d", &pid) != 1)
		pid = -1;
	if (f)
		fclose(f);
	return pid;
}

/*
 * The tool is killed, or ends itself after a third signal, while it waits for a server:
 * debuginfod-find ends, too.
 */
TEST_F_TIMEOUT(profile, helper_ends, 120)
{
	char dir[PATH_MAX - 64], asked[PATH_MAX], fifo[PATH_MAX], then[PATH_MAX + 64];
	struct pollfd p = { .events = POLLIN };
	struct target target;
	int killed, rc;
	struct tool t;
	pid_t helper;

	if (access("bpfprov_cli.stripped", R_OK))
		SKIP(return, "no bpfprov_cli.stripped");
	ASSERT_EQ(0, scratch_dir(dir, sizeof(dir)));
	snprintf(fifo, sizeof(fifo), "%s/pid", dir);
	ASSERT_EQ(0, mkfifo(fifo, 0600));
	snprintf(then, sizeof(then), "echo $$ >'%s'\nexec sleep 1000", fifo);
	ASSERT_EQ(0, fake_debuginfod(dir, asked, sizeof(asked), "*", then));
	ASSERT_EQ(0, target_start(&target, "bpfprov_cli.stripped", NULL));
	for (killed = 0; killed < 2; killed++) {
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-p",
								 PID(target.pid))));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		EXPECT_TRUE(wait_for_cpu_time(target.pid, 1));
		kill(t.pid, SIGINT);
		ASSERT_TRUE(was_asked(asked));
		helper = read_pid(fifo);
		ASSERT_LT(0, helper);
		p.fd = syscall(SYS_pidfd_open, helper, 0);
		ASSERT_LE(0, p.fd);
		/* Control: it does not end before. */
		EXPECT_EQ(0, poll(&p, 1, 0));
		if (killed) {
			kill(t.pid, SIGKILL);
		} else {
			/* The next two come together: the first of them alone ends the wait. */
			kill(t.pid, SIGSTOP);
			waitpid(t.pid, NULL, WUNTRACED);
			kill(t.pid, SIGINT);
			kill(t.pid, SIGTERM);
			kill(t.pid, SIGCONT);
		}
		rc = tool_end(&t);
		EXPECT_TRUE(killed ? rc == -SIGKILL : rc == 128 + SIGINT || rc == 128 + SIGTERM)
			TH_LOG("%d", rc);
		EXPECT_EQ(1, poll(&p, 1, 20000 * timeout_scale()))
			TH_LOG("killed %d: debuginfod-find runs on", killed);
		/* If it does not end. */
		syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0);
		close(p.fd);
		tool_free(&t);
	}
	target_end(&target);
	unlink(fifo);
	end_debuginfod(dir);
	rmdir(dir);
}

/* CAP_BPF and CAP_PERFMON alone suffice for everything they allow. */
TEST_F(profile, few_capabilities)
{
	static char *args[] = { "profile", "-d", "2", NULL };
	static char *big[] = { "profile", "-d", "1", "--ring-pages", "4096", NULL };
	struct tool t;
	pid_t pid;

	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, args));
	EXPECT_EQ(CAP, tool_end(&t));
	tool_free(&t);
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_PERFMON;
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, args));
	EXPECT_EQ(OK, tool_end(&t)) TH_LOG("%s", t.errors);
	EXPECT_LT(0, said_samples(t.errors));
	EXPECT_NE(NULL, strstr(t.errors, "CAP_SYS_ADMIN"));
	tool_free(&t);
	/* Over the limit of locked memory: not reported as a failure to open events. */
	ASSERT_EQ(0, tool_start_to(&t, NULL, true, big));
	EXPECT_EQ(CAP, tool_end(&t));
	EXPECT_EQ(NULL, strstr(t.errors, "perf_event_open"));
	EXPECT_NE(NULL, strstr(t.errors, "--ring-pages"));
	tool_free(&t);
	end_process(pid);
}

TEST_F(profile, cgroup)
{
	char exe[PATH_MAX];
	struct tool t;
	int cgroup;
	pid_t in, out;

	ASSERT_NE(NULL, realpath("/proc/self/exe", exe));
	out = spawn_spinner(exe, 0);
	ASSERT_TRUE(wait_for_exec(out, exe));
	/* This process enters the cgroup. Do not confuse it with the one outside. */
	prctl(PR_SET_NAME, "parent");
	cgroup = cgroup_enter("bpfprov_cli_profile");
	if (cgroup == -EOPNOTSUPP) {
		end_process(out);
		SKIP(return, NEEDS_CGROUP2);
	}
	ASSERT_LE(0, cgroup);
	in = fork();
	if (!in) {
		prctl(PR_SET_NAME, "in_cgroup");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			bpfprov_cli_spin(1000000);
	}
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "5", "-G", "bpfprov_cli_profile")));
	EXPECT_LT(20, sum_counts(t.out, "in_cgroup;"));
	EXPECT_EQ(0, sum_counts(t.out, "bpfprov_cli;"));
	tool_free(&t);
	end_process(in);
	end_process(out);
	/* One that cannot be looked up may exist. */
	EXPECT_EQ(0, fchmod(cgroup, 0700));
	keep_caps = 1ULL << CAP_BPF | 1ULL << CAP_PERFMON | 1ULL << CAP_SYS_ADMIN;
	EXPECT_EQ(0, tool_start_to(&t, NULL, true, ARGS("profile", "-d", "1", "-G",
							"bpfprov_cli_profile/child")));
	EXPECT_EQ(CAP, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, strerror(EACCES))) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(0, fchmod(cgroup, 0755));
	close(cgroup);
	cgroup_leave("bpfprov_cli_profile");
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-G", "there/is/none")));
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-d", "1", "-G", "/sys/fs/cgroup")));
	EXPECT_NE(NULL, strstr(t.errors, "this is the root cgroup")) TH_LOG("%s", t.errors);
	tool_free(&t);
	EXPECT_EQ(GONE, tool_run(&t, ARGS("profile", "-p", PID(vanished()))));
	tool_free(&t);
}

/* The cgroup is removed, and made again: the profile ends, with a message, and has its samples. */
TEST_F(profile, cgroup_removed)
{
	static const char path[] = "/sys/fs/cgroup/bpfprov_cli_removed";
	char procs[64];
	struct tool t;
	int again, err;
	double end;
	pid_t pid;

	if (access("/sys/fs/cgroup/cgroup.procs", F_OK))
		SKIP(return, "needs CONFIG_CGROUPS, and cgroup2 at /sys/fs/cgroup");
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	for (again = 0; again < 2; again++) {
		ASSERT_TRUE(!mkdir(path, 0755) || errno == EEXIST);
		pid = spawn_spinner("/proc/self/exe", 0);
		ASSERT_EQ(0, write_value(procs, PID(pid)));
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "600", "-G",
								 "bpfprov_cli_removed")));
		ASSERT_TRUE(tool_says(&t, " Hz"));
		EXPECT_TRUE(wait_for_cpu_time(pid, 1));
		/* Control: it has not ended before. */
		EXPECT_FALSE(has_ended(&t));
		end_process(pid);
		/* The process that has ended may be there for a while. */
		end = now() + 20 * timeout_scale();
		while ((err = rmdir(path)) && errno == EBUSY && now() < end)
			sched_yield();
		EXPECT_EQ(0, err);
		if (again)
			EXPECT_EQ(0, mkdir(path, 0755));
		EXPECT_TRUE(ends_within(&t, 20)) TH_LOG("again %d", again);
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		EXPECT_NE(NULL, strstr(t.errors, "cgroup bpfprov_cli_removed was removed"))
			TH_LOG("again %d: %s", again, t.errors);
		EXPECT_LT(20, sum_counts(t.out, ";bpfprov_cli_spin "));
		tool_free(&t);
	}
	rmdir(path);
}

/* Replace the contents of a file. */
static int rewrite(int fd, const char *text)
{
	ssize_t len = strlen(text);

	return ftruncate(fd, 0) || pwrite(fd, text, len, 0) != len;
}

/*
 * Modules are loaded, unloaded or replaced while it samples: it reads the symbols again for
 * text that may be of a module. Text beyond the end of a module, or of the kernel, has no
 * name. Here, other files are mounted on /proc/kallsyms and /proc/modules, and the kernel's own
 * text is that of the module, or beyond all of it.
 */
TEST_F(profile, kernel_symbols)
{
#define FIRST	"ffff000000000000 T kernel_text_1\n"
#define ETEXT	"ffff000000000800 T _etext\n"
#define MODULE	"ffff000000001000 t module_text\t[some_module]\n"
#define LARGE	"some_module 281474976702464 0 - Live 0xffff000000001000\n"
#define SMALL	"some_module 4096 0 - Live 0xffff000000001000\n"
#define HIDDEN	"some_module 4096 0 - Live 0x0000000000000000\n"
	static const struct {
		const char *before, *after, *modules;
		const char *in, *not_in;
	} cases[] = {
		{ FIRST ETEXT, FIRST ETEXT MODULE, LARGE, "module_text_[some_module]_[k]",
		  "kernel_text_1" },
		{ FIRST MODULE, FIRST, LARGE, "module_text_[some_module]_[k]", "kernel_text_1" },
		{ FIRST, "ffff000000000000 T kernel_text_2\n", LARGE, ";0xffff", "kernel_text_" },
		{ FIRST MODULE, FIRST MODULE, SMALL, ";0xffff", "module_text" },
		{ FIRST ETEXT, FIRST ETEXT, LARGE, ";0xffff", "_etext" },
		/* Their ends are not known. */
		{ FIRST MODULE, FIRST MODULE, HIDDEN, "module_text_[some_module]_[k]",
		  "kernel_text_1" },
	};
	static const char * const files[] = { "/proc/kallsyms", "/proc/modules" };
	char path[2][32], page[65536];
	struct tool t;
	int fd[2], zero;
	double end;
	size_t i;

	if (access(files[1], R_OK))
		SKIP(return, "needs CONFIG_MODULES");
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, zero);
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	for (i = 0; i < 2; i++) {
		strcpy(path[i], "/tmp/bpfprov_cli.XXXXXX");
		fd[i] = mkstemp(path[i]);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, mount(path[i], files[i], NULL, MS_BIND, NULL));
	}
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		ASSERT_EQ(0, rewrite(fd[0], cases[i].before));
		ASSERT_EQ(0, rewrite(fd[1], cases[i].modules));
		ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60")));
		/* It has read them. */
		ASSERT_TRUE(tool_says(&t, " Hz"));
		ASSERT_EQ(0, rewrite(fd[0], cases[i].after));
		for (end = now() + 1; now() < end;)
			ASSERT_EQ(sizeof(page), read(zero, page, sizeof(page)));
		kill(t.pid, SIGINT);
		EXPECT_EQ(OK, tool_end(&t));
		EXPECT_LT(20, sum_counts(t.out, cases[i].in))
			TH_LOG("case %zu: %s", i, t.errors);
		EXPECT_EQ(0, sum_counts(t.out, cases[i].not_in)) TH_LOG("case %zu", i);
		tool_free(&t);
	}
	for (i = 0; i < 2; i++) {
		umount2(files[i], MNT_DETACH);
		close(fd[i]);
		unlink(path[i]);
	}
	close(zero);
}

/* A program that is loaded while sampling, and unloaded before the lookup of names. */
TEST_F(profile, bpf_program)
{
	struct bpf_test_run_opts opts = { .sz = sizeof(opts), .repeat = 1000 };
	char data[64] = {}, want[64];
	struct tool t;
	uint32_t id;
	double end;
	int fd;

	opts.data_in = data;
	opts.data_size_in = sizeof(data);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-F", "499")));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	fd = load_loop("cli_loop");
	ASSERT_LE(0, fd);
	id = prog_id(fd);
	for (end = now() + 2; now() < end;)
		ASSERT_EQ(0, bpf_prog_test_run_opts(fd, &opts));
	close(fd);
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_LT(50, sum_counts(t.out, "_cli_loop"));
	/* Frames of an interrupt may be on top of it. */
	snprintf(want, sizeof(want), "_cli_loop[%u.0]_[k]", id);
	EXPECT_EQ(sum_counts(t.out, "_cli_loop"), sum_counts(t.out, want)) {
		TH_LOG("%ld of %ld samples of the program have its ID", sum_counts(t.out, want),
		       sum_counts(t.out, "_cli_loop"));
	}
	tool_free(&t);
}

/*
 * Classic filters: their text has no symbol. They fit into a page, after a trampoline. An emulated
 * CPU takes interrupts, and so samples, at branches.
 */
static void run_filters(int ready)
{
	struct sock_filter f[61];
	struct sock_fprog prog = { .len = ARRAY_LEN(f), .filter = f };
	int s[2][2];
	size_t i;

	for (i = 0; i < ARRAY_LEN(f) - 1; i += 2) {
		f[i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 3 + i, 1, 0);
		f[i + 1] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3 + i);
	}
	f[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	for (i = 0; i < 2; i++)
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, s[i]) ||
		    setsockopt(s[i][1], SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
			_exit(1);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (i = 0;; i = !i)
		if (send(s[i][0], "", 1, 0) != 1)
			_exit(1);
}

/* A process that never runs a trampoline has no frame of it, if it runs text right after it. */
TEST_F(profile, text_without_symbol)
{
	int link, ready[2];
	struct tool t;
	pid_t pid;
	char c;

	link = make_trampoline();
	ASSERT_LE(0, link);
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_filters(ready[1]);
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	close(ready[0]);
	ASSERT_EQ(0, tool_start_to(&t, NULL, false, ARGS("profile", "-d", "60", "-F", "499", "-p",
							 PID(pid))));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	/* The slower the kernel, the smaller is the share of the filter in a system call. */
	EXPECT_TRUE(wait_for_cpu_time(pid, 2 * timeout_scale()));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	end_process(pid);
	EXPECT_EQ(0, sum_counts(t.out, "bpf_trampoline_")) TH_LOG("%s", t.errors);
	/* Control */
	EXPECT_LT(5, sum_counts(t.out, ";0xffff")) TH_LOG("%s", t.errors);
	tool_free(&t);
	close(link);
}

/* Count the samples of loops run as "run-ID" whose program has that ID, and @all of them. */
static long count_right(const char *out, long *all)
{
	char line[16384];
	long right = 0, count;
	unsigned int run, id;
	const char *loop;

	*all = 0;
	while ((out = find_line(out, "run-", "_cli_loop", line, sizeof(line)))) {
		loop = strstr(line, "_cli_loop");
		count = strtol(strrchr(line, ' '), NULL, 10);
		*all += count;
		if (sscanf(line, "run-%u;", &run) == 1 &&
		    sscanf(loop, "_cli_loop[%u.0]_[k]", &id) == 1 && run == id)
			right += count;
	}
	return right;
}

/* Few enough that their samples fit into the ring. */
#define REUSES 5

/*
 * Programs that reuse an address, loaded on two CPUs in turn, while the tool is stopped.
 * The thread's name identifies the program of a sample.
 */
TEST_F(profile, reused_text)
{
	struct bpf_test_run_opts opts = { .sz = sizeof(opts), .repeat = 100 };
	struct bpf_prog_info info;
	uint64_t chunks[64] = {}, addr, chunk;
	char data[64] = {}, name[16];
	int fd, i, reuses = 0;
	uint32_t len;
	struct tool t;
	long all, right;
	double end;

	opts.data_in = data;
	opts.data_size_in = sizeof(data);
	/* Loading takes longer on a slow kernel: its samples must not fill the ring. */
	ASSERT_EQ(0, tool_start_to(&t, NULL, false,
				   ARGS("profile", "-F", PID(199 / timeout_scale() ?: 1))));
	ASSERT_TRUE(tool_says(&t, " Hz"));
	ASSERT_EQ(0, kill(t.pid, SIGSTOP));
	/* If no address is reused, the harness ends the test. */
	for (i = 0; reuses < REUSES; i++) {
		if (pin_to_cpu(i % 2))
			SKIP(return, "needs CPUs 0 and 1");
		fd = load_loop("cli_loop");
		ASSERT_LE(0, fd);
		info = (struct bpf_prog_info){
			.nr_jited_ksyms = 1,
			.jited_ksyms = (uintptr_t)&addr,
		};
		len = sizeof(info);
		ASSERT_EQ(0, bpf_prog_get_info_by_fd(fd, &info, &len));
		ASSERT_NE(0, addr);
		/* Text begins at some offset in a chunk of 64 bytes. */
		chunk = addr / 64;
		reuses += chunks[chunk % ARRAY_LEN(chunks)] == chunk;
		chunks[chunk % ARRAY_LEN(chunks)] = chunk;
		snprintf(name, sizeof(name), "run-%u", info.id);
		ASSERT_EQ(0, prctl(PR_SET_NAME, name));
		for (end = now() + 0.02 * timeout_scale(); now() < end;)
			ASSERT_EQ(0, bpf_prog_test_run_opts(fd, &opts));
		ASSERT_EQ(0, prctl(PR_SET_NAME, "bpfprov_cli"));
		close(fd);
		/* Its text is freed after a grace period. */
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	}
	ASSERT_EQ(0, kill(t.pid, SIGCONT));
	kill(t.pid, SIGINT);
	EXPECT_EQ(OK, tool_end(&t));
	EXPECT_NE(NULL, strstr(t.errors, ", 0 lost, 0 dropped"))
		TH_LOG("of %d programs: %s", i, t.errors);
	right = count_right(t.out, &all);
	EXPECT_LT(REUSES, all);
	EXPECT_EQ(all, right)
		TH_LOG("%ld of %ld samples in text that is used again have the ID of their program",
		       right, all);
	tool_free(&t);
}

/* A full disk leaves the old file unchanged. */
TEST_F(profile, full_disk)
{
	char dir[] = "/tmp/bpfprov_cli.XXXXXX", path[64], fill[64], buf[4096] = "old";
	struct tool t;
	pid_t pid;
	int fd;

	/* So that there is something to write. */
	pid = spawn_spinner("/proc/self/exe", 0);
	ASSERT_LT(0, pid);
	ASSERT_NE(NULL, mkdtemp(dir));
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("tmpfs", dir, "tmpfs", 0, "size=64k"));
	snprintf(path, sizeof(path), "%s/out", dir);
	snprintf(fill, sizeof(fill), "%s/fill", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	ASSERT_EQ(3, write(fd, "old", 3));
	close(fd);
	fd = open(fill, O_CREAT | O_WRONLY, 0644);
	while (write(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
	EXPECT_EQ(FAILED, tool_run(&t, ARGS("profile", "-d", "1", "-o", path)));
	EXPECT_NE(NULL, strstr(t.errors, "No space left"));
	tool_free(&t);
	memset(buf, 0, sizeof(buf));
	fd = open(path, O_RDONLY);
	EXPECT_EQ(3, read(fd, buf, sizeof(buf)));
	EXPECT_STREQ("old", buf);
	close(fd);
	/* With room, it is replaced. */
	unlink(fill);
	EXPECT_EQ(OK, tool_run(&t, ARGS("profile", "-d", "1", "-o", path, "--ring-pages", "1")));
	tool_free(&t);
	fd = open(path, O_RDONLY);
	EXPECT_LE(0, read(fd, buf, sizeof(buf)));
	EXPECT_STRNE("old", buf);
	close(fd);
	end_process(pid);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

TEST_HARNESS_MAIN
