// SPDX-License-Identifier: GPL-2.0
/* The cost of stacks with build IDs, and of mapping and opening their files. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/compiler.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_buildid.h"
#include "bench_buildid.skel.h"
#include "common.h"

#define MAX_FILES ARRAY_LEN(chain.frame)

static struct bench_buildid *skel;

/* --- stacks --------------------------------------------------------------- */

static struct bench_chain chain;

static void call_chain(void *arg)
{
	chain.depth = BENCH_FRAMES;
	chain.frame[0](&chain);
}

/* Loads the first @files copies: each is a separate file. */
static void load_frames(int files)
{
	char path[256];
	void *lib;
	int i;

	chain.files = files;
	for (i = 0; i < files; i++) {
		frame_path(path, sizeof(path), i);
		lib = dlopen(path, RTLD_NOW);
		if (!lib)
			die(dlerror());
		chain.frame[i] = dlsym(lib, "frame");
		if (!i)
			chain.leaf = dlsym(lib, "leaf");
	}
}

static void bench_stack(const char *name, enum bench_stack_mode mode, int files)
{
	static const int frames[] = { 1, 4, 16, 50 };
	struct op op = { .op = call_chain, .times = 200 };
	size_t each = mode == BENCH_STACK ? sizeof(uint64_t) : sizeof(struct bpf_stack_build_id);
	char x[16];
	double base;
	int i;

	if (!is_wanted(name))
		return;
	load_frames(files);
	skel->bss->mode = BENCH_NOTHING;
	base = cost(&op);
	skel->bss->mode = mode;
	for (i = 0; i < (int)ARRAY_LEN(frames); i++) {
		skel->bss->stack_size = frames[i] * each;
		snprintf(x, sizeof(x), "%d", frames[i]);
		report(name, x, &op, base, 1);
		if (READ_ONCE(skel->bss->result) != (long)(frames[i] * each)) {
			errno = ENODATA;
			die(name);
		}
	}
	skel->bss->mode = BENCH_NOTHING;
}

static void bench_stacks(void)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = "leaf");
	static const int files[] = { 1, 2, MAX_FILES };
	char name[64], path[256];
	struct bpf_link *link;
	int i;

	skel = bench_buildid__open_and_load();
	if (!skel)
		die("open and load");
	skel->bss->target = getpid();
	skel->bss->syscall_nr = SYS_getppid;
	skel->links.on_sys_enter = bpf_program__attach(skel->progs.on_sys_enter);
	if (!skel->links.on_sys_enter)
		die("attach to sys_enter");
	copy_frames(MAX_FILES, false);
	bench_stack("stack/plain", BENCH_STACK, 1);
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		snprintf(name, sizeof(name), "stack/build_id/%d_files", files[i]);
		bench_stack(name, BENCH_STACK_BUILD_ID, files[i]);
	}
	/* From here on only the uprobe takes the stack. */
	bpf_link__destroy(skel->links.on_sys_enter);
	skel->links.on_sys_enter = NULL;
	frame_path(path, sizeof(path), 0);
	link = bpf_program__attach_uprobe_opts(skel->progs.on_leaf, 0, path, 0, &opts);
	if (!link)
		die("attach to leaf()");
	for (i = 0; i < (int)ARRAY_LEN(files); i++) {
		snprintf(name, sizeof(name), "stack/sleepable_build_id/%d_files", files[i]);
		bench_stack(name, BENCH_STACK_BUILD_ID, files[i]);
	}
	bpf_link__destroy(link);
	copy_frames(MAX_FILES, true);
	bench_buildid__destroy(skel);
}
BENCH("stack", bench_stacks);

/* --- PROCMAP_QUERY ---------------------------------------------------------- */

static int maps_fd;
static void *queried;

static void query_one(void *arg)
{
	static struct procmap_query query;
	static char build_id[64];

	query.size = sizeof(query);
	query.query_addr = (uintptr_t)queried;
	query.build_id_addr = arg ? (uintptr_t)build_id : 0;
	query.build_id_size = arg ? sizeof(build_id) : 0;
	if (ioctl(maps_fd, PROCMAP_QUERY, &query) || (arg && !query.build_id_size))
		die("PROCMAP_QUERY");
}

static void bench_queries(void)
{
	struct op op = { .op = query_one, .times = 200 };
	int user = make_stack_map();

	if (user < 0)
		die("stack map");
	maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps_fd < 0)
		die("/proc/self/maps");
	queried = map_frame();
	report("procmap_query", "no_build_id", &op, 0, 1);
	op.arg = &op;
	report("procmap_query", "build_id", &op, 0, 1);
	unmap_frame(queried);
	close(maps_fd);
	close(user);
}
BENCH("procmap_query", bench_queries);

/* --- files ------------------------------------------------------------------ */

static char tiny[256];
static int lib_fd;

static void run_tiny(void *arg)
{
	int status;
	pid_t pid;

	pid = vfork();
	if (!pid) {
		execl(tiny, tiny, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die(tiny);
}

static void map_exec(void *arg)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, lib_fd, 0);

	if (p == MAP_FAILED || munmap(p, 4096))
		die("mmap of a file");
}

static void open_lib(const char *path, int flags)
{
	lib_fd = open(path, flags | O_CLOEXEC);
	if (lib_fd < 0)
		die(path);
}

static void open_write(void *arg)
{
	open_lib(arg, O_WRONLY);
}

static void close_lib(void *arg)
{
	close(lib_fd);
}

/* Puts its build ID into the cache. */
static void map_once(void *arg)
{
	open_lib(arg, O_RDONLY);
	map_exec(NULL);
	close(lib_fd);
}

static void report_files(const char *x, char *path)
{
	struct op exec = { .op = run_tiny, .times = 20 },
		  map = { .op = map_exec, .times = 200 },
		  first = { map_once, open_write, close_lib, path, 200 },
		  again = { NULL, open_write, close_lib, path, 200 };

	report("file/exec", x, &exec, 0, 1);
	open_lib(path, O_RDONLY);
	report("file/mmap_exec", x, &map, 0, 1);
	close(lib_fd);
	report("file/open_write_mapped", x, &first, 0, 1);
	report("file/open_write", x, &again, 0, 1);
}

/* With the build ID cache on, and off if it can be switched off. */
static void bench_files(void)
{
	static const char cache[] = "/proc/sys/kernel/build_id_cache";
	struct setting off = {};
	char path[256];
	int user;

	user = make_stack_map();
	if (user < 0)
		die("stack map");
	snprintf(tiny, sizeof(tiny), "%s/tiny", scratch);
	frame_path(path, sizeof(path), 0);
	copy_frames(1, false);
	if (copy_file("tiny", tiny))
		die(tiny);
	report_files("kept", path);
	setting_change(&off, cache, "0");
	report_files("off", path);
	setting_restore(&off);
	copy_frames(1, true);
	unlink(tiny);
	close(user);
}
BENCH("file", bench_files);
