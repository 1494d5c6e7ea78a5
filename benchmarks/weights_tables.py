"""Do weights help? Tables, generators, budgets, methods; and what the whole budget buys without.

    python benchmarks/weights_tables.py --cache runs.jsonl --tables breast-cancer heart --minutes 10
    python benchmarks/weights_tables.py --cache runs.jsonl --summary

A tenth of the budget (in rho) goes to the weights and the rest to the generator. ``unweighted`` is
the generator's rows as they are; ``whole`` gives the generator all of the budget and nothing to
weights, which is what weights have to beat. Measured on the table's own rows: the Wasserstein
distance of (weighted) synthetic from train rows, on at most 400 rows each; the mean squared
difference of a ridge logistic regression's coefficients from the one on train rows; its AUC on test
rows. Every method of a run weights the same release. One line of JSON per run goes to the cache,
and what is there is not done again. ``--summary`` prints means and standard errors, and the
differences of every method from ``unweighted``, run by run.
"""

from __future__ import annotations

import weighted_runs

from marginalsyn import datasets

PLAN = weighted_runs.Plan(
    load=datasets.load,
    tables=("iris", "heart", "breast-cancer", "german", "telco", "adult"),
    generators=("independent", "mst", "aim", "support-points-gp"),
    methods=(
        "logreg",
        "mlp",
        "beta-noised",
        "beta-debiased",
        "output-gaussian",
        "output-laplace",
        "dp-mlp",
    ),
)

if __name__ == "__main__":
    weighted_runs.main(PLAN, (__doc__ or "").split("\n")[0])
