"""Thresholds of set unions: tails and chances against brute force, and the least that will do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from marginalsyn.budget import gaussian_tail, union_delta, union_threshold


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
