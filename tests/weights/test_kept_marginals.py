"""Weights of the label's chances, raked back to what the release's generator has measured."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from marginalsyn import Schema
from marginalsyn.contract import LogWeights, Measurement, Target
from marginalsyn.plugins.weights.label_weights import keep_measured

SCHEMA = Schema.from_domain({"a": 3, "b": 4, "y": 2}).model_copy(update={"label": "y"})
PAIRS = (("a", "b"), ("b", "y"))


def released(sigma: float, rows: int = 3000) -> Target:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, s, rows) for n, s in SCHEMA.domain.items()})
    told = [
        Measurement(columns=c, values=np.zeros([SCHEMA.domain[n] for n in c]), sigma=sigma)
        for c in PAIRS
    ]
    release = SimpleNamespace(measurements=lambda: told)
    return Target(frame=frame, schema=SCHEMA, rows=float(rows), release=release)  # type: ignore[arg-type]


def tilted(frame: pd.DataFrame) -> np.ndarray:
    """Log-weights that move the label with a, and b with both."""
    return (0.6 * frame["y"] * frame["a"] + 0.3 * frame["b"] * frame["y"]).to_numpy(float)


def moved(target: Target, values: np.ndarray, columns: tuple[str, ...]) -> float:
    """The l1 distance of a marginal from that of the unweighted rows."""
    weights, keys = np.exp(values), [target.frame[name] for name in columns]
    now = pd.Series(weights).groupby(keys).sum() / weights.sum()
    return float((now - target.frame.groupby(keys).size() / len(values)).abs().sum())


def test_what_was_measured_stays_as_the_rows_have_it_and_the_rest_is_corrected() -> None:
    target = released(2.0)
    raw = LogWeights(values=tilted(target.frame), score=tilted)
    kept = keep_measured(raw, target)
    for pair in PAIRS:
        assert moved(target, raw.values, pair) > 0.1
        assert moved(target, kept.values, pair) < 0.01
    # How the label goes with a, which nobody measured, stays corrected.
    assert moved(target, kept.values, ("a", "y")) > 0.15
    # Other rows are scored as these are.
    assert kept.score is not None
    np.testing.assert_allclose(kept.score(target.frame), kept.values)
