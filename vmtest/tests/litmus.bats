#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# The variants of litmus tests, and the verdicts on canned output of herd7: no herd7.

VMTEST=$BATS_TEST_DIRNAME/..

setup_file()
{
	# shellcheck source=scripts/common.sh
	. "$VMTEST/../scripts/common.sh"
	export TOP toolchain_root=${toolchain_root:-$("$TOP/scripts/fetch" root)}
	export -f in_toolchain
}

setup()
{
	cd "$BATS_TEST_TMPDIR" || return
	mkdir x out
	cat >x/order.litmus <<-'END'
	C order

	(* smp_wmb() // is not here: Never *)

	{}

	P0(int *a, int *b)
	{
		WRITE_ONCE(*a, 1); // WRITE_ONCE(*a, 2): Sometimes
		smp_wmb(); // without: Sometimes
		WRITE_ONCE(*b, 1);
		smp_wmb(); // without: Never
		WRITE_ONCE(*b, 2);
	}

	exists (a=2)
	END
	herd order Never order.1 Sometimes order.2 Sometimes order.3 Never
}

litmus() { run in_toolchain python3 -BEs "$VMTEST/litmus.py" "$1" "$2" x/order.litmus; }

# herd NAME RESULT...: its output.
herd()
{
	while [ $# -gt 0 ]; do
		printf '%s\n' "Test $1 Allowed" "States 2" "a=1;" "a=2;" "Observation $1 $2 0 2" "Time $1 0.00" ""
		shift 2
	done >herd7
}

@test "litmus: a variant has one line changed, and a name of its own" {
	litmus write out
	[ "$status" = 0 ]
	cmp x/order.litmus out/order.litmus
	[ "$(ls out)" = $'order.1.litmus\norder.2.litmus\norder.3.litmus\norder.litmus' ]
	run diff x/order.litmus out/order.1.litmus
	[ "${#lines[@]}" = 8 ]
	[ "${lines[3]}" = "> C order.1" ]
	[ "${lines[7]}" = "> WRITE_ONCE(*a, 2);" ]
	grep -cx 'smp_wmb();.*' <(sed 's/^\t//' out/order.2.litmus) | grep -qx 1
	sed 's/^C .*/C other/' -i x/order.litmus
	litmus write out
	[ "$status" = 1 ]
	[[ $output = *"the name of the test is not that of the file"* ]]
}

@test "litmus: the table has states and results, and names the line of a variant" {
	litmus judge herd7
	[ "$status" = 0 ]
	[ "${lines[0]}" = "protocol  test   states  result     with                           without" ]
	[ "${lines[1]}" = "x         order       2  Never" ]
	[ "${lines[2]}" = "x         order       2  Sometimes  WRITE_ONCE(*a, 1);             WRITE_ONCE(*a, 2);" ]
	[ "${lines[3]}" = "x         order       2  Sometimes  smp_wmb(); WRITE_ONCE(*b, 1);  -" ]
	[ "${lines[4]}" = "x         order       2  Never      smp_wmb(); WRITE_ONCE(*b, 2);  -" ]
	[ "${lines[5]}" = "4 passed, 0 failed, 0 skipped" ]
	litmus block herd7
	[ "${lines[0]}" = "1 tests; the bad state is reachable in 2 of 3 variants." ]
}

@test "litmus: another result than the stated one, none, and faults are failures" {
	herd order Sometimes order.1 Never order.2 Sometimes
	litmus judge herd7
	[ "$status" = 1 ]
	[[ $output = *"FAILED: order: Never was expected"* ]]
	[[ $output = *"FAILED: order.1: Sometimes was expected"* ]]
	[[ $output = *"FAILED: order.3: no result"* ]]
	[ "${lines[-1]}" = "1 passed, 3 failed, 0 skipped" ]
	herd order Never order.1 Sometimes order.2 Sometimes order.3 Never
	# A variant may have the race that its line prevents, the test may not.
	sed -i -e '/^Observation order.1/i Flag data-race' herd7
	litmus judge herd7
	[ "$status" = 0 ]
	sed -i -e '/^Observation order /i Flag data-race' herd7
	litmus judge herd7
	[ "$status" = 1 ]
	[[ $output = *"FAILED: order: Flag data-race"* ]]
	[ "${lines[-1]}" = "3 passed, 1 failed, 0 skipped" ]
	herd order Never order.1 Sometimes order.2 Sometimes order.3 Never
	sed -i '1i Warning: File "x.litmus": error' herd7
	litmus judge herd7
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "4 passed, 1 failed, 0 skipped" ]
}

# Each series has the tests that its code cites, and its cover the numbers of these.
@test "litmus: the cover letters have the numbers of doc/results.md" {
	local name tests reached variants series=0
	for name in $(cd "$TOP/patches" && grep -l '^diff --git .*\.litmus$' -- */*.patch | cut -d/ -f1 | sort -u); do
		sed -n 's,^diff --git .*/\([^/]*\)\.litmus$,\1,p' "$TOP/patches/$name"/*.patch >names
		read -r tests reached variants < <(sed -n '/^<!-- litmus -->/,/^<!-- end of litmus/p' "$TOP/doc/results.md" |
			awk 'NR == FNR { mine[$1]; next }
			     !($2 in mine) { next }
			     NF == 4 { tests++; next }
			     { variants++; reached += $4 == "Sometimes" }
			     END { print tests, reached, variants }' names -)
		[ "$tests" = "$(wc -l <names)" ]
		tr '\n' ' ' <"$TOP/patches/$name/cover.md" >cover
		if [ "$tests" = 1 ]; then
			grep -q "A litmus test" cover
		else
			grep -q "$tests litmus tests" cover
			[ "$reached" = "$variants" ] && reached=all || reached+=" of"
			grep -q "reachable in $reached $variants variants" cover
		fi
		series=$((series + 1))
	done
	[ "$series" -gt 0 ]
}
