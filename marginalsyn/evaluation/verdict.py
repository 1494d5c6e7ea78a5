"""What the built-in reports say first of one table, and of several: sentences and few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marginalsyn.evaluation.charts import number
from marginalsyn.evaluation.reports import Verdict


def compare_marginals(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Which table has the closest marginals, and which the farthest."""
    errors = {case: b["variants"][0]["by_degree"][-1] for case, b in blocks.items()}
    best = min(errors, key=lambda case: errors[case]["mean_tv"])
    worst = max(errors, key=lambda case: errors[case]["mean_tv"])
    return (
        f"{best} has the closest {errors[best]['degree']}-way marginals, off by "
        f"{number(errors[best]['mean_tv'])} on average, and {worst} the farthest, "
        f"{number(errors[worst]['mean_tv'])}."
    )


def compare_models(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Models from which table lose least, and from which most."""
    found = {case: judge_models(block).figures for case, block in blocks.items()}
    known = {case: f["excess risk"] for case, f in found.items() if "excess risk" in f}
    if not known:
        return ""
    best, worst = min(known, key=lambda c: known[c]), max(known, key=lambda c: known[c])
    return (
        f"Models trained on {best} lose least, an excess risk of {number(known[best])}, "
        f"and those on {worst} most, {number(known[worst])}."
    )


def judge_marginals(block: Mapping[str, Any]) -> Verdict:
    """How far the largest marginals are off, beside those of a fresh sample."""
    level = block["variants"][0]["by_degree"][-1]
    degree, mean = level["degree"], level["mean_tv"]
    what = f"{degree}-way marginals" if degree > 1 else "one-way marginals"
    told = f"Its {what} are off by {number(mean)} on average (total variation)"
    figures = {f"{degree}-way error": mean}
    if block["sampling"]:
        floor = block["sampling"]["by_degree"][-1]["mean_tv"]
        figures["sampling alone"] = floor
        times = mean / floor if floor > 0 else None
        told += f"; a fresh sample of real rows would be off by {number(floor)}"
        if times is not None and times <= 1.2:
            told += ", hardly less" if times > 1 else ", no less"
    return Verdict(told + ".", figures)


def judge_models(block: Mapping[str, Any]) -> Verdict:
    """The first model's scores on synthetic rows beside real ones, and what weights change."""
    model = block["results"][0]["model"]
    mine = [r for r in block["results"] if r["model"] == model]
    own = next(r for r in mine if r["trained_on"] == "synthetic")
    real = next((r for r in mine if r["trained_on"] == "real"), None)
    score, name = ("accuracy", "accuracy") if "accuracy" in own["scores"] else ("r2", "R²")
    risk = "log loss" if "log_loss" in own["scores"] else "squared error"
    title = own["title"].split(",")[0].lower()
    value = own["scores"].get(score, {}).get("mean")
    figures: dict[str, Any] = {name: value}
    told = f"A {title} trained on it has {_article(name)} {name} of {number(value)} on "
    told += (
        "rows that its generator saw" if block["protocol"] == "in-sample" else "unseen real rows"
    )
    if real is not None:
        figures[f"{name}, real"] = real["scores"].get(score, {}).get("mean")
        told += f" against {number(figures[f'{name}, real'])} when trained on real ones"
        excess = own["excess"].get("risk")
        if excess is not None:
            figures["excess risk"] = excess["mean"]
            told += f", an excess {risk} of {number(excess['mean'])}"
            if excess["se"]:
                told += f" ± {number(excess['se'])}"
    weighted = [r for r in mine if r["trained_on"] == "weighted" and r["excess"].get("risk")]
    if weighted:
        best = min(weighted, key=lambda r: r["excess"]["risk"]["mean"])
        told += f"; with weights {best['weights']} it is {number(best['excess']['risk']['mean'])}"
    return Verdict(told + ".", figures)


def _article(name: str) -> str:
    return "an" if name[0] in "aeiouR" else "a"
