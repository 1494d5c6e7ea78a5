"""AIM: rounds, limits, weights, bounds, and how good the rows are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn import datasets
from marginalsyn.errors import UsageError
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 3, "b": 4, "c": 2, "d": 3}
SCHEMA = Schema.from_domain(DOMAIN).model_copy(update={"label": "c"})


def table(rows=2000, seed=0):
    """A chain a - b - c and a lonely column d."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 4, rows))
    c = (rng.random(rows) < np.array([0.1, 0.4, 0.9, 0.5])[b]).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 3, rows)})


def two_way_tv(real, synthetic, schema):
    """Mean total variation over all pairs of columns, at the schema's bins."""
    codec, sizes = Codec(schema), list(schema.domain.values())
    x, y = codec.encode(real), codec.encode(synthetic)
    apart = []
    for i, j in itertools.combinations(range(len(sizes)), 2):
        shares = [
            np.bincount(z[:, i] * sizes[j] + z[:, j], minlength=sizes[i] * sizes[j]) / len(z)
            for z in (x, y)
        ]
        apart.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(apart))


def run(frame=None, schema=SCHEMA, **more):
    eps, neighbours = more.pop("eps", 1.0), more.pop("neighbours", Neighbours.ADD_REMOVE)
    frame = table() if frame is None else frame
    return run_generator(AIMConfig, frame, schema, options=more, eps=eps, neighbours=neighbours)


def payments(done, purpose):
    return [p for p in done.statement.payments if p["purpose"] == purpose]


def test_the_plan_is_what_is_paid():
    budget = Budget(eps=1.0)
    plan = AIMConfig(rounds=5, label_share=0).configure(SCHEMA, budget).plan
    done = run(rounds=5, label_share=0)
    spent = {
        "one-way": sum(p["mu"] ** 2 / 2 for p in payments(done, "one-way")),
        "select": sum(p["mu"] ** 2 / 2 for p in payments(done, "round") if "eps" in p),
        "measure": sum(p["mu"] ** 2 / 2 for p in payments(done, "round") if "eps" not in p),
    }
    assert spent == pytest.approx(plan.split, rel=1e-6)
    assert sum(plan.split.values()) == pytest.approx(budget.gaussian)
    assert len(plan.workload) == math.comb(4, 2)
    assert plan.facts["candidates"] == 4 + 6
    assert plan.model_mb == 80


def test_bounds_in_the_statement_hold():
    frame = table(1500)
    missed = 0
    for seed in range(12):
        done = run_generator(AIMConfig, frame, SCHEMA, options={"merge": 0, "rounds": 6}, seed=seed)
        bounds = done.statement.notes["bounds"]
        assert bounds["confidence"] == 0.95
        total = done.statement.notes["estimated_rows"]
        # The rows are the model's but for rounding: half a row in every cell at most.
        drawn = done.synthesis.frame.to_numpy(int)
        names = list(DOMAIN)
        for told in bounds["marginals"]:
            axes = [names.index(c) for c in told["columns"]]
            sizes = [DOMAIN[c] for c in told["columns"]]
            gap = 0.0
            real, synthetic = np.zeros(sizes), np.zeros(sizes)
            np.add.at(real, tuple(frame.to_numpy()[:, axes].T), 1)
            np.add.at(synthetic, tuple(drawn[:, axes].T), 1)
            gap = np.abs(real - synthetic).sum()
            missed += gap / total > told["l1"] + real.size / total
    assert missed == 0


@pytest.mark.parametrize(("name", "value"), [("rounds", 0), ("degree", 0), ("max_cells", 0)])
def test_knobs_out_of_range_are_refused(name, value):
    with pytest.raises(UsageError, match=rf"{name} \({value}\) must be from"):
        AIMConfig(**{name: value})


@pytest.mark.parametrize("case", ["heart", "wide"])
def test_a_hopeless_budget_warns_and_is_no_worse_than_independent(case):
    if case == "heart":
        heart = datasets.load("heart")
        frame, schema, eps = heart.train, heart.schema, 0.05
    else:
        rng = np.random.default_rng(0)
        wide = rng.zipf(1.3, 3000) % 4627
        frame = pd.DataFrame({"wide": wide, "a": wide % 2, "b": rng.integers(0, 3, 3000)})
        schema, eps = Schema.from_domain({"wide": 4627, "a": 2, "b": 3}), 0.5
    ours, baseline = [], []
    for seed in range(3):
        done = run_generator(AIMConfig, frame, schema, options={"rows": 3000}, eps=eps, seed=seed)
        assert any("budget cannot support" in text for text in done.statement.warnings)
        other = run_generator(
            IndependentConfig, frame, schema, options={"rows": 3000}, eps=eps, seed=seed
        )
        ours.append(two_way_tv(frame, done.synthesis.frame, schema))
        baseline.append(two_way_tv(frame, other.synthesis.frame, schema))
    assert np.mean(ours) <= np.mean(baseline) + 0.03, (ours, baseline)
