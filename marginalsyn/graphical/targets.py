"""Noisy marginals as a fit takes them: checked, axes in domain order, repeated ones merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import UsageError
from marginalsyn.graphical.factors import Scope


class FitTarget(NamedTuple):
    """All measurements of one marginal: their weighted mean, and the precision of each cell."""

    values: np.ndarray
    weight: np.ndarray


class Layout:
    """The columns of a domain by position."""

    def __init__(self, domain: Mapping[str, int]) -> None:
        self.names = tuple(domain)
        self.sizes = tuple(int(size) for size in domain.values())
        self._position = {name: i for i, name in enumerate(self.names)}

    def positions(self, columns: Sequence[str]) -> Scope:
        """Positions of some columns, in the order given."""
        unknown = [name for name in columns if name not in self._position]
        if unknown:
            raise UsageError(f"columns ({', '.join(unknown)}) must be in the domain")
        if len(set(columns)) != len(columns):
            raise UsageError(f"columns ({', '.join(columns)}) must be given once each")
        return tuple(self._position[name] for name in columns)

    def scope(self, columns: Sequence[str]) -> Scope:
        """Positions of some columns, in domain order."""
        return tuple(sorted(self.positions(columns)))

    def named(self, scope: Scope) -> tuple[str, ...]:
        """Names of some positions."""
        return tuple(self.names[v] for v in scope)

    def arranged(self, columns: Sequence[str], values: np.ndarray) -> np.ndarray:
        """A view of ``values`` with its axes in domain order."""
        positions = self.positions(columns)
        expected = tuple(self.sizes[v] for v in positions)
        if values.shape != expected:
            raise UsageError(
                f"values ({', '.join(columns)}: {values.shape}) must have the shape {expected}"
            )
        return values.transpose(np.argsort(positions))


def merge(
    layout: Layout, measurements: Iterable[Measurement]
) -> tuple[dict[Scope, FitTarget], float]:
    """One target per set of columns, smallest sets first, and the constant part of the loss."""
    sums: dict[Scope, np.ndarray] = {}
    weights: dict[Scope, np.ndarray] = {}
    squares = 0.0
    for m in measurements:
        scope = layout.scope(m.columns)
        values = np.asarray(m.values, dtype=float)
        weight = layout.arranged(m.columns, _precision(m.sigma, values.shape))
        values = layout.arranged(m.columns, values)
        known = scope in sums
        sums[scope] = weight * values + (sums[scope] if known else 0.0)
        weights[scope] = weight + weights[scope] if known else weight
        squares += float(np.vdot(values, weight * values))
    targets = {}
    for scope in sorted(sums, key=lambda s: (len(s), s)):
        mean = sums[scope] / weights[scope]
        squares -= float(np.vdot(mean, sums[scope]))
        if scope:
            targets[scope] = FitTarget(mean, weights[scope])
    return targets, 0.5 * max(0.0, squares)


def masks(
    layout: Layout, zeros: Iterable[tuple[Sequence[str], np.ndarray]]
) -> dict[Scope, np.ndarray]:
    """Masks of the impossible cells by set of columns."""
    found: dict[Scope, np.ndarray] = {}
    for columns, impossible in zeros:
        mask = layout.arranged(columns, np.asarray(impossible, dtype=bool))
        scope = layout.scope(columns)
        found[scope] = found[scope] | mask if scope in found else mask
    found.pop((), None)
    return found


def _precision(sigma: float | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One over the variance of the noise in every cell."""
    sigma = np.asarray(sigma, dtype=float)
    if not ((sigma > 0) & np.isfinite(sigma)).all():
        raise UsageError(f"sigma ({sigma}) must be a positive number")
    return np.broadcast_to(1.0 / np.square(sigma), shape)
