"""Weights from the scorer that a release carries: a discriminator that was trained privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from marginalsyn.discrimination import REFERENCE
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.registry import GENERATORS, find
from marginalsyn.weights import LogWeights, Outlook, Scorer

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.budget import Charge
    from marginalsyn.generators.base import Model
    from marginalsyn.progress import Progress
    from marginalsyn.weights import Allowance, Target

CRITIC = (
    "the release's scorer is a critic whose values are no log-odds: exp() of them is not a density "
    "ratio, and these weights correct for nothing in particular. Temper or calibrate them"
)


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """The discriminator of a generative adversarial network, as weights at no further cost.

    Only parameters that were trained under the release's own charges may be used: the
    discriminator of a network whose discriminator steps are all charged, or the student, never the
    teachers, of one trained by noisy votes. The generator vouches for that by offering a scorer;
    see :class:`marginalsyn.weights.Scorer`.

    Example:
        >>> DiscriminatorConfig().reads
        False
    """

    name: ClassVar[str] = "discriminator"
    summary: ClassVar[str] = "the release's own discriminator, where it carries one; costs nothing"
    reference: ClassVar[str] = REFERENCE
    private: ClassVar[bool] = True
    reads: ClassVar[bool] = False

    def configure(self, target: Target, allowance: Allowance) -> Discriminator:
        model = target.release.model() if target.release is not None else None
        scorer = None if model is None else find(GENERATORS, model.kind)
        kind = getattr(scorer, "scores", None)
        if model is None or kind is None:
            raise UsageError(
                "release must carry a scorer for the method 'discriminator': generate with a "
                "method that trains one, or take another --method"
            )
        if kind not in ("log-odds", "critic"):
            raise PluginError(f"scores ({kind}) of '{model.kind}' must be 'log-odds' or 'critic'")
        assert scorer is not None
        return Discriminator(target=target, model=model, scorer=scorer)


@dataclass(frozen=True, kw_only=True)
class Discriminator:
    """Post-processing of a release."""

    target: Target
    model: Model
    scorer: Scorer

    @property
    def cost(self) -> tuple[Charge, ...]:
        return ()

    @property
    def outlook(self) -> Outlook:
        return Outlook(scores=True, facts=self.facts, warnings=self.warnings)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts for the statement."""
        return {"scorer": self.model.kind, "scores": self.scorer.scores}

    @property
    def warnings(self) -> list[str]:
        """What to say where exp(score) is no ratio."""
        return [CRITIC] if self.scorer.scores == "critic" else []

    def __call__(self, rows: None, *, progress: Progress) -> LogWeights:
        def score(frame: pd.DataFrame) -> np.ndarray:
            found = self.scorer.score(self.model, self.target.schema, frame)
            return np.asarray(found, dtype=np.float64)

        return LogWeights(
            values=score(self.target.frame),
            score=score,
            notes=self.facts,
            warnings=self.warnings,
        )
