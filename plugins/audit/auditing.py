"""Audits mechanisms: the eps that runs prove, next to the eps that is claimed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from marginalsyn.contract import Duties
from marginalsyn.errors import MarginalsynError
from marginalsyn.plugins.audit.canaries import CANARIES, ODD_RECORD, AuditCase
from marginalsyn.plugins.audit.runs import Batch, extend, laboratory
from marginalsyn.plugins.audit.scoring import (
    FEWEST,
    Proof,
    forms_of,
    least_eps_of_guesses,
    prove_eps,
)
from marginalsyn.privacy.charges import covers
from marginalsyn.privacy.composition import Total, compose
from marginalsyn.privacy.gdp import eps_of_mu, mu_of
from marginalsyn.privacy.zcdp import eps_of, rho_of
from marginalsyn.progress import Progress, Silent

Status = Literal[
    "holds", "BROKEN", "too few runs", "refused", "failed", "no claim", "reads nothing"
]
CONFIDENCE = 0.99
GUESS_DELTA = 1e-7
"""At which delta a zCDP claim is tested by guesses: smaller ones cost eps, larger ones the rest."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the audit of one case found.

    Attributes:
        eps: what is claimed, with ``delta``.
        bound: the eps that the runs prove; above ``eps`` the claim is broken.
        form: in which terms the claim was tested.
        event: which event the bound rests on.
        runs: on each of the two tables.
    """

    method: str
    group: str
    neighbours: str
    canary: str
    eps: float | None = None
    delta: float | None = None
    guarantee: str = ""
    bound: float | None = None
    form: str = ""
    event: str = ""
    runs: int = 0
    status: Status
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON values; an infinite bound is a text."""
        found = asdict(self)
        if found["bound"] is not None and math.isinf(found["bound"]):
            found["bound"] = "infinite"
        return found


def audit(
    cases: Sequence[AuditCase],
    *,
    minutes: float | None = None,
    runs: int | None = None,
    jobs: int | None = None,
    confidence: float = CONFIDENCE,
    seed: int | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Finding]:
    """Run every case on its neighbouring tables and bound its eps from below.

    All bounds hold together with ``confidence``: each may be wrong with an equal share of the rest.
    The odd record gets more of the time than other tables, and mechanisms that need a framework of
    their own get more than others.

    Args:
        cases: what to audit; see :mod:`marginalsyn.plugins.audit.canaries`.
        minutes: of time for all; without limit if None.
        runs: the most on each table.
        jobs: processes; one a core if None, and 1 is this process.
        confidence: with which all bounds hold.
        seed: draws the noise from a seed, for a repeatable audit of the same law; by default the
            noise is what users get.
        progress: reports what happens.
        clock: seconds.

    Example:
        >>> from marginalsyn.plugins.audit.canaries import generator_cases
        >>> from marginalsyn.generators.independent import IndependentConfig
        >>> found = audit(generator_cases(IndependentConfig), runs=20, jobs=1)
        >>> len(found) > 0
        True
    """
    progress = progress or Silent()
    alpha = (1 - confidence) / max(len(cases), 1)
    end = math.inf if minutes is None else clock() + 60 * minutes
    # Quick ones first: what they leave of their time is the slow ones'.
    order = sorted(range(len(cases)), key=lambda number: _weight(cases[number]))
    left = math.fsum(_weight(case) for case in cases)
    findings = {}
    with laboratory(jobs) as lab:
        for done, number in enumerate(order):
            case, now = cases[number], clock()
            progress.report("audit", fraction=done / len(cases), text=_title(case))
            claim, batch = _claim(case), Batch()
            if claim.status == "too few runs":
                share = _weight(case) / left
                until = now + max(end - now, 0.0) * share if math.isfinite(end) else end
                extend(batch, case, lab, seed=seed, runs=runs, until=until, clock=clock)
                claim = _conclude(case, claim, batch, alpha)
            findings[number] = claim
            left -= _weight(case)
    return [findings[number] for number in range(len(cases))]


def _weight(case: AuditCase) -> int:
    """The case's share of the time: what needs a framework of its own takes long to run."""
    first = case.canary == ODD_RECORD
    return (4 if first else 3) if Duties(case.kind).requires else (2 if first else 1)


def _claim(case: AuditCase) -> Finding:
    """The case with what it claims, before any run."""
    bare = Finding(
        method=case.kind.name,
        group=case.group,
        neighbours=case.relation,
        canary=case.canary,
        status="no claim",
    )
    if not Duties(case.kind).private:
        return replace(bare, reason="not private, and never published")
    if not Duties(case.kind).reads:
        return replace(bare, eps=0.0, delta=0.0, status="reads nothing")
    try:
        total = _total(case)
    except MarginalsynError as error:
        return replace(bare, status="refused", reason=str(error).splitlines()[0])
    except Exception as error:
        return replace(bare, status="failed", reason=type(error).__name__)
    if not tuple(case.mechanism.cost):
        return replace(bare, eps=0.0, delta=0.0, status="reads nothing")
    return replace(
        bare,
        eps=total.eps,
        delta=total.delta,
        guarantee=total.guarantee,
        status="too few runs",
    )


def _total(case: AuditCase) -> Total:
    return compose(tuple(case.mechanism.cost), case.delta, case.neighbours)


def _conclude(case: AuditCase, claim: Finding, batch: Batch, alpha: float) -> Finding:
    """Compare the bound that a batch proves with the claim."""
    sides = 1 if case.one_run else 2
    if batch.failed and batch.failed >= sides * batch.runs:
        return replace(claim, status="failed", reason=batch.reason, runs=batch.runs)
    total = _total(case)
    if case.one_run:
        bound, form, event = _guessed(batch, total, alpha)
        enough = batch.guesses > 0
    else:
        payments = [{"mechanism": name} for name in batch.mechanisms]
        forms = forms_of(tuple(case.mechanism.cost), case.delta, case.neighbours, payments)
        bound, form, event = prove_eps(*batch.observations, forms, alpha=alpha)
        enough = batch.runs >= FEWEST
    assert claim.eps is not None
    broken = not covers(claim.eps, bound)
    status: Status = "BROKEN" if broken else "holds" if enough else "too few runs"
    return replace(
        claim, bound=bound, form=form, event=event, runs=batch.runs, status=status,
        reason=batch.reason,
    )  # fmt: skip


def _guessed(batch: Batch, total: Total, alpha: float) -> Proof:
    """The bound of right guesses (Steinke, Nasr and Jagielski 2023), in the claim's own terms."""
    canaries = CANARIES * batch.runs
    event = f"{batch.right} of {batch.guesses} guesses right"
    concentrated = total.delta > 0 and total.rho is not None
    delta = GUESS_DELTA if concentrated else total.delta
    eps = least_eps_of_guesses(canaries, batch.guesses, batch.right, delta=delta, alpha=alpha)
    if concentrated and eps > 0:
        if total.mu is not None:
            eps = eps_of_mu(mu_of(eps, delta), total.delta)
        else:
            eps = eps_of(rho_of(eps, delta), total.delta)
    return Proof(eps, "one run", event)


def summarise(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for each method and relation: the worst, with the sum of its runs."""
    order: list[Status] = ["BROKEN", "failed", "holds", "too few runs", "refused"]
    rank = {status: place for place, status in enumerate(order)}
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        relation = "" if finding.status in ("no claim", "reads nothing") else finding.neighbours
        groups.setdefault((finding.group, finding.method, relation), []).append(finding)
    rows = []
    for parts in groups.values():
        parts.sort(key=lambda f: (rank.get(f.status, 9), -(f.bound or 0.0)))
        # A table that a method refuses, by public knowledge alone, says nothing against it.
        rows.append(replace(parts[0], runs=sum(part.runs for part in parts)))
    return rows


def _title(case: AuditCase) -> str:
    return f"{case.kind.name}, {case.relation}, {case.canary}"
