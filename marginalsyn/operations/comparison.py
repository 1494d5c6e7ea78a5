"""What releases are compared with: the real rows that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from marginalsyn import datasets
from marginalsyn.access.linked_tables import PrivateForest
from marginalsyn.access.private_table import PrivateTable, Unprotected
from marginalsyn.drafting.person_columns import find_person_columns
from marginalsyn.errors import UsageError
from marginalsyn.operations.evaluate import Evaluate
from marginalsyn.operations.files import read_table, rows_in
from marginalsyn.operations.groups import release_path
from marginalsyn.operations.linked import find_linked_origin
from marginalsyn.operations.origins import UNNAMED, PrivateInput, find_origin
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.sources.identity import same_source
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import persons_columns

Frames = dict[str, pd.DataFrame]


def whose(origin: PrivateInput, view: Unprotected) -> tuple[str, tuple[str, ...]]:
    """Whose rows a table of the curator's holds: words for a title, and what to be warned of.

    Where rows are protected, identifiers are looked for by name.
    """
    unit = origin.schema.unit
    if unit is not None:
        seen, split_off, _ = view.persons(unit.column)
        if origin.kept.holdout:
            return f" of {split_off:,} persons", ()
        return f" of {seen:,} persons", (_split_by_rows(unit.column),)
    schema = origin.schema
    names = [name for name in (*schema.drop, *schema.names) if name not in schema.derived]
    found = find_person_columns(origin.key, names, sep=origin.named.sep, **schema.reading)
    if not found:
        return "", ()
    column = found[0].name
    if not origin.kept.holdout:
        return "", (_split_by_rows(column),)
    _, tested, both = view.persons(column)
    return "", (_shared(column, both, tested),) if both else ()


def both_sides(real: pd.DataFrame, train: pd.DataFrame | None, schema: Schema) -> tuple[str, ...]:
    """A warning where rows of one person are among those tested on and among those seen."""
    if train is None:
        return ()
    columns = [schema.unit.column] if schema.unit else persons_columns(map(str, real.columns))
    for column in columns:
        if column in real and column in train:
            tested = set(real[column].dropna().astype(str))
            both = tested & set(train[column].dropna().astype(str))
            if both:
                return (_shared(column, len(both), len(tested)),)
    return ()


def counted(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Real rows with the number of each person's rows, where a release has it.

    With survey weights as many rows, drawn in proportion to them.
    """
    unit, weight = schema.unit, schema.survey_weight
    if weight is not None and weight.column in frame and {*schema.names} <= {*frame}:
        rows = PrivateTable.open(frame[[*schema.names, weight.column]], schema)
        return rows.unprotected("evaluate a release").frame(weighted=True)
    if unit is None or unit.max_rows == 1 or unit.count in frame:
        return frame
    if unit.column not in frame:
        raise UsageError(
            f"real rows must have the column ({unit.column}) that identifies persons, or their "
            f"number of rows ({unit.count}): the release counts persons"
        )
    unordered = schema.with_unit(unit.model_copy(update={"order": None}))
    names = [name for name in unordered.names if name not in unordered.derived]
    if not {*names} <= {*frame}:
        return frame  # what it lacks is said with the other columns
    rows = PrivateTable.open(frame[[unit.column, *names]], unordered)
    return rows.unprotected("evaluate a release").frame()


def _shared(column: str, both: int, tested: int) -> str:
    return (
        f"rows of one person are on both sides: {both:,} of {tested:,} persons ({column}) whose "
        "rows are tested on have other rows that the generator saw, so models look better than "
        f"they are for new persons. --unit {column} with --holdout splits by person"
    )


def _split_by_rows(column: str) -> str:
    return (
        f"models are tested on random splits of rows, and {column} identifies persons who have "
        "several: rows of one person are on both sides. --holdout with --unit splits by person"
    )


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
    releases: Sequence[Release] = field(default_factory=list)


@dataclass(frozen=True)
class RealRows:
    """Real rows to test on, those that the generator saw, and who is on both sides, if known."""

    title: str
    test: pd.DataFrame | None
    train: pd.DataFrame | None
    warnings: tuple[str, ...] = ()


def find_cases(asked: Evaluate) -> Cases:
    """The releases that are to be evaluated, or the files of rows; by default the last release."""
    releases, synthetic, weights = asked.releases, asked.synthetic, asked.weights
    if not isinstance(releases, Sequence):
        return Cases({releases.path.name: releases}, releases.schema, releases=[releases])
    schema = Schema.read(asked.schema) if asked.schema else None
    if synthetic:
        if releases:
            raise UsageError("give either releases or --synthetic files, not both")
        if schema is None and asked.dataset is not None:
            schema = datasets.schema(asked.dataset)
        if schema is None:
            raise UsageError(f"--synthetic ({synthetic[0]}) needs the table's public --schema FILE")
        if weights is not None and len(synthetic) > 1:
            raise UsageError("--weights must go with exactly one --synthetic table")
        columns = read_table(Path(weights), numbers=True) if weights else None
        return Cases(_by_name(synthetic, [rows_in(path) for path in synthetic]), schema, columns)
    if weights is not None:
        raise UsageError(
            f"--weights ({weights}) can only be given with --synthetic: a release has weights "
            "of its own"
        )
    paths: list[Any] = list(releases) or [release_path(None)]
    found = [Release.read(path) for path in paths]
    for release in found[1:]:
        if release.schema.names != found[0].schema.names:
            raise UsageError(
                f"release ({release.path.name}) must have the columns of {found[0].path.name} to "
                "be compared with it"
            )
    return Cases(_by_name(paths, found), schema or found[0].schema, releases=found)


def _by_name(files: Sequence[str | Path], tables: Sequence[Any]) -> dict[str, Any]:
    """Tables by short names, or by their paths where two of these are the same."""
    paths = [Path(file) for file in files]
    short = [path.resolve().stem if path.is_file() else path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError(
            f"tables ({', '.join(names)}) must be different: two of them have the same name"
        )
    return dict(zip(names, tables, strict=True))


def find_real(asked: Evaluate, cases: Cases, tests: bool) -> RealRows:
    """The real rows that were named; else those of the workspace that were held out.

    Where models are tested (``tests``), they must be rows that the generator did not see.
    """
    real, train, dataset, in_sample = asked.real, asked.train, asked.dataset, asked.in_sample
    if real is not None and dataset is not None:
        raise UsageError("--real and --dataset name two tables; give one of them")
    if train is not None and real is None:
        name = train if isinstance(train, str | Path) else type(train).__name__
        raise UsageError(f"--train ({name}) goes with --real, the rows to test on")
    if real is not None:
        title = "a table" if isinstance(real, pd.DataFrame) else str(Path(real))
        named = tests and not in_sample and not isinstance(real, pd.DataFrame)
        for release in cases.releases if named else ():
            origin = find_origin(release.schema, release)
            if origin is None or not same_source(origin.key, title):
                continue
            if origin.kept.holdout:
                raise UsageError(
                    f"--real ({title}) is the table that the release was made from: leave it "
                    "out, and the rows that were held out of it are used"
                )
            raise UsageError(f"--real ({title}) must not be what the generator saw. {WAYS_OUT}")
        test, seen = rows_in(real), rows_in(train) if train is not None else None
        warnings = both_sides(test, seen, cases.schema)
        # With the number of each person's rows where persons count.
        test, *others = (counted(one, cases.schema) for one in (test, seen) if one is not None)
        return RealRows(title, test, others[0] if others else None, warnings)
    if dataset is None and not cases.releases:
        raise UsageError(
            "--synthetic needs real rows to compare with: --real FILE (rows that its generator did "
            "not see) or --dataset NAME"
        )
    if dataset is not None:
        return _bundled(dataset, in_sample)
    origin = _common_origin(cases)
    if origin.dataset is not None:
        return _bundled(origin.dataset, in_sample)
    return _own(origin, cases.releases, in_sample, tests)


def _common_origin(cases: Cases) -> PrivateInput:
    """The source that all the releases came from, with what was held out of them."""
    first = None
    for release in cases.releases:
        found = find_origin(cases.schema, release)
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
    table = datasets.load(name)
    if in_sample:
        return RealRows(f"{name}, in sample", table.train, None)
    return RealRows(f"{name}, test part", table.test, table.train)


def _own(
    origin: PrivateInput, releases: Sequence[Release], in_sample: bool, tests: bool
) -> RealRows:
    """The curator's own table, through its unprotected view."""
    if not origin.kept.holdout and tests and not in_sample:
        raise UsageError(
            f"release must not be tested on rows that its generator saw, and it saw all of "
            f"{origin.key}. {WAYS_OUT}"
        )
    view = origin.open(None, origin.kept.neighbours).unprotected("evaluate a release")
    name, (of, warnings) = Path(origin.key).name, whose(origin, view)
    train = view.frame(weighted=True)
    if in_sample:
        return RealRows(f"{name}, in sample{of}", train, None, warnings)
    if not origin.kept.holdout:
        return RealRows(f"{name}{of}", None, train, warnings)
    test = view.holdout_frame(weighted=True)
    if not tests and len(train) and not len(test):
        return RealRows(f"{name}, of which none was held out{of}", None, train, warnings)
    if not len(test) or not len(train):
        listed = ", ".join(str(release.path) for release in releases)
        side, many = ("none", "few") if not len(test) else ("all", "many")
        raise UsageError(
            f"held-out rows ({side} of {len(test) + len(train):,}) must be some, and not all, to "
            f"evaluate on: too {many} rows were held out of a small table. The release is written "
            f"and paid for ({listed}). {WAYS_OUT}"
        )
    return RealRows(f"{name}, held-out rows{of}", test, train, warnings)


def find_real_linked(asked: Evaluate, release: LinkedRelease) -> tuple[Frames, Frames | None]:
    """The real linked tables to test on, and those that the generator saw, if they are known."""

    def read(folder: Any) -> Frames:
        return PrivateForest.open(folder, release.tree).unprotected("evaluate").frames()

    if asked.real is not None:
        return read(asked.real), read(asked.train) if asked.train is not None else None
    origin = find_linked_origin(release, UNNAMED)
    if origin is None:
        raise UsageError(
            "real tables must be named with --real FOLDER: this folder does not know what the "
            "release was made from"
        )
    if not origin.kept.holdout and not asked.in_sample:
        raise UsageError(
            "nobody was held out of the release: name other persons with --real FOLDER, or add "
            "--in-sample, which flatters the release"
        )
    view, root = origin.open().unprotected("evaluate the release"), release.tree.root.name
    seen = view.frames() if origin.kept.holdout else None
    test = view.frames(held_out=bool(origin.kept.holdout))
    if not asked.in_sample and seen and not (len(test[root]) and len(seen[root])):
        raise UsageError(
            f"held-out persons ({len(test[root]):,}) must be some, and not all, to evaluate on. "
            f"The release is written and paid for ({release.path}): name other persons with --real "
            "FOLDER, or add --in-sample"
        )
    return test, seen
