"""Shadow releases: what a release's own method makes of random halves of the curator's rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import make_noise
from marginalsyn.progress import Silent
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.weights.columns import columns_of
from marginalsyn.weights.processing import Processing

# More rows would make a shadow release slow; the release under attack keeps all of its own.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Shadow:
    """One shadow release: which rows it was made with, its rows, and its weights by column."""

    inside: np.ndarray
    synthetic: CodedRows
    weights: Mapping[str, np.ndarray]


def cast_shadows(release: Release, rows: CodedRows, count: int, *, seed: int) -> Iterator[Shadow]:
    """Make releases of random halves of ``rows`` by the method and at the cost of ``release``.

    The noise is seeded: nothing of this is published, and no ledger is charged.

    Args:
        release: what is imitated, its weights included where their method can run on its own.
        rows: real rows, from which every shadow release takes each with a chance of one half.
        count: how many releases.
        seed: of the halves and of the noise.

    Raises:
        UsageError: the release was not made by an installed method.
    """
    statement = release.statement
    if statement.persons is not None:
        raise UsageError(
            f"shadow ({count}) must be 0 for this release: it protects persons, whom rows of an "
            "evaluation no longer tell apart; `marginalsyn audit METHOD --unit person` attacks "
            "what it promises"
        )
    try:
        config = make_config(statement.generator, statement.parameters)
    except MarginalsynError as error:
        raise UsageError(
            f"shadow ({count}) must be 0 for this release: its method cannot be run here: {error}"
        ) from None
    schema = rows.schema
    bought = list(schema.charges)
    columns = _weight_charges(release)
    spent = [c for cs in columns.values() for c in cs]
    own = [c for c in statement.charges if c not in bought and c not in spent]
    total = compose(own, statement.target_delta, statement.neighbours)
    budget = Budget(
        eps=total.eps,
        delta=statement.target_delta,
        neighbours=statement.neighbours,
        allow_large_delta=True,
    )
    frame = real_frame(rows)
    for number in range(count):
        inside = np.random.default_rng([seed, number]).random(len(rows)) < 0.5
        table = PrivateTable.open(frame[inside], schema, neighbours=budget.neighbours)
        noise = make_noise(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
        synthesis, told = generate(
            table, config, budget, noise=noise, accept_nonprivate_schema=True
        )
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            shadow = Release.write(synthesis, schema, told, Path(folder) / "shadow")
            for name, charges in columns.items():
                found[name] = _weigh(shadow, release, name, charges, table, noise)
        yield Shadow(inside, CodedRows.of(synthesis.frame, schema), found)


def real_frame(rows: CodedRows) -> pd.DataFrame:
    """Rows of an encoded table as values of its schema."""
    frame = Codec(rows.schema).from_unit(np.maximum(rows.units, 0.0))
    for column, units in zip(rows.schema.columns, rows.units.T, strict=True):
        if column.numeric and (units < 0).any():
            values = frame[column.name].astype(object)
            frame[column.name] = values.mask(units < 0, None)
    return frame


def _weight_charges(release: Release) -> dict[str, list[Charge]]:
    """What each column of weights was charged, by name; nothing for the free ones.

    Columns that were made from another one, or by a method that reads the release's own model, are
    left out: they are no estimate of their own.
    """
    left = list(release.statement.charges)
    found = {}
    for name, told in columns_of(release).items():
        if told.get("from") or told.get("method") in ("none", "discriminator"):
            continue
        charges = []
        for text in told.get("cost", ()):
            charge = next((c for c in left if f"{c.mechanism}: {c.cost}" == text), None)
            if charge is not None:
                left.remove(charge)
                charges.append(charge)
        if charges:
            found[str(name)] = charges
    return found


def _weigh(
    shadow: Release,
    release: Release,
    name: str,
    charges: list[Charge],
    table: PrivateTable,
    noise: Any,
) -> np.ndarray:
    """The weights of a shadow release, as the release's own were made."""
    told, statement = columns_of(release)[name], release.statement
    budget = _allowance(charges, statement.target_delta, statement.neighbours)
    known = {field.name for field in fields(Processing)}
    steps = {k: v for k, v in told.get("processing", {}).items() if k in known}
    config = make_weights(told["method"], told.get("parameters"))
    processing = Processing(**{**steps, "calibrate": "none"})
    found = weigh(
        shadow,
        config,
        budget,
        table,
        noise=noise,
        name=name,
        processing=processing,
        progress=Silent(),
        accept_nonprivate_schema=True,
    )
    return found.weights


def _allowance(charges: list[Charge], delta: float, neighbours: Neighbours) -> Budget:
    """The budget that these charges amount to."""
    rho = sum(c.cost.rho for c in charges if isinstance(c.cost, ZCDP))
    if rho:
        return Budget.of_rho(rho, delta, neighbours)
    eps = compose(charges, delta, neighbours).eps
    return Budget(eps=eps, delta=delta, neighbours=neighbours, allow_large_delta=True)
