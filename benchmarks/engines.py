"""The two engines of dp-mlp: how long they take to start, and a step of each.

    OMP_NUM_THREADS=1 python benchmarks/engines.py

Every line is a process of its own on one thread: processor seconds from the first import to the
first clipped sum, and processor milliseconds of a clipped sum of one lot after that (the median of
``--steps``), private and synthetic rows together as in a step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

WORK = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
engine, lot, width, steps = sys.argv[1], *map(int, sys.argv[2:5])
import numpy as np
from marginalsyn.plugins.networks.per_row import build_network
from marginalsyn.plugins.networks.dp_sgd import chunk_rows
if engine == "tensorflow-privacy":
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
rng = np.random.default_rng(0)
network = build_network(engine, width, (32, 16), rng, chunk_rows(lot))
x = rng.normal(size=(lot, width))
network.clipped_sum(x, 1.0, 3.0)
started, times = time.process_time(), []
for _ in range(steps):
    before = time.process_time()
    network.clipped_sum(x, 1.0, 3.0)
    network.clipped_sum(x, 0.0, 3.0)
    times.append(time.process_time() - before)
print(json.dumps([started, float(np.median(times))]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=93, help="inputs; 93 are Adult's")
    args = parser.parse_args()
    print("| engine | rows of a lot | start-up, s | a step, ms |")
    print("|---|---|---|---|")
    for lot in (64, 500, 4000):
        for engine in ("tensorflow-privacy", "numpy"):
            command = [sys.executable, "-c", WORK, engine]
            sizes = [str(lot), str(args.width), str(args.steps)]
            done = subprocess.run([*command, *sizes], check=True, capture_output=True, text=True)
            start, step = json.loads(done.stdout.splitlines()[-1])
            print(f"| {engine} | {lot:,} | {start:.2f} | {1e3 * step:.1f} |")


if __name__ == "__main__":
    main()
