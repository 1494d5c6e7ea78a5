"""Rows that keep the rules of a schema: cells that cannot be, values set or drawn again, donors.

All of it is post-processing of rows that are synthetic already, or arithmetic on public knowledge.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from marginalsyn.errors import DataError
from marginalsyn.table import decoding
from marginalsyn.table.codec import Codec
from marginalsyn.table.moments import MomentColumn, part_name
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.rules import (
    Cells,
    Dependency,
    Linear,
    Rule,
    has_public_values,
    mapped,
    read_rules,
)
from marginalsyn.table.schema import AnyColumn, Schema

Values = tuple[np.ndarray, dict[str, np.ndarray]]
"""Codes of rows, and by numeric column their numbers."""
Zero = tuple[tuple[str, ...], np.ndarray]

# Cells of a model that rules alone may ask for, and columns of one rule in it.
MOST_CELLS, MOST_COLUMNS = 2**16, 4
# Draws of values inside bins; rows, rounds and draws of the search for rows that keep all rules.
_TRIES, _WITNESSES, _ROUNDS, _DRAWS = 40, 256, 200, 8
# A share of rows that were drawn again from which on the release says so.
OFTEN = 0.2

_REDRAWN: ContextVar[Counter[str] | None] = ContextVar("marginalsyn_redrawn", default=None)


@contextmanager
def record_redrawn() -> Iterator[Counter[str]]:
    """Count the rows that are drawn again inside, by the first rule that each broke."""
    found: Counter[str] = Counter()
    token = _REDRAWN.set(found)
    try:
        yield found
    finally:
        _REDRAWN.reset(token)


def note_redrawn(rules: Sequence[Rule], cells: Cells) -> None:
    """Count rows that are drawn again."""
    found, left = _REDRAWN.get(), np.array(True)
    if found is None:
        return
    for rule in rules:
        broken = rule.broken(cells) & left
        left = left & ~broken
        if broken.any():
            found[rule.text] += int(broken.sum())


def note_left_out(table: str, rows: int) -> None:
    """Count rows of a linked table that are left out, for nothing mends them."""
    if (found := _REDRAWN.get()) is not None:
        found[f"rows of {table} left out"] += rows


def cells_of(columns: Sequence[AnyColumn], values: Values | np.ndarray) -> Cells:
    """Rows as the rules read them: codes alone, or with numbers."""
    codes, numbers = values if isinstance(values, tuple) else (values, None)
    return Cells({column.name: codes[:, at] for at, column in enumerate(columns)}, numbers)


def broken_by(
    rules: Sequence[Rule], columns: Sequence[AnyColumn], values: Values | np.ndarray
) -> np.ndarray:
    """Which rows surely break a rule."""
    cells = cells_of(columns, values)
    bad = np.zeros(len(values[0] if isinstance(values, tuple) else values), bool)
    for rule in rules:
        bad |= rule.broken(cells)
    return bad


@lru_cache(maxsize=64)
def impossible_cells(
    texts: tuple[str, ...],
    columns: tuple[AnyColumn, ...],
    others: frozenset[frozenset[str]] = frozenset(),
    most: int = MOST_CELLS,
) -> tuple[tuple[Zero, ...], tuple[str, ...]]:
    """The cells that rules rule out, as masks over codes, and the rules that need too many cells.

    ``others`` are sets of columns that the model has to hold in any case, ``most`` its cells.
    """
    sizes = {column.name: column.size for column in columns}
    sets, left = list(others), []
    masks: dict[tuple[str, ...], np.ndarray] = {}
    for rule in read_rules(texts, columns):
        if rule.dependency is not None and rule.dependency.mapping is None:
            continue
        names = tuple(column.name for column in columns if column.name in rule.names)
        fits = len(names) <= MOST_COLUMNS and model_cells([*sets, frozenset(names)], sizes, most)
        if not fits:
            left.append(rule.text)
            continue
        axes = np.ix_(*(np.arange(sizes[name]) for name in names))
        mask = rule.broken(Cells(dict(zip(names, axes, strict=True))))
        mask = np.broadcast_to(mask, [sizes[name] for name in names])
        if mask.any():
            sets.append(frozenset(names))
            masks[names] = masks[names] | mask if names in masks else mask
    return tuple(masks.items()), tuple(left)


def model_cells(
    sets: Sequence[frozenset[str]], sizes: Mapping[str, int], most: int = MOST_CELLS
) -> bool:
    """Whether a model that holds these sets of columns has few cells: columns leave one by one."""
    parts, total = [set(names) for names in sets], 0
    names = set().union(*parts)

    def around(name: str) -> set[str]:
        return set().union(*(part for part in parts if name in part))

    while names:
        first = min(names, key=lambda name: (math.prod(sizes[n] for n in around(name)), name))
        clique = around(first)
        total += math.prod(sizes[name] for name in clique)
        if total > most:
            return False
        parts = [part for part in parts if first not in part] + [clique - {first}]
        names.discard(first)
    return True


def with_dependencies(
    rules: Sequence[Rule],
    columns: Sequence[AnyColumn],
    codes: np.ndarray,
    fixed: Sequence[str] = (),
) -> np.ndarray:
    """Codes with what follows from other codes by a mapping, but for ``fixed`` columns."""
    places = {column.name: place for place, column in enumerate(columns)}
    for rule in rules:
        known = rule.dependency
        if known and known.mapping is not None and known.target.name not in fixed:
            target = places[known.target.name]
            follows = known.mapping[codes[:, places[known.source.name]]]
            if ((follows >= 0) & (follows != codes[:, target])).any():
                codes = codes.copy()
                codes[:, target] = np.where(follows >= 0, follows, codes[:, target])
    return codes


class Following(NamedTuple):
    """The column that another follows from, and by its code the code of the other."""

    source: str
    mapping: np.ndarray


def followers(schema: Schema) -> dict[str, Following]:
    """The columns of which a rule lists what each follows from, and nothing else has to be known.

    The list has every code of a public column, and every other rule that names the follower is kept
    whatever comes, or lists what follows from it in turn. What comes back is measured, not derived.
    """
    lists: dict[str, Dependency] = {}

    def root(name: str) -> str:
        return root(lists[name].source.name) if name in lists else name

    for known in (rule.dependency for rule in schema.kept_rules):
        if known is None or known.mapping is None or (known.mapping < 0).any():
            continue
        public = has_public_values(known.source) and has_public_values(known.target)
        if public and root(known.source.name) != known.target.name:
            lists.setdefault(known.target.name, known)
    taken = {schema.label, *schema.by, *schema.derived, *schema.shapeless}
    taken.update(*schema.impossible, *(margin.columns for margin in schema.public_margins))

    def binds(name: str) -> bool:
        """Whether something must be known of a column besides its list."""
        source, mapping = lists[name].source, lists[name].mapping
        cells = Cells({source.name: np.arange(source.size), name: np.asarray(mapping)})
        onward = [known for known in lists.values() if known.source.name == name]
        return name in taken or any(
            not {*rule.names} <= {source.name, name}
            or (rule.dependency is not None and rule.dependency.mapping is None)
            or rule.broken(cells).any()
            for rule in schema.kept_rules
            if name in rule.names and rule.dependency not in onward
        )

    while bound := [name for name in lists if binds(name)]:
        del lists[bound[0]]
    found = {}
    for name in schema.names:
        mapping, source = np.arange(schema.column(name).size), name
        while source in lists:
            mapping, source = mapping[lists[source].mapping], lists[source].source.name
        if source != name:
            found[name] = Following(source, mapping)
    return found


def keep_codes(
    schema: Schema, codes: np.ndarray, draw: Callable[[int], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Rows of codes of which none surely breaks a rule: others are drawn again from the model."""
    rules = schema.kept_rules
    codes = with_dependencies(rules, schema.columns, codes)
    first = bad = np.flatnonzero(broken_by(rules, schema.columns, codes))
    if not bad.size:
        return codes
    note_redrawn(rules, cells_of(schema.columns, codes[bad]))
    codes = codes.copy()
    for _ in range(50):
        codes[bad] = with_dependencies(rules, schema.columns, draw(bad.size))
        bad = bad[broken_by(rules, schema.columns, codes[bad])]
        if not bad.size:
            return codes
    good = np.setdiff1d(np.arange(len(codes)), bad, assume_unique=True)
    # Rows that were drawn again are draws of the model given the rules, and so are their copies.
    fresh = np.intersect1d(first, good, assume_unique=True)
    pool = fresh if fresh.size else good
    if pool.size:
        codes[bad] = codes[rng.choice(pool, bad.size)]
    return codes


def keep_values(
    schema: Schema, values: Values, rng: np.random.Generator, fixed: Sequence[str] = ()
) -> Values:
    """Rows of which none breaks a rule.

    Numbers are drawn again inside their bins, and set where an equation says what they are; what
    breaks a rule even then becomes a copy of another row. With ``fixed`` columns a row that no copy
    mends stays as it is.

    Raises:
        DataError: no row can be made that keeps the rules.
    """
    rules, columns = schema.kept_rules, schema.columns
    codes, numbers, bad = _settled(rules, columns, values, rng, fixed)
    values = pool = (codes, numbers)
    if not bad.size:
        return values
    note_redrawn(rules, cells_of(columns, _rows(values, bad)))
    good = np.setdiff1d(np.arange(len(codes)), bad, assume_unique=True)
    if not good.size:
        found = witnesses(schema.rules, columns)
        if found is None:
            raise DataError(no_rows(schema.rules))
        pool, good = found, np.arange(len(found[0]))
    stays = [column.name in fixed for column in columns]
    for _ in range(_TRIES):
        now, (copied, amounts) = _rows(values, bad), _rows(pool, rng.choice(good, bad.size))
        kept = {**amounts, **{name: now[1][name] for name in fixed if name in amounts}}
        mended = (np.where(stays, now[0], copied), kept)
        fine = ~broken_by(rules, columns, mended)
        _put(values, bad[fine], _rows(mended, fine))
        bad = bad[~fine]
        if not bad.size:
            break
    return values


def no_rows(texts: Sequence[str]) -> str:
    """The words for rules that leave nothing."""
    named = "; ".join(texts)
    return f"rules ({named}) must leave rows that keep them: none was found. Change one of them"


def _rows(values: Values, rows: np.ndarray) -> Values:
    codes, numbers = values
    return codes[rows], {name: column[rows] for name, column in numbers.items()}


def _put(values: Values, rows: np.ndarray, found: Values) -> None:
    values[0][rows] = found[0]
    for name, one in found[1].items():
        values[1][name][rows] = one


def _settled(
    rules: Sequence[Rule],
    columns: Sequence[AnyColumn],
    values: Values,
    rng: np.random.Generator,
    fixed: Sequence[str] = (),
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Rows whose values keep the rules as far as their codes allow, and the others' places."""
    before = values[0]
    codes = with_dependencies(rules, columns, before, fixed)
    numbers = {name: np.array(column) for name, column in values[1].items()}
    if codes is not before:
        moved = np.flatnonzero((codes != before).any(axis=1))
        fresh = decoding.drawn(columns, codes[moved], rng)[1]
        for place, column in enumerate(columns):
            if column.name in numbers:
                change = codes[moved, place] != before[moved, place]
                numbers[column.name][moved[change]] = fresh[column.name][change]
    codes = np.array(codes)
    bad = np.flatnonzero(broken_by(rules, columns, (codes, numbers)))
    for trial in range(_TRIES):
        if not bad.size:
            break
        part, found = _rows((codes, numbers), bad)
        if trial:
            true, fresh = decoding.drawn(columns, part, rng)
            stays = [column.name in fixed for column in columns]
            part = np.where(stays, part, true)
            found = {**fresh, **{name: found[name] for name in fixed if name in found}}
        kept = (np.array(part), {name: np.array(one) for name, one in found.items()})
        for rule in rules:
            if rule.equation is not None:
                _solve(rule, rule.equation, columns, kept, fixed)
        fine = ~broken_by(rules, columns, kept)
        _put((codes, numbers), bad[fine], _rows(kept, fine))
        bad = bad[~fine]
    return codes, numbers, bad


def _solve(
    rule: Rule, equation: Linear, columns: Sequence[AnyColumn], values: Values, fixed: Sequence[str]
) -> None:
    """Set one column of a sum, in rows that break the rule, to what the others leave."""
    names = [column.name for column in columns]
    able = [(c, factor) for c, factor in equation.terms if c.name not in fixed]
    if not able:
        return
    # The column that the others add up to is the one whose sign stands alone.
    signs = [math.copysign(1, factor) for _, factor in equation.terms]
    target, factor = next(
        ((c, f) for c, f in able if signs.count(math.copysign(1, f)) == 1), able[0]
    )
    codes, numbers = values
    wrong = np.flatnonzero(rule.broken(cells_of(columns, values)))
    rest = np.full(len(wrong), equation.constant)
    for column, times in equation.terms:
        if column is not target:
            rest += times * numbers[column.name][wrong]
    asked = -rest / factor
    inside = (asked >= target.lower - 1e-9) & (asked <= target.upper + 1e-9)
    # A rounding error must not round an integer down.
    near = np.rint(asked[inside]) if target.whole else asked[inside]
    wrong, found = wrong[inside], decoding.settle(target, near)
    numbers[target.name][wrong] = found
    codes[wrong, names.index(target.name)] = target.bins_of(found)


@lru_cache(maxsize=64)
def witnesses(texts: tuple[str, ...], columns: tuple[AnyColumn, ...]) -> Values | None:
    """Rows of which all rules are known to be true, found by a random walk; None if it finds none.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> columns = Schema.from_domain({"a": 2, "b": 2}).columns
        >>> witnesses(("a < b",), columns)[0][:1].tolist()
        [[0, 1]]
        >>> witnesses(("a < b", "b < a"), columns) is None
        True
    """
    rules = read_rules(texts, columns)
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, c.size, _WITNESSES) for c in columns])
    involved = np.array([[c.name in rule.names for c in columns] for rule in rules])
    draws = 0
    for _ in range(_ROUNDS):
        codes = with_dependencies(rules, columns, codes)
        cells = cells_of(columns, codes)
        broken = ~np.array([rule.node.outcomes(cells).yes for rule in rules])
        fine = np.flatnonzero(~broken.any(axis=0))
        if fine.size:
            if draws == _DRAWS:
                return None
            draws += 1
            values = decoding.drawn(columns, codes[fine], rng)
            settled, numbers, _ = _settled(rules, columns, values, rng)
            cells = cells_of(columns, (settled, numbers))
            good = np.flatnonzero(np.all([r.node.outcomes(cells).yes for r in rules], axis=0))
            if good.size:
                return _rows((settled, numbers), good)
        # A column of a broken rule gets another code; of rows that fail inside bins, any column.
        moves = broken.T.astype(int) @ involved.astype(int)
        moves[fine] = involved.any(axis=0)
        chosen = (rng.random(moves.shape) * (moves > 0)).argmax(axis=1)
        sizes = np.array([column.size for column in columns])[chosen]
        codes[np.arange(len(codes)), chosen] = rng.integers(0, sizes)
    return None


@lru_cache(maxsize=64)
def clash(texts: tuple[str, ...], columns: tuple[AnyColumn, ...]) -> tuple[str, ...]:
    """A smallest set of rules that no row can keep at once; empty if there is none.

    A rule that leaves nothing but missing values clashes, too.
    """
    ready = ready_rules(texts, columns)

    def fails(some: Sequence[Rule]) -> bool:
        named = {name for rule in some for name in rule.names}
        return witnesses(texts_of(some), _closed(columns, named)) is None

    return texts_of(smallest(ready, fails)) if ready and fails(ready) else ()


def ready_rules(texts: tuple[str, ...], columns: tuple[AnyColumn, ...]) -> list[Rule]:
    """The rules that name no column whose values are bought: of those nothing is known yet."""
    bought = {column.name for column in columns if not has_public_values(column)}
    return [rule for rule in read_rules(texts, columns) if not bought.intersection(rule.names)]


def texts_of(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(rule.text for rule in rules)


def smallest(rules: Sequence[Rule], fails: Callable[[Sequence[Rule]], bool]) -> Sequence[Rule]:
    """One or two rules that fail, or else some of which none can be left out."""
    for size in (1, 2):
        for some in itertools.combinations(rules, size):
            shared = set.intersection(*({*rule.names} for rule in some))
            if shared and fails(some):
                return some
    left = list(rules)
    for rule in rules:
        fewer = [other for other in left if other is not rule]
        if fails(fewer):
            left = fewer
    return left


def _closed(columns: Sequence[AnyColumn], named: set[str]) -> tuple[AnyColumn, ...]:
    """The columns of these names, with dates of parts and parts of dates."""
    for column in columns:
        if isinstance(column, MomentColumn) and column.parts:
            family = {column.name, *(part_name(column, part) for part in column.parts)}
            named = named | family if named & family else named
    return tuple(column for column in columns if column.name in named)


def values_of(frame: pd.DataFrame, schema: Schema) -> Values:
    """The codes and the numbers of a synthetic frame."""
    codec = Codec(schema)
    return codec.encode(frame), {
        column.name: codec.numbers(frame, column.name)
        if column.worded
        else pd.to_numeric(frame[column.name]).to_numpy(np.float64, na_value=np.nan)
        for column in schema.columns
        if isinstance(column, NumberColumn)
    }


def keep_rules(
    frame: pd.DataFrame, schema: Schema, rng: np.random.Generator, fixed: Sequence[str] = ()
) -> pd.DataFrame:
    """The rows of a synthetic frame, with those changed that break a rule."""
    if not schema.kept_rules or not len(frame):
        return frame
    values = values_of(frame, schema)
    if not broken_by(schema.kept_rules, schema.columns, values).any():
        return frame
    columns = decoding.series(schema.columns, *keep_values(schema, values, rng, fixed))
    return pd.DataFrame({one.name: one for one in columns}, index=frame.index)


def with_followers(frame: pd.DataFrame, schema: Schema, names: Sequence[str]) -> pd.DataFrame:
    """The rows with columns that were left out because they follow from others."""
    alone = np.random.default_rng(0)  # for nothing: each of their codes is one value
    for name in names:
        source, mapping = schema.followers[name]
        codes = Codec(schema.select([source])).encode(frame[[source]])
        found = Codec(schema.select([name])).decode(mapping[codes], alone)
        frame = frame.assign(**{name: found[name].set_axis(frame.index)})
    return frame[schema.names] if names else frame


def with_mappings(schema: Schema, frame: pd.DataFrame) -> Schema:
    """The schema with a mapping for every dependency that has none, read off synthetic rows.

    Each value has the other column's most frequent one among these rows, which is post-processing:
    rows that are not synthetic must not be given. A value that no row has gets the most frequent.
    """
    texts, codes = list(schema.rules), None
    for number, rule in enumerate(schema.kept_rules):
        known = rule.dependency
        if known is None or known.mapping is not None:
            continue
        codes = Codec(schema).encode(frame) if codes is None else codes
        pair = tuple(codes[:, schema.names.index(c.name)] for c in (known.source, known.target))
        counts = np.zeros((known.source.size, known.target.size))
        np.add.at(counts, pair, 1)
        counts += counts.sum(axis=0) / (len(frame) + 1)
        texts[number] = mapped(rule, counts.argmax(axis=1))
    return schema.model_copy(update={"rules": tuple(texts)})


def redrawing_notes(found: Mapping[str, int], rows: int) -> list[str]:
    """What a release says of rules that many of its rows did not keep at first."""
    return [
        f"rule ({text}): {count:,} rows were drawn again for {rows:,} that are released, for the "
        "model often breaks it. What the rows say of its columns leans on few draws: measure them "
        "together (--workload), give them fewer values, or raise eps"
        for text, count in found.items()
        if count > OFTEN * rows and not text.endswith(" left out")
    ]


def redrawn_text(found: Any) -> list[str]:
    """How many rows were drawn again, in words; nothing where there are none."""
    counts = [*(found or {}).values()]
    return [f"{sum(counts):,} rows were drawn again to keep the rules"] if counts else []


def broken_rules(frame: pd.DataFrame, schema: Schema) -> dict[str, int]:
    """By rule, how many rows of a frame break it; rules that none breaks are left out."""
    if not schema.kept_rules or not len(frame):
        return {}
    cells = cells_of(schema.columns, values_of(frame, schema))
    counts = {rule.text: int(rule.broken(cells).sum()) for rule in schema.kept_rules}
    return {text: count for text, count in counts.items() if count}
