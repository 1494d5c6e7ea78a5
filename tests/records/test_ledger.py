"""The ledger: durable before it returns, never overspent, honest about what it cannot read."""

from __future__ import annotations

import doctest
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import marginalsyn.records.durable
import marginalsyn.records.ledger
import marginalsyn.records.ledger_file
from marginalsyn.cli.accounting import accounted
from marginalsyn.errors import BudgetError, LedgerError, UsageError
from marginalsyn.privacy.charges import ZCDP, Approximate, Charge, Neighbours, Pure
from marginalsyn.privacy.zcdp import eps_of
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.ledger_file import head_path


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


def test_a_charge_has_an_id(ledger):
    ids = [ledger.charge([charge()], run=run) for run in ("one", "two")]
    assert len(set(ids)) == 2
    assert [entry.id for entry in ledger.read().entries] == ids == list(ledger.made())
    assert ledger.charge([]) == ""


def test_a_ledger_knows_its_own_charges_from_those_of_others(path):
    first, second = Ledger(path), Ledger(path)
    mine = first.charge([charge()])
    assert (first.made(), second.made()) == ((mine,), ())


def test_a_run_refused_beside_another_is_not_told_that_it_was_charged(path):
    ledger, other = Ledger(path), Ledger(path)
    ledger.set_cap(1.0)

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


def test_lines_are_json(path):
    Ledger(path, source="clinic").charge([charge(details={"name": "Zoë\nline"})])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["record"] for line in lines] == ["ledger", "account", "charge"]
    assert lines[0]["source"] == "clinic"


def test_cap(ledger):
    ledger.set_cap(1.0)
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
    assert "(rho 0.04)" in ledger.read().describe(beside=missing)
    assert "does not hold" in ledger.read().describe(beside=missing)


# Crashes


def test_a_line_torn_anywhere_loses_no_acknowledged_charge(path, tmp_path):
    ledger = Ledger(path)
    ledger.charge([charge(0.01)], run="kept")
    kept = path.read_bytes()
    ledger.charge([charge(0.02)], run="torn")
    whole = path.read_bytes()
    other = tmp_path / "torn.ledger"
    for end in range(len(kept), len(whole)):
        other.write_bytes(whole[:end])
        head_path(other).unlink(missing_ok=True)
        torn = Ledger(other)
        # Only its newline missing, the line says all it had to say, so it counts.
        runs = ["kept", "torn"] if end == len(whole) - 1 else ["kept"]
        assert [e.run for e in torn.read().entries] == runs
        torn.charge([charge(0.03)], run="after")
        assert [e.run for e in torn.read().entries] == [*runs, "after"]
        fragment = whole[len(kept) : end]
        if fragment and end < len(whole) - 1:
            records = [json.loads(line) for line in other.read_text().splitlines()]
            assert fragment.decode() in [r.get("text") for r in records]


def test_a_torn_first_line(path):
    Ledger(path, source="clinic").charge([charge()])
    header = path.read_bytes().split(b"\n")[0]
    for end in range(len(header) + 1):
        path.write_bytes(header[:end])
        head_path(path).unlink(missing_ok=True)
        ledger = Ledger(path, source="clinic")
        assert ledger.read().charges == []
        ledger.charge([charge()])
        assert len(Ledger(path).read().charges) == 1
        assert Ledger(path).read().source == "clinic"


def test_torn_bytes_that_are_not_text(path):
    Ledger(path).charge([charge()])
    with path.open("ab") as handle:
        handle.write(b"\x00\xff\x80")
    path.chmod(0o640)
    Ledger(path).charge([charge()])
    assert len(Ledger(path).read().charges) == 2
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "spoil",
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
def test_a_spoilt_ledger_is_not_used(path, spoil):
    ledger = Ledger(path)
    ledger.charge([charge(0.01)])
    ledger.charge([charge(0.02)])
    spoilt = b"\n".join(spoil(path.read_bytes().split(b"\n")))
    path.write_bytes(spoilt)
    for use in (
        ledger.total,
        lambda: ledger.check([charge()]),
        lambda: ledger.charge([charge()]),
        lambda: ledger.set_cap(1.0),
    ):
        with pytest.raises(LedgerError, match="must be complete"):
            use()
    assert path.read_bytes() == spoilt


@pytest.mark.parametrize("content", [b"age,income\n1,2\n", b"age,income", b"\x89PNG"])
def test_a_file_that_is_no_ledger_is_left_alone(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger(path).charge([charge()])
    assert path.read_bytes() == content


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_failing_disk_charges_nothing(path, monkeypatch, call):
    ledger = Ledger(path)
    ledger.charge([charge()])
    before = path.read_bytes()
    real_write = os.write

    def half(handle, data):
        if len(data) > 10:
            return real_write(handle, bytes(data[:10]))
        raise OSError(28, "No space left on device")

    def fail(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, half if call == "write" else fail)
    with pytest.raises(LedgerError, match="nothing was measured"):
        ledger.charge([charge()])
    monkeypatch.undo()
    assert path.read_bytes() == before
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
    ledger.charge([Charge(mechanism="g", cost=ZCDP(rho=0.02))])
except LedgerError as error:
    assert ledger.path.stat().st_size == size
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
        (tmp_path / "x.ledger.lock").mkdir()
    else:
        path.write_text("")
        path = path / "below.ledger"
    with pytest.raises(LedgerError, match=r"ledger \(.*\) must be readable and writable"):
        Ledger(path).charge([charge()])


def test_the_record_is_synced_before_the_charge_returns(path, monkeypatch):
    happened = []
    real_write, real_sync = os.write, os.fsync

    def write(handle, data):
        happened.append("write")
        return real_write(handle, data)

    def sync(handle):
        happened.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "sync")
        return real_sync(handle)

    ledger = Ledger(path)
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fsync", sync)
    ledger.charge([charge()])
    assert [h for h in happened if h != "folder"][-2:] == ["write", "sync"]
    if os.path.isdir("/proc/self/fd"):
        assert happened[-1] == "folder"


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
    ledger.set_cap(eps_of(0.0205, 1e-9))
    workers = [
        subprocess.Popen([sys.executable, "-c", SPEND, path], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paid = sum(int(worker.communicate(timeout=120)[0]) for worker in workers)
    assert paid == 20
    assert len(ledger.read().charges) == 20


def test_threads_side_by_side_never_overspend(ledger):
    ledger.set_cap(eps_of(0.0205, 1e-9))
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


def test_a_held_lock_is_waited_for_and_then_explained(path, monkeypatch):
    from filelock import FileLock

    monkeypatch.setattr(marginalsyn.records.ledger_file, "LOCK_SECONDS", 0.1)
    ledger = Ledger(path)
    ledger.charge([charge()])
    with FileLock(f"{path}.lock"), pytest.raises(LedgerError, match="another process"):
        ledger.charge([charge()])
    assert len(ledger.read().charges) == 1


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


@pytest.mark.parametrize("module", [marginalsyn.records.ledger, marginalsyn.records.durable])
def test_examples(module):
    assert doctest.testmod(module).failed == 0
