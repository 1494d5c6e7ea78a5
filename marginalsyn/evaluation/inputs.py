"""The two sides of an evaluation: real rows on one, synthetic tables with weights on the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import bdtr, bdtrc

from marginalsyn.drafting.check import check_data
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.reports import Case, Options, RealData, by_column
from marginalsyn.generators.workload import Workload
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema

# A random split is warned of with at most this chance; pairs of columns are read up to so many
# codes.
CHANCE = 1e-3
MOST_CODES = 10**8
TEST_SHARE = 0.2
Protocol = Literal["held-out", "splits", "in-sample"]


@dataclass(frozen=True)
class Trial:
    """One repetition: real rows to train on (if there are any), real rows to test on, a seed."""

    train: CodedRows | None
    test: CodedRows
    seed: int


@dataclass(frozen=True)
class Trials:
    """All repetitions, and what the test rows are to the release.

    ``held-out``: one test part that neither the generator nor the real model saw. ``splits``:
    random splits of rows that the generator did not see. ``in-sample``: random splits of the rows
    that the generator saw, as in Zhou et al. 2024; its results flatter the release.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> trials = Trials.split(table, repeats=5, seed=0, in_sample=False)
        >>> len(trials.trials)
        5
    """

    protocol: Protocol
    trials: tuple[Trial, ...]
    cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def hold_out(
        cls, train: CodedRows | None, test: CodedRows, *, repeats: int, seed: int
    ) -> Trials:
        """One fixed test part; repetitions differ in the seeds of what is random."""
        return cls("held-out", tuple(Trial(train, test, seed + r) for r in range(repeats)))

    @classmethod
    def split(cls, real: CodedRows, *, repeats: int, seed: int, in_sample: bool) -> Trials:
        """Random 80/20 splits of the real rows."""
        if len(real) < 2:
            raise UsageError(f"real rows ({len(real)}) must be two or more to be split")
        trials = []
        for r in range(repeats):
            order = np.random.default_rng([seed, r]).permutation(len(real))
            cut = min(len(real) - 1, max(1, round(TEST_SHARE * len(real))))
            trials.append(Trial(real.take(order[cut:]), real.take(order[:cut]), seed + r))
        return cls("in-sample" if in_sample else "splits", tuple(trials))

    @property
    def fixed(self) -> bool:
        """Whether every repetition has the same test rows."""
        return self.protocol == "held-out"


def check_options(options: Options) -> None:
    """Refuse numbers that cannot be worked with."""
    if not 1 <= options.degree <= 5:
        raise UsageError(f"degree ({options.degree}) must be from 1 to 5")
    if not 1 <= options.repeats <= 1000:
        raise UsageError(f"repeats ({options.repeats}) must be from 1 to 1000")
    if options.shadow and not 4 <= options.shadow <= 1000:
        raise UsageError(f"shadow ({options.shadow}) must be 0, or from 4 to 1000")


def read_workload(
    workload: Iterable[Sequence[str]] | None, schema: Schema
) -> tuple[tuple[str, ...], ...] | None:
    """The marginals asked for, with their columns in schema order."""
    if workload is None:
        return None
    return Workload.of([list(q) for q in workload], schema.domain).marginals


def make_ground(
    schema: Schema,
    label: str | None,
    real: pd.DataFrame | None,
    train: pd.DataFrame | None,
    options: Options,
    *,
    in_sample: bool,
    warnings: list[str],
    persons: np.ndarray | None = None,
) -> RealData:
    """The real side: what is compared with, and how models are trained and tested.

    ``persons`` says of each reference row of linked tables which person it belongs to: what is
    known of rows that are drawn one by one is not said of them.
    """
    if real is None and train is None:
        raise UsageError("real (None) must be a table, unless train is one")
    for name, frame in (("real", real), ("train", train)):
        if frame is not None and not len(frame):
            raise UsageError(f"{name} rows (0) must be at least one")
    if label is not None:
        schema.column(label)
    tested, learnt = (
        _encode(frame, schema, f"the {name} table", warnings, quote=False)
        if frame is not None
        else None
        for name, frame in (("real", real), ("train", train))
    )
    repeats: dict[str, Any] = {"repeats": options.repeats, "seed": options.seed}
    trials, uneven = None, ""
    if tested is not None and learnt is not None:
        if in_sample:
            raise UsageError(
                "in_sample (True) cannot be combined with train rows: leave out one of them"
            )
        if persons is None:
            _refuse_same_rows(learnt, tested)
            uneven = find_uneven(learnt, tested) if schema.unit is None else ""
        warnings += [uneven] if uneven else []
        trials = Trials.hold_out(learnt, tested, **repeats)
    elif tested is not None and len(tested) > 1:
        trials = Trials.split(tested, in_sample=in_sample, **repeats)
    reference = learnt if learnt is not None else tested
    assert reference is not None
    fresh = tested if learnt is not None else None
    return RealData(
        schema=schema,
        label=label or schema.label,
        reference=reference,
        fresh=fresh,
        trials=trials,
        uneven=uneven,
        persons=persons,
    )


def find_uneven(train: CodedRows, test: CodedRows) -> str:
    """A warning where two sides of a table are not a random split of its rows.

    Of n rows in a cell of a table of one or two columns, those on a side are hypergeometric if the
    split is random. Binomial tails are wider (Uhlmann 1966), and times the number of cells they
    bound the chance of any: a random split is warned of at most once in a thousand.
    """
    codes = np.concatenate([train.codes, test.codes]).astype(np.int64)
    rows, share = len(codes), len(test) / len(codes)
    names, sizes = list(train.schema.domain), list(train.schema.domain.values())
    listed: list[tuple[int, ...]] = [(j,) for j in range(len(names))]
    listed += list(itertools.combinations(range(len(names)), 2))[: max(1, MOST_CODES // rows)]
    cells, worst = 0, (1.0, "")
    for columns in listed:
        index = np.ravel_multi_index(codes[:, columns].T, [sizes[j] for j in columns])
        kinds, place, counts = np.unique(index, return_inverse=True, return_counts=True)
        found = np.bincount(place[len(train) :], minlength=len(kinds))
        tails = np.minimum(bdtr(found, counts, share), bdtrc(found - 1, counts, share))
        cells, least = cells + len(kinds), int(tails.argmin())
        if tails[least] < worst[0]:
            of = np.unravel_index(kinds[least], [sizes[j] for j in columns])
            values = " and ".join(
                f"{names[j]} {train.schema.columns[j].labels()[int(code)]}"
                for j, code in zip(columns, of, strict=True)
            )
            worst = tails[least], f"{found[least]:,} of the {counts[least]:,} rows with {values}"
    if 2 * cells * worst[0] >= CHANCE:
        return ""
    return (
        f"the held-out rows are not like those that the generator saw, by more than chance: they "
        f"are {share:.0%} of all rows, and {worst[1]}. What is compared with them may mislead"
    )


def _refuse_same_rows(train: CodedRows, test: CodedRows) -> None:
    """Refuse test rows that are the training rows."""
    if len(train) == len(test) and np.array_equal(
        np.unique(train.units, axis=0), np.unique(test.units, axis=0)
    ):
        raise UsageError(
            "real rows must not be the train rows: models would be tested on what the generator "
            "saw. Give other rows, or leave --train out and add --in-sample"
        )


def _encode(
    frame: pd.DataFrame,
    schema: Schema,
    name: str,
    warnings: list[str],
    *,
    quote: bool,
    checked: bool = True,
) -> CodedRows:
    """Read a table by the schema: columns in any order, others ignored, strange values counted.

    ``quote`` allows values of the table in messages; those of real rows stay out of them.
    ``checked`` off trusts the values: reading a release has checked them.
    """
    missing = [column for column in schema.names if column not in frame.columns]
    if missing:
        has = ", ".join(map(str, frame.columns[:20]))
        raise UsageError(
            f"{name} must have the schema's columns; it lacks {', '.join(missing[:8])}. "
            f"It has {has}"
        )
    frame = frame[schema.names]
    for check in check_data(frame, schema) if checked else ():
        strange, there = check.unseen + check.unparsable, check.rows - check.missing
        such = f", such as {', '.join(map(repr, check.examples[:3]))}" if quote else ""
        if isinstance(check.column, CategoricalColumn) and check.column.origin == "bought":
            # Rare values are meant to be left out of what a release buys, in whatever number.
            start = f"column {check.name}: "
            if strange and not any(line.startswith(start) for line in warnings):
                warnings.append(
                    f"{start}{strange / there:.0%} of the real values are too rare for the "
                    "categories that were bought, and count as the rest"
                )
            continue
        if strange and 2 * strange > there:
            raise UsageError(
                f"column ({check.name}) of {name} must hold the schema's values; "
                f"{strange:,} of {there:,} are others{such}. Is it coded otherwise?"
            )
        if strange:
            warnings.append(
                f"column {check.name} of {name}: {strange:,} of {there:,} values are not in the "
                f"schema{such}"
            )
    return CodedRows.of(Codec(schema).conform(frame), schema)


def make_case(
    name: str,
    table: pd.DataFrame | Release,
    schema: Schema,
    weights: pd.DataFrame | pd.Series | np.ndarray | None,
    warnings: list[str],
    *,
    released: bool = False,
) -> Case:
    """One synthetic table with its weights, checked; oddities are added to ``warnings``.

    Rows of a release that reading it has checked are ``released``.
    """
    logs = {}
    release = table if isinstance(table, Release) else None
    if isinstance(table, Release):
        if weights is not None:
            raise UsageError("weights must not be given with a release, which brings its own")
        frame, weights, logs = table.frame(), table.weights(), by_column(table.log_weights())
    else:
        frame = table
    if not len(frame):
        raise UsageError(f"synthetic table ({name}) must have rows")
    # A release may be read by another schema, whose bins differ, say.
    checked = release.schema.columns != schema.columns if release is not None else not released
    title = f"the synthetic table {name}"
    encoded = _encode(frame, schema, title, warnings, quote=True, checked=checked)
    return Case(
        name=name,
        synthetic=encoded,
        frame=frame,
        weights=read_weights(weights, len(frame)),
        log_weights=logs,
        release=release,
    )


def read_weights(
    weights: pd.DataFrame | pd.Series | np.ndarray | None, rows: int
) -> dict[str, np.ndarray]:
    """Columns of weights by name, each checked: one finite number of zero or more per row."""
    if weights is None:
        return {}
    if isinstance(weights, pd.DataFrame):
        columns = {str(n): weights[n] for n in weights if not str(n).endswith(".log")}
    else:
        name = (weights.name if isinstance(weights, pd.Series) else None) or "weights"
        columns = {str(name): pd.Series(np.asarray(weights).ravel())}
    found = {}
    for name, column in columns.items():
        values = pd.to_numeric(column, errors="coerce").to_numpy(float)
        if len(values) != rows:
            raise UsageError(f"weights ({name}, {len(values)} rows) must have {rows} rows")
        if not np.isfinite(values).all():
            count = int((~np.isfinite(values)).sum())
            raise UsageError(
                f"weights ({name}) must be numbers in every row; {count} are missing or not finite"
            )
        if (values < 0).any() or not values.sum() > 0:
            raise UsageError(f"weights ({name}) must be zero or more, and not all zero")
        found[name] = values
    return found
