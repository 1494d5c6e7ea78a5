"""What rows say of every column, for a draft: counts, bounds, frequent texts. Not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.drafting.guess import MOST_CATEGORIES
from marginalsyn.table.schema import MISSING_TOKENS

if TYPE_CHECKING:
    import ibis.expr.types as ir

MOST_DECIMALS = 4
MOST_TEXTS = 3000
BOUNDLESS = 1e14
LEADING_ZERO = "^[+-]?0[0-9]"


@dataclass(frozen=True)
class Facts:
    """What the draft is based on, for one column."""

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

    @property
    def numeric(self) -> bool:
        return 0 < self.known == self.numbers and self.coded == 0

    @property
    def integer(self) -> bool:
        return self.numeric and self.whole == self.finite


def survey(backend: Any, plain: ir.Table) -> dict[str, Facts]:
    """Collect the facts on every column in one query."""
    import ibis

    from marginalsyn.table import encoding

    def aggregates(value: Any) -> dict[str, Any]:
        known = ~encoding.missing(value, MISSING_TOKENS)
        number: Any = encoding.number(value)
        # Engines round to 64-bit integers: beyond the bound, infinity among them, they would fail.
        finite = ibis.ifelse(known & (number.abs() <= BOUNDLESS), number, ibis.null("float64"))
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
            found["coded"] = (known & value.re_search(LEADING_ZERO)).sum()
        for decimals in range(1, MOST_DECIMALS + 1):
            scale = 10.0**decimals
            found[f"d{decimals}"] = ((finite * scale).round() / scale == finite).sum()
        return found

    # By position: a column may be called anything.
    query = plain.aggregate(
        [plain.count().name("rows")]
        + [
            expression.name(f"{number}_{what}")
            for number, name in enumerate(plain.columns)
            for what, expression in aggregates(plain[name]).items()
        ]
    )
    found = backend.to_pyarrow(query).to_pylist()[0]
    return {
        name: _facts(
            found["rows"],
            {
                key.partition("_")[2]: value
                for key, value in found.items()
                if key.startswith(f"{number}_")
            },
        )
        for number, name in enumerate(plain.columns)
    }


def _facts(rows: int, found: Mapping[str, Any]) -> Facts:
    known, finite = int(found["known"] or 0), int(found["finite"] or 0)
    exact = [d for d in range(1, MOST_DECIMALS + 1) if finite and found[f"d{d}"] == finite]
    return Facts(
        rows=int(rows),
        known=known,
        distinct=int(found["distinct"] or 0),
        numbers=int(found["numbers"] or 0),
        finite=finite,
        whole=int(found["whole"] or 0),
        coded=int(found.get("coded") or 0),
        lower=found["lower"],
        upper=found["upper"],
        decimals=exact[0] if exact else None,
    )


def texts_of(
    backend: Any, value: Any, fact: Facts, *, asked: bool = False
) -> list[tuple[Any, int]]:
    """The most frequent values with how often they occur."""
    import ibis

    from marginalsyn.table import encoding

    if not fact.distinct or (fact.numeric and fact.distinct > MOST_CATEGORIES and not asked):
        return []
    table = value.name("value").as_table()
    known = table.filter(~encoding.missing(table["value"], MISSING_TOKENS))
    counts = known.group_by("value").agg(n=lambda rows: rows.count())
    query = counts.order_by(ibis.desc("n"), "value").limit(MOST_TEXTS)
    found = backend.to_pyarrow(query).to_pylist()
    return [(row["value"], int(row["n"])) for row in found if "\0" not in str(row["value"])]


def ends_of(backend: Any, table: ir.Table, columns: Sequence[Any]) -> dict[str, tuple[Any, Any]]:
    """The least and the largest number of every column."""
    from marginalsyn.table import encoding

    read = encoding.prepared(table, columns)
    query = read.aggregate(
        [
            end.name(f"{place}_{side}")
            for place, column in enumerate(columns)
            for side, end in (("low", read[column.name].min()), ("high", read[column.name].max()))
        ]
    )
    found = backend.to_pyarrow(query).to_pylist()[0]
    return {
        column.name: (found[f"{place}_low"], found[f"{place}_high"])
        for place, column in enumerate(columns)
    }
