"""What ``weight`` says and writes: cautions, the plan, what weights are worth, and their files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from marginalsyn.contract import Duties, Plan, Target, make_weights, plain
from marginalsyn.errors import MarginalsynError
from marginalsyn.host import calibrate
from marginalsyn.operations.files import replace_file
from marginalsyn.operations.groups import AMOUNTS
from marginalsyn.operations.operation import Columns, Facts, Result, Session, shown
from marginalsyn.operations.origins import describe_total
from marginalsyn.operations.other_rows import Findings
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.progress import Silent
from marginalsyn.records.ledger import Ledger
from marginalsyn.registry import WEIGHTS, plugins
from marginalsyn.release.folder import LOG, Release, weights_file
from marginalsyn.table.design import resample
from marginalsyn.table.frames import write_csv, write_parquet
from marginalsyn.table.made import complete
from marginalsyn.weights.columns import WeightColumn, weights_csv
from marginalsyn.weights.effectiveness import say_worth
from marginalsyn.weights.prediction import pays, say_gain
from marginalsyn.weights.support import Support, agreement, support_of

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
NO_LABEL = (
    "no label is named: left out are features that cross it with other columns, its pairs in "
    "`rake`, and the effective rows for a fit of it; name it with --label"
)
UNKNOWN = (
    "the file comes without measurements, so whether its rows cover the real ones is not known: "
    "kept is at most what is shown. Weights cannot bring back rows that are missing"
)


@dataclass(frozen=True)
class Cautions:
    """What is known of the rows before anything is spent.

    Attributes:
        target: the rows that are to be weighted.
        changed: what the schema changed in the rows of a file.
    """

    target: Target
    changed: Findings | None

    @cached_property
    def support(self) -> Support | None:
        """How far the rows cover what released measurements saw; None where there are none."""
        release = self.target.release
        return support_of(release) if release is not None else None

    @property
    def foreign(self) -> bool:
        """Whether another tool made the rows."""
        release = self.target.release
        return release is None or release.statement.foreign

    @property
    def withheld(self) -> bool:
        """Whether a share that weights keep is only the most that it can be."""
        if self.support is not None:
            return self.support.lacking
        return self.foreign

    def warnings(self, *, ahead: bool) -> list[str]:
        """The same in words; ``ahead`` where a plan is shown."""
        found = [*self.changed.lines()] if self.changed is not None else []
        if self.target.schema.label is None:
            found.append(NO_LABEL)
        if self.support is not None and self.support.lacking:
            found.append(self.support.line())
        elif ahead and self.support is None and self.foreign:
            found.append(UNKNOWN)
        return found

    def notes(self) -> list[str]:
        """What a plan says of the rows that is no warning."""
        covered = self.support is not None and not self.support.lacking
        return [self.support.line()] if covered and self.support is not None else []

    def facts(self) -> Mapping[str, Any]:
        """The same as JSON values."""
        return {
            "label": self.target.schema.label,
            "changed": self.changed.facts() if self.changed is not None else None,
            "support": self.support.facts() if self.support is not None else None,
        }


def outlook(
    cautions: Cautions, budget: Budget, chosen: Mapping[str, Mapping[str, Any] | None]
) -> Result[Any]:
    """What the budget buys with every method, given with its options, on this table's shape."""
    target = cautions.target
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
        **{name: getattr(budget, name) for name in AMOUNTS},
        "pure_eps": budget.pure,
        "neighbours": str(budget.neighbours),
        **cautions.facts(),
    }
    pairs = [
        ("Rows", f"{len(target.frame):,} synthetic, about {target.rows:,.0f} private"),
        ("Columns", facts["columns"]),
        ("Budget", f"eps {budget.eps:g}, delta {budget.delta:g}, {budget.neighbours}"),
        (
            "",
            f"mu {budget.mu:.6g} (GDP), rho {budget.rho:.6g} (zCDP), or pure eps {budget.pure:.6g}",
        ),
    ]
    gains = [row["facts"].get("predicted_gain") for row in rows]
    # By how much the log loss of models of the label should fall, and the range.
    falls = [None if g is None else f"{g[1]:.2g} ({g[0]:.2g} to {g[2]:.2g})" for g in gains]
    cells = [
        (row["method"], fall, row["noise"], _kept(row), _how(row))
        for row, fall in zip(rows, falls, strict=True)
    ]
    head = ("method", "predicted gain", "noise", "kept", "how")
    predicted = [GAIN] if any(gain is not None for gain in gains) else []
    choices = [line for row in rows for line in _choice(row["facts"])]
    notes = [
        *predicted,
        *choices,
        *(_share(rows[0]["facts"]) if len(rows) == 1 else []),
        NOISE,
        *cautions.notes(),
        "Dry run: no private row was read, nothing was spent.",
    ]
    return Result(
        rows,
        {**facts, "methods": rows},
        [Facts(pairs), "", Columns(head, cells, right=("noise", "kept"))],
        cautions.warnings(ahead=True),
        notes,
    )


def say_ahead(plan: Plan, session: Session) -> None:
    """What is expected of weights, said before they are paid for."""
    lines, facts = _choice(plan.facts), plan.facts
    if "predicted_gain" in facts:
        gain = say_gain(facts["predicted_gain"])
        lines.append(f"predicted: the log loss of models of the label falls by {gain}")
        lines += [MARGINALS] if facts.get("target") == "label" else []
    else:
        lines += _share(facts)
    for line in lines:
        session.say(line)


def _share(facts: Mapping[str, Any]) -> list[str]:
    """What raking does for marginals, where no gain for models of a label is predicted."""
    if "predicted_share" not in facts or "predicted_gain" in facts:
        return []
    least, middle, most = facts["predicted_share"]
    return [f"predicted: {SHARE.format(least=least, middle=middle, most=most)}"]


def _choice(facts: Mapping[str, Any]) -> list[str]:
    """What the method auto would do."""
    if "chosen" not in facts:
        return []
    doubt = "" if pays(facts) else ", whose gain may be none"
    return [f"auto: takes {facts['chosen']}{doubt}"]


def _kept(row: Mapping[str, Any]) -> object:
    """The share that is kept, or the most that it can be."""
    if row["kept"] is None and row["kept_at_most"] is not None:
        return f"at most {row['kept_at_most']:.2g}"
    return row["kept"]


def _outlook(
    name: str, options: Mapping[str, Any] | None, target: Target, budget: Budget, rehearse: bool
) -> dict[str, Any]:
    """One method's outlook as JSON values; what it cannot do is said, not raised."""
    line: dict[str, Any] = {
        "method": name,
        "noise": None,
        "kept": None,
        "facts": {},
        "warnings": [],
    }
    try:
        config = make_weights(name, options)
        estimator, _ = calibrate(config, target, budget)
        plan, noise = estimator.plan, estimator.plan.noise
        extra = [] if config.private else ["not private: only with --non-private"]
        rehearsal = Duties(estimator).rehearse
        if rehearsal is not None:
            if rehearse:
                noise = rehearsal(make_noise(), progress=Silent())
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
        f"{name.replace('_', ' ')} {shown(row['facts'][name])}"
        for name in SHOWN
        if name in row["facts"]
    ]
    return "; ".join([*row["warnings"], ", ".join(facts)]).strip("; ")


def listed(release: Release | None) -> Result[Any]:
    """The columns of weights that a release has, and the methods that are installed."""
    weights = dict(release.statement.notes.get("weights", {})) if release is not None else {}
    installed = plugins(WEIGHTS)
    fields = ("name", "distribution", "version", "status", "reason", "summary")
    facts = [{field: getattr(plugin, field) for field in fields} for plugin in installed]
    columns: str | Columns = "no weights yet"
    if weights:
        columns = Columns(
            ("column", "method", "cost", "effective rows", "k-hat", "steps after"),
            list(starmap(_column, weights.items())),
            right=("effective rows", "k-hat"),
        )
    known = Columns(
        ("method", "from", "status", "what it does"),
        [(p.name, p.distribution, p.status, p.reason or p.summary) for p in installed],
    )
    return Result(weights, {"weights": weights, "methods": facts}, [columns, "", known])


def _column(name: str, facts: Mapping[str, Any]) -> tuple[object, ...]:
    measured, steps = facts["diagnostics"], facts["processing"]
    done = [f"{k} {v}" for k, v in steps.items() if v not in (None, "none", 1.0, True)]
    return (
        name,
        facts["method"],
        "; ".join(facts["cost"]) or "free",
        f"{measured['effective_rows']:,.0f}",
        None if measured["k_hat"] is None else f"{measured['k_hat']:.2f}",
        ", ".join(done) or "none",
    )


def written(
    release: Release,
    weighted: WeightColumn,
    files: Sequence[str],
    ledger: Ledger | None,
    session: Session,
) -> Result[Release]:
    """The column's file; what it cost and what it is worth."""
    if not session.shown:
        return Result(release)
    statement, book = release.statement, ledger.read() if ledger else None
    facts = {
        "release": str(release.path),
        "column": weighted.name,
        "files": ["weights.csv", weights_file(weighted.name), *files],
        "weights": weighted.facts,
        "eps": statement.eps,
        "delta": statement.delta,
        "warnings": list(weighted.warnings),
        "ledger": book.describe(others=book.lacks(statement.charges)) if book else None,
    }
    measured = weighted.facts["diagnostics"]
    notes = [f"column {weighted.name}: {say_worth(measured)}"]
    # The l1 error, as far as released answers show it.
    if (found := agreement(release, weighted.name)) is not None:
        worse = "gets worse: " if found["weighted"] > found["unweighted"] else ""
        line = (
            f"l1 error:        {worse}{found['weighted']:.3g} with the weights, "
            f"{found['unweighted']:.3g} without, on {found['answers']} noisy answers of the "
            f"release (their noise alone shows {found['noise']:.3g})"
        )
        risk = "excess risk:     marginalsyn evaluate measures it, on rows held out"
        notes = [line, *([risk] if statement.family is None else []), *notes]
    if measured["effective_share"] > ALMOST_ALL:
        notes.append("all weights are close to 1: weighted fits will hardly differ from others")
    power = weighted.facts["processing"]["temper"]
    if power < 1:
        notes.append(
            f"the weights are raised to the power {power:.3g}; --temper 1 keeps them whole"
        )
    cost = "; ".join(weighted.facts["cost"])
    notes += [
        f"a new charge:    {cost}" if cost else "no charge: nothing was measured",
        f"this release:    {statement.total()}",
        *(describe_total(ledger, statement) if ledger is not None else []),
    ]
    text = [str(release.path / name) for name in ("weights.csv", *files)]
    return Result(release, facts, text, weighted.warnings, notes)


def for_research(release: Release | None, file: Path, weighted: WeightColumn) -> Result[Any]:
    """Write weights that protect nobody into a file for the curator."""
    columns = {weighted.name: weighted.weights, weighted.name + LOG: weighted.log_weights}
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, lambda handle: handle.write(weights_csv(columns)))
    warning = (
        f"{file}: NOT PRIVATE. {weighted.facts['method']} reads private rows without protection; "
        "for research and comparison only, never publish it."
    )
    facts = {"file": str(file), "private": False, "weights": weighted.facts}
    notes = [f"column {weighted.name}: {say_worth(weighted.facts['diagnostics'])}"]
    return Result(release, facts, [str(file)], [warning], notes)


def resampled(
    release: Release, weighted: WeightColumn, how: str | None, rows: int | None, seed: int | None
) -> dict[str, bytes]:
    """The table without weights, as a file of the release; none if it is not asked for."""
    if how is None:
        return {}
    suffix = Path(release.frame_file).suffix
    picked = resample(weighted.weights, how, np.random.default_rng(seed), rows)  # type: ignore[arg-type]
    frame = release.frame().iloc[picked].reset_index(drop=True)
    handle = io.BytesIO()
    whole = complete(frame, release.schema)
    if suffix == ".csv":
        write_csv(whole, handle, form=release.text_form)
    else:
        write_parquet(whole, handle)
    return {f"resampled-{weighted.name}{suffix}": handle.getvalue()}
