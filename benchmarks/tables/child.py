"""One release by a method of this package: ``child.py CASE... METHOD EPS TARGET``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from measures import peak_mb

from marginalsyn.budget import Budget
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.noise import make_noise
from marginalsyn.private import PrivateTable
from tables.__main__ import case_of


def main(*where: str) -> None:
    """Make the rows and write them with what they took, the reading of the table left out."""
    *place, method, eps, target = where
    case = case_of(place)
    started = time.process_time()
    budget = Budget(eps=float(eps), delta=case.delta, allow_large_delta=True)
    table = PrivateTable.open(case.train, case.schema)
    made, _ = generate(table, make_config(method, {}), budget, noise=make_noise())
    cpu = time.process_time() - started
    np.savez(target, released=case.codec.encode(made.frame), cpu=cpu, peak_mb=peak_mb())


if __name__ == "__main__":
    main(*sys.argv[1:])
