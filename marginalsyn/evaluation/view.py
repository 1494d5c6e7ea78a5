"""What reports show, as plain data: notes, tables and charts, which any renderer can draw.

A text by itself is a paragraph. :mod:`marginalsyn.evaluation.page` draws items as HTML; a command
prints the tables of :meth:`~marginalsyn.evaluation.evaluation.Evaluation.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from marginalsyn.evaluation.charts import Chart

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
class Legend:
    """The legend of charts: the name and the tone of every series; tone 0 may be drawn as a bar."""

    form: ClassVar[str] = "key"
    entries: Sequence[tuple[str, int]]
    bars: bool = False


Item = str | Note | Table | Fold | Group | Terms | Boxes | Legend | Chart


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
