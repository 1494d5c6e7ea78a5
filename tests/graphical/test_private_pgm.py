"""Fits and answers by mbi, whichever version is installed, against our own."""

from __future__ import annotations

import builtins
import itertools
from typing import Any

import numpy as np
import pytest

from marginalsyn.contract import Measurement
from marginalsyn.errors import MissingExtraError, UsageError
from marginalsyn.generators.aim import AIMConfig
from marginalsyn.graphical.model import Fitted, fit
from marginalsyn.graphical.private_pgm import fit_mbi

DOMAIN = {"a": 3, "b": 2, "c": 4}
PAIRS = list(itertools.permutations(DOMAIN, 2))


def measured(seed: int = 0) -> list[Measurement]:
    """Two pairs of a table of 500 rows; the noise of one differs from cell to cell."""
    rng = np.random.default_rng(seed)
    table = 500 * rng.dirichlet(np.ones(24)).reshape(3, 2, 4)
    spread = rng.uniform(0.5, 4, (2, 3))
    return [
        Measurement(("b", "a"), table.sum(2).T + spread * rng.normal(size=(2, 3)), spread),
        Measurement(("b", "c"), table.sum(0) + 2 * rng.normal(size=(2, 4)), 2.0),
    ]


@pytest.fixture(scope="module")
def theirs() -> Fitted:
    pytest.importorskip("mbi")
    return fit_mbi(DOMAIN, measured(), 500, iters=2000)


def test_cells_of_differing_noise_are_fitted_as_we_do(theirs: Fitted) -> None:
    ours = fit(DOMAIN, measured(), total=500, tolerance=1e-8, max_iters=20_000)
    assert ours.loss <= theirs.loss * (1 + 1e-4)
    for pair in PAIRS:
        np.testing.assert_allclose(ours.marginal(pair), theirs.marginal(pair), atol=0.5)


def test_its_answers_are_those_of_the_tables_that_rows_are_drawn_from(theirs: Fitted) -> None:
    again = Fitted.from_arrays(*theirs.arrays())
    for query in [*PAIRS, ("c",), ("a", "c", "b"), ()]:
        np.testing.assert_allclose(theirs.marginal(query), again.marginal(query), atol=1e-6)
    rows = theirs.rows(100_000, np.random.default_rng(0))
    for pair in itertools.combinations(range(3), 2):
        names = [list(DOMAIN)[j] for j in pair]
        counts = np.zeros([DOMAIN[n] for n in names])
        np.add.at(counts, tuple(rows[:, pair].T), 1 / 200)
        assert np.abs(counts - theirs.marginal(names)).sum() < 10


def test_a_warm_start_reaches_the_same_optimum(theirs: Fitted) -> None:
    first = fit_mbi(DOMAIN, measured()[:1], 500, iters=50)
    warm = fit_mbi(DOMAIN, measured(), 500, iters=2000, warm=first)
    assert warm.loss == pytest.approx(theirs.loss, rel=1e-3)


def test_who_fits_is_a_public_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="estimator"):
        AIMConfig(estimator="pgmpy")
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "mbi":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match="mbi"):
        AIMConfig(estimator="mbi")
