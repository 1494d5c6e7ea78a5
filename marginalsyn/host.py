"""Runs a mechanism: charges, resumes, explains failures, checks what comes back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from marginalsyn.access.private_table import PrivateTable, Unprotected
from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    Duties,
    GeneratorConfig,
    Measurement,
    Plan,
    Synthesis,
    Target,
    WeightConfig,
    config_to_json,
)
from marginalsyn.errors import (
    BudgetError,
    MissingExtraError,
    PluginError,
    SchemaError,
    StoppedError,
    UsageError,
    explained,
)
from marginalsyn.graphical.reference import Reference
from marginalsyn.people.tree import LinkedSchema, PersonUnit
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.composition import Total, compose
from marginalsyn.privacy.noise import Noise
from marginalsyn.progress import Progress, Silent
from marginalsyn.purchases.with_bought_schema import WithBoughtSchema
from marginalsyn.records.entries import ROWS
from marginalsyn.records.resume import RunRecorder
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins
from marginalsyn.release.folder import Release, preflight
from marginalsyn.release.sampling import draw
from marginalsyn.release.statement import Statement, state, today
from marginalsyn.sources.holdout import check_split
from marginalsyn.table.frames import frame_problems, wasted, wasted_counts
from marginalsyn.table.keeping import (
    impossible_cells,
    keep_rules,
    record_redrawn,
    redrawing_notes,
    with_mappings,
)
from marginalsyn.table.made import StandingColumn
from marginalsyn.table.margins import contradiction
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit, rows_for
from marginalsyn.weights.columns import WeightColumn, check_column, finish_column
from marginalsyn.weights.processing import Processing

# Rows that are drawn from a larger weighted population, where nobody says how many.
MOST_STANDING = 100_000


def check_schema(schema: Schema | LinkedSchema, *, accept_nonprivate_schema: bool) -> None:
    """Refuse a schema that was drafted from data unless the curator takes the responsibility."""
    if schema.drafted_from_data and not accept_nonprivate_schema:
        raise SchemaError(
            "schema (drafted_from_data) must hold public knowledge only: it was drafted from the "
            "private rows and would be published. Replace its bounds and categories by public "
            "ones and set drafted_from_data to false, or accept the leak with "
            "--accept-nonprivate-schema; the statement will say so"
        )


def calibrate(
    config: Any, public: Schema | LinkedSchema | Target, budget: Budget, noise: Noise | None = None
) -> tuple[Any, Total]:
    """Configure a mechanism and check that it asks for no more than the budget.

    A config with a true ``exceeds_budget`` (a paper's own calibration, say) may ask for more: the
    statement gives what is truly spent. With private categories or shapes in the schema the
    mechanism buys them first, and its charges for them name the law that ``noise`` draws.

    Returns:
        The calibrated mechanism, and what its charges add up to, with those of a schema whose
        bounds were bought: they are published too.
    """
    schema, group = (public.schema, WEIGHTS) if isinstance(public, Target) else (public, GENERATORS)
    mechanism: Any
    if isinstance(schema, LinkedSchema):
        from marginalsyn.linked.generating import LinkedGenerator

        mechanism = LinkedGenerator(config=config, schema=schema, budget=budget)
    else:
        _check_duties(config, schema, group)
        if group == GENERATORS:
            check_takes_known(config, schema)
        if group == GENERATORS and (schema.open or schema.shapeless or schema.followers):
            mechanism = WithBoughtSchema(config=config, schema=schema, budget=budget, noise=noise)
        else:
            mechanism = config.configure(public, budget)
    method = f"method '{config.name}'"
    charges = tuple(mechanism.cost)
    if any(charge.neighbours != budget.neighbours for charge in charges):
        raise PluginError(f"{method} must charge under {budget.neighbours}")
    if charges and not Duties(config).private:
        raise PluginError(f"{method} is not private and must cost nothing")
    total = whole = compose(charges, budget.delta, budget.neighbours)
    if group == GENERATORS and (bought := schema.charges):
        _check_bought(bought, schema.unit)
        # What was bought under another relation may not add up with this: see it before spending.
        whole = compose([*bought, *charges], budget.delta, budget.neighbours)
    over = total.eps > budget.eps * (1 + 1e-9) or total.delta > budget.delta * (1 + 1e-9)
    if over and not Duties(config).exceeds_budget:
        raise PluginError(
            f"{method} must cost at most the budget (eps={budget.eps:g}, "
            f"delta={budget.delta:g}); it asks for eps={total.eps:g}, delta={total.delta:g}. "
            "Nothing was charged or read"
        )
    return mechanism, whole


def _check_duties(config: Any, schema: Schema, group: str) -> None:
    """Refuse a method that cannot protect the schema's persons, or serve its label or strata."""
    name = config.name
    several = schema.unit is not None and schema.unit.max_rows > 1
    if several and Duties(config).reads and not Duties(config).counts_persons:
        others = ", ".join(_methods_with("counts_persons", group=group))
        raise UsageError(
            f"method ({name}) cannot protect persons, who may have several rows: what it "
            f"bounds is the influence of one row. Methods that can: {others}; any method can "
            "where one row of each is counted (--max-rows 1)"
        )
    if Duties(config).needs_label and (schema.label is None or len(schema.names) < 2):
        raise UsageError(
            f"method ({name}) needs a schema with a label and other columns: name the label in the "
            "schema, or take another --method"
        )
    if group == GENERATORS and schema.by and not Duties(config).serves_strata:
        raise UsageError(
            f"method ({name}) cannot serve strata (by {', '.join(schema.by)}). Methods that can: "
            f"{', '.join(_methods_with('serves_strata'))}; or leave by out, in the schema, too"
        )


def generate(
    table: PrivateTable,
    config: GeneratorConfig,
    budget: Budget,
    *,
    noise: Noise,
    progress: Progress | None = None,
    accept_nonprivate_schema: bool = False,
    run: str = "",
    recorder: RunRecorder | None = None,
    references: Sequence[Reference] = (),
) -> tuple[Synthesis, Statement]:
    """Run a generator on private rows: charge first, then measure, estimate and draw rows.

    Args:
        table: the private table, or linked tables (:class:`PrivateForest`); its ledger is charged.
        config: the generator's public knobs.
        budget: what may be spent.
        noise: ``make_noise()``, or a seeded one for research.
        progress: receives what happens; silent by default.
        accept_nonprivate_schema: run although the schema was drafted from the private rows.
        run: a name for the ledger's entries; public.
        recorder: keeps what is paid for until its ``finish()``, which is for the caller to say once
            the release is written; with ``resume=True`` an interrupted run goes on, free of charge.
        references: tables to lean on, each public or paid for already: the caller answers for it.

    Returns:
        What the generator gave, and the statement of what it cost. ``Release.write`` takes both.
        Of linked tables it is a :class:`LinkedSynthesis`, for ``LinkedRelease.write``.

    Raises:
        SchemaError: the schema was drafted from data and that was not accepted.
        BudgetError: the ledger's cap does not allow it; nothing was read.
        Interrupted: Ctrl-C after the charge.

    Example:
        >>> from marginalsyn.contract import make_config
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> table = PrivateTable.open(frame, schema)
        >>> config = make_config("independent", {"rows": 50})
        >>> synthesis, statement = generate(table, config, Budget(eps=1), noise=make_noise())
        >>> len(synthesis.frame), round(statement.eps, 6)
        (50, 1.0)
    """
    schema = table.schema
    check_schema(schema, accept_nonprivate_schema=accept_nonprivate_schema)
    check_takes_reference(config, references)
    if isinstance(schema, Schema) and schema.public_rows is not None and table.holdout:
        raise UsageError(
            "margins (counts) must be relative where rows are held out, for they count those, too: "
            'add "relative": true, or open the table with schema.with_margins([], relative=True). '
            "Nothing was charged"
        )
    generator, total = calibrate(config, schema, budget, noise)

    def check(made: Any) -> str:
        if isinstance(schema, LinkedSchema):
            from marginalsyn.release.linked import tree_problems

            return "; ".join(tree_problems(schema, made.frames))
        return "; ".join(frame_problems(made.frame, made.schema or schema))

    def mend(made: Any, visit: Visit) -> Any:
        if isinstance(schema, LinkedSchema) or not (made.schema or schema).rules:
            return made
        public = with_mappings(made.schema or schema, made.frame)
        frame = keep_rules(made.frame, public, visit.noise.post)
        return replace(made, frame=frame, schema=made.schema if public == schema else public)

    facts = {
        "eps": budget.eps,
        "delta": budget.delta,
        "neighbours": budget.neighbours,
        "schema": digest(schema),
        **({"reference": [known.digest for known in references]} if references else {}),
    }
    started = time.monotonic()
    redrawn: Mapping[str, int]
    with record_redrawn() as redrawn:
        synthesis, visit = _run(
            generator,
            config,
            table,
            budget,
            check,
            noise=noise,
            run=run or config.name,
            progress=progress,
            recorder=recorder,
            facts=facts,
            references=references,
            mend=mend,
        )
    # Charges for the schema come first, whether the run bought them or an earlier one.
    schema = synthesis.schema or schema
    own = len(schema.charges) - len(table.schema.charges)
    warnings = [*synthesis.warnings]
    if isinstance(schema, Schema):
        # What is drawn here, too, is drawn again in a run that goes on.
        with record_redrawn() as again:
            synthesis = _as_rows(synthesis, config, schema, visit.noise)
        redrawn = again or redrawn
        warnings += wasted(synthesis.frame, schema)
        if schema.unit is None or schema.unit.max_rows == 1:  # else more rows were drawn
            warnings += redrawing_notes(redrawn, len(synthesis.frame))
        if left := impossible_cells(schema.rules, schema.columns)[1]:
            warnings.append(
                f"rules ({'; '.join(left)}) need more cells than a model has: rows that break them "
                "are drawn again"
            )
    seconds = time.monotonic() - started
    margins = [m.facts for m in schema.public_margins] if isinstance(schema, Schema) else []
    statement = state(
        generator=config.name,
        parameters=config_to_json(config),
        neighbours=budget.neighbours,
        target_delta=budget.delta,
        seeded=not noise.private,
        bought=schema.charges,
        charges=visit.charges[own:],
        total=total,
        payments=visit.payments,
        libraries=visit.libraries,
        holdout=table.holdout,
        split=table.public_split,
        samplers=visit.samplers,
        persons=schema.unit,
        survey=schema.survey_weight if isinstance(schema, Schema) else None,
        schema_drafted=schema.drafted_from_data,
        warnings=warnings,
        notes={
            **synthesis.notes,
            **({"references": [known.facts for known in references]} if references else {}),
            **({"margins": margins} if margins else {}),
            **({"redrawn_for_rules": dict(redrawn)} if redrawn else {}),
        },
        # A seeded run is reproducible to the byte, on any day.
        created=((recorder and recorder.day) or today()) if noise.private else None,
    )
    diagnostics = {**synthesis.diagnostics, "seconds": seconds}
    return replace(synthesis, diagnostics=diagnostics), statement


# The earlier name of the same for linked tables.
generate_linked = generate


def check_takes_reference(config: Any, references: Sequence[Any]) -> None:
    """Refuse a method that could do nothing with a reference."""
    if references and not Duties(config).takes_reference:
        raise UsageError(
            f"method ({config.name}) cannot lean on a reference: methods that can are "
            f"{', '.join(_methods_with('takes_reference'))}. Take one of them, or leave the "
            "reference out"
        )
    estimator = getattr(config, "estimator", "pulled")
    if references and estimator != "pulled":
        raise UsageError(
            f"estimator ({estimator}) must be pulled for a reference: the others shrink answers "
            "to nothing"
        )


def check_takes_known(config: Any, schema: Schema) -> None:
    """Refuse a method whose rows would not have the public margins, or survey weights."""
    wide = max((len(margin.columns) for margin in schema.public_margins), default=0)
    takes, wide = Duties(config).takes_margins, max(wide, int(schema.survey_weight is not None))
    if takes < wide:
        what = f"fit public margins{' of two columns' if takes else ''}"
        raise UsageError(
            f"method ({config.name}) cannot "
            f"{what if schema.margins else 'count rows with survey weights'}: methods that can are "
            f"{', '.join(_methods_with('takes_margins', wide))}. Margins can also be stated "
            "afterwards with `steer`"
        )
    if wrong := contradiction(schema.public_margins, schema.structural_zeros()):
        raise UsageError(
            f"margins ({', '.join(wrong)}) must be those of one table but for rounding: each two "
            "of them agree, and no table has all. Leave one out. Nothing was charged"
        )
    if schema.margins and "mbi" in vars(config).values():
        raise UsageError(
            "estimator (mbi) must be pulled or built-in for public margins: mbi's model cannot be "
            "moved until it has them"
        )


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
    recorder: RunRecorder | None = None,
    target: Target | None = None,
    ahead: Callable[[Plan, Sequence[Charge]], None] | None = None,
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
        progress: receives what happens; silent by default.
        force: replace a column of this name; what it cost stays spent.
        accept_nonprivate_schema: run although the schema was drafted from the private rows.
        non_private: run an estimator that protects nobody.
        recorder: keeps what is paid for until its ``finish()``, which is for the caller to say once
            the weights are written; with ``resume=True`` an interrupted run goes on, free of
            charge.
        target: what ``Target.of(release)`` gave, where the rows were read before.
        ahead: receives the plan and its charges before anything is charged.

    Raises:
        UsageError: the column is there already, or an argument contradicts another.
        BudgetError: the ledger's cap does not allow it; nothing was read.
        Interrupted: Ctrl-C after the charge.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> from marginalsyn.release.folder import Release
        >>> from marginalsyn.contract import make_weights
        >>> from marginalsyn.weights.columns import publish
        >>> release, noise = Release.read("release"), make_noise()
        >>> table, budget = PrivateTable.open(frame, schema), Budget(eps=1)
        >>> weighted = weigh(release, make_weights("beta-noised"), budget, table, noise=noise)
        >>> list(publish(release, weighted, noise=noise).weights())
        ['beta-noised']
    """
    name = name or config.name.replace("+", "-")
    processing = processing or Processing()
    check_column(release, name, force)
    if release.statement.survey is not None:
        raise UsageError(
            "weights must be of a release whose rows count alike: the rows of this one follow "
            "survey weights already. Nothing was charged"
        )
    check_schema(release.schema, accept_nonprivate_schema=accept_nonprivate_schema)
    if not config.private and not non_private:
        raise UsageError(
            f"method ({config.name}) has no privacy protection: its weights reveal private rows. "
            "For research add --non-private; the weights then go to a separate "
            "file and never into the release"
        )
    if config.private:
        preflight(release.path, force=True)
    target = target or Target.of(release)
    estimator, _ = calibrate(config, target, budget)
    plan = estimator.plan
    processing.check(plan, config.name, public)
    charges = tuple(estimator.cost)
    if ahead is not None:
        ahead(plan, charges)
    if charges or not config.private:
        table = _check_table(table, release, config)

    rows = len(target.frame)
    found, visit = _run(
        estimator,
        config,
        table,
        budget,
        lambda found: found.problem(rows),
        noise=noise,
        run=f"weight {config.name}",
        progress=progress,
        recorder=recorder,
        facts={
            "allowance": budget.to_json(),
            "schema": digest(release.schema),
            "rows": release.statement.files[release.frame_file],
        },
    )
    return finish_column(
        found,
        target=target,
        name=name,
        processing=processing,
        public=public,
        facts={
            "method": config.name,
            "parameters": config_to_json(config),
            "cost": [f"{charge.mechanism}: {charge.cost}" for charge in charges],
            "expected_noise": plan.noise,
            "kept_share": plan.kept,
            "predicted_gain": plan.facts.get("predicted_gain"),
        },
        scaled=plan.scaled,
        charges=charges,
        visit=visit,
        noise=plan.noise,
        private=config.private,
        holdout=table.holdout if table is not None else 0.0,
    )


def _check_bought(charges: Sequence[Charge], unit: Unit | PersonUnit | None) -> None:
    """Refuse to add up what was bought for persons and what is bought for rows."""
    protected = ROWS if unit is None else unit.noun
    for charge in charges:
        before = str(charge.details.get("unit", ROWS))
        if before != protected:
            raise BudgetError(
                f"charges of the schema ({charge.purpose}, for {before}) must be for {protected}: "
                "promises for rows and for persons do not add up. Keep the unit that they were "
                "bought for, or take a schema without them"
            )


def _methods_with(duty: str, least: int = 1, *, group: str = GENERATORS) -> list[str]:
    """The names of the methods that fulfil a duty, by so much where it is a number."""
    found = []
    for name in (plugin.name for plugin in plugins(group)):
        with suppress(PluginError, MissingExtraError):
            if getattr(Duties(find(group, name)), duty) >= least:
                found.append(name)
    return found


def _of_population(synthesis: Synthesis, config: Any, schema: Schema, noise: Noise) -> Synthesis:
    """Where rows counted with survey weights: counts of the population, and rows drawn from it."""
    survey, model = schema.survey_weight, synthesis.model
    if survey is None or model is None:
        return synthesis
    notes = dict(synthesis.notes)
    units = model.meta.get("pgm", {}).get("total") or notes["estimated_rows"]
    population = float(units) * survey.bound
    rows = Duties(config).rows or int(min(max(round(population), 1), MOST_STANDING))
    notes |= {"estimated_population": round(population), "estimated_rows": rows}
    if (off := notes.pop("estimated_rows_sd", None)) is not None:
        notes["estimated_population_sd"] = off * survey.bound
    measured = [
        replace(m, values=m.values * survey.bound, sigma=m.sigma * survey.bound)
        for m in synthesis.measurements
    ]
    if survey.keep:
        standing = StandingColumn(name=survey.column, total=round(population, 3))
        schema = schema.model_copy(update={"made": (*schema.made, standing)})
    return replace(
        synthesis,
        frame=draw(model, schema, rows, noise.post),
        model=replace(model, meta={**model.meta, "rows": rows}),
        measurements=measured,
        notes=notes,
        schema=schema if survey.keep else synthesis.schema,
    )


def _as_rows(synthesis: Synthesis, config: Any, schema: Schema, noise: Noise) -> Synthesis:
    """Where persons were counted, the rows that a table of them has."""
    synthesis = _of_population(synthesis, config, schema, noise)
    unit = schema.unit
    if unit is None:
        return synthesis
    persons = float(synthesis.notes.get("estimated_rows") or len(synthesis.frame))
    rows = rows_for(synthesis.frame, unit, persons)
    notes = {**synthesis.notes, "estimated_persons": round(persons), "estimated_rows": rows}
    frame, model = synthesis.frame, synthesis.model
    if unit.max_rows > 1:
        if model is None:
            raise PluginError(
                f"method '{config.name}' broke its contract: it counts persons and gives no model "
                "to draw their rows from"
            )
        wanted = Duties(config).rows or rows
        frame = draw(model, schema, wanted, noise.post)
    return replace(synthesis, frame=frame, notes=notes)


def digest(schema: Schema | LinkedSchema) -> str:
    """A hash of a schema, by which a run that goes on knows it again."""
    return hashlib.sha256(schema.to_json().encode()).hexdigest()


def _check_table(
    table: PrivateTable | None, release: Release, config: WeightConfig
) -> PrivateTable:
    if table is None:
        raise UsageError(f"method ({config.name}) needs the private table: name it with --data")
    if table.schema != release.schema:
        raise UsageError(
            "schema of the private table must be that of the release: open the table with the "
            "release's schema.json"
        )
    check_split(table, release.statement)
    return table


def _run(
    mechanism: Any,
    config: Any,
    table: PrivateTable | None,
    budget: Budget,
    check: Callable[[Any], str],
    *,
    noise: Noise,
    run: str,
    progress: Progress | None,
    recorder: RunRecorder | None,
    facts: Mapping[str, Any],
    references: Sequence[Reference] = (),
    mend: Callable[[Any, Any], Any] = lambda found, visit: found,
) -> tuple[Any, Any]:
    """Charge and call a mechanism; whatever stops it, say what was spent and how to go on.

    Returns what it gave and the paid visit, or None where nothing had to be paid. ``check`` says
    how a result breaks the contract, once ``mend`` has changed it; by the ``facts`` a run that goes
    on is known again.
    """
    charges, method = tuple(mechanism.cost), f"method '{config.name}'"
    progress = progress or Silent()
    Duties(mechanism).prepare(progress=progress)
    if recorder is not None:
        recorder.describe(method=config.name, parameters=config_to_json(config), **facts)

    def perform(rows: Visit | Unprotected | None) -> Any:
        found = mend(mechanism(rows, progress=progress), rows)
        if broken := check(found):
            raise PluginError(f"{method} broke its contract: {broken}")
        return found

    if not charges:
        # Only an estimator that says that it protects nobody is handed rows that it did not pay.
        private = Duties(config).private
        view = None if private or table is None else table.unprotected("weights")
        with explained(str, method):
            return perform(view), None
    assert table is not None
    with table.paid_visit(
        charges,
        noise=noise,
        delta=budget.delta,
        run=run,
        recorder=recorder,
        method=method,
        persons=Duties(config).counts_persons,
    ) as visit:
        if recorder is not None and recorder.may_stop:
            visit.on_first_counts = partial(
                _check_first_counts, visit, table, recorder, budget.delta
            )
        visit.references = references
        return perform(visit), visit


def _check_first_counts(
    visit: Visit,
    table: PrivateTable,
    recorder: RunRecorder,
    delta: float,
    measured: Sequence[Measurement],
    schema: Schema,
) -> None:
    """Stop the run where the first counts show columns that would waste the rest of its budget."""
    found = wasted_counts(measured, schema)
    if not found:
        return
    paid = visit.spent()
    recorder.pause(table.ledger, paid)
    total = compose(paid, delta, visit.neighbours)
    error = StoppedError(
        f"stopped after the first counts: {'; '.join(found)}. Nothing was written. Spent are "
        f"{total}; the rest of the budget is not. Mend the "
        f"schema and start again, or go on with the answers that are paid for: '{recorder.insist}'"
    )
    error.states_spending = True
    raise error
