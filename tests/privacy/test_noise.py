"""Noise has the law it claims, rejects a wrong one, and protects as computed."""

from __future__ import annotations

import math
import random
import secrets
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn.errors import UsageError
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, PoissonSample, _measurement
from marginalsyn.privacy.noise import SecureNoise, SeededNoise, make_noise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import (
    ExponentialMechanism,
    _on_grid,
    _shifted,
    _softmax_index,
    exponential_mechanism,
    exponentials,
)
from marginalsyn.privacy.zcdp import gaussian_rho

ALPHA = 1e-6
DRAWS = 20_000


@pytest.fixture(params=["secure", "seeded"])
def noise(request):
    return SecureNoise() if request.param == "secure" else SeededNoise(20240607)


def gaussian_pmf(z, sigma):
    return np.exp(-(z**2) / (2 * sigma**2))


def laplace_pmf(z, scale):
    return np.exp(-np.abs(z) / scale)


def chi_square(draws, pmf, scale):
    """The p-value of integer draws against a discrete law, tails merged."""
    reach = int(40 * scale + 10)
    z = np.arange(-reach, reach + 1)
    expected = pmf(z.astype(float), scale)
    expected *= draws.size / expected.sum()
    keep = np.flatnonzero(expected >= 10)
    low, high = z[keep[0]], z[keep[-1]]
    observed = np.bincount(np.clip(draws, low, high) - low, minlength=keep.size)
    inside = expected[keep]
    inside[0] += expected[: keep[0]].sum()
    inside[-1] += expected[keep[-1] + 1 :].sum()
    return stats.chisquare(observed, inside, sum_check=False).pvalue


@pytest.mark.parametrize("sigma", [0.6, 3.0, 25.0])
def test_gaussian_has_its_law_and_no_other(noise, sigma):
    draws = noise.draw(DiscreteGaussian(sigma), np.zeros(DRAWS, dtype=int))
    assert chi_square(draws, gaussian_pmf, sigma) > ALPHA
    assert chi_square(draws, gaussian_pmf, 1.5 * sigma) < ALPHA
    assert chi_square(draws, gaussian_pmf, sigma / 1.5) < ALPHA


@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_laplace_has_its_law_and_no_other(noise, scale):
    draws = noise.draw(DiscreteLaplace(scale), np.zeros(DRAWS, dtype=int))
    assert chi_square(draws, laplace_pmf, scale) > ALPHA
    assert chi_square(draws, laplace_pmf, 1.5 * scale) < ALPHA
    assert chi_square(draws, laplace_pmf, scale / 1.5) < ALPHA


def test_large_gaussian(noise):
    draws = noise.draw(DiscreteGaussian(1e6), np.zeros(5_000, dtype=int))
    assert stats.kstest(draws, stats.norm(scale=1e6).cdf).pvalue > ALPHA
    assert stats.kstest(draws, stats.norm(scale=1.5e6).cdf).pvalue < ALPHA


def test_every_cell_may_have_its_own_sigma(noise):
    sigmas = np.tile([1.0, 8.0], (DRAWS, 1))
    draws = noise.draw(DiscreteGaussian(sigmas), np.zeros((DRAWS, 2), dtype=int))
    assert chi_square(draws[:, 0], gaussian_pmf, 1.0) > ALPHA
    assert chi_square(draws[:, 1], gaussian_pmf, 8.0) > ALPHA
    # A single row of sigmas broadcasts over the cells.
    assert noise.draw(
        DiscreteGaussian(np.array([1.0, 8.0])), np.zeros((5, 2), dtype=int)
    ).shape == (5, 2)


def test_cells_are_independent(noise):
    draws = noise.draw(DiscreteGaussian(4.0), np.zeros((DRAWS, 2), dtype=int))
    assert stats.pearsonr(draws[:, 0], draws[:, 1]).pvalue > ALPHA
    assert stats.pearsonr(draws[:-1, 0], draws[1:, 0]).pvalue > ALPHA


def test_shapes_types_and_values(noise):
    values = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    for noisy in (
        noise.draw(DiscreteGaussian(1e-3), values),
        noise.draw(DiscreteLaplace(1e-3), values),
    ):
        # So little noise that the values come back.
        assert noisy.dtype == np.int64
        assert (noisy == values).all()
    assert noise.draw(DiscreteGaussian(2.0), np.array(5)).shape == ()
    assert noise.draw(DiscreteGaussian(2.0), np.zeros((0, 3), dtype=int)).shape == (0, 3)
    assert noise.draw(DiscreteLaplace(2.0), np.zeros(0, dtype=int)).shape == (0,)


def test_secure_sums_saturate():
    top = np.full(200, np.iinfo(np.int64).max)
    assert (SecureNoise().draw(DiscreteGaussian(1e6), top) > 0).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**53])
def test_bad_scales_are_refused(noise, scale):
    counts = np.zeros(3, dtype=int)
    with pytest.raises(ValueError, match="sigma"):
        noise.draw(DiscreteGaussian(scale), counts)
    with pytest.raises(ValueError, match="sigma"):
        noise.draw(DiscreteGaussian(np.array([1.0, scale, 1.0])), counts)
    with pytest.raises(ValueError, match="scale"):
        noise.draw(DiscreteLaplace(scale), counts)


def test_values_must_be_integers(noise):
    for values in (np.zeros(3), np.zeros(3, dtype=bool)):
        with pytest.raises(ValueError, match="integers"):
            noise.draw(DiscreteGaussian(1.0), values)
        with pytest.raises(ValueError, match="integers"):
            noise.draw(DiscreteLaplace(1.0), values)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 12.5])
def test_opendp_agrees_about_the_cost(sigma):
    rho = _measurement("gaussian", sigma).map(1.0)
    assert gaussian_rho(sigma) == pytest.approx(rho, rel=1e-12)
    assert _measurement("laplace", sigma).map(1) == pytest.approx(1 / sigma, rel=1e-12)


def frequencies(noise, scores, eps, sensitivity, draws=DRAWS):
    picks = [noise.draw(ExponentialMechanism(eps, sensitivity), scores) for _ in range(draws)]
    return np.bincount(picks, minlength=len(scores))


def softmax(scores, coefficient):
    weights = np.exp(coefficient * (scores - scores.max()))
    return weights / weights.sum()


def test_select_has_the_exact_softmax_and_no_other(noise):
    scores = np.array([3.0, -1.5, 0.25, 0.25, 4.0])
    counts = frequencies(noise, scores, 1.2, 1.5)
    assert stats.chisquare(counts, DRAWS * softmax(scores, 0.4)).pvalue > ALPHA
    for wrong in (0.4 * 1.5, 0.4 / 1.5):
        assert stats.chisquare(counts, DRAWS * softmax(scores, wrong)).pvalue < ALPHA


def test_whole_scores_of_any_length_have_the_exact_softmax(noise):
    far = 10**30
    scores = np.array([far + 12, far - 6, far + 1, far + 1, far + 16], dtype=object)
    counts = frequencies(noise, scores, 1.2, 6.0)
    law = softmax(np.array([12.0, -6.0, 1.0, 1.0, 16.0]), 0.1)
    assert stats.chisquare(counts, DRAWS * law).pvalue > ALPHA
    assert stats.chisquare(counts, DRAWS * law**1.3 / (law**1.3).sum()).pvalue < ALPHA


@given(st.integers(-(2**90), 2**90), st.integers(-40, 60))
def test_whole_scores_are_rounded_to_the_nearest(score, exponent):
    assert abs(_shifted(score, exponent) - Fraction(score) / Fraction(2) ** exponent) <= Fraction(
        1, 2
    )


def test_the_integer_path_has_the_same_law():
    scaled, rate = np.array([0.0, 7.0, 3.0, 5.0]), Fraction(1, 5)
    picks = [_softmax_index(scaled, rate, secrets.randbits, margin=2.0) for _ in range(4_000)]
    counts = np.bincount(picks, minlength=4)
    assert stats.chisquare(counts, counts.sum() * softmax(scaled, 0.2)).pvalue > ALPHA
    assert stats.chisquare(counts, counts.sum() * softmax(scaled, 0.3)).pvalue < ALPHA


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40), st.floats(1e-3, 1e3))
def test_doubles_and_integers_decide_alike(seed, size, spread):
    scaled = np.rint(np.random.default_rng(seed).normal(size=size) * spread * 2**20)
    rate, first = Fraction(1, 2**21), random.Random(seed).getrandbits(64)

    def bits(k):
        return first if k == 64 else random.Random(seed + k).getrandbits(k)

    fast = _softmax_index(scaled, rate, bits)
    assert fast == _softmax_index(scaled, rate, bits, margin=2.0)


@pytest.mark.parametrize(("rest", "index"), [(0, 0), (2**128 - 1, 1)])
def test_a_number_on_a_boundary_is_decided_by_more_bits(rest, index):
    # The first 64 bits of one third: whether U lies below it is not in them.
    def bits(k):
        return 2**64 // 3 if k == 64 else rest

    assert _softmax_index(np.zeros(3), Fraction(1), bits) == index


def test_exponentials_are_floors():
    exponents = [Fraction(0), Fraction(1, 3), Fraction(5), Fraction(10**6, 7), Fraction(133)]
    small, large = exponentials(exponents, 192), exponentials(exponents, 700)
    for x, w, finer in zip(exponents, small, large, strict=True):
        # The finer value, off by less than 2^-699, stands in for the truth.
        assert -(2.0**-500) <= Fraction(finer, 2**508) - w < 2
        assert w / 2.0**192 == pytest.approx(math.exp(-x), rel=1e-15, abs=2.0**-191)


SCORES = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(SCORES, st.floats(-1, 1)), min_size=2, max_size=6),
    st.floats(1e-6, 1e6),
    st.floats(1e-4, 50),
)
def test_neighbours_stay_within_eps_as_computed(pairs, sensitivity, eps):
    scores = np.array([s for s, _ in pairs]) * sensitivity
    moved = scores + np.array([d for _, d in pairs]) * sensitivity
    assert exact_range(scores, moved, eps, sensitivity) <= Fraction(eps)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 50), st.booleans()), min_size=2, max_size=6))
def test_one_sided_scores_may_pass_half_the_sensitivity(pairs):
    scores = np.array([s for s, _ in pairs]) / 7
    moved = scores + np.array([float(d) for _, d in pairs])
    assert exact_range(scores, moved, 1.0, 0.5) <= 1


def exact_range(scores, moved, eps, sensitivity):
    """The length of the interval that holds the log-ratios, in exact arithmetic."""
    (here, rate), (there, _) = (_on_grid(s, eps, sensitivity) for s in (scores, moved))
    ratios = [rate * (int(a) - int(b)) for a, b in zip(here, there, strict=True)]
    return max(ratios) - min(ratios)


def test_rounding_would_break_the_bound_were_it_not_counted():
    # Found by moving two scores apart by just more than a half of the grid's step.
    sensitivity, eps = 1.0, 1.0
    grid = 2.0**-20
    scores = np.array([0.49 * grid, -0.49 * grid])
    moved = scores + np.array([1.0 + 0.02 * grid, -1.0 - 0.02 * grid])
    (here, rate), (there, _) = (_on_grid(s, eps, sensitivity) for s in (scores, moved))
    apart = Fraction(int(there[0] - here[0]) - int(there[1] - here[1]))
    uncounted = Fraction(eps) * Fraction(grid) / (2 * Fraction(sensitivity))
    assert uncounted * apart > eps
    assert rate * apart <= eps


def test_impossible_candidates_are_never_drawn(noise):
    scores = np.array([-np.inf, 0.0, -np.inf, 0.5])
    counts = frequencies(noise, scores, 1.0, 1.0, draws=300)
    assert counts[0] == counts[2] == 0
    assert counts[1] > 0
    assert counts[3] > 0
    assert noise.draw(ExponentialMechanism(1.0, 1.0), np.array([-np.inf, 3.0])) == 1


def test_extreme_scores(noise):
    assert noise.draw(ExponentialMechanism(1e-3, 1e-9), np.array([1e300, -1e300, 0.0])) == 0
    assert noise.draw(ExponentialMechanism(1.0, 1.0), np.array([0.0, 1e4])) == 1
    flat = frequencies(noise, np.zeros(3), 1e-12, 1.0, draws=600)
    assert stats.chisquare(flat).pvalue > ALPHA


@pytest.mark.parametrize(
    "scores",
    [[], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf], [[0.0, 1.0]]],
)
def test_bad_scores_are_refused(noise, scores):
    with pytest.raises(ValueError, match="scores"):
        noise.draw(ExponentialMechanism(1.0, 1.0), np.array(scores, dtype=float))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_parameters_of_select_are_refused(noise, bad):
    with pytest.raises(ValueError, match="eps"):
        noise.draw(ExponentialMechanism(bad, 1.0), np.zeros(2))
    with pytest.raises(ValueError, match="sensitivity"):
        noise.draw(ExponentialMechanism(1.0, bad), np.zeros(2))


def test_many_candidates(noise):
    scores = np.zeros(200_000)
    scores[1234] = 60.0
    assert noise.draw(ExponentialMechanism(2.0, 1.0), scores) == 1234


@pytest.mark.parametrize("dim", [1, 2, 9])
def test_k_norm_has_its_law_and_no_other(noise, dim):
    middle = np.arange(dim) - 3
    draws = np.array([noise.draw(KNorm(0.5 / 1000), middle) - middle for _ in range(3_000)])
    assert draws.dtype == np.int64
    radius = np.linalg.norm(draws, axis=1) / 1000
    # One step of the grid is a thousandth of the scale: it is not seen in so many draws.
    assert stats.kstest(radius, stats.gamma(dim, scale=2.0).cdf).pvalue > ALPHA
    assert stats.kstest(radius, stats.gamma(dim, scale=3.0).cdf).pvalue < ALPHA
    assert stats.binomtest(int((draws[:, 0] > 0).sum()), len(draws)).pvalue > ALPHA
    if dim > 1:
        share = (draws[:, 0] / (1000 * radius)) ** 2
        assert stats.kstest(share, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > ALPHA


def test_k_norm_refuses_nonsense(noise):
    for rate in (0.0, -1.0, math.nan, math.inf, 2.0**-53):
        with pytest.raises(ValueError, match="rate"):
            noise.draw(KNorm(rate), np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="integers"):
        noise.draw(KNorm(1.0), np.zeros(2))
    with pytest.raises(ValueError, match="at most 40"):
        noise.draw(KNorm(1.0), np.zeros(41, dtype=int))


def test_secure_noise_cannot_be_seeded():
    draws = []
    for _ in range(2):
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        noise, zeros = SecureNoise(), np.zeros(50, dtype=int)
        parts = [
            noise.draw(DiscreteGaussian(100.0), zeros),
            noise.draw(DiscreteLaplace(100.0), zeros),
        ]
        parts += [noise.draw(KNorm(1e-5), zeros[:5]), noise.post.random(3)]
        picks = [noise.draw(ExponentialMechanism(1.0, 1.0), np.zeros(1000)) for _ in range(20)]
        draws.append([*parts, np.array(picks)])
    assert all((one != other).mean() > 0.5 for one, other in zip(*draws, strict=True))


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)], ids=["secure", "seeded"])
def test_protective_noise_is_not_that_of_post_processing(noise):
    class Forbidden:
        def __getattr__(self, name):
            raise AssertionError("noise.post is for post-processing")

    noise.post = Forbidden()
    zeros = np.zeros(3, dtype=int)
    noise.draw(DiscreteGaussian(2.0), zeros)
    noise.draw(DiscreteGaussian(np.array([1.0, 2.0, 1.0])), zeros)
    noise.draw(DiscreteLaplace(2.0), zeros)
    noise.draw(ExponentialMechanism(1.0, 1.0), np.zeros(3))
    noise.draw(KNorm(0.1), zeros)
    noise.draw(RoundedGaussian(2.0), zeros)
    noise.draw(PoissonSample(0.5), 10)


def test_no_global_random_state_is_touched(noise):
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    noise.draw(DiscreteGaussian(3.0), np.zeros(9, dtype=int))
    noise.draw(ExponentialMechanism(1.0, 1.0), np.zeros(9))
    noise.draw(KNorm(0.1), np.zeros(3, dtype=int))
    assert (before[0] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert before[1] == random.getstate()


def everything(noise):
    return [
        *noise.draw(DiscreteGaussian(50.0), np.zeros(4, dtype=int)).tolist(),
        *noise.draw(DiscreteLaplace(50.0), np.zeros(4, dtype=int)).tolist(),
        *(noise.draw(ExponentialMechanism(1.0, 1.0), np.arange(9.0)) for _ in range(6)),
        *noise.post.integers(1000, size=4).tolist(),
    ]


def test_a_seed_gives_the_same_numbers_everywhere():
    assert everything(SeededNoise(7)) == GOLDEN
    assert everything(SeededNoise(8)) != GOLDEN


def test_seeded_streams_do_not_disturb_one_another():
    alone, busy = SeededNoise(3), SeededNoise(3)
    busy.draw(DiscreteGaussian(2.0), np.zeros(100, dtype=int))
    busy.draw(ExponentialMechanism(1.0, 1.0), np.zeros(4))
    assert alone.post.random() == busy.post.random()


def test_make_noise():
    assert make_noise(None).private
    assert not make_noise(0).private
    assert make_noise(5).description == "seeded, not private"
    for seed in (-1, True, 1.5):
        with pytest.raises(UsageError, match="seed"):
            make_noise(seed)


def lower_bound(first, second, at_least, confidence=1e-6):
    """A Clopper-Pearson lower bound on the epsilon between two sets of draws."""
    hits, misses = int((first >= at_least).sum()), int((second >= at_least).sum())
    p = stats.beta.ppf(confidence, hits, len(first) - hits + 1)
    q = stats.beta.ppf(1 - confidence, misses + 1, len(second) - misses)
    return math.log(p / q)


def test_audit_of_a_count(noise):
    zero, one = np.zeros(40_000, dtype=int), np.ones(40_000, dtype=int)
    claimed = 1.0
    honest = lower_bound(
        noise.draw(DiscreteLaplace(1 / claimed), one),
        noise.draw(DiscreteLaplace(1 / claimed), zero),
        1,
    )
    halved = lower_bound(
        noise.draw(DiscreteLaplace(0.5), one), noise.draw(DiscreteLaplace(0.5), zero), 1
    )
    assert 0.8 < honest <= claimed
    assert halved > claimed


def test_audit_of_a_selection():
    eps, scores, moved = 1.0, np.array([0.0, 0.0]), np.array([1.0, -1.0])

    def chance(values):
        return softmax(_on_grid(values, eps, 1.0)[0], float(_on_grid(values, eps, 1.0)[1]))

    loss = np.log(chance(moved) / chance(scores))
    assert loss.max() - loss.min() <= eps * (1 + 1e-12)
    assert loss.max() - loss.min() > 0.999 * eps
    assert exponential_mechanism(scores, eps=eps, sensitivity=1.0, random_bits=lambda k: 0) == 0


GOLDEN = [-45, -25, 98, -61, -129, 231, -32, 29, 7, 3, 6, 5, 4, 7, 396, 632, 785, 486]
