"""How far a fit trusts each measured marginal: strengths of pulls, found from the answers alone.

A marginal of two and more columns holds main effects, which single columns tell better, and an
interaction: what is left when the mean along every axis is taken off. The noise of the two is
independent. Under the prior of a pulled fit (see :mod:`marginalsyn.graphical.pulled_fit`) with
strength k, an interaction's cell has variance m / k, m being the count that independent columns
would give; the answer adds the noise's. That gives every strength a likelihood. Marginals of one
table are alike, so a mixture of strengths is fitted to all of them (empirical Bayes) and each
marginal takes the strength that keeps as much of its answers as the posterior does in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from marginalsyn.graphical.column_counts import settle
from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.targets import FitTarget

# Strengths that are weighed: from next to no pull to next to no interaction.
STRENGTHS = np.geomspace(1e-4, 1e2, 25)
# Columns that say more of each other than this share of the most are the rarer, the more they say.
TYPICAL = 0.5
_ROUNDS = 50
# A column's code holds so much of a row at least: its log stays finite.
_LEAST = 1e-3


def take_off_means(values: np.ndarray) -> np.ndarray:
    """The interaction of a table: main effects and mean taken off.

    Example:
        >>> take_off_means(np.array([[3.0, 1.0], [0.0, 0.0]]))
        array([[ 0.5, -0.5],
               [-0.5,  0.5]])
    """
    axes = range(values.ndim)
    mean = values.mean()
    found = values + (values.ndim - 1) * mean
    for axis in axes:
        found -= values.mean(axis=tuple(a for a in axes if a != axis), keepdims=True)
    return found


def column_counts(
    sizes: Sequence[int], targets: Mapping[Scope, FitTarget], total: float
) -> list[FitTarget]:
    """Every column's counts by all that was measured: positive, summing to ``total``.

    A larger marginal's sums along its other axes are answers about a column, too.
    """
    found = []
    for column, size in enumerate(sizes):
        weighted, weights = np.zeros(size), np.zeros(size)
        for scope, target in targets.items():
            if column in scope:
                others = tuple(i for i, v in enumerate(scope) if v != column)
                weight = 1.0 / (1.0 / target.weight).sum(axis=others)
                weighted += weight * target.values.sum(axis=others)
                weights += weight
        known = weights.min() > 0
        mean = weighted / np.where(weights > 0, weights, 1.0) if known else np.full(size, total)
        counts = np.maximum(settle(mean, weights, total) if known else mean, _LEAST)
        weight = weights if known else np.full(size, total**-2.0)
        found.append(FitTarget(counts * (total / counts.sum()), weight))
    return found


def _independent(scope: Scope, columns: Sequence[FitTarget], total: float) -> np.ndarray:
    """The marginal that independent columns would have."""
    table = np.full((), total)
    for column in scope:
        table = np.multiply.outer(table, columns[column].values / total)
    return table


def find_strengths(
    targets: Mapping[Scope, FitTarget], columns: Sequence[FitTarget], total: float
) -> dict[Scope, float]:
    """The strength of the pull on the interaction of every marginal of two and more columns."""
    scopes = [scope for scope in targets if len(scope) > 1]
    if not scopes:
        return {}
    judged = [_likelihoods(scope, targets[scope], columns, total) for scope in scopes]
    likelihood = np.stack([each for each, _ in judged])
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    shares = np.full(STRENGTHS.size, 1.0 / STRENGTHS.size)
    for _ in range(_ROUNDS):
        posterior = likelihood * shares
        posterior /= posterior.sum(axis=1, keepdims=True)
        shares = (posterior.sum(axis=0) + 1.0 / STRENGTHS.size) / (len(scopes) + 1.0)
    posterior = likelihood * shares
    posterior /= posterior.sum(axis=1, keepdims=True)
    # A strength keeps the share 1 / (1 + strength / ratio) of what was answered: the mean share is
    # the best guess, and it is below the share that a mean of variances would keep.
    ratios = np.array([ratio for _, ratio in judged])
    kept = (posterior / (1.0 + STRENGTHS / ratios[:, None])).sum(axis=1)
    found = np.clip(ratios * (1.0 / kept - 1.0), STRENGTHS[0], STRENGTHS[-1])
    return dict(zip(scopes, found.tolist(), strict=True))


def _likelihoods(
    scope: Scope, target: FitTarget, columns: Sequence[FitTarget], total: float
) -> tuple[np.ndarray, float]:
    """The log likelihood of one marginal's interaction at every strength, and rows over noise.

    The second is the variance that the interaction has at strength 1, as a share of the noise's.
    """
    expected = _independent(scope, columns, total)
    rest = take_off_means(target.values - expected)
    kept, free = np.ones(()), 1.0
    for column, size in zip(scope, target.values.shape, strict=True):
        kept = np.multiply.outer(kept, 1.0 - columns[column].values / total)
        free *= (size - 1) / size
    if free == 0:
        return np.zeros(STRENGTHS.size), 1.0
    noise = free / target.weight
    signal = expected * kept
    variance = signal[..., None] / STRENGTHS + noise[..., None]
    each = -0.5 * (np.log(variance) + np.square(rest)[..., None] / variance)
    ratio = float(np.square(signal).sum() / (signal * noise).sum())
    # Under a strength so much of the most that two columns can say of each other is expected.
    most = total * (min(target.values.shape) - 1)
    said = free * target.values.size / (STRENGTHS * most)
    return free * each.reshape(-1, STRENGTHS.size).sum(axis=0) - said / TYPICAL, ratio
