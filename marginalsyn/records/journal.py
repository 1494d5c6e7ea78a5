"""The journal: a run's paid answers on disk, so that an interrupted run can be resumed.

A journal holds what the run is (public), and every answer of its noise in order, with a
fingerprint of the public question. It never holds what would subtract to exact numbers: no private
value, no lot, no key, no stream that protects, no tape. Whoever reads it learns what readers of all
answers may learn, which is what the charge is for; the seed in it is that of post-processing, which
draws from the answers alone. (A seeded run's own seed is there as well: that run protects nobody.)

Every answer is flushed to the disk *before* the mechanism gets it, so nothing that depends on it
can be seen earlier. A record torn by a crash was therefore seen by nobody, and may be drawn anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import LedgerError, UsageError
from marginalsyn.libraries import heard, took_part
from marginalsyn.privacy.streams import PostStream
from marginalsyn.records.durable import append_bytes

if TYPE_CHECKING:
    from marginalsyn.access.prepaid_budget import PrepaidBudget
    from marginalsyn.privacy.laws import Used
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.privacy.streams import Key, SecretStream

MAGIC = b"marginalsyn journal 1\n"
_LENGTH, _CHECK = 8, 16


@dataclass(frozen=True)
class Answer:
    """One answer: a noisy result that a run has paid for.

    Attributes:
        question: the fingerprint of the question's public part, see :func:`fingerprint`.
        value: the noisy values that the mechanism received.
        laws: how many draws were recorded under each law.
        libraries: the libraries that had taken part by then, and what they did.
    """

    question: str
    value: np.ndarray
    laws: Mapping[str, int]
    libraries: Mapping[str, str] = field(default_factory=dict)


class Journal:
    """The file of one run: its public facts, then its answers.

    Attributes:
        path: the file, named by the id of the run's charge.
        facts: what the run is; all of it public.
        sealed: whether the ledger records that all answers are drawn: then there is no other one.

    Example:
        >>> path = Path("7c1d.journal")
        >>> journal = Journal.create(path, {"method": "mst"})
        >>> journal.append(Answer("8f1c", np.array([3, 1]), {}))
        >>> Journal.read(path).answer(0).value
        array([3, 1])
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], spans: Sequence[tuple[int, int]]):
        self.path, self.facts = path, dict(facts)
        self._spans = list(spans)
        self.sealed = False

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any]) -> Journal:
        """A new file; its facts are on the disk when this returns."""
        first = _packed({"facts": dict(facts)})
        append_bytes(path, MAGIC + first, 0)
        return cls(path, facts, [(len(MAGIC), len(first))])

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal of a run that ended early, without a torn last record.

        Raises:
            LedgerError: the file cannot be read or trusted.
        """
        try:
            spans = _scan(path)
            head, _ = _unpacked(_slice(path, spans[0]))
        except OSError as error:
            raise LedgerError(_distrust(path, error.strerror or "it cannot be read")) from error
        except (ValueError, KeyError, IndexError) as error:
            raise LedgerError(_distrust(path, str(error))) from error
        return cls(path, head["facts"], spans)

    def __len__(self) -> int:
        """The number of answers."""
        return len(self._spans) - 1

    def answer(self, number: int) -> Answer:
        """One of the answers; the first is number 0."""
        try:
            head, body = _unpacked(_slice(self.path, self._spans[number + 1]))
        except (OSError, ValueError) as error:
            raise LedgerError(_distrust(self.path, str(error))) from error
        stored = np.frombuffer(body, dtype=head["stored"]).reshape(head["shape"])
        value = stored.astype(head["type"])
        return Answer(head["question"], value, head["laws"], head["libraries"])

    def append(self, answer: Answer) -> None:
        """Append an answer; it is on disk when this returns.

        Raises:
            LedgerError: it cannot be written; then it must not be shown to anybody.
        """
        if self.sealed:
            raise LedgerError(
                f"journal ({self.path}) must hold every answer of its run, which the ledger says "
                "was complete, but one is lacking: begin a new run, which is charged"
            )
        stored = _narrow(answer.value)
        record = _packed(
            {
                "question": answer.question,
                "laws": dict(answer.laws),
                "libraries": dict(answer.libraries),
                "shape": list(answer.value.shape),
                "type": answer.value.dtype.str,
                "stored": stored.dtype.str,
            },
            np.ascontiguousarray(stored).tobytes(),
        )
        end = sum(self._spans[-1])
        try:
            if self.path.stat().st_size > end:
                os.truncate(self.path, end)
            append_bytes(self.path, record, end)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise LedgerError(
                f"journal ({self.path}) must be writable, but an answer could not be written: "
                f"{reason}. The answer was not used: free some space, then resume the run"
            ) from error
        self._spans.append((end, len(record)))


class ReplayedNoise:
    """Noise that writes every answer to a journal before it returns it.

    What the journal holds already is told again and drawn no second time. A new answer is drawn,
    written, then told. Lots, secret streams and keys are never written: a run that goes on draws
    others, and each answer's bound holds for every one of them. What a mechanism computes from a
    secret stream of its own it hands out through :meth:`answer`.

    Args:
        inner: draws what is new.
        journal: holds what is not.
        purse: the run's payments; the last one is part of a question's fingerprint.
    """

    def __init__(self, inner: Noise, journal: Journal, purse: PrepaidBudget | None = None) -> None:
        self._inner, self._journal, self._purse = inner, journal, purse
        self.used: Used = inner.used
        self._asked = 0
        self._noted = self.used.counts()
        same = inner.post_seed == self.post_seed
        self.post = inner.post if same else PostStream(np.random.PCG64(self.post_seed))

    @property
    def private(self) -> bool:
        return self._inner.private

    @property
    def description(self) -> str:
        return self._inner.description

    @property
    def post_seed(self) -> int:
        return int(self._journal.facts["post"], 16)

    @property
    def known(self) -> bool:
        """Whether the next answer is in the journal, so that nothing need be computed for it."""
        # A seeded noise is asked again all the same, to move its streams on.
        return self.private and self._asked < len(self._journal)

    def secret(self) -> SecretStream:
        return self._inner.secret()

    def key(self) -> Key:
        return self._inner.key()

    def lot(self, rows: int, rate: float) -> np.ndarray:
        return self._inner.lot(rows, rate)

    def gaussian(self, values: np.ndarray, sigma: float | np.ndarray) -> np.ndarray:
        return self._replay(
            "gaussian", np.shape(values), sigma, lambda: self._inner.gaussian(values, sigma)
        )

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self._replay(
            "laplace", np.shape(values), scale, lambda: self._inner.laplace(values, scale)
        )

    def rounded_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return self._replay(
            "rounded", np.shape(values), sigma, lambda: self._inner.rounded_gaussian(values, sigma)
        )

    def k_norm(self, values: np.ndarray, rate: Any) -> np.ndarray:
        return self._replay(
            "k-norm", np.shape(values), str(rate), lambda: self._inner.k_norm(values, rate)
        )

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        def draw() -> np.ndarray:
            return np.asarray(self._inner.select(scores, eps=eps, sensitivity=sensitivity))

        return int(self._replay("select", np.shape(scores), (eps, sensitivity), draw))

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See :meth:`marginalsyn.privacy.noise.SecureNoise.answer`."""
        return self._replay(what, (), 0.0, lambda: self._inner.answer(what, draw))

    def _replay(
        self, law: str, shape: Sequence[int], scale: Any, draw: Callable[[], np.ndarray]
    ) -> np.ndarray:
        paid = self._purse.entries[-1] if self._purse and self._purse.entries else {}
        paid = {name: value for name, value in paid.items() if name != "laws"}
        question = fingerprint(self._asked, law, shape, scale, paid)
        number, self._asked = self._asked, self._asked + 1
        if number >= len(self._journal):
            value = np.asarray(draw())
            laws = self.used.since(self._noted)
            self._journal.append(Answer(question, value, laws, heard()))
        else:
            kept = self._journal.answer(number)
            if kept.question != question:
                raise UsageError(
                    f"journal ({self._journal.path}) must be of the very run that goes on, but its "
                    f"answer {number + 1} is to another question: it was written by marginalsyn "
                    f"{self._journal.facts.get('version', '?')}; go on with that version, with the "
                    "same libraries"
                )
            value = kept.value
            for library, role in kept.libraries.items():
                took_part(library, role)
            if self.private:
                # Keys and secret streams were drawn afresh, and are counted already.
                since = self.used.since(self._noted)
                for one, times in kept.laws.items():
                    for _ in range(times - since.get(one, 0)):
                        self.used.note(one)
            else:
                draw()
        self._noted = self.used.counts()
        return value


def bare_noise(noise: Noise) -> Noise:
    """What draws, for draws whose result alone may be written down."""
    return noise._inner if isinstance(noise, ReplayedNoise) else noise


def fingerprint(
    number: int, law: str, shape: Sequence[int], scale: Any, paid: Mapping[str, Any]
) -> str:
    """A hash of what is public of a question: its place, law, shape and scale, and its payment."""
    scales = np.asarray(scale)
    told = scales.tolist() if scales.size < 8 else hashlib.sha256(scales.tobytes()).hexdigest()
    text = json.dumps([number, law, list(shape), told, dict(paid)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _packed(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A record: its length, a checksum, a line of JSON, the bytes of an array."""
    payload = json.dumps(head).encode() + b"\n" + body
    return len(payload).to_bytes(_LENGTH, "little") + _check(payload) + payload


def _unpacked(record: bytes) -> tuple[dict[str, Any], bytes]:
    payload = record[_LENGTH + _CHECK :]
    if _check(payload) != record[_LENGTH : _LENGTH + _CHECK]:
        raise ValueError("a record has changed")
    head, _, body = payload.partition(b"\n")
    return json.loads(head), body


def _check(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_CHECK).digest()


def _slice(path: Path, span: tuple[int, int]) -> bytes:
    with path.open("rb") as handle:
        handle.seek(span[0])
        return handle.read(span[1])


def _scan(path: Path) -> list[tuple[int, int]]:
    """Where the whole records are; only the last one may be torn."""
    size, spans = path.stat().st_size, []
    with path.open("rb") as handle:
        if handle.read(len(MAGIC)) != MAGIC:
            raise ValueError("it is not a journal of this version")
        start = len(MAGIC)
        while start < size:
            handle.seek(start)
            length = int.from_bytes(handle.read(_LENGTH), "little") + _LENGTH + _CHECK
            handle.seek(start)
            record = handle.read(min(length, size - start))
            try:
                if len(record) < length:
                    break
                _unpacked(record)
            except ValueError:
                # Power that fails may leave a last record of the right length, or zeros.
                if start + length == size or not (record + handle.read()).strip(b"\0"):
                    break
                raise
            spans.append((start, length))
            start += length
    if not spans:
        raise ValueError("it has no whole record")
    return spans


def _narrow(value: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as they take."""
    if value.dtype.kind != "i" or not value.size:
        return value
    kinds = (np.int8, np.int16, np.int32)
    low, high = int(value.min()), int(value.max())
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return value.astype(kind)
    return value


def _distrust(path: Path, what: str) -> str:
    return (
        f"journal ({path}) must be whole to go on with its run: {what}; restore the file, or give "
        "the run up by deleting it"
    )
