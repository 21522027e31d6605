# SPDX-License-Identifier: GPL-2.0
# usage: awk -f kcsan.awk FILES REPORTS
#
# Prints REPORTS, which decode_stacktrace.sh went over, with the headline of each
# KCSAN report that is of no interest turned into "elsewhere: ...". Of interest is
# one in which a function of FILES makes the access: it is among the innermost three
# frames of one side, so that a list or memory function which it calls does not hide
# it. One with a frame of a module, or that cannot be decoded, is of interest too.

function flush(    i)
{
	if (!in_report)
		return
	if (!keep && decoded)
		sub(/BUG: KCSAN: /, "elsewhere: ", line[1])
	for (i = 1; i <= n; i++)
		print line[i]
	in_report = keep = decoded = depth = n = 0
}

NR == FNR { touched[$0]; next }
/BUG: KCSAN: / { flush(); in_report = 1 }
!in_report { print; next }
{ line[++n] = $0 }
# A side of the report; its frames follow.
/ (read|write|marked|assert).* to 0x.*(by task|by interrupt)/ { depth = 1; next }
depth && depth <= 3 && / [A-Za-z_][A-Za-z0-9_.]* \([^ ]+:[0-9]+/ {
	depth++
	decoded = 1
	# Behind the place, the module, in brackets or not.
	if (/\) +\[?[A-Za-z0-9_]+\]? *$/)
		keep = 1
	# function (inlined.h:12 (discriminator 2) file.c:345)
	m = split($0, at, /[ ()]+/)
	for (i = 1; i <= m; i++) {
		sub(/:.*/, "", at[i])
		if (at[i] in touched)
			keep = 1
	}
	next
}
depth && depth <= 3 && /\+0x[0-9a-f]+\/0x[0-9a-f]+/ { depth++; keep = 1 }
/==========/ { flush() }
END { flush() }
