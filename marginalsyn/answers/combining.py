"""Combining what any code computed on many tables into one estimate with an honest interval.

With B the variance between tables and V their mean own variance, (1 + 1/m) B - V estimates the
variance of the release's estimate (Raghunathan, Reiter and Rubin 2003). A release's model carries
the bias that its constraints make once, and models of its replays carry it twice: twice the
estimate of the release's model less their mean is free of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from marginalsyn.answers.imputations import FITTED, Index
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_ERRORS = ("se", "std_error", "std.error", "std_err")


def combine(results: pd.DataFrame, tables: str | Path, *, confidence: float = 0.95) -> pd.DataFrame:
    """One estimate and interval for every term.

    Args:
        results: one row for each table and term: ``table`` (the file's name), ``estimate``, and
            ``variance`` or a standard error (``se`` or ``std_error``); ``term`` where there is
            more than one. The standard error is what the code printed.
        tables: the folder that ``marginalsyn sample --imputations`` filled.
        confidence: of each interval.

    Returns:
        For every term its estimate, interval, standard error, degrees of freedom, and a note.

    Raises:
        UsageError: a table is missing, unknown, or has no model of its own.
    """
    if not 0.5 <= confidence <= 0.9999:
        raise UsageError(f"confidence ({confidence:g}) must be from 0.5 to 0.9999, such as 0.95")
    index, frame = Index.read(Path(tables)), _checked(results)
    unknown = sorted({*frame["table"]} - {*index.models})
    if unknown:
        raise UsageError(
            f"table ({', '.join(unknown[:3])}) must be one of those that {tables} lists: only they "
            "are known to be drawn each from a model of its own"
        )
    import pandas as pd

    found = []
    for term, own in frame.groupby("term", sort=False):
        held = own.set_index("table")
        missing = [name for name in index.models if name not in held.index]
        if missing or not held.index.is_unique:
            raise UsageError(
                f"term ({term}) must have one row for each table; "
                + (f"it has none for {missing[0]}" if missing else "it has two for one")
            )
        found.append({"term": term, **_rule(held, index, confidence)})
    return pd.DataFrame(found)


def _rule(held: pd.DataFrame, index: Index, confidence: float) -> dict[str, object]:
    """The combining rule for one term."""
    every = held.loc[index.imputations]
    m = len(every)
    between = float(every["estimate"].var(ddof=1)) * (1 + 1 / m)
    within = float(every["variance"].mean())
    fitted = float(held["estimate"].to_dict()[FITTED])
    centre = 2 * fitted - float(every["estimate"].mean())
    variance, note = between - within, ""
    degrees = (m - 1) * (1 - within / between) ** 2 if between > 0 else 0.0
    if variance <= 0.05 * between or degrees < 2:
        variance = max(variance, 0.05 * between)
        if index.target == "population":
            variance = max(variance, within * index.rows / index.private_rows)
        degrees = float(m - 1)
        note = (
            "the tables vary hardly more than their own sampling: draw more of them, with more rows"
        )
    half = float(student.ppf(0.5 + confidence / 2, degrees)) * variance**0.5
    return {
        "estimate": centre,
        "low": centre - half,
        "high": centre + half,
        "se": variance**0.5,
        "df": degrees,
        "note": note,
    }


def _checked(results: pd.DataFrame) -> pd.DataFrame:
    """The results with the columns that are needed, as numbers."""
    import pandas as pd

    frame = results.rename(columns={str(c): str(c).strip().lower() for c in results.columns})
    error = next((name for name in _ERRORS if name in frame), None)
    if "table" not in frame or "estimate" not in frame or not (error or "variance" in frame):
        raise UsageError(
            f"results ({', '.join(map(str, results.columns))}) must have the columns table, "
            "estimate, and variance or se"
        )
    numbers = {"estimate": pd.to_numeric(frame["estimate"], errors="coerce")}
    if "variance" in frame:
        numbers["variance"] = pd.to_numeric(frame["variance"], errors="coerce")
    else:
        numbers["variance"] = pd.to_numeric(frame[error], errors="coerce") ** 2
    out = pd.DataFrame(numbers)
    out["table"] = [Path(str(name)).name for name in frame["table"]]
    out["term"] = frame["term"].astype(str) if "term" in frame else "estimate"
    wrong = ~np.isfinite(out[["estimate", "variance"]].to_numpy(float)).all(axis=1)
    wrong |= out["variance"].to_numpy(float) < 0
    if wrong.any():
        raise UsageError(
            f"results (row {int(np.argmax(wrong)) + 2}) must hold finite numbers, and a variance "
            "of zero or more"
        )
    return out
