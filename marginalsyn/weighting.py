"""The host of every weight estimator: charge, run, post-process, diagnose, amend the release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.budget import Budget, Charge, compose
from marginalsyn.contract import (
    LogWeights,
    Target,
    WeightConfig,
    WeightEstimator,
    config_to_json,
    plain,
)
from marginalsyn.errors import PluginError, UsageError, explained
from marginalsyn.host import check_schema, digest
from marginalsyn.noise import Noise
from marginalsyn.private import Keeper, PrivateTable, Visit, check_split
from marginalsyn.progress import Progress, Silent
from marginalsyn.release import Release, preflight
from marginalsyn.weights import (
    Processing,
    WeightColumn,
    calibrate,
    cautions,
    check_column,
    columns_of,
    diagnose,
)


def fit_allowance(config: WeightConfig, target: Target, budget: Budget) -> WeightEstimator:
    """Configure an estimator and check that it asks for no more than it may spend."""
    estimator = config.configure(target, budget)
    charges = tuple(estimator.cost)
    if any(charge.neighbours != budget.neighbours for charge in charges):
        raise PluginError(f"weight method '{config.name}' must charge under {budget.neighbours}")
    if charges and not config.private:
        raise PluginError(f"weight method '{config.name}' is not private and must cost nothing")
    total = compose(charges, budget.delta, budget.neighbours)
    if total.eps > budget.eps * (1 + 1e-9) or total.delta > budget.delta * (1 + 1e-9):
        raise PluginError(
            f"weight method '{config.name}' must cost at most eps={budget.eps:g}, "
            f"delta={budget.delta:g}; it asks for eps={total.eps:g}, delta={total.delta:g}. "
            "Nothing was charged or read"
        )
    return estimator


def weigh(
    release: Release,
    config: WeightConfig,
    budget: Budget,
    table: PrivateTable | None = None,
    *,
    noise: Noise,
    name: str = "",
    processing: Processing | None = None,
    public: pd.DataFrame | None = None,
    progress: Progress | None = None,
    force: bool = False,
    accept_nonprivate_schema: bool = False,
    non_private: bool = False,
    keeper: Keeper | None = None,
) -> WeightColumn:
    """Estimate weights for the rows of a release: charge first, then fit, then post-process.

    Nothing is written: :func:`publish` does that. An estimator that is not private runs only with
    ``non_private`` and its weights cannot be published.

    Args:
        release: whose rows are weighted.
        config: the estimator's public knobs.
        budget: what may be spent, see :func:`share_of` and ``Budget.of``.
        table: the door to the private rows; None is enough for estimators that read none.
        noise: ``make_noise()``, or a seeded one for research.
        name: of the column; the method's name if empty.
        processing: what is done to the raw log-weights.
        public: real rows that are no secret, for calibration.
        progress: told what happens; silent by default.
        force: replace a column of this name; what it cost stays spent.
        accept_nonprivate_schema: run although the schema was drafted from the private rows.
        non_private: run an estimator that protects nobody.
        keeper: keeps what is paid for until its ``finish()``, which is for the caller to say once
            the weights are written; with ``resume=True`` an interrupted run goes on, free of
            charge.

    Raises:
        UsageError: the column is there already, or an argument contradicts another.
        BudgetError: the ledger's cap does not allow it; nothing was read.
        Interrupted: Ctrl-C after the charge.

    Example:
        >>> from marginalsyn.private import PrivateTable
        >>> from marginalsyn.release import Release
        >>> from marginalsyn.contract import make_weights
        >>> from marginalsyn.weights import publish
        >>> release, noise = Release.read("release"), make_noise()
        >>> table, budget = PrivateTable.open(frame, schema), Budget(eps=1)
        >>> weighted = weigh(release, make_weights("beta-noised"), budget, table, noise=noise)
        >>> list(publish(release, weighted, noise=noise).weights())
        ['beta-noised']
    """
    name = name or config.name
    processing = processing or Processing()
    check_column(release, name, force)
    check_schema(release.schema, accept_nonprivate_schema=accept_nonprivate_schema)
    if not config.private and not non_private:
        raise UsageError(
            f"method ({config.name}) protects nobody: its weights give private rows away. For "
            "research add --non-private (non_private=True); the weights then go into a file of "
            "their own and never into the release"
        )
    if processing.calibrate != "none" and public is None:
        raise UsageError(
            f"calibrate ({processing.calibrate}) must have public real rows: name their file with "
            "--public"
        )
    if config.private:
        preflight(release.path, force=True)
    target = Target.of(release)
    estimator = fit_allowance(config, target, budget)
    plan = estimator.plan
    processing.normalises(plan.scaled)
    if processing.calibrate != "none" and not plan.scores:
        raise UsageError(
            f"calibrate ({processing.calibrate}) needs a method that can score other rows; "
            f"{config.name} cannot"
        )
    if plan.uncalibrated and processing.calibrate == "none":
        raise UsageError(f"method ({config.name}) must be calibrated here: {plan.uncalibrated}")
    charges = tuple(estimator.cost)
    if charges or not config.private:
        table = _check_table(table, release, config)
    progress = progress or Silent()
    if prepare := getattr(estimator, "prepare", None):
        prepare(progress=progress)
    if keeper is not None:
        keeper.describe(
            method=config.name,
            parameters=config_to_json(config),  # type: ignore[arg-type]
            budget=budget.to_json(),
            schema=digest(release.schema),
            rows=release.statement.files[release.frame_file],
        )
    found, visit = _run(
        estimator, config, table, charges, budget, noise, progress, len(target.frame), keeper
    )
    return _finish(
        found,
        target=target,
        name=name,
        processing=processing,
        public=public,
        facts={
            "method": config.name,
            "parameters": config_to_json(config),  # type: ignore[arg-type]
            "cost": [f"{charge.mechanism}: {charge.cost}" for charge in charges],
            "expected_noise": plan.noise,
            "kept_share": plan.kept,
        },
        scaled=plan.scaled,
        charges=charges,
        visit=visit,
        noise=plan.noise,
        private=config.private,
    )


def reprocess(
    release: Release,
    column: str,
    *,
    name: str,
    processing: Processing,
    force: bool = False,
) -> WeightColumn:
    """Post-process the raw log-weights of a column anew, as another column; costs nothing.

    Example:
        >>> from marginalsyn.private import PrivateTable
        >>> from marginalsyn.release import Release
        >>> from marginalsyn.contract import make_weights
        >>> from marginalsyn.weights import publish
        >>> release, noise = Release.read("release"), make_noise()
        >>> table, budget = PrivateTable.open(frame, schema), Budget(eps=1)
        >>> weighted = weigh(release, make_weights("beta-noised"), budget, table, noise=noise)
        >>> release = publish(release, weighted, noise=noise)
        >>> half = Processing(temper=0.5)
        >>> tempered = reprocess(release, "beta-noised", name="half", processing=half)
        >>> tempered.name
        'half'
    """
    raw = release.log_weights()
    if raw is None or column not in raw:
        listed = "none" if raw is None else ", ".join(raw.columns)
        raise UsageError(f"column ({column}) must be one of the release's weights: {listed}")
    check_column(release, name, force)
    preflight(release.path, force=True)
    told = dict(columns_of(release).get(column, {}))
    if processing.calibrate != "none":
        raise UsageError(
            "calibrate must be done when weights are made: raw log-weights are not enough for it"
        )
    found = LogWeights(values=raw[column].to_numpy(), notes=told.get("notes", {}))
    facts = {
        "method": told.get("method", column),
        "parameters": told.get("parameters", {}),
        "cost": [],
        "from": column,
        "expected_noise": told.get("expected_noise"),
        "kept_share": told.get("kept_share"),
    }
    return _finish(
        found,
        target=Target.of(release),
        name=name,
        processing=processing,
        public=None,
        facts=facts,
        scaled=bool(told.get("scaled", False)),
        noise=told.get("expected_noise"),
    )


def _check_values(log_weights: LogWeights, rows: int, method: str) -> None:
    """Raise PluginError unless there is one finite log-weight per row."""
    values = np.asarray(log_weights.values)
    if values.shape != (rows,) or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise PluginError(
            f"weight method '{method}' broke its contract: it must give {rows} finite log-weights"
        )


def _check_table(
    table: PrivateTable | None, release: Release, config: WeightConfig
) -> PrivateTable:
    if table is None:
        raise UsageError(f"method ({config.name}) must have the private table: name it with --data")
    if table.schema != release.schema:
        raise UsageError("schema of the private table must be that of the release")
    check_split(table.holdout, release.statement)
    return table


def _run(
    estimator: WeightEstimator,
    config: WeightConfig,
    table: PrivateTable | None,
    charges: tuple[Charge, ...],
    budget: Budget,
    noise: Noise,
    progress: Progress,
    rows: int,
    keeper: Keeper | None,
) -> tuple[LogWeights, Visit | None]:
    """Charge and call the estimator; whatever stops it, say that the charge stands."""
    method = f"weight method '{config.name}'"
    if not charges:
        view = None if config.private or table is None else table.unprotected("weights")
        with explained(str, method):
            found = estimator(view, progress=progress)
            _check_values(found, rows, config.name)
            return found, None
    assert table is not None
    with table.paid_visit(
        charges,
        noise=noise,
        delta=budget.delta,
        run=f"weight {config.name}",
        keeper=keeper,
        method=method,
    ) as visit:
        found = estimator(visit, progress=progress)
        _check_values(found, rows, config.name)
        return found, visit


def _finish(
    found: LogWeights,
    *,
    target: Target,
    name: str,
    processing: Processing,
    public: pd.DataFrame | None,
    facts: dict[str, Any],
    scaled: bool,
    charges: tuple[Charge, ...] = (),
    visit: Visit | None = None,
    noise: float | None = None,
    private: bool = True,
) -> WeightColumn:
    """Post-process and diagnose; none of it sees private rows."""
    raw = np.asarray(found.values, dtype=np.float64)
    values = raw
    if processing.calibrate != "none" and public is not None:
        if found.score is None:
            raise PluginError(f"weight method '{facts['method']}' must hand back a score")
        values = calibrate(raw, found.score(public), raw, processing.calibrate)
    weights = processing.apply(values, scaled=scaled)
    power = processing.power(values, scaled=scaled)
    measured = diagnose(weights, power * values, target.frame, target.schema)
    told = cautions(measured, name, noise)
    notes = dict(found.notes)
    if scaled and (processing.normalises(scaled) or processing.changes_mean()):
        notes["unbiased"] = "no: normalised, tempered, smoothed or clipped weights are not unbiased"
    facts = {
        **facts,
        "scaled": scaled,
        "processing": {**processing.to_json(), "temper": power},
        "diagnostics": measured,
        "notes": notes,
    }
    return WeightColumn(
        name=name,
        weights=weights,
        log_weights=raw,
        facts=plain(facts),
        charges=charges,
        payments=visit.payments if visit else (),
        samplers=visit.samplers if visit else (),
        libraries=visit.libraries if visit else {},
        warnings=[*found.warnings, *told],
        private=private,
        diagnostics=dict(found.diagnostics),
    )
