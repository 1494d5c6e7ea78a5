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
from marginalsyn.graphical.exact_margins import PUBLIC, eased, match

# Steps of a fit at most, and of one that starts at a model of nearly the same answers.
_STEPS, _WARM_STEPS = 1000, 150


@dataclass(frozen=True, kw_only=True)
class NoisyMarginal(Measurement):
    """A noisy marginal, and of which codes each of its axes is.

    Attributes:
        sigma: the standard deviation of the noise in every cell.
        groups: for each axis the merged code of each of its codes, or None where its codes are the
            merged ones.
        fitted: whether the model is fitted to it; else it corrects estimates alone.
        bought: whether it came with weights and not with the release.
    """

    sigma: float
    groups: tuple[np.ndarray | None, ...]
    fitted: bool = True
    bought: bool = False

    @classmethod
    def of(
        cls, m: Measurement, compression: Compression, sizes: Mapping[str, int]
    ) -> NoisyMarginal:
        """A measurement with the codes of its axes; ``sizes`` are those of the model."""
        groups: list[np.ndarray | None] = []
        for name, size in zip(m.columns, m.values.shape, strict=True):
            merge = compression.merges.get(name)
            if size == sizes[name]:
                groups.append(None)
            elif merge is not None and size == len(merge.groups):
                groups.append(merge.groups)
            else:
                raise ReleaseError(
                    f"measurement over ({', '.join(m.columns)}) must be of the schema's codes or "
                    "of the model's"
                )
        return cls(
            columns=m.columns,
            values=np.asarray(m.values, dtype=float),
            # A deviation of 0 would make one answer outweigh all others.
            sigma=max(float(m.sigma), 1e-6),
            groups=tuple(groups),
            purpose=m.purpose,
        )

    @property
    def public(self) -> bool:
        """Whether it is a public margin, which has no noise."""
        return self.purpose == PUBLIC

    @property
    def whole(self) -> bool:
        """Whether its codes are the model's own."""
        return all(groups is None for groups in self.groups)


def observed(compression: Compression, marginals: Sequence[NoisyMarginal]) -> list[Measurement]:
    """The measurements that the model is fitted to, over merged codes."""
    return [m if m.whole else compression.compress(m) for m in marginals if m.fitted]


def fit(
    compression: Compression,
    marginals: Sequence[NoisyMarginal],
    zeros: Sequence[tuple[tuple[str, ...], np.ndarray]],
    known: float | None,
    *,
    pull: bool = False,
    warm: pgm.Fitted | None = None,
) -> pgm.Fitted:
    """Fit a model as the release did: pulled, with strengths of its own, or not."""
    total, answers = known, observed(compression, marginals)
    if total is None:
        noisy = [m for m in marginals if not m.public]
        singles = [m for m in noisy if len(m.columns) == 1] or noisy
        total = max(1.0, estimate_total(singles)[0])
    public = [m for m in answers if m.purpose == PUBLIC]
    fitted = pgm.fit(
        compression.domain,
        eased(answers) if public else answers,
        total=total,
        zeros=zeros,
        shrinkage=pull,
        warm=warm,
        max_iters=_STEPS if warm is None else _WARM_STEPS,
    )
    return match(fitted, public)
