// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov features - detect kernel features by the kernel's BTF and sysctls, which any user may
 * read. No program is loaded, and no event is opened.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "bpfprov.h"

static const struct {
	const char *name;
	const char *what;
	/* A function or enum value that was added with it. */
	const char *func;
	const char *enum_name, *value;
	/* Can be 0, then it is switched off. */
	const char *sysctl;
} features[FEATURES] = {
	[BUILD_ID_CACHE] = {
		"build-id-cache",
		"build IDs of user frames in any context",
		.func = "bpf_file_build_id",
		.sysctl = "kernel/build_id_cache",
	},
	[TASK_VMA_QUERY] = {
		"task-vma-query",
		"the mapping of a user address in any context",
		.func = "bpf_task_vma_query",
	},
	[BPF_SUBPROG] = {
		"bpf-subprog",
		"a perf record per BPF subprogram and image",
		.enum_name = "perf_bpf_event_type",
		.value = "PERF_BPF_EVENT_SUBPROG_LOAD",
	},
	[AUTOBIND] = {
		"autobind",
		"a BPF hook where the kernel chooses a port",
		.enum_name = "bpf_attach_type",
		.value = "BPF_CGROUP_INET_AUTOBIND",
	},
};

/* NULL: the kernel has no BTF. Read once, and never freed. */
static const struct btf *kernel_btf(void)
{
	static struct btf *btf;
	static bool tried;

	if (!tried) {
		tried = true;
		btf = btf__load_vmlinux_btf();
	}
	return btf;
}

static bool has_enum_value(const struct btf *btf, const char *name, const char *value)
{
	const struct btf_type *t;
	const struct btf_enum *e;
	__u32 i;
	int id;

	id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);
	if (id < 0)
		return false;
	t = btf__type_by_id(btf, id);
	e = btf_enum(t);
	for (i = 0; i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, e[i].name_off), value))
			return true;
	return false;
}

static bool is_in_kernel(enum feature f)
{
	const struct btf *btf = kernel_btf();

	if (!btf)
		return false;
	if (features[f].func)
		return btf__find_by_name_kind(btf, features[f].func, BTF_KIND_FUNC) > 0;
	return has_enum_value(btf, features[f].enum_name, features[f].value);
}

static bool is_off(enum feature f)
{
	char path[64], first = 0;
	FILE *file;

	if (!features[f].sysctl)
		return false;
	snprintf(path, sizeof(path), "/proc/sys/%s", features[f].sysctl);
	file = fopen(path, "re");
	if (file) {
		first = fgetc(file);
		fclose(file);
	}
	return first == '0';
}

bool has_feature(enum feature f)
{
	return is_in_kernel(f) && !is_off(f);
}

void say_reduced(enum feature f, const char *what)
{
	say("%sreduced:%s %s %s (%s): %s", colour(stderr, YELLOW), colour(stderr, PLAIN),
	    is_in_kernel(f) ? "a sysctl switches off" : "this kernel has no", features[f].name,
	    features[f].what, what);
}

int cmd_features(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "List the kernel features that the other commands use.\n"
		       "\vExample:\n  bpfprov features\n\n"
		       "Needs no privilege. If the kernel has no BTF, all of them are \"no\", and\n"
		       "the exit code is 4.",
	};
	enum feature f;

	parse_args(&argp, argc, argv);
	if (!kernel_btf())
		say("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or /sys is not mounted: features are not known");
	for (f = 0; f < FEATURES; f++) {
		bool has = has_feature(f), off = !has && is_in_kernel(f);

		printf("%-16s %s%-3s%s  %s", features[f].name, colour(stdout, has ? GREEN : RED),
		       has ? "yes" : off ? "off" : "no", colour(stdout, PLAIN), features[f].what);
		if (off)
			printf(": /proc/sys/%s is 0", features[f].sysctl);
		putchar('\n');
	}
	if (finish_output(stdout, "standard output"))
		return BPFPROV_FAILED;
	return kernel_btf() ? BPFPROV_OK : BPFPROV_KERNEL;
}
