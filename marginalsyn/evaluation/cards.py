"""What a notebook shows of a release, an evaluation or a synthesizer: one small card of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from marginalsyn.evaluation.headline import figures, words
from marginalsyn.evaluation.markup import fill, number

if TYPE_CHECKING:
    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema

# A card is a glance: what is longer is cut.
MOST_COLUMNS, MOST_ROWS = 24, 12


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


def evaluation_card(found: Evaluation) -> str:
    """An evaluation: its verdict and its tables."""
    several = len(found.cases) > 1
    lead = found.comparison if several else [s for told in found.verdict.values() for s in told]
    cases = found.fitness()
    tables = [[head, *rows] for head, rows in filter(None, (words(cases), figures(cases)))]
    for table in found.tables():
        tables.append(table[: MOST_ROWS + 1])
        left = len(table) - len(tables[-1])
        if left > 0:
            tables[-1].append([f"and {left} more rows"] + [""] * (len(table[0]) - 1))
    return card(
        found.title,
        found.stamp,
        warned=True,
        lead=lead,
        tables=[(table[0], table[1:]) for table in tables],
        warnings=found.warnings,
    )
