#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# The list of mutants, and the verdicts on results of a guest and of herd7: no kernel, no guest.

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
	mkdir -p tree/kernel tree/net
	printf 'obj-y = a.o\n' >tree/kernel/Makefile
	printf '%s\n' '// SPDX' '#include <a.h>' 'int f(void)' '{' '	if (a || b)' '		return 1;' '	smp_mb();' '}' \
		'int g(void)' '{' '	smp_mb();' '}' >tree/net/a.c
	mkdir -p tree/Documentation/litmus-tests/x
	cat >tree/Documentation/litmus-tests/x/order.litmus <<-'END'
	C order

	{}

	P0(int *a)
	{
		smp_mb(); // without: Sometimes
		WRITE_ONCE(*a, 1);
		smp_mb(); // without: Sometimes
		WRITE_ONCE(*a, 2); // WRITE_ONCE(*a, 3): Never
	}

	exists (a=1)
	END
	cat >list <<-'END'
	# two in one line, and a litmus test's
	mutant first
	file net/a.c
	-if (a ||
	+if ((a && !MUTANT) ||
	caught-by p.x.one: wrong
	caught-by p.x.two: .

	mutant second
	file net/a.c
	- b)
	+ (MUTANT || b))
	caught-by p.x.one: .

	mutant third
	file net/a.c
	after int g(
	-	smp_mb();
	+	if (!MUTANT)
	+		smp_mb();
	caught-by litmus: order: smp_mb(); WRITE_ONCE(*a, 1);

	mutant fourth
	file kernel/Makefile
	-a.o
	+MUTANT
	survives nobody looks
	END
}

mutants() { run in_toolchain python3 -BEs "$VMTEST/mutants.py" "$1" list "${@:2}"; }

# guest LINE...: the results of a guest, which ends with the status $status_of.
guest()
{
	mkdir -p log
	printf '%s\n' "$@" >log/results
	: >log/console
	echo "${status_of:-1}" >log/status
	mutants verdicts log
}

# of NAME OUTCOME SAID...: the KTAP of p.x.one, after the line of guest-mutants.
of()
{
	printf '%s\n' "guest-mutants: $1" "KTAP version 1" "1..1" "  TAP version 13" "  1..2" "  # $3" \
		"  $2 1 x.one" "  ok 2 x.two" "$2 1 p"
}

@test "mutants: all are switched by their number, in one tree" {
	mutants check tree
	[ "$status" = 0 ] && [ -z "$output" ]
	mutants apply tree
	[ "$status" = 0 ]
	[ "$(sed -n 2p tree/net/a.c)" = "extern int kernel_mutant;" ]
	grep -qF 'if ((a && !(kernel_mutant == 309456471)) || ((kernel_mutant == 908005737) || b))' tree/net/a.c
	[ "$(tail -n 3 tree/net/a.c)" = $'\tif (!(kernel_mutant == 607264868))\n\t\tsmp_mb();\n}' ]
	grep -q '^core_param(mutant, kernel_mutant' tree/kernel/mutant.c
	[ "$(tail -n 1 tree/kernel/Makefile)" = "obj-y += mutant.o" ]
}

@test "mutants: those of bpfprov are switched by the kernel's parameter" {
	mkdir -p tree/tools/bpf/bpfprov
	printf '%s\n' '// SPDX' '#include <stdio.h>' 'int main(void)' '{' '	return check();' '}' >tree/tools/bpf/bpfprov/main.c
	printf '%s\n' '// SPDX' '#include <bpf/bpf_helpers.h>' 'int hook(void) { return REFUSE; }' >tree/tools/bpf/bpfprov/hook.bpf.c
	cat >>list <<-'END'

	mutant tool
	file tools/bpf/bpfprov/main.c
	-	return check();
	+	return MUTANT ? 0 : check();
	file tools/bpf/bpfprov/hook.bpf.c
	-REFUSE
	+MUTANT ? ALLOW : REFUSE
	caught-by p.x.one: .
	END
	mutants kinds first tool
	[ "$output" = $'first\trun\ntool\ttool' ]
	mutants apply tree
	[ "$status" = 0 ]
	[ "$(sed -n 2p tree/tools/bpf/bpfprov/main.c)" = "extern int kernel_mutant;" ]
	grep -qxF '	return (kernel_mutant == 552812241) ? 0 : check();' tree/tools/bpf/bpfprov/main.c
	grep -q 'fopen("/sys/module/kernel/parameters/mutant"' tree/tools/bpf/bpfprov/main.c
	[[ $(sed -n 4p tree/tools/bpf/bpfprov/hook.bpf.c) = "extern const void kernel_mutant "* ]]
	grep -qxF 'int hook(void) { return kernel_mutant_is(552812241) ? ALLOW : REFUSE; }' tree/tools/bpf/bpfprov/hook.bpf.c
}

@test "mutants: a text that is missing or occurs twice does not fit" {
	sed -i 's/a || b/c || b/' tree/net/a.c
	sed -i '/^after/d' list
	mutants check tree
	[ "$status" = 1 ]
	[[ $output = *"mutant first: net/a.c does not have: if (a ||"* ]]
	[[ $output = *"mutant third: net/a.c has this twice: smp_mb();"* ]]
	mutants apply tree
	[ "$status" = 1 ]
	[ ! -e tree/kernel/mutant.c ]
}

@test "mutants: two that change the same text do not fit" {
	sed -i 's/^- b)/-|| b)/' list
	mutants check tree
	[ "$status" = 1 ]
	[[ $output = *"mutants first and second change the same text"* ]]
}

@test "mutants: an incomplete block is refused" {
	sed -i 's/ MUTANT/ mutant/; s/(MUTANT/(mutant/' list
	mutants names
	[ "$status" = 1 ]
	[[ $output = *"second has no MUTANT in the new text"* ]]
}

@test "mutants: names, by file and of the guest" {
	mutants names
	[ "$output" = $'first\nsecond\nthird\nfourth' ]
	mutants names --guest
	[ "$output" = $'first\nsecond' ]
	mutants names net/a.c
	[ "$output" = $'first\nsecond' ]
	mutants names kernel/Makefile
	[ -z "$output" ]
	mutants kinds first third fourth
	[ "$output" = $'first\trun\nthird\tlitmus\nfourth\texplained: nobody looks' ]
	mutants batch second first
	[ "$output" = $'908005737 second p.x.one\n309456471 first p.x.one,p.x.two\n0 none p.x.one,p.x.two' ]
	mutants batch fifth
	[ "$status" = 1 ]
}

@test "mutants: one that leaves changes in the guest has a guest of its own" {
	sed -i 's/^mutant second/&\nalone/' list
	mutants kinds first second
	[ "$output" = $'first\trun\nsecond\talone' ]
	mutants batch second
	[ "$output" = '908005737 second p.x.one' ]
}

@test "mutants: caught where a test fails with its message" {
	guest "$(of first "not ok" "it is wrong")" "$(of second "not ok" bad)" "$(of none ok "")"
	[ "${lines[0]}" = $'first\tcaught: p.x.one (not in p.x.two)' ]
	[ "${lines[1]}" = $'second\tcaught: p.x.one' ]
	[ "${lines[2]}" = $'none\t2 tests pass' ]
}

@test "mutants: another message, a pass and an absent test are not caught" {
	guest "$(of first "not ok" other)" "$(of second ok "")" "$(of none "not ok" bad)"
	[[ ${lines[0]} = $'first\tsurvived: p.x.one: other'* ]]
	[ "${lines[1]}" = $'second\tsurvived: all pass' ]
	[[ ${lines[2]} = $'none\tfailed: p.x.one: bad'* ]]
	guest "guest-mutants: second" "KTAP version 1" "1..1" "not ok 1 p.x.one # there is no such test"
	[[ ${lines[0]} = $'second\tfailed: did not run: p.x.one' ]]
	# All that is stated of one test.
	sed -i '0,/^caught-by p.x.one: /s//caught-by p.x.one: also\n&/' list
	guest "$(of first "not ok" "it is wrong")"
	[ "${lines[0]}" = $'first\tsurvived: p.x.one: it is wrong' ]
	guest "$(of first "not ok" "also: it is wrong")"
	[ "${lines[0]}" = $'first\tcaught: p.x.one (not in p.x.two)' ]
}

@test "mutants: a test that fails without a mutant catches none" {
	guest "$(of first "not ok" "it is wrong")" "$(of second "not ok" bad)" "$(of none "not ok" bad)"
	[[ ${lines[0]} = $'first\tfailed: without it: p.x.one: bad'* ]]
	[[ ${lines[1]} = $'second\tfailed: without it: p.x.one: bad'* ]]
	# In a guest of its own, where the first one died.
	mutants control first second
	[ "$output" = "0 none p.x.one,p.x.two" ]
	mkdir control
	of none "not ok" bad >control/results
	: >control/console
	status_of=7 guest "$(of first "not ok" "it is wrong")" "guest-mutants: second" "KTAP version 1" "1..1"
	mutants verdicts log control
	[[ ${lines[0]} = $'first\tfailed: without it: p.x.one: bad'* ]]
	[ "${lines[1]}" = $'second\tcaught: the guest died, or hung' ]
	of none ok "" >control/results
	mutants verdicts log control
	[ "${lines[0]}" = $'first\tcaught: p.x.one (not in p.x.two)' ]
}

@test "mutants: a guest that dies or complains catches the last one" {
	local status_of
	for status_of in 4 7; do
		guest "$(of first "not ok" "it is wrong")" "guest-mutants: second" "KTAP version 1" "1..1"
		[ "${lines[0]}" = $'first\tcaught: p.x.one (not in p.x.two)' ]
		[ "${lines[1]}" = $'second\tcaught: the guest died, or hung' ]
	done
	# QEMU was killed.
	status_of=6 guest "$(of first "not ok" "it is wrong")" "guest-mutants: second" "KTAP version 1" "1..1"
	[ "${lines[1]}" = $'second\tfailed: vmtest.sh ended with 6' ]
	# One that is not the last one: a program died, and the guest did not.
	guest "guest-mutants: first" "KTAP version 1" "1..1" "$(of second ok "")"
	[ "${lines[0]}" = $'first\tcaught: incomplete: 0 of 1 programs have a result' ]
	guest "$(of first ok "")" "$(of second ok "")" "$(of none ok "")"
	printf '%s\r\n' "[1] guest-mutants: first" "[2] fine" "[3] guest-mutants: second" \
		"[4] WARNING: mm/a.c:1" >log/console
	mutants verdicts log
	[ "${lines[0]}" = $'first\tsurvived: all pass' ]
	[ "${lines[1]}" = $'second\tcaught: the kernel complained: [4] WARNING: mm/a.c:1' ]
	[ "${lines[2]}" = $'none\t2 tests pass' ]
}

@test "mutants: a complaint that the kernel also has without a mutant catches none" {
	guest "$(of first ok "")" "$(of second "not ok" bad)" "$(of none ok "")"
	printf '%s\r\n' "[1] guest-mutants: first" "[2] WARNING: mm/a.c:1" "[3] guest-mutants: second" \
		"[4] guest-mutants: none" "[5] WARNING: mm/a.c:1" >log/console
	mutants verdicts log
	[ "${lines[0]}" = $'first\tfailed: without it, the kernel complained: [5] WARNING: mm/a.c:1' ]
	[ "${lines[1]}" = $'second\tcaught: p.x.one' ]
	[ "${lines[2]}" = $'none\tfailed: the kernel complained: [5] WARNING: mm/a.c:1' ]
}

# in_perf: a fifth mutant, in perf, which fails the case "late" with a check.
in_perf()
{
	mkdir -p tree/tools/perf/util
	printf 'perf-util-y += m.o\n' >tree/tools/perf/util/Build
	printf '%s\n' '// SPDX' 'int m;' >tree/tools/perf/util/m.c
	cat >>list <<-'END'

	mutant fifth
	file tools/perf/util/m.c
	-int m;
	+int m = MUTANT;
	caught-by perf: late: name
	END
	cat >perf <<-'END'
	#!/bin/bash
	[ "$*" = "test -v -S late" ] || exit 2
	echo ' 71.1: too late : Ok'
	[ "${KERNEL_MUTANT:-0}" = 0 ] || echo "FAILED tests/m.c:12 ${CHECK:-name}"
	[ "${KERNEL_MUTANT:-0}" = 0 ] && echo ' 71.2: late     : Ok' || echo ' 71.2: late     : FAILED!'
	END
	chmod +x perf
}

@test "mutants: those in perf have a switch there, and cases of perf test" {
	in_perf
	mutants apply tree
	[ "$status" = 0 ] && [ "$(tail -n 1 tree/tools/perf/util/m.c)" = "int m = (kernel_mutant == 1377709939);" ]
	grep -qF 'getenv("KERNEL_MUTANT")' tree/tools/perf/util/mutant.c
	[ "$(tail -n 1 tree/tools/perf/util/Build)" = "perf-util-y += mutant.o" ]
	mutants kinds fifth
	[ "$output" = $'fifth\tperf' ]
	mutants names --guest
	[ "$output" = $'first\nsecond' ]
	mutants perf ./perf fifth
	[ "$output" = $'fifth\tcaught: perf test: late' ]
	CHECK=address mutants perf ./perf fifth
	[ "$output" = $'fifth\tsurvived: late: FAILED! FAILED tests/m.c:12 address' ]
	sed -i 's/: late     : Ok/: late     : Skip/' perf
	mutants perf ./perf fifth
	[ "$output" = $'fifth\tfailed: without the mutant: late: Skip' ]
	sed -i 's/^caught-by perf: late: name/caught-by p.x.one: name/' list
	mutants names
	[ "$status" = 1 ]
	[[ $output = *"fifth needs cases of perf test if it changes perf, and only then"* ]]
}

@test "mutants: a variant that the litmus test does not have, has twice, or does not need" {
	local wrong
	while IFS=$'\t' read -r wrong said; do
		sed -i "s/^caught-by litmus: .*/caught-by litmus: $wrong/" list
		mutants check tree
		[ "$status" = 1 ]
		[ "$output" = "mutant third: $said" ] || { echo "$output"; false; }
	done <<-'END'
	none: smp_mb();	no litmus tests none
	order: smp_rmb();	order has no variants without: smp_rmb();
	order: smp_mb();	order has 2 variants without: smp_mb();
	order: WRITE_ONCE(\*a, 1);	order has no variants without: WRITE_ONCE(*a, 1);
	order: WRITE_ONCE(\*a, 2);	order without 'WRITE_ONCE(*a, 2);' must be Never
	END
	sed -i "s/^caught-by litmus: .*/caught-by litmus: order/" list
	mutants check tree
	[ "$status" = 1 ]
	[[ $output = *"third names no line of the litmus test" ]]
}

# herd NAME RESULT...: its output.
herd()
{
	while [ $# -gt 0 ]; do
		printf '%s\n' "Test $1 Allowed" "States 2" "a=1;" "a=2;" "Observation $1 $2 0 2" "Time $1 0.00" ""
		shift 2
	done >herd7
}

@test "mutants: proven where the variant reaches the bad state, and the whole test passes" {
	mutants litmus tree third fourth
	[ "$output" = "tree/Documentation/litmus-tests/x/order.litmus" ]
	herd order Never order.1 Sometimes order.2 Sometimes order.3 Never
	mutants proofs tree herd7 third
	[ "$output" = $'third\tproven by the model: order without smp_mb(); WRITE_ONCE(*a, 1);' ]
	herd order Never order.1 Never order.2 Sometimes order.3 Never
	mutants proofs tree herd7 third
	[ "$output" = $'third\tfailed: litmus test order.1: Sometimes was expected' ]
	herd order Sometimes order.1 Sometimes order.2 Sometimes order.3 Never
	mutants proofs tree herd7 third
	[ "$output" = $'third\tfailed: litmus test order: Never was expected' ]
	# Another variant has a wrong result: the model of the test is wrong.
	herd order Never order.1 Sometimes order.2 Sometimes order.3 Sometimes
	mutants proofs tree herd7 third
	[ "$output" = $'third\tfailed: litmus test order.3: Never was expected' ]
}

@test "mutants: nothing is proven by a litmus test that is not there, or did not run" {
	herd order Never order.2 Sometimes order.3 Never
	mutants proofs tree herd7 third
	[ "$output" = $'third\tfailed: litmus test order.1: no result' ]
	rm herd7
	mutants proofs tree herd7 third
	[[ $output = $'third\tfailed: '*"No such file"* ]]
	herd order Never
	rm tree/Documentation/litmus-tests/x/order.litmus
	mutants litmus tree third
	[ "$status" = 0 ] && [ -z "$output" ]
	mutants proofs tree herd7 third
	[ "$output" = $'third\tfailed: no litmus tests order' ]
}

@test "mutants: the last result of each one is kept until it changes" {
	sed -i 's/^mutant \(first\|second\|third\|fourth\)/mutant buildid-\1/' list
	printf 'buildid-first\tcaught: p.x.one\nbuildid-third\tproven by the model: order\n' >verdicts
	mutants record last verdicts
	[ "$status" = 0 ]
	mutants block last
	[ "${lines[2]}" = "| buildid | 4 | 1 | 1 | 1 | 0 | 1 |" ]
	# Another run, of others: the results of the first one stay.
	printf 'buildid-second\tsurvived: all pass\nnone\t2 tests pass\n' >verdicts
	mutants record last verdicts
	[ "$(cut -f1,3 last | tail -n +2)" = $'buildid-first\tcaught: p.x.one\nbuildid-second\tsurvived: all pass\nbuildid-third\tproven by the model: order' ]
	mutants block last
	[ "${lines[2]}" = "| buildid | 4 | 1 | 1 | 1 | 1 | 0 |" ]
	[[ $output = *$'\n'"| all | 4 | 1 | 1 | 1 | 1 | 0 |"* ]]
	[[ $output = *"buildid-second: survived: all pass"* ]]
	# The text of one of them changes.
	sed -i 's/!MUTANT) ||/! MUTANT) ||/' list
	mutants block last
	[ "${lines[2]}" = "| buildid | 4 | 0 | 1 | 1 | 1 | 1 |" ]
	mutants check tree last
	[[ $output == *"1 mutants have no result"* ]]
}
