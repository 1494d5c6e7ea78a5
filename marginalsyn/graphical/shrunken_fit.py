"""The shrunken fit: a model that keeps of the answers what their noise cannot explain.

It minimises over tables P of ``total`` rows, with marginals mu::

    total * KL(P || P0) + sum_q |interaction of (mu_q - y_q)|^2 / (2 k_q sigma_q^2)
                        + sum_columns |mu_c - y_c|^2 / (2 k_0 sigma_c^2)

P0 has independent columns with the counts y_c, which are what all answers say of a column. A cell's
interaction is shrunk by about ``h / (h + k_q sigma_q^2)``, h its count: large counts are kept, what
noise may explain is shrunk to independence. At the optimum ``y_q - mu_q = k_q sigma_q^2 theta_q``
in potentials theta; the steps are those of :mod:`marginalsyn.graphical.fit` with this added.

With a :class:`Prior`, P0 is the model of a reference table, moved to the counts y_c. It shrinks
single columns as well, as strongly as their answers' likelihood says. A measured pair whose answers
are likelier around independence than around the reference takes nothing from it.

The strengths k_q are found from the answers alone. A marginal of two and more columns has main
effects, which single columns know better, and an interaction: what is left when the mean along
every axis is taken off. The noise of the two is independent. Under the prior of this fit with
strength k, an interaction's cell has variance m / k, m being the count that independent columns
would give; the answer adds the noise's. That gives every strength a likelihood. Marginals of one
table are alike, so a mixture of strengths is fitted to all of them (empirical Bayes) and each
marginal takes the strength that keeps as much of its answers as the posterior does in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, logsumexp

from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.fit import Loss, check_possible, descend
from marginalsyn.graphical.junction_tree import triangulate
from marginalsyn.graphical.queries import Answers
from marginalsyn.graphical.targets import FitTarget
from marginalsyn.progress import Progress

# The strength of single columns' shrinkage: P0 has their counts already.
COLUMN_STRENGTH = 0.01


class Prior(NamedTuple):
    """A reference table as a fit takes it.

    Attributes:
        columns: of the columns that it has, the share of each code, and the largest strength of
            shrinking to them that its number of rows can justify: 1 of infinitely many.
        logs: the log potentials of its model, by the positions of their columns.
    """

    columns: Mapping[int, tuple[np.ndarray, float]]
    logs: Mapping[Scope, np.ndarray]


class _ShrunkenLoss(Loss):
    """The loss of a contraction whose first tables are all columns, then interactions."""

    def __init__(
        self,
        contraction: Contraction,
        columns: Sequence[FitTarget],
        interactions: Mapping[Scope, FitTarget],
        strengths: Mapping[Scope, float],
        total: float,
    ) -> None:
        """The contraction holds the log potentials of P0."""
        targets = [*columns, *(interactions[scope] for scope in strengths)]
        super().__init__(contraction, targets, total)
        sizes = [t.values.size for t in targets]
        self.weights /= np.repeat([*(COLUMN_STRENGTH for _ in columns), *strengths.values()], sizes)
        self._moved = np.empty_like(self.gradient)
        parts = np.split(self.gradient, np.cumsum(sizes)[:-1])
        self._views = [
            part.reshape(t.values.shape)
            for part, t in zip(parts, targets, strict=True)
            if t.values.ndim > 1
        ]
        self._base = self.potentials.copy()

    def evaluate(self) -> float:
        """The loss at the present potentials; sets ``gradient``, taken in the marginals."""
        if not self.contraction.propagate():
            return np.inf
        residual = np.multiply(self._marginals, self.total, out=self.gradient)
        residual -= self.values
        for view in self._views:
            view[...] = take_off_means(view)
        loss = 0.5 * float(np.einsum("i,i,i", self.weights, residual, residual))
        moved = np.subtract(self.potentials, self._base, out=self._moved)
        divergence = float(moved @ self._marginals) - self.contraction.log_mass
        self.gradient *= self.weights
        self.gradient += moved
        return loss + self.total * divergence

    def rewrite(self) -> None:
        """Nothing: the shrinkage keeps potentials from drifting."""


class ShrunkenFit(NamedTuple):
    """A contraction at its shrunken fit, and how it got there.

    ``leaned`` is how much of each measured column and interaction is the reference's, from 0 to 1.
    """

    contraction: Contraction
    strengths: dict[Scope, float]
    loss: float
    iterations: int
    leaned: dict[Scope, float]


def fit_shrunken(
    sizes: Sequence[int],
    targets: Mapping[Scope, FitTarget],
    fixed: Mapping[Scope, np.ndarray],
    total: float,
    strengths: Mapping[Scope, float] | None = None,
    *,
    start: Mapping[Scope, np.ndarray] | None = None,
    prior: Prior | None = None,
    max_iters: int,
    tolerance: float,
    progress: Progress,
) -> ShrunkenFit:
    """Fit to all targets; ``fixed`` marks impossible cells.

    ``strengths`` are found from the targets where they are not given, and 1 for a target that they
    leave out. ``start`` holds log potentials of an earlier fit to begin with. ``prior`` is what to
    shrink to in place of independence.
    """
    columns = column_counts(sizes, targets, total, prior)
    base: dict[Scope, np.ndarray] = {
        (v,): np.log(column.values / total) for v, column in enumerate(columns)
    }
    expected: dict[Scope, np.ndarray] = {}
    leaned: dict[Scope, float] = {}

    def fitted(
        own: Mapping[Scope, float], start: Mapping[Scope, np.ndarray]
    ) -> tuple[Contraction, int]:
        """A contraction at the optimum of all columns and these, from the base."""
        scopes = [*((v,) for v in range(len(sizes))), *own]
        scopes += [scope for scope in base if scope not in scopes]
        contraction = Contraction(triangulate(sizes, [*scopes, *fixed]), [*scopes, *fixed])
        for logs, mask in zip(contraction.logs[len(scopes) :], fixed.values(), strict=True):
            logs[mask] = -np.inf
        check_possible(contraction)
        for scope, logs in zip(scopes, contraction.logs, strict=False):
            logs[...] = base.get(scope, 0.0)
        problem = _ShrunkenLoss(contraction, columns, targets, own, total)
        for scope, logs in zip(scopes, contraction.logs[: len(sizes) + len(own)], strict=False):
            if scope in start and np.isfinite(start[scope]).all():
                logs[...] = start[scope]
        rate = 1.0 / float(np.max(problem.weights * np.clip(problem.values, 1.0, total)))
        descent = descend(
            problem, rate=rate, max_iters=max_iters, tolerance=tolerance, progress=progress
        )
        return contraction, descent.iterations

    if prior is not None:
        base |= prior.logs
        while True:
            contraction, _ = fitted({}, {})
            answers = Answers(contraction)
            expected = {q: answers.marginal(q) * total for q in targets if len(q) > 1}
            refuted = _refuted(targets, columns, total, expected, base)
            if not refuted:
                break
            base = {scope: logs for scope, logs in base.items() if scope not in refuted}
        tables = zip(contraction.scopes[: len(base)], contraction.logs, strict=False)
        base = {scope: logs.copy() for scope, logs in tables}
    if strengths is None:
        strengths = find_strengths(targets, columns, total, expected)
    own = {scope: strengths.get(scope, 1.0) for scope in targets if len(scope) > 1}
    if prior is not None:
        settled = _settled_columns(sizes, targets, total, prior.columns)
        leaned = {(v,): one.leaned for v, one in settled.items()}
        for scope in own:
            ratio = _likelihoods(scope, targets[scope], columns, expected[scope], total)[1]
            leaned[scope] = own[scope] / (own[scope] + ratio) if scope in base else 0.0
    contraction, iterations = fitted(own, start or {})
    measured: list[Scope] = [*((v,) for v in range(len(sizes))), *own]
    found = dict(zip(measured, contraction.marginals, strict=False))
    loss = 0.5 * sum(
        float((t.weight * np.square(found[scope] * total - t.values)).sum())
        for scope, t in targets.items()
    )
    return ShrunkenFit(contraction, own, loss, iterations, leaned)


def _refuted(
    targets: Mapping[Scope, FitTarget],
    columns: Sequence[FitTarget],
    total: float,
    expected: Mapping[Scope, np.ndarray],
    base: Mapping[Scope, np.ndarray],
) -> set[Scope]:
    """The pairs of a reference whose answers are likelier around independence.

    All of its pairs are, where the measured ones together are.
    """
    gains = {}
    for scope in targets:
        if len(scope) > 1 and scope in base:
            logs = [
                _likelihoods(scope, targets[scope], columns, counts, total)[0]
                for counts in (expected[scope], independent(scope, columns, total))
            ]
            gains[scope] = float(logsumexp(logs[0]) - logsumexp(logs[1]))
    if sum(gains.values()) < 0:
        return {scope for scope in base if len(scope) > 1}
    return {scope for scope, gain in gains.items() if gain < 0}


# Strengths that are weighed: from next to no shrinkage to next to no interaction.
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
    axes, total = range(values.ndim), np.add.reduce  # as mean sums, without what it takes to call
    found = values + (values.ndim - 1) * (total(values, axis=None) / values.size)
    for axis in axes:
        others = tuple(a for a in axes if a != axis)
        found -= total(values, axis=others, keepdims=True) / (values.size / values.shape[axis])
    return found


def column_counts(
    sizes: Sequence[int],
    targets: Mapping[Scope, FitTarget],
    total: float,
    prior: Prior | None = None,
) -> list[FitTarget]:
    """Every column's counts by all that was measured: positive, summing to ``total``.

    A larger marginal's sums along its other axes are answers about a column, too.
    """
    near = {} if prior is None else prior.columns
    settled = _settled_columns(sizes, targets, total, near)
    found = []
    for column, size in enumerate(sizes):
        mean, weights = _answered(column, size, targets)
        known = weights.min() > 0
        if column in settled:
            counts = settled[column].counts
        elif known:
            counts = settle(mean, weights, total)
        else:
            counts = near[column][0] * total if column in near else np.full(size, total)
        counts = np.maximum(counts, _LEAST)
        weight = weights if known else np.full(size, total**-2.0)
        found.append(FitTarget(counts * (total / counts.sum()), weight))
    return found


def _settled_columns(
    sizes: Sequence[int],
    targets: Mapping[Scope, FitTarget],
    total: float,
    near: Mapping[int, tuple[np.ndarray, float]],
) -> dict[int, SettledColumn]:
    """The columns that were measured and that a reference has."""
    answers = {v: _answered(v, sizes[v], targets) for v in near}
    answers = {v: found for v, found in answers.items() if found[1].min() > 0}
    return settle_to(answers, {v: near[v] for v in answers}, total)


def _answered(
    column: int, size: int, targets: Mapping[Scope, FitTarget]
) -> tuple[np.ndarray, np.ndarray]:
    """All answers about one column: their mean, and its precision, 0 where there is none."""
    weighted, weights = np.zeros(size), np.zeros(size)
    for scope, target in targets.items():
        if column in scope:
            others = tuple(i for i, v in enumerate(scope) if v != column)
            weight = 1.0 / (1.0 / target.weight).sum(axis=others)
            weighted += weight * target.values.sum(axis=others)
            weights += weight
    return weighted / np.where(weights > 0, weights, 1.0), weights


def independent(scope: Scope, columns: Sequence[FitTarget], total: float) -> np.ndarray:
    """The marginal that independent columns would have."""
    table = np.full((), total)
    for column in scope:
        table = np.multiply.outer(table, columns[column].values / total)
    return table


def find_strengths(
    targets: Mapping[Scope, FitTarget],
    columns: Sequence[FitTarget],
    total: float,
    expected: Mapping[Scope, np.ndarray] | None = None,
) -> dict[Scope, float]:
    """The strength of shrinkage for the interaction of each marginal of two and more columns.

    It is shrunk to that of the ``expected`` counts, those of independent columns by default.
    """
    scopes = [scope for scope in targets if len(scope) > 1]
    if not scopes:
        return {}
    if not expected:
        expected = {scope: independent(scope, columns, total) for scope in scopes}
    judged = [_likelihoods(q, targets[q], columns, expected[q], total) for q in scopes]
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
    scope: Scope,
    target: FitTarget,
    columns: Sequence[FitTarget],
    expected: np.ndarray,
    total: float,
) -> tuple[np.ndarray, float]:
    """The log likelihood of one marginal's interaction at every strength, and rows over noise.

    The second is the variance that the interaction has at strength 1, as a share of the noise's.
    """
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


# Shapes that are weighed: from a few codes that have nearly all rows, to all codes alike.
SHAPES = np.geomspace(0.02, 50.0, 12)
# Strengths of shrinking to a reference's counts, as shares of the largest: from tables that have
# next to nothing to do with each other, to tables that differ by chance alone.
CLOSENESS = np.geomspace(1e-4, 1.0, 12)
# Places at which a count is weighed, in deviations of its noise.
_STEPS = np.linspace(-6.0, 6.0, 49)
_NONE = 1e-300


def settle(values: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """The expected counts given noisy ones: positive, summing to ``total``.

    Args:
        values: noisy counts.
        weights: one over the variance of the noise of each.
        total: the number of rows.

    Example:
        >>> settle(np.array([52.0, -2.0, 30.0]), np.full(3, 1.0), 80.0).round(1)
        array([51. ,  0.1, 29. ])
    """
    return _settle(values, weights, total).counts(None)


class Settled(NamedTuple):
    """Expected counts of one column under each law, and how likely each law makes the answers.

    The last laws, if there are any of it, are those of a reference; ``kept`` is how much of the
    counts is its own under each of them.
    """

    found: np.ndarray
    evidence: np.ndarray
    kept: np.ndarray
    total: float

    def chances(self, shares: np.ndarray | None) -> np.ndarray:
        """How likely each law is; ``shares`` are those of all that are no reference's, then of each
        that is.
        """
        found = np.exp(self.evidence - self.evidence.max())
        if shares is not None:
            found[: SHAPES.size] *= shares[0] / SHAPES.size
            found[SHAPES.size :] *= shares[1:]
        return np.asarray(found / found.sum())

    def counts(self, shares: np.ndarray | None) -> np.ndarray:
        """The counts in the mean over all laws."""
        counts = np.tensordot(self.chances(shares), self.found, axes=1)
        return np.asarray(counts * (self.total / counts.sum()))


def _settle(
    values: np.ndarray,
    weights: np.ndarray,
    total: float,
    around: tuple[np.ndarray, float] | None = None,
) -> Settled:
    """The counts of one column under every law."""
    size, mean = values.size, total / values.size
    variance = 1.0 / weights
    # Their sum is known: the noise that it shows is taken off, of each by its variance.
    values = values + (total - values.sum()) * variance / variance.sum()
    sigma = np.sqrt(variance * (1.0 - variance / variance.sum()) if size > 1 else variance)[:, None]
    edges = np.maximum(values[:, None], 0.0) + sigma * _STEPS
    edges = np.concatenate([np.zeros_like(sigma), np.maximum(edges, 0.0)], axis=1)
    # Gamma distributions of the counts: their shapes, and their means.
    laws: list[tuple[Any, Any]] = [(shape, mean) for shape in SHAPES]
    if around is not None:
        expected = np.maximum(around[0], _LEAST)[:, None]
        laws += [(expected * (around[1] * share), expected) for share in CLOSENESS]
    found, evidence, kept = [], [], []
    for shape, mean in laws:
        scaled = edges * (shape / mean)
        mass = _between(shape, scaled)
        place = mean * _between(shape + 1.0, scaled) / np.maximum(mass, _NONE)
        place = np.clip(place, edges[:, :-1], edges[:, 1:])
        log = np.log(np.maximum(mass, _NONE)) - 0.5 * np.square((place - values[:, None]) / sigma)
        top = log.max(axis=1, keepdims=True)
        likely = np.exp(log - top)
        likely /= likely.sum(axis=1, keepdims=True)
        counts = (likely * place).sum(axis=1)
        spread = (likely * np.square(place - counts[:, None])).sum(axis=1)
        # What the sum still lacks goes to the counts that are known least.
        lack = total - counts.sum()
        found.append(np.maximum(counts + lack * spread / max(spread.sum(), _NONE), 0.5 * counts))
        evidence.append(float((top[:, 0] - np.log(likely.max(axis=1))).sum()))
        kept.append(float(np.mean(sigma**2) / np.mean(sigma**2 + mean**2 / shape)))
    return Settled(np.stack(found), np.array(evidence), np.array(kept), total)


class SettledColumn(NamedTuple):
    """A column's expected counts; how likely they are to follow a reference, and how much they do.

    Both are numbers from 0 to 1.
    """

    counts: np.ndarray
    trusted: float
    leaned: float


def settle_to(
    answers: Mapping[int, tuple[np.ndarray, np.ndarray]],
    near: Mapping[int, tuple[np.ndarray, float]],
    total: float,
) -> dict[int, SettledColumn]:
    """Settle the columns of a reference together: they show how far it can be trusted.

    Args:
        answers: by column, noisy counts and one over the variance of the noise of each.
        near: by column, the share of each code in the reference, and the largest strength of
            shrinking to it.
        total: the number of rows.
    """
    each = {v: _settle(*answers[v], total, (near[v][0] * total, near[v][1])) for v in near}
    shares = np.append(0.5, np.full(CLOSENESS.size, 0.5 / CLOSENESS.size))
    prior = shares
    for _ in range(_ROUNDS if each else 0):
        found = [
            np.append(c[: SHAPES.size].sum(), c[SHAPES.size :])
            for c in (one.chances(shares) for one in each.values())
        ]
        shares = (np.sum(found, axis=0) + prior) / (len(each) + 1.0)
    settled = {}
    for v, one in each.items():
        own = one.chances(shares)[SHAPES.size :]
        leaned = float(own @ one.kept[SHAPES.size :])
        settled[v] = SettledColumn(one.counts(shares), float(own.sum()), leaned)
    return settled


def _between(shape: Any, edges: np.ndarray) -> np.ndarray:
    """The mass of a gamma distribution between neighbouring edges, in its far tail too."""
    low, high = gammainc(shape, edges), gammaincc(shape, edges)
    return np.where(low[:, :-1] < 0.5, low[:, 1:] - low[:, :-1], high[:, :-1] - high[:, 1:]).clip(
        0.0
    )
