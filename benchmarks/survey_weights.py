"""Population totals from a release that counts survey weights, on NIST's excerpts with PWGTP.

    python benchmarks/survey_weights.py --data FOLDER --table national2019 --eps 1 --releases 3

The folder holds the excerpt and ``simple.schema.json``. PWGTP is the person weight of the American
Community Survey; its bound is public. Ten kinds of totals that the survey publishes are estimated
from the release alone; the truth is the sum of the weights of the real rows, not clipped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import Synthesizer
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

KINDS = ("SEX", "RAC1P", "HISP", "MSP", "EDU", "OWN_RENT", "HOUSING_TYPE", "DREM", "DPHY", "DVET")


def main() -> None:
    """Print a line for each kind, and how many intervals hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", default="national2019")
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--bound", type=float, default=300)
    parser.add_argument("--releases", type=int, default=3)
    asked = parser.parse_args()
    frame = pd.read_csv(asked.data / f"{asked.table}.csv.gz", dtype=str, keep_default_na=False)
    given = json.loads((asked.data / "simple.schema.json").read_text())
    given |= {"survey_weight": {"column": "PWGTP", "bound": asked.bound}, "drop_reasons": {}}
    given["drop"] = ["INDP", "WGTP"]
    schema = Schema.from_json(json.dumps(given))
    frame = frame[[name for name in frame if name in {*schema.names, *given["drop"], "PWGTP"}]]
    weights = frame["PWGTP"].astype(float).to_numpy()
    real = Codec(schema).encode(frame[schema.names])
    clipped = np.minimum(weights, asked.bound)
    print(
        f"{len(frame):,} rows for {weights.sum():,.0f} persons; mean weight {weights.mean():.0f}, "
        f"largest {weights.max():.0f}; the bound {asked.bound:g} clips away "
        f"{1 - clipped.sum() / weights.sum():.2%}"
    )
    found: dict[str, list[tuple[float, bool, float]]] = {kind: [] for kind in KINDS}
    for seed in range(asked.releases):
        made = Synthesizer(eps=asked.eps, schema=schema, seed=seed).fit(frame)
        with tempfile.TemporaryDirectory() as folder:
            release = made.release(Path(folder) / "release")
            answers = release.estimate(count=list(KINDS), seed=0)
        for kind in KINDS:
            codes = real[:, schema.names.index(kind)]
            truth = np.bincount(codes, weights, schema.domain[kind])
            labels = schema.column(kind).labels()
            own = answers[answers["question"] == f"count {kind}"]
            for row in own.itertuples():
                total = truth[labels.index(row.term.split(" = ", 1)[1])]
                inside = bool(row.low <= total <= row.high)
                off = abs(row.estimate - total) / weights.sum()
                found[kind].append((off, inside, (row.high - row.low) / 2 / weights.sum()))
    every = [one for own in found.values() for one in own]
    for kind, own in found.items():
        off, half = np.mean([one[0] for one in own]), np.mean([one[2] for one in own])
        hits = sum(one[1] for one in own)
        print(
            f"{kind:13} {hits} of {len(own)} totals inside; mean error {off:.4%} of the "
            f"population, mean half width {half:.4%}"
        )
    print(f"all: {sum(one[1] for one in every)} of {len(every)} inside their 95% intervals")


if __name__ == "__main__":
    main()
