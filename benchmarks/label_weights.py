"""Weights by the label's chances against unweighted and raked rows: excess risk, l1, rows' worth.

    python benchmarks/label_weights.py --places telco:mst xor2:independent --eps 6 --seeds 3

A tenth of the budget (in eps: .9 + .1 and 5.4 + .6) goes to the weights. ``rake`` measures the
label with every pair of columns, ``linear`` is ``beta-noised --target label``, ``network`` is
``dp-mlp``, ``both`` is ``rake+dp-mlp``. Measures are those of ``benchmarks/rake.py``. ``xor2`` and
``xor3`` are invented: 8,000 rows of six binary columns and a label that is the parity of two or
three of them but for one row in twenty.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from rake import PARTS, Judge, summarise

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "rake": ("rake", {"degree": 3}),
    "linear": ("beta-noised", {"target": "label"}),
    "network": ("dp-mlp", {"engine": "numpy"}),
    "both": ("rake+dp-mlp", {}),
}


def parity(columns: int) -> Any:
    """An invented table: its schema, train rows and test rows."""
    made = Schema.from_domain({**{f"c{i}": 2 for i in range(6)}, "y": 2})
    schema = made.model_copy(update={"label": "y"})
    rng = np.random.default_rng(columns)
    x = rng.integers(0, 2, (12_000, 6))
    y = (x[:, :columns].sum(axis=1) + (rng.random(len(x)) < 0.05)) % 2
    frame = pd.DataFrame(np.column_stack([x, y]), columns=schema.names)
    return SimpleNamespace(schema=schema, train=frame[:8000], test=frame[8000:])


def run(judge: Judge, generator: str, eps: int, seed: int) -> dict[str, list[float]]:
    """One release with all weights."""
    found: dict[str, list[float]] = {}
    table, codec = PrivateTable.open(judge.frame.train, judge.schema), Codec(judge.schema)
    rows_eps, weights_eps = PARTS[eps]
    noise = make_noise(1000 * seed + 1)
    synthesis, statement = generate(
        table, make_config(generator), Budget(eps=rows_eps), noise=noise
    )
    codes = codec.encode(synthesis.frame)
    found["unweighted"] = judge(codes, np.ones(len(codes)))
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, judge.schema, statement, Path(folder) / "release")
        for title, (method, options) in METHODS.items():
            started = time.process_time()
            config, noise = make_weights(method, options), make_noise(1000 * seed + 2)
            weighted = weigh(release, config, Budget(eps=weights_eps), table, noise=noise)
            seconds = time.process_time() - started
            found[title] = judge(codes, weighted.weights)
            print(f"  {title}: {seconds:.1f} s", np.round(found[title], 4), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    places = ["telco:mst", "telco:independent", "telco:aim", "xor2:independent", "xor3:independent"]
    parser.add_argument("--places", nargs="+", default=places)
    parser.add_argument("--eps", nargs="+", type=int, default=[6, 1])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path("label_weights.jsonl"))
    args = parser.parse_args()
    for place in args.places:
        name, generator = place.split(":")
        judge = Judge(name, parity(int(name[3:])) if name.startswith("xor") else None)
        for eps in args.eps:
            for seed in range(args.seeds):
                print(place, eps, seed, flush=True)
                found = run(judge, generator, eps, seed)
                entry = {"table": name, "generator": generator, "eps": eps, "seed": seed}
                with args.cache.open("a") as handle:
                    handle.write(json.dumps({**entry, "found": found}) + "\n")
    print(summarise(args.cache))


if __name__ == "__main__":
    main()
