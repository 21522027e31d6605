#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Faults that only a PREEMPT_RT kernel reports.

load ../faults

@test "faults: the module alone does no harm" {
	commit none
	[ "$status" = 0 ]
}

@test "faults: a sleeping lock taken with preemption off" {
	commit spinlock_in_atomic
	[ "$status" = 5 ]
	[[ $output == *"BUG: sleeping function called from invalid context"* ]]
}
