#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf record BPF events of subprograms (exclusive)

# Samples in BPF programs that are being unloaded have the names of these, and
# the IDs distinguish programs that have the same name and instructions.

set -e

perfdata=$(mktemp /tmp/__perf_test.perf.data.XXXXX)
ids=$(mktemp /tmp/__perf_test.ids.XXXXX)

cleanup() {
	rm -f "${perfdata}" "${perfdata}".old "${ids}"
	trap - EXIT TERM INT
}

trap_cleanup() {
	echo "Unexpected signal or exit in ${FUNCNAME[1]}"
	cleanup
	exit 1
}
trap trap_cleanup EXIT TERM INT

skip() {
	echo "$1 [Skip]"
	cleanup
	exit 2
}

fail() {
	echo "$1 [Failed]"
	cleanup
	exit 1
}

perf check -q feature bpf || skip "perf was built without libbpf"
[ "$(id -u)" = 0 ] || skip "not root"
grep -q ' perf_event_bpf_image$' /proc/kallsyms ||
	skip "the kernel has no BPF events of subprograms"
[ "$(cat /proc/sys/net/core/bpf_jit_enable)" != 0 ] || skip "BPF programs are interpreted"

perf test -w bpf_unload 1 > /dev/null || {
	[ $? != 2 ] || skip "BPF programs of the workload don't load"
	fail "workload"
}
perf record -a -e cpu-clock -F 999 -o "${perfdata}" -- \
	perf test -w bpf_unload 3 > "${ids}" 2> /dev/null || fail "perf record"
perf evlist -v -i "${perfdata}" | grep -q 'bpf_subprog: 1' || fail "bpf_subprog is not set"
[ "$(grep -c "^[0-9]*$" "${ids}" || true)" = 3 ] || fail "workload"

# The loop is subprogram 1, and has most of a quarter of a second in each program.
report=$(perf report -i "${perfdata}" --stdio -q --sort bpf_prog,sym -F sample,bpf_prog,sym \
	2> /dev/null) || fail "perf report"
records=$(perf script --show-bpf-events -i "${perfdata}" 2> /dev/null) || fail "perf script"
while read -r id; do
	n=$(awk -v prog="${id}/1" '$2 == prog && $4 ~ /^bpf_prog_[0-9a-f]+/ { n += $1 }
		END { print n + 0 }' <<< "${report}")
	echo "program ${id}: ${n} samples in its loop"
	[ "${n}" -ge 20 ] || fail "samples of program ${id}"

	# Its load and its unload have a record for each of the two subprograms.
	for type in 3 4; do
		n=$(grep "PERF_RECORD_BPF_EVENT type ${type}, .* id ${id} addr " <<< "${records}" |
			grep -c " subprog [01]/2 .* name bpf_prog_" || true)
		[ "${n}" = 2 ] || fail "${n} records of type ${type} for program ${id}, not 2"
	done
done < <(grep '^[0-9]*$' "${ids}")

# Only an event of all tasks, whose ring keeps the oldest records, gets all of these records.
# The option takes the bit out as well.
for args in "" "-a --overwrite" "-a --no-bpf-subprog"; do
	# shellcheck disable=SC2086
	perf record -e cpu-clock ${args} -o "${perfdata}" true > /dev/null 2>&1 ||
		fail "perf record ${args}"
	attrs=$(perf evlist -v -i "${perfdata}") || fail "perf evlist"
	[[ ${attrs} != *"bpf_subprog: 1"* ]] || fail "perf record ${args}: bpf_subprog is set"
done

cleanup
exit 0
