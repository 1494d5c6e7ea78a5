"""Support points: energy distances, potentials, and the Markov chains over them.

May touch: table, budget, contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.points.chains import ChainRun, Law, make_target, run_chains
    from marginalsyn.points.couplings import meeting_times, total_variation_bound
    from marginalsyn.points.diagnostics import summarise
    from marginalsyn.points.energy import (
        distance_matrix,
        energy_distance,
        potential,
        self_distance,
        stream_potential,
    )
    from marginalsyn.points.expansion import keep_possible, parse_bandwidth, spread
    from marginalsyn.points.field import Field
    from marginalsyn.points.metric import Metric, PointSpace, check_norm
    from marginalsyn.points.slice_chains import fit_slices
    from marginalsyn.points.slices import Slices, public_slices
    from marginalsyn.points.support import support_points

__getattr__, __dir__ = faces(
    __name__,
    {
        "chains": (
            "ChainRun",
            "Law",
            "make_target",
            "run_chains",
        ),
        "couplings": (
            "meeting_times",
            "total_variation_bound",
        ),
        "diagnostics": ("summarise",),
        "energy": (
            "distance_matrix",
            "energy_distance",
            "potential",
            "self_distance",
            "stream_potential",
        ),
        "expansion": (
            "keep_possible",
            "parse_bandwidth",
            "spread",
        ),
        "field": ("Field",),
        "metric": (
            "Metric",
            "PointSpace",
            "check_norm",
        ),
        "slice_chains": ("fit_slices",),
        "slices": (
            "Slices",
            "public_slices",
        ),
        "support": ("support_points",),
    },
)
