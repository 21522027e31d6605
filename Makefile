# SPDX-License-Identifier: GPL-2.0
# What a person types; the work is in scripts/ and vmtest/.

help:
	@echo 'make run               quick tier: fetch, apply, build, boot, test, print a table'
	@echo '                       (storms and fuzzers for 1 s; base as recorded, where it is)'
	@echo 'make check             full tier: scripts, patches, and the run on both kernels'
	@echo 'make check-debug       the tests with KASAN, lockdep, leak detection; with PREEMPT_RT;'
	@echo '                       with KCSAN; odd configurations (FLAVOURS="NAME..." chooses)'
	@echo 'make controls          that tests fail where the series lacks what they test'
	@echo '                       (CONTROLS="NAME..." chooses, of vmtest/controls)'
	@echo 'make litmus            the lockless protocols with herd7 and the memory model of the kernel'
	@echo 'make mutants           without a check or a barrier, a test must fail (MUTANTS="NAME...")'
	@echo 'make seeds             write the first table of README.md from base and prod'
	@echo 'make expect            rows for vmtest/expect.base that the last run of base asks for'
	@echo 'make record            record the results of base of the last green check, for make run'
	@echo 'make perf              what perf makes of what is gone, with and without the series, beside bpfprov'
	@echo 'make bench             instructions per operation, base against series'
	@echo 'make fuzz              for 10 minutes: ELF files against libelf; system calls and programs in a VM'
	@echo 'make coverage          which lines of the series its tests run'
	@echo 'make regress           BPF tests, kselftests of Linux itself, base against series'
	@echo 'make shell             a shell in a VM with the patched kernel'
	@echo 'make apply KERNEL=DIR  put the series on a kernel tree of yours'
	@echo 'make edit              the series as commits in build/linux, and how to change them'
	@echo 'make export            write patches/ and the copies from build/linux'
	@echo 'make clean             remove build/ (the cache stays: scripts/fetch --help)'
	@echo
	@echo 'KERNEL=DIR             also: take this tree instead of fetching Linux'
	@echo 'TOOLCHAIN=host|root    the tools of this machine, or of a Debian root (default: probed)'
	@echo 'DEPS=no                install no packages: list those that are missing'
	@echo 'BUILD=DIR              where to build (default: build/); XDG_CACHE_HOME: what is kept'

run check seeds perf expect record:
	@scripts/ci $@

check-debug:
	@scripts/ci $@ $(FLAVOURS)

controls:
	@scripts/ci $@ $(CONTROLS)

bench coverage regress litmus:
	@scripts/$@

mutants:
	@scripts/mutants $(MUTANTS)

fuzz:
	@scripts/fuzz parser
	@scripts/fuzz calls

shell:
	@scripts/series tree
	@vmtest/vmtest.sh --shell

apply:
	@scripts/series apply "$(or $(KERNEL),$(error say make apply KERNEL=/path/to/a/kernel/tree))"

edit export:
	@scripts/series $@

# Only what was exported can be made again.
clean:
	@scripts/series clean

.PHONY: help run check expect record perf check-debug controls seeds bench litmus mutants coverage regress fuzz shell apply edit export clean
