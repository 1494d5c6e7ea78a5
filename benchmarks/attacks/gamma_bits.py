"""Do the lowest bits of published log-weights tell two neighbouring tables apart?

One boolean column. The synthetic rows are a yes and a no, and so are the private ones: the exact
coefficients are 0. The neighbour has one row more, and coefficients b that are not 0. Were noise z
drawn in floating point, then b + z would be rounded to multiples of a power of two that depends on
b, and 0 + z would not: a number that is no such multiple is impossible with the row and shows that
it is missing, whatever eps is.

    python -m benchmarks.attacks.gamma_bits [RUNS]
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Target
from marginalsyn.evaluation.scores import clopper_pearson
from marginalsyn.plugins.weights.beta_noised import BetaNoisedConfig
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import SecureNoise
from marginalsyn.table.columns import BooleanColumn
from marginalsyn.table.schema import Schema

EPS = 1.0
# Of each of two bounds. Where the promise holds both counts are 0 for certain, not by chance.
CONFIDENCE = 0.005
RUNS = 16_000


def published(estimator: Any, beta: np.ndarray, runs: int) -> np.ndarray:
    """The raw log-weights of a no and a yes, of so many runs."""
    noise = SecureNoise()
    visit: Any = SimpleNamespace(
        noise=noise,
        pay=lambda *args, **how: None,
        k_norm=lambda values, rate, **how: noise.k_norm(values, rate),
    )
    x = np.array([[-0.5, 1.0], [0.5, 1.0]])
    return np.array([x @ estimator.noise.add(visit, beta, "attack") for _ in range(runs)])


def off_grid(values: np.ndarray, step: float) -> int:
    """In how many runs one number is no multiple of a power of two."""
    scaled = values / step
    return int((scaled != np.rint(scaled)).any(axis=1).sum())


def tables() -> tuple[Any, list[np.ndarray]]:
    """The estimator and the exact coefficients with and without the row."""
    schema = Schema(columns=(BooleanColumn(name="ill", true_label="yes", false_label="no"),))
    frame = pd.DataFrame({"ill": ["yes", "no"]})
    more = pd.DataFrame({"ill": [*frame["ill"], "yes"]})
    estimator: Any = BetaNoisedConfig(noise="gamma", penalty=100.0).configure(
        Target(frame=frame, schema=schema, rows=2.0), Budget(eps=EPS)
    )
    regression = estimator.regression
    found = []
    for rows in (frame, more):
        with PrivateTable.open(rows, schema).charge(
            estimator.cost, noise=SecureNoise(), delta=1e-9
        ) as visit:
            found.append(regression.fit(visit).beta)
    return estimator, found


def attack(runs: int = RUNS) -> str | None:
    """What was found, or None."""
    estimator, (without, with_row) = tables()
    assert (without == 0).all()
    assert (with_row != 0).all()
    # A sum with b has no bit below half of b's last one, and features halve once more.
    step = float(np.spacing(np.abs(with_row)).min()) / 4
    counts = [off_grid(published(estimator, beta, runs), step) for beta in (without, with_row)]
    print(f"log-weights off the row's grid: {counts[0]} of {runs} without it, {counts[1]} with it")
    high, low = max(counts), min(counts)
    least = clopper_pearson(high, runs, CONFIDENCE)[0]
    most = clopper_pearson(low, runs, CONFIDENCE)[1]
    eps = float(np.log(least / most)) if least > most else 0.0
    if eps > EPS:
        return f"the lowest bits alone give eps {eps:.2f} or more, claimed is {EPS:g}"
    return None


if __name__ == "__main__":
    found = attack(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
    print(found or "nothing found")
    sys.exit(1 if found else 0)
