"""Writes a made-up wide table: a random tree of columns of 2 to 20 values; the last has 2.

python benchmarks/wide_table.py 50 50000 wide.csv wide.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def main(columns: int, rows: int, csv: str, domain: str) -> None:
    """Each column depends on one of the six before it."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 21, columns)
    sizes[-1] = 2  # the label
    codes = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.ones(sizes[0])))]
    for j in range(1, columns):
        parent = codes[rng.integers(max(0, j - 6), j)]
        given_parent = rng.dirichlet(np.full(sizes[j], 0.3), parent.max() + 1).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] > given_parent[parent]).sum(axis=1)
        codes.append(drawn.clip(0, sizes[j] - 1))
    names = [f"c{j}" for j in range(columns)]
    pd.DataFrame(dict(zip(names, codes, strict=True))).to_csv(csv, index=False)
    sizes_by_name = dict(zip(names, sizes.tolist(), strict=True))
    Path(domain).write_text(json.dumps(sizes_by_name), encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
