"""dpsynth's SWIFT on codes, from a checkout of google/dpsynth named by ``DPSYNTH``.

``dpsynth_swift.py IN OUT EPS DELTA METHOD RHO``: codes and sizes in, rows and cost out (.npz).
"""

from __future__ import annotations

import os
import resource
import sys
import time

import numpy as np

sys.path.insert(0, os.environ["DPSYNTH"])


def main(source: str, target: str, rho: float) -> None:
    import dpsynth
    import pandas as pd

    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"]
    names = [f"c{j}" for j in range(codes.shape[1])]
    domain = {
        name: dpsynth.CategoricalAttribute(possible_values=list(range(int(size))))
        for name, size in zip(names, sizes, strict=True)
    }
    frame = pd.DataFrame(codes, columns=names)
    started = time.process_time()
    config = dpsynth.TabularConfig(
        domains=domain, discrete_mechanism=dpsynth.discrete_mechanisms.SWIFTConfig()
    )
    # The price in zCDP of (eps, delta), found by the caller: its own search for it divides by zero.
    mechanism = config.configure(zcdp_rho=rho)
    rows = mechanism(np.random.default_rng(), frame).synthetic_data
    cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(target, released=rows[names].to_numpy(np.int64), cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[6]))
