"""Dense networks with gradients of single rows in numpy, and the choice between two engines.

A dense layer's gradient of one row is an outer product, of the slope at its outputs and of its
inputs: its norm is a product of two norms. So one pass back gives every row's norm, and the same
slopes, scaled down, give the clipped sum; no row's gradient is ever written out.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.progress import Progress
from marginalsyn.registry import needed_part
from marginalsyn.weights.dense import first_parameters, shapes_of, split

CHUNK = 1024
# With parameters no larger than this, and as many layers as there may be, the gradient of a row of
# zeros is a number: it can stand for a row that has none.
MOST_PARAMETER = 1e6
TENSORFLOW, NUMPY = "tensorflow-privacy", "numpy"
ENGINES = (TENSORFLOW, NUMPY)


class RowNetwork:
    """A network whose rows' gradients can be clipped; its parameters are one flat vector.

    Args:
        width: the number of inputs.
        hidden: units of the hidden layers.
        rng: draws the first parameters; the last layer's are zero, so all rows have equal weights.
        chunk: how many rows are passed at a time.
        loss: by its name in ``LOSSES``, or one of one's own.
        bias: the hidden layers' first biases lie within this distance of zero.
        outputs: how many.
        skip: whether the inputs add to the outputs directly, too; these parameters come last and
            start at zero.
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
        self.chunk, self.loss, self._skip = chunk, loss, skip
        self._loss: Loss = LOSSES[loss] if isinstance(loss, str) else loss
        self.shapes = shapes_of((width, *hidden, outputs))
        first = first_parameters(self.shapes, rng, bias)
        if skip:
            self.shapes.append((width, outputs))
            first = np.concatenate([first, np.zeros(width * outputs)])
        self._build()
        self.assign(first)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.parameters.size

    def assign(self, parameters: np.ndarray) -> None:
        """Set all parameters, which are public; NaN becomes zero, large values are cut."""
        self.parameters = tame(parameters)
        self._set(split(self.parameters, self.shapes))

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The network's outputs for each row."""
        raise NotImplementedError

    def log_odds(self, x: np.ndarray) -> np.ndarray:
        """The only output of each row."""
        return self.outputs(x)[:, 0]

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
            total += self._clipped(part, given, clip_norm)
        return total

    def _build(self) -> None:
        """Make what parameters of these shapes are set in."""

    def _set(self, parts: list[np.ndarray]) -> None: ...

    def _clipped(self, x: np.ndarray, labels: np.ndarray, clip_norm: float) -> np.ndarray:
        raise NotImplementedError


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
    """A network on one of the engines; see :class:`RowNetwork` for what it is made of."""
    if engine == NUMPY:
        return DenseNetwork(width, hidden, rng, chunk, **how)
    return needed_part("tensorflow-engine", f"engine '{engine}'")(width, hidden, rng, chunk, **how)


def load_engine(engine: str, progress: Progress) -> None:
    """Load what training needs, before anything is charged."""
    progress.report("load", text=engine)
    build_network(engine, 1, (1,), np.random.default_rng(0))


def chunk_rows(lot: int) -> int:
    """The least power of two with room for most lots of a public size: little is padded."""
    return min(CHUNK, max(32, 2 ** math.ceil(math.log2(lot + 3 * math.sqrt(lot)))))


def tame(parameters: np.ndarray) -> np.ndarray:
    """Public parameters that no arithmetic breaks: NaN becomes zero, large values are cut."""
    sound = np.nan_to_num(parameters, posinf=MOST_PARAMETER, neginf=-MOST_PARAMETER)
    return np.clip(sound, -MOST_PARAMETER, MOST_PARAMETER)


class DenseNetwork(RowNetwork):
    """Dense layers in numpy with tanh between them; its parameters are one flat vector.

    Example:
        >>> network = DenseNetwork(2, (3,), np.random.default_rng(0))
        >>> total = network.clipped_sum(np.ones((5, 2)), 1.0, clip_norm=0.1)
        >>> round(float(np.linalg.norm(total)), 6)
        0.5
    """

    def _set(self, parts: list[np.ndarray]) -> None:
        self._direct = parts.pop() if self._skip else None
        self._layers = list(zip(parts[::2], parts[1::2], strict=True))

    def outputs(self, x: np.ndarray) -> np.ndarray:
        found = [self._forward(x[at : at + CHUNK])[1] for at in range(0, len(x), CHUNK)]
        return np.concatenate([np.empty((0, self.shapes[-1][-1])), *found])

    def _forward(self, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The inputs of every layer, and the outputs of the last."""
        inputs = [x]
        for kernel, bias in self._layers[:-1]:
            inputs.append(np.tanh(inputs[-1] @ kernel + bias))
        kernel, bias = self._layers[-1]
        outputs = inputs[-1] @ kernel + bias
        return inputs, outputs if self._direct is None else outputs + x @ self._direct

    @np.errstate(over="ignore", invalid="ignore")
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
