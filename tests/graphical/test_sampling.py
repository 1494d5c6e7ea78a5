"""Rows drawn from a model against the model's own marginals: all pairs, and triples."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib import metadata

import numpy as np
import pytest
from scipy import stats

from marginalsyn.contract import Measurement
from marginalsyn.graphical.model import Fitted, fit
from marginalsyn.graphical.sampling import _group_keys, round_groups, spread_values

DOMAIN = {"a": 12, "b": 3, "c": 9, "d": 4, "e": 6, "f": 2}
TREE = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e")]
LOOP = [*TREE, ("d", "e"), ("a", "d"), ("e", "f")]
ROWS = 20_000


def make_model(cliques: Sequence[tuple[str, str]]) -> Fitted:
    """Strongly dependent measured pairs, so that a wrong conditional shows."""
    rng = np.random.default_rng(11)
    measurements = []
    for pair in cliques:
        values = rng.gamma(0.5, size=tuple(DOMAIN[c] for c in pair))
        measurements.append(Measurement(pair, values * ROWS / values.sum(), 200.0))
    return fit(DOMAIN, measurements, total=ROWS)


def excess(codes: np.ndarray, expected: Mapping[tuple[str, ...], np.ndarray]) -> float:
    """The largest chi-square statistic over its critical value at alpha 1e-6 in all."""
    names = list(DOMAIN)
    worst = 0.0
    for columns, values in expected.items():
        index = tuple(codes[:, names.index(c)] for c in columns)
        observed = np.bincount(np.ravel_multi_index(index, values.shape), minlength=values.size)
        large = values.ravel() >= 5
        seen = np.append(observed[large], observed[~large].sum())
        mean = np.append(values.ravel()[large], values.ravel()[~large].sum())
        keep = mean >= 1
        statistic = float(np.sum((seen[keep] - mean[keep]) ** 2 / mean[keep]))
        critical = stats.chi2.isf(1e-6 / len(expected), max(1, keep.sum() - 1))
        worst = max(worst, statistic / critical)
    return worst


def expected(model: Fitted) -> dict[tuple[str, ...], np.ndarray]:
    pairs = list(itertools.combinations(DOMAIN, 2))
    triples = list(itertools.combinations(DOMAIN, 3))[::2]
    return model.marginals([*pairs, *triples])


@pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])
def test_rows_follow_the_model_on_all_pairs_and_triples(cliques: list[tuple[str, str]]) -> None:
    model = make_model(cliques)
    codes = model.rows(ROWS, np.random.default_rng(2))
    assert codes.shape == (ROWS, len(DOMAIN))
    assert codes.dtype == np.int32
    assert excess(codes, expected(model)) < 1
    # rows drawn from the columns' own marginals, each independent, do not pass
    shuffled = np.column_stack(
        [np.random.default_rng(i).permutation(c) for i, c in enumerate(codes.T)]
    )
    assert excess(shuffled, expected(model)) > 1


def test_the_same_test_rejects_rows_that_are_not_permuted_within_groups() -> None:
    """mbi 1.1 gives a group its values in row order: independent columns come out comonotone."""
    mbi = pytest.importorskip("mbi")
    broken = metadata.version("mbi").startswith("1.")
    model = make_model(TREE)
    potentials = {c: mbi.Factor(mbi.Domain(c, p.shape), p) for c, p in model.potentials.items()}
    vector = mbi.CliqueVector(mbi.Domain.fromdict(DOMAIN), list(potentials), potentials)
    marginals = mbi.marginal_oracles.message_passing_stable(vector, ROWS)
    theirs = mbi.MarkovRandomField(potentials=vector, marginals=marginals, total=ROWS)
    state = np.random.get_state()  # noqa: NPY002
    try:
        data = theirs.synthetic_data(ROWS).to_dict()
    finally:
        np.random.set_state(state)  # noqa: NPY002
    codes = np.column_stack([np.asarray(data[name]) for name in DOMAIN])
    found = excess(codes, expected(model))
    assert found > 10 if broken else found < 1


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows(n: int) -> None:
    assert make_model(LOOP).rows(n, np.random.default_rng(0)).shape == (n, len(DOMAIN))


def test_rounding_is_unbiased_and_keeps_sums() -> None:
    rng = np.random.default_rng(4)
    weights = np.array([[0.1, 0.0, 0.25, 0.65], [3.0, 1.0, 1.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
    counts = np.array([3, 7, 5])
    repeats = 20_000
    drawn = round_groups(np.tile(weights, (repeats, 1)), np.tile(counts, repeats), rng)
    assert np.all(drawn.sum(axis=1) == np.tile(counts, repeats))
    drawn = drawn.reshape(repeats, 3, 4)
    mean = weights / weights.sum(axis=1, keepdims=True) * counts[:, None]
    assert np.all(np.abs(drawn - mean) < 1)
    assert np.all(drawn[:, mean == 0] == 0)
    # a cell's variance is at most 1/4: five standard errors and more
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5.5 * 0.5 / np.sqrt(repeats)


def test_every_row_of_a_group_is_as_likely_to_take_a_value() -> None:
    rng = np.random.default_rng(9)
    repeats, copies = 20_000, np.array([1, 0, 4, 2])
    values = spread_values(np.tile(copies, (repeats, 1)), np.full(repeats, 7), rng)
    values = values.reshape(repeats, 7)
    for value, number in enumerate(copies):
        assert np.all((values == value).sum(axis=1) == number)
        share = (values == value).mean(axis=0)
        assert np.abs(share - number / 7).max() < 5.5 * 0.5 / np.sqrt(repeats)


def test_wide_separators_do_not_overflow_the_group_keys() -> None:
    domain = {f"x{i}": 200 for i in range(11)}
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (11, 1000)).astype(np.int32) * 199
    keys = _group_keys(codes, tuple(range(11)), tuple(domain.values()))
    assert len(np.unique(keys)) == len(np.unique(codes, axis=1).T)
