"""Clique tree: one look at all errors, a choice within the size limit, one round."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn.errors import UsageError
from marginalsyn.generators.clique_tree import CliqueTreeConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.schema import Schema

DOMAIN = dict.fromkeys("abcdef", 6)
SCHEMA = Schema.from_domain(DOMAIN).model_copy(update={"label": "f"})


def table(rows=4000):
    """Three pairs of columns: copies with noise."""
    rng = np.random.default_rng(0)
    frame = {}
    for a, b in ("ab", "cd", "ef"):
        frame[a] = rng.integers(0, 6, rows)
        frame[b] = np.where(rng.random(rows) < 0.7, frame[a], rng.integers(0, 6, rows))
    return pd.DataFrame(frame)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_judging_is_calibrated_to_all_candidates_at_once(neighbours):
    budget = Budget(eps=1, neighbours=neighbours)
    tree = CliqueTreeConfig().configure(SCHEMA, budget)
    moved = neighbours.l1 * math.sqrt(15)
    assert tree.judge_sigma(15) == pytest.approx(moved / math.sqrt(2 * 0.1 * budget.gaussian))
    done = run_generator(CliqueTreeConfig, table(500), SCHEMA, neighbours=neighbours)
    (paid,) = [p for p in done.statement.payments if p["purpose"].startswith("l1")]
    assert paid["rho"] == pytest.approx(0.1 * budget.gaussian)
    assert paid["sigma"] == tree.judge_sigma(15)
    assert paid["cells"] == 15


def test_shares_must_leave_something_to_measure():
    with pytest.raises(UsageError, match="must add up to less than 1"):
        CliqueTreeConfig(one_way_share=0.5, select_share=0.5)
