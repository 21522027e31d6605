// SPDX-License-Identifier: GPL-2.0
/* Build IDs of a stack that an NMI takes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "promises.h"
#include "promises_buildid.skel.h"

static int measure_buildid(void)
{
	struct interrupted task;
	struct promises_buildid *skel;
	char text[256];
	int err;

	skel = promises_buildid__open_and_load();
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
	if (skel->bss->nmis < NMIS || !skel->bss->frames)
		return fail("too few NMIs on top of the task", EAGAIN);
	snprintf(text, sizeof(text),
		 "stack from NMI, ELF header not in the page cache: %s user frames have a build ID",
		 !skel->bss->valid ? "0 % of" :
		 skel->bss->valid == skel->bss->frames ? "100 % of" : "some");
	row("buildid",
	    "build ID cached per file, served to stack traces, perf and BPF in any context",
	    "buildid.nmi.cold", text);
	promises_buildid__destroy(skel);
	return 0;
}
PROMISE(1, measure_buildid);
