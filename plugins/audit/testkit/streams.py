"""The test kit's check of random streams: computations on private rows must not use noise.post.

Everything that a release shows of :attr:`noise.post` is public, so a mechanism whose proof rests on
its draws has no proof. On a :class:`~marginalsyn.plugins.audit.testkit.tape.Tape` two
neighbouring tables get the same answers, so that post-processing draws the same numbers; a
mechanism that draws for its private rows draws more of them for the larger table.

With pytest, next to the checks of :mod:`marginalsyn.plugins.audit.testkit.generators`::

    from marginalsyn.plugins.audit.testkit.streams import check_streams

    def test_streams():
        check_streams(MyConfig)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marginalsyn.privacy.laws import PoissonSample
from marginalsyn.privacy.noise import DRAWN
from marginalsyn.privacy.streams import PostStream

if TYPE_CHECKING:
    from marginalsyn.plugins.audit.testkit.tape import RunOutput

# Payments whose noise the visit itself draws; any other is for what a mechanism draws on its own.
_DOORS = {law.mechanism for law in DRAWN if law is not PoissonSample}
_OWN_LAWS = {"expanded secret", "rounded Gaussian", "Poisson sample"}
_PAIR = "a strange row"


class WatchedStream(PostStream):
    """A stream for post-processing that knows how far it and its children have been drawn."""

    def __init__(self, bits: Any) -> None:
        super().__init__(bits)
        self._children: list[WatchedStream] = []

    def spawn(self, n_children: int) -> list[WatchedStream]:  # type: ignore[override]
        bits: Any = self.bit_generator
        made = [WatchedStream(child) for child in bits.spawn(n_children)]
        self._children += made
        return made

    @property
    def drawn(self) -> str:
        """A text that changes with every number drawn."""
        states = [repr(self.bit_generator.state), *(child.drawn for child in self._children)]
        return " ".join(states)


def check_streams(kind: Any, options: Mapping[str, Any] | None = None) -> None:
    """A generator draws nothing for private rows from the stream for post-processing."""
    from marginalsyn.plugins.audit.testkit.tape import generated_on_tape, neighbours_of_every_kind

    left, right, neighbours = neighbours_of_every_kind()[_PAIR]
    check_drawn(*(generated_on_tape(kind, options, t, neighbours) for t in (left, right)))


def check_weight_streams(kind: Any, options: Mapping[str, Any] | None = None, **how: Any) -> None:
    """The same for a weight estimator; one for research, without protection, may draw at will."""
    if not kind.private:
        return
    from marginalsyn.plugins.audit.testkit.tape import neighbours_of_every_kind, weighted_on_tape

    left, right, neighbours = neighbours_of_every_kind()[_PAIR]
    check_drawn(*(weighted_on_tape(kind, options, t, neighbours, **how) for t in (left, right)))


def check_drawn(first: RunOutput, second: RunOutput) -> None:
    """Two neighbouring tables' runs on a tape have drawn the same numbers for post-processing."""
    for heard in (first, second):
        assert heard.said["error"] is None, heard.said["error"]
    for one, other in zip(first.tape.drawn, second.tape.drawn, strict=False):
        assert one == other, WRONG
    own = own_payments(first.payments)
    secret = _OWN_LAWS & set(first.tape.used.counts())
    assert not own or secret, (
        f"a mechanism that pays for draws of its own ({', '.join(own)}) must take them from "
        "noise.secret(), not from noise.post"
    )
    # What follows the end of a chain is post-processing of that, and may differ as the ends do.
    if not own or first.files == second.files:
        assert first.tape.post.drawn == second.tape.post.drawn, WRONG


def own_payments(payments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The mechanisms paid for whose noise no door draws."""
    named = dict.fromkeys(str(payment.get("mechanism")) for payment in payments)
    return [name for name in named if name not in _DOORS]


WRONG = (
    "noise.post must not be drawn from for private rows: what a proof rests on comes from "
    "noise.secret(), or from noise.key() and the row alone"
)
