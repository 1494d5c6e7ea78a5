"""Charts: plain data that know their geometry, drawn as inline SVG without script or network.

Series differ in colour and in mark or dash. Tone 0 stands for real rows; the others are numbered.
A chart is drawn by the template of its class's name, with its fields and its layout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# Longer labels are cut; tooltips and tables have them in full.
MOST_LABEL = 24
# The room of a value that is written out at the end of its line.
VALUE = 62.0


@dataclass(frozen=True)
class Chart:
    """The base of charts: a title for readers who cannot see it, and a caption, else the title."""

    form: ClassVar[str] = "chart"
    large: ClassVar[bool] = False
    title: str
    caption: str | None = field(default=None, kw_only=True)

    def layout(self) -> Mapping[str, Any]:
        """The sizes and scales for the template; none where there is nothing to draw."""
        raise NotImplementedError

    def draw(self) -> str:
        """The chart as SVG.

        Example:
            >>> Dots("a < b", [Bar("one", 0.5)]).draw()[:4]
            '<svg'
        """
        values = self.layout()
        return fill(f"{type(self).__name__.lower()}.html", chart=self, **values) if values else ""


@dataclass(frozen=True)
class Bar:
    """One line of a dot chart: a value with its standard error, or with an interval.

    ``below`` is the interval of something else, drawn below the line.
    """

    label: str
    value: float
    error: float | None = None
    tone: int = 0
    interval: tuple[float, float] | None = None
    below: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval: two standard errors to either side where none is given."""
        wide = 2 * (self.error or 0.0)
        return self.interval or (self.value - wide, self.value + wide)


@dataclass(frozen=True)
class Dots(Chart):
    """Values with their intervals, one a line, against a line at the reference."""

    bars: Sequence[Bar]
    reference: float | None = None

    def layout(self) -> Mapping[str, Any]:
        if not self.bars:
            return {}
        ends = [end for bar in self.bars for end in (*bar.ends, *(bar.below or ()))]
        ends += [self.reference] if self.reference is not None else []
        low, high = _padded(ends, 0.08, 0.05, 0.5)
        row = 30.0 if any(bar.below for bar in self.bars) else 24.0
        # The values stand to the right of the axis, for paper shows no tooltips.
        left, right = 158.0, 430.0 - VALUE
        return {
            "width": 430.0,
            "height": row * len(self.bars) + 30,
            "left": left,
            "right": right,
            "row": row,
            "x": _scale(low, high, left, right - 12),
            "ticks": ticks(low, high),
        }


@dataclass(frozen=True)
class Series:
    """Named values of one tone."""

    name: str
    values: Sequence[float]
    tone: int


@dataclass(frozen=True)
class Shares(Chart):
    """Shares of one column's values, a line each: real rows as bars, the others as marks on them.

    The first series is written out at the ends of the lines.
    """

    labels: Sequence[str]
    series: Sequence[Series]

    def layout(self) -> Mapping[str, Any]:
        # The labels get the room that they need, within limits.
        longest = min(max(map(len, self.labels), default=0), MOST_LABEL)
        left, row = max(80.0, 14 + 6.8 * longest), 17.0
        top = max((max(s.values, default=0.0) for s in self.series), default=0.0) or 1.0
        return {
            "width": left + 176 + VALUE,
            "height": row * len(self.labels) + 22,
            "left": left,
            "row": row,
            "x": _scale(0.0, top, left, left + 176),
            "ticks": ticks(0, top, 3),
            "most": MOST_LABEL,
        }


@dataclass(frozen=True)
class Matrix(Chart):
    """Values of pairs: the stronger the colour, the larger the number."""

    large: ClassVar[bool] = True
    names: Sequence[str]
    cells: Mapping[tuple[int, int], float]

    def layout(self) -> Mapping[str, Any]:
        count, left, top = len(self.names), 128.0, 86.0
        size = 22.0 if count <= 24 else max(6.0, 528.0 / count)
        return {
            "width": left + size * count + 58,
            "height": top + size * count + 26,
            "left": left,
            "top": top,
            "size": size,
            "most": max(self.cells.values(), default=0.0) or 1.0,
        }


@dataclass(frozen=True)
class Curves(Chart):
    """Curves of (x, y) or (x, y, standard error) points, by name.

    Those of two shares are drawn in a ``square`` with its diagonal; others against the logarithm of
    x, with a rule where y is 0.
    """

    points: Mapping[str, Sequence[Sequence[float]]]
    tones: Mapping[str, int]
    x_title: str
    y_title: str
    square: bool = False
    marks: bool = True

    def layout(self) -> Mapping[str, Any]:
        every = [point for curve in self.points.values() for point in curve]
        if not every:
            return {}
        width, height = (300.0, 300.0) if self.square else (420.0, 260.0)
        left, right, top, bottom = 54.0, width - 10, 8.0, height - 38
        (x0, x1), (y0, y1) = (0.0, 1.0), (0.0, 1.0)
        if not self.square:
            x0, x1 = _padded([math.log(p[0]) for p in every], 0.07, 0.1, 1.0)
            ys = [p[1] + s * 2 * (p[2] if len(p) > 2 else 0) for p in every for s in (-1, 1)]
            y0, y1 = _padded([*ys, 0.0], 0.07, 0.1, 1.0)
        along = _scale(x0, x1, left, right)
        return {
            "width": width,
            "height": height,
            "left": left,
            "right": right,
            "top": top,
            "bottom": bottom,
            "x": along if self.square else lambda value: along(math.log(value)),
            "y": _scale(y0, y1, bottom, top),
            "x_ticks": ticks(x0, x1) if self.square else sorted({float(p[0]) for p in every}),
            "y_ticks": ticks(y0, y1),
            "rule": y0 < 0 < y1,
        }


@dataclass(frozen=True)
class Histogram(Chart):
    """Counts between edges."""

    edges: Sequence[float]
    counts: Sequence[int]
    x_title: str

    def layout(self) -> Mapping[str, Any]:
        low, high, top = self.edges[0], self.edges[-1], max(self.counts, default=0) or 1
        width, left, floor = 420.0, 46.0, 162.0
        return {
            "width": width,
            "height": 200.0,
            "left": left,
            "floor": floor,
            "x": _scale(low, high, left, width - 10),
            "y": _scale(0, top, floor, 8),
            "x_ticks": ticks(low, high, 5),
            "y_ticks": ticks(0, top, 3),
        }


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


def fill(template: str, **values: Any) -> str:
    """A file of ``templates/`` with its values, which are escaped.

    Example:
        >>> values = {"warned": False, "lead": [], "figures": [], "tables": [], "warnings": []}
        >>> "a &lt; b" in fill("card.html", title="a < b", stamp="open", **values)
        True
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from marginalsyn.evaluation.view import number

    found = Environment(
        loader=PackageLoader("marginalsyn.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "px": lambda value: f"{value:.1f}",
        "short": lambda text, most: text if len(text) <= most else text[: most - 1] + "…",
        "unbroken": _unbroken,
        "prose": _prose,
    }
    return found


def _unbroken(text: str) -> str:
    """A narrow page must break a line neither inside 1e-9 nor inside "two-way"."""
    text = text.replace("-way", "\N{NON-BREAKING HYPHEN}way")
    return text.replace("e-", "e\N{NON-BREAKING HYPHEN}") if text[:1].isdigit() else text


def _prose(text: str) -> Markup:
    """A paragraph, list or block of commands, with `code` and **stress** as in a README."""
    from markupsafe import Markup, escape

    def inline(part: str) -> str:
        found = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(part)))
        return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", found)

    if text.startswith("```"):
        return Markup("<pre>{}</pre>").format("\n".join(text.splitlines()[1:-1]))
    if text.startswith("* "):
        found = "".join(f"<li>{inline(line[2:])}</li>" for line in text.splitlines())
        return Markup(f"<ul>{found}</ul>")
    return Markup(f"<p>{inline(text)}</p>")
