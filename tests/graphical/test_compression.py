"""Merging rare codes and taking them apart again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marginalsyn.contract import Measurement
from marginalsyn.graphical.compression import Compression, compress_column, identity
from marginalsyn.graphical.one_way import affordable

COUNTS = st.lists(st.floats(0, 1000), min_size=1, max_size=30)


@given(COUNTS, st.floats(0, 500), st.booleans())
def test_every_group_holds_the_threshold_or_there_is_one_group(counts, threshold, ordered):
    merge = compress_column(np.array(counts), ordered=ordered, threshold=threshold)
    held = np.bincount(merge.groups, weights=counts)
    assert len(held) == merge.size
    if ordered:
        assert merge.size == 1 or held.min() >= threshold * (1 - 1e-9)
        assert (np.diff(merge.groups) >= 0).all()
    else:
        rare = np.bincount(merge.groups)[merge.groups] == 1
        assert merge.size == 1 or (np.array(counts)[rare] >= threshold).sum() >= rare.sum() - 1


def test_compressing_a_measurement_sums_values_and_variances():
    merges = dict(identity({"a": 3, "b": 2}).merges)
    merges["a"] = compress_column(np.array([9.0, 1, 1]), ordered=True, threshold=2)
    values = np.arange(6).reshape(3, 2)
    out = Compression(merges).compress(Measurement(columns=("a", "b"), values=values, sigma=2.0))
    assert out.values.tolist() == [[0, 1], [2 + 4, 3 + 5]]
    np.testing.assert_allclose(out.sigma, [[2, 2], [2 * 2**0.5] * 2])


def test_refining_keeps_groups_and_shares():
    counts = np.array([500.0, 30, 10, 60, 400])
    merge = compress_column(counts, ordered=True, threshold=90)
    compression = Compression({"a": merge})
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, merge.size, (30_000, 1)).astype(np.int32)
    fine = compression.refine(coarse, rng)
    assert (merge.groups[fine[:, 0]] == coarse[:, 0]).all()
    for group in range(merge.size):
        members = np.flatnonzero(merge.groups == group)
        n = (coarse == group).sum()
        got = np.bincount(fine[coarse[:, 0] == group, 0], minlength=5)[members]
        # Randomised rounding leaves each code within one row of its share.
        np.testing.assert_array_less(np.abs(got - merge.shares[members] * n), 1 + 1e-9)


SIZES = st.lists(
    st.lists(st.integers(1, 300), min_size=3, max_size=3).map(lambda s: sorted(s, reverse=True)),
    min_size=2,
    max_size=6,
)


@given(SIZES, st.lists(st.integers(1, 5), max_size=3), st.floats(1, 1e4))
def test_a_column_is_merged_further_only_while_its_mean_pair_costs_too_much(sizes, others, cells):
    columns = {str(place): one for place, one in enumerate(sizes)}
    at = affordable(columns, others, cells)
    now = {name: columns[name][level] for name, level in at.items()}

    def mean_pair(name, size):
        rest = [*others, *(n for other, n in now.items() if other != name)]
        return size * sum(rest) / len(rest)

    for name, level in at.items():
        assert level == 2 or mean_pair(name, now[name]) <= cells * (1 + 1e-12)
        # Others only got smaller since it was merged, so some level before was too large then.
        if level:
            largest = [*others, *(one[0] for other, one in columns.items() if other != name)]
            assert columns[name][level - 1] * sum(largest) / len(largest) > cells * (1 - 1e-12)
