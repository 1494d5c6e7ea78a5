"""OpenDP's ``opendp.extras.mbi``: a released contingency table as a parcel."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.plugins.exchange.mbi import measured_parts, model_parts
from marginalsyn.plugins.exchange.parcel import Parcel


def save(folder: str | Path, table: Any, *, stated: Mapping[str, Any] | None = None) -> Path:
    """Write a ``ContingencyTable`` as a parcel.

    Args:
        folder: where the two files go; it is made if need be.
        table: what OpenDP's measurement released.
        stated: what is claimed of its privacy: ``eps``, ``delta``, ``rho``, and ``by``.

    Returns:
        The folder, which ``marginalsyn adopt`` takes. Where some of its measurements are no whole
        marginals, the parcel holds its model alone.
    """
    domain = {str(name): len(keys) for name, keys in table.keys.items()}
    measured, total, left = measured_parts(table.marginals.flatten(), domain)
    version = metadata.version("opendp")
    parcel = Parcel(
        domain=domain,
        tool=f"OpenDP {version}",
        labels={
            str(name): tuple("missing" if one is None else str(one) for one in keys)
            for name, keys in table.keys.items()
        },
        total=total or float(np.asarray(table.model.total)),
        measurements=() if left else tuple(measured),
        potentials=tuple(model_parts(table.model)),
        stated=stated or {},
    )
    return parcel.write(folder)
