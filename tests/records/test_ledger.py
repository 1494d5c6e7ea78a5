"""The ledger: durable before it returns, never overspent, honest about what it cannot read."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from stored_lines import lines_of, spoil

from marginalsyn import Charge, Ledger, Neighbours
from marginalsyn.errors import BudgetError, LedgerError, UsageError
from marginalsyn.operations.origins import accounted
from marginalsyn.privacy.charges import ZCDP, Approximate, Pure
from marginalsyn.privacy.zcdp import eps_of
from marginalsyn.records import ledger_file
from marginalsyn.records.ledger_file import open_file


def charge(rho=0.01, neighbours=Neighbours.ADD_REMOVE, **rest):
    return Charge(mechanism="gaussian", cost=ZCDP(rho=rho), neighbours=neighbours, **rest)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "down" / "source.ledger"


@pytest.fixture(params=["file", "memory"])
def ledger(request, path):
    return Ledger(path if request.param == "file" else None, source="clinic")


def test_charges_add_up(ledger):
    assert ledger.total().eps == 0
    assert ledger.read().entries == []
    ledger.charge([charge(0.01, purpose="ages"), charge(0.02)], run="one", delta=1e-9)
    ledger.charge([charge(0.03)], run="two")
    assert ledger.total().rho == pytest.approx(0.06)
    assert ledger.total(1e-8).eps == pytest.approx(eps_of(0.06, 1e-8))
    assert [(e.run, len(e.charges), e.delta) for e in ledger.read().entries] == [
        ("one", 2, 1e-9),
        ("two", 1, None),
    ]
    assert len(ledger.read().charges) == 3
    assert ledger.read().source == "clinic"
    first = ledger.read().summary()[0]
    assert (first["run"], first["purpose"], first["cost"]) == ("one", "ages", "rho 0.01")
    assert first["time"].endswith("Z")
    ledger.charge([], run="nothing")
    assert len(ledger.read().entries) == 2


def test_a_ledger_knows_its_own_charges_from_those_of_others(path):
    first, second = Ledger(path), Ledger(path)
    mine = first.charge([charge()])
    assert (first.made(), second.made()) == ((mine,), ())


def test_a_run_refused_beside_another_is_not_told_that_it_was_charged(path):
    ledger, other = Ledger(path), Ledger(path)
    ledger.set_cap(1.0, currency="rho")

    def refused():
        with accounted(ledger):
            other.charge([charge(0.014)], run="at the same time")
            ledger.charge([charge(0.014)])

    def charged():
        with accounted(ledger):
            ledger.charge([charge(0.0001)])
            raise BudgetError("stopped after the charge")

    with pytest.raises(BudgetError) as caught:
        refused()
    assert "was charged" not in str(caught.value)
    with pytest.raises(BudgetError) as caught:
        charged()
    assert "The ledger was charged for this run" in str(caught.value)


def test_reading_creates_nothing(path):
    ledger = Ledger(path, source="clinic")
    ledger.check([charge()])
    assert (ledger.read().charges, ledger.read().cap, ledger.read().source) == ([], None, "clinic")
    assert not path.parent.exists()


def test_another_process_sees_the_same(path):
    first, second = Ledger(path), Ledger(path)
    first.charge([charge(details={"columns": ["a", "b"], "sigma": 2.5})])
    assert second.read().charges == first.read().charges
    second.charge([charge()])
    assert len(first.read().charges) == 2


def test_cap(ledger):
    ledger.set_cap(1.0, currency="rho")
    ledger.check([charge(0.014)])
    with pytest.raises(BudgetError, match=r"cap \(eps 1, delta 1e-09\)"):
        ledger.check([charge(0.02)])
    ledger.charge([charge(0.01)])
    with pytest.raises(BudgetError, match=r"rho 0\.02 of 0\.014973.*spent so far: rho 0\.01 of"):
        ledger.charge([charge(0.01)], run="too much")
    assert len(ledger.read().charges) == 1
    ledger.set_cap(2.0)
    ledger.charge([charge(0.01)])
    ledger.set_cap(0.1)
    with pytest.raises(BudgetError):
        ledger.charge([charge(1e-6)])
    ledger.set_cap(None)
    assert ledger.read().cap is None
    ledger.charge([charge(5.0)])


def test_a_cap_can_be_met_exactly(ledger):
    ledger.set_cap(0.3)
    for _ in range(3):
        ledger.charge([Charge(mechanism="laplace", cost=Pure(eps=0.1))])
    with pytest.raises(BudgetError):
        ledger.charge([Charge(mechanism="laplace", cost=Pure(eps=1e-6))])


def test_a_cap_counts_deltas(ledger):
    ledger.set_cap(5.0, delta=1e-9, own_delta=4e-10)
    ledger.charge([Charge(mechanism="x", cost=Approximate(eps=1, delta=3e-10))])
    with pytest.raises(BudgetError, match=r"delta 6e-10 of 4e-10"):
        ledger.charge([Charge(mechanism="x", cost=Approximate(eps=1, delta=3e-10))])


@pytest.mark.parametrize(("eps", "delta"), [(0, 1e-9), (-1, 1e-9), (float("nan"), 1e-9), (1, 0)])
def test_impossible_caps_are_refused(ledger, eps, delta):
    with pytest.raises(UsageError):
        ledger.set_cap(eps, delta)
    assert ledger.read().cap is None


@pytest.mark.parametrize("first", list(Neighbours))
def test_a_ledger_has_one_relation(ledger, first):
    (second,) = set(Neighbours) - {first}
    ledger.charge([charge(0.01, first)])
    assert ledger.total().neighbours is ledger.read().neighbours is first
    for use in (ledger.check, ledger.charge):
        with pytest.raises(BudgetError, match=rf"neighbours \({second}\) must be {first}"):
            use([charge(0.01, second)])
    assert len(ledger.read().charges) == 1
    ledger.void_earlier_promises = True
    ledger.charge([charge(0.01, first)])
    assert ledger.read().voids == []
    ledger.charge([charge(0.01, second)], run="the other")
    ledger.void_earlier_promises = False
    (void,) = ledger.read().voids
    assert (void.neighbours, void.run) == (Neighbours.ADD_REMOVE, "the other")
    assert "void: every add-remove promise" in ledger.read().describe()
    # From then on it is about replace, where an add-remove charge counts four times its rho.
    total = ledger.total()
    assert total.neighbours is Neighbours.REPLACE
    add_remove = sum(c.neighbours is Neighbours.ADD_REMOVE for c in ledger.read().charges)
    assert total.rho == pytest.approx(0.01 * (3 - add_remove) + 0.04 * add_remove)
    with pytest.raises(BudgetError, match="replacing a row"):
        ledger.total(neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(BudgetError, match="all other charges in this ledger"):
        ledger.charge([charge(0.01)])
    ledger.charge([charge(0.01, Neighbours.REPLACE)])


def test_a_ledger_has_one_hold_out_under_replace(ledger):
    replaced = [charge(0.01, Neighbours.REPLACE)]
    ledger.charge(replaced, split="0.2 ab")
    ledger.charge(replaced, split="0.2 ab")
    for use in (ledger.check, ledger.charge):
        for other, share in (("", "0"), ("0.4 ab", "0.4"), ("0.2 cd", "0.2"), (None, "not rec")):
            with pytest.raises(BudgetError, match=rf"holdout \({share}.*must be 0\.2, and pick"):
                use(replaced, split=other)
    assert len(ledger.read().charges) == 2
    assert ledger.read().voids == []
    ledger.void_earlier_promises = True
    ledger.charge(replaced, run="all rows")
    ledger.charge(replaced)
    (void,) = ledger.read().voids
    assert (void.neighbours, void.run) == (Neighbours.REPLACE, "all rows")
    assert "void: every replace promise" in ledger.read().describe()
    # From then on it is about that one, and the first one is refused in its turn.
    ledger.void_earlier_promises = False
    ledger.charge(replaced)
    with pytest.raises(BudgetError, match=r"holdout \(0\.2\) must be 0"):
        ledger.charge(replaced, split="0.2 ab")


def test_under_add_remove_rows_may_be_held_out_as_one_likes(ledger):
    for split in ("", "0.2 ab", "0.2 cd", "0.4 ab", ""):
        ledger.charge([charge()], split=split)
    assert ledger.read().splits == set()
    # Nor do they bind a later run for replace, to which the relation alone is another one.
    ledger.void_earlier_promises = True
    ledger.charge([charge(0.01, Neighbours.REPLACE)], split="0.3 ab")
    assert [void.neighbours for void in ledger.read().voids] == [Neighbours.ADD_REMOVE]


def test_a_stopped_run_has_its_hold_out_still(ledger):
    """What was spent of it counts, and what it had left is charged under the same rule."""
    replaced = [charge(0.01, Neighbours.REPLACE)]
    one = ledger.charge(replaced, split="0.2 ab", taken="a")
    ledger.advance(one, ["a"], "a", 1, "taken", replaced)
    with pytest.raises(BudgetError, match=r"must be 0\.2"):
        ledger.charge(replaced)
    ledger.void_earlier_promises = True
    ledger.charge(replaced)
    ledger.void_earlier_promises = False
    with pytest.raises(BudgetError, match="must be 0, "):
        ledger.advance(one, ["a"], "b", 1)
    ledger.void_earlier_promises = True
    ledger.advance(one, ["a"], "b", 1)
    assert len(ledger.read().voids) == 2
    assert ledger.read().splits == {"0.2 ab"}


def test_one_goes_on_with_a_run(ledger):
    """Every order of two copies that go on, draw and end: one of them gets there."""
    for moves in itertools.permutations("AaBb", 4):
        if moves.index("A") > moves.index("a") or moves.index("B") > moves.index("b"):
            continue
        id = ledger.charge([charge()], taken="0")
        got = []
        for move in moves:
            try:
                if move.isupper():
                    ledger.advance(id, ["0"], move, 0)
                else:
                    ledger.advance(id, [move.upper()], move.upper(), 3, "drawn")
                    got.append(move)
            except LedgerError:
                continue
        assert got == [moves[0].lower()], moves


def test_a_crash_between_the_workspace_and_the_ledger_loses_no_run(ledger):
    id = ledger.charge([charge()], taken="0")
    # The workspace has the new number, the ledger the old one; then both have it.
    known = ["0", "1"]
    ledger.advance(id, [*known], "2", 0)
    ledger.advance(id, [*known, "2"], "3", 0)
    # A copy of the workspace from any time before is refused.
    for copy in (["0"], known, [*known, "2"]):
        with pytest.raises(LedgerError):
            ledger.advance(id, copy, "4", 0)
    # It repeats what it has drawn, if it has all of it, until it has ended.
    ledger.advance(id, ["3"], "3", 7, "drawn")
    with pytest.raises(LedgerError):
        ledger.advance(id, ["3"], "4", 6)
    assert ledger.advance(id, ["3"], "4", 7).state == "drawn"
    assert [entry.id for entry in ledger.read().not_ended()] == [id]
    ledger.advance(id, ["4"], "4", 7, "ended")
    assert ledger.read().not_ended() == []
    for act in (
        lambda: ledger.advance(id, ["4"], "5", 7),
        lambda: ledger.advance(id, ["4"], "4", 7, "drawn"),
        lambda: ledger.advance("unknown", ["4"], "4", 7, "drawn"),
    ):
        with pytest.raises(LedgerError):
            act()
    assert ledger.verify() == []


def test_a_charge_that_nobody_goes_on_with_is_not_open(ledger):
    id = ledger.charge([charge()])
    assert ledger.read().not_ended() == []
    with pytest.raises(LedgerError):
        ledger.advance(id, [""], "1", 0)


def test_a_ledger_has_one_unit(ledger):
    ledger.charge([charge()])
    ledger.void_earlier_promises = True
    with pytest.raises(BudgetError, match=r"unit \(persons\) must be rows"):
        ledger.charge([charge()], unit="persons")


def test_the_total_tells_what_it_does_not_cover(ledger):
    ledger.charge([charge()])
    assert ledger.read().describe().endswith("(so far, if the amounts had been fixed beforehand)")
    ledger.charge([charge()], run="tried", seeded=True)
    ledger.charge([charge()], drafted=True)
    book = ledger.read()
    assert "not covered: 1 run seeded, not private" in book.describe()
    assert "not covered: 1 run on a schema drafted from the rows" in book.describe()
    assert [row["run"] for row in book.summary()] == [
        "",
        "tried (seeded)",
        " (drafted schema)",
    ]


def test_charges_that_another_ledger_holds_are_added(ledger):
    ledger.charge([charge(0.01)])
    missing = ledger.read().lacks([charge(0.01), charge(0.01), charge(0.02)])
    assert missing == [charge(0.01), charge(0.02)]
    assert "(rho 0.04)" in ledger.read().describe(others=missing)
    assert "does not hold" in ledger.read().describe(others=missing)


# Crashes


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0], b"not json", *lines[2:]],
        lambda lines: [lines[0], lines[1][:-9], *lines[2:]],
        lambda lines: [lines[0], b"", *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines],
        lambda lines: [lines[0], lines[1], lines[2].replace(b"0.01", b"-0.01"), *lines[3:]],
        lambda lines: [lines[0], lines[1], lines[2].replace(b"0.01", b"NaN"), *lines[3:]],
        lambda lines: [lines[0].replace(b'"version": 1', b'"version": 2'), *lines[1:]],
    ],
)
def test_a_spoilt_ledger_is_not_used(path, change):
    ledger = Ledger(path)
    ledger.charge([charge(0.01)])
    ledger.charge([charge(0.02)])
    spoil(path, change)
    spoilt = path.read_bytes()
    for use in (
        ledger.total,
        lambda: ledger.check([charge()]),
        lambda: ledger.charge([charge()]),
        lambda: ledger.set_cap(1.0),
    ):
        with pytest.raises(LedgerError, match="must be complete"):
            use()
    assert path.read_bytes() == spoilt


@pytest.mark.parametrize("at", [0, 20, 1000, 4096, 5000, -4000, -1])
def test_a_damaged_file_is_never_read_as_another_ledger(path, at):
    """Wherever bytes are lost: an error that says so, or all that it held."""
    ledger = Ledger(path)
    for number in range(20):
        ledger.charge([charge(0.001 * number)], run=f"run {number}")
    whole, data = ledger.read().charges, path.read_bytes()
    for damaged in (data[:at], data[:at] + bytes(50) + data[at:][50:]):
        path.unlink()
        path.write_bytes(damaged)
        try:
            assert Ledger(path).read().charges == whole
        except LedgerError:
            with pytest.raises(LedgerError):
                Ledger(path).charge([charge()])


def test_another_program_s_database_is_left_alone(tmp_path):
    path = tmp_path / "people.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE lines (line TEXT)")
    content = path.read_bytes()
    for use in (Ledger(path).read, lambda: Ledger(path).charge([charge()])):
        with pytest.raises(LedgerError, match="not a ledger"):
            use()
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"age,income\n1,2\n", b"age,income", b"\x89PNG"])
def test_a_file_that_is_no_ledger_is_left_alone(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger(path).charge([charge()])
    assert path.read_bytes() == content


def test_a_full_database_charges_nothing(path, monkeypatch):
    ledger = Ledger(path)
    ledger.charge([charge()])
    before = lines_of(path)

    def full(*args, **how):
        db = open_file(*args, **how)
        db.execute("PRAGMA max_page_count=1")
        return db

    monkeypatch.setattr(ledger_file, "open_file", full)
    with pytest.raises(LedgerError, match=r"is full; nothing was measured"):
        ledger.charge([charge(details={"pad": "x" * 9000})])
    monkeypatch.undo()
    assert lines_of(path) == before
    ledger.charge([charge()])
    assert len(ledger.read().charges) == 2


def test_a_full_disk_for_real(path):
    # A limit on file sizes makes the kernel cut a write short and refuse the next.
    script = """
import resource, sys
from marginalsyn.privacy.charges import Charge, ZCDP
from marginalsyn.errors import LedgerError
from marginalsyn.records.ledger import Ledger
ledger = Ledger(sys.argv[1])
ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.01))])
size = ledger.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 40))
try:
    pad = {"pad": "x" * 9000}
    ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.02), details=pad)])
except LedgerError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert "cannot be written" in run.stdout, run.stderr
    assert [c.rho for c in Ledger(path).read().charges] == [0.01]


@pytest.mark.parametrize("make", ["folder", "locked-out", "file-for-folder"])
def test_unusable_places_are_explained(tmp_path, make):
    path = tmp_path / "x.ledger"
    if make == "folder":
        path.mkdir()
    elif make == "locked-out":
        (tmp_path / "x.ledger-journal").mkdir()
    else:
        path.write_text("")
        path = path / "below.ledger"
    with pytest.raises(LedgerError, match=r"ledger \(.*\) must be readable and writable"):
        Ledger(path).charge([charge()])


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_record_is_synced_before_the_charge_returns(path):
    """What the system is asked to do: the ledger and its folder are flushed, then it returns."""
    script = (
        "import os, sys\n"
        "from marginalsyn.privacy.charges import Charge, ZCDP\n"
        "from marginalsyn.records.ledger import Ledger\n"
        "Ledger(sys.argv[1]).charge([Charge(mechanism='g', cost=ZCDP(rho=0.01))])\n"
        "os.mkdir(sys.argv[1] + '.charged')\n"
    )
    calls = "trace=pwrite64,fsync,fdatasync,unlink,mkdir,rename"
    trace = subprocess.run(
        ["strace", "-f", "-y", "-e", calls, sys.executable, "-c", script, path],
        capture_output=True,
        text=True,
        check=True,
    ).stderr.splitlines()
    end = next(i for i, line in enumerate(trace) if ".charged" in line)
    file, folder = re.escape(str(path)), re.escape(str(path.parent))
    happened = [
        (i, name)
        for i, line in enumerate(trace[:end])
        for name, pattern in (
            ("written", rf"pwrite64\(\d+<{file}>"),
            ("flushed", rf"f(data)?sync\(\d+<{file}>"),
            ("committed", rf'unlink\("{file}-journal"'),
            ("head", rf'rename\("[^"]*", "{file}\.head"'),
            ("folder flushed", rf"f(data)?sync\(\d+<{folder}>"),
        )
        if re.search(pattern, line)
    ]
    names = [name for _, name in happened]
    assert names.index("flushed") > names.index("written")
    assert "written" not in names[names.index("flushed") :]
    # Not only by the head, which may fail to be written.
    assert "folder flushed" in names[names.index("committed") : names.index("head")]
    assert names.index("committed") > names.index("flushed")


# Others at the same time

SPEND = """
import sys
from marginalsyn.privacy.charges import Charge, ZCDP
from marginalsyn.errors import BudgetError
from marginalsyn.records.ledger import Ledger
ledger, paid = Ledger(sys.argv[1]), 0
for _ in range(12):
    try:
        ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.001))])
        paid += 1
    except BudgetError:
        pass
print(paid)
"""


def test_processes_side_by_side_never_overspend(path):
    ledger = Ledger(path)
    ledger.set_cap(eps_of(0.0205, 1e-9), currency="rho")
    workers = [
        subprocess.Popen([sys.executable, "-c", SPEND, path], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paid = sum(int(worker.communicate(timeout=120)[0]) for worker in workers)
    assert paid == 20
    assert len(ledger.read().charges) == 20


def test_threads_side_by_side_never_overspend(ledger):
    ledger.set_cap(eps_of(0.0205, 1e-9), currency="rho")
    refused = []

    def spend():
        for _ in range(8):
            try:
                ledger.charge([charge(0.001)])
            except BudgetError as error:
                refused.append(error)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.read().charges) == 20
    assert len(refused) == 12


def test_a_lock_is_waited_for_and_then_explained(path, monkeypatch):
    monkeypatch.setattr(ledger_file, "LOCK_SECONDS", 0.1)
    ledger = Ledger(path)
    ledger.charge([charge()])
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for use in (ledger.read, lambda: ledger.charge([charge()])):
            with pytest.raises(LedgerError, match="another process"):
                use()
    assert len(ledger.read().charges) == 1


@pytest.mark.parametrize("deleted", [True, False])
def test_a_ledger_that_is_deleted_while_it_is_written_charges_nobody(path, monkeypatch, deleted):
    ledger = Ledger(path)
    ledger.charge([charge()])
    earlier, insert = path.read_bytes(), ledger_file._insert

    def overtaken(db, lines):
        insert(db, lines)
        db.execute("COMMIT")
        db.execute("BEGIN")
        path.unlink()
        if not deleted:
            path.write_bytes(earlier)

    monkeypatch.setattr(ledger_file, "_insert", overtaken)
    with pytest.raises(LedgerError, match="nothing was measured"):
        ledger.charge([charge()])


KILLED = """
import os, sys
from marginalsyn.privacy.charges import Charge, ZCDP
from marginalsyn.records.ledger import Ledger
ledger = Ledger(sys.argv[1])
measured = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.001), details={"pad": "x" * 5000})])
    os.write(measured, b".")
"""


def test_killed_at_any_moment_every_measurement_has_its_charge(path, tmp_path):
    measured, rng = tmp_path / "measured", random.Random(5)
    for _ in range(3):
        before = measured.stat().st_size if measured.exists() else 0
        worker = subprocess.Popen([sys.executable, "-c", KILLED, path, measured])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if measured.exists() and measured.stat().st_size > before:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.05))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        charges, points = len(Ledger(path).read().charges), measured.stat().st_size
        assert points > before
        # Every kill may leave one charge that nothing was measured for; that one stands.
        assert points <= charges <= points + 3
