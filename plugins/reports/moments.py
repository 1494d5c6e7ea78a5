"""What the report of bounds computes: exact differences of moments, and published theorems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from marginalsyn.certificates.certifying import VACUOUS
from marginalsyn.certificates.excess import MomentErrors
from marginalsyn.certificates.linear_models import Frame
from marginalsyn.errors import UsageError
from marginalsyn.table.design import CodedRows
from marginalsyn.table.vectors import scaled_slots

# Combinations of columns whose products are averaged; more would take minutes.
MOST_COMBINATIONS = 20_000


def moment_errors(
    frame: Frame, real: CodedRows, synthetic: CodedRows, *, orders: Sequence[int] = (2, 4)
) -> MomentErrors:
    """Exact differences between two tables, the synthetic one's weights counted.

    The k-fold products of the features of a set of columns are powers of its numbers times
    indicators, so one pass over the rows per set gives them all. Orders with too many sets are
    left out, and so is every order after them.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> round(moment_errors(Frame.of(schema), table, table).label, 9)
        0.0
    """
    x_r, y_r, m_r = frame.features(real)
    x_s, y_s, m_s = frame.features(synthetic)
    if not len(x_r) or not len(x_s):
        raise UsageError("both tables must have rows with a label")
    masses = np.concatenate([m_r / m_r.sum(), -m_s / m_s.sum()])
    x, y = np.vstack([x_r, x_s]), np.concatenate([y_r, y_s])
    label = float(np.abs((masses * y) @ x).max())
    products: dict[int, float] = {}
    groups = _groups(frame, x)
    worst = 0.0
    for order in orders:
        # No more are listed than show that there are too many: of wide tables there are millions.
        listed = itertools.chain(_sets(groups, order - 1), _sets(groups, order))
        sets = list(itertools.islice(listed, MOST_COMBINATIONS + 1))
        if len(sets) > MOST_COMBINATIONS:
            break
        for powers in sets:
            worst = max(worst, _largest(powers, groups, masses))
        products[order] = worst
    return MomentErrors(label, products)


@dataclass(frozen=True)
class _Group:
    """The features of one column: a number with powers of its own, indicators, or both.

    ``on`` is which indicator a row has; the last value stands for none.
    """

    number: np.ndarray | None
    powers: int
    on: np.ndarray | None
    indicators: int


def _groups(frame: Frame, x: np.ndarray) -> list[_Group]:
    groups, position = [], 0
    for _, column in frame.columns:
        slots = scaled_slots(column)
        block = x[:, position : position + slots.width]
        position += slots.width
        number = None
        if slots.scale:
            number, block = np.ascontiguousarray(block[:, 0]), block[:, 1:]
        on = None
        if block.shape[1]:
            on = np.where(block.any(axis=1), block.argmax(axis=1), block.shape[1])
        # The square of -1 and 1 is the constant.
        groups.append(_Group(number, 99 if column.numeric else 1, on, block.shape[1]))
    return groups


def _sets(groups: Sequence[_Group], order: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Groups with the power (0 for the indicators) that their features enter a product with.

    The constant fills up what is missing to ``order``, so that lower products are among these;
    only those of exactly this order are given here. An indicator is its own square.
    """
    options = []
    for j, group in enumerate(groups):
        if group.on is not None:
            options.append((j, 0))
        if group.number is not None:
            options += [(j, power) for power in range(1, min(order, group.powers) + 1)]
    for size in range(1, order + 1):
        for chosen in itertools.combinations(options, size):
            distinct = len({j for j, _ in chosen}) == size
            if distinct and sum(max(power, 1) for _, power in chosen) == order:
                yield chosen


def _largest(
    powers: Sequence[tuple[int, int]], groups: Sequence[_Group], masses: np.ndarray
) -> float:
    """The largest difference in mean of the products of one set."""
    values, widths = masses, []
    index: np.ndarray | None = None
    for j, power in powers:
        group = groups[j]
        for _ in range(power):
            values = values * group.number
        if not power and group.on is not None:
            widths.append(group.indicators + 1)
            index = group.on if index is None else index * widths[-1] + group.on
    if index is None:
        return abs(float(values.sum()))
    sums = np.bincount(index, weights=values, minlength=math.prod(widths)).reshape(widths)
    inside = sums[tuple(slice(width - 1) for width in widths)]
    return float(np.abs(inside).max(initial=0.0))


@dataclass(frozen=True)
class PaperBounds:
    """The theorems of Zhou et al. 2024 with the constants of their proofs written out."""

    lipschitz: float
    logistic: float

    @property
    def vacuous(self) -> bool:
        return min(self.lipschitz, self.logistic) >= VACUOUS


def paper_bounds(features: int, norm: float, degree: int, error: float) -> PaperBounds:
    """Theorems 3.1 and 3.2: excess <= 4 eta + 2 ||phi|| (1 + 1/R)^k (m max(1, tau))^k nu.

    Here k = degree - 1, R = max(1, tau sqrt(m)), ||phi|| = ln(1 + e^R), and eta is the error of a
    Bernstein polynomial of degree k on [-R, R]: 5R / (2 sqrt(k)) for any 1-Lipschitz loss (3.1),
    R^2 / (8k) for the logistic one (3.2; the interval's length enters squared).

    Args:
        features: m.
        norm: tau, the bound on ||w||_2.
        degree: d, of the marginals that are preserved; 2 or more.
        error: nu, the largest normalised l1 error of a marginal of up to d columns.

    Example:
        >>> paper_bounds(10, 1.0, 4, 0.001).vacuous
        True
    """
    if degree < 2:
        raise UsageError(f"degree ({degree}) must be 2 or more for the theorems")
    k, reach = degree - 1, max(1.0, norm * math.sqrt(features))
    size = reach + math.log1p(math.exp(-reach))
    spread = 2 * size * (1 + 1 / reach) ** k * (features * max(1.0, norm)) ** k * error
    return PaperBounds(
        lipschitz=4 * 2.5 * reach / math.sqrt(k) + spread,
        logistic=4 * reach**2 / (8 * k) + spread,
    )
