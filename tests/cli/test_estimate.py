"""``marginalsyn estimate``: from a release folder alone, as an analyst types it."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def release(run: Run, people: Path) -> Path:
    pairs = list(itertools.combinations(("age", "income", "ward", "ill"), 2))
    # A model leaves out rows whose ward is missing: that takes the three columns together.
    Path("pairs.json").write_text(json.dumps([*pairs, ("age", "ward", "ill")]))
    made = ("--method", "fixed-marginals", "--marginals", "pairs.json", "--eps", 50, "--seed", 1)
    run("generate", "--data", people, "--schema", "people.json", *made, "-q")
    # Analysts have the folder and nothing else.
    shutil.copytree("release", "elsewhere/theirs")
    shutil.rmtree(".marginalsyn")
    return Path("elsewhere/theirs")


def test_every_kind_of_question_is_answered(run: Run, release: Path) -> None:
    questions = ["--mean", "age", "--share", "ward", "--count", "ill, ward"]
    questions += ["--difference", "ill by ward", "--model", "ill ~ age + ward"]
    result = run("estimate", release, *questions, "--replicates", 20, "--seed", 0, "--json")
    found = json.loads(result.stdout)
    assert found["target"] == "population"
    titles = {answer["question"] for answer in found["answers"]}
    assert titles == {
        "mean age",
        "share ward",
        "count ill x ward",
        "difference ill by ward",
        "logistic ill ~ age + ward",
    }
    for answer in found["answers"]:
        assert answer["low"] <= answer["high"]
        assert answer["sampling"] + answer["noise"] + answer["rows"] == pytest.approx(1)
    again = run("estimate", release, *questions, "--replicates", 20, "--seed", 0, "--json")
    assert again.stdout == result.stdout
    shown = run("estimate", release, "--mean", "age", "--target", "table").stdout
    assert "95% interval" in shown
    assert "naive fit" in shown
    asked = ("test(ill, ward)", "mean(ill) by ward standardised by age", "--out", "page.html")
    shown = run("estimate", release, *asked).stdout
    assert "chi-square, " in shown
    assert "nan" not in shown + Path("page.html").read_text(encoding="utf-8")


def test_pages_lead_with_what_analysts_need(run: Run, release: Path) -> None:
    run("estimate", release, "--share", "ward", "--mean", "age", "--out", "page.html", "-q")
    text = Path("page.html").read_text()
    assert "<svg" in text
    assert "ward = A" in text
    asked = ("--difference", "ill by ward", "--model", "ill ~ age + ward", "--replicates", 0)
    run("estimate", release, *asked, "--out", "page.html", "--force", "-q")
    text = Path("page.html").read_text()
    # A picture for all differences, and one for each of the coefficients, whose scales differ.
    assert text.count("<svg") >= 4
    assert ">B less A<" in text
    assert (
        "--force" in run("estimate", release, "--mean", "age", "--out", "page.html", code=2).output
    )
    run("report", release, "--public", "--out", "public.html", "-q")
    text = Path("public.html").read_text()
    assert text.index("For analysts") < text.index("Privacy")
    assert "marginalsyn estimate RELEASE" in text
    assert "Pairs that were measured" in text


def test_what_was_not_measured_has_no_interval(run: Run, people: Path) -> None:
    Path("some.json").write_text('[["age", "ill"]]')
    made = ("--method", "fixed-marginals", "--marginals", "some.json", "--eps", 5, "--seed", 1)
    run("generate", "--data", people, "--schema", "people.json", *made, "-q")
    asked = ("estimate", "release", "--share", "ward, ill", "--share", "ill", "--replicates", 0)
    shown = run(*asked, "--out", "page.html")
    assert "not measured by this release" in shown.stdout
    assert "naive, unmeasured" in shown.stdout
    assert '--marginals "ward,ill"' in " ".join(shown.stderr.split())
    assert Path("page.html").read_text().count("not measured by this release") >= 4
    found = json.loads(run(*asked, "--json").stdout)["answers"]
    pairs = [answer for answer in found if answer["question"] == "share ward x ill"]
    assert all(a["low"] is a["high"] is a["estimate"] is None for a in pairs)
    assert all(a["naive"] is not None and a["measured_share"] < 0.9 for a in pairs)
    assert all(a["low"] < a["high"] for a in found if a["question"] == "share ill")
    risk = run("estimate", "release", "--risk", "ill ~ ward", "--replicates", 0, "--json")
    assert json.loads(risk.stdout)["answers"][0]["low"] is None


def test_the_public_page_has_no_interval_of_what_was_not_measured(
    run: Run, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marginalsyn.answers.estimation.ANSWERED", 2.0)
    run("report", release, "--public", "--out", "public.html", "-q")
    text = Path("public.html").read_text()
    answers = text[text.index("Every column") :]
    assert answers.count("not measured by this release") == 4
    assert ">nan<" not in answers


def test_what_cannot_be_answered_is_told(run: Run, release: Path) -> None:
    for args, said in (
        ((), "nothing was asked"),
        (("--mean", "agee"), "did you mean 'age'"),
        (("--difference", "ill"), "COLUMN by COLUMN"),
        (("--mean", "age", "--confidence", "95"), "from 0.5 to 0.9999"),
        (("--mean", "age", "--replicates", "3"), "must be 0"),
        (("--count", "ill, ill"), "each once"),
    ):
        assert said in run("estimate", release, *args, code=2).output


def test_a_median_in_one_value_is_no_public_number(run: Run) -> None:
    Path("rows.csv").write_text("visits,ill\n" + "1,yes\n0,no\n1,no\n2,yes\n1,no\n" * 40)
    schema = {"columns": [{"kind": "integer", "name": "visits", "lower": 0, "upper": 2, "bins": 3}]}
    schema["columns"].append({"kind": "categorical", "name": "ill", "categories": ["no", "yes"]})
    Path("rows.json").write_text(json.dumps(schema))
    made = ("--schema", "rows.json", "--method", "independent", "--eps", 5, "--seed", 1, "-q")
    run("generate", "--data", "rows.csv", *made)
    shown = run("estimate", "release", "median(visits)").stdout
    assert "1 to 1" in shown
    assert "public" not in shown
