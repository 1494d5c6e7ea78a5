"""Neighbouring tables on which a mechanism's answers cost all that it charges.

Counts are easy: any row moves every marginal by its whole sensitivity. A selection costs all of its
eps only where one candidate's score goes up by its whole sensitivity and another's goes down by as
much, and which candidates do depends on what was answered before. So a third, public table, the
*guide*, is made up, and its exact counts are the answers: a mechanism that hears them fits a model
of the guide, against which the two private tables then differ as much as may be. Every list of
answers is a possible one, so what is found on it is a loss that really happens.

What a mechanism's answers really cost on the worst tables, against what it charged.

On a tape of fixed answers (:mod:`marginalsyn.plugins.audit.testkit.tape`) a mechanism asks the same
questions of both tables. The distance between the private numbers in them, in units of the noise
that was to be added, is a loss that really happens. Nothing here is left to chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from marginalsyn.contract import Duties
from marginalsyn.errors import MarginalsynError
from marginalsyn.plugins.audit.canaries import AuditCase, cases_of, table_of
from marginalsyn.plugins.audit.exact import Check
from marginalsyn.plugins.audit.runs import Bench
from marginalsyn.plugins.audit.testkit.lowest_bits import ReplayedTape
from marginalsyn.plugins.audit.testkit.tape import (
    COMMON,
    SEED,
    Costs,
    Question,
    Tape,
    shift_between,
)
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.progress import Progress, Silent
from marginalsyn.registry import GENERATORS, WEIGHTS, Plugin, plugins
from marginalsyn.table.schema import Schema

Row = tuple[int, ...]
Currency = Literal["mu", "rho", "eps", "step"]


SIMPLER: dict[str, dict[str, Any]] = {
    "pategan": {"teachers": 2, "queries": 1, "rounds": 1},
    "privbayes": {"parents": 1},
    "support-points-gp": {"form": "field"},
    "support-points-herding": {"points": 1, "candidates": 2},
}
"""Options under which some methods' worst tables are known."""


SEEDS = 24
"""How many streams are tried for a method that trains networks."""
TRIES = 4
"""How many rehearsals each worst case gets: they select at random."""
ENOUGH, WIDE_ENOUGH = 0.97, 0.95
"""The share of a claim, and of a selection's eps, at which the search ends."""
WIDE = 80
"""Columns of the worst regression: so many that the constant is a small part of a vector."""
MIDDLE = 40_000
"""Its synthetic rows in the middle."""


@dataclass(frozen=True)
class WorstCase:
    """Rows that two tables share, what they differ in, and the guide.

    Attributes:
        rows: of both tables, with how often each occurs.
        out, put: the row that is replaced, and the one that is added or takes its place.
        guide: the rows whose counts are the answers.
    """

    name: str
    rows: tuple[tuple[Row, int], ...]
    out: Row
    put: Row
    guide: tuple[tuple[Row, int], ...]

    def tables(self, neighbours: Neighbours) -> tuple[list[Row], list[Row], list[Row]]:
        """The two tables and the guide, which has as many rows where their number is public."""
        shared, guide = _repeat(self.rows), _repeat(self.guide)
        if neighbours is Neighbours.ADD_REMOVE:
            return shared, [*shared, self.put], guide
        count = len(shared) + 1
        while len(guide) < count:
            guide = guide + guide
        # Every k-th row, so that the guide's shares stay what they are.
        kept = [guide[place * len(guide) // count] for place in range(count)]
        return [*shared, self.out], [*shared, self.put], kept


def worst_cases() -> tuple[WorstCase, ...]:
    """The worst cases for :func:`corners`, whose label is its last column.

    In the first, the guide's columns are independent; its pair (a, b) never holds the codes (2, 2)
    and often (0, 0), its pair (b, c) the other way round: so the error of (a, b) against a model of
    the guide rises by two and that of (b, c) falls by two when the row of zeros is replaced.

    In the second, a's dependence on c falls and b's dependence on c, and a's on b, rise.
    """
    spread = tuple(((a, b, c), 500) for a in (0, 1) for b in (0, 2) for c in (1, 2))
    rare = 0.02
    names = ((rare, 1 - 2 * rare, rare, 0.0), (rare, 1 - rare, 0.0, 0.0), (0.4, 0.2, 0.4, 0.0))
    joint = np.einsum("i,j,k->ijk", *names)
    drawn = tuple(
        ((a, b, c), round(4000 * joint[a, b, c]))
        for a, b, c in np.ndindex(joint.shape)
        if round(4000 * joint[a, b, c])
    )
    return (
        WorstCase("opposite errors", (((1, 1, 0), 4000),), (0, 0, 0), (2, 2, 2), spread),
        WorstCase(
            "opposite dependence",
            (((1, 3, 2), 1500), ((3, 1, 0), 1200), ((0, 1, 0), 300), ((1, 0, 1), 300)),
            (0, 0, 0),
            (2, 2, 2),
            drawn,
        ),
    )


def corners() -> Schema:
    """Three columns of four codes, the last one the label."""
    return Schema.from_domain({"a": 4, "b": 4, "c": 4}, "c")


@dataclass
class Rehearsal(ReplayedTape):
    """Answers with what it is asked for, and remembers it. For public tables.

    ``chance`` decides what is selected.
    """

    chance: np.random.Generator = field(default_factory=np.random.default_rng)

    def _answer(self, question: Question, values: Any) -> Any:
        answer: Any = question.values
        if question.selects:
            answer = int(self.chance.choice(np.flatnonzero(answer > -np.inf)))
        self.answers.append(answer)
        return question.law.restored(np.array(answer))


@dataclass(frozen=True, kw_only=True)
class Worst(Costs):
    """The questions that a mechanism asks of two neighbouring tables, and what it charged.

    Attributes:
        tables: a name for them.
        selection: the most that the log-ratios of a selection move, over its eps; 0 without any.
        place: of the tables among those that are tried.
        open: whether the questions themselves differ between the tables, at no cost.
    """

    tables: str
    selection: float
    place: int = 0
    open: bool = False

    @property
    def currency(self) -> Currency:
        """What is compared: mu, rho, eps of pure charges, or one step on a sampled lot."""
        return "step" if self.sampled else self.unit

    @property
    def share(self) -> float:
        """Measured over claimed."""
        if self.open:
            return math.inf
        if self.sampled:
            return max(self.step, self.spent / (self.charged or math.inf))
        return self.spent / self.charged if self.charged else math.inf

    def rho(self, one: Question, other: Question) -> float:
        """The zCDP cost between the laws of two answers; of a selection by its probabilities."""
        if not one.selects:
            return super().rho(one, other)
        first, second = selection_laws(one, other)
        found = 0.0
        for p, q in ((first, second), (second, first)):
            for order in (1.01, 2.0, 4.0, 16.0):
                divergence = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
                found = max(found, float(divergence) / order)
        return found

    def amount(self, one: Question, other: Question) -> float:
        """The GDP cost between two answers; of a selection the mu of its own best tests."""
        if not one.selects:
            return super().amount(one, other)
        first, second = selection_laws(one, other)
        ranked = np.argsort(first - second)[::-1]
        p, q = np.exp(first[ranked]).cumsum()[:-1], np.exp(second[ranked]).cumsum()[:-1]
        inside = (p > 1e-12) & (q > 1e-12) & (p < 1 - 1e-12) & (q < 1 - 1e-12)
        gaps = ndtri(p[inside]) - ndtri(q[inside])
        return float(np.max(gaps, initial=0.0)) ** 2 / 2


def selection_laws(one: Question, other: Question) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of a selection's candidates on the two tables, impossible ones left out."""
    eps, sensitivity = one.law.parameters
    able = np.isfinite(one.values) & np.isfinite(other.values)
    logs = [eps * question.values[able] / (2 * sensitivity) for question in (one, other)]
    first, second = (values - np.logaddexp.reduce(values) for values in logs)
    return first, second


def worst_of(case: AuditCase, *, first: int | None = None) -> Worst:
    """What is asked on the worst tables that are known for a case; perhaps nothing.

    Args:
        case: whose own tables are tried first; then single rows, then the worst cases.
        first: the place of the tables to begin with, where it is known; without it a mechanism with
            selections is tried on all tables, since one that forgets a factor reaches its eps soon.
    """
    best = None
    attempts = list(_attempts(case))
    for place in sorted(range(len(attempts)), key=lambda place: (place != first, place)):
        found = replace(attempts[place](), place=place)
        if not found.asked:
            return found  # nothing, or a side door
        widest = max(found.selection, best.selection if best else 0.0)
        best = found if best is None or found.share > best.share else best
        best = replace(best, selection=widest)
        known = first is not None and widest >= WIDE_ENOUGH
        if best.share >= ENOUGH and (widest == 0 or known):
            break
    assert best is not None
    return best


def perform(case: AuditCase, said: Sequence[Any] | None = None, seed: int = SEED) -> Worst:
    """What a case asks of its own tables, on a plain tape or with what was ``said`` before."""
    bench = Bench(case)
    tapes = [Tape(seed) if said is None else ReplayedTape(seed, script=said) for _ in range(2)]
    for side, tape in enumerate(tapes):
        bench.run(side, tape)
    if tapes[0].public != tapes[1].public:
        # What a table is asked follows from its rows, past the noise.
        return Worst(tables=case.canary, asked=[], charges=(), selection=0.0, open=True)
    asked = list(zip(*(tape.questions for tape in tapes), strict=True))
    laws = [one.law for one, _ in asked]
    moved = [
        shift_between(*pair) / law.eps
        for pair, law in zip(asked, laws, strict=True)
        if isinstance(law, ExponentialMechanism)
    ]
    return Worst(
        tables=case.canary,
        asked=asked,
        charges=tuple(case.mechanism.cost),
        selection=max(moved, default=0.0),
    )


def _attempts(case: AuditCase) -> Iterator[Callable[[], Worst]]:
    """The tables to try, simplest first: the case's own, single rows, the worst cases."""
    yield partial(perform, case)
    if case.group != GENERATORS:
        if {"penalty", "crosses"} <= {field.name for field in fields(case.config)}:
            yield partial(perform, _misread(case))
        return
    trained = bool(Duties(case.kind).requires)
    if trained:
        alone = _staged(case, "one row more", [(0, 0, 0)] * COMMON, (0, 0, 0), (2, 1, 1))
        yield partial(perform, alone)
    options = {**case.options, **SIMPLER.get(case.kind.name, {})}
    line = replace(case, schema=Schema.from_domain({"a": 2}), options=options)
    if "candidates" in options:
        yield partial(perform, _staged(line, "two ends", [], (0,), (1,)))
    case = replace(case, schema=corners(), options=options)
    # A network's votes depend on the streams for post-processing, too: some are the worst.
    for seed in range(SEED + (SEEDS if trained else 0), SEED - 1, -1):
        for out, put in itertools.permutations(((0, 0, 0), (3, 3, 3)), 2):
            # A row that leaves one teacher, and one that outvotes another at a second teacher.
            opposite = trained and case.neighbours is Neighbours.REPLACE
            rows = [(abs(out[0] - 1),) * 3] if opposite else []
            name = "two rows" if opposite else "one row"
            yield partial(perform, _staged(case, name, rows, out, put), seed=seed)
    for number in range(0 if trained else TRIES):
        for worst_case in worst_cases():
            yield partial(_rehearsed, case, worst_case, number)


def _rehearsed(case: AuditCase, worst_case: WorstCase, number: int) -> Worst:
    left, right, guide = worst_case.tables(case.neighbours)
    rehearsal = Rehearsal(chance=np.random.default_rng(number))
    Bench(_with_tables(case, "guide", guide, guide)).run(0, rehearsal)
    return perform(_with_tables(case, worst_case.name, left, right), rehearsal.answers)


def _staged(case: AuditCase, name: str, shared: Sequence[Row], out: Row, put: Row) -> AuditCase:
    """The case on shared rows and one more row, which is added or replaces another."""
    replaced = case.neighbours is Neighbours.REPLACE
    return _with_tables(case, name, [*shared, out] if replaced else shared, [*shared, put])


def _with_tables(
    case: AuditCase, name: str, left: Sequence[Row], right: Sequence[Row]
) -> AuditCase:
    frames = tuple(table_of(rows, case.schema) for rows in (left, right))
    return replace(case, canary=name, tables=frames)


def _misread(case: AuditCase) -> AuditCase:
    """A record that a regression takes for synthetic because of its constant alone.

    There are so many synthetic rows, each in the middle of everything, that the constant says
    "synthetic" of all there is; along the record's own direction hardly anything pulls. So the
    record's gradient is its whole vector, and undamped. Two synthetic rows at the ends make its
    direction the widest.
    """
    schema = Schema.from_domain({f"x{i}": 3 for i in range(WIDE)})
    ends = [[0] * WIDE, [2] * WIDE]
    target = table_of([*ends, *np.ones((MIDDLE, WIDE), dtype=int)], schema)
    options = {**case.options, "penalty": 12.0, "crosses": "none"}
    case = replace(case, schema=schema, target=target, options=options)
    return _staged(case, "misread record", [], (0,) * WIDE, (2,) * WIDE)


def _repeat(rows: Sequence[tuple[Row, int]]) -> list[Row]:
    return [row for row, times in rows for _ in range(times)]


BUDGETS = (0.5, 1.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The worst loss that is known for one method, under one relation, at one eps.

    Attributes:
        tables: on which it happens.
        currency: what is compared: ``mu`` (the shift of a Gaussian; of a claim in zCDP the root of
            twice rho), ``eps`` of a pure claim, or one ``step`` on a sampled lot.
        share: measured over claimed; 1 is a claim that is reached.
        cost: the same in what adds up: mu^2 / 2, or rho, where ``share`` is in mu.
        selection: the most that a selection's log-ratios move, over its eps.
        answers: how many there were.
    """

    method: str
    group: str
    neighbours: str
    eps: float
    tables: str
    currency: str
    share: float
    cost: float
    selection: float
    answers: int

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def measure(
    methods: Sequence[str] = (),
    *,
    budgets: Sequence[float] = BUDGETS,
    trained: bool = True,
    persons: bool = False,
    progress: Progress | None = None,
) -> list[Measured]:
    """The worst known loss of every private method, both relations, at three budgets.

    Left out are methods whose output is a draw from a law of the rows, for which nothing is asked.

    Args:
        methods: their names; all by default.
        budgets: the eps; methods that are not named and load a network library get the last only.
        trained: whether those methods are measured at all.
        persons: whether neighbours differ by a person who has many rows.
        progress: receives the messages.
    """
    progress = progress or Silent()
    found: list[Measured] = []
    named = [plugin for plugin in _plugins(methods) if trained or not plugin.requires]
    for done, plugin in enumerate(named):
        progress.report("exact checks", fraction=done / len(named), text=f"answers: {plugin.name}")
        few = plugin.requires and not methods
        for relation in Neighbours:
            found += _measure(plugin, relation, budgets[-1:] if few else budgets, persons)
    return found


def _plugins(methods: Sequence[str]) -> Iterator[Plugin]:
    for plugin in (*plugins(GENERATORS), *plugins(WEIGHTS)):
        named = not methods or plugin.name in methods
        if named and plugin.status == "ok" and Duties(plugin.load()).private:
            yield plugin


def _measure(
    plugin: Plugin, relation: Neighbours, budgets: Sequence[float], persons: bool
) -> Iterator[Measured]:
    """Measure one method under one relation, trying the worst tables of the last eps first."""
    first = None
    for eps in budgets:
        cases = cases_of(plugin.kind, plugin.name, eps=eps, neighbours=[relation], persons=persons)
        case = cases[0]
        try:
            worst = worst_of(case, first=first)
        except MarginalsynError:
            continue  # tables that a method refuses
        if not (worst.asked or worst.open):
            return
        first, squared = worst.place, worst.currency in ("mu", "rho")
        yield Measured(
            method=case.kind.name,
            group=case.group,
            neighbours=case.relation,
            eps=eps,
            tables=worst.tables,
            currency="mu" if squared else worst.currency,
            share=math.sqrt(worst.share) if squared else worst.share,
            cost=worst.share,
            selection=worst.selection,
            answers=len(worst.asked),
        )


def answers(measured: Sequence[Measured]) -> list[Check]:
    """Checks that no answers cost more than their charge, and no selection more than its eps."""
    found = []
    for method in dict.fromkeys(one.method for one in measured):
        own = [one for one in measured if one.method == method]
        worst = max(own, key=lambda one: one.cost)
        budgets = ", ".join(f"{eps:g}" for eps in dict.fromkeys(one.eps for one in own))
        how = f"worst tables that are known, both relations, at eps {budgets}; the worst: "
        found.append(Check(
            "cost of the answers over the charge", worst.cost,
            f"{how}{worst.tables}, {worst.neighbours}", methods=(method,),
        ))  # fmt: skip
        worst = max(own, key=lambda one: one.selection)
        if worst.selection:
            found.append(Check(
                "range of a selection's log-ratios over its eps", worst.selection,
                f"{how}{worst.tables}, {worst.neighbours}", methods=(method,),
            ))  # fmt: skip
    return found
