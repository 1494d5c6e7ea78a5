"""What a synthetic table is fit for: a word for each use, with its rule and its yardsticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from marginalsyn.evaluation.markup import number

FIT, CARE, UNFIT, UNJUDGED = "fit for", "use with care", "not fit for", "not judged"
TABLES, LINEAR, TREES, RARE = "descriptive tables", "linear models", "trees", "rare groups"
FRESH, SHUFFLED, GUESS = "a fresh sample", "shuffled columns", "guessing"

# Why a word is lowered where the two sides of the real rows differ by more than chance.
UNEVEN = "the held-out rows are no random part of the table"

# The bounds of the words. Errors of tables are l1; those of models, parts of what a model of real
# rows gains over guessing; those of groups, parts of their size.
TABLES_FIT, TABLES_UNFIT = 0.1, 0.3
MODELS_FIT, MODELS_UNFIT = 0.1, 0.5
RARE_FIT, RARE_UNFIT = 0.15, 0.4
# So many times a fresh sample's error is as good as one.
AS_FRESH = 1.5


def _rule(unit: str, fit: float, unfit: float) -> str:
    return (
        f"fit up to {unit} {fit:g}, or {2 * fit:g} if within {AS_FRESH:g} times that of a fresh "
        f"sample; not fit from {unfit:g} on, or where {SHUFFLED} do as well, unless a fresh "
        "sample is as bad"
    )


RULES = {
    TABLES: _rule("an l1 error of", TABLES_FIT, TABLES_UNFIT),
    LINEAR: f"fit where at most {MODELS_FIT:.0%} is lost of what a model of real rows gains over "
    "guessing by the label's shares, two standard errors allowed for; not fit from "
    f"{MODELS_UNFIT:.0%} on",
    RARE: _rule("an error of the groups' sizes of", RARE_FIT, RARE_UNFIT),
}
RULES[TREES] = RULES[LINEAR]

_LINEAR = ("logistic", "ridge", "logistic-coded")
_TREES = ("boosting", "boosting-quantity", "random-forest")


class Use(NamedTuple):
    """What one variant of a table is worth for one use.

    Attributes:
        use: what the table would be used for.
        word: ``fit for``, ``use with care``, ``not fit for`` or ``not judged``.
        measure: what the value is.
        value: the figure that decides.
        se: its standard error, where it has one.
        beside: yardsticks by name: the same figure of other tables.
        rule: what stands behind the word.
        weights: the column of weights, None for the rows without.
        note: a reason or a caution.
    """

    use: str
    word: str
    measure: str = ""
    value: float | None = None
    se: float | None = None
    beside: Mapping[str, float] = {}
    rule: str = ""
    weights: str | None = None
    note: str = ""

    def told(self) -> str:
        """The value beside its yardsticks.

        Example:
            >>> Use(TABLES, FIT, "l1 error", 0.18, beside={FRESH: 0.09, SHUFFLED: 0.31}).told()
            'l1 error 0.18; a fresh sample would be 0.09; shuffled columns 0.31'
        """
        if self.value is None:
            return self.note
        error = f" ± {number(self.se)}" if self.se else ""
        parts = [f"{self.measure} {number(self.value)}{error}"]
        for place, (name, value) in enumerate(self.beside.items()):
            parts.append(f"{name} {'' if place else 'would be '}{number(value)}")
        return "; ".join([*parts, self.note] if self.note else parts)


def word_of(
    value: float,
    *,
    fit: float,
    unfit: float,
    fresh: float | None = None,
    shuffled: float | None = None,
) -> str:
    """The word that a rule gives to an error.

    Example:
        >>> word_of(0.18, fit=0.1, unfit=0.3, fresh=0.09, shuffled=0.31)
        'use with care'
    """
    floor = AS_FRESH * (fresh or 0.0)
    if value <= max(fit, floor):
        # What a fresh sample hardly tells is hardly told, however close the two are.
        return FIT if value <= 2 * fit else CARE
    if value >= unfit or (shuffled is not None and shuffled > floor and value >= shuffled):
        return UNFIT
    return CARE


def main_level(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The marginals that stand for all: those of two columns, or the largest there are."""
    levels: Sequence[Mapping[str, Any]] = part["by_degree"]
    return next((level for level in levels if level["degree"] == 2), levels[-1])


def judge_tables(block: Mapping[str, Any]) -> list[Use]:
    """Descriptive tables and rare groups, from the block of the report of marginals."""
    level = main_level(block["variants"][0])
    beside = {}
    for name, part in ((FRESH, block["sampling"]), (SHUFFLED, block.get("shuffled"))):
        if part and (level["degree"] > 1 or name == FRESH):
            beside[name] = main_level(part)["mean_l1"]
    errors = {v["weights"]: main_level(v)["mean_l1"] for v in block["variants"]}
    measure = f"{ways(level['degree'])} l1 error"
    found = _judge_errors(TABLES, errors, measure, beside, (TABLES_FIT, TABLES_UNFIT))
    return found + _judge_groups(block.get("groups"))


def _judge_groups(groups: Mapping[str, Any] | None) -> list[Use]:
    if groups is None:
        return [Use(RARE, UNJUDGED, note="no rare group has ten rows")]
    low, high = groups["rows"]
    beside = {FRESH: groups["fresh"], SHUFFLED: groups["shuffled"]}
    errors = {variant["weights"]: variant["error"] for variant in groups["variants"]}
    note = f"{number(groups['groups'])} groups of {low} to {number(high)} rows"
    return _judge_errors(RARE, errors, "error of size", beside, (RARE_FIT, RARE_UNFIT), note)


def _judge_errors(
    use: str,
    errors: Mapping[str | None, float],
    measure: str,
    beside: Mapping[str, float],
    bounds: tuple[float, float],
    note: str = "",
) -> list[Use]:
    """The word of each column of weights' error, between bounds and next to yardsticks."""
    (fit, unfit), fresh, shuffled = bounds, beside.get(FRESH), beside.get(SHUFFLED)
    found = []
    for weights, error in errors.items():
        word = word_of(error, fit=fit, unfit=unfit, fresh=fresh, shuffled=shuffled)
        found.append(Use(use, word, measure, error, None, beside, RULES[use], weights, note))
    return found


def judge_learners(block: Mapping[str, Any]) -> list[Use]:
    """Linear models and trees, from the block of the report of models."""
    return [
        use
        for name, learners in ((LINEAR, _LINEAR), (TREES, _TREES))
        for use in _judge_kind(block, name, learners)
    ]


def _judge_kind(block: Mapping[str, Any], name: str, learners: Sequence[str]) -> list[Use]:
    """The first of these learners that was trained stands for its kind."""
    ran = {r["model"] for r in block["results"]}
    model = next((one for one in learners if one in ran), None)
    if model is None:
        return [Use(name, UNJUDGED, note=f"none was trained; --models adds {learners[0]}")]
    mine = [r for r in block["results"] if r["model"] == model]
    real = next((r for r in mine if r["trained_on"] == "real"), None)
    guess = block.get("guess", {}).get(model)
    if real is None or guess is None:
        return [Use(name, UNJUDGED, note="there are no real rows to train on")]
    base = real["scores"]["risk"]["mean"]
    gain = guess - base
    if gain <= 0:
        return [Use(name, UNJUDGED, note="a model of real rows is no better than guessing")]
    risk = "log loss" if "log_loss" in real["scores"] else "squared error"
    found = []
    for r in mine:
        if r["trained_on"] not in ("synthetic", "weighted"):
            continue
        excess = r["excess"]["risk"]
        word, note = _word_of_model(excess["mean"], excess["se"], gain, block["protocol"])
        found.append(
            Use(
                use=name,
                word=word,
                measure=f"excess {risk}",
                value=excess["mean"],
                se=excess["se"],
                beside={"a model of real rows": 0.0, GUESS: gain},
                rule=RULES[name],
                weights=r["weights"],
                note=note,
            )
        )
    return found


def _word_of_model(mean: float, se: float | None, gain: float, protocol: str) -> tuple[str, str]:
    """The word of a model's excess, and what to beware of."""
    bounds = {"fit": MODELS_FIT * gain, "unfit": MODELS_UNFIT * gain}
    word = word_of(mean, **bounds)
    if protocol == "in-sample":
        return (CARE if word == FIT else word), "tested on rows that its generator saw"
    spread = 2 * (se or 0.0)
    if word_of(mean - spread, **bounds) != word_of(mean + spread, **bounds):
        return (CARE if word == FIT else word), "too few test rows to be sure"
    return word, ""


def beware(uses: Sequence[Use], note: str) -> list[Use]:
    """Uses as fit as they can be said to be where what they were judged by may mislead."""
    return [
        use._replace(
            word=CARE if use.word == FIT else use.word,
            note="; ".join(filter(None, [use.note, note])),
        )
        for use in uses
    ]


def ways(degree: int) -> str:
    """Tables of so many columns, in words."""
    return {1: "one-way", 2: "two-way"}.get(degree, f"{degree}-way")
