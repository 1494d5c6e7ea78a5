"""How noisy measurements and models are laid out as one JSON index and one set of arrays each."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.table.schema import Schema

Packed = tuple[Any, dict[str, np.ndarray]]


def pack(measurements: Sequence[Measurement]) -> Packed:
    """An index with columns, shape, sigma and purpose of every marginal, and the marginals."""
    index, arrays = [], {}
    for number, measurement in enumerate(measurements):
        arrays[f"m{number}"] = np.asarray(measurement.values)
        index.append(
            {
                "array": f"m{number}",
                "columns": list(measurement.columns),
                "shape": list(np.shape(measurement.values)),
                "sigma": float(measurement.sigma),
                "purpose": measurement.purpose,
            }
        )
    return index, arrays


def unpack_measurements(index: Any, arrays: Mapping[str, np.ndarray]) -> list[Measurement]:
    """Undo ``pack``; the index may come from anyone."""
    try:
        return [
            Measurement(
                columns=tuple(str(column) for column in entry["columns"]),
                values=arrays[entry["array"]],
                sigma=float(entry["sigma"]),
                purpose=str(entry["purpose"]),
            )
            for entry in index
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ReleaseError(f"measurements.json must describe measurements.npz: {error}") from error


def measurement_problems(measurements: Iterable[Measurement], schema: Schema) -> list[str]:
    """List the marginals that cannot be marginals of the schema's columns.

    A marginal may have fewer cells than the schema gives it: a generator may merge rare codes.
    """
    domain, problems = schema.domain, []
    for measurement in measurements:
        most = tuple(domain.get(column, 0) for column in measurement.columns)
        shape = measurement.values.shape
        fits = len(shape) == len(most) and all(map(operator.le, shape, most))
        if not fits or not measurement.sigma >= 0:
            problems.append(
                f"measurement over ({', '.join(measurement.columns)}) must have at most the shape "
                f"{most} and a standard deviation"
            )
    return problems


def pack_model(model: Model) -> Packed:
    """An index with the model's kind, facts and array names, and the arrays."""
    # Column names make poor archive members (slashes, dots): the index keeps the names.
    arrays = {f"a{number}": np.asarray(array) for number, array in enumerate(model.arrays.values())}
    named = [{"array": key, "name": name} for key, name in zip(arrays, model.arrays, strict=True)]
    return {"kind": model.kind, "meta": model.meta, "arrays": named}, arrays


def unpack_model(index: Any, arrays: Mapping[str, np.ndarray]) -> Model:
    """Undo ``pack_model``; the index may come from anyone."""
    try:
        return Model(
            kind=str(index["kind"]),
            arrays={str(entry["name"]): arrays[entry["array"]] for entry in index["arrays"]},
            meta=dict(index["meta"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReleaseError(f"model.json must describe model.npz: {error}") from error
