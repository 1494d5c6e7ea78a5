"""All marginals: noise on every marginal of up to d columns, then the table that fits them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Model, Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.generators.marginals import (
    MAX_CELLS,
    MAX_MODEL_MB,
    MERGE,
    MarginalConfig,
    MarginalGenerator,
    sample_model,
    sample_where,
    whole_rows,
)
from marginalsyn.generators.workload import Columns, not_yet_known
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.exact_margins import eased
from marginalsyn.graphical.one_way import draw_frame
from marginalsyn.graphical.soft_rows import SoftTable, fit_rows
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.conditions import Condition, kept_rows
from marginalsyn.table.schema import Schema

_NEAR = (
    "The public margins are fitted closely, not exactly: soft rows have as many numbers as rows."
)


@dataclass(frozen=True, kw_only=True)
class AllMarginalsConfig(MarginalConfig):
    """Zhou et al. 2024, section 3.2: https://proceedings.mlr.press/v235/zhou24i.html.

    Every marginal of 1 to ``degree`` columns gets the same Gaussian noise. With m columns there
    are sum over k of C(m, k) of them (the paper's bound m^d is too small for small m), and the
    noise is calibrated to exactly that many.

    Example:
        >>> generator = AllMarginalsConfig(degree=3).configure(schema, Budget(eps=1.0))
        >>> round(generator.cost[0].cost.mu, 4)
        0.182
    """

    name = "all-marginals"
    summary = "noise on every marginal of up to d columns, fitted by a table"
    audit_options = {"merge": 0.0, "steps": 20}

    degree: int = option(2, "Measure all marginals of up to this many columns.")
    max_cells: float = MAX_CELLS
    max_model_mb: float = MAX_MODEL_MB
    merge: float = MERGE
    fit: str = option(
        "auto",
        "What to fit: a graphical model, a table of soft rows, or auto (soft rows if the model "
        "would be too large).",
        choices=("auto", "pgm", "rows"),
    )
    soft_rows: int = option(1000, "Number of rows of the fitted table, with fit=rows.")
    steps: int = option(1000, "Number of gradient steps, with fit=rows.")

    def configure(self, schema: Schema, budget: Budget) -> AllMarginals:
        """Count the marginals and calibrate the noise to them."""
        if self.fit not in ("auto", "pgm", "rows"):
            raise UsageError(f"fit ({self.fit}) must be auto, pgm or rows")
        return AllMarginals(config=self, schema=schema, budget=budget)

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame:
        """More rows from the released model."""
        if "pgm" in model.meta:
            return sample_model(model, schema, rows, rng)
        names = model.meta["columns"]
        table = SoftTable({c: model.arrays[f"soft{j}"] for j, c in enumerate(names)}, 1.0)
        compression = Compression.from_arrays(names, model.arrays)
        return draw_frame(
            table, compression, schema, model.meta["rows"] if rows is None else rows, rng
        )

    @classmethod
    def sample_where(
        cls,
        model: Model,
        schema: Schema,
        rows: int | None,
        rng: np.random.Generator,
        conditions: Mapping[str, Condition],
    ) -> pd.DataFrame:
        """Rows that agree with conditions; of soft rows, those of many that do."""
        if "pgm" in model.meta:
            return sample_where(model, schema, rows, rng, conditions)
        return kept_rows(lambda n: cls.sample(model, schema, n, rng), schema, rows, conditions)


class AllMarginals(MarginalGenerator):
    """All marginals of up to ``degree`` columns, each with the same noise."""

    config: AllMarginalsConfig

    @cached_property
    def marginals(self) -> list[Columns]:
        """Every marginal that is measured, small orders first; none that is public."""
        domain, asked = self.schema.domain, {(name,) for name in self.asked_columns}
        every = (
            q
            for k in range(1, min(self.config.degree, len(domain)) + 1)
            for q in itertools.combinations(domain, k)
        )
        limit = self.config.max_cells
        fit = [q for q in every if len(q) == 1 or math.prod(domain[c] for c in q) <= limit]
        left = not_yet_known(dict.fromkeys(fit, 1.0), self.known)
        return [q for q in fit if q in asked or (len(q) > 1 and q in left)]

    @property
    def sigma(self) -> float:
        """sqrt(|Q| * l2^2 / (2 rho)): |Q| marginals of sensitivity l2 each."""
        l2 = self.budget.neighbours.l2 * math.sqrt(len(self.marginals))
        return gaussian_sigma(self.budget.gaussian, l2 or self.budget.neighbours.l2)

    @property
    def plan(self) -> Plan:
        """The marginals and their noise, before anything is read."""
        return Plan(
            split={"measure": self.budget.gaussian},
            workload=tuple(self.marginals),
            model_mb=pgm.model_mb(self.schema.domain, self.marginals),
            facts={"marginals": len(self.marginals), "noise deviation": round(self.sigma, 2)},
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, fit, draw."""
        # Measure
        progress.report("measure", fraction=0.0, text=f"{len(self.marginals)} marginals")
        one_way = self.one_way(visit, progress, self.sigma, self.sigma)
        merged = visit.merged(one_way.compression.maps)
        wanted = [q for q in self.marginals if len(q) > 1]
        merged.prepare(wanted)
        larger = [merged.measure(q, self.sigma, purpose="measure") for q in wanted]
        observed = [*one_way.observed, *larger]
        released = [*one_way.measurements, *larger]
        fit = self.config.fit
        if fit == "auto":
            size = pgm.model_mb(one_way.domain, self.marginals)
            fit = "pgm" if size <= self.config.max_model_mb else "rows"
        notes: dict[str, Any] = {"marginals": len(released), "fit": fit}

        # Estimate
        if fit == "pgm":
            progress.report("estimate", fraction=0.3, text=f"{len(observed)} marginals")
            fitted = self.fit(one_way, observed, estimator="built-in")
            return self.draw(visit, fitted, one_way, released, **notes)
        table = fit_rows(
            one_way.domain,
            eased(observed),
            total=one_way.total,
            rng=visit.noise.post,
            soft_rows=self.config.soft_rows,
            steps=self.config.steps,
            progress=progress,
        )

        # Generate
        soft = {f"soft{j}": p for j, p in enumerate(table.probabilities.values())}
        model = Model(
            kind=self.config.name,
            arrays={**soft, **one_way.compression.arrays()},
            meta={"columns": list(one_way.domain), "rows": whole_rows(one_way.total)},
        )
        warnings = [_NEAR] if one_way.margins else []
        return self.draw(visit, table, one_way, released, warnings, model, **notes)
