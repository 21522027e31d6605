# SPDX-License-Identifier: GPL-2.0
# Everyday commands; scripts/ci and scripts/series have the others.

help:
	@echo 'make run               quick tier: fetch, apply, build, boot, test, print a table'
	@echo '                       (stress tests and fuzzers for 1 s; recorded results of base,'
	@echo '                       if they still apply)'
	@echo 'make check             full tier: both kernels, scripts, patches, perf'
	@echo 'make check-debug       the tests with KASAN, lockdep, leak detection; with PREEMPT_RT;'
	@echo '                       with KCSAN; other configurations (only one: scripts/ci debug)'
	@echo 'make bench             instructions per operation, base against series'
	@echo 'make apply KERNEL=DIR  apply all patches to a kernel tree of yours'
	@echo 'make edit              all patches as commits in build/linux, and how to change them'
	@echo 'make export            write patches/ and the copies from build/linux'
	@echo 'make clean             remove build/ (the cache stays: scripts/fetch --help)'
	@echo
	@echo 'scripts/ci NAME...     other tests: perf promises docs runtimes expect record litmus'
	@echo '                       mutants coverage regress fuzz style ... (--help)'
	@echo 'scripts/series NAME    work on the patches: check bisect test rebase mail ... (--help)'
	@echo 'vmtest/vmtest.sh --shell   a shell in a guest with the series'
	@echo
	@echo 'KERNEL=DIR             except for apply: copy this tree instead of fetching Linux'
	@echo 'TOOLCHAIN=host|root    the tools of this machine, or of a Debian root (default: probed)'
	@echo 'DEPS=no                install no packages: list those that are missing'
	@echo 'BUILD=DIR              where to build (default: build/); XDG_CACHE_HOME: the cache'
	@echo '                       (default: ~/.cache)'

run check check-debug bench:
	@scripts/ci $@

apply:
	@scripts/series apply "$(or $(KERNEL),$(error usage: make apply KERNEL=/path/to/a/kernel/tree))"

# clean: uncommitted or unexported edits in build/linux cannot be made again.
edit export clean:
	@scripts/series $@

.PHONY: help run check check-debug bench apply edit export clean
