"""What drafts of schemas share: the options that change a draft, and what is shown of it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.operations.groups import OfPersons
from marginalsyn.operations.operation import Columns, option
from marginalsyn.operations.origins import Named, caution_of_rows, with_unit

if TYPE_CHECKING:
    from marginalsyn.drafting.draft import Draft
    from marginalsyn.drafting.person_columns import PersonColumns
    from marginalsyn.table.schema import Schema


VERDICT_HEAD = ("column", "kind", "codes", "fits", "made-up value", "why")


def kinds_of(given: Sequence[str]) -> dict[str, str]:
    """Kinds by column, out of texts such as ``NAME=KIND``."""
    found = {}
    for text in given:
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--kind ({text}) must be NAME=KIND, as in --kind age=integer")
        found[name] = kind
    return found


def missing_of(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Numbers that mean missing by column, out of texts such as ``NAME=VALUE``."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not (equals and name and value):
            raise UsageError(f"--missing ({text}) must be NAME=VALUE, as in --missing weight=-9")
        found[name] = found.get(name, ()) + ((value,) if value != "none" else ())
    return found


def words_of(typed: str) -> list[str]:
    """What was typed, in words; names with spaces in quotes."""
    try:
        return shlex.split(typed)
    except ValueError:
        raise UsageError(f"{typed} must close its quotes, as in 'blood pressure=integer'") from None


@dataclass(frozen=True, kw_only=True)
class Separated:
    """How a text file separates its fields."""

    sep: str | None = option(
        None,
        "The character between the fields of a CSV file. [default=a comma, a tab for .tsv, or "
        "what the header line shows]",
        panel="Source",
        metavar="CHAR",
    )


@dataclass(frozen=True, kw_only=True)
class Drafting(Separated, OfPersons):
    """How a draft is made."""

    label: str | None = option(None, "The column that models predict.", metavar="COLUMN")
    kinds: Mapping[str, str] = option(
        None,
        "Take a column for this kind: categorical, private-categories, ordinal, integer, "
        "continuous, boolean, date, datetime, time, identifier, constant, or drop. May be "
        "repeated.",
        flags=("--kind",),
        multiple=True,
        parse=kinds_of,
        metavar="NAME=KIND",
    )
    keep: Sequence[str] = option(
        (),
        "Keep a column that would be dropped or replaced by made-up values. May be repeated.",
        multiple=True,
        metavar="NAME",
    )

    missing: Mapping[str, tuple[str, ...]] = option(
        None,
        "Take this number of a column for a missing value; NAME=none takes every number as it is. "
        "[default=numbers such as -9 and 999 that stand alone outside the range of the rest] May "
        "be repeated.",
        multiple=True,
        parse=missing_of,
        metavar="NAME=VALUE",
    )


def verdicts(draft: Draft) -> Columns:
    """A line for every column of the source."""
    from marginalsyn.drafting.guess import OPEN

    rows = [
        (
            verdict.name,
            OPEN if verdict.open else verdict.kind,
            verdict.codes or "",
            "" if verdict.fits is None else f"{math.floor(verdict.fits * 1000) / 10:g}%",
            verdict.example[:20],
            verdict.why,
        )
        for verdict in draft.verdicts
    ]
    return Columns(VERDICT_HEAD, rows, right=("codes", "fits"))


def with_unit_asked(asked: Named, schema: Schema, draft: Draft) -> Schema:
    """A drafted schema with the unit that the options name, whose columns must be there."""
    from marginalsyn.drafting.check import layout_problems

    found = with_unit(schema, asked)
    if problems := layout_problems(draft.distinct, found):
        raise SchemaError("; ".join(problems))
    return found


def repeats_caution(repeats: Sequence[PersonColumns]) -> list[str]:
    """What a promise for rows means where rows were read and an identifier repeats in them."""
    return [caution_of_rows(one.name, f", and it repeats ({one})") for one in repeats[:1]]
