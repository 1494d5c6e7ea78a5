"""Types with ordinary and extreme values: of CSV and Parquet files. See value_targets.py."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

# The columns of a table: one for each kind of schema column, a dropped one, and persons.
NAMES = ("whole", "unit", "real", "spelt", "word", "number", "folded", "truth", "day", "short")
NAMES += ("moment", "clock", "left", "who")


@dataclass(frozen=True, eq=False)
class Kind:
    """A type of a source: its name, ordinary values, and extreme ones.

    Values are as the source wants them: texts, objects, or SQL. ``draw`` makes one more extreme
    value, and ``build`` is what the source needs for the type.
    """

    name: str
    ordinary: Sequence[Any]
    extreme: Sequence[Any]
    draw: Callable[[random.Random], Any] | None = None
    build: Any = None


INF, NAN = float("inf"), float("nan")
REALS = [INF, -INF, NAN, -0.0, 5e-324, 1.7e308, -1.7e308, 2.0**63, 1e22]
TEXTS = [
    *("", " ", "\t1\n", "é", "\x7f", "\x01", "'", '"', "\\", "%", "\\xff", "$ 1.234,5", "<0,2"),
    *("1e400", "-1e400", "1e-400", "inf", "-Infinity", "nan", "0x10", "1_000", "+", "-", ".", "5."),
    *("9" * 39, "9" * 41, "9" * 400, "1e249", "1e250", "\u0663", "\uff11", "5\u0085", "5\u2028"),
    *("2020-02-30", "2020-01-01 24:00:00", "9999-12-31 23:59:59", "0000-01-01", "10000-01-01"),
    *("2020-01-01\u0085", "366/20", "366/21", "0/20", "infinity", "-infinity", "epoch", "now"),
    *("Jan 01 2020 00:00 AM Z", "Jan 01 2020 13:00 PM +99:99", "\u017f", "\u0130", "ß", "\ufeff1"),
    *(
        "{}",
        "[1]",
        "true",
        "TRUE",
        "T",
        "\U0010ffff",
        "\ufffe",
        "x" * 300,
        "$" * 50,
        "1" + "0" * 59,
    ),
    *(">41", "5\u00a0", "a" * 70000),
]
SIGNS = "019.,-+eE<>$ :/TZ\t\n\r\"'\\%aAbxé\u0085\u2028\u00a0\u0130\U0001f600"


def draw_text(rng: random.Random) -> str:
    if rng.random() < 0.3:
        base = list(rng.choice(TEXTS)[:100])
        for _ in range(rng.randrange(1, 4)):
            base.insert(rng.randrange(len(base) + 1), rng.choice(SIGNS))
        return "".join(base)
    signs = [rng.choice(SIGNS) for _ in range(rng.randrange(12))]
    if rng.random() < 0.3:
        signs.append(chr(rng.choice([rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)])))
    return "".join(signs)


def draw_whole(bits: int, signed: bool = True) -> Callable[[random.Random], int]:
    def draw(rng: random.Random) -> int:
        size = rng.randrange(1, bits + 1)
        number = rng.getrandbits(size)
        if not signed:
            return number
        return max(-(2 ** (bits - 1)), min(2 ** (bits - 1) - 1, rng.choice((1, -1)) * number))

    return draw


def ends(bits: int, signed: bool = True) -> list[int]:
    """Whole numbers of so many bits: the ends, and what times of each unit reach."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [0, 1, 86_399, 86_400, 86_401]
    near += [k * 10**n for n in (3, 6, 9, 12, 15, 18) for k in (1, 9, 86_400)]
    both = [s * n + d for n in near for s in (1, -1) for d in (0, 1)]
    return sorted({n for n in [*both, least, least + 1, most - 1, most] if least <= n <= most})


def draw_real(rng: random.Random) -> float:
    return float(struct.unpack("d", rng.getrandbits(64).to_bytes(8, "little"))[0])


@contextmanager
def csv_file(kinds: Sequence[Kind], columns: Sequence[Sequence[str]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        quoted = [['"' + value.replace('"', '""') + '"' for value in column] for column in columns]
        lines = [NAMES, *zip(*quoted, strict=True)]
        path.write_bytes("".join(",".join(line) + "\n" for line in lines).encode("utf-8"))
        yield path


@cache
def csv_kinds() -> list[Kind]:
    ordinary = ["1", "2.5", "a", "2020-01-02", "12:30", "true", "", "3", "$ 4,5"]
    return [Kind("text", ordinary, [*TEXTS, "\0", "1\0", "a\r\nb"], draw_text)]


# -- Parquet: values by what is stored, valid or not -----------------------------------------------


@contextmanager
def parquet_file(kinds: Sequence[Kind], columns: Sequence[Sequence[Any]]) -> Iterator[Path]:
    made = [kind.build[0](column) for kind, column in zip(kinds, columns, strict=True)]
    # How it is written is said for the whole file, so options of one type decide for all.
    options = {name: value for kind in kinds for name, value in kind.build[1].items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        parquet.write_table(pa.table(dict(zip(NAMES, made, strict=True))), path, **options)
        yield path


def stored(kind: Any, whole: Any = None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """What makes a column of a type, of values of another that has the same bytes."""

    def build(values: Sequence[Any]) -> Any:
        return pa.array(values, whole).view(kind) if whole else pa.array(values, kind)

    return build, options


def extended(kind: Any, whole: Any) -> tuple[Any, dict[str, Any]]:
    """What makes a column of a type that Arrow holds as another."""

    def build(values: Sequence[Any]) -> Any:
        return pa.ExtensionArray.from_storage(kind, pa.array(values, whole).view(kind.storage_type))

    return build, {}


def draw_bytes(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return draw_text(rng).encode()
    return rng.randbytes(rng.randrange(20))


@cache
def parquet_kinds() -> list[Kind]:
    return [*_of_texts(), *_of_numbers(), *_of_times()]


def _of_texts() -> Iterator[Kind]:
    words = [b"1", b"a", b"2020-01-02", None, b"2.5"]
    broken = [b"\xff", b"a\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\0"]
    texts = [*(text.encode() for text in TEXTS), *broken, b"\x80" * 30]
    several = [(pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())]
    for kind, whole in (*several, (pa.string_view(), pa.binary_view())):
        for more in ({}, {"use_dictionary": False}, {"compression": "none", "version": "1.0"}):
            build = stored(kind, whole, **more)
            yield Kind(f"{kind} {more or ''}", words, [*texts, None], draw_bytes, build)

    def listed(values: Sequence[Any]) -> Any:
        return pa.array(values, pa.binary()).view(pa.string()).dictionary_encode()

    yield Kind("dictionary", words, texts, draw_bytes, (listed, {}))
    as_json = extended(pa.json_(), pa.binary())
    yield Kind("json", [b"1", b'"a"', b"{}"], texts, draw_bytes, as_json)
    ends_of = [b"\xff" * 16, b"\0" * 16, None]
    as_uuid = extended(pa.uuid(), pa.binary(16))
    yield Kind("uuid", [b"\x01" * 16], ends_of, lambda rng: rng.randbytes(16), as_uuid)
    yield Kind("binary", [b"a"], [b"\xff"], None, stored(pa.binary()))
    yield Kind("fixed binary", [b"abcd"], [b"\xff" * 4], None, stored(pa.binary(4)))
    yield Kind("list", [[1]], [None, []], None, stored(pa.list_(pa.int64())))


def _of_numbers() -> Iterator[Kind]:
    yield Kind("null", [None], [None], None, stored(pa.null()))
    yield Kind("boolean", [True, False], [None], None, stored(pa.bool_()))
    yield Kind("half", [1.0, 2.0], [65504.0, INF, NAN, None], None, stored(pa.float16()))
    singles = [3e38, INF, NAN, -0.0, 1e-45]
    yield Kind("float", [1.0, 2.5], singles, None, stored(pa.float32()))
    yield Kind("double", [1.0, 2.5], [*REALS, None], draw_real, stored(pa.float64()))
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
            few, draw = [*ends(bits, signed), None], draw_whole(bits, signed)
            yield Kind(str(kind), [1, 2, 3], few, draw, stored(kind))
    as_whole = {"store_decimal_as_integer": True}
    for precision, scale, more in (
        *((9, 2, as_whole), (18, 18, as_whole)),
        *((9, 2, {}), (38, 0, {}), (38, 38, {}), (76, 3, {})),
    ):
        wide = pa.decimal128 if precision <= 38 else pa.decimal256
        kind, draw = wide(precision, scale), draw_decimal(precision, scale)
        most = Decimal((0, (9,) * precision, -scale))
        few = [most, most.copy_negate(), None]
        usual = [Decimal(0), Decimal("0.5") if scale else Decimal(1)]
        yield Kind(f"{kind} {more or ''}", usual, few, draw, stored(kind, **more))

    def any_bits(values: Sequence[int]) -> Any:
        wide = pa.array([v.to_bytes(16, "little", signed=True) for v in values], pa.binary(16))
        return wide.view(pa.decimal128(9, 2))

    # More digits than the type says.
    build = (any_bits, as_whole)
    yield Kind("decimal of any bits", [150, 250], ends(32), draw_whole(32), build)


def draw_decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def draw(rng: random.Random) -> Decimal:
        with localcontext(prec=80):
            return Decimal(rng.randrange(10**precision) * rng.choice((1, -1))).scaleb(-scale)

    return draw


def _of_times() -> Iterator[Kind]:
    as_date = stored(pa.date32(), pa.int32())
    yield Kind("date32", [0, 18263, None], ends(32), draw_whole(32), as_date)
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        usual = [n * size for n in (0, 10**9, 1577836800, 1577923200)]
        # Seconds are written as thousandths, as far as there are such.
        bits = 52 if unit == "s" else 64
        few = ends(bits)
        for zone in (None, "UTC", "Asia/Tokyo"):
            kind = pa.timestamp(unit, zone)
            yield Kind(str(kind), usual, few, draw_whole(bits), stored(kind, pa.int64()))
        kind = pa.duration(unit)
        yield Kind(str(kind), usual, ends(64), draw_whole(64), stored(kind, pa.int64()))
    old = {"use_deprecated_int96_timestamps": True}
    for unit, bits in (("ns", 64), ("s", 46)):
        few = ends(bits)
        build = stored(pa.timestamp(unit), pa.int64(), **old)
        usual = [0, 10**9, 1577923200]
        yield Kind(f"int96 of {unit}", usual, few, draw_whole(bits), build)
    for kind, size, bits in (
        *((pa.time32("s"), 1, 21), (pa.time32("ms"), 10**3, 32)),
        *((pa.time64("us"), 10**6, 64), (pa.time64("ns"), 10**9, 64)),
    ):
        whole = pa.int64() if bits == 64 else pa.int32()
        few, usual = ends(bits), [0, 3600 * size, 45000 * size]
        yield Kind(str(kind), usual, few, draw_whole(bits), stored(kind, whole))
