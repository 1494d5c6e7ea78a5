"""The laws of noise: what each is worth, what a draw costs, and how it is drawn.

A law is an object with its parameters, and ``noise.draw(law, values)`` draws from it. A new law is
a new class, here or in a file of its own, listed in ``noise.DRAWN``: everything else, from
the journal to the audits, asks the law. Only this module imports OpenDP.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import Guarantee
from marginalsyn.privacy.zcdp import gaussian_rho

if TYPE_CHECKING:
    from marginalsyn.privacy.noise import SeededBits

# Beyond this a discrete noise no longer fits 64-bit integers with room to spare.
MAX_SCALE = float(2**52)


class RandomBits(Protocol):
    """A source of random bits: the operating system's entropy, or a stream made of a seed."""

    def words(self, count: int) -> np.ndarray:
        """``count`` random uint64."""

    def bits(self, count: int) -> int:
        """``count`` random bits as an integer."""


class Price(TypedDict, total=False):
    """What a draw costs, in each currency that has a price for it: see ``PrepaidBudget.pay``."""

    mu: float
    rho: float
    eps: float
    bounded_range: bool


@dataclass(frozen=True, eq=False)
class Law(ABC):
    """A law of noise with its parameters.

    Attributes:
        name: in statements.
        mechanism: the name of its payments.
        question: its name in journals.
        guarantee: what a draw is worth whose bits come from the operating system.
        libraries: the libraries that draw it, the one that owns the sampler first.
        chooses: whether a seeded noise draws it from its stream for choices.
        journaled: whether its answers are kept for a run that is resumed.
    """

    name: ClassVar[str]
    mechanism: ClassVar[str]
    question: ClassVar[str]
    guarantee: ClassVar[Guarantee] = "exact"
    libraries: ClassVar[tuple[str, ...]] = ("marginalsyn",)
    chooses: ClassVar[bool] = False
    journaled: ClassVar[bool] = True

    @property
    def parameters(self) -> Any:
        """The parameters, as journals record them: one alone, or a tuple of several."""
        found = tuple(vars(self).values())
        return found[0] if len(found) == 1 else found

    @abstractmethod
    def draw(self, values: Any, source: RandomBits) -> Any:
        """Add noise to ``values``, or choose by them, with exactly this law."""

    def draw_seeded(self, values: Any, source: SeededBits) -> Any:
        """The same from a seed; fast generators of numpy may take the place of exact samplers."""
        return self.draw(values, source)

    def price(self, *args: Any, **sensitivity: Any) -> Price:
        """What a draw costs; laws that add noise take a sensitivity, by the name of its norm."""
        raise UsageError(
            f"law ({self.name}) must be one with a price of its own: pay for the mechanism that "
            "draws it with visit.pay, and draw with visit.noise.draw"
        )

    def details(self, values: Any) -> dict[str, Any]:
        """What a payment records of a draw."""
        shown = {name: float(value) for name, value in vars(self).items()}
        return {**shown, "cells": int(np.size(values))}

    def shift(self, difference: np.ndarray) -> float:
        """How far two tables' answers are from each other, by how far their values are.

        In standard deviations, or in eps. Audits compare it with what was charged.
        """
        raise NotImplementedError(f"{self.name} adds no noise to values")

    def rho_of_shift(self, shift: float) -> float:
        """What such a shift costs in zCDP; of Gaussian noise, mu^2 / 2."""
        return shift**2 / 2

    def restored(self, answer: np.ndarray) -> Any:
        """An answer as the mechanism got it, from the array that a journal keeps."""
        return answer


@dataclass(frozen=True, eq=False)
class Gaussian(Law):
    """What Gaussian laws have in common: their price, and how far answers are from each other."""

    sigma: float | np.ndarray

    def price(self, *, l2: float | None = None, whitened_l2: float | None = None) -> Price:
        """With one ``sigma``: ``l2``, how much one person changes the values, in Euclidean norm.

        With an array: ``whitened_l2``, how much one person changes ``values / sigma``.
        """
        if np.ndim(self.sigma) == 0 and l2 is not None and whitened_l2 is None:
            return self._worth(float(self.sigma), l2)
        if np.ndim(self.sigma) > 0 and whitened_l2 is not None and l2 is None:
            return self._worth(1.0, whitened_l2)
        raise ValueError("give l2 with one sigma, or whitened_l2 with an array of them")

    @staticmethod
    def _worth(sigma: float, l2: float) -> Price:
        return {"rho": gaussian_rho(sigma, l2)}

    def details(self, values: Any) -> dict[str, Any]:
        least, most = float(np.min(self.sigma)), float(np.max(self.sigma))
        sigma = least if least == most else [least, most]
        return {"sigma": sigma, "cells": int(np.size(values))}

    def shift(self, difference: np.ndarray) -> float:
        return float(np.linalg.norm(difference / np.asarray(self.sigma)))


@dataclass(frozen=True, eq=False)
class DiscreteGaussian(Gaussian):
    """Whole numbers z with P(z) proportional to exp(-z^2 / (2 sigma^2)).

    Drawn in whole-number arithmetic (Canonne, Kamath and Steinke 2020); a query of L2 sensitivity
    D under one ``sigma`` is D^2 / (2 sigma^2)-zCDP. It is not a function of continuous Gaussian
    noise, so it has no price in mu: runs that are charged in rho draw it. Values are integers of
    any shape; sums saturate at the ends of int64.

    Attributes:
        sigma: positive; a number, or an array that broadcasts to the values.
    """

    name = "discrete Gaussian"
    mechanism = question = "gaussian"
    libraries = ("opendp",)

    def __post_init__(self) -> None:
        _check_scale("sigma", self.sigma)

    def draw(self, values: Any, source: RandomBits) -> np.ndarray:
        counts = integers(values)
        if np.ndim(self.sigma) == 0:
            return _opendp("gaussian", counts, float(self.sigma))
        sigmas = np.broadcast_to(np.asarray(self.sigma, dtype=np.float64), counts.shape)
        noisy = np.empty_like(counts)
        for one in np.unique(sigmas):
            cells = sigmas == one
            noisy[cells] = _opendp("gaussian", counts[cells], float(one))
        return noisy

    def draw_seeded(self, values: Any, source: SeededBits) -> np.ndarray:
        counts = integers(values)
        sigmas = np.broadcast_to(np.asarray(self.sigma, dtype=np.float64), counts.shape).ravel()
        noise = np.empty(counts.size, dtype=np.int64)
        todo = np.arange(counts.size)
        # Canonne, Kamath and Steinke 2020, Algorithm 3: thin a discrete Laplace.
        while todo.size:
            s = sigmas[todo]
            t = np.floor(s) + 1
            y = _discrete_laplace(t, source.rng)
            excess = (np.abs(y) - s * s / t) / s
            keep = source.rng.random(todo.size) < np.exp(-excess * excess / 2)
            noise[todo[keep]] = y[keep]
            todo = todo[~keep]
        return counts + noise.reshape(counts.shape)


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(Law):
    """Whole numbers z with P(z) proportional to exp(-|z| / scale), in whole-number arithmetic.

    A query of L1 sensitivity D is (D / scale)-DP (Canonne, Kamath and Steinke 2020). Values are
    integers of any shape; sums saturate at the ends of int64.
    """

    scale: float

    name = "discrete Laplace"
    mechanism = question = "laplace"
    libraries = ("opendp",)

    def __post_init__(self) -> None:
        if np.ndim(self.scale):
            raise ValueError("scale must be one number")
        _check_scale("scale", self.scale)

    def price(self, *, l1: float) -> Price:
        """``l1``: how much one person changes the values, as a sum of absolute changes."""
        if not l1 >= 0:
            raise ValueError(f"l1 ({l1}) must not be below 0")
        return {"eps": math.nextafter(l1 / self.scale, math.inf)}

    def shift(self, difference: np.ndarray) -> float:
        return float(np.abs(difference).sum()) / self.scale

    def draw(self, values: Any, source: RandomBits) -> np.ndarray:
        return _opendp("laplace", integers(values), float(self.scale))

    def draw_seeded(self, values: Any, source: SeededBits) -> np.ndarray:
        counts = integers(values)
        noise = _discrete_laplace(np.full(counts.size, float(self.scale)), source.rng)
        return counts + noise.reshape(counts.shape)


@dataclass(frozen=True, eq=False)
class PoissonSample(Law):
    """Positions of rows, each taken with probability ``rate`` on its own.

    The value is the number of rows. The rate is rounded down to a multiple of 2^-64: fewer rows are
    taken, never more. A sample is not published, so no journal keeps it.
    """

    rate: float

    name = mechanism = question = "Poisson sample"
    chooses = True
    journaled = False

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate ({self.rate}) must be above 0 and at most 1")

    def draw(self, values: int, source: RandomBits) -> np.ndarray:
        words = source.words(values)
        if self.rate == 1:
            return np.arange(values)
        return np.flatnonzero(words < np.uint64(int(math.ldexp(self.rate, 64))))


def _check_scale(name: str, scale: Any) -> None:
    array = np.asarray(scale, dtype=np.float64)
    if not ((array > 0) & (array <= MAX_SCALE)).all():
        raise ValueError(f"{name} ({scale}) must be positive and at most 2^52")


def integers(values: Any) -> np.ndarray:
    """Values as int64, if they are whole numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"values must be integers, not {array.dtype}")
    return array.astype(np.int64)


def _discrete_laplace(scales: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The difference of two geometric numbers of one rate."""
    p = -np.expm1(-1 / scales)
    return rng.geometric(p) - rng.geometric(p)


def _opendp(kind: str, values: np.ndarray, scale: float) -> np.ndarray:
    if values.size == 0:
        return values.copy()
    noisy = _measurement(kind, scale)(values.ravel())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)


@lru_cache(maxsize=64)
def _measurement(kind: str, scale: float) -> Any:
    # Not opendp.prelude, which imports scikit-learn and takes seconds.
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "gaussian":
        return measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale=scale)
    return measurements.make_laplace(domain, metrics.l1_distance(T="f64"), scale=scale)
