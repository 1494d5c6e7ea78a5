"""Parcels: what tools hand to one another, as ``parcel.json`` and ``parcel.npz``. No pickles.

A parcel holds a domain and any of these: noisy marginals, the potentials of a graphical model,
rows of codes, and what their maker says of privacy. ``docs/adopt.md`` describes the two files.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError
from marginalsyn.release.staging import dump_arrays, load_arrays
from marginalsyn.validation import explain

INDEX, ARRAYS = "parcel.json", "parcel.npz"
MAX_INDEX = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Part(Measurement):
    """A table over some columns: a noisy marginal, or the logarithms of a model's potential.

    Attributes:
        columns: the column of each axis.
        values: the table.
        sigma: the standard deviation of the noise in every cell; 0 for a potential.
        groups: for a column whose codes were merged: the group of every code. The axis of the
            column then has one place for each group.
    """

    sigma: float = 0.0
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)

    def over_codes(self) -> np.ndarray:
        """A potential's table over all codes, those of a group alike."""
        values = np.asarray(self.values, dtype=float)
        for axis, name in enumerate(self.columns):
            if name in self.groups:
                values = np.take(values, self.groups[name], axis=axis)
        return values


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What one tool hands to another.

    Attributes:
        domain: the number of codes of every column, in order.
        tool: what made it, with its version.
        labels: what the codes of a column stand for, where that is known.
        total: the number of rows that the model's marginals sum to, or an estimate.
        measurements: noisy marginals.
        potentials: a graphical model; its tables add up to the log probability, up to a constant.
        rows: codes, one row each, columns in the domain's order.
        stated: what its maker says of the privacy of all this.

    Example:
        >>> part = Part(columns=("a",), values=np.array([3.2, 5.1]), sigma=1.0)
        >>> sorted(Parcel(domain={"a": 2}, tool="mine 1", measurements=(part,)).files())
        ['parcel.json', 'parcel.npz']
    """

    domain: Mapping[str, int]
    tool: str
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    total: float | None = None
    measurements: tuple[Part, ...] = ()
    potentials: tuple[Part, ...] = ()
    rows: np.ndarray | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        """The two files, by name."""
        arrays = {}
        merges: dict[bytes, str] = {}

        def entry(array: str, part: Part) -> dict[str, Any]:
            arrays[array] = np.asarray(part.values)
            groups = {}
            for name, own in part.groups.items():
                own = np.asarray(own, dtype=np.int32)
                groups[name] = merges.setdefault(own.tobytes(), f"g{len(merges)}")
                arrays[groups[name]] = own
            about: dict[str, Any] = {"array": array, "columns": list(part.columns)}
            about |= {"sigma": float(part.sigma)} if part.sigma else {}
            return about | ({"groups": groups} if groups else {})

        index = {
            "format": "marginalsyn parcel",
            "version": 1,
            "tool": self.tool,
            "domain": [[name, int(size)] for name, size in self.domain.items()],
            "labels": {name: [str(one) for one in own] for name, own in self.labels.items()},
            "total": self.total,
            "measurements": [entry(f"m{n}", part) for n, part in enumerate(self.measurements)],
            "potentials": [entry(f"p{n}", part) for n, part in enumerate(self.potentials)],
            "rows": None,
            "stated": dict(self.stated),
        }
        if self.rows is not None:
            index["rows"] = "rows"
            arrays["rows"] = np.asarray(self.rows, dtype=np.int32)
        handle = io.BytesIO()
        dump_arrays(handle, arrays)
        text = json.dumps(index, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        return {INDEX: text.encode(), ARRAYS: handle.getvalue()}

    def write(self, folder: str | Path) -> Path:
        """Write the two files into a folder, which is made if need be."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            (place / name).write_bytes(data)
        return place


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    array: str
    columns: tuple[str, ...] = Field(min_length=1)
    sigma: float = Field(default=0.0, ge=0)
    groups: dict[str, str] = Field(default_factory=dict)


class _Index(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    format: Literal["marginalsyn parcel"]
    version: Literal[1]
    tool: str = Field(min_length=1, max_length=200)
    domain: list[tuple[str, int]] = Field(min_length=1)
    labels: dict[str, list[str]] = Field(default_factory=dict)
    total: float | None = Field(default=None, gt=0)
    measurements: list[_Entry] = Field(default_factory=list)
    potentials: list[_Entry] = Field(default_factory=list)
    rows: str | None = None
    stated: dict[str, Any] = Field(default_factory=dict)


def read_parcel(path: str | Path) -> Parcel:
    """Read a parcel that may come from anyone: nothing is unpickled, and everything is checked.

    Args:
        path: the folder that holds the two files, or the JSON file with the npz file next to it.

    Raises:
        DataError: it is no parcel, or contradicts itself.
    """
    place = Path(path)
    place = place / INDEX if place.is_dir() else place
    try:
        if place.stat().st_size > MAX_INDEX:
            raise DataError(f"parcel ({place}) must have at most {MAX_INDEX:,} bytes")
        found = _Index.model_validate_json(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"parcel ({place}) must be readable: {error.strerror or error}") from None
    except ValidationError as error:
        raise DataError(f"parcel ({place}): {explain(error)}") from None
    except ValueError as error:
        raise DataError(f"parcel ({place}) must be JSON: {error}") from None
    arrays = load_arrays(place.with_suffix(".npz"))
    domain = dict(found.domain)
    if len(domain) != len(found.domain) or min(domain.values()) < 1:
        raise DataError(f"parcel ({place}): domain must have every column once, with its size")
    for name, own in found.labels.items():
        if len(own) != domain.get(name):
            raise DataError(f"parcel ({place}): labels of {name} must be one for every code")
    parcel = Parcel(
        domain=domain,
        tool=found.tool,
        labels=found.labels,
        total=found.total,
        measurements=tuple(_part(entry, arrays, domain) for entry in found.measurements),
        potentials=tuple(_part(entry, arrays, domain) for entry in found.potentials),
        rows=None if found.rows is None else _rows(_array(arrays, found.rows), domain),
        stated=found.stated,
    )
    for part in parcel.measurements:
        if not part.sigma or not np.isfinite(part.values).all():
            raise DataError(
                f"measurement ({', '.join(part.columns)}) must have finite values, and in sigma "
                "the standard deviation of their noise, above 0"
            )
    return parcel


def _array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise DataError(f"array ({name}) must be in {ARRAYS}")
    return arrays[name]


def _part(entry: _Entry, arrays: Mapping[str, np.ndarray], domain: Mapping[str, int]) -> Part:
    """One table with its groups, checked against the domain."""
    columns, values = entry.columns, _array(arrays, entry.array)
    listed = ", ".join(columns)
    if len(set(columns)) != len(columns) or any(name not in domain for name in columns):
        raise DataError(f"columns ({listed}) must be of the domain, each of them once")
    if any(name not in columns for name in entry.groups):
        raise DataError(f"groups ({', '.join(entry.groups)}) must be of the columns {listed}")
    groups = {name: _array(arrays, array) for name, array in entry.groups.items()}
    shape = []
    for name in columns:
        merged = groups.get(name)
        if merged is None:
            shape.append(domain[name])
            continue
        used = np.unique(merged)
        whole = merged.dtype.kind in "iu" and merged.shape == (domain[name],)
        if not whole or not np.array_equal(used, np.arange(used.size)):
            raise DataError(f"groups of {name} must give every code a group: 0, 1, 2 and so on")
        shape.append(used.size)
    if values.dtype.kind not in "iuf" or values.size != math.prod(shape):
        raise DataError(f"values ({listed}: {values.shape}) must have the shape {tuple(shape)}")
    return Part(columns=columns, values=values.reshape(shape), sigma=entry.sigma, groups=groups)


def _rows(codes: np.ndarray, domain: Mapping[str, int]) -> np.ndarray:
    sizes = np.array(list(domain.values()))
    fine = codes.ndim == 2 and codes.dtype.kind in "iu" and codes.shape[1] == sizes.size
    if not fine or (codes < 0).any() or (codes >= sizes).any():
        raise DataError(f"rows {codes.shape} must be codes of the {sizes.size} columns")
    return codes.astype(np.int32)
