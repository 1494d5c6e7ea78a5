"""PrivBayes: a Bayesian network, its parents chosen privately, its conditional tables noisy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Measurement, Model, Plan, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.generators.dependence import Dependence, Parents, ParentSets, levels
from marginalsyn.generators.marginals import MERGE, MarginalConfig, MarginalGenerator, whole_rows
from marginalsyn.graphical.bayes_net import BayesNet, Node, Parent
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.graphical.one_way import L1_PER_CELL, OneWay, draw_frame, summarise_one_way
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema

NOISES = ("gaussian", "laplace")
# Of the combinations of a table, however large the budget.
MOST_CELLS = 10**5


@dataclass(frozen=True, kw_only=True)
class PrivBayesConfig(MarginalConfig):
    """PrivBayes: https://doi.org/10.1145/3134428 (Zhang et al. 2017).

    Column after column joins the network, each with the set of parents on which it depends most
    among those sets that keep its table *theta-useful*: the average count of a cell is at least
    ``theta`` times the average size of its noise. The choices are made by the exponential
    mechanism; then every column's table with its parents is measured once. Parents of many codes
    may join coarsely. Two details are our own: the score uses released one-way marginals, which
    lowers its sensitivity, and Gaussian noise in zCDP is the default; with ``noise="laplace"`` the
    guarantee is pure, as in the paper.

    Example:
        >>> generator = PrivBayesConfig(noise="laplace").configure(schema, Budget(eps=1.0))
        >>> generator.cost[0].cost.eps
        1.0
    """

    name = "privbayes"
    takes_margins = 0
    summary = "a Bayesian network with privately chosen parents; quick, also delta 0"
    sample_where = None  # type: ignore[assignment]

    noise: str = option(
        "gaussian",
        "Noise on the counts: gaussian, or laplace as in the paper (delta is then 0).",
        choices=NOISES,
    )
    theta: float = option(
        4.0, "Use only tables whose average count is at least this many times the average noise."
    )
    parents: int = option(3, "Largest number of parents of a column.")
    candidates: int = option(
        2000,
        "How many sets of parents to compare when a column joins. If there are more, a random "
        "sample.",
    )
    one_way_share: float = option(0.2, "Share of the budget for the one-way marginals.")
    select_share: float = option(0.2, "Share of the budget for choosing parents.")
    merge: float = MERGE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise not in NOISES:
            raise UsageError(f"noise ({self.noise}) must be one of {', '.join(NOISES)}")
        if not 0 < self.theta < math.inf:
            raise UsageError(f"theta ({self.theta}) must be a number above 0")
        if not 0 <= self.parents <= 8:
            raise UsageError(f"parents ({self.parents}) must be from 0 to 8")
        if not 1 <= self.candidates <= 10**6:
            raise UsageError(f"candidates ({self.candidates}) must be from 1 to 1,000,000")

    def configure(self, schema: Schema, budget: Budget) -> PrivBayes:
        """Three shares: one-way marginals, choosing parents, measuring tables."""
        return PrivBayes(config=self, schema=schema, budget=budget)

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame:
        """More rows from the released network."""
        compression = Compression.from_arrays(schema.names, model.arrays)
        sizes = list(compression.domain.values())
        network, estimated = model.meta["network"], int(model.meta["rows"])
        fitted = BayesNet.read(network, model.arrays, sizes)
        return draw_frame(fitted, compression, schema, estimated if rows is None else rows, rng)


class PrivBayes(MarginalGenerator):
    """PrivBayes with its budget split; spends it all."""

    config: PrivBayesConfig

    @property
    def pure(self) -> bool:
        """Whether the budget is spent in eps, with delta 0."""
        return self.config.noise == "laplace"

    @cached_property
    def shares(self) -> dict[str, float]:
        """How the budget is split; one column has no parents to choose."""
        one_way = self.config.one_way_share
        select = self.config.select_share if len(self.schema.names) > 1 else 0.0
        return {"one-way": one_way, "select": select, "measure": 1 - one_way - select}

    @property
    def cost(self) -> tuple[Charge, ...]:
        """One charge for the whole run."""
        if not self.pure:
            return super().cost
        return (self.budget.charge(self.config.name, "generate", Pure(eps=self.budget.pure)),)

    def scale(self, purpose: str) -> float:
        """The noise of each marginal: as many share a purpose's budget as there are columns."""
        share = self.shares[purpose] / len(self.schema.names)
        if self.pure:
            return self.budget.neighbours.l1 / (share * self.budget.pure)
        return self.sigma_for(share * self.budget.gaussian)

    def deviation(self, purpose: str) -> float:
        """The standard deviation of that noise."""
        scale = self.scale(purpose)
        if not self.pure:
            return scale
        ratio = math.exp(-1 / scale)  # of neighbouring probabilities of the discrete Laplace law
        return max(math.sqrt(2 * ratio) / (1 - ratio), 1e-6)

    @property
    def select_eps(self) -> float:
        """The eps of each of the choices, one less than there are columns."""
        share = self.shares["select"] / (len(self.schema.names) - 1)
        return (
            share * self.budget.pure
            if self.pure
            else self.budget.selection_eps(share * self.budget.gaussian)
        )

    def limit(self, total: float) -> float:
        """The most cells of a theta-useful table: total / cells >= theta * mean |noise|."""
        size = self.scale("measure") * (1.0 if self.pure else L1_PER_CELL)
        return min(total / (self.config.theta * size), MOST_CELLS)

    @property
    def plan(self) -> Plan:
        """The split and the noise, before anything is read."""
        whole = self.budget.pure if self.pure else self.budget.gaussian
        return Plan(
            split={name: share * whole for name, share in self.shares.items()},
            workload=tuple((name,) for name in self.schema.names),
            facts={
                "noise deviation of one-way marginals": round(self.deviation("one-way"), 2),
                "noise deviation of the tables": round(self.deviation("measure"), 2),
            },
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure single columns, choose the network, measure its tables, draw rows."""
        # Measure: one-way marginals
        progress.report("measure", fraction=0.0, text="one-way marginals")
        singles = [self._measure(visit, (n,), {}, "one-way") for n in self.schema.names]
        one_way = summarise_one_way(
            visit, singles, sigma_next=self.deviation("measure"), merge=self.config.merge
        )
        counts = [project_to_simplex(m.values, one_way.total) for m in one_way.observed]
        columns = (self.schema.column(name) for name in one_way.domain)
        grouped = [levels(n, ordered=c.ordered) for n, c in zip(counts, columns, strict=True)]

        # Select: the next column and its parents, by the exponential mechanism
        shares = [c / one_way.total for c in counts]
        chosen = self._network(visit, one_way, shares, grouped, progress)

        # Measure, estimate: every column's table with its parents
        nodes, released = [], list(one_way.measurements)
        for number, (column, parents_of) in enumerate(chosen):
            done = 0.6 + 0.3 * number / len(chosen)
            progress.report("measure", fraction=done, text=self.schema.names[column])
            parents = tuple(Parent(c, grouped[c][level]) for c, level in parents_of)
            measured = self._table(visit, one_way.compression, column, parents)
            released.append(measured)
            (single,) = (m for m in one_way.observed if m.columns == (self.schema.names[column],))
            table = conditional(measured, shares[column], one_way.total, single)
            nodes.append(Node(column, parents, table))
        network = BayesNet(tuple(nodes))

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        return self._draw_synthesis(visit, network, one_way, released)

    def _network(
        self,
        visit: Visit,
        one_way: OneWay,
        shares: Sequence[np.ndarray],
        grouped: Sequence[Sequence[np.ndarray]],
        progress: Progress,
    ) -> list[tuple[int, Parents]]:
        """The columns in the order in which they joined, each with its parents."""
        names = self.schema.names
        merged = visit.merged(one_way.compression.maps)
        dependence = Dependence(shares, grouped)
        sets = ParentSets([[int(g.max()) + 1 for g in own] for own in grouped], self.config.parents)
        limit = self.limit(one_way.total)
        room = [limit / share.size for share in shares]
        # The label comes first, so that every other column may depend on it.
        label = self.schema.label
        root = names.index(label) if label else int(visit.noise.post.integers(len(names)))
        network: list[tuple[int, Parents]] = [(root, ())]
        free = [c for c in range(len(names)) if c != root]
        scores = dependence.scores(merged, {(): free}) if free else {}
        while free:
            # A column of one code, perhaps merged, tells nothing as a parent.
            joined = [column for column, _ in network if shares[column].size > 1]
            new: dict[Parents, list[int]] = {}
            if joined and joined[-1] == network[-1][0]:
                for column in free:
                    for parents in sets.with_column(joined[-1], joined[:-1], room[column]):
                        new.setdefault(parents, []).append(column)
            scores |= dependence.scores(merged, self._some(new, visit.noise.post))
            # A set that can now be extended has heirs among the new ones. No parents: always open.
            scores = {
                (parents, column): score
                for (parents, column), score in scores.items()
                if not parents or sets.largest(parents, joined, room[column])
            }
            keys = list(scores)
            law = ExponentialMechanism(self.select_eps, dependence.sensitivity(visit))
            pick = visit.draw(law, np.array([scores[key] for key in keys]), purpose="parents")
            parents, column = keys[pick]
            network.append((column, parents))
            free.remove(column)
            scores = {key: score for key, score in scores.items() if key[1] != column}
            progress.report(
                "select",
                fraction=0.1 + 0.5 * len(network) / len(names),
                text=f"{names[column]}: {len(keys)} candidates",
            )
        return network

    def _some(
        self, questions: dict[Parents, list[int]], rng: np.random.Generator
    ) -> dict[Parents, list[int]]:
        """The questions, or as many of them at random as may be asked."""
        flat = [(parents, column) for parents, columns in questions.items() for column in columns]
        if len(flat) <= self.config.candidates:
            return questions
        kept: dict[Parents, list[int]] = {}
        for i in np.sort(rng.choice(len(flat), self.config.candidates, replace=False)):
            kept.setdefault(flat[i][0], []).append(flat[i][1])
        return kept

    def _measure(
        self, visit: Visit, columns: tuple[str, ...], maps: Mapping[str, np.ndarray], purpose: str
    ) -> Measurement:
        """A noisy marginal over codes merged by ``maps``."""
        view = visit.merged(maps)
        if not self.pure:
            return view.measure(columns, self.scale(purpose), purpose=purpose)
        # Counts of persons are multiples of a power of two: whole numbers in its units.
        l1, whole = self.budget.neighbours.l1 * visit.whole, visit.whole
        counts = np.rint(view.counts(columns) * whole).astype(np.int64)
        noisy = view.draw(
            DiscreteLaplace(self.scale(purpose) * whole), counts, l1=l1, purpose=purpose
        )
        values = noisy if whole == 1 else noisy / whole
        return Measurement(
            columns=columns, values=values, sigma=self.deviation(purpose), purpose=purpose
        )

    def _table(
        self, visit: Visit, compression: Compression, column: int, parents: Sequence[Parent]
    ) -> Measurement:
        """The noisy counts of a column with its parents, which come first."""
        names, merges = self.schema.names, compression.merges
        maps = {names[p.column]: p.groups[merges[names[p.column]].groups] for p in parents}
        maps[names[column]] = merges[names[column]].groups
        columns = (*(names[p.column] for p in parents), names[column])
        return self._measure(visit, columns, maps, "measure")

    def _draw_synthesis(
        self, visit: Visit, network: BayesNet, one_way: OneWay, released: Sequence[Measurement]
    ) -> Synthesis:
        """Draw rows and pack what the release holds."""
        names = self.schema.names
        found = [
            {
                "column": names[node.column],
                "parents": {names[p.column]: p.size for p in node.parents},
            }
            for node in network.nodes
        ]
        model = Model(
            kind=self.config.name,
            arrays={**network.arrays(), **one_way.compression.arrays()},
            meta={"network": network.index(), "rows": whole_rows(one_way.total)},
        )
        return self.draw(visit, network, one_way, released, model=model, network=found)


def conditional(
    measured: Measurement, share: np.ndarray, total: float, single: Measurement
) -> np.ndarray:
    """P(column | parents) from noisy counts, and from the column alone, measured before.

    What a combination of parents departs from the column's own shares is shrunk by as much of
    it as is noise (James and Stein); combinations without rows are left with those shares.
    """
    sigma = float(measured.sigma)
    counts = np.asarray(measured.values, dtype=float).reshape(-1, share.size)
    if np.ndim(measured.values) == 1:  # no parents: the column was measured twice
        precision = np.square(sigma / np.asarray(single.sigma, dtype=float))
        counts = (counts + precision * single.values) / (1 + precision)
    else:
        expected = counts.sum(axis=1, keepdims=True) * share
        counts = expected + shrink_departures(counts - expected, sigma)
    counts = project_to_simplex(counts, total)
    mass = counts.sum(axis=1, keepdims=True)
    return np.where(mass > 0, counts, share) / np.where(mass > 0, mass, 1.0)


def shrink_departures(departures: np.ndarray, sigma: float) -> np.ndarray:
    """Each row of noisy departures from zero, shortened by what share of its square is noise."""
    square = np.square(departures).sum(axis=1, keepdims=True)
    noise = sigma**2 * (departures.shape[1] - 1)
    kept = 1 - np.divide(noise, square, out=np.ones_like(square), where=square > noise)
    return kept * departures
