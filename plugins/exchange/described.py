"""The files of a release described for others: CSV on the Web (W3C), and Croissant (MLCommons)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.libraries import version
from marginalsyn.plugins.exchange.drafts import write_yaml
from marginalsyn.plugins.exchange.export import Exported
from marginalsyn.plugins.exchange.web import CSVW_CONTEXT, csvw_column
from marginalsyn.release.folder import WEIGHTS, Release
from marginalsyn.release.statement import Statement, today
from marginalsyn.table.frames import PLAIN_TEXT

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
            "what protects them. privacy.json says what has been added since."
        )
    rows = f"Synthetic rows of {table}, drawn from noisy statistics by {statement.generator}"
    if not statement.private:
        return f"{rows}. NOT PRIVATE: {statement.why}."
    return f"{rows} and not copied. Differentially private: {statement.total()}; {statement.unit}."


# Names of encodings in the web's standards, where a schema has others.
_ON_THE_WEB = {"latin-1": "iso-8859-1", "cp1252": "windows-1252"}


def csvw(release: Release, values: Mapping[str, str]) -> Exported:
    """``csv-metadata.json``: a group of tables, the rows and their weights."""
    if release.frame_file != "synthetic.csv":
        raise ReleaseError(
            f"release ({release.path}) must hold its rows as CSV to be described for the web: "
            "generate it with --format csv"
        )
    every = {column.name: column for column in (*release.schema.columns, *release.schema.made)}
    tables: list[dict[str, Any]] = [
        {
            "url": release.frame_file,
            "dc:title": release.schema.title or "synthetic rows",
            "dc:description": summary_of(release),
            "tableSchema": {"columns": [csvw_column(every[n]) for n in release.schema.layout]},
        }
    ]
    if (form := release.text_form) != PLAIN_TEXT:
        encoding = _ON_THE_WEB.get(form.encoding, form.encoding)
        tables[0]["dialect"] = {"delimiter": form.sep, "encoding": encoding}
    names = _weight_columns(release)
    if names:
        columns = [
            {"titles": name, "name": f"w{n}", "datatype": "double", "required": True}
            for n, name in enumerate(names)
        ]
        about = "One line a row of synthetic.csv, in its order: the recommended weights."
        shape = {"columns": columns}
        tables.append({"url": WEIGHTS, "dc:description": about, "tableSchema": shape})
    doc: dict[str, Any] = {"@context": CSVW_CONTEXT, "tables": tables}
    if "license" in values:
        doc["dc:license"] = values["license"]
    return Exported(files={"csv-metadata.json": _text(doc)}, lost=_other_files(release))


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
        description = "Importance weights, one line a row, in the order of the rows."
        doc["recordSet"].append(_records("weights", description, weights))
    asked = {"license": "the licence", "url": "the address of its page", "creator": "the publisher"}
    lost = [f"{what}: give it with --set {n}=..." for n, what in asked.items() if n not in values]
    if release.text_form != PLAIN_TEXT:
        lost.append("the separator and the encoding of the rows, which README.md says")
    return Exported(files={"croissant.json": _text(doc)}, lost=[*lost, *_other_files(release)])


def _type(column: Any) -> str:
    if column.kind == "boolean":
        return "sc:Boolean" if {type(v) for v in column.values} == {bool} else "sc:Text"
    if column.kind == "identifier":
        return "sc:Integer" if column.pattern == "{n}" else "sc:Text"
    if column.kind in ("categorical", "ordinal"):
        whole = {type(value) for value in column.categories} == {int} and not column.has_other
        return "sc:Integer" if whole else "sc:Text"
    # Amounts in a currency, say, are texts in the file.
    if column.kind not in _TYPES or column.worded:
        return "sc:Text"
    return _TYPES[column.kind]


def _field(records: str, file: str, name: str, kind: str, description: str) -> dict[str, Any]:
    found: dict[str, Any] = {"@type": "cr:Field", "@id": f"{records}/{name}", "name": name}
    if description:
        found["description"] = description
    source = {"fileObject": {"@id": file}, "extract": {"column": name}}
    return {**found, "dataType": kind, "source": source}


def _records(name: str, description: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"@type": "cr:RecordSet", "@id": name, "name": name, "description": description}
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
    path = release.path / WEIGHTS
    return [str(name) for name in pd.read_csv(path, nrows=0).columns]


def _other_files(release: Release) -> list[str]:
    described = {release.frame_file, WEIGHTS}
    others = sorted(set(release.statement.files) - described)
    return [f"the files {', '.join(others)}, and what privacy.json says in full"]


def _text(doc: Mapping[str, Any]) -> bytes:
    return (json.dumps(doc, indent=2, ensure_ascii=False) + "\n").encode()


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
# What no release knows of itself.
ASKED = {
    "curator": "who publishes the rows",
    "use": "what the rows are meant for",
    "region": "which region the rows describe, or whose laws apply",
}


_MODEL = {
    "model_name": "Central",
    "model_name_details": "One curator holds the rows and runs the mechanism on them.",
    "actors": "The curator is trusted with the rows and runs the published software. Whoever "
    "reads the release is not trusted, and may know all rows but one.",
    "release_type": "One release",
    "release_type_details": "One folder, published once. Whatever else is measured on the same "
    "rows is charged to the same ledger and would add to this loss.",
    "data_source_type": "Static",
    "access_type": "Non-interactive",
    "access_type_details": "Readers get files; nobody queries the private rows.",
}


def export(release: Release, values: Mapping[str, str]) -> Exported:
    """One record; what only the curator knows is marked where it was not given."""
    statement = release.statement
    if not statement.private:
        raise ReleaseError(
            f"release ({release.path}) must be private to be registered: its statement says that "
            f"it is not ({statement.why})"
        )
    if statement.foreign:
        raise ReleaseError(
            f"release ({release.path}) must be made from measurements of its own to be registered: "
            "its rows are another tool's, and the statement does not cover them"
        )
    sector = values.get("sector")
    if sector is not None and sector not in SECTORS:
        raise UsageError(f"sector ({sector}) must be one of {', '.join(SECTORS)}")
    given = {name: values.get(name) or f"TODO: {what}" for name, what in ASKED.items()}
    name = values.get("name") or f"Synthetic rows of {release.schema.title or release.path.name}"
    date = str(statement.created or today())
    slug = re.sub("[^a-z0-9]+", "-", f"{name} {values.get('curator', '')} {date[:4]}".lower())
    basic: dict[str, Any] = {
        "name": name,
        "data_curators": [given["curator"]],
        "intended_use": given["use"],
        "data_product_type": "Synthetic data",
        "data_product_region": given["region"],
        "description": values.get("description") or summary_of(release),
        "publication_date": date,
    }
    if sector is not None:
        basic["data_product_sector"] = sector
    administrative: dict[str, Any] = {}
    if "source" in values:
        administrative["sources"] = values["source"]
    administrative["notes"] = "Written by `marginalsyn export --to registry` from privacy.json."
    administrative["registry_authors"] = [values.get("author") or given["curator"]]
    record = {
        "url_slug": slug.strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _variant(release),
            "privacy_loss": _loss(statement),
            "deployment_model": _MODEL,
            "accounting": {
                "post_processing": _post_processing(release),
                "composition": _composition(statement),
            },
            "implementation": _implementation(release),
            "administrative": administrative,
        },
    }
    lost = [f"{what}: give it with --set {n}=..." for n, what in ASKED.items() if n not in values]
    return Exported(files={"registry.yaml": write_yaml(record).encode()}, lost=lost)


def _variant(release: Release) -> dict[str, Any]:
    statement, schema = release.statement, release.schema
    total = statement.total()
    if total.delta == 0:
        name = "Pure DP"
    else:
        name = "Zero-concentrated DP" if total.rho is not None else "Approximate DP"
    public = [
        "The schema (columns, categories, bounds) is public knowledge and protected by nothing"
    ]
    if statement.schema_drafted:
        public = ["THE SCHEMA WAS DRAFTED FROM THE PRIVATE ROWS, and is not protected"]
    if schema.charges:
        public.append("bounds or bins that were bought with privacy are counted in the total")
    if statement.neighbours == "replace":
        public.append("the number of rows is public")
    if statement.holdout:
        public.append(f"a share of {statement.holdout:g} of the rows was held out and never used")
    return {
        "variant_name": name,
        "data_domain": f"Tables of any number of rows with the columns {', '.join(schema.names)}, "
        "each with the values that the published schema lists.",
        "unprotected_quantities": "; ".join(public) + ".",
    }


def _loss(statement: Statement) -> dict[str, Any]:
    total = statement.total()
    found: dict[str, Any] = {"epsilon": total.eps, "delta": total.delta}
    if total.rho is not None:
        found["rho"] = total.rho
    unit, _, details = statement.unit.partition(":")
    exact = f"The guarantee is {statement.guarantee}: {statement.why}"
    converted = f" (epsilon, delta) are converted at delta {statement.target_delta:g}."
    return {
        "privacy_unit": unit[:1].upper() + unit[1:],
        "privacy_unit_details": (details or unit).strip() + f" (relation: {statement.neighbours})",
        "privacy_parameters": found,
        "privacy_parameters_details": exact.rstrip(".") + "." + (converted if total.delta else ""),
    }


def _post_processing(release: Release) -> str:
    steps = ["A model is fitted to the noisy answers, and the rows are drawn from it"]
    weights = release.statement.notes.get("weights")
    if isinstance(weights, dict) and weights:
        steps.append(f"weights ({', '.join(map(str, weights))}) are normalised and tempered")
    if "steered" in release.statement.notes:
        steps.append("the rows were steered to margins that were stated in public")
    return "; ".join(steps) + "."


def _composition(statement: Statement) -> str:
    lines = [
        f"{one.mechanism}{f' for {one.purpose}' if one.purpose else ''}: {one.cost}"
        for one in statement.charges
    ]
    return (
        "Sequential composition of these charges, added up as if their amounts had been fixed "
        "beforehand: " + "; ".join(lines) + f". Together: {statement.total()}."
    )


def _implementation(release: Release) -> dict[str, Any]:
    statement = release.statement
    known = {"marginalsyn": version("marginalsyn"), **statement.versions}
    versions = ", ".join(f"{name} {number}" for name, number in known.items())
    given = [(name, one) for name, one in statement.parameters.items() if one is not None]
    noise = statement.noise.rstrip(".")
    knobs = ", ".join(f"{name}={value}" for name, value in given)
    drafted = (
        "The schema was drafted by looking at the private rows, and no loss was accounted for."
        if statement.schema_drafted
        else "Values are coded by the public schema, each row by itself; the software reads no "
        "statistic of the rows before the charge."
    )
    return {
        "preprocessing_and_hyperparameter_tuning": f"{drafted} The method's options are public "
        f"constants: {knobs or 'none'}.",
        "mechanisms": f"{statement.generator}. {noise}. Software: {versions}.",
        "justification": _justification(statement.warnings),
    }


def _justification(warnings: Sequence[str]) -> str:
    text = (
        "The charge is written to a ledger before the rows are read. The total, the guarantee and "
        "the words on the noise are derived from the recorded charges and draws; `marginalsyn "
        "verify` derives them again from the published folder."
    )
    return text + (f" Warnings of the statement: {' '.join(warnings)}" if warnings else "")
