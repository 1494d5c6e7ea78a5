"""Rows of linked tables, from the models of their views: post-processing.

Persons come from the root's view, with their numbers of children. First children are drawn given
their ancestors; every later one given its ancestors and the child before it. What repeats the value
before is drawn first, so that the rest agrees with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import MAX_ROWS, Model, check_rows
from marginalsyn.errors import PluginError, ReleaseError, UsageError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.conditional import ConditionalDraws
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import View, count_name, joined_schema, own_columns, renamed, views_of
from marginalsyn.release.linked import LinkedRelease, tree_problems
from marginalsyn.table import decoding
from marginalsyn.table.codec import Codec
from marginalsyn.table.conditions import Condition, read_conditions
from marginalsyn.table.keeping import (
    broken_by,
    keep_codes,
    keep_rules,
    note_left_out,
    note_redrawn,
    values_of,
)
from marginalsyn.table.made import complete
from marginalsyn.table.numeric import IntegerColumn, NumberColumn
from marginalsyn.table.rules import Cells
from marginalsyn.table.schema import AnyColumn


class ViewModel:
    """The model of one view: draws its own columns given the others."""

    def __init__(self, view: View, model: Model) -> None:
        if "pgm" not in model.meta:
            raise ReleaseError(f"model of view {view.name} must be one of marginals")
        self.view = view
        self.fitted, self.compression = stored_model(model)
        if list(self.compression.merges) != view.schema.names:
            raise ReleaseError(f"model of view {view.name} must have the view's columns")
        self._own = [column.name for column in view.own]
        self._same = {c.name: f"{view.table}.{c.source}" for c in view.own if c.part == "same"}

    def rows(
        self, n: int | None, rng: np.random.Generator, conditions: Mapping[str, Condition]
    ) -> dict[str, np.ndarray]:
        """Codes of rows of the root's view that agree with conditions."""
        fitted, compression = self.fitted, self.compression
        if conditions:
            weights = {name: condition.weights for name, condition in conditions.items()}
            compression, evidence = compression.narrowed(weights)
            fitted = fitted.given(evidence)
        count = int(min(max(1, round(fitted.total)), MAX_ROWS)) if n is None else n
        codes = compression.refine(fitted.rows(count, rng), rng)
        return {name: codes[:, j] for j, name in enumerate(compression.merges)}

    def draw(
        self, known: Mapping[str, np.ndarray], rows: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Codes of the own columns, given those of all others."""
        merges = self.compression.merges
        merged = {name: merges[name].groups[codes] for name, codes in known.items()}
        if not self._same:
            return self._refined(self._draws.draw(merged, rows, rng), rng)
        flags = self._draws.draw(merged, rows, rng)
        merged.update({name: flags[name] for name in self._same})
        for name, column in self._same.items():
            merged[f"{column} rule"] = self._rule(column, known, flags[name])
        rest = {**self._given_same.draw(merged, rows, rng)}
        found = self._refined({**rest, **{name: flags[name] for name in self._same}}, rng)
        for name, column in self._same.items():
            again = found[name] == 1
            found[column][again] = known[f"{column} before"][again]
        return found

    def _rule(self, column: str, known: Mapping[str, np.ndarray], same: np.ndarray) -> np.ndarray:
        """The code that a column must, or must not, have, by whether it repeats the one before."""
        merge = self.compression.merges[column]
        before = merge.groups[known[f"{column} before"]].astype(np.int64)
        alone = np.bincount(merge.groups, minlength=merge.size) == 1
        free = 2 * merge.size
        other = np.where(alone[before] & (merge.size > 1), before, free)
        return np.where(same == 1, before + merge.size, other)

    @cached_property
    def _draws(self) -> ConditionalDraws:
        return ConditionalDraws(self.fitted, self._own)

    @cached_property
    def _given_same(self) -> ConditionalDraws:
        extra, more = [], {}
        for column in self._same.values():
            size = self.compression.merges[column].size
            allowed = np.ones((size, 2 * size + 1))
            allowed[:, :size] -= np.eye(size)
            allowed[:, size:-1] = np.eye(size)
            with np.errstate(divide="ignore"):
                extra.append(((column, f"{column} rule"), np.log(allowed)))
            more[f"{column} rule"] = 2 * size + 1
        own = [name for name in self._own if name not in self._same]
        return ConditionalDraws(self.fitted, own, extra, more)

    def _refined(
        self, merged: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        merges = {name: self.compression.merges[name] for name in merged}
        codes = np.column_stack(list(merged.values()))
        fine = Compression(merges).refine(codes, rng)
        return {name: fine[:, j] for j, name in enumerate(merges)}


def amounts_in(column: AnyColumn, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number for each code of a numeric column, drawn evenly in its bin; NaN where missing."""
    assert isinstance(column, NumberColumn)
    absent = codes >= column.levels
    bins = np.where(absent, 0, codes)
    low, high = column.edges[bins], column.edges[bins + 1]
    drawn = low + rng.random(len(bins)) * (high - low)
    if isinstance(column, IntegerColumn):
        drawn = np.minimum(np.floor(drawn), high - 1)
    return np.where(absent, np.nan, drawn)


def codes_of(column: NumberColumn, amounts: np.ndarray) -> np.ndarray:
    """The codes of numbers."""
    settled = decoding.settle(column, np.where(np.isfinite(amounts), amounts, column.lower))
    return np.where(np.isfinite(amounts), column.bins_of(settled), column.absent_code).astype(
        np.int32
    )


@dataclass
class Rows:
    """Drawn rows of one table.

    Attributes:
        codes: by the columns' names in views.
        parent: the row of the parent table; of the root, its own number.
        place: among the children of that row.
        origin: by column, the row whose value it has: its own, or an earlier one that it repeats.
        amounts: of the column of the order, the numbers themselves.
    """

    codes: dict[str, np.ndarray]
    parent: np.ndarray
    place: np.ndarray
    origin: dict[str, np.ndarray]
    amounts: np.ndarray | None = None

    @property
    def count(self) -> int:
        return len(self.parent)

    def take(self, rows: np.ndarray, parent: np.ndarray, origin: dict[str, np.ndarray]) -> Rows:
        """Some of the rows, by place or mask, with their parents and origins as given."""
        return Rows(
            {key: codes[rows] for key, codes in self.codes.items()},
            parent,
            self.place[rows],
            origin,
            None if self.amounts is None else self.amounts[rows],
        )


class ForestModel:
    """The models of all views of linked tables.

    Example:
        >>> from marginalsyn import LinkedRelease
        >>> release = LinkedRelease.read("clinic-release")
        >>> models = models_of(release.model(), views_of(release.tree))
        >>> frames = ForestModel(release.tree, models).draw(100, np.random.default_rng())
        >>> list(frames)
        ['patients', 'visits']
    """

    def __init__(
        self, tree: LinkedSchema, models: Mapping[str, Model], *, partial: bool = False
    ) -> None:
        self.tree = tree
        lacking = [view.name for view in views_of(tree) if view.name not in models]
        if lacking and not partial:
            raise ReleaseError(f"model must have view {lacking[0]!r}")
        self._views = {
            v.name: ViewModel(v, models[v.name]) for v in views_of(tree) if v.name in models
        }

    def draw(
        self,
        persons: int | None,
        rng: np.random.Generator,
        conditions: Mapping[str, Condition] | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Tables of so many persons, with new keys, every child with a parent.

        None draws as many persons as the model estimates; ``conditions`` are by column of the
        root's view.
        """
        check_rows(persons)
        rows = {self.tree.root.name: self.persons(persons, rng, conditions)}
        for table in self.tree.tables[1:]:
            rows[table.name] = self.children(table.name, rows, rng)
        self._sort(rows)
        values: dict[str, pd.DataFrame] = {}
        for table in self.tree.tables:
            found = self._values(table.name, rows, rng, conditions)
            values[table.name], kept = self._kept(table.name, found, rows, values, rng, conditions)
            if not kept.all():
                note_left_out(table.name, int((~kept).sum()))
                self._leave_out(table.name, kept, rows)
        return {t.name: self._frame(t.name, rows[t.name], values[t.name]) for t in self.tree.tables}

    def view(self, name: str) -> ViewModel:
        """The model of one view."""
        return self._views[name]

    def persons(
        self,
        number: int | None,
        rng: np.random.Generator,
        conditions: Mapping[str, Condition] | None = None,
    ) -> Rows:
        """So many rows of the root."""
        model = self._views[self.tree.root.name]
        codes = model.rows(number, rng, conditions or {})
        schema, names = model.view.schema, list(codes)
        if schema.rules:
            drawn = np.column_stack([codes[name] for name in schema.names])

            def again(n: int) -> np.ndarray:
                return np.column_stack([*model.rows(n, rng, conditions or {}).values()])

            drawn = keep_codes(schema, drawn, again, rng)
            codes = {name: drawn[:, place] for place, name in enumerate(names)}
        number = len(next(iter(codes.values())))
        own = {name: np.arange(number) for name in codes}
        return Rows(codes, np.arange(number), np.zeros(number, dtype=int), own)

    def children(
        self,
        name: str,
        rows: Mapping[str, Rows],
        rng: np.random.Generator,
        only: np.ndarray | None = None,
    ) -> Rows:
        """All rows of a child table: the first of each parent, then those after it.

        ``only`` names the rows of the parent whose children are drawn; all of them by default.
        """
        table = self.tree.table(name)
        wanted = self.numbers(name, rows[str(table.parent)], rng)
        if only is not None:
            chosen = np.zeros(len(wanted), dtype=bool)
            chosen[only] = True
            wanted = np.where(chosen, wanted, 0)
        if wanted.sum() > MAX_ROWS:
            raise UsageError(f"rows must give at most {MAX_ROWS:,} rows of {name}: take fewer")
        order = self._order(name)
        steps: list[Rows] = []
        who, offset = np.flatnonzero(wanted > 0), 0
        for place in range(int(wanted.max(initial=0))):
            before = None
            if place:
                kept = wanted[who] > place
                before, who = np.flatnonzero(kept), who[kept]
            made = self.step(name, place, who, rows, steps[-1] if steps else None, before, rng)
            if before is not None:
                last = steps[-1]
                for known, origin in made.origin.items():
                    again = origin < 0
                    own = offset + np.arange(len(who))
                    made.origin[known] = np.where(again, last.origin[known][before], own)
            steps.append(made)
            offset += made.count
        if not steps:
            return self.step(name, 0, who, rows, None, None, rng)
        return Rows(
            {key: np.concatenate([s.codes[key] for s in steps]) for key in steps[0].codes},
            np.concatenate([s.parent for s in steps]),
            np.concatenate([s.place for s in steps]),
            {key: np.concatenate([s.origin[key] for s in steps]) for key in steps[0].origin},
            np.concatenate([s.amounts for s in steps if s.amounts is not None]) if order else None,
        )

    def numbers(self, name: str, parents: Rows, rng: np.random.Generator) -> np.ndarray:
        """How many rows of a table each row of its parent has."""
        known = own_columns(self.tree, str(self.tree.table(name).parent))
        column = next(c.column for c in known if c.name == count_name(name))
        codes = parents.codes[column.name]
        return decoding.decode(column, codes, rng).to_numpy(dtype=np.int64)

    def step(
        self,
        name: str,
        place: int,
        who: np.ndarray,
        rows: Mapping[str, Rows],
        last: Rows | None,
        before: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Rows:
        """The children at one place of the parents ``who``."""
        model = self._views[f"{name} next" if place else f"{name} first"]
        known = self.above(name, who, rows)
        if place and last is not None:
            known.update({f"{key} before": codes[before] for key, codes in last.codes.items()})
        needed = {column.name for column in model.view.given}
        given = {k: v for k, v in known.items() if k in needed}
        drawn = model.draw(given, len(who), rng)
        self._redraw(model, given, drawn, rng)
        order = self._order(name)
        amounts = None
        if order is not None and not place:
            amounts = amounts_in(order, drawn[order.name], rng)
        elif order is not None and last is not None and last.amounts is not None:
            gap = next(c.column for c in model.view.own if c.part == "gap")
            amounts = last.amounts[before] + amounts_in(gap, drawn.pop(gap.name), rng)
            amounts = np.minimum(amounts, order.upper)
            drawn[order.name] = codes_of(order, amounts)
        origin = {key: np.arange(len(who)) for key in drawn}
        for column in model.view.own:
            if column.part == "same":
                again = drawn.pop(column.name) == 1
                origin.pop(column.name)
                source = f"{name}.{column.source}"
                origin[source] = np.where(again, -1, origin[source])
        return Rows(drawn, who, np.full(len(who), place), origin, amounts)

    @staticmethod
    def _redraw(
        model: ViewModel,
        given: Mapping[str, np.ndarray],
        drawn: dict[str, np.ndarray],
        rng: np.random.Generator,
    ) -> None:
        """Draw children again whose codes break a rule, given the same ancestors."""
        rules = model.view.schema.kept_rules
        bad = np.arange(len(next(iter(drawn.values()))))
        for trial in range(50 if rules else 0):
            cells = Cells({key: codes[bad] for key, codes in {**given, **drawn}.items()})
            wrong = np.any([rule.broken(cells) for rule in rules], axis=0)
            if trial == 0:
                note_redrawn(rules, cells)
            bad = bad[wrong]
            if not bad.size:
                break
            fresh = model.draw({key: codes[bad] for key, codes in given.items()}, len(bad), rng)
            for key, codes in fresh.items():
                drawn[key][bad] = codes

    def above(self, name: str, who: np.ndarray, rows: Mapping[str, Rows]) -> dict[str, np.ndarray]:
        """The codes of the ancestors of each row."""
        known = {}
        for table in reversed(self.tree.path(name)[:-1]):
            found = rows[table.name]
            known.update({key: codes[who] for key, codes in found.codes.items()})
            who = found.parent[who]
        return known

    def _order(self, name: str) -> NumberColumn | None:
        """The column by whose gaps rows of a table follow each other, as the views name it."""
        order = self.tree.table(name).order
        for column in self._views[f"{name} first"].view.own:
            if column.part == "value" and column.source == order:
                kind = column.column
                return kind if isinstance(kind, NumberColumn) else None
        return None

    def _sort(self, rows: dict[str, Rows]) -> None:
        """Put children in the order of their parents, and of their places."""
        moved = {self.tree.root.name: np.arange(rows[self.tree.root.name].count)}
        for table in self.tree.tables[1:]:
            found = rows[table.name]
            parent = moved[str(table.parent)][found.parent]
            order = np.lexsort((found.place, parent))
            back = np.empty(len(order), dtype=np.int64)
            back[order] = np.arange(len(order))
            moved[table.name] = back
            origins = {key: back[origin[order]] for key, origin in found.origin.items()}
            rows[table.name] = found.take(order, parent[order], origins)

    def _kept(
        self,
        name: str,
        found: pd.DataFrame,
        rows: Mapping[str, Rows],
        above: Mapping[str, pd.DataFrame],
        rng: np.random.Generator,
        conditions: Mapping[str, Condition] | None,
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Values that keep the rules of the table, given those above it; and which rows do.

        A sequence keeps its order. A row that no other row's values can mend is left out, and that
        is counted.
        """
        joined, table = joined_schema(self.tree, name), self.tree.table(name)
        whole = np.ones(len(found), bool)
        if joined is None or not len(found):
            return found, whole
        frames, who = [found.add_prefix(f"{name}.")], np.arange(len(found))
        for child, parent in itertools.pairwise(reversed(self.tree.path(name))):
            who = rows[child.name].parent[who]
            part = above[parent.name].take(who).reset_index(drop=True)
            frames.insert(0, part.add_prefix(f"{parent.name}."))
        frame = pd.concat(frames, axis=1)[joined.names]
        fixed = [c for c in joined.names if not c.startswith(f"{name}.")]
        fixed += [f"{name}.{table.order}"] if table.order else []
        frame = keep_rules(frame, joined, rng, fixed)
        left = broken_by(joined.kept_rules, joined.columns, values_of(frame, joined))
        own = frame[[f"{name}.{column.name}" for column in table.columns]]
        own.columns = found.columns
        if name == self.tree.root.name and table.schema is not None:
            for condition in (conditions or {}).values():
                if condition.column.name in table.schema.names:
                    left |= ~condition.holds(own, table.schema)
        return own[~left].reset_index(drop=True), ~left

    def _leave_out(self, name: str, kept: np.ndarray, rows: dict[str, Rows]) -> None:
        """Leave rows of a table out, with all that is linked to them."""
        found, place = rows[name], np.cumsum(kept) - 1
        own = np.arange(int(kept.sum()))
        parent = own if name == self.tree.root.name else found.parent[kept]
        rows[name] = found.take(kept, parent, dict.fromkeys(found.origin, own))
        for child in self.tree.children(name):
            below = rows[child.name]
            stays = kept[below.parent]
            below.parent = np.where(stays, place[below.parent], 0)
            self._leave_out(child.name, stays, rows)

    def _frame(self, name: str, found: Rows, values: pd.DataFrame) -> pd.DataFrame:
        """The table as a release has it, with its keys."""
        table = self.tree.table(name)
        keys = {}
        if table.key:
            keys[table.key] = np.arange(1, found.count + 1)
        if table.link:
            keys[table.link] = found.parent + 1
        frame = pd.DataFrame(keys)
        return frame if table.schema is None else frame.join(complete(values, table.schema))

    def _values(
        self,
        name: str,
        rows: Mapping[str, Rows],
        rng: np.random.Generator,
        conditions: Mapping[str, Condition] | None,
    ) -> pd.DataFrame:
        """The values of a table's own columns."""
        table, found = self.tree.table(name), rows[name]
        if table.schema is None:
            return pd.DataFrame(index=range(found.count))
        names = [f"{name}.{column.name}" for column in table.columns]
        codes = np.column_stack([found.codes[key] for key in names])
        values = Codec(table.schema).decode(codes, rng)
        for key, column in zip(names, table.columns, strict=True):
            order = self._order(name) if name != self.tree.root.name else None
            if found.amounts is not None and order is not None and key == order.name:
                absent = ~np.isfinite(found.amounts)
                numbers = np.where(absent, order.lower, found.amounts)
                assert isinstance(column, NumberColumn)
                settled = decoding.settle(column, numbers)
                values[column.name] = decoding.finish(column, settled, absent)
                continue
            condition = (conditions or {}).get(key)
            if condition is not None and condition.cuts and name == self.tree.root.name:
                values[column.name] = condition.decode(found.codes[key], rng).to_numpy()
            origin = found.origin[key]
            if column.numeric and (origin != np.arange(found.count)).any():
                values[column.name] = values[column.name].take(origin).reset_index(drop=True)
        return values


def models_of(model: Model, views: Sequence[View]) -> dict[str, Model]:
    """The models of single views in a release's model."""
    found = {}
    for entry in model.meta.get("views", ()):
        prefix = f"{entry['prefix']}:"
        arrays = {
            k.removeprefix(prefix): v for k, v in model.arrays.items() if k.startswith(prefix)
        }
        found[str(entry["view"])] = Model(kind=entry["kind"], arrays=arrays, meta=entry["meta"])
    lacking = [view.name for view in views if view.name not in found]
    if lacking:
        raise ReleaseError(f"model must have view {lacking[0]!r}")
    return found


def whole_model(models: Mapping[str, Model]) -> Model:
    """One model of all views, as a release stores it."""
    arrays, entries = {}, []
    for number, (view, model) in enumerate(models.items()):
        arrays.update({f"v{number}:{name}": array for name, array in model.arrays.items()})
        entries.append(
            {"view": view, "prefix": f"v{number}", "kind": model.kind, "meta": dict(model.meta)}
        )
    return Model(kind="linked", arrays=arrays, meta={"views": entries})


def sample_linked(
    release: LinkedRelease,
    persons: int | None,
    rng: np.random.Generator,
    *,
    where: str | Mapping[str, Any] | None = None,
) -> dict[str, pd.DataFrame]:
    """Draw more persons with all their rows: post-processing, so it costs no privacy.

    Args:
        release: a release of linked tables.
        persons: how many; None for the release's estimate.
        rng: draws them; it may be seeded, for it protects nothing.
        where: what persons must hold in columns of the root, such as ``"sex=female"``.

    Returns:
        Tables by name, with new keys.

    Example:
        >>> release = LinkedRelease.read("clinic-release")
        >>> tables = sample_linked(release, 10, np.random.default_rng())
        >>> len(tables["patients"])
        10
    """
    conditions = root_conditions(release.tree, where)
    model = ForestModel(release.tree, models_of(release.model(), views_of(release.tree)))
    tables = model.draw(persons, rng, conditions)
    if problems := tree_problems(release.tree, tables):
        raise PluginError(f"the model broke its contract: {'; '.join(problems)}")
    return tables


def root_conditions(
    tree: LinkedSchema, where: str | Mapping[str, Any] | None
) -> dict[str, Condition]:
    """Conditions on the root's columns by their names in its view."""
    if where is None:
        return {}
    view = views_of(tree)[0].schema
    prefix = f"{tree.root.name}."
    names = {name.removeprefix(prefix): name for name in view.names}
    plain = type(view)(
        columns=[renamed(column, column.name.removeprefix(prefix)) for column in view.columns],
        missing_tokens=view.missing_tokens,
    )
    return {names[name]: found for name, found in read_conditions(where, plain).items()}
