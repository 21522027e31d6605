# SPDX-License-Identifier: GPL-2.0
"""The tables of perf, names, bench, coverage and promises."""

import argparse
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Callable, Optional

from ktap import Tally, by_name, lines_of, read_all, rows

KERNELS = ("base", "series")


def fields(path: str | Path, *kinds: str) -> list[list[str]]:
    """The tab-separated lines of a console or results file that start with one of kinds."""
    return [row for row in (line.rstrip("\r").split("\t") for line in lines_of(path)) if row[0] in kinds]


# --- perf -------------------------------------------------------------------

# Other load beside the programs of guest-perf, as the table names it.
BESIDE = {"nothing": "-", "loaders": "loaders", "live": "10000 live"}
IMAGES = ("trampoline", "struct_ops", "dispatcher")


def perf(args: argparse.Namespace) -> int:
    """Judge the output of guest-perf on both kernels: print a line for each pair of perfs, the
    counts of perf's own tests, one line for each of these whose results differ, and the errors."""
    tally = Tally()
    runs: set[tuple[str, ...]] = set()
    tests: Suite = {}
    images: dict[tuple[str, ...], list[int]] = {}
    wrong: list[str] = []
    line = "{:<8} {:<8} {:<8} {:<12} {:<12} {:>8} {:>8} {:>7} {:>9} {:>6} {:>11}".format

    def check(ok: bool, what: str, *where: str) -> None:
        if not tally.check(ok):
            wrong.append(": ".join([" ".join(where), what]) if where else what)

    console = {k: fields(getattr(args, k), "perf", "same", "image", "kcore", "top", "test") for k in KERNELS}
    for kernel, rows_of in console.items():
        for _, what, record, report, *counts in (row for row in rows_of if row[0] == "image"):
            samples, named, other = (int(n) for n in counts)
            where = kernel, record, report, what
            runs.add(("image", kernel, what, record, report))
            total = images.setdefault((kernel, record, report), [0, 0])
            total[0] += samples
            total[1] += named
            # The dispatcher keeps its name in kallsyms, so it is named in each report.
            check(samples >= 20, f"too few samples: {samples}", *where)
            if report == kernel == "series":
                # perf record of base does not list images of struct_ops.
                if record == "series" or what != "struct_ops":
                    check(samples == named, f"{samples - named} samples without the right name", *where)
            elif report == record == "base" and what != "dispatcher":
                check(named < samples / 2, "most samples have their names, although kcore was read", *where)
            check(named + other <= samples, "more names than samples", *where)
        for _, record, report, read in (row for row in rows_of if row[0] == "kcore"):
            runs.add(("kcore", kernel, record, report))
            # perf of base takes images of struct_ops, which only the series' perf lists, for
            # modules that are missing, and does not read kcore then: it loses no image.
            expected_read = "no" if (record, report) == ("series", "base") else "yes"
            check(read == expected_read, f"perf report read /proc/kcore: {read}", kernel, record, report)
        for _, top, *numbers in (row for row in rows_of if row[0] == "top"):
            runs.add(("top", kernel, top))
            events, first = (int(n) for n in numbers)
            check(events > 0 and first == (events if top == "series" else 0),
                  f"perf top enabled {first} of {events} events before it listed the programs",
                  kernel, top)

    print(line("kernel", "record", "report", "beside", "bpf_subprog", "samples", "named", "wrong", "programs", "lines",
               "images"))
    for kernel, rows_of in console.items():
        for kind, *row in rows_of:
            if kind in ("image", "kcore", "top"):
                continue
            if kind == "test":
                tests.setdefault(row[1], {})[kernel, row[0]] = row[2]
                continue
            beside, record = row[:2]
            # Only this perf requests the records, and only this kernel has them.
            records = kernel == "series" and record == "series"
            where = kernel, record, BESIDE.get(beside, beside)
            if kind == "perf":
                report, *numbers, bit, status = row[2:]
                samples, named, other, programs, lines = (int(n) for n in numbers)
                where = *where[:2], report, where[2]
                runs.add(("perf", kernel, beside, record, report))
                of = images.get((kernel, record, report))
                print(line(*where, bit, samples, named, other, "-" if report == "base" else programs, lines,
                           f"{of[1]}/{of[0]}" if of and beside == "nothing" else "-"))
                check(status == "0", f"perf report ended with {status}", *where)
                check(bit == ("yes" if records else "no"), f"the file has attr.bpf_subprog: {bit}", *where)
                check(samples >= 100, f"too few samples: {samples}", *where)
                if records and report == "series":
                    check(samples == named and programs == 3,
                          "samples without the right name, or programs that are not distinguished", *where)
                else:
                    check(named < samples / 2,
                          "programs did not run while they were unloaded: most samples have names", *where)
            else:
                check(row[2] == "yes", "the reports differ in more than BPF text", *where)
    for why in wrong:
        print(f"    FAILED: {why}")
    expected = 2 * 4 * (len(BESIDE) + len(IMAGES) + 1) + 2 * 2
    if not tally.check(len(runs) == expected):
        print(f"    FAILED: a run is missing: there are {len(runs)} of {expected}")
    perf_suite(tests, tally)
    return tally.print()


# Of each of perf's own tests, the result by kernel and perf.
Suite = dict[str, dict[tuple[str, str], str]]
OUTCOMES = ("Ok", "Skip", "FAILED!")
# Only perf of the series has it, and only that kernel has the records.
NEEDS_RECORDS = "perf record BPF events of subprograms"


@cache
def unstable() -> set[str]:
    """Tests of perf test that also fail at random with perf of base."""
    lines = lines_of(Path(__file__).with_name("perf.known"))
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


def worse(test: str, result: dict[tuple[str, str], str]) -> list[str]:
    """Why the result with perf of the series, or on the series, is worse than on base."""
    if test in unstable():
        return []
    why = []
    for kernel in KERNELS:
        base, series = (result.get((kernel, p), "missing") for p in KERNELS)
        if series == "missing" or base == "Ok" != series:
            why.append(f"on {kernel}: {base} with perf of base, {series} with perf of the series")
    for by in KERNELS:
        base, series = (result.get((k, by), "missing") for k in KERNELS)
        if base == "Ok" != series:
            why.append(f"with perf of {by}: Ok on base, {series} on series")
    if all((k, "base") not in result for k in KERNELS):
        new = tuple(result.get((k, "series"), "missing") for k in KERNELS)
        if new not in (("Ok", "Ok"), ("Skip", "Ok") if test == NEEDS_RECORDS else ()):
            why.append(f"a test of the series: {new[0]} on base, {new[1]} on series")
    return why


def perf_suite(tests: Suite, tally: Tally) -> None:
    """A test may fail or be skipped with base's perf on base, as most PMUs are missing."""
    count = Counter((where, outcome) for result in tests.values() for where, outcome in result.items())
    print(f"\nkernel   perf test of {''.join(f'{o:>9}' for o in OUTCOMES)}")
    for where in [(k, p) for k in KERNELS for p in KERNELS]:
        counts = [count[where, o] for o in OUTCOMES]
        print(f"{where[0]:<8} {where[1]:<12}{''.join(f'{n:9}' for n in counts)}")
        if not tally.check(counts[0] > 0):
            print("    FAILED: no perf test is Ok")
    print()
    for test, result in tests.items():
        outcomes = set(result.values())
        why = worse(test, result)
        if why or "Ok" in outcomes and test not in unstable():
            tally.check(not why)
        else:
            tally.skipped += 1
        if why or len(outcomes) > 1:
            print(f"perf test: {test}: " + ", ".join(f"{o} with {p} on {k}" for (k, p), o in result.items()))
        elif outcomes == {"FAILED!"}:
            print(f"perf test: {test}: FAILED! with each")
        for what in why:
            print(f"    FAILED: {what}")


def names(args: argparse.Namespace) -> int:
    """Judge the output of guest-names on both kernels: print for each tool the share of samples
    that have their name, and the errors."""
    tally = Tally()
    wrong: list[str] = []
    share: dict[tuple[str, str], float] = {}
    runs = 0
    files = ("kept", "deleted", "stripped", "replaced")
    print(f"{'kernel':<8} {'by':<8} {'archived':<9}" + " ".join(f"{f:>9}" for f in files), end="")
    last = None
    for kernel in KERNELS:
        for _, tool, archived, file, samples, right, other in fields(getattr(args, kernel), "names"):
            if (kernel, tool, archived) != last:
                last = kernel, tool, archived
                print(f"\n{kernel:<8} {tool:<8} {archived:<9}", end="")
            runs += 1
            all_of = int(samples)
            percent = 100 * int(right) / all_of if all_of else 0
            print(f"{percent:7.1f} %", end="")
            checks = [(all_of >= 100, f"too few samples: {samples}"),
                      (int(other) <= all_of / 5, f"too many samples have another name: {other}")]
            if archived == "yes" or file == "kept":
                checks.append((percent >= 75, "most samples should have their name"))
            else:
                checks.append((int(right) == 0, f"nothing has the name any more, and yet samples have it: {right}"))
            if tool == "bpfprov":
                checks.append((percent >= share.get((archived, file), 0) - 10, "perf names more"))
            else:
                share[archived, file] = percent
            for ok, what in checks:
                if not tally.check(ok):
                    wrong.append(f"{kernel} {tool} {archived} {file}: {what}")
    print()
    if runs != 32:
        tally.failed += 1
        wrong.append(f"a run is missing: there are {runs} of 32")
    for why in wrong:
        print(f"    FAILED: {why}")
    return tally.print()


# --- bench ------------------------------------------------------------------

def bench(args: argparse.Namespace) -> int:
    """Print the costs of operations; write bench.json, bench.txt and plots to OUT. With --doc also
    write the plots and the table to the document, between its marks.

    A row of ROWS: boot, kernel, operation, x, costs (space between them). ANSWERED has the
    results of task_vma.exit.race and task_vma.writer.contention."""
    import json     # here, as few runs need them and all would wait for them
    import plots

    out = Path(args.out)
    boots: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    measured = []
    for boot, kernel, operation, x, costs in rows(args.rows):
        values = [float(c) for c in costs.split()]
        boots.setdefault((operation, x), {}).setdefault(kernel, []).append(values)
        measured.append({"boot": int(boot), "kernel": kernel, "operation": operation, "x": x, "instructions": values})
    (out / "bench.json").write_text("[\n" + ",\n".join("  " + json.dumps(m) for m in measured) + "\n]\n")
    line = "{:<36} {:<12} {:>12} {:>12} {:>7} {:>9}".format
    table = [line("operation", "x", "base", "series", "ratio", "spread %")]
    costs_of: Costs = {}
    for (operation, x), kernels in boots.items():
        mid = {k: median([v for boot in b for v in boot]) for k, b in kernels.items()}
        spread = max(abs(median(boot) - mid[k]) / mid[k] * 100 if mid[k] else 0 for k, b in kernels.items() for boot in b)
        base, series = (f"{mid[k]:.1f}" if k in mid else "-" for k in KERNELS)
        # An operation that base does not have has no ratio.
        ratio = f"{mid['series'] / mid['base']:.3f}" if len(mid) == 2 and mid["base"] else "-"
        table.append(line(operation, x, base, series, ratio, f"{spread:.2f}"))
        costs_of[operation, x] = mid.get("base"), mid.get("series")
    print("\n".join(table))
    (out / "bench.txt").write_text("\n".join(table) + "\n")

    pictures: dict[str, tuple[str, str]] = {}
    if costs_of:
        pictures["instructions"] = ("instructions per operation, base and series", plots.bars(
            "Instructions per operation", "instructions (logarithmic)", ("base", "series"), pairs(costs_of)))
    for name, (kind, title, x_name, y_name) in GROWTH.items():
        if curves := curves_of(costs_of, kind):
            pictures[name] = title, plots.lines(title, x_name, y_name, curves)
    said = ""
    if args.answered:
        race, contention, said = answered(args.answered)
        if race:
            pictures["resolved"] = ("share of samples resolved after the process ended", plots.bars(
                "Samples resolved after the process ended", "% of samples",
                ("/proc", "task_work", "process_exit", "query"), race, log=False, top=100))
        if contention:
            pictures["answered"] = ("share of samples answered while another thread maps memory", plots.bars(
                "Samples answered while another thread maps memory", "% of samples", ("answered",), contention,
                log=False, top=100))
    for name, (_, svg) in pictures.items():
        (out / f"{name}.svg").write_text(svg)
    if args.doc:
        doc = Path(args.doc)
        places = doc.with_suffix("")
        places.mkdir(exist_ok=True)
        for name, (_, svg) in pictures.items():
            (places / f"{name}.svg").write_text(svg)
        text = doc.read_text()
        about_samples = ("resolved", "answered")
        links = {name: f"![{title}]({places.name}/{name}.svg)" for name, (title, _) in pictures.items()}
        text = between(text, "bench", "\n\n".join(
            [legend(costs_of), *(link for name, link in links.items() if name not in about_samples),
             "```\n" + "\n".join(table) + "\n```"]))
        if said:
            text = between(text, "answered", "\n\n".join(
                [*(link for name, link in links.items() if name in about_samples), f"```\n{said}\n```",
                 "\n".join(f"- `{row}`: the process {what}." for row, what in ENDS if row in race)]))
        doc.write_text(text)
    return 0


# The first part of an operation's name, the operation, the meaning of its column x.
OPERATIONS = (
    ("stack", "get a stack with build IDs", "frames"),
    ("walk", "visit all mappings", "mappings; the cost is per mapping"),
    ("file_walk", "visit all mappings, which are of an ELF file", "mappings; the cost is per mapping"),
    ("lookup", "look up an address", "with or without a build ID"),
    ("procmap_query", "look up an address with PROCMAP_QUERY", "with or without a build ID"),
    ("file", "execute, map or open a file", "whether build IDs are cached"),
    ("load", "load and unload a BPF program", "listeners, which are perf events that request records"),
    ("multi", "link a BPF program to 256 functions; the cost is per function", "listeners"),
    ("classic", "attach a filter of classic BPF", "instructions of the filter"),
    ("sock", "socket calls",
     "cgroup in which BPF programs are attached; dual: with a socket of both families"),
)


def legend(costs_of: "Costs") -> str:
    """A row for each kind of operation that the table has."""
    kinds = {operation.partition("/")[0] for operation, _ in costs_of}
    return "\n".join(["| operation | column x |", "|---|---|",
                      *(f"| {kind}: {what} | {x} |" for kind, what, x in OPERATIONS if kind in kinds)])


# A row of the table of samples, and the action of its processes.
ENDS = (
    ("exit_group", "exits in the system call that is sampled"),
    ("munmap", "unmaps the file in the system call that is sampled"),
    ("execve", "executes another program in the system call that is sampled"),
    ("random", "exits, up to 2 ms after the sample"),
)

Costs = dict[tuple[str, str], tuple[Optional[float], Optional[float]]]

# NAME of the plot: the first part of the operations, title, axes.
GROWTH = {
    "frames": ("stack", "Cost of a stack with build IDs", "frames", "instructions per stack"),
    "mappings": ("walk", "Cost of a walk over all mappings", "mappings", "instructions per mapping"),
    "listeners": ("load", "Cost of loading and unloading a BPF program", "listeners", "instructions"),
}


def pairs(costs_of: Costs) -> dict[str, tuple[Optional[float], Optional[float]]]:
    """Base and series of each operation, at the largest x, or at the first where x is not a number."""
    at: dict[str, str] = {}
    for operation, x in costs_of:
        if operation not in at or x.isdigit() and at[operation].isdigit() and int(x) > int(at[operation]):
            at[operation] = x
    return {f"{operation}, {x}": costs_of[operation, x] for operation, x in at.items()}


def curves_of(costs_of: Costs, kind: str) -> dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]]]]:
    curves: dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]]]] = {}
    for (operation, x), costs in costs_of.items():
        part, _, name = operation.partition("/")
        if part == kind and x.isdigit():
            for points, cost in zip(curves.setdefault(name, ([], [])), costs):
                if cost and cost > 0:       # a logarithm is drawn
                    points.append((float(x), cost))
    return {name: both for name, both in curves.items() if any(both)}


def answered(ktap: str) -> tuple[dict[str, list[float]], dict[str, list[float]], str]:
    """Shares of samples, in percent: by the end of the process and method, and by helper."""
    race: dict[str, list[float]] = {}
    contention: dict[str, list[float]] = {}
    said = []
    for line in lines_of(ktap):
        if match := re.search(r":race:((\w+) +/proc +(\d+) % +task_work +(\d+) % +process_exit +(\d+) % "
                              r"+query +(\d+) %)", line):
            race[match[2]] = [float(match[n]) for n in range(3, 7)]
        elif match := re.search(r":contention:((\w+\(\)): (\d+) of (\d+) samples answered.*)", line):
            contention[match[2]] = [100 * int(match[3]) / int(match[4])]
        if match:
            said.append(match[1].rstrip())
    return race, contention, "\n".join(said)


def between(text: str, mark: str, new: str) -> str:
    """Text with the lines between <!-- mark --> and <!-- end of mark --> replaced."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        sys.exit(f"the document does not have the lines '{start.strip()}' and '{end}', once each")
    return text[:text.index(start) + len(start)] + new + "\n" + text[text.index(end):]


def median(values: list[float]) -> float:
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def number(text: str) -> int:
    match = re.match("[0-9]+", text)
    return int(match[0]) if match else 0


# --- coverage ---------------------------------------------------------------

def coverage(args: argparse.Namespace) -> int:
    """The lines that the series adds, and how many of them gcov counted. A line of ADDED:
    "series file line". Lines that were not run go to MISSED."""
    code: dict[tuple[str, str], str] = {}
    run: set[tuple[str, str]] = set()
    source = ""
    for line in lines_of(args.gcov):
        if match := re.match(r" *-: *0:Source:(?:/mnt/src/|\./)?(.*)", line):
            source = match[1]
            continue
        count, _, rest = line.partition(":")
        n, _, text = rest.partition(":")
        count = count.strip(" *")
        if count == "-" or not number(n.strip()):
            continue
        key = source, n.strip()
        code[key] = text
        # A header is in many files: one that ran it is enough.
        if count and not re.search("[#=]", count):
            run.add(key)
    lines: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    with open(args.missed, "w") as missed:
        for series, path, n in (line.split() for line in lines_of(args.added)):
            if (path, n) not in code:
                continue
            lines[series] += 1
            if (path, n) in run:
                ran[series] += 1
            else:
                print(f"{series} {path}:{n}\t{code[path, n]}", file=missed)
    print(f"{'series':<24} {'lines':>7} {'run':>7} {'%':>7}")
    if not lines:
        return 1
    for series in lines:
        print(f"{series:<24} {lines[series]:7} {ran[series]:7} {100 * ran[series] / lines[series]:7.1f}")
    every, all_ran = sum(lines.values()), sum(ran.values())
    print(f"{'all':<24} {every:7} {all_ran:7} {100 * all_ran / every:7.1f}")
    return 0


# --- promises ---------------------------------------------------------------

def promises(args: argparse.Namespace) -> int:
    """The README's table of promises, in markdown. A line of promises: "promise", key, name=value..."""
    values = {k: {row[1]: dict(value.split("=", 1) for value in row[2:]) for row in fields(getattr(args, k), "promise")}
              for k in KERNELS}
    passed = {name for name, r in by_name(read_all(args.tests)).items() if r.outcome == "pass"}
    print("| promise | measured | base | series | shown by |\n|---|---|---|---|---|")
    promises = {row[0]: row[1:] for row in rows(args.promises)}
    for key in values["base"]:
        if key not in promises:
            sys.exit(f"{args.promises} has no row for the promise {key}")
    for key, (promise, measured, text, tests) in promises.items():
        base, series = (text.format_map(values[k][key]) if key in values[k] else "not measured" for k in KERNELS)
        shown = " ".join(f"`{t}`" for t in tests.split() if t in passed)
        print(f"| {promise} | {measured} | {base} | {series} | {shown or 'no test passed'} |")
    return 0


def put(args: argparse.Namespace) -> int:
    """Replace the lines between the marks of a document by the input."""
    doc = Path(args.doc)
    doc.write_text(between(doc.read_text(), args.mark, sys.stdin.read().rstrip("\n")))
    return 0


def commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    for run, help in ((perf, "the table of guest-perf"), (names, "the table of guest-names")):
        p = command(run, help)
        p.add_argument("base")
        p.add_argument("series")
    p = command(bench, "the costs of operations on both kernels")
    p.add_argument("rows")
    p.add_argument("out")
    p.add_argument("--answered", metavar="RUN", help="of the tests of samples")
    p.add_argument("--doc", metavar="FILE", help="write plots and tables to it")
    p = command(put, "write the input to a document, between <!-- MARK --> and its end")
    p.add_argument("doc")
    p.add_argument("mark")
    p = command(coverage, "the lines of the series that its tests run")
    for name in ("gcov", "added", "missed"):
        p.add_argument(name)
    p = command(promises, "the table of promises in README.md")
    p.add_argument("--tests", action="append", required=True, metavar="RUN")
    for name in ("promises", "base", "series"):
        p.add_argument(name)
