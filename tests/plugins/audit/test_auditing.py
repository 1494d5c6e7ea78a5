"""The audit's statistics on known laws; broken mechanisms are caught and sound ones are not."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalsyn import Charge, Neighbours, Schema
from marginalsyn.contract import Measurement
from marginalsyn.errors import UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.plugins.audit.auditing import Finding, audit, summarise
from marginalsyn.plugins.audit.canaries import CANARIES, cases_of, generator_cases, weight_cases
from marginalsyn.plugins.audit.runs import flatten, likelihood, matrix, run_batch
from marginalsyn.plugins.audit.scoring import (
    Form,
    Rates,
    clopper_pearson,
    forms_of,
    gaussian_delta,
    gaussian_eps,
    guess_chance,
    least_eps,
    least_eps_of_guesses,
    least_mu,
    least_rho,
    least_sampled_eps,
    prove_eps,
)
from marginalsyn.plugins.audit.testkit.generators import check_audit
from marginalsyn.plugins.audit.testkit.weights import check_weight_audit
from marginalsyn.plugins.audit.worst import perform
from marginalsyn.privacy.charges import ZCDP, Pure, SubsampledGaussian
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import eps_of
from marginalsyn.registry import GENERATORS, WEIGHTS

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
PLANTED = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from marginalsyn.privacy.charges import Charge, Pure
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.contract import Model
from marginalsyn.privacy.laws import DiscreteLaplace

@dataclass(frozen=True, kw_only=True)
class PlantedConfig:
    "One-way marginals with Laplace noise for {factor} of the true sensitivity."
    name: ClassVar[str] = "{name}"
    summary: ClassVar[str] = "planted"
    rows: int | None = option(None, "Rows.")
    def configure(self, schema, budget): return Planted(self, schema, budget)
    sample = IndependentConfig.sample

@dataclass(frozen=True)
class Planted:
    config: PlantedConfig
    schema: object
    budget: object
    @property
    def cost(self):
        pure = Pure(eps=self.budget.eps)
        return [Charge(mechanism="laplace", neighbours=self.budget.neighbours, cost=pure)]
    def __call__(self, visit, *, progress):
        names, l1 = self.schema.names, {factor} * self.budget.neighbours.l1
        law = DiscreteLaplace(l1 * len(names) / self.budget.eps)
        noisy = {{
            name: visit.draw(law, visit.counts([name]), l1=l1)
            for name in names
        }}
        arrays = {{name: project_to_simplex(counts) for name, counts in noisy.items()}}
        model = Model(kind="independent", arrays=arrays, meta={{"rows": 10}})
        frame = IndependentConfig.sample(model, self.schema, 10, visit.noise.post)
        notes = {{"rows": int(visit.counts(()))}} if {leak} else {{}}
        return Synthesis(frame=frame, model=model, notes=notes)
"""


def planted(name: str = "planted", factor: float = 1.0, leak: bool = False) -> Any:
    """The config of a sound generator, or of one that is not."""
    module = ModuleType(f"planted_{name}")
    sys.modules[module.__name__] = module
    exec(PLANTED.format(name=name, factor=factor, leak=leak), module.__dict__)
    return module.PlantedConfig


def pure(eps: float) -> list[Form]:
    return forms_of([Charge(mechanism="test", cost=Pure(eps=eps))], 1e-9, ADD_REMOVE)


def runs_of(law: Any, count: int) -> list[list[dict[str, float]]]:
    """``count`` runs on either of two tables; ``law`` draws them for a mean of 0 or 1."""
    return [[{"x": float(x)} for x in law(mean, count)] for mean in (0, 1)]


# -- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (50, 50), (7, 50), (499, 1000)])
def test_clopper_pearson_is_scipys(hits, runs) -> None:
    theirs = stats.binomtest(hits, runs).proportion_ci(confidence_level=0.9, method="exact")
    assert clopper_pearson(hits, runs, 0.05) == pytest.approx((theirs.low, theirs.high))
    assert clopper_pearson(0, 0, 0.05) == (0.0, 1.0)


def test_rates_hold_as_often_as_they_say() -> None:
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(2000):
        hits, others = rng.binomial(100, 0.7), rng.binomial(100, 0.3)
        rates = Rates.of(hits, others, 100, 100, alpha=0.1)
        wrong += rates.often > 0.7 or rates.seldom < 0.3
    assert 40 < wrong < 200


def test_least_claims_of_known_events() -> None:
    assert least_eps(Rates(0.8, 0.1)) == pytest.approx(math.log(8))
    assert least_eps(Rates(0.99, 0.9)) == pytest.approx(math.log(10))  # by the complement
    assert (
        least_eps(Rates(0.5, 0.5)) == least_rho(Rates(0.4, 0.5)) == least_mu(Rates(0.4, 0.5)) == 0
    )
    assert least_eps(Rates(0.8, 0.0), delta=0.1) == math.inf
    assert least_eps(Rates(0.2, 0.1), delta=0.15) == 0.0
    mu = 1.3
    event = Rates(stats.norm.cdf(mu / 2), stats.norm.cdf(-mu / 2))
    assert least_mu(event) == pytest.approx(mu)
    # An event never proves more than the mechanism's own zCDP cost, and not far less.
    assert 0.6 * mu**2 / 2 < least_rho(event) < mu**2 / 2
    assert least_rho(Rates(0.5, 0.0)) == math.inf


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_gaussian_eps_is_the_inverse_and_below_zcdp(mu, delta) -> None:
    eps = gaussian_eps(mu, delta)
    assert gaussian_delta(mu, eps) <= delta * (1 + 1e-6)
    assert eps == 0 or gaussian_delta(mu, eps * 0.999) > delta
    assert eps <= eps_of(mu**2 / 2, delta)
    x = np.linspace(-40, 40, 400_001)
    p, q = stats.norm.pdf(x, mu), stats.norm.pdf(x)
    assert gaussian_delta(mu, 1.0) == pytest.approx(
        np.maximum(p - math.e * q, 0).sum() * (x[1] - x[0]), abs=1e-6
    )


def test_guesses_of_one_run() -> None:
    assert guess_chance(100, 10, 10, 0.0, 0.0) == pytest.approx(2.0**-10)
    assert guess_chance(100, 10, 10, 1.0, 1e-3) > guess_chance(100, 10, 10, 1.0, 0.0)
    assert least_eps_of_guesses(1000, 100, 55, delta=0.0, alpha=0.05) == 0.0
    # Randomised response at eps 2: found to be nearly that, and never more.
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(20):
        right = rng.binomial(5000, 1 / (1 + math.exp(-2)))
        most = max(most, least_eps_of_guesses(5000, 5000, right, delta=1e-9, alpha=1e-4))
    assert 1.7 < most <= 2.0


# -- an audit of known mechanisms -----------------------------------------------------------------


def test_an_exact_laplace_mechanism_is_found_out_and_no_more() -> None:
    rng = np.random.default_rng(1)
    runs = runs_of(lambda mean, n: rng.laplace(mean, 1.0, n), 20_000)
    found = prove_eps(*runs, pure(1.0), alpha=0.01)
    assert 0.85 < found.eps <= 1.0
    assert found.form == "pure"
    assert "x at least" in found.event


def test_half_the_noise_is_caught() -> None:
    rng = np.random.default_rng(2)
    runs = runs_of(lambda mean, n: rng.laplace(mean, 0.5, n), 4000)
    assert prove_eps(*runs, pure(1.0), alpha=1e-4).eps > 1.3


@pytest.mark.parametrize("honest", [True, False])
def test_the_gaussian_form_sees_what_the_plain_one_cannot(honest) -> None:
    rng, mu, width = np.random.default_rng(3), 1.2, 9
    shift = (1 if honest else 2) * mu / math.sqrt(width)
    runs = [
        [dict(enumerate(row)) for row in rng.normal(side * shift, 1, (3000, width))]
        for side in (0, 1)
    ]
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=mu**2 / 2))
    claimed = compose([charge], 1e-9).eps
    forms = forms_of([charge], 1e-9, ADD_REMOVE, [{"mechanism": "gaussian"}])
    assert [form.name for form in forms] == ["zCDP", "Gaussian"]
    found = prove_eps(*runs, forms, alpha=1e-4)
    assert bool(found.eps <= claimed) is honest
    assert found.eps > 0.5 * claimed
    assert found.event.startswith("all numbers")
    plain = prove_eps(*runs, [Form("plain", lambda r: least_eps(r, 1e-9))], alpha=1e-4)
    assert plain.eps < 0.6 * found.eps


def test_nothing_is_found_where_nothing_is() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        runs = [[{"x": x, "y": y} for x, y in rng.normal(size=(200, 2))] for _ in range(2)]
        assert prove_eps(*runs, pure(1.0), alpha=0.01).eps < 0.2
    few = prove_eps([{"x": 0.0}] * 3, [{"x": 1.0}] * 3, pure(1.0), alpha=0.01)
    assert (few.eps, few.event) == (0.0, "too few runs")


def test_forms_follow_the_charges() -> None:
    def names(*costs: Any, payments: Any = (), relation: Neighbours = ADD_REMOVE) -> list[str]:
        charges = [Charge(mechanism="m", cost=cost, neighbours=relation) for cost in costs]
        return [form.name for form in forms_of(charges, 1e-9, relation, payments)]

    steps = SubsampledGaussian(noise_multiplier=2.0, rate=0.5, steps=3)
    assert names(Pure(eps=1, bounded_range=True)) == ["pure", "zCDP"]
    assert names(ZCDP(rho=0.1), payments=[{"mechanism": "exponential"}]) == ["zCDP"]
    assert names(steps) == ["sampled Gaussian"]
    assert names(steps, ZCDP(rho=0.1)) == ["(eps, delta)"]
    whole = steps.model_copy(update={"rate": 1.0})
    assert names(whole, payments=[{"mechanism": "m"}]) == ["zCDP", "Gaussian"]


def test_sampled_steps_are_compared_with_their_like() -> None:
    steps = SubsampledGaussian(noise_multiplier=1.0, rate=0.5, steps=2)
    claimed = compose([Charge(mechanism="m", cost=steps)], 1e-9).eps
    rng = np.random.default_rng(5)
    lots = rng.binomial(1, 0.5, (20_000, 2))
    present = (lots + rng.normal(0, 1, lots.shape)).sum(axis=1)
    absent = rng.normal(0, math.sqrt(2), 20_000)
    rates = Rates.of(int(np.sum(present > 1)), int(np.sum(absent > 1)), 20_000, 20_000, alpha=1e-3)
    assert 0.3 * claimed < least_sampled_eps(rates, steps, 1e-9) <= claimed
    assert least_sampled_eps(Rates(0.95, 0.05), steps, 1e-9) > claimed
    assert least_sampled_eps(Rates(0.3, 0.3), steps, 1e-9) == 0.0


# -- observations ---------------------------------------------------------------------------------


def test_everything_becomes_numbers() -> None:
    seen: dict[str, float] = {}
    flatten({"a": [1, True, "text"], "b": {"c": None, "d": math.inf}}, "n", seen)
    flatten(np.arange(3), "v", seen)
    flatten(np.arange(500), "w", seen)
    assert seen["n.a[0]"] == seen["n.a[1]"] == 1.0
    assert (seen["n.a.length"], seen["n.b.d"], seen["v[2]"], seen["w.sum"]) == (3, 1e300, 2, 124750)
    other: dict[str, float] = {}
    flatten({"a": [1, True, "other"]}, "n", other)
    assert seen["n.a[2]"] != other["n.a[2]"]
    names, (first, second) = matrix([[{"x": 1.0}, {"x": 2.0, "y": 3.0}], [{"x": 4.0}]])
    assert names == ["x", "y", "has y"]
    assert first.tolist() == [[1, 0, 0], [2, 3, 1]]
    assert second.tolist() == [[4, 0, 0]]


def test_the_likelihood_is_that_of_gaussian_noise() -> None:
    schema = Schema.from_domain({"a": 2, "b": 2})
    tables = (np.array([[0, 0], [0, 0]]), np.array([[0, 0], [0, 0], [1, 1]]))
    values, sigma = np.array([2.5, -0.5]), 2.0
    measured = Measurement(columns=("a",), values=values, sigma=sigma)
    merged = Measurement(columns=("b",), values=np.array([1.0]), sigma=1.0)
    logs = [stats.norm.logpdf(values, means, sigma).sum() for means in ([2, 0], [2, 1])]
    assert likelihood([measured, merged], tables, schema) == pytest.approx(logs[1] - logs[0])


# -- cases ----------------------------------------------------------------------------------------


def test_tables_of_a_case_are_neighbours() -> None:
    kinds = [(GENERATORS, "independent"), (WEIGHTS, "beta-noised")]
    for group, method in kinds:
        for case in cases_of(group, method):
            if case.one_run:
                continue
            rows, other = (sorted(map(tuple, t.to_numpy().tolist())) for t in case.tables)
            if case.neighbours is ADD_REMOVE:
                assert rows == sorted(other)[: len(rows)]
                assert len(other) == len(rows) + 1
            else:
                assert len(other) == len(rows)
                assert sum(a != b for a, b in zip(rows, other, strict=True)) == 1
    with pytest.raises(UsageError, match="group"):
        cases_of("marginalsyn.reports", "privacy")


def test_guesses_are_of_canaries_put_in_by_coins() -> None:
    case = next(c for c in generator_cases(IndependentConfig, eps=200.0) if c.one_run)
    batch = run_batch(case, 2, seed=1)
    assert batch.runs == 2
    assert batch.guesses == 2 * 2 * int(0.1 * CANARIES)
    assert batch.right == batch.guesses  # with hardly any noise
    blind = run_batch(next(c for c in generator_cases(IndependentConfig, eps=0.01) if c.one_run), 4)
    assert abs(blind.right / blind.guesses - 0.5) < 0.25


class Clock:
    """Seconds that pass whenever somebody looks."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_the_time_budget_is_honoured() -> None:
    cases = generator_cases(IndependentConfig, eps=1.0)
    clock = Clock(0.1)
    found = audit(cases, minutes=0.05, jobs=1, clock=clock, seed=0)
    assert len(found) == len(cases)
    # What is late is a look at the clock or two for each case.
    assert 2 < clock.now < 3 + len(cases)
    assert all(0 < finding.runs < 1000 for finding in found)
    assert all(finding.status in ("holds", "too few runs") for finding in found)


def test_a_seeded_audit_repeats_itself() -> None:
    cases = generator_cases(IndependentConfig, eps=8.0, neighbours=[REPLACE])
    first, again = (audit(cases, runs=30, jobs=1, seed=3) for _ in range(2))
    assert first == again
    assert first[0].runs == 30


def test_methods_that_claim_nothing_are_shown_as_such() -> None:
    from marginalsyn.registry import find

    found = audit([*weight_cases(find(WEIGHTS, "none")), *weight_cases(find(WEIGHTS, "logreg"))],
                  runs=1, jobs=1)  # fmt: skip
    rows = summarise(found)
    assert [(row.method, row.status) for row in rows] == [
        ("none", "reads nothing"),
        ("logreg", "no claim"),
    ]


def test_the_worst_case_of_a_method_is_told() -> None:
    def finding(canary: str, **more: Any) -> Finding:
        return Finding(method="m", group="g", neighbours="add-remove", canary=canary, **more)

    parts = [
        finding("a", bound=0.5, runs=10, status="holds"),
        finding("b", bound=0.7, runs=20, status="holds"),
        finding("c", status="refused", reason="too large"),
    ]
    (row,) = summarise(parts)
    assert (row.canary, row.runs, row.status) == ("b", 30, "holds")
    (row,) = summarise([*parts, finding("d", bound=math.inf, runs=1, status="BROKEN")])
    assert row.status == "BROKEN"
    assert row.to_json()["bound"] == "infinite"


# -- plugins of others ----------------------------------------------------------------------------


def test_the_test_kit_passes_a_sound_generator() -> None:
    check_audit(planted("sound"), runs=8)


def test_the_test_kit_catches_a_leak_by_its_runs() -> None:
    with pytest.raises(AssertionError, match=r"leaky.*notes\.rows.* proves eps"):
        check_audit(planted("leaky", leak=True), runs=40)  # fewer prove no eps above 1


def test_the_test_kit_catches_a_wrong_sensitivity_on_the_tape() -> None:
    kind = planted("halved", factor=0.5)
    found = perform(generator_cases(kind, eps=1.0)[0])
    assert found.share == pytest.approx(2.0)
    assert len(found.asked) == 3
    with pytest.raises(AssertionError, match="answers cost 2"):
        check_audit(kind, runs=0)


def test_a_failing_generator_is_no_pass() -> None:
    kind = planted("failing")
    sys.modules["planted_failing"].Planted.__call__ = lambda *a, **k: 1 / 0
    (finding, *_) = audit(generator_cases(kind, eps=1.0), runs=2, jobs=1)
    assert (finding.status, finding.runs) == ("failed", 2)
    assert "ZeroDivisionError" in finding.reason
    with pytest.raises(AssertionError, match="could not be run"):
        check_audit(kind, runs=2)


def test_the_test_kit_audits_weights() -> None:
    from marginalsyn.plugins.weights.beta_noised import BetaNoisedConfig

    check_weight_audit(BetaNoisedConfig, {"noise": "laplace"}, runs=8)


def test_frames_have_the_codes_of_the_codec() -> None:
    from marginalsyn.plugins.audit.runs import codes_of
    from marginalsyn.table.codec import Codec
    from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

    schema = Schema(
        columns=(
            IntegerColumn(name="i", lower=0, upper=9, bins=4),
            ContinuousColumn(name="x", lower=-1, upper=1, bins=5),
        )
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"i": rng.integers(0, 10, 200), "x": rng.uniform(-1, 1, 200)})
    codes, places = codes_of(frame, schema)
    assert (codes == Codec(schema).encode(frame)).all()
    assert places == pytest.approx(Codec(schema).unit(frame))
