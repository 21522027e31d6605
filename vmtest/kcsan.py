# SPDX-License-Identifier: GPL-2.0
"""Reports of KCSAN, and vmtest/kcsan.known, the list of those that are not failures.

A row of the list names both accesses of a race, in any order, as "ACCESS / ACCESS", or one,
where KCSAN does not see the other. ACCESS is "KIND FILE:FUNCTION", with the innermost file,
which may be one of an inline function, and the function as it is in the symbol table. After
that may come its callers, each after " < ". KIND is as KCSAN prints it, such as "read" or
"write (marked)". Without "reordered" in it, it also stands for an access that was delayed past
a barrier. "KIND ?" stands for an access without a stack, by the same task on the same CPU as the
other one: the task is being switched, so KCSAN cannot unwind the stack.

A report that is not listed is a failure if a file of the series is in one of its stacks, or if it
cannot be read or decoded. Any other is a race of the kernel as it was, in code that the series does
not call and that does not call it; which of them a run meets is chance. It is printed and counted.
"""

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, Optional

from ktap import lines_of, rows

KNOWN = Path(__file__).resolve().with_name("kcsan.known")
HEAD = "BUG: KCSAN: "
LISTED = "listed: "
ELSEWHERE = "elsewhere: "
KIND = r"(?:read-write|read|write|assert no (?:accesses|writes))(?: \((?:marked|reordered|marked, reordered)\))?"
STAMP = re.compile(r"^\s*(?:\[ *[0-9.]+\])?(?:\[ *[TC][0-9]+\])?\s*")
ORIGIN = "race at unknown origin, with "
ACCESS = re.compile(rf"(?:{ORIGIN})?({KIND}) to 0x\S+ of \d+ bytes "
                    r"by ((?:task|interrupt).*)")
# As decode_stacktrace.sh prints it: function (inlined.h:12 (discriminator 2) file.c:345) module
FRAME = re.compile(r"([A-Za-z_][\w.]*) \((([^ :]+):[0-9?]+.*)\)(?: +\[?\w+\]?)?")
FILE = r"([^ :()]+):[0-9?]+"
UNREADABLE = "??"
DELAYED = "+-> reordered to: "
RAW = re.compile(r"([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: +\[?\w+\]?)?")
LISTING = re.compile(rf"({KIND}) (?:\?|([^ :]+):([A-Za-z_]\w*)((?: < [A-Za-z_]\w*)*))")
# Of functions for all of the kernel, one alone names no race.
SHARED = re.compile(r"(lib|arch/[a-z0-9]+/lib|kernel/kcsan)/")
# Callers in a row that is printed.
DEPTH = 2


@dataclass
class Access:
    kind: str
    file: str = ""
    functions: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)    # of all frames; UNREADABLE: not decoded
    home: str = ""      # the file of the function
    by: str = ""        # the task, or the interrupt, and the CPU
    stack: bool = False     # also one that cannot be read

    def __str__(self) -> str:
        if not self.stack:
            return f"{self.kind} ?"
        functions = self.functions[:DEPTH + 1] or ["?"]
        return f"{self.kind} {self.file or '?'}:{' < '.join(functions)}"

    def is_in(self, row: "Access") -> bool:
        plain = re.sub(r" \(reordered\)|, reordered", "", self.kind)
        return row.kind in (self.kind, plain) and row.file == self.file and row.stack == self.stack and \
            row.functions == self.functions[:len(row.functions)]


@dataclass
class Report:
    """A report, from its headline to the line of equals signs."""

    headline: str
    lines: list[str] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    in_stack: bool = False      # at the line that was read last

    def __str__(self) -> str:
        return " / ".join(sorted(map(str, self.accesses))) or self.headline

    @property
    def subsystem(self) -> str:
        """A guess: the folders of both functions."""
        folders = dict.fromkeys(str(Path(a.home).parent) for a in sorted(self.accesses, key=str) if a.home)
        return ", ".join(folders) or "TODO"

    def is_elsewhere(self, ours: set[str]) -> bool:
        """Whether every frame is known, and none is in these files or in a module of the tests,
        which is built outside of the tree: its files have absolute paths."""
        def may_be_ours(file: str) -> bool:
            return file in ours or file == UNREADABLE or file.startswith("/")

        stacks = [access for access in self.accesses if access.stack]
        sides = 1 if any(ORIGIN in line for line in self.lines) else 2
        return bool(stacks) and len(self.accesses) == sides and \
            all(access.functions and not any(map(may_be_ours, access.files)) for access in stacks)

    def is_in(self, row: list[Access]) -> bool:
        sides = self.accesses
        if not sides or len(sides) != len(row):
            return False
        if not all(r.stack for r in row) and (sides[0].by != sides[1].by or not sides[0].by.startswith("task")):
            return False
        return any(all(a.is_in(r) for a, r in zip(order, row)) for order in (sides, sides[::-1]))


def listing(text: str) -> Optional[list[Access]]:
    """The accesses of a row, or nothing if it cannot be read."""
    found = []
    for side in text.split(" / "):
        match = LISTING.fullmatch(side)
        if not match:
            return None
        if match[2]:
            found.append(Access(match[1], match[2], [match[3], *match[4].split(" < ")[1:]], stack=True))
        else:
            found.append(Access(match[1]))
    unknown = sum(not access.stack for access in found)
    return found if len(found) <= 2 and unknown < len(found) else None


def fault_of(text: str) -> str:
    """The fault in the accesses of a row, or nothing."""
    accesses = listing(text)
    if accesses is None:
        return f"accesses '{text}': KIND FILE:FUNCTION[ < CALLER...][ / ...], or KIND ? for one of two"
    for access in accesses:
        if SHARED.match(access.file) and len(access.functions) == 1:
            return f"'{access}' is called from everywhere: add its caller"
    return ""


def read_frame(report: Report, line: str) -> None:
    """Adds the access or the frame in a line to the report."""
    text = STAMP.sub("", line).strip()
    if match := ACCESS.match(text):
        report.accesses.append(Access(match[1], by=match[2]))
        report.in_stack = True
        return
    report.in_stack = report.in_stack and bool(text)
    if not report.in_stack:
        return
    access = report.accesses[-1]
    access.stack = True
    match = FRAME.fullmatch(text.removeprefix(DELAYED)) or RAW.fullmatch(text)
    # The code that an interrupt met is not a caller.
    if text != "|" and not any(name.startswith("asm_") for name in access.functions):
        access.files.update(re.findall(FILE, match[2]) if match and match.re is FRAME else [UNREADABLE])
    if match and not text.startswith(DELAYED):
        if not access.functions and match.re is FRAME and match[3] != UNREADABLE:
            access.file = match[3]
            access.home = re.findall(FILE, match[2])[-1]
        # Not the compiler's suffixes.
        access.functions.append(match[1].partition(".")[0])


def read(lines: list[str]) -> Iterator[Report | str]:
    """The reports, and the lines between them."""
    report: Optional[Report] = None
    for line in lines:
        if HEAD in line:
            if report:
                yield report
            report = Report(line.partition(HEAD)[2], [line])
        elif report:
            report.lines.append(line)
            if "==========" in line:
                yield report
                report = None
            else:
                read_frame(report, line)
        else:
            yield line
    if report:
        yield report


def kcsan(args: argparse.Namespace) -> int:
    """Decoded reports, where "BUG: KCSAN:" of those in vmtest/kcsan.known becomes "listed:", and
    of those without a file of the series "elsewhere:"."""
    known = [r for row in rows(args.known) if (r := listing(row[0]))]
    ours = set(lines_of(args.ours))
    for entry in read(lines_of(args.reports)):
        if isinstance(entry, str):
            print(entry)
            continue
        first, *rest = entry.lines
        if any(entry.is_in(row) for row in known):
            first = first.replace(HEAD, LISTED)
        elif entry.is_elsewhere(ours):
            first = first.replace(HEAD, ELSEWHERE)
        print("\n".join([first, *rest]))
    return 0


def races(args: argparse.Namespace) -> int:
    """One row for vmtest/kcsan.known for each race of the consoles that it does not list."""
    found: dict[str, tuple[int, Report]] = {}
    for path in args.console:
        for entry in read(lines_of(path)):
            if isinstance(entry, Report):
                found[str(entry)] = found.get(str(entry), (0,))[0] + 1, entry
    known = [r for row in rows(args.known) if (r := listing(row[0]))]
    for text, (n, report) in sorted(found.items(), key=lambda f: (-f[1][0], f[0])):
        if not any(report.is_in(row) for row in known):
            print(text, report.subsystem, f"TODO: why; {n} reports", "TODO: when", sep="\t")
    return 0


def commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    p = command(kcsan, "reports of KCSAN, without the headline of those that do not fail a run")
    p.add_argument("reports")
    p.add_argument("--ours", required=True, help="list of the files of the series")
    p.add_argument("--known", default=KNOWN)
    p = command(races, "rows for vmtest/kcsan.known that are missing")
    p.add_argument("console", nargs="+")
    p.add_argument("--known", default=KNOWN)
