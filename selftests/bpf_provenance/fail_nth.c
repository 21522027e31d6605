// SPDX-License-Identifier: GPL-2.0
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "fail_nth.h"

#define DEBUGFS "/sys/kernel/debug/"

int faults_open(struct faults *f)
{
	/* By default, allocations that may wait or are small do not fail. */
	static const char * const settings[][2] = {
		{ DEBUGFS "failslab/ignore-gfp-wait", "N" },
		{ DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N" },
		{ DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N" },
		{ DEBUGFS "fail_page_alloc/min-order", "0" },
		/* No stack trace for each fault. */
		{ DEBUGFS "failslab/verbose", "0" },
		{ DEBUGFS "fail_page_alloc/verbose", "0" },
		{ DEBUGFS "fail_usercopy/verbose", "0" },
	};
	size_t i;

	static_assert(ARRAY_LEN(settings) == ARRAY_LEN(f->settings));
	memset(f, 0, sizeof(*f));
	f->fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (f->fd < 0)
		return -EOPNOTSUPP;
	for (i = 0; i < ARRAY_LEN(settings); i++)
		if (setting_change(&f->settings[i], settings[i][0], settings[i][1])) {
			faults_close(f);
			return -EOPNOTSUPP;
		}
	return 0;
}

void faults_close(struct faults *f)
{
	size_t i;

	close(f->fd);
	for (i = 0; i < ARRAY_LEN(f->settings); i++)
		setting_restore(&f->settings[i]);
}

void fault_arm(struct faults *f)
{
	char nth[16];

	snprintf(nth, sizeof(nth), "%u", ++f->nth);
	if (pwrite(f->fd, nth, strlen(nth), 0) < 0)
		abort();
}

bool fault_hit(struct faults *f)
{
	char left[16] = "";
	bool hit;

	/* Also copies to user space, so the fault may hit this call. */
	hit = pread(f->fd, left, sizeof(left) - 1, 0) > 0 && !atoi(left);
	while (!hit && pwrite(f->fd, "0", 1, 0) < 0)
		;
	return hit;
}
