"""K-norm noise has its law to the last bit, on both paths of its arithmetic."""

from __future__ import annotations

import itertools
import math
import random
import secrets
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn.privacy.k_norm import (
    _keeps,
    _whole_exponential,
    acceptance,
    first_kept,
    k_norm_noise,
    proposal_rate,
    whole_exponentials,
)

ALPHA = 1e-6
SLOW = 1e13  # a margin within which nothing is decided by double precision


def words(count: int) -> np.ndarray:
    return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)


def never(k: int) -> int:
    raise AssertionError("the first bits must be enough")


@pytest.mark.parametrize(("dim", "rate"), [(1, "1/2"), (2, "9/10"), (3, "5/4")])
def test_the_law_on_small_lattices(dim, rate) -> None:
    """Every point's frequency against exp(-a |z|), where the steps are as long as the noise."""
    runs, reach = 6_000, 14 if dim < 3 else 7
    draws = np.array(
        [k_norm_noise(dim, Fraction(rate), words, secrets.randbits) for _ in range(runs)]
    )
    points = np.array(list(itertools.product(range(-reach, reach + 1), repeat=dim)))

    def p_value(a: float) -> float:
        law = np.exp(-a * np.linalg.norm(points, axis=1))
        expected = runs * law / law.sum()
        often = expected >= 8
        index = {tuple(p): k for k, p in enumerate(points)}
        found = np.bincount([index.get(tuple(z), 0) for z in draws.tolist()], minlength=len(points))
        rest = [runs - found[often].sum()], [runs - expected[often].sum()]
        return stats.chisquare(
            np.concatenate([found[often], rest[0]]), np.concatenate([expected[often], rest[1]])
        ).pvalue

    assert p_value(float(Fraction(rate))) > ALPHA
    assert p_value(1.25 * float(Fraction(rate))) < ALPHA


def test_the_proposal_without_its_coin_has_another_law() -> None:
    """What the test above would see if everything were kept: l1 balls instead of l2 balls."""
    slope = proposal_rate(2, Fraction(9, 10))
    drawn = whole_exponentials(words(40_000), slope, secrets.randbits).reshape(2, -1, 2)
    z = drawn[0] - drawn[1]
    corner, axis = (np.abs(z) == 2).all(axis=1).sum(), ((np.abs(z) == [4, 0]).all(axis=1)).sum() * 2
    assert stats.binomtest(int(corner), int(corner + axis)).pvalue > ALPHA  # equal in l1


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 40), st.floats(2.0**-52, 2.0**20), st.data())
def test_proposals_are_never_below_the_law(dim, rate, data) -> None:
    a = Fraction(rate)
    t = proposal_rate(dim, a)
    assert 0 <= a * a - t * t * dim <= a * a / 2**50
    z = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=dim, max_size=dim))
    square, length = sum(v * v for v in z), sum(abs(v) for v in z)
    assert (t * length) ** 2 <= a * a * square


def test_the_share_that_is_kept() -> None:
    shares = {5: 0.353, 10: 0.090, 20: 0.0058, 32: 2.2e-4}
    for dim, share in shares.items():
        assert acceptance(dim) == pytest.approx(share, rel=0.02)
    rate = Fraction(1, 10**6)
    slope = proposal_rate(5, rate)
    drawn = whole_exponentials(words(20_000), slope, secrets.randbits).reshape(2, 2_000, 5)
    proposals, coins = drawn[0] - drawn[1], words(2_000)
    kept = sum(
        first_kept(proposals[[i]], rate, slope, coins[[i]], secrets.randbits) is not None
        for i in range(2_000)
    )
    assert stats.binomtest(kept, 2_000, acceptance(5)).pvalue > ALPHA


# -- doubles and integers decide alike ------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-9, 10.0))
def test_both_paths_give_the_same_numbers(seed, rate) -> None:
    rng = np.random.default_rng(seed)
    a = Fraction(rate)
    first = rng.integers(0, 2**64, 24, dtype=np.uint64)
    bits = random.Random(seed).getrandbits
    fast, slow = (whole_exponentials(first, a, bits, margin) for margin in (1.0, SLOW))
    assert (fast == slow).all()
    proposals = (fast[:12] - fast[12:]).reshape(4, 3)
    slope, coins = proposal_rate(3, a), rng.integers(0, 2**64, 4, dtype=np.uint64)
    kept = [first_kept(proposals, a, slope, coins, bits, margin) for margin in (1.0, SLOW)]
    assert kept[0] == kept[1]


def test_whole_exponentials_are_floors() -> None:
    rate = Fraction(1, 1000)
    found = whole_exponentials(words(8_000), rate, secrets.randbits)
    assert found.dtype == np.int64
    assert stats.kstest(found, stats.expon(scale=1000).cdf).pvalue > ALPHA
    assert stats.kstest(found, stats.expon(scale=1500).cdf).pvalue < ALPHA
    ends = np.array([2**64 - 1, 2**63, 0], dtype=np.uint64)
    exact = whole_exponentials(ends, Fraction(1), lambda k: 0 if k < 100 else 1)
    # Almost 1, a half, and a number whose first 319 bits are zeros.
    assert exact.tolist() == [0, 0, int(320 * math.log(2))]


@pytest.mark.parametrize(("rest", "whole"), [(0, 1), (2**96 - 1, 0)])
def test_a_number_on_a_boundary_is_decided_by_more_bits(rest, whole) -> None:
    # The first 64 bits of 1/e: whether -ln U lies above 1 is not in them.
    word = int(Fraction(math.exp(-1)) * 2**64)
    while _whole_exponential(word, Fraction(1), lambda k: 2**k - 1) == 1:
        word += 1
    while _whole_exponential(word, Fraction(1), lambda k: 0) == 0:
        word -= 1
    assert _whole_exponential(word, Fraction(1), lambda k: rest) == whole
    found = whole_exponentials(np.array([word], dtype=np.uint64), Fraction(1), lambda k: rest)
    assert found.tolist() == [whole]


@pytest.mark.parametrize(("rest", "kept"), [(0, True), (2**128 - 1, False)])
def test_a_coin_on_its_boundary_is_decided_by_more_bits(rest, kept) -> None:
    rate = Fraction(1)
    slope, z = proposal_rate(2, rate), [3, 0]
    chance = math.exp(-(3 - 3 * float(slope)))
    word = int(Fraction(chance) * 2**64)
    while not _keeps(z, rate, slope, word, lambda k: 2**k - 1):
        word -= 1
    while _keeps(z, rate, slope, word, lambda k: 2**k - 1):
        word += 1
    assert _keeps(z, rate, slope, word, lambda k: rest) is kept
    coin = np.array([word], dtype=np.uint64)
    found = first_kept(np.array([z]), rate, slope, coin, lambda k: rest)
    assert found == (z if kept else None)


def test_an_exponent_of_zero_is_seen_in_integers() -> None:
    # t = a / 2 exactly, so that all corners of a cube lie on the proposal's own law.
    rate = Fraction(3, 7)
    slope = proposal_rate(4, rate)
    assert slope == rate / 2
    assert _keeps([5, -5, 5, 5], rate, slope, 2**64 - 1, never)
    assert not _keeps([5, -5, 5, 6], rate, slope, 2**64 - 1, lambda k: 2**k - 1)
    assert k_norm_noise(0, rate, words, never) == []


def test_long_noise_does_not_overflow() -> None:
    tiny = Fraction(1, 2**52)
    z = k_norm_noise(3, tiny, words, secrets.randbits)
    assert 2.0**45 < math.hypot(*z) < 2.0**60
    longest = whole_exponentials(np.array([1], dtype=np.uint64), Fraction(1, 2**60), lambda k: 0)
    assert longest.dtype == object
    assert abs(int(longest[0]) - 64 * math.log(2) * 2**60) < 2**20
