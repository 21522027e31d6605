#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# The programs of scripts/fuzz find planted faults of a parser and of a tree: only then does
# a run without reports show anything.

setup() { TOP=$BATS_TEST_DIRNAME/../..; }

# planted WHAT: the parser of the series without it. The time is for a slow machine: it ends when
# the fault is found.
planted()
{
	local source=${BUILD:-$TOP/build}/linux/lib/buildid.c

	# to take out something that is not there plants nothing
	grep -qF "$1" "$source"
	sed "s/$1//" "$source" >"$BATS_TEST_TMPDIR/buildid.c"
	run "$TOP/scripts/fuzz" parser --seconds 600 --seed 3 --source "$BATS_TEST_TMPDIR/buildid.c"
	rm -rf "${BUILD:-$TOP/build}/out/series/fuzz-source"
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *"0 passed, 1 failed"* ]]
}

@test "fuzz: a build ID that is too long is found" {
	planted ' && note.hdr.n_descsz <= BUILD_ID_SIZE_MAX'
}

@test "fuzz: a note that is not a build ID is found" {
	planted 'note.hdr.n_type == BUILD_ID &&'
}

@test "fuzz: a maple tree whose nodes are changed in place is found" {
	local source=${BUILD:-$TOP/build}/linux/lib/maple_tree.c
	local in_place='/^static.* mas_wr_node_store(/,/^}/s/in_rcu = mt_in_rcu(mas->tree)/in_rcu = false/'

	sed "$in_place" "$source" >"$BATS_TEST_TMPDIR/maple_tree.c"
	# to take out something that is not there plants nothing
	! cmp -s "$source" "$BATS_TEST_TMPDIR/maple_tree.c" || return 1
	run "$TOP/scripts/fuzz" maple --source "$BATS_TEST_TMPDIR/maple_tree.c"
	rm -rf "${BUILD:-$TOP/build}/out/series/maple-source"
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *"BUG at run_check_rcu_neighbours"* ]]
	[[ $output == *"0 passed, 1 failed"* ]]
}
