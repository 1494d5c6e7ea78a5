"""Makes synthetic rows by one method, in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from marginalsyn.privacy.budget import Budget
from tables.cases import Case

OURS = ("independent", "aim", "clique-tree", "auto", "mst", "privbayes")
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


Made = tuple[np.ndarray, dict[str, float]] | str


def make(
    case: Case,
    method: str,
    budgets: Sequence[float],
    where: list[str],
    pythons: Mapping[str, str],
    limit: float,
) -> dict[float, Made]:
    """For every budget the rows of a release as codes and what it took, or why there are none.

    Args:
        case: the table.
        method: one of ours, or a peer.
        budgets: every eps; delta is the case's. One process makes all of ours, a peer's one each.
        where: the arguments by which the child finds the same case.
        pythons: a peer's interpreter, by the first word of its name.
        limit: seconds of wall time that a release may take.
    """
    with tempfile.TemporaryDirectory(prefix="marginalsyn-") as name:
        folder = Path(name)
        targets = {eps: folder / f"{eps!r}.npz" for eps in budgets}
        if method in OURS:
            told = ",".join(repr(eps) for eps in budgets)
            command = [sys.executable, str(CHILD), *where, method, told, str(folder)]
            reasons = dict.fromkeys(budgets, _run(command, limit * len(budgets)))
        else:
            sizes = np.array(list(case.schema.domain.values()))
            np.savez(folder / "in.npz", codes=case.codes, sizes=sizes)
            tool = method.partition("-")[0]
            peer = [pythons[tool], str(PEER_FOLDER / PEERS[method]), str(folder / "in.npz")]
            reasons = {}
            for eps, target in targets.items():
                rho = Budget(eps=eps, delta=case.delta, allow_large_delta=True).rho
                more = [str(target), repr(eps), repr(case.delta), method, repr(rho)]
                reasons[eps] = _run([*peer, *more], limit)
        return {eps: _read(target) or reasons[eps] for eps, target in targets.items()}


def _run(command: list[str], limit: float) -> str:
    """Run a process; say why it has no result, if it has none."""
    try:
        done = subprocess.run(command, check=False, timeout=limit, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"over {limit:g} s"
    told = [text.strip() for text in done.stderr.splitlines() if any(map(str.isalpha, text))]
    return (told or ["no message"])[-1][:200]


def _read(target: Path) -> tuple[np.ndarray, dict[str, float]] | None:
    """The codes and their cost, if a process has written them."""
    if not target.exists():
        return None
    with np.load(target) as found:
        cost = {name: float(found[name]) for name in ("cpu", "peak_mb")}
        return found["released"].astype(np.int64), cost


def python_of(told: list[str]) -> dict[str, str]:
    """``smartnoise=/path/to/python`` and the like, as a mapping."""
    return dict(one.split("=", 1) for one in told)


def line(facts: dict[str, object]) -> str:
    """One line of the results file."""
    return json.dumps(facts, sort_keys=True) + "\n"
