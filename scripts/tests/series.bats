#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# scripts/series on a synthetic tree of four files.

load helper

setup() { sandbox; }

@test "series: --help prints the usage, a wrong command fails with 2" {
	run "$SCRIPTS/series" --help
	[ "$status" = 0 ]
	[[ $output == *"series export"* ]]
	run "$SCRIPTS/series" no-such-command
	[ "$status" = 2 ]
}

@test "series: round trip from patches to commits and back is byte-identical" {
	made_series
	before=$(sums)
	[ "$(wc -l <"$PATCHES/series")" = 3 ]
	[ -f "$PATCHES/series-a/lib-Add-new.c.patch" ]
	cmp "$COPIES/kernel/lib/new.c" "$LINUX/lib/new.c"
	cmp "$COPIES/selftests/t/t.c" "$LINUX/tools/testing/selftests/t/t.c"
	rm -rf "$BUILD"
	"$SCRIPTS/series" tree
	"$SCRIPTS/series" export
	[ "$(sums)" = "$before" ]
	"$SCRIPTS/series" check
}

@test "series: check needs no kernel tree, and the commits are the same everywhere" {
	made_series
	tip=$(git -C "$LINUX" rev-parse 'HEAD^{tree}')
	rm -rf "$BUILD"
	"$SCRIPTS/series" check
	[ ! -e "$BUILD/linux" ]
	"$SCRIPTS/series" tree
	[ "$(git -C "$LINUX" rev-parse 'HEAD^{tree}')" = "$tip" ]
	commit=$(git -C "$LINUX" rev-parse HEAD)
	rm -rf "$BUILD"
	"$SCRIPTS/series" tree
	[ "$(git -C "$LINUX" rev-parse HEAD)" = "$commit" ]
}

@test "series: git am of the listed files gives the same tree as build/linux" {
	made_series
	git -C "$BUILD/base" checkout -q -b by-hand
	(cd "$PATCHES" && xargs realpath <series) |
		xargs -d '\n' git -C "$BUILD/base" -c user.name=a -c user.email=a@b am -q
	[ "$(git -C "$BUILD/base" rev-parse 'HEAD^{tree}')" = "$(git -C "$LINUX" rev-parse 'HEAD^{tree}')" ]
}

@test "series: the user's git configuration does not change what is exported" {
	made_series
	before=$(sums)
	printf '[diff]\n\tnoprefix = true\n\talgorithm = patience\n[format]\n\tnumbered = true\n\tsignature = x\n' >"$HOME/gc"
	GIT_CONFIG_GLOBAL=$HOME/gc "$SCRIPTS/series" export
	[ "$(sums)" = "$before" ]
	GIT_CONFIG_GLOBAL=$HOME/gc "$SCRIPTS/series" check
}

@test "series: a copy edited by hand is refused, with the command that does it right" {
	made_series
	echo "/* by hand */" >>"$COPIES/kernel/lib/new.c"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"cp kernel/lib/new.c build/linux/lib/new.c"* ]]
	run "$SCRIPTS/series" export
	[ "$status" != 0 ]
	grep -q "by hand" "$COPIES/kernel/lib/new.c"
	# The printed command helps.
	cp "$COPIES/kernel/lib/new.c" "$LINUX/lib/new.c"
	commit "fixup"
	git -C "$LINUX" show HEAD~1:lib/new.c >"$COPIES/kernel/lib/new.c"
	"$SCRIPTS/series" export --series series-a
	grep -q "by hand" "$COPIES/kernel/lib/new.c"
	"$SCRIPTS/series" check
}

@test "series: a copy that is in no patch, and one that is missing, are named" {
	made_series
	echo x >"$COPIES/selftests/t/extra.c"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"selftests/t/extra.c is in no patch"* ]]
	rm "$COPIES/selftests/t/extra.c" "$COPIES/selftests/t/t.c"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"selftests/t/t.c is missing"* ]]
}

@test "series: a line in MAINTAINERS that no patch adds is refused" {
	made_series
	echo "S:	Orphan" >>"$COPIES/MAINTAINERS"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"MAINTAINERS has lines that no patch adds"*"Orphan"* ]]
}

@test "series: a patch edited by hand is refused" {
	made_series
	sed -i 's/Because\./Because of this./' "$PATCHES"/series-a/lib-Return-22.patch
	"$SCRIPTS/series" check		# another message is another patch, and sound
	sed -i 's/^Date: .*/Date: Thu, 1 Jan 2026 00:00:00 +0000 (by hand)/' "$PATCHES"/series-a/lib-Return-22.patch
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"differs from an export"* ]]
}

@test "series: a series that stands before its dependency is refused" {
	made_series
	{ sed -n 3p "$PATCHES/series"; sed -n 1,2p "$PATCHES/series"; } >"$HOME/series"
	cp "$HOME/series" "$PATCHES/series"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"series-a depends on selftests, which does not stand before it"* ]]
}

@test "series: a reorder in build/linux round-trips" {
	made_series
	cd "$LINUX"
	a=$(git rev-parse HEAD~1) b=$(git rev-parse HEAD)
	git reset -q --hard HEAD~2
	git -c user.name="bpf-provenance developers" -c user.email=devel@bpf-provenance.invalid cherry-pick "$b" "$a" >/dev/null
	"$SCRIPTS/series" export
	[ -f "$PATCHES/series-a/lib-Add-new.c.patch" ]
	[ "$(find "$PATCHES" -name '*.patch' | wc -l)" = 3 ]
	"$SCRIPTS/series" check
}

@test "series: a list and files that differ are refused" {
	made_series
	cp "$PATCHES"/series-a/lib-Return-22.patch "$PATCHES/series-a/more.patch"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"more.patch"* ]]
	rm "$PATCHES/series-a/more.patch" "$PATCHES"/series-a/lib-Add-new.c.patch
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
}

@test "series: a conflict is refused, the patch named, the tree as before" {
	made_series
	tip=$(git -C "$LINUX" rev-parse HEAD)
	sed -i 's/return 2;/return 9;/' "$PATCHES"/series-a/lib-Return-22.patch
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"patches/series-a/lib-Return-22.patch "*"does not apply"* ]]
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"series-a/lib-Return-22"* ]]
	[ "$(git -C "$LINUX" rev-parse HEAD)" = "$tip" ]
	[ "$(git -C "$LINUX" branch --show-current)" = series ]
	[ -z "$(git -C "$LINUX" status --porcelain)" ]
}

@test "series: a patch that would need fuzz is refused" {
	made_series
	# One line of context differs from the base.
	sed -i 's/^ int f2(void)$/ int f2(int x)/' "$PATCHES"/series-a/lib-Return-22.patch
	grep -q 'f2(int x)' "$PATCHES"/series-a/lib-Return-22.patch
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"does not apply"* ]]
}

@test "series: a patch that applies at another line is refused" {
	made_series
	sed -i 's/^@@ -\([0-9]*\),\([0-9]*\) +\([0-9]*\),/@@ -1\1,\2 +1\3,/' "$PATCHES"/series-a/lib-Return-22.patch
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
}

@test "series: uncommitted edits are kept by tree and refused by export" {
	made_series
	echo "/* mine */" >>"$LINUX/lib/b.c"
	"$SCRIPTS/series" tree
	grep -q mine "$LINUX/lib/b.c"
	run "$SCRIPTS/series" export
	[ "$status" != 0 ]
	[[ $output == *"uncommitted changes"* ]]
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"has edits that patches/ does not"* ]]
	echo "# changed" >>"$PATCHES/BASE"
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"uncommitted changes"* ]]
	grep -q mine "$LINUX/lib/b.c"
	# --force takes them away, but into a branch.
	"$SCRIPTS/series" tree --force
	run grep mine "$LINUX/lib/b.c"
	[ "$status" = 1 ]
	git -C "$LINUX" show series-previous:lib/b.c | grep -q mine
}

@test "series: unexported commits are kept when patches/ changes" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "lib: Mine"
	echo "# changed" >>"$PATCHES/BASE"
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"not exported"* ]]
	[ "$(git -C "$LINUX" log -1 --format=%s)" = "lib: Mine" ]
}

@test "series: clean refuses what was not exported" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	commit "lib: Mine"
	run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	[ -d "$LINUX" ]
	"$SCRIPTS/series" export --series series-a
	# Nor under a build.
	mkdir -p "$BUILD/out/series"
	exec 9>"$BUILD/out/series/lock"
	flock 9
	run "$SCRIPTS/series" clean
	exec 9>&-
	[ "$status" != 0 ]
	[[ $output == *"is under way"* ]]
	[ -d "$LINUX" ]
	"$SCRIPTS/series" clean
	[ ! -e "$BUILD" ]
}

@test "series: a commit without a series is refused, unless it is between two of one series" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "lib: New"
	run "$SCRIPTS/series" export
	[ "$status" != 0 ]
	[[ $output == *"no series for the commit 'lib: New'"* ]]
	[ "$(wc -l <"$PATCHES/series")" = 3 ]
	cd "$LINUX"
	new=$(git rev-parse HEAD) last=$(git rev-parse HEAD~1)
	git reset -q --hard HEAD~2
	git -c user.name="bpf-provenance developers" -c user.email=devel@bpf-provenance.invalid cherry-pick "$new" "$last" >/dev/null
	"$SCRIPTS/series" export
	[ -f "$PATCHES/series-a/lib-New.patch" ]
}

@test "series: another author is refused" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	git -C "$LINUX" -c user.name=me -c user.email=me@here commit -q -a -m "lib: New"
	run "$SCRIPTS/series" export --series series-a
	[ "$status" != 0 ]
	[[ $output == *"me@here"* ]]
}

@test "series: a patch of tests that changes the kernel is refused" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "selftests/series: New"
	run "$SCRIPTS/series" export --series series-a
	[ "$status" != 0 ]
	[[ $output == *"selftests/series: New: lib/b.c"* ]]
	[ "$(wc -l <"$PATCHES/series")" = 3 ]
	# As if it had been exported before this was looked at.
	git -C "$LINUX" commit -q --amend -m "lib: New"
	"$SCRIPTS/series" export --series series-a
	sed -i 's,^Subject: .*,Subject: [PATCH] selftests/series: New,' "$PATCHES/series-a/lib-New.patch"
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"selftests/series: New: lib/b.c"* ]]
}

@test "series: a base that does not match is refused and not kept" {
	made_series
	rm -rf "$BUILD"
	tiny_kernel "$HOME/old" 6.12.0
	sed -i 's/return 2;/return 0;/' "$HOME/old/lib/a.c"
	KERNEL=$HOME/old run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"series-a/lib-Return-22"*"6.12.0"* ]]
	[ ! -e "$BUILD/linux" ]
	"$SCRIPTS/series" tree
	[ "$(git -C "$LINUX" rev-list --count base..series)" = 3 ]
}

@test "series: clean removes nothing but its own, and nothing that git cannot read" {
	made_series
	common worktree "$BUILD/mutants" series
	common worktree "$BUILD/alone" base
	echo precious >"$BUILD/precious"
	flock "$BUILD/lock" "$SCRIPTS/series" clean && false
	flock -s "$BUILD/guests.lock" "$SCRIPTS/series" clean && false
	[ -f "$LINUX/lib/a.c" ]
	"$SCRIPTS/series" clean
	[ "$(ls "$BUILD")" = precious ]
	"$SCRIPTS/series" tree
	echo broken >"$LINUX/.git/HEAD"
	run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	[ -f "$LINUX/lib/a.c" ]
}

@test "series: a BUILD that has files of others is refused" {
	made_series
	mv "$BUILD" "$HOME/ours"
	mkdir -p "$BUILD"/{base,log}
	echo precious >"$BUILD/base/precious"
	for command in tree clean; do
		run "$SCRIPTS/series" $command
		[ "$status" != 0 ]
		[[ $output == *"use an empty directory"* ]]
	done
	[ -f "$BUILD/base/precious" ]
	# A clone of the user's beside files of ours.
	git init -q "$HOME/ours/linux2"
	rm -rf "$HOME/ours/linux"
	mv "$HOME/ours/linux2" "$HOME/ours/linux"
	BUILD=$HOME/ours LINUX=$HOME/ours/linux run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	[[ $output == *"was not made by these scripts"* ]]
	[ -d "$HOME/ours/linux/.git" ]
}

@test "series: a base that is no longer that of KERNEL or of patches/BASE is refused" {
	made_series
	cp -r "$BATS_TEST_TMPDIR/linux-7.3.4" "$HOME/mine"
	git -C "$HOME/mine" init -q
	git -C "$HOME/mine" add -Af .
	git -C "$HOME/mine" -c user.name=a -c user.email=a@b commit -q -m base
	run env KERNEL="$HOME/mine" "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	sed -i 's/^version=.*/version=7.3.5/' "$PATCHES/BASE"
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"was made for Linux 7.3.4, patches/BASE has 7.3.5"* ]]
	rm -rf "$BUILD"
	cd "$HOME"
	KERNEL=mine "$SCRIPTS/series" tree
	KERNEL=$HOME/mine "$SCRIPTS/series" tree
	run "$SCRIPTS/series" tree
	[ "$status" = 0 ]
	[[ $output == *"its base is a copy of KERNEL=$HOME/mine"* ]]
	echo "int h;" >>"$HOME/mine/lib/b.c"
	git -C "$HOME/mine" -c user.name=a -c user.email=a@b commit -q -a -m more
	run env KERNEL="$HOME/mine" "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	[[ $output == *"changed since"* ]]
}

@test "series: a checkout whose build/linux was removed is made again" {
	made_series
	common worktree "$BUILD/mutants" base
	rm -rf "$LINUX"
	"$SCRIPTS/series" tree
	common worktree "$BUILD/mutants" series
	[ "$(git -C "$BUILD/mutants" rev-parse HEAD)" = "$(git -C "$LINUX" rev-parse series)" ]
	common worktree "$BUILD/mutants" base
	[ "$(git -C "$BUILD/mutants" rev-parse HEAD)" = "$(git -C "$LINUX" rev-parse series)" ]
}

@test "series: a previous state is never overwritten by the next" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "lib: Mine"
	mine=$(git -C "$LINUX" rev-parse HEAD)
	echo "# changed" >>"$PATCHES/BASE"
	"$SCRIPTS/series" tree --force
	echo "# changed again" >>"$PATCHES/BASE"
	"$SCRIPTS/series" tree
	[ "$(git -C "$LINUX" rev-parse series-previous)" = "$mine" ]
	run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	[[ $output == *"series-previous"* ]]
}

@test "series: a previous state that was exported does not stop clean" {
	made_series
	echo "# changed" >>"$PATCHES/BASE"
	"$SCRIPTS/series" tree
	git -C "$LINUX" rev-parse series-previous
	"$SCRIPTS/series" clean
	[ ! -e "$LINUX" ]
}

@test "series: commits on a detached HEAD are seen by tree, clean and export" {
	made_series
	git -C "$LINUX" checkout -q --detach
	echo "int h;" >>"$LINUX/lib/b.c"
	commit "lib: Mine"
	run "$SCRIPTS/series" export --series series-a
	[ "$status" != 0 ]
	[[ $output == *"not on its branch"* ]]
	run "$SCRIPTS/series" clean
	[ "$status" != 0 ]
	echo "# changed" >>"$PATCHES/BASE"
	run "$SCRIPTS/series" tree
	[ "$status" != 0 ]
	git -C "$LINUX" checkout -q --detach base
	run "$SCRIPTS/series" export
	[ "$status" != 0 ]
	[ "$(wc -l <"$PATCHES/series")" = 3 ]
}

@test "series: git's variables, as a hook has them, redirect nothing" {
	made_series
	git init -q "$HOME/user"
	GIT_DIR=$HOME/user/.git GIT_INDEX_FILE=$HOME/user/.git/index "$SCRIPTS/series" check
	[ -z "$(git -C "$HOME/user" for-each-ref)" ]
	[ ! -e "$HOME/user/.git/index" ]
}

@test "series: a CDPATH leads nowhere else" {
	made_series
	mkdir -p "$HOME/else/scripts"
	cd "$SCRIPTS/.."
	CDPATH=$HOME/else:. scripts/series check
}

@test "series: a path with a space" {
	made_series
	mkdir "$HOME/a b"
	cp -r "$PATCHES" "$HOME/a b/patches"
	cp -r "$COPIES/kernel" "$COPIES/selftests" "$HOME/a b/"
	BPFPROV_PATCHES="$HOME/a b/patches" BPFPROV_COPIES="$HOME/a b" run "$SCRIPTS/series" check
	[ "$status" = 0 ]
	tiny_kernel "$HOME/a b/k"
	BPFPROV_PATCHES="$HOME/a b/patches" run "$SCRIPTS/series" apply "$HOME/a b/k"
	[ "$status" = 0 ]
	grep -q "return 22" "$HOME/a b/k/lib/a.c"
}

@test "series: an interrupted git am does not count as complete" {
	made_series
	rm -rf "$BUILD"
	"$SCRIPTS/series" tree --base-only
	git -C "$LINUX" -c user.name=a -c user.email=a@b am -q "$PATCHES/series-a/lib-Return-22.patch"
	run git -C "$LINUX" -c user.name=a -c user.email=a@b am -q "$PATCHES/series-a/lib-Return-22.patch"
	[ -d "$LINUX/.git/rebase-apply" ]
	"$SCRIPTS/series" tree
	[ "$(git -C "$LINUX" rev-list --count base..series)" = 3 ]
	[ -z "$(git -C "$LINUX" status --porcelain)" ]
}

@test "series: patches of two branches merged, as the notes describe" {
	made_series
	cp -r "$PATCHES" "$HOME/common"
	# The other side adds a patch and exports.
	echo "int theirs;" >>"$LINUX/lib/b.c"
	commit "lib: Theirs"
	"$SCRIPTS/series" export --series series-b
	cp -r "$PATCHES" "$HOME/theirs"
	cp -r "$COPIES/kernel" "$HOME/theirs.kernel"
	# We, from the common state, add another.
	rm -rf "$PATCHES" && cp -r "$HOME/common" "$PATCHES"
	"$SCRIPTS/series" tree
	sed -i 's/return 6/return 66/' "$LINUX/lib/a.c"
	commit "lib: Ours"
	"$SCRIPTS/series" export --series series-a
	# The merge: their patches, then our commits on top.
	rm -rf "$PATCHES" && cp -r "$HOME/theirs" "$PATCHES"
	"$SCRIPTS/series" tree
	git -C "$LINUX" log series-previous-2 --format=%s | grep -q "lib: Ours"
	git -C "$LINUX" -c user.name="bpf-provenance developers" \
		-c user.email=devel@bpf-provenance.invalid cherry-pick series-previous-2 >/dev/null
	"$SCRIPTS/series" export --series series-b
	described series-b series-a
	"$SCRIPTS/series" check
	[ "$(wc -l <"$PATCHES/series")" = 5 ]
	grep -q 66 "$LINUX/lib/a.c"
	grep -q theirs "$LINUX/lib/b.c"
}

@test "series apply: an unpacked tree, inside another repository as well" {
	made_series
	git init -q "$HOME/outer"
	tiny_kernel "$HOME/outer/k"
	"$SCRIPTS/series" apply "$HOME/outer/k"
	grep -q "return 22" "$HOME/outer/k/lib/a.c"
	[ -f "$HOME/outer/k/lib/new.c" ]
}

@test "series apply: a git tree gets commits" {
	made_series
	tiny_kernel "$HOME/k"
	git -C "$HOME/k" init -q
	git -C "$HOME/k" add -Af .
	git -C "$HOME/k" config user.name a
	git -C "$HOME/k" config user.email a@b
	git -C "$HOME/k" commit -q -m base
	"$SCRIPTS/series" apply "$HOME/k"
	[ "$(git -C "$HOME/k" rev-list --count HEAD)" = 4 ]
	[ -z "$(git -C "$HOME/k" status --porcelain)" ]
	# As README.md states.
	git -C "$HOME/k" reset -q --hard ORIG_HEAD
	[ "$(git -C "$HOME/k" rev-list --count HEAD)" = 1 ]
}

@test "series apply: the progress of git am is printed" {
	local hook
	made_series
	tiny_kernel "$HOME/k"
	git -C "$HOME/k" init -q
	git -C "$HOME/k" config user.name x
	git -C "$HOME/k" config user.email x@x.invalid
	git -C "$HOME/k" add -Af .
	git -C "$HOME/k" commit -q -m k
	hook=$HOME/k/.git/hooks/applypatch-msg
	mkdir -p "${hook%/*}"
	# It waits for the line, or for this test's end.
	printf '#!/bin/bash\nuntil grep -q "[.][.][.] patch 1 of 3" %q || [ ! -e %q ]; do sleep 0.1; done\n' \
		"$HOME/err" "$HOME/err" >"$hook"
	chmod +x "$hook"
	PROGRESS_SECONDS=0.1 timeout 60 "$SCRIPTS/series" apply "$HOME/k" 2>"$HOME/err"
	grep -q '[.][.][.] patch 1 of 3' "$HOME/err"
	[ "$(git -C "$HOME/k" rev-list --count HEAD)" = 4 ]
}

@test "series apply: a dirty git tree is refused, unharmed" {
	made_series
	tiny_kernel "$HOME/k"
	git -C "$HOME/k" init -q
	git -C "$HOME/k" add -Af .
	git -C "$HOME/k" -c user.name=a -c user.email=a@b commit -q -m base
	echo "/* mine */" >>"$HOME/k/lib/b.c"
	run "$SCRIPTS/series" apply "$HOME/k"
	[ "$status" != 0 ]
	[[ $output == *"uncommitted"* ]]
	grep -q mine "$HOME/k/lib/b.c"
}

@test "series apply: the user's own git am is left alone; a link to a tree is the tree" {
	made_series
	tiny_kernel "$HOME/k"
	git -C "$HOME/k" init -q
	git -C "$HOME/k" add -Af .
	git -C "$HOME/k" config user.name a
	git -C "$HOME/k" config user.email a@b
	git -C "$HOME/k" commit -q -m base
	mkdir "$HOME/k/.git/rebase-apply"
	run "$SCRIPTS/series" apply "$HOME/k"
	[ "$status" != 0 ]
	[[ $output == *"in the middle of a git am"* ]]
	[ -d "$HOME/k/.git/rebase-apply" ]
	rmdir "$HOME/k/.git/rebase-apply"
	ln -s k "$HOME/link"
	"$SCRIPTS/series" apply "$HOME/link"
	[ "$(git -C "$HOME/k" rev-list --count HEAD)" = 4 ]
}

@test "series apply: an already patched tree is refused, unharmed" {
	made_series
	tiny_kernel "$HOME/k"
	"$SCRIPTS/series" apply "$HOME/k"
	before=$(cd "$HOME/k" && find . -type f | sort | xargs sha256sum)
	run "$SCRIPTS/series" apply "$HOME/k"
	[ "$status" != 0 ]
	[[ $output == *"already has the series"* ]]
	[ "$(cd "$HOME/k" && find . -type f | sort | xargs sha256sum)" = "$before" ]
}

@test "series apply: a tree it does not fit is refused, the first patch named, unharmed" {
	made_series
	tiny_kernel "$HOME/k" 6.12.1
	sed -i 's/return 2;/return 0;/' "$HOME/k/lib/a.c"
	before=$(cd "$HOME/k" && find . -type f | sort | xargs sha256sum)
	run "$SCRIPTS/series" apply "$HOME/k"
	[ "$status" != 0 ]
	[[ $output == *"series-a/lib-Return-22.patch"*"6.12.1"* ]]
	[ "$(cd "$HOME/k" && find . -type f | sort | xargs sha256sum)" = "$before" ]
}

@test "series apply: no directory, and no kernel tree" {
	made_series
	run "$SCRIPTS/series" apply "$HOME/nowhere"
	[ "$status" != 0 ]
	[[ $output == *"is not a directory"* ]]
	mkdir "$HOME/empty"
	run "$SCRIPTS/series" apply "$HOME/empty"
	[ "$status" != 0 ]
	[[ $output == *"is not a kernel tree"* ]]
}

@test "series: one that needs another without saying so is refused" {
	made_series
	echo "int more;" >>"$LINUX/lib/new.c"
	commit "lib: More"
	"$SCRIPTS/series" export --series series-b
	described series-b selftests
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"series-b does not apply to the base with its dependencies"*"lib/new.c"* ]]
	described series-b series-a
	"$SCRIPTS/series" check
}

@test "series: Fixes tags, covers and headers" {
	made_series
	cp "$PATCHES"/series-a/lib-Return-22.patch "$HOME"
	sed -i 's/^Because\.$/Because.\n\nFixes: 1da177e4c3f4 ("Linux-2.6.12-rc2")/' "$PATCHES"/series-a/lib-Return-22.patch
	run "$SCRIPTS/series" check
	[ "$status" != 0 ]
	[[ $output == *"lib-Return-22.patch has a Fixes tag"* ]]
	cp "$HOME"/lib-Return-22.patch "$PATCHES"/series-a
	printf '# lib: one thing\n\nThis topic has no more.\n' >"$PATCHES/series-a/cover.md"
	run "$SCRIPTS/series" check
	[[ $output == *"has the word topic"*"has no figure"*"has no link"* ]]
	rm "$PATCHES/series-a/header"
	run "$SCRIPTS/series" check
	[[ $output == *"header does not name the tree"* ]]
}

@test "series: the last line of a message names the series" {
	made_series
	echo "int h;" >>"$LINUX/lib/b.c"
	git -C "$LINUX" -c user.name="bpf-provenance developers" -c user.email=devel@bpf-provenance.invalid \
		commit -q -a -m "lib: New" -m "Because." -m "Series: series-c"
	"$SCRIPTS/series" export
	grep -qx "series-c/lib-New.patch" "$PATCHES/series"
	run grep -r "^Series: " "$PATCHES" --include=*.patch
	[ "$status" = 1 ]
	described series-c
	"$SCRIPTS/series" check
}

@test "series symbols, mutants --check: without build/linux, the message names the remedy" {
	tiny_kernel "$BATS_TEST_TMPDIR/linux-7.3.4"
	# shellcheck disable=SC2119
	base_file
	local command
	for command in "series symbols" "mutants --check"; do
		# shellcheck disable=SC2086  # words on purpose
		run "$SCRIPTS"/$command
		[ "$status" = 1 ]
		[[ $output == "${command% *}: error: no build/linux: run make edit" ]]
	done
}

@test "series queue: what waits, and for what" {
	made_series
	run "$SCRIPTS/series" queue
	[ "$status" = 0 ]
	[[ $output == *"now "*"selftests "*" 1 patch"$'\n'"waits "*"series-a "*" 2 patches, waits for selftests"* ]]
	echo "state: applied" >>"$PATCHES/selftests/header"
	run "$SCRIPTS/series" queue
	[[ $output == *"applied "*"selftests "*"now "*"series-a "* ]]
}
