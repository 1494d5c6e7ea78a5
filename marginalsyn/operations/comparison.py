"""What releases are compared with: the real rows that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import PrivateInput, find_origin, rows_of
from marginalsyn.operations.sides import both_sides, counted, whose
from marginalsyn.operations.tables import Table, rows_in, told

if TYPE_CHECKING:
    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema

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
    """The real rows: to test on, and those that the generator saw where they are at hand.

    ``warnings`` say whose rows are on both sides.
    """

    title: str
    test: pd.DataFrame | None
    train: pd.DataFrame | None
    warnings: tuple[str, ...] = ()

    def told(self, found: Evaluation) -> Evaluation:
        """An evaluation with these warnings before its own."""
        return found.model_copy(update={"warnings": [*self.warnings, *found.warnings]})


def find_real(
    cases: Cases,
    *,
    real: Table | None = None,
    train: Table | None = None,
    dataset: str | None = None,
    in_sample: bool = False,
    tests: bool = True,
) -> RealRows:
    """The real rows that were named; else those of the workspace that were held out.

    Args:
        cases: the synthetic tables.
        real: rows that the generator did not see: a frame or a file.
        train: the rows that it saw.
        dataset: the name of a bundled table instead.
        in_sample: test on rows that the generator saw.
        tests: whether models are to be tested.
    """
    if real is not None and dataset is not None:
        raise UsageError("--real and --dataset name two tables; give one of them")
    if train is not None and real is None:
        raise UsageError(f"--train ({told(train)}) goes with --real, the rows to test on")
    if real is not None:
        if tests and not in_sample and not isinstance(real, pd.DataFrame):
            _refuse_source(cases, Path(real))
        title = "a table" if isinstance(real, pd.DataFrame) else str(real)
        return real_persons(
            title, rows_in(real), rows_in(train) if train is not None else None, cases.schema
        )
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


def real_persons(
    title: str, real: pd.DataFrame, train: pd.DataFrame | None, schema: Schema
) -> RealRows:
    """Real rows that were named, with the number of each person's rows where persons count."""
    warnings = both_sides(real, train, schema)
    rows = counted(real, schema)
    return RealRows(title, rows, None if train is None else counted(train, schema), warnings)


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
    name, said = Path(origin.key).name, whose(origin, view)
    if in_sample:
        return RealRows(f"{name}, in sample{said.of}", view.frame(), None, said.warnings)
    if not origin.kept.holdout:
        return RealRows(f"{name}{said.of}", None, view.frame(), said.warnings)
    test, train = view.holdout_frame(), view.frame()
    if not tests and len(train) and not len(test):
        return RealRows(f"{name}, of which none was held out{said.of}", None, train, said.warnings)
    if not len(test) or not len(train):
        listed = ", ".join(str(release.path) for release in releases)
        side, many = ("none", "few") if not len(test) else ("all", "many")
        raise UsageError(
            f"held-out rows ({side} of {len(test) + len(train):,}) must be some, and not all, to "
            f"evaluate on: too {many} rows were held out of a small table. The release is written "
            f"and paid for ({listed}). {WAYS_OUT}"
        )
    return RealRows(f"{name}, held-out rows{said.of}", test, train, said.warnings)


def _refuse_source(cases: Cases, real: Path) -> None:
    """Refuse --real where it is the very table that a release was made from."""
    from marginalsyn.sources.identity import same_source

    for release in cases.releases:
        origin = find_origin(release.schema, rows_of(release))
        if origin is not None and same_source(origin.key, real):
            if origin.kept.holdout:
                raise UsageError(
                    f"--real ({real}) is the table that the release was made from: leave it "
                    "out, and the rows that were held out of it are used"
                )
            raise UsageError(f"--real ({real}) must not be what the generator saw. {WAYS_OUT}")
