# SPDX-License-Identifier: GPL-2.0
# Reads the KTAP of a run; prints "pass|fail|skip PROG.TEST<TAB>diagnostics" for
# each test and a line of totals.  Fails when there is no KTAP, a plan is not
# met, numbers are out of order, or a program has no result of its own.
#
# Two levels, as guest-tests writes them: programs, and their tests indented; or
# one, as a single test program does.

function bad(why) { print "incomplete: " why; errors++ }

function outcome(line)
{
	if (line ~ /^not ok/)
		return "fail"
	return line ~ /# *SKIP/ ? "skip" : "pass"
}

function name(line)
{
	sub(/^(not )?ok [0-9]+ (- )?/, "", line)
	sub(/ *#.*/, "", line)
	return line
}

# "ok 3 name": is 3 the next one?
function number(line, want,    n)
{
	n = line
	sub(/^(not )?ok /, "", n)
	if (n + 0 != want)
		bad("result " n + 0 " where " want " was due: " line)
}

{ sub(/\r$/, "") }
/^K?TAP version/ { top = 1; next }
!top { next }
/^1\.\.[0-9]+/ { plan = substr($0, 4) + 0; have_plan = 1; next }
/^  1\.\.[0-9]+/ { sub_plan = substr($0, 6) + 0; have_sub = 1; next }
/^  (not )?ok [0-9]+/ {
	line = substr($0, 3)
	number(line, ++sub_seen)
	found[sub_seen] = outcome(line) "\t" name(line) "\t" diag (line ~ /#/ ? " " line : "")
	diag = ""
	next
}
/^(not )?ok [0-9]+/ {
	number($0, ++seen)
	if (have_sub && sub_seen != sub_plan)
		bad(name($0) ": " sub_seen " results, " sub_plan " planned")
	if (have_sub)
		nested = 1
	else if (outcome($0) == "pass")
		flat[++flats] = name($0)
	fails = 0
	for (i = 1; i <= sub_seen; i++) {
		split(found[i], f, "\t")
		t = f[2]
		sub(/^global\./, "", t)
		print f[1] " " name($0) "." t "\t" f[3]
		count[f[1]]++
		fails += f[1] == "fail"
	}
	# A program that died after its tests, or without any, is a failure too.
	if (outcome($0) == "fail" && !fails) {
		print "fail " name($0) "\t" diag $0
		count["fail"]++
	}
	if (outcome($0) == "skip" && !sub_seen) {
		print "skip " name($0) "\t" diag $0
		count["skip"]++
	}
	have_sub = sub_seen = 0
	diag = ""
	next
}
/^  #/ && !/#  RUN|#  +OK|# Starting|# FAILED:|# PASSED:|# Totals/ {
	d = $0
	gsub(/\t/, " ", d)
	sub(/^  # /, "", d)
	diag = diag (diag == "" ? "" : " | ") d
}
END {
	if (!top)
		bad("no KTAP header")
	else if (!have_plan)
		bad("no plan")
	else if (seen != plan)
		bad(seen + 0 " of " plan " programs have a result")
	# Beside programs with tests, one without is a program that ran none.
	for (i = 1; i <= flats; i++) {
		if (nested)
			bad(flat[i] ": no result of its own")
		print "pass " flat[i] "\t"
		count["pass"]++
	}
	if (top && have_plan && seen == plan && !(count["pass"] + count["fail"] + count["skip"]))
		bad("no test ran")
	printf "%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"]
	exit errors > 0
}
