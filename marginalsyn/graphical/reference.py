"""A reference table as the prior of a fit: modelled once, by its pairs, over merged codes.

A reference is public, or paid for already, so nothing here costs anything. What is taken from it
follows from its rows and from noisy answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression, sum_groups
from marginalsyn.graphical.shrunken_fit import Prior, SettledColumn, settle_to
from marginalsyn.table.schema import Schema

# A code or cell of a reference counts as so much of a row more: none is impossible.
_MORE = 0.5
# How near a reference's own model is fitted, and how large it may be: more takes longer and brings
# nothing.
_TOLERANCE, MODEL_MB = 1e-2, 2.0
# Of more pairs those are left out that say least.
MOST_PAIRS = 400
# A column is taken from a reference where answers make it as likely as not that the two agree.
_LIKELY = 0.5


class Reference(Protocol):
    """A reference table: its columns, and its rows as codes of a schema.

    ``rows`` is how many rows its counts are as good as, which for a release is not how many are
    drawn from its model; 0 of as many as it has. ``digest`` is of its contents, ``facts`` what a
    statement says of it.
    """

    @property
    def rows(self) -> float: ...

    @property
    def digest(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...

    def columns(self, schema: Schema) -> list[str]: ...

    def codes(self, schema: Schema) -> np.ndarray: ...


@dataclass(frozen=True)
class CodedReference:
    """The codes of a reference's rows, a column for each of ``names``."""

    names: tuple[str, ...]
    codes: np.ndarray
    sizes: tuple[int, ...]
    rows: float

    @classmethod
    def of(cls, reference: Reference, schema: Schema) -> CodedReference:
        """Code the columns that a reference shares with a schema."""
        names = tuple(reference.columns(schema))
        sizes = tuple(schema.column(name).size for name in names)
        codes = reference.codes(schema)
        return cls(names, codes, sizes, reference.rows or float(len(codes)))

    def select(self, names: Collection[str]) -> CodedReference:
        """The same rows with some of the columns."""
        kept = [place for place, name in enumerate(self.names) if name in names]
        return replace(
            self,
            names=tuple(self.names[place] for place in kept),
            sizes=tuple(self.sizes[place] for place in kept),
            codes=self.codes[:, kept],
        )

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        """The counts of one or two columns, adding up to ``rows``."""
        places = [self.names.index(name) for name in columns]
        shape = tuple(self.sizes[place] for place in places)
        cells = np.ravel_multi_index(tuple(self.codes[:, place] for place in places), shape)
        found = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        return found * (self.rows / max(len(self.codes), 1))

    def near(self, column: str, total: float) -> tuple[np.ndarray, float]:
        """The share of each code, and the largest strength of shrinking a table's counts to it."""
        counts = self.marginal((column,)) + _MORE
        return counts / counts.sum(), self.rows / (self.rows + total)

    def settled(self, measured: Sequence[Measurement], total: float) -> dict[str, SettledColumn]:
        """The measured columns that it has, settled by it."""
        own = {m.columns[0]: m for m in measured if m.columns[0] in self.names}
        answers, near = {}, {}
        for place, (name, m) in enumerate(own.items()):
            values = np.asarray(m.values, dtype=float)
            precision = 1 / np.square(np.asarray(m.sigma, dtype=float))
            answers[place] = values, np.broadcast_to(precision, values.shape)
            near[place] = self.near(name, total)
        return dict(zip(own, settle_to(answers, near, total).values(), strict=True))


class Trusted(NamedTuple):
    """A reference without the columns that the answers refute, and the counts of the others."""

    table: CodedReference
    settled: Mapping[str, SettledColumn]


def trusted(
    references: Sequence[Reference], schema: Schema, measured: Sequence[Measurement], total: float
) -> list[Trusted]:
    """The references whose single columns answers bear out, the best first."""
    found = []
    for reference in references:
        table = CodedReference.of(reference, schema)
        settled = table.settled(measured, total)
        if settled and np.mean([one.trusted for one in settled.values()]) >= _LIKELY:
            settled = {name: one for name, one in settled.items() if one.trusted >= _LIKELY}
            found.append(Trusted(table.select(settled), settled))
    return sorted(found, key=lambda one: -np.mean([c.trusted for c in one.settled.values()]))


class ReferenceModel:
    """What references say over merged codes; each column and pair by the first that has it.

    Args:
        tables: the best first.
        compression: how codes are merged.
        zeros: impossible cells.
        total: the number of rows of the private table, as far as it is known.
    """

    def __init__(
        self,
        tables: Sequence[CodedReference],
        compression: Compression,
        zeros: Sequence[tuple[tuple[str, ...], np.ndarray]],
        total: float,
    ) -> None:
        self._domain, self._zeros, self._total = compression.domain, zeros, total
        places = {name: place for place, name in enumerate(self._domain)}
        self._columns: dict[int, tuple[np.ndarray, float]] = {}
        self._singles: list[Measurement] = []
        related = {}
        for table in tables:
            known = [name for name in self._domain if name in table.names]
            strength = table.rows / (table.rows + total)
            for name in known:
                if places[name] not in self._columns:
                    one = _observed(table, (name,), compression, total)
                    self._singles.append(one)
                    shares = one.values + _MORE * total / table.rows
                    self._columns[places[name]] = shares / shares.sum(), strength
            for pair in itertools.combinations(known, 2):
                if pair not in related:
                    both = _observed(table, pair, compression, total)
                    related[pair] = _information(both.values, table.rows), both
        ranked = sorted(related.values(), key=lambda one: -one[0])
        self._pairs = [both for information, both in ranked[:MOST_PAIRS] if information > 0]
        self._known: dict[tuple[tuple[str, ...], ...], Prior] = {}

    def prior(self, cliques: Iterable[Sequence[str]], limit: float) -> Prior:
        """The references as a prior, with as many pairs as leave a model small.

        Args:
            cliques: the measured marginals, which the model holds as well.
            limit: of the size of a model of both, in MB; never larger than ``MODEL_MB`` by itself.
        """
        chosen: list[Measurement] = []
        measured = [*cliques, *(columns for columns, _ in self._zeros)]
        limit = max(limit, pgm.model_mb(self._domain, measured))
        for both in self._pairs:
            own = [*(one.columns for one in chosen), both.columns]
            if (
                pgm.model_mb(self._domain, own) <= MODEL_MB
                and pgm.model_mb(self._domain, [*measured, *own]) <= limit
            ):
                chosen.append(both)
        key = tuple(one.columns for one in chosen)
        if key not in self._known:
            model = pgm.fit(
                self._domain,
                [*self._singles, *chosen],
                total=self._total,
                zeros=self._zeros,
                tolerance=_TOLERANCE,
                shrinkage=True,
            )
            logs = pgm.first_logs(model.contraction).items()
            finite = {scope: table for scope, table in logs if np.isfinite(table).all()}
            self._known[key] = Prior(self._columns, finite)
        return self._known[key]


def _observed(
    table: CodedReference, columns: tuple[str, ...], compression: Compression, total: float
) -> Measurement:
    """A reference's counts scaled to the private table's rows, with its own sampling noise."""
    counts = table.marginal(columns)
    for axis, name in enumerate(columns):
        merge = compression.merges[name]
        counts = counts if merge.trivial else sum_groups(counts, merge.groups, axis)
    scale = total / table.rows
    return Measurement(columns, counts * scale, np.sqrt(counts + _MORE) * scale)


def _information(counts: np.ndarray, rows: float) -> float:
    """How much two columns say of each other, in nats, without what chance alone would give."""
    shares = counts / counts.sum()
    independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    there = shares > 0
    found = float((shares[there] * np.log(shares[there] / independent[there])).sum())
    used = [int((shares.sum(axis=axis) > 0).sum()) for axis in (0, 1)]
    return found - (used[0] - 1) * (used[1] - 1) / (2 * rows)
