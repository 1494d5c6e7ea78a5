"""Domain compression: rare codes share a cell while a model is measured and fitted.

A noisy one-way count below its own noise carries no information, and every such code multiplies
the cells of each larger marginal. Merging depends on noisy counts only, so it is post-processing.
Ordered columns (bins, ordinals) merge neighbours; others merge their rare codes into one group.
Rows are drawn in merged codes; splitting every group by its noisy one-way shares then keeps the
one-way marginals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.graphical.estimation import round_counts
from marginalsyn.graphical.junction_tree import triangulate
from marginalsyn.table.schema import Schema

Zero = tuple[tuple[str, ...], np.ndarray]
"""Columns, and a mask over their codes."""


@dataclass(frozen=True)
class Merge:
    """One column: ``groups[code]`` is the merged code, ``shares[code]`` its share of the group."""

    groups: np.ndarray
    shares: np.ndarray

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def trivial(self) -> bool:
        """Whether every code kept a group of its own."""
        return self.size == len(self.groups)


@dataclass(frozen=True)
class Compression:
    """The merges of all columns, in domain order."""

    merges: Mapping[str, Merge]

    @property
    def domain(self) -> dict[str, int]:
        """The merged size of every column."""
        return {name: merge.size for name, merge in self.merges.items()}

    @property
    def maps(self) -> dict[str, np.ndarray]:
        """The code maps of the columns that changed."""
        return {name: m.groups for name, m in self.merges.items() if not m.trivial}

    def compress(self, measurement: Measurement) -> Measurement:
        """Sum a measurement over merged codes; a cell of m codes has noise sigma * sqrt(m)."""
        values = np.asarray(measurement.values, dtype=float)
        variance = np.broadcast_to(np.square(np.asarray(measurement.sigma, float)), values.shape)
        for axis, name in enumerate(measurement.columns):
            merge = self.merges[name]
            if not merge.trivial:
                values = sum_groups(values, merge.groups, axis)
                variance = sum_groups(variance, merge.groups, axis)
        sigma = np.sqrt(variance)
        uniform = sigma.size and np.ptp(sigma) == 0
        return Measurement(
            columns=measurement.columns,
            values=values,
            sigma=float(sigma.flat[0]) if uniform else sigma,
            purpose=measurement.purpose,
        )

    def zeros(self, found: Iterable[Zero]) -> tuple[Zero, ...]:
        """Impossible cells over merged codes: those all of whose members are impossible."""
        merged = []
        for columns, mask in found:
            possible = (~mask).astype(float)
            for axis, name in enumerate(columns):
                if not self.merges[name].trivial:
                    possible = sum_groups(possible, self.merges[name].groups, axis)
            if (possible == 0).any():
                merged.append((columns, possible == 0))
        return tuple(merged)

    def zeros_within(self, schema: Schema, measured: Iterable[Sequence[str]]) -> tuple[Zero, ...]:
        """Impossible cells for a fit of some marginals, over merged codes.

        Those of rules are left out where no clique holds them: they would take the room of
        marginals that say more. Rows that break these rules are drawn again.
        """
        always = schema.structural_zeros(rules=False)
        rules = self.zeros(schema.structural_zeros()[len(always) :])
        if not rules:
            return self.zeros(always)
        names = list(self.merges)
        sets = [[names.index(name) for name in q] for q in [*measured, *(q for q, _ in always)]]
        tree = triangulate(list(self.domain.values()), sets)
        cliques = [{names[at] for at in clique} for clique in tree.cliques()]
        inside = (zero for zero in rules if any(clique.issuperset(zero[0]) for clique in cliques))
        return (*self.zeros(always), *inside)

    def refine(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Turn merged codes of rows into codes of the full domain, keeping the shares."""
        out = np.array(codes, dtype=np.int32)
        for j, merge in enumerate(self.merges.values()):
            if not merge.trivial:
                out[:, j] = _split(out[:, j], merge, rng)
        return out

    def narrowed(
        self, weights: Mapping[str, np.ndarray]
    ) -> tuple[Compression, dict[str, np.ndarray]]:
        """The same merges with shares weighted by code, and what each merged code then weighs."""
        merges, totals = dict(self.merges), {}
        for name, by_code in weights.items():
            merge = merges[name]
            kept = merge.shares * by_code
            totals[name] = sum_groups(kept, merge.groups, 0)
            within = totals[name][merge.groups]
            shares = np.divide(kept, within, out=merge.shares.copy(), where=within > 0)
            merges[name] = Merge(merge.groups, shares)
        return Compression(merges), totals

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays to store with a model."""
        out = {}
        for j, merge in enumerate(self.merges.values()):
            out[f"merge{j}_groups"] = merge.groups.astype(np.int32)
            out[f"merge{j}_shares"] = merge.shares
        return out

    @classmethod
    def from_arrays(cls, names: Iterable[str], arrays: Mapping[str, np.ndarray]) -> Compression:
        """Read back what :meth:`arrays` stored."""
        return cls(
            {
                name: Merge(
                    groups=np.asarray(arrays[f"merge{j}_groups"], dtype=np.int32),
                    shares=np.asarray(arrays[f"merge{j}_shares"], dtype=float),
                )
                for j, name in enumerate(names)
            }
        )


def identity(domain: Mapping[str, int]) -> Compression:
    """The compression that merges nothing."""
    return Compression(
        {
            name: Merge(np.arange(size, dtype=np.int32), np.ones(size))
            for name, size in domain.items()
        }
    )


def compress_column(counts: np.ndarray, *, ordered: bool, threshold: float) -> Merge:
    """Merge the codes of one column until every group's estimated count reaches ``threshold``.

    Args:
        counts: Estimated non-negative counts by code (a projection of noisy ones).
        ordered: Whether neighbouring codes are alike.
        threshold: The count below which a code is rare; 0 merges nothing.

    Example:
        >>> compress_column(np.array([5.0, 1, 1, 9]), ordered=True, threshold=2).groups
        array([0, 1, 1, 2], dtype=int32)
    """
    counts = np.maximum(np.asarray(counts, dtype=float), 0.0)
    groups = _neighbours(counts, threshold) if ordered else _rare(counts, threshold)
    size = int(groups.max(initial=-1)) + 1
    mass = np.bincount(groups, weights=counts, minlength=size)
    members = np.bincount(groups, minlength=size)
    empty = mass[groups] <= 0
    shares = np.where(empty, 1.0 / members[groups], counts / np.where(empty, 1.0, mass[groups]))
    return Merge(groups.astype(np.int32), shares)


def with_shares(merge: Merge, noisy: np.ndarray, sigma: float) -> Merge:
    """The merge with each group's shares estimated from noisy counts.

    Counts are shrunk towards their group's mean by the share of their spread that is noise (James
    and Stein), so that a group of nothing but noise is split evenly.
    """
    members = np.bincount(merge.groups, minlength=merge.size)
    mean = (np.bincount(merge.groups, noisy) / members)[merge.groups]
    spread = (np.bincount(merge.groups, np.square(noisy - mean)) / members)[merge.groups]
    free = np.maximum(members - 1, 1)[merge.groups] / members[merge.groups]
    noise = sigma**2 * free
    signal = 1 - np.divide(noise, spread, out=np.ones_like(spread), where=spread > noise)
    shrunken = np.maximum(mean + signal * (noisy - mean), 0.0)
    mass = np.bincount(merge.groups, shrunken)[merge.groups]
    even = 1.0 / members[merge.groups]
    return Merge(merge.groups, np.divide(shrunken, mass, out=even, where=mass > 0))


def sum_groups(values: np.ndarray, groups: np.ndarray, axis: int) -> np.ndarray:
    """Sum ``values`` along ``axis`` within each group."""
    size = int(groups.max(initial=-1)) + 1
    moved = np.moveaxis(values, axis, 0)
    out = np.zeros((size, *moved.shape[1:]), dtype=values.dtype)
    np.add.at(out, groups, moved)
    return np.moveaxis(out, 0, axis)


def _neighbours(counts: np.ndarray, threshold: float) -> np.ndarray:
    """Join the smallest group to its smaller neighbour until every group holds ``threshold``."""
    starts = list(range(len(counts)))
    mass = [float(c) for c in counts]
    while len(mass) > 1:
        i = int(np.argmin(mass))
        if mass[i] >= threshold:
            break
        right = i == 0 or (i + 1 < len(mass) and mass[i + 1] <= mass[i - 1])
        low = i if right else i - 1
        mass[low] += mass.pop(low + 1)
        starts.pop(low + 1)
    groups = np.zeros(len(counts), dtype=np.int64)
    groups[starts] = 1
    return np.cumsum(groups) - 1


def _rare(counts: np.ndarray, threshold: float) -> np.ndarray:
    """Put all rare codes into one group; if that is rare, too, the smallest other code joins it."""
    rare = counts < threshold
    if rare.sum() > 0 and counts[rare].sum() < threshold and not rare.all():
        smallest = np.flatnonzero(~rare)[np.argmin(counts[~rare])]
        rare[smallest] = True
    if rare.sum() <= 1:
        return np.arange(len(counts))
    kept = np.flatnonzero(~rare)
    groups = np.full(len(counts), len(kept), dtype=np.int64)
    groups[kept] = np.arange(len(kept))
    return groups


def _split(column: np.ndarray, merge: Merge, rng: np.random.Generator) -> np.ndarray:
    """Share each group's codes out among its rows by randomised rounding, in random order."""
    out = np.empty_like(column)
    for group in range(merge.size):
        rows = np.flatnonzero(column == group)
        codes = np.flatnonzero(merge.groups == group)
        drawn = np.repeat(codes, round_counts(merge.shares[codes], len(rows), rng))
        out[rows] = rng.permutation(drawn)
    return out
