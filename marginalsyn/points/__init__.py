"""Support points: energy distances, potentials, and the Markov chains over them.

May touch: table, budget, contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.points.driver import ChainRun, Schedule, run_chains, summarise
    from marginalsyn.points.expansion import keep_possible, parse_bandwidth, spread
    from marginalsyn.points.field import Field
    from marginalsyn.points.fitting import (
        fit_field,
        fit_slices,
        mixed_support_points,
        support_points,
    )
    from marginalsyn.points.fourier_features import RandomFourierFeatures
    from marginalsyn.points.grid import Grid
    from marginalsyn.points.kernels.candidates import candidate_log_density, make_candidate_law
    from marginalsyn.points.kernels.random_walk import Law, build_walk, make_law
    from marginalsyn.points.slices import Slices, public_slices

__getattr__, __dir__ = faces(__name__)
