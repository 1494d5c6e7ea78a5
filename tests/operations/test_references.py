"""``generate --reference``: what it gains, what it refuses, and what the statement says of it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Release, Synthesizer, verify
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import UsageError
from marginalsyn.operations.generate import Generate
from marginalsyn.records.ledger import Ledger
from marginalsyn.table.schema import Schema

SCHEMA = Schema.from_domain({"a": 12, "b": 9, "c": 8, "d": 2}).model_copy(update={"label": "d"})


def population(rows, seed):
    """Columns that hang together, of so many values that equal rows are rare."""
    rng = np.random.default_rng(seed)
    a = rng.binomial(11, 0.35, rows)
    b = np.clip(a - rng.integers(0, 4, rows), 0, 8)
    c = np.where(rng.random(rows) < 0.7, b % 8, rng.integers(0, 8, rows))
    d = (rng.random(rows) < (a + 1) / 14).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


@pytest.fixture
def files(folder):
    SCHEMA.write("s.json")
    population(1200, 0).to_csv("private.csv", index=False)
    population(800, 1).to_csv("public.csv", index=False)
    return folder


def generate(**given):
    about = {"data": "private.csv", "schema": "s.json", "eps": 0.4, "force": True, "out": "made"}
    return Generate(**{**about, **given}).run()


def error(release, truth):
    made, found = release.frame(), []
    for pair in (["a", "b"], ["b", "c"], ["a", "d"], ["c", "d"]):
        shares = [f.astype(int).value_counts(pair, normalize=True) for f in (made, truth)]
        found.append(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)
    return np.mean(found)


def spent(ledger):
    return len(Ledger(ledger).read().charges)


def test_a_reference_of_the_same_population_halves_the_error_and_a_wrong_one_costs_nothing(files):
    truth, public = population(1200, 0), population(800, 1)
    top = np.array([11, 8, 7, 1])
    (top - public).to_csv("reversed.csv", index=False)
    errors, rows = {}, {}
    for name in ("", "public.csv", "reversed.csv"):
        made = [
            generate(reference=(name,) if name else (), seed=seed, out=f"{name}{seed}").value
            for seed in range(3)
        ]
        errors[name] = np.mean([error(one, truth) for one in made])
        rows[name] = (made[0].path / "synthetic.csv").read_bytes()
    assert errors["public.csv"] < 0.6 * errors[""]
    assert rows["reversed.csv"] == rows[""]
    assert made[0].statement.notes["leaned"] == {"columns": 0.0, "pairs": 0.0}


@pytest.mark.parametrize("kind", ["itself", "link", "copy", "rows shuffled", "part", "mixed"])
def test_the_private_table_and_its_parts_are_refused_before_any_charge(files, kind):
    rows = population(1200, 0).assign(e=range(1200))
    rows.to_csv("private.csv", index=False)
    Schema.from_domain({"a": 12, "b": 9, "c": 8, "d": 2, "e": 1200}).write("s.json")
    path = files / "reference.csv"
    if kind == "itself":
        path = files / "private.csv"
    elif kind == "link":
        path.symlink_to(files / "private.csv")
    elif kind == "copy":
        path.write_bytes((files / "private.csv").read_bytes())
    elif kind == "rows shuffled":
        rows.sample(frac=1, random_state=1).to_csv(path, index=False)
    elif kind == "part":
        rows.iloc[100:300].to_csv(path, index=False)
    else:
        others = population(900, 7).assign(e=np.random.default_rng(0).integers(0, 1200, 900))
        pd.concat([others, rows[:200]]).to_csv(path, index=False)
    with pytest.raises(UsageError, match="Nothing was charged"):
        generate(reference=(str(path),), ledger="ledger.sqlite", shapes=("none",))
    assert spent("ledger.sqlite") == 0
    assert not (files / "made").exists()
    if kind in ("part", "mixed"):
        generate(
            reference=(str(path),),
            reference_overlaps=True,
            ledger="ledger.sqlite",
            shapes=("none",),
        )
        assert spent("ledger.sqlite") == 1


def test_held_out_rows_are_private_too(files):
    rows = population(1200, 0).assign(e=range(1200))
    rows.to_csv("private.csv", index=False)
    Schema.from_domain({"a": 12, "b": 9, "c": 8, "d": 2, "e": 1200}).write("s.json")
    rows.sample(frac=1, random_state=1).to_csv("copy.csv", index=False)
    with pytest.raises(UsageError, match="copy of the private table"):
        generate(reference=("copy.csv",), holdout=0.4, shapes=("none",))


def test_the_statement_names_its_references(files):
    made = generate(reference=("public.csv",), ledger="register.sqlite").value
    (named,) = made.statement.notes["references"]
    assert (named["name"], named["kind"], named["columns"]) == ("public.csv", "public", [*"abcd"])
    assert "public.csv counts as public: the curator vouched for it" in made.statement.why
    assert str(files) not in made.statement.to_json()
    assert verify(made.path) == []
    changed = json.loads((files / "made" / "privacy.json").read_text())
    changed["why"] = changed["why"].replace("public.csv", "nothing")
    (files / "made" / "privacy.json").write_text(json.dumps(changed))
    assert any("why must say" in problem for problem in verify(made.path))


def test_a_release_is_of_the_same_ledger_or_names_whom_its_own_protects(files):
    generate(out="last", ledger="register.sqlite")
    population(1200, 5).to_csv("next.csv", index=False)
    same = generate(data="next.csv", reference=("last",), ledger="register.sqlite").value
    assert same.statement.notes["references"][0]["ledger"] == "the same"
    assert spent("register.sqlite") == 2
    other = generate(data="next.csv", reference=("last",), ledger="other.sqlite").value
    assert other.statement.notes["references"][0]["ledger"] == "another"
    assert "It protects one row of the private table" in other.statement.why
    assert set(other.statement.notes["leaned"]) == {"columns", "pairs"}
    # What is added to a release later keeps what was said of it.
    weighted = other.statement.extended(warnings=["more"])
    assert weighted.problems() == []


def test_a_seeded_release_protects_nobody_and_is_no_reference(files):
    generate(out="last", seed=1)
    with pytest.raises(UsageError, match="must be private"):
        generate(reference=("last",))
    assert generate(reference=("last",), seed=2).value.statement.seeded


def test_a_release_with_a_schema_read_off_the_rows_is_no_reference_for_one_without(files):
    """What was read off them would be given away again, in a statement that says exact."""
    drafted = SCHEMA.model_copy(update={"drafted_from_data": True})
    drafted.write("drafted.json")
    own = {"schema": "drafted.json", "accept_nonprivate_schema": True}
    generate(out="last", ledger="ledger.sqlite", **own)
    with pytest.raises(UsageError, match="must have a schema of public knowledge"):
        generate(reference=("last",), ledger="ledger.sqlite")
    assert spent("ledger.sqlite") == 1
    # Whose own statement says that the schema is outside the guarantee may lean on it.
    again = generate(reference=("last",), ledger="ledger.sqlite", **own).value
    assert "outside the guarantee" in again.statement.why


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reference": ("nowhere.csv",)}, "it is not there"),
        ({"reference": ("postgres://host/db?table=t",)}, "address of a database"),
        ({"reference": ("other.csv",)}, "must have a column of the schema"),
        ({"reference": ("empty.csv",)}, "must hold rows"),
        ({"reference": ("words.csv",)}, "must hold values that the schema has"),
        ({"reference": ("public.csv",), "method": "independent"}, "cannot lean on a reference"),
        (
            {"reference": ("public.csv",), "options": {"estimator": "built-in"}},
            "must be pulled for a reference",
        ),
    ],
)
def test_what_cannot_be_a_reference_is_refused(files, given, says):
    pd.DataFrame({"x": [1]}).to_csv("other.csv", index=False)
    population(0, 0).to_csv("empty.csv", index=False)
    pd.DataFrame({"a": ["red", "green"]}).to_csv("words.csv", index=False)
    with pytest.raises(UsageError, match=says):
        generate(**given, ledger="ledger.sqlite")
    assert spent("ledger.sqlite") == 0


def test_a_column_that_is_coded_in_another_way_is_left_out_with_a_warning(files):
    with pytest.warns(UserWarning, match="column a is left out"):
        synth = Synthesizer(
            eps=1, schema=SCHEMA, reference=population(800, 1).assign(a="many"), seed=1
        ).fit(population(1200, 0))
    assert synth.privacy_.notes["references"][0]["columns"] == ["b", "c", "d"]


def test_python_takes_frames_paths_and_releases_and_refuses_its_own_frame(files):
    frame, public = population(1200, 0), population(800, 1)
    first = Synthesizer(eps=1, schema=SCHEMA, reference=public).fit(frame).release("first")
    assert isinstance(first, Release)
    both = Synthesizer(eps=1, schema=SCHEMA, reference=[first, "public.csv"]).fit(frame)
    kinds = [named["kind"] for named in both.privacy_.notes["references"]]
    assert kinds == ["release", "public"]
    for own in (frame, frame.sample(frac=1, random_state=0)):
        with pytest.raises(UsageError, match="Nothing was charged"):
            Synthesizer(eps=1, schema=SCHEMA, reference=own).fit(frame)


@pytest.mark.parametrize("method", ["aim", "mst", "fixed-marginals", "clique-tree"])
def test_every_method_of_the_shrunken_fit_leans(files, method):
    made = generate(method=method, reference=("public.csv",), seed=1).value
    assert made.statement.notes["leaned"]["columns"] > 0


def leaned(**given):
    made = generate(seed=1, **given).value
    assert made.statement.notes["leaned"]["columns"] > 0.2
    return made


def test_a_reference_counts_by_its_survey_weights_or_once_where_it_has_none(files):
    for name in ("private", "public"):
        rows = pd.read_csv(f"{name}.csv")
        rows.assign(w=np.where(rows.a > 5, 20, 5)).to_csv(f"{name}-w.csv", index=False)
    weighted = Schema(**{**SCHEMA.model_dump(), "survey_weight": {"column": "w", "bound": 20}})
    weighted.write("w.json")
    truth = population(50_000, 2)
    truth = truth.loc[truth.index.repeat(np.where(truth.a > 5, 4, 1))]
    about = {"data": "private-w.csv", "schema": "w.json"}
    plain = leaned(**about, reference=("public.csv",), out="plain")
    better = leaned(**about, reference=("public-w.csv",), out="last")
    assert error(better, truth) < 0.75 * error(plain, truth)
    leaned(**about, reference=("last",))


def test_a_reference_goes_with_public_margins_and_persons(files):
    shares = population(20_000, 3).groupby("a").size() / 20_000
    shares.rename("share").reset_index().to_csv("margin.csv", index=False)
    rows = pd.read_csv("private.csv")
    rows.assign(person=rows.index // 2).to_csv("persons.csv", index=False)
    leaned(reference=("public.csv",), margins=("margin.csv",))
    leaned(data="persons.csv", reference=("public.csv",), unit="person", max_rows=2)


def test_a_run_goes_on_with_the_same_reference_only(files, run, monkeypatch):
    def stop(self, *args, **given):
        raise KeyboardInterrupt

    about = ("--data", "private.csv", "--schema", "s.json", "--eps", 0.4)
    with monkeypatch.context() as patch:
        patch.setattr("marginalsyn.generators.marginals.MarginalGenerator.draw", stop)
        run("generate", *about, "--reference", "public.csv", code=130)
    population(700, 9).to_csv("another.csv", index=False)
    refused = run("generate", "--resume", "--reference", "another.csv", code=2)
    assert "options must be those of the interrupted run" in refused.output
    run("generate", "--resume")
    named = Release.read("release").statement.notes["references"]
    assert [one["name"] for one in named] == ["public.csv"]


def test_references_are_for_one_table(files, run):
    plain = run(
        "generate",
        "--data",
        "private.csv",
        "--schema",
        "s.json",
        "--eps",
        1,
        "--dry-run",
        "--reference",
        "public.csv",
    )
    assert "public.csv" in plain.output
    table = PrivateTable.open(population(10, 0), SCHEMA)
    assert table.unprotected("a test").frame().shape == (10, 4)
