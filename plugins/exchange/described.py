"""The files of a release described for others: CSV on the Web (W3C), and Croissant (MLCommons)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.errors import ReleaseError
from marginalsyn.plugins.exchange.csvw import csvw_column, csvw_context
from marginalsyn.plugins.exchange.formats import Exported
from marginalsyn.release.folder import WEIGHTS
from marginalsyn.release.statement import today

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release

# What Croissant 1.0 asks of a file's ``@context``.
_TERMS = (
    "citeAs column extract field fileProperty fileObject fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace separator "
    "source subField transform"
)
CONFORMS = "http://mlcommons.org/croissant/1.0"
_TYPES = {
    "integer": "sc:Integer",
    "continuous": "sc:Float",
    "date": "sc:Text",
    "datetime": "sc:Text",
    "time": "sc:Text",
}


def summary_of(release: Release) -> str:
    """What the rows are and what they cost, in two sentences; never more than is promised."""
    statement = release.statement
    table = release.schema.title or "a private table"
    if statement.foreign:
        return (
            f"Rows of {table} that another tool made; whoever made them says what they are and "
            "what protects them. privacy.json tells what has been added since."
        )
    rows = f"Synthetic rows of {table}, drawn from noisy statistics by {statement.generator}"
    if not statement.private:
        return f"{rows}. NOT PRIVATE: {statement.why}."
    return f"{rows} and not copied. Differentially private: {statement.total()}; {statement.unit}."


def csvw(release: Release, values: Mapping[str, str]) -> Exported:
    """``csv-metadata.json``: a group of tables, the rows and their weights."""
    if release.frame_file != "synthetic.csv":
        raise ReleaseError(
            f"release ({release.path}) must hold its rows as CSV to be described for the web: "
            "generate it with --format csv"
        )
    tables = [
        {
            "url": release.frame_file,
            "dc:title": release.schema.title or "synthetic rows",
            "dc:description": summary_of(release),
            "tableSchema": {"columns": [_csvw_column(release, n) for n in release.schema.layout]},
        }
    ]
    names = _weight_columns(release)
    if names:
        columns = [
            {"titles": name, "name": f"w{n}", "datatype": "double", "required": True}
            for n, name in enumerate(names)
        ]
        told = "One line a row of synthetic.csv, in its order: weights, and raw log-weights."
        tables.append({"url": WEIGHTS, "dc:description": told, "tableSchema": {"columns": columns}})
    doc: dict[str, Any] = {"@context": csvw_context(), "tables": tables}
    if "license" in values:
        doc["dc:license"] = values["license"]
    return Exported(files={"csv-metadata.json": _text(doc)}, lost=_other_files(release))


def _csvw_column(release: Release, name: str) -> dict[str, Any]:
    schema = release.schema
    if name in schema.names:
        return csvw_column(schema.column(name))
    return csvw_column(next(column for column in schema.made if column.name == name))


def croissant(release: Release, values: Mapping[str, str]) -> Exported:
    """``croissant.json``: the files with their hashes, and a record set of the rows."""
    schema, statement = release.schema, release.statement
    rows = release.frame_file
    doc: dict[str, Any] = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS,
        "name": values.get("name") or schema.title or release.path.name,
        "description": summary_of(release),
        "datePublished": str(statement.created or today()),
        "version": "1.0.0",
        "keywords": ["synthetic data", "differential privacy", statement.generator],
    }
    for name in ("license", "url"):
        if name in values:
            doc[name] = values[name]
    if "creator" in values:
        doc["creator"] = {"@type": "sc:Organization", "name": values["creator"]}
    names = _weight_columns(release)
    kept = [rows, *([WEIGHTS] if names else [])]
    doc["distribution"] = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "encodingFormat": "text/csv" if name.endswith(".csv") else "application/x-parquet",
            "sha256": statement.files[name],
        }
        for name in kept
    ]
    made = {column.name: column for column in schema.made}
    fields = []
    for name in schema.layout:
        column: Any = made[name] if name in made else schema.column(name)
        fields.append(_field("rows", rows, name, _type(column), column.description))
    doc["recordSet"] = [_records("rows", "The synthetic rows.", fields)]
    if names:
        weights = [_field("weights", WEIGHTS, name, "sc:Float", "") for name in names]
        told = "Importance weights, one line a row, in the order of the rows."
        doc["recordSet"].append(_records("weights", told, weights))
    asked = {"license": "the licence", "url": "the address of its page", "creator": "the publisher"}
    lost = [f"{what}: give it with --set {n}=..." for n, what in asked.items() if n not in values]
    return Exported(files={"croissant.json": _text(doc)}, lost=[*lost, *_other_files(release)])


def _type(column: Any) -> str:
    if column.kind == "boolean":
        return "sc:Boolean" if {type(v) for v in column.values} == {bool} else "sc:Text"
    if column.kind == "identifier":
        return "sc:Integer" if column.pattern == "{n}" else "sc:Text"
    if getattr(column, "categories", None):
        whole = {type(value) for value in column.categories} == {int} and not column.has_other
        return "sc:Integer" if whole else "sc:Text"
    # Amounts in a currency, say, are texts in the file.
    return "sc:Text" if getattr(column, "worded", False) else _TYPES.get(column.kind, "sc:Text")


def _field(records: str, file: str, name: str, kind: str, told: str) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "cr:Field", "@id": f"{records}/{name}", "name": name}
    if told:
        found["description"] = told
    source = {"fileObject": {"@id": file}, "extract": {"column": name}}
    return {**found, "dataType": kind, "source": source}


def _records(name: str, told: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"@type": "cr:RecordSet", "@id": name, "name": name, "description": told}
    return {**about, "field": fields}


def _context() -> dict[str, Any]:
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        **{term: f"cr:{term}" for term in _TERMS.split()},
        "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "sc": "https://schema.org/",
    }


def _weight_columns(release: Release) -> list[str]:
    """The names in the head of the file of weights."""
    if release.weights() is None:
        return []
    path: Path = release.path / WEIGHTS
    return [str(name) for name in pd.read_csv(path, nrows=0).columns]


def _other_files(release: Release) -> list[str]:
    told = {release.frame_file, WEIGHTS}
    others = sorted(set(release.statement.files) - told)
    return [f"the files {', '.join(others)}, and what privacy.json says in full"]


def _text(doc: Mapping[str, Any]) -> bytes:
    return (json.dumps(doc, indent=2, ensure_ascii=False) + "\n").encode()
