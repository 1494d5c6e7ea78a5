"""The lines of a ledger: one JSON record each, chained by hashes.

A chained line carries the hash of the line before it, so that a line that was changed, taken out or
moved breaks the chain at the next one.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from marginalsyn.privacy.caps import Currency
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA

ROWS = "rows"
"""The unit of privacy: one row. A ledger has one unit."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: str = ""
    previous: str | None = None


class Header(_Record):
    """The first line: which source the ledger belongs to."""

    record: Literal["ledger"] = "ledger"
    version: Literal[1] = 1
    source: str = ""


class Cap(_Record):
    """A limit on the total from here on; ``eps`` None lifts it.

    One of three limits keeps (eps, delta): ``mu``, ``rho`` in zCDP, as all caps of earlier versions
    have, or ``renyi`` at the Renyi ``order``; ``own_delta`` is set aside for charges that have a
    delta of their own.
    """

    record: Literal["cap"] = "cap"
    eps: float | None
    delta: float = DEFAULT_DELTA
    mu: float | None = None
    rho: float | None = None
    order: float | None = None
    renyi: float | None = None
    own_delta: float = 0.0

    @property
    def currency(self) -> Currency:
        """What the cap adds up."""
        if self.order is not None:
            return "renyi"
        return "rho" if self.mu is None else "mu"

    def __str__(self) -> str:
        return f"eps {self.eps:g}, delta {self.delta:g}" if self.eps is not None else "no cap"


class Account(_Record):
    """The Renyi order that the ledger is kept at where its charges are sampled."""

    record: Literal["account"] = "account"
    order: float = Field(gt=1)


class Known(_Record):
    """Under which names the source is known, and marks of its files."""

    record: Literal["known"] = "known"
    names: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


class Entry(_Record):
    """What one run was charged, and when.

    ``split``: under replace, which rows the run cannot see, see
    :meth:`marginalsyn.sources.holdout.Holdout.split`; None where a line does not record it.
    ``taken``: the number of who may go on with the run; empty where it cannot go on. ``seeded``:
    the run's noise can be taken away again. ``drafted``: its schema was read off the rows. The
    guarantee covers neither.
    """

    record: Literal["charge"] = "charge"
    id: str
    run: str = ""
    delta: float | None = None
    unit: str = ROWS
    split: str | None = None
    taken: str = ""
    seeded: bool = False
    drafted: bool = False
    charges: tuple[Charge, ...]

    @property
    def mark(self) -> str:
        """What stands behind the run's name where the guarantee does not cover it."""
        marks = ["seeded"] * self.seeded + ["drafted schema"] * self.drafted
        return f" ({', '.join(marks)})" if marks else ""


class Settled(_Record):
    """What a run has spent that was stopped: its charges in place of the promised ones.

    Without charges the promise counts again, for the run goes on.
    """

    record: Literal["settled"] = "settled"
    id: str
    charges: tuple[Charge, ...] | None = None


class Progress(_Record):
    """How far a run that may go on has come, and who may go on with it.

    ``by`` is a random number that its workspace keeps and every resume replaces, so that a copy of
    the workspace no longer has it. ``answers`` are those that it had drawn, and ``state`` is
    ``taken`` while it draws, ``drawn`` once no answer is lacking, ``ended`` once they are used.
    """

    record: Literal["progress"] = "progress"
    id: str
    by: str
    answers: int = 0
    state: Literal["taken", "drawn", "ended"] = "taken"


class Void(_Record):
    """Promises that a run under another relation, or with another hold-out, has made void."""

    record: Literal["void"] = "void"
    neighbours: Neighbours
    run: str = ""

    def __str__(self) -> str:
        why = "a run for replace may publish the number of rows"
        if self.neighbours is Neighbours.REPLACE:
            why = "it covers a replaced row only if no hold-out puts the two on different sides"
        return (
            f"every {self.neighbours} promise of this ledger (by {self.run or 'a run'}, "
            f"{self.time}): {why}"
        )


class Chained(_Record):
    """Covers all lines before it: their broken chain was accepted, or they were taken over."""

    record: Literal["chained"] = "chained"
    lines: int
    digest: str


class Torn(_Record):
    """The rest of a line that a crash cut off before it was acknowledged.

    Only ledgers that began as text files have such lines.
    """

    record: Literal["torn"] = "torn"
    text: str


Record = Header | Cap | Account | Known | Entry | Settled | Progress | Void | Chained | Torn
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="record")])


def parse_line(line: bytes) -> Record | None:
    """One record; None where the line is none."""
    try:
        return _RECORD.validate_json(line)
    except ValidationError:
        return None


def write_line(record: Record) -> bytes:
    """One record as a line, without its newline."""
    fields = record.model_dump(mode="json")
    return json.dumps({"record": fields.pop("record"), **fields}, allow_nan=False).encode()


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def now() -> str:
    """The time in the form that ledgers use."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def distrust(path: Path | None, what: str) -> str:
    """The error message for a ledger that was changed after it was written."""
    return (
        f"ledger ({path}) must be complete, but {what}; nothing more is spent on this source until "
        "the file is restored from a copy; 'marginalsyn ledger verify' shows what is wrong"
    )
