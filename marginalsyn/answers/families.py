"""The families of regressions: what each loses on a row, and its first two derivatives.

A row has one linear predictor or several, each a linear map of the coefficients: of a multinomial
model one for each value but the first, of an ordinal model one for each cut between values.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit

Name = Literal["linear", "logistic", "poisson", "multinomial", "ordinal"]
_LARGEST = 30.0


class Family:
    """Least squares: half of the squared error.

    Attributes:
        loss_name: of what it minimises.
        classes: whether the label is the number of a value.
    """

    loss_name: ClassVar[str] = "half squared error"
    classes: ClassVar[bool] = False

    def maps(self, width: int, values: int) -> np.ndarray:
        """By predictor the matrix that makes its slopes of all coefficients."""
        del values
        return np.eye(width)[None]

    def names(self, features: list[str], labels: list[str]) -> list[str]:
        """The names of the coefficients."""
        del labels
        return features

    def start(self, width: int, values: int) -> np.ndarray:
        """Coefficients to begin with."""
        return np.zeros(self.maps(width, values).shape[2])

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By row, for its predictors."""
        return np.asarray(0.5 * np.square(y - eta[:, 0]))

    def slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By row and predictor, how fast the loss falls."""
        return y[:, None] - eta

    def bends(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By row, the second derivatives in pairs of predictors."""
        del y
        return np.ones((len(eta), 1, 1))


class Logistic(Family):
    """Log loss of two values."""

    loss_name = "log loss"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.logaddexp(0.0, eta[:, 0]) - y * eta[:, 0])

    def slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(y[:, None] - expit(eta))

    def bends(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = expit(eta)
        return (p * (1 - p))[:, :, None]


class Poisson(Family):
    """Deviance of counts, with the logarithm of their mean as the predictor."""

    loss_name = "half deviance"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(np.minimum(eta[:, 0], _LARGEST)) - y * eta[:, 0])

    def slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(y[:, None] - np.exp(np.minimum(eta, _LARGEST)))

    def bends(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(np.minimum(eta, _LARGEST))[:, :, None])


class Multinomial(Family):
    """Log loss of several values without order, each against the first."""

    loss_name = "log loss"
    classes = True

    def maps(self, width: int, values: int) -> np.ndarray:
        return np.eye((values - 1) * width).reshape(values - 1, width, -1)

    def names(self, features: list[str], labels: list[str]) -> list[str]:
        return [f"{label}: {name}" for label in labels[1:] for name in features]

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        every = np.hstack([np.zeros((len(eta), 1)), eta])
        own = np.take_along_axis(every, y[:, None].astype(int), axis=1)[:, 0]
        return np.asarray(np.logaddexp.reduce(every, axis=1) - own)

    def slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray((y[:, None] == np.arange(1, eta.shape[1] + 1)) - self._chances(eta))

    def bends(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = self._chances(eta)
        return np.asarray(p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :])

    @staticmethod
    def _chances(eta: np.ndarray) -> np.ndarray:
        every = np.hstack([np.zeros((len(eta), 1)), eta])
        return np.asarray(np.exp(eta - np.logaddexp.reduce(every, axis=1)[:, None]))


class Ordinal(Family):
    """Log loss of ordered values: the log-odds of lying below a cut are the cut's less the row's.

    The first features' column is that of the constant, which the cuts replace.
    """

    loss_name = "log loss"
    classes = True

    def maps(self, width: int, values: int) -> np.ndarray:
        found = np.zeros((values - 1, width, values - 1 + width - 1))
        for cut in range(values - 1):
            found[cut, 0, width - 1 + cut] = 1.0
            found[cut, 1:, : width - 1] = -np.eye(width - 1)
        return found

    def names(self, features: list[str], labels: list[str]) -> list[str]:
        cuts = [f"{a} / {b}" for a, b in pairwise(labels)]
        return [*features[1:], *cuts]

    def start(self, width: int, values: int) -> np.ndarray:
        return np.append(np.zeros(width - 1), np.linspace(-1.0, 1.0, values - 1))

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -np.log(self._parts(eta, y)[0])

    def slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        p, upper, lower, _, _, top, bottom = self._parts(eta, y)
        return np.asarray((upper / p)[:, None] * top - (lower / p)[:, None] * bottom)

    def bends(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        p, _, _, above, below, top, bottom = self._parts(eta, y)
        slope = self.slopes(eta, y)
        own = (above / p)[:, None] * top - (below / p)[:, None] * bottom
        return np.asarray(
            slope[:, :, None] * slope[:, None, :] - own[:, :, None] * np.eye(eta.shape[1])
        )

    @staticmethod
    def _parts(eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Each row's chance, the densities at its cuts, their slopes, and which cuts these are."""
        cuts = np.arange(eta.shape[1])
        top, bottom = (y[:, None] == cuts).astype(float), (y[:, None] - 1 == cuts).astype(float)
        share = expit(eta)
        upper = np.where(y < len(cuts), (share * top).sum(axis=1), 1.0)
        lower = (share * bottom).sum(axis=1)
        p = np.maximum(upper - lower, 1e-12)
        dense, down = upper * (1 - upper), lower * (1 - lower)
        return p, dense, down, dense * (1 - 2 * upper), down * (1 - 2 * lower), top, bottom


FAMILIES: dict[Name, Family] = {
    "linear": Family(),
    "logistic": Logistic(),
    "poisson": Poisson(),
    "multinomial": Multinomial(),
    "ordinal": Ordinal(),
}
