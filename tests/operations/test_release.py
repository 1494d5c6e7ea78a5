"""The commands as methods of a release: what they do, and what they say when they cannot."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Evaluation, Ledger, MarginalsynError, Release, Synthesizer, evaluate, verify
from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return example_frame(200)


@pytest.fixture
def made(frame: pd.DataFrame, folder: Path) -> Release:
    synth = Synthesizer(eps=2, schema=example_schema(), options={"rows": 150}, ledger="l.jsonl")
    return synth.fit(frame).release(folder / "release")


def test_the_whole_way_in_one_process(made: Release, frame: pd.DataFrame) -> None:
    before = made.statement.eps
    weighted = made.weight(method="beta-noised", eps=0.5, resample="systematic", seed=1)
    assert isinstance(weighted, Release)
    assert list(weighted.weights()) == ["beta-noised"]
    assert weighted.statement.eps > before
    again = weighted.weight(reuse="beta-noised", name="mild", temper=0.5)
    assert again.statement.eps == weighted.statement.eps
    assert list(again.weights()) == ["beta-noised", "mild"]
    certified = again.certify(eps=0.2)
    assert certified.statement.eps > again.statement.eps
    assert certified.certify().statement.eps == certified.statement.eps
    measured = certified.certify(eps=0.2, measured=True, ridge=0.1, force=True)
    assert measured.statement.eps > certified.statement.eps
    # All that was bought stands in one ledger.
    assert len(Ledger("l.jsonl").read().charges) >= 3
    label = str(example_schema().label)
    shares = [1 / len(example_schema().column(label).labels())] * example_schema().column(
        label
    ).size
    steered = certified.steer({label: shares}, seed=1)
    assert steered.path == Path("steered").resolve()
    assert steered.statement.eps == certified.statement.eps
    assert len(certified.sample(7)) == 7
    assert certified.sample(5, seed=3).equals(certified.sample(5, seed=3))
    assert verify(certified.path) == []
    page = certified.report(out="page.html")
    assert Path("page.html").read_text(encoding="utf-8") == page.to_html()
    found = certified.evaluate(frame.iloc[:90], in_sample=True, reports=["marginals"])
    assert isinstance(found, Evaluation)
    assert not Path("evaluation").exists()


def test_rows_are_named_as_the_commands_do(made: Release, frame: pd.DataFrame) -> None:
    read = Release.read(made.path)
    with pytest.raises(UsageError, match="needs the private table: name it with data"):
        read.weight(method="beta-noised", eps=0.5)
    with pytest.raises(UsageError, match="was not made in this workspace"):
        read.certify(eps=0.5)
    frame.to_csv("people.csv", index=False)
    weighted = read.weight("people.csv", method="beta-noised", eps=0.5, ledger="other.jsonl")
    assert list(weighted.weights()) == ["beta-noised"]
    assert len(Ledger("other.jsonl").read().charges) >= 1
    assert list(read.reopen().weight(frame, method="beta-noised", eps=0.5, name="b").weights()) == [
        "beta-noised",
        "b",
    ]


def test_plans_spend_nothing(made: Release) -> None:
    before = len(Ledger("l.jsonl").read().charges)
    assert made.plan_weights(eps=0.5).kept < made.plan_weights(eps=5.0).kept
    assert made.plan_certificate(eps=0.5).label_sigma > 0
    assert len(Ledger("l.jsonl").read().charges) == before


def test_weights_without_protection_stay_out_of_the_release(made: Release) -> None:
    with pytest.raises(UsageError, match="non_private=True"):
        made.weight(method="logreg")
    same = made.weight(method="logreg", non_private=True)
    assert same.weights() is None
    assert Path("evaluation/release.logreg.not-private.csv").exists()
    with pytest.raises(
        UsageError, match="is there already: add force=True to replace it, or name another out"
    ):
        made.weight(method="logreg", non_private=True)


def test_an_interrupted_run_needs_a_ledger_to_go_on(frame: pd.DataFrame, folder: Path) -> None:
    synth = Synthesizer(eps=1, schema=example_schema()).fit(frame)
    with pytest.raises(UsageError, match="needs a ledger"):
        synth.release("r").weight(method="beta-noised", eps=1.0, resume=True)


def test_private_rows_are_not_stored_with_an_object(frame: pd.DataFrame, folder: Path) -> None:
    marked = frame.copy()
    synth = Synthesizer(eps=1, schema=example_schema(), seed=1).fit(marked)
    release = synth.release("r")
    for held in (synth, release):
        assert held._table is not None
        assert "_table" not in held.__getstate__()
    pickle.loads(pickle.dumps(release)).frame()


def test_y_is_joined(frame: pd.DataFrame) -> None:
    schema = example_schema()
    label = schema.label
    assert label is not None
    X, y = frame.drop(columns=label), frame[label]
    settings = {"eps": 2, "schema": schema, "seed": 1}
    whole = Synthesizer(**settings).fit(frame).synthetic_
    columns = X.columns.tolist()
    for given in (y, y.to_numpy(), y.tolist(), y.to_frame()):
        apart = Synthesizer(**settings).fit(X, given)
        assert apart.synthetic_.columns.tolist() == schema.names
        pd.testing.assert_frame_equal(apart.synthetic_, whole)
    assert X.columns.tolist() == columns
    fit = Synthesizer(**settings).fit
    for bad, text in (
        (y[:-1], "one value for every row"),
        (y.iloc[::-1], "index of X"),
        (3, "must be a Series"),
        (np.zeros((len(X), 2)), "one value for every row"),
    ):
        with pytest.raises(UsageError, match=text):
            fit(X, bad)
    with pytest.raises(UsageError, match="must not be a column of X already"):
        fit(frame, y)
    with pytest.raises(UsageError, match="y goes with a DataFrame"):
        fit("people.csv", y)


WRONG = [
    (lambda r: r.weight(eps="1"), "eps ('1') must be a number or None"),
    (lambda r: r.weight([1, 2], eps=1), "data (a list) must be a DataFrame, a text, a path"),
    (lambda r: r.weight(eps=1, smooth="much"), "smooth ('much') must be one of 'none', 'psis'"),
    (lambda r: r.weight(eps=1, share=0.1), "eps and share both give the budget"),
    (lambda r: r.weight(delta=1e-9), "can only be given with eps"),
    (lambda r: r.weight(eps=1, out="x.csv"), "and for non_private=True"),
    (lambda r: r.weight(epsilon=1), "unexpected keyword argument 'epsilon'"),
    (lambda r: r.weight(eps=1, method=None), "method (None) must be a text"),
    (lambda r: r.weight(eps=1, calibrate="beta"), "public"),
    (lambda r: r.weight(eps=1, rows=5), "can only be given with resample"),
    (lambda r: r.weight(eps=1, progress=print), "must be a Progress or None"),
    (lambda r: r.certify(label="x"), "such as eps=0.1"),
    (lambda r: r.certify(eps=1, within=2), "within (2) must come with measured=True"),
    (lambda r: r.steer({}), "targets"),
    (lambda r: r.steer("label=0.5/0.5"), "targets ('label=0.5/0.5') must be a dict"),
    (lambda r: r.steer({"nobody": [1]}, out="s"), "nobody"),
    (lambda r: r.sample("ten"), "rows ('ten') must be a whole number or None"),
    (lambda r: r.sample(3, out="x.txt"), "out (x.txt) must end in .csv or .parquet"),
    (lambda r: r.evaluate(3), "real (3) must be"),
    (lambda r: r.evaluate(), "real=FILE"),
    (lambda r: r.evaluate(train="a.csv"), "goes with real"),
    (
        lambda r: r.evaluate(models="logistic", dataset="heart"),
        "models ('logistic') must be a list",
    ),
    (lambda r: r.report(out=3), "out (3) must be"),
    (lambda r: r.export("xml"), "must be one of"),
    (lambda r: Release.read(5), "path (5) must be a text or a path"),
    (lambda r: Release.read("nowhere"), "must be a folder that exists"),
]


@pytest.mark.parametrize(("call", "text"), WRONG, ids=[text for _, text in WRONG])
def test_mistakes_are_told_in_python(shared: Release, call, text: str) -> None:
    with pytest.raises(MarginalsynError) as caught:
        call(shared)
    said = str(caught.value)
    assert text in said
    assert "--" not in said.split("`")[0], "a flag in Python"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Release:
    synth = Synthesizer(eps=2, schema=example_schema(), options={"rows": 50}, seed=1)
    place = tmp_path_factory.mktemp("shared") / "release"
    synth.fit(frame).release(place)
    return Release.read(place)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"eps": "one"}, "eps ('one') must be a number"),
        ({"seed": 1.5}, "seed (1.5) must be a whole number or None"),
        ({"options": [1]}, "options (a list) must be a dict or None"),
        ({"method": 3}, "method (3) must be a text"),
    ],
)
def test_wrong_types_of_a_synthesizer(frame: pd.DataFrame, changes: dict, text: str) -> None:
    synth = Synthesizer(**{"schema": example_schema(), **changes})
    with pytest.raises(UsageError) as caught:
        synth.fit(frame)
    assert text in str(caught.value)


def test_cards(shared: Release, frame: pd.DataFrame) -> None:
    synth = Synthesizer(schema=example_schema(), seed=1)
    assert "not fitted" in synth._repr_html_()
    synth.fit(frame)
    found = evaluate(frame, frame, example_schema(), reports=["marginals"], title="a < b")
    for card in (synth._repr_html_(), shared._repr_html_(), found._repr_html_()):
        assert card.lstrip().startswith("<div")
        assert card.count("<div") == card.count("</div>")
        assert "<script" not in card
        assert "http" not in card
    assert "seeded: NOT PRIVATE" in shared._repr_html_()
    assert "a &lt; b" in found._repr_html_()
    assert synth._repr_mimebundle_()["text/html"] == synth._repr_html_()
    # A card of a release reads no file: a broken one can be looked at.
    shared.path.rename(shared.path.with_name("moved"))
    assert "privacy" in shared._repr_html_()
    shared.path.with_name("moved").rename(shared.path)
