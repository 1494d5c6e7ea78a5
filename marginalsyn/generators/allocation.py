"""Which marginals to measure in one round, and how much of the budget each one gets.

With noise sigma_q on n_q cells a measured marginal errs by about sqrt(2/pi) * sigma_q * n_q in l1;
left alone it errs by what the current model errs, err_q. To minimise the weighted sum for a fixed
set S, rho_q ~ (w_q n_q)^(2/3) (Lagrange). So adding q pays while w_q err_q exceeds the growth of
(sum over S of (w n)^(2/3))^(3/2) * l2 / sqrt(pi rho).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from marginalsyn.generators.workload import Columns


def choose(
    errors: Mapping[Columns, float],
    weights: Mapping[Columns, float],
    cells: Mapping[Columns, int],
    *,
    rho: float,
    l2: float,
    fits: Callable[[Sequence[Columns]], bool],
) -> dict[Columns, float]:
    """Choose marginals greedily by gain per cost and split ``rho`` among them.

    Args:
        errors: The current model's (noisy) l1 error of every candidate, in rows.
        weights: Their weights in the workload.
        cells: Their numbers of cells.
        rho: What may be spent.
        l2: The L2 sensitivity of one marginal.
        fits: Whether a model of the given marginals stays within its size limit.

    Returns:
        rho for every chosen marginal; the values add up to ``rho`` (empty if nothing pays).
    """
    unit = l2 / math.sqrt(math.pi * rho)
    price = {q: (weights[q] * cells[q]) ** (2 / 3) for q in errors}
    order = sorted(errors, key=lambda q: (-weights[q] * errors[q] / price[q], len(q), q))
    chosen: list[Columns] = []
    paid = 0.0
    for q in order:
        growth = unit * ((paid + price[q]) ** 1.5 - paid**1.5)
        if weights[q] * errors[q] > growth and fits([*chosen, q]):
            chosen.append(q)
            paid += price[q]
    return {q: rho * price[q] / paid for q in chosen}
