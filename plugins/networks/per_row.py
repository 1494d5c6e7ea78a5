"""Dense networks with gradients of single rows in numpy, and the choice between two engines.

A dense layer's gradient of one row is an outer product, of the slope at its outputs and of its
inputs: its norm is a product of two norms. So one pass back gives every row's norm, and the same
slopes, scaled down, give the clipped sum; no row's gradient is ever written out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.plugins.networks.dense import first_parameters, shapes_of, split
from marginalsyn.plugins.networks.losses import LOSSES, Loss

CHUNK = 1024
# With parameters no larger than this, and as many layers as there may be, the gradient of a row of
# zeros is a number: it can stand for a row that has none.
MOST_PARAMETER = 1e6
TENSORFLOW, NUMPY = "tensorflow-privacy", "numpy"
ENGINES = (TENSORFLOW, NUMPY)


class RowNetwork(Protocol):
    """A network whose rows' gradients can be clipped; its parameters are one flat vector."""

    shapes: list[tuple[int, ...]]
    parameters: np.ndarray

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.parameters.size

    def assign(self, parameters: np.ndarray) -> None: ...

    def outputs(self, x: np.ndarray) -> np.ndarray: ...

    def log_odds(self, x: np.ndarray) -> np.ndarray:
        """The only output of each row."""
        return self.outputs(x)[:, 0]

    def clipped_sum(
        self, x: np.ndarray, labels: float | np.ndarray, clip_norm: float
    ) -> np.ndarray: ...


def choose_engine(engine: str | None) -> str:
    """The engine by its name; without one TensorFlow Privacy where it is installed, else numpy.

    Example:
        >>> choose_engine("numpy")
        'numpy'
    """
    if engine is not None:
        if engine not in ENGINES:
            raise UsageError(f"engine ({engine}) must be one of: {', '.join(ENGINES)}")
        return engine
    found = all(importlib.util.find_spec(name) for name in ("tensorflow", "tensorflow_privacy"))
    return TENSORFLOW if found else NUMPY


def build_network(
    engine: str,
    width: int,
    hidden: Sequence[int],
    rng: np.random.Generator,
    chunk: int = CHUNK,
    **how: Any,
) -> RowNetwork:
    """A network on one of the engines; see :class:`DenseNetwork` for what it is made of."""
    if engine == NUMPY:
        return DenseNetwork(width, hidden, rng, chunk, **how)
    from marginalsyn.plugins.networks.dp_sgd import Network

    return Network(width, hidden, rng, chunk, **how)


def tame(parameters: np.ndarray) -> np.ndarray:
    """Public parameters that no arithmetic breaks: NaN becomes zero, large values are cut."""
    sound = np.nan_to_num(parameters, posinf=MOST_PARAMETER, neginf=-MOST_PARAMETER)
    return np.clip(sound, -MOST_PARAMETER, MOST_PARAMETER)


class DenseNetwork(RowNetwork):
    """Dense layers in numpy with tanh between them; its parameters are one flat vector.

    Args:
        width: the number of inputs.
        hidden: units of the hidden layers.
        rng: draws the first parameters; the last layer starts at zero, so that all rows start with
            equal weights.
        chunk: how many rows are passed at a time.
        loss: by its name in ``LOSSES``, or one of one's own.
        bias: the hidden layers' first biases lie within this distance of zero.
        outputs: how many.
        skip: whether the inputs add to the outputs directly, too; these parameters come last and
            start at zero.

    Example:
        >>> network = DenseNetwork(2, (3,), np.random.default_rng(0))
        >>> total = network.clipped_sum(np.ones((5, 2)), 1.0, clip_norm=0.1)
        >>> round(float(np.linalg.norm(total)), 6)
        0.5
    """

    def __init__(
        self,
        width: int,
        hidden: Sequence[int],
        rng: np.random.Generator,
        chunk: int = CHUNK,
        *,
        loss: str | Loss = "log-odds",
        bias: float = 0.0,
        outputs: int = 1,
        skip: bool = False,
    ) -> None:
        self.chunk, self._skip = chunk, skip
        self._loss: Loss = LOSSES[loss] if isinstance(loss, str) else loss
        self.shapes = shapes_of((width, *hidden, outputs))
        first = first_parameters(self.shapes, rng, bias)
        if skip:
            self.shapes.append((width, outputs))
            first = np.concatenate([first, np.zeros(width * outputs)])
        self.assign(first)

    def assign(self, parameters: np.ndarray) -> None:
        """Set all parameters, which are public."""
        self.parameters = tame(parameters)
        parts = split(self.parameters, self.shapes)
        self._direct = parts.pop() if self._skip else None
        self._layers = list(zip(parts[::2], parts[1::2], strict=True))

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The network's outputs for each row."""
        found = [self._forward(x[at : at + CHUNK])[1] for at in range(0, len(x), CHUNK)]
        return np.concatenate([np.empty((0, self.shapes[-1][-1])), *found])

    def clipped_sum(
        self, x: np.ndarray, labels: float | np.ndarray, clip_norm: float
    ) -> np.ndarray:
        """The sum over rows of their gradients, each clipped.

        A gradient that is not finite counts as zero before it is clipped: its norm would pass any
        comparison, and it would make the whole sum infinite.
        """
        total = np.zeros(self.size)
        for start in range(0, len(x), self.chunk):
            part = x[start : start + self.chunk]
            given = label_rows(labels, start, len(part), self._loss.width)
            with np.errstate(over="ignore", invalid="ignore"):
                total += self._clipped(part, given, clip_norm)
        return total

    def _forward(self, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The inputs of every layer, and the outputs of the last."""
        inputs = [x]
        for kernel, bias in self._layers[:-1]:
            inputs.append(np.tanh(inputs[-1] @ kernel + bias))
        kernel, bias = self._layers[-1]
        outputs = inputs[-1] @ kernel + bias
        return inputs, outputs if self._direct is None else outputs + x @ self._direct

    def _clipped(self, x: np.ndarray, labels: np.ndarray, clip_norm: float) -> np.ndarray:
        inputs, outputs = self._forward(x)
        slopes = [self._loss.slopes(outputs, labels)]
        for (kernel, _), value in zip(self._layers[:0:-1], inputs[:0:-1], strict=True):
            slopes.insert(0, (slopes[0] @ kernel.T) * (1.0 - value * value))
        # Of each row: |slope|^2 (|inputs|^2 + 1), the 1 for the bias, summed over the layers.
        lengths = [_squares(value) for value in inputs]
        squares = sum(
            _squares(slope) * (length + 1.0) for slope, length in zip(slopes, lengths, strict=True)
        )
        if self._direct is not None:
            squares = squares + _squares(slopes[-1]) * lengths[0]
        norms = np.sqrt(squares)
        finite = np.isfinite(norms)
        if not finite.all():
            # Zero times what is not finite is not zero: the row itself has to go.
            inputs = [value[finite] for value in inputs]
            slopes, norms = [slope[finite] for slope in slopes], norms[finite]
        share = (clip_norm / np.maximum(clip_norm, norms))[:, None]
        found = []
        for value, slope in zip(inputs, slopes, strict=True):
            scaled = share * slope
            found += [(value.T @ scaled).ravel(), scaled.sum(axis=0)]
        if self._direct is not None:
            found.append((inputs[0].T @ (share * slopes[-1])).ravel())
        return np.concatenate(found)


def label_rows(labels: float | np.ndarray, start: int, rows: int, width: int) -> np.ndarray:
    """The labels of some rows, a line each; one number labels all."""
    if np.ndim(labels) == 0:
        return np.full((rows, width), float(labels))
    return np.asarray(labels)[start : start + rows]


def _squares(values: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", values, values)
