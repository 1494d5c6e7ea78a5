"""The report of membership inference: can one tell from a release whose rows are behind it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from marginalsyn.evaluation import (
    Block,
    Case,
    Fact,
    Ground,
    Options,
    Report,
    key,
    lines,
    number,
    page,
)
from marginalsyn.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from marginalsyn.table import CodedRows

# Targets of each side. Beyond, intervals hardly shrink.
MOST_TARGETS = 2000
_KINDS = {"closest": "closest record", "density": "density"}


class MembershipReport(Report):
    """Two attacks that guess which rows were the generator's, and shadow releases on demand."""

    name: ClassVar[str] = "membership"
    title: ClassVar[str] = "Membership inference"
    summary: ClassVar[str] = "attacks that guess whose rows are behind a release; --shadow for more"
    place: ClassVar[int] = 80
    beside: ClassVar[bool] = False
    needs_test: ClassVar[bool] = True
    default: ClassVar[bool] = False

    def compute(self, case: Case, ground: Ground, options: Options, progress: Progress) -> Block:
        import numpy as np

        from marginalsyn.evaluation import FALSE_RATE, most_hits, nearness, success

        fresh = ground.unseen(self.name)
        rng = np.random.default_rng(options.seed)
        rows, start = _stack(ground.reference, fresh), len(ground.reference)
        members = _some(start, rng)
        others = start + _some(len(fresh), rng)
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
        statement = case.release.statement if case.release is not None else None
        known = statement is not None and statement.generator != "another tool"
        return {
            "members": len(members),
            "others": len(others),
            "false_rate": FALSE_RATE,
            "eps": statement.eps if statement is not None and known else None,
            "most_hits": most_hits(statement.eps, statement.delta)
            if statement is not None and known
            else None,
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
        import numpy as np

        from marginalsyn.evaluation import MOST_ROWS, cast_shadows, nearness, shadow_success

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
            tables: list[tuple[str | None, CodedRows]] = [(None, shadow.synthetic)]
            tables += [(n, shadow.synthetic.weigh(w)) for n, w in shadow.weights.items()]
            for weights, table in tables:
                for kind, values in nearness(targets, table).items():
                    if (kind, weights) in marks:
                        seen.setdefault((kind, weights), []).append(values)
        own = {_name(*key): marks[key] for key in seen}
        found = shadow_success(
            own, {_name(*key): values for key, values in seen.items()}, np.array(inside), truth
        )
        return {
            "releases": options.shadow,
            "rows": len(pool),
            "attacks": [
                {"attack": kind, "weights": weights, **found[_name(kind, weights)]}
                for kind, weights in seen
            ],
        }

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        told = [(a, "", a) for a in block["attacks"]]
        if block["shadow"]:
            told += [(a, "shadow, ", a["release"]) for a in block["shadow"]["attacks"]]
        for attack, prefix, found in told:
            item = prefix + _told(attack)
            yield self.fact(case, item, "auc", found["auc"], found["se"])
            hits = found["hits"]["rate"]
            yield self.fact(case, item, "hits", hits)

    def html(self, blocks: Mapping[str, Block], combined: Block | None = None) -> str:
        first = next(iter(blocks.values()))
        rate = _share(first["false_rate"])
        parts = [
            page.paragraph(
                "Somebody holds a person's row and asks whether it was among those that the "
                f"release was made of. Here {first['members']:,} rows that were, the members, and "
                f"{first['others']:,} that were not are put to that question. The closest-record "
                "attack goes by the distance to the closest synthetic row, the density attack by "
                "how many synthetic rows are near, with their weights where there are some."
            ),
            page.paragraph(
                "AUC is the chance that a member seems likelier than another row: one half is "
                "guessing, one is certainty. Hits are the share of members that the attack names "
                f"while it names at most {rate} of the others, so that guessing hits {rate}; that "
                "is what counts where a few people are exposed among many. In brackets are 95% "
                "intervals."
            ),
        ]
        rows: list[tuple[object, ...]] = []
        for case, block in blocks.items():
            told = f"{case}: " if len(blocks) > 1 else ""
            for attack in block["attacks"]:
                rows.append(
                    (
                        told + _told(attack),
                        page.with_error(attack["auc"], attack["se"]),
                        _interval(attack["hits"]),
                    )
                )
            shadow = block["shadow"]
            for attack in shadow["attacks"] if shadow else ():
                found, among = attack["release"], attack["shadows"]
                name = f"{told}shadow, {_told(attack)}"
                rows.append(
                    (name, page.with_error(found["auc"], found["se"]), _interval(found["hits"]))
                )
                rows.append(
                    (
                        f"{name}, among shadows",
                        page.with_error(among["auc"], among["se"]),
                        page.with_error(among["hits"], among["hits_se"]),
                    )
                )
        parts.append(page.table(("attack", "AUC", f"hits at {rate}"), rows))
        if first["shadow"]:
            shadow = first["shadow"]
            parts.append(
                page.paragraph(
                    f"Shadow: the same method made {shadow['releases']:,} more releases, each from "
                    f"a random half of {shadow['rows']:,} of your rows, at the same cost. An "
                    "attacker with such rows learns how a release looks with a row and without "
                    "it, and compares. Among shadows: every shadow release attacked by means of "
                    "the others, an average over many releases rather than the luck of this one."
                )
            )
        parts += [_promise(case, block, len(blocks) > 1) for case, block in blocks.items()]
        parts.append(
            page.paragraph(
                "An attack that fails proves nothing about cleverer ones; the promise of privacy "
                "is against all of them, whatever they know. An attack that succeeds beyond the "
                "promise would prove a fault: in the program, or in rows that are not independent, "
                "such as several of one person, among which an attack also finds the others.",
                "note",
            )
        )
        curves = {_told(a): a["curve"] for a in first["attacks"]}
        if len(blocks) == 1:
            parts.append(
                page.figure(_chart(curves), "Hits against false alarms; the diagonal is guessing.")
            )
        return "".join(parts)


def _promise(case: str, block: Block, several: bool) -> str:
    if block["eps"] is None:
        return ""
    told = f"{case}: " if several else ""
    most = block["most_hits"]
    return page.paragraph(
        f"{told}At its eps of {number(block['eps'])} no attack of any kind can hit more than "
        f"{number(most)} at this rate of false alarms"
        + (", which promises nothing." if most >= 1 else ".")
    )


def _chart(curves: Mapping[str, Any]) -> str:
    tones = {name: 1 + position % 5 for position, name in enumerate(curves)}
    drawn = lines(
        curves,
        tones,
        title="Hits against false alarms",
        x_title="false alarms",
        y_title="hits",
        square=True,
        diagonal=True,
        marks=False,
    )
    return drawn + key(list(tones.items()))


def _told(attack: Mapping[str, Any]) -> str:
    name = _KINDS[attack["attack"]]
    return f"{name}, weights {attack['weights']}" if attack["weights"] else name


def _interval(hits: Mapping[str, float]) -> str:
    return f"{number(hits['rate'])} [{number(hits['low'])}, {number(hits['high'])}]"


def _share(rate: float) -> str:
    return f"{number(100 * rate)}%"


def _name(kind: str, weights: str | None) -> str:
    return f"{kind} {weights or ''}"


def _some(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of at most :data:`MOST_TARGETS` rows."""
    import numpy as np

    if rows <= MOST_TARGETS:
        return np.arange(rows)
    return np.sort(rng.choice(rows, MOST_TARGETS, replace=False))


def _stack(one: CodedRows, other: CodedRows) -> CodedRows:
    """The rows of two tables, without weights."""
    import numpy as np

    return type(one)(
        one.schema,
        np.concatenate([one.codes, other.codes]),
        np.concatenate([one.units, other.units]),
    )
