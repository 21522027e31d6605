#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read vmtest/mutants: small changes to the series that its tests must notice.

usage: mutants.py names FILE              the names of all mutants, one a line
       mutants.py check FILE TREE         does each one still fit the kernel tree TREE?
       mutants.py apply FILE TREE NAME    change TREE
       mutants.py caught-by FILE NAME     "TEST TAB REGEX" lines; TEST "litmus" is a model

The file has a block for each mutant, with an empty line after it:

    mutant NAME
    file PATH
    after TEXT              optional: look for the lines below the first line with TEXT
    -LINE                   lines as they are; as the tree has them, once
    +LINE                   lines as they become
    caught-by TEST: REGEX   a test that must fail, and what it must print then
    caught-by litmus: NAME  no test can: this litmus test has the variant

"file" may be repeated for a change of several places.
"""
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Place:
    path: str
    after: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def position(self, text: str) -> int:
        """Where the old lines are, or an error."""
        start = 0
        if self.after:
            start = text.find(self.after)
            if start < 0:
                raise ValueError(f"{self.path} has no '{self.after}'")
        old = "".join(line + "\n" for line in self.old)
        at = text.find("\n" + old, start)
        if at < 0:
            raise ValueError(f"{self.path} does not have the lines: {self.old[0].strip()}")
        if not self.after and text.find("\n" + old, at + 1) >= 0:
            raise ValueError(f"{self.path} has the lines twice: {self.old[0].strip()}")
        return at + 1

    def apply(self, tree: Path) -> None:
        path = tree / self.path
        text = path.read_text()
        at = self.position(text)
        old = "".join(line + "\n" for line in self.old)
        path.write_text(text[:at] + "".join(line + "\n" for line in self.new) + text[at + len(old):])


@dataclass
class Mutant:
    name: str
    line: int
    places: list[Place] = field(default_factory=list)
    caught_by: list[tuple[str, str]] = field(default_factory=list)


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
        elif key == "after" and mutant.places:
            mutant.places[-1].after = value
        elif line[0] in "-+" and mutant.places:
            (mutant.places[-1].old if line[0] == "-" else mutant.places[-1].new).append(line[1:])
        else:
            sys.exit(f"{path}:{number}: neither a key nor a line of code: {line}")
    for mutant in mutants.values():
        if not mutant.places or not mutant.caught_by or not all(p.old for p in mutant.places):
            sys.exit(f"{path}:{mutant.line}: {mutant.name} lacks a place, its lines or caught-by")
    return mutants


def check(mutants: dict[str, Mutant], tree: Path) -> int:
    bad = 0
    for mutant in mutants.values():
        for place in mutant.places:
            try:
                place.position((tree / place.path).read_text())
            except (ValueError, OSError) as error:
                print(f"mutant {mutant.name}: {error}")
                bad += 1
    return 1 if bad else 0


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    command, mutants, rest = argv[0], read(Path(argv[1])), argv[2:]
    if command in ("apply", "caught-by") and rest and rest[-1] not in mutants:
        sys.exit(f"no mutant {rest[-1]}")
    if command == "names" and not rest:
        print("\n".join(mutants))
    elif command == "check" and len(rest) == 1:
        return check(mutants, Path(rest[0]))
    elif command == "apply" and len(rest) == 2:
        for place in mutants[rest[1]].places:
            place.apply(Path(rest[0]))
    elif command == "caught-by" and len(rest) == 1:
        for test, regex in mutants[rest[0]].caught_by:
            print(f"{test}\t{regex}")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
