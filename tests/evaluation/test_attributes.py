"""Attribute disclosure: copies give away what was seen, honest rows only what holds of anybody."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Schema, evaluate
from marginalsyn.errors import UsageError
from marginalsyn.plugins.reports.attributes_report import _guesses
from marginalsyn.table.design import CodedRows

SCHEMA = Schema.from_domain({"a": 30, "b": 30, "c": 30, "d": 4, "y": 2}).model_copy(
    update={"label": "y"}
)


def rows(seed: int, count: int = 300) -> pd.DataFrame:
    """Three columns that tell nothing, and two that tell of each other."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({n: rng.integers(0, s, count) for n, s in SCHEMA.domain.items()})
    frame["y"] = np.where(rng.random(count) < 0.9, frame["d"] % 2, frame["y"])
    return frame


def report(synthetic: pd.DataFrame) -> dict[str, dict[str, float]]:
    found = evaluate(synthetic, rows(2), SCHEMA, train=rows(1), reports=["attributes"])
    (block,) = found.reports["attributes"].values()
    return {line["column"]: line for line in block["variants"][-1]["columns"]}


def test_copies_give_away_what_was_seen_and_fresh_rows_do_not() -> None:
    copied, fresh = report(rows(1)), report(rows(3, 600))
    assert copied["d"]["beyond"] > 4 * copied["d"]["se"] > 0
    for name in SCHEMA.names:
        assert abs(fresh[name]["beyond"]) < 5 * fresh[name]["se"] + 1e-9
    # What holds of anybody: y follows from d.
    assert fresh["y"]["unseen"] > fresh["y"]["most_common"]


def test_guesses_against_a_search_by_hand() -> None:
    rng = np.random.default_rng(0)
    schema = Schema.from_domain({"a": 5, "b": 3, "y": 2})
    frame = pd.DataFrame({n: rng.integers(0, s, 40) for n, s in schema.domain.items()})
    table = CodedRows.of(frame, schema, rng.random(40) + 0.5)
    targets = CodedRows.of(frame.sample(20, random_state=1), schema)
    found = _guesses(targets, table, rng)
    agreed = 0
    for i in range(20):
        for at in range(3):
            others = [c for c in range(3) if c != at]
            gaps = np.abs(targets.units[i, others] - table.units[:, others]).sum(axis=1)
            cut = np.sort(gaps)[4]
            sure, tied = gaps < cut - 1e-6, np.abs(gaps - cut) <= 1e-6
            least = np.bincount(table.codes[sure, at], table.masses[sure], minlength=5)
            most = least + np.bincount(table.codes[tied, at], table.masses[tied], minlength=5)
            assert most[found[i, at]] >= least.max() - 1e-9
            agreed += 1
    assert agreed == 60


def test_unseen_rows_are_needed() -> None:
    with pytest.raises(UsageError, match="--holdout"):
        evaluate(rows(3), rows(2), SCHEMA, reports=["attributes"])
