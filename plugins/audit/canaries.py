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
    return _with_persons(one, 1), _with_persons(other, MANY if len(other) > len(one) else 1)


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
    # The same persons have the same names in both tables, and the odd one a name of its own.
    names = [f"p{place}" for place in range(len(frame))]
    if last > 1:
        names[-1:] = ["odd"]
    times = np.where(np.arange(len(frame)) == len(frame) - 1, last, 1)
    found = frame.assign(**{PERSON.column: names})
    return found.iloc[np.repeat(np.arange(len(frame)), times)].reset_index(drop=True)


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
    return Schema.from_domain({"a": 3, "b": 2, "c": 2}, "c")


def crowd() -> Schema:
    """A column with a category for every canary, and a label."""
    return Schema.from_domain({"who": CANARIES, "c": 2}, "c")


Pair = Sequence[Sequence[Any]]
"""The rows of two neighbouring tables; of the one-run form none, for every run makes its own."""


def generator_cases(
    kind: Any, options: Mapping[str, Any] | None = None, **how: Any
) -> list[AuditCase]:
    """The cases of a generator.

    Args:
        kind: its config class; its ``audit_options`` are used where ``options`` do not say other.
        options: of the config.
        how: ``neighbours``, the relations to audit; ``eps`` and ``delta`` of the budget;
            ``persons``, whether neighbours differ by a person who has many rows.
    """
    odd, equal, small = [(2, 1, 1)], [(0, 0, 0)] * EQUAL_ROWS, categories()
    tables: dict[Neighbours, list[tuple[str, Schema, Pair]]] = {
        Neighbours.ADD_REMOVE: [
            (ODD_RECORD, small, (equal, equal + odd)),
            ("one run", crowd(), ()),
            ("empty table", small, ([], odd)),
        ],
        Neighbours.REPLACE: [(ODD_RECORD, small, (equal, equal[1:] + odd))],
    }
    return _cases(kind, GENERATORS, options, tables, **how)


def weight_cases(
    kind: Any, options: Mapping[str, Any] | None = None, **how: Any
) -> list[AuditCase]:
    """The cases of a weight estimator: one-hot synthetic rows, and a record that has it all.

    For one that ``needs_label`` the last column is the label; one that ``uses_label`` is run with a
    label and without. The arguments are those of :func:`generator_cases`.
    """
    plain = Schema.from_domain(dict.fromkeys("abcd", 2))
    labelled = Schema.from_domain(plain.domain, "d")
    if Duties(kind).needs_label:
        schemas = {"": labelled}
    else:
        schemas = {"": plain} | ({", label": labelled} if Duties(kind).uses_label else {})
    zero, ones = [(0, 0, 0, 0)], [(1, 1, 1, 1)]
    many = zero * EQUAL_ROWS
    found = []
    for suffix, schema in schemas.items():
        tables = {
            Neighbours.ADD_REMOVE: [
                (ODD_RECORD + suffix, schema, (many, many + ones)),
                ("empty table" + suffix, schema, ([], ones)),
            ],
            Neighbours.REPLACE: [(ODD_RECORD + suffix, schema, (many, many[1:] + ones))],
        }
        target = table_of([*np.eye(4, dtype=int).tolist() * 4, *zero, *ones], schema)
        found += _cases(kind, WEIGHTS, options, tables, target, **how)
    return found


def cases_of(group: str, method: str, **how: Any) -> list[AuditCase]:
    """The cases of a registered method."""
    make = {GENERATORS: generator_cases, WEIGHTS: weight_cases}.get(group)
    if make is None:
        raise UsageError(f"group ({group}) must be that of generators or of weights")
    return make(find(group, method), **how)


def _cases(
    kind: Any,
    group: str,
    options: Mapping[str, Any] | None,
    tables: Mapping[Neighbours, Sequence[tuple[str, Schema, Pair]]],
    target: pd.DataFrame | None = None,
    *,
    neighbours: Sequence[Neighbours] = tuple(Neighbours),
    eps: float | None = None,
    delta: float = DEFAULT_DELTA,
    persons: bool = False,
) -> list[AuditCase]:
    """The cases on some tables; without ``eps`` each where its claim is easiest to test."""
    found = []
    for relation in neighbours:
        for canary, schema, pair in tables[relation]:
            case = AuditCase(
                kind=kind,
                group=group,
                options={**Duties(kind).audit_options, **(options or {})},
                canary=canary,
                neighbours=relation,
                eps=PURE_EPS if eps is None else eps,
                delta=delta,
                schema=schema,
                tables=tuple(table_of(rows, schema) for rows in pair),
                target=target,
                persons=persons,
            )
            found.append(case if eps is not None else _at_its_eps(case))
    return found


def _at_its_eps(case: AuditCase) -> AuditCase:
    """The case at the eps where its claim is easiest to test."""
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
