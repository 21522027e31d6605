# SPDX-License-Identifier: GPL-2.0
# A synthetic kernel of four files and a series of three patches in two series.
# shellcheck shell=bash

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The scripts write everything below the test's own directory.
sandbox()
{
	unset KERNEL TOOLCHAIN
	PATCHES="$BATS_TEST_TMPDIR/patches,a&b" COPIES=$BATS_TEST_TMPDIR
	export HOME=$BATS_TEST_TMPDIR BPFPROV_PATCHES=$PATCHES BPFPROV_COPIES=$COPIES
	export BUILD=$BATS_TEST_TMPDIR/build CACHE=$BATS_TEST_TMPDIR/cache
	export LINUX=$BUILD/linux
	export GIT_CONFIG_GLOBAL=/dev/null
	mkdir -p "$PATCHES" "$CACHE"
}

# fake COMMAND SCRIPT: in front of the real one.
fake()
{
	mkdir -p "$HOME/bin"
	[[ :$PATH: == *":$HOME/bin:"* ]] || PATH=$HOME/bin:$PATH
	printf '#!/bin/bash\n%s\n' "$2" >"$HOME/bin/$1"
	chmod +x "$HOME/bin/$1"
}

# fake_toolchain: tools of the host that are recent enough.
fake_toolchain()
{
	local tool
	for tool in gcc clang pahole bison flex make bc cpio ld.lld llvm-ar llvm-nm llvm-objcopy llvm-strip \
		    openssl pkg-config python3 rsync xz ip mkfs.ext4 mkfs.xfs; do
		fake $tool 'echo "tool version 99.1.0"'
	done
}

# common FUNCTION ARGS...: one of common.sh's.
common()
{
	# shellcheck disable=SC2016
	bash -c '. "$0/common.sh"; "$@"' "$SCRIPTS" "$@"
}

# tiny_kernel DIR [VERSION]
tiny_kernel()
{
	local v=${2:-7.3.4}
	mkdir -p "$1/lib" "$1/tools/testing/selftests"
	printf '# Makefile\nVERSION = %s\nPATCHLEVEL = %s\nSUBLEVEL = %s\n' \
		"$(cut -d. -f1 <<<"$v")" "$(cut -d. -f2 <<<"$v")" "$(cut -d. -f3 <<<"$v")" >"$1/Makefile"
	echo "obj-y += lib/" >"$1/Kbuild"
	printf '*.[ch] diff=cpp\n' >"$1/.gitattributes"
	printf '*.o\n\n#\n# Debian packaging: ignore all\n#\n/*\n!/debian/\n' >"$1/.gitignore"
	printf 'int f%d(void)\n{\n\treturn %d;\n}\n\n' 1 1 2 2 3 3 4 4 5 5 6 6 >"$1/lib/a.c"
	printf 'int g(void)\n{\n\treturn 0;\n}\n' >"$1/lib/b.c"
	printf 'Maintainers List\n\n' >"$1/MAINTAINERS"
}

# as_tarball DIR OUT: the way kernel.org and Debian pack it.
as_tarball() { tar -C "$(dirname "$1")" -cJf "$2" "$(basename "$1")"; }

# cached DIR: DIR as the source in the cache.
cached()
{
	as_tarball "$1" "$CACHE/linux-7.3.4.tar.xz"
	sha256sum "$CACHE/linux-7.3.4.tar.xz" | cut -d' ' -f1 >"$CACHE/linux-7.3.4.tar.xz.sha256"
	echo "a test" >"$CACHE/linux-7.3.4.tar.xz.from"
}

# shellcheck disable=SC2120
base_file()
{
	cat >"$PATCHES/BASE" <<-EOF
	version=7.3.4
	tarball_url=https://kernel.invalid/linux-7.3.4.tar.xz
	tarball_sums_url=https://kernel.invalid/sha256sums.asc
	debian_suite=test
	debian_package=linux-source-7.3
	debian_sha256=${1:-0}
	EOF
	touch "$PATCHES/series"
}

# commit SUBJECT: everything in build/linux, as the series' author.
commit()
{
	git -C "$LINUX" add -A
	git -C "$LINUX" -c user.name="bpf-provenance developers" \
		-c user.email=devel@bpf-provenance.invalid commit -q -m "$1" -m "Because."
}

# made_series: a tree, three patches, exported.
made_series()
{
	tiny_kernel "$BATS_TEST_TMPDIR/linux-7.3.4"
	cached "$BATS_TEST_TMPDIR/linux-7.3.4"
	# shellcheck disable=SC2119
	base_file
	"$SCRIPTS/series" tree
	mkdir -p "$LINUX/tools/testing/selftests/t"
	echo "int main(void) { return 0; }" >"$LINUX/tools/testing/selftests/t/t.c"
	commit "selftests/t: Add a test"
	"$SCRIPTS/series" export --series selftests
	sed -i 's/return 2/return 22/' "$LINUX/lib/a.c"
	commit "lib: Return 22"
	echo "int new;" >"$LINUX/lib/new.c"
	printf 'NEW\nM:\tbpf-provenance developers <devel@bpf-provenance.invalid>\nF:\tlib/new.c\n' |
		tee "$COPIES/MAINTAINERS" >>"$LINUX/MAINTAINERS"
	commit "lib: Add new.c"
	"$SCRIPTS/series" export --series series-a
	described selftests
	described series-a selftests
}

# described NAME [DEPENDS...]: its header and cover letter.
described()
{
	printf 'tree: bpf\ncc: net\ndepends:%s\n' "${*:2}" >"$PATCHES/$1/header"
	printf '# lib: one thing\n\nIt does 1 thing: https://lists.invalid/thread\n' >"$PATCHES/$1/cover.md"
}

# sums: of everything that an export writes.
sums() { (cd "$COPIES" && find patches kernel tools selftests -type f 2>/dev/null | sort | xargs sha256sum); }
