"""What weights will gain, told from the release's own record before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from marginalsyn.contract import Target
    from marginalsyn.weights.conditional import Conditional

# Of a label's entropy, so much is told by the other columns of a usual table.
TOLD = 0.3
# Four in five places of the benchmark lie between these multiples of what is predicted, less or
# more by the scatter of models that are trained on single releases: so much over the number of
# rows, and so much of any table.
RANGE = (0.2, 2.5)
SCATTER = (80.0, 0.03)
# What two columns that go together tell of each other, in nats.
PAIR = 0.04


@dataclass(frozen=True)
class Record:
    """What a release knows of some marginals, by its own record of what it measured.

    Attributes:
        unknown: the share of them that it does not know, at least and at most. One that it
            measured, alone or as part of a larger one, is known but for the noise. Where no record
            tells, anything from none to all.
        noise: what the noise of those that it measured says of their columns, in nats.
    """

    unknown: tuple[float, float]
    noise: float

    @classmethod
    def of(cls, target: Target, wanted: Sequence[set[str]]) -> Self:
        """Read it from the release of some rows."""
        release = target.release
        held = [m for m in release.measurements() if m.columns] if release is not None else []
        if not held:
            return cls((0.0, 1.0), 0.0)
        domain, rows = target.schema.domain, max(target.rows, 1.0)
        left = noise = 0.0
        for columns in wanted:
            # Degrees of freedom in which columns go together.
            free = math.prod(max(domain[name] - 1, 1) for name in columns)
            precision = 0.0
            for m in held:
                if not columns <= set(m.columns):
                    continue
                summed = math.prod(domain[name] for name in m.columns if name not in columns)
                cells = m.values.size / summed
                variance = float(np.mean(np.square(m.sigma))) * summed
                precision += 2 * rows**2 / max(cells * free * variance, 1e-12)
            left += 1 / (1 + precision * PAIR)
            noise += PAIR / (1 + precision * PAIR) if precision else 0.0
        share = left / max(len(wanted), 1)
        return cls((share, share), noise)


def predict_share(target: Target, wanted: Sequence[set[str]], kept: float) -> dict[str, Any]:
    """What share of the release's error in these marginals the weights may take away.

    The share that noise leaves, times the share that the release does not know: least, middle and
    most.
    """
    least, most = Record.of(target, wanted).unknown
    shares = [least * kept, (least + most) / 2 * kept, most * kept]
    return {
        "unknown": [round(least, 4), round(most, 4)],
        "predicted_share": [round(share, 4) for share in shares],
    }


def predict_gain(
    target: Target, conditional: Conditional, kept: Callable[[float], float]
) -> dict[str, Any]:
    """By how many nats the log loss of models of the label may fall: least, middle and most.

    Of the label's entropy, other columns are taken to tell a usual share. What released rows
    tell already, beyond noise, is less likely to be missing, and the pairs that the release
    measured were the strongest: so the square of the share that it does not know counts. What the
    noise of its own answers says of the label is wrong, and counts, too. Of all this the estimator
    keeps a share that depends on how much it is. What one release will show scatters around it, on
    a few hundred rows by more than is to be gained.

    Args:
        target: the released rows.
        conditional: the label's chances in them.
        kept: the share of a gain that an estimator's noise leaves, for a log ratio with this root
            mean square.
    """
    record = Record.of(target, label_pairs(target))
    least, most = record.unknown
    usual = TOLD * conditional.entropy
    seen = max(conditional.information - record.noise, 0.0)
    missing = usual * math.exp(-seen / usual) if usual > 0 else 0.0

    def gain(share: float) -> float:
        left = min(missing * share**2 + record.noise, usual)
        return left * kept(math.sqrt(2 * left)) if left > 0 else 0.0

    scatter = SCATTER[0] / max(target.rows, 1.0) + SCATTER[1]
    low, high = gain(least) * RANGE[0] - scatter, gain(most) * RANGE[1] + scatter
    told = low, gain((least + most) / 2), high
    return {
        "unknown_label_pairs": [round(least, 4), round(most, 4)],
        "label_entropy": round(conditional.entropy, 4),
        "noise_of_label_pairs": round(record.noise, 4),
        "told_by_rows": round(conditional.information, 4),
        "predicted_gain": [float(f"{one:.2g}") for one in told],
    }


def label_pairs(target: Target) -> list[set[str]]:
    """The label with every other column."""
    label = str(target.schema.label)
    return [{label, name} for name in target.schema.names if name != label]


def entropy(shares: np.ndarray) -> float:
    """Of a distribution, in nats.

    Example:
        >>> round(entropy(np.array([0.5, 0.5, 0.0])), 4)
        0.6931
    """
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())


def say_gain(told: Sequence[float]) -> str:
    """Least, middle and most in words.

    Example:
        >>> say_gain([0.008, 0.04, 0.1])
        '0.04 nats (0.008 to 0.1)'
    """
    least, middle, most = told
    return f"{middle:.2g} nats ({least:.2g} to {most:.2g})"
