"""dpmm's MST or AIM (``pip install dpmm``) on codes, without its own discretisation.

``dpmm_synth.py IN.npz OUT.npz EPS DELTA METHOD``: codes and sizes in, released rows and cost out.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline


def main(source: str, target: str, eps: float, delta: float, method: str) -> None:
    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"]
    names = [f"c{j}" for j in range(codes.shape[1])]
    frame = pd.DataFrame(
        {
            # Its categories are public: every code, whether or not it occurs.
            name: pd.Categorical(codes[:, j], categories=range(int(sizes[j])))
            for j, name in enumerate(names)
        }
    )
    domain = {n: {"categories": list(range(int(s)))} for n, s in zip(names, sizes, strict=True)}
    kind = AIMPipeline if method.endswith("aim") else MSTPipeline
    started = time.process_time()
    pipeline = kind(epsilon=eps, delta=delta, disable_processing=False, proc_epsilon=0, n_jobs=1)
    pipeline.fit(frame, domain=domain)
    rows = pipeline.generate(n_records=len(codes))
    cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    released = rows[names].astype("int64").to_numpy()
    np.savez(target, released=released, cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
