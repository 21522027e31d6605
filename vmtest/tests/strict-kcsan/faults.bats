#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Faults that only KCSAN with CONFIG_KCSAN_WEAK_MEMORY notices.

load ../faults

@test "faults: the module alone does no harm" {
	commit none
	[ "$status" = 0 ]
}

@test "faults: a missing release" {
	commit missing_release
	[ "$status" = 5 ]
	[[ $output == *"BUG: KCSAN: data-race in"*"planted_faults"*"reordered"* ]]
}
