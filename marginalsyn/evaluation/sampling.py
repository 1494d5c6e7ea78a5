"""The marginal error that sampling alone would give, so that a measured error can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from marginalsyn.evaluation.marginals import Columns, marginal_errors

# Below this many rows a quarter of them says nothing.
FEWEST_ROWS = 16


def sampling_errors(
    codes: np.ndarray,
    domain: Mapping[str, int],
    *,
    rng: np.random.Generator,
    rows: int | None = None,
    degree: int = 2,
    workload: Iterable[Sequence[str]] | None = None,
    draws: int = 8,
) -> dict[Columns, float]:
    """The l1 errors that a fresh sample of ``rows`` real rows would have against these rows.

    Disjoint halves of the table are two fresh samples of half its size, and disjoint quarters of
    a quarter. The error between them falls with a power of the size that depends on the marginal:
    -1/2 where every cell is well filled, 0 where every row has a cell to itself. The power seen
    between quarters and halves carries the error on to the size wanted, which overstates it
    slightly, since the power falls as cells fill. (A bootstrap would understate it: it never draws
    a combination that the table lacks.)

    Args:
        codes: the real rows.
        domain: sizes of the columns.
        rng: splits the rows.
        rows: of the fresh sample; as many as there are when not given.
        degree: largest order, where no ``workload`` is given.
        workload: the marginals wanted.
        draws: how many random splits are averaged.

    Returns:
        One error per marginal; empty where the table has too few rows to be split.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> errors = sampling_errors(rng.integers(0, 2, (1000, 1)), {"a": 2}, rng=rng, draws=20)
        >>> 0.02 < errors["a",] < 0.06
        True
    """
    count = len(codes)
    if count < FEWEST_ROWS:
        return {}
    chosen = [tuple(q) for q in workload] if workload is not None else None
    fresh = count if rows is None else max(1, rows)
    size = 2 * count * fresh / (count + fresh)
    halves: dict[Columns, float] = {}
    quarters: dict[Columns, float] = {}
    for _ in range(draws):
        q = np.array_split(codes[rng.permutation(count)], 4)
        pairs = (
            (np.concatenate(q[:2]), np.concatenate(q[2:]), halves),
            (q[0], q[1], quarters),
            (q[2], q[3], quarters),
        )
        for first, second, sums in pairs:
            found = marginal_errors(first, second, domain, degree=degree, workload=chosen)
            for columns, error in found.items():
                sums[columns] = sums.get(columns, 0.0) + error
    errors = {}
    # The power is seen with noise: cut at -1/2, where the truth often is, it would be biased.
    for columns, total in halves.items():
        half, quarter = total / draws, quarters[columns] / (2 * draws)
        power = np.clip(np.log2(half / quarter), -1.0, 0.0) if half and quarter else -0.5
        errors[columns] = float(min(2.0, half * (size / (count / 2)) ** power))
    return errors
