# SPDX-License-Identifier: GPL-2.0
"""The tables of perf, names, bench, coverage and seeds."""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Callable

from ktap import Tally, by_name, lines_of, read_all, rows

KERNELS = {"base": "7.3", "prod": "series"}


def fields(path: str | Path, *kinds: str) -> list[list[str]]:
    """The tab-separated lines of a console or results file that start with one of kinds."""
    return [row for row in (line.rstrip("\r").split("\t") for line in lines_of(path)) if row[0] in kinds]


# --- perf -------------------------------------------------------------------

def perf(args: argparse.Namespace) -> int:
    """What guest-perf printed on both kernels: a line for each pair of perfs, one for each
    perf test that is not Ok on both, and what is wrong."""
    tally = Tally()
    runs: set[tuple[str, str, str]] = set()
    tests: dict[str, dict[str, str]] = {}
    line = "{:<8} {:<8} {:<8} {:<12} {:>8} {:>8} {:>9} {:>6}".format

    def check(ok: bool, what: str) -> None:
        if not tally.check(ok):
            print(f"    FAILED: {what}")

    print(line("kernel", "record", "report", "bpf_subprog", "samples", "named", "programs", "lines"))
    for kernel in KERNELS:
        for kind, *row in fields(getattr(args, kernel), "perf", "same", "equal", "test"):
            # Only this perf asks for the records, and only this kernel has them.
            records = kernel == "prod" and row[0] == "prod"
            if kind == "perf":
                record, report, samples, named, programs, lines, bit, status = row
                runs.add((kernel, record, report))
                print(line(KERNELS[kernel], KERNELS[record], KERNELS[report], bit, samples, named,
                           "-" if report == "base" else programs, lines))
                check(status == "0", f"perf report ended with {status}")
                check(bit == ("yes" if records else "no"), f"the file has attr.bpf_subprog: {bit}")
                check(int(samples) >= 100, "too few samples")
                if records and report == "prod":
                    check(samples == named and programs == "3",
                          "samples without a name, or programs that are not told apart")
                else:
                    check(int(named) < int(samples) / 2,
                          "programs did not run while they were unloaded: most samples have names")
            elif kind == "same":
                check(row[1] == "yes", "the reports differ in more than BPF programs")
            elif kind == "equal":
                if not records:
                    check(row[1] == "yes", "the reports differ")
            else:
                tests.setdefault(row[0], {})[kernel] = row[1]
    check(len(runs) == 8, "a run is missing")
    check(bool(tests), "no perf test ran")
    for test, result in tests.items():
        base, prod = result.get("base", ""), result.get("prod", "")
        if base == prod == "Ok":
            tally.passed += 1
            continue
        print(f"perf test: {test}: {base} on 7.3, {prod} on the series")
        if base == prod == "Skip":
            tally.skipped += 1
        else:
            check(test == "perf record BPF events of subprograms" and (base, prod) == ("Skip", "Ok"),
                  "another result was expected")
    return tally.print()


def names(args: argparse.Namespace) -> int:
    """What guest-names printed on both kernels: for each tool the share of samples that have
    their name, and what is wrong."""
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
                print(f"\n{KERNELS[kernel]:<8} {tool:<8} {archived:<9}", end="")
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
                    wrong.append(f"{KERNELS[kernel]} {tool} {archived} {file}: {what}")
    print()
    if runs != 32:
        tally.failed += 1
        wrong.append(f"a run is missing: there are {runs} of 32")
    for why in wrong:
        print(f"    FAILED: {why}")
    return tally.print()


# --- bench ------------------------------------------------------------------

def bench(args: argparse.Namespace) -> int:
    """Print what operations cost, and write bench.json, and plot and its data for gnuplot.

    A row of ROWS: boot, kernel, operation, x, costs (space between them)."""
    import json     # here, as few runs need it and all would wait for it

    out = Path(args.out)
    boots: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    measured = []
    for boot, kernel, operation, x, costs in rows(args.rows):
        values = [float(c) for c in costs.split()]
        boots.setdefault((operation, x), {}).setdefault(kernel, []).append(values)
        measured.append({"boot": int(boot), "kernel": kernel, "operation": operation, "x": x, "instructions": values})
    (out / "bench.json").write_text("[\n" + ",\n".join("  " + json.dumps(m) for m in measured) + "\n]\n")
    line = "{:<36} {:<12} {:>12} {:>12} {:>7} {:>9}".format
    print(line("operation", "x", "base", "series", "ratio", "spread %"))
    costs_of: dict[tuple[str, str], tuple[str, str]] = {}
    for (operation, x), kernels in boots.items():
        mid = {k: median([v for boot in b for v in boot]) for k, b in kernels.items()}
        spread = max(abs(median(boot) - mid[k]) / mid[k] * 100 for k, b in kernels.items() for boot in b)
        base, series = (f"{mid[k]:.1f}" if k in mid else "-" for k in KERNELS)
        # An operation that base does not have is no ratio of anything.
        ratio = f"{mid['prod'] / mid['base']:.3f}" if len(mid) == 2 else "-"
        print(line(operation, x, base, series, ratio, f"{spread:.2f}"))
        costs_of[operation, x] = base, series
    plot(costs_of, Path(args.plot))
    return 0


def plot(costs_of: dict[tuple[str, str], tuple[str, str]], out: Path) -> None:
    """A panel for each kind of growth: frames, files and VMAs, functions and listeners."""
    panels: dict[str, dict[str, list[str]]] = {}
    for (operation, x), (base, series) in costs_of.items():
        part = operation.split("/")

        def point(panel: str, curve: str, at: str) -> None:
            panels.setdefault(panel, {}).setdefault(curve, []).append(f"{number(at)} {base} {series}")
        if part[0] == "stack":
            point("frames", operation, x)
            if len(part) == 3 and x == "50":
                point("files", f"{part[0]}/{part[1]}, 50 frames", part[2])
        elif part[0] == "walk":
            point("VMAs", operation, x)
        elif part[0] == "load":
            point("listeners", operation, x)
            if x in ("0", "64"):
                kind = re.sub("^[0-9]+_", "", part[1])
                point("functions of a program", f"load/{kind}, {x} listeners", part[1])
    if not panels:
        return
    script = [f"set terminal svg size 900,{420 * len(panels)} font 'sans,12'", "set output 'bench.svg'",
              f"set multiplot layout {len(panels)},1",
              "set logscale y; set key outside right; set ylabel 'instructions'"]
    n = 0
    for panel, curves in panels.items():
        script.append(f"set xlabel '{panel}'")
        # There is no logarithm of 0 listeners.
        script.append("unset logscale x" if panel == "listeners" else "set logscale x")
        lines = []
        for colour, (curve, points) in enumerate(curves.items(), 1):
            n += 1
            (out / str(n)).write_text("\n".join(points) + "\n")
            lines.append(f"'{n}' using 1:2 title '{curve}, base' noenhanced with linespoints "
                         f"linecolor {colour} dashtype 2")
            lines.append(f"'{n}' using 1:3 title '{curve}, series' noenhanced with linespoints linecolor {colour}")
        script.append("plot " + ", ".join(lines))
    (out / "plot").write_text("\n".join(script) + "\n")


def median(values: list[float]) -> float:
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def number(text: str) -> int:
    match = re.match("[0-9]+", text)
    return int(match[0]) if match else 0


# --- coverage ---------------------------------------------------------------

def coverage(args: argparse.Namespace) -> int:
    """The lines that the series adds, and those of them that gcov counted. A line of ADDED:
    "topic file line". Lines that were not run go to MISSED."""
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
        for topic, path, n in (line.split() for line in lines_of(args.added)):
            if (path, n) not in code:
                continue
            lines[topic] += 1
            if (path, n) in run:
                ran[topic] += 1
            else:
                print(f"{topic} {path}:{n}\t{code[path, n]}", file=missed)
    print(f"{'topic':<24} {'lines':>7} {'run':>7} {'%':>7}")
    if not lines:
        return 1
    for topic in lines:
        print(f"{topic:<24} {lines[topic]:7} {ran[topic]:7} {100 * ran[topic] / lines[topic]:7.1f}")
    every, all_ran = sum(lines.values()), sum(ran.values())
    print(f"{'all':<24} {every:7} {all_ran:7} {100 * all_ran / every:7.1f}")
    return 0


# --- seeds ------------------------------------------------------------------

def seeds(args: argparse.Namespace) -> int:
    """The README's first table, in markdown. A line of seeds: "seed", key, ..., measured."""
    measured = {k: {row[1]: row[-1] for row in fields(getattr(args, k), "seed")} for k in KERNELS}
    passed = {name for name, r in by_name(read_all(args.series)).items() if r.outcome == "pass"}
    print(f"| promise of the original postings | Linux {args.version} | this series | shown by |\n|---|---|---|---|")
    promises = {row[0]: row[1:] for row in rows(args.promises)}
    for key in measured["base"]:
        if key not in promises:
            sys.exit(f"{args.promises} has no row for the seed {key}")
    for key, (promise, tests) in promises.items():
        base, prod = measured["base"].get(key, "not measured"), measured["prod"].get(key, "not measured")
        shown = " ".join(f"`{t}`" for t in tests.split() if t in passed)
        if not shown:
            prod = "not built yet: " + ("as 7.3" + prod.removeprefix(base) if prod.startswith(base) else prod)
        print(f"| {promise} | {base} | {prod} | {shown or '—'} |")
    return 0


def commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    for run, help in ((perf, "the table of guest-perf"), (names, "the table of guest-names")):
        p = command(run, help)
        p.add_argument("base")
        p.add_argument("prod")
    p = command(bench, "the costs of operations on both kernels")
    for name in ("rows", "out", "plot"):
        p.add_argument(name)
    p = command(coverage, "the lines of the series that its tests run")
    for name in ("gcov", "added", "missed"):
        p.add_argument(name)
    p = command(seeds, "the first table of README.md")
    p.add_argument("--series", action="append", required=True, metavar="RUN")
    p.add_argument("--version", required=True, help="of base")
    for name in ("promises", "base", "prod"):
        p.add_argument(name)
