"""Private-PGM's released implementation, mbi: the one module that imports it, of 1.1 and of 2.

mbi 1.1 is the last for numpy 1; 2.0 made the estimators objects.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import MissingExtraError, UsageError
from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.junction_tree import triangulate
from marginalsyn.graphical.model import Fitted, fit, singles
from marginalsyn.graphical.queries import Answers
from marginalsyn.graphical.targets import Layout, merge
from marginalsyn.libraries import took_part

if TYPE_CHECKING:
    from marginalsyn.graphical.targets import Measured


def load_mbi() -> Any:
    """The library, without its advice at import; or the command that installs it."""
    try:
        with warnings.catch_warnings():
            # mbi 2 warns of single precision: what is fitted here is fitted in double.
            warnings.simplefilter("ignore")
            import mbi
    except ImportError as error:
        raise MissingExtraError("a fit by Private-PGM's own implementation", "mbi") from error
    took_part("mbi", "fits the model")
    took_part("jax", "computes for mbi")
    return mbi


def fit_mbi(
    domain: Mapping[str, int],
    measurements: Iterable[Measured],
    total: float | None = None,
    iters: int = 1000,
) -> Fitted:
    """The estimate of :func:`~marginalsyn.graphical.model.fit` by mbi, in double precision.

    It compiles for every new structure and runs a fixed number of steps: for comparison, and for
    those who want exactly that.

    Args:
        domain: sizes of all columns, in order.
        measurements: noisy marginals.
        total: the number of rows; by default :func:`estimate_total`.
        iters: steps of mirror descent.

    Example:
        >>> from marginalsyn.graphical.targets import Observed
        >>> fit_mbi({"a": 2}, [Observed(("a",), np.array([30.0, 70.0]), 1.0)]).total
        100.0
    """
    mbi = load_mbi()
    measurements = list(measurements)
    layout = Layout(domain)
    targets, constant = merge(layout, measurements)
    total = max(1.0, estimate_total(measurements)[0] if total is None else float(total))
    if not targets:
        return fit(domain, [], total=total)
    if any(np.ptp(t.weight) > 0 for t in targets.values()):
        raise UsageError("sigma must be one number for each marginal that mbi fits")
    with _double_precision():
        linear = [
            mbi.LinearMeasurement(t.values.ravel(), layout.named(scope), t.weight.flat[0] ** -0.5)
            for scope, t in targets.items()
        ]
        model = _descend(mbi, mbi.Domain.fromdict(dict(domain)), linear, total, iters)
        potentials = {
            layout.scope(clique): layout.arranged(clique, np.asarray(factor.values, dtype=float))
            for clique, factor in tables_of(model.potentials).items()
        }
    scopes = [*potentials, *singles(layout, potentials)]
    network = Contraction(triangulate(layout.sizes, scopes), scopes)
    for scope, logs in zip(scopes, network.logs, strict=True):
        logs[...] = potentials.get(scope, 0.0)
    network.propagate()
    answers = Answers(network)
    loss = constant
    for scope, t in targets.items():
        residual = total * answers.marginal(scope) - t.values
        loss += 0.5 * float(np.vdot(residual, t.weight * residual))
    return Fitted(dict(domain), total, network, loss=loss, iterations=iters)


def _double_precision() -> Any:
    """jax's switch, which moved out of ``experimental``."""
    jax = importlib.import_module("jax")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()


def _descend(mbi: Any, domain: Any, linear: list[Any], total: float, iters: int) -> Any:
    """Mirror descent of either version."""
    if hasattr(mbi.estimation, "MirrorDescent"):
        descent = mbi.estimation.MirrorDescent()
        return descent.estimate(domain, linear, known_total=total, iters=iters)
    return mbi.estimation.mirror_descent(domain, linear, known_total=total, iters=iters)


def tables_of(vector: Any) -> Mapping[Any, Any]:
    """The factors of a vector of cliques, by clique."""
    return vector.tables if hasattr(vector, "tables") else vector.arrays


def mbi_model(
    mbi: Any, domain: Any, tables: Mapping[tuple[str, ...], np.ndarray], total: float
) -> Any:
    """Log potentials over columns as a calibrated model of mbi."""
    np_to = importlib.import_module("jax.numpy").asarray
    factors = {
        columns: mbi.Factor(domain.project(columns), np_to(values))
        for columns, values in tables.items()
    }
    potentials = mbi.CliqueVector(domain, list(factors), factors)
    oracles = importlib.import_module("mbi.marginal_oracles")
    marginals = oracles.message_passing_stable(potentials, total)
    return mbi.MarkovRandomField(potentials=potentials, marginals=marginals, total=total)
