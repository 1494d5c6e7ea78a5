"""Graphical models of noisy marginals: fit one, ask it for any marginal, draw rows from it.

The estimate is that of Private-PGM (McKenna, Sheldon & Miklau 2019), https://arxiv.org/abs/1901.09136,
in numpy and double precision, without compiling. Private-PGM's own implementation stays available
as :func:`fit_mbi`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from marginalsyn.calibration import Target, calibrate
from marginalsyn.errors import DataError, UsageError
from marginalsyn.factors import Scope, product
from marginalsyn.junction_tree import count_cells, triangulate
from marginalsyn.network import Network
from marginalsyn.progress import Progress, Silent
from marginalsyn.queries import Answers
from marginalsyn.rows import draw_rows

_MEBIBYTE = 2.0**20
_FORMAT = 1


class Measured(Protocol):
    """A noisy marginal: counts over ``columns`` and the standard deviation of their noise."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def values(self) -> np.ndarray: ...
    @property
    def sigma(self) -> float: ...


@dataclass(frozen=True)
class Observed:
    """A noisy marginal, for those who have no :class:`~marginalsyn.generators.base.Measurement`.

    Args:
        columns: names, in the order of the axes of ``values``.
        values: counts with noise, shaped by the columns' sizes.
        sigma: standard deviation of the noise in every cell.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    sigma: float


def model_mb(domain: Mapping[str, int], cliques: Iterable[Sequence[str]]) -> float:
    """Size in MiB of the junction tree that holds ``cliques``: 8 bytes for each of its cells.

    A fraction of a millisecond for a table of 15 columns, so that every candidate of a round can
    be asked about. It is the size by which Private-PGM limits its models; this module never lays
    such a tree out and needs less.

    Example:
        >>> model_mb({"a": 64, "b": 64, "c": 32}, [("a", "b"), ("b", "c")])
        0.046875
    """
    position = {name: i for i, name in enumerate(domain)}
    scopes = [_scope(position, clique) for clique in cliques]
    return count_cells(tuple(domain.values()), scopes) * 8 / _MEBIBYTE


def estimate_total(measurements: Iterable[Measured]) -> float:
    """The number of rows that the measurements' sums suggest: unbiased, least variance, at least 1.

    Example:
        >>> estimate_total([Observed(("a",), np.array([60, 41]), 5.0)])
        101.0
    """
    sums, precisions = [], []
    for m in measurements:
        values = np.asarray(m.values, dtype=float)
        sums.append(float(values.sum()))
        precisions.append(_precision(m.sigma) / values.size)
    if not sums:
        return 1.0
    return max(1.0, float(np.dot(sums, precisions) / np.sum(precisions)))


def fit(
    domain: Mapping[str, int],
    measurements: Iterable[Measured],
    *,
    total: float | None = None,
    zeros: Iterable[tuple[Sequence[str], np.ndarray]] = (),
    warm: Fitted | None = None,
    max_iters: int = 1000,
    tolerance: float = 1e-4,
    progress: Progress | None = None,
    extra_cliques: Iterable[Sequence[str]] = (),
) -> Fitted:
    """Fit the table of largest entropy among those closest to all measurements.

    Closest is the sum of squared differences, each over the variance of its noise.

    Args:
        domain: sizes of all columns, in order.
        measurements: noisy marginals (:class:`Observed` or anything with its fields).
        total: the number of rows; by default :func:`estimate_total`.
        zeros: pairs of columns and a boolean array over their codes, true where no row can be.
        warm: an earlier fit to start from, usually of fewer measurements.
        max_iters: the largest number of descent steps.
        tolerance: stop when twenty steps lower the loss by less than this share of it.
        progress: told the loss now and then.
        extra_cliques: columns to hold together in the junction tree though nothing measured them.

    Returns:
        A :class:`Fitted` model. Without measurements it is uniform over what ``zeros`` leave.

    Example:
        >>> model = fit({"a": 2, "b": 3}, [Observed(("a",), np.array([30.0, 70.0]), 1.0)])
        >>> model.marginal(("a",)).round(3)
        array([30., 70.])
    """
    measurements = list(measurements)
    position = {name: i for i, name in enumerate(domain)}
    sizes = tuple(int(size) for size in domain.values())
    total = estimate_total(measurements) if total is None else max(1.0, float(total))
    targets, constant = _targets(position, sizes, measurements)
    fixed = _fixed_tables(position, sizes, zeros, extra_cliques)
    scopes = list(targets)
    scopes += [(v,) for v in range(len(sizes)) if (v,) not in targets]
    measured = len(targets)
    network = Network(triangulate(sizes, [*scopes, *fixed]), [*scopes, *fixed])
    for logs, mask in zip(network.logs[len(scopes) :], fixed.values(), strict=True):
        logs[mask] = -np.inf
    if warm is not None:
        _carry_over(warm, domain, scopes, network)
    descent = calibrate(
        network,
        [targets[scope] for scope in scopes[:measured]],
        total,
        max_iters=max_iters,
        tolerance=tolerance,
        progress=progress or Silent(),
    )
    return Fitted(
        dict(domain), total, network, loss=descent.loss + constant, iterations=descent.iterations
    )


def fit_mbi(
    domain: Mapping[str, int],
    measurements: Iterable[Measured],
    total: float | None = None,
    iters: int = 1000,
) -> Fitted:
    """The same estimate by Private-PGM's released implementation, in double precision.

    It compiles for every new structure and runs a fixed number of steps: for comparison, and for
    those who want exactly that.

    Args:
        domain: sizes of all columns, in order.
        measurements: noisy marginals.
        total: the number of rows; by default :func:`estimate_total`.
        iters: steps of mirror descent.

    Example:
        >>> fit_mbi({"a": 2}, [Observed(("a",), np.array([30.0, 70.0]), 1.0)]).total
        100.0
    """
    import mbi
    from jax.experimental import enable_x64

    measurements = list(measurements)
    total = estimate_total(measurements) if total is None else max(1.0, float(total))
    position = {name: i for i, name in enumerate(domain)}
    sizes = tuple(int(size) for size in domain.values())
    targets, constant = _targets(position, sizes, measurements)
    if not targets:
        return fit(domain, [], total=total)
    names = list(domain)
    with enable_x64():
        linear = [
            mbi.LinearMeasurement(t.values.ravel(), tuple(names[v] for v in scope), t.weight**-0.5)
            for scope, t in targets.items()
        ]
        model = mbi.estimation.mirror_descent(
            mbi.Domain.fromdict(dict(domain)), linear, known_total=total, iters=iters
        )
        potentials = {
            _scope(position, clique): np.asarray(factor.values, dtype=float).transpose(
                np.argsort([position[name] for name in clique])
            )
            for clique, factor in model.potentials.arrays.items()
        }
    scopes = sorted({*potentials, *((v,) for v in range(len(sizes)))})
    network = Network(triangulate(sizes, scopes), scopes)
    for scope, logs in zip(scopes, network.logs, strict=True):
        if scope in potentials:
            logs[...] = potentials[scope]
    network.propagate()
    fitted = Fitted(dict(domain), total, network, iterations=iters)
    answers = Answers(network)
    for scope, t in targets.items():
        residual = total * answers.marginal(scope) - t.values
        fitted.loss += 0.5 * t.weight * float(np.vdot(residual, residual))
    fitted.loss += constant
    return fitted


@dataclass
class Fitted:
    """A fitted model: any marginal of it, and rows.

    Attributes:
        domain: sizes of all columns, in order.
        total: the number of rows that marginals sum to.
        loss: half the sum of squared differences to the measurements over their variances.
        iterations: steps that the fit took.
    """

    domain: dict[str, int]
    total: float
    network: Network = field(repr=False)
    loss: float = 0.0
    iterations: int = 0
    _answers: Answers | None = field(default=None, repr=False)

    @property
    def cliques(self) -> list[tuple[str, ...]]:
        """The junction tree's maximal cliques, columns in domain order."""
        return [self._named(clique) for clique in self.network.tree.cliques()]

    @property
    def model_mb(self) -> float:
        """What :func:`model_mb` says of these cliques."""
        return model_mb(self.domain, self.cliques)

    @property
    def potentials(self) -> dict[tuple[str, ...], np.ndarray]:
        """The log potentials; their sum is the log probability but for a constant."""
        found: dict[tuple[str, ...], np.ndarray] = {}
        for scope, logs in zip(self.network.scopes, self.network.logs, strict=True):
            name = self._named(scope)
            found[name] = found[name] + logs if name in found else logs.copy()
        return found

    @property
    def beliefs(self) -> dict[tuple[str, ...], np.ndarray]:
        """Every maximal clique's marginal. Lays out the whole junction tree."""
        return self.marginals(self.cliques)

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        """Expected counts over ``columns``, one axis each in that order; they sum to ``total``.

        The columns need not be in one clique. ``()`` gives the total.
        """
        return self._answer(tuple(columns))

    def marginals(self, queries: Iterable[Sequence[str]]) -> dict[tuple[str, ...], np.ndarray]:
        """Many marginals at once: what they share is computed once.

        Example:
            >>> model = fit({"a": 2, "b": 2}, [], total=8)
            >>> model.marginals([("a",), ("b", "a")])[("b", "a")]
            array([[2., 2.],
                   [2., 2.]])
        """
        found = {tuple(query): self._answer(tuple(query)) for query in queries}
        if self._answers is not None:
            self._answers.forget()
        return found

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the codes of ``n`` rows, int32 of shape (n, columns), in domain order.

        The rows are a whole population at once: counts are as close to expected as whole numbers
        allow, and columns that the model holds independent are so in the rows.

        Args:
            n: number of rows.
            rng: the only source of randomness.

        Example:
            >>> fit({"a": 2}, [], total=8).rows(4, np.random.default_rng(0)).sum()
            2
        """
        if n < 0:
            raise UsageError(f"rows ({n}) must be at least 0")
        return draw_rows(self.network, int(n), rng)

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays (for ``numpy.savez``) and JSON that :meth:`from_arrays` makes the model of."""
        arrays = {f"log_{i}": logs for i, logs in enumerate(self.network.logs)}
        names = list(self.domain)
        meta = {
            "format": _FORMAT,
            "domain": [[name, size] for name, size in self.domain.items()],
            "scopes": [[names[v] for v in scope] for scope in self.network.scopes],
            "order": [names[v] for v in self.network.tree.order],
            "total": self.total,
            "loss": self.loss,
            "iterations": self.iterations,
        }
        return arrays, meta

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Fitted:
        """Rebuild a model that :meth:`arrays` took apart: the same marginals, the same rows."""
        if meta.get("format") != _FORMAT:
            raise DataError(
                f"model format ({meta.get('format')}) must be {_FORMAT}; "
                "read it with the version of marginalsyn that wrote it"
            )
        domain = {str(name): int(size) for name, size in meta["domain"]}
        position = {name: i for i, name in enumerate(domain)}
        scopes = [tuple(position[name] for name in scope) for scope in meta["scopes"]]
        order = [position[name] for name in meta["order"]]
        network = Network(triangulate(tuple(domain.values()), scopes, order), scopes)
        for i, logs in enumerate(network.logs):
            logs[...] = arrays[f"log_{i}"]
        if not network.propagate():
            raise DataError("the stored model holds no possible row; write the release again")
        return cls(domain, float(meta["total"]), network, meta["loss"], meta["iterations"])

    def _named(self, scope: Scope) -> tuple[str, ...]:
        names = list(self.domain)
        return tuple(names[v] for v in scope)

    def _answer(self, query: tuple[str, ...]) -> np.ndarray:
        position = {name: i for i, name in enumerate(self.domain)}
        _scope(position, query)
        if self._answers is None:
            self._answers = Answers(self.network)
        probability = self._answers.marginal(tuple(position[name] for name in query))
        return np.multiply(probability, self.total, out=probability)


def _scope(position: Mapping[str, int], columns: Sequence[str]) -> Scope:
    """Positions of some columns, in domain order."""
    unknown = [name for name in columns if name not in position]
    if unknown:
        raise UsageError(f"columns ({', '.join(unknown)}) must be in the domain")
    if len(set(columns)) != len(columns):
        raise UsageError(f"columns ({', '.join(columns)}) must be given once each")
    return tuple(sorted(position[name] for name in columns))


def _shaped(
    position: Mapping[str, int], sizes: Sequence[int], columns: Sequence[str], values: np.ndarray
) -> tuple[Scope, np.ndarray]:
    """Scope and array with axes in domain order."""
    scope = _scope(position, columns)
    expected = tuple(sizes[position[name]] for name in columns)
    if values.shape != expected:
        raise UsageError(f"values ({', '.join(columns)}) must have the shape {expected}")
    return scope, values.transpose(np.argsort([position[name] for name in columns]))


def _precision(sigma: float) -> float:
    """One over the variance of the noise."""
    if not (sigma > 0 and np.isfinite(sigma)):
        raise UsageError(f"sigma ({sigma}) must be a positive number")
    return 1.0 / float(sigma) ** 2


def _targets(
    position: Mapping[str, int], sizes: Sequence[int], measurements: Iterable[Measured]
) -> tuple[dict[Scope, Target], float]:
    """One target per set of columns, and what their merging takes from the loss."""
    sums: dict[Scope, np.ndarray] = {}
    squares: dict[Scope, float] = {}
    weights: dict[Scope, float] = {}
    for m in measurements:
        values = np.asarray(m.values, dtype=float)
        scope, values = _shaped(position, sizes, m.columns, values)
        weight = _precision(m.sigma)
        sums[scope] = sums.get(scope, 0.0) + weight * values
        weights[scope] = weights.get(scope, 0.0) + weight
        squares[scope] = squares.get(scope, 0.0) + weight * float(np.vdot(values, values))
    targets, constant = {}, 0.0
    for scope in sorted(sums, key=lambda s: (len(s), s)):
        mean = sums[scope] / weights[scope]
        constant += 0.5 * (squares[scope] - weights[scope] * float(np.vdot(mean, mean)))
        if scope:
            targets[scope] = Target(mean, weights[scope])
    return targets, constant


def _fixed_tables(
    position: Mapping[str, int],
    sizes: Sequence[int],
    zeros: Iterable[tuple[Sequence[str], np.ndarray]],
    extra_cliques: Iterable[Sequence[str]],
) -> dict[Scope, np.ndarray]:
    """Masks of impossible cells, none for cliques that are only to be held together."""
    fixed: dict[Scope, np.ndarray] = {}
    for columns, mask in zeros:
        scope, mask = _shaped(position, sizes, columns, np.asarray(mask, dtype=bool))
        fixed[scope] = fixed[scope] | mask if scope in fixed else mask
    for columns in extra_cliques:
        scope = _scope(position, columns)
        fixed.setdefault(scope, np.zeros([sizes[v] for v in scope], dtype=bool))
    return fixed


def _carry_over(
    warm: Fitted, domain: Mapping[str, int], scopes: Sequence[Scope], network: Network
) -> None:
    """Start from another model's potentials, wherever a table of this one can hold them."""
    if dict(domain) != warm.domain:
        raise UsageError("warm must be a model of the same domain")
    cells = [product(network.tree.sizes[v] for v in scope) for scope in scopes]
    for scope, logs in zip(warm.network.scopes, warm.network.logs, strict=True):
        homes = [i for i, s in enumerate(scopes) if {*scope} <= {*s}]
        if homes and np.isfinite(logs).all():
            home = min(homes, key=cells.__getitem__)
            index = tuple(slice(None) if v in scope else None for v in scopes[home])
            network.logs[home] += logs[index]
