"""Noise whose answers are kept, so that an interrupted run can be resumed.

Every answer is on the disk *before* the mechanism gets it (:mod:`marginalsyn.records.runs`), so
nothing that depends on it can be seen earlier. An answer that a crash kept from being written was
therefore seen by nobody, and may be drawn again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.libraries import heard, took_part
from marginalsyn.privacy.streams import PostStream
from marginalsyn.records.runs import Answer, Journal

if TYPE_CHECKING:
    from marginalsyn.access.prepaid_budget import PrepaidBudget
    from marginalsyn.privacy.laws import Used
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.privacy.streams import Key, SecretStream


class ReplayedNoise:
    """Noise that writes every answer to a journal before it returns it.

    What the journal holds already is repeated and drawn no second time. A new answer is drawn,
    written, then returned. Lots, secret streams and keys are not written: a run that goes on draws
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
