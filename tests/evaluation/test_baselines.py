"""Private training on real rows: it learns at a large budget and is paid for at every one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginalsyn import Budget, Neighbours, PrivateTable, datasets, evaluate, make_noise
from marginalsyn.contract import make_config
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.scores import score
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.reports import baselines
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows, Task

GERMAN = datasets.load("german")
TRAIN, TEST = (CodedRows.of(frame, GERMAN.schema) for frame in (GERMAN.train, GERMAN.test))
TASK = Task.of(GERMAN.schema, None, [TRAIN, TEST])
WAYS = [
    pytest.param("dpsgd", marks=pytest.mark.slow),
    "gradient",
    "pate",
]


@pytest.mark.parametrize("name", WAYS)
def test_it_learns_where_the_budget_is_large(name: str) -> None:
    big = TRAIN.take(np.tile(np.arange(len(TRAIN)), 8))
    budget = Budget(eps=100, delta=1e-7)
    fit, facts = baselines._train(name, TASK, big, len(big), budget, 0)
    found = score(TASK, fit(TASK, TEST), TASK.labels(TEST)).values()
    assert found["auc"] > 0.65
    assert facts["text"]
    again, _ = baselines._train(name, TASK, big, len(big), budget, 0)
    assert (again(TASK, TEST).chances == fit(TASK, TEST).chances).all()


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_noise_is_what_the_budget_buys(neighbours: Neighbours) -> None:
    budget = Budget(eps=1, delta=1e-6 / 2, neighbours=neighbours)
    _, facts = baselines._train("gradient", TASK, TRAIN, len(TRAIN), budget, 0)
    l2 = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0
    assert facts["steps"] * gaussian_rho(facts["sigma"], l2) <= budget.rho * (1 + 1e-9)
    _, facts = baselines._train("pate", TASK, TRAIN, len(TRAIN), budget, 0)
    spent = facts["queries"] * gaussian_rho(facts["sigma"], 1.0)
    spent += len(GERMAN.schema.names) * gaussian_rho(facts["marginal_sigma"], neighbours.l2)
    assert spent <= budget.rho * (1 + 1e-9)


def test_gradients_are_at_most_one_long() -> None:
    x = baselines._vectors(TASK, TRAIN)
    w = 5 * np.random.default_rng(0).standard_normal(x.shape[1])
    y = 2.0 * TASK.labels(TRAIN) - 1
    lengths = np.linalg.norm(baselines._slopes(x, y, w), axis=1)
    assert lengths.max() <= 1 + 1e-12
    assert np.linalg.norm(x, axis=1).max() > 0.9


def test_in_an_evaluation(tmp_path: Path) -> None:
    schema = example_schema()
    table = PrivateTable.open(example_frame(300), schema)
    made, statement = generate(
        table, make_config("independent"), Budget(eps=2), noise=make_noise(0)
    )
    release = Release.write(made, schema, statement, tmp_path / "r")
    before = len(table.ledger.read().charges)
    found = evaluate(
        release,
        example_frame(100, 1),
        train=example_frame(300),
        reports=["tstr"],
        models=["logistic"],
        baselines=["gradient"],
        repeats=2,
    )
    block = found.reports["tstr"]["r"]
    assert block["baselines"]["gradient"]["eps"] == statement.eps
    own = [r for r in block["results"] if r["trained_on"] == "gradient"]
    assert len(own) == 1
    assert own[0]["excess"]["risk"]["mean"] > -0.1
    assert "noisy gradient descent" in found.to_html()
    assert len(table.ledger.read().charges) == before
    with pytest.raises(UsageError, match="baseline"):
        evaluate(
            release,
            example_frame(50, 1),
            train=example_frame(60),
            baselines=["x"],
            reports=["tstr"],
        )
