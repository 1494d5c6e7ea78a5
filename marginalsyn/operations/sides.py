"""Whose rows an evaluation compares with: how many persons, and who is on both sides of a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.private_table import Unprotected
    from marginalsyn.operations.origins import PrivateInput
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True)
class Whose:
    """Whose rows they are: words for a title, and what to be warned of."""

    of: str = ""
    warnings: tuple[str, ...] = ()


def whose(origin: PrivateInput, view: Unprotected) -> Whose:
    """Whose rows a table holds. Where rows are protected, identifiers are looked for by name."""
    from marginalsyn.drafting.person_columns import find_person_columns

    unit = origin.schema.unit
    if unit is not None:
        seen, held, _ = view.persons(unit.column)
        if origin.kept.holdout:
            return Whose(f" of {held:,} persons")
        return Whose(f" of {seen:,} persons", (_split_by_rows(unit.column),))
    if origin.dataset is not None:
        return Whose()
    schema = origin.schema
    names = [name for name in (*schema.drop, *schema.names) if name not in schema.derived]
    found = find_person_columns(origin.key, names, sep=origin.named.sep, encoding=schema.encoding)
    if not found:
        return Whose()
    column = found[0].name
    if not origin.kept.holdout:
        return Whose("", (_split_by_rows(column),))
    _, held, both = view.persons(column)
    return Whose("", (_shared(column, both, held),) if both else ())


def both_sides(real: pd.DataFrame, train: pd.DataFrame | None, schema: Schema) -> tuple[str, ...]:
    """A warning where rows of one person are among those tested on and among those seen."""
    from marginalsyn.table.unit import persons_columns

    if train is None:
        return ()
    columns = [schema.unit.column] if schema.unit else persons_columns(map(str, real.columns))
    for column in columns:
        if column in real and column in train:
            tested = set(real[column].dropna().astype(str))
            both = tested & set(train[column].dropna().astype(str))
            if both:
                return (_shared(column, len(both), len(tested)),)
    return ()


def counted(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Real rows with the number of each person's rows, where a release has it."""
    from marginalsyn.access.private_table import PrivateTable

    unit = schema.unit
    if unit is None or unit.max_rows == 1 or unit.count in frame:
        return frame
    if unit.column not in frame:
        raise UsageError(
            f"real rows must have the column ({unit.column}) that tells persons apart, or their "
            f"number of rows ({unit.count}): the release counts persons"
        )
    lacking = [n for n in schema.names if n not in schema.derived and n not in frame]
    if lacking:
        return frame  # said with the other columns
    unordered = schema.with_unit(unit.model_copy(update={"order": None}))
    names = [name for name in unordered.names if name not in unordered.derived]
    rows = PrivateTable.open(frame[[unit.column, *names]], unordered)
    return rows.unprotected("evaluate a release").frame()


def _shared(column: str, both: int, tested: int) -> str:
    return (
        f"rows of one person are on both sides: {both:,} of {tested:,} persons ({column}) whose "
        "rows are tested on have other rows that the generator saw, so models look better than "
        f"they are for new persons. --unit {column} with --holdout splits by person"
    )


def _split_by_rows(column: str) -> str:
    return (
        f"models are tested on random splits of rows, and {column} tells persons apart who have "
        "several: rows of one person are on both sides. --holdout with --unit splits by person"
    )
