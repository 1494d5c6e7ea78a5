"""What reports show, as plain data: notes, tables and charts, which any renderer can draw.

A text by itself is a paragraph. :mod:`marginalsyn.evaluation.page` draws items as HTML; a command
prints the tables of :meth:`~marginalsyn.evaluation.evaluation.Evaluation.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from marginalsyn.evaluation.verdict import Use


@dataclass(frozen=True)
class Note:
    """A paragraph that is not plain text: an aside, a warning, a command, or a heading."""

    form: ClassVar[str] = "note"
    text: str
    kind: Literal["note", "warning", "command", "heading"] = "note"


@dataclass(frozen=True)
class Table:
    """Rows of values; the first column names the row.

    Attributes:
        head: titles of the columns.
        rows: numbers, texts or None.
        caption: above the table.
        numbers: whether the columns after the first are aligned as numbers.
        fold: under this title the table is folded away where it has many rows.
    """

    form: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    numbers: bool = True
    fold: str = ""


@dataclass(frozen=True)
class Fold:
    """Items that a reader opens on demand."""

    form: ClassVar[str] = "fold"
    title: str
    items: Sequence[Item]


@dataclass(frozen=True)
class Group:
    """Items next to each other where there is room; a "block" keeps its items together."""

    form: ClassVar[str] = "group"
    items: Sequence[Item]
    kind: Literal["grid", "pair", "block"] = "pair"


@dataclass(frozen=True)
class Terms:
    """Terms, each with what is to be said of it."""

    form: ClassVar[str] = "terms"
    entries: Mapping[str, str]


@dataclass(frozen=True)
class Boxes:
    """A box for each use of a synthetic table: the words of its variants and their figures."""

    form: ClassVar[str] = "boxes"
    uses: Mapping[str, Sequence[Use]]


@dataclass(frozen=True)
class Key:
    """The legend of charts: the name and the tone of every series; tone 0 may be drawn as a bar."""

    form: ClassVar[str] = "key"
    entries: Sequence[tuple[str, int]]
    bars: bool = False


@dataclass(frozen=True)
class Chart:
    """The base of charts: a title for readers who cannot see it, and a caption, else the title.

    Tone 0 stands for real rows, the others are numbered; each has its colour, mark and dash.
    """

    form: ClassVar[str] = "chart"
    large: ClassVar[bool] = False
    title: str
    caption: str | None = field(default=None, kw_only=True)


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


@dataclass(frozen=True)
class Matrix(Chart):
    """Values of pairs: the stronger the colour, the larger the number."""

    large: ClassVar[bool] = True
    names: Sequence[str]
    cells: Mapping[tuple[int, int], float]


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


@dataclass(frozen=True)
class Histogram(Chart):
    """Counts between edges."""

    edges: Sequence[float]
    counts: Sequence[int]
    x_title: str


Item = str | Note | Table | Fold | Group | Terms | Boxes | Key | Chart


@dataclass(frozen=True)
class Section:
    """One part of a page."""

    name: str
    title: str
    items: Sequence[Item]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page with its sections.

    Attributes:
        title: of the page.
        stamp: whether it may be published.
        private: whether the stamp is drawn as a warning.
        lead: sentences before everything else.
        sections: in order.
        foot: small print.
        warnings: lines that must not be missed.
        first: items before all of these: the verdict.
        figures: a few values to be seen first, by name.
    """

    title: str
    stamp: str
    private: bool
    lead: Sequence[str]
    sections: Sequence[Section]
    foot: str
    warnings: Sequence[str] = ()
    first: Sequence[Item] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)


def number(value: object) -> str:
    """A value as reports write it: whole numbers in full, others with three digits.

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


def with_error(mean: float | None, se: float | None) -> str:
    """A value with its standard error."""
    return f"{number(mean)} ± {number(se)}" if mean is not None and se else number(mean)
