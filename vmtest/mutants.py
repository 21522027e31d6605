#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read vmtest/mutants: small faults of the series that its tests must notice.

usage: mutants.py names FILE [--guest] [PATH...]  the names of all mutants, one a line; of those
                                               that tests catch; of those that change PATH
       mutants.py check FILE TREE [LAST]       does each one fit the kernel tree TREE, and its
                                               litmus tests? how many have no result in LAST?
       mutants.py apply FILE TREE              put all of them into TREE, each switched off
       mutants.py kinds FILE NAME...           "NAME TAB" run, tool, alone, perf, litmus or a verdict
       mutants.py litmus FILE TREE NAME...     the files of their litmus tests in the kernel tree
       mutants.py proofs FILE TREE HERD NAME...   "NAME TAB VERDICT" lines, of herd7's output for
                                               these files
       mutants.py perf FILE PERF NAME...       run the tests of that perf: "NAME TAB VERDICT" lines
       mutants.py batch FILE NAME...           "NUMBER NAME TEST,TEST..." for guest-mutants
       mutants.py control FILE NAME...         the same of their tests, without a mutant
       mutants.py verdicts FILE LOG [CONTROL]  of the guest with the files results, console and
                                               status in LOG: "NAME TAB VERDICT" lines. If a test
                                               failed or the kernel complained without a mutant, in
                                               LOG or in CONTROL, that catches none
       mutants.py record FILE LAST VERDICTS    replace, in the file LAST, the results of the mutants
                                               that the "NAME TAB VERDICT" lines are about
       mutants.py block FILE LAST              the block of doc/results.md, from LAST

The file has a block for each mutant, with an empty line after it:

    mutant NAME
    file PATH
    after TEXT              optional: look for the text below the first place with TEXT
    -TEXT                   the text as it is: once in the tree, or the first one after
    +TEXT                   the text as it becomes; MUTANT is true in the mutant alone
    caught-by TEST: REGEX   a test that must fail, and the output that it must print; ".": any.
                            Several lines for one test: it must print all of them
    caught-by litmus: TEST: LINE   the litmus test has a variant without this line, in which the
                            bad state is reachable. Where the test has the line several times,
                            LINE is continued with those after it. If a mutant also names tests,
                            only these are run; --check still looks for the variant
    caught-by perf: CASE: REGEX   a case of perf test that must fail, and the check that it prints
    survives REASON         no test can fail, and the reason
    alone                   optional: its effects on the guest would fail later tests

"file" may be repeated for a change of several places. Several lines of text are joined.
All mutants are in one kernel. Its parameter mutant=NUMBER switches one on, at boot or in
/sys/module/kernel/parameters/mutant; the number is a hash of the name, so that a new mutant
does not change the objects of the others. Those of bpfprov are in one bpfprov, which reads
this parameter, and so do its BPF programs. Those of perf are in one perf, and the variable
KERNEL_MUTANT of its environment has the number.

A result in LAST is that of the block with its hash: if the block has changed, it has none.
"""
import hashlib
import os
import re
import signal
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import litmus
from ktap import ere, lines_of, rows, run_of

SWITCH = "kernel_mutant"
SOURCE = f"""// SPDX-License-Identifier: GPL-2.0
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/moduleparam.h>

extern int {SWITCH};
int {SWITCH} __read_mostly;
core_param(mutant, {SWITCH}, int, 0644);
EXPORT_SYMBOL({SWITCH});
"""
PERF_SOURCE = f"""// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

extern int {SWITCH};
int {SWITCH};

static void __attribute__((constructor)) set_mutant(void)
{{
	const char *number = getenv("{SWITCH.upper()}");

	{SWITCH} = number ? atoi(number) : 0;
}}
"""
TOOL = "tools/bpf/bpfprov/"
# Appended to its main.c.
TOOL_SOURCE = f"""
int {SWITCH};

static void __attribute__((constructor)) set_mutant(void)
{{
	FILE *f = fopen("/sys/module/kernel/parameters/mutant", "re");

	if (f && fscanf(f, "%d", &{SWITCH}) != 1)
		{SWITCH} = 0;
	if (f)
		fclose(f);
}}
"""
# In a file with BPF programs.
BPF_SOURCE = f"""#ifndef {SWITCH}_is
/* Weak: a test may have hidden it in /proc/kallsyms. Then it reads 0. */
extern const void {SWITCH} __attribute__((section(".ksyms"), weak));
#define {SWITCH}_is(number) ({{ int switched; \\
	bpf_probe_read_kernel(&switched, sizeof(switched), &{SWITCH}); switched == (number); }})
#endif
"""
# Not the names of tests in the guest.
OTHERS = ("litmus", "perf")


PERF_SECONDS = 600
# A mutant's name begins with one of these.
AREAS = ("buildid", "inet-fixes", "udp-fixes", "iomap", "task-vma", "bpf-event", "cgroup-sock", "bpfprov")
COLUMNS = ("area", "mutants", "caught", "by the model", "explained", "not caught", "no result")


@dataclass
class Place:
    path: str
    after: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def find(self, text: str) -> tuple[int, int]:
        """Where the old text begins and ends."""
        old = "\n".join(self.old)
        start = text.find(self.after)
        if start < 0:
            raise ValueError(f"{self.path} has no '{self.after}'")
        at = text.find(old, start)
        if at < 0:
            raise ValueError(f"{self.path} does not have: {self.old[0].strip()}")
        if not self.after and text.find(old, at + 1) >= 0:
            raise ValueError(f"{self.path} has this twice: {self.old[0].strip()}")
        return at, at + len(old)


@dataclass
class Mutant:
    name: str
    line: int
    places: list[Place] = field(default_factory=list)
    caught_by: list[tuple[str, str]] = field(default_factory=list)
    survives: str = ""
    alone: bool = False
    text: list[str] = field(default_factory=list)       # the block

    @property
    def number(self) -> int:
        return zlib.crc32(self.name.encode()) & 0x7fffffff

    @property
    def hash(self) -> str:
        return hashlib.sha256("\n".join(self.text).encode()).hexdigest()[:12]

    @property
    def area(self) -> str:
        return next((area for area in AREAS if self.name.startswith(f"{area}-")), "")

    @property
    def tests(self) -> dict[str, list[str]]:
        """Tests in a guest, and the expressions that the output of each must match."""
        tests: dict[str, list[str]] = {}
        for test, regex in self.caught_by:
            if test not in OTHERS:
                tests.setdefault(test, []).append(regex)
        return tests

    @property
    def cases(self) -> list[tuple[str, str]]:
        """Cases of perf test, and the check that fails in each."""
        return [(case, regex) for kind, value in self.caught_by if kind == "perf"
                for case, _, regex in [value.partition(": ")]]

    @property
    def in_perf(self) -> bool:
        return any(p.path.startswith(("tools/perf/", "tools/lib/perf/")) for p in self.places)

    @property
    def in_tool(self) -> bool:
        return any(p.path.startswith(TOOL) for p in self.places)

    @property
    def kind(self) -> str:
        if self.tests:
            return "alone" if self.alone else "tool" if self.in_tool else "run"
        if self.cases:
            return "perf"
        return "litmus" if self.caught_by else f"explained: {self.survives}"

    @property
    def proofs(self) -> list[tuple[str, str]]:
        """Litmus tests, and the line that a variant of each lacks."""
        return [(test, line) for kind, name in self.caught_by if kind == "litmus"
                for test, _, line in [name.partition(": ")]]

    def problem(self) -> str:
        if not self.places or not all(p.old for p in self.places):
            return "lacks a place or its text"
        if not all("MUTANT" in "".join(p.new) for p in self.places):
            return "has no MUTANT in the new text"
        if bool(self.caught_by) == bool(self.survives):
            return "needs either caught-by or survives"
        if not all(line for _, line in self.proofs):
            return "names no line of the litmus test"
        if not all(regex for _, regex in self.cases):
            return "names no check of the case of perf test"
        if self.alone and self.in_tool:
            return "is alone, which bpfprov has no need of"
        if not self.survives and self.in_perf != bool(self.cases):
            return "needs cases of perf test if it changes perf, and only then"
        return ""


def read(path: Path) -> dict[str, Mutant]:
    mutants: dict[str, Mutant] = {}
    mutant: Mutant | None = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        key, _, value = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if key == "mutant":
            if value in mutants:
                sys.exit(f"{path}:{number}: {value} is there twice")
            mutant = mutants[value] = Mutant(value, number)
        elif mutant is None:
            sys.exit(f"{path}:{number}: no mutant before this line")
        elif key == "file":
            mutant.places.append(Place(value))
        elif key == "caught-by" and ": " in value:
            test, _, regex = value.partition(": ")
            mutant.caught_by.append((test, regex))
        elif key == "survives" and value:
            mutant.survives = value
        elif line == "alone":
            mutant.alone = True
        elif key == "after" and mutant.places:
            mutant.places[-1].after = value
        elif line[0] in "-+" and mutant.places:
            (mutant.places[-1].old if line[0] == "-" else mutant.places[-1].new).append(line[1:])
        else:
            sys.exit(f"{path}:{number}: neither a key nor code: {line}")
        mutant.text.append(line)
    numbers = {0: "none"}
    for mutant in mutants.values():
        if (other := numbers.setdefault(mutant.number, mutant.name)) != mutant.name:
            sys.exit(f"{path}:{mutant.line}: {mutant.name} and {other} have the same number")
        if mutant.problem():
            sys.exit(f"{path}:{mutant.line}: {mutant.name} {mutant.problem()}")
    return mutants


def edits(mutants: dict[str, Mutant], tree: Path) -> tuple[dict[str, str], list[str]]:
    """The changed files, and the places that do not fit."""
    changed, errors = {}, []
    for path in sorted({p.path for m in mutants.values() for p in m.places}):
        if not (tree / path).is_file():
            errors.append(f"no file {path}")
            continue
        text = (tree / path).read_text()
        found: list[tuple[int, int, Mutant, Place]] = []
        for mutant in mutants.values():
            for place in mutant.places:
                try:
                    if place.path == path:
                        found.append((*place.find(text), mutant, place))
                except ValueError as error:
                    errors.append(f"mutant {mutant.name}: {error}")
        found.sort(key=lambda f: f[:2])
        for (_, end, one, _), (start, _, other, _) in zip(found, found[1:]):
            if start < end:
                errors.append(f"mutants {one.name} and {other.name} change the same text")
        is_bpf = ".bpf." in path
        for start, end, mutant, place in reversed(found):
            switched = f"{SWITCH}_is({mutant.number})" if is_bpf else f"({SWITCH} == {mutant.number})"
            text = text[:start] + "\n".join(place.new).replace("MUTANT", switched) + text[end:]
        # After the line of the license.
        first, _, rest = text.partition("\n")
        head = BPF_SOURCE if is_bpf else f"extern int {SWITCH};\n"
        changed[path] = f"{first}\n{head}{rest}"
    return changed, errors


def apply(mutants: dict[str, Mutant], tree: Path) -> int:
    changed, errors = edits(mutants, tree)
    makefile = (tree / "kernel/Makefile").read_text()
    changed |= {"kernel/mutant.c": SOURCE, "kernel/Makefile": makefile + "obj-y += mutant.o\n"}
    if any(m.in_perf for m in mutants.values()):
        build = (tree / "tools/perf/util/Build").read_text()
        changed |= {"tools/perf/util/mutant.c": PERF_SOURCE,
                    "tools/perf/util/Build": build + "perf-util-y += mutant.o\n"}
    if any(m.in_tool for m in mutants.values()):
        main = f"{TOOL}main.c"
        changed[main] = (changed.get(main) or (tree / main).read_text()) + TOOL_SOURCE
    if not errors:
        for path, text in changed.items():
            (tree / path).write_text(text)
    return report(errors)


def report(errors: list[str]) -> int:
    for error in errors:
        print(error)
    return 1 if errors else 0


def file_of(test: str, tree: Path) -> Path:
    found = list(tree.glob(f"Documentation/litmus-tests/*/{test}.litmus"))
    if len(found) != 1:
        raise ValueError(f"{len(found) or 'no'} litmus tests {test}")
    return found[0]


def variant_of(name: str, line: str, tree: Path) -> tuple[litmus.Test, litmus.Variant]:
    test = litmus.read(file_of(name, tree))
    found = test.changed(line)
    if len(found) != 1:
        raise ValueError(f"{name} has {len(found) or 'no'} variants without: {line}")
    if found[0].want != "Sometimes":
        raise ValueError(f"{name} without '{line}' must be {found[0].want}")
    return test, found[0]


def without_variant(mutants: dict[str, Mutant], tree: Path) -> list[str]:
    """Mutants whose litmus test does not have the variant that they name."""
    errors = []
    for mutant in mutants.values():
        for name, line in mutant.proofs:
            try:
                variant_of(name, line, tree)
            except ValueError as error:
                errors.append(f"mutant {mutant.name}: {error}")
    return errors


def proof(mutant: Mutant, tree: Path, herd: Path) -> str:
    """The verdict on a mutant that the memory model judges."""
    try:
        found, errors = litmus.found_in(herd)
        if errors:
            return f"failed: herd7: {errors[0]}"
        for name, line in mutant.proofs:
            test, _ = variant_of(name, line, tree)
            for v in test.variants:
                if why := litmus.wrong(v, found.get(v.name)):
                    return f"failed: litmus test {v.name}: {why}"
    except (OSError, ValueError) as error:
        return f"failed: {error}"
    return "proven by the model: " + "; ".join(f"{name} without {line}" for name, line in mutant.proofs)


def sections(lines: list[str]) -> dict[str, list[str]]:
    """The lines after each line of guest-mutants that names a mutant."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        _, mark, said = line.rstrip("\r").partition("guest-mutants: ")
        if mark:
            name = said
        found.setdefault(name, []).append(line)
    return found


@dataclass
class Control:
    """Without a mutant: the tests that did not pass, and what the kernel complained about."""

    bad: dict[str, str]
    complaint: str


@cache
def denied() -> list[re.Pattern[str]]:
    return [ere(row[0]) for row in rows(Path(__file__).with_name("splats.deny"))]


def complaint(console: list[str]) -> str:
    return next((line.strip() for line in console if any(regex.search(line) for regex in denied())), "")


# Of vmtest.sh: the kernel panicked; silence, or the time-out. With another one, the machine that
# runs the guest may be the cause, as when QEMU is killed.
DIED = ("4", "7")


def judge(mutant: Mutant, printed: list[str], console: list[str], died: str, control: Control) -> str:
    """DIED: if the guest ended in its tests, the exit status of vmtest.sh."""
    if line := complaint(console):
        return (f"failed: without it, the kernel complained: {control.complaint}" if control.complaint else
                f"caught: the kernel complained: {line}")
    run, bad = run_of(printed), control.bad
    if run.errors and died:
        return "caught: the guest died, or hung" if died in DIED else f"failed: vmtest.sh ended with {died}"
    if run.errors:
        return f"caught: {run.errors[0]}"
    results = [r for r in run.results if r.outcome != "skip" and "there is no such test" not in r.said]
    failed = {r.name: r.said for r in results if r.outcome == "fail"}
    ran = {r.name for r in results}
    # A test that was killed may have printed nothing.
    caught = [t for t, wanted in mutant.tests.items()
              if t in failed and all(ere(regex).search(failed[t] or "-") for regex in wanted)]
    missed = [t for t in mutant.tests if t not in caught]
    if caught and all(t in bad for t in caught):
        return f"failed: without it: {'; '.join(f'{t}: {bad[t]}' for t in caught)}"
    if caught:
        return f"caught: {' '.join(caught)}" + (f" (not in {' '.join(missed)})" if missed else "")
    if absent := [t for t in mutant.tests if t not in ran]:
        return f"failed: did not run: {' '.join(absent)}"
    return f"survived: {'; '.join(f'{t}: {failed[t]}' for t in missed if t in failed) or 'all pass'}"


def without(printed: list[str], console: list[str]) -> str:
    """Of the tests that ran without a mutant."""
    run = run_of(printed)
    bad = run.errors + [f"{name}: {said}" for name, said in not_passed(printed).items()]
    if line := complaint(console):
        bad.append(f"the kernel complained: {line}")
    return f"failed: {'; '.join(bad)}" if bad else f"{run.count('pass')} tests pass"


def not_passed(printed: list[str]) -> dict[str, str]:
    return {r.name: r.said for r in run_of(printed).results if r.outcome != "pass"}


def perf_case(perf: str, number: int, case: str) -> tuple[str, str]:
    """The result of that case of perf test, and its output."""
    # A mutant can remove the end of a loop.
    run = subprocess.Popen([perf, "test", "-v", "-S", case], env=os.environ | {SWITCH.upper(): str(number)},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", start_new_session=True)
    try:
        output = run.communicate(timeout=PERF_SECONDS)[0]
    except subprocess.TimeoutExpired:
        # perf runs the test in a child process.
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "time-out", ""
    printed: list[str] = []
    for line in output.splitlines():
        if end := re.match(r" *[0-9.]+: (.*?) *: (Ok|Skip|FAILED!)", line):
            if end[1] == case:
                return end[2], "\n".join(printed)
            printed = []
        printed.append(line)
    return "missing", ""


def judge_perf(mutant: Mutant, perf: str) -> str:
    """Of a mutant in perf."""
    for case, _ in mutant.cases:
        if (result := perf_case(perf, 0, case)[0]) != "Ok":
            return f"failed: without the mutant: {case}: {result}"
    missed = []
    for case, regex in mutant.cases:
        result, printed = perf_case(perf, mutant.number, case)
        if result != "FAILED!" or not re.search(f"^FAILED .*:[0-9]+ {regex}", printed, re.M):
            missed.append(" ".join([f"{case}: {result}", *re.findall("^FAILED.*", printed, re.M)]))
    return f"survived: {'; '.join(missed)}" if missed else f"caught: perf test: {', '.join(c for c, _ in mutant.cases)}"


def verdicts(mutants: dict[str, Mutant], log: Path, control_log: Path) -> None:
    found, kernel = (sections(lines_of(log / name)) for name in ("results", "console"))
    none, kernel_none = (sections(lines_of(control_log / name)).get("none", []) for name in ("results", "console"))
    control = Control(not_passed(none[1:]), complaint(kernel_none))
    end = list(found)[-1] if found else ""
    for name, printed in found.items():
        if name in mutants:
            died = (log / "status").read_text().strip() if name == end else ""
            print(f"{name}\t{judge(mutants[name], printed[1:], kernel.get(name, []), died, control)}")
        elif name == "none":
            print(f"{name}\t{without(printed[1:], kernel.get(name, []))}")


def last(mutants: dict[str, Mutant], path: Path) -> dict[str, str]:
    """The results of mutants as they are now."""
    found = {name: (text, what) for name, text, what in rows(path)} if path.exists() else {}
    return {name: found[name][1] for name, m in mutants.items() if name in found and found[name][0] == m.hash}


def record(mutants: dict[str, Mutant], path: Path, verdicts: Path) -> None:
    results = last(mutants, path) | {name: " ".join(what) for name, *what in rows(verdicts)}
    lines = ["# The last result of each mutant, and the hash of its block: written by scripts/mutants."]
    lines += [f"{name}\t{m.hash}\t{results[name]}" for name, m in mutants.items() if name in results]
    path.write_text("\n".join(lines) + "\n")


def column(mutant: Mutant, result: str) -> str:
    if mutant.survives:
        return "explained"
    if not result:
        return "no result"
    return {"caught": "caught", "proven by the model": "by the model"}.get(result.partition(":")[0], "not caught")


def columns_of(mutants: dict[str, Mutant], results: dict[str, str]) -> dict[str, str]:
    return {name: column(m, results.get(name, "")) for name, m in mutants.items()}


def block(mutants: dict[str, Mutant], path: Path) -> None:
    results = last(mutants, path)
    columns = columns_of(mutants, results)
    print("|", " | ".join(COLUMNS), "|")
    print("| --- |", " | ".join(["---:"] * (len(COLUMNS) - 1)), "|")
    for area in (*AREAS, "all"):
        found = [columns[name] for name, m in mutants.items() if area in (m.area, "all")]
        print(f"| {area} |", " | ".join(map(str, [len(found), *(found.count(c) for c in COLUMNS[2:])])), "|")
    if bad := [name for name, c in columns.items() if c == "not caught"]:
        print("\nNot caught:\n\n```")
        print("\n".join(f"{name}: {results[name]}" for name in bad))
        print("```")


# Arguments before the names of mutants.
PLACES = {"litmus": 1, "proofs": 2, "perf": 1}


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    command, mutants, rest = argv[0], read(Path(argv[1])), argv[2:]
    if command == "names":
        guest = "--guest" in rest
        paths = set(rest) - {"--guest"}
        for mutant in mutants.values():
            if paths and not paths & {p.path for p in mutant.places}:
                continue
            if mutant.tests or not (guest or paths):
                print(mutant.name)
    elif command == "check" and len(rest) in (1, 2):
        if rest[1:]:
            columns = columns_of(mutants, last(mutants, Path(rest[1])))
            if missing := list(columns.values()).count("no result"):
                print(f"{missing} mutants have no result")
        return report(edits(mutants, Path(rest[0]))[1] + without_variant(mutants, Path(rest[0])))
    elif command == "apply" and len(rest) == 1:
        return apply(mutants, Path(rest[0]))
    elif command in ("kinds", "batch", "control", "litmus", "proofs", "perf") and len(rest) > (places := PLACES.get(command, 0)):
        if unknown := [name for name in rest[places:] if name not in mutants]:
            sys.exit(f"no mutant {unknown[0]}")
        chosen = [mutants[name] for name in rest[places:]]
        if command == "kinds":
            print("\n".join(f"{m.name}\t{m.kind}" for m in chosen))
        elif command == "litmus":
            tests = sorted({test for m in chosen for test, _ in m.proofs})
            # proofs reports those that are not there.
            for test in tests:
                for path in Path(rest[0]).glob(f"Documentation/litmus-tests/*/{test}.litmus"):
                    print(path)
        elif command == "perf":
            for m in chosen:
                print(f"{m.name}\t{judge_perf(m, rest[0])}", flush=True)
        elif command == "proofs":
            print("\n".join(f"{m.name}\t{proof(m, Path(rest[0]), Path(rest[1]))}" for m in chosen))
        else:
            if command == "batch":
                print("\n".join(f"{m.number} {m.name} {','.join(m.tests)}" for m in chosen))
            if command == "control" or not any(m.alone for m in chosen):
                print("0 none", ",".join(sorted({t for m in chosen for t in m.tests})))
    elif command == "record" and len(rest) == 2:
        record(mutants, Path(rest[0]), Path(rest[1]))
    elif command == "block" and len(rest) == 1:
        block(mutants, Path(rest[0]))
    elif command == "verdicts" and len(rest) in (1, 2):
        verdicts(mutants, Path(rest[0]), Path(rest[-1]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
