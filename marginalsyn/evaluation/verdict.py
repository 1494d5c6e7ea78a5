"""What a synthetic table is fit for: a word for each use, with its rule and its yardsticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from marginalsyn.evaluation.view import number, with_error
from marginalsyn.release.earlier import with_new_keys

FIT, CARE, UNFIT, UNJUDGED = "fit for", "use with care", "not fit for", "not judged"
TABLES, LINEAR, TREES, RARE = "descriptive tables", "linear models", "trees", "rare groups"
LINKS = "links between tables"
NUMBERS = "means and quantiles"
FRESH, SHUFFLED, GUESS = "a fresh sample", "shuffled columns", "guessing"
RELINKED = "links made at random"
# A shape for every word, so that no colour is needed to distinguish them; and its colour.
SHAPES = {FIT: ("●", "fine"), CARE: ("▲", "care"), UNFIT: ("■", "alert"), UNJUDGED: ("○", "soft")}

# Why a word is lowered where the two sides of the real rows differ by more than chance.
UNEVEN = "the held-out rows are no random part of the table"

# The bounds of the words. Errors of tables are l1; those of models, parts of what a model of real
# rows gains over guessing; those of groups, parts of their size.
TABLES_FIT, TABLES_UNFIT = 0.1, 0.3
MODELS_FIT, MODELS_UNFIT = 0.1, 0.5
RARE_FIT, RARE_UNFIT = 0.15, 0.4
# So many times a fresh sample's error is as good as one.
AS_FRESH = 1.5
# Two tables whose links were made at random differ by chance: so much of the error is as bad.
AS_RELINKED = 0.95
# So many of the worst columns and pairs are named.
NAMED = 3


def _rule(unit: str, fit: float, unfit: float, blind: str = SHUFFLED) -> str:
    return (
        f"fit up to {unit} {fit:g}, or {2 * fit:g} if within {AS_FRESH:g} times that of a fresh "
        f"sample, but with care where {blind} do as well and it does better; not fit from "
        f"{unfit:g} on, or beyond that where {blind} do as well, unless a fresh sample is as bad"
    )


RULES = {
    TABLES: _rule("an l1 error of", TABLES_FIT, TABLES_UNFIT),
    LINEAR: f"fit where at most {MODELS_FIT:.0%} is lost of what a model of real rows gains over "
    "guessing by the label's shares, two standard errors allowed for; not fit from "
    f"{MODELS_UNFIT:.0%} on",
    RARE: _rule("an error of the groups' sizes of", RARE_FIT, RARE_UNFIT),
    LINKS: _rule("an l1 error of", TABLES_FIT, TABLES_UNFIT, RELINKED),
}
RULES[TREES] = RULES[LINEAR]
RULES[NUMBERS] = (
    "fit where the columns' largest error of mean, median, 5% and 95% is on average up to 0.1 "
    f"standard deviations, or 0.2 if within {AS_FRESH:g} times that of a fresh sample, and that of "
    "no column is 0.3 or more; not fit from 0.3 on average on, unless a fresh sample is as bad"
)

_LEARNERS = {
    LINEAR: ("logistic", "ridge", "logistic-coded"),
    TREES: ("boosting", "boosting-quantity", "random-forest"),
}


class Use(NamedTuple):
    """What one variant of a table is worth for one use.

    Attributes:
        use: what the table would be used for.
        word: ``fit for``, ``use with care``, ``not fit for`` or ``not judged``.
        measure: what the value is.
        value: the figure that decides.
        se: its standard error, where it has one.
        yardsticks: the same figure of other tables, by name.
        rule: what stands behind the word.
        weights: the column of weights, None for the rows without.
        note: a reason or a caution.
    """

    use: str
    word: str
    measure: str = ""
    value: float | None = None
    se: float | None = None
    yardsticks: Mapping[str, float] = {}
    rule: str = ""
    weights: str | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The use as it stands in ``evaluation.json``."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Use:
        """Read what :meth:`to_json` wrote, also in version 0.1."""
        return cls(**with_new_keys(values))

    @property
    def shape(self) -> tuple[str, str]:
        """The shape and the colour of the word."""
        return SHAPES[self.word]

    def words(self) -> str:
        """The value and its yardsticks.

        Example:
            >>> Use(TABLES, FIT, "l1 error", 0.18, None, {FRESH: 0.09, SHUFFLED: 0.31}).words()
            'l1 error 0.18; a fresh sample would be 0.09; shuffled columns 0.31'
        """
        if self.value is None:
            return self.note
        parts = [f"{self.measure} {with_error(self.value, self.se)}"]
        for place, (name, value) in enumerate(self.yardsticks.items()):
            parts.append(f"{name} {'' if place else 'would be '}{number(value)}")
        return "; ".join([*parts, self.note] if self.note else parts)


class Verdict(NamedTuple):
    """What is said first of one table.

    Attributes:
        sentence: what there is to say, if anything.
        figures: a few values by name.
        uses: what the table is fit for, a word for each use.
        worst: lists of what is worst, by name.
    """

    sentence: str = ""
    figures: Mapping[str, Any] = {}
    uses: Sequence[Use] = ()
    worst: Mapping[str, Sequence[str]] = {}


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
        # What a fresh sample hardly shows is hardly shown, however close the two are.
        return FIT if value <= 2 * fit else CARE
    if value >= unfit or (shuffled is not None and shuffled > floor and value >= shuffled):
        return UNFIT
    return CARE


def beware(uses: Sequence[Use], note: str) -> list[Use]:
    """Uses as fit as they can be said to be where what they were judged by may mislead."""
    return [
        use._replace(
            word=CARE if use.word == FIT else use.word,
            note="; ".join(filter(None, [use.note, note])),
        )
        for use in uses
    ]


def main_level(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The marginals that stand for all: those of two columns, or the largest there are."""
    levels: Sequence[Mapping[str, Any]] = part["by_degree"]
    return next((level for level in levels if level["degree"] == 2), levels[-1])


def ways(degree: int) -> str:
    """Tables of so many columns, in words."""
    return {1: "one-way", 2: "two-way"}.get(degree, f"{degree}-way")


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


def judge_marginals(block: Mapping[str, Any]) -> Verdict:
    """The l1 error of small tables, its yardsticks, and the worst of them by name."""
    level = main_level(block["variants"][0])
    uses = judge_tables(block)
    mine = [use for use in uses if use.use == TABLES]
    yardsticks = mine[0].yardsticks
    sentence = (
        f"Its {ways(level['degree'])} tables have an l1 error of {number(level['mean_l1'])} on "
        f"average (total variation {number(level['mean_tv'])})"
    )
    figures = {"l1 error": level["mean_l1"], "total variation": level["mean_tv"], **yardsticks}
    if FRESH in yardsticks:
        sentence += f"; a fresh sample would be {number(yardsticks[FRESH])}"
    if SHUFFLED in yardsticks:
        sentence += f"; shuffled columns {number(yardsticks[SHUFFLED])}"
    for use in mine[1:]:
        sentence += f"; with weights {use.weights} it is {number(use.value)}"
        figures[f"l1 error, weights {use.weights}"] = use.value
    return Verdict(sentence + ".", figures, uses, _worst(block))


def judge_tables(block: Mapping[str, Any]) -> list[Use]:
    """Descriptive tables and rare groups, from the block of the report of marginals."""
    level = main_level(block["variants"][0])
    yardsticks = {}
    for name, part in ((FRESH, block["sampling"]), (SHUFFLED, block.get("shuffled"))):
        if part and (level["degree"] > 1 or name == FRESH):
            yardsticks[name] = main_level(part)["mean_l1"]
    errors = {v["weights"]: main_level(v)["mean_l1"] for v in block["variants"]}
    measure = f"{ways(level['degree'])} l1 error"
    found = judge_errors(TABLES, errors, measure, yardsticks, (TABLES_FIT, TABLES_UNFIT))
    groups = block.get("groups")
    if groups is None:
        return [*found, Use(RARE, UNJUDGED, note="no rare group has ten rows")]
    low, high = groups["rows"]
    yardsticks = {FRESH: groups["fresh"], SHUFFLED: groups["shuffled"]}
    errors = {variant["weights"]: variant["error"] for variant in groups["variants"]}
    note = f"{number(groups['groups'])} groups of {low} to {number(high)} rows"
    bounds = (RARE_FIT, RARE_UNFIT)
    return found + judge_errors(RARE, errors, "error of size", yardsticks, bounds, note)


def judge_errors(
    use: str,
    errors: Mapping[str | None, float],
    measure: str,
    yardsticks: Mapping[str, float],
    bounds: tuple[float, float],
    note: str = "",
) -> list[Use]:
    """The word of each column of weights' error, between bounds and next to yardsticks."""
    (fit, unfit), fresh = bounds, yardsticks.get(FRESH)
    blind = RELINKED if RELINKED in yardsticks else SHUFFLED
    shuffled = yardsticks.get(blind)
    if shuffled is not None and blind == RELINKED:
        shuffled *= AS_RELINKED
    found = []
    for weights, error in errors.items():
        word = word_of(error, fit=fit, unfit=unfit, fresh=fresh, shuffled=shuffled)
        one = Use(use, word, measure, error, None, yardsticks, RULES[use], weights, note)
        as_well = shuffled is not None and error >= max(shuffled, fresh or 0.0)
        found += beware([one], f"no better than {blind}") if as_well else [one]
    return found


def _worst(block: Mapping[str, Any]) -> dict[str, list[str]]:
    """The worst columns, pairs, strata and rare groups, each with what sampling would show."""

    def errors(part: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
        pairs = {f"{a} × {b}": error for a, b, error in part.get("by_pair", [])}
        return part.get("by_column", {}), pairs

    (columns, pairs), fresh = errors(block["variants"][0]), errors(block["sampling"] or {})
    found = {
        "value for the budget": list(block.get("wasted", ())),
        "columns": worst_named(columns, fresh[0]),
        "pairs": worst_named(pairs, fresh[1]),
    }
    found["strata"] = worst_named(*block.get("strata", ({}, {})))
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


def worst_named(errors: Mapping[str, float], fresh: Mapping[str, float]) -> list[str]:
    worst = sorted(errors, key=lambda name: -errors[name])[:NAMED]
    found = [
        f"{name} {number(errors[name])}"
        + (f" (fresh sample {number(fresh[name])})" if name in fresh else "")
        for name in worst
    ]
    rest = len(errors) - len(worst)
    return [*found, f"and {number(rest)} more, all below"] if rest else found


def compare_models(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Models from which table lose least, and from which most; none of them weighted."""
    found = {case: judge_models(block).figures for case, block in blocks.items()}
    known = {case: f["excess risk"] for case, f in found.items() if "excess risk" in f}
    if not known:
        return ""
    best, worst = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return (
        f"Models trained on {best} lose least, an excess risk of {number(known[best])}, "
        f"and those on {worst} most, {number(known[worst])}."
    )


def judge_models(block: Mapping[str, Any]) -> Verdict:
    """The first model's scores on synthetic rows and on real ones, and what weights change."""
    mine = [r for r in block["results"] if r["model"] == block["results"][0]["model"]]
    own = next(r for r in mine if r["trained_on"] == "synthetic")
    real = next((r for r in mine if r["trained_on"] == "real"), None)
    score, name = ("accuracy", "an accuracy") if "accuracy" in own["scores"] else ("r2", "an R²")
    title = own["title"].split(",")[0].lower()
    value = own["scores"].get(score, {}).get("mean")
    rows = "rows that its generator saw" if block["protocol"] == "in-sample" else "unseen real rows"
    sentence = f"A {title} trained on it has {name} of {number(value)} on {rows}"
    figures = {}
    scores: dict[str, Any] = {name[3:]: value}
    if real is not None:
        known = scores[f"{name[3:]}, real"] = real["scores"].get(score, {}).get("mean")
        sentence += f" against {number(known)} when trained on real ones"
        excess = own["excess"].get("risk")
        if excess is not None:
            figures["excess risk"] = excess["mean"]
            value = with_error(excess["mean"], excess["se"])
            sentence += f", an excess {_risk(own)} of {value}"
    # Every column of weights: to name the one that did best on these rows would flatter it.
    for r in mine:
        if r["trained_on"] == "weighted" and r["excess"].get("risk"):
            mean = r["excess"]["risk"]["mean"]
            figures[f"excess risk, weights {r['weights']}"] = mean
            sentence += f"; with weights {r['weights']} it is {number(mean)}"
    return Verdict(sentence + ".", {**figures, **scores}, judge_learners(block))


def judge_learners(block: Mapping[str, Any]) -> list[Use]:
    """Linear models and trees, from the block of the report of models."""
    return [use for name in _LEARNERS for use in _judge_kind(block, name)]


def _judge_kind(block: Mapping[str, Any], name: str) -> list[Use]:
    """The first of these learners that was trained stands for its kind."""
    ran = {r["model"] for r in block["results"]}
    model = next((one for one in _LEARNERS[name] if one in ran), None)
    if model is None:
        return [Use(name, UNJUDGED, note=f"none was trained; --models adds {_LEARNERS[name][0]}")]
    mine = [r for r in block["results"] if r["model"] == model]
    real = next((r for r in mine if r["trained_on"] == "real"), None)
    guess = block.get("guess", {}).get(model)
    if real is None or guess is None:
        return [Use(name, UNJUDGED, note="there are no real rows to train on")]
    gain = guess - real["scores"]["risk"]["mean"]
    if gain <= 0:
        return [Use(name, UNJUDGED, note="a model of real rows is no better than guessing")]
    measure, yardsticks = f"excess {_risk(real)}", {"a model of real rows": 0.0, GUESS: gain}
    found = []
    for r in mine:
        if r["trained_on"] in ("synthetic", "weighted"):
            mean, se = r["excess"]["risk"]["mean"], r["excess"]["risk"]["se"]
            word, note = _word_of_model(mean, se, gain, block["protocol"])
            found.append(
                Use(name, word, measure, mean, se, yardsticks, RULES[name], r["weights"], note)
            )
    return found


def _risk(result: Mapping[str, Any]) -> str:
    return "log loss" if "log_loss" in result["scores"] else "squared error"


def _word_of_model(mean: float, se: float | None, gain: float, protocol: str) -> tuple[str, str]:
    """The word of a model's excess, and what to beware of."""
    bounds = {"fit": MODELS_FIT * gain, "unfit": MODELS_UNFIT * gain}
    word, spread, note = word_of(mean, **bounds), 2 * (se or 0.0), ""
    if protocol == "in-sample":
        note = "tested on rows that its generator saw"
    elif word_of(mean - spread, **bounds) != word_of(mean + spread, **bounds):
        note = "too few test rows to be sure"
    return (CARE if note and word == FIT else word), note
