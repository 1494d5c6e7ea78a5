"""smartnoise-synth: its fitted AIM and MST synthesizers as parcels.

They keep their model, not their measurements: rows are drawn again from the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.plugins.exchange.mbi import domain_of, inner, installed, model_parts
from marginalsyn.plugins.exchange.parcel import Parcel, Part


def save(
    folder: str | Path,
    synthesizer: Any,
    *,
    columns: Sequence[str] | None = None,
    stated: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted ``AIMSynthesizer`` or ``MSTSynthesizer`` as a parcel.

    Its labels are those of smartnoise's transformer, which as a rule read them off the private
    rows: pass ``marginalsyn adopt`` a public schema.

    Args:
        folder: where the two files go; it is made if need be.
        synthesizer: after ``fit``.
        columns: the names of the columns; by default those of the frame that it was fitted to.
        stated: what is claimed of its privacy; by default its own epsilon and delta.

    Returns:
        The folder, which ``marginalsyn adopt`` takes.
    """
    model: Any = inner(synthesizer, "synthesizer")
    if inner(model, "potentials") is None:
        raise UsageError("synthesizer must be a fitted AIM or MST one: call fit first")
    given = columns if columns is not None else inner(synthesizer, "original_column_names")
    domain = domain_of(model.domain)
    names = list(map(str, given)) if given is not None else list(domain)
    if len(names) != len(domain):
        raise UsageError(f"columns ({', '.join(names)}) must be {len(domain)}, one for each")
    # Its own names are col0, col1 and so on; mbi may hold them in another order.
    renamed = dict(zip(sorted(domain, key=lambda name: int(name[3:])), names, strict=True))
    groups = _supports(synthesizer)
    parts = []
    for part in model_parts(model):
        own_groups = {renamed[name]: groups[name] for name in part.columns if name in groups}
        own = tuple(renamed[name] for name in part.columns)
        parts.append(Part(columns=own, values=part.values, groups=own_groups))
    for name, merged in groups.items():
        # It takes the values of a group at random, each as likely as the others.
        values = -np.log(np.bincount(merged)[merged])
        parts.append(Part(columns=(renamed[name],), values=values))
    tool = ("smartnoise-synth", *installed("smartnoise-synth"))
    parcel = Parcel(
        domain={
            name: len(groups[own]) if own in groups else domain[own]
            for own, name in sorted(renamed.items(), key=lambda pair: names.index(pair[1]))
        },
        tool=" ".join((*tool, f"({type(synthesizer).__name__})")),
        labels=_labels(synthesizer, names),
        total=float(np.asarray(model.total)),
        potentials=tuple(parts),
        stated=stated
        or {
            "eps": float(synthesizer.epsilon),
            "delta": float(synthesizer.delta),
            "by": "smartnoise-synth",
        },
    )
    return parcel.write(folder)


def _supports(synthesizer: Any) -> dict[str, np.ndarray]:
    """MST's merged codes: those that it kept in order, then all others in one group."""
    undo = inner(synthesizer, "undo_compress_fn")
    if undo is None:
        return {}
    supports = inspect.getclosurevars(undo).nonlocals.get("supports")
    if not isinstance(supports, Mapping):
        raise UsageError("synthesizer must be of a version whose merged codes are known: 1.0")
    groups = {}
    for name, kept in supports.items():
        kept = np.asarray(kept, dtype=bool)
        if not kept.all():
            groups[str(name)] = np.where(kept, np.cumsum(kept) - 1, kept.sum()).astype(np.int32)
    return groups


def _labels(synthesizer: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values of columns that smartnoise coded by label."""
    found = {}
    transformers = inner(synthesizer, "_transformer", "transformers") or []
    for name, transformer in zip(names, transformers, strict=False):
        labels = inner(transformer, "categories")
        if isinstance(labels, list):
            found[name] = tuple("missing" if one is None else str(one) for one in labels)
    return found if len(names) == len(transformers) else {}
