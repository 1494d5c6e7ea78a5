"""Marginals that are known without being measured: what earlier answers say, at no cost.

A view of linked tables holds columns that stood in an earlier view, too. What follows from the
answers there is public: it is fitted like an answer, and no budget is spent on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.one_way import OneWay

if TYPE_CHECKING:
    from marginalsyn.contract import Measurement

Columns = tuple[str, ...]
# Of a model's size limit, what known pairs may take: the rest is for those that are bought.
ROOM = 0.02


def unknown(
    candidates: Mapping[Columns, float], known: Sequence[Sequence[str]]
) -> dict[Columns, float]:
    """The candidates that no set of columns whose marginals are known holds.

    Example:
        >>> unknown({("a", "b"): 1.0, ("b", "c"): 1.0}, [("a", "b")])
        {('b', 'c'): 1.0}
    """
    sets = [{*group} for group in known]
    return {q: w for q, w in candidates.items() if not any({*q} <= group for group in sets)}


def bought(names: Sequence[str], known: Sequence[Sequence[str]]) -> int:
    """How many single columns have to be measured; at least 1, to divide by."""
    return max(len(unknown({(name,): 1.0 for name in names}, known)), 1)


def known_pairs(pairs: Sequence[Measurement], look: OneWay, limit: float) -> list[Measurement]:
    """Pairs that are known, over merged codes, as many as keep a model small.

    Those come first whose columns hang together most: they say what single columns do not.

    Args:
        pairs: all that is known.
        look: single columns, and how their codes are merged.
        limit: of the model's size, in MB.
    """
    merged = [look.compression.compress(m) for m in pairs if len(m.columns) == 2]
    kept: list[Measurement] = []
    for pair in sorted(merged, key=_together, reverse=True):
        cliques = [*(m.columns for m in kept), pair.columns]
        if pgm.model_mb(look.domain, cliques) <= ROOM * limit:
            kept.append(pair)
    return kept


def _together(pair: Measurement) -> float:
    """How far a pair is from one of columns that have nothing to do with each other."""
    values = np.asarray(pair.values, dtype=float)
    apart = np.outer(values.sum(axis=1), values.sum(axis=0)) / max(float(values.sum()), 1.0)
    return float(np.abs(values - apart).sum())
