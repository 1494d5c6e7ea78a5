"""smartnoise-synth's AIM (a stand-in for private-pgm's own aim.py, on the same mbi 1.1).

Runs in its own virtual environment (`pip install smartnoise-synth==1.0.8`):
reads ``codes`` and ``sizes`` from an .npz, writes the rows as released and rows redrawn from the
same model, the seconds and the peak memory.
"""

from __future__ import annotations

import contextlib
import io
import resource
import sys
import time

import numpy as np
import pandas as pd
from mbi import Dataset, Domain
from snsynth.aim import AIMSynthesizer


def main(source: str, target: str, eps: float, delta: float) -> None:
    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"]
    names = [f"col{j}" for j in range(codes.shape[1])]
    data = Dataset(pd.DataFrame(codes, columns=names), Domain(names, [int(s) for s in sizes]))
    aim = AIMSynthesizer(epsilon=eps, delta=delta)
    # The class is driven below its own encoder, so that both sides see the same codes.
    from snsynth.utils import cdp_rho

    started, worked = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        aim.rho = cdp_rho(eps, delta)
        aim.AIM(data, aim.get_workload(data, degree=2, max_cells=10_000))
        released = aim.synthesizer.synthetic_data(rows=len(codes)).df[names].to_numpy()
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    redrawn = aim.synthesizer.synthetic_data(rows=len(codes), method="sample").df[names].to_numpy()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = {"seconds": seconds, "cpu": cpu, "peak_mb": peak}
    np.savez(target, released=released, redrawn=redrawn, **cost)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
