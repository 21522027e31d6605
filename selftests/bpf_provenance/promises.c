// SPDX-License-Identifier: GPL-2.0
/*
 * Not a test: measures how far the running kernel fulfills the original promise of
 * each feature, and prints a line for each:
 *
 *	promise TAB key TAB measurement
 *
 * It fails if something could not be measured: no NMI on top of the task, a page
 * that does not leave the page cache, a program that does not load. It needs a
 * directory on a disk-backed file system in $SCRATCH or /var/tmp.
 *
 * This file has the rows and the task that NMIs interrupt. promises_*.c has the
 * measurement of one feature each.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "common.h"
#include "promises.h"

#define ATTEMPTS (20 * NMIS)

void row(const char *key, const char *measured)
{
	printf("promise\t%s\t%s\n", key, measured);
	fflush(stdout);
}

int fail(const char *what, int err)
{
	fprintf(stderr, "promises: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

/* --- the task that NMIs interrupt ------------------------------------------- */

/* This program again, run from a copy on a disk whose ELF header is not in the page cache. */
struct interrupted {
	char dir[200], path[256];
	struct spinner *s;
	int fd;
	pid_t pid;
};

extern const char __ehdr_start[];

static struct spinner *map_spinner(int fd)
{
	void *p = mmap(NULL, sizeof(struct spinner), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * The copy: its ELF header leaves the page cache, and nothing reads it again, as the
 * program is linked with -z now. Writes to stdout once it is ready.
 */
static int be_interrupted(int spinner_fd)
{
	void *header = (void *)((uintptr_t)__ehdr_start & ~4095UL);
	struct spinner *s = map_spinner(spinner_fd);
	unsigned char resident;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!s || spinner_start(s, 1))
		return 1;
	/* Pages that were just read wait in a batch before they can be reclaimed. */
	for (i = 0; i < 100; i++) {
		if (madvise(header, 4096, MADV_PAGEOUT) ||
		    mincore(header, 4096, &resident))
			return 1;
		if (!(resident & 1))
			break;
		spinner_wait(s);
	}
	if (write(STDOUT_FILENO, "", 1) != 1)
		return 1;
	pause();
	return 0;
}

/* Is the first page of the file in the page cache? Or -errno. */
static int header_resident(const char *path)
{
	unsigned char resident;
	int fd, err = 0;
	void *p;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED || mincore(p, 4096, &resident))
		err = -errno;
	close(fd);
	if (p != MAP_FAILED)
		munmap(p, 4096);
	return err ?: resident & 1;
}

/* Starts the copy and waits until it is ready. */
static pid_t start_interrupted(const char *path, int spinner_fd)
{
	char fd[12], c;
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		return -errno;
	snprintf(fd, sizeof(fd), "%d", spinner_fd);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(path, path, "interrupted", fd, NULL);
		_exit(127);
	}
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		pid = -ECHILD;
	close(fds[0]);
	return pid;
}

static int interrupted_start(struct interrupted *t)
{
	int err;

	err = scratch_dir(t->dir, sizeof(t->dir));
	if (err)
		return fail("scratch directory", err);
	snprintf(t->path, sizeof(t->path), "%s/interrupted", t->dir);
	err = copy_file("/proc/self/exe", t->path);
	if (err)
		return fail(t->path, err);
	t->fd = memfd_create("interrupted", 0);
	if (t->fd < 0 || ftruncate(t->fd, sizeof(*t->s)))
		return fail("memfd", errno);
	t->s = map_spinner(t->fd);
	if (!t->s)
		return fail("mmap", errno);
	t->pid = start_interrupted(t->path, t->fd);
	if (t->pid < 0)
		return fail("start a task to interrupt", t->pid);
	if (header_resident(t->path))
		return fail("the ELF header does not leave the page cache", EBUSY);
	return 0;
}

static int interrupted_nmis(const struct interrupted *t, const unsigned long long *nmis)
{
	int i, err;

	for (i = 0; i < ATTEMPTS && READ_ONCE(*nmis) < NMIS; i++) {
		spinner_wait(t->s);
		err = nmi_to_other_cpus();
		if (err)
			return fail("send an NMI", err);
	}
	return 0;
}

static void interrupted_stop(struct interrupted *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	unlink(t->path);
	rmdir(t->dir);
	munmap(t->s, sizeof(*t->s));
	close(t->fd);
}

int run_in_nmis(const struct bpf_program *prog, pid_t *target, const unsigned long long *nmis)
{
	struct interrupted task;
	struct bpf_link *link;
	int err;

	if (interrupted_start(&task))
		return 1;
	*target = task.s->tid;
	link = bpf_program__attach(prog);
	err = link ? interrupted_nmis(&task, nmis) : fail("attach to nmi_handler", errno);
	bpf_link__destroy(link);
	interrupted_stop(&task);
	if (!err && *nmis < NMIS)
		err = fail("too few NMIs on top of the task", EAGAIN);
	return err;
}

/* Weak: without any promises_*.c there is no such section. */
extern const struct promise *__start_promises[] __attribute__((weak));
extern const struct promise *__stop_promises[] __attribute__((weak));

static int compare(const void *a, const void *b)
{
	const struct promise *const *x = a, *const *y = b;

	return (*x)->order - (*y)->order;
}

int main(int argc, char **argv)
{
	const struct promise *promises[16];
	size_t n = __stop_promises - __start_promises, i;

	if (argc == 3 && !strcmp(argv[1], "interrupted"))
		return be_interrupted(atoi(argv[2]));
	if (pin_to_cpu(0))
		return fail("pin to CPU 0", EINVAL);
	if (n > ARRAY_LEN(promises))
		return fail("number of features", E2BIG);
	memcpy(promises, __start_promises, n * sizeof(promises[0]));
	qsort(promises, n, sizeof(promises[0]), compare);
	for (i = 0; i < n; i++)
		if (promises[i]->measure())
			return 1;
	return 0;
}
