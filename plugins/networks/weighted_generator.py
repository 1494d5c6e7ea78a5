"""A small generator network trained on weighted synthetic rows; not a private mechanism.

The rows must be public or synthetic: nothing here adds noise, so private rows may not enter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.plugins.networks.adversarial import TEMPERATURE, Layout
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.progress import Progress
from marginalsyn.table.design import Scheme, resample
from marginalsyn.table.schema import Schema
from marginalsyn.weights.dense import Layers, forward

LOSSES = ("mmd", "cross-entropy")
DUPLICATION: Scheme = "duplication"
# Kernels as wide as these times the median distance between rows.
WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0)
# Steps between two readings of the clock, and two reports.
_CHUNK = 100
_MEDIAN_ROWS = 1000
# What the squared slope of a discriminator at the rows costs it; without that, generators miss
# whole clouds of rows (Mescheder, Geiger and Nowozin 2018).
_SLOPE = 1.0

Head = Callable[[Any, Any, Any], Any]
"""Rows from a network's outputs, ``draws`` uniform numbers a row, and the latent ones."""


@dataclass(frozen=True, kw_only=True)
class WeightedGenerator:
    """How to train a generator: the loss, what the weights do in it, and for how long.

    Attributes:
        loss: ``mmd``, or ``cross-entropy`` against a discriminator network of limited slope.
        scheme: ``known``, ``self-normalised`` or ``median-of-means``, see
            :mod:`marginalsyn.plugins.networks.weighted_generator`; ``duplication`` copies rows by
            their weights.
        steps: how many steps the optimiser takes.
        batch: how many rows a step takes, real and generated ones each.
        rate: Adam's learning rate.
        hidden: units of the hidden layers.
        latent: how many random numbers a row is made from.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(300, 2))
        >>> made = WeightedGenerator(steps=100).fit(rows, np.ones(300), np.random.default_rng(1))
        >>> made(5, np.random.default_rng(2)).shape
        (5, 2)
    """

    loss: str = "mmd"
    scheme: str = "self-normalised"
    steps: int = 2000
    batch: int = 200
    rate: float = 2e-3
    hidden: tuple[int, ...] = (32, 32)
    latent: int = 10

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise UsageError(f"loss ({self.loss}) must be one of {', '.join(LOSSES)}")
        for name in ("steps", "batch", "latent"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise UsageError(f"{name} ({getattr(self, name)}) must be from 1 to 1,000,000")
        if not (self.hidden and all(1 <= units <= 4096 for units in self.hidden)):
            raise UsageError(f"hidden ({self.hidden}) must be layers of 1 to 4096 units")
        if not 0 < self.rate <= 1:
            raise UsageError(f"rate ({self.rate}) must be above 0 and at most 1")
        if self.scheme not in (*SCHEMES, DUPLICATION):
            names = ", ".join((*SCHEMES, DUPLICATION))
            raise UsageError(f"scheme ({self.scheme}) must be one of {names}")

    def fit(
        self,
        rows: np.ndarray,
        weights: np.ndarray,
        rng: np.random.Generator,
        *,
        head: Head | None = None,
        outputs: int | None = None,
        draws: int = 0,
        report: Callable[[float], None] = lambda done: None,
    ) -> Trained:
        """Train on weighted rows.

        Args:
            rows: public or synthetic, rows by features.
            weights: not negative; of mean 1 for ``known`` and ``median-of-means``.
            rng: draws batches and first parameters; it protects nothing.
            head: turns outputs into rows; the outputs themselves if None.
            outputs: how many outputs the network has; as many as there are features if None.
            draws: how many uniform numbers the head takes for a row.
            report: called with the share of steps done.
        """
        if self.scheme == DUPLICATION:
            rows = rows[resample(weights, DUPLICATION, rng)]
            weights = np.ones(len(rows))
        features = rows.shape[1]
        made = features if outputs is None else outputs
        generator = first_layers([self.latent, *self.hidden, made], rng)
        critic = first_layers([features, *self.hidden, 1], rng)
        state = (generator, _zero_moments(generator), critic, _zero_moments(critic), 0)
        loop = self._loop(
            jnp.asarray(rows, jnp.float32),
            jnp.asarray(weights, jnp.float32),
            head or (lambda values, uniform, latent: values),
            draws,
            median_distance(rows, rng),
        )
        done = 0
        while done < self.steps:
            count = min(_CHUNK, self.steps - done)
            keys = jax.random.split(jax.random.PRNGKey(int(rng.integers(2**31))), count)
            state = loop(state, keys)
            done += count
            report(done / self.steps)
        layers = [(np.asarray(k, float), np.asarray(b, float)) for k, b in state[0]]
        return Trained(layers=layers, latent=self.latent)

    def _loop(self, rows: Any, weights: Any, head: Head, draws: int, distance: float) -> Any:
        """A compiled function that takes one step for every key that it is given."""
        scheme = "self-normalised" if self.scheme == DUPLICATION else self.scheme
        widths = [distance * width for width in WIDTHS]

        def make(generator: Any, key: Any) -> Any:
            first, second = jax.random.split(key)
            latent = jax.random.normal(first, (self.batch, self.latent))
            uniform = jax.random.uniform(second, (self.batch, draws))
            return head(_forward(generator, latent), uniform, latent)

        def mmd_step(state: Any, key: Any) -> Any:
            generator, moments, critic, own, count = state
            pick, draw = jax.random.split(key)
            batch = jax.random.randint(pick, (self.batch,), 0, len(rows))

            def loss(layers: Any) -> Any:
                made = make(layers, draw)
                return mmd(rows[batch], weights[batch], made, widths=widths, scheme=scheme)

            generator, moments = self._move(generator, jax.grad(loss)(generator), moments, count)
            return (generator, moments, critic, own, count + 1), None

        def adversarial_step(state: Any, key: Any) -> Any:
            generator, moments, critic, own, count = state
            pick, draw, again = jax.random.split(key, 3)
            batch = jax.random.randint(pick, (self.batch,), 0, len(rows))
            made = make(generator, draw)

            def judged(layers: Any) -> Any:
                real, fake = _forward(layers, rows[batch])[:, 0], _forward(layers, made)[:, 0]
                slope = jax.vmap(jax.grad(lambda row: _forward(layers, row)[0]))(rows[batch])
                flat = _SLOPE * jnp.mean(jnp.sum(slope**2, axis=1))
                return discriminator_loss(real, weights[batch], fake, scheme) + flat

            def fooled(layers: Any) -> Any:
                return generator_loss(_forward(critic, make(layers, again))[:, 0])

            critic, own = self._move(critic, jax.grad(judged)(critic), own, count)
            generator, moments = self._move(generator, jax.grad(fooled)(generator), moments, count)
            return (generator, moments, critic, own, count + 1), None

        step = mmd_step if self.loss == "mmd" else adversarial_step
        return jax.jit(lambda state, keys: jax.lax.scan(step, state, keys)[0])

    def _move(self, layers: Any, gradient: Any, moments: Any, count: Any) -> Any:
        """Take one step of Adam; the rate falls to a tenth over the last half of the steps."""
        late = jnp.clip(2.0 * count / self.steps - 1.0, 0.0, 1.0)
        rate = self.rate * 0.1**late
        first, second = moments
        first = jax.tree_util.tree_map(lambda m, g: 0.5 * m + 0.5 * g, first, gradient)
        second = jax.tree_util.tree_map(lambda m, g: 0.99 * m + 0.01 * g**2, second, gradient)
        left, right = 1 - 0.5 ** (count + 1), 1 - 0.99 ** (count + 1)
        moved = jax.tree_util.tree_map(
            lambda p, a, b: p - rate * (a / left) / (jnp.sqrt(b / right) + 1e-8),
            layers,
            first,
            second,
        )
        return moved, (first, second)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained generator, in plain numpy; calling it gives outputs for the head."""

    layers: Layers
    latent: int

    def __call__(
        self, rows: int, rng: np.random.Generator, latent: np.ndarray | None = None
    ) -> np.ndarray:
        """Outputs for ``rows`` rows, from ``latent`` numbers or from normal draws."""
        given = rng.normal(size=(rows, self.latent)) if latent is None else latent
        return forward(self.layers, given)


def first_layers(widths: Sequence[int], rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Draw kernels as Glorot does; biases start at 0."""
    layers = []
    for size, units in itertools.pairwise(widths):
        bound = np.sqrt(6.0 / (size + units))
        kernel = rng.uniform(-bound, bound, (size, units))
        layers.append((jnp.asarray(kernel, jnp.float32), jnp.zeros(units, jnp.float32)))
    return layers


def median_distance(rows: np.ndarray, rng: np.random.Generator) -> float:
    """The median distance between rows, from a sample of them; 1 if it is 0."""
    some = rows[rng.choice(len(rows), min(len(rows), _MEDIAN_ROWS), replace=False)]
    squares = np.square(some).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2.0 * some @ some.T
    upper = distances[np.triu_indices(len(some), 1)]
    median = float(np.sqrt(max(np.median(upper), 0.0))) if upper.size else 0.0
    return median or 1.0


def _forward(layers: Any, x: Any) -> Any:
    for kernel, bias in layers[:-1]:
        x = jnp.tanh(x @ kernel + bias)
    kernel, bias = layers[-1]
    return x @ kernel + bias


def _zero_moments(layers: Any) -> Any:
    zeros = jax.tree_util.tree_map(jnp.zeros_like, layers)
    return zeros, zeros


SCHEMES = ("known", "self-normalised", "median-of-means")
GROUPS = 5
"""Over which a median of means is taken."""


def mmd(
    x: Any,
    weights: Any,
    y: Any,
    *,
    widths: Sequence[float],
    scheme: str = "self-normalised",
) -> Any:
    """An unbiased estimate of the squared maximum mean discrepancy from weighted to generated rows.

    Pairs of a row with itself are left out, so the estimate may lie below 0.

    Args:
        x: rows by features.
        weights: the weights of these rows.
        y: generated rows.
        widths: standard deviations of the Gaussian kernels, whose mean is the kernel.
        scheme: one of the three above; for a median both sets of rows are cut in order.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> abs(float(mmd(x, np.ones(50), x + 3.0, widths=[1.0]))) > 0.5
        True
    """
    _check(scheme)
    if scheme != "median-of-means":
        return _mmd(x, weights, y, widths, normalise=scheme == "self-normalised")
    parts = [jnp.array_split(jnp.asarray(v), GROUPS) for v in (x, weights, y)]
    each = [_mmd(a, w, b, widths, normalise=False) for a, w, b in zip(*parts, strict=True)]
    return jnp.median(jnp.stack(each))


def weighted_mean(values: Any, weights: Any, scheme: str = "self-normalised") -> Any:
    """A mean of values over weighted rows, by one of the three schemes.

    Example:
        >>> float(weighted_mean(np.array([0.0, 1.0]), np.array([1.0, 3.0])))
        0.75
    """
    _check(scheme)
    if scheme == "self-normalised":
        return jnp.sum(weights * values) / jnp.sum(weights)
    if scheme == "known":
        return jnp.mean(weights * values)
    parts = zip(jnp.array_split(weights, GROUPS), jnp.array_split(values, GROUPS), strict=True)
    return jnp.median(jnp.stack([jnp.mean(w * v) for w, v in parts]))


def discriminator_loss(real: Any, weights: Any, made: Any, scheme: str = "self-normalised") -> Any:
    """The cross-entropy of log-odds of being real, on weighted rows and on generated ones."""
    on_real = weighted_mean(jax.nn.softplus(-real), weights, scheme)
    return on_real + jnp.mean(jax.nn.softplus(made))


def generator_loss(made: Any) -> Any:
    """How far generated rows are from being taken for real."""
    return jnp.mean(jax.nn.softplus(-made))


def _mmd(x: Any, weights: Any, y: Any, widths: Sequence[float], *, normalise: bool) -> Any:
    x, weights, y = jnp.asarray(x), jnp.asarray(weights), jnp.asarray(y)
    n, m = len(x), len(y)
    pairs = weights[:, None] * weights[None, :] * (1.0 - jnp.eye(n))
    inside = jnp.sum(pairs * _kernel(x, x, widths))
    across = jnp.sum(weights @ _kernel(x, y, widths)) / m
    if normalise:
        inside, across = inside / jnp.sum(pairs), across / jnp.sum(weights)
    else:
        inside, across = inside / (n * (n - 1)), across / n
    own = jnp.sum(_kernel(y, y, widths) * (1.0 - jnp.eye(m))) / (m * (m - 1))
    return inside - 2.0 * across + own


def _kernel(x: Any, y: Any, widths: Sequence[float]) -> Any:
    squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1)[None, :] - 2.0 * x @ y.T
    squares = jnp.maximum(squares, 0.0)
    return sum(jnp.exp(-squares / (2.0 * width**2)) for width in widths) / len(widths)


def _check(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise UsageError(f"scheme ({scheme}) must be one of {', '.join(SCHEMES)}")


# Rows made for each that is wanted: the margins are set by drawing among them.
SPARE = 4


def made(
    source: np.ndarray,
    weights: np.ndarray,
    schema: Schema,
    loss: str,
    rows: int,
    rng: np.random.Generator,
    options: Mapping[str, Any],
    progress: Progress,
) -> np.ndarray:
    """Train on weighted rows of codes; codes of several times as many rows as are wanted."""
    shares = {
        name: np.bincount(source[:, number], weights, minlength=size)
        for number, (name, size) in enumerate(schema.domain.items())
    }
    heads = Heads(schema, shares)
    layout = Layout(heads, (), 0)
    trained = WeightedGenerator(loss=loss, **options).fit(
        heads.rows(source, rng),
        weights,
        rng,
        head=head_of(layout),
        outputs=layout.sizes[1],
        draws=layout.choices,
        report=lambda done: progress.report("train", fraction=0.9 * done),
    )

    def codes(count: int) -> np.ndarray:
        parts = layout.parts(trained(count, rng), rng.gumbel(size=(count, layout.choices)))
        columns = [head.codes(own, noise) for _, head, own, noise in parts]
        return np.column_stack(columns).astype(np.int32)

    return draw_possible(schema, SPARE * rows, codes, rng)


def head_of(layout: Layout) -> Head:
    """Outputs and uniform numbers as the vectors of rows: hard choices with soft gradients."""

    def vectors(outputs: Any, uniform: Any, _: Any) -> Any:
        gumbel = -jnp.log(-jnp.log(jnp.clip(uniform, 1e-7, 1 - 1e-7)))
        parts = []
        for _, head, own, noise in layout.parts(outputs, gumbel):
            present: Any = 1.0
            if head.choices:
                soft = jax.nn.softmax((own[:, int(head.ordered) :] + noise) / TEMPERATURE)
                hard = jax.nn.one_hot(jnp.argmax(soft, axis=1), head.choices)
                chosen = soft + jax.lax.stop_gradient(hard - soft)
                if not head.ordered:
                    parts.append(chosen - head.shares)
                    continue
                present = chosen[:, :1]
            place = jax.scipy.special.erf(own[:, :1] / math.sqrt(2.0))
            parts.append(present * place)
            if head.choices:
                parts.append(chosen[:, 1:] - head.shares[head.levels :])
        return jnp.concatenate(parts, axis=1)

    return vectors
