"""The report of Bayesian updating: posteriors from a release and from the real rows.

Posteriors of regressions are drawn by the No-U-Turn sampler. The likelihood of every row is raised
to its weight, weights having mean 1 (Ghalebikesabi et al. 2022, section 4.3). Coefficients have
independent normal priors. The chains run in coordinates in which the normal approximation at the
mode is round, so few leapfrog steps are enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.reports import Block, Blocks, Case, Fact, Options, RealData, Report
from marginalsyn.evaluation.view import Item, Table
from marginalsyn.plugins.reports.tstr_report import source
from marginalsyn.progress import Progress

# The standard deviation of a coefficient's prior, for features in [-1, 1].
PRIOR = 5.0
CHAINS = 2
_STEPS = 100
# More rows would make chains of hundreds of draws take many minutes.
MOST_ROWS = 20_000
_METRICS = ("mean_shift", "coverage", "width_ratio", "predictive", "r_hat")


class BayesReport(Report):
    """Bayesian logistic or linear regression on real, synthetic and weighted rows, by NUTS."""

    name = "bayes"
    title = "Bayesian updating"
    summary = "posteriors of regressions: mean shift, coverage, predictive AUC; slow"
    place = 70
    on_terminal = False
    needs_test = True
    default = False
    requires = ("bayes",)

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        from marginalsyn.table.design import Task

        trials = ground.trials
        if trials is None or trials.trials[0].train is None:
            return None
        train, test = trials.trials[0].train, trials.trials[0].test
        task = Task.of(ground.schema, ground.label, [train, test])
        if not (task.quantity or task.binary):
            raise UsageError(
                f"label ({task.label}) must have two classes or be a number for the report 'bayes'"
            )
        knobs: dict[str, Any] = {"draws": options.draws, "seed": options.seed}
        progress.report("bayes", text="real rows")
        real = ground.once(("bayes", task.label), lambda: _posterior(task, train, **knobs))
        results = [{"trained_on": "real", "weights": None, **_describe(task, real, real, test)}]
        for weights, table in case.variants():
            progress.report("bayes", text=f"{case.name} {weights or ''}")
            own = _posterior(task, table, **knobs)
            source = {"trained_on": "weighted" if weights else "synthetic", "weights": weights}
            results.append({**source, **_describe(task, own, real, test)})
        return {
            "label": task.label,
            "coefficients": len(real.mean),
            "draws": options.draws,
            "most_rows": MOST_ROWS,
            "results": results,
        }

    def facts(self, block: Block) -> Iterable[Fact]:
        for result in block["results"]:
            for metric in _METRICS:
                yield Fact(source(result), metric, result[metric])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        yield (
            f"Posteriors of the {first['coefficients']} coefficients of a Bayesian regression of "
            f"{first['label']}. Mean shift: how far the posterior means lie from those of the real "
            "rows, in posterior standard deviations of the real rows, on average. Coverage: the "
            "share of 95% credible intervals that hold the real rows' posterior mean. Width: of "
            "the intervals, over those of the real rows."
        )
        rows: list[tuple[object, ...]] = []
        for case, block in blocks.items():
            for r in block["results"]:
                real = r["trained_on"] == "real"
                if not (real and rows):
                    name = source(r) if real or len(blocks) == 1 else f"{case}, {source(r)}"
                    rows.append((name, *(r[metric] for metric in _METRICS)))
        predictive = first["results"][0]["predictive_of"]
        head = ("rows", "mean shift", "coverage", "width", f"predictive {predictive}", "R-hat")
        yield Table(head, rows)


def _posterior(task: Any, table: Any, *, draws: int, seed: int) -> Any:
    table = task.known(table)
    if len(table) > MOST_ROWS:
        rng = np.random.default_rng(seed)
        table = table.take(rng.choice(len(table), MOST_ROWS, replace=False))
    y = _scaled(task, task.labels(table))
    return sample_posterior(
        task.features(table), y, table.masses, quantity=task.quantity, draws=draws, seed=seed
    )


def _scaled(task: Any, labels: Any) -> Any:
    """Classes as 0 and 1, numbers in [-1, 1] by their bounds."""
    if not task.quantity:
        return labels
    column = task.schema.column(task.label)
    return 2 * (labels - column.lower) / (column.upper - column.lower) - 1


def _describe(task: Any, own: Any, real: Any, test: Any) -> dict[str, Any]:
    from scipy.special import expit

    from marginalsyn.evaluation.scores import delong

    low, high = own.interval()
    real_low, real_high = real.interval()
    rows = task.known(test)
    x = np.hstack([task.features(rows), np.ones((len(rows), 1))])
    truth = _scaled(task, task.labels(rows))
    some = own.draws[:: max(1, len(own.draws) // 200)]
    if task.quantity:
        guess = x @ own.mean
        predictive: float | None = 1 - float(np.mean((truth - guess) ** 2) / np.var(truth))
    else:
        chance = np.mean(expit(x @ some.T), axis=1)
        predictive = delong(chance, truth == 1)[0]
    return {
        "mean_shift": float(np.mean(np.abs(own.mean - real.mean) / real.deviation)),
        "coverage": float(np.mean((low <= real.mean) & (real.mean <= high))),
        "width_ratio": float(np.mean((high - low) / (real_high - real_low))),
        "predictive": predictive,
        "predictive_of": "R²" if task.quantity else "AUC",
        "r_hat": own.r_hat,
    }


@dataclass(frozen=True)
class Posterior:
    """Draws of the coefficients (the constant last), pooled over chains, and R-hat's worst."""

    draws: np.ndarray
    r_hat: float

    @property
    def mean(self) -> np.ndarray:
        return self.draws.mean(axis=0)

    @property
    def deviation(self) -> np.ndarray:
        return self.draws.std(axis=0)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Equal-tailed 95% credible intervals of the coefficients."""
        tail = (1 - 0.95) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        return low, high


def sample_posterior(
    x: np.ndarray, y: np.ndarray, masses: np.ndarray, *, quantity: bool, draws: int, seed: int
) -> Posterior:
    """Draw from the posterior of a logistic (or, for a quantity, linear) regression.

    Args:
        x: features in [-1, 1], without a constant.
        y: labels 0 and 1, or numbers in [-1, 1] or so.
        masses: weights of mean 1.
        quantity: whether the regression is linear, with normal errors of unknown size.
        draws: in all, over two chains; a quarter as many again are for adaptation.
        seed: of the chains.

    Example:
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x.ravel() > 0).astype(float)
        >>> found = sample_posterior(x, y, np.ones(40), quantity=False, draws=500, seed=0)
        >>> bool(found.mean[0] > 0)
        True
    """
    if draws < 40:
        raise UsageError(f"draws ({draws}) must be 40 or more")
    import blackjax
    import jax
    import jax.numpy as jnp

    design = np.hstack([x, np.ones((len(x), 1))])
    mode, shape = (_linear_mode if quantity else _logistic_mode)(design, y, masses)
    rows, labels, weights = (jnp.asarray(a, jnp.float32) for a in (design, y, masses))
    centre, root = jnp.asarray(mode, jnp.float32), jnp.asarray(shape, jnp.float32)

    def log_density(z: Any) -> Any:
        theta = centre + root @ z
        if quantity:
            beta, log_sigma = theta[:-1], theta[-1]
            gaps = (labels - rows @ beta) / jnp.exp(log_sigma)
            fit = -jnp.sum(weights * (0.5 * gaps**2 + log_sigma)) - 0.5 * log_sigma**2
        else:
            beta, margins = theta, rows @ theta
            fit = jnp.sum(weights * (labels * margins - jnp.logaddexp(0.0, margins)))
        return fit - 0.5 * jnp.sum(beta**2) / PRIOR**2

    each = math.ceil(draws / CHAINS)
    warm_key, *keys = jax.random.split(jax.random.PRNGKey(seed), 1 + CHAINS)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density, initial_step_size=0.5)
    (state, found), _ = adaptation.run(warm_key, jnp.zeros(len(mode)), max(draws // 4, 50))
    kernel = jax.jit(blackjax.nuts(log_density, **found).step)
    chains = []
    for number, key in enumerate(keys):
        # Chains start at different places, so that R-hat shows whether they meet.
        start = jax.random.normal(jax.random.fold_in(key, number), (len(mode),))
        state = blackjax.nuts(log_density, **found).init(start)
        chain = np.empty((each + _STEPS // 5, len(mode)))
        for step in range(len(chain)):
            key, own = jax.random.split(key)
            state, _ = kernel(own, state)
            chain[step] = np.asarray(state.position)
        chains.append(chain[_STEPS // 5 :])
    theta = mode + np.concatenate(chains) @ shape.T
    kept = theta[:, :-1] if quantity else theta
    return Posterior(kept, _worst_r_hat(np.stack(chains)))


def _logistic_mode(x: np.ndarray, y: np.ndarray, masses: np.ndarray) -> tuple[Any, Any]:
    """The mode by Newton's method, and a root of the inverse Hessian there."""
    from marginalsyn.weights.logistic import Labelled, fit_logistic

    rows = Labelled([x], 2.0 * y - 1.0, masses)
    found = fit_logistic([rows], x.shape[1], PRIOR**-2, 1e-12 * len(x))
    return found.beta, np.linalg.inv(np.linalg.cholesky(found.hessian)).T


def _linear_mode(x: np.ndarray, y: np.ndarray, masses: np.ndarray) -> tuple[Any, Any]:
    """The mode given the size of the errors, and that size, both nearly."""
    sigma, beta = float(np.std(y)) or 1.0, np.zeros(x.shape[1])
    for _ in range(20):
        hessian = (x * masses[:, None]).T @ x / sigma**2 + np.eye(x.shape[1]) / PRIOR**2
        beta = np.linalg.solve(hessian, x.T @ (masses * y) / sigma**2)
        sigma = max(math.sqrt(float(np.average((y - x @ beta) ** 2, weights=masses))), 1e-6)
    root = np.zeros((len(beta) + 1, len(beta) + 1))
    root[:-1, :-1] = np.linalg.inv(np.linalg.cholesky(hessian)).T
    root[-1, -1] = 1 / math.sqrt(2 * masses.sum())
    return np.append(beta, math.log(sigma)), root


def _worst_r_hat(chains: np.ndarray) -> float:
    """The largest split R-hat of a coordinate (Gelman et al. 2013)."""
    from arviz_stats.base import array_stats

    draws = np.moveaxis(chains, 2, 0)
    return max(float(array_stats.rhat(each, method="split")) for each in draws)
