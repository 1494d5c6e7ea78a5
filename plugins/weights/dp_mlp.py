"""Weights from a small network trained by noised gradient steps, on TensorFlow Privacy or numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Plan, Target, WeightConfig, WeightEstimator, option
from marginalsyn.plugins.weights.label_weights import LabelWeights, signal_share
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, SubsampledGaussian
from marginalsyn.privacy.composition import find_noise_multiplier
from marginalsyn.privacy.noise import Noise
from marginalsyn.progress import Progress
from marginalsyn.table.features import FeatureRows, Features
from marginalsyn.weights.conditional import check_label, check_target, has_label
from marginalsyn.weights.dense import check_layers, check_number
from marginalsyn.weights.dp_sgd import Persons, Training, train
from marginalsyn.weights.label_correction import NETWORK_STEPS
from marginalsyn.weights.logistic import REFERENCE
from marginalsyn.weights.per_row import (
    RowNetwork,
    build_network,
    choose_engine,
    chunk_rows,
    load_engine,
)

RATE, STEPS = 0.1, 100
# Of the training, in the statement.
SHOWN = ("steps", "rate", "lot", "clip_norm", "noise_multiplier")
MOST_LOT = 8192
# Root mean square of the inputs' length, which clipping norm and learning rate suit.
LENGTH = 3.0
PURPOSE = "gradients of a network that tells real from synthetic"
NOTHING = (
    "the network found nothing above its own noise, so all weights are 1: the budget or the table "
    "is too small for dp-mlp"
)


@dataclass(frozen=True, kw_only=True)
class DpMlpConfig(WeightConfig):
    """A small network whose private gradients are clipped, summed and noised.

    With a label the network learns how its chances, given the other columns, differ from those in
    the released rows: full sums, each a plain Gaussian mechanism (``LabelWeights``).

    With ``target="rows"`` it learns to tell real rows from synthetic ones. Every step then draws a
    Poisson lot of private rows at a public rate and one Gaussian noise, for an empty lot too;
    synthetic rows are public and get none (Ghalebikesabi et al. 2022 draw the noise per row of the
    lot, which bounds no privacy loss). The noise is found from the budget. Rate, lot and steps are
    public; none is computed from the number of private rows, only from the release's noisy estimate
    of it.

    Example:
        >>> DpMlpConfig(steps=50).hidden
        (32, 16)
    """

    name = "dp-mlp"
    summary = "neural network on noised gradients; finds what is not linear"
    reference = REFERENCE
    counts_persons = True
    uses_label = True
    audit_options = {
        "hidden": (2,),
        "steps": 2,
        "rate": 0.5,
        "clip_norm": 1e-3,
        "engine": "numpy",
    }

    target: str | None = option(
        None,
        "What the network learns: 'label' (the label's chances given the other columns, which the "
        "weights then correct) or 'rows' (to tell real rows from synthetic ones). [default: label "
        "where the schema has one, else rows]",
    )
    hidden: tuple[int, ...] = option(
        (32, 16), "Number of units in each hidden layer; with --target label there is one."
    )
    steps: int | None = option(
        None, "Number of gradient steps of all layers. [default: 20, or 100 with --target rows]"
    )
    rate: float | None = option(
        None,
        "With --target rows: share of the private rows sampled in each step; else all are used. "
        "[default: 0.1, or less if that is more than 8192 rows]",
    )
    clip_norm: float = option(
        3.0, "With --target rows: clip the gradient of each row to this norm."
    )
    learning_rate: float = option(0.01, "With --target rows: learning rate (Adam).")
    crosses: str = option(
        "none",
        "With --target rows: add products of columns as inputs: 'none', 'label' (the label with "
        "all others), 'all', or pairs such as 'age:sex'.",
    )
    shrink: bool = option(
        True,
        "Shrink what the network says by the share of its variance that is noise. Another training "
        "on synthetic rows estimates it: this costs no privacy and doubles the time.",
    )

    engine: str | None = option(
        None,
        "What clips the rows' gradients: 'tensorflow-privacy' or 'numpy'. Both give the same sums. "
        "[default: tensorflow-privacy where the extra is installed, else numpy]",
    )

    def __post_init__(self) -> None:
        check_layers("hidden", self.hidden)
        choose_engine(self.engine)
        check_target(self.target)
        if self.steps is not None:
            check_number("steps", self.steps, 1, 100_000, whole=True)
        if self.rate is not None:
            check_number("rate", self.rate, 1e-12, 1)
        check_number("clip_norm", self.clip_norm, 1e-6, 1e6)
        check_number("learning_rate", self.learning_rate, 1e-6, 10)

    def configure(self, target: Target, budget: Budget) -> DpMlp | LabelWeights:
        if self.target == "label" or (self.target is None and has_label(target)):
            check_label(target)
            return LabelWeights(
                mechanism="clipped gradients of a network",
                target=target,
                budget=budget,
                units=self.hidden[0],
                steps=self.steps or NETWORK_STEPS,
                engine=choose_engine(self.engine),
                shrink=self.shrink,
            )
        steps = self.steps or STEPS
        rate = self.rate if self.rate is not None else min(RATE, MOST_LOT / max(target.rows, 1.0))
        training = Training(
            rate=rate,
            steps=steps,
            lot=max(1, round(rate * target.rows)),
            clip_norm=self.clip_norm,
            noise_multiplier=find_noise_multiplier(
                budget.eps, budget.delta, budget.neighbours, rate, steps
            ),
            learning_rate=self.learning_rate,
        )
        return DpMlp(
            config=self,
            engine=choose_engine(self.engine),
            target=target,
            budget=budget,
            training=training,
            features=Features(target.schema, self.crosses),
        )


@dataclass(frozen=True, kw_only=True)
class DpMlp(WeightEstimator):
    """Calibrated to tell real rows from synthetic: ``steps`` sampled Gaussian steps."""

    config: DpMlpConfig
    engine: str
    target: Target
    budget: Budget
    training: Training
    features: Features

    @property
    def cost(self) -> tuple[Charge, ...]:
        training = self.training
        cost = SubsampledGaussian(
            noise_multiplier=training.noise_multiplier, rate=training.rate, steps=training.steps
        )
        details = {"clip_norm": training.clip_norm, "lot": training.lot}
        return (self.budget.charge("DP-SGD", PURPOSE, cost, details=details),)

    @property
    def plan(self) -> Plan:
        return Plan(scores=True, facts=self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        return {
            "engine": self.engine,
            "features": self.features.width - 1,
            "hidden": list(self.config.hidden),
            **{name: getattr(self.training, name) for name in SHOWN},
        }

    def prepare(self, *, progress: Progress) -> None:
        load_engine(self.engine, progress)

    def __call__(self, rows: Visit, *, progress: Progress) -> LogWeights:
        network = self._network(rows.noise)
        rows.pay_all(PURPOSE)
        start = network.parameters
        private = self._persons(rows) if rows.persons else self._inputs(rows)
        self._train(network, private, rows.noise, progress)
        values, kept, warnings = self._synthetic.map(network.log_odds), 1.0, list[str]()
        notes = dict[str, float]()
        if self.config.shrink:
            trained = network.parameters
            network.assign(start)
            alone = self._rehearse(network, rows.noise, progress)
            network.assign(trained)
            kept, notes = signal_share(float(np.std(values)), alone)
            warnings = [] if kept > 0 else [NOTHING]

        def score(frame: pd.DataFrame) -> np.ndarray:
            return kept * self._inputs(frame).map(network.log_odds)

        return LogWeights(
            values=kept * values, score=score, notes={**self.facts, **notes}, warnings=warnings
        )

    def rehearse(self, noise: Noise, *, progress: Progress) -> float:
        """The noise in a log-weight: what training gives where synthetic rows stand for private."""
        return self._rehearse(self._network(noise), noise, progress)

    def _rehearse(self, network: RowNetwork, noise: Noise, progress: Progress) -> float:
        standing = self._drawn.repeated(round(self.target.rows))
        self._train(network, standing, noise, progress, "rehearse")
        return float(np.std(self._synthetic.map(network.log_odds)))

    def _network(self, noise: Noise) -> RowNetwork:
        chunk = chunk_rows(self.training.lot)
        width = self.features.width - 1
        return build_network(self.engine, width, self.config.hidden, noise.post, chunk)

    def _train(
        self,
        network: RowNetwork,
        private: _Inputs | Persons,
        noise: Noise,
        progress: Progress,
        stage: str = "train",
    ) -> None:
        def report(step: int) -> None:
            fraction = step / self.training.steps
            progress.report(stage, fraction=fraction, text=f"step {step}")

        train(network, private, self._drawn, self.training, noise, report)

    @cached_property
    def _synthetic(self) -> _Inputs:
        return self._inputs(self.target.frame)

    @cached_property
    def _drawn(self) -> _Inputs:
        """The rows that a step draws from: as many, each as often as it stands for a person."""
        masses = self.target.masses
        if masses is None:
            return self._synthetic
        steps = np.floor(np.cumsum(masses) + 0.5)
        often = np.diff(steps, prepend=0.0).astype(int)
        return self._inputs(self.target.frame.iloc[np.repeat(np.arange(len(often)), often)])

    @cached_property
    def _scale(self) -> float:
        """The scale at which the synthetic rows have the length that the defaults are tuned for."""
        length = math.sqrt(float(self._design.variances.sum()))
        return LENGTH / length if length > 1e-6 else 1.0

    @cached_property
    def _design(self) -> FeatureRows:
        codes = self.features.codes_of(self.target.frame)
        return FeatureRows(self.features, codes, self.target.masses)

    def _inputs(self, rows: Visit | pd.DataFrame) -> _Inputs:
        codes = self.features.codes_of(rows)
        return _Inputs(self.features, codes, self._design.mean, self._scale)

    def _persons(self, rows: Visit) -> Persons:
        """The rows of private persons: what a step samples, sums and clips is a person."""
        codes, weights, numbers = rows.all_rows(person=True)
        inputs = _Inputs(self.features, codes, self._design.mean, self._scale)
        assert weights is not None
        assert numbers is not None
        return Persons(inputs, weights, numbers)


class _Inputs:
    """The network's inputs, made of codes when they are asked for.

    The features centred and scaled by public numbers, without the constant: the network has
    constants of its own.
    """

    def __init__(
        self, features: Features, codes: np.ndarray, centre: np.ndarray, scale: float
    ) -> None:
        self._features, self._codes, self._centre, self._scale = features, codes, centre, scale

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        vectors = self._features.of_codes(self._codes[positions])
        return ((vectors - self._centre) * self._scale)[:, :-1]

    def repeated(self, rows: int) -> _Inputs:
        """The rows repeated until there are as many as asked for."""
        codes = np.resize(self._codes, (rows if len(self) else 0, self._codes.shape[1]))
        return _Inputs(self._features, codes, self._centre, self._scale)

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A number for every row, some thousands at a time."""
        parts = np.array_split(np.arange(len(self)), len(self) // 8192 + 1)
        return np.concatenate([function(self[part]) for part in parts])
