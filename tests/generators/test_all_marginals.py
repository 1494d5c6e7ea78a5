"""All marginals: exactly how many there are, their noise, and both ways to fit them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from marginalsyn.errors import UsageError
from marginalsyn.generators.all_marginals import AllMarginalsConfig
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.schema import Schema

DOMAIN = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 3}
SCHEMA = Schema.from_domain(DOMAIN)


def table(rows=3000):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, list(DOMAIN.values()), (rows, 5))
    codes[:, 3] = (codes[:, 0] + codes[:, 1] + (rng.random(rows) < 0.1)) % 2
    return pd.DataFrame(codes, columns=list(DOMAIN))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("degree", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_the_marginals_are_counted_exactly(columns, degree, neighbours):
    schema = SCHEMA.select(list(DOMAIN)[:columns])
    budget = Budget(eps=1, neighbours=neighbours)
    mechanism = AllMarginalsConfig(degree=degree).configure(schema, budget)
    count = sum(math.comb(columns, k) for k in range(1, degree + 1))
    assert len(set(mechanism.marginals)) == len(mechanism.marginals) == count
    l2_squared = 2 if neighbours is Neighbours.REPLACE else 1
    assert mechanism.sigma == pytest.approx(math.sqrt(count * l2_squared / (2 * budget.gaussian)))


@pytest.mark.parametrize("fit", ["pgm", "rows"])
def test_every_marginal_is_measured_once_with_the_same_noise_and_fitted(fit):
    options = {"degree": 3, "fit": fit, "steps": 200, "soft_rows": 200}
    done = run_generator(AllMarginalsConfig, table(), SCHEMA, options=options, eps=20)
    assert len(done.statement.payments) == done.statement.notes["marginals"] == 25
    assert len({p["sigma"] for p in done.statement.payments}) == 1
    assert done.statement.notes["fit"] == fit
    more = AllMarginalsConfig.sample(done.synthesis.model, SCHEMA, 3000, np.random.default_rng(1))
    for rows in (done.synthesis.frame, more):
        # d is nearly the parity of a and b, which no pair of columns shows.
        parity = ((rows["a"] + rows["b"]) % 2 == rows["d"]).mean()
        assert parity > 0.8


def test_an_unknown_fit_is_refused():
    with pytest.raises(UsageError, match=r"fit \(mbi\) must be auto, pgm or rows"):
        AllMarginalsConfig(fit="mbi").configure(SCHEMA, Budget(eps=1))
