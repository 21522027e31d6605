#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# Faults that KASAN, lockdep, the leak detector and the runner must report.

load ../faults

@test "faults: the module alone does no harm" {
	commit none
	[ "$status" = 0 ]
}

@test "faults: a splat" {
	commit splat
	[ "$status" = 5 ]
	[[ $output == *"WARNING: "*"planted_faults"* ]]
}

@test "faults: a lock inversion" {
	commit lock_inversion
	[ "$status" = 5 ]
	[[ $output == *"possible circular locking dependency"* ]]
}

@test "faults: sleeping in atomic context" {
	commit sleep_in_atomic
	[ "$status" = 5 ]
	[[ $output == *"scheduling while atomic"* ]]
}

@test "faults: a leak" {
	commit leak
	[ "$status" = 5 ]
	[[ $output == *"unreferenced object"* ]]
}

@test "faults: a use after free" {
	commit use_after_free
	# KASAN's report, or the panic that it ends in.
	[ "$status" = 5 ]
	[[ $output == *"KASAN: slab-use-after-free"* ]]
}

@test "faults: a reference count that goes wrong" {
	commit refcount
	[ "$status" = 5 ]
	[[ $output == *"refcount_t: "* ]]
}

@test "faults: a hang with interrupts off" {
	commit hang --silence-timeout 20
	# The first to report: the runner, or the kernel, which panics then.
	case $status in
	7) [[ $output == *"nothing was printed for 20 s"* ]] ;;
	4) [[ $output == *[Ll]"ockup"* || $output == *"LOCKUP"* ]] ;;
	*) false ;;
	esac
}

@test "faults: an NMI test that never saw an NMI" {
	run "$VMTEST" --no-build -f "$FLAVOUR" --file "$MODULE" -- bash -c \
		"insmod /mnt/planted_faults.ko fault=no_nmi; TESTS=contexts.contexts.nmi_on_user_task /mnt/guest-tests"
	[ "$status" = 1 ]
	[[ $output == *"1 tests failed"* ]]
	# Because of that: the number of runs that it asserts is 0.
	[[ $output == *"nmi->runs (0)"* ]]
}
