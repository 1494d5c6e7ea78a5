"""The same mechanism with its model fitted by marginalsyn and by mbi, in one run.

    python benchmarks/estimators.py --cases heart:mst heart:aim adult:mst

Each run is a process of its own, as a user starts one: that is the cold time. Then fits of one
fixed structure are repeated in one process: the first is cold, the later ones are warm. Time is
processor seconds (wall seconds beside them). TV is the mean total variation over all pairs of
columns, against the table that was read.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from measures import two_way_tv
from pgm_speed import DOMAIN, ROWS, make_codes, make_structures, measure

from marginalsyn import Release, datasets
from marginalsyn.graphical.model import fit
from marginalsyn.graphical.private_pgm import fit_mbi
from marginalsyn.table.codec import Codec


def spent() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(case: str, estimator: str, eps: float) -> None:
    """One ``marginalsyn generate`` as a user types it."""
    dataset, _, method = case.partition(":")
    with tempfile.TemporaryDirectory() as place:
        asked = f"generate -q --dataset {dataset} --method {method} --eps {eps} --out r"
        ledger = ["--ledger", "ledger.jsonl", "--estimator", estimator]
        before, started = spent(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "marginalsyn.cli.main", *asked.split(), *ledger],
            cwd=place,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wall, cpu = time.perf_counter() - started, spent() - before
        release = Release.read(Path(place) / "r")
        codec = Codec(release.schema)
        rows = codec.encode(release.frame())
    real = codec.encode(datasets.load(dataset).train)
    tv = two_way_tv(real, rows, release.schema.domain)
    rounds = len(release.statement.notes.get("rounds", ()))
    print(
        f"| {case} | {estimator} | {cpu:.1f} | {wall:.1f} | {tv:.4f} | {rounds or ''} |", flush=True
    )


def fits(repeats: int) -> None:
    """One structure fitted again and again, with new noise each time."""
    rng = np.random.default_rng(0)
    codes = make_codes(rng)
    for name, cliques in make_structures(rng).items():
        for estimator, call in (
            ("built-in", lambda m: fit(DOMAIN, m, total=ROWS)),
            ("mbi", lambda m: fit_mbi(DOMAIN, m, ROWS)),
        ):
            times, losses = [], []
            for _ in range(repeats):
                measured = measure(codes, cliques, 50.0, rng)
                started = time.process_time()
                losses.append(call(measured).loss)
                times.append(time.process_time() - started)
            told = " / ".join(f"{one:.2f}" for one in times)
            print(f"| {name} | {estimator} | {told} | {np.mean(losses):.0f} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=["heart:mst", "heart:aim", "adult:mst"])
    parser.add_argument("--eps", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = {name: version(name) for name in ("mbi", "jax", "numpy")}
    print(f"Python {platform.python_version()}, {json.dumps(names)}, eps {options.eps:g}\n")
    print("| table and method | estimator | cpu s | wall s | two-way TV | rounds |")
    print("|---|---|---|---|---|---|")
    for case in options.cases:
        for estimator in ("built-in", "mbi"):
            run(case, estimator, options.eps)
    print("\n| structure | estimator | cpu s: cold / warm / warm | mean loss |")
    print("|---|---|---|---|")
    fits(options.repeats)


if __name__ == "__main__":
    main()
