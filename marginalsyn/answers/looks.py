"""Noisy marginals as a release holds them, and the model that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import ReleaseError
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import estimate_total

# Steps of a fit at most, and of one that starts at a model of nearly the same answers.
_STEPS, _WARM_STEPS = 1000, 150


@dataclass(frozen=True)
class Look:
    """A noisy marginal, and of which codes each of its axes is.

    Attributes:
        columns: names, one an axis.
        values: noisy counts.
        sigma: the standard deviation of the noise in every cell.
        groups: for each axis the merged code of each of its codes, or None where its codes are the
            merged ones.
        held: whether the model is fitted to it; else it corrects estimates alone.
        bought: whether it came with weights and not with the release.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    sigma: float
    groups: tuple[np.ndarray | None, ...]
    held: bool = True
    bought: bool = False

    @property
    def whole(self) -> bool:
        """Whether its codes are the model's own."""
        return all(groups is None for groups in self.groups)


def look_of(m: Measurement, compression: Compression, sizes: Mapping[str, int]) -> Look:
    """A measurement with the codes that its axes are of; ``sizes`` are those of the model."""
    groups: list[np.ndarray | None] = []
    for name, size in zip(m.columns, m.values.shape, strict=True):
        merge = compression.merges.get(name)
        if size == sizes[name]:
            groups.append(None)
        elif merge is not None and size == len(merge.groups):
            groups.append(merge.groups)
        else:
            raise ReleaseError(
                f"measurement over ({', '.join(m.columns)}) must be of the schema's codes or of "
                "the model's"
            )
    # A deviation of 0 would make one answer outweigh all others.
    sigma = max(float(m.sigma), 1e-6)
    return Look(m.columns, np.asarray(m.values, dtype=float), sigma, tuple(groups))


def observed(compression: Compression, looks: Sequence[Look]) -> list[Measurement]:
    """What the model is fitted to, over merged codes."""
    found = []
    for look in looks:
        whole = Measurement(columns=look.columns, values=look.values, sigma=look.sigma)
        if look.held:
            found.append(whole if look.whole else compression.compress(whole))
    return found


def fit(
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
        singles = [look for look in looks if len(look.columns) == 1] or list(looks)
        total = max(1.0, estimate_total(singles)[0])
    return pgm.fit(
        compression.domain,
        observed(compression, looks),
        total=total,
        zeros=zeros,
        pull=pull,
        warm=warm,
        max_iters=_STEPS if warm is None else _WARM_STEPS,
    )
