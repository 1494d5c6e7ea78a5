"""Schemas in the formats of others: what comes in, what goes out, and what comes back."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Literal

import pandas as pd
import pydantic
import pytest

from marginalsyn import Schema, datasets
from marginalsyn.errors import SchemaError, UsageError
from marginalsyn.plugins.audit.testkit.generators import example_schema
from marginalsyn.plugins.exchange.schemas import WRITTEN, export_schema, import_schema

yaml = pytest.importorskip("yaml")


def own(**fields: object) -> Schema:
    column = {"kind": "categorical", "name": "c", "categories": ["a", "b"]}
    return Schema(**{"columns": [column], **fields})


def one(**about: object) -> Schema:
    return own(columns=[{"name": "x y/ä", **about}])


TWENTY = {
    **{name: datasets.schema(name) for name in datasets.names()[:6]},
    "example": example_schema(),
    "title and label": own(title="T: «x»", label="c", positive="a", drop=("id",)),
    "tokens": own(missing_tokens=("", "-9")),
    "impossible": own(impossible=[{"c": ["a"]}]),
    "drafted": own(drafted_from_data=True),
    "closed": one(kind="categorical", categories=["a|b", "(c)", "d.e"], other=False),
    "numbers as categories": one(kind="categorical", categories=[1, 2, 3], other_label=9),
    "ordinal": one(kind="ordinal", categories=["low", "mid", "high"], nullable=True),
    "edges": one(kind="integer", lower=0, upper=99, bins=[10, 20, 50], description="years"),
    "one integer": one(kind="integer", lower=3, upper=3),
    "decimals": one(kind="continuous", lower=-1.5, upper=2.25, bins=7, decimals=2, nullable=True),
    "labels": one(kind="boolean", true_label="yes", false_label="no"),
    "date": one(kind="date", lower="2020-01-01", upper="2020-12-31", format="%d.%m.%Y"),
    "datetime": one(kind="datetime", lower="2020-01-01", upper="2020-01-31", bins="day"),
    "time": one(kind="time", lower="08:00", upper="17:59", format="%H:%M"),
    "codes": Schema.from_domain({"age": 85, "sex": 2}),
}


def stored(schema: Schema, format: str, folder: Path) -> Path:
    path = folder / f"s.{'yaml' if WRITTEN[format].yaml else 'json'}"
    path.write_text(export_schema(schema, format).text, encoding="utf-8")
    return path


@pytest.mark.parametrize("format", [name for name in WRITTEN if name != "mbi"])
def test_a_schema_comes_back_exactly(format: str, tmp_path: Path) -> None:
    for name, schema in TWENTY.items():
        found = import_schema(stored(schema, format, tmp_path))
        assert found.format == format, name
        assert found.exact, name
        assert found.schema.to_json() == schema.to_json(), name


def test_a_domain_comes_back_where_codes_are_all_there_is(tmp_path: Path) -> None:
    written = export_schema(TWENTY["codes"], "mbi")
    assert json.loads(written.text) == {"age": 85, "sex": 2}
    assert written.lost == []
    assert import_schema(stored(TWENTY["codes"], "mbi", tmp_path)).schema == TWENTY["codes"]
    assert "ill" in export_schema(example_schema(), "mbi").lost[0]


@pytest.mark.parametrize("format", ["frictionless", "csvw", "sdv"])
def test_a_file_that_was_changed_is_read_as_it_stands(format: str, tmp_path: Path) -> None:
    path = stored(TWENTY["labels"], format, tmp_path)
    text = path.read_text(encoding="utf-8")
    doc = json.loads(text)
    at = {
        "frictionless": lambda: doc["fields"][0],
        "csvw": lambda: doc["tableSchema"]["columns"][0],
        "sdv": lambda: doc["tables"]["table"]["columns"],
    }[format]()
    if format == "sdv":
        at["new"] = {"sdtype": "boolean"}
    else:
        at["titles" if format == "csvw" else "name"] = "new"
    path.write_text(json.dumps(doc), encoding="utf-8")
    found = import_schema(path, values={"x y/ä": ("yes", "no")} if format == "sdv" else {})
    assert not found.exact
    assert "new" in found.schema.names


def test_what_a_format_says_by_itself(tmp_path: Path) -> None:
    """Without our extensions, bounds and categories still come through where words exist."""
    schema = Schema(
        columns=[
            {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "nullable": True},
            {"kind": "categorical", "name": "ward", "categories": ["A", "B"], "other": False},
            {"kind": "boolean", "name": "ill"},
        ]
    )
    for format in ("frictionless", "csvw", "pandera", "dpsynth"):
        text = export_schema(schema, format).text
        if WRITTEN[format].yaml:
            path = tmp_path / "s.yaml"
            path.write_text(text.split("\n", 1)[1], encoding="utf-8")
        else:
            doc = json.loads(text)
            for extension in ("_marginalsyn", "notes"):
                doc.pop(extension, None)
            path = tmp_path / "s.json"
            path.write_text(json.dumps(doc), encoding="utf-8")
        found = import_schema(path)
        assert not found.exact
        assert found.schema.columns == schema.columns, format


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def test_dpsynth_as_its_repository_writes_it(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "domain.yaml",
        "age:\n  clip_to_range: true\n  dtype: int\n  max_value: 50.0\n  min_value: 10.0\n"
        "gender:\n  out_of_domain_index: 0\n  possible_values:\n  - M\n  - F\n"
        "job:\n  possible_values: [a, b, Unknown]\n  out_of_domain_index: 2\n"
        "note:\n  type: FreeFormTextAttribute\n  max_tokens: 9\n",
    )
    found = import_schema(path)
    assert found.format == "dpsynth"
    age, gender, job = found.schema.columns
    assert (age.kind, age.lower, age.upper) == ("integer", 10, 50)
    assert (gender.categories, gender.other) == (("M", "F"), False)
    assert (job.categories, job.other_label) == (("a", "b"), "Unknown")
    assert found.schema.drop == ("note",)
    assert "free text" in found.notes[0]


def test_sdv_asks_for_what_it_does_not_know(tmp_path: Path) -> None:
    columns = {
        "id": {"sdtype": "id", "regex_format": "G_[0-9]{3}"},
        "fee": {"sdtype": "numerical", "computer_representation": "Float"},
        "size": {"sdtype": "numerical", "computer_representation": "UInt8"},
        "room": {"sdtype": "categorical"},
        "vip": {"sdtype": "boolean"},
        "day": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
    }
    doc = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}
    path = write(tmp_path, "metadata.json", doc)
    with pytest.raises(SchemaError) as caught:
        import_schema(path)
    for text in ("columns.fee: --bounds fee=0:100", "--values room=A,B,C", "columns.day: --bounds"):
        assert text in str(caught.value)
    assert "size" not in str(caught.value)
    found = import_schema(
        path,
        bounds={"fee": (0, 500), "day": ("2020-01-01", "2020-12-31")},
        values={"room": ("a", "b")},
        label="vip",
    )
    assert found.schema.names == ["fee", "size", "room", "vip", "day"]
    assert found.schema.drop == ("id",)
    assert found.schema.label == "vip"


class Ward(enum.Enum):
    A = "a"
    B = "b"


class Patient(pydantic.BaseModel):
    age: int = pydantic.Field(ge=0, lt=120, description="in years")
    share: float = pydantic.Field(ge=0, le=1)
    ward: Ward
    pain: Literal["none", "some"] | None = None
    ill: bool


def test_pydantic_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = import_schema(Patient)
    age, share, ward, pain, ill = found.schema.columns
    assert (age.lower, age.upper, age.description) == (0, 119, "in years")
    assert (share.kind, share.upper) == ("continuous", 1)
    assert ward.categories == ("a", "b")
    assert (pain.categories, pain.nullable) == (("none", "some"), True)
    assert ill.kind == "boolean"
    path = write(tmp_path, "patient.json", Patient.model_json_schema())
    assert import_schema(path).schema == found.schema
    monkeypatch.chdir(tmp_path)
    code = "import pydantic\nclass P(pydantic.BaseModel):\n    ill: bool\n"
    write(tmp_path, "own_models_of_a_test.py", code)
    assert import_schema("own_models_of_a_test:P").schema.names == ["ill"]
    with pytest.raises(UsageError, match="can be imported"):
        import_schema("own_models_of_a_test:Q")


class Check:
    def __init__(self, name: str, **statistics: object) -> None:
        self.name, self.statistics = name, statistics


def test_pandera_objects_and_both_shapes_of_its_yaml(tmp_path: Path) -> None:
    class Column:
        def __init__(self, dtype: str, *checks: Check) -> None:
            self.dtype, self.checks, self.nullable = dtype, checks, False
            self.unique, self.description = False, None

    class Model:
        title = None
        columns = {
            "age": Column("int64", Check("in_range", min_value=0, max_value=99)),
            "ward": Column("str", Check("isin", allowed_values=["a", "b"])),
            "odd": Column("float64", Check("ge", min_value=0), Check("le", max_value=9)),
        }

    found = import_schema(Model(), format="pandera").schema
    assert [c.kind for c in found.columns] == ["integer", "categorical", "continuous"]
    text = (
        "schema_type: dataframe\nversion: 0.26.0\ncolumns:\n  age:\n    dtype: int64\n"
        "    nullable: false\n    checks:\n    - value: 0\n      options:\n"
        "        check_name: greater_than_or_equal_to\n    - value: 99\n      options:\n"
        "        check_name: less_than_or_equal_to\n"
    )
    newer = import_schema(write(tmp_path, "p.yaml", text)).schema
    assert (newer.columns[0].lower, newer.columns[0].upper) == (0, 99)


@pytest.mark.parametrize("format", WRITTEN)
def test_a_draft_stays_one_in_the_format_of_another(format: str, tmp_path: Path) -> None:
    """An edit of the file makes it be read as it stands, and must not make it public."""
    column = {"kind": "categorical", "name": "before", "categories": ["a", "b"]}
    draft = own(columns=[column], drafted_from_data=True)
    if format == "mbi":
        with pytest.raises(SchemaError, match="drafted_from_data"):
            export_schema(draft, format)
        return
    path = stored(draft, format, tmp_path)
    text = path.read_text()
    if path.suffix == ".yaml":
        first, rest = text.split("\n", 1)
        path.write_text(first + "\n" + rest.replace("before", "after"))
    else:
        ours = {k: v for k, v in json.loads(text).items() if "marginalsyn" in json.dumps(v)}
        rest = {k: v for k, v in json.loads(text).items() if k not in ours}
        path.write_text(json.dumps(json.loads(json.dumps(rest).replace("before", "after")) | ours))
    found = import_schema(path, values={"after": ["a"]})
    assert found.schema.names == ["after"]
    assert found.schema.drafted_from_data


def test_types_of_arrow_sql_and_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2], "w": pd.Categorical(["a", "b"]), "b": [True, False]})
    frame.to_parquet(tmp_path / "t.parquet")
    bounds, values = {"n": (0, 9)}, {"w": ("a", "b", "c")}
    found = import_schema(tmp_path / "t.parquet", bounds=bounds, values=values).schema
    assert [c.kind for c in found.columns] == ["integer", "categorical", "boolean"]
    with pytest.raises(SchemaError, match="--values w"):
        import_schema(tmp_path / "t.parquet", bounds=bounds)
    drafted = import_schema(frame, bounds=bounds)
    assert drafted.schema.drafted_from_data
    assert drafted.schema.column("w").categories == ("a", "b")
    # Who lists them has seen them; a flag would vouch for whatever rows the frame was made of.
    assert not import_schema(frame, bounds=bounds, values=values).schema.drafted_from_data
    assert not import_schema(frame, bounds=bounds, drop=["w"]).schema.drafted_from_data
    sql = write(
        tmp_path,
        "t.sql",
        "CREATE TABLE p (id INTEGER PRIMARY KEY, age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99),"
        " ward VARCHAR(3) CHECK (ward IN ('a', 'b')), ok BOOLEAN NOT NULL, d DATE);"
        "CREATE TABLE q (x INTEGER);",
    )
    with pytest.raises(SchemaError, match="p, q"):
        import_schema(sql)
    made = import_schema(sql, table="p", bounds={"d": ("2020-01-01", "2020-12-31")}).schema
    assert made.drop == ("id",)
    age, ward, ok, day = made.columns
    assert (age.lower, age.upper, age.nullable) == (0, 99, False)
    assert (ward.categories, ward.nullable, ok.kind, day.kind) == (
        ("a", "b"),
        True,
        "boolean",
        "date",
    )


BAD = {
    "{": "must be JSON",
    "[]": "one of these formats",
    '{"fields": [{"name": 3}]}': r"fields\[0\].name .3. must be a text",
    '{"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": "x"}}]}': (
        r"fields\[0\].constraints.minimum .'x'. must be a number"
    ),
    '{"fields": [{"name": "a", "type": "boolean"}, {"name": "a", "type": "boolean"}]}': "twice",
    '{"METADATA_SPEC_VERSION": "V9", "columns": {}}': "METADATA_SPEC_VERSION .'V9'. must be one of",
    '{"METADATA_SPEC_VERSION": "V1", "tables": {"a": {}, "b": {}}}': "--table is one of a, b",
    '{"tableSchema": {"columns": 5}}': "tableSchema.columns .5. must be a list",
    '{"age": 0}': "at least 1",
    '{"a": {"type": "CategoricalAttribute", "possible_values": [[1]]}}': r"possible_values\[0\]",
    '{"schema_type": "dataframe", "columns": {"a": 3}}': "columns.a .3. must be an object",
    '{"properties": {"a": {"$ref": "#/$defs/X"}}}': "definition",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused_with_the_place(text: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=BAD[text]) as caught:
        import_schema(write(tmp_path, "bad.json", text))
    assert "bad.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"a: [", b"- 1\n" * 3])
def test_bytes_that_are_no_schema(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(SchemaError):
        import_schema(tmp_path / "bad.yaml")
    with pytest.raises(SchemaError, match="must be readable"):
        import_schema(tmp_path / "nowhere.json")


def test_the_commands(run, folder: Path) -> None:
    example_schema().write("s.json")
    shown = run("schema", "export", "s.json", "--to", "sdv", "--out", "sdv.json")
    assert "sdv cannot say: bounds of age, income" in shown.stderr
    run("schema", "import", "sdv.json", "--out", "back.json")
    assert Schema.read("back.json") == example_schema()
    assert "already" not in run("schema", "import", "sdv.json").stdout
    refused = run("schema", "import", "sdv.json", "--bounds", "age=0:9", code=2)
    assert "whole schema" in refused.output
    domain = write(folder, "d.json", {"METADATA_SPEC_VERSION": "V1", "tables": {"t": {"columns": {
        "age": {"sdtype": "numerical"}, "w": {"sdtype": "categorical"}}}}})  # fmt: skip
    lacking = run("schema", "import", domain, code=2)
    assert "--bounds age=0:100" in lacking.output
    made = run("schema", "import", domain, "--bounds", "age=0:120", "--values", "w=A,B")
    assert json.loads(made.stdout)["columns"][0]["upper"] == 120
    assert (
        "must look like age=0:120"
        in run("schema", "import", domain, "--bounds", "age", code=2).output
    )
