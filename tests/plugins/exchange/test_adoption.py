"""Adoption: what a redraw gives back, whose words the guarantee is, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import MarginalsynError, Schema, sample
from marginalsyn.certificates.measured import verify
from marginalsyn.operations.other_rows import adopt_rows
from marginalsyn.plugins.exchange.parcel import Parcel, Part
from marginalsyn.plugins.exchange.redrawing import adopt_parcel, refit, schema_of
from marginalsyn.release.derivation import whose_words
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn

Run = Callable[..., Result]
DOMAIN = {"a": 3, "b": 2, "c": 4}


def table() -> np.ndarray:
    return 2000 * np.random.default_rng(0).dirichlet(np.ones(24)).reshape(3, 2, 4)


def measured(sigma: float = 2.0, **changes: object) -> Parcel:
    """A chain of two noisy pairs, and rows that lost all relations."""
    rng, counts = np.random.default_rng(1), table()
    pairs = (("a", "b"), counts.sum(2)), (("c", "b"), counts.sum(0).T)
    facts: dict[str, object] = {
        "domain": DOMAIN,
        "tool": "mbi 1.1.0",
        "measurements": tuple(
            Part(columns=q, values=x + sigma * rng.normal(size=x.shape), sigma=sigma)
            for q, x in pairs
        ),
        "rows": np.column_stack([np.sort(rng.integers(0, n, 500)) for n in DOMAIN.values()]),
        "stated": {"eps": 1.0, "delta": 1e-9, "by": "the pipeline"},
    }
    return Parcel(**{**facts, **changes})  # type: ignore[arg-type]


def counts_of(frame: pd.DataFrame, schema: Schema, columns: tuple[str, ...]) -> np.ndarray:
    codes = Codec(schema).encode(frame)
    found = np.zeros([schema.domain[name] for name in columns])
    np.add.at(found, tuple(codes[:, schema.names.index(name)] for name in columns), 1)
    return found


def test_rows_are_drawn_anew_from_measurements(tmp_path: Path) -> None:
    made = adopt_parcel(measured(), tmp_path / "r", rng=np.random.default_rng(0))
    assert verify(made.path) == []
    frame = made.frame()
    assert len(frame) == made.statement.notes["estimated_rows"]
    assert abs(len(frame) - 2000) < 60
    for columns, axis in ((("a", "b"), 2), (("b", "c"), 0)):
        got = counts_of(frame, made.schema, columns)
        assert np.abs(got - table().sum(axis)).sum() < 80
    # Given b, a and c are independent in the fit, and so in the rows: all pairs, not the measured.
    joint = counts_of(frame, made.schema, ("a", "b", "c"))
    expected = joint.sum(2)[:, :, None] * joint.sum(0)[None] / joint.sum((0, 2))[None, :, None]
    assert np.abs(joint - expected).sum() / len(frame) < 0.1
    assert len(sample(made, 17, np.random.default_rng(0))) == 17
    assert [m.columns for m in made.measurements()] == [("a", "b"), ("c", "b")]


def test_a_model_alone_is_taken_over_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    groups = np.array([0, 1, 1, 0])
    parts = (
        Part(columns=("b", "a"), values=rng.normal(size=(2, 3))),
        Part(columns=("a", "c"), values=rng.normal(size=(3, 2)), groups={"c": groups}),
        Part(columns=("c",), values=rng.normal(size=4)),
    )
    parcel = Parcel(domain=DOMAIN, tool="mine", total=300.0, potentials=parts)
    found = refit(parcel, schema_of(parcel)).fitted
    logs = parts[0].values.T[:, :, None] + parts[1].values[:, None, :][..., groups]
    truth = np.exp(logs + parts[2].values)
    truth *= 300 / truth.sum()
    np.testing.assert_allclose(found.marginal(("a", "b", "c")), truth, rtol=1e-9)
    assert adopt_parcel(parcel, tmp_path / "r").statement.notes["adopted"]["model"] == "the tool's"


def test_merged_measurements_are_fitted_as_they_were_measured(tmp_path: Path) -> None:
    groups = np.array([0, 1, 1, 2])
    merged = np.stack([table()[..., groups == g].sum(-1).sum(1) for g in range(3)], axis=1)
    parts = (
        Part(columns=("c",), values=table().sum((0, 1)), sigma=1.0),
        Part(columns=("a", "c"), values=merged, sigma=1.0, groups={"c": groups}),
    )
    parcel = Parcel(domain=DOMAIN, tool="mine", measurements=parts)
    found = refit(parcel, schema_of(parcel))
    np.testing.assert_allclose(found.fitted.marginal(("a", "c")), merged, atol=4)
    made = adopt_parcel(parcel, tmp_path / "r", rng=np.random.default_rng(0))
    assert verify(made.path) == []
    singles = counts_of(made.frame(), made.schema, ("c",))
    assert np.abs(singles - table().sum((0, 1))).sum() < 60


def test_codes_that_the_tool_does_not_know_are_never_drawn(tmp_path: Path) -> None:
    schema = Schema(
        columns=[  # type: ignore[arg-type]
            CategoricalColumn(name="c", categories=("w", "x", "y", "z"), nullable=True),
            CategoricalColumn(name="a", categories=("k", "l", "m"), other=False),
            CategoricalColumn(name="b", categories=("p", "q")),
        ]
    )
    made = adopt_parcel(measured(), tmp_path / "r", schema=schema)
    assert verify(made.path) == []
    frame = made.frame()
    assert list(frame.columns) == ["c", "a", "b"]
    assert set(frame["c"].unique()) == {"w", "x", "y", "z"}
    assert set(frame["b"].unique()) == {"p", "q"}


def test_codes_in_another_order_are_refused(tmp_path: Path) -> None:
    columns = [
        CategoricalColumn(name="a", categories=("k", "l", "m"), other=False),
        CategoricalColumn(name="b", categories=("p", "q"), other=False),
        CategoricalColumn(name="c", categories=("w", "x", "y", "z"), other=False),
    ]
    schema = Schema(columns=columns)  # type: ignore[arg-type]
    parcel = measured(labels={"b": ("q", "p")})
    with pytest.raises(MarginalsynError, match="one order"):
        adopt_parcel(parcel, tmp_path / "r", schema=schema)
    with pytest.raises(MarginalsynError, match="codes"):
        adopt_parcel(measured(), tmp_path / "r", schema=Schema.from_domain({**DOMAIN, "c": 5}))
    with pytest.raises(MarginalsynError, match="alike"):
        adopt_parcel(measured(), tmp_path / "r", schema=Schema(columns=columns[:2]))  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


def test_the_guarantee_is_never_our_own(tmp_path: Path) -> None:
    made = adopt_parcel(measured(), tmp_path / "r")
    statement = made.statement
    assert (statement.eps, statement.charges) == (0.0, ())
    assert "Stated by the pipeline: eps 1, delta 1e-09" in statement.why
    assert "Nothing here has checked it" in statement.why
    unknown = adopt_rows(made.frame(), made.schema, tmp_path / "u")
    assert "unknown" in whose_words(unknown.statement.notes)
    ruled = adopt_rows(made.frame(), made.schema.with_rules(["b = 1 -> c < 2"]), tmp_path / "k")
    broken = int(((made.frame()["b"] == 1) & (made.frame()["c"] >= 2)).sum())
    assert broken > 0
    said = f"rule (b = 1 -> c < 2): {broken:,} of the other tool's rows break it, and stay"
    assert any(line.startswith(said) for line in ruled.statement.warnings)
    assert len(ruled.frame()) == len(made.frame())
    for false in ({"eps": -1.0}, {"eps": "1"}, {"delta": 1.0}, {"sigma": 2.0}, {"rho": True}):
        with pytest.raises(MarginalsynError, match="stated"):
            adopt_rows(made.frame(), made.schema, tmp_path / "f", stated=false)


def test_the_statement_keeps_the_words_after_weights(run: Run, folder: Path) -> None:
    """Only what is done here is charged to the private table's ledger."""
    run("generate", "-q", "--dataset", "heart", "--method", "mst", "--eps", 1, "--rows", 60)
    run("export", "--to", "mbi", "--out", "parcel", "-q")
    told = json.loads(
        run(
            "adopt",
            "parcel",
            "--schema",
            "release/schema.json",
            "--out",
            "taken",
            "--stated-eps",
            3,
            "--stated-by",
            "the office",
            "--json",
        ).stdout
    )
    assert told["rows"] == "drawn here" or told["measurements"]
    before = json.loads(run("ledger", "show", "--dataset", "heart", "--json").stdout)
    run("weight", "taken", "--dataset", "heart", "--method", "beta-noised", "--eps", 0.5, "-q")
    after = json.loads(run("ledger", "show", "--dataset", "heart", "--json").stdout)
    assert len(json.dumps(after)) > len(json.dumps(before))
    statement = Release.read("taken").statement
    assert statement.eps == pytest.approx(0.5)
    assert "Stated by the office: eps 3" in statement.why
    assert "Stated by the office: eps 3" in run("show", "taken").stdout
    run("verify", "taken")
    run("steer", "taken", "--target", "disease=0.5/0.5", "--out", "even", "-q")
    assert "Stated by the office: eps 3" in Release.read("even").statement.why
    run("sample", "taken", "--rows", 5, "--out", "more.csv")
    run("certify", "taken", "--dataset", "heart", "--eps", 0.5, "-q")
    run("verify", "taken")


def test_pickles_and_what_is_no_parcel_are_refused(run: Run, folder: Path) -> None:
    Path("model.pkl").write_bytes(b"\x80\x04.")
    assert "pickle" in run("adopt", "model.pkl", code=2).stderr
    assert "parcel" in run("adopt", "nowhere", code=1).stderr
    Path("rows.csv").write_text("a\n1\n")
    assert "--schema" in run("adopt", "rows.csv", code=2).stderr
