"""Public linked tables with their schema and a datasheet: persons with several rows.

Two are bundled: ``flights`` (planes and their flights) and ``pbc`` (patients and their visits)::

    from marginalsyn.datasets import linked

    pbc = linked.load("pbc")
    pbc.tables["visits"], pbc.tree
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.datasets import LINKED, files

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.people.tree import LinkedSchema


@dataclass(frozen=True, kw_only=True)
class LinkedDataset:
    """Public linked tables with their schema.

    Attributes:
        name: the name for :func:`load`.
        tables: the rows of each, as texts, keys among them.
        tree: public columns, keys, links and bounds.
        description: one line about what they are.
    """

    name: str
    tables: dict[str, pd.DataFrame]
    tree: LinkedSchema
    description: str


def names() -> list[str]:
    """The names of all linked tables.

    Example:
        >>> from marginalsyn.datasets import linked
        >>> linked.names()
        ['flights', 'pbc']
    """
    return list(files.catalogue(LINKED))


def describe(name: str) -> dict[str, Any]:
    """The facts about linked tables, without reading them: JSON values only.

    Example:
        >>> from marginalsyn.datasets import linked
        >>> linked.describe("pbc")["tables"]["visits"]["rows"]
        1945
    """
    return files.facts(name, LINKED, "linked tables")


def datasheet(name: str) -> str:
    """The datasheet, Markdown: source, credit, licence, changes, code book."""
    describe(name)
    return files.datasheet(name)


def schema(name: str) -> LinkedSchema:
    """Public columns, keys and links, never data minima."""
    from marginalsyn.people.tree import LinkedSchema

    describe(name)
    return LinkedSchema.read(files.HERE / name / "schema.json")


def load(name: str) -> LinkedDataset:
    """Read linked tables, each checked against its recorded hash.

    Raises:
        UsageError: no linked tables have this name.
        DataError: a bundled file is not the one that was published with this version.

    Example:
        >>> from marginalsyn.datasets import linked
        >>> len(linked.load("pbc").tables["patients"])
        312
    """
    import pandas as pd

    facts = describe(name)
    tables = {
        table: pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        for table, text in _texts(name, facts).items()
    }
    return LinkedDataset(name=name, tables=tables, tree=schema(name), description=facts["summary"])


def export(name: str, folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write linked tables as plain files: a folder of CSV files, their schema, their datasheet.

    Example:
        >>> import tempfile
        >>> from marginalsyn.datasets import linked
        >>> [path.name for path in linked.export("pbc", tempfile.mkdtemp())]
        ['patients.csv', 'visits.csv', 'pbc.schema.json', 'pbc.md', 'pbc-LICENSE']
    """
    texts = _texts(name, describe(name))
    tables = {f"{name}/{table}.csv": text for table, text in texts.items()}
    return files.write_all(name, tables, folder, force=force)


def _texts(name: str, facts: dict[str, Any]) -> dict[str, str]:
    """The tables as CSV texts, checked against their hashes."""
    return {
        table: files.published(name, table, recorded["sha256"])
        for table, recorded in facts["tables"].items()
    }
