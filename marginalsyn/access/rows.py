"""The rows of one private table, read when they are first asked for.

Only a private table makes one, and hands it to a paid visit or an unprotected view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import ibis
import numpy as np
import pandas as pd
from ibis.expr.operations import DatabaseTable

from marginalsyn.errors import UsageError
from marginalsyn.sources import counting, persons
from marginalsyn.sources.counting import Codes, Columns, Maps, Weighing
from marginalsyn.sources.holdout import Holdout
from marginalsyn.sources.source import Source
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.encoding import plain, text_key
from marginalsyn.table.engine import Connection, engine_errors, private_engine
from marginalsyn.table.moments import with_parts
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

# A marginal of more cells would not fit in memory; which one is asked for is public.
MOST_CELLS = 2**27


class RowBatch(NamedTuple):
    """Private rows, some of them or all.

    Attributes:
        values: codes, int32 of shape (rows, columns); or unit coordinates, float64: numbers clipped
            and scaled to [0, 1], other kinds as their code.
        weights: what each row weighs where persons are counted: the rows of a person weigh 1
            together, exactly. None where each row counts as 1.
        person: a number that the rows of one person share, from 0 on, where it was asked for.
    """

    values: np.ndarray
    weights: np.ndarray | None = None
    person: np.ndarray | None = None


class PrivateRows:
    """Encoded counts, batches and frames of the rows that are not held out.

    Where they are ``counted``, rows of persons are bounded and weighted, as for a paid visit.
    """

    def __init__(
        self, source: Source, codec: Codec, holdout: Holdout, *, counted: bool = True
    ) -> None:
        self._source, self.codec, self._holdout, self._limited = source, codec, holdout, counted
        self._bound: Unit | None = codec.schema.unit if counted else None
        # A person with one row is a row like any other.
        alone = self._bound is None or self._bound.max_rows == 1
        self.unit: Unit | None = None if alone else self._bound
        self._survey = codec.schema.survey_weight if counted else None
        if self._survey is not None:
            # What it counts are fractions: rows are not seen one by one.
            self.unit = Unit(column=self._survey.column, max_rows=1)

    @property
    def whole(self) -> int:
        """What the rows of one person, or one row, add to a count at most."""
        if self._survey is not None:
            return persons.PARTS
        return 1 if self.unit is None else persons.WHOLE

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of codes of every column."""
        return self.codec.schema.domain

    def merged_sizes(self, maps: Maps) -> dict[str, int]:
        """The number of codes after ``maps``."""
        return {**self.sizes, **{name: int(np.max(codes)) + 1 for name, codes in maps.items()}}

    def count(self, marginals: Sequence[Columns], maps: Maps) -> dict[Columns, np.ndarray]:
        """Exact counts, with the codes of some columns merged by ``maps``."""
        keys = list(dict.fromkeys(self.names(columns) for columns in marginals))
        sizes = self.merged_sizes(maps)
        for columns in keys:
            cells = math.prod(sizes[name] for name in columns)
            if cells > MOST_CELLS:
                raise UsageError(
                    f"marginal ({', '.join(columns)}) of {cells:,} cells must have at most "
                    f"{MOST_CELLS:,}: use fewer columns or coarser bins"
                )
        with engine_errors(self._source.name):
            return dict(zip(keys, self._codes.count(keys, sizes, maps), strict=True))

    def prepare(self, marginals: Sequence[Columns], maps: Maps) -> None:
        """Count in one job of an engine elsewhere what will be asked for one by one."""
        keys = list(dict.fromkeys(self.names(columns) for columns in marginals))
        with engine_errors(self._source.name):
            if isinstance(self._codes, counting.KeptCounts):
                self._codes.prepare(keys, self.merged_sizes(maps), maps)

    def texts(self, name: str, length: int | None = None) -> dict[str, int]:
        """How often each text of a column occurs, or each start of so many characters. Exact.

        In parts of ``whole``. The texts are the rows' own, so nothing of this is public.
        """
        found = self.codec.schema.column(name)
        assert isinstance(found, CategoricalColumn)
        tokens = self.codec.schema.missing_tokens
        with engine_errors(self._source.name):
            return counting.texts(
                self._connection.backend,
                self._counted(),
                lambda value: text_key(plain(value), found, tokens, length),
                name,
                self._weighing,
            )

    def recoded(self, codec: Codec) -> PrivateRows:
        """The same rows under other codes."""
        rows = PrivateRows(self._source, codec, self._holdout, counted=self._limited)
        if "_connection" in self.__dict__:
            rows.__dict__["_connection"] = self._connection
        return rows

    def batches(
        self,
        columns: Sequence[str] | None,
        maps: Maps,
        *,
        size: int = counting.BATCH_ROWS,
        units: bool = False,
        absent: float = 0.5,
        person: bool = False,
    ) -> Iterator[RowBatch]:
        """At most ``size`` rows at a time, in the order of the source.

        See :meth:`marginalsyn.access.visit.Visit.batches`; ``maps`` merge codes, and no units.
        """
        names, weighing = self.names(columns), self._weighing
        person = person and weighing is not None and self._survey is None
        added = () if weighing is None else (weighing.column, *(persons.NUMBER if person else ()))
        coder = self._coder(numbered=person)
        with engine_errors(self._source.name):
            if units or person:
                encode = partial(coder.unit_table, absent=absent) if units else coder.encoded
                given = encode(self._counted(numbered=person), (*names, *added))
                kind = np.dtype(np.float64 if units else np.int32)
                found = counting.stream(self._connection.backend, given, size, kind)
            else:
                found = self._codes.batches((*names, *added), size)
            for batch in found:
                values, extra = batch[:, : len(names)], batch[:, len(names) :]
                if units:
                    extra = np.rint(extra * [coder.schema.domain[name] - 1 for name in added])
                codes = extra.T.astype(np.int64)
                for position, name in enumerate(() if units else names):
                    if name in maps:
                        values[:, position] = maps[name][values[:, position]]
                yield RowBatch(
                    np.ascontiguousarray(values),
                    None if weighing is None else weighing.weights[codes[0]] / self.whole,
                    codes[1] * persons.DIGITS + codes[2] if person else None,
                )

    def all_rows(
        self, columns: Sequence[str] | None = None, maps: Maps = MappingProxyType({}), **how: Any
    ) -> RowBatch:
        """The batches of :meth:`batches` as one."""
        kind = np.float64 if how.get("units") else np.int32
        none = RowBatch(
            np.empty((0, len(self.names(columns))), dtype=kind),
            None if self._weighing is None else np.empty(0),
            np.empty(0, dtype=np.int64) if how.get("person") and self.unit else None,
        )
        parts = [none, *self.batches(columns, maps, **how)]
        fields: Any = zip(*parts, strict=True)
        whole: list[Any] = [None if one[0] is None else np.concatenate(one) for one in fields]
        return RowBatch(*whole)

    def frame(self, *, held_out: bool = False, weighted: bool = False) -> pd.DataFrame:
        """The rows as a release would hold them.

        ``weighted`` gives as many, drawn in proportion to their survey weights where there are any.
        """
        table, codec = self._part(held_out=held_out), self.codec
        survey = codec.schema.survey_weight if weighted else None
        with engine_errors(self._source.name):
            if survey is not None:
                table = persons.weighed(table, survey)
                row = Unit(column=survey.column, max_rows=1)
                codec = Codec(persons.with_share(codec.schema, row))
            # Values themselves stay in the engine, for not all of them have a Python value.
            query = codec.conformed(table)
            found = codec.restored(self._connection.backend.to_pyarrow(query))
        if survey is None:
            return found
        reach = np.cumsum(found.pop(persons.SHARE).to_numpy(dtype=float))
        if not reach.any():
            return found
        places = (np.arange(len(found)) + 0.5) * (reach[-1] / len(found))
        return found.iloc[np.searchsorted(reach, places)].reset_index(drop=True)

    def leave(self) -> None:
        """Free what an engine elsewhere holds for the visit that has ended."""
        if isinstance(self.__dict__.get("_codes"), counting.KeptCounts):
            self.close()

    def persons(self, column: str) -> tuple[int, int, int]:
        """How many persons have rows that are seen, how many have rows held out, how many both."""
        with engine_errors(self._source.name):
            found = []
            for held_out in (False, True) if self._holdout.share else (False,):
                rows = self._split(held_out=held_out)
                named = persons.keyed(rows[column], str(self._connection.backend.name))
                query = rows.select(named.name("person")).distinct()
                listed = self._connection.backend.to_pyarrow(query).column("person").to_pylist()
                found.append({one for one in listed if one is not None})
        seen, unseen = found if len(found) > 1 else (*found, set())
        return len(seen), len(unseen), len(seen & unseen)

    def close(self) -> None:
        """Release the codes; they are read again when needed."""
        if "_codes" in self.__dict__:
            self.__dict__.pop("_codes").close()

    def names(self, columns: Sequence[str] | None) -> Columns:
        """The columns as a tuple, each of them known and none twice; None stands for all."""
        names = tuple(self.sizes if columns is None else columns)
        if len(set(names)) < len(names):
            raise UsageError(f"columns ({', '.join(names)}) must be distinct")
        return tuple(self.codec.schema.column(name).name for name in names)

    @property
    def engine(self) -> str | None:
        """What reads the rows, as ibis names it; None while nothing was read."""
        opened = self.__dict__.get("_connection")
        return None if opened is None else str(opened.backend.name)

    def connect(self) -> None:
        """Open the engine that reads the rows, whether or not they will be read."""
        _ = self._connection

    @cached_property
    def _connection(self) -> Connection:
        return self._source.connect()

    @property
    def _weighing(self) -> Weighing | None:
        """How much each row counts."""
        if self.unit is None:
            return None
        if self._survey is not None:
            return Weighing(persons.SHARE, np.arange(persons.PARTS + 1))
        return Weighing(persons.SHARE, persons.weights(self.unit.max_rows))

    def _counted(self, *, numbered: bool = False) -> ibis.Table:
        """The rows that are counted, of persons at most so many each."""
        if self._bound is None:
            table = self._part()
            return table if self._survey is None else persons.weighed(table, self._survey)
        engine = self._connection.backend.name
        table = persons.bounded(self._split(), self._bound, engine, numbered=numbered)
        if self._survey is not None:
            table = persons.weighed(table.drop(persons.SHARE), self._survey)
        elif self.unit is None:
            table = table.drop(persons.SHARE)
        return with_parts(table, self.codec.schema.columns)

    def _coder(self, *, numbered: bool = False) -> Codec:
        """What encodes them, with their weights where they are persons'."""
        if self.unit is None:
            return self.codec
        return Codec(persons.with_share(self.codec.schema, self.unit, numbered=numbered))

    @cached_property
    def _codes(self) -> Codes:
        opened, query = self._connection, None
        if opened.embedded and isinstance(opened.table.op(), DatabaseTable):
            query = _written(
                self.codec.schema, self._holdout, self._limited, opened.table.unbind().op()
            )
        codec, counted = self._coder(), cache(self._counted)

        def encoded(columns: Columns) -> ibis.Table:
            return codec.encoded(counted(), columns)

        return counting.load(opened, encoded, codec.schema.domain, self._weighing, query)

    def _part(self, *, held_out: bool = False) -> ibis.Table:
        """One part's rows, each counted once, with what is derived of persons."""
        table, unit = self._split(held_out=held_out), self.codec.schema.unit
        if unit is not None:
            table = persons.of_persons(table, unit, self._connection.backend.name)
        return with_parts(table, self.codec.schema.columns)

    def _split(self, *, held_out: bool = False) -> ibis.Table:
        """One part's rows as they lie."""
        table, unit = self._connection.table, self.codec.schema.unit
        # All rows of a person are on the same side.
        by = None if unit is None else persons.written(table[unit.column])
        engine = str(self._connection.backend.name)
        return self._holdout.part(table, engine, held_out=held_out, by=by)


@lru_cache(maxsize=64)
def _written(schema: Schema, holdout: Holdout, counted: bool, table: Any) -> str:
    """The text of DuckDB's query for all codes: to write it takes longer than to count few rows.

    It depends on what is public, the hold-out's salt, and the names and types of a table.
    """
    rows = PrivateRows(Source(), Codec(schema), holdout, counted=counted)
    engine = private_engine()
    # The table itself is not there: an engine's name decides how some values are read.
    empty = DatabaseTable(table.name, table.schema, engine, table.namespace).to_expr()
    rows.__dict__["_connection"] = Connection(engine, empty)
    return str(engine.compile(rows._coder().encoded(rows._counted())))
