// SPDX-License-Identifier: GPL-2.0
/*
 * Test how perf tracks BPF text: the records after which an address has a name,
 * and the events that are synthesized for images.
 */
#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <internal/lib.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "addr_location.h"
#include "aslr.h"
#include "bpf-event.h"
#include "bpf-utils.h"
#include "data.h"
#include "debug.h"
#include "dso.h"
#include "env.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "machine.h"
#include "map.h"
#include "maps.h"
#include "record.h"
#include "sample.h"
#include "session.h"
#include "symbol.h"
#include "synthetic-events.h"
#include "tests.h"
#include "tool.h"
#include "ui/util.h"

#ifdef HAVE_LIBBPF_SUPPORT
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#endif

#define ADDR	0xffffffffa0001000ULL
#define LEN	64
/* Maximum delay of a record. */
#define LATE	(50 * NSEC_PER_MSEC)

struct fixture {
	struct machine		machine;
	struct evlist		*evlist;
	struct perf_sample	sample;
	u64			seq;
};

static int setup(struct fixture *f, bool bpf_subprog)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.bpf_event = 1,
		.bpf_subprog = bpf_subprog,
	};
	struct evsel *evsel;

	memset(f, 0, sizeof(*f));
	TEST_ASSERT_VAL("machine", !machine__init(&f->machine, "", HOST_KERNEL_ID));
	f->evlist = evlist__new();
	evsel = evsel__new(&attr);
	TEST_ASSERT_VAL("evsel", f->evlist && evsel);
	evlist__add(f->evlist, evsel);
	f->sample.evsel = evsel;
	f->sample.time = NSEC_PER_SEC;
	f->sample.cpumode = PERF_RECORD_MISC_KERNEL;
	f->sample.cpu = -1;
	return TEST_OK;
}

static void teardown(struct fixture *f)
{
	evlist__put(f->evlist);
	machine__exit(&f->machine);
}

/* A session without a file. */
static struct perf_session *new_session(struct perf_tool *tool, struct perf_env *env)
{
	perf_env__init(env);
	return __perf_session__new(/*data=*/NULL, tool, /*trace_event_repipe=*/false, env);
}

static void ksymbol_event(union perf_event *event, u64 addr, u32 len, const char *name,
			  bool unregister)
{
	event->ksymbol = (struct perf_record_ksymbol) {
		.header = {
			.type = PERF_RECORD_KSYMBOL,
			.size = sizeof(event->ksymbol),
		},
		.addr = addr,
		.len = len,
		.ksym_type = PERF_RECORD_KSYMBOL_TYPE_BPF,
		.flags = unregister ? PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER : 0,
	};
	scnprintf(event->ksymbol.name, sizeof(event->ksymbol.name), "%s", name);
}

static int ksymbol(struct fixture *f, u64 addr, u32 len, const char *name, bool unregister)
{
	union perf_event event;

	ksymbol_event(&event, addr, len, name, unregister);
	return machine__process_ksymbol(&f->machine, &event, &f->sample);
}

/* A record as the kernel writes it. */
static size_t subprog_event(union perf_event *event, u16 type, u32 id, u32 sub_id, u64 addr,
			    u32 len, u64 seq, const char *name)
{
	struct perf_record_bpf_subprog *sub = &event->bpf_subprog;

	memset(event, 0, sizeof(*sub) + 128);
	*sub = (struct perf_record_bpf_subprog) {
		.header = {
			.type = PERF_RECORD_BPF_EVENT,
			.size = sizeof(*sub) + PERF_ALIGN(strlen(name) + 1, sizeof(u64)),
		},
		.type = type,
		.id = id,
		.sub_id = sub_id,
		.addr = addr,
		.len = len,
		.name_off = sizeof(*sub),
		.seq = seq,
	};
	strcpy((char *)event + sizeof(*sub), name);
	return sub->header.size;
}

static int subprog(struct fixture *f, u16 type, u32 id, u32 sub_id, u64 addr, u32 len,
		   const char *name)
{
	union perf_event event;

	subprog_event(&event, type, id, sub_id, addr, len, ++f->seq, name);
	return machine__process_bpf_subprog(&f->machine, &event, &f->sample);
}

/* As the kernel does: both kinds of records, in that order. */
static int load(struct fixture *f, u32 id, u32 sub_id, u64 addr, u32 len, const char *name)
{
	return ksymbol(f, addr, len, name, false) ?:
	       subprog(f, PERF_BPF_EVENT_SUBPROG_LOAD, id, sub_id, addr, len, name);
}

static int unload(struct fixture *f, u32 id, u32 sub_id, u64 addr, u32 len, const char *name)
{
	return ksymbol(f, addr, len, name, true) ?:
	       subprog(f, PERF_BPF_EVENT_SUBPROG_UNLOAD, id, sub_id, addr, len, name);
}

/* Is a sample at @addr attributed to @name and these IDs? @name NULL: to nothing. */
static bool known(struct fixture *f, u64 addr, const char *name, u32 id, u32 sub_id)
{
	struct dso_bpf_prog none = {}, *prog = &none;
	const char *found = "nothing";
	struct addr_location al;
	bool ret;

	addr_location__init(&al);
	f->sample.ip = addr;
	if (machine__resolve(&f->machine, &al, &f->sample))
		found = "an error";
	else if (al.map)
		found = al.sym ? al.sym->name : dso__name(map__dso(al.map));
	if (al.map)
		prog = dso__bpf_prog(map__dso(al.map));

	ret = !strcmp(found, name ?: "nothing") && prog->id == id && prog->sub_id == sub_id;
	if (!ret) {
		pr_debug("%" PRIx64 ": %s %u/%u, expected %s %u/%u\n", addr, found, prog->id,
			 prog->sub_id, name ?: "nothing", id, sub_id);
	}
	addr_location__exit(&al);
	return ret;
}

/* The same for the sample of an event without PERF_SAMPLE_TIME. */
static bool known_without_time(struct fixture *f, u64 addr, const char *name, u32 id, u32 sub_id)
{
	u64 time = f->sample.time;
	bool ret;

	f->sample.time = -1;
	ret = known(f, addr, name, id, sub_id);
	f->sample.time = time;
	return ret;
}

static int __test_unloaded(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("still runs", known(f, ADDR + LEN - 1, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("its end", known(f, ADDR + LEN, NULL, 0, 0));

	/* The memory is reused, starting at another offset. */
	TEST_ASSERT_VAL("load", !load(f, 6, 1, ADDR + 16, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("used again", known(f, ADDR + 16, "bpf_prog_b", 6, 1));
	TEST_ASSERT_VAL("its end", known(f, ADDR + 16 + LEN - 1, "bpf_prog_b", 6, 1));
	TEST_ASSERT_VAL("before", known(f, ADDR, NULL, 0, 0));

	/* And ending at another offset. */
	TEST_ASSERT_VAL("unload", !unload(f, 6, 1, ADDR + 16, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("used again", known(f, ADDR + 16, "bpf_prog_c", 7, 0));
	TEST_ASSERT_VAL("after", known(f, ADDR + LEN, NULL, 0, 0));
	return TEST_OK;
}

/* Text without records can reuse the memory, so the name is not kept forever. */
static int __test_time(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("no time", known_without_time(f, ADDR, "bpf_prog_a", 5, 0));
	f->sample.time += NSEC_PER_SEC - 1;
	TEST_ASSERT_VAL("a second", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("unload", !unload(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	f->sample.time += NSEC_PER_SEC / 2;
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("not yet", known(f, ADDR + LEN, "bpf_prog_b", 6, 0));
	f->sample.time += NSEC_PER_SEC;
	TEST_ASSERT_VAL("forgotten", known(f, ADDR + LEN, NULL, 0, 0));
	return TEST_OK;
}

static int add_kernel_map(struct fixture *f, u64 start, u64 end, const char *name)
{
	struct dso *dso = dso__new(name);
	struct map *map = NULL;
	int err = -ENOMEM;

	if (dso) {
		/* Before the map is created, as maps of a kernel dso are larger. */
		dso__set_kernel(dso, DSO_SPACE__KERNEL);
		dso__set_loaded(dso);
		map = map__new2(start, dso);
	}
	if (map) {
		map__set_end(map, end);
		err = maps__insert(machine__kernel_maps(&f->machine), map);
	}
	map__put(map);
	dso__put(dso);
	return err;
}

/* A segment of kcore has the text of all programs and modules. */
static int __test_kcore(struct fixture *f)
{
	const u64 start = ADDR - 0x1000, end = ADDR + 0x100000;

	TEST_ASSERT_VAL("map", !add_kernel_map(f, start, end, "kcore"));
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("before", known(f, ADDR - 1, "kcore", 0, 0));
	TEST_ASSERT_VAL("after", known(f, ADDR + LEN, "kcore", 0, 0));

	/* The end of text whose map was replaced by the segment. */
	TEST_ASSERT_VAL("unload", !unload(f, 0, 0, ADDR + 2 * LEN, LEN, "bpf_trampoline_1"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("between", known(f, ADDR + LEN, "kcore", 0, 0));
	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("before", known(f, start, "kcore", 0, 0));
	TEST_ASSERT_VAL("between", known(f, ADDR + LEN, "kcore", 0, 0));
	TEST_ASSERT_VAL("after", known(f, end - 1, "kcore", 0, 0));
	return TEST_OK;
}

/* kallsyms does not have the size of an image. */
static int __test_image_size(struct fixture *f)
{
	u64 time = f->sample.time;

	f->sample.time = -1;
	TEST_ASSERT_VAL("synthesized", !ksymbol(f, ADDR, 4096, "bpf_trampoline_1", false));
	f->sample.time = time;
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR + LEN, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("program", known(f, ADDR + LEN, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("image", known(f, ADDR + LEN - 1, "bpf_trampoline_1", 0, 0));
	return TEST_OK;
}

/* Linux 6.10 to 7.3 report a page for each image. */
static int __test_page_image(struct fixture *f)
{
	const u64 other = ADDR + 0x1000;

	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR + LEN, LEN, "bpf_prog_a", false));
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR + 3 * LEN, LEN, "bpf_prog_b", false));
	TEST_ASSERT_VAL("image", !ksymbol(f, ADDR, 4096, "bpf_trampoline_1", false));
	TEST_ASSERT_VAL("image", known(f, ADDR + LEN - 1, "bpf_trampoline_1", 0, 0));
	TEST_ASSERT_VAL("program", known(f, ADDR + LEN, "bpf_prog_a", 0, 0));
	TEST_ASSERT_VAL("program", known(f, ADDR + 3 * LEN, "bpf_prog_b", 0, 0));

	TEST_ASSERT_VAL("image", !ksymbol(f, ADDR + 2 * LEN, 4096, "bpf_trampoline_2", false));
	TEST_ASSERT_VAL("second image", known(f, ADDR + 2 * LEN, "bpf_trampoline_2", 0, 0));
	TEST_ASSERT_VAL("program", known(f, ADDR + 3 * LEN, "bpf_prog_b", 0, 0));

	TEST_ASSERT_VAL("gone", !ksymbol(f, ADDR, 4096, "bpf_trampoline_1", true));
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("program", known(f, ADDR + LEN, "bpf_prog_a", 0, 0));

	/* The unload of a program was lost: text with its actual length replaces it. */
	TEST_ASSERT_VAL("load", !ksymbol(f, other + LEN, LEN, "bpf_prog_c", false));
	TEST_ASSERT_VAL("image", !ksymbol(f, other, 3 * LEN, "bpf_trampoline_3", false));
	TEST_ASSERT_VAL("replaced", known(f, other + LEN, "bpf_trampoline_3", 0, 0));
	TEST_ASSERT_VAL("load", !ksymbol(f, other + 2 * LEN, LEN, "bpf_prog_d", false));
	TEST_ASSERT_VAL("load", !ksymbol(f, other, 4096, "bpf_prog_e", false));
	TEST_ASSERT_VAL("replaced", known(f, other + 2 * LEN, "bpf_prog_e", 0, 0));
	return TEST_OK;
}

/* The unload of a program, and the KSYMBOL of the next one, were lost. */
static int __test_replaced(struct fixture *f)
{
	struct map *first;

	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	first = maps__find(machine__kernel_maps(&f->machine), ADDR);
	TEST_ASSERT_VAL("load", !subprog(f, PERF_BPF_EVENT_SUBPROG_LOAD, 6, 0, ADDR, LEN,
					 "bpf_prog_a"));
	TEST_ASSERT_VAL("second", known(f, ADDR, "bpf_prog_a", 6, 0));
	TEST_ASSERT_EQUAL("first", (int)dso__bpf_prog(map__dso(first))->id, 5);
	map__put(first);

	/* Only the KSYMBOL was lost, of an image with the name of the previous one. */
	TEST_ASSERT_VAL("image", !subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 0, 0, ADDR + LEN, LEN,
					  "bpf_trampoline_1"));
	TEST_ASSERT_VAL("gone", !subprog(f, PERF_BPF_EVENT_IMAGE_DEL, 0, 0, ADDR + LEN, LEN,
					 "bpf_trampoline_1"));
	TEST_ASSERT_VAL("image", !subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 0, 0, ADDR + LEN, LEN,
					  "bpf_trampoline_1"));
	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("second image", known(f, ADDR + LEN, "bpf_trampoline_1", 0, 0));
	return TEST_OK;
}

static int __test_no_bit(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_a", false));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 0, 0));
	TEST_ASSERT_VAL("unload", !ksymbol(f, ADDR, LEN, "bpf_prog_a", true));
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));
	return TEST_OK;
}

/* The kernel has no names for programs that were loaded without CAP_BPF. */
static int __test_unnamed(struct fixture *f)
{
	const u64 other = ADDR + 0x1000, kcore = ADDR + 0x2000;

	/* perf finds the program in its enumeration, before it reads the record. */
	TEST_ASSERT_VAL("enumerated", !ksymbol(f, ADDR, LEN, "bpf_prog_a", false));
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "", false));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 0, 0));
	TEST_ASSERT_VAL("unload", !ksymbol(f, ADDR, LEN, "", true));
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));

	/* An empty name does not match text of another size, or that is not BPF. */
	TEST_ASSERT_VAL("load", !ksymbol(f, other, 2 * LEN, "bpf_prog_b", false));
	TEST_ASSERT_VAL("unload", !ksymbol(f, other, LEN, "", true));
	TEST_ASSERT_VAL("other size", known(f, other, "bpf_prog_b", 0, 0));
	TEST_ASSERT_VAL("map", !add_kernel_map(f, kcore, kcore + LEN, "kcore"));
	TEST_ASSERT_VAL("unload", !ksymbol(f, kcore, LEN, "", true));
	TEST_ASSERT_VAL("kcore", known(f, kcore, "kcore", 0, 0));

	/* The unload of the program at this address was lost. */
	TEST_ASSERT_VAL("load", !ksymbol(f, other, LEN, "", false));
	TEST_ASSERT_VAL("replaced", known(f, other, "", 0, 0));
	TEST_ASSERT_VAL("rest", known(f, other + LEN, "bpf_prog_b", 0, 0));
	TEST_ASSERT_VAL("unload", !ksymbol(f, other, LEN, "", true));
	TEST_ASSERT_VAL("forgotten", known(f, other, NULL, 0, 0));
	return TEST_OK;
}

/* A program without a name at the address of one that was unloaded. */
static int __test_unnamed_again(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unloaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "", false));
	TEST_ASSERT_VAL("another", known(f, ADDR, "", 0, 0));
	return TEST_OK;
}

static int __test_twins(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("first", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("second", known(f, ADDR + LEN, "bpf_prog_a", 6, 0));

	/* The same text for the same program, with another ID. */
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("third", known(f, ADDR, "bpf_prog_a", 7, 0));
	return TEST_OK;
}

static int __test_alone(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !subprog(f, PERF_BPF_EVENT_SUBPROG_LOAD, 5, 2, ADDR, LEN,
					 "bpf_prog_a"));
	TEST_ASSERT_VAL("without ksymbol", known(f, ADDR, "bpf_prog_a", 5, 2));
	TEST_ASSERT_VAL("unload", !subprog(f, PERF_BPF_EVENT_SUBPROG_UNLOAD, 6, 1, ADDR + LEN,
					   LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("only its unload", known(f, ADDR + LEN, "bpf_prog_b", 6, 1));
	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("forgotten", known(f, ADDR + LEN, NULL, 0, 0));
	TEST_ASSERT_VAL("image", !subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 0, 0, ADDR + 2 * LEN,
					  LEN, "bpf_trampoline_1"));
	TEST_ASSERT_VAL("image", known(f, ADDR + 2 * LEN, "bpf_trampoline_1", 0, 0));
	TEST_ASSERT_VAL("no text", !subprog(f, PERF_BPF_EVENT_SUBPROG_LOAD, 7, 0, 0, 0,
					    "bpf_prog_c"));
	TEST_ASSERT_VAL("no text", known(f, 0, NULL, 0, 0));
	return TEST_OK;
}

/* The program becomes known when it is unloaded; its text had samples before. */
static int __test_late_id(struct fixture *f)
{
	struct map *before;

	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_a", false));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 0, 0));
	before = maps__find(machine__kernel_maps(&f->machine), ADDR);
	TEST_ASSERT_VAL("unload", !unload(f, 5, 1, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unloaded", known(f, ADDR, "bpf_prog_a", 5, 1));
	TEST_ASSERT_EQUAL("before", (int)dso__bpf_prog(map__dso(before))->id, 0);
	map__put(before);

	/* Without a sample in between, there is no need for another map. */
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_b", false));
	before = maps__find(machine__kernel_maps(&f->machine), ADDR);
	TEST_ASSERT_VAL("load", !subprog(f, PERF_BPF_EVENT_SUBPROG_LOAD, 6, 1, ADDR, LEN,
					 "bpf_prog_b"));
	TEST_ASSERT_EQUAL("at once", (int)dso__bpf_prog(map__dso(before))->id, 6);
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_b", 6, 1));
	map__put(before);
	return TEST_OK;
}

static int __test_order(struct fixture *f)
{
	union perf_event late;

	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_UNLOAD, 5, 0, ADDR, LEN, ++f->seq,
		      "bpf_prog_a");
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR, "bpf_prog_b", 6, 0));

	/* Likewise for a range that overlaps. */
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_LOAD, 7, 0, ADDR + 16 - LEN, LEN, f->seq - 1,
		      "bpf_prog_c");
	TEST_ASSERT_VAL("load", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR, "bpf_prog_b", 6, 0));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR + 16 - LEN, NULL, 0, 0));
	return TEST_OK;
}

static char warning[256];

static int keep_warning(const char *format, va_list args)
{
	return vscnprintf(warning, sizeof(warning), format, args);
}

/* Is that how many events perf warns about? 0: does it not warn? */
static bool warns_of_lost(struct fixture *f, unsigned int lost)
{
	static struct perf_error_ops ops = { .warning = keep_warning };
	char expected[64] = "";

	if (lost)
		scnprintf(expected, sizeof(expected), "Lost %u BPF events ", lost);
	warning[0] = '\0';
	if (perf_error__register(&ops))
		return false;
	machine__warn_lost_bpf(&f->machine);
	perf_error__unregister(&ops);
	if (lost ? strstarts(warning, expected) : !warning[0])
		return true;
	pr_debug("warning '%s', expected '%s'\n", warning, expected);
	return false;
}

static int __test_lost(struct fixture *f)
{
	union perf_event late;

	TEST_ASSERT_VAL("a sample", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("no warning", warns_of_lost(f, 0));
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_LOAD, 7, 0, ADDR + 3 * LEN, LEN, ++f->seq,
		      "bpf_prog_d");
	TEST_ASSERT_VAL("load", !load(f, 8, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	/* This one was unloaded later: the lost record can't be for its address. */
	TEST_ASSERT_VAL("unload", !unload(f, 8, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("may be late", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("missing", machine__nr_lost_bpf(&f->machine) == 1);
	TEST_ASSERT_VAL("no time", known_without_time(f, ADDR, "bpf_prog_a", 5, 0));
	f->sample.time += LATE;
	TEST_ASSERT_VAL("may be late", known(f, ADDR, "bpf_prog_a", 5, 0));
	f->sample.time++;
	TEST_ASSERT_VAL("lost", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("loaded", known(f, ADDR + LEN, "bpf_prog_b", 6, 0));
	TEST_ASSERT_VAL("unloaded later", known(f, ADDR + 2 * LEN, "bpf_prog_c", 8, 0));
	TEST_ASSERT_VAL("lost", machine__nr_lost_bpf(&f->machine) == 1);
	TEST_ASSERT_VAL("warning", warns_of_lost(f, 1));
	/* Later than the bound, but not lost. */
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("none lost", !machine__nr_lost_bpf(&f->machine));
	TEST_ASSERT_VAL("no warning", warns_of_lost(f, 0));
	return TEST_OK;
}

static int lost_event(struct fixture *f)
{
	union perf_event event = {
		.lost = {
			.header = {
				.type = PERF_RECORD_LOST,
				.size = sizeof(event.lost),
			},
			.lost = 1,
		},
	};

	return machine__process_lost_event(&f->machine, &event, &f->sample);
}

/* The kernel reports that a ring was full: no need to wait. */
static int __test_full(struct fixture *f)
{
	TEST_ASSERT_VAL("a sample", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("lost", !lost_event(f));
	TEST_ASSERT_VAL("a sample", known(f, ADDR, "bpf_prog_a", 5, 0));
	f->seq += 2;
	TEST_ASSERT_VAL("load", !load(f, 8, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("before the gap", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("lost", machine__nr_lost_bpf(&f->machine) == 2);

	f->sample.time += 2 * LATE;
	TEST_ASSERT_VAL("unload", !unload(f, 8, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	f->seq++;
	TEST_ASSERT_VAL("load", !load(f, 10, 0, ADDR, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("may be late", known(f, ADDR + LEN, "bpf_prog_b", 8, 0));
	TEST_ASSERT_VAL("lost", !lost_event(f));
	TEST_ASSERT_VAL("after the gap", known(f, ADDR + LEN, NULL, 0, 0));
	TEST_ASSERT_VAL("lost", machine__nr_lost_bpf(&f->machine) == 3);
	return TEST_OK;
}

/*
 * perf record maps the ring of the last CPU after some records of others, and enables
 * events that take samples after that.
 */
static int __test_early_gap(struct fixture *f)
{
	union perf_event late[2];

	/* Two loads on a CPU whose ring is not mapped. */
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	subprog_event(&late[0], PERF_BPF_EVENT_SUBPROG_LOAD, 6, 0, ADDR + LEN, LEN, ++f->seq,
		      "bpf_prog_b");
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	subprog_event(&late[1], PERF_BPF_EVENT_SUBPROG_LOAD, 8, 0, ADDR + 3 * LEN, LEN, ++f->seq,
		      "bpf_prog_d");
	TEST_ASSERT_VAL("none counted", !machine__nr_lost_bpf(&f->machine));
	TEST_ASSERT_VAL("first sample", known(f, ADDR + 2 * LEN, "bpf_prog_c", 7, 0));
	/* This gap begins before the sample. */
	TEST_ASSERT_VAL("load", !load(f, 9, 0, ADDR + 4 * LEN, LEN, "bpf_prog_e"));
	TEST_ASSERT_VAL("none counted", !machine__nr_lost_bpf(&f->machine));

	f->seq++;
	TEST_ASSERT_VAL("load", !load(f, 11, 0, ADDR + 5 * LEN, LEN, "bpf_prog_f"));
	TEST_ASSERT_VAL("missing", machine__nr_lost_bpf(&f->machine) == 1);
	/* One that is late does not count, before and after its gap is closed. */
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late[0], &f->sample));
	TEST_ASSERT_VAL("missing", machine__nr_lost_bpf(&f->machine) == 1);
	f->sample.time += LATE + 1;
	TEST_ASSERT_VAL("may be replaced", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("lost", machine__nr_lost_bpf(&f->machine) == 1);
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late[1], &f->sample));
	TEST_ASSERT_VAL("lost", machine__nr_lost_bpf(&f->machine) == 1);
	return TEST_OK;
}

/*
 * When perf record ends, it disables the event of one CPU after the other. Records that
 * are missing after the last sample do not count.
 */
static int __test_gap_at_end(struct fixture *f)
{
	TEST_ASSERT_VAL("a sample", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	f->seq++;
	f->sample.time += NSEC_PER_MSEC;
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("at the end", warns_of_lost(f, 0));
	TEST_ASSERT_VAL("a sample", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("not at the end", warns_of_lost(f, 1));

	f->seq++;
	f->sample.time += NSEC_PER_MSEC;
	TEST_ASSERT_VAL("load", !load(f, 9, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("at the end", warns_of_lost(f, 1));
	TEST_ASSERT_VAL("no time", known_without_time(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("maybe not at the end", warns_of_lost(f, 2));
	return TEST_OK;
}

static int nr_gaps(struct fixture *f)
{
	struct list_head *pos;
	int nr = 0;

	list_for_each(pos, &f->machine.bpf_gaps)
		nr++;
	return nr;
}

/* perf trace does not look addresses up: gaps that can't be filled must not be kept. */
static int __test_no_lookups(struct fixture *f)
{
	for (u32 id = 1; id <= 1000; id++) {
		f->sample.time += NSEC_PER_MSEC;
		f->seq++;
		TEST_ASSERT_VAL("load", !load(f, id, 0, ADDR + id * LEN, LEN, "bpf_prog_a"));
	}
	TEST_ASSERT_EQUAL("gaps", nr_gaps(f), (int)(LATE / NSEC_PER_MSEC) + 1);
	return TEST_OK;
}

/* Two CPUs: the order by time differs from that by seq. Nothing is lost. */
static int __test_late(struct fixture *f)
{
	union perf_event late[3];

	TEST_ASSERT_VAL("a sample", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	for (unsigned int i = 0; i < ARRAY_SIZE(late); i++) {
		subprog_event(&late[i], PERF_BPF_EVENT_SUBPROG_LOAD, 6 + i, 0,
			      ADDR + (1 + i) * LEN, LEN, ++f->seq, "bpf_prog_b");
	}
	TEST_ASSERT_VAL("load", !load(f, 9, 0, ADDR + 4 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("missing", machine__nr_lost_bpf(&f->machine) == 3);
	TEST_ASSERT_VAL("unloaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	f->sample.time += LATE;
	/* From the middle of the gap, which splits it. */
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late[1], &f->sample));
	TEST_ASSERT_VAL("missing", machine__nr_lost_bpf(&f->machine) == 2);
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late[2], &f->sample));
	TEST_ASSERT_VAL("late", !machine__process_bpf_subprog(&f->machine, &late[0], &f->sample));
	TEST_ASSERT_VAL("none missing", !machine__nr_lost_bpf(&f->machine));
	f->sample.time += 2 * LATE;
	TEST_ASSERT_VAL("nothing lost", known(f, ADDR, "bpf_prog_a", 5, 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(late); i++) {
		TEST_ASSERT_VAL("late", known(f, ADDR + (1 + i) * LEN, "bpf_prog_b",
					      6 + i, 0));
	}
	return TEST_OK;
}

/* A late end of earlier text does not end the current text at its address. */
static int __test_late_end(struct fixture *f)
{
	union perf_event late;

	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_UNLOAD, 5, 0, ADDR, LEN, ++f->seq,
		      "bpf_prog_a");
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("ksymbol", !ksymbol(f, ADDR, LEN, "bpf_prog_a", true));
	TEST_ASSERT_VAL("unload", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));

	/* With the same name, like a trampoline that is recreated. */
	TEST_ASSERT_VAL("add", !ksymbol(f, ADDR + LEN, LEN, "bpf_trampoline_1", false) &&
			!subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 0, 0, ADDR + LEN, LEN,
				 "bpf_trampoline_1"));
	subprog_event(&late, PERF_BPF_EVENT_IMAGE_DEL, 0, 0, ADDR + LEN, LEN, ++f->seq,
		      "bpf_trampoline_1");
	TEST_ASSERT_VAL("add", !ksymbol(f, ADDR + LEN, LEN, "bpf_trampoline_1", false) &&
			!subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 0, 0, ADDR + LEN, LEN,
				 "bpf_trampoline_1"));
	TEST_ASSERT_VAL("ksymbol", !ksymbol(f, ADDR + LEN, LEN, "bpf_trampoline_1", true));
	TEST_ASSERT_VAL("del", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));

	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("program", known(f, ADDR, "bpf_prog_b", 6, 0));
	TEST_ASSERT_VAL("image", known(f, ADDR + LEN, "bpf_trampoline_1", 0, 0));
	return TEST_OK;
}

/* Without the records that have seq, only the name can be compared. */
static int __test_no_bit_late_end(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_a", false));
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_b", false));
	TEST_ASSERT_VAL("unload", !ksymbol(f, ADDR, LEN, "bpf_prog_a", true));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_b", 0, 0));
	TEST_ASSERT_VAL("unload", !ksymbol(f, ADDR, LEN, "bpf_prog_b", true));
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));
	return TEST_OK;
}

/* Two struct_ops of one type: the programs that their images call differ. */
static int __test_struct_ops(struct fixture *f)
{
	for (u32 i = 0; i < 2; i++) {
		u64 addr = ADDR + i * LEN;

		TEST_ASSERT_VAL("add", !ksymbol(f, addr, LEN, "bpf__ops_member", false) &&
				!subprog(f, PERF_BPF_EVENT_IMAGE_ADD, 5 + i, 0, addr, LEN,
					 "bpf__ops_member"));
	}
	for (u32 i = 0; i < 2; i++)
		TEST_ASSERT_VAL("image", known(f, ADDR + i * LEN, "bpf__ops_member", 5 + i, 0));
	return TEST_OK;
}

static int subprog_prefix(struct fixture *f, u16 type, u32 id, u64 addr, u8 prefix_len,
			  const char *name)
{
	union perf_event event;

	subprog_event(&event, type, id, 0, addr, LEN, ++f->seq, name);
	event.bpf_subprog.prefix_len = prefix_len;
	return machine__process_bpf_subprog(&f->machine, &event, &f->sample);
}

/* Indirect calls with FineIBT execute 16 bytes before a program. */
static int __test_prefix(struct fixture *f)
{
	const u64 addr = ADDR + 16;

	TEST_ASSERT_VAL("load", !ksymbol(f, addr, LEN, "bpf_prog_a", false) &&
			!subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_LOAD, 5, addr, 16,
					"bpf_prog_a"));
	TEST_ASSERT_VAL("before", known(f, ADDR - 1, NULL, 0, 0));
	TEST_ASSERT_VAL("prefix", known(f, ADDR, "__cfi_bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("its end", known(f, addr - 1, "__cfi_bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("program", known(f, addr, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("its end", known(f, addr + LEN - 1, "bpf_prog_a", 5, 0));

	/* Both end at once, and are forgotten at once. */
	TEST_ASSERT_VAL("unload", !ksymbol(f, addr, LEN, "bpf_prog_a", true) &&
			!subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_UNLOAD, 5, addr, 16,
					"bpf_prog_a"));
	TEST_ASSERT_VAL("still runs", known(f, ADDR, "__cfi_bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("still runs", known(f, addr, "bpf_prog_a", 5, 0));
	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("forgotten", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("forgotten", known(f, addr, NULL, 0, 0));

	/* The prefix of a program is where another one ended. */
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR - LEN + 16, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("load", !ksymbol(f, addr, LEN, "bpf_prog_c", false) &&
			!subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_LOAD, 7, addr, 16,
					"bpf_prog_c"));
	TEST_ASSERT_VAL("used again", known(f, ADDR, "__cfi_bpf_prog_c", 7, 0));
	TEST_ASSERT_VAL("replaced", known(f, ADDR - 1, NULL, 0, 0));

	/* Only a record of the end, and one whose prefix is before address 0. */
	TEST_ASSERT_VAL("unload", !subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_UNLOAD, 8,
						  addr + 2 * LEN, 16, "bpf_prog_d"));
	TEST_ASSERT_VAL("prefix", known(f, addr + 2 * LEN - 1, "__cfi_bpf_prog_d", 8, 0));
	TEST_ASSERT_VAL("program", known(f, addr + 2 * LEN, "bpf_prog_d", 8, 0));
	TEST_ASSERT_VAL("malformed", !subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_LOAD, 9, 8, 16,
						     "bpf_prog_e"));
	TEST_ASSERT_VAL("malformed", known(f, 8, NULL, 0, 0));
	return TEST_OK;
}

/* Only the KSYMBOL of an unload was received, or its record is late and the next one lost. */
static int __test_lost_unload(struct fixture *f)
{
	const u64 addr = ADDR + 16, addr2 = ADDR + 4 * LEN;
	union perf_event late;

	TEST_ASSERT_VAL("load", !ksymbol(f, addr, LEN, "bpf_prog_a", false) &&
			!subprog_prefix(f, PERF_BPF_EVENT_SUBPROG_LOAD, 5, addr, 16,
					"bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, addr2, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !ksymbol(f, addr, LEN, "bpf_prog_a", true));
	f->seq++;
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("may be late", known(f, ADDR, "__cfi_bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("may be late", known(f, addr, "bpf_prog_a", 5, 0));
	f->sample.time += LATE + 1;
	TEST_ASSERT_VAL("lost", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("lost", known(f, addr, NULL, 0, 0));
	TEST_ASSERT_VAL("loaded", known(f, addr2, "bpf_prog_b", 6, 0));

	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_UNLOAD, 6, 0, addr2, LEN, ++f->seq,
		      "bpf_prog_b");
	f->seq++;
	TEST_ASSERT_VAL("unload", !unload(f, 7, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("late", !ksymbol(f, addr2, LEN, "bpf_prog_b", true) &&
			!machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("may be late", known(f, addr2, "bpf_prog_b", 6, 0));
	f->sample.time += LATE + 1;
	TEST_ASSERT_VAL("lost", known(f, addr2, NULL, 0, 0));
	TEST_ASSERT_VAL("unloaded later", known(f, ADDR + 2 * LEN, "bpf_prog_c", 7, 0));
	return TEST_OK;
}

static u64 cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

struct storm {
	u32 live, loads;
	bool gap;	/* a record is missing before each load */
	bool lost;	/* and a ring was full */
};

/* Measure the time to read a storm of short-lived programs, next to long-lived ones. */
static int read_storm(bool bpf_subprog, const struct storm *storm, u64 *time)
{
	struct fixture f;
	u64 start;
	u32 i;

	TEST_ASSERT_VAL("setup", setup(&f, bpf_subprog) == TEST_OK);
	start = cpu_time();
	for (i = 0; i < storm->live + storm->loads; i++) {
		/* Short-lived programs reuse the address of the fourth one before. */
		u64 addr = ADDR + (i < storm->live ? i : storm->live + i % 4) * LEN;

		/* A load takes 100 us. */
		f.sample.time += 100 * NSEC_PER_USEC;
		machine__forget_unloaded_bpf(&f.machine, f.sample.time);
		if (i >= storm->live && storm->gap)
			f.seq++;
		if (i >= storm->live && storm->lost)
			TEST_ASSERT_VAL("lost", !lost_event(&f));
		TEST_ASSERT_VAL("load", !ksymbol(&f, addr, LEN, "bpf_prog_a", false));
		if (bpf_subprog) {
			TEST_ASSERT_VAL("load", !subprog(&f, PERF_BPF_EVENT_SUBPROG_LOAD, i + 1,
							 0, addr, LEN, "bpf_prog_a"));
		}
		if (i < storm->live)
			continue;
		TEST_ASSERT_VAL("unload", !ksymbol(&f, addr, LEN, "bpf_prog_a", true));
		if (bpf_subprog) {
			TEST_ASSERT_VAL("unload", !subprog(&f, PERF_BPF_EVENT_SUBPROG_UNLOAD,
							   i + 1, 0, addr, LEN, "bpf_prog_a"));
		}
	}
	*time = min(*time, cpu_time() - start);
	i = machine__nr_lost_bpf(&f.machine);
	teardown(&f);
	TEST_ASSERT_EQUAL("lost", (int)i, (int)(bpf_subprog && storm->gap ? storm->loads : 0));
	return TEST_OK;
}

/*
 * Not quadratic: with the records it takes about as long as without, which is linear. A
 * search through all maps for each record would take ten times as long, or more. On a
 * loaded machine, a minimum needs several runs.
 */
static int test__storm(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const struct storm storms[] = {
		{ .live = 10000 },
		{ .live = 10000, .loads = 20000 },
		{ .live = 10000, .loads = 20000, .gap = true },
		{ .live = 10000, .loads = 20000, .gap = true, .lost = true },
	};

#ifndef NDEBUG
	/* All maps are checked after each change. */
	return TEST_SKIP;
#endif
	for (size_t i = 0; i < ARRAY_SIZE(storms); i++) {
		u64 without = UINT64_MAX, with = UINT64_MAX;

		for (int run = 0; run < 3 || (run < 10 && with > 4 * without); run++) {
			TEST_ASSERT_VAL("without",
					read_storm(false, &storms[i], &without) == TEST_OK);
			TEST_ASSERT_VAL("with", read_storm(true, &storms[i], &with) == TEST_OK);
		}
		pr_debug("%u programs and %u that are unloaded%s%s: %" PRIu64
			 " us, with bpf_subprog %" PRIu64 " us\n", storms[i].live, storms[i].loads,
			 storms[i].gap ? ", gaps" : "", storms[i].lost ? ", full rings" : "",
			 without / NSEC_PER_USEC, with / NSEC_PER_USEC);
		TEST_ASSERT_VAL("time", with <= 4 * without);
	}
	return TEST_OK;
}

/* Only the members of the record are printed. */
static bool print_short_record(void)
{
	union perf_event event = {
		.bpf = {
			.header = {
				.type = PERF_RECORD_BPF_EVENT,
				.size = sizeof(event.bpf),
			},
			.type = PERF_BPF_EVENT_SUBPROG_LOAD,
			.id = 5,
		},
	};
	FILE *out = tmpfile();
	size_t len;

	if (!out)
		return false;
	len = perf_event__fprintf_bpf(&event, out);
	fclose(out);
	return len == strlen(" type 3, flags 0, id 5\n");
}

static int __test_malformed(struct fixture *f)
{
	const size_t fixed = sizeof(struct perf_record_bpf_subprog);
	union perf_event event;
	size_t size;

	size = subprog_event(&event, PERF_BPF_EVENT_SUBPROG_LOAD, 5, 0, ADDR, LEN, 1, "a");
	TEST_ASSERT_EQUAL("size", (int)size, (int)fixed + 8);
	TEST_ASSERT_VAL("well-formed", perf_event__bpf_subprog_name(&event));

	event.header.size = fixed;
	TEST_ASSERT_VAL("no name", !perf_event__bpf_subprog_name(&event));
	event.header.size = fixed - 8;
	TEST_ASSERT_VAL("too short", !perf_event__bpf_subprog_name(&event));
	event.header.size = size;

	event.bpf_subprog.name_off = fixed - 1;
	TEST_ASSERT_VAL("name before end", !perf_event__bpf_subprog_name(&event));
	event.bpf_subprog.name_off = size;
	TEST_ASSERT_VAL("name after end", !perf_event__bpf_subprog_name(&event));
	TEST_ASSERT_EQUAL("errno", machine__process_bpf_subprog(&f->machine, &event,
								&f->sample), -EINVAL);
	event.bpf_subprog.name_off = fixed;

	memset((char *)&event + fixed, 'a', size - fixed);
	TEST_ASSERT_VAL("no end of name", !perf_event__bpf_subprog_name(&event));

	/* Decoders of traces print a record before its size is checked. */
	TEST_ASSERT_VAL("printed", print_short_record());

	/* A later kernel has eight more bytes before the name. */
	size = subprog_event(&event, PERF_BPF_EVENT_SUBPROG_LOAD, 5, 0, ADDR, LEN, 1, "");
	event.header.size += 8;
	event.bpf_subprog.name_off += 8;
	strcpy((char *)&event + fixed + 8, "name");
	TEST_ASSERT_VAL("longer record", !strcmp(perf_event__bpf_subprog_name(&event), "name"));
	return TEST_OK;
}

/* Read @event as the only one of a file. */
static int read_event(struct perf_session *session, FILE *file, const union perf_event *event,
		      size_t size, u64 buf[32], union perf_event **got)
{
	rewind(file);
	if (fwrite(event, size, 1, file) != 1 || fflush(file))
		return -EIO;
	return perf_session__peek_event(session, 0, buf, 32 * sizeof(*buf), got, NULL);
}

static int __test_swapped(struct fixture *f)
{
	union perf_event expected, event, *got = NULL;
	struct perf_record_bpf_subprog *sub = &event.bpf_subprog;
	FILE *file = tmpfile();
	struct perf_data data = { .file.fd = file ? fileno(file) : -1 };
	struct perf_session *session;
	struct perf_tool tool;
	struct perf_env env;
	int err, err_name;
	u64 buf[32], id;
	size_t size;
	bool equal;

	size = subprog_event(&expected, PERF_BPF_EVENT_SUBPROG_LOAD, 5, 2, ADDR, LEN, 7,
			     "bpf_prog_a");
	expected.bpf_subprog.flags = 3;
	expected.bpf_subprog.sub_cnt = 4;
	expected.bpf_subprog.prefix_len = 16;
	expected.bpf_subprog.prog_type = 26;
	expected.bpf_subprog.attach_type = 24;
	expected.bpf_subprog.load_time = 0x0102030405060708ULL;
	memset(expected.bpf_subprog.tag, 0x5a, sizeof(expected.bpf_subprog.tag));
	/* A word of sample_id_all. */
	id = 0x1122334455667788ULL;
	memcpy((char *)&expected + size, &id, sizeof(id));
	size += sizeof(id);
	expected.header.size = size;

	memcpy(&event, &expected, size);
	sub->header.type = bswap_32(sub->header.type);
	sub->header.misc = bswap_16(sub->header.misc);
	sub->header.size = bswap_16(sub->header.size);
	sub->type = bswap_16(sub->type);
	sub->flags = bswap_16(sub->flags);
	sub->id = bswap_32(sub->id);
	sub->sub_id = bswap_32(sub->sub_id);
	sub->sub_cnt = bswap_32(sub->sub_cnt);
	sub->addr = bswap_64(sub->addr);
	sub->len = bswap_32(sub->len);
	sub->name_off = bswap_16(sub->name_off);
	sub->prog_type = bswap_32(sub->prog_type);
	sub->attach_type = bswap_32(sub->attach_type);
	sub->load_time = bswap_64(sub->load_time);
	sub->seq = bswap_64(sub->seq);
	id = bswap_64(id);
	memcpy((char *)&event + size - sizeof(id), &id, sizeof(id));

	f->sample.evsel->core.attr.sample_id_all = 1;
	perf_tool__init(&tool, /*ordered_events=*/false);
	session = new_session(&tool, &env);
	TEST_ASSERT_VAL("session", file && !IS_ERR_OR_NULL(session));
	session->evlist = f->evlist;
	session->data = &data;
	session->header.needs_swap = true;

	err = read_event(session, file, &event, size, buf, &got);
	equal = got && !memcmp(got, &expected, size);

	/* The offset of the name is only valid without swapping it. */
	sub->name_off = expected.bpf_subprog.name_off;
	err_name = read_event(session, file, &event, size, buf, &got);

	session->data = NULL;
	perf_session__delete(session);
	perf_env__exit(&env);
	fclose(file);

	TEST_ASSERT_VAL("read", !err);
	TEST_ASSERT_VAL("swapped", equal);
	TEST_ASSERT_EQUAL("name", err_name, -1);
	return TEST_OK;
}

struct test_tool {
	struct perf_tool tool;
	u64 addr;
	bool found;
	int bpf[16];	/* of each type */
};

static int find_sample(const struct perf_tool *tool, union perf_event *event __maybe_unused,
		       struct perf_sample *sample, struct machine *machine)
{
	struct test_tool *tt = container_of(tool, struct test_tool, tool);
	struct map *map = maps__find(machine__kernel_maps(machine), sample->ip);

	tt->found = map;
	map__put(map);
	return 0;
}

/* A tool that looks for kernel text by itself, as perf lock and perf kmem do. */
static int __test_no_resolve(struct fixture *f)
{
	union perf_event load, unload, sample = {
		.header = {
			.type = PERF_RECORD_SAMPLE,
			.size = sizeof(sample.header),
		},
	};
	bool found, found_later;
	struct perf_session *session;
	struct test_tool tt = {};
	struct perf_env env;
	int err;

	perf_tool__init(&tt.tool, /*ordered_events=*/false);
	tt.tool.sample = find_sample;
	session = new_session(&tt.tool, &env);
	TEST_ASSERT_VAL("session", !IS_ERR_OR_NULL(session));
	session->evlist = f->evlist;

	ksymbol_event(&load, ADDR, LEN, "bpf_prog_a", false);
	ksymbol_event(&unload, ADDR, LEN, "bpf_prog_a", true);
	f->sample.ip = ADDR;
	err = perf_session__deliver_synth_event(session, &load, &f->sample) ?:
	      perf_session__deliver_synth_event(session, &unload, &f->sample) ?:
	      perf_session__deliver_synth_event(session, &sample, &f->sample);
	found = tt.found;
	f->sample.time += 2 * NSEC_PER_SEC;
	err = err ?: perf_session__deliver_synth_event(session, &sample, &f->sample);
	found_later = tt.found;
	perf_session__delete(session);
	perf_env__exit(&env);

	TEST_ASSERT_VAL("events", !err);
	TEST_ASSERT_VAL("still runs", found);
	TEST_ASSERT_VAL("forgotten", !found_later);
	return TEST_OK;
}

static int ignore_lost(const struct perf_tool *tool __maybe_unused,
		       union perf_event *event __maybe_unused,
		       struct perf_sample *sample __maybe_unused,
		       struct machine *machine __maybe_unused)
{
	return 0;
}

/* A tool that handles PERF_RECORD_LOST by itself, as perf script --show-lost-events does. */
static int __test_full_in_tool(struct fixture *f)
{
	union perf_event events[5], lost = {
		.lost = {
			.header = {
				.type = PERF_RECORD_LOST,
				.size = sizeof(lost.lost),
			},
			.lost = 1,
		},
	}, sample = {
		.header = {
			.type = PERF_RECORD_SAMPLE,
			.size = sizeof(sample.header),
		},
	};
	struct perf_session *session;
	struct test_tool tt = {};
	struct perf_env env;
	bool found, found_later;
	int err = 0;

	perf_tool__init(&tt.tool, /*ordered_events=*/false);
	tt.tool.sample = find_sample;
	tt.tool.lost = ignore_lost;
	session = new_session(&tt.tool, &env);
	TEST_ASSERT_VAL("session", !IS_ERR_OR_NULL(session));
	session->evlist = f->evlist;

	/* The record with number 3 is missing. */
	ksymbol_event(&events[0], ADDR, LEN, "bpf_prog_a", false);
	subprog_event(&events[1], PERF_BPF_EVENT_SUBPROG_LOAD, 5, 0, ADDR, LEN, 1, "bpf_prog_a");
	ksymbol_event(&events[2], ADDR, LEN, "bpf_prog_a", true);
	subprog_event(&events[3], PERF_BPF_EVENT_SUBPROG_UNLOAD, 5, 0, ADDR, LEN, 2,
		      "bpf_prog_a");
	subprog_event(&events[4], PERF_BPF_EVENT_SUBPROG_LOAD, 7, 0, ADDR + LEN, LEN, 4,
		      "bpf_prog_b");
	f->sample.ip = ADDR;
	for (unsigned int i = 0; i < ARRAY_SIZE(events) && !err; i++)
		err = perf_session__deliver_synth_event(session, &events[i], &f->sample);
	err = err ?: perf_session__deliver_synth_event(session, &sample, &f->sample);
	found = tt.found;
	err = err ?: perf_session__deliver_synth_event(session, &lost, &f->sample) ?:
	      perf_session__deliver_synth_event(session, &sample, &f->sample);
	found_later = tt.found;
	perf_session__delete(session);
	perf_env__exit(&env);

	TEST_ASSERT_VAL("events", !err);
	TEST_ASSERT_VAL("may be late", found);
	TEST_ASSERT_VAL("before the gap", !found_later);
	return TEST_OK;
}

static int take_addr(const struct perf_tool *tool, union perf_event *event,
		     struct perf_sample *sample __maybe_unused,
		     struct machine *machine __maybe_unused)
{
	struct test_tool *tt = container_of(tool, struct test_tool, tool);

	tt->addr = event->ksymbol.addr;
	return 0;
}

/* Counts the records. */
static int take_bpf(const struct perf_tool *tool, union perf_event *event,
		    struct perf_sample *sample __maybe_unused,
		    struct machine *machine __maybe_unused)
{
	struct test_tool *tt = container_of(tool, struct test_tool, tool);

	tt->bpf[event->bpf.type]++;
	return 0;
}

/*
 * perf inject --aslr keeps no record with an address, except for KSYMBOL: also none of a
 * later kernel, regardless of the file's attributes.
 */
static int __test_aslr(struct fixture *f)
{
	struct test_tool tt = {};
	struct perf_tool *tool;
	union perf_event event;
	u64 first, second;
	int err, type;

	perf_tool__init(&tt.tool, /*ordered_events=*/true);
	tt.tool.ksymbol = take_addr;
	tt.tool.bpf = take_bpf;
	tool = aslr_tool__new(&tt.tool);
	TEST_ASSERT_VAL("tool", tool);

	err = aslr_tool__cache_orig_attrs(tool, f->sample.evsel);
	ksymbol_event(&event, ADDR, LEN, "bpf_prog_a", false);
	err = err ?: tool->ksymbol(tool, &event, &f->sample, &f->machine);
	first = tt.addr;
	ksymbol_event(&event, ADDR, LEN, "bpf_prog_a", true);
	err = err ?: tool->ksymbol(tool, &event, &f->sample, &f->machine);
	ksymbol_event(&event, ADDR, 2 * LEN, "bpf_prog_b", false);
	err = err ?: tool->ksymbol(tool, &event, &f->sample, &f->machine);
	second = tt.addr;
	for (type = 0; type < (int)ARRAY_SIZE(tt.bpf); type++) {
		subprog_event(&event, type, 5, 0, ADDR, LEN, 1, "bpf_prog_a");
		err = err ?: tool->bpf(tool, &event, &f->sample, &f->machine);
	}
	aslr_tool__delete(tool);

	for (type = 0; type < (int)ARRAY_SIZE(tt.bpf); type++) {
		TEST_ASSERT_EQUAL("records of BPF programs", tt.bpf[type],
				  (type == PERF_BPF_EVENT_PROG_LOAD ||
				   type == PERF_BPF_EVENT_PROG_UNLOAD));
	}
	TEST_ASSERT_VAL("events", !err);
	TEST_ASSERT_VAL("addresses", first && second && first != ADDR && second != ADDR);
	TEST_ASSERT_VAL("another program", first != second);
	return TEST_OK;
}

/* perf can't read the start of the kernel: its map covers all addresses. */
static int __test_kernel_map(struct fixture *f)
{
	struct addr_location al;
	struct map *map;

	TEST_ASSERT_VAL("map", !add_kernel_map(f, 0, ~0ULL, "kernel"));
	map = maps__find(machine__kernel_maps(&f->machine), ADDR);
	TEST_ASSERT_VAL("map", map);
	map__set_mapping_type(map, MAPPING_TYPE__IDENTITY);
	f->machine.vmlinux_map = map;

	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR, LEN, "bpf_prog_a", false));
	addr_location__init(&al);
	f->sample.ip = ADDR + 1;
	TEST_ASSERT_VAL("sample", !machine__resolve(&f->machine, &al, &f->sample));
	TEST_ASSERT_VAL("symbol", al.sym);
	TEST_ASSERT_VAL("unload", !ksymbol(f, ADDR, LEN, "bpf_prog_a", true));
	TEST_ASSERT_VAL("load", !ksymbol(f, ADDR + LEN, LEN, "bpf_prog_b", false));
	TEST_ASSERT_VAL("forgotten", known(f, ADDR + 1, "kernel", 0, 0));
	TEST_ASSERT_VAL("loaded", known(f, ADDR + LEN, "bpf_prog_b", 0, 0));
	/* perf top shows the sample. */
	TEST_ASSERT_VAL("name", !strcmp(al.sym->name, "bpf_prog_a"));
	addr_location__exit(&al);
	return TEST_OK;
}

#ifdef HAVE_LIBBPF_SUPPORT
static int prog_load(struct fixture *f, u32 id)
{
	union perf_event event = {
		.bpf = {
			.header = {
				.type = PERF_RECORD_BPF_EVENT,
				.size = sizeof(event.bpf),
			},
			.type = PERF_BPF_EVENT_PROG_LOAD,
			.id = id,
		},
	};

	return machine__process_bpf(&f->machine, &event, &f->sample);
}

/* bpf_prog_info has addresses in the kernel too: that of the interpreter, or of kcore. */
static int __test_prog_info(struct fixture *f)
{
	struct bpf_prog_info_node *node = zalloc(sizeof(*node));
	struct perf_bpil *bpil = zalloc(sizeof(*bpil) + sizeof(u64));
	bool kernel, program;
	struct perf_env env;
	int err;

	TEST_ASSERT_VAL("bpf_prog_info", node && bpil);
	TEST_ASSERT_VAL("map", !add_kernel_map(f, ADDR - 0x1000, ADDR + 0x1000, "kernel"));
	*(u64 *)bpil->data = ADDR;
	bpil->arrays = 1UL << PERF_BPIL_JITED_KSYMS;
	bpil->info.id = 5;
	bpil->info.jited_ksyms = ptr_to_u64(bpil->data);
	bpil->info.nr_jited_ksyms = 1;
	bpil->info.jited_prog_len = LEN;
	node->info_linear = bpil;

	perf_env__init(&env);
	perf_env__insert_bpf_prog_info(&env, node);
	f->machine.env = &env;
	err = prog_load(f, 5);
	kernel = known(f, ADDR, "kernel", 0, 0);

	*(u64 *)bpil->data = ADDR + 0x1000;
	err = err ?: ksymbol(f, ADDR + 0x1000, LEN, "bpf_prog_a", false) ?: prog_load(f, 5);
	program = known(f, ADDR + 0x1000, "bpf_prog_a", 5, 0);
	f->machine.env = NULL;
	perf_env__exit(&env);

	TEST_ASSERT_VAL("events", !err);
	TEST_ASSERT_VAL("kernel", kernel);
	TEST_ASSERT_VAL("program", program);
	return TEST_OK;
}

#define FUNCS 2

/* Does the symbol at @addr have the code @byte, @len times? */
static bool has_code(struct fixture *f, u64 addr, u8 byte, size_t len)
{
	u8 data[3 * LEN], *copy = NULL;
	struct addr_location al;
	const u8 *code = NULL;
	u64 code_len = 0;
	bool is_64bit;
	ssize_t n = 0;

	addr_location__init(&al);
	f->sample.ip = addr;
	if (!machine__resolve(&f->machine, &al, &f->sample) && al.sym) {
		struct dso *dso = map__dso(al.map);

		code = dso__read_symbol(dso, "", al.map, al.sym, &copy, &code_len, &is_64bit);
		n = dso__data_read_offset(dso, &f->machine, 0, data, sizeof(data));
	}
	addr_location__exit(&al);
	if (!code || code_len != len || n != (ssize_t)len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (code[i] != byte || data[i] != byte)
			return false;
	return true;
}

/* bpf_prog_info has the code of all functions of a program, one after the other. */
static int __test_code(struct fixture *f)
{
	struct {
		u64 ksyms[FUNCS];
		u32 lens[FUNCS];
		u8 insns[3 * LEN];
	} data = {
		.ksyms = { ADDR, ADDR + LEN },
		.lens = { LEN, 2 * LEN },
	}, *copy;
	struct bpf_prog_info_node *node = zalloc(sizeof(*node));
	struct perf_bpil *bpil = zalloc(sizeof(*bpil) + sizeof(data));
	bool first, second, beyond;
	struct perf_env env;
	int err;

	TEST_ASSERT_VAL("bpf_prog_info", node && bpil);
	memset(data.insns, 1, LEN);
	memset(data.insns + LEN, 2, 2 * LEN);
	copy = memcpy(bpil->data, &data, sizeof(data));
	bpil->arrays = 1UL << PERF_BPIL_JITED_KSYMS | 1UL << PERF_BPIL_JITED_FUNC_LENS |
		       1UL << PERF_BPIL_JITED_INSNS;
	bpil->info.id = 6;
	bpil->info.jited_ksyms = ptr_to_u64(copy->ksyms);
	bpil->info.nr_jited_ksyms = FUNCS;
	bpil->info.jited_func_lens = ptr_to_u64(copy->lens);
	bpil->info.nr_jited_func_lens = FUNCS;
	bpil->info.jited_prog_insns = ptr_to_u64(copy->insns);
	bpil->info.jited_prog_len = sizeof(data.insns);
	node->info_linear = bpil;

	perf_env__init(&env);
	perf_env__insert_bpf_prog_info(&env, node);
	f->machine.env = &env;
	err = ksymbol(f, ADDR, LEN, "bpf_prog_a", false) ?:
	      ksymbol(f, ADDR + LEN, 2 * LEN, "bpf_prog_b", false) ?: prog_load(f, 6);
	first = has_code(f, ADDR, 1, LEN);
	second = has_code(f, ADDR + LEN, 2, 2 * LEN);
	/* As a file can have it. */
	copy->lens[1] = 2 * LEN + 1;
	beyond = has_code(f, ADDR + LEN, 2, 2 * LEN);
	f->machine.env = NULL;
	perf_env__exit(&env);

	TEST_ASSERT_VAL("events", !err);
	TEST_ASSERT_VAL("first function", first);
	TEST_ASSERT_VAL("second function", second);
	TEST_ASSERT_VAL("lengths", !beyond);
	return TEST_OK;
}
#else
static int __test_prog_info(struct fixture *f __maybe_unused)
{
	return TEST_SKIP;
}

static int __test_code(struct fixture *f __maybe_unused)
{
	return TEST_SKIP;
}
#endif

static int run(int (*test)(struct fixture *f), bool bpf_subprog)
{
	struct fixture f;
	int ret = setup(&f, bpf_subprog);

	if (ret == TEST_OK) {
		ret = test(&f);
		teardown(&f);
	}
	return ret;
}

#define TEXT_TEST(_name, _bpf_subprog)						\
static int test__##_name(struct test_suite *test __maybe_unused,		\
			 int subtest __maybe_unused)				\
{										\
	return run(__test_##_name, _bpf_subprog);				\
}

TEXT_TEST(unloaded, true)
TEXT_TEST(time, true)
TEXT_TEST(kcore, true)
TEXT_TEST(image_size, true)
TEXT_TEST(page_image, false)
TEXT_TEST(replaced, true)
TEXT_TEST(no_bit, false)
TEXT_TEST(unnamed, false)
TEXT_TEST(unnamed_again, true)
TEXT_TEST(twins, true)
TEXT_TEST(alone, true)
TEXT_TEST(late_id, true)
TEXT_TEST(order, true)
TEXT_TEST(lost, true)
TEXT_TEST(full, true)
TEXT_TEST(early_gap, true)
TEXT_TEST(gap_at_end, true)
TEXT_TEST(no_lookups, true)
TEXT_TEST(late, true)
TEXT_TEST(late_end, true)
TEXT_TEST(no_bit_late_end, false)
TEXT_TEST(struct_ops, true)
TEXT_TEST(prefix, true)
TEXT_TEST(lost_unload, true)
TEXT_TEST(malformed, true)
TEXT_TEST(swapped, true)
TEXT_TEST(no_resolve, true)
TEXT_TEST(full_in_tool, true)
TEXT_TEST(aslr, true)
TEXT_TEST(prog_info, true)
TEXT_TEST(code, false)

static int test__kernel_map(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const unsigned short saved = symbol_conf.priv_size;
	int ret;

	/* Too large for the caches of malloc(): a new symbol has the address of a freed one. */
	symbol_conf.priv_size = 0xfff8;
	ret = run(__test_kernel_map, false);
	symbol_conf.priv_size = saved;
	return ret;
}

#ifdef HAVE_LIBBPF_SUPPORT
static const char kallsyms[] =
	"ffffffffab200000 T _stext\n"
	"ffffffffa0001000 t bpf_prog_0123456789abcdef_a\t[bpf]\n"
	"ffffffffa0003000 t bpf_trampoline_6442451234\t[bpf]\n"
	"ffffffffa0002000 t bpf__tcp_congestion_ops_ssthresh\t[bpf]\n"
	"ffffffffa0001040 t bpf_dispatcher_xdp\t[bpf]\n"
	"ffffffffa0002040 t bpf_prog_0123456789abcdef_b\t[bpf]\n"
	"ffffffffc0000000 t bpf_trampoline_of_a_module\t[module]\n"
	"0000000000000000 t bpf_trampoline_hidden\t[bpf]\n";

static const struct {
	const char *name;
	u64 addr;
	u32 max_len;	/* where the next one begins, and a page at most */
} images[] = {
	{ "bpf_dispatcher_xdp", 0xffffffffa0001040, 0x2000 - 0x1040 },
	{ "bpf__tcp_congestion_ops_ssthresh", 0xffffffffa0002000, 0x40 },
	{ "bpf_trampoline_6442451234", 0xffffffffa0003000, UINT32_MAX },
};

struct images_tool {
	struct perf_tool tool;
	size_t seen;
	bool wrong;
};

/* Programs of this machine are synthesized as well: they have their IDs. */
static int process_image(const struct perf_tool *tool, union perf_event *event,
			 struct perf_sample *sample __maybe_unused,
			 struct machine *machine __maybe_unused)
{
	struct images_tool *it = container_of(tool, struct images_tool, tool);

	if (event->header.type != PERF_RECORD_KSYMBOL ||
	    strstarts(event->ksymbol.name, "bpf_prog_"))
		return 0;

	pr_debug("%s %#" PRIx64 " %u\n", event->ksymbol.name, (u64)event->ksymbol.addr,
		 event->ksymbol.len);
	if (it->seen >= ARRAY_SIZE(images) ||
	    strcmp(event->ksymbol.name, images[it->seen].name) ||
	    event->ksymbol.addr != images[it->seen].addr ||
	    event->ksymbol.len != min(images[it->seen].max_len, (u32)page_size))
		it->wrong = true;
	it->seen++;
	return 0;
}

/* The events of all programs, and of the images in the kallsyms file @path. */
static int synthesize(struct perf_session *session, perf_event__handler_t process,
		      const char *path)
{
	const char *saved = symbol_conf.kallsyms_name;
	struct record_opts opts = {};
	int err;

	symbol_conf.kallsyms_name = path;
	err = perf_event__synthesize_bpf_events(session, process, &session->machines.host, &opts);
	symbol_conf.kallsyms_name = saved;
	return err;
}

static int test__images(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	char path[] = "/tmp/perf-test-kallsyms.XXXXXX";
	struct images_tool it = {};
	struct perf_session *session;
	struct perf_env env;
	int fd = mkstemp(path), err = INT_MIN;

	TEST_ASSERT_VAL("temporary file", fd >= 0);
	perf_tool__init(&it.tool, /*ordered_events=*/false);
	session = new_session(&it.tool, &env);
	if (!IS_ERR_OR_NULL(session) &&
	    write(fd, kallsyms, sizeof(kallsyms) - 1) == sizeof(kallsyms) - 1)
		err = synthesize(session, process_image, path);
	close(fd);
	unlink(path);
	if (!IS_ERR_OR_NULL(session))
		perf_session__delete(session);
	perf_env__exit(&env);

	/* Other tests cover the result for the programs of this machine. */
	TEST_ASSERT_VAL("setup", err != INT_MIN);
	TEST_ASSERT_VAL("images", !it.wrong);
	TEST_ASSERT_EQUAL("number of images", (int)it.seen, (int)ARRAY_SIZE(images));
	return TEST_OK;
}

struct name_tool {
	struct perf_tool tool;
	u64 addr;
	char name[KSYM_NAME_LEN];
};

static int process_name(const struct perf_tool *tool, union perf_event *event,
			struct perf_sample *sample __maybe_unused,
			struct machine *machine __maybe_unused)
{
	struct name_tool *nt = container_of(tool, struct name_tool, tool);

	if (event->header.type == PERF_RECORD_KSYMBOL && event->ksymbol.addr == nt->addr)
		scnprintf(nt->name, sizeof(nt->name), "%s", event->ksymbol.name);
	return 0;
}

/* The main function of a program that has another one, as kallsyms names it. */
static int test__name(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct bpf_insn insns[] = {
		BPF_CALL_REL(1),
		BPF_EXIT_INSN(),
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	struct bpf_prog_info info = {};
	__u32 info_len = sizeof(info);
	struct perf_session *session;
	struct name_tool nt = {};
	struct perf_env env;
	char expected[64];
	u64 ksyms[2] = {};
	int fd, n;

	fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "name", "GPL", insns, ARRAY_SIZE(insns),
			   &opts);
	if (fd < 0)
		return TEST_SKIP;
	info.nr_jited_ksyms = ARRAY_SIZE(ksyms);
	info.jited_ksyms = ptr_to_u64(ksyms);
	if (bpf_prog_get_info_by_fd(fd, &info, &info_len) || !info.jited_prog_len || !ksyms[0]) {
		close(fd);
		return TEST_SKIP;
	}
	n = scnprintf(expected, sizeof(expected), "bpf_prog_");
	for (int i = 0; i < BPF_TAG_SIZE; i++)
		n += scnprintf(expected + n, sizeof(expected) - n, "%02x", info.tag[i]);
	scnprintf(expected + n, sizeof(expected) - n, "_name");

	nt.addr = ksyms[0];
	perf_tool__init(&nt.tool, /*ordered_events=*/false);
	session = new_session(&nt.tool, &env);
	if (!IS_ERR_OR_NULL(session)) {
		synthesize(session, process_name, "/dev/null");
		perf_session__delete(session);
	}
	perf_env__exit(&env);
	close(fd);

	pr_debug("%s, expected %s\n", nt.name, expected);
	TEST_ASSERT_VAL("name", !strcmp(nt.name, expected));
	return TEST_OK;
}

struct loads_tool {
	struct perf_tool tool;
	u32 id;
	int loads;
};

static int process_load(const struct perf_tool *tool, union perf_event *event,
			struct perf_sample *sample __maybe_unused,
			struct machine *machine __maybe_unused)
{
	struct loads_tool *lt = container_of(tool, struct loads_tool, tool);

	if (event->header.type == PERF_RECORD_BPF_EVENT &&
	    event->bpf.type == PERF_BPF_EVENT_PROG_LOAD && event->bpf.id == lt->id)
		lt->loads++;
	return 0;
}

/* As for the next file of perf record --switch-output: the program is in env already. */
static int test__twice(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const struct bpf_insn insns[] = {
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	struct bpf_prog_info info = {};
	__u32 info_len = sizeof(info);
	struct perf_session *session;
	struct loads_tool lt = {};
	struct perf_env env;
	int fd, first = -1;

	fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "twice", "GPL", insns, ARRAY_SIZE(insns),
			   &opts);
	if (fd < 0)
		return TEST_SKIP;
	if (bpf_prog_get_info_by_fd(fd, &info, &info_len) || !info.jited_prog_len) {
		close(fd);
		return TEST_SKIP;
	}

	lt.id = info.id;
	perf_tool__init(&lt.tool, /*ordered_events=*/false);
	session = new_session(&lt.tool, &env);
	if (!IS_ERR_OR_NULL(session)) {
		synthesize(session, process_load, "/dev/null");
		first = lt.loads;
		synthesize(session, process_load, "/dev/null");
		perf_session__delete(session);
	}
	perf_env__exit(&env);
	close(fd);

	TEST_ASSERT_EQUAL("first file", first, 1);
	TEST_ASSERT_EQUAL("both files", lt.loads, 2);
	return TEST_OK;
}
#else
static int test__images(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__name(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}

static int test__twice(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}
#endif

static struct test_case tests__bpf_text[] = {
	TEST_CASE("Unloaded text is known until it is used again", unloaded),
	TEST_CASE("Unloaded text is forgotten after a while", time),
	TEST_CASE("Text in a map of something else", kcore),
	TEST_CASE("Text after an image", image_size),
	TEST_CASE("Text in the page of an image", page_image),
	TEST_CASE("Text used again, with records lost", replaced),
	TEST_CASE("Without bpf_subprog until it is unloaded", no_bit),
	TEST_CASE("Programs without a name", unnamed),
	TEST_CASE("Program without a name at the address of another", unnamed_again),
	TEST_CASE("Programs with the same name", twins),
	TEST_CASE("Records without those that belong to them", alone),
	TEST_CASE("Programs that are known late", late_id),
	TEST_CASE("Records out of order", order),
	TEST_CASE("Lost records", lost),
	TEST_CASE("Lost records, and a ring that was full", full),
	TEST_CASE("Missing records before the first sample", early_gap),
	TEST_CASE("Missing records after the last sample", gap_at_end),
	TEST_CASE("Missing records without samples", no_lookups),
	TEST_CASE("Late records", late),
	TEST_CASE("Late end of another text", late_end),
	TEST_CASE("Late end of another text, without bpf_subprog", no_bit_late_end),
	TEST_CASE("Programs that struct_ops call", struct_ops),
	TEST_CASE("Prefixes of programs", prefix),
	TEST_CASE("Lost and late unloads of programs", lost_unload),
	TEST_CASE_REASON("Time to read a storm of programs", storm, "built with assertions"),
	TEST_CASE("Malformed and longer records", malformed),
	TEST_CASE("Records of the other byte order", swapped),
	TEST_CASE("Unloaded text in tools that look for it by themselves", no_resolve),
	TEST_CASE("Lost records in tools that handle them by themselves", full_in_tool),
	TEST_CASE("Unloaded text in perf inject --aslr", aslr),
	TEST_CASE("Symbols in the map of the kernel", kernel_map),
	TEST_CASE_REASON("Addresses of bpf_prog_info", prog_info, "built without libbpf"),
	TEST_CASE_REASON("Code of subprograms", code, "built without libbpf"),
	TEST_CASE_REASON("Synthesized images", images, "built without libbpf"),
	TEST_CASE_REASON("Synthesized name of a program", name,
			 "built without libbpf, no permission or no JIT"),
	TEST_CASE_REASON("Synthesized load of a program that is known", twice,
			 "built without libbpf, no permission or no JIT"),
	{ .name = NULL, }
};

struct test_suite suite__bpf_text = {
	.desc = "BPF text",
	.test_cases = tests__bpf_text,
};
