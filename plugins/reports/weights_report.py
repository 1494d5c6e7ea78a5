"""The report of weights: how unequal they are, and what weighted rows are worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.evaluation.charts import Histogram
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    by_column,
)
from marginalsyn.evaluation.view import Group, Item, Note, Table
from marginalsyn.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema

BINS = 30
# What is shown of every column of weights, and what it is called.
_SHOWN = {
    "rows": "rows",
    "effective_rows": "effective rows",
    "effective_share": "share",
    "k_hat": "k-hat",
    "top_1_percent_share": "top 1% carry",
    "largest": "largest",
}


class WeightsReport(Report):
    """Histogram, effective size, k-hat; all from released things."""

    name = "weights"
    title = "Weights"
    summary = "histogram, effective size and k-hat of the weights"
    place = 40
    scope = "release"
    on_terminal = False

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        frame = case.frame if case.release is not None else None
        logs = _tempered(case.log_weights, case.release)
        return _block(case.weights, logs, frame, case.synthetic.schema)

    def facts(self, block: Block) -> Iterable[Fact]:
        for name, facts in block["columns"].items():
            for metric in ("effective_rows", "effective_share", "k_hat"):
                yield Fact(name, metric, facts[metric])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        yield _MEANING
        columns = [
            (name if len(blocks) == 1 else f"{case}: {name}", facts)
            for case, block in blocks.items()
            for name, facts in block["columns"].items()
        ]
        rows = [(name, *(facts[key] for key in _SHOWN)) for name, facts in columns]
        yield Table(("weights", *_SHOWN.values()), rows, fold="Weights of all tables")
        charts = []
        for name, facts in columns:
            yield from (Note(caution, "warning") for caution in facts["cautions"])
            drawn = facts["histogram"]
            if drawn["counts"]:
                axis = "weight over mean, log10"
                charts.append(Histogram(name, drawn["edges"], drawn["counts"], axis))
        yield Group(charts)

    def publish(self, release: Release) -> Block | None:
        columns, logs = by_column(release.weights()), by_column(release.log_weights())
        return _block(columns, _tempered(logs, release), release.frame(), release.schema)


def _tempered(logs: Mapping[str, np.ndarray], release: Release | None) -> Mapping[str, np.ndarray]:
    """Log-weights as they are used, before smoothing and clipping: what k-hat is taken of."""
    from marginalsyn.weights.columns import columns_of

    columns = columns_of(release) if release is not None else {}
    steps = {name: columns.get(name, {}).get("processing", {}) for name in logs}
    return {name: float(steps[name].get("temper", 1.0)) * logs[name] for name in logs}


def _block(
    weights: Mapping[str, np.ndarray],
    logs: Mapping[str, np.ndarray],
    frame: pd.DataFrame | None,
    schema: Schema,
) -> Block | None:
    from marginalsyn.weights.effectiveness import cautions, diagnose

    if not weights:
        return None
    columns = {}
    for name, values in weights.items():
        raw = logs.get(name)
        if raw is None:
            with np.errstate(divide="ignore"):
                raw = np.log(values)
            # Rows of no weight have no place in the tail of large ones.
            raw = np.where(np.isfinite(raw), raw, np.min(raw[np.isfinite(raw)], initial=0.0))
        facts = diagnose(values, raw, frame, schema)
        columns[name] = {
            **facts,
            "cautions": cautions(facts, name),
            "zero_share": float(np.mean(values == 0)) if len(values) else 0.0,
            "histogram": _histogram(values),
        }
    return {"columns": columns}


def _histogram(values: np.ndarray) -> dict[str, Any]:
    positive = values[values > 0]
    if not len(positive):
        return {"edges": [], "counts": []}
    logs = np.log10(positive / values.mean())
    if np.ptp(logs) < 1e-9:
        logs = np.zeros_like(logs)
    counts, edges = np.histogram(logs, bins=BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


_MEANING = (
    "A weight says how much likelier a row is among the real rows than among the synthetic ones. "
    "Unequal weights cost precision: effective rows is how many unweighted rows they are worth. "
    "k-hat says how heavy the tail of large weights is: below 0.5 is good, above 0.7 their means "
    "cannot be trusted."
)
