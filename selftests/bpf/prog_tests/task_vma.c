// SPDX-License-Identifier: GPL-2.0
/*
 * Test how the verifier handles programs that use the task_vma iterator and
 * bpf_task_vma_query(). The behavior of these at run time is tested by
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
