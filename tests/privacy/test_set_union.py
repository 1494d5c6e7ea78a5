"""Thresholds of set unions: tails and chances against brute force, and the least that will do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from marginalsyn.privacy.charges import ZCDP, Approximate, Charge, Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.selection import gaussian_tail, union_delta, union_threshold
from marginalsyn.privacy.zcdp import gaussian_rho


def masses(sigma: float, reach: int) -> dict[int, float]:
    weights = {z: math.exp(-z * z / (2 * sigma * sigma)) for z in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {z: weight / whole for z, weight in weights.items()}


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5, 20.0])
def test_tails_are_the_sums_of_the_law(sigma: float) -> None:
    law = masses(sigma, math.ceil(40 * sigma) + 5)
    for least in (-3, 0, 1, 2, round(4 * sigma), round(7 * sigma)):
        true = math.fsum(p for z, p in law.items() if z >= least)
        assert true <= gaussian_tail(sigma, least) <= true * (1 + 1e-8) + 1e-300


def test_tails_of_large_scales_are_bounds() -> None:
    sigma = 1500.0
    law = np.exp(-0.5 * np.square(np.arange(-40 * 1500, 40 * 1500 + 1) / sigma))
    for least in (1, 1500, 4500, 9000):
        true = math.fsum(law[40 * 1500 + least :]) / math.fsum(law)
        assert true <= gaussian_tail(sigma, least) <= true * 1.02


@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 0.05), (3.0, 1e-6), (21.0, 2e-10)])
def test_the_threshold_is_the_least_that_will_do(sigma: float, delta: float) -> None:
    least = union_threshold(sigma, delta)
    law = masses(sigma, math.ceil(12 * sigma) + 5)

    def seen(threshold: int) -> float:
        return math.fsum(p for z, p in law.items() if 1 + z >= threshold)

    assert seen(least) <= delta < seen(least - 1)


def test_no_person_is_seen_with_more_than_delta_however_the_rows_lie() -> None:
    """Every way of spreading up to four rows over new values, by brute force."""
    sigma, rows, whole, delta = 1.3, 4, 12, 0.01
    threshold = union_threshold(sigma, delta, rows, whole)
    law = masses(sigma * whole, 400)
    chance = {w: math.fsum(p for z, p in law.items() if w + z >= threshold) for w in range(13)}
    found = []
    for kept in range(1, rows + 1):
        for places in itertools.product(range(kept), repeat=kept):
            weights = [whole // kept * places.count(place) for place in set(places)]
            found.append(1 - math.prod(1 - chance[weight] for weight in weights))
    assert max(found) <= union_delta(sigma, threshold, rows, whole) <= delta
    # The threshold of a person with one value is too low, and nothing is given away.
    single = union_threshold(sigma, delta, 1, whole)
    assert single < threshold
    law_of = {w: math.fsum(p for z, p in law.items() if w + z >= single) for w in range(13)}
    alone = max(1 - (1 - law_of[whole // k]) ** k for k in range(1, rows + 1))
    assert alone <= union_delta(sigma, single, rows, whole)
    assert max(found) >= 0.5 * delta


def test_persons_with_many_rows_need_more() -> None:
    whole = 2**20
    found = [union_threshold(10.0, 2e-10, rows, whole) / whole for rows in (1, 5, 20, 100)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(union_threshold(10.0, 2e-10), abs=1.6)
    # Reviewed beforehand: the one-cell threshold gives up to 48 times delta.
    low = union_threshold(10.0, 1e-9, 1, whole)
    assert 5 < union_delta(10.0, low, 100, whole) / 1e-9 < 60


def test_parts_that_do_not_come_out_even_are_covered() -> None:
    """A person's rows weigh one part more or less where the whole cannot be shared equally."""
    sigma, rows, whole = 1.1, 4, 13
    threshold = union_threshold(sigma, 0.02, rows, whole)
    law = masses(sigma * whole, 400)
    chance = {w: math.fsum(p for z, p in law.items() if w + z >= threshold) for w in range(14)}
    worst = 0.0
    for kept in range(1, rows + 1):
        shares = [whole // kept + (i < whole % kept) for i in range(kept)]
        assert sum(shares) == whole
        for places in itertools.product(range(kept), repeat=kept):
            weights = np.bincount(places, weights=shares, minlength=kept).astype(int)
            seen = 1 - math.prod(1 - chance[int(weight)] for weight in weights if weight)
            worst = max(worst, seen)
    assert 0.5 * 0.02 <= worst <= union_delta(sigma, threshold, rows, whole) <= 0.02


def test_thresholds_are_those_of_the_formula_with_normal_noise() -> None:
    """The least T with P(T-1+(j-1)/k) P(T-1/k)^(j-1) >= 1-delta for all j <= k <= rows."""
    whole = 2**20
    for sigma, delta, rows in [(1.0, 1e-6, 1), (5.0, 1e-9, 5), (10.0, 1e-9, 40), (3.0, 0.01, 7)]:
        pairs = [(j, k) for k in range(1, rows + 1) for j in range(1, k + 1)]
        j, k = np.array(pairs).T

        def holds(
            least: float, j: np.ndarray = j, k: np.ndarray = k, s: float = sigma, d: float = delta
        ) -> bool:
            unseen = stats.norm.logcdf((least - 1 + (j - 1) / k) / s)
            unseen = unseen + (j - 1) * stats.norm.logcdf((least - 1 / k) / s)
            return bool(np.all(-np.expm1(unseen) <= d))

        found = union_threshold(sigma, delta, rows, whole) / whole
        assert holds(found)
        assert not holds(found - 0.01)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_what_is_told_of_neighbours_differs_by_no_more_than_is_charged(
    neighbours: Neighbours,
) -> None:
    """All outcomes of two tables, summed: values that a row leaves or joins, shared or its own."""
    sigma, delta = 1.5, 0.01
    least = union_threshold(sigma, delta)
    noise = masses(sigma, 60)

    def told(count: int) -> dict[int, float]:
        """The chance of every outcome of one value; 0 is that it is not told."""
        outcomes = {0: 1.0} if not count else {0: 0.0}
        for z, chance in noise.items() if count else ():
            place = count + z if count + z >= least else 0
            outcomes[place] = outcomes.get(place, 0.0) + chance
        return outcomes

    def excess(old: tuple[int, int], new: tuple[int, int], eps: float) -> float:
        """The most by which an event's chance exceeds exp(eps) times the neighbour's."""
        first, second = [told(count) for count in old], [told(count) for count in new]
        found = 0.0
        for a, b in itertools.product(*first):
            other = second[0].get(a, 0.0) * second[1].get(b, 0.0)
            found += max(0.0, first[0][a] * first[1][b] - math.exp(eps) * other)
        return found

    # Counts of the value that a row had and of the one that it has in the neighbouring table.
    moves = [((1, 9), (0, 10)), ((9, 0), (8, 1)), ((1, 0), (0, 1)), ((6, 6), (5, 7))]
    if neighbours is Neighbours.ADD_REMOVE:
        moves = [((1, 7), (0, 7)), ((7, 7), (6, 7)), ((2, 0), (1, 0))]
    pairs = [*moves, *((new, old) for old, new in moves)]
    rho = gaussian_rho(sigma, neighbours.l2)
    paid = [
        Charge(mechanism="set union", cost=cost, neighbours=neighbours)
        for cost in (ZCDP(rho=rho), Approximate(eps=0, delta=union_delta(sigma, least)))
    ]
    for total in (0.02, 0.1):
        eps = compose(paid, total, neighbours).eps
        assert max(excess(old, new, eps) for old, new in pairs) <= total
    # The delta is no reserve: no eps hides a value of one's own better than that.
    worst = max(excess(old, new, 50.0) for old, new in pairs)
    assert worst == pytest.approx(union_delta(sigma, least), rel=1e-6)
