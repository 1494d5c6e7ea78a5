"""The verdict on one table: two sentences and the few most important numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marginalsyn.evaluation.charts import number


@dataclass(frozen=True)
class Verdict:
    """The verdict on one table: sentences, and figures by name."""

    sentences: tuple[str, ...]
    figures: Mapping[str, Any]


def reach_verdict(case: str, blocks: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Say how close the marginals are, and what a model loses, from a table's blocks."""
    sentences, figures = [], {}
    privacy = blocks.get("privacy", {}).get(case)
    if privacy and privacy["known"]:
        figures["eps"] = privacy["eps"]
    marginals = blocks.get("marginals", {}).get(case)
    if marginals:
        sentence, found = _marginals(marginals)
        sentences.append(sentence)
        figures.update(found)
    tstr = blocks.get("tstr", {}).get(case)
    if tstr:
        sentence, found = _models(tstr)
        sentences.append(sentence)
        figures.update(found)
    return Verdict(tuple(sentences), figures)


def compare(blocks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say which of several tables is best at what, in two sentences."""
    sentences = []
    marginals = blocks.get("marginals", {})
    if len(marginals) > 1:
        errors = {case: b["variants"][0]["by_degree"][-1] for case, b in marginals.items()}
        best = min(errors, key=lambda case: errors[case]["mean_tv"])
        worst = max(errors, key=lambda case: errors[case]["mean_tv"])
        sentences.append(
            f"{best} has the closest {errors[best]['degree']}-way marginals, off by "
            f"{number(errors[best]['mean_tv'])} on average, and {worst} the farthest, "
            f"{number(errors[worst]['mean_tv'])}."
        )
    models = blocks.get("tstr", {})
    if len(models) > 1:
        found = {case: _models(block)[1] for case, block in models.items()}
        known = {case: f["excess risk"] for case, f in found.items() if "excess risk" in f}
        if known:
            best, worst = min(known, key=lambda c: known[c]), max(known, key=lambda c: known[c])
            sentences.append(
                f"Models trained on {best} lose least, an excess risk of {number(known[best])}, "
                f"and those on {worst} most, {number(known[worst])}."
            )
    return sentences


def _marginals(block: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
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
    return told + ".", figures


def _models(block: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
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
    return told + ".", figures


def _article(name: str) -> str:
    return "an" if name[0] in "aeiouR" else "a"
