"""Protective noise: the only room that draws it, and the only one that imports OpenDP.

May touch: errors, budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.noise.k_norm import MAX_DIM, KNorm
    from marginalsyn.noise.laws import DiscreteGaussian, DiscreteLaplace, Law, PoissonSample
    from marginalsyn.noise.noise import Noise, SeededNoise, make_noise
    from marginalsyn.noise.recorded_laws import (
        DRAWN,
        LAWS,
        UNRECORDED,
        Sampler,
        Used,
        libraries_of,
        merge,
        samplers,
        used_of,
    )
    from marginalsyn.noise.rounded_normal import RoundedGaussian
    from marginalsyn.noise.selection import ExponentialMechanism
    from marginalsyn.noise.streams import (
        Key,
        PostStream,
        SecretStream,
        need_key,
        need_secret,
        sip_hash,
    )

__getattr__, __dir__ = faces(__name__)
