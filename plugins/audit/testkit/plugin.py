"""The test kit's one entry point: it finds out what kind of plugin a class is and runs all checks.

With pytest::

    from marginalsyn.plugins.audit.testkit.plugin import check_plugin
    from my_package import MyConfig

    def test_contract():
        check_plugin(MyConfig)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from marginalsyn.contract import Duties, plain
from marginalsyn.evaluation.inputs import make_case, make_ground
from marginalsyn.evaluation.reports import Report
from marginalsyn.evaluation.view import Page, Section, render
from marginalsyn.plugins.audit.testkit.generators import (
    GENERATOR_CHECKS,
    Options,
    check_audit,
    example_frame,
    example_schema,
)
from marginalsyn.plugins.audit.testkit.lowest_bits import check_generator_bits, check_weight_bits
from marginalsyn.plugins.audit.testkit.tape import (
    OF_CHAINS,
    check_generator_on_tape,
    check_weights_on_tape,
)
from marginalsyn.plugins.audit.testkit.weights import WEIGHT_CHECKS, check_weight_audit
from marginalsyn.progress import Silent

Check = Callable[[], None]


def check_plugin(kind: Any, options: Options = None, *, chain: bool = False, runs: int = 0) -> None:
    """Run every check of the contract on a plugin, whichever kind it is.

    Args:
        kind: the class of a generator's or a weight estimator's config, or of a report.
        options: of the config, to make runs quick.
        chain: the output is the end of a Markov chain on the rows, whose law depends on them: its
            rows may differ between two tables, and its cost is not to be seen on a tape.
        runs: of the audit, on each of two worst-case tables; 0 leaves it out, 300 take seconds.

    Raises:
        AssertionError: it begins with the name of the check that failed.

    Example:
        >>> from marginalsyn.plugins.reports.privacy_report import PrivacyReport
        >>> check_plugin(PrivacyReport)
    """
    for name, check in checks_of(kind, options, chain=chain, runs=runs):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def checks_of(
    kind: Any, options: Options = None, *, chain: bool = False, runs: int = 0
) -> Iterator[tuple[str, Check]]:
    """The checks that :func:`check_plugin` runs, by name."""

    if isinstance(kind, type) and issubclass(kind, Report):
        yield "check_report", partial(check_report, kind)
        return
    estimator = not hasattr(kind, "sample")
    for check in WEIGHT_CHECKS if estimator else GENERATOR_CHECKS:
        yield check.__name__, partial(check, kind, options)
    if not Duties(kind).private:
        return
    if estimator:
        yield "check_weights_on_tape", partial(check_weights_on_tape, kind, options)
        yield "check_weight_bits", partial(check_weight_bits, kind, options)
    else:
        drawn = OF_CHAINS if chain else ()
        yield (
            "check_generator_on_tape",
            partial(check_generator_on_tape, kind, options, chain=chain),
        )
        yield "check_generator_bits", partial(check_generator_bits, kind, options, drawn=drawn)
    if runs:
        audit = check_weight_audit if estimator else check_audit
        yield audit.__name__, partial(audit, kind, options, runs=runs)


def check_report(kind: Any) -> None:
    """A report's blocks are JSON, and what it shows is made of them alone, and can be drawn."""
    from marginalsyn.evaluation.reports import Fact, Options

    for name in ("name", "title", "summary"):
        assert isinstance(getattr(kind, name, None), str), f"{name} must be a text"
    schema, options = example_schema(), Options(repeats=1)
    warnings: list[str] = []
    ground = make_ground(
        schema,
        None,
        example_frame(60, 1),
        example_frame(60, 2),
        options,
        in_sample=False,
        warnings=warnings,
    )
    case = make_case("synthetic", example_frame(60), schema, None, warnings)
    report = kind()
    block = report.compute(case, ground, options, Silent())
    if block is None:
        return
    blocks = {case.name: json.loads(json.dumps(plain(block), allow_nan=False))}
    shown = Section(report.name, report.title, list(report.show(blocks)))
    page = Page(title="", stamp="", private=True, lead=(), sections=[shown], foot="")
    assert "</html>" in render(page), "show must give texts, notes, tables and charts"
    assert all(isinstance(fact, Fact) for fact in report.facts(blocks[case.name]))
    table = report.brief(blocks)
    widths = {len(row) for row in (table.head, *table.rows)} if table is not None else set()
    assert len(widths) <= 1, "the rows of a table must be as long as its head"
