"""The rows of one private table, read when they are first asked for.

Only :mod:`marginalsyn.private` makes one, and hands it to a paid visit or an unprotected view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.sources import counting, persons
from marginalsyn.sources.counting import Weighing
from marginalsyn.sources.holdout import part
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.encoding import plain, text_key
from marginalsyn.table.engine import Connection, engine_errors
from marginalsyn.table.parts import with_parts

if TYPE_CHECKING:
    import ibis
    import pandas as pd

    from marginalsyn.sources.counting import Codes, Columns, Maps
    from marginalsyn.sources.source import Source
    from marginalsyn.table.unit import Unit

# A marginal of more cells would not fit in memory; which one is asked for is public.
MOST_CELLS = 2**27


@dataclass(frozen=True)
class Holdout:
    """Which rows no visit sees: a share of them, chosen by a salt; and what relation holds."""

    share: float
    salt: str
    neighbours: Neighbours


class PrivateRows:
    """Encoded counts, batches and frames of the rows that are not held out.

    Args:
        source: where the rows lie.
        codec: encodes them.
        holdout: which of them are not seen.
        counted: whether rows of persons are bounded and weighted, as a paid visit counts them.
    """

    def __init__(
        self, source: Source, codec: Codec, holdout: Holdout, *, counted: bool = True
    ) -> None:
        self._source, self._codec, self._holdout = source, codec, holdout
        self._bound: Unit | None = codec.schema.unit if counted else None
        # Of persons of whom one row is counted that row is seen like any other: a person is a row.
        alone = self._bound is None or self._bound.max_rows == 1
        self.unit: Unit | None = None if alone else self._bound

    @property
    def whole(self) -> int:
        """What the rows of one person, or one row, add to a count."""
        return 1 if self.unit is None else persons.WHOLE

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of codes of every column."""
        return self._codec.schema.domain

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
        found = self._codec.schema.column(name)
        assert isinstance(found, CategoricalColumn)
        tokens = self._codec.schema.missing_tokens
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
        rows = PrivateRows(self._source, codec, self._holdout, counted=self._bound is not None)
        if "_connection" in self.__dict__:
            rows.__dict__["_connection"] = self._connection
        return rows

    def batches(self, columns: Sequence[str] | None, size: int, maps: Maps) -> Iterator[np.ndarray]:
        """Codes, int32, of at most ``size`` rows at a time; the rows' order is the source's."""
        names = self.names(columns)
        with engine_errors(self._source.name):
            for batch in self._codes.batches(names, size):
                for position, name in enumerate(names):
                    if name in maps:
                        batch[:, position] = maps[name][batch[:, position]]
                yield batch

    def unit_batches(
        self, columns: Sequence[str] | None, size: int, absent: float = 0.5
    ) -> Iterator[np.ndarray]:
        """The same rows as unit coordinates, float64; missing numbers are ``absent``."""
        names = self.names(columns)
        with engine_errors(self._source.name):
            table = self._codec.unit_table(self._counted(), names, absent)
            kind = np.dtype(np.float64)
            yield from counting.stream(self._connection.backend, table, size, kind)

    def weighted_batches(
        self, columns: Sequence[str] | None, size: int, maps: Maps
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Codes as :meth:`batches` gives them, with what each row weighs in persons.

        The weights of a person's rows add up to 1 exactly; there are none where rows are counted.
        """
        if self.unit is None:
            for batch in self.batches(columns, size, maps):
                yield batch, None
            return
        names, weights = self.names(columns), persons.weights(self.unit.max_rows)
        with engine_errors(self._source.name):
            for batch in self._codes.batches((*names, persons.SHARE), size):
                codes = np.ascontiguousarray(batch[:, :-1])
                for position, name in enumerate(names):
                    if name in maps:
                        codes[:, position] = maps[name][codes[:, position]]
                yield codes, weights[batch[:, -1]] / persons.WHOLE

    def weighted_unit_batches(
        self, columns: Sequence[str] | None, size: int, absent: float = 0.5
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Unit coordinates as :meth:`unit_batches` gives them, with what each row weighs."""
        if self.unit is None:
            for batch in self.unit_batches(columns, size, absent):
                yield batch, None
            return
        names, weights = self.names(columns), persons.weights(self.unit.max_rows)
        with engine_errors(self._source.name):
            units = self._coder().unit_table(self._counted(), (*names, persons.SHARE), absent)
            backend, kind = self._connection.backend, np.dtype(np.float64)
            for batch in counting.stream(backend, units, size, kind):
                codes = np.rint(batch[:, -1] * (len(weights) - 1)).astype(np.intp)
                yield np.ascontiguousarray(batch[:, :-1]), weights[codes] / persons.WHOLE

    def by_person(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All codes, what each row weighs, and a number that a person's rows share, from 0 on."""
        assert self.unit is not None
        weights = persons.weights(self.unit.max_rows)
        with engine_errors(self._source.name):
            extra = (persons.SHARE, *persons.NUMBER)
            table = self._counted(numbered=True)
            encoded = self._coder(numbered=True).encoded(table, (*self.sizes, *extra))
            backend, kind = self._connection.backend, np.dtype(np.int32)
            found = [np.empty((0, len(self.sizes) + len(extra)), dtype=kind)]
            found += counting.stream(backend, encoded, counting.BATCH_ROWS, kind)
        rows = np.concatenate(found)
        numbers = rows[:, -2].astype(np.int64) * persons.DIGITS + rows[:, -1]
        return rows[:, :-3], weights[rows[:, -3]] / persons.WHOLE, numbers

    def codes(self, maps: Maps) -> np.ndarray:
        """All codes, int32, in schema order."""
        none = np.empty((0, len(self.sizes)), dtype=np.int32)
        return np.concatenate([none, *self.batches(None, counting.BATCH_ROWS, maps)])

    def frame(self, *, held_out: bool = False) -> pd.DataFrame:
        """The rows as a release would hold them."""
        with engine_errors(self._source.name):
            # Values themselves stay in the engine, for not all of them have a Python value.
            query = self._codec.conformed(self._part(held_out=held_out))
            return self._codec.restored(self._connection.backend.to_pyarrow(query))

    def leave(self) -> None:
        """Free what an engine elsewhere holds for the visit that has ended."""
        if isinstance(self.__dict__.get("_codes"), counting.KeptCounts):
            self.close()

    def persons(self, column: str) -> tuple[int, int, int]:
        """How many persons have rows that are seen, how many such that are held out, or both."""
        with engine_errors(self._source.name):
            found = []
            for held_out in (False, True) if self._holdout.share else (False,):
                rows = self._split(held_out=held_out)
                named = persons.keyed(rows[column], str(self._connection.backend.name))
                query = rows.select(named.name("person")).distinct()
                listed = self._connection.backend.to_pyarrow(query).column("person").to_pylist()
                found.append({one for one in listed if one is not None})
        seen, held = found if len(found) > 1 else (*found, set())
        return len(seen), len(held), len(seen & held)

    def close(self) -> None:
        """Release the codes; they are read again when needed."""
        if "_codes" in self.__dict__:
            self.__dict__.pop("_codes").close()

    def names(self, columns: Sequence[str] | None) -> Columns:
        """The columns as a tuple, each of them known and none twice; None stands for all."""
        names = tuple(self.sizes if columns is None else columns)
        if len(set(names)) < len(names):
            raise UsageError(f"columns ({', '.join(names)}) must be distinct")
        return tuple(self._codec.schema.column(name).name for name in names)

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
        return Weighing(persons.SHARE, persons.weights(self.unit.max_rows))

    def _counted(self, *, numbered: bool = False) -> ibis.Table:
        """The rows that are counted, of persons at most so many each."""
        if self._bound is None:
            return self._part()
        engine = self._connection.backend.name
        table = persons.bounded(self._split(), self._bound, engine, numbered=numbered)
        table = table.drop(persons.SHARE) if self.unit is None else table
        return with_parts(table, self._codec.schema.columns)

    def _coder(self, *, numbered: bool = False) -> Codec:
        """What encodes them, with their weights where they are persons'."""
        if self.unit is None:
            return self._codec
        return Codec(persons.with_share(self._codec.schema, self.unit, numbered=numbered))

    @cached_property
    def _codes(self) -> Codes:
        table, codec = self._counted(), self._coder()

        def encoded(columns: Columns) -> ibis.Table:
            return codec.encoded(table, columns)

        return counting.load(self._connection, encoded, codec.schema.domain, self._weighing)

    def _part(self, *, held_out: bool = False) -> ibis.Table:
        """One part's rows, each counted once, with what is derived of persons."""
        table, unit = self._split(held_out=held_out), self._codec.schema.unit
        if unit is not None:
            table = persons.of_persons(table, unit, self._connection.backend.name)
        return with_parts(table, self._codec.schema.columns)

    def _split(self, *, held_out: bool = False) -> ibis.Table:
        """One part's rows as they lie."""
        table, unit = self._connection.table, self._codec.schema.unit
        if not self._holdout.share:
            return table
        return part(
            table,
            share=self._holdout.share,
            salt=self._holdout.salt,
            held_out=held_out,
            # All rows of a person are on the same side.
            by=None if unit is None else persons.written(table[unit.column]),
            engine=str(self._connection.backend.name),
        )
