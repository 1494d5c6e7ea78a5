"""The report of membership inference: does a release show whose rows are behind it?

Three marks for a real row, higher where it seems likelier to be a member: how close the closest
synthetic row is; the density of synthetic rows around it, with their weights; and, with shadow
releases, the likelihood ratio of such a mark between releases made with the row and without it
(Carlini et al. 2022, "Membership inference attacks from first principles").
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import WeightConfig, make_config, make_weights
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.evaluation.charts import Curves
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    called,
)
from marginalsyn.evaluation.scores import clopper_pearson, delong, roc_curve, standard_error
from marginalsyn.evaluation.view import Item, Legend, Note, Table, number, with_error
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, ZCDP, Charge, Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import make_noise
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import CodedRows
from marginalsyn.table.energy import distance_matrix
from marginalsyn.table.metric import Metric
from marginalsyn.weights.columns import columns_of
from marginalsyn.weights.processing import Processing

# The share of non-members that an attack may name wrongly.
FALSE_RATE = 0.01
CONFIDENCE = 0.95
# More rows would make a shadow release slow; the release under attack keeps all of its own.
MOST_ROWS = 20_000
_CHUNK = 512
_LEAST_SPREAD = 1e-9


def choose_rows(rows: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of at most so many of these rows, in order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(rng.choice(rows, most, replace=False))


def nearness(rows: CodedRows, synthetic: CodedRows) -> dict[str, np.ndarray]:
    """Marks of rows: ``closest`` and, with the synthetic rows' weights, ``density``.

    The density's kernel is exp(-distance / h), h a quarter of the median distance to the closest
    row.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> abs(nearness(table, table)["closest"]).max()
        0.0
    """
    metric = Metric(synthetic.schema)
    points, others = metric.points(rows.units), metric.points(synthetic.units)
    parts = [points[start : start + _CHUNK] for start in range(0, len(points), _CHUNK)]
    closest = np.concatenate(
        [distance_matrix(part, others, space=metric.space).min(axis=1) for part in parts]
    )
    gaps = closest[closest > 0]
    width = max(float(np.median(gaps)) / 4 if len(gaps) else 0.0, 1e-3 * metric.space.diameter)
    masses = synthetic.masses / max(synthetic.masses.sum(), 1e-300)
    density = [
        np.exp(-distance_matrix(part, others, space=metric.space) / width) @ masses
        for part in parts
    ]
    return {"closest": -closest, "density": np.log(np.concatenate(density) + 1e-300)}


def success(marks: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    """How well marks tell members from others: AUC, and hits at a small rate of false alarms.

    Args:
        marks: one per row, higher for likelier members.
        members: whether a row is one.

    Returns:
        JSON values: ``auc`` with its standard error ``se`` (DeLong, DeLong and Clarke-Pearson
        1988), and ``hits``, the share of members that are named where at most a hundredth of the
        others is, with its Clopper-Pearson interval.

    Example:
        >>> found = success(np.array([0.0, 1.0, 2.0]), np.array([False, False, True]))
        >>> found["auc"], found["hits"]["rate"]
        (1.0, 1.0)
    """
    auc, placements = delong(marks, members)
    if auc is None or placements is None:
        raise ValueError("there must be members and others")
    up, down = placements
    others = np.sort(marks[~members])[::-1]
    # Ties at the threshold are not named: the rate of false alarms is kept.
    threshold = others[int(FALSE_RATE * len(others))]
    hits = int((marks[members] > threshold).sum())
    low, high = clopper_pearson(hits, int(members.sum()), (1 - CONFIDENCE) / 2)
    return {
        "auc": auc,
        "se": math.hypot(standard_error(up), standard_error(down)),
        "hits": {"rate": hits / int(members.sum()), "low": low, "high": high},
        "curve": roc_curve(marks, members),
    }


def most_hits(eps: float, delta: float) -> float:
    """The most hits that any attack can have against (eps, delta), knowing all other rows.

    Example:
        >>> round(most_hits(1.0, 0.0), 4)
        0.0272
    """
    if eps > 700:
        return 1.0
    one = math.exp(eps) * FALSE_RATE + delta
    other = 1 - math.exp(-eps) * (1 - delta - FALSE_RATE)
    return min(1.0, one, other)


def likelihood_ratios(marks: np.ndarray, shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Log likelihood ratios of marks between releases with a row and without it.

    Every row has means of its own, under one spread for all rows: with few shadow releases that
    does better than a spread for each.

    Args:
        marks: one per row, of the release under attack.
        shadows: (releases, rows) marks of the same rows in shadow releases.
        inside: which rows each shadow release was made with.
    """
    means, spreads = [], []
    for where in (inside, ~inside):
        count = where.sum(axis=0)
        overall = shadows[where].mean() if where.any() else 0.0
        mean = np.where(where, shadows, 0.0).sum(axis=0) / np.maximum(count, 1)
        mean = np.where(count > 0, mean, overall)
        left = np.where(where, shadows - mean, 0.0)
        freedom = max(int(where.sum()) - int((count > 0).sum()), 1)
        means.append(mean)
        spreads.append(max(math.sqrt(float((left**2).sum()) / freedom), _LEAST_SPREAD))
    (mean_in, mean_out), (spread_in, spread_out) = means, spreads
    inlier = -((marks - mean_in) ** 2) / (2 * spread_in**2) - math.log(spread_in)
    outlier = -((marks - mean_out) ** 2) / (2 * spread_out**2) - math.log(spread_out)
    return inlier - outlier


def shadow_success(
    marks: Mapping[Any, np.ndarray],
    shadows: Mapping[Any, Sequence[np.ndarray]],
    inside: np.ndarray,
    members: np.ndarray,
) -> dict[Any, Any]:
    """The likelihood-ratio attack on a release, and on every shadow by means of the others.

    Args:
        marks: by kind: of the release under attack.
        shadows: by kind: one array for each shadow release.
        inside: which rows each shadow release was made with.
        members: which rows the release was made with.
    """
    found = {}
    for kind, own in marks.items():
        others = np.array(shadows[kind])
        aucs, hits = [], []
        for turn, where in enumerate(inside):
            rest = np.arange(len(inside)) != turn
            ratios = likelihood_ratios(others[turn], others[rest], inside[rest])
            if where.any() and not where.all():
                attack = success(ratios, where)
                aucs.append(attack["auc"])
                hits.append(attack["hits"]["rate"])
        found[kind] = {
            "release": success(likelihood_ratios(own, others, inside), members),
            "shadows": {
                "auc": float(np.mean(aucs)),
                "se": standard_error(np.array(aucs)),
                "hits": float(np.mean(hits)),
                "hits_se": standard_error(np.array(hits)),
            },
        }
    return found


def cast_shadows(
    release: Release, rows: CodedRows, count: int, *, seed: int
) -> Iterator[tuple[np.ndarray, Case]]:
    """Make releases of random halves of ``rows`` by the method and at the cost of ``release``.

    The noise is seeded: nothing of this is published, and no ledger is charged.

    Args:
        release: what is imitated, its weights included where their method can run on its own.
        rows: real rows, from which every shadow release takes each with a chance of one half.
        count: how many releases.
        seed: of the halves and of the noise.

    Returns:
        Of each which rows it was made with, and its rows with their weights.

    Raises:
        UsageError: the release was not made by an installed method.
    """
    statement = release.statement
    if statement.persons is not None:
        raise UsageError(
            f"shadow ({count}) must be 0 for this release: it protects persons, which rows of an "
            "evaluation no longer distinguish; `marginalsyn audit METHOD --unit person` attacks "
            "what it promises"
        )
    try:
        config = make_config(statement.generator, statement.parameters)
    except MarginalsynError as error:
        raise UsageError(
            f"shadow ({count}) must be 0 for this release: its method cannot be run here: {error}"
        ) from None
    schema = rows.schema
    bought = list(schema.charges)
    columns = _weight_charges(release)
    spent = [c for cs in columns.values() for c in cs]
    own = [c for c in statement.charges if c not in bought and c not in spent]
    total = compose(own, statement.target_delta, statement.neighbours)
    budget = Budget(
        eps=total.eps,
        delta=statement.target_delta,
        neighbours=statement.neighbours,
        allow_large_delta=True,
    )
    frame = real_frame(rows)
    ways = {name: _as_weighted(release, name, charges) for name, charges in columns.items()}
    for turn in range(count):
        inside = np.random.default_rng([seed, turn]).random(len(rows)) < 0.5
        table = PrivateTable.open(frame[inside], schema, neighbours=budget.neighbours)
        noise = make_noise(int(np.random.SeedSequence([seed, turn]).generate_state(1)[0]))
        synthesis, made = generate(
            table, config, budget, noise=noise, accept_nonprivate_schema=True
        )
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            shadow = Release.write(synthesis, schema, made, Path(folder) / "shadow")
            for name, (method, allowed, steps) in ways.items():
                how: Any = {"name": name, "processing": steps, "accept_nonprivate_schema": True}
                found[name] = weigh(shadow, method, allowed, table, noise=noise, **how).weights
        made_of = CodedRows.of(synthesis.frame, schema)
        yield inside, Case(name="shadow", synthetic=made_of, weights=found)


def real_frame(rows: CodedRows) -> pd.DataFrame:
    """Rows of an encoded table as values of its schema."""
    frame = Codec(rows.schema).from_unit(np.maximum(rows.units, 0.0))
    for column, units in zip(rows.schema.columns, rows.units.T, strict=True):
        if column.numeric and (units < 0).any():
            values = frame[column.name].astype(object)
            frame[column.name] = values.mask(units < 0, None)
    return frame


def _weight_charges(release: Release) -> dict[str, list[Charge]]:
    """What each column of weights was charged, by name; nothing for the free ones.

    Columns that were made from another one, or by a method that reads the release's own model, are
    left out: they are no estimate of their own.
    """
    left = list(release.statement.charges)
    found = {}
    for name, facts in columns_of(release).items():
        if facts.get("from") or facts.get("method") in ("none", "discriminator"):
            continue
        charges = []
        for text in facts.get("cost", ()):
            charge = next((c for c in left if f"{c.mechanism}: {c.cost}" == text), None)
            if charge is not None:
                left.remove(charge)
                charges.append(charge)
        if charges:
            found[str(name)] = charges
    return found


def _as_weighted(
    release: Release, name: str, charges: list[Charge]
) -> tuple[WeightConfig, Budget, Processing]:
    """How a column of a release's weights was made: the method, its budget, the steps after it."""
    facts, statement = columns_of(release)[name], release.statement
    budget = _allowance(charges, statement.target_delta, statement.neighbours)
    known = {field.name for field in fields(Processing)}
    steps = {k: v for k, v in facts.get("processing", {}).items() if k in known}
    config = make_weights(facts["method"], facts.get("parameters"))
    return config, budget, Processing(**{**steps, "calibrate": "none"})


def _allowance(charges: list[Charge], delta: float, neighbours: Neighbours) -> Budget:
    """The budget that these charges amount to."""
    mu = math.hypot(*(c.cost.mu for c in charges if isinstance(c.cost, GDP)))
    if mu:
        return Budget.of_mu(mu, delta, neighbours)
    rho = sum(c.cost.rho for c in charges if isinstance(c.cost, ZCDP))
    if rho:
        return Budget.of_rho(rho, delta, neighbours)
    eps = compose(charges, delta, neighbours).eps
    return Budget(eps=eps, delta=delta, neighbours=neighbours, allow_large_delta=True)


# Targets of each side. Beyond, intervals hardly shrink.
MOST_TARGETS = 2000
_KINDS = {"closest": "closest record", "density": "density"}


class MembershipReport(Report):
    """Two attacks that guess which rows were the generator's, and shadow releases on demand."""

    name = "membership"
    title = "Membership inference"
    summary = "attacks that guess whose rows are behind a release; --shadow for more"
    place = 80
    scope = "release"
    on_terminal = False
    needs_test = True
    default = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        fresh = ground.unseen(self.name)
        rng = np.random.default_rng(options.seed)
        rows, start = _stack(ground.reference, fresh), len(ground.reference)
        members = choose_rows(start, MOST_TARGETS, rng)
        others = start + choose_rows(len(fresh), MOST_TARGETS, rng)
        picked = np.concatenate([members, others])
        targets, truth = rows.take(picked), np.arange(len(picked)) < len(members)
        attacks, marks = [], {}
        for weights, table in case.variants():
            progress.report("membership", text=f"{case.name} {weights or ''}")
            for kind, values in nearness(targets, table).items():
                if weights and kind == "closest":
                    continue  # it takes no weights
                marks[kind, weights] = values
                attacks.append({"attack": kind, "weights": weights, **success(values, truth)})
        known = case.release if case.generator != "another tool" else None
        statement = known.statement if known is not None else None
        return {
            "members": len(members),
            "others": len(others),
            "false_rate": FALSE_RATE,
            "eps": statement.eps if statement else None,
            "most_hits": most_hits(statement.eps, statement.delta) if statement else None,
            "attacks": attacks,
            "shadow": self._shadow(case, rows, picked, options, progress, truth, marks),
        }

    def _shadow(
        self,
        case: Case,
        rows: CodedRows,
        picked: np.ndarray,
        options: Options,
        progress: Progress,
        truth: np.ndarray,
        marks: Mapping[tuple[str, str | None], np.ndarray],
    ) -> dict[str, Any] | None:
        if not options.shadow or case.release is None:
            return None
        # The targets first, then other rows of the curator's as far as there is room.
        rest = np.setdiff1d(np.arange(len(rows)), picked)
        np.random.default_rng([options.seed, 1]).shuffle(rest)
        order = np.concatenate([picked, rest[: max(0, MOST_ROWS - len(picked))]])
        pool, targets = rows.take(order), rows.take(picked)
        seen: dict[tuple[str, str | None], list[np.ndarray]] = {}
        inside = []
        shadows = cast_shadows(case.release, pool, options.shadow, seed=options.seed)
        for done, (rows_in, made) in enumerate(shadows):
            progress.report("membership", fraction=done / options.shadow, text="shadow releases")
            inside.append(rows_in[: len(targets)])
            for weights, table in made.variants():
                for kind, values in nearness(targets, table).items():
                    if (kind, weights) in marks:
                        seen.setdefault((kind, weights), []).append(values)
        own = {key: marks[key] for key in seen}
        found = shadow_success(own, seen, np.array(inside), truth)
        return {
            "releases": options.shadow,
            "rows": len(pool),
            "attacks": [
                {"attack": kind, "weights": weights, **found[kind, weights]}
                for kind, weights in seen
            ],
        }

    def facts(self, block: Block) -> Iterable[Fact]:
        for name, _, found in _attacks(block):
            yield Fact(name, "auc", found["auc"], found["se"])
            yield Fact(name, "hits", found["hits"]["rate"])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        rate = f"{number(100 * first['false_rate'])}%"
        yield (
            "Somebody has a person's row and asks whether it was among those that the "
            f"release was made of. Here {first['members']:,} rows that were, the members, and "
            f"{first['others']:,} that were not are put to that question. The closest-record "
            "attack goes by the distance to the closest synthetic row, the density attack by "
            "how many synthetic rows are near, with their weights where there are some."
        )
        yield (
            "AUC is the chance that a member seems likelier than another row: one half is "
            "guessing, one is certainty. Hits are the share of members that the attack names "
            f"while it names at most {rate} of the others, so that guessing hits {rate}; that "
            "is what counts where a few people are exposed among many. In brackets are 95% "
            "intervals."
        )
        rows = []
        for case, block in blocks.items():
            for attack, among, found in _attacks(block):
                name = f"{case}: {attack}" if len(blocks) > 1 else attack
                hits = {key: number(value) for key, value in found["hits"].items()}
                interval = f"{hits['rate']} [{hits['low']}, {hits['high']}]"
                rows.append((name, with_error(found["auc"], found["se"]), interval))
                if among:
                    auc = with_error(among["auc"], among["se"])
                    share = with_error(among["hits"], among["hits_se"])
                    rows.append((f"{name}, among shadows", auc, share))
        yield Table(("attack", "AUC", f"hits at {rate}"), rows)
        if first["shadow"]:
            shadow = first["shadow"]
            yield (
                f"Shadow: the same method made {shadow['releases']:,} more releases, each from "
                f"a random half of {shadow['rows']:,} of your rows, at the same cost. An "
                "attacker with such rows learns how a release looks with a row and without "
                "it, and compares. Among shadows: every shadow release attacked by means of "
                "the others, an average over many releases rather than the luck of this one."
            )
        for case, block in blocks.items():
            if block["eps"] is not None:
                most = block["most_hits"]
                yield (
                    (f"{case}: " if len(blocks) > 1 else "")
                    + f"At its eps of {number(block['eps'])} no attack of any kind can hit more "
                    f"than {number(most)} at this rate of false alarms"
                    + (", which promises nothing." if most >= 1 else ".")
                )
        yield Note(
            "An attack that fails proves nothing about cleverer ones; the promise of privacy "
            "is against all of them, whatever they know. An attack that succeeds beyond the "
            "promise would prove a fault: in the program, or in rows that are not independent, "
            "such as several of one person, among which an attack also finds the others."
        )
        if len(blocks) == 1:
            curves = {_called(attack): attack["curve"] for attack in first["attacks"]}
            tones = {name: 1 + position % 5 for position, name in enumerate(curves)}
            title = "Hits against false alarms"
            caption = f"{title}; the diagonal is guessing."
            axes = ("false alarms", "hits")
            yield Legend(list(tones.items()))
            yield Curves(title, curves, tones, *axes, square=True, marks=False, caption=caption)


def _attacks(block: Block) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any]]]:
    """The name of each attack, how it did among shadows if it has any, and on the release."""
    yield from ((_called(attack), None, attack) for attack in block["attacks"])
    for attack in block["shadow"]["attacks"] if block["shadow"] else ():
        yield f"shadow, {_called(attack)}", attack["shadows"], attack["release"]


def _called(attack: Mapping[str, Any]) -> str:
    return called(_KINDS[attack["attack"]], attack["weights"])


def _stack(one: CodedRows, other: CodedRows) -> CodedRows:
    """The rows of two tables, without weights."""
    return type(one)(
        one.schema,
        np.concatenate([one.codes, other.codes]),
        np.concatenate([one.units, other.units]),
    )
