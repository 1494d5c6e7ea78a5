"""The options that several commands share, spelled and explained in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli.bundles import Decorator, bundle, one, option
from marginalsyn.operations.origins import Named

if TYPE_CHECKING:
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.release.folder import Release

PATH = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class Source(Named):
    """The private table that a command means, as it was named; see `marginalsyn.curator`."""

    panel = "Source"

    data: str | None = option(
        "--data",
        metavar="PATH|URL",
        help="The private table: a CSV or Parquet file, a glob in quotes, or a URL of a database "
        "(`postgres://user@host/db?table=t`, `duckdb:///file.duckdb?table=t`, `spark://table`; "
        "`bigquery://` and `snowflake://` are untested on servers of theirs).",
    )
    schema_path: Path | None = option(
        "--schema",
        type=PATH,
        metavar="FILE",
        help="The table's public schema (JSON); see `marginalsyn schema infer`.",
    )
    dataset: str | None = option(
        "--dataset",
        metavar="NAME",
        help="A bundled table instead of --data; see `marginalsyn datasets list`.",
    )
    sep: str | None = option(
        "--sep",
        metavar="CHAR",
        help="The character between the fields of a CSV file. [default=a comma, a tab for .tsv, or "
        "what the header line shows]",
    )
    unit: str | None = option(
        "--unit",
        metavar="COLUMN",
        panel="Source",
        help="Protect persons, each of whom may have several rows: the column that tells them "
        "apart, such as patient_id. It is never released. `--unit row` says that rows are meant. "
        "[default=what the schema says, else row]",
    )
    max_rows: int | None = option(
        "--max-rows",
        type=click.IntRange(min=1),
        metavar="N",
        panel="Source",
        help="With --unit: count at most so many rows of a person. A public number.",
    )
    order: str | None = option(
        "--order",
        metavar="COLUMN",
        panel="Source",
        help="With --unit: count those rows of a person that come first by this column, such as a "
        "date. [default=a choice by hashes, as good as a random one]",
    )
    holdout: float = option(
        "--holdout",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        show_default=False,
        metavar="SHARE",
        help="Hold out this share of the rows of --data: the release never sees them, and "
        "`evaluate` tests on them.",
    )
    ledger_path: Path | None = option(
        "--ledger",
        type=PATH,
        metavar="FILE",
        help="The ledger file to charge, if it is not the one in your data folder (see "
        "`marginalsyn ledger list`).",
    )
    void_earlier_promises: bool = option(
        "--void-earlier-promises",
        is_flag=True,
        help="Allow a charge under another neighbouring relation than the ledger's, or under "
        "replace with another --holdout. Such a run may publish what the others keep private, "
        "such as a number of rows, so the ledger records that their promises are void.",
    )
    accept_nonprivate_schema: bool = option(
        "--accept-nonprivate-schema",
        is_flag=True,
        help="Accept a schema that was drafted from the data. The privacy statement will say so.",
    )
    label: str | None = option(
        "--label",
        metavar="COLUMN",
        help="The label column, if it is not the schema's.",
    )


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a run may spend."""

    panel = "Budget"

    eps: float | None = option(
        "--eps",
        type=float,
        required=True,
        metavar="EPS",
        help="The privacy budget of this run: the eps of (eps, delta)-differential privacy. "
        "Smaller is more private: 0.1 to 1 is strong, 1 to 4 is usual, above 10 "
        "promises little.",
    )
    share: float | None = option(
        "--share",
        type=float,
        metavar="SHARE",
        help="Instead of --eps: spend this share (in rho) of the ledger's cap, or of what "
        f"the release spent if there is no cap. [default={defaults.SHARE:g}]",
    )
    delta: float | None = option(
        "--delta",
        type=float,
        default=defaults.DELTA,
        metavar="DELTA",
        help="The delta of (eps, delta): a public constant, far smaller than 1 / (number of rows).",
    )
    allow_large_delta: bool = option(
        "--allow-large-delta",
        is_flag=True,
        help="Accept a delta of 1e-6 or more.",
    )
    neighbours: str = option(
        "--neighbours",
        type=click.Choice(["add-remove", "replace"]),
        default="add-remove",
        help="Which tables must be hard to tell apart: those that differ by one row added or "
        "removed, or by one row replaced (the number of rows is then public).",
    )

    def budget(self, release: Release | None = None) -> Budget:
        """The amount; what it does not say of a release's successor is as in the release."""
        from marginalsyn.operations.spending import budget_for

        assert self.eps is not None
        return budget_for(
            release,
            eps=self.eps,
            delta=self.delta,
            neighbours=self.neighbours,
            allow_large_delta=self.allow_large_delta,
        )


# The delta of what is bought for a release that is there.
LATER = {"default": None, "help": "The delta of (eps, delta). [default=that of the release]"}


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a paid run goes."""

    dry_run: bool = option("--dry-run", is_flag=True)
    resume: bool = option(
        "--resume",
        is_flag=True,
        help="Resume an interrupted run that was already charged. It keeps its own options "
        "and costs nothing more.",
    )
    seed: int | None = option(
        "--seed",
        type=click.IntRange(min=0),
        metavar="N",
        help="For research: draw all noise from this seed. The result is reproducible and NOT "
        "private.",
    )


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
