"""Charts as inline SVG: no script, no network, colours from the page's variables.

Series differ in colour and in mark or dash. The templates hold the shapes; here is the geometry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from marginalsyn.evaluation.view import Chart, Curves, Dots, Histogram, Matrix, Shares, number

if TYPE_CHECKING:
    from jinja2 import Environment

# Longer labels are cut; tooltips and tables have them in full.
MOST_LABEL = 24
# The room of a value that is written out at the end of its line.
VALUE = 62.0


def draw(chart: Chart) -> str:
    """The SVG of a chart; nothing where it has no values.

    Example:
        >>> from marginalsyn.evaluation.view import Bar
        >>> draw(Dots("a < b", [Bar("one", 0.5)]))[:4]
        '<svg'
    """
    kind = type(chart)
    values = _GEOMETRY[kind](chart)
    return fill(f"{kind.__name__.lower()}.html", chart=chart, **values) if values else ""


def fill(template: str, **values: Any) -> str:
    """A file of ``templates/`` with its values, which are escaped.

    Example:
        >>> values = {"warned": False, "lead": [], "figures": [], "tables": [], "warnings": []}
        >>> "a &lt; b" in fill("card.html", title="a < b", stamp="open", **values)
        True
    """
    return _environment().get_template(template).render(values)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that lie between two ends."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * m for m in (1, 2, 2.5, 5, 10) if scale * m >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """The coordinate of a value on an axis from ``start`` to ``end``."""
    return lambda value: start + (end - start) * (value - low) / ((high - low) or 1.0)


def _padded(values: Sequence[float], margin: float, alike: float, least: float) -> Sequence[float]:
    """The ends of an axis for these numbers; ``alike`` and ``least`` are for numbers all alike."""
    low, high = min(values), max(values)
    pad = (high - low) * margin or abs(high) * alike or least
    return low - pad, high + pad


def _dots(chart: Dots) -> Mapping[str, Any]:
    if not chart.bars:
        return {}
    ends = [end for bar in chart.bars for end in (*bar.ends, *(bar.below or ()))]
    ends += [chart.reference] if chart.reference is not None else []
    low, high = _padded(ends, 0.08, 0.05, 0.5)
    row = 30.0 if any(bar.below for bar in chart.bars) else 24.0
    # The values stand to the right of the axis, for paper shows no tooltips.
    left, width = 158.0, 430.0
    return {
        "left": left,
        "right": width - VALUE,
        "width": width,
        "row": row,
        "height": row * len(chart.bars) + 30,
        "x": _scale(low, high, left, width - VALUE - 12),
        "ticks": ticks(low, high),
    }


def _shares(chart: Shares) -> Mapping[str, Any]:
    # The labels get the room that they need, within limits.
    longest = min(max((len(label) for label in chart.labels), default=0), MOST_LABEL)
    row, left = 17.0, max(80.0, 14 + 6.8 * longest)
    top = max((max(s.values, default=0.0) for s in chart.series), default=0.0) or 1.0
    hints = [
        f"{label}: " + "; ".join(f"{s.name} {number(float(s.values[i]))}" for s in chart.series)
        for i, label in enumerate(chart.labels)
    ]
    return {
        "width": left + 176 + VALUE,
        "height": row * len(chart.labels) + 22,
        "left": left,
        "row": row,
        "x": _scale(0.0, top, left, left + 176),
        "ticks": ticks(0, top, 3),
        "most": MOST_LABEL,
        "hints": hints,
    }


def _matrix(chart: Matrix) -> Mapping[str, Any]:
    count, left, top = len(chart.names), 128.0, 86.0
    size = 22.0 if count <= 24 else max(6.0, 528.0 / count)
    return {
        "width": left + size * count + 58,
        "height": top + size * count + 26,
        "left": left,
        "top": top,
        "size": size,
        "most": max(chart.cells.values(), default=0.0) or 1.0,
    }


def _curves(chart: Curves) -> Mapping[str, Any]:
    every = [point for curve in chart.points.values() for point in curve]
    if not every:
        return {}
    width, height = (300.0, 300.0) if chart.square else (420.0, 260.0)
    left, right, top, bottom = 54.0, width - 10, 8.0, height - 38
    if chart.square:
        x0, x1, y0, y1 = 0.0, 1.0, 0.0, 1.0
        x = _scale(x0, x1, left, right)
    else:
        x0, x1 = _padded([math.log(p[0]) for p in every], 0.07, 0.1, 1.0)
        ys = [p[1] + s * 2 * (p[2] if len(p) > 2 else 0) for p in every for s in (-1, 1)]
        y0, y1 = _padded([*ys, 0.0], 0.07, 0.1, 1.0)
        along = _scale(x0, x1, left, right)

        def x(value: float) -> float:
            return along(math.log(value))

    return {
        "width": width,
        "height": height,
        "left": left,
        "right": right,
        "top": top,
        "bottom": bottom,
        "x": x,
        "y": _scale(y0, y1, bottom, top),
        "x_ticks": ticks(x0, x1) if chart.square else sorted({float(p[0]) for p in every}),
        "y_ticks": ticks(y0, y1),
        "rule": y0 < 0 < y1,
    }


def _histogram(chart: Histogram) -> Mapping[str, Any]:
    width, height, left, floor = 420.0, 200.0, 46.0, 162.0
    top = max(chart.counts, default=0) or 1
    low, high = chart.edges[0], chart.edges[-1]
    return {
        "width": width,
        "height": height,
        "left": left,
        "floor": floor,
        "x": _scale(low, high, left, width - 10),
        "y": _scale(0, top, floor, 8),
        "x_ticks": ticks(low, high, 5),
        "y_ticks": ticks(0, top, 3),
    }


_GEOMETRY: Mapping[type[Chart], Callable[[Any], Mapping[str, Any]]] = {
    Dots: _dots,
    Shares: _shares,
    Matrix: _matrix,
    Curves: _curves,
    Histogram: _histogram,
}


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("marginalsyn.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "draw": draw,
        "number": number,
        "px": lambda value: f"{value:.1f}",
        "short": lambda text, most: text if len(text) <= most else text[: most - 1] + "…",
        "unbroken": _unbroken,
    }
    return found


def _unbroken(text: str) -> str:
    """A narrow page must break a line neither inside 1e-9 nor inside "two-way"."""
    text = text.replace("-way", "\N{NON-BREAKING HYPHEN}way")
    return text.replace("e-", "e\N{NON-BREAKING HYPHEN}") if text[:1].isdigit() else text
