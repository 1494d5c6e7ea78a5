"""Evaluation of linked tables: what is the same has no error, and links made at random show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import Evaluation, evaluate
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.verdict import FRESH, LINKS, TABLES
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.plugins.reports.links_report import OWN_RELINKED, RELEASE
from marginalsyn.plugins.reports.marginal_errors import sampling_errors
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


FEW = ["links", "marginals", "tstr"]


def test_the_same_tables_have_no_error_and_relinked_ones_do() -> None:
    known = {"train": tables(), "label": "sex", "repeats": 1, "models": ["logistic"]}
    found = evaluate(tables(), tables(seed=1), TREE, reports=FEW, **known)  # type: ignore[arg-type]
    block = found.reports["links"]["all tables"]
    for line in block["errors"].values():
        assert line[RELEASE] == 0
        assert 0 < line[FRESH] < 0.4
    assert block["errors"]["owners x drugs (two links)"][OWN_RELINKED] > 0.2
    assert block["errors"]["two columns of visits"][OWN_RELINKED] < 0.1
    ward = block["transitions"]["visits.ward"]
    assert ward["same, real"] == ward[f"same, {RELEASE}"] == 1.0
    assert ward[f"same, {OWN_RELINKED}"] < 0.5 < ward[OWN_RELINKED] + 0.2
    assert block["transitions"]["visits.day"][RELEASE] is None
    assert block["degrees"]["visits of owners"][RELEASE] == 0
    # Doses alone show a person's sex, to a model of real persons and to one of these.
    (real, made) = found.reports["tstr"]["all tables"]["results"][:2]
    assert min(one["scores"]["accuracy"]["mean"] for one in (real, made)) > 0.8
    words = {name: {use.use: use.word for use in uses} for name, uses in found.fitness().items()}
    assert words["all tables"][TABLES] == words["all tables"][LINKS] == "fit for"
    assert [*words] == ["all tables", "owners", "visits", "drugs"]
    assert Evaluation.from_json(found.to_json()).to_html() == found.to_html()
    assert set(found.to_frame()["case"]) == {*words}


def test_orphans_and_repeated_keys_do_not_stop_it() -> None:
    made = tables()
    made["visits"] = pd.concat([made["visits"], made["visits"].head(3).assign(id=10**6)])
    made["owners"] = pd.concat([made["owners"], made["owners"].head(2)])
    found = evaluate(made, tables(), TREE, in_sample=True, reports=["links"])
    block = found.reports["links"]["all tables"]
    assert block["errors"]["owners x visits (one link)"][RELEASE] < 0.02
    with pytest.raises(UsageError, match="must be a column of owners"):
        evaluate(made, tables(), TREE, label="nothing")


def test_a_fresh_sample_keeps_the_rows_of_a_person_together() -> None:
    # Every person has a hundred rows of one value: other persons differ far more than other rows.
    owner = np.repeat(np.arange(64), 100)
    codes = np.random.default_rng(0).integers(0, 2, 64)[owner][:, None]
    draws = {"rng": np.random.default_rng(0), "draws": 20, "degree": 1}
    alone = sampling_errors(codes, {"a": 2}, **draws)["a",]  # type: ignore[arg-type]
    together = sampling_errors(codes, {"a": 2}, groups=owner, **draws)["a",]  # type: ignore[arg-type]
    assert alone < 0.03 < 0.08 < together


def test_the_commands_make_pages(run: Callable[..., Result], folder: Path) -> None:
    (folder / "clinic").mkdir()
    (folder / "others").mkdir()
    for name, frame in tables(150).items():
        frame.to_csv(folder / "clinic" / f"{name}.csv", index=False)
    for name, frame in tables(150, 3).items():
        frame.to_csv(folder / "others" / f"{name}.csv", index=False)
    TREE.write(folder / "s.json")
    asked = ("generate", "--data", "clinic", "--schema", "s.json", "--eps", 3, "--seed", 1)
    run(*asked, "--holdout", 0.3)
    told = run("evaluate", "--label", "sex", "--models", "logistic", "--repeats", 1).output
    assert "owners x drugs (two links)" in told
    assert "links between tables" in told
    page = (folder / "evaluation" / "report.html").read_text()
    assert "Numbers of rows" in page
    (folder / "evaluation" / "report.html").unlink()
    run("report")
    assert (folder / "evaluation" / "report.html").read_text() == page
    assert "http" not in page
    found = json.loads((folder / "evaluation" / "evaluation.json").read_text())
    assert found["stamp"].startswith("not private")
    run("evaluate", "release", "--real", "others", "--out", "again", "--reports", "links")
    run("report", "--public")
    assert "Keys are new" in (folder / "public-report.html").read_text()
    run(*asked, "--out", "whole")
    run("evaluate", "whole", code=2)
    run("evaluate", "whole", "--in-sample", "--json", "--reports", "links,marginals")
    run("evaluate", "whole", "release", code=2)
