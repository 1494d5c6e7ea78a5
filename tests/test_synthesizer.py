"""The whole way in scikit-learn's manner."""

from __future__ import annotations

import pickle

import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from marginalsyn import Ledger, Release, Schema, Synthesizer, infer_schema
from marginalsyn.certificates.measured import verify
from marginalsyn.errors import BudgetError, PluginError, SchemaError, UsageError
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema


@pytest.fixture(scope="module")
def frame():
    return example_frame(200)


def make(**changes):
    given = {"method": "independent", "eps": 2, "schema": example_schema(), "seed": 1}
    return Synthesizer(**{**given, **changes})


def test_fit_sample_release(frame, tmp_path):
    synth = make(seed=None)
    assert synth.fit(frame) is synth
    assert len(synth.sample(1000)) == 1000
    assert list(synth.synthetic_.columns) == example_schema().names
    assert synth.privacy_.private
    assert 1.99 < synth.privacy_.eps <= 2
    assert len(synth.measurements_) == 5
    release = synth.release(tmp_path / "out")
    assert verify(release.path) == []
    pd.testing.assert_frame_equal(release.frame(), synth.synthetic_)


def test_values_that_rules_exclude_together_are_warned_of(frame):
    schema = example_schema()
    label, other, *_ = (column for column in schema.columns if not column.numeric)
    value, rest = (repr(text) for text in other.labels()[:2])
    rules = [f"{label.name} = {label.labels()[0]!r} -> {other.name} = {v}" for v in (value, rest)]
    with pytest.warns(UserWarning, match="can occur in no row that keeps the rules"):
        make(schema=schema.with_rules(rules)).fit(frame)


def test_parameters_and_clones():
    synth = make(options={"rows": 10}, neighbours="replace", delta=1e-8)
    copy = clone(synth)
    assert copy is not synth
    assert copy.get_params() == synth.get_params()
    assert set(synth.get_params()) == {
        "accept_nonprivate_schema",
        "allow_large_delta",
        "by",
        "margins",
        "delta",
        "eps",
        "ledger",
        "method",
        "neighbours",
        "options",
        "progress",
        "reference",
        "reference_overlaps",
        "schema",
        "max_rows",
        "seed",
        "unit",
        "void_earlier_promises",
    }
    assert synth.set_params(eps=0.5).eps == 0.5
    with pytest.raises(TypeError):
        Synthesizer("independent")


def test_unfitted_is_said(tmp_path):
    with pytest.raises(NotFittedError):
        make().sample(5)
    with pytest.raises(NotFittedError):
        make().release(tmp_path / "out")


def test_ledger_adds_up_and_caps(frame, tmp_path):
    path = tmp_path / "ledger.jsonl"
    synth = make(ledger=path).fit(frame)
    synth.fit(frame)
    assert Ledger(path).total().rho == pytest.approx(2 * synth.privacy_.rho)
    Ledger(path).set_cap(2)
    with pytest.raises(BudgetError):
        synth.fit(frame)
    assert len(Ledger(path).read().charges) == 2


def test_schema_and_table_from_files(frame, tmp_path):
    example_schema().write(tmp_path / "s.json")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    drawn = [
        make(schema=str(tmp_path / "s.json")).fit(source).synthetic_
        for source in (frame, tmp_path / "t.csv", str(tmp_path / "t.parquet"))
    ]
    pd.testing.assert_frame_equal(drawn[0], drawn[1])
    pd.testing.assert_frame_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"schema": None}, UsageError, "schema .None. must be given"),
        ({"method": "independant"}, PluginError, "Did you mean independent"),
        ({"options": {"rws": 5}}, UsageError, "did you mean 'rows'"),
        ({"eps": -1}, UsageError, "eps"),
        ({"eps": float("nan")}, UsageError, "eps"),
        ({"delta": 1e-3}, UsageError, "delta"),
        ({"neighbours": "bounded"}, UsageError, "neighbours .'bounded'. must be"),
    ],
)
def test_mistakes_are_explained(frame, changes, error, text):
    with pytest.raises(error, match=text):
        make(**changes).fit(frame)


def test_drafted_schema_is_refused(frame):
    data = {**example_schema().model_dump(), "drafted_from_data": True}
    drafted = type(example_schema())(**data)
    with pytest.raises(SchemaError, match="accept_nonprivate_schema=True"):
        make(schema=drafted).fit(frame)
    assert make(schema=drafted, accept_nonprivate_schema=True).fit(frame).privacy_.schema_drafted


def test_layout_mistakes_are_explained(frame):
    with pytest.raises(SchemaError, match="age"):
        make().fit(frame.drop(columns="age"))
    with pytest.raises(SchemaError, match="extra"):
        make().fit(frame.assign(extra=1))


def test_large_delta_must_be_allowed(frame):
    assert make(delta=1e-5, allow_large_delta=True).fit(frame).privacy_.target_delta == 1e-5


FORMS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pytest.importorskip("polars").from_pandas(frame),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("library", FORMS)
def test_frames_of_other_libraries_go_in_and_come_out(library: str) -> None:
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical(["f", "m", None, "f"] * 25, categories=["f", "m", "never"]),
            "kids": pd.array([0, 1, None, 3] * 25, dtype="Int64"),
            "seen": pd.to_datetime(["2020-01-31", "2020-02-29"] * 50),
        }
    )
    schema = Schema(
        columns=(
            {"kind": "categorical", "name": "sex", "categories": ["f", "m"], "nullable": True},
            {"kind": "integer", "name": "kids", "lower": 0, "upper": 3, "nullable": True},
            {"kind": "date", "name": "seen", "lower": "2020-01-01", "upper": "2020-12-31"},
        )
    )
    given = FORMS[library](frame)
    made = Synthesizer(method="independent", eps=50, schema=schema, seed=1).fit(given)
    rows = made.sample(50, seed=2)
    assert type(rows) is type(given)
    assert rows.equals(made.sample(50, seed=2))
    found = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
    assert pd.api.types.is_datetime64_any_dtype(found["seen"].dtype)
    # The categories are the schema's, not those that the private frame lists.
    assert {"f"} <= set(found["sex"].cat.categories) <= {"f", "m", "OTHER"}
    expected = Synthesizer(method="independent", eps=50, schema=schema, seed=1).fit(frame)
    assert expected.sample(50, seed=2)["kids"].astype("Int64").fillna(-1).tolist() == (
        found["kids"].astype("Int64").fillna(-1).tolist()
    )


@pytest.mark.parametrize("library", FORMS)
def test_a_synthesizer_in_a_file_has_no_category_of_the_private_rows(library: str) -> None:
    """A type of categories lists the texts of rows, of columns that are dropped as well."""
    names = pd.Categorical([f"Jane Roe {n}" for n in range(100)])
    given = FORMS[library](pd.DataFrame({"ill": [0, 1] * 50, "name": names}))
    schema = Schema.from_domain({"ill": 2}).model_copy(update={"drop": ("name",)})
    fitted = Synthesizer(method="independent", eps=1, schema=schema).fit(given)
    assert b"Jane Roe" not in pickle.dumps(fitted)


def test_a_synthesizer_in_a_file_has_no_diagnostics_of_the_private_rows(frame) -> None:
    """How often a chain moved is a function of the rows without noise."""
    options = {"rows": 20, "points": 5, "steps": 50, "burn": 5}
    fitted = Synthesizer(method="support-points", eps=1, schema=example_schema(), options=options)
    assert b"acceptance" not in pickle.dumps(fitted.fit(frame))


def test_a_unit_is_named_when_it_is_fitted(frame) -> None:
    persons = frame.assign(person=[f"p{n // 3}" for n in range(len(frame))])
    synth = Synthesizer(
        method="independent", eps=1, schema=example_schema(), unit="person", max_rows=5
    )
    synth.fit(persons)
    assert synth.schema_.unit is not None
    assert (synth.schema_.unit.column, synth.schema_.unit.max_rows) == ("person", 5)
    assert "person" in synth.privacy_.unit
    with pytest.raises(UsageError, match="max_rows"):
        Synthesizer(method="independent", eps=1, schema=example_schema(), unit="person").fit(
            persons
        )


def test_one_consent_to_a_drafted_schema_is_enough(frame, tmp_path) -> None:
    drafted = infer_schema(frame)
    synth = Synthesizer(method="independent", eps=1, schema=drafted, accept_nonprivate_schema=True)
    release = synth.fit(frame).release(tmp_path / "made").weight(eps=0.5, method="beta-noised")
    assert list(release.weights()) == ["beta-noised"]
    # Whoever opens the folder is asked.
    with pytest.raises(SchemaError, match="drafted"):
        Release.read(release.path).weight(frame, eps=0.5, method="rake")
