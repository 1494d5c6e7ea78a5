"""What public margins take off the error of a release, on NIST's Massachusetts excerpt.

    python benchmarks/public_margins.py --data FOLDER --eps 0.3 1 --seeds 3

The folder holds ``ma2019.csv.gz`` and ``simple.schema.json``. The margins are counted on the
excerpt itself, as an office would have published them of it. The error is the total variation
distance between real and synthetic rows, in the mean over all pairs of columns, over those that
share a column with a margin, and over those that share none.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn import Synthesizer
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

MARGINS = (("AGEP", "SEX"), ("PUMA", "RAC1P"), ("HISP",), ("MSP",), ("EDU",), ("HOUSING_TYPE",))


def counts(codes: np.ndarray, schema: Schema, columns: tuple[str, ...]) -> np.ndarray:
    """The counts of codes over some columns."""
    places = [schema.names.index(name) for name in columns]
    shape = [schema.domain[name] for name in columns]
    cells = np.ravel_multi_index(tuple(codes[:, place] for place in places), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def published(codes: np.ndarray, schema: Schema) -> list[dict[str, object]]:
    """The margins as entries of a schema."""
    found = []
    for columns in MARGINS:
        table = counts(codes, schema, columns)
        labels = [schema.column(name).labels() for name in columns]
        cells = [
            [*(labels[axis][code] for axis, code in enumerate(at)), int(table[at])]
            for at in np.ndindex(table.shape)
        ]
        found.append({"columns": list(columns), "counts": cells, "source": "the excerpt"})
    return found


def errors(real: np.ndarray, made: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """The mean total variation distance of pairs, by what margins have of them."""
    codes, public = Codec(schema).encode(made), {name for m in MARGINS for name in m}
    by: dict[str, list[float]] = {"all pairs": [], "with a margin": [], "without": []}
    for pair in itertools.combinations(schema.names, 2):
        shares = [counts(one, schema, pair) / len(one) for one in (real, codes)]
        distance = float(np.abs(shares[0] - shares[1]).sum()) / 2
        by["all pairs"].append(distance)
        by["with a margin" if public & {*pair} else "without"].append(distance)
    return {name: float(np.mean(values)) for name, values in by.items()}


def main() -> None:
    """Print a line for each budget, without the margins and with them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    schema = Schema.read(asked.data / "simple.schema.json")
    frame = pd.read_csv(asked.data / "ma2019.csv.gz", dtype=str, keep_default_na=False)
    frame = frame[[name for name in schema.names if name in frame]]
    real = Codec(schema).encode(frame)
    margins = published(real, schema)
    for eps in asked.eps:
        for given in (None, margins):
            found = [
                errors(
                    real,
                    Synthesizer(eps=eps, schema=schema, seed=seed, margins=given)
                    .fit(frame)
                    .synthetic_,
                    schema,
                )
                for seed in range(asked.seeds)
            ]
            means = {name: np.mean([one[name] for one in found]) for name in found[0]}
            text = ", ".join(f"{name} {value:.4f}" for name, value in means.items())
            print(f"eps {eps:g}, {'with' if given else 'without'} margins: {text}", flush=True)


if __name__ == "__main__":
    main()
