"""Rows of codes as the vectors that adversarial networks see, and a generator's outputs as codes.

An ordered column (numbers, ordinal) becomes a position in [-1, 1] and one indicator each for OTHER
and missing; any other column is one-hot. A code owns an interval of positions as wide as its public
share, so that with noisy marginals as shares every column is spread about evenly. Real and
generated rows alike lie anywhere in their code's interval: only their codes differ.

Rows identified by their content and by the number of equal rows before them.

What a key says of a row may depend on the row's content and on its rank among equals. Rows of equal
content may be exchanged, so that a table with one row less has the same pairs of content and rank
but one: no other row's pair changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import Measurement
from marginalsyn.errors import ReleaseError
from marginalsyn.graphical.estimation import project_to_simplex
from marginalsyn.privacy.streams import Key, need_key
from marginalsyn.table.design import Slots, has_long_order
from marginalsyn.table.schema import Schema
from marginalsyn.weights.dense import is_numbers

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


def ranks(words: np.ndarray) -> np.ndarray:
    """How many equal rows come before each row."""
    found = pd.DataFrame(words).groupby([*range(words.shape[1])]).cumcount()
    return found.to_numpy(dtype=np.int64)


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


# No code has less than this share of an even one: networks must be able to reach it.
_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Head:
    """How one column is encoded; ``shares`` holds a positive probability for every code."""

    ordered: bool
    levels: int
    shares: np.ndarray

    @property
    def specials(self) -> int:
        """The codes of an ordered column that lie outside its order."""
        return len(self.shares) - self.levels

    @property
    def slots(self) -> Slots:
        """What the column adds to a row's vector."""
        return Slots(self.levels, self.specials) if self.ordered else Slots(0, len(self.shares))

    @property
    def width(self) -> int:
        """Entries of a row's vector."""
        return self.slots.width

    @property
    def choices(self) -> int:
        """How many alternatives the generator has: codes, or "present" and the special codes."""
        if self.ordered:
            return 1 + self.specials if self.specials else 0
        return len(self.shares)

    @property
    def outputs(self) -> int:
        """How many outputs of the generator belong to the column."""
        return self.ordered + self.choices

    @cached_property
    def edges(self) -> np.ndarray:
        """Where the intervals of an ordered column's levels begin and end in [0, 1]."""
        ends = np.cumsum(self.shares[: self.levels])
        return np.concatenate([[0.0], ends / ends[-1]])

    @cached_property
    def odds(self) -> np.ndarray:
        """Log-shares of the choices: the generator's first biases."""
        if not self.ordered:
            return np.log(self.shares)
        if not self.specials:
            return np.empty(0)
        present = self.shares[: self.levels].sum()
        return np.log(np.concatenate([[present], self.shares[self.levels :]]))

    def rows(self, codes: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Vectors of codes; ``within`` in [0, 1] is the place inside a code's stretch."""
        parts = self.slots.read(codes)
        marks = self.slots.indicators(parts) - self.shares[self.slots.scale :]
        if not self.ordered:
            return marks
        known = np.minimum(codes, self.levels - 1)
        low, high = self.edges[known], self.edges[known + 1]
        place = parts._replace(place=low + within * (high - low)).placed(2.0, -1.0)
        return np.column_stack([place, marks])

    def codes(self, outputs: np.ndarray, gumbel: np.ndarray) -> np.ndarray:
        """Decode outputs, with one Gumbel draw for each choice, to codes."""
        from scipy.special import ndtr

        choice = np.zeros(len(outputs), dtype=np.int32)
        if self.choices:
            choice = np.argmax(outputs[:, self.ordered :] + gumbel, axis=1).astype(np.int32)
        if not self.ordered:
            return choice
        place = np.searchsorted(self.edges[1:-1], ndtr(outputs[:, 0]), side="right")
        return np.where(choice > 0, self.levels - 1 + choice, place).astype(np.int32)

    def tensor(self, tf: Any, outputs: Any, gumbel: Any, temperature: float) -> Any:
        """Vectors from outputs, in TensorFlow: hard choices with the gradient of soft ones."""
        parts = []
        present = 1.0
        if self.choices:
            soft = tf.nn.softmax((outputs[:, self.ordered :] + gumbel) / temperature)
            hard = tf.one_hot(tf.argmax(soft, axis=1), self.choices, dtype=soft.dtype)
            chosen = hard + soft - tf.stop_gradient(soft)
            if not self.ordered:
                return chosen - self.shares
            present = chosen[:, :1]
            parts.append(chosen[:, 1:] - self.shares[self.levels :])
        return tf.concat([present * tf.math.erf(outputs[:, :1] / np.sqrt(2.0)), *parts], axis=1)

    def stray(self, tf: Any, vectors: Any) -> Any:
        """How far a batch's vectors are from the column's shares: 0 where their moments agree."""
        means = tf.reduce_mean(vectors, axis=0)
        found = tf.reduce_sum(means**2)
        if self.ordered:
            # A place is uniform on [-1, 1] among the rows that have one.
            present = float(self.shares[: self.levels].sum())
            found += (tf.reduce_mean(vectors[:, 0] ** 2) - present / 3.0) ** 2
        return found


class Heads:
    """The heads of a schema's columns, in its order.

    Args:
        schema: the public description of the rows.
        shares: public probabilities by column, of every code; even ones where they are not given.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> heads = Heads(Schema.from_domain({"a": 4}))
        >>> heads.rows(np.array([[0], [3]]), None).tolist()
        [[-0.75], [0.75]]
    """

    def __init__(self, schema: Schema, shares: Mapping[str, np.ndarray] | None = None) -> None:
        self.schema = schema
        self.heads = []
        for column in schema.columns:
            even = np.full(column.size, 1.0 / column.size)
            given = (shares or {}).get(column.name, even)
            mixed = (1 - _LEAST_SHARE) * given / given.sum() + _LEAST_SHARE * even
            self.heads.append(Head(has_long_order(column), column.levels, mixed))

    @property
    def width(self) -> int:
        """The length of a row's vector."""
        return sum(head.width for head in self.heads)

    def rows(self, codes: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Encode rows, anywhere in the codes' intervals, or in their middle without ``rng``.

        Every row's vector depends on that row alone.
        """
        if rng is None:
            return self._rows(codes, lambda position: np.full(len(codes), 0.5))
        return self._rows(codes, lambda position: rng.random(len(codes)))

    def keyed_rows(self, codes: np.ndarray, key: Key, marks: np.ndarray, look: int) -> np.ndarray:
        """Encode private rows; the key decides where in its interval each value lies.

        A random stream would not do: adding or removing a row would then change the vectors of all
        rows after it, and the bound on what one row changes would not hold.

        Args:
            codes: the rows' codes.
            key: from ``noise.key()``.
            marks: what :meth:`marks` gave for the rows.
            look: how often the rows were encoded before; every time the values lie elsewhere.
        """
        need_key(key, "where in its bin a value lies")
        return self._rows(codes, lambda position: key.uniform(marks, look, position))

    def _rows(self, codes: np.ndarray, within: Callable[[int], np.ndarray]) -> np.ndarray:
        middle = np.full(len(codes), 0.5)
        blocks = [
            head.rows(codes[:, position], within(position) if head.ordered else middle)
            for position, head in enumerate(self.heads)
        ]
        return np.hstack(blocks).astype(np.float64)

    def marks(self, codes: np.ndarray, key: Key) -> np.ndarray:
        """The key's number for each private row, from its content and its rank among equal rows."""
        words = pack(codes, self.sizes)
        return need_key(key, "what is said of a row").marks(words, ranks(words))

    @property
    def sizes(self) -> list[int]:
        """The columns' numbers of codes."""
        return [len(head.shares) for head in self.heads]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The shares, for a release's model."""
        return {"shares": np.concatenate([head.shares for head in self.heads])}

    @classmethod
    def read(cls, schema: Schema, arrays: Mapping[str, np.ndarray]) -> Heads:
        """Undo ``arrays``; they may come from an untrusted file."""
        sizes = list(schema.domain.values())
        flat = arrays.get("shares")
        if not is_numbers(flat, (sum(sizes),)) or flat is None or not (flat > 0).all():
            raise ReleaseError(f"model (shares) must hold {sum(sizes)} positive shares")
        heads = cls(schema)
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        heads.heads = [
            Head(head.ordered, head.levels, part)
            for head, part in zip(heads.heads, parts, strict=True)
        ]
        return heads


def shares_of(measurements: Sequence[Measurement], total: float) -> dict[str, np.ndarray]:
    """Estimate probabilities from noisy one-way counts, shrunk towards even ones.

    The counts' spread about their mean is kept in the share that is not noise (James and Stein's
    positive part), so that a column of noise becomes an even one.
    """
    found = {}
    for measurement in measurements:
        counts = np.asarray(measurement.values, dtype=float)
        even = total / counts.size
        spread = counts - even
        noise = counts.size * float(measurement.sigma) ** 2
        kept = max(0.0, 1.0 - noise / max(float(spread @ spread), 1e-300))
        shares = project_to_simplex(even + kept * spread, total) / total
        found[measurement.columns[0]] = shares
    return found
