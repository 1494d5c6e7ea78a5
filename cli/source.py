"""The private table that a command means: where it is, its schema, its ledger, what is held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.private import Ledger, PrivateTable
    from marginalsyn.release import Workspace
    from marginalsyn.table import Schema

DEFAULT_DATASET = "adult"
DATASET = "dataset:"


@dataclass(frozen=True, kw_only=True)
class SourceChoice:
    """A private table that is named but not opened; ``key`` is its name in the workspace."""

    key: str
    schema: Schema
    ledger_path: Path | None
    holdout: float
    sep: str | None
    workspace: Workspace
    void_earlier_promises: bool = False

    @property
    def dataset(self) -> str | None:
        """The bundled table's name, if it is one."""
        return self.key.removeprefix(DATASET) if self.key.startswith(DATASET) else None

    @property
    def title(self) -> str:
        """The source in words."""
        from marginalsyn.release import identify

        if self.dataset:
            return f"bundled table {self.dataset} (train part)"
        return identify(self.key) if "://" in self.key else self.key  # without a password

    def ledger(self) -> Ledger:
        """The source's ledger: the one given, else the user's own."""
        ledger = ledger_of(self.key, self.ledger_path, self.workspace)
        ledger.void_earlier_promises = self.void_earlier_promises
        return ledger

    def open(
        self, ledger: Ledger, *, salt: str = "", neighbours: str = "add-remove"
    ) -> PrivateTable:
        """Open the table through the door that charges the ledger; reads no row."""
        from marginalsyn.private import PrivateTable

        if self.dataset:
            from marginalsyn import datasets

            frame = datasets.load(self.dataset).train
            return PrivateTable.open(frame, self.schema, ledger=ledger)
        return PrivateTable.open(
            self.key,
            self.schema,
            ledger=ledger,
            holdout=self.holdout,
            holdout_salt=salt,
            neighbours=neighbours,
            sep=self.sep,
        )


def choose(
    *,
    data: str | None,
    dataset: str | None,
    schema_path: Path | None,
    ledger_path: Path | None,
    void_earlier_promises: bool = False,
    holdout: float = 0.0,
    sep: str | None = None,
    label: str | None = None,
) -> SourceChoice:
    """The source that the options name; the bundled Adult table when they name none."""
    from marginalsyn.release import Workspace

    if data is not None and dataset is not None:
        raise UsageError("--data and --dataset name two sources; give one of them")
    workspace = Workspace.here()
    if data is None:
        if schema_path is not None and dataset is None:
            raise UsageError(f"--schema ({schema_path}) needs the table that it is of: add --data")
        if holdout:
            raise UsageError(
                f"--holdout ({holdout:g}) is for --data: a bundled table keeps its test part away"
            )
        dataset = dataset or DEFAULT_DATASET
        key, schema = DATASET + dataset, _dataset_schema(dataset, schema_path)
    else:
        key, schema = data, _data_schema(data, schema_path, workspace)
    return SourceChoice(
        key=key,
        schema=_labelled(schema, label),
        ledger_path=ledger_path,
        void_earlier_promises=void_earlier_promises,
        holdout=holdout,
        sep=sep,
        workspace=workspace,
    )


def ledger_of(key: str, ledger_path: Path | None, workspace: Workspace) -> Ledger:
    """Open the ledger of a source: the file given, else the user's own."""
    from marginalsyn.private import Ledger, open_ledger
    from marginalsyn.release import identify

    if ledger_path is not None:
        return Ledger(ledger_path, source=identify(key))
    return open_ledger(key, workspace.folder)


def _dataset_schema(dataset: str, schema_path: Path | None) -> Schema:
    from marginalsyn import datasets
    from marginalsyn.table import Schema

    public = datasets.schema(dataset)
    return Schema.read(schema_path) if schema_path else public


def _data_schema(data: str, schema_path: Path | None, workspace: Workspace) -> Schema:
    """The schema given, or the one that the last release from this source had."""
    from marginalsyn.table import Schema

    if schema_path is not None:
        return Schema.read(schema_path)
    memory = workspace.recall(data)
    if memory is not None and memory.schema_file:
        return Schema.read(memory.schema_file)
    raise UsageError(
        f"--data ({data}) needs its public schema: add --schema FILE. Draft one with: "
        f"marginalsyn schema infer {data} --out FILE"
    )


def _labelled(schema: Schema, label: str | None) -> Schema:
    """The schema with another label column."""
    if label is None or label == schema.label:
        return schema
    from marginalsyn.table import Schema

    return Schema(**{**schema.model_dump(), "label": label, "positive": None})
