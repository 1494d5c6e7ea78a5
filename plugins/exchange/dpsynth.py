"""dpsynth: the result of its in-memory synthesizer as a parcel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.plugins.exchange.mbi import (
    codes_of,
    domain_of,
    labels_of,
    measured_parts,
    model_parts,
)
from marginalsyn.plugins.exchange.parcel import Parcel, Part


def save(
    folder: str | Path,
    result: Any,
    *,
    stated: Mapping[str, Any] | None = None,
    tool: str = "dpsynth",
) -> Path:
    """Write a ``DataGenerationResult`` as a parcel: its measurements, its model and its rows.

    Args:
        folder: where the two files go; it is made if need be.
        result: what the synthesizer gave.
        stated: what is claimed of its privacy: ``eps``, ``delta``, ``rho``, and ``by``.
        tool: what made it, with its version.

    Returns:
        The folder, which ``marginalsyn adopt`` takes.
    """
    inner = result.discrete_mechanism_result
    whole = result.codec.mbi_domain
    domain = domain_of(whole)
    groups = {str(name): np.asarray(codes) for name, codes in (inner.mappings or {}).items()}
    measured, total, left = measured_parts(inner.measurements, domain, groups)
    model = inner.model
    parts = [_grouped(part, domain, groups) for part in model_parts(model)]
    for name, merged in groups.items():
        parts.append(Part(columns=(name,), values=-np.log(np.bincount(merged)[merged])))
    parcel = Parcel(
        domain=domain,
        tool=tool,
        labels=labels_of(whole),
        total=total or float(np.asarray(model.total)),
        measurements=() if left else tuple(measured),
        potentials=tuple(parts),
        rows=codes_of(inner.synthetic_data, domain),
        stated=stated or {},
    )
    return parcel.write(folder)


def _grouped(part: Part, domain: Mapping[str, int], groups: Mapping[str, np.ndarray]) -> Part:
    """A table over merged codes, with their groups."""
    own = {
        name: groups[name]
        for axis, name in enumerate(part.columns)
        if name in groups and part.values.shape[axis] != domain[name]
    }
    return Part(columns=part.columns, values=part.values, groups=own)
