"""Exact counts, bounds and frequent texts of columns, for drafts and checks. Not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from marginalsyn.drafting.guess import MOST_CATEGORIES
from marginalsyn.progress import Progress
from marginalsyn.table import encoding
from marginalsyn.table.schema import MISSING_TOKENS

MOST_DECIMALS = 6
MOST_TEXTS = 3000
# What is counted among texts; pointed are numbers such as 987 and 1.234.
PATTERNS = {
    "coded": "^[+-]?0[0-9]",
    "pointed": "^[+-]?([1-9][0-9]?[0-9]?[.][0-9][0-9][0-9]|[0-9][0-9]?[0-9]?)$",
    "totals": "^(grand )?(totals?|sum|summe|gesamt|insgesamt|totale)$",
}
COUNTED = ("known", "distinct", "numbers", "finite", "whole", *PATTERNS)
MOST_COLUMNS = 12  # of one query
BOUNDLESS = 1e14
BARE_DAYS = ((18000101, 21991231), (100101, 991231))


@dataclass(frozen=True)
class Facts:
    """What the rows of one column have in common."""

    rows: int
    known: int
    distinct: int
    numbers: int
    finite: int
    whole: int
    coded: int
    lower: float | None
    upper: float | None
    decimals: int | None
    totals: int
    pointed: int

    @property
    def numeric(self) -> bool:
        return 0 < self.known == self.numbers and self.coded == 0

    @property
    def integer(self) -> bool:
        return self.numeric and self.whole == self.finite

    @property
    def dated(self) -> bool:
        """Whether its numbers may be days such as 20230131 or 230131."""
        low, high = self.lower or 0, self.upper or 0
        return self.integer and any(a <= low <= high <= b for a, b in BARE_DAYS)


def survey(backend: Any, spelt: ir.Table, progress: Progress) -> dict[str, Facts]:
    """Collect the facts on every column of a table of plain values, some columns a query."""

    facts: dict[str, Facts] = {}
    for names in lots(spelt.columns):
        progress.report("read", fraction=len(facts) / len(spelt.columns), text=names[0])
        plain = encoding.step(spelt.select(*names))
        parts = {}
        for place, name in enumerate(names):
            parts[f"value{place}"] = plain[name]
            parts[f"known{place}"] = ~encoding.missing(plain[name], MISSING_TOKENS)
            parts[f"number{place}"] = encoding.number(plain[name])
        # A step, so that a text is read as a number once.
        read = encoding.step(plain.select(**parts))
        wanted: dict[Any, Any] = {None: {"rows": read.count()}}
        for place, name in enumerate(names):
            wanted[name] = _aggregates(*(read[f"{p}{place}"] for p in ("value", "known", "number")))
        found = numbers_of(backend, read, wanted)
        rows = found.pop(None)["rows"]
        facts.update({name: _facts(rows, values) for name, values in found.items()})
    return facts


def _aggregates(value: Any, known: Any, number: Any) -> dict[str, Any]:
    """What is counted of one column."""
    # Engines round to 64-bit integers: beyond the bound, infinity among them, they would fail.
    finite: Any = ibis.ifelse(known & (number.abs() <= BOUNDLESS), number, ibis.null("float64"))
    found = {
        "known": known.sum(),
        "distinct": value.nunique(where=known),
        "numbers": (known & number.notnull()).sum(),
        "finite": finite.count(),
        "whole": (finite == finite.floor()).sum(),
        "lower": finite.min(),
        "upper": finite.max(),
    }
    if value.type().is_string():
        for what, pattern in PATTERNS.items():
            found[what] = (known & value.lower().re_search(pattern)).sum()
    for decimals in range(1, MOST_DECIMALS + 1):
        scale = 10.0**decimals
        # With six decimals, numbers below are 64-bit integers still; those beyond have none.
        found[f"d{decimals}"] = ((finite.clip(-9e12, 9e12) * scale).round() / scale == finite).sum()
    return found


def lots(columns: Sequence[Any]) -> list[Any]:
    """Columns to be asked about together: an engine's time grows with the square of a query."""
    return [columns[at : at + MOST_COLUMNS] for at in range(0, len(columns), MOST_COLUMNS)]


def numbers_of(
    backend: Any, table: ir.Table, wanted: Mapping[Any, Mapping[str, Any]]
) -> dict[Any, dict[str, Any]]:
    """Several aggregates of a table, in one query; mostly by column and by what they are."""
    # By position: a column may be called anything.
    places = [(name, what) for name, values in wanted.items() for what in values]
    query = table.aggregate([wanted[n][w].name(f"v{at}") for at, (n, w) in enumerate(places)])
    row = backend.to_pyarrow(query).to_pylist()[0]
    found: dict[Any, dict[str, Any]] = {name: {} for name in wanted}
    for at, (name, what) in enumerate(places):
        found[name][what] = row[f"v{at}"]
    return found


def frequent(backend: Any, table: ir.Table, most: int) -> list[tuple[Any, int]]:
    """The most frequent values of the column ``value``, with how often they occur."""
    counts = table.group_by("value").agg(n=lambda rows: rows.count())
    query = counts.order_by(ibis.desc("n"), "value").limit(most)
    found = backend.to_pyarrow(query).to_pylist()
    return [(row["value"], int(row["n"])) for row in found]


def _facts(rows: int, found: Mapping[str, Any]) -> Facts:
    exact = [d for d in range(1, MOST_DECIMALS + 1) if 0 < found["finite"] == found[f"d{d}"]]
    counts = {name: int(found.get(name) or 0) for name in COUNTED}
    return Facts(
        rows=int(rows),
        decimals=exact[0] if exact else None,
        lower=found["lower"],
        upper=found["upper"],
        **counts,
    )


def texts_of(
    backend: Any, value: Any, fact: Facts, *, asked: bool = False
) -> list[tuple[Any, int]]:
    """The most frequent values of a column that texts may have, with how often they occur."""

    many = fact.numeric and fact.distinct > MOST_CATEGORIES
    if not fact.distinct or (many and not (asked or fact.dated)):
        return []
    table = value.name("value").as_table()
    known = table.filter(~encoding.missing(table["value"], MISSING_TOKENS))
    found = frequent(backend, known, MOST_TEXTS)
    return [(text, count) for text, count in found if "\0" not in str(text)]
