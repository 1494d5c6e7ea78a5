"""Which synthetic tables ``marginalsyn evaluate`` means, and which real rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli.releases import chosen
from marginalsyn.cli.source import DATASET
from marginalsyn.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release import Kept, Memory, Release
    from marginalsyn.table import Schema

WAYS_OUT = (
    "Give real rows that it did not see (--real FILE), or make a release with "
    "`marginalsyn generate --holdout 0.2`, or leave the models out "
    "(--reports privacy,marginals,distances), or add --in-sample, which labels everything so"
)


@dataclass(frozen=True)
class Cases:
    """The synthetic tables by name, the schema that reads them, and weights of a single table."""

    tables: dict[str, Any]
    schema: Schema
    weights: pd.DataFrame | None = None
    releases: list[Release] = field(default_factory=list)


@dataclass(frozen=True)
class RealRows:
    """The real rows: to test on, and those that the generator saw where they are at hand."""

    title: str
    real: pd.DataFrame | None
    train: pd.DataFrame | None
    in_sample: bool = False


def find_cases(
    releases: Sequence[Path],
    tables: Sequence[Path],
    weights_path: Path | None,
    schema_path: Path | None,
    dataset: str | None,
) -> Cases:
    """The releases or the files that are to be evaluated."""
    from marginalsyn.release import Release
    from marginalsyn.table import Schema

    schema = Schema.read(schema_path) if schema_path else None
    if tables:
        if releases:
            raise UsageError("--synthetic and releases name two things; give one kind of them")
        if schema is None and dataset is not None:
            from marginalsyn import datasets

            schema = datasets.schema(dataset)
        if schema is None:
            raise UsageError(f"--synthetic ({tables[0]}) needs the table's public --schema FILE")
        if weights_path is not None and len(tables) > 1:
            raise UsageError("--weights are of one table; give one --synthetic")
        weights = read_table(weights_path, numbers=True) if weights_path else None
        return Cases(_named(tables, [read_table(path) for path in tables]), schema, weights)
    if weights_path is not None:
        raise UsageError(
            f"--weights ({weights_path}) are for --synthetic; a release brings its own"
        )
    paths = list(releases) or [chosen(None)]
    found = [Release.read(path) for path in paths]
    for release in found[1:]:
        if release.schema.names != found[0].schema.names:
            raise UsageError(
                f"release ({release.path.name}) must have the columns of {found[0].path.name} to "
                "be compared with it"
            )
    return Cases(_named(paths, found), schema or found[0].schema, releases=found)


def find_real(
    cases: Cases,
    *,
    real_path: Path | None,
    train_path: Path | None,
    dataset: str | None,
    in_sample: bool,
    tests: bool,
) -> RealRows:
    """The real rows that the options name; else those of the workspace that were held out."""
    if real_path is not None and dataset is not None:
        raise UsageError("--real and --dataset name two tables; give one of them")
    if train_path is not None and real_path is None:
        raise UsageError(f"--train ({train_path}) goes with --real, the rows to test on")
    if real_path is not None:
        _refuse_source(cases, real_path, in_sample or not tests)
        train = read_table(train_path) if train_path is not None else None
        return RealRows(str(real_path), read_table(real_path), train, in_sample)
    if dataset is None and not cases.releases:
        raise UsageError(
            "--synthetic needs real rows to compare with: --real FILE (rows that its generator did "
            "not see) or --dataset NAME"
        )
    if dataset is not None:
        return _bundled(dataset, in_sample)
    memory, kept = _remembered(cases.releases)
    if memory.source.startswith(DATASET):
        return _bundled(memory.source.removeprefix(DATASET), in_sample)
    return _own(memory, kept, cases.schema, in_sample, tests)


def _remembered(releases: Sequence[Release]) -> tuple[Memory, Kept]:
    """The source that all the releases came from, and what was held out of them."""
    from marginalsyn.release import Workspace

    workspace = Workspace.here()
    found = []
    for release in releases:
        known = workspace.of_rows(release.statement.files[release.frame_file])
        if known is None:
            raise UsageError(
                f"release ({release.path.name}) was not made in this workspace, so its real rows "
                "are not known: give them with --real FILE (rows that its generator did not see) "
                "or --dataset NAME"
            )
        found.append(known)
    first = found[0]
    for release, (memory, kept) in zip(releases, found, strict=True):
        if memory.source != first[0].source or kept != first[1]:
            raise UsageError(
                f"release ({release.path.name}) must come from the table of "
                f"{releases[0].path.name}, with the same rows held out, to be compared with it: "
                "give real rows that neither saw with --real FILE"
            )
    return first


def _bundled(name: str, in_sample: bool) -> RealRows:
    """A bundled table: its test part never reaches a generator."""
    from marginalsyn import datasets

    table = datasets.load(name)
    if in_sample:
        return RealRows(f"{name}, in sample", table.train, None, True)
    return RealRows(f"{name}, test part", table.test, table.train)


def _own(memory: Memory, kept: Kept, schema: Schema, in_sample: bool, tests: bool) -> RealRows:
    """The curator's own table, through its unprotected view."""
    from marginalsyn.private import PrivateTable

    if not kept.holdout and tests and not in_sample:
        raise UsageError(
            f"release must not be tested on rows that its generator saw, and it saw all of "
            f"{memory.source}. {WAYS_OUT}"
        )
    table = PrivateTable.open(
        memory.source,
        schema,
        holdout=kept.holdout,
        holdout_salt=kept.holdout_salt,
        neighbours=kept.neighbours,
        sep=memory.sep,
    )
    view = table.unprotected("evaluate a release")
    name = Path(memory.source).name
    if in_sample:
        return RealRows(f"{name}, in sample", view.frame(), None, True)
    if not kept.holdout:
        return RealRows(name, None, view.frame())
    return RealRows(f"{name}, held-out rows", view.holdout_frame(), view.frame())


def _refuse_source(cases: Cases, real_path: Path, allowed: bool) -> None:
    """Refuse --real where it is the very table that a release was made from."""
    from marginalsyn.private import same_source
    from marginalsyn.release import Workspace

    workspace = Workspace.here()
    for release in cases.releases:
        known = workspace.of_rows(release.statement.files[release.frame_file])
        if known is not None and not allowed and same_source(known[0].source, real_path):
            if known[1].holdout:
                raise UsageError(
                    f"--real ({real_path}) is the table that the release was made from: leave it "
                    "out, and the rows that were held out of it are used"
                )
            raise UsageError(f"--real ({real_path}) must not be what the generator saw. {WAYS_OUT}")


def read_table(path: Path, *, numbers: bool = False) -> pd.DataFrame:
    """A CSV or Parquet file of any tool; texts stay texts unless ``numbers``."""
    import pandas as pd

    kind: Any = None if numbers else str
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        sep = "\t" if path.name.endswith((".tsv", ".tsv.gz")) else ","
        return pd.read_csv(
            path,
            sep=sep,
            dtype=kind,
            keep_default_na=False,
            na_values=["", "NaN", "nan"],
            # A blank line in a file of weights is a missing weight.
            skip_blank_lines=not numbers,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip()
        raise DataError(f"file ({path}) must be a readable table: {reason}") from None


def read_json(path: Path) -> Any:
    """A JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"file ({path}) must be readable JSON: {error}") from None


def _named(paths: Sequence[Path], tables: Sequence[Any]) -> dict[str, Any]:
    """Tables by the shortest names that tell them apart."""
    short = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError(f"tables ({', '.join(names)}) must be different ones")
    return dict(zip(names, tables, strict=True))
