"""The only door to private rows: sources, the ledger, and visits paid from it.

May touch: release, table, noise, budget, contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.private.bounds import buy, grid_schema
    from marginalsyn.private.checking import check_data, layout_problems
    from marginalsyn.private.door import STAMP, PrivateTable, Unprotected
    from marginalsyn.private.drafting import infer_schema
    from marginalsyn.private.holdout import check_split
    from marginalsyn.private.identity import same_source
    from marginalsyn.private.ledger import SO_FAR, Ledger
    from marginalsyn.private.ledger_records import Cap
    from marginalsyn.private.ledgers import all_ledgers, ledgers_folder, open_ledger
    from marginalsyn.private.sources import open_source
    from marginalsyn.private.unfinished import Card, Keeper, UnfinishedRun, interrupted
    from marginalsyn.private.visit import Visit

__getattr__, __dir__ = faces(
    __name__,
    {
        "bounds": (
            "buy",
            "grid_schema",
        ),
        "checking": (
            "check_data",
            "layout_problems",
        ),
        "door": (
            "PrivateTable",
            "STAMP",
            "Unprotected",
        ),
        "drafting": ("infer_schema",),
        "holdout": ("check_split",),
        "identity": ("same_source",),
        "ledger": (
            "Ledger",
            "SO_FAR",
        ),
        "ledger_records": ("Cap",),
        "ledgers": (
            "all_ledgers",
            "ledgers_folder",
            "open_ledger",
        ),
        "sources": ("open_source",),
        "unfinished": (
            "Card",
            "Keeper",
            "UnfinishedRun",
            "interrupted",
        ),
        "visit": ("Visit",),
    },
)
