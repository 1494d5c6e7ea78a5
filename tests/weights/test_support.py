"""What no weights can do: rows that are missing, by counts and by a model's pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Schema
from marginalsyn.contract import Measurement
from marginalsyn.graphical.compression import identity
from marginalsyn.graphical.model import Fitted
from marginalsyn.table.codec import Codec
from marginalsyn.weights.support import find_support

DOMAIN = {"a": 4, "b": 4, "c": 2}
SCHEMA = Schema.from_domain(DOMAIN)


def frame(codes: np.ndarray) -> pd.DataFrame:
    return Codec(SCHEMA).conform(pd.DataFrame(codes, columns=list(DOMAIN)))


def chain(rng: np.random.Generator) -> Fitted:
    """a and b both depend on c, and on nothing else."""
    tables = {("a", "c"): rng.normal(size=(4, 2)), ("b", "c"): rng.normal(size=(4, 2))}
    return Fitted.of_potentials(DOMAIN, tables, 4000)


def test_the_share_of_missing_rows_is_found() -> None:
    rng = np.random.default_rng(0)
    fitted = chain(rng)
    counts = fitted.marginal(("a", "b"))
    lost = counts[2].sum() / 4000
    noisy = Measurement(columns=("a", "b"), values=counts + 2 * rng.normal(size=(4, 4)), sigma=2.0)
    codes = fitted.rows(4000, rng)
    found = find_support(frame(codes[codes[:, 0] != 2]), SCHEMA, [noisy])
    assert found is not None
    assert found.lacking
    assert found.columns == ("a", "b")
    assert found.share == pytest.approx(lost, abs=0.01)
    assert f"{found.share:.1%}" in found.line()
    whole = find_support(frame(codes), SCHEMA, [noisy])
    assert whole is not None
    assert not whole.lacking


def test_a_sampler_that_sorts_is_caught_by_pairs_that_nobody_measured() -> None:
    """Within every group of c, a and b are independent in the model; sorted rows tie them."""
    rng = np.random.default_rng(1)
    fitted = chain(rng)
    codes = fitted.rows(4000, rng)
    sorted_rows = codes.copy()
    for group in range(2):
        inside = np.flatnonzero(codes[:, 2] == group)
        for column in (0, 1):
            sorted_rows[inside, column] = np.sort(codes[inside, column])
    measured = [
        Measurement(columns=pair, values=fitted.marginal(pair), sigma=1.0)
        for pair in (("a", "c"), ("b", "c"))
    ]
    model = (fitted, identity(DOMAIN))
    by_counts = find_support(frame(sorted_rows), SCHEMA, measured)
    assert by_counts is not None
    assert not by_counts.lacking
    found = find_support(frame(sorted_rows), SCHEMA, measured, model)
    assert found is not None
    assert found.lacking
    assert found.columns == ("a", "b")
    gone = np.ones((4, 4), dtype=bool)
    gone[sorted_rows[:, 0], sorted_rows[:, 1]] = False
    assert found.share == pytest.approx(fitted.marginal(("a", "b"))[gone].sum() / 4000, abs=0.01)
    faithful = find_support(frame(codes), SCHEMA, measured, model)
    assert faithful is not None
    assert not faithful.lacking
    # Few rows leave cells empty, though nothing is wrong with how they were drawn.
    few = find_support(frame(fitted.rows(12, rng)), SCHEMA, [], model)
    assert few is not None
    assert not few.lacking
