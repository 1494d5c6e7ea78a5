"""How a table spells dates and times: a stated format, compiled to a pattern that engines share.

Engines parse dates each in its own way, and some fail on a text that is none. Here a format becomes
one regular expression and integer arithmetic, which all of them run alike on one value at a time.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.types as ir

from marginalsyn.validation import shown

TWO = "([0-9][0-9]?)"
# Groups that are not asked for take no number: DuckDB counts up to nine.
ZONE = "(Z|[+-][0-9][0-9](?::?[0-9][0-9])?)"
# In POSIX 68 is 2068, and 69 is 1969.
LAST_SHORT_YEAR = 2068
MONTHS = [name.lower() for name in calendar.month_abbr]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What a directive matches, and how many groups that has.
PATTERNS = {
    "Y": "([0-9][0-9][0-9][0-9])",
    "y": "([0-9][0-9])",
    **dict.fromkeys("mdHIMS", TWO),
    "f": "(?:[0-9]+)",
    "j": "([0-9][0-9]?[0-9]?)",
    "b": "([A-Za-z]+)",
    "B": "([A-Za-z]+)",
    "a": "(?:[A-Za-z]+)",
    "A": "(?:[A-Za-z]+)",
    "p": "([AaPp][Mm])",
    "z": ZONE,
}
# Typed columns arrive as these texts, with or without what is in brackets.
ISO = (
    "^([0-9][0-9][0-9][0-9])-([0-9][0-9])-([0-9][0-9])"
    f"(?:[ T]([0-9][0-9]):([0-9][0-9])(?::([0-9][0-9])(?:[.][0-9]+)?)?{ZONE}?)?$"
)
ISO_PLACES = {"Y": 1, "m": 2, "d": 3, "H": 4, "M": 5, "S": 6, "z": 7}
ISO_TIME = f"^{TWO}:([0-9][0-9])(?::([0-9][0-9])(?:[.][0-9]+)?)?$"
ISO_TIME_PLACES = {"H": 1, "M": 2, "S": 3}


@dataclass(frozen=True)
class TimeFormat:
    """A format in the directives of ``strftime``; ``%-d`` is written without a leading zero.

    Example:
        >>> TimeFormat("%d.%m.%Y").write(0, 86400)
        '01.01.1970'
    """

    text: str

    @cached_property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a literal and the directive behind it, ``-`` in front of an unpadded one."""
        found, rest = [], self.text
        while rest:
            literal, percent, rest = rest.partition("%")
            if not percent:
                found.append((literal, ""))
                break
            sign = "-" if rest.startswith("-") else ""
            letter = rest[len(sign) : len(sign) + 1]
            if letter == "%":
                found.append((literal + "%", ""))
            elif letter not in PATTERNS:
                known = ", ".join(f"%{one}" for one in PATTERNS)
                raise ValueError(
                    f"format ({self.text!r}) must use {known}: %{sign}{letter} is not one of them"
                )
            else:
                found.append((literal, sign + letter))
            rest = rest[len(sign) + 1 :]
        return tuple(found)

    @cached_property
    def directives(self) -> tuple[str, ...]:
        return tuple(letter.lstrip("-") for _, letter in self.parts if letter)

    @property
    def dated(self) -> bool:
        """Whether it names a day."""
        day = {"m", "b", "B"} & {*self.directives} and "d" in self.directives
        return bool({"Y", "y"} & {*self.directives}) and bool(day or "j" in self.directives)

    @property
    def timed(self) -> bool:
        """Whether it names an hour."""
        return bool({"H", "I"} & {*self.directives})

    @property
    def seconds(self) -> int:
        """The length of its finest step."""
        for letter, length in (("S", 1), ("M", 60), ("H", 3600), ("I", 3600)):
            if letter in self.directives:
                return length
        return 86400

    @cached_property
    def pattern(self) -> str:
        """The regular expression of a whole text."""
        body = "".join(
            _literal(literal) + (PATTERNS[letter.lstrip("-")] if letter else "")
            for literal, letter in self.parts
        )
        return f"^{body}$"

    @cached_property
    def places(self) -> dict[str, int]:
        """The group of every directive."""
        found: dict[str, int] = {}
        place = 1
        for letter in self.directives:
            if letter in "aAf":
                continue  # matched, and not asked for
            found.setdefault(letter, place)
            place += 1
        return found

    def write(self, count: int, unit: int, zone: str = "UTC") -> str:
        """The text of a moment, ``count`` units of seconds after 1970."""
        moment = (EPOCH + timedelta(seconds=count * unit)).astimezone(zone_of(zone))
        return "".join(
            literal + (_written(moment, letter) if letter else "") for literal, letter in self.parts
        )


def _literal(text: str) -> str:
    return "".join(f"[{c}]" if c in ".+*?()|{}$/-" else "[ ]" if c == " " else c for c in text)


def _written(moment: datetime, letter: str) -> str:
    bare, letter = letter.startswith("-"), letter.lstrip("-")
    if letter == "z":
        offset = moment.strftime("%z")
        return f"{offset[:3]}:{offset[3:5]}"
    if letter == "Y":
        return f"{moment.year:04}"  # platforms do not agree on years before 1000
    if letter in "bB":
        return (calendar.month_abbr if letter == "b" else calendar.month_name)[moment.month]
    if letter in "aA":
        return (calendar.day_abbr if letter == "a" else calendar.day_name)[moment.weekday()]
    text = moment.strftime(f"%{letter}")
    return (text.lstrip("0") or "0") if bare else text


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """A time zone by its name, or by its distance from UTC as in "+02:00"."""
    if name in ("UTC", "Z"):
        return UTC
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if match:
        distance = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-distance if match[1] == "-" else distance)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"zone ({shown(name)}) must be a time zone such as 'Europe/Berlin' or '+02:00'"
        ) from None


# -- engines ---------------------------------------------------------------------------------------
# Two steps, so that an engine searches a text once: to digits at fixed places, and to a number.


def digits_of(text: ir.Value, styles: Sequence[TimeFormat], last: int) -> ir.Value:
    """A moment as ``yyyymmddhhmmss`` and its offset as ``+hhmm``; null where the text is none.

    The first format that a text has decides. Besides the stated formats ISO texts are understood,
    which is what typed columns become. Years of two digits lie in the hundred up to ``last``.
    """
    iso, places = (ISO, ISO_PLACES) if styles[0].dated else (ISO_TIME, ISO_TIME_PLACES)
    found = [_digits(text, style.pattern, style.places, last) for style in styles]
    return ibis.coalesce(*found, _digits(text, iso, places, last))


def moment_of(digits: ir.Value, style: TimeFormat) -> ir.Value:
    """The whole number of the format's steps since 1970, or midnight, that digits stand for.

    Null where there is no such moment, such as a 30th of February.
    """

    def number(start: int, length: int) -> ir.Value:
        return digits.substr(start, length).cast("int64")

    hour, minute, second = number(8, 2), number(10, 2), number(12, 2)
    days = ibis.literal(0, "int64")
    if style.dated and "j" in style.places:
        days = _day_of_year(number(0, 4), number(4, 4))
    elif style.dated:
        days = day_of(number(0, 4), number(4, 2), number(6, 2))
    seconds = days * 86400 + hour * 3600 + minute * 60 + second
    if style.timed:
        ahead = number(15, 2) * 3600 + number(17, 2) * 60
        seconds = seconds - ibis.ifelse(digits.substr(14, 1) == "-", -ahead, ahead)
    whole = seconds if style.seconds == 1 else seconds // style.seconds
    real = (hour <= 23) & (minute <= 59) & (second <= 59)
    return ibis.ifelse(real, whole, ibis.null("int64")).cast("float64")


def day_of(year: ir.Value, month: ir.Value, day: ir.Value) -> ir.Value:
    """Days since 1970 of a date that exists, null of one that does not; years from 1 to 9999."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400 - 477
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    starts = [sum(lengths[:number]) for number in range(12)]
    start = month.cases(*enumerate(starts, 1), else_=ibis.null("int64"))
    length = month.cases(*enumerate(lengths, 1), else_=0)
    extra = ibis.ifelse(leap & (month > 2), 1, 0)
    days = 365 * (year - 1970) + leaps + start + extra + day - 1
    longest = length + ibis.ifelse(leap & (month == 2), 1, 0)
    return ibis.ifelse((year >= 1) & (day >= 1) & (day <= longest), days, ibis.null("int64"))


def _day_of_year(year: ir.Value, day: ir.Value) -> ir.Value:
    """As ``day_of``, for month and day or, from 1000 on, for the day of the year."""
    first = day_of(year, ibis.literal(1), ibis.literal(1))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    later = day - 5000
    counted = ibis.ifelse(
        (later >= 1) & (later <= 365 + ibis.ifelse(leap, 1, 0)),
        first + later - 1,
        ibis.null("int64"),
    )
    return ibis.ifelse(day >= 5000, counted, day_of(year, day // 100, day % 100))


def _digits(text: ir.Value, pattern: str, places: dict[str, int], last: int) -> ir.Value:
    def part(letter: str) -> ir.Value:
        return text.re_extract(pattern, places[letter])

    def two(letter: str) -> ir.Value:
        # Engines give an empty text or null for a group that took no part.
        if letter not in places:
            return ibis.literal("00")
        return ibis.coalesce(part(letter), "").lpad(2, "0")

    found = [_year(places, part, last), *_month_and_day(places, part, two)]
    found += [_hour(places, part, two), two("M"), two("S")]
    if "z" in places:
        offset = ibis.coalesce(part("z"), "").replace("Z", "").replace(":", "")
        found.append(offset.rpad(1, "+").rpad(5, "0"))
    else:
        found.append(ibis.literal("+0000"))
    return ibis.ifelse(text.re_search(pattern), ibis.literal("").join(found), ibis.null("string"))


Part = Callable[[str], ir.Value]


def _year(places: dict[str, int], part: Part, last: int) -> ir.Value:
    if "Y" in places:
        return part("Y")
    if "y" in places:
        short, (century, years) = part("y"), divmod(max(last, 100), 100)
        early, late = f"{century - 1:02}", f"{century:02}"
        return ibis.ifelse(short <= f"{years:02}", late, early).concat(short)
    return ibis.literal("0000")


def _month_and_day(places: dict[str, int], part: Part, two: Part) -> list[ir.Value]:
    named = next((letter for letter in "bB" if letter in places), None)
    if "m" not in places and named is None and "j" in places:
        # Days of a year differ from months and days in size.
        return [ibis.literal("5"), part("j").lpad(3, "0")]
    if "m" in places or named is None:
        return [two("m"), two("d")]
    full = [month.lower() for month in calendar.month_name]
    spelt = {m: f"{n:02}" for names in (MONTHS, full) for n, m in enumerate(names) if m}
    return [part(named).lower().cases(*spelt.items(), else_="00"), two("d")]


def _hour(places: dict[str, int], part: Part, two: Part) -> ir.Value:
    if "I" not in places:
        return two("H")
    late = part("p").lower() == "pm" if "p" in places else ibis.literal(False)
    hours = {f"{n:02}": (f"{n % 12:02}", f"{n % 12 + 12:02}") for n in range(1, 13)}
    twelve = two("I")
    early = twelve.cases(*((n, am) for n, (am, _) in hours.items()), else_="99")
    return ibis.ifelse(
        late, twelve.cases(*((n, pm) for n, (_, pm) in hours.items()), else_="99"), early
    )
