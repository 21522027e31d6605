#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check the documentation against the repository: docs.py TOP HELP FILE...
Or print the commands in it, in their order: docs.py --commands FILE...
Or those that ROWS, docs.commands, has for a guest, for vmtest/guest-docs: docs.py --guest ROWS FILE...

FILE is markdown, HELP a directory with the output of --help of each script, in files that have
the script's name. Commands are the lines of an indented block, those after "# " where a block
has prompts, and code spans that begin with the name of a program. A block between ``` is output,
in which rows of the table of results are compared with vmtest/expect.base.

Prints a line for each fault; exits with 1 if there is one.
"""

import re
import shlex
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Iterator

# Programs of the host and of the kernel tree, whose options are not checked.
HOST = {"git", "cd", "head", "echo", "export", "java", "mkdir", "ip", "scripts/kconfig/merge_config.sh"}
SEPARATORS = {"&&", "|", ";"}
# Options of vmtest.sh whose values are checked.
FLAVOURS = ("-f", "--flavour")
TESTS = ("-t", "--test", "-x", "--exclude")
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def pattern(line: str) -> str:
    """A regular expression for a line of output, in which numbers and widths can differ."""
    escaped = re.sub(r"([][\\.*+?(){}|^$])", r"\\\1", line)
    numbers = re.sub(r"(?<![A-Za-z])(?=[a-f]*[0-9])[0-9a-f]+", "[0-9a-f]+", escaped)
    return re.sub(" {2,}", " +", numbers)


class Doc:
    """A markdown file: its commands, lines of output, tables and text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commands: list[tuple[int, str]] = []
        self.printed: dict[int, list[str]] = {}     # by the line of the command
        self.output: list[tuple[int, str]] = []
        self.text: list[tuple[int, str]] = []
        self.tables: list[list[tuple[int, list[str]]]] = []
        block: list[tuple[int, str]] = []
        fenced, table, blank = False, False, True
        for n, line in enumerate([*path.read_text().splitlines(), ""], 1):
            if line.startswith("```"):
                fenced = not fenced
            elif fenced:
                self.output.append((n, line))
            elif line.startswith("    ") and (blank or block):
                block.append((n, line[4:]))
            else:
                self.end_block(block)
                block = []
                self.text.append((n, line))
                if line.startswith("|"):
                    if not table:
                        self.tables.append([])
                    self.tables[-1].append((n, cells(line)))
                table = line.startswith("|")
            blank = not line
        if fenced:
            raise ValueError(f"{path}: a block has no end")

    def end_block(self, block: list[tuple[int, str]]) -> None:
        prompts = any(line.startswith("# ") for _, line in block)
        for n, line in block:
            if not prompts:
                self.commands.append((n, line))
            elif line.startswith("# "):
                self.commands.append((n, line[2:]))
                printed = self.printed.setdefault(n, [])
            else:
                printed.append(line)

    def spans(self) -> Iterator[tuple[int, str]]:
        for n, line in self.text:
            for span in SPAN.findall(line):
                yield n, span

    def all_commands(self) -> list[tuple[int, str]]:
        """With their lines, without comments; code spans count from two words on."""
        found = [(n, re.sub(r"  +#.*", "", line)) for n, line in self.commands]
        found += [(n, span) for n, span in self.spans() if " " in span and
                  (span.split()[0] in ("make", "bpfprov", "git") or re.match(r"(scripts|vmtest)/[\w.-]+ ", span))]
        return sorted(found, key=lambda c: c[0])

    def for_guest(self, rows: list[list[str]]) -> Iterator[str]:
        """Each command whose first row is "guest", once: in a block, if it is in one."""
        where: dict[str, int] = {}
        for n, command in self.all_commands():
            if command not in where or n in self.printed:
                where[command] = n
        for command, n in sorted(where.items(), key=lambda c: c[1]):
            if next((what for regex, what in rows if re.fullmatch(regex, command)), "") == "guest":
                yield f"$ {command}"
                for line in self.printed.get(n, []):
                    if line.startswith("^C"):
                        yield "^C"
                    yield f"> {pattern(line.removeprefix('^C'))}"


class Checker:
    def __init__(self, top: Path, help_dir: Path) -> None:
        self.top = top
        self.help = {path.name: path.read_text() for path in help_dir.iterdir()}
        makefile = (top / "Makefile").read_text()
        self.targets = {t for line in re.findall(r"^([a-z][a-z -]*):", makefile, re.M) for t in line.split()}
        self.targets |= {"headers", "olddefconfig"}     # the kernel's, in a patched tree
        self.variables = set(re.findall(r"\$\(([A-Z]+)\)|\b([A-Z_]+)=", makefile))
        self.variables = {name for pair in self.variables for name in pair if name}
        # Those that the runner hands to the tests.
        self.variables |= set(re.findall(r"[A-Z]+_[A-Z]+", self.help["vmtest.sh"]))
        self.tests: dict[str, list[str]] = {}
        for line in (top / "vmtest/expect.base").read_text().splitlines():
            if not line.startswith("#"):
                self.tests[line.split("\t")[0]] = line.split("\t")
        self.flavours = {"base", "series", "off"} | {p.stem for p in (top / "vmtest/kconfig").glob("*.config")}
        self.faults: list[str] = []
        self.where = ""

    def fault(self, what: str) -> None:
        self.faults.append(f"{self.where}: {what}")

    # --- commands ---------------------------------------------------------------

    def command_line(self, line: str) -> None:
        lexer = shlex.shlex(re.sub(r"  +#.*", "", line), posix=True, punctuation_chars="&|;")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in SEPARATORS:
                words.append(word)
            elif words:
                self.command(words)
                words = []

    def command(self, words: list[str]) -> None:
        while words and (match := re.match(r"([A-Z_]+)=", words[0])):
            self.variable(match[1])
            words = words[1:]
        if not words:
            return
        name, args = words[0], words[1:]
        if name == "make":
            self.make(args)
        elif name == "bpfprov":
            self.bpfprov(args)
        elif name in HOST:
            pass
        elif name.startswith(("scripts/", "vmtest/", ".ci/")):
            self.script(name, args)
        else:
            self.fault(f"{name}: not a program that this test can check")

    def variable(self, name: str) -> None:
        if name not in self.variables:
            self.fault(f"{name}=: neither the Makefile nor vmtest.sh has it")

    def make(self, args: list[str]) -> None:
        if args[:1] == ["-C"]:      # in a patched kernel tree
            place = re.sub("^tools/testing/", "", args[1])
            if not (self.top / place).is_dir():
                self.fault(f"make -C {args[1]}: the series does not add to it")
            for word in args[2:]:
                if word.startswith("TARGETS=") and not (self.top / place / word[8:]).is_dir():
                    self.fault(f"{word}: there is no {place}/{word[8:]}")
            return
        for word in args:
            if match := re.match(r"([A-Z_]+)=", word):
                self.variable(match[1])
            elif word not in self.targets:
                self.fault(f"make {word}: the Makefile does not have this target")

    def script(self, name: str, args: list[str]) -> None:
        path = self.top / name
        if not path.is_file():
            self.fault(f"{name}: does not exist")
            return
        text = self.help.get(path.name, "")
        if not text:
            self.fault(f"{name}: --help prints nothing")
            return
        subcommands = set(re.findall(rf"^(?:usage:|\s+)\s*{re.escape(path.name)} ([a-z_]+)\b", text, re.M))
        if subcommands and args:
            if args[0] in subcommands:
                # series mail is a script of its own.
                text = self.entry(text, path.name, args[0]) + self.help.get(args[0], "")
            elif not args[0].startswith("-"):
                self.fault(f"{name} {args[0]}: --help does not have this")
        value_of = ""
        for word in args:
            if word == "--":
                break
            if value_of:
                self.value(value_of, word)
                value_of = ""
            elif word.startswith("-"):
                option = word.split("=")[0]
                if not self.has_option(text, option):
                    self.fault(f"{' '.join([name, *args[:1]]) if subcommands else name} {option}: "
                               "--help does not have this option")
                if option in TESTS or option in FLAVOURS:
                    value_of = option
            elif path.name == "ci" and word not in self.left_column(text):
                self.fault(f"{name} {word}: --help does not have this")

    @staticmethod
    def entry(text: str, script: str, sub: str) -> str:
        """The parts of a usage text that are about one subcommand, and those about none."""
        parts = re.split(rf"^(?=(?:usage:|\s+)\s*{re.escape(script)} [a-z_]+\b)", text, flags=re.M)
        tail = text.partition("\n\n")[2]
        return "".join(p for p in parts if re.match(rf"(?:usage:|\s+)\s*{re.escape(script)} {sub}\b", p)) + tail

    @staticmethod
    def has_option(text: str, option: str) -> bool:
        spellings = {option, re.sub(r"\d+$", "N", option)}
        return option == "--help" or any(re.search(rf"(?<![\w-]){re.escape(s)}(?![\w-])", text) for s in spellings)

    @staticmethod
    def left_column(text: str) -> set[str]:
        lines = re.findall(r"^ {2,3}([a-z][a-z -]*?)(?:  .*)?$", text, re.M)
        return {word for line in lines for word in line.split()}

    def value(self, option: str, word: str) -> None:
        if option in FLAVOURS:
            if word not in self.flavours:
                self.fault(f"{option} {word}: vmtest/kconfig does not have this flavour")
        else:
            for test in word.split(","):
                self.test(test)

    def test(self, name: str) -> None:
        if not any(test == name or test.startswith(name + ".") for test in self.tests):
            self.fault(f"{name}: vmtest/expect.base does not have this test")

    def bpfprov(self, args: list[str]) -> None:
        source = self.top / "tools/bpf/bpfprov" / f"{args[0] if args else ''}.c"
        if not source.is_file():
            self.fault(f"bpfprov {' '.join(args[:1])}: not a command of bpfprov")
            return
        options = {"--help"}
        for long, short in re.findall(r"\{\s*\"([a-z-]+)\",\s*('.'|\w+)", source.read_text()):
            options |= {"--" + long, "-" + short.strip("'")}
        for word in args[1:]:
            if word.startswith("-") and word.split("=")[0] not in options:
                self.fault(f"bpfprov {args[0]} {word}: not an option of this command")

    # --- text -------------------------------------------------------------------

    def doc(self, path: Path) -> None:
        doc = Doc(path)

        def at(n: int) -> None:
            self.where = f"{path.name}:{n}"

        for n, line in doc.commands:
            at(n)
            self.command_line(line)
        for n, span in doc.spans():
            at(n)
            first = span.split()[0]
            if first in ("make", "bpfprov") or re.match(r"(scripts|vmtest)/[\w.-]+$", first) and " " in span:
                if span not in ("make", "bpfprov"):
                    self.command_line(span)
            elif re.match(r"(patches|kernel|tools|selftests|scripts|vmtest|fuzz|doc)/[\w./-]*$", span) and "SERIES" not in span:
                if not (self.top / span).exists():
                    self.fault(f"{span}: does not exist")
        for n, line in doc.text:
            at(n)
            for link in LINK.findall(line):
                if "://" not in link and not (path.parent / link.partition("#")[0]).exists():
                    self.fault(f"link to {link}: does not exist")
        for n, line in doc.output:
            at(n)
            if match := re.match(r"([a-z_]+(?:\.\w+)+) +(pass|fail|skip|panic) +(?:pass|skip) +(.*)", line):
                self.test(match[1])
                row = self.tests.get(match[1])
                # "why on base" is that of a test that does not pass there.
                if row and (row[1] != match[2] or row[3] != match[3]):
                    self.fault(f"{match[1]}: vmtest/expect.base has {row[1]}, {row[3]}")
        for table in doc.tables:
            if table[0][1][0] == "message":
                for n, row in table[2:]:
                    at(n)
                    for span in SPAN.findall(row[0]):
                        self.message(span)
            elif table[0][1][0] == "flavour":
                for n, row in table[2:]:
                    at(n)
                    for span in SPAN.findall(row[0]):
                        self.value("-f", span)
            elif table[0][1][:3] == ["interface", "kind", "series"]:
                self.interfaces(table[2:], path.name)

    def message(self, text: str) -> None:
        if not hasattr(self, "sources"):
            self.sources = "".join(
                p.read_text(errors="replace") for d in ("scripts", "vmtest") for p in (self.top / d).iterdir()
                if p.is_file())
        if text not in self.sources:
            self.fault(f"'{text}': no script prints this")

    # --- interfaces -------------------------------------------------------------

    def interfaces(self, table: list[tuple[int, list[str]]], name: str) -> None:
        """Each name is added by the series of its row, which also adds it to the document of
        the row; and each interface that the series add is in the table."""
        added: dict[str, dict[str, list[str]]] = {}
        for patch in (self.top / "patches").glob("*/*.patch"):
            lines: list[str] = []
            for line in patch.read_text(errors="replace").splitlines():
                if line.startswith("diff --git "):
                    file = line.rpartition(" b/")[2]
                    lines = added.setdefault(patch.parent.name, {}).setdefault(file, [])
                elif line.startswith("+") and not line.startswith("+++ "):
                    lines.append(line[1:])
        known: list[str] = []
        for n, row in table:
            self.where = f"{name}:{n}"
            series = [s.strip() for s in row[2].split(",")]
            for s in series:
                if s not in added:
                    self.fault(f"{s}: not a series of patches/")
            for span in SPAN.findall(row[0]):
                known.append(span)
                symbol = re.sub(r'^SEC\("(.*)"\)$', r"\1", span).rstrip("()*")
                symbol = re.sub(r"^(CONFIG_|kernel\.|perf_event_attr\.)", "", symbol)
                files = [f for s in series for f in added.get(s, {}).items()]
                if not any(symbol in line for _, lines in files for line in lines):
                    self.fault(f"{span}: the patches of {row[2]} do not add it")
                documents = SPAN.findall(row[3]) + LINK.findall(row[3])
                for document in (d.removeprefix("kernel/") for d in documents):
                    if not any(f in (document, "Documentation/" + document) and symbol in "\n".join(lines)
                               for f, lines in files):
                        self.fault(f"{span}: {row[2]} does not add it to {document}")
        self.where = name
        every = [line for files in added.values() for f, lines in files.items()
                 if not f.startswith(("tools/", "Documentation/")) for line in lines]
        for line, after in zip(every, [*every[1:], ""]):
            found = re.search(r"BTF_ID_FLAGS\(func, (\w+)|\.procname\s*= \"(\w+)\"", line)
            symbol = found[1] or found[2] if found else ""
            if match := re.match(r"config (\w+)$", line):
                # A symbol without a prompt is not for people.
                symbol = "CONFIG_" + match[1] if re.match(r"\s+(bool|tristate) \"", after) else ""
            elif match := re.match(r"#define (BPF_F_\w+)|\s(BPF_CGROUP_\w+),$", line):
                symbol = match[1] or match[2]
            if symbol and not any(fnmatch(symbol, k.replace("()", "").replace("kernel.", "")) for k in known):
                self.fault(f"{symbol}: the series add it, and the table of interfaces does not have it")


def main() -> int:
    if sys.argv[1] == "--commands":
        print("\n".join(command for path in sys.argv[2:] for _, command in Doc(Path(path)).all_commands()))
        return 0
    if sys.argv[1] == "--guest":
        rows = [line.split("\t") for line in Path(sys.argv[2]).read_text().splitlines() if not line.startswith("#")]
        print("\n".join(line for path in sys.argv[3:] for line in Doc(Path(path)).for_guest(rows)))
        return 0
    checker = Checker(Path(sys.argv[1]), Path(sys.argv[2]))
    for path in sys.argv[3:]:
        checker.doc(Path(path))
    for fault in checker.faults:
        print(fault)
    return int(bool(checker.faults))


if __name__ == "__main__":
    sys.exit(main())
