// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that are unloaded while they run. All have the same name and the
 * same instructions, hence the same tag. The ids are printed, one per line.
 *
 * A program in a program array is unloaded by its removal from there. A CPU that
 * has entered it by a tail call continues, and RCU keeps the text until it is done.
 * may_goto ends the loop after a quarter of a second, or eight million rounds where
 * the JIT has no clock.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <linux/bpf.h>
#include <linux/compiler.h>
#include <linux/filter.h>
#include <linux/kernel.h>
#include <linux/types.h>
#include "../tests.h"

#ifdef HAVE_LIBBPF_SUPPORT
#include <bpf/bpf.h>

static int load(const char *name, const struct bpf_insn *insns, size_t cnt)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts);

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns, cnt, &opts);
}

/* Sets a flag when it runs, and loops in a subprogram. */
static int load_loop(int running)
{
	const struct bpf_insn insns[] = {
		BPF_LD_IMM64_RAW_FULL(BPF_REG_1, BPF_PSEUDO_MAP_VALUE, 0, 0, running, 0),
		BPF_ST_MEM(BPF_W, BPF_REG_1, 0, 1),
		BPF_CALL_REL(1),
		BPF_EXIT_INSN(),
		/* The subprogram: may_goto leaves the loop. */
		BPF_RAW_INSN(BPF_JMP | BPF_JCOND, 0, BPF_MAY_GOTO, 1, 0),
		BPF_JMP_A(-2),
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};

	return load("unloaded", insns, ARRAY_SIZE(insns));
}

/*
 * If the index were constant, the JIT would turn the call into a jump, and a removal
 * would wait until no CPU runs the target of the jump.
 */
static int load_runner(int progs)
{
	const struct bpf_insn insns[] = {
		BPF_LDX_MEM(BPF_W, BPF_REG_3, BPF_REG_1, offsetof(struct __sk_buff, mark)),
		BPF_LD_MAP_FD(BPF_REG_2, progs),
		BPF_EMIT_CALL(BPF_FUNC_tail_call),
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};

	return load("runner", insns, ARRAY_SIZE(insns));
}

static void *run(void *arg)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	char packet[64] = {};

	opts.data_in = packet;
	opts.data_size_in = sizeof(packet);
	return (void *)(long)bpf_prog_test_run_opts(*(int *)arg, &opts);
}

static int unload_one(int runner, int progs, int running_fd, __u32 *running)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info), slot = 0;
	bool joined = false;
	pthread_t thread;
	void *ret;
	int err, fd;

	fd = load_loop(running_fd);
	if (fd < 0)
		return fd;
	err = bpf_prog_get_info_by_fd(fd, &info, &len) ?:
	      bpf_map_update_elem(progs, &slot, &fd, BPF_ANY);
	close(fd);
	if (err)
		return err;

	WRITE_ONCE(*running, 0);
	if (pthread_create(&thread, NULL, run, &runner))
		return -EAGAIN;
	/* Wait until it runs, or until test_run has failed. */
	while (!READ_ONCE(*running) && !joined) {
		joined = !pthread_tryjoin_np(thread, &ret);
		sched_yield();
	}

	err = bpf_map_delete_elem(progs, &slot);
	/* Too late: it had ended before it was removed. */
	if (joined)
		return (long)ret ?: -ETIME;
	pthread_join(thread, &ret);
	printf("%u\n", info.id);
	return err ?: (long)ret;
}

static int bpf_unload(int argc, const char **argv)
{
	LIBBPF_OPTS(bpf_map_create_opts, mmapable, .map_flags = BPF_F_MMAPABLE);
	int n = argc > 0 ? atoi(argv[0]) : 2;
	int progs, running_fd, runner, err = 0;
	void *running;

	progs = bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "progs", 4, 4, 1, NULL);
	running_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "running", 4, 4, 1, &mmapable);
	runner = progs < 0 ? progs : load_runner(progs);
	if (progs < 0 || running_fd < 0 || runner < 0) {
		fprintf(stderr, "Can't load BPF programs: %s\n", strerror(errno));
		return 2;
	}
	running = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED,
		       running_fd, 0);
	if (running == MAP_FAILED) {
		perror("mmap of a BPF map");
		return 1;
	}

	while (!err && n-- > 0)
		err = unload_one(runner, progs, running_fd, running);
	if (err)
		fprintf(stderr, "BPF program: %s\n", strerror(-err));
	return err ? 1 : 0;
}
#else
static int bpf_unload(int argc __maybe_unused, const char **argv __maybe_unused)
{
	fprintf(stderr, "perf was built without libbpf\n");
	return 2;
}
#endif

DEFINE_WORKLOAD(bpf_unload);
