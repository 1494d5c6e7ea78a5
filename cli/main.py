"""The command ``marginalsyn``: which commands there are, and how a failure leaves the process."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import rich_click as click

from marginalsyn.cli.group import LazyGroup
from marginalsyn.errors import Interrupted, MarginalsynError

COMMANDS = {
    "start": "marginalsyn.cli.start:Start",
    "generate": "marginalsyn.operations.generate:Generate",
    "weight": "marginalsyn.operations.weight:Weight",
    "steer": "marginalsyn.operations.sample:Steer",
    "certify": "marginalsyn.operations.certify:Certify",
    "evaluate": "marginalsyn.operations.evaluate:Evaluate",
    "report": "marginalsyn.operations.report:Report",
    "estimate": "marginalsyn.operations.estimate:Estimate",
    "combine": "marginalsyn.operations.estimate:Combine",
    "sample": "marginalsyn.operations.sample:Sample",
    "show": "marginalsyn.operations.report:Show",
    "verify": "marginalsyn.operations.report:Verify",
    "schema": "marginalsyn.cli.main:SCHEMA",
    "ledger": "marginalsyn.cli.main:LEDGER",
    "datasets": "marginalsyn.cli.main:DATASETS",
    "plugins": "marginalsyn.operations.datasets:Plugins",
}

DEBUG = "MARGINALSYN_DEBUG"

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


def debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return bool(os.environ.get(DEBUG))


def fail(error: BaseException) -> NoReturn:
    """Print one message for the error on stderr and exit with its code."""
    if debugging() and not isinstance(error, click.ClickException | click.Abort):
        raise error
    text, code = describe(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command
        usage = " ".join(command.collect_usage_pieces(error.ctx))
        click.echo(f"Usage: {error.ctx.command_path} {usage}", err=True)
        click.echo(f"Help:  {error.ctx.command_path} --help", err=True)
    head = "Error: "
    click.secho(head, fg="red", bold=True, nl=False, err=True)
    click.echo(_wrapped(head + text)[len(head) :], err=True)
    sys.exit(code)


def _wrapped(text: str) -> str:
    """The text wrapped between words on a terminal, as it is elsewhere; paths are never broken."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrap = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap(line) for line in text.splitlines())


def describe(error: BaseException) -> tuple[str, int]:
    """The message and the exit code of an error."""
    # Click turns every Ctrl-C into its own Abort.
    if isinstance(error, click.Abort) and isinstance(error.__context__, Interrupted):
        error = error.__context__
    if isinstance(error, MarginalsynError | Interrupted):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        text = error.format_message()
        if isinstance(error, click.MissingParameter):
            text = f"{text} {getattr(error.param, 'help', None) or ''}".strip()
        # Half of the world writes a decimal comma.
        if found := re.search(r"'([-+]?\d*),(\d+)' is not a valid float", text):
            text = f"{text} Write {found[1] or 0}.{found[2]}, with a point."
        text = re.sub("is not a valid float( range)?", "is not a number", text)
        return text, error.exit_code
    if isinstance(error, KeyboardInterrupt | EOFError | click.Abort):
        return "interrupted", Interrupted.exit_code
    if "Memory" in type(error).__name__:  # also the engine's
        return "out of memory; take fewer columns, fewer bins or a smaller --degree", 1
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", 1
    frames = traceback.extract_tb(error.__traceback__)
    frame = ([one for one in frames if "marginalsyn" in one.filename] or frames)[-1]
    # The error's own text is left out: it may quote private values, and bug reports are public.
    return (
        f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}: "
        "this is a fault of marginalsyn.\n"
        f"{DEBUG}=1 in front of the command shows the whole traceback.",
        1,
    )


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
    # A start makes many objects that stay; looking for dead ones among them took a tenth of it.
    gc.set_threshold(100_000)
    # Threads of scikit-learn that wait for each other use up the cores that others would need.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    cli(prog_name="marginalsyn")


if __name__ == "__main__":
    main()
