"""Ghalebikesabi et al., first version (arXiv 2108.10934v1): tables by all measures, the mixture.

Breast, and Banknote, Spam and Boston where they are at hand, by PATE-GAN, DPGAN and PrivBayes,
weighted by every method, also with the largest weights smoothed (PSIS) and with the classifier
calibrated; Wasserstein distance, MMD, and AUC of a support vector machine, a random forest and an
MLP. And the mixture of 5 x 5 clouds, whose rows between the clouds a discriminator should weigh
down.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import ot
import pandas as pd

from benchmarks.papers import tables
from benchmarks.papers.exhibits import Ask, Found, Job, mean_of
from benchmarks.papers.weighted import Judge, measure, releases
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import MarginalsynError
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

TITLE = "000: Ghalebikesabi et al. 2021, all measures on small tables, and a mixture of 25 clouds"
NAMES = ("breast", "banknote", "spam", "boston", "TGFB")
GENERATORS = ("pategan", "dpgan", "privbayes")
MORE = frozenset({"MLP AUC", "SVM AUC", "forest AUC", "rows in clouds", "clouds found"})
# The figures of the first version are not at hand as numbers.
PUBLISHED: Mapping[tuple[str, str, str], float] = {}
MIXTURE = "5 x 5 mixture"
ROWS, STEP, SPREAD = 5000, 0.4, 0.02

Find = Callable[[int], Mapping[str, float]]


@cache
def _run(name: str, folder: Path | None, generator: str, eps: int, run: int) -> dict:
    judge = Judge(tables.load(name, folder))
    return measure(judge, releases(judge, generator, eps, run), run)


def jobs(ask: Ask) -> Iterator[Job]:
    """Breast, the other tables that are at hand, and the mixture."""
    generators = ("privbayes",) if ask.quick else GENERATORS
    for name in ("breast",) if ask.quick else NAMES:
        if name in tables.NOWHERE or not tables.at_hand(name, ask.data):
            continue
        for eps, generator in itertools.product((1,) if ask.quick else (1, 6), generators):
            for title in _titles(generator):
                place = f"{name}, {generator}, eps {eps}, {title}"
                find = _one(name, ask.data, generator, eps, title)
                yield Job(name.capitalize(), place, find)
    for generator in ("privbayes",) if ask.quick else ("dpgan", "privbayes", "auto"):
        yield Job(MIXTURE, f"{generator}, eps 6", _mixture(generator, 6))


def _titles(generator: str) -> Iterator[str]:
    yield from ("None", "BetaNoised", "BetaNoised, PSIS", "BetaNoised, calibrated", "BetaDebiased")
    yield from ("DP-MLP", "DP-MLP, PSIS", "LogReg", "MLP", "MLP, calibrated")
    yield from ("label's chances", "rake")
    if generator != "privbayes":
        yield "Discriminator"


def _one(name: str, folder: Path | None, generator: str, eps: int, title: str) -> Find:
    return lambda run: _run(name, folder, generator, eps, run).get(title, {})


# -- the mixture ----------------------------------------------------------------------------------


def clouds(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Rows of 25 round clouds on a grid in the square."""
    places = STEP * np.stack(np.meshgrid(range(-2, 3), range(-2, 3)), axis=-1).reshape(-1, 2)
    at = places[rng.integers(0, len(places), rows)]
    return np.clip(at + SPREAD * rng.standard_normal((rows, 2)), -1, 1)


def judge_mixture(points: np.ndarray, weights: np.ndarray, fresh: np.ndarray) -> dict[str, float]:
    """Weight near a cloud's centre, clouds with a fair part of it, and the distance."""
    shares = weights / weights.sum()
    nearest = np.clip(np.rint(points / STEP), -2, 2)
    close = np.linalg.norm(points - STEP * nearest, axis=1) < 4 * SPREAD
    cloud = ((nearest[:, 0] + 2) * 5 + nearest[:, 1] + 2).astype(int)
    held = np.bincount(cloud[close], shares[close], 25)
    few = np.random.default_rng(0).choice(len(points), min(500, len(points)), replace=False)
    mass = shares[few] / shares[few].sum()
    real = np.full(500, 1 / 500)
    distance = ot.emd2(mass, real, ot.dist(points[few], fresh[:500], "euclidean"))
    return {
        "rows in clouds": float(shares[close].sum()),
        "clouds found": float((held > 0.25 / 25).sum()),
        "WST": float(distance),
    }


def _mixture(generator: str, eps: int) -> Find:
    names = ["x", "y"]
    schema = Schema(
        columns=tuple(ContinuousColumn(name=n, lower=-1, upper=1, bins=50) for n in names)
    )

    def find(run: int) -> Mapping[str, float]:
        rng = np.random.default_rng(run)
        table = PrivateTable.open(pd.DataFrame(clouds(rng, ROWS), columns=names), schema)
        fresh = clouds(rng, 500)
        noise = make_noise(1000 * run + 1)
        made, statement = generate(
            table, make_config(generator), Budget(eps=0.9 * eps), noise=noise
        )
        told: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            release = Release.write(made, schema, statement, Path(folder) / "release")
            points = made.frame[names].to_numpy(float)
            for title in ("None", "discriminator", "beta-noised", "dp-mlp", "rake"):
                weights = np.ones(len(points))
                if title != "None":
                    try:
                        options = {"engine": "numpy"} if title == "dp-mlp" else {}
                        config = make_weights(title, options)
                        noise = make_noise(1000 * run + 2)
                        budget = Budget(eps=0.1 * eps)
                        weights = weigh(release, config, budget, table, noise=noise).weights
                    except MarginalsynError:
                        continue
                found = judge_mixture(points, weights, fresh)
                told |= {f"{title}: {name}": value for name, value in found.items()}
        return told

    return find


def remarks(found: Found) -> Sequence[str]:
    """What each kind of weights does, over the places."""
    said = []
    titles = dict.fromkeys(
        title for generator in GENERATORS for title in _titles(generator) if title != "None"
    )
    for title in titles:
        cells = []
        for measured in ("WST / None", "MMD / None"):
            values = [
                mean_of(found, kind, place, measured)
                for kind, place in found
                if kind != MIXTURE and place.split(", ", 3)[3] == title
            ]
            values = [value for value in values if np.isfinite(value)]
            if values:
                cells.append(f"{measured} {np.mean(values):.2f}")
        if cells:
            said.append(f"{title}: {', '.join(cells)} in {len(values)} places")
    return [
        *said,
        "the first version's figures are not at hand as numbers, so nothing is held against them; "
        "those of the UAI version are in 001",
    ]


def missing(ask: Ask) -> Sequence[str]:
    """The tables that are not at hand."""
    return tables.absent(NAMES, ask.data)
