"""Public margins: counts or shares over one or two columns, as an office publishes them.

They are public by the word of the curator, so nothing is measured for them. What an office rounded
may disagree by as much as rounding explains; more is refused, with the place of it.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError, reason_of
from marginalsyn.table.columns import Column
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.validation import like, shown

Zero = tuple[tuple[str, ...], np.ndarray]

_FIELDS: dict[str, Any] = {
    "columns": str | list | tuple,
    "counts": Mapping | list | tuple,
    "shares": Mapping | list | tuple,
    "rows": int | float,
    "relative": bool,
    "source": str,
}
_HEAD = re.compile(r"^(counts?|shares?|percent|%)(?: of ([\d ,.']+))?$")
_NUMBER = r"(-?\d+(?:\.\d+)?)"
# Ranges as offices write them: from, to; from; to, itself or not.
_RANGE = re.compile(
    rf"^(?:{_NUMBER} ?(?:-|to) ?{_NUMBER}|(?:>= ?)?{_NUMBER} ?(?:\+|(?:and|or) \w+)?|"
    rf"(<=|up to|<|under|below) ?{_NUMBER})$"
)
# Cells of a loop of margins that is checked as a whole.
_MOST_CELLS = 20_000
# A line of sums, which an office prints with its cells.
_TOTALS = ("total", "all", "sum")


@dataclass(frozen=True, kw_only=True)
class PublicMargin:
    """Counts of all codes of one or two columns, or shares where no number of rows is public.

    Attributes:
        columns: in the order of the axes of ``values``.
        values: what is listed; what is not listed has none.
        half: the most that rounding moves a listed value.
        rows: the public number of rows, if the margin states one.
        source: where it is from, for people.
        digest: a hash of its contents.
        places: where each listed cell stands.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    half: float
    rows: float | None
    source: str
    digest: str
    places: Mapping[tuple[int, ...], str]

    def counts(self, total: float) -> np.ndarray:
        """The margin of so many rows."""
        return self.values * (total / float(self.values.sum()))

    def over(self, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The margin over some of its columns, in its own order, and what rounding moves of it."""
        gone = tuple(axis for axis, name in enumerate(self.columns) if name not in columns)
        off = np.zeros(self.values.shape)
        for at in self.places:
            off[at] = self.half
        # What was rounded was also scaled to its sum.
        off += self.counts(float(off.sum()))
        return np.asarray(self.values.sum(axis=gone)), np.asarray(off.sum(axis=gone))

    @property
    def facts(self) -> dict[str, Any]:
        """What a statement says of it."""
        found = {"columns": list(self.columns), "source": self.source, "sha256": self.digest}
        return found if self.rows is None else {**found, "rows": round(self.rows, 6)}

    @property
    def name(self) -> str:
        """The margin in a few words."""
        about = " x ".join(self.columns)
        return f"{about} ({self.source})" if self.source else about


def read_margin(path: str | Path) -> dict[str, Any]:
    """The entry of a CSV file, as ``margins`` of a schema takes it.

    It has one or two columns of labels, named as the schema's columns, and one of numbers named
    ``count``, ``share`` or ``percent``; ``share of 4300`` states the number of rows.

    Raises:
        UsageError: the file cannot be read, or a number in it.
    """
    path = Path(path)
    try:
        lines = list(csv.reader(path.read_text("utf-8-sig").rstrip().splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"margins ({path}) must be a readable CSV file: {reason}") from None
    header = [field.strip() for field in lines[0]] if lines else []
    head = _HEAD.match(header[-1].lower()) if 2 <= len(header) <= 3 else None
    if head is None:
        raise UsageError(
            f"margins ({path.name}, line 1: {','.join(header)!r}) must name one or two columns, "
            "then count, share or percent ('percent of 4300' where the number of rows is public)"
        )
    cells, hundred = [], head[1] in ("percent", "%")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise UsageError(
                f"margins ({path.name}, line {number}: {','.join(line)!r}) must have "
                f"{len(header)} fields"
            )
        value = _number(line[-1], f"{path.name}, line {number}")
        value = float(Decimal(repr(value)) / 100) if hundred else value
        cells.append([*(field.strip() for field in line[:-1]), value])
    kind = "counts" if head[1].startswith("count") else "shares"
    stated = {"rows": _number(head[2], f"{path.name}, line 1")} if head[2] else {}
    return {"columns": header[:-1], kind: cells, **stated, "source": path.name}


def _number(text: str, place: str) -> float:
    """A number as offices print it, with or without marks between thousands."""
    try:
        value = float(re.sub(r"(?<=\d)[, '](?=\d{3})", "", text.strip().rstrip("% ")))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"margins ({place}: {text.strip()!r}) must be a number of 0 or more")
    return int(value) if value.is_integer() else value


def margin_of(entry: Mapping[str, Any], columns: Mapping[str, Column], place: str) -> PublicMargin:
    """Read one entry of a schema's ``margins``.

    Args:
        entry: ``columns`` (one or two names), and ``counts`` or ``shares``: a list with the labels
            and the value of each cell, or an object by label; ``rows`` where it is public. With
            ``relative``, counts are those of a population that the rows are a part of.
        columns: of the schema, by name.
        place: where the entry stands, for messages.

    Raises:
        ValueError: it does not fit the schema, or contradicts itself.
    """
    given, rows, source = entry.get("columns"), entry.get("rows"), entry.get("source") or ""
    fits = all(v is None or isinstance(v, _FIELDS.get(field, ())) for field, v in entry.items())
    fits = fits and (rows is None or 0 < rows < 1e15)
    names = (given,) if isinstance(given, str) or not fits else tuple(given or ())
    kinds = [kind for kind in ("counts", "shares") if entry.get(kind)]
    if not fits or not 1 <= len(names) <= 2 or len(kinds) != 1:
        raise ValueError(
            f"{place} ({shown(dict(entry))}) must have columns, one or two names, and counts or "
            "shares; it may have rows (a number above 0), relative (true or false), source"
        )
    for name in names:
        if name not in [*columns] or names.count(name) > 1:
            raise ValueError(
                f"{place}: columns ({name!r}) must be columns of the schema, each named once"
                f"{like(str(name), list(columns))}"
            )
        column = columns[name]
        if column.levels == 0 or (
            isinstance(column, NumberColumn) and column.shapeless and column.bins == "auto"
        ):
            raise ValueError(
                f"{place}: columns ({name!r}) must have public categories or bins: those of this "
                "column are still to be bought"
            )
    listed = entry[kinds[0]]
    cells = [[*pair] for pair in listed.items()] if isinstance(listed, Mapping) else listed
    values = np.zeros([columns[name].size for name in names])
    numbers = []
    places: dict[tuple[int, ...], str] = {}
    for number, cell in enumerate(cells):
        *labels, value = cell if cell and isinstance(cell, list | tuple) else (cell,)
        line = f"line {number + 2}" if source.lower().endswith(".csv") else f"cell {number + 1}"
        where = f"{source or place}, {line}"
        if len(labels) != len(names) or type(value) not in (int, float) or not 0 <= value < 1e15:
            raise ValueError(f"margins ({where}: {[*labels, value]!r}) must be labels and a number")
        codes = [code_of_label(columns[n], v) for n, v in zip(names, labels, strict=True)]
        if None in codes and any(str(label).lower() in _TOTALS for label in labels):
            continue
        for name, label, code in zip(names, labels, codes, strict=True):
            if code is None:
                raise ValueError(
                    f"margins ({where}: {label!r}) must be one of the codes of {name}: "
                    f"{shown(columns[name].labels(), 200)}. Give the column these categories or "
                    "bins, or the margin the schema's"
                )
        at = tuple(code for code in codes if code is not None)
        if at in places:
            raise ValueError(f"margins ({where}: {labels}) must be listed once: see {places[at]}")
        places[at], values[at] = where, value
        numbers.append(value)
    half, whole = rounding(numbers) / 2, float(values.sum())
    right = 1.0 if kinds[0] == "shares" else float(rows or whole)
    if whole <= 0 or abs(whole - right) > half * len(numbers) + 1e-9:
        raise ValueError(
            f"{place}: {kinds[0]} must sum to {right:g} but for rounding, not to {whole:g} (a file "
            "of percentages has a column named percent)"
        )
    total = 1.0 if entry.get("relative") else float(rows or right)
    public = rows is not None or kinds[0] == "counts"
    text = json.dumps([names, kinds[0], listed, rows], sort_keys=True)
    return PublicMargin(
        columns=names,
        values=values * (total / whole),
        half=half * total / right,
        rows=total if public and not entry.get("relative") else None,
        source=source,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        places=places,
    )


def code_of_label(column: Column, label: Any) -> int | None:
    """The code that a label of a margin means: a value, a bin's label, or a range that is a bin.

    Example:
        >>> from marginalsyn.table.numeric import (IntegerColumn, NumberColumn)
        >>> age = IntegerColumn(name="age", lower=0, upper=99, bins=(18, 65))
        >>> [code_of_label(age, text) for text in ("0-17", "65+", "[18, 65)", "10-17")]
        [0, 2, 1, None]
    """
    labels, text = column.labels(), "missing" if label is None else str(label).strip()
    if text in labels:
        return labels.index(text)
    if text == "":
        return column.missing_code
    if isinstance(column, NumberColumn):
        return _bin_of(column, text.lower().replace("\N{EN DASH}", "-"))
    try:
        return column.code_of(label)
    except ValueError:
        folded = [one.lower() for one in labels]
        return folded.index(text.lower()) if folded.count(text.lower()) == 1 else None


def _bin_of(column: NumberColumn, text: str) -> int | None:
    """The bin that a range is, by its ends; values out of bounds lie in the bins at the ends."""
    found = _RANGE.match(text)
    if found is None:
        return None
    start, end, only, sign, most = found.groups()
    low = float(start or only or -math.inf)
    high = float(end or most or (only if text == only else math.inf))
    step = 1 if column.whole else 0
    high -= step if sign and sign not in ("<=", "up to") else 0
    firsts, lasts = column.bin_extremes()
    first, last = np.isclose(firsts, low), np.isclose(lasts, high)
    first[0] |= low <= firsts[0]
    last[-1] |= high >= lasts[-1]
    both = np.flatnonzero(first & last)
    return int(both[0]) if both.size else None


def rounding(numbers: Sequence[float]) -> float:
    """What numbers may have been rounded to: the largest power of ten, or five of it.

    It divides all of them, and is no more than a twentieth of the largest.

    Example:
        >>> rounding([120, 45, 0]), rounding([0.25, 0.125]), rounding([500, 500])
        (5.0, 0.001, 10.0)
    """
    most = max(numbers, default=0) / 20
    if all(float(number).is_integer() for number in numbers):
        unit = math.gcd(*(int(number) for number in numbers))
        steps = [1, *(step * 10**power for power in range(15) for step in (5, 10))]
        return float(max(s for s in steps if s == 1 or (unit % s == 0 and s <= most)))
    digits = max(-int(Decimal(repr(float(n))).normalize().as_tuple().exponent) for n in numbers)
    return float(10.0 ** -min(max(digits, math.ceil(-math.log10(most))), 12))


def check_margins(margins: Sequence[PublicMargin], zeros: Iterable[Zero]) -> None:
    """Refuse margins that contradict each other beyond rounding, or count impossible rows.

    Raises:
        ValueError: with the place of the contradiction and both values.
    """
    for (columns, mask), margin in itertools.product(zeros, margins):
        for codes, place in margin.places.items() if {*columns} <= {*margin.columns} else ():
            own = dict(zip(margin.columns, codes, strict=True))
            if mask[tuple(own[name] for name in columns)] and margin.values[codes] > margin.half:
                raise ValueError(
                    f"margins ({place}: {margin.values[codes]:g}) must not count what the schema "
                    f"calls impossible: {' and '.join(columns)} cannot be so"
                )
    for one, other in itertools.combinations(margins, 2):
        shared = [name for name in one.columns if name in other.columns]
        relative = one.rows is None or other.rows is None
        (first, off), (second, more) = (
            [part / (margin.rows or 1.0) if relative else part for part in margin.over(shared)]
            for margin in (one, other)
        )
        if len(shared) == 2 and one.columns != other.columns:
            second, more = second.T, more.T
        gap = np.abs(first - second) - off - more
        if gap.max() > 1e-9:
            at = np.unravel_index(int(gap.argmax()), gap.shape)
            wanted = dict(zip(shared, at, strict=True))
            raise ValueError(
                f"margins ({_place(one, wanted)}: {first[at]:g}) must agree with {other.name} "
                f"({_place(other, wanted)}: {second[at]:g}) but for rounding, on "
                f"{' x '.join(shared) or 'the number of rows'}"
            )


def contradiction(margins: Sequence[PublicMargin], zeros: Iterable[Zero]) -> list[str]:
    """The names of margins in a loop that no table has together, within rounding; else none.

    Each two of them may agree. A linear program decides, for loops of few cells.
    """
    pairs = {frozenset(m.columns): m for m in margins if len(m.columns) == 2}
    while True:
        ends = Counter(name for pair in pairs for name in pair)
        loop = {pair: m for pair, m in pairs.items() if all(ends[name] > 1 for name in pair)}
        if len(loop) == len(pairs):
            break
        pairs = loop
    sizes = {n: s for m in loop.values() for n, s in zip(m.columns, m.values.shape, strict=True)}
    if not loop or math.prod(sizes.values()) > _MOST_CELLS:
        return []
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, vstack

    codes, places = np.indices([*sizes.values()]).reshape(len(sizes), -1), list(sizes)
    for columns, mask in zeros:
        if {*columns} <= {*sizes}:
            codes = codes[:, ~mask[tuple(codes[places.index(name)] for name in columns)]]
    cells, rows, limits = codes.shape[1], [], []
    for margin in loop.values():
        own, shape = codes[[places.index(name) for name in margin.columns]], margin.values.shape
        place = (np.ravel_multi_index(tuple(own), shape), np.arange(cells))
        sums = csr_matrix((np.ones(cells), place), (margin.values.size, cells))
        values, off = (part.ravel() / margin.values.sum() for part in margin.over(margin.columns))
        rows += [sums, -sums]
        limits += [values + off, off - values]
    found = linprog(np.zeros(cells), vstack(rows), np.concatenate(limits) + 1e-9)
    return [margin.name for margin in loop.values()] if found.status == 2 else []


def _place(margin: PublicMargin, wanted: Mapping[str, Any]) -> str:
    """Where the first listed cell of a sum stands."""
    for codes, place in margin.places.items():
        own = dict(zip(margin.columns, codes, strict=True))
        if all(own[name] == code for name, code in wanted.items()):
            return place
    return margin.name
