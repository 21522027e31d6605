# SPDX-License-Identifier: GPL-2.0
"""The KTAP of a run, the data files of the tests, and counting."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, Optional


# --- KTAP -------------------------------------------------------------------

@dataclass
class Result:
    outcome: str
    name: str
    said: str = ""
    seconds: Optional[float] = None

    def __str__(self) -> str:
        return f"{self.outcome} {self.name}\t{self.said}"

    def row(self) -> str:
        """The line of a file NAME.tsv."""
        return str(self) if self.seconds is None else f"{self}\t{self.seconds:.1f}"


@dataclass
class Run:
    """The output of a run: results, and complaints about the KTAP itself."""

    entries: list[Result | str] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        return [e for e in self.entries if isinstance(e, Result)]

    @property
    def errors(self) -> list[str]:
        return [e for e in self.entries if isinstance(e, str)]

    def count(self, outcome: str) -> int:
        return sum(r.outcome == outcome for r in self.results)

    def bad(self, why: str) -> None:
        self.entries.append(f"incomplete: {why}")


RESULT = re.compile(r"(?:not )?ok ([0-9]+)")
TIME = re.compile(r" *# time \S+ ([0-9.]+)$")
# Lines of the test harness that explain no failure.
NOISE = re.compile(r"#  RUN|#  +OK|# Starting|# FAILED:|# PASSED:|# Totals")


def outcome_of(line: str) -> str:
    if line.startswith("not ok"):
        return "fail"
    return "skip" if re.search(r"# *SKIP", line) else "pass"


def name_of(line: str) -> str:
    line = re.sub(r"^(not )?ok [0-9]+ (- )?", "", line)
    return re.sub(r" *#.*", "", line)


class Reader:
    """Collects a Run. A short plan, numbers out of order, a program that dies after its
    tests and one without a result of its own are each blamed on the right program."""

    def __init__(self) -> None:
        self.run = Run()
        self.started = self.nested = False
        self.plan: Optional[int] = None
        self.seen = 0
        self.flat: list[Result] = []
        self.program()

    def program(self) -> None:
        """Forget the program that ended."""
        self.sub_plan: Optional[int] = None
        self.found: list[Result] = []
        self.said: list[str] = []
        self.seconds: Optional[float] = None

    def number(self, line: str, want: int) -> None:
        match = RESULT.match(line)
        if match and int(match[1]) != want:
            self.run.bad(f"result {int(match[1])} where {want} was due: {line}")

    def test(self, line: str) -> None:
        self.number(line, len(self.found) + 1)
        said = " | ".join(self.said)
        if "#" in line:
            said += " " + line
        self.found.append(Result(outcome_of(line), name_of(line), said, self.seconds))
        self.said, self.seconds = [], None

    def result(self, line: str) -> None:
        self.seen += 1
        self.number(line, self.seen)
        name, outcome, said = name_of(line), outcome_of(line), " | ".join(self.said)
        if self.sub_plan is not None:
            self.nested = True
            if len(self.found) != self.sub_plan:
                self.run.bad(f"{name}: {len(self.found)} results, {self.sub_plan} planned")
        elif outcome == "pass":
            self.flat.append(Result("pass", name, "", self.seconds))
        for test in self.found:
            test.name = f"{name}.{test.name.removeprefix('global.')}"
            self.run.entries.append(test)
        # A program that died after its tests, or without any, is a failure too.
        if outcome == "fail" and not any(t.outcome == "fail" for t in self.found):
            self.run.entries.append(Result("fail", name, said + line, self.seconds))
        if outcome == "skip" and not self.found:
            self.run.entries.append(Result("skip", name, said + line, self.seconds))
        self.program()

    def line(self, line: str) -> None:
        line = line.removesuffix("\r").replace("\t", " ")
        if re.match(r"K?TAP version", line):
            self.started = True
        elif not self.started:
            return
        elif match := re.match(r"1\.\.([0-9]+)", line):
            self.plan = int(match[1])
        elif match := re.match(r"  1\.\.([0-9]+)", line):
            self.sub_plan = int(match[1])
        elif line.startswith("  ") and RESULT.match(line[2:]):
            self.test(line[2:])
        elif RESULT.match(line):
            self.result(line)
        elif match := TIME.match(line):
            self.seconds = float(match[1])
        elif line.startswith("  #") and not NOISE.search(line):
            self.said.append(re.sub("^  # ", "", line))

    def end(self) -> Run:
        run = self.run
        whole = self.plan is not None and self.seen == self.plan
        if not self.started:
            run.bad("no KTAP header")
        elif self.plan is None:
            run.bad("no plan")
        elif not whole:
            run.bad(f"{self.seen} of {self.plan} programs have a result")
        # Beside programs with tests, one without is a program that ran none.
        for result in self.flat:
            if self.nested:
                run.bad(f"{result.name}: no result of its own")
            run.entries.append(result)
        if self.started and whole and not run.results:
            run.bad("no test ran")
        return run


def lines_of(path: str | Path) -> list[str]:
    if str(path) == "-":
        data = sys.stdin.buffer.read()
    else:
        data = Path(path).read_bytes()
    return data.decode(errors="replace").removesuffix("\n").split("\n") if data else []


def run_of(lines: Iterable[str]) -> Run:
    reader = Reader()
    for line in lines:
        reader.line(line)
    return reader.end()


def read(path: str) -> Run:
    if not path.endswith(".tsv"):
        return run_of(lines_of(path))
    run = Run()
    for line in lines_of(path):
        if line and not line.startswith("#"):
            what, said, seconds = (line.split("\t") + ["", ""])[:3]
            outcome, _, name = what.partition(" ")
            run.entries.append(Result(outcome, name, said, float(seconds) if seconds else None))
    return run


# --- data files and counting ----------------------------------------------

def ere(regex: str) -> re.Pattern[str]:
    """An extended regular expression, as grep takes it, for Python."""
    for name, chars in (("space", r"\s"), ("digit", "0-9"), ("alnum", "A-Za-z0-9"), ("alpha", "A-Za-z")):
        regex = regex.replace(f"[:{name}:]", chars)
    return re.compile(regex)


def rows(path: str | Path) -> Iterator[list[str]]:
    for line in lines_of(path):
        if line and not line.startswith("#"):
            yield line.split("\t")


class Tally:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def check(self, ok: bool) -> bool:
        self.passed += ok
        self.failed += not ok
        return ok

    def print(self) -> int:
        print(self.passed, self.failed, self.skipped)
        return 0


def by_name(run: Run) -> dict[str, Result]:
    """Of a test with two results neither is taken."""
    found: dict[str, Result] = {}
    for r in run.results:
        if r.name in found:
            other = found[r.name]
            r = Result(f"{other.outcome},{r.outcome}", r.name, f"{other.said} | {r.said}")
        found[r.name] = r
    return found


def read_all(paths: Iterable[str]) -> Run:
    run = Run()
    for path in paths:
        run.entries += read(path).entries
    return run
