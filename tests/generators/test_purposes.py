"""What a release is for: formulas, and how they aim the workload."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from marginalsyn.errors import UsageError
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.generators.auto import AutoConfig
from marginalsyn.generators.clique_tree import CliqueTreeConfig
from marginalsyn.generators.purposes import FOR_WEIGHT, model_pairs
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 3, "b": 4, "c": 2, "d": 3}
SCHEMA = Schema.from_domain(DOMAIN).model_copy(update={"label": "c"})


def test_a_formula_names_the_pairs_of_its_label():
    assert model_pairs(["c ~ d + a"], DOMAIN) == [("c", "d"), ("a", "c")]
    assert model_pairs(["c~.", "a ~ c"], DOMAIN) == [("a", "c"), ("b", "c"), ("c", "d")]
    assert model_pairs([], DOMAIN) == []


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("c", "must be a label and its features"),
        ("c ~", "must be a label and its features"),
        ("c ~ a ~ b", "must be a label and its features"),
        ("c ~ aa", "'aa' is not one; did you mean 'a'"),
        ("x ~ .", "'x' is not one"),
        ("c ~ a + c", "among the features"),
    ],
)
@pytest.mark.parametrize("config", [AIMConfig, CliqueTreeConfig, AutoConfig])
def test_formulas_that_cannot_be_meant_are_refused_before_anything_is_read(config, formula, said):
    with pytest.raises(UsageError, match=r"for \(") as error:
        config(for_=(formula,)).configure(SCHEMA, Budget(eps=1))
    assert said in str(error.value)


def test_the_pairs_of_a_formula_count_more_and_the_label_no_more_than_others():
    def weights(**options):
        return CliqueTreeConfig(**options).configure(SCHEMA, Budget(eps=1)).workload(DOMAIN).weights

    aimed = weights(for_=("a ~ b + d",))
    assert aimed["a", "b"] == aimed["a", "d"] == FOR_WEIGHT
    assert {aimed[q] for q in aimed if q not in {("a", "b"), ("a", "d")}} == {1.0}
    assert weights(for_=("a ~ b",), label_weight=9)["a", "b"] == 9
    triples = weights(for_=("a ~ b",), degree=3)
    assert triples["a", "b", "c"] == FOR_WEIGHT
    assert triples["a", "c", "d"] == 1


@pytest.mark.parametrize("config", [AIMConfig, AutoConfig])
def test_what_a_small_release_is_for_is_measured_and_stated(config):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.integers(0, n, 60) for c, n in DOMAIN.items()})
    done = run_generator(config, frame, SCHEMA, options={"for_": ["a ~ b + d"], "merge": 0})
    assert list(done.statement.parameters["for_"]) == ["a ~ b + d"]
    if config is AIMConfig:
        first = [p for p in done.statement.payments if p["purpose"] == "label pair"]
        assert [p["columns"] for p in first] == [["a", "b"], ["a", "d"]]
    else:
        assert "the marginals of a ~ b + d" in done.statement.notes["choice"]["why"]


def test_the_command_takes_several_and_the_plan_tells_them(tmp_path, monkeypatch):
    from marginalsyn.cli.main import cli

    monkeypatch.chdir(tmp_path)
    asked = ["generate", "--dataset", "heart", "--eps", "1", "--dry-run", "--json"]
    formulas = ["disease ~ .", "chol ~ age + sex"]
    done = CliRunner().invoke(cli, [*asked, *(part for f in formulas for part in ("--for", f))])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["facts"]["for"] == formulas
    wrong = CliRunner().invoke(cli, [*asked, "--for", "disease ~ agee"])
    assert wrong.exit_code == 2
    assert "did you mean 'age'" in wrong.stderr
