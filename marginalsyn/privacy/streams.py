"""Random streams, with a type for each permitted use.

* :class:`PostStream` draws what post-processing needs: rows from a fitted model, starting points.
  A release shows much of it, so nothing that a privacy proof rests on may come from it.
* :class:`SecretStream` draws what a proof averages over, such as the moves of a Markov chain.
* :class:`Key` decides what may be decided for each fixed key: which teacher owns a row, where in
  its bin a value lies. What it says of a row depends on that row's content alone (and on how many
  rows like it came before), never on its place among the others.

The last two are made by :mod:`marginalsyn.privacy.noise` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from marginalsyn.errors import UsageError

# Only noise.py has it, as a test checks.
TOKEN = object()
_ROUNDS, _FINAL_ROUNDS = 2, 4


class PostStream(np.random.Generator):
    """Draws for post-processing: never for anything that meets exact private numbers."""


class SecretStream(np.random.Generator):
    """Draws that a privacy proof averages over: secret, and used for one run only.

    Attributes:
        private: whether the operating system's entropy is behind it.
    """

    def __new__(cls, *args: Any, **how: Any) -> SecretStream:
        made: SecretStream = super().__new__(cls)
        return made

    def __init__(self, bits: Any, *, private: bool, token: object) -> None:
        _check_token(token, "SecretStream", "secret")
        super().__init__(bits)
        self.private = private

    def spawn(self, n_children: int) -> list[SecretStream]:  # type: ignore[override]
        """Independent streams, as secret as this one."""
        bits: Any = self.bit_generator
        return [
            SecretStream(child, private=self.private, token=TOKEN)
            for child in bits.spawn(n_children)
        ]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret stream is neither copied nor stored")


class Key:
    """A secret key of 256 bits, and functions of it and of a row's own content.

    The hash is SipHash-2-4 (Aumasson and Bernstein 2012). Privacy does not rest on it: whatever the
    hash says, a row that comes or goes changes what is said of no other row.
    """

    def __init__(self, secret: bytes, *, private: bool, token: object) -> None:
        _check_token(token, "Key", "key")
        if len(secret) != 32:
            raise ValueError("secret must be 32 bytes")
        first, second, third, fourth = np.frombuffer(secret, dtype="<u8").tolist()
        self.private = private
        self._marking, self._drawing = (first, second), (third, fourth)

    def marks(self, words: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """A 64-bit number for every row.

        Args:
            words: the rows' content, uint64 of shape (rows, words).
            ranks: how many rows of the same content are counted before each one.
        """
        return sip_hash(self._marking, [*words.T, ranks.astype(np.uint64)])

    def uniform(self, marks: np.ndarray, *labels: int) -> np.ndarray:
        """A number in [0, 1) for every mark; other labels give other, independent numbers."""
        drawn = sip_hash(self._drawing, [marks, *(np.full_like(marks, label) for label in labels)])
        return (drawn >> np.uint64(11)) * 2.0**-53

    def integers(self, marks: np.ndarray, below: int, *labels: int) -> np.ndarray:
        """A whole number from 0 up to ``below`` for every mark."""
        return (self.uniform(marks, *labels) * below).astype(np.int64)

    def __repr__(self) -> str:
        return f"Key(private={self.private})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is neither copied nor stored")


def need_secret(stream: object, purpose: str) -> SecretStream:
    """Return the stream if it is a secret one; otherwise raise an error."""
    if not isinstance(stream, SecretStream):
        raise UsageError(
            f"stream ({type(stream).__name__}) must be a SecretStream, from noise.secret(): the "
            f"privacy of {purpose} rests on its being secret"
        )
    return stream


def need_key(key: object, purpose: str) -> Key:
    """Return the key if it is one; otherwise raise an error."""
    if not isinstance(key, Key):
        raise UsageError(
            f"key ({type(key).__name__}) must be a Key, from noise.key(): {purpose} must be a "
            "function of the row alone"
        )
    return key


def sip_hash(key: tuple[int, int], words: Sequence[np.ndarray]) -> np.ndarray:
    """SipHash-2-4 of many messages at once: ``words[i]`` holds the i-th word of every message.

    Example:
        >>> hex(sip_hash((0x0706050403020100, 0x0F0E0D0C0B0A0908), [np.zeros(1, np.uint64)])[0])
        '0x39d3851ca07681a7'
    """
    rows = len(words[0])
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    state = [np.full(rows, part ^ key[i % 2], dtype=np.uint64) for i, part in enumerate(start)]
    length = np.full(rows, (8 * len(words) % 256) << 56, dtype=np.uint64)
    for word in (*words, length):
        state[3] ^= word
        for _ in range(_ROUNDS):
            _sip_round(state)
        state[0] ^= word
    state[2] ^= np.uint64(0xFF)
    for _ in range(_FINAL_ROUNDS):
        _sip_round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_round(v: list[np.ndarray]) -> None:
    """In place, on arrays: sums of unsigned numbers wrap around."""
    v[0] += v[1]
    v[1] = _rotated(v[1], 13) ^ v[0]
    v[0] = _rotated(v[0], 32)
    v[2] += v[3]
    v[3] = _rotated(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = _rotated(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = _rotated(v[1], 17) ^ v[2]
    v[2] = _rotated(v[2], 32)


def _rotated(values: np.ndarray, by: int) -> np.ndarray:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _check_token(token: object, kind: str, method: str) -> None:
    if token is not TOKEN:
        raise UsageError(
            f"{kind} must come from noise.{method}(): nothing else makes protective randomness"
        )
