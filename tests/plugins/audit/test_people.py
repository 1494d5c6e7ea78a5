"""``audit --unit person``: neighbours that differ by a person with many rows.

Taken for granted, and tested: the odd person has more rows than are counted; claims that hold reach
what they claim and no more; a bound on rows that is not enforced, or weights that are not shared,
are caught, by exact numbers and by runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from marginalsyn import Neighbours
from marginalsyn.plugins.audit.auditing import audit
from marginalsyn.plugins.audit.canaries import (
    COUNTED,
    MANY,
    ODD_RECORD,
    cases_of,
    one_row_each,
    tables_of_persons,
)
from marginalsyn.plugins.audit.exact import person_counts
from marginalsyn.plugins.audit.runs import _bench
from marginalsyn.plugins.audit.worst import measure
from marginalsyn.registry import GENERATORS
from marginalsyn.sources import persons


def odd_case(method: str = "independent", **how: Any) -> Any:
    cases = cases_of(GENERATORS, method, neighbours=[Neighbours.ADD_REMOVE], persons=True, **how)
    return next(case for case in cases if case.canary == ODD_RECORD)


def shared_by_nobody(most: int) -> np.ndarray:
    """The weights of a table of rows: each row of a person weighs one."""
    return np.full(2 * (most + 1), persons.WHOLE, dtype=np.int64)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_tables_differ_by_a_person_with_more_rows_than_are_counted(relation: Neighbours) -> None:
    case = next(
        c for c in cases_of(GENERATORS, "independent", persons=True) if c.neighbours is relation
    )
    one, other = tables_of_persons(case.tables, relation)
    sizes = [frame.groupby("person").size() for frame in (one, other)]
    assert sizes[1].max() == MANY > COUNTED
    shared = set(sizes[0].index) & set(sizes[1].index)
    assert all(sizes[0][who] == sizes[1][who] for who in shared - {"odd"})
    assert len(sizes[1]) - len(sizes[0]) == (relation is Neighbours.ADD_REMOVE)
    told = one_row_each(other, case.public)
    assert sorted(told["rows_of_person"])[-1] == COUNTED
    assert len(told) == len(sizes[1])


def test_claims_for_persons_are_reached_and_not_passed() -> None:
    found = measure(["independent", "histogram", "rake"], budgets=(1.0,), persons=True)
    assert len(found) == 6
    for one in found:
        assert 0.97 < one.share <= 1 + 1e-6
        assert "persons" in one.neighbours


def test_rows_that_do_not_share_their_weight_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert next(person_counts()).holds
    monkeypatch.setattr(persons, "weights", shared_by_nobody)
    (found,) = measure(["independent"], budgets=(1.0,), persons=True)[:1]
    # Each of so many rows counts whole: the shift of the Gaussian is as many times too large.
    assert found.share == pytest.approx(COUNTED, rel=1e-6)
    check = next(person_counts())
    assert not check.holds
    assert check.value == pytest.approx(7)


@pytest.mark.slow
def test_runs_tell_a_person_apart_where_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: dict[str, Any] = {"runs": 60, "jobs": 1, "seed": 1}
    (fine,) = audit([odd_case()], **runs)
    assert fine.status == "holds", fine
    assert fine.neighbours == "add-remove, persons"
    monkeypatch.setattr(persons, "weights", shared_by_nobody)
    _bench.cache_clear()  # which holds the rows with their weights
    (broken,) = audit([odd_case()], **runs)
    _bench.cache_clear()
    assert broken.status == "BROKEN", broken


def test_what_bounds_rows_only_is_refused_and_not_run() -> None:
    (found,) = audit([odd_case("support-points")], runs=2, jobs=1)
    assert (found.status, found.runs) == ("refused", 0)
    assert "cannot protect persons" in found.reason


@pytest.mark.slow
def test_the_command_audits_persons(run: Callable[..., Any]) -> None:
    asked = ("audit", "independent", "--unit", "person", "--runs", "20", "--jobs", "1", "--json")
    told = json.loads(run(*asked).stdout)
    assert {row["neighbours"] for row in told["summary"]} == {"add-remove, persons"}
    assert {one["neighbours"] for one in told["measured"]} > {"replace, persons"}
