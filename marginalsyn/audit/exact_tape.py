"""What a mechanism's answers really cost on the worst tables, against what it charged.

On a tape of fixed answers (:mod:`marginalsyn.tape`) a mechanism asks the same questions of both
tables. How far the private numbers in them are apart, in units of the noise that was to be added,
is a loss that really happens. Nothing here is left to chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from marginalsyn.audit.canaries import Case, cases_of
from marginalsyn.audit.exact import Check
from marginalsyn.audit.runs import Bench
from marginalsyn.budget import Pure
from marginalsyn.errors import MarginalsynError
from marginalsyn.registry import GENERATORS, WEIGHTS, plugins
from marginalsyn.tape import Tape, rho_between, shift_between

BUDGETS = (1.0, 8.0)


def answers(methods: Sequence[str] = ()) -> list[Check]:
    """One check for every mechanism whose answers can be taken from a tape.

    Left out are those that load a network library (their tests have the tape), and those whose
    output is a draw from a law of the rows, for which nothing is asked.
    """
    found = []
    for group in (GENERATORS, WEIGHTS):
        for plugin in plugins(group):
            named = not methods or plugin.name in methods
            if not named or plugin.status != "ok" or plugin.requires:
                continue
            if group == WEIGHTS and not getattr(plugin.load(), "private", False):
                continue
            check = _check(group, plugin.name)
            if check is not None:
                found.append(check)
    return found


def _check(group: str, method: str) -> Check | None:
    worst, asked = 0.0, 0
    for eps in BUDGETS:
        for case in cases_of(group, method, eps=eps):
            if case.one_run:
                continue
            try:
                share, questions = realised(case)
            except MarginalsynError:
                continue  # tables that a method refuses
            worst, asked = max(worst, share), asked + questions
    if not asked:
        return None
    return Check(
        name="cost of the answers over the charge",
        methods=(method,),
        value=worst,
        bound=1.0,
        how=f"the odd record and the empty table, both relations, eps 1 and 8; {asked} answers",
    )


def realised(case: Case) -> tuple[float, int]:
    """The share of the charge that the answers cost on a case's tables, and how many they were.

    The share is of rho, or of eps where all charges are pure.
    """
    charges = tuple(case.mechanism.cost)
    if not charges:
        return 0.0, 0
    tapes = []
    bench = Bench(case)
    for side in (0, 1):
        tape = Tape()
        bench.run(side, tape)
        tapes.append(tape.questions)
    pairs = list(zip(*tapes, strict=True))
    if all(isinstance(charge.cost, Pure) for charge in charges):
        spent = math.fsum(shift_between(one, other) for one, other in pairs)
        charged = math.fsum(c.cost.eps for c in charges if isinstance(c.cost, Pure))
    else:
        spent = math.fsum(rho_between(one, other) for one, other in pairs)
        charged = math.fsum(charge.rho or 0.0 for charge in charges)
    return (spent / charged if charged else math.inf), len(pairs)
