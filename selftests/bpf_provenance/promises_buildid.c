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
	struct promises_buildid *skel;
	char text[64];

	skel = promises_buildid__open_and_load();
	if (!skel)
		return fail("open and load", errno);
	if (run_in_nmis(skel->progs.on_nmi, &skel->bss->target, &skel->bss->nmis))
		return 1;
	if (!skel->bss->frames)
		return fail("stacks without user frames", ENODATA);
	snprintf(text, sizeof(text), "percent=%llu", 100 * skel->bss->valid / skel->bss->frames);
	row("buildid", text);
	promises_buildid__destroy(skel);
	return 0;
}
PROMISE(1, measure_buildid);
