"""Mechanisms that draw for private rows from the stream for post-processing are caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from marginalsyn import Charge
from marginalsyn.contract import Model, Synthesis, option
from marginalsyn.errors import UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.plugins.audit.testkit.generators import GENERATOR_CHECKS, check_streams
from marginalsyn.plugins.audit.testkit.tape import Tape, WatchedStream, check_generator_on_tape
from marginalsyn.plugins.audit.testkit.weights import WEIGHT_CHECKS, check_weight_streams
from marginalsyn.plugins.points.support_points import SupportPointsConfig
from marginalsyn.plugins.weights.beta_noised import BetaNoisedConfig
from marginalsyn.privacy.charges import Pure
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.noise import SeededNoise

PARTS = 3


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    """A third party's generator; ``way`` says what it draws from, right or wrong."""

    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "draws of its own"
    way: str = option("key", "What the draws come from.")
    rows: int | None = option(10, "Rows.")

    def configure(self, schema: Any, budget: Any) -> Any:
        return Own(self, schema, budget)

    sample = IndependentConfig.sample


@dataclass(frozen=True)
class Own:
    config: OwnConfig
    schema: Any
    budget: Any

    @property
    def cost(self) -> list[Charge]:
        pure = Pure(eps=self.budget.eps)
        return [Charge(mechanism="own", neighbours=self.budget.neighbours, cost=pure)]

    def __call__(self, visit: Any, *, progress: Any) -> Synthesis:
        eps, l1, names = self.budget.eps / 2, self.budget.neighbours.l1, self.schema.names
        scale = l1 * len(names) / eps
        noisy = {
            name: visit.draw(DiscreteLaplace(scale), visit.counts([name]), l1=l1) for name in names
        }
        if self.config.way in ("post", "post child", "key"):
            parts = np.bincount(self._owners(visit), minlength=PARTS)
            visit.draw(DiscreteLaplace(l1 / eps), parts, l1=l1)
        else:
            visit.pay("walk", eps=eps)
            stream = visit.noise.secret() if self.config.way == "secret walk" else visit.noise.post
            stream.random(100)
        arrays = {name: project_to_simplex(counts) for name, counts in noisy.items()}
        model = Model(kind="independent", arrays=arrays, meta={"rows": 10})
        frame = IndependentConfig.sample(model, self.schema, 10, visit.noise.post)
        return Synthesis(frame=frame, model=model)

    def _owners(self, visit: Any) -> np.ndarray:
        codes = visit.all_rows().values
        if self.config.way == "key":
            marks = visit.noise.key().marks(codes.astype(np.uint64), np.zeros(len(codes)))
            return np.random.default_rng(0).permutation(PARTS)[marks % PARTS]
        stream = visit.noise.post
        if self.config.way == "post child":
            stream = stream.spawn(1)[0]
        return stream.integers(0, PARTS, len(codes))


@pytest.mark.parametrize("way", ["key", "secret walk"])
def test_sound_draws_pass(way: str) -> None:
    check_streams(OwnConfig, {"way": way})


@pytest.mark.parametrize("way", ["post", "post child"])
def test_rows_dealt_by_the_public_stream_are_caught(way: str) -> None:
    with pytest.raises(AssertionError, match=r"noise\.post must not be drawn from"):
        check_streams(OwnConfig, {"way": way})
    with pytest.raises(AssertionError, match=r"noise\.post must not be drawn from"):
        check_generator_on_tape(OwnConfig, {"way": way}, pair="a strange row")


def test_a_walk_by_the_public_stream_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"must take them from noise\.secret"):
        check_streams(OwnConfig, {"way": "post walk"})


def test_support_points_refuse_the_public_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mechanism itself, and with it the check."""
    options = {"rows": 20, "points": 3, "steps": 10, "burn": 2}
    check_streams(SupportPointsConfig, options)
    monkeypatch.setattr(Tape, "secret", lambda self: self.post)
    with pytest.raises(AssertionError, match="must be a SecretStream"):
        check_streams(SupportPointsConfig, options)


def test_an_estimator_that_draws_for_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.weights import coefficients

    check_weight_streams(BetaNoisedConfig)
    original = coefficients.CoefficientNoise.add

    def careless(self: Any, visit: Any, *args: Any, **how: Any) -> Any:
        visit.noise.post.random(len(visit.all_rows().values))
        return original(self, visit, *args, **how)

    monkeypatch.setattr(coefficients.CoefficientNoise, "add", careless)
    with pytest.raises(AssertionError, match=r"noise\.post must not be drawn from"):
        check_weight_streams(BetaNoisedConfig)


def test_a_watched_stream_sees_every_draw() -> None:
    stream = WatchedStream(SeededNoise(1).post.bit_generator)
    seen = [stream.drawn]
    child = stream.spawn(1)[0]
    for draw in (stream.random, child.spawn(1)[0].random, child.random):
        seen.append(stream.drawn)
        draw()
    seen.append(stream.drawn)
    assert len(set(seen)) == len(seen)


def test_the_kit_holds_the_checks() -> None:
    assert check_streams in GENERATOR_CHECKS
    assert check_weight_streams in WEIGHT_CHECKS
    with pytest.raises(UsageError):
        SupportPointsConfig(points=0)
