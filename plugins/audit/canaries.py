"""Worst-case neighbouring tables: equal records and one that is as different as possible.

What a mechanism adds up, one record can move most where nothing else lies: a rare category, the far
corner of the cube, a table without any other row. For weights the synthetic rows are public, so
they are placed where the record shows best.

Neighbouring tables of persons: what one person adds who has many rows, all of them alike.

The tables of an audit differ by one row. For persons that row becomes a person with more rows than
are counted; every other row is a person who has one. So the odd person moves all that the odd row
moved, in the number of a person's rows as well, and twelve times as much where a bound is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import Duties, Target, build_config
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.registry import GENERATORS, WEIGHTS, find
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

MANY, COUNTED = 12, 4
"""The rows of the odd person, and how many of a person are counted."""
REPLACED = 2
"""The rows of the person who is replaced."""
PERSON = Unit(column="person", max_rows=COUNTED)


def tables_of_persons(
    tables: Sequence[pd.DataFrame], neighbours: Neighbours
) -> tuple[pd.DataFrame, ...]:
    """The tables with persons in place of rows; the last row is what they differ by."""
    one, other = tables
    if neighbours is Neighbours.REPLACE:
        return _with_persons(one, REPLACED), _with_persons(other, MANY)
    longer = len(other) > len(one)
    return _with_persons(one, 1), _with_persons(other, MANY if longer else 1)


def one_row_each(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """A row for each person, whose rows are all alike, with their number as a release has it."""
    assert schema.unit is not None
    named = frame.groupby(PERSON.column, sort=False)
    found = named.first().reset_index(drop=True)
    found[schema.unit.count] = np.minimum(named.size().to_numpy(), schema.unit.max_rows)
    return found[schema.names]


def repeated(frame: pd.DataFrame, times: int = MANY) -> pd.DataFrame:
    """Every row as a person who has so many of it."""
    places = np.repeat(np.arange(len(frame)), times)
    return frame.iloc[places].assign(**{PERSON.column: places}).reset_index(drop=True)


def _with_persons(frame: pd.DataFrame, last: int) -> pd.DataFrame:
    """Each row a person; the last one has so many rows."""
    times = np.ones(len(frame), dtype=int)
    times[-1:] = last
    places = np.repeat(np.arange(len(frame)), times)
    # The same persons have the same names in both tables, and the odd one a name of its own.
    names = [f"p{place}" for place in places]
    if last > 1:
        names = [
            "odd" if place == len(frame) - 1 else n for place, n in zip(places, names, strict=True)
        ]
    return frame.iloc[places].assign(**{PERSON.column: names}).reset_index(drop=True)


EQUAL_ROWS = 8
ODD_RECORD = "odd record"
CANARIES = 300
"""Records of a run whose presence is guessed, each by a category of its own."""
PURE_EPS, OTHER_EPS = 1.0, 8.0
"""What is audited unless an eps is given: two tables can be distinguished often, not always."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditCase:
    """One mechanism, under one relation, on one pair of tables. All of it can be sent to a worker.

    Attributes:
        kind: the config class.
        group: the entry-point group, of generators or of weights.
        options: of the config.
        canary: a name for the tables.
        tables: the neighbours; of the one-run form none, for every run makes its own.
        target: the synthetic rows that weights are for.
        persons: whether the tables differ by a person who has many rows, rather than by a row.
    """

    kind: Any
    group: str
    options: Mapping[str, Any]
    canary: str
    neighbours: Neighbours
    eps: float
    delta: float
    schema: Schema
    tables: tuple[pd.DataFrame, ...] = ()
    target: pd.DataFrame | None = field(default=None, repr=False)
    persons: bool = False

    @cached_property
    def id(self) -> str:
        """What identifies it; two cases of the same id are the same."""
        words = (self.kind, self.canary, self.relation, self.eps, self.delta, self.options)
        return f"{self.group} {words}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AuditCase) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def relation(self) -> str:
        """Which tables are neighbours, in words."""
        return f"{self.neighbours}, persons" if self.persons else str(self.neighbours)

    @cached_property
    def public(self) -> Schema:
        """What the mechanism knows of the tables."""
        return self.schema.with_unit(PERSON) if self.persons else self.schema

    @property
    def one_run(self) -> bool:
        """Whether many records are guessed from each run, in place of one."""
        return not self.tables

    @cached_property
    def config(self) -> Any:
        """The config, built of the options."""
        return build_config(self.kind, self.options)

    @property
    def budget(self) -> Budget:
        return Budget(eps=self.eps, delta=self.delta, neighbours=self.neighbours)

    @cached_property
    def mechanism(self) -> Any:
        """The calibrated generator or estimator."""
        from marginalsyn.host import calibrate

        public = self.public if self.group == GENERATORS else self.rows_to_weight
        mechanism, _ = calibrate(self.config, public, self.budget)
        return mechanism

    @property
    def rows_to_weight(self) -> Target:
        assert self.target is not None
        frame = self.target.assign(**{PERSON.count: 1}) if self.persons else self.target
        # A public estimate of the number of private rows, the same for both tables.
        return Target(frame=frame, schema=self.public, rows=float(EQUAL_ROWS))


def categories() -> Schema:
    """Three small columns with an order, one of them the label: rare codes are far corners."""
    return Schema.from_domain({"a": 3, "b": 2, "c": 2}).model_copy(update={"label": "c"})


def crowd() -> Schema:
    """A column with a category for every canary, and a label."""
    return Schema.from_domain({"who": CANARIES, "c": 2}).model_copy(update={"label": "c"})


def generator_cases(
    kind: Any,
    options: Mapping[str, Any] | None = None,
    *,
    neighbours: Sequence[Neighbours] = tuple(Neighbours),
    eps: float | None = None,
    delta: float = DEFAULT_DELTA,
    persons: bool = False,
) -> list[AuditCase]:
    """The cases of a generator.

    Args:
        kind: its config class; its ``audit_options`` are used where ``options`` do not say other.
        options: of the config.
        neighbours: the relations to audit.
        eps: of the budget.
        delta: of the budget.
        persons: whether neighbours differ by a person who has many rows.
    """
    options = _options(kind, options)
    found: list[AuditCase] = []

    def add(canary: str, schema: Schema, relation: Neighbours, tables: Sequence[Any]) -> None:
        frames = tuple(table_of(rows, schema) for rows in tables)
        case = AuditCase(
            kind=kind, group=GENERATORS, options=options, canary=canary, neighbours=relation,
            eps=PURE_EPS if eps is None else eps, delta=delta, schema=schema, tables=frames,
            persons=persons,
        )  # fmt: skip
        found.append(_with_eps(case, eps))

    odd, equal = [(2, 1, 1)], [(0, 0, 0)] * EQUAL_ROWS
    for relation in neighbours:
        if relation is Neighbours.ADD_REMOVE:
            add(ODD_RECORD, categories(), relation, (equal, equal + odd))
            add("one run", crowd(), relation, ())
            add("empty table", categories(), relation, ([], odd))
        else:
            add(ODD_RECORD, categories(), relation, (equal, equal[1:] + odd))
    return found


def weight_cases(
    kind: Any,
    options: Mapping[str, Any] | None = None,
    *,
    neighbours: Sequence[Neighbours] = tuple(Neighbours),
    eps: float | None = None,
    delta: float = DEFAULT_DELTA,
    persons: bool = False,
) -> list[AuditCase]:
    """The cases of a weight estimator: one-hot synthetic rows, and a record that has it all.

    For one that ``needs_label`` the last column is the label; one that ``uses_label`` is run with a
    label and without.
    """
    plain = Schema.from_domain(dict.fromkeys("abcd", 2))
    labelled = plain.model_copy(update={"label": "d"})
    if Duties(kind).needs_label:
        schemas = {"": labelled}
    else:
        schemas = {"": plain} | ({", label": labelled} if Duties(kind).uses_label else {})
    found = []
    for suffix, schema in schemas.items():
        found += _weight_cases(
            kind, _options(kind, options), schema, suffix, neighbours, eps, delta, persons
        )
    return found


def _weight_cases(
    kind: Any,
    options: dict[str, Any],
    schema: Schema,
    suffix: str,
    neighbours: Sequence[Neighbours],
    eps: float | None,
    delta: float,
    persons: bool,
) -> list[AuditCase]:
    zero, ones = [(0, 0, 0, 0)], [(1, 1, 1, 1)]
    target = table_of([*np.eye(4, dtype=int).tolist() * 4, *zero, *ones], schema)
    found = []
    for relation in neighbours:
        many = zero * EQUAL_ROWS
        tables = {ODD_RECORD: (many, many[1:] + ones)}
        if relation is Neighbours.ADD_REMOVE:
            tables = {ODD_RECORD: (many, many + ones), "empty table": ([], ones)}
        for canary, pair in tables.items():
            case = AuditCase(
                kind=kind, group=WEIGHTS, options=options, canary=canary + suffix,
                neighbours=relation, eps=PURE_EPS if eps is None else eps, delta=delta,
                schema=schema,
                tables=tuple(table_of(rows, schema) for rows in pair), target=target,
                persons=persons,
            )  # fmt: skip
            found.append(_with_eps(case, eps))
    return found


def cases_of(group: str, method: str, **how: Any) -> list[AuditCase]:
    """The cases of a registered method."""
    make = {GENERATORS: generator_cases, WEIGHTS: weight_cases}.get(group)
    if make is None:
        raise UsageError(f"group ({group}) must be that of generators or of weights")
    return make(find(group, method), **how)


def _options(kind: Any, options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**Duties(kind).audit_options, **(options or {})}


def _with_eps(case: AuditCase, given: float | None) -> AuditCase:
    """Return the case at the eps where its claim is easiest to test."""
    if given is not None:
        return case
    try:
        total = compose(tuple(case.mechanism.cost), case.delta, case.neighbours)
    except MarginalsynError:
        return case  # the audit says why it cannot be run
    return case if total.delta == 0 else replace(case, eps=OTHER_EPS)


def table_of(rows: Sequence[Any], schema: Schema) -> pd.DataFrame:
    kind = float if schema.columns[0].kind == "continuous" else int
    return pd.DataFrame(
        np.array(rows, dtype=kind).reshape(-1, len(schema.names)), columns=schema.names
    )
