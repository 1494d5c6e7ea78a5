"""The measured certificate: its size on Adult beside the truth, and how often it misses.

    python benchmarks/measured_certificate.py > benchmarks/results/measured_certificate.txt

First part: one aim release of Adult at eps 1 (seed 1), certified at eps 0.3 two hundred times: true
excess, median and 95% quantile of the bound, its misses. The moment certificate at the same eps
stands beside it. Second part: 10,000 tables, each 2,000 rows drawn anew from Adult, a model fitted
to 300 other rows, and one certificate for each; a miss is a true excess above the bound.
"""

from __future__ import annotations

import argparse
import time
from tempfile import TemporaryDirectory

import numpy as np

from marginalsyn import datasets
from marginalsyn.budget import Budget, Neighbours
from marginalsyn.certificates.excess_plan import MeasuredPlan, Model, excess, labelled, steps_of
from marginalsyn.certificates.gauge import Measure, Problem
from marginalsyn.certificates.least_loss import Objective, minimise
from marginalsyn.certificates.measured import fitted
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.noise import make_noise
from marginalsyn.private import PrivateTable
from marginalsyn.release import Release
from marginalsyn.table import CodedRows

KINDS = ((1e-2, None), (1e-3, None), (1e-4, None), (1e-4, 5.0))


def sizes(eps: float, repeats: int) -> None:
    adult = datasets.load("adult")
    table = PrivateTable.open(adult.train, adult.schema)
    made, statement = generate(table, make_config("aim"), Budget(eps=1), noise=make_noise(1))
    noise = make_noise(2)
    print("ridge   within  relation    true      median    95%       misses  seconds")
    with TemporaryDirectory() as folder:
        release = Release.write(made, adult.schema, statement, f"{folder}/release")
        real = CodedRows.of(adult.train, adult.schema)
        for ridge, within in KINDS:
            model = fitted(release, ridge=ridge, within=within)
            chunk = labelled(model.problem, real.units)
            began = time.process_time()
            found = excess(model, [chunk])
            took = time.process_time() - began
            true, rows = -found.value / len(chunk.y), len(chunk.y)
            for relation in Neighbours:
                plan = MeasuredPlan(model, relation, Budget(eps=eps, neighbours=relation).rho)
                bounds = draw(plan, steps_of(found, model.measure), rows, repeats, noise)
                misses = int(np.sum(bounds < true))
                middle, high = np.quantile(bounds, [0.5, 0.95])
                print(
                    f"{ridge:<7g} {within or 'all':<7} {relation:<11} {true:.5f}   {middle:.5f}   "
                    f"{high:.5f}   {misses:<7} {took:.2f}"
                )


def draw(plan: MeasuredPlan, steps: int, rows: int, repeats: int, noise: object) -> np.ndarray:
    """Upper bounds of so many certificates; infinity where there is no information."""
    answers = noise.gaussian(np.full(repeats, steps), plan.sigma)
    counts = np.full(repeats, rows)
    if plan.buys_rows:
        counts = noise.gaussian(counts, plan.rows_sigma)
    found = [plan.bounds(int(k), int(n))["upper"] for k, n in zip(answers, counts, strict=True)]
    return np.array([np.inf if one is None else one for one in found])


def misses(tables: int, columns: int = 5) -> None:
    adult = datasets.load("adult")
    names = ["age", "sex", "race", "relationship", "education-num", "income"][: columns + 1]
    schema = adult.schema.model_copy(
        update={"columns": tuple(c for c in adult.schema.columns if c.name in names)}
    )
    problem = Problem.of(schema)
    units = CodedRows.of(adult.train[[c.name for c in schema.columns]], schema).units
    rng, noise = np.random.default_rng(0), make_noise(3)
    for ridge, within in ((1e-2, None), (1e-3, 2.0)):
        missed = low = informative = 0
        for _ in range(tables):
            rows = units[rng.integers(0, len(units), 2000)]
            other = labelled(problem, units[rng.integers(0, len(units), 300)])
            blank = Model(problem, np.zeros(problem.width), 2000, ridge, within, False)
            scaled = other._replace(masses=np.full(len(other.y), 2000 / len(other.y)))
            objective = Objective(problem, [scaled], blank.coefficients, blank.penalties)
            w = minimise(objective, Measure(blank.strength), 1e-3).step
            model = Model(problem, w, 2000, ridge, within, False)
            chunk = labelled(problem, rows)
            found = excess(model, [chunk])
            plan = MeasuredPlan(model, Neighbours.ADD_REMOVE, 0.015)
            steps = int(noise.gaussian(np.array([steps_of(found, model.measure)]), plan.sigma)[0])
            count = int(noise.gaussian(np.array([len(chunk.y)]), plan.rows_sigma)[0])
            told, true = plan.bounds(steps, count), -found.value / len(chunk.y)
            if told["upper"] is not None:
                informative += 1
                missed += told["upper"] < true
                low += told["lower"] > true
        print(
            f"{tables} tables, ridge {ridge:g}, within {within or 'all'}: "
            f"{informative} informative, upper missed {missed / tables:.4f}, "
            f"lower missed {low / tables:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--eps", type=float, default=0.3)
    parser.add_argument("--tables", type=int, default=10_000)
    chosen = parser.parse_args()
    sizes(chosen.eps, 200)
    misses(chosen.tables)
