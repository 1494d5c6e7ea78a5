"""A release as a parcel: its measurements and its model over the schema's whole domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.errors import ReleaseError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.chain_model import ChainModel
from marginalsyn.graphical.compression import Compression, identity
from marginalsyn.graphical.model import Fitted
from marginalsyn.libraries import version
from marginalsyn.plugins.exchange.export import Exported
from marginalsyn.plugins.exchange.parcel import Parcel, Part
from marginalsyn.table.codec import Codec

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


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
        potentials = _potentials(fitted, merges)
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
