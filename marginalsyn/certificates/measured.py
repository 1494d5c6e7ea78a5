"""The measured certificate: how much worse one linear model is than the best, on the real rows.

A release holds any number of them, each bought on its own, in one file with all that its bounds
can be computed from again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.visit import Visit
from marginalsyn.certificates.certifying import (
    CONFIDENCE,
    MOMENT_CERTIFICATE,
    MOMENTS,
    agree,
    buy,
    check_origin,
    to_file,
    weights_digest,
)
from marginalsyn.certificates.excess_plan import PURPOSE, SLACK, MeasuredPlan, Model
from marginalsyn.certificates.least_loss import Chunk, Objective, minimise
from marginalsyn.certificates.linear_models import Measure, Problem
from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import covers
from marginalsyn.privacy.noise import Noise
from marginalsyn.progress import Progress, Silent
from marginalsyn.records.resume import RunRecorder
from marginalsyn.registry import needed_part
from marginalsyn.release.folder import Release, check_folder
from marginalsyn.release.linked import TableRelease, is_linked_release
from marginalsyn.release.staging import as_written
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema

MEASURED = "measured.json"
RIDGE = 0.001


def certify_measured(
    table: PrivateTable,
    release: Release,
    budget: Budget,
    *,
    noise: Noise,
    label: str | None = None,
    ridge: float = RIDGE,
    within: float | None = None,
    free_intercept: bool = False,
    weights: str | None = None,
    progress: Progress | None = None,
    recorder: RunRecorder | None = None,
) -> Release:
    """Charge, measure the excess of the model that the release gives, and certify it.

    Args:
        table: the rows that the release was made from.
        release: gets the certificate in ``measured.json``, after any that are there.
        budget: of the certificate, on top of what was spent.
        noise: protects the rows.
        label: the column that the model predicts; the schema's when not given.
        ridge: ridge / 2 times the squared coefficients is added to the mean loss.
        within: compare only with models whose predictions (log-odds, or numbers in units of half
            the label's range) are this close to its own on every row that the schema allows.
        free_intercept: do not penalise the constant; needs ``within``.
        weights: fit the model to the rows with this column of weights.
        progress: reports what happens.
        recorder: keeps what was paid for until the certificate is written.

    Returns:
        The amended release.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> release, table = Release.read("release"), PrivateTable.open(frame, schema)
        >>> done = certify_measured(table, release, Budget(eps=0.1), noise=make_noise())
        >>> read_measured(done)[-1]["loss"]
        'log loss'
    """
    check_origin(table, release, budget)
    earlier = read_measured(release)
    model = fitted(
        release, label=label, ridge=ridge, within=within, free=free_intercept, weights=weights
    )
    plan = MeasuredPlan(model, budget.neighbours, budget.gaussian)

    def measure(visit: Visit) -> tuple[int, int]:
        steps, rows = plan.measure(visit, progress or Silent())
        return steps, visit.rows if rows is None else rows

    def files(answers: tuple[int, int]) -> dict[str, bytes]:
        entry = describe(release, plan, *answers, weights)
        facts = {"version": 1, "meaning": _MEANING, "certificates": [*earlier, entry]}
        return {MEASURED: to_file(facts)}

    return buy(
        table,
        release,
        budget,
        plan.cost(budget),
        measure=measure,
        files=files,
        facts={
            "measured": True,
            "label": model.problem.frame.label,
            "weights": _digest(release, weights) if weights else "",
            "model": [ridge, within, free_intercept],
        },
        noise=noise,
        recorder=recorder,
    )


def fitted(
    release: Release,
    *,
    label: str | None = None,
    ridge: float = RIDGE,
    within: float | None = None,
    free: bool = False,
    weights: str | None = None,
) -> Model:
    """The model that has the least loss, ridge included, on the synthetic rows."""
    if not (math.isfinite(ridge) and 1e-9 <= ridge <= 1e3):
        raise UsageError(
            f"ridge ({ridge}) must be a number from 1e-9 to 1000, such as {RIDGE}; for hardly any, "
            "give 1e-9 together with --within"
        )
    if within is not None and not 0.01 <= within <= 50:
        raise UsageError(f"within ({within}) must be a number from 0.01 to 50, such as 5")
    if free and within is None:
        raise UsageError(
            "free_intercept (True) must come with --within, such as 5: without a "
            "penalty only that bounds what one person changes"
        )
    problem = Problem.of(release.schema, label)
    blank = Model(problem, np.zeros(problem.width), rows_of(release), ridge, within, free)
    return replace(blank, coefficients=_fit(release, blank, weights))


def _fit(release: Release, model: Model, weights: str | None) -> np.ndarray:
    """The coefficients with the least loss on the synthetic rows, scaled up to the private ones."""
    table = CodedRows.of(release.frame(), release.schema)
    if weights is not None:
        columns = release.weights()
        if columns is None or weights not in columns:
            raise UsageError(f"weights ({weights}) must be a column of weights of the release")
        table = table.weigh(np.asarray(columns[weights], dtype=np.float64))
    y, has = model.problem.labels(table.units)
    masses = table.masses[has]
    masses = masses * (model.rows / max(float(masses.sum()), 1e-300))
    chunk = Chunk(model.problem.integers(table.units[has]), y[has].astype(float), masses)
    penalties = model.penalties
    if model.free:
        # Enough for a model to exist where all rows have one label.
        penalties[-1] = 1e-6 * model.strength
    objective = Objective(model.problem, [chunk], np.zeros(model.problem.width), penalties)
    return minimise(objective, Measure(float(penalties.min())), SLACK).step


def rows_of(release: Release) -> int:
    """The number of private rows as far as it is public: from noisy marginals, or as released."""
    measured = release.measurements()
    rows = estimate_total(measured)[0] if measured else float(len(release.frame()))
    return max(round(rows), 1)


def describe(
    release: Release, plan: MeasuredPlan, steps: int, rows: int, weights: str | None
) -> dict[str, Any]:
    """One certificate, with all that it can be computed from again."""
    model = plan.model
    frame = model.problem.frame
    squared = model.problem.squared
    column = release.schema.column(frame.label)
    return plain(
        {
            "of": weights or "rows",
            "sha256": _digest(release, weights),
            "label": frame.label,
            "positive": None if squared else column.labels()[frame.positive],
            "loss": "squared error" if squared else "log loss",
            "ridge": model.ridge,
            "ridge_rows": model.rows,
            "within": model.within,
            "free_intercept": model.free,
            "coefficients": dict(
                zip(frame.names, (model.coefficients / frame.norm).tolist(), strict=True)
            ),
            "norm": frame.norm,
            "confidence": CONFIDENCE,
            "rho": plan.rho,
            "answer": steps,
            "answer_sigma": plan.sigma,
            "rows": rows,
            "rows_sigma": plan.rows_sigma,
            "no_information_from": model.vacuous,
            **plan.bounds(steps, rows),
        }
    )


def read_measured(release: Release) -> list[dict[str, Any]]:
    """The measured certificates of a release, unchecked; none if it has none."""
    if MEASURED not in release.statement.files:
        return []
    with as_written(f"{MEASURED}, a list of certificates,"):
        return [dict(entry) for entry in release._json(MEASURED)["certificates"]]


def measured_problems(release: Release) -> list[str]:
    """What is wrong with the measured certificates, found by computing them again."""
    entries = read_measured(release)
    found, rho = [], 0.0
    for number, entry in enumerate(entries, 1):
        with as_written(f"{MEASURED}, certificate {number},"):
            rho += float(entry["rho"])
            found += [f"{MEASURED}, certificate {number}: {p}" for p in _wrong(release, entry)]
    paid = sum(c.rho or 0.0 for c in release.statement.charges if c.purpose == PURPOSE)
    if not covers(paid, rho):
        found.append(f"charges (rho {paid:.6g}) must cover what {MEASURED} cost (rho {rho:.6g})")
    return found


def _wrong(release: Release, entry: Mapping[str, Any]) -> list[str]:
    """The problems of one certificate: its bounds, its noise, and whose coefficients it is of."""
    model = model_of(release.schema, entry)
    plan = MeasuredPlan(model, release.statement.neighbours, float(entry["rho"]))
    weights = None if entry["of"] == "rows" else str(entry["of"])
    fresh = describe(release, plan, int(entry["answer"]), int(entry["rows"]), weights)
    digest = fresh.pop("sha256")
    found = [
        f"{key} must be {fresh[key]!r}" for key in fresh if not agree(fresh[key], entry.get(key))
    ]
    if digest == entry["sha256"] and not found:
        again = _fit(release, model, weights)
        if np.abs(again - model.coefficients).max() > 1e-3 * (1 + np.abs(again).max()):
            found.append(f"coefficients must be those that '{entry['of']}' give")
    return found


def model_of(schema: Schema, entry: Mapping[str, Any]) -> Model:
    """The model that a certificate is about."""
    problem = Problem.of(schema, str(entry["label"]))
    frame, stored = problem.frame, entry["coefficients"]
    if list(stored) != frame.names:
        raise ValueError("coefficients must be those of the schema's features")
    within = entry["within"]
    model = Model(
        problem,
        np.array([float(stored[name]) for name in frame.names]) * frame.norm,
        int(entry["ridge_rows"]),
        float(entry["ridge"]),
        None if within is None else float(within),
        bool(entry["free_intercept"]),
    )
    sound = np.isfinite(model.coefficients).all() and model.rows > 0 and model.ridge > 0
    if not sound or (model.within is not None and not model.within > 0):
        raise ValueError("coefficients, ridge and within must be finite, and the latter positive")
    return model


def _digest(release: Release, weights: str | None) -> str:
    """Of the rows, or of a column of weights; empty where it is gone."""
    if weights is None:
        return release.statement.files[release.frame_file]
    columns = release.weights()
    if columns is None or weights not in columns:
        return ""
    return weights_digest(columns[weights])


_MEANING = (
    "Each certificate is about the linear model with the given coefficients, of features that are "
    "numbers scaled by the schema's bounds to [-1, 1] in steps of 1/1024, two values as -1 and 1, "
    "more values one-hot, missing numbers as 0 with an indicator, and a constant 1. Its objective "
    "on the real rows is the mean loss plus ridge * ridge_rows / (2 * rows) times norm^2 times the "
    "squared coefficients (without the constant's, where the intercept is free). That exceeds the "
    "least objective of all models - where 'within' is given, of all whose predictions differ by "
    "at most that from its own on every row that the schema allows - by at most 'upper', with the "
    "confidence stated; with the same confidence by at least 'lower'. 'upper_over_all' is the "
    "bound against all models that then follows. Nothing there means no information. Predictions "
    "are log-odds, or numbers in units of half the label's range; losses are log losses, or "
    "squared errors in the label's own units. The bounds are about the real rows that the release "
    "was made from, and say nothing of other rows."
)


def verify(path: str | Path) -> list[str]:
    """Check a release: hashes, files, the statement, rows against the schema, weights.

    The charges are added up again, and what the statement says of its guarantee, noise and versions
    is derived again from the laws and libraries that it records.

    Args:
        path: the release folder.

    Returns:
        What is wrong, one line each; an empty list when nothing is. That the noise was seeded or
        the schema drafted from data is no fault of the folder: ``statement.warnings`` says so.

    Example:
        >>> verify("release")
        []
    """
    return examine(path)[0]


def examine(path: str | Path) -> tuple[list[str], list[str]]:
    """The same, and the files that say in other words what is promised, where nothing is wrong."""
    try:
        with as_written(f"release ({path})"):
            found, changed = check_folder(path)
            if found:
                return found, changed
            release = (TableRelease if is_linked_release(path) else Release).read(path)
            if MOMENTS in release.statement.files:
                moments = needed_part(MOMENT_CERTIFICATE, f"the check of {MOMENTS}")
                found = moments.problems(release)
            return found + measured_problems(release), changed
    except MarginalsynError as error:
        return [str(error)], []
