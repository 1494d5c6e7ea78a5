"""Many tables for any code: each of a model of its own, and one of the release's model.

Tables of one model vary too little to tell how sure the model is. Here each comes from the model of
a replay of the release; the file ``imputations.json`` says so, and :func:`combine` asks for it.

What any code computed on all of them becomes one estimate with an honest interval. With B the
variance between tables and V their mean own variance, (1 + 1/m) B - V estimates the variance of the
release's estimate (Raghunathan, Reiter and Rubin 2003). A release's model carries the bias that its
constraints make once, and models of its replays carry it twice: how far these lie from that
estimates the bias. But constraints shrink noise, too, once more in replays: in small tables they
vary less than the estimate without bias does, and the bias is uncertain. So half of it is taken
away, all of it counts as an error, and what tables vary by is widened.

What the release did not measure does not vary between the tables' models: the rule would give it a
narrow interval around a wrong value. Where the tables vary less than the private table's own
sampling, that shows. Else the release must be asked whether it measured what a term is about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2
from scipy.stats import t as student

from marginalsyn.answers.answering import check
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.answers.limits import merged_columns, unanswered
from marginalsyn.answers.quantities import read_columns
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.subgroups import table_of
from marginalsyn.errors import DataError, UsageError
from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.graphical.soft_rows import SoftTable
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import staged
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import write_csv
from marginalsyn.table.keeping import with_followers
from marginalsyn.table.unit import draw_rows

INDEX = "imputations.json"
FITTED = "fitted.csv"
# The combining rule subtracts the tables' own sampling, which must be a small part.
TIMES = 5
_FORMAT = 1
_ERRORS = ("se", "std_error", "std.error", "std_err")
# Tables show that a term was not measured if, but for such a chance, they vary by less than this
# share of what sampling alone would make them vary.
_CHANCE, _TOO_LITTLE = 0.05, 0.5
# By so much tables may vary too little, as a standard deviation: see benchmarks/coverage.py.
_WIDER = 1.2


@dataclass(frozen=True)
class Index:
    """The index of a folder of tables, ``imputations.json``.

    Attributes:
        models: for each file the hash of the model that it was drawn from.
        target: what the tables stand for.
        rows: rows of each imputation.
        private_rows: the estimated number of private rows.
    """

    models: dict[str, str]
    target: Target
    rows: int
    private_rows: int

    @property
    def imputations(self) -> list[str]:
        """The files that were drawn from models of their own."""
        return [name for name in self.models if name != FITTED]

    @classmethod
    def read(cls, folder: Path) -> Index:
        """Read the file in a folder of tables.

        Raises:
            UsageError: there is none, so that nothing says that each table has a model of its own.
        """
        path = folder / INDEX
        try:
            stored: Any = json.loads(path.read_text(encoding="utf-8"))
            models = {str(t["file"]): str(t["model"]) for t in stored["tables"]}
            found = cls(models, stored["target"], int(stored["rows"]), int(stored["private_rows"]))
        except FileNotFoundError:
            raise UsageError(
                f"folder ({folder}) must hold {INDEX}: tables that were drawn from one model "
                "cannot be combined, since they do not vary as releases do; draw them with "
                "`marginalsyn sample RELEASE --imputations 20 --out FOLDER`, and name that folder "
                "with --tables"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"file ({path}) must be as `marginalsyn sample` wrote it: {error}"
            ) from None
        if len({found.models[name] for name in found.imputations}) < len(found.imputations):
            raise UsageError(
                f"tables ({folder}) must each be drawn from a model of its own: two share one"
            )
        return found


def impute(
    release: Release,
    folder: str | Path,
    *,
    tables: int = 20,
    rows: int | None = None,
    target: Target = "population",
    seed: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Fill a folder with tables, each of its own replay, and one of the release's model.

    Args:
        release: made from noisy marginals.
        folder: a new one; it is written whole or not at all.
        tables: how many, 5 or more.
        rows: of each; by default five times the estimated number of private rows, and no fewer.
        target: ``population`` or ``table``; what intervals from them will be for.
        seed: of the draws; safe, as nothing private is drawn.
        force: replace a folder of earlier imputations.
        progress: reports how far it is.
    """
    folder = Path(folder)
    if folder.exists() and not (force and (folder / INDEX).is_file()):
        raise UsageError(
            f"folder ({folder}) is there already: if it holds imputations replace it with --force, "
            "else choose another name with --out"
        )
    check(target, 0.95, 0)
    if not 5 <= tables <= 1000:
        raise UsageError(f"imputations ({tables}) must be 5 to 1,000; 20 do")
    evidence, rng = Evidence.of(release), np.random.default_rng(seed)
    private = max(1, round(evidence.table_rows))
    least = TIMES * private
    count = least if rows is None else rows
    if count < least:
        raise UsageError(
            f"rows ({count}) of imputations must be {least} or more, {TIMES} times the private "
            "table's: with fewer, their own sampling hides how sure the release is"
        )
    report = progress or Silent()
    models = {}
    with staged(folder, replace=force) as stage:
        drawn = _draws(evidence, tables, count, target, rng)
        for number, (name, frame, model) in enumerate(drawn):
            report.report("draw", fraction=number / (tables + 1), text=name)
            with (stage / name).open("wb") as handle:
                write_csv(frame, handle)
            models[name] = model
        facts = {
            "format": _FORMAT,
            "about": "Each table but the fitted one was drawn from a model of its own; combine "
            "results with `marginalsyn combine`, not as tables of one model.",
            "target": target,
            "rows": count,
            "private_rows": private,
            "tables": [{"file": name, "model": model} for name, model in models.items()],
        }
        text = json.dumps(facts, indent=1) + "\n"
        (stage / INDEX).write_text(text, encoding="utf-8")
    return Index(models, target, count, private)


def _draws(
    evidence: Evidence, tables: int, rows: int, target: Target, rng: np.random.Generator
) -> Iterator[tuple[str, pd.DataFrame, str]]:
    width = len(str(tables))
    yield FITTED, _frame(evidence, rows, rng, even=True), hash_of(evidence)
    for number in range(1, tables + 1):
        again = evidence.replay(target, rng)
        name = f"imputation-{number:0{width}d}.csv"
        yield name, _frame(again, rows, rng, even=False), hash_of(again)


def _frame(evidence: Evidence, rows: int, rng: np.random.Generator, *, even: bool) -> pd.DataFrame:
    """Rows of a model: spread as evenly as whole numbers allow, or each on its own."""
    draw = evidence.fitted.rows if even else evidence.fitted.sample

    def codes(n: int) -> np.ndarray:
        return evidence.compression.refine(draw(n, rng), rng)

    schema, own = evidence.schema, evidence.schema.without(evidence.followers)

    def frame(n: int) -> pd.DataFrame:
        found = Codec(own).decode(draw_possible(own, n, codes, rng), rng)
        return with_followers(found, schema, evidence.followers)

    if evidence.counted is None or schema.unit is None:
        return frame(rows)
    # Of persons a table holds all rows: each is met as often as its person has rows.
    return draw_rows(frame, schema.unit, rows, rng)


def hash_of(evidence: Evidence) -> str:
    """A hash of a release's model."""
    digest = hashlib.sha256()
    fitted = evidence.fitted
    arrays = fitted.probabilities if isinstance(fitted, SoftTable) else fitted.arrays()[0]
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


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
