# SPDX-License-Identifier: GPL-2.0
# What guest-perf said on both kernels (kernel=base FILE kernel=prod FILE): a line
# for each pair of perfs, one for each perf test that is not Ok on both, and what is
# wrong. The last line is passed, failed, skipped.
BEGIN {
	FS = "\t"
	name["base"] = "7.3"
	name["prod"] = "series"
	row = "%-8s %-8s %-8s %-12s %8s %8s %9s %6s\n"
	printf row, "kernel", "record", "report", "bpf_subprog", "samples", "named", "programs", "lines"
}

function check(ok, what) {
	if (ok) {
		passed++
		return
	}
	failed++
	printf "    FAILED: %s\n", what
}

# Only this perf asks for the records, and only this kernel has them.
function has_records(record) { return kernel == "prod" && record == "prod" }

$1 == "perf" {
	seen[kernel, $2, $3]
	printf row, name[kernel], name[$2], name[$3], $8, $4, $5, $3 == "base" ? "-" : $6, $7
	check($9 == 0, "perf report ended with " $9)
	check($8 == (has_records($2) ? "yes" : "no"), "the file has attr.bpf_subprog: " $8)
	check($4 >= 100, "too few samples")
	if (has_records($2) && $3 == "prod")
		check($4 == $5 && $6 == 3, "samples without a name, or programs that are not told apart")
	else
		check($5 < $4 / 2, "programs did not run while they were unloaded: most samples have names")
}
$1 == "same" { check($3 == "yes", "the reports differ in more than BPF programs") }
$1 == "equal" && !has_records($2) { check($3 == "yes", "the reports differ") }
$1 == "test" {
	result[kernel, $2] = $3
	if (!($2 in listed)) {
		listed[$2]
		tests[++nr] = $2
	}
}

END {
	check(length(seen) == 8, "a run is missing")
	check(nr > 0, "no perf test ran")
	for (i = 1; i <= nr; i++) {
		t = tests[i]
		base = result["base", t]
		prod = result["prod", t]
		if (base == "Ok" && prod == "Ok") {
			passed++
			continue
		}
		printf "perf test: %s: %s on 7.3, %s on the series\n", t, base, prod
		if (base == "Skip" && prod == "Skip")
			skipped++
		else
			check(t == "perf record BPF events of subprograms" && base == "Skip" && prod == "Ok",
			      "another result was expected")
	}
	print passed + 0, failed + 0, skipped + 0
}
