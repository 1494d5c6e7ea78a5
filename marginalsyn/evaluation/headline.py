"""What stands first, on the page and on the screen: a word for each use, and the two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marginalsyn.evaluation import page
from marginalsyn.evaluation.charts import Bar, dots
from marginalsyn.evaluation.fitness import (
    CARE,
    FIT,
    FRESH,
    GUESS,
    LINEAR,
    RARE,
    SHUFFLED,
    TABLES,
    TREES,
    UNFIT,
    UNJUDGED,
    Use,
)
from marginalsyn.evaluation.markup import fill, number
from marginalsyn.evaluation.reports import called

USES = (TABLES, LINEAR, TREES, RARE)
# A shape for every word, so that no colour is needed to tell them apart; and its colour.
SHAPES = {FIT: ("●", "fine"), CARE: ("▲", "care"), UNFIT: ("■", "alert"), UNJUDGED: ("○", "soft")}
Table = tuple[list[str], list[list[str]]]


def words(cases: Mapping[str, Sequence[Use]]) -> Table | None:
    """The word of every use, a line for each table and column of weights."""
    told = [use for use in USES if any(u.use == use for uses in cases.values() for u in uses)]
    rows = []
    for name, found in _variants(cases):
        rows.append([name, *(found[use].word if use in found else UNJUDGED for use in told)])
    return (["", *told], rows) if told else None


def figures(cases: Mapping[str, Sequence[Use]]) -> Table | None:
    """The l1 error and the excess risk of every table and column of weights, over yardsticks."""
    rows = []
    every = [use for uses in cases.values() for use in uses if use.value is not None]
    tables = next((use for use in every if use.use == TABLES), None)
    models = next((use for use in every if use.use == LINEAR), None)
    if tables is None and models is None:
        return None
    head = [""]
    head += [tables.measure, "total variation"] if tables else []
    head += [models.measure] if models else []

    def line(name: str, error: float | None, risk: str) -> None:
        half = None if error is None else error / 2
        cells = [_number(error), _number(half)] if tables else []
        rows.append([name, *cells, *([risk] if models else [])])

    for name, found in _variants(cases):
        one, two = (found.get(use) for use in (TABLES, LINEAR))
        risk = page.with_error(two.value, two.se) if two and two.value is not None else ""
        line(name, one.value if one else None, risk)
    beside = {**(tables.beside if tables else {}), **(models.beside if models else {})}
    if FRESH in beside:
        line(FRESH, beside[FRESH], "")
    if SHUFFLED in beside or GUESS in beside:
        risk = f"{number(beside[GUESS])} ({GUESS})" if GUESS in beside else ""
        line(SHUFFLED, beside.get(SHUFFLED), risk)
    return head, rows


def rules(cases: Mapping[str, Sequence[Use]]) -> list[tuple[str, str]]:
    """What stands behind the words of every use."""
    found: dict[str, str] = {}
    for use in (use for uses in cases.values() for use in uses):
        found.setdefault(use.use, use.rule or f"{UNJUDGED}: {use.note}")
    return [(use, found[use]) for use in USES if use in found]


def rules_told(cases: Mapping[str, Sequence[Use]]) -> list[str]:
    """The rules as sentences, each once."""
    found: dict[str, list[str]] = {}
    for use, rule in rules(cases):
        found.setdefault(rule, []).append(use)
    return [f"{', '.join(names)}: {rule}" for rule, names in found.items()]


def boxes(uses: Sequence[Use]) -> str:
    """One box a use: its word, its value beside the yardsticks, and the words of weights."""
    mine = [(name, [use for use in uses if use.use == name]) for name in USES]
    return fill("verdict.html", shown=[one for one in mine if one[1]], shapes=SHAPES)


def yardsticks(cases: Mapping[str, Sequence[Use]]) -> str:
    """A chart a use: every variant's value among its yardsticks, with the rule."""
    charts = []
    for name, rule in rules(cases):
        bars, beside = list[Bar](), dict[str, float]()
        for variant, found in _variants(cases):
            use = found.get(name)
            if use is not None and use.value is not None:
                tone = 1 if use.weights is None else 2
                bars.append(Bar(variant, use.value, use.se, tone))
                # Those of the first, as in the table of figures: they differ by chance.
                beside = beside or dict(use.beside)
        if not bars:
            charts.append(page.block(page.heading(name) + page.paragraph(rule, "note")))
            continue
        measure = next(u.measure for uses in cases.values() for u in uses if u.use == name)
        bars += [Bar(told, value, None, 0) for told, value in beside.items()]
        told = f"{name}: {measure}"
        charts.append(
            page.block(page.figure(dots(bars, None, told), told) + page.paragraph(rule, "note"))
        )
    return page.grid(charts, "pair")


def worst_lists(worst: Mapping[str, Sequence[str]]) -> str:
    """The worst columns, pairs and groups by name."""
    return fill("worst.html", worst=worst) if worst else ""


def _variants(cases: Mapping[str, Sequence[Use]]) -> Iterator[tuple[str, dict[str, Use]]]:
    """Every table without weights and with each column of them: what it is called, its uses."""
    for case, uses in cases.items():
        for weights in dict.fromkeys([None, *(use.weights for use in uses)]):
            own = {use.use: use for use in reversed(uses) if use.weights == weights}
            yield _called(case, weights, cases), own


def _called(case: str, weights: str | None, cases: Mapping[str, Sequence[Use]]) -> str:
    """How a variant is called."""
    if len(cases) > 1:
        return called(case, weights)
    if weights is None:
        weighted = any(use.weights for use in cases[case])
        return "without weights" if weighted else case
    return f"weights {weights}"


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def first(cases: Mapping[str, Sequence[Use]], worst: Mapping[str, Mapping[str, Any]]) -> str:
    """What the page begins with."""
    parts = []
    if len(cases) == 1:
        parts.append(boxes(next(iter(cases.values()))))
    elif (found := words(cases)) is not None:
        head, lines = found
        shown = [[line[0], *(f"{SHAPES[word][0]} {word}" for word in line[1:])] for line in lines]
        parts.append(page.table(head, shown, right=False, caption="What each table is fit for"))
    if (found := figures(cases)) is not None:
        parts.append(page.table(*found, caption="The two figures, beside their yardsticks"))
    if len(cases) == 1:
        parts += [worst_lists(named) for named in worst.values()]
    return "".join(parts)
