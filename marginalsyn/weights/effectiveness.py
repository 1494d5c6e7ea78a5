"""How much weighted rows are worth, computed from released data only, so it may be published."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.table.features import FeatureRows, Features
from marginalsyn.table.schema import Schema
from marginalsyn.weights.logistic import Labelled, fit_logistic
from marginalsyn.weights.processing import effective_size, pareto_smooth

# Vehtari et al. 2024: below 0.5 the variance is finite, above 0.7 no feasible number of rows helps,
# above 1 not even the mean exists.
USABLE_SHAPE = 0.7
WORDS = ("good", "usable", "unreliable", "very unreliable")
LEAST_SHARE = 0.1
MOST_TOP_SHARE = 0.5
_RIDGE = 1e-3
_MOST_FEATURES = 400


def likelihood_size(weights: np.ndarray, scores: np.ndarray, hessian: np.ndarray) -> float:
    """The number of unweighted rows that a weighted maximum-likelihood fit is worth.

    A fit that maximises sum w_i log p(x_i) has the sandwich variance H^-1 (sum w_i^2 s_i s_i') H^-1
    with scores s_i and H = sum w_i h_i. Its trace equals that of n unweighted rows of the weighted
    distribution at n = (sum w) (sum w q) / (sum w^2 q), q_i = ||H^-1 s_i||^2. Kish's size is the
    case of equal q.

    Args:
        weights: of the rows.
        scores: gradients of the log-likelihood at the fit, one row each.
        hessian: its negative Hessian at the fit, up to scale.
    """
    weights = np.asarray(weights, dtype=float) / max(float(np.max(weights, initial=0.0)), 1e-300)
    pulls = np.linalg.solve(hessian, scores.T)
    q = np.sum(pulls * pulls, axis=0)
    spent = float((weights**2) @ q)
    return float(weights.sum() * (weights @ q)) / spent if spent > 0 else 0.0


def label_size(weights: np.ndarray, frame: pd.DataFrame, schema: Schema) -> float | None:
    """:func:`likelihood_size` of a logistic regression of the schema's label on the other columns.

    None where the schema has no positive class, or too many features.
    """
    if schema.positive_code is None or schema.label is None or len(schema.names) < 2:
        return None
    from scipy.special import expit

    from marginalsyn.table.codec import Codec

    label = schema.names.index(schema.label)
    others = schema.select([name for name in schema.names if name != schema.label])
    features = Features(others)
    if features.width > _MOST_FEATURES or not len(frame):
        return None
    y = Codec(schema).encode(frame)[:, label] == schema.positive_code
    x = np.concatenate([*FeatureRows(features, features.codes_of(frame[others.names]))])
    weights = np.asarray(weights, dtype=float) / float(np.mean(weights))
    rows = Labelled([x], np.where(y, 1.0, -1.0), weights)
    fit = fit_logistic([rows], features.width, _RIDGE * len(x), 1e-12 * len(x))
    return likelihood_size(weights, x * (y - expit(x @ fit.beta))[:, None], fit.hessian)


def top_share(weights: np.ndarray) -> float:
    """How much of the total weight the heaviest 1% of the rows carry."""
    weights = np.sort(np.asarray(weights, dtype=float))
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    return float(weights[-max(1, math.ceil(0.01 * weights.size)) :].sum()) / total


def diagnose(
    weights: np.ndarray,
    log_weights: np.ndarray,
    frame: pd.DataFrame | None = None,
    schema: Schema | None = None,
) -> dict[str, Any]:
    """Everything a reader should know of a column of weights, as JSON values.

    Args:
        weights: as released.
        log_weights: tempered, before any smoothing, of which k-hat is taken.
        frame: the synthetic rows, for the size of a weighted fit.
        schema: of the rows.

    Returns:
        ``rows``, ``effective_rows``, ``effective_share``, ``k_hat`` (None where the tail is too
        short or flat), ``top_1_percent_share``, ``largest``, ``label_fit_rows``.

    Example:
        >>> diagnose(np.ones(50), np.zeros(50))["effective_share"]
        1.0
    """
    size = int(np.size(weights))
    shape = pareto_smooth(log_weights)[1] if size else -math.inf
    effective = effective_size(weights)
    mean = float(np.mean(weights)) if size else 0.0
    known = frame is not None and schema is not None and mean > 0
    fit = label_size(weights, frame, schema) if known else None  # type: ignore[arg-type]
    return {
        "rows": size,
        "effective_rows": effective,
        "effective_share": effective / size if size else 0.0,
        "k_hat": shape if math.isfinite(shape) else None,
        "top_1_percent_share": top_share(weights) if size else 0.0,
        "largest": float(np.max(weights)) / mean if mean > 0 else 0.0,
        "label_fit_rows": fit,
    }


def cautions(facts: dict[str, Any], name: str, noise: float | None = None) -> list[str]:
    """In words, when weights should not be used, or with care.

    Args:
        facts: what :func:`diagnose` gave.
        name: of the column.
        noise: the standard deviation of the noise in a log-weight, where it is known.
    """
    found = []
    shape, share = facts["k_hat"], facts["effective_share"]
    if facts["rows"] and facts["effective_rows"] == 0:
        return [f"weights {name}: all are 0; do not use them"]
    if shape is not None and shape > USABLE_SHAPE:
        meaning = "not even their mean is reliable" if shape > 1 else "their means are unreliable"
        found.append(
            f"weights {name}: k-hat is {shape:.2f}, above {USABLE_SHAPE}: {meaning}. Do not use "
            "them as they are; try --smooth psis, --temper 0.5, or no weights"
        )
    if facts["rows"] and share < LEAST_SHARE:
        found.append(
            f"weights {name}: {facts['rows']:,} weighted rows are worth only "
            f"{facts['effective_rows']:,.0f}; "
            "estimates from them vary a lot. Try --temper 0.5, or no weights"
        )
    if facts["top_1_percent_share"] > MOST_TOP_SHARE:
        found.append(
            f"weights {name}: 1% of the rows carry {facts['top_1_percent_share']:.0%} of the weight"
        )
    if noise is not None and noise > 1:
        found.append(
            f"weights {name}: noise alone moves a log-weight by {noise:.2g} (standard deviation); "
            "they hold more noise than signal, so prefer no weights or a larger budget"
        )
    return found


def say_worth(measured: Mapping[str, Any]) -> str:
    """Diagnostics in one line."""
    rows = f"{measured['effective_rows']:,.0f} unweighted ones"
    parts = [f"{measured['rows']:,} weighted rows are worth {rows}"]
    if measured["label_fit_rows"] is not None:
        fit = min(measured["label_fit_rows"], measured["rows"])
        parts.append(f"{fit:,.0f} for a fit of the label")
    if measured["k_hat"] is not None:
        word = WORDS[bisect_left((0.5, USABLE_SHAPE, 1.0), measured["k_hat"])]
        parts.append(f"k-hat {measured['k_hat']:.2f} ({word})")
    parts.append(f"the heaviest 1% carry {measured['top_1_percent_share']:.1%}")
    parts.append(f"largest {measured['largest']:.3g} times the mean")
    return ", ".join(parts)
