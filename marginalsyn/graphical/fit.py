"""Fitting a model's potentials to noisy marginals.

The estimate minimises ``sum_i |mu_i - y_i|^2 / (2 sigma_i^2)`` over the marginals ``mu`` that some
table has; of the tables that attain it, it is the one of largest entropy (McKenna et al. 2019). A
mirror descent step moves the log potentials by the loss's gradient in the marginals. Nesterov's
momentum on the potentials needs about the square root of its number of steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.targets import FitTarget
from marginalsyn.progress import Progress

# Convergence is judged relative to the loss, but to no more than so many standard deviations of the
# noise's own loss (it grows with the cells, what can be learnt from them need not) and no less.
_LARGE, _NEGLIGIBLE = 25.0, 0.01
# The loss's decrease over so many steps decides whether to stop.
_WINDOW = 20
# A loss that rises by so little of itself has not risen.
_ROUNDING = 1e-12
# A step that fails so soon after the last failure was too long; later, the momentum was.
_SOON = 25


class Descent(NamedTuple):
    """How a fit went."""

    loss: float
    iterations: int


class Loss:
    """The loss of a contraction's first tables, as a function of their logs, the ``potentials``.

    ``evaluate`` sets ``gradient``, the direction of steepest rise in the loss's own measure.
    ``rewrite`` may move the potentials along directions that change nothing, and returns a ceiling
    for them.
    """

    def __init__(
        self, contraction: Contraction, targets: Sequence[FitTarget], total: float
    ) -> None:
        self.contraction, self.total = contraction, total
        self.values = np.concatenate([t.values.ravel() for t in targets])
        self.weights = np.concatenate([t.weight.ravel() for t in targets])
        cells = len(self.values)
        self.potentials = contraction.flat[:cells]
        self.gradient = np.empty(cells)
        self._marginals = contraction.flat_marginals[:cells]
        self._deviation = (0.5 * cells) ** 0.5

    def evaluate(self) -> float:
        """The loss at the present potentials; sets ``gradient``, taken in the marginals."""
        if not self.contraction.propagate():
            return np.inf
        residual = np.multiply(self._marginals, self.total, out=self.gradient)
        residual -= self.values
        loss = 0.5 * float(np.einsum("i,i,i", self.weights, residual, residual))
        self.gradient *= self.weights
        return loss

    def rewrite(self) -> np.ndarray | None:
        """Balance the contraction, which keeps potentials from drifting."""
        return self.contraction.balance()[: len(self.values)]

    def negligible(self, loss: float) -> float:
        """What of a loss convergence is judged by."""
        return float(np.clip(loss, _NEGLIGIBLE * self._deviation, _LARGE * self._deviation))


def calibrate(
    contraction: Contraction,
    targets: Sequence[FitTarget],
    total: float,
    *,
    max_iters: int,
    tolerance: float,
    progress: Progress,
) -> Descent:
    """Move the logs of the contraction's first tables until their marginals fit ``targets``.

    Stops when the loss has fallen by less than ``tolerance`` of itself over a window of steps. The
    contraction is left propagated at the best potentials. A step of mirror descent adds to the log
    potentials; momentum adds a growing part of the last change again.
    """
    check_possible(contraction)
    if not targets:
        return Descent(0.0, 0)
    problem = Loss(contraction, targets, total)
    # the largest curvature is about that of the largest cell
    rate = 1.0 / float(np.max(problem.weights * np.clip(problem.values, 1.0, total)))
    descent = descend(
        problem, rate=rate, max_iters=max_iters, tolerance=tolerance, progress=progress
    )
    if contraction.in_logs:  # balanced, the model may be within the range of plain arithmetic again
        contraction.balance()
        contraction.propagate()
    return descent


def check_possible(contraction: Contraction) -> None:
    """Propagate a contraction; refuse one whose structural zeros leave nothing possible."""
    if not contraction.propagate():
        raise UsageError(
            "structural zeros must leave some combination of values possible: these rule out all "
            "cells"
        )


def descend(
    problem: Loss, *, rate: float, max_iters: int, tolerance: float, progress: Progress
) -> Descent:
    """Lower a problem's loss by accelerated steps, until a window of them lowers it no more.

    Leaves the contraction propagated at the best potentials that were found.
    """
    potentials = problem.potentials
    rounding = (0.5 * len(potentials)) ** 0.5
    loss = problem.evaluate()
    best, last, step = potentials.copy(), potentials.copy(), np.empty(len(potentials))
    ceiling = None
    age = 0  # steps since the momentum was last dropped
    window = deque([loss], maxlen=_WINDOW + 1)
    iteration = 0
    for iteration in range(1, max_iters + 1):
        # a step from the best potentials, and beyond it by the momentum
        np.multiply(problem.gradient, -rate, out=step)
        step += best
        np.subtract(step, last, out=potentials)
        potentials *= age / (age + 3.0)
        potentials += step
        if ceiling is not None:
            np.minimum(potentials, ceiling, out=potentials)
        new = problem.evaluate()
        if new <= loss + _ROUNDING * (abs(loss) + rounding):
            loss = new
            age += 1
            np.copyto(best, potentials)
            last, step = step, last
        else:
            rate *= 0.5 if age < _SOON else 1.0
            age = 0
            np.copyto(last, best)
            np.copyto(potentials, best)
            problem.evaluate()
        if iteration % _WINDOW == 0 or problem.contraction.in_logs:
            last -= best
            ceiling = problem.rewrite()
            np.copyto(best, potentials)
            last += best
        if iteration % _WINDOW == 0:
            progress.report("estimate", text=f"loss {loss:.6g} after {iteration} steps")
        window.append(loss)
        fallen = window[0] - loss
        if (
            age >= _SOON
            and len(window) > _WINDOW
            and fallen <= tolerance * problem.negligible(loss)
        ):
            break
    np.copyto(potentials, best)
    problem.contraction.propagate()
    return Descent(loss, iteration)
