"""The only door to private rows.

A :class:`PrivateTable` knows a table's layout and reads no row by itself. There are two ways to its
rows: a :class:`Visit`, which :meth:`PrivateTable.charge` returns once the charge is in the ledger,
and :meth:`PrivateTable.unprotected`, which is for the curator alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd

from marginalsyn.access.prepaid_budget import PrepaidBudget, ReplayedNoise
from marginalsyn.access.rows import PrivateRows, RowBatch
from marginalsyn.access.visit import Visit
from marginalsyn.errors import SchemaError, UsageError, explained
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.records.entries import ROWS
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.resume import RunRecorder, say_spent
from marginalsyn.sources.holdout import Holdout
from marginalsyn.sources.persons import ADDED
from marginalsyn.sources.source import Source, open_source, trace_of
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import TextForm
from marginalsyn.table.schema import Schema
from marginalsyn.validation import like, shorten

__all__ = ["STAMP", "PrivateTable", "Unprotected", "Visit"]

STAMP = "not private: for the curator"


class PrivateTable:
    """A private table. Make one with :meth:`open`.

    Attributes:
        schema: the public description of the columns.
        codec: encodes and decodes rows.
        ledger: where charges are written.

    Example:
        >>> import pandas as pd
        >>> from marginalsyn.privacy.charges import ZCDP
        >>> from marginalsyn.privacy.noise import make_noise
        >>> from marginalsyn.table.schema import Schema
        >>> table = PrivateTable.open(pd.DataFrame({"a": [0, 1, 1]}), Schema.from_domain({"a": 2}))
        >>> charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))
        >>> with table.charge([charge], noise=make_noise()) as visit:
        ...     noisy = visit.measure(["a"], sigma=10.0)
        >>> noisy.values.shape, str(table.ledger.total())
        ((2,), 'eps 0.810175, delta 1e-09 (rho 0.01), add-remove, exact')
    """

    def __init__(self, source: Source, schema: Schema, ledger: Ledger, holdout: Holdout) -> None:
        self.schema = schema
        self.codec = Codec(schema)
        self.ledger = ledger
        self._source, self._sources = source, [source]
        self._holdout = holdout
        self._rows = PrivateRows(source, self.codec, holdout)
        # The rows of views by their names, where linked tables are counted.
        self._views: Mapping[str, PrivateRows] = {}
        # What the curator sees is each row once, of all that a person has.
        self._plain = (
            self._rows
            if schema.unit is None and schema.survey_weight is None
            else PrivateRows(source, self.codec, holdout, counted=False)
        )
        self._format_checked = False

    @classmethod
    def open(
        cls,
        data: pd.DataFrame | str | Path | ibis.Table,
        schema: Schema,
        *,
        ledger: Ledger | None = None,
        holdout: float = 0.0,
        holdout_salt: str = "",
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        table: str | None = None,
        sep: str | None = None,
    ) -> PrivateTable:
        """Open a table without reading a row: only the names and types of its columns.

        Args:
            data: a pandas frame, a path (``.csv``, ``.csv.gz``, ``.tsv``, ``.parquet``), a folder
                or glob of such files, a database address (``postgres://user@host/db?table=t``,
                ``spark://t``, ``duckdb:///file.duckdb?table=t``), or an Ibis table.
            schema: the public description of the columns.
            ledger: where charges are written; by default a new one in memory.
            holdout: the share of rows that no visit ever sees, for a later evaluation.
            holdout_salt: decides which rows those are; ``secrets.token_hex(16)`` makes one that
                nobody guesses.
            neighbours: the relation under which rows are held out; charges must be for it. Under
                replace the promise is then for the rows that are not, whose number is public, and
                a ledger has one share and salt.
            table: the table of a database address, in place of its ``?table=``.
            sep: the separator of CSV files.

        Raises:
            UsageError: an argument that cannot be taken as given.
            DataError: a source that is not there, or is not a table.
        """
        source = open_source(data, table=table, sep=sep, **schema.reading)
        split = Holdout(holdout, holdout_salt, Neighbours(neighbours))
        ledger = ledger or Ledger(None, source=source.name)
        ledger.check_asked()
        return cls(source, schema, ledger, split)

    @property
    def source(self) -> str:
        """A readable name of where the rows lie."""
        return self._source.name

    @property
    def holdout(self) -> float:
        """The share of rows that no visit sees."""
        return self._holdout.share

    @property
    def split(self) -> str:
        """Which rows no visit sees, as ledgers name it."""
        unit, known = self.schema.unit, set(self._source.columns) - set(self._source.nested)
        fields = [unit.column] if unit is not None else sorted(known)
        # What has types may hold out other rows than its copy as text, since texts of some values
        # differ: single precision, fractions of seconds, time zones.
        read = self._source.encoding or "types"
        return self._holdout.split(read, *fields)

    @property
    def public_split(self) -> str | None:
        """The same for a statement; None where it is not needed, or would reveal the salt."""
        replaced = self._holdout.neighbours is Neighbours.REPLACE
        return self.split if replaced and self._holdout.random else None

    @property
    def text_form(self) -> TextForm:
        """How the source's text file is written: read off its header line and what precedes it."""
        return self._source.form

    def check_layout(self) -> None:
        """Raise SchemaError unless source and schema have the same columns. Reads no row."""
        present, derived = self._source.columns, self.schema.derived
        known = [name for name in self.schema.names if name not in derived]
        unit, weight = self.schema.unit, self.schema.survey_weight
        asked = (
            [("unit", name, "plain values") for name in (unit.column, unit.order)] if unit else []
        )
        asked += [("survey_weight", weight.column, "numbers")] if weight else []
        plain = [name for name in present if name not in self._source.nested]
        problems = [
            f"{what} ({name!r}) must be a column of {kind} in the source{like(name, plain)}"
            for what, name, kind in asked
            if name is not None and name not in plain
        ]
        added = {name.casefold() for name in (*ADDED, *self.schema.counted)} if asked else set()
        problems += [
            f"column ({name!r}) of the source must have another name, for counts use this one; the "
            'number of rows of a person may be named by "count" of the unit'
            for name in present
            if name.casefold() in added
        ]
        for name in known:
            if name not in present:
                problems.append(
                    f"column ({name!r}) of the schema must be in the source{like(name, present)}"
                )
            elif name in self._source.nested:
                problems.append(
                    f"column ({name!r}) must hold one number, text or truth value a row, not "
                    "lists, records or bytes: put it into the schema's drop list"
                )
        for name in present:
            if name not in known and name not in self.schema.left_out:
                problems.append(
                    f"column ({name!r}) of the source must be in the schema or in its drop list"
                    + like(name, known)
                )
        if problems:
            raise SchemaError(shorten(problems))

    def charge(
        self,
        charges: Sequence[Charge],
        *,
        noise: Noise,
        delta: float = DEFAULT_DELTA,
        run: str = "",
        recorder: RunRecorder | None = None,
        persons: bool = False,
    ) -> Visit:
        """Write the charges into the ledger, then return a visit that may read the rows.

        The order matters. Layout, relation and cap are checked before anything is read. Then a CSV
        file is checked to be well-formed, which reveals nothing about the rows if it is. The
        charges are in the ledger before the visit exists, so a run that dies later has still spent.

        Args:
            charges: what the visit may spend, all for the same neighbouring relation.
            noise: draws the visit's protective noise.
            delta: what the run's own statement uses; recorded in the ledger.
            run: a public name for the ledger's entry.
            recorder: keeps the visit's answers until the run has ended; one that resumes has them
                already, and the charge that paid for them: then nothing is charged.
            persons: the visitor's promise that it holds for persons if the schema has a unit: that
                it draws on counts alone, and only in ways that one person moves by at most one.

        Raises:
            SchemaError: source and schema do not fit.
            BudgetError: the ledger's relation, hold-out or cap does not allow it; nothing was read.
            DataError: the source is not a table; nothing was charged.
        """
        prepaid = PrepaidBudget(charges)
        self._check_charges(prepaid, persons)
        self.check_layout()
        unit = ROWS if self.schema.unit is None else self.schema.unit.noun
        if recorder is None or not recorder.resume:
            self.ledger.check(prepaid.charges, unit=unit, split=self.split)
        self._check_format()
        about: dict[str, Any] = {"run": run, "delta": delta, "unit": unit, "split": self.split}
        about["drafted"] = self.schema.drafted_from_data
        if recorder is None:
            self.ledger.charge(prepaid.charges, seeded=not noise.private, **about)
            return Visit(self._rows, prepaid, noise, self._views)
        about["trace"] = trace_of(self._sources)
        journal = recorder.start(self.ledger, prepaid.charges, noise=noise, **about)
        if journal is not None:
            noise = ReplayedNoise(noise, journal, prepaid)
        if recorder.resume:
            # Its rows were read before, which the statement says even if no answer is missing.
            self._rows.connect()
        return Visit(self._rows, prepaid, noise, self._views)

    def _check_charges(self, prepaid: PrepaidBudget, persons: bool) -> None:
        """Refuse what the schema does not allow, before anything is charged or read."""
        unit = self.schema.unit
        if unit is not None and unit.max_rows > 1 and not persons:
            raise UsageError(
                f"unit ({unit.noun}) must be rows here: what was asked for bounds the influence of "
                "single rows, not that of a person who has several. Nothing was charged or read"
            )
        weight = self.schema.survey_weight
        if weight is not None and not (persons and prepaid.neighbours is Neighbours.ADD_REMOVE):
            raise UsageError(
                f"survey_weight ({weight.column}) needs add-remove, since the number of rows says "
                "nothing of their sum, and a run that counts: this one takes each row once, or is "
                "under replace. Nothing was charged or read"
            )
        if self.schema.open and not any(c.mechanism == "set union" for c in prepaid.charges):
            raise UsageError(
                f"schema (categories of {', '.join(self.schema.open)}: private) must have its "
                "categories bought first: take the schema of a release, which has them, or use "
                "`marginalsyn schema buy-categories`. Nothing was charged or read"
            )
        relation = self._holdout.neighbours
        if self.holdout and prepaid.neighbours is not relation:
            raise UsageError(
                f"neighbours ({relation}) must be those of the charges ({prepaid.neighbours}), for "
                "they decide what a split promises: open the table with "
                f"neighbours='{prepaid.neighbours}'"
            )

    @contextmanager
    def paid_visit(
        self,
        charges: Sequence[Charge],
        *,
        noise: Noise,
        delta: float = DEFAULT_DELTA,
        recorder: RunRecorder | None = None,
        method: str = "",
        **how: Any,
    ) -> Iterator[Visit]:
        """As :meth:`charge`; whatever stops the visit says what was spent and how to go on.

        When it ends the ledger records that all answers are drawn, before a release is made of
        them: of the copies of a run one can get there.

        ``method`` is the plugin that looks, as messages name it.
        """
        visit = self.charge(charges, noise=noise, delta=delta, recorder=recorder, **how)
        with explained(lambda: say_spent(visit.charges, delta, recorder), method), visit:
            yield visit
            if recorder is not None:
                recorder.seal()

    def unprotected(self, reason: str) -> Unprotected:
        """Return a view without any protection, for the curator alone.

        Args:
            reason: why it is needed; recorded with the view.
        """
        if not reason.strip():
            raise UsageError("reason ('') must not be empty: say why unprotected rows are needed")
        self.check_layout()
        self._check_format()
        return Unprotected(self._plain, reason, held_out=bool(self._holdout.share))

    def close(self) -> None:
        """Release the rows that are in memory; the next visit reads them again."""
        for rows in (self._rows, self._plain, *self._views.values()):
            rows.close()

    def _check_format(self) -> None:
        """Refuse a file that is none, unless it was read before."""
        if not self._format_checked:
            for source in self._sources:
                source.check_format()
            self._format_checked = True


class Unprotected:
    """Exact rows and counts without any protection. They must never reach a release.

    Example:
        >>> view = PrivateTable.open(frame, schema).unprotected("evaluate the release")
        >>> view.frame().attrs["marginalsyn"]
        'not private: for the curator'
    """

    stamp = STAMP

    def __init__(self, rows: PrivateRows, reason: str, *, held_out: bool) -> None:
        self.reason = reason
        self._rows = rows
        self._held_out = held_out

    def frame(self, *, weighted: bool = False) -> pd.DataFrame:
        """The rows that visits see, as a release would hold them: dtypes, labels, clipping.

        ``weighted`` draws as many in proportion to their survey weights, if there are any.
        """
        return self._stamped(self._rows.frame(weighted=weighted))

    def holdout_frame(self, *, weighted: bool = False) -> pd.DataFrame:
        """The rows that no visit sees."""
        if not self._held_out:
            raise UsageError("holdout (0) must be above 0 when the table is opened, such as 0.2")
        return self._stamped(self._rows.frame(held_out=True, weighted=weighted))

    def persons(self, column: str) -> tuple[int, int, int]:
        """How many persons a column names among the rows that visits see, among the others, and on
        both sides.
        """
        return self._rows.persons(column)

    def all_rows(self, *, weighted: bool = False) -> RowBatch:
        """The rows that visits see, as codes; each counts as 1, so ``weighted`` changes nothing."""
        return self._rows.all_rows()

    def counts(self, columns: Sequence[str]) -> np.ndarray:
        """The exact marginal of the rows that visits see."""
        key = tuple(columns)
        return self._rows.count([key], {})[key]

    def _stamped(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame.attrs["marginalsyn"] = self.stamp
        return frame
