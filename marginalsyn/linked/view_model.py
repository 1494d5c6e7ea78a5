"""The model of one view: draws its own columns given the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from marginalsyn.contract import MAX_ROWS, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.conditional import ConditionalDraws
from marginalsyn.people.views import View
from marginalsyn.table import decoding
from marginalsyn.table.conditions import Condition
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import AnyColumn


class ViewModel:
    """The model of one view: draws its own columns given the others."""

    def __init__(self, view: View, model: Model) -> None:
        if "pgm" not in model.meta:
            raise ReleaseError(f"model of view {view.name} must be one of marginals")
        self.view = view
        self.fitted, self.compression = stored_model(model)
        if list(self.compression.merges) != view.schema.names:
            raise ReleaseError(f"model of view {view.name} must have the view's columns")
        self._own = [column.name for column in view.own]
        self._same = {c.name: f"{view.table}.{c.source}" for c in view.own if c.part == "same"}

    def rows(
        self, n: int | None, rng: np.random.Generator, conditions: Mapping[str, Condition]
    ) -> dict[str, np.ndarray]:
        """Codes of rows of the root's view that agree with conditions."""
        fitted, compression = self.fitted, self.compression
        if conditions:
            weights = {name: condition.weights for name, condition in conditions.items()}
            compression, evidence = compression.narrowed(weights)
            fitted = fitted.given(evidence)
        count = int(min(max(1, round(fitted.total)), MAX_ROWS)) if n is None else n
        codes = compression.refine(fitted.rows(count, rng), rng)
        return {name: codes[:, j] for j, name in enumerate(compression.merges)}

    def draw(
        self, known: Mapping[str, np.ndarray], rows: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Codes of the own columns, given those of all others."""
        merges = self.compression.merges
        merged = {name: merges[name].groups[codes] for name, codes in known.items()}
        if not self._same:
            return self._refined(self._draws.draw(merged, rows, rng), rng)
        flags = self._draws.draw(merged, rows, rng)
        merged.update({name: flags[name] for name in self._same})
        for name, column in self._same.items():
            merged[f"{column} rule"] = self._rule(column, known, flags[name])
        rest = {**self._given_same.draw(merged, rows, rng)}
        found = self._refined({**rest, **{name: flags[name] for name in self._same}}, rng)
        for name, column in self._same.items():
            again = found[name] == 1
            found[column][again] = known[f"{column} before"][again]
        return found

    def _rule(self, column: str, known: Mapping[str, np.ndarray], same: np.ndarray) -> np.ndarray:
        """The code that a column must, or must not, have, by whether it repeats the one before."""
        merge = self.compression.merges[column]
        before = merge.groups[known[f"{column} before"]].astype(np.int64)
        alone = np.bincount(merge.groups, minlength=merge.size) == 1
        free = 2 * merge.size
        other = np.where(alone[before] & (merge.size > 1), before, free)
        return np.where(same == 1, before + merge.size, other)

    @cached_property
    def _draws(self) -> ConditionalDraws:
        return ConditionalDraws(self.fitted, self._own)

    @cached_property
    def _given_same(self) -> ConditionalDraws:
        extra, more = [], {}
        for column in self._same.values():
            size = self.compression.merges[column].size
            allowed = np.ones((size, 2 * size + 1))
            allowed[:, :size] -= np.eye(size)
            allowed[:, size:-1] = np.eye(size)
            with np.errstate(divide="ignore"):
                extra.append(((column, f"{column} rule"), np.log(allowed)))
            more[f"{column} rule"] = 2 * size + 1
        own = [name for name in self._own if name not in self._same]
        return ConditionalDraws(self.fitted, own, extra, more)

    def _refined(
        self, merged: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        merges = {name: self.compression.merges[name] for name in merged}
        codes = np.column_stack(list(merged.values()))
        fine = Compression(merges).refine(codes, rng)
        return {name: fine[:, j] for j, name in enumerate(merges)}


def amounts_in(column: AnyColumn, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number for each code of a numeric column, drawn evenly in its bin; NaN where missing."""
    assert isinstance(column, IntegerColumn | ContinuousColumn)
    absent = codes >= column.levels
    bins = np.where(absent, 0, codes)
    low, high = column.edges[bins], column.edges[bins + 1]
    drawn = low + rng.random(len(bins)) * (high - low)
    if isinstance(column, IntegerColumn):
        drawn = np.minimum(np.floor(drawn), high - 1)
    return np.where(absent, np.nan, drawn)


def codes_of(column: IntegerColumn | ContinuousColumn, amounts: np.ndarray) -> np.ndarray:
    """The codes of numbers."""
    settled = decoding.settle(column, np.where(np.isfinite(amounts), amounts, column.lower))
    found = np.searchsorted(column.edges[1:-1], settled, side="right")
    return np.where(np.isfinite(amounts), found, column.absent_code).astype(np.int32)
