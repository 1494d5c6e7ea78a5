"""No row of a release breaks a rule of its schema, however it was drawn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.linked_tables import PrivateForest
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.errors import DataError, SchemaError, UsageError
from marginalsyn.host import generate
from marginalsyn.linked.drawing import ForestModel, models_of
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import views_of
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import tree_problems
from marginalsyn.release.sampling import sample
from marginalsyn.steering import steer
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import Schema
from tests.support.clinic_tables import TREE, clinic, write

RULES = (
    "age < 18 -> ill = no and not missing(income)",
    "income <= age + 500",
    "grade = 3 iff colour = blue",
)


def made(frame: pd.DataFrame, schema: Schema, method: str, eps: float):
    table = PrivateTable.open(frame, schema, ledger=Ledger(None))
    return generate(table, make_config(method), Budget(eps=eps), noise=make_noise(0))


@pytest.fixture(scope="module", params=["clique-tree", "support-points"])
def release(request, tmp_path_factory) -> Release:
    schema = example_schema().with_rules(RULES)
    options = {"points": 40, "steps": 400, "burn": 100} if "points" in request.param else {}
    table = PrivateTable.open(example_frame(300), schema, ledger=Ledger(None))
    config = make_config(request.param, {"rows": 300, **options})
    synthesis, statement = generate(table, config, Budget(eps=4), noise=make_noise(0))
    folder = tmp_path_factory.mktemp("rules") / "release"
    return Release.write(synthesis, schema, statement, folder)


def test_rows_drawn_later_keep_the_rules(release):
    rng, schema = np.random.default_rng(0), release.schema
    assert release.statement.notes["redrawn_for_rules"]
    assert not broken_rules(release.frame(), schema)
    assert not broken_rules(sample(release, 500, rng), schema)
    # The range cuts a bin: its values are drawn within the range and must keep the rules still.
    some = sample(release, 50, rng, where="age=10..25")
    assert not broken_rules(some, schema)
    assert some["age"].between(10, 25).all()
    steered = steer(release, {"ill": [0.3, 0.7]}, rng=rng)[0].frame
    assert not broken_rules(steered, schema)
    assert (steered["ill"] == "yes").mean() == pytest.approx(0.7, abs=0.02)


def test_a_condition_against_the_rules_is_refused(release):
    with pytest.raises((UsageError, DataError), match=r"where|common enough"):
        sample(release, 20, np.random.default_rng(0), where="age=0..15,ill=yes")


def test_a_mapping_is_read_off_the_synthetic_rows_alone():
    keys, values = [f"k{n}" for n in range(16)], list("abcd")
    schema = Schema(
        columns=(
            {"kind": "categorical", "name": "key", "categories": keys, "other": False},
            {"kind": "categorical", "name": "value", "categories": values, "other": False},
        ),
        rules=("key determines value",),
    )
    codes = np.random.default_rng(1).integers(0, 16, 400)
    frame = pd.DataFrame({"key": np.take(keys, codes), "value": np.take(values, codes % 4)})

    def wrong(eps: float) -> int:
        synthesis, _ = made(frame, schema, "clique-tree", eps)
        assert synthesis.schema is not None
        assert not broken_rules(synthesis.frame, synthesis.schema)
        mapping = synthesis.schema.kept_rules[0].dependency.mapping
        return int((mapping[:16] != np.arange(16) % 4).sum())

    # Where noise is all that there is, the private mapping must not come through.
    assert wrong(1e-4) > 4
    assert wrong(20) == 0


def test_nothing_is_charged_for_rules_that_clash():
    ledger = Ledger(None)
    with pytest.raises(SchemaError, match="must leave rows"):
        PrivateTable.open(
            example_frame(20),
            example_schema().with_rules(["age < 10", "age > 50"]),
            ledger=ledger,
        )
    assert not ledger.read().charges


def test_linked_tables_keep_rules_across_tables(tmp_path):
    day = {"kind": "date", "lower": "2010-01-01", "upper": "2029-12-31", "bins": "year"}
    patients = Schema(
        columns=(
            *TREE.tables[0].columns,
            {**day, "name": "born"},
            {**day, "name": "died", "nullable": True},
        ),
        rules=("born <= died",),
    )
    visits = TREE.tables[1].schema.with_rules(["day > 2020-06-30 -> ward != w3"])
    tree = LinkedSchema(
        (
            dataclasses.replace(TREE.tables[0], schema=patients),
            dataclasses.replace(TREE.tables[1], schema=visits),
            TREE.tables[2],
        ),
        rules=(
            "patients.born <= visits.day <= patients.died",
            "visits.ward = w0 -> drugs.code != b and patients.sex = 1",
        ),
    )
    assert LinkedSchema.from_json(tree.to_json()) == tree
    tables, rng = clinic(150), np.random.default_rng(1)
    days = pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 3600, 150), "D")
    tables["patients"]["born"] = days.strftime("%Y-%m-%d")
    tables["patients"]["died"] = (days + pd.Timedelta(days=3650)).strftime("%Y-%m-%d")
    write(tmp_path, tables, tree)
    files = {name: str(tmp_path / "clinic" / f"{name}.csv") for name in tables}
    forest = PrivateForest.open(files, tree, ledger=Ledger(None))
    made, statement = generate(
        forest, make_config("clique-tree"), Budget(eps=2), noise=make_noise(0)
    )
    assert not tree_problems(tree, made.frames)
    assert statement.notes["redrawn_for_rules"]
    more = ForestModel(tree, models_of(made.model, views_of(tree))).draw(80, rng)
    assert not tree_problems(tree, more)
    broken = {**more, "visits": more["visits"].assign(day="2029-12-31")}
    assert any("rule (patients.born" in problem for problem in tree_problems(tree, broken))


def test_what_a_row_says_of_its_parent_is_kept_by_the_row(tmp_path):
    """The parent's value stands in its own table: a list must not move it among the child's."""
    rule = "drugs.code determines visits.ward by {a -> w0, b -> w1}"
    tree = LinkedSchema(TREE.tables, rules=(rule,))
    forest = PrivateForest.open(clinic(100), tree, ledger=Ledger(None))
    made, _ = generate(forest, make_config("clique-tree"), Budget(eps=2), noise=make_noise(0))
    assert not tree_problems(tree, made.frames)
    assert len(made.frames["drugs"]) > 30


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("patients.sex = 1 -> visits.wrd = w1", "did you mean 'visits.ward'"),
        ("patients.sex determines visits.ward", "must list its mapping"),
    ],
)
def test_bad_rules_of_linked_tables_are_refused(rule, problem):
    with pytest.raises(SchemaError, match=problem):
        LinkedSchema(TREE.tables, rules=(rule,))
