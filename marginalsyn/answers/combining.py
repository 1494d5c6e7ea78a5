"""Combining what any code computed on many tables into one estimate with an honest interval.

With B the variance between tables and V their mean own variance, (1 + 1/m) B - V estimates the
variance of the release's estimate (Raghunathan, Reiter and Rubin 2003). A release's model carries
the bias that its constraints make once, and models of its replays carry it twice: how far these lie
from that estimates the bias. But constraints shrink noise, too, once more in replays: in small
tables they vary less than the estimate without bias does, and the bias is uncertain. So half of it
is taken away, all of it counts as an error, and what tables vary by is widened.

What the release did not measure does not vary between the tables' models: the rule would give it a
narrow interval around a wrong value. Where the tables vary less than the private table's own
sampling, that shows. Else the release must be asked whether it measured what a term is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student

from marginalsyn.answers.answering import check
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.imputations import FITTED, Index, hash_of
from marginalsyn.answers.limits import merged_columns, unanswered
from marginalsyn.answers.quantities import read_columns
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.subgroups import table_of
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release.folder import Release

_ERRORS = ("se", "std_error", "std.error", "std_err")
# Tables show that a term was not measured if, but for such a chance, they vary by less than this
# share of what sampling alone would make them vary.
_CHANCE, _TOO_LITTLE = 0.05, 0.5
# By so much tables may vary too little, as a standard deviation: see benchmarks/coverage.py.
_WIDER = 1.2


def combine(
    results: pd.DataFrame,
    tables: str | Path,
    *,
    release: Release | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """One estimate and interval for every term.

    Args:
        results: one row for each table and term: ``table`` (the file's name), ``estimate``, and
            ``variance`` or a standard error (``se`` or ``std_error``); ``term`` where there is
            more than one. The standard error is what the code printed. ``about`` says what a term
            rests on: a formula, such as ``"income ~ age * sex"``, or columns, ``"age, sex"``.
        tables: the folder that ``marginalsyn sample --imputations`` filled.
        release: the release that the tables are from: whether it measured what a term is about.
        confidence: of each interval.

    Returns:
        For every term its estimate, interval, standard error, degrees of freedom, and a note. What
        was not measured has NaN for its estimate and interval.

    Raises:
        UsageError: a table is missing, unknown, or has no model of its own.
    """
    check("population", confidence, 0)
    index, frame = Index.read(Path(tables)), _checked(results)
    unknown = sorted({*frame["table"]} - {*index.models})
    if unknown:
        raise UsageError(
            f"table ({', '.join(unknown[:3])}) must be among the tables that {tables} lists: only "
            "they are known to be drawn each from a model of its own"
        )
    import pandas as pd

    evidence = None if release is None else Evidence.of(release)
    if evidence is not None and hash_of(evidence) != index.models[FITTED]:
        raise UsageError(
            f"release ({release.path.name}) must be the one that the tables of {tables} were drawn "  # type: ignore[union-attr]
            "from: their models differ"
        )
    found = []
    for term, own in frame.groupby("term", sort=False):
        own = own.set_index("table")
        missing = [name for name in index.models if name not in own.index]
        if missing or not own.index.is_unique:
            raise UsageError(
                f"term ({term}) must have one row for each table; "
                + (f"it has none for {missing[0]}" if missing else "it has two for one")
            )
        found.append({"term": term, **rule(own, index, confidence)})
        refused, note = _judge(own, index, evidence)
        if refused:
            found[-1].update(dict.fromkeys(("estimate", "low", "high"), float("nan")), note=note)
        elif note:
            found[-1]["note"] = f"{found[-1]['note']}; {note}".removeprefix("; ")
    return pd.DataFrame(found)


def rule(results: pd.DataFrame, index: Index, confidence: float) -> dict[str, object]:
    """The combining rule for one term."""
    every = results.loc[index.imputations]
    m = len(every)
    between = float(every["estimate"].var(ddof=1)) * (1 + 1 / m)
    within = float(every["variance"].mean())
    fitted = float(results["estimate"].to_dict()[FITTED])
    shift = fitted - float(every["estimate"].mean())
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
    variance = _WIDER**2 * variance + shift**2
    centre = fitted + shift / 2
    half = float(student.ppf(0.5 + confidence / 2, degrees)) * variance**0.5
    return {
        "estimate": centre,
        "low": centre - half,
        "high": centre + half,
        "se": variance**0.5,
        "df": degrees,
        "note": note,
    }


def _judge(own: pd.DataFrame, index: Index, evidence: Evidence | None) -> tuple[bool, str]:
    """Whether a term gets no interval, and the note on it."""
    every, about = own.loc[index.imputations], str(own["about"].iloc[0])
    m, within = len(every), float(every["variance"].mean())
    most = float(every["estimate"].var(ddof=1)) * (m - 1) / float(chi2.ppf(_CHANCE, m - 1))
    sampling = within * index.rows / index.private_rows
    if index.target == "population" and (1 + 1 / m) * most - within < _TOO_LITTLE * sampling:
        return True, (
            "not measured by this release: the tables vary less than the sampling of the private "
            "table would make them if it had been"
        )
    if evidence is None or not about:
        return False, (
            "combine cannot know whether the release measured what this rests on, and does not "
            "hold where it did not: name the release with --release, and give the results a "
            'column about: the formula of the model, such as "y ~ a * b", or the columns, "a, b"'
        )
    schema = evidence.schema
    question = (
        Regression(about, schema)
        if "~" in about
        else table_of(read_columns(schema, about, "about"), schema, "share")
    )
    problem = Problem(evidence, question, index.target, np.random.default_rng(0))
    if not problem.answered.all():
        return True, unanswered(problem)[int(np.argmin(problem.measured_share))]
    parts = []
    if problem.widened.any():
        parts.append("it rests in part on what was not measured")
    if merged := merged_columns(problem):
        parts.append(f"values of {', '.join(merged)} were measured as one")
    said = "; ".join(parts)
    return False, said and f"{said}: combine's interval holds less often than it says, ask estimate"


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
    named = ["estimate", "variance" if "variance" in frame else error]
    out = (
        frame[named]
        .apply(pd.to_numeric, errors="coerce")
        .set_axis(["estimate", "variance"], axis=1)
    )
    if "variance" not in frame:
        out["variance"] **= 2
    out["table"] = [Path(str(name)).name for name in frame["table"]]
    out["about"] = frame["about"].fillna("").astype(str) if "about" in frame else ""
    out["term"] = frame["term"].astype(str) if "term" in frame else "estimate"
    wrong = ~np.isfinite(out[["estimate", "variance"]].to_numpy(float)).all(axis=1)
    wrong |= out["variance"].to_numpy(float) < 0
    if wrong.any():
        raise UsageError(
            f"results (row {int(np.argmax(wrong)) + 2}) must hold finite numbers, and a variance "
            "of zero or more"
        )
    return out
