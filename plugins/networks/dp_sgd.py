"""A small network trained by clipped, noised gradient steps: DP-SGD for telling rows apart.

A step draws a Poisson lot of the private rows at a public rate and sums their clipped gradients;
adds Gaussian noise once, whatever the lot holds, nothing included; adds the gradients of synthetic
rows, which are public; and divides by a public number. Two engines clip: TensorFlow Privacy, whose
fast gradient clipping finds per-example norms without per-example gradients, and numpy
(:mod:`marginalsyn.plugins.networks.per_row`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from marginalsyn.errors import MissingExtraError
from marginalsyn.libraries import took_part
from marginalsyn.plugins.networks.dense import (
    Adam,
    check_number,
    first_parameters,
    load_tensorflow,
    split,
)
from marginalsyn.plugins.networks.losses import LOSSES, Loss
from marginalsyn.plugins.networks.per_row import CHUNK, RowNetwork, label_rows, tame

if TYPE_CHECKING:
    from marginalsyn.privacy.noise import Noise

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


def chunk_rows(lot: int) -> int:
    """The least power of two with room for most lots of a public size: little is padded."""
    return min(CHUNK, max(32, 2 ** math.ceil(math.log2(lot + 3 * math.sqrt(lot)))))


def noise_steps(training: Training, parameters: int) -> float:
    """The noise's standard deviation in units of the grid on which gradients are rounded.

    Rounding moves each coordinate of a sum by at most half a step and float64 summation by far
    less, so two neighbouring sums differ by at most clip_norm + 2 sqrt(P) steps.
    """
    return training.noise_multiplier * (2.0**GRID_BITS + 2 * math.sqrt(parameters))


class Network(RowNetwork):
    """The same network as :class:`~marginalsyn.plugins.networks.per_row.DenseNetwork`, on TensorFlow.

    Rows go through a compiled step ``chunk`` at a time; see :func:`chunk_rows`. Clipping is
    TensorFlow Privacy's.
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
        self.chunk, self.loss = chunk, loss
        self._loss: Loss = LOSSES[loss] if isinstance(loss, str) else loss
        self._tf = tf = load_tensorflow()
        self._clipping, registry = _load_clipping()
        self._registry = registry.make_default_layer_registry()
        # First values come from rng alone: zeros keep Keras from drawing any.
        plain = {"dtype": "float64", "kernel_initializer": "zeros"}
        layers = [tf.keras.layers.Dense(units, activation="tanh", **plain) for units in hidden]
        layers.append(tf.keras.layers.Dense(outputs, **plain))
        x = found = tf.keras.Input((width,), dtype="float64")
        for layer in layers:
            found = layer(found)
        if skip:
            layers.append(tf.keras.layers.Dense(outputs, use_bias=False, **plain))
            found = tf.keras.layers.Add(dtype="float64")([found, layers[-1](x)])
        self.model = tf.keras.Model(x, found)
        self._variables = [one for layer in layers for one in layer.trainable_variables]
        self.shapes = [tuple(v.shape) for v in self._variables]
        self._step: Callable[..., Any] | None = None
        own = self.shapes[:-1] if skip else self.shapes
        first = first_parameters(own, rng, bias)
        self.assign(np.concatenate([first, np.zeros(skip * width * outputs)]))

    def assign(self, parameters: np.ndarray) -> None:
        """Set all parameters, which are public; NaN becomes zero, large values are cut."""
        self.parameters = tame(parameters)
        parts = split(self.parameters, self.shapes)
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(part)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The network's outputs for each row."""
        parts = [
            self.model(x[start : start + 8 * CHUNK], training=False).numpy()
            for start in range(0, len(x), 8 * CHUNK)
        ]
        return np.concatenate([np.empty((0, self.model.output_shape[1])), *parts])

    def clipped_sum(
        self, x: np.ndarray, labels: float | np.ndarray, clip_norm: float
    ) -> np.ndarray:
        """The sum over rows of their gradients, each clipped; compiled once for padded chunks.

        A gradient that is not finite counts as zero before it is clipped: its norm would pass any
        comparison, and it would make the whole sum infinite.
        """
        if self._step is None:
            self._step = self._compile()
        total = np.zeros(self.size)
        for start in range(0, len(x), self.chunk):
            part = x[start : start + self.chunk]
            padded = np.zeros((self.chunk, x.shape[1]))
            padded[: len(part)] = part
            given = np.zeros((self.chunk, self._loss.width))
            given[: len(part)] = label_rows(labels, start, len(part), self._loss.width)
            mask = (np.arange(self.chunk) < len(part)).astype(np.float64)
            total += self._step(padded, mask, given, np.float64(clip_norm)).numpy()
        return total

    def _compile(self) -> Callable[..., Any]:
        tf, clipping, model, chunk = self._tf, self._clipping, self.model, self.chunk
        loss, variables = self._loss, self._variables

        def losses(labels: Any, outputs: Any, weights: Any = None) -> Any:
            del weights
            return loss.tensor(tf, labels, outputs)

        @tf.function(
            autograph=False,
            input_signature=[
                tf.TensorSpec((chunk, model.input_shape[1]), tf.float64),
                tf.TensorSpec((chunk,), tf.float64),
                tf.TensorSpec((chunk, loss.width), tf.float64),
                tf.TensorSpec((), tf.float64),
            ],
        )
        def step(x: Any, mask: Any, labels: Any, clip_norm: Any) -> Any:
            norms = clipping.compute_gradient_norms(
                model, self._registry, x, labels, per_example_loss_fn=losses
            )
            finite = tf.math.is_finite(norms)
            clipped = clipping.compute_clip_weights(clip_norm, norms)
            weights = mask * tf.where(finite, clipped, tf.zeros_like(clipped))
            # Zero times a gradient that is not finite is not zero: the row itself has to go.
            sound = tf.where(finite[:, None], x, tf.zeros_like(x))
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(weights * losses(labels, model(sound, training=True)))
            return tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(total, variables)], 0)

        return step


class Inputs(Protocol):
    """Rows of a network's inputs, read by position; an array is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: np.ndarray) -> np.ndarray: ...


class Persons:
    """Rows of persons, each of whom is sampled, summed and clipped as one.

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
        lot = noise.lot(len(private), training.rate)
        parts = private.parts(lot) if isinstance(private, Persons) else [(1.0, private[lot])]
        total = np.zeros(network.size)
        for weight, rows in parts:
            total += weight * network.clipped_sum(rows, 1.0, training.clip_norm)
        sums = np.rint(total / grid).astype(np.int64)
    return noise.rounded_gaussian(sums, noise_steps(training, network.size)) * grid


def _load_clipping() -> tuple[Any, Any]:
    """Import TensorFlow Privacy's clipping, or name the command that installs it."""
    try:
        from tensorflow_privacy.privacy.fast_gradient_clipping import clip_grads, layer_registry
    except ImportError as error:
        raise MissingExtraError("private training of networks", "tensorflow") from error
    took_part("tensorflow-privacy", "clips the gradient of each row")
    return clip_grads, layer_registry
