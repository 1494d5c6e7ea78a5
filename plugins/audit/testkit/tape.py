"""The test kit's tape: with the same noisy answers, two neighbouring tables must look the same.

A mechanism may use private rows only by way of what its noise hands out. :class:`Tape` is a noise
that answers every question from a fixed list, whatever the private numbers in it are. A run on it
shows two things. What still differs between two neighbouring tables (an error, a message, a byte
of a file) came past the noise. And since both tables are asked the same questions, the private
numbers in the questions can be compared: their distance, in units of the noise, is a privacy loss
that really happens, and it must not exceed what was charged.

Everything that a release shows of :attr:`noise.post` is public, so a mechanism whose proof rests on
its draws has no proof. On a tape post-processing draws the same numbers for both tables; a
mechanism that draws for its private rows draws more of them for the larger one.

With pytest, next to the checks of :mod:`marginalsyn.plugins.audit.testkit.generators`::

    from marginalsyn.plugins.audit.testkit.tape import check_generator_on_tape

    def test_side_doors():
        check_generator_on_tape(MyConfig)
"""

from __future__ import annotations

import contextlib
import io
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import build_config
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.audit.testkit.generators import (
    ROWS,
    Options,
    made_up_rows,
    neighbours_of_every_kind,
    run_generator,
    tape_schema,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, Charge, Neighbours, Pure, SubsampledGaussian
from marginalsyn.privacy.gdp import amount_of, pure_mu, selection_mu
from marginalsyn.privacy.laws import DiscreteGaussian, Gaussian, Law, PoissonSample
from marginalsyn.privacy.noise import DRAWN, SeededNoise, Used
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.streams import Key, PostStream, SecretStream
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.weights.columns import publish

# Payments whose noise the visit itself draws; any other is for what a mechanism draws on its own.
_DOORS = {law.mechanism for law in DRAWN if law is not PoissonSample}
_OWN_LAWS = {"expanded secret", "rounded Gaussian", "Poisson sample"}
WRONG = (
    "noise.post must not be drawn from for private rows: what a proof rests on comes from "
    "noise.secret(), or from noise.key() and the row alone"
)
SEED = 3
# Rows beyond the tables' common ones are in every lot: they are what is to be seen.
COMMON = ROWS - 1
# Beyond the rounding of a sum in floating point.
SLACK = 1 + 1e-6
# Files that show what a Markov chain on the rows drew.
OF_CHAINS = ("synthetic.csv", "index.html", "model.npz")
Payments = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    """The private numbers that an answer was asked for, and the law of the answer."""

    law: Law
    values: np.ndarray

    @property
    def selects(self) -> bool:
        """Whether candidates were scored, and not sums noised."""
        return isinstance(self.law, ExponentialMechanism)

    @property
    def rounded(self) -> bool:
        """Whether Gaussian noise is rounded, as that of steps on sampled lots is."""
        return isinstance(self.law, RoundedGaussian)


Asked = list[tuple[Question, Question]]
"""The questions of two neighbouring tables, in order."""


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


@dataclass
class Tape:
    """A noise whose answers ignore what is private, and that remembers its questions.

    Attributes:
        public: the questions without their private numbers, in order.
        questions: the same with them.
        drawn: how far the stream for post-processing had been drawn at each.
    """

    seed: int = SEED
    public: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)

    private = True
    known = False
    description = "a tape"

    def __post_init__(self) -> None:
        self.used = Used("fixed answers")
        self._noise, self._lots = SeededNoise(self.seed), 0
        self._rng = np.random.default_rng(self.seed)
        self.post = WatchedStream(self._noise.post.bit_generator)
        self.post_seed = self.seed

    def secret(self) -> SecretStream:
        self.used.note("expanded secret")
        return self._noise.secret()

    def key(self) -> Key:
        self.used.note("keyed hash")
        return self._noise.key()

    def draw(self, law: Law, values: Any) -> Any:
        """An answer to a question that is remembered, or a lot."""
        self.used.note(law.name)
        if isinstance(law, PoissonSample):
            return self._lot(law, values)
        question = Question(law, np.array(values))
        if question.selects:
            question = Question(law, question.values.astype(float))
            assert not np.isnan(question.values).any(), "scores must be numbers"
        else:
            whole = question.values.dtype.kind in "iu"
            assert whole, "sums of private values must be whole numbers"
        self.drawn.append(self.post.drawn)
        self.public.append(f"{law.question} {np.shape(values)} {law.parameters!r}")
        self.questions.append(question)
        return self._answer(question, values)

    def answer(self, what: str, draw: Callable[[], np.ndarray]) -> np.ndarray:
        self.public.append(what)
        return draw()

    def _lot(self, law: PoissonSample, rows: int) -> np.ndarray:
        """The same positions for both tables, and those that one has and the other lacks."""
        self._lots += 1
        self.public.append(f"lot {law.rate}")
        drawn = np.random.default_rng([self.seed, self._lots]).random(max(rows, COMMON)) < law.rate
        drawn[COMMON:] = True
        return np.flatnonzero(drawn[:rows])

    def _answer(self, question: Question, values: Any) -> Any:
        """An answer whose law does not depend on the values."""
        if question.selects:
            return int(self._rng.choice(np.flatnonzero(question.values > -np.inf)))
        if question.rounded:
            return self._noise.draw(question.law, np.zeros(np.shape(values), dtype=np.int64))
        return self._rng.integers(0, 40, np.shape(values))


@dataclass(frozen=True)
class RunOutput:
    """Everything that a run lets out, and the tape that it ran on."""

    said: Mapping[str, Any]
    files: Mapping[str, bytes]
    charges: Sequence[Charge]
    tape: Tape
    payments: Payments = ()


class _Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        self.lines.append(f"{stage} {fraction} {text}")


def check_generator_on_tape(
    kind: Any,
    options: Options = None,
    *,
    pair: str | None = None,
    chain: bool = False,
) -> None:
    """A generator has no side door, sums in whole numbers, and spends no more than it charges.

    Args:
        kind: the config class.
        options: of the config.
        pair: one of :func:`neighbours_of_every_kind`; all by default.
        chain: the output is drawn from a law that depends on the rows, so that the rows and their
            file's hash may differ; its cost is not to be seen on a tape.
    """
    pairs = neighbours_of_every_kind()
    for name in pairs if pair is None else [pair]:
        left, right, neighbours = pairs[name]
        first, second = (generated_on_tape(kind, options, t, neighbours) for t in (left, right))
        check_same(first, second, drawn=OF_CHAINS if chain else ())
        if chain:
            continue
        check_realised_cost(first, second)
        if len(left) > 1:
            _check_order(first, generated_on_tape(kind, options, left.iloc[::-1], neighbours))


def check_weights_on_tape(kind: Any, options: Options = None, *, pair: str | None = None) -> None:
    """A weight estimator has no side door, and spends no more than it charges."""
    pairs = neighbours_of_every_kind()
    for name in pairs if pair is None else [pair]:
        left, right, neighbours = pairs[name]
        first, second = (weighted_on_tape(kind, options, t, neighbours) for t in (left, right))
        check_same(first, second)
        check_realised_cost(first, second)


def check_realised_cost(first: RunOutput, second: RunOutput) -> None:
    """What two tables' answers cost must be paid for: see :class:`Costs`."""
    asked = list(zip(first.tape.questions, second.tape.questions, strict=True))
    for one, other in asked:
        if isinstance(one.law, ExponentialMechanism):
            assert shift_between(one, other) <= one.law.eps * SLACK, (
                "scores move by more than their sensitivity"
            )
    costs = Costs(asked=asked, charges=tuple(first.charges))
    assert costs.step <= SLACK, f"a step moves by {costs.step:g} of what its multiplier allows"
    assert costs.spent <= costs.charged * SLACK, (
        f"answers cost {costs.unit} {costs.spent:g}, charged were {costs.charged:g}"
    )


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What the answers on two neighbouring tables really cost, and what was charged for them.

    The answers' laws differ by a shift of known size. Its cost in GDP (as mu^2 / 2) where all
    charges are priced in mu, else in zCDP, or in eps where all charges are pure, is added up and
    compared with the charges; a step on a sampled lot that has the row is compared with its
    multiplier. That is a lower bound of the privacy loss, and for counts it is the loss itself.

    Attributes:
        asked: the questions in order, of both tables.
        charges: what was charged.
    """

    asked: Asked
    charges: tuple[Charge, ...]

    @property
    def unit(self) -> Literal["mu", "rho", "eps"]:
        """The unit of ``spent`` and ``charged``; mu counts as mu^2 / 2."""
        whole = self._whole
        if whole and all(isinstance(c.cost, Pure) for c in whole):
            return "eps"
        exact = any(isinstance(c.cost, GDP) for c in whole)
        return "mu" if exact and all(c.mu is not None for c in whole) else "rho"

    @property
    def charged(self) -> float:
        """The claim, without steps on sampled lots."""
        if self.unit == "eps":
            return math.fsum(c.cost.eps for c in self._whole if isinstance(c.cost, Pure))
        if self.unit == "mu":
            return math.fsum(amount_of(charge.mu or 0.0) for charge in self._whole)
        return math.fsum(charge.rho or 0.0 for charge in self._whole)

    @property
    def spent(self) -> float:
        """What the answers cost, without steps on sampled lots."""
        cost = {"eps": shift_between, "rho": self.rho, "mu": self.amount}[self.unit]
        return math.fsum(cost(*pair) for pair in self.asked if not self._is_step(pair[0]))

    @property
    def step(self) -> float:
        """How far the worst step moves, relative to what its multiplier allows."""
        steps = [shift_between(*pair) for pair in self.asked if self._is_step(pair[0])]
        if not steps:
            return 0.0
        # Under replace a row is taken out and another put in.
        most = 2.0 if self.charges[0].neighbours is Neighbours.REPLACE else 1.0
        return max(steps) * min(cost.noise_multiplier for cost in self.sampled) / most

    @property
    def sampled(self) -> list[SubsampledGaussian]:
        """The costs of steps on sampled lots."""
        return [c.cost for c in self.charges if isinstance(c.cost, SubsampledGaussian)]

    def _is_step(self, question: Question) -> bool:
        return question.rounded and bool(self.sampled)

    @property
    def _whole(self) -> list[Charge]:
        return [c for c in self.charges if not isinstance(c.cost, SubsampledGaussian)]

    def rho(self, one: Question, other: Question) -> float:
        """The zCDP cost between the laws of two answers."""
        return one.law.rho_of_shift(shift_between(one, other))

    def amount(self, one: Question, other: Question) -> float:
        """The GDP cost between the laws of two answers; infinite where noise has no mu."""
        shift = shift_between(one, other)
        if one.selects:
            return selection_mu(shift) ** 2 / 2
        if isinstance(one.law, DiscreteGaussian) and shift:
            return math.inf
        return shift**2 / 2 if isinstance(one.law, Gaussian) else pure_mu(shift) ** 2 / 2


def shift_between(one: Question, other: Question) -> float:
    """How far two answers' laws are from each other: standard deviations, or eps."""
    possible = _finite(one, other)
    assert (np.isfinite(one.values) == np.isfinite(other.values)).all(), (
        "which candidates can be drawn must not depend on rows"
    )
    if one.selects:
        return one.law.shift(one.values[possible] - other.values[possible])
    return one.law.shift(np.subtract(one.values, other.values, dtype=float))


def _finite(one: Question, other: Question) -> np.ndarray:
    return np.isfinite(one.values) & np.isfinite(other.values)


def check_same(first: RunOutput, second: RunOutput, drawn: Sequence[str] = ()) -> None:
    """Equal but for the files that are ``drawn`` and their hashes."""
    check_drawn(first, second)
    for part, said in first.said.items():
        assert said == second.said[part], f"{part}: {said} or {second.said[part]}"
    assert first.tape.public == second.tape.public, "the questions must not depend on rows"
    assert list(first.charges) == list(second.charges), "the charges must not depend on rows"
    assert list(first.files) == list(second.files), "the files must not depend on rows"
    for name, data in first.files.items():
        other = second.files[name]
        if drawn and name == "privacy.json":
            data, other = (text.partition(b'"files":')[0] for text in (data, other))
        if name not in drawn:
            assert data == other, f"{name} must be the same where all answers are"


def check_drawn(first: RunOutput, second: RunOutput) -> None:
    """Two neighbouring tables' runs on a tape have drawn the same numbers for post-processing."""
    for heard in (first, second):
        assert heard.said["error"] is None, heard.said["error"]
    for one, other in zip(first.tape.drawn, second.tape.drawn, strict=False):
        assert one == other, WRONG
    named = dict.fromkeys(str(payment.get("mechanism")) for payment in first.payments)
    own = [name for name in named if name not in _DOORS]
    secret = _OWN_LAWS & set(first.tape.used.counts())
    assert not own or secret, (
        f"a mechanism that pays for draws of its own ({', '.join(own)}) must take them from "
        "noise.secret(), not from noise.post"
    )
    # What follows the end of a chain is post-processing of that, and may differ as the ends do.
    if not own or first.files == second.files:
        assert first.tape.post.drawn == second.tape.post.drawn, WRONG


def _check_order(first: RunOutput, reversed_: RunOutput) -> None:
    """Sums must not depend on the order of rows, as sums of floats do.

    Scores may by what the sampler's proof allows: half its grid, 2^-21 of the sensitivity.
    """
    asked = zip(first.tape.questions, reversed_.tape.questions, strict=True)
    for one, other in asked:
        if isinstance(one.law, ExponentialMechanism):
            moved = np.abs(one.values - other.values)[_finite(one, other)].max(initial=0.0)
            most = one.law.sensitivity * 2.0**-21
            assert moved <= most, "scores must hardly depend on the rows' order"
        elif not one.rounded:
            assert (one.values == other.values).all(), "sums must not depend on the rows' order"


def generated_on_tape(
    kind: Any,
    options: Options,
    frame: pd.DataFrame,
    neighbours: Neighbours,
    tape: Tape | None = None,
) -> RunOutput:
    """A generator's run on a tape."""

    def run(tape: Tape, ledger: Ledger, listener: Any, folder: Path) -> Payments:
        schema = tape_schema()
        table = PrivateTable.open(frame, schema, ledger=ledger, neighbours=neighbours)
        budget = Budget(eps=2, neighbours=neighbours)
        config = build_config(kind, options)
        synthesis, statement = generate(table, config, budget, noise=tape, progress=listener)
        Release.write(synthesis, schema, statement, folder)
        return statement.payments

    return run_on_tape(run, tape)


def weighted_on_tape(
    kind: Any,
    options: Options,
    frame: pd.DataFrame,
    neighbours: Neighbours,
    generator: Any = IndependentConfig,
    tape: Tape | None = None,
) -> RunOutput:
    """A weight estimator's run on a tape, for a release of this generator."""

    def run(tape: Tape, ledger: Ledger, listener: Any, folder: Path) -> Payments:
        schema = tape_schema()
        how: Any = {"options": {"rows": ROWS}, "eps": 4, "neighbours": neighbours, "seed": 1}
        made = run_generator(generator, made_up_rows(60, seed=8), schema, **how)
        release = Release.write(made.synthesis, schema, made.statement, folder)
        config: Any = build_config(kind, options)
        table = PrivateTable.open(frame, schema, ledger=ledger, neighbours=neighbours)
        budget = Budget(eps=1, neighbours=neighbours)
        weighted = weigh(release, config, budget, table, noise=tape, progress=listener)
        publish(release, weighted, noise=tape)
        return weighted.payments

    return run_on_tape(run, tape)


def run_on_tape(
    run: Callable[[Tape, Ledger, Any, Path], Payments], tape: Tape | None = None
) -> RunOutput:
    """Run in a folder of its own and collect whatever comes out."""
    ledger, listener = Ledger(None), _Listener()
    tape = Tape() if tape is None else tape
    payments: Payments = ()
    out, err, error = io.StringIO(), io.StringIO(), None
    with (
        tempfile.TemporaryDirectory() as place,
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        # Libraries announce their future while they are first imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        folder = Path(place) / "release"
        try:
            payments = run(tape, ledger, listener, folder)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}".replace(place, "PLACE")
        found = sorted(p for p in folder.rglob("*") if p.is_file()) if folder.exists() else []
        files = {str(path.relative_to(folder)): path.read_bytes() for path in found}
        lines = [line.replace(place, "PLACE") for line in listener.lines]
    said = {
        "error": error,
        "progress": lines,
        "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
        "stdout": out.getvalue(),
        "stderr": err.getvalue(),
    }
    return RunOutput(said, files, ledger.read().charges, tape, payments)
