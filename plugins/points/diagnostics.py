"""Convergence figures of a group of chains, in plain JSON values.

They describe the chains that ran. Neither a small R-hat nor any other figure here bounds the
distance to the target for other data, so none of them is a privacy guarantee.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marginalsyn.plugins.points.driver import ChainRun


def _figures(draws: np.ndarray) -> dict[str, float | None]:
    """Rank-normalised split R-hat and effective sample sizes (Vehtari et al. 2021), or None."""
    from arviz_stats.base import array_stats

    if len(draws) == 1:  # a lone chain is compared with itself: its first half with its second
        half = draws.shape[-1] // 2
        draws = draws[:, : 2 * half].reshape(2, half)
    if draws.shape[-1] < 4 or np.ptp(draws) == 0:
        return {"rhat": None, "ess_bulk": None, "ess_tail": None}
    return {
        "rhat": float(array_stats.rhat(draws, method="rank")),
        "ess_bulk": float(array_stats.ess(draws, method="bulk")),
        # arviz-stats 1 has no default for the quantiles; these were 0.5's.
        "ess_tail": float(array_stats.ess(draws, method="tail", prob=(0.05, 0.95))),
    }


def summarise(run: ChainRun, *, trace: int = 100) -> dict[str, Any]:
    """R-hat, effective sample sizes, acceptance and energy traces of a run.

    ``energy`` has the figures of the energy, ``worst_mean`` those of the coordinate mean that
    mixes worst. At most ``trace`` energies per chain are kept.

    Example:
        >>> from marginalsyn.plugins.points.driver import Schedule, run_chains
        >>> from marginalsyn.plugins.points.kernels.random_walk import build_walk
        >>> from marginalsyn.plugins.points.law import make_law
        >>> rng = np.random.default_rng(0)
        >>> law = make_law(rng.random((50, 2)), coefficient=5.0, root=True)
        >>> schedule = Schedule.tuned(law.coefficient, steps=100, burn=50)
        >>> run = run_chains(build_walk(law, 3), rng, schedule)
        >>> summarise(run)["chains"]
        4
    """
    means = [_figures(run.means[:, :, c]) for c in range(run.means.shape[2])]
    worst = max(means, key=lambda figures: figures["rhat"] or 0.0, default={})
    every = max(run.energies.shape[1] // trace, 1)
    return {
        "chains": len(run.states),
        "acceptance": [round(float(a), 4) for a in run.acceptance],
        "step_sizes": run.step_sizes.tolist(),
        "energy": _figures(run.energies),
        "worst_mean": worst,
        "energy_trace": run.energies[:, ::every].tolist(),
    }
