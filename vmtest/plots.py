# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG, of bars and of lines. The same data gives the same bytes."""

import math
from typing import Mapping, Optional, Sequence
from xml.sax.saxutils import escape

WIDTH = 900
ROW = 11                # the height of a bar
# The first two are base and series, in bars.
COLOURS = ("#4878a8", "#d65f5f", "#6aab5d", "#956cb4", "#c7883d", "#5bb0b5", "#7f7f7f", "#c06fa4")
Point = tuple[float, float]


class Drawing:
    def __init__(self, title: str, height: int) -> None:
        self.height = height
        self.parts = [f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
        self.text(WIDTH / 2, 20, title, "middle", size=15)

    def text(self, x: float, y: float, text: str, anchor: str = "start", size: int = 12, turned: bool = False) -> None:
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>'
                          f"{escape(text)}</text>")

    def line(self, points: Sequence[Point], colour: str, dashed: bool = False, width: float = 1) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" '
                          f'stroke="{colour}" stroke-width="{width}"{dash}/>')

    def bar(self, x: float, y: float, width: float, colour: str) -> None:
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW - 1}" fill="{colour}"/>')

    def dot(self, x: float, y: float, colour: str) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')

    def __str__(self) -> str:
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" '
                f'viewBox="0 0 {WIDTH} {self.height}" font-family="sans-serif" fill="#222222">\n'
                + "\n".join(self.parts) + "\n</svg>\n")


class Scale:
    """From values to places between first and last; the ends are at powers of ten or round numbers."""

    def __init__(self, values: Sequence[float], first: float, last: float, log: bool) -> None:
        self.first, self.last = first, last
        # There is no logarithm of 0.
        self.log = log and min(values) > 0
        if self.log:
            self.low = float(math.floor(math.log10(min(values)) + 1e-9))
            self.high = max(float(math.ceil(math.log10(max(values)) - 1e-9)), self.low + 1)
            self.ticks = [10.0 ** e for e in range(int(self.low), int(self.high) + 1)]
        else:
            top = max([*values, 0.0]) or 1.0
            step = 10.0 ** math.floor(math.log10(top))
            step = next(s for s in (step / 5, step / 2, step, step * 2) if top / s <= 6)
            self.low, self.high = 0.0, math.ceil(top / step - 1e-9) * step
            self.ticks = [i * step for i in range(int(self.high / step + 0.5) + 1)]

    def __call__(self, value: float) -> float:
        at = math.log10(value) if self.log else value
        return self.first + (at - self.low) / (self.high - self.low) * (self.last - self.first)


def human(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 or not value else f"{value:g}"


def bars(title: str, unit: str, names: Sequence[str], rows: Mapping[str, Sequence[Optional[float]]],
         log: bool = True, top: Optional[float] = None) -> str:
    """A row for each label, with a bar for each of names; None is a value that does not exist."""
    left, right, head = 330, WIDTH - 90, 62
    height_of_row = ROW * len(names) + 6
    drawing = Drawing(title, head + height_of_row * len(rows) + 40)
    values = [v for row in rows.values() for v in row if v is not None]
    scale = Scale([*values, *([top] if top else [])], left, right, log)
    bottom = head + height_of_row * len(rows)
    for i, name in enumerate(names):
        drawing.bar(left + i * 150, 36, 20, COLOURS[i])
        drawing.text(left + i * 150 + 26, 45, name)
    for tick in scale.ticks:
        drawing.line([(scale(tick), head - 4), (scale(tick), bottom)], "#dddddd")
        drawing.text(scale(tick), bottom + 14, human(tick), "middle", 11)
    drawing.text((left + right) / 2, bottom + 32, unit, "middle")
    for n, (label, row) in enumerate(rows.items()):
        y = head + n * height_of_row
        drawing.text(left - 8, y + height_of_row / 2 + 1, label, "end", 11)
        for i, value in enumerate(row):
            if value is None:
                drawing.text(left + 4, y + i * ROW + 9, "not available", size=10)
            else:
                drawing.bar(left, y + i * ROW, scale(value) - left, COLOURS[i])
                drawing.text(scale(value) + 4, y + i * ROW + 9, human(value), size=10)
    return str(drawing)


def lines(title: str, x_name: str, y_name: str, curves: Mapping[str, tuple[Sequence[Point], Sequence[Point]]],
          log_x: bool = True) -> str:
    """Two lines for each curve: base, which is dashed, and series."""
    left, right, top, bottom = 90, WIDTH - 290, 40, 420
    drawing = Drawing(title, bottom + 50)
    points = [p for pair in curves.values() for line in pair for p in line]
    x_of = Scale([x for x, _ in points], left, right, log_x)
    y_of = Scale([y for _, y in points], bottom, top, True)
    for tick in x_of.ticks:
        drawing.line([(x_of(tick), top), (x_of(tick), bottom)], "#dddddd")
        drawing.text(x_of(tick), bottom + 16, human(tick), "middle", 11)
    for tick in y_of.ticks:
        drawing.line([(left, y_of(tick)), (right, y_of(tick))], "#dddddd")
        drawing.text(left - 6, y_of(tick) + 4, human(tick), "end", 11)
    drawing.text((left + right) / 2, bottom + 38, x_name, "middle")
    drawing.text(20, (top + bottom) / 2, y_name, "middle", turned=True)
    y = top + 10
    for i, (name, (base, series)) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        for line, dashed, kernel in ((base, True, "base"), (series, False, "series")):
            if not line:
                continue
            places = [(x_of(x), y_of(y)) for x, y in sorted(line)]
            drawing.line(places, colour, dashed, 2)
            for place in places:
                drawing.dot(*place, colour)
            drawing.line([(right + 16, y - 4), (right + 46, y - 4)], colour, dashed, 2)
            drawing.text(right + 52, y, f"{name}, {kernel}", size=11)
            y += 17
    return str(drawing)
