"""dp-mlp: what a step gives away, audited; and the exact noise that it draws."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from steps import Fixed, knobs

from marginalsyn import Budget, Charge, Neighbours
from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.weights.dp_mlp import DpMlpConfig
from marginalsyn.plugins.weights.label_weights import signal_share
from marginalsyn.privacy import rounded_normal as normal
from marginalsyn.privacy.charges import SubsampledGaussian
from marginalsyn.privacy.composition import compose, find_noise_multiplier
from marginalsyn.privacy.laws import PoissonSample
from marginalsyn.privacy.noise import SecureNoise, SeededNoise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.zcdp import rho_of
from marginalsyn.weights.dp_sgd import Training, noise_steps, private_gradient, train

ALPHA = 1e-6


class Toy:
    """Stands for a network: each row is its own gradient, clipped to the norm."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.parameters = np.zeros(size)

    def assign(self, parameters: np.ndarray) -> None:
        self.parameters = parameters

    def clipped_sum(self, rows: np.ndarray, label: float, clip_norm: float) -> np.ndarray:
        norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        sign = 1.0 if label else -1.0
        return sign * (rows * np.minimum(1, clip_norm / norms)).sum(axis=0)


# -- the noise ------------------------------------------------------------------------------------


def law_of(sigma: float, most: int) -> np.ndarray:
    """P(round(N(0, sigma^2)) = k) for -most <= k <= most, the ends with their tails."""
    edges = np.arange(-most, most) + 0.5
    return np.diff(np.concatenate([[0], stats.norm.cdf(edges / sigma), [1]]))


def chi_square(draws: np.ndarray, sigma: float, most: int) -> float:
    counts = np.bincount(np.clip(draws, -most, most) + most, minlength=2 * most + 1)
    return float(stats.chisquare(counts, law_of(sigma, most) * draws.size).pvalue)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(4)], ids=["secure", "seeded"])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 7.3])
def test_rounded_gaussian_has_its_law(noise, sigma) -> None:
    draws, most = (
        noise.draw(RoundedGaussian(sigma), np.zeros(60_000, dtype=int)),
        math.ceil(2.5 * sigma),
    )
    assert draws.dtype == np.int64
    assert chi_square(draws, sigma, most) > ALPHA
    assert chi_square(draws, 1.5 * sigma, most) < ALPHA
    assert chi_square(draws, sigma / 1.5, most) < ALPHA


def test_rounded_gaussian_of_a_large_scale() -> None:
    draws = SecureNoise().draw(RoundedGaussian(2.0**30), np.zeros(50_000, dtype=int)) / 2.0**30
    assert stats.kstest(draws, "norm").pvalue > ALPHA
    assert stats.kstest(draws, stats.norm(0, 1.5).cdf).pvalue < ALPHA
    with pytest.raises(ValueError, match="sigma"):
        SecureNoise().draw(RoundedGaussian(0.0), np.zeros(3, dtype=int))


def test_exact_arithmetic_decides_alike(monkeypatch) -> None:
    # A margin of a half sends most draws to the decimal arithmetic.
    monkeypatch.setattr(normal, "_RELATIVE", 0.5)
    draws = SecureNoise().draw(RoundedGaussian(1.7), np.zeros(4000, dtype=int))
    assert chi_square(draws, 1.7, 4) > ALPHA


@pytest.mark.parametrize("x", [0.0, 0.5, 1.0, 3.7, 8.2])
def test_decimal_tail_is_right(x) -> None:
    from fractions import Fraction

    found = float(normal._erfc(Fraction(x), 60))
    assert math.isclose(found, 2 * stats.norm.sf(x), rel_tol=1e-11)
    assert float(normal._erfc(Fraction(60), 60)) == 0.0


def test_a_tie_is_refined_to_the_same_answer() -> None:
    # U in the middle of each whole number's interval must give that number.
    from fractions import Fraction

    for whole in (0, 1, 5, 20):
        low = 2 * stats.norm.sf((whole + 0.5) / 4)
        high = 2 * stats.norm.sf((whole - 0.5) / 4) if whole else 1.0
        word = int((low + high) / 2 * 2**64)
        assert normal._refine(word, Fraction(4), 0, lambda k: 1 << (k - 1)) == whole


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)], ids=["secure", "seeded"])
def test_lots_are_poisson_samples(noise) -> None:
    rows, rate, draws = 40, 0.3, 2000
    counts, sizes = np.zeros(rows), []
    for _ in range(draws):
        lot = noise.draw(PoissonSample(rate), rows)
        counts[lot] += 1
        sizes.append(lot.size)
    # Each row on its own with its probability: sizes are binomial, not constant.
    assert (np.abs(counts - draws * rate) < 6 * np.sqrt(draws * rate * (1 - rate))).all()
    spread = np.var(sizes) / (rows * rate * (1 - rate))
    assert 0.8 < spread < 1.25
    assert noise.draw(PoissonSample(1.0), 5).tolist() == [0, 1, 2, 3, 4]
    assert noise.draw(PoissonSample(0.5), 0).size == 0
    for wrong in (0.0, -0.1, 1.1):
        with pytest.raises(ValueError, match="rate"):
            noise.draw(PoissonSample(wrong), 3)


# -- a step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 400], ids=["empty lot", "one row", "many rows"])
def test_noise_of_a_step_does_not_depend_on_the_lot(rows) -> None:
    training, size = knobs(rate=1.0), 20_000
    toy = Toy(size)
    private = np.zeros((rows, size))
    private[:, 0] = 1000.0  # each clipped to (2, 0, 0, ...)
    found = private_gradient(toy, private, training, SecureNoise())  # type: ignore[arg-type]
    noise = found - toy.clipped_sum(private, 1.0, training.clip_norm)
    sigma = training.noise_multiplier * training.clip_norm
    assert stats.kstest(noise, stats.norm(0, sigma).cdf).pvalue > ALPHA
    assert stats.kstest(noise, stats.norm(0, sigma / 1.5).cdf).pvalue < ALPHA
    # The grid's share of the sensitivity is paid for, and is small.
    whole = noise_steps(training, size) * training.clip_norm / 2**20
    assert sigma * (1 + 2 * math.sqrt(size) / 2**20) == pytest.approx(whole)


def test_nothing_but_the_lot_depends_on_the_number_of_rows() -> None:
    rng = np.random.default_rng(2)
    private, synthetic = rng.normal(size=(3, 2)), rng.normal(size=(9, 2))
    ends = []
    for rows in (private, np.vstack([private, rng.normal(size=(500, 2))])):
        toy = Toy(2)
        train(toy, rows, synthetic, knobs(), Fixed(5), lambda step: None)  # type: ignore[arg-type]
        ends.append(toy.parameters)
    assert (ends[0] == ends[1]).all()


def test_nothing_is_chosen_by_private_rows() -> None:
    # The calibrated run is made before any private table is known.
    target = Target(frame=example_frame(50), schema=example_schema(), rows=50.0)
    budget = Budget.of_rho(0.01)
    one, two = (DpMlpConfig(target="rows").configure(target, budget) for _ in range(2))
    assert one.training == two.training
    assert (one.training.rate, one.training.lot) == (0.1, 5)
    large = Target(frame=target.frame, schema=target.schema, rows=10**6)
    training = DpMlpConfig(target="rows").configure(large, budget).training
    assert (training.rate, training.lot) == (8192 / 10**6, 8192)


def noised_per_row(toy, private: np.ndarray, training: Training, noise) -> np.ndarray:
    """The step as Ghalebikesabi et al. 2022 print it: each row of the lot has its own noise."""
    lot = noise.draw(PoissonSample(training.rate), len(private))
    drawn = noise.post.normal(size=(lot.size, toy.size)) * training.clip_norm
    found = toy.clipped_sum(private[lot], 1.0, training.clip_norm)
    return found + training.noise_multiplier * drawn.sum(axis=0)


@pytest.mark.parametrize("version", ["as shipped", "half the noise", "noise per row"])
def test_canary_audit_of_one_step(version) -> None:
    """The lower bound on delta stays below the claim; versions with less noise are caught."""
    training = knobs(rate=0.3, noise_multiplier=0.8)
    used = knobs(rate=0.3, noise_multiplier=0.4) if version == "half the noise" else training
    step = noised_per_row if version == "noise per row" else private_gradient
    tables = [np.array([[1e9]]), np.empty((0, 1))]
    toy, noise, draws = Toy(), SeededNoise(8), 8_000
    present, absent = (
        np.array([step(toy, t, used, noise)[0] for _ in range(draws)])  # type: ignore[arg-type]
        for t in tables
    )
    eps = 0.5
    cost = SubsampledGaussian(noise_multiplier=0.8, rate=0.3, steps=1)
    claimed = delta_at(cost, eps)
    bound = 0.0
    for edge in np.quantile(present, [0.7, 0.8, 0.9, 0.95]):
        hit, miss = int((present > edge).sum()), int((absent > edge).sum())
        low = stats.beta.ppf(ALPHA / 4, hit, draws - hit + 1)
        high = stats.beta.ppf(1 - ALPHA / 4, miss + 1, draws - miss)
        bound = max(bound, low - math.exp(eps) * high)
    assert bool(bound <= claimed) is (version == "as shipped")


def law_of_step(target: float, per_row: bool) -> tuple[np.ndarray, float]:
    """A step's law in one dimension, 454 other rows at -1: a density on a grid, an atom at 0."""
    rate, sigma, grid = 1 / 910, 0.6, np.linspace(-15, 10, 50_001)
    density, atom = np.zeros_like(grid), 0.0
    for others in range(12):
        for own in (0, 1):
            chance = stats.binom.pmf(others, 454, rate) * stats.binom.pmf(own, 1, rate)
            draws = others + own if per_row else 1
            if draws == 0:
                atom += chance
                continue
            centre = own * target - others
            density += chance * stats.norm.pdf(grid, centre, sigma * math.sqrt(draws))
    return density * (grid[1] - grid[0]), atom


def test_exact_loss_of_one_step() -> None:
    """By integration, with one row's gradient turned round: 5.07 as printed, ours as claimed."""

    def delta(eps: float, per_row: bool) -> float:
        (p, p_atom), (q, q_atom) = (law_of_step(target, per_row) for target in (1.0, -1.0))
        excess = np.maximum(p - math.exp(eps) * q, 0).sum()
        return float(excess + max(p_atom - math.exp(eps) * q_atom, 0.0))

    cost = SubsampledGaussian(noise_multiplier=0.6, rate=1 / 910, steps=1)
    claimed = {
        n: compose([Charge(mechanism="step", neighbours=n, cost=cost)], 1e-5, n).eps
        for n in Neighbours
    }
    assert claimed[Neighbours.ADD_REMOVE] == pytest.approx(0.114, abs=1e-3)
    assert delta(5.0, per_row=True) > 1e-5 > delta(5.1, per_row=True)
    assert delta(claimed[Neighbours.REPLACE], per_row=False) < 1e-5


def delta_at(cost: SubsampledGaussian, eps: float) -> float:
    """The delta at which a cost's eps is the given one."""
    charge, low, high = Charge(mechanism="audit", cost=cost), 1e-9, 0.4
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if compose([charge], middle).eps > eps else (low, middle)
    return high


# -- accounting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("neighbours", "rate", "steps"),
    [("add-remove", 0.1, 100), ("add-remove", 1.0, 30), ("replace", 0.02, 50)],
)
def test_the_noise_found_fits_the_budget_and_hardly_more(neighbours, rate, steps) -> None:
    neighbours = Neighbours(neighbours)
    found = find_noise_multiplier(0.8, 1e-9, neighbours, rate, steps)

    def eps(multiplier: float) -> float:
        cost = SubsampledGaussian(noise_multiplier=multiplier, rate=rate, steps=steps)
        charge = Charge(mechanism="test", neighbours=neighbours, cost=cost)
        return compose([charge], 1e-9, neighbours).eps

    assert eps(found) <= 0.8
    assert eps(found / 1.01) > 0.8


def test_full_lots_are_plain_gaussians() -> None:
    found = find_noise_multiplier(1.0, 1e-9, Neighbours.ADD_REMOVE, 1.0, 50)
    assert found == pytest.approx(math.sqrt(50 / (2 * rho_of(1.0, 1e-9))), rel=0.003)


def test_replacing_a_row_takes_more_noise() -> None:
    add, replace = (find_noise_multiplier(0.8, 1e-9, n, 0.02, 50) for n in Neighbours)
    assert replace > 1.3 * add


def test_an_impossible_budget_is_refused() -> None:
    for rate in (1.0, 0.5):
        with pytest.raises(UsageError, match="no practical noise"):
            find_noise_multiplier(1e-6, 1e-9, Neighbours.ADD_REMOVE, rate, 100)


# -- the plugin -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"rate": 0.0},
        {"rate": 1.5},
        {"hidden": ()},
        {"hidden": (0,)},
        {"clip_norm": 0.0},
        {"learning_rate": -1.0},
        {"hidden": (2000,)},
        {"hidden": (4,) * 9},
        {"hidden": (4.5,)},
        {"clip_norm": math.nan},
        {"clip_norm": 1e9},
        {"learning_rate": math.inf},
        {"learning_rate": 1e3},
        {"steps": 10**6},
        {"steps": 2.5},
    ],
    ids=str,
)
def test_strange_knobs_are_refused(options) -> None:
    with pytest.raises(UsageError, match="must"):
        DpMlpConfig(**options)


def test_what_is_noise_alone_is_shrunk_away() -> None:
    assert [signal_share(*own)[0] for own in ((0.3, 0.4), (0.0, 0.0), (2.0, 1.0))] == [0, 0, 0.75]
    # Signal and noise of known spreads: no other factor comes nearer to the signal.
    rng = np.random.default_rng(0)
    signal, noise = rng.normal(0, 2.0, 50_000), rng.normal(0, 1.0, 50_000)
    share, _ = signal_share(float(np.std(signal + noise)), 1.0)
    errors = [np.mean((k * (signal + noise) - signal) ** 2) for k in (share - 0.05, share, 1.0)]
    assert errors[1] < errors[0]
    assert errors[1] < errors[2]


def test_rehearsal_measures_noise_alone() -> None:
    frame = example_frame(150)
    target = Target(frame=frame, schema=example_schema(), rows=150.0)
    config = DpMlpConfig(target="rows", steps=60, hidden=(4,), rate=1.0)
    silent = SimpleNamespace(report=lambda *a, **k: None)
    found = [
        config.configure(target, Budget.of_rho(rho)).rehearse(SeededNoise(1), progress=silent)
        for rho in (1e-4, 10.0)
    ]
    assert 0 < found[1] < found[0]
