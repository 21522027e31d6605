#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # expanded elsewhere
# scripts/fetch and the host package check, with curl, apt-get and df replaced by
# scripts that print the lines that a test needs.

load helper

setup()
{
	sandbox
	tiny_kernel "$HOME/linux-7.3.4"
	base_file
	fake curl 'exit 7'
	fake update-ca-certificates 'exit 0'
	fake apt-get 'exit 100'
}

# kernel_org TARBALL [CHECKSUM]: files for curl.
kernel_org()
{
	local sum
	sum=${2:-$(sha256sum "$1" | cut -d' ' -f1)}
	fake curl "case \"\$*\" in
	*sha256sums.asc*) echo '$sum  linux-7.3.4.tar.xz' ;;
	*) while [ \"\$1\" != -o ]; do shift; done; cp '$1' \"\$2\" ;;
	esac"
}

# debian DIR VERSION: a package for apt-get; prints the tarball's checksum.
debian()
{
	mkdir -p "$HOME/deb/DEBIAN" "$HOME/deb/usr/src"
	as_tarball "$1" "$HOME/deb/usr/src/linux-source-7.3.tar.xz"
	printf 'Package: linux-source-7.3\nVersion: %s\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n' \
		"$2" >"$HOME/deb/DEBIAN/control"
	dpkg-deb -b "$HOME/deb" "$HOME/linux-source-7.3_${2}_all.deb" >/dev/null
	fake apt-get "case \"\$*\" in
	*indextargets*) echo http://mirror.invalid/debian ;;
	*download*) cp '$HOME/linux-source-7.3_${2}_all.deb' . ;;
	esac"
	sha256sum "$HOME/deb/usr/src/linux-source-7.3.tar.xz" | cut -d' ' -f1
}

@test "fetch: --help, and a wrong command" {
	run "$SCRIPTS/fetch" --help
	[ "$status" = 0 ]
	[[ $output == *"fetch source"* ]]
	run "$SCRIPTS/fetch" nothing
	[ "$status" = 2 ]
}

@test "fetch: a KERNEL that is not a kernel tree is refused in one line" {
	KERNEL=/nonexistent run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[[ $output == *"KERNEL=/nonexistent is not a kernel tree"* ]]
}

@test "fetch: KERNEL comes first, without its build and its repository" {
	touch "$HOME/linux-7.3.4/lib/a.o"
	mkdir "$HOME/linux-7.3.4/.git"
	KERNEL=$HOME/linux-7.3.4 run "$SCRIPTS/fetch" unpack "$HOME/out"
	[ "$status" = 0 ]
	[[ $output == *"KERNEL="*"version 7.3.4"* ]]
	[ -f "$HOME/out/lib/a.c" ]
	[ ! -e "$HOME/out/lib/a.o" ]
	[ ! -e "$HOME/out/.git" ]
}

@test "fetch: the cache comes before the network, and the origin is printed" {
	cached "$HOME/linux-7.3.4"
	run "$SCRIPTS/fetch" source
	[ "$status" = 0 ]
	[[ $output == *"cache, once taken from: a test"* ]]
}

@test "fetch: a damaged cache is fetched again, and not used if that fails" {
	cached "$HOME/linux-7.3.4"
	truncate -s 100 "$CACHE/linux-7.3.4.tar.xz"
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[[ $output == *"is damaged"*"no source for Linux 7.3.4"* ]]
	[ ! -e "$CACHE/linux-7.3.4.tar.xz" ]
	as_tarball "$HOME/linux-7.3.4" "$HOME/k.tar.xz"
	kernel_org "$HOME/k.tar.xz"
	run "$SCRIPTS/fetch" source
	[ "$status" = 0 ]
	[[ $output == *"kernel source: kernel.org"* ]]
}

@test "fetch: without a network, one line has the remedy" {
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[[ ${lines[-1]} == *"connect to a network, or name a tree with KERNEL="* ]]
	[ -z "$(find "$CACHE" -name 'fetch.*')" ]
}

@test "fetch: a wrong checksum, or a broken download, from kernel.org is refused" {
	as_tarball "$HOME/linux-7.3.4" "$HOME/k.tar.xz"
	kernel_org "$HOME/k.tar.xz" 0000
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[[ $output == *"wrong checksum"* ]]
	[ ! -e "$CACHE/linux-7.3.4.tar.xz" ]
	sum=$(sha256sum "$HOME/k.tar.xz" | cut -d' ' -f1)
	truncate -s 100 "$HOME/k.tar.xz"
	kernel_org "$HOME/k.tar.xz" "$sum"
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[ ! -e "$CACHE/linux-7.3.4.tar.xz" ]
}

@test "fetch: Debian's package that BASE pins" {
	command -v dpkg-deb || skip "no dpkg-deb"
	base_file "$(debian "$HOME/linux-7.3.4" 7.3.4-1)"
	run "$SCRIPTS/fetch" source
	[ "$status" = 0 ]
	[[ $output == *"kernel.org cannot be reached"*"Debian, linux-source-7.3 7.3.4-1"* ]]
	run "$SCRIPTS/fetch" source
	[[ $output == *"cache, once taken from: Debian"* ]]
}

@test "fetch: Debian's .gitignore does not hide new files" {
	cached "$HOME/linux-7.3.4"
	"$SCRIPTS/fetch" unpack "$HOME/out"
	[ "$(cat "$HOME/out/.gitignore")" = "*.o" ]
}

@test "fetch: a newer 7.3.x from Debian is used if every patch applies" {
	command -v dpkg-deb || skip "no dpkg-deb"
	made_series
	rm -rf "$CACHE"/linux-* "$BUILD"
	tiny_kernel "$HOME/linux-7.3.5" 7.3.5
	sed -i '1i int before;' "$HOME/linux-7.3.5/lib/a.c"
	debian "$HOME/linux-7.3.5" 7.3.5-1
	run "$SCRIPTS/series" tree
	[ "$status" = 0 ]
	[[ $output == *"Debian offers 7.3.5-1 instead of 7.3.4: every patch applies"* ]]
	grep -q "return 22" "$LINUX/lib/a.c"
	run "$SCRIPTS/series" check
	[ "$status" = 0 ]
	[[ $output == *"not the one that patches/ was made on"* ]]
	# But a patch that was edited is still found.
	sed -i 's/^Date: .*/Date: Thu, 1 Jan 2026 00:00:00 +0000 (by hand)/' "$PATCHES/series-a/lib-Return-22.patch"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
}

@test "fetch: another package of the same release from Debian is used, with a message" {
	command -v dpkg-deb || skip "no dpkg-deb"
	made_series
	rm -rf "$CACHE"/linux-* "$BUILD"
	sed -i '1i int before;' "$HOME/linux-7.3.4/lib/a.c"
	debian "$HOME/linux-7.3.4" 7.3.4-2
	run "$SCRIPTS/fetch" source
	[ "$status" = 0 ]
	[[ $output == *"7.3.4-2 is not the source that patches/BASE pins"*"every patch applies"* ]]
}

@test "fetch: a newer 7.3.x from Debian is refused if a patch does not apply" {
	command -v dpkg-deb || skip "no dpkg-deb"
	made_series
	rm -rf "$CACHE"/linux-* "$BUILD"
	tiny_kernel "$HOME/linux-7.3.5" 7.3.5
	sed -i 's/return 2;/return 0;/' "$HOME/linux-7.3.5/lib/a.c"
	debian "$HOME/linux-7.3.5" 7.3.5-1
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[[ $output == *"Debian offers 7.3.5-1, to which the series does not apply"*"series-a/lib-Return-22.patch"* ]]
}

@test "fetch: another series from Debian, or an older one, is refused" {
	command -v dpkg-deb || skip "no dpkg-deb"
	for v in 7.4.1 7.3.3; do
		tiny_kernel "$HOME/linux-$v" "$v"
		debian "$HOME/linux-$v" "$v-1"
		run "$SCRIPTS/fetch" source
		[ "$status" = 1 ]
		[[ $output == *"Debian offers $v, patches/BASE requires 7.3.4"* ]]
	done
}

@test "fetch: Debian's kernel: the newest, downloaded once" {
	local v dir
	mkdir -p "$HOME/deb/DEBIAN" "$HOME/deb/boot"
	for v in 6.12.9 6.12.107; do
		rm -f "$HOME"/deb/boot/*
		touch "$HOME/deb/boot/vmlinuz-$v"
		printf 'Package: linux-image-%s\nVersion: %s-1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n' \
			"$v-cloud" "$v" >"$HOME/deb/DEBIAN/control"
		dpkg-deb -b "$HOME/deb" "$HOME/linux-image-$v-cloud_$v-1_all.deb" >/dev/null
	done
	fake apt-get "case \"\$*\" in
	*indextargets*) echo http://mirror.invalid/debian ;;
	*download*linux-image-*) cp '$HOME'/linux-image-*.deb . ;;
	esac"
	run "$SCRIPTS/fetch" debian-kernel
	[ "$status" = 0 ]
	dir=${lines[-1]}
	[ "$(ls "$dir/boot")" = vmlinuz-6.12.107 ]
	fake apt-get 'exit 100'
	run "$SCRIPTS/fetch" debian-kernel
	[ "$status" = 0 ]
	[ "$output" = "$dir" ]
	rm -r "$dir"
	run "$SCRIPTS/fetch" debian-kernel
	[ "$status" = 1 ]
	[[ ${lines[-1]} == *"connect to a network"* ]]
}

@test "fetch: a full disk is reported before the work starts" {
	fake df 'printf "Filesystem 1M-blocks Used Available Use%% Mounted\n/dev/x 100 97 3 97%% /\n"'
	run "$SCRIPTS/fetch" source
	[ "$status" = 1 ]
	[[ $output == *"has 3 MiB free, 1000 MiB are needed"*"XDG_CACHE_HOME"* ]]
}

@test "fetch: an interrupted unpack does not count as complete" {
	cached "$HOME/linux-7.3.4"
	mkdir -p "$HOME/out.part/lib"
	echo half >"$HOME/out.part/lib/a.c"
	echo stale >"$HOME/out.part/stale"
	"$SCRIPTS/fetch" unpack "$HOME/out"
	[ ! -e "$HOME/out/stale" ]
	cmp "$HOME/out/lib/a.c" "$HOME/linux-7.3.4/lib/a.c"
}

@test "fetch: the toolchain is chosen by versions, not by the name of the distribution" {
	fake_toolchain
	fake pahole 'echo asked >>"$HOME/asked"; echo v99.1'
	run "$SCRIPTS/fetch" root
	[ "$status" = 0 ]
	[ "$output" = / ]
	run "$SCRIPTS/fetch" needs
	[[ $output == *"qemu-system-x86_64=qemu-system-x86" ]]
	# Remembered, until one of them is another.
	[ "$(cat "$HOME/asked")" = asked ]
	fake pahole 'echo v1.24'
	TOOLCHAIN=host run "$SCRIPTS/fetch" root
	[ "$status" = 1 ]
	[[ $output == *"the host lacks: pahole>=1.26"* ]]
	TOOLCHAIN=other run "$SCRIPTS/fetch" root
	[ "$status" = 1 ]
	# All that a root needs, in one answer.
	run "$SCRIPTS/fetch" needs
	[[ $output == *"bwrap=bubblewrap"*"mmdebstrap=mmdebstrap"* ]]
}

@test "fetch: a new root replaces those with other packages that were not used for 30 days" {
	local old=$CACHE/root-trixie-000000000000 recent=$CACHE/root-trixie-111111111111 herd=$CACHE/root-herdtools7 root
	mkdir -p "$HOME/empty" "$old/usr" "$recent" "$herd"
	touch -d '31 days ago' "$old/.complete" "$herd/.complete"
	touch -d '28 days ago' "$recent/.complete"
	fake bwrap 'exit 0'
	fake newuidmap 'exit 0'
	fake mmdebstrap "for f; do [[ \$f != *.tar ]] || tar -C '$HOME/empty' -cf \"\$f\" .; done"
	TOOLCHAIN=root run "$SCRIPTS/fetch" root
	[ "$status" = 0 ]
	[[ $output == *"removing $old, which was not used for 30 days"* ]]
	root=${lines[-1]}
	[ "$(printf '%s\n' "$CACHE"/root-*/.complete)" = "$(printf '%s/.complete\n' "$herd" "$recent" "$root" | sort)" ]
	[ ! -e "$old" ]
	# Each use counts.
	touch -d '31 days ago' "$root/.complete"
	TOOLCHAIN=root run "$SCRIPTS/fetch" root
	[ "$output" = "$root" ]
	[ -z "$(find "$root/.complete" -mtime +0)" ]
}

@test "need: missing packages are listed in one line that can be copied" {
	run env DEPS=no bash -c '. "$0/common.sh"; need no-such-command=some-package no-such-other=other-package' "$SCRIPTS"
	[ "$status" = 1 ]
	[[ $output == *"apt-get install -y --no-install-recommends some-package other-package" ]]
	[ "${#lines[@]}" = 1 ]
}

@test "need: as root they are announced and installed" {
	[ "$(id -u)" = 0 ] || skip "not root"
	fake apt-get "echo \"\$*\" >>'$HOME/apt.log'"
	run bash -c '. "$0/common.sh"; need no-such-command=some-package' "$SCRIPTS"
	[ "$status" = 0 ]
	[[ $output == *"installing host packages: some-package"* ]]
	grep -q "install -y --no-install-recommends some-package" "$HOME/apt.log"
}

@test "need: another process has a lock of apt" {
	[ "$(id -u)" = 0 ] || skip "not root"
	# Free at the third call; then an error that is not about a lock.
	fake apt-get "echo \"\$*\" >>'$HOME/apt.log'
		[ \$(grep -c update '$HOME/apt.log') -ge 3 ] || {
			echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)'
			echo 'E: Unable to lock directory /var/lib/apt/lists/'
			exit 100
		}
		[[ \$* != *gone* ]] || { echo 'E: Unable to locate package gone'; exit 100; }"
	run bash -c '. "$0/common.sh"; need no-such-command=some-package' "$SCRIPTS"
	[ "$status" = 0 ]
	[ "$(grep -c update "$HOME/apt.log")" = 3 ]
	[ "$(grep -c install "$HOME/apt.log")" = 1 ]
	run bash -c '. "$0/common.sh"; need no-such-command=gone' "$SCRIPTS"
	[ "$status" = 1 ]
	[ "$(grep -c install "$HOME/apt.log")" = 2 ]
	rm "$HOME/apt.log"
	run env APT_SECONDS=0 bash -c '. "$0/common.sh"; need no-such-command=some-package' "$SCRIPTS"
	[ "$status" = 1 ]
	[ "$(grep -c update "$HOME/apt.log")" = 1 ]
}
