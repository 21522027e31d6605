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
	struct interrupted task;
	struct promises_task_vma *skel;
	char text[256];
	int err;

	skel = promises_task_vma__open_and_load();
	if (!skel)
		return fail("open and load", errno);
	if (interrupted_start(&task))
		return 1;
	skel->bss->target = task.s->tid;
	skel->links.on_nmi = bpf_program__attach(skel->progs.on_nmi);
	if (!skel->links.on_nmi)
		return fail("attach to nmi_handler", errno);
	err = interrupted_nmis(&task, &skel->bss->nmis);
	bpf_link__destroy(skel->links.on_nmi);
	skel->links.on_nmi = NULL;
	interrupted_stop(&task);
	if (err)
		return err;
	if (skel->bss->nmis < NMIS)
		return fail("too few NMIs on top of the task", EAGAIN);
	if (skel->bss->walks)
		snprintf(text, sizeof(text), "in NMI: all VMAs are seen in %s NMIs",
			 skel->bss->complete >= skel->bss->nmis ? "all of 20" : "some");
	else
		snprintf(text, sizeof(text),
			 "in NMI: bpf_iter_task_vma_new() is %s in all of %d NMIs",
			 strerrorname_np(-skel->bss->walk_err), NMIS);
	row("task-vma", "open-coded task_vma iteration at sample time",
	    "task_vma.context.nmi.walk", text);
	promises_task_vma__destroy(skel);
	return 0;
}
PROMISE(2, measure_task_vma);
