"""Every published number, down to its lowest bit, is a public function of whole-number answers.

For every registered method and every other command that asks private rows for something; see
:mod:`marginalsyn.plugins.audit.testkit.lowest_bits`. What the check takes for granted about the
noise itself is tested here as well: that every whole number can be an answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Ledger, Neighbours, PrivateTable
from marginalsyn.access.rows import PrivateRows
from marginalsyn.access.visit import Visit
from marginalsyn.certificates.measured import certify_measured
from marginalsyn.contract import LogWeights
from marginalsyn.generators.independent import Independent, IndependentConfig
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.lowest_bits import (
    ReplayedTape,
    check_bits,
    check_generator_bits,
    check_weight_bits,
)
from marginalsyn.plugins.audit.testkit.tape import RunOutput, run_on_tape, tape_schema
from marginalsyn.plugins.points.support_points import SupportPoints, SupportPointsConfig
from marginalsyn.plugins.research.moment_certificate import certify_release
from marginalsyn.plugins.weights.beta_noised import BetaNoisedConfig
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, Law, PoissonSample
from marginalsyn.privacy.noise import DRAWN, Noise, SecureNoise, SeededNoise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.purchases.bounds import Bins, Bounds
from marginalsyn.purchases.purchase import Purchase, buy
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.weights.coefficients import NoisyRegression

# Research without protection, and what needs a release of its own and asks nothing.
LEFT_OUT = {"logreg", "mlp", "discriminator"}
# Where a chain draws the output, rows enter by way of its odds: these are made even in its test.
CHAINS = {"support-points"}
OPTIONS: dict[str, dict[str, Any]] = {
    "support-points": {"rows": 20},
    "support-points-herding": {"rows": 20},
    "support-points-gp": {"rows": 20},
}


def cases(kind: str) -> Iterator[Any]:
    for plugin in plugins(kind):
        if plugin.name in LEFT_OUT or plugin.distribution != "marginalsyn":
            continue
        marks = [pytest.mark.slow] if "tensorflow" in plugin.requires else []
        if plugin.status == "missing":
            marks.append(pytest.mark.skip(reason=plugin.reason))
        yield pytest.param(plugin.name, marks=marks, id=plugin.name)


@pytest.mark.parametrize("name", list(cases(GENERATORS)))
def test_generators_publish_functions_of_integers(name: str, monkeypatch) -> None:
    if name in CHAINS:
        # With even odds every move is taken, and nothing else may depend on the rows.
        monkeypatch.setattr(SupportPoints, "coefficient", 0.0)
    check_generator_bits(find(GENERATORS, name), OPTIONS.get(name))


@pytest.mark.parametrize("name", list(cases(WEIGHTS)))
def test_estimators_publish_functions_of_integers(name: str) -> None:
    check_weight_bits(find(WEIGHTS, name), OPTIONS.get(name))


@pytest.mark.parametrize("law", ["gamma", "laplace", "gaussian"])
@pytest.mark.parametrize("name", ["beta-noised", "beta-debiased"])
def test_coefficients_are_functions_of_integers_under_every_law(name: str, law: str) -> None:
    check_weight_bits(find(WEIGHTS, name), {"noise": law}, pair="a replaced row")


# -- the other commands that pay (test_doors.py knows them all) ------------------------------------


def public_release(neighbours: Neighbours, folder: Path) -> Release:
    """A release of other rows."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 50),
            "income": rng.random(50) * 1000,
            "ward": rng.choice(["A", "B"], 50),
            "ill": rng.choice(["yes", "no"], 50),
        }
    )
    table = PrivateTable.open(frame, tape_schema(), neighbours=neighbours)
    budget = Budget(eps=4, neighbours=neighbours)
    synthesis, statement = generate(table, IndependentConfig(rows=40), budget, noise=SeededNoise(1))
    return Release.write(synthesis, tape_schema(), statement, folder)


def certified(
    kind: Any, knobs: Any, frame: pd.DataFrame, neighbours: Neighbours, tape: ReplayedTape
) -> RunOutput:
    def run(noise: Any, ledger: Ledger, listener: Any, folder: Path) -> Any:
        release = public_release(neighbours, folder)
        table = PrivateTable.open(frame, tape_schema(), ledger=ledger, neighbours=neighbours)
        budget = Budget(eps=1, neighbours=neighbours)
        certify_release(table, release, budget, noise=noise, progress=listener)
        certify_measured(table, release.reopen(), budget, noise=noise, progress=listener)
        assert (folder / "certificate.json").exists()
        assert (folder / "measured.json").exists()
        return ()

    return run_on_tape(run, tape)


def bought(
    kind: Any, knobs: Any, frame: pd.DataFrame, neighbours: Neighbours, tape: ReplayedTape
) -> RunOutput:
    def run(noise: Any, ledger: Ledger, listener: Any, folder: Path) -> Any:
        schema = tape_schema()
        given = {"schema": schema, "budget": Budget(eps=1, neighbours=neighbours)}
        asked: tuple[Purchase, ...] = (
            Bounds(**given, columns=["age"]),
            Bins(**given, columns=["age"], bins=3),
        )
        folder.mkdir()
        for one in asked:
            table = PrivateTable.open(frame, one.counted, ledger=ledger, neighbours=neighbours)
            found = buy(table, one, noise=noise)
            found.write(folder / f"{one.what}.json")
        return ()

    return run_on_tape(run, tape)


@pytest.mark.parametrize("run", [certified, bought])
@pytest.mark.parametrize("pair", ["a strange row", "a replaced row"])
def test_purchases_publish_functions_of_integers(run: Any, pair: str) -> None:
    check_bits(run, pair=pair)


# -- every whole number can be an answer ----------------------------------------------------------

NOISY = [DiscreteGaussian(1.5), DiscreteLaplace(1.5), KNorm(0.8), RoundedGaussian(1.5)]
# What a noise hands out that is no answer of whole numbers, and what holds of it instead.
OTHERS = {
    ExponentialMechanism: "an index: candidates that can be drawn are the same for both tables",
    PoissonSample: "positions: never published, and drawn before anything is read",
}
METHODS = {
    "draw": "from one of the laws",
    "key": "bounds hold for each fixed key",
    "secret": "moves of a chain",
    "answer": "the end of a chain, which the test of chains is about",
}


def test_every_law_and_method_of_a_noise_is_known() -> None:
    assert set(DRAWN) == {*map(type, NOISY), *OTHERS}
    methods = {n for n, v in vars(Noise).items() if callable(v) and not n.startswith("_")}
    assert methods == set(METHODS)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(5)], ids=["secure", "seeded"])
@pytest.mark.parametrize("law", NOISY, ids=lambda law: law.name)
def test_answers_are_whole_numbers_of_every_kind(law: Law, noise: Any) -> None:
    """Around either of two tables' values all whole numbers come, in all combinations."""
    reached = []
    for value in (0, 1):
        values = np.full((2,), value)
        found = [noise.draw(law, values) for _ in range(2500)]
        assert all(a.dtype == np.int64 and a.shape == (2,) for a in found)
        reached.append({tuple(a.tolist()) for a in found})
        assert {a[0] % 2 for a in reached[-1]} == {0, 1}
    # Rarest of these is a corner, at a hundredth of a percent and more of the draws each.
    near = {(a, b) for a in range(-1, 3) for b in range(-1, 3)}
    assert near <= reached[0] & reached[1]


@pytest.mark.parametrize("law", NOISY, ids=lambda law: law.name)
def test_questions_must_be_whole_numbers(law: Law) -> None:
    for noise in (SecureNoise(), SeededNoise(5)):
        with pytest.raises(ValueError, match="integers"):
            noise.draw(law, np.array([0.5]))
    with pytest.raises(AssertionError, match="whole numbers"):
        ReplayedTape().draw(law, np.array([0.5]))


# -- the check can fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["post", "secret", "own"])
def test_floating_point_noise_is_seen(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law is right and paid for, and the noise is the same under both tables."""

    def leaky(self: NoisyRegression, visit: Any, *, progress: Any) -> LogWeights:
        solution = self.regression.fit(visit)
        dim, scale = self.noise.dim, self.noise.l2 / self.noise.budget.pure
        visit.pay("k-norm", eps=self.noise.budget.pure, purpose="coefficients")
        streams = {"post": visit.noise.post, "own": np.random.default_rng(1)}
        rng = streams[stream] if stream in streams else visit.noise.secret()
        z = rng.standard_normal(dim)
        beta = solution.beta + z * (rng.gamma(dim, scale) / np.linalg.norm(z))
        return LogWeights(values=self.regression.log_odds(beta), notes=self.facts)

    monkeypatch.setattr(NoisyRegression, "__call__", leaky)
    with pytest.raises(AssertionError, match=r"must be the same|stream"):
        check_weight_bits(BetaNoisedConfig, {"noise": "gamma"})


LEAKS = {
    "a float sum": lambda visit: float(visit.all_rows().values.sum()) * 1e-3,
    "the last place of a number": lambda visit: 1.0 + 2.0**-52 * (int(visit.counts(())) % 2),
    "minus zero": lambda visit: -0.0 if int(visit.counts(())) % 2 else 0.0,
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_float_is_seen(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Independent.__call__

    def leaky(self: Independent, visit: Visit, *, progress: Any) -> Any:
        found = original(self, visit, progress=progress)
        return replace(found, notes={**found.notes, "planted": LEAKS[leak](visit)})

    check_generator_bits(IndependentConfig)
    monkeypatch.setattr(Independent, "__call__", leaky)
    with pytest.raises(AssertionError, match=r"privacy.json must be the same"):
        check_generator_bits(IndependentConfig)


def test_what_shows_beside_honest_answers_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that publishes an exact count where the noisy one is near it, as it mostly is."""
    original = Visit.measure

    def nearly(self: Visit, columns: Any, sigma: float, purpose: str = "") -> Any:
        found, exact = original(self, columns, sigma, purpose), self.counts(columns)
        near = np.abs(np.subtract(found.values, exact)).mean() < 1.5 * sigma
        return replace(found, values=exact) if near else found

    monkeypatch.setattr(Visit, "measure", nearly)
    with pytest.raises(AssertionError, match=r"must (be the same|not be drawn)"):
        check_generator_bits(IndependentConfig)


def test_saturation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PrivateRows.count

    def huge(self: PrivateRows, marginals: Any, maps: Any) -> Any:
        found = original(self, marginals, maps)
        return {key: counts + (np.iinfo(np.int64).max - 100) for key, counts in found.items()}

    monkeypatch.setattr(PrivateRows, "count", huge)
    with pytest.raises(AssertionError, match="saturate"):
        check_generator_bits(IndependentConfig, {"rows": 5})


def test_a_candidate_that_only_one_table_can_give_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Visit.draw

    def barred(self: Visit, law: Law, scores: np.ndarray, **how: Any) -> Any:
        points = np.array(scores, dtype=float)
        if int(self.counts(())) % 2:
            points[np.argsort(points)[:-1][:1]] = -math.inf
        return original(self, law, points, **how)

    monkeypatch.setattr(Visit, "draw", barred)
    with pytest.raises(AssertionError, match="must not depend on rows"):
        check_generator_bits(find(GENERATORS, "mst"))


def test_chains_let_rows_in_by_their_odds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test with even odds can fail: where a chain starts is published."""
    from marginalsyn.plugins.points import support_points as points

    original = points.run_chains

    def started(kernel: Any, *given: Any, **how: Any) -> Any:
        run = original(kernel, *given, **how)
        moved = [
            s._replace(points=np.clip(s.points + 1e-9 * kernel.law.columns.sum(), 0, 1))
            for s in run.states
        ]
        return run._replace(states=moved)

    monkeypatch.setattr(SupportPoints, "coefficient", 0.0)
    monkeypatch.setattr(points, "run_chains", started)
    with pytest.raises(AssertionError, match="must be the same"):
        check_generator_bits(SupportPointsConfig, OPTIONS["support-points"])
