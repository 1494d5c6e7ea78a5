"""The options that several commands share, spelled and explained in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import rich_click as click

from marginalsyn.cli.bundles import bundle, one, option
from marginalsyn.operations import groups
from marginalsyn.operations.groups import Named

PATH = click.Path(path_type=Path)


class Source(Named):
    """The private table that a command means, as it was named."""


Spending = groups.Spending


@dataclass(frozen=True, kw_only=True)
class Running(groups.Paid):
    """How a paid run goes."""

    dry_run: bool = option("--dry-run", is_flag=True)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the result goes and what is shown of it."""

    out: Path | None = option("--out", type=PATH)
    force: bool = option("--force", is_flag=True, help="Overwrite what exists.")
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print no messages and no progress.")
    as_json: bool = option("--json", is_flag=True, help="Print JSON.")


resume = one(Running, "resume")
# Those that mean something else in every command, with its own help.
seed = partial(one, Running, "seed")
out = partial(one, Output, "out", metavar="FILE")
# Where a schema goes.
NEW_SCHEMA = {"metavar": "FILE", "help": "The new schema file. [default=stdout]"}
schema_output = bundle(Output, only=("out", "force", "quiet"), out=NEW_SCHEMA)


quiet, as_json = (one(Output, name) for name in ("quiet", "as_json"))
