"""The label given the other columns, as the released rows have it: what private rows then tilt.

p(y | x) of the private rows is sought as q(y | x) exp(s(y) . f(x)), made to add up to 1, with q
that of the released rows. The weight of a row is the ratio of the two. Whatever is here comes from
the released rows and the schema alone, so it is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import Features
from marginalsyn.weights.per_row import Tilt
from marginalsyn.weights.prediction import entropy

# Directions of the features, and of the label, with a smaller variance are left out.
_LEAST_VARIANCE, _LEAST_SHARE = 1e-6, 1e-4
_RIDGE = 1e-3
# Of the label's directions so many are tilted at most: those with the largest variance.
MOST_OUTPUTS = 8
# Curvatures are computed from so many of the released rows.
_MOST_ROWS = 20_000
_MOST_NUMBERS = 3 * 10**7
_CHUNK = 1024


@dataclass(frozen=True)
class LabelRows:
    """Rows as a network sees them: inputs, a label each as :class:`Tilt` has it, and their weight.

    One weight for all: it multiplies a row's clipped gradient.
    """

    inputs: np.ndarray
    labels: np.ndarray
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def logs(self) -> np.ndarray:
        """The logarithms of q(y | x), a line for each row."""
        return self.labels[:, :-1]

    @property
    def classes(self) -> np.ndarray:
        """The rows' own labels."""
        return self.labels[:, -1].astype(int)

    def take(self, places: np.ndarray) -> LabelRows:
        """Some of the rows."""
        return LabelRows(self.inputs[places], self.labels[places])


class Conditional:
    """q(y | x) of released rows, with inputs x that are white among them, and scores of y.

    Args:
        target: the released rows.
        log_weights: that they have already; none by default.

    Example:
        >>> from marginalsyn.contract import Target
        >>> from marginalsyn.release.folder import Release
        >>> made = Conditional(Target.of(Release.read("release")))
        >>> made.rows.inputs.shape[0] == len(Release.read("release").frame())
        True
    """

    def __init__(self, target: Target, log_weights: np.ndarray | None = None) -> None:
        schema = target.schema
        check_label(target)
        self._codec = Codec(schema)
        self.place = schema.names.index(str(schema.label))
        others = [name for name in schema.names if name != schema.label]
        self._features = Features(schema.select(others))
        codes = self._codec.encode(target.frame)
        weights = target.persons if log_weights is None else target.persons * np.exp(log_weights)
        shares = weights / max(float(weights.sum()), 1e-300)
        # How many private rows each released row stands for.
        self.masses = shares * max(target.rows, 1.0)
        x = self._others(codes)
        self._centre = shares @ x
        centred = x - self._centre
        variances, axes = np.linalg.eigh((centred * shares[:, None]).T @ centred)
        kept = variances > _LEAST_VARIANCE
        self._whiten = axes[:, kept] / np.sqrt(variances[kept] + _RIDGE)
        self._fit(centred @ self._whiten, codes[:, self.place], shares)

    @property
    def width(self) -> int:
        """The number of inputs."""
        return int(self._whiten.shape[1])

    @property
    def outputs(self) -> int:
        """The number of the label's directions that are tilted."""
        return int(self.tilt.scores.shape[1])

    def encode(self, codes: np.ndarray) -> LabelRows:
        """Rows of codes; what becomes of a row depends on that row alone."""
        parts = [
            self._part(codes[start : start + _CHUNK]) for start in range(0, len(codes), _CHUNK)
        ]
        if not parts:
            return LabelRows(np.zeros((0, self.width)), np.zeros((0, self.tilt.width)))
        inputs, labels = zip(*parts, strict=True)
        return LabelRows(np.concatenate(inputs), np.concatenate(labels))

    def log_ratio(self, rows: LabelRows, outputs: np.ndarray) -> np.ndarray:
        """log p(y | x) / q(y | x) of each row, tilted by a network's outputs."""
        at = np.arange(len(rows)), rows.classes
        tilted = self.tilt.chances(outputs, rows.logs)[at]
        return np.log(np.maximum(tilted, 1e-300)) - rows.logs[at]

    @cached_property
    def sample(self) -> tuple[LabelRows, np.ndarray]:
        """Some of the released rows, and how many private rows each stands for."""
        rows, many = self.rows, len(self.rows)
        if many <= _MOST_ROWS:
            return rows, self.masses
        places = np.linspace(0, many - 1, _MOST_ROWS).astype(int)
        masses = self.masses[places]
        return rows.take(places), masses * (self.masses.sum() / max(masses.sum(), 1e-300))

    def standing(self, rng: np.random.Generator) -> LabelRows:
        """As many released rows as there are private ones, with labels drawn from q."""
        many = min(round(float(self.masses.sum())), 200_000)
        shares = self.masses / self.masses.sum()
        places = rng.choice(len(self.rows), size=many, p=shares)
        rows = self.rows.take(places)
        drawn = _draw(np.exp(rows.logs), rng)
        return LabelRows(rows.inputs, np.column_stack([rows.logs, drawn]))

    @cached_property
    def entropy(self) -> float:
        """Of the label among the released rows, in nats."""
        shares = np.bincount(self.rows.classes, self.masses / self.masses.sum())
        return entropy(shares)

    @cached_property
    def information(self) -> float:
        """The information of the other columns on the label among the released rows, in nats.

        Each coefficient would feign half of a row's worth were there none, and as much again is
        lost on other rows.
        """
        rows = self.rows
        loss = -float(
            self.masses @ rows.logs[np.arange(len(rows)), rows.classes] / self.masses.sum()
        )
        return max(self.entropy - loss - self._slopes.size / len(rows), 0.0)

    def _others(self, codes: np.ndarray) -> np.ndarray:
        return self._features.of_codes(np.delete(codes, self.place, axis=1))[:, :-1]

    def _part(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = (self._others(codes) - self._centre) @ self._whiten
        return inputs, np.column_stack([self._logs(inputs), codes[:, self.place]])

    def _logs(self, inputs: np.ndarray) -> np.ndarray:
        from scipy.special import log_softmax

        outputs = inputs @ self._slopes[:-1] + self._slopes[-1]
        return log_softmax(self._base + outputs @ self._scores.T, axis=1)  # type: ignore[no-any-return]

    def _fit(self, inputs: np.ndarray, classes: np.ndarray, shares: np.ndarray) -> None:
        """q(y | x): a multinomial logistic regression with a ridge of one row's worth."""
        from scipy.optimize import minimize
        from scipy.special import log_softmax

        size, rows = self._codec.schema.columns[self.place].size, len(inputs)
        counts = rows * np.bincount(classes, shares, size)
        chances = (counts + 0.5) / (counts.sum() + 0.5 * size)
        # The label's own directions among the released rows.
        marks = np.eye(size) - chances
        variances, axes = np.linalg.eigh(np.diag(chances) - np.outer(chances, chances))
        kept = np.flatnonzero(variances > _LEAST_SHARE)[::-1][:MOST_OUTPUTS]
        if not kept.size:
            kept = np.array([size - 1])
        # One scale for all: with their own, rare values would have the largest log ratios.
        scale = np.sqrt(max(np.mean(variances[kept]), _LEAST_SHARE))
        self._base, self._scores = np.log(chances), marks @ axes[:, kept] / scale
        self.tilt = Tilt(self._scores)
        x = np.column_stack([inputs, np.ones(rows)])
        shape = (x.shape[1], self._scores.shape[1])
        masses, own = shares * rows, self._scores[classes]

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            slopes = flat.reshape(shape)
            logs = log_softmax(self._base + (x @ slopes) @ self._scores.T, axis=1)
            value = -float(masses @ logs[np.arange(rows), classes]) + 0.5 * float(flat @ flat)
            residual = masses[:, None] * (np.exp(logs) @ self._scores - own)
            return value, (x.T @ residual + slopes).ravel()

        start = np.zeros(shape[0] * shape[1])
        options = {"maxiter": 200}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        self._slopes = found.x.reshape(shape)
        self.rows = LabelRows(inputs, np.column_stack([self._logs(inputs), classes]))


class Chunks:
    """Private rows as inputs and labels, some at a time, as often as they are asked for.

    They are kept in memory where they are few.
    Where rows have weights, those of a chunk have the same one: there are few sizes of weights.
    """

    def __init__(
        self, conditional: Conditional, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        self._conditional = conditional
        self._alike = [(codes, 1.0)]
        if weights is not None:
            sizes = np.unique(weights)
            self._alike = [(codes[weights == one], float(one)) for one in sizes]
        numbers = len(codes) * (conditional.width + conditional.tilt.width)
        self._kept = list(self._parts()) if numbers <= _MOST_NUMBERS else None

    def __iter__(self) -> Iterator[LabelRows]:
        return iter(self._kept) if self._kept is not None else self._parts()

    def _parts(self) -> Iterator[LabelRows]:
        for codes, weight in self._alike:
            for start in range(0, len(codes), _CHUNK):
                part = self._conditional.encode(codes[start : start + _CHUNK])
                yield replace(part, weight=weight)


def check_label(target: Target) -> None:
    """Refuse rows whose label other columns cannot predict."""
    schema = target.schema
    if schema.label is None or len(schema.names) < 2 or schema.column(schema.label).size < 2:
        raise UsageError(
            "target (label) needs a schema with a label of two values or more and other columns; "
            "name one in the schema, or take --target rows"
        )
    if not len(target.frame):
        raise UsageError("target (label) needs at least one row")


def check_target(given: str | None) -> None:
    """Refuse an unknown option ``target``."""
    if given not in (None, "label", "rows"):
        raise UsageError(f"target ({given}) must be label or rows")


def has_label(target: Target) -> bool:
    """Whether rows have a label that other columns can predict."""
    try:
        check_label(target)
    except UsageError:
        return False
    return True


def _draw(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One class for each line of chances."""
    reached = chances.cumsum(axis=1) > rng.random((len(chances), 1)) * chances.sum(
        axis=1, keepdims=True
    )
    return np.argmax(reached, axis=1)
