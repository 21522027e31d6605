// SPDX-License-Identifier: GPL-2.0
/*
 * Not a test: BPF text for tools that attribute samples to it. Needs root.
 *
 *	bpf_workload images SECONDS	prints the address and the name of each BPF symbol,
 *					and "ready"; after a byte of input, it runs a
 *					trampoline, images of struct_ops and the dispatcher of
 *					XDP, each for that long
 *	bpf_workload loaders		loads and unloads programs on each CPU until it ends
 *	bpf_workload live N		holds N programs until its input ends; prints "ready"
 *					when they are loaded
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "bpf_workload.skel.h"
#include "common.h"

static void die(const char *what)
{
	fprintf(stderr, "bpf_workload: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- images --------------------------------------------------------------- */

static struct bpf_workload *skel;
static int sock;

/* One round calls the function whose trampoline calls all programs at its entry. */
static void run_trampoline(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	if (bpf_prog_test_run_opts(bpf_program__fd(skel->progs.entry_0), &opts))
		die("run a function");
}

/*
 * A program that runs only once does not use the dispatcher. Updating the dispatcher takes
 * as long as thousands of runs.
 */
static void run_dispatcher(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .repeat = 200000);
	char packet[64] = "";

	opts.data_in = packet;
	opts.data_size_in = sizeof(packet);
	if (bpf_prog_test_run_opts(bpf_program__fd(skel->progs.pass), &opts))
		die("run an XDP program");
}

/* The congestion control of a connection is initialized and released when it changes. */
static void run_struct_ops(void)
{
	if (setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "bpf_workload", 12) ||
	    setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "reno", 4))
		die("set the congestion control");
}

static void connect_socket(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (server < 0 || sock < 0 || bind(server, (void *)&addr, len) || listen(server, 1) ||
	    getsockname(server, (void *)&addr, &len) || connect(sock, (void *)&addr, len))
		die("connect a socket");
}

static void print_symbols(void)
{
	char line[1024], addr[32], name[512], module[64];
	FILE *f = fopen("/proc/kallsyms", "r");

	if (!f)
		die("/proc/kallsyms");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%31s %*c %511s %63s", addr, name, module) == 3 &&
		    !strcmp(module, "[bpf]"))
			printf("%s %s\n", addr, name);
	fclose(f);
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void run_images(int seconds)
{
	static void (*const run[])(void) = { run_trampoline, run_struct_ops, run_dispatcher };
	uint64_t end;
	size_t i;
	char c;

	skel = bpf_workload__open_and_load();
	if (!skel || bpf_workload__attach(skel))
		die("load and attach programs");
	connect_socket();
	/* The dispatcher has no text before its first use. */
	run_dispatcher();
	print_symbols();
	ready();
	if (read(STDIN_FILENO, &c, 1) != 1)
		die("read a byte");
	for (i = 0; i < ARRAY_LEN(run); i++) {
		end = now() + seconds * 1000000000ULL;
		while (now() < end)
			run[i]();
	}
	bpf_workload__destroy(skel);
}

/* --- programs ------------------------------------------------------------- */

static int load_one(const char *name)
{
	struct bpf_insn insns[FUNCTIONS_INSNS(1)];
	int fd;

	fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns,
			   make_functions(insns, 1), NULL);
	if (fd < 0)
		die("load a program");
	return fd;
}

static void run_loaders(void)
{
	int cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (cpu = 0; cpu < cpus; cpu++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pin_to_cpu(cpu))
			die("pin to a CPU");
		while (getppid() != 1)
			close(load_one("loader"));
		exit(0);
	}
	pause();
}

static void hold(int n)
{
	struct rlimit files = { .rlim_cur = n + 64, .rlim_max = n + 64 };
	char c;

	if (setrlimit(RLIMIT_NOFILE, &files))
		die("RLIMIT_NOFILE");
	while (n-- > 0)
		load_one("live");
	ready();
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "images")) {
		run_images(atoi(argv[2]));
	} else if (argc == 2 && !strcmp(argv[1], "loaders")) {
		run_loaders();
	} else if (argc == 3 && !strcmp(argv[1], "live")) {
		hold(atoi(argv[2]));
	} else {
		fprintf(stderr, "usage: bpf_workload images SECONDS | loaders | live N\n");
		return 2;
	}
	return 0;
}
