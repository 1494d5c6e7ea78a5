"""mbi, 1.1 and 2: a pipeline's live objects as a parcel, and a parcel as such objects.

At the end of a pipeline, in the environment that it runs in::

    from marginalsyn.plugins.exchange import mbi as parcels

    parcels.save("parcel", measurements=measurements, model=model)

and then ``marginalsyn adopt parcel --out release``. :func:`load` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.contract import Model
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.chain_model import ChainModel
from marginalsyn.graphical.compression import Compression, identity
from marginalsyn.graphical.model import Fitted
from marginalsyn.graphical.private_pgm import load_mbi, mbi_model, tables_of
from marginalsyn.libraries import version
from marginalsyn.plugins.exchange.export import Exported
from marginalsyn.plugins.exchange.parcel import Parcel, Part, read_parcel
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

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
    sized = domain_of(domain)
    measured, total, left = measured_parts(measurements, sized)
    if left:
        raise UsageError(
            f"measurement ({', '.join(left[0])}) must be of the whole marginal, with mbi's query"
        )
    parcel = Parcel(
        domain=sized,
        tool=tool or " ".join(("mbi", *installed("mbi"))),
        labels=labels_of(domain),
        total=total if model is None else float(np.asarray(model.total)),
        measurements=tuple(measured),
        potentials=() if model is None else tuple(model_parts(model)),
        rows=None if data is None else codes_of(data, sized),
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
        >>> from marginalsyn.plugins.exchange.parcel import Parcel
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
        values = np.maximum(part.over_codes(), _NEVER)
        tables[part.columns] = tables.get(part.columns, 0.0) + values
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


def domain_of(domain: Any) -> dict[str, int]:
    """A Domain as the number of codes of every column."""
    return dict(zip(map(str, domain.attributes), map(int, domain.shape), strict=True))


def labels_of(domain: Any) -> dict[str, tuple[str, ...]]:
    """What a Domain's codes stand for, where it says so."""
    found = dict(zip(map(str, domain.attributes), domain.labels or (), strict=False))
    return {name: tuple(map(str, one)) for name, one in found.items() if one is not None}


def measured_parts(
    measurements: Iterable[Any],
    domain: Mapping[str, int],
    groups: Mapping[str, np.ndarray] | None = None,
) -> tuple[list[Part], float | None, list[tuple[str, ...]]]:
    """LinearMeasurements as parts; the total, where it was measured alone; and what are no parts.

    Args:
        measurements: of whole marginals, over the domain's codes or over merged ones.
        domain: the number of codes of every column.
        groups: how codes were merged, for a marginal that has fewer cells for it.
    """
    known = dict(groups or {})
    parts = []
    total, left = None, []
    for one in measurements:
        columns = tuple(map(str, one.clique))
        query = inner(one.query, "__name__") or type(one.query).__name__
        values = np.asarray(one.noisy_measurement, dtype=float)
        if not columns and query in _WHOLE:
            total = float(values.sum())
            continue
        for merged in ({}, {name: known[name] for name in columns if name in known}):
            shape = [
                int(merged[name].max()) + 1 if name in merged else domain.get(name, 0)
                for name in columns
            ]
            if query in _WHOLE and values.size == np.prod(shape):
                values = values.reshape(shape)
                parts.append(
                    Part(columns=columns, values=values, sigma=float(one.stddev), groups=merged)
                )
                break
        else:
            left.append(columns)
    return parts, total, left


def inner(foreign: Any, *names: str) -> Any:
    """What an object of another tool has under a name, and under another in that; else None.

    Versions of the tools differ in what their objects have.
    """
    for name in names:
        foreign = getattr(foreign, name, None)
    return foreign


def installed(library: str) -> tuple[str, ...]:
    """The version of a tool, if it is installed here: a parcel can be written elsewhere."""
    found = version(library)
    return () if found == "unknown" else (found,)


def model_parts(model: Any) -> Iterable[Part]:
    """The log potentials of a MarkovRandomField."""
    for clique, factor in tables_of(model.potentials).items():
        # The total is the model's own entry, not a table over columns.
        if clique:
            values = np.asarray(factor.values, dtype=float)
            yield Part(columns=tuple(map(str, clique)), values=values)


def codes_of(data: Any, domain: Mapping[str, int]) -> np.ndarray:
    """The rows of a Dataset, of either version of mbi or an older one's frame."""
    listed = inner(data, "to_dict")
    codes = listed() if listed else inner(data, "data")
    codes = codes if isinstance(codes, Mapping) else data.df
    if data.weights is not None and np.ptp(np.asarray(data.weights)) > 0:
        raise UsageError("data must have no weights: draw rows in proportion to them first")
    return np.column_stack([np.asarray(codes[name], dtype=np.int32) for name in domain])


def export(release: Release, values: Mapping[str, str]) -> Exported:
    """The files that :func:`marginalsyn.plugins.exchange.mbi.load` makes live objects of."""
    parcel, lost = parcel_of(release)
    return Exported(files=parcel.files(), lost=lost)


def parcel_of(release: Release) -> tuple[Parcel, list[str]]:
    """The release as a parcel, and what of it the parcel does not hold."""
    schema, statement, model = release.schema, release.statement, release.model()
    fitted, merges = None, identity(schema.domain)
    if model is not None and "pgm" in model.meta:
        fitted, merges = stored_model(model)
    measured, lost = [], []
    for one in release.measurements():
        groups = {}
        for axis, name in enumerate(one.columns):
            size, merge = one.values.shape[axis], merges.merges[name]
            if size == schema.domain[name]:
                continue
            if merge.size == size:
                groups[name] = merge.groups
        shape = tuple(
            merges.merges[name].size if name in groups else schema.domain[name]
            for name in one.columns
        )
        if one.values.shape != shape or not float(one.sigma) > 0:
            lost.append(f"the measurement over {', '.join(one.columns)}: its codes are not known")
            continue
        measured.append(
            Part(columns=one.columns, values=one.values, sigma=float(one.sigma), groups=groups)
        )
    potentials: tuple[Part, ...] = ()
    if isinstance(fitted, ChainModel):
        lost.append("the model: a chain of rows, which no clique tree can hold")
    elif fitted is not None:
        potentials = (*_potentials(fitted, merges), *_followers(schema, model))
    if fitted is None and model is not None:
        lost.append(f"the model: {model.kind} has no graphical one")
    if release.weights() is not None:
        lost.append("the weights: they stay with the rows in weights.csv")
    if not measured and not potentials:
        raise ReleaseError(
            f"release ({release.path}) must hold measurements or a graphical model to be exported "
            "to mbi; such are made by aim, mst, fixed-marginals and the like"
        )
    stated = {
        "by": f"marginalsyn {version('marginalsyn')}, in its privacy.json",
        "eps": statement.eps,
        "delta": statement.delta,
        "rho": statement.rho,
        "neighbours": str(statement.neighbours),
        "guarantee": statement.guarantee,
    }
    parcel = Parcel(
        domain=schema.domain,
        tool=f"marginalsyn {version('marginalsyn')} ({statement.generator})",
        labels={column.name: column.labels() for column in schema.columns},
        total=fitted.total if fitted is not None else None,
        measurements=tuple(measured),
        potentials=potentials,
        rows=Codec(schema).encode(release.frame()),
        stated=stated,
    )
    return parcel, lost


def _followers(schema: Schema, model: Model | None) -> Iterator[Part]:
    """A table for every column that the model leaves out: what it follows from, and it alone."""
    for name in model.followers if model is not None else ():
        source, mapping = schema.followers[name]
        sure = mapping[:, None] == np.arange(schema.column(name).size)
        with np.errstate(divide="ignore"):
            yield Part(columns=(source, name), values=np.log(sure.astype(float)))


def _potentials(fitted: Fitted, merges: Compression) -> tuple[Part, ...]:
    """The model's tables over merged codes, and the share of every code in its group."""
    parts = [
        Part(
            columns=columns,
            values=logs,
            groups={n: merges.merges[n].groups for n in columns if not merges.merges[n].trivial},
        )
        for columns, logs in fitted.potentials.items()
    ]
    with np.errstate(divide="ignore"):
        parts += [
            Part(columns=(name,), values=np.log(merge.shares))
            for name, merge in merges.merges.items()
            if not merge.trivial
        ]
    return tuple(parts)
