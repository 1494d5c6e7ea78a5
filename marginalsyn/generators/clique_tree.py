"""Clique tree: one private selection of marginals that one model can hold, measured once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Measurement, Plan, Synthesis, option
from marginalsyn.generators.batch_selection import NARROW, advise, forecast_chain
from marginalsyn.generators.candidate_errors import CandidateErrors
from marginalsyn.generators.marginals import MarginalKnobs, WorkloadGenerator
from marginalsyn.generators.workload import Columns, not_yet_known, strata_pairs
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.graphical.junction_tree import CliqueForest
from marginalsyn.graphical.one_way import L1_PER_CELL, OneWay, noise_l1
from marginalsyn.graphical.sampling import FIRM, MOST
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    # Loading it takes a while.
    from marginalsyn.graphical.chain_model import ChainModel


# Pairs with a stratum are measured unjudged, for a share by their sizes and those of all others, a
# part of which is expected to be measured. A tenth is left at least. What remains is split as
# without strata: the columns get less of it, which these pairs show too.
EXPECTED, MOST_FOR_STRATA = 0.4, 0.9
# An error grows with a cell's expected count to this power: between the 1/2 of chance and the 1 of
# fixed ratios.
DEVIATION = 0.75
# Steps of a fit that a chain goes on from.
_STEPS_BEFORE_CHAIN = 150
SWEEPS = (
    "Where more marginals pay than one model holds exactly, fit all by up to so many sweeps of a "
    "chain of rows. 0: never."
)


@dataclass(frozen=True, kw_only=True)
class CliqueTreeConfig(MarginalKnobs):
    """One selection, one round of measurements, one fit; for wide tables and large budgets.

    The idea of measuring a budgeted subset of a large clique tree is SWIFT's, of
    https://github.com/google/dpsynth; the selection and allocation here are our own.

    Example:
        >>> generator = CliqueTreeConfig(max_model_mb=20).configure(schema, Budget(eps=2.0))
        >>> round(generator.cost[0].cost.mu, 4)
        0.3515
    """

    name = "clique-tree"
    summary = "one round of measurements on a large clique tree; for wide tables"

    one_way_share: float = option(0.15, "Share of the budget for the one-way marginals.")
    select_share: float = option(
        0.1, "Share of the budget for choosing which marginals to measure."
    )
    sweeps: int = option(0, SWEEPS)

    def configure(self, schema: Schema, budget: Budget) -> CliqueTree:
        """Three shares: one-way marginals, judging, measuring."""
        return CliqueTree(config=self, schema=schema, budget=budget)


class CliqueTree(WorkloadGenerator):
    """The clique-tree generator with its budget split."""

    config: CliqueTreeConfig

    @property
    def strata(self) -> list[Columns]:
        """The pairs that strata need; none where columns are given by an earlier view."""
        config = self.config
        by = () if config.given or config.known else self.schema.by
        pairs = dict.fromkeys(strata_pairs(by, self.schema.names), 1.0)
        return [*not_yet_known(pairs, self.known)]

    @cached_property
    def split(self) -> dict[str, float]:
        """What the budget is split into, by public sizes."""
        config, domain, strata = self.config, self.schema.domain, self.strata
        # Each pair is served within all strata: a stratum's pair is part of all of these.
        pairs: list[Columns] = [*itertools.combinations(domain, 2)]
        price = {q: self.schema.size(q) ** (2 / 3) for q in pairs if strata}
        within = sum(price[q] for q in strata)
        others = EXPECTED * (sum(price.values()) - within)
        within *= max(len(domain) - 2, 1) ** (2 / 3)
        share = min(within / (within + others), MOST_FOR_STRATA) if strata else 0.0
        shares = {
            "one-way": config.one_way_share * self.asked_share * (1 - share),
            "select": config.select_share * (1 - share),
            **({"strata": share} if strata else {}),
        }
        shares["measure"] = 1 - sum(shares.values())
        return {purpose: share * self.budget.gaussian for purpose, share in shares.items()}

    @property
    def one_way_sigma(self) -> float:
        """The noise of the one-way marginals."""
        return self.sigma_for(self.split["one-way"] / self.columns_to_measure)

    @property
    def guess(self) -> float:
        """What the noise of a larger marginal will be, about."""
        return self.sigma_for(self.budget.gaussian / (2 * max(len(self.schema.names), 1)))

    def judge_sigma(self, candidates: int) -> float:
        """The noise on each of the ``candidates`` l1 errors; one row moves each by at most l1."""
        l2 = self.budget.neighbours.l1 * math.sqrt(max(candidates, 1))
        return gaussian_sigma(self.split["select"], l2)

    def candidates(
        self, domain: Mapping[str, int], strata: Collection[Columns]
    ) -> dict[Columns, float]:
        """What may be measured beyond columns and ``strata``, with the workload's weights."""
        every = self.workload(domain).candidates(domain, self.config.max_cells)
        every = {q: w for q, w in every.items() if len(q) > 1 and q not in strata}
        return not_yet_known(every, self.known)

    @property
    def plan(self) -> Plan:
        """The split and the noise, before anything is read."""
        config, domain = self.config, self.schema.domain
        candidates = self.candidates(domain, self.strata)
        more = self.may_sweep and pgm.model_mb(domain, list(candidates)) > self.model_mb
        return Plan(
            split=self.split,
            workload=tuple(self.workload(domain).marginals),
            model_mb=self.model_mb,
            facts={
                "candidates": len(candidates),
                "noise deviation of one-way marginals": round(self.one_way_sigma, 2),
                "noise deviation of judging": round(self.judge_sigma(len(candidates)), 2),
                **(forecast_chain(domain, config.sweeps) if more else {}),
                **self.purpose_facts,
            },
            warnings=advise(len(self.schema.names), CliqueTreeConfig.name),
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure, score the candidates, choose, measure, fit, draw."""
        one_way = self.measure_one_way(visit, progress=progress)
        return self.serve(visit, one_way, progress=progress)

    def measure_one_way(self, visit: Visit, *, progress: Progress) -> OneWay:
        """Measure the one-way marginals."""
        return self.one_way(visit, progress, self.one_way_sigma, self.guess)

    def serve(
        self,
        visit: Visit,
        one_way: OneWay,
        *,
        progress: Progress,
        chosen: Sequence[Columns] | None = None,
    ) -> Synthesis:
        """Spend what is left on larger marginals, fit and draw; ``chosen`` ones are not judged."""
        merged = visit.merged(one_way.compression.maps)
        known = self.known_pairs(visit, one_way)
        strata = []
        if chosen is None and self.strata:
            strata = self._measure_strata(merged, one_way, progress)
        known += strata
        model = self.fit(one_way, [*one_way.observed, *known])
        fits = self._room(one_way, [m.columns for m in strata])

        # Select, unless that is settled
        if chosen is None:
            candidates = self.candidates(one_way.domain, [m.columns for m in strata])
            errors = self._errors(visit, merged, model, list(candidates), progress)
            shares = self._selected(errors, candidates, visit.remaining, one_way, fits)
            inside: list[Columns] = []
            for q in shares:  # those that one tree holds, the best first
                if fits([*inside, q]):
                    inside.append(q)
        else:
            shares = {q: visit.remaining / len(chosen) for q in chosen}
            inside = list(shares)
        if not shares:  # nothing pays: what is left makes the single columns exact
            names = self.asked_columns
            shares = {(name,): visit.remaining / len(names) for name in names}
            inside = list(shares)

        # Measure
        observed, released = [*one_way.observed, *known], [*one_way.measurements, *strata]
        beyond: list[Measurement] = []
        merged.prepare(list(shares))
        for i, (columns, rho) in enumerate(shares.items()):
            progress.report(
                "measure", fraction=0.2 + 0.2 * i / len(shares), text=" x ".join(columns)
            )
            measured = merged.measure(columns, self.sigma_for(rho), purpose="measure")
            (observed if columns in inside else beyond).append(measured)
            released.append(measured)

        # Estimate
        progress.report("estimate", fraction=0.4, text=f"{len(observed)} marginals")
        steps = _STEPS_BEFORE_CHAIN if beyond else 1000
        model = self.fit(one_way, observed, warm=model, max_iters=steps)
        notes: dict[str, Any] = {}
        if beyond:
            from marginalsyn.graphical.chain_model import extend  # it compiles

            chain = extend(
                model,
                [*observed, *beyond],
                zeros=one_way.zeros_within(observed),
                sweeps=self.config.sweeps,
                rng=visit.noise.post,
                progress=progress,
            )
            notes["chain"] = describe_chain(chain, len(strata) + len(inside), len(beyond))
            if notes["chain"]["used"]:
                model = chain

        # Generate
        progress.report("generate", fraction=0.95, text="rows")
        notes["measured"] = [list(q) for q in [*(m.columns for m in strata), *shares]]
        return self.draw(visit, model, one_way, released, **notes)

    def _cells(self, queries: Iterable[Columns], one_way: OneWay) -> dict[Columns, int]:
        return {q: math.prod(one_way.domain[c] for c in q) for q in queries}

    def _shares(self, one_way: OneWay) -> dict[str, np.ndarray]:
        """The estimated shares of every column's codes."""
        return {
            m.columns[0]: project_to_simplex(np.asarray(m.values) / one_way.total)
            for m in one_way.observed
            if len(m.columns) == 1
        }

    def _measure_strata(
        self, merged: Visit, one_way: OneWay, progress: Progress
    ) -> list[Measurement]:
        """Measure single columns within strata, but where noise would be more than all rows.

        The fit shrinks each to the whole table's column, as far as noise may explain the rest.
        """
        progress.report("measure", fraction=0.0, text=f"{len(self.strata)} pairs with strata")
        fits, sizes = self._room(one_way), self._cells(self.strata, one_way)
        pairs: list[Columns] = []
        for q in sorted(sizes, key=lambda q: sizes[q]):
            if sizes[q] <= self.config.max_cells and fits([*pairs, q]):
                pairs.append(q)

        def sigma(q: Columns) -> float:
            share = sizes[q] ** (2 / 3) / sum(sizes[p] ** (2 / 3) for p in pairs)
            return self.sigma_for(self.split["strata"] * share)

        while pairs and noise_l1(sigma(pairs[-1]), sizes[pairs[-1]]) > one_way.total:
            pairs.pop()
        merged.prepare(pairs)
        return [merged.measure(q, sigma(q), purpose="strata") for q in pairs]

    def _selected(
        self,
        errors: Mapping[Columns, float],
        candidates: Mapping[Columns, float],
        rho: float,
        one_way: OneWay,
        fits: Callable[[Sequence[Columns]], bool],
    ) -> dict[Columns, float]:
        """The marginals that pay, with their shares: by noisy l1 errors of all at once."""
        l2 = self.budget.neighbours.l2
        pick = partial(choose, errors, candidates, rho=rho, l2=l2)
        spread: Mapping[Columns, float] = self._cells(candidates, one_way)
        shares = pick(spread, fits=fits)
        if not self.may_sweep:
            return shares
        if len({*candidates.values()}) < 2:  # else those that count more would get less
            spread = cells_of_errors(candidates, self._shares(one_way))
        beyond = pick(spread, fits=lambda cliques: True)
        if fits([*beyond]):
            return shares
        exact, swept = (
            expected_error(errors, candidates, spread, chosen, l2=l2) for chosen in (shares, beyond)
        )
        swept = math.hypot(swept, self._chance(candidates, one_way))
        return beyond if swept < exact else shares

    @property
    def may_sweep(self) -> bool:
        """Whether marginals beyond the tree may be measured: by public facts alone."""
        config = self.config
        plain = not (config.given or self.known) and config.estimator == "pulled"
        return config.sweeps > 0 and plain and len(self.schema.names) <= NARROW

    def _chance(self, candidates: Mapping[Columns, float], one_way: OneWay) -> float:
        """What drawing rows alone adds to the weighted l1 errors, by the single columns."""
        total = one_way.total
        roots = {c: float(np.sqrt(shares).sum()) for c, shares in self._shares(one_way).items()}
        within = self.schema.by if self.strata else ()
        # The rows of a fit are drawn together, to have its pairs; of more rows each by itself.
        rows = total / (1 if within or total > MOST else 1 + FIRM)
        return (
            L1_PER_CELL
            * math.sqrt(rows)
            * sum(
                w * math.prod(roots[c] for c in dict.fromkeys((*q, *within)))
                for q, w in candidates.items()
            )
        )

    def _errors(
        self,
        visit: Visit,
        merged: Visit,
        model: pgm.Fitted,
        candidates: Sequence[Columns],
        progress: Progress,
    ) -> dict[Columns, float]:
        """The model's l1 error on every candidate, with noise."""
        progress.report("select", fraction=0.1, text="judging marginals")
        if not candidates:
            return {}
        # Whole-number answers keep the errors whole: no rounding can raise their sensitivity.
        # Errors of persons are fractions, which are cut off: what moves by at most a whole number
        # moves by no more than that once it is cut off.
        errors = CandidateErrors(merged, candidates, model.domain).errors(
            model, candidates, whole=True
        )
        l2 = self.budget.neighbours.l1 * math.sqrt(len(candidates))
        noisy = visit.draw(
            visit.gaussian(self.judge_sigma(len(candidates))),
            errors.astype(np.int64),
            l2=l2,
            purpose="l1 errors of candidates",
        )
        return {q: float(e) for q, e in zip(candidates, noisy, strict=True)}

    def _room(
        self, one_way: OneWay, besides: Sequence[Columns] = ()
    ) -> Callable[[Sequence[Columns]], bool]:
        """Whether a model of some marginals, and others, is small enough; the last one is new.

        Of many columns each answer is a bound from the cliques so far, without a triangulation.
        """
        limit, zeros = self.model_mb, [*(columns for columns, _ in one_way.zeros), *besides]
        if len(one_way.domain) <= NARROW:
            return lambda cliques: pgm.model_mb(one_way.domain, [*cliques, *zeros]) <= limit
        place = {name: i for i, name in enumerate(one_way.domain)}
        sizes = list(one_way.domain.values())
        laid_out = [*zeros]
        forest = CliqueForest(sizes, [[place[c] for c in q] for q in laid_out])

        def fits(cliques: Sequence[Columns]) -> bool:
            nonlocal forest, laid_out
            before = [*zeros, *cliques[:-1]]
            if len(before) != len(laid_out):
                laid_out = before
                forest = CliqueForest(sizes, [[place[c] for c in q] for q in laid_out])
            added = forest.added([place[c] for c in cliques[-1]])
            return (forest.cells + added) * 8 / 2**20 <= limit

        return fits


def describe_chain(model: ChainModel, inside: int, beyond: int) -> dict[str, Any]:
    """What the statement says of a chain, in words and figures."""
    found = model.convergence
    left, chance = found["distance"], found["chance"]
    converged, used = left <= chance, left < found["start"]
    return {
        "text": (
            f"{beyond} of {inside + beyond} measured marginals did not fit an exact model: a chain "
            f"of rows was fitted to all, by {found['sweeps']:.0f} sweeps. Its marginals are "
            f"{left:.4f} from where they should be (the exact model's: {found['start']:.4f}), "
            f"{'less' if converged else 'more'} than the {chance:.4f} that drawing rows adds by "
            f"chance.{'' if used else ' The exact model was kept.'}"
        ),
        "beyond": beyond,
        "converged": converged,
        "used": used,
        **found,
    }


def cells_of_errors(
    queries: Iterable[Columns], shares: Mapping[str, np.ndarray]
) -> dict[Columns, float]:
    """How many cells the error of each marginal lies in, in effect: fewer than it has.

    A chain shrinks each cell by itself, so an error in few large cells is measured at less cost.
    Errors are taken to grow with the ``shares`` of independent columns to the power of 3/4, and
    e of them count as ``sum(e)^2 / sum(e^2)`` cells.

    Example:
        >>> shares = {"a": np.full(4, 0.25), "b": np.array([1.0, 0.0])}
        >>> round(cells_of_errors([("a", "b")], shares)["a", "b"], 6)
        4.0
    """
    size = {
        c: float((p**DEVIATION).sum() ** 2 / (p ** (2 * DEVIATION)).sum())
        for c, p in shares.items()
    }
    return {q: math.prod(size[c] for c in q) for q in queries}


def expected_error(
    errors: Mapping[Columns, float],
    weights: Mapping[Columns, float],
    cells: Mapping[Columns, float],
    shares: Mapping[Columns, float],
    *,
    l2: float,
) -> float:
    """The weighted l1 errors that are left where some marginals are measured for ``shares``."""
    unit = l2 / math.sqrt(math.pi)
    return sum(
        weights[q] * e / math.sqrt(1 + shares.get(q, 0.0) * (e / (unit * cells[q])) ** 2)
        for q, e in errors.items()
        if e > 0
    )


def choose(
    errors: Mapping[Columns, float],
    weights: Mapping[Columns, float],
    cells: Mapping[Columns, float],
    *,
    rho: float,
    l2: float,
    fits: Callable[[Sequence[Columns]], bool],
) -> dict[Columns, float]:
    """Choose marginals by gain per cost and split ``rho`` among them where the fit gains most.

    An error e, measured with noise n, is e n / sqrt(e^2 + n^2) after a shrunken fit: less than
    either. With rho for a marginal ``n = a / sqrt(rho)``, and the sum of all errors is least where
    ``rho = (a / e)^2 ((w e^3 / a^2)^(2/3) level - 1)``, at one level for those that get any. Gain
    per cost falls with the number before ``level``: the marginals are chosen in that order.

    Args:
        errors: The current model's (noisy) l1 error of every candidate, in rows.
        weights: Their weights in the workload.
        cells: Their numbers of cells, or how many an error lies in.
        rho: What may be spent.
        l2: The L2 sensitivity of one marginal.
        fits: Whether a model of the given marginals stays within its size limit.

    Returns:
        rho for every chosen marginal; the values add up to ``rho`` (empty if nothing pays).
    """
    unit = l2 / math.sqrt(math.pi)
    scale = {q: (unit * cells[q] / e) ** 2 for q, e in errors.items() if e > 0}
    rate = {q: (weights[q] * errors[q] / s) ** (2 / 3) for q, s in scale.items()}

    chosen, paid, whole = list[Columns](), rho, 0.0
    for q in sorted(scale, key=lambda q: (-rate[q], len(q), q)):
        if rate[q] * paid <= whole:
            break
        if fits([*chosen, q]):
            chosen.append(q)
            paid, whole = paid + scale[q], whole + scale[q] * rate[q]
    return {q: scale[q] * (rate[q] * paid / whole - 1) for q in chosen}
