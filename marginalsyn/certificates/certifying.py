"""Certificates as they are bought and checked: what all kinds of them share."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.visit import Visit
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import Noise
from marginalsyn.records.resume import RunRecorder
from marginalsyn.release.folder import Release, preflight
from marginalsyn.sources.holdout import check_split

CONFIDENCE = 0.95
# The file of the certificate from noisy moments, and the name of the plugin that makes it.
MOMENTS = "certificate.json"
MOMENT_CERTIFICATE = "moment-certificate"
# A model without coefficients has a log loss of ln 2, and no loss is negative: an excess of ln 2 is
# no news.
VACUOUS = math.log(2)

Answer = TypeVar("Answer")


def buy(
    table: PrivateTable,
    release: Release,
    budget: Budget,
    charge: Charge,
    *,
    measure: Callable[[Visit], Answer],
    files: Callable[[Answer], Mapping[str, bytes]],
    facts: Mapping[str, Any],
    noise: Noise,
    recorder: RunRecorder | None,
    notes: Mapping[str, Any] | None = None,
    persons: bool = False,
) -> Release:
    """Charge, measure, and write a certificate into a release; return it amended.

    ``measure`` asks a paid visit, and ``files`` makes the certificate's files of its noisy answers.
    The budget is on top of what was spent, ``facts`` are public ones of the run, the same when it
    goes on, and ``notes`` are for the statement. With ``persons`` the sums may count several rows
    of a person.
    """
    statement = release.statement
    if statement.survey is not None:
        raise UsageError(
            "a certificate must be of a release whose rows count alike: this one counted survey "
            "weights. Nothing was charged"
        )
    # What would be refused afterwards is refused before anything is spent.
    compose([*statement.charges, charge], statement.target_delta, statement.neighbours)
    preflight(release.path, force=True)
    if recorder is not None:
        rows = statement.files[release.frame_file]
        recorder.describe(**facts, eps=budget.eps, delta=budget.delta, rows=rows)
    with table.paid_visit(
        [charge], noise=noise, delta=budget.delta, run="certify", recorder=recorder, persons=persons
    ) as visit:
        answer = measure(visit)
    return release.amend(
        files(answer),
        charges=[charge],
        payments=visit.payments,
        samplers=visit.samplers,
        libraries=visit.libraries,
        notes=notes,
        noise=noise,
    )


def check_origin(table: PrivateTable, release: Release, budget: Budget) -> None:
    """Refuse a table that the release cannot be of, and a budget for other neighbours."""
    schema, statement = release.schema, release.statement
    # With at most one row each, persons have no column of their own that would tell.
    if (table.schema.columns, table.schema.unit) != (schema.columns, schema.unit):
        raise UsageError("schema of the table must be that of the release, with its unit")
    check_split(table, statement)
    if budget.neighbours is not statement.neighbours:
        raise UsageError(
            f"neighbours ({budget.neighbours}) must be those of the release, {statement.neighbours}"
        )


def weights_digest(weights: Any) -> str:
    """The hash of a column of weights."""
    return hashlib.sha256(np.asarray(weights, dtype=np.float64).tobytes()).hexdigest()


def to_file(facts: Mapping[str, Any]) -> bytes:
    """The facts of certificates as the content of a file."""
    return (json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def agree(one: Any, two: Any) -> bool:
    """Equality up to the rounding that differs between machines."""
    if isinstance(one, dict) and isinstance(two, dict):
        return set(one) == set(two) and all(agree(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(agree, one, two))
    numbers = isinstance(one, int | float) and isinstance(two, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(two, bool):
        return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == two)
