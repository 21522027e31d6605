// SPDX-License-Identifier: GPL-2.0
/*
 * What perf knows of BPF text: when an address is named, after which records,
 * and what is synthesized of images.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <internal/lib.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "addr_location.h"
#include "bpf-event.h"
#include "debug.h"
#include "dso.h"
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

#define ADDR	0xffffffffa0001000ULL
#define LEN	64

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

static int ksymbol(struct fixture *f, u64 addr, u32 len, const char *name, bool unregister)
{
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

/* Whether that is what a sample there is attributed to; no name for nothing. */
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

static int __test_unloaded(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("still runs", known(f, ADDR + LEN - 1, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("its end", known(f, ADDR + LEN, NULL, 0, 0));

	/* The text is used again, from another offset on. */
	TEST_ASSERT_VAL("load", !load(f, 6, 1, ADDR + 16, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("used again", known(f, ADDR + 16, "bpf_prog_b", 6, 1));
	TEST_ASSERT_VAL("its end", known(f, ADDR + 16 + LEN - 1, "bpf_prog_b", 6, 1));
	TEST_ASSERT_VAL("before", known(f, ADDR, NULL, 0, 0));

	/* And up to another one. */
	TEST_ASSERT_VAL("unload", !unload(f, 6, 1, ADDR + 16, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("load", !load(f, 7, 0, ADDR, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("used again", known(f, ADDR + 16, "bpf_prog_c", 7, 0));
	TEST_ASSERT_VAL("behind", known(f, ADDR + LEN, NULL, 0, 0));
	return TEST_OK;
}

/* Who has no records can use it, so that is not for ever. */
static int __test_time(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
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

/* A segment of kcore has the text of all programs and modules. */
static int __test_kcore(struct fixture *f)
{
	const u64 start = ADDR - 0x1000, end = ADDR + 0x100000;
	struct dso *dso = dso__new("kcore");
	struct map *map = dso ? map__new2(start, dso) : NULL;

	TEST_ASSERT_VAL("map", map);
	map__set_end(map, end);
	dso__set_kernel(dso, DSO_SPACE__KERNEL);
	dso__set_loaded(dso);
	TEST_ASSERT_VAL("insert", !maps__insert(machine__kernel_maps(&f->machine), map));
	map__put(map);
	dso__put(dso);

	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("loaded", known(f, ADDR, "bpf_prog_a", 5, 0));
	TEST_ASSERT_VAL("before", known(f, ADDR - 1, "kcore", 0, 0));
	TEST_ASSERT_VAL("behind", known(f, ADDR + LEN, "kcore", 0, 0));

	/* One that was there when the segment replaced what was known of it. */
	TEST_ASSERT_VAL("unload", !unload(f, 0, 0, ADDR + 2 * LEN, LEN, "bpf_trampoline_1"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("between", known(f, ADDR + LEN, "kcore", 0, 0));
	f->sample.time += 2 * NSEC_PER_SEC;
	TEST_ASSERT_VAL("before", known(f, start, "kcore", 0, 0));
	TEST_ASSERT_VAL("between", known(f, ADDR + LEN, "kcore", 0, 0));
	TEST_ASSERT_VAL("behind", known(f, end - 1, "kcore", 0, 0));
	return TEST_OK;
}

/* kallsyms doesn't tell the size of an image. */
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

/* Its unload, and the KSYMBOL of the next one, were lost. */
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

	/* Only that KSYMBOL, of an image with the name of the one before. */
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

static int __test_order(struct fixture *f)
{
	union perf_event late;

	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_UNLOAD, 5, 0, ADDR, LEN, ++f->seq,
		      "bpf_prog_a");
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR, "bpf_prog_b", 6, 0));

	/* And not at the same address. */
	subprog_event(&late, PERF_BPF_EVENT_SUBPROG_LOAD, 7, 0, ADDR + 16 - LEN, LEN, f->seq - 1,
		      "bpf_prog_c");
	TEST_ASSERT_VAL("load", !machine__process_bpf_subprog(&f->machine, &late, &f->sample));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR, "bpf_prog_b", 6, 0));
	TEST_ASSERT_VAL("lower seq", known(f, ADDR + 16 - LEN, NULL, 0, 0));
	return TEST_OK;
}

static int __test_lost(struct fixture *f)
{
	TEST_ASSERT_VAL("load", !load(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	TEST_ASSERT_VAL("load", !load(f, 6, 0, ADDR + LEN, LEN, "bpf_prog_b"));
	TEST_ASSERT_VAL("unload", !unload(f, 5, 0, ADDR, LEN, "bpf_prog_a"));
	f->seq++;
	TEST_ASSERT_VAL("load", !load(f, 8, 0, ADDR + 2 * LEN, LEN, "bpf_prog_c"));
	TEST_ASSERT_VAL("unloaded", known(f, ADDR, NULL, 0, 0));
	TEST_ASSERT_VAL("loaded", known(f, ADDR + LEN, "bpf_prog_b", 6, 0));
	TEST_ASSERT_VAL("loaded", known(f, ADDR + 2 * LEN, "bpf_prog_c", 8, 0));
	return TEST_OK;
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

	/* A later kernel has eight more bytes before the name. */
	size = subprog_event(&event, PERF_BPF_EVENT_SUBPROG_LOAD, 5, 0, ADDR, LEN, 1, "");
	event.header.size += 8;
	event.bpf_subprog.name_off += 8;
	strcpy((char *)&event + fixed + 8, "name");
	TEST_ASSERT_VAL("longer record", !strcmp(perf_event__bpf_subprog_name(&event), "name"));
	return TEST_OK;
}

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
TEXT_TEST(replaced, true)
TEXT_TEST(no_bit, false)
TEXT_TEST(twins, true)
TEXT_TEST(alone, true)
TEXT_TEST(order, true)
TEXT_TEST(lost, true)
TEXT_TEST(malformed, true)

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

static int test__images(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	char path[] = "/tmp/perf-test-kallsyms.XXXXXX";
	const char *saved = symbol_conf.kallsyms_name;
	struct images_tool it = {};
	struct record_opts opts = {};
	struct perf_session *session;
	int fd = mkstemp(path), err = INT_MIN;

	TEST_ASSERT_VAL("temporary file", fd >= 0);
	perf_tool__init(&it.tool, /*ordered_events=*/false);
	session = perf_session__new(/*data=*/NULL, &it.tool);
	if (!IS_ERR_OR_NULL(session) &&
	    write(fd, kallsyms, sizeof(kallsyms) - 1) == sizeof(kallsyms) - 1) {
		symbol_conf.kallsyms_name = path;
		err = perf_event__synthesize_bpf_events(session, process_image,
							&session->machines.host, &opts);
		symbol_conf.kallsyms_name = saved;
	}
	close(fd);
	unlink(path);
	if (!IS_ERR_OR_NULL(session))
		perf_session__delete(session);

	/* What it says of the programs of this machine is for other tests. */
	TEST_ASSERT_VAL("setup", err != INT_MIN);
	TEST_ASSERT_VAL("images", !it.wrong);
	TEST_ASSERT_EQUAL("number of images", (int)it.seen, (int)ARRAY_SIZE(images));
	return TEST_OK;
}
#else
static int test__images(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	return TEST_SKIP;
}
#endif

static struct test_case tests__bpf_text[] = {
	TEST_CASE("Unloaded text is known until it is used again", unloaded),
	TEST_CASE("Unloaded text is forgotten after a while", time),
	TEST_CASE("Text in a map of something else", kcore),
	TEST_CASE("Text behind an image", image_size),
	TEST_CASE("Text used again, with records lost", replaced),
	TEST_CASE("Without bpf_subprog until it is unloaded", no_bit),
	TEST_CASE("Programs with the same name", twins),
	TEST_CASE("Records without those that belong to them", alone),
	TEST_CASE("Records out of order", order),
	TEST_CASE("Lost records", lost),
	TEST_CASE("Malformed and longer records", malformed),
	TEST_CASE_REASON("Synthesized images", images, "built without libbpf"),
	{ .name = NULL, }
};

struct test_suite suite__bpf_text = {
	.desc = "BPF text",
	.test_cases = tests__bpf_text,
};
