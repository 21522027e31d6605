// SPDX-License-Identifier: GPL-2.0
/* A walk over all mappings in an NMI. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "promises.h"
#include "promises_task_vma.skel.h"

static int measure_task_vma(void)
{
	struct promises_task_vma *skel;
	char text[64];

	skel = promises_task_vma__open_and_load();
	if (!skel)
		return fail("open and load", errno);
	if (run_in_nmis(skel->progs.on_nmi, &skel->bss->target, &skel->bss->nmis))
		return 1;
	snprintf(text, sizeof(text), "percent=%llu\terror=%s",
		 100 * skel->bss->complete / skel->bss->nmis,
		 skel->bss->walk_err ? strerrorname_np(-skel->bss->walk_err) : "none");
	row("task-vma", text);
	promises_task_vma__destroy(skel);
	return 0;
}
PROMISE(2, measure_task_vma);
