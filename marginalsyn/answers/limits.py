"""Limits of a release: what it cannot know of a question, how far that may move it, what helps.

Columns that were never measured together are independent in the model, given the others. Where a
quantity rests on such a pair, the pair is set to the extremes that are left: all tables with the
model's one-way marginals, and, where the release bounds the pair's error, within that bound.
Triples and more have no such extremes here: the share of the question that was measured decides
whether there is an interval, and how wide it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse

from marginalsyn.answers.estimation import ANSWERED, Problem
from marginalsyn.answers.families import Logistic
from marginalsyn.answers.noisy_marginals import combine as function_of
from marginalsyn.answers.noisy_marginals import decompose, weigh
from marginalsyn.answers.projection import missing_marginals
from marginalsyn.answers.regression import Fit, Regression, Risk
from marginalsyn.table.numeric import NumberColumn

# A pair of more cells than this is bounded by its range alone.
_MOST_CELLS = 1_500
# A part of the influence below this share of its variance is not worth a warning.
_SLIGHT = 0.01
# A group should hold so many times its count's noise.
_FEW = 4.0
_CLIPPED = 0.05
# Log-odds are hardly known where this share of the rows has a likelihood of the label's other value
# below so much, and log-odds with a standard error above so much.
_SPLIT, _RARE, _VAGUE = 0.01, 0.01, 0.4

Pair = tuple[str, str]


@dataclass(frozen=True)
class Limits:
    """How far unmeasured pairs may move one question's numbers, with notes on them.

    Attributes:
        down, up: how far each number may lie below and above its estimate if pairs that were
            never measured are set to their extremes, besides the interval; 0 where all were.
        notes: what readers should know of each number.
    """

    down: np.ndarray
    up: np.ndarray
    notes: list[tuple[str, ...]]


def limits_of(problem: Problem, bounds: Mapping[Pair, float]) -> Limits:
    """Find what a question rests on that the release did not measure.

    ``bounds`` are the release's on pairs: the l1 error of the model's shares, at most.
    """
    if problem.evidence.drift:
        return _of_points(problem)
    size = len(problem.value)
    down, up = moved = np.zeros((2, size))
    shared = [*_binned(problem), *_cut(problem), *_split(problem), *_few(problem).values()]
    notes = [list(shared) for _ in range(size)]
    pairs = _unmeasured(problem) if (problem.widened | ~problem.answered).any() else []
    # By groups of codes.
    base = problem.graphical.base
    coarse = [{base(c) for c in m.columns} for m in problem.graphical.marginals]
    for pair in pairs:
        for i, effect in _effects(problem, pair):
            low, high = _extremes(problem, pair, effect, bounds.get(pair))
            down[i] += min(low, 0.0)
            up[i] += max(high, 0.0)
            notes[i].append(
                f"{pair[0]} and {pair[1]} were measured together in groups of their values alone: "
                "within these the model takes them as independent given the other columns"
                if any({*pair} <= columns for columns in coarse)
                else f"{pair[0]} and {pair[1]} were never measured together: the model takes them "
                "as independent given the other columns"
            )
    merged = merged_columns(problem)
    for i in np.flatnonzero(~problem.answered).tolist() if merged else []:
        notes[i].append(
            f"values of {', '.join(merged)} were measured as one where noise would drown them"
        )
    for i, text in unanswered(problem).items():
        notes[i].append(text)
    ends = np.clip(problem.fitted + moved, *problem.statistic.limits)
    down, up = (ends - problem.fitted) * problem.size
    return Limits(down, up, [tuple(own) for own in notes])


def _of_points(problem: Problem) -> Limits:
    """Of support points: which numbers the potential hardly measured."""
    least = max(float(problem.measured_share.min()), 0.0)
    title = problem.question.title
    text = (
        f"the potential measured as little as {100 * least:.0f}% of what {title} rests on: the "
        "rest is taken from the points, and is uncertain by half of its own spread"
    )
    lacking = problem.measured_share < ANSWERED
    notes: list[tuple[str, ...]] = [(text,) if own else () for own in lacking]
    nothing = np.zeros(len(problem.value))
    return Limits(nothing, nothing.copy(), notes)


def merged_columns(problem: Problem) -> list[str]:
    """The columns of a question of which some values were measured as one."""
    merges = problem.graphical.compression.merges
    return [name for name in problem.cells.columns if not merges[name].trivial]


def unanswered(problem: Problem) -> dict[int, str]:
    """What to say of numbers without an interval, and of those whose interval is much wider."""
    title, found = problem.question.about, dict[int, str]()
    for i in np.flatnonzero(problem.widened).tolist():
        found[i] = (
            f"{title} rests in part on what was not measured "
            f"({100 * float(problem.measured_share[problem.widened].min()):.3g}% was): its "
            "interval is wider for that, by as much as such a rest usually moves it"
        )
    lacking = ~problem.answered
    if lacking.any():
        names = [problem.statistic.names[i] for i in np.flatnonzero(lacking)]
        if not (problem.question.single or lacking.all()):
            title += f" ({', '.join(names[:3])}{', ...' * (len(names) > 3)})"
        least = max(float(problem.measured_share.min()), 0.0)
        said = (
            f"{title} is not measured by this release: its answers decide as little as "
            f"{100 * least:.0f}% of what it rests on, so there is no interval, and what the "
            f"synthetic rows show may be wrong. {_remedy(problem)}"
        )
        found.update(dict.fromkeys(np.flatnonzero(lacking).tolist(), said))
    return found


def _remedy(problem: Problem) -> str:
    """How the curator can have a question measured."""
    more = missing_marginals(problem, ANSWERED)
    if not more:
        return "A release with a larger eps, or of fewer values, may measure it"
    names = ";".join(",".join(columns) for columns in more)
    question = problem.question
    models = isinstance(question, Regression) and all(
        len(c) == 2 and question.label in c for c in more
    )
    instead = f'--for "{question.formula}"' if models else "--workload FILE"  # type: ignore[attr-defined]
    return (
        f"The curator can measure it: `marginalsyn weight RELEASE --method rake --marginals "
        f'"{names}"`, or aim a new release at it: `marginalsyn generate {instead}`'
    )


def pair_bounds(notes: object) -> dict[Pair, float]:
    """The bounds on pairs in a release's notes, by the columns in the order of the schema."""
    found = {}
    marginals = notes.get("marginals", ()) if isinstance(notes, Mapping) else ()
    for entry in marginals:
        columns = tuple(entry.get("columns", ()))
        if len(columns) == 2 and not entry.get("measured"):
            found[columns] = float(entry["l1"])
    return found


def _unmeasured(problem: Problem) -> list[Pair]:
    """The pairs of a question's columns that no marginal holds."""
    marginals = problem.graphical.marginals
    return [
        pair
        for pair in itertools.combinations(problem.cells.columns, 2)
        if not any({*pair} <= {*m.columns} for m in marginals)
    ]


def _effects(problem: Problem, pair: Pair) -> list[tuple[int, np.ndarray]]:
    """What the numbers make of a pair's joint distribution, where that is not slight."""
    domain, merges = problem.graphical.domain, problem.graphical.compression.merges
    shape = tuple(domain[c] for c in pair)
    places = [problem.cells.columns.index(c) for c in pair]
    codes = tuple(
        merges[c].groups[problem.cells.codes[:, p]] for c, p in zip(pair, places, strict=True)
    )
    keys = np.ravel_multi_index(codes, shape)
    size = int(np.prod(shape))
    mass = np.bincount(keys, problem.weights, minlength=size)
    rest = problem.influence - problem.projected
    whole = np.maximum(problem.weights @ np.square(problem.influence), 1e-300)
    found = []
    for i in np.flatnonzero(problem.widened | ~problem.answered).tolist():
        sums = np.bincount(keys, problem.weights * rest[:, i], minlength=size)
        effect = np.divide(sums, mass, out=np.zeros(size), where=mass > 1e-9).reshape(shape)
        if float(mass @ np.square(effect.ravel())) > _SLIGHT * whole[i]:
            found.append((int(i), decompose(pair, effect)[pair]))
    return found


def _extremes(
    problem: Problem, pair: Pair, effect: np.ndarray, bound: float | None
) -> tuple[float, float]:
    """The least and the largest change of a number over what the pair may be."""
    shares = problem.graphical.fitted.marginal(pair) / problem.graphical.fitted.total
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
    # Ups and downs are separate unknowns: their sum is the l1 change.
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
    found = []
    for name in question.averaged:
        column = problem.graphical.schema.column(name)
        if not isinstance(column, NumberColumn):
            continue
        bins = problem.graphical.bins(name)
        assert bins is not None
        if bins.room.any() and isinstance(question, Risk):
            found.append(f"{name} is known by its bins alone, and counts as the middle of each")
        elif bins.room.any():
            room = bins.room if question.null is None else bins.usual
            reach = float((room @ bins.shares).max())
            usually = "" if question.null is None else " if they lie there as evenly as next to it"
            found.append(
                f"{name} is known by its bins alone: where values lie inside them may move its "
                f"mean by up to {reach:.3g}{usually}, which the interval allows for"
            )
        ends = [
            end
            for end, place in (("lower", 0), ("upper", -2))
            if bins.shares[place] > _CLIPPED and bins.room[:, place].any()
        ]
        if ends:
            found.append(
                f"{name} beyond its bounds ({column.lower:g}, {column.upper:g}) counts as the "
                f"bound, and its {' and '.join(ends)} bin is not empty"
            )
    return found


def _cut(problem: Problem) -> list[str]:
    """Conditions that take some values of a bin and leave others."""
    found = dict[str, str]()
    for mask in problem.cells.cut.values():
        column = problem.graphical.schema.column(mask.column)
        own = [label for label, cut in zip(column.labels(), mask.cuts, strict=False) if cut]
        if column.numeric:
            found[mask.column] = (
                f"the condition on {mask.column} cuts its bins {', '.join(own[:2])}: its rows "
                "there are a part that lies as evenly as next to them, which the interval allows "
                "for; a condition that ends where bins do needs no such guess"
            )
    return list(found.values())


def _few(problem: Problem) -> dict[str, str]:
    """By group that holds hardly more rows than its count's noise, a note on it."""
    question, evidence, found = problem.question, problem.graphical, dict[str, str]()
    for name in question.grouping:
        column = evidence.schema.column(name)
        source, mapping = evidence.source(name)
        counts = np.bincount(mapping, evidence.shares((source,)), column.size) * evidence.total[0]
        for code, label in enumerate(column.labels()[: column.size - column.nullable]):
            own = (mapping == code).astype(float)
            line = weigh(evidence, function_of(evidence, [], {source: own}))
            noise = max(evidence.total[0] * line.noise(evidence, 0.0) ** 0.5, 2.0)
            # OTHER is in most schemas for the case that a value is not listed, and mostly empty.
            if code == column.other_code and counts[code] < noise:
                continue
            if counts[code] < _FEW * noise:
                found[f"{name} = {label}"] = (
                    f"{name} = {label} holds about {counts[code]:.0f} rows, which noise of "
                    f"{noise:.0f} hardly tells: what rests on it is uncertain beyond its interval"
                )
    return found


def _split(problem: Problem) -> list[str]:
    """Rows that nearly all have one value of the label: how rare the other is, noise hides."""
    fit = problem.statistic
    if not isinstance(fit, Fit) or not isinstance(fit.family, Logistic):
        return []
    if not problem.answered.all():
        return []
    spread = np.sqrt(np.einsum("ij,jk,ik->i", fit.x, sum(problem.covariances()), fit.x))
    odds = np.abs(fit.x @ problem.fitted)
    split = (odds > -math.log(_RARE)) & (spread > _VAGUE)
    if float(problem.weights[fit.kept] @ split) < _SPLIT:
        return []
    label = problem.question.label  # type: ignore[attr-defined]
    return [
        f"of some rows nearly all have one value of {label}, and noise hides how many have the "
        "other: coefficients that separate them may be larger than their intervals say"
    ]
