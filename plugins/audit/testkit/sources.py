"""The test kit for sources: a row's code is its own, and so is the side of a split it adds to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.table.schema import Schema


def check_rows_alone(
    make: Callable[[pd.DataFrame], Any],
    frame: pd.DataFrame,
    schema: Schema,
    *,
    share: float = 0.5,
    salt: str = "",
) -> None:
    """Every row is coded as it is in a table of its own, and moves no other across a split.

    Differential privacy rests on that: where one row can change how others are read, it changes
    every count by as many rows as there are. Equal rows may be exchanged: without one of them the
    other side of the split is as it was, or one of them less is on this side, and nothing else.

    Args:
        make: turns rows into what ``PrivateTable.open`` takes: themselves, a path of the file that
            it wrote, a database address or an Ibis table. Called for all rows, then for each.
        frame: the rows.
        schema: of their columns.
        share: of rows held out; 0 for an engine elsewhere, where none can be. Such an engine keeps
            no order of rows, so that their codes are compared in any order.
        salt: decides which rows are held out.

    Raises:
        AssertionError: it names the first row whose code or side others have changed.

    Example:
        >>> check_rows_alone(lambda rows: rows, pd.DataFrame({"a": [0, 1]}),
        ...                  Schema.from_domain({"a": 2}))
    """

    def codes(rows: pd.DataFrame, share: float) -> np.ndarray:
        table = PrivateTable.open(make(rows), schema, holdout=share, holdout_salt=salt)
        return table.unprotected("check that rows are encoded alone").codes()

    whole = codes(frame, 0.0)
    single = [frame.iloc[[position]] for position in range(len(frame))]
    alone = np.concatenate([whole[:0], *(codes(row, 0.0) for row in single)])
    assert len(whole) == len(alone) == len(frame), "every row must be read, once"
    if not share:
        whole, alone = (rows[np.lexsort(rows.T)] for rows in (whole, alone))
    for position, (together, by_itself) in enumerate(zip(whole, alone, strict=True)):
        assert (together == by_itself).all(), (
            f"row {position}: codes {together.tolist()} must be those of the row alone, "
            f"{by_itself.tolist()}"
        )
    if share:
        kept = Counter(map(tuple, codes(frame, share).tolist()))
        for position, by_itself in enumerate(alone.tolist()):
            others = frame.iloc[[*range(position), *range(position + 1, len(frame))]]
            rest = Counter(map(tuple, codes(others, share).tolist()))
            mine = Counter([tuple(by_itself)])
            assert rest in (kept, kept - mine), (
                f"row {position}: without it {list((kept - rest).elements())} are no longer kept "
                f"and {list((rest - kept).elements())} are; it must be at most the row itself"
            )
