"""The row "real data" of Zhou et al. 2024: logistic regression trained and tested on real rows.

    python benchmarks/evaluate_real_row.py TABLE.csv DOMAIN.json LABEL --published .843 .891 .34

The protocol of the authors' code: coded columns, scikit-learn's ``LogisticRegression`` (C = 1,
L-BFGS, ``max_iter`` 10000), the mean over ten random 80/20 splits, drawn without a seed. So no
run gives the same ten splits. This prints, for the seeds 0, 1, ... of ``train_test_split``, the
mean over splits, and how far the published numbers lie from it in standard deviations of a mean
of ten splits. It also checks the evaluation's own learner against scikit-learn on the same splits.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from tables import read_coded

from marginalsyn.evaluation.scores import score
from marginalsyn.plugins.reports.baselines import LEARNERS, train
from marginalsyn.table.design import CodedRows, Task

NAMES = ("accuracy", "auc", "log_loss")
TEN = 10


def main() -> None:
    """Repeat the splits; print means, deviations and distances."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("domain")
    parser.add_argument("label")
    parser.add_argument("--published", type=float, nargs=3)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--max-iter", type=int, default=10000)
    args = parser.parse_args()
    coded = read_coded(args.table, args.domain, args.label)
    table = CodedRows.of(coded.frame, coded.schema)
    task = Task.of(coded.schema, args.label, [table])
    x, y = task.features(table, "coded"), task.labels(table)
    theirs, ours = [], []
    for seed in range(args.splits):
        learn, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
        model = LogisticRegression(max_iter=args.max_iter).fit(x[learn], y[learn])
        chance = model.predict_proba(x[test])[:, 1]
        theirs.append(
            [
                model.score(x[test], y[test]),
                roc_auc_score(y[test], chance),
                log_loss(y[test], chance),
            ]
        )
        if seed < 5:
            fit = train(LEARNERS["logistic-coded"], task, table.take(learn))
            values = score(task, fit(task, table.take(test)), y[test]).values()
            ours.append([values[name] for name in NAMES])
    found = np.array(theirs)
    print(f"{args.table}: {len(y):,} rows, {args.splits} splits, max_iter {args.max_iter}")
    mean, deviation = found.mean(axis=0), found.std(axis=0, ddof=1) / TEN**0.5
    for j, name in enumerate(NAMES):
        line = f"{name:10s} mean {mean[j]:.4f}  deviation of a mean of ten {deviation[j]:.4f}"
        if args.published:
            distance = (args.published[j] - mean[j]) / deviation[j]
            line += f"  published {args.published[j]:.3f}, {distance:+.2f} deviations away"
        print(line)
    print(f"largest difference to our learner {np.abs(found[:5] - np.array(ours)).max():.1e}")


if __name__ == "__main__":
    main()
