"""Errors that were found in published code, each tested for by name.

benchmarks/published_mutants.py makes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from eager import eagerly

from marginalsyn import Budget, Charge, Neighbours, PrivateTable, Schema
from marginalsyn.evaluation.verdict import compare_marginals, compare_models
from marginalsyn.generators import batch_selection
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.graphical.one_way import L1_PER_CELL
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import neighbours_of_every_kind, tape_schema
from marginalsyn.plugins.audit.testkit.tape import Tape, check_generator_on_tape
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.privacy.laws import Law, PoissonSample
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Silent
from marginalsyn.weights.dp_sgd import Training, private_gradient


def test_aim_scores_take_off_the_noise_and_weigh_the_candidates(monkeypatch) -> None:
    asked, whole = [], batch_selection.whole_scores

    def listen(weights: Any, errors: Any, baselines: Any) -> Any:
        asked.append((np.array(weights), np.array(baselines)))
        return whole(weights, errors, baselines)

    monkeypatch.setattr(batch_selection, "whole_scores", listen)
    schema = Schema.from_domain({"a": 3, "b": 5, "c": 7})
    table, config = PrivateTable.open(_frame(schema), schema), AIMConfig(rounds=2, merge=0.0)
    budget = Budget(eps=1.0)
    synthesis, _ = generate(table, config, budget, noise=SeededNoise(1))
    generator = config.configure(schema, budget)
    weights = generator.candidates(schema.domain)
    assert len(set(weights.values())) > 1
    for (given, baselines), step in zip(asked, synthesis.notes["rounds"], strict=True):
        assert len(given) == len(weights) == step["candidates"]
        np.testing.assert_allclose(given, list(weights.values()))
        cells = [np.prod([schema.domain[c] for c in q]) for q in weights]
        np.testing.assert_allclose(baselines, L1_PER_CELL * step["sigma"] * np.array(cells))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_aim_measures_what_the_noise_selected(place) -> None:
    """Whatever the exact scores are."""

    class Forced(SeededNoise):
        def draw(self, law: Law, values: Any) -> Any:
            return place if isinstance(law, ExponentialMechanism) else super().draw(law, values)

    schema = Schema.from_domain({"a": 3, "b": 5, "c": 7})
    table, config = PrivateTable.open(_frame(schema), schema), AIMConfig(rounds=1, merge=0.0)
    synthesis, _ = generate(table, config, Budget(eps=1.0), noise=Forced(1))
    candidates = list(config.configure(schema, Budget(eps=1.0)).candidates(schema.domain))
    assert {tuple(step["columns"]) for step in synthesis.notes["rounds"]} == {candidates[place]}


def _frame(schema: Schema) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.integers(0, n, 50) for name, n in schema.domain.items()})


class _Rows:
    """Stands for a network: each row is its own gradient, clipped to the norm."""

    size = 1

    def clipped_sum(self, rows: np.ndarray, label: float, clip_norm: float) -> np.ndarray:
        return np.clip(rows, -clip_norm, clip_norm).sum(axis=0)


class _Asked(SeededNoise):
    def draw(self, law: Law, values: Any) -> Any:
        return np.arange(values) if isinstance(law, PoissonSample) else values


def test_each_row_is_clipped_before_the_sum() -> None:
    """Not the sum, which a row could turn round by twice the norm."""
    training = Training(
        rate=0.5, steps=1, lot=10, clip_norm=2.0, noise_multiplier=1.5, learning_rate=0.1
    )
    network: Any = _Rows()
    rows = np.array([[9.0], [0.5], [-1.0], [7.0]])
    whole = private_gradient(network, rows, training, _Asked(1))
    assert whole[0] == pytest.approx(2 + 0.5 - 1 + 2)


def test_the_verdict_names_the_best_as_best() -> None:
    def marginals(error: float) -> dict[str, Any]:
        return {"variants": [{"by_degree": [{"degree": 2, "mean_l1": error}]}], "sampling": None}

    def models(risk: float) -> dict[str, Any]:
        scores = {"accuracy": {"mean": 0.8}, "log_loss": {"mean": 0.5}}
        common = {"model": "linear", "title": "Linear model", "weights": None, "scores": scores}
        found = {"risk": {"mean": risk, "se": 0.0}}
        rows = [
            {**common, "trained_on": "real", "excess": {}},
            {**common, "trained_on": "synthetic", "excess": found},
        ]
        return {"protocol": "holdout", "results": rows}

    errors, risks = {"mid": 0.2, "good": 0.1, "bad": 0.4}, {"x": 0.3, "y": 0.01, "z": 0.2}
    first = compare_marginals({case: marginals(error) for case, error in errors.items()})
    second = compare_models({case: models(risk) for case, risk in risks.items()})
    assert first.startswith("good has the closest two-way tables, with an l1 error of 0.1")
    assert "bad the farthest, 0.4" in first
    assert second.startswith("Models trained on y lose least, an excess risk of 0.01")
    assert "those on x most, 0.3" in second


@pytest.mark.parametrize("pair", ["the first row", "a strange row"])
def test_pategan_has_no_side_door(pair) -> None:
    """Votes pass the noise, rounds are fixed beforehand, and no count of rows is public."""
    pytest.importorskip("tensorflow")
    from marginalsyn.plugins.networks.pategan import PATEGANConfig

    options = {**PATEGANConfig.audit_options, "teachers": None, "teacher_rows": 0.5}
    with eagerly():
        check_generator_on_tape(PATEGANConfig, options, pair=pair)


@pytest.mark.parametrize("pair", ["the first row", "a strange row", "a replaced row"])
def test_the_shares_that_networks_start_from_have_no_side_door(pair) -> None:
    """With hardly any noise: more of it hides in even shares whatever they were made of."""
    from marginalsyn.plugins.networks.pategan import PATEGANConfig

    left, right, neighbours = neighbours_of_every_kind()[pair]
    charge = Charge(mechanism="test", cost=ZCDP(rho=100.0), neighbours=neighbours)
    schema = tape_schema()
    generator = PATEGANConfig().configure(schema, Budget(eps=1.0, neighbours=neighbours))

    def shares(frame: pd.DataFrame) -> list[Any]:
        table = PrivateTable.open(frame, schema, neighbours=neighbours)
        with table.charge([charge], noise=Tape()) as visit:
            singles = [(name,) for name in schema.names]
            heads = generator.count(visit, Silent(), singles, 0.5)[2].heads
        return [head.shares.tolist() for head in heads]

    found = shares(left)
    assert found == shares(right)
    assert any(len(set(each)) > 1 for each in found)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_pategan_pays_for_all_votes(neighbours) -> None:
    from marginalsyn.plugins.networks.pategan import PATEGANConfig

    budget = Budget(eps=1.0, neighbours=neighbours)
    generator = PATEGANConfig(queries=400, rounds=4).configure(
        Schema.from_domain({"a": 2, "b": 2}), budget
    )
    moved = neighbours.l1 * np.sqrt(400)
    assert (moved / generator.votes_sigma) ** 2 / 2 == pytest.approx(generator.votes_rho)
