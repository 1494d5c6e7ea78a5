"""Private tables that are named and not opened: where they lie, what is held out, what they spent.

A private table that has a release is remembered by the hash of the release's rows, with the rows
that were held out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from marginalsyn import defaults
from marginalsyn.errors import UsageError, explained
from marginalsyn.operations.groups import Named, OfPersons, OfTable, named

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.resume import RunRecorder
    from marginalsyn.records.workspace import Kept
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema

DEFAULT_DATASET = "adult"
DATASET = "dataset:"
UNNAMED = Named()
PASSWORD = defaults.PASSWORD


def shown_name(data: str) -> str:
    """A source as it was named, without a password."""
    from marginalsyn.records.workspace import identify

    return identify(data) if "://" in data else data


def hides_password(data: str) -> bool:
    """Whether a source was named with a password or token, which its shown name leaves out.

    Example:
        >>> hides_password("postgres://me:secret@host/db?table=t")
        True
        >>> hides_password("duckdb:///people.duckdb?table=t")
        False
    """
    if "://" not in data:
        return False
    parts = urlsplit(data)
    keys = [key.lower() for key, _ in parse_qsl(parts.query + "&" + parts.path.replace(";", "&"))]
    return bool(parts.password) or any("password" in key or "token" in key for key in keys)


def rows_of(release: Release | LinkedRelease | None) -> str:
    """The hash of a release's rows, or persons, by which the workspace knows their source."""
    return release.statement.files[release.frame_file] if release is not None else ""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A private source that is named but not opened.

    Attributes:
        key: its name in the workspace.
        schema: its public schema.
        kept: which of its rows, or persons, are kept for an evaluation.
        named: the options that named it.
    """

    key: str
    schema: Any
    kept: Kept
    named: Named

    @property
    def title(self) -> str:
        """The source in words."""
        return shown_name(self.key)

    def remember(self, release: Release | LinkedRelease, ledger: Ledger | None = None) -> None:
        """Remember that a release is of this source, what was held out and which ledger charged."""
        from marginalsyn.records.workspace import Workspace

        Workspace.here().remember(
            self.key,
            schema=release.schema,
            label=self.named.label,
            sep=self.named.sep,
            holdout=self.kept.holdout,
            holdout_salt=self.kept.holdout_salt,
            neighbours=release.statement.neighbours,
            release=release.path,
            rows=rows_of(release),
            ledger=ledger.path if ledger is not None else None,
        )


@dataclass(frozen=True, kw_only=True)
class PrivateInput(Input):
    """A private table that is named but not opened."""

    schema: Schema

    @property
    def dataset(self) -> str | None:
        """The bundled table's name, if it is one."""
        return self.key.removeprefix(DATASET) if self.key.startswith(DATASET) else None

    @property
    def title(self) -> str:
        """The source in words."""
        return f"bundled table {self.dataset} (train part)" if self.dataset else super().title

    def ledger(self) -> Ledger:
        """The source's ledger: the one given, else the user's own."""
        return open_ledger(self.key, self.named)

    def open(self, ledger: Ledger | None, neighbours: Neighbours) -> PrivateTable:
        """Open the table through the door that charges the ledger; reads no row."""
        from marginalsyn.access.private_table import PrivateTable

        salt = self.kept.holdout_salt
        if salt and self.schema.unit is None and not salt.startswith(defaults.SPLIT_RULE):
            raise UsageError(
                f"hold-out ({self.kept.holdout:g}) of this release must have been chosen by this "
                "version: an earlier one chose rows by their content alone, so all equal rows went "
                "the same way, and its rows cannot be distinguished now. Make a release "
                "again, or evaluate this one with --real FILE or its own version"
            )
        if self.dataset:
            from marginalsyn import datasets

            table = PrivateTable.open(datasets.rows(self.dataset), self.schema, ledger=ledger)
        else:
            table = PrivateTable.open(
                self.key,
                self.schema,
                ledger=ledger,
                holdout=self.kept.holdout,
                holdout_salt=salt,
                neighbours=neighbours,
                sep=self.named.sep,
            )
        table.check_layout()
        return table

    def all_rows(self, schema: Schema) -> pd.DataFrame:
        """All rows, held out or not, under a schema of some columns; for the curator alone."""
        whole = replace(self, schema=schema, kept=self.kept.model_copy(update={"holdout": 0.0}))
        table = whole.open(None, self.kept.neighbours)
        return table.unprotected("compare them with a reference").frame()


Found = TypeVar("Found", bound=Input)


def key_of(source: Named) -> str | None:
    """The name that the options give a private table; None when they name none."""
    if source.data is not None and source.dataset is not None:
        raise UsageError("--data and --dataset name two sources; give one of them")
    if source.dataset is None:
        return source.data
    from marginalsyn import datasets

    return DATASET + str(datasets.describe(source.dataset)["name"])


def open_ledger(
    key: str, source: Named, tables: Iterable[str] = (), *, start: bool = True
) -> Ledger:
    """The ledger of a source, or of several tables of one: the file given, else the user's own.

    With ``start`` Spark is started to ask which rows a table's name stands for.
    """
    from marginalsyn.access.ledgers import open_ledger
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.workspace import identify

    if source.ledger is not None:
        ledger = Ledger(Path(source.ledger), source=identify(key))
    else:
        ledger = open_ledger(key, tables, start=start)
    ledger.void_earlier_promises = source.void_earlier_promises
    return ledger


def find_private(source: Named) -> PrivateInput:
    """The table that the options name for a new release; the bundled Adult table by default."""
    from marginalsyn.records.workspace import Kept

    key = key_of(source)
    if source.schema is not None and key is None:
        raise UsageError(
            f"--schema ({source.schema}) can only be given with --data, the table that it describes"
        )
    if source.data is None and source.holdout:
        raise UsageError(
            f"--holdout ({source.holdout:g}) can only be given with --data: a bundled table has a "
            "test part already"
        )
    key = key or DATASET + DEFAULT_DATASET
    return PrivateInput(
        key=key,
        schema=with_unit(labelled(_schema_of(key, source), source.label), source),
        kept=Kept(holdout=source.holdout),
        named=source,
    )


def find_origin(
    schema: Any,
    release: Release | LinkedRelease | None,
    source: Named = UNNAMED,
    kind: type[Found] = PrivateInput,  # type: ignore[assignment]
) -> Found | None:
    """The source named, else the one that a release was made from; None if unknown.

    What was held out of the rows stays so. Of rows that are not known here, what was last held out
    of the source does. ``kind`` is the class of the source, which ``schema`` describes.
    """
    from marginalsyn.records.workspace import Kept, Workspace

    workspace, key = Workspace.here(), key_of(source)
    memory, kept = workspace.of_rows(rows_of(release)) or (None, Kept())
    if memory is None and key is not None and (memory := workspace.recall(key)):
        kept = Kept(**{name: getattr(memory, name) for name in Kept.model_fields})
    if memory is not None:
        key = key or memory.source
        source = replace(source, sep=source.sep or memory.sep, label=source.label or memory.label)
    return None if key is None else kind(key=key, schema=schema, kept=kept, named=source)


def _schema_of(key: str, source: Named) -> Schema:
    """The schema given; else a bundled table's own, or that of the last release from the source."""
    from marginalsyn import datasets
    from marginalsyn.records.workspace import Workspace
    from marginalsyn.table.schema import Schema

    if source.schema is not None:
        return Schema.read(source.schema)
    if source.data is None:
        return datasets.schema(key.removeprefix(DATASET))
    memory = Workspace.here().recall(source.data)
    if memory is not None and memory.schema_file:
        return Schema.read(memory.schema_file)
    raise UsageError(
        f"--data ({shown_name(source.data)}) needs its public schema: add --schema FILE. Draft one "
        f"with: marginalsyn schema infer {shown_name(source.data)} --out FILE"
    )


def labelled(schema: Schema, label: str | None) -> Schema:
    """The schema with another label column."""
    if label is None or label == schema.label:
        return schema
    from marginalsyn.table.schema import Schema

    return Schema(**{**schema.model_dump(), "label": label, "positive": None})


def unit_asked(asked: OfPersons) -> dict[str, Any]:
    """What the options say of the unit of privacy, by its fields."""
    given = {"column": asked.unit, "max_rows": asked.max_rows, "order": asked.order}
    return {name: value for name, value in given.items() if value is not None}


def with_unit(schema: Schema, asked: OfPersons) -> Schema:
    """The schema with the unit of privacy that the options name."""
    from marginalsyn.table.unit import MOST_ROWS, ROW, Unit

    if asked.unit == ROW:
        return schema.with_unit(None) if schema.unit is not None else schema
    given, unit = unit_asked(asked), schema.unit
    if not given:
        return schema
    known = unit.model_dump() if unit and asked.unit in (None, unit.column) else {}
    made: dict[str, Any] = {**known, **given}
    if "column" not in made:
        name, value = next(iter(given.items()))
        raise UsageError(
            f"--{name.replace('_', '-')} ({value}) can only be given with --unit, the column "
            "that identifies persons"
        )
    if (most := made.get("max_rows")) is None:
        raise UsageError(
            f"--unit ({asked.unit}) needs --max-rows: how many rows of a person are counted at "
            "most, a public number such as 20; rows beyond it are left out. `marginalsyn schema "
            "buy-max-rows` finds one with privacy"
        )
    if most > MOST_ROWS:
        raise UsageError(f"--max-rows ({most}) must be at most {MOST_ROWS}")
    return schema.with_unit(Unit(**made))


def caution_of_rows(name: str, seen: str = "") -> str:
    """What a promise for rows means for persons who have several, by a column that suggests them.

    ``seen`` says what the column's rows show, where they were read.
    """
    return (
        f"{name} looks like a column that identifies persons{seen}. Each row is protected by "
        "itself here: a person with 12 rows has 12 times the eps. To protect persons add --unit "
        f"{name} --max-rows N (a number from public knowledge, or `marginalsyn schema "
        "buy-max-rows`); if each person has one row, or rows are meant, say --unit row"
    )


@dataclass(frozen=True)
class FoundTable:
    """A private table that was found and is not opened.

    Attributes:
        name: by which an interrupted run finds it again; empty for rows without one.
        ledger: that is charged.
        open: opens it under a neighbouring relation; reads no row.
        origin: how the workspace remembers it; None for a frame.
    """

    name: str
    ledger: Ledger
    open: Callable[[Neighbours], PrivateTable]
    origin: Input | None = None


def frames_ledger(asked: Any) -> Ledger:
    """The ledger of rows without a name: the file given, else what this process remembers."""
    from marginalsyn.records.ledger import Ledger

    path = Path(asked.ledger) if asked.ledger is not None else None
    return Ledger(path, void_earlier_promises=asked.void_earlier_promises)


def find_table(asked: OfTable, release: Release | None, schema: Schema) -> FoundTable | None:
    """The table that was handed over or named; else the one fitted; else the one remembered.

    None where nothing says which table it is. No ``release`` was made of it where the rows are
    another tool's.
    """
    import pandas as pd

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.operations.linked import find_persons
    from marginalsyn.operations.release import Release as FittedRelease
    from marginalsyn.release.linked import PersonsRelease

    data, source = asked.data, named(asked)
    if isinstance(data, pd.DataFrame):
        if source.dataset is not None:
            raise UsageError("--data and --dataset name two sources; give one of them")
        ledger = frames_ledger(asked)

        def opened(neighbours: Neighbours) -> PrivateTable:
            table = PrivateTable.open(data, schema, ledger=ledger, neighbours=neighbours)
            table.check_layout()
            return table

        return FoundTable("", ledger, opened)
    fitted = release._table if isinstance(release, FittedRelease) else None
    if data is None and source.dataset is None and fitted is not None:
        return FoundTable("", fitted.ledger, lambda relation: fitted)
    if isinstance(release, PersonsRelease):
        origin = find_persons(release, source)
    else:
        origin = find_origin(schema, release, source)
    if origin is None:
        return None
    ledger = origin.ledger()
    return FoundTable(origin.key, ledger, partial(origin.open, ledger), origin)


def describe_total(ledger: Ledger, statement: Statement | None = None) -> list[str]:
    """What the source has spent so far, with the word for what that number is.

    Where the ledger lacks what the statement of a release says was spent (the release was moved, or
    made on another machine), that is added.
    """
    book = ledger.read()
    elsewhere = book.lacks(statement.charges) if statement is not None else []
    lines = [f"source so far:   {book.describe(others=elsewhere)}"]
    if explained := book.explain_sum():
        lines.append(f"                 {explained}")
    if book.cap is not None:
        lines.append(f"of its cap:      {book.of_the_cap()} ({book.cap})")
    return lines


def accounted(
    ledger: Ledger | None, recorder: RunRecorder | None = None
) -> AbstractContextManager[None]:
    """Whatever stops the run inside, say whether the ledger was charged and how to go on."""
    if ledger is None:
        return nullcontext()
    before = len(ledger.made())

    def spent() -> str:
        """What this run was charged; other runs' charges do not count. Empty if nothing."""
        advice = recorder.advice if recorder is not None else ""
        if len(ledger.made()) > before:
            total = ledger.read().describe()
            said = f"The ledger was charged for this run. That stands; spent: {total}."
        elif advice:
            said = "The ledger was charged when the run began; that stands."
        else:
            return ""
        return f"{said} {advice}".rstrip()

    return explained(spent)
