"""The report of Bayesian updating: posteriors from a release beside that of the real rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from marginalsyn.evaluation import page
from marginalsyn.evaluation.reports import Block, Case, Fact, Options, RealData, Report
from marginalsyn.progress import Progress

# More rows would make chains of hundreds of draws take many minutes.
MOST_ROWS = 20_000
_METRICS = ("mean_shift", "coverage", "width_ratio", "predictive", "r_hat")


class BayesReport(Report):
    """Bayesian logistic or linear regression on real, synthetic and weighted rows, by NUTS."""

    name = "bayes"
    title = "Bayesian updating"
    summary = "posteriors of regressions: mean shift, coverage, predictive AUC; slow"
    place = 70
    beside = False
    needs_test = True
    default = False
    requires = ("bayes",)

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        from marginalsyn.errors import UsageError
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
        place = ("bayes", task.label)
        if place not in ground.cache:
            progress.report("bayes", text="real rows")
            ground.cache[place] = _posterior(task, train, **knobs)
        real = ground.cache[place]
        results = [{"trained_on": "real", "weights": None, **_describe(task, real, real, test)}]
        for weights, table in case.variants():
            progress.report("bayes", text=f"{case.name} {weights or ''}")
            own = _posterior(task, table, **knobs)
            told = "weighted" if weights else "synthetic"
            entry = {"trained_on": told, "weights": weights, **_describe(task, own, real, test)}
            results.append(entry)
        return {
            "label": task.label,
            "coefficients": len(real.mean),
            "draws": options.draws,
            "most_rows": MOST_ROWS,
            "results": results,
        }

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        for result in block["results"]:
            for metric in _METRICS:
                yield self.fact(case, _source(result), metric, result[metric])

    def html(self, blocks: Mapping[str, Block], combined: Block | None = None) -> Iterable[str]:
        first = next(iter(blocks.values()))
        rows: list[tuple[object, ...]] = []
        for case, block in blocks.items():
            for r in block["results"]:
                real = r["trained_on"] == "real"
                if not (real and rows):
                    name = _source(r) if real or len(blocks) == 1 else f"{case}, {_source(r)}"
                    rows.append((name, *(r[metric] for metric in _METRICS)))
        predictive = first["results"][0]["predictive_of"]
        head = ("rows", "mean shift", "coverage", "width", f"predictive {predictive}", "R-hat")
        yield page.paragraph(
            f"Posteriors of the {first['coefficients']} coefficients of a Bayesian regression of "
            f"{first['label']}. Mean shift: how far the posterior means lie from those of the real "
            "rows, in posterior standard deviations of the real rows, on average. Coverage: the "
            "share of 95% credible intervals that hold the real rows' posterior mean. Width: of "
            "the intervals, over those of the real rows."
        )
        yield page.table(head, rows)


def _source(result: Mapping[str, Any]) -> str:
    """What a posterior is of, in words."""
    return result["trained_on"] + (f", {result['weights']}" if result["weights"] else "")


def _posterior(task: Any, table: Any, *, draws: int, seed: int) -> Any:
    import numpy as np

    from marginalsyn.evaluation.posterior import sample_posterior

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
    import numpy as np
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
