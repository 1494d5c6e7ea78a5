"""Linked tables as one of persons, and the weights of persons that are made by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from clinic_tables import TREE, clinic, write

from marginalsyn import (
    Budget,
    LinkedRelease,
    PrivateForest,
    generate,
    make_config,
    make_noise,
    verify,
)
from marginalsyn.contract import make_weights
from marginalsyn.host import weigh
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.people.views import persons_frame, persons_schema
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.release.linked import PersonsRelease, column_names, table_schema
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import publish

NAMES = ["patients.sex", "number of visits", "first visits.day", "first visits.ward"]


def dated(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    visits = tables["visits"].assign(day=pd.to_datetime(tables["visits"]["day"]))
    return {**tables, "visits": visits.sort_values(["id", "day"], kind="stable")}


def test_the_query_and_the_release_tell_the_same_of_persons() -> None:
    tables = clinic(400)
    schema = persons_schema(TREE)
    assert schema.names == NAMES
    real = PrivateForest.open(tables, TREE).persons_table().unprotected("test").frame()
    told = persons_frame(TREE, dated(tables))
    assert len(real) == len(told) == 400
    for name in NAMES:
        one, other = (f[name].value_counts(dropna=False).to_dict() for f in (real, told))
        assert {str(k): v for k, v in one.items()} == {str(k): v for k, v in other.items()}
    assert real["first visits.ward"].isna().sum() == (real["number of visits"] == 0).sum() > 0


@pytest.mark.parametrize("own", [False, True], ids=["with first rows", "of the root alone"])
@pytest.mark.parametrize("seed", range(2))
def test_one_person_more_is_one_row_more(seed: int, own: bool) -> None:
    """Orphans, blank keys and persons who are there twice change nothing of that."""
    rng = np.random.default_rng(seed)
    tables = clinic(60, seed)
    patients, visits = tables["patients"].astype(object), tables["visits"].astype(object)
    patients = pd.concat([patients, patients.head(7), pd.DataFrame({"id": [None, ""], "sex": 1})])
    visits.loc[rng.permutation(len(visits))[:9], "id"] = None
    new = pd.DataFrame({"id": ["new", "new"], "sex": [0, 1]})
    more = visits.sample(30, random_state=seed).assign(id="new", vid=range(9000, 9030))
    after = {
        "patients": pd.concat([patients, new]).sample(frac=1, random_state=seed),
        "visits": pd.concat([visits, more]).sample(frac=1, random_state=seed),
        "drugs": tables["drugs"],
    }
    before = {"patients": patients, "visits": visits, "drugs": tables["drugs"]}
    charge = Charge(mechanism="test", cost=ZCDP(rho=1.0))
    wanted = [(), *((n,) for n in NAMES), (NAMES[0], NAMES[1]), (NAMES[1], NAMES[3])]
    if own:
        wanted = [(), ("sex",), ("number of visits",), ("sex", "number of visits")]
    counts = []
    for one in (before, after):
        forest = PrivateForest.open(one, TREE)
        table = forest.persons_table()
        if own:
            names = column_names(TREE, "patients")
            table = forest.persons_table(table_schema(TREE, "patients"), names)
        with table.charge([charge], noise=make_noise(0), persons=True) as visit:
            counts.append(visit.counts_many(wanted))
    for columns in wanted:
        moved = counts[1][columns] - counts[0][columns]
        assert float(np.abs(moved).sum()) == 1.0
        assert float(moved.sum()) == 1.0


def test_weights_of_persons_bring_a_release_closer(tmp_path: Path) -> None:
    """A release of next to no budget, weighted to marginals bought afterwards, by the same unit."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 1500)
    owner = np.repeat(np.arange(1500), np.where(sex == 1, rng.integers(1, 3, 1500), 0))
    real = {
        "patients": pd.DataFrame({"id": range(1500), "sex": sex}),
        "visits": pd.DataFrame({"vid": range(len(owner)), "id": owner, "ward": owner % 3}),
        "drugs": pd.DataFrame({"vid": range(0, len(owner), 2), "code": 1}),
    }
    visits: dict[str, Any] = {"key": "vid", "parent": "patients", "link": "id", "max_children": 2}
    drugs: dict[str, Any] = {"parent": "visits", "link": "vid", "max_children": 1}
    tree = LinkedSchema(
        (
            LinkedTable("patients", Schema.from_domain({"sex": 2}), key="id"),
            LinkedTable("visits", Schema.from_domain({"ward": 3}), **visits),
            LinkedTable("drugs", Schema.from_domain({"code": 2}), **drugs),
        )
    )
    forest = PrivateForest.open(real, tree)
    made, statement = generate(
        forest, make_config("clique-tree"), Budget(eps=0.05), noise=make_noise(5)
    )
    path = tmp_path / "release"
    LinkedRelease.write(made.frames, made.measurements, made.model, tree, statement, path)
    persons = PersonsRelease.read(path)
    rake, budget, noise = make_weights("rake"), Budget(eps=5), make_noise(6)
    done = publish(
        persons, weigh(persons, rake, budget, forest.persons_table(), noise=noise), noise=noise
    )
    assert verify(path) == []
    assert forest.ledger.total().rho == pytest.approx(done.statement.rho)
    assert done.statement.rho == pytest.approx(statement.rho + budget.gaussian)
    release = LinkedRelease.read(path)
    weights, tables = release.weights(), release.frames()
    assert weights is not None
    assert weights.index.tolist() == tables["patients"]["id"].tolist()

    def off(mass: np.ndarray) -> float:
        found = []
        for one, values in ((real, np.ones(1500)), (tables, mass)):
            told = persons_frame(tree, one)
            cell = told["patients.sex"].astype(int) * 3 + told["number of visits"].astype(int)
            found.append(np.bincount(cell, values, 6) / values.sum())
        return float(np.abs(found[0] - found[1]).sum() / 2)

    assert off(weights["rake"].to_numpy()) < 0.6 * off(np.ones(len(weights)))

    # All rows that hang on a person have the person's weight.
    of_drugs = release.weights_of("drugs")
    assert of_drugs is not None
    who = tables["drugs"].merge(tables["visits"], on="vid", how="left")["id"]
    assert of_drugs["rake"].tolist() == weights["rake"].reindex(who).tolist()

    # A row too few is seen.
    text = (path / "weights.csv").read_text().splitlines()
    (path / "weights.csv").write_text("\n".join(text[:-1]) + "\n")
    assert verify(path)


def test_the_command_weighs_persons(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, clinic(150), TREE)
    common = ("--data", "clinic", "--schema", "clinic.schema.json")
    run("generate", *common, "--eps", "1", "--method", "clique-tree", "--holdout", "0.2")
    told = run("weight", "release", "--method", "rake", "--eps", "1")
    assert "a new charge" in told.output
    assert "evaluate measures it" not in told.output
    assert "rake" in run("weight", "release", "--list").output
    assert "Weights" in run("show", "release").output
    assert "verified" in run("verify", "release").output
    assert "(so far" in run("ledger", "list").output
    refused = run("weight", "release", "--method", "rake", "--resample", "systematic", code=2)
    assert "weights_of" in refused.output
    # The table of persons has one row of each, so what bounds a row bounds a person.
    alone = run("weight", "release", "--method", "output-laplace", "--eps", "1")
    assert "a new charge" in alone.output
    again = run("weight", "release", "--reuse", "rake", "--name", "flat", "--temper", "0.5")
    assert again.exit_code == 0
