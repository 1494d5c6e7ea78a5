"""Post-processing that generators share: totals, projections, rounding and possible rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.contract import MAX_ROWS
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.validation import first_of

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.contract import Measurement
    from marginalsyn.graphical.model import Fitted
    from marginalsyn.people.tree import LinkedSchema
    from marginalsyn.table.rules import Rule
    from marginalsyn.table.schema import Schema

Zeros = Sequence[tuple[Sequence[int], np.ndarray]]
"""Structural zeros by column position: the columns, and True where a cell is impossible."""

_ROUNDS = 50
# Cells of a model that shows which values rules exclude.
_SEARCHED = 2**20


def estimate_total(marginals: Iterable[Measurement]) -> tuple[float, float]:
    """Estimate the number of rows from noisy marginals by inverse-variance weighting.

    A marginal of k cells with noise of standard deviation s sums to the number of rows with
    variance k s^2, and the noises are independent.

    Args:
        marginals: noisy counts with the standard deviations of their noise.

    Returns:
        The estimate of least variance, possibly negative, and its standard deviation; 0 and
        infinity where there is no marginal.

    Example:
        >>> from marginalsyn.contract import Measurement
        >>> estimate_total([Measurement(("a",), np.array([10, 5]), 1.0)] * 2)
        (15.0, 1.0)
    """
    sums, precisions = [], []
    for m in marginals:
        sums.append(float(np.sum(m.values)))
        variances = [sigma**2 for sigma in np.ravel(m.sigma).tolist()]
        precisions.append(1.0 / (np.size(m.values) * float(np.mean(variances))))
    if not sums:
        return 0.0, math.inf
    return float(np.average(sums, weights=precisions)), float(np.sum(precisions)) ** -0.5


def known_total(visit: Visit, measured: Iterable[Measurement]) -> tuple[float, float]:
    """The number of rows and its standard deviation: public, or estimated.

    It is public under replace, and where a margin states it.
    """
    if visit.neighbours is Neighbours.REPLACE:
        return float(max(visit.rows, 1)), 0.0
    if (stated := visit.schema.public_rows) is not None:
        survey = visit.schema.survey_weight
        return min(max(stated / (survey.bound if survey else 1.0), 1.0), float(MAX_ROWS)), 0.0
    total, spread = estimate_total(measured)
    return min(max(total, 1.0), float(MAX_ROWS)), spread


def warn_of_noise(total: float, spread: float) -> list[str]:
    """A warning for the statement where the estimated number of rows is mostly noise."""
    if total > 3 * spread:
        return []
    return [
        f"The number of rows is mostly noise (about {total:.0f}, standard deviation {spread:.0f}), "
        "and so is the rest: a larger eps, fewer columns or fewer bins would help."
    ]


def project_to_simplex(values: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The nearest point (least squares) with non-negative entries that sum to ``total``.

    Every entry is lowered by the same amount and cut at zero, so that large counts keep their
    noise's distribution while a tail of cells of nothing but noise vanishes.

    Args:
        values: any real array; its shape is kept.
        total: positive.

    Example:
        >>> project_to_simplex(np.array([3.0, 2.0, -5.0]), total=3.0)
        array([2., 1., 0.])
    """
    flat = np.asarray(values, dtype=float).ravel()
    ranked = np.sort(flat)[::-1]
    excess = (np.cumsum(ranked) - total) / np.arange(1, flat.size + 1)
    shift = excess[np.flatnonzero(ranked > excess)[-1]]
    return np.maximum(flat - shift, 0.0).reshape(np.shape(values))


def is_distribution(values: object, size: int) -> bool:
    """Whether an array, perhaps from an untrusted file, holds weights of ``size`` codes."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.shape != (size,):
        return False
    return bool(np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0)


def round_counts(probabilities: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Whole counts that sum to ``rows``: each expectation is rounded up or down, without bias.

    Systematic sampling of the fractional parts, in a random order of the cells.

    Example:
        >>> round_counts(np.array([0.5, 0.5]), 4, np.random.default_rng(0))
        array([2, 2])
    """
    flat = np.asarray(probabilities, dtype=float).ravel()
    order = rng.permutation(flat.size)
    # Ticks of a uniformly shifted unit grid that fall in each cell's stretch of [0, rows].
    ends = np.cumsum(flat[order])
    ticks = np.floor(ends * (rows / ends[-1]) + rng.random()).astype(np.int64)
    ticks[-1] = rows
    counts = np.empty(flat.size, dtype=np.int64)
    counts[order] = np.diff(np.minimum(ticks, rows), prepend=0)
    return counts.reshape(np.shape(probabilities))


def zeros_of(schema: Schema) -> Zeros:
    """The structural zeros of a schema by column position."""
    position = {name: number for number, name in enumerate(schema.names)}
    return [([position[c] for c in cols], mask) for cols, mask in schema.structural_zeros()]


def excluded_values(schema: Schema | LinkedSchema) -> list[str]:
    """A line for values that no row has which keeps the rules, with a smallest set of such rules.

    All of it is sure, but what rules exclude inside bins, or in too many cells, is not found.
    """
    from marginalsyn.people.views import ruled_schemas

    return [*dict.fromkeys(line for one in ruled_schemas(schema) for line in _excluded(one))]


def _excluded(schema: Schema) -> list[str]:
    from marginalsyn.graphical.model import fit
    from marginalsyn.table.keeping import impossible_cells, ready_rules, smallest, texts_of

    zeros, rules = schema.structural_zeros(rules=False), ready_rules(schema.rules, schema.columns)
    sets = frozenset(frozenset(names) for names, _ in zeros)
    named = set().union(*sets, *(rule.names for rule in rules))
    domain = {name: size for name, size in schema.domain.items() if name in named}

    @cache
    def model(texts: tuple[str, ...]) -> Fitted:
        cells, _ = impossible_cells(texts, schema.columns, sets, _SEARCHED)
        return fit(domain, [], zeros=[*zeros, *cells])

    def gone(name: str, some: Sequence[Rule]) -> np.ndarray:
        return model(texts_of(some)).marginal((name,)) == 0

    def excludes(name: str, code: np.intp, some: Sequence[Rule]) -> bool:
        return bool(gone(name, some)[code])

    lines = []
    for name in domain:
        left = gone(name, rules) & ~gone(name, ())
        while left.any():
            some = smallest(rules, partial(excludes, name, left.argmax()))
            own = left & gone(name, some)
            left &= ~own
            labels = [schema.column(name).labels()[code] for code in np.flatnonzero(own)]
            lines.append(
                f"{name} = {first_of(labels, 5)} can occur in no row that keeps the "
                f"rules: {'; '.join(texts_of(some))}"
            )
    return lines


def draw_possible(
    schema: Schema, rows: int, draw: Callable[[int], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Rows of codes from ``draw``, redrawn where they lie in a structural zero or break a rule."""
    sizes, zeros, given = np.array([*schema.domain.values()]), zeros_of(schema), draw
    if schema.rules:
        from marginalsyn.table.keeping import keep_codes

        def draw(n: int) -> np.ndarray:
            return keep_codes(schema, given(n), given, rng)

    return redraw(
        draw(rows),
        lambda some: impossible_rows(some, zeros),
        draw,
        lambda n: rng.integers(0, sizes, size=(n, sizes.size)),
        rng,
    )


def impossible_rows(codes: np.ndarray, zeros: Zeros) -> np.ndarray:
    """Which rows lie in a structural zero."""
    bad = np.zeros(len(codes), dtype=bool)
    for columns, mask in zeros:
        bad |= mask[tuple(codes[:, column] for column in columns)]
    return bad


def redraw(
    rows: np.ndarray,
    impossible: Callable[[np.ndarray], np.ndarray],
    draw: Callable[[int], np.ndarray],
    uniform: Callable[[int], np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """Replace the rows that are ``impossible``, in place.

    They are drawn again from ``draw``; after 50 rounds uniformly, for another 50; those that are
    impossible even then become copies of possible rows. Where there is none, they remain.
    """
    bad = np.flatnonzero(impossible(rows))
    for round_ in range(2 * _ROUNDS):
        if not bad.size:
            return rows
        rows[bad] = draw(bad.size) if round_ < _ROUNDS else uniform(bad.size)
        bad = bad[impossible(rows[bad])]
    good = np.setdiff1d(np.arange(len(rows)), bad, assume_unique=True)
    if good.size:
        rows[bad] = rows[rng.choice(good, size=bad.size)]
    return rows
