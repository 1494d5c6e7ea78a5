"""MST: a maximum spanning tree of column pairs, chosen privately, measured once, fitted once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis
from marginalsyn.generators.batch_selection import forecast
from marginalsyn.generators.candidate_errors import CandidateErrors
from marginalsyn.generators.marginals import ESTIMATOR, MERGE, MarginalConfig, MarginalGenerator
from marginalsyn.generators.workload import Columns, not_yet_known
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class MSTConfig(MarginalConfig):
    """Maximum spanning tree: https://arxiv.org/abs/2108.04978 (McKenna, Miklau and Sheldon 2021).

    Example:
        >>> mst = MSTConfig().configure(schema, Budget(eps=1.0))
        >>> round(mst.cost[0].cost.mu, 4)
        0.182
    """

    name = "mst"
    summary = "a privately chosen spanning tree of column pairs; quick and small"
    takes_reference = True
    audit_options = {
        "merge": 0.0,
        # The worst tables of its selections are known for models that are not shrunken.
        "estimator": "built-in",
    }

    merge: float = MERGE
    estimator: str = ESTIMATOR

    def configure(self, schema: Schema, budget: Budget) -> MST:
        """A third each: one-way marginals, choosing the tree, its pairs."""
        return MST(config=self, schema=schema, budget=budget)


class MST(MarginalGenerator):
    """MST with its budget split."""

    config: MSTConfig

    @property
    def sigma(self) -> float:
        """The noise of every one-way marginal; the pairs' is about the same."""
        return self.sigma_for(self.budget.gaussian / 3 / max(len(self.schema.names), 1))

    @property
    def plan(self) -> Plan:
        """The split and the noise, before anything is read."""
        third = self.budget.gaussian / 3
        first = third * self.asked_share
        return Plan(
            split={"one-way": first, "select": third, "measure": 2 * third - first},
            workload=tuple(itertools.combinations(self.schema.names, 2)),
            facts={
                "noise deviation": round(self.sigma, 2),
                **forecast(self.schema.domain, self.config.rows, batches=False),
            },
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, choose, measure, fit, draw."""
        # Measure: one-way marginals
        one_way = self.one_way(visit, progress, self.sigma, self.sigma)
        merged = visit.merged(one_way.compression.maps)
        model = self.fit(one_way, one_way.observed)

        # Select: Kruskal's algorithm, each edge by the exponential mechanism
        progress.report("select", fraction=1 / 3, text="spanning tree")
        pairs = list(itertools.combinations(one_way.domain, 2))
        errors = CandidateErrors(merged, pairs, one_way.domain).errors(model, pairs)
        tree = self._tree(visit, dict(zip(pairs, errors.tolist(), strict=True)))
        tree = list(not_yet_known(dict.fromkeys(tree, 1.0), self.known))

        # Measure: the tree's pairs (or the only column, again) share what is left
        observed, released = list(one_way.observed), list(one_way.measurements)
        last = tree or [(name,) for name in self.asked_columns]
        merged.prepare(last)
        for i, pair in enumerate(last):
            sigma = self.sigma_for(visit.remaining / (len(last) - i))
            measured = merged.measure(pair, sigma, purpose="tree")
            observed.append(measured)
            released.append(measured)
            progress.report("measure", fraction=2 / 3, text=" x ".join(pair))

        # Estimate
        progress.report("estimate", fraction=0.8, text=f"{len(observed)} marginals")
        model = self.fit(one_way, observed)

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        return self.draw(visit, model, one_way, released, tree=[list(pair) for pair in tree])

    def _tree(self, visit: Visit, weights: Mapping[Columns, float]) -> list[Columns]:
        """A spanning tree of large weight; one row moves each weight by at most l1."""
        component = {name: name for name in self.schema.names}
        edges = len(component) - 1
        if edges < 1:
            return []
        eps = self.budget.selection_eps(self.budget.gaussian / 3 / edges)
        tree: list[Columns] = []
        for _ in range(edges):
            open_ = [q for q in weights if component[q[0]] != component[q[1]]]
            scores = np.array([weights[q] for q in open_])
            law = ExponentialMechanism(eps, sensitivity=self.budget.neighbours.l1)
            pick = visit.draw(law, scores, purpose="tree edge")
            a, b = open_[pick]
            tree.append((a, b))
            old, new = component[b], component[a]
            component = {k: new if v == old else v for k, v in component.items()}
        return tree
