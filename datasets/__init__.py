"""Public tables with a schema, a datasheet and a fixed split, for experiments and comparisons.

Four are bundled (``adult``, ``heart``, ``german``, ``telco``); five come from scikit-learn. Their
schemas hold public bounds and categories, so they can be used as if the rows were private. Linked
tables are in :mod:`marginalsyn.datasets.linked`::

    from marginalsyn import datasets

    adult = datasets.load("adult")
    adult.train, adult.test, adult.schema
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.datasets import files
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.table.schema import Schema

CATALOGUE, LINKED = "catalogue.json", "linked.json"
TEST_SHARE = 0.2
Part = Literal["train", "test", "all"]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public table, split, with its schema.

    Attributes:
        name: The name for :func:`load`.
        train: The rows for the generator; columns, dtypes and missing values follow the schema.
        test: The rows for testing.
        schema: Public columns, bounds, bins, label.
        description: One line about what a row is and what is predicted.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    schema: Schema
    description: str


def names() -> list[str]:
    """The names of all tables, bundled ones first.

    Example:
        >>> from marginalsyn import datasets
        >>> "adult" in datasets.names()
        True
    """
    return list(files.catalogue(CATALOGUE))


def describe(name: str) -> dict[str, Any]:
    """The facts about a table, without reading it: JSON values only.

    Args:
        name: One of :func:`names`.

    Returns:
        ``name``, ``title``, ``summary``, ``source`` (``bundled`` or ``scikit-learn``), ``creator``,
        ``doi``, ``licence``, ``rows``, ``columns``, ``train``, ``test``, ``split``, ``label``,
        ``positive``, ``labels`` (rows per label) and, for a bundled table, ``sha256`` of its CSV.

    Example:
        >>> from marginalsyn import datasets
        >>> datasets.describe("heart")["rows"]
        297
    """
    if name not in files.catalogue(CATALOGUE) and name in files.catalogue(LINKED):
        raise UsageError(
            f"dataset ({name}) must be one table here; it is several that are linked: write "
            f"them with `marginalsyn datasets export {name}`, then name the folder and the "
            "schema; in Python take marginalsyn.datasets.linked"
        )
    return files.facts(name, CATALOGUE, "dataset")


def datasheet(name: str) -> str:
    """The table's datasheet, Markdown: source, credit, licence, changes, split, code book."""
    describe(name)
    return files.datasheet(name)


def schema(name: str) -> Schema:
    """The table's schema: public bounds, categories and bins, never data minima.

    Example:
        >>> from marginalsyn import datasets
        >>> datasets.schema("adult").label
        'income'
    """
    from marginalsyn.table.schema import Schema

    describe(name)
    return Schema.read(files.HERE / name / "schema.json")


def load(name: str) -> Dataset:
    """Read a table, checked against its recorded hash, and split it.

    Args:
        name: One of :func:`names`.

    Returns:
        The train and test frames, with the schema's column order and dtypes.

    Raises:
        UsageError: No table has this name.
        DataError: The bundled file is not the one that was published with this version.

    Example:
        >>> from marginalsyn import datasets
        >>> len(datasets.load("heart").train)
        236
    """
    facts = describe(name)
    table_schema = schema(name)
    header, train, test = _split(name, facts)
    return Dataset(
        name=name,
        train=_frame(header, train, table_schema),
        test=_frame(header, test, table_schema),
        schema=table_schema,
        description=facts["summary"],
    )


def rows(name: str, part: Part = "train") -> pd.DataFrame:
    """One part of a table, as :func:`load` has it; the other part is not read into a frame.

    Args:
        name: One of :func:`names`.
        part: ``train``, ``test`` or ``all`` of the rows.
    """
    header, train, test = _split(name, describe(name))
    parts = {"train": train, "test": test, "all": train + test}
    if part not in parts:
        raise UsageError(f"part ({part}) must be train, test or all")
    return _frame(header, parts[part], schema(name))


def private_table(
    name: str,
    part: Part = "train",
    *,
    ledger: Ledger | None = None,
    holdout: float = 0.0,
    holdout_salt: str = "",
) -> PrivateTable:
    """Open one part of a table as if its rows were private.

    Args:
        name: One of :func:`names`.
        part: ``train``, ``test`` or ``all`` of the rows.
        ledger: Where charges are written; None keeps them in memory.
        holdout: The share of these rows to keep from the generator.
        holdout_salt: Which rows these are.

    Example:
        >>> from marginalsyn import datasets
        >>> table = datasets.private_table("heart")
        >>> table.schema.label
        'disease'
    """
    from marginalsyn.access.private_table import PrivateTable

    return PrivateTable.open(
        rows(name, part),
        schema(name),
        ledger=ledger,
        holdout=holdout,
        holdout_salt=holdout_salt,
    )


def export(name: str, folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write a table as plain files: train and test CSV, schema, datasheet with its credit.

    Args:
        name: One of :func:`names`.
        folder: Made if it is not there.
        force: Overwrite files of the same names.

    Returns:
        The files written.

    Example:
        >>> import tempfile
        >>> from marginalsyn import datasets
        >>> [path.name for path in datasets.export("heart", tempfile.mkdtemp())]
        ['heart-train.csv', 'heart-test.csv', 'heart.schema.json', 'heart.md']
    """
    header, train, test = _split(name, describe(name))
    tables = {
        f"{name}-train.csv": "\n".join([header, *train, ""]),
        f"{name}-test.csv": "\n".join([header, *test, ""]),
    }
    return files.write_all(name, tables, folder, force=force)


def _text(name: str, facts: dict[str, Any]) -> str:
    """The table as CSV text; a bundled one is checked against its hash."""
    if facts["source"] != "bundled":
        return files.fetch(name).to_csv(index=False, lineterminator="\n")
    return files.published(name, name, facts["sha256"])


def _split(name: str, facts: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """The header, the train lines and the test lines of the CSV, in file order."""
    header, *lines = _text(name, facts).splitlines()
    if facts["split"] == "published":
        return header, lines[: facts["train"]], lines[facts["train"] :]
    train = [line for line in lines if not _is_test(name, line)]
    return header, train, [line for line in lines if _is_test(name, line)]


def _is_test(name: str, line: str) -> bool:
    """The hash rule: equal rows fall on the same side, and no other row matters."""
    digest = hashlib.sha256(f"marginalsyn/{name}\n{line}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64


def _frame(header: str, lines: list[str], table_schema: Schema) -> pd.DataFrame:
    """The lines as a frame with the schema's order and dtypes."""
    import pandas as pd

    from marginalsyn.table.codec import Codec

    frame = pd.read_csv(
        io.StringIO("\n".join([header, *lines])),
        keep_default_na=False,
        na_values=[""],
        float_precision="round_trip",
    )
    return Codec(table_schema).conform(frame)
