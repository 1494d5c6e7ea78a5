"""What a mechanism's answers really cost on the worst tables, against what it charged.

On a tape of fixed answers (:mod:`marginalsyn.plugins.audit.testkit.tape`) a mechanism asks the same
questions of both tables. The distance between the private numbers in them, in units of the noise
that was to be added, is a loss that really happens. Nothing here is left to chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marginalsyn.contract import Duties
from marginalsyn.errors import MarginalsynError
from marginalsyn.plugins.audit.canaries import AuditCase, cases_of
from marginalsyn.plugins.audit.exact import Check
from marginalsyn.plugins.audit.worst import Currency, Worst, worst_of
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.progress import Progress, Silent
from marginalsyn.registry import GENERATORS, WEIGHTS, Plugin, plugins

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


_NAMES: dict[Currency, str] = {"mu": "mu", "rho": "mu", "eps": "eps", "step": "step"}


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
    for group in (GENERATORS, WEIGHTS):
        for plugin in plugins(group):
            named = not methods or plugin.name in methods
            if not named or plugin.status != "ok":
                continue
            if Duties(plugin.load()).private:
                yield plugin


def _measure(
    plugin: Plugin, relation: Neighbours, budgets: Sequence[float], persons: bool
) -> Iterator[Measured]:
    """Measure one method under one relation, trying the worst tables of the last eps first."""
    first: int | None = None
    for eps in budgets:
        cases = cases_of(plugin.kind, plugin.name, eps=eps, neighbours=[relation], persons=persons)
        try:
            worst = worst_of(cases[0], first=first)
        except MarginalsynError:
            continue  # tables that a method refuses
        if not (worst.asked or worst.open):
            return
        first = worst.place
        yield _measured(cases[0], eps, worst)


def _measured(case: AuditCase, eps: float, worst: Worst) -> Measured:
    squared = worst.currency in ("mu", "rho")
    return Measured(
        method=case.kind.name,
        group=case.group,
        neighbours=case.relation,
        eps=eps,
        tables=worst.tables,
        currency=_NAMES[worst.currency],
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
        how = f"worst tables that are known, both relations, at eps {_listed(own)}; the worst: "
        found.append(
            Check(
                name="cost of the answers over the charge",
                methods=(method,),
                value=worst.cost,
                how=f"{how}{worst.tables}, {worst.neighbours}",
            )
        )
        worst = max(own, key=lambda one: one.selection)
        if worst.selection:
            found.append(
                Check(
                    name="range of a selection's log-ratios over its eps",
                    methods=(method,),
                    value=worst.selection,
                    how=f"{how}{worst.tables}, {worst.neighbours}",
                )
            )
    return found


def _listed(measured: Sequence[Measured]) -> str:
    return ", ".join(f"{eps:g}" for eps in dict.fromkeys(one.eps for one in measured))
