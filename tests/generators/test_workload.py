"""Workloads and their candidates."""

from __future__ import annotations

import json

import pytest

from marginalsyn.errors import UsageError
from marginalsyn.generators.workload import Workload

DOMAIN = {"a": 2, "b": 3, "c": 5}


def test_upto_holds_all_marginals_of_that_order():
    assert Workload.upto(DOMAIN, 2).marginals == (("a", "b"), ("a", "c"), ("b", "c"))
    assert Workload.upto(DOMAIN, 9).marginals == (("a", "b", "c"),)


def test_candidates_are_the_downward_closure_with_the_weights_of_aim():
    load = Workload.of([["a", "b"], {"columns": ["c", "b"], "weight": 3}], DOMAIN)
    # w_r = sum over the workload of c_s |r & s|
    assert load.candidates(DOMAIN, 1e6) == {
        ("a",): 1,
        ("b",): 1 + 3,
        ("c",): 3,
        ("a", "b"): 2 + 3,
        ("b", "c"): 1 + 6,
    }


def test_candidates_leave_out_large_marginals_but_keep_their_parts():
    found = Workload.upto(DOMAIN, 3).candidates(DOMAIN, max_cells=10)
    assert ("a", "b", "c") not in found
    assert ("b", "c") not in found
    assert set(found) == {("a",), ("b",), ("c",), ("a", "b"), ("a", "c")}


def test_favour_multiplies_the_marginals_with_the_label():
    load = Workload.upto(DOMAIN, 2).favour(["c"], 4)
    assert load.weights == {("a", "b"): 1, ("a", "c"): 4, ("b", "c"): 4}
    assert load.favour([], 9) == load


def test_a_workload_file_is_read(tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps([["c", "a"], {"columns": ["b"], "weight": 2}]))
    assert Workload.read(path, DOMAIN).weights == {("a", "c"): 1.0, ("b",): 2.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be a readable JSON file"),
        ("{}", "must be a list of marginals"),
        ("[]", "must name one marginal or more"),
        ('["a"]', "must be a list of column names"),
        ('[["a", "z"]]', "'z' is not one"),
        ('[["a", "a"]]', "must name each column once"),
        ('[{"columns": ["a"], "weight": 0}]', "must be above zero"),
        ('[{"columns": ["a"], "weight": "x"}]', "must be above zero"),
    ],
)
def test_a_bad_workload_file_says_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        Workload.read(path, DOMAIN)


def test_a_missing_workload_file_and_a_bad_degree(tmp_path):
    with pytest.raises(UsageError, match="readable"):
        Workload.read(tmp_path / "none.json", DOMAIN)
    with pytest.raises(UsageError, match="degree"):
        Workload.upto(DOMAIN, 0)
