"""What a release stores in arrays: noisy measurements and models, each with a JSON index.

Arrays lie in one ``.npz`` file, which is read safely even if it is hostile.
"""

from __future__ import annotations

import math
import operator
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.table.schema import Schema

Packed = tuple[Any, dict[str, np.ndarray]]

MAX_BYTES = 4 * 2**30
_MAX_MEMBERS = 200_000
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    TypeError,
    OSError,
    EOFError,
    SyntaxError,
    RuntimeError,
    MemoryError,
)


def dump_arrays(handle: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of numbers, booleans or text; the same arrays give the same bytes."""
    checked = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in checked.items():
        if array.dtype.kind not in "biufUS":
            raise ReleaseError(f"array {name} ({array.dtype}) must hold numbers, booleans or text")
    np.savez_compressed(handle, **checked)  # type: ignore[arg-type]


def load_arrays(path: Path, *, limit: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Read what ``dump_arrays`` wrote: nothing is unpickled, and sizes are checked first."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS or sum(m.file_size for m in members) > limit:
                raise ReleaseError(f"file ({path}) must unpack to at most {limit:,} bytes")
            return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}
    except _DAMAGE as error:
        raise ReleaseError(f"file ({path}) must be a readable .npz archive: {error}") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as handle:
        version = np.lib.format.read_magic(handle)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(handle)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(handle)
        else:
            raise ValueError(f"array format {version} is unknown")
        if dtype.kind not in "biufUS":
            raise ValueError(f"arrays of {dtype} are not allowed")
        # The header may claim any shape: believe only what the archive holds.
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} is shorter than its header says")
        values = np.frombuffer(handle.read(), dtype=dtype, count=math.prod(shape))
    return values.reshape(shape, order="F" if fortran else "C").copy()


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
