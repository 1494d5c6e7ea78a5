"""Workloads and their candidates."""

from __future__ import annotations

import pytest

from marginalsyn.errors import UsageError
from marginalsyn.generators.workload import Workload

DOMAIN = {"a": 2, "b": 3, "c": 5}


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
