"""OpenDP's contingency tables by AIM or MST (``pip install "opendp[mbi,polars]" pandas``).

``opendp_table.py IN OUT EPS DELTA METHOD RHO``: codes and sizes in, rows and cost out (.npz).
The keys are all codes, which are public; the rows are as its own ``synthesize`` draws them. Delta
pays for unknown keys alone there, and must be zero without any: so the loss is the price in zCDP of
(eps, delta).
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import opendp.prelude as dp
import polars as pl


def main(source: str, target: str, method: str, rho: float) -> None:
    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"]
    names = [f"c{j}" for j in range(codes.shape[1])]
    dp.enable_features("contrib")
    frame = pl.LazyFrame({n: codes[:, j].astype(np.int64) for j, n in enumerate(names)})
    started = time.process_time()
    keys = {n: list(range(int(size))) for n, size in zip(names, sizes, strict=True)}
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    algorithm = dp.mbi.AIM() if method.endswith("aim") else dp.mbi.MST()
    table = context.query().contingency_table(keys=keys, algorithm=algorithm).release()
    rows = table.synthesize()
    cpu = time.process_time() - started
    released = np.column_stack([rows[n].fill_null(0).to_numpy() for n in names])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(target, released=released, cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[5], float(sys.argv[6]))
