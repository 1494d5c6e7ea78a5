"""The host: charge before anything is read, check what comes back, say what was spent."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Charge, Ledger, Neighbours, PrivateTable, make_noise
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import Synthesis
from marginalsyn.errors import (
    BudgetError,
    Interrupted,
    PluginError,
    ReleaseError,
    SchemaError,
    UsageError,
)
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample


@dataclass(frozen=True, kw_only=True)
class Puppet:
    """A generator that does what a test wants."""

    name: ClassVar[str] = "puppet"
    summary: ClassVar[str] = "does what a test wants"

    act: Any = None
    rho: float | None = None
    relation: str = "add-remove"
    exceeds_budget: bool = False

    def configure(self, schema, budget):
        return _Puppet(self, budget)

    @classmethod
    def sample(cls, model, schema, rows, rng):
        raise AssertionError("puppets keep no model")


class _Puppet:
    def __init__(self, config, budget):
        self.config = config
        rho = budget.rho if config.rho is None else config.rho
        relation = Neighbours(config.relation)
        self.cost = [Charge(mechanism="puppet", cost=ZCDP(rho=rho), neighbours=relation)]

    def __call__(self, visit, *, progress):
        return self.config.act(visit)


def run(config, *, ledger=None, frame=None, schema=None, seed=0, **options):
    table = PrivateTable.open(
        example_frame(30) if frame is None else frame, schema or example_schema(), ledger=ledger
    )
    return generate(table, config, Budget(eps=1), noise=make_noise(seed), **options)


def fine(visit):
    visit.measure(["age"], sigma=100.0)
    return Synthesis(frame=example_frame(5).astype(visit.codec.empty().dtypes))


def test_statement_and_ledger_agree():
    ledger = Ledger(None)
    synthesis, statement = run(IndependentConfig(rows=9), ledger=ledger)
    assert list(statement.charges) == ledger.read().charges
    assert statement.eps <= 1
    assert statement.generator == "independent"
    assert statement.parameters == {"rows": 9}
    assert ledger.read().entries[0].run == "independent"
    assert len(synthesis.frame) == 9


def test_run_time_is_a_diagnostic_only():
    synthesis, statement = run(Puppet(act=fine))
    assert synthesis.diagnostics["seconds"] > 0
    assert "seconds" not in statement.to_json()


def test_unseeded_statement_has_a_date_and_no_time():
    _, statement = run(IndependentConfig(), seed=None)
    assert len(json.loads(statement.to_json())["created"]) == len("2020-01-01")
    assert statement.private
    assert statement.noise.startswith("rounded Gaussian (exact, by marginalsyn)")
    assert statement.noise.endswith("random bits: operating system")
    assert run(IndependentConfig(), seed=1)[1].created is None


def test_seed_is_recorded_loudly():
    _, statement = run(IndependentConfig(), seed=3)
    assert statement.noise == "seeded, not private"
    assert statement.warnings[0].startswith("NOT PRIVATE")


def test_two_runs_on_one_ledger_add_up():
    ledger = Ledger(None)
    first = run(IndependentConfig(), ledger=ledger)[1]
    run(IndependentConfig(), ledger=ledger)
    assert ledger.total().rho == pytest.approx(2 * first.rho)


def test_drafted_schema_needs_acceptance():
    drafted = type(example_schema())(**{**example_schema().model_dump(), "drafted_from_data": True})
    ledger = Ledger(None)
    with pytest.raises(SchemaError, match="--accept-nonprivate-schema"):
        run(IndependentConfig(), schema=drafted, ledger=ledger)
    assert ledger.read().charges == []
    _, statement = run(IndependentConfig(), schema=drafted, accept_nonprivate_schema=True)
    assert statement.schema_drafted
    assert any("drafted" in warning for warning in statement.warnings)


def test_schema_that_was_bought_is_counted(tmp_path):
    bought = Charge(mechanism="exponential-quantile", cost=ZCDP(rho=0.01))
    schema = example_schema().model_copy(update={"charges": (bought,)})
    ledger = Ledger(None)
    synthesis, statement = run(IndependentConfig(), schema=schema, ledger=ledger)
    assert statement.charges == (bought, *ledger.read().charges)
    assert statement.rho == pytest.approx(Budget(eps=1).gaussian + 0.01)
    release = Release.write(synthesis, schema, statement, tmp_path / "out")
    assert verify(release.path) == []
    uncounted = run(IndependentConfig())[1]
    release = Release.write(synthesis, schema, uncounted, tmp_path / "two")
    assert verify(release.path) == [
        "privacy.json must count what the schema's bounds were bought for"
    ]


def test_schema_bought_under_another_relation_is_refused():
    bought = Charge(mechanism="q", cost=ZCDP(rho=0.01), neighbours=Neighbours.REPLACE)
    ledger = Ledger(None)
    with pytest.raises(BudgetError, match="replace"):
        run(
            IndependentConfig(),
            schema=example_schema().model_copy(update={"charges": (bought,)}),
            ledger=ledger,
        )
    assert ledger.read().charges == []


def test_cap_is_refused_before_the_generator_runs():
    ledger, calls = Ledger(None), []
    ledger.set_cap(0.5)
    with pytest.raises(BudgetError):
        run(Puppet(act=calls.append), ledger=ledger)
    assert calls == []
    assert ledger.read().charges == []


def test_generator_that_asks_for_too_much_is_refused():
    ledger = Ledger(None)
    with pytest.raises(PluginError, match="must cost at most the budget"):
        run(Puppet(act=fine, rho=1.0), ledger=ledger)
    with pytest.raises(PluginError, match="must charge under add-remove"):
        run(Puppet(act=fine, relation="replace"), ledger=ledger)
    assert ledger.read().charges == []
    _, statement = run(Puppet(act=fine, rho=1.0, exceeds_budget=True))
    assert statement.rho == 1.0
    assert statement.eps > 1


def test_overspending_visit_fails_and_says_what_was_spent():
    ledger = Ledger(None)
    with pytest.raises(BudgetError, match="was charged eps=1") as caught:
        run(Puppet(act=lambda visit: visit.measure(["age"], sigma=0.1)), ledger=ledger)
    assert "prepaid" in str(caught.value)
    assert len(ledger.read().charges) == 1


def test_ctrl_c_says_what_was_spent():
    def act(visit):
        raise KeyboardInterrupt

    ledger = Ledger(None)
    with pytest.raises(Interrupted, match=r"stopped; nothing was written.*charged eps=1") as caught:
        run(Puppet(act=act), ledger=ledger)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert len(ledger.read().charges) == 1


def test_foreign_failure_is_explained_without_its_text():
    def act(visit):
        raise KeyError("Mrs Private")

    with pytest.raises(PluginError, match=r"'puppet' failed \(KeyError\).*charged eps=1") as caught:
        run(Puppet(act=act))
    assert "Private" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_memory_error_is_explained():
    def act(visit):
        raise MemoryError

    with pytest.raises(PluginError, match="ran out of memory"):
        run(Puppet(act=act))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda f: f[f.columns[::-1]], "in this order"),
        (lambda f: f.drop(columns="ill"), "must be"),
        (lambda f: f.assign(age=1000), "column age"),
        (lambda f: f.assign(ill="perhaps").astype(f.dtypes), "column ill"),
        (lambda f: f.astype({"age": "float64"}), "dtype"),
    ],
)
def test_rows_outside_the_schema_break_the_contract(change, problem):
    def act(visit):
        synthesis = fine(visit)
        return replace(synthesis, frame=change(synthesis.frame))

    with pytest.raises(PluginError, match=f"broke its contract: .*{problem}"):
        run(Puppet(act=act))


def test_more_rows_come_from_the_release(tmp_path):
    ledger = Ledger(None)
    synthesis, statement = run(IndependentConfig(), ledger=ledger)
    release = Release.write(synthesis, example_schema(), statement, tmp_path / "out")
    more = sample(release, 1234, np.random.default_rng(0))
    assert len(more) == 1234
    assert len(ledger.read().charges) == 1
    again = sample(release, 1234, np.random.default_rng(0))
    pd.testing.assert_frame_equal(more, again)
    assert len(sample(release, None, np.random.default_rng(0))) == len(synthesis.frame)
    with pytest.raises(UsageError, match="rows"):
        sample(release, 0, np.random.default_rng(0))


def test_release_without_a_model_cannot_be_sampled(tmp_path):
    synthesis, statement = run(Puppet(act=fine))
    release = Release.write(synthesis, example_schema(), statement, tmp_path / "out")
    with pytest.raises(ReleaseError, match="must hold a model to sample from"):
        sample(release, 5, np.random.default_rng(0))
