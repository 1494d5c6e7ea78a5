"""``datasets`` and ``plugins``: what comes with the package, and what is installed next to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginalsyn import registry
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Session,
    argument,
    option,
)

PREFIX = "marginalsyn."


@dataclass(frozen=True)
class ListDatasets(Operation[Any]):
    """List the tables."""

    shell = ("as_json",)
    examples = "marginalsyn datasets list --json"

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Describe every single table, and every group of linked ones."""
        from marginalsyn import datasets
        from marginalsyn.datasets import linked

        single = [datasets.describe(name) for name in datasets.names()]
        several = [linked.describe(name) for name in linked.names()]
        head, tail = ("name", "rows", "columns", "label"), ("source", "licence", "summary")
        cells = [[table[field] for field in (*head, *tail)] for table in single]
        rows = [[f"{one:,}" if isinstance(one, int) else one for one in row] for row in cells]
        linked_rows = []
        for one in several:
            sizes = ", ".join(f"{about['rows']:,} {name}" for name, about in one["tables"].items())
            linked_rows.append([one["name"], sizes, *(one[field] for field in ("unit", *tail))])
        linked_head = ("linked tables", "rows of each", "unit", *tail[:2], "what they are")
        text = [
            Columns((*head, *tail[:2], "what it is"), rows, right=("rows", "columns")),
            "",
            Columns(linked_head, linked_rows),
        ]
        return Result([*single, *several], [*single, *several], text)


@dataclass(frozen=True)
class OfDataset(Operation[Any]):
    """An operation on one bundled table, or on a group of linked ones."""

    name: str = argument(None, "One of `marginalsyn datasets list`.", required=True)

    def home(self) -> Any:
        """The module that knows the table."""
        from marginalsyn import datasets
        from marginalsyn.datasets import linked

        return linked if self.name in linked.names() else datasets


@dataclass(frozen=True)
class ShowDataset(OfDataset):
    """Print a table's datasheet: source, credit, licence, what was changed, its columns."""

    shell = ("as_json",)
    examples = "marginalsyn datasets show adult"

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Describe the table."""
        home = self.home()
        found = home.describe(self.name)
        return Result(found, found, [home.datasheet(self.name)])


@dataclass(frozen=True)
class ExportDataset(OfDataset):
    """Write a table as plain files: train and test CSV, schema and datasheet.

    Linked tables are written to a folder of their own, whole.
    """

    shell = ("quiet",)
    examples = """
    # heart-train.csv, heart-test.csv, heart.schema.json, heart.md
    marginalsyn datasets export heart --out tables
    # linked tables: a folder with a file for each, flights.schema.json, flights.md
    marginalsyn datasets export flights --out tables
    """

    out: str | Path = option(
        ".",
        "The folder to write to. [default=the current folder]",
        show_default=False,
        metavar="FOLDER",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Write the files."""
        with session.progress(None) as progress:
            progress.report("export", text=self.name)
            files = self.home().export(self.name, Path(self.out), force=self.force)
        return Result(files, text=list(map(str, files)))


@dataclass(frozen=True)
class Plugins(Operation[Any]):
    """List the plugins, where they come from, and whether they can run.

    A plugin that cannot be imported is listed as broken, with the reason; the others still work.
    """

    shell = ("as_json",)
    examples = """
    marginalsyn plugins
    # the methods that `generate` takes
    marginalsyn plugins --kind generators
    """

    kind_: str | None = option(
        None, "List only this kind.", choices=[kind.removeprefix(PREFIX) for kind in registry.KINDS]
    )

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Try every plugin."""
        found = registry.plugins(f"{PREFIX}{self.kind_}" if self.kind_ else None)
        fields = ("name", "distribution", "version", "status", "reason", "requires", "summary")
        data = [
            {"kind": p.kind.removeprefix(PREFIX), **{field: getattr(p, field) for field in fields}}
            for p in found
        ]
        rows = [
            (p.name, one["kind"], p.distribution, p.version, p.status, p.reason or p.summary)
            for p, one in zip(found, data, strict=True)
        ]
        head = ("name", "kind", "from", "version", "status", "what it does")
        return Result(found, data, [Columns(head, rows)])
