"""``marginalsyn audit``: tries to break every guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.errors import UsageError
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Session,
    argument,
    option,
)
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins

if TYPE_CHECKING:
    from marginalsyn.plugins.audit.auditing import Finding
    from marginalsyn.plugins.audit.canaries import AuditCase
    from marginalsyn.plugins.audit.exact import Check
    from marginalsyn.plugins.audit.worst import Measured

MINUTES = 5.0
_runs = partial(option, panel="Runs")


@dataclass(frozen=True, kw_only=True)
class Audit(Operation["dict[str, Any]"]):
    """Try to break the guarantees of the installed methods.

    First, exact checks: noise distributions and sensitivities are computed and compared with their
    bounds, and what the answers cost on the worst known tables is compared with the claim. Then
    every method runs many times on two neighbouring tables; how well the runs can be distinguished
    proves a lower bound on its eps. The exit code is 1 if a bound exceeds a claim. No private table
    is needed.

    Passing proves nothing: a bound far below the claim only says that these runs found no more.

    Returns:
        What ``--json`` prints.
    """

    examples = """
    # everything that is installed, for ten minutes
    marginalsyn audit --minutes 10
    # two methods, at most 2,000 runs on each table
    marginalsyn audit aim beta-noised --runs 2000
    # exact checks alone
    marginalsyn audit --runs 0
    # one person with many rows more or less, rather than one row
    marginalsyn audit aim --unit person
    """

    methods: Sequence[str] = argument(
        (),
        "Generators and weight estimators, third-party ones included. [default=all that are "
        "installed]",
        nargs=-1,
        metavar="[METHOD]...",
        default=None,
    )
    minutes: float | None = _runs(
        None,
        "The time limit; the runs get what the exact checks leave over. "
        f"[default={MINUTES:g}, or no limit with --runs]",
        range=(0, None),
        min_open=True,
        metavar="M",
    )
    runs: int | None = _runs(
        None,
        "Run each method at most this often on each of two tables; 0 runs only the exact checks.",
        range=(0, None),
        metavar="N",
    )
    jobs: int | None = _runs(
        None,
        "The number of processes. [default=one per core]",
        range=(1, 256),
        metavar="N",
    )
    eps: float | None = _runs(
        None,
        "The eps to audit at. [default=1 for pure guarantees, 8 for others, where two tables are "
        "distinguished often but not always]",
        metavar="EPS",
    )
    neighbours: Literal["add-remove", "replace", "both"] = _runs(
        "add-remove", "Which tables to compare: with one row more, or with one row replaced."
    )
    unit: Literal["row", "person"] = _runs(
        "row",
        "What the tables differ by: a row, or a person with a dozen rows, a few of which are "
        "counted.",
    )
    confidence: float = _runs(
        0.99,
        "The confidence with which all bounds hold together.",
        range=(0.5, 1),
        max_open=True,
    )
    seed: int | None = _runs(
        None,
        "Draw the noise from this seed, so that the run can be repeated. Its distribution is the "
        "same.",
        range=(0, None),
        metavar="N",
    )
    out: str | Path | None = option(
        None, "Also write everything to this JSON file.", metavar="FILE"
    )

    def run(self, session: Session = PYTHON) -> Result[dict[str, Any]]:
        """Check, attack, and compare what was proved with what is claimed."""
        import json
        import time

        from marginalsyn.operations.files import write_text
        from marginalsyn.plugins.audit.auditing import audit
        from marginalsyn.plugins.audit.exact import run_checks
        from marginalsyn.plugins.audit.worst import measure

        started, persons, minutes = time.monotonic(), self.unit == "person", self.minutes
        cases, others = _cases(self.methods, self.neighbours, self.eps, persons)
        if minutes is None and self.runs is None:
            minutes = MINUTES
        with session.progress(None) as progress:
            measured = measure(self.methods, persons=persons, progress=progress)
            checks = run_checks(self.methods, progress, measured)
            if minutes is not None:
                minutes = max(minutes - (time.monotonic() - started) / 60, 0.0)
            found = [] if self.runs == 0 else audit(
                cases, minutes=minutes, runs=self.runs, jobs=self.jobs,
                confidence=self.confidence, seed=self.seed, progress=progress,
            )  # fmt: skip
        result = _result(measured, checks, found, others, self.confidence)
        if self.out is not None:
            text = json.dumps(result.value, indent=2, default=str, ensure_ascii=False)
            write_text(Path(self.out), text + "\n")
        return result


def _cases(
    methods: Sequence[str], neighbours: str, eps: float | None, persons: bool
) -> tuple[list[AuditCase], list[tuple[str, str]]]:
    """What to run, and the plugins that cannot be, with the reason."""
    from marginalsyn.plugins.audit.canaries import cases_of
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.privacy.zcdp import check_eps

    if eps is not None:
        check_eps(eps)
    chosen = list(Neighbours) if neighbours == "both" else [Neighbours(neighbours)]
    known = [*plugins(GENERATORS), *plugins(WEIGHTS)]
    for name in methods:
        if name not in {plugin.name for plugin in known}:
            listed = ", ".join(sorted({plugin.name for plugin in known}))
            raise UsageError(f"method ({name}) must be one of: {listed}")
    cases, others = [], []
    for plugin in known:
        if methods and plugin.name not in methods:
            continue
        if plugin.status != "ok":
            if methods:
                find(plugin.kind, plugin.name)  # says what is wrong
            others.append((plugin.name, f"{plugin.status}: {plugin.reason}"))
        else:
            cases += cases_of(plugin.kind, plugin.name, neighbours=chosen, eps=eps, persons=persons)
    return cases, others


def _result(
    measured: list[Measured],
    checks: list[Check],
    found: list[Finding],
    others: list[tuple[str, str]],
    confidence: float,
) -> Result[dict[str, Any]]:
    """What was found; the code is 1 where anything is broken or could not be audited."""
    from marginalsyn.plugins.audit.auditing import summarise

    rows = summarise(found)
    failed = [check for check in checks if not check.holds]
    broken = [row for row in rows if row.status == "BROKEN"]
    unrun = [row for row in rows if row.status == "failed"]
    whole = {
        "confidence": confidence,
        "broken": sorted({row.method for row in broken}),
        "failed": sorted({row.method for row in unrun}),
        "checks_failed": [check.name for check in failed],
        "not_audited": dict(others),
        "measured": [one.to_json() for one in measured],
        "checks": [check.to_json() for check in checks],
        "summary": [row.to_json() for row in rows],
        "cases": [finding.to_json() for finding in found],
    }
    text: list[Any] = [_check_table(checks)]
    text += ["", _measured_table(measured)] if measured else []
    text += ["", _row_table(rows, measured)] if rows else []
    warnings = [f"{name} was not audited: {reason}" for name, reason in others]
    scarce = sorted({row.method for row in rows if row.status == "too few runs"})
    if scarce:
        warnings.append(
            f"nothing can be said of {', '.join(scarce)} after so few runs: give more --minutes "
            "or name methods"
        )
    warnings += [f"{row.method} could not be run: {row.reason}" for row in unrun]
    notes = []
    if rows:
        notes.append(
            f"All bounds hold together with confidence {confidence:g}. A method that holds was not "
            "proved private: these runs proved no more against it."
        )
    if any(row.guarantee == "asymptotic" for row in rows):
        notes.append(
            "Asymptotic: the claim is about the law that a chain aims at; so is the comparison."
        )
    bad = len(failed) + len(broken) + len(unrun)
    if bad:
        warnings.append(
            f"{len(failed)} exact checks and {len(broken)} claims are broken, "
            f"{len(unrun)} methods could not be audited"
        )
    return Result(whole, whole, text, warnings, notes, code=1 if bad else 0)


def _check_table(checks: list[Check]) -> Columns:
    return Columns(
        ("exact check", "of", "number", "at most", "verdict"),
        [
            (
                check.name,
                ", ".join(check.methods) or "all",
                float(f"{check.value:.6g}"),
                check.bound,
                "holds" if check.holds else "BROKEN",
            )
            for check in checks
        ],
        right=("number", "at most"),
    )


def _measured_table(measured: list[Measured]) -> Columns:
    budgets = list(dict.fromkeys(one.eps for one in measured))
    lines: dict[tuple[str, ...], dict[float, float]] = {}
    for one in measured:
        line = (one.method, one.neighbours, one.currency, one.tables)
        lines.setdefault(line, {})[one.eps] = float(f"{one.share:.4g}")
    heads = [f"eps {eps:g}" for eps in budgets]
    return Columns(
        ("measured / claimed", "neighbours", "in", "worst tables", *heads),
        [(*line, *(shares.get(eps) for eps in budgets)) for line, shares in lines.items()],
        right=heads,
    )


def _row_table(rows: list[Finding], measured: list[Measured]) -> Columns:
    def verdict(row: Finding) -> str:
        law = row.status == "holds" and row.guarantee == "asymptotic"
        return "holds (asymptotic)" if law else row.status

    shares: dict[tuple[str, ...], float] = {}
    for one in measured:
        key = (one.group, one.method, one.neighbours)
        shares[key] = min(shares.get(key, one.share), one.share)

    def share(row: Finding) -> float | None:
        known = shares.get((row.group, row.method, row.neighbours))
        return None if known is None else float(f"{known:.3g}")

    return Columns(
        (
            "method",
            "kind",
            "neighbours",
            "claimed eps",
            "measured / claimed",
            "proved eps",
            "runs",
            "test",
            "verdict",
        ),
        [
            (
                row.method,
                "generator" if row.group == GENERATORS else "weights",
                row.neighbours if row.bound is not None else "",
                None if row.eps is None else float(f"{row.eps:.4g}"),
                share(row),
                None if row.bound is None else float(f"{row.bound:.4g}"),
                row.runs or None,
                f"{row.form}: {row.canary}" if row.bound is not None else row.reason,
                verdict(row),
            )
            for row in rows
        ],
        right=("claimed eps", "measured / claimed", "proved eps", "runs"),
    )
