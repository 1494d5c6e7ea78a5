"""The chain of a ledger: a line that was changed, taken out, moved or cut off is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from stored_lines import as_text, lines_of, spoil, store

from marginalsyn import Charge, Ledger, Neighbours
from marginalsyn.errors import BudgetError, LedgerError
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.records.ledger_file import head_path

EARLIER = Path(__file__).parent / "earlier-ledger.jsonl"


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
def test_whatever_is_done_to_a_line_is_found(path, tmp_path, change):
    before, tried = lines_of(path), 0
    for at in range(1, 6):
        copy = tmp_path / str(at) / path.name
        copy.parent.mkdir()
        for file in (path, head_path(path)):
            shutil.copy2(file, copy.with_name(file.name))
        spoil(copy, lambda lines, at=at: change(lines, at))
        if lines_of(copy) == before:
            continue  # the line does not hold that
        tried += 1
        ledger = Ledger(copy)
        assert ledger.verify(), at
        with pytest.raises(LedgerError, match="must be complete"):
            ledger.charge([charge()])
    assert tried > 2


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
    assert json.loads(head_path(path).read_bytes())["lines"] == len(lines_of(path))


def test_without_its_head_the_end_is_not_vouched_for(path):
    head_path(path).unlink()
    spoil(path, lambda lines: lines[:-1])
    assert Ledger(path).verify() == []
    assert len(Ledger(path).read().charges) == 3


def test_a_ledger_of_an_earlier_commit_is_read(tmp_path):
    """As commit e1d154d wrote it: no hold-out and nothing of a run's progress is recorded."""
    path = tmp_path / "l.jsonl"
    store(path, EARLIER.read_bytes().splitlines())
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


@pytest.mark.parametrize("head", [True, False])
def test_a_text_file_of_version_0_1_is_refused_and_left_as_it_is(path, head):
    as_text(path)
    if not head:
        head_path(path).unlink()
    text, ledger = path.read_bytes(), Ledger(path)
    uses = (ledger.read, ledger.total, ledger.accept, lambda: ledger.charge([charge()]))
    for use in (*uses, lambda: ledger.set_cap(1.0)):
        with pytest.raises(LedgerError, match=r"version 0\.2 takes it over"):
            use()
    assert ledger.verify()
    assert path.read_bytes() == text


def test_a_break_can_be_accepted_and_stays_written_down(path):
    spoil(path, lambda lines: [*lines[:3], *lines[4:]])
    ledger = Ledger(path)
    assert ledger.verify()
    ledger.accept()
    assert ledger.verify() == []
    assert len(ledger.read().charges) == 3
    assert b'"chained"' in b"".join(lines_of(path))
    ledger.charge([charge()])
    assert Ledger(path).verify() == []
    spoil(path, lambda lines: [*lines[:3], *lines[4:]])
    assert Ledger(path).verify()
