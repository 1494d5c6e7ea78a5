"""Do weights help? Tables, generators, budgets, methods; and what the whole budget buys without.

    python benchmarks/weights_tables.py --tables breast-cancer heart --generators independent mst \
        --eps 1 6 --runs 3

A tenth of the budget (in rho) goes to the weights and the rest to the generator. ``unweighted`` is
the generator's rows as they are; ``whole`` gives the generator all of the budget and nothing to
weights, which is what weights have to beat. Measured on the table's own rows: the Wasserstein
distance of (weighted) synthetic from train rows, on at most 400 rows each; the mean squared
difference of a ridge logistic regression's coefficients from the one on train rows; its AUC on test
rows. Mean and standard error over the runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ot
from sklearn.metrics import roc_auc_score

from marginalsyn import datasets
from marginalsyn.budget import Budget
from marginalsyn.codec import Codec
from marginalsyn.effectiveness import effective_size
from marginalsyn.errors import MarginalsynError
from marginalsyn.features import Features
from marginalsyn.logistic import expit
from marginalsyn.noise import make_noise
from marginalsyn.release import Release
from marginalsyn.synthesis import generate, make_config
from marginalsyn.weighting import weigh
from marginalsyn.weights import Allowance, make_weights

SHARE = 0.1
METHODS = ("logreg", "beta-noised", "beta-debiased", "output-gaussian", "dp-mlp")
MOST_POINTS = 400


class Judge:
    """The real rows of one table, and what is measured against them."""

    def __init__(self, name: str) -> None:
        data = datasets.load(name)
        self.schema, codec = data.schema, Codec(data.schema)
        self.label = self.schema.names.index(self.schema.label)
        positive = self.schema.positive_code
        sizes = self.schema.column(self.schema.label).size
        self.positive = sizes - 1 if positive is None else positive
        self.all = Features(self.schema)
        names = [n for n in self.schema.names if n != self.schema.label]
        self.others = Features(self.schema.select(names))
        self.train, self.test = codec.encode(data.train), codec.encode(data.test)
        self.beta = self.fit(self.train, np.ones(len(self.train)))

    def xy(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = self.others.of_codes(np.delete(codes, self.label, axis=1))
        return x, codes[:, self.label] == self.positive

    def fit(self, codes: np.ndarray, weights: np.ndarray, ridge: float = 0.01) -> np.ndarray:
        """Ridge logistic regression by Newton's method."""
        x, y = self.xy(codes)
        weights = weights / weights.sum()
        beta = np.zeros(x.shape[1])
        for _ in range(25):
            p = expit(x @ beta)
            hessian = (x * (weights * p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(beta))
            beta += np.linalg.solve(hessian, x.T @ (weights * (y - p)) - ridge * beta)
        return beta

    def __call__(self, codes: np.ndarray, weights: np.ndarray, seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        own = rng.choice(len(codes), min(MOST_POINTS, len(codes)), replace=False)
        real = rng.choice(len(self.train), min(MOST_POINTS, len(self.train)), replace=False)
        mass = weights[own] / weights[own].sum()
        cost = ot.dist(
            self.all.of_codes(codes[own]), self.all.of_codes(self.train[real]), "euclidean"
        )
        distance = ot.emd2(mass, np.full(len(real), 1 / len(real)), cost, numItermax=10**6)
        beta = self.fit(codes, weights)
        x, y = self.xy(self.test)
        return [
            float(distance),
            float(np.mean((beta - self.beta) ** 2)),
            float(roc_auc_score(y, x @ beta)),
            effective_size(weights) / len(weights),
        ]


def run(
    name: str, judge: Judge, generator: str, eps: float, methods: list[str], seed: int
) -> dict[str, list[float]]:
    """One run: a generator at nine tenths and at the whole budget, and weights of every method."""
    whole = Budget(eps=eps)
    most = Budget.of_rho((1 - SHARE) * whole.rho)
    allowance = Allowance.of_rho(SHARE * whole.rho)
    found = {}
    codec = Codec(judge.schema)
    for title, budget in (("whole", whole), ("unweighted", most)):
        table = datasets.private_table(name)
        noise = make_noise(1000 * seed + 1)
        synthesis, statement = generate(table, make_config(generator), budget, noise=noise)
        codes = codec.encode(synthesis.frame)
        found[title] = judge(codes, np.ones(len(codes)), seed)
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, judge.schema, statement, Path(folder) / "release")
        for method in methods:
            weighted = weigh(
                release,
                make_weights(method),
                allowance,
                table,
                noise=make_noise(1000 * seed + 2),
                non_private=True,
            )
            found[method] = judge(codes, weighted.weights, seed)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    tables = ["breast-cancer", "iris", "german", "heart", "telco", "adult"]
    parser.add_argument("--tables", nargs="+", default=tables)
    generators = ["independent", "mst", "aim", "support-points-gp"]
    parser.add_argument("--generators", nargs="+", default=generators)
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 6.0])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    print("| table | generator | eps | method | Wasserstein | coefficient MSE | AUC | effective |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.tables:
        judge = Judge(name)
        for generator in args.generators:
            for eps in args.eps:
                started, results = time.perf_counter(), []
                try:
                    for seed in range(args.runs):
                        results.append(run(name, judge, generator, eps, args.methods, seed))
                except MarginalsynError as error:
                    print(f"{name} {generator}: {str(error).splitlines()[0]}", file=sys.stderr)
                    continue
                for method in results[0]:
                    values = np.array([result[method] for result in results])
                    spread = values.std(axis=0, ddof=1) if len(values) > 1 else 0 * values[0]
                    error = spread / np.sqrt(len(values))
                    mean = values.mean(axis=0)
                    cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
                    line = f"| {name} | {generator} | {eps:g} | {method} | {' | '.join(cells)} |"
                    print(line, flush=True)
                seconds = time.perf_counter() - started
                print(f"{name} {generator} {eps:g}: {seconds:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
