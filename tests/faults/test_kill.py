"""kill -9 at any moment: never a partial release, never a measurement without its charge."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marginalsyn.certificates.verification import verify

pytestmark = pytest.mark.slow

# A warm process forks one child per case. The child kills itself at the n-th call that makes
# something durable or visible, before the call or after it, and notes every measurement at once.
CHILD = """
import json, os, signal, sys

import numpy, pandas, ibis, duckdb  # warm, so that a fork starts at once
from marginalsyn import datasets
from marginalsyn.records import ledger
from marginalsyn.access import private_table as private
from marginalsyn.release import folder as release
from marginalsyn.access import visit
from marginalsyn.cli.main import main
from marginalsyn.generators import independent

def armed(at, after):
    left = at
    def wrap(original):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*args, **kwargs)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    for name in ("write", "fsync", "rename", "replace", "mkdir"):
        setattr(os, name, wrap(getattr(os, name)))

def noted(original):
    trace = os.open("measured", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    def measure(*args, **kwargs):
        write(trace, b"x")
        return original(*args, **kwargs)
    return measure

for at, after, folder in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["MARGINALSYN_LEDGERS"] = os.path.abspath(".marginalsyn/ledgers")
        visit.Visit.measure = noted(visit.Visit.measure)
        armed(at, after)
        sys.argv = ["marginalsyn", *sys.argv[2:]]
        try:
            main()
        except SystemExit as leaving:
            os._exit(leaving.code)  # libraries' threads did not survive the fork
    _, status = os.waitpid(child, 0)
    print(json.dumps([at, after, folder, os.waitstatus_to_exitcode(status)]), flush=True)
"""

COMMAND = ("generate", "--dataset", "heart", "--method", "independent", "--eps", "1", "--quiet")


def charges(folder: Path) -> int:
    """How many charges the ledger holds; a torn last line was never acknowledged."""
    found = 0
    for file in (folder / ".marginalsyn" / "ledgers").glob("*.jsonl"):
        *lines, _ = file.read_bytes().split(b"\n")
        found += sum(json.loads(line)["record"] == "charge" for line in lines)
    return found


def own(folder: Path) -> dict[str, str]:
    """The environment of a run whose user keeps the ledgers in a folder's workspace."""
    return {**os.environ, "MARGINALSYN_LEDGERS": str(folder / ".marginalsyn" / "ledgers")}


def check(folder: Path) -> bool:
    """Whether there is a release; it must be whole, and whatever was measured must be charged."""
    release = folder / "release"
    if release.exists():
        assert verify(release) == []
    measured = folder / "measured"
    if release.exists() or (measured.exists() and measured.stat().st_size):
        assert charges(folder) == 1
    return release.exists()


def test_killed_at_every_durable_step(tmp_path: Path) -> None:
    cases = []
    for at in range(1, 81):
        # After one call is mostly before the next.
        for after in (False, True)[: 2 if at % 4 == 0 else 1]:
            folder = tmp_path / f"{at}-{after}"
            folder.mkdir()
            cases.append((at, after, str(folder)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(cases), *COMMAND],
        capture_output=True,
        text=True,
        check=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(results) == len(cases)
    codes = {code for *_, code in results}
    assert codes == {0, -signal.SIGKILL}, done.stderr  # the last steps were reached, none failed
    kept = [(check(Path(folder)), code) for *_, folder, code in results]
    assert {whole for whole, code in kept if code} == {False, True}
    # Whatever was charged and has no release goes on to one, and is not charged again.
    charged = [Path(folder) for *_, folder, code in results if code and charges(Path(folder))]
    stopped = [folder for folder in charged if not (folder / "release").exists()]
    for folder in stopped[:: max(1, len(stopped) // 4)]:
        go_on = [sys.executable, "-m", "marginalsyn.cli.main", "generate", "--resume", "--quiet"]
        subprocess.run(go_on, cwd=folder, check=True, capture_output=True)
        assert check(folder)
    # The next run on the same source works and adds to what was spent.
    survivor = stopped[-1]
    before = charges(survivor)
    again = [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND, "--out", "again"]
    subprocess.run(again, cwd=survivor, env=own(survivor), check=True, capture_output=True)
    assert verify(survivor / "again") == []
    assert charges(survivor) == before + 1


def test_killed_at_random_moments(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND]
    whole = tmp_path / "whole"
    whole.mkdir()
    started = time.monotonic()
    subprocess.run(command, cwd=whole, env=own(whole), check=True, capture_output=True)
    length = time.monotonic() - started
    assert check(whole)
    moments = random.Random()
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        delay = length * moments.uniform(0.5, 1.05)
        with subprocess.Popen(
            command,
            cwd=folder,
            env=own(folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
        check(folder)
