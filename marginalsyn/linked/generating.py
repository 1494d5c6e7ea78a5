"""A release of linked tables: one budget for all views, charged once, then each view modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.contract import Duties, GeneratorConfig, Measurement, Model
from marginalsyn.errors import UsageError, explained
from marginalsyn.host import check_schema, state_run
from marginalsyn.linked.drawing import ForestModel, whole_model
from marginalsyn.linked.known import Outlook, known_sets
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import View, views_of
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.composition import Total, compose
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.statement import Statement

if TYPE_CHECKING:
    from marginalsyn.access.linked_tables import PrivateForest
    from marginalsyn.access.visit import Visit
    from marginalsyn.contract import Generator
    from marginalsyn.privacy.noise import Noise


# Of a table's share: what later children have. Where rows follow each other, much is to be learnt
# of them; otherwise most is known from the first.
LATER_ORDERED, LATER = 0.5, 0.2


@dataclass(frozen=True)
class Plans:
    """The calibrated mechanism of every view, and what all of them cost.

    Attributes:
        shares: of the budget, by view.
        mechanisms: by view.
        total: what all charges add up to.
    """

    shares: Mapping[str, float]
    mechanisms: Mapping[str, Generator]
    total: Total

    @property
    def charges(self) -> dict[str, list[Charge]]:
        """The charges of every view, each saying which it is for."""
        return {
            name: [c.model_copy(update={"purpose": f"generate {name}"}) for c in mechanism.cost]
            for name, mechanism in self.mechanisms.items()
        }


@dataclass(frozen=True)
class Made:
    """The result of a run: tables, noisy marginals by view, and the model of all views."""

    frames: Mapping[str, pd.DataFrame]
    measurements: Mapping[str, tuple[Measurement, ...]]
    model: Model


def plan_views(tree: LinkedSchema, config: GeneratorConfig, budget: Budget) -> Plans:
    """Share a budget among the views of linked tables and calibrate a mechanism for each.

    Every table has the same share; see :func:`share_of` for the views of one table.

    Raises:
        UsageError: a method that cannot protect persons or keeps no model of marginals, or replace.
    """
    if budget.neighbours is not Neighbours.ADD_REMOVE:
        raise UsageError(
            "neighbours (replace) must be add-remove for linked tables: how many persons have rows "
            "in a table is private"
        )
    known = {field.name for field in fields(config)}  # type: ignore[arg-type]
    if not Duties(config).counts_persons or "given" not in known:
        raise UsageError(
            f"method ({config.name}) cannot make linked tables: it must count persons and model "
            "columns given others. Take aim, auto or clique-tree"
        )
    if getattr(config, "workload", None) is not None:
        raise UsageError("workload must not be given for linked tables: each view has its own")
    views = views_of(tree)
    shares = {view.name: share_of(tree, view) for view in views}
    mechanisms = {}
    for view in views:
        names = tuple(column.name for column in view.given)
        own: dict[str, Any] = {"known": known_sets(tree, view)} if "known" in known else {}
        if "sweeps" in known:
            own["sweeps"] = 0  # rows are drawn given other views: exact models do that
        chosen: Any = replace(config, given=names, rows=1, **own)  # type: ignore[type-var]
        mechanisms[view.name] = chosen.configure(view.schema, budget.part(shares[view.name]))
    charges = [charge for mechanism in mechanisms.values() for charge in mechanism.cost]
    charges = [*_bought(tree), *charges]
    return Plans(shares, mechanisms, compose(charges, budget.delta, budget.neighbours))


def share_of(tree: LinkedSchema, view: View) -> float:
    """A view's share of the budget: that of its table, of which later children have a part."""
    table, whole = tree.table(view.table), 1 / len(tree.tables)
    if view.kind == "root" or table.max_children == 1:
        return whole
    later = LATER_ORDERED if table.order else LATER
    return whole * (later if view.kind == "next" else 1 - later)


def generate_linked(
    forest: PrivateForest,
    config: GeneratorConfig,
    budget: Budget,
    *,
    noise: Noise,
    progress: Progress | None = None,
    persons: int | None = None,
    accept_nonprivate_schema: bool = False,
    run: str = "",
) -> tuple[Made, Statement]:
    """Make tables of persons who are not there: charge, model every view, draw from the root down.

    Args:
        forest: the door to the private tables; its ledger is charged.
        config: the public knobs of a generator of marginals.
        budget: what may be spent on all tables together.
        noise: ``make_noise()``, or a seeded one for research.
        progress: receives what happens; silent by default.
        persons: how many to draw; by default a noisy estimate of their number.
        accept_nonprivate_schema: run although the schema was drafted from the private rows.
        run: a name for the ledger's entry; public.

    Returns:
        What was made, and the statement of what it cost.

    Raises:
        SchemaError: the schema was drafted from data and that was not accepted.
        BudgetError: the ledger's cap does not allow it; nothing was read.
    """
    progress = progress or Silent()
    tree = forest.tree
    check_schema(tree, accept_nonprivate_schema=accept_nonprivate_schema)  # type: ignore[arg-type]
    plans = plan_views(tree, config, budget)
    charges = plans.charges
    visits = forest.charge(
        charges, noise=noise, delta=budget.delta, run=run or f"generate {config.name}"
    )
    spent = compose([c for found in charges.values() for c in found], budget.delta)
    models: dict[str, Model] = {}
    measured: dict[str, tuple[Measurement, ...]] = {}
    warnings: list[str] = []
    notes: dict[str, Any] = {"views": {}, "shares": dict(plans.shares)}
    outlook = Outlook(tree, budget.rho / len(tree.tables), noise.post)
    with explained(lambda: f"{spent} were spent and stay so", f"method '{config.name}'"):
        for view in views_of(tree):
            progress.report("view", text=view.name)
            with visits[view.name] as visit:
                visit.known = outlook.known(view)
                made = plans.mechanisms[view.name](visit, progress=progress)
            assert made.model is not None
            rows = float(made.notes["estimated_rows"])
            models[view.name] = outlook.learn(view, made.model, rows)
            measured[view.name] = tuple(made.measurements)
            warnings += [f"{view.name}: {warning}" for warning in made.warnings]
            notes["views"][view.name] = {
                key: made.notes[key] for key in ("estimated_rows",) if key in made.notes
            }
        progress.report("generate", text="rows")
        number = persons or int(notes["views"][tree.root.name]["estimated_rows"])
        frames = ForestModel(tree, models).draw(number, noise.post)
    notes["estimated_persons"] = notes["views"][tree.root.name]["estimated_rows"]
    statement = state_run(
        config,
        budget,
        noise,
        bought=_bought(tree),
        charges=[charge for found in charges.values() for charge in found],
        total=plans.total,
        payments=_payments(visits),
        # All visits draw from one noise and were made at once: each has seen what all drew.
        samplers=next(iter(visits.values())).samplers,
        libraries={k: v for visit in visits.values() for k, v in visit.libraries.items()},
        holdout=forest.holdout,
        persons=tree.family,
        schema_drafted=tree.drafted_from_data,
        warnings=warnings,
        notes=notes,
    )
    return Made(frames, measured, whole_model(models)), statement


def _payments(visits: Mapping[str, Visit]) -> list[dict[str, Any]]:
    """Every payment, with the view that it was for."""
    return [
        {**payment, "view": name} for name, visit in visits.items() for payment in visit.payments
    ]


def _bought(tree: LinkedSchema) -> list[Charge]:
    """What was spent on the schemas themselves."""
    return [charge for t in tree.tables if t.schema is not None for charge in t.schema.charges]
