"""A first draft of a schema, read off a table: not private, and marked as such."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import ibis.expr.types as ir
import numpy as np

from marginalsyn.drafting.check import ColumnCheck, check_data, layout_problems
from marginalsyn.drafting.drafted import (
    KINDS,
    POSTAL,
    Found,
    bounded,
    draft_column,
    typed_moment,
    with_tokens,
    without_codes,
)
from marginalsyn.drafting.guess import MOST_CATEGORIES
from marginalsyn.drafting.person_columns import (
    PersonColumns,
    check_unit,
    find_person_columns,
    repeating,
)
from marginalsyn.drafting.survey import Facts, frequent, lots, numbers_of, survey, texts_of
from marginalsyn.drafting.tails import CODES, Ends, ends_of, tail_bins
from marginalsyn.errors import DataError, SchemaError
from marginalsyn.progress import Progress, Silent
from marginalsyn.sources.source import Source, find_encoding, open_source
from marginalsyn.table import encoding
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, Column
from marginalsyn.table.engine import engine_errors, kept
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import NumericColumn
from marginalsyn.table.schema import MISSING_TOKENS, Schema
from marginalsyn.validation import like

# A file is read once and kept where it has up to so many values, and else once a column.
MOST_KEPT = 2**25
FIRST_ROWS = 10_000  # are compared with the header
MOST_LINES = 3  # of units and questions below it
# Spellings of a number that stands for a missing value: -9, "-9,0".
MOST_SPELLINGS = 20


@dataclass(frozen=True)
class Verdict:
    """What a draft takes a column for.

    Attributes:
        name: of the column.
        kind: a kind of column, or "drop".
        why: in words.
        codes: how many values are counted; each takes its share of the noise.
        fits: the share of values that come through as they are; None where none is kept.
        example: a made-up value, as a release would have it.
        missing: the share of values that are missing.
        open: whether the categories are to be bought.
        misfit: what becomes of values that do not come through as they are.
    """

    name: str
    kind: str
    why: str
    codes: int = 0
    fits: float | None = None
    example: str = ""
    missing: float = 0.0
    open: bool = False
    misfit: str = ""


@dataclass(frozen=True)
class MissingCode:
    """A number that seems to stand for a missing value.

    Attributes:
        name: of the column.
        value: the number.
        share: of the column's rows.
        clear: whether it stands alone outside the range of the rest; else only a person can say.
    """

    name: str
    value: float
    share: float
    clear: bool

    def __str__(self) -> str:
        return f"{self.name}={self.value:g} ({self.share:.1%})"


@dataclass(frozen=True)
class Draft:
    """A drafted schema with a verdict on every column of the source, in its order.

    ``distinct`` says how many values each column has, ``repeats`` which of them seem to identify
    persons who have several rows, ``codes`` which numbers seem to mean missing, and ``texts`` how
    often the texts of columns with private categories occur. Not private.
    """

    schema: Schema
    verdicts: tuple[Verdict, ...]
    rows: int
    distinct: Mapping[str, int] = field(default_factory=dict)
    repeats: tuple[PersonColumns, ...] = ()
    codes: tuple[MissingCode, ...] = ()
    texts: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)


def infer_schema(
    data: Any, label: str | None = None, *, sep: str | None = None, rename_duplicates: bool = False
) -> Schema:
    """Draft a schema by looking at the rows. The draft is **not private**: replace what it found.

    Dates, times, spelt numbers, words for yes and no are recognised by their texts. Few-valued text
    becomes categorical, text of many values that repeat gets private categories, which a release
    buys; whole numbers become integer (sparse codes ordinal), other numbers continuous; bounds are
    widened to round numbers. Identifiers are replaced by new ones; free text and empty columns go
    to ``drop`` with the reason.

    Args:
        data: a DataFrame of any library, a path, a database address or an Ibis table.
        label: the column to predict; a label of two values gets the last as its positive class.
        sep: the separator of a CSV file; by default the one that its header shows.
        rename_duplicates: whether the second column ``a`` becomes ``a_2``; the schema remembers it.

    Returns:
        A schema with ``drafted_from_data`` set and a warning in its file.

    Raises:
        SchemaError: if the label is not a usable column.
        DataError: if there are no rows, or nothing in them to describe.

    Example:
        >>> import pandas as pd
        >>> infer_schema(pd.DataFrame({"ok": ["yes", "no"], "n": [3, 17]})).domain
        {'ok': 2, 'n': 17}
    """
    return draft_schema(data, label, sep=sep, rename_duplicates=rename_duplicates).schema


def draft_schema(
    data: Any,
    label: str | None = None,
    *,
    sep: str | None = None,
    encoding: str | None = None,
    kinds: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    missing: Mapping[str, Sequence[float]] | None = None,
    rename_duplicates: bool = False,
    progress: Progress | None = None,
) -> Draft:
    """As :func:`infer_schema`, with a verdict on every column, and a say in it.

    Args:
        data, label, sep, rename_duplicates: as there.
        encoding: of a text file; by default the one that its bytes show.
        kinds: what columns are to be taken for, by name: a kind, or "drop".
        keep: columns that are not to be dropped or replaced.
        missing: by column, the numbers that stand for a missing value, or none of them; by default
            those that stand alone outside the range of all others.
        progress: is sent what share of the columns is done.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"born": ["1.2.1980", "24.12.1999"]})
        >>> draft_schema(frame).verdicts[0].why
        'dates written %d.%m.%Y'
    """
    wanted = {**dict.fromkeys(keep, ""), **(kinds or {})}
    how: Any = {"encoding": encoding or find_encoding(data), "rename_duplicates": rename_duplicates}
    source = open_source(data, sep=sep, **how)
    for name in [*([label] if label else []), *wanted, *(missing or {})]:
        if name not in source.columns:
            raise SchemaError(
                f"{'label' if name == label else 'column'} ({name!r}) must be one of "
                f"{', '.join(source.columns)}{like(name, source.columns)}"
            )
    for name, kind in wanted.items():
        if kind and kind not in (*KINDS, "drop"):
            raise SchemaError(
                f"kind ({name}={kind}) must be one of {', '.join(KINDS)} or drop{like(kind, KINDS)}"
            )
    surveyed = _columns(source, label, wanted, missing or {}, progress or Silent())
    found, facts = surveyed.found, surveyed.facts
    columns = {name: one.column for name, one in found.items() if one.column is not None}
    if label is not None and not isinstance(columns.get(label), Column):
        raise SchemaError(
            f"label ({label!r}) must have few values: it looks like an identifier or free text"
        )
    if not any(isinstance(column, Column) for column in columns.values()):
        raise DataError(f"data ({source.name}) must have a column that is no identifier")
    dropped = tuple(name for name in source.columns if name not in columns)
    whys = dict.fromkeys(source.columns, "lists, records or bytes")
    whys |= {name: one.why for name, one in found.items()}
    schema = Schema(
        columns=tuple(columns.values()),
        label=label,
        positive=_positive(columns.get(label or "")),
        drop=dropped,
        # What counts rows is for the curator alone.
        drop_reasons={name: whys[name].partition(":")[0] for name in dropped},
        encoding=source.encoding or encoding or "utf-8",
        rename_duplicates=rename_duplicates,
        drafted_from_data=True,
    )
    distinct = {name: fact.distinct for name, fact in facts.items()}
    schema, checks = _without_spare(schema, check_data(source, schema))
    draft = _judged(checks, schema, source.columns, whys, distinct, surveyed.repeats)
    texts = {name: surveyed.texts[name] for name in schema.open}
    return replace(draft, codes=tuple(surveyed.codes), texts=texts)


def described(data: Any, schema: Schema, *, sep: str | None = None) -> Draft:
    """A schema that is there, as a draft: with a verdict on every column. Not private.

    Args:
        data: as for :func:`draft_schema`.
        schema: that was written or checked by a person; nothing is added to it.
        sep: as there.

    Raises:
        SchemaError: the table has other columns.
    """
    source = open_source(data, sep=sep, **schema.reading)
    if problems := layout_problems(source.columns, schema):
        raise SchemaError("; ".join(problems))
    repeats = tuple(find_person_columns(source))
    whys = dict.fromkeys(source.columns, "as the schema says")
    # The number of values is needed of a column that names persons.
    distinct = dict.fromkeys(source.columns, 0) | {one.name: one.values for one in repeats}
    if schema.unit is not None:
        distinct[schema.unit.column] = check_unit(source, schema).persons
    checks = check_data(source, schema)
    return _judged(checks, schema, source.columns, whys, distinct, repeats)


def _without_spare(
    schema: Schema, checks: Sequence[ColumnCheck]
) -> tuple[Schema, list[ColumnCheck]]:
    """The draft and its checks without OTHER in columns whose list has every value there is."""
    checks = [
        replace(one, column=one.column.model_copy(update={"other": False}))
        if isinstance(one.column, CategoricalColumn) and not (one.column.open or one.unseen)
        else one
        for one in checks
    ]
    return schema.model_copy(update={"columns": tuple(one.column for one in checks)}), checks


def _judged(
    checks: Sequence[ColumnCheck],
    schema: Schema,
    names: Sequence[str],
    whys: Mapping[str, str],
    distinct: Mapping[str, int],
    repeats: tuple[PersonColumns, ...],
) -> Draft:
    """A schema with what the rows make of it."""
    verdicts = tuple(_verdicts(schema, names, whys, {check.name: check for check in checks}))
    return Draft(schema, verdicts, checks[0].rows, distinct, repeats)


@dataclass
class _Surveyed:
    """What was found of a table: its columns as drafted, and what they were drafted from."""

    found: dict[str, Found]
    facts: dict[str, Facts]
    texts: dict[str, Sequence[tuple[str, int]]]
    codes: list[MissingCode]
    repeats: tuple[PersonColumns, ...] = ()


def _columns(
    source: Source,
    label: str | None,
    wanted: Mapping[str, str],
    missing: Mapping[str, Sequence[float]],
    progress: Progress,
) -> _Surveyed:
    """Every column that can be described, as drafted, and what the rows say of it."""
    connection = source.connect()
    names = [name for name in source.columns if name not in source.nested]
    table, backend = connection.table, connection.backend
    typed = {name: typed_moment(table[name].type()) for name in names}
    spelt = table.select(
        *[encoding.as_text(encoding.plain(table[name])).name(name) for name in names]
    )
    with engine_errors(source.name), ExitStack() as stack:
        rows = int(backend.to_pyarrow(table.count()).as_py())

        def keep(found: ir.Table) -> ir.Table:
            small = connection.embedded and rows * len(found.columns) <= MOST_KEPT
            return stack.enter_context(kept(backend, found)) if small else found

        spelt = keep(spelt)
        facts = survey(backend, spelt, progress)
        if not rows:
            # A quote that is never closed takes all rows for one field.
            source.check_format()
            raise DataError(f"data ({source.name}) must have at least one row to draft from")
        _check_header(source, backend, spelt, facts)
        all_ = _Surveyed({}, facts, {}, [])
        found = all_.found
        ends = _ends_of_numbers(backend, spelt, facts, missing)
        for done, (name, fact) in enumerate(facts.items()):
            progress.report("draft", fraction=done / len(facts), text=name)
            asked = wanted.get(name)
            named = bool(asked or POSTAL.search(name))
            texts = texts_of(backend, spelt[name], fact, asked=named)
            if asked == "drop":
                found[name] = Found(None, "as asked")
                continue
            gone = []
            if name in ends:
                gone = _missing_codes(all_, name, ends[name], missing)
                fact = without_codes(fact, gone, ends[name])
                texts = [(text, count) for text, count in texts if float(text) not in gone]
            all_.texts[name] = [(str(text), count) for text, count in texts]
            one = draft_column(name, fact, texts, name == label, typed[name], asked)
            if 0 < fact.totals < 4 < fact.known:
                why = f"'total' in {fact.totals} of the rows: delete those that sum up others"
                one = replace(one, why=f"{one.why}; {why}")
            if gone and isinstance(one.column, Column):
                value = spelt[name]
                both = spelt.select(value=value, number=encoding.number(value))
                one = with_tokens(one, _spellings_of(backend, both, gone))
            found[name] = one
        counted = {name: (fact.known, fact.distinct) for name, fact in facts.items()}
        all_.repeats = tuple(repeating(counted))
        for many in all_.repeats:
            # A persons' identifier in a release would name them all; few values may be a group.
            if many.values > MOST_CATEGORIES and many.name not in wanted and many.name != label:
                found[many.name] = Found(None, "seems to identify persons who have several rows")
        coded = {n: f.column for n, f in found.items() if isinstance(f.column, NumericColumn)}
        loose = [column for column in coded.values() if column.worded]
        if loose:
            numbers = keep(encoding.prepared(table, loose))
            also = [code for codes in missing.values() for code in codes]
            for name, own in ends_of(backend, numbers, also).items():
                column, gone = coded[name], []
                if not isinstance(column, MomentColumn):
                    gone = _missing_codes(all_, name, own, missing)
                narrow = Found(bounded(column, *own.without(gone)), found[name].why)
                if gone:
                    read = encoding.read(table, [column])
                    both = read.select(value=read["value0"], number=read["number0"])
                    narrow = with_tokens(narrow, _spellings_of(backend, both, gone))
                found[name] = narrow
        wide = [found[name].column for name, c in coded.items() if not isinstance(c, MomentColumn)]
        if wide:
            numbers = keep(encoding.prepared(table, wide))
            for name, column in tail_bins(backend, numbers, wide).items():
                found[name] = Found(column, f"{found[name].why}; bins follow the numbers")
    return all_


def _check_header(
    source: Source, backend: Any, spelt: ir.Table, facts: Mapping[str, Facts]
) -> None:
    """Refuse a file whose first line seems to be a row, or the next one units or questions."""
    from marginalsyn.table.encoding import NUMBER

    number = re.compile(NUMBER).match
    # Columns may be numbered, and those of one value or two may be called like it.
    places = {*map(str, range(len(facts) + 1))}
    texts = [name for name in facts if spelt[name].type().is_string()]
    names = [name for name in texts if facts[name].distinct > 2 and name not in places]
    numbered = [float(name) for name in texts if number(name)]
    own = texts if len(numbered) == len(facts) and numbered != sorted(numbered) else []
    first = spelt.limit(FIRST_ROWS)
    for some in lots(names):
        wanted = {name: {"own": (first[name] == name.strip()).any()} for name in some}
        found = numbers_of(backend, first, wanted)
        own += [name for name in some if found[name]["own"]]
    if len(own) > 1 and 3 * len(own) >= len(facts):
        raise DataError(
            f"data ({source.name}) must begin with a line that names the columns: "
            f"{', '.join(map(repr, own[:3]))} could be values of their columns, so the first line "
            "seems to be a row. Write a line of names above it"
        )
    near = [n for n in texts if MOST_LINES < facts[n].numbers >= facts[n].known - MOST_LINES]
    line = backend.to_pyarrow(first.select(*near).limit(1)).to_pylist()[0] if near else {}
    units = [text for text in line.values() if text not in (None, *MISSING_TOKENS)]
    if len(units) > 1 and not any(map(number, units)):
        raise DataError(
            f"data ({source.name}) must have rows below the names of its columns: "
            f"{', '.join(map(repr, units[:3]))} stand above numbers, as units or questions do. "
            "Delete that line, and others like it"
        )


def _ends_of_numbers(
    backend: Any, spelt: ir.Table, facts: Mapping[str, Facts], asked: Mapping[str, Sequence[float]]
) -> dict[str, Ends]:
    """The ends of plain numbers, where the least or the largest may mean missing."""
    codes = {*map(float, CODES)}
    odd = [
        name
        for name, fact in facts.items()
        if fact.numeric and (name in asked or {fact.lower, fact.upper} & codes)
    ]
    if not odd:
        return {}
    numbers = spelt.select(*[encoding.number(spelt[name]).name(name) for name in odd])
    return ends_of(backend, numbers, [code for codes in asked.values() for code in codes])


def _missing_codes(
    all_: _Surveyed, name: str, ends: Ends, asked: Mapping[str, Sequence[float]]
) -> list[float]:
    """The codes of a column that mean missing: those that were asked for, else the clear ones."""
    clear, perhaps = ends.missing()
    for code in (*clear, *perhaps):
        share = ends.codes[code] / max(all_.facts[name].rows, 1)
        all_.codes.append(MissingCode(name, code, share, code in clear))
    if name not in asked:
        return clear
    if unknown := [code for code in asked[name] if code not in ends.known_codes()]:
        raise SchemaError(
            f"missing ({name}={unknown[0]:g}) must be a number that the column has; --missing "
            f"{name}=none takes every number for a value"
        )
    return [*asked[name]]


def _spellings_of(backend: Any, both: ir.Table, codes: Iterable[float]) -> list[Any]:
    """How a column of values spells some numbers: as texts, or as numbers where it is typed."""
    if not both["value"].type().is_string():
        return [int(code) for code in codes]
    found = frequent(backend, both.filter(both["number"].isin([*codes])), MOST_SPELLINGS)
    return [text for text, _ in found]


def _verdicts(
    schema: Schema, names: Sequence[str], whys: Mapping[str, str], checks: Mapping[str, ColumnCheck]
) -> Iterator[Verdict]:
    """One verdict a column of the source."""
    made = {column.name: column for column in schema.made}
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, max(c.levels, 1), 1) for c in schema.columns])
    invented = Codec(schema).decode(codes, rng)
    for name in names:
        if name in made:
            example = str(made[name].values(1)[0] or "")
            yield Verdict(name, made[name].kind, whys[name], example=example)
        elif name in checks:
            check = checks[name]
            odd = check.unparsable + check.unseen + check.low + check.high + check.fractional
            rows, known = max(check.rows, 1), name not in schema.open
            yield Verdict(
                name,
                check.column.kind,
                whys[name],
                codes=check.column.size if known else 0,
                fits=1 - odd / rows if known else None,
                example=str(invented[name].iloc[0]) if known else "",
                missing=check.missing / rows,
                open=not known,
                misfit="; ".join(check.notes()),
            )
        else:
            yield Verdict(name, "drop", whys[name])


def _positive(column: Column | None) -> Any:
    if isinstance(column, BooleanColumn | CategoricalColumn) and column.levels == 2:
        return column.values[1]
    return None
