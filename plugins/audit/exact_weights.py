"""Exact checks of the weight estimators."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from marginalsyn.plugins.audit.exact import Check, delta_between
from marginalsyn.privacy.charges import Charge, Neighbours, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.laws import Law, PoissonSample
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.zcdp import halve
from marginalsyn.table.features import FeatureRows
from marginalsyn.weights.conditional import LabelRows
from marginalsyn.weights.dp_sgd import Training, private_gradient
from marginalsyn.weights.label_correction import GRID_BITS, clipped_total, whole_l2
from marginalsyn.weights.logistic import minimise, sensitivity
from marginalsyn.weights.per_row import Tilt, build_network

LINEAR = ("beta-noised", "beta-debiased")
OUTPUT = ("output-laplace", "output-gaussian")
LABEL = ("dp-mlp", "beta-noised", "rake+dp-mlp", "auto")
TOLERANCE = 1e-9


class Moved(NamedTuple):
    """Exact minimisers on two tables that differ in one record, and how exact they are."""

    before: np.ndarray
    after: np.ndarray
    slope: float

    @property
    def gap(self) -> np.ndarray:
        """How the record moves the coefficients."""
        return self.after - self.before


def raw_design(vectors: np.ndarray) -> FeatureRows:
    """A design whose features are given as they are, without a constant."""
    features: Any = SimpleNamespace(width=vectors.shape[1], of_codes=lambda codes: codes)
    return FeatureRows(features, vectors)


def worst_regression(width: int, rows: int, penalty: float) -> Moved:
    """One-hot synthetic rows, private rows of zeros, and one of them replaced by all ones.

    There are ``rows`` private rows and at least as many synthetic ones, every kind equally often.

    Example:
        >>> moved = worst_regression(4, 200, 20.0)
        >>> bool(np.linalg.norm(moved.gap) <= 2.0 / 20.0)
        True
    """
    synthetic = raw_design(np.tile(np.eye(width), (-(-rows // width), 1)))
    private = np.zeros((rows, width))
    other = private.copy()
    other[0] = 1.0
    first = minimise(raw_design(private), synthetic, penalty, TOLERANCE)
    second = minimise(raw_design(other), synthetic, penalty, TOLERANCE)
    return Moved(first.beta, second.beta, max(first.slope, second.slope))


def coefficients() -> Iterator[Check]:
    """How far a record moves the coefficients, in both norms, against the calibrations."""
    width, rows = 57, 2000
    penalty = 0.1 * rows
    moved = worst_regression(width, rows, penalty)
    how = "57 features, 2,000 private rows, one-hot synthetic rows, one record of all ones"
    l2 = sensitivity(np.sqrt(width), penalty, TOLERANCE)
    # Rows along which the record's own direction is the widest.
    line = np.repeat([np.zeros(width), np.ones(width)], 4, axis=0)
    features, strong = line - line.mean(axis=0), 1e4
    fits = [
        minimise(raw_design(table), raw_design(line), strong, TOLERANCE).beta
        for table in (np.zeros((0, width)), np.ones((1, width)))
    ]
    most = np.linalg.norm(features, 2) * sensitivity(np.sqrt(width), strong, TOLERANCE)
    spread = np.linalg.norm(features @ (fits[1] - fits[0])) / most
    yield Check("change of the coefficients over its bound, Euclidean",
                float(np.linalg.norm(moved.gap)) / l2, how, methods=LINEAR)  # fmt: skip
    yield Check("change of the coefficients over its bound, l1 (Laplace)",
                float(np.abs(moved.gap).sum()) / (np.sqrt(width) * l2), how,
                methods=LINEAR)  # fmt: skip
    yield Check("change of the log-weights over its bound", float(spread),
                "synthetic rows of zeros and of ones, one record of ones",
                methods=OUTPUT)  # fmt: skip
    yield Check("gradient where Newton's method stopped", moved.slope, how, bound=TOLERANCE,
                methods=(*LINEAR, *OUTPUT))  # fmt: skip


class _Toy:
    """Stands in for a network: every row is its own gradient, clipped to the norm."""

    size = 1

    def clipped_sum(self, rows: np.ndarray, label: float, clip_norm: float) -> np.ndarray:
        return np.clip(rows, -clip_norm, clip_norm).sum(axis=0)


class _Asked:
    """Noise that takes every row, adds nothing, and records the scales that it was asked for."""

    known = False

    def __init__(self) -> None:
        self.sigmas: list[Any] = []

    def draw(self, law: Law, values: Any) -> Any:
        if isinstance(law, PoissonSample):
            return np.arange(values)
        assert isinstance(law, RoundedGaussian)
        self.sigmas.append(law.sigma)
        return values


def steps() -> Iterator[Check]:
    """One step: its noise whatever the lot, a row's share, and the exact loss next to the claim."""
    training = Training(
        rate=0.5, steps=1, lot=10, clip_norm=2.0, noise_multiplier=1.5, learning_rate=0.1
    )
    network: Any = _Toy()
    noise: Any = _Asked()
    sums = [
        private_gradient(network, np.full((rows, 1), 1e9), training, noise)[0]
        for rows in (0, 1, 2, 400)
    ]
    rate, multiplier, delta = 1 / 910, 0.6, 1e-5
    cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=1)
    claimed = compose([Charge(mechanism="DP-SGD", cost=cost)], delta).eps
    exact = max(
        step_eps(455, rate, multiplier, delta, per_row=False, sign=sign) for sign in (-1.0, 1.0)
    )
    yield Check("noise of a lot of 400 rows less that of an empty one",
                max(noise.sigmas) - min(noise.sigmas), "lots of 0, 1, 2 and 400 rows",
                bound=0.0)  # fmt: skip
    yield Check("a row's share of the step over the clipping norm",
                float(np.max(np.abs(np.diff(sums[:3])))) / training.clip_norm,
                "gradients of 1e9, clipped")  # fmt: skip
    yield Check(
        "eps of one step at delta 1e-5",
        exact,
        "integrated over all lots of 455 rows that pull the other way, rate 1/910, multiplier 0.6",
        bound=claimed,
    )


def label_sums() -> Iterator[Check]:
    """How far a row moves a sum of clipped gradients of the label's chances, on its grid."""
    rng = np.random.default_rng(0)
    tilt = Tilt(rng.normal(size=(3, 2)))
    network = build_network("numpy", 4, (5,), rng, loss=tilt, outputs=2, skip=True)
    network.assign(rng.normal(0, 10.0, network.size))
    logs = np.log(rng.dirichlet(np.ones(3), 40))
    rows = LabelRows(rng.normal(0, 10, (40, 4)), np.column_stack([logs, rng.integers(0, 3, 40)]))
    clip = 0.01

    def total(part: LabelRows) -> Any:
        found = clipped_total(network, [part], lambda one: one.inputs, clip)
        return np.rint(found * 2**GRID_BITS / clip)

    whole = total(rows)
    moved = max(
        float(np.linalg.norm(whole - total(rows.take(np.delete(np.arange(40), at)))))
        for at in range(40)
    )
    bound = whole_l2(Neighbours.ADD_REMOVE, network.size)
    yield Check("change of a rounded sum of clipped gradients over its bound", moved / bound,
                "40 rows of three classes, a network of 5 units with large parameters")  # fmt: skip


FAMILIES = ((LINEAR + OUTPUT, coefficients), (("dp-mlp",), steps), (LABEL, label_sums))


_REACH = 14.0  # standard deviations that are integrated
_POINTS = 20_001


def step_eps(
    others: int, rate: float, multiplier: float, delta: float, *, per_row: bool, sign: float = 1.0
) -> float:
    """The eps at ``delta`` between a table and the same without its last row, after one step.

    Each of ``others`` rows has a clipped gradient of -1, the last row ``sign``; a step sums those
    of a Poisson lot and adds Gaussian noise of ``multiplier`` once, or, ``per_row``, once for every
    private row in the lot (Ghalebikesabi et al. 2022, Algorithm 1), so that an empty lot gets none.
    Found by integrating the mixtures over all sizes of the lot.

    Example:
        >>> round(step_eps(455, 1 / 910, 0.6, 1e-5, per_row=True), 2)
        5.07
    """
    from scipy.stats import binom, norm

    most = int(binom.isf(1e-16, others, rate)) + 2
    sizes = np.arange(most + 1)
    chances = binom.pmf(sizes, others, rate)
    far = multiplier * np.sqrt(most + 1) * _REACH + 1
    x = np.linspace(-most - far, far, _POINTS)
    width = x[1] - x[0]
    absent, present = np.zeros_like(x), np.zeros_like(x)
    alone = np.zeros(2)  # the probability of an output without noise, at 0
    for size, chance in zip(sizes, chances, strict=True):
        for joined, share in ((0, 1.0 - rate), (1, rate)):
            scale = multiplier * (np.sqrt(size + joined) if per_row else 1.0)
            if scale > 0:
                density = norm.pdf(x, -size + sign * joined, scale)
                present += chance * share * density
                if not joined:
                    absent += chance * density
            else:
                alone += chance * np.array([1.0, share])
    first, second = np.append(absent * width, alone[0]), np.append(present * width, alone[1])
    return halve(lambda eps: delta_between(first, second, eps) <= delta, 0.0, 50.0, 50)[1]
