# SPDX-License-Identifier: GPL-2.0
# What guest-names said on both kernels (kernel=base FILE kernel=prod FILE): for each
# tool the share of samples that have their name, and what is wrong. The last line is
# passed, failed, skipped.
BEGIN {
	FS = "\t"
	title["base"] = "7.3"
	title["prod"] = "series"
	row = "%-8s %-8s %-9s"
	printf row "%9s %9s %9s %9s\n", "kernel", "by", "archived", "kept", "deleted", "stripped", "replaced"
}

function check(ok, what) {
	if (ok) {
		passed++
		return
	}
	failed++
	wrong[++nr_wrong] = title[kernel] " " $2 " " $3 " " $4 ": " what
}

$1 == "names" {
	if (!((kernel, $2, $3) in seen)) {
		if (seen[kernel, $2, $3] = rows++)
			printf "\n"
		printf row, title[kernel], $2, $3
	}
	runs++
	right[$2] = $5 ? 100 * $6 / $5 : 0
	printf "%7.1f %%", right[$2]
	check($5 >= 100, "too few samples: " $5)
	check($7 <= $5 / 5, "too many samples have another name: " $7)
	if ($3 == "yes" || $4 == "kept")
		check(right[$2] >= 75, "most samples should have their name")
	else
		check($6 == 0, "nothing has the name any more, and yet samples have it: " $6)
	if ($2 == "bpfprov")
		check(right["bpfprov"] >= right["perf", $3, $4] - 10, "perf names more")
	else
		right["perf", $3, $4] = right[$2]
}

END {
	printf "\n"
	if (runs != 32) {
		failed++
		wrong[++nr_wrong] = "a run is missing: there are " runs + 0 " of 32"
	}
	for (i = 1; i <= nr_wrong; i++)
		print "    FAILED: " wrong[i]
	print passed + 0, failed + 0, 0
}
