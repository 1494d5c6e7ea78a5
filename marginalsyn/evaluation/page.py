"""One self-contained HTML page: no script, no network, light and dark, wide and narrow.

A notebook gets a card: a small piece of a page, without a style sheet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from marginalsyn.evaluation.charts import fill
from marginalsyn.evaluation.view import Page, Section, Table, number

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.release.readme import Explanation
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema

OPEN = "may be published: computed from the release alone"
CLOSED = "not private: the release was made with seeded noise"
# A card is a glance: what is longer is cut.
MOST_COLUMNS, MOST_ROWS = 24, 12


def render(page: Page) -> str:
    """The text of an HTML document.

    Example:
        >>> from marginalsyn.evaluation.view import Section
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
    page = Page(
        title=explanation.title,
        stamp=OPEN if opened else CLOSED,
        private=not opened,
        lead=[explanation.about],
        figures={"eps": statement.eps, "delta": statement.delta} if plain_eps else {},
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
        ("privacy", f"eps {number(statement.eps)}, delta {number(statement.delta)}"),
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
    listed = [f"{name} ({size})" for name, size in schema.domain.items()]
    more = len(listed) - MOST_COLUMNS
    return ", ".join(listed[:MOST_COLUMNS]) + (f" and {more} more" if more > 0 else "")
