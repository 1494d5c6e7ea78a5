"""The test kit's check of every published number, down to its lowest bit.

On neighbouring tables a release must be able to hold the same values: a number that only one of
them can give shows the row, however rarely it comes. Here that is made sure of in two steps.

* All that noise hands out is whole numbers, or the place of a candidate, and every whole number can
  be an answer whatever the rows are: questions are whole numbers far from the ends of int64, and
  candidates that cannot be drawn are the same for both tables.
* All that is published is a function of these answers and of public things. A first run keeps its
  answers, which :class:`ReplayedTape` draws honestly; a second one on the neighbouring table is
  given the same answers, and every file must come out the same to the byte.

Noise in floating point, a float sum of rows, or one that only shows in the last place of a number
fails the second step. With pytest, next to the checks of
:mod:`marginalsyn.plugins.audit.testkit.tape`::

    from marginalsyn.plugins.audit.testkit.lowest_bits import check_generator_bits

    def test_lowest_bits():
        check_generator_bits(MyConfig)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marginalsyn.contract import Duties
from marginalsyn.plugins.audit.testkit.generators import Options
from marginalsyn.plugins.audit.testkit.tape import (
    Question,
    RunOutput,
    Tape,
    check_same,
    generated_on_tape,
    neighbours_of_every_kind,
    weighted_on_tape,
)

PAIR = "a strange row"
# Beyond this a sum with noise could saturate, and a value at the end tells where it came from.
FAR = 2**61


@dataclass
class ReplayedTape(Tape):
    """A tape that answers as noise does and keeps its answers, or gives those of another run.

    Attributes:
        script: answers to give, in order; None draws them.
        answers: those that were given.
    """

    script: Sequence[Any] | None = None
    answers: list[Any] = field(default_factory=list)

    def _answer(self, question: Question, values: Any) -> Any:
        turn = len(self.answers)
        if self.script is None:
            self.answers.append(self._noise.draw(question.law, values))
        else:
            assert turn < len(self.script), "the questions must not depend on rows"
            self.answers.append(self.script[turn])
        answer = np.array(self.answers[turn])
        assert answer.dtype.kind == "i", "answers must be whole numbers"
        shape = () if question.selects else question.values.shape
        assert answer.shape == shape, "the questions must not depend on rows"
        return question.law.restored(answer)


def check_generator_bits(
    kind: Any, options: Options = None, *, pair: str = PAIR, drawn: Sequence[str] = ()
) -> None:
    """Every number in a generator's release is a public function of whole-number answers.

    Args:
        kind: the config class.
        options: of the config, over its ``audit_options``.
        pair: one of :func:`marginalsyn.plugins.audit.testkit.tape.neighbours_of_every_kind`.
        drawn: files that a Markov chain on the rows draws, whose law depends on the rows.
    """
    check_bits(generated_on_tape, kind, options, pair=pair, drawn=drawn)


def check_weight_bits(kind: Any, options: Options = None, *, pair: str = PAIR) -> None:
    """The same of what an estimator adds to a release: weights, raw log-weights and notes."""
    check_bits(weighted_on_tape, kind, options, pair=pair)


def check_bits(
    run: Callable[..., RunOutput],
    kind: Any = None,
    options: Options = None,
    *,
    pair: str = PAIR,
    drawn: Sequence[str] = (),
) -> None:
    """Run twice with the same answers on two neighbouring tables, and compare every byte.

    Args:
        run: ``run(kind, options, frame, neighbours, tape=...)`` makes a release under a tape.
    """
    left, right, neighbours = neighbours_of_every_kind()[pair]
    knobs = {**Duties(kind).audit_options, **(options or {})}
    first = run(kind, knobs, left, neighbours, tape=ReplayedTape())
    answers = _answers(first)
    second = run(kind, knobs, right, neighbours, tape=ReplayedTape(script=answers))
    for question in (*first.tape.questions, *second.tape.questions):
        if not question.selects:
            assert np.abs(question.values).max(initial=0) < FAR, (
                f"{question.law.name}: sums near the ends of int64 saturate, which shows them"
            )
    check_same(first, second, drawn)
    assert len(_answers(second)) == len(answers), "the questions must not depend on rows"
    for one, other in zip(first.tape.questions, second.tape.questions, strict=True):
        finite = np.isfinite(one.values) == np.isfinite(other.values)
        assert finite.all(), "which candidates can be drawn must not depend on rows"


def _answers(heard: RunOutput) -> list[Any]:
    assert isinstance(heard.tape, ReplayedTape)
    return heard.tape.answers
