"""Train on synthetic, test on real: what models lose by being trained on a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.evaluation.inputs import Trial, Trials
from marginalsyn.evaluation.scores import (
    Output,
    Scored,
    calibration,
    roc_curve,
    row_errors,
    score,
    standard_error,
)
from marginalsyn.plugins.reports.baselines import Fit, Learner, train
from marginalsyn.progress import Progress, Silent
from marginalsyn.table.design import CodedRows, Task

_Choose = Callable[..., Any]
REAL, SYNTHETIC, WEIGHTED, RESAMPLED = "real", "synthetic", "weighted", "resampled"
RESAMPLES = 2


@dataclass(frozen=True)
class _Outcome:
    """One model of one repetition, scored."""

    fit: Fit
    test: Scored
    training: Scored | None


def evaluate_models(
    task: Task,
    trials: Trials,
    synthetic: CodedRows,
    weights: Mapping[str, np.ndarray],
    learners: Sequence[Learner],
    *,
    extra: Mapping[str, Sequence[Fit]] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train every learner on real, synthetic, weighted and resampled rows; test it on real rows.

    Args:
        task: what is predicted.
        trials: the repetitions.
        synthetic: the release's rows.
        weights: one array of non-negative weights per weight method.
        learners: from ``choose_learners``.
        extra: models trained otherwise (private training on real rows, say): for each name, one
            fit per repetition, or one for all.
        progress: gets reports of what is being trained.

    Returns:
        JSON values: for each learner and training table the mean and the standard error of every
        score, of its difference to the model trained on real rows (``excess``), and of the excess
        empirical risk on the real training rows.
    """
    progress = progress or Silent()
    sources = list(_sources(trials, synthetic, weights))
    results, curves = [], {}
    for position, learner in enumerate(learners):
        trained = []
        for number, (kind, weight, choose) in enumerate(sources):
            progress.report(
                "train",
                fraction=(position + number / len(sources)) / len(learners),
                text=f"{learner.name} on {kind} {weight or ''}",
            )
            # Systematic resampling varies little: on one test part so many draws are enough.
            some = RESAMPLES if kind == RESAMPLED and trials.fixed else None
            key = (learner.name, task.label)
            outcomes = trials.cache.get(key) if kind == REAL else None
            if outcomes is None:
                outcomes = _train_all(task, trials.trials[:some], learner, choose)
            if kind == REAL:
                trials.cache[key] = outcomes
            trained.append((kind, weight, outcomes))
            if position == 0 and kind != RESAMPLED:
                curves[weight or kind] = _curves(task, outcomes[0], trials.trials[0])
        for name, fits in (extra or {}).items() if position == 0 else ():
            outcomes = [
                _test_fit(task, fits[r % len(fits)], t) for r, t in enumerate(trials.trials)
            ]
            trained.append((name, None, outcomes))
        real = next((outcomes for kind, _, outcomes in trained if kind == REAL), None)
        results += [
            {
                "model": learner.name,
                "title": learner.title,
                "trained_on": kind,
                "weights": weight,
                **_summarise(outcomes, real, trials.fixed),
            }
            for kind, weight, outcomes in trained
        ]
    first = trials.trials[0]
    return {
        "protocol": trials.protocol,
        "label": task.label,
        "classes": task.class_names if not task.quantity else [],
        "repeats": len(trials.trials),
        "train_rows": None if first.train is None else len(task.known(first.train)),
        "test_rows": len(task.known(first.test)),
        "synthetic_rows": len(synthetic),
        "unlabelled_rows": len(synthetic) - len(task.known(synthetic)),
        "results": results,
        "guess": {learner.name: _guess(task, trials, learner) for learner in learners},
        "curves": {name: curve for name, curve in curves.items() if curve},
    }


def _guess(task: Task, trials: Trials, learner: Learner) -> float | None:
    """The risk of a model that knows the label's shares among real rows, and nothing else."""
    risks = []
    for trial in trials.trials:
        test = task.known(trial.test)
        if trial.train is None or not len(task.known(trial.train)) or not len(test):
            return None
        known = task.labels(task.known(trial.train))
        if task.quantity:
            output = Output(values=np.full(len(test), known.mean()))
        else:
            counts = np.bincount(known, minlength=len(task.classes)) + 1.0  # none is impossible
            output = learner.constant(counts / counts.sum(), len(test))
        risks.append(score(task, output, task.labels(test)).values()["risk"])
        if trials.fixed:
            break
    return float(np.mean(risks))


def _sources(
    trials: Trials, synthetic: CodedRows, weights: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, str | None, _Choose]]:
    """What models are trained on, real rows first: kind, weights, and the table of each trial."""
    if trials.trials[0].train is not None:
        yield REAL, None, lambda trial, _: trial.train
    yield SYNTHETIC, None, lambda *_: synthetic
    for name, values in weights.items():
        table = synthetic.weigh(values)
        yield WEIGHTED, name, lambda *_, table=table: table
        yield RESAMPLED, name, lambda _, rng, table=table: table.resample(rng)


def _train_all(
    task: Task, trials: Sequence[Trial], learner: Learner, choose: _Choose
) -> list[_Outcome]:
    """One outcome per trial, never trained twice on the same rows, nor tested twice."""
    fits = {}
    tested = {}
    kept, outcomes = [], []
    for trial in trials:
        table = choose(trial, np.random.default_rng([trial.seed, 1]))
        kept.append(table)  # an id is that of one object only while the object lives
        seed = trial.seed if learner.random or learner.most_rows else 0
        key = (id(table), seed)
        if key not in fits:
            fits[key] = train(learner, task, table, seed=seed)
        place = (id(fits[key]), id(trial.test))
        if place not in tested:
            tested[place] = _test_fit(task, fits[key], trial)
        outcomes.append(tested[place])
    return outcomes


def _test_fit(task: Task, fit: Fit, trial: Trial) -> _Outcome:
    test = task.known(trial.test)
    training = None
    if trial.train is not None:
        rows = task.known(trial.train)
        training = score(task, fit(task, rows), task.labels(rows))
    return _Outcome(fit, score(task, fit(task, test), task.labels(test)), training)


def _summarise(
    outcomes: Sequence[_Outcome], real: Sequence[_Outcome] | None, fixed: bool
) -> dict[str, Any]:
    """Means and standard errors over repetitions, of scores and of differences in pairs."""
    scores = _means([o.test for o in outcomes], None, fixed)
    found: dict[str, Any] = {"scores": scores, "note": outcomes[0].fit.note}
    if real is None:
        return {**found, "excess": {}, "excess_train_risk": None, "coefficient_error": None}
    real = real[: len(outcomes)]
    found["excess"] = _means([o.test for o in outcomes], [r.test for r in real], fixed)
    gaps = [
        o.training.values()["risk"] - r.training.values()["risk"]
        for o, r in zip(outcomes, real, strict=True)
        if o.training is not None and r.training is not None
    ]
    found["excess_train_risk"] = _spread(gaps) if gaps else None
    errors = [
        float(np.mean(np.square(o.fit.coefficients - r.fit.coefficients)))
        for o, r in zip(outcomes, real, strict=True)
        if o.fit.coefficients is not None
        and r.fit.coefficients is not None
        and o.fit.coefficients.shape == r.fit.coefficients.shape
    ]
    found["coefficient_error"] = _spread(errors) if len(errors) == len(outcomes) else None
    return found


def _means(
    ours: Sequence[Scored], theirs: Sequence[Scored] | None, fixed: bool
) -> dict[str, dict[str, float | None]]:
    """The mean and standard error of every score, or of its difference to another model's.

    With one test part the error has two sources: the test rows (row by row, in pairs) and the
    seeds. With random splits it is the spread over splits, which overlap, so it is a little small.
    """
    tables = [scored.values() for scored in ours]
    if theirs is not None:
        others = [scored.values() for scored in theirs]
        tables = [
            {k: v - b[k] for k, v in a.items() if k in b}
            for a, b in zip(tables, others, strict=True)
        ]
    names = [name for name in tables[0] if all(name in table for table in tables)]
    rows = (
        [row_errors(a, theirs[i] if theirs else None) for i, a in enumerate(ours)] if fixed else []
    )
    found = {}
    for name in names:
        spread = _spread([table[name] for table in tables])
        if fixed and all(name in errors for errors in rows):
            own = float(np.mean([errors[name] for errors in rows]))
            spread["se"] = float(np.hypot(own, spread["se"] or 0.0))
        elif fixed:
            spread["se"] = None  # not a mean over rows: how it varies with them is not known
        found[name] = spread
    return found


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard error; an error that is only rounding becomes 0."""
    mean, se = float(np.mean(values)), standard_error(np.asarray(values))
    return {"mean": mean, "se": se if se > 1e-15 * abs(mean) else 0.0}


def _curves(task: Task, outcome: _Outcome, trial: Trial) -> dict[str, Any]:
    """ROC and calibration of a binary classifier in the first repetition."""
    if not task.binary:
        return {}
    test = task.known(trial.test)
    output, positive = outcome.fit(task, test), task.labels(test) == 1
    marks = output.chances if output.chances is not None else output.margins
    assert marks is not None
    if not positive.any() or positive.all():
        return {}
    found: dict[str, Any] = {"roc": roc_curve(marks[:, 1], positive)}
    if output.chances is not None:
        found["calibration"] = calibration(output.chances[:, 1], positive)
    return found
