"""A release of linked tables: one budget for all views, each modelled, rows drawn from the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import Calibrated, Duties, LinkedSynthesis, Measurement, Model, Plan
from marginalsyn.errors import UsageError
from marginalsyn.linked.drawing import ForestModel, whole_model
from marginalsyn.linked.known import Outlook, known_sets
from marginalsyn.people.views import View, views_of
from marginalsyn.privacy.charges import Neighbours

if TYPE_CHECKING:
    from marginalsyn.access.visit import Judge, Visit
    from marginalsyn.contract import Generator
    from marginalsyn.people.tree import LinkedSchema
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.progress import Progress


# Of a table's share: what later children have. Where rows follow each other, much is to be learnt
# of them; otherwise most is known from the first.
LATER_ORDERED, LATER = 0.5, 0.2


@dataclass(frozen=True, kw_only=True)
class LinkedGenerator(Calibrated):
    """Calibrated: a generator of marginals for each view of linked tables, which share a budget.

    Every table has the same share; see :func:`share_of` for the views of one table.

    Raises:
        UsageError: a method that cannot protect persons or keeps no model of marginals, or replace.
    """

    schema: LinkedSchema  # type: ignore[assignment]

    def __post_init__(self) -> None:
        config = self.config
        if self.budget.neighbours is not Neighbours.ADD_REMOVE:
            raise UsageError(
                "neighbours (replace) must be add-remove for linked tables: how many persons have "
                "rows in a table is private"
            )
        if not Duties(config).counts_persons or "given" not in self._knobs:
            raise UsageError(
                f"method ({config.name}) cannot make linked tables: it must count persons and "
                "model columns given others. Take aim, auto or clique-tree"
            )
        if vars(config).get("workload") is not None:
            raise UsageError("workload must not be given for linked tables: each view has its own")

    @cached_property
    def views(self) -> list[View]:
        """The views, parents before children."""
        return views_of(self.schema)

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of the budget that each view has."""
        return {view.name: share_of(self.schema, view) for view in self.views}

    @cached_property
    def mechanisms(self) -> dict[str, Generator]:
        """The calibrated mechanism of every view."""
        found = {}
        for view in self.views:
            names = tuple(column.name for column in view.given)
            own: dict[str, Any] = {"given": names, "rows": 1}
            if "known" in self._knobs:
                own["known"] = known_sets(self.schema, view)
            if "sweeps" in self._knobs:
                own["sweeps"] = 0  # rows are drawn given other views: exact models do that
            part = self.budget.part(self.shares[view.name])
            found[view.name] = replace(self.config, **own).configure(view.schema, part)
        return found

    @cached_property
    def charges(self) -> dict[str, tuple[Charge, ...]]:
        """The charges of every view, each saying which it is for."""
        return {
            name: tuple(c.model_copy(update={"purpose": f"generate {name}"}) for c in one.cost)
            for name, one in self.mechanisms.items()
        }

    @property
    def cost(self) -> tuple[Charge, ...]:
        return tuple(charge for own in self.charges.values() for charge in own)

    @property
    def plan(self) -> Plan:
        """The plans of all views as one; a fact on which they differ is given by view."""
        plans = {name: one.plan for name, one in self.mechanisms.items()}
        sizes = [plan.model_mb for plan in plans.values() if plan.model_mb is not None]
        facts = {}
        for fact in dict.fromkeys(name for plan in plans.values() for name in plan.facts):
            known = {name: plan.facts[fact] for name, plan in plans.items() if fact in plan.facts}
            first = next(iter(known.values()))
            alike = all(value == first for value in known.values())
            facts[fact] = first if alike else known
        return Plan(
            split={name: share * self.budget.gaussian for name, share in self.shares.items()},
            workload=tuple(columns for plan in plans.values() for columns in plan.workload),
            model_mb=max(sizes) if len(sizes) == len(plans) else None,
            facts=facts,
            warnings=[f"{name}: {line}" for name, plan in plans.items() for line in plan.warnings],
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> LinkedSynthesis:
        """Measure and model every view, then draw persons and all that belongs to them."""
        tree, post = self.schema, visit.noise.post
        models: dict[str, Model] = {}
        measured: dict[str, Sequence[Measurement]] = {}
        warnings: list[str] = []
        rows: dict[str, Any] = {}
        outlook = Outlook(tree, self.budget.gaussian / len(tree.tables), post)
        for view in self.views:
            progress.report("view", text=view.name)
            with visit.view(view.name, self.charges[view.name]) as one:
                one.known, one.on_first_counts = (
                    outlook.known(view),
                    _of_values(view, visit.on_first_counts),
                )
                made = self.mechanisms[view.name](one, progress=progress)
            assert made.model is not None
            rows[view.name] = made.notes["estimated_rows"]
            models[view.name] = outlook.learn(view, made.model, float(rows[view.name]))
            measured[view.name] = tuple(made.measurements)
            warnings += [f"{view.name}: {warning}" for warning in made.warnings]
        progress.report("generate", text="rows")
        persons = rows[tree.root.name]
        frames = ForestModel(tree, models).draw(self.config.rows or int(persons), post)
        return LinkedSynthesis(
            frame=frames[tree.root.name],
            frames=frames,
            measurements=measured,
            model=whole_model(models),
            warnings=warnings,
            notes={
                "views": {name: {"estimated_rows": number} for name, number in rows.items()},
                "shares": self.shares,
                "estimated_persons": persons,
            },
        )

    @property
    def _knobs(self) -> set[str]:
        return {field.name for field in fields(self.config)}


def _of_values(view: View, judge: Judge | None) -> Judge | None:
    """A judge of first counts that is shown values alone: numbers and gaps may lie at an end."""
    if judge is None:
        return None
    names = {column.name for column in view.own if column.part == "value"}
    return lambda counts, schema: judge([c for c in counts if {*c.columns} <= names], schema)


def share_of(tree: LinkedSchema, view: View) -> float:
    """A view's share of the budget: that of its table, of which later children have a part."""
    table, whole = tree.table(view.table), 1 / len(tree.tables)
    if view.kind == "root" or table.max_children == 1:
        return whole
    later = LATER_ORDERED if table.order else LATER
    return whole * (later if view.kind == "next" else 1 - later)
