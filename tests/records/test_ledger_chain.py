"""The chain of a ledger: a line that was changed, taken out, moved or cut off is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marginalsyn.errors import BudgetError, LedgerError
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.ledger_file import head_path


def charge(rho=0.01, neighbours=Neighbours.ADD_REMOVE):
    return Charge(mechanism="gaussian", cost=ZCDP(rho=rho), neighbours=neighbours)


@pytest.fixture
def path(tmp_path):
    """A ledger of six lines: header, order, and four charges."""
    ledger = Ledger(tmp_path / "l.jsonl", source="clinic")
    for number in range(4):
        ledger.charge([charge(0.01 * (number + 1))], run=f"run {number}")
    assert ledger.verify() == []
    return ledger.path


def spoil(path, change):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize(
    "change",
    [
        lambda lines, at: lines[:at] + lines[at + 1 :],
        lambda lines, at: [*lines[:at], lines[at].replace(b"0.0", b"0.00"), *lines[at + 1 :]],
        lambda lines, at: [*lines[:at], lines[at].replace(b"20", b"19", 1), *lines[at + 1 :]],
        lambda lines, at: [*lines[:at], lines[at], *lines[at:]],
        lambda lines, at: [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]],
        lambda lines, at: lines[:at],
    ],
    ids=["taken out", "changed", "time changed", "doubled", "moved", "cut off"],
)
def test_whatever_is_done_to_a_line_is_found(path, at, change):
    before = path.read_bytes()
    spoil(path, lambda lines: change(lines, at))
    if path.read_bytes() == before:
        pytest.skip("the line does not hold that")
    ledger = Ledger(path)
    assert ledger.verify()
    with pytest.raises(LedgerError, match="must be complete"):
        ledger.charge([charge()])


def test_a_missing_file_is_found(path):
    path.unlink()
    assert "its end is missing" in Ledger(path).verify()[0]


def test_lines_after_the_head_was_written_are_no_loss(path):
    """A crash between a line and the head record: the line counts, the next write heals it."""
    head = head_path(path).read_bytes()
    Ledger(path).charge([charge()])
    head_path(path).write_bytes(head)
    assert Ledger(path).verify() == []
    Ledger(path).charge([charge()])
    assert len(Ledger(path).read().charges) == 6
    assert json.loads(head_path(path).read_bytes())["lines"] == 8


def test_without_its_head_the_end_is_not_vouched_for(path):
    head_path(path).unlink()
    spoil(path, lambda lines: lines[:-1])
    assert Ledger(path).verify() == []
    assert len(Ledger(path).read().charges) == 3


def test_a_ledger_of_an_earlier_commit_is_read(tmp_path):
    """As commit e1d154d wrote it: no hold-out and nothing of a run's progress is recorded."""
    path = tmp_path / "l.jsonl"
    path.write_bytes((Path(__file__).parent / "earlier-ledger.jsonl").read_bytes())
    ledger = Ledger(path)
    assert ledger.verify() == []
    book = ledger.read()
    assert book.total().rho == pytest.approx(4 * 0.005 + 0.02)
    assert [entry.split for entry in book.entries] == [None, None]
    assert book.not_ended() == []
    assert "hold-outs differ or are not recorded" in book.describe()
    # Its hold-out under replace may have been any: nothing is added to it as if it were none.
    for split in ("", "0.2 ab"):
        with pytest.raises(BudgetError, match="must be not recorded"):
            ledger.charge([charge(neighbours=Neighbours.REPLACE)], split=split)
    # Nor does its run go on, which may have ended long ago.
    with pytest.raises(LedgerError, match="another copy of the workspace"):
        ledger.advance(book.entries[1].id, [""], "b", 0)
    ledger.void_earlier_promises = True
    ledger.charge([charge(neighbours=Neighbours.REPLACE)], split="0.2 ab")
    assert ledger.read().splits == {"0.2 ab"}
    assert ledger.verify() == []
    spoil(path, lambda lines: [*lines[:4], *lines[5:]])
    assert ledger.verify()


def test_a_break_can_be_accepted_and_stays_written_down(path):
    spoil(path, lambda lines: [*lines[:3], *lines[4:]])
    ledger = Ledger(path)
    assert ledger.verify()
    ledger.accept()
    assert ledger.verify() == []
    assert len(ledger.read().charges) == 3
    assert b'"chained"' in path.read_bytes()
    ledger.charge([charge()])
    assert Ledger(path).verify() == []
    spoil(path, lambda lines: [*lines[:3], *lines[4:]])
    assert Ledger(path).verify()


def test_two_that_wrote_at_once_although_locked_are_both_kept(path):
    lines = path.read_bytes().splitlines(keepends=True)
    first, second = path.with_name("a.jsonl"), path.with_name("b.jsonl")
    for other in (first, second):
        other.write_bytes(b"".join(lines))
        Ledger(other).charge([charge()], run=other.stem)
    twins = [file.read_bytes().splitlines(keepends=True)[-1] for file in (first, second)]
    spoil(path, lambda lines: [*lines, *twins])
    ledger = Ledger(path)
    assert ledger.verify() == []
    assert [entry.run for entry in ledger.read().entries][-2:] == ["a", "b"]
    ledger.charge([charge()], run="c")
    assert ledger.verify() == []
    spoil(path, lambda lines: [*lines[:6], *lines[7:]])
    assert ledger.verify()
