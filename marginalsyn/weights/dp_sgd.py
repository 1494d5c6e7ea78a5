"""A small network trained by clipped, noised gradient steps: DP-SGD for classifying rows.

A step draws a Poisson lot of the private rows at a public rate and sums their clipped gradients;
adds Gaussian noise once, whatever the lot holds, nothing included; adds the gradients of synthetic
rows, which are public; and divides by a public number. Two engines clip: numpy
(:mod:`marginalsyn.weights.per_row`) and TensorFlow Privacy
(:mod:`marginalsyn.plugins.networks.tensorflow_engine`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marginalsyn.privacy.laws import PoissonSample
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.weights.dense import Adam, check_number
from marginalsyn.weights.per_row import RowNetwork

# Private gradients are summed in float64 and rounded to multiples of the clipping norm's 2^-20.
GRID_BITS = 20


@dataclass(frozen=True, kw_only=True)
class Training:
    """Public knobs of a training run.

    Attributes:
        rate: the probability with which a step uses a private row.
        steps: how many steps.
        lot: what gradients are divided by, and the number of synthetic rows in a step.
        clip_norm: of every row's gradient.
        noise_multiplier: the noise's standard deviation over ``clip_norm``.
        learning_rate: of Adam.
    """

    rate: float
    steps: int
    lot: int
    clip_norm: float
    noise_multiplier: float
    learning_rate: float

    def __post_init__(self) -> None:
        check_number("rate", self.rate, 1e-12, 1)
        check_number("steps", self.steps, 1, 10**6, whole=True)
        check_number("lot", self.lot, 1, 2**40, whole=True)
        check_number("clip_norm", self.clip_norm, 1e-6, 1e6)
        check_number("noise_multiplier", self.noise_multiplier, 1e-6, 3e4)
        check_number("learning_rate", self.learning_rate, 1e-6, 10)


def noise_steps(training: Training, parameters: int) -> float:
    """The noise's standard deviation in units of the grid on which gradients are rounded.

    Rounding moves each coordinate of a sum by at most half a step and float64 summation by far
    less, so two neighbouring sums differ by at most clip_norm + 2 sqrt(P) steps.
    """
    return training.noise_multiplier * (2.0**GRID_BITS + 2 * math.sqrt(parameters))


class Inputs(Protocol):
    """Rows of a network's inputs, read by position; an array is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: np.ndarray) -> np.ndarray: ...


class Persons:
    """Rows of persons: each person is sampled, summed and clipped as one.

    A person's rows weigh 1 together. Each row's gradient is clipped and weighted, so what a person
    adds to a sum is no longer than the clipping norm, and the noise is that of single rows.

    Args:
        rows: all rows' inputs.
        weights: of the rows.
        numbers: of the rows' persons, from 0 on, none left out.
    """

    def __init__(self, rows: Inputs, weights: np.ndarray, numbers: np.ndarray) -> None:
        self._rows, self._weights = rows, weights
        self._order = np.argsort(numbers, kind="stable")
        self._ends = np.cumsum(np.bincount(numbers)) if len(numbers) else np.zeros(0, dtype=int)

    def __len__(self) -> int:
        return len(self._ends)

    def parts(self, lot: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """The rows of some persons, those of the same weight together."""
        starts = np.concatenate([[0], self._ends])
        spans = [self._order[starts[one] : starts[one + 1]] for one in lot]
        rows = np.concatenate([np.zeros(0, dtype=np.intp), *spans])
        for weight in np.unique(self._weights[rows]):
            yield float(weight), self._rows[rows[self._weights[rows] == weight]]


def train(
    network: RowNetwork,
    private: Inputs | Persons,
    synthetic: Inputs,
    training: Training,
    noise: Noise,
    report: Callable[[int], None],
) -> None:
    """Train; the network ends with its parameters averaged over the second half of the steps."""
    rng = noise.post
    parameters = network.parameters
    mean, kept = np.zeros(network.size), 0
    adam = Adam(network.size, training.learning_rate)
    for step in range(training.steps):
        report(step)
        picked = rng.integers(0, max(len(synthetic), 1), min(training.lot, len(synthetic)))
        gradient = joint_gradient(network, private, synthetic[picked], training, noise)
        parameters = parameters - adam.move(gradient)
        network.assign(parameters)
        if step >= training.steps // 2:
            mean, kept = mean + parameters, kept + 1
    network.assign(mean / kept)


def joint_gradient(
    network: RowNetwork,
    private: Inputs | Persons,
    synthetic: np.ndarray,
    training: Training,
    noise: Noise,
) -> np.ndarray:
    """A step's gradient: noisy for private rows, exact for synthetic ones, weighted equally."""
    gradient = private_gradient(network, private, training, noise)
    scale = training.lot / max(len(synthetic), 1)
    gradient += scale * network.clipped_sum(synthetic, 0.0, training.clip_norm)
    return gradient / training.lot


def private_gradient(
    network: RowNetwork, private: Inputs | Persons, training: Training, noise: Noise
) -> np.ndarray:
    """Sum the lot's clipped gradients and add noise: the only place where private rows enter."""
    grid = training.clip_norm * 2.0**-GRID_BITS
    sums = np.zeros(network.size, dtype=np.int64)
    # A resumed run reads its first steps' answers from the journal and draws no lots for them.
    if not noise.known:
        lot = noise.draw(PoissonSample(training.rate), len(private))
        parts = private.parts(lot) if isinstance(private, Persons) else [(1.0, private[lot])]
        total = np.zeros(network.size)
        for weight, rows in parts:
            total += weight * network.clipped_sum(rows, 1.0, training.clip_norm)
        sums = np.rint(total / grid).astype(np.int64)
    law = RoundedGaussian(noise_steps(training, network.size))
    return noise.draw(law, sums) * grid
