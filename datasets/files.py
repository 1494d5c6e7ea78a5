"""Bundled files: the catalogues, texts checked against their hashes, and copies for a user."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import DataError, UsageError
from marginalsyn.validation import like

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).parent


def catalogue(file: str) -> dict[str, dict[str, Any]]:
    """The facts about every table of a catalogue, in the order they are listed."""
    return json.loads((HERE / file).read_text(encoding="utf-8"))


def facts(name: str, file: str, kind: str) -> dict[str, Any]:
    """The catalogue's facts about one name, and the name itself."""
    known = catalogue(file)
    if name not in known:
        hint = like(str(name), known) or "; see: marginalsyn datasets list"
        raise UsageError(f"{kind} ({name}) must be one of {', '.join(known)}{hint}")
    return {"name": name, **known[name]}


def datasheet(name: str) -> str:
    """The Markdown page about the data, from the same folder."""
    return (HERE / name / "datasheet.md").read_text(encoding="utf-8")


def published(name: str, table: str, sha256: str) -> str:
    """A packed CSV's text, if it is the one that was published with this version."""
    path = HERE / name / f"{table}.csv.gz"
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path.name} cannot be read ({error}); install marginalsyn again"
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DataError(f"{path.name} is not the published file; install marginalsyn again")
    return data.decode("utf-8")


def write_all(
    name: str, tables: Mapping[str, str], folder: str | Path, *, force: bool
) -> list[Path]:
    """Write tables with their schema, datasheet and licence; nothing where a file is in the way.

    Args:
        name: of the data.
        tables: CSV texts by path inside the folder.
        folder: made if it is not there.
        force: overwrite files of the same names.
    """
    contents = {
        **tables,
        f"{name}.schema.json": (HERE / name / "schema.json").read_text(encoding="utf-8"),
        f"{name}.md": datasheet(name),
    }
    if (licence := HERE / name / "LICENSE").exists():
        contents[f"{name}-LICENSE"] = licence.read_text(encoding="utf-8")
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        taken = [file for file in contents if (target / file).exists()]
        if taken and not force:
            raise UsageError(
                f"folder ({target}) must not hold {taken[0]} already; choose another or add --force"
            )
        for file, text in contents.items():
            (target / file).parent.mkdir(exist_ok=True)
            (target / file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"folder ({target}) must be writable: {error.strerror}") from error
    return [target / file for file in contents]


# Our name of a table: scikit-learn's loader, and our name of the target.
LOADERS = {
    "breast-cancer": ("load_breast_cancer", "diagnosis"),
    "iris": ("load_iris", "species"),
    "diabetes": ("load_diabetes", "progression"),
    "wine": ("load_wine", "cultivar"),
    "digits": ("load_digits", "digit"),
}
# In the units they were measured in, not standardised with the mean and spread of the rows.
ARGUMENTS = {"diabetes": {"scaled": False}}
# Stored as floats, but whole numbers by definition.
WHOLE = {
    "diabetes": ["age", "sex", "s6"],
    "wine": ["magnesium", "proline"],
    "digits": [f"pixel_{row}_{column}" for row in range(8) for column in range(8)],
}


def rename(column: str) -> str:
    """``sepal length (cm)`` becomes ``sepal_length``, a ratio keeps its two names."""
    short = column.removesuffix(" (cm)").removesuffix("_of_diluted_wines")
    return short.replace(" ", "_").replace("/", "_")


def fetch(name: str) -> pd.DataFrame:
    """The whole table, features first and the target last."""
    from sklearn import datasets

    loader, label = LOADERS[name]
    bunch = getattr(datasets, loader)(as_frame=True, **ARGUMENTS.get(name, {}))
    frame = bunch.data.rename(columns=rename)
    frame = frame.astype(dict.fromkeys(WHOLE.get(name, []), "int64"))
    target = bunch.target
    if name in ("breast-cancer", "iris", "wine"):
        target = target.map(dict(enumerate(map(str, bunch.target_names))))
    elif name == "diabetes":
        target = target.astype("int64")
    frame[label] = target
    return frame
