"""What stands first, on the page and on the screen: a word for each use, and the two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from marginalsyn.evaluation.charts import Bar, Dots
from marginalsyn.evaluation.reports import called
from marginalsyn.evaluation.verdict import (
    FRESH,
    GUESS,
    LINEAR,
    LINKS,
    RARE,
    RELINKED,
    SHAPES,
    SHUFFLED,
    TABLES,
    TREES,
    UNJUDGED,
    Use,
)
from marginalsyn.evaluation.view import Boxes, Group, Item, Note, Table, Terms, number, with_error

USES = (TABLES, LINKS, LINEAR, TREES, RARE)
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
            bars += [Bar(other, value) for other, value in first.yardsticks.items()]
            items[0] = Dots(f"{name}: {known[0][1].measure}", bars)
        blocks.append(Group(items, "block"))
    return Group(blocks)


def first(cases: Cases, worst: Mapping[str, Sequence[str]], *, linked: bool = False) -> list[Item]:
    """What the page begins with; ``linked`` tables have yardsticks of their own each."""
    items: list[Item] = []
    if len(cases) == 1:
        (uses,) = cases.values()
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
