# SPDX-License-Identifier: GPL-2.0
# Sourced by scripts/series: the commands that need a kernel tree and a toolchain.
# shellcheck shell=bash

# each COMMIT of the series, oldest first, with its subject.
commits() { plain_git -C "$LINUX" log --reverse --format='%h %s' base..series; }

need_series()
{
	plain_git -C "$LINUX" rev-parse -q --verify refs/heads/series >/dev/null ||
		die "no build/linux: run scripts/series tree first"
	refuse_dirty "commit them first"
}

# --- bisect: every patch by itself --------------------------------------------

# compiled COMMIT: the .c files outside tools/ that it touches.
compiled()
{
	plain_git -C "$LINUX" show --format= --name-only --diff-filter=AM "$1" -- '*.c' ':!tools/' ':!samples/'
}

# touches COMMIT PATH...
touches()
{
	local c=$1
	shift
	! plain_git -C "$LINUX" diff --quiet "$c~" "$c" -- "$@"
}

# warnings FILE...: of gcc's W=1 and sparse, without line numbers, so that those of the
# base can be told from new ones. Sparse 0.6.4 does not know __typeof_unqual__, and kbuild
# leaves out a checker that does not; a kfunc has no declaration, of which gcc is told.
warnings()
{
	local f objects=()
	for f in "$@"; do
		[ ! -f "$BUILD/out/bisect/${f%.c}.o" ] || objects+=("${f%.c}.o")
	done
	[ ${#objects[@]} -gt 0 ] || return 0
	(cd "$BUILD/out/bisect" && rm -f "${objects[@]}")
	# shellcheck disable=SC2016
	"$TOP/scripts/build" in bisect bash -c \
		'make -s O="$OUT" W=1 C=1 CHECK="sparse -D__typeof_unqual__=__typeof__" "$@" 2>&1' \
		- "${objects[@]}" >"$out/make" ||
		{ tail -n 20 "$out/make" >&2; die "W=1 C=1 ${objects[*]}: make failed"; }
	grep -E 'warning:|error:' "$out/make" |
		grep -vE "warning: symbol 'bpf_[a-z_]+' was not declared" |
		sed -E 's/:[0-9]+(:[0-9]+)?:/:/; s,^(\.\./|/mnt/src/)*,,' | sort -u || true
}

# sees_faults: neither gcc's warnings nor sparse's are lost on the way.
sees_faults()
{
	local f=$BUILD/bisect/lib/fault.c fault
	printf 'int fault;\nint fault2(void)\n{\n\treturn 0;\n}\n' >"$f"
	mkdir -p "$BUILD/out/bisect/lib"
	touch "$BUILD/out/bisect/lib/fault.o"
	warnings lib/fault.c >"$out/fault"
	rm -f "$f" "$BUILD/out/bisect/lib/fault.o"
	for fault in "symbol 'fault' was not declared" "no previous prototype for .fault2"; do
		grep -q "$fault" "$out/fault" || die "a known fault is not reported: $fault"
	done
}

# programs COMMIT: builds those that it touches. Not selftests/bpf, which take longer
# than all others together: scripts/ci regress builds them, at the end of the series.
programs()
{
	if touches "$1" tools/testing/selftests/bpf_provenance tools/bpf/bpftool tools/lib/bpf; then
		"$TOP/scripts/build" selftests bisect || return
	fi
	if touches "$1" tools/bpf/bpfprov; then
		# shellcheck disable=SC2016
		"$TOP/scripts/build" in bisect bash -c 'mkdir -p "$OUT/bpfprov" &&
			make -s -C tools/bpf/bpfprov OUTPUT="$OUT/bpfprov/" CLANG=clang' || return
	fi
	if touches "$1" tools/perf tools/lib/perf; then
		"$TOP/scripts/build" perf bisect || return
	fi
}

# kernel_of COMMIT...: a name for each, of what a kernel is built from there.
kernel_of()
{
	local c
	for c in "$@"; do
		{ plain_git -C "$LINUX" ls-tree "$c"
		  plain_git -C "$LINUX" ls-tree "$c" tools/
		} | sed -E '/\t(tools|tools\/testing|tools\/perf|Documentation)$/d' | plain_git hash-object --stdin
	done
}

# questions: a name for all that is asked of each patch, and what it is compared with.
questions()
{
	{ kernel_of base
	  "$TOP/scripts/series" symbols
	  cat "$TOP"/vmtest/kconfig/{common,bisect}.config \
		"$LINUX/tools/testing/selftests/bpf_provenance/config"
	  "$TOP/scripts/build" in bisect bash -c 'gcc --version; ld --version; sparse --version'
	  declare -f compiled warnings programs; } | plain_git hash-object --stdin
}

# keys QUESTIONS: "NUMBER COMMIT KEY SUBJECT", TAB between them, of each patch. One that
# passes is known by its key: a name for the kernels before and after it, the programs
# that it changes, and QUESTIONS.
keys()
{
	local c subject key n=0
	while read -r c subject; do
		n=$((n + 1))
		key=$(kernel_of "$c~" "$c" | paste -sd' ')
		! touches "$c" tools || key+=" $(plain_git -C "$LINUX" ls-tree "$c" tools/ tools/testing/selftests/ |
			plain_git hash-object --stdin)"
		key=$(plain_git -C "$LINUX" hash-object --stdin <<<"$key $1")
		printf '%s\t%s\t%s\t%s\n' "$n" "$c" "$key" "$subject"
	done < <(commits)
}

# Keys of patches that passed. It is not below build/: a pass through all takes hours, and
# who changes one of them, or a CI that sees the change, asks that one.
BISECTED=$CACHE/bisected

known() { [ ! -f "$BISECTED" ] || sed -nE 's/^([0-9a-f]{40}) .*/\1/p' "$BISECTED"; }

# passes KEYS KEY: adds KEY to them, and drops those that are of no patch any more.
passes()
{
	mkdir -p "$CACHE"
	{ [ ! -f "$BISECTED" ] || sed -n '/^#/p' "$BISECTED"
	  grep -Ff <(known; echo "$2") "$1" | cut -f3,4 --output-delimiter=' '
	} >"$BISECTED.part"
	mv "$BISECTED.part" "$BISECTED"
}

cmd_bisect()
{
	local c subject out files new accel booted="" n key all asked said list="" first last
	[ "${1:-}" != --list ] || { list=1; shift; }
	first=${1:-1}
	[[ $# -le 2 && $* =~ ^[0-9\ ]*$ ]] || { usage >&2; exit 2; }
	need_series
	last=$(commits | wc -l)
	all=$last last=${2:-$last}
	if [ "$first" -lt 1 ] || [ "$last" -lt "$first" ] || [ "$last" -gt "$all" ]; then
		die "no patches $first to $last: the series has $all"
	fi
	all="patches $first to $last"
	scratch
	mkdir -p "$BUILD/out/bisect"
	worktree "$BUILD/bisect" base
	asked=$(questions)
	keys "$asked" >"$out/keys"
	sed -n "$first,${last}p" "$out/keys" | { grep -vFf <(known) || [ $? = 1 ]; } >"$out/todo"
	if [ -n "$list" ]; then
		cut -f1,4 "$out/todo"
		return
	fi
	# Another one would check out another patch below this one's compiler.
	exec 6>"$BUILD/out/bisect/run.lock"
	flock -n 6 || die "another series bisect is under way in this checkout"
	if [ ! -s "$out/todo" ]; then
		say "bisect: each of $all is known to build without new warnings, and to boot"
		return
	fi
	mapfile -t files < <(commits | while read -r c _; do compiled "$c"; done | sort -u)
	# Objects of an earlier run: which files the configuration builds is seen by them.
	(cd "$BUILD/out/bisect" && rm -f built "${files[@]/%.c/.o}")
	# What the base says of them is asked once: it takes as long as ten patches.
	key=$(printf '%s\n' "$asked" "${files[@]}" | plain_git hash-object --stdin)
	said=$BUILD/out/bisect/base-warnings
	if [ "$(head -n 1 "$said" 2>/dev/null)" != "$key" ]; then
		plain_git -C "$BUILD/bisect" checkout -q -f --detach base
		"$TOP/scripts/build" kernel bisect
		sees_faults
		{ echo "$key"; warnings "${files[@]}"; } >"$out/said"
		mv "$out/said" "$said"
	fi
	tail -n +2 "$said" >"$out/base"
	accel=$("$TOP/vmtest/vmtest.sh" --print-accel --kernel "$BUILD/out/bisect/bzImage")
	while IFS=$'\t' read -r n c key subject <&3; do
		say "bisect: $n: $subject"
		plain_git -C "$BUILD/bisect" checkout -q -f --detach "$c"
		"$TOP/scripts/build" kernel bisect || die "$n: $c $subject: does not build"
		mapfile -t files < <(compiled "$c")
		for f in "${files[@]}"; do
			[ -f "$BUILD/out/bisect/${f%.c}.o" ] ||
				warn "$n: $c $subject: $f is not built with this configuration"
		done
		warnings "${files[@]}" >"$out/warnings"
		new=$(comm -13 "$out/base" "$out/warnings")
		[ -z "$new" ] || die "$n: $c $subject: new warnings:"$'\n'"$new"
		programs "$c" || die "$n: $c $subject: a program that it touches does not build"
		# Patches of tests leave the kernel as it was.
		if [ "$(cat "$BUILD/out/bisect/built")" != "$booted" ]; then
			"$TOP/vmtest/vmtest.sh" -q --accel "$accel" --kernel "$BUILD/out/bisect/bzImage" -- true ||
				die "$n: $c $subject: does not boot"
			booted=$(cat "$BUILD/out/bisect/built")
		fi
		# A configuration, or a checkout of build/linux, that changed meanwhile.
		[ "$(questions)" = "$asked" ] || die "$n: $c $subject: what is asked has changed meanwhile: run it again"
		passes "$out/keys" "$key"
	done 3<"$out/todo"
	say "bisect: each of $all builds without new warnings, and boots ($(wc -l <"$out/todo") asked, the others known)"
}

# --- test: every series by itself ---------------------------------------------

# tree_alone NAME: prints a commit with the base, the dependencies of NAME and NAME.
tree_alone()
{
	local names list tree
	mapfile -t names < <(closure "$1")
	mapfile -t list < <(patches_of "${names[@]}")
	GIT_INDEX_FILE=$out/index plain_git -C "$LINUX" read-tree base
	GIT_INDEX_FILE=$out/index plain_git -C "$LINUX" apply --cached --whitespace=nowarn \
		"${list[@]/#/$PATCHES/}" 2>"$out/alone" || return
	tree=$(GIT_INDEX_FILE=$out/index plain_git -C "$LINUX" write-tree)
	fixed_identity plain_git -C "$LINUX" commit-tree "$tree" -p base -m "${names[*]}"
}

# programs_of TREE: the selftests that it has.
programs_of()
{
	local dir=$1/tools/testing/selftests/bpf_provenance
	[ -d "$dir" ] || return 0
	grep -l '^TEST_HARNESS_MAIN' "$dir"/*.c | sed 's,.*/,,; s,\.c$,,' | paste -sd,
}

# adds NAME DIR: the tests in that folder of the selftests to which the series adds lines.
adds()
{
	local list
	mapfile -t list < <(patches_of "$1")
	sed -nE "s,^\\+\\+\\+ b/tools/testing/selftests/$2/(.*)\\.c\$,\\1,p" "${list[@]/#/$PATCHES/}" | sort -u
}

# guest LOG PROGRAMS OPTION...: run them in the kernel that was built; results go to LOG.
guest()
{
	local rc=0
	SELFTESTS=$2 "$TOP/vmtest/vmtest.sh" -q --kernel "$kernel/bzImage" --silence-timeout 900 \
		--log "$1.d" "${@:3}" >&2 || rc=$?
	# 1: a test failed, as the results show.
	[ $rc -le 1 ] || echo "not ok 0 guest" >>"$1"
	cat "$1.d/results" >>"$1" || echo "not ok 0 guest" >>"$1"
}

# tests_alone NAME LOG: what belongs to the series, on the kernel that was built.
tests_alone()
{
	local name=$1 log=$2 progs list modules
	: >"$log"
	progs=$(programs_of "$BUILD/alone")
	[ -z "$progs" ] || STORM_SECONDS=${STORM_SECONDS:-1} FUZZ_SECONDS=${FUZZ_SECONDS:-1} \
		guest "$log" "$kernel/selftests" --test-timeout 4800 -t "$progs"
	# Those of the whole series: test_progs takes a quarter of an hour to build.
	mapfile -t list < <(adds "$name" bpf/prog_tests)
	if [ ${#list[@]} -gt 0 ]; then
		"$TOP/scripts/build" test_progs series >&2
		"$TOP/scripts/build" test_kmods alone >&2
		mapfile -t modules < <(find "$kernel/test_kmods" -name '*.ko' -printf '--file\n%p\n')
		guest "$log" "$BUILD/out/series/test_progs" --memory 4096 "${modules[@]}" -- \
			/mnt/guest-regress "$(IFS=,; echo "${list[*]}")"
	fi
	mapfile -t list < <(adds "$name" net)
	if [ ${#list[@]} -gt 0 ]; then
		"$TOP/scripts/build" net_tests series >&2
		guest "$log" "$BUILD/out/series/net_tests" -- /mnt/guest-kselftests "${list[@]/#/net/}"
	fi
}

# verdict LOG: "N pass" or "none", or "no" and the tests that did not.
verdict()
{
	local failed passed
	failed=$(sed -nE -e 's/^not ok [0-9]+ ([^ ]+).*/\1/p' \
		-e 's/^#[0-9]+(\/[0-9]+)? +(.*):FAIL.*/\2/p' "$1" | sort -u | paste -sd' ')
	passed=$(grep -cE '^ok [0-9]+ |^#[0-9]+(/[0-9]+)? .*:OK' "$1" || true)
	if [ -n "$failed" ]; then
		echo "no: $failed"
	elif [ "$passed" = 0 ]; then
		echo none
	else
		echo "$passed pass"
	fi
}

# Each series is built in one tree, with the configuration of base and series. A series that
# adds no Kconfig symbol finds most objects of base in ccache.
cmd_test()
{
	local name c out bad=0 row kernel=$BUILD/out/alone log=$BUILD/log/series-test
	need_series
	scratch
	mkdir -p "$kernel" "$log"
	exec 6>"$kernel/run.lock"
	flock -n 6 || die "another series test is under way"
	worktree "$BUILD/alone" base
	[ $# -gt 0 ] || mapfile -t row < <(series_names)
	[ $# -gt 0 ] || set -- "${row[@]}"
	printf '%-28s %-8s %-8s %-8s %s\n' series applies builds boots tests | tee "$log/table"
	for name; do
		series_names | grep -qx "$name" || die "give the name of a series: $(series_names | paste -sd" ")"
		row=(no - - -)
		if c=$(tree_alone "$name"); then
			row[0]=yes row[1]=no
			plain_git -C "$BUILD/alone" checkout -q -f --detach "$c"
			if "$TOP/scripts/build" kernel alone >&2 &&
					{ [ -z "$(programs_of "$BUILD/alone")" ] || "$TOP/scripts/build" selftests alone >&2; }; then
				row[1]=yes row[2]=no
				"$TOP/vmtest/vmtest.sh" -q --kernel "$kernel/bzImage" -- true >&2 && row[2]=yes
			fi
		fi
		if [ "${row[2]}" = yes ]; then
			tests_alone "$name" "$log/$name"
			row[3]=$(verdict "$log/$name")
		fi
		[[ " ${row[*]} " != *" no"[\ :]* ]] || bad=1
		printf '%-28s %-8s %-8s %-8s %s\n' "$name" "${row[@]}" | tee -a "$log/table"
	done
	return $bad
}

# --- style --------------------------------------------------------------------

cmd_style()
{
	local out bad=0 c subject files
	local -A said	# by commit
	need_series
	scratch
	mkdir -p "$BUILD"/out/{base,series}
	grep -vE '^(#|$)' "$TOP/scripts/style.allow" | cut -f1 >"$out/allow"
	checkpatch
	while read -r c subject <&3; do
		grep -vEf "$out/allow" "${said[$c]}" >"$out/left" || [ $? = 1 ] ||
			die "scripts/style.allow has an expression that grep does not take"
		[ ! -s "$out/left" ] || { warn "$c $subject"; cat "$out/left" >&2; bad=1; }
		mapfile -t files < <(plain_git -C "$LINUX" show --format= --name-only --diff-filter=A "$c")
		for f in "${files[@]}"; do
			(cd "$LINUX" && scripts/get_maintainer.pl --no-git --no-git-fallback --no-rolestats \
				--no-l --subsystem -f "$f" 2>/dev/null) | grep -v @ | grep -qvx 'THE REST' ||
				{ warn "$c $subject: no entry in MAINTAINERS covers $f"; bad=1; }
		done
	done 3< <(commits)
	mapfile -t files < <(plain_git -C "$LINUX" diff --name-only --diff-filter=AM base series -- '*.[ch]' ':!tools/testing')
	if [ ${#files[@]} -gt 0 ]; then
		"$TOP/scripts/build" in series scripts/kernel-doc -none -Werror "${files[@]}" >"$out/log" 2>&1 || {
			# A file of the base may have faults of its own.
			"$TOP/scripts/build" in base scripts/kernel-doc -none -Werror "${files[@]}" >"$out/base" 2>&1 || true
			diff <(sed -E 's/:[0-9]+/:/' "$out/base" | sort) <(sed -E 's/:[0-9]+/:/' "$out/log" | sort) |
				grep -E '^> (Warning|Error):' >&2 && bad=1
		}
		# Its scripts are about functions of the kernel, which programs do not have.
		mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -v '^tools/')
		coccicheck "${files[@]}" || bad=1
	fi
	[ "$bad" = 0 ] || die "style: see above"
	say "style: checkpatch, kernel-doc and coccicheck have nothing to say of $(commits | wc -l) patches"
}

# checkpatch: sets said[COMMIT] to the file with what it says of the patch. That is kept
# under the name of all that it depends on; asked are the patches of which nothing is
# known yet. build/linux has no history: a commit that is named in a Fixes tag is unknown
# to it. New files below a directory that MAINTAINERS covers need no new entry;
# get_maintainer is asked instead.
checkpatch()
{
	local c kept dir=$BUILD/out/series/checkpatch
	mkdir -p "$dir"
	rm -f "$dir"/*.{patch,part,errors}
	plain_git -C "$LINUX" rev-parse series:scripts/checkpatch.pl series:scripts/spelling.txt >"$out/asked"
	while read -r c _; do
		plain_git -C "$LINUX" format-patch -q -1 --zero-commit --stdout "$c" >"$out/patch"
		kept=$dir/$(cat "$out/patch" "$out/asked" | plain_git hash-object --stdin)
		said[$c]=$kept.log
		[ -f "$kept.log" ] || { cp "$out/patch" "$kept.patch"; echo "${kept##*/}"; }
	done < <(commits) >"$out/todo"
	# It fails where it has something to say, and says nothing where it fails.
	# shellcheck disable=SC2016
	"$TOP/scripts/build" in series xargs -r -n 1 -P "$JOBS" bash -c '
		kept=$OUT/checkpatch/$0
		scripts/checkpatch.pl --strict --codespell --terse --showfile --no-summary \
			--max-line-length=100 --show-types \
			--ignore MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID,FILE_PATH_CHANGES \
			"$kept.patch" >"$kept.part" 2>"$kept.errors" || [ -s "$kept.part" ] || exit 255
		[ ! -s "$kept.errors" ] || exit 255
		rm "$kept.errors" "$kept.patch"
		mv "$kept.part" "$kept.log"' <"$out/todo" ||
		die "checkpatch: $(cat "$dir"/*.errors | tail -n 1)"
}

# coccicheck FILE...: reports that the base does not have. A script that does not
# end within COCCI_TIMEOUT seconds on a file, or cannot run here, is named.
#
# No script is given the headers that a file includes: its result depends on the file
# alone, and is kept under the names of the two blobs. The base is asked only where
# there is a report.
COCCI_TIMEOUT=60
coccicheck()
{
	local f s scripts kept new bad=0 runs=0 none=0
	# A spatch that does not work reports nothing: it has to find a known fault.
	printf 'void f(void *p) { if (p) kfree(p); }\n' >"$BUILD/out/series/fault.c"
	# shellcheck disable=SC2016
	"$TOP/scripts/build" in series bash -c 'spatch -D report --very-quiet --no-show-diff --no-includes \
		--cocci-file scripts/coccinelle/free/ifnullfree.cocci "$OUT/fault.c"' 2>"$out/cocci.log" |
		grep -q 'NULL check' || die "spatch does not report a known fault: $(tail -n 1 "$out/cocci.log")"
	mapfile -t scripts < <(plain_git -C "$LINUX" grep -lE 'virtual[[:space:]]+report' series -- 'scripts/coccinelle/*.cocci' | cut -d: -f2)
	[ ${#scripts[@]} -gt 0 ] || die "the tree has no .cocci script with a report mode"
	for f in "$@"; do
		for s in "${scripts[@]}"; do printf 'series\t%s\t%s\n' "$f" "$s"; done
	done >"$out/series.runs"
	spatch_runs <"$out/series.runs"
	while IFS=$'\t' read -r _ f s; do
		[ ! -s "$(spatch_result series "$f" "$s")" ] || printf 'base\t%s\t%s\n' "$f" "$s"
	done <"$out/series.runs" >"$out/base.runs"
	spatch_runs <"$out/base.runs"
	while IFS=$'\t' read -r _ f s; do
		runs=$((runs + 1))
		kept=$(spatch_result series "$f" "$s")
		if [ ! -f "$kept" ]; then
			none=$((none + 1))
			printf '    %s on %s: %s\n' "$s" "$f" "$(tail -n 1 "$kept.log")"
			continue
		fi
		new=$(comm -13 <(sort "$(spatch_result base "$f" "$s")" 2>/dev/null) <(sort "$kept"))
		[ -z "$new" ] || { printf '%s\n' "$new" | sed "s,^,$f: ${s##*/}: ," >&2; bad=1; }
	done <"$out/series.runs" >"$out/none"
	say "coccicheck: ${#scripts[@]} scripts on $# files; $none of $runs runs have no result"
	cat "$out/none" >&2
	[ "$none" -lt "$runs" ] || bad=1
	return $bad
}

# spatch_result REV FILE SCRIPT: where its reports are kept; REV may lack the file.
spatch_result()
{
	local blobs
	blobs=$(plain_git -C "$LINUX" rev-parse "$1:$2" "series:$3" 2>/dev/null | paste -sd/)
	printf '%s' "$BUILD/out/series/cocci/$blobs"
}

# spatch_runs: "REV TAB FILE TAB SCRIPT" lines, those that have no result yet.
spatch_runs()
{
	local rev f s kept
	while IFS=$'\t' read -r rev f s; do
		kept=$(spatch_result "$rev" "$f" "$s")
		[ ! -f "$kept" ] || continue
		plain_git -C "$LINUX" cat-file -e "$rev:$f" 2>/dev/null || continue
		mkdir -p "${kept%/*}"
		[ -f "${kept%/*}/${f##*/}" ] || plain_git -C "$LINUX" show "$rev:$f" >"${kept%/*}/${f##*/}"
		printf '%s\n' "$s" "${kept#"$BUILD/out/series/"}" "${f##*/}"
	done >"$out/todo"
	# What moved is not new: positions are cut out, those in the text as well.
	# shellcheck disable=SC2016
	"$TOP/scripts/build" in series xargs -r -d '\n' -n 3 -P "$JOBS" bash -c '
		kept=$OUT/$3
		if spatch -D report --very-quiet --no-show-diff --no-includes --timeout "$1" \
				--cocci-file "$2" "${kept%/*}/$4" >"$kept.part" 2>"$kept.log"; then
			sed -E -e "s/^[^ ]*:[0-9]+:[0-9-]+: *//" -e "s/line [0-9]+/line/g" "$kept.part" >"$kept"
			rm "$kept.log"
		fi
		rm "$kept.part"' - "$COCCI_TIMEOUT" <"$out/todo"
}

# --- rebase -------------------------------------------------------------------

# rebase_done: the new base is the base now.
rebase_done()
{
	say "rebase: what the patches became"
	plain_git -C "$LINUX" range-diff base..series new-base..rebased || true
	keep series
	plain_git -C "$LINUX" tag -f base new-base >/dev/null
	plain_git -C "$LINUX" tag -d new-base >/dev/null
	plain_git -C "$LINUX" checkout -q -B series
	plain_git -C "$LINUX" branch -q -D rebased
	plain_git -C "$BUILD/base" checkout -q -f --detach base
	sed -i "s/^version=.*/version=$(kernel_version "$BUILD/base")/" "$PATCHES/BASE"
	say "rebase: patches/BASE names Linux $(kernel_version "$BUILD/base") now; its checksum is for you to change"
	patches_sum >"$LINUX/.git/series-sum"
	cmd_export
}

cmd_rebase()
{
	local index tree
	if [ "${1:-}" = --continue ]; then
		[ ! -d "$LINUX/.git/rebase-apply" ] || die "git am is not done: git -C build/linux am --continue"
		[ "$(plain_git -C "$LINUX" symbolic-ref -q HEAD)" = refs/heads/rebased ] ||
			die "no rebase is under way"
		[ "$(plain_git -C "$LINUX" rev-list --count new-base..HEAD)" = "$(patch_list | wc -l)" ] ||
			die "not every patch is on the new base: git -C build/linux checkout series gives up"
		rebase_done
		return
	fi
	[ $# = 1 ] || { usage >&2; exit 2; }
	[ -n "$(kernel_version "$1")" ] || die "$1 is no kernel tree"
	need_series
	[ -z "$(unexported HEAD series)" ] ||
		die "build/linux has commits that were not exported: scripts/series export"
	index=$(mktemp -u)
	(cd "$1" && GIT_DIR=$LINUX/.git GIT_WORK_TREE=. GIT_INDEX_FILE=$index plain_git add -Af .)
	tree=$(GIT_INDEX_FILE=$index plain_git -C "$LINUX" write-tree)
	rm "$index"
	plain_git -C "$LINUX" tag -f new-base "$(fixed_identity plain_git -C "$LINUX" \
		commit-tree "$tree" -m "Linux $(kernel_version "$1")")" >/dev/null
	plain_git -C "$LINUX" checkout -q -f -B rebased new-base
	if ! patch_list | sed "s,^,$PATCHES/," | (cd "$LINUX" && xargs -d '\n' git -c user.name="bpf-provenance developers" \
			-c user.email=devel@bpf-provenance.invalid am -q -3); then
		die "resolve it in build/linux, git am --continue, then scripts/series rebase --continue (git am --abort && git checkout series gives up)"
	fi
	rebase_done
}
