"""The kit's one entry point: it tells the kinds apart, runs every check and names what failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from marginalsyn.contract import option
from marginalsyn.evaluation.reports import Report
from marginalsyn.evaluation.view import Table
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.plugins.audit.testkit.generators import GENERATOR_CHECKS
from marginalsyn.plugins.audit.testkit.plugin import check_plugin, checks_of
from marginalsyn.plugins.audit.testkit.weights import WEIGHT_CHECKS
from marginalsyn.registry import REPORTS, WEIGHTS, find


def test_a_generator_passes() -> None:
    check_plugin(IndependentConfig)


@pytest.mark.parametrize("name", ["privacy", "marginals", "distances"])
def test_a_report_passes(name: str) -> None:
    check_plugin(find(REPORTS, name))


def test_each_kind_has_all_of_its_checks() -> None:
    """What is left out could not fail."""
    generator = [name for name, _ in checks_of(IndependentConfig, runs=1)]
    assert generator == [
        *(check.__name__ for check in GENERATOR_CHECKS),
        "check_generator_on_tape",
        "check_generator_bits",
        "check_audit",
    ]
    estimator = [name for name, _ in checks_of(find(WEIGHTS, "beta-noised"), runs=1)]
    assert estimator == [
        *(check.__name__ for check in WEIGHT_CHECKS),
        "check_weights_on_tape",
        "check_weight_bits",
        "check_weight_audit",
    ]
    # What protects nobody is not held to a privacy claim.
    research = [name for name, _ in checks_of(find(WEIGHTS, "logreg"), runs=1)]
    assert research == [check.__name__ for check in WEIGHT_CHECKS]


@dataclass(frozen=True, kw_only=True)
class Nameless(IndependentConfig):
    name: ClassVar[str] = "Not Kebab"
    size: int = option(1, "A size.")


class Ragged(Report):
    name, title, summary = "ragged", "Ragged", "a table whose rows differ in length"

    def compute(self, case: Any, ground: Any, options: Any, progress: Any) -> Any:
        return {"rows": 1}

    def show(self, blocks: Any, combined: Any = None) -> Any:
        return [Table(("a", "b"), [("1",)])]


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Nameless, "check_config: name must be in kebab-case"), (Ragged, "check_report: the rows")],
)
def test_a_failure_names_the_check(kind: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=f"^{said}"):
        check_plugin(kind)
