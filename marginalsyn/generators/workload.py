"""Workloads: the weighted marginals that a release should serve, and those that need no measuring.

A view of linked tables has columns that stood in an earlier view, too. What follows from the
answers there is public: it is fitted like an answer, and no budget is spent on it.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import UsageError
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.one_way import OneWay
from marginalsyn.validation import like

Columns = tuple[str, ...]
_NONE: Mapping[str, str] = MappingProxyType({})
# Of a marginal of columns that are given; one that is drawn has 1.
GIVEN_WEIGHT = 0.25


@dataclass(frozen=True)
class Workload:
    """Marginals with positive weights; the columns of each stand in the order of the domain.

    Example:
        >>> Workload.upto({"a": 2, "b": 3, "c": 2}, 2).marginals
        (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """

    weights: Mapping[Columns, float]

    @property
    def marginals(self) -> tuple[Columns, ...]:
        """The marginals in a fixed order."""
        return tuple(self.weights)

    @classmethod
    def upto(cls, domain: Mapping[str, int], degree: int) -> Workload:
        """All marginals of exactly ``degree`` columns (they contain the smaller ones)."""
        if degree < 1:
            raise UsageError(f"degree ({degree}) must be 1 or more")
        order = min(degree, len(domain))
        return cls(dict.fromkeys(itertools.combinations(domain, order), 1.0))

    @classmethod
    def read(
        cls, path: str | Path, domain: Mapping[str, int], stand_ins: Mapping[str, str] = _NONE
    ) -> Workload:
        """Read ``[["a", "b"], {"columns": ["a", "c"], "weight": 2}]`` from a JSON file.

        A column that follows from another has that as its stand-in.
        """
        try:
            items = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise UsageError(f"workload ({path}) must be a readable JSON file: {error}") from None
        if not isinstance(items, list):
            raise UsageError(f"workload ({path}) must be a list of marginals (lists of columns)")
        return cls.of(items, domain, stand_ins)

    @classmethod
    def of(
        cls, items: Iterable[Any], domain: Mapping[str, int], stand_ins: Mapping[str, str] = _NONE
    ) -> Workload:
        """Build from lists of column names, or mappings with ``columns`` and ``weight``."""
        weights: dict[Columns, float] = {}
        for item in items:
            given = item.get("columns") if isinstance(item, Mapping) else item
            weight = item.get("weight", 1.0) if isinstance(item, Mapping) else 1.0
            cols = _canonical(given, domain, stand_ins)
            if not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise UsageError(f"weight ({weight}) of marginal {list(cols)} must be above zero")
            weights[cols] = weights.get(cols, 0.0) + float(weight)
        if not weights:
            raise UsageError("workload must name one marginal or more")
        return cls(weights)

    def favour(self, columns: Collection[str], factor: float) -> Workload:
        """Multiply the weight of every marginal that holds one of some columns."""
        return self._scaled(factor, lambda c: bool({*c} & {*columns}))

    def aimed(self, pairs: Iterable[Columns], factor: float) -> Workload:
        """Multiply the weight of every marginal that holds one of some pairs."""
        wanted = [{*pair} for pair in pairs]
        return self._scaled(factor, lambda c: any(pair <= {*c} for pair in wanted))

    def about(self, given: Collection[str]) -> Workload:
        """Give less weight to marginals of nothing but given columns, which are not drawn.

        They still matter: columns that are given hang together, and what each says of the others
        must not be counted twice.
        """
        return self._scaled(GIVEN_WEIGHT, lambda c: {*c} <= {*given})

    def _scaled(self, factor: float, chosen: Callable[[Columns], bool]) -> Workload:
        return Workload({c: w * (factor if chosen(c) else 1.0) for c, w in self.weights.items()})

    def candidates(self, domain: Mapping[str, int], max_cells: float) -> dict[Columns, float]:
        """AIM's candidates: the downward closure, each weighted by sum_s c_s |r & s|.

        Marginals of more than ``max_cells`` cells are left out; their subsets and all single
        columns stay.
        """
        closure = {
            sub
            for cols in self.weights
            for k in range(1, len(cols) + 1)
            for sub in itertools.combinations(cols, k)
        }
        order = {name: i for i, name in enumerate(domain)}
        fits = [c for c in closure if len(c) == 1 or math.prod(domain[x] for x in c) <= max_cells]
        fits.sort(key=lambda cols: (len(cols), [order[x] for x in cols]))
        # Summed column by column: every column of r adds the weight of the marginals that hold it.
        weight_of = dict.fromkeys(domain, 0.0)
        for cols, weight in self.weights.items():
            for x in cols:
                weight_of[x] += weight
        return {c: sum(weight_of[x] for x in c) for c in fits}


def _canonical(given: Any, domain: Mapping[str, int], stand_ins: Mapping[str, str]) -> Columns:
    """The columns of one marginal in domain order, or a usage error."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise UsageError(f"marginal ({given!r}) must be a list of column names")
    unknown = [name for name in given if name not in domain and name not in stand_ins]
    if unknown:
        raise UsageError(
            f"marginal {list(given)} must name columns of the schema; {unknown[0]!r} is not one"
        )
    if len(set(given)) != len(given):
        raise UsageError(f"marginal {list(given)} must name each column once")
    asked = {stand_ins.get(name, name) for name in given}
    return tuple(name for name in domain if name in asked)


# Of a model's size limit, what known pairs may take: the rest is for those that are bought.
ROOM = 0.02


def not_yet_known(
    candidates: Mapping[Columns, float], known: Sequence[Sequence[str]]
) -> dict[Columns, float]:
    """The candidates that no set of columns whose marginals are known holds.

    Example:
        >>> not_yet_known({("a", "b"): 1.0, ("b", "c"): 1.0}, [("a", "b")])
        {('b', 'c'): 1.0}
    """
    sets = [{*group} for group in known]
    return {q: w for q, w in candidates.items() if not any({*q} <= group for group in sets)}


def known_pairs(pairs: Sequence[Measurement], one_way: OneWay, limit: float) -> list[Measurement]:
    """Pairs that are known, over merged codes, as many as keep a model small.

    Those come first whose columns hang together most: they say what single columns do not.

    Args:
        pairs: all that is known.
        one_way: single columns, and how their codes are merged.
        limit: of the model's size, in MB.
    """
    merged = [one_way.compression.compress(m) for m in pairs if len(m.columns) == 2]
    kept: list[Measurement] = []
    for pair in sorted(merged, key=_together, reverse=True):
        cliques = [*(m.columns for m in kept), pair.columns]
        if pgm.model_mb(one_way.domain, cliques) <= ROOM * limit:
            kept.append(pair)
    return kept


def _together(pair: Measurement) -> float:
    """How far a pair is from one of columns that have nothing to do with each other."""
    values = np.asarray(pair.values, dtype=float)
    unrelated = np.outer(values.sum(axis=1), values.sum(axis=0)) / max(float(values.sum()), 1.0)
    return float(np.abs(values - unrelated).sum())


def strata_pairs(by: Collection[str], columns: Collection[str]) -> list[Columns]:
    """Every pair that has a column of strata, in the columns' order.

    Pairs within a stratum are made of these: each counts once for every other column.

    Example:
        >>> strata_pairs(["b"], ["a", "b", "c"])
        [('a', 'b'), ('b', 'c')]
    """
    return [pair for pair in itertools.combinations(columns, 2) if {*by} & {*pair}]


# What counts so many times where no other weight is given.
FOR_WEIGHT = 4.0


def model_pairs(
    formulas: Iterable[str], columns: Collection[str], stand_ins: Mapping[str, str] = _NONE
) -> list[Columns]:
    """Every label with each of its features, columns in their order.

    Args:
        formulas: such as ``"income ~ age + sex"``; a dot stands for all other columns.
        columns: the names that may occur.
        stand_ins: by further names, the columns that they follow from.

    Raises:
        UsageError: a formula that cannot be read, or a column that is not there.

    Example:
        >>> model_pairs(["b ~ .", "c ~ a"], ["a", "b", "c"])
        [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    names = list(columns)
    found: dict[Columns, None] = {}
    for formula in formulas:
        sides = [side.strip() for side in formula.split("~")]
        if len(sides) != 2 or not all(sides):
            raise UsageError(
                f"for ({formula}) must be a label and its features, such as 'income ~ age + sex' "
                "or 'income ~ .'"
            )
        label, features = sides[0], [part.strip() for part in sides[1].split("+")]
        if features == ["."]:
            features = [name for name in names if name != label]
        for name in (label, *features):
            if name not in names and name not in stand_ins:
                raise UsageError(
                    f"for ({formula}) must name columns of the schema; {name!r} is not one"
                    f"{like(name, names)}"
                )
        if label in features:
            raise UsageError(f"for ({formula}) must not have its label among the features")
        for feature in features:
            both = {stand_ins.get(name, name) for name in (label, feature)}
            if len(both) == 2:
                first, second = sorted(both, key=names.index)
                found[first, second] = None
    return list(found)
