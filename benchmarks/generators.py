"""Our generators, and a peer's AIM where one is installed, on one coded table in one run.

    python benchmarks/generators.py TABLE.csv DOMAIN.json LABEL --eps 2 \
        --methods aim clique-tree mst --peer path/to/its/python

Prints, for each: wall and processor seconds, peak memory of a process of its own, mean two-way
total variation at full resolution, and the log loss, AUC and accuracy on held-out real rows of
scikit-learn's logistic regression trained on the synthetic rows, beside one trained on real ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from measures import peak_mb, tstr, two_way_tv
from tables import Coded, read_coded

COST = ("seconds", "cpu", "peak_mb")
PEER = Path(__file__).parent / "peers" / "smartnoise_aim.py"


def run_ours(args: argparse.Namespace, method: str, seed: int) -> None:
    """Generate once in this process and write rows and cost as the parent asked."""
    started, worked = time.perf_counter(), time.process_time()
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.contract import make_config
    from marginalsyn.host import generate
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.noise import make_noise

    table = read_coded(args.table, args.domain, args.label, args.bins)
    train, _ = table.split(seed)
    config = make_config(method, json.loads(args.options))
    delta = args.delta or 1 / len(train) ** 2
    budget = Budget(eps=args.eps, delta=delta, allow_large_delta=True)
    door = PrivateTable.open(train.reset_index(drop=True), table.schema)
    synthesis, _ = generate(door, config, budget, noise=make_noise())
    cost = {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - worked,
        "peak_mb": peak_mb(),
    }
    np.savez(args.child, released=table.codes(synthesis.frame), **cost)


def report(name: str, table: Coded, codes: np.ndarray, cost: Mapping[str, np.ndarray], seed: int):
    """Measure one set of rows and print its line."""
    train, test = table.split(seed)
    frame = pd.DataFrame(codes, columns=list(table.domain))
    tv = two_way_tv(table.codes(train), codes, table.domain)
    scores, real = tstr(frame, test, table.label), tstr(train, test, table.label)
    print(
        f"{name:27s} {cost['seconds']:6.1f} s (cpu {cost['cpu']:6.1f}) {cost['peak_mb']:5.0f} MB  "
        f"TV {tv:.4f}  "
        f"excess {scores['loss'] - real['loss']:+.4f}  AUC {scores['auc']:.3f} ({real['auc']:.3f})"
        f"  accuracy {scores['accuracy']:.3f} ({real['accuracy']:.3f})",
        flush=True,
    )


def main() -> None:
    """Run every method and the peer, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("domain")
    parser.add_argument("label")
    parser.add_argument("--eps", type=float, default=2.0)
    parser.add_argument("--delta", type=float, help="1/n^2 of the train part if not given")
    parser.add_argument("--methods", nargs="+", default=["aim"])
    parser.add_argument("--options", default="{}", help="JSON options of the methods")
    parser.add_argument("--bins", type=int, help="coarser public bins for wide columns")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--peer", help="python of a virtual environment with smartnoise-synth")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_ours(args, args.methods[0], args.seeds[0])
        return
    table = read_coded(args.table, args.domain, args.label)
    for seed in args.seeds:
        train, _ = table.split(seed)
        delta = args.delta or 1 / len(train) ** 2
        bootstrap = np.random.default_rng(seed).choice(table.codes(train), len(train))
        report("fresh bootstrap", table, bootstrap, dict.fromkeys(COST, 0.0), seed)
        ours: dict[str, tuple[float, float]] = {}
        for method in args.methods:
            with tempfile.TemporaryDirectory() as folder:
                target = Path(folder) / "ours.npz"
                own = [*sys.argv[1:], "--child", str(target), "--methods", method]
                own += ["--seeds", str(seed)]
                subprocess.run([sys.executable, __file__, *own], check=True)
                got = np.load(target)
                ours[method] = (float(got["seconds"]), float(got["cpu"]))
                report(method, table, got["released"], got, seed)
        if args.peer:
            with tempfile.TemporaryDirectory() as folder:
                source, target = Path(folder) / "in.npz", Path(folder) / "peer.npz"
                sizes = np.array(list(table.domain.values()))
                np.savez(source, codes=table.codes(train), sizes=sizes)
                command = [args.peer, str(PEER), str(source), str(target), str(args.eps)]
                subprocess.run([*command, str(delta)], check=True, stderr=subprocess.DEVNULL)
                got = np.load(target)
                report("smartnoise AIM, as released", table, got["released"], got, seed)
                report("smartnoise AIM, redrawn", table, got["redrawn"], got, seed)
                for method, (wall, cpu) in ours.items():
                    ratio = float(got["seconds"]) / wall, float(got["cpu"]) / cpu
                    print(f"peer / {method}: wall {ratio[0]:.1f}, cpu {ratio[1]:.1f}")


if __name__ == "__main__":
    main()
