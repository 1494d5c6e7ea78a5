"""How well does a release tell whether a person with 12 visits is in the table?

The attacker knows the person's visits, all others, and the noise: the best attack on the noisy
marginals is their likelihood ratio. It is tried on two releases of the same eps, one that protects
rows and one that protects persons. What it finds is turned into the eps that it proves.

    python -m benchmarks.attacks.persons [RUNS]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Measurement, make_config
from marginalsyn.host import generate
from marginalsyn.plugins.audit.scoring import Rates, least_rho
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.privacy.noise import make_noise
from marginalsyn.privacy.zcdp import eps_of
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

VISITS, PERSONS, RUNS, CONFIDENCE = 12, 300, 400, 0.99
SCHEMA = Schema.from_domain({"ward": 6, "severe": 2, "age": 5})
UNIT = Unit(column="patient_id", max_rows=20)


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Without the person, and with."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(PERSONS), rng.integers(1, 6, PERSONS))
    values = {name: rng.integers(0, size, len(who)) for name, size in SCHEMA.domain.items()}
    others = pd.DataFrame({"patient_id": who, **values})
    person = pd.DataFrame({"patient_id": [-1] * VISITS, "ward": 5, "severe": 1, "age": 4})
    return others, pd.concat([others, person], ignore_index=True)


def exact(frame: pd.DataFrame, schema: Schema, marginals: Sequence[tuple[str, ...]]) -> dict:
    """The marginals as a visit counts them; what the attacker computes from what is known."""
    charge = Charge(mechanism="attacker", cost=ZCDP(rho=1.0))
    with PrivateTable.open(frame, schema).charge(
        [charge], noise=make_noise(), persons=True
    ) as visit:
        return visit.counts_many(marginals)


def ratio(found: Sequence[Measurement], without: dict, with_person: dict) -> float:
    """The log likelihood ratio of the noisy marginals."""
    total = 0.0
    for one in found:
        apart = [one.values - table[one.columns] for table in (without, with_person)]
        total += float(np.sum((apart[0] ** 2 - apart[1] ** 2) / (2 * np.square(one.sigma))))
    return total


def tell(schema: Schema, eps: float, runs: int) -> dict[str, float]:
    """What the attack finds in so many releases without the person, and as many with."""
    pair = tables()
    opened = [PrivateTable.open(frame, schema) for frame in pair]
    config, budget = make_config("independent"), Budget(eps=eps)
    known: list[dict] = []
    scores: list[list[float]] = [[], []]
    for _ in range(runs):
        for side, table in enumerate(opened):
            made, _ = generate(table, config, budget, noise=make_noise())
            if not known:
                marginals = [one.columns for one in made.measurements]
                known = [exact(frame, schema, marginals) for frame in pair]
            scores[side].append(ratio(made.measurements, *known))
    out, put = map(np.array, scores)
    auc = float(np.mean(put[:, None] > out[None, :]))
    # The threshold is chosen on one half of the runs, and the event counted on the other.
    half, proved = runs // 2, 0.0
    threshold = float(np.median(np.concatenate([out[:half], put[:half]])))
    hits, wrong = int((put[half:] > threshold).sum()), int((out[half:] > threshold).sum())
    rates = Rates.of(hits, wrong, runs - half, runs - half, alpha=1 - CONFIDENCE)
    if rates.often > rates.seldom:
        proved = eps_of(least_rho(rates), budget.delta)
    return {
        "right": float((hits + runs - half - wrong) / (2 * (runs - half))),
        "auc": auc,
        "proved": proved,
    }


def attack(runs: int = 100) -> str | None:
    """What an attack proves against the promise to persons, where it is more than was promised."""
    found = tell(SCHEMA.with_unit(UNIT), 1.0, runs)
    if found["proved"] > 1.0:
        return f"eps {found['proved']:.2f} is proved for a person at a promise of 1"
    return None


def main(runs: int = RUNS) -> int:
    print(f"{VISITS} visits of one person among {PERSONS} others; {runs} releases each way\n")
    print("| release protects | stated eps | attack is right | AUC | eps proved for the person |")
    print("|---|---|---|---|---|")
    broken = False
    for eps in (1.0, 4.0):
        for name, schema in (
            ("rows", Schema(**{**SCHEMA.model_dump(), "drop": ["patient_id"]})),
            ("persons", SCHEMA.with_unit(UNIT)),
        ):
            found = tell(schema, eps, runs)
            print(
                f"| {name} | {eps:g} | {found['right']:.1%} | {found['auc']:.3f} | "
                f"{found['proved']:.2f} |"
            )
            broken |= name == "persons" and found["proved"] > eps
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
