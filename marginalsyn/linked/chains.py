"""Chains that keep to their model: drawn rows follow each other, and what is off adds up.

A later row is drawn given the row before, which was drawn itself. Where the model is off a little,
for noise or because it does not hold every relation, rows drift: far down a chain single columns
have other shares than the model of all later rows says. So persons are drawn, their columns are
counted as the view counts, and the column's own weights in the model are moved by a part of what
is lacking, a few times. Single columns are moved, and how often a value stays: pairs moved all at
once do not settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from marginalsyn.contract import Model
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.model import Fitted

Shares = Mapping[tuple[str, ...], np.ndarray]
# How many times, how far each time, and what keeps rare codes from being moved far.
ROUNDS, DAMPING, FLOOR = 5, 0.5, 2e-3


def calibrate_chain(model: Model, drawn: Callable[[Model], Shares]) -> Model:
    """The model, moved until rows that are drawn from it have its shares of single columns.

    Args:
        model: of later rows.
        drawn: of chains drawn from a model, the shares of merged codes by column, and by pairs of a
            column before and now those of rows that stay and of rows that do not.

    Returns:
        The model whose chains came nearest; the one given, if no move helped.
    """
    fitted, _ = stored_model(model)
    found = drawn(model)
    cliques = [{*clique} for clique in fitted.cliques]
    aims = {
        columns: shares_of(fitted.marginal(columns))
        for columns in found
        if any({*columns} <= clique for clique in cliques)
    }
    best, least = model, _off(aims, found)
    for _ in range(ROUNDS):
        potentials = fitted.potentials
        for columns, aim in aims.items():
            ratio = DAMPING * np.log((aim + FLOOR) / (found[columns] + FLOOR))
            if len(columns) == 2:
                size = fitted.domain[columns[0]]
                ratio = np.where(np.eye(size, dtype=bool), ratio[0], ratio[1])
            potentials[columns] = potentials.get(columns, 0.0) + ratio
        fitted = Fitted.of_potentials(fitted.domain, potentials, total=fitted.total)
        arrays, meta = fitted.arrays()
        kept = {k: v for k, v in model.arrays.items() if not k.startswith("pgm_")}
        kept.update({f"pgm_{name}": array for name, array in arrays.items()})
        moved = replace(model, arrays=kept, meta={**model.meta, "pgm": meta})
        found = drawn(moved)
        if (off := _off(aims, found)) < least:
            best, least = moved, off
    return best


def shares_of(counts: np.ndarray) -> np.ndarray:
    """Shares of one column's codes; of a pair, those of rows that stay and of rows that do not."""
    shares = counts / max(float(counts.sum()), 1e-9)
    if shares.ndim == 1:
        return shares
    same = float(np.trace(shares))
    return np.array([same, 1 - same])


def _off(aims: Shares, found: Shares) -> float:
    """The sum of total variation distances of all columns."""
    return sum(float(np.abs(aim - found[columns]).sum()) / 2 for columns, aim in aims.items())
