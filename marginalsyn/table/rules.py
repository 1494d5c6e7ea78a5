"""Rules between columns, such as ``age < 15 -> MSP = N``: read from texts, decided on rows.

A comparison with a missing value is unknown, as in SQL, and a row breaks a rule only where the rule
is false. Codes of numbers stand for bins: there a rule has a set of possible outcomes, and the same
code decides both, a value being a bin of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.conditions import (
    MISSING,
    agreeing,
    alternatives,
    compared,
    scale_of,
    stepped,
)
from marginalsyn.table.moments import MomentColumn, TimeColumn
from marginalsyn.table.numeric import ContinuousColumn, NumberColumn
from marginalsyn.table.schema import AnyColumn
from marginalsyn.validation import like, shown

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>"(?:[^"]|"")*")|(?P<text>'(?:[^']|'')*')|(?P<sign>->|<=|>=|!=|==|[=<>(){},+]|-(?=\s))"""
    r"""|(?P<word>(?:(?!->)[^\s(){},+<>=!"'])+))"""
)
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_WORDS = ("and", "or", "not", "in", "iff", "determines", "by", "within")
_LONGEST, _DEEPEST = 100_000, 40
DAY = 86400


class Outcomes(NamedTuple):
    """Which outcomes are possible, by row or cell."""

    yes: np.ndarray
    no: np.ndarray
    unknown: np.ndarray

    @property
    def broken(self) -> np.ndarray:
        """Where the rule is false whatever the values inside the bins."""
        return self.no & ~self.yes & ~self.unknown


@dataclass(frozen=True)
class Cells:
    """Codes by column, in arrays that broadcast; with the numbers themselves where they are known.

    A number of a missing value is not read, and none beyond a limit of detection: rows say "<0.3".
    """

    codes: Mapping[str, np.ndarray]
    numbers: Mapping[str, np.ndarray] | None = None

    def ends(self, column: NumberColumn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The least and the largest value of every cell, and where none is known."""
        codes = self.codes[column.name]
        absent = codes >= column.levels
        low, high = (ends[np.where(absent, 0, codes)] for ends in bin_ends(column))
        if self.numbers is not None:
            known = self.numbers[column.name]
            least, most = (known if end is None else end for end in (column.below, column.above))
            seen = (least <= known) & (known <= most)
            low, high = np.where(seen, known, low), np.where(seen, known, high)
        return low, high, absent


def bin_ends(column: NumberColumn) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last value of every bin."""
    first, last = column.bin_extremes()
    if isinstance(column, ContinuousColumn) and column.decimals is None:
        last = np.append(np.nextafter(last[:-1], -np.inf), last[-1])
    elif isinstance(column, ContinuousColumn):
        first, last = (end / scale_of(column) for end in column.grid())
    return first, last


def quantity_of(column: AnyColumn) -> str:
    """What a numeric column holds: only columns of one quantity are compared."""
    if isinstance(column, TimeColumn):
        return "times"
    return "dates" if isinstance(column, MomentColumn) else "numbers"


def unit_of(column: AnyColumn) -> int:
    """The seconds in a unit of dates and times; 1 of other numbers."""
    return column.unit if isinstance(column, MomentColumn) else 1


class Node:
    """One part of a rule."""

    def outcomes(self, cells: Cells) -> Outcomes:
        """Which outcomes are possible."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Test(Node):
    """One column against constants: by code whether it agrees, or is unknown."""

    column: AnyColumn
    agrees: np.ndarray
    unknown: np.ndarray
    spans: tuple[tuple[float, float], ...] = ()

    def outcomes(self, cells: Cells) -> Outcomes:
        codes = cells.codes[self.column.name]
        yes, unknown = self.agrees[codes], self.unknown[codes]
        no = ~yes & ~unknown
        if isinstance(self.column, NumberColumn):
            low, high, absent = cells.ends(self.column)
            if stepped(self.column):
                low, high = (np.rint(end * scale_of(self.column)) for end in (low, high))
            meets, inside = np.zeros(low.shape, bool), np.zeros(low.shape, bool)
            for first, last in self.spans:
                meets |= (low <= last) & (high >= first)
                inside |= (first <= low) & (high <= last)
            yes, no = np.where(absent, yes, meets), np.where(absent, no, ~inside)
        return Outcomes(yes, no, unknown)


@dataclass(frozen=True)
class Linear(Node):
    """A sum of columns, each with a factor, that is at most 0, below 0, or 0."""

    terms: tuple[tuple[NumberColumn, float], ...]
    constant: float
    sign: str
    tolerance: float

    def outcomes(self, cells: Cells) -> Outcomes:
        low = high = np.asarray(self.constant)
        absent = np.zeros((), bool)
        for column, factor in self.terms:
            first, last, missing = cells.ends(column)
            ends = (factor * first, factor * last)
            low, high = low + np.minimum(*ends), high + np.maximum(*ends)
            absent = absent | missing
        slack = self.tolerance
        if self.sign == "=":
            yes, no = (low <= slack) & (high >= -slack), (low < -slack) | (high > slack)
        elif self.sign == "<":
            yes, no = low < -slack, high >= -slack
        else:
            yes, no = low <= slack, high > slack
        return Outcomes(yes & ~absent, no & ~absent, absent)


@dataclass(frozen=True)
class Not(Node):
    """What is not so."""

    part: Node

    def outcomes(self, cells: Cells) -> Outcomes:
        yes, no, unknown = self.part.outcomes(cells)
        return Outcomes(no, yes, unknown)


@dataclass(frozen=True)
class And(Node):
    """Both parts; ``iff`` is the equality of two."""

    left: Node
    right: Node
    iff: bool = False

    def outcomes(self, cells: Cells) -> Outcomes:
        a, b = self.left.outcomes(cells), self.right.outcomes(cells)
        if self.iff:
            yes = (a.yes & b.yes) | (a.no & b.no)
            return Outcomes(yes, (a.yes & b.no) | (a.no & b.yes), a.unknown | b.unknown)
        unknown = (a.unknown & (b.yes | b.unknown)) | (b.unknown & (a.yes | a.unknown))
        return Outcomes(a.yes & b.yes, a.no | b.no, unknown)


@dataclass(frozen=True, eq=False)
class Dependency(Node):
    """What one column says of another: by code the other's code, -1 where that is open."""

    source: AnyColumn
    target: AnyColumn
    mapping: np.ndarray | None = None

    def outcomes(self, cells: Cells) -> Outcomes:
        codes, found = cells.codes[self.source.name], cells.codes[self.target.name]
        if self.mapping is None:
            yes = np.ones(np.broadcast_shapes(codes.shape, found.shape), bool)
        else:
            yes = (self.mapping[codes] < 0) | (self.mapping[codes] == found)
        return Outcomes(yes, ~yes, np.zeros(yes.shape, bool))


def either(left: Node, right: Node) -> Node:
    """One of both, or both."""
    return Not(And(Not(left), Not(right)))


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule: its text, the columns that it names, and what decides it.

    ``equation`` is a sum that every row must meet, or every row of a case: values can be set by it.
    """

    text: str
    names: tuple[str, ...]
    node: Node
    equation: Linear | None = None

    @property
    def dependency(self) -> Dependency | None:
        return self.node if isinstance(self.node, Dependency) else None

    def broken(self, cells: Cells) -> np.ndarray:
        """Where the rule is surely broken."""
        return self.node.outcomes(cells).broken


@lru_cache(maxsize=256)
def read_rules(texts: tuple[str, ...], columns: tuple[AnyColumn, ...]) -> tuple[Rule, ...]:
    """The rules that texts state.

    Raises:
        ValueError: a text that is no rule of these columns, with the place in it.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> schema = Schema.from_domain({"a": 4, "b": 4})
        >>> rule = read_rules(("a <= b",), schema.columns)[0]
        >>> rule.broken(Cells({"a": np.array([0, 3]), "b": np.array([2, 2])})).tolist()
        [False, True]
    """
    return tuple(_Parser(number, text, columns).rule() for number, text in enumerate(texts))


def rename(text: str, names: Mapping[str, str]) -> str:
    """A rule with other names of columns."""
    found, depth, end = [], 0, 0
    for token in _TOKEN.finditer(text):
        word = token["word"] or (token["name"] or "")[1:-1].replace('""', '"')
        depth += {"{": 1, "}": -1}.get(token["sign"] or "", 0)
        found += [
            text[end : token.start(token.lastgroup or 0)],
            f'"{names[word]}"' if word in names and not depth else token[token.lastgroup or 0],
        ]
        end = token.end()
    return "".join([*found, text[end:]])


def mapped(rule: Rule, mapping: np.ndarray) -> str:
    """The text of a dependency with what each code of the first column says of the other."""
    known = rule.dependency
    assert known is not None
    codes: dict[int, list[int]] = {}
    for code, follows in enumerate(mapping.tolist()):
        codes.setdefault(follows, []).append(code)

    def word(column: AnyColumn, code: int) -> str:
        missing = code == column.missing_code
        return MISSING if missing else quoted(column.labels()[code], "'")

    pairs = [
        f"{', '.join(word(known.source, code) for code in some)} -> {word(known.target, follows)}"
        for follows, some in codes.items()
    ]
    source, target = (quoted(c.name, '"') for c in (known.source, known.target))
    return f"{source} determines {target} by {{{', '.join(pairs)}}}"


def quoted(text: str, sign: str) -> str:
    """A text in quotes, which are doubled inside."""
    return f"{sign}{text.replace(sign, 2 * sign)}{sign}"


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Sum(NamedTuple):
    """Columns with factors, and a constant; or a text alone, which may be a value."""

    terms: tuple[tuple[AnyColumn, float], ...]
    constant: float
    token: _Token
    single: bool


class _Parser:
    """Reads one rule; every complaint names the place."""

    def __init__(self, number: int, text: str, columns: Sequence[AnyColumn]) -> None:
        self.number, self.text = number, text
        self.columns = {column.name: column for column in columns}
        self.tokens = self._split()
        self.place, self.depth = 0, 0
        self.named: dict[str, None] = {}

    def rule(self) -> Rule:
        """The whole rule."""
        node: Node
        if self._is("determines", 1):
            node, equation = self._dependency(), None
        else:
            node, equation = self._iff()
        if self._now.kind != "end":
            raise self._error(f"{self._now.text!r} must not follow here: join parts with and, or")
        if not self.named:
            raise self._error("must name a column", 0)
        return Rule(self.text.strip(), tuple(self.named), node, equation)

    def _split(self) -> list[_Token]:
        found, at, text = [], 0, self.text.rstrip()
        if len(text) > _LONGEST:
            raise self._error(f"must have at most {_LONGEST:,} characters", 0)
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise self._error(f"{text[at]!r} must be part of a name, a value or a sign", at)
            kind, at = str(token.lastgroup), token.end()
            found.append(_Token(kind, token[kind], token.start(kind)))
        return [*found, _Token("end", "the end", len(text))]

    @property
    def _now(self) -> _Token:
        return self.tokens[self.place]

    def _is(self, text: str, ahead: int = 0) -> bool:
        token = self.tokens[min(self.place + ahead, len(self.tokens) - 1)]
        return token.text == text and token.kind in ("word", "sign")

    def _takes(self, text: str) -> bool:
        found = self._is(text)
        self.place += found
        return found

    def _needs(self, text: str) -> None:
        if not self._takes(text):
            raise self._error(f"{self._now.text!r} must be {text!r}")

    def _error(self, problem: str, at: int | None = None) -> ValueError:
        place = (self._now.at if at is None else at) + 1
        return ValueError(
            f"rules[{self.number}] ({shown(self.text, 80)}), character {place}: {problem}"
        )

    def _dependency(self) -> Dependency:
        source, target = self._column(), None
        self._needs("determines")
        target = self._column()
        for column in (source, target):
            if isinstance(column, NumberColumn) and (
                np.diff(bin_ends(column), axis=0).any()
                or (column.shapeless and column.bins == "auto")
            ):
                raise self._error(
                    f"{column.name} must have listed values, or a bin for every number: state "
                    "ranges as `age < 15 -> group = child`"
                )
        if source.name == target.name:
            raise self._error(f"{target.name} must not determine itself")
        if not self._takes("by"):
            return Dependency(source, target)
        self._needs("{")
        mapping = np.full(source.size, -1)
        while True:
            at, keys = self._now.at, self._listed(lambda: self._level(source))
            self._needs("->")
            keys, found = [key for key in keys if key >= 0], self._level(target)
            if (mapping[keys] >= 0).any():
                raise self._error(f"{source.name} must have each value listed once", at)
            mapping[keys] = found if found >= 0 else target.unseen_code
            if self._takes("}"):
                return Dependency(source, target, mapping)
            self._needs(",")

    def _level(self, column: AnyColumn) -> int:
        """The code of a value in a list; -1 of one that a purchase did not find."""
        token = self._value()
        if token.kind == "word" and token.text == MISSING and column.missing_code is not None:
            return column.missing_code
        labels = column.labels()
        if token.text in labels:
            return labels.index(token.text)
        if not has_public_values(column):
            return -1
        known = f"it has {shown(labels, 100)}{like(token.text, labels)}"
        raise self._error(
            f"{column.name} ({token.text}) must be one of its values: {known}", token.at
        )

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error(f"must be nested less than {_DEEPEST} deep")

    def _iff(self) -> tuple[Node, Linear | None]:
        self._deeper()
        left, equation = self._implication()
        while self._takes("iff"):
            left, equation = And(left, self._implication()[0], iff=True), None
        self.depth -= 1
        return left, equation

    def _implication(self) -> tuple[Node, Linear | None]:
        self._deeper()
        left = self._or()
        equation = left if isinstance(left, Linear) and left.sign == "=" else None
        if self._takes("->"):
            right, equation = self._implication()
            left = either(Not(left), right)
        self.depth -= 1
        return left, equation

    def _or(self) -> Node:
        parts = [self._and()]
        while self._takes("or"):
            parts.append(self._and())
        return reduce(either, parts)

    def _and(self) -> Node:
        parts = [self._not()]
        while self._takes("and"):
            parts.append(self._not())
        return reduce(And, parts)

    def _not(self) -> Node:
        if self._is("not") and not self._is("in", 1):
            self._deeper()
            self.place += 1
            found: Node = Not(self._not())
            self.depth -= 1
            return found
        if self._takes("("):
            found = self._iff()[0]
            self._needs(")")
            return found
        if self._is("missing") and self._is("(", 1):
            self.place += 2
            at, column = self._now.at, self._column()
            self._needs(")")
            return self._missing(column, at)
        return self._comparison()

    def _comparison(self) -> Node:
        left = self._sum()
        turned = self._takes("not")
        if turned or self._is("in"):
            column = self._lone(left)
            self._needs("in")
            found = self._test(column, self._set())
            return Not(found) if turned else found
        parts = []
        while (sign := self._now.text) in (*_FLIPPED, "==") and self._now.kind == "sign":
            self.place += 1
            right = self._sum()
            tolerance = None
            if self._takes("within"):
                tolerance = self._number(self._value())
            parts.append(self._relation(left, sign.replace("==", "="), right, tolerance))
            left = right
        if not parts:
            known = "" if left.terms else self._unknown(left.token.text)
            raise self._error(
                f"{left.token.text!r} must be compared, as in `age < 15`{known}", left.token.at
            )
        return reduce(And, parts)

    def _relation(self, left: _Sum, sign: str, right: _Sum, tolerance: float | None) -> Node:
        """One comparison."""
        if not left.terms and right.terms:
            left, sign, right = right, _FLIPPED[sign], left
        if not left.terms:
            raise self._no_column(left.token)
        at, column = left.token.at, left.terms[0][0]
        if sign == "!=":
            return Not(self._relation(left, "=", right, tolerance))
        if left.single and not right.terms and right.single:
            if tolerance is not None:
                raise self._error("within must follow a comparison of columns", at)
            if sign == "=":
                return self._test(column, [right.token])
            return self._ordered(column, sign, right.token)
        if sign in (">", ">="):
            left, sign, right = right, _FLIPPED[sign], left
        terms = [*left.terms, *((c, -factor) for c, factor in right.terms)]
        return self._linear(terms, left.constant - right.constant, sign, tolerance, at)

    def _linear(
        self,
        terms: Sequence[tuple[AnyColumn, float]],
        constant: float,
        sign: str,
        tolerance: float | None,
        at: int,
    ) -> Linear:
        """A comparison of sums of one kind; dates count in seconds, numbers added to them days."""
        for column, _ in terms:
            if not isinstance(column, NumberColumn):
                raise self._error(f"{column.name} ({column.kind}) must hold numbers or dates", at)
        kinds = {quantity_of(column) for column, _ in terms}
        if len(kinds) > 1:
            named = ", ".join(f"{c.name} ({c.kind})" for c, _ in terms)
            raise self._error(f"{named} must be of one kind", at)
        if kinds == {"times"} and constant:
            raise self._error("nothing can be added to a time of day", at)
        day = DAY if kinds == {"dates"} else 1
        sums: dict[str, float] = {}
        columns = {}
        for column, factor in terms:
            assert isinstance(column, NumberColumn)
            columns[column.name] = column
            sums[column.name] = sums.get(column.name, 0.0) + factor * unit_of(column)
        parts = tuple((columns[name], factor) for name, factor in sums.items() if factor)
        if not parts:
            raise self._error("must compare different columns", at)
        steps = [abs(f) / scale_of(c) if stepped(c) else 0.0 for c, f in parts]
        reach = sum(abs(f) * max(abs(c.lower), abs(c.upper)) for c, f in parts) + abs(constant)
        if tolerance is None:
            # Rounding is no break: of binary numbers, and of the columns' own decimals.
            coarse = sign == "=" and len(parts) > 1 and min(steps) < max(steps)
            tolerance = max(steps) / 2 if coarse else 0.0
        slack = tolerance * day + (min(steps) * 1e-6 if min(steps) else reach * 1e-12)
        return Linear(parts, constant * day, sign, slack)

    def _missing(self, column: AnyColumn, at: int) -> Test:
        """Whether there is no value: that is never unknown."""
        if column.missing_code is None:
            raise self._error(f"{column.name} must be nullable: it is never missing", at)
        agrees = np.arange(column.size) == column.missing_code
        return Test(column, agrees, np.zeros(column.size, bool))

    def _test(self, column: AnyColumn, given: Sequence[_Token]) -> Test:
        """Equality with one of several values, of which one may be `missing`."""
        options: list[object] = []
        hidden = False
        for value in given:
            try:
                quoted = value.kind == "text"
                listed = [value.text] if quoted else alternatives(column, value.text, True)
                agreeing(column, listed)
                options += listed
            except UsageError as error:
                if not has_public_values(column):
                    hidden = True  # a value that a purchase does not list is one of OTHER
                    continue
                raise self._of_value(error, value) from None
        agrees, spans = agreeing(column, options)
        unknown = np.zeros(column.size, bool)
        if column.missing_code is not None:
            unknown[column.missing_code] = not agrees[-1]
        if hidden and column.other_code is not None:
            unknown[column.other_code] = not agrees[column.other_code]
        return Test(column, agrees, unknown, spans)

    def _ordered(self, column: AnyColumn, sign: str, token: _Token) -> Test:
        try:
            agrees, spans = compared(column, sign, token.text, token.kind != "text")
        except UsageError as error:
            raise self._of_value(error, token) from None
        unknown = np.arange(column.size) >= column.levels
        return Test(column, agrees & ~unknown, unknown, spans)

    def _of_value(self, error: UsageError, token: _Token) -> ValueError:
        """What is wrong with a value, or with the name of a column that was meant."""
        problem = str(error).removeprefix("where: ") + like(token.text, self.columns)
        return self._error(problem, token.at)

    def _set(self) -> list[_Token]:
        if not self._takes("{"):
            return [self._value()]
        found = self._listed(self._value)
        self._needs("}")
        return found

    def _listed(self, part: Callable[[], Any]) -> list[Any]:
        """Parts with commas between them."""
        found = [part()]
        while self._takes(","):
            found.append(part())
        return found

    def _value(self) -> _Token:
        token = self._now
        if token.kind not in ("word", "text"):
            raise self._error(f"{token.text!r} must be a value; put '' around it if it is one")
        self.place += 1
        if token.kind == "word":
            return token
        return token._replace(text=token.text[1:-1].replace("''", "'"))

    def _sum(self) -> _Sum:
        """Columns and numbers, added; or one value."""
        start, first = self._now, self.place
        terms = []
        constant, turn = 0.0, 1.0
        while True:
            token = self._now
            column = self._column() if self._names_column() else None
            token = token if column else self._value()
            if self.place == first + 1 and not (self._is("+") or self._is("-")):
                return _Sum(((column, 1.0),) if column else (), 0.0, token, True)
            if column is None:
                constant += turn * self._number(token)
            else:
                terms.append((column, turn))
            if not (self._is("+") or self._is("-")):
                return _Sum(tuple(terms), constant, start, False)
            turn = 1.0 if self._now.text == "+" else -1.0
            self.place += 1

    def _names_column(self) -> bool:
        token = self._now
        if token.kind == "word" and token.text in _WORDS and token.text not in self.columns:
            raise self._error(f"{token.text!r} must follow a comparison, as in `age < 15`")
        return token.kind == "name" or (token.kind == "word" and token.text in self.columns)

    def _column(self) -> AnyColumn:
        token = self._now
        name = token.text[1:-1].replace('""', '"') if token.kind == "name" else token.text
        if token.kind not in ("name", "word") or name not in self.columns:
            raise self._no_column(token, name)
        self.place += 1
        self.named[name] = None
        return self.columns[name]

    def _lone(self, found: _Sum) -> AnyColumn:
        if not (found.single and found.terms):
            raise self._no_column(found.token)
        return found.terms[0][0]

    def _no_column(self, token: _Token, name: str = "") -> ValueError:
        known = self._unknown(name or token.text)
        if token.kind == "name":
            known += ". A value stands in single quotes"
        return self._error(f"{token.text!r} must be a column{known}", token.at)

    def _unknown(self, name: str) -> str:
        return f", one of {', '.join(self.columns)}{like(name, self.columns)}"

    def _number(self, token: _Token) -> float:
        try:
            number = float(token.text)
        except ValueError:
            known = self._unknown(token.text)
            raise self._error(
                f"{token.text!r} must be a number or a column{known}", token.at
            ) from None
        if not math.isfinite(number):
            raise self._error(f"{token.text!r} must be finite", token.at)
        return number


def has_public_values(column: AnyColumn) -> bool:
    """Whether the list of its values was known before any purchase."""
    return not isinstance(column, CategoricalColumn) or column.origin == "public"
