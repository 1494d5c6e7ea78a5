"""Graphical models of noisy marginals: fit one, ask it for any marginal, draw rows from it.

The estimate is that of Private-PGM (McKenna, Sheldon & Miklau 2019), https://arxiv.org/abs/1901.09136,
in numpy and double precision, without compiling. Private-PGM's own implementation stays available
as :func:`marginalsyn.graphical.private_pgm.fit_mbi`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError, UsageError
from marginalsyn.graphical.contraction import Contraction
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.factors import Factor, Scope, aligned
from marginalsyn.graphical.fit import calibrate
from marginalsyn.graphical.junction_tree import count_cells, triangulate
from marginalsyn.graphical.queries import Answers, PairShares
from marginalsyn.graphical.sampling import draw_independent, draw_rows
from marginalsyn.graphical.shrunken_fit import Prior, fit_shrunken
from marginalsyn.graphical.targets import Layout, masks, merge
from marginalsyn.progress import Progress, Silent

_MEBIBYTE = 2.0**20
_FORMAT = 1


def model_mb(domain: Mapping[str, int], cliques: Iterable[Sequence[str]]) -> float:
    """Size in MiB of the junction tree that holds ``cliques``: 8 bytes for each of its cells.

    It takes a fraction of a millisecond for 15 columns, so it can be asked for every candidate of a
    round. Private-PGM limits its models by this size; this module never lays such a tree out and
    needs less.

    Example:
        >>> model_mb({"a": 64, "b": 64, "c": 32}, [("a", "b"), ("b", "c")])
        0.046875
    """
    layout = Layout(domain)
    return count_cells(layout.sizes, map(layout.scope, cliques)) * 8 / _MEBIBYTE


def fit(
    domain: Mapping[str, int],
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    zeros: Iterable[tuple[Sequence[str], np.ndarray]] = (),
    warm: Fitted | None = None,
    max_iters: int = 1000,
    tolerance: float = 1e-3,
    progress: Progress | None = None,
    shrinkage: bool | Mapping[tuple[str, ...], float] = False,
    prior: Prior | None = None,
) -> Fitted:
    """Fit the table of largest entropy among those closest to all measurements.

    Closeness is the sum of squared differences, each divided by the variance of its noise.

    Args:
        domain: sizes of all columns, in order.
        measurements: noisy marginals.
        total: the number of rows; by default :func:`estimate_total`.
        zeros: pairs of columns and a boolean array over their codes, true where no row can be.
        warm: an earlier fit to start from, usually of fewer measurements; a shrunken fit takes one
            of the same measurements, such as those of a replayed release.
        max_iters: the largest number of descent steps.
        tolerance: stop when twenty steps lower the loss by less than this share of it. Ten times
            the default does for the rounds of an adaptive mechanism.
        progress: reports the loss now and then.
        shrinkage: shrink interactions towards independence as far as noise may explain them
            (:mod:`marginalsyn.graphical.shrunken_fit`), by strengths found from the measurements.
            Strengths by columns, such as an earlier model's ``shrinkage``, are taken as they are.
        prior: a reference table to shrink to in place of independence.

    Returns:
        A :class:`Fitted` model. Without measurements it is uniform over what ``zeros`` leave.

    Example:
        >>> model = fit({"a": 2, "b": 3}, [Measurement(("a",), np.array([30.0, 70.0]), 1.0)])
        >>> model.marginal(("a",)).round(3)
        array([30., 70.])
    """
    measurements = list(measurements)
    layout = Layout(domain)
    targets, constant = merge(layout, measurements)
    total = max(1.0, estimate_total(measurements)[0] if total is None else float(total))
    fixed = masks(layout, zeros)
    if shrinkage is not False:
        strengths = None
        if isinstance(shrinkage, Mapping):
            strengths = {layout.scope(columns): float(k) for columns, k in shrinkage.items()}
        shrunken = fit_shrunken(
            layout.sizes,
            targets,
            fixed,
            total,
            strengths,
            start={} if warm is None else first_logs(warm.contraction),
            prior=prior,
            max_iters=max_iters,
            tolerance=tolerance,
            progress=progress or Silent(),
        )
        return Fitted(
            dict(domain),
            total,
            shrunken.contraction,
            loss=shrunken.loss + constant,
            iterations=shrunken.iterations,
            shrinkage={layout.named(scope): k for scope, k in shrunken.strengths.items()},
            leaned={layout.named(scope): share for scope, share in shrunken.leaned.items()},
        )
    scopes = [*targets, *singles(layout, targets)]
    contraction = Contraction(triangulate(layout.sizes, [*scopes, *fixed]), [*scopes, *fixed])
    for logs, mask in zip(contraction.logs[len(scopes) :], fixed.values(), strict=True):
        logs[mask] = -np.inf
    if warm is not None:
        if dict(domain) != warm.domain:
            raise UsageError("warm must be a model of the same domain")
        _carry_over(warm.contraction, contraction, len(scopes))
    descent = calibrate(
        contraction,
        list(targets.values()),
        total,
        max_iters=max_iters,
        tolerance=tolerance,
        progress=progress or Silent(),
    )
    return Fitted(
        dict(domain),
        total,
        contraction,
        loss=descent.loss + constant,
        iterations=descent.iterations,
    )


@dataclass
class Fitted:
    """A fitted model, which gives any marginal and draws rows.

    Attributes:
        domain: sizes of all columns, in order.
        total: the number of rows that marginals sum to.
        loss: half the sum of squared differences to the measurements over their variances.
        iterations: steps that the fit took.
        shrinkage: its strength for each interaction; empty where a fit does not shrink.
        leaned: how much of each measured column and interaction is a reference's, from 0 to 1.
    """

    domain: dict[str, int]
    total: float
    contraction: Contraction = field(repr=False)
    loss: float = 0.0
    iterations: int = 0
    shrinkage: dict[tuple[str, ...], float] = field(default_factory=dict)
    leaned: dict[tuple[str, ...], float] = field(default_factory=dict)

    @property
    def cliques(self) -> list[tuple[str, ...]]:
        """The junction tree's maximal cliques, columns in domain order."""
        return [self._layout.named(clique) for clique in self.contraction.tree.cliques()]

    @property
    def model_mb(self) -> float:
        """The model's size by :func:`model_mb`."""
        return model_mb(self.domain, self.cliques)

    @property
    def potentials(self) -> dict[tuple[str, ...], np.ndarray]:
        """The log potentials; their sum is the log probability up to a constant."""
        found: dict[tuple[str, ...], np.ndarray] = {}
        for scope, logs in self._tables:
            name = self._layout.named(scope)
            found[name] = found[name] + logs if name in found else logs.copy()
        return found

    @property
    def _tables(self) -> Iterator[tuple[Scope, np.ndarray]]:
        return zip(self.contraction.scopes, self.contraction.logs, strict=True)

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        """Expected counts over ``columns``, one axis each in that order; they sum to ``total``.

        The columns need not be in one clique. ``()`` gives the total.
        """
        return self._answer(columns)

    def marginals(self, queries: Iterable[Sequence[str]]) -> dict[tuple[str, ...], np.ndarray]:
        """Many marginals at once: what they share is computed once.

        Example:
            >>> model = fit({"a": 2, "b": 2}, [], total=8)
            >>> model.marginals([("a",), ("b", "a")])[("b", "a")]
            array([[2., 2.],
                   [2., 2.]])
        """
        found = {tuple(query): self._answer(query) for query in queries}
        if "_answers" in vars(self):
            self._answers.forget()
        return found

    def pair_blocks(self) -> Iterator[tuple[int, np.ndarray]] | None:
        """All two-way marginals at once, column by column; None where cliques are too large.

        Each column's position comes with an array: a row for each of its codes, a column for each
        code of every column in domain order. The array may be changed.
        """
        if not PairShares.feasible(self.contraction):
            return None
        blocks = PairShares(self.contraction).blocks()
        return ((v, np.multiply(shares, self.total, out=shares)) for v, shares in blocks)

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
        return draw_rows(self.contraction, int(n), rng)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`rows`, but with a sample's variation: every row is drawn on its own.

        Example:
            >>> fit({"a": 2}, [], total=8).sample(1000, np.random.default_rng(0)).shape
            (1000, 1)
        """
        return draw_independent(self.contraction, int(n), rng)

    def given(self, evidence: Mapping[str, np.ndarray]) -> Fitted:
        """The model of the rows that agree with what is known of some columns, exactly.

        Args:
            evidence: by column, how likely what is known is under each of its codes, from 0 to 1.

        Returns:
            A model of the same columns; its ``total`` is the expected number of such rows.

        Raises:
            DataError: the model holds no such row.

        Example:
            >>> fit({"a": 2}, [], total=8).given({"a": np.array([0.0, 1.0])}).marginal(("a",))
            array([0., 4.])
        """
        tree, scopes = self.contraction.tree, self.contraction.scopes
        contraction = Contraction(tree, scopes)
        contraction.flat[...] = self.contraction.flat
        for name, likely in evidence.items():
            (column,) = self._layout.scope((name,))
            homes = [i for i, scope in enumerate(scopes) if column in scope]
            home = min(homes, key=lambda i: contraction.logs[i].size)
            with np.errstate(divide="ignore"):
                known = Factor((column,), np.log(np.asarray(likely, dtype=float)))
            contraction.logs[home] += aligned(known, scopes[home])
        # The same tree, so that both masses are on one scale.
        if not contraction.propagate():
            raise DataError("the model must hold a row that agrees with the condition: none does")
        share = math.exp(min(0.0, contraction.log_mass - self.contraction.log_mass))
        return Fitted(dict(self.domain), self.total * share, contraction)

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays (for ``numpy.savez``) and JSON, from which :meth:`from_arrays` rebuilds it."""
        arrays = {f"log_{i}": logs for i, logs in enumerate(self.contraction.logs)}
        named = self._layout.named
        meta = {
            "format": _FORMAT,
            "domain": [[name, size] for name, size in self.domain.items()],
            "scopes": [list(named(scope)) for scope in self.contraction.scopes],
            "order": list(named(self.contraction.tree.order)),
            "total": self.total,
            "loss": self.loss,
            "iterations": self.iterations,
            "pull": [[list(columns), strength] for columns, strength in self.shrinkage.items()],
        }
        return arrays, meta

    @classmethod
    def of_potentials(
        cls,
        domain: Mapping[str, int],
        potentials: Mapping[tuple[str, ...], np.ndarray],
        total: float,
        zeros: Iterable[tuple[Sequence[str], np.ndarray]] = (),
    ) -> Self:
        """The model whose log probability is the sum of these tables, up to a constant.

        Args:
            domain: sizes of all columns, in order.
            potentials: tables of finite numbers or minus infinity, by their columns.
            total: the number of rows that marginals sum to.
            zeros: impossible cells as in :func:`fit`.

        Example:
            >>> Fitted.of_potentials({"a": 2}, {("a",): np.log([1, 3])}, 8).marginal(("a",))
            array([2., 6.])
        """
        layout = Layout(domain)
        fixed = masks(layout, zeros)
        given: dict[Scope, np.ndarray] = {}
        for columns, logs in potentials.items():
            scope, logs = layout.scope(columns), layout.arranged(columns, logs)
            given[scope] = given.get(scope, 0.0) + logs
        scopes = [*given, *singles(layout, given)]
        network = Contraction(triangulate(layout.sizes, [*scopes, *fixed]), [*scopes, *fixed])
        for scope, logs in zip(scopes, network.logs, strict=False):
            logs[...] = given.get(scope, 0.0)
        for logs, mask in zip(network.logs[len(scopes) :], fixed.values(), strict=True):
            logs[mask] = -np.inf
        if not network.propagate():
            raise DataError("the model's potentials must leave a row that is possible")
        return cls(dict(domain), float(total), network)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Fitted:
        """Rebuild a model from its :meth:`arrays`: the same marginals, the same rows."""
        if meta.get("format") != _FORMAT:
            raise DataError(
                f"model format ({meta.get('format')}) must be {_FORMAT}; "
                "read it with the version of marginalsyn that wrote it"
            )
        domain = {str(name): int(size) for name, size in meta["domain"]}
        layout = Layout(domain)
        scopes = [layout.positions(columns) for columns in meta["scopes"]]
        tree = triangulate(layout.sizes, scopes, layout.positions(meta["order"]))
        contraction = Contraction(tree, scopes)
        for i, logs in enumerate(contraction.logs):
            logs[...] = arrays[f"log_{i}"]
        if not contraction.propagate():
            raise DataError("the stored model holds no possible row; write the release again")
        shrinkage = {tuple(columns): float(strength) for columns, strength in meta.get("pull", ())}
        return cls(
            domain, float(meta["total"]), contraction, meta["loss"], meta["iterations"], shrinkage
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Fitted.from_arrays, self.arrays()

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.domain)

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.contraction)

    def _answer(self, query: Sequence[str]) -> np.ndarray:
        probability = self._answers.marginal(self._layout.positions(query))
        return np.multiply(probability, self.total, out=probability)


def singles(layout: Layout, scopes: Collection[Scope]) -> list[Scope]:
    """Every column alone that is not among ``scopes``: a contraction has a table for each."""
    return [(v,) for v in range(len(layout.sizes)) if (v,) not in scopes]


def first_logs(contraction: Contraction) -> dict[Scope, np.ndarray]:
    """The log potentials by their columns: of two tables the first, whose cells are possible."""
    both = zip(reversed(contraction.scopes), reversed(contraction.logs), strict=True)
    return dict(both)


def _carry_over(warm: Contraction, contraction: Contraction, free: int) -> None:
    """Add another model's potentials to the first tables, wherever one of them can hold them."""
    scopes = contraction.scopes[:free]
    for scope, logs in zip(warm.scopes, warm.logs, strict=True):
        homes = [i for i, home in enumerate(scopes) if {*scope} <= {*home}]
        if homes and np.isfinite(logs).all():
            home = min(homes, key=lambda i: contraction.logs[i].size)
            contraction.logs[home] += aligned(Factor(scope, logs), scopes[home])
