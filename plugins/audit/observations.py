"""What an outsider sees of one run, as named numbers: rows, measurements, model, notes, errors.

Everything that may be published counts, and nothing else: a mechanism's ``diagnostics`` are the
curator's own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.table.numeric import NumberColumn

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.contract import LogWeights, Measurement, Synthesis
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema

Observation = dict[str, float]

MOST_CELLS = 64
"""Larger arrays are seen through their sum and this many public random combinations."""
LIKELIHOOD = "likelihood"
"""The name of the score that knows both tables."""


def flatten(value: Any, name: str, into: Observation) -> None:
    """Add every number of a JSON-like value or array under its path; a text counts as its hash."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            flatten(part, f"{name}.{key}", into)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        _flatten_array(value, name, into)
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        into[f"{name}.length"] = float(len(value))
        for number, part in enumerate(value[:MOST_CELLS]):
            flatten(part, f"{name}[{number}]", into)
    elif isinstance(value, bool | int | float | np.number):
        into[name] = _finite(float(value))
    elif value is not None:
        into[name] = float(zlib.crc32(str(value).encode()))


def _flatten_array(values: np.ndarray, name: str, into: Observation) -> None:
    flat = np.nan_to_num(np.asarray(values, dtype=float).ravel(), posinf=1e300, neginf=-1e300)
    into[f"{name}.size"] = float(flat.size)
    if flat.size > MOST_CELLS:
        into[f"{name}.sum"] = float(flat.sum())
        into[f"{name}.largest"] = float(flat.max())
        into[f"{name}.least"] = float(flat.min())
        public = np.random.default_rng(flat.size)
        flat = public.standard_normal((MOST_CELLS, flat.size)) @ flat
    into.update((f"{name}[{number}]", float(cell)) for number, cell in enumerate(flat))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(1e300, value)


def codes_of(frame: pd.DataFrame, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Codes and places in [0, 1] of rows of numeric columns without missing values.

    As the codec has them, which takes a hundred times longer on rows as few as these.
    """
    codes, places = [], []
    for column in schema.columns:
        assert isinstance(column, NumberColumn)
        values = frame[column.name].to_numpy(dtype=float)
        low, high = float(column.lower), float(column.upper)
        places.append(np.clip((values - low) / max(high - low, 1e-300), 0.0, 1.0))
        found = np.searchsorted(np.asarray(column.edges, dtype=float), values, side="right") - 1
        codes.append(np.clip(found, 0, column.size - 1))
    return np.stack(codes, axis=1).astype(np.int64), np.stack(places, axis=1)


def of_frame(frame: pd.DataFrame, schema: Schema, into: Observation) -> None:
    """How many rows, how many of each code and set of codes, and where the numbers lie."""
    codes, places = codes_of(frame, schema)
    sizes = list(schema.domain.values())
    into["rows"] = float(len(frame))
    for axis, size in enumerate(sizes):
        flatten(np.bincount(codes[:, axis], minlength=size), f"count[{axis}]", into)
        place = places[:, axis]
        if place.size:
            flatten(np.array([place.mean(), place.min(), place.max()]), f"place[{axis}]", into)
    if math.prod(sizes) <= MOST_CELLS:
        flat = np.ravel_multi_index(tuple(codes.T), sizes)
        flatten(np.bincount(flat, minlength=math.prod(sizes)), "count", into)


def likelihood(
    measurements: Iterable[Measurement], tables: tuple[np.ndarray, np.ndarray], schema: Schema
) -> float:
    """The log likelihood ratio of noisy marginals: the best score where the noise is Gaussian.

    Args:
        measurements: what a run released.
        tables: the codes of the two neighbouring tables.
        schema: of both.
    """
    total, sizes = 0.0, schema.domain
    for measured in measurements:
        shape = [sizes[column] for column in measured.columns]
        values = np.asarray(measured.values, dtype=float)
        if values.shape != tuple(shape) and values.size != math.prod(shape):
            continue  # of merged codes
        axes = [schema.names.index(column) for column in measured.columns]
        exact = []
        for codes in tables:
            cells = np.zeros(shape)
            np.add.at(cells, tuple(codes[:, axis] for axis in axes), 1.0)
            exact.append(cells.reshape(values.shape))
        gaps = (values - exact[0]) ** 2 - (values - exact[1]) ** 2
        total += float(np.sum(gaps / (2.0 * np.square(measured.sigma))))
    return total


def of_synthesis(
    synthesis: Synthesis,
    statement: Statement,
    schema: Schema,
    tables: tuple[np.ndarray, np.ndarray],
) -> Observation:
    """All that a release holds of one run of a generator."""
    seen: Observation = {}
    of_frame(synthesis.frame, schema, seen)
    if synthesis.measurements:
        seen[LIKELIHOOD] = likelihood(synthesis.measurements, tables, schema)
    for measured in synthesis.measurements:
        name = "noisy " + ",".join(measured.columns)
        flatten(np.asarray(measured.values), name, seen)
    if synthesis.model is not None:
        flatten(dict(synthesis.model.arrays), "model", seen)
        flatten(dict(synthesis.model.meta), "model", seen)
    flatten(statement.notes, "notes", seen)
    flatten(list(statement.warnings), "warnings", seen)
    flatten(list(statement.payments), "payments", seen)
    return seen


def of_weights(found: LogWeights, payments: Sequence[Mapping[str, Any]]) -> Observation:
    """All that a release would hold of one run of a weight estimator."""
    seen: Observation = {}
    flatten(np.asarray(found.values), "log-weight", seen)
    flatten(dict(found.notes), "notes", seen)
    flatten(list(found.warnings), "warnings", seen)
    flatten(list(payments), "payments", seen)
    return seen


def of_error(error: BaseException) -> Observation:
    """A run that failed: its message is seen, too."""
    seen: Observation = {"failed": 1.0}
    flatten(str(error), "error", seen)
    return seen


def matrix(
    observations: Sequence[Sequence[Observation]],
) -> tuple[list[str], list[np.ndarray]]:
    """Groups of observations as arrays over the same columns; what some runs lack gets a column.

    Returns:
        The names of the columns, and one array of (runs, columns) per group.
    """
    runs = [seen for group in observations for seen in group]
    names = list(dict.fromkeys(name for seen in runs for name in seen))
    lacking = [name for name in names if any(name not in seen for seen in runs)]
    columns = [*names, *(f"has {name}" for name in lacking)]
    arrays = [
        np.array(
            [
                [
                    *(seen.get(name, 0.0) for name in names),
                    *(float(name in seen) for name in lacking),
                ]
                for seen in group
            ]
        ).reshape(len(group), len(columns))
        for group in observations
    ]
    return columns, arrays
