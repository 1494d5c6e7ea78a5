"""Steering a release: stated margins are reached, nothing is spent, the rest stays as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from marginalsyn.certificates.measured import verify
from marginalsyn.errors import MissingExtraError, UsageError
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.registry import GENERATORS, find
from marginalsyn.release.folder import Release
from marginalsyn.steering import METHODS, rake, read_margins, steer
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import frame_problems
from marginalsyn.table.schema import Schema

SCHEMA = example_schema()
QUICK = {"rows": {}, "mmd": {"steps": 200}, "cross-entropy": {"steps": 200}}


def release_of(folder, *, method="mst", frame=None, schema=SCHEMA, eps=20.0):
    frame = example_frame(600) if frame is None else frame
    run = run_generator(find(GENERATORS, method), frame, schema, eps=eps)
    return Release.write(run.synthesis, schema, run.statement, folder / "source")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return release_of(tmp_path_factory.mktemp("steering"))


def shares_of(frame, name):
    codes = Codec(SCHEMA).encode(frame)[:, SCHEMA.names.index(name)]
    return np.bincount(codes, minlength=SCHEMA.domain[name]) / len(frame)


@pytest.mark.parametrize("method", METHODS)
def test_the_margins_are_reached_and_nothing_is_charged(source, method, tmp_path):
    stated = {"ill": [0.9, 0.1], "grade": {"3": 0.6, "1": 0.4}}
    synthesis, statement = steer(
        source, stated, method=method, rng=np.random.default_rng(0), options=QUICK[method]
    )
    assert len(synthesis.frame) == len(source.frame())
    assert shares_of(synthesis.frame, "ill") == pytest.approx([0.9, 0.1], abs=0.01)
    grades = shares_of(synthesis.frame, "grade")
    assert grades == pytest.approx([0.4, 0, 0.6], abs=0.01)
    old = source.statement
    assert statement.charges == old.charges
    assert statement.payments == old.payments
    assert (statement.eps, statement.delta, statement.seeded) == (old.eps, old.delta, old.seeded)
    assert statement.notes["steered"]["margins"]["ill"] == [0.9, 0.1]
    assert any("stated by whoever steered" in line for line in statement.warnings)
    assert not frame_problems(synthesis.frame, SCHEMA)
    made = Release.write(synthesis, SCHEMA, statement, tmp_path / "steered")
    assert not verify(made.path)
    assert made.model() is None, "more rows of the old model would not have the margins"
    assert len(made.measurements()) == len(source.measurements())


def test_the_rest_stays_as_it_was(source):
    """Within each class the other columns keep their shares; the model gives fresh rows."""
    old = source.frame()
    rng = np.random.default_rng(1)
    new = steer(source, {"ill": [0.5, 0.5]}, rows=4000, rng=rng)[0].frame
    assert new.duplicated().mean() < 0.2
    for ill in ("yes", "no"):
        before, after = (f[f["ill"] == ill] for f in (old, new))
        assert after["age"].mean() == pytest.approx(before["age"].mean(), abs=6)
        gap = (
            before["grade"]
            .value_counts(normalize=True)
            .sub(after["grade"].value_counts(normalize=True), fill_value=0)
        )
        assert gap.abs().sum() / 2 < 0.08


def test_raking_reaches_all_margins_with_the_least_change():
    schema = Schema.from_domain({"a": 2, "b": 3})
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 2, 500), rng.integers(0, 3, 500)])
    margins = {"a": np.array([0.2, 0.8]), "b": np.array([0.1, 0.3, 0.6])}
    weights = rake(codes, margins, schema)
    assert weights.mean() == pytest.approx(1.0)
    for name, shares in margins.items():
        column = codes[:, schema.names.index(name)]
        assert np.bincount(column, weights) / 500 == pytest.approx(shares, abs=1e-8)
    # The divergence is least where log-weights are a sum of one term for each column.
    logs = np.full((2, 3), np.nan)
    logs[tuple(codes.T)] = np.log(weights)
    assert np.ptp(logs[1] - logs[0]) < 1e-6
    one = rake(codes, {"a": np.array([0.2, 0.8])}, schema)
    current = np.bincount(codes[:, 0]) / 500
    assert one == pytest.approx((np.array([0.2, 0.8]) / current)[codes[:, 0]])


def test_margins_that_no_weights_reach_are_refused():
    schema = Schema.from_domain({"a": 2, "b": 2})
    codes = np.array([[0, 0], [1, 1]] * 5)
    margins = {"a": np.array([0.5, 0.5]), "b": np.array([0.9, 0.1])}
    with pytest.raises(UsageError, match="can have at once"):
        rake(codes, margins, schema)
    with pytest.raises(UsageError, match="none of which has it"):
        rake(codes[::2], {"a": np.array([0.5, 0.5])}, schema)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({}, "must name one column"),
        ({"nobody": [1]}, "nobody"),
        ({"ill": [0.5, 0.6]}, "must have shares that sum to 1"),
        ({"ill": [1.5, -0.5]}, "from 0 to 1"),
        ({"ill": [0.2, 0.2, 0.6]}, "at most 2 shares"),
        ({"ill": {"perhaps": 1}}, "must be one of: no, yes"),
        ({"ill": {"yes": "half"}}, "from 0 to 1"),
        ({"ill": {"yes": True}}, "from 0 to 1"),
        ({"ill": 0.5}, "list of shares"),
        ({"ill": "0.5"}, "list of shares"),
    ],
    ids=str,
)
def test_margins_that_are_none_are_refused(stated, said):
    with pytest.raises(UsageError, match=said):
        read_margins(stated, SCHEMA)


def test_other_arguments_are_checked(source):
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="must be one of rows"):
        steer(source, {"ill": [1]}, method="wish", rng=rng)
    with pytest.raises(UsageError, match="generator network"):
        steer(source, {"ill": [1]}, rng=rng, options={"steps": 5})
    with pytest.raises(UsageError, match="whole number"):
        steer(source, {"ill": [1]}, rows=0, rng=rng)


class TestCommand:
    @pytest.fixture
    def made(self, run, folder) -> Path:
        run("generate", "--dataset", "heart", "--method", "mst", "--eps", 5, "--out", "g")
        return folder

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--target", "disease"),
            ("--target", "=0.5/0.5"),
            ("--target", "disease=half/half"),
            ("--target", "disease=0.5/0.5", "--out", "g"),
            ("--target", "disease=0.5/0.5", "--steps", "10"),
            ("--target-file", "nowhere.json"),
            ("--target-file", "g/synthetic.csv"),
        ],
        ids=str,
    )
    def test_mistakes_are_told(self, run, made, words) -> None:
        assert "Error" in run("steer", "g", *words, code=2).stderr


def test_a_network_names_the_extra_that_it_needs(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r'pip install "marginalsyn\[networks\]"'):
        steer(source, {"ill": [0.5, 0.5]}, method="mmd", rng=np.random.default_rng(0))
    assert steer(source, {"ill": [0.5, 0.5]}, rows=5, rng=np.random.default_rng(0))
