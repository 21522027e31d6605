#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2030,SC2031  # bats sets these in each test
# The splat gate and the KTAP reader on canned logs: no guest.

VMTEST=$BATS_TEST_DIRNAME/..

setup_file()
{
	# shellcheck source=scripts/common.sh
	. "$VMTEST/../scripts/common.sh"
	export TOP toolchain_root=${toolchain_root:-$("$TOP/scripts/fetch" root)}
	export -f in_toolchain
}

# results COMMAND...: as that of scripts/common.sh.
results() { run in_toolchain python3 -BEs "$VMTEST/results.py" "$@"; }

splat()
{
	printf '%s\n' "[    1.0] Linux version 7.3.4" "$1" "[    2.0] done" >"$BATS_TEST_TMPDIR/log"
	run "$VMTEST/splats" "$BATS_TEST_TMPDIR/log"
}

# lines NAME LINE...: the file NAME.
lines() { printf '%s\n' "${@:2}" >"$BATS_TEST_TMPDIR/$1"; }

ktap()
{
	: >"$BATS_TEST_TMPDIR/ktap"
	[ $# = 0 ] || lines ktap "$@"
	results summary "$BATS_TEST_TMPDIR/ktap"
}

@test "splats: a clean log passes" {
	splat "[    1.5] EXT4-fs (vda): mounted filesystem"
	[ "$status" = 0 ]
	[ -z "$output" ]
}

@test "splats: what the kernel prints of a fault is found" {
	while read -r line; do
		splat "$line"
		[ "$status" = 1 ] || { echo "not found: $line"; false; }
		[ "$output" = "$line" ]
	done <<-'EOF'
	[    2.1] WARNING: CPU: 0 PID: 1 at mm/mmap.c:10 f+0x1/0x2
	[    2.1] WARNING: mm/mmap.c:10 at f+0x1/0x2, CPU#0: bash/1
	[    2.1] BUG: KASAN: slab-use-after-free in f+0x1/0x2
	[    2.1] BUG: KCSAN: data-race in f / g
	[    2.1] BUG: scheduling while atomic: bash/1/0x00000002
	[    2.1] BUG: sleeping function called from invalid context at mm/x.c:1
	[    2.1] BUG: unable to handle page fault for address: ffff
	[    2.1] WARNING: possible circular locking dependency detected
	[    2.1] WARNING: suspicious RCU usage
	[    2.1] rcu: INFO: rcu_preempt self-detected stall on CPU
	[    2.1] INFO: task bash:1 blocked for more than 120 seconds.
	[    2.1] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [a:1]
	[    2.1] UBSAN: array-index-out-of-bounds in a.c:1
	[    2.1] ODEBUG: free active (active state 0) object type: timer_list
	[    2.1] INFO: trying to register non-static key.
	[    2.1] unreferenced object 0xffff888004455667 (size 64):
	[    2.1] refcount_t: underflow; use-after-free.
	[    2.1] list_del corruption. prev->next should be ffff
	[    2.1] unregister_netdevice: waiting for veth0 to become free. Usage count = 2
	[    2.1] Oops: general protection fault, probably for non-canonical address
	** 3 printk messages dropped **
	EOF
}

@test "splats: what SysRq l prints is none" {
	splat "[    2.1] NMI backtrace for cpu 1"
	[ "$status" = 0 ]
	splat "[    2.1] Call Trace:"
	[ "$status" = 0 ]
}

# lint_of FILE LINE: of the data files, with LINE added to FILE.
lint_of()
{
	local top=$BATS_TEST_TMPDIR/top
	rm -rf "$top"
	mkdir -p "$top/vmtest" "$top/scripts"
	cp "$VMTEST"/expect.* "$VMTEST"/splats.* "$VMTEST"/*.known "$VMTEST/promises" "$top/vmtest"
	cp "$VMTEST/../scripts/style.allow" "$top/scripts"
	printf '%b\n' "$2" >>"$top/$1"
	results lint --top "$top"
	[[ ${lines[-1]} = *" 1 0" ]] || [ "$2" = '#' ]
}

@test "lint: the data files are well formed" {
	lint_of vmtest/expect.base '#'
	[ "$output" = "10 0 0" ]
}

@test "lint: a reason that needs the row above, no reason, no condition, no expression, two rows" {
	lint_of vmtest/expect.base 'a.b.c\tpass\t-\tthe same'
	[[ $output == *"vmtest/expect.base:"*"does not stand by itself"* ]]
	lint_of vmtest/expect.base 'a.b.c\tpass\t-\tTODO: why'
	lint_of vmtest/expect.base 'a.b.c\tfail\t-\tno such thing'
	lint_of vmtest/expect.base 'a.b.c\tpasses\tx\tno such thing'
	lint_of vmtest/expect.base 'contexts.contexts.sleepable\tpass\t-\ta second row'
	[[ $output == *"has a row already"* ]]
	lint_of vmtest/expect.skip 'series\tno disk\ta reason'
	[[ $output == *"3 columns where 4 were due"* ]]
	lint_of vmtest/promises 'key\tthe promise\tp.a'
	[[ $output == *"3 columns where 5 were due"* ]]
	lint_of vmtest/splats.allow 'foo(\ta reason\ta condition'
	[[ $output == *"is not an expression"* ]]
	lint_of vmtest/splats.base 'rt\tfoo\t\ta condition'
	lint_of vmtest/regress.known 'foo\tOK\ta reason\ta condition'
	lint_of vmtest/kcsan.known 'read fs/inode.c:g / write mm/mmap.c:f\tmm\tTODO: why; 2 reports\ta condition'
	lint_of vmtest/kcsan.known 'read fs/inode.c:g / write mm/mmap.c:f\t\ta reason\ta condition'
	lint_of vmtest/kcsan.known 'g / f\tmm\ta reason\ta condition'
	[[ $output == *"KIND FILE:FUNCTION"* ]]
	lint_of vmtest/kcsan.known 'read fs/inode.c:? / write mm/mmap.c:f\tmm\ta reason\ta condition'
	lint_of vmtest/kcsan.known 'read ? / write ?\tmm\ta reason\ta condition'
	lint_of vmtest/kcsan.known 'read ?\tmm\ta reason\ta condition'
	lint_of vmtest/kcsan.known 'read lib/string.c:memcmp / write mm/mmap.c:f\tmm\ta reason\ta condition'
	[[ $output == *"add its caller"* ]]
	lint_of scripts/style.allow 'foo\ta reason'
}

@test "splats: an expression that grep does not take is no clean log" {
	cp "$VMTEST"/splats* "$BATS_TEST_TMPDIR"
	printf 'foo(\ta reason\ta condition\n' >>"$BATS_TEST_TMPDIR/splats.allow"
	echo clean >"$BATS_TEST_TMPDIR/log"
	run "$BATS_TEST_TMPDIR/splats" "$BATS_TEST_TMPDIR/log"
	[ "$status" = 1 ]
}

@test "splats: what base prints too is let pass for its flavour alone, on both trees" {
	cp "$VMTEST"/splats* "$BATS_TEST_TMPDIR"
	printf 'rt\tWARNING: at known\tbase has it\ta condition\n' >>"$BATS_TEST_TMPDIR/splats.base"
	echo "WARNING: at known" >"$BATS_TEST_TMPDIR/log"
	"$BATS_TEST_TMPDIR/splats" "$BATS_TEST_TMPDIR/log" rt
	"$BATS_TEST_TMPDIR/splats" "$BATS_TEST_TMPDIR/log" base-rt
	for f in "" series debug; do
		run "$BATS_TEST_TMPDIR/splats" "$BATS_TEST_TMPDIR/log" $f
		[ "$status" = 1 ]
	done
	echo "WARNING: at another" >>"$BATS_TEST_TMPDIR/log"
	run "$BATS_TEST_TMPDIR/splats" "$BATS_TEST_TMPDIR/log" rt
	[ "$status" = 1 ]
	[ "$output" = "WARNING: at another" ]
}

# kcsan KIND FRAME...: of a report in which these frames make an access of that kind to a
# variable that f() writes, decoded. The rows of the list are in $known, the files of the series
# in $ours.
ours=(mm/mmap.c)
kcsan()
{
	printf '%s\n' "${known[@]/%/$'\tmm\ta reason\ta condition'}" >"$BATS_TEST_TMPDIR/known"
	{
		echo "[    0.5] done"
		echo "[    1.0] ========================================================"
		echo "[    1.0] BUG: KCSAN: data-race in f / g"
		echo "[    1.0]"
		echo "[    1.0] write to 0xffff88800445 of 8 bytes by task 12 on cpu 0:"
		echo "[    1.0]  f.constprop.0 (mm/mmap.c:10)"
		echo "[    1.0]  do_mmap (mm/mmap.c:400)"
		echo "[    1.0]"
		echo "[    1.0] $1 to 0xffff88800445 of 8 bytes by interrupt on cpu 1:"
		printf '[    1.0]  %s\n' "${@:2}"
		echo "[    1.0]   |"
		echo "[    1.0]   +-> reordered to: h (fs/inode.c:99)"
		echo "[    1.0]"
		echo "[    1.0] value changed: 0x0 -> 0x1"
		echo "[    1.0] ========================================================"
		echo "[    2.0] WARNING: at x"
	} >"$BATS_TEST_TMPDIR/decoded"
	printf '%s\n' "${ours[@]}" >"$BATS_TEST_TMPDIR/ours"
	results kcsan --known "$BATS_TEST_TMPDIR/known" --ours "$BATS_TEST_TMPDIR/ours" "$BATS_TEST_TMPDIR/decoded"
	[ "$status" = 0 ]
	# Nothing else changes.
	diff <(sed 's/BUG: KCSAN: //' "$BATS_TEST_TMPDIR/decoded") <(sed -E 's/(BUG: KCSAN|listed|elsewhere): //' <<<"$output")
	[[ $output == *"WARNING: at x"* ]]
}

listed() { [[ $output == *"listed: data-race in f / g"* && $output != *"BUG: KCSAN"* ]]; }
unlisted() { [[ $output == *"BUG: KCSAN: data-race in f / g"* && $output != *listed:* ]]; }

@test "kcsan: a race of two listed accesses is no splat, every other one is" {
	known=("read fs/inode.c:g / write mm/mmap.c:f")
	kcsan read "g (fs/inode.c:5)" "h (fs/inode.c:6)"
	listed
	# Nor are those of another function, of another file, another kind, or with another partner.
	kcsan read "g2 (fs/inode.c:5)"
	unlisted
	kcsan read "g (fs/other.c:5)"
	unlisted
	kcsan "read (marked)" "g (fs/inode.c:5)"
	unlisted
	kcsan write "g (fs/inode.c:5)"
	unlisted
	known=("read fs/inode.c:g / write mm/mmap.c:other")
	kcsan read "g (fs/inode.c:5)"
	unlisted
	# One access alone names another race, whose other side KCSAN does not see.
	known=("read fs/inode.c:g" "write mm/mmap.c:f")
	kcsan read "g (fs/inode.c:5)"
	unlisted
	known=()
	kcsan read "g (fs/inode.c:5)"
	unlisted
}

@test "kcsan: the order of a row does not matter, callers and inlined functions do" {
	known=("write mm/mmap.c:f < do_mmap / read fs/inode.c:g < h")
	kcsan read "g (fs/inode.c:5)" "h (fs/inode.c:6)" "i (fs/inode.c:7)"
	listed
	kcsan read "g (fs/inode.c:5)" "i (fs/inode.c:6)"
	unlisted
	known=("read fs/inode.c:g / write mm/mmap.c:f")
	# An access of an inline function in g() is not that of g().
	kcsan read "g (include/linux/fs.h:3 (discriminator 2) fs/inode.c:5)"
	unlisted
	known=("read include/linux/fs.h:g / write mm/mmap.c:f")
	kcsan read "g (include/linux/fs.h:3 (discriminator 2) fs/inode.c:5)"
	listed
}

@test "kcsan: a delayed access is listed with a plain one, but not the other way round" {
	known=("read fs/inode.c:g / write mm/mmap.c:f")
	kcsan "read (reordered)" "g (fs/inode.c:5)"
	listed
	known=("read (reordered) fs/inode.c:g / write mm/mmap.c:f")
	kcsan "read (reordered)" "g (fs/inode.c:5)"
	listed
	kcsan read "g (fs/inode.c:5)"
	unlisted
	known=("read (marked) fs/inode.c:g / write mm/mmap.c:f")
	kcsan "read (marked, reordered)" "g (fs/inode.c:5)"
	listed
	kcsan "read (reordered)" "g (fs/inode.c:5)"
	unlisted
}

@test "kcsan: a race without a file of the series is no splat" {
	ours=(lib/buildid.c)
	known=()
	kcsan read "g (fs/inode.c:5)"
	[[ $output == *"elsewhere: data-race in f / g"* && $output != *"BUG: KCSAN"* ]]
	# A caller, an inlined function and the place of a delayed access count.
	kcsan read "g (fs/inode.c:5)" "h (lib/buildid.c:6)"
	unlisted
	kcsan read "g (include/linux/fs.h:3 (discriminator 2) lib/buildid.c:5)"
	unlisted
	kcsan read "g (lib/buildid.c:3 (discriminator 2) fs/inode.c:5)"
	unlisted
	ours=(fs/inode.c)
	kcsan "read (reordered)" "g (fs/super.c:5)"
	unlisted
	# The code that an interrupt met does not.
	ours=(lib/buildid.c)
	kcsan read "g (fs/inode.c:5)" "asm_sysvec_x (arch/x86/include/asm/idtentry.h:674)" "h (lib/buildid.c:6)"
	[[ $output == *"elsewhere: data-race in f / g"* && $output != *"BUG: KCSAN"* ]]
	kcsan read "g (lib/buildid.c:5)" "asm_sysvec_x (arch/x86/include/asm/idtentry.h:674)" "h (fs/inode.c:6)"
	unlisted
	# A module of the tests is built outside of the tree.
	kcsan read "g (/mnt/out/faults/planted_faults.c:5)"
	unlisted
	# A frame that cannot be decoded may be one.
	kcsan read "g (fs/inode.c:5)" "h+0x12/0x34"
	unlisted
	kcsan read "g (fs/inode.c:5)" "h (??:?)"
	unlisted
	kcsan read "g (fs/inode.c:5)" "0xffffffff81000000"
	unlisted
	kcsan "unheard of" "g (fs/inode.c:5)"
	unlisted
}

@test "kcsan: a report that cannot be decoded is a splat, whatever the list has" {
	known=("read fs/inode.c:g / write mm/mmap.c:f" "read ?:g / write mm/mmap.c:f" "read :g / write mm/mmap.c:f")
	kcsan read "g+0x12/0x34"
	unlisted
	# Not even by its caller.
	kcsan read "g+0x12/0x34 planted_faults" "g (fs/inode.c:5)"
	unlisted
	kcsan read "g (??:?)"
	unlisted
	kcsan read "0xffffffff81000000"
	unlisted
	kcsan "unheard of" "g (fs/inode.c:5)"
	unlisted
	known=("read vmtest/faults/planted_faults.c:g / write mm/mmap.c:f")
	kcsan read "g (vmtest/faults/planted_faults.c:12) planted_faults"
	listed
	known=()
	kcsan read "g (vmtest/faults/planted_faults.c:12) [planted_faults]"
	unlisted
}

# switched ACCESS [FRAME...]: of a report in which a task writes in f(), and has that
# other access.
switched()
{
	printf '%s\n' "${known[@]/%/$'\tmm\ta reason\ta condition'}" >"$BATS_TEST_TMPDIR/known"
	{
		echo "[    1.0] BUG: KCSAN: data-race in f / g"
		echo "[    1.0] $1:"
		[ $# = 1 ] || printf '[    1.0]  %s\n' "${@:2}"
		echo "[    1.0]"
		echo "[    1.0] write to 0xffff88800445 of 4 bytes by task 12 on cpu 1:"
		echo "[    1.0]  f (mm/mmap.c:10)"
		echo "[    1.0]"
		echo "[    1.0] ========================================================"
	} >"$BATS_TEST_TMPDIR/decoded"
	printf '%s\n' "${ours[@]}" >"$BATS_TEST_TMPDIR/ours"
	results kcsan --known "$BATS_TEST_TMPDIR/known" --ours "$BATS_TEST_TMPDIR/ours" "$BATS_TEST_TMPDIR/decoded"
}

@test "kcsan: an access without a stack is listed if the same task does both on one CPU" {
	known=("read ? / write mm/mmap.c:f")
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1"
	listed
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 0"
	unlisted
	switched "read to 0xffff88800445 of 4 bytes by task 13 on cpu 1"
	unlisted
	switched "read to 0xffff88800445 of 4 bytes by interrupt on cpu 1"
	unlisted
	switched "write to 0xffff88800445 of 4 bytes by task 12 on cpu 1"
	unlisted
	# A stack that cannot be decoded is a stack.
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1" "g (fs/inode.c:5)"
	unlisted
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1" "g+0x12/0x34"
	unlisted
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1" "0xffffffff81000000"
	unlisted
	known=("read ? / write mm/mmap.c:h")
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1"
	unlisted
	known=("write mm/mmap.c:f")
	switched "read to 0xffff88800445 of 4 bytes by task 12 on cpu 1"
	unlisted
	results races --known "$BATS_TEST_TMPDIR/known" "$BATS_TEST_TMPDIR/decoded"
	[ "$output" = $'read ? / write mm/mmap.c:f\tmm\tTODO: why; 1 reports\tTODO: when' ]
}

@test "kcsan: one row for each race that is not listed, in the form of the list" {
	known=()
	kcsan "read (marked)" "g (include/linux/fs.h:3 (discriminator 2) fs/inode.c:5)" "h (fs/inode.c:6)" \
		"i (fs/inode.c:7)" "j (fs/inode.c:8)"
	lines rest "[    3.0] BUG: KCSAN: data-race in k+0x1/0x2" "" \
		"[    3.0] race at unknown origin, with write to 0xffff888 of 4 bytes by task 1 on cpu 0:" \
		"[    3.0]  k (kernel/fork.c:5)" "[    3.0] =========="
	lines cut "[    4.0] BUG: KCSAN: data-race in l / m" "[    4.0] read to 0xffff888"
	(cd "$BATS_TEST_TMPDIR" && cat decoded decoded rest cut >console)
	results races --known "$BATS_TEST_TMPDIR/known" "$BATS_TEST_TMPDIR/console"
	[ "${#lines[@]}" = 3 ]
	local row=$'read (marked) include/linux/fs.h:g < h < i / write mm/mmap.c:f < do_mmap\tfs, mm'
	[ "${lines[0]}" = "$row"$'\tTODO: why; 2 reports\tTODO: when' ]
	[ "${lines[1]}" = $'data-race in l / m\tTODO\tTODO: why; 1 reports\tTODO: when' ]
	[ "${lines[2]}" = $'write kernel/fork.c:k\tkernel\tTODO: why; 1 reports\tTODO: when' ]
	# With reason and condition, the row lists the race.
	printf '%s\ta reason\ta condition\n' "$row" >"$BATS_TEST_TMPDIR/known"
	results races --known "$BATS_TEST_TMPDIR/known" "$BATS_TEST_TMPDIR/console"
	[ "${#lines[@]}" = 2 ]
	results kcsan --known "$BATS_TEST_TMPDIR/known" --ours /dev/null "$BATS_TEST_TMPDIR/console"
	[ "$(grep -c 'listed: ' <<<"$output")" = 2 ]
	[ "$(grep -c 'elsewhere: data-race in k' <<<"$output")" = 1 ]
	[ "$(grep -c 'BUG: KCSAN: ' <<<"$output")" = 1 ]
	lint_of vmtest/kcsan.known "$row\ta reason\ta condition" || true
	[ "${lines[-1]}" = "10 0 0" ]
}

@test "ktap: the flat TAP of one program" {
	ktap "TAP version 13" "1..2" "ok 1 f.a" "not ok 2 f.b"
	[ "$status" = 0 ]
	[[ $output == *"1 passed, 1 failed, 0 skipped" ]]
}

@test "splats: binary noise does not hide a line" {
	{ head -c 4096 /dev/urandom; printf '\nBUG: KASAN: x\n'; } >"$BATS_TEST_TMPDIR/log"
	run "$VMTEST/splats" "$BATS_TEST_TMPDIR/log"
	[ "$status" = 1 ]
}

@test "splats: usage and a missing file" {
	run "$VMTEST/splats"
	[ "$status" = 2 ]
	run "$VMTEST/splats" /nonexistent
	[ "$status" = 2 ]
}

@test "ktap: outcomes, names and totals" {
	ktap "KTAP version 1" "1..1" "  TAP version 13" "  1..3" "  ok 1 f.a" \
		"  # x.c:1:b:Expected 1 == 2" "  not ok 2 f.v.b" "  ok 3 global.c # SKIP no disk" "not ok 1 prog # exit 1"
	[ "$status" = 0 ]
	[ "${lines[0]}" = "pass prog.f.a"$'\t' ]
	[[ ${lines[1]} == "fail prog.f.v.b"$'\t'*"Expected 1 == 2"* ]]
	[[ ${lines[2]} == "skip prog.c"$'\t'*"no disk"* ]]
	[ "${lines[3]}" = "1 passed, 1 failed, 1 skipped" ]
}

@test "ktap: a program that dies after its tests is a failure" {
	ktap "KTAP version 1" "1..1" "  1..1" "  ok 1 f.a" "not ok 1 prog # exit 139"
	[ "$status" = 0 ]
	[[ $output == *"fail prog"* ]]
}

@test "ktap: a plan that is not met, a number out of order, no plan, no header, no test" {
	ktap "KTAP version 1" "1..1" "  1..3" "  ok 1 f.a" "ok 1 prog"
	[ "$status" = 1 ]
	ktap "KTAP version 1" "1..2" "  1..1" "  ok 1 f.a" "ok 1 prog"
	[ "$status" = 1 ]
	ktap "KTAP version 1" "1..1" "  1..2" "  ok 1 f.a" "  ok 3 f.b" "ok 1 prog"
	[ "$status" = 1 ]
	ktap "KTAP version 1" "  1..1" "  ok 1 f.a" "ok 1 prog"
	[ "$status" = 1 ]
	ktap "ok 1 prog"
	[ "$status" = 1 ]
	ktap "KTAP version 1" "1..0"
	[ "$status" = 1 ]
	ktap "KTAP version 1" "1..2" "  1..1" "  ok 1 f.a" "ok 1 prog" "ok 2 prog2"
	[ "$status" = 1 ]
	ktap
	[ "$status" = 1 ]
}

# names RIGHT [UNTIL]: as guest-names of both kernels has it; RIGHT of 200 samples have
# their name where they can, UNTIL lines of each.
names()
{
	local k t a f
	for k in base series; do
		for t in perf bpfprov; do
			for a in no yes; do
				for f in kept deleted stripped replaced; do
					printf 'names\t%s\t%s\t%s\t200\t%d\t5\n' $t $a $f \
						"$( { [ $a = yes ] || [ $f = kept ]; } && echo "$1" || echo 0)"
				done
			done
		done | head -n "${2:-16}" >"$BATS_TEST_TMPDIR/$k"
	done
	results names "$BATS_TEST_TMPDIR/base" "$BATS_TEST_TMPDIR/series"
}

@test "names: too few names, and a run that did not take place, are failures" {
	names 180
	[ "${lines[-1]}" = "112 0 0" ]
	names 140
	[ "${lines[-1]}" = "92 20 0" ]
	names 180 15
	[ "${lines[-1]}" = "104 1 0" ]
	[[ "$output" = *"there are 30 of 32"* ]]
}

# guest_perf: the output of guest-perf on both kernels, changed by the sed program $1 on the
# series.
guest_perf()
{
	local k b r p named bit programs i
	for k in base series; do
		for b in nothing loaders live; do
			for r in base series; do
				for p in base series; do
					named=20 bit=no programs=0
					[ $k$r != seriesseries ] || bit=yes
					[ $k$r$p != seriesseriesseries ] || named=300 programs=3
					printf 'perf\t%s\t%s\t%s\t300\t%d\t0\t%d\t9\t%s\t0\n' $b $r $p $named $programs $bit
				done
				printf 'same\t%s\t%s\tyes\n' $b $r
			done
		done
		for r in base series; do
			for p in base series; do
				for i in trampoline struct_ops dispatcher; do
					named=0
					[ $p = base ] && [ $i != dispatcher ] || named=40
					printf 'image\t%s\t%s\t%s\t40\t%d\t0\n' $i $r $p $named
				done
				printf 'kcore\t%s\t%s\t%s\n' $r $p "$([ $r$p = seriesbase ] && echo no || echo yes)"
			done
		done
		printf 'top\t%s\t2\t%s\n' base 0 series 2
		for p in base series; do
			printf 'test\t%s\tevsel: names\tOk\n' $p
			printf 'test\t%s\tuncore PMUs\tSkip\n' $p
			printf 'test\t%s\tcounters\tFAILED!\n' $p
			printf 'test\t%s\tNumber of exit events of a simple workload\tOk\n' $p
		done
		printf 'test\tseries\tBPF text: late\t%s\n' "${late:-Ok}"
		printf 'test\tseries\tperf record BPF events of subprograms\t%s\n' "$([ $k = series ] && echo Ok || echo Skip)"
	done >"$BATS_TEST_TMPDIR/both"
	sed -n '1,/^test\tseries\tperf record/p' "$BATS_TEST_TMPDIR/both" >"$BATS_TEST_TMPDIR/base"
	sed '1,/^test\tseries\tperf record/d' "$BATS_TEST_TMPDIR/both" | sed "$1" >"$BATS_TEST_TMPDIR/series"
	results perf "$BATS_TEST_TMPDIR/base" "$BATS_TEST_TMPDIR/series"
}

@test "perf: every row as it should be; then each thing that can be wrong" {
	guest_perf ''
	[ "${lines[-1]}" = "185 0 3" ]
	[[ $output != *FAILED:* ]]
	[[ $output == *"series   series   series   -            yes               300      300       0         3      9     120/120"* ]]
	[[ $output == *"series   series   base     loaders      yes               300       20       0         -      9           -"* ]]
	[[ $output == *"base     base     base     -            no                300       20       0         -      9      40/120"* ]]

	guest_perf 's/^\(perf\tloaders\tseries\tseries\t300\t\)300/\1299/'
	[ "${lines[-1]}" = "184 1 3" ]
	[[ $output == *"FAILED: series series series loaders: samples without the right name"* ]]
	# Named as another program.
	guest_perf 's/^\(perf\tlive\tseries\tseries\t300\t\)300\t0/\1290\t10/'
	[[ $output == *"FAILED: series series series 10000 live: samples without the right name"* ]]
	# A case that the records are for was not reached.
	guest_perf 's/^\(perf\tnothing\tbase\tseries\t300\t\)20/\1200/'
	[[ $output == *"FAILED: series base series -: programs did not run while they were unloaded"* ]]
	guest_perf 's/^\(image\tstruct_ops\tseries\tseries\t40\t\)40\t0/\139\t1/'
	[ "${lines[-1]}" = "184 1 3" ]
	[[ $output == *"FAILED: series series series struct_ops: 1 samples without the right name"* ]]
	[[ $output == *" 119/120"* ]]
	guest_perf 's/^\(image\ttrampoline\tbase\tbase\t40\t\)0/\140/'
	[[ $output == *"FAILED: series base base trampoline: most samples have their names, although kcore was read"* ]]
	guest_perf 's/^\(image\tdispatcher\tseries\tseries\t\)40\t40/\119\t19/'
	[[ $output == *"too few samples: 19"* ]]
	guest_perf 's/^\(kcore\tbase\tseries\t\)yes/\1no/'
	[[ $output == *"FAILED: series base series: perf report read /proc/kcore: no"* ]]
	guest_perf 's/^\(same\tlive\tbase\t\)yes/\1no/'
	[[ $output == *"FAILED: series base 10000 live: the reports differ in more than BPF text"* ]]
	# The order of 7.3 from perf of the series; events that are enabled too late; none at all.
	guest_perf 's/^\(top\tseries\t2\t\)2/\10/'
	[ "${lines[-1]}" = "184 1 3" ]
	[[ $output == *"FAILED: series series: perf top enabled 0 of 2 events before it listed the programs"* ]]
	guest_perf 's/^\(top\tseries\t2\t\)2/\11/'
	[[ $output == *"FAILED: series series: perf top enabled 1 of 2 events"* ]]
	guest_perf 's/^\(top\tseries\t\)2\t2/\10\t0/'
	[[ $output == *"FAILED: series series: perf top enabled 0 of 0 events"* ]]
	guest_perf 's/^\(top\tbase\t2\t\)0/\12/'
	[[ $output == *"FAILED: series base: perf top enabled 2 of 2 events"* ]]
	guest_perf '/^top\tseries/d'
	[[ $output == *"there are 59 of 60"* ]]
	guest_perf '/^kcore\tseries\tbase/d'
	[ "${lines[-1]}" = "183 1 3" ]
	[[ $output == *"there are 59 of 60"* ]]
}

@test "perf: its own tests are no worse than base" {
	guest_perf ''
	[ "${lines[-1]}" = "185 0 3" ]
	[[ $output == *"kernel   perf test of        Ok     Skip  FAILED!"* ]]
	[[ $output == *"base     base                2        1        1"* ]]
	[[ $output == *"series   series              4        1        1"* ]]
	[[ $output == *"perf test: counters: FAILED! with each"* ]]
	[[ $output == *"perf test: perf record BPF events of subprograms: Skip with series on base, Ok with series on series"* ]]
	# Worse with this perf, and on this kernel; with base's perf as well.
	guest_perf 's/^\(test\tseries\tevsel: names\t\)Ok/\1FAILED!/'
	[ "${lines[-1]}" = "184 1 3" ]
	[[ $output == *"FAILED: on series: Ok with perf of base, FAILED! with perf of the series"* ]]
	[[ $output == *"FAILED: with perf of series: Ok on base, FAILED! on series"* ]]
	guest_perf 's/^\(test\t[a-z]*\tevsel: names\t\)Ok/\1Skip/'
	[[ $output == *"FAILED: with perf of base: Ok on base, Skip on series"* ]]
	# One that was not Ok may become so.
	guest_perf 's/^\(test\tseries\tcounters\t\)FAILED!/\1Ok/'
	[ "${lines[-1]}" = "186 0 2" ]
	[[ $output == *"perf test: counters: FAILED! with base on base"*"Ok with series on series"* ]]
	# Not one that fails on a busy machine with base as well.
	guest_perf 's/^\(test\tseries\tNumber of exit events.*\t\)Ok/\1FAILED!/'
	[ "${lines[-1]}" = "185 0 3" ]
	[[ $output == *"perf test: Number of exit events of a simple workload: Ok with base on base"*"FAILED! with series on series"* ]]
	# A test that was not run, and one of the series that is not Ok.
	guest_perf '/^test\tseries\tuncore PMUs/d'
	[ "${lines[-1]}" = "185 1 2" ]
	[[ $output == *"FAILED: on series: Skip with perf of base, missing with perf of the series"* ]]
	guest_perf 's/^\(test\tseries\tBPF text: late\t\)Ok/\1Skip/'
	[[ $output == *"FAILED: a test of the series: Ok on base, Skip on series"* ]]
	late=Skip guest_perf 's/^\(test\tseries\tBPF text: late\t\)Ok/\1Skip/'
	[[ $output == *"FAILED: a test of the series: Skip on base, Skip on series"* ]]
	guest_perf '/^test/d'
	[[ $output == *"FAILED: no perf test is Ok"* ]]
}

# regress: base.results, series.results and added.results of the test's directory.
regress()
{
	local d=$BATS_TEST_TMPDIR
	printf '%b\n' 'a/known\tFAIL\ta reason\ta condition' 'b(/one)?\tCHANGED\ta reason\ta condition' >"$d/known"
	results regress "$d"/{known,base.results,series.results,added.results}
}

@test "regress: both kernels alike; a case that the series changes passes in its own copy" {
	local base=($'a/known\tFAIL' $'a/other\tOK' $'b\tOK' $'b/one\tOK' $'b/two\tOK')
	local changed=($'a/known\tFAIL' $'a/other\tOK' $'b\tFAIL' $'b/one\tFAIL' $'b/two\tOK')
	local added=($'added: b\tOK' $'added: b/one\tOK' $'added: b/two\tOK')
	lines base.results "${base[@]}"
	lines series.results "${changed[@]}"
	lines added.results "${added[@]}"
	regress
	[ "${lines[-1]}" = "7 0 1" ]
	# Without the copies, which "regress bpf" does not run.
	lines added.results
	regress
	[ "${lines[-1]}" = "4 0 1" ]
	# The copy fails, or is missing.
	lines added.results "${added[@]/#added: b\/one?OK/$'added: b/one\tFAIL'}"
	regress
	[ "${lines[-1]}" = "5 2 1" ]
	[[ $output == *"FAILED: b/one: base OK, series FAIL, its copy FAIL"* ]]
	lines added.results "${added[0]}" "${added[2]}"
	regress
	[ "${lines[-1]}" = "5 1 1" ]
	# The series does not change it after all.
	lines added.results "${added[@]}"
	lines series.results "${base[@]}"
	regress
	[ "${lines[-1]}" = "5 2 1" ]
	# Another case differs.
	lines series.results "${changed[@]/a\/other?OK/$'a/other\tFAIL'}"
	regress
	[ "${lines[-1]}" = "6 1 1" ]
	[[ $output == *"FAILED: a/other: base OK, series FAIL, OK was expected"* ]]
}

# judge: base and series of the test's directory, against two expectations.
judge()
{
	local d=$BATS_TEST_TMPDIR
	printf '%b\n' 'p.a\tpass\t-\tregression guard' 'p.b\tfail\tno such hook\tno hook' \
		'p.c\tpanic\tNULL pointer\ta NULL pointer' >"$d/expect"
	printf '%b\n' 'series,rt\tno disk\ta reason\ta condition' >"$d/skip"
	results table --expect "$d/expect" --skip "$d/skip" --base "$d/base" --base "$d/panics.tsv" --series "$d/series"
}

@test "table: base as expected, the series passes; then each thing that can be wrong" {
	local good=("KTAP version 1" "1..1" "  1..3" "  ok 1 a" "  ok 2 b" "  ok 3 c" "ok 1 p")
	local base=("KTAP version 1" "1..1" "  1..2" "  ok 1 a" "  # no such hook" "  not ok 2 b" "not ok 1 p # exit 1")
	lines base "${base[@]}"
	lines series "${good[@]}"
	lines panics.tsv "panic p.c"$'\t'"BUG: NULL pointer dereference"
	judge
	[ "${lines[-1]}" = "3 0 0" ]
	[[ $output != *FAILED* ]]
	[[ $output == *"p.c "*" panic  pass   a NULL pointer"* ]]
	# The series fails.
	lines series "${good[@]/  ok 2/  not ok 2}"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	[[ $output == *"FAILED: on the series: fail"* ]]
	# It skips, for a known reason and for another.
	lines series "${good[@]/  ok 2 b/  ok 2 b # SKIP no disk}"
	judge
	[ "${lines[-1]}" = "2 0 1" ]
	lines series "${good[@]/  ok 2 b/  ok 2 b # SKIP no luck}"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	# A test has no result, is not expected, or has two results.
	lines series "KTAP version 1" "1..1" "  1..2" "  ok 1 a" "  ok 2 b" "ok 1 p"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	lines series "KTAP version 1" "1..1" "  1..4" "  ok 1 a" "  ok 2 b" "  ok 3 c" "  ok 4 d" "ok 1 p"
	judge
	[[ $output == *"FAILED: not listed in vmtest/expect.base"* ]]
	[ "${lines[-1]}" = "3 1 0" ]
	lines series "KTAP version 1" "1..1" "  1..4" "  ok 1 a" "  ok 2 b" "  ok 3 c" "  ok 4 c" "ok 1 p"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	# A short plan is red, even if all results are good.
	lines series "${good[@]/1..3/1..4}"
	judge
	[ "${lines[-1]}" = "3 1 0" ]
	[[ $output == *"FAILED: on the series: incomplete: p: 3 results, 4 planned"* ]]
	# Base passes, fails for another reason, or survives.
	lines series "${good[@]}"
	lines base "KTAP version 1" "1..1" "  1..2" "  ok 1 a" "  ok 2 b" "ok 1 p"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	lines base "${base[@]/no such hook/another thing}"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	[[ $output == *"on base it does not print 'no such hook'"* ]]
	# That counts once, also if the series skips the test.
	lines series "${good[@]/  ok 2 b/  ok 2 b # SKIP no disk}"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
	lines series "${good[@]}"
	lines base "${base[@]}"
	lines panics.tsv "other p.c"$'\t'"FAILED: the kernel was expected to die"
	judge
	[ "${lines[-1]}" = "2 1 0" ]
}

@test "expect: prints the rows that are missing or differ, ready to paste" {
	lines base "KTAP version 1" "1..1" "  1..3" "  ok 1 a" "  # x.c:12:b:Expected -1 != f(1) (-1)" \
		"  not ok 2 b" "  ok 3 d # SKIP no disk" "not ok 1 p # exit 1"
	printf '%b\n' 'p.a\tpass\t-\tregression guard' 'p.b\tpass\t-\told reason' 'p.gone\tpass\t-\tx' \
		>"$BATS_TEST_TMPDIR/expect"
	results expect --expect "$BATS_TEST_TMPDIR/expect" "$BATS_TEST_TMPDIR/base"
	[ "${lines[0]}" = 'p.b'$'\t''fail'$'\t''Expected \-1 != f\(1\) \(\-1\)'$'\t''old reason' ]
	[ "${lines[1]}" = 'p.d'$'\t''skip'$'\t''no disk'$'\t''TODO: why' ]
	[ "${lines[2]}" = "# no result: p.gone" ]
}

@test "record: the recorded results are judged as those of the run" {
	lines base "KTAP version 1" "1..1" "  1..2" "  # time p.a 1.500" "  ok 1 a" "  # no such hook" "  not ok 2 b" \
		"not ok 1 p # exit 1"
	lines panics.tsv "panic p.c"$'\t'"BUG: NULL pointer dereference"
	lines series "KTAP version 1" "1..1" "  1..3" "  ok 1 a" "  ok 2 b" "  ok 3 c" "ok 1 p"
	results record "$BATS_TEST_TMPDIR/base" "$BATS_TEST_TMPDIR/panics.tsv" < <(printf 'common\tabc\np\t1\n')
	[ "${lines[1]}" = "# print: common abc" ]
	[ "${lines[2]}" = "# print: p 1" ]
	[ "${lines[3]}" = "pass p.a"$'\t\t'1.5 ]
	lines kept.tsv "$output"
	results slow "$BATS_TEST_TMPDIR/kept.tsv"
	[ "${lines[0]}" = "     1.5 s  p.a" ]
	judge
	wanted=$output
	results record "$BATS_TEST_TMPDIR/base" "$BATS_TEST_TMPDIR/panics.tsv" </dev/null
	lines panics.tsv "$output"
	printf '#\n' >"$BATS_TEST_TMPDIR/none.tsv"
	results table --expect "$BATS_TEST_TMPDIR/expect" --skip "$BATS_TEST_TMPDIR/skip" \
		--base "$BATS_TEST_TMPDIR/panics.tsv" --series "$BATS_TEST_TMPDIR/series"
	[ "$output" = "$wanted" ]
}

@test "recorded: the run with most programs as they are now, without those that changed" {
	local d=$BATS_TEST_TMPDIR
	lines old.tsv "# print: common abc" "# print: p 0" "# print: q 2" "pass q.a"$'\t'
	lines new.tsv "# print: common abc" "# print: p 1" "# print: q 2" "# print: r 3" \
		"pass p.a"$'\t' "fail q.a"$'\t'"no such hook"$'\t'2.5 "pass r.a"$'\t'
	lines other.tsv "# print: common abd" "# print: p 1" "# print: q 2" "pass p.a"$'\t'
	# r is there no more, s is new.
	results recorded "$d/out" "$d"/{old,new,other,absent}.tsv < <(printf '%s\t%s\n' common abc p 1 q 2 s 4)
	[ "$status" = 0 ]
	[ "${lines[0]}" = "$d/new.tsv" ]
	[ "${lines[1]}" = s ]
	[ "$(<"$d/out")" = "pass p.a"$'\t\n'"fail q.a"$'\t'"no such hook"$'\t'2.5 ]
	results recorded "$d/out" "$d"/{old,new,other}.tsv < <(printf '%s\t%s\n' common abc p 1 q 3)
	[ "${lines[0]}" = "$d/new.tsv" ]
	[ "${lines[1]}" = q ]
	# Another configuration or runner, and no program that is the same.
	results recorded "$d/out" "$d"/{old,new,other}.tsv < <(printf '%s\t%s\n' common xyz p 1)
	[ "$status" = 1 ]
	results recorded "$d/out" "$d"/{old,new,other}.tsv < <(printf '%s\t%s\n' common abc p 7)
	[ "$status" = 1 ]
}

@test "flavour: a failure, a skip for an unknown reason, and no test at all are red" {
	lines ktap "KTAP version 1" "1..1" "  1..3" "  ok 1 a" "  not ok 2 b" "  ok 3 c # SKIP no luck" "not ok 1 p"
	results flavour rt "$BATS_TEST_TMPDIR/ktap"
	[ "${lines[-1]}" = "1 2 0" ]
	lines ktap "KTAP version 1" "1..0"
	results flavour rt "$BATS_TEST_TMPDIR/ktap"
	[ "${lines[-1]}" = "0 2 0" ]
}

@test "flavour: a test that is due and has no result is red" {
	lines ktap "KTAP version 1" "1..1" "  1..1" "  ok 1 a" "ok 1 p"
	printf '%s\tpass\t-\ta reason\n' p.a p.b q.c >"$BATS_TEST_TMPDIR/expect"
	due() { results flavour --expect "$BATS_TEST_TMPDIR/expect" --due "$@" rt "$BATS_TEST_TMPDIR/ktap"; }
	due all
	[ "${lines[-1]}" = "1 2 0" ]
	[[ $output = *"rt: FAILED: no result: p.b"*"rt: FAILED: no result: q.c"* ]]
	due p
	[ "${lines[-1]}" = "1 1 0" ]
	due p.a
	[ "${lines[-1]}" = "1 0 0" ]
	due all --but p.b,q.c
	[ "${lines[-1]}" = "1 0 0" ]
	# A name that no test has.
	due p.a,p.d
	[ "${lines[-1]}" = "1 1 0" ]
	# A run that ended early has one error.
	lines ktap "KTAP version 1" "1..2" "  1..1" "  ok 1 a" "ok 1 p"
	due all
	[ "${lines[-1]}" = "1 1 0" ]
}

@test "slow and junit: the time before a result belongs to it, and is no diagnostic" {
	lines ktap "KTAP version 1" "1..1" "  1..2" "  # time p.a 1.5" "  ok 1 a" "  # x < y & z" "  # time p.b 20.25" \
		"  not ok 2 b" "not ok 1 p # exit 1"
	results summary "$BATS_TEST_TMPDIR/ktap"
	[ "${lines[1]}" = "fail p.b"$'\t'"x < y & z" ]
	results slow "$BATS_TEST_TMPDIR/ktap"
	[ "${lines[0]}" = "    20.2 s  p.b" ]
	[ "${lines[1]}" = "     1.5 s  p.a" ]
	results junit "$BATS_TEST_TMPDIR/ktap"
	[[ $output == *'<testsuite name="p" tests="2" failures="1" skipped="0">'* ]]
	[[ $output == *'<testcase name="b" classname="p" time="20.250">'*'<failure message="x &lt; y &amp; z" />'* ]]
	results junit "$BATS_TEST_TMPDIR/ktap" --why "the kernel died"
	[[ $output == *'<testcase name="vmtest" classname="vmtest">'*'<failure message="the kernel died" />'* ]]
}

# bench OPTION...: costs of two boots; base lacks one operation.
bench()
{
	local out=$BATS_TEST_TMPDIR/out boot
	mkdir -p "$out"
	for boot in 1 2; do
		printf '%s\t%s\t%s\t%s\t%s\n' $boot base stack/build_id/2_files 1 "1000.0 1010.0 990.0" \
			$boot base stack/build_id/2_files 50 "70000.5 70000.5" $boot series stack/build_id/2_files 1 "500.0" \
			$boot series stack/build_id/2_files 50 "$((6000 + boot * 100)).0" $boot base load/21_functions 0 "1700000.0" \
			$boot series load/21_functions 0 "1700000.0" $boot series lookup/task_vma_query build_id "398.0" \
			$boot base walk/iterator 40084 "1033.0" $boot series walk/iterator 40084 "199.8"
	done >"$out/rows"
	lines answered "  # task_vma.c:2145:contention:bpf_find_vma(): 1000 of 5000 samples answered, the writer waited 78 times" \
		"  # task_vma.c:2152:contention:bpf_task_vma_query(): 4000 of 5000 samples answered, the writer waited 0 times" \
		"  ok 1 contention" \
		"  # task_vma.c:2252:race:munmap      /proc   0 %  task_work   5 %  process_exit  10 %  query 100 %"
	results bench "$out/rows" "$out" "$@"
}

@test "bench: medians, ratio and spread; an operation that base lacks has no ratio" {
	bench
	[ "$status" = 0 ]
	[[ $output == *"stack/build_id/2_files "*" 1 "*" 1000.0 "*" 500.0 "*" 0.500 "*" 0.00"* ]]
	[[ $output == *"stack/build_id/2_files "*" 50 "*" 70000.5 "*" 6150.0 "*" 0.088 "*" 0.81"* ]]
	[[ $output == *"lookup/task_vma_query "*" build_id "*" - "*" 398.0 "*" - "*" 0.00"* ]]
	[ "$output" = "$(<"$BATS_TEST_TMPDIR/out/bench.txt")" ]
}

@test "bench: plots of all costs, of what they grow with and of samples, and a document with them" {
	local doc=$BATS_TEST_TMPDIR/doc/results.md svg
	mkdir "${doc%/*}"
	lines doc/results.md "# Results" "<!-- bench -->" "an older table" "<!-- end of bench -->" "between" \
		"<!-- answered -->" "<!-- end of answered -->" "end"
	bench --answered "$BATS_TEST_TMPDIR/answered" --doc "$doc"
	[ "$status" = 0 ]
	for svg in instructions frames mappings listeners resolved answered; do
		cmp "$BATS_TEST_TMPDIR/out/$svg.svg" "${doc%.md}/$svg.svg"
		grep -qF "](results/$svg.svg)" "$doc"
	done
	# The largest x of an operation; a value that base does not have is not drawn as 0.
	svg=$(<"${doc%.md}/instructions.svg")
	[[ $svg == *">stack/build_id/2_files, 50</text>"* ]]
	[[ $svg != *">stack/build_id/2_files, 1</text>"* ]]
	[[ $svg == *">lookup/task_vma_query, build_id</text>"*">not available</text>"*">398</text>"* ]]
	[[ $(<"${doc%.md}/frames.svg") == *">build_id/2_files, base</text>"*">build_id/2_files, series</text>"* ]]
	[[ $(<"${doc%.md}/resolved.svg") == *">munmap</text>"*">0</text>"*">5</text>"*">10</text>"*">100</text>"* ]]
	[[ $(<"${doc%.md}/answered.svg") == *"bpf_find_vma()"*">20</text>"*"bpf_task_vma_query()"*">80</text>"* ]]
	[[ $(<"$doc") == "# Results"$'\n'"<!-- bench -->"$'\n'"| operation | column x |"*"| stack: "*"!["*"load/21_functions"*"<!-- end of bench -->"*"between"* ]]
	[[ $(<"$doc") != *"older table"* ]]
	# A legend for the rows that there are.
	! grep -qE '^\| (sock|multi):|^- .(random|execve).: ' "$doc" || return 1
	[[ $(<"$doc") == *"munmap      /proc   0 %"*"- \`munmap\`: "*"<!-- end of answered -->"$'\n'"end" ]]
	cp -r "${doc%/*}" "$BATS_TEST_TMPDIR/first"
	bench --answered "$BATS_TEST_TMPDIR/answered" --doc "$doc"
	diff -r "${doc%/*}" "$BATS_TEST_TMPDIR/first"
}

@test "bench: a document without the marks is not written" {
	lines results.md "# Results" "<!-- bench -->"
	bench --doc "$BATS_TEST_TMPDIR/results.md"
	[ "$status" = 1 ]
	[ "$(<"$BATS_TEST_TMPDIR/results.md")" = "# Results"$'\n'"<!-- bench -->" ]
}
