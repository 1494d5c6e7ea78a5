"""``marginalsyn audit``: tries to break every guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.plugins.audit.auditing import Finding
    from marginalsyn.plugins.audit.canaries import AuditCase
    from marginalsyn.plugins.audit.exact import Check
    from marginalsyn.plugins.audit.exact_tape import Measured

MINUTES = 5.0
UNITS = ("row", "person")
RELATIONS = ("add-remove", "replace", "both")
_run_option = partial(click.option, panel="Runs")


@group.command(
    examples="""
    # everything that is installed, for ten minutes
    marginalsyn audit --minutes 10
    # two methods, at most 2,000 runs on each table
    marginalsyn audit aim beta-noised --runs 2000
    # exact checks alone
    marginalsyn audit --runs 0
    # one person with many rows more or less, rather than one row
    marginalsyn audit aim --unit person
    """,
)
@click.argument(
    "methods",
    nargs=-1,
    metavar="[METHOD]...",
    help="Generators and weight estimators, third-party ones included. [default=all that are "
    "installed]",
)
@_run_option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="M",
    help="The time limit; the runs get what the exact checks leave over. "
    f"[default={MINUTES:g}, or no limit with --runs]",
)
@_run_option(
    "--runs",
    type=click.IntRange(min=0),
    metavar="N",
    help="Run each method at most this often on each of two tables; 0 runs only the exact checks.",
)
@_run_option(
    "--jobs",
    type=click.IntRange(min=1, max=256),
    metavar="N",
    help="The number of processes. [default=one per core]",
)
@_run_option(
    "--eps",
    type=float,
    metavar="EPS",
    help="The eps to audit at. [default=1 for pure guarantees, 8 for others, where two tables are "
    "distinguished often but not always]",
)
@_run_option(
    "--neighbours",
    type=click.Choice(RELATIONS),
    default=RELATIONS[0],
    help="Which tables to compare: with one row more, or with one row replaced.",
)
@_run_option(
    "--unit",
    type=click.Choice(UNITS),
    default=UNITS[0],
    help="What the tables differ by: a row, or a person with a dozen rows, a few of which are "
    "counted.",
)
@_run_option(
    "--confidence",
    type=click.FloatRange(min=0.5, max=1, max_open=True),
    default=0.99,
    help="The confidence with which all bounds hold together.",
)
@options.seed(
    panel="Runs",
    help="Draw the noise from this seed, so that the run can be repeated. Its distribution is the "
    "same.",
)
@options.out(help="Also write everything to this JSON file.")
@options.quiet
@options.as_json
@click.pass_context
def audit(
    ctx: click.Context,
    methods: tuple[str, ...],
    minutes: float | None,
    runs: int | None,
    jobs: int | None,
    eps: float | None,
    neighbours: str,
    unit: str,
    confidence: float,
    seed: int | None,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Try to break the guarantees of the installed methods.

    First, exact checks: noise distributions and sensitivities are computed and compared with their
    bounds, and what the answers cost on the worst known tables is compared with the claim. Then
    every method runs many times on two neighbouring tables; how well the runs can be distinguished
    proves a lower bound on its eps. The exit code is 1 if a bound exceeds a claim. No private table
    is needed.

    Passing proves nothing: a bound far below the claim only says that these runs found no more.
    """
    notes = screen.Notes(quiet)
    persons = unit == "person"
    cases, others = _cases(methods, neighbours, eps, persons)
    if minutes is None and runs is None:
        minutes = MINUTES
    audited = _audit(
        methods, cases, notes, persons=persons,
        minutes=minutes, runs=runs, jobs=jobs, confidence=confidence, seed=seed,
    )  # fmt: skip
    ctx.exit(_show(*audited, others, confidence, notes, out, as_json))


def _cases(
    methods: Sequence[str], neighbours: str, eps: float | None, persons: bool
) -> tuple[list[AuditCase], list[tuple[str, str]]]:
    """What to run, and the plugins that cannot be, with the reason."""
    from marginalsyn.plugins.audit.canaries import cases_of
    from marginalsyn.privacy.charges import Neighbours
    from marginalsyn.privacy.zcdp import check_eps
    from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins

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


def _audit(
    methods: Sequence[str],
    cases: list[AuditCase],
    notes: screen.Notes,
    *,
    persons: bool,
    runs: int | None,
    minutes: float | None,
    **how: Any,
) -> tuple[list[Measured], list[Check], list[Finding]]:
    import time

    from marginalsyn.plugins.audit.auditing import audit as run_audit
    from marginalsyn.plugins.audit.exact import run_checks
    from marginalsyn.plugins.audit.exact_tape import measure

    started = time.monotonic()
    with notes.progress() as progress:
        measured = measure(methods, persons=persons, progress=progress)
        checks = run_checks(methods, progress, measured)
        if runs == 0:
            return measured, checks, []
        if minutes is not None:
            minutes = max(minutes - (time.monotonic() - started) / 60, 0.0)
        found = run_audit(cases, runs=runs, minutes=minutes, progress=progress, **how)
        return measured, checks, found


def _show(
    measured: list[Measured],
    checks: list[Check],
    found: list[Finding],
    others: list[tuple[str, str]],
    confidence: float,
    notes: screen.Notes,
    out: Path | None,
    as_json: bool,
) -> int:
    """Print what was found; 1 where anything is broken or could not be audited."""
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
    _write(whole, out)
    if as_json:
        screen.write_json(whole)
    else:
        _show_checks(checks)
        if measured:
            screen.write("")
            _show_measured(measured)
        if rows:
            screen.write("")
            _show_rows(rows, measured)
    for name, reason in others:
        notes.warn(f"{name} was not audited: {reason}")
    scarce = sorted({row.method for row in rows if row.status == "too few runs"})
    if scarce:
        notes.warn(
            f"nothing can be said of {', '.join(scarce)} after so few runs: give more --minutes "
            "or name methods"
        )
    for row in unrun:
        notes.warn(f"{row.method} could not be run: {row.reason}")
    if rows:
        notes.say(
            f"All bounds hold together with confidence {confidence:g}. A method that holds was not "
            "proved private: these runs proved no more against it."
        )
    if any(row.guarantee == "asymptotic" for row in rows):
        notes.say(
            "Asymptotic: the claim is about the law that a chain aims at; so is the comparison."
        )
    bad = len(failed) + len(broken) + len(unrun)
    if bad:
        notes.warn(
            f"{len(failed)} exact checks and {len(broken)} claims are broken, "
            f"{len(unrun)} methods could not be audited"
        )
    return 1 if bad else 0


def _show_checks(checks: list[Check]) -> None:
    screen.write_table(
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


def _show_measured(measured: list[Measured]) -> None:
    budgets = list(dict.fromkeys(one.eps for one in measured))
    lines: dict[tuple[str, ...], dict[float, float]] = {}
    for one in measured:
        line = (one.method, one.neighbours, one.currency, one.tables)
        lines.setdefault(line, {})[one.eps] = float(f"{one.share:.4g}")
    heads = [f"eps {eps:g}" for eps in budgets]
    screen.write_table(
        ("measured / claimed", "neighbours", "in", "worst tables", *heads),
        [(*line, *(shares.get(eps) for eps in budgets)) for line, shares in lines.items()],
        right=heads,
    )


def _show_rows(rows: list[Finding], measured: list[Measured]) -> None:
    from marginalsyn.plugins.audit.auditing import is_generator

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

    screen.write_table(
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
                "generator" if is_generator(row) else "weights",
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


def _write(whole: dict[str, Any], out: Path | None) -> None:
    import json

    from marginalsyn.operations.files import write_text

    if out is not None:
        write_text(out, json.dumps(whole, indent=2, default=str, ensure_ascii=False) + "\n")
