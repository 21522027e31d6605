#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # expanded elsewhere
# scripts/build with the host's toolchain, whose tools are scripts.

load helper

setup()
{
	sandbox
	made_series
	fake_toolchain
	mkdir -p "$LINUX/scripts/kconfig"
	fake merge_config.sh 'cp "$5" "$4"'
	ln -s "$HOME/bin/merge_config.sh" "$LINUX/scripts/kconfig/"
	fake objcopy 'cp "${@: -2}"'
	# make KERNEL, which piggy.o includes
	fake make 'case "$*" in
	*--version*) echo "GNU Make 99.1" ;;
	*bzImage*) cd "$OUT" && mkdir -p arch/x86/boot/compressed && cd arch/x86/boot/compressed &&
		echo new kernel >vmlinux.bin.gz && echo "$PIGGY" >piggy.o ;;
	esac'
}

@test "build: an image with another kernel than vmlinux is refused" {
	export PIGGY="old kernel"
	run "$SCRIPTS/build" kernel series
	[ "$status" = 1 ]
	[[ $output == *"kernel series: bzImage has another kernel than vmlinux"* ]]
	[ ! -e "$BUILD/out/series/built" ]
	# The section may be longer than the kernel.
	PIGGY=$'new kernel\nand more' run "$SCRIPTS/build" kernel series
	[ "$status" = 0 ]
	[ -e "$BUILD/out/series/built" ]
}
