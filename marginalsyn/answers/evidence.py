"""What a release knows of its table: noisy marginals, their fitted model, and how to replay both.

A replay draws a table of the estimated size from the model, adds noise of the recorded deviations
to its measured marginals, and fits a model to these as the release did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from marginalsyn.budget import Neighbours
from marginalsyn.contract import Measurement
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.graphical import Compression, estimate_total, identity
from marginalsyn.graphical import model as pgm

if TYPE_CHECKING:
    from marginalsyn.contract import Model
    from marginalsyn.release import Release
    from marginalsyn.table import Schema

Target = Literal["population", "table"]
TARGETS: tuple[Target, ...] = ("population", "table")
# Steps of a fit at most, and of one that starts at a model of nearly the same answers.
_STEPS, _WARM_STEPS = 1000, 300


@dataclass(frozen=True)
class Look:
    """A noisy marginal, and of which codes each of its axes is.

    Attributes:
        columns: names, one an axis.
        values: noisy counts.
        sigma: the standard deviation of the noise in every cell.
        groups: for each axis the merged code of each of its codes, or None where its codes are the
            merged ones.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    sigma: float
    groups: tuple[np.ndarray | None, ...]

    @property
    def whole(self) -> bool:
        """Whether its codes are the model's own."""
        return all(groups is None for groups in self.groups)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The noisy marginals of a release with their model.

    Attributes:
        schema: what is publicly known of the columns.
        compression: which codes the model holds as one.
        fitted: the model, over merged codes.
        looks: everything that was measured.
        known: the number of rows where it is public, else None.
    """

    schema: Schema
    compression: Compression
    fitted: pgm.Fitted
    looks: tuple[Look, ...]
    known: float | None = None
    zeros: tuple[tuple[tuple[str, ...], np.ndarray], ...] = field(default=())

    @classmethod
    def of(cls, release: Release) -> Evidence:
        """Read what a release holds.

        Raises:
            UsageError: the release was not made from noisy marginals, so that nothing can be said.
        """
        model, statement = release.model(), release.statement
        if model is None or not _from_marginals(model):
            raise UsageError(
                f"release ({release.path.name}) must be made from noisy marginals: "
                f"{statement.generator} gives out none, so that no interval can be computed from "
                "it; make the release with auto, aim, mst, clique-tree, all-marginals, "
                "fixed-marginals or independent"
            )
        return cls.read(model, release.measurements(), release.schema, statement.neighbours)

    @classmethod
    def read(
        cls,
        model: Model,
        measured: Sequence[Measurement],
        schema: Schema,
        neighbours: Neighbours,
    ) -> Evidence:
        """The same from a release's parts."""
        if "merge0_groups" in model.arrays:
            columns = model.meta.get("columns", schema.names)
            compression = Compression.from_arrays(columns, model.arrays)
        else:
            compression = identity(schema.domain)
        looks = tuple(_look(m, compression) for m in measured)
        zeros = tuple(schema.structural_zeros())
        public = neighbours is Neighbours.REPLACE
        if "pgm" in model.meta:
            own = {k.removeprefix("pgm_"): v for k, v in model.arrays.items() if k[:4] == "pgm_"}
            fitted = pgm.Fitted.from_arrays(own, model.meta["pgm"])
        else:
            total = float(model.meta["rows"]) if public else None
            fitted = _fit(compression, looks, zeros, total)
        return cls(
            schema=schema,
            compression=compression,
            fitted=fitted,
            looks=looks,
            known=fitted.total if public else None,
            zeros=zeros,
        )

    @cached_property
    def total(self) -> tuple[float, float]:
        """The number of rows and its standard deviation, from all marginals."""
        if self.known is not None:
            return self.known, 0.0
        found, spread = estimate_total(self.looks)
        return max(found, 1.0), spread

    @property
    def rows(self) -> int:
        """The estimated number of rows."""
        return max(1, round(self.total[0]))

    @cached_property
    def domain(self) -> dict[str, int]:
        """The model's sizes."""
        return self.compression.domain

    def shares(self, columns: Sequence[str]) -> np.ndarray:
        """The model's share of every combination of full codes."""
        found = self.fitted.marginal(columns) / self.fitted.total
        return self.refined(columns, found)

    def refined(self, columns: Sequence[str], merged: np.ndarray) -> np.ndarray:
        """Counts or shares of merged codes, split among the codes that each holds."""
        for axis, name in enumerate(columns):
            merge = self.compression.merges[name]
            if not merge.trivial:
                shape = [1] * merged.ndim
                shape[axis] = -1
                merged = merged.take(merge.groups, axis=axis) * merge.shares.reshape(shape)
        return merged

    # -- replaying ---------------------------------------------------------------------------------

    def replay(self, target: Target, rng: np.random.Generator) -> Evidence:
        """The release of a table drawn from the model, or, for ``table``, of the model's own."""
        return self.redrawn(target, rng).refitted()

    def redrawn(self, target: Target, rng: np.random.Generator) -> Evidence:
        """The noisy marginals of a replay, beside the model that they were drawn from."""
        rows = self.fitted.sample(self.rows, rng) if target == "population" else None
        looks = tuple(
            replace(look, values=truth + rng.normal(0.0, look.sigma, truth.shape))
            for look, truth in zip(self.looks, self._marginals(rows, rng), strict=True)
        )
        return replace(self, looks=looks)

    def refitted(self, *, warm: bool = False) -> Evidence:
        """With a model fitted to these marginals as the release did.

        ``warm`` starts at the model that is there and takes few steps: what is left of the way
        moves an estimate by a tenth of its standard error, and its spread by a few percent.
        """
        fitted = _fit(
            self.compression,
            self.looks,
            self.zeros,
            self.known,
            pull=bool(self.fitted.pull),
            warm=self.fitted if warm else None,
        )
        return replace(self, fitted=fitted)

    def _marginals(self, rows: np.ndarray | None, rng: np.random.Generator) -> list[np.ndarray]:
        """The exact marginals of drawn rows, else of the model."""
        if rows is None:
            scale = self.rows / self.fitted.total
            wanted = self.fitted.marginals({look.columns for look in self.looks})
            exact = {columns: found * scale for columns, found in wanted.items()}
        else:
            exact = self._counts(rows)
        split: dict[tuple[str, ...], np.ndarray] = {}
        found = []
        for look in self.looks:
            counts = exact[look.columns]
            if not look.whole:
                if look.columns not in split:
                    split[look.columns] = self._split(look, counts, rows is not None, rng)
                counts = split[look.columns]
            found.append(counts)
        return found

    def _counts(self, rows: np.ndarray) -> dict[tuple[str, ...], np.ndarray]:
        """Counts of rows of merged codes over every set of columns that was measured."""
        names = list(self.domain)
        found = {}
        for columns in {look.columns for look in self.looks}:
            shape = tuple(self.domain[c] for c in columns)
            keys = np.ravel_multi_index(tuple(rows[:, names.index(c)] for c in columns), shape)
            found[columns] = np.bincount(keys, minlength=math.prod(shape)).reshape(shape)
        return found

    def _split(
        self, look: Look, counts: np.ndarray, whole: bool, rng: np.random.Generator
    ) -> np.ndarray:
        """Counts of merged codes shared out among the codes of a look."""
        if not whole:
            return self.refined(look.columns, counts)
        if len(look.columns) > 1:
            raise ReleaseError(
                f"measurement over ({', '.join(look.columns)}) must be of the model's codes"
            )
        merge = self.compression.merges[look.columns[0]]
        out = np.zeros(len(merge.groups))
        for group, count in enumerate(counts.tolist()):
            codes = np.flatnonzero(merge.groups == group)
            shares = merge.shares[codes]
            out[codes] = rng.multinomial(int(count), shares / shares.sum())
        return out


def _from_marginals(model: Model) -> bool:
    return "pgm" in model.meta or model.kind == "independent"


def _look(m: Measurement, compression: Compression) -> Look:
    """A measurement with the codes that its axes are of."""
    groups: list[np.ndarray | None] = []
    for name, size in zip(m.columns, m.values.shape, strict=True):
        merge = compression.merges[name]
        if size == merge.size:
            groups.append(None)
        elif size == len(merge.groups):
            groups.append(merge.groups)
        else:
            raise ReleaseError(
                f"measurement over ({', '.join(m.columns)}) must be of the schema's codes or of "
                "the model's"
            )
    # A deviation of 0 would make one answer outweigh all others.
    sigma = max(float(m.sigma), 1e-6)
    return Look(m.columns, np.asarray(m.values, dtype=float), sigma, tuple(groups))


def _fit(
    compression: Compression,
    looks: Sequence[Look],
    zeros: Sequence[tuple[tuple[str, ...], np.ndarray]],
    known: float | None,
    *,
    pull: bool = False,
    warm: pgm.Fitted | None = None,
) -> pgm.Fitted:
    """Fit a model as the release did: pulled, with strengths of its own, or not."""
    total = known
    if total is None:
        singles = [look for look in looks if len(look.columns) == 1] or looks
        total = max(1.0, estimate_total(singles)[0])
    observed = [
        look
        if look.whole
        else compression.compress(
            Measurement(columns=look.columns, values=look.values, sigma=look.sigma)
        )
        for look in looks
    ]
    return pgm.fit(
        compression.domain,
        observed,
        total=total,
        zeros=zeros,
        pull=pull,
        warm=warm,
        max_iters=_STEPS if warm is None else _WARM_STEPS,
    )
