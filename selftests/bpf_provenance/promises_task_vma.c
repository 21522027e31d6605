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
	char text[256];

	skel = promises_task_vma__open_and_load();
	if (!skel)
		return fail("open and load", errno);
	if (run_in_nmis(skel->progs.on_nmi, &skel->bss->target, &skel->bss->nmis))
		return 1;
	if (skel->bss->walks)
		snprintf(text, sizeof(text), "in NMI: all VMAs are seen in %s NMIs",
			 skel->bss->complete >= skel->bss->nmis ? "all of 20" : "some");
	else
		snprintf(text, sizeof(text),
			 "in NMI: bpf_iter_task_vma_new() is %s in all of %d NMIs",
			 strerrorname_np(-skel->bss->walk_err), NMIS);
	row("task-vma", text);
	promises_task_vma__destroy(skel);
	return 0;
}
PROMISE(2, measure_task_vma);
