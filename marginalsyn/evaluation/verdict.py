"""What the built-in reports say first of one table, and of several: sentences and few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marginalsyn.evaluation.charts import number
from marginalsyn.evaluation.fitness import (
    FRESH,
    SHUFFLED,
    judge_learners,
    judge_tables,
    main_level,
    ways,
)
from marginalsyn.evaluation.reports import Verdict

# So many of the worst columns and pairs are named.
NAMED = 3


def compare_marginals(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Which table has the closest marginals, and which the farthest."""
    errors = {case: main_level(b["variants"][0]) for case, b in blocks.items()}
    best = min(errors, key=lambda case: errors[case]["mean_l1"])
    worst = max(errors, key=lambda case: errors[case]["mean_l1"])
    return (
        f"{best} has the closest {ways(errors[best]['degree'])} tables, with an l1 error of "
        f"{number(errors[best]['mean_l1'])} on average, and {worst} the farthest, "
        f"{number(errors[worst]['mean_l1'])}."
    )


def compare_models(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Models from which table lose least, and from which most; none of them weighted."""
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
    """The l1 error of small tables beside its yardsticks, and the worst of them by name."""
    level = main_level(block["variants"][0])
    told = (
        f"Its {ways(level['degree'])} tables have an l1 error of {number(level['mean_l1'])} on "
        f"average (total variation {number(level['mean_tv'])})"
    )
    figures = {"l1 error": level["mean_l1"], "total variation": level["mean_tv"]}
    uses = judge_tables(block)
    mine = [use for use in uses if use.use == uses[0].use]
    beside = mine[0].beside
    if FRESH in beside:
        told += f"; a fresh sample would be {number(beside[FRESH])}"
        figures[FRESH] = beside[FRESH]
    if SHUFFLED in beside:
        told += f"; shuffled columns {number(beside[SHUFFLED])}"
        figures[SHUFFLED] = beside[SHUFFLED]
    for use in mine[1:]:
        told += f"; with weights {use.weights} it is {number(use.value)}"
        figures[f"l1 error, weights {use.weights}"] = use.value
    return Verdict(told + ".", figures, uses, _worst(block))


def _worst(block: Mapping[str, Any]) -> dict[str, list[str]]:
    """The worst columns, pairs and rare groups, each beside what sampling would show."""
    own, floor = block["variants"][0], block["sampling"] or {}
    columns = own["by_column"]
    pairs = {(a, b): error for a, b, error in own["by_pair"]}
    fresh_columns = floor.get("by_column", {})
    fresh_pairs = {(a, b): error for a, b, error in floor.get("by_pair", [])}
    found = {
        "value for the budget": list(block.get("wasted", ())),
        "columns": _named(columns, fresh_columns, str),
        "pairs": _named(pairs, fresh_pairs, " × ".join),
    }
    groups = block.get("groups")
    if groups:
        found["rare groups"] = [
            f"{one['group']} ({number(one['synthetic'])} of the rows, really {number(one['real'])})"
            for one in groups["worst"]
        ]
        rest = groups["groups"] - len(groups["worst"])
        if rest > 0:
            found["rare groups"].append(f"and {number(rest)} more")
    return {name: listed for name, listed in found.items() if listed}


def _named(errors: Mapping[Any, float], fresh: Mapping[Any, float], name: Any) -> list[str]:
    worst = sorted(errors, key=lambda one: -errors[one])[:NAMED]
    told = [
        f"{name(one)} {number(errors[one])}"
        + (f" (fresh sample {number(fresh[one])})" if one in fresh else "")
        for one in worst
    ]
    rest = len(errors) - len(worst)
    return [*told, f"and {number(rest)} more, all below"] if rest else told


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
    figures: dict[str, Any] = {}
    told = f"A {title} trained on it has {_article(name)} {name} of {number(value)} on "
    told += (
        "rows that its generator saw" if block["protocol"] == "in-sample" else "unseen real rows"
    )
    scores: dict[str, Any] = {name: value}
    if real is not None:
        scores[f"{name}, real"] = real["scores"].get(score, {}).get("mean")
        told += f" against {number(scores[f'{name}, real'])} when trained on real ones"
        excess = own["excess"].get("risk")
        if excess is not None:
            figures["excess risk"] = excess["mean"]
            told += f", an excess {risk} of {number(excess['mean'])}"
            if excess["se"]:
                told += f" ± {number(excess['se'])}"
    weighted: Sequence[Mapping[str, Any]] = [
        r for r in mine if r["trained_on"] == "weighted" and r["excess"].get("risk")
    ]
    # Every column: to name the one that did best on these rows would flatter it.
    for r in weighted:
        found = r["excess"]["risk"]["mean"]
        figures[f"excess risk, weights {r['weights']}"] = found
        told += f"; with weights {r['weights']} it is {number(found)}"
    return Verdict(told + ".", {**figures, **scores}, judge_learners(block))


def _article(name: str) -> str:
    return "an" if name[0] in "aeiouR" else "a"
