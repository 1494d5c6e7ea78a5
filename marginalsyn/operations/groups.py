"""Fields that several operations share: the private table, what is spent, how a run goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new, write_text
from marginalsyn.operations.operation import (
    Operation,
    Session,
    Value,
    argument,
    how_many,
    option,
    seed_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.operations.origins import FoundTable
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release

_source = partial(option, panel="Source")
_budget = partial(option, panel="Budget")
separator = partial(
    _source,
    None,
    "The character between the fields of a CSV file. [default=a comma, a tab for .tsv, or what the "
    "header line shows]",
    metavar="CHAR",
)
_data = partial(
    _source,
    None,
    "The private table: a CSV or Parquet file, a glob in quotes, or a URL of a database "
    "(`postgres://user@host/db?table=t`, `duckdb:///file.duckdb?table=t`, `spark://table`; "
    "`bigquery://` and `snowflake://` are untested on servers of theirs).",
    metavar="PATH|URL",
    python="The private rows: a frame, the path of a file, or a URL of a database. [default=the "
    "table that the release is known to come from]",
)

# Of a budget, or a total, in the currencies that have it.
AMOUNTS = ("eps", "delta", "rho", "mu")
SEEDED = (
    "--seed {}: whoever knows the seed can take the noise away again. The result is seeded, not "
    "private; for research only."
)


@dataclass(frozen=True)
class OfRelease(Operation[Value]):
    """An operation on a release."""

    release: Release | str | Path | None = argument(
        None, "The release folder. [default=the last one made here, else ./release]"
    )

    def read_release(self) -> Release:
        """The release that is meant, opened."""
        from marginalsyn.operations.release import Release

        if isinstance(self.release, str | Path | None):
            return Release.read(self.folder())
        return self.release

    def read_table(self) -> Release:
        """The same; of linked tables the persons, as a release of one table."""
        from marginalsyn.release import linked

        if isinstance(self.release, linked.LinkedRelease):
            return linked.TableRelease.of(self.release)
        persons = isinstance(self.release, linked.PersonsRelease)
        if not persons and linked.is_linked_release(self.folder()):
            return linked.TableRelease.read(self.folder())
        return self.read_release()

    def folder(self) -> Path:
        """The folder of the release that is meant."""
        release = self.release
        return release_path(release) if isinstance(release, str | Path | None) else release.path


def release_path(release: str | Path | None) -> Path:
    """The release given; else the last one made in this workspace; else ./release."""
    if release is not None:
        return Path(release)
    from marginalsyn.records.workspace import Workspace

    last, here = Workspace.here().read_last().get("release"), Path.cwd()
    if last is None or not Path(last).exists():
        return Path(defaults.RELEASE)
    return Path(last).relative_to(here) if Path(last).is_relative_to(here) else Path(last)


@dataclass(frozen=True)
class OfTable:
    """The private table, and the ledger that is charged."""

    data: pd.DataFrame | str | Path | None = _data()
    _: KW_ONLY
    dataset: str | None = _source(
        None, "A bundled table instead of --data; see `marginalsyn datasets list`.", metavar="NAME"
    )
    sep: str | None = separator()
    ledger: str | Path | None = _source(
        None,
        "The ledger file to charge, if it is not the one in your data folder (see "
        "`marginalsyn ledger list`).",
        metavar="FILE",
    )
    void_earlier_promises: bool = _source(
        False,
        "Allow a charge under another neighbouring relation than the ledger's, or under "
        "replace with another --holdout. Such a run may publish what the others keep private, "
        "such as a number of rows, so the ledger records that their promises are void.",
    )


@dataclass(frozen=True, kw_only=True)
class OfSchema:
    """What is publicly known of a table."""

    schema: str | Path | None = _source(
        None, "The table's public schema (JSON); see `marginalsyn schema infer`.", metavar="FILE"
    )
    accept_nonprivate_schema: bool = _source(
        False, "Accept a schema that was drafted from the data. The privacy statement will say so."
    )
    label: str | None = _source(
        None, "The label column, if it is not the schema's.", metavar="COLUMN"
    )


@dataclass(frozen=True, kw_only=True)
class OfPersons:
    """What a promise is for: rows, or persons with several."""

    unit: str | None = _source(
        None,
        "Protect persons, where each may have several rows: the column that identifies a "
        "person, such as patient_id. It is never released. `--unit row` says that rows are meant. "
        "[default=what the schema says, else row]",
        metavar="COLUMN",
    )
    max_rows: int | None = how_many(
        "With --unit: count at most so many rows of a person. A public number.", panel="Source"
    )
    order: str | None = _source(
        None,
        "With --unit: count those rows of a person that come first by this column, such as a "
        "date. [default=a choice by hashes, as good as a random one]",
        metavar="COLUMN",
    )


@dataclass(frozen=True, kw_only=True)
class Named(OfPersons, OfSchema, OfTable):
    """A private table as it was named, with all that may be said of it."""

    data: str | None = _data()
    holdout: float = _source(
        0.0,
        "Hold out this share of the rows of --data: the release never sees them, and "
        "`evaluate` tests on them.",
        range=(0, 1),
        max_open=True,
        show_default=False,
        metavar="SHARE",
    )


def named(operation: Any) -> Named:
    """The private table that an operation names by its fields; rows that it holds have no name."""
    given = {f.name: vars(operation)[f.name] for f in fields(Named) if f.name in vars(operation)}
    if not isinstance(given["data"], str | Path | None):
        given["data"] = None
    return Named(**{**given, "data": str(given["data"]) if given["data"] is not None else None})


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a run may spend."""

    eps: float | None = _budget(
        None,
        "The privacy budget of this run: the eps of (eps, delta)-differential privacy. "
        "Smaller is more private: 0.1 to 1 is strong, 1 to 4 is usual, above 10 "
        "promises little.",
        required=True,
        metavar="EPS",
    )
    delta: float | None = _budget(
        defaults.DELTA,
        "The delta of (eps, delta): a public constant, far smaller than 1 / (number of rows).",
        metavar="DELTA",
    )
    allow_large_delta: bool = _budget(False, "Accept a delta of 1e-6 or more.")
    neighbours: Literal["add-remove", "replace"] = _budget(
        "add-remove",
        "Which tables must be hard to distinguish: those that differ by one row added or "
        "removed, or by one row replaced (the number of rows is then public).",
    )

    def budget(self, release: Release | None = None) -> Budget:
        """The amount; what it does not say is as in the release that it is for."""
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.privacy.charges import Neighbours
        from marginalsyn.privacy.zcdp import DEFAULT_DELTA

        assert self.eps is not None
        known, delta = release.statement if release is not None else None, self.delta
        if delta is None:
            delta = (known.target_delta if known else 0) or DEFAULT_DELTA
        return Budget(
            eps=self.eps,
            delta=delta,
            neighbours=known.neighbours if known else Neighbours(self.neighbours or "add-remove"),
            allow_large_delta=self.allow_large_delta or self.delta is None,
        )


def read_share(text: str) -> float | str:
    """A share of a budget, or ``auto``, as the shell gives it."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise UsageError(f"share ({text}) must be a number, such as 0.1, or auto") from None


# The delta of what is bought for a release that is there.
later_delta = partial(
    _budget, None, "The delta of (eps, delta). [default=that of the release]", metavar="DELTA"
)


@dataclass(frozen=True, kw_only=True)
class Reported:
    """Work that is reported while it is done."""

    progress: Progress | None = option(None, "Where the work is reported.", shell=False)


@dataclass(frozen=True, kw_only=True)
class Paid(Reported):
    """How a run goes that is charged."""

    resume: bool = option(
        False,
        "Resume an interrupted run that was already charged. It keeps its own options "
        "and costs nothing more.",
    )
    seed: int | None = seed_option(
        "For research: draw all noise from this seed. The result is reproducible and NOT private."
    )

    @property
    def act(self) -> str:
        """What kind of run it is, as Python's callers name it."""
        return f"Release.{type(self).__name__.lower()}"

    @contextmanager
    def paying(
        self, session: Session, table: FoundTable | None, *, keeps: bool = True, go_on: bool = False
    ) -> Iterator[dict[str, Any]]:
        """What a mechanism takes with its table; what it pays for is kept until all has ended well.

        No ``table`` pays where nothing is read. Answers that protect nobody are not kept.
        """
        from marginalsyn.operations.origins import accounted
        from marginalsyn.privacy.noise import make_noise

        if self.seed is not None:
            session.warn(SEEDED.format(self.seed))
        recorder = None
        if table is not None and keeps:
            recorder = session.keep(table, self.act, resume=self.resume, go_on=go_on)
        with (
            recorder or nullcontext(),
            accounted(table.ledger if table is not None else None, recorder),
            session.progress(self.progress) as progress,
        ):
            yield {"noise": make_noise(self.seed), "progress": progress, "recorder": recorder}
            if recorder is not None:
                recorder.finish()


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A text that is the result, and the file that it may go to."""

    out: str | Path | None = option(None, "The new schema file. [default=stdout]", metavar="FILE")
    force: bool = option(False, "Overwrite what exists.")

    def check_new(self) -> None:
        """Refuse a file that is there already."""
        check_new(Path(self.out) if self.out is not None else None, self.force)

    def put(self, text: str) -> str:
        """Write the text to the file and return its name; without a file, return the text."""
        if self.out is None:
            return text.rstrip("\n")
        write_text(Path(self.out), text)
        return str(self.out)
