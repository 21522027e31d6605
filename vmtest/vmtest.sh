#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# usage: vmtest.sh [options] [-- command...]
#
# Boot a kernel in QEMU and run a command in it, by default every
# program of the selftest target bpf_provenance.
#
#   -f, --flavour NAME   base, series (default), or another of scripts/build --help;
#                        built first if anything changed
#   -k, --kernel FILE    this bzImage instead; nothing is built
#       --no-build       use the kernel and the tests that are there
#   -t, --test NAME[,...]     only these
#   -x, --exclude NAME[,...]  all but these; NAME is PROGRAM, all tests of a program, or
#                        PROGRAM[.FIXTURE[.VARIANT]].TEST
#   -s, --shell          an interactive shell instead (exit or Ctrl-D ends it, and is 0)
#       --gdb            wait for a debugger on localhost:1234
#       --accel WHICH    auto (default; tries KVM by booting it), kvm, tcg
#       --print-accel    only print which of kvm and tcg auto would take
#       --icount         one CPU, emulated, whose clock counts instructions: the
#                        same figures in every run (implies --accel tcg --smp 1)
#       --smp N, --memory MIB  (2, 2048)
#       --append ARGS    further kernel arguments
#       --boot-timeout S, --silence-timeout S, --test-timeout S,
#       --shutdown-timeout S  (120, 300, 2400, 60)
#                        the one for silence is longer by 300 s for each further unit of
#                        TIMEOUT_SCALE
#       --longer S       added to the silence and test time-outs
#       --expect-panic REGEX  succeed only when the kernel dies with an oops, and
#                        its console matches
#       --file FILE      put it into the guest, in /mnt
#       --modules        load the kernel's modules first, in an order that works
#       --ktap FILE, --junit FILE   keep the results; in the latter a run that is red for
#                        another reason than a test's has a failed test case vmtest
#       --log DIR        keep console and results there
#   -q, --quiet          do not show the tests' output while they run
#
# Exit codes:
#   0  the command succeeded, and every test passed or was skipped
#   1  a test failed, or the command's exit status was not 0
#   2  wrong options, something is missing on this machine, or the kernel or the tests
#      do not build
#   3  the guest did not boot in time
#   4  the kernel panicked or oopsed
#   5  a splat (warning or report of a sanitizer, see vmtest/splats.deny) on the console,
#      even if all tests pass
#   6  the VM ended without a status line
#   7  silence or the test time-out
#   8  the results are incomplete: no KTAP, a short plan, a test without result
#   9  the tests ended, the VM did not
#  10  --expect-panic, and the kernel did not die that way
# 130  interrupted; 143 terminated
#
# Environment:
#   QEMU               QEMU's x86 emulator, or a script that calls it with exec (vmtest/qemu)
#   KVM                KVM's device node (/dev/kvm)
#   KVM_PROBE_TIMEOUT  emulation is used if no guest boots with KVM in so many seconds (6)
#   SELFTESTS          an installed kselftest directory (build/out/series/selftests)
#   FUZZ_SEED, FUZZ_SECONDS, STORM_SECONDS  passed to the tests
#   TMPDIR             directory of the guest's disk, 512 MiB (/var/tmp)
#   TIMEOUT_SCALE      also passed; a test's own time-out is multiplied by it. Default: from
#                      the time of the boot
#
# A flavour's needs are in its vmtest/kconfig/FLAVOUR.config, as lines "# vmtest: WORD...":
# options, which those of the command line override, and NAME=VALUE for the tests, which
# this environment overrides. Of TIMEOUT_SCALE, the larger one is used.

set -euo pipefail
. "$(dirname "$0")/../scripts/common.sh"
HERE=$TOP/vmtest

die() { printf 'vmtest.sh: error: %s\n' "$*" >&2; exit 2; }

QEMU=${QEMU:-$HERE/qemu}
KVM=${KVM:-/dev/kvm}
flavour=series kernel="" nobuild="" tests="" exclude="" shell="" gdb="" accel=auto print_accel="" icount="" files=()
modules=""
smp=2 memory=2048 append="" boot_timeout=120 silence_timeout=300 test_timeout=2400
shutdown_timeout=60 longer=0 expect_panic="" ktap="" junit="" log="" quiet="" command=()

# needs FLAVOUR: sets options, and exports the variables for the tests.
needs()
{
	local config=$HERE/kconfig/${1#base-}.config word words=()
	options=()
	[ -f "$config" ] || return 0
	read -r -a words < <(sed -n 's/^# vmtest: //p' "$config" | paste -sd' ') || true
	for word in "${words[@]}"; do
		if [[ ! $word =~ ^([A-Z_]+)=(.*) ]]; then
			options+=("$word")
		elif [ -z "${!BASH_REMATCH[1]:-}" ] ||
				[[ $word == TIMEOUT_SCALE=* && ${word#*=} -gt $TIMEOUT_SCALE ]]; then
			export "${word?}"
		fi
	done
}

for ((i = 1; i < $#; i++)); do
	[ "${!i}" != -- ] || break
	[[ ${!i} != @(-f|--flavour) ]] || { i=$((i + 1)); flavour=${!i}; }
done
needs "$flavour"
set -- "${options[@]}" "$@"

while [ $# -gt 0 ]; do
	case $1 in
	-h|--help) usage; exit 0 ;;
	-s|--shell) shell=1 ;;
	-q|--quiet) quiet=1 ;;
	--gdb) gdb=1 ;;
	--icount) icount=1 ;;
	--print-accel) print_accel=1 ;;
	--no-build) nobuild=1 ;;
	--modules) modules=1 ;;
	--) shift; command=("$@"); break ;;
	-f|--flavour|-k|--kernel|-t|--test|-x|--exclude|--accel|--smp|--memory|--append|\
	--boot-timeout|--silence-timeout|--test-timeout|--shutdown-timeout|--longer|\
	--expect-panic|--file|--ktap|--junit|--log)
		[ $# -ge 2 ] || die "$1 needs a value"
		case $1 in
		-f|--flavour) flavour=$2 ;;
		-k|--kernel) kernel=$2 nobuild=1 ;;
		-t|--test) tests=$2 ;;
		-x|--exclude) exclude=$2 ;;
		--accel) accel=$2 ;;
		--smp) smp=$2 ;;
		--memory) memory=$2 ;;
		--append) append=$2 ;;
		--boot-timeout) boot_timeout=$2 ;;
		--silence-timeout) silence_timeout=$2 ;;
		--test-timeout) test_timeout=$2 ;;
		--shutdown-timeout) shutdown_timeout=$2 ;;
		--longer) longer=$2 ;;
		--expect-panic) expect_panic=$2 ;;
		--file) files+=("$2") ;;
		--ktap) ktap=$2 ;;
		--junit) junit=$2 ;;
		--log) log=$2 ;;
		esac
		shift ;;
	*) printf 'vmtest.sh: unknown option %s; --help lists them\n' "$1" >&2; exit 2 ;;
	esac
	shift
done
if [ -n "$icount" ]; then
	accel=tcg smp=1
	append="clocksource=tsc tsc=reliable $append"
fi
[[ $accel =~ ^(auto|kvm|tcg)$ ]] || die "--accel $accel: auto, kvm or tcg"
for n in "$smp" "$memory" "$boot_timeout" "$silence_timeout" "$test_timeout" "$shutdown_timeout" "$longer"; do
	[[ $n =~ ^[0-9]+$ ]] || die "'$n' is not a number"
done
silence_timeout=$((silence_timeout + longer)) test_timeout=$((test_timeout + longer))
# Old files must not be taken for this run's, also if it fails.
for f in "$ktap" "$junit" "${log:+$log/console}" "${log:+$log/results}" "${log:+$log/qemu.log}"; do
	# Neither a device nor the target of a link.
	[ ! -f "$f" ] || [ -L "$f" ] || rm -f "$f" || die "cannot replace $f"
done
root=$("$TOP/scripts/fetch" root) || exit 2
# shellcheck disable=SC2034  # for results, in common.sh
toolchain_root=$root
# Scripts that this calls need not search for it again.
[ "$root" = / ] || export TOOLCHAIN=root
"$QEMU" --version >/dev/null || die "$QEMU does not run: set QEMU to QEMU's x86 system emulator"

# --- the kernel -------------------------------------------------------------

if [ -z "$nobuild" ] && [ -z "$print_accel" ]; then
	"$TOP/scripts/build" kernel "$flavour" >&2 || exit 2
	[ ${#command[@]} != 0 ] || "$TOP/scripts/build" selftests >&2 || exit 2
fi
kernel=${kernel:-$BUILD/out/$flavour/bzImage}
[ -f "$kernel" ] || die "no kernel $kernel: run scripts/build kernel $flavour"
selftests=${SELFTESTS:-$BUILD/out/series/selftests}
[ -d "$selftests" ] || { [ ${#command[@]} != 0 ] || [ -n "$shell$print_accel" ] || die "no selftests: run scripts/build selftests"; }

# Not /tmp, which may be small and in memory: the guest's disk is there.
run=$(mktemp -d -p "${TMPDIR:-/var/tmp}") || die "cannot write to ${TMPDIR:-/var/tmp} (TMPDIR)"
qemu_pid="" judged=""
token=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
# For the toolchain, which does not see the other one.
scratch=$BUILD/out/$flavour/vmtest.$token
# For series clean, which must not remove the files of a guest.
mkdir -p "$BUILD"
exec {guests}>"$BUILD/guests.lock"
flock -s "$guests"

# alive SECONDS: is QEMU still running? Waits that long for its end. QEMU and the processes
# that run it hold the only write end of a pipe: a process ID alone is not enough, and could
# be reused.
alive()
{
	local rc=0
	[ -n "$qemu_pid" ] || return 1
	read -r -t "$1" -u 7 || rc=$?
	# 1 is the end of file, more than 128 the time-out.
	[ "$rc" != 1 ]
}

# stop: returns when QEMU has exited.
stop()
{
	local n=0
	! alive 0.01 || kill -KILL "$qemu_pid" 2>/dev/null || true
	while alive 0.02; do
		[ $((n += 1)) -le 500 ] || { warn "$QEMU was killed, and a process that it started is still running"; break; }
	done
	qemu_pid=""
}

# cleanup COMMAND: at the end, which was after COMMAND. An unexpected failure of a command is
# not a verdict on the guest, and does not change one.
cleanup()
{
	local code=$?
	trap '' INT TERM HUP
	stop
	rm -rf "$run" "$scratch" || true
	[ -z "$judged" ] || exit "$judged"
	[[ ! $code =~ ^(0|2|130|143)$ ]] || return 0
	printf 'vmtest.sh: error: status %s of: %s\n' "$code" "$1" >&2 || true
	exit 2
}
trap 'cleanup "$BASH_COMMAND"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The guest's /mnt: its init, and the job.
mkdir "$run/vm" "$run/vm/selftests"
[ -z "$log" ] || mkdir -p "$log"
cp "$HERE"/guest-* "${files[@]}" "$run/vm/" || die "the guest cannot be given its files"
if [ -n "$modules" ]; then
	mkdir "$run/vm/modules"
	while read -r n; do
		cp "$(dirname "$kernel")/${n%.o}.ko" "$run/vm/modules/" || die "no module ${n%.o}.ko beside $kernel"
	done <"$(dirname "$kernel")/modules.order" || die "$flavour has no modules.order"
fi
{
	printf 'token=%q\n' "$token"
	printf 'shell=%q\n' "$shell"
	printf 'tests=%q\nexclude=%q\n' "$tests" "$exclude"
	# Variables that tests use.
	for n in FUZZ_SEED FUZZ_SECONDS STORM_SECONDS TIMEOUT_SCALE; do
		[ -z "${!n:-}" ] || printf 'export %s=%q\n' "$n" "${!n}"
	done
	if [ ${#command[@]} = 0 ]; then
		printf 'command=(/mnt/guest-tests)\n'
	else
		printf 'command=('
		printf '%q ' "${command[@]}"
		printf ')\n'
	fi
} >"$run/vm/job"
truncate -s 512M "$run/disk"

# --- QEMU -------------------------------------------------------------------

# start ACCEL CONSOLE RESULTS: QEMU in the background, in the process qemu_pid, with the
# pipe that alive reads. It dies with this shell, however that ends.
start()
{
	local patience=()
	# An emulated CPU is a thread of the host's. While that does not run, the guest's
	# clock does, and RCU would take the pause for a stall, the watchdog for a lockup,
	# and the check of the timer's interrupt at boot would panic without the few ticks
	# that it waits for.
	[ "$1" != tcg ] ||
		patience=(rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 no_timer_check)
	# shellcheck disable=SC2054  # QEMU's options have commas
	local args=(
		-nodefaults -no-user-config -no-reboot -display none
		-machine q35 -m "$memory" -smp "$smp"
		-kernel "$kernel"
		-device virtio-rng-pci
		-device virtio-serial-pci
		-chardev "file,id=results,path=$3"
		-device virtserialport,chardev=results,name=results
		-drive "file=$run/disk,format=raw,if=virtio,cache=unsafe"
		-virtfs "local,path=$root,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,path=$run/vm,mount_tag=vm,security_model=none,readonly=on"
		-append "console=ttyS0 ignore_loglevel log_buf_len=16M panic=-1 oops=panic root=root rootfstype=9p ro \
rootflags=trans=virtio,version=9p2000.L,cache=loose,msize=512000 \
sysctl.kernel.sysrq=1 ${patience[*]} $append \
init=/bin/bash -- -c \"mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 vm /mnt && exec /mnt/guest-init\""
	)
	[ ! -d "$selftests" ] ||
		args+=(-virtfs "local,path=$selftests,mount_tag=selftests,security_model=none,readonly=on")
	case $1 in
	kvm) args+=(-accel kvm -cpu host) ;;
	tcg)
		args+=(-cpu "max,la57=off")
		if [ -n "$icount" ]; then
			args+=(-accel "tcg,thread=single,tb-size=512" -icount "shift=0,sleep=off")
		else
			args+=(-accel "tcg,thread=multi,tb-size=512")
		fi
		;;
	esac
	[ -z "$gdb" ] || args+=(-gdb tcp:127.0.0.1:1234 -S)
	[ -p "$run/alive" ] || mkfifo "$run/alive" || die "no FIFO in $run (TMPDIR)"
	# Opened for both, a FIFO does not wait for the other end.
	# shellcheck disable=SC2094
	exec 9<>"$run/alive" 8>"$run/alive" 7<"$run/alive" 9>&-
	if [ -n "$shell" ]; then
		# shellcheck disable=SC2054
		args+=(-chardev "stdio,id=console,mux=on,signal=off,logfile=$2" -serial chardev:console
		       -mon chardev=console,mode=readline)
		setpriv --pdeathsig KILL "$QEMU" "${args[@]}" <&0 7<&- &
	else
		args+=(-serial "file:$2")
		setpriv --pdeathsig KILL "$QEMU" "${args[@]}" </dev/null >"$run/qemu.log" 2>&1 7<&- &
	fi
	qemu_pid=$!
	exec 8>&-
	# The shell is not to report how it ended; that is judged below.
	disown "$qemu_pid"
}

# now: the time, in microseconds, without a process for it.
now() { now=${EPOCHREALTIME//[!0-9]/}; }

# kvm_works: a device node proves nothing; only a guest that came up does.
kvm_works()
{
	local end
	if [ ! -r "$KVM" ] || [ ! -w "$KVM" ]; then
		why="no $KVM for this user"
		return 1
	fi
	start kvm "$run/probe.console" "$run/probe.results"
	now
	end=$((now + ${KVM_PROBE_TIMEOUT:-6} * 1000000))
	while now; [ "$now" -lt $end ] && alive 0.1; do
		if grep -q "^$token boot" "$run/probe.results" 2>/dev/null; then
			stop
			return 0
		fi
	done
	why="$KVM opens, but a guest does not come up"
	stop
	return 1
}

if [ "$accel" = auto ]; then
	why=""
	if shell="" gdb="" kvm_works; then
		accel=kvm
		say "accel: kvm (a guest came up)"
	else
		accel=tcg
		say "accel: tcg ($why)"
	fi
fi

if [ -n "$print_accel" ]; then
	echo "$accel"
	exit 0
fi

console=$run/console results=$run/results
: >"$console"
: >"$results"
now
started=$now
start "$accel" "$console" "$results"

# --- watch it ---------------------------------------------------------------

# With builtins alone: a process ten times a second would take the CPUs that the guest
# wants.

died='Kernel panic - not syncing|^(\[[^]]*\] )?(Oops|BUG: unable to handle)'
verdict="" partial="" status="" boot_ms="" moved=$started looked=$started
[ -z "$gdb" ] || { boot_timeout=86400 silence_timeout=86400 test_timeout=86400; }
exec 6<"$results"
echo >"$run/moved"

# news: reads the new lines in the guest's results, shows them
# without the protocol's own lines, and sets boot_ms and status by those. Fails when there
# may be more: a guest that never stops printing must not keep the clock from being read.
news()
{
	local line n
	for ((n = 0; n < 1000; n++)); do
		if ! IFS= read -r line <&6; then
			# The end of the file, perhaps in the middle of a line.
			partial+=$line
			[ -z "$line" ] || moved=$now
			return 0
		fi
		line=$partial$line partial="" moved=$now
		case $line in
		"$token boot"*)
			[ -z "$boot_ms" ] || continue
			boot_ms=$(((now - started) / 1000))
			# A test that hangs is silent until its own time-out.
			n=${line#"$token boot"}
			silence_timeout=$((silence_timeout + 300 * (${n:-1} - 1)))
			[ -n "$quiet$shell" ] || say "booted ($flavour, $accel) in $boot_ms ms"
			;;
		"$token exit "*) status=${line#"$token exit "} ;;
		"$token "*) ;;
		*) [ -n "$quiet" ] || printf '%s\n' "$line" ;;
		esac
	done
	return 1
}

if [ -n "$shell" ]; then
	while alive 1; do :; done
fi
is_alive=1
while :; do
	if [ -n "$is_alive" ]; then alive 0.1 || is_alive=""; fi
	now
	drained=1
	news || drained=""
	if [ $((now - looked)) -gt 500000 ]; then
		looked=$now
		if [ "$console" -nt "$run/moved" ]; then
			moved=$now
			echo >"$run/moved"
		fi
	fi
	if [ -n "$status" ]; then
		break
	elif [ -z "$is_alive" ]; then
		[ -n "$drained" ] || continue
		verdict=lost
		break
	elif [ -z "$boot_ms" ] && [ $((now - started)) -gt $((boot_timeout * 1000000)) ]; then
		verdict=noboot
		break
	elif [ -n "$boot_ms" ] && [ $((now - moved)) -gt $((silence_timeout * 1000000)) ]; then
		verdict=silence
		break
	elif [ -n "$boot_ms" ] && [ $((now - started)) -gt $((boot_ms * 1000 + test_timeout * 1000000)) ]; then
		verdict=timeout
		break
	fi
done
tests_ended=$now
if [ -z "$verdict" ]; then
	while alive 0.1; do
		now
		if [ $((now - tests_ended)) -gt $((shutdown_timeout * 1000000)) ]; then
			verdict=noshutdown
			break
		fi
	done
fi
stop
if [ -z "$quiet" ]; then
	until news; do :; done
	[ -z "$partial" ] || printf '%s\n' "$partial"
fi

# --- the verdict ------------------------------------------------------------

grep -av "^$token " "$results" >"$run/out" || true
[ -z "$ktap" ] || cp "$run/out" "$ktap"
if [ -n "$log" ]; then
	cp "$console" "$log/console"
	cp "$run/out" "$log/results"
	[ ! -s "$run/qemu.log" ] || cp "$run/qemu.log" "$log/qemu.log"
fi

# in_scratch COMMAND: in the toolchain, at the top of the kernel's source; $1 is $scratch
# there.
in_scratch()
{
	# shellcheck disable=SC2016  # expanded there
	"$TOP/scripts/build" in "$flavour" bash -c 'set -- "$OUT/$0"; '"$1" "${scratch##*/}"
}

# write_junit CODE WHY: the results, and WHY if the run is red without a failed test.
write_junit()
{
	local why=()
	[ -n "$junit" ] || return 0
	[ "$1" = 0 ] || { [ "$1" = 1 ] && grep -qE '^ *not ok ' "$run/out"; } || why=(--why "$2")
	results junit "$run/out" "${why[@]}" >"$junit"
}

# decode: the oops with source lines, as far as this kernel's vmlinux is there.
decode()
{
	local first
	first=$(grep -anE -m 1 "$died|WARNING:|BUG:|KASAN|INFO:|unreferenced" "$console" | cut -d: -f1 || true)
	first=${first:-1}
	# Without the code dumps: decodecode prints a page for each.
	sed -n "$first,$((first + 80))p" "$console" | tr -d '\r' | grep -av ' Code: ' >"$run/splat"
	if [ -f "$(dirname "$kernel")/vmlinux" ] && [ "$kernel" = "$BUILD/out/$flavour/bzImage" ]; then
		# shellcheck disable=SC2016
		mkdir -p "$scratch" && cp "$run/splat" "$scratch/splat" &&
			in_scratch 'LLVM=1 scripts/decode_stacktrace.sh "$OUT/vmlinux" <"$1/splat"' 2>/dev/null && return
	fi
	cat "$run/splat"
}

# races: takes the headline off those of KCSAN's reports that vmtest/kcsan.known lists or that
# have no file of the series in them, and prints rows for all but the former. All of them move
# to the end of the console, decoded: decoding the output of SysRq l, which tests use, would
# take a quarter of an hour.
races()
{
	local all new other reports='/BUG: KCSAN: / { left = 200 } (left > 0) == want; /==========/ { left = 0 } { left-- }'
	all=$(grep -ac 'BUG: KCSAN: ' "$console") || return 0
	mkdir -p "$scratch"
	tr -d '\r' <"$console" | awk -v want=1 "$reports" >"$scratch/reports"
	# shellcheck disable=SC2016
	in_scratch 'LLVM=1 scripts/decode_stacktrace.sh "$OUT/vmlinux" <"$1/reports"' \
		>"$run/decoded" 2>/dev/null || return 0
	sed -n 's,^+++ b/,,p' "$TOP"/patches/*/*.patch >"$run/ours"
	results kcsan --ours "$run/ours" "$run/decoded" >"$run/judged" || return 0
	# A report that got lost must not count as none.
	[ "$(grep -acE 'BUG: KCSAN: |listed: |elsewhere: ' "$run/judged")" = "$all" ] || return 0
	awk -v want=0 "$reports" "$console" | cat - "$run/judged" >"$run/rest"
	mv "$run/rest" "$console"
	new=$(grep -ac 'BUG: KCSAN: ' "$console" || true)
	other=$(grep -ac 'elsewhere: ' "$run/judged" || true)
	say "kcsan: $all reports: $new failures, $other not listed and without a file of the series"
	[ $((new + other)) = 0 ] || results races "$run/decoded" >&2 || true
	[ -z "$log" ] || cp "$console" "$log/console"
}

fail()
{
	local code=$1
	judged=$code
	shift
	printf 'vmtest.sh: FAILED: %s\n' "$*" >&2
	write_junit "$code" "$*" || true
	[ "$code" = 1 ] || [ "$code" = 8 ] || {
		echo "--- console"
		if [ "$code" = 4 ] || [ "$code" = 5 ]; then decode; else tail -n 15 "$console"; fi
		[ ! -s "$run/qemu.log" ] || { echo "--- QEMU"; cat "$run/qemu.log"; }
	} >&2
	exit "$code"
}

if grep -aqE "$died" "$console"; then
	if [ -n "$expect_panic" ]; then
		if grep -aE "$expect_panic" "$console" >&2; then
			write_junit 0 || exit 2
			exit 0
		fi
		fail 10 "the kernel died, but not of: $expect_panic"
	fi
	fail 4 "the kernel died"
fi
[ -z "$expect_panic" ] || fail 10 "the kernel was expected to die of: $expect_panic"
case $verdict in
noboot)	fail 3 "the guest did not boot within $boot_timeout s (accel $accel)" ;;
lost)	fail 6 "the VM ended without a status line" ;;
silence) fail 7 "nothing was printed for $silence_timeout s" ;;
timeout) fail 7 "the command did not end within $test_timeout s" ;;
esac
[[ $flavour != *kcsan ]] || races
splats=$("$HERE/splats" "$console" "$flavour") || { echo "$splats" >&2; fail 5 "the kernel printed a splat (above)"; }
[ "$verdict" != noshutdown ] || fail 9 "the VM did not end within $shutdown_timeout s after its tests"
if grep -aqE '^K?TAP version' "$run/out" || [ -z "$shell${command[*]}" ]; then
	summary=$(results summary "$run/out") || { echo "$summary" >&2; fail 8 "the results are incomplete"; }
	now
	say "$(tail -n 1 <<<"$summary"), boot $boot_ms ms, all $(((now - started) / 1000)) ms"
	! grep -q '^fail' <<<"$summary" || fail 1 "$(grep -c '^fail' <<<"$summary") tests failed"
fi
[ "$status" = 0 ] || fail 1 "the command's exit status was $status"
write_junit 0 || exit 2
