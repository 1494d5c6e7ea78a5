"""Marginal errors against brute force, and the error of sampling alone against the truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalsyn.plugins.reports import marginal_errors as marginals
from marginalsyn.plugins.reports.marginal_errors import marginal_errors, sampling_errors

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def table(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, rows) for size in SIZES.values()])


def brute(one: np.ndarray, two: np.ndarray, q: tuple[int, ...], w: np.ndarray | None) -> float:
    """The l1 error by listing every cell."""
    sizes = list(SIZES.values())
    weights = np.ones(len(two)) if w is None else w
    total = 0.0
    for cell in itertools.product(*(range(sizes[j]) for j in q)):
        first = (one[:, q] == cell).all(axis=1).mean()
        second = weights[(two[:, q] == cell).all(axis=1)].sum() / weights.sum()
        total += abs(first - second)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [2**22, 5])
def test_against_brute_force(weighted: bool, dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "DENSE_CELLS", dense)
    one, two = table(60, 0), table(45, 1)
    w = np.random.default_rng(2).random(45) if weighted else None
    found = marginal_errors(one, two, SIZES, degree=4, second_weights=w)
    names = list(SIZES)
    assert len(found) == 15
    for q, error in found.items():
        place = tuple(names.index(name) for name in q)
        assert error == pytest.approx(brute(one, two, place, w), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 50))
def test_same_shares_are_no_error(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    one = table(rows, seed)
    counts = rng.integers(1, 4, rows)
    doubled = rng.permutation(np.repeat(one, 2 * counts, axis=0))
    found = marginal_errors(one, doubled, SIZES, degree=3, first_weights=counts.astype(float))
    assert max(found.values()) == 0.0
    assert max(marginal_errors(one, one, SIZES, degree=3).values()) == 0.0


def test_weights_must_fit() -> None:
    with pytest.raises(ValueError, match="one per row"):
        marginal_errors(table(5, 0), table(6, 1), SIZES, second_weights=np.ones(5))


@pytest.mark.parametrize(
    ("size", "rows", "fresh"), [(5, 2000, 2000), (50, 2000, 400), (5000, 1000, 1000)]
)
def test_the_error_of_sampling_alone(size: int, rows: int, fresh: int) -> None:
    rng = np.random.default_rng(size)
    p, domain = rng.dirichlet(np.full(size, 0.5)), {"x": size}

    def draw(count: int) -> np.ndarray:
        return rng.choice(size, count, p=p)[:, None]

    true = np.mean([marginal_errors(draw(rows), draw(fresh), domain)["x",] for _ in range(300)])
    told = [sampling_errors(draw(rows), domain, rng=rng, rows=fresh)["x",] for _ in range(100)]
    assert np.mean(told) == pytest.approx(true, rel=0.2)
