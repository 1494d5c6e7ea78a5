"""The estimator of weights by the label's chances, which several methods share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import LogWeights, Plan, Target, WeightEstimator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.noise import Noise
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import weighted_codes
from marginalsyn.weights.conditional import Chunks, Conditional
from marginalsyn.weights.label_correction import (
    NETWORK_STEPS,
    Ask,
    Fitted,
    LabelCorrection,
    ask_privately,
    ask_publicly,
)
from marginalsyn.weights.per_row import load_engine
from marginalsyn.weights.prediction import LINE_SEES, predict_gain
from marginalsyn.weights.raking import Answers, Cells, fit

PURPOSE = "gradients of the label's chances given the other columns"
# Of marginals that weights are raked back to: rows times their number, and cells of one, at most.
MOST_ENTRIES, MOST_CELLS = 2 * 10**7, 10**6
NOTHING = (
    "nothing of the label's relations was seen above the noise, so all weights are 1: the budget "
    "or the table is too small"
)


@dataclass(frozen=True, kw_only=True)
class LabelWeights(WeightEstimator):
    """Calibrated: full-batch sums of clipped gradients, each a Gaussian mechanism.

    A row's weight is p(y | x) / q(y | x): how much likelier its label is, given the row's other
    columns, among private rows than among released ones. What a person moves is one row's clipped
    gradient in every sum, of all blocks jointly; the sums' prices add up to rho.

    Args:
        target: the released rows.
        budget: what may be spent, in rho.
        mechanism: as the charge names it.
        units: hidden units; 0 is the linear form.
        steps: of the network's layers together.
        engine: that clips.
        shrink: whether a rehearsal's noise is taken off a network's outputs.
        log_weights: weights that the rows have already.
        known: q(y | x) of the released rows, where it was fitted before.
        sees: the share of what is missing that predictions take it to have words for.
        pairs: the share that predictions take to be kept of what two columns show together.
    """

    target: Target
    budget: Budget
    mechanism: str = "clipped gradients of the label's chances"
    units: int = 0
    steps: int = NETWORK_STEPS
    engine: str = "numpy"
    shrink: bool = True
    log_weights: np.ndarray | None = field(default=None, repr=False)
    known: Conditional | None = field(default=None, repr=False)
    sees: float = LINE_SEES
    pairs: float = 0.0

    @property
    def cost(self) -> tuple[Charge, ...]:
        details = {"sums": len(self.correction.multipliers), "units": self.units}
        return (self.budget.charge(self.mechanism, PURPOSE, self.budget.gaussian_cost, details),)

    @property
    def plan(self) -> Plan:
        noise, kept = self.correction.outlook()
        facts = {**self.facts, **self.prediction}
        return Plan(noise=noise, kept=kept, scores=True, facts=facts)

    @cached_property
    def prediction(self) -> dict[str, Any]:
        """What models of the label will gain."""
        kept = self.correction.foresee
        return predict_gain(self.target, self.conditional, kept, self.pairs, self.sees)

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        facts: dict[str, Any] = {
            "target": "label",
            "features": self.conditional.width,
            "label_directions": self.conditional.outputs,
            "engine": self.engine,
            "steps": len(self.correction.multipliers),
            "noise_multiplier": self.correction.multipliers[-1],
        }
        return {**facts, "units": self.units} if self.units else facts

    def prepare(self, *, progress: Progress) -> None:
        load_engine(self.engine, progress)

    def __call__(self, rows: Any, *, progress: Progress) -> LogWeights:
        private = Chunks(self.conditional, *weighted_codes(rows))
        start = rows.noise.post.integers(2**62)
        fitted = self._fit(ask_privately(rows, private, PURPOSE), start, progress, "train")
        own = fitted.outputs(self.conditional.rows)
        kept = 1.0
        notes: dict[str, Any] = {}
        if self.units and self.shrink:
            alone = self._alone(rows.noise, start, progress)
            kept, notes = signal_share(_spread(own), alone)

        def score(frame: pd.DataFrame) -> np.ndarray:
            given = self.conditional.encode(Codec(self.target.schema).encode(frame))
            return self.conditional.log_ratio(given, kept * fitted.outputs(given))

        values = self.conditional.log_ratio(self.conditional.rows, kept * own)
        nothing = float(np.std(values)) < 1e-3
        notes = {
            **self.facts,
            **notes,
            "clip_norms": list(fitted.clip_norms),
            "prior_variances": list(fitted.priors),
        }
        found = LogWeights(
            values=values, score=score, notes=notes, warnings=[NOTHING] if nothing else []
        )
        # Rows that were raked before are kept to what was measured when both steps are done.
        return (
            found if nothing or self.log_weights is not None else keep_measured(found, self.target)
        )

    def rehearse(self, noise: Noise, *, progress: Progress) -> float:
        """The noise in a log-weight: what a fit gives to released rows with labels drawn from q."""
        return self._alone(noise, noise.post.integers(2**62), progress)

    def _alone(self, noise: Noise, start: Any, progress: Progress) -> float:
        standing = self.conditional.standing(noise.post)
        ask = ask_publicly(standing, self.budget.neighbours, noise.post)
        fitted = self._fit(ask, start, progress, "rehearse")
        return _spread(fitted.outputs(self.conditional.rows))

    def _fit(self, ask: Ask, start: Any, progress: Progress, stage: str) -> Fitted:
        many = len(self.correction.multipliers)

        def report(step: int) -> None:
            progress.report(stage, fraction=step / many, text=f"step {step}")

        return self.correction.fit(ask, np.random.default_rng(int(start)), report)

    @cached_property
    def conditional(self) -> Conditional:
        """q(y | x) of the released rows."""
        return self.known or Conditional(self.target, self.log_weights)

    @cached_property
    def correction(self) -> LabelCorrection:
        """How the residual is fitted; what is predicted to be missing says how large it may be."""
        whole = predict_gain(self.target, self.conditional, lambda effect: 1.0)
        return LabelCorrection(
            conditional=self.conditional,
            neighbours=self.budget.neighbours,
            rho=self.budget.gaussian,
            units=self.units,
            steps=self.steps,
            engine=self.engine,
            missing=whole["predicted_gain"][1],
        )


def keep_measured(found: LogWeights, target: Target, raked: np.ndarray | None = None) -> LogWeights:
    """Rake weights back to the marginals that the release's generator has measured; free.

    What the rows say there is paid for already, and mostly more precise than what weights of the
    label's chances make of it. The optimum of :mod:`marginalsyn.weights.raking` with the weights as
    masses, the unweighted rows' counts as answers, and the noise of the generator's. ``raked`` are
    log-weights that bought marginals gave the rows: then the counts are those with these weights.
    """
    domain, codec = target.schema.domain, Codec(target.schema)
    known: dict[tuple[str, ...], float] = {}
    for one in target.release.measurements() if target.release is not None else ():
        mean, size = float(np.mean(one.sigma)), math.prod(domain.get(c, 0) for c in one.columns)
        if one.columns and mean > 0 and 0 < size <= MOST_CELLS:
            known[one.columns] = min(mean, known.get(one.columns, mean))
    most = MOST_ENTRIES // max(len(target.frame), 1)
    chosen = sorted(known, key=known.__getitem__)[:most]
    if not chosen or found.score is None:
        return found
    codes, before, total = codec.encode(target.frame), found.score, max(target.rows, 1.0)
    masses = target.persons * np.exp(found.values - found.values.max())
    cells = Cells.of(codes, domain, chosen, masses)
    sizes = [math.prod(domain[name] for name in columns) for columns in chosen]
    standing = target.persons * (1.0 if raked is None else np.exp(raked - raked.max()))
    counts = cells.totals(standing * (total / standing.sum()))
    sigma, slope = np.repeat([known[one] for one in chosen], sizes), np.zeros(cells.cells)
    theta = fit(cells, Answers(counts=counts, sigma=sigma, total=total, slope=slope), 1.0).theta

    def score(frame: pd.DataFrame) -> np.ndarray:
        return before(frame) + Cells.of(codec.encode(frame), domain, chosen).scores(theta)

    values, notes = found.values + cells.scores(theta), {"kept_marginals": len(chosen)}
    return replace(found, values=values, score=score, notes={**found.notes, **notes})


def _spread(outputs: np.ndarray) -> float:
    return float(np.sqrt(np.var(outputs, axis=0).sum()))


def signal_share(spread: float, alone: float) -> tuple[float, dict[str, float]]:
    """The factor for noisy log-weights, the share of their variance that is signal, with notes.

    It is the factor with the least mean squared error, once the noise's own spread is known.

    Example:
        >>> signal_share(2.0, 1.0)[0], signal_share(1.0, 2.0)[0]
        (0.75, 0.0)
    """
    kept = 0.0 if spread <= alone else 1.0 - (alone / spread) ** 2
    return kept, {"rehearsed_noise": alone, "kept_of_log_weights": kept}
