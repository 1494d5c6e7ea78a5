"""Does a hold-out send all equal rows the same way, or make them depend on other rows?

The passengers and crew of the Titanic: 2,201 persons in 24 kinds. A hash of the content alone drops
whole kinds from the release, and the evaluation compares with what was kept. And texts that are
equal as numbers, "1" and "1.0", are categories of their own: where they are numbered together, one
row more changes which of the others are held out.

    python -m benchmarks.attacks.equal_rows
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema

SHARE = 0.2
SALTS = 5
# Dawson (1995): class, sex and age, with the numbers of those who died and who survived.
COUNTS = [
    ("1st", "male", "child", 0, 5),
    ("1st", "male", "adult", 118, 57),
    ("1st", "female", "child", 0, 1),
    ("1st", "female", "adult", 4, 140),
    ("2nd", "male", "child", 0, 11),
    ("2nd", "male", "adult", 154, 14),
    ("2nd", "female", "child", 0, 13),
    ("2nd", "female", "adult", 13, 80),
    ("3rd", "male", "child", 35, 13),
    ("3rd", "male", "adult", 387, 75),
    ("3rd", "female", "child", 17, 14),
    ("3rd", "female", "adult", 89, 76),
    ("crew", "male", "adult", 670, 192),
    ("crew", "female", "adult", 3, 20),
]


def titanic() -> pd.DataFrame:
    """One row a person."""
    rows = [
        (*kind, survived)
        for *kind, died, lived in COUNTS
        for survived, count in (("no", died), ("yes", lived))
        for _ in range(count)
    ]
    return pd.DataFrame(rows, columns=["class", "sex", "age", "survived"])


def described(frame: pd.DataFrame) -> Schema:
    """The schema of a frame of texts."""
    return Schema(
        columns=[CategoricalColumn(name=n, categories=tuple(sorted(set(frame[n])))) for n in frame]
    )


def kept(frame: pd.DataFrame, schema: Schema, salt: str) -> np.ndarray:
    """How many rows of each kind visits see."""
    table = PrivateTable.open(frame, schema, holdout=SHARE, holdout_salt=salt)
    return table.unprotected("count the rows that are kept").counts(schema.names)


def attack() -> str | None:
    """What was found, or None."""
    people = titanic()
    schema = described(people)
    whole = PrivateTable.open(people, schema).unprotected("count all rows").counts(schema.names)
    for salt in map(str, range(SALTS)):
        seen = kept(people, schema, salt)
        off = np.abs(seen - (1 - SHARE) * whole) - 8 * np.sqrt(SHARE * (1 - SHARE) * whole)
        if off.max() > 0:
            worst = np.unravel_index(off.argmax(), off.shape)
            kind = ", ".join(
                column.labels()[code] for column, code in zip(schema.columns, worst, strict=True)
            )
            return f"of {whole[worst]} rows ({kind}), {seen[worst]} are kept with the salt {salt}"
    # One row more, of every spelling of one number.
    spelt = pd.DataFrame({"a": [text for text in ("1", "1.0", "01", "1e0") for _ in range(40)]})
    schema = described(spelt)
    for salt in map(str, range(SALTS)):
        before = kept(spelt, schema, salt)
        for text in schema.column("a").labels():
            more = pd.concat([pd.DataFrame({"a": [text]}), spelt], ignore_index=True)
            moved = int(np.abs(kept(more, schema, salt) - before).sum())
            if moved > 1:
                return f"one row more ({text}) changes which of the others are kept: by {moved}"
    return None


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'nothing found'}\n")
    sys.exit(found is not None)
