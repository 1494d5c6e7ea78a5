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
from marginalsyn.network import Network
from marginalsyn.progress import Progress

# A loss of this much per cell is far below that of the noise (one half per cell).
_NEGLIGIBLE = 1e-3
# The loss's decrease over so many steps decides whether to stop.
_WINDOW = 20
# A step that fails so soon after another was too long; later, the momentum was.
_SOON = 10


class Target(NamedTuple):
    """What was measured of one table: the mean, weighted by precision, and the precision."""

    values: np.ndarray
    weight: float


class Descent(NamedTuple):
    """How a fit went."""

    loss: float
    iterations: int
    converged: bool


def calibrate(
    network: Network,
    targets: Sequence[Target],
    total: float,
    *,
    max_iters: int,
    tolerance: float,
    progress: Progress,
) -> Descent:
    """Move the logs of the network's first tables until their marginals fit ``targets``.

    Stops when the loss has fallen by less than ``tolerance`` of itself over a window of steps. The
    network is left propagated at the best potentials.
    """
    if not targets:
        _propagate(network)
        return Descent(0.0, 0, True)
    cells = sum(t.values.size for t in targets)
    values = np.concatenate([t.values.ravel() for t in targets])
    weights = np.repeat([t.weight for t in targets], [t.values.size for t in targets])
    potentials, marginals = network.flat[:cells], network.flat_marginals[:cells]
    gradient, residual = np.empty(cells), np.empty(cells)

    def evaluate() -> float:
        """The loss at the network's potentials; its gradient goes to ``gradient``."""
        if not network.propagate():
            return np.inf
        np.multiply(marginals, total, out=residual)
        np.subtract(residual, values, out=residual)
        np.multiply(residual, weights, out=gradient)
        return 0.5 * float(np.dot(gradient, residual))

    _propagate(network)
    loss = evaluate()
    best, best_gradient = potentials.copy(), gradient.copy()
    last, step = best.copy(), np.empty(cells)
    rate = 1.0 / (total * float(weights.max()))
    age = 0  # steps since the momentum was last dropped
    window = deque([loss], maxlen=_WINDOW + 1)
    ceiling = np.full(cells, np.inf)
    converged = False
    iteration = 0
    for iteration in range(1, max_iters + 1):
        # step = best - rate * gradient, then beyond it by the momentum
        np.multiply(best_gradient, -rate, out=step)
        step += best
        np.subtract(step, last, out=potentials)
        potentials *= age / (age + 3.0)
        potentials += step
        np.minimum(potentials, ceiling, out=potentials)
        new = evaluate()
        if new <= loss:
            loss = new
            best, best_gradient = potentials.copy(), gradient.copy()
            last, step = step, last
            age += 1
        else:
            if age < _SOON:
                rate *= 0.5
            age = 0
            np.copyto(last, best)
        window.append(loss)
        if iteration % _WINDOW == 0:
            progress.report("estimate", text=f"loss {loss:.6g} after {iteration} steps")
        if len(window) > _WINDOW and age >= _SOON:
            fallen = window[0] - loss
            if fallen <= tolerance * (loss + _NEGLIGIBLE * cells):
                converged = True
                break
        if iteration % _WINDOW == 0 or network.in_logs:
            np.copyto(potentials, best)
            change, ceiling = (flat[:cells] for flat in network.balance())
            best += change
            last += change
    np.copyto(potentials, best)
    _propagate(network)
    return Descent(loss, iteration, converged)


def _propagate(network: Network) -> None:
    """Propagate potentials that must leave some mass."""
    if not network.propagate():
        raise UsageError("the structural zeros (all cells) must leave some combination possible")
