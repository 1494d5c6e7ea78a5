"""Public margins in a fit: answers without noise, which the fitted model then has exactly.

A fit sees them as answers about as noisy as the others, so that its steps stay long. Afterwards the
model's potentials are moved until it has them: of all models, that is the one nearest to the fitted
one (iterative proportional fitting). All of it follows from public numbers and paid answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.graphical.model import Fitted
from marginalsyn.graphical.targets import Layout
from marginalsyn.table.schema import Schema

# The purpose of a marginal that is public: nothing was measured for it.
PUBLIC = "public margin"
# Its standard deviation, in rows: that of a number without noise, but above 0.
EXACT = 1e-6
# A cell that a margin leaves empty gets so much of a row, so that potentials stay finite.
_EMPTY = 1e-6
_ROUNDS, _CLOSE = 200, 1e-7


def public_columns(schema: Schema) -> dict[str, np.ndarray]:
    """The shares of every column that a margin gives, by the most exact of several."""
    ranked = sorted(schema.public_margins, key=lambda m: m.half * len(m.places))
    found: dict[str, np.ndarray] = {}
    for margin in ranked:
        for name in margin.columns:
            values, _ = margin.over([name])
            found.setdefault(name, values / values.sum())
    return {name: found[name] for name in schema.names if name in found}


def public_answers(schema: Schema, total: float) -> list[Measurement]:
    """The margins of a schema as answers, of a table of so many rows."""
    return [
        Measurement(columns=m.columns, values=m.counts(total), sigma=EXACT, purpose=PUBLIC)
        for m in schema.public_margins
    ]


def eased(observed: Sequence[Measurement]) -> list[Measurement]:
    """The answers as a fit takes them: exact ones as if half as noisy as the best of the others."""
    noisy = [float(np.min(m.sigma)) for m in observed if m.purpose != PUBLIC]
    sigma = max(min(noisy, default=2.0) / 2, EXACT)
    return [replace(m, sigma=sigma) if m.purpose == PUBLIC else m for m in observed]


def match(fitted: Fitted, margins: Sequence[Measurement]) -> Fitted:
    """The model, its potentials moved until it has the margins, which its cliques hold.

    Example:
        >>> from marginalsyn.graphical.model import fit
        >>> model = fit({"a": 2, "b": 2}, [], total=8)
        >>> exact = Measurement(columns=("a",), values=np.array([2.0, 6.0]), sigma=EXACT)
        >>> match(model, [exact]).marginal(("a",)).round(4)
        array([2., 6.])
    """
    contraction, layout = fitted.contraction, Layout(fitted.domain)
    aims = []
    for margin in margins:
        place = contraction.scopes.index(layout.scope(margin.columns))
        counts = np.maximum(layout.arranged(margin.columns, margin.values), _EMPTY)
        aims.append((place, counts / counts.sum()))
    for _ in range(_ROUNDS if aims else 0):
        off = 0.0
        for place, aim in aims:
            found = contraction.marginals[place]
            off = max(off, float(np.abs(aim - found).sum()))
            possible = found > 1e-300  # else what it is multiplied by may be beyond all numbers
            contraction.logs[place][possible] += np.log(aim[possible] / found[possible])
            contraction.propagate()
        if off < _CLOSE:
            break
    return fitted
