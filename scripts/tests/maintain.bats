#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# scripts/series rebase and mail on a synthetic tree, and bisect with stubs for build and
# boot; style needs a kernel and is run on the real one.

load helper

setup() { sandbox; }

# maintainer_tree DIR: a git tree with a history, and get_maintainer.pl.
maintainer_tree()
{
	tiny_kernel "$1"
	mkdir "$1/scripts"
	cat >"$1/scripts/get_maintainer.pl" <<-'EOF'
		#!/bin/sh
		echo '"A Maintainer" <a@maintainer.invalid> (maintainer:LIB)'
		echo '"A Reviewer (Company)" <r@reviewer.invalid> (reviewer:LIB [CORE] (all of it))'
		echo 'list@lists.invalid (open list:LIB [CORE] (all of it))'
	EOF
	chmod +x "$1/scripts/get_maintainer.pl"
	git -C "$1" init -q
	git -C "$1" config user.name "A Sender"
	git -C "$1" config user.email sender@example.org
	git -C "$1" add -Af .
	git -C "$1" commit -q -m "their tree"
	git -C "$1" tag v7.3.4
}

# stubs: copies of the scripts beside stubs, which log their calls. A file
# with BROKEN in it does not compile, one with WARN does with a warning.
stubs()
{
	local repo=$HOME/repo
	mkdir -p "$repo"/{scripts,vmtest/kconfig}
	cp "$SCRIPTS"/{common.sh,patches.sh,tree.sh,series,bisect} "$repo/scripts/"
	touch "$repo"/vmtest/kconfig/{common,bisect}.config "$HOME/version"
	echo "# what it is" >"$CACHE/bisected"
	cat >"$repo/scripts/build" <<-'EOF'
	#!/bin/bash
	cd "$BUILD/bisect" || exit
	case "$*" in
	kernel*)
		git log -1 --format=%s >>"$HOME/asked"
		mkdir -p "$BUILD/out/bisect/lib"
		for f in lib/*.c; do
			! grep -q BROKEN "$f" || exit 1
			touch "$BUILD/out/bisect/${f%.c}.o"
		done
		git rev-parse HEAD: >"$BUILD/out/bisect/built"
		;;
	*--version*)
		cat "$HOME/version"
		;;
	in*W=1*)
		[ ! -e "$HOME/nomake" ] || { cat "$HOME/nomake"; exit 2; }
		grep -n WARN lib/*.c | sed 's/:.*/:1: warning: WARN/'
		if [ -e lib/fault.c ] && [ ! -e "$HOME/nosparse" ]; then
			echo "lib/fault.c:1:5: warning: symbol 'fault' was not declared. Should it be static?"
			echo "lib/fault.c:2:5: warning: no previous prototype for 'fault2' [-Wmissing-prototypes]"
		fi
		;;
	*)	echo "$1" >>"$HOME/asked" ;;
	esac
	exit 0
	EOF
	printf '#!/bin/sh\necho tcg\n' >"$repo/vmtest/vmtest.sh"
	chmod +x "$repo"/{scripts/build,vmtest/vmtest.sh}
	mkdir -p "$LINUX/tools/testing/selftests/bpf_provenance"
	touch "$LINUX/tools/testing/selftests/bpf_provenance/config"
	commit "selftests/bpf_provenance: Add a config"
}

# bisect [FIRST [LAST]]: the subjects that it tests are in $asked, between commas.
bisect()
{
	rm -f "$HOME/asked"
	run "$HOME/repo/scripts/series" bisect "$@"
	asked=$(paste -sd, "$HOME/asked" 2>/dev/null || true)
}

# series_test: the series that are built are in $asked.
series_test()
{
	rm -f "$HOME/asked"
	run "$HOME/repo/scripts/series" test
	asked=$(paste -sd, "$HOME/asked" 2>/dev/null || true)
}

@test "series test: a recorded row for each series, not run again while its tree is the same" {
	made_series
	stubs
	cp "$SCRIPTS/series-test" "$HOME/repo/scripts/"
	cp "$SCRIPTS"/../vmtest/*.py "$HOME/repo/vmtest/"
	mkdir -p "$HOME/repo/doc/results"
	printf '%s\n' '<!-- series -->' '<!-- end of series -->' >"$HOME/repo/doc/results.md"
	# shellcheck disable=SC2016
	printf '%s\n' '#!/bin/bash' 'git -C "$BUILD/alone" log -1 --format=%s >>"$HOME/asked"' \
		'! grep -q BROKEN "$BUILD"/alone/lib/*' >"$HOME/repo/scripts/build"
	# shellcheck disable=SC2030  # each test exports its own
	export toolchain_root=/
	series_test
	echo "$output"
	[ "$status" = 0 ]
	[ "$asked" = "selftests,selftests series-a" ]
	[[ ${lines[-1]} =~ ^series-a\ +yes\ +yes\ +yes\ +none$ ]]
	[ "$(grep -cE '^\| (selftests \| |series-a \| selftests) \| [0-9a-f]{12} \| yes \| yes \| yes \| none \|$' "$HOME/repo/doc/results.md")" = 2 ]
	series_test
	[ "$status" = 0 ]
	[ -z "$asked" ]
	# Another tree, which does not build.
	sed -i 's/int new;/int BROKEN;/' "$PATCHES"/series-a/lib-Add-new.c.patch
	series_test
	[ "$status" = 1 ]
	[ "$asked" = "selftests series-a" ]
	grep -qE '^series-a'$'\t''[0-9a-f]{12}'$'\t''yes'$'\t''no'$'\t''-'$'\t''-$' "$HOME/repo/doc/results/series-test.tsv"
	[ "$(wc -l <"$HOME/repo/doc/results/series-test.tsv")" = 2 ]
}

@test "series test: a test that was not built or did not run is a failure" {
	# shellcheck disable=SC2031  # each test exports its own
	export toolchain_root=/
	# Its functions alone.
	sed -e "s,\$(dirname \"\$0\"),$SCRIPTS," -e '/^case /,$d' "$SCRIPTS/series-test" >"$HOME/functions"
	printf '%s\n' '#7 other:OK' '#7/1 other/case:OK' '#8 missing_too:OK' '#9 perf test (exclusive):OK' >"$HOME/log"
	run bash -c '. "$1"; all_ran "$2" other "perf test"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "4 pass" ]
	run bash -c '. "$1"; all_ran "$2" other missing; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "no: missing did not run" ]
	# The name of another test may begin with that name.
	printf '%s\n' '#9 perf test of more:OK' >"$HOME/log"
	run bash -c '. "$1"; all_ran "$2" "perf test"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "no: perf test did not run" ]
	printf '%s\n' '#7 other:OK' '#8 left_out:SKIP (not built)' '#9 needs_more:SKIP' >"$HOME/log"
	run bash -c '. "$1"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[[ $output = "no: "*"left_out was not built"* ]]
	# Only tests that expect.skip names may be skipped.
	printf '%s\n' '#7 other:OK' '#8 needs_more:SKIP' >"$HOME/log"
	run bash -c '. "$1"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "no: needs_more" ]
	printf '%s\n' '#1 net/ipv6_rthdr:OK' '#1/2 net/ipv6_rthdr/rthdr.message:SKIP' >"$HOME/log"
	run bash -c '. "$1"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "1 pass, 1 skip" ]
	printf '%s\n' '#0 guest:FAIL' >"$HOME/log"
	run bash -c '. "$1"; verdict "$2"' - "$HOME/functions" "$HOME/log"
	[ "$output" = "no: guest" ]
}

@test "series test: the programs are those that a series adds lines to" {
	local dir=$HOME/alone/tools/testing/selftests/bpf_provenance
	sed -e "s,\$(dirname \"\$0\"),$SCRIPTS," -e '/^case /,$d' "$SCRIPTS/series-test" >"$HOME/functions"
	mkdir -p "$dir"
	echo TEST_HARNESS_MAIN >"$dir/one.c"
	printf '%s\n' 'int main(int argc, char **argv)' '	return test_harness_run(argc, argv);' >"$dir/two.c"
	echo 'int help(void);' >"$dir/help.c"
	run bash -c '. "$1"; BUILD=$2; adds() { printf "%s\n" help one two; }; programs_of x' - "$HOME/functions" "$HOME"
	[ "$output" = one,two ]
}

@test "series rebase: onto a tree where lines moved" {
	made_series
	tiny_kernel "$HOME/new" 7.3.9
	sed -i '1i int before;' "$HOME/new/lib/a.c"
	run "$SCRIPTS/series" rebase "$HOME/new"
	[ "$status" = 0 ]
	[[ $output == *"lib: Return 22"* ]]
	grep -q "int before" "$LINUX/lib/a.c"
	grep -q "return 22" "$LINUX/lib/a.c"
	[ "$(git -C "$LINUX" branch --show-current)" = series ]
	"$SCRIPTS/series" check
}

@test "series rebase: onto a tree without a file of the old one" {
	made_series
	tiny_kernel "$HOME/new" 7.3.9
	rm "$HOME/new/lib/b.c"
	run "$SCRIPTS/series" rebase "$HOME/new"
	[ "$status" = 0 ]
	[ ! -e "$LINUX/lib/b.c" ]
	"$SCRIPTS/series" check
}

@test "series rebase: a conflict stops, is resolved, and the rebase continues" {
	made_series
	tiny_kernel "$HOME/new" 7.3.9
	sed -i 's/return 2;/return 222;/' "$HOME/new/lib/a.c"
	run "$SCRIPTS/series" rebase "$HOME/new"
	[ "$status" != 0 ]
	[[ $output == *"rebase --continue"* ]]
	sed -i -e '/^[<=>|]\{7\}/d' -e '/return 222;/d' -e '/return 2;/d' "$LINUX/lib/a.c"
	git -C "$LINUX" add -f lib/a.c
	git -C "$LINUX" -c user.name="bpf-provenance developers" \
		-c user.email=devel@bpf-provenance.invalid am --continue
	"$SCRIPTS/series" rebase --continue
	grep -q "return 22;" "$LINUX/lib/a.c"
	"$SCRIPTS/series" check
}

@test "series rebase: one that was aborted does not count as complete" {
	made_series
	tiny_kernel "$HOME/new" 7.3.9
	sed -i 's/return 2;/return 222;/' "$HOME/new/lib/a.c"
	run "$SCRIPTS/series" rebase "$HOME/new"
	git -C "$LINUX" am --abort
	run "$SCRIPTS/series" rebase --continue
	[ "$status" != 0 ]
	git -C "$LINUX" checkout -q series
	run "$SCRIPTS/series" rebase --continue
	[ "$status" != 0 ]
	[ "$(wc -l <"$PATCHES/series")" = 3 ]
	"$SCRIPTS/series" check
}

@test "series rebase: unexported commits are refused" {
	made_series
	tiny_kernel "$HOME/new" 7.3.9
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "lib: Mine"
	run "$SCRIPTS/series" rebase "$HOME/new"
	[ "$status" != 0 ]
	[[ $output == *"not exported"* ]]
}

@test "series mail: base-commit of the given tree, the sender's sign-off, recipients, cover letter" {
	made_series
	maintainer_tree "$HOME/theirs"
	printf 'Changes since v1:\n- none\n' >"$PATCHES/series-a/changes.md"
	# Neither the configuration of the user nor that of the tree changes the mails.
	git -C "$HOME/theirs" config diff.noprefix true
	printf '[format]\n\tattach\n\tsuffix = .txt\n' >"$HOME/gitconfig"
	GIT_CONFIG_GLOBAL=$HOME/gitconfig GIT_AUTHOR_NAME=Other \
		run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs" -v2
	[ "$status" = 0 ]
	[[ $output == *"send-email --dry-run"*"a@maintainer.invalid"* ]]
	cd "$BUILD/mail/series-a/v2"
	diff recipients - <<-EOF
		Cc: "A Reviewer (Company)" <r@reviewer.invalid>
		Cc: list@lists.invalid
		Cc: netdev@vger.kernel.org
		To: A Maintainer <a@maintainer.invalid>
	EOF
	[ -f v2-0000-cover-letter.patch ]
	[ -f v2-0002-lib-Add-new.c.patch ]
	grep -q "^base-commit: $(git -C "$HOME/theirs" rev-parse HEAD)" v2-0000-cover-letter.patch
	grep -q "^Subject: \[PATCH bpf v2 0/2\] lib: one thing" v2-0000-cover-letter.patch
	grep -q "It does 1 thing" v2-0000-cover-letter.patch
	grep -qx "Changes since v1:" v2-0000-cover-letter.patch
	"$SCRIPTS/series" check
	grep -q "^diff --git a/lib/a.c b/lib/a.c" v2-0001-*.patch
	grep -q "^Signed-off-by[:] A Sender <sender@example.org>" v2-0001-*.patch
	grep -q "^From: A Sender <sender@example.org>" v2-0001-*.patch
	grep -qx "+M:	A Sender <sender@example.org>" v2-0002-*.patch
	run grep -l bpf-provenance.invalid ./*.patch
	[ "$status" = 1 ]
	# The series selftests is a dependency: a prerequisite, not a part.
	grep -q "^prerequisite-patch-id:" v2-0000-cover-letter.patch
	grep -qxF -- "- $(sed -n '1s/^# *//p' "$PATCHES/selftests/cover.md")" v2-0000-cover-letter.patch
	run grep -l t.c v2-000[12]-*.patch
	[ "$status" = 1 ]
	# Lines of MAINTAINERS that another series adds are not part of this one.
	echo "int more;" >>"$LINUX/lib/b.c"
	commit "lib: More"
	"$SCRIPTS/series" export --series series-b
	described series-b
	"$SCRIPTS/series" mail series-b --tree "$HOME/theirs"
	run grep -l MAINTAINERS "$BUILD"/mail/series-b/v1/*.patch
	[ "$status" = 1 ]
	# Their tree is as before.
	[ -z "$(git -C "$HOME/theirs" status --porcelain)" ]
	[ "$(git -C "$HOME/theirs" rev-list --count HEAD)" = 1 ]
	[ "$(git -C "$HOME/theirs" worktree list | wc -l)" = 1 ]
}

@test "series mail: dependencies that the tree has, later ones on top of earlier ones" {
	made_series
	# Two dependencies that change the same lines.
	sed -i 's/return 22;/return 222;/' "$LINUX/lib/a.c"
	commit "lib: Return 222"
	"$SCRIPTS/series" export --series series-b
	described series-b
	echo "depends: series-a" >>"$PATCHES/series-b/header"
	echo "int more;" >>"$LINUX/lib/b.c"
	commit "lib: More"
	"$SCRIPTS/series" export --series series-c
	described series-c
	echo "depends: series-b" >>"$PATCHES/series-c/header"
	maintainer_tree "$HOME/theirs"
	(cd "$PATCHES" && grep -E '^(selftests|series-a|series-b)/' series | xargs realpath) |
		xargs -d '\n' git -C "$HOME/theirs" am -q
	git -C "$HOME/theirs" tag v7.3.5
	run "$SCRIPTS/series" mail series-c --tree "$HOME/theirs"
	[ "$status" = 0 ]
	[[ $output == *"after 0 prerequisites"* ]]
	run grep -q prerequisite "$BUILD/mail/series-c/v1/v1-0000-cover-letter.patch"
	[ "$status" = 1 ]
	# Merged, but not in this tree.
	git -C "$HOME/theirs" checkout -q -b other v7.3.4
	for s in selftests series-a series-b; do
		echo "state: applied in v7.4" >>"$PATCHES/$s/header"
	done
	rm -r "$BUILD/mail"
	run "$SCRIPTS/series" mail series-c --tree "$HOME/theirs"
	[ "$status" = 0 ]
	[[ $output == *"after 4 prerequisites"* ]]
	sed -i '/^state:/d' "$PATCHES"/*/header
	git -C "$HOME/theirs" checkout -q -b changed v7.3.5
	# One that was changed when it was merged.
	sed -i 's/return 222;/return 223;/' "$HOME/theirs/lib/a.c"
	git -C "$HOME/theirs" commit -q -a -m changed
	git -C "$HOME/theirs" tag v7.3.6
	rm -r "$BUILD/mail"
	run "$SCRIPTS/series" mail series-c --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"on which series-c depends, does not apply"* ]]
	for s in selftests series-a series-b; do
		echo "state: applied" >>"$PATCHES/$s/header"
	done
	"$SCRIPTS/series" mail series-c --tree "$HOME/theirs"
}

@test "series mail: a version is not overwritten, and a later one names its changes" {
	made_series
	maintainer_tree "$HOME/theirs"
	"$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"v1 exists"*"-v2"* ]]
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs" -v2
	[ "$status" != 0 ]
	[[ $output == *"changes.md"* ]]
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs" -v2foo
	[ "$status" = 2 ]
	# get_maintainer.pl that prints no address
	echo '#!/bin/sh' >"$HOME/theirs/scripts/get_maintainer.pl"
	rm -r "$BUILD/mail"
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"names no maintainer"* ]]
	[ ! -e "$BUILD/mail/series-a/v1" ]
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs" --branch "a b"
	[ "$status" != 0 ]
	[[ $output == *"cannot be the name of a branch"* ]]
}

@test "series mail: a commit of a Fixes tag that the tree does not have" {
	local fixed
	made_series
	maintainer_tree "$HOME/theirs"
	fixed=$(git -C "$HOME/theirs" rev-parse --short=12 HEAD)
	sed -i "s/^Because\.\$/Because.\n\nFixes: 1da177e4c3f4 (\"a\")\nFixes: $fixed (\"b\")/" \
		"$PATCHES"/series-a/lib-Return-22.patch
	echo 'echo "fatal: ambiguous argument" >&2; echo another error >&2' \
		>>"$HOME/theirs/scripts/get_maintainer.pl"
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" = 0 ]
	[[ $output == *"does not have commit 1da177e4c3f4 of a Fixes: tag"* ]]
	[[ $output != *"$fixed of a Fixes"* ]]
	[[ $output != *fatal* ]]
	[[ $output == *"another error"* ]]
}

@test "series mail: a tree that requires Assisted-by gets it" {
	made_series
	maintainer_tree "$HOME/theirs"
	mkdir -p "$HOME/theirs/Documentation/process"
	touch "$HOME/theirs/Documentation/process/coding-assistants.rst"
	git -C "$HOME/theirs" add -f .
	git -C "$HOME/theirs" commit -q -m doc
	git -C "$HOME/theirs" tag v7.3.5
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"--assisted-by"* ]]
	"$SCRIPTS/series" mail series-a --tree "$HOME/theirs" --assisted-by "LLM sparse"
	# The sign-off is the last trailer.
	grep -A 1 "^Assisted-by: LLM sparse" "$BUILD"/mail/series-a/v1/v1-0001-*.patch |
		grep -qx "Signed-off-by[:] A Sender <sender@example.org>"
}

@test "series mail: a commit that no remote has, a sender without an address" {
	made_series
	maintainer_tree "$HOME/theirs"
	git -C "$HOME/theirs" commit -q --allow-empty -m "a commit of one's own"
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"recipients do not have that commit"* ]]
	git -C "$HOME/theirs" update-ref refs/remotes/origin/master HEAD
	"$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	git -C "$HOME/theirs" config user.email devel@bpf-provenance.invalid
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"one that gets answers"* ]]
	git -C "$HOME/theirs" config user.email sender@example.org
	git -C "$HOME/theirs" config --unset user.name
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"git config user.name"* ]]
}

@test "series mail: no tree, a plain tree, a tree it does not fit, an unknown series" {
	made_series
	run "$SCRIPTS/series" mail series-a
	[ "$status" != 0 ]
	[[ $output == *"--tree"* ]]
	tiny_kernel "$HOME/plain"
	run "$SCRIPTS/series" mail series-a --tree "$HOME/plain"
	[ "$status" != 0 ]
	[[ $output == *"not a git tree"* ]]
	maintainer_tree "$HOME/theirs"
	sed -i 's/return 2;/return 0;/' "$HOME/theirs/lib/a.c"
	git -C "$HOME/theirs" commit -q -a -m other
	git -C "$HOME/theirs" tag v7.3.5
	run "$SCRIPTS/series" mail series-a --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"series-a/lib-Return-22"*"does not apply"* ]]
	[ "$(git -C "$HOME/theirs" worktree list | wc -l)" = 1 ]
	run "$SCRIPTS/series" mail nothing --tree "$HOME/theirs"
	[ "$status" != 0 ]
	[[ $output == *"selftests series-a"* ]]
}

@test "series bisect: a patch that passed is not tested again until it changes" {
	local asked base="Linux 7.3.4" all f
	made_series
	stubs
	all="$base,selftests/t: Add a test,lib: Return 22,lib: Add new.c,selftests/bpf_provenance: Add a config,selftests"
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "$all" ]
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "" ]
	[[ $output == *"each of patches 1 to 4 passed before"* ]]
	# Only its message.
	git -C "$LINUX" -c user.name=a -c user.email=a@a.invalid commit -q --amend \
		-m "selftests/bpf_provenance: Add a config" -m "Another reason."
	bisect
	[ "$asked" = "" ]
	# Another configuration, or toolchain.
	for f in "$HOME"/repo/vmtest/kconfig/{common,bisect}.config "$HOME/version"; do
		echo CONFIG_A=y >"$f"
		bisect
		[ "$status" = 0 ]
		[ "$asked" = "$all" ]
	done
	# A comment does not change the configuration.
	echo "# why" >>"$HOME/repo/vmtest/kconfig/common.config"
	bisect
	[ "$asked" = "" ]
	# A changed test is built, but not the kernels after it, nor the base.
	git -C "$LINUX" reset -q --hard HEAD~3
	mkdir -p "$LINUX/tools/testing/selftests/bpf_provenance"
	touch "$LINUX/tools/testing/selftests/bpf_provenance/config"
	commit "selftests/bpf_provenance: First"
	git -C "$LINUX" -c user.name=a -c user.email=a@a.invalid cherry-pick ORIG_HEAD~2 ORIG_HEAD~1 >/dev/null
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "selftests/bpf_provenance: First,selftests" ]
	# perf is built for its own patches, and not again for those of other programs.
	mkdir -p "$LINUX"/tools/{perf,bpf/bpfprov}
	touch "$LINUX/tools/perf/p.c"
	commit "perf: First"
	touch "$LINUX/tools/bpf/bpfprov/b.c"
	commit "bpfprov: First"
	bisect
	[ "$asked" = "perf: First,perf,bpfprov: First,in" ]
	git -C "$LINUX" reset -q --hard HEAD~2
	mkdir -p "$LINUX"/tools/{perf,bpf/bpfprov}
	echo "int more;" >"$LINUX/tools/perf/p.c"
	commit "perf: More"
	touch "$LINUX/tools/bpf/bpfprov/b.c"
	commit "bpfprov: First"
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "perf: More,perf" ]
	echo "int more;" >>"$LINUX/lib/new.c"
	commit "lib: More"
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "lib: More" ]
	[[ $output == *"each of patches 1 to 7 "*"1 tested"* ]]
	# Except for warnings of a file that was not compiled before.
	echo "int more;" >"$LINUX/lib/else.c"
	commit "lib: Something else"
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "$base,lib: Something else" ]
}

@test "series bisect: some of the patches" {
	local asked base="Linux 7.3.4" args
	made_series
	stubs
	bisect 2 3
	[ "$status" = 0 ]
	[ "$asked" = "$base,lib: Return 22,lib: Add new.c" ]
	[[ $output == *"each of patches 2 to 3 builds"*"2 tested"* ]]
	bisect --list 1 3
	[ "$status" = 0 ]
	[ "$asked" = "" ]
	[ "$output" = $'1\tselftests/t: Add a test' ]
	bisect 2
	[ "$status" = 0 ]
	[ "$asked" = "selftests/bpf_provenance: Add a config,selftests" ]
	bisect
	[ "$status" = 0 ]
	[ "$asked" = "selftests/t: Add a test" ]
	[ "$(sed -n 's/^[0-9a-f]\{40\} //p' "$CACHE/bisected" | sort | paste -sd,)" = \
		"lib: Add new.c,lib: Return 22,selftests/bpf_provenance: Add a config,selftests/t: Add a test" ]
	grep -q "^# what it is" "$CACHE/bisected"
	git -C "$LINUX" reset -q --hard HEAD~1
	mkdir -p "$LINUX/tools/testing/selftests/bpf_provenance"
	touch "$LINUX/tools/testing/selftests/bpf_provenance/"{config,more}
	commit "selftests/bpf_provenance: More"
	bisect
	[ "$status" = 0 ]
	# Another clone may have the patch that is not here any more.
	grep -q "Add a config" "$CACHE/bisected"
	[ "$(grep -c "^[0-9a-f]" "$CACHE/bisected")" = 5 ]
	: >"$CACHE/bisected"
	bisect --list
	[ "$(wc -l <<<"$output")" = 4 ]
	for args in "3 2" "0 2" "5" "1 5" "a" "1 2 3"; do
		# shellcheck disable=SC2086
		bisect $args
		[ "$status" != 0 ]
		[ "$asked" = "" ]
	done
}

@test "series bisect: a patch that does not build, warns, or does not boot is not recorded" {
	local asked bad
	made_series
	stubs
	bisect
	for bad in BROKEN WARN; do
		echo "int x; /* $bad */" >"$LINUX/lib/a.c"
		commit "lib: $bad"
		bisect
		[ "$status" != 0 ]
		[[ $output == *"lib: $bad: "* ]]
		bisect
		[ "$status" != 0 ]
		[ "$asked" = "lib: $bad" ]
		git -C "$LINUX" reset -q --hard HEAD~1
	done
	echo "# what it is" >"$CACHE/bisected"
	# shellcheck disable=SC2016  # for the stub
	printf '#!/bin/sh\n[ "$1" = --print-accel ]\n' >"$HOME/repo/vmtest/vmtest.sh"
	bisect
	[ "$status" != 0 ]
	[[ $output == *"selftests/t: Add a test: does not boot"* ]]
	[ "$(cat "$CACHE/bisected")" = "# what it is" ]
}

@test "series bisect: a compiler or sparse without output does not count as a clean file" {
	local asked
	made_series
	stubs
	touch "$HOME/nosparse"
	bisect
	[ "$status" != 0 ]
	[[ $output == *"a known fault is not reported: symbol 'fault'"* ]]
	rm "$HOME/nosparse"
	echo "No rule to make target" >"$HOME/nomake"
	bisect
	[ "$status" != 0 ]
	[[ $output == *"No rule to make target"*"make failed"* ]]
	[ "$(cat "$CACHE/bisected")" = "# what it is" ]
}
