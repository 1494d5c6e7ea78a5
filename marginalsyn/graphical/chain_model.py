"""A released chain of rows: a model that gives rows and marginals by sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError, UsageError
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.row_chains import IMPOSSIBLE, RowChain, count, fit_chain
from marginalsyn.graphical.sampling import FEWEST, MOST
from marginalsyn.graphical.targets import Layout, masks, merge
from marginalsyn.progress import Progress, Silent

# Sweeps of rows that follow the model already, and of rows that follow the tree's.
_AGAIN, _FROM_TREE = 10, 40
# Marginals are those of so many sets of rows, a sweep between any two.
_SETS = 10
# What is known of columns is looked up among these rows if so many of them agree.
_ENOUGH = 200


@dataclass
class ChainModel(pgm.Fitted):
    """A fitted chain next to the tree that it started from.

    ``contraction`` is the tree's: it gives first rows where the chain's own do not agree with what
    is known. All marginals and rows are the chain's.

    Attributes:
        chain: log potentials of all marginals that were measured.
        followers: rows that follow the chain.
        expected: shares of the rows in all cells, laid out as the chain's potentials.
        convergence: sweeps, and distances as :class:`~marginalsyn.graphical.row_chains.ChainFit`
            has them.
        known: by column the logs of how likely what is known is under each code.
        unused: whether ``followers`` were never given out as rows.
    """

    chain: RowChain = field(kw_only=True, repr=False)
    followers: np.ndarray = field(kw_only=True, repr=False)
    expected: np.ndarray = field(kw_only=True, repr=False)
    convergence: dict[str, float] = field(kw_only=True, default_factory=dict)
    known: dict[int, np.ndarray] = field(kw_only=True, default_factory=dict, repr=False)
    unused: bool = field(kw_only=True, default=False)

    @property
    def _logs(self) -> list[np.ndarray]:
        return [np.where(t > IMPOSSIBLE / 2, t, -np.inf) for t in self.chain.tables]

    @property
    def _tables(self) -> Iterator[tuple[Scope, np.ndarray]]:
        return zip(self.chain.scopes, self._logs, strict=True)

    def tree_holds(self, columns: Sequence[str]) -> bool:
        """Whether the tree that the chain started from was fitted to a marginal."""
        return self._layout.scope(columns) in self.contraction.scopes

    def pair_blocks(self) -> Iterator[tuple[int, np.ndarray]] | None:
        """None: marginals are counted one by one."""
        return None

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the codes of ``n`` rows; those of the fit itself, the first time."""
        if n < 0:
            raise UsageError(f"rows ({n}) must be at least 0")
        if self.unused and n <= len(self.followers) and not self.known:
            self.unused = False
            return self.followers[rng.permutation(len(self.followers))[:n]]
        return self.sample(n, rng)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the codes of ``n`` rows: some of the fit's, or of the tree's, swept again."""
        rows, sweeps = self._first_rows(n, rng)
        for _ in range(sweeps if n else 0):
            self._sweep(rows, rng)
        return rows

    def _sweep(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Draw all rows again; together, where nothing is known, so that their counts stay."""
        if self.expected.any() and not self.known:
            self.chain.settle(rows, self.expected, rng)
        else:
            self.chain.sweep(rows, rng, self.known)

    def given(self, evidence: Mapping[str, np.ndarray]) -> ChainModel:
        """The model of the rows that agree with what is known of some columns.

        Its ``total`` is estimated from rows of the chain, or of the tree where few agree.
        """
        known = dict(self.known)
        likely = np.ones(self._population.shape[0])
        for name, chances in evidence.items():
            (column,) = self._layout.scope((name,))
            with np.errstate(divide="ignore"):
                logs = np.log(np.asarray(chances, dtype=float))
            known[column] = known.get(column, 0.0) + np.maximum(logs, IMPOSSIBLE)
            likely *= np.asarray(chances, dtype=float)[self._population[:, column]]
        tree = super().given(evidence)
        share = float(likely.mean())
        agree = self._population[likely > 0]
        enough, followers = len(agree) >= _ENOUGH, agree[:0]
        if enough:  # each as often as it is likely
            reach, n = np.cumsum(likely[likely > 0]), len(self.followers)
            places = np.searchsorted(reach, (np.arange(n) + 0.5) * (reach[-1] / max(n, 1)))
            followers = agree[np.minimum(places, len(agree) - 1)]
        return replace(
            self,
            total=self.total * share if enough else tree.total,
            contraction=tree.contraction,
            followers=followers,
            known=known,
            unused=False,
        )

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON of the tree, with those of the chain."""
        arrays, meta = super().arrays()
        arrays |= {f"chain_{i}": logs for i, logs in enumerate(self._logs)}
        arrays["chain_expected"] = self.expected
        arrays["chain_rows"] = self.followers.astype(np.min_scalar_type(max(self.chain.sizes) - 1))
        meta["chain"] = {
            "scopes": [list(self._layout.named(scope)) for scope in self.chain.scopes],
            **self.convergence,
        }
        return arrays, meta

    def __reduce__(self) -> tuple[Any, ...]:
        return read_fitted, self.arrays()

    @cached_property
    def _population(self) -> np.ndarray:
        """Rows of the model that its marginals are counted from: the same whenever it is read."""
        rng = np.random.default_rng(0)
        size = max(len(self.followers), FEWEST)
        rows, sweeps = self._first_rows(size, rng)
        kept = np.empty((_SETS, *rows.shape), np.min_scalar_type(max(self.chain.sizes) - 1))
        for i in range(sweeps - _AGAIN + _SETS):
            self._sweep(rows, rng)
            kept[i % _SETS] = rows
        return kept.reshape(-1, rows.shape[1])

    def _first_rows(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Rows to start from, and the sweeps that they need."""
        if len(self.followers):
            rows = np.resize(rng.permutation(self.followers), (n, len(self.chain.sizes)))
            return np.ascontiguousarray(rows, dtype=np.int32), _AGAIN
        return np.ascontiguousarray(super().sample(n, rng), dtype=np.int32), _FROM_TREE

    def _answer(self, query: Sequence[str]) -> np.ndarray:
        scope = self._layout.positions(query)
        counts = count(self._population, scope, self.chain.sizes)
        return counts * (self.total / len(self._population))


def extend(
    tree: pgm.Fitted,
    measurements: Iterable[Measurement],
    *,
    zeros: Iterable[tuple[Sequence[str], np.ndarray]] = (),
    sweeps: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> ChainModel:
    """Fit a chain to all measurements, from a model of the ones that a tree can hold.

    Args:
        tree: the model to start from, with the shrinkage of the same kind.
        measurements: noisy marginals, those of the tree and more.
        zeros: impossible cells as in :func:`marginalsyn.graphical.model.fit`.
        sweeps: at most so many.
        rng: draws the rows.
        progress: reports how far it is.
    """
    layout = Layout(tree.domain)
    targets, _ = merge(layout, measurements)
    rows = tree.rows(int(np.clip(round(tree.total), FEWEST, MOST)), rng)
    both = zip(reversed(tree.contraction.scopes), reversed(tree.contraction.logs), strict=True)
    found = fit_chain(
        layout.sizes,
        targets,
        masks(layout, zeros),
        tree.total,
        start=dict(both),
        rows=np.ascontiguousarray(rows, dtype=np.int32),
        sweeps=sweeps,
        rng=rng,
        progress=progress or Silent(),
    )
    return ChainModel(
        dict(tree.domain),
        tree.total,
        tree.contraction,
        tree.loss,
        tree.iterations,
        {layout.named(scope): k for scope, k in found.strengths.items()},
        chain=found.chain,
        followers=found.rows,
        expected=found.expected,
        convergence=found.convergence,
        unused=True,
    )


def read_fitted(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> pgm.Fitted:
    """A model from its ``arrays()``: a tree's, or with a chain of rows.

    Raises:
        DataError: what was stored is no model.
    """
    tree = pgm.Fitted.from_arrays(arrays, meta)
    stored = meta.get("chain")
    if stored is None:
        return tree
    layout = Layout(tree.domain)
    chain = RowChain(layout.sizes, [layout.positions(columns) for columns in stored["scopes"]])
    for i, table in enumerate(chain.tables):
        logs = np.asarray(arrays[f"chain_{i}"], dtype=float)
        if logs.shape != table.shape or np.isnan(logs).any() or np.isposinf(logs).any():
            raise DataError(f"potentials (chain_{i}) must be numbers in the shape of their columns")
        table[...] = np.maximum(logs, IMPOSSIBLE)
    rows = np.asarray(arrays["chain_rows"])
    fits = rows.ndim == 2 and rows.dtype.kind == "u" and rows.shape[1] == len(layout.sizes)
    if not fits or (rows >= np.array(layout.sizes)).any():
        raise DataError("rows (chain_rows) must be codes of the model's columns")
    expected = arrays.get("chain_expected", np.zeros_like(chain.flat))
    if expected.shape != chain.flat.shape or not (expected >= 0).all():
        raise DataError("shares (chain_expected) must be one number of 0 or more for each cell")
    return ChainModel(
        tree.domain,
        tree.total,
        tree.contraction,
        tree.loss,
        tree.iterations,
        tree.shrinkage,
        chain=chain,
        followers=rows,
        expected=expected,
        convergence={name: figure for name, figure in stored.items() if name != "scopes"},
    )
