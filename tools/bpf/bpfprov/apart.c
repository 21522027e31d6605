// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpfprov.h"
#include "apart.h"

/* Both are documented in bpfprov.8. */
#define MAX_MEMORY	(256ULL << 20)
#define MAX_FILE	(16ULL << 30)
/* Wait that long for a message; but after TIME_TOTAL of waits in vain, only TIME_SHORT. */
#define TIME_LIMIT	10000
#define TIME_SHORT	100
#define TIME_TOTAL	30000
/* A signal right before poll() does not interrupt it: hence a short timeout. */
#define TIME_POLL	100

static int alive_fd = -1;
static rlim_t base, mapped;	/* bytes: of the child when it began, of files */
static rlim_t before;		/* bytes: of the child when apart_allow() was called */
static off_t allowed;

static rlim_t data_size(void)
{
	unsigned long data = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f) {
		if (fscanf(f, "%*u %*u %*u %*u %*u %lu", &data) != 1)
			data = 0;
		fclose(f);
	}
	return data * sysconf(_SC_PAGESIZE);
}

/* Only the soft limit is changed. */
static bool limit_memory(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit))
		return false;
	limit.rlim_cur = base + MAX_MEMORY + mapped;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_DATA, &limit);
}

bool apart_allow(int fd, bool more)
{
	struct stat st;
	void *at;

	if (alive_fd < 0)
		return true;
	if (fstat(fd, &st) || (uint64_t)st.st_size > MAX_FILE)
		return false;
	/* libelf maps it privately, which counts as data. */
	mapped = (more ? mapped : 0) + st.st_size;
	allowed = st.st_size;
	before = data_size();
	if (!limit_memory())
		return false;
	/* If it cannot be mapped, libelf reads it into memory. */
	at = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (at != MAP_FAILED)
		munmap(at, st.st_size);
	return at != MAP_FAILED || !st.st_size;
}

void apart_mapped(void)
{
	rlim_t now = data_size(), more = now > before ? now - before : 0;

	if (alive_fd >= 0 && more < (rlim_t)allowed) {
		mapped -= allowed - more;
		allowed = more;
		limit_memory();
	}
}

void apart_alive(bool waits)
{
	if (alive_fd >= 0)
		send(alive_fd, &waits, 1, MSG_NOSIGNAL);
}

static void run_child(int fd, void (*fn)(int fd, void *ctx), void *ctx)
{
	int null;

	/* The parent decides: a signal from the terminal does not reach this group. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* A child that is left must not keep events, or a pipe of the parent's output. */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || null < 0)
		_exit(1);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	/* Kernels before 5.9 do not have it. */
	if (((fd > 3 && close_range(3, fd - 1, 0)) || close_range(fd + 1, ~0U, 0)) &&
	    errno != ENOSYS)
		_exit(1);
	alive_fd = fd;
	base = data_size();
	if (!limit_memory())
		_exit(1);
	fn(fd, ctx);
	_exit(0);
}

/* Is there room to abandon another one? */
static bool has_room(struct apart *a)
{
	bool room = false;
	int i;

	for (i = 0; i < APART_ABANDONED; i++) {
		if (a->abandoned[i] && waitpid(a->abandoned[i], NULL, WNOHANG))
			a->abandoned[i] = 0;
		room |= !a->abandoned[i];
	}
	return room;
}

int apart_start(struct apart *a, void (*fn)(int fd, void *ctx), void *ctx)
{
	int fds[2], err;

	if (!has_room(a))
		return -ETIMEDOUT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	a->pid = fork();
	if (!a->pid)
		run_child(fds[1], fn, ctx);
	err = -errno;
	close(fds[1]);
	if (a->pid < 0) {
		a->pid = 0;
		close(fds[0]);
		return err;
	}
	setpgid(a->pid, a->pid);
	a->fd = fds[0];
	return 0;
}

bool apart_is_short(const struct apart *a)
{
	return a->vain >= TIME_TOTAL;
}

long apart_limit(const struct apart *a)
{
	return apart_is_short(a) ? TIME_SHORT : TIME_LIMIT;
}

/*
 * Wait once. Returns the time it took, in ns. If it took longer than the timeout, this process was
 * stopped, as by Ctrl-Z: that is not time of the child.
 */
static uint64_t wait_once(struct apart *a, int timeout, bool *ready)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), max = timeout * NSEC_PER_MSEC, ns;
	struct pollfd p = { .fd = a->fd, .events = POLLIN };

	*ready = poll(&p, 1, timeout) > 0;
	ns = clock_ns(CLOCK_MONOTONIC) - begin;
	if (ns > max) {
		if (a->end)
			a->end += ns - max;
		ns = max;
	}
	a->waited += ns;
	return ns;
}

ssize_t apart_receive(struct apart *a, void *buf, size_t size)
{
	long usual = apart_limit(a), limit = usual;
	bool waits = false, over, ready;
	uint64_t waited = 0;
	ssize_t n;

	while (!interrupted()) {
		over = (waits ? 0 : a->spent) + waited >= limit * NSEC_PER_MSEC ||
		       (a->end && clock_ns(CLOCK_MONOTONIC) >= a->end);
		/* At the end, take a message that is there already. */
		waited += wait_once(a, over ? 0 : TIME_POLL, &ready);
		n = ready ? recv(a->fd, buf, size, 0) : -1;
		if (ready ? n < 0 && errno == EINTR : !over)
			continue;
		/* Another message of apart_alive() does not give more time by then. */
		if (!ready || (over && n == 1)) {
			a->vain += limit;
			return -1;
		}
		if (a->in_total && !waits)
			a->spent += waited;
		if (n != 1)
			return n < 0 ? 0 : n;
		/* apart_alive() */
		waits = *(char *)buf;
		limit = waits ? TIME_LIMIT : usual;
		waited = 0;
	}
	return -1;
}

static void abandon(struct apart *a)
{
	int i;

	for (i = 0; i < APART_ABANDONED; i++) {
		if (!a->abandoned[i]) {
			a->abandoned[i] = a->pid;
			return;
		}
	}
}

void apart_end(struct apart *a)
{
	int i;

	if (!a->pid)
		return;
	/* With debuginfod-find, if it runs. */
	if (kill(-a->pid, SIGKILL))
		kill(a->pid, SIGKILL);
	close(a->fd);
	for (i = 0; i < 100 && !waitpid(a->pid, NULL, WNOHANG); i++)
		poll(NULL, 0, 1);
	if (i == 100)
		abandon(a);
	a->pid = 0;
}

double apart_cpu_time(const struct apart *a)
{
	clockid_t clock;

	return a->pid && !clock_getcpuclockid(a->pid, &clock) ? clock_ns(clock) / 1e9 : 0;
}
