"""Raked rows against unweighted and beta-noised ones: excess risk of models, l1 of marginals.

    python benchmarks/rake.py --tables telco adult --generators mst aim --seeds 2

A tenth of the budget (in eps: .9 + .1 and 5.4 + .6) goes to the weights. Every line is one release:
the log loss on the table's test rows of a logistic regression (linear) and of boosted trees, less
that of the same model trained on the real train rows, in nats; the l1 distance of all two-way
marginals from the train rows', mean over the marginals; and the share of effective rows.
``rake .5`` has its strength set by hand, ``rake pairs`` measures label pairs only, ``whole`` is the
generator with all of the budget. Lines of JSON go to the cache; ``--summary`` prints their means.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import Features

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "beta-noised": ("beta-noised", {}),
    "rake": ("rake", {}),
    "rake .5": ("rake", {"strength": 0.5}),
    "rake pairs": ("rake", {"degree": 2}),
}
MEASURES = ("linear", "boosted", "l1", "effective")
PARTS = {1: (0.9, 0.1), 6: (5.4, 0.6)}


class Judge:
    """The real rows of a table, and what models and marginals are held against."""

    def __init__(self, name: str, data: Any = None) -> None:
        data = data or datasets.load(name)
        self.schema, codec = data.schema, Codec(data.schema)
        self.train, self.test, self.frame = codec.encode(data.train), codec.encode(data.test), data
        self.place = self.schema.names.index(self.schema.label)
        names = [n for n in self.schema.names if n != self.schema.label]
        self.others = Features(self.schema.select(names))
        self.own = self.losses(self.train, np.ones(len(self.train)))

    def losses(self, codes: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
        """Log loss of a linear and of a boosted model on the test rows.

        A model that never saw one of the labels has none.
        """
        y, truth = codes[:, self.place], self.test[:, self.place]
        x, z = (np.delete(part, self.place, axis=1) for part in (codes, self.test))
        if not np.isin(self.train[:, self.place], y).all():
            return float("nan"), float("nan")
        linear = LogisticRegression(C=1.0, max_iter=300)
        linear.fit(self.others.of_codes(x)[:, :-1], y, sample_weight=weights)
        boosted = HistGradientBoostingClassifier(max_iter=60, random_state=0)
        boosted.fit(x, y, sample_weight=weights)
        chances = linear.predict_proba(self.others.of_codes(z)[:, :-1]), boosted.predict_proba(z)
        first, second = (log_loss(truth, p, labels=linear.classes_) for p in chances)
        return float(first), float(second)

    def __call__(self, codes: np.ndarray, weights: np.ndarray) -> list[float]:
        linear, boosted = self.losses(codes, weights)
        pairs = list(itertools.combinations(self.schema.names, 2))
        l1 = marginal_errors(
            codes, self.train, self.schema.domain, workload=pairs, first_weights=weights
        )
        effective = float(weights.sum() ** 2 / (weights**2).sum() / len(weights))
        return [
            linear - self.own[0],
            boosted - self.own[1],
            float(np.mean(list(l1.values()))),
            effective,
        ]


def run(judge: Judge, generator: str, eps: int, seed: int) -> dict[str, list[float]]:
    """One release with all weights, and one of the whole budget."""
    found: dict[str, list[float]] = {}
    table = PrivateTable.open(judge.frame.train, judge.schema)
    codec = Codec(judge.schema)
    config = make_config(generator)
    whole, _ = generate(table, config, Budget(eps=eps), noise=make_noise(1000 * seed + 3))
    codes = codec.encode(whole.frame)
    found["whole"] = judge(codes, np.ones(len(codes)))
    rows_eps, weights_eps = PARTS[eps]
    noise = make_noise(1000 * seed + 1)
    synthesis, statement = generate(table, config, Budget(eps=rows_eps), noise=noise)
    codes = codec.encode(synthesis.frame)
    found["unweighted"] = judge(codes, np.ones(len(codes)))
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, judge.schema, statement, Path(folder) / "release")
        for title, (method, options) in METHODS.items():
            weighted = weigh(
                release,
                make_weights(method, options),
                Budget(eps=weights_eps),
                table,
                noise=make_noise(1000 * seed + 2),
            )
            found[title] = judge(codes, weighted.weights)
            told = weighted.facts["notes"]
            print(
                title, told.get("strength"), told.get("marginals"), told.get("cells_without_rows")
            )
    return found


def summarise(cache: Path) -> str:
    """Means over the seeds as a table in Markdown."""
    places: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
    for line in cache.read_text().splitlines():
        entry = json.loads(line)
        for title, values in entry["found"].items():
            key = (entry["table"], entry["generator"], str(entry["eps"]), title)
            places[key].append(values)
    lines = ["| table | generator | eps | weights | linear | boosted | l1 | effective | runs |"]
    lines.append("|---" * 9 + "|")
    for key, runs in places.items():
        means = " | ".join(f"{value:.4f}" for value in np.mean(runs, axis=0))
        lines.append(f"| {' | '.join(key)} | {means} | {len(runs)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tables", nargs="+", default=["telco", "adult"])
    parser.add_argument("--generators", nargs="+", default=["mst", "aim"])
    parser.add_argument("--eps", nargs="+", type=int, default=[1, 6])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path("rake.jsonl"))
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    if not args.summary:
        for name in args.tables:
            judge = Judge(name)
            for generator in args.generators:
                for eps in args.eps:
                    for seed in range(args.seeds):
                        found = run(judge, generator, eps, seed)
                        entry = {"table": name, "generator": generator, "eps": eps, "seed": seed}
                        with args.cache.open("a") as handle:
                            handle.write(json.dumps({**entry, "found": found}) + "\n")
    print(summarise(args.cache))


if __name__ == "__main__":
    main()
