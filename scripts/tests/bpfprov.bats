#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# bpfprov's makefile and bash completion, without a kernel tree and without building it.

setup()
{
	TOOL=$BATS_TEST_DIRNAME/../../tools/bpf/bpfprov
	cd "$BATS_TEST_TMPDIR" || return
}

# complete WORD...: the completions of the last word, sorted, a line each.
complete_words()
{
	# shellcheck disable=SC2016  # for the shell inside
	run bash -uc '
		. "$0/bash-completion"
		complete -p bpfprov >/dev/null
		compopt() { echo "$*" >>compopt; }
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		_bpfprov
		printf "%s\n" "${COMPREPLY[@]}" | sort -u' "$TOOL" "$@"
	[ "$status" = 0 ]
}

commands() { sed -n 's/^\t{ "\([a-z]*\)", cmd_.*/\1/p' "$TOOL/main.c"; }

# options COMMAND: its long options, and --help.
options()
{
	sed -n '/argp_option options\[\]/,/^};/s/^\t{ "\([a-z-]*\)",.*/--\1/p' "$TOOL/$1.c"
	echo --help
}

# make_tool ARG...: the commands that make would run. The stub stands for the kernel tree's.
make_tool()
{
	mkdir -p tree/tools/bpf tree/tools/scripts
	echo 'CLANG = true' >tree/tools/scripts/Makefile.include
	[ -d tree/tools/bpf/bpfprov ] || cp -r "$TOOL" tree/tools/bpf/bpfprov
	touch libbpf.a
	run env -u OUTPUT make -n -C tree/tools/bpf/bpfprov BPFPROV_VERSION=1 BPFTOOL=bpftool \
		BPFOBJ="$PWD/libbpf.a" BPF_INCLUDE=/usr/include "$@"
	[ "$status" = 0 ]
}

@test "completion: sourcing prints nothing" {
	run bash -euc '. "$0"' "$TOOL/bash-completion"
	[ "$status" = 0 ]
	[ -z "$output" ]
}

@test "completion: offers each command" {
	complete_words bpfprov ""
	[ "$output" = "$({ commands; echo --help; echo --version; } | sort)" ]
	[ "$(commands | wc -l)" -ge 5 ]
	complete_words bpfprov pro
	[ "$output" = profile ]
}

@test "completion: offers each option of each command" {
	local command
	for command in $(commands); do
		complete_words bpfprov "$command" --
		echo "$command: $output"
		[ "$output" = "$(options "$command" | sort)" ]
	done
}

@test "completion: offers the values of options" {
	complete_words bpfprov profile --format ""
	[ "$output" = $'folded\njson' ]
	touch out.folded
	complete_words bpfprov profile -o out
	[ "$output" = out.folded ]
	# bash quotes names: this one is not a command.
	touch 'a;id;'
	complete_words bpfprov profile -o a
	[ "$output" = 'a;id;' ]
	[ "$(cat compopt)" = $'-o filenames\n-o filenames' ]
	complete_words bpfprov profile --pid $$
	grep -qx $$ <<<"$output"
	complete_words bpfprov profile -F ""
	[ -z "$output" ]
}

@test "makefile: OUTPUT with and without a slash, relative or absolute" {
	local out dir=$PWD/tree/tools/bpf/bpfprov
	mkdir -p out
	for out in "$PWD/out" "$PWD/out/"; do
		make_tool OUTPUT="$out"
		grep -q -- "-o $PWD/out/bpfprov\$" <<<"$output"
		grep -q -- "-o $PWD/out/main.o\$" <<<"$output"
		make_tool OUTPUT="$out" clean
		grep -q "rm -f.* $PWD/out/bpfprov\$" <<<"$output"
	done
	# As make -C reads it, in the directory of the makefile.
	mkdir -p "$dir/sub"
	make_tool OUTPUT=sub
	grep -q -- "-o $dir/sub/bpfprov\$" <<<"$output"
	make_tool
	grep -q -- "-o $dir/bpfprov\$" <<<"$output"
}

@test "makefile: installs the program, the manual page and the completion" {
	local dest=$PWD/dest
	make_tool DESTDIR="$dest" prefix=/usr install
	grep -q "bpfprov $dest/usr/sbin\$" <<<"$output"
	grep -q "bpfprov.8 $dest/usr/share/man/man8\$" <<<"$output"
	grep -q "bash-completion $dest/usr/share/bash-completion/completions/bpfprov\$" <<<"$output"
}
