"""Makes synthetic rows by one method, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from marginalsyn.budget import Budget
from tables.cases import Case

OURS = ("aim", "clique-tree", "auto", "mst", "privbayes")
# A script of benchmarks/peers/ for each; they run in environments of their own.
PEERS = {
    "dpmm-mst": "dpmm_synth.py",
    "dpmm-aim": "dpmm_synth.py",
    "smartnoise-mst": "smartnoise_mst.py",
    "smartnoise-aim": "smartnoise_aim.py",
    "opendp-aim": "opendp_table.py",
    "opendp-mst": "opendp_table.py",
    "dpsynth-swift": "dpsynth_swift.py",
}
PEER_FOLDER = Path(__file__).parents[1] / "peers"
CHILD = Path(__file__).parent / "child.py"


class TooLongError(Exception):
    """A method that was not done in the time it was given."""


def make(
    case: Case, method: str, eps: float, where: list[str], pythons: dict[str, str], limit: float
) -> tuple[np.ndarray, dict[str, float]]:
    """The rows of one release as codes, and what it took.

    Args:
        case: the table.
        method: one of ours, or a peer.
        eps: the budget; delta is the case's.
        where: the arguments by which the child finds the same case.
        pythons: a peer's interpreter, by the first word of its name.
        limit: seconds of wall time.
    """
    with tempfile.TemporaryDirectory(prefix="marginalsyn-") as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        if method in OURS:
            command = [sys.executable, str(CHILD), *where, method, repr(eps), str(target)]
        else:
            sizes = np.array(list(case.schema.domain.values()))
            np.savez(source, codes=case.codes, sizes=sizes)
            tool = method.partition("-")[0]
            command = [pythons[tool], str(PEER_FOLDER / PEERS[method]), str(source), str(target)]
            rho = Budget(eps=eps, delta=case.delta, allow_large_delta=True).rho
            command += [repr(eps), repr(case.delta), method, repr(rho)]
        started = time.perf_counter()
        try:
            done = subprocess.run(
                command, check=False, timeout=limit, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            raise TooLongError from None
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:200])
        found = np.load(target)
        cost = {name: float(found[name]) for name in ("cpu", "peak_mb")}
        return found["released"].astype(np.int64), {
            "seconds": time.perf_counter() - started,
            **cost,
        }


def python_of(told: list[str]) -> dict[str, str]:
    """``smartnoise=/path/to/python`` and the like, as a mapping."""
    return dict(one.split("=", 1) for one in told)


def line(facts: dict[str, object]) -> str:
    """One line of the results file."""
    return json.dumps(facts, sort_keys=True) + "\n"
