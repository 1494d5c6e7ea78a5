"""Weights from a release's own scorer: a discriminator that was trained privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import (
    Duties,
    LogWeights,
    Model,
    Plan,
    Scorer,
    Target,
    WeightConfig,
    WeightEstimator,
)
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress
from marginalsyn.registry import GENERATORS, find
from marginalsyn.weights.logistic import REFERENCE

FREE = (
    "nothing: the scorer's parameters were trained by what the release's charges paid for, and "
    "scoring released rows with them is post-processing"
)
CRITIC = (
    "the release's scorer is a critic, whose values are no log-odds: exp() of them is not a ratio "
    "of densities. Generate with --loss non-saturating, or calibrate on public real rows with "
    "--calibrate isotonic --public FILE"
)


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig(WeightConfig):
    """The discriminator of a generative adversarial network, as weights at no further cost.

    Only parameters that were trained under the release's own charges may be used: the
    discriminator of a network whose discriminator steps are all charged, or the student, never the
    teachers, of one trained by noisy votes. The generator vouches for that by offering a scorer;
    see :class:`marginalsyn.contract.Scorer`. A Wasserstein critic is refused unless the
    host calibrates it on public real rows: released rows alone cannot say what its values mean.

    Example:
        >>> DiscriminatorConfig().reads
        False
    """

    name = "discriminator"
    summary = "the release's own discriminator, where it carries one; costs nothing"
    reference = REFERENCE
    reads = False

    def configure(self, target: Target, budget: Budget) -> Discriminator:
        model = target.release.model() if target.release is not None else None
        scorer = None if model is None else find(GENERATORS, model.kind, reading=True)
        if model is None or Duties(scorer).scores is None:
            raise UsageError(
                "release must carry a scorer for the method 'discriminator': generate with a "
                "method that trains one (dpgan, dpcgan, pategan), or take another --method"
            )
        assert scorer is not None
        kind = model.meta.get("scores", scorer.scores)
        if kind not in ("log-odds", "critic"):
            raise PluginError(f"scores ({kind}) of '{model.kind}' must be 'log-odds' or 'critic'")
        return Discriminator(target=target, model=model, scorer=scorer, critic=kind == "critic")


@dataclass(frozen=True, kw_only=True)
class Discriminator(WeightEstimator):
    """Post-processing of a release."""

    target: Target
    model: Model
    scorer: Scorer
    critic: bool

    @property
    def plan(self) -> Plan:
        return Plan(
            scores=True,
            facts=self.facts,
            uncalibrated=CRITIC if self.critic else "",
            warnings=[CRITIC] if self.critic else [],
        )

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts for the statement."""
        kind = "critic" if self.critic else "log-odds"
        return {"scorer": self.model.kind, "scores": kind, "charged": FREE}

    def __call__(self, rows: None, *, progress: Progress) -> LogWeights:
        schema = self.target.schema.without(self.model.followers)

        def score(frame: pd.DataFrame) -> np.ndarray:
            found = self.scorer.score(self.model, schema, frame[schema.names])
            return np.asarray(found, dtype=np.float64)

        return LogWeights(values=score(self.target.frame), score=score, notes=self.facts)
