"""The only door to private rows: sources, the ledger, and visits paid from it.

May touch: release, table, noise, budget, contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.private.bounds import buy, grid_schema, widest
    from marginalsyn.private.categories import (
        SET_UNION,
        CategoryPlan,
        buy_categories,
        open_up,
    )
    from marginalsyn.private.checking import ColumnCheck, check_data, layout_problems
    from marginalsyn.private.door import STAMP, PrivateTable, Unprotected
    from marginalsyn.private.drafting import Draft, described, draft_schema, infer_schema
    from marginalsyn.private.guessing import OPEN
    from marginalsyn.private.holdout import check_split
    from marginalsyn.private.identity import same_source
    from marginalsyn.private.ledgers import all_ledgers, ledgers_folder, open_ledger
    from marginalsyn.private.linked import PrivateForest, UnprotectedForest
    from marginalsyn.private.most_rows import CAP, TAIL, buy_max_rows, capped_schema
    from marginalsyn.private.repeats import Repeats, UnitCheck, check_unit, find_repeats
    from marginalsyn.private.shapes import CLEAR, ShapePlan, with_shapes
    from marginalsyn.private.sources import open_source
    from marginalsyn.private.visit import Visit
    from marginalsyn.records.entries import ROWS, Cap
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.resume import Keeper
    from marginalsyn.records.runs import Card, UnfinishedRun, interrupted
    from marginalsyn.records.totals import SO_FAR, Book

__getattr__, __dir__ = faces(__name__)
