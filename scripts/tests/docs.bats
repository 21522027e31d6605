#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# What README.md and doc/ show: commands, options, files, tests, messages and interfaces exist.

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
	| `bpf_file_build_id()` | kfunc | buildid | `bpf/task_vma.rst` |
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
	30: bpf_file_build_id(): buildid does not add it to bpf/task_vma.rst
	31: gone: not a series of patches/
	EOF
	[[ $output == *"bad.md: CONFIG_BUILD_ID_CACHE: the series add it, and the table of interfaces does not have it"* ]]
	[[ $output == *"bad.md: build_id_cache: the series add it"* ]]
	[ "$(grep -c '' <<<"$output")" -lt 40 ]
}
