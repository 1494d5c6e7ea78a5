"""One SQL statement for the counts of many marginals, by GROUPING SETS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.sources.count_blocks import Columns

if TYPE_CHECKING:
    import ibis

# How many sets one SELECT may have, by Ibis's name of the engine; what is more is joined by
# UNION ALL in the same statement. Engines that are not named are asked marginal by marginal.
SETS = {"postgres": 1000, "bigquery": 100, "snowflake": 100}
# The name of the counts; keys are c0, c1 and so on, so no column can be taken for it.
COUNT = "n"


def counted_together(backend: Any) -> bool:
    """Whether an engine can count several marginals in one statement."""
    return backend.name in SETS


def statement(backend: Any, table: ibis.Table, sets: Sequence[Sequence[str]]) -> str:
    """SQL that counts the rows of ``table`` in the groups of every set of its columns.

    A set's rows are null in the other columns, as codes never are.
    """
    import sqlglot.expressions as sge

    def quoted(name: str) -> str:
        return str(sge.to_identifier(name, quoted=True).sql(backend.dialect))

    most, source = SETS[backend.name], quoted("codes")
    parts = []
    for start in range(0, len(sets), most):
        some = sets[start : start + most]
        groups = ", ".join(f"({', '.join(map(quoted, names))})" for names in some)
        there = {name for names in some for name in names}
        keys = ", ".join(
            quoted(name) if name in there else f"CAST(NULL AS INT) AS {quoted(name)}"
            for name in table.columns
        )
        parts.append(
            f"SELECT {keys}, COUNT(*) AS {quoted(COUNT)} FROM {source} "
            f"GROUP BY GROUPING SETS ({groups})"
        )
    return f"WITH {source} AS ({backend.compile(table)}) " + " UNION ALL ".join(parts)


def count_sets(
    backend: Any, table: ibis.Table, sets: Sequence[Columns]
) -> list[tuple[list[np.ndarray], np.ndarray]]:
    """For every set of columns its groups, as one array of codes a column, and their counts."""
    import ibis

    wanted = list(dict.fromkeys(tuple(sorted(names)) for names in sets))
    schema = ibis.schema({**dict.fromkeys(table.columns, "int32"), COUNT: "int64"})
    query = backend.sql(statement(backend, table, wanted), schema=schema)
    found = backend.to_pyarrow(query)
    counts = found.column(COUNT).to_numpy()
    columns = list(table.columns)
    codes = {name: found.column(name).fill_null(-1).to_numpy() for name in columns}
    there = np.stack([codes[name] >= 0 for name in columns], axis=1)
    patterns, of_row = np.unique(np.packbits(there, axis=1), axis=0, return_inverse=True)
    place = {pattern.tobytes(): at for at, pattern in enumerate(patterns)}
    order = np.argsort(of_row.ravel(), kind="stable")
    starts = np.searchsorted(of_row.ravel()[order], np.arange(len(patterns) + 1))
    answers = []
    for names in sets:
        own = np.packbits(np.array([[name in names for name in columns]]), axis=1)
        at = place.get(own[0].tobytes())
        rows = order[starts[at] : starts[at + 1]] if at is not None else order[:0]
        answers.append(([codes[name][rows] for name in names], counts[rows]))
    return answers
