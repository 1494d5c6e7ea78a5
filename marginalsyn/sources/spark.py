"""Counts in Spark: rows are encoded once, and all marginals of a round are counted in one job.

The encoded rows stay on the executors as a few blocks of bytes (persisted in memory, on disk where
that is full, and made again by Spark where an executor is lost). A round is one job: every
partition's blocks are counted by numpy, the partitions' totals are added up on the executors in
pieces, and the driver receives as many numbers as the marginals have cells, whatever the rows.
Executors need Python with numpy and pyarrow, and nothing of this package.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.sources import count_blocks
from marginalsyn.sources.count_blocks import Columns, Maps, Task, Weighing

if TYPE_CHECKING:
    import ibis

# A block of encoded rows, and how many of them travel together: what a worker holds at a time. As
# many rows travel together where they are encoded, for Spark knows one number for both.
BLOCK_BYTES = 2**14
BLOCKS_A_BATCH = 2**11
# Cells of a piece of totals: what one executor adds up.
PIECE_CELLS = 2**17
MOST_REDUCERS = 64
# Totals of all partitions up to this size are added up by the driver: that saves a shuffle.
DIRECT_BYTES = 2**26

# What a job gives back: totals, cut into pieces.
PIECES = "piece int, cells binary"

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
# In force while jobs run, for that is when Spark reads them.
_SETTINGS = {
    _BATCH: str(BLOCKS_A_BATCH),
    # A generated method beyond this is never compiled to machine code: Spark then splits it.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Adaptive plans run each shuffle as a job of its own; here sizes are known beforehand.
    "spark.sql.adaptive.enabled": "false",
}


class SparkCodes:
    """Codes in a Spark session, classic or of Spark Connect; ``sizes`` are of all columns."""

    def __init__(
        self,
        backend: Any,
        encoded: Callable[[Columns], ibis.Table],
        sizes: Mapping[str, int],
        weighing: Weighing | None = None,
    ) -> None:
        self._backend, self._encoded, self._weighing = backend, encoded, weighing
        self._session = backend._session
        self._kinds = count_blocks.kinds_of(sizes)
        self._sizes = dict(sizes)
        self._blocks: Any = None
        # Of the blocks; known after the first round.
        self._partitions: int | None = None

    def count(
        self, marginals: Sequence[Columns], sizes: Mapping[str, int], maps: Maps
    ) -> list[np.ndarray]:
        used = {name for columns in marginals for name in columns}
        task = Task(
            list(marginals),
            dict(sizes),
            {name: codes for name, codes in maps.items() if name in used},
            self._weighing,
        )
        # One more cell counts the partitions.
        cells = sum(task.cells) + 1
        with _sent_by_value(), _settings(self._session, _SETTINGS):
            parts = self._packed().mapInArrow(_counter(task, self._kinds), PIECES)
            if self._partitions is None or self._partitions * cells * 8 > DIRECT_BYTES:
                pieces = -(-cells // PIECE_CELLS)
                parts = parts.repartition(min(pieces, MOST_REDUCERS), "piece")
                parts = parts.mapInArrow(_make_adder(), PIECES)
            found = _collect(self._session, parts)
        total = np.zeros(cells, dtype=np.int64)
        for piece, values in found:
            start = piece * PIECE_CELLS
            total[start : start + PIECE_CELLS] += np.frombuffer(values, np.int64)
        self._partitions = int(total[-1])
        return task.shaped(np.split(total[:-1], np.cumsum(task.cells)[:-1]))

    def batches(self, columns: Columns, size: int) -> Iterator[np.ndarray]:
        with _sent_by_value(), _settings(self._session, _SETTINGS):
            # One partition at a time comes here, so that memory does not grow with the rows.
            for rows, block in self._packed().toLocalIterator():
                found = count_blocks.unpack(block, rows, self._kinds, columns)
                for start in range(0, rows, size):
                    part = slice(start, start + size)
                    yield np.column_stack([found[n][part].astype(np.int32) for n in columns])

    def close(self) -> None:
        if self._blocks is not None:
            blocks, self._blocks = self._blocks, None
            # The session may have ended before the table was closed.
            with contextlib.suppress(Exception):
                blocks.unpersist()

    def _packed(self) -> Any:
        """The blocks: planned here, made by the first job that reads them, and then kept."""
        if self._blocks is None:
            table = self._encoded(tuple(self._sizes))
            table = _in_words(table, self._kinds)
            rows = self._session.sql(self._backend.compile(table))
            blocks = rows.mapInArrow(_packer(self._kinds), "rows int, codes binary")
            self._blocks = blocks.persist()
        return self._blocks


def _in_words(table: ibis.Table, kinds: Mapping[str, str]) -> ibis.Table:
    """The codes side by side in few whole numbers: Spark pays for every column that it sends.

    Their names are plain: a name with a dot is a field of a struct to Spark.
    """
    words: dict[str, Any] = {}
    for name, (number, byte) in count_blocks.places_of(kinds).items():
        code = table[name].cast("int64")
        part = code << (8 * byte) if byte else code
        word = f"w{number}"
        words[word] = words[word] | part if word in words else part
    return table.select(**words)


# What follows runs in Spark's workers: functions inside functions are sent to them as they are.


def _packer(kinds: Mapping[str, str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    most, pack = BLOCK_BYTES, count_blocks.pack

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for rows, block in pack(batches, kinds, most):
            columns = [pa.array([rows], pa.int32()), pa.array([block], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["rows", "codes"])

    return run


def _counter(task: Task, kinds: Mapping[str, str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    piece, used, cells = PIECE_CELLS, task.used, task.cells
    gather, count, zeros = count_blocks.gather, count_blocks.tally, count_blocks.zeros
    # A count of rows alone needs no column.
    used = used or list(kinds)[:1]

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy
        import pyarrow as pa

        totals = zeros(task)
        for batch in batches:
            numbers, blocks = batch.columns
            buffers = [block.as_buffer() for block in blocks]
            packed = list(zip(numbers.to_pylist(), buffers, strict=True))
            arrays, rows = gather(packed, kinds, used)
            count(totals, arrays, rows, task)
        flat = numpy.concatenate([*totals, numpy.ones(1, numpy.int64)])
        del totals
        for place, start in enumerate(range(0, sum(cells) + 1, piece)):
            values = flat[start : start + piece].tobytes()
            columns = [pa.array([place], pa.int32()), pa.array([values], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["piece", "cells"])

    return run


def _make_adder() -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy
        import pyarrow as pa

        totals: dict[int, Any] = {}
        for batch in batches:
            for place, cells in zip(*batch.columns, strict=True):
                values = numpy.frombuffer(cells.as_buffer(), numpy.int64)
                at = place.as_py()
                totals[at] = totals[at] + values if at in totals else values.copy()
        for at, values in totals.items():
            columns = [pa.array([at], pa.int32()), pa.array([values.tobytes()], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["piece", "cells"])

    return run


@contextlib.contextmanager
def _sent_by_value() -> Iterator[None]:
    """Send the functions of ``tally`` to workers themselves, not the name of this package."""
    from pyspark import cloudpickle

    known = count_blocks.__name__ in cloudpickle.list_registry_pickle_by_value()
    if not known:
        cloudpickle.register_pickle_by_value(count_blocks)
    try:
        yield
    finally:
        if not known:
            cloudpickle.unregister_pickle_by_value(count_blocks)


def _collect(session: Any, rows: Any) -> list[Any]:
    """The rows of one job, which is cancelled where this thread is stopped, as by Ctrl-C.

    The job is waited for in a thread of its own: one that waits in Spark's gateway can neither be
    interrupted nor tell Spark anything.
    """
    tag = f"marginalsyn-{secrets.token_hex(6)}"
    found = []
    failed = []

    def work() -> None:
        try:
            if hasattr(session, "addTag"):  # not before Spark 4
                session.addTag(tag)
            found.extend(rows.collect())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name=tag, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.5)
    except BaseException:
        with contextlib.suppress(Exception):
            session.interruptTag(tag)
        thread.join(10)
        raise
    if failed:
        raise failed[0]
    return found


@contextlib.contextmanager
def _settings(session: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while; those that it does not let go stay as they are."""
    before = {}
    try:
        for key, value in wanted.items():
            # Some services forbid it: counts are the same, at another speed.
            with contextlib.suppress(Exception):
                was = session.conf.get(key, None)
                session.conf.set(key, value)
                before[key] = was
        yield
    finally:
        for key, was in before.items():
            with contextlib.suppress(Exception):
                session.conf.unset(key) if was is None else session.conf.set(key, was)
