"""Columns that follow from others by a rule's list: nothing is measured for them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn import estimate
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import make_config
from marginalsyn.errors import UsageError
from marginalsyn.host import calibrate, generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.steering import steer
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import Schema

BY_PUMA = "PUMA determines \"den sity\" by {0, 1 -> low, 2, 3 -> mid, 4, 5 -> '''high'''}"
BY_DENSITY = "\"den sity\" determines region by {low -> N, mid, '''high''' -> '1'}"
COLUMNS = (
    {"kind": "ordinal", "name": "den sity", "categories": ["low", "mid", "'high'"]},
    {"kind": "categorical", "name": "region", "categories": ["N", "1"], "nullable": True},
    {"kind": "integer", "name": "PUMA", "lower": 0, "upper": 5, "bins": 6},
    {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10},
    {"kind": "boolean", "name": "ill"},
)


def schema(*rules: str, **fields) -> Schema:
    return Schema(columns=COLUMNS, rules=rules, **fields)


CHAIN = schema(BY_DENSITY, BY_PUMA)


def table(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    puma = rng.integers(0, 6, rows)
    density = np.array(["low", "low", "mid", "mid", "'high'", "'high'"])[puma]
    age = np.clip(rng.normal(30 + 8 * puma, 10, rows), 0, 99).round().astype(int)
    return pd.DataFrame(
        {
            "den sity": density,
            "region": np.where(density == "low", "N", "1"),
            "PUMA": puma,
            "age": age,
            "ill": rng.random(rows) < 0.1 + 0.1 * puma,
        }
    )


@pytest.mark.parametrize(
    ("found", "follow"),
    [
        (CHAIN, {"den sity": "PUMA", "region": "PUMA"}),
        (schema("PUMA determines region by {0, 1, 2, 3, 4 -> N}"), {}),
        (schema("PUMA determines region"), {}),
        (schema("region determines ill by {N -> True, '1', OTHER -> False}"), {}),
        (
            schema("region determines ill by {N -> True, '1', OTHER -> False, missing -> False}"),
            {"ill": "region"},
        ),
        # Of what else is said of a column, it must be measured.
        (schema(BY_PUMA, by=("den sity",)), {}),
        (schema(BY_PUMA, label="den sity"), {}),
        (schema(BY_PUMA, "\"den sity\" = low -> ill = False"), {}),
        (schema(BY_PUMA, '"den sity" determines region'), {}),
        # What one determines is read off rows of both.
        (schema('"den sity" determines PUMA', BY_PUMA), {}),
        (schema(BY_PUMA, impossible=({"den sity": ["low"], "ill": [True]},)), {}),
        (schema(BY_PUMA, margins=({"columns": "den sity", "shares": {"low": 1.0}},)), {}),
        # Said twice, and to and fro.
        (schema(BY_PUMA, "PUMA = 0 -> \"den sity\" = low"), {"den sity": "PUMA"}),
        (
            schema(
                "ill determines region by {False -> N, True -> '1'}",
                "region determines ill by {N -> False, '1' -> True, OTHER, missing -> True}",
            ),
            {"region": "ill"},
        ),
        # Two columns that list one: each binds the other.
        (schema(BY_PUMA, "ill determines \"den sity\" by {False -> low, True -> mid}"), {}),
    ],
)  # fmt: skip
def test_what_follows_and_what_is_measured(found, follow):
    assert {name: one.source for name, one in found.followers.items()} == follow
    # A copy with other rules has other followers.
    assert not found.model_copy(update={"rules": ()}).followers


def test_rows_of_a_bijection_keep_both_rules():
    rules = (
        "ill determines region by {False -> N, True -> '1'}",
        "region determines ill by {N -> False, '1' -> True, OTHER, missing -> True}",
    )
    found, _ = generate(
        PrivateTable.open(table(), schema(*rules)),
        make_config("mst"),
        Budget(eps=1),
        noise=make_noise(1),
    )
    assert not broken_rules(found.frame, schema(*rules))


def test_a_list_and_a_rule_the_other_way_round_leave_a_model_to_draw_from(tmp_path):
    known = schema("region determines ill", "ill determines region by {False -> N, True -> '1'}")
    made, statement = generate(
        PrivateTable.open(table(), known), make_config("mst"), Budget(eps=3), noise=make_noise(1)
    )
    found = Release.write(made, known, statement, tmp_path / "release")
    assert not broken_rules(sample(found, 300, np.random.default_rng(0)), found.schema)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Release:
    door = PrivateTable.open(table(), CHAIN)
    made, statement = generate(door, make_config("aim"), Budget(eps=3), noise=make_noise(1))
    return Release.write(made, CHAIN, statement, tmp_path_factory.mktemp("r") / "release")


def test_nothing_is_paid_for_what_follows(release):
    payments = release.statement.payments
    assert payments
    assert not any({*p.get("columns", ())} & {"den sity", "region"} for p in payments)
    # The split is that of a table without these columns.
    bare = CHAIN.select(["PUMA", "age", "ill"])
    plans = [calibrate(make_config("aim"), s, Budget(eps=3))[0].plan for s in (CHAIN, bare)]
    assert plans[0].split == plans[1].split
    assert plans[0].workload == plans[1].workload
    assert not verify(release.path)
    frame = release.frame()
    assert list(frame) == CHAIN.names
    assert not broken_rules(frame, CHAIN)


def test_a_workload_of_what_follows_is_served_by_its_source(tmp_path):
    path = tmp_path / "workload.json"
    path.write_text(json.dumps([["den sity", "age"], ["region", "PUMA"], ["ill", "region"]]))
    config = make_config("aim", {"workload": str(path)})
    workload = calibrate(config, CHAIN, Budget(eps=1))[0].plan.workload
    assert {*workload} == {("PUMA", "age"), ("PUMA",), ("PUMA", "ill")}
    config = make_config("auto", {"for_": ("ill ~ region + age", "region ~ PUMA")})
    assert calibrate(config, CHAIN, Budget(eps=1))[0].plan.facts["for"]
    with pytest.raises(UsageError, match="regio"):
        calibrate(make_config("auto", {"for_": ("ill ~ regio",)}), CHAIN, Budget(eps=1))


def test_rows_given_what_follows(release):
    rng = np.random.default_rng(0)
    frame = sample(release, 200, rng, where={"region": "N", "PUMA": (1, 4)})
    assert {*frame["PUMA"]} == {1}
    assert {*frame["den sity"]} == {"low"}
    with pytest.raises(UsageError, match="PUMA"):
        sample(release, 5, rng, where="region=1,den sity=low")
    made, _ = steer(release, {"region": {"N": 0.9, "1": 0.1}}, rng=rng)
    assert abs((made.frame["region"] == "N").mean() - 0.9) < 0.01
    assert not broken_rules(made.frame, CHAIN)


def test_estimates_of_what_follows_are_those_of_its_source(release):
    real = table()
    asked = ["mean(ill) by region", "mean(ill) by `den sity` where PUMA != 1"]
    found = estimate(release, asked, count="region", replicates=0, target="table", seed=0).answers
    truth = [
        *real.groupby("region")["ill"].mean()[["N", "1"]],
        *real[real["PUMA"] != 1].groupby("den sity")["ill"].mean()[["low", "mid", "'high'"]],
        *real["region"].value_counts()[["N", "1"]],
    ]
    found = [one for one in found if not one.term.endswith(("OTHER", "= missing"))]
    for answer, true in zip(found, truth, strict=True):
        # Wider than the interval, so that it fails by chance as good as never.
        half = (answer.high - answer.low) / 2
        assert answer.measured
        assert abs(answer.estimate - true) < 3 * half, answer
    # The same as asked of the source.
    both = estimate(
        release, ["mean(ill) where region = N", "mean(ill) where PUMA = 0|1"], replicates=0
    )
    one, other = both.answers
    assert (one.estimate, one.low, one.high) == (other.estimate, other.low, other.high)


@pytest.mark.parametrize("method", ["privbayes", "independent", "all-marginals", "auto"])
def test_every_release_that_can_be_asked_answers_for_what_follows(method, tmp_path):
    door = PrivateTable.open(table(), CHAIN)
    made, statement = generate(door, make_config(method), Budget(eps=3), noise=make_noise(1))
    found = Release.write(made, CHAIN, statement, tmp_path / "release")
    asked = estimate(found, ["share(region = N)", "share(PUMA = 0|1)"], replicates=0)
    one, other = asked.answers
    assert one.measured
    assert (one.estimate, one.low, one.high) == (other.estimate, other.low, other.high)
    assert abs(one.estimate - (table()["region"] == "N").mean()) < 0.1


def test_all_that_is_known_together_also_in_a_run_that_goes_on(run, folder, monkeypatch):
    """Rules, a follower, a margin of strata, a reference, bought categories and an interruption."""
    frame = table().assign(
        # Open: its values are bought in the run.
        ward=np.random.default_rng(1).choice(["w 1", 'w"2', "w3"], 3000, p=[0.6, 0.3, 0.1])
    )
    frame.to_csv("private.csv", index=False)
    cells = frame.groupby(["ill", "PUMA"]).size().items()
    known = Schema(
        columns=(*COLUMNS, {"kind": "categorical", "name": "ward", "categories": "private"}),
        rules=(
            BY_DENSITY,
            BY_PUMA,
            "PUMA = 1 and age < 30 -> ill = False",
            "ward = w3 -> age > 20",
        ),
        margins=(
            {
                "columns": ["ill", "PUMA"],
                "counts": [[str(a), str(b), int(n)] for (a, b), n in cells],
            },
        ),
        by=("ill",),
    )
    known.write("s.json")
    other = table(1000).assign(ward="w 1")
    other.to_csv("public.csv", index=False)

    def stop(self, *args, **given):
        raise KeyboardInterrupt

    asked = ("generate", "--data", "private.csv", "--schema", "s.json", "--eps", 3)
    more = ("--reference", "public.csv", "--method", "aim")
    plan = run(*asked, *more, "--dry-run").output
    assert "den sity follows from PUMA: nothing is measured for it" in plan
    with monkeypatch.context() as patch:
        patch.setattr("marginalsyn.generators.marginals.MarginalGenerator.draw", stop)
        run(*asked, *more, code=130)
    run("generate", "--resume")
    made = Release.read("release")
    assert not verify(folder / "release")
    assert not broken_rules(made.frame(), made.schema)
    assert {*made.frame()["ward"]} <= {"w 1", 'w"2', "w3", "OTHER"}
    found, true = (one.groupby(["ill", "PUMA"]).size() for one in (made.frame(), frame))
    assert (found.reindex(true.index, fill_value=0) - true).abs().max() <= 30
    paid = [{*p.get("columns", ())} for p in made.statement.payments]
    assert {"ward"} in paid
    assert not any(one & {"den sity", "region"} for one in paid)
