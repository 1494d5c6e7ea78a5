"""Random streams, with a type for each permitted use.

* :class:`PostStream` draws what post-processing needs: rows from a fitted model, starting points.
  A release shows much of it, so nothing that a privacy proof rests on may come from it.
* :class:`SecretStream` draws what a proof averages over, such as the moves of a Markov chain.
* :class:`Key` decides what may be decided for each fixed key: which teacher owns a row, where in
  its bin a value lies. What it says of a row depends on that row's content alone (and on how many
  rows like it came before), never on its place among the others.

The last two are made by :mod:`marginalsyn.privacy.noise` only.

ChaCha20 as a bit generator for numpy: past output does not reveal future output.

Numpy's own generators are fast and uniform but not secret: some outputs let you compute the others.
A Markov chain publishes its last state, which is made of its last draws, so its draws come from a
stream cipher (Bernstein 2008; the block function of RFC 8439) with a 256-bit key.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import carray, cfunc, njit, types

from marginalsyn.errors import UsageError

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
# The memory behind a stream: 16 words of state, 16 words of output, how many of those are used.
_OUT, _USED, _SIZE = 16, 32, 33
_WORD = types.uint64(types.voidptr)


@njit(cache=True, nogil=True, inline="always")
def _rotate(value: Any, by: Any) -> Any:
    return np.uint32((value << np.uint32(by)) | (value >> np.uint32(32 - by)))


@njit(cache=True, nogil=True)
def _quarter(x: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    x[a] = np.uint32(x[a] + x[b])
    x[d] = _rotate(x[d] ^ x[a], 16)
    x[c] = np.uint32(x[c] + x[d])
    x[b] = _rotate(x[b] ^ x[c], 12)
    x[a] = np.uint32(x[a] + x[b])
    x[d] = _rotate(x[d] ^ x[a], 8)
    x[c] = np.uint32(x[c] + x[d])
    x[b] = _rotate(x[b] ^ x[c], 7)


@njit(cache=True, nogil=True)
def block(state: Any, out: Any) -> None:
    """The block function: 16 words of state give 16 words of output."""
    for i in range(16):
        out[i] = state[i]
    for _ in range(10):
        _quarter(out, 0, 4, 8, 12)
        _quarter(out, 1, 5, 9, 13)
        _quarter(out, 2, 6, 10, 14)
        _quarter(out, 3, 7, 11, 15)
        _quarter(out, 0, 5, 10, 15)
        _quarter(out, 1, 6, 11, 12)
        _quarter(out, 2, 7, 8, 13)
        _quarter(out, 3, 4, 9, 14)
    for i in range(16):
        out[i] = np.uint32(out[i] + state[i])


@njit(cache=True, nogil=True)
def _next(memory: Any) -> Any:
    used = memory[_USED]
    if used >= 16:
        block(memory[:16], memory[_OUT:_USED])
        # The counter has two words, for more blocks than anybody draws.
        memory[12] = np.uint32(memory[12] + np.uint32(1))
        if memory[12] == 0:
            memory[13] = np.uint32(memory[13] + np.uint32(1))
        used = np.uint32(0)
    low, high = memory[_OUT + used], memory[_OUT + used + 1]
    # What was shown is gone.
    memory[_OUT + used] = 0
    memory[_OUT + used + 1] = 0
    memory[_USED] = used + 2
    return (np.uint64(high) << np.uint64(32)) | np.uint64(low)


@cfunc(_WORD, cache=True)
def _next_uint64(address: Any) -> Any:
    return _next(carray(address, (_SIZE,), np.uint32))


@cfunc(types.uint32(types.voidptr), cache=True)
def _next_uint32(address: Any) -> Any:
    return np.uint32(_next(carray(address, (_SIZE,), np.uint32)) >> np.uint64(32))


@cfunc(types.float64(types.voidptr), cache=True)
def _next_double(address: Any) -> Any:
    word = _next(carray(address, (_SIZE,), np.uint32))
    return np.float64(word >> np.uint64(11)) * 2.0**-53


class _Functions(ctypes.Structure):
    """Numpy's ``bitgen_t``."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.c_void_p),
        ("next_uint32", ctypes.c_void_p),
        ("next_double", ctypes.c_void_p),
        ("next_raw", ctypes.c_void_p),
    )


class _Interface(NamedTuple):
    """The interface that numba expects of a bit generator."""

    state_address: int
    state: Any
    next_uint64: Any
    next_uint32: Any
    next_double: Any
    bit_generator: Any


class ChaCha20:
    """A bit generator with a secret key of 32 bytes, for ``numpy.random.Generator``.

    Example:
        >>> rng = np.random.Generator(ChaCha20(bytes(32)))
        >>> round(rng.random(), 6)
        0.563445
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("key must be 32 bytes")
        self._memory = np.zeros(_SIZE, dtype=np.uint32)
        self._memory[:4], self._memory[4:12] = _CONSTANTS, np.frombuffer(key, dtype="<u4")
        self._memory[_USED] = 16
        self.lock = threading.Lock()
        address = self._memory.ctypes.data
        calls = [c.address for c in (_next_uint64, _next_uint32, _next_double, _next_uint64)]
        self._functions = _Functions(address, *calls)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = make(ctypes.addressof(self._functions), b"BitGenerator", None)

    @property
    def ctypes(self) -> Any:
        """The functions that compiled loops call."""
        return _Interface(
            self._memory.ctypes.data,
            ctypes.c_void_p(self._memory.ctypes.data),
            _next_uint64.ctypes,
            _next_uint32.ctypes,
            _next_double.ctypes,
            ctypes.c_void_p(ctypes.addressof(self._functions)),
        )

    def spawn(self, n_children: int) -> list[ChaCha20]:
        """Generators whose keys are drawn from this one."""
        with self.lock:
            words = [_next(self._memory) for _ in range(4 * n_children)]
        keys = np.array(words, dtype="<u8").reshape(n_children, 4)
        return [ChaCha20(key.tobytes()) for key in keys]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret stream is neither copied nor stored")


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
        drawn = sip_hash(self._drawing, [marks, *(_repeated(label, marks) for label in labels)])
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


def _repeated(label: int, like: np.ndarray) -> np.ndarray:
    return np.full(len(like), label, dtype=np.uint64)


def _check_token(token: object, kind: str, method: str) -> None:
    if token is not TOKEN:
        raise UsageError(
            f"{kind} must come from noise.{method}(): nothing else makes protective randomness"
        )
