"""The host of every generator: charge, run, check what comes back, write the statement."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np
import pandas as pd

from marginalsyn.budget import Budget, compose
from marginalsyn.contract import (
    Generator,
    GeneratorConfig,
    Model,
    Synthesis,
    check_rows,
    config_to_json,
)
from marginalsyn.errors import MarginalsynError, PluginError, ReleaseError, SchemaError
from marginalsyn.noise import Noise
from marginalsyn.private import Keeper, PrivateTable
from marginalsyn.progress import Progress, Silent
from marginalsyn.registry import GENERATORS, find
from marginalsyn.release import Release, Statement, derivation, state, today
from marginalsyn.table import Schema, frame_problems
from marginalsyn.validation import shown


def check_schema(schema: Schema, *, accept_nonprivate_schema: bool) -> None:
    """Refuse a schema that was drafted from data unless the curator takes the responsibility."""
    if schema.drafted_from_data and not accept_nonprivate_schema:
        raise SchemaError(
            "schema (drafted_from_data) must hold public knowledge only: it was drafted from the "
            "private rows and would be published. Replace its bounds and categories by public "
            "ones and set drafted_from_data to false, or accept the leak with "
            "--accept-nonprivate-schema (accept_nonprivate_schema=True); the statement will say so"
        )


def calibrate(config: GeneratorConfig, schema: Schema, budget: Budget) -> Generator:
    """Configure a generator and check that it asks for no more than the budget.

    A config with a true ``exceeds_budget`` (a paper's own calibration, say) may ask for more: the
    statement gives what is truly spent.
    """
    generator = config.configure(schema, budget)
    charges = tuple(generator.cost)
    wrong = [charge for charge in charges if charge.neighbours != budget.neighbours]
    if wrong:
        raise PluginError(f"method '{config.name}' must charge under {budget.neighbours}")
    total = compose(charges, budget.delta, budget.neighbours)
    # Bounds bought under another relation may not add up with this one: see it before spending.
    compose([*schema.charges, *charges], budget.delta, budget.neighbours)
    over = total.eps > budget.eps * (1 + 1e-9) or total.delta > budget.delta * (1 + 1e-9)
    if over and not getattr(config, "exceeds_budget", False):
        raise PluginError(
            f"method '{config.name}' must cost at most the budget (eps={budget.eps:g}, "
            f"delta={budget.delta:g}); it asks for eps={total.eps:g}, delta={total.delta:g}. "
            "Nothing was charged or read"
        )
    return generator


def generate(
    table: PrivateTable,
    config: GeneratorConfig,
    budget: Budget,
    *,
    noise: Noise,
    progress: Progress | None = None,
    accept_nonprivate_schema: bool = False,
    run: str = "",
    keeper: Keeper | None = None,
) -> tuple[Synthesis, Statement]:
    """Run a generator on a private table: charge first, then measure, estimate and draw rows.

    Args:
        table: the door to the private rows; its ledger is charged.
        config: the generator's public knobs.
        budget: what may be spent.
        noise: ``make_noise()``, or a seeded one for research.
        progress: told what happens; silent by default.
        accept_nonprivate_schema: run although the schema was drafted from the private rows.
        run: a name for the ledger's entries; public.
        keeper: keeps what is paid for until its ``finish()``, which is for the caller to say once
            the release is written; with ``resume=True`` an interrupted run goes on, free of charge.

    Returns:
        What the generator gave, and the statement of what it cost. ``Release.write`` takes both.

    Raises:
        SchemaError: the schema was drafted from data and that was not accepted.
        BudgetError: the ledger's cap does not allow it; nothing was read.
        Interrupted: Ctrl-C after the charge.

    Example:
        >>> from marginalsyn.contract import make_config
        >>> from marginalsyn.private import PrivateTable
        >>> table = PrivateTable.open(frame, schema)
        >>> config = make_config("independent", {"rows": 50})
        >>> synthesis, statement = generate(table, config, Budget(eps=1), noise=make_noise())
        >>> len(synthesis.frame), round(statement.eps, 6)
        (50, 1.0)
    """
    check_schema(table.schema, accept_nonprivate_schema=accept_nonprivate_schema)
    generator = calibrate(config, table.schema, budget)
    # A schema whose bounds were bought is published too: what it cost is part of the total.
    bought, charges = table.schema.charges, tuple(generator.cost)
    compose((*bought, *charges), budget.delta, budget.neighbours)
    if keeper is not None:
        keeper.describe(
            method=config.name,
            parameters=config_to_json(config),
            eps=budget.eps,
            delta=budget.delta,
            neighbours=budget.neighbours,
            schema=digest(table.schema),
        )
    started = time.monotonic()
    with table.paid_visit(
        charges,
        noise=noise,
        delta=budget.delta,
        run=run or config.name,
        keeper=keeper,
        method=f"method '{config.name}'",
    ) as visit:
        synthesis = generator(visit, progress=progress or Silent())
        problems = frame_problems(synthesis.frame, visit.schema)
        if problems:
            raise PluginError(f"method '{config.name}' broke its contract: {'; '.join(problems)}")
    seconds = time.monotonic() - started
    statement = state(
        generator=config.name,
        parameters=config_to_json(config),
        charges=(*bought, *charges),
        payments=visit.payments,
        samplers=[*derivation.bought(bought), *visit.samplers],
        libraries=visit.libraries,
        neighbours=budget.neighbours,
        holdout=table.holdout,
        target_delta=budget.delta,
        seeded=not noise.private,
        schema_drafted=table.schema.drafted_from_data,
        warnings=synthesis.warnings,
        notes=synthesis.notes,
        # A seeded run is reproducible to the byte, on any day.
        created=((keeper and keeper.day) or today()) if noise.private else None,
    )
    diagnostics = {**synthesis.diagnostics, "seconds": seconds}
    return replace(synthesis, diagnostics=diagnostics), statement


def sample(release: Release, rows: int | None, rng: np.random.Generator) -> pd.DataFrame:
    """Draw more rows from a release's model: post-processing, so it costs no privacy.

    Args:
        release: a release whose generator keeps a model.
        rows: how many; None takes the model's estimate of the table's size.
        rng: draws the rows; it may be seeded, for it protects nothing.

    Returns:
        Rows typed by the release's schema.

    Example:
        >>> from marginalsyn.release import Release
        >>> len(sample(Release.read("release"), 1000, np.random.default_rng()))
        1000
    """
    model = release.model()
    if model is None:
        steered = "steered" in release.statement.notes
        why = "steer its source again" if steered else f"{release.statement.generator} keeps none"
        raise ReleaseError(f"release ({release.path}) must hold a model to sample from; {why}")
    return draw(model, release.schema, rows, rng)


def draw(model: Model, schema: Schema, rows: int | None, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows from a model by the method that made it, and check them against the schema."""
    check_rows(rows)
    method = find(GENERATORS, model.kind, reading=True)
    try:
        frame = method.sample(model, schema, rows, rng)
    except MarginalsynError:
        raise
    except Exception as error:
        # The model may come from anyone, and says nothing that is private.
        raise ReleaseError(
            f"model ({model.kind}) must be as its generator wrote it; it cannot be sampled from: "
            f"{type(error).__name__}: {shown(str(error))}"
        ) from error
    problems = frame_problems(frame, schema)
    if problems:
        raise PluginError(f"method '{model.kind}' broke its contract: {'; '.join(problems)}")
    return frame


def digest(schema: Schema) -> str:
    """A hash of a schema, by which a run that goes on knows it again."""
    return hashlib.sha256(schema.to_json().encode()).hexdigest()
