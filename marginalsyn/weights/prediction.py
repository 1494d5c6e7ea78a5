"""Predicted gains of weights, from the release's own record, before anything is spent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from marginalsyn.contract import Target
    from marginalsyn.weights.conditional import Conditional

# The other columns of a usual table have so much of its label's entropy as information on it.
INFORMATION = 0.3
# The information of all columns of a usual table, over that of the strongest one.
OTHERS = 1.5
# Of the columns' information beyond the strongest's, so much may be counted twice.
COPIED = 0.5
# Where no single column informs on a label, several together have the usual information with this
# chance.
HIDDEN = 0.2
# What a line has words for, as a share of what is missing, by the benchmark of places.
LINE_SEES = 0.88
# Four in five places of the benchmark lie between these multiples of what is predicted, less or
# more by the scatter of single releases: so much over the number of rows, and so much of any table
# (at the lower end, at the upper end).
RANGE = (0.25, 2.5)
SCATTER, LEAST = 8.0, (0.0005, 0.005)
# Without a label, a smaller share of the error is not worth a price.
LEAST_SHARE = 0.01
# The information of two related columns on each other, in nats.
PAIR = 0.04


@dataclass(frozen=True)
class Record:
    """What a release knows of some marginals, by its own record of what it measured.

    Attributes:
        unknown: the share of them that it does not know, at least and at most. One that it
            measured, alone or as part of a larger one, is known but for the noise. Without a record
            it is anything from none to all.
        noise: the information that the noise of measured ones feigns, in nats.
    """

    unknown: tuple[float, float]
    noise: float

    @classmethod
    def of(cls, target: Target, wanted: Sequence[set[str]]) -> Self:
        """Read it from the release of some rows."""
        release = target.release
        measured = [m for m in release.measurements() if m.columns] if release is not None else []
        if not measured:
            return cls((0.0, 1.0), 0.0)
        domain, rows = target.schema.domain, max(target.rows, 1.0)
        precisions = dict.fromkeys(map(frozenset, wanted), 0.0)
        sizes = {len(columns) for columns in precisions}
        for m in measured:
            for size in sizes:
                for columns in map(frozenset, itertools.combinations(m.columns, size)):
                    if columns not in precisions:
                        continue
                    summed = math.prod(domain[name] for name in m.columns if name not in columns)
                    cells = m.values.size / summed
                    variance = float(np.mean(np.square(m.sigma))) * summed
                    scale = cells * _freedom(domain[name] for name in columns) * variance
                    precisions[columns] += 2 * rows**2 / max(scale, 1e-12)
        left = [1 / (1 + precision * PAIR) for precision in precisions.values()]
        noise = sum(PAIR * x for x, known in zip(left, precisions.values(), strict=True) if known)
        share = sum(left) / max(len(left), 1)
        return cls((share, share), noise)


def _freedom(sizes: Iterable[int]) -> int:
    """Degrees of freedom in which columns go together."""
    return math.prod(max(size - 1, 1) for size in sizes)


@dataclass(frozen=True)
class Strongest:
    """The measured pair with the most information on the label, in nats.

    Attributes:
        information: without what its noise alone would feign.
        noise: what its noise alone would feign.
    """

    information: float
    noise: float

    @classmethod
    def of(cls, target: Target) -> Self | None:
        """Read it from the release of some rows; None where no pair with the label was measured."""
        release, label = target.release, str(target.schema.label)
        found: dict[str, tuple[float, np.ndarray]] = {}
        for m in release.measurements() if release is not None else []:
            if label not in m.columns or np.ndim(m.values) != len(m.columns):
                continue
            for name in m.columns:
                axes = tuple(at for at, c in enumerate(m.columns) if c not in (label, name))
                counts = m.values.sum(axis=axes)
                variance = float(np.mean(np.square(m.sigma))) * m.values.size / counts.size
                if name != label and variance < found.get(name, (math.inf,))[0]:
                    found[name] = variance, counts
        rows = max(target.rows, 1.0)
        pairs = []
        for variance, counts in found.values():
            noise = counts.size * _freedom(counts.shape) * variance / (2 * rows**2)
            pairs.append(cls(mutual_information(counts) - noise, noise))
        return max(pairs, key=lambda pair: pair.information, default=None)


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
    target: Target,
    conditional: Conditional,
    kept: Callable[[float], float],
    kept_pairs: float = 0.0,
    sees: float = 1.0,
) -> dict[str, Any]:
    """By how many nats the log loss of models of the label may fall: least, middle and most.

    Other columns are taken to have a usual share of the label's entropy as information on it; where
    pairs with it were measured, a usual multiple of the strongest's, since a generator buys the
    strong ones first. What released rows show already, beyond noise, is less likely to be missing,
    and for the same reason the square of the share of pairs that the release does not know counts.

    Some relations are missing, others are wrong. The noise of the release's own answers feigns
    information on the label. And where columns' relations with it are known, but not those among
    the columns, the rows look as if each column had information of its own: at the worst all have
    the same as the strongest.

    Of all this the estimator keeps a share that depends on how much it is. What one release will
    show scatters around it, on a few hundred rows by more than is to be gained.

    Args:
        target: the released rows.
        conditional: the label's chances in them.
        kept: the share of a gain that an estimator's noise leaves, for a log ratio with this root
            mean square.
        kept_pairs: the share that is kept of what two columns show together, for an estimator that
            sees that.
        sees: the share of what is missing that the estimator has words for.
    """
    label = str(target.schema.label)
    columns = [name for name in target.schema.names if name != label]
    record = Record.of(target, [{label, name} for name in columns])
    strongest = Strongest.of(target)
    least, most = record.unknown
    prior = usual = INFORMATION * conditional.entropy
    seen = max(conditional.information - record.noise, 0.0)
    twice = 0.0
    if strongest is not None and prior > 0:
        trust = 1 / (1 + 2 * strongest.noise * OTHERS / prior)
        usual += trust * (min(OTHERS * max(strongest.information, 0.0), prior) - prior)
        among = [set(pair) for pair in itertools.combinations(columns, 2)]
        others = Record.of(target, among).unknown[1]
        # Strong relations among the columns are bought before weak ones.
        twice = COPIED * others**3 * max(seen - max(strongest.information, 0.0), 0.0)
    missing = usual * math.exp(-seen / usual) if usual > 0 else 0.0
    # Where no column alone informs on the label, several together may.
    hidden = HIDDEN * prior * math.exp(-5 * usual / prior) if prior > 0 else 0.0
    several = hidden * kept_pairs

    def gain(share: float) -> float:
        left = min(missing * share**2 + record.noise + twice, prior)
        return several + (sees * left * kept(math.sqrt(2 * left)) if left > 0 else 0.0)

    scatter = SCATTER / max(target.rows, 1.0)
    low = gain(least) * RANGE[0] - scatter - LEAST[0]
    high = gain(most) * RANGE[1] + scatter + LEAST[1]
    # Of a share of which nothing is known, the root of the mean square.
    predicted = low, gain(math.sqrt((least**2 + least * most + most**2) / 3)), high
    return {
        "unknown_label_pairs": [round(least, 4), round(most, 4)],
        "label_entropy": round(conditional.entropy, 4),
        "noise_of_label_pairs": round(record.noise, 4),
        "information_in_rows": round(conditional.information, 4),
        "information_in_strongest_pair": (
            None if strongest is None else round(strongest.information, 4)
        ),
        "predicted_gain": [round(float(f"{one:.2g}"), 4) for one in predicted],
    }


def pays(facts: Mapping[str, Any]) -> bool | None:
    """Whether weights are predicted to gain, by the lower end; None where nothing is predicted.

    Example:
        >>> pays({"predicted_gain": [-0.001, 0.004, 0.02]}), pays({})
        (False, None)
    """
    if "predicted_gain" in facts:
        return bool(facts["predicted_gain"][0] > 0)
    return bool(facts["predicted_share"][0] >= LEAST_SHARE) if "predicted_share" in facts else None


def mutual_information(counts: np.ndarray) -> float:
    """Of two columns, in nats, from a table of counts that may be noisy.

    Example:
        >>> round(mutual_information(np.array([[5.0, 0.0], [0.0, 5.0]])), 4)
        0.6931
    """
    positive = np.maximum(counts, 0.0)
    if positive.sum() <= 0:
        return 0.0
    shares = positive / positive.sum()
    first, second = entropy(shares.sum(axis=1)), entropy(shares.sum(axis=0))
    return max(first + second - entropy(shares.ravel()), 0.0)


def entropy(shares: np.ndarray) -> float:
    """Of a distribution, in nats.

    Example:
        >>> round(entropy(np.array([0.5, 0.5, 0.0])), 4)
        0.6931
    """
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def say_gain(gain: Sequence[float]) -> str:
    """Least, middle and most in words.

    Example:
        >>> say_gain([0.008, 0.04, 0.1])
        '0.04 nats (0.008 to 0.1)'
    """
    least, middle, most = gain
    return f"{middle:.2g} nats ({least:.2g} to {most:.2g})"
