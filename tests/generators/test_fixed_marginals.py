"""Fixed marginals: the user's list, weights, and what happens where it is too large."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn.errors import UsageError
from marginalsyn.generators.fixed_marginals import FixedMarginalsConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 8, "b": 8, "c": 8, "d": 2}
SCHEMA = Schema.from_domain(DOMAIN).model_copy(update={"label": "d"})
FRAME = pd.DataFrame(
    np.random.default_rng(0).integers(0, list(DOMAIN.values()), (300, 4)), columns=list(DOMAIN)
)


@pytest.fixture
def listed(tmp_path):
    def write(items):
        path = tmp_path / "marginals.json"
        path.write_text(json.dumps(items), encoding="utf-8")
        return str(path)

    return write


def test_without_a_label_there_must_be_a_list():
    plain = Schema.from_domain(DOMAIN)
    with pytest.raises(UsageError, match="--marginals, or a label"):
        run_generator(FixedMarginalsConfig, FRAME, plain)


def test_a_list_that_is_too_large_is_refused_before_anything_is_spent(listed):
    options = {"marginals": listed([["a", "b", "c"]]), "max_model_mb": 0.001, "merge": 0}
    with pytest.raises(UsageError, match=r"max_model_mb \(0.001\) must be 1 or more"):
        run_generator(FixedMarginalsConfig, FRAME, SCHEMA, options=options)


def test_what_stays_too_large_after_merging_is_left_out_and_told(listed):
    items = [["a", "b", "c"], {"columns": ["a", "d"], "weight": 0.5}]
    options = {"marginals": listed(items), "max_model_mb": 0.001}
    done = run_generator(FixedMarginalsConfig, FRAME, SCHEMA, options=options, eps=20)
    assert done.statement.notes["measured"] == [["a", "d"]]
    assert any("1 marginal(s) were not measured" in text for text in done.statement.warnings)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([["a", "zzz"]], "'zzz' is not one"),
        ([["a", "a"]], "must name each column once"),
        ([{"columns": ["a"], "weight": 0}], "must be above zero"),
        ([], "must name one marginal or more"),
        ({"a": 1}, "must be a list of marginals"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(listed, items, message):
    with pytest.raises(UsageError, match=message):
        run_generator(FixedMarginalsConfig, FRAME, SCHEMA, options={"marginals": listed(items)})
