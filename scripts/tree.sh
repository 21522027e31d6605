# SPDX-License-Identifier: GPL-2.0
# Sourced by scripts/series, bisect, style, series-test and rebase: reads build/linux.
# shellcheck shell=bash

# refs/series/: exported commits. "exported" is the one that patches/ was made from, or makes;
# others have the name of a branch that keep() made.

fixed_identity()
{
	local date="2026-01-01T00:00:00 +0000"
	GIT_AUTHOR_NAME="bpf-provenance developers" \
	GIT_AUTHOR_EMAIL="devel@bpf-provenance.invalid" \
	GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date "$@"
}

refuse_dirty()
{
	local status
	status=$(plain_git -C "$LINUX" status --porcelain --untracked-files=normal) ||
		die "git does not read build/linux (above)"
	[ -z "$status" ] ||
		die "build/linux has uncommitted changes: $1 (git -C build/linux status)"
	if [ -d "$LINUX/.git/rebase-merge" ] || [ -d "$LINUX/.git/rebase-apply" ]; then
		die "a rebase is under way in build/linux: finish or abort it"
	fi
}

# unexported REV...: a commit of these that is neither the base's nor exported. An error is no
# proof that there is none.
unexported()
{
	plain_git -C "$LINUX" rev-list --max-count=1 "$@" --not base --glob="refs/series/*" || echo unknown
}

# keep COMMIT: as a branch of its own.
keep()
{
	local name=series-previous n=1
	while plain_git -C "$LINUX" rev-parse -q --verify "refs/heads/$name" >/dev/null; do
		n=$((n + 1))
		name=series-previous-$n
	done
	plain_git -C "$LINUX" branch -q "$name" "$1"
	[ -n "$(unexported "$1")" ] || plain_git -C "$LINUX" update-ref "refs/series/$name" "$1"
	say "build/linux: its previous state stays as branch $name"
}

patches_sum() { (cd "$PATCHES" && { cat BASE series; patch_list | xargs -r cat; } | sha256sum); }

# commits: all commits of the series, oldest first, each with its subject.
commits() { plain_git -C "$LINUX" log --reverse --format='%h %s' base..series; }

need_series()
{
	plain_git -C "$LINUX" rev-parse -q --verify refs/heads/series >/dev/null ||
		die "no build/linux: run scripts/series tree first"
	refuse_dirty "commit them first"
}

# patches_applied: the progress of git am in $tree.
patches_applied()
{
	local state n last
	# shellcheck disable=SC2154  # the caller's
	state=$(git -C "$tree" rev-parse --absolute-git-dir)/rebase-apply
	read -r n <"$state/next" && read -r last <"$state/last" && echo "patch $n of $last"
}
