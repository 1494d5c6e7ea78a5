"""Totals of rows: read off counts by a person's number of rows, or bought apart with 1/b a row.

Both sides have the same budget. One spends all of it on a column by the number of rows; the other
half of it on that and half on the column's row totals, in which a row counts 1/b, so that a person
with at most b rows moves them by one at most. Counts are made non-negative as a fit makes them.
Told is the total variation distance of shares, of rows and of (number of rows, value).

    python benchmarks/row_totals.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from marginalsyn.graphical.estimation import project_to_simplex

VALUES, REPEATS = 5, 300


def few(persons: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Most persons have few rows, as in visits."""
    return np.minimum(rng.geometric(0.25, persons), most)


def even(persons: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Every number of rows is as frequent as any other."""
    return rng.integers(1, most + 1, persons)


def compare(law: Callable[..., np.ndarray], most: int, persons: int, sigma: float) -> list[float]:
    rng = np.random.default_rng(0)
    number = law(persons, most, rng)
    value = np.where(
        rng.random(persons) < 0.5,
        number * VALUES // (most + 1),
        rng.integers(0, VALUES, persons),
    )
    counts = np.zeros((most, VALUES))
    np.add.at(counts, (number - 1, value), 1)
    size = np.arange(1, most + 1)[:, None]
    rows = (size * counts).sum(axis=0)

    def far(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)

    found = []
    for _ in range(REPEATS):
        whole = project_to_simplex(counts + rng.normal(0, sigma, counts.shape), persons)
        half = project_to_simplex(counts + rng.normal(0, sigma * 2**0.5, counts.shape), persons)
        bought = rows + rng.normal(0, most * sigma * 2**0.5, VALUES)
        bought = project_to_simplex(bought, float(rows.sum()))
        found.append(
            [
                far((size * whole).sum(axis=0), rows),
                far(bought, rows),
                far(whole, counts),
                far(half, counts),
            ]
        )
    return [float(one) for one in np.mean(found, axis=0)]


def main() -> None:
    print(
        "| rows of persons | at most | persons | noise | rows: read off | bought "
        "| pairs: all | half |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for law in (few, even):
        for most in (12, 40):
            for persons, sigma in ((2000, 10), (2000, 40), (10_000, 40)):
                told = " | ".join(f"{one:.3f}" for one in compare(law, most, persons, sigma))
                print(f"| {law.__name__} | {most} | {persons:,} | {sigma} | {told} |", flush=True)


if __name__ == "__main__":
    main()
