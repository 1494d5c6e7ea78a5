"""The host of weight estimators: what it refuses, what survives a failure, who is found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from marginalsyn import Budget, Charge, Ledger, Neighbours, PrivateTable, Schema, make_noise
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import LogWeights, Plan, Target, make_weights, option
from marginalsyn.errors import (
    BudgetError,
    Interrupted,
    MissingExtraError,
    PluginError,
    ReleaseError,
    SchemaError,
    UsageError,
)
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import generate, weigh
from marginalsyn.operations.other_rows import FOREIGN
from marginalsyn.operations.other_rows import adopt_rows as adopt
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.audit.testkit.weights import WEIGHT_CHECKS, weight_run
from marginalsyn.plugins.research.moment_certificate import certify_release
from marginalsyn.plugins.weights.none import NoneConfig
from marginalsyn.privacy.charges import Pure, SubsampledGaussian
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.weights.columns import publish, share_of
from marginalsyn.weights.processing import Processing


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    """The noisy marginal of one column over the synthetic one: the simplest honest estimator."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "ratio of one column's marginals"
    reference: ClassVar[str] = "nobody"
    private: ClassVar[bool] = True

    column: str = option("", "The column; the first if empty.")
    behave: str = option("well", "How to fail.")

    def configure(self, target, budget):
        return Toy(config=self, target=target, budget=budget)


@dataclass(frozen=True, kw_only=True)
class Toy:
    config: ToyConfig
    target: Target
    budget: Budget

    @property
    def cost(self):
        eps = self.budget.pure * (3 if self.config.behave == "greedy" else 1)
        other = Neighbours.REPLACE if self.config.behave == "strange" else self.budget.neighbours
        return (Charge(mechanism="laplace", cost=Pure(eps=eps), neighbours=other),)

    @property
    def plan(self):
        return Plan(facts={"cells": 1})

    def __call__(self, rows, *, progress):
        if self.config.behave == "stop":
            raise KeyboardInterrupt
        if self.config.behave == "crash":
            raise ValueError("a private value: 42")
        name = self.config.column or self.target.schema.names[0]
        position = self.target.schema.names.index(name)
        l1 = self.budget.neighbours.l1
        scale = np.nextafter(l1 / self.budget.pure, np.inf)
        real = rows.draw(DiscreteLaplace(scale), rows.counts((name,)), l1=l1)
        codes = rows.codec.encode(self.target.frame)[:, position]
        synthetic = np.bincount(codes, minlength=real.size)
        ratio = np.log(np.maximum(real, 1.0)) - np.log(np.maximum(synthetic, 1.0))
        values = ratio[codes]
        if self.config.behave == "short":
            values = values[:-1]
        if self.config.behave == "nan":
            values = values * np.nan
        return LogWeights(values=values)


@pytest.fixture
def table() -> PrivateTable:
    return PrivateTable.open(example_frame(200), example_schema(), ledger=Ledger(None))


@pytest.fixture
def release(table, tmp_path) -> Release:
    synthesis, statement = generate(
        table, IndependentConfig(rows=120), Budget(eps=2), noise=make_noise(1)
    )
    return Release.write(synthesis, table.schema, statement, tmp_path / "release")


BUDGET = Budget(eps=0.5)


def run(release, table, config=None, **how):
    given = {"noise": make_noise(2), **how}
    return weigh(release, config or ToyConfig(), BUDGET, table, **given)


# -- the good case --------------------------------------------------------------------------------


def test_weights_are_a_new_charge_of_the_release_and_of_the_source(release, table) -> None:
    before = release.statement.total()
    done = publish(release, run(release, table), noise=make_noise(2))
    assert [c.mechanism for c in done.statement.charges] == ["rounded Gaussian", "laplace"]
    assert list(done.statement.charges) == list(table.ledger.read().charges)
    assert before.eps < done.statement.eps < before.eps + 0.5 + 1e-9
    assert verify(done.path) == []
    told = done.statement.notes["weights"]["toy"]
    assert told["method"] == "toy"
    assert told["cost"] == ["laplace: pure eps 0.5"]
    assert told["diagnostics"]["rows"] == 120
    assert done.statement.notes["total_before_weights"] == pytest.approx([before.eps, 1e-9])


def test_weights_correct_what_they_measure(table, tmp_path) -> None:
    skewed = example_frame(4000, seed=3)
    skewed = skewed[(skewed["age"] > 50) | (np.arange(4000) % 4 == 0)]
    source = PrivateTable.open(skewed, example_schema(), ledger=Ledger(None))
    synthesis, statement = generate(
        table, IndependentConfig(rows=3000), Budget(eps=4), noise=make_noise(1)
    )
    release = Release.write(synthesis, table.schema, statement, tmp_path / "r")
    weights = run(release, source, ToyConfig(column="age")).weights
    ages = release.frame()["age"].to_numpy()
    truth = skewed["age"].mean()
    assert abs(np.average(ages, weights=weights) - truth) < abs(ages.mean() - truth) / 4


# -- shares ---------------------------------------------------------------------------------------


def test_a_share_is_of_what_was_spent_before_any_weights(release, table) -> None:
    first = share_of(release, 0.1)
    assert first.mu**2 == pytest.approx(0.1 * mu_of(release.statement.eps, 1e-9) ** 2)
    assert first.pure == pytest.approx((2 * first.rho) ** 0.5)
    later = publish(release, run(release, table))
    assert share_of(later, 0.1) == first
    capped = share_of(later, 0.5, cap=(1.0, 1e-9))
    assert capped.mu**2 == pytest.approx(0.5 * mu_of(1.0, 1e-9) ** 2)
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(UsageError, match="share"):
            share_of(release, share, cap=(1.0, 1e-9))


def test_total_grows_alike_for_pure_and_concentrated_mechanisms(release, table) -> None:
    totals = []
    for noise in ("gaussian", "gamma"):
        config = make_weights("beta-noised", {"noise": noise})
        weighted = weigh(release, config, share_of(release, 0.1), table, noise=make_noise(1))
        totals.append(
            release.statement.extended(charges=weighted.charges).eps / release.statement.eps
        )
    assert totals == pytest.approx([1.05, 1.05], abs=0.015)


# -- refusals -------------------------------------------------------------------------------------


def test_a_second_column_of_a_name_is_refused_before_anything_is_spent(release, table) -> None:
    done = publish(release, run(release, table))
    with pytest.raises(UsageError, match="--force"):
        run(done, table)
    assert len(table.ledger.read().charges) == 2
    again = publish(done, run(done, table, force=True))
    assert list(again.weights()) == ["toy"]
    assert len(again.statement.charges) == len(table.ledger.read().charges) == 3


@pytest.mark.parametrize("name", ["a.log", "with space", "x" * 65, "-x", "ü"])
def test_strange_names_are_refused(release, table, name) -> None:
    with pytest.raises(UsageError, match="name"):
        run(release, table, name=name)


def test_what_is_not_private_needs_to_be_asked_for_and_stays_out(release, table) -> None:
    config = make_weights("logreg")
    with pytest.raises(UsageError, match="has no privacy protection"):
        run(release, table, config)
    weighted = run(release, table, config, non_private=True)
    assert not weighted.private
    assert len(table.ledger.read().charges) == 1
    with pytest.raises(PluginError, match="must not be written into a release"):
        publish(release, weighted)


@pytest.mark.parametrize(("behave", "text"), [("greedy", "at most"), ("strange", "must charge")])
def test_an_estimator_that_asks_for_more_is_not_run(release, table, behave, text) -> None:
    with pytest.raises(PluginError, match=text):
        run(release, table, ToyConfig(behave=behave))
    assert len(table.ledger.read().charges) == 1


def test_the_cap_is_respected(release, table) -> None:
    table.ledger.set_cap(eps=2.1)
    with pytest.raises(BudgetError, match="cap"):
        run(release, table)


def test_calibration_without_public_rows_or_a_score_is_refused(release, table) -> None:
    steps = Processing(calibrate="beta")
    with pytest.raises(UsageError, match="--public"):
        run(release, table, processing=steps)
    with pytest.raises(UsageError, match="cannot"):
        run(release, table, processing=steps, public=example_frame(50))
    with pytest.raises(UsageError, match="up to a constant"):
        run(release, table, processing=Processing(normalise=False))
    assert len(table.ledger.read().charges) == 1
    public = table.codec.conform(example_frame(300, seed=9))
    config = make_weights("beta-noised")
    weighted = run(release, table, config, processing=steps, public=public)
    assert np.isfinite(weighted.weights).all()
    assert weighted.facts["processing"]["calibrate"] == "beta"


def test_a_table_is_needed_and_must_be_the_schemas(release, table) -> None:
    with pytest.raises(UsageError, match="--data"):
        run(release, None)
    other = PrivateTable.open(example_frame(9)[["age"]], example_schema().select(["age"]))
    with pytest.raises(UsageError, match="that of the release"):
        run(release, other)
    assert run(release, None, NoneConfig()).charges == ()


def test_a_drafted_schema_is_refused_like_anywhere(table, tmp_path) -> None:
    drafted = Schema(columns=table.schema.columns, drafted_from_data=True)
    source = PrivateTable.open(example_frame(50), drafted)
    synthesis, statement = generate(
        source,
        IndependentConfig(rows=9),
        Budget(eps=1),
        noise=make_noise(1),
        accept_nonprivate_schema=True,
    )
    release = Release.write(synthesis, drafted, statement, tmp_path / "drafted")
    with pytest.raises(SchemaError, match="drafted"):
        run(release, source)
    assert run(release, source, accept_nonprivate_schema=True).weights.size == 9


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behave", "error", "text"),
    [
        ("short", PluginError, "finite log-weights"),
        ("nan", PluginError, "finite log-weights"),
        ("crash", PluginError, r"failed \(ValueError\)"),
        ("stop", Interrupted, "stopped"),
    ],
)
def test_a_failure_says_what_was_spent_and_writes_nothing(
    release, table, behave, error, text
) -> None:
    before = {p.name: p.read_bytes() for p in release.path.iterdir()}
    with pytest.raises(error, match=text) as caught:
        run(release, table, ToyConfig(behave=behave))
    assert "The ledger was charged eps=0.5, delta=0; that stands." in str(caught.value)
    assert "42" not in str(caught.value)
    assert len(table.ledger.read().charges) == 2
    assert {p.name: p.read_bytes() for p in release.path.iterdir()} == before


def test_a_library_that_does_not_load_costs_nothing(release, table, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(MissingExtraError, match=r"marginalsyn\[tensorflow\]"):
        run(release, table, make_weights("dp-mlp", {"engine": "tensorflow-privacy"}))
    assert len(table.ledger.read().charges) == 1  # the release's own


def test_rows_that_were_replaced_meanwhile_are_not_given_other_rows_weights(release, table) -> None:
    weighted = run(release, table)
    synthesis, statement = generate(
        table, IndependentConfig(rows=120), Budget(eps=2), noise=make_noise(7)
    )
    Release.write(synthesis, table.schema, statement, release.path, force=True)
    with pytest.raises(ReleaseError, match="replaced meanwhile"):
        publish(release, weighted)


def test_a_kill_while_writing_leaves_the_release_as_it_was(release, table, monkeypatch) -> None:
    weighted = run(release, table)
    from marginalsyn.release import staging as folders

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "write_bytes", fail)
    with pytest.raises(ReleaseError, match="disk is full"):
        publish(release, weighted)
    monkeypatch.undo()
    assert verify(release.path) == []
    assert Release.read(release.path).weights() is None
    assert list(Path(release.path).parent.iterdir()) == [release.path]


# -- rows of other tools --------------------------------------------------------------------------


def test_rows_of_another_tool_become_a_release_that_says_so(table, tmp_path) -> None:
    frame = table.codec.conform(example_frame(80, seed=5))
    release = adopt(frame, table.schema, tmp_path / "foreign")
    assert release.statement.eps == 0
    assert FOREIGN in release.statement.warnings
    with pytest.raises(UsageError, match="nothing was spent on these rows"):
        share_of(release, 0.1)
    done = publish(release, run(release, table))
    assert done.statement.eps == pytest.approx(0.5)
    assert verify(done.path) == []


def test_a_release_without_rows_gets_no_weights(table, tmp_path) -> None:
    release = adopt(table.codec.empty(), table.schema, tmp_path / "empty")
    done = publish(release, run(release, table, make_weights("beta-noised")))
    assert len(done.weights()) == 0
    assert verify(done.path) == []


# -- the relation ---------------------------------------------------------------------------------


def test_replace_uses_its_own_sensitivities(table, tmp_path) -> None:
    scales = []
    for neighbours in Neighbours:
        with weight_run(
            find(WEIGHTS, "beta-noised"),
            example_frame(100),
            example_schema(),
            options={"penalty": 5.0, "noise": "gamma"},
            neighbours=neighbours,
        ) as done:
            scales.append(done.weighted.facts["notes"]["noise_scale"])
            assert done.published.statement.neighbours is neighbours
    assert scales[1] > scales[0]


def test_another_split_than_the_releases_is_refused_before_anything_is_spent(tmp_path) -> None:
    """Under replace, a statement is for the rows that are not held out."""
    how = {"neighbours": "replace", "ledger": Ledger(None)}
    table = PrivateTable.open(example_frame(200), example_schema(), holdout=0.5, **how)
    budget = Budget(eps=2, neighbours=Neighbours.REPLACE)
    made, told = generate(table, IndependentConfig(rows=9), budget, noise=make_noise(1))
    release = Release.write(made, table.schema, told, tmp_path / "release")
    spent = len(table.ledger.read().charges)
    whole = PrivateTable.open(example_frame(200), example_schema(), **how)
    for call in (
        lambda: run(release, whole),
        lambda: certify_release(whole, release, budget, noise=make_noise(1)),
    ):
        with pytest.raises(UsageError, match="which rows the promise is for"):
            call()
    assert len(table.ledger.read().charges) == spent


def test_subsampled_weights_compose_with_the_release(release, table) -> None:
    config = make_weights("dp-mlp", {"target": "rows", "steps": 2, "hidden": (2,)})
    weighted = weigh(release, config, share_of(release, 0.1), table, noise=make_noise(1))
    done = publish(release, weighted, noise=make_noise(1))
    assert isinstance(done.statement.charges[1].cost, SubsampledGaussian)
    assert 1.0 < done.statement.eps / release.statement.eps < 1.1
    assert verify(done.path) == []


# -- third parties --------------------------------------------------------------------------------


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Install a made-up package that offers this module's toys, without installing anything."""
    home = tmp_path / "site"
    info = home / "toys-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{WEIGHTS}]\ntoy = toy_package:ToyConfig\n"
        f"[{GENERATORS}]\ntoy-scored = toy_package:ScoredConfig\n"
        "toy-critic = toy_package:CriticConfig\n"
    )
    monkeypatch.syspath_prepend(str(home))
    module = type(sys)("toy_package")
    module.ToyConfig, module.ScoredConfig, module.CriticConfig = (  # type: ignore[attr-defined]
        ToyConfig,
        ScoredConfig,
        CriticConfig,
    )
    monkeypatch.setitem(sys.modules, "toy_package", module)


class ScoredConfig(IndependentConfig):
    """A generator whose releases carry a scorer: the age's code."""

    name: ClassVar[str] = "toy-scored"
    scores: ClassVar[str] = "log-odds"

    def configure(self, schema, budget):
        from dataclasses import replace

        made = super().configure(schema, budget)
        return replace(made, config=self)

    @classmethod
    def score(cls, model, schema, frame):
        from marginalsyn.table.codec import Codec

        assert model.kind == cls.name
        return Codec(schema).encode(frame)[:, schema.names.index("age")] / 2


class CriticConfig(ScoredConfig):
    name: ClassVar[str] = "toy-critic"
    scores: ClassVar[str] = "critic"


def test_a_third_partys_estimator_is_found_listed_and_run(
    distribution, release, table, capsys
) -> None:
    found = next(plugin for plugin in plugins(WEIGHTS) if plugin.name == "toy")
    assert (found.distribution, found.version, found.status) == ("toys", "1.0", "ok")
    assert found.summary == "ratio of one column's marginals"
    config = make_weights("toy", {"column": "grade"})
    done = publish(release, run(release, table, config))
    assert list(done.weights()) == ["toy"]
    with pytest.raises(UsageError, match="did you mean 'column'"):
        make_weights("toy", {"colum": "grade"})


@pytest.mark.parametrize(
    ("behave", "check"), [("nan", 3), ("greedy", 1), ("crash", 4)], ids=["nan", "greedy", "crash"]
)
def test_the_test_kit_refuses_what_breaks_the_contract(behave, check) -> None:
    with pytest.raises((PluginError, AssertionError)):
        WEIGHT_CHECKS[check](ToyConfig, {"behave": behave})


def test_a_releases_own_scorer_gives_weights_for_nothing(distribution) -> None:
    kind = find(WEIGHTS, "discriminator")
    for check in WEIGHT_CHECKS:
        check(kind, generator=ScoredConfig)
    frame, schema = example_frame(100), example_schema()
    with weight_run(kind, frame, schema, generator=ScoredConfig) as done:
        codes = done.published.schema
        assert done.published.statement.charges == done.release.statement.charges
        assert np.allclose(
            done.weighted.log_weights,
            ScoredConfig.score(done.release.model(), codes, done.release.frame()),
        )
        assert not done.weighted.warnings
        assert "post-processing" in done.weighted.facts["notes"]["charged"]


def test_a_critic_is_refused_until_public_rows_calibrate_it(distribution, tmp_path) -> None:
    frame, schema = example_frame(300), example_schema()
    table = PrivateTable.open(frame, schema)
    synthesis, statement = generate(table, CriticConfig(), Budget(eps=4), noise=make_noise(0))
    release = Release.write(synthesis, schema, statement, tmp_path / "release")
    config = make_weights("discriminator")
    with pytest.raises(UsageError, match="--loss non-saturating"):
        run(release, None, config)
    budget = Budget(eps=1)
    assert "no log-odds" in config.configure(Target.of(release), budget).plan.warnings[0]
    rising = Processing(calibrate="isotonic")
    done = run(release, None, config, processing=rising, public=example_frame(300, seed=1))
    assert not done.charges
    assert done.facts["notes"]["scores"] == "critic"
    # The calibrated weights rise with the critic.
    order = np.argsort(done.log_weights, kind="stable")
    assert (np.diff(np.asarray(done.weights)[order]) >= -1e-9).all()


def test_a_release_without_a_scorer_is_refused(release) -> None:
    with pytest.raises(UsageError, match="carry a scorer"):
        run(release, None, make_weights("discriminator"))


def test_who_charges_nothing_sees_no_private_row(release, table, monkeypatch) -> None:
    from marginalsyn.plugins.weights.none import Unweighted

    seen, original = [], Unweighted.__call__

    def spy(self, rows, *, progress):
        seen.append(rows)
        return original(self, rows, progress=progress)

    monkeypatch.setattr(Unweighted, "__call__", spy)
    weigh(release, make_weights("none"), BUDGET, table, noise=make_noise(1))
    assert seen == [None]
