"""The report of numbers and dates: mean, median, 5% and 95%, real next to synthetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    called,
)
from marginalsyn.evaluation.verdict import CARE, FRESH, NUMBERS, Verdict, judge_errors
from marginalsyn.evaluation.verdict import FIT as FIT_FOR
from marginalsyn.evaluation.view import Item, Table, number
from marginalsyn.progress import Progress
from marginalsyn.table.decoding import numbers_of
from marginalsyn.table.design import ABSENT, CodedRows
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.schema import AnyColumn

STATISTICS = ("mean", "median", "5%", "95%")
LEVELS = (0.5, 0.05, 0.95)
# A quantile is right if the other rows have it so near its level: it jumps at values of many rows.
NEAR = 0.005
# A column's error is the largest of its statistics', in standard deviations of the real values.
FIT, UNFIT = 0.1, 0.3
_MEASURE = "error in standard deviations"
# Pairs of disjoint parts of the real rows, and the rows of a part, that show what chance does.
SPLITS, MOST_SPLIT = 8, 25_000
# Columns of the table on a terminal.
MOST_LINES = 12


class NumbersReport(Report):
    """Where numbers and dates lie: what people compute first of any table."""

    name = "numbers"
    title = "Numbers and dates"
    summary = "mean, median, 5% and 95% of every number and date, next to the real ones"
    place = 17

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        columns = [column for column in ground.schema.columns if column.numeric]
        if not columns or not len(ground.reference) or not len(case.synthetic):
            return None
        progress.report("numbers", text=case.name)
        rows = len(case.synthetic)
        fresh = ground.once(("numbers", rows), lambda: _chance(ground, rows, options.seed))
        found = []
        for column in columns:
            values, masses = _values(column, ground.reference)
            real, spread = _statistics(values, masses), values.std() if len(values) else 0.0
            made = [(w, _statistics(*_values(column, table))) for w, table in case.variants()]
            found.append(
                {
                    "column": column.name,
                    "real": _written(column, real),
                    "fresh": fresh.get(column.name),
                    "variants": [
                        {
                            "weights": weights,
                            **_written(column, one),
                            "error": _error(real, one, spread),
                        }
                        for weights, one in made
                    ],
                }
            )
        return {"columns": found}

    def facts(self, block: Block) -> Iterable[Fact]:
        for column in block["columns"]:
            for one in column["variants"]:
                item = called(column["column"], one["weights"])
                yield Fact(item, "error of numbers", one["error"])

    def verdict(self, block: Block) -> Verdict:
        lines = sorted(block["columns"], key=lambda line: -line["variants"][0]["error"])
        chance = [line["fresh"] for line in lines if line["fresh"] is not None]
        yardsticks = {FRESH: float(np.mean(chance))} if chance else {}
        own = [{v["weights"]: v["error"] for v in line["variants"]} for line in lines]
        errors = {weights: float(np.mean([one[weights] for one in own])) for weights in own[0]}
        uses = judge_errors(NUMBERS, errors, _MEASURE, yardsticks, (FIT, UNFIT))
        for place, use in enumerate(uses):
            most, column = max((line["variants"][place]["error"], line["column"]) for line in lines)
            if most >= UNFIT:
                word = CARE if use.word == FIT_FOR else use.word
                uses[place] = use._replace(word=word, note=f"{column} {number(most)}")
        return Verdict(uses=uses, worst={"numbers": [_named(line) for line in lines[:3]]})

    def brief(self, blocks: Blocks) -> Table | None:
        if len(blocks) > 1:
            errors = [(case, self.verdict(block).uses[0].value) for case, block in blocks.items()]
            return Table(("error of numbers, in standard deviations", "mean"), errors)
        table = _table(blocks)
        left = len(table.rows) - MOST_LINES
        rest = [[f"and {left} more"] + [""] * len(STATISTICS)] if left > 0 else []
        return Table(table.head, [*table.rows[:MOST_LINES], *rest])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        yield (
            "Each cell has the real rows' value, then the synthetic one's. Values beyond the "
            "schema's bounds count as the bounds, and missing ones are left out."
        )
        yield _table(blocks)


def _table(blocks: Blocks) -> Table:
    """A line for every column of every table, the columns that are farthest off first."""
    rows = []
    for case, block in blocks.items():
        for column in sorted(block["columns"], key=lambda c: -c["variants"][0]["error"]):
            for one in column["variants"]:
                name = column["column"] if len(blocks) == 1 else f"{case}: {column['column']}"
                cells = [
                    f"{number(column['real'][key])} / {number(one[key])}" for key in STATISTICS
                ]
                rows.append([called(name, one["weights"]), *cells])
    return Table(("real / synthetic", *STATISTICS), rows, fold="Means and quantiles")


def _named(line: Mapping[str, Any]) -> str:
    """A column with its statistics that are seen to be off."""
    one, real = line["variants"][0], line["real"]
    pairs = [(key, number(one[key]), number(real[key])) for key in STATISTICS]
    seen = [f"{key} {made}, really {true}" for key, made, true in pairs if made != true]
    text = f"{line['column']} {number(one['error'])}"
    return f"{text} ({'; '.join(seen)})" if seen else text


def _values(column: AnyColumn, table: CodedRows) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that are not missing, and their weights."""
    units = table.units[:, table.schema.names.index(column.name)]
    there = units != ABSENT
    return numbers_of(column, units[there]), table.masses[there]


def _statistics(values: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Mean and quantiles, at their levels, a little below and a little above; NaN where none is.

    A quantile is a value that occurs.
    """
    distinct, place = np.unique(values[masses > 0], return_inverse=True)
    if not len(distinct):
        return np.full((3, len(STATISTICS)), math.nan)
    counts = np.bincount(place, masses[masses > 0])
    reached = np.cumsum(counts) / counts.sum()
    places = np.searchsorted(reached, np.add.outer([0, -NEAR, NEAR], LEVELS))
    mean = np.full(3, distinct @ counts / counts.sum())
    return np.column_stack([mean, distinct[np.minimum(places, len(distinct) - 1)]])


def _error(real: np.ndarray, made: np.ndarray, spread: float) -> float:
    """The largest difference in standard deviations; 1 where one side has no values, or another.

    A quantile that the other rows have at a level nearby is no error.
    """
    gaps = [np.abs(a[0] - a[0].clip(*b[1:])) for a, b in ((real, made), (made, real))]
    worst = float(np.minimum(*gaps).max())
    if math.isnan(worst):
        return float(np.isnan(real).any() != np.isnan(made).any())
    return float(worst / spread if spread else worst > 0)


def _written(column: AnyColumn, found: np.ndarray) -> dict[str, Any]:
    """The statistics by name: dates as texts, nothing where there are no values."""
    moment = isinstance(column, MomentColumn)
    return {
        name: None if math.isnan(one) else column.bound(round(one)) if moment else one  # type: ignore[union-attr]
        for name, one in zip(STATISTICS, found[0].tolist(), strict=True)
    }


def _chance(ground: RealData, rows: int, seed: int) -> dict[str, float]:
    """The error of each column that as many fresh real rows would have, from parts of the rows.

    Errors fall with the root of the size, by which those between parts are scaled.
    """
    table, rng = ground.reference, np.random.default_rng([seed, 17])
    count = len(table)
    size = min(count // 2, MOST_SPLIT)
    if size < 2:
        return {}
    scale = math.sqrt((1 / count + 1 / rows) / (2 / size))
    groups = ground.persons if ground.persons is not None else np.arange(count)
    numbered = [rng.permutation(groups.max() + 1)[groups] for _ in range(SPLITS)]
    orders = [np.argsort(one, kind="stable") for one in numbered]
    found = {}
    for column, units in zip(table.schema.columns, table.units.T, strict=True):
        if not column.numeric:
            continue
        values = np.where(units == ABSENT, np.nan, numbers_of(column, units))
        masses = (units != ABSENT).astype(float)
        spread = float(np.nanstd(values)) if (units != ABSENT).any() else 0.0
        errors = []
        for order in orders:
            parts = order[:size], order[size : 2 * size]
            one, two = (_statistics(values[part], masses[part]) for part in parts)
            errors.append(_error(one, two, spread))
        found[column.name] = scale * float(np.mean(errors))
    return found
