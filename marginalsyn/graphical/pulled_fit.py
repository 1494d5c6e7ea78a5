"""The pulled fit: a model that keeps of the answers what their noise cannot explain.

It minimises over tables P of ``total`` rows, with marginals mu::

    total * KL(P || P0) + sum_q |interaction of (mu_q - y_q)|^2 / (2 k_q sigma_q^2)
                        + sum_columns |mu_c - y_c|^2 / (2 k_0 sigma_c^2)

P0 has independent columns with the counts y_c, which are what all answers say of a column. A cell's
interaction is shrunk by about ``h / (h + k_q sigma_q^2)``, h its count: large counts are kept, what
noise may explain is pulled to independence. At the optimum ``y_q - mu_q = k_q sigma_q^2 theta_q``
in potentials theta; the steps are those of :mod:`marginalsyn.graphical.fit` with the pull added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.fit import check_possible, descend
from marginalsyn.graphical.junction_tree import triangulate
from marginalsyn.graphical.pull import column_counts, find_strengths, take_off_means
from marginalsyn.graphical.targets import FitTarget
from marginalsyn.progress import Progress

# The strength of single columns' pull: P0 has their counts already.
COLUMN_STRENGTH = 0.01


class _Pulled:
    """The loss of a contraction whose first tables are all columns, then interactions."""

    def __init__(
        self,
        contraction: Contraction,
        columns: Sequence[FitTarget],
        interactions: Mapping[Scope, FitTarget],
        strengths: Mapping[Scope, float],
        total: float,
    ) -> None:
        self.contraction, self.total = contraction, total
        targets = [*columns, *(interactions[scope] for scope in strengths)]
        pulls = [*(COLUMN_STRENGTH for _ in columns), *strengths.values()]
        values = [t.values.ravel() for t in targets]
        self.values = np.concatenate(values)
        self.weights = np.concatenate(
            [t.weight.ravel() / k for t, k in zip(targets, pulls, strict=True)]
        )
        cells = self.values.size
        self.potentials = contraction.flat[:cells]
        self.gradient, self._moved = np.empty((2, cells))
        self._marginals = contraction.flat_marginals[:cells]
        ends = np.cumsum([v.size for v in values])
        self._views = [
            self.gradient[end - t.values.size : end].reshape(t.values.shape)
            for end, t in zip(ends, targets, strict=True)
            if t.values.ndim > 1
        ]
        self._base = np.zeros(cells)
        self._base[: ends[len(columns) - 1]] = np.log(self.values[: ends[len(columns) - 1]] / total)
        np.copyto(self.potentials, self._base)
        self._deviation = (0.5 * cells) ** 0.5

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
        """Nothing: the pull keeps potentials from drifting."""

    def negligible(self, loss: float) -> float:
        """As much as noise alone moves a loss."""
        return float(np.clip(loss, 0.01 * self._deviation, 25.0 * self._deviation))


class PulledFit(NamedTuple):
    """A contraction at its pulled fit, and how it got there."""

    contraction: Contraction
    strengths: dict[Scope, float]
    loss: float
    iterations: int


def fit_pulled(
    sizes: Sequence[int],
    targets: Mapping[Scope, FitTarget],
    fixed: Mapping[Scope, np.ndarray],
    total: float,
    strengths: Mapping[Scope, float] | None = None,
    *,
    start: Mapping[Scope, np.ndarray] | None = None,
    max_iters: int,
    tolerance: float,
    progress: Progress,
) -> PulledFit:
    """Fit to all targets; ``fixed`` marks impossible cells.

    ``strengths`` are found from the targets where they are not given, and 1 for a target that they
    leave out. ``start`` holds log potentials of an earlier fit to begin with.
    """
    columns = column_counts(sizes, targets, total)
    if strengths is None:
        strengths = find_strengths(targets, columns, total)
    own = {scope: strengths.get(scope, 1.0) for scope in targets if len(scope) > 1}
    scopes: list[Scope] = [*((v,) for v in range(len(sizes))), *own]
    contraction = Contraction(triangulate(sizes, [*scopes, *fixed]), [*scopes, *fixed])
    for logs, mask in zip(contraction.logs[len(scopes) :], fixed.values(), strict=True):
        logs[mask] = -np.inf
    check_possible(contraction)
    problem = _Pulled(contraction, columns, targets, own, total)
    for scope, logs in zip(scopes, contraction.logs, strict=False):
        if start and scope in start and np.isfinite(start[scope]).all():
            logs[...] = start[scope]
    rate = 1.0 / float(np.max(problem.weights * np.clip(problem.values, 1.0, total)))
    descent = descend(
        problem, rate=rate, max_iters=max_iters, tolerance=tolerance, progress=progress
    )
    found = dict(zip(scopes, contraction.marginals, strict=False))
    loss = 0.5 * sum(
        float((t.weight * np.square(found[scope] * total - t.values)).sum())
        for scope, t in targets.items()
    )
    return PulledFit(contraction, own, loss, descent.iterations)
