// SPDX-License-Identifier: GPL-2.0
/*
 * Test how the verifier handles programs that call bpf_file_build_id(). Its
 * result is tested by build_id_cache.c.
 */
#include <test_progs.h>

#include "file_build_id_failure.skel.h"
#include "file_build_id_success.skel.h"

void test_file_build_id(void)
{
	RUN_TESTS(file_build_id_success);
	RUN_TESTS(file_build_id_failure);
}
