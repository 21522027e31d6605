# SPDX-License-Identifier: GPL-2.0
# The planted faults of vmtest/faults, on the flavour that a test file's directory
# is named after. Each must turn a run red although its command succeeds.
# shellcheck shell=bash

setup_file()
{
	FLAVOUR=$(basename "$BATS_TEST_DIRNAME")
	export FLAVOUR VMTEST=$BATS_TEST_DIRNAME/../../vmtest.sh
	export MODULE=${BUILD:-$BATS_TEST_DIRNAME/../../../build}/out/$FLAVOUR/faults/planted_faults.ko
}

# commit FAULT [OPTIONS]: in a guest of its own; the command's status is 0.
commit()
{
	local fault=$1
	shift
	run "$VMTEST" --no-build -f "$FLAVOUR" -q --file "$MODULE" "$@" -- \
		bash -c "insmod /mnt/planted_faults.ko fault=$fault; true"
}
