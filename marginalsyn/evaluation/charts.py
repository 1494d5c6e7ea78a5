"""Charts as inline SVG: no script, no network, colours from the page's variables.

A series is told from the others by its colour and by its mark or dash. Classes ``s0`` (real rows,
the colour of text), ``s1``, ``s2`` ... are coloured by :mod:`marginalsyn.evaluation.page`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = Sequence[float]


@dataclass(frozen=True)
class Series:
    """Named values of one colour: ``tone`` 0 is real, the others are numbered."""

    name: str
    values: Sequence[float]
    tone: int
    errors: Sequence[float | None] = ()


def number(value: object) -> str:
    """A number as the page writes it: whole ones in full, others with three digits.

    Example:
        >>> number(32561), number(0.012345), number(None)
        ('32,561', '0.0123', 'n/a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0:
            return "0"
        if abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value:.1e}" if abs(value) < 1e-4 else f"{value:.3g}"
    return str(value)


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
    """Shares of one column's values: real rows as bars, the others as marks on steps."""
    width, height, left, bottom = 320.0, 150.0, 34.0, 18.0
    top = max((max(s.values, default=0.0) for s in series), default=0.0) or 1.0
    step = (width - left - 4) / max(len(labels), 1)

    def y(value: float) -> float:
        return 6 + (height - bottom - 6) * (1 - value / top)

    parts = [_frame(left, 6, width - 4, height - bottom, [(v, y(v)) for v in ticks(0, top, 2)])]
    for s in series:
        if s.tone == 0:
            parts += [
                f'<rect class="s0 bar" x="{left + step * (i + 0.06):.1f}" y="{y(v):.1f}" '
                f'width="{step * 0.88:.1f}" height="{max(y(0) - y(v), 0):.1f}"/>'
                for i, v in enumerate(s.values)
            ]
        else:
            path = "".join(
                f"M{left + step * (i + 0.06):.1f} {y(v):.1f}h{step * 0.88:.1f}"
                for i, v in enumerate(s.values)
            )
            parts.append(f'<path class="s{s.tone} step" d="{path}"/>')
    for i, label in enumerate(labels):
        told = "; ".join(f"{s.name} {number(float(s.values[i]))}" for s in series)
        parts.append(
            f'<rect class="hit" x="{left + step * i:.1f}" y="0" width="{step:.1f}" '
            f'height="{height - bottom:.1f}"><title>{escape(f"{label}: {told}")}</title></rect>'
        )
    for text, at, anchor in _ends(labels, left, width - 4):
        parts.append(_text(at, height - 5, text, anchor))
    return _svg(width, height, "".join(parts), f"{title}: shares of its values")


def _ends(labels: Sequence[str], left: float, right: float) -> list[tuple[str, float, str]]:
    """The first and last label, which is what fits under a small chart."""
    if not labels:
        return []
    first = (_short(labels[0], 18), left, "start")
    return [first] if len(labels) == 1 else [first, (_short(labels[-1], 18), right, "end")]


def heat(names: Sequence[str], cells: Mapping[tuple[int, int], float], title: str) -> str:
    """A matrix of pairs: the stronger the colour, the larger the number."""
    count = len(names)
    size = 22.0 if count <= 24 else max(6.0, 528.0 / count)
    left, top = 112.0, 74.0
    width, height = left + size * count + 58, top + size * count + 26
    most = max(cells.values(), default=0.0) or 1.0
    parts = []
    for i, name in enumerate(names):
        if size >= 9:
            parts.append(_text(left - 5, top + size * (i + 0.68), _short(name, 17), "end"))
            at = left + size * (i + 0.66)
            parts.append(
                f'<text x="{at:.1f}" y="{top - 6:.1f}" transform="rotate(-45 {at:.1f} '
                f'{top - 6:.1f})">{escape(_short(name, 15))}</text>'
            )
        parts.append(
            f'<rect class="empty" x="{left + size * i:.1f}" y="{top + size * i:.1f}" '
            f'width="{size - 1:.1f}" height="{size - 1:.1f}"/>'
        )
    for (i, j), value in cells.items():
        told = f"{names[i]} and {names[j]}: {number(value)}"
        for a, b in {(i, j), (j, i)}:
            parts.append(
                f'<rect class="cell" x="{left + size * a:.1f}" y="{top + size * b:.1f}" '
                f'width="{size - 1:.1f}" height="{size - 1:.1f}" '
                f'fill-opacity="{0.04 + 0.96 * value / most:.3f}"><title>{escape(told)}</title>'
                "</rect>"
            )
    foot = f"faintest: 0; fullest: {number(most)}"
    parts.append(_text(left, height - 8, foot))
    return _svg(width, height, "".join(parts), title)


@dataclass(frozen=True)
class Bar:
    """One line of a dot chart: a value with its standard error."""

    label: str
    value: float
    error: float | None
    tone: int


def dots(bars: Sequence[Bar], reference: float | None, title: str) -> str:
    """Values with bars of two standard errors, against a line at the reference."""
    width, row, left = 420.0, 24.0, 158.0
    height = row * len(bars) + 30
    ends = [b.value + sign * 2 * (b.error or 0.0) for b in bars for sign in (-1, 1)]
    ends += [reference] if reference is not None else []
    low, high = min(ends), max(ends)
    pad = (high - low) * 0.08 or abs(high) * 0.05 or 0.5
    low, high = low - pad, high + pad

    def x(value: float) -> float:
        return left + (width - left - 12) * (value - low) / (high - low)

    parts = []
    for value in ticks(low, high, 4):
        parts.append(
            f'<g class="axis"><line class="thin" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="4" '
            f'y2="{height - 22:.1f}"/>{_text(x(value), height - 8, number(value), "middle")}</g>'
        )
    if reference is not None:
        parts.append(
            f'<line class="s0 rule" x1="{x(reference):.1f}" x2="{x(reference):.1f}" y1="4" '
            f'y2="{height - 22:.1f}"/>'
        )
    for i, b in enumerate(bars):
        y = 4 + row * (i + 0.5)
        told = f"{b.label}: {number(b.value)}"
        if b.error:
            told += f", standard error {number(b.error)}"
            parts.append(
                f'<line class="s{b.tone} whisker" x1="{x(b.value - 2 * b.error):.1f}" '
                f'x2="{x(b.value + 2 * b.error):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
        parts.append(_mark(x(b.value), y, b.tone, told))
        parts.append(_text(left - 8, y + 4, _short(b.label, 25), "end"))
    return _svg(width, height, "".join(parts), title)


def lines(
    points: Mapping[str, Sequence[Point]],
    tones: Mapping[str, int],
    *,
    title: str,
    x_title: str,
    y_title: str,
    square: bool = False,
    diagonal: bool = False,
    log_x: bool = False,
    zero: bool = False,
    marks: bool = True,
) -> str:
    """Curves of (x, y) or (x, y, standard error) points."""
    width, height = (300.0, 300.0) if square else (420.0, 260.0)
    left, right, top, bottom = 46.0, width - 10, 8.0, height - 38
    every = [p for curve in points.values() for p in curve]
    if not every:
        return ""
    xs = [math.log(p[0]) if log_x else float(p[0]) for p in every]
    ys = [p[1] + s * 2 * (p[2] if len(p) > 2 else 0) for p in every for s in (-1, 1)]
    if zero:
        ys.append(0.0)
    (x0, x1), (y0, y1) = ((0.0, 1.0), (0.0, 1.0)) if square else (_span(xs), _span(ys))

    def x(value: float) -> float:
        at = math.log(value) if log_x else value
        return left + (right - left) * (at - x0) / (x1 - x0)

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - y0) / (y1 - y0)

    parts = [_frame(left, top, right, bottom, [(v, y(v)) for v in ticks(y0, y1)])]
    marked = sorted({float(p[0]) for p in every}) if log_x else ticks(x0, x1)
    names = "".join(_text(x(v), bottom + 14, number(v), "middle") for v in marked)
    parts.append(f'<g class="axis">{names}</g>')
    if diagonal:
        parts.append(
            f'<line class="thin" x1="{x(0):.1f}" y1="{y(0):.1f}" x2="{x(1):.1f}" y2="{y(1):.1f}"/>'
        )
    if zero and y0 < 0 < y1:
        parts.append(
            f'<line class="s0 rule" x1="{left}" x2="{right}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
        )
    for name, curve in points.items():
        tone = tones[name]
        path = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in curve)
        parts.append(
            f'<polyline class="s{tone} curve" points="{path}"><title>{escape(name)}</title>'
            "</polyline>"
        )
        for p in curve:
            if len(p) > 2 and p[2]:
                parts.append(
                    f'<line class="s{tone} whisker" x1="{x(p[0]):.1f}" x2="{x(p[0]):.1f}" '
                    f'y1="{y(p[1] - 2 * p[2]):.1f}" y2="{y(p[1] + 2 * p[2]):.1f}"/>'
                )
            if marks:
                told = f"{name}: {x_title} {number(p[0])}, {y_title} {number(p[1])}"
                parts.append(_mark(x(p[0]), y(p[1]), tone, told))
    parts.append(_text((left + right) / 2, height - 6, x_title, "middle"))
    parts.append(
        f'<text transform="rotate(-90 11 {(top + bottom) / 2:.1f})" x="11" '
        f'y="{(top + bottom) / 2:.1f}" text-anchor="middle">{escape(y_title)}</text>'
    )
    return _svg(width, height, "".join(parts), title)


def histogram(edges: Sequence[float], counts: Sequence[int], title: str, x_title: str) -> str:
    """Counts between edges."""
    width, height, left, bottom = 420.0, 200.0, 46.0, 38.0
    top = max(counts, default=0) or 1
    low, high = edges[0], edges[-1]

    def x(value: float) -> float:
        return left + (width - left - 10) * (value - low) / ((high - low) or 1.0)

    def y(value: float) -> float:
        return 8 + (height - bottom - 8) * (1 - value / top)

    parts = [_frame(left, 8, width - 10, height - bottom, [(v, y(v)) for v in ticks(0, top, 3)])]
    for i, count in enumerate(counts):
        told = f"{number(edges[i])} to {number(edges[i + 1])}: {number(count)} rows"
        parts.append(
            f'<rect class="s1 fill" x="{x(edges[i]) + 0.5:.1f}" y="{y(count):.1f}" '
            f'width="{max(x(edges[i + 1]) - x(edges[i]) - 1, 0.5):.1f}" '
            f'height="{y(0) - y(count):.1f}"><title>{escape(told)}</title></rect>'
        )
    names = "".join(
        _text(x(v), height - bottom + 14, number(v), "middle") for v in ticks(low, high, 5)
    )
    parts.append(f'<g class="axis">{names}</g>')
    parts.append(_text((left + width) / 2, height - 6, x_title, "middle"))
    return _svg(width, height, "".join(parts), title)


def key(entries: Sequence[tuple[str, int]], *, bars: bool = False) -> str:
    """A legend: the mark and the name of every series; ``bars`` draws real rows as a bar."""

    def swatch(tone: int) -> str:
        if bars and not tone:
            return '<rect class="s0 bar" x="3" y="1" width="10" height="14"/>'
        return f'<path class="s{tone} step" d="M0 8h16"/>' if bars else _mark(8, 8, tone, "")

    items = "".join(
        f'<li><svg class="swatch" viewBox="0 0 16 16" aria-hidden="true">{swatch(tone)}</svg>'
        f"{escape(name)}</li>"
        for name, tone in entries
    )
    return f'<ul class="key">{items}</ul>'


def _frame(
    left: float, top: float, right: float, bottom: float, rows: Sequence[tuple[float, float]]
) -> str:
    """Horizontal grid lines with their values on the left."""
    parts = [
        f'<line class="thin" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
        + _text(left - 4, at + 3.5, number(value), "end")
        for value, at in rows
    ]
    parts.append(f'<line class="base" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    return f'<g class="axis">{"".join(parts)}</g>'


def _mark(x: float, y: float, tone: int, told: str) -> str:
    """A circle, square, diamond or triangle, by tone."""
    shapes = (
        f'<circle class="s{tone} mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5">',
        f'<rect class="s{tone} mark" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8">',
        f'<path class="s{tone} mark" d="M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z">',
        f'<path class="s{tone} mark" d="M{x:.1f} {y - 5:.1f}l5.2 9h-10.4z">',
    )
    shape = shapes[tone % len(shapes)]
    tag = shape[1 : shape.index(" ")]
    title = f"<title>{escape(told)}</title>" if told else ""
    return f"{shape}{title}</{tag}>"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, body: str, title: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}" style="max-width:{width * 1.35:.0f}px">'
        f"{body}</svg>"
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = (high - low) * 0.07 or abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
