"""kill -9 at any moment: never a partial release, never a measurement without its charge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clinic_tables import TREE, clinic, write

from marginalsyn.certificates.measured import verify
from marginalsyn.records.ledger import Ledger

pytestmark = pytest.mark.slow

# A warm process forks one child per case. The child kills itself at the n-th call that makes
# something durable or visible, before the call or after it, and notes every measurement at once.
CHILD = """
import json, os, signal, sys

import sqlite_calls
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
    sqlite_calls.handed_through(lambda call: wrap(call)())

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

SUPPORT = Path(__file__).parents[1] / "support"
COMMAND = ("generate", "--dataset", "heart", "--method", "independent", "--eps", "1", "--quiet")


def charges(folder: Path) -> int:
    """How many charges the ledger holds, which must be readable."""
    files = (folder / ".marginalsyn" / "ledgers").glob("*.sqlite")
    ledgers = [Ledger(file) for file in files]
    assert [ledger.verify() for ledger in ledgers] == [[] for _ in ledgers]
    return sum(len(ledger.read().entries) for ledger in ledgers)


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


@pytest.mark.timeout(900)
def test_killed_at_every_durable_step(tmp_path: Path) -> None:
    cases = []
    for at in range(1, 240, 4):
        # After one call is mostly before the next.
        for after in (False, True)[: 2 if at % 3 == 1 else 1]:
            folder = tmp_path / f"{at}-{after}"
            folder.mkdir()
            cases.append((at, after, str(folder)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(cases), *COMMAND],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
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
        subprocess.run(go_on, cwd=folder, env=own(folder), check=True, capture_output=True)
        assert check(folder)
    # The next run on the same source works and adds to what was spent.
    survivor = stopped[-1]
    before = charges(survivor)
    again = [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND, "--out", "again"]
    subprocess.run(again, cwd=survivor, env=own(survivor), check=True, capture_output=True)
    assert verify(survivor / "again") == []
    assert charges(survivor) == before + 1


# A warm process plays rounds: a run is killed at random moments and resumed until it is done, now
# and then by two processes at once. After each kill the answers that are on the disk are noted.
ROUNDS = """
import json, os, pathlib, random, signal, sys, time
from contextlib import closing

import numpy, pandas, ibis, duckdb
from marginalsyn import datasets
from marginalsyn.cli.main import main
from marginalsyn.errors import MarginalsynError
from marginalsyn.generators import independent
from marginalsyn.access import private_table as door, visit
from marginalsyn.records.runs import Journal
from marginalsyn.release.linked import open_release
from marginalsyn.release import folder

seconds, command = float(sys.argv[1]), sys.argv[2:]
moments, began, length, kills = random.Random(), time.monotonic(), 1.0, 0

def begin(args):
    child = os.fork()
    if child:
        return child
    os.environ["MARGINALSYN_LEDGERS"] = os.path.abspath(".marginalsyn/ledgers")
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.dup2(2, 1)
    sys.argv = ["marginalsyn", *args]
    code = 99
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code or 0
    os._exit(code)

def end(child, deadline):
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def answers():
    for path in pathlib.Path(".marginalsyn/journals").glob("*.journal"):
        try:
            with closing(Journal.read(path)) as journal:
                return [journal.answer(n).value.tolist() for n in range(len(journal))]
        except MarginalsynError:
            pass  # It was just begun.
    return []

number = 0
while time.monotonic() - began < seconds:
    number += 1
    os.mkdir(str(number))
    os.chdir(str(number))
    kept, codes, patience = [], [], 0.0
    while True:
        # Longer each time, so that it ends.
        patience += length * moments.uniform(0, 0.2)
        resumes = [*command[:1], "--resume", "--force", "--quiet"]
        started = time.monotonic()
        # Two that go on at once may refuse each other; answers that are there stay.
        if not codes or 2 in codes[-1] and -9 not in codes[-1] and not kept:
            children = [begin(command)]
        else:
            children = [begin(resumes) for _ in range(moments.choice([1, 1, 2]))]
        now = [end(child, started + patience) for child in children]
        codes.append(now)
        kills += now.count(-9)
        found = answers()
        # A run that was killed after its release was written has nothing left to go on from.
        if 0 in now or (kept and not os.listdir(".marginalsyn/journals")):
            length = min(length, time.monotonic() - started)
            break
        assert found[: len(kept)] == kept, (number, codes)
        kept = found
    if "independent" in command:
        # Each answer is a marginal that the release shows.
        made = [m.values.tolist() for m in open_release("release").measurements()]
        assert made[: len(kept)] == kept, (number, codes, "an answer was lost")
    os.chdir("..")
print(json.dumps({"rounds": number, "kills": kills}))
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("linked", [False, True])
def test_killed_at_random_moments(linked: bool, tmp_path: Path) -> None:
    """No answer that was on the disk is lost or drawn twice, and one charge pays for it all."""
    seconds = os.environ.get("KILL_SECONDS", "60")
    run = COMMAND
    if linked:
        write(tmp_path, clinic(60), TREE)
        source = (f"--data={tmp_path}/clinic", f"--schema={tmp_path}/clinic.schema.json")
        run = ("generate", *source, "--method", "clique-tree", "--eps", "20", "--go-on", "--quiet")
    command = [sys.executable, "-W", "ignore", "-c", ROUNDS, seconds, *run, "--rows", "40"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count = json.loads(done.stdout.splitlines()[-1])
    assert count["kills"] > 5
    for number in range(1, count["rounds"] + 1):
        folder = tmp_path / str(number)
        assert check(folder), number
        assert charges(folder) == 1, number
        assert list((folder / ".marginalsyn" / "journals").glob("*.json")) == [], number
    sys.stdout.write(f"\n{count['kills']} kills in {count['rounds']} runs; nothing lost\n")
