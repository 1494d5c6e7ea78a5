"""Noised steps of training whose lots are fixed."""

from __future__ import annotations

import numpy as np

from marginalsyn.privacy.laws import Law, PoissonSample
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.weights.dp_sgd import Training


def knobs(**changes) -> Training:
    given = {
        "rate": 0.5,
        "steps": 3,
        "lot": 10,
        "clip_norm": 2.0,
        "noise_multiplier": 1.5,
        "learning_rate": 0.1,
    }
    return Training(**{**given, **changes})


class Fixed(SeededNoise):
    """Noise whose lots are the first three rows, however many there are."""

    def draw(self, law: Law, values: int | np.ndarray) -> np.ndarray:
        if isinstance(law, PoissonSample):
            return np.arange(3)[:values]
        return super().draw(law, values)
