"""Streams: secret ones come from noise alone, keys see a row and nothing else."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from marginalsyn.errors import UsageError
from marginalsyn.privacy.noise import SecureNoise, SeededNoise
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.streams import (
    Key,
    PostStream,
    SecretStream,
    need_key,
    need_secret,
    sip_hash,
)

ALPHA = 1e-6


def words(*values: int) -> list[np.ndarray]:
    return [np.array([value], dtype=np.uint64) for value in values]


def test_the_hash_is_siphash() -> None:
    """The reference implementation's vectors for messages of 0 and of 8 bytes."""
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert sip_hash(key, words(0x0706050403020100))[0] == 0x93F5F5799A932462
    assert sip_hash(key, [np.zeros(0, np.uint64)]).shape == (0,)
    assert sip_hash(key, words(1, 2))[0] != sip_hash(key, words(2, 1))[0]


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=["secure", "seeded"])
def test_a_key_draws_uniformly(noise) -> None:
    key, rows = noise.key(), np.arange(20_000, dtype=np.uint64)[:, None]
    marks = key.marks(rows, np.zeros(len(rows), dtype=np.int64))
    one, other = key.uniform(marks, 3, 1), key.uniform(marks, 3, 2)
    for drawn in (one, other):
        assert stats.kstest(drawn, "uniform").pvalue > ALPHA
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    counts = np.bincount(key.integers(marks, 7), minlength=7)
    assert stats.chisquare(counts).pvalue > ALPHA
    assert counts.size == 7


def test_a_key_sees_the_row_and_its_rank_alone() -> None:
    key = SecureNoise().key()
    rows = np.random.default_rng(0).integers(0, 5, (50, 2)).astype(np.uint64)
    ranks = np.arange(50) % 3
    marks, order = key.marks(rows, ranks), np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(key.marks(rows[order], ranks[order]), marks[order])
    np.testing.assert_array_equal(key.marks(rows[7:8], ranks[7:8]), marks[7:8])
    assert len(np.unique(marks)) == len(np.unique(np.column_stack([rows, ranks]), axis=0))


def test_keys_and_secret_streams_are_new_each_time() -> None:
    noise, rows = SecureNoise(), np.zeros((1, 1), dtype=np.uint64)
    marks = {int(noise.key().marks(rows, np.zeros(1))[0]) for _ in range(20)}
    draws = {int(noise.secret().integers(2**62)) for _ in range(20)}
    draws |= {int(stream.integers(2**62)) for stream in noise.secret().spawn(3)}
    assert len(marks) == 20
    assert len(draws) == 23
    assert noise.key().private
    assert noise.secret().spawn(1)[0].private


def test_a_seed_makes_them_again_and_says_so() -> None:
    one, two, rows = SeededNoise(5), SeededNoise(5), np.zeros((1, 1), dtype=np.uint64)
    one.post.random(10)  # what post-processing draws moves nothing
    first = [one.secret().random() for _ in range(2)]
    assert first == [two.secret().random() for _ in range(2)]
    assert first[0] != first[1]
    assert one.key().marks(rows, np.zeros(1)) == two.key().marks(rows, np.zeros(1))
    assert not one.key().private
    assert not one.secret().spawn(1)[0].private


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecretStream(np.random.PCG64(0), private=True, token=None),
        lambda: Key(bytes(32), private=True, token=object()),
    ],
    ids=["stream", "key"],
)
def test_only_noise_makes_them(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="must come from noise"):
        make()


@pytest.mark.parametrize("made", [SecureNoise().secret(), SecureNoise().key()], ids=type)
def test_they_are_neither_copied_nor_stored(made: object) -> None:
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor stored"):
            take(made)
    assert "0x" not in repr(made) or isinstance(made, SecretStream)


def test_a_stream_for_post_processing_is_no_secret() -> None:
    noise = SecureNoise()
    assert isinstance(noise.post.spawn(1)[0], PostStream)
    for wrong in (noise.post, np.random.default_rng(0), noise.key()):
        with pytest.raises(UsageError, match="must be a SecretStream"):
            need_secret(wrong, "a chain")
    for wrong in (noise.post, noise.secret(), b"key"):
        with pytest.raises(UsageError, match="must be a Key"):
            need_key(wrong, "a teacher")
    assert need_secret(noise.secret(), "a chain")
    assert need_key(noise.key(), "a teacher")


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=["secure", "seeded"])
def test_rounded_noise_comes_with_its_values(noise) -> None:
    values = np.full((200, 3), 10**6)
    noisy = noise.draw(RoundedGaussian(2.0), values)
    assert noisy.shape == values.shape
    assert np.abs(noisy - values).max() < 40
    assert (noisy != values).mean() > 0.5
    ends = np.array([2**63 - 1, -(2**63)])
    assert (np.sign(noise.draw(RoundedGaussian(2.0**36), ends)) == [1, -1]).all()
    with pytest.raises(ValueError, match="integers"):
        noise.draw(RoundedGaussian(1.0), np.array([0.5]))


WRONG = """
import numpy as np
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.streams import SecretStream
def chain(moves: SecretStream) -> float: return moves.random()
def run(noise: Noise, heads: Heads, codes: np.ndarray) -> None:
    chain(noise.secret())
    heads.marks(codes, noise.key())
    chain(noise.post)
    chain(np.random.default_rng(0))
    heads.marks(codes, noise.post)
"""


@pytest.mark.slow
def test_the_type_checker_tells_streams_apart(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"]
    done = subprocess.run(
        [*command, str(tmp_path / "wrong.py")], cwd=root, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if "[arg-type]" in line]
    assert [line.split("wrong.py:")[1].split(":")[0] for line in lines] == ["10", "11", "12"]
