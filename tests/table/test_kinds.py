"""Columns as people have them: dates, currencies, units, limits, spellings, identifiers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hospital import KINDS, hospital, schema_data
from spellings import CASES, frame, schema

from marginalsyn import Schema, infer_schema
from marginalsyn.drafting.check import check_data
from marginalsyn.errors import SchemaError
from marginalsyn.plugins.audit.testkit.generators import check_rows_alone
from marginalsyn.release.folder import Release
from marginalsyn.sources.source import open_source
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import FrameLayout
from marginalsyn.table.made import ConstantColumn, IdentifierColumn, complete
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.timetext import TimeFormat


@pytest.mark.parametrize("name", CASES)
def test_every_text_means_what_it_says(name: str) -> None:
    fields, texts = CASES[name]
    only = Schema(columns=({"name": name, "nullable": True, **fields},))
    column, rows = only.column(name), pd.DataFrame({name: pd.Series([*texts], dtype=object)})
    if not column.numeric:
        found = Codec(only).conform(rows)[name].astype(object)
        meant = [None if pd.isna(value) else value for value in found]
        assert dict(zip(texts, meant, strict=True)) == texts
        return
    numbers = Codec(only).numbers(rows, name)
    for text, number, wanted in zip(texts, numbers, texts.values(), strict=True):
        if isinstance(column, MomentColumn) and wanted is not None:
            wanted = column.count_of(wanted)
        assert (None if np.isnan(number) else number) == wanted, text


def test_years_of_two_digits_come_back_to_frames_and_are_drafted_as_past_ones() -> None:
    fields, texts = CASES["short"]
    rows = pd.DataFrame({"short": [*texts]})
    given = pd.DataFrame({"short": pd.to_datetime(list(texts.values()))})
    only = Schema(columns=({"name": "short", **fields},))
    filled = FrameLayout(given, given).fill(rows, only)
    assert (filled["short"] == given["short"]).all()
    born = rows.iloc[30:].rename(columns={"short": "born"})
    assert infer_schema(born).column("born").model_dump()["lower"] == "1930-01-01"


def test_rows_of_the_kinds_come_back_as_they_were_coded() -> None:
    codec, rng = Codec(schema()), np.random.default_rng(0)
    sizes = np.array([*schema().domain.values()])
    codes = (rng.random((4000, len(sizes))) * sizes).astype(np.int32)
    rows = codec.decode(codes, rng)
    np.testing.assert_array_equal(codec.encode(rows), codes)
    pd.testing.assert_frame_equal(codec.conform(rows), rows)
    assert Schema.from_json(schema().to_json()) == schema()
    # A value beyond a limit of detection is known as such, and not where it is.
    apart = Codec(schema().select([name for name in schema().names if name != "limits"]))
    points = apart.unit(rows.iloc[:100])
    np.testing.assert_allclose(apart.unit(apart.from_unit(points)), points, atol=1e-3)


def test_every_row_of_the_kinds_is_encoded_alone(tmp_path: Path) -> None:
    # Which rows are held out is decided by their texts, before any kind is read.
    check_rows_alone(lambda rows: rows, frame().iloc[:2], schema(), share=0)


def test_periods_are_those_of_the_calendar() -> None:
    def labels(**fields: Any) -> list[str]:
        column = {"kind": "date", "name": "d", "lower": "2019-12-30", "upper": "2020-04-02"}
        return Schema(columns=({**column, **fields},)).column("d").labels()

    assert labels(bins="month") == [
        "2019-12-30 to 2019-12-31",
        *("2020-01", "2020-02", "2020-03", "2020-04-01 to 2020-04-02"),
    ]
    assert labels(bins="quarter")[1] == "2020-01-01 to 2020-03-31"
    assert labels(bins="year", upper="2021-12-31")[1:] == ["2020", "2021"]
    assert labels(bins="week")[0] == "2019-12-30 to 2020-01-05"
    assert len(labels(bins="day")) == 95
    assert len(labels(bins=4)) == 4
    assert labels(bins=["2020-01-15"])[1] == "2020-01-15 to 2020-04-02"
    assert len(labels()) == 14  # "auto": the finest period of at most 48 bins, here weeks


def test_values_beyond_a_limit_of_detection_keep_a_bin_of_their_own() -> None:
    only = schema().select(["limits"])
    assert only.column("limits").labels() == [
        *("[0, 0.3)", "[0.3, 1)", "[1, 10)", "[10, 100)", "[100, 200.1)", "[200.1, 500]"),
        "missing",
    ]
    rows = Codec(only).decode(np.array([[0], [5], [6]]), np.random.default_rng(0))
    assert rows["limits"].tolist()[:2] == ["<0.3", ">200"]
    assert rows["limits"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "date", "lower": 2010, "upper": 2020}, r"lower \(2010\) must be an ISO text"),
        ({"kind": "date", "lower": "1.2.2020", "upper": "2020-01-01"}, "must be an ISO text"),
        ({"kind": "date", "lower": "2020-01-01", "upper": "2020-02-01", "format": "%Y"}, "%d.%m"),
        ({"kind": "date", "lower": "2020-01-02", "upper": "2020-01-01"}, "must not be above"),
        ({"kind": "date", "lower": "2020-01-01", "upper": "2020-02-01", "format": "%Q"}, "%Q is"),
        ({"kind": "time", "lower": "08:00", "upper": "09:00", "bins": "moon"}, "must be 'auto'"),
        ({"kind": "integer", "lower": 0, "upper": 9, "below": 10}, "between lower and upper"),
        ({"kind": "integer", "lower": 0, "upper": 9, "format": {"decimal": "5"}}, "one sign"),
        ({"kind": "categorical", "categories": ["a"], "synonyms": {"b": "c"}}, "stand for one of"),
        ({"kind": "identifier", "pattern": "P"}, "must have one of"),
    ],
)
def test_mistakes_in_a_kind_are_said_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema(columns=({"name": "x", **fields}, {"kind": "boolean", "name": "other"}))


def test_misspelt_fields_and_kinds_are_answered_with_the_right_ones() -> None:
    with pytest.raises(SchemaError, match=r"binz .* did you mean 'bins'"):
        Schema(columns=({"kind": "integer", "name": "x", "lower": 0, "upper": 1, "binz": 1},))
    with pytest.raises(SchemaError, match=r"'tim'.* did you mean 'time'"):
        Schema(columns=({"kind": "tim", "name": "x"},))
    with pytest.raises(SchemaError, match="it is missing; 'knd' is no field"):
        Schema(columns=({"knd": "boolean", "name": "x"},))
    with pytest.raises(SchemaError, match=r"lable .* did you mean 'label'"):
        Schema(columns=({"kind": "boolean", "name": "x"},), lable="x")
    with pytest.raises(SchemaError, match="did you mean 'day'"):
        schema().column("dya")


def test_a_format_knows_its_parts() -> None:
    style = TimeFormat("%d.%m.%Y %H:%M")
    assert (style.dated, style.timed, style.seconds) == (True, True, 60)
    assert TimeFormat("%H:%M%z").places == {"H": 1, "M": 2, "z": 3}
    # Engines count groups up to nine.
    long = TimeFormat("%a %d %b %Y %I:%M:%S.%f %p %z")
    assert max(long.places.values()) == 8
    only = Schema(
        columns=(
            {
                "kind": "datetime",
                "name": "d",
                "lower": "2020-01-01",
                "upper": "2020-12-31",
                "format": long.text,
            },
        )
    )
    rows = pd.DataFrame({"d": ["Wed 01 Jan 2020 01:02:03.25 PM +01:00"]})
    assert Codec(only).numbers(rows, "d").tolist() == [1577836800 + 12 * 3600 + 2 * 60 + 3]


def test_made_columns_stand_at_their_place_in_files_and_cost_nothing() -> None:
    columns = (
        IdentifierColumn(name="id", pattern="{uuid}"),
        {"kind": "boolean", "name": "a"},
        ConstantColumn(name="note"),
        {"kind": "boolean", "name": "b"},
    )
    made = Schema(columns=columns, drop=("c",), drop_reasons={"c": "free text"})
    assert (made.names, made.layout) == (["a", "b"], ["id", "a", "note", "b"])
    assert made.left_out == {"id", "note", "c"}
    assert Schema.from_json(made.to_json()) == made == Schema(**made.model_dump())
    assert [c["name"] for c in json.loads(made.to_json())["columns"]] == made.layout
    rows = complete(pd.DataFrame({"a": [True, False], "b": [True, True]}), made)
    assert rows.columns.tolist() == made.layout
    assert rows["id"].is_unique
    assert rows["note"].isna().all()
    assert made.select(["b"]).layout == ["id", "b", "note"]
    with pytest.raises(SchemaError, match="distinct"):
        Schema(columns=(*columns, {"kind": "boolean", "name": "ID"}))


def test_a_schema_without_new_fields_is_written_as_before() -> None:
    old = Schema.from_domain({"a": 3})
    assert json.loads(old.to_json()) == {
        "version": 1,
        "title": "",
        "warning": None,
        "drafted_from_data": False,
        "label": None,
        "positive": None,
        "drop": [],
        "missing_tokens": list(old.missing_tokens),
        "impossible": [],
        "columns": [
            {
                "name": "a",
                "kind": "integer",
                "nullable": False,
                "description": "",
                "lower": 0,
                "upper": 2,
                "bins": 3,
            }
        ],
    }


def test_the_hospital_s_file_goes_all_the_way(tmp_path: Path, run: Any) -> None:
    """generate and verify; the rows are spelt as they came."""
    text, truth = hospital(800)
    (tmp_path / "hospital.csv").write_text(text)
    public = Schema(**schema_data(truth))
    assert {c.name: c.kind for c in (*public.columns, *public.made)} == {
        **KINDS,
        "own_share": "integer",
    }
    public.write(tmp_path / "public.json")
    changes = check_data(open_source(tmp_path / "hospital.csv", sep=";", **public.reading), public)
    assert [check.name for check in changes if check.notes()] == []
    for name in ("age", "bmi", "crp", "smoker", "severity", "discharged_at"):
        missing = next(check.missing for check in changes if check.name == name)
        assert missing == truth[name].isna().sum(), name
    source = ("--data", "hospital.csv", "--sep", ";", "--schema", "public.json")
    run("generate", *source, "--eps", "4", "--method", "independent", "--holdout", "0.2")
    run("verify")
    release = Release.read(tmp_path / "release")
    raw = pd.read_csv(release.path / "synthetic.csv", dtype=str, keep_default_na=False)
    assert list(raw.columns) == list(KINDS)
    shapes = {
        "patient_id": "P-[0-9]{6}",
        "admitted": r"\d\d\.\d\d\.\d{4}",
        "discharged_at": r"(\d{4}-\d\d-\d\d \d\d:\d\d)?",
        "seen": r"\d\d:\d\d",
        "age": r"\d*",
        "zip": r"\d{5}|OTHER",
        "bmi": r"(\d+,\d)?",
        "weight": r"\d+,\d kg",
        "crp": r"(<0,3|\d+,\d)?",
        "cost": r"\$ (\d{1,3},)?\d{1,3}\.\d\d",
        "own_share": r"\d+ %",
        "notes": r"\(removed\)",
    }
    for name, shape in shapes.items():
        assert raw[name].str.fullmatch(shape).all(), name
    for name in ("age", "bmi", "crp", "smoker"):
        missing = (raw[name] == "").mean()
        assert abs(missing - truth[name].isna().mean()) < 0.06, name
