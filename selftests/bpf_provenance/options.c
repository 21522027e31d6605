// SPDX-License-Identifier: GPL-2.0
/* Options that nearly all tests need: without one of them, a program skips all of its tests. */
#include <unistd.h>

#include "../kselftest.h"
#include "common.h"

static const struct {
	const char *path, *option;
} options[] = {
	{ "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF" },
	{ "/proc/sys/kernel/ftrace_enabled", "CONFIG_FUNCTION_TRACER" },
	{ "/sys/bus/event_source/devices/software", "CONFIG_PERF_EVENTS" },
	{ "/sys/bus/event_source/devices/uprobe", "CONFIG_UPROBE_EVENTS" },
};

static __attribute__((constructor)) void check_options(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (access(options[i].path, F_OK))
			ksft_exit_skip("needs %s\n", options[i].option);
}
