#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # expanded elsewhere
# vmtest.sh with real guests of the patched kernel: each way in which a run can
# end has its exit code.

setup_file()
{
	export VMTEST=$BATS_TEST_DIRNAME/../vmtest.sh
	export ACCEL=${ACCEL:-tcg}
}

# With a mark on QEMU's command line, to find it again. Files of a killed run are removed
# with those of the test.
setup()
{
	mark=mark.$$.$BATS_TEST_NUMBER
	# Only QEMU, without the process that started it.
	qemu="(^|/)qemu-system[^ ]* .* $mark "
	options=(--no-build --accel "$ACCEL" --append "$mark")
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
}

# vm OPTIONS...: for a test that fails, bats prints the output, and this the exit status.
vm()
{
	run "$VMTEST" "${options[@]}" "$@"
	echo "exit status $status"
}

# vm_in_background OPTIONS...: one that has come up, as the process group vmtest_pid.
vm_in_background()
{
	local out=$BATS_TEST_TMPDIR/out
	# Background processes ignore Ctrl-C by default.
	setsid env --default-signal=INT "$VMTEST" "${options[@]}" "$@" >"$out" 2>&1 3>&- &
	vmtest_pid=$!
	until grep -q booted "$out"; do
		kill -0 $vmtest_pid || { cat "$out"; return 1; }
		sleep 0.1
	done
	pgrep -f "$qemu"
}

# A killed QEMU needs some milliseconds to exit; a forgotten one does not exit. Without bats'
# run, which would discard the output of vm.
teardown()
{
	local rc
	for _ in $(seq 50); do
		rc=0
		pgrep -f "$mark" >/dev/null || rc=$?
		[ "$rc" != 1 ] || return 0
		sleep 0.1
	done
	echo "QEMU is still running"
	pkill -KILL -f "$mark"
	false
}

@test "vmtest: --help lists the exit codes; wrong options are 2" {
	run "$VMTEST" --help
	[ "$status" = 0 ]
	[[ $output == *"Exit codes:"*"130"* ]]
	run "$VMTEST" --no-such-option
	[ "$status" = 2 ]
	run "$VMTEST" --smp many
	[ "$status" = 2 ]
	run "$VMTEST" --accel xen
	[ "$status" = 2 ]
	run "$VMTEST" --flavour
	[ "$status" = 2 ]
}

@test "vmtest: 2, no QEMU or no kernel; the message has the remedy" {
	QEMU=/nonexistent/qemu run "$VMTEST" --no-build -- true
	[ "$status" = 2 ]
	[[ $output == *"/nonexistent/qemu"* ]]
	vm --kernel /nonexistent/bzImage -- true
	[ "$status" = 2 ]
	[[ $output == *"no kernel /nonexistent/bzImage"* ]]
	vm --file /nonexistent/file -- true
	[ "$status" = 2 ]
	[ -z "$(ls "$TMPDIR")" ]
}

@test "vmtest: a command that succeeds is 0, its output arrives; one that fails is 1" {
	vm -- bash -c 'echo hello from $(uname -s); exit 0'
	[ "$status" = 0 ]
	[[ $output == *"hello from Linux"* ]]
	vm -- bash -c 'exit 3'
	[ "$status" = 1 ]
	[[ $output == *"exit status was 3"* ]]
}

@test "vmtest: the guest has two CPUs, a writable root, a real disk and the series' kernel" {
	vm -- bash -ec 'test $(nproc) = 2; touch /etc/x; grep -q "/run/scratch ext4" /proc/mounts; cat /proc/version'
	[ "$status" = 0 ]
	[[ $output == *"Linux version 7.3"* ]]
}

@test "vmtest: a guest that panics is 4, with its stack" {
	vm -- bash -c 'echo c >/proc/sysrq-trigger'
	[ "$status" = 4 ]
	[[ $output == *"sysrq_handle_crash"* ]]
}

@test "vmtest: --expect-panic accepts only that panic" {
	vm --expect-panic 'panic - not syncing: sysrq triggered crash' -- bash -c 'echo c >/proc/sysrq-trigger'
	[ "$status" = 0 ]
	vm --expect-panic 'RIP: .*__inet6_bind' -- bash -c 'echo c >/proc/sysrq-trigger'
	[ "$status" = 10 ]
	vm --expect-panic 'panic - not syncing: sysrq triggered crash' -- true
	[ "$status" = 10 ]
}

@test "vmtest: a splat while the command succeeds is 5" {
	vm -- bash -c 'echo "<4>WARNING: CPU: 0 PID: 1 at mm/mmap.c:1 f+0x0/0x1" >/dev/kmsg'
	[ "$status" = 5 ]
	[[ $output == *"WARNING: CPU: 0"* ]]
}

@test "vmtest: a splat without a headline is 5 as well" {
	vm -- bash -c 'echo "<4>refcount_t: underflow" >/dev/kmsg'
	[ "$status" = 5 ]
}

@test "vmtest: a splat takes precedence over a failed test" {
	vm -- bash -c 'echo "<4>BUG: KASAN: x" >/dev/kmsg; exit 1'
	[ "$status" = 5 ]
}

@test "vmtest: a guest that hangs is 7, after the silence time-out" {
	# A larger one, also that of a slow boot, would add to it.
	TIMEOUT_SCALE=1 vm --silence-timeout 2 -- sleep 1000
	[ "$status" = 7 ]
	[[ $output == *"nothing was printed for 2 s"* ]]
}

@test "vmtest: 7, a command that keeps printing, after the test time-out" {
	vm --test-timeout 2 -q -- bash -c 'while :; do echo x; sleep 0.1; done'
	[ "$status" = 7 ]
	[[ $output == *"did not end within 2 s"* ]]
}

@test "vmtest: a guest that does not boot in time is 3" {
	vm --boot-timeout 0 -- true
	[ "$status" = 3 ]
}

@test "vmtest: a VM that ends without a status line is 6, whatever was printed" {
	vm -- bash -c 'echo "exit 0"; echo "$token exit 0"; echo b >/proc/sysrq-trigger; sleep 100'
	[ "$status" = 6 ]
	[[ $output == *"without a status line"* ]]
}

@test "vmtest: a killed VM is 6" {
	vm_in_background -- sleep 100
	pkill -KILL -f "$qemu"
	status=0
	wait $vmtest_pid || status=$?
	[ "$status" = 6 ]
}

@test "vmtest: 2, an error of vmtest.sh itself, with a message; a panic takes precedence" {
	vm --ktap "$BATS_TEST_TMPDIR/none/ktap" -- true
	[ "$status" = 2 ]
	[[ $output == *"error: status 1 of: cp "* ]]
	vm --junit "$BATS_TEST_TMPDIR/none/xml" -- bash -c 'echo c >/proc/sysrq-trigger'
	[ "$status" = 4 ]
}

@test "vmtest: 9, a VM that keeps running after its tests" {
	vm --shutdown-timeout 1 -- mount --bind /dev/null /proc/sysrq-trigger
	[ "$status" = 9 ]
}

@test "vmtest: KTAP: a short plan is 8, a failed test 1, no failure 0" {
	vm -- printf 'KTAP version 1\n1..2\n  1..1\n  ok 1 f.a\nok 1 prog\n'
	[ "$status" = 8 ]
	vm -- bash -c 'printf "KTAP version 1\n1..1\n  1..1\n  not ok 1 f.a\nnot ok 1 prog\n"; exit 0'
	[ "$status" = 1 ]
	vm -- printf 'KTAP version 1\n1..1\n  1..2\n  ok 1 f.a\n  ok 2 f.b # SKIP why\nok 1 prog\n'
	[ "$status" = 0 ]
	[[ $output == *"1 passed, 0 failed, 1 skipped"* ]]
}

@test "vmtest: a selection that names no test is a failure" {
	vm -t contexts.contexts.sleepable,no_such_program
	[ "$status" = 1 ]
	[[ $output == *"1 passed, 1 failed"* ]]
}

@test "vmtest: a test without a fixture is selected by the name that results give it" {
	vm -t buildid.fail_nth_table
	[ "$status" = 0 ]
	[[ $output == *"1 passed, 0 failed"* ]]
}

@test "vmtest: a test that crashes in the middle is not a success" {
	vm -- bash -c 'printf "KTAP version 1\n1..1\n  1..2\n  ok 1 f.a\n"; kill -SEGV $$'
	[ "$status" = 8 ]
}

@test "vmtest: a test program that does not start is a failure" {
	cp -r "${BUILD:-$BATS_TEST_DIRNAME/../../build}/out/series/selftests" "$BATS_TEST_TMPDIR/selftests"
	printf '#!/bin/sh\nexit 127\n' >"$BATS_TEST_TMPDIR/selftests/bpf_provenance/cgroup_sock"
	SELFTESTS=$BATS_TEST_TMPDIR/selftests vm -t contexts
	[ "$status" = 1 ]
	[[ $output =~ "not ok "[0-9]+" cgroup_sock # exit 127" ]]
}

@test "vmtest: a test name that -l truncates is a failure" {
	cp -r "${BUILD:-$BATS_TEST_DIRNAME/../../build}/out/series/selftests" "$BATS_TEST_TMPDIR/selftests"
	cat >"$BATS_TEST_TMPDIR/selftests/bpf_provenance/cgroup_sock" <<-"EOF"
	#!/bin/sh
	printf '%-20s %-25s %s\n' '# FIXTURE' VARIANT TEST matrix A_VARIANT_OF_26_CHARACTERS cell
	EOF
	SELFTESTS=$BATS_TEST_TMPDIR/selftests vm -t contexts
	[ "$status" = 1 ]
	[[ $output == *"cgroup_sock # matrix A_VARIANT_OF_26_CHARACTERS: a name that -l has no room for"* ]]
}

@test "vmtest: one test program's own TAP, and output that ends in the middle of a line" {
	vm -- /run/selftests/bpf_provenance/contexts
	[ "$status" = 0 ]
	[[ $output =~ [1-9]" passed, 0 failed" ]]
	vm -- printf hello
	[ "$status" = 0 ]
}

@test "vmtest: a quiet console still shows a splat" {
	vm -- bash -c 'dmesg -n 1; echo "<4>WARNING: at x" >/dev/kmsg'
	[ "$status" = 5 ]
}

@test "vmtest: binary noise on the console does not touch the results" {
	vm -- bash -c 'head -c 20000 /dev/urandom >/dev/ttyS0; printf "KTAP version 1\n1..1\n  1..1\n  ok 1 f.a\nok 1 prog\n"'
	[ "$status" = 0 ]
	[[ $output == *"1 passed, 0 failed, 0 skipped"* ]]
}

@test "vmtest: a KVM node that opens and does not work is detected" {
	cat >"$BATS_TEST_TMPDIR/qemu" <<-EOF
	#!/bin/sh
	# A QEMU whose KVM guests hang in the firmware.
	case "\$*" in *"-accel kvm"*) exec sleep 1000.$BATS_TEST_NUMBER ;; esac
	exec "$BATS_TEST_DIRNAME/../qemu" "\$@"
	EOF
	chmod +x "$BATS_TEST_TMPDIR/qemu"
	touch "$BATS_TEST_TMPDIR/kvm"
	QEMU=$BATS_TEST_TMPDIR/qemu KVM=$BATS_TEST_TMPDIR/kvm KVM_PROBE_TIMEOUT=2 \
		run "$VMTEST" --no-build -- echo came up
	[ "$status" = 0 ]
	[[ $output == *"accel: tcg"*"does not come up"* ]]
	[[ $output == *"came up"* ]]
	run pgrep -f "sleep 1000.$BATS_TEST_NUMBER"
	[ "$status" = 1 ]
}

@test "vmtest: a missing KVM node is reported" {
	KVM=$BATS_TEST_TMPDIR/none run "$VMTEST" --print-accel
	[ "$status" = 0 ]
	[[ $output == *"no $BATS_TEST_TMPDIR/none"*"tcg" ]]
}

@test "vmtest: Ctrl-C leaves no QEMU and no file" {
	vm_in_background -- sleep 100
	kill -INT -- -$vmtest_pid
	status=0
	wait $vmtest_pid || status=$?
	[ "$status" = 130 ]
	[ -z "$(ls "$TMPDIR")" ]
}

@test "vmtest: SIGKILL leaves no QEMU" {
	vm_in_background -- sleep 100
	kill -KILL $vmtest_pid
	# teardown looks for it.
}

@test "vmtest: JUnit XML names the tests" {
	vm -q --junit "$BATS_TEST_TMPDIR/j.xml" -t contexts.contexts.sleepable
	[ "$status" = 0 ]
	grep -q 'testcase.*sleepable' "$BATS_TEST_TMPDIR/j.xml"
	run grep '<failure' "$BATS_TEST_TMPDIR/j.xml"
	[ "$status" = 1 ]
}

@test "vmtest: JUnit XML has the failures of the run" {
	vm -q --junit "$BATS_TEST_TMPDIR/j.xml" -- bash -c '
		printf "KTAP version 1\n1..1\nok 1 fine\n"; echo "<4>WARNING: at x" >/dev/kmsg'
	[ "$status" = 5 ]
	grep -q 'testcase name="fine"' "$BATS_TEST_TMPDIR/j.xml"
	grep -A 1 'testcase name="vmtest"' "$BATS_TEST_TMPDIR/j.xml" | grep -q '<failure'
	vm -q --junit "$BATS_TEST_TMPDIR/j.xml" -- false
	[ "$status" = 1 ]
	grep -A 1 'testcase name="vmtest"' "$BATS_TEST_TMPDIR/j.xml" | grep -q '<failure'
}

# shell: an interactive one that has come up, with its ends in 5 and 6.
shell()
{
	local line
	coproc VM { "$VMTEST" "${options[@]}" -s 2>&1; }
	pid=$VM_PID
	exec 5<&"${VM[0]}" 6>&"${VM[1]}"
	while read -r -t 60 line <&5; do
		[[ $line != *"all tests: /mnt/guest-tests"* ]] || return 0
	done
	return 1
}

@test "vmtest: the interactive shell answers, and exit ends the VM" {
	shell
	printf 'echo an$((40 + 2))swer; exit\n' >&6
	timeout 60 cat <&5 | grep an42swer
	wait "$pid"
}

@test "vmtest: a panic in the interactive shell is a failure" {
	shell
	printf 'echo c >/proc/sysrq-trigger\n' >&6
	timeout 600 cat <&5 >/dev/null
	wait "$pid" || status=$?
	[ "$status" = 4 ]
}
