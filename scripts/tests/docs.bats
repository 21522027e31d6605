#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016  # for the scripts that are written
# Commands, options, files, tests, messages and interfaces in README.md and doc/ exist.

# bats file_tags=quick

setup_file()
{
	# shellcheck source=scripts/common.sh
	. "$BATS_TEST_DIRNAME/../common.sh"
	export TOP toolchain_root=${toolchain_root:-$("$TOP/scripts/fetch" root)}
	export -f in_toolchain
	export HELP=$BATS_FILE_TMPDIR/help
	mkdir "$HELP"
	cd "$TOP" || return
	local script
	while read -r script; do
		if [ -x "$script" ] && [ ! -d "$script" ]; then
			"$script" --help >"$HELP/${script##*/}"
		fi
	done < <(grep -ohE '(scripts|vmtest|\.ci)/[a-z_.-]*[a-z]' README.md doc/*.md | sort -u; echo scripts/mail)
}

# docs FILE...
docs() { run in_toolchain python3 -BEs "$BATS_TEST_DIRNAME/docs.py" "$TOP" "$HELP" "$@"; }

@test "docs: everything that README.md and doc/ show exists" {
	docs "$TOP"/README.md "$TOP"/doc/*.md
	echo "$output"
	[ "$status" = 0 ]
	[ -z "$output" ]
}

@test "docs: every script has --help, and refuses an unknown option with 2" {
	local script n=0
	for script in "$TOP"/{.ci/run,scripts/*,vmtest/vmtest.sh,vmtest/splats}; do
		[ -f "$script" ] && [ -x "$script" ] || continue
		run "$script" --help
		[ "$status" = 0 ]
		[ "${#lines[@]}" -ge 2 ]
		run "$script" --no-such-option
		echo "$script: $status"
		[ "$status" = 2 ]
		n=$((n + 1))
	done
	[ "$n" -gt 15 ]
}

# commands: those that README.md and doc/ show, with their row of docs.commands, if there is one.
commands()
{
	local command regex what row
	in_toolchain python3 -BEs "$BATS_TEST_DIRNAME/docs.py" --commands "$TOP"/README.md "$TOP"/doc/*.md |
	while IFS= read -r command; do
		row=none$'\t'
		while IFS=$'\t' read -r regex what; do
			[[ ! $command =~ ^($regex)$ ]] || { row=$regex$'\t'$what; break; }
		done < <(grep -v '^#' "$BATS_TEST_DIRNAME/docs.commands")
		printf '%s\t%s\n' "$command" "$row"
	done
}

@test "docs: every command is run, here or in a guest, or docs.commands has the reason why not" {
	commands >"$BATS_TEST_TMPDIR/commands"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/commands")" -gt 50 ]
	run awk -F '\t' '$3 == ""' "$BATS_TEST_TMPDIR/commands"
	echo "$output"
	[ -z "$output" ]
	# And no row is left of a command that is not shown any more.
	run diff <(grep -v '^#' "$BATS_TEST_DIRNAME/docs.commands" | cut -f1 | sort) <(cut -f2 "$BATS_TEST_TMPDIR/commands" | sort -u)
	echo "$output"
	[ "$status" = 0 ]
}

# A tree with the files of base that the series touches, and a copy of this checkout.
# bats test_tags=slow
@test "docs: the commands to change, apply and send patches work as they are shown" {
	local linux=${BUILD:-$TOP/build}/linux dir=$BATS_TEST_TMPDIR tree f
	local -A seen=()
	git -C "$linux" rev-parse -q --verify base >/dev/null || skip "there is no build/linux: scripts/series tree"
	mkdir -p "$dir"/{repo,linux,home}
	cp -r "$TOP"/{Makefile,MAINTAINERS,README.md,doc,kernel,patches,scripts,selftests,tools,vmtest} "$dir/repo"
	mapfile -t f < <({ printf '%s\n' Makefile Kbuild .gitignore .gitattributes scripts/get_maintainer.pl
		sed -n 's/^file //p' "$TOP/vmtest/mutants"
		cat "$TOP"/patches/*/*.patch | sed -n 's,^diff --git a/\(.*\) b/.*,\1,p'; } | sort -u |
		xargs -rd '\n' git -C "$linux" ls-tree -r --name-only base --)
	git -C "$linux" archive base "${f[@]}" | tar -C "$dir/linux" -xf -
	cp -r "$dir/linux" "$dir/source"
	cp -r "$dir/linux" "$dir/newer"
	sed -i 's/^SUBLEVEL = .*/SUBLEVEL = 99/' "$dir/newer/Makefile"
	for tree in linux net; do
		[ -d "$dir/$tree" ] || cp -r "$dir/linux" "$dir/$tree"
		rm -rf "$dir/$tree/.git"
		git -C "$dir/$tree" init -q
		git -C "$dir/$tree" config user.name x
		git -C "$dir/$tree" config user.email x@example.org
		git -C "$dir/$tree" add -Af .
		git -C "$dir/$tree" commit -q -m base
		git -C "$dir/$tree" tag v7.3.4
	done
	# Without these, get_maintainer.pl does not take it for a kernel tree.
	mkdir -p "$dir"/net/{Documentation,arch,include,drivers,fs,init,ipc,kernel,lib,scripts}
	touch "$dir"/net/{COPYING,CREDITS,README}
	# COMMIT is the last one that touches the file which was edited.
	{
		printf '%s\n' 'set -eu' 'edit() { echo "/* edited */" >>"$1"; }'
		commands | awk -F '\t' '$3 == "run" { print $1 }' | while IFS= read -r f; do
			# Once is enough of those that take long.
			[[ $f != scripts/* || -z ${seen[$f]:-} ]] || continue
			seen[$f]=1
			printf 'echo "\$ %s"\n' "${f//\$/\\$}"
			case $f in
			*'commit --fixup=COMMIT FILE'*) echo "edit net/core/filter.c" ;;
			esac
			sed -E -e 's/\bFILE\b/net\/core\/filter.c/' \
				-e 's/fixup=COMMIT/fixup=$(git log -1 --format=%h -- net\/core\/filter.c)/' \
				-e "s,/path/to/newer/linux,$dir/newer,; s,/path/to/linux,$dir/linux,; s,~/net,$dir/net," <<<"$f"
		done
	} >"$dir/script"
	grep -q '^make export' "$dir/script"
	run env -u BUILD -u PATCHES HOME="$dir/home" XDG_CACHE_HOME="${XDG_CACHE_HOME:-$HOME/.cache}" DEPS=no \
		KERNEL="$dir/source" GIT_SEQUENCE_EDITOR=true GIT_EDITOR=true bash -c 'cd "$1" && . "$2"' - "$dir/repo" "$dir/script"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"$dir/linux (Linux "*" patches applied"*"patches apply without fuzz"* ]]
	[ "$(grep -c '^+/\* edited \*/' "$dir"/repo/patches/*/*.patch | awk -F: '{ n += $2 } END { print n }')" = 1 ]
}

# guest_docs: the commands of $BATS_TEST_TMPDIR/guest.md by vmtest/guest-docs, on this machine.
guest_docs()
{
	in_toolchain python3 -BEs "$BATS_TEST_DIRNAME/docs.py" --guest "$BATS_TEST_DIRNAME/docs.commands" \
		"$BATS_TEST_TMPDIR/guest.md" >"$BATS_TEST_TMPDIR/file"
	run env PATH="$BATS_TEST_TMPDIR:$PATH" "$TOP/vmtest/guest-docs" "$BATS_TEST_TMPDIR/file"
}

@test "docs: the commands for the guest must print the output of the document" {
	local was fault n=0
	cat >"$BATS_TEST_TMPDIR/guest.md" <<-'EOF'
	`bpfprov features` and `bpfprov events` are named, `bpfprov maps` is not run.

	    # bpfprov profile -o out
	    bpfprov profile: sampling 2 CPUs at 99 Hz, by a timer: the processor has no cycle counter
	    bpfprov profile:    40.5 % of user frames: symbolized
	    bpfprov profile:     0.1 % of user frames: not mapped: no frame pointers
	    bpfprov profile: build IDs: 3 taken
	    # bpfprov maps $(echo 1) | head -1
	    1000-20ff r-xp [heap]

	    # bpfprov events                 # of others
	    listening
	    1.5 load bpf_prog_13b5_a
	    ^C36 events, 0 lost
	EOF
	cat >"$BATS_TEST_TMPDIR/bpfprov" <<-'EOF'
	#!/bin/bash
	case $* in
	features) ;;
	"profile -o out")
		echo "bpfprov profile: sampling 64 CPUs at 99 Hz"
		echo "bpfprov profile: 100.0 % of user frames: symbolized"	# not mapped: no frame pointers
		echo "bpfprov profile: build IDs: 0 taken"
		echo "a;b 1" >out ;;
	"maps 1") printf '%s\n' "ab-cd r-xp [heap]" more ;;
	events)
		exec python3 -c '
	import os, signal
	def end(*_):
	    os.write(1, b"1 events, 0 lost\n")
	    os._exit(0)
	signal.signal(signal.SIGINT, end)
	os.write(1, b"listening\n7.25 load bpf_prog_77aa_a\n8.25 unload\n")
	signal.pause()' ;;
	"profile -d 1") exit 1 ;;
	esac
	EOF
	chmod +x "$BATS_TEST_TMPDIR/bpfprov"
	guest_docs
	echo "$output"
	[ "$status" = 0 ]
	[ "$(in_toolchain python3 -BEs "$TOP/vmtest/results.py" summary - <<<"$output" | grep -c ^pass)" = 4 ]
	was=$(<"$BATS_TEST_TMPDIR/bpfprov")
	while IFS=$'\t' read -r sed fault; do
		sed "$sed" <<<"$was" >"$BATS_TEST_TMPDIR/bpfprov"
		guest_docs
		echo "$fault: $output"
		[ "$status" = 1 ]
		[[ $output == *"$fault"* ]]
		[ "$(grep -c '^not ok' <<<"$output")" = 1 ]
		n=$((n + 1))
	done <<-'EOF'
	s/features) /&exit 3 /	exit status 3
	s/features) /&echo "reduced: x" /	a feature is missing
	s/at 99 Hz/&, twice/	no line, or not in this order: bpfprov profile: sampling
	s/: no frame pointers//	bpfprov does not have: bpfprov profile:
	s/a;b 1/a/	no stacks in out
	s/ab-cd/abcd/	no line, or not in this order: [0-9a-f]+-
	s/listening/gone/; s/pause/getpid/	no line, or not in this order: listening
	s/_77aa_a/_77aa_b/; s/pause/getpid/	no line, or not in this order: [0-9a-f]+\.[0-9a-f]+ load
	s/exit(0)/exit(1)/	exit status 1
	EOF
	[ $n = 9 ]
}

@test "docs: the counts of make run in README.md are those of all rows of vmtest/expect.base" {
	[ "$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 + \2 + \3/p' "$TOP/README.md" | xargs expr)" = \
		"$(grep -vc '^#' "$TOP/vmtest/expect.base")" ]
}

@test "docs: README.md has at most 6 KB" {
	[ "$(wc -c <"$TOP/README.md")" -le 6144 ]
}

@test "docs: each kind of fault is found" {
	cat >"$BATS_TEST_TMPDIR/bad.md" <<-'EOF'
	[gone](gone.md), `vmtest/gone`, `make gone` and `scripts/series gone`

	    make run GONE=1 && scripts/gone
	    scripts/series tree --gone          # --base-only
	    scripts/series export --force       # of another subcommand
	    scripts/series mail buildid --tree DIR -v2 --gone
	    scripts/ci run gone
	    vmtest/vmtest.sh --gone -f gone -t contexts,contexts.gone -- uname --gone
	    bpfprov maps 1 --gone | gone
	    make -C tools/testing/selftests TARGETS=gone

	    # bpfprov gone
	    this is output

	```
	contexts.contexts.nmi_on_user_task   fail   pass   gone
	```

	| message | reason |
	|---|---|
	| `this is printed by no script` | `missing host packages` |

	| flavour | kernel |
	|---|---|
	| `gone` | `series` |

	| interface | kind | series | documentation |
	|---|---|---|---|
	| `bpf_gone()` | kfunc | buildid | `bpf/kfuncs.rst` |
	| `bpf_file_build_id()` | kfunc | buildid | [task_vma](kernel/Documentation/bpf/task_vma.rst) |
	| `bpf_task_vma_query()` | kfunc | gone | |
	EOF
	docs "$BATS_TEST_TMPDIR/bad.md"
	echo "$output"
	[ "$status" = 1 ]
	local fault
	while read -r fault; do
		[[ $output == *"bad.md:$fault"* ]] || { echo "not found: $fault"; false; }
	done <<-'EOF'
	1: link to gone.md: does not exist
	1: vmtest/gone: does not exist
	1: make gone: the Makefile does not have this target
	1: scripts/series gone: --help does not have this
	3: GONE=: neither the Makefile nor vmtest.sh has it
	3: scripts/gone: does not exist
	4: scripts/series tree --gone: --help does not have this option
	5: scripts/series export --force: --help does not have this option
	6: scripts/series mail --gone: --help does not have this option
	7: scripts/ci gone: --help does not have this
	8: vmtest/vmtest.sh --gone: --help does not have this option
	8: -f gone: vmtest/kconfig does not have this flavour
	8: contexts.gone: vmtest/expect.base does not have this test
	9: bpfprov maps --gone: not an option of this command
	9: gone: not a program that this test can check
	10: TARGETS=gone: there is no selftests/gone
	12: bpfprov gone: not a command of bpfprov
	16: contexts.contexts.nmi_on_user_task: vmtest/expect.base has pass
	21: 'this is printed by no script': no script prints this
	25: -f gone: vmtest/kconfig does not have this flavour
	29: bpf_gone(): the patches of buildid do not add it
	30: bpf_file_build_id(): buildid does not add it to Documentation/bpf/task_vma.rst
	31: gone: not a series of patches/
	EOF
	[[ $output == *"bad.md: CONFIG_BUILD_ID_CACHE: the series add it, and the table of interfaces does not have it"* ]]
	[[ $output == *"bad.md: build_id_cache: the series add it"* ]]
	[ "$(grep -c '' <<<"$output")" -lt 40 ]
}
