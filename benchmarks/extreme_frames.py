"""Types with ordinary and extreme values: of pandas frames. See value_targets.py."""

from __future__ import annotations

import datetime as dt
import enum
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from extreme_files import (
    INF,
    NAMES,
    NAN,
    REALS,
    SIGNS,
    TEXTS,
    Kind,
    draw_real,
    draw_text,
    draw_whole,
    ends,
    stored,
)

UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
HALVES = ["\ud800", "a\udfff", "\udfff\ud800", "\ud83d\ude00", "\udcff1"]


class Real(float):
    """A class of its own, as some libraries give."""


class Odd(dt.tzinfo):
    """A time zone whose distance is no whole number of minutes."""

    def utcoffset(self, moment: Any) -> Any:
        return dt.timedelta(hours=23, minutes=59, seconds=59)

    def dst(self, moment: Any) -> Any:
        return None


SPELT = enum.Enum("SPELT", {"BROKEN": "\ud800"})
WEST, EAST = (dt.timezone(sign * dt.timedelta(hours=23)) for sign in (-1, 1))
# As a time of its own unit can be written.
FAR = 2**62
OBJECTS: list[Any] = [
    *(*HALVES, 10**5000, -(10**5000), 2**63, 2**64, -(2**63) - 1, True, np.True_, None, pd.NA),
    *(np.uint64(2**64 - 1), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400")),
    *(Decimal("-1e-400"), Decimal("1e999999"), Fraction(10**400, 3), Fraction(1, 10**400)),
    *(np.longdouble("1e4000"), Real(1e308), Real("nan"), np.float16(np.inf), *REALS),
    *(1 + 2j, complex("nan"), np.complex64(1j), dt.datetime.min, dt.datetime.max, dt.date.min),
    *(dt.date.max, dt.time.max, dt.time(1, tzinfo=dt.UTC), dt.timedelta.max, dt.timedelta.min),
    *(dt.datetime.max.replace(tzinfo=WEST), dt.datetime.min.replace(tzinfo=EAST)),
    *(dt.datetime(2020, 1, 1, tzinfo=Odd()), dt.datetime(1, 1, 1, tzinfo=Odd()), pd.NaT),
    *(np.datetime64("NaT"), np.datetime64("NaT", "ns"), np.datetime64(5, "h"), np.timedelta64(5)),
    *(np.timedelta64("NaT"), *(np.datetime64(sign * FAR, u) for u in UNITS for sign in (1, -1))),
    *(np.timedelta64(sign * FAR, unit) for unit in UNITS for sign in (1, -1)),
    *(pd.Timestamp.max, pd.Timestamp.min, pd.Timestamp.max.tz_localize("UTC"), pd.Timedelta.max),
    *(pd.Period("2020-01"), pd.Period(ordinal=2**40, freq="Y"), pd.Interval(0, np.inf), b"\xff"),
    *(
        bytearray(b"\xff"),
        memoryview(b"x"),
        SPELT.BROKEN,
        Path("\udcff"),
        uuid.UUID(int=2**128 - 1),
    ),
    *([1], (), {}, {1}, np.array([1]), object(), len, float, NotImplemented, range(3)),
    *(np.void(b"x"), np.str_("\ud800"), np.bytes_(b"\xff"), *TEXTS),
]


@contextmanager
def frame(kinds: Sequence[Kind], columns: Sequence[Sequence[Any]]) -> Iterator[Any]:
    made = [kind.build(column) for kind, column in zip(kinds, columns, strict=True)]
    yield pd.DataFrame(dict(zip(NAMES, made, strict=True)))


def series(dtype: Any) -> Callable[[Sequence[Any]], Any]:
    """What makes a column of a dtype; None for one of objects."""

    def build(values: Sequence[Any]) -> Any:
        held = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            held[place] = value
        if dtype == "category":
            # Left to itself, pandas takes texts for its own type, which not all of them have.
            listed = list(dict.fromkeys(value for value in values if value is not None))
            codes = [-1 if value is None else listed.index(value) for value in values]
            return pd.Series(pd.Categorical.from_codes(codes, pd.Index(listed, dtype=object)))
        found = pd.Series(held, dtype=object)
        return found.astype(dtype) if dtype else found

    return build


def counted(dtype: str) -> Callable[[Sequence[int]], Any]:
    """What makes a column of times, by their whole numbers."""

    def build(values: Sequence[int]) -> Any:
        unit, _, zone = dtype.partition(", ")
        found = pd.Series(np.array(values, dtype=np.int64).view(unit))
        return found.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else found

    return build


def arrow(kind: Any, whole: Any) -> Callable[[Sequence[int]], Any]:
    """What makes a column that PyArrow holds, by what it stores."""
    build, _ = stored(kind, whole)
    return lambda values: pd.Series(pd.arrays.ArrowExtensionArray(build(values)))


def draw_object(rng: random.Random) -> Any:
    makers: tuple[Callable[[random.Random], Any], ...] = (
        *(draw_text, draw_real, draw_whole(200)),
        lambda rng: np.datetime64(draw_whole(64)(rng), rng.choice(UNITS)),
        lambda rng: np.timedelta64(draw_whole(64)(rng), rng.choice(UNITS)),
        lambda rng: chr(rng.randrange(0x110000)) + rng.choice(SIGNS),
        lambda rng: Decimal(rng.getrandbits(64)).scaleb(rng.randrange(-2000, 2000)),
    )
    return rng.choice(makers)(rng)


def plain(values: Sequence[Any]) -> list[Any]:
    """Values of an Arrow column, without the fields of a struct that they do not use."""
    found = []
    for value in values:
        given = value.values() if isinstance(value, dict) else [value]
        known = [one for one in given if one is not None]
        found.append((type(known[0]).__name__, repr(known[0])) if known else None)
    return found


@cache
def frame_kinds() -> list[Kind]:
    return [*_of_objects(), *_of_dtypes(), *_of_whole(), *_of_times()]


def _of_objects() -> Iterator[Kind]:
    as_object, listed = series(None), series("category")
    mixed = [1, 2.5, "a", None, True, dt.date(2020, 1, 2)]
    yield Kind("objects", mixed, OBJECTS, draw_object, as_object)
    texts = [*HALVES, *TEXTS, None, "\0"]
    yield Kind("objects, texts", ["1", "a", "2020-01-02"], texts, draw_object, as_object)
    huge = [2**63, 10**400, -(2**64), None, "\ud800"]
    yield Kind("objects, whole", [1, 2, 3], huge, draw_whole(80), as_object)
    strange = [Decimal(text) for text in ("NaN", "sNaN", "1e400", "Infinity")]
    yield Kind("objects, Decimal", [Decimal("1.5")], [*strange, None], None, as_object)
    yield Kind("category of texts", ["1", "a", "b"], [*HALVES, None, "\0"], draw_text, listed)
    yield Kind("category", [1, "a", 2.5], [2**70, "\ud800", None, (1, 2)], draw_text, listed)


def _of_dtypes() -> Iterator[Kind]:
    texts = [*TEXTS, None, "\0"]
    yield Kind("python", ["1", "a"], [*texts, *HALVES], draw_text, series("string[python]"))
    for dtype in ("str", "large_string[pyarrow]"):
        yield Kind(dtype, ["1", "a"], texts, draw_text, series(dtype))
    yield Kind("boolean", [True, False], [None], None, series("boolean"))
    yield Kind("float16", [1, 2], [65504, INF, NAN], None, series("float16"))
    yield Kind("float64", [1.0, 2.5], REALS, draw_real, series("float64"))
    yield Kind("Float64", [1.0, 2.5], [*REALS, None], draw_real, series("Float64"))
    yield Kind("Sparse", [0.0, 1.0], REALS, draw_real, series("Sparse[float64]"))
    yield Kind("complex128", [1 + 0j, 2j], [complex("nan")], None, series("complex128"))
    longest = [np.longdouble("1e4000"), NAN]
    yield Kind("longdouble", [1.0, 2.0], longest, None, series(np.longdouble))
    days = [pd.Period(ordinal=sign * 2**20, freq="D") for sign in (1, -1)]
    usual = [pd.Period("2020-01-02", "D")]
    yield Kind("period[D]", usual, [*days, None], None, series("period[D]"))
    wide = [pd.Interval(0.0, np.inf), pd.Interval(-1e308, 1e308), None]
    yield Kind("interval", [pd.Interval(0.0, 1.0)], wide, None, series("interval"))
    for kind, usual, odd in (
        (pa.binary(), [b"a", b"1"], [b"\xff", b""]),
        (pa.decimal128(38, 0), [Decimal(1)], [Decimal(10) ** 37]),
        (pa.decimal256(76, 0), [Decimal(1)], [Decimal(10) ** 75]),
        (pa.list_(pa.int64()), [[1], [2]], [[]]),
    ):
        yield Kind(f"{kind}[pyarrow]", usual, [*odd, None], None, series(pd.ArrowDtype(kind)))


def _of_whole() -> Iterator[Kind]:
    for bits in (8, 16, 32, 64):
        for name, signed in ((f"int{bits}", True), (f"uint{bits}", False)):
            few, draw = ends(bits, signed), draw_whole(bits, signed)
            shown = name.replace("uint", "UInt") if not signed else name.replace("int", "Int")
            yield Kind(name, [1, 2, 3], few, draw, series(name))
            yield Kind(shown, [1, 2, 3], [*few, None], draw, series(shown))
            yield Kind(f"{name}[pyarrow]", [1, 2, 3], few, draw, series(f"{name}[pyarrow]"))


def _of_times() -> Iterator[Kind]:
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        usual = [n * size for n in (0, 10**9, 1577836800, 1577923200)]
        for zone in ("", ", Asia/Tokyo", ", America/St_Johns"):
            name = f"datetime64[{unit}]{zone}"
            # pandas itself cannot move times to a zone at the ends of their range.
            few = [n for n in ends(64) if not zone or abs(n) < 2**62 // (10**9 // size)]
            yield Kind(name, usual, few, None if zone else draw_whole(64), counted(name))
        name = f"timedelta64[{unit}]"
        yield Kind(name, usual, ends(64), draw_whole(64), counted(name))
        for kind in (pa.timestamp(unit), pa.timestamp(unit, "Asia/Tokyo"), pa.duration(unit)):
            build = arrow(kind, pa.int64())
            yield Kind(f"{kind}[pyarrow]", usual, ends(64), draw_whole(64), build)
    for kind, bits in (
        *((pa.date32(), 32), (pa.date64(), 64), (pa.time32("s"), 32), (pa.time32("ms"), 32)),
        *((pa.time64("us"), 64), (pa.time64("ns"), 64)),
    ):
        build = arrow(kind, pa.int32() if bits == 32 else pa.int64())
        yield Kind(f"{kind}[pyarrow]", [0, 1, 18263], ends(bits), draw_whole(bits), build)
