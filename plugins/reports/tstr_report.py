"""The report of train on synthetic, test on real: what a model loses by learning from a release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marginalsyn.evaluation.charts import Bar, Curves, Dots
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    curves_by_eps,
    show_by_eps,
)
from marginalsyn.evaluation.verdict import Verdict, compare_models, judge_models
from marginalsyn.evaluation.view import Fold, Group, Item, Legend, Note, Table, number, with_error
from marginalsyn.progress import Progress
from marginalsyn.release.earlier import with_new_keys

# How scores are called, and which are drawn.
NAMES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "log_loss": "log loss",
    "risk": "risk",
    "brier": "Brier score",
    "r2": "R²",
    "rmse": "RMSE",
    "absolute": "absolute error",
}
_RISKS = {"svm": "hinge loss", "rbf-svm": "hinge loss", "ridge": "squared error"}
_PROTOCOLS = {
    "held-out": "They are tested on held-out real rows that neither the generator nor the real "
    "model saw",
    "splits": "They are tested on random fifths of real rows that the generator did not see; the "
    "real model learns from the other four",
    "in-sample": "IN SAMPLE: they are tested on random fifths of rows that the generator saw, as "
    "in Zhou et al. 2024; this flatters the synthetic tables",
}


class TstrReport(Report):
    """Linear models, trained on real, synthetic, weighted and resampled rows."""

    name = "tstr"
    title = "Train on synthetic, test on real"
    summary = "accuracy, AUC, loss and excess risk of models trained on the release"
    place = 30
    scope = "persons"
    needs_test = True

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        from marginalsyn.plugins.reports.baselines import choose_learners, train_baselines
        from marginalsyn.plugins.reports.tstr import evaluate_models
        from marginalsyn.table.design import Task

        trials = ground.trials
        if trials is None:
            return None
        known = [
            t for trial in trials.trials[:1] for t in (trial.train, trial.test) if t is not None
        ]
        task = Task.of(ground.schema, ground.label, known)
        learners = choose_learners(options.models, quantity=task.quantity)
        extra, baselines = train_baselines(options.baselines, task, case, ground, progress)
        block = evaluate_models(
            task, trials, case.synthetic, case.weights, learners, extra=extra, progress=progress
        )
        return {**block, "generator": case.generator, "eps": case.eps, "baselines": baselines}

    def facts(self, block: Block) -> Iterable[Fact]:
        for result in block["results"]:
            excess = {f"excess_{metric}": found for metric, found in result["excess"].items()}
            rest = {metric: result[metric] for metric in ("excess_train_risk", "coefficient_error")}
            for metric, found in {**result["scores"], **excess, **rest}.items():
                if found is not None:
                    item = f"{result['model']}: {source(result)}"
                    yield Fact(item, metric, found["mean"], found["se"])

    def verdict(self, block: Block) -> Verdict:
        return judge_models(block)

    def compare(self, blocks: Blocks) -> str:
        return compare_models(blocks)

    def combine(self, blocks: Blocks) -> Block | None:
        """Excess risk by generator and eps, where releases of several eps are compared."""
        model = _models(next(iter(blocks.values())))[0][0]
        found = []
        for block in blocks.values():
            for r in block["results"]:
                excess = r["excess"].get("risk")
                made = r["model"] == model and r["trained_on"] in ("synthetic", "weighted")
                if made and excess is not None and block["eps"]:
                    name = block["generator"] or "another tool"
                    name += f", {r['weights']}" if r["weights"] else ""
                    found.append((name, block["eps"], excess["mean"], excess["se"] or 0.0))
        curves = curves_by_eps(found)
        return {"model": model, "excess_by_eps": curves} if curves else None

    def brief(self, blocks: Blocks) -> Table:
        """Scores of every model and training table."""
        every = [
            (model, case, result)
            for model in {r["model"]: None for b in blocks.values() for r in b["results"]}
            for case, result in _each(blocks, model)
        ]
        first = every[0][2]["scores"]
        scores = [m for m in ("accuracy", "auc", "r2", "risk") if m in first]
        rows = []
        for model, case, r in every:
            real = r["trained_on"] == "real"
            name = source(r) if real or len(blocks) == 1 else f"{case}: {source(r)}"
            # The errors of scores stand on the page: here a line fits 80 characters.
            cells = [number(r["scores"][m]["mean"]) if m in r["scores"] else "" for m in scores]
            cells.append("" if real else _cell(r["excess"].get("risk")))
            rows.append([model, name, *cells])
        return Table(["model", "trained on", *scores, "excess risk"], rows)

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        text = f"Models predict {first['label']}. {_PROTOCOLS[first['protocol']]}."
        yield Note(text, "warning") if first["protocol"] == "in-sample" else text
        counts = f"{first['test_rows']:,} test rows"
        if first["train_rows"] is not None:
            counts = f"{first['train_rows']:,} real training rows, {counts}"
        yield Note(
            f"{counts}, {first['repeats']} repetitions. Bars are two standard errors; the "
            "dashed line is the model trained on real rows."
        )
        if combined is not None:
            title = f"Excess risk of {combined['model']} on test rows against eps"
            yield Note("Excess risk against eps", "heading")
            yield from show_by_eps(combined["excess_by_eps"], title, "excess risk")
        for model, title in _models(first):
            yield Note(title, "heading")
            results = _results(blocks, model)
            yield Group(list(_charts(results, model)))
            yield Fold("All scores", list(_scores(results, model)))
        yield from _curves(blocks)
        # Private training on the real rows, if it was asked for.
        notes = {
            f"{name}: {with_new_keys(facts)['text']}"
            for block in blocks.values()
            for name, facts in block["baselines"].items()
        }
        yield from map(Note, sorted(notes))


_Result = Mapping[str, Any]
# Names, colours and results.
_Results = list[tuple[str, int, _Result]]


def source(result: _Result) -> str:
    """What a model was trained on, in words."""
    return result["trained_on"] + (f", {result['weights']}" if result["weights"] else "")


def _models(block: Block) -> list[tuple[str, str]]:
    return list({r["model"]: r["title"] for r in block["results"]}.items())


def _each(blocks: Blocks, model: str) -> Iterator[tuple[str, _Result]]:
    """A model's results, table by table; that of real rows once."""
    seen_real = False
    for case, block in blocks.items():
        for result in block["results"]:
            real = result["trained_on"] == "real"
            if result["model"] == model and not (real and seen_real):
                seen_real |= real
                yield case, result


def _results(blocks: Blocks, model: str) -> _Results:
    """Name, colour and result of every training table; the real one once."""
    found = []
    # Releases of one generator have one colour.
    makers = list(dict.fromkeys(block["generator"] or case for case, block in blocks.items()))
    for case, result in _each(blocks, model):
        kind, name = result["trained_on"], source(result)
        tone = {"real": 0, "synthetic": 1, "weighted": 2, "resampled": 3}.get(kind, 4)
        if len(blocks) > 1 and kind != "real":
            name = case if kind == "synthetic" else f"{case}, {name}"
            tone = 1 + makers.index(blocks[case]["generator"] or case) % 5
        found.append((name, tone, result))
    return found


def _charts(results: _Results, model: str) -> Iterator[Dots]:
    """A chart of each score, and one of the excess over the real model.

    The error of the excess is small, since both models see the same rows.
    """
    real: _Result = next((r["scores"] for _, _, r in results if r["trained_on"] == "real"), {})
    for metric in ("accuracy", "auc", "risk", "r2"):
        shown = [(*r[:2], r[2]["scores"][metric]) for r in results if metric in r[2]["scores"]]
        reference = real[metric]["mean"] if metric in real else None
        yield _dots(shown, reference, f"{_called(metric, model)} on test rows")
    shown = [
        (name, tone, r["excess"]["risk"])
        for name, tone, r in results
        if r["trained_on"] != "real" and "risk" in r["excess"]
    ]
    title = f"excess {_called('risk', model)} on test rows: the difference to the real model"
    yield _dots(shown, 0.0, title)


def _dots(shown: _Results, reference: float | None, title: str) -> Dots:
    bars = [Bar(name, found["mean"], found["se"], tone) for name, tone, found in shown]
    return Dots(title, bars, reference)


def _scores(results: _Results, model: str) -> Iterator[Item]:
    """The table of all scores, with notes on models that are not as asked."""
    metrics = [m for m in NAMES if any(m in r[2]["scores"] for r in results)]
    if "log_loss" in metrics:
        metrics.remove("risk")
    head = ["trained on", *(_called(m, model) for m in metrics)]
    head += ["excess risk, test", "excess risk, training rows", "coefficient error"]
    rows = []
    for name, _, r in results:
        gaps = [r["excess"].get("risk"), r["excess_train_risk"], r["coefficient_error"]]
        found = [r["scores"].get(m) for m in metrics]
        found += [None] * len(gaps) if r["trained_on"] == "real" else gaps
        rows.append([name, *map(_cell, found)])
    yield Table(head, rows)
    yield from map(Note, sorted({f"{name}: {r['note']}" for name, _, r in results if r["note"]}))


def _called(metric: str, model: str) -> str:
    return _RISKS.get(model, "log loss") if metric == "risk" else NAMES[metric]


def _cell(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else with_error(found["mean"], found["se"])


def _curves(blocks: Blocks) -> Iterator[Item]:
    """ROC and calibration of the first model."""
    roc = {}
    calibrated = {}
    tones: dict[str, int] = {}
    for case, block in blocks.items():
        for kind, curve in block["curves"].items():
            name = kind if kind == "real" or len(blocks) == 1 else f"{case}, {kind}"
            left_out = len(blocks) > 1 and kind not in ("real", "synthetic")
            if name in tones or len(tones) > 5 or left_out:
                continue
            tones[name] = 0 if kind == "real" else len([t for t in tones.values() if t]) % 5 + 1
            roc[name] = curve["roc"]
            if "calibration" in curve:
                calibrated[name] = [[p["predicted"], p["observed"]] for p in curve["calibration"]]
    if not roc:
        return
    rates = ("false positive rate", "true positive rate")
    chances = ("predicted chance", "observed share")
    tenths = "Calibration: tenths of the test rows by predicted chance"
    yield Note("ROC and calibration", "heading")
    yield Legend(list(tones.items()))
    yield Group(
        [
            Curves("ROC", roc, tones, *rates, square=True, marks=False),
            Curves(tenths, calibrated, tones, *chances, square=True),
        ]
    )
