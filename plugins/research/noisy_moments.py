"""Noisy sums of products of features and label: what a releasable certificate is made of.

The constant is among the features, so the number of rows comes with the products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.certificates.certifying import CONFIDENCE
from marginalsyn.certificates.excess import MomentErrors
from marginalsyn.certificates.linear_models import GRID, Frame
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.design import ABSENT, CodedRows

PURPOSE = "moments for a certificate"
# Half of the allowed misses for weights that were there before the noise, half for all others.
HALF = (1 - CONFIDENCE) / 2
# Of either half, the part for the number of rows, which all bounds are divided by.
_ROWS = 0.25
# The radius whose certificate the split of the budget serves best.
_AIM = 2.0
_BATCH = 2**14


@dataclass(frozen=True)
class MomentPlan:
    """What is measured: the noise on both kinds of sums, fixed by public things.

    ``label_sigma`` is in units of 1/1024, ``product_sigma`` in units of 1/1024^2.
    """

    frame: Frame
    neighbours: Neighbours
    label_rho: float
    product_rho: float

    @classmethod
    def of(cls, frame: Frame, rho: float, neighbours: Neighbours) -> MomentPlan:
        """Split rho (mu^2 / 2) between the kinds so that the certificate of radius 2 is smallest.

        Its terms are B s_1 / sqrt(rho_1) and B^2/4 s_2 / sqrt(rho_2) for sensitivities s.
        """
        label, product = _reach(frame, neighbours)
        first, second = (_AIM * label) ** (2 / 3), (_AIM**2 / 4 * product) ** (2 / 3)
        share = first / (first + second)
        return cls(frame, neighbours, rho * share, rho * (1 - share))

    @property
    def label_l2(self) -> float:
        """How far one person moves the sums of x_j y."""
        return self.most * _reach(self.frame, self.neighbours)[0] * GRID * (1 + 1e-12)

    @property
    def product_l2(self) -> float:
        """How far one person moves the sums of x_j x_k, j <= k."""
        return self.most * _reach(self.frame, self.neighbours)[1] * GRID**2 * (1 + 1e-12)

    @property
    def most(self) -> int:
        """How many rows of a person are counted: each adds its own vectors to the sums.

        Rows count whole here, so that the bounds are about rows. The products of two persons' rows
        are not negative either, so that under replace the same factor holds.
        """
        unit = self.frame.schema.unit
        return 1 if unit is None else unit.max_rows

    @property
    def label_sigma(self) -> float:
        return gaussian_sigma(self.label_rho, self.label_l2)

    @property
    def product_sigma(self) -> float:
        return gaussian_sigma(self.product_rho, self.product_l2)

    def cost(self, budget: Budget, weightings: int = 1) -> Charge:
        """The charge for both, with how many weightings the certificate will count."""
        return Charge(
            mechanism=budget.gaussian_law,
            purpose=PURPOSE,
            neighbours=self.neighbours,
            cost=budget.gaussian_cost,
            details={
                "label_sigma": self.label_sigma,
                "product_sigma": self.product_sigma,
                "features": self.frame.width,
                "weightings": weightings,
            },
        )

    def measure(self, visit: Visit, progress: Progress) -> Sums:
        """Add up both kinds in one pass, and add the noise."""
        width = self.frame.width
        upper = np.triu_indices(width)
        label = np.zeros(width, dtype=np.int64)
        product = np.zeros(len(upper[0]), dtype=np.int64)
        progress.report("measure", text="sums of products")
        for rows in visit.batches(size=_BATCH, units=True, absent=ABSENT, weighted=True):
            one, two = add_up(self.frame, rows.values)
            label += one
            product += two[upper]
        return Sums(
            visit.draw(visit.gaussian(self.label_sigma), label, l2=self.label_l2, purpose=PURPOSE),
            visit.draw(
                visit.gaussian(self.product_sigma), product, l2=self.product_l2, purpose=PURPOSE
            ),
            self.label_sigma,
            self.product_sigma,
        )


def add_up(frame: Frame, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact sums over rows of x_j y (in 1/1024) and of x_j x_k (in 1/1024^2)."""
    y = frame.labels(units)
    # Whole numbers in floats: exact below 2^53, and matrices of floats are multiplied fast.
    x = frame.integers(units).astype(float)[y != 0]
    label = x.T @ y[y != 0]
    return np.rint(label).astype(np.int64), np.rint(x.T @ x).astype(np.int64)


def _reach(frame: Frame, neighbours: Neighbours) -> tuple[float, float]:
    """How far one person moves the sums, for features of size 1.

    With r = max ||x||: ||y x|| <= r. Of the products j <= k the squares sum to
    (||x||^4 + sum x_j^4) / 2 <= (r^4 + r^2) / 2. When one person replaces another, the labels'
    sums move by at most 2r; as <xx', zz'> = (x.z)^2 >= 0, and likewise on the diagonal, the squares
    of the products' moves add up to at most twice that.
    """
    r = frame.norm
    products = math.sqrt((r**4 + r**2) / 2)
    if neighbours is Neighbours.ADD_REMOVE:
        return r, products
    return 2 * r, math.sqrt(2) * products


@dataclass(frozen=True)
class Reach:
    """So many standard deviations of noise that, at a confidence, nothing counted is farther off.

    Attributes:
        sums: for the differences S - e N of the sums; with ``every`` for the sums S.
        rows: for the number of rows N.
        every: whether all weightings are covered at once, those included that depend on the noise.
    """

    sums: float
    rows: float
    every: bool = False


@dataclass(frozen=True)
class Sums:
    """The noisy sums, which may be published; the last product is the number of labelled rows."""

    label: np.ndarray
    product: np.ndarray
    label_sigma: float
    product_sigma: float

    def before(self, weightings: int) -> Reach:
        """For so many weightings that were fixed before the noise was drawn, all of them together.

        Every sum of every weighting is counted: their differences have a noise of their own.
        """
        return Reach(_deviations(weightings * self._count, HALF * (1 - _ROWS)), _ROWS_REACH)

    def later(self) -> Reach:
        """For any weightings whatever, chosen by looking at these sums too: S and N are bounded."""
        return Reach(_deviations(self._count, HALF * (1 - _ROWS)), _ROWS_REACH, every=True)

    def rows(self, reach: Reach) -> tuple[float, float]:
        """The number of labelled rows: an estimate and a lower bound."""
        estimate = float(self.product[-1]) / GRID**2
        return estimate, estimate - reach.rows * self._spread

    def errors(self, frame: Frame, synthetic: CodedRows, reach: Reach) -> MomentErrors | None:
        """Upper bounds of the moment errors, which hold as long as nothing is out of reach.

        With e the synthetic mean, S the real sum and N the real number of rows, the error is
        |S - e N| / N, and the noisy S - e N has two independent noises, which are sub-Gaussian
        with variances s^2 and e^2 s_N^2 where e does not depend on them. Where it may, the bounds
        on S and N themselves bound S - e N for every e. None where even the number of rows is lost
        in the noise.
        """
        x, y, masses = frame.features(synthetic)
        estimate, least = self.rows(reach)
        if least <= 0 or not len(x):
            return None
        share = masses / masses.sum()
        e_label = (share * y) @ x
        e_product = ((x * share[:, None]).T @ x)[np.triu_indices(frame.width)][:-1]

        def within(sigma: float, e: np.ndarray) -> np.ndarray:
            if reach.every:
                return reach.sums * sigma + reach.rows * self._spread * np.abs(e)
            return reach.sums * np.hypot(sigma, e * self._spread)

        label = np.abs(self.label / GRID - e_label * estimate)
        label += within(math.hypot(self.label_sigma, 0.5) / GRID, e_label)
        product = np.abs(self.product[:-1] / GRID**2 - e_product * estimate)
        product += within(self._spread, e_product)
        # No two means of numbers in [-1, 1] differ by more than 2.
        worst = [min(2.0, float(part.max(initial=0.0)) / least) for part in (label, product)]
        return MomentErrors(worst[0], {2: worst[1]})

    @property
    def _spread(self) -> float:
        """The noise of a sum of products, and so of the number of rows."""
        # Rounding adds less than a quarter of a step to a noise's variance proxy.
        return math.hypot(self.product_sigma, 0.5) / GRID**2

    @property
    def _count(self) -> int:
        """The number of sums, without the number of rows."""
        return len(self.label) + len(self.product) - 1


def _deviations(count: int, beta: float) -> float:
    """What ``count`` sub-Gaussian noises exceed, on either side, with a chance of at most beta."""
    return math.sqrt(2 * math.log(2 * count / beta))


# For the number of rows.
_ROWS_REACH = _deviations(1, HALF * _ROWS)
