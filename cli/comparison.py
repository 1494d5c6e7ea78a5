"""The tables that ``marginalsyn evaluate`` compares, as they were named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import options
from marginalsyn.cli.bundles import option
from marginalsyn.cli.inputs import read_release
from marginalsyn.errors import UsageError
from marginalsyn.operations.tables import read_table

if TYPE_CHECKING:
    from marginalsyn.operations.comparison import Cases


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The tables that are compared, as they were named."""

    panel = "Rows"

    synthetic: tuple[Path, ...] = option(
        "--synthetic",
        default=(),
        type=options.PATH,
        multiple=True,
        metavar="FILE",
        help="Synthetic rows from any tool, instead of a release: CSV or Parquet. May be repeated.",
    )
    weights: Path | None = option(
        "--weights",
        type=options.PATH,
        metavar="FILE",
        help="Weights for the rows of --synthetic: a CSV file, one column per method.",
    )
    schema: Path | None = option(
        "--schema",
        type=options.PATH,
        metavar="FILE",
        help="The schema that all tables follow. [default=the release's]",
    )
    real: Path | None = option(
        "--real",
        type=options.PATH,
        metavar="FILE",
        help="Real rows that the generator did not see, for testing. [default=the held-out part of "
        "the table that the release came from]",
    )
    train: Path | None = option(
        "--train",
        type=options.PATH,
        metavar="FILE",
        help="The real rows that the generator saw, to go with --real. Without it, --real is "
        "split.",
    )
    dataset: str | None = option(
        "--dataset",
        metavar="NAME",
        help="A bundled table instead of --real; models are tested on its test part.",
    )
    in_sample: bool = option(
        "--in-sample",
        is_flag=True,
        help="Test on rows that the generator saw, as some papers do. This flatters the "
        "release, and every result says so.",
    )


def find_cases(releases: Sequence[Path], rows: Rows) -> Cases:
    """The releases or the files that are to be evaluated."""
    from marginalsyn.operations.comparison import Cases
    from marginalsyn.table.schema import Schema

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


def _named(paths: Sequence[Path], tables: Sequence[Any]) -> dict[str, Any]:
    """Tables by the shortest names that tell them apart."""
    short = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError(
            f"tables ({', '.join(names)}) must be different: two of them have the same name"
        )
    return dict(zip(names, tables, strict=True))
