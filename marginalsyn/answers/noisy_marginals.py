"""Noisy marginals as a release holds them, the model that they give, and means without it.

A mean is estimated without bias from the noisy answers themselves, free of the model's constraints:
a function of a row splits into parts, one for every set of columns, each of mean zero along each of
its columns (analysis of variance). The mean of a part follows without bias from any noisy marginal
that holds its columns, and the noises of different parts are uncorrelated: answers to one part are
pooled by their precision (as in ResidualPlanner, Xiao et al. 2023). No count is pushed to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import ReleaseError
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.exact_margins import PUBLIC, eased, match

if TYPE_CHECKING:
    from marginalsyn.answers.evidence import Evidence

Columns = tuple[str, ...]
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


@dataclass(frozen=True)
class Function:
    """A function of a row: a constant, parts over merged codes, and parts within merged codes.

    Attributes:
        constant: the part of no column.
        parts: by set of columns in schema order, of mean zero along each axis.
        within: by column, over its own codes, of mean zero within each merged code.
    """

    constant: float = 0.0
    parts: Mapping[Columns, np.ndarray] = field(default_factory=dict)
    within: Mapping[str, np.ndarray] = field(default_factory=dict)


def decompose(columns: Sequence[str], values: np.ndarray) -> dict[Columns, np.ndarray]:
    """The parts of a function of some columns, by the columns of each; ``()`` is the constant.

    Example:
        >>> parts = decompose(("a", "b"), np.array([[1.0, 2.0], [3.0, 6.0]]))
        >>> float(parts[()]), parts[("a",)].tolist()
        (3.0, [-1.5, 1.5])
    """
    found: dict[Columns, np.ndarray] = {(): np.asarray(values, dtype=float)}
    for axis, name in enumerate(columns):
        split = {}
        for key, part in found.items():
            mean = part.mean(axis=axis, keepdims=True)
            split[key] = mean
            split[*key, name] = part - mean
        found = split
    return {
        key: part.reshape([n for n, c in zip(values.shape, columns, strict=True) if c in key])
        for key, part in found.items()
    }


def combine(
    evidence: Evidence,
    terms: Sequence[tuple[Columns, np.ndarray]],
    within: Mapping[str, np.ndarray],
) -> Function:
    """The sum of functions of merged codes, and of codes of single columns."""
    order = {name: i for i, name in enumerate(evidence.domain)}
    parts: dict[Columns, np.ndarray] = {}
    free = {}
    every = list(terms)
    for name, values in within.items():
        merge = evidence.compression.merges[name]
        if merge.trivial:
            every.append(((name,), values))
            continue
        members = np.bincount(merge.groups, minlength=merge.size)
        mean = np.bincount(merge.groups, values, minlength=merge.size) / members
        free[name] = values - mean[merge.groups]
        every.append(((name,), mean))
    for columns, values in every:
        ranks = np.argsort([order[c] for c in columns])
        ordered = tuple(columns[i] for i in ranks)
        for key, part in decompose(ordered, values.transpose(ranks)).items():
            parts[key] = parts[key] + part if key in parts else part
    constant = float(parts.pop((), np.zeros(())))
    return Function(constant, parts, free)


@dataclass(frozen=True)
class Linear:
    """An unbiased estimate of a function's mean: what every cell of every noisy marginal adds.

    Attributes:
        function: whose mean it is.
        coefficients: for each marginal, an array that broadcasts to its shape, or None.
        counts: for each marginal, what each of its cells adds to the estimated number of rows.
        unmeasured: the parts that no marginal holds, for which the model's own mean stands in.
    """

    function: Function
    coefficients: tuple[np.ndarray | None, ...]
    counts: tuple[float, ...]
    unmeasured: Function

    def value(self, evidence: Evidence) -> float:
        """The estimate from the answers of a release, or of its replay."""
        return self.given(evidence) + self._answered(evidence, public=False)

    def noise(self, evidence: Evidence, about: float) -> float:
        """The variance that privacy noise gives it.

        ``about`` is the value at which an error in the number of rows counts: the mean itself, or
        0 for a mean that is multiplied by that number.
        """
        return float(joint_noise(evidence, [self], np.array([about]))[0, 0])

    def given(self, evidence: Evidence) -> float:
        """The part without noisy answers: the constant, what public margins add, and the model's
        means of unmeasured parts.
        """
        found = self.function.constant + self._answered(evidence, public=True)
        if not self.unmeasured.parts and not self.unmeasured.within:
            return found
        return found + model_mean(evidence, self.unmeasured)

    def _answered(self, evidence: Evidence, *, public: bool) -> float:
        """What the noisy marginals add, or those that are public."""
        answers = sum(
            float(np.sum(c * marginal.values))
            for c, marginal in zip(self.coefficients, evidence.marginals, strict=True)
            if c is not None and marginal.public == public
        )
        return answers / evidence.total[0]


def weigh(evidence: Evidence, function: Function) -> Linear:
    """Pool all noisy marginals for the mean of a function, each part by the precision of each."""
    marginals = evidence.marginals
    precisions = [
        0.0 if marginal.public else 1.0 / (marginal.sigma**2 * marginal.values.size)
        for marginal in marginals
    ]
    scale = 0.0 if evidence.known is not None else 1.0 / sum(precisions)
    found: list[np.ndarray | None] = [None] * len(marginals)

    def add(i: int, values: np.ndarray) -> None:
        before = found[i]
        found[i] = values if before is None else before + values

    missing = {}
    lacking = {}
    for columns, part in function.parts.items():
        if np.abs(part).max() <= 1e-12:
            continue
        # A marginal has columns, or, of coarse ones, the columns that determine them.
        hosts = [
            i
            for i, one in enumerate(marginals)
            if all({c, evidence.base(c)} & {*one.columns} for c in columns)
        ]
        if not hosts:
            missing[columns] = part
            continue
        spread = [_spread(evidence, columns, part, marginals[i]) for i in hosts]
        trust = [
            1.0 / (one.sigma**2 * one.values.size * float(np.mean(np.square(values))))
            for one, values in zip([marginals[i] for i in hosts], spread, strict=True)
        ]
        for i, values, weight in zip(hosts, spread, trust, strict=True):
            add(i, weight / sum(trust) * values)
    for name, values in function.within.items():
        own = {
            i: marginal.sigma**-2
            for i, marginal in enumerate(marginals)
            if marginal.columns == (name,) and not marginal.whole
        }
        if not own:
            lacking[name] = values
        for i, weight in own.items():
            add(i, weight / sum(own.values()) * values)
    return Linear(
        function,
        tuple(found),
        tuple(scale * precision for precision in precisions),
        Function(0.0, missing, lacking),
    )


def joint_noise(evidence: Evidence, lines: Sequence[Linear], about: np.ndarray) -> np.ndarray:
    """The covariance that privacy noise gives several estimates; see :meth:`Linear.noise`."""
    found = np.zeros((len(lines), len(lines)))
    rests = [line.given(evidence) - mean for line, mean in zip(lines, about, strict=True)]
    for number, marginal in enumerate(evidence.marginals):
        arrays = []
        for line, rest in zip(lines, rests, strict=True):
            own = line.coefficients[number]
            each = rest * line.counts[number] + (0.0 if own is None else own)
            arrays.append(np.broadcast_to(each, marginal.values.shape).ravel())
        spread = marginal.sigma / evidence.total[0] * np.array(arrays)
        found += spread @ spread.T
    return found


def model_mean(evidence: Evidence, function: Function) -> float:
    """The mean of a function under the model."""
    found, total = function.constant, evidence.fitted.total
    marginals = evidence.fitted.marginals(function.parts)
    for columns, part in function.parts.items():
        found += float((part * marginals[columns]).sum()) / total
    for name, values in function.within.items():
        found += float((values * evidence.shares((name,))).sum())
    return found


def _spread(
    evidence: Evidence, columns: Columns, part: np.ndarray, marginal: NoisyMarginal
) -> np.ndarray:
    """A part as a function of the cells of a marginal that holds its columns, or finer ones."""
    places = []
    for axis, name in enumerate(columns):
        if name not in marginal.columns:
            part = part.take(evidence.structure.coarse[name].groups, axis=axis)
        own = name if name in marginal.columns else evidence.base(name)
        places.append(marginal.columns.index(own))
    values = part.transpose(np.argsort(places))
    for axis, place in enumerate(sorted(places)):
        groups = marginal.groups[place]
        if groups is not None:
            values = values.take(groups, axis=axis)
    shape = [size if i in places else 1 for i, size in enumerate(marginal.values.shape)]
    return values.reshape(shape)
