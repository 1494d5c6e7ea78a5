"""Releases where authorities and search engines look: the registry, CSV on the Web, Croissant."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from marginalsyn import Release, Synthesizer, datasets
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.operations.other_rows import adopt_rows
from marginalsyn.plugins.exchange.drafts import write_yaml
from marginalsyn.plugins.exchange.export import export
from marginalsyn.plugins.exchange.schemas import import_schema

yaml = pytest.importorskip("yaml")

SCHEMA = Path(__file__).parent / "registry" / "deployments-schema.yaml"
GIVEN = {"curator": "Clinic", "use": "teaching", "region": "Switzerland"}


def misfits(value: Any, rule: dict[str, Any], path: str = "record") -> list[str]:
    """What breaks a JSON schema, of the keywords that the registry's has."""
    known = {"type", "properties", "additionalProperties", "required", "enum", "items", "minItems",
             "format", "tier", "description", "description_long"}  # fmt: skip
    assert set(rule) <= known, set(rule) - known
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
    asked = rule.get("type", [])
    asked = [asked] if isinstance(asked, str) else asked
    if asked and not any(isinstance(value, kinds[kind]) for kind in asked):
        return [f"{path} is no {asked}"]
    found = []
    if "enum" in rule and value not in rule["enum"]:
        found.append(f"{path} ({value}) is none of {rule['enum']}")
    if rule.get("format") == "date":
        datetime.date.fromisoformat(value)
    if isinstance(value, dict):
        parts = rule.get("properties", {})
        found += [f"{path} lacks {name}" for name in rule.get("required", []) if name not in value]
        for name, item in value.items():
            if name in parts:
                found += misfits(item, parts[name], f"{path}.{name}")
            elif rule.get("additionalProperties") is False:
                found.append(f"{path}.{name} is unknown")
    if isinstance(value, list):
        found += [f"{path} is too short"] if len(value) < rule.get("minItems", 0) else []
        for item in value:
            found += misfits(item, rule["items"], f"{path}[]")
    return found


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    heart = datasets.load("heart")
    synth = Synthesizer(eps=1.5, schema=heart.schema, options={"rows": 60}).fit(heart.train)
    return synth.release(tmp_path_factory.mktemp("described") / "r").weight(
        method="beta-noised", eps=0.5
    )


def record_of(release: Release, **values: str) -> dict[str, Any]:
    (text,) = release.export("registry", values=values).files.values()
    return yaml.safe_load(text.decode())


def test_a_record_is_what_the_registry_takes(release: Release, schema: dict[str, Any]) -> None:
    assert misfits({"tier": 4}, schema), "the check can fail"
    record = record_of(release, **GIVEN, sector="Healthcare", source="https://example.org")
    assert misfits(record, schema) == []
    assert "TODO" not in json.dumps(record)
    assert record["tier"] == 3
    parts = record["deployment"]
    asked = schema["properties"]["deployment"]["properties"]
    for name, part in asked.items():
        lacking = set(part["properties"]) - set(parts[name])
        assert lacking <= {"data_source_type_details"}, f"{name} lacks {lacking}"
    assert parts["basic"]["data_product_type"] == "Synthetic data"
    assert parts["basic"]["publication_date"] == str(release.statement.created)
    numbers = parts["privacy_loss"]["privacy_parameters"]
    total = release.statement.total()
    assert (numbers["epsilon"], numbers["delta"]) == (total.eps, total.delta)
    assert numbers.get("rho") == total.rho
    assert parts["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    for charge in release.statement.charges:
        assert str(charge.cost) in parts["accounting"]["composition"]
    assert "beta-noised" in parts["accounting"]["post_processing"]


def test_what_only_the_curator_knows_is_marked(release: Release, schema: dict[str, Any]) -> None:
    made = release.export("registry")
    record = record_of(release)
    assert misfits(record, schema) == []
    assert len(made.lost) == 3
    assert json.dumps(record["deployment"]["basic"]).count("TODO") == 3
    with pytest.raises(UsageError, match="sector"):
        release.export("registry", values={"sector": "Sport"})
    with pytest.raises(UsageError, match="must be one of: curator"):
        release.export("registry", values={"curators": "x"})


def test_a_record_never_claims_what_is_not_so(folder: Path) -> None:
    heart = datasets.load("heart")
    made = Synthesizer(eps=1, schema=heart.schema, options={"rows": 9}, seed=1).fit(heart.train)
    with pytest.raises(ReleaseError, match="must be private to be registered"):
        made.release("seeded").export("registry")
    for form in ("csvw", "croissant"):
        (text,) = Release.read("seeded").export(form).files.values()
        assert b"NOT PRIVATE" in text
    adopted = adopt_rows(heart.train.head(20), heart.schema, "adopted")
    for form in ("csvw", "croissant"):
        (text,) = export(adopted, form).files.values()
        assert b"another tool made" in text
        assert b"Differentially private" not in text
    with pytest.raises(ReleaseError, match="another tool's"):
        export(adopted, "registry")
    drafted = type(heart.schema)(**{**heart.schema.model_dump(), "drafted_from_data": True})
    synth = Synthesizer(eps=1, schema=drafted, accept_nonprivate_schema=True, neighbours="replace")
    record = record_of(synth.fit(heart.train).release("drafted"))
    open_ = record["deployment"]["dp_variant"]["unprotected_quantities"]
    assert "DRAFTED FROM THE PRIVATE ROWS" in open_
    assert "number of rows is public" in open_


def test_csv_on_the_web_describes_both_files(release: Release, tmp_path: Path) -> None:
    made = release.export("csvw", values={"license": "https://example.org/l"})
    doc = json.loads(made.files["csv-metadata.json"])
    assert doc["@context"] == "http://www.w3.org/ns/csvw"
    rows, weights = doc["tables"]
    for table in (rows, weights):
        head = (release.path / table["url"]).read_text(encoding="utf-8").splitlines()[0]
        columns = table["tableSchema"]["columns"]
        assert [column["titles"] for column in columns] == head.split(",")
        names = [column["name"] for column in columns]
        assert len(set(names)) == len(names)
        assert not any(name.startswith("_") for name in names)
    (tmp_path / "m.json").write_text(json.dumps(doc), encoding="utf-8")
    back = import_schema(tmp_path / "m.json", table="synthetic.csv", values=_open(release)).schema
    assert back.names == release.schema.names
    assert [c.kind for c in back.columns if c.kind == "integer"]
    assert "model.npz" in made.lost[-1]


def _open(release: Release) -> dict[str, list[str]]:
    """The columns whose categories CSV on the Web cannot list, since others may come."""
    columns = [c for c in release.schema.columns if c.has_other]
    return {c.name: [str(v) for v in c.values] for c in columns}  # type: ignore[union-attr]


def test_croissant_has_what_its_version_asks_for(release: Release) -> None:
    given = {"license": "https://example.org/l", "url": "https://example.org", "creator": "Clinic"}
    doc = json.loads(release.export("croissant", values=given).files["croissant.json"])
    required = {"@context", "@type", "conformsTo", "description", "license", "name", "url",
                "creator", "datePublished"}  # fmt: skip
    assert required <= set(doc)
    assert doc["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    files = {one["@id"]: one for one in doc["distribution"]}
    for name, one in files.items():
        assert one["sha256"] == release.statement.files[name]
    rows, weights = doc["recordSet"]
    assert [field["name"] for field in rows["field"]] == list(release.frame())
    for records in (rows, weights):
        ids = [field["@id"] for field in records["field"]]
        assert len(set(ids)) == len(ids)
        assert all(f["source"]["fileObject"]["@id"] in files for f in records["field"])
    assert len(release.export("croissant").lost) == 4


@pytest.mark.parametrize("value", [1e-9, 1e-05, 0.5, 1e300, 3, 'a: b # c\n"x"', "1e-9", True, None])
def test_numbers_and_texts_survive_our_yaml(value: Any) -> None:
    doc = {"a b": {"x": [value, {"y": value}]}, "z": value, "empty": []}
    assert yaml.safe_load(write_yaml(doc)) == doc


def test_the_command(run, folder: Path, people: Path, schema: dict[str, Any]) -> None:
    run("generate", "--data", people, "--schema", "people.json", "--eps", 1, "--method",
        "independent", "-q")  # fmt: skip
    options = [f"--set={name}={value}" for name, value in GIVEN.items()]
    run("export", "--to", "registry", *options, "--out", "record.yaml")
    record = yaml.safe_load(Path("record.yaml").read_text(encoding="utf-8"))
    assert misfits(record, schema) == []
    assert record["deployment"]["basic"]["data_curators"] == ["Clinic"]
    lacking = run("export", "--to", "registry")
    assert "give it with --set curator=" in lacking.stderr
    assert json.loads(run("export", "--to", "croissant").stdout)["@type"] == "sc:Dataset"
    assert "registry" in run("export", "--list").stdout
