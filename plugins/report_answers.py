"""The report for analysts: what a release is good for, with intervals, from the release alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from marginalsyn.errors import MarginalsynError
from marginalsyn.evaluation import Block, Report, Span, forest, number, page

if TYPE_CHECKING:
    from marginalsyn.release import Release

# A chart of more values than these is a table.
_CHARTED = 16
_LISTED = 400
# What measures a potential, and no pairs.
_POTENTIAL = "support-points-gp"


class AnswersReport(Report):
    """Shares of all columns with intervals, the pairs that were measured, and commands."""

    name: ClassVar[str] = "answers"
    title: ClassVar[str] = "For analysts"
    summary: ClassVar[str] = "what analysts may conclude: intervals, measured pairs, commands"
    place: ClassVar[int] = 5
    beside: ClassVar[bool] = False

    def publish(self, release: Release) -> Block | None:
        from marginalsyn.answers import estimate, measured_pairs

        schema = release.schema
        names = [c.name for c in schema.columns if c.size <= _LISTED]
        try:
            found = estimate(release, share=names, replicates=0)
            potential = release.statement.generator == _POTENTIAL
            pairs = [] if potential else measured_pairs(release)
        except MarginalsynError as error:
            return {"refused": str(error)}
        shares: dict[str, list[dict[str, Any]]] = {}
        for name in names:
            labels = schema.column(name).labels()
            own = [a for a in found.answers if a.question == f"share {name}"]
            shares[name] = [
                {"value": label, "share": a.estimate, "low": a.low, "high": a.high}
                for label, a in zip(labels, own, strict=True)
            ]
        return {
            "refused": None,
            "potential": potential,
            "rows": found.rows,
            "confidence": found.confidence,
            "shares": shares,
            "pairs": [{"columns": list(p.columns), "noise": p.noise} for p in pairs],
            "every": len(schema.names) * (len(schema.names) - 1) // 2,
            "commands": _commands(
                _label(release), names, [p.columns for p in pairs], tables=not potential
            ),
        }

    def public_html(self, block: Block) -> str:
        if block["refused"]:
            return page.paragraph(f"No intervals: {block['refused']}", "note")
        pairs = block["pairs"]
        parts = [page.paragraph(_good_for(block)), page.heading("Three commands to begin with")]
        parts += [page.paragraph(command, "command") for command in block["commands"]]
        parts.append(
            page.paragraph(
                "They need this folder and nothing else. Intervals know the privacy noise; those "
                "of a fit on the synthetic rows do not, and are too narrow."
            )
        )
        parts.append(page.heading("Every column's shares"))
        told = f"{100 * block['confidence']:g}% intervals for the population."
        parts.append(page.paragraph(told, "note"))
        charts = []
        for name, values in block["shares"].items():
            if len(values) <= _CHARTED:
                spans = [Span(v["value"], v["share"], v["low"], v["high"]) for v in values]
                charts.append(page.figure(forest(spans, f"shares of {name}"), name))
        if charts:
            parts.append(page.grid(charts, "pair"))
        for name, values in block["shares"].items():
            if len(values) > _CHARTED:
                listed = page.table(
                    ("value", "share", "low", "high"),
                    [(v["value"], v["share"], v["low"], v["high"]) for v in values],
                )
                parts.append(page.details(f"{name}: {len(values)} values", listed))
        if pairs:
            measured = page.table(
                ("pair", "noise in the share of a cell"),
                [(" x ".join(p["columns"]), number(p["noise"])) for p in pairs],
            )
            title = f"Pairs that were measured, {len(pairs)} of {block['every']}"
            parts.append(page.details(title, measured))
        return "".join(parts)


def _good_for(block: Block) -> str:
    """What the release is good for, in words."""
    pairs, every = len(block["pairs"]), block["every"]
    if block["potential"]:
        told = (
            "Its noisy potential tells in part how columns go together: the commands below say how "
            "much of an answer it tells, and how uncertain the rest is."
        )
    elif not pairs:
        told = "No pair of columns was measured: take nothing from it on how columns go together."
    elif pairs == every:
        told = f"All {every} pairs of columns were measured: how two columns go together is known."
    else:
        told = (
            f"Of {every} pairs of columns {pairs} were measured: how these go together is known. "
            "What rests on another pair is marked by the commands below, with how far it may move."
        )
    return (
        f"This release tells the shares of single columns of about {block['rows']:,} private rows. "
        + told
    )


def _label(release: Release) -> str | None:
    """The label, where a model of it can be asked for."""
    schema = release.schema
    if schema.label is None:
        return None
    column = schema.column(schema.label)
    return schema.label if column.numeric or column.levels + column.has_other == 2 else None


def _commands(
    label: str | None, names: list[str], pairs: list[tuple[str, str]], *, tables: bool
) -> list[str]:
    """Commands that suit the release."""
    found = [f'marginalsyn estimate RELEASE --share "{names[0] if names else ""}"']
    if pairs:
        found = [f'marginalsyn estimate RELEASE --share "{", ".join(pairs[0])}"']
    beside = [p[0] if p[1] == label else p[1] for p in pairs if label in p][:2]
    if label is not None and beside:
        found.append(f'marginalsyn estimate RELEASE --model "{label} ~ {" + ".join(beside)}"')
    elif len(names) > 1:
        found.append(f'marginalsyn estimate RELEASE --count "{names[1]}"')
    if not tables:
        return [*found, f'marginalsyn estimate RELEASE --mean "{names[-1] if names else ""}"']
    return [*found, "marginalsyn sample RELEASE --imputations 20 --out tables"]
