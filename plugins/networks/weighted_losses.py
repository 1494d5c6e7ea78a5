"""A generator's losses against weighted rows (Diesendruck et al. 2018, arXiv 1806.02512).

Rows are drawn from one distribution and the generator is to learn another: the weight of a row is
how much likelier it is there. A loss is a mean over rows (cross-entropy) or over pairs (maximum
mean discrepancy), and there are three ways to weight it:

* ``known``: the mean of weight times value. Unbiased where weights are exact ratios, of mean 1.
* ``self-normalised``: divided by the weights' own mean. Weights may be off by a constant factor.
* ``median-of-means``: the median over groups of the first. A few huge weights spoil few groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMES = ("known", "self-normalised", "median-of-means")
GROUPS = 5


def mmd(
    x: Any,
    weights: Any,
    y: Any,
    *,
    widths: Sequence[float],
    scheme: str = "self-normalised",
    groups: int = GROUPS,
) -> Any:
    """An unbiased estimate of the squared maximum mean discrepancy from weighted to generated rows.

    Pairs of a row with itself are left out, so the estimate may lie below 0.

    Args:
        x: rows by features.
        weights: the weights of these rows.
        y: generated rows.
        widths: standard deviations of the Gaussian kernels, whose mean is the kernel.
        scheme: one of the three above.
        groups: how many groups the median is over; both sets of rows are cut in order.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> abs(float(mmd(x, np.ones(50), x + 3.0, widths=[1.0]))) > 0.5
        True
    """
    _check(scheme)
    if scheme != "median-of-means":
        return _mmd(x, weights, y, widths, normalise=scheme == "self-normalised")
    parts = [jnp.array_split(jnp.asarray(v), groups) for v in (x, weights, y)]
    each = [_mmd(a, w, b, widths, normalise=False) for a, w, b in zip(*parts, strict=True)]
    return jnp.median(jnp.stack(each))


def weighted_mean(
    values: Any, weights: Any, scheme: str = "self-normalised", groups: int = GROUPS
) -> Any:
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
    parts = zip(jnp.array_split(weights, groups), jnp.array_split(values, groups), strict=True)
    return jnp.median(jnp.stack([jnp.mean(w * v) for w, v in parts]))


def discriminator_loss(
    real: Any, weights: Any, made: Any, scheme: str = "self-normalised", groups: int = GROUPS
) -> Any:
    """The cross-entropy of log-odds of being real, on weighted rows and on generated ones."""
    told = weighted_mean(jax.nn.softplus(-real), weights, scheme, groups)
    return told + jnp.mean(jax.nn.softplus(made))


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
