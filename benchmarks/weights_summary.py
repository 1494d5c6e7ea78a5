"""The runs of ``weights_tables.py``, one table for each measure.

    python benchmarks/weights_summary.py runs.jsonl

A line per table, generator and eps: the mean of the unweighted release and, for every method, how
far it is from that, run by run; mean and standard error over the runs. Bold is better and italic
worse by more than two standard errors; nothing is marked for fewer than three runs. Then, over all
places with three runs or more, how often that is so.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import weighted_runs
from weights_tables import PLAN

MEASURES = {
    "wasserstein": ("Wasserstein distance (less is better)", -1, 3),
    "beta": ("Mean squared error of coefficients (less is better)", -1, 3),
    "auc": ("AUC on test rows (more is better)", 1, 3),
}
METHODS = ("whole", *[method for method in PLAN.methods if method not in ("logreg", "mlp")])
REFERENCES = ("logreg", "mlp")
LEAST_RUNS = 3


def difference(values: pd.Series, digits: int, better: int) -> str:
    """Mean and standard error of a difference, marked where it is clear."""
    values = values.dropna()
    if values.empty:
        return ""
    mean = float(values.mean())
    if len(values) < 2:
        return f"{mean:+.{digits}f}"
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    text = f"{mean:+.{digits}f} ± {error:.{digits}f}"
    if len(values) < LEAST_RUNS or abs(mean) <= 2 * error or round(abs(mean), digits) == 0:
        return text
    return f"**{text}**" if mean * better > 0 else f"*{text}*"


def wide(found: pd.DataFrame, measure: str, digits: int, better: int) -> list[str]:
    """The lines of one measure."""
    columns = [*METHODS, *(f"{method} (not private)" for method in REFERENCES)]
    lines = [
        f"| table | generator | eps | runs | unweighted | {' | '.join(columns)} |",
        "|---" * (5 + len(columns)) + "|",
    ]
    for table, generator in itertools.product(PLAN.tables, PLAN.generators):
        chosen = found[(found["table"] == table) & (found["generator"] == generator)]
        for eps, group in chosen.groupby("eps"):
            values = group.pivot_table(index="run", columns="method", values=measure)
            plain = values["unweighted"]
            cells = [weighted_runs.with_error(plain, digits).replace(" ± nan", "")]
            for method in (*METHODS, *REFERENCES):
                known = values[method] if method in values else pd.Series(dtype=float)
                cells.append(difference(known - plain, digits, better))
            lines.append(
                f"| {table} | {generator} | {eps:g} | {len(plain)} | {' | '.join(cells)} |"
            )
    return lines


def main() -> None:
    found = weighted_runs.long_table(weighted_runs.read(Path(sys.argv[1])))
    for measure, (title, better, digits) in MEASURES.items():
        print(f"### {title}\n")
        print("\n".join(wide(found, measure, digits, better)), end="\n\n")
    runs = found.groupby(["table", "generator", "eps"])["run"].transform("nunique")
    print(f"### Over all places with at least {LEAST_RUNS} runs")
    weighted_runs.compare(found[runs >= LEAST_RUNS])


if __name__ == "__main__":
    main()
