"""Support points as published (Diesendruck 2019, chapter 5)."""

from __future__ import annotations

import itertools

import numpy as np

from marginalsyn.plugins.audit import exact_points
from marginalsyn.plugins.audit.exact import (
    Scripted,
    cube,
    delta_between,
    halves,
    loss,
    normalised,
    support_law,
)
from marginalsyn.plugins.points.support_points import (
    SupportPointsConfig,
    SupportPointsHerdingConfig,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.progress import Silent
from marginalsyn.table.energy import energy_distance, potential

from .claim import DIESENDRUCK, Claim

REPLACE = Neighbours.REPLACE
_COUNT = 201


def finite_chain(rows: np.ndarray, states: int, coefficient: float, steps: int) -> np.ndarray:
    """The law of one point after ``steps`` of a +-1 walk on a grid, started at its centre.

    The walk is Metropolis-Hastings for exp(-coefficient * (2 U(y) - I)), U the mean distance to
    the rows (Diesendruck 2019, section 5.4, with increments of fixed length).
    """
    grid = np.linspace(0.0, 1.0, states)
    # Rounded so that what is level is level in floating point, too.
    height = np.round(np.abs(grid[:, None] - rows[:, 0]).mean(axis=1), 12)
    law = np.zeros(states)
    law[states // 2] = 1.0
    move = np.zeros((states, states))
    for here in range(states):
        for there in (here - 1, here + 1):
            if 0 <= there < states:
                gain = -2.0 * coefficient * (height[there] - height[here])
                move[here, there] = 0.5 * min(1.0, np.exp(gain))
        move[here, here] = 1.0 - move[here].sum()
    for _ in range(steps):
        law = law @ move
    return law


def support_points_1d(rows: np.ndarray, points: int) -> np.ndarray:
    """The exact support points of one column: its (2 i - 1) / (2 n) quantiles."""
    ranks = (2 * np.arange(1, points + 1) - 1) / (2 * points)
    places = np.ceil(ranks * len(rows)).astype(int) - 1
    return np.sort(rows[:, 0])[places][:, None]


def through_support_points() -> list[Claim]:
    """Algorithm 1: the score goes through the data's own support points."""
    found = []
    for points, places in ((1, 41), (5, 5)):
        grid = np.linspace(0.0, 1.0, places)[:, None]
        sets = list(itertools.product(range(places), repeat=points))
        tables = [halves(_COUNT, ones) for ones in (100, 101)]
        # Line 2 of Algorithm 1, at eps 1 and a diameter of 1.
        sensitivity = 2 * (2 * _COUNT - 1) / _COUNT**2
        laws = []
        for rows in tables:
            optimum = support_points_1d(rows, points)
            scores = [energy_distance(optimum, grid[list(chosen)]) for chosen in sets]
            laws.append(normalised(-np.array(scores) / (2 * sensitivity)))
        config = SupportPointsConfig(points=points)
        budget = Budget(eps=1.0, neighbours=REPLACE)
        ours = [support_law(rows, grid, sets, config, budget) for rows in tables]
        found.append(
            Claim(
                name=f"support points through those of the data, n = {points}",
                source=f"{DIESENDRUCK}, Algorithm 1",
                unit="eps",
                claimed=1.0,
                found=loss(*laws),
                ours=loss(*ours),
                bound=1.0,
                how=f"all outcomes on {places} places; 101 zeros and 100 ones, and one zero moved",
                why="one row can move every support point, so the sensitivity is twice the "
                "diameter, not a share of 1 / N of it",
            )
        )
    return found


def chains() -> list[Claim]:
    """A chain that is stopped, called a draw from its limit."""
    rows, states, eps = [halves(100, ones) for ones in (50, 51)], 51, 1.0
    sensitivity = 2.0 / 100
    stopped = [finite_chain(r, states, eps / (2 * sensitivity), 101) for r in rows]
    config = SupportPointsHerdingConfig(points=1, candidates=states, composition="pure")
    generator = config.configure(cube(1), Budget(eps=eps, neighbours=REPLACE))
    exact = []
    for table in rows:
        logs = []
        for place in range(states):
            visit = Scripted(table, REPLACE, [place], total=100)
            generator(visit, progress=Silent())  # type: ignore[arg-type]
            logs.append(visit.log_probability)
        exact.append(np.exp(logs))
    return [
        Claim(
            name="a Markov chain of 101 steps as a draw from its limit",
            source=f"{DIESENDRUCK}, section 5.4",
            unit="delta",
            claimed=0.0,
            found=delta_between(stopped[0], stopped[1], eps),
            ours=delta_between(exact[0], exact[1], eps),
            bound=0.0,
            how="the exact law of a walk on 51 places at eps 1; 50 zeros and 50 ones, one moved",
            why="a stopped chain is not its limit, and no diagnostic bounds how far off it is for "
            "the worst table; ours draws exactly, or says asymptotic",
        )
    ]


def bandwidths() -> list[Claim]:
    """A kernel's width drawn in proportion to the likelihood."""
    widths = np.geomspace(0.05, 0.125, 50)
    apart = np.array([0.0, np.sqrt(2.0)])  # a record at the centre, and in the far corner
    logs = -(apart[:, None] ** 2) / (2 * widths**2) - np.log(2 * np.pi * widths**2)
    return [
        Claim(
            name="a bandwidth drawn in proportion to the likelihood",
            source=f"{DIESENDRUCK}, chapter 5",
            unit="eps",
            claimed=1.0,
            found=float(np.ptp(logs[0] - logs[1])),
            ours=next(exact_points.bandwidth()).value,
            bound=1.0,
            how="one record moves from a centre to the far corner, widths 0.05 to 0.125, d = 2",
            why="a record's log-likelihood is bounded by the smallest width alone; ours cuts it "
            "off and scales it",
        )
    ]


def scaling() -> list[Claim]:
    """Minimum and maximum taken from the private rows."""
    count, grid = 1000, np.linspace(0.0, 1.0, 41)[:, None]
    rows = halves(count, 500)
    other = rows.copy()
    other[-1] = 1000.0
    config, budget = (
        SupportPointsConfig(points=1, score="energy"),
        Budget(eps=1.0, neighbours=REPLACE),
    )
    coefficient = config.configure(cube(1), budget).coefficient * count
    laws: dict[str, list[np.ndarray]] = {"scaled": [], "clipped": []}
    for table in (rows, other):
        low, high = table.min(), table.max()
        for way, seen in (
            ("scaled", (table - low) / (high - low)),
            ("clipped", np.clip(table, 0.0, 1.0)),
        ):
            laws[way].append(normalised(-coefficient * 2 * potential(seen, grid)))
    return [
        Claim(
            name="min-max scaling on the private rows",
            source="all three papers",
            unit="eps",
            claimed=1.0,
            found=loss(*laws["scaled"]),
            ours=loss(*laws["clipped"]),
            bound=1.0,
            how="the exponential mechanism of one point at eps 1; 1,000 rows, a one becomes 1,000",
            why="one record moves everybody's coordinates; and scaled back, the output itself "
            "shows the minimum and maximum",
        )
    ]


FAMILIES = (through_support_points, chains, bandwidths, scaling)
