"""Private-PGM's released implementation, mbi: the one module that imports it, of 1.1 and of 2.

mbi 1.1 is the last for numpy 1; 2.0 made the estimators objects.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError, MissingExtraError
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.model import Fitted, fit
from marginalsyn.graphical.targets import Layout, merge
from marginalsyn.libraries import took_part


def load_mbi() -> Any:
    """The library, without its advice at import; or the command that installs it."""
    try:
        with warnings.catch_warnings():
            # mbi 2 warns of single precision: what is fitted here is fitted in double.
            warnings.simplefilter("ignore")
            import mbi
    except ImportError as error:
        raise MissingExtraError("a fit by Private-PGM's own implementation", "mbi") from error
    took_part("mbi", "fits the model and answers for its marginals")
    took_part("jax", "computes for mbi")
    return mbi


def fit_mbi(
    domain: Mapping[str, int],
    measurements: Iterable[Measurement],
    total: float | None = None,
    iters: int = 1000,
    *,
    zeros: Iterable[tuple[Sequence[str], np.ndarray]] = (),
    warm: Fitted | None = None,
) -> Fitted:
    """The estimate of :func:`~marginalsyn.graphical.model.fit` by mbi, in double precision.

    mbi fits the model and answers for its marginals; only the rows are drawn by our sampler, from
    the same potentials. It compiles for every new structure and runs a fixed number of steps.

    Args:
        domain: sizes of all columns, in order.
        measurements: noisy marginals.
        total: the number of rows; by default :func:`estimate_total`.
        iters: steps of mirror descent.
        zeros: impossible cells as in ``fit``. mbi does not know them: the rows are drawn from the
            model given that they are possible.
        warm: an earlier fit by mbi to start from, of fewer measurements.

    Example:
        >>> from marginalsyn.contract import Measurement
        >>> fit_mbi({"a": 2}, [Measurement(("a",), np.array([30.0, 70.0]), 1.0)]).total
        100.0
    """
    mbi = load_mbi()
    measurements = list(measurements)
    layout = Layout(domain)
    targets, constant = merge(layout, measurements)
    total = max(1.0, estimate_total(measurements)[0] if total is None else float(total))
    if not targets:
        return fit(domain, [], total=total, zeros=zeros)
    before = warm.model if isinstance(warm, FittedByMbi) else None
    with _double_precision() as jax:
        if before is not None:
            # An adaptive mechanism never sees the earlier structure again: what was compiled for
            # it would fill the memory's map, which mbi 2 dies of.
            jax.clear_caches()
        linear = []
        for scope, t in targets.items():
            sigma = np.sqrt(1 / t.weight)
            if np.ptp(sigma) > 0:
                query = {"query": _Scaled(1 / sigma.ravel())}
                values, spread = (t.values / sigma).ravel(), 1.0
            else:
                query, values, spread = {}, t.values.ravel(), float(sigma.flat[0])
            linear.append(mbi.LinearMeasurement(values, layout.named(scope), spread, **query))
        model = _descend(mbi, mbi.Domain.fromdict(dict(domain)), linear, total, iters, before)
        potentials = {
            clique: np.asarray(factor.values, dtype=float)
            for clique, factor in tables_of(model.potentials).items()
        }
    if not all(np.isfinite(values).all() for values in potentials.values()):
        raise DataError(
            "estimator (mbi) must converge, but its mirror descent diverged on these measurements; "
            "fit them with --estimator built-in"
        )
    fitted = FittedByMbi.of_potentials(domain, potentials, total, zeros)
    fitted.model, fitted.iterations = model, iters
    loss = constant
    for scope, t in targets.items():
        residual = fitted.marginal(layout.named(scope)) - t.values
        loss += 0.5 * float(np.vdot(residual, t.weight * residual))
    fitted.loss = loss
    return fitted


@dataclass
class FittedByMbi(Fitted):
    """A model that mbi fitted and answers for; its rows are drawn as all others."""

    model: Any = field(default=None, repr=False)

    def pair_blocks(self) -> None:
        """None: mbi answers one by one, and sums variables out for those outside its cliques."""

    def _answer(self, query: Sequence[str]) -> np.ndarray:
        if not query:
            return np.array(self.total)
        with _double_precision():
            factor = self.model.project(tuple(query)).transpose(tuple(query))
            return np.array(factor.values, dtype=float)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A query of mbi for cells whose noise differs: each in units of its own deviation."""

    precision: np.ndarray

    def __call__(self, factor: Any) -> Any:
        return factor.datavector() * self.precision


@contextmanager
def _double_precision() -> Iterator[Any]:
    """jax with its switch set, which moved out of ``experimental``."""
    jax = importlib.import_module("jax")
    place = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    with place.enable_x64(True):
        yield jax


def _descend(
    mbi: Any, domain: Any, linear: list[Any], total: float, iters: int, before: Any
) -> Any:
    """Mirror descent of either version."""
    if hasattr(mbi.estimation, "MirrorDescent"):
        descent = mbi.estimation.MirrorDescent()
        return descent.estimate(domain, linear, known_total=total, iters=iters, warm_start=before)
    start = None
    if before is not None:
        # Its own way of starting warm keeps the old cliques, so the new ones are laid out here.
        cliques = mbi.marginal_loss.maximal_subset([one.clique for one in linear])
        start = before.potentials.expand(cliques)
    return mbi.estimation.mirror_descent(
        domain, linear, known_total=total, iters=iters, potentials=start
    )


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
