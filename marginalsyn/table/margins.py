"""Public margins: counts or shares over one or two columns, as an office publishes them.

They are public by the word of the curator, so nothing is measured for them. What an office rounded
may disagree by as much as rounding explains; more is refused, with the place of it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from marginalsyn.errors import UsageError, reason_of
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.validation import like, shown

if TYPE_CHECKING:
    from marginalsyn.table.columns import Column

Places = Mapping[tuple[int, ...], str]
_FIELDS = ("columns", "counts", "shares", "rows", "relative", "source", "sha256")
_COUNTS, _SHARES = ("count", "counts", "n", "population"), ("share", "shares")
_PERCENT = re.compile(r"^(share|percent|%)(?: of ([\d ,.']+))?$")
_NUMBER = r"-?\d+(?:\.\d+)?"
_BETWEEN = re.compile(rf"^({_NUMBER})\s*(?:-|to)\s*({_NUMBER})$")
_FROM = re.compile(
    rf"^(?:>=\s*({_NUMBER})|({_NUMBER})\s*\+|({_NUMBER}) (?:and|or) (?:over|more|older))$"
)
_BELOW = re.compile(rf"^(<=?|under|below|up to)\s*({_NUMBER})$")
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
    places: Places

    def counts(self, total: float) -> np.ndarray:
        """The margin of so many rows."""
        return self.values * (total / float(self.values.sum()))

    def column(self, name: str) -> np.ndarray:
        """The listed values of one of its columns, summed over the other."""
        others = tuple(axis for axis, other in enumerate(self.columns) if other != name)
        return np.asarray(self.values.sum(axis=others))

    @property
    def facts(self) -> dict[str, Any]:
        """What a statement says of it."""
        rows = {} if self.rows is None else {"rows": round(self.rows, 6)}
        return {
            "columns": list(self.columns),
            "source": self.source,
            "sha256": self.digest,
            **rows,
        }

    @property
    def name(self) -> str:
        """The margin in a few words."""
        about = " x ".join(self.columns)
        return f"{about} ({self.source})" if self.source else about


def read_margins(path: str | Path) -> list[dict[str, Any]]:
    """The entries of a file of margins, as ``margins`` of a schema takes them.

    A CSV file has one or two columns of labels, named as the schema's columns, and one of numbers
    named ``count``, ``share`` or ``percent``; ``share of 4300`` states the number of rows. A JSON
    file holds one entry or a list of them.

    Raises:
        UsageError: the file cannot be read, or a number in it.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"margins ({path}) must be a readable CSV or JSON file: {reason}"
        ) from None
    known = {"source": path.name, "sha256": hashlib.sha256(raw).hexdigest()}
    if path.suffix.lower() != ".json":
        return [{**_of_csv(text, path.name), **known}]
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"margins ({path.name}, line {error.lineno}) must be JSON: {error.msg}"
        ) from None
    entries = found if isinstance(found, list) else [found]
    if not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"margins ({path.name}) must hold an object, or a list of objects")
    return [{**known, **entry, "sha256": known["sha256"]} for entry in entries]


def _of_csv(text: str, name: str) -> dict[str, Any]:
    """One entry out of a CSV file."""
    lines = list(csv.reader(io.StringIO(text)))
    while lines and not any(field.strip() for field in lines[-1]):
        lines.pop()
    header = [field.strip() for field in lines[0]] if lines else []
    if not 2 <= len(header) <= 3:
        raise UsageError(
            f"margins ({name}, line 1: {shown(','.join(header))}) must name one or two columns, "
            "then count, share or percent"
        )
    kind, percent = header[-1].lower(), _PERCENT.match(header[-1].lower())
    if kind not in _COUNTS and percent is None:
        raise UsageError(
            f"margins ({name}, line 1: {header[-1]!r}) must end with a column named count, share "
            "or percent ('percent of 4300' where the number of rows is public)"
        )
    cells = []
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise UsageError(
                f"margins ({name}, line {number}: {shown(','.join(line))}) must have "
                f"{len(header)} fields"
            )
        value = _number(line[-1], f"{name}, line {number}")
        if percent and percent[1] != "share":
            value = float(Decimal(repr(value)) / 100)
        cells.append([*(field.strip() for field in line[:-1]), value])
    entry: dict[str, Any] = {
        "columns": header[:-1],
        "counts" if percent is None else "shares": cells,
    }
    if percent and percent[2]:
        entry["rows"] = _number(percent[2], f"{name}, line 1")
    return entry


def _number(text: str, place: str) -> float:
    """A number as offices print it, with or without marks between thousands."""
    plain = re.sub(r"(?<=\d)[, '](?=\d{3})", "", text.strip().rstrip("%").strip())
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"margins ({place}: {text.strip()!r}) must be a number of 0 or more")
    return int(value) if value.is_integer() else value


def margin_of(entry: Any, columns: Mapping[str, Column], place: str) -> PublicMargin:
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
    if not isinstance(entry, Mapping):
        raise ValueError(f"{place} ({shown(entry)}) must be an object with columns and counts")
    strange = [name for name in entry if name not in _FIELDS]
    if strange:
        raise ValueError(f"{place} ({strange[0]!r}) must be one of: {', '.join(_FIELDS)}")
    given = entry.get("columns")
    names = (given,) if isinstance(given, str) else tuple(given or ())
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise ValueError(f"{place}: columns ({shown(given)}) must name one or two columns")
    for name in names:
        if name not in columns:
            raise ValueError(
                f"{place}: columns ({name!r}) must be columns of the schema"
                f"{like(str(name), list(columns))}"
            )
        column = columns[name]
        if column.levels == 0 or (_numeric(column) and column.shapeless and column.bins == "auto"):
            raise ValueError(
                f"{place}: columns ({name!r}) must have public categories or bins: those of this "
                "column are still to be bought"
            )
    kinds = [kind for kind in ("counts", "shares") if entry.get(kind)]
    if len(kinds) != 1:
        raise ValueError(f"{place}: one of counts and shares must be given, with a cell or more")
    source, listed = str(entry.get("source") or ""), entry[kinds[0]]
    if isinstance(listed, Mapping):
        listed = [[label, value] for label, value in listed.items()]
    values = np.zeros([columns[name].size for name in names])
    numbers: list[float] = []
    places: dict[tuple[int, ...], str] = {}
    for number, cell in enumerate(listed):
        line = source.lower().endswith(".csv")
        where = f"{source}, line {number + 2}" if line else f"{source or place}, cell {number + 1}"
        if not isinstance(cell, list | tuple) or len(cell) != len(names) + 1:
            raise ValueError(f"margins ({where}: {shown(cell)}) must be the labels and a number")
        *labels, value = cell
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
            raise ValueError(f"margins ({where}: {shown(value)}) must be a number of 0 or more")
        codes = [code_of_label(columns[n], v) for n, v in zip(names, labels, strict=True)]
        if None in codes and any(str(label).strip().lower() in _TOTALS for label in labels):
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
            raise ValueError(
                f"margins ({where}: {shown(labels)}) must be listed once: see {places[at]}"
            )
        places[at], values[at] = where, value
        numbers.append(value)
    rows, half = entry.get("rows"), rounding(numbers) / 2
    slack, whole = half * len(numbers) + 1e-9, float(values.sum())
    if rows is not None and (not isinstance(rows, int | float) or not 0 < rows < 1e15):
        raise ValueError(f"{place}: rows ({shown(rows)}) must be the public number of rows")
    if whole <= 0:
        raise ValueError(f"{place} must count a row or more")
    if kinds[0] == "counts":
        if rows is not None and abs(whole - rows) > slack:
            raise ValueError(
                f"{place}: rows ({rows:g}) must be the sum of the counts, {whole:g}, but for "
                "rounding"
            )
        rows = whole if rows is None else rows
        values *= rows / whole
    else:
        if abs(whole - 1) > slack:
            raise ValueError(
                f"{place}: shares must sum to 1 but for rounding, not to {whole:g} (a file of "
                "percentages has a column named percent)"
            )
        scale = 1.0 if rows is None else float(rows)
        values, half = values * (scale / whole), half * scale
    if entry.get("relative"):
        rows, values, half = None, values / values.sum(), half / float(values.sum())
    text = json.dumps([names, kinds[0], entry[kinds[0]], entry.get("rows")], sort_keys=True)
    return PublicMargin(
        columns=names,
        values=values,
        half=half,
        rows=None if rows is None else float(rows),
        source=source,
        digest=str(entry.get("sha256") or hashlib.sha256(text.encode()).hexdigest()),
        places=places,
    )


def code_of_label(column: Column, label: Any) -> int | None:
    """The code that a label of a margin means: a value, a bin's label, or a range that is a bin.

    Example:
        >>> from marginalsyn.table.numeric import IntegerColumn
        >>> age = IntegerColumn(name="age", lower=0, upper=99, bins=(18, 65))
        >>> [code_of_label(age, text) for text in ("0-17", "65+", "[18, 65)", "10-17")]
        [0, 2, 1, None]
    """
    labels = column.labels()
    text = "missing" if label is None else str(label).strip()
    if text in labels:
        return labels.index(text)
    if text == "" and column.missing_code is not None:
        return column.missing_code
    if _numeric(column):
        return _bin_of(column, text.lower().replace("\N{EN DASH}", "-"))
    try:
        return column.code_of(label)
    except ValueError:
        folded = [one.lower() for one in labels]
        return folded.index(text.lower()) if folded.count(text.lower()) == 1 else None


def _numeric(column: Column) -> TypeGuard[IntegerColumn | ContinuousColumn]:
    return isinstance(column, IntegerColumn | ContinuousColumn)


def _bin_of(column: IntegerColumn | ContinuousColumn, text: str) -> int | None:
    """The bin that a range is, by its ends; values out of bounds lie in the bins at the ends."""
    edges = column.edges
    low, high = -math.inf, math.inf
    if between := _BETWEEN.match(text):
        low, high = float(between[1]), float(between[2])
    elif reach := _FROM.match(text):
        low = float(next(part for part in reach.groups() if part))
    elif below := _BELOW.match(text):
        high = float(below[2]) - (1 if column.whole and below[1] in ("<", "under", "below") else 0)
    elif re.match(rf"^{_NUMBER}$", text):
        low = high = float(text)
    else:
        return None
    firsts, lasts = edges[:-1].copy(), edges[1:] - (1 if column.whole else 0)
    first = np.isclose(firsts, low) | ((np.arange(len(firsts)) == 0) & (low <= firsts[0]))
    last = np.isclose(lasts, high) | (
        (np.arange(len(lasts)) == len(lasts) - 1) & (high >= lasts[-1])
    )
    found = np.flatnonzero(first & last)
    return int(found[0]) if found.size else None


def rounding(numbers: Sequence[float]) -> float:
    """What numbers may have been rounded to: the largest power of ten, or five of it.

    It divides all of them, and is no more than a twentieth of the largest.

    Example:
        >>> rounding([120, 45, 0]), rounding([0.25, 0.125]), rounding([500, 500])
        (5.0, 0.001, 10.0)
    """
    most = max(numbers, default=0) / 20
    if not all(float(number).is_integer() for number in numbers):
        digits = [-int(Decimal(repr(float(n))).normalize().as_tuple().exponent) for n in numbers]
        while (step := 10.0 ** -min(max(digits), 12)) > most > 0:
            digits.append(max(digits) + 1)
        return step
    unit = math.gcd(*(int(number) for number in numbers))
    steps = [1, *(step * 10**power for power in range(15) for step in (5, 10))]
    return float(max(step for step in steps if step == 1 or (unit % step == 0 and step <= most)))


def check_margins(
    margins: Sequence[PublicMargin], zeros: Iterable[tuple[tuple[str, ...], np.ndarray]]
) -> None:
    """Refuse margins that contradict each other beyond rounding, or count impossible rows.

    Raises:
        ValueError: with the place of the contradiction and both values.
    """
    for columns, mask in zeros:
        for margin in margins:
            if set(columns) <= set(margin.columns):
                _check_possible(margin, columns, mask)
    for one, other in itertools.combinations(margins, 2):
        shared = [name for name in one.columns if name in other.columns]
        scale = 1.0
        if one.rows is None or other.rows is None:
            scale = 1.0 / (one.rows or 1.0)
            first, second = (
                _summed(one, shared, scale),
                _summed(other, shared, 1 / (other.rows or 1)),
            )
        else:
            first, second = _summed(one, shared, 1.0), _summed(other, shared, 1.0)
        gap = np.abs(first[0] - second[0]) - first[1] - second[1]
        if gap.max() > 1e-9:
            at = np.unravel_index(int(gap.argmax()), gap.shape)
            where = _place(one, shared, at)
            raise ValueError(
                f"margins ({where}: {first[0][at]:g}) must agree with {other.name} "
                f"({_place(other, shared, at)}: {second[0][at]:g}) but for rounding"
                + (f" on {' x '.join(shared)}" if shared else " on the number of rows")
            )


def _summed(
    margin: PublicMargin, shared: Sequence[str], scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """A margin over fewer columns, and the most that rounding moves each sum."""
    gone = tuple(axis for axis, name in enumerate(margin.columns) if name not in shared)
    listed = np.zeros(margin.values.shape)
    for at in margin.places:
        listed[at] = margin.half
    # What was rounded was also scaled to its sum.
    off = (
        1e-9
        + listed.sum(axis=gone)
        + listed.sum() * margin.values.sum(axis=gone) / margin.values.sum()
    )
    values = margin.values.sum(axis=gone)
    kept = [name for name in margin.columns if name in shared]
    order = [kept.index(name) for name in shared]
    return values.transpose(order) * scale, np.asarray(off).transpose(order) * scale


def _place(margin: PublicMargin, shared: Sequence[str], at: Sequence[Any]) -> str:
    """Where the first listed cell of a sum stands."""
    wanted = dict(zip(shared, at, strict=True))
    for codes, place in margin.places.items():
        own = dict(zip(margin.columns, codes, strict=True))
        if all(own[name] == code for name, code in wanted.items()):
            return place
    return margin.source or " x ".join(margin.columns)


def _check_possible(margin: PublicMargin, columns: Sequence[str], mask: np.ndarray) -> None:
    """Refuse counts of combinations that the schema calls impossible."""
    for codes, place in margin.places.items():
        own = dict(zip(margin.columns, codes, strict=True))
        if mask[tuple(own[name] for name in columns)] and margin.values[codes] > margin.half:
            raise ValueError(
                f"margins ({place}: {margin.values[codes]:g}) must not count what the schema calls "
                f"impossible: {' and '.join(columns)} cannot be so"
            )
