"""The independent generator: noisy one-way marginals, every column drawn on its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    Calibrated,
    GeneratorConfig,
    Model,
    Plan,
    Synthesis,
    check_rows,
    option,
)
from marginalsyn.errors import ReleaseError
from marginalsyn.graphical.estimation import (
    draw_possible,
    is_distribution,
    known_total,
    project_to_simplex,
    round_counts,
    warn_of_noise,
)
from marginalsyn.graphical.exact_margins import public_columns
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class IndependentConfig(GeneratorConfig):
    """One-way marginals only: the simplest private table, and the baseline for all others.

    Every column's counts are measured with discrete Gaussian noise (Canonne, Kamath and Steinke
    2020, https://arxiv.org/abs/2004.00010), each with an equal share of rho. No relation between
    columns survives. Where persons are counted, each column is measured together with the number of
    a person's rows: columns are independent given it, so that single columns of the rows come out
    right though persons with many rows differ from others.

    Example:
        >>> config = IndependentConfig(rows=1000)
        >>> config.configure(schema, Budget(eps=1)).plan.workload
        [('age',), ('ill',)]
    """

    name = "independent"
    summary = "one-way marginals only; columns are drawn independently"
    counts_persons = True
    takes_margins = 1

    rows: int | None = option(
        None, "Number of synthetic rows. [default: a noisy estimate of the number of private rows]"
    )

    def __post_init__(self) -> None:
        check_rows(self.rows)

    def configure(self, schema: Schema, budget: Budget) -> Independent:
        return Independent(config=self, schema=schema, budget=budget)

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame:
        for name in schema.names:
            shape = tuple(schema.domain[one] for one in _measured(schema, name))
            size, array = math.prod(shape), model.arrays.get(name)
            flat = None if array is None or array.shape != shape else array.ravel()
            if not is_distribution(flat, size):
                raise ReleaseError(f"model ({name}) must be a distribution over {size} codes")
        count = model.meta.get("rows", 0) if rows is None else rows
        check_rows(count)
        return _draw(model.arrays, schema, count, rng)


class Independent(Calibrated):
    """Calibrated: rho / d for each of d columns."""

    config: IndependentConfig

    @property
    def asked(self) -> list[str]:
        """The columns to be measured: one at least, which also gives the number of rows."""
        public = public_columns(self.schema)
        return [name for name in self.schema.names if name not in public] or self.schema.names[:1]

    @property
    def sigma(self) -> float:
        share = self.budget.gaussian / len(self.asked)
        return gaussian_sigma(share, l2=self.budget.neighbours.l2)

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"sigma": self.sigma, "marginals": len(self.asked)}
        return (self.budget.gaussian_charge("one-way marginals", details),)

    @property
    def plan(self) -> Plan:
        workload = [_measured(self.schema, name) for name in self.asked]
        cells = sum(self.schema.size(columns) for columns in workload)
        return Plan(
            split={"measure": self.budget.gaussian},
            workload=workload,
            model_mb=cells * 8 / 2**20,
            facts={"sigma": self.sigma, "cells": cells},
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        # Select: every column that is not public, whatever the data.
        names = self.asked

        # Measure.
        visit.prepare([(name,) for name in names])
        measurements = []
        for done, name in enumerate(names):
            progress.report("measure", fraction=done / len(names), text=name)
            columns = _measured(self.schema, name)
            measurements.append(visit.measure(columns, self.sigma, purpose="one-way marginal"))

        # Estimate.
        progress.report("estimate")
        total, spread = known_total(visit, measurements)
        arrays = {
            m.columns[-1]: project_to_simplex(m.values.ravel(), total).reshape(m.values.shape)
            / total
            for m in measurements
        } | public_columns(self.schema)

        # Generate.
        progress.report("generate")
        estimated = math.floor(total + 0.5)
        counted = total if self.schema.survey_weight else estimated  # rounded as a population
        return Synthesis(
            frame=_draw(arrays, self.schema, self.config.rows or estimated, visit.noise.post),
            measurements=measurements,
            model=Model(kind=self.config.name, arrays=arrays, meta={"rows": estimated}),
            warnings=warn_of_noise(total, spread),
            notes={"estimated_rows": counted, "estimated_rows_sd": spread},
        )


def _measured(schema: Schema, name: str) -> tuple[str, ...]:
    """What is measured of a column: itself, with the number of a person's rows if there is one."""
    return (*(other for other in schema.derived if other != name), name)


def _shares(part: np.ndarray) -> np.ndarray:
    """A distribution; even where nothing was seen of any value."""
    whole = float(part.sum())
    return part / whole if whole > 0 else np.full(part.size, 1 / part.size)


def _draw(
    arrays: Mapping[str, np.ndarray], schema: Schema, rows: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Rows whose columns are independent, each with its marginal up to rounding.

    Given the number of a person's rows where there is one.
    """

    def draw(n: int) -> np.ndarray:
        codes = np.empty((n, len(schema.names)), dtype=np.int32)
        groups = [np.arange(n)]
        for name in sorted(schema.names, key=lambda name: name not in schema.derived):
            place, size = schema.names.index(name), schema.domain[name]
            joint = arrays[name].ndim > 1
            given = [_shares(part) for part in arrays[name]] if joint else [arrays[name]]
            for rows, part in zip(groups, given, strict=True):
                counts = round_counts(part, len(rows), rng)
                values = np.repeat(np.arange(size, dtype=np.int32), counts)
                codes[rows, place] = rng.permutation(values)
            if name in schema.derived:
                groups = [np.flatnonzero(codes[:, place] == code) for code in range(size)]
        return codes

    return Codec(schema).decode(draw_possible(schema, rows, draw, rng), rng)
