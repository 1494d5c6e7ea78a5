"""Chains of rows against brute force: their law, their optimum, and what cannot be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest

from marginalsyn.contract import Measurement
from marginalsyn.errors import DataError
from marginalsyn.graphical.chain_model import ChainModel, extend, read_fitted
from marginalsyn.graphical.factors import Scope
from marginalsyn.graphical.model import Fitted, fit
from marginalsyn.graphical.row_chains import IMPOSSIBLE, RowChain, count, fit_chain, rescale
from marginalsyn.graphical.sampling import FIRM
from marginalsyn.graphical.shrunken_fit import find_strengths, independent, take_off_means
from marginalsyn.graphical.targets import FitTarget
from marginalsyn.progress import Silent

SIZES = (2, 3, 2, 4)
DOMAIN = dict(zip("abcd", SIZES, strict=True))
PAIRS = list(itertools.combinations(range(4), 2))
NAMED = [tuple("abcd"[v] for v in pair) for pair in PAIRS]
# A triple as well: tables need not be pairs.
SCOPES = [*((v,) for v in range(4)), *PAIRS, (0, 1, 3)]


def chain_of(rng: np.random.Generator) -> RowChain:
    """A chain over all pairs and one triple, with a cell that cannot be."""
    chain = RowChain(SIZES, [*SCOPES, (1, 2)])
    chain.flat[...] = rng.normal(0.0, 0.7, chain.flat.size)
    chain.tables[-1][...] = 0.0
    chain.tables[-1][1, 0] = IMPOSSIBLE
    return chain


def law_of(chain: RowChain) -> np.ndarray:
    """The probability of every row, by enumeration."""
    logs = np.zeros(SIZES)
    for scope, table in zip(chain.scopes, chain.tables, strict=True):
        shape = [size if v in scope else 1 for v, size in enumerate(SIZES)]
        logs += table.reshape(shape)
    law = np.exp(logs - logs.max())
    return law / law.sum()


def measure(rows: int, sigma: float, seed: int) -> list[Measurement]:
    """All single columns and pairs of an invented table, with noise."""
    rng = np.random.default_rng(seed)
    law = law_of(chain_of(rng))
    found = []
    for scope in [*((v,) for v in range(4)), *PAIRS]:
        others = tuple(v for v in range(4) if v not in scope)
        counts = law.sum(axis=others) * rows
        noisy = counts + rng.normal(0.0, sigma, counts.shape)
        found.append(Measurement(tuple("abcd"[v] for v in scope), noisy, sigma))
    return found


def distance(left: np.ndarray, right: np.ndarray) -> float:
    """Total variation of two arrays of counts or shares."""
    return float(np.abs(left / left.sum() - right / right.sum()).sum() / 2)


ZEROS = [(("b", "c"), np.array([[False, False], [True, False], [False, False]]))]


def extended(
    sigma: float = 5.0, sweeps: int = 200, rows: int = 20_000
) -> tuple[Fitted, ChainModel]:
    """The exact model of all pairs, and the chain that started from a tree of three of them."""
    measured = measure(rows, sigma, 3)
    of_tree = [m for m in measured if len(m.columns) < 2 or m.columns in NAMED[:3]]
    tree = fit(DOMAIN, of_tree, total=float(rows), zeros=ZEROS, shrinkage=True)
    rng = np.random.default_rng(5)
    chain = extend(tree, measured, zeros=ZEROS, sweeps=sweeps, rng=rng)
    strengths = chain.shrinkage
    exact = fit(DOMAIN, measured, total=rows, zeros=ZEROS, shrinkage=strengths, tolerance=1e-6)
    return exact, chain


def test_sweeps_leave_the_law_as_it_is_and_find_it() -> None:
    rng = np.random.default_rng(1)
    chain = chain_of(rng)
    law = law_of(chain)
    rows = np.zeros((40_000, 4), dtype=np.int32)  # far from it: all rows are equal
    for _ in range(30):
        chain.sweep(rows, rng)
    found = count(rows, (0, 1, 2, 3), SIZES)
    expected = law * len(rows)
    assert not found[:, 1, 0].any()  # the structural zero
    possible = expected > 0
    statistic = (np.square(found - expected)[possible] / expected[possible]).sum()
    # chi-square with 43 degrees of freedom exceeds 110 with a chance below 1e-6
    assert statistic < 110


def test_sweeps_keep_what_is_known() -> None:
    rng = np.random.default_rng(2)
    chain = chain_of(rng)
    likely = np.array([0.0, 0.2, 0.0, 1.0])
    law = law_of(chain) * likely
    rows = np.zeros((40_000, 4), dtype=np.int32)
    rows[:, 3] = 1
    with np.errstate(divide="ignore"):
        known = {3: np.log(likely)}
    for _ in range(30):
        chain.sweep(rows, rng, known)
    found = count(rows, (0, 1, 2, 3), SIZES)
    assert not found[..., [0, 2]].any()
    assert distance(found, law) < 0.02


def test_its_optimum_is_the_exact_fits() -> None:
    exact, chain = extended()
    for pair in NAMED:
        assert distance(chain.marginal(pair), exact.marginal(pair)) < 0.006
    # The potentials, too: compared as the law that they give, by enumeration.
    law = law_of(chain.chain)
    whole = exact.marginal("abcd") / exact.total
    assert distance(law, whole) < 0.012
    tree = Fitted(DOMAIN, exact.total, chain.contraction)
    gaps = [distance(tree.marginal(q), exact.marginal(q)) for q in NAMED[3:]]
    assert max(gaps) > 0.02  # the tree alone is far from it
    assert chain.convergence["distance"] < chain.convergence["start"]


def test_noise_is_shrunk_as_the_exact_fit_shrinks_it() -> None:
    exact, chain = extended(sigma=250.0)
    gaps = [distance(chain.marginal(q), exact.marginal(q)) for q in NAMED]
    assert max(gaps) < 0.012


def test_strengths_are_rescaled_to_the_least_error() -> None:
    rng = np.random.default_rng(4)
    sizes, total, sigma = (20, 25, 30), 30_000.0, 60.0
    scopes: list[Scope] = [(0, 1), (0, 2), (1, 2)]
    counts = [total * rng.dirichlet(np.full(size, 0.5)) + 1.0 for size in sizes]
    columns = [FitTarget(each, np.ones(each.size)) for each in counts]
    truth, targets = {}, {}
    for scope in scopes:
        expected = independent(scope, columns, total)
        shape = expected.shape
        # Deviations grow with the counts: the likelihood follows the largest.
        truth[scope] = expected + take_off_means(expected * rng.lognormal(0.0, 0.8, shape))
        noisy = truth[scope] + rng.normal(0.0, sigma, shape)
        targets[scope] = FitTarget(noisy, np.full(shape, sigma**-2.0))
    found = find_strengths(targets, columns, total)
    chosen = rescale(found, targets, columns, total)

    def error(factor: float) -> float:
        """The squared error of every cell by itself, fitted by bisection."""
        squares = 0.0
        for scope, strength in found.items():
            m = independent(scope, columns, total)
            y = m + take_off_means(targets[scope].values - m)
            low, high = np.zeros(y.shape), np.full(y.shape, total)
            for _ in range(60):
                fitted = (low + high) / 2
                with np.errstate(divide="ignore"):
                    under = fitted + factor * strength * sigma**2 * np.log(fitted / m) < y
                low, high = np.where(under, fitted, low), np.where(under, high, fitted)
            squares += float(np.square(high - truth[scope]).sum())
        return squares

    factors = {round(chosen[scope] / found[scope], 9) for scope in scopes}
    (factor,) = factors
    errors = [error(f) for f in np.geomspace(0.25, 16.0, 13)]
    assert error(factor) < 1.01 * min(errors)
    assert error(1.0) > 1.02 * min(errors), "there must be something to gain"


def test_rows_are_drawn_together_however_many_are_asked_for() -> None:
    _, chain = extended(rows=3000)
    rng = np.random.default_rng(0)
    assert len(chain.followers) == 3000

    def gap(rows: np.ndarray) -> float:
        counts = [count(rows, q, SIZES) for q in PAIRS]
        aims = chain.chain.views(chain.expected)[4:]
        return sum(distance(c, aim) for c, aim in zip(counts, aims, strict=False))

    for n in (300, 3000, 10_000):
        rows = [chain.sample(n, rng) for _ in range(8)]
        together = np.mean([gap(each) for each in rows])
        for each in rows:
            for _ in range(10):
                chain.chain.sweep(each, rng)
        alone = np.mean([gap(each) for each in rows])
        assert together < 0.7 * alone, n


def test_steps_of_large_tables_do_not_run_away() -> None:
    """Where some cells have 10^5 rows and others none, a gap in the large ones moves the others."""
    rng = np.random.default_rng(3)
    law = np.outer([0.6, 0.3995, 0.0005], rng.dirichlet(np.full(20, 0.3))).reshape(3, 20, 1)
    law = law * rng.dirichlet(np.full(12, 0.2), 20) * 1e6
    scopes = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    targets = {}
    for scope in scopes:
        counts = law.sum(axis=tuple(v for v in range(3) if v not in scope))
        noisy = counts * rng.uniform(0.8, 1.2, counts.shape) ** (len(scope) > 1)
        targets[scope] = FitTarget(noisy, np.full(counts.shape, 1.0))
    rows = np.stack([rng.integers(0, n, 20_000) for n in (3, 20, 12)], axis=1).astype(np.int32)
    known = {"start": {}, "rows": rows, "rng": rng, "progress": Silent()}
    found = fit_chain((3, 20, 12), targets, {}, 1e6, sweeps=100, **known)
    assert found.convergence["distance"] < 0.2 * found.convergence["start"]


def test_settled_rows_follow_the_chains_law_and_its_counts() -> None:
    """By enumeration: means are the chain's, also of cells of less than a row; variances less."""
    rng = np.random.default_rng(6)
    chain = chain_of(rng)
    law = law_of(chain)
    expected = [law.sum(axis=tuple(v for v in range(4) if v not in q)) for q in chain.scopes]
    shares = np.concatenate([np.ravel(each) for each in expected])
    rows = np.zeros((400, 4), dtype=np.int32)
    for _ in range(30):
        chain.sweep(rows, rng)
    found = []
    for _ in range(600):
        chain.settle(rows, shares, rng)
        found.append(chain.counts(rows))
    assert not count(rows, (1, 2), SIZES)[1, 0]
    counts, aims = np.array(found[20:]), shares * len(rows)
    spread = counts.std(axis=0)
    assert (np.abs(counts.mean(axis=0) - aims) < 0.06 * np.sqrt(aims) + 0.35).all()
    assert (spread[aims > 4] < 0.7 * np.sqrt(aims[aims > 4])).all()


def test_settled_counts_have_the_law_that_is_said() -> None:
    rng, n = np.random.default_rng(9), 6
    chain, shares = RowChain((2,), [(0,)]), np.array([0.4, 0.6])
    chain.flat[...] = np.log(shares)
    rows, found = np.zeros((n, 1), dtype=np.int32), np.zeros(n + 1)
    for _ in range(8000):
        chain.settle(rows, shares, rng)
        found[(rows == 0).sum()] += 1
    law = np.zeros(n + 1)
    for zeros in range(n + 1):
        counts, aims = np.array([zeros, n - zeros]), shares * n
        alone = math.comb(n, zeros) * np.prod(shares**counts)
        law[zeros] = alone * math.exp(-(FIRM / aims * np.square(counts - aims) / 2).sum())
    assert distance(found, law) < 0.04


def test_rare_cells_keep_their_rows() -> None:
    rng = np.random.default_rng(8)
    sizes = (30, 30)
    chain = RowChain(sizes, [(0,), (1,), (0, 1)])
    law = rng.dirichlet(np.full(900, 0.3)).reshape(sizes)
    chain.tables[2][...] = np.log(law + 1e-12)
    shares = np.concatenate([law.sum(axis=1), law.sum(axis=0), law.ravel()])
    rows = np.stack(np.unravel_index(rng.choice(900, 300, p=law.ravel()), sizes), axis=1)
    rows, rare, found = np.ascontiguousarray(rows, dtype=np.int32), law * 300 < 0.5, []
    for _ in range(300):
        chain.settle(rows, shares, rng)
        found.append(count(rows, (0, 1), sizes)[rare].sum())
    assert np.mean(found[20:]) == pytest.approx(300 * law[rare].sum(), rel=0.1)


def test_tables_of_more_rows_than_were_fitted_keep_the_counts() -> None:
    """Where codes hardly change, potentials that are not right yet lose the shares of codes."""
    rng = np.random.default_rng(7)
    chain = RowChain((3, 3), [(0,), (1,), (0, 1)])
    shares = np.array([[0.5, 0.001, 0.0], [0.0, 0.3, 0.001], [0.001, 0.0, 0.197]])
    chain.tables[2][...] = np.log(np.maximum(shares, 1e-5))
    chain.tables[0][...] = 0.5, 0.0, -0.5  # as after few steps
    rows = np.stack(np.unravel_index(rng.choice(9, 20_000, p=shares.ravel()), (3, 3)), axis=1)
    parts = shares.sum(axis=1), shares.sum(axis=0), shares.ravel()
    settled, swept = (np.ascontiguousarray(rows, dtype=np.int32) for _ in range(2))
    for _ in range(40):
        chain.settle(settled, np.concatenate(parts), rng)
        chain.sweep(swept, rng)
    gaps = [distance(count(each, (0, 1), (3, 3)), shares) for each in (settled, swept)]
    assert gaps[0] < 0.01
    assert gaps[1] > 3 * gaps[0]


def test_no_row_is_impossible() -> None:
    _, chain = extended(sweeps=60)
    rng = np.random.default_rng(0)
    given = chain.given({"c": np.array([1.0, 0.0])})
    for rows in (chain.rows(5000, rng), chain.sample(5000, rng), given.sample(2000, rng)):
        assert not count(rows, (1, 2), SIZES)[1, 0]
    assert chain.marginal(("c", "b"))[0, 1] == 0


def test_given_agrees_with_the_chain_itself() -> None:
    _, chain = extended()
    known = chain.given({"d": np.array([0.0, 1.0, 0.0, 0.5])})
    assert set(known.sample(2000, np.random.default_rng(1))[:, 3]) == {1, 3}
    whole = chain.marginal("abd") * np.array([0.0, 1.0, 0.0, 0.5])
    assert known.total == pytest.approx(whole.sum(), rel=0.02)
    assert distance(known.marginal("ab"), whole.sum(axis=2)) < 0.02
    # What no row of the chain has starts from the tree's rows; what cannot be is refused.
    twice = known.given({"a": np.array([1.0, 0.0])})
    assert distance(twice.marginal("b"), whole.sum(axis=2)[0]) < 0.02
    with pytest.raises(DataError, match="condition"):
        chain.given({"b": np.array([0.0, 1, 0]), "c": np.array([1.0, 0])})


def test_the_fits_own_rows_are_given_out_once() -> None:
    _, chain = extended(sweeps=60)
    rng = np.random.default_rng(0)
    whole = len(chain.followers)
    first = chain.rows(whole, rng)
    assert np.array_equal(
        np.sort(first.view("i4,i4,i4,i4").ravel()),
        np.sort(chain.followers.view("i4,i4,i4,i4").ravel()),
    )
    again = chain.rows(whole, rng)
    assert (again != chain.followers[: len(again)]).any()


def test_it_is_read_back_as_it_was() -> None:
    _, chain = extended(sweeps=60)
    arrays, meta = chain.arrays()
    read = read_fitted(arrays, meta)
    assert isinstance(read, ChainModel)
    for one in (read, read.__reduce__()[0](*read.__reduce__()[1])):
        assert np.array_equal(one.marginal("abcd"), chain.marginal("abcd"))
        same = [model.sample(100, np.random.default_rng(7)) for model in (one, chain)]
        assert np.array_equal(*same)
    assert read.convergence == chain.convergence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain_4", np.zeros((9, 9))),
        ("chain_0", np.array([np.nan, 0.0])),
        ("chain_rows", np.full((5, 4), 200, dtype=np.uint8)),
        ("chain_rows", np.zeros((5, 3), dtype=np.uint8)),
        ("chain_expected", np.zeros(3)),
        ("chain_expected", np.full(61, -1.0)),
    ],
)
def test_a_stored_chain_is_checked(name: str, value: np.ndarray) -> None:
    _, chain = extended(sweeps=30)
    arrays, meta = chain.arrays()
    changed: Mapping[str, np.ndarray] = {**arrays, name: value}
    with pytest.raises(DataError, match="chain_"):
        read_fitted(changed, meta)


def test_tables_that_disagree_beyond_what_products_can_hold_are_followed():
    chain = RowChain((2, 2, 2), [(0,), (1,), (2,), (0, 1), (0, 2)])
    chain.tables[0][:] = 0, -1
    # Each other column all but forbids a code: the products are zero, and their logs are not.
    chain.tables[3][:], chain.tables[4][:] = [[0, 0], [-800, -800]], [[-799, -799], [0, 0]]
    rows, rng = np.zeros((20_000, 3), dtype=np.int32), np.random.default_rng(0)
    for _ in range(2):
        chain.sweep(rows, rng)
    # Code 1 has a log chance that is 2 less; six deviations.
    assert abs(rows[:, 0].mean() - 1 / (1 + math.exp(2))) < 6 * 0.0024
