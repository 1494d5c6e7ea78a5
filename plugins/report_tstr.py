"""The report of train on synthetic, test on real: what a model loses by learning from a release."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from marginalsyn.evaluation import (
    Bar,
    Block,
    Case,
    Fact,
    Ground,
    Options,
    Report,
    Verdict,
    compare_models,
    curves_by_eps,
    dots,
    draw_by_eps,
    judge_models,
    key,
    lines,
    page,
)
from marginalsyn.progress import Progress

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

    name: ClassVar[str] = "tstr"
    title: ClassVar[str] = "Train on synthetic, test on real"
    summary: ClassVar[str] = "accuracy, AUC, loss and excess risk of models trained on the release"
    place: ClassVar[int] = 30
    needs_test: ClassVar[bool] = True

    def compute(
        self, case: Case, ground: Ground, options: Options, progress: Progress
    ) -> Block | None:
        from marginalsyn.evaluation import choose_learners, evaluate_models, train_baselines
        from marginalsyn.table import Task

        trials = ground.trials
        if trials is None:
            return None
        known = [
            t for trial in trials.trials[:1] for t in (trial.train, trial.test) if t is not None
        ]
        task = Task.of(ground.schema, ground.label, known)
        learners = choose_learners(options.models, quantity=task.quantity)
        extra, baselines = train_baselines(
            options.baselines, task, trials, case, ground.cache, progress
        )
        block = evaluate_models(
            task, trials, case.synthetic, case.weights, learners, extra=extra, progress=progress
        )
        statement = case.release.statement if case.release is not None else None
        return {
            **block,
            "generator": statement.generator if statement is not None else None,
            "eps": statement.eps if statement is not None else None,
            "baselines": baselines,
        }

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        for result in block["results"]:
            item = f"{result['model']}: {source(result)}"
            for kind in ("scores", "excess"):
                for metric, found in result[kind].items():
                    told = metric if kind == "scores" else f"excess_{metric}"
                    yield self.fact(case, item, told, found["mean"], found["se"])
            for metric in ("excess_train_risk", "coefficient_error"):
                if result[metric] is not None:
                    yield self.fact(
                        case, item, metric, result[metric]["mean"], result[metric]["se"]
                    )

    def verdict(self, block: Block) -> Verdict:
        return judge_models(block)

    def compare(self, blocks: Mapping[str, Block]) -> str:
        return compare_models(blocks)

    def combine(self, blocks: Mapping[str, Block]) -> Block | None:
        return _by_eps(blocks)

    def table(self, blocks: Mapping[str, Block]) -> list[list[str]]:
        """Scores of every model and training table."""
        from marginalsyn.evaluation import number

        rows: list[list[str]] = []
        seen: set[str] = set()
        models = {r["model"]: None for block in blocks.values() for r in block["results"]}
        for model, (case, block) in itertools.product(models, blocks.items()):
            for r in (r for r in block["results"] if r["model"] == model):
                real = r["trained_on"] == "real"
                if real and r["model"] in seen:
                    continue
                seen.add(r["model"] if real else "")
                scores = [m for m in ("accuracy", "auc", "r2", "risk") if m in r["scores"]]
                if not rows:
                    rows.append(["model", "trained on", *scores, "excess risk"])
                name = r["trained_on"] + (f", {r['weights']}" if r["weights"] else "")
                if len(blocks) > 1 and not real:
                    name = f"{case}: {name}"
                excess = r["excess"].get("risk") if not real else None
                # The errors of scores stand on the page: here a line fits 80 characters.
                cells = [number(r["scores"][m]["mean"]) for m in scores]
                last = page.with_error(excess["mean"], excess["se"]) if excess else ""
                rows.append([model, name, *cells, last])
        width = max((len(row) for row in rows), default=0)
        return [row + [""] * (width - len(row)) for row in rows]

    def html(self, blocks: Mapping[str, Block], combined: Block | None = None) -> str:
        first = next(iter(blocks.values()))
        told = f"Models predict {first['label']}. {_PROTOCOLS[first['protocol']]}."
        parts = [page.paragraph(told, "warning" if first["protocol"] == "in-sample" else "")]
        counts = f"{first['test_rows']:,} test rows"
        if first["train_rows"] is not None:
            counts = f"{first['train_rows']:,} real training rows, {counts}"
        parts.append(
            page.paragraph(
                f"{counts}, {first['repeats']} repetitions. Bars are two standard errors; the "
                "dashed line is the model trained on real rows.",
                "note",
            )
        )
        parts.append(_excess_by_eps(combined))
        for model, title in _models(first):
            parts.append(page.heading(title))
            charts = [_chart(blocks, model, metric) for metric in ("accuracy", "auc", "risk", "r2")]
            charts.append(_excess_chart(blocks, model))
            parts.append(page.grid([chart for chart in charts if chart], "pair"))
            parts.append(page.details("All scores", _table(blocks, model)))
        parts.append(_curves(blocks))
        parts.append(_baselines(blocks))
        return "".join(parts)


def source(result: Mapping[str, Any]) -> str:
    """What a model was trained on, in words."""
    return result["trained_on"] + (f", {result['weights']}" if result["weights"] else "")


def _models(block: Block) -> list[tuple[str, str]]:
    return list({r["model"]: r["title"] for r in block["results"]}.items())


def _results(blocks: Mapping[str, Block], model: str) -> list[tuple[str, int, Mapping[str, Any]]]:
    """Name, colour and result of every training table; the real one once."""
    found = []
    seen_real = False
    # Releases of one generator have one colour.
    makers = list(dict.fromkeys(block["generator"] or case for case, block in blocks.items()))
    for case, block in blocks.items():
        for result in block["results"]:
            kind = result["trained_on"]
            if result["model"] != model or (kind == "real" and seen_real):
                continue
            seen_real |= kind == "real"
            name = source(result)
            if len(blocks) > 1 and kind != "real":
                name = case if kind == "synthetic" else f"{case}, {name}"
            tones = {"real": 0, "synthetic": 1, "weighted": 2, "resampled": 3}
            tone = tones.get(kind, 4)
            if len(blocks) > 1 and kind != "real":
                tone = 1 + makers.index(block["generator"] or case) % 5
            found.append((name, tone, result))
    return found


def _chart(blocks: Mapping[str, Block], model: str, metric: str) -> str:
    results = [r for r in _results(blocks, model) if metric in r[2]["scores"]]
    real = next((r for r in results if r[2]["trained_on"] == "real"), None)
    bars = [
        Bar(name, r["scores"][metric]["mean"], r["scores"][metric]["se"], tone)
        for name, tone, r in results
    ]
    if not bars:
        return ""
    told = _RISKS.get(model, "log loss") if metric == "risk" else NAMES[metric]
    reference = real[2]["scores"][metric]["mean"] if real is not None else None
    return page.figure(dots(bars, reference, f"{told} on test rows"), f"{told} on test rows")


def _excess_chart(blocks: Mapping[str, Block], model: str) -> str:
    """The difference to the real model, whose error is small since both see the same rows."""
    bars = [
        Bar(name, r["excess"]["risk"]["mean"], r["excess"]["risk"]["se"], tone)
        for name, tone, r in _results(blocks, model)
        if r["trained_on"] != "real" and "risk" in r["excess"]
    ]
    told = f"excess {_called('risk', model)} on test rows: the difference to the real model"
    return page.figure(dots(bars, 0.0, told), told) if bars else ""


def _table(blocks: Mapping[str, Block], model: str) -> str:
    results = _results(blocks, model)
    metrics = [m for m in NAMES if any(m in r[2]["scores"] for r in results)]
    if "log_loss" in metrics:
        metrics.remove("risk")
    head = ["trained on", *(_called(m, model) for m in metrics)]
    head += ["excess risk, test", "excess risk, training rows", "coefficient error"]
    rows = []
    for name, _, r in results:
        cells = [_cell(r["scores"].get(m)) for m in metrics]
        excess = r["excess"].get("risk") if r["trained_on"] != "real" else None
        train = r["excess_train_risk"] if r["trained_on"] != "real" else None
        beta = r["coefficient_error"] if r["trained_on"] != "real" else None
        rows.append([name, *cells, _cell(excess), _cell(train), _cell(beta)])
    notes = {f"{name}: {r['note']}" for name, _, r in results if r["note"]}
    return page.table(head, rows) + "".join(page.paragraph(n, "note") for n in sorted(notes))


def _called(metric: str, model: str) -> str:
    return _RISKS.get(model, "log loss") if metric == "risk" else NAMES[metric]


def _cell(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else page.with_error(found["mean"], found["se"])


def _by_eps(blocks: Mapping[str, Block]) -> Block | None:
    """Excess risk by generator and eps, where releases of several eps are compared."""
    model = _models(next(iter(blocks.values())))[0][0]
    found = []
    for block in blocks.values():
        for r in block["results"]:
            if r["model"] == model and r["trained_on"] in ("synthetic", "weighted"):
                name = block["generator"] or "another tool"
                name += f", {r['weights']}" if r["weights"] else ""
                excess = r["excess"].get("risk")
                if excess is not None and block["eps"]:
                    found.append((name, block["eps"], excess["mean"], excess["se"] or 0.0))
    curves = curves_by_eps(found)
    return {"model": model, "excess_by_eps": curves} if curves else None


def _excess_by_eps(combined: Block | None) -> str:
    if combined is None:
        return ""
    told = f"Excess risk of {combined['model']} on test rows against eps"
    drawn = draw_by_eps(combined["excess_by_eps"], told, "excess risk")
    return page.heading("Excess risk against eps") + drawn


def _curves(blocks: Mapping[str, Block]) -> str:
    """ROC and calibration of the first model."""
    roc: dict[str, Any] = {}
    calibrated: dict[str, Any] = {}
    tones: dict[str, int] = {}
    for case, block in blocks.items():
        for name, curve in block["curves"].items():
            told = name if name == "real" or len(blocks) == 1 else f"{case}, {name}"
            if told in tones or len(tones) > 5 or (len(blocks) > 1 and name not in _BOTH):
                continue
            tones[told] = 0 if name == "real" else len([t for t in tones.values() if t]) % 5 + 1
            roc[told] = curve["roc"]
            if "calibration" in curve:
                calibrated[told] = [[p["predicted"], p["observed"]] for p in curve["calibration"]]
    if not roc:
        return ""
    square: dict[str, Any] = {"square": True, "diagonal": True}
    charts = [
        page.figure(
            lines(
                roc,
                tones,
                title="ROC curves",
                x_title="false positive rate",
                y_title="true positive rate",
                marks=False,
                **square,
            ),
            "ROC",
        )
    ]
    if calibrated:
        charts.append(
            page.figure(
                lines(
                    calibrated,
                    tones,
                    title="calibration",
                    x_title="predicted chance",
                    y_title="observed share",
                    **square,
                ),
                "Calibration: tenths of the test rows by predicted chance",
            )
        )
    return (
        page.heading("ROC and calibration") + key(list(tones.items())) + page.grid(charts, "pair")
    )


_BOTH = ("real", "synthetic")


def _baselines(blocks: Mapping[str, Block]) -> str:
    """A sentence on private training on the real rows, if it was asked for."""
    notes = {
        f"{name}: {facts['told']}"
        for block in blocks.values()
        for name, facts in block["baselines"].items()
    }
    return "".join(page.paragraph(note, "note") for note in sorted(notes))
