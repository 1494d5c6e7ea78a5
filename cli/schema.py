"""``marginalsyn schema``: draft a table's public schema, check it, buy bounds for it."""

from __future__ import annotations

import rich_click as click

from marginalsyn.cli import schema_buying
from marginalsyn.cli.group import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "infer": "marginalsyn.operations.schema:InferSchema",
        "check": "marginalsyn.operations.schema:CheckSchema",
    },
    examples="""
    marginalsyn schema infer people.csv --out people.schema.json
    marginalsyn schema check people.csv people.schema.json
    marginalsyn schema import metadata.json --bounds age=0:120 --out people.schema.json
    marginalsyn schema buy-bounds people.csv people.schema.json --eps 0.1 --out new.json
    """,
)
def schema() -> None:
    """Draft, check and improve a table's schema.

    A schema is public: every release contains it. Take bounds and categories from a code book, or
    buy them with privacy budget; never read them off the rows.
    """


for command in schema_buying.COMMANDS:
    schema.add_command(command)
