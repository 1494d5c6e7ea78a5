"""smartnoise-synth's MST (``pip install smartnoise-synth==1.0.8``) on codes, as it releases rows.

``smartnoise_mst.py IN.npz OUT.npz EPS DELTA METHOD``: codes and sizes in, rows and cost out.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pandas as pd
from snsynth.mst import MSTSynthesizer
from snsynth.transform import LabelTransformer, TableTransformer


def main(source: str, target: str, eps: float, delta: float) -> None:
    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"]
    names = [f"c{j}" for j in range(codes.shape[1])]
    frame = pd.DataFrame(codes, columns=names)
    started = time.process_time()
    # One row of every code tells its transformer the public values.
    most = int(sizes.max())
    public = pd.DataFrame({n: np.arange(most) % int(s) for n, s in zip(names, sizes, strict=True)})
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in names])
    transformer.fit(public)
    synthesizer = MSTSynthesizer(epsilon=eps, delta=delta)
    synthesizer.fit(frame, transformer=transformer)
    rows = synthesizer.sample(len(codes))
    cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(target, released=rows[names].to_numpy(np.int64), cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
