"""Regressions as quantities: a formula, its coefficients, their influence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.families import FAMILIES, Family, Name
from marginalsyn.answers.quantities import (
    Estimates,
    Mask,
    Question,
    Statistic,
    find_column,
    members,
)
from marginalsyn.errors import MissingExtraError, UsageError
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.schema import Schema

# A pull towards zero of this many rows, so that a coefficient without data is finite, and not more.
_PULL = 1e-9
_STEPS = 50
# Of the way to the end of a bin: at the end itself there may be no logarithm.
_NEAR = 0.99
# Errors drawn for an excess risk in the linear form.
_DRAWS = 4000
# Values of the label of a multinomial or ordinal model.
_MOST_CLASSES = 12
# Names in a formula, which are neither called nor keywords, and what stands in one besides.
_NAME = re.compile(r"`([^`]+)`|(?<![\w.])([^\W\d]\w*)\b(?!\s*(?:[.(]|=[^=]))")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|\b(?:True|False|None)\b")
# A term of a contrast: its sign, its factor, and in brackets a coefficient.
_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+\.?\d*)\s*\*\s*)?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")


@dataclass(frozen=True)
class Regression(Question):
    """A model of a label by a formula, of the family that suits the label.

    Logistic if the label has two values, ordinal if its values are ordered, multinomial if it has
    others, else linear. Rows whose label is none of the listed values are left out.

    Example:
        >>> Regression("ill ~ age", schema).family
        'logistic'
    """

    formula: str
    schema: Schema
    asked: Name | None = None
    within: tuple[Mask, ...] = ()
    name: str = ""
    contrast: str = ""
    spec: Any = None
    null = 0.0

    @property
    def title(self) -> str:
        head = f"contrast {self.contrast} in " if self.contrast else ""
        return f"{head}{self.family} {self.formula}" + (self.name and f" where {self.name}")

    @property
    def averaged(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._used

    @property
    def grouping(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(c for c in self._used if not self.schema.column(c).numeric)

    @cached_property
    def label(self) -> str:
        """The column on the left."""
        return find_column(self.schema, _sides(self.formula)[0].strip().strip("`"), "model")

    @cached_property
    def right(self) -> str:
        """The right side, with awkward names quoted and the dot written out."""
        text = _quoted(self.schema, _sides(self.formula)[1])
        if re.fullmatch(r"\s*\.\s*", text):
            others = [c for c in self.schema.names if c != self.label]
            text = " + ".join(name if name.isidentifier() else f"`{name}`" for name in others)
        return text

    @cached_property
    def family(self) -> Name:
        """The family that was asked for, else the one that suits the label."""
        column = self.schema.column(self.label)
        # A list of two categories has two values, even if there is room for others.
        able: list[Name] = ["logistic"] if column.levels == 2 else []
        if isinstance(column, NumberColumn):
            able += ["linear", *(["poisson"] if column.lower >= 0 else [])]  # type: ignore[list-item]
        elif 2 <= column.levels <= _MOST_CLASSES:
            able += ["ordinal", "multinomial"] if column.ordered else ["multinomial"]
        if not able or (self.asked or able[0]) not in able:
            raise UsageError(
                f"model ({self.formula}) must be {' or '.join(able) or 'of another label'}: "
                f"{self.label} has {column.levels} values{' in order' * column.ordered}"
            )
        return self.asked or able[0]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The label and all columns that the question uses, in schema order."""
        more = {mask.column for mask in self.within}
        return tuple(c for c in self.schema.names if c in self._used or c in more)

    @cached_property
    def _used(self) -> tuple[str, ...]:
        """The label and all columns that the formula uses, in schema order."""
        try:
            from formulaic import Formula
            from formulaic.errors import FormulaicError
        except ImportError as error:
            raise MissingExtraError("a model", "answers") from error

        try:
            Formula(self.right)
        except (FormulaicError, SyntaxError, ValueError) as error:
            raise UsageError(f"model ({self.formula}) must be a formula: {error}") from None
        # Not formulaic's own list: it leaves out what is called with keywords, as by bs(age, df=4).
        used = {found[1] or found[2] for found in _NAME.finditer(_TEXT.sub("", self.right))}
        if self.label in used:
            raise UsageError(f"model ({self.formula}) must not use {self.label} on both sides")
        for name in sorted(used):
            find_column(self.schema, name, "model")
        return tuple(c for c in self.schema.names if c == self.label or c in used)

    def hidden(self, problem: Problem) -> np.ndarray:
        """How far each coefficient moves if a column's values lie elsewhere in their bins.

        They lie lower in all of them, or higher, or nearer to the mean, or farther from it.
        """
        found, fit = np.zeros((2, len(problem.value))), problem.statistic
        again = replace(self, spec=(fit.fit if isinstance(fit, Contrast) else fit).spec)  # type: ignore[attr-defined]
        for name in self._used:
            cells, bins = problem.asked, problem.evidence.bins(name)
            if bins is None or not bins.room.any():
                continue
            own, codes = cells.frame[name], cells.codes[:, cells.columns.index(name)]
            below, above = bins.usual[:, codes] * [[-_NEAR], [_NEAR]]
            high = own > problem.weights @ own.fillna(own.mean())
            moves = []
            for far in (below, above, np.where(high, below, above), np.where(high, above, below)):
                try:
                    moves.append(again._moved(problem, name, own + far))
                except UsageError:  # a curve may end before the bin does
                    inside = (own + far).clip(own.min(), own.max())
                    moves.append(again._moved(problem, name, inside))
            found += np.maximum([-np.min(moves, axis=0), np.max(moves, axis=0)], 0.0)
        return found

    def _moved(self, problem: Problem, name: str, values: Any) -> np.ndarray:
        """How far each coefficient moves with other values of a column."""
        cells = replace(problem.asked, frame=problem.asked.frame.assign(**{name: values}))
        return problem.statistic_on(self, cells).value(problem.weights) - problem.fitted

    def on(self, cells: CodeCombinations) -> Statistic:
        """The regression on combinations of its columns."""
        from formulaic import model_matrix
        from formulaic.errors import FormulaicError

        frame, column = cells.frame, self.schema.column(self.label)
        codes = cells.codes[:, cells.columns.index(self.label)]
        often = members(self.within, cells)
        kept = ~frame[[c for c in self._used if c != self.label]].isna().any(axis=1).to_numpy()
        kept &= (codes < column.levels) & (often > 0)
        if not kept.any():
            raise UsageError(f"model ({self.formula}) must have rows without missing values")
        family = FAMILIES[self.family]
        y = codes[kept].astype(float)
        if self.family in ("linear", "poisson"):
            y = frame[self.label].to_numpy(float)[kept]
        elif self.family == "logistic" and self.label == self.schema.label:
            y = y if self.schema.positive_code != 0 else 1.0 - y
        try:
            with np.errstate(all="ignore"):
                rows = pd.DataFrame(frame[kept])
                design = model_matrix(self.spec or self.right, rows, na_action="raise")
        except (FormulaicError, ValueError, TypeError, NameError, SyntaxError) as error:
            raise UsageError(f"model ({self.formula}) must fit the columns: {error}") from None
        x = np.asarray(design, dtype=float)
        if not np.isfinite(x).all():
            raise UsageError(f"model ({self.formula}) must give finite numbers at every value")
        labels = column.labels()[: column.levels]
        features = [_plain(name) for name in design.columns]
        if self.family == "ordinal" and features[:1] != ["Intercept"]:
            raise UsageError(f"model ({self.formula}) must have its intercept to be ordinal")
        names = family.names(features, labels)
        maps = family.maps(x.shape[1], len(labels))
        fit = Fit(names, x, y, kept, family, maps, often[kept], design.model_spec)
        fit.start.append(family.start(x.shape[1], len(labels)))
        return Contrast.of(self.contrast, fit) if self.contrast else fit


@dataclass(frozen=True)
class Risk(Regression):
    """The expected excess risk of a regression: how much worse a fit to a release is on real rows.

    It is the mean log loss (half squared error) above the least. In its "errors" of replays each
    number is an excess risk itself, which is positive.
    """

    single = True

    @property
    def title(self) -> str:
        return f"excess risk of {super().title}"

    def replay_error(self, problem: Problem, replay: Evidence) -> np.ndarray:
        """The excess risk, under the model, of what is fitted to a replay of its release."""
        return self._excess(problem, self._fit(problem).value(replay.weights(problem.cells)))

    def linear_error(self, problem: Problem, drawn: Evidence) -> np.ndarray:
        """That of coefficients moved by a replay's answers."""
        return self._excess(problem, problem.stepped(drawn, problem.fitted, problem.weights))

    def rerun_error(
        self, problem: Problem, again: Evidence, rng: np.random.Generator
    ) -> np.ndarray:
        del rng
        return self.replay_error(problem, again)

    def conclude(self, problem: Problem, confidence: float, errors: np.ndarray | None) -> Estimates:
        """The expected excess risk, and between what it lies, from replays or in the linear form.

        In the linear form the coefficients err by a normal vector of the step's covariance, and the
        excess is half its square in the metric of the loss's curvature.
        """
        curvature = self._fit(problem).curvature(problem.weights, problem.fitted)
        covariances = problem.covariances()
        parts = [np.array([0.5 * float(np.sum(curvature * part))]) for part in covariances]
        if errors is not None and len(errors):
            drawn = errors[:, 0]
        else:
            drawn = self._drawn(problem, covariances, _DRAWS, np.random.default_rng(0))
        if not problem.answered.all():
            drawn = np.array([np.nan])
        tail = (1 - confidence) / 2
        return Estimates(
            names=[f"excess {self._fit(problem).family.loss_name}"],
            value=np.array([drawn.mean()]),
            low=np.array([np.quantile(drawn, tail)]),
            high=np.array([np.quantile(drawn, 1 - tail)]),
            fitted=np.array([0.0]),
            sampling=parts[0],
            noise=parts[1],
            rows=parts[2],
            measured_share=np.array([float(problem.measured_share.min())]),
        )

    def linear_draws(self, problem: Problem, number: int, rng: np.random.Generator) -> np.ndarray:
        return self._drawn(problem, problem.covariances()[:2], number, rng)[:, None]

    def _drawn(
        self,
        problem: Problem,
        covariances: Sequence[np.ndarray],
        number: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Excess risks of coefficients that err by normal vectors."""
        curvature = self._fit(problem).curvature(problem.weights, problem.fitted)
        values, vectors = np.linalg.eigh(sum(covariances))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = rng.normal(size=(number, len(values))) @ root.T
        return np.asarray(0.5 * np.einsum("ij,jk,ik->i", normal, curvature, normal))

    def _excess(self, problem: Problem, coefficients: np.ndarray) -> np.ndarray:
        risks = [
            self._fit(problem).risk(problem.weights, one) for one in (coefficients, problem.fitted)
        ]
        return np.array([max(0.0, risks[0] - risks[1])])

    @staticmethod
    def _fit(problem: Problem) -> Fit:
        assert isinstance(problem.statistic, Fit)
        return problem.statistic


@dataclass(frozen=True)
class Fit(Statistic):
    """A regression on given rows: coefficients for weights of the rows."""

    names: Sequence[str]
    x: np.ndarray
    y: np.ndarray
    kept: np.ndarray
    family: Family
    maps: np.ndarray
    often: np.ndarray
    spec: Any
    start: list[np.ndarray] = field(default_factory=list, repr=False)

    def times(self, number: np.ndarray, *, whole: bool) -> Fit:
        del whole
        return replace(self, often=self.often * number[self.kept], start=self.start[:1])

    def value(self, weights: np.ndarray) -> np.ndarray:
        own, beta = self._own(weights), self.start[-1]
        loss = self._loss(beta, own)
        for _ in range(_STEPS):
            slope = own @ self._scores(beta) - self._pull() * beta
            step = _solve(self._curvature(beta, own), slope)
            size, least = 1.0, 1e-12 * max(1.0, abs(loss))
            while not (new := self._loss(beta + size * step, own)) <= loss + least and size > 1e-6:
                size /= 2
            beta, gain, loss = beta + size * step, loss - new, new
            if gain < least:
                break
        if len(self.start) == 1:
            self.start.append(beta)
        return beta

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        bread = self._curvature(value, self._own(weights))
        found = np.zeros((len(self.kept), len(value)))
        found[self.kept] = _solve(bread, (self._scores(value) * self.often[:, None]).T).T
        return found

    def predictors(self, value: np.ndarray) -> np.ndarray:
        """Every row's linear predictors."""
        return np.asarray(self.x @ (self.maps @ value).T)

    def risk(self, weights: np.ndarray, value: np.ndarray) -> float:
        """The mean loss: log loss, or half the squared error."""
        own = self._own(weights)
        return self._loss(value, own / own.sum(), pulled=False)

    def curvature(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        """The second derivative of the mean loss."""
        own = self._own(weights)
        return self._curvature(value, own / own.sum())

    def _own(self, weights: np.ndarray) -> np.ndarray:
        """The weights of the rows that are fitted."""
        return np.asarray(weights[self.kept] * self.often)

    def _pull(self) -> float:
        return _PULL / max(len(self.y), 1)

    def _scores(self, beta: np.ndarray) -> np.ndarray:
        """By row, how fast its loss falls in each coefficient."""
        slopes = self.family.slopes(self.predictors(beta), self.y)
        parts = (
            (slopes[:, k, None] * self.x) @ own if self.family.classes else slopes * self.x
            for k, own in enumerate(self.maps)
        )
        return np.asarray(sum(parts))

    def _curvature(self, beta: np.ndarray, own: np.ndarray) -> np.ndarray:
        bends = self.family.bends(self.predictors(beta), self.y)
        gram = np.zeros((len(beta), len(beta)))
        for k, left in enumerate(self.maps):
            for j, right in enumerate(self.maps):
                gram += left.T @ (self.x.T @ ((own * bends[:, k, j])[:, None] * self.x)) @ right
        return np.asarray(gram + self._pull() * np.eye(len(gram)))

    def _loss(self, beta: np.ndarray, own: np.ndarray, *, pulled: bool = True) -> float:
        each = self.family.loss(self.predictors(beta), self.y)
        return float(own @ each) + (0.5 * self._pull() * float(beta @ beta) if pulled else 0.0)


@dataclass(frozen=True)
class Contrast(Statistic):
    """Sums of a regression's coefficients, each times a number."""

    names: Sequence[str]
    fit: Fit
    numbers: np.ndarray

    @classmethod
    def of(cls, text: str, fit: Fit) -> Contrast:
        """Read a text such as ``2 * [age] - [sex = male]``."""
        names, terms = list(fit.names), _TERM.findall(text)
        found = np.zeros(len(names))
        unknown = {term[2] for term in terms} - {*names}
        unsigned = not terms or any(not term[0] for term in terms[1:])
        if unknown or unsigned or _TERM.sub("", text).strip():
            raise UsageError(
                f"contrast ({text}) must add and subtract coefficients: "
                + ", ".join(f"[{name}]" for name in names)
            )
        for sign, times, name in terms:
            found[names.index(name)] += float(f"{sign}{times or 1}")
        return cls([text], fit, found)

    def value(self, weights: np.ndarray) -> np.ndarray:
        return np.array([self.numbers @ self.fit.value(weights)])

    def influence(self, weights: np.ndarray, value: np.ndarray) -> np.ndarray:
        beta = self.fit.value(weights)
        return np.asarray((self.fit.influence(weights, beta) @ self.numbers)[:, None])

    def times(self, number: np.ndarray, *, whole: bool) -> Contrast:
        return replace(self, fit=self.fit.times(number, whole=whole))


def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve, also where columns depend on each other: then the shortest solution."""
    try:
        if np.linalg.cond(a) < 1e13:
            return np.asarray(np.linalg.solve(a, b))
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(a, b, rcond=1e-12)[0])


def _sides(formula: str) -> tuple[str, str]:
    parts = formula.split("~")
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise UsageError(
            f'model ({formula}) must read "LABEL ~ COLUMN + COLUMN", such as "income ~ age + sex"'
        )
    return parts[0], parts[1]


def _quoted(schema: Schema, text: str) -> str:
    """Put names that are no Python names into back quotes, where they are not in them already."""
    awkward = sorted((n for n in schema.names if not n.isidentifier()), key=len, reverse=True)
    if not awkward:
        return text
    pattern = "|".join(re.escape(name) for name in awkward)
    return re.sub(
        rf"`[^`]*`|(?<![\w.])(?:{pattern})(?![\w.])",
        lambda found: found[0] if found[0].startswith("`") else f"`{found[0]}`",
        text,
    )


def _plain(name: object) -> str:
    """A design column's name as people read it: ``sex[T.Male]`` is ``sex = Male``."""
    return re.sub(r"(?<!\))\[T?\.?([^\]]*)\]", r" = \1", str(name)).replace("`", "")
