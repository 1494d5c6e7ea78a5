"""The codec: rows to integer codes and back. Only it knows dtypes, labels and column order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd

from marginalsyn.errors import SchemaError
from marginalsyn.table import decoding, encoding
from marginalsyn.table.arrow import arrow_table
from marginalsyn.table.columns import ListedColumn
from marginalsyn.table.engine import cursor, engine_of
from marginalsyn.table.schema import AnyColumn, Schema


class Codec:
    """Encodes the columns of a schema as codes, decodes codes, and restores dtypes.

    Codes run over the categories or bins, then OTHER, then missing. A value that is not a
    category becomes OTHER if there is one, else missing if the column is nullable, else code 0;
    a missing value, or a text that is no number in a numeric column, becomes missing, else OTHER,
    else code 0. Numbers out of bounds fall into the end bins. ``schema check`` counts all these.

    Args:
        schema: the public description of the table.

    Example:
        >>> codec = Codec(Schema.from_domain({"a": 3}))
        >>> codec.encode(pd.DataFrame({"a": ["2", " 0", "7"]})).ravel().tolist()
        [2, 0, 2]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def encoded(self, table: ir.Table, columns: Sequence[str] | None = None) -> ir.Table:
        """Return the codes, int32 and never null, in schema order or that of ``columns``.

        The engine parses a text only once.
        """
        if engine_of(table) == "pyspark":
            from marginalsyn.table import lookup

            self._present(table.columns)
            chosen = [self.schema.column(name) for name in columns or self.schema.names]
            return lookup.coded(table, chosen, self.schema.missing_tokens)
        return self._staged(table, encoding.code, columns)

    def unit_table(
        self, table: ir.Table, columns: Sequence[str] | None = None, absent: float = 0.5
    ) -> ir.Table:
        """Return the table of unit coordinates, float64 and never null.

        Numeric kinds give ``(x - lower) / (upper - lower)`` clipped to [0, 1], and ``absent`` where
        x is missing; the other kinds give their code.
        """
        return self._staged(table, partial(encoding.unit, absent=absent), columns)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the codes of a frame, int32 of shape (rows, columns), in schema order.

        Raises:
            SchemaError: if the frame lacks a column of the schema or has it twice.
        """
        return self._matrix(frame, "encoded", np.dtype(np.int32))

    def unit(self, frame: pd.DataFrame, absent: float = 0.5) -> np.ndarray:
        """Return the unit coordinates of a frame, float64; see ``unit_table``."""
        return self._matrix(frame, "unit_table", np.dtype(np.float64), absent=absent)

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Return rows for codes of shape (rows, columns), drawing numbers inside their bins.

        Integers are drawn from the integers of the bin, continuous values uniformly or from the
        column's decimals. Encoding the rows gives the codes back.

        Raises:
            ValueError: if the codes do not fit the schema.
        """
        codes = np.asarray(codes)
        sizes = np.array(list(self.schema.domain.values()))
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or codes.dtype.kind not in "iu":
            raise ValueError(
                f"codes ({codes.dtype}, {codes.shape}) must be integers of shape "
                f"(rows, {len(sizes)})"
            )
        if len(codes) and ((codes.min(axis=0) < 0) | (codes.max(axis=0) >= sizes)).any():
            raise ValueError("codes must lie within the schema's domain")
        columns = self.schema.columns
        values = decoding.drawn(columns, codes, rng)
        if self.schema.rules and len(codes):
            from marginalsyn.table.keeping import keep_values

            values = keep_values(self.schema, values, rng)
        return self._frame(decoding.series(columns, *values))

    def from_unit(self, points: np.ndarray) -> pd.DataFrame:
        """Return rows for unit coordinates: numbers to the nearest value, other kinds by code."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.schema.columns):
            raise ValueError(
                f"points {points.shape} must have shape (rows, {len(self.schema.columns)})"
            )

        def restore(column: AnyColumn, values: np.ndarray) -> pd.Series:
            if isinstance(column, ListedColumn):
                codes = np.clip(np.rint(values), 0, column.size - 1).astype(np.int64)
                return decoding.listed(column, codes)
            numbers = decoding.settle(column, decoding.numbers_of(column, values))
            return decoding.finish(column, numbers, np.zeros(len(values), dtype=bool))

        rows = self._frame(
            restore(column, points[:, position])
            for position, column in enumerate(self.schema.columns)
        )
        return decoding.with_true_parts(rows, self)

    def conform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame as a release would hold it: order, dtypes, labels, clipped numbers.

        Values are mapped as ``encode`` maps them, without binning; what is missing in a column
        that is not nullable becomes its OTHER, its first category or its lower bound.

        Raises:
            SchemaError: if the frame lacks a column of the schema or has it twice.
        """
        return self.restored(self._run(frame, "conformed"))

    def conformed(self, table: ir.Table, more: Sequence[str] = ()) -> ir.Table:
        """The query whose rows ``restored`` makes a release's: codes and clipped numbers.

        Columns named ``more`` come with them as they are.
        """

        def value(prepared: ir.Value, column: AnyColumn, tokens: Sequence[str]) -> ir.Value:
            if isinstance(column, ListedColumn):
                return encoding.code(prepared, column, tokens)
            return encoding.clipped(prepared, column)

        return self._staged(table, value, None, more)

    def restored(self, found: Any) -> pd.DataFrame:
        """The rows of an Arrow table that ``conformed`` gave, as a release would hold them."""

        def restore(column: AnyColumn) -> pd.Series:
            values = found.column(column.name).to_numpy()
            if isinstance(column, ListedColumn):
                return decoding.listed(column, values)
            absent = np.isnan(values)
            numbers = decoding.settle(column, np.where(absent, column.lower, values))
            return decoding.finish(column, numbers, absent)

        return self._frame(restore(column) for column in self.schema.columns)

    def numbers(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        """The numbers in one numeric column of a frame, in its own units; NaN where none is."""
        found = self._run(frame, "_prepared", name=name)
        return np.asarray(found.column(name).to_numpy(), dtype=np.float64)

    def empty(self) -> pd.DataFrame:
        """Return a frame without rows, with the columns and dtypes of a release."""
        codes = np.empty((0, len(self.schema.columns)), dtype=np.int32)
        return self.decode(codes, np.random.default_rng(0))

    def _present(self, names: Sequence[Any]) -> tuple[AnyColumn, ...]:
        lacking = [name for name in self.schema.names if name not in names]
        if lacking:
            raise SchemaError(
                f"columns ({', '.join(lacking)}) must be in the table: it has "
                f"{', '.join(map(str, list(names)[:30])) or 'no column'}"
            )
        return self.schema.columns

    def _staged(
        self,
        table: ir.Table,
        finish: Callable[..., ir.Value],
        columns: Sequence[str] | None,
        more: Sequence[str] = (),
    ) -> ir.Table:
        self._present(table.columns)
        chosen = [self.schema.column(name) for name in columns or self.schema.names]
        prepared = encoding.prepared(table, chosen, more)
        tokens = self.schema.missing_tokens
        return prepared.select(
            *[prepared[name] for name in more],
            *[finish(prepared[column.name], column, tokens).name(column.name) for column in chosen],
        )

    def _prepared(self, table: ir.Table, name: str) -> ir.Table:
        return encoding.prepared(table, [self.schema.column(name)])

    def _matrix(self, frame: pd.DataFrame, form: str, dtype: np.dtype, **how: Any) -> np.ndarray:
        found = self._run(frame, form, **how)
        matrix = np.empty((found.num_rows, found.num_columns), dtype=dtype)
        for position, column in enumerate(found.columns):
            matrix[:, position] = column.to_numpy()
        return matrix

    def _run(self, frame: pd.DataFrame, form: str, **how: Any) -> Any:
        """Run the query of a method on a frame, in our own DuckDB; rows keep their order."""
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        self._present(list(frame.columns))
        rows = arrow_table(frame, self.schema.names)
        name, query, types = _written(self.schema, form, tuple(how.items()), rows.schema)
        with cursor() as connection:
            connection.register(name, rows)
            return connection.execute(query).to_arrow_table().cast(types)

    @staticmethod
    def _frame(columns: Any) -> pd.DataFrame:
        return pd.DataFrame({series.name: series for series in columns}, copy=False)


@lru_cache(maxsize=64)
def _written(schema: Schema, form: str, how: tuple[tuple[str, Any], ...], layout: Any) -> Any:
    """A codec's query as DuckDB's text: what it calls the table, and the types that it returns.

    Writing it takes longer than running it on a small table, and it depends on the layout alone.
    """
    table = ibis.memtable(layout.empty_table())
    query = getattr(Codec(schema), form)(table, **dict(how))
    return table.get_name(), ibis.to_sql(query, dialect="duckdb"), query.schema().to_pyarrow()
