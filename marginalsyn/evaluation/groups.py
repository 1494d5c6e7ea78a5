"""Rare groups: the few rows that share a value, or a pair of values, and how well they are kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.table.design import CodedRows

# A group is rare with at most this share of the rows; small tables have none but by count.
RARE_SHARE, RARE_ROWS = 0.01, 30
# Fewer rows than that say nothing of the people behind the table.
FEWEST_ROWS = 10
# Marginals of more cells hold hardly any group that large.
MOST_CELLS = 2**20
# So many groups are named.
NAMED = 3


def rare_groups(
    reference: CodedRows, variants: Sequence[tuple[str | None, CodedRows]]
) -> dict[str, Any] | None:
    """How far the sizes of rare groups are off, in parts of their size; None without such groups.

    A group holds the rows with one value, or one pair of values: at least ten of them, and at most
    a hundredth of the table (or 30 rows). The error is the sum of all groups' errors over the sum
    of their sizes. Beside it stands what a fresh sample of real rows would show, to first order in
    its noise, and what columns would that know nothing of each other.

    Args:
        reference: the real rows.
        variants: synthetic rows, without weights and with them.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> codes = np.repeat([[0], [1]], [980, 20], axis=0)
        >>> rows = CodedRows(Schema.from_domain({"a": 2}), codes, codes / 1.0)
        >>> found = rare_groups(rows, [(None, rows)])
        >>> found["groups"], found["variants"][0]["error"], found["worst"][0]["group"]
        (1, 0.0, 'a 1')
    """
    rows = len(reference)
    least, most = FEWEST_ROWS / rows, max(RARE_SHARE, RARE_ROWS / rows)
    sizes = list(reference.schema.domain.values())
    alone = [_shares(reference, (j,), sizes) for j in range(len(sizes))]
    real: list[np.ndarray] = []
    blind: list[np.ndarray] = []
    made: list[list[np.ndarray]] = [[] for _ in variants]
    places: list[tuple[tuple[int, ...], np.ndarray]] = []
    for q in _marginals(sizes):
        shares = _shares(reference, q, sizes)
        cells = np.flatnonzero((shares >= least) & (shares <= most))
        if not len(cells):
            continue
        places.append((q, cells))
        real.append(shares[cells])
        product = alone[q[0]] if len(q) == 1 else np.outer(alone[q[0]], alone[q[1]]).ravel()
        blind.append(product[cells])
        for found, (_, table) in zip(made, variants, strict=True):
            found.append(_shares(table, q, sizes)[cells])
    if not real:
        return None
    truth = np.concatenate(real)
    count = len(variants[0][1])
    noise = np.sqrt(2 / np.pi * truth * (1 / rows + 1 / max(count, 1)))
    told = []
    for (weights, _), found in zip(variants, made, strict=True):
        shares = np.concatenate(found)
        told.append(
            {
                "weights": weights,
                "error": float(np.abs(shares - truth).sum() / truth.sum()),
                "lost": float(np.mean(shares == 0)),
            }
        )
    return {
        "groups": len(truth),
        "rows": [FEWEST_ROWS, math.floor(most * rows)],
        "variants": told,
        "fresh": float(noise.sum() / truth.sum()),
        "shuffled": float(np.abs(np.concatenate(blind) - truth).sum() / truth.sum()),
        "worst": _worst(reference, places, truth, np.concatenate(made[0])),
    }


def _marginals(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for j in range(len(sizes)):
        yield (j,)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        if sizes[a] * sizes[b] <= MOST_CELLS:
            yield (a, b)


def _shares(table: CodedRows, q: tuple[int, ...], sizes: Sequence[int]) -> np.ndarray:
    from marginalsyn.evaluation.marginals import share_table

    return share_table(table.codes[:, q], [sizes[j] for j in q], table.weights).ravel()


def _worst(
    reference: CodedRows,
    places: Sequence[tuple[tuple[int, ...], np.ndarray]],
    truth: np.ndarray,
    found: np.ndarray,
) -> list[Mapping[str, Any]]:
    """The groups that are off by most standard errors, by name."""
    columns = reference.schema.columns
    names = [column.labels() for column in columns]
    owner = np.repeat(np.arange(len(places)), [len(cells) for _, cells in places])
    every = np.concatenate([cells for _, cells in places])
    worst: list[Mapping[str, Any]] = []
    for k in np.argsort(-np.abs(found - truth) / np.sqrt(truth), kind="stable")[:NAMED]:
        q, _ = places[owner[k]]
        codes = np.unravel_index(every[k], [len(names[j]) for j in q])
        parts = [f"{columns[j].name} {names[j][c]}" for j, c in zip(q, codes, strict=True)]
        worst.append(
            {"group": " and ".join(parts), "real": float(truth[k]), "synthetic": float(found[k])}
        )
    return worst
