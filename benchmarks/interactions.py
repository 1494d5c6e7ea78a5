"""What clique-tree would gain by measuring interactions alone: a prototype, simulated, not private.

    python benchmarks/interactions.py --tables telco adult german --eps 0.5 1 2 --releases 5
    python benchmarks/interactions.py --coded TABLE.csv DOMAIN.json LABEL --eps 1

A noisy pair pays for its columns' counts again, which single columns know already. Its interaction
(what is left when the means along both axes are taken off) changes by
``sqrt((1 - 1/a) (1 - 1/b))`` in place of 1 when a row comes or goes, a and b being the columns'
sizes: half the price for two columns of a binary label's pairs, a quarter for two binary columns.
Contrasts of whole numbers that are orthogonal to each other (Helmert's) would be drawn for it, each
with the noise of its own norm, so that rounded Gaussian noise and its exact price serve. Columns
get a second answer from what is saved, as large as the predicted errors advise.

The script adds Gaussian noise of that deviation to whole pairs and lets the fit use nothing but the
interaction, which is the same law. It prints today's rows and the prototype's, without chains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from auto import Judge, judges, parser_of

from marginalsyn.contract import Measurement
from marginalsyn.generators.clique_tree import CliqueTree, choose, expected_error
from marginalsyn.generators.workload import Columns
from marginalsyn.graphical import shrunken_fit
from marginalsyn.graphical.one_way import L1_PER_CELL

# Shares of what is left for a second answer about columns that are tried, and how much an error of
# a column counts next to one of a pair. The second was compared on COMPAS, German and Telco.
SHARES, COLUMNS_COUNT = (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), 0.6
_serve, _selected, _answered = CliqueTree.serve, CliqueTree._selected, shrunken_fit._answered


def price(columns: Columns, domain: Mapping[str, int]) -> float:
    """How much a row changes a pair's interaction.

    Example:
        >>> price(("a", "b"), {"a": 2, "b": 2})
        0.5
    """
    left = math.prod(1 - 1 / domain[c] for c in columns)
    return math.sqrt(left) if len(columns) == 2 and left > 0 else 1.0


class Prototype:
    """One run of clique-tree whose pairs are interactions; it has the exact counts."""

    def __init__(self, seed: int) -> None:
        self.rng, self.columns = np.random.default_rng(seed), 0.0

    def noisy(self, visit: Any, columns: Columns, sigma: float) -> Measurement:
        """Counts with noise."""
        counts = np.asarray(visit.counts(columns), dtype=float)
        values = counts + self.rng.normal(0.0, sigma, counts.shape)
        return Measurement(columns=tuple(columns), values=values, sigma=sigma, purpose="measure")

    def serve(self, mechanism: CliqueTree, visit: Any, one_way: Any, **how: Any) -> Any:
        """Measure by this prototype, unless all marginals are settled."""
        if how.get("chosen") is not None:
            return _serve(mechanism, visit, one_way, **how)
        prototype, merged = self, visit.merged(one_way.compression.maps)

        def selected(self, errors, candidates, rho, one_way, fits):
            return prototype.selected(self, merged, errors, candidates, rho, one_way, fits)

        def measured(columns, sigma, purpose=""):
            return prototype.noisy(merged, columns, sigma * price(columns, one_way.domain))

        CliqueTree._selected = selected
        merged.measure = measured
        real, visit.merged = visit.merged, lambda maps: merged
        shrunken_fit._answered = lambda column, size, targets: _answered(
            column, size, {q: t for q, t in targets.items() if len(q) == 1}
        )
        try:
            return _serve(mechanism, visit, one_way, **how)
        finally:
            CliqueTree._selected, shrunken_fit._answered = _selected, _answered
            visit.merged = real

    def selected(
        self,
        mechanism: CliqueTree,
        merged: Any,
        errors: Mapping[Columns, float],
        candidates: Mapping[Columns, float],
        rho: float,
        one_way: Any,
        fits: Any,
    ) -> dict[Columns, float]:
        """The pairs that pay, with their shares, after a second answer about the columns."""
        domain, shares = one_way.domain, mechanism._shares(one_way)
        first = mechanism.split["one-way"] / mechanism.columns_to_measure
        weight = {c: sum(w for q, w in candidates.items() if c in q) for c in domain}
        cells = mechanism._cells(candidates, one_way)
        spread = {q: n * price(q, domain) for q, n in cells.items()}
        above = {
            c: 1 + int((p * one_way.total > mechanism.sigma_for(first)).sum())
            for c, p in shares.items()
        }
        parts = {c: (weight[c] * above[c]) ** (2 / 3) for c in shares}
        parts = {c: part / sum(parts.values()) for c, part in parts.items()}
        l2 = mechanism.budget.neighbours.l2

        def left(share: float) -> tuple[float, dict[Columns, float]]:
            chosen = choose(errors, candidates, spread, rho=rho * (1 - share), l2=l2, fits=fits)
            found = expected_error(errors, candidates, spread, chosen, l2=l2)
            for c, p in shares.items():
                sigma = mechanism.sigma_for(first + share * rho * parts[c])
                noise = np.minimum(L1_PER_CELL * sigma, p * one_way.total)
                found += COLUMNS_COUNT * weight[c] * float(noise.sum())
            return found, chosen

        found = {share: left(share) for share in SHARES}
        self.columns = min(found, key=lambda share: found[share][0])
        if self.columns:
            again = [
                self.noisy(merged, (c,), mechanism.sigma_for(self.columns * rho * parts[c]))
                for c in shares
            ]
            object.__setattr__(one_way, "observed", [*one_way.observed, *again])
        return found[self.columns][1]


def compare(judge: Judge, eps: float, seed: int) -> tuple[tuple[float, ...], ...]:
    """Excess and two-way TV of today's release and of the prototype's, and its columns' share."""
    now, prototype = judge.release("auto", eps, seed, sweeps=0), Prototype(seed)
    CliqueTree.serve = lambda self, *visit, **how: prototype.serve(self, *visit, **how)
    try:
        then = judge.release("auto", eps, seed, sweeps=0)
    finally:
        CliqueTree.serve = _serve
    return now[:2], (*then[:2], prototype.columns)


def main() -> None:
    """Print a line a table and budget."""
    args = parser_of(__doc__, releases=5).parse_args()
    print("| table | eps | two-way TV: now, prototype, ratio | linear excess | columns again |")
    print("|---|---|---|---|---|")
    for name, judge in judges(args):
        for eps in args.eps:
            runs = [compare(judge, eps, 100 + s) for s in range(args.releases)]
            now, then = (np.array([run[i] for run in runs]) for i in (0, 1))
            tv, before = then[:, 1].mean(), now[:, 1].mean()
            print(
                f"| {name} | {eps:g} | {before:.4f}, {tv:.4f}, {tv / before:.3f} "
                f"| {now[:, 0].mean():.4f}, {then[:, 0].mean():.4f} | {then[:, 2].mean():.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
