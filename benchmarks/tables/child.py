"""Releases by a method of this package: ``child.py CASE... METHOD EPS,EPS... FOLDER``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from tables.__main__ import case_of

OWN = Path("/proc/self")


def main(*where: str) -> None:
    """Make the rows at every budget, and write them with what each release took.

    The reading of the table is left out. Memory is the peak since the release began, libraries and
    the table included.
    """
    *place, method, budgets, folder = where
    case = case_of(place)
    for eps in budgets.split(","):
        (OWN / "clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        started = time.process_time()
        budget = Budget(eps=float(eps), delta=case.delta, allow_large_delta=True)
        table = PrivateTable.open(case.train, case.schema)
        made, _ = generate(table, make_config(method, {}), budget, noise=make_noise())
        cpu = time.process_time() - started
        lines = (OWN / "status").read_text(encoding="ascii").splitlines()
        peak = next(int(one.split()[1]) for one in lines if one.startswith("VmHWM")) / 1024
        released = case.codec.encode(made.frame)
        np.savez(Path(folder) / f"{eps}.npz", released=released, cpu=cpu, peak_mb=peak)


if __name__ == "__main__":
    main(*sys.argv[1:])
