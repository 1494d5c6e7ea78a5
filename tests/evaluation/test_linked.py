"""Evaluation of linked tables: what is the same has no error, and links made at random show."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.linked import FRESH, RELEASE, RELINKED, evaluate_linked
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.table.schema import Schema

TREE = LinkedSchema(
    (
        LinkedTable("owners", Schema.from_domain({"sex": 2, "zone": 3}), key="id"),
        LinkedTable(
            "visits",
            Schema.from_domain({"day": 50, "ward": 4}),
            key="vid",
            parent="owners",
            link="id",
            max_children=4,
            order="day",
        ),
        LinkedTable(
            "drugs", Schema.from_domain({"dose": 3}), parent="visits", link="vid", max_children=2
        ),
    )
)


def tables(persons: int = 400, seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    owners = pd.DataFrame({"id": range(persons), "sex": rng.integers(0, 2, persons)})
    owners["zone"] = rng.integers(0, 3, persons)
    number = rng.integers(0, 5, persons)
    visits = pd.DataFrame({"id": np.repeat(owners["id"], number).to_numpy()})
    visits.insert(0, "vid", range(len(visits)))
    visits["day"] = rng.integers(0, 50, len(visits))
    # The ward is the person's, for good.
    visits["ward"] = owners["zone"].to_numpy()[visits["id"]]
    drugs = pd.DataFrame({"vid": np.repeat(visits["vid"], 2).to_numpy()})
    drugs["dose"] = owners["sex"].to_numpy()[visits["id"].to_numpy()[drugs["vid"]]]
    return {"owners": owners, "visits": visits, "drugs": drugs}


def test_the_same_tables_have_no_error_and_relinked_ones_do() -> None:
    told = evaluate_linked(tables(), tables(seed=1), TREE, train=tables(), label="sex")
    found, page = told.blocks, told.to_html()
    assert all(f"<figcaption>{group}<" in page for group in found["errors"])
    for line in found["errors"].values():
        assert line[RELEASE] == 0
        assert 0 < line[FRESH] < 0.15
    assert found["errors"]["owners x drugs (two links)"][RELINKED] > 0.1
    assert found["errors"]["two columns of visits"][RELINKED] < 0.05
    ward = found["transitions"]["visits.ward"]
    assert ward["same, real"] == ward[f"same, {RELEASE}"] == 1.0
    assert ward[f"same, {RELINKED}"] < 0.5 < ward[RELINKED] + 0.2
    assert found["transitions"]["visits.day"][RELEASE] is None
    assert found["degrees"]["visits of owners"][RELEASE] == 0
    # From doses alone a person's sex can be told.
    for case in (RELEASE, "real rows"):
        assert found["models"][case]["auc"] > 0.85


def test_orphans_and_repeated_keys_do_not_stop_it() -> None:
    made = tables()
    made["visits"] = pd.concat([made["visits"], made["visits"].head(3).assign(id=10**6)])
    made["owners"] = pd.concat([made["owners"], made["owners"].head(2)])
    found = evaluate_linked(made, tables(), TREE)
    assert found.blocks["errors"]["owners x visits (one link)"][RELEASE] < 0.01
    with pytest.raises(UsageError, match="must be a column of owners"):
        evaluate_linked(made, tables(), TREE, label="nothing")


def test_the_commands_make_pages(run: Callable[..., Result], folder: Path) -> None:
    (folder / "clinic").mkdir()
    (folder / "others").mkdir()
    for name, frame in tables().items():
        frame.to_csv(folder / "clinic" / f"{name}.csv", index=False)
    for name, frame in tables(seed=3).items():
        frame.to_csv(folder / "others" / f"{name}.csv", index=False)
    TREE.write(folder / "s.json")
    asked = ("generate", "--data", "clinic", "--schema", "s.json", "--eps", 3, "--seed", 1)
    run(*asked, "--holdout", 0.3)
    told = run("evaluate", "--label", "sex").output
    assert "owners x drugs (two links)" in told
    page = (folder / "evaluation" / "report.html").read_text()
    assert "Numbers of children" in page
    assert "http" not in page
    found = json.loads((folder / "evaluation" / "evaluation.json").read_text())
    assert found["stamp"].startswith("not private")
    run("evaluate", "release", "--real", "others", "--out", "again")
    run("report", "--public")
    assert "Keys are new" in (folder / "public-report.html").read_text()
    run(*asked, "--out", "whole")
    run("evaluate", "whole", code=2)
    run("evaluate", "whole", "--in-sample", "--json")


def test_a_label_of_the_schema_is_predicted() -> None:
    owners = Schema(**{**TREE.root.schema.model_dump(), "label": "sex"})  # type: ignore[union-attr]
    tree = replace(TREE, tables=(replace(TREE.root, schema=owners), *TREE.tables[1:]))
    assert evaluate_linked(tables(), tables(), tree).blocks["models"]["label"] == "sex"
