#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
# That the fuzzer finds faults of a parser: what it says of the series' means
# something only then.

setup() { TOP=$BATS_TEST_DIRNAME/../..; }

planted() # WHAT: the parser of the series without it
{
	local source=${BUILD:-$TOP/build}/linux/lib/buildid.c

	# to take out something that is not there plants nothing
	grep -qF "$1" "$source"
	sed "s/$1//" "$source" >"$BATS_TEST_TMPDIR/buildid.c"
	run "$TOP/scripts/fuzz" parser --seconds 120 --seed 3 --source "$BATS_TEST_TMPDIR/buildid.c"
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
