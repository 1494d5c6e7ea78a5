"""Charts as inline SVG: no script, no network, colours from the page's variables.

A series is told from the others by its colour and by its mark or dash. Classes ``s0`` (real rows,
the colour of text), ``s1``, ``s2`` ... are coloured by :mod:`marginalsyn.evaluation.page`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marginalsyn.evaluation.markup import fill, number, part

Point = Sequence[float]

# Longer labels are cut; what they say in full stands in a tooltip and in a table.
MOST_LABEL = 24
# The room of a value that is written out at the end of its line.
VALUE = 62.0


@dataclass(frozen=True)
class Series:
    """Named values of one colour: ``tone`` 0 is real, the others are numbered."""

    name: str
    values: Sequence[float]
    tone: int


@dataclass(frozen=True)
class Span:
    """A value with its interval, and another's interval beside it."""

    label: str
    value: float
    low: float
    high: float
    beside: tuple[float, float] | None = None


def forest(spans: Sequence[Span], title: str) -> str:
    """Values with their intervals, one a line; what is beside each is drawn below it."""
    row = 30.0 if any(span.beside for span in spans) else 22.0
    ends = [end for span in spans for end in (span.low, span.high, *(span.beside or ()))]
    size = {"left": 170.0, "width": 440.0, "row": row, "height": row * len(spans) + 30}
    return _on_axis("forest.html", ends, 0.05, **size, title=title, spans=spans)


def _on_axis(
    template: str, ends: Sequence[float], margin: float, *, left: float, width: float, **values: Any
) -> str:
    """A chart with a row for each value, on an axis that holds these ends with a margin."""
    low, high = _padded(ends, margin, 0.05, 0.5)
    # The values stand to the right of the axis, for paper shows no tooltips.
    right = width - VALUE

    def x(value: float) -> float:
        return left + (right - left - 12) * (value - low) / (high - low)

    values |= {"left": left, "width": width, "right": right, "x": x, "ticks": ticks(low, high)}
    return fill(template, **values)


def _padded(values: Sequence[float], margin: float, alike: float, least: float) -> Point:
    """The ends of an axis for these numbers; ``alike`` and ``least`` are for numbers all alike."""
    low, high = min(values), max(values)
    pad = (high - low) * margin or abs(high) * alike or least
    return low - pad, high + pad


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that lie between two ends."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * m for m in (1, 2, 2.5, 5, 10) if scale * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def overlay(labels: Sequence[str], series: Sequence[Series], title: str) -> str:
    """Shares of one column's values, a line each: real rows as bars, the others as marks on them.

    What stands first is written out at the end of its line.
    """
    # The labels get the room that they need, within limits.
    longest = min(max((len(label) for label in labels), default=0), MOST_LABEL)
    row, left, right = 17.0, max(80.0, 14 + 6.8 * longest), VALUE
    width = left + 176 + VALUE
    top = max((max(s.values, default=0.0) for s in series), default=0.0) or 1.0

    def x(value: float) -> float:
        return left + (width - left - right) * value / top

    told = (
        "; ".join(f"{s.name} {number(float(s.values[i]))}" for s in series)
        for i, _ in enumerate(labels)
    )
    return fill(
        "overlay.html",
        title=f"{title}: shares of its values",
        width=width,
        height=row * len(labels) + 22,
        left=left,
        row=row,
        x=x,
        ticks=ticks(0, top, 3),
        series=series,
        labels=labels,
        most=MOST_LABEL,
        hints=[f"{label}: {words}" for label, words in zip(labels, told, strict=True)],
    )


def heat(names: Sequence[str], cells: Mapping[tuple[int, int], float], title: str) -> str:
    """A matrix of pairs: the stronger the colour, the larger the number."""
    count = len(names)
    size = 22.0 if count <= 24 else max(6.0, 528.0 / count)
    left, top = 128.0, 86.0
    return fill(
        "heat.html",
        title=title,
        width=left + size * count + 58,
        height=top + size * count + 26,
        left=left,
        top=top,
        size=size,
        names=names,
        cells=cells,
        most=max(cells.values(), default=0.0) or 1.0,
    )


@dataclass(frozen=True)
class Bar:
    """One line of a dot chart: a value with its standard error."""

    label: str
    value: float
    error: float | None
    tone: int


def dots(bars: Sequence[Bar], reference: float | None, title: str) -> str:
    """Values with bars of two standard errors, against a line at the reference."""
    ends = [b.value + sign * 2 * (b.error or 0.0) for b in bars for sign in (-1, 1)]
    ends += [reference] if reference is not None else []
    size = {"left": 158.0, "width": 420.0, "row": 24.0, "height": 24.0 * len(bars) + 30}
    return _on_axis("dots.html", ends, 0.08, **size, title=title, reference=reference, bars=bars)


def lines(
    points: Mapping[str, Sequence[Point]],
    tones: Mapping[str, int],
    title: str,
    x_title: str,
    y_title: str,
    *,
    square: bool = False,
    marks: bool = True,
) -> str:
    """Curves of (x, y) or (x, y, standard error) points.

    Those of two shares are drawn in a square with its diagonal; others against the logarithm of x,
    with a rule where y is 0.
    """
    width, height = (300.0, 300.0) if square else (420.0, 260.0)
    left, right, top, bottom = 54.0, width - 10, 8.0, height - 38
    every = [p for curve in points.values() for p in curve]
    if not every:
        return ""
    x0, x1, y0, y1 = 0.0, 1.0, 0.0, 1.0
    if not square:
        x0, x1 = _padded([math.log(p[0]) for p in every], 0.07, 0.1, 1.0)
        ys = [p[1] + s * 2 * (p[2] if len(p) > 2 else 0) for p in every for s in (-1, 1)]
        y0, y1 = _padded([*ys, 0.0], 0.07, 0.1, 1.0)

    def x(value: float) -> float:
        at = value if square else math.log(value)
        return left + (right - left) * (at - x0) / (x1 - x0)

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - y0) / (y1 - y0)

    return fill(
        "lines.html",
        title=title,
        width=width,
        height=height,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        x=x,
        y=y,
        x_ticks=ticks(x0, x1) if square else sorted({float(p[0]) for p in every}),
        y_ticks=ticks(y0, y1),
        x_title=x_title,
        y_title=y_title,
        points=points,
        tones=tones,
        diagonal=square,
        rule=y0 < 0 < y1,
        marks=marks,
    )


def histogram(edges: Sequence[float], counts: Sequence[int], title: str, x_title: str) -> str:
    """Counts between edges."""
    width, height, left, bottom = 420.0, 200.0, 46.0, 38.0
    top = max(counts, default=0) or 1
    low, high = edges[0], edges[-1]

    def x(value: float) -> float:
        return left + (width - left - 10) * (value - low) / ((high - low) or 1.0)

    def y(value: float) -> float:
        return 8 + (height - bottom - 8) * (1 - value / top)

    return fill(
        "histogram.html",
        title=title,
        width=width,
        height=height,
        left=left,
        floor=height - bottom,
        x=x,
        y=y,
        x_ticks=ticks(low, high, 5),
        y_ticks=ticks(0, top, 3),
        x_title=x_title,
        edges=edges,
        counts=counts,
    )


def key(entries: Sequence[tuple[str, int]], *, bars: bool = False) -> str:
    """A legend: the mark and the name of every series; ``bars`` draws real rows as a bar."""
    return part("key", entries, bars)
