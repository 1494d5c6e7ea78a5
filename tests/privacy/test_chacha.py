"""The stream cipher behind secret streams: the standard's vector, and numbers of the right law."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import njit
from scipy import stats

from marginalsyn.privacy.chacha import ChaCha20, block

ALPHA = 1e-6


def stream(first: int = 0) -> np.random.Generator:
    return np.random.Generator(ChaCha20(bytes([first, *range(1, 32)])))


def test_the_block_function_is_that_of_the_standard() -> None:
    """RFC 8439, section 2.3.2."""
    state = np.frombuffer(
        b"expand 32-byte k" + bytes(range(32)) + bytes.fromhex("01000000000000090000004a00000000"),
        dtype="<u4",
    ).copy()
    out = np.zeros(16, dtype=np.uint32)
    block(state, out)
    assert out.tobytes().hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_a_stream_is_its_blocks_one_after_the_other() -> None:
    """And nothing of them is kept in memory."""
    bits = ChaCha20(bytes(range(32)))
    drawn = np.random.Generator(bits).integers(0, 2**64, 20, dtype=np.uint64)
    state = bits._memory[:16].copy()
    words = []
    for counter in range(3):
        state[12], out = counter, np.zeros(16, dtype=np.uint32)
        block(state, out)
        words += out.view("<u8").tolist()
    assert drawn.tolist() == words[:20]
    assert not bits._memory[16:24].any()


def test_the_counter_goes_on_in_a_second_word() -> None:
    bits = ChaCha20(bytes(32))
    bits._memory[12] = 2**32 - 1
    np.random.Generator(bits).random(9)
    assert bits._memory[12:14].tolist() == [1, 1]


def test_numbers_have_their_laws() -> None:
    rng = stream()
    assert stats.kstest(rng.random(50_000), "uniform").pvalue > ALPHA
    assert stats.kstest(rng.standard_normal(50_000), "norm").pvalue > ALPHA
    counts = np.bincount(rng.integers(0, 7, 50_000), minlength=7)
    assert stats.chisquare(counts).pvalue > ALPHA
    halves = np.bincount(rng.integers(0, 2**32, 50_000, dtype=np.uint32) >> 29, minlength=8)
    assert stats.chisquare(halves).pvalue > ALPHA


def test_compiled_loops_draw_the_same() -> None:
    @njit
    def draw(rng):
        return rng.random(), rng.standard_normal(), rng.integers(0, 1000)

    one, other = stream(), stream()
    assert draw(one) == (other.random(), other.standard_normal(), other.integers(0, 1000))


def test_streams_differ_by_key_and_their_children_from_all() -> None:
    one = stream()
    drawn = [rng.random() for rng in (one, stream(1), *map(np.random.Generator, spawned(stream())))]
    assert len(set(drawn)) == 5
    again = [np.random.Generator(bits).random() for bits in spawned(stream())]
    assert again == drawn[2:]


def spawned(rng: np.random.Generator) -> list[ChaCha20]:
    bits: ChaCha20 = rng.bit_generator  # type: ignore[assignment]
    return bits.spawn(3)


def test_keys_are_of_32_bytes_and_never_stored() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        ChaCha20(b"short")
    with pytest.raises(TypeError, match="neither copied nor stored"):
        pickle.dumps(ChaCha20(bytes(32)))
