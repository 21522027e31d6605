# SPDX-License-Identifier: GPL-2.0
# Sourced by scripts/series, bisect, mail, rebase, series-test and style: reads patches/.
# shellcheck shell=bash

# patch_list: every patch in order.
patch_list() { cat "$PATCHES/series"; }

# patch_files: the same as paths.
patch_files()
{
	local list
	mapfile -t list < <(patch_list)
	[ ${#list[@]} = 0 ] || printf '%s\n' "${list[@]/#/$PATCHES/}"
}

# valid_list: patches/series names each patch file once, and each that exists.
valid_list()
{
	[ -r "$PATCHES/BASE" ] || die "no $PATCHES/BASE: run from a complete checkout"
	diff <(patch_list | sort) \
	     <(cd "$PATCHES" && find . -name '*.patch' -printf '%P\n' | sort) >&2 ||
		die "$PATCHES/series (<) and the patch files (>) differ: git checkout -- patches restores what was committed"
}

# subjects: "SERIES TAB SUBJECT" of each patch in order, unfolded.
subjects()
{
	# shellcheck disable=SC2016  # for awk
	patch_files | xargs -rd '\n' awk '
		FNR == 1 { subject = ""; folded = 0 }
		folded && /^ / { subject = subject $0; next }
		folded { print name "\t" subject; folded = 0; nextfile }
		/^Subject: / {
			n = split(FILENAME, part, "/")
			name = part[n - 1]
			subject = substr($0, 10)
			sub(/^\[PATCH\] /, "", subject)
			folded = 1
		}'
}

# series_names: every series, in order.
series_names() { patch_list | awk -F/ '!seen[$1]++ { print $1 }'; }

# header NAME KEY: the words of that line in its header.
header() { sed -n "s/^$2: *//p" "$PATCHES/$1/header"; }

# closure NAME...: these and all that they depend on, in the order of patches/series.
closure()
{
	local todo=("$@") name list
	local -A in=() needs=()
	# Reading each header by itself takes most of the time of series check.
	while IFS=/: read -r name _ _ list; do
		needs[$name]+=$list
	done < <(cd "$PATCHES" && grep -sH '^depends:' -- */header)
	while [ ${#todo[@]} -gt 0 ]; do
		name=${todo[0]}
		todo=("${todo[@]:1}")
		[ -z "${in[$name]:-}" ] || continue
		in[$name]=1
		[ -r "$PATCHES/$name/header" ] || die "no patches/$name/header"
		# shellcheck disable=SC2206  # words
		todo+=(${needs[$name]:-})
	done
	series_names | grep -xF -f <(printf '%s\n' "${!in[@]}")
}

# patches_of NAME...: their patch files, in the order of patches/series.
patches_of() { patch_list | grep -E "^($(paste -sd'|' <(printf '%s\n' "$@")))/"; }

# apply_alone REPO INDEX NAME: reads the base of REPO, the dependencies of NAME and NAME into
# INDEX. If one does not apply, the errors are in $out/alone.
apply_alone()
{
	local names list
	mapfile -t names < <(closure "$3")
	mapfile -t list < <(patches_of "${names[@]}")
	GIT_INDEX_FILE=$2 plain_git -C "$1" read-tree base
	GIT_INDEX_FILE=$2 plain_git -C "$1" apply --cached --whitespace=nowarn \
		"${list[@]/#/$PATCHES/}" 2>"$out/alone"
}

# scratch: sets out to a directory that is removed when the script ends.
scratch()
{
	out=$(mktemp -d)
	# shellcheck disable=SC2064
	trap "rm -rf '$out'" EXIT
}

is_git() { [ "$(git -C "$1" rev-parse --show-toplevel 2>/dev/null)" = "$1" ]; }
