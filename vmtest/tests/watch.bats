#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # expanded elsewhere
# The loop of vmtest.sh that watches a guest, with a script in QEMU's place: it
# writes the console and the results at fixed times, and no
# kernel is needed. vmtest.bats has the same with real guests.

setup()
{
	export TMPDIR=$BATS_TEST_TMPDIR/tmp QEMU=$BATS_TEST_TMPDIR/qemu
	VMTEST=$BATS_TEST_DIRNAME/../vmtest.sh
	mkdir "$TMPDIR"
	touch "$BATS_TEST_TMPDIR/bzImage"
}

# machine COMMANDS: the actions of QEMU. $results and $console are its files, $token is the
# guest's mark for its own lines.
machine()
{
	cat >"$QEMU" <<-'X'
	#!/bin/bash
	[ "$1" != --version ] || exit 0
	all=$*
	for a; do
		case $a in
		file,id=results,path=*) results=${a#*path=} ;;
		file:*) console=${a#file:} ;;
		esac
	done
	. "${results%/*}/vm/job"
	boot() { echo "$token boot" >>"$results"; }
	end() { echo "$token exit $1" >>"$results"; }
	X
	printf '%s\n' "$1" >>"$QEMU"
	chmod +x "$QEMU"
}

vm()
{
	run "$VMTEST" --accel tcg -k "$BATS_TEST_TMPDIR/bzImage" "$@" -- true
	echo "exit status $status"
	[ -z "$(ls "$TMPDIR")" ]
}

@test "watch: 0 and 1 are the command's; lines arrive once, and the protocol's own do not" {
	machine 'boot; printf "one\ntw" >>"$results"; sleep 0.5; printf "o\n" >>"$results"; end 0'
	vm
	[ "$status" = 0 ]
	[ "$(grep -cx one <<<"$output")" = 1 ]
	[ "$(grep -cx two <<<"$output")" = 1 ]
	[[ $output == *booted* ]]
	[[ $output != *"exit 0"* ]]
	machine 'boot; echo one >>"$results"; end 7'
	vm -q
	[ "$status" = 1 ]
	[[ $output == *"exit status was 7"* ]]
	[[ $output != *one* ]]
}

@test "watch: a status that comes with the end of the VM, after many lines, is not lost" {
	machine 'boot; seq 30000 >>"$results"; end 0'
	vm -q
	[ "$status" = 0 ]
}

@test "watch: 3, no boot in time" {
	machine 'sleep 30'
	vm --boot-timeout 1
	[ "$status" = 3 ]
	[ "$SECONDS" -lt 20 ]
}

@test "watch: 4, a panic, also one with a status; 10 where another one was expected" {
	machine 'boot; echo "[    1.0] Kernel panic - not syncing: x" >>"$console"; end 0'
	vm
	[ "$status" = 4 ]
	vm --expect-panic 'not syncing: x'
	[ "$status" = 0 ]
	vm --expect-panic 'not syncing: y'
	[ "$status" = 10 ]
}

@test "watch: 5, a splat" {
	machine 'boot; echo "WARNING: at x" >>"$console"; end 0'
	vm
	[ "$status" = 5 ]
}

# kcsan_top: a checkout whose scripts/build decodes nothing, in which vmtest.sh is.
kcsan_top()
{
	local top=$BATS_TEST_TMPDIR/top
	mkdir -p "$top"/{scripts,vmtest,patches/x}
	echo "+++ b/fs/inode.c" >"$top/patches/x/x.patch"
	cp -r "$BATS_TEST_DIRNAME/../faults" "$top/vmtest"
	cp "$BATS_TEST_DIRNAME"/../../scripts/common.sh "$top/scripts"
	cp "$BATS_TEST_DIRNAME"/../{*.py,splats*,guest-*,vmtest.sh} "$top/vmtest"
	printf 'read fs/inode.c:g / write mm/mmap.c:f\tmm\ta reason\ta condition\n' >"$top/vmtest/kcsan.known"
	printf '%s\n' '#!/bin/bash' 'echo /' >"$top/scripts/fetch"
	printf '%s\n' '#!/bin/bash' '[ "$1" = in ] && cat "$BUILD/out/$2/${!#}/reports"' >"$top/scripts/build"
	chmod +x "$top"/scripts/{fetch,build}
	VMTEST=$top/vmtest/vmtest.sh
	export BUILD=$BATS_TEST_TMPDIR/build
}

# race FUNCTION: a report, as on the console.
race()
{
	printf '[    1.0] %s\r\n' "==========" "BUG: KCSAN: data-race in f / $1" "" \
		"write to 0xffff888 of 8 bytes by task 1 on cpu 0:" " f (mm/mmap.c:1)" "" \
		"read to 0xffff888 of 8 bytes by task 2 on cpu 1:" " $1 (fs/inode.c:2)" "" "=========="
}

@test "watch: 5, a race that vmtest/kcsan.known does not list, on a flavour with KCSAN" {
	kcsan_top
	race g >"$BATS_TEST_TMPDIR/g"
	race h >"$BATS_TEST_TMPDIR/h"
	machine 'boot; { echo before; cat "$BATS_TEST_TMPDIR/g"; echo after; } >>"$console"; end 0'
	vm -f kcsan --log "$BATS_TEST_TMPDIR/log"
	[ "$status" = 0 ]
	[[ $output == *"kcsan: 1 reports: 0 failures, 0 not listed and "* ]]
	# All of the console is kept, and the report decoded.
	[ "$(tr -d '\r' <"$BATS_TEST_TMPDIR/log/console" | head -n 3)" = $'before\n[    1.0] ==========\nafter' ]
	grep -q 'listed: data-race in f / g' "$BATS_TEST_TMPDIR/log/console"
	machine 'boot; cat "$BATS_TEST_TMPDIR"/[gh] >>"$console"; end 0'
	vm -f kcsan
	[ "$status" = 5 ]
	[[ $output == *"kcsan: 2 reports: 1 failures, 0 not listed and "* ]]
	[[ $output == *$'\nread fs/inode.c:h / write mm/mmap.c:f\tfs, mm\tTODO: why; 1 reports\tTODO: when\n'* ]]
	[[ $output == *"BUG: KCSAN: data-race in f / h"* ]]
	# Without a file of the series it is printed only.
	echo "+++ b/fs/attr.c" >"$BATS_TEST_TMPDIR/top/patches/x/x.patch"
	vm -f kcsan
	[ "$status" = 0 ]
	[[ $output == *"kcsan: 2 reports: 0 failures, 1 not listed and "* ]]
	# Where a report gets lost, or none can be decoded, all count.
	for broken in 'tail -n 4 "$BUILD/out/$2/${!#}/reports"' 'exit 1'; do
		printf '%s\n' '#!/bin/bash' "$broken" >"$BATS_TEST_TMPDIR/top/scripts/build"
		machine 'boot; cat "$BATS_TEST_TMPDIR/g" >>"$console"; end 0'
		vm -f kcsan
		[ "$status" = 5 ]
	done
	vm -f series
	[ "$status" = 5 ]
}

@test "watch: 6, the end without a status line, whatever was printed like one" {
	machine 'boot; printf "exit 0\n%s is the token\nexit %s exit 0\n%s" "$token" "$token" "$token exi" >>"$results"'
	vm
	[ "$status" = 6 ]
	[[ $output == *"without a status line"* ]]
}

@test "watch: 7, silence; output of either side ends it" {
	machine 'boot; sleep 30'
	vm --silence-timeout 1
	[ "$status" = 7 ]
	[[ $output == *"nothing was printed for 1 s"* ]]
	for where in console results; do
		machine 'boot; for i in 1 2 3 4 5 6; do sleep 0.5; echo . >>"$'$where'"; done; end 0'
		vm --silence-timeout 2
		[ "$status" = 0 ]
	done
}

@test "watch: 7, the test time-out, also of a guest that prints without a pause" {
	machine 'boot; while [ $SECONDS -lt 5 ]; do echo x; done >>"$results"; sleep 30'
	vm -q --test-timeout 1
	[ "$status" = 7 ]
	[[ $output == *"did not end within 1 s"* ]]
}

@test "watch: 9, the tests ended, the VM did not" {
	machine 'boot; end 0; sleep 30'
	vm --shutdown-timeout 1
	[ "$status" = 9 ]
}

@test "watch: QEMU ends when the process that started it ends" {
	machine 'boot; (sleep 2; end 0) & exit 0'
	vm
	[ "$status" = 0 ]
}

# It took 50 to 70 ms per pass when each started five processes, ten times a second. The
# guest looks at the process that watches it, so that neither the start nor the end counts:
# the time is that of its own and of its children, whose page faults show that there were any.
@test "watch: the loop takes no CPU time from the guest" {
	machine 'boot; sleep 1
		look() { read -r -a s </proc/$PPID/stat; echo "look $((s[13] + s[14] + s[15] + s[16])) $((s[10] + s[12]))" >>"$results"; }
		look; sleep 5; look; end 0'
	vm
	[ "$status" = 0 ]
	read -r -a used <<<"$(sed -n 's/^look //p' <<<"$output" | paste -sd' ')"
	[ "${#used[@]}" = 4 ]
	# 50 passes: 5 ms each is ten times their usual time.
	echo "seconds of CPU in 5 s: $((used[2] - used[0])) / $(getconf CLK_TCK)"
	[ $(((used[2] - used[0]) * 4)) -lt "$(getconf CLK_TCK)" ]
	[ "${used[1]}" = "${used[3]}" ]
}

@test "vmtest: a flavour's options are those of its configuration, unless the command line has others" {
	machine 'boot; echo "QEMU $all" >>"$results"; cat "${results%/*}/vm/job" >>"$results"; end 0'
	# As a CI may set it.
	unset TIMEOUT_SCALE
	vm -f debug
	[ "$status" = 0 ]
	[[ $output == *" -m 4096 "* && $output == *"export TIMEOUT_SCALE=10"* ]]
	TIMEOUT_SCALE=30 vm -f base-debug --memory 3000
	[ "$status" = 0 ]
	[[ $output == *" -m 3000 "* && $output == *"export TIMEOUT_SCALE=30"* ]]
	# A slow machine does not make the flavour faster.
	TIMEOUT_SCALE=3 vm -f debug
	[[ $output == *"export TIMEOUT_SCALE=10"* ]]
	vm
	[ "$status" = 0 ]
	[[ $output == *" -m 2048 "* && $output != *TIMEOUT_SCALE* ]]
}

@test "vmtest: --longer adds to the silence time-out, whoever set it" {
	machine 'boot; sleep 3; end 0'
	vm --silence-timeout 1
	[ "$status" = 7 ]
	vm --silence-timeout 1 --longer 30
	[ "$status" = 0 ]
}

# nest: that of guest-tests.
nest() { bash -c "$(sed -n '/^nest()/,/^}/p' "$BATS_TEST_DIRNAME/../guest-tests"); nest \"\$@\"" - "$@"; }

@test "guest-tests: the seconds of each test stand before its result, and change none" {
	tap='TAP version 13
	1..3
	#  RUN           global.a ...
	#            OK  global.a
	ok 1 global.a
	#  RUN           f.v.b ...
	# common.c:7:b:Expected 1 (1) == 2 (2)
	# b: Test failed
	#          FAIL  f.v.b
	not ok 2 f.v.b
	#  RUN           f.c ...
	#      SKIP      needs it
	#            OK  f.c
	ok 3 f.c # SKIP needs it'
	tap=${tap//$'\t'/}
	run nest prog <<<"$tap"
	[ "$status" = 0 ]
	[ "$(grep -v '^  # time ' <<<"$output")" = "  ${tap//$'\n'/$'\n'  }" ]
	[[ $output =~ $'\n  # time prog.a 0.'[0-9][0-9][0-9]$'\n  ok 1 global.a\n' ]]
	[[ $output =~ $'\n  # time prog.f.v.b 0.'[0-9][0-9][0-9]$'\n  not ok 2 f.v.b\n' ]]
	[[ $output =~ $'\n  # time prog.f.c 0.'[0-9][0-9][0-9]$'\n  ok 3 f.c # SKIP needs it' ]]
	run nest prog < <(echo '#  RUN           f.x ...'; sleep 1.2; echo "not ok 1 f.x")
	[[ $output == *"time prog.f.x 1."* ]]
	# The end of a line that has none is kept.
	[ "$(printf 'ok 1 f' | nest p | tail -n 1)" = '  ok 1 f' ]
}
