"""The noise of a run with a journal: what the journal holds is replayed, the rest is drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.libraries import took_part, used_libraries
from marginalsyn.privacy.streams import PostStream
from marginalsyn.records.runs import Answer, Journal

if TYPE_CHECKING:
    from marginalsyn.access.prepaid_budget import PrepaidBudget
    from marginalsyn.privacy.laws import Law
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.privacy.streams import Key, SecretStream


class ReplayedNoise:
    """Noise that writes every answer to a journal before it returns it.

    An answer that the journal has is returned again and not drawn a second time; a new one is
    drawn, written, then returned. Lots, secret streams and keys are never written: a run that goes
    on draws others, and each answer's bound holds for every one of them. What a mechanism computes
    from a secret stream of its own it hands out through :meth:`answer`.

    Args:
        inner: draws what is new.
        journal: keeps the answers.
        prepaid: the run's payments; the last one is part of a question's fingerprint.
    """

    def __init__(
        self, inner: Noise, journal: Journal, prepaid: PrepaidBudget | None = None
    ) -> None:
        self.inner, self._journal, self._prepaid = inner, journal, prepaid
        self.used = inner.used
        self.private, self.description = inner.private, inner.description
        self.post_seed = int(journal.facts["post"], 16)
        self._asked = 0
        self._noted = self.used.counts()
        same = inner.post_seed == self.post_seed
        self.post = inner.post if same else PostStream(np.random.PCG64(self.post_seed))

    @property
    def known(self) -> bool:
        """Whether the next answer is in the journal, so that nothing need be computed for it."""
        # A seeded noise is asked again all the same, to move its streams on.
        return self.private and self._asked < len(self._journal)

    def secret(self) -> SecretStream:
        return self.inner.secret()

    def key(self) -> Key:
        return self.inner.key()

    def draw(self, law: Law, values: Any) -> Any:
        """See :meth:`marginalsyn.privacy.noise.SecureNoise.draw`."""

        def draw() -> Any:
            return self.inner.draw(law, values)

        if not law.journaled:
            return draw()
        return law.restored(self._replay(law.question, np.shape(values), law.parameters, draw))

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See :meth:`marginalsyn.privacy.noise.SecureNoise.answer`."""
        return self._replay(what, (), 0.0, lambda: self.inner.answer(what, draw))

    def _replay(
        self, question: str, shape: Sequence[int], parameters: Any, draw: Callable[[], Any]
    ) -> np.ndarray:
        paid = self._prepaid.entries[-1] if self._prepaid and self._prepaid.entries else {}
        paid = {name: value for name, value in paid.items() if name != "laws"}
        asked = fingerprint(self._asked, question, shape, parameters, paid)
        number, self._asked = self._asked, self._asked + 1
        if number >= len(self._journal):
            value = np.asarray(draw())
            laws = self.used.since(self._noted)
            self._journal.append(Answer(asked, value, laws, used_libraries()))
        else:
            kept = self._journal.answer(number)
            if kept.question != asked:
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
                # Keys and secret streams were drawn again, and are counted already.
                since = self.used.since(self._noted)
                for law, times in kept.laws.items():
                    for _ in range(times - since.get(law, 0)):
                        self.used.note(law)
            else:
                draw()
        self._noted = self.used.counts()
        return value


def bare_noise(noise: Noise) -> Noise:
    """The noise that draws, for draws of which the result alone may be written down."""
    return noise.inner if isinstance(noise, ReplayedNoise) else noise


def fingerprint(
    number: int, question: str, shape: Sequence[int], parameters: Any, paid: Mapping[str, Any]
) -> str:
    """A hash of what is public of a question: its place, law, shape, parameters and payment."""
    found = np.asarray(parameters)
    known = found.tolist() if found.size < 8 else hashlib.sha256(found.tobytes()).hexdigest()
    public = [number, question, list(shape), known, dict(paid)]
    text = json.dumps(public, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
