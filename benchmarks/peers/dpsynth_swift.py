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


def main(source: str, target: str, eps: float, delta: float, rho: float) -> None:
    import dp_accounting
    import dpsynth
    import pandas as pd
    from dp_accounting import pld

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
    # Its own search for the largest budget begins at zero, by which it divides. This one has the
    # same accountant and begins at the caller's price in zCDP, which (eps, delta) always affords.
    affordable = dp_accounting.calibrate_dp_mechanism(
        pld.PLDAccountant,
        lambda price: config.configure(zcdp_rho=price).dp_event,
        eps,
        delta,
        dp_accounting.ExplicitBracketInterval(rho, 2 * rho),
        tol=rho / 100,
    )
    mechanism = config.configure(zcdp_rho=affordable)
    rows = mechanism(np.random.default_rng(), frame).synthetic_data
    cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(target, released=rows[names].to_numpy(np.int64), cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    eps, delta, rho = float(sys.argv[3]), float(sys.argv[4]), float(sys.argv[6])
    main(sys.argv[1], sys.argv[2], eps, delta, rho)
