"""Whom a promise is for, where columns look as if they told persons apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.bundles import bundle
from marginalsyn.operations.origins import Named, with_unit
from marginalsyn.validation import like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from marginalsyn.drafting.draft import Draft
    from marginalsyn.drafting.person_columns import PersonColumns
    from marginalsyn.table.schema import Schema

COUNTED_FROM = "public knowledge, or `marginalsyn schema buy-max-rows`"

UNIT = ("unit", "max_rows", "order")
unit_options = bundle(options.Source, "named", only=UNIT)
unit_options_to_buy = bundle(options.Source, "named", only=("unit", "order"))
file_options = bundle(options.Source, "named", only=("sep", *UNIT))


def apply(said: Named, schema: Schema, draft: Draft) -> Schema:
    """A drafted schema with the unit that the options name, whose columns must be there."""
    from marginalsyn.drafting.check import layout_problems
    from marginalsyn.errors import SchemaError

    found = with_unit(schema, said)
    if problems := layout_problems(draft.distinct, found):
        raise SchemaError("; ".join(problems))
    return found


def warn_of_repeats(found: Sequence[PersonColumns], notes: screen.Notes) -> None:
    """Say what a promise for rows means where rows were read and an identifier repeats in them."""
    if found:
        warn_of_rows(found[0].name, notes, f", and it repeats ({found[0]})")


def warn_of_rows(name: str, notes: screen.Notes, seen: str = "") -> None:
    """Say what a promise for rows means for persons who have several."""
    notes.warn(
        f"{name} looks like a column that tells persons apart{seen}. Each row is protected by "
        "itself here: a person with 12 rows has 12 times the eps. To protect persons add --unit "
        f"{name} --max-rows N (a number from {COUNTED_FROM}); if each person has one row, or rows "
        "are meant, say --unit row"
    )


def ask(draft: Draft) -> tuple[str, int | None]:
    """Whom a row stands for: a person who has no other, or one of several rows of a person."""
    from marginalsyn.table.unit import MOST_ROWS, ROW

    notes = screen.Notes()
    seen = draft.repeats[0].name if draft.repeats else ""
    if seen:
        notes.warn(f"{seen} looks as if it told persons apart: {draft.repeats[0]}")
    if click.confirm("Is every person in one row at most?", default=not seen, err=True):
        return ROW, None
    while True:
        hint = f"Enter: {seen}; row: rows are meant" if seen else "Enter: rows are meant"
        text = f"The column that tells persons apart ({hint})"
        asked = click.prompt(text, default="", show_default=False, err=True)
        found = str(asked).strip() or seen or ROW
        if found == ROW:
            notes.warn("the promise is for one row: a person with k rows is protected k times less")
            return ROW, None
        if found in draft.distinct:
            break
        notes.warn(f"unit ({found}) must be a column of the table{like(found, draft.distinct)}")
    most = click.prompt(
        "At most how many rows of a person are to be counted? A public number; no column tells it",
        type=click.IntRange(1, MOST_ROWS),
        default=20,
        err=True,
    )
    return found, int(most)
