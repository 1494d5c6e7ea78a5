"""Evaluation of linked tables: each as a single one is, and persons with all their rows.

Everything here is computed from real rows without protection. It is for the curator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.evaluation import Evaluation, choose_reports, run_reports
from marginalsyn.evaluation.inputs import make_case, make_ground
from marginalsyn.evaluation.linked_tables import LinkedCodes, connected
from marginalsyn.evaluation.reports import Options, Report
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.progress import Progress
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.release.linked_table import TableRelease, table_frame, table_schema
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import AnyColumn, Schema

# What persons with all their rows are called, next to the names of tables.
TOTAL = "all tables"
# Of a column of rows below a person, the shares of so many values are features of the person.
MOST_SHARES = 12

# The sides of a comparison, in words.
WORDS = {"made": "synthetic", "real": "real", "train": "training"}

Tables = Mapping[str, pd.DataFrame]


def evaluate_linked(
    synthetic: LinkedRelease | Tables,
    rows: tuple[Tables, Tables | None],
    tree: LinkedSchema,
    options: Options,
    *,
    label: str | None,
    in_sample: bool,
    reports: Sequence[str] | None,
    title: str,
    progress: Progress,
) -> Evaluation:
    """Compare linked synthetic tables with real ones; see :func:`marginalsyn.evaluate`."""
    release = synthetic if isinstance(synthetic, LinkedRelease) else None
    sides = dict(zip(("real", "train"), rows, strict=True))
    sides["made"] = synthetic.frames() if isinstance(synthetic, LinkedRelease) else synthetic
    tables = {side: connected(frames, tree) for side, frames in sides.items() if frames}
    codes = {side: LinkedCodes.of(frames, tree) for side, frames in tables.items()}
    known = codes.get("train", codes["real"])
    root = tree.root
    label = label or (root.schema.label if root.schema is not None else None)
    if label is not None and label not in [column.name for column in root.columns]:
        raise UsageError(
            f"label ({label!r}) must be a column of {root.name}, whose rows are persons"
        )
    if options.shadow:
        raise UsageError(
            f"--shadow ({options.shadow}) must not be given for linked tables: shadow releases are "
            "made of one table"
        )
    chosen = choose_reports(reports, has_label=bool(label))
    found: dict[str, Evaluation] = {}
    warnings: list[str] = []

    def compare(name: str, schema: Schema, frames: Tables, run: Mapping[str, Report]) -> Evaluation:
        own: list[str] = []
        whole, top = name == TOTAL, name in (TOTAL, root.name)
        ground = make_ground(
            schema,
            schema.label,
            frames["real"],
            frames.get("train"),
            options,
            in_sample=in_sample,
            warnings=own,
            persons=known.owners(root.name if top else name),
        )
        part = TableRelease.of(release, root.name if top else name) if release is not None else None
        weights = part.weights() if part is not None else None
        case = make_case(name, frames["made"], schema, weights, own, released=part is not None)
        if part is not None and top:
            raw = part.log_weights()
            logs = {str(n): raw[n].to_numpy(float) for n in raw} if raw is not None else {}
            case = replace(case, release=part, log_weights=logs)
        if whole:
            ground, case = replace(ground, linked=known), replace(case, linked=codes["made"])
        return run_reports(
            [case], ground, run, options, title=title, warnings=own, progress=progress
        )

    for table in tree.tables:
        schema = table_schema(tree, table.name)
        frames = {side: table_frame(tree, found, table.name) for side, found in tables.items()}
        empty = [side for side, frame in frames.items() if not len(frame)]
        if table is root:
            schema = Schema(**{**schema.model_dump(), "label": label}) if label else schema
        if empty or not schema.columns:
            warnings += [f"{table.name} is not compared: it has no {WORDS[empty[0]]} rows"] * bool(
                empty
            )
            continue
        scopes = {"table", "release"} if table is root else {"table", "persons"}
        run = {
            name: report
            for name, report in chosen.items()
            if report.scope in scopes and (schema.label or not report.needs_test)
        }
        found[table.name] = compare(table.name, schema, frames, run)
    if root.name not in found:
        raise UsageError(f"table {root.name} must have rows and columns to be compared")
    schema = _with_features(
        Schema(**{**table_schema(tree, root.name).model_dump(), "label": label}), known
    )
    frames = {
        side: table_frame(tree, tables[side], root.name).join(_features(linked))
        for side, linked in codes.items()
    }
    persons = {name: report for name, report in chosen.items() if report.scope == "persons"}
    whole = compare(TOTAL, schema, frames, persons)
    facts = dict(whole.cases[TOTAL])
    facts["figures"] = {
        **facts["figures"],
        **{
            f"rows of {name}": f"{len(frame):,} ({len(tables['real'][name]):,} real)"
            for name, frame in tables["made"].items()
        },
    }
    warnings += [f"{name}: {line}" for name, one in found.items() for line in one.warnings]
    update = {"linked": found, "warnings": [*whole.warnings, *warnings], "cases": {TOTAL: facts}}
    return whole.model_copy(update=update)


def _with_features(schema: Schema, linked: LinkedCodes) -> Schema:
    """The schema of persons with what :func:`_features` adds."""
    added: list[AnyColumn] = [
        ContinuousColumn(name=name, lower=0.0, upper=max(most, 1.0), bins=8)
        for name, (_, most) in _below(linked).items()
    ]
    return Schema(**{**schema.model_dump(), "columns": (*schema.columns, *added)})


def _features(linked: LinkedCodes) -> pd.DataFrame:
    """Of every person, means and shares of the columns of all rows that belong to the person."""
    return pd.DataFrame({name: values for name, (values, _) in _below(linked).items()})


def _below(linked: LinkedCodes) -> dict[str, tuple[np.ndarray, float]]:
    """The features by name, each with the largest value that it may have."""
    found: dict[str, tuple[np.ndarray, float]] = {}
    for table in linked.tree.tables[1:]:
        owner, path = linked.owners(table.name), linked.tree.path(table.name)[1:]
        rows = np.bincount(owner, minlength=linked.persons)

        def mean(values: Any, owner: np.ndarray = owner, rows: np.ndarray = rows) -> np.ndarray:
            return np.bincount(owner, values, linked.persons) / np.maximum(rows, 1)

        if len(path) > 1:
            most = float(np.prod([step.max_children for step in path]))
            found[f"rows of {table.name}"] = np.minimum(rows, most).astype(float), most
        for key, codes in linked.codes[table.name].items():
            size = linked.sizes[key]
            found[f"mean of {key}"] = mean(codes), size - 1.0
            for value in range(min(size, MOST_SHARES)):
                found[f"share of {key}, code {value}"] = mean(codes == value), 1.0
    return found
