#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read litmus tests with variants, and judge the output of herd7.

usage: litmus.py write DIR FILE...     the tests and their variants as files in DIR, for herd7
       litmus.py judge HERD FILE...    its output: the table, and the counts
       litmus.py block HERD FILE...    the block of doc/results.md

A line of a test that ends in a comment "// CODE: RESULT" or "// without: RESULT" makes a
variant, in which CODE replaces the line, or nothing does. RESULT is the result of herd7 for
that: Sometimes, or Never where the test does not need the line.
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

CHANGE = re.compile(r"// (.*): (Never|Sometimes)$")
HEAD = ("protocol", "test", "states", "result", "with", "without")


@dataclass
class Variant:
    """One of a test: as it stands (line -1), or with one line changed."""

    name: str
    line: int
    want: str
    code: str = ""      # the line as it is
    new: str = ""       # the line as it becomes


@dataclass
class Test:
    protocol: str
    name: str
    lines: list[str]
    variants: list[Variant] = field(default_factory=list)

    @property
    def text(self) -> list[str]:
        """Its lines without comments on results and space at the ends."""
        return [CHANGE.sub("", line).strip() for line in self.lines]

    def source(self, variant: Variant) -> str:
        lines = list(self.lines)
        if variant.line >= 0:
            lines[variant.line] = variant.new
        return "\n".join([f"C {variant.name}", *lines[1:]]) + "\n"

    def changed(self, code: str) -> list[Variant]:
        """The variants whose line begins CODE, which may continue in the lines after it."""
        text = self.text
        return [v for v in self.variants[1:] if " ".join(filter(None, text[v.line:])).startswith(code)]

    def key(self, variant: Variant) -> str:
        """The line of a variant, and those after it that distinguish it from others."""
        key = variant.code
        for line in self.text[variant.line + 1:]:
            if len(self.changed(key)) == 1:
                break
            key += f" {line}" if line else ""
        return key


def read(path: Path) -> Test:
    test = Test(path.parent.name, path.stem, path.read_text().splitlines())
    if test.lines[0] != f"C {test.name}":
        sys.exit(f"{path}:1: the name of the test is not that of the file")
    test.variants.append(Variant(test.name, -1, "Never"))
    for n, line in enumerate(test.lines):
        if match := CHANGE.search(line):
            new = "" if match[1] == "without" else f"{match[1]};"
            test.variants.append(Variant(f"{test.name}.{len(test.variants)}", n, match[2],
                                         line[:match.start()].strip(), new))
    return test


@dataclass
class Found:
    """The output of herd7 for one test or variant."""

    states: int = 0
    result: str = ""
    faults: list[str] = field(default_factory=list)


def found_in(path: Path) -> tuple[dict[str, Found], list[str]]:
    """By name, and the complaints of herd7 before the first test."""
    found: dict[str, Found] = {}
    now = Found()
    first = now
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "Test":
            now = found.setdefault(rest.split()[0], Found())
        elif word == "States":
            now.states = int(rest)
        elif word == "Observation":
            now.result = rest.split()[1]
        elif word == "Flag" or re.search(r"^Warning|[Ee]rror", line):
            now.faults.append(line)
    return found, first.faults


def wrong(variant: Variant, found: Optional[Found]) -> str:
    if found is None or not found.result:
        return "no result"
    # A test that herd7 finds fault with proves nothing. A variant may have the data race that
    # the line prevents, or leave an unlock alone.
    faults = [f for f in found.faults if variant.line < 0 or not f.startswith("Flag")]
    if faults:
        return "; ".join(faults)
    return "" if found.result == variant.want else f"{variant.want} was expected"


def table(tests: list[Test], found: dict[str, Found]) -> list[list[str]]:
    rows = []
    for test in tests:
        for v in test.variants:
            f = found.get(v.name, Found())
            change = [test.key(v), v.new or "-"] if v.line >= 0 else ["", ""]
            rows.append([test.protocol, test.name, str(f.states), f.result or "none", *change])
    return rows


def printed(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEAD))]
    return ["  ".join(c.rjust(w) if n == 2 else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def judge(tests: list[Test], herd: Path) -> int:
    found, errors = found_in(herd)
    faults = [f"{v.name}: {why}" for t in tests for v in t.variants if (why := wrong(v, found.get(v.name)))] + errors
    print("\n".join(printed([list(HEAD), *table(tests, found)])))
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{sum(len(t.variants) for t in tests) - len(faults) + len(errors)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults else 0


def block(tests: list[Test], herd: Path) -> int:
    found, _ = found_in(herd)
    variants = [v for t in tests for v in t.variants[1:]]
    reached = sum(found[v.name].result == "Sometimes" for v in variants)
    print(f"{len(tests)} tests; the bad state is reachable in {reached} of {len(variants)} variants.\n")
    print("```")
    print("\n".join(printed([list(HEAD), *table(tests, found)])))
    print("```")
    return 0


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[0] not in ("write", "judge", "block"):
        print(__doc__, file=sys.stderr)
        return 2
    tests = [read(Path(file)) for file in argv[2:]]
    if argv[0] == "write":
        for test in tests:
            for variant in test.variants:
                (Path(argv[1]) / f"{variant.name}.litmus").write_text(test.source(variant))
        return 0
    return (judge if argv[0] == "judge" else block)(tests, Path(argv[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
