"""A release of linked tables: one budget for all views, each modelled, rows drawn from the root.

Marginals of a later view's given columns that follow from earlier views, at no cost.

The columns of ancestors stand in the root's view, and again in the view of every child. What was
bought of them there need not be bought again here: persons are drawn from the models so far, many
of them, and counted as the view counts. That is post-processing, like all that follows.

Siblings that stand in no order are exchangeable. So what goes with the first of them goes with the
later ones, too: of a later one only what it has in common with its sibling has to be bought.

A later row is drawn given the row before, which was drawn itself. Where the model is off a little,
for noise or because it does not hold every relation, rows drift: far down a chain single columns
have other shares than the model of all later rows says. So persons are drawn, their columns are
counted as the view counts, and the column's own weights in the model are moved by a part of what
is lacking, a few times. Single columns are moved, and how often a value stays: pairs moved all at
once do not settle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from marginalsyn.access.visit import Judge, Visit
from marginalsyn.contract import (
    KNOWN,
    Calibrated,
    Duties,
    Generator,
    LinkedSynthesis,
    Measurement,
    Model,
    Plan,
)
from marginalsyn.errors import UsageError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.model import Fitted
from marginalsyn.linked.drawing import ForestModel, Rows, whole_model
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import View, views_of
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.keeping import record_redrawn

Columns = tuple[str, ...]
# Persons that are drawn to count by, at least and at most.
LEAST, MOST = 20_000, 100_000
# Parents whose chains of children are drawn to see whether they drift.
CHAINS = 2_000
Shares = Mapping[Columns, np.ndarray]
# How many times, how far each time, and what keeps rare codes from being moved far.
ROUNDS, DAMPING, FLOOR = 5, 0.5, 2e-3


def known_sets(tree: LinkedSchema, view: View) -> tuple[Columns, ...]:
    """Columns of a view whose marginals are known from earlier views, set by set."""
    if view.kind == "root":
        return ()
    above = tuple(c.name for c in view.given if c.part != "before")
    if view.kind == "first":
        return (above,)
    before = tuple(c.name for c in view.given if c.part == "before")
    if tree.table(view.table).order:
        return (above,)
    return ((*above, *(c.name for c in view.own if c.part != "same")), (*above, *before))


class Outlook:
    """Persons drawn from the models so far, whose marginals are known in the views to come.

    What a table has of the budget, ``rho``, says about how far off marginals are.
    """

    def __init__(self, tree: LinkedSchema, rho: float, rng: np.random.Generator) -> None:
        self._tree, self._rng = tree, rng
        # As if a table's budget had been shared by twice as many marginals as it has columns.
        columns = len(views_of(tree)[0].own)
        self._sigma = gaussian_sigma(rho / (2 * columns), 1.0)
        self._models: dict[str, Model] = {}
        self._rows: dict[str, Rows] = {}
        self._scale = 1.0

    def learn(self, view: View, model: Model, rows: float) -> Model:
        """Take up the model of a view, and return it: moved, where rows follow each other."""
        self._models[view.name] = model
        if view.kind == "next":
            self._models[view.name] = calibrate_chain(model, lambda moved: self._drawn(view, moved))
        if view.kind == "root":
            number = int(min(max(rows, LEAST), MOST))
            self._scale = rows / number
            self._rows[view.name] = self._forest.persons(number, self._rng)
        return self._models[view.name]

    def known(self, view: View) -> list[Measurement]:
        """One- and two-way marginals of a view that follow from the models so far."""
        sets = known_sets(self._tree, view)
        if not sets:
            return []
        table = self._tree.table(view.table)
        parents = self._table(str(table.parent))
        least = 1 if view.kind == "first" else 2
        numbers = self._forest.numbers(view.table, parents, self._rng)
        who = np.flatnonzero(numbers >= least)
        codes = self._forest.above(view.table, who, self._rows)
        if len(sets) > 1:
            drawn = self._forest.step(view.table, 0, who, self._rows, None, None, self._rng).codes
            codes.update(drawn)
            codes.update({f"{name} before": values for name, values in drawn.items()})
        weights = self._weights(str(table.parent), who) * self._scale
        sizes = view.schema.domain
        found = {}
        for names in sets:
            order = [name for name in sizes if name in names]
            for count in (1, 2):
                for columns in itertools.combinations(order, count):
                    if columns in found:
                        continue
                    shape = tuple(sizes[name] for name in columns)
                    index = np.ravel_multi_index(tuple(codes[name] for name in columns), shape)
                    values = np.bincount(index, weights, int(np.prod(shape))).reshape(shape)
                    found[columns] = Measurement(
                        columns=columns, values=values, sigma=self._sigma, purpose=KNOWN
                    )
        return list(found.values())

    def _drawn(self, view: View, model: Model) -> dict[Columns, np.ndarray]:
        """The shares that rows drawn from a view's model have, as the view counts."""
        rng = np.random.default_rng(0)  # the same draws every time, so that models compare
        forest = ForestModel(self._tree, {**self._models, view.name: model}, partial=True)
        above = self._table(str(self._tree.table(view.table).parent))
        who = np.flatnonzero(forest.numbers(view.table, above, rng) > 1)
        who = rng.permutation(who)[:CHAINS]
        rows = forest.children(view.table, self._rows, rng, only=who)
        order = np.lexsort((rows.place, rows.parent))
        later = order[rows.place[order] > 0]
        before = order[np.flatnonzero(rows.place[order] > 0) - 1]
        weights = self._weights(view.table, later, rows)
        merges = forest.view(view.name).compression.merges
        found = {}

        def add(columns: Columns, codes: np.ndarray, size: int) -> None:
            counts = np.bincount(codes, weights, size)
            found[columns] = counts / max(float(counts.sum()), 1e-9)

        for column in view.own:
            if column.part == "gap":
                continue
            merge = merges[column.name]
            if column.part == "same":
                stays = rows.origin[f"{view.table}.{column.source}"] != np.arange(rows.count)
                add((column.name,), merge.groups[stays[later].astype(np.int64)], merge.size)
                continue
            now = merge.groups[rows.codes[column.name]]
            add((column.name,), now[later], merge.size)
            earlier = f"{column.name} before"
            if np.array_equal(merges[earlier].groups, merge.groups):
                add((earlier, column.name), (now[later] != now[before]).astype(np.int64), 2)
        return found

    @property
    def _forest(self) -> ForestModel:
        return ForestModel(self._tree, self._models, partial=True)

    def _table(self, name: str) -> Rows:
        if name not in self._rows:
            self._table(str(self._tree.table(name).parent))
            self._rows[name] = self._forest.children(name, self._rows, self._rng)
        return self._rows[name]

    def _weights(self, name: str, who: np.ndarray, own: Rows | None = None) -> np.ndarray:
        """What rows of a table weigh where they share their persons' units among them."""
        weights = np.ones(len(who))
        for table in reversed(self._tree.path(name)[1:]):
            rows_of = own if own is not None and table.name == name else self._rows[table.name]
            parent = rows_of.parent
            rows = np.unique(who)
            shares = 1 / np.bincount(parent[rows], minlength=parent.max(initial=0) + 1).clip(1)
            weights *= shares[parent[who]]
            who = parent[who]
        return weights


def calibrate_chain(model: Model, drawn: Callable[[Model], Shares]) -> Model:
    """The model, moved until rows that are drawn from it have its shares of single columns.

    Args:
        model: of later rows.
        drawn: of chains drawn from a model, the shares of merged codes by column, and by pairs of a
            column before and now those of rows that stay and of rows that do not.

    Returns:
        The model whose chains came nearest; the one given, if no move helped.
    """
    fitted, _ = stored_model(model)
    found = drawn(model)
    cliques = [{*clique} for clique in fitted.cliques]
    aims = {
        columns: shares_of(fitted.marginal(columns))
        for columns in found
        if any({*columns} <= clique for clique in cliques)
    }
    best, least = model, _off(aims, found)
    for _ in range(ROUNDS):
        potentials = fitted.potentials
        for columns, aim in aims.items():
            ratio = DAMPING * np.log((aim + FLOOR) / (found[columns] + FLOOR))
            if len(columns) == 2:
                size = fitted.domain[columns[0]]
                ratio = np.where(np.eye(size, dtype=bool), ratio[0], ratio[1])
            potentials[columns] = potentials.get(columns, 0.0) + ratio
        fitted = Fitted.of_potentials(fitted.domain, potentials, total=fitted.total)
        arrays, meta = fitted.arrays()
        kept = {k: v for k, v in model.arrays.items() if not k.startswith("pgm_")}
        kept.update({f"pgm_{name}": array for name, array in arrays.items()})
        moved = replace(model, arrays=kept, meta={**model.meta, "pgm": meta})
        found = drawn(moved)
        if (off := _off(aims, found)) < least:
            best, least = moved, off
    return best


def shares_of(counts: np.ndarray) -> np.ndarray:
    """Shares of one column's codes; of a pair, those of rows that stay and of rows that do not."""
    shares = counts / max(float(counts.sum()), 1e-9)
    if shares.ndim == 1:
        return shares
    same = float(np.trace(shares))
    return np.array([same, 1 - same])


def _off(aims: Shares, found: Shares) -> float:
    """The sum of total variation distances of all columns."""
    return sum(float(np.abs(aim - found[columns]).sum()) / 2 for columns, aim in aims.items())


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
        models = {}
        measured = {}
        warnings = []
        rows = {}
        outlook = Outlook(tree, self.budget.gaussian / len(tree.tables), post)
        for view in self.views:
            progress.report("view", text=view.name)
            # What views draw for themselves is not released, nor counted.
            with record_redrawn(), visit.view(view.name, self.charges[view.name]) as one:
                one.known, one.on_first_counts = (
                    outlook.known(view),
                    _of_values(view, visit.on_first_counts),
                )
                made = self.mechanisms[view.name](one, progress=progress)
            assert made.model is not None
            rows[view.name] = made.notes["estimated_rows"]
            with record_redrawn():
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
