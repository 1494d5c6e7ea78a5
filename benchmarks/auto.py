"""aim, clique-tree and auto on the same train rows in one run, with the spread between releases.

    python benchmarks/auto.py --tables adult heart telco --eps 0.5 1 2 --releases 5
    python benchmarks/auto.py --coded TABLE.csv DOMAIN.json LABEL --eps 1

Bundled tables have delta 1e-9 and scaled features, coded ones delta 1/n^2 and raw codes. A line
gives, over the releases, the median and the standard deviation of the excess log loss of a logistic
regression on the test rows, the mean two-way total variation, and processor seconds. Noise is
seeded, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from tables import read_coded

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.design import CodedRows, Task


class Judge:
    """Real rows, and what the rows of a release are held against."""

    def __init__(self, schema, train, test, delta: float, features: str) -> None:
        self.schema, self.frame, self.delta, self.features = schema, train, delta, features
        self.train, self.test = CodedRows.of(train, schema), CodedRows.of(test, schema)
        self.task = Task.of(schema, None, [self.train, self.test])
        self.own = self.loss(self.train)

    def loss(self, rows: CodedRows) -> float:
        """Log loss on the test rows of a model that is trained on the given ones."""
        y = self.task.labels(rows)
        if len(np.unique(y)) < 2:
            return float("nan")
        model = LogisticRegression(max_iter=1000)
        if self.features == "scaled":
            model.set_params(solver="newton-cholesky")
        model.fit(self.task.features(rows, self.features), y)
        chances = model.predict_proba(self.task.features(self.test, self.features))
        return float(log_loss(self.task.labels(self.test), chances, labels=model.classes_))

    def release(
        self, method: str, eps: float, seed: int, **options: object
    ) -> tuple[float, float, float]:
        """Excess loss, two-way total variation and processor seconds of one release."""
        table, started = PrivateTable.open(self.frame, self.schema), time.process_time()
        budget = Budget(eps=eps, delta=self.delta, allow_large_delta=True)
        made, _ = generate(table, make_config(method, options), budget, noise=make_noise(seed))
        seconds = time.process_time() - started
        rows = CodedRows.of(made.frame, self.schema)
        errors = marginal_errors(self.train.codes, rows.codes, self.schema.domain)
        tv = float(np.mean([e for q, e in errors.items() if len(q) == 2]) / 2)
        return self.loss(rows) - self.own, tv, seconds


def judges(args: argparse.Namespace):
    """The tables that were asked for, by name."""
    for name in args.tables:
        data = datasets.load(name)
        yield name, Judge(data.schema, data.train, data.test, 1e-9, "scaled")
    for csv, domain, label in args.coded:
        table = read_coded(csv, domain, label)
        train, test = (part.reset_index(drop=True) for part in table.split(0))
        yield label, Judge(table.schema, train, test, 1 / len(train) ** 2, "coded")


def parser_of(doc: str, releases: int) -> argparse.ArgumentParser:
    """The options that say on which tables a script runs, at which budgets and how often."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--coded", nargs=3, action="append", default=[])
    parser.add_argument("--eps", nargs="+", type=float, default=[0.5, 1, 2])
    parser.add_argument("--releases", type=int, default=releases)
    return parser


def main() -> None:
    """Run every method on every table at every budget."""
    parser = parser_of(__doc__, releases=3)
    parser.add_argument("--methods", nargs="+", default=["aim", "clique-tree", "auto"])
    args = parser.parse_args()
    print("| table | eps | method | excess, median | sd | two-way TV | cpu s |")
    print("|---|---|---|---|---|---|---|")
    for name, judge in judges(args):
        for eps in args.eps:
            for method in args.methods:
                found = [judge.release(method, eps, 100 + s) for s in range(args.releases)]
                excess, tv, seconds = np.array(found).T
                print(
                    f"| {name} | {eps:g} | {method} | {np.median(excess):.4f} | {excess.std():.4f} "
                    f"| {tv.mean():.4f} | {seconds.mean():.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
