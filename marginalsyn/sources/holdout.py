"""Which rows are held out of a private table: by each row's content and number among equals.

A row is held out by a hash of a salt, its own content and its number among the rows of the same
content, so no other row matters and no order of rows does: equal rows may be exchanged. (Drawing a
fixed number of rows, or going by position, would shift many rows from part to part where one is
added, or where an engine or a sorted view puts a replaced row elsewhere. By its content alone, all
equal rows would go the same way.) Of n equal rows those with the numbers i <= n whose hash
says so are held out, so one row more changes that by one row or by none, and no other content.

* Under add-remove, one row more or less is one row more or less of one part.
* Under replace, a row and what replaces it must fall into the same part: which the statement says
  (``Statement.holdout``). Tables whose parts differ in size are then no neighbours, so the number
  of rows that visits see is public, as that relation has it. A ledger therefore has one hold-out
  under replace (:mod:`marginalsyn.records.totals`).

Rows are numbered among those that have the same codes: a group must not be larger, or one row
more would change which of several unlike rows are held out. The hash takes a content's portable
text, the same in every engine: "1" and "1.0" have the same hashes, and numbers of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.datatypes as dt

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.encoding import fields, number, plain, step
from marginalsyn.table.engine import call

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.release.statement import Statement

# Hexadecimal digits of the hash that are compared: shares are met to one part in 2^32.
DIGITS = 8
# Whole numbers as every engine writes them, and what a date has where a moment is written.
WHOLE = "^(0|-?[1-9][0-9]{0,18})$"
MIDNIGHT = " 00:00:00"
MARK = "\x1f"
# Beyond it all doubles have one text: those that are read for infinities are.
LARGEST = 1e249
TRUE, FALSE = ("true", "TRUE"), ("false", "FALSE")


@dataclass(frozen=True)
class Holdout:
    """The rows that no visit sees: a share, chosen by a salt, and the neighbouring relation.

    The share is an expected one; ``salt`` is any text, and another one holds out other rows.
    """

    share: float
    salt: str
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise UsageError(f"holdout ({self.share}) must be at least 0 and below 1, such as 0.2")

    def part(
        self, table: ibis.Table, engine: str, *, held_out: bool, by: ir.Value | None = None
    ) -> ibis.Table:
        """Return the rows that are held out, or the others; every row where there is no share.

        Rows that agree in the text ``by`` fall into the same part; by default each row for itself.
        ``engine`` runs the query, as ibis names it.
        """
        if not self.share:
            return table
        bound = f"{round(self.share * 16**DIGITS):0{DIGITS}x}"

        def chosen(rows: ibis.Table, key: ir.Value) -> ibis.Table:
            digest = hashed(key, engine).substr(0, DIGITS)
            return rows.filter(digest < bound if held_out else digest >= bound)

        if by is not None:
            # As earlier versions chose persons.
            own = self.salt.removeprefix(defaults.SPLIT_RULE)
            return chosen(table, ibis.literal(own + MARK) + ibis.coalesce(by, ""))
        own = _free_prefix(table.columns)
        known, alike, place = (own + name for name in ("known", "alike", "place"))
        found = _digested(table, own, self.salt, engine)
        order = found[place] if engine == "duckdb" else found[alike]
        number = ibis.row_number().over(ibis.window(group_by=found[alike], order_by=order)) + 1
        found = found.mutate(**{own + "number": number.cast("string")}).view()
        kept = chosen(found, found[known] + ibis.literal(MARK) + found[own + "number"])
        # Our own engine keeps the order of rows, which a window does not.
        kept = kept.order_by(place) if engine == "duckdb" else kept
        return kept.select(*table.columns).view()

    def split(self, *fields: str) -> str:
        """A name of the hold-out, for ledgers; empty where no row is held out.

        How a text is read and what of a row is hashed, ``fields``, decides as well.
        """
        if not self.share:
            return ""
        text = json.dumps([self.salt, *fields])
        return f"{self.share!r} {hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def random(self) -> bool:
        """Whether the salt is as a workspace draws it, 128 random bits: no hash leads to it.

        Of any other salt no hash may be published: whoever guesses it would know who is held out.
        """
        return re.fullmatch("[0-9a-f]{32}", self.salt.removeprefix(defaults.SPLIT_RULE)) is not None


def _digested(table: ibis.Table, own: str, salt: str, engine: str) -> ibis.Table:
    """Rows with digests: ``known`` of salt and portable content, ``alike`` of all codes can tell.

    In our own engine also their ``place``. Of 128 bits each: that two contents share one is as good
    as impossible.

    Every engine and file gives a value one text: 1, 1.0, "1" and "1.00" have the same, and so have
    a truth value and its name, and a moment at midnight and its date. What the text leaves out, the
    rest, distinguishes whatever has codes of its own.
    """
    # Sorted, so that the order of the columns in the source does not matter. Names of our own are
    # short, since PostgreSQL cuts long ones off.
    values = [_values(table[name]) for name in sorted(table.columns)]
    keys = [[f"{own}{at} {n}" for n in range(len(value))] for at, value in enumerate(values)]
    listed = dict(zip(chain(*keys), chain(*values), strict=True))
    texts = [key for key, value in listed.items() if value.type().is_string()]
    numbers = [*texts, *(key for key, value in listed.items() if value.type().is_floating())]
    place = {own + "place": ibis.row_number()} if engine == "duckdb" else {}
    found = step(table.select(*table.columns, **listed, **place))

    def get(name: str, keys: list[str]) -> dict[str, ir.Value]:
        if own + name in found.columns:
            return {key: found[own + name][n] for n, key in enumerate(keys)}
        return {key: found[key + name] for key in keys}

    def add(given: dict[str, ir.Value], **made: Any) -> ibis.Table:
        """Rows with what is made of values: in our own engine of all in one list, soon written."""
        new = {}
        for name, make in made.items() if given else ():
            if engine == "duckdb":
                new[own + name] = ibis.array([*given.values()]).map(make)
            else:
                new |= {key + name: make(value) for key, value in given.items()}
        return step(found.select(*found.columns, **new)) if new else found

    # In steps, so that what is mentioned several times is computed and written once.
    found = add(get("", texts), number=_number, word=_word, rest=_rest)
    found = add(get("", numbers) | get("number", texts), scaled=_scaled, start=_start)
    found = add(get("scaled", numbers), digits=_digits)
    digits, starts = get("digits", numbers), get("start", numbers)
    written = {key: start + digits[key] for key, start in starts.items()}
    words, rests = get("word", texts), get("rest", texts)

    def spelt(key: str) -> tuple[ir.Value, ir.Value]:
        value = found[key]
        if key in words:
            rest = ibis.ifelse(written[key].notnull(), value, rests[key])
            return ibis.coalesce(written[key], words[key]), rest
        if key in written:
            return written[key], _left(value)
        truth = value.type().is_boolean()
        text = ibis.cases((value, "True"), (~value, "False")) if truth else value.cast("string")
        return text, ibis.cases((value.notnull(), ""))

    sides: tuple[list[ir.Value], list[ir.Value]] = [], []
    for column in keys:
        pairs = [spelt(key) for key in column]
        sides[0].append(ibis.coalesce(*[text for text, _ in pairs], ""))
        # Of a column of mixed objects also which kind it is.
        kinds = [str(n) + rest if len(pairs) > 1 else rest for n, (_, rest) in enumerate(pairs)]
        sides[1].append(ibis.coalesce(*kinds, ""))
    text, rest = (ibis.literal(MARK).join(side) for side in sides)
    found = step(found.select(*table.columns, *place, **{own + "text": text, own + "rest": rest}))
    digest = hashed(ibis.literal(salt + MARK) + found[own + "text"], engine).substr(0, 32)
    found = step(found.mutate(**{own + "known": digest}).drop(own + "text"))
    digest = hashed(found[own + "known"] + found[own + "rest"], engine).substr(0, 32)
    return step(found.mutate(**{own + "alike": digest}).drop(own + "rest"))


def _values(source: ir.Value) -> list[ir.Value]:
    """The fields of a value that codes can tell, decimal numbers as texts."""
    if source.type().is_decimal():
        return [source.cast("string")]
    return fields(plain(source))


def _number(value: ir.Value) -> ir.Value:
    """The double in a text, null where it is none or a plain whole number."""
    # Most texts begin with no sign or digit: no need to seek a number in them.
    likely = value.ascii_str().between(43, 57) & ~value.re_search(WHOLE)
    return ibis.ifelse(likely, number(value), ibis.null("float64"))


def _word(value: ir.Value) -> ir.Value:
    """The text of a text that is no number."""
    day = value.left(value.length() - len(MIDNIGHT))
    true, false = (value.isin(TRUE), "True"), (value.isin(FALSE), "False")
    return ibis.cases(true, false, (value.endswith(MIDNIGHT), day), else_=value)


def _rest(value: ir.Value) -> ir.Value:
    """What it leaves out. By its length no text passes for two; whole numbers leave out nothing."""
    size = value.length().cast("string")
    return ibis.cases(
        (value.isin([*TRUE, *FALSE]), value),
        (value.endswith(MIDNIGHT), ibis.literal("midnight") + size),
        (value.contains(MARK), size),
        (value == "", "empty"),
        (value.notnull(), ""),
    )


# A double in three whole numbers, since engines write fractions in their own ways. All products and
# differences are exact: factors are powers of two. 53 bits are enough from 2^-150 to 2^162.


def _scaled(value: ir.Value) -> ir.Value:
    """The size of a double, in the middle of the range; 0 beyond it, null beyond all."""
    size = value.abs()
    return ibis.cases(
        (size > LARGEST, ibis.null("float64")),
        (size >= 2.0**162, 0.0),
        (size >= 2.0**62, size * 2.0**-100),
        (size < 2.0**-50, size * 2.0**100),
        else_=size,
    )


def _digits(scaled: ir.Value) -> ir.Value:
    whole, point = scaled.floor(), ibis.literal(".")
    fraction = (scaled - whole) * 2.0**53
    high = fraction.floor()
    low = ((fraction - high) * 2.0**53).floor()
    written = [part.cast("int64").cast("string") for part in (whole, high, low)]
    return ibis.cases(
        (low > 0, point.join(written)),
        (high > 0, point.join(written[:2])),
        (scaled.notnull(), written[0]),
        else_="",
    )


def _start(value: ir.Value) -> ir.Value:
    """The sign and range of a double."""
    size, sign = value.abs(), ibis.ifelse(value < 0, "-", "")
    return ibis.cases(
        (size > LARGEST, sign + "inf"),
        (size >= 2.0**62, sign + "big"),
        ((size < 2.0**-50) & (size > 0), sign + "small"),
        (value.notnull(), sign),
    )


def _left(value: ir.Value) -> ir.Value:
    """What the text of a double leaves out: sizes out of range, and the sign of a zero."""
    size, own = value.abs(), value.cast("string")
    return ibis.cases(
        (size >= 2.0**162, own),
        (size >= 2.0**-150, ""),
        ((size > 0) | (own.left(1) == "-"), own),
        (value.notnull(), ""),
    )


def _free_prefix(columns: Iterable[str]) -> str:
    """A prefix that no column's name has, in any case of letters."""
    own = "marginalsyn_"
    while any(name.casefold().startswith(own) for name in columns):
        own = "_" + own
    return own


def hashed(text: ir.Value, engine: str) -> ir.Value:
    """The digest of a text in hexadecimal digits; the same in every engine that can make one."""
    # Ibis 12 has no digest for three engines, which have the functions.
    if engine == "snowflake":
        return call("sha2", dt.string, text, 256)
    if engine == "bigquery":
        return call("to_hex", dt.string, call("sha256", dt.binary, text))
    if engine == "postgres":
        octets = call("convert_to", dt.binary, text, "UTF8")
        return call("encode", dt.string, call("sha256", dt.binary, octets), "hex")
    return text.hexdigest("sha256")


def check_split(table: PrivateTable, statement: Statement) -> None:
    """Refuse another split than a release's own where its statement is for the rows of one part.

    A statement that has no hash of the salt is for the rows that its charges were for, in a ledger
    that holds them. ``table`` is the one that is opened for the release.
    """
    if statement.neighbours is not Neighbours.REPLACE:
        return
    if table.holdout != statement.holdout:
        raise UsageError(
            f"holdout ({table.holdout:g}) must be that of the release ({statement.holdout:g}), "
            "whose statement says which rows the promise is for"
        )
    if statement.split is None:
        same = not table.ledger.read().lacks(statement.charges, table.split)
    else:
        same = statement.split == table.split
    if table.holdout and not same:
        raise UsageError(
            f"holdout ({table.holdout:g}) must pick the rows that it picked for the release, for "
            "which its promise is: open the table with the salt of that release, in the folder "
            "where it was made, and charge the same ledger"
        )
