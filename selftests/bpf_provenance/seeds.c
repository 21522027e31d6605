// SPDX-License-Identifier: GPL-2.0
/*
 * Not a test: measures what the running kernel does of what the original
 * postings of the four features promised, and prints a line for each:
 *
 *	seed TAB key TAB promise TAB tests that show it TAB what was measured
 *
 * It fails when it could not measure something: no NMI on top of the task, a
 * page that would not leave the page cache, a program that does not load.
 * Needs a directory on a disk-backed file system in $SCRATCH or /var/tmp.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "seeds.h"
#include "seeds.skel.h"

#define NMIS 20
#define ATTEMPTS (20 * NMIS)
#define CGROUP "bpf_provenance_seeds"

static void row(const char *key, const char *promise, const char *tests, const char *measured)
{
	printf("seed\t%s\t%s\t%s\t%s\n", key, promise, tests, measured);
	fflush(stdout);
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "seeds: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

/* --- in the NMI ----------------------------------------------------------- */

extern const char __ehdr_start[];

static struct spinner *map_spinner(int fd)
{
	void *p = mmap(NULL, sizeof(struct spinner), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * The program that NMIs interrupt: this one again, run from a copy on a real
 * disk, whose ELF header leaves the page cache. Nothing reads it again: the
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
	/* Pages that were just read wait in a batch before they can be taken. */
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

static int measure_nmi(void)
{
	struct nmi_seen *seen;
	char dir[200], path[256], text[256];
	struct spinner *s;
	struct seeds *skel;
	int i, err, fd;
	pid_t pid;

	err = scratch_dir(dir, sizeof(dir));
	if (err)
		return fail("scratch directory", err);
	snprintf(path, sizeof(path), "%s/interrupted", dir);
	err = copy_file("/proc/self/exe", path);
	if (err)
		return fail(path, err);
	skel = seeds__open();
	if (!skel)
		return fail("open", errno);
	bpf_program__set_autoload(skel->progs.deny_autobind, false);
	if (seeds__load(skel))
		return fail("load", errno);
	fd = memfd_create("interrupted", 0);
	if (fd < 0 || ftruncate(fd, sizeof(*s)))
		return fail("memfd", errno);
	s = map_spinner(fd);
	if (!s)
		return fail("mmap", errno);
	pid = start_interrupted(path, fd);
	if (pid < 0)
		return fail("start a task to interrupt", pid);
	if (header_resident(path))
		return fail("the ELF header does not leave the page cache", EBUSY);

	seen = &skel->bss->seen;
	skel->bss->target = s->tid;
	skel->links.on_nmi = bpf_program__attach(skel->progs.on_nmi);
	if (!skel->links.on_nmi)
		return fail("attach to nmi_handler", errno);
	for (i = 0; i < ATTEMPTS && READ_ONCE(seen->nmis) < NMIS; i++) {
		spinner_wait(s);
		err = nmi_to_other_cpus();
		if (err)
			return fail("send an NMI", err);
	}
	bpf_link__destroy(skel->links.on_nmi);
	skel->links.on_nmi = NULL;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	rmdir(dir);
	if (seen->nmis < NMIS || !seen->frames)
		return fail("too few NMIs on top of the task", EAGAIN);

	snprintf(text, sizeof(text),
		 "stack from NMI, ELF header not in the page cache: %s user frames have a build ID",
		 !seen->valid ? "0 % of" : seen->valid == seen->frames ? "100 % of" : "some");
	row("buildid",
	    "build ID cached per file, served to stack traces, perf and BPF in any context",
	    "buildid.nmi.cold", text);
	if (seen->walks)
		snprintf(text, sizeof(text), "in NMI: all VMAs are seen in %s NMIs",
			 seen->complete >= seen->nmis ? "all of 20" : "some");
	else
		snprintf(text, sizeof(text),
			 "in NMI: bpf_iter_task_vma_new() is %s in all of %d NMIs",
			 strerrorname_np(-seen->walk_err), NMIS);
	row("task-vma", "open-coded task_vma iteration at sample time",
	    "task_vma.context.nmi.walk", text);
	seeds__destroy(skel);
	munmap(s, sizeof(*s));
	close(fd);
	return 0;
}

/* --- records -------------------------------------------------------------- */

static int measure_records(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.ksymbol = 1,
		.bpf_event = 1,
		.bpf_subprog = 1,
		.watermark = 1,
	};
	size_t page = sysconf(_SC_PAGESIZE), size = 64 * page;
	int fd, events = 0, symbols = 0, subprogs = 0;
	struct perf_event_mmap_page *ring;
	struct seeds *skel;
	uint64_t at, head;
	char text[256];

	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL) {
		attr.bpf_subprog = 0;
		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (fd < 0)
		return fail("perf_event_open", errno);
	ring = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return fail("mmap a ring", errno);
	skel = seeds__open();
	if (!skel)
		return fail("open", errno);
	bpf_program__set_autoload(skel->progs.on_nmi, false);
	bpf_program__set_autoload(skel->progs.deny_bind4, false);
	bpf_program__set_autoload(skel->progs.deny_post_bind4, false);
	bpf_program__set_autoload(skel->progs.deny_autobind, false);
	if (seeds__load(skel))
		return fail("load three subprograms", errno);

	head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
	for (at = ring->data_tail; at < head; ) {
		struct perf_event_header *h = (void *)ring + page + at % size;
		uint16_t *bpf_type = (void *)(h + 1);

		if (h->type == PERF_RECORD_KSYMBOL && h->size > sizeof(*h) + 16 &&
		    strstr((char *)(h + 1) + 16, "subprog"))
			symbols++;
		if (h->type == PERF_RECORD_BPF_EVENT) {
			events += *bpf_type == PERF_BPF_EVENT_PROG_LOAD;
			subprogs += *bpf_type == PERF_BPF_EVENT_SUBPROG_LOAD;
		}
		at += h->size;
	}
	if (!events || symbols < 3)
		return fail("no records of the load", ENODATA);
	snprintf(text, sizeof(text),
		 "3 subprograms: %d records with id, sub_id, tag, address, length and name%s",
		 subprogs, subprogs ? "" : "; KSYMBOL has no id, BPF_EVENT no address");
	row("bpf-event", "one PERF_RECORD_BPF_EVENT per subprogram, which stands alone",
	    "bpf_event.subprog.records", text);
	seeds__destroy(skel);
	munmap(ring, page + size);
	close(fd);
	return 0;
}

/* --- hooks ---------------------------------------------------------------- */

/*
 * Ways to come by a local address in a cgroup that denies all. "bind": names
 * one; "listen": gets one from the kernel.
 */
static const struct way {
	const char *name;
	int type, protocol;
	bool listen;
} ways[] = {
	{ "TCP bind", SOCK_STREAM, IPPROTO_TCP, false },
	{ "UDP bind", SOCK_DGRAM, IPPROTO_UDP, false },
	{ "MPTCP bind", SOCK_STREAM, IPPROTO_MPTCP, false },
	{ "TCP listen without bind", SOCK_STREAM, IPPROTO_TCP, true },
	{ "MPTCP listen without bind", SOCK_STREAM, IPPROTO_MPTCP, true },
	{ "SCTP bind", SOCK_STREAM, IPPROTO_SCTP, false },
	{ "RAW bind", SOCK_RAW, IPPROTO_UDP, false },
	{ "ping bind", SOCK_DGRAM, IPPROTO_ICMP, false },
};

/* 1: the socket has an address, 0: it was refused one, or -errno. */
static int takes_address(const struct way *w)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd, err;

	fd = socket(AF_INET, w->type, w->protocol);
	if (fd < 0)
		return -errno;
	err = w->listen ? listen(fd, 1) : bind(fd, (void *)&addr, sizeof(addr));
	err = err ? -errno : 1;
	close(fd);
	return err == -EPERM ? 0 : err;
}

/* Fills @text; the caller has attached the programs. */
static int try_ways(char *text, size_t size)
{
	char open_ways[256] = "";
	int i, ret, denied = 0;

	for (i = 0; i < (int)ARRAY_LEN(ways); i++) {
		ret = takes_address(&ways[i]);
		if (ret < 0)
			return fail(ways[i].name, ret);
		if (!ret) {
			denied++;
			continue;
		}
		if (*open_ways)
			strcat(open_ways, ", ");
		strcat(open_ways, ways[i].name);
	}
	snprintf(text, size, "hooks that deny all: %d of %zu ways refused; %s%s",
		 denied, ARRAY_LEN(ways), *open_ways ? "open: " : "none open", open_ways);
	return 0;
}

#define PING_GROUPS "/proc/sys/net/ipv4/ping_group_range"

/* Who may open a ping socket. Returns what it was in @old. */
static int set_ping_groups(const char *new, char *old, size_t size)
{
	ssize_t n = 0;
	int fd;

	fd = open(PING_GROUPS, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (old) {
		n = read(fd, old, size - 1);
		if (n > 0)
			old[n] = 0;
	}
	if (n < 0 || pwrite(fd, new, strlen(new), 0) < 0)
		n = -errno;
	close(fd);
	return n < 0 ? n : 0;
}

static int measure_hooks(void)
{
	char text[512], ping_groups[64];
	struct seeds *skel;
	int cgroup, err;

	cgroup = cgroup_enter(CGROUP);
	if (cgroup < 0)
		return fail("cgroup", cgroup);
	err = set_ping_groups("0 0", ping_groups, sizeof(ping_groups));
	if (err) {
		err = fail(PING_GROUPS, err);
		goto out_cgroup;
	}
	skel = seeds__open();
	if (!skel) {
		err = fail("open", errno);
		goto out_groups;
	}
	/* A policy denies all that its kernel lets it deny. */
	bpf_program__set_autoload(skel->progs.deny_autobind, has_autobind());
	if (seeds__load(skel)) {
		err = fail("load", errno);
		goto out_skel;
	}
	skel->links.deny_bind4 = bpf_program__attach_cgroup(skel->progs.deny_bind4, cgroup);
	skel->links.deny_post_bind4 =
		bpf_program__attach_cgroup(skel->progs.deny_post_bind4, cgroup);
	if (has_autobind())
		skel->links.deny_autobind =
			bpf_program__attach_cgroup(skel->progs.deny_autobind, cgroup);
	if (!skel->links.deny_bind4 || !skel->links.deny_post_bind4 ||
	    (has_autobind() && !skel->links.deny_autobind))
		err = fail("attach", errno);
	else
		err = try_ways(text, sizeof(text));
	if (!err && !skel->bss->bind_runs)
		err = fail("no hook ran", ENODATA);
out_skel:
	seeds__destroy(skel);
out_groups:
	set_ping_groups(ping_groups, NULL, 0);
out_cgroup:
	close(cgroup);
	cgroup_leave(CGROUP);
	if (!err)
		row("cgroup-sock", "bind, connect and post-bind hooks that pin a cgroup to one IP",
		    "cgroup_sock.one_ip.scenario", text);
	return err;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "interrupted"))
		return be_interrupted(atoi(argv[2]));
	if (pin_to_cpu(0))
		return fail("pin to CPU 0", EINVAL);
	return measure_nmi() || measure_records() || measure_hooks();
}
