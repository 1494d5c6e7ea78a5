"""Linked rows as flat views in which every person weighs one unit, by the query that counts.

Privacy is per person: a row of the root with all rows below it, directly or through others.
Neighbours differ by the paths, from the root to a row, of one root row. So:

* Of root rows with the same key one is counted, chosen by a hash of their own contents.
* A child belongs to the parent whose key it holds, compared by digests of the texts, whatever a
  column's collation takes for the same; one that finds none is left out. A key that is there twice,
  under one parent or under two, gives each of its rows the children as its own. So no person's
  paths depend on who else has the key. A child of a key that two persons have belongs to both: what
  it says is protected for each of them, as a thing that two persons share.
* What is derived from a row's place (the row before, the gap to it, numbers of children) is a
  function of the rows of one parent. Every window is a partition by the parent, or by a part of the
  path, with a total order: the column of the order if there is one, then hashes of contents, then
  contents.
* At most ``max_children`` rows of each parent are counted.
* A person's unit ``WHOLE`` is shared among the children of the root that have rows in the view,
  each child's share among its own children, and so on. Shares are whole numbers, and those of the
  rows that share one sum to it exactly.

So one person more or less moves every marginal of a view by at most ``WHOLE`` in l1 and in l2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import ibis
import ibis.expr.types as ir

from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.people.views import View, ViewColumn, own_columns, views_of
from marginalsyn.sources.holdout import Holdout
from marginalsyn.sources.persons import AMOUNT, ROOT, fingerprinted, keyed, shared, turn, written
from marginalsyn.table import encoding

LINK, KEY, _PLACE, _TURN = (f"marginalsyn_{name}" for name in ("link", "key", "place", "turn"))
# Amounts beyond it are beyond all bounds.
FAR = 1e300
Keep = Callable[["ibis.Table"], "ibis.Table"]


class Forest:
    """The views of linked tables that lie in one engine, as queries.

    ``tables`` has the rows of every table that has rows of its own, and ``keep`` stores what
    several views share, where the engine is ours.
    """

    def __init__(
        self,
        tree: LinkedSchema,
        tables: Mapping[str, ibis.Table],
        holdout: Holdout,
        engine: str = "duckdb",
        keep: Keep | None = None,
    ) -> None:
        self.tree, self.tables, self.holdout = tree, tables, holdout
        self.engine, self._store = engine, keep or (lambda table: table)
        self.views = {view.name: view for view in views_of(tree)}
        self._own = {table.name: own_columns(tree, table.name) for table in tree.tables}
        self._later = {v.table: v.own for v in self.views.values() if v.kind == "next"}
        # Plain names of columns inside the queries.
        self._alias: dict[str, str] = {}
        for number, own in enumerate(self._own.values()):
            for place, column in enumerate(own):
                self._alias[column.name] = f"t{number}c{place}"
                self._alias[f"{column.name} before"] = f"before_t{number}c{place}"
        for column in (column for own in self._later.values() for column in own):
            self._alias.setdefault(column.name, f"later{len(self._alias)}")
        # Each computed once; held out or not.
        self._rows = cache(self._make_rows)
        self._persons = cache(self._make_persons)

    def coded(self, view: View) -> ibis.Table:
        """The codes of a view's rows by its columns' names, and their weights."""
        found = self._paths(view.table, view.kind)
        depth = len(self.tree.path(view.table)) - 1
        weighed = shared(found, depth)
        return weighed.select(
            **{column.name: weighed[self._alias[column.name]] for column in view.columns},
            **{AMOUNT: weighed[AMOUNT].cast("int32")},
        )

    def real(self, name: str, *, held_out: bool = False) -> ibis.Table:
        """All rows of a table whose person is seen (or held out), as they lie, none cut off."""
        table = self.tree.table(name)
        if table.rows_of:
            return self.root_rows(held_out=held_out).drop(_TURN, KEY)
        if table.parent is None:
            rows = self.tables[name]
            found = rows.mutate(**{KEY: keyed(rows[str(table.key)], self.engine)}).view()
            return self.side(found.filter(found[KEY].notnull()).view(), held_out).drop(KEY)
        above = self.real(table.parent, held_out=held_out)
        parent = self.tree.table(table.parent)
        keys = above.select(**{KEY: keyed(above[str(parent.key)], self.engine)}).distinct().view()
        rows = self.tables[name]
        rows = rows.mutate(**{LINK: keyed(rows[str(table.link)], self.engine)}).view()
        return rows.semi_join(keys, rows[LINK] == keys[KEY]).drop(LINK).view()

    # -- single tables ----------------------------------------------------------------------------

    def _make_persons(self) -> ibis.Table:
        """One row for each person who is seen: key and codes."""
        root = self.tree.root
        found = self._encoded(self.root_rows(), self._valued(root), (KEY,))
        found = self._with_counts(found, root)
        own = [self._alias[column.name] for column in self._own[root.name]]
        return self._store(found.select(**{ROOT: found[KEY], KEY: found[KEY]}, **_same(found, own)))

    def _make_rows(self, name: str) -> ibis.Table:
        """The rows of a child table that are counted: link, key, place, codes, and what was before.

        Everything is a function of the rows with one link, over all of them before any is cut off.
        """
        table, rows = self.tree.table(name), self.tables[name]
        found = self.ranked(rows, str(table.link), table)
        kept = [LINK, _TURN, *([KEY] if table.key else [])]
        changing = [c for c in self._later.get(name, ()) if c.part == "same"]
        texts = {f"text_{self._alias[c.name]}": found[c.source] for c in changing}
        found = found.mutate(
            **{alias: ibis.coalesce(written(value), "") for alias, value in texts.items()}
        ).view()
        columns = self._valued(table)
        coded = self._encoded(found, columns, (*kept, *texts))
        if table.key:
            coded = self._with_counts(coded, table)
        window = ibis.window(group_by=coded[LINK], order_by=self._by_order(coded, table))
        own = {c.name: self._alias[c.name] for c in self._own[name]}
        derived = {f"before_{alias}": coded[alias].lag().over(window) for alias in own.values()}
        for column in changing:
            text = coded[f"text_{self._alias[column.name]}"]
            derived[self._alias[column.name]] = ibis.ifelse(
                text == text.lag().over(window), 1, 0
            ).cast("int32")
        if gap := next((c for c in self._later.get(name, ()) if c.part == "gap"), None):
            # PostgreSQL fails on a distance that is too large to be a number.
            amount = coded[self._amount(table)].clip(-FAR, FAR)
            derived["gap"] = amount - amount.lag().over(window)
        coded = coded.mutate(**{_PLACE: ibis.row_number().over(window)}, **derived).view()
        if gap:
            code = encoding.code(coded["gap"], gap.column, ())
            coded = coded.mutate(**{self._alias[gap.name]: code}).view()
        counted = coded.filter(coded[_PLACE] < table.max_children)
        aliases = [*own.values(), *derived, *([self._alias[gap.name]] if gap else [])]
        aliases = [alias for alias in dict.fromkeys(aliases) if alias != "gap"]
        keys = [LINK, _PLACE, *([KEY] if table.key else [])]
        return self._store(counted.select(**_same(counted, [*keys, *aliases])))

    def ranked(self, rows: ibis.Table, by: str, table: LinkedTable) -> ibis.Table:
        """Rows that belong to someone, with their link and key as texts, and a place by hashes."""
        columns = list(rows.columns)
        keys = {LINK: keyed(rows[by], self.engine)}
        if table.parent is not None and table.key:
            keys[KEY] = keyed(rows[table.key], self.engine)
        found = rows.mutate(**keys).view()
        found = found.filter(found[LINK].notnull()).view()
        found = fingerprinted(found, columns, LINK, self.engine)
        found = found.mutate(**{_TURN: turn(found, columns, LINK)})
        return found.select(*columns, *keys, _TURN).view()

    def _valued(self, table: LinkedTable) -> list[ViewColumn]:
        """A table's own values and attributes, which are read off single rows."""
        return [c for c in self._own[table.name] if c.part != "count"]

    def _encoded(
        self, rows: ibis.Table, columns: Sequence[ViewColumn], kept: Sequence[str]
    ) -> ibis.Table:
        """Codes by alias, the columns that are kept, and the amount of what orders rows."""
        values = {}
        seen = {}
        for column in columns:
            alias = self._alias[column.name]
            values[alias] = self.value(rows, column)
            seen[alias] = column.column.model_copy(update={"name": alias}), column
        found = rows.select(*[rows[name] for name in kept], **values).view()
        if not columns:
            return found
        ready = encoding.prepared(found, [column for column, _ in seen.values()], tuple(kept))
        codes = {
            alias: encoding.code(ready[alias], kind, column.tokens)
            for alias, (kind, column) in seen.items()
        }
        amounts = {}
        for alias, (kind, column) in seen.items():
            if column.part == "value" and column.source == self.tree.table(column.table).order:
                amount = ready[alias] if kind.numeric else codes[alias].cast("float64")
                amounts[f"amount_{alias}"] = ibis.coalesce(amount, ibis.null("float64"))
        return ready.select(*[ready[name] for name in kept], **codes, **amounts).view()

    def value(self, rows: ibis.Table, column: ViewColumn) -> ir.Value:
        """A column of a table as it lies, or an attribute of a key, which the schema holds."""
        if column.part != "attribute":
            return rows[column.source]
        name, known = self.tree.table(column.table).attribute(column.source)
        pairs = [(key, value) for key, value in known.items() if value is not None]
        text = written(rows[name]).strip()
        return text.cases(*pairs, else_=None) if pairs else ibis.null("string")

    def _with_counts(self, rows: ibis.Table, table: LinkedTable) -> ibis.Table:
        """The rows with the codes of their numbers of children, each by its own key."""
        for column in self._own[table.name]:
            if column.part == "count":
                alias = self._alias[column.name]
                rows = self.with_number(rows, self.tree.table(column.source), alias)
                # A blank key refers to nobody: no child has one.
                code = encoding.code(rows[alias].cast("float64"), column.column, ())
                rows = rows.mutate(**{alias: code}).view()
        return rows

    def first_rows(self, rows: ibis.Table, table: LinkedTable) -> ibis.Table:
        """Of ranked rows of a table, the first one with each link, as it lies."""
        names = rows.columns
        coded = self._encoded(rows, self._ordering(table), names)
        window = ibis.window(group_by=coded[LINK], order_by=self._by_order(coded, table))
        coded = coded.mutate(**{_PLACE: ibis.row_number().over(window)}).view()
        return coded.filter(coded[_PLACE] == 0).select(*names).view()

    def root_rows(self, *, held_out: bool = False) -> ibis.Table:
        """Of every person who is seen (or held out) one row as it lies, with its key in ``KEY``.

        Where the root is made from the rows of another table, that is the first by their order.
        """
        root = self.tree.root
        found = self.ranked(self.tables[root.rows_of or root.name], str(root.key), root)
        if root.rows_of:
            found = self.first_rows(found, self.tree.table(root.rows_of))
        else:
            found = found.filter(found[_TURN] == 0).view()
        return self.side(found.rename(**{KEY: LINK}).view(), held_out)

    def with_number(self, rows: ibis.Table, child: LinkedTable, name: str) -> ibis.Table:
        """The rows with a column of how many rows of a child table belong to each by its key."""
        others = self.tables[child.name]
        others = others.select(of=keyed(others[str(child.link)], self.engine)).view()
        named = others.filter(others["of"].notnull())
        counts = named.group_by("of").aggregate(number=ibis._.count())
        joined = rows.left_join(counts, rows[KEY] == counts["of"]).view()
        number = ibis.coalesce(joined["number"], 0)
        return joined.mutate(**{name: number}).drop("of", "number").view()

    def side(self, rows: ibis.Table, held_out: bool) -> ibis.Table:
        """The persons of one part, by their key."""
        return self.holdout.part(rows, self.engine, held_out=held_out, by=rows[KEY])

    def _ordering(self, table: LinkedTable) -> list[ViewColumn]:
        """The column that orders a table's rows, if there is one."""
        own = self._own[table.name]
        return [c for c in own if c.part == "value" and c.source == table.order]

    def _amount(self, table: LinkedTable) -> str:
        """The name of what orders a table's rows."""
        return f"amount_{self._alias[self._ordering(table)[0].name]}"

    def _by_order(self, rows: ibis.Table, table: LinkedTable) -> list[ir.Value]:
        """A total order of rows with one link: by the order's column, missing last, then hashes."""
        if not self._ordering(table):
            return [rows[_TURN]]
        amount = rows[self._amount(table)]
        return [amount.isnull().cast("int32"), ibis.coalesce(amount, 0.0), rows[_TURN]]

    # -- joined -----------------------------------------------------------------------------------

    def _paths(self, name: str, kind: str) -> ibis.Table:
        """Rows of a view: the person, the place at every level, the columns of all ancestors."""
        path = self.tree.path(name)
        found = self._persons()
        for depth, table in enumerate(path[1:], 1):
            rows = self._rows(table.name)
            last = depth == len(path) - 1
            own = [self._alias[c.name] for c in self._own[table.name]]
            if last:
                rows = rows.filter(rows[_PLACE] == 0 if kind == "first" else rows[_PLACE] > 0)
                known = {LINK, KEY, _PLACE}
                own = [alias for alias in rows.columns if alias not in known]
            above = [alias for alias in found.columns if alias != KEY]
            right = rows.view()
            joined = found.join(right, found[KEY] == right[LINK])
            picked = {alias: found[alias] for alias in above}
            picked[f"place{depth}"] = right[_PLACE]
            picked.update({alias: right[alias] for alias in own})
            if table.key and not last:
                picked[KEY] = right[KEY]
            found = joined.select(**picked).view()
        return found


def _same(table: ibis.Table, names: Sequence[str]) -> dict[str, ir.Value]:
    return {name: table[name] for name in names}
