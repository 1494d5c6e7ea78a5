"""Rows against a release's noisy marginals: how they agree, and what no weights can correct.

Weights make rows count more or less. Where a released noisy marginal counts real rows in a cell
that no synthetic row lies in, nothing can be weighted up. Everything here is released already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import Measurement, Target
from marginalsyn.errors import UsageError
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.model import Fitted
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import read_bought
from marginalsyn.weights.raking import Answers, Cells, unreachable

# Above these the share is a warning: this much, and this many deviations of the noise.
LOUD, CLEAR = 0.01, 4.0
MOST_PAIRS, MOST_CELLS = 2000, 10**6
# Answers whose noise alone shows a larger l1 error say nothing of rows.
MOST_NOISE = 0.5
Finding = tuple[float, float, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Support:
    """How much of the table lies where no row is, by the marginal that says most.

    Attributes:
        share: of the real rows, less what noise alone would show; 0 where it shows no more.
        deviation: the standard deviation of the share under noise alone.
        columns: of that marginal.
        marginals: how many were looked at.
    """

    share: float
    deviation: float
    columns: tuple[str, ...]
    marginals: int

    @property
    def lacking(self) -> bool:
        """Whether the rows clearly lack part of the table."""
        return self.share >= LOUD and self.share >= CLEAR * self.deviation

    def line(self) -> str:
        """The finding in one sentence."""
        if not self.lacking:
            return (
                f"the rows cover the table as far as {self.marginals} marginals tell "
                f"(out of reach: {self.share:.1%})"
            )
        return (
            f"at least {self.share:.1%} of the real rows lie where no row of the file is (by the "
            f"marginal of {', '.join(self.columns)}): no weights can stand for them. Draw rows "
            "again from the measurements, which is free"
        )

    def facts(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "out_of_reach": self.share,
            "deviation": self.deviation,
            "columns": list(self.columns),
            "marginals": self.marginals,
        }


def find_support(
    frame: pd.DataFrame,
    schema: Schema,
    measurements: Iterable[Measurement],
    model: tuple[Fitted, Compression] | None = None,
) -> Support | None:
    """Compare rows with what was released of the table; None where nothing was.

    Args:
        frame: rows typed by the schema.
        schema: of the rows.
        measurements: noisy marginals, over the schema's codes or the model's merged ones.
        model: a graphical model fitted to them. It has pairs that nobody measured, too: rows
            that a faulty sampler drew may have every measured marginal and yet be none of its rows.

    Example:
        >>> import pandas as pd
        >>> schema = Schema.from_domain({"a": 3})
        >>> rows = Codec(schema).conform(pd.DataFrame({"a": [0, 1]}))
        >>> counts = Measurement(columns=("a",), values=np.array([50.0, 30, 20]), sigma=1.0)
        >>> found = find_support(rows, schema, [counts])
        >>> round(found.share, 2), found.lacking
        (0.18, True)
    """
    codes = Codec(schema).encode(frame)
    maps = model[1].maps if model is not None else {}
    found = [*_by_counts(codes, schema, list(measurements), maps)]
    if model is not None:
        found += _by_model(codes, schema, *model)
    if not found:
        return None
    share, deviation, columns = max(found)
    return Support(
        share=min(max(share, 0.0), 1.0), deviation=deviation, columns=columns, marginals=len(found)
    )


def support_of(release: Release) -> Support | None:
    """The same for a release, by its measurements and its model."""
    model = release.model()
    fitted = stored_model(model) if model is not None and "pgm" in model.meta else None
    return find_support(release.frame(), release.schema, release.measurements(), fitted)


def _by_counts(
    codes: np.ndarray,
    schema: Schema,
    measurements: Sequence[Measurement],
    maps: Mapping[str, np.ndarray],
) -> Iterator[Finding]:
    """The share of rows in cells without one, and its deviation, of every noisy marginal."""
    total = max(1.0, estimate_total(measurements)[0]) if measurements else 1.0
    places = {name: place for place, name in enumerate(schema.names)}
    for one in measurements:
        own, domain = [], {}
        for axis, name in enumerate(one.columns):
            column, size = codes[:, places[name]], one.values.shape[axis]
            if size != schema.domain[name]:
                merged = maps.get(name)
                if merged is None or int(merged.max()) + 1 != size:
                    break
                column = merged[column]
            own.append(column)
            domain[name] = size
        else:
            cells = Cells.of(np.column_stack(own), domain, [one.columns])
            counts = np.asarray(one.values, dtype=float).ravel()
            sigma = np.broadcast_to(np.asarray(one.sigma, float), one.values.shape).ravel()
            answers = Answers(counts=counts, sigma=sigma, total=total, slope=np.zeros_like(counts))
            mass, deviation = unreachable(cells, answers)
            yield mass / total, deviation / total, one.columns


def _by_model(
    codes: np.ndarray, schema: Schema, fitted: Fitted, compression: Compression
) -> Iterator[Finding]:
    """The same of the model's pairs, beyond what so many rows drawn from it would leave empty."""
    merged = np.column_stack(
        [
            merge.groups[codes[:, schema.names.index(name)]]
            for name, merge in compression.merges.items()
        ]
    )
    names, rows = list(compression.merges), len(codes)
    pairs = list(itertools.combinations(range(len(names)), 2))
    # Those of the label first, where there are too many.
    pairs.sort(key=lambda pair: schema.label not in (names[pair[0]], names[pair[1]]))
    for pair in pairs[:MOST_PAIRS]:
        columns = (names[pair[0]], names[pair[1]])
        shape = tuple(fitted.domain[name] for name in columns)
        if math.prod(shape) > MOST_CELLS:
            continue
        shares = fitted.marginal(columns) / fitted.total
        filled = np.zeros(shape, dtype=bool)
        filled[tuple(merged[:, pair].T)] = True
        # A cell of share p stays empty with chance exp(-n p).
        empty = np.exp(-rows * shares)
        mass = float(shares[~filled].sum() - (shares * empty).sum())
        yield mass, float(np.sqrt((shares**2 * empty * (1 - empty)).sum())), columns


def agreement(release: Release, column: str) -> Mapping[str, Any] | None:
    """The mean l1 error of rows against the release's answers, without weights and with a column.

    ``noise`` is the error that the noise of the answers shows by itself: rows that agree with the
    private ones exactly would have it. None where no answer is precise enough.

    Example:
        >>> from marginalsyn import Release
        >>> weighted = Release.read("release").weight(frame, method="beta-noised", eps=1.0)
        >>> sorted(agreement(weighted, "beta-noised"))
        ['answers', 'noise', 'unweighted', 'weighted']
    """
    weights = release.weights()
    if weights is None:
        return None
    target = Target.of(release)
    codes, persons = CodedRows.of(target.frame, release.schema).codes, target.persons
    names, sizes = release.schema.names, release.schema.domain
    answers = _all_answers(release)
    # Answers count private rows, of which a release may have more or fewer.
    total = _total(answers)
    errors = []
    for one in answers:
        if not one.columns or np.shape(one.values) != tuple(sizes[c] for c in one.columns):
            continue  # added up, or the number of rows
        noise = float(np.broadcast_to(one.sigma, one.values.shape).sum())
        noise *= math.sqrt(2 / math.pi) / total
        if noise > MOST_NOISE:
            continue
        own = codes[:, [names.index(c) for c in one.columns]]
        index = np.ravel_multi_index(tuple(own.T), one.values.shape)
        noisy = one.values.ravel() / total
        errors.append(
            [
                *(
                    float(np.abs(_shares(index, noisy.size, mass) - noisy).sum())
                    for mass in (persons, persons * weights[column].to_numpy())
                ),
                noise,
            ]
        )
    if not errors:
        return None
    unweighted, weighted, noise = np.mean(errors, axis=0)
    return {
        "answers": len(errors),
        "unweighted": float(unweighted),
        "weighted": float(weighted),
        "noise": float(noise),
    }


def _all_answers(release: Release) -> list[Measurement]:
    """The generator's answers, and those that weights were bought with."""
    found = release.measurements()
    try:
        bought = read_bought(release)
    except UsageError:
        return found
    return [*found, *(one for some in bought for one in some.measurements)]


def _total(answers: Sequence[Measurement]) -> float:
    """The number of private rows, or persons: public where an answer says so, else estimated."""
    known = [float(one.values) for one in answers if not one.columns]
    return max(known[0] if known else estimate_total(answers)[0], 1.0)


def _shares(index: np.ndarray, cells: int, mass: np.ndarray) -> np.ndarray:
    counts = np.bincount(index, weights=mass, minlength=cells).astype(float)
    return counts / counts.sum()
