"""The report of membership inference: does a release show whose rows are behind it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

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
from marginalsyn.evaluation.view import Item, Legend, Note, Table, number, with_error
from marginalsyn.progress import Progress
from marginalsyn.table.design import CodedRows

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
        from marginalsyn.plugins.reports.membership import (
            FALSE_RATE,
            choose_rows,
            most_hits,
            nearness,
            success,
        )

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
        from marginalsyn.plugins.reports.membership import (
            MOST_ROWS,
            cast_shadows,
            nearness,
            shadow_success,
        )

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
        for done, shadow in enumerate(shadows):
            progress.report("membership", fraction=done / options.shadow, text="shadow releases")
            inside.append(shadow.inside[: len(targets)])
            made = Case(name="shadow", synthetic=shadow.synthetic, weights=shadow.weights)
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
        rows: list[tuple[str, str, str]] = []
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


def _attacks(
    block: Block,
) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any]]]:
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
