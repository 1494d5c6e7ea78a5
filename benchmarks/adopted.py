"""A pipeline on mbi, adopted: its rows as they are, drawn anew, and weighted; models on real rows.

    python benchmarks/adopted.py --dataset adult --eps 1

The pipeline stands for what people build on mbi: all single columns and the label with every
column, each with Gaussian noise, mirror descent, ``synthetic_data()`` as it comes. Its rows and its
measurements go into one parcel, which is adopted twice; the drawn rows then get weights. Numbers
are those of ``marginalsyn evaluate``: excess log loss on held-out real rows, over models that were
trained on real rows. Processor seconds are those of each command.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mbi
import numpy as np

from marginalsyn import datasets
from marginalsyn.plugins.exchange import mbi as parcels
from marginalsyn.privacy.budget import Budget
from marginalsyn.table.codec import Codec


def pipeline(dataset: str, eps: float, folder: Path) -> None:
    """Measure, fit and draw with mbi alone; write a parcel."""
    schema = datasets.schema(dataset)
    codes = Codec(schema).encode(datasets.load(dataset).train)
    names, rng = schema.names, np.random.default_rng(0)
    domain = mbi.Domain(tuple(names), tuple(schema.domain.values()))
    cliques = [(n,) for n in names] + [(n, schema.label) for n in names if n != schema.label]
    sigma = (len(cliques) / (2 * Budget(eps=eps).rho)) ** 0.5
    measured = []
    for clique in cliques:
        held = tuple(codes[:, names.index(n)] for n in clique)
        counts = np.zeros([schema.domain[n] for n in clique])
        np.add.at(counts, held, 1)
        noisy = counts + rng.normal(0, sigma, counts.shape)
        measured.append(mbi.LinearMeasurement(noisy.ravel(), clique, sigma))
    if hasattr(mbi.estimation, "mirror_descent"):
        model = mbi.estimation.mirror_descent(domain, measured, iters=1000)
    else:
        model = mbi.estimation.MirrorDescent().estimate(domain, measured, iters=1000)
    stated = {"eps": eps, "delta": 1e-9, "by": "the pipeline"}
    parcels.save(
        folder,
        measurements=measured,
        model=model,
        data=model.synthetic_data(),
        stated=stated,
    )


def command(*words: object) -> tuple[str, float]:
    """What a command printed, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    called = [sys.executable, "-m", "marginalsyn.cli.main", *map(str, words)]
    done = subprocess.run(called, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done.stdout, spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--weights-eps", type=float, default=0.5)
    parser.add_argument("--method", default="beta-noised")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ["MARGINALSYN_LEDGERS"] = f"{place}/ledgers"
        pipeline(options.dataset, options.eps, Path("parcel"))
        schema = Path("schema.json")
        schema.write_text(datasets.schema(options.dataset).to_json())
        adopt = ("adopt", "parcel", "--schema", schema, "-q", "--seed", 0)
        _, kept = command(*adopt, "--no-redraw", "--out", "as-written")
        _, drawn = command(*adopt, "--out", "redrawn")
        source = ("--dataset", options.dataset)
        weigh = ("--eps", options.weights_eps, "--method", options.method, "-q")
        _, weighed = command("weight", "redrawn", *source, *weigh)
        _, old = command("weight", "as-written", *source, *weigh)
        print(f"{options.dataset}, mbi {version('mbi')}, eps {options.eps:g}; weights by")
        print(f"{options.method}, eps {options.weights_eps:g}\n")
        print("| rows | cpu s | model | weights | excess log loss | AUC |")
        print("|---|---|---|---|---|---|")
        for release, spent in (("as-written", kept + old), ("redrawn", drawn + weighed)):
            asked = ("--reports", "tstr", "--json", "-q", "--out", f"e-{release}")
            text, _ = command("evaluate", release, *source, *asked)
            for line in rows_of(json.loads(text)):
                print(f"| {release} | {spent:.1f} | {' | '.join(line)} |")


def rows_of(found: dict[str, Any]) -> list[list[str]]:
    """The lines of the table out of an evaluation."""
    (report,) = found["reports"]["tstr"].values()
    return [
        [
            one["title"].split(",")[0],
            f"{one['trained_on']} {one['weights'] or ''}".strip(),
            _shown(one["excess"], "+.4f"),
            _shown(one["scores"], ".3f", "auc"),
        ]
        for one in report["results"]
        if one["trained_on"] in ("synthetic", "weighted")
    ]


def _shown(figures: dict[str, Any], form: str, name: str = "log_loss") -> str:
    """A figure's mean, where the model has it."""
    return format(figures[name]["mean"], form) if name in figures else ""


if __name__ == "__main__":
    main()
