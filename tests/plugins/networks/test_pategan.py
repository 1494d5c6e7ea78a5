"""pategan: votes that one row can hardly change, noise that no vote decides, a fixed cost."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from marginalsyn import Budget, Charge, Ledger, Neighbours, PrivateTable
from marginalsyn.contract import Model, Target
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.networks.discriminator import DiscriminatorConfig
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.plugins.networks.pategan import (
    FeatureSpace,
    PATEGANConfig,
    RandomFeatures,
    Student,
    Teachers,
    deal_rows,
    vote_reach,
)
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.noise import SecureNoise, SeededNoise
from marginalsyn.privacy.streams import Key
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.table.codec import Codec

ALPHA = 1e-6
QUICK = {"rounds": 4, "queries": 60, "features": 16, "moves": 2, "generator_hidden": (8,)}


def vectors(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 5))


RNG = np.random.default_rng(0)
FEATURES = RandomFeatures.draw(5, 12, np.random.default_rng(1))
FAKES = FEATURES(vectors(500, 2))
SPACE = FeatureSpace.of(FAKES)


def votes(rows: np.ndarray, owners: np.ndarray, teachers: int = 7) -> np.ndarray:
    made = Teachers.train([(rows, owners)], FEATURES, teachers)
    return made.votes(SPACE, FAKES[:200])


HEADS = Heads(example_schema())
KEYED = RandomFeatures.draw(HEADS.width, 12, np.random.default_rng(1))
DRAWN = KEYED(HEADS.rows(Codec(example_schema()).encode(example_frame(700)), RNG))
NEAR = FeatureSpace.of(DRAWN[:500])


def deal(codes: np.ndarray, key: Key, teachers: int = 7) -> list[tuple[np.ndarray, np.ndarray]]:
    """Vectors and owners of the rows, as a run makes them."""
    return list(deal_rows(codes, HEADS, teachers, key))


def keyed_votes(codes: np.ndarray, key: Key) -> np.ndarray:
    return Teachers.train(deal(codes, key), KEYED, 7).votes(NEAR, DRAWN[500:])


# -- who sees a row -------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_for_every_key_one_row_moves_votes_by_at_most_the_claim(neighbours) -> None:
    """Whichever row it is, wherever it stands, with and without rows that equal it."""
    rng, codec = np.random.default_rng(3), Codec(example_schema())
    pool, most, largest = codec.encode(example_frame(3000)), int(neighbours.l1), 0
    for trial in range(60):
        key, codes = SeededNoise(trial).key(), pool[rng.integers(0, 3000, 20)]
        codes[rng.integers(20)] = codes[0]
        place = int(rng.integers(20))
        after = np.delete(codes, place, 0)
        if neighbours is Neighbours.REPLACE:
            other = pool[rng.integers(3000)][None, :]
            after = np.insert(after, int(rng.integers(20)), other, axis=0)
        moved = keyed_votes(codes, key) - keyed_votes(after, key)
        assert np.abs(moved).max() <= most
        # Of all queries, and of those alone that are moved furthest.
        worst = moved[np.abs(moved) == np.abs(moved).max()]
        for some in (moved, worst):
            assert np.linalg.norm(some) <= vote_reach(some.size, neighbours) * (1 + 1e-12)
        largest = max(largest, int(np.abs(moved).max()))
    assert largest == most


def test_one_row_less_leaves_all_others_where_they_are() -> None:
    """Owner and vector of every other row are the same to the bit, up to the order of rows."""
    key, codes = SeededNoise(1).key(), Codec(example_schema()).encode(example_frame(300))
    codes = np.concatenate([codes, codes[:100]])

    def known(rows: np.ndarray) -> Counter:
        return Counter(
            (int(owner), vector.tobytes())
            for vectors, owners in deal(rows, key, 50)
            for vector, owner in zip(vectors, owners, strict=True)
        )

    whole = known(codes)
    for gone in (0, 150, 399):
        less = known(np.delete(codes, gone, 0))
        assert not less - whole
        assert sum((whole - less).values()) == 1


def test_a_row_s_features_do_not_depend_on_its_batch() -> None:
    """To the bit: matrix products in floating point may round by a row's place in a block."""
    vectors, features = HEADS.rows(Codec(example_schema()).encode(example_frame(50)), RNG), KEYED
    alone = np.concatenate([features(vectors[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(features(vectors), alone)
    assert np.abs(features.kernel).max() <= 16
    scaled = features.kernel * 2.0**20
    np.testing.assert_array_equal(scaled, np.rint(scaled))


@pytest.mark.parametrize("key", [RNG, SecureNoise().post, None], ids=["seeded", "post", "none"])
def test_teachers_are_dealt_by_a_key_only(key) -> None:
    with pytest.raises(UsageError, match="must be a Key"):
        deal(np.zeros((3, len(HEADS.sizes)), dtype=np.int32), key)


def test_rows_find_their_teachers_each_on_its_own() -> None:
    teachers, runs = 5, 400
    codes = np.zeros((6, len(HEADS.sizes)), dtype=np.int32)  # equal rows, too
    noise = SeededNoise(4)
    made = [Teachers.train(deal(codes, noise.key(), 5), KEYED, 5).rows for _ in range(runs)]
    counts = np.bincount(np.array(made, dtype=int).ravel(), minlength=7)
    # Binomial(6, 1/5), not a deal of equal hands.
    expected = stats.binom.pmf(np.arange(7), 6, 1 / teachers) * runs * teachers
    assert (np.abs(counts - expected) < 7 * np.sqrt(expected) + 7).all()


def test_teachers_do_not_depend_on_the_order_of_rows() -> None:
    rows, owners = vectors(5000), np.random.default_rng(6).integers(0, 3, 5000)
    other = np.random.default_rng(7).permutation(5000)
    one = Teachers.train([(rows, owners)], FEATURES, 3)
    two = Teachers.train([(rows[other], owners[other])], FEATURES, 3)
    # To the bit: sums of floats would differ.
    np.testing.assert_array_equal(one.means, two.means)


# -- the noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(5)], ids=["secure", "seeded"])
def test_noisy_votes_have_their_exact_probabilities(noise) -> None:
    """The law of a noisy count, and of the majority that it shows, summed term by term."""
    sigma, queries, count, teachers = 1.7, 20_000, 6, 10
    table = PrivateTable.open(example_frame(5), example_schema(), ledger=Ledger(None))
    rho = gaussian_rho(sigma, vote_reach(queries))
    charge = Charge(mechanism="votes", cost=ZCDP(rho=rho))
    with table.charge([charge], noise=noise, delta=1e-9) as visit:
        given = np.full(queries, count, dtype=np.int64)
        noisy = visit.draw(DiscreteGaussian(sigma), given, l2=vote_reach(queries))
        assert visit.remaining <= 1e-9 * rho
    support = np.arange(-40, 41)
    law = np.exp(-(support**2) / (2 * sigma**2))
    law /= law.sum()
    most = 5
    ends = np.clip(support, -most, most) + most
    expected = np.bincount(ends, law, 2 * most + 1) * queries
    seen = np.bincount(np.clip(noisy - count, -most, most) + most, minlength=2 * most + 1)
    assert stats.chisquare(seen, expected).pvalue > ALPHA
    real = law[count + support > teachers / 2].sum()
    assert stats.binomtest(int((noisy > teachers / 2).sum()), queries, real).pvalue > ALPHA
    wrong = law[count + support >= teachers / 2].sum()
    assert stats.binomtest(int((noisy > teachers / 2).sum()), queries, wrong).pvalue < ALPHA


# -- the cost -------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_cost_is_fixed_before_training(neighbours) -> None:
    """Two tables as different as can be cost the same, paid in the same parts."""
    frame, schema = example_frame(60), example_schema()
    odd = frame.assign(age=99, grade=3, ill="yes")
    runs = [
        run_generator(
            PATEGANConfig, table, schema, options={**QUICK, "teachers": 9}, neighbours=neighbours
        )
        for table in (frame, odd)
    ]
    assert runs[0].statement.charges == runs[1].statement.charges
    told = [[(p["purpose"], p["rho"]) for p in run.statement.payments] for run in runs]
    assert told[0] == told[1]
    total = compose(list(runs[0].ledger.read().charges), 1e-9, neighbours)
    assert total.eps <= runs[0].statement.eps <= 1.0
    paid = sum(rho for _, rho in told[0])
    assert paid == pytest.approx(mu_of(1.0, 1e-9) ** 2 / 2)
    cast = [rho for purpose, rho in told[0] if purpose == "votes of the teachers"]
    assert len(cast) == QUICK["rounds"]
    sigma = PATEGANConfig(**QUICK).configure(schema, Budget(eps=1, neighbours=neighbours))
    reach = QUICK["queries"] * neighbours.l1**2
    assert sum(cast) == pytest.approx(reach / (2 * sigma.votes_sigma**2))


# -- teachers and student -------------------------------------------------------------------------


def test_the_student_learns_the_log_odds_from_votes() -> None:
    """Two normal samples a known distance apart: votes of few rows each tell the log-odds."""
    rng, width, shift = np.random.default_rng(6), 4, 0.8
    space = FeatureSpace.of(rng.normal(size=(20_000, width)))
    real = rng.normal(size=(4000, width))
    real[:, 0] += shift
    teachers, own = 800, 5
    made = Teachers(real.reshape(teachers, own, width).mean(axis=1), np.full(teachers, own))
    student = Student(teacher_rows=own, label_sd=0.02, memory=1.0, spread=2.0)
    for _ in range(4):
        asked = rng.normal(size=(300, width))
        shares = made.votes(space, asked) / teachers + rng.normal(0, 0.01, 300)
        student.learn(space, asked, shares)
    found = student.weights
    assert found[0] == pytest.approx(shift, rel=0.15)
    assert np.abs(found[1:]).max() < 0.15
    # The law that the fit rests on.
    far = np.eye(width)[:1] * 1.5
    expected = ndtr(math.sqrt(own) * shift)
    assert made.votes(space, far)[0] / teachers == pytest.approx(expected, abs=0.05)


# -- the release ----------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_release_gives_rows_and_weights(tmp_path) -> None:
    frame, schema = example_frame(80), example_schema()
    run = run_generator(PATEGANConfig, frame, schema, options=QUICK)
    release = Release.write(run.synthesis, schema, run.statement, tmp_path / "release")
    assert not any("teacher" in name for name in release.model().arrays)
    assert len(sample(release, 12, np.random.default_rng(0))) == 12
    target = Target.of(release)
    weights = DiscriminatorConfig().configure(target, Budget(eps=1))
    assert not weights.cost
    assert np.isfinite(weights(None, progress=None).values).all()  # type: ignore[arg-type]
    kept = {k: v for k, v in release.model().arrays.items() if not k.startswith("student")}
    with pytest.raises(ReleaseError, match="student"):
        PATEGANConfig.score(Model(kind="pategan", arrays=kept), schema, release.frame())


@pytest.mark.parametrize(
    "options",
    [
        {"queries": 0},
        {"queries": 5},
        {"rounds": 0},
        {"teachers": 0},
        {"features": 0},
        {"marginals": 0.0},
        {"generator_hidden": ()},
        {"generator_hidden": (4,) * 9},
        {"generator_rate": math.nan},
        {"teachers": 10**9},
        {"queries": 10**9},
        {"anchor": math.inf},
    ],
    ids=str,
)
def test_strange_knobs_are_refused(options) -> None:
    with pytest.raises(UsageError, match="must"):
        PATEGANConfig(**options)
