"""Rows identified by their content and by the number of equal rows before them.

What a key says of a row may depend on the row's content and on its rank among equals. Rows of equal
content may be exchanged, so that a table with one row less has the same pairs of content and rank
but one: no other row's pair changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from marginalsyn.privacy.streams import sip_hash

# Distinct rows that are held at a time, in words of 8 bytes, and rows that are handed on at a time.
MOST_WORDS = 2**24
CHUNK = 65_536
_WORD = 2**63


def pack(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Rows of codes as few 64-bit words each; different rows have different words.

    Args:
        codes: of shape (rows, columns), each from 0 up to its column's size.
        sizes: the columns' numbers of codes.
    """
    words = np.zeros((len(codes), len(_groups(sizes))), dtype=np.uint64)
    for word, columns in enumerate(_groups(sizes)):
        for column in columns:
            words[:, word] *= np.uint64(sizes[column])
            words[:, word] += codes[:, column].astype(np.uint64)
    return words


def unpack(words: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Undo :func:`pack`."""
    codes = np.empty((len(words), len(sizes)), dtype=np.int32)
    for word, columns in enumerate(_groups(sizes)):
        rest = words[:, word].copy()
        for column in reversed(columns):
            rest, code = np.divmod(rest, np.uint64(sizes[column]))
            codes[:, column] = code
    return codes


def ranks(words: np.ndarray) -> np.ndarray:
    """How many equal rows come before each row."""
    order, starts = _sorted(words)
    lengths = np.diff(np.append(starts, len(words)))
    found = np.empty(len(words), dtype=np.int64)
    found[order] = np.arange(len(words)) - np.repeat(starts, lengths)
    return found


def ranked(
    batches: Callable[[], Iterable[np.ndarray]],
    sizes: Sequence[int],
    rows: int,
    most: int = MOST_WORDS,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All rows' words with their ranks, some thousands at a time, in an order of their own.

    The rows are read as often as it takes to hold no more than about ``most`` words at a time: a
    reading takes the rows whose hash falls into its share.

    Args:
        batches: begins a reading: codes, some rows at a time.
        sizes: the columns' numbers of codes.
        rows: how many there are, about.
        most: how many words to hold.
    """
    parts = -(-rows * len(_groups(sizes)) // most)
    for part in range(max(parts, 1)):
        words, counts = _distinct(batches(), sizes, part, parts, most)
        ends = np.cumsum(counts)
        for start in range(0, int(counts.sum()), CHUNK):
            places = np.arange(start, min(start + CHUNK, int(ends[-1])))
            row = np.searchsorted(ends, places, side="right")
            yield words[row], places - (ends - counts)[row]


def _distinct(
    batches: Iterable[np.ndarray], sizes: Sequence[int], part: int, parts: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a share of them, and how often each occurs."""
    width = len(_groups(sizes))
    words, counts = np.empty((0, width), dtype=np.uint64), np.empty(0, dtype=np.int64)
    waiting, held = [words], 0
    for codes in batches:
        packed = pack(codes, sizes)
        if parts > 1:
            # A public key will do: which reading takes a row changes nothing of what is said of it.
            packed = packed[sip_hash((0, 0), list(packed.T)) % np.uint64(parts) == part]
        waiting.append(packed)
        held += packed.size
        if held > most:
            words, counts = _merged(words, counts, waiting)
            waiting, held = [], 0
    return _merged(words, counts, waiting)


def _merged(
    words: np.ndarray, counts: np.ndarray, more: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    stacked = np.concatenate([words, *more])
    numbers = np.concatenate([counts, np.ones(len(stacked) - len(words), dtype=np.int64)])
    if not len(stacked):
        return words, counts
    order, starts = _sorted(stacked)
    return stacked[order[starts]], np.add.reduceat(numbers[order], starts)


def _sorted(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which equal rows stand together as they came, and where each kind begins."""
    order = np.lexsort(words.T) if words.shape[1] else np.arange(len(words))
    rows = words[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return order, np.flatnonzero(new)


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Columns that share a word."""
    groups: list[list[int]] = [[]]
    room = _WORD
    for column, size in enumerate(sizes):
        if room < size:
            groups.append([])
            room = _WORD
        room //= max(size, 1)
        groups[-1].append(column)
    return groups
