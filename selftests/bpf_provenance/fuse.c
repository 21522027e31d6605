// SPDX-License-Identifier: GPL-2.0
/* A FUSE server with one file, or copies of it, just enough to map and read it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs.h"

#define FILE_NODE 2
#define PAGE 4096U
#define MAX_READ (32 * PAGE)

static int content = -1;
static off_t content_size;
static pid_t server;

/* Shared with the server, which needs @open to answer a read. */
static struct gate {
	sem_t open;
	off_t waiting;		/* offset of the read that waits for @open, or -1 */
	unsigned int reads;
} *gate;
static bool stalled;

void fs_stall(bool stall)
{
	if (!gate || stall == stalled)
		return;
	stalled = stall;
	if (!stall)
		sem_post(&gate->open);
	else
		while (sem_wait(&gate->open) && errno == EINTR)
			;
}

off_t fs_stalled_read(void)
{
	return __atomic_load_n(&gate->waiting, __ATOMIC_ACQUIRE);
}

unsigned int fuse_reads(void)
{
	return __atomic_load_n(&gate->reads, __ATOMIC_SEQ_CST);
}

/* In the server. */
static void wait_while_stalled(off_t offset)
{
	if (sem_trywait(&gate->open)) {
		__atomic_store_n(&gate->waiting, offset, __ATOMIC_RELEASE);
		while (sem_wait(&gate->open) && errno == EINTR)
			;
		__atomic_store_n(&gate->waiting, -1, __ATOMIC_RELEASE);
	}
	sem_post(&gate->open);
}

static void set_attr(struct fuse_attr *attr, uint64_t node)
{
	attr->ino = node;
	attr->mode = node >= FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755;
	attr->size = node >= FILE_NODE ? content_size : 0;
	attr->nlink = 1;
	attr->blksize = PAGE;
}

static void reply(int dev, uint64_t unique, int err, const void *data, size_t size)
{
	struct fuse_out_header out = {
		.len = sizeof(out) + size, .error = -err, .unique = unique,
	};
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, size } };

	if (writev(dev, iov, size ? 2 : 1) < 0)
		_exit(1);
}

/* Serves until unmount, or until the first read of FS_FUSE_HUNG. */
static void serve(int dev, enum own_fs fs)
{
	static char buf[FUSE_MIN_READ_BUFFER + PAGE], data[MAX_READ];
	const struct fuse_in_header *in = (void *)buf;
	const char *arg = (const char *)(in + 1);
	const struct fuse_read_in *rd = (const void *)arg;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
		.max_write = PAGE,
	};
	struct fuse_entry_out entry = { .entry_valid = 3600, .attr_valid = 3600 };
	struct fuse_attr_out attr = { .attr_valid = 3600 };
	struct fuse_statfs_out statfs = {};
	/* A stalled device does not read from the page cache. */
	struct fuse_open_out opened = {
		.open_flags = fs == FS_STALLING || fs == FS_FUSE_SILENT ? FOPEN_DIRECT_IO :
									  FOPEN_KEEP_CACHE,
	};
	ssize_t n;

	while (read(dev, buf, sizeof(buf)) > 0 || errno == EINTR || errno == ENOENT) {
		switch (in->opcode) {
		case FUSE_INIT:
			reply(dev, in->unique, 0, &init, sizeof(init));
			break;
		case FUSE_LOOKUP:
			if (strncmp(arg, "file", 4) || (fs != FS_FUSE_SLOW && arg[4])) {
				reply(dev, in->unique, ENOENT, NULL, 0);
				break;
			}
			entry.nodeid = FILE_NODE + atoi(arg + 4);
			set_attr(&entry.attr, entry.nodeid);
			reply(dev, in->unique, 0, &entry, sizeof(entry));
			break;
		case FUSE_GETATTR:
			set_attr(&attr.attr, in->nodeid);
			reply(dev, in->unique, 0, &attr, sizeof(attr));
			break;
		case FUSE_OPEN:
			reply(dev, in->unique, 0, &opened, sizeof(opened));
			break;
		case FUSE_READ:
			__atomic_fetch_add(&gate->reads, 1, __ATOMIC_SEQ_CST);
			if (fs == FS_FUSE_HUNG)
				pause();
			if (fs == FS_FUSE_SILENT)
				break;
			if (fs == FS_FUSE_SLOW)
				sleep(2);
			if (fs == FS_STALLING)
				wait_while_stalled(rd->offset);
			n = pread(content, data, rd->size < MAX_READ ? rd->size : MAX_READ,
				  rd->offset);
			reply(dev, in->unique, n < 0 ? EIO : 0, data, n < 0 ? 0 : n);
			break;
		case FUSE_STATFS:
			/* For bpfprov, which opens files of known file systems only. */
			if (fs == FS_FUSE_SLOW)
				reply(dev, in->unique, 0, &statfs, sizeof(statfs));
			else
				reply(dev, in->unique, ENOSYS, NULL, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			reply(dev, in->unique, 0, NULL, 0);
			break;
		default:
			reply(dev, in->unique, ENOSYS, NULL, 0);
		}
	}
	_exit(0);
}

int fuse_mount(enum own_fs fs)
{
	char options[64];
	struct stat st;
	int dev;

	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -EOPNOTSUPP;
	gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
	if (gate == MAP_FAILED) {
		gate = NULL;
		close(dev);
		return -ENOMEM;
	}
	sem_init(&gate->open, true, 1);
	gate->waiting = -1;
	content = open("file", O_RDONLY | O_CLOEXEC);
	content_size = fstat(content, &st) ? 0 : st.st_size;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", dev);
	if (mount("fuse", ".", "fuse", 0, options)) {
		close(content);
		close(dev);
		return -errno;
	}
	server = fork();
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(dev, fs);
	}
	close(content);
	close(dev);
	return server < 0 ? -errno : 0;
}

int fuse_mount_stalling(void)
{
	return fuse_mount(FS_STALLING);
}

void fuse_stop(bool stop)
{
	kill(server, stop ? SIGSTOP : SIGCONT);
	waitpid(server, NULL, stop ? WUNTRACED : WCONTINUED);
}

void fuse_end(void)
{
	if (server <= 0)
		return;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	server = 0;
}
