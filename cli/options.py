"""The options that several commands share, spelled and explained in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli.bundles import Decorator, bundle, one, option
from marginalsyn.operations import groups
from marginalsyn.operations.groups import Named

if TYPE_CHECKING:
    pass

PATH = click.Path(path_type=Path)


class Source(Named):
    """The private table that a command means, as it was named."""


Spending = groups.Spending


# The delta of what is bought for a release that is there.
LATER = {"default": None, "help": "The delta of (eps, delta). [default=that of the release]"}


@dataclass(frozen=True, kw_only=True)
class Running(groups.Paid):
    """How a paid run goes."""

    dry_run: bool = option("--dry-run", is_flag=True)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the result goes and what is shown of it."""

    out: Path | None = option("--out", type=PATH)
    table_format: str = option(
        "--format",
        type=click.Choice(["csv", "parquet"]),
        default=defaults.FORMAT,
        help="The file format of the rows.",
    )
    force: bool = option("--force", is_flag=True, help="Overwrite what exists.")
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print no messages and no progress.")
    as_json: bool = option("--json", is_flag=True, help="Print JSON.")

    @property
    def path(self) -> Path:
        """The place, in a command where --out has a default."""
        assert self.out is not None
        return self.out


resume = one(Running, "resume")
model_label = click.option("--label", metavar="COLUMN", help="The column that models predict.")
confidence = click.option(
    "--confidence",
    type=float,
    default=0.95,
    metavar="SHARE",
    help="How often an interval should hold the truth.",
)
# Those that mean something else in every command, with its own help.
seed = partial(one, Running, "seed")
out = partial(one, Output, "out", metavar="FILE")
# Where a schema goes.
NEW_SCHEMA = {"metavar": "FILE", "help": "The new schema file. [default=stdout]"}
schema_output = bundle(Output, only=("out", "force", "quiet"), out=NEW_SCHEMA)


def rows(help: str, **about: Any) -> Decorator:
    """A number of rows."""
    return click.option("--rows", type=click.IntRange(min=1), metavar="N", help=help, **about)  # type: ignore[no-any-return]


force, quiet, as_json = (one(Output, name) for name in ("force", "quiet", "as_json"))

release = click.argument(
    "release",
    type=PATH,
    required=False,
    help="The release folder. [default=the last one made here, else ./release]",
)
