"""Public margins: the rows have them, nothing is paid for them, and what is paid buys more."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Release, Synthesizer, verify
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.host import calibrate, generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import BooleanColumn, CategoricalColumn, IntegerColumn, Schema

RNG = np.random.default_rng(0)
N = 3000
AGE = RNG.integers(0, 100, N)
PEOPLE = pd.DataFrame(
    {
        "age": AGE,
        "sex": RNG.choice(["F", "M"], N, p=[0.6, 0.4]),
        "ward": RNG.choice(list("ABCD"), N, p=[0.5, 0.3, 0.19, 0.01]),
        "ill": RNG.random(N) < AGE / 150,
    }
)
SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=0, upper=99, bins=(25, 50, 75)),
        CategoricalColumn(name="sex", categories=("F", "M"), other=False),
        CategoricalColumn(name="ward", categories=tuple("ABCD"), other=False),
        BooleanColumn(name="ill"),
    ),
    label="ill",
)
ASKED = ["generate", "--data", "people.csv", "--schema", "s.json", "--eps", "1"]
BANDS = ["0-24", "25-49", "50-74", "75+"]


def bands(frame):
    return pd.cut(frame["age"], [0, 25, 50, 75, 100], right=False, labels=BANDS).astype(str)


def table(frame):
    return pd.crosstab(bands(frame), frame["sex"]).stack()


BOTH = {"columns": ["age", "sex"], "counts": [[*at, int(n)] for at, n in table(PEOPLE).items()]}
WARDS = {"columns": ["ward"], "shares": PEOPLE["ward"].value_counts(normalize=True).to_dict()}
METHODS = ["auto", "aim", "clique-tree", "mst", "fixed-marginals", "all-marginals"]


@pytest.mark.parametrize(
    ("method", "neighbours"), [*((method, "add-remove") for method in METHODS), ("auto", "replace")]
)
def test_rows_have_the_margins_and_nothing_is_measured_for_them(method, neighbours):
    made = Synthesizer(
        method=method, eps=1, schema=SCHEMA, seed=1, neighbours=neighbours, margins=[BOTH, WARDS]
    ).fit(PEOPLE)
    assert len(made.synthetic_) == N
    assert (table(made.synthetic_) - table(PEOPLE)).abs().max() <= 5
    wards = made.synthetic_["ward"].value_counts() - PEOPLE["ward"].value_counts()
    assert wards.abs().max() <= 5
    known = [{"age", "sex"}, {"ward"}]
    assert not [m for m in made.measurements_ if any({*m.columns} <= one for one in known)]


def test_what_margins_save_goes_to_the_rest():
    plain = Synthesizer(method="clique-tree", eps=1, schema=SCHEMA, seed=1).fit(PEOPLE)
    aided = Synthesizer(
        method="clique-tree", eps=1, schema=SCHEMA, seed=1, margins=[BOTH, WARDS]
    ).fit(PEOPLE)

    def spent(made, purpose):
        paid = [p for p in made.privacy_.payments if p["purpose"] == purpose]
        return sum(p["mu"] ** 2 for p in paid)

    assert aided.privacy_.eps == pytest.approx(plain.privacy_.eps)
    assert spent(aided, "measure") > 1.1 * spent(plain, "measure")
    assert spent(aided, "one-way") == pytest.approx(spent(plain, "one-way") / 4)


def test_without_a_public_number_of_rows_one_answer_gives_it():
    margins = [
        {"columns": [name], "shares": shares}
        for name, shares in (
            ("age", bands(PEOPLE).value_counts(normalize=True).to_dict()),
            ("sex", {"F": 0.6, "M": 0.4}),
            ("ward", WARDS["shares"]),
            ("ill", {"true": 0.33, "false": 0.67}),
        )
    ]
    made = Synthesizer(method="mst", eps=1, schema=SCHEMA, seed=1, margins=margins).fit(PEOPLE)
    assert abs(len(made.synthetic_) - N) < 200
    assert made.synthetic_["ill"].mean() == pytest.approx(0.33, abs=0.002)


def test_the_command_says_it_before_spending_and_in_the_release(run, folder):
    PEOPLE.to_csv("people.csv", index=False)
    SCHEMA.write("s.json")
    lines = [",".join(map(str, cell)) for cell in BOTH["counts"]]
    (folder / "both.csv").write_text("\n".join(["age,sex,count", *lines]) + "\n")
    asked = [*ASKED, "--margins", "both.csv"]
    plan = run(*asked, "--dry-run").output
    assert "age x sex (both.csv), 3,000 rows: exact" in plan
    run(*asked, "--out", "made")
    release = Release.read("made")
    (fact,) = release.statement.notes["margins"]
    assert fact["source"] == "both.csv"
    assert release.statement.unit.endswith("a public margin states how many were counted")
    # A hash that a file states is not taken for that of the contents.
    stated = [{**BOTH, "sha256": fact["sha256"]}]
    with pytest.raises(SchemaError, match=r"it may have rows .*, relative .*, source"):
        SCHEMA.with_margins(stated)
    assert "for which the curator vouched: age x sex (both.csv, 3,000 rows" in release.statement.why
    assert "Public margins" in (folder / "made" / "README.md").read_text()
    assert verify(folder / "made") == []
    path = folder / "made" / "privacy.json"
    text = path.read_text()
    stated = json.loads(text)
    stated["notes"]["margins"] = []
    path.write_text(json.dumps(stated))
    assert verify(folder / "made")[0].endswith("the number of rows is private")
    stated["unit"] = stated["unit"].rpartition("; ")[0] + "; the number of rows is private"
    path.write_text(json.dumps(stated))
    # README.md and index.html do not say so either, which is a complaint of its own.
    found = verify(folder / "made")
    assert "privacy.json must name the public margins of schema.json" in found
    assert len(found) == 3
    path.write_text(text)
    shown = run("estimate", "made", "--count", "age,sex", "--target", "table").output
    assert shown.count("exact: public") == 8
    (answer, *_) = json.loads(
        run("estimate", "made", "--share", "sex", "--target", "table", "--json").output
    )["answers"]
    assert answer["low"] == pytest.approx(PEOPLE["sex"].eq("F").mean(), abs=1e-6)
    run("steer", "made", "--target-file", "both.csv", code=2)
    (folder / "sex.csv").write_text("sex,count\nF,10\nM,30\n")
    run("steer", "made", "--target-file", "sex.csv", "--out", "even", "--seed", "1")
    steered = Release.read("even").frame()
    assert steered["sex"].eq("M").mean() == pytest.approx(0.75, abs=0.01)


def test_of_rows_that_are_held_out_in_part_margins_give_shares(run, folder):
    PEOPLE.to_csv("people.csv", index=False)
    SCHEMA.write("s.json")
    (folder / "sex.csv").write_text("sex,count\nF,1801\nM,1199\n")
    run(*ASKED, "--margins", "sex.csv", "--holdout", "0.4", "--method", "mst", "--seed", "1")
    frame = Release.read("release").frame()
    assert abs(len(frame) - 0.6 * N) < 150
    assert frame["sex"].eq("F").mean() == pytest.approx(1801 / 3000, abs=0.002)


def test_a_loop_that_no_table_has_is_refused_though_each_two_margins_agree():
    names = ("sex", "ill", "old")
    columns = [
        CategoricalColumn(name="sex", categories=("F", "M"), other=False),
        BooleanColumn(name="ill"),
        CategoricalColumn(name="old", categories=("F", "M"), other=False),
        CategoricalColumn(name="more", categories=("F", "M"), other=False),
    ]

    def loop(*counts):
        """Three columns of two values: how many of 100 agree, for each two of them."""
        found = []
        for (one, other), count in zip([(0, 1), (1, 2), (0, 2)], counts, strict=True):
            values = [
                ["false", "true"] if names[at] == "ill" else ["F", "M"] for at in (one, other)
            ]
            cells = [
                [a, b, count / 2 if i == j else 50 - count / 2]
                for i, a in enumerate(values[0])
                for j, b in enumerate(values[1])
            ]
            found.append({"columns": [names[one], names[other]], "counts": cells})
        return Schema(columns=columns, margins=(*found, {"columns": "more", "shares": {"F": 1}}))

    # One agrees with the next, that with the third, and the third not with the first.
    with pytest.raises(UsageError, match="sex x ill, ill x old, sex x old") as raised:
        calibrate(make_config("aim"), loop(90, 90, 20), Budget(eps=1))
    assert "Nothing was charged" in str(raised.value)
    calibrate(make_config("aim"), loop(90, 90, 80), Budget(eps=1))
    # Where a rule takes a cell away, there is no table any more.
    ruled = loop(90, 90, 80).with_rules(["sex = F and ill = true -> old = F"])
    with pytest.raises(UsageError, match="no table has all"):
        calibrate(make_config("aim"), ruled, Budget(eps=1))


def test_counts_of_all_rows_are_refused_where_rows_are_held_out():
    schema, ledger = SCHEMA.with_margins([BOTH]), Ledger(None)
    door = PrivateTable.open(PEOPLE, schema, holdout=0.4, ledger=ledger)
    with pytest.raises(UsageError, match="relative"):
        generate(door, make_config("mst"), Budget(eps=1), noise=make_noise(1))
    assert not ledger.read().charges
    relative = schema.with_margins([], relative=True)
    door = PrivateTable.open(PEOPLE, relative, holdout=0.4)
    made, statement = generate(door, make_config("mst"), Budget(eps=1), noise=make_noise(1))
    assert abs(len(made.frame) - 0.6 * N) < 150
    assert statement.unit.endswith("the number of rows is private")


def test_a_contradiction_is_refused_before_anything_is_charged(run, folder):
    PEOPLE.to_csv("people.csv", index=False)
    SCHEMA.write("s.json")
    (folder / "one.csv").write_text("sex,count\nF,1803\nM,1197\n")
    (folder / "two.csv").write_text("sex,count\nF,1703\nM,1297\n")
    margins = ["--margins", "one.csv", "--margins", "two.csv"]
    found = run(*ASKED, *margins, code=2)
    assert "one.csv, line 3: 1197" in found.output
    assert "two.csv, line 3: 1297" in found.output
    assert not (folder / ".marginalsyn" / "ledgers").exists()


@pytest.mark.parametrize("method", ["auto", "clique-tree", "aim"])
def test_a_rule_and_a_margin_of_one_stratum(method):
    cells = pd.crosstab(PEOPLE["ward"], PEOPLE["sex"]).stack().items()
    margin = {"columns": ["ward", "sex"], "counts": [[*at, int(n)] for at, n in cells]}
    rules = ("ward = D and sex = F -> age < 50", "ward in {A, B} and age >= 75 -> ill = true")
    schema = Schema(columns=SCHEMA.columns, rules=rules, margins=(margin,), by=("ward",))
    door = PrivateTable.open(PEOPLE, schema)
    made, statement = generate(door, make_config(method), Budget(eps=3), noise=make_noise(1))
    assert not broken_rules(made.frame, schema)
    found = pd.crosstab(made.frame["ward"], made.frame["sex"]).stack()
    assert (found - pd.crosstab(PEOPLE["ward"], PEOPLE["sex"]).stack()).abs().max() <= 20
    assert statement.notes["margins"][0]["columns"] == ["ward", "sex"]
    assert not any(p.get("columns") == ["ward", "sex"] for p in statement.payments)
