"""What no weights can do: the share of the real rows that no row of a file can stand for.

Weights make rows count more or less. Where a released noisy marginal counts real rows in a cell
that no synthetic row lies in, nothing can be weighted up. Everything here is released already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.generators.marginals import stored_model
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.weights.raking import Answers, Cells, unreachable

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.graphical.compression import Compression
    from marginalsyn.graphical.model import Fitted
    from marginalsyn.release.folder import Release

# Above these the share is told loudly: this much, and this many deviations of the noise.
LOUD, CLEAR = 0.01, 4.0
MOST_PAIRS, MOST_CELLS = 2000, 10**6
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
            "anew from the measurements, which is free"
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
    """Hold rows against what was released of the table; None where nothing was.

    Args:
        frame: rows typed by the schema.
        schema: of the rows.
        measurements: noisy marginals, over the schema's codes or the model's merged ones.
        model: a graphical model fitted to them. It tells of pairs that nobody measured, too: rows
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
        share=min(max(share, 0.0), 1.0),
        deviation=deviation,
        columns=columns,
        marginals=len(found),
    )


def support_of(release: Release) -> Support | None:
    """The same for a release, by the measurements and the model that it holds."""
    model = release.model()
    held = stored_model(model) if model is not None and "pgm" in model.meta else None
    return find_support(release.frame(), release.schema, release.measurements(), held)


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
        [merge.groups[codes[:, j]] for j, merge in enumerate(compression.merges.values())]
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
