"""Columns of dates, moments and times of day: whole numbers underneath, texts in the rows.

A date's bins say nothing of what repeats inside them: the weekday, the month, the hour. Such a part
is a column of its own, computed from the date in the query that counts, so that models see how it
goes with others; when rows are drawn, the date is moved inside its bin to the part that was drawn
with it, and both always agree.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PlainValidator, field_serializer, model_validator

from marginalsyn.table.columns import OrdinalColumn
from marginalsyn.table.numeric import AUTO_BINS, MOST_BINS, Bins, IntegerColumn, _bins
from marginalsyn.table.timetext import LAST_SHORT_YEAR, TimeFormat, moment_of, zone_of
from marginalsyn.validation import shown

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

    from marginalsyn.table.schema import AnyColumn

DAY = 86400
# Bins of a calendar, the finest first; days and shorter ones are whole numbers of seconds.
CALENDAR = ("day", "week", "month", "quarter", "year")
CLOCK = {"minute": 60, "hour": 3600, "day": DAY}
VALUES: dict[str, tuple[str, ...]] = {
    "weekday": tuple(calendar.day_name),
    "month": tuple(calendar.month_name)[1:],
    "hour": tuple(f"{hour:02}" for hour in range(24)),
}
# Days from the first of March of the year 0 to that of 1970-01-01.
_MARCH = 719468
Part = Literal["weekday", "month", "hour"]
# "auto" takes the finest period that gives at most so many bins.
MOST_AUTO = 48


def _periods(value: Any) -> Any:
    return value if isinstance(value, str) and value in {*CALENDAR, *CLOCK} else _bins(value)


MomentBins = Annotated[Bins | str, PlainValidator(_periods)]


class MomentColumn(IntegerColumn):
    """What dates, moments and times share: an integer column in units of days or seconds.

    Bounds and edges are ISO texts in a schema. Rows hold texts in the stated ``format``, whose
    finest part is the resolution of the values. Texts in the formats of ``also`` are read, too: the
    first format that a text has decides. Years of two digits are those of the hundred years that
    end with that of ``upper``: where it is 2023, 45 is 1945. ``bins`` is the resolution of the
    codes: a number of bins, edges, "auto", or a period such as "month". ``parts`` are counted with
    it, each in a column of its own (``admitted_weekday``).
    """

    quiet: ClassVar[tuple[str, ...]] = (*IntegerColumn.quiet, "zone", "parts")
    iso: ClassVar[str] = "2020-12-31"

    format: str = ""  # type: ignore[assignment]
    also: tuple[str, ...] = ()  # type: ignore[assignment]
    bins: MomentBins = "auto"  # type: ignore[assignment]
    zone: str = "UTC"
    parts: tuple[Part, ...] = ()

    @property
    def unit(self) -> int:
        """Seconds of one whole number."""
        return self.style.seconds

    @cached_property
    def style(self) -> TimeFormat:
        return TimeFormat(self.format)

    @cached_property
    def styles(self) -> tuple[TimeFormat, ...]:
        """All formats, in the order in which they are tried."""
        return (self.style, *map(TimeFormat, self.also))

    @property
    def last_year(self) -> int:
        """The last of the hundred years that two digits stand for."""
        return min(int(self._iso(self.upper)[:4]), LAST_SHORT_YEAR) if self.style.dated else 0

    @property
    def worded(self) -> bool:
        return True

    def write(self, numbers: np.ndarray) -> list[str]:
        distinct, place = np.unique(np.asarray(numbers, dtype=np.int64), return_inverse=True)
        zone = self.zone if "z" in self.style.directives else "UTC"
        texts = [self.style.write(count, self.unit, zone) for count in distinct.tolist()]
        return np.array(texts, dtype=object)[place].tolist() if texts else []

    def bound(self, value: float) -> Any:
        return self._iso(int(value))

    @field_serializer("lower", "upper")
    def _bound_text(self, value: int) -> str:
        return self._iso(value)

    @field_serializer("bins")
    def _bins_text(self, bins: Any) -> Any:
        return [self._iso(int(edge)) for edge in bins] if isinstance(bins, tuple) else bins

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, data: Any) -> Any:
        """Bounds and edges as whole numbers, once the unit is known from the format."""
        if not isinstance(data, Mapping):
            return data
        read = dict(data)
        style = TimeFormat(str(read.get("format") or cls.model_fields["format"].default))
        cls._check_format(style)
        for name in ("lower", "upper"):
            if name in read:
                read[name] = cls._count(name, read[name], style.seconds, up=name == "upper")
        bins = read.get("bins")
        if isinstance(bins, list | tuple):
            read["bins"] = [cls._count("bins", edge, style.seconds) for edge in bins]
        return read

    @model_validator(mode="after")
    def _check_zone(self) -> MomentColumn:
        zone_of(self.zone)
        own = self.style
        for other in self.styles[1:]:
            days = (other.dated, "j" in other.directives)
            timed = other.timed or own.dated
            if not timed or days != (own.dated, "j" in own.directives):
                raise ValueError(
                    f"also ({other.text!r}) must name a day or an hour as format "
                    f"({self.format!r}) does"
                )
        if self.shape is not None:
            raise ValueError("shape must be left out: dates and times are drawn evenly in a bin")
        timed, dated = self.style.timed, self.style.dated
        fine = [*(("weekday", "month") if dated else ()), *(("hour",) if timed and dated else ())]
        if wrong := [part for part in self.parts if part not in fine]:
            listed = " or ".join(map(repr, fine)) or "left out"
            raise ValueError(f"parts ({wrong[0]!r}) must be {listed} for {self.format!r}")
        if len(set(self.parts)) < len(self.parts):
            raise ValueError(f"parts ({', '.join(self.parts)}) must be distinct")
        last, years = self.last_year, {self._iso(end)[:4] for end in (self.lower, self.upper)}
        short = dated and "Y" not in own.directives
        if short and not (min(years) > f"{last - 100:04}" and max(years) == f"{last:04}"):
            raise ValueError(
                f"format ({self.format!r}) must name years with %Y: two digits stand for a hundred "
                f"years, the last of them {last}, and the bounds go beyond them"
            )
        return self

    @classmethod
    def _check_format(cls, style: TimeFormat) -> None:
        raise TypeError(f"{cls.__name__} must check its format")

    @classmethod
    def _count(cls, name: str, value: Any, unit: int, *, up: bool = False) -> int:
        """A public moment as a whole number; an upper bound stands for its last one."""
        if isinstance(value, date | time):
            value = value.isoformat()
        try:
            if not isinstance(value, str):
                raise ValueError(value)
            return cls._seconds(value, up) // unit
        except ValueError:
            raise ValueError(
                f"{name} ({shown(value)}) must be an ISO text such as {cls.iso!r}"
            ) from None

    @classmethod
    def _seconds(cls, text: str, up: bool) -> int:
        moment = datetime.fromisoformat(text)
        if up and len(text) <= len("2020-12-31"):
            moment += timedelta(days=1, seconds=-1)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())

    def _iso(self, value: int) -> str:
        moment = datetime(1970, 1, 1) + timedelta(seconds=value * self.unit)
        return moment.date().isoformat() if self.unit == DAY else moment.isoformat()

    def _make_edges(self) -> Sequence[float]:
        if self.bins in CALENDAR or self.bins in CLOCK:
            return self._period_edges(str(self.bins))
        if self.bins == "auto":
            for period in (*CLOCK, *CALENDAR[1:]):
                if CLOCK.get(period, DAY) < self.unit:
                    continue
                edges = self._period_edges(period, MOST_AUTO)
                if 2 < len(edges) <= MOST_AUTO + 1:
                    return edges
            bins = min(AUTO_BINS, self.count)
            return [self.lower + (i * self.count) // bins for i in range(bins + 1)]
        return super()._make_edges()

    def _period_edges(self, period: str, most: int = MOST_BINS) -> list[float]:
        """The first values of the periods inside the bounds; the outer ones may be cut."""
        if period in CLOCK:
            length = CLOCK[period] // self.unit
            if length < 1:
                raise ValueError(f"bins ({period!r}) must not be finer than the format's own parts")
            first = self.lower // length + 1
            last = min(self.upper // length, first + most)
            starts = [k * length for k in range(first, last + 1)]
        else:
            starts = [s for s in self._calendar_starts(period, most) if self.lower < s]
        if len(starts) >= MOST_BINS:
            raise ValueError(f"bins ({period!r}) must be coarser: at most {MOST_BINS} bins")
        return [self.lower, *starts, self.upper + 1]

    def _calendar_starts(self, period: str, most: int) -> list[int]:
        """The first values of the period that the lower bound lies in, and of those after it."""
        day = self.lower * self.unit // DAY
        if period == "week":
            days = day - (day + 3) % 7 + 7 * np.arange(most + 1)
        else:
            step = {"month": 1, "quarter": 3, "year": 12}[period]
            month = np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)
            months = (month // step * step + step * np.arange(most + 1)).astype("datetime64[M]")
            days = months.astype("datetime64[D]").astype(np.int64)
        starts = days * DAY // self.unit
        return starts[starts <= self.upper].tolist()

    def _level_labels(self) -> list[str]:
        edges = [int(edge) for edge in self._edges]
        ends = (self._ends(first, after - 1) for first, after in pairwise(edges))
        return [low if low == high else self._named(low, high) for low, high in ends]

    def _ends(self, first: int, last: int) -> tuple[str, str]:
        """The first and the last moment of a bin; its days, where these are whole."""
        low, high, day = self._iso(first), self._iso(last), DAY // self.unit
        whole = first % day == 0 and (last + 1) % day == 0
        return (low[:10], high[:10]) if whole else (low, high)

    def _named(self, low: str, high: str) -> str:
        """A whole month or year by its name, any other bin by its ends."""
        if low[:7] == high[:7] < "9999" and low[8:10] == "01":
            last = calendar.monthrange(int(high[:4]), int(high[5:7]))[1]
            if high[8:] == str(last):
                return low[:7]
        if low[:4] == high[:4] and low[5:10] == "01-01" and high[5:10] == "12-31":
            return low[:4]
        return f"{low} to {high}"

    def _code(self, value: Any) -> int:
        return super()._code(self.count_of(value))

    def _covered(self, condition: Any) -> np.ndarray:
        if isinstance(condition, Mapping):
            read = {k: self.count_of(v, up=k == "max") for k, v in condition.items()}
            return super()._covered(read)
        return super()._covered(self.count_of(condition))

    def count_of(self, value: Any, *, up: bool = False) -> int:
        """A public moment, written in ISO, as a whole number; an upper bound is its last one."""
        return self._count(self.name, value, self.unit, up=up)


class DateColumn(MomentColumn):
    """Days from ``lower`` to ``upper``, both included, written in ``format``.

    Example:
        >>> DateColumn(
        ...     name="admitted", lower="2020-01-01", upper="2020-03-31", format="%d.%m.%Y",
        ...     bins="month",
        ... ).labels()
        ['2020-01', '2020-02', '2020-03']
    """

    kind: Literal["date"] = "date"  # type: ignore[assignment]
    format: str = Field(default="%Y-%m-%d")  # type: ignore[assignment]

    @classmethod
    def _check_format(cls, style: TimeFormat) -> None:
        if not style.dated or style.timed:
            raise ValueError(
                f"format ({style.text!r}) must name year, month and day and no time, as in "
                "'%d.%m.%Y'"
            )


class DatetimeColumn(MomentColumn):
    """Moments from ``lower`` to ``upper``; with ``%z`` in the format they are in UTC.

    ``zone`` is the time zone that rows are written in, where the format has ``%z``; a text that
    names none is taken as it stands.

    Example:
        >>> DatetimeColumn(
        ...     name="seen", lower="2020-01-01", upper="2020-01-02", format="%Y-%m-%d %H:%M",
        ...     bins="day",
        ... ).size
        2
    """

    kind: Literal["datetime"] = "datetime"  # type: ignore[assignment]
    format: str = Field(default="%Y-%m-%d %H:%M:%S")  # type: ignore[assignment]

    @classmethod
    def _check_format(cls, style: TimeFormat) -> None:
        if not (style.dated and style.timed):
            raise ValueError(
                f"format ({style.text!r}) must name a day and an hour, as in '%Y-%m-%d %H:%M'"
            )


class TimeColumn(MomentColumn):
    """Times of day from ``lower`` to ``upper``.

    Example:
        >>> TimeColumn(name="seen", lower="08:00", upper="17:59", format="%H:%M").size
        10
    """

    kind: Literal["time"] = "time"  # type: ignore[assignment]
    format: str = Field(default="%H:%M:%S")  # type: ignore[assignment]
    iso: ClassVar[str] = "08:30"

    @classmethod
    def _check_format(cls, style: TimeFormat) -> None:
        if style.dated or not style.timed or "z" in style.directives:
            raise ValueError(f"format ({style.text!r}) must name an hour and no day, as in '%H:%M'")

    @classmethod
    def _seconds(cls, text: str, up: bool) -> int:
        moment = time.fromisoformat(text)
        last = 59 if up and len(text) == len("08:30") else 0
        return moment.hour * 3600 + moment.minute * 60 + moment.second + last

    def _iso(self, value: int) -> str:
        text = (datetime(1970, 1, 1) + timedelta(seconds=value * self.unit)).strftime("%H:%M:%S")
        return text if self.unit == 1 else text[:5]

    def _ends(self, first: int, last: int) -> tuple[str, str]:
        return self._iso(first), self._iso(last)

    def _named(self, low: str, high: str) -> str:
        return f"{low} to {high}"


MOMENTS: dict[str, type[MomentColumn]] = {
    "date": DateColumn,
    "datetime": DatetimeColumn,
    "time": TimeColumn,
}
"""The kinds of columns of dates and times."""


def part_name(column: MomentColumn, part: str) -> str:
    """The name of the column that holds a part."""
    return f"{column.name}_{part}"


def part_columns(column: MomentColumn) -> list[OrdinalColumn]:
    """The columns of a date's parts."""
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

    Where a bin has none, or a part is missing, the number stays as it is. A bin is from ``low`` to
    below ``high``, and ``wanted`` has codes by part.
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

    steps, length = [f"marginalsyn_{n}" for n in range(5)], DAY // column.unit

    def step(found: ibis.Table, place: int, value: Any) -> ibis.Table:
        return encoding.step(found.mutate(**{steps[place]: value}))

    found = step(table, 0, encoding.digits(encoding.plain(table[column.name]), column))
    found = step(found, 1, moment_of(found[steps[0]], column.style))
    found = step(found, 2, encoding.clipped(found[steps[1]], column).cast("int64"))
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
