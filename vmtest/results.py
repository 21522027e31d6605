#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read the results of test runs, and judge them.

Run it with results() of scripts/common.sh, which takes the toolchain's Python.

A run is a file of KTAP, in two levels as guest-tests writes it: programs, and their
tests indented; or in one, as a single test program writes it. A file NAME.tsv has
result lines instead: "OUTCOME TEST<TAB>output of the test[<TAB>SECONDS]". In KTAP, a time
in seconds is taken from a line "# time PROG.TEST SECONDS" before the result.

The last line of table, flavour, perf, names, regress and lint is
"PASSED FAILED SKIPPED".
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import figures
import kcsan
from ktap import Result, Tally, by_name, ere, lines_of, read, read_all, rows

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
EXPECT = HERE / "expect.base"
SKIP = HERE / "expect.skip"


def summary(args: argparse.Namespace) -> int:
    run = read(args.ktap)
    for entry in run.entries:
        print(entry)
    print(f"{run.count('pass')} passed, {run.count('fail')} failed, {run.count('skip')} skipped")
    return int(bool(run.errors))


def junit(args: argparse.Namespace) -> int:
    """A test case for each result, and one named vmtest for other failures."""
    import xml.etree.ElementTree as ET     # here, as few runs need it and all would wait for it

    run = read(args.ktap)
    suites = ET.Element("testsuites")
    suite: dict[str, ET.Element] = {}

    def case(program: str, name: str) -> ET.Element:
        if program not in suite:
            suite[program] = ET.SubElement(suites, "testsuite", name=program)
        return ET.SubElement(suite[program], "testcase", name=name, classname=program)

    for r in run.results:
        program, _, name = r.name.partition(".")
        element = case(program if name else "vmtest", name or r.name)
        if r.seconds is not None:
            element.set("time", f"{r.seconds:.3f}")
        if r.outcome != "pass":
            element.append(ET.Element("failure" if r.outcome == "fail" else "skipped", message=printable(r.said)))
    if args.why:
        case("vmtest", "vmtest").append(ET.Element("failure", message=printable(args.why)))
    for element in suite.values():
        element.set("tests", str(len(element)))
        element.set("failures", str(len(element.findall("*/failure"))))
        element.set("skipped", str(len(element.findall("*/skipped"))))
    ET.indent(suites)
    print(ET.tostring(suites, encoding="unicode"))
    return 0


def printable(text: str) -> str:
    """Without the control characters that XML has no form for."""
    return re.sub(r"[^\t\x20-\ud7ff\ue000-\ufffd]", "?", text)


def slow(args: argparse.Namespace) -> int:
    timed = [r for r in read_all(args.ktap).results if r.seconds is not None]
    for r in sorted(timed, key=lambda r: -(r.seconds or 0))[:args.n]:
        print(f"{r.seconds:8.1f} s  {r.name}")
    if timed:
        print(f"{sum(r.seconds or 0 for r in timed):8.1f} s  all {len(timed)} tests")
    return 0


def fit(args: argparse.Namespace) -> int:
    """Prints the number of tests, and in a second line those that do not fit into SECONDS if
    each takes SLOWER times as long as in the run. Short tests run first."""
    only, left = [t for t in args.only.split(",") if t], args.seconds
    timed = [r for r in read_all(args.ktap).results if not only or r.name in only or r.name.partition(".")[0] in only]
    out = []
    for r in sorted(timed, key=lambda r: r.seconds or 0):
        left -= (r.seconds or 0) * args.slower
        if left < 0:
            out.append(r.name)
    print(len(timed))
    print(*out)
    return 0


# --- expectations -----------------------------------------------------------

@dataclass
class Expected:
    outcome: str
    regex: str
    reason: str


def expectations(path: str | Path) -> dict[str, Expected]:
    found = {}
    for row in rows(path):
        row += [""] * (4 - len(row))
        found[row[0]] = Expected(*row[1:4])
    return found


def may_skip(flavour: str, said: str, path: str | Path) -> bool:
    return any(flavour in row[0].split(",") and ere(row[1]).search(said) for row in rows(path))


def program_of(test: str) -> str:
    return test.partition(".")[0]


def on_base(test: str, result: Optional[Result], want: Optional[Expected]) -> str:
    """Why that result on base is not the expected one, or nothing."""
    if want is None:
        return "not listed in vmtest/expect.base"
    if result is None or result.outcome != want.outcome:
        outcome, said = (result.outcome, result.said) if result else ("no result", "")
        return f"on base: {outcome}, {want.outcome} was expected: {said}"
    if want.outcome != "pass" and not ere(want.regex).search(result.said):
        return f"on base it does not print '{want.regex}': {result.said}"
    return ""


def table(args: argparse.Namespace) -> int:
    want, unrecorded = expectations(args.expect), args.unrecorded.split()
    base_run, series_run = read_all(args.base), read_all(args.series)
    base, series = by_name(base_run), by_name(series_run)
    tally = Tally()
    print(f"\n{'test':<50} {'base':<6} {'series':<6} why on base")
    for test in dict.fromkeys([*want, *base, *series]):
        b, s = base.get(test), series.get(test)
        wrong = on_base(test, b, want.get(test))
        if b is None and test in want and program_of(test) in unrecorded:
            wrong = ""
        if s is None:
            wrong = "on the series: no result: "
        elif s.outcome == "skip":
            if not may_skip("series", s.said, args.skip):
                wrong = "on the series: skipped for a reason that vmtest/expect.skip does not have"
        elif s.outcome != "pass":
            wrong = f"on the series: {s.outcome}: {s.said}"
        if wrong:
            tally.failed += 1
        elif s and s.outcome == "skip":
            tally.skipped += 1
        else:
            tally.passed += 1
        print(f"{test:<50} {b.outcome if b else '-':<6} {s.outcome if s else '-':<6} "
              f"{want[test].reason if test in want else ''}")
        if wrong:
            print(f"    FAILED: {wrong}")
        if s and s.outcome == "skip":
            print(f"    skipped: {s.said}")
    for program in unrecorded:
        print(f"{program}: changed since the results of base were recorded: only the results on the series are judged")
    for kernel, run in (("base", base_run), ("the series", series_run)):
        for error in run.errors:
            tally.failed += 1
            print(f"FAILED: on {kernel}: {error}")
    return tally.print()


def flavour(args: argparse.Namespace) -> int:
    """Every test must pass, or be skipped for a reason of expect.skip. With --due, each of these
    tests must also have a result."""
    run, f, tally = read_all(args.ktap), args.flavour, Tally()
    for r in run.results:
        if r.outcome == "pass":
            tally.passed += 1
        elif r.outcome == "skip" and may_skip(f, r.said, args.skip):
            tally.skipped += 1
            print(f"{f}: skipped: {r}")
        else:
            tally.failed += 1
            why = "skipped for a reason that vmtest/expect.skip does not have: " if r.outcome == "skip" else ""
            print(f"{f}: FAILED: {why}{r}")
    for error in run.errors:
        tally.failed += 1
        print(f"{f}: FAILED: {error}")
    if not run.results:
        tally.failed += 1
        print(f"{f}: FAILED: no test has run")
    # The error of a run that ended early is enough.
    for test in [] if run.errors else sorted(due(args) - {r.name for r in run.results}):
        tally.failed += 1
        print(f"{f}: FAILED: no result: {test}")
    return tally.print()


def due(args: argparse.Namespace) -> set[str]:
    """Of the tests of expect.base, those that --due selects and --but does not, and each name in
    --due that selects none."""
    rows, found = expectations(args.expect), set[str]()
    for name in filter(None, args.due.split(",")):
        found |= {test for test in rows if name in ("all", test, program_of(test))} or {name}
    return found - set(args.but.split(","))


def suggested(said: str) -> str:
    """A regular expression for the output of a failed test, without the place."""
    for part in said.split(" | "):
        if match := re.match(r"[\w.]+\.[ch]:[0-9]+:[\w.]+:(.*)", part.strip()):
            return re.escape(match[1]).replace(r"\ ", " ")
    skip = re.search(r"# *SKIP +(.*)", said)
    return re.escape(skip[1] if skip else said.strip()).replace(r"\ ", " ")


def expect(args: argparse.Namespace) -> int:
    """Rows of expect.base that are missing or differ, and those of no test."""
    want, base = expectations(args.expect), by_name(read_all(args.base))
    for test, r in base.items():
        if on_base(test, r, want.get(test)):
            old = want.get(test)
            print(test, r.outcome, "-" if r.outcome == "pass" else suggested(r.said),
                  old.reason if old else "TODO: why", sep="\t")
    for test in want:
        if test not in base:
            print(f"# no result: {test}")
    return 0


def record(args: argparse.Namespace) -> int:
    """Runs as result lines: read() makes the same results of them. The input has their
    dependencies: "NAME<TAB>HASH", for each program and for the files that all share."""
    print("# Results of a green run, written by scripts/ci.")
    for row in rows("-"):
        print("# print:", *row)
    for r in sorted(read_all(args.runs).results, key=lambda r: r.name):
        print(r.row())
    return 0


def recorded(args: argparse.Namespace) -> int:
    """Write to OUT the results of the recorded run that has most programs as they are now. The
    input is that of record. Prints the file, and the programs that changed since then. With
    --rerun, the tests that the file of promises names are not taken, and are printed, too."""
    want = dict(rows("-"))
    common = want.pop("common")
    found, path = set[str](), ""
    for file in args.runs:
        lines = lines_of(file) if Path(file).exists() else []
        had = dict(line.split()[2:4] for line in lines if line.startswith("# print: "))
        same = {name for name in want if had.get(name) == want[name]}
        if had.get("common") == common and len(same) > len(found):
            found, path = same, file
    if not path:
        return 1
    rerun = [test for row in rows(args.rerun) for test in row[4].split()] if args.rerun else []
    Path(args.out).write_text("".join(f"{r.row()}\n" for r in read(path).results
                                      if program_of(r.name) in found and r.name not in rerun))
    print(path)
    print(*(name for name in want if name not in found), *(test for test in rerun if program_of(test) in found))
    return 0


def panics(args: argparse.Namespace) -> int:
    for test, want in expectations(EXPECT).items():
        if want.outcome == "panic":
            print(test, want.regex, sep="\t")
    return 0


# --- Linux' own tests -------------------------------------------------------

def regress(args: argparse.Namespace) -> int:
    """Tests of Linux itself: "NAME<TAB>RESULT" lines of base, of the series and of the tests that it adds."""
    known = [(ere(f"^({row[0]})$"), row[1], row[2]) for row in rows(args.known)]
    base: dict[str, str] = {}
    series: dict[str, str] = {}
    names: dict[str, None] = {}
    for path, found in ((args.base, base), (args.series, series), (args.added, series)):
        for name, result in rows(path):
            names[name] = None
            # Of two with one name, the one that failed counts.
            if found.get(name) != "FAIL":
                found[name] = result
    copies = any(name.startswith("added: ") for name in series)
    tally = Tally()
    for name in names:
        s = series.get(name, "none")
        # Base does not have the tests that the series adds.
        b = s if name.startswith("added: ") else base.get(name, "none")
        bare = name.removeprefix("added: ")
        want, reason = next(((r, why) for regex, r, why in known if regex.search(bare)), ("OK", ""))
        if want == "CHANGED":
            # The series' own copy of the test must pass with its present expectation.
            own = series.get(f"added: {bare}", "none") if copies else "OK"
            if name != bare:
                b = want = "OK"
            elif (b, s, own) == ("OK", "FAIL", "OK"):
                tally.passed += 1
                print(f"changed by the series: {name}: {reason}")
                continue
            else:
                tally.failed += 1
                print(f"FAILED: {name}: base {b}, series {s}, its copy {own}, OK FAIL OK was expected")
                continue
        if b != s or b != want:
            tally.failed += 1
            print(f"FAILED: {name}: base {b}, series {s}, {want} was expected")
        elif b == "OK":
            tally.passed += 1
        else:
            tally.skipped += 1
            print(f"{b}, as it should: {name}: {reason}")
    return tally.print()


# --- lint -------------------------------------------------------------------

# File, its columns.
DATA = {
    "vmtest/expect.base": "TEST OUTCOME REGEX REASON",
    "vmtest/expect.skip": "FLAVOURS REGEX REASON UNTIL",
    "vmtest/splats.deny": "REGEX REASON",
    "vmtest/splats.allow": "REGEX REASON UNTIL",
    "vmtest/splats.base": "FLAVOUR REGEX REASON UNTIL",
    "vmtest/kcsan.known": "ACCESSES SUBSYSTEM REASON UNTIL",
    "vmtest/regress.known": "REGEX RESULT REASON UNTIL",
    "scripts/style.allow": "REGEX REASON UNTIL",
    "vmtest/perf.known": "TEST REASON UNTIL",
    "vmtest/promises": "KEY PROMISE MEASURED VALUES TESTS",
}
# A reason that only the row above, or its author, can explain.
VAGUE = re.compile(r"^(the same|same|as above|ditto|dito|see above|likewise|todo\b.*|-|)\.?$", re.IGNORECASE)


def faults_of(row: list[str], columns: list[str]) -> list[str]:
    if len(row) != len(columns):
        return [f"{len(row)} columns where {len(columns)} were due: {' '.join(columns)}"]
    found = []
    for name, value in zip(columns, row):
        if value != value.strip() and name != "REGEX":
            found.append(f"{name} has a space at an end")
        if name in ("SUBSYSTEM", "REASON", "UNTIL") and VAGUE.match(value):
            found.append(f"{name} '{value}' does not stand by itself")
        elif name == "ACCESSES" and (fault := kcsan.fault_of(value)):
            found.append(fault)
        elif name == "OUTCOME" and value not in ("pass", "fail", "skip", "panic"):
            found.append(f"outcome {value}: pass, fail, skip or panic")
        elif name == "RESULT" and value not in ("FAIL", "SKIP", "CHANGED"):
            found.append(f"result {value}: FAIL, SKIP or CHANGED")
        elif name == "FLAVOURS" and not re.fullmatch(r"[a-z-]+(,[a-z-]+)*", value):
            found.append(f"flavours {value}: NAME[,NAME...]")
        elif name == "REGEX":
            try:
                ere(value)
            except re.error as e:
                found.append(f"'{value}' is not an expression: {e}")
            if not value:
                found.append("an expression that matches everything")
    outcome = dict(zip(columns, row)).get("OUTCOME")
    if outcome and (outcome == "pass") != (row[columns.index("REGEX")] == "-"):
        found.append("the expression is '-' for pass, and for nothing else")
    return found


def lint(args: argparse.Namespace) -> int:
    """Every row of the data files has its columns, and a reason that stands by itself."""
    top, tally = Path(args.top), Tally()
    for name, columns in DATA.items():
        seen: set[str] = set()
        for n, line in enumerate(lines_of(top / name), 1):
            if not line or line.startswith("#"):
                continue
            row = line.split("\t")
            wrong = faults_of(row, columns.split())
            if name.endswith("expect.base") and row[0] in seen:
                wrong.append("the test has a row already")
            seen.add(row[0])
            for why in wrong:
                print(f"{name}:{n}: {why}", file=sys.stderr)
            if wrong:
                tally.failed += 1
        tally.check(True)
    return tally.print()


# --- command line -----------------------------------------------------------

def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        p = commands.add_parser(run.__name__, help=help, description=run.__doc__)
        p.set_defaults(run=run)
        return p

    p = command(summary, "the results of a run, one a line, and their number")
    p.add_argument("ktap")
    p = command(table, "base beside the series, against vmtest/expect.base")
    p.add_argument("--base", action="append", required=True, metavar="RUN")
    p.add_argument("--series", action="append", required=True, metavar="RUN")
    p.add_argument("--expect", default=EXPECT)
    p.add_argument("--skip", default=SKIP)
    p.add_argument("--unrecorded", default="", metavar="PROGRAMS", help="that base has no results of")
    p = command(flavour, "a run of another flavour of the series")
    p.add_argument("flavour")
    p.add_argument("ktap", nargs="+", metavar="RUN")
    p.add_argument("--skip", default=SKIP)
    p.add_argument("--due", default="", metavar="TESTS", help="tests and programs, or all; with commas between them")
    p.add_argument("--but", default="", metavar="TESTS", help="not these")
    p.add_argument("--expect", default=EXPECT)
    p = command(junit, "JUnit XML of a run")
    p.add_argument("ktap")
    p.add_argument("--why", default="", help="the run is red, and no test is at fault")
    p = command(slow, "the slowest tests of runs")
    p.add_argument("ktap", nargs="+", metavar="RUN")
    p.add_argument("-n", type=int, default=20)
    p = command(fit, "the tests of runs that take too long")
    p.add_argument("ktap", nargs="+", metavar="RUN")
    p.add_argument("--seconds", type=float, required=True)
    p.add_argument("--slower", type=float, default=1)
    p.add_argument("--only", default="", metavar="TESTS")
    p = command(expect, "rows for vmtest/expect.base that are missing or differ")
    p.add_argument("base", nargs="+", metavar="RUN")
    p.add_argument("--expect", default=EXPECT)
    p = command(record, "runs as result lines")
    p.add_argument("runs", nargs="+", metavar="RUN")
    p = command(recorded, "the results that are recorded for the tests as they are")
    p.add_argument("--rerun", metavar="PROMISES")
    p.add_argument("out")
    p.add_argument("runs", nargs="+", metavar="RUN")
    p = command(panics, "the tests that end base, and the expression for its console")
    p = command(regress, "tests of Linux itself on base and on the series")
    for name in ("known", "base", "series", "added"):
        p.add_argument(name)
    p = command(lint, "the columns and reasons of the data files")
    p.add_argument("--top", default=TOP)
    figures.commands(command)
    kcsan.commands(command)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
