"""Faults on purpose: nothing is measured without its charge, and nothing is half there.

Every case runs a command in a process of its own, breaks something under it, and is judged by what
is left: a release is whole or absent, what was measured is in the ledger, the total stays within
the cap, and the next run works. Run with ``pytest -m slow tests/faults/test_faults.py -s`` to see
counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marginalsyn.certificates.measured import verify
from marginalsyn.errors import BudgetError, LedgerError
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.privacy.gdp import eps_of_mu
from marginalsyn.privacy.zcdp import eps_of
from marginalsyn.records.ledger import Ledger

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

# A warm process forks a child for every case; the child breaks something and runs the command.
CHILD = """
import ctypes, datetime, encodings, json, os, pkgutil, resource, signal, sys, time
import sqlite_calls

for module in pkgutil.iter_modules(encodings.__path__):  # another user may not read them
    if module.name.startswith(("utf", "ascii", "latin", "idna")):
        __import__(f"encodings.{module.name}")
import numpy, pandas, ibis, duckdb, opendp.measurements, scipy.stats, scipy.special
from marginalsyn import datasets
from marginalsyn.records import entries
from marginalsyn.access import private_table as private
from marginalsyn.release import folder as release
from marginalsyn import host as synthesis
from marginalsyn.access import visit
from marginalsyn import registry
from marginalsyn.plugins.audit.testkit import tape
from marginalsyn.cli import main as program
from marginalsyn.operations import generate, weight
from marginalsyn.generators import aim, independent
import marginalsyn.cli.command, marginalsyn.cli.command, marginalsyn.cli.screen
import marginalsyn.operations.files

def noted(original, then=None):
    trace = os.open("measured", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    def measure(*args, **kwargs):
        try:
            write(trace, b"x")
        except OSError:
            pass
        if then is not None:
            then()
        return original(*args, **kwargs)
    return measure

def file_size(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def memory(extra, done=[]):
    if done:
        return
    done.append(True)
    with open("/proc/self/statm") as handle:
        used = int(handle.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))

def clock(jump):
    real, moments = datetime.datetime, iter(range(10**9))
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return real.fromtimestamp(max(0, 1.7e9 + jump * next(moments)), tz)
    entries.datetime = Clock
    time.time = lambda: max(0.0, 1.7e9 + jump * next(moments))

def user(name):
    os.setgid(65534); os.setuid(65534)

def write_errors(code, at):
    left = [at]
    def around(call):
        left[0] -= 1
        if left[0] == 0:
            ctypes.set_errno(code)
            return -1
        return call()
    sqlite_calls.handed_through(around)
    for name in ("write", "fsync", "rename", "replace", "mkdir", "open"):
        def wrap(original):
            def call(*args, **kwargs):
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(code, os.strerror(code))
                return original(*args, **kwargs)
            return call
        setattr(os, name, wrap(getattr(os, name)))

for kind, value, folder, args in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["MARGINALSYN_LEDGERS"] = os.path.abspath(".marginalsyn/ledgers")
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT, 0o666), 2)
        os.dup2(2, 1)
        then = None
        if kind == "memory":
            then = lambda: memory(value)
        visit.Visit.measure = noted(visit.Visit.measure, then)
        if kind == "file size":
            file_size(value)
        elif kind == "clock":
            clock(value)
        elif kind == "user":
            user(value)
        elif kind == "errno":
            write_errors(*value)
        sys.argv = ["marginalsyn", *args]
        code = 99
        try:
            program.main()
        except SystemExit as leaving:
            code = leaving.code or 0
        except BaseException as error:
            print("escaped:", repr(error), file=sys.stderr)
        os._exit(code)
    _, status = os.waitpid(child, 0)
    print(json.dumps([folder, os.waitstatus_to_exitcode(status)]), flush=True)
"""

SUPPORT = Path(__file__).parents[1] / "support"
COMMAND = ("generate", "--dataset", "heart", "--method", "independent", "--eps", "1", "--quiet")
AIM = ("generate", "--dataset", "heart", "--method", "aim", "--eps", "1", "--quiet")

Case = tuple[str, Any, Path, tuple[str, ...]]


def run_cases(cases: list[Case]) -> dict[Path, int]:
    """The exit code of every case, by its folder."""
    told = [(kind, value, str(folder), list(args)) for kind, value, folder, args in cases]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(told)],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["/')]
    assert len(found) == len(cases), done.stderr
    return {Path(folder): code for folder, code in found}


def own(folder: Path) -> dict[str, str]:
    """The environment of a run whose user keeps the ledgers in a folder's workspace."""
    return {**os.environ, "MARGINALSYN_LEDGERS": str(folder / ".marginalsyn" / "ledgers")}


def say(text: str) -> None:
    """Say a count, for whoever runs this with -s."""
    sys.stdout.write(text.strip() + "\n")


def spent(folder: Path) -> int:
    """How many charges the folder's ledgers hold; they must be readable."""
    files = (folder / ".marginalsyn" / "ledgers").glob("*.sqlite")
    return sum(len(Ledger(file).read().charges) for file in files)


def judge(folder: Path, code: int) -> str:
    """What a fault did; AssertionError where it did harm."""
    said = (folder / "said").read_text(errors="replace") if (folder / "said").exists() else ""
    for words in ("Traceback", "escaped", "fault of marginalsyn"):
        assert words not in said, said
    release = folder / "release"
    whole = release.exists()
    if whole:
        assert verify(release) == []
    else:
        assert code != 0
    measured = folder / "measured"
    charges = spent(folder)
    if whole or (measured.exists() and measured.stat().st_size):
        assert charges == 1, f"{charges} charges"
    seen = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert seen <= {"measured", "said", "release"}, seen
    if code == 0:
        return "release made"
    if charges:
        assert code < 0 or "ledger was charged" in said or not said, said
    return "stopped after the charge" if charges else "refused before the charge"


def works_again(folder: Path) -> None:
    """The next run on the same source works and adds one charge."""
    before = spent(folder)
    again = [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND, "--out", "again"]
    subprocess.run(again, cwd=folder, env=own(folder), check=True, capture_output=True)
    assert verify(folder / "again") == []
    assert spent(folder) == before + 1


def sweep(tmp_path: Path, kind: str, values: list[Any], args: tuple[str, ...]) -> Counter[str]:
    """Break the same thing in many ways, judge each, and say how it went."""
    cases: list[Case] = []
    for number, value in enumerate(values):
        folder = tmp_path / f"{kind.replace(' ', '-')}-{number}"
        folder.mkdir()
        folder.chmod(0o777)
        cases.append((kind, value, folder, args))
    codes = run_cases(cases)
    outcomes = Counter(judge(folder, codes[folder]) for *_, folder, _ in cases)
    stopped = next((f for *_, f, _ in cases if codes[f] and spent(f)), cases[0][2])
    works_again(stopped)
    told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    say(f"\n{kind}: {len(cases)} faults survived: {told}; nothing lost, nothing over-spent")
    return outcomes


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """No file may grow beyond so many bytes."""
    sizes = [0, 50, 100, 200, 400, 800, 1000, 1500, 2000, 3000, 5000, 8000, 12000, 20000, 10**8]
    found = sweep(tmp_path, "file size", sizes, COMMAND)
    assert set(found) == {
        "refused before the charge",
        "stopped after the charge",
        "release made",
    }


@pytest.mark.parametrize("code", [28, 5, 30], ids=["ENOSPC", "EIO", "EROFS"])
def test_every_call_of_the_system_fails_once(tmp_path: Path, code: int) -> None:
    values = [[code, at] for at in range(1, 160, 2)]
    found = sweep(tmp_path, "errno", values, COMMAND)
    assert found["stopped after the charge"]
    assert found["refused before the charge"]


def test_memory_that_runs_out_during_a_fit(tmp_path: Path) -> None:
    mega = 2**20
    values = [0, mega, 4 * mega, 16 * mega, 64 * mega, 128 * mega, 256 * mega, 2**36]
    found = sweep(tmp_path, "memory", values, AIM)
    assert found["stopped after the charge"]
    assert found["release made"]


def test_clocks_that_jump(tmp_path: Path) -> None:
    found = sweep(tmp_path, "clock", [0, -3600, 86400 * 400, -(10**9), 10**6], COMMAND)
    assert found == {"release made": 5}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_folders_that_may_not_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    closed = tmp_path / "closed"
    closed.mkdir()
    for name in ("said", "measured"):
        (closed / name).touch()
        (closed / name).chmod(0o666)
    closed.chmod(0o555)
    codes = run_cases([("user", "nobody", closed, COMMAND)])
    assert judge(closed, codes[closed]) == "refused before the charge"
    assert "must be writable" in (closed / "said").read_text()
    say("\nread-only folder: 1 fault survived: 1 refused before the charge; nothing lost")


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system of its own, where we may mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_file_system_that_is_full_or_read_only(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for number, free in enumerate((0, 4096, 16384, 65536, 2**24, 2**25)):
        with mounted(tmp_path / f"disk-{number}", "size=64m,mode=0777") as folder:
            place = folder / "place"
            place.mkdir()
            full = shutil.disk_usage(folder).free - free
            with (folder / "filler").open("wb") as filler:
                filler.truncate(0)
                filler.write(bytes(max(full, 0)))
            codes = run_cases([("none", 0, place, COMMAND)])
            outcomes[judge(place, codes[place])] += 1
            (folder / "filler").unlink()
            works_again(place)
    with mounted(tmp_path / "read-only", "size=64m") as folder:
        place = folder / "place"
        place.mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        done = subprocess.run(
            [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND],
            cwd=place,
            env=own(place),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert list(place.iterdir()) == []
        outcomes["refused before the charge"] += 1
    say(f"\nfile systems: {sum(outcomes.values())} faults survived: {dict(outcomes)}")
    assert outcomes["refused before the charge"] >= 2


def test_many_processes_on_one_ledger(tmp_path: Path) -> None:
    """Eight runs at once under a cap that allows three: three releases, three charges."""
    cap = [sys.executable, "-m", "marginalsyn.cli.main", "ledger", "cap", "--dataset", "heart"]
    one, three = (eps_of_mu(0.18 * runs**0.5, 1e-9) for runs in (1, 3))
    env = own(tmp_path)
    cap += ["--eps", f"{three + 1e-6:.6f}"]
    subprocess.run(cap, cwd=tmp_path, env=env, check=True, capture_output=True)
    command = [sys.executable, "-m", "marginalsyn.cli.main", *COMMAND[:-2], f"{one * 0.999:.6f}"]
    runs = [
        subprocess.Popen(
            [*command, "--out", f"r{number}"],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    said = [run.communicate(timeout=300)[1] for run in runs]
    codes = Counter(run.returncode for run in runs)
    assert codes == {0: 3, 1: 5}, said
    assert spent(tmp_path) == 3
    for number, run in enumerate(runs):
        if run.returncode == 0:
            assert verify(tmp_path / f"r{number}") == []
        else:
            assert "cap" in said[number]
            assert not (tmp_path / f"r{number}").exists()
    say("\nprocesses: 8 at once, 3 within the cap, 5 refused; nothing over-spent")


LOST = """
import sqlite3, sys
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.errors import LedgerError
from marginalsyn.records import ledger_file as module
from marginalsyn.records.ledger import Ledger

class Unlocked:
    # SQLite with its own system calls, but no lock.
    def __getattr__(self, name):
        return getattr(sqlite3, name)
    def connect(self, name, **how):
        return sqlite3.connect(name + "&vfs=unix-none", **how)
module.sqlite3 = Unlocked()

original = module._insert
def slow(db, lines):
    print("checked", flush=True)
    sys.stdin.readline()
    original(db, lines)
module._insert = slow
try:
    Ledger(sys.argv[1]).charge([Charge(mechanism="g", cost=ZCDP(rho=0.01))])
    print("measured", flush=True)
except LedgerError:
    print("refused", flush=True)
"""


def test_locks_that_do_nothing(tmp_path: Path) -> None:
    """As on some network file systems: two writers, and still no over-spending."""
    for number in range(8):
        path = tmp_path / f"{number}.sqlite"
        ledger = Ledger(path)
        ledger.set_cap(eps_of(0.0105, 1e-9), currency="rho")
        processes = []
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-c", LOST, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "checked\n"
            processes.append(process)
        said = []
        # Both have checked the cap. One writes after the other, or both at once.
        for process in processes if number % 2 else ():
            said.append(process.communicate("\n", timeout=60)[0].strip())
        for process in processes if not number % 2 else ():
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = said or [process.communicate(timeout=60)[0].strip() for process in processes]
        assert said.count("measured") <= 1, said
        assert said.count("measured") == number % 2 or not number % 2
        # Nothing more is measured, be it for the cap or because a line was lost.
        with pytest.raises((BudgetError, LedgerError)):
            ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.01))])
    say("\nlost locks: 8 faults survived; nothing over-spent")
