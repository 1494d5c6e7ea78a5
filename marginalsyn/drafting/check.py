"""What a schema would change in a table (values clipped, OTHER, missing), and rules that fit it.

Everything here reads rows without noise. It is for the curator and must not be published.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir
import numpy as np

from marginalsyn.drafting.survey import frequent, lots, numbers_of
from marginalsyn.errors import SchemaError
from marginalsyn.sources.source import open_source
from marginalsyn.table import encoding
from marginalsyn.table.columns import CategoricalColumn, ListedColumn
from marginalsyn.table.engine import Connection, engine_errors
from marginalsyn.table.keeping import Values, cells_of
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import IntegerColumn, NumberColumn
from marginalsyn.table.rules import quantity_of, quoted, unit_of
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.validation import like

MOST_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """How many of a column's ``rows`` the schema would change. Not private.

    ``missing`` are nulls and missing tokens, ``unparsable`` texts that are no number, ``low`` and
    ``high`` numbers out of bounds, ``fractional`` numbers floored in an integer column, ``unseen``
    values that are no category, with up to five ``examples``.
    """

    column: AnyColumn
    rows: int
    missing: int = 0
    unparsable: int = 0
    low: int = 0
    high: int = 0
    fractional: int = 0
    unseen: int = 0
    examples: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.column.name

    def notes(self) -> list[str]:
        """One line per kind of change, with what the values become; empty if there is none."""
        column, labels = self.column, self.column.labels()
        absent = f"become {labels[column.absent_code]!r}"
        lines = []
        if self.missing and not column.nullable:
            lines.append(f"{self.missing} missing, though not nullable: {absent}")
        if self.unparsable:
            lines.append(f"{self.unparsable} not numbers{self._such_as()}: {absent}")
        if self.unseen:
            listed = {label.lower() for label in labels}
            case = any(text.lower() in listed for text in self.examples)
            lines.append(
                f"{self.unseen} not in the schema{self._such_as()}: "
                f"become {labels[column.unseen_code]!r}"
                + ('; case alone differs: add "ignore_case": true to the column' if case else "")
            )
        if self.low:
            lines.append(f"{self.low} below the lower bound: clipped into {labels[0]!r}")
        if self.high:
            lines.append(
                f"{self.high} above the upper bound: clipped into {labels[column.levels - 1]!r}"
            )
        if self.fractional:
            lines.append(f"{self.fractional} not whole: rounded down")
        return lines

    def _such_as(self) -> str:
        return f" ({', '.join(map(repr, self.examples))})" if self.examples else ""


def layout_problems(names: Iterable[str], schema: Schema) -> list[str]:
    """List the columns that a table lacks or has beyond the schema. Reads no row."""
    found = list(names)
    needed = [name for name in schema.names if name not in schema.derived]
    needed += [n for n in (schema.unit.column, schema.unit.order) if n] if schema.unit else []
    lacking = [name for name in dict.fromkeys(needed) if name not in found]
    known = {*schema.names, *schema.left_out}
    unknown = [name for name in dict.fromkeys(found) if name not in known]
    problems = []
    if lacking:
        near = like(lacking[0], unknown or found)
        problems.append(
            f"columns ({', '.join(lacking)}) must be in the table: they are missing{near}"
        )
    if unknown:
        problems.append(
            f"columns ({', '.join(map(str, unknown))}) must be in the schema: describe them, or "
            "name them in drop"
        )
    return problems


def check_data(data: Any, schema: Schema) -> list[ColumnCheck]:
    """Count, per column, what encoding with the schema would change. Not private.

    Args:
        data: a DataFrame, a path, a database address, an Ibis table, or a source that is open.
        schema: the schema that is compared; other columns of the table are left alone.

    Raises:
        SchemaError: if the table lacks a column of the schema.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"a": [0, 1, 9]})
        >>> check_data(frame, Schema.from_domain({"a": 3}))[0].notes()
        ["1 above the upper bound: clipped into '2'"]
    """
    source = open_source(data, **schema.reading)
    columns = [column for column in schema.columns if column.name not in schema.derived]
    lacking = [column.name for column in columns if column.name not in source.columns]
    if lacking:
        raise SchemaError(f"columns ({', '.join(lacking)}) must be in the table: they are missing")
    connection = source.connect()
    checks: list[ColumnCheck] = []
    with engine_errors(source.name):
        for some in lots(columns):
            checks += _check(connection, some, schema)
    return checks


def columns_of_rows(schema: Schema) -> list[AnyColumn]:
    """The columns that rows have and whose values are known."""
    made = {*schema.derived, *schema.open}
    return [column for column in schema.columns if column.name not in made]


def values_of_rows(
    data: Any, schema: Schema, columns: list[AnyColumn], most: int | None = None
) -> Values:
    """The codes and the numbers of a table's rows."""
    source = open_source(data, **schema.reading)
    connection, tokens = source.connect(), schema.missing_tokens
    with engine_errors(source.name):
        table = connection.table if most is None else connection.table.limit(most)
        plain: Any = encoding.prepared(table, columns)
        coded = [encoding.code(plain[c.name], c, tokens).name(f"c{c.name}") for c in columns]
        numeric = [c.name for c in columns if isinstance(c, NumberColumn)]
        amounts = [plain[name].cast("float64").name(f"n{name}") for name in numeric]
        rows = connection.backend.to_pyarrow(plain.select(*coded, *amounts))
    codes = np.column_stack([rows.column(f"c{column.name}").to_numpy() for column in columns])
    return codes, {name: np.array(rows.column(f"n{name}").to_numpy(), float) for name in numeric}


def _check(
    connection: Connection, columns: Sequence[AnyColumn], schema: Schema
) -> Iterator[ColumnCheck]:
    """The checks of some columns, by one query and one for every column with strange values."""
    plain = encoding.read(connection.table, columns)
    conditions = [_conditions(plain, at, c, schema) for at, c in enumerate(columns)]
    sums = {
        column.name: {what: condition.sum() for what, condition in where.items()}
        for column, where in zip(columns, conditions, strict=True)
    }
    found = numbers_of(connection.backend, plain, {None: {"rows": plain.count()}, **sums})
    for number, (column, where) in enumerate(zip(columns, conditions, strict=True)):
        counts = {what: int(value or 0) for what, value in found[column.name].items()}
        strange = [what for what in ("unseen", "unparsable") if counts.get(what)]
        examples: tuple[str, ...] = ()
        if strange:
            odd = plain.filter(where[strange[0]])
            text = encoding.as_text(odd[f"value{number}"]).cast("string")
            rare = frequent(connection.backend, odd.select(value=text), MOST_EXAMPLES)
            examples = tuple(str(value) for value, _ in rare)
        rows = int(found[None]["rows"])
        yield ColumnCheck(column=column, rows=rows, examples=examples, **counts)


def _conditions(
    plain: ir.Table, place: int, column: AnyColumn, schema: Schema
) -> dict[str, ir.BooleanValue]:
    """The Boolean expressions whose rows are counted."""
    value = plain[f"value{place}"]
    tokens = [*schema.missing_tokens, *column.missing_tokens]
    missing: Any = encoding.missing(value, tokens)
    if isinstance(column, ListedColumn):
        known = encoding.listed(value, column, tokens).notnull()
        if isinstance(column, CategoricalColumn) and column.open:
            # Which of its values a release will list is not known before they are bought.
            return {"missing": missing}
        return {"missing": missing & ~known, "unseen": ~missing & ~known}
    number: Any = plain[f"number{place}"]
    conditions = {
        "missing": missing,
        "unparsable": ~missing & number.isnull(),
        "low": number < column.lower,
        "high": number > column.upper,
    }
    if isinstance(column, IntegerColumn):
        inside = encoding.clipped(number, column)
        conditions["fractional"] = inside != inside.floor()
    return conditions


# Rows that a proposal is read off, at most, and rows that must speak for it.
_ROWS, _LEAST, _MOST = 200_000, 30, 40


def rule_counts(data: Any, schema: Schema) -> dict[str, int]:
    """By rule, how many rows of a table break it. Not private.

    Example:
        >>> import pandas as pd
        >>> columns = Schema.from_domain({"a": 4, "b": 4}).columns
        >>> frame = pd.DataFrame({"a": [1, 3], "b": [2, 2]})
        >>> rule_counts(frame, Schema(columns=columns, rules=["a <= b"]))
        {'a <= b': 1}
    """
    if not schema.rules:
        return {}
    columns = columns_of_rows(schema)
    cells = cells_of(columns, values_of_rows(data, schema, columns))
    names = {column.name for column in columns}
    counted = [rule for rule in schema.kept_rules if names.issuperset(rule.names)]
    return {rule.text: int(rule.broken(cells).sum()) for rule in counted}


def propose_rules(data: Any, schema: Schema, *, sep: str | None = None) -> tuple[str, ...]:
    """Orders, dependencies and joint absences that hold in the rows of a table. Not private."""
    columns = columns_of_rows(schema)
    source = open_source(data, sep=sep, **schema.reading)
    codes, numbers = values_of_rows(source, schema, columns, _ROWS)
    if len(codes) < _LEAST:
        return ()
    places = {column.name: codes[:, place] for place, column in enumerate(columns)}
    known = {column.name: places[column.name] != column.missing_code for column in columns}
    pairs = list(itertools.permutations(columns, 2))
    found: list[str] = []
    for left, right in pairs:
        if isinstance(left, NumberColumn) and isinstance(right, NumberColumn):
            both = known[left.name] & known[right.name]
            if both.sum() >= _LEAST and quantity_of(left) == quantity_of(right):
                found += _order(left, right, numbers, both)
        elif not isinstance(left, NumberColumn) and not isinstance(right, NumberColumn):
            found += _dependency(left, right, places)
    gaps = {name for name, there in known.items() if _LEAST <= there.sum() <= len(codes) - _LEAST}
    for left, right in pairs:
        if left.name in gaps:
            found += _absence(left, right, places[right.name], known, numbers)
    return tuple(found[:_MOST])


def _name(column: AnyColumn) -> str:
    return column.name if column.name.isidentifier() else quoted(column.name, '"')


def _order(
    left: NumberColumn, right: NumberColumn, numbers: dict[str, np.ndarray], both: np.ndarray
) -> Iterator[str]:
    low, high = (unit_of(column) * numbers[column.name][both] for column in (left, right))
    if (low <= high).all() and low.max() > high.min():
        yield f"{_name(left)} <= {_name(right)}"


def _dependency(left: AnyColumn, right: AnyColumn, places: dict[str, np.ndarray]) -> Iterator[str]:
    counts = np.zeros((left.size, right.size), bool)
    # Mostly the first rows show that it does not hold.
    for rows in (slice(500), slice(None)):
        counts[places[left.name][rows], places[right.name][rows]] = True
        groups = int(counts.any(axis=1).sum())
        if counts.sum() > groups:
            return
    if counts.any(axis=0).sum() > 1 and groups * 3 <= len(places[left.name]):
        yield f"{_name(left)} determines {_name(right)}"


def _absence(
    left: AnyColumn,
    right: AnyColumn,
    codes: np.ndarray,
    known: dict[str, np.ndarray],
    numbers: dict[str, np.ndarray],
) -> Iterator[str]:
    there, other = known[left.name], known[right.name]
    if (there == other).all():
        if left.name < right.name:
            yield f"missing({_name(left)}) iff missing({_name(right)})"
    elif isinstance(right, NumberColumn):
        values = numbers[right.name]
        if other.all() and values[~there].max() < values[there].min():
            least = values[there].min()
            shown = right.bound(least) if isinstance(right, MomentColumn) else f"{least:.12g}"
            yield f"missing({_name(left)}) iff {_name(right)} < {shown}"
    else:
        absent = np.unique(codes[~there])
        if len(absent) <= 5 and not np.isin(codes[there], absent).any() and other.all():
            texts = ", ".join(quoted(right.labels()[code], "'") for code in absent)
            yield f"missing({_name(left)}) iff {_name(right)} in {{{texts}}}"
