"""Releases and their weights, measured as Ghalebikesabi et al. measure them.

The test rows are what the papers compare with: the Wasserstein distance and the MMD of weighted
synthetic from test rows, the mean squared difference of a linear model's coefficients from those of
the model fitted to test rows, and the test score of an MLP, a support vector machine and a random
forest (AUC, of several classes the mean over each against the rest; for a quantity the mean squared
error over that of the train rows' mean). Models see 10,000 rows at most, drawn by their weights
where there are more; above these the MLP is the only network or machine of the three. Distances and
coefficients are in the scales of our features, which the papers' are not: they are told relative to
the unweighted rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ot
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.datasets import Dataset
from marginalsyn.errors import MarginalsynError
from marginalsyn.evaluation.posterior import sample_posterior
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import Features
from marginalsyn.weights.processing import Processing

# The papers' share of eps for weights that cost something.
SHARE = 0.1
MOST_POINTS, MOST_ROWS = 400, 10_000
# As the papers have them, and what this package has beside them.
WEIGHTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "BetaNoised": ("beta-noised", {}),
    "BetaDebiased": ("beta-debiased", {}),
    "DP-MLP": ("dp-mlp", {"target": "rows", "engine": "numpy"}),
    "LogReg": ("logreg", {}),
    "MLP": ("mlp", {}),
}
OURS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "label's chances": ("beta-noised", {"target": "label"}),
    "rake": ("rake", {}),
}


class Judge:
    """The real rows of a table, and what is measured against them."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.schema, self.codec = data, data.schema, Codec(data.schema)
        label = str(self.schema.label)
        self.place = self.schema.names.index(label)
        self.quantity = self.schema.column(label).numeric
        self.all = Features(self.schema)
        self.others = Features(
            self.schema.select([name for name in self.schema.names if name != label])
        )
        self.train, self.test = self.codec.encode(data.train), self.codec.encode(data.test)
        code = self.schema.positive_code
        size = self.schema.column(label).size
        self.positive = size - 1 if code is None else code
        # Classes to tell from the rest, one by one: of two classes the positive one.
        several = not self.quantity and code is None and size > 2
        self.classes = tuple(range(size)) if several else (self.positive,)
        self.beta = self.coefficients(self.test, np.ones(len(self.test)))

    def xy(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features of the other columns, and the label: a quantity in [0, 1], 0 or 1, or a code."""
        x = self.others.of_codes(np.delete(codes, self.place, axis=1))
        own = codes[:, self.place]
        if self.quantity:
            return x, own / max(self.schema.columns[self.place].size - 1, 1)
        return x, own if len(self.classes) > 1 else (own == self.positive).astype(float)

    def against_rest(self, y: np.ndarray) -> Iterator[np.ndarray]:
        """Labels of 0 and 1: each class against the rest."""
        if len(self.classes) == 1:
            yield y
        else:
            yield from ((y == one).astype(float) for one in self.classes)

    def auc(self, truth: np.ndarray, scores: np.ndarray) -> float:
        """The mean over classes that are there and that others are beside."""
        columns = scores.reshape(len(scores), -1).T
        pairs = zip(self.against_rest(truth), columns, strict=True)
        return float(np.mean([roc_auc_score(y, own) for y, own in pairs if 0 < y.mean() < 1]))

    def coefficients(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """A ridge regression's, logistic for a class; of several, one after the other."""
        from marginalsyn.weights.logistic import Labelled, fit_logistic

        shares = weights / weights.sum()
        if len(codes) > MOST_ROWS:
            codes = codes[np.random.default_rng(0).choice(len(codes), MOST_ROWS, p=shares)]
            shares = np.full(MOST_ROWS, 1 / MOST_ROWS)
        x, y = self.xy(codes)
        if self.quantity:
            hessian = (x * shares[:, None]).T @ x + 0.01 * np.eye(x.shape[1])
            return np.linalg.solve(hessian, x.T @ (shares * y))  # type: ignore[no-any-return]
        fits = (
            fit_logistic(
                [Labelled([x], 2.0 * one - 1.0, shares)], x.shape[1], 0.01, tolerance=1e-10
            )
            for one in self.against_rest(y)
        )
        return np.concatenate([fit.beta for fit in fits])

    def distances(self, codes: np.ndarray, weights: np.ndarray, seed: int) -> tuple[float, float]:
        """Wasserstein distance and MMD from the test rows, on some of the rows."""
        rng = np.random.default_rng(seed)
        own = rng.choice(len(codes), min(MOST_POINTS, len(codes)), replace=False)
        mass = weights[own] / weights[own].sum()
        ours, real = self.all.of_codes(codes[own]), self.all.of_codes(self.test[:MOST_POINTS])
        even = np.full(len(real), 1 / len(real))
        cost = ot.dist(ours, real, "euclidean")
        squares = [ot.dist(a, b) for a, b in ((ours, ours), (ours, real), (real, real))]
        width = 2 * float(np.median(squares[2][squares[2] > 0]))
        inside, between, other = (np.exp(-one / width) for one in squares)
        mmd = mass @ inside @ mass - 2 * mass @ between @ even + even @ other @ even
        distance = float(ot.emd2(mass, even, cost, numItermax=10**6))
        return distance, float(np.sqrt(max(mmd, 0.0)))

    def scores(self, codes: np.ndarray, weights: np.ndarray, seed: int) -> dict[str, float]:
        """Scores on the test rows of models that were trained on weighted rows.

        The MLP of scikit-learn takes no weights: it is trained on rows drawn by them.
        """
        (x, y), (a, b) = self.xy(codes), self.xy(self.test)
        rng = np.random.default_rng(seed)
        many = len(x) > MOST_ROWS
        drawn = rng.choice(len(x), min(len(x), MOST_ROWS), p=weights / weights.sum())
        common: dict[str, Any] = {"hidden_layer_sizes": (100,), "max_iter": 200}
        found: dict[str, float] = {}
        if self.quantity:
            mean = float(self.xy(self.train)[1].mean())
            base = float(np.mean((b - mean) ** 2))
            models = {
                "MLP MSE": MLPRegressor(random_state=seed, **common),
                "forest MSE": RandomForestRegressor(100, random_state=seed),
                "SVM MSE": SVR(),
            }
            for name, model in models.items():
                fitted = _train(model, name, x, y, weights, drawn)
                found[name] = float(np.mean((b - fitted.predict(a)) ** 2)) / base
            return found
        models = {
            "MLP AUC": MLPClassifier(random_state=seed, **common),
            "forest AUC": RandomForestClassifier(100, random_state=seed),
            "SVM AUC": SVC(),
        }
        for name, model in models.items():
            if many and not name.startswith("MLP"):
                continue
            if len(np.unique(y[drawn])) < 2 or len(np.unique(y)) < 2:
                found[name] = 0.5
                continue
            fitted = _train(model, name, x, y, weights, drawn)
            found[name] = self.auc(b, self.margins(fitted, a))
        return found

    def margins(self, fitted: Any, x: np.ndarray) -> np.ndarray:
        """A column a class, in the schema's order; of two classes the positive one's alone.

        A class that the model never saw gets the lowest margin everywhere: it is not told apart.
        """
        machine = isinstance(fitted, SVC)
        own = fitted.decision_function(x) if machine else fitted.predict_proba(x)
        if len(self.classes) == 1:
            return own if machine else own[:, 1]
        if own.ndim == 1:
            own = np.column_stack([-own, own])
        full = np.full((len(x), len(self.classes)), own.min())
        full[:, fitted.classes_.astype(int)] = own
        return full

    def posterior_auc(self, codes: np.ndarray, weights: np.ndarray, seed: int) -> float:
        """The median AUC over draws of a Bayesian logistic regression of weighted rows."""
        (x, y), (a, b) = self.xy(codes), self.xy(self.test)
        masses = weights * (len(weights) / weights.sum())
        # The last feature is the constant, which the sampler adds itself.
        design = np.column_stack([a[:, :-1], np.ones(len(a))])
        margins = []
        for one in self.against_rest(y):
            found = sample_posterior(x[:, :-1], one, masses, quantity=False, draws=200, seed=seed)
            margins.append(design @ found.draws.T)
        by_draw = np.stack(margins, axis=-1).swapaxes(0, 1)
        return float(np.median([self.auc(b, own) for own in by_draw]))


def _train(
    model: Any, name: str, x: np.ndarray, y: np.ndarray, weights: np.ndarray, drawn: np.ndarray
) -> Any:
    if name.startswith("MLP"):
        return model.fit(x[drawn], y[drawn])
    return model.fit(x, y, sample_weight=weights)


def releases(
    judge: Judge, generator: str, eps: float, run: int, *, share: float = SHARE, ours: bool = True
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows as codes and their weights: without any, by every method, and smoothed or calibrated.

    Weights that cost nothing ("None", "Discriminator") come with rows of the whole budget.
    """
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    table = PrivateTable.open(judge.data.train, judge.schema)
    with tempfile.TemporaryDirectory() as folder:
        whole = _release(judge, table, generator, eps, 1000 * run, Path(folder) / "whole")
        codes = judge.codec.encode(whole.frame())
        found["None"] = codes, np.ones(len(codes))
        made = _weigh(whole, table, "discriminator", {}, eps, run)
        if made is not None:
            found["Discriminator"] = codes, made.weights
        rest = _release(
            judge, table, generator, (1 - share) * eps, 1000 * run + 1, Path(folder) / "rest"
        )
        codes = judge.codec.encode(rest.frame())
        methods = {**WEIGHTS, **(OURS if ours else {})}
        for title, (method, options) in methods.items():
            made = _weigh(rest, table, method, options, share * eps, run)
            if made is None:
                continue
            found[title] = codes, made.weights
            if title in ("BetaNoised", "DP-MLP"):
                smooth = Processing(smooth="psis").apply(made.log_weights)
                found[f"{title}, PSIS"] = codes, smooth
        # Calibration needs real rows that are no secret: half of the test part stands in for them.
        public = judge.data.test.iloc[::2].reset_index(drop=True)
        for title in ("BetaNoised", "MLP"):
            method, options = WEIGHTS[title]
            made = _weigh(rest, table, method, options, share * eps, run, public)
            if made is not None:
                found[f"{title}, calibrated"] = codes, made.weights
    return found


def _release(
    judge: Judge, table: PrivateTable, generator: str, eps: float, seed: int, path: Path
) -> Release:
    made, statement = generate(
        table, make_config(generator), Budget(eps=eps), noise=make_noise(seed)
    )
    return Release.write(made, judge.schema, statement, path)


def _weigh(
    release: Release,
    table: PrivateTable,
    method: str,
    options: dict[str, Any],
    eps: float,
    run: int,
    public: Any = None,
) -> Any:
    """A column of weights, or None where the method cannot serve this release."""
    try:
        return weigh(
            release,
            make_weights(method, options),
            Budget(eps=eps),
            table,
            noise=make_noise(1000 * run + 2),
            processing=Processing(calibrate="beta") if public is not None else None,
            public=public,
            non_private=True,
        )
    except MarginalsynError:
        return None


def measure(
    judge: Judge, found: Mapping[str, tuple[np.ndarray, np.ndarray]], seed: int
) -> dict[str, dict[str, float]]:
    """The papers' figures by weights; distances and coefficients over those of "None"."""
    told: dict[str, dict[str, float]] = {}
    base: tuple[float, float, float] | None = None
    for title, (codes, weights) in found.items():
        apart = float(np.mean((judge.coefficients(codes, weights) - judge.beta) ** 2))
        own = (*judge.distances(codes, weights, seed), apart)
        base = base or own
        ratios = {
            f"{name} / None": value / max(first, 1e-12)
            for name, value, first in zip(("WST", "MMD", "beta MSE"), own, base, strict=True)
        }
        scores = judge.scores(codes, weights, seed)
        told[title] = ({} if title == "None" else ratios) | scores
        if title == "None":
            told[title] |= dict(zip(("WST", "MMD", "beta MSE"), own, strict=True))
    return told
