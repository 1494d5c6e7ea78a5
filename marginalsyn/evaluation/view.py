"""What reports show, as plain data: notes, tables and charts, which any renderer can draw.

A text by itself is a paragraph. :func:`render` draws a page as one self-contained HTML file: no
script, no network, light and dark, wide and narrow; a notebook gets a card, a small piece of a page
without a style sheet. A command prints the tables of
:meth:`~marginalsyn.evaluation.evaluation.Evaluation.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from marginalsyn.evaluation.charts import Chart, fill
from marginalsyn.privacy.charges import show_number
from marginalsyn.validation import first_of

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.evaluation.verdict import Use
    from marginalsyn.release.readme import Explanation
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema


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


OPEN = "may be published: computed from the release alone"
CLOSED = "not private: the release was made with seeded noise"
# A card is a glance: what is longer is cut.
MOST_COLUMNS, MOST_ROWS = 24, 12


def render(page: Page) -> str:
    """The text of an HTML document.

    Example:
        >>> parts = [Section("one", "One", ["a < b"])]
        >>> page = Page(title="x", stamp="y", private=True, lead=[], sections=parts, foot="")
        >>> html = render(page)
        >>> html.startswith("<!doctype html>"), "http" in html, "a &lt; b" in html
        (True, False, True)
    """
    return fill("page.html", page=page)


def front_page(
    explanation: Explanation, statement: Statement, heads: Mapping[str, pd.DataFrame]
) -> str:
    """The page of a release folder: what its README says, and the first rows of each table."""
    opened = statement.private
    rows = [
        Table([*head], head.to_numpy().tolist(), f"The first rows of {name}", numbers=False)
        for name, head in heads.items()
    ]
    sections = [Section("rows", "Synthetic rows", rows)]
    for place, (heading, paragraphs) in enumerate(explanation.sections.items()):
        sections.append(Section(f"part-{place}", heading, list(paragraphs)))
    plain_eps = opened and statement.guarantee != "asymptotic" and not statement.foreign
    amounts = {"eps": show_number(statement.eps, 3), "delta": show_number(statement.delta, 3)}
    page = Page(
        title=explanation.title,
        stamp=OPEN if opened else CLOSED,
        private=not opened,
        lead=[explanation.about],
        figures=amounts if plain_eps else {},
        sections=sections,
        foot="Made from this folder alone. Charts of every column: marginalsyn report . --public",
    )
    return render(page)


def card(
    title: str,
    stamp: str,
    *,
    warned: bool = False,
    lead: Sequence[str] = (),
    figures: Sequence[tuple[str, object]] = (),
    tables: Sequence[tuple[Sequence[str], Sequence[Sequence[object]]]] = (),
    warnings: Sequence[str] = (),
) -> str:
    """One card; everything is escaped.

    Args:
        title: of the object.
        stamp: who may see it.
        warned: draw the stamp as a warning.
        lead: sentences.
        figures: names and values.
        tables: heads and rows.
        warnings: lines that must not be missed.

    Example:
        >>> "a &lt; b" in card("a < b", "open")
        True
    """
    return fill(
        "card.html",
        title=title,
        stamp=stamp,
        warned=warned,
        lead=lead,
        figures=figures,
        tables=tables,
        warnings=warnings,
    )


def evaluation_card(found: Evaluation) -> str:
    """An evaluation: its verdict and its tables."""
    from marginalsyn.evaluation.headline import figures, words

    cases = found.fitness()
    tables = [
        [head, *rows]
        for head, rows in filter(None, (words(cases), figures(cases, linked=bool(found.linked))))
    ]
    for table in found.tables():
        left = len(table) - MOST_ROWS - 1
        rest = [[f"and {left} more rows"] + [""] * (len(table[0]) - 1)] if left > 0 else []
        tables.append([*table[: MOST_ROWS + 1], *rest])
    return card(
        found.title,
        found.stamp,
        warned=True,
        lead=found.sentences(),
        tables=[(table[0], table[1:]) for table in tables],
        warnings=found.warnings,
    )


def statement_figures(statement: Statement) -> list[tuple[str, object]]:
    """What a privacy statement says, in a few lines."""
    return [
        ("generator", statement.generator),
        ("privacy", f"eps {show_number(statement.eps)}, delta {show_number(statement.delta)}"),
        ("guarantee", f"{statement.guarantee}; neighbours: {statement.neighbours}"),
    ]


def stamp_of(statement: Statement) -> tuple[str, bool]:
    """Who may see rows under a statement, and whether that is a warning."""
    if statement.seeded:
        return "seeded: NOT PRIVATE", True
    if not statement.private:
        return "no privacy guarantee", True
    if statement.foreign:
        return "rows of another tool", False
    return "may be published", False


def columns_line(schema: Schema) -> str:
    """The columns with their numbers of codes."""
    return first_of([f"{name} ({size})" for name, size in schema.domain.items()], MOST_COLUMNS)
