"""What a release cannot know about a question, and how far that may move its answer.

Columns that were never measured together are independent in the model, given the others. Where a
quantity rests on such a pair, the pair is set to the extremes that are left: all tables with the
model's one-way marginals, and, where the release bounds the pair's error, within that bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse

from marginalsyn.answers.atoms import bin_middles
from marginalsyn.answers.estimation import TOLD, Problem
from marginalsyn.answers.fields import FieldEvidence
from marginalsyn.answers.means import combine as function_of
from marginalsyn.answers.means import decompose, weigh
from marginalsyn.answers.quantities import Difference, Mean
from marginalsyn.answers.regression import Regression
from marginalsyn.table import ContinuousColumn, IntegerColumn

# A pair of more cells than this is bounded by its range alone.
_MOST_CELLS = 1_500
# A part of the influence below this share of its variance is not worth a warning.
_SLIGHT = 0.01
# A group should hold so many times its count's noise.
_FEW = 4.0
# Below this share the answers tell too little of a number.
_MOSTLY = 0.9
_CLIPPED = 0.05

Pair = tuple[str, str]


@dataclass(frozen=True)
class Limits:
    """What one question cannot know.

    Attributes:
        down, up: how far each number may lie below and above its estimate for what was never
            measured, the interval aside; 0 where all was.
        notes: what readers should know of each number.
    """

    down: np.ndarray
    up: np.ndarray
    notes: list[tuple[str, ...]]


def limits_of(problem: Problem, bounds: Mapping[Pair, float]) -> Limits:
    """Find what a question rests on that the release does not tell.

    Args:
        problem: the question.
        bounds: what the release says of pairs: the l1 error of the model's shares, at most.
    """
    if isinstance(problem.evidence, FieldEvidence):
        return _of_points(problem)
    size = len(problem.value)
    down, up = np.zeros(size), np.zeros(size)
    shared = [*_binned(problem), *_few(problem)]
    notes: list[list[str]] = [list(shared) for _ in range(size)]
    pairs = _unmeasured(problem) if (problem.told < TOLD).any() else []
    for pair in pairs:
        for i, effect in _effects(problem, pair):
            low, high = _extremes(problem, pair, effect, bounds.get(pair))
            down[i] += min(low, 0.0)
            up[i] += max(high, 0.0)
            notes[i].append(
                f"{pair[0]} and {pair[1]} were measured together in groups of their values alone: "
                "within these the interval takes them as independent given the other columns"
                if _coarsely(problem, pair)
                else f"{pair[0]} and {pair[1]} were never measured together: the interval takes "
                "them as independent given the other columns"
            )
    merges = problem.marginals.compression.merges
    merged = [name for name in problem.atoms.columns if not merges[name].trivial]
    for i in np.flatnonzero(problem.told < _MOSTLY).tolist() if merged else []:
        notes[i].append(
            f"values of {', '.join(merged)} were measured as one where noise would drown them: "
            "what this rests on was hardly measured, and its interval does not hold"
        )
    return Limits(down * problem.size, up * problem.size, [tuple(own) for own in notes])


def _of_points(problem: Problem) -> Limits:
    """Of support points: which numbers the potential hardly tells."""
    least = max(float(problem.told.min()), 0.0)
    title = problem.question.title
    text = (
        f"the potential tells as little as {100 * least:.0f}% of what {title} rests on: the rest "
        "is taken from the points, and is uncertain by half of its own spread"
    )
    notes: list[tuple[str, ...]] = [(text,) if told < _MOSTLY else () for told in problem.told]
    nothing = np.zeros(len(problem.value))
    return Limits(nothing, nothing.copy(), notes)


def pair_bounds(told: object) -> dict[Pair, float]:
    """The bounds on pairs in a release's notes, by the columns in the order of the schema."""
    found: dict[Pair, float] = {}
    marginals = told.get("marginals", ()) if isinstance(told, Mapping) else ()
    for entry in marginals:
        columns = tuple(entry.get("columns", ()))
        if len(columns) == 2 and not entry.get("measured"):
            found[columns] = float(entry["l1"])
    return found


def _unmeasured(problem: Problem) -> list[Pair]:
    """The pairs of a question's columns that no marginal holds."""
    looks = problem.marginals.looks
    return [
        pair
        for pair in itertools.combinations(problem.atoms.columns, 2)
        if not any({*pair} <= {*look.columns} for look in looks)
    ]


def _coarsely(problem: Problem, pair: Pair) -> bool:
    """Whether a marginal holds a pair by groups of codes."""
    base = problem.marginals.base
    return any({*pair} <= {base(c) for c in look.columns} for look in problem.marginals.looks)


def _effects(problem: Problem, pair: Pair) -> list[tuple[int, np.ndarray]]:
    """What the numbers make of a pair's joint distribution, where that is not slight."""
    domain, merges = problem.marginals.domain, problem.marginals.compression.merges
    shape = tuple(domain[c] for c in pair)
    places = [problem.atoms.columns.index(c) for c in pair]
    codes = tuple(
        merges[c].groups[problem.atoms.codes[:, p]] for c, p in zip(pair, places, strict=True)
    )
    keys = np.ravel_multi_index(codes, shape)
    cells = int(np.prod(shape))
    mass = np.bincount(keys, problem.weights, minlength=cells)
    rest = problem.influence - problem.projected
    whole = np.maximum(problem.weights @ np.square(problem.influence), 1e-300)
    found = []
    for i in np.flatnonzero(problem.told < TOLD).tolist():
        sums = np.bincount(keys, problem.weights * rest[:, i], minlength=cells)
        effect = np.divide(sums, mass, out=np.zeros(cells), where=mass > 1e-9).reshape(shape)
        if float(mass @ np.square(effect.ravel())) > _SLIGHT * whole[i]:
            found.append((int(i), decompose(pair, effect)[pair]))
    return found


def _extremes(
    problem: Problem, pair: Pair, effect: np.ndarray, bound: float | None
) -> tuple[float, float]:
    """The least and the largest change of a number over what the pair may be."""
    shares = problem.marginals.fitted.marginal(pair) / problem.marginals.fitted.total
    room = 2.0 if bound is None else min(bound, 2.0)
    if shares.size > _MOST_CELLS:
        reach = 0.5 * room * float(np.ptp(effect))
        return -reach, reach
    rows, columns = shares.shape
    index = np.arange(shares.size)
    sums = sparse.vstack(
        [
            sparse.csr_matrix((np.ones(shares.size), (index // columns, index))),
            sparse.csr_matrix((np.ones(shares.size), (index % columns, index))),
        ]
    )
    # Up and down are apart: their sum is the l1 change.
    equal = sparse.hstack([sums, -sums]).tocsr()
    ends = []
    for sign in (1.0, -1.0):
        cost = sign * np.concatenate([effect.ravel(), -effect.ravel()])
        solved = optimize.linprog(
            cost,
            A_ub=np.ones((1, 2 * shares.size)),
            b_ub=[room],
            A_eq=equal,
            b_eq=np.zeros(rows + columns),
            bounds=[(0, None)] * shares.size + [(0, s) for s in shares.ravel().tolist()],
        )
        ends.append(sign * float(solved.fun) if solved.status == 0 else sign * room)
    return ends[0], ends[1]


def _binned(problem: Problem) -> list[str]:
    """What bins and bounds hide of the numbers that a question uses."""
    question = problem.question
    found: list[str] = []
    if not isinstance(question, Mean | Difference | Regression):
        return found
    names = question.columns if isinstance(question, Regression) else question.columns[:1]
    for name in names:
        column = problem.marginals.schema.column(name)
        if not isinstance(column, IntegerColumn | ContinuousColumn):
            continue
        shares = problem.marginals.shares((name,))[: column.levels]
        half = bin_middles(column) - column.edges[:-1]
        reach = float(shares @ half)
        if isinstance(question, Mean) and reach > 0.5 * float(problem.error[0]):
            found.append(
                f"{name} is known by its bins alone: where values lie inside them may move its "
                f"mean by up to {reach:.3g}"
            )
        elif reach > 0:
            found.append(f"{name} is known by its bins alone, and counts as the middle of each")
        ends = [
            end
            for end, place in (("lower", 0), ("upper", -1))
            if shares[place] > _CLIPPED and half[place] > 0
        ]
        if ends:
            found.append(
                f"{name} beyond its bounds ({column.lower:g}, {column.upper:g}) counts as the "
                f"bound, and its {' and '.join(ends)} bin is not empty"
            )
    return found


def _few(problem: Problem) -> list[str]:
    """Groups that hold hardly more rows than their counts' noise."""
    question, evidence = problem.question, problem.marginals
    if isinstance(question, Difference):
        names = [question.by]
    elif isinstance(question, Regression):
        names = [c for c in question.columns if not evidence.schema.column(c).numeric]
    else:
        names = []
    found = []
    for name in names:
        column = evidence.schema.column(name)
        counts = evidence.shares((name,)) * evidence.total[0]
        for code, label in enumerate(column.labels()[: column.size - column.nullable]):
            own = np.zeros(column.size)
            own[code] = 1.0
            line = weigh(evidence, function_of(evidence, [], {name: own}))
            noise = evidence.total[0] * line.noise(evidence, 0.0) ** 0.5
            if counts[code] < _FEW * max(noise, 2.0):
                found.append(
                    f"{name} = {label} holds about {counts[code]:.0f} rows, which noise of "
                    f"{noise:.0f} hardly tells: what rests on it is uncertain beyond its interval"
                )
    return found
