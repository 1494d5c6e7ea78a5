"""Privacy arithmetic: charges, their composition, and the noise that a budget allows.

May touch: errors. No data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.budget.budget import Budget
    from marginalsyn.budget.charges import (
        ZCDP,
        Approximate,
        Charge,
        Guarantee,
        Neighbours,
        Pure,
        SubsampledGaussian,
        cost_under,
        covers,
        weakest,
    )
    from marginalsyn.budget.composition import Total, compose, explain_sum
    from marginalsyn.budget.noise_search import find_noise_multiplier
    from marginalsyn.budget.set_union import gaussian_tail, union_delta, union_threshold
    from marginalsyn.budget.zcdp import (
        DEFAULT_DELTA,
        LARGEST_DELTA,
        check_delta,
        check_eps,
        eps_of,
        exponential_eps,
        exponential_rho,
        gaussian_rho,
        gaussian_sigma,
        k_norm_eps,
        k_norm_rate,
        rho_of,
    )

__getattr__, __dir__ = faces(__name__)
