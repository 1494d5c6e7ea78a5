"""Fixed marginals: the user's own list, measured once, fitted by Private-PGM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.generators.marginals import (
    ESTIMATOR,
    MAX_MODEL_MB,
    MERGE,
    MarginalConfig,
    MarginalGenerator,
)
from marginalsyn.generators.workload import Columns, Workload, not_yet_known
from marginalsyn.graphical import model as pgm
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class FixedMarginalsConfig(MarginalConfig):
    """The marginals of a file, or a star of label pairs: https://arxiv.org/abs/1901.09136.

    The paper is McKenna, Sheldon and Miklau 2019 (Private-PGM). Without ``marginals``, the pairs
    of every column with the label are measured; that needs a schema with a label.

    Example:
        >>> generator = FixedMarginalsConfig().configure(schema, Budget(eps=1.0))
        >>> round(generator.cost[0].cost.mu, 4)
        0.182
    """

    name = "fixed-marginals"
    summary = "your own list of marginals, or the label with every column"
    takes_reference = True

    marginals: str | None = option(
        None, "JSON file with the marginals to measure and their weights."
    )
    max_model_mb: float = MAX_MODEL_MB
    merge: float = MERGE
    estimator: str = ESTIMATOR

    one_way_share: float = option(0.2, "Share of the budget for the one-way marginals.")

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


class FixedMarginals(MarginalGenerator):
    """The user's marginals with the budget split among them."""

    config: FixedMarginalsConfig

    @cached_property
    def wanted(self) -> Mapping[Columns, float]:
        """The marginals of two columns or more, with their weights."""
        domain, label = self.schema.domain, self.schema.label
        if self.config.marginals is not None:
            weights = Workload.read(self.config.marginals, domain, self.schema.stand_ins).weights
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
        found = not_yet_known({q: w for q, w in weights.items() if len(q) > 1}, self.known)
        # Without the number of a person's rows a column would come out as persons have it.
        derived = self.schema.derived
        with_count = {name for q in found if derived & set(q) for name in q} | derived
        for name in [name for name in domain if derived and name not in with_count]:
            pair = tuple(other for other in domain if other in derived | {name})
            found[pair] = min(found.values(), default=1.0)
        return found

    @property
    def plan(self) -> Plan:
        """The list and the split, before anything is read."""
        whole = self.budget.gaussian
        return Plan(
            split={
                "one-way": (first := self.config.one_way_share * self.asked_share) * whole,
                "measure": (1 - first) * whole,
            },
            workload=tuple(self.wanted),
            model_mb=pgm.model_mb(self.schema.domain, list(self.wanted)),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, fit, draw."""
        rho, share = self.budget.gaussian, self.config.one_way_share

        # Measure: one-way marginals, then the list
        sigma = self.sigma_for(share * rho / len(self.schema.names))
        sigma_next = self.sigma_for((1 - share) * rho / max(len(self.wanted), 1))
        one_way = self.one_way(visit, progress, sigma, sigma_next)
        kept = self._small(one_way.domain)
        size = pgm.model_mb(one_way.domain, list(kept))
        # Where none is kept, the single columns are measured once more.
        weights = kept or {(name,): 1.0 for name in self.asked_columns}
        unit = visit.remaining / (sum(weights.values()) or 1.0)
        shares = {q: unit * w for q, w in weights.items()}
        merged = visit.merged(one_way.compression.maps)
        observed, released = list(one_way.observed), list(one_way.measurements)
        merged.prepare(list(shares))
        for q, part in shares.items():
            progress.report("measure", fraction=0.3, text=" x ".join(q))
            measured = merged.measure(q, self.sigma_for(part), purpose="measure")
            observed.append(measured)
            released.append(measured)

        # Estimate
        progress.report("estimate", fraction=0.4, text=f"model of {size:.1f} MB")
        model = self.fit(one_way, observed)

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        measured_sets = [list(q) for q in kept]
        gone = [" x ".join(q) for q in self.wanted if q not in kept]
        warning = (
            f"{len(gone)} marginal(s) were not measured, since the model would have become larger "
            f"than max_model_mb ({self.config.max_model_mb:g}): {', '.join(gone[:5])}"
            + (" ..." if len(gone) > 5 else "")
        )
        warnings = [warning] if gone else []
        return self.draw(visit, model, one_way, released, warnings, measured=measured_sets)

    def _small(self, domain: Mapping[str, int]) -> dict[Columns, float]:
        """The list as far as its model stays within the size limit, heavy marginals first."""
        kept: list[Columns] = []
        for q in sorted(self.wanted, key=lambda q: -self.wanted[q]):
            if pgm.model_mb(domain, [*kept, q]) <= self.config.max_model_mb:
                kept.append(q)
        return {q: w for q, w in self.wanted.items() if q in kept}
