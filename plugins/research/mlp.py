"""Weights from a small neural network without any protection: a reference for research."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import Unprotected
from marginalsyn.contract import LogWeights, Plan, Target, WeightConfig, WeightEstimator, option
from marginalsyn.privacy.budget import Budget
from marginalsyn.progress import Progress
from marginalsyn.table.features import Features
from marginalsyn.weights.logistic import REFERENCE, LinearConfig, LinearEstimator


@dataclass(frozen=True, kw_only=True)
class LogregConfig(LinearConfig):
    """The regression of ``beta-noised`` without noise. **Not private.**

    Example:
        >>> LogregConfig().private
        False
    """

    name = "logreg"
    summary = "logistic regression without noise; not private, for research"
    private = False

    def configure(self, target: Target, budget: Budget) -> LinearEstimator:
        regression = self.regression(target, budget.neighbours, lambda _: 0.0)
        return LinearEstimator(regression=regression)


@dataclass(frozen=True, kw_only=True)
class MlpConfig(WeightConfig):
    """scikit-learn's multi-layer perceptron as the classifier. **Not private.**

    Example:
        >>> MlpConfig(hidden=(8,)).hidden
        (8,)
    """

    name = "mlp"
    summary = "neural network without noise; not private, for research"
    reference = REFERENCE
    private = False

    hidden: tuple[int, ...] = option((32, 16), "Number of units in each hidden layer.")
    decay: float = option(0.01, "Weight decay: the penalty on the squared norm of the parameters.")
    epochs: int = option(60, "Largest number of passes over the rows.")
    crosses: str = option(
        "none",
        "Add products of columns as inputs: 'none', 'label' (the label with all others), "
        "'all', or pairs such as 'age:sex'.",
    )

    def configure(self, target: Target, budget: Budget) -> Mlp:
        features = Features(target.schema, self.crosses)
        return Mlp(config=self, target=target, features=features)


@dataclass(frozen=True, kw_only=True)
class Mlp(WeightEstimator):
    """Ready to fit. It costs no budget because it gives no privacy."""

    config: MlpConfig
    target: Target
    features: Features

    @property
    def plan(self) -> Plan:
        return Plan(noise=0.0, scores=True, facts={"features": self.features.width})

    def __call__(self, rows: Unprotected, *, progress: Progress) -> LogWeights:
        import warnings

        from scipy.special import expit
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        progress.report("fit", text=f"{self.features.width} features")
        real = self._vectors(rows)
        synthetic = self._vectors(self.target.frame)
        values = np.zeros(len(synthetic))
        if not len(real) or not len(synthetic):
            return LogWeights(values=values)
        network = MLPClassifier(
            hidden_layer_sizes=self.config.hidden,
            alpha=self.config.decay,
            max_iter=self.config.epochs,
            batch_size=min(200, len(real) + len(synthetic)),
            random_state=0,
        )
        labels = np.concatenate([np.ones(len(real)), np.zeros(len(synthetic))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(np.concatenate([real, synthetic]), labels)

        def score(frame: pd.DataFrame) -> np.ndarray:
            chance = network.predict_proba(self._vectors(frame))[:, 1]
            chance = np.clip(chance, expit(-30.0), expit(30.0))
            return np.log(chance) - np.log1p(-chance)

        return LogWeights(values=score(self.target.frame), score=score)

    def _vectors(self, rows: Unprotected | pd.DataFrame) -> np.ndarray:
        """Features without the constant: the network has constants of its own."""
        return self.features.of_codes(self.features.codes_of(rows))[:, :-1]
