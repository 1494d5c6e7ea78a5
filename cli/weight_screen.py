"""What ``marginalsyn weight`` shows: the plan, the list, and what weights turned out to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import screen
from marginalsyn.errors import MarginalsynError
from marginalsyn.registry import WEIGHTS, plugins

if TYPE_CHECKING:
    from marginalsyn.cli.weight_cautions import Cautions
    from marginalsyn.contract import Plan, Target
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.release.folder import Release
    from marginalsyn.weights.columns import WeightColumn

NOISE = (
    "noise: standard deviation of the noise in a log-weight (0.1 is 10% in a weight). kept: share "
    "of the true log ratio that regularisation leaves; below 0.02 all weights are close to 1, from "
    "0.15 on they help a weak or misspecified generator. Where noise exceeds the log ratio, they "
    "harm."
)


# Weights whose standard deviation is below a tenth of their mean.
ALMOST_ALL = 0.99
SHOWN = (
    "features",
    "penalty",
    "noise",
    "steps",
    "rate",
    "noise_multiplier",
    "scores",
    "marginals",
    "measured",
)
MARGINALS = (
    "the l1 error of marginals hardly moves: it falls by some per cent at most. `--method rake` "
    "is for it"
)
GAIN = (
    "predicted gain: by how many nats the log loss of models of the label falls, from what the "
    "release measured and the noise of these weights; in brackets where four in five of the "
    "benchmark's places lay"
)
SHARE = (
    "of the error in the marginals that are measured {middle:.0%} ({least:.0%} to {most:.0%}) goes "
    "away if it is spread evenly over their cells, more where it lies in few strong relations"
)


def write_outlook(
    target: Target,
    budget: Budget,
    chosen: Mapping[str, Callable[[], Mapping[str, Any]]],
    cautions: Cautions,
    as_json: bool,
) -> None:
    """What the budget buys with every method, on this table's shape."""
    rows = [
        _outlook(name, options, target, budget, rehearse=len(chosen) == 1)
        for name, options in chosen.items()
    ]
    for row in rows:
        # What weights cannot do is not promised: a share of a log ratio says nothing of rows that
        # are missing.
        row["kept_at_most"] = row["kept"]
        if cautions.withheld:
            row["kept"] = None
    facts = {
        "rows": len(target.frame),
        "private_rows_estimate": target.rows,
        "columns": len(target.schema.names),
        "eps": budget.eps,
        "delta": budget.delta,
        "rho": budget.rho,
        "pure_eps": budget.pure,
        "neighbours": str(budget.neighbours),
        **cautions.facts(),
    }
    if as_json:
        screen.write_json({**facts, "methods": rows})
        return
    screen.write_facts(
        [
            ("Rows", f"{len(target.frame):,} synthetic, about {target.rows:,.0f} private"),
            ("Columns", facts["columns"]),
            ("Budget", f"eps {budget.eps:g}, delta {budget.delta:g}, {budget.neighbours}"),
            ("", f"rho {budget.rho:.6g} (zCDP), or pure eps {budget.pure:.6g}"),
        ]
    )
    screen.write("")
    screen.write_table(
        ("method", "predicted gain", "noise", "kept", "how"),
        [(row["method"], _gain(row), row["noise"], _kept(row), _how(row)) for row in rows],
        right=("noise", "kept"),
    )
    notes = screen.Notes()
    if any("predicted_gain" in row["facts"] for row in rows):
        notes.say(GAIN)
    for row in rows:
        if line := _choice(row["facts"]):
            notes.say(line)
    if len(rows) == 1:
        _say_share(rows[0]["facts"], notes)
    notes.say(NOISE)
    cautions.tell(notes, ahead=True)
    notes.say("Dry run: no private row was read, nothing was spent.")


def tell_ahead(plan: Plan, notes: screen.Notes) -> None:
    """What is expected of weights, said before they are paid for."""
    from marginalsyn.weights.prediction import say_gain

    for line in filter(None, [_choice(plan.facts)]):
        notes.say(line)
    if plan.facts.get("chosen") != "nothing" and "predicted_gain" in plan.facts:
        told = say_gain(plan.facts["predicted_gain"])
        notes.say(f"predicted: the log loss of models of the label falls by {told}")
        if plan.facts.get("target") == "label":
            notes.say(MARGINALS)
    elif plan.facts.get("chosen") != "nothing":
        _say_share(plan.facts, notes)


def _say_share(facts: Mapping[str, Any], notes: screen.Notes) -> None:
    """What raking does for marginals, where no label's models can be told of."""
    if "predicted_share" in facts and "predicted_gain" not in facts:
        least, middle, most = facts["predicted_share"]
        notes.say(f"predicted: {SHARE.format(least=least, middle=middle, most=most)}")


def _choice(facts: Mapping[str, Any]) -> str:
    """What the method auto would do."""
    chosen = facts.get("chosen")
    if chosen is None:
        return ""
    return "auto: do not spend" if chosen == "nothing" else f"auto: takes {chosen}"


def _gain(row: Mapping[str, Any]) -> str | None:
    """By how much the log loss of models of the label should fall, and the range."""
    told = row["facts"].get("predicted_gain")
    return None if told is None else f"{told[1]:.2g} ({told[0]:.2g} to {told[2]:.2g})"


def _kept(row: Mapping[str, Any]) -> object:
    """The share that is kept, or the most that it can be."""
    if row["kept"] is None and row["kept_at_most"] is not None:
        return f"at most {row['kept_at_most']:.2g}"
    return row["kept"]


def _outlook(
    name: str,
    options: Callable[[], Mapping[str, Any]],
    target: Target,
    budget: Budget,
    rehearse: bool,
) -> dict[str, Any]:
    """One method's outlook as JSON values; what it cannot do is said, not raised."""
    from marginalsyn.contract import make_weights, plain
    from marginalsyn.host import calibrate
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.progress import Silent

    line: dict[str, Any] = {
        "method": name,
        "noise": None,
        "kept": None,
        "facts": {},
        "warnings": [],
    }
    try:
        config = make_weights(name, options())
        estimator, _ = calibrate(config, target, budget)
        plan, noise = estimator.plan, estimator.plan.noise
        extra = [] if config.private else ["not private: only with --non-private"]
        if hasattr(estimator, "rehearse"):
            if rehearse:
                noise = estimator.rehearse(make_noise(), progress=Silent())
            else:
                extra.append(f"--dry-run --method {name} finds the noise by a rehearsal")
    except MarginalsynError as error:
        return {**line, "warnings": [str(error)]}
    return {
        **line,
        "noise": noise,
        "kept": plan.kept,
        "facts": plain(plan.facts),
        "warnings": [*extra, *plan.warnings],
    }


def _how(row: Mapping[str, Any]) -> str:
    """The facts of a method that fit in one line."""
    facts = [
        f"{name.replace('_', ' ')} {screen.show(row['facts'][name])}"
        for name in SHOWN
        if name in row["facts"]
    ]
    return "; ".join([*row["warnings"], ", ".join(facts)]).strip("; ")


def write_list(release: Release | None, as_json: bool) -> None:
    """The columns of weights that a release has, and the methods that are installed."""
    told = dict(release.statement.notes.get("weights", {})) if release is not None else {}
    methods = plugins(WEIGHTS)
    if as_json:
        fields = ("name", "distribution", "version", "status", "reason", "summary")
        listed = [{field: getattr(plugin, field) for field in fields} for plugin in methods]
        screen.write_json({"weights": told, "methods": listed})
        return
    if told:
        screen.write_table(
            ("column", "method", "cost", "effective rows", "k-hat", "steps after"),
            [_column(name, facts) for name, facts in told.items()],
            right=("effective rows", "k-hat"),
        )
    else:
        screen.write("no weights yet")
    screen.write("")
    screen.write_table(
        ("method", "from", "status", "what it does"),
        [(p.name, p.distribution, p.status, p.reason or p.summary) for p in methods],
    )


def _column(name: str, facts: Mapping[str, Any]) -> tuple[object, ...]:
    measured, steps = facts["diagnostics"], facts["processing"]
    done = [f"{k} {v}" for k, v in steps.items() if v not in (None, "none", 1.0, True)]
    return (
        name,
        facts["method"],
        "; ".join(facts["cost"]) or "free",
        _of(measured),
        None if measured["k_hat"] is None else f"{measured['k_hat']:.2f}",
        ", ".join(done) or "none",
    )


def show_release(
    release: Release,
    weighted: WeightColumn,
    files: Sequence[str],
    ledger: Ledger | None,
    notes: screen.Notes,
    as_json: bool,
) -> None:
    """The column's name on stdout; what it cost and what it is worth on stderr."""
    from marginalsyn.cli.accounting import show_total

    statement = release.statement
    if as_json:
        book = ledger.read() if ledger else None
        screen.write_json(
            {
                "release": str(release.path),
                "column": weighted.name,
                "files": ["weights.csv", *files],
                "weights": weighted.facts,
                "eps": statement.eps,
                "delta": statement.delta,
                "warnings": list(weighted.warnings),
                "ledger": book.describe(beside=book.lacks(statement.charges)) if book else None,
            }
        )
    else:
        screen.write(str(release.path / "weights.csv"))
        for name in files:
            screen.write(str(release.path / name))
    notes.warn_all(weighted.warnings)
    measured = weighted.facts["diagnostics"]
    for line in _agreement(release, weighted):
        notes.say(line)
    notes.say(f"column {weighted.name}: {_worth(measured)}")
    if measured["effective_share"] > ALMOST_ALL:
        notes.say("all weights are close to 1: weighted fits will hardly differ from others")
    power = weighted.facts["processing"]["temper"]
    if power < 1:
        notes.say(f"the weights are raised to the power {power:.3g}; --temper 1 keeps them whole")
    cost = "; ".join(weighted.facts["cost"])
    notes.say(f"a new charge:    {cost}" if cost else "no charge: nothing was measured")
    notes.say(f"this release:    {statement.total()}")
    if ledger is not None:
        show_total(ledger, notes, statement)


def _agreement(release: Release, weighted: WeightColumn) -> list[str]:
    """The l1 error, as far as it can be told without private rows."""
    from marginalsyn.weights.released_answers import agreement

    told = agreement(release, weighted.name)
    if told is None:
        return []
    return [
        f"l1 error:        {told['weighted']:.3g} with the weights, {told['unweighted']:.3g} "
        f"without, on {told['answers']} noisy answers of the release (their noise alone shows "
        f"{told['noise']:.3g})",
        *(
            []
            if release.statement.family is not None
            else ["excess risk:     marginalsyn evaluate measures it, on rows held out"]
        ),
    ]


def show_file(file: Path, weighted: WeightColumn, notes: screen.Notes, as_json: bool) -> None:
    """The same for weights that protect nobody."""
    if as_json:
        screen.write_json({"file": str(file), "private": False, "weights": weighted.facts})
    else:
        screen.write(str(file))
    notes.warn(
        f"{file}: NOT PRIVATE. {weighted.facts['method']} reads private rows without protection; "
        "for research and comparison only, never publish it."
    )
    notes.say(f"column {weighted.name}: {_worth(weighted.facts['diagnostics'])}")


def _worth(measured: Mapping[str, Any]) -> str:
    """Diagnostics in one line."""
    parts = [f"{measured['rows']:,} weighted rows are worth {_of(measured)} unweighted ones"]
    if measured["label_fit_rows"] is not None:
        fit = min(measured["label_fit_rows"], measured["rows"])
        parts.append(f"{fit:,.0f} for a fit of the label")
    if measured["k_hat"] is not None:
        parts.append(f"k-hat {measured['k_hat']:.2f} ({_meaning(measured['k_hat'])})")
    parts.append(f"the heaviest 1% carry {measured['top_1_percent_share']:.1%}")
    parts.append(f"largest {measured['largest']:.3g} times the mean")
    return ", ".join(parts)


def _of(measured: Mapping[str, Any]) -> str:
    return f"{measured['effective_rows']:,.0f}"


def _meaning(shape: float) -> str:
    """What k-hat says (Vehtari et al. 2024)."""
    if shape < 0.5:
        return "good"
    if shape <= 0.7:
        return "usable"
    return "unreliable" if shape <= 1 else "very unreliable"
