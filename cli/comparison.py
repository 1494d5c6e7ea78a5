"""What ``marginalsyn evaluate`` compares: synthetic tables, and the real rows that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import options
from marginalsyn.cli.bundles import option
from marginalsyn.cli.inputs import (
    PrivateInput,
    find_origin,
    read_release,
    read_table,
    rows_of,
)
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release import Release
    from marginalsyn.table import Schema

WAYS_OUT = (
    "Give real rows that it did not see (--real FILE), or make a release with "
    "`marginalsyn generate --holdout 0.2`, or leave the models out "
    "(--reports privacy,marginals,distances), or add --in-sample, which labels everything so"
)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The tables that are compared, as they were named."""

    synthetic: tuple[Path, ...] = option(
        "--synthetic",
        default=(),
        type=options.PATH,
        multiple=True,
        metavar="FILE",
        panel="Rows",
        help="Synthetic rows from any tool, instead of a release: CSV or Parquet. May be repeated.",
    )
    weights: Path | None = option(
        "--weights",
        type=options.PATH,
        metavar="FILE",
        panel="Rows",
        help="Weights for the rows of --synthetic: a CSV file, one column per method.",
    )
    schema: Path | None = option(
        "--schema",
        type=options.PATH,
        metavar="FILE",
        panel="Rows",
        help="The schema that all tables follow. [default=the release's]",
    )
    real: Path | None = option(
        "--real",
        type=options.PATH,
        metavar="FILE",
        panel="Rows",
        help="Real rows that the generator did not see, for testing. [default=the held-out part of "
        "the table that the release came from]",
    )
    train: Path | None = option(
        "--train",
        type=options.PATH,
        metavar="FILE",
        panel="Rows",
        help="The real rows that the generator saw, to go with --real. Without it, --real is "
        "split.",
    )
    dataset: str | None = option(
        "--dataset",
        metavar="NAME",
        panel="Rows",
        help="A bundled table instead of --real; models are tested on its test part.",
    )
    in_sample: bool = option(
        "--in-sample",
        is_flag=True,
        panel="Rows",
        help="Test on rows that the generator saw, as some papers do. This flatters the "
        "release, and every result says so.",
    )


@dataclass(frozen=True)
class Cases:
    """The synthetic tables by name, the schema that reads them, and weights of a single table."""

    tables: dict[str, Any]
    schema: Schema
    weights: pd.DataFrame | None = None
    releases: Sequence[Release] = field(default_factory=list)


@dataclass(frozen=True)
class RealRows:
    """The real rows: to test on, and those that the generator saw where they are at hand."""

    title: str
    test: pd.DataFrame | None
    train: pd.DataFrame | None


def find_cases(releases: Sequence[Path], rows: Rows) -> Cases:
    """The releases or the files that are to be evaluated."""
    from marginalsyn.table import Schema

    schema = Schema.read(rows.schema) if rows.schema else None
    if rows.synthetic:
        if releases:
            raise UsageError("give either releases or --synthetic files, not both")
        if schema is None and rows.dataset is not None:
            from marginalsyn import datasets

            schema = datasets.schema(rows.dataset)
        if schema is None:
            raise UsageError(
                f"--synthetic ({rows.synthetic[0]}) needs the table's public --schema FILE"
            )
        if rows.weights is not None and len(rows.synthetic) > 1:
            raise UsageError("--weights must go with exactly one --synthetic table")
        weights = read_table(rows.weights, numbers=True) if rows.weights else None
        tables = _named(rows.synthetic, [read_table(path) for path in rows.synthetic])
        return Cases(tables, schema, weights)
    if rows.weights is not None:
        raise UsageError(
            f"--weights ({rows.weights}) can only be given with --synthetic: a release has weights "
            "of its own"
        )
    found = [read_release(path) for path in releases] or [read_release(None)]
    for release in found[1:]:
        if release.schema.names != found[0].schema.names:
            raise UsageError(
                f"release ({release.path.name}) must have the columns of {found[0].path.name} to "
                "be compared with it"
            )
    paths = list(releases) or [found[0].path]
    return Cases(_named(paths, found), schema or found[0].schema, releases=found)


def find_real(cases: Cases, rows: Rows, *, tests: bool) -> RealRows:
    """The real rows that the options name; else those of the workspace that were held out."""
    if rows.real is not None and rows.dataset is not None:
        raise UsageError("--real and --dataset name two tables; give one of them")
    if rows.train is not None and rows.real is None:
        raise UsageError(f"--train ({rows.train}) goes with --real, the rows to test on")
    if rows.real is not None:
        if tests and not rows.in_sample:
            _refuse_source(cases, rows.real)
        train = read_table(rows.train) if rows.train is not None else None
        return RealRows(str(rows.real), read_table(rows.real), train)
    if rows.dataset is None and not cases.releases:
        raise UsageError(
            "--synthetic needs real rows to compare with: --real FILE (rows that its generator did "
            "not see) or --dataset NAME"
        )
    if rows.dataset is not None:
        return _bundled(rows.dataset, rows.in_sample)
    origin = _common_origin(cases)
    if origin.dataset is not None:
        return _bundled(origin.dataset, rows.in_sample)
    return _own(origin, rows.in_sample, tests)


def _common_origin(cases: Cases) -> PrivateInput:
    """The source that all the releases came from, with what was held out of them."""
    first: PrivateInput | None = None
    for release in cases.releases:
        found = find_origin(cases.schema, rows_of(release))
        if found is None:
            raise UsageError(
                f"release ({release.path.name}) was not made in this workspace, so its real rows "
                "are not known: give them with --real FILE (rows that its generator did not see) "
                "or --dataset NAME"
            )
        first = first or found
        if (found.key, found.kept) != (first.key, first.kept):
            raise UsageError(
                f"release ({release.path.name}) must come from the table of "
                f"{cases.releases[0].path.name}, with the same rows held out, to be compared with "
                "it: give real rows that neither saw with --real FILE"
            )
    assert first is not None
    return first


def _bundled(name: str, in_sample: bool) -> RealRows:
    """A bundled table: its test part never reaches a generator."""
    from marginalsyn import datasets

    table = datasets.load(name)
    if in_sample:
        return RealRows(f"{name}, in sample", table.train, None)
    return RealRows(f"{name}, test part", table.test, table.train)


def _own(origin: PrivateInput, in_sample: bool, tests: bool) -> RealRows:
    """The curator's own table, through its unprotected view."""
    if not origin.kept.holdout and tests and not in_sample:
        raise UsageError(
            f"release must not be tested on rows that its generator saw, and it saw all of "
            f"{origin.key}. {WAYS_OUT}"
        )
    view = origin.open(None, origin.kept.neighbours).unprotected("evaluate a release")
    name = Path(origin.key).name
    if in_sample:
        return RealRows(f"{name}, in sample", view.frame(), None)
    if not origin.kept.holdout:
        return RealRows(name, None, view.frame())
    return RealRows(f"{name}, held-out rows", view.holdout_frame(), view.frame())


def _refuse_source(cases: Cases, real: Path) -> None:
    """Refuse --real where it is the very table that a release was made from."""
    from marginalsyn.private import same_source

    for release in cases.releases:
        origin = find_origin(release.schema, rows_of(release))
        if origin is not None and same_source(origin.key, real):
            if origin.kept.holdout:
                raise UsageError(
                    f"--real ({real}) is the table that the release was made from: leave it "
                    "out, and the rows that were held out of it are used"
                )
            raise UsageError(f"--real ({real}) must not be what the generator saw. {WAYS_OUT}")


def _named(paths: Sequence[Path], tables: Sequence[Any]) -> dict[str, Any]:
    """Tables by the shortest names that tell them apart."""
    short = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError(
            f"tables ({', '.join(names)}) must be different: two of them have the same name"
        )
    return dict(zip(names, tables, strict=True))
