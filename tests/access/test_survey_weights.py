"""Survey weights: clipped in the query that counts, so that one row moves counts by one bound."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Release, Synthesizer, verify
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.privacy.noise import make_noise
from marginalsyn.sources.persons import PARTS
from marginalsyn.table.schema import BooleanColumn, CategoricalColumn, IntegerColumn, Schema

BOUND = 300
SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=0, upper=99, bins=4),
        CategoricalColumn(name="sex", categories=("F", "M"), other=False),
        BooleanColumn(name="ill"),
        IntegerColumn(name="weight", lower=0, upper=BOUND),
    ),
    survey_weight="weight",
)
ODD = ["", "N", "-5", "0", "1e20", "inf", "nan", "299.9999", "300", "301", "12.5", "1e-9", "-inf"]


def people(rows, rng):
    usual = rng.integers(1, 400, rows).astype(str)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, rows),
            "sex": rng.choice(["F", "M"], rows),
            "ill": rng.random(rows) < 0.3,
            "weight": np.where(rng.random(rows) < 0.5, rng.choice(ODD, rows), usual),
        }
    )


def counts(frame, marginals, schema=SCHEMA):
    table = PrivateTable.open(frame, schema)
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    with table.charge([charge], noise=make_noise(), persons=True) as visit:
        assert visit.whole == PARTS
        return visit.counts_many(marginals)


@pytest.mark.parametrize("form", ["texts", "numbers", "csv"])
def test_one_row_more_moves_each_marginal_by_at_most_one_bound(form, tmp_path):
    rng = np.random.default_rng({"texts": 1, "numbers": 2, "csv": 3}[form])
    marginals = [("age",), ("sex", "ill"), ("age", "sex", "ill"), ()]
    for trial in range(8):
        frame = people(int(rng.integers(0, 40)) + 1, rng)
        if form == "numbers":
            frame["weight"] = pd.to_numeric(frame["weight"], errors="coerce")
        tables = [frame, frame.drop(index=int(rng.integers(len(frame))))]
        if form == "csv":
            for number, table in enumerate(tables):
                table.to_csv(tmp_path / f"{trial}-{number}.csv", index=False)
            tables = [str(tmp_path / f"{trial}-{number}.csv") for number in range(2)]
        more, less = (counts(table, marginals) for table in tables)
        for key in marginals:
            moved = np.asarray(more[key] - less[key])
            # Exact: the noise is for a sensitivity of 1 and not of 1.0000001.
            assert np.count_nonzero(moved) <= 1
            assert moved.min() >= 0
            assert moved.sum() <= 1


def test_counts_are_sums_of_clipped_weights():
    frame = people(300, np.random.default_rng(0))
    weights = pd.to_numeric(frame["weight"], errors="coerce").fillna(0).clip(0, BOUND)
    found = counts(frame, [("sex",), ()])
    sums = weights.groupby(frame["sex"]).sum()
    assert found["sex",] * BOUND == pytest.approx(sums.to_numpy(), abs=300 * BOUND / PARTS)
    assert float(found[()]) == found["sex",].sum()


def test_weights_are_read_as_their_column_was():
    frame = people(5, np.random.default_rng(7)).assign(weight=["1,5", "30", "299,25", "999", "x"])
    columns = SCHEMA.model_dump()["columns"]
    own = {"name": "weight", "kind": "continuous", "lower": 0, "upper": BOUND}
    own |= {"format": {"decimal": ","}, "missing_tokens": ["999"]}
    for given in ("weight", {"column": "weight", "bound": BOUND}):
        schema = Schema(columns=[*columns, own], survey_weight=given)
        assert float(counts(frame, [()], schema)[()]) * BOUND == pytest.approx(330.75, abs=0.01)
        assert Schema.from_json(schema.to_json()) == schema


def test_other_spellings_and_limits_of_weights_outlive_a_rewrite():
    texts = ["1,5", "<2", "20 lb", "999", ">250"]
    frame = people(5, np.random.default_rng(7)).assign(weight=texts)
    own = {"name": "weight", "kind": "continuous", "lower": 0, "upper": BOUND, "below": 2}
    own |= {"format": {"decimal": ","}, "also": [{"suffix": " lb", "factor": 2}], "above": 250}
    own |= {"missing_tokens": ["999"]}
    schema = Schema(columns=[*SCHEMA.model_dump()["columns"], own], survey_weight="weight")
    total = float(counts(frame, [()], schema)[()])
    # What is below a limit counts up to it, and what is above one from it on.
    assert 1.5 + 40 + 250 <= total * BOUND <= 1.5 + 2 + 40 + BOUND
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert float(counts(frame, [()], again)[()]) == total
    assert again.survey_weight.also[0].factor == 2
    # A smaller bound than the one of the column counts what is above that as well.
    smaller = Schema(**{**SCHEMA.model_dump(), "survey_weight": {
        **schema.survey_weight.model_dump(), "bound": 100}})  # fmt: skip
    counted = float(counts(frame, [()], smaller)[()]) * 100
    assert counted == pytest.approx(1.5 + 1 + 40 + 100, abs=1.1)
    with pytest.raises(SchemaError, match="below"):
        Schema(**{**SCHEMA.model_dump(), "survey_weight": {**own_weight(), "below": 1e6}})


def own_weight() -> dict:
    return {"column": "weight", "bound": BOUND}


def test_weights_count_after_a_schema_is_completed():
    frame = people(60, np.random.default_rng(6))
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    with PrivateTable.open(frame, SCHEMA).charge([charge], noise=make_noise(), persons=True) as v:
        view = v.recoded(SCHEMA.with_bins(age=2))
        assert view.whole == PARTS
        assert view.counts([]) == v.counts([])


def test_of_a_person_one_row_counts_with_its_own_weight():
    frame = people(60, np.random.default_rng(4)).assign(weight="500", id=np.repeat(range(20), 3))
    schema = Schema(**{**SCHEMA.model_dump(), "unit": {"column": "id", "max_rows": 1}})
    assert float(counts(frame, [()], schema)[()]) == 20
    with pytest.raises(SchemaError, match="max_rows 1"):
        Schema(**{**SCHEMA.model_dump(), "unit": {"column": "id", "max_rows": 3}})


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(5)
    frame = people(4000, rng)
    frame["weight"] = np.where(frame["sex"] == "F", 200, 20) + rng.integers(0, 30, len(frame))
    return frame


def test_the_noise_of_the_population_is_one_of_persons(survey):
    made = Synthesizer(method="independent", eps=1, schema=SCHEMA, seed=1).fit(survey)
    notes = made.privacy_.notes
    # Each column's counts add up to the population, too; what is less certain counts for less.
    exact = sum(1 / (m.sigma**2 * m.values.size) for m in made.measurements_)
    assert notes["estimated_population_sd"] == pytest.approx(exact**-0.5)
    assert "estimated_rows_sd" not in notes


def test_rows_and_totals_are_those_of_the_population(survey, tmp_path):
    weights = survey["weight"].astype(float).clip(0, BOUND)
    made = Synthesizer(method="mst", eps=3, schema=SCHEMA, seed=1).fit(survey)
    share = weights[survey["sex"] == "F"].sum() / weights.sum()
    assert made.synthetic_["sex"].eq("F").mean() == pytest.approx(share, abs=0.02)
    notes = made.privacy_.notes
    assert notes["estimated_population"] == pytest.approx(weights.sum(), rel=0.02)
    assert {
        m.sigma / p["sigma"]
        for m, p in zip(made.measurements_[:3], made.privacy_.payments[:3], strict=True)
    } == {BOUND}
    release = made.release(tmp_path / "made")
    assert verify(release.path) == []
    path = release.path / "privacy.json"
    stated = json.loads(path.read_text())
    plain = {**stated, "unit": stated["unit"].partition("; it counts")[0], "survey": None}
    path.write_text(json.dumps(plain))
    assert verify(release.path) == ["privacy.json must state the survey weights of schema.json"]
    path.write_text(json.dumps(stated))
    assert "it counts with its survey weight (column 'weight'), at most 300" in (
        release.statement.unit
    )
    summary = release.ask("count(sex)", replicates=0).summary()
    assert "rows of the weighted population; noise adds" in summary
    for answer in release.estimate(count="sex", seed=1).itertuples():
        truth = weights[survey["sex"] == answer.term[-1]].sum()
        half = (answer.high - answer.low) / 2
        assert abs(answer.estimate - truth) < 4 * half  # of some five deviations and more
        assert half < 0.05 * weights.sum()


def test_rows_say_how_many_they_stand_for(run, folder, survey):
    survey.to_csv("p.csv", index=False)
    SCHEMA.write("s.json")
    asked = ["generate", "--data", "p.csv", "--schema", "s.json", "--eps", "1", "--method", "mst"]
    assert "weight, at most 300: noise" in run(*asked, "--dry-run").output
    run(*asked, "--keep-weights", "--rows", "500")
    frame = Release.read("release").frame()
    population = Release.read("release").statement.notes["estimated_population"]
    assert len(frame) == 500
    written = pd.read_csv("release/synthetic.csv")
    assert written["weight"].sum() == pytest.approx(population, rel=1e-3)
    run("sample", "--rows", "40", "--out", "more.csv")
    assert pd.read_csv("more.csv")["weight"].sum() == pytest.approx(population, rel=1e-3)
    run("evaluate", "--reports", "marginals")
    assert "2-way" in (folder / "evaluation" / "report.html").read_text()
    run("weight", "--eps", "1", "--method", "rake", code=2)
    run("certify", "--eps", "1", code=2)


def test_no_population_is_rounded_to_multiples_of_the_bound(survey):
    """The noise is much less than half of the bound, by which a rounded one would be off."""
    found = []
    for seed in range(3):
        made = Synthesizer(method="independent", eps=200, schema=SCHEMA, seed=seed).fit(survey)
        found.append(made.privacy_.notes["estimated_population"])
    truth = pd.to_numeric(survey["weight"], errors="coerce").fillna(0).clip(0, BOUND).sum()
    assert np.allclose(found, truth, atol=BOUND / 4)
    assert any(one % BOUND for one in found)


def test_rows_of_a_part_do_not_share_the_population(survey):
    schema = Schema(**{**SCHEMA.model_dump(), "survey_weight": {
        "column": "weight", "bound": BOUND, "keep": True}})  # fmt: skip
    made = Synthesizer(method="mst", eps=3, schema=schema, seed=1).fit(survey)
    total = made.privacy_.notes["estimated_population"]
    assert made.sample(50)["weight"].sum() == pytest.approx(total, rel=1e-3)
    assert list(made.sample(50, where="sex=F")) == ["age", "sex", "ill"]


def test_a_name_that_counts_use_is_refused_before_the_charge():
    frame = people(9, np.random.default_rng(8)).assign(Marginalsyn_Share=1)
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    table = PrivateTable.open(frame, SCHEMA.changed(drop=("Marginalsyn_Share",)))
    with pytest.raises(SchemaError, match="must have another name"):
        table.charge([charge], noise=make_noise(), persons=True)
    assert not table.ledger.read().charges


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "privbayes"}, "methods that can are aim"),
        ({"method": "kme"}, "methods that can are aim"),
        ({"neighbours": "replace"}, "needs add-remove"),
    ],
)
def test_what_cannot_count_weights_is_refused(asked, said, survey):
    with pytest.raises(UsageError, match=said):
        Synthesizer(eps=1, schema=SCHEMA, **asked).fit(survey)


def test_a_schema_says_which_column_and_bound():
    whole = {**SCHEMA.model_dump(), "survey_weight": {"column": "weight", "bound": 120.5}}
    assert Schema(**whole).survey_weight.bound == 120.5
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    with pytest.raises(SchemaError, match="survey_weight"):
        Schema(**{**whole, "survey_weight": {"column": "weight", "bound": -1}})
    with pytest.raises(SchemaError, match="survey_weight"):
        Schema(**{**whole, "survey_weight": "town"})
    with pytest.raises(SchemaError, match="column of numbers in the source"):
        PrivateTable.open(
            pd.DataFrame({"age": [1], "sex": ["F"], "ill": [True]}), SCHEMA
        ).check_layout()
