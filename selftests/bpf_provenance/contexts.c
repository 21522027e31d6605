// SPDX-License-Identifier: GPL-2.0
/*
 * The contexts that the other programs of this target rely on, each asserted
 * from inside the BPF program that runs in it:
 *
 *  nmi_on_user_task	a real NMI (SysRq l from another CPU) on top of a task
 *			that spins in user mode; program: raw_tp/nmi_handler
 *  hardirq_on_user_task  a hard interrupt on top of the same task; program:
 *			cpu-clock perf event. It is an hrtimer's, and Linux runs
 *			every hard interrupt with interrupts off
 *  sleepable		task context, preemptible, may fault; program: uprobe.s
 *
 * And one that shows that a killed test leaves no setting changed.
 *
 * These pass on every kernel. If they fail, the results of all other tests are
 * meaningless.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "common.h"
#include "contexts.h"
#include "contexts.skel.h"

/* More than one, so that a single lucky interrupt does not pass for a context. */
#define SAMPLES 20

FIXTURE(contexts)
{
	struct contexts *skel;
	struct bpf_link *link;
	struct spinner spinner;
	int event;
};

FIXTURE_SETUP(contexts)
{
	self->event = -1;
	self->spinner.tid = -1;
	self->skel = contexts__open_and_load();
	ASSERT_NE(NULL, self->skel);
}

FIXTURE_TEARDOWN(contexts)
{
	if (self->spinner.tid > 0)
		spinner_stop(&self->spinner);
	bpf_link__destroy(self->link);
	if (self->event >= 0)
		close(self->event);
	contexts__destroy(self->skel);
}

TEST_F(contexts, nmi_on_user_task)
{
	struct ctx_info *nmi = &self->skel->bss->nmi;

#ifndef __x86_64__
	SKIP(return, "the nmi_handler tracepoint is x86's");
#endif
	if (access("/proc/sysrq-trigger", F_OK))
		SKIP(return, "needs CONFIG_MAGIC_SYSRQ");
	/* SysRq l interrupts all CPUs except the caller's. */
	if (pin_to_cpu(0) || spinner_start(&self->spinner, 1))
		SKIP(return, "needs CPUs 0 and 1");
	self->skel->bss->target = self->spinner.tid;
	self->link = bpf_program__attach(self->skel->progs.on_nmi);
	ASSERT_NE(NULL, self->link);

	ASSERT_EQ(0, nmi_until(&self->spinner, &nmi->runs, SAMPLES));

	bpf_link__destroy(self->link);
	self->link = NULL;
	EXPECT_GE(nmi->runs, SAMPLES);
	EXPECT_EQ(nmi->in_nmi, nmi->runs);
	EXPECT_EQ(0, nmi->in_task);
	EXPECT_TRUE(in_spinner(nmi->user_ip))
		TH_LOG("user ip %llx is not in the spinner", nmi->user_ip);
}

TEST_F(contexts, hardirq_on_user_task)
{
	struct ctx_info *irq = &self->skel->bss->hardirq;

	if (pin_to_cpu(0) || spinner_start(&self->spinner, 1))
		SKIP(return, "needs CPUs 0 and 1");
	self->skel->bss->target = self->spinner.tid;
	self->event = cpu_clock_event(1, 1000 * 1000);
	ASSERT_LE(0, self->event);
	self->link = bpf_program__attach_perf_event(self->skel->progs.on_cpu_clock,
						    self->event);
	ASSERT_NE(NULL, self->link);
	self->event = -1;	/* the link owns it */

	/* The harness times out a test that gets no interrupts. */
	while (READ_ONCE(irq->runs) < SAMPLES)
		usleep(1000);

	bpf_link__destroy(self->link);
	self->link = NULL;
	EXPECT_EQ(irq->in_hardirq, irq->runs);
	EXPECT_EQ(0, irq->in_nmi);
	EXPECT_EQ(0, irq->in_task);
	EXPECT_TRUE(in_spinner(irq->user_ip))
		TH_LOG("user ip %llx is not in the spinner", irq->user_ip);
}

/* Attach point of the sleepable program. */
noinline void sleepable_here(void)
{
	asm volatile("");
}

TEST_F(contexts, sleepable)
{
	struct ctx_info *sl = &self->skel->bss->sleepable;
	char *unread;
	int exe;

	/* A page not yet touched through this mapping: reading it faults. */
	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, exe);
	unread = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, exe, 0);
	close(exe);
	ASSERT_NE(MAP_FAILED, unread);

	self->skel->bss->target = gettid();
	self->skel->bss->unread = unread;
	self->link = bpf_program__attach(self->skel->progs.on_sleepable);
	ASSERT_NE(NULL, self->link);
	sleepable_here();

	barrier();
	EXPECT_EQ(1, sl->runs);
	EXPECT_EQ(1, sl->in_task);
	EXPECT_EQ(1, sl->preemptible);
	/* The page was not mapped in, and the program faulted it in. */
	EXPECT_EQ(-EFAULT, self->skel->data->nofault_err);
	EXPECT_EQ(0, self->skel->data->read_err);
	EXPECT_EQ('\x7f', self->skel->bss->read_first_byte);
	munmap(unread, 4096);
}

/* As the harness ends a test after its time-out. The setting is a file here. */
TEST(setting_of_killed_test)
{
	struct setting s = {};
	char path[32], c = 0;
	int fd, pipes[2];
	pid_t pid;

	fd = memfd_create("setting", MFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(1, pwrite(fd, "1", 1, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ASSERT_EQ(0, pipe(pipes));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (setpgid(0, 0) || setting_change(&s, path, "2") || write(pipes[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	close(pipes[1]);
	ASSERT_EQ(1, read(pipes[0], &c, 1));
	ASSERT_EQ(1, pread(fd, &c, 1, 0));
	EXPECT_EQ('2', c);
	ASSERT_EQ(0, kill(-pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));

	/* The next test waits until it is restored, and does not take "2" for its value. */
	ASSERT_EQ(0, setting_change(&s, path, "3"));
	ASSERT_EQ(1, pread(fd, &c, 1, 0));
	EXPECT_EQ('3', c);
	setting_restore(&s);
	ASSERT_EQ(1, pread(fd, &c, 1, 0));
	EXPECT_EQ('1', c);
	close(fd);
	close(pipes[0]);
}

TEST_HARNESS_MAIN
