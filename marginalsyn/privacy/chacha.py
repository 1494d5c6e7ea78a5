"""ChaCha20 as a bit generator for numpy: past output does not reveal future output.

Numpy's own generators are fast and uniform but not secret: some outputs let you compute the others.
A Markov chain publishes its last state, which is made of its last draws, so its draws come from a
stream cipher (Bernstein 2008; the block function of RFC 8439) with a 256-bit key.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import carray, cfunc, njit, types

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
