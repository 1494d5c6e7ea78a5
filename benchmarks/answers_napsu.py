"""`marginalsyn estimate` beside NAPSU-MQ (Räisä et al. 2023) on one small table, in one run.

NAPSU-MQ needs an environment of its own (twinify 2.0.0 imports nothing newer than these):

    python3.11 -m venv napsu
    napsu/bin/pip install twinify==2.0.0 jax==0.4.20 jaxlib==0.4.20 "scipy<1.13" "numpy<2"
    napsu/bin/pip install matplotlib==3.8.4 arviz==0.17.1 "pandas<2.2" "xarray<2024"
    napsu/bin/pip install --no-deps numpyro==0.11.0
    python benchmarks/answers_napsu.py napsu/bin/python

Both get the same rows, eps, delta, relation (one row replaced) and marginals. NAPSU-MQ draws from a
posterior by Markov chains, makes tables, and combines a regression's results by Rubin's rules.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from marginalsyn import Budget, PrivateTable, datasets, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec

COLUMNS = ["relationship", "race", "sex", "income"]
PAIRS = [["sex", "income"], ["race", "income"], ["race", "sex"], ["relationship", "income"]]
EPS, DELTA, ROWS, TABLES = 1.0, 1e-7, 5000, 20

NAPSU = """
import json, resource, sys, time
start = time.time()
import d3p.random, numpy as np, pandas as pd, twinify
from twinify.napsu_mq.napsu_mq import NapsuMQModel
asked = json.load(sys.stdin)
frame = pd.DataFrame(asked["codes"], columns=asked["columns"]).astype("category")
key = d3p.random.PRNGKey(0)
pairs = [tuple(p) for p in asked["pairs"]]
model = NapsuMQModel([frozenset(p) for p in pairs], use_laplace_approximation=True)
result = model.fit(frame, key, asked["eps"], asked["delta"], query_sets=pairs)
fitted = time.time() - start
tables = result.generate(
    d3p.random.PRNGKey(1), asked["tables"], asked["rows"], single_dataframe=False
)
estimates, variances = [], []
for table in tables:
    table = table.astype(int)
    race = pd.get_dummies(table["race"], drop_first=True).to_numpy(float)
    x = np.column_stack([np.ones(len(table)), table["sex"], race])
    y, beta = table["income"].to_numpy(float), np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ beta))
        gram = x.T @ ((p * (1 - p))[:, None] * x) + 1e-9 * np.eye(x.shape[1])
        beta = beta + np.linalg.solve(gram, x.T @ (y - p))
    estimates.append(beta[1])
    variances.append(np.linalg.inv(gram)[1, 1])
used = resource.getrusage(resource.RUSAGE_SELF)
m = len(estimates)
between = np.var(estimates, ddof=1)
se = float((np.mean(variances) + (1 + 1 / m) * between) ** 0.5)
print(json.dumps({
    "estimate": np.mean(estimates), "se": se,
    "fit": fitted, "wall": time.time() - start, "processor": used.ru_utime + used.ru_stime,
}))
"""


def main() -> None:
    theirs = sys.argv[1] if len(sys.argv) > 1 else ""
    schema = datasets.schema("adult").select(COLUMNS)
    every = Codec(schema).encode(datasets.load("adult").train)
    rng = np.random.default_rng(0)
    codes = every[rng.integers(0, len(every), ROWS)]
    budget = Budget(eps=EPS, delta=DELTA, neighbours=Neighbours.REPLACE)
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.json"
        pairs.write_text(json.dumps(PAIRS))
        config = make_config("fixed-marginals", {"marginals": str(pairs)})
        table = PrivateTable.open(Codec(schema).decode(codes, rng), schema)
        synthesis, statement = generate(table, config, budget, noise=make_noise(1))
        release = Release.write(synthesis, schema, statement, Path(folder) / "release")
        start, processor = time.time(), time.process_time()
        found = release.estimate(model="income ~ sex + race", seed=0, refit="--refit" in sys.argv)
        ours = time.time() - start, time.process_time() - processor
    row = found[found["term"].str.contains("Male")].iloc[0]
    x = np.column_stack(
        [np.ones(len(every)), every[:, 2], *(every[:, 1] == k for k in range(1, 5))]
    ).astype(float)
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve(x.T @ ((p * (1 - p))[:, None] * x), x.T @ (every[:, 3] - p))
    print("| method | log-odds, men against women | 95% interval | wall s | processor s |")
    print("|---|---|---|---|---|")
    print(f"| all rows of the population | {beta[1]:.3f} | | | |")
    print(
        f"| marginalsyn estimate, 200 replicates | {row['estimate']:.3f} "
        f"| {row['low']:.3f} to {row['high']:.3f} | {ours[0]:.1f} | {ours[1]:.1f} |"
    )
    if not theirs:
        return
    asked = {
        "codes": codes.tolist(),
        "columns": COLUMNS,
        "pairs": PAIRS,
        "eps": EPS,
        "delta": DELTA,
        "rows": ROWS,
        "tables": TABLES,
    }
    done = subprocess.run(
        [theirs, "-c", NAPSU], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"| NAPSU-MQ | failed: {done.stderr.strip().splitlines()[-1]} | | | |")
        return
    told = json.loads(done.stdout.strip().splitlines()[-1])
    low, high = told["estimate"] - 1.96 * told["se"], told["estimate"] + 1.96 * told["se"]
    print(
        f"| NAPSU-MQ, {TABLES} tables | {told['estimate']:.3f} | {low:.3f} to {high:.3f} "
        f"| {told['wall']:.1f} | {told['processor']:.1f} |"
    )


if __name__ == "__main__":
    main()
