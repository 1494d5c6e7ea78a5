"""Columns of dates, moments and times of day: whole numbers underneath, texts in the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PlainValidator, field_serializer, model_validator

from marginalsyn.table.numeric import AUTO_BINS, MOST_BINS, Bins, IntegerColumn, _bins
from marginalsyn.table.timetext import LAST_SHORT_YEAR, TimeFormat, zone_of
from marginalsyn.validation import shown

DAY = 86400
# Bins of a calendar, the finest first; days and shorter ones are whole numbers of seconds.
CALENDAR = ("day", "week", "month", "quarter", "year")
CLOCK = {"minute": 60, "hour": 3600, "day": DAY}
# "auto" takes the finest period that gives at most so many bins.
MOST_AUTO = 48


def _periods(value: Any) -> Any:
    return value if isinstance(value, str) and value in {*CALENDAR, *CLOCK} else _bins(value)


MomentBins = Annotated[Bins | str, PlainValidator(_periods)]


class MomentColumn(IntegerColumn):
    """What dates, moments and times share: an integer column in units of days or seconds.

    Bounds and edges are ISO texts in a schema. Rows hold texts in the stated ``format``, whose
    finest part is the resolution of the values. Texts in the formats of ``also`` are read, too: the
    first format that a text has decides. Years of two digits are those
    of the hundred years that end with that of ``upper``: where it is 2023, 45 is 1945. ``bins`` is
    the resolution of the codes: a number of bins, edges, "auto", or a period such as "month".
    ``parts`` are counted with it, each in a column of its own (``admitted_weekday``), and rows have
    dates that agree with them.
    """

    quiet: ClassVar[tuple[str, ...]] = (*IntegerColumn.quiet, "zone", "parts")
    iso: ClassVar[str] = "2020-12-31"

    format: str = ""  # type: ignore[assignment]
    also: tuple[str, ...] = ()  # type: ignore[assignment]
    bins: MomentBins = "auto"  # type: ignore[assignment]
    zone: str = "UTC"
    parts: tuple[Literal["weekday", "month", "hour"], ...] = ()

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
            starts: list[int] = [
                k * length for k in range(first, min(self.upper // length, first + most) + 1)
            ]
        else:
            starts = [s for s in self._calendar_starts(period, most) if self.lower < s]
        if len(starts) >= MOST_BINS:
            raise ValueError(f"bins ({period!r}) must be coarser: at most {MOST_BINS} bins")
        return [self.lower, *starts, self.upper + 1]

    def _calendar_starts(self, period: str, most: int) -> list[int]:
        moment = datetime(1970, 1, 1) + timedelta(seconds=self.lower * self.unit)
        day = moment.date()
        starts: list[int] = []
        if period == "week":
            day -= timedelta(days=day.weekday())
        else:
            first = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1}.get(period, 1)
            day = day.replace(day=1, month=first)
        step = {"month": 1, "quarter": 3, "year": 12}.get(period, 0)
        while len(starts) <= most:
            count = (day - date(1970, 1, 1)).days * DAY // self.unit
            if count > self.upper:
                break
            starts.append(count)
            if period == "week":
                day += timedelta(days=7)
            else:
                months = day.year * 12 + day.month - 1 + step
                if months // 12 > 9999:
                    break
                day = day.replace(year=months // 12, month=months % 12 + 1)
        return starts

    def _level_labels(self) -> list[str]:
        edges = [int(edge) for edge in self._edges]
        labels = []
        for first, after in pairwise(edges):
            low, high = self._ends(first, after - 1)
            labels.append(low if low == high else self._named(low, high))
        return labels

    def _ends(self, first: int, last: int) -> tuple[str, str]:
        """The first and the last moment of a bin; its days, where these are whole."""
        low, high, day = self._iso(first), self._iso(last), DAY // self.unit
        whole = first % day == 0 and (last + 1) % day == 0
        return (low[:10], high[:10]) if whole else (low, high)

    def _named(self, low: str, high: str) -> str:
        """A whole month or year by its name, any other bin by its ends."""
        if low[:7] == high[:7] and low[8:10] == "01" and self._ends_month(high):
            return low[:7]
        if low[:4] == high[:4] and low[5:10] == "01-01" and high[5:10] == "12-31":
            return low[:4]
        return f"{low} to {high}"

    def _ends_month(self, high: str) -> bool:
        if len(high) > len("2020-12-31"):
            return False
        after = date.fromisoformat(high)
        return after.year < 9999 and (after + timedelta(days=1)).day == 1

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
