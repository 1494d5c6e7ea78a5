"""Rows by content: words that tell them apart, and ranks that one row less leaves alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from marginalsyn.plugins.networks import heads
from marginalsyn.plugins.networks.heads import pack, ranked, ranks, unpack

SIZES = [3, 1, 70_000, 2**31 - 1, 2**31 - 1, 5, 40]


def drawn(rows: int, seed: int = 0, sizes: list[int] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, rows) for size in sizes]).astype(np.int32)


def told(codes: np.ndarray, sizes: list[int], **how: int) -> Counter:
    """Every row with its rank."""
    found = ranked(lambda: np.array_split(codes, 4), sizes, len(codes), **how)
    return Counter(
        (*unpack(words[i : i + 1], sizes)[0].tolist(), int(places[i]))
        for words, places in found
        for i in range(len(words))
    )


def test_ranks_count_the_equal_rows_before() -> None:
    codes = drawn(400, sizes=[3, 4])
    seen: Counter = Counter()
    expected = []
    for row in map(tuple, codes.tolist()):
        expected.append(seen[row])
        seen[row] += 1
    np.testing.assert_array_equal(ranks(pack(codes, [3, 4])), expected)
    assert ranks(pack(codes[:0], [3, 4])).shape == (0,)


@pytest.mark.parametrize("most", [2**24, 60, 7], ids=["one reading", "some", "many"])
def test_ranks_are_the_same_however_rows_are_read(most: int, monkeypatch) -> None:
    monkeypatch.setattr(heads, "CHUNK", 50)
    for sizes in ([3, 4], SIZES):
        codes = drawn(300, sizes=sizes)
        codes = np.concatenate([codes, codes[:30]])
        found = ranks(pack(codes, sizes))
        expected = Counter(
            (*row, int(rank)) for row, rank in zip(codes.tolist(), found, strict=True)
        )
        order = np.random.default_rng(1).permutation(len(codes))
        assert told(codes, sizes, most=most) == expected
        assert told(codes[order], sizes, most=most) == expected


def test_few_distinct_rows_are_held() -> None:
    """However many equal rows there are, and however they come."""
    held, original = [], heads._merged

    def watched(words, counts, more):
        held.append(sum(map(len, more)) + len(words))
        return original(words, counts, more)

    codes = drawn(20_000, sizes=[3, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "_merged", watched)
        batches = ranked(lambda: np.array_split(codes, 200), [3, 2], len(codes), most=1000)
        assert sum(len(words) for words, _ in batches) == 20_000
    assert max(held) < 1400


def test_one_row_less_changes_no_other() -> None:
    codes = drawn(200, sizes=[3, 4])
    whole = told(codes, [3, 4])
    for gone in (0, 77, 199):
        less = told(np.delete(codes, gone, 0), [3, 4])
        assert not less - whole
        assert sum((whole - less).values()) == 1
