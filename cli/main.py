"""The command ``marginalsyn``: which commands there are, and how a failure leaves the process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import rich_click as click

from marginalsyn.cli.failures import debugging, fail
from marginalsyn.cli.group import LazyGroup

COMMANDS = {
    "start": "marginalsyn.cli.start:Start",
    "generate": "marginalsyn.operations.generate:Generate",
    "weight": "marginalsyn.operations.weight:Weight",
    "steer": "marginalsyn.operations.steer:Steer",
    "certify": "marginalsyn.operations.certify:Certify",
    "evaluate": "marginalsyn.operations.evaluate:Evaluate",
    "report": "marginalsyn.operations.report:Report",
    "estimate": "marginalsyn.operations.estimate:Estimate",
    "combine": "marginalsyn.operations.estimate:Combine",
    "sample": "marginalsyn.operations.sample:Sample",
    "show": "marginalsyn.operations.show:Show",
    "verify": "marginalsyn.operations.show:Verify",
    "schema": "marginalsyn.cli.groups:SCHEMA",
    "ledger": "marginalsyn.cli.groups:LEDGER",
    "datasets": "marginalsyn.cli.groups:DATASETS",
    "plugins": "marginalsyn.operations.datasets:Plugins",
}

PANELS = [
    {
        "name": "Make a release",
        "commands": ["start", "schema", "generate", "weight", "steer", "certify", "sample"],
    },
    {"name": "Evaluate a release", "commands": ["evaluate", "report"]},
    {"name": "Analyse a release", "commands": ["estimate", "combine"]},
    {"name": "Inspect a release", "commands": ["show", "verify"]},
    {"name": "Exchange with other tools", "commands": ["adopt", "export"]},
    {"name": "Track the budget", "commands": ["ledger"]},
    {"name": "Tables and plugins", "commands": ["datasets", "plugins"]},
    {"name": "Test the guarantees", "commands": ["audit"]},
]


class Program(LazyGroup):
    """The root group: turns every error into one message and an exit code."""

    place = ""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            with warnings.catch_warnings():
                if not debugging():
                    warnings.simplefilter("ignore")
                code: Any = run()
        except (Exception, KeyboardInterrupt) as error:
            fail(error)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=Program,
    name="marginalsyn",
    lazy=COMMANDS,
    examples="""
    # a private release of the bundled Adult table, in ./release
    marginalsyn generate --eps 2
    marginalsyn show
    # your own table, guided from the file to the release
    marginalsyn start people.csv
    # the same step by step: draft a schema, edit it, generate
    marginalsyn schema infer people.csv --out people.schema.json
    marginalsyn generate --data people.csv --schema people.schema.json --eps 1
    """,
)
@click.rich_config({"theme": "default-slim", "command_groups": {"marginalsyn": PANELS}})
@click.version_option(None, "--version", package_name="marginalsyn", message="%(prog)s %(version)s")
def cli() -> None:
    """Make differentially private synthetic tables and keep track of what they cost.

    The CURATOR of a private table makes a RELEASE: a folder with synthetic rows, a schema and a
    privacy statement, all of which may be published. Every measurement is charged to the table's
    LEDGER before it is taken.
    """


def main() -> None:
    """Run the command line."""
    cli(prog_name="marginalsyn")


if __name__ == "__main__":
    main()
