"""What earlier views tell of later ones: right, free of charge, never released as bought."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from marginalsyn import (
    Budget,
    LinkedSchema,
    PrivateForest,
    generate,
    make_config,
    make_noise,
)
from marginalsyn.contract import KNOWN
from marginalsyn.linked.drawing import models_of
from marginalsyn.linked.generating import LinkedGenerator, Outlook, known_sets
from marginalsyn.people.tree import LinkedTable
from marginalsyn.people.views import views_of
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.table.schema import Schema

TREE = LinkedSchema(
    (
        LinkedTable("homes", Schema.from_domain({"area": 3}), key="home"),
        LinkedTable(
            "people",
            Schema.from_domain({"job": 4}),
            key="who",
            parent="homes",
            link="home",
            max_children=3,
        ),
        LinkedTable(
            "trips", Schema.from_domain({"mode": 3}), parent="people", link="who", max_children=2
        ),
    )
)


def households(homes: int = 4000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Large homes lie in area 2; jobs go by area; trips go by both."""
    rng = np.random.default_rng(seed)
    area = rng.integers(0, 3, homes)
    size = np.clip(rng.integers(0, 3, homes) + (area == 2), 0, 3)
    home = np.repeat(np.arange(homes), size)
    job = (area[home] + rng.integers(0, 2, len(home))) % 4
    number = np.where(job == 0, 2, rng.integers(0, 2, len(home)))
    who = np.repeat(np.arange(len(home)), number)
    mode = np.where(rng.random(len(who)) < 0.7, area[home[who]], rng.integers(0, 3, len(who)))
    return {
        "homes": pd.DataFrame({"home": np.arange(homes), "area": area}),
        "people": pd.DataFrame({"who": np.arange(len(home)), "home": home, "job": job}),
        "trips": pd.DataFrame({"who": who, "mode": mode}),
    }


def test_what_is_known_is_what_the_view_counts() -> None:
    """With hardly any noise, persons drawn from earlier models count as the view does.

    Which of several siblings is the first is as good as random: it takes many homes to even out.
    """
    homes = 16_000
    forest = PrivateForest.open(households(homes), TREE)
    budget = Budget(eps=900)
    views, charge = views_of(TREE), [Charge(mechanism="t", cost=ZCDP(rho=1))]
    exact = PrivateForest.open(households(homes), TREE).charge(
        charge * len(views), noise=make_noise(1)
    )
    made, _ = generate(forest, make_config("aim"), budget, noise=make_noise(1))
    models = models_of(made.model, views_of(TREE))
    outlook = Outlook(TREE, budget.gaussian, np.random.default_rng(0))
    seen = 0
    for view in views:
        with exact.view(view.name, charge) as visit:
            for known in outlook.known(view):
                counts = visit.counts(known.columns)
                off = np.abs(counts / counts.sum() - known.values / known.values.sum()).sum() / 2
                assert off < 0.04, (view.name, known.columns)
                assert known.values.sum() == pytest.approx(counts.sum(), rel=0.05)
                seen += 1
        outlook.learn(view, models[view.name], homes)
    assert seen == 50


def test_what_is_known_is_neither_paid_nor_released_as_bought() -> None:
    forest = PrivateForest.open(households(600), TREE)
    for method in ("aim", "clique-tree"):
        made, statement = generate(forest, make_config(method), Budget(eps=1), noise=make_noise(2))
        for view in views_of(TREE):
            sets = [{*columns} for columns in known_sets(TREE, view)]
            # A round of aim may take a single column where nothing else fits the model's size.
            told = [m for m in made.measurements[view.name] if m.purpose != "round"]
            told += [m for m in made.measurements[view.name] if len(m.columns) > 1]
            bought = [{*m.columns} for m in told]
            assert not any(columns <= known for columns in bought for known in sets)
            paid = [
                {*entry["columns"]}
                for entry in statement.payments
                if entry["view"] == view.name and entry.get("columns")
                if entry["purpose"] != "round" or len(entry["columns"]) > 1
            ]
            assert not any(columns <= known for columns in paid for known in sets)
            assert all(m.purpose != KNOWN for m in made.measurements[view.name])


def test_the_whole_share_of_a_view_buys_what_is_not_known() -> None:
    """One-way answers of a child's own columns alone: the noise is that of so many columns."""
    plans = LinkedGenerator(config=make_config("aim"), schema=TREE, budget=Budget(eps=1))
    view = next(v for v in views_of(TREE) if v.name == "trips first")
    mechanism = plans.mechanisms[view.name]
    alone = replace(mechanism.config, known=()).configure(view.schema, mechanism.budget)
    columns, own = len(view.columns), len(view.own)
    assert mechanism.one_way_sigma**2 * columns == pytest.approx(alone.one_way_sigma**2 * own)


def test_a_view_whose_known_pairs_fill_the_model_can_be_made() -> None:
    """No candidate but single columns fits in the first rounds: the run goes on all the same."""
    forest = PrivateForest.open(households(300), TREE)
    config = make_config("aim", {"max_model_mb": 0.002, "merge": 0.0})
    made, _ = generate(forest, config, Budget(eps=20), noise=make_noise(4))
    assert len(made.frames["trips"])
