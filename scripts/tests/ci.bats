#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # for the scripts that are written
# scripts/ci with a runner and a build that only record how they were called: no guest.

# bats file_tags=quick

# A checkout with two tests; one of them ends base.
setup()
{
	top=$BATS_TEST_TMPDIR/top
	export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache HOME=$BATS_TEST_TMPDIR CALLS=$BATS_TEST_TMPDIR/calls
	unset BUILD CACHE BPFPROV_PATCHES BPFPROV_START STORM_SECONDS FUZZ_SECONDS toolchain_root
	mkdir -p "$top"/{doc,scripts/tests,patches/topic,vmtest/kconfig}
	cp "$BATS_TEST_DIRNAME"/../{ci,common.sh} "$top/scripts"
	cp "$BATS_TEST_DIRNAME"/../../vmtest/*.py "$top/vmtest"
	cp "$BATS_TEST_DIRNAME"/docs.{py,commands} "$top/scripts/tests"
	printf '%s\n' '' '    # bpfprov maps 1' '    1000-2000 r-xp' >"$top/doc/bpfprov.md"
	echo version=7.3.4 >"$top/patches/BASE"
	touch "$top"/vmtest/kconfig/{min,modular,defconfig,cfi,debug,rt,kcsan,strict-kcsan}.config
	touch "$top"/vmtest/{rootfs.packages,kconfig/common.config,qemu,guest-init,guest-fstab,guest-tests,splats,splats.deny}
	printf '%b\n' 'p.a\tfail\tno such hook\tno hook' 'p.b\tpanic\tNULL pointer\ta NULL pointer' >"$top/vmtest/expect.base"
	printf '%b\n' 'series\tno disk\ta reason\ta condition' >"$top/vmtest/expect.skip"
	printf '%b\n' 'key\tthe promise\tthe measurement\t{n} of {all}\tp.a' >"$top/vmtest/promises"
	printf '%s\n' '<!-- promises -->' '<!-- end of promises -->' >"$top/README.md"
	touch "$top"/vmtest/{perf.known,regress.known,kcsan.known,splats.allow,splats.base} "$top/scripts/style.allow"
	script mutants 'echo "mutants $*" >>"$CALLS"
		case $*,$# in
		"--list --guest",2) printf "%s\n" a b c d e ;;
		--list*mm/x.c*) echo b ;;
		--*) ;;
		*) echo "$# passed, 0 failed, 0 skipped" ;;
		esac'
	script fuzz 'echo "1 passed, 0 failed, 0 skipped"'
	script fetch 'case $1 in root) echo / ;; esac'
	script series ':'
	script bisect ':'
	script build 'echo "build $*" >>"$CALLS"; mkdir -p "$BUILD/out/$2"; touch "$BUILD/out/$2/built"'
	cat >"$top/vmtest/vmtest.sh" <<-'X'
		#!/bin/bash
		echo "vm $* storms=${STORM_SECONDS:-}" >>"$CALLS"
		while [ $# -gt 0 ]; do
			case $1 in
			--print-accel) echo tcg; exit ;;
			-f) f=$2 ;;
			-t) half=b; [[ $2 != *.* ]] || half=${2##*.} ;;
			-x) [ "$f" = base ] || half=a ;;
			--log) log=$2 ;;
			--ktap) ktap=$2 ;;
			--expect-panic)
				mkdir -p "$log"
				# A guest that hangs, for the lines of a file: each is its console once.
				if [ -s "$CALLS.hangs" ]; then
					sed -n 1p "$CALLS.hangs" >"$log/console"
					sed -i 1d "$CALLS.hangs"
					echo "vmtest.sh: FAILED: no panic"
					exit 10
				fi
				echo "BUG: NULL pointer dereference" >"$log/console"; exit ;;
			--)	[[ $2 != /mnt/guest-@(runtimes|docs) ]] || break
				printf 'promise\tkey\tn=%s\tall=a=b\n' "$f" >"$log/results"; exit ;;
			esac
			shift
		done
		cp "$CALLS.$f" "$ktap"
		# The series in two guests: one test each.
		[ -z "$half" ] || sed -E -i "/^  1\.\./s/2/1/; /^  .*ok [12] [^$half]$/d; s/ok 2 b/ok 1 b/" "$ktap"
		[ ! -f "$CALLS.$half" ] || cp "$CALLS.$half" "$ktap"
		cat "$ktap"
		! grep -q '^not' "$ktap"
	X
	chmod +x "$top/vmtest/vmtest.sh"
	printf '%s\n' "KTAP version 1" "1..1" "  1..1" "  # no such hook" "  not ok 1 a" "not ok 1 p" >"$CALLS.base"
	printf '%s\n' "KTAP version 1" "1..1" "  1..2" "  # time p.a 1.000" "  ok 1 a" "  ok 2 b" "ok 1 p" >"$CALLS.series"
	mkdir -p "$top/build/log" "$top/build/linux/tools/lib"
	echo x >"$top/build/linux/tools/lib/test.c"
	tests=$top/build/linux/tools/testing/selftests/bpf_provenance
	mkdir -p "$tests"
	echo TEST_HARNESS_MAIN | tee "$tests/p.c" >"$tests/q.c"
	echo x | tee "$tests/q.bpf.c" >"$tests/shared.h"
	commit "$top/build/linux"
}

# script NAME TEXT: scripts/NAME.
script()
{
	printf '%s\n' '#!/bin/bash' "BUILD=$top/build" "$2" >"$top/scripts/$1"
	chmod +x "$top/scripts/$1"
}

# commit DIR: all of it.
commit()
{
	[ -d "$1/.git" ] || git -C "$1" init -q
	git -C "$1" add -A
	git -C "$1" -c user.name=x -c user.email=x@x.invalid commit -q -m x
}

ci() { : >"$CALLS"; run "$top/scripts/ci" "$@"; }

# run_two_programs: ci run on both kernels, with a second program, of one test.
run_two_programs()
{
	printf '%b\n' 'q.c\tfail\tno such hook\tno hook' >>"$top/vmtest/expect.base"
	printf '%s\n' "KTAP version 1" "1..2" "  1..1" "  # no such hook" "  not ok 1 a" "not ok 1 p" \
		"  1..1" "  # no such hook" "  not ok 1 c" "not ok 2 q" >"$CALLS.base"
	printf '%s\n' "KTAP version 1" "1..2" "  1..2" "  ok 1 a" "  ok 2 b" "ok 1 p" "  1..1" \
		"  # time q.c 2.000" "  ok 1 c" "ok 2 q" >"$CALLS.series"
	ci run
	[ "${lines[-1]}" = "3 passed, 0 failed, 0 skipped" ]
}

@test "ci run: quick tier, both kernels, a panic test boots base alone" {
	ci run
	[ "$status" = 0 ]
	[ "${lines[-1]}" = "2 passed, 0 failed, 0 skipped" ]
	[[ $output == *"tier: quick"* ]]
	[[ $output == *"     1.0 s  p.a"* ]]
	grep -q '^build kernel base$' "$CALLS"
	[ "$(grep -c '^vm .*-f base .*storms=1$' "$CALLS")" = 2 ]
	grep -q '^vm .*-f base .*-x p.b ' "$CALLS"
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 1 ]
	! grep -q '^vm .*-f series .*-x' "$CALLS" || return 1
}

@test "ci run: a guest that hangs before its first process is booted once more, on base alone" {
	echo "e820: register RAM" >"$CALLS.hangs"
	ci run
	[ "$status" = 0 ]
	[[ $output == *"the guest for p.b hung before its first process: once more"* ]]
	[ "$(grep -c '^vm .*-f base .*--expect-panic' "$CALLS")" = 2 ]
	printf '%s\n' "e820: register RAM" "e820: register RAM" >"$CALLS.hangs"
	ci run --both
	[ "$status" = 1 ]
	[[ $output == *"p.b"*"no panic"* ]]
	echo "Run /bin/bash as init process" >"$CALLS.hangs"
	ci run --both
	[ "$status" = 1 ]
	[[ $output != *"once more"* ]]
}

@test "ci run: a test that fails on the series, or a guest that dies, makes the run fail" {
	sed -i 's/  ok 2/  not ok 2/; s/^ok/not ok/' "$CALLS.series"
	ci run
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
	[[ $output == *$'\nfailed:\n  p.b: on the series: fail'* ]]
	rm "$CALLS.base"
	ci run
	[ "$status" = 1 ]
	[[ $output == *$'\nfailed:\n  tests on base and series\n'* ]]
	[ "${lines[-1]}" = "0 passed, 1 failed, 0 skipped" ]
}

@test "ci promises: writes the table of promises" {
	ci promises
	[ "$status" = 0 ]
	grep -q '| the promise | the measurement | base of a=b | series of a=b | `p.a` |' "$top/README.md"
}

@test "ci record: a green run is kept, and stands for base until the tests change" {
	ci record
	[ "$status" = 1 ]
	ci run
	ci record
	[ "$status" = 0 ]
	grep -q '^panic p.b'$'\t''BUG: NULL' "$top/doc/results/base.tsv"
	rm -r "$XDG_CACHE_HOME"
	ci run
	[ "$status" = 0 ]
	[[ $output == *"not booted, its results are those recorded"* ]]
	[[ $output == *"p.b "*" panic  pass "* ]]
	[ "${lines[-1]}" = "2 passed, 0 failed, 0 skipped" ]
	! grep -qE '^(build kernel base|vm .*-f base)' "$CALLS" || return 1
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 2 ]
	ci run --both
	grep -q '^vm .*-f base' "$CALLS"
	# Recorded results are judged by the expectations of today.
	sed -i 's/no such hook/another hook/' "$top/vmtest/expect.base"
	ci run
	[ "$status" = 1 ]
	[[ $output == *"on base it does not print 'another hook'"* ]]
	for file in "$top/build/linux/tools/lib/test.c" "$tests/shared.h" "$top/scripts/build"; do
		cp "$file" "$BATS_TEST_TMPDIR/was"
		echo "# y" >>"$file"
		ci run
		grep -q '^vm .*-f base' "$CALLS"
		cp "$BATS_TEST_TMPDIR/was" "$file"
	done
	ci run
	! grep -q '^vm .*-f base' "$CALLS" || return 1
}

@test "ci run: an edit of one test program voids only the recorded results of that program" {
	echo x >"$tests/q.h"
	echo '#include "q.h"' | tee -a "$tests/q.c" >>"$tests/q.bpf.c"
	commit "$top/build/linux"
	run_two_programs
	ci record
	rm -r "$XDG_CACHE_HOME"
	printf '%s\n' "KTAP version 1" "1..2" "  1..1" "  ok 1 a" "ok 1 p" "  1..1" "  ok 1 c" "ok 2 q" >"$CALLS.a"
	printf '%s\n' "KTAP version 1" "1..1" "  1..1" "  ok 1 b" "ok 1 p" >"$CALLS.b"
	echo more >>"$tests/q.bpf.c"
	ci run
	echo "$output"
	[ "$status" = 0 ]
	! grep -qE '^(build kernel base|vm .*-f base)' "$CALLS" || return 1
	[[ $output =~ "p.a "+" fail   pass   no hook" ]]
	[[ $output =~ "q.c "+" -      pass   no hook" ]]
	[[ $output == *"q: changed since the results of base were recorded"* ]]
	[[ $output == *"not run:"*"tests of q on base (changed since"* ]]
	[ "${lines[-1]}" = "3 passed, 0 failed, 1 skipped" ]
	# And so does an edit of its header, or of the tool that it tests.
	git -C "$top/build/linux" checkout -q .
	echo more >>"$tests/q.h"
	ci run --again
	[ "$status" = 0 ]
	[[ $output == *"not run:"*"tests of q on base (changed since"* ]]
	git -C "$top/build/linux" checkout -q .
	mkdir -p "$top/build/linux/tools/bpf/q"
	echo x >"$top/build/linux/tools/bpf/q/q.c"
	ci run --again
	[ "$status" = 0 ]
	[[ $output == *"not run:"*"tests of q on base (changed since"* ]]
	# It must pass on the series, and a test without a row is red.
	sed -i '/^q.c/d' "$top/vmtest/expect.base"
	ci run --again
	[ "$status" = 1 ]
	[[ $output == *"FAILED: not listed in vmtest/expect.base"* ]]
	# Nothing is left of the record when each program has changed.
	echo more >>"$tests/p.c"
	ci run
	grep -q '^vm .*-f base' "$CALLS"
}

@test "ci run: programs that passed on the same kernel do not run again, promises do" {
	run_two_programs
	# The promise alone.
	printf '%s\n' "KTAP version 1" "1..1" "  1..1" "  ok 1 a" "ok 1 p" >"$CALLS.a"
	ci run
	echo "$output"
	[ "$status" = 0 ]
	[ "${lines[-1]}" = "3 passed, 0 failed, 0 skipped" ]
	[[ ${lines[-2]} == "tier: quick, with results of an earlier run"* ]]
	[ "$(grep -c '^vm .*-f ' "$CALLS")" = 1 ]
	grep -q '^vm .*-f series .*-t p.a ' "$CALLS"
	# The times of the other tests are from the first run.
	[[ $output == *"     2.0 s  q.c"* ]]
	# One that fails is red, and leaves nothing: it runs again.
	sed -i 's/  ok/  not ok/; s/^ok/not ok/' "$CALLS.a"
	ci run
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "2 passed, 1 failed, 0 skipped" ]
	# A program that changed.
	printf '%s\n' "KTAP version 1" "1..2" "  1..1" "  ok 1 a" "ok 1 p" "  1..1" "  ok 1 c" "ok 2 q" >"$CALLS.a"
	echo more >>"$tests/q.c"
	ci run
	[ "$status" = 0 ]
	grep -q '^vm .*-f series .*-t q,p.a ' "$CALLS"
	# All: on request, for another count, and on another kernel.
	rm "$CALLS.a"
	ci run --both
	grep -q '^vm .*-f series .*--log [^ ]*/series ' "$CALLS"
	! grep -q '^vm .*-f series .* -t ' "$CALLS" || return 1
	printf '%s\n' "KTAP version 1" "1..2" "  1..1" "  ok 1 a" "ok 1 p" "  1..1" "  ok 1 c" "ok 2 q" >"$CALLS.a"
	printf '%s\n' "KTAP version 1" "1..1" "  1..1" "  ok 1 b" "ok 1 p" >"$CALLS.b"
	ci run --again
	[ "$status" = 0 ]
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 2 ]
	STORM_SECONDS=2 ci run
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 2 ]
	echo another >"$top/build/out/series/built"
	ci run
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 2 ]
	ci run
	[ "$(grep -c '^vm .*-f series ' "$CALLS")" = 1 ]
}

@test "ci run: a line of progress, and an interrupted run ends its guests" {
	sed -i '2i\
		[[ $* == *print-accel* ]] || { trap "echo ended $f >>$CALLS; exit 143" TERM; printf "  ok 1 a\\n  not ok 2 b\\n"; sleep 60 >/dev/null 2>\&1 3>\&- \& wait; }' \
		"$top/vmtest/vmtest.sh"
	: >"$CALLS"
	# Background processes ignore Ctrl-C by default.
	setsid env --default-signal=INT "$top/scripts/ci" run >"$CALLS.out" 2>&1 3>&- &
	pid=$!
	until grep -q '[.][.][.] tests on base and series: .* s, 4 of 6 results' "$CALLS.out"; do
		kill -0 $pid
		sleep 0.5
	done
	kill -INT $pid
	status=0
	wait $pid || status=$?
	[ "$status" = 130 ]
	# They end after the process that started them.
	for _ in {1..50}; do
		[ "$(grep -c '^ended' "$CALLS")" != 2 ] || break
		sleep 0.2
	done
		[ "$(grep -c '^ended' "$CALLS")" = 2 ]
}

@test "with_progress: the printer of a command that ends at once has no trap of the script" {
	run bash -c '. "$1"; trap "echo trap >&2" EXIT; at() { :; }
		for _ in {1..20}; do with_progress at true; done' - "$top/scripts/common.sh"
	echo "$output"
	[ "$output" = trap ]
}

@test "ci choose: what changed comes first, the rest takes turns" {
	printf '%s\n' 'mutant a' 'mutant b' >"$top/vmtest/mutants"
	touch "$top"/vmtest/kconfig/{debug,kcsan,strict-kcsan,rt}.config
	echo /build/ >"$top/.gitignore"
	commit "$top"
	printf '%s\n' '--- a/mm/x.c' '+++ b/mm/x.c' >"$top/patches/topic/one.patch"
	echo CONFIG_X=y >"$top/vmtest/kconfig/rt.config"
	# The model proves f: no guest runs it.
	printf '%s\n' 'mutant f' 'mutant e' >>"$top/vmtest/mutants"
	commit "$top"
	ci choose
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 4 ]
	[ "${lines[0]}" = rt ]
	[ "${lines[1]}" = e ]
	[ "${lines[2]}" = b ]
	[[ ${lines[3]} = [acd] ]]
	git -C "$top" -c user.name=x -c user.email=x@x.invalid commit -q --allow-empty -m x
	ci choose
	[[ ${lines[0]} = @(debug|kcsan|strict-kcsan|rt) ]]
	[ "$(printf '%s\n' "${lines[@]}" | sort -u | wc -l)" = 4 ]
}

@test "ci: several names in one call, one sum; a wrong one is refused before the first" {
	script litmus 'echo "litmus $*" >>"$CALLS"; echo "3 passed, 1 failed, 0 skipped"; exit 1'
	script bench 'echo "bench $*" >>"$CALLS"; echo a table'
	cp "$CALLS.series" "$CALLS.debug"
	ci bench mutants
	[ "$status" = 0 ]
	[ "$(grep -E '^(bench|mutants)' "$CALLS")" = "bench "$'\n'"mutants " ]
	[[ $output == *"a table"* ]]
	# A script without counts is one result.
	[ "${lines[-1]}" = "1 passed, 0 failed, 0 skipped" ]
	ci litmus debug
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "5 passed, 1 failed, 0 skipped" ]
	grep -q '^vm .*-f debug .*storms=$' "$CALLS"
	ci bench no-such-name
	[ "$status" = 2 ]
	[ ! -s "$CALLS" ]
}

@test "ci runtimes: the guest has the root, bpfprov and the programs; a green table is written" {
	script fetch 'case $1 in root) echo / ;; runtimes) echo /runtimes ;; esac'
	script build 'echo "build $*" >>"$CALLS"; mkdir -p "$BUILD/out/runtimes/files"; touch "$BUILD/out/runtimes/files/net.x"'
	sed -i 's/^echo "vm /&root=$SELFTESTS /' "$top/vmtest/vmtest.sh"
	mkdir -p "$top/doc"
	printf '%s\n' '<!-- runtimes -->' '<!-- end of runtimes -->' >"$top/doc/results.md"
	echo '# | x  not ok' | cat "$CALLS.base" - >"$CALLS.series"
	ci runtimes
	[ "$status" = 1 ]
	[[ $output == *"x  not ok"* ]]
	[ "${lines[-1]}" = "0 passed, 1 failed, 0 skipped" ]
	[ "$(wc -l <"$top/doc/results.md")" = 2 ]
	printf '%s\n' "KTAP version 1" "1..1" "  1..1" "  ok 1 a" "ok 1 x" "# | x  ok" >"$CALLS.series"
	ci runtimes
	[ "$status" = 0 ]
	[ "${lines[-1]}" = "1 passed, 0 failed, 0 skipped" ]
	grep -q '^build runtimes$' "$CALLS"
	grep '^vm root=/runtimes .*-f series .* -- /mnt/guest-runtimes ' "$CALLS" | grep -F -- '--file ' >"$BATS_TEST_TMPDIR/vm"
	grep -qF -- "--file $top/build/out/series/selftests/bpf_provenance/bpfprov" "$BATS_TEST_TMPDIR/vm"
	grep -qF -- "--file $top/build/out/runtimes/files/net.x" "$BATS_TEST_TMPDIR/vm"
	[ "$(sed -n 3p "$top/doc/results.md")" = "x  ok" ]
}

@test "ci docs: the guest has the commands and the output of the document, and is judged" {
	ci docs
	[ "$status" = 0 ]
	[ "${lines[-1]}" = "2 passed, 0 failed, 0 skipped" ]
	! grep -q '^build kernel base$' "$CALLS" || return 1
	grep -q "^vm .*-f series .* --file $top/build/log/docs.commands -- /mnt/guest-docs /mnt/docs.commands " "$CALLS"
	diff "$top/build/log/docs.commands" - <<-'X'
		$ bpfprov maps 1
		> [0-9a-f]+-[0-9a-f]+ r-xp
	X
	sed -i 's/  ok 2/  not ok 2/; s/^ok/not ok/' "$CALLS.series"
	ci docs
	[ "$status" = 1 ]
	[[ $output == *"series: FAILED: fail p.b"* ]]
	[ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
}

@test "ci perf: a green run's tables are written" {
	local doc=$top/doc/results.md
	mkdir -p "$top/doc" "$top/build/log"
	printf '<!-- %s -->\n<!-- end of %s -->\n' perf perf perf-tests perf-tests names names >"$doc"
	printf '%s\n' 'kernel record' 'base base' '' 'kernel perf test of' 'base 7' '' 'perf test: x: FAILED! with each' '3 0 0' \
		>"$top/build/log/perf.table"
	printf '%s\n' 'kernel by' 'base perf' '1 0 0' >"$top/build/log/names.table"
	sed -i 's/^\tperf_all$/\tpassed=4 failed=${FAILS}/' "$top/scripts/ci"
	FAILS=1 ci perf
	[ "$status" = 1 ]
	[ "$(wc -l <"$doc")" = 6 ]
	FAILS=0 ci perf
	[ "$status" = 0 ]
	[ "$(paste -sd, "$doc")" = '<!-- perf -->,```,kernel record,base base,```,<!-- end of perf -->,<!-- perf-tests -->,```,kernel perf test of,base 7,```,<!-- end of perf-tests -->,<!-- names -->,```,kernel by,base perf,```,<!-- end of names -->' ]
}

@test "ci check-debug: every flavour that doc/testing.md lists, with all counts" {
	local f flavours
	mapfile -t flavours < <(sed -n '/^| flavour | kernel |/,/^$/s/^| `\([a-z-]*\)` .*/\1/p' \
		"$BATS_TEST_DIRNAME/../../doc/testing.md" | grep -vxE 'base|series|bench|gcov|vrf' | sort)
	[ "${#flavours[@]}" -ge 7 ]
	fake_tools 'echo "bats ${!#}" >>"$CALLS"; echo "ok 1 x"'
	mkdir -p "$top"/vmtest/tests/strict-kcsan
	script series '[ "$1" != symbols ] || echo CONFIG_X'
	ci check-debug
	[ "$status" = 0 ]
	[ "$(sed -n 's/^build kernel //p' "$CALLS" | grep -vx series | sort)" = "$(printf '%s\n' "${flavours[@]}")" ]
	for f in "${flavours[@]}"; do
		[ "$f" = off ] || grep -q "^vm .*-f $f .*storms=\$" "$CALLS"
	done
	# It must notice planted faults, too.
	grep -q '^build faults strict-kcsan$' "$CALLS"
	grep -q '^bats .*/vmtest/tests/strict-kcsan$' "$CALLS"
	[ "$(sed -n '/^FLAVOURS=/{s/.*="//; s/"//; p}' "$top/scripts/ci" | tr ' ' '\n' | sort)" = \
		"$(printf '%s\n' "${flavours[@]}")" ]
}

# a_kernel_takes SECONDS: from scratch, on this machine.
a_kernel_takes()
{
	mkdir -p "$XDG_CACHE_HOME/bpf-provenance"
	echo "$1" >"$XDG_CACHE_HOME/bpf-provenance/cold-kernel-seconds"
}

# ci_all KERNEL SPENT: a kernel from scratch takes KERNEL seconds on this machine, the tests
# 100, and SPENT seconds have passed when the core ends, which does nothing here.
ci_all()
{
	a_kernel_takes "$1"
	echo $((EPOCHSECONDS - $2)) >"$CALLS.start"
	sed -i -e "s/^\tcore quick 10\$/\techo core >>\"\$CALLS\"; set_tier quick; accel=tcg passed=1; read -r BPFPROV_START <\"\$CALLS.start\"; took[\"tests on base and series\"]=100/" \
		-e 's/ perf perf_all$/ perf step perf true/' "$top/scripts/ci"
	ci all
}

# fake_tools BATS: with that as bats.
fake_tools()
{
	local t
	mkdir -p "$BATS_TEST_TMPDIR/bin"
	script bats "$1"
	script shellcheck "$1"
	script parallel ':'
	for t in bats shellcheck parallel; do
		mv "$top/scripts/$t" "$BATS_TEST_TMPDIR/bin"
	done
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
	sed -i '/p.b/d' "$top/vmtest/expect.base"
	for t in debug kcsan strict-kcsan rt modular defconfig cfi min; do
		cp "$CALLS.series" "$CALLS.$t"
	done
}

# ends_base: p.b has its row again, which fake_tools removes.
ends_base() { printf '%b\n' 'p.b\tpanic\tNULL pointer\ta NULL pointer' >>"$top/vmtest/expect.base"; }

@test "ci all: the core comes first, then the parts, as long as there is time" {
	fake_tools 'echo "bats ${!#}" >>"$CALLS"; echo "ok 1 x"; echo "not ok 2 y"; exit 1'
	ci_all 100 0
	# A part that fails does not keep the next one from running.
	[ "$status" = 1 ]
	sed -E "s,$top/,,; s/ -.* -f / /; s/^(vm [a-z-]+) .*/\1/; s,^(build kernel|vm|build faults|bats vmtest/tests/) ?(debug|kcsan|strict-kcsan|rt)$,\1 sanitizer," "$CALLS" |
		grep -vE '^(build selftests|mutants --)' | head -n 11 | paste -sd, >"$CALLS.seen"
	cat "$CALLS.seen" "$CALLS"
	[[ $(cat "$CALLS.seen") == "core,build kernel sanitizer,vm sanitizer,build faults sanitizer,bats vmtest/tests/ sanitizer,bats vmtest/tests/watch.bats,mutants "[a-e]\ [a-e]\ [a-e],"bats scripts/tests/*.bats,bats vmtest/tests/fuzz.bats,"* ]]
	# The core, three of bats, three mutants, perf, and the flavours: two each, the planted faults
	# of four, and the warnings of min. off has no symbol to switch off.
	[ "${lines[-1]}" = "28 passed, 7 failed, 1 skipped" ]
	[[ $output == *" s  tests of the guest runner"* ]]
	# Storms as long as it takes to notice a mutant, and no longer than a second elsewhere.
	! grep -qE '^vm .*storms=($|[^1])' "$CALLS" || return 1
	[[ $output == *"failed:"*"  not ok 2 y"*"not run:"*"counts of the full tier"* ]]
}

@test "ci all: where a second kernel takes too long, the series is judged without base" {
	fake_tools 'echo "ok 1 x"'
	a_kernel_takes 1000
	BPFPROV_START=$((EPOCHSECONDS - 3000)) ci all
	[ "$status" = 0 ]
	grep -q '^build kernel series$' "$CALLS"
	! grep -qE '^(build kernel base|vm .*-f base)' "$CALLS" || return 1
	[[ $output =~ "not run:".*"tests on base (kernel and tests are expected to take 1900 s, "[0-9]{4}" s of 4200 were spent)".*"promises (they need base)".*"perf (it needs base)" ]]
	# The results of the series count all the same.
	sed -i 's/  ok 2/  not ok 2/; s/^ok/not ok/' "$CALLS.series"
	BPFPROV_START=$((EPOCHSECONDS - 3000)) ci all
	[ "$status" = 1 ]
	[[ $output == *"series: FAILED: fail p.b"* ]]
	# It is built where there is time.
	ci all
	grep -q '^build kernel base$' "$CALLS"
	[[ $output != *"tests on base (kernel"* ]]
}

# recorded_base: all results of base are recorded, and nothing is built.
recorded_base()
{
	fake_tools 'echo "ok 1 x"'
	ends_base
	ci run
	ci record
	rm -r "$XDG_CACHE_HOME" "$top/build/out"
}

@test "ci all: base gives way to a sanitizer where all its results are recorded" {
	recorded_base
	a_kernel_takes 1000
	# After the series' kernel; without base, 333 s for its tests and 1980 s for a sanitizer.
	BPFPROV_START=$((EPOCHSECONDS - 1500)) ci all
	[ "$status" = 0 ]
	! grep -qE '^(build kernel base|vm .*-f base)' "$CALLS" || return 1
	grep -qE '^build kernel (debug|kcsan|strict-kcsan|rt)$' "$CALLS"
	[[ $output == *"not run:"*"tests on base (kernel and tests are expected to take 1900 s, "* ]]
	# A program that changed needs base.
	echo more >>"$tests/p.c"
	rm -r "$top/build/out"
	BPFPROV_START=$((EPOCHSECONDS - 1500)) ci all
	grep -q '^build kernel base$' "$CALLS"
	[[ $output != *"tests on base (kernel"* ]]
}

@test "ci all: base gives way to the mutants where all its results are recorded" {
	recorded_base
	a_kernel_takes 600
	# 1500 s for base, 1380 s for a sanitizer, 120 s for the tests of results.py and 960 s for mutants.
	BPFPROV_START=$((EPOCHSECONDS - 700)) ci all
	[ "$status" = 0 ]
	! grep -qE '^(build kernel base|vm .*-f base)' "$CALLS" || return 1
	grep -qE '^mutants [a-e] [a-e] [a-e]$' "$CALLS"
	# There is time for all of them.
	rm -r "$top/build/out"
	a_kernel_takes 400
	BPFPROV_START=$((EPOCHSECONDS - 500)) ci all
	grep -q '^build kernel base$' "$CALLS"
}

@test "ci all: without a kernel from scratch, its time is estimated from that of a file" {
	local ms
	ms=$((600 * 1000 * $(nproc) / $(sed -n 's/^FILES=//p' "$top/scripts/ci") + 1))
	script build 'echo "build $1 $2 $3" >>"$CALLS"
		[ "$1" != in ] || echo '$ms'
		mkdir -p "$BUILD/out/$2"; touch "$BUILD/out/$2/built"'
	recorded_base
	BPFPROV_START=$((EPOCHSECONDS - 700)) ci all
	[[ $output = *"a kernel from scratch is estimated to take 600 s"* ]]
	[[ $output = *"tests on base (kernel and tests are expected to take 1500 s"* ]]
	[[ $output = *"600 s  one kernel from scratch on this machine (estimated), for comparison"* ]]
	# It is not measured again, and one that was built is the better measure.
	rm -r "$top/build/out"
	a_kernel_takes 601
	BPFPROV_START=$((EPOCHSECONDS - 700)) ci all
	[[ $output != *"is estimated to take"* ]]
	[[ $output = *"tests on base (kernel and tests are expected to take 1501 s"* ]]
}

@test "ci all: the tests of a sanitizer flavour that do not fit are left out by name" {
	fake_tools 'echo "ok 1 x"'
	ends_base
	a_kernel_takes 100
	# 240 s are for the planted faults; a test takes up to five times as long.
	sed -i -e 's/^LIMIT=.*/LIMIT=1600/' "$top/scripts/ci"
	sed -i 's/time p.a 1.000/time p.a 300.000/' "$CALLS.series"
	ci all
	grep -qE '^vm .*-f (debug|kcsan|strict-kcsan|rt) .*-x p.a' "$CALLS"
	[[ $output =~ "tests on "(debug|kcsan|strict-kcsan|rt)": p.a (1 of 2 tests; "[0-9]+" s were left)" ]]
	# Without one that fits there is no guest.
	sed -i 's/  ok 2 b/  # time p.b 300.000\n&/' "$CALLS.series"
	ci all
	! grep -qE '^vm .*-f (debug|kcsan|strict-kcsan|rt) ' "$CALLS" || return 1
	[[ $output == *": p.a p.b (2 of 2 tests; "* ]]
}

@test "ci all: a part that would end too late is not begun, but listed and counted" {
	fake_tools 'echo "bats ${!#}" >>"$CALLS"; echo "ok 1 x"'
	# A slow machine: 2400 s for a kernel.
	ci_all 2400 4000
	[ "$status" = 0 ]
	[ "$(grep -v '^mutants --' "$CALLS" | head -n 1)" = core ]
	! grep -qE '^(bats|build|vm|mutants [a-e])' "$CALLS" || return 1
	[[ $output =~ "not run:".*"perf (expected".*"tests of the scripts (expected to take 600 s, 4"[0-9]{3}" s of 4200 were spent)" ]]
	# The three suites, the mutants, perf, and every flavour.
	[ "${lines[-1]}" = "1 passed, 0 failed, 14 skipped" ]
	# Where a kernel takes 600 s there is time for more than the core, but not for all.
	ci_all 600 3000
	[ "$status" = 0 ]
	[ "$(grep -c '^bats ' "$CALLS")" = 3 ]
	! grep -qE '^build kernel (debug|kcsan|strict-kcsan|rt)$' "$CALLS" || return 1
	[[ $output == *"not run:"*"flavour "*" (expected to take 1380 s, "* ]]
}

@test "ci all: a part that takes too long is stopped with all its processes" {
	fake_tools 'echo $$ >"$CALLS.bats"; sleep 300 & echo $! >>"$CALLS.bats"; wait'
	# Not the next part: the first takes all the time that there is.
	sed -i -e 's/^LIMIT=.*/LIMIT=350/' -e 's/^STOP=.*/STOP=4/' "$top/scripts/ci"
	ci_all 100 0
	[ "$status" = 0 ]
	[[ $output == *"tests of results.py (stopped after "*" s, expected to take 70 s)"* ]]
	[[ $output == *"mutants "*" (expected to take 460 s, "* ]]
	mapfile -t pids <"$CALLS.bats"
	[ "${#pids[@]}" = 2 ]
	for pid in "${pids[@]}"; do
		! kill -0 "$pid" 2>/dev/null || return 1
	done
}

@test "ci core: lists each part of ci all, and runs none of them" {
	local part
	fake_tools 'echo "bats ${!#}" >>"$CALLS"; echo "ok 1 x"'
	ends_base
	ci promises
	ci core
	echo "$output"
	[ "$status" = 0 ]
	! grep -qE '^(bats .*/vmtest/tests|build kernel (debug|kcsan|rt|min)|vm .*-f (debug|min)|mutants [a-e])' "$CALLS" || return 1
	sed -n '/^not run:$/,/^$/p' <<<"$output" >"$CALLS.list"
	for part in "tests of results.py" "mutants of the day" perf "tests of the scripts" "tests of the guest runner" \
			"the patches that changed, each by itself" "flavour "{off,min,modular,defconfig,cfi,debug,rt,kcsan,strict-kcsan} \
			"the other mutants (scripts/ci mutants)"; do
		grep -qxF "  $part" "$CALLS.list" || { echo "not listed: $part"; false; }
	done
	# They are those that ci all lists where no time is left.
	ci_all 2400 4300
	diff <(sed -E 's/ \(expected.*//; s/^(  mutants) .*/\1/; /^  tests on/d' "$CALLS.list" | sort) \
		<(sed -n '/^not run:$/,/^$/p' <<<"$output" | sed -E 's/ \((expected|[0-9]+ s of).*//; s/^(  mutants) .*/\1/' | sort)
}

@test "ci core: a subject that is too long, or names no area, fails" {
	local subject
	fake_tools 'echo "ok 1 x"'
	ends_base
	echo /build/ >"$top/.gitignore"
	commit "$top"
	sed -i "s/^SUBJECTS_SINCE=.*/SUBJECTS_SINCE=$(git -C "$top" rev-parse HEAD)/" "$top/scripts/ci"
	for subject in "scripts/ci, vmtest: $(printf '%052d' 0)" "scripts/ci: $(printf '%061d' 0)" "Repair it" "ci: a change."; do
		git -C "$top" -c user.name=x -c user.email=x@x.invalid commit -q --allow-empty -m "$subject"
		ci core
		if [[ $subject = *,* ]]; then
			[[ $output != *"area: what changes"* ]]
			grep -q '^build kernel series$' "$CALLS"
		else
			[ "$status" = 1 ]
			[[ $output == *'not "area: what changes" of at most 72 columns:'*"$subject"* ]]
			! grep -q '^build kernel' "$CALLS" || return 1
		fi
		[ "$subject" != "scripts/ci: $(printf '%061d' 0)" ] || git -C "$top" reset -q --soft HEAD~1
	done
}
