"""Rows by content: words that tell them apart, and ranks that one row less leaves alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from marginalsyn.plugins.networks.heads import pack, ranks

SIZES = [3, 1, 70_000, 2**31 - 1, 2**31 - 1, 5, 40]


def drawn(rows: int, seed: int = 0, sizes: list[int] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, rows) for size in sizes]).astype(np.int32)


def ranked(codes: np.ndarray, sizes: list[int]) -> Counter:
    """Every row with its rank."""
    found = ranks(pack(codes, sizes))
    return Counter((*row, int(rank)) for row, rank in zip(codes.tolist(), found, strict=True))


def test_ranks_count_the_equal_rows_before() -> None:
    codes = drawn(400, sizes=[3, 4])
    seen: Counter = Counter()
    expected = []
    for row in map(tuple, codes.tolist()):
        expected.append(seen[row])
        seen[row] += 1
    np.testing.assert_array_equal(ranks(pack(codes, [3, 4])), expected)
    assert ranks(pack(codes[:0], [3, 4])).shape == (0,)


@pytest.mark.parametrize("sizes", [[3, 4], SIZES], ids=["few", "many"])
def test_one_row_less_changes_no_other_nor_does_their_order(sizes: list[int]) -> None:
    codes = drawn(300, sizes=sizes)
    codes = np.concatenate([codes, codes[:30]])
    whole = ranked(codes, sizes)
    assert ranked(np.random.default_rng(1).permutation(codes), sizes) == whole
    for gone in (0, 77, 329):
        less = ranked(np.delete(codes, gone, 0), sizes)
        assert not less - whole
        assert sum((whole - less).values()) == 1
    # Words are equal where rows are.
    assert len(np.unique(pack(codes, sizes), axis=0)) == len(np.unique(codes, axis=0))
