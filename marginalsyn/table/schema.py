"""The schema: everything about a table that is public knowledge, read from and written to JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from marginalsyn.errors import SchemaError, reason_of
from marginalsyn.privacy.charges import Charge
from marginalsyn.table.columns import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    OrdinalColumn,
    Scalar,
    text_of,
)
from marginalsyn.table.made import KINDS, MadeColumn
from marginalsyn.table.margins import PublicMargin, check_margins, margin_of, read_margin
from marginalsyn.table.moments import (
    MOMENTS,
    DateColumn,
    DatetimeColumn,
    MomentColumn,
    TimeColumn,
    part_columns,
    part_name,
    parts_of,
)
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn, NumberColumn, NumericColumn
from marginalsyn.table.unit import SPELT, SurveyWeight, Unit
from marginalsyn.validation import explain, first_of, like, shown

if TYPE_CHECKING:
    from marginalsyn.table.keeping import Following
    from marginalsyn.table.rules import Rule

__all__ = [
    "DRAFT_WARNING",
    "MISSING_TOKENS",
    "AnyColumn",
    "BooleanColumn",
    "CategoricalColumn",
    "Column",
    "ContinuousColumn",
    "DateColumn",
    "DatetimeColumn",
    "IntegerColumn",
    "NumericColumn",
    "OrdinalColumn",
    "Schema",
    "TimeColumn",
]

DRAFT_WARNING = (
    "NOT PRIVATE: this schema was drafted by looking at the data. Its bounds, categories and "
    "column kinds may reveal single rows. Replace each by public knowledge (a code book, a law, "
    "a unit), then set drafted_from_data to false."
)
MISSING_TOKENS = ("", "NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL", "None", "?")

# Columns that are named where a schema is shown.
_SHOWN = 12

AnyColumn = Annotated[
    CategoricalColumn
    | OrdinalColumn
    | IntegerColumn
    | ContinuousColumn
    | BooleanColumn
    | DateColumn
    | DatetimeColumn
    | TimeColumn,
    Field(discriminator="kind"),
]


class Schema(BaseModel):
    """The public description of a table: its columns in order, its label, what to leave out.

    Nothing in a schema may be read off private rows: bounds and categories come from a code book.

    Args:
        columns: the columns of a release, in order; see the kinds in this module.
        title: a name for people.
        label: the column that models predict, if any; ``positive`` is its positive class.
        by: one or two columns: a release serves every pair within each of their values, too.
        drop: columns of the source that never reach a release (identifiers).
        drop_reasons: why, by column; for people.
        made: columns of a release that say nothing of rows: new identifiers, and constants.
            They may stand among ``columns``, at their place in the release.
        encoding: of a source's text files.
        rename_duplicates: whether the second column of the name ``a`` in a file is called ``a_2``.
        missing_tokens: texts that mean a missing value, unless a category is spelt so.
        impossible: structural zeros, each a combination that no row can have, such as
            ``{"age": {"max": 14}, "marital": ["married", "widowed"]}``; null stands for missing.
            On a numeric column a condition rules out the bins that lie wholly inside it.
        rules: what every row keeps, such as ``"age < 15 -> MSP = N"`` or ``"admitted <= left"``;
            no synthetic row breaks one. ``proposed_rules`` were read off rows by a draft and have
            no effect: move those that are public knowledge to ``rules``.
        margins: counts or shares over one or two columns that are public, such as
            ``{"columns": ["sex"], "counts": {"F": 2034, "M": 1987}}``, see
            :func:`~marginalsyn.table.margins.margin_of`. Nothing is measured for them.
        unit: what a release protects where persons have several rows; by default a row. Its
            column of the number of rows is added to ``columns``.
        survey_weight: the column with each row's weight and its public bound; rows then count so
            much. A name alone takes a numeric column of ``columns`` for it, and its ``upper``.
        charges: what was spent on the schema itself, where bounds were bought with privacy; every
            statement of a release with this schema counts it.
        drafted_from_data: whether ``infer_schema`` made it; such a schema is not private.

    Raises:
        SchemaError: where the parts contradict each other; the message lists every problem.

    Example:
        >>> schema = Schema(
        ...     columns=(
        ...         IntegerColumn(name="age", lower=0, upper=99, bins=10),
        ...         BooleanColumn(name="ill"),
        ...     ),
        ...     label="ill",
        ...     positive=True,
        ... )
        >>> schema.domain
        {'age': 10, 'ill': 2}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    title: str = ""
    warning: str | None = None
    drafted_from_data: bool = False
    label: str | None = None
    positive: Scalar | None = None
    by: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    drop_reasons: dict[str, str] = {}
    missing_tokens: tuple[str, ...] = MISSING_TOKENS
    encoding: Literal["utf-8", "latin-1", "cp1252", "utf-16"] = "utf-8"
    rename_duplicates: bool = False
    columns: tuple[AnyColumn, ...]
    made: tuple[MadeColumn, ...] = ()
    impossible: tuple[dict[str, Any], ...] = ()
    rules: tuple[str, ...] = ()
    proposed_rules: tuple[str, ...] = ()
    margins: tuple[dict[str, Any], ...] = ()
    unit: Unit | None = None
    survey_weight: SurveyWeight | None = None
    charges: tuple[Charge, ...] = ()

    # By column that was left out because it follows from another: that other.
    _stand_ins: dict[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, **data: Any) -> None:
        data = _take_out_made(data)
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise SchemaError(explain(error, lambda loc: _place(loc, data), _fields_at)) from None

    def __hash__(self) -> int:
        # By the JSON, which distinguishes the categories 1, 1.0 and True.
        return hash(self.model_dump_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._fields() == other._fields()

    def __copy__(self) -> Schema:
        copied = super().__copy__()
        for name in ("kept_rules", "followers", "public_margins"):
            copied.__dict__.pop(name, None)
        return copied

    def __repr__(self) -> str:
        listed = first_of([f"{name} ({size})" for name, size in self.domain.items()], _SHOWN)
        facts = [f"label {self.label}"] if self.label is not None else []
        facts += [f"{self.unit.text}"] if self.unit is not None else []
        facts += ["drafted from data"] if self.drafted_from_data else []
        return f"Schema({'; '.join([listed, *facts])})"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: a line for each column."""
        lines = [
            f"<tr><td>{escape(one.name)}</td><td>{one.kind}</td><td>{one.size}</td>"
            f"<td>{escape(shown(one.labels(), 60))}</td></tr>"
            for one in self.columns
        ]
        warning = f"<p>{escape(self.warning)}</p>" if self.warning else ""
        head = "<tr><th>column</th><th>kind</th><th>codes</th><th>values</th></tr>"
        return f"<p><b>{escape(self.title or 'Schema')}</b></p>{warning}<table>{head}" + (
            "".join(lines) + "</table>"
        )

    @property
    def reading(self) -> dict[str, Any]:
        """How the files of a source are opened."""
        return {"encoding": self.encoding, "rename_duplicates": self.rename_duplicates}

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [column.name for column in self.columns]

    @property
    def layout(self) -> list[str]:
        """The names of a release's columns, in order, with those that are made."""
        names = self.names
        for column in sorted(self.made, key=lambda column: column.position):
            names.insert(column.position, column.name)
        return names

    @property
    def left_out(self) -> set[str]:
        """Columns that a source may have and no code comes from: dropped, or made again."""
        taken = {one.column for one in (self.unit, self.survey_weight) if one}
        return {*self.drop, *(column.name for column in self.made), *taken}

    @property
    def derived(self) -> set[str]:
        """Columns that no source has: the number of a person's rows, and the parts of dates."""
        return {*parts_of(self.columns), *self.counted}

    @property
    def counted(self) -> set[str]:
        """The column of the number of a person's rows, if there is one."""
        counted = self.unit.counted() if self.unit else None
        return {counted.name} if counted else set()

    @property
    def open(self) -> list[str]:
        """The columns whose categories are private and not bought yet."""
        return [c.name for c in self.columns if isinstance(c, CategoricalColumn) and c.open]

    @property
    def domain(self) -> dict[str, int]:
        """Number of codes of every column, in order."""
        return {column.name: column.size for column in self.columns}

    @property
    def positive_code(self) -> int | None:
        """The code of the positive class in the label column."""
        if self.label is None or self.positive is None:
            return None
        return self.column(self.label).code_of(self.positive)

    def column(self, name: str) -> AnyColumn:
        """Return the column of this name, or raise SchemaError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(
            f"column ({name!r}) must be one of {', '.join(self.names)}{like(name, self.names)}"
        )

    def size(self, columns: Iterable[str]) -> int:
        """Number of cells of the marginal over these columns; 1 for none."""
        return math.prod(self.column(name).size for name in columns)

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema of some columns, in the order given; the others are dropped.

        The label stays if it is among them, and so do the structural zeros wholly inside them. The
        unit stays where the number of a person's rows is among them.
        """
        ordered = list(names)
        kept, gone = {*ordered}, {*ordered, *self.derived}
        columns = [
            column.model_copy(
                update={"parts": tuple(p for p in column.parts if part_name(column, p) in kept)}
            )
            if isinstance(column, MomentColumn)
            else column
            for column in map(self.column, ordered)
        ]
        margins = zip(self.margins, self.public_margins, strict=True)
        drop, unit = (*self.drop, *(name for name in self.names if name not in gone)), self.unit
        if unit and not self.counted <= kept:
            drop, unit = (*drop, unit.column), None
        return self.changed(
            columns=tuple(columns),
            drop=drop,
            unit=unit,
            impossible=tuple(rule for rule in self.impossible if {*rule} <= kept),
            rules=tuple(rule.text for rule in self.kept_rules if {*rule.names} <= kept),
            proposed_rules=(),
            margins=tuple(entry for entry, margin in margins if {*margin.columns} <= kept),
            by=tuple(name for name in self.by if name in kept),
            label=self.label if self.label in kept else None,
            positive=self.positive if self.label in kept else None,
        )

    def stratified(self, given: str | Sequence[str]) -> Schema:
        """Return a copy with other strata: names of columns, or a list of them with commas."""
        if not given:
            return self
        names = given if isinstance(given, str) else ",".join(given)
        by = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
        return self.changed(by=by)

    def with_unit(self, unit: Unit | None) -> Schema:
        """Return a copy that protects persons, or rows if ``unit`` is None.

        The column that identifies persons is taken out of the schema's columns, made ones too.
        """
        gone = self.counted | ({unit.column} if unit else set())
        kept = [name for name in self.names if name not in gone]
        data = self.changed(unit=None).select(kept)._fields()
        before = (self.unit.column,) if self.unit else ()
        named = dict.fromkeys((*data["drop"], *before))
        data["drop"] = tuple(name for name in named if name not in gone)
        reasons = data["drop_reasons"].items()
        data["drop_reasons"] = {name: why for name, why in reasons if name not in gone}
        data["made"] = tuple(column for column in data["made"] if column.name not in gone)
        return Schema(**{**data, "unit": unit})

    @property
    def shapeless(self) -> list[str]:
        """The numeric columns whose shape a run is to buy."""
        return [column.name for column in self.columns if column.shapeless]

    def with_bins(self, **bins: Any) -> Schema:
        """Return a copy where numeric columns have other bins: ``with_bins(age=10)``."""
        for name in bins:
            if not self.column(name).numeric:
                raise SchemaError(f"column ({name!r}) must be integer or continuous to have bins")
        # Built afresh rather than copied: a copy would keep the edges of the old bins.
        columns = [
            {**column.model_dump(), "bins": bins[column.name]} if column.name in bins else column
            for column in self.columns
        ]
        return self.changed(columns=tuple(columns))

    def with_rules(self, rules: Iterable[str]) -> Schema:
        """Return a copy whose rows keep further rules: ``with_rules(["age < 15 -> MSP = N"])``."""
        return self.changed(rules=(*self.rules, *rules))

    def structural_zeros(self, *, rules: bool = True) -> list[tuple[tuple[str, ...], np.ndarray]]:
        """Return the impossible cells: columns and a boolean array over their codes, per group.

        Conditions on the same columns are merged; those that cover no whole cell are left out.
        Those of rules over few cells follow, if they are asked for.
        """
        masks: dict[tuple[str, ...], np.ndarray] = {}
        for rule in self.impossible:
            columns = tuple(column for column in self.columns if column.name in rule)
            mask = np.ones((), dtype=bool)
            for column in columns:
                mask = np.multiply.outer(mask, column.mask(rule[column.name]))
            key = tuple(column.name for column in columns)
            masks[key] = masks[key] | mask if key in masks else mask
        found = [(key, mask) for key, mask in masks.items() if mask.any()]
        if rules and self.rules:
            from marginalsyn.table.keeping import impossible_cells

            known = frozenset(frozenset(key) for key, _ in found)
            found += impossible_cells(self.rules, self.columns, known)[0]
        return found

    @cached_property
    def kept_rules(self) -> tuple[Rule, ...]:
        """The rules, read."""
        if not self.rules:
            return ()
        from marginalsyn.table.rules import read_rules

        return read_rules(self.rules, self.columns)

    @cached_property
    def followers(self) -> dict[str, Following]:
        """The columns that a rule lists by another, so that nothing is measured for them."""
        if not self.rules:
            return {}
        from marginalsyn.table.keeping import followers

        return followers(self)

    def without(self, names: Iterable[str]) -> Schema:
        """The schema without columns that follow from others, which stand in for them."""
        gone = {name: self.followers[name].source for name in names}
        if not gone:
            return self
        found = self.select([name for name in self.names if name not in gone])
        found._stand_ins = gone
        return found

    @property
    def stand_ins(self) -> Mapping[str, str]:
        """By column that :meth:`without` left out, the column that it follows from."""
        return self._stand_ins

    @cached_property
    def public_margins(self) -> list[PublicMargin]:
        """What is public of one or two columns."""
        columns = {column.name: column for column in self.columns} if self.margins else {}
        return [margin_of(e, columns, f"margins[{i}]") for i, e in enumerate(self.margins)]

    @property
    def public_rows(self) -> float | None:
        """The number of rows, if margins make it public: that of the most exact one."""
        stated = [m for m in self.public_margins if m.rows is not None]
        return min(stated, key=lambda m: m.half * len(m.places)).rows if stated else None

    def with_margins(
        self, given: Iterable[Mapping[str, Any] | str | Path], *, relative: bool = False
    ) -> Schema:
        """Return a copy with more public margins: entries, or files of them.

        ``relative`` takes all of them for shares: more rows were counted than the table has.
        """
        entries = [dict(one) if isinstance(one, Mapping) else read_margin(one) for one in given]
        every = [*self.margins, *entries]
        if relative:
            every = [{**entry, "relative": True} for entry in every]
        return self.changed(margins=tuple(every))

    def to_json(self) -> str:
        """Return the schema as indented JSON; ``from_json`` reads it back equal."""
        optional = (
            "by",
            "charges",
            "drop_reasons",
            "margins",
            "rename_duplicates",
            "rules",
            "proposed_rules",
            "survey_weight",
            "unit",
        )
        silent = {name for name in optional if not getattr(self, name)}
        silent |= {"encoding"} if self.encoding == "utf-8" else set()
        data = self.model_dump(mode="json", exclude={*silent, "made"})
        for column in sorted(self.made, key=lambda column: column.position):
            entry = column.model_dump(mode="json", exclude={"position"})
            data["columns"].insert(column.position, entry)
        text = json.dumps(data, indent=2, ensure_ascii=False)
        return re.sub(r"\[\n([^\[\]{}]*?)\n *\]", _one_line, text) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Read a schema, or the ``{"age": 85, ...}`` domain of Private-PGM, from JSON text."""
        try:
            data = json.loads(text, object_pairs_hook=_distinct)
        except json.JSONDecodeError as error:
            raise SchemaError(
                f"schema must be JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from None
        except RecursionError:
            raise SchemaError("schema must be JSON of a few levels: it is nested deeper") from None
        if not isinstance(data, dict):
            raise SchemaError(f"schema ({type(data).__name__}) must be a JSON object")
        sizes = set(data) - {"version", "columns"}
        if sizes == set(data) and sizes and all(type(size) is int for size in data.values()):
            return cls.from_domain(data)
        return cls(**data)

    @classmethod
    def from_domain(cls, domain: Mapping[str, int], label: str | None = None) -> Schema:
        """Return the schema of columns already coded 0..n-1, one code per bin."""
        for name, size in domain.items():
            if size < 1:
                raise SchemaError(f"domain size of {name!r} ({size}) must be at least 1")
        columns = [
            {"kind": "integer", "name": name, "lower": 0, "upper": size - 1, "bins": size}
            for name, size in domain.items()
        ]
        return cls(columns=columns, label=label)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema file; every mistake in it is a SchemaError that names the file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            raise SchemaError(
                f"schema ({path}) must be an existing file: draft one with "
                "`marginalsyn schema infer DATA`"
            ) from None
        except UnicodeDecodeError as error:
            raise SchemaError(
                f"schema ({path}) must be UTF-8 text: byte {error.start} is not"
            ) from None
        except (OSError, ValueError) as error:
            raise SchemaError(
                f"schema ({path}) must be a readable file: {reason_of(error)}"
            ) from None
        try:
            return cls.from_json(text)
        except SchemaError as error:
            raise SchemaError(f"{path}:\n{error}") from None

    def write(self, path: str | Path) -> None:
        """Write the schema as JSON."""
        path = Path(path)
        try:
            path.write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"schema ({path}) must be writable: {error.strerror}") from None

    def changed(self, **fields: Any) -> Schema:
        """Return a copy with other fields, checked as a whole."""
        return Schema(**{**self._fields(), **fields})

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    @model_validator(mode="before")
    @classmethod
    def _warn(cls, data: Any) -> Any:
        """The warning follows ``drafted_from_data``: it cannot be left out or outlive it."""
        if not isinstance(data, dict):
            return data
        data = _with_parts(_counted(_weighted(_take_out_made(data))))
        return {**data, "warning": DRAFT_WARNING if data.get("drafted_from_data") else None}

    @model_validator(mode="after")
    def _check(self) -> Schema:
        names = self.names
        if not names:
            raise ValueError("columns ([]) must hold at least one column")
        # SQL engines do not tell "Age" from "age".
        every = self.layout
        folded = [name.casefold() for name in every]
        twice = [name for name in every if folded.count(name.casefold()) > 1]
        if twice:
            raise ValueError(f"column names must be distinct: {', '.join(map(repr, twice))}")
        made = [column.name for column in self.made]
        strange = [name for name in self.drop_reasons if name not in self.drop]
        if strange:
            raise ValueError(f"drop_reasons ({', '.join(strange)}) must be of columns in drop")
        both = [name for name in self.drop if name in made or name in names]
        if both:
            raise ValueError(f"drop ({', '.join(both)}) must not name a column of the schema")
        if self.unit is not None and self.unit.column in every:
            raise ValueError(
                f"unit ({self.unit.column!r}) must not be a column of the schema: what "
                "identifies persons is never released"
            )
        if len(self.by) > 2 or not {*self.by} <= {*names}:
            listed = ", ".join(names)
            raise ValueError(f"by ({', '.join(self.by)}) must be one or two of {listed}")
        self._check_label()
        self._check_tokens()
        if (weight := self.survey_weight) is not None:
            if weight.column in {*names, *self.drop}:
                raise ValueError(
                    f"survey_weight ({weight.column!r}) must not be dropped, or a column of the "
                    "schema: its name alone takes it out of the columns"
                )
            if self.counted:
                raise ValueError(
                    "survey_weight must be of rows that count once each: with a unit, count one "
                    "row a person (max_rows 1), whose weight is then the person's"
                )
            if self.open:
                raise ValueError(
                    f"survey_weight must wait until categories are bought: "
                    f"{', '.join(self.open)} (see `marginalsyn schema buy-categories`)"
                )
        for number, rule in enumerate(self.impossible):
            if not rule:
                raise ValueError(f"impossible[{number}] must name at least one column")
            for name, condition in rule.items():
                if name not in names:
                    raise ValueError(
                        f"impossible[{number}] ({name!r}) must be one of {', '.join(names)}"
                    )
                try:
                    self.column(name).mask(condition)
                except ValueError as error:
                    raise ValueError(f"impossible[{number}]: {error}") from None
        self._check_rules()
        self._check_margins()
        return self

    def _check_rules(self) -> None:
        """Refuse a text that is no rule, and rules that no row can keep at once."""
        if self.proposed_rules and not self.drafted_from_data:
            raise ValueError(
                f"proposed_rules ({len(self.proposed_rules)}) were read off rows and must not "
                "stand in a schema of public knowledge: move what is public to rules, delete the "
                "rest"
            )
        if self.rules:
            from marginalsyn.table.keeping import clash, no_rows

            if clashing := clash(self.rules, self.columns):
                raise ValueError(no_rows(clashing))

    def _check_margins(self) -> None:
        """Refuse margins where persons are counted, and those that contradict each other."""
        margins = self.public_margins
        if margins and self.counted:
            raise ValueError(
                "margins must be of rows that count once each: with a unit of several rows a "
                "person, persons are counted. State them afterwards with `steer`"
            )
        check_margins(margins, self.structural_zeros() if margins else ())

    def _check_label(self) -> None:
        if self.label is None:
            if self.positive is not None:
                raise ValueError(f"label must be given: positive ({self.positive!r}) needs it")
            return
        if self.label not in self.names:
            raise ValueError(f"label ({self.label!r}) must be one of {', '.join(self.names)}")
        if self.positive is None:
            return
        column = self.column(self.label)
        try:
            column.code_of(self.positive)
        except ValueError as error:
            raise ValueError(f"positive: {error}") from None
        if isinstance(column, NumberColumn) and not (
            column.lower <= float(self.positive) <= column.upper
        ):
            raise ValueError(
                f"positive ({self.positive!r}) must lie within the label's bounds "
                f"({column.lower}, {column.upper})"
            )

    def _check_tokens(self) -> None:
        for column in self.columns:
            if (
                isinstance(column, CategoricalColumn)
                and column.other
                and text_of(column.other_label) in self.missing_tokens
            ):
                raise ValueError(
                    f"other_label ({column.other_label!r}) of column {column.name!r} must not be "
                    "one of missing_tokens"
                )


def _given(column: Any, field: str) -> Any:
    """A field of a column that is a dict or a model; None where what was given is neither."""
    return column.get(field) if isinstance(column, Mapping) else getattr(column, field, None)


def _take_out_made(data: dict[str, Any]) -> dict[str, Any]:
    """Columns that are made, taken out of ``columns`` with their places."""
    given = data.get("columns")
    if not isinstance(given, list | tuple):
        return data
    coded, made = [], list(data.get("made") or ())
    for position, column in enumerate(given):
        kind = _given(column, "kind")
        if kind not in KINDS:
            coded.append(column)
        elif isinstance(column, dict):
            made.append({**column, "position": position})
        else:
            made.append(column.model_copy(update={"position": position}))
    return {**data, "columns": tuple(coded), "made": tuple(made)}


def _counted(data: dict[str, Any]) -> dict[str, Any]:
    """The fields with the column of a person's number of rows, if there is to be one."""
    if not data.get("unit"):
        return data
    try:
        counted = Unit.model_validate(data["unit"]).counted()
    except ValidationError:
        return data  # reported with the field
    columns = tuple(data.get("columns") or ())
    named = [_given(column, "name") for column in columns]
    if counted is None or counted.name not in named:
        return {**data, "columns": (*columns, *([counted] if counted else []))}
    # What the unit says of it goes, wherever the column stands.
    return {
        **data,
        "columns": tuple(
            counted if name == counted.name else column
            for name, column in zip(named, columns, strict=True)
        ),
    }


def _weighted(data: dict[str, Any]) -> dict[str, Any]:
    """The fields without the column of survey weights, whose upper bound is theirs by default."""
    given = data.get("survey_weight")
    name = given if isinstance(given, str) else _given(given, "column")
    columns = data.get("columns")
    listed = columns if isinstance(columns, list | tuple) else ()
    own = next((c for c in listed if _given(c, "name") == name), None)
    if not given or own is None:
        return data
    weight = {"column": name, "bound": _given(own, "upper")} if isinstance(given, str) else given
    if isinstance(weight, dict):
        weight = {**{part: v for part in SPELT if (v := _given(own, part))}, **weight}
    columns = tuple(c for c in listed if c is not own)
    return {**data, "survey_weight": weight, "columns": columns}


def _with_parts(data: dict[str, Any]) -> dict[str, Any]:
    """The fields with a column for every part of a date, behind the date where it is new."""
    given = data.get("columns")
    columns = list(given) if isinstance(given, list | tuple) else []
    if not any(_given(column, "parts") for column in columns):
        return data
    dates = [
        column if isinstance(column, MomentColumn) else _moment(column)
        for column in columns
        if _given(column, "parts")
    ]
    found = {part.name: part for date in dates if date for part in part_columns(date)}
    named = [_given(column, "name") for column in columns]
    complete = []
    for column, name in zip(columns, named, strict=True):
        complete.append(found.get(name, column))
        for date in dates:
            if date is not None and date.name == name:
                complete += [part for part in part_columns(date) if part.name not in named]
    return {**data, "columns": tuple(complete)}


def _moment(column: Any) -> MomentColumn | None:
    """The date that a mapping describes; None where something is wrong: that is reported later."""
    try:
        return MOMENTS[column["kind"]].model_validate(column)
    except (KeyError, ValidationError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that gives a field twice: JSON readers keep the last without a word."""
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SchemaError(f"schema must give {twice!r} once in an object: it is there twice")
    return data


def _one_line(found: re.Match[str]) -> str:
    """A short list of scalars on one line: strings in JSON never hold a line break."""
    line = "[" + re.sub(r"\n *", " ", found[1]).strip() + "]"
    return line if len(line) <= 100 else found[0]


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    """The names that a field at a place of a schema could have."""
    if loc[0] != "columns" or len(loc) < 3:
        return [*Schema.model_fields]
    kinds = get_args(get_args(AnyColumn)[0])
    return next(
        ([*kind.model_fields] for kind in kinds if kind.model_fields["kind"].default == loc[2]), []
    )


def _place(loc: tuple[Any, ...], data: Mapping[str, Any]) -> tuple[str, str]:
    """Name the column of a problem rather than its position."""
    if len(loc) < 2 or loc[0] != "columns":
        return "", ".".join(str(part) for part in loc) or "schema"
    column = data["columns"][loc[1]]
    name = column.get("name") if isinstance(column, dict) else None
    # loc[2] is the kind that the discriminator chose.
    field = ".".join(str(part) for part in loc[3:]) or "column"
    return f"column {name!r}: " if name else f"columns[{loc[1]}]: ", field
