"""Which part of a quantity the measured marginals tell: its nearest function of their cells.

The influence of a row on a quantity is a function of the row. Its projection, under the model, onto
sums of functions of measured cells is what noisy answers can correct; the rest follows from the
model's assumption that columns never measured together are independent given the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.noisy_marginals import Columns, Function, combine
from marginalsyn.graphical.compression import sum_groups

if TYPE_CHECKING:
    from marginalsyn.answers.estimation import Problem
    from marginalsyn.answers.evidence import Evidence

# Further marginals are looked for among so many, of so many cells together.
_MOST_MORE, _MORE_CELLS = 12, 3_000
# So much of the weight is spread evenly, so that cells which the model holds empty count, too.
_EVEN, _LEAST = 0.005, 1e-9


def measured_within(evidence: Evidence, columns: Sequence[str]) -> list[Columns]:
    """The largest sets of some columns that were measured together."""
    found = {
        tuple(name for c in columns for name in marginal.columns if evidence.base(name) == c)
        for marginal in evidence.marginals
    }
    return sorted(s for s in found if s and not any({*s} < {*other} for other in found))


def project(
    evidence: Evidence,
    cells: CodeCombinations,
    weights: np.ndarray,
    influence: np.ndarray,
    more: Sequence[Columns] = (),
) -> tuple[list[Function], np.ndarray]:
    """For each column of ``influence`` its projection, as a function and at every combination.

    ``more`` are sets of columns to be taken as measured, too.
    """
    evidence = evidence.steady
    weights = evidence.weights(cells)
    sets = [*measured_within(evidence, cells.columns), *more]
    if cells.shape is not None and any({*s} == {*cells.columns} for s in sets):
        functions = [
            _of_table(evidence, cells.columns, values.reshape(cells.shape))
            for values in influence.T
        ]
        return functions, np.stack([evaluate(evidence, f, cells) for f in functions], axis=1)
    blocks = list(_blocks(evidence, cells, sets))
    ends = np.cumsum([math.prod(shape) for _, shape, _ in blocks])
    starts = [0, *ends[:-1].tolist()]
    rows = np.arange(len(cells.codes))
    design = sparse.csr_matrix(
        (
            np.ones(len(rows) * len(blocks)),
            (
                np.tile(rows, len(blocks)),
                np.concatenate(
                    [k + start for (_, _, k), start in zip(blocks, starts, strict=True)]
                ),
            ),
        ),
        shape=(len(rows), int(ends[-1])),
    )
    even = _EVEN if cells.shape is not None else 0.0
    mixed = (1 - even) * weights + even / len(rows)
    weighed = design.multiply(mixed[:, None]).tocsr()
    normal = (design.T @ weighed).toarray()
    # Rows that were drawn would explain themselves in cells that hold few of them.
    ridge = 1e-9 * float(mixed.mean()) if cells.shape is not None else 2.0 / len(rows)
    normal[np.diag_indices_from(normal)] += ridge
    solved = linalg.cho_solve(linalg.cho_factor(normal), weighed.T @ influence)
    functions = []
    for number in range(influence.shape[1]):
        terms, within = [], {}
        for (columns, shape, _), start in zip(blocks, starts, strict=True):
            values = solved[start : start + math.prod(shape), number].reshape(shape)
            if len(columns) == 1 and shape[0] != evidence.domain[columns[0]]:
                within[columns[0]] = values
            else:
                terms.append((columns, values))
        functions.append(combine(evidence, terms, within))
    return functions, design @ solved


def missing_marginals(problem: Problem, least: float) -> tuple[Columns, ...]:
    """Few marginals that would measure such a share of a question, of as few columns as can be.

    Found greedily, and for what the model takes the table to be; empty where none would.
    """
    evidence, columns = problem.graphical, problem.cells.columns
    sets = [{evidence.base(c) for c in s} for s in measured_within(evidence, columns)]

    def measure(more: Sequence[Columns]) -> bool:
        if sum(math.prod(evidence.domain[c] for c in s) for s in more) > _MORE_CELLS:
            return False
        _, projected = project(
            evidence, problem.cells, problem.weights, problem.influence, more=more
        )
        return bool((problem.share_of(projected) >= least).all())

    for size in range(2, len(columns) + 1):
        found = [
            c for c in itertools.combinations(columns, size) if not any({*c} <= s for s in sets)
        ]
        if not found or not measure(found):
            continue
        for one in found if len(found) <= _MOST_MORE else ():
            fewer = [c for c in found if c != one]
            if fewer and measure(fewer):
                found = fewer
        return tuple(found)
    return ()


def _blocks(
    evidence: Evidence, cells: CodeCombinations, sets: Sequence[Columns]
) -> Iterator[tuple[Columns, tuple[int, ...], np.ndarray]]:
    """Columns, shape, and every combination's cell, of merged codes and of columns' own codes."""
    place = {name: i for i, name in enumerate(cells.columns)}
    merges = evidence.compression.merges
    for columns in sets:
        shape = tuple(evidence.domain[c] for c in columns)
        codes = tuple(_codes(evidence, cells, c) for c in columns)
        yield columns, shape, np.ravel_multi_index(codes, shape)
    for name in cells.columns:
        if not merges[name].trivial:
            yield ((name,), (len(merges[name].groups),), cells.codes[:, place[name]].astype(int))


def _of_table(evidence: Evidence, columns: Columns, values: np.ndarray) -> Function:
    """A function of columns that were measured together, as far as merged codes tell it."""
    merges = evidence.compression.merges
    merged = values
    for axis, name in enumerate(columns):
        merged = _averaged(merged, merges[name].groups, merges[name].shares, axis)
    within = {}
    for axis, name in enumerate(columns):
        if merges[name].trivial:
            continue
        others = tuple(c for c in columns if c != name)
        own = values
        if others:
            joint = np.moveaxis(evidence.shares(columns), axis, 0).reshape(values.shape[axis], -1)
            joint = joint + _LEAST / joint.size
            own = np.einsum("ij,ij->i", joint, np.moveaxis(values, axis, 0).reshape(joint.shape))
            own = own / joint.sum(axis=1)
        mean = _averaged(own, merges[name].groups, merges[name].shares, 0)
        within[name] = own - mean[merges[name].groups]
    return combine(evidence, [(columns, merged)], within)


def _averaged(values: np.ndarray, groups: np.ndarray, shares: np.ndarray, axis: int) -> np.ndarray:
    """The mean over the codes of each merged code, by their shares."""
    shared = np.moveaxis(np.moveaxis(values, axis, -1) * shares, -1, axis)
    return sum_groups(shared, groups, axis)


def evaluate(evidence: Evidence, function: Function, cells: CodeCombinations) -> np.ndarray:
    """A function's value at every combination."""
    values = np.full(len(cells.codes), function.constant)
    for columns, part in function.parts.items():
        values += part[tuple(_codes(evidence, cells, c) for c in columns)]
    for name, part in function.within.items():
        values += part[cells.codes[:, cells.columns.index(name)]]
    return values


def _codes(evidence: Evidence, cells: CodeCombinations, name: str) -> np.ndarray:
    """Every combination's code of a column of the model, which may be coarse."""
    place = cells.columns.index(evidence.base(name))
    return np.asarray(evidence.groups(name)[cells.codes[:, place]])
