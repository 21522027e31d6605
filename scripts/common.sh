# SPDX-License-Identifier: GPL-2.0
# Sourced by every script here: places, messages, host packages.
# shellcheck shell=bash

# A hook runs with git's variables set, which would redirect every git below.
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars 2>/dev/null)
# Drop the options of a calling make (make BUILD=DIR): child makes must not get them.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
[[ :$PATH: == *:/usr/sbin:/sbin:* ]] || PATH=$PATH:/usr/sbin:/sbin
# cd prints with it; in some locales the clock has a comma, and sort another order.
unset CDPATH
export LC_ALL=C.UTF-8
# bash 5.2: in ${list[@]/#/$PATCHES/}, an & in the path is not the matched text.
shopt -u patsub_replacement 2>/dev/null || true
# Without this, a child that handles Ctrl-C itself would not stop the script.
trap 'exit 130' INT

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The tests of the scripts point these at synthetic trees.
PATCHES=${BPFPROV_PATCHES:-$TOP/patches}
BUILD=$(realpath -m "${BUILD:-$TOP/build}")
CACHE=$(realpath -m "${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bpf-provenance}")
# shellcheck disable=SC2034  # for the scripts that source this
LINUX=$BUILD/linux
# shellcheck disable=SC2034
JOBS=$(nproc)
# In the source of each test program that prints KTAP.
# shellcheck disable=SC2034  # for the scripts that source this file
HARNESS='^TEST_HARNESS_MAIN|test_harness_run'

# One clock for a script and those that it calls.
export BPFPROV_START=${BPFPROV_START:-$EPOCHSECONDS}

say()  { printf '[%4ds] %s\n' $((EPOCHSECONDS - BPFPROV_START)) "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die()  { printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# with_progress DESCRIBE CMD...: runs CMD. While it runs, a line every 15 s has the output of
# the function DESCRIBE, which can use the local variables of the caller. PROGRESS_SECONDS: for
# the tests.
with_progress()
{
	local describe=$1 printer rc=0 ended
	shift
	# A pipe: read waits without a process that would outlive this one.
	exec {ended}<> <(:)
	# The locks of the calling script must not outlive it.
	while kill -0 $$ 2>/dev/null; do
		! read -r -t "${PROGRESS_SECONDS:-15}" -u "$ended" || break
		say "  ... $("$describe" 2>/dev/null || true)"
	done >/dev/null 5>&- 6>&- 7>&- 8>&- 9>&- &
	printer=$!
	"$@" {ended}<&- || rc=$?
	# Not a signal: a process that has just begun still has the EXIT trap of this one. Twice:
	# read loses a character that arrives when its time is over.
	printf '\n\n' >&"$ended"
	wait $printer 2>/dev/null || true
	exec {ended}<&-
	return $rc
}

# logged LOG CMD...: CMD with its output in LOG.
logged() { "${@:2}" >"$1" 2>&1; }

# stdout_to FILE CMD...
stdout_to() { "${@:2}" >"$1"; }

# shellcheck disable=SC2154  # the caller's
# elapsed: the seconds since $begun, of $seconds where that is set.
elapsed() { echo "$((SECONDS - begun))${seconds:+ of $seconds} s"; }

# unpacked: the top directories in $part, of some 25.
unpacked() { echo "$(find "$part" -mindepth 1 -maxdepth 1 -type d | wc -l) top directories unpacked"; }

# usage: prints the comment block at the top of the calling script.
usage() { sed -n '3,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

# base_value KEY: one value of patches/BASE.
base_value()
{
	local v
	[ -r "$PATCHES/BASE" ] || die "no $PATCHES/BASE: run from a complete checkout"
	v=$(sed -n "s/^$1=//p" "$PATCHES/BASE")
	printf '%s' "$v"
}

# kernel_version DIR: 7.3.4, or nothing when DIR is not a kernel tree.
kernel_version()
{
	[ -f "$1/Kbuild" ] && [ -f "$1/Makefile" ] || return 0
	version_of <"$1/Makefile"
}

# version_of <MAKEFILE
version_of() { sed -n 's/^\(VERSION\|PATCHLEVEL\|SUBLEVEL\) = *//p' | head -n 3 | paste -sd.; }

# git without the user's or the machine's configuration: an export must
# not depend on diff.noprefix, format.* or an alias.
plain_git()
{
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
	GIT_COMMITTER_NAME="bpf-provenance developers" \
	GIT_COMMITTER_EMAIL="devel@bpf-provenance.invalid" \
		git -c core.autocrlf=false -c gc.auto=0 -c advice.detachedHead=false "$@"
}

# own_build: makes BUILD. Scripts remove files there by name, so it must be the default, or be
# empty when it is first used.
own_build()
{
	[ "$BUILD" = "$(realpath -m "$TOP/build")" ] || [ -e "$BUILD/.bpf-provenance" ] ||
			[ -e "$LINUX/.git/series-source" ] || {
		[ -z "$(ls -A "$BUILD" 2>/dev/null)" ] ||
			die "BUILD=$BUILD has files that these scripts have not made: use an empty directory"
		mkdir -p "$BUILD" && touch "$BUILD/.bpf-provenance"
	} || die "cannot create $BUILD"
	mkdir -p "$BUILD"
}

# worktree DIR COMMIT: make DIR a worktree of build/linux. COMMIT is checked out only if it is
# created.
worktree()
{
	local part=$1.part
	if [ ! -d "$(sed -n 's/^gitdir: //p' "$1/.git" 2>/dev/null || true)" ]; then
		rm -rf "$1" "$part"
		plain_git -C "$LINUX" worktree prune
		with_progress unpacked plain_git -C "$LINUX" worktree add -q --detach "$part" "$2" || return
		plain_git -C "$LINUX" worktree move "$part" "$1"
	fi
}

# fingerprint DIR [PATHSPEC...]: of the tracked and new files in DIR, as they are in the
# working tree; a new commit with the same content does not change it.
fingerprint()
{
	local d=$1
	shift
	[ $# -gt 0 ] || set -- .
	{
		git -C "$d" ls-files -s -- "$@"
		git -C "$d" diff --binary -- "$@"
		git -C "$d" ls-files -o --exclude-standard -z -- "$@" |
			(cd "$d" && xargs -0r sha256sum)
	} | sha256sum | cut -d' ' -f1
}

# in_toolchain CMD...: with the toolchain's programs and libraries, and all files of this
# machine at their places. Unlike scripts/build in, it needs no kernel tree.
in_toolchain()
{
	[ -n "${toolchain_root:-}" ] || toolchain_root=$("$TOP/scripts/fetch" root) || return
	if [ "$toolchain_root" = / ]; then
		"$@"
	else
		bwrap --die-with-parent --dev-bind / / --ro-bind "$toolchain_root/usr" /usr \
			--setenv PATH /usr/sbin:/usr/bin "$@"
	fi
}

# results COMMAND...: of vmtest/results.py.
results() { in_toolchain python3 -BEs "$TOP/vmtest/results.py" "$@"; }

# need COMMAND=PACKAGE...: makes sure that each command exists.  As root on a
# Debian-like machine missing packages are announced and installed, unless
# DEPS=no; otherwise they are listed in one line that can be copied.
need()
{
	local want missing=() install log=$BUILD/log/apt.log
	for want in "$@"; do
		command -v "${want%%=*}" >/dev/null || missing+=("${want#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	install="install -y --no-install-recommends ${missing[*]}"
	if [ "${DEPS:-}" = no ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		die "missing host packages; as root on Debian: apt-get $install"
	fi
	say "installing host packages: ${missing[*]} (DEPS=no refuses)"
	own_build
	mkdir -p "$BUILD/log"
	# shellcheck disable=SC2086  # words on purpose
	with_progress installed logged "$log" apt_install $install ||
		die "apt-get failed, see $log; by hand: apt-get update && apt-get $install"
}

apt_install() { apt_get update && apt_get "$@"; }

# apt_get ARG...: its output goes to $log. While another process has a lock of apt, as Debian's timer
# does on a new machine, it tries again: apt itself waits only for the lock of dpkg.
apt_get()
{
	local timeout=${APT_SECONDS:-300} end
	end=$((SECONDS + timeout))
	until DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout="$timeout" "$@"; do
		tail -n 5 "$log" | grep -q '^E: Could not get lock' && [ $SECONDS -lt $end ] || return
		sleep 1
	done
}

# installed: the progress of apt and dpkg, by their output in $log.
installed()
{
	awk '/^Get:/ { got++ }
	     /^Unpacking / { unpacked++ }
	     /^Setting up / { set_up++ }
	     / newly installed/ { for (i = 2; i <= NF; i++) if ($i == "newly") all += $(i - 1) }
	     /^I: / { stage = substr($0, 4) " " }
	     END { printf "%s%d packages, %d downloaded, %d unpacked, %d set up\n",
			stage, all, got, unpacked, set_up }' "$log"
}

# need_space DIR MIB: reports a full disk before the work instead of in a broken build.
need_space()
{
	local free
	mkdir -p "$1" || die "cannot create $1"
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] ||
		die "$1 has $free MiB free, $2 MiB are needed: free some, or set ${3:-BUILD} to another disk"
}
