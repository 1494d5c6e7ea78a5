"""Public tables that hang together, with their schema and a datasheet: persons with several rows.

Two are bundled: ``flights`` (planes and their flights) and ``pbc`` (patients and their visits)::

    from marginalsyn.datasets import linked

    pbc = linked.load("pbc")
    pbc.tables["visits"], pbc.tree
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.people import LinkedSchema

__all__ = ["LinkedDataset", "datasheet", "describe", "export", "load", "names", "schema"]

HERE = Path(__file__).parent


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
    return list(_catalogue())


def describe(name: str) -> dict[str, Any]:
    """The facts about linked tables, without reading them: JSON values only.

    Example:
        >>> from marginalsyn.datasets import linked
        >>> linked.describe("pbc")["tables"]["visits"]["rows"]
        1945
    """
    catalogue = _catalogue()
    if name not in catalogue:
        close = difflib.get_close_matches(str(name), catalogue, n=1)
        hint = f"did you mean {close[0]}?" if close else "see: marginalsyn datasets list"
        raise UsageError(f"linked tables ({name}) must be one of {', '.join(catalogue)}; {hint}")
    return {"name": name, **catalogue[name]}


def datasheet(name: str) -> str:
    """The datasheet, Markdown: source, credit, licence, changes, code book."""
    describe(name)
    return (HERE / name / "datasheet.md").read_text(encoding="utf-8")


def schema(name: str) -> LinkedSchema:
    """Public columns, keys and links, never data minima."""
    from marginalsyn.people import LinkedSchema

    describe(name)
    return LinkedSchema.read(HERE / name / "schema.json")


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
    contents = {f"{name}/{table}.csv": text for table, text in texts.items()}
    contents[f"{name}.schema.json"] = (HERE / name / "schema.json").read_text(encoding="utf-8")
    contents[f"{name}.md"] = datasheet(name)
    if (licence := HERE / name / "LICENSE").exists():
        contents[f"{name}-LICENSE"] = licence.read_text(encoding="utf-8")
    target = Path(folder)
    taken = [file for file in contents if (target / file).exists()]
    if taken and not force:
        raise UsageError(
            f"folder ({target}) must not hold {taken[0]} already; choose another or add --force"
        )
    try:
        (target / name).mkdir(parents=True, exist_ok=True)
        for file, text in contents.items():
            (target / file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"folder ({target}) must be writable: {error.strerror}") from error
    return [target / file for file in contents]


def _catalogue() -> dict[str, dict[str, Any]]:
    return json.loads((HERE / "linked.json").read_text(encoding="utf-8"))


def _texts(name: str, facts: dict[str, Any]) -> dict[str, str]:
    """The tables as CSV texts, checked against their hashes."""
    found = {}
    for table, told in facts["tables"].items():
        path = HERE / name / f"{table}.csv.gz"
        try:
            data = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{path.name} cannot be read ({error}); install marginalsyn anew"
            ) from error
        if hashlib.sha256(data).hexdigest() != told["sha256"]:
            raise DataError(f"{path.name} is not the published file; install marginalsyn anew")
        found[table] = data.decode("utf-8")
    return found
