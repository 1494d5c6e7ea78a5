"""What drafts of schemas share: the options that change a draft, and what is shown of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import DataError, SchemaError, UsageError
from marginalsyn.operations.groups import OfPersons, separator
from marginalsyn.operations.operation import Columns, option
from marginalsyn.operations.origins import caution_of_rows, with_unit

if TYPE_CHECKING:
    from marginalsyn.drafting.draft import Draft
    from marginalsyn.drafting.linked_draft import LinkedDraft
    from marginalsyn.drafting.person_columns import PersonColumns
    from marginalsyn.table.schema import Schema

PAIR = re.compile(r"""[\s,;]*([^=]+?)\s*=\s*['"]?([^\s,;'"]+)['"]?""")
# Of fewer rows no release could show anything.
FEWEST_ROWS = 20
# A column of a schema that fits fewer values than this would come out as OTHER.
LEAST_FIT = 0.2
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


def missing_of(given: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Numbers that mean missing by column, out of texts such as ``NAME=VALUE``."""
    found: dict[str, tuple[float, ...]] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            number = () if value == "none" else (float(value.replace(",", ".")),)
        except ValueError:
            number, name = (), ""
        if not name:
            raise UsageError(
                f"--missing ({text}) must be NAME=VALUE with a number or none, as in --missing "
                "weight=-9"
            )
        found[name] = (*found.get(name, ()), *number)
    return found


def pairs_of(typed: str) -> list[tuple[str, str]]:
    """Pairs of NAME=VALUE, between commas or blanks; names may have blanks and quotes.

    Example:
        >>> pairs_of("blood pressure=integer, zip=drop 'a b'=date")
        [('blood pressure', 'integer'), ('zip', 'drop'), ('a b', 'date')]
    """
    if rest := PAIR.sub("", typed).strip(" ,;"):
        raise UsageError(f"{rest} must be NAME=VALUE, as in age=integer, notes=drop")
    return [(found[1].strip(" '\""), found[2]) for found in PAIR.finditer(typed)]


def asked_of(options: Any) -> dict[str, Any]:
    """What a draft is asked for, as the functions that draft name it."""
    names = ("label", "kinds", "keep", "missing", "rename_duplicates")
    return {name: getattr(options, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Drafting(OfPersons):
    """How a draft is made."""

    sep: str | None = separator()
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
    missing: Mapping[str, tuple[float, ...]] = option(
        None,
        "Take this number of a column for a missing value; NAME=none takes every number as it is. "
        "[default=numbers such as -9 and 999 that stand alone outside the range of the rest] May "
        "be repeated.",
        multiple=True,
        parse=missing_of,
        metavar="NAME=VALUE",
    )
    rename_duplicates: bool = option(
        False, "Call the second column of a name NAME_2; the schema remembers it."
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
            verdict.example[:26],
            verdict.why,
        )
        for verdict in draft.verdicts
    ]
    return Columns(VERDICT_HEAD, rows, right=("codes", "fits"))


def verdicts_of_linked(draft: LinkedDraft) -> Iterator[str | Columns]:
    """A line for every column of every table, keys among them; then how tables are linked.

    That is what each belongs to, in what order, and how many rows count.
    """
    rows: list[tuple[object, ...]] = []
    links: list[tuple[object, ...]] = []
    for table in draft.tree.tables:
        for name in dict.fromkeys(table.keys):
            uses = [f"links to {table.parent}"] if name == table.link else []
            uses += ["identifies its rows"] if name == table.key else []
            rows.append((table.name, name, "key", "", "", "", f"{', '.join(uses)}; made new"))
        own = draft.drafts.get(table.name)
        rows += [(table.name, *row) for row in verdicts(own).rows] if own else []
        of = "the root: its rows are persons"
        if table.parent is not None:
            of = f"{table.parent}.{draft.tree.table(table.parent).key} by {table.link}"
        links.append((table.name, table.key or "", of, table.order or "", table.max_children or ""))
    yield Columns(("table", *VERDICT_HEAD), rows, right=("codes", "fits"))
    yield ""
    head = ("table", "key", "belongs to", "in the order of", "at most")
    yield Columns(head, links, right=("at most",))


def with_unit_asked(asked: OfPersons, schema: Schema, draft: Draft) -> Schema:
    """A drafted schema with the unit that the options name, whose columns must be there."""
    from marginalsyn.drafting.check import layout_problems

    found = with_unit(schema, asked)
    if problems := layout_problems(draft.distinct, found):
        raise SchemaError("; ".join(problems))
    return found


def repeats_caution(repeats: Sequence[PersonColumns]) -> list[str]:
    """What a promise for rows means where rows were read and an identifier repeats in them."""
    return [caution_of_rows(one.name, f", and it repeats ({one})") for one in repeats[:1]]


def refuse_useless(draft: Draft, where: str, public: str | None) -> None:
    """Refuse a table, or a person's schema of it, of which no release could show anything."""
    if draft.rows < FEWEST_ROWS:
        raise DataError(
            f"data ({where}) must have at least {FEWEST_ROWS} rows: it has {draft.rows}, and the "
            "noise that protects one row would hide all of them"
        )
    if len(draft.schema.columns) < 2:
        raise DataError(
            f"data ({where}) must have two columns or more that can be released: it has only "
            f"{draft.schema.names[0]}. --keep NAME keeps one that would be dropped, --sep CHAR "
            "names another separator; for one column write a schema and use generate"
        )
    for verdict in draft.verdicts:
        if public is not None and verdict.fits is not None and verdict.fits < LEAST_FIT:
            raise DataError(
                f"column ({verdict.name}) must fit the schema: {1 - verdict.fits:.0%} of its "
                f"values do not: {verdict.misfit}. Mend {public}; nothing was spent"
            )
