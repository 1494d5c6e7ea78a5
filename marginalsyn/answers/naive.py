"""What a fit on the synthetic rows prints: it knows neither the noise nor that rows are made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from marginalsyn.answers.atoms import Atoms, table_rows
from marginalsyn.answers.quantiles import Quantile
from marginalsyn.answers.risk import Risk
from marginalsyn.table.codec import Codec

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.answers.estimation import Problem
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True)
class SyntheticRows:
    """Rows as a table, as codes, and each one's share of the whole."""

    frame: pd.DataFrame
    codes: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(
        cls, frame: pd.DataFrame, schema: Schema, weights: np.ndarray | None = None
    ) -> SyntheticRows:
        """Rows that count alike, or by their weights."""
        own = np.ones(len(frame)) if weights is None else np.asarray(weights, dtype=float)
        return cls(frame, Codec(schema).encode(frame), own / max(own.sum(), 1e-300))

    @classmethod
    def read(cls, release: Release, column: str | None) -> SyntheticRows:
        """Those of a release, by a column of its weights."""
        frame = release.weights() if column else None
        weights = None if frame is None else frame[column].to_numpy(float)
        return cls.of(release.frame(), release.schema, weights)


def naive_fit(
    problem: Problem, rows: SyntheticRows, confidence: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates and the ends of their intervals."""
    question, schema = problem.question, problem.evidence.schema
    if problem.atoms.shape is None:
        atoms = Atoms.of_rows(rows.frame, rows.codes, schema, question.columns)
        weights, squares = rows.shares, np.square(rows.shares)
    else:
        atoms = Atoms.grid(schema, question.columns)
        assert atoms.shape is not None
        places = tuple(rows.codes[:, schema.names.index(c)] for c in question.columns)
        keys = np.ravel_multi_index(places, atoms.shape)
        weights, squares = (
            np.bincount(keys, own, minlength=len(atoms.codes))
            for own in (rows.shares, np.square(rows.shares))
        )
    statistic = question.on(atoms)
    value = statistic.value(weights)
    error = np.sqrt(squares @ np.square(statistic.influence(weights, value)))
    half = float(norm.ppf(0.5 + confidence / 2)) * error
    size = table_rows(problem.evidence) if question.scale == "count" else 1.0
    low, high = (value - half) * size, (value + half) * size
    if isinstance(question, Quantile):
        low_, high_ = question.between(low, high)
        return np.array([question.invert(value)[0]]), np.array([low_]), np.array([high_])
    if isinstance(question, Risk):  # a fit prints nothing of the kind
        return (np.array([np.nan]),) * 3
    return value * size, low, high
