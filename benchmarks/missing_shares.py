"""How near the shares of missing values in releases of the hospital's messy file are to the truth.

python benchmarks/missing_shares.py > benchmarks/results/hospital.md

The schema is drafted and coarsened as ``marginalsyn start --yes`` does, a fifth of the rows is held
out, and the largest error over the columns with missing values is told.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.cli import start_forecast
from marginalsyn.contract import make_config
from marginalsyn.drafting.draft import draft_schema
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import hospital

RUNS = 5
CASES = (("auto", 1.0), ("auto", 2.0), ("auto", 4.0), ("independent", 1.0))


def main() -> None:
    text, truth = hospital.hospital()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hospital.csv"
        path.write_text(text)
        schema = start_forecast.settled(draft_schema(path, "readmitted").schema)
        asked = [name for name in schema.names if truth[name].isna().mean() > 0]
        print("# The hospital's file: shares of missing values\n")
        print("`python benchmarks/missing_shares.py`: 3,736 rows, 18 columns, a fifth held out,")
        print("bins as `start --yes` makes them. The goal was an error of at most .02;")
        print(f"the largest error of a share over {', '.join(asked)}.\n")
        print("| method | eps | release | largest error | column | cpu s |")
        print("|---|---|---|---|---|---|")
        for method, eps in CASES:
            for run in range(RUNS):
                began = time.process_time()
                table = PrivateTable.open(path, schema, holdout=0.2)
                made, _ = generate(table, make_config(method), Budget(eps=eps), noise=make_noise())
                wrong = {
                    name: abs(made.frame[name].isna().mean() - truth[name].isna().mean())
                    for name in asked
                }
                worst = max(wrong, key=lambda name: wrong[name])
                seconds = time.process_time() - began
                told = f"{wrong[worst]:.3f} | {worst} | {seconds:.0f}"
                print(f"| {method} | {eps:g} | {run + 1} | {told} |", flush=True)


if __name__ == "__main__":
    main()
