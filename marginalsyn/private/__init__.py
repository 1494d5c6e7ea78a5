"""The only door to private rows: sources, the ledger, and visits paid from it.

May touch: release, table, noise, budget, contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.private.book import SO_FAR, Book
    from marginalsyn.private.checking import ColumnCheck, check_data, layout_problems
    from marginalsyn.private.door import STAMP, PrivateTable, Unprotected
    from marginalsyn.private.drafted import widest
    from marginalsyn.private.drafting import Draft, described, draft_schema, infer_schema
    from marginalsyn.private.guessing import OPEN
    from marginalsyn.private.holdout import check_split
    from marginalsyn.private.identity import same_source
    from marginalsyn.private.keeper import Keeper
    from marginalsyn.private.ledger import Ledger
    from marginalsyn.private.ledger_records import ROWS, Cap
    from marginalsyn.private.ledgers import all_ledgers, ledgers_folder, open_ledger
    from marginalsyn.private.linked import PrivateForest, UnprotectedForest
    from marginalsyn.private.persons import WHOLE
    from marginalsyn.private.repeats import Repeats, UnitCheck, check_unit, find_repeats
    from marginalsyn.private.sources import open_source
    from marginalsyn.private.unfinished import Card, UnfinishedRun, interrupted
    from marginalsyn.private.visit import Visit

__getattr__, __dir__ = faces(__name__)
