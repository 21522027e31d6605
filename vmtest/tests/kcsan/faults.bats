#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Faults that KCSAN must report.

load ../faults

@test "faults: the module alone does no harm" {
	commit none
	[ "$status" = 0 ]
}

@test "faults: a data race" {
	commit race
	[ "$status" = 5 ]
	[[ $output == *"BUG: KCSAN: data-race in"*"planted_faults"* ]]
}
