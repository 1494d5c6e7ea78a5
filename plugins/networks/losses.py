"""Losses of a network's outputs, a row at a time: their slopes in numpy, and themselves for others.

The labels of rows are an array with a line each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Loss(Protocol):
    """A loss of one row's outputs; ``width`` numbers label a row."""

    @property
    def width(self) -> int: ...

    def slopes(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The derivative of every row's loss by its outputs."""
        ...

    def tensor(self, tf: Any, labels: Any, outputs: Any) -> Any:
        """Every row's loss, in TensorFlow."""
        ...


@dataclass(frozen=True)
class LogOdds:
    """The logistic loss of one output, a log-odds, and labels of 0 or 1."""

    width: int = 1

    def slopes(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        return expit(outputs) - labels  # type: ignore[no-any-return]

    def tensor(self, tf: Any, labels: Any, outputs: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs)[:, 0]


@dataclass(frozen=True)
class Critic:
    """Raises the output of rows labelled 1 and lowers that of the others."""

    width: int = 1

    def slopes(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return 1.0 - 2.0 * labels + 0.0 * outputs

    def tensor(self, tf: Any, labels: Any, outputs: Any) -> Any:
        return ((1.0 - 2.0 * labels) * outputs)[:, 0]


@dataclass(frozen=True, eq=False)
class Tilt:
    """The log loss of a class, whose known chances q are tilted: p(y) ~ q(y) exp(scores[y] . f).

    Args:
        scores: of every class, a line each; the outputs f are as many as its columns.

    A row's label is the logarithms of its chances and the class's number.

    Example:
        >>> loss = Tilt(np.array([[-0.5], [0.5]]))
        >>> even = np.log([0.5, 0.5])
        >>> loss.slopes(np.zeros((1, 1)), np.array([[*even, 1.0]])).tolist()
        [[-0.5]]
    """

    scores: np.ndarray

    @property
    def width(self) -> int:
        return len(self.scores) + 1

    def chances(self, outputs: np.ndarray, logs: np.ndarray) -> np.ndarray:
        """The tilted chances."""
        from scipy.special import softmax

        return softmax(logs + outputs @ self.scores.T, axis=1)  # type: ignore[no-any-return]

    def slopes(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        chances = self.chances(outputs, labels[:, :-1])
        return chances @ self.scores - self.scores[labels[:, -1].astype(int)]

    def tensor(self, tf: Any, labels: Any, outputs: Any) -> Any:
        logits = labels[:, :-1] + tf.matmul(outputs, tf.constant(self.scores.T))
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.cast(labels[:, -1], tf.int32), logits=logits
        )


LOSSES: dict[str, Loss] = {"log-odds": LogOdds(), "critic": Critic()}
