"""The exact loss of one noised gradient step whose lot is sampled."""

from __future__ import annotations

import numpy as np

from marginalsyn.plugins.audit.enumeration import delta_between

_REACH = 14.0  # standard deviations that are integrated
_POINTS = 20_001


def step_eps(
    others: int, rate: float, multiplier: float, delta: float, *, per_row: bool, sign: float = 1.0
) -> float:
    """The eps at ``delta`` between a table and the same without its last row, after one step.

    Each of ``others`` rows has a clipped gradient of -1, the last row ``sign``; a step sums those
    of a Poisson lot and adds Gaussian noise of ``multiplier`` once, or, ``per_row``, once for every
    private row in the lot (Ghalebikesabi et al. 2022, Algorithm 1), so that an empty lot gets none.
    Found by integrating the mixtures over all sizes of the lot.

    Example:
        >>> round(step_eps(455, 1 / 910, 0.6, 1e-5, per_row=True), 2)
        5.07
    """
    from scipy.stats import binom, norm

    most = int(binom.isf(1e-16, others, rate)) + 2
    sizes = np.arange(most + 1)
    chances = binom.pmf(sizes, others, rate)
    far = multiplier * np.sqrt(most + 1) * _REACH + 1
    x = np.linspace(-most - far, far, _POINTS)
    width = x[1] - x[0]
    absent, present = np.zeros_like(x), np.zeros_like(x)
    alone = np.zeros(2)  # the probability of an output without noise, at 0
    for size, chance in zip(sizes, chances, strict=True):
        for joined, share in ((0, 1.0 - rate), (1, rate)):
            scale = multiplier * (np.sqrt(size + joined) if per_row else 1.0)
            if scale > 0:
                density = norm.pdf(x, -size + sign * joined, scale)
                present += chance * share * density
                if not joined:
                    absent += chance * density
            else:
                alone += chance * np.array([1.0, share])
    first, second = np.append(absent * width, alone[0]), np.append(present * width, alone[1])
    low, high = 0.0, 50.0
    for _ in range(50):
        middle = (low + high) / 2
        more = delta_between(first, second, middle) > delta
        low, high = (middle, high) if more else (low, middle)
    return high
