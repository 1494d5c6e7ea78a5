"""Commands that are groups: their operations are imported when they are asked for."""

from __future__ import annotations

from marginalsyn.cli.group import LazyGroup

SCHEMA = LazyGroup(
    name="schema",
    help="""Draft, check and improve a table's schema.

    A schema is public: every release contains it. Take bounds and categories from a code book, or
    buy them with privacy budget; never read them off the rows.
    """,
    examples="""
    marginalsyn schema infer people.csv --out people.schema.json
    marginalsyn schema check people.csv people.schema.json
    marginalsyn schema import metadata.json --bounds age=0:120 --out people.schema.json
    marginalsyn schema buy-bounds people.csv people.schema.json --eps 0.1 --out new.json
    """,
    lazy={
        "infer": "marginalsyn.operations.schema:InferSchema",
        "check": "marginalsyn.operations.schema:CheckSchema",
        "buy-bounds": "marginalsyn.operations.buying:BuyBounds",
        "buy-bins": "marginalsyn.operations.buying:BuyBins",
        "buy-categories": "marginalsyn.operations.buying:BuyCategories",
        "buy-max-rows": "marginalsyn.operations.buying:BuyMaxRows",
    },
)

LEDGER = LazyGroup(
    name="ledger",
    help="""Show and limit what a private source has spent.

    A ledger belongs to a source, not to a release: every release, and every other private
    measurement of the same rows, adds to it, whatever folder or name is used. Ledgers are kept in
    your data folder, or in the folder that the environment variable MARGINALSYN_LEDGERS names.
    """,
    examples="""
    # what the last source has spent
    marginalsyn ledger show
    # refuse whatever would take it over eps 4
    marginalsyn ledger cap --eps 4
    # all your ledgers; whether a line of theirs is missing or was changed
    marginalsyn ledger list
    marginalsyn ledger verify
    # runs that were interrupted; give one up
    marginalsyn ledger runs
    marginalsyn ledger forget
    """,
    lazy={
        "show": "marginalsyn.operations.ledger:ShowLedger",
        "list": "marginalsyn.operations.ledger:ListLedgers",
        "verify": "marginalsyn.operations.ledger:VerifyLedger",
        "cap": "marginalsyn.operations.ledger:CapLedger",
        "runs": "marginalsyn.operations.ledger:ListRuns",
        "forget": "marginalsyn.operations.ledger:ForgetRun",
    },
)

DATASETS = LazyGroup(
    name="datasets",
    help="List, describe and export the bundled public tables.",
    examples="""
    marginalsyn datasets list
    marginalsyn datasets show heart
    marginalsyn datasets export heart --out heart
    """,
    lazy={
        "list": "marginalsyn.operations.datasets:ListDatasets",
        "show": "marginalsyn.operations.datasets:ShowDataset",
        "export": "marginalsyn.operations.datasets:ExportDataset",
    },
)
