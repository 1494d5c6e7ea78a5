"""One of linked tables as a release of one table: answers and certificates of the persons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from clinic_tables import TREE, clinic, write

from marginalsyn import (
    Budget,
    Ledger,
    LinkedRelease,
    LinkedSchema,
    PrivateForest,
    Schema,
    estimate,
    generate_linked,
    make_config,
    make_noise,
    verify,
)
from marginalsyn.errors import UsageError
from marginalsyn.people.tree import LinkedTable
from marginalsyn.release.linked import (
    TableRelease,
    column_names,
    table_frame,
    table_schema,
)


def labelled() -> tuple[LinkedSchema, dict[str, pd.DataFrame]]:
    """The clinic, whose patients are ill or not, which goes with their sex."""
    tables, rng = clinic(600), np.random.default_rng(4)
    sex = tables["patients"]["sex"]
    tables["patients"]["ill"] = (rng.random(len(sex)) < 0.2 + 0.5 * sex).astype(int)
    schema = Schema(**{**Schema.from_domain({"sex": 2, "ill": 2}).model_dump(), "label": "ill"})
    root = LinkedTable("patients", schema, key="id")
    return LinkedSchema((root, *TREE.tables[1:])), tables


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> tuple[LinkedRelease, dict[str, pd.DataFrame]]:
    """A release of so large a budget that its answers are nearly exact, and its real tables."""
    tree, tables = labelled()
    tree = LinkedSchema(tree.tables[:2])
    del tables["drugs"]
    config = make_config("aim", {"rounds": 8})
    forest = PrivateForest.open(tables, tree)
    made, statement = generate_linked(forest, config, Budget(eps=500), noise=make_noise(1))
    path = tmp_path_factory.mktemp("sure") / "release"
    release = LinkedRelease.write(made.frames, made.measurements, made.model, tree, statement, path)
    return release, tables


def test_persons_are_the_same_rows_in_the_query_and_in_the_release() -> None:
    tree, tables = labelled()
    schema, names = table_schema(tree, "patients"), column_names(tree, "patients")
    assert schema.names == ["sex", "ill", "number of visits"]
    table = PrivateForest.open(tables, tree).persons_table(schema, names)
    real, told = table.unprotected("test").frame(), table_frame(tree, tables, "patients")
    order = schema.names
    pd.testing.assert_frame_equal(
        real.sort_values(order, ignore_index=True), told.sort_values(order, ignore_index=True)
    )


def test_answers_are_about_persons(
    sure: tuple[LinkedRelease, dict[str, pd.DataFrame]],
) -> None:
    release, tables = sure
    persons = table_frame(release.tree, tables, "patients")
    found = estimate(
        release,
        mean="number of visits",
        count="sex",
        difference="ill by sex",
        target="table",
        replicates=0,
    )
    answers = {answer.term: answer for answer in found.answers}
    by_sex = persons.groupby("sex")["ill"].mean()
    truths = {
        "number of visits": persons["number of visits"].mean(),
        "sex = 0": (persons["sex"] == 0).sum(),
        "sex = 1": (persons["sex"] == 1).sum(),
        "ill: sex = 1 less 0": by_sex[1] - by_sex[0],
    }
    assert found.rows == len(persons)
    for term, truth in truths.items():
        answer = answers[term]
        # Four standard errors of an interval of 95%.
        assert abs(answer.estimate - truth) <= 2.05 * (answer.high - answer.low) / 2, term
        assert answer.high - answer.low < 0.05 * max(abs(truth), 1), term
    with pytest.raises(UsageError, match=r"ward\) must be of patients .* of visits, whose rows"):
        estimate(release, model="ward ~ sex")
    assert TableRelease.of(release, "visits").measurements() == []
    assert TableRelease.of(release, "visits").model() is None


def test_a_certificate_of_persons_is_charged_and_checked(
    run: Callable[..., Result], folder: Path
) -> None:
    tree, tables = labelled()
    write(folder, tables, tree)
    common = ("--data", "clinic", "--schema", "clinic.schema.json", "--ledger", "clinic.ledger")
    run("generate", *common, "--eps", 2, "--method", "clique-tree", "--holdout", 0.2)
    before = Ledger("clinic.ledger").total().rho
    assert "noise in label means" in run("certify", "--eps", 1, "--dry-run").stdout
    assert Ledger("clinic.ledger").total().rho == before
    run("weight", "--method", "rake", "--eps", 1, "--ledger", "clinic.ledger")
    run("certify", "--eps", 1, "--ledger", "clinic.ledger")
    measured = ("certify", "--measured", "--eps", 0.5, "--ledger", "clinic.ledger")
    paid = Ledger("clinic.ledger").total().rho
    assert "the upper bound would be none" in run(*measured, code=2).stderr
    assert Ledger("clinic.ledger").total().rho == paid
    run(*measured, "--force")
    release = LinkedRelease.read("release")
    spent = sum(Budget(eps=eps).gaussian for eps in (2, 1, 1, 0.5))
    assert Ledger("clinic.ledger").total().rho == pytest.approx(spent, rel=1e-3)
    assert release.statement.rho == pytest.approx(spent, rel=1e-3)
    facts = json.loads((folder / "release" / "certificate.json").read_text())
    assert (facts["label"], [one["of"] for one in facts["certificates"]]) == (
        "ill",
        ["rows", "rake"],
    )
    assert verify("release") == []
    assert "marginals that were bought" in run("estimate", "--mean", "sex").output
    # The release's folder holds its tables as before, and all of it may be read again.
    assert len(release.frames()["visits"]) > len(release.frames()["patients"])
    run("report", "--public")
    text = (folder / "public-report.html").read_text()
    assert "excess log loss at most" in text
    assert "visits: Marginals" in text
    # What is said of the sums must be what they give, whoever sealed the folder.
    facts["certificates"][0]["label_error"] = 0.0
    TableRelease.read("release").amend({"certificate.json": json.dumps(facts).encode()})
    assert any("must say of 'rows'" in problem for problem in verify("release"))
