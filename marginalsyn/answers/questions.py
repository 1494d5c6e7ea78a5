"""The language of questions: ``mean(income) by region where age > 40`` and what else may be asked.

A question is a number, next to another or not, for groups of rows, of rows that meet conditions::

    mean(C)  share(C, ...)  share(C = V)  count()  count(C, ...)  count(C = V)  total(C)
    median(C)  quantile(C, 0.9)                    each with   by C, ...   where CONDITIONS
    mean(C) by G standardised by S, ...            or          standardised by S(0.5, 0.3, 0.2)
    A - B   A / B   difference(A by G)   ratio(A by G)
    test(C, G)
    LABEL ~ FORMULA    poisson(LABEL ~ FORMULA)    contrast(LABEL ~ FORMULA; [x] - [z])
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from marginalsyn.answers.families import Name
from marginalsyn.answers.quantities import Mask, Question, find_column, read_columns
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.single_numbers import Independence, Quantile
from marginalsyn.answers.subgroups import STRATUM, Group, Part, Standardised, Subgroups, groups_of
from marginalsyn.errors import UsageError
from marginalsyn.table.conditions import read_conditions
from marginalsyn.table.schema import Schema

_NUMBERS = ("mean", "share", "count", "total", "median", "quantile", "difference", "ratio", "test")
_FAMILIES = get_args(Name)
_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_SIGNS = {"-": "difference", "/": "ratio"}
_CLAUSES = ("where", "standardised by", "standardized by", "by")


def is_question(text: str) -> bool:
    """Whether a text is a question, and no name of a folder."""
    return "~" in text or bool(re.match(rf"\s*({'|'.join(_NUMBERS)})\s*\(", text))


def read_question(text: str, schema: Schema) -> list[Question]:
    """What a text asks; quantiles are a question for each group.

    Raises:
        UsageError: it is none, or names what the schema does not have.

    Example:
        >>> (question,) = read_question("count(a = 1)", Schema.from_domain({"a": 2, "b": 2}))
        >>> question.columns
        ('a',)
    """
    if "~" in text:
        return [_model(text, schema)]
    return _Asked.of(text.strip(), schema).questions()


@dataclass(frozen=True)
class _Asked:
    """A question's text in pieces: its number, what that is of, its groups, rows and strata."""

    text: str
    schema: Schema
    body: str
    name: str
    inner: str
    by: tuple[str, ...]
    where: str
    strata: str

    @classmethod
    def of(cls, text: str, schema: Schema, outer: str = "") -> _Asked:
        """Read a text; ``outer`` are conditions on all rows that it is about."""
        body, clauses = _clauses(text)
        by = read_columns(schema, clauses["by"], "by") if "by" in clauses else ()
        found = None if len(_sides(body)[0]) > 1 else _CALL.fullmatch(body)
        name, inner, own = "", "", dict[str, str]()
        if found is not None:
            name, inner = found[1].lower(), found[2].strip()
            if name not in ("difference", "ratio"):
                inner, own = _clauses(inner)
        where = ", ".join(filter(None, (own.get("where"), clauses.get("where"), outer)))
        strata = clauses.get("standardised by", "")
        return cls(text, schema, body, name, inner, by, where, strata)

    def questions(self) -> list[Question]:
        sides, compared = _sides(self.body)
        if len(sides) > 1:
            return [self._pair(sides, compared)]
        if self.name not in _NUMBERS:
            raise UsageError(
                f'question ({self.text}) must read as "mean(C) by G where age > 40" does, with one '
                f"of {', '.join(_NUMBERS)}, or be a formula such as y ~ x"
            )
        if self.name in ("difference", "ratio"):
            own = _Asked.of(self.inner, self.schema, self.where)
            if not own.by or own.strata:
                raise UsageError(
                    f"question ({self.text}) must compare groups, as in {self.name}(mean(C) by G)"
                )
            part = own.part()
            return [Subgroups(self.text, self.schema, part, None, self.name, own.by)]  # type: ignore[arg-type]
        if self.name == "test":
            return [self._test()]
        if self.name in ("median", "quantile"):
            return self._quantiles()
        if self.strata:
            return [self._standardised()]
        return [Subgroups(self.text, self.schema, self.part(), by=self.by)]

    def part(self) -> Part:
        """The number that is asked for, by its groups."""
        kind, inner = self.name, self.inner
        events: tuple[Group, ...] = (Group(),)
        condition = re.search(r"[=<>]", inner)
        if kind in ("mean", "total"):
            name = inner.strip("` ")
            if condition and name not in self.schema.names:
                raise UsageError(
                    f"{kind} ({inner}) must be of a column: ask for share({inner}), or its count"
                )
            name = find_column(self.schema, name, kind)
            if kind == "total" and not self.schema.column(name).numeric:
                raise UsageError(f"total ({name}) must be of a number: ask for counts of values")
            return Part(kind, name, groups=self._groups())  # type: ignore[arg-type]
        if kind not in ("share", "count"):
            raise UsageError(f"question ({self.text}) must compare means, shares, counts or totals")
        if condition:
            events = (Group(inner, self._masks(inner)),)
        elif inner:
            events = groups_of(self.schema, read_columns(self.schema, inner, kind), missing=True)
        elif kind == "share":
            raise UsageError("share () must be of a column or a condition, such as share(sex = f)")
        return Part(kind, events=events, groups=self._groups())  # type: ignore[arg-type]

    def _masks(self, where: str) -> tuple[Mask, ...]:
        if not where.strip():
            return ()
        given = read_conditions(where, self.schema)
        return tuple(Mask(name, one.weights) for name, one in given.items())

    def _groups(self) -> tuple[Group, ...]:
        masks = self._masks(self.where)
        if not self.by:
            return (Group(self.where, masks),)
        return groups_of(self.schema, self.by, masks=masks)

    def _pair(self, sides: Sequence[str], compared: str) -> Subgroups:
        own = (_Asked.of(side, self.schema, self.where) for side in sides)
        first, second = (replace(one, by=self.by).part() for one in own)
        if first.counts != second.counts:
            raise UsageError(
                f"question ({self.text}) must compare two means or shares, or two counts or totals"
            )
        return Subgroups(self.text, self.schema, first, second, compared, self.by)  # type: ignore[arg-type]

    def _test(self) -> Independence:
        names = () if is_question(self.inner) else read_columns(self.schema, self.inner, "test")
        if len(names) != 2 or self.by:
            raise UsageError(f"question ({self.text}) must test two columns, as in test(C, G)")
        column, group = sorted(names, key=lambda name: -self.schema.column(name).levels)
        return Independence(column, group, self.schema, self.where, self._masks(self.where))

    def _quantiles(self) -> list[Question]:
        name, _, level = self.inner.partition(",")
        try:
            share = 0.5 if self.name == "median" else float(level)
        except ValueError:
            raise UsageError(
                f"question ({self.text}) must name a share, as in quantile(C, 0.9)"
            ) from None
        if self.strata:
            raise UsageError(f"question ({self.text}) must be a mean to be standardised")
        name = find_column(self.schema, name.strip("` "), self.name)
        groups = self._groups()
        return [Quantile(name, share, self.schema, g.name, g.masks, self.text) for g in groups]

    def _standardised(self) -> Standardised:
        """Means by group and stratum, put together by the strata's shares."""
        found = re.fullmatch(r"(.*?)\s*\(([\d\s.,]+)\)", self.strata)
        names = read_columns(self.schema, found[1] if found else self.strata, "standardised by")
        strata = groups_of(self.schema, names, masks=self._masks(self.where), other=False)
        given = tuple(float(x) for x in re.split(r"[\s,]+", found[2].strip())) if found else ()
        part = self.part()
        if part.kind != "mean" or {*names} & {*self.by}:
            raise UsageError(
                f"question ({self.text}) must be a mean, standardised by other columns than its "
                "groups'"
            )
        if given and (len(given) != len(strata) or not sum(given) > 0):
            raise UsageError(
                f"question ({self.text}) must give a share for each of {len(strata)} strata: "
                + "; ".join(group.name for group in strata)
            )
        cells = tuple(
            Group(f"{group.name}{STRATUM}{stratum.name}", (*group.masks, *stratum.masks))
            for group in replace(self, where="")._groups()
            for stratum in strata
        )
        return Standardised(self.text, self.schema, replace(part, groups=cells), strata, given)


def _model(text: str, schema: Schema) -> Regression:
    """A formula, with a family, a contrast and conditions or without."""
    body, clauses = _clauses(text)
    if set(clauses) - {"where"}:
        raise UsageError(f"model ({text}) must have its groups in the formula, as in y ~ x * group")
    where, contrast, family = clauses.get("where", ""), "", None
    found = _CALL.fullmatch(body)
    if found and found[1].lower() == "contrast":
        body, _, contrast = found[2].partition(";")
        if not contrast.strip():
            raise UsageError(f"model ({text}) must name a contrast: contrast(y ~ x + z; [x] - [z])")
        found = _CALL.fullmatch(body)
    if found and found[1].lower() in _FAMILIES:
        family, body = found[1].lower(), found[2]
    masks = _Asked(text, schema, body, "", "", (), where, "")._masks(where)
    return Regression(body.strip(), schema, family, masks, where, contrast.strip())  # type: ignore[arg-type]


def _clauses(text: str) -> tuple[str, dict[str, str]]:
    """What a text begins with, and its clauses outside of parentheses, by their words."""
    depths, depth = list[int](), 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        depths.append(depth)
    places = list[tuple[str, int, int]]()
    for found in re.finditer(rf"(?<=\s)({'|'.join(_CLAUSES)})(?=\s)", text, re.IGNORECASE):
        if depths[found.start()] == 0 and not any(word == "where" for word, _, _ in places):
            places.append((found[1].lower().replace("standardized", "standardised"), *found.span()))
    ends = [*(start for _, start, _ in places), len(text)][1:]
    given = {
        word: text[end:last].strip() for (word, _, end), last in zip(places, ends, strict=True)
    }
    if len(given) < len(places) or not all(given.values()):
        raise UsageError(f"question ({text}) must have each of by, standardised by and where once")
    return (text[: places[0][1]] if places else text).strip(), given


def _sides(text: str) -> tuple[list[str], str]:
    """What stands before and behind a sign outside of parentheses, and what that sign does."""
    depth = 0
    for place, own in enumerate(text):
        depth += (own == "(") - (own == ")")
        if own in _SIGNS and depth == 0 and text[:place].rstrip().endswith(")"):
            return [text[:place], text[place + 1 :]], _SIGNS[own]
    return [text], ""
