"""The tables that scikit-learn ships, with column names fit for SQL and readable labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

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
    frame = frame.astype({column: "int64" for column in WHOLE.get(name, [])})
    target = bunch.target
    if name in ("breast-cancer", "iris", "wine"):
        target = target.map(dict(enumerate(map(str, bunch.target_names))))
    elif name == "diabetes":
        target = target.astype("int64")
    frame[label] = target
    return frame
