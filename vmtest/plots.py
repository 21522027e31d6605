# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG, by gnuplot: of bars and of lines. The same data gives the same bytes."""

import math
import subprocess
import sys
from shutil import which
from typing import Mapping, Optional, Sequence

WIDTH = 900
ROW = 11                # the height of a bar
# The first two are base and series, in bars.
COLOURS = ("#4878a8", "#d65f5f", "#6aab5d", "#956cb4", "#c7883d", "#5bb0b5", "#7f7f7f", "#c06fa4")
Point = tuple[float, float]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def human(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 or not value else f"{value:g}"


def gnuplot(title: str, height: int, commands: Sequence[str]) -> str:
    script = [f"set terminal svg size {WIDTH},{height} font 'sans-serif,12' background '#ffffff' noenhanced",
              f"set title {quoted(title)}", "set grid linecolor '#dddddd' linetype 1", *commands]
    # The toolchain root is mounted without its /etc/alternatives, through which gnuplot is found.
    program = which("gnuplot-nox") or which("gnuplot") or sys.exit("gnuplot is not installed")
    done = subprocess.run([program], input="\n".join(script) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"gnuplot: {done.stderr.strip()}")
    return done.stdout


def bars(title: str, unit: str, names: Sequence[str], rows: Mapping[str, Sequence[Optional[float]]],
         log: bool = True, top: Optional[float] = None) -> str:
    """A row for each label, with a bar for each of names; None is a value that does not exist."""
    values = [v for row in rows.values() for v in row if v is not None]
    # 0 has no logarithm.
    log = log and min(values) > 0
    low = 10.0 ** math.floor(math.log10(min(values))) if log else 0.0
    step = len(names) + 0.6
    # A value at the very edge of a logarithmic axis is not drawn.
    commands = ["set key top outside center horizontal", "set style fill solid noborder", "unset ytics",
                f"set yrange [{step * len(rows) - 0.8}:-0.8]", f"set xlabel {quoted(unit)}", "set lmargin 42",
                "set rmargin 12", f"set xrange [{low * 0.999}:{top if top else '*'}]"]
    if log:
        commands.append("set logscale x")
    plots = []
    for i, name in enumerate(names):
        commands += [f"$bars{i} << END", *(f"{n * step + i} {row[i]}" for n, row in enumerate(rows.values())
                                           if row[i] is not None), "END"]
        plots.append(f"$bars{i} using 2:1:({low}):2:($1-0.45):($1+0.45) with boxxyerror linecolor '{COLOURS[i]}' "
                     f"title {quoted(name)}")
    for n, (label, row) in enumerate(rows.items()):
        texts = [(low, "not available") if value is None else (value, human(value)) for value in row]
        commands += [f"$label{n} << END", f'{n * step + (len(names) - 1) / 2} {low} "{label}"', "END",
                     f"$texts{n} << END", *(f'{n * step + i} {at} "{text}"' for i, (at, text) in enumerate(texts)), "END"]
        plots += [f"$label{n} using 2:1:3 with labels right offset -1,0 font ',11' notitle",
                  f"$texts{n} using 2:1:3 with labels left offset 0.5,0 font ',10' notitle"]
    commands.append("plot " + ", ".join(plots))
    return gnuplot(title, int(ROW * step * len(rows)) + 110, commands)


def lines(title: str, x_name: str, y_name: str, curves: Mapping[str, tuple[Sequence[Point], Sequence[Point]]],
          log_x: bool = True) -> str:
    """Two lines for each curve: base, which is dashed, and series."""
    points = [p for pair in curves.values() for line in pair for p in line]
    commands = [f"set xlabel {quoted(x_name)}", f"set ylabel {quoted(y_name)}", "set key outside right top",
                "set logscale y"]
    if log_x and min(x for x, _ in points) > 0:
        commands.append("set logscale x")
    plots = []
    for i, (name, pair) in enumerate(curves.items()):
        for line, dash, kernel in zip(pair, (2, 1), ("base", "series")):
            if not line:
                continue
            block = f"$d{len(plots)}"
            commands += [f"{block} << END", *(f"{x} {y}" for x, y in sorted(line)), "END"]
            plots.append(f"{block} using 1:2 with linespoints pointtype 7 pointsize 0.5 linewidth 2 dashtype {dash} "
                         f"linecolor '{COLOURS[i % len(COLOURS)]}' title {quoted(f'{name}, {kernel}')}")
    commands.append("plot " + ", ".join(plots))
    return gnuplot(title, 470, commands)
