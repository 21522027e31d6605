// SPDX-License-Identifier: GPL-2.0
/*
 * What the verifier makes of programs that use the task_vma iterator and
 * bpf_task_vma_query(). What these do when they run is tested by
 * tools/testing/selftests/bpf_provenance/task_vma.c.
 */
#include <test_progs.h>

#include "task_vma_failure.skel.h"
#include "task_vma_success.skel.h"

void test_task_vma(void)
{
	RUN_TESTS(task_vma_success);
	RUN_TESTS(task_vma_failure);
}
