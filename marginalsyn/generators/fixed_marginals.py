"""Fixed marginals: the user's own list, measured once, fitted by Private-PGM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from marginalsyn.budget import Budget, Charge, gaussian_sigma
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.generators.marginals import (
    ESTIMATOR,
    MAX_MODEL_MB,
    MERGE,
    ROWS,
    check_knobs,
    draw_synthesis,
    fit_model,
    measure_one_way,
    sample_model,
    sample_where,
    whole_charge,
)
from marginalsyn.generators.workload import Columns, Workload
from marginalsyn.graphical import model as pgm

if TYPE_CHECKING:
    from marginalsyn.private import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table import Schema


@dataclass(frozen=True, kw_only=True)
class FixedMarginalsConfig:
    """The marginals of a file, or a star of label pairs: https://arxiv.org/abs/1901.09136.

    The paper is McKenna, Sheldon and Miklau 2019 (Private-PGM). Without ``marginals``, the pairs
    of every column with the label are measured; that needs a schema with a label.

    Example:
        >>> generator = FixedMarginalsConfig().configure(schema, Budget(eps=1.0))
        >>> round(generator.cost[0].cost.rho, 4)
        0.015
    """

    name: ClassVar[str] = "fixed-marginals"
    summary: ClassVar[str] = "your own list of marginals, or the label with every column"
    audit_options: ClassVar[Mapping[str, Any]] = {"merge": 0.0}

    rows: int | None = ROWS
    marginals: str | None = option(
        None, "JSON file with the marginals to measure and their weights."
    )
    max_model_mb: float = MAX_MODEL_MB
    merge: float = MERGE
    estimator: str = ESTIMATOR
    counts_persons: ClassVar[bool] = True

    one_way_share: float = option(0.2, "Share of the budget for the one-way marginals.")

    sample = staticmethod(sample_model)
    sample_where = staticmethod(sample_where)

    def __post_init__(self) -> None:
        check_knobs(self)

    def configure(self, schema: Schema, budget: Budget) -> FixedMarginals:
        """Check the list and its model's size; split the budget by weight."""
        mechanism = FixedMarginals(config=self, schema=schema, budget=budget)
        size = pgm.model_mb(schema.domain, list(mechanism.wanted))
        if self.merge <= 0 and size > self.max_model_mb:
            raise UsageError(
                f"max_model_mb ({self.max_model_mb:g}) must be {math.ceil(size)} or more for these "
                "marginals; leave some out, or give columns fewer bins"
            )
        return mechanism


@dataclass(frozen=True, kw_only=True)
class FixedMarginals:
    """The user's marginals with the budget split among them."""

    config: FixedMarginalsConfig
    schema: Schema
    budget: Budget

    @cached_property
    def wanted(self) -> Mapping[Columns, float]:
        """The marginals of two columns or more, with their weights."""
        domain, label = self.schema.domain, self.schema.label
        if self.config.marginals is not None:
            weights = Workload.read(self.config.marginals, domain).weights
        elif len(domain) == 1:
            weights = {}
        elif label is not None:
            pairs = [[name, label] for name in domain if name != label]
            weights = Workload.of(pairs, domain).weights
        else:
            raise UsageError(
                "marginals (None) must be a JSON file for a schema without a label; name one with "
                "--marginals, or a label with --label"
            )
        found = {q: w for q, w in weights.items() if len(q) > 1}
        for name in self._bare(found):
            # Without it a column would come out as persons have it, not as rows do.
            order = {other: at for at, other in enumerate(domain)}
            pair = tuple(sorted([name, *self.schema.derived], key=order.__getitem__))
            found[pair] = min(found.values(), default=1.0)
        return found

    def _bare(self, found: Mapping[Columns, float]) -> list[str]:
        """Columns that no marginal has together with the number of a person's rows."""
        derived = self.schema.derived
        with_count = {name for q in found if derived & set(q) for name in q} | derived
        return [name for name in self.schema.names if derived and name not in with_count]

    @cached_property
    def cost(self) -> tuple[Charge, ...]:
        """One charge for the whole run."""
        return whole_charge(FixedMarginalsConfig.name, self.budget)

    @property
    def plan(self) -> Plan:
        """The list and the split, before anything is read."""
        return Plan(
            split={
                "one-way": self.config.one_way_share * self.budget.rho,
                "measure": (1 - self.config.one_way_share) * self.budget.rho,
            },
            workload=tuple(self.wanted),
            model_mb=pgm.model_mb(self.schema.domain, list(self.wanted)),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, fit, draw."""
        rho, l2 = self.budget.rho, self.budget.neighbours.l2
        share = self.config.one_way_share

        # Measure: one-way marginals, then the list
        progress.report("measure", fraction=0.0, text="one-way marginals")
        look = measure_one_way(
            visit,
            sigma=gaussian_sigma(share * rho / len(self.schema.names), l2),
            sigma_next=gaussian_sigma((1 - share) * rho / max(len(self.wanted), 1), l2),
            merge=self.config.merge,
        )
        kept = self._small(look.domain)
        size = pgm.model_mb(look.domain, list(kept))
        # Where none is kept, the single columns are measured once more.
        weights = kept or {(name,): 1.0 for name in look.domain}
        unit = visit.remaining / sum(weights.values())
        shares = {q: unit * w for q, w in weights.items()}
        merged = visit.merged(look.compression.maps)
        observed, released = list(look.observed), list(look.measurements)
        merged.prepare(list(shares))
        for q, part in shares.items():
            progress.report("measure", fraction=0.3, text=" x ".join(q))
            measured = merged.measure(q, gaussian_sigma(part, l2), purpose="measure")
            observed.append(measured)
            released.append(measured)

        # Estimate
        progress.report("estimate", fraction=0.4, text=f"model of {size:.1f} MB")
        model = fit_model(self.config.estimator, look, observed)

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        return draw_synthesis(
            visit,
            model,
            look,
            rows=self.config.rows,
            measurements=released,
            kind=FixedMarginalsConfig.name,
            notes={"measured": [list(q) for q in kept]},
            warnings=self._left_out(kept),
        )

    def _small(self, domain: Mapping[str, int]) -> dict[Columns, float]:
        """The list as far as its model stays within the size limit, heavy marginals first."""
        kept: list[Columns] = []
        for q in sorted(self.wanted, key=lambda q: -self.wanted[q]):
            if pgm.model_mb(domain, [*kept, q]) <= self.config.max_model_mb:
                kept.append(q)
        return {q: w for q, w in self.wanted.items() if q in kept}

    def _left_out(self, kept: Mapping[Columns, float]) -> list[str]:
        """Say which marginals were not measured."""
        gone = [" x ".join(q) for q in self.wanted if q not in kept]
        if not gone:
            return []
        return [
            f"{len(gone)} marginal(s) were not measured, since the model would have become larger "
            f"than max_model_mb ({self.config.max_model_mb:g}): {', '.join(gone[:5])}"
            + (" ..." if len(gone) > 5 else "")
        ]
