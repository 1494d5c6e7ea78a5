"""mbi, 1.1 and 2: a pipeline's live objects as a parcel, and a parcel as such objects.

At the end of a pipeline, in the environment that it runs in::

    from marginalsyn.adapters import mbi as parcels

    parcels.save("parcel", measurements=measurements, model=model)

and then ``marginalsyn adopt parcel --out release``. :func:`load` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.adapters.parcel import Parcel, Part, read_parcel
from marginalsyn.errors import UsageError
from marginalsyn.graphical import load_mbi, mbi_model, tables_of

__all__ = ["Loaded", "load", "save"]

# The queries that give a marginal as it is: mbi 1.1's function and mbi 2's object.
_WHOLE = ("datavector", "DatavectorQuery")
# Far below any log potential, and finite: mbi subtracts potentials from one another.
_NEVER = -1e4


def save(
    folder: str | Path,
    *,
    measurements: Iterable[Any] = (),
    model: Any = None,
    data: Any = None,
    domain: Any = None,
    stated: Mapping[str, Any] | None = None,
    tool: str | None = None,
) -> Path:
    """Write live objects of mbi as a parcel. Only their attributes are read; mbi is not imported.

    Args:
        folder: where the two files go; it is made if need be.
        measurements: ``LinearMeasurement`` objects with mbi's own query, of whole marginals.
        model: a ``MarkovRandomField``.
        data: a ``Dataset`` of synthetic rows. Never one of private rows: a parcel may be published.
        domain: a ``Domain``; by default the model's or the data's.
        stated: what is claimed of their privacy: ``eps``, ``delta``, ``rho``, ``neighbours``, and
            ``by``, whose claim it is.
        tool: what made them; by default the installed mbi.

    Returns:
        The folder, which ``marginalsyn adopt`` takes.
    """
    domain = next((one.domain for one in (model, data) if one is not None), domain)
    if domain is None:
        raise UsageError("domain (None) must be given for measurements alone")
    names, sizes = map(str, domain.attributes), map(int, domain.shape)
    sized = dict(zip(names, sizes, strict=True))
    labels = dict(zip(sized, domain.labels or (), strict=False))
    parcel = Parcel(
        domain=sized,
        tool=tool or _tool(),
        labels={name: tuple(map(str, held)) for name, held in labels.items()},
        total=None if model is None else float(np.asarray(model.total)),
        measurements=tuple(_measured(one, sized) for one in measurements),
        potentials=() if model is None else tuple(_tables(model.potentials)),
        rows=None if data is None else _codes(data, sized),
        stated=stated or {},
    )
    return parcel.write(folder)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a parcel holds, as objects of the installed mbi; None and empty where it lacks them."""

    domain: Any
    measurements: list[Any]
    model: Any
    data: Any


def load(folder: str | Path) -> Loaded:
    """Read a parcel, such as ``marginalsyn export --to mbi`` writes, as objects of mbi.

    A measurement whose codes were merged has a query of its own, so that mbi fits it as it is.

    Example:
        >>> from marginalsyn.adapters.parcel import Parcel
        >>> part = Part(columns=("a",), values=np.array([3.0, 5.0]), sigma=1.0)
        >>> folder = Parcel(domain={"a": 2}, tool="mine 1", measurements=(part,)).write("parcel")
        >>> load(folder).measurements[0].clique
        ('a',)
    """
    parcel = read_parcel(folder)
    mbi = load_mbi()
    labels = [tuple(parcel.labels[name]) for name in parcel.domain if name in parcel.labels]
    domain = mbi.Domain(
        tuple(parcel.domain),
        tuple(parcel.domain.values()),
        tuple(labels) if len(labels) == len(parcel.domain) else None,
    )
    measurements = []
    for part in parcel.measurements:
        query = {"query": _Grouped(part)} if part.groups else {}
        measurements.append(
            mbi.LinearMeasurement(part.values.ravel(), part.columns, part.sigma, **query)
        )
    tables: dict[tuple[str, ...], np.ndarray] = {}
    for part in parcel.potentials:
        values = part.values
        for axis, name in enumerate(part.columns):
            if name in part.groups:
                values = np.take(values, part.groups[name], axis=axis)
        tables[part.columns] = tables.get(part.columns, 0.0) + np.maximum(values, _NEVER)
    data = None
    if parcel.rows is not None:
        columns = {name: parcel.rows[:, j] for j, name in enumerate(parcel.domain)}
        data = mbi.Dataset(columns, domain)
    model = mbi_model(mbi, domain, tables, parcel.total or 1.0) if tables else None
    return Loaded(domain=domain, measurements=measurements, model=model, data=data)


@dataclass(frozen=True, eq=False)
class _Grouped:
    """A query of mbi: the marginal with some codes added up, as a vector."""

    part: Part

    def __call__(self, factor: Any) -> Any:
        values = factor.values
        for axis, name in enumerate(self.part.columns):
            groups = self.part.groups.get(name)
            if groups is not None:
                adding = np.eye(int(groups.max()) + 1, dtype=np.float32)[groups]
                values = (values.swapaxes(axis, -1) @ adding).swapaxes(axis, -1)
        return values.ravel()


def _measured(one: Any, domain: Mapping[str, int]) -> Part:
    """A LinearMeasurement of a whole marginal."""
    columns = tuple(map(str, one.clique))
    query = getattr(one.query, "__name__", type(one.query).__name__)
    if query not in _WHOLE:
        raise UsageError(
            f"measurement ({', '.join(columns)}) must be of the whole marginal, with mbi's own "
            f"query; its query is {query}"
        )
    values = np.asarray(one.noisy_measurement, dtype=float)
    shape = [domain.get(name, 0) for name in columns]
    if values.size != np.prod(shape):
        raise UsageError(f"measurement ({', '.join(columns)}) must have the shape {tuple(shape)}")
    return Part(columns=columns, values=values.reshape(shape), sigma=float(one.stddev))


def _tables(potentials: Any) -> Iterable[Part]:
    for clique, factor in tables_of(potentials).items():
        yield Part(columns=tuple(map(str, clique)), values=np.asarray(factor.values, dtype=float))


def _codes(data: Any, domain: Mapping[str, int]) -> np.ndarray:
    """The rows of a Dataset: a dictionary of columns, or a frame."""
    held = data.data if isinstance(getattr(data, "data", None), Mapping) else data.df
    if data.weights is not None and np.ptp(np.asarray(data.weights)) > 0:
        raise UsageError("data must have no weights: draw rows in proportion to them first")
    return np.column_stack([np.asarray(held[name], dtype=np.int32) for name in domain])


def _tool() -> str:
    try:
        return f"mbi {metadata.version('mbi')}"
    except metadata.PackageNotFoundError:
        return "mbi"
