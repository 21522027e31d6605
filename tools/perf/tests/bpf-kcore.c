// SPDX-License-Identifier: GPL-2.0
/*
 * Test BPF text when perf reads kcore and kallsyms. Without a vmlinux, it reads them
 * at the first kernel sample, which is after PERF_RECORD_KSYMBOL.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "debug.h"
#include "dso.h"
#include "event.h"
#include "machine.h"
#include "map.h"
#include "maps.h"
#include "sample.h"
#include "symbol.h"
#include "tests.h"

#ifdef HAVE_LIBELF_SUPPORT

#define KERNEL		0xffffffff81000000ULL
#define KERNEL_LEN	0x1000000
#define MODULES		0xffffffffa0000000ULL
#define MODULES_LEN	0x5f000000

/*
 * The symbols at the time when perf reads them. By then, other programs use the
 * memory of the sampled ones.
 */
static const char kallsyms[] =
	"ffffffff81000000 T _stext\n"
	"ffffffff81000100 T function\n"
	"ffffffff81000200 T _etext\n"
	"ffffffffa0001000 t bpf_prog_0123456789abcdef_later\t[bpf]\n"
	"ffffffffa0001040 t bpf_prog_0123456789abcdef_later\t[bpf]\n"
	"ffffffffa0001080 t bpf_prog_0123456789abcdef_later\t[bpf]\n"
	"ffffffffa0003000 t bpf_prog_0123456789abcdef_later\t[bpf]\n"
	"ffffffffa0004000 t bpf_prog_0123456789abcdef_later\t[bpf]\n";

static const struct {
	u64 addr;
	u32 len;
	const char *name;
} texts[] = {
	{ 0xffffffffa0001000, 0x100, "bpf_trampoline_6442451234" },
	{ 0xffffffffa0001100, 0x100, "bpf__tcp_congestion_ops_ssthresh" },
	{ 0xffffffffa0002000, 0x1000, "bpf_dispatcher_xdp" },
	{ 0xffffffffa0003000, 0x100, "bpf_prog_0123456789abcdef_sampled" },
};

static int write_file(const char *dir, const char *name, const void *data, size_t size)
{
	char path[PATH_MAX];
	FILE *file;
	int err;

	scnprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file)
		return -errno;
	err = fwrite(data, 1, size, file) == size ? 0 : -EIO;
	return fclose(file) ? -EIO : err;
}

/* Like /proc/kcore: only the addresses of the segments are used. */
static int write_kcore(const char *dir)
{
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr phdr[2];
	} kcore = {
		.ehdr = {
			.e_ident = {
				ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB :
									     ELFDATA2MSB,
				EV_CURRENT,
			},
			.e_type = ET_CORE,
			.e_machine = EM_NONE,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2,
		},
		.phdr = {
			{
				.p_type = PT_LOAD,
				.p_flags = PF_R | PF_W | PF_X,
				.p_offset = 0x10000,
				.p_vaddr = KERNEL,
				.p_filesz = KERNEL_LEN,
				.p_memsz = KERNEL_LEN,
			}, {
				.p_type = PT_LOAD,
				.p_flags = PF_R | PF_W | PF_X,
				.p_offset = 0x10000 + KERNEL_LEN,
				.p_vaddr = MODULES,
				.p_filesz = MODULES_LEN,
				.p_memsz = MODULES_LEN,
			},
		},
	};

	return write_file(dir, "kcore", &kcore, sizeof(kcore));
}

static int ksymbol(struct machine *machine, u64 addr, u32 len, const char *name, bool unregister)
{
	struct perf_sample sample = { .time = 1 };
	union perf_event event = {
		.ksymbol = {
			.header = {
				.type = PERF_RECORD_KSYMBOL,
				.size = sizeof(event.ksymbol),
			},
			.addr = addr,
			.len = len,
			.ksym_type = PERF_RECORD_KSYMBOL_TYPE_BPF,
			.flags = unregister ? PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER : 0,
		},
	};

	scnprintf(event.ksymbol.name, sizeof(event.ksymbol.name), "%s", name);
	return machine__process_ksymbol(machine, &event, &sample);
}

/* Is @name the symbol at @addr? NULL: is there none? */
static bool is_named(struct machine *machine, u64 addr, const char *name)
{
	struct map *map = NULL;
	struct symbol *sym = maps__find_symbol(machine__kernel_maps(machine), addr, &map);
	bool ret = name ? sym && !strcmp(sym->name, name) : !sym;

	if (!ret) {
		pr_debug("%" PRIx64 ": %s, expected %s\n", addr, sym ? sym->name : "nothing",
			 name ?: "nothing");
	}
	map__put(map);
	return ret;
}

/* Is @addr in a segment of kcore? */
static bool is_kcore(struct machine *machine, u64 addr)
{
	struct map *map = maps__find(machine__kernel_maps(machine), addr);
	bool ret = map && dso__is_kcore(map__dso(map));

	map__put(map);
	return ret;
}

static struct map *new_kernel_map(struct machine *machine)
{
	struct dso *dso = dso__new("[kernel.kallsyms]");
	struct map *map = NULL;

	if (!dso)
		return NULL;
	dso__set_kernel(dso, DSO_SPACE__KERNEL);
	map = map__new2(KERNEL, dso);
	dso__put(dso);
	if (!map)
		return NULL;
	map__set_end(map, KERNEL + KERNEL_LEN);
	if (maps__insert(machine__kernel_maps(machine), map))
		map__zput(map);
	return map;
}

static int setup(struct machine *machine, const char *dir)
{
	char path[PATH_MAX];

	TEST_ASSERT_VAL("machine", !machine__init(machine, "", HOST_KERNEL_ID));
	TEST_ASSERT_VAL("kallsyms", !write_file(dir, "kallsyms", kallsyms, sizeof(kallsyms) - 1));
	TEST_ASSERT_VAL("modules", !write_file(dir, "modules", "", 0));
	TEST_ASSERT_VAL("kcore", !write_kcore(dir));

	machine->vmlinux_map = new_kernel_map(machine);
	TEST_ASSERT_VAL("kernel", machine->vmlinux_map);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		TEST_ASSERT_VAL("ksymbol", !ksymbol(machine, texts[i].addr, texts[i].len,
						    texts[i].name, false));
	}

	scnprintf(path, sizeof(path), "%s/kallsyms", dir);
	TEST_ASSERT_VAL("load", dso__load_kallsyms(map__dso(machine->vmlinux_map), path,
						   machine->vmlinux_map) > 0);
	dso__set_loaded(map__dso(machine->vmlinux_map));
	TEST_ASSERT_VAL("kcore was read", is_kcore(machine, KERNEL) && is_kcore(machine, MODULES));
	TEST_ASSERT_VAL("function", is_named(machine, KERNEL + 0x100, "function"));
	return TEST_OK;
}

/* Sampled text keeps its name, and does not get that of the text that is there now. */
static int __test_before(struct machine *machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		TEST_ASSERT_VAL("first", is_named(machine, texts[i].addr, texts[i].name));
		TEST_ASSERT_VAL("middle", is_named(machine, texts[i].addr + texts[i].len / 2,
						   texts[i].name));
		TEST_ASSERT_VAL("last", is_named(machine, texts[i].addr + texts[i].len - 1,
						 texts[i].name));
	}
	TEST_ASSERT_VAL("only in kallsyms", is_named(machine, 0xffffffffa0004000,
						     "bpf_prog_0123456789abcdef_later"));
	return TEST_OK;
}

/* Later records affect only their own range, not the segment. */
static int __test_after(struct machine *machine)
{
	const u64 addr = MODULES + 0x10000;

	TEST_ASSERT_VAL("load", !ksymbol(machine, addr, 0x100, "bpf_prog_new", false));
	TEST_ASSERT_VAL("loaded", is_named(machine, addr + 0x80, "bpf_prog_new"));
	TEST_ASSERT_VAL("begin of segment", is_named(machine, MODULES, NULL));
	TEST_ASSERT_VAL("unload", !ksymbol(machine, addr, 0x100, "bpf_prog_new", true));
	TEST_ASSERT_VAL("unloaded", is_named(machine, addr + 0x80, NULL));

	/* A program that is known from kallsyms alone. */
	TEST_ASSERT_VAL("unload", !ksymbol(machine, 0xffffffffa0004000, 0x100,
					   "bpf_prog_0123456789abcdef_later", true));
	TEST_ASSERT_VAL("segment", is_kcore(machine, MODULES));
	TEST_ASSERT_VAL("segment", is_kcore(machine, MODULES + MODULES_LEN - 1));
	return __test_before(machine);
}

static int run(int (*test)(struct machine *machine))
{
	static const char * const files[] = { "kallsyms", "modules", "kcore" };
	char dir[] = "/tmp/perf-test-kcore.XXXXXX", path[PATH_MAX];
	struct machine machine;
	int ret;

	TEST_ASSERT_VAL("temporary directory", mkdtemp(dir));
	ret = setup(&machine, dir);
	if (ret == TEST_OK)
		ret = test(&machine);
	machine__exit(&machine);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		scnprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
	return ret;
}

static int test__before(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run(__test_before);
}

static int test__after(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return run(__test_after);
}
#else
static int test__before(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__after(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}
#endif

static struct test_case tests__bpf_kcore[] = {
	TEST_CASE_REASON("BPF text that is known before kcore is read", before,
			 "built without libelf"),
	TEST_CASE_REASON("BPF text that comes after kcore is read", after,
			 "built without libelf"),
	{ .name = NULL, }
};

struct test_suite suite__bpf_kcore = {
	.desc = "BPF text and kcore",
	.test_cases = tests__bpf_kcore,
};
