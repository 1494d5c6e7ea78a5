"""What stands first, on the page and on the screen: a word for each use, and the two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap

from marginalsyn.evaluation.charts import Bar, Dots
from marginalsyn.evaluation.reports import called
from marginalsyn.evaluation.verdict import (
    AS_FRESH,
    CARE,
    FIT,
    FRESH,
    GUESS,
    LINEAR,
    LINKS,
    NUMBERS,
    RARE,
    RELINKED,
    SHAPES,
    SHUFFLED,
    TABLES,
    TREES,
    UNFIT,
    UNJUDGED,
    Use,
)
from marginalsyn.evaluation.view import Boxes, Group, Item, Note, Table, Terms, number, with_error

USES = (TABLES, NUMBERS, LINKS, LINEAR, TREES, RARE)
Cases = Mapping[str, Sequence[Use]]
Rows = tuple[list[str], list[list[str]]]


def words(cases: Cases) -> Rows | None:
    """The word of every use, a line for each table and column of weights."""
    known = [use for use in USES if any(u.use == use for uses in cases.values() for u in uses)]
    rows = [
        [name, *(found[use].word if use in found else UNJUDGED for use in known)]
        for name, found in _variants(cases)
    ]
    return (["", *known], rows) if known else None


def figures(cases: Cases, *, linked: bool = False) -> Rows | None:
    """The l1 error and the excess risk of every table and column of weights, over yardsticks.

    Those of ``linked`` tables, which are not the same, stand next to the figures.
    """
    every = [use for uses in cases.values() for use in uses if use.value is not None]
    tables = next((use for use in every if use.use == TABLES), None)
    models = next((use for use in every if use.use == LINEAR), None)
    if tables is None and models is None:
        return None
    head = [""]
    head += [tables.measure, "total variation"] if tables else []
    head += [models.measure] if models else []

    marks = [
        mark
        for mark in (FRESH, SHUFFLED, RELINKED, GUESS)
        if linked and any(mark in use.yardsticks for use in every)
    ]
    head += marks

    def line(name: str, error: float | None, risk: str) -> list[str]:
        cells = ["", ""] if error is None else [number(error), number(error / 2)]
        return [name, *(cells if tables else []), *([risk] if models else [])]

    rows = []
    for name, found in _variants(cases):
        one, two = (found.get(use) for use in (TABLES, LINEAR))
        risk = with_error(two.value, two.se) if two and two.value is not None else ""
        known = {
            k: v for use in (found.get(LINKS), two, one) if use for k, v in use.yardsticks.items()
        }
        own = [number(known[mark]) if mark in known else "" for mark in marks]
        rows.append([*line(name, one.value if one else None, risk), *own])
    if linked:
        return head, rows
    yardsticks = {
        key: value for use in (tables, models) if use for key, value in use.yardsticks.items()
    }
    if FRESH in yardsticks:
        rows.append(line(FRESH, yardsticks[FRESH], ""))
    if SHUFFLED in yardsticks or GUESS in yardsticks:
        risk = f"{number(yardsticks[GUESS])} ({GUESS})" if GUESS in yardsticks else ""
        rows.append(line(SHUFFLED, yardsticks.get(SHUFFLED), risk))
    return head, rows


def rules(cases: Cases) -> list[tuple[str, str]]:
    """What stands behind the words of every use."""
    found: dict[str, str] = {}
    for use in (use for uses in cases.values() for use in uses):
        found.setdefault(use.use, use.rule or f"{UNJUDGED}: {use.note}")
    return [(use, found[use]) for use in USES if use in found]


def rule_sentences(cases: Cases) -> list[str]:
    """The rules as sentences, each once."""
    found: dict[str, list[str]] = {}
    for use, rule in rules(cases):
        found.setdefault(rule, []).append(use)
    return [f"{', '.join(names)}: {rule}" for rule, names in found.items()]


def yardsticks(cases: Cases) -> Item:
    """A chart a use: every variant's value among its yardsticks, with the rule."""
    blocks = []
    for name, rule in rules(cases):
        variants = [(variant, found[name]) for variant, found in _variants(cases) if name in found]
        known = [(variant, use) for variant, use in variants if use.value is not None]
        items: list[Item] = [Note(name, "heading"), Note(rule)]
        if known:
            bars = [
                Bar(variant, use.value or 0.0, use.se, 1 if use.weights is None else 2)
                for variant, use in known
            ]
            # Those of the first, as in the table of figures: they differ by chance.
            first = next((use for _, use in known if use.yardsticks), known[0][1])
            bars += list(starmap(Bar, first.yardsticks.items()))
            items[0] = Dots(f"{name}: {known[0][1].measure}", bars)
        blocks.append(Group(items, "block"))
    return Group(blocks)


def in_short(uses: Sequence[Use]) -> dict[str, str]:
    """What one table is suitable for and not, and what may be changed: a curator reads it first.

    Example:
        >>> in_short([Use(TABLES, UNFIT, "two-way l1 error", 0.5, None, {FRESH: 0.1})])
        {'Not suitable for': 'descriptive tables', 'What to change': 'a larger eps, or fewer \
columns and bins, in which the noise is smaller'}
    """
    found = {}
    for title, word in (("Suitable for", FIT), ("With care", CARE), ("Not suitable for", UNFIT)):
        named = dict.fromkeys(_named(use) for use in uses if use.word == word)
        if named:
            found[title] = ", ".join(named)
    if changes := list(dict.fromkeys(change for use in uses for change in _changes(use))):
        found["What to change"] = "; ".join(changes)
    return found


def _named(use: Use) -> str:
    return f"{use.use} (with weights {use.weights})" if use.weights else use.use


def _changes(use: Use) -> Iterator[str]:
    """What may help where a use is not all right."""
    if use.word not in (CARE, UNFIT) or use.value is None or use.weights:
        return
    fresh, shuffled = (use.yardsticks.get(name) for name in (FRESH, SHUFFLED))
    if fresh and use.value <= AS_FRESH * fresh:
        yield f"nothing for {use.use}: other real rows, as few as these, would be as far off"
    elif use.use == NUMBERS:
        yield "finer bins where most values lie, or a bought shape (--shape COLUMN)"
    elif use.use in (LINEAR, TREES):
        yield "a larger eps, and for models the label named when the release is made (--label)"
    elif use.use == RARE:
        yield "rare categories merged in the schema, or a larger eps"
    elif shuffled and use.value >= shuffled:
        yield "a larger eps, or a method that measures pairs, as auto does: relations are lost"
    else:
        yield "a larger eps, or fewer columns and bins, in which the noise is smaller"


def first(cases: Cases, worst: Mapping[str, Sequence[str]], *, linked: bool = False) -> list[Item]:
    """What the page begins with; ``linked`` tables have yardsticks of their own each."""
    items: list[Item] = []
    if len(cases) == 1:
        (uses,) = cases.values()
        if short := in_short(uses):
            items.append(Terms(short))
        mine = {name: [use for use in uses if use.use == name] for name in USES}
        items.append(Boxes({name: found for name, found in mine.items() if found}))
    elif (found := words(cases)) is not None:
        head, lines = found
        rows = [[line[0], *(f"{SHAPES[word][0]} {word}" for word in line[1:])] for line in lines]
        items.append(Table(head, rows, "What each table is fit for", numbers=False))
    if (found := figures(cases, linked=linked)) is not None:
        items.append(Table(*found, "The two figures and their yardsticks"))
    if worst:
        items.append(Terms({f"Worst {k}": "; ".join(listed) for k, listed in worst.items()}))
    return items


def _variants(cases: Cases) -> Iterator[tuple[str, dict[str, Use]]]:
    """Every table without weights and with each column of them: what it is called, its uses."""
    for case, uses in cases.items():
        for weights in dict.fromkeys([None, *(use.weights for use in uses)]):
            own = {use.use: use for use in reversed(uses) if use.weights == weights}
            yield _called(case, weights, cases), own


def _called(case: str, weights: str | None, cases: Cases) -> str:
    """How a variant is called."""
    if len(cases) > 1:
        return called(case, weights)
    if weights is None:
        return "without weights" if any(use.weights for use in cases[case]) else case
    return f"weights {weights}"
