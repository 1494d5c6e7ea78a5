"""Parts of dates that are counted beside them: the weekday, the month, the hour.

A date's bins say nothing of what repeats inside them. A part is a column of its own, computed from
the date in the query that counts, so that models see how it goes with others; when rows are drawn,
the date is moved inside its bin to the part that was drawn with it, and both always agree.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marginalsyn.table.columns import OrdinalColumn
from marginalsyn.table.moments import DAY, MomentColumn
from marginalsyn.table.timetext import moment_of

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

    from marginalsyn.table.schema import AnyColumn

Part = Literal["weekday", "month", "hour"]
VALUES: dict[str, tuple[str, ...]] = {
    "weekday": tuple(calendar.day_name),
    "month": tuple(calendar.month_name)[1:],
    "hour": tuple(f"{hour:02}" for hour in range(24)),
}
# Days from the first of March of the year 0 to that of 1970-01-01.
_MARCH = 719468


def part_name(column: MomentColumn, part: str) -> str:
    """The name of the column that holds a part."""
    return f"{column.name}_{part}"


def part_columns(column: MomentColumn) -> list[OrdinalColumn]:
    """The columns of a date's parts.

    Example:
        >>> from marginalsyn.table.moments import DateColumn
        >>> day = DateColumn(name="day", lower="2020-01-01", upper="2020-12-31", parts=("weekday",))
        >>> part_columns(day)[0].name, part_columns(day)[0].levels
        ('day_weekday', 7)
    """
    return [
        OrdinalColumn(
            name=part_name(column, part),
            categories=VALUES[part],
            nullable=column.nullable,
            description=f"the {part} of {column.name}",
        )
        for part in column.parts
    ]


def parts_of(columns: Iterable[AnyColumn]) -> dict[str, MomentColumn]:
    """By the name of each column of a part, the date that it is of."""
    return {
        part_name(column, part): column
        for column in columns
        if isinstance(column, MomentColumn)
        for part in column.parts
    }


def codes_of(part: str, numbers: np.ndarray, unit: int) -> np.ndarray:
    """The codes of a part of moments that are whole numbers of ``unit`` seconds."""
    seconds = np.asarray(numbers, dtype=np.int64) * unit
    if part == "hour":
        return seconds // 3600 % 24
    days = seconds // DAY
    if part == "weekday":
        return (days + 3) % 7
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12


def steer(
    column: MomentColumn,
    numbers: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    wanted: Mapping[str, np.ndarray],
) -> np.ndarray:
    """The numbers, moved to the nearest that have the parts wanted, inside their bins.

    Where a bin has none, or a part is missing, the number stays as it is.

    Args:
        column: the date.
        numbers: drawn inside the bins.
        low: the first number of each bin.
        high: the first beyond it.
        wanted: codes by part.
    """
    found = np.asarray(numbers, dtype=np.int64).copy()
    done: list[str] = []
    for part in ("month", "weekday", "hour"):
        if part not in wanted:
            continue
        aim = np.asarray(wanted[part], dtype=np.int64)
        todo = (aim < len(VALUES[part])) & (codes_of(part, found, column.unit) != aim)
        for candidate in _candidates(part, found, aim, column.unit):
            fits = todo & (candidate >= low) & (candidate < high)
            for kept in (*done, part):
                before = wanted[kept] if kept == part else codes_of(kept, found, column.unit)
                fits &= codes_of(kept, candidate, column.unit) == before
            found = np.where(fits, candidate, found)
            todo &= ~fits
        done.append(part)
    return found


def _candidates(part: str, numbers: np.ndarray, aim: np.ndarray, unit: int) -> Iterable[np.ndarray]:
    """Numbers with another part, the nearest first."""
    seconds = numbers * unit
    if part == "hour":
        yield (seconds + (aim - seconds // 3600 % 24) * 3600) // unit
        return
    days, rest = seconds // DAY, seconds % DAY
    if part == "weekday":
        step = (aim - codes_of(part, numbers, unit) + 3) % 7 - 3
        for more in (np.zeros_like(step), -7 * np.sign(step), 7 * np.sign(step)):
            yield ((days + step + more) * DAY + rest) // unit
        return
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    inside = days - months.astype("datetime64[D]").astype(np.int64)
    for years in (0, -1, 1):
        first = months.astype(np.int64) // 12 * 12 + aim + 12 * years
        start = first.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        last = (first + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - 1
        for day in (inside, np.zeros_like(inside), last - start):
            yield (np.minimum(start + day, last) * DAY + rest) // unit


def with_parts(table: ibis.Table, columns: Iterable[AnyColumn]) -> ibis.Table:
    """The rows of a source with the columns of all parts; missing where the date is."""
    for column in columns:
        if isinstance(column, MomentColumn) and column.parts:
            table = _with_own(table, column)
    return table


def _with_own(table: ibis.Table, column: MomentColumn) -> ibis.Table:
    """The rows with the parts of one date."""
    import ibis

    from marginalsyn.table import encoding
    from marginalsyn.table.encoding import clipped, digits, plain

    steps, length = [f"marginalsyn_{n}" for n in range(5)], DAY // column.unit

    def step(found: ibis.Table, place: int, value: Any) -> ibis.Table:
        return encoding.step(found.mutate(**{steps[place]: value}))

    found = step(table, 0, digits(plain(table[column.name]), column))
    found = step(found, 1, moment_of(found[steps[0]], column.style))
    found = step(found, 2, clipped(found[steps[1]], column).cast("int64"))
    found = step(found, 3, found[steps[2]] // length)
    if "month" in column.parts:
        found = step(found, 4, _month(found[steps[3]]))
    day: Any = found[steps[3]]
    codes: dict[str, Any] = {
        "weekday": (day + 3) - (day + 3) // 7 * 7,
        "hour": (found[steps[2]] - day * length) * column.unit // 3600,
    }
    if "month" in column.parts:
        codes["month"] = found[steps[4]]
    texts = {
        part_name(column, part): codes[part].cases(
            *enumerate(VALUES[part]), else_=ibis.null("string")
        )
        for part in column.parts
    }
    return found.mutate(**texts).drop(*[name for name in steps if name in found.columns])


def _month(day: Any) -> ir.Value:
    """The month, from 0 on, of a number of days since 1970."""
    since = day + _MARCH
    inside = since - since // 146097 * 146097
    year = (inside - inside // 1460 + inside // 36524 - inside // 146096) // 365
    first = year * 365 + year // 4 - year // 100
    march = (5 * (inside - first) + 2) // 153
    return (march + 2) - (march + 2) // 12 * 12
