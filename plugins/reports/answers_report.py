"""The report for analysts: what a release is good for, with intervals, from the release alone."""

from __future__ import annotations

from collections.abc import Iterator

from marginalsyn.errors import MarginalsynError
from marginalsyn.evaluation.charts import Bar, Dots
from marginalsyn.evaluation.reports import Block, Blocks, Report
from marginalsyn.evaluation.view import Fold, Group, Item, Note, Table
from marginalsyn.release.folder import Release

# A chart of more values than these is a table.
_CHARTED = 16
_LISTED = 400
# What measures a potential, and no pairs.
_POTENTIAL = "support-points-gp"
_KEYS = ("value", "share", "low", "high")


class AnswersReport(Report):
    """Shares of all columns with intervals, the pairs that were measured, and commands."""

    name = "answers"
    title = "For analysts"
    summary = "what analysts may conclude: intervals, measured pairs, commands"
    place = 5
    scope = "release"
    on_terminal = False

    def publish(self, release: Release) -> Block | None:
        from marginalsyn.answers.answering import estimate
        from marginalsyn.answers.evidence import measured_pairs

        schema = release.schema
        names = [c.name for c in schema.columns if c.size <= _LISTED]
        try:
            found = estimate(release, share=names, replicates=0)
            potential = release.statement.generator == _POTENTIAL
            pairs = [] if potential else measured_pairs(release)
        except MarginalsynError as error:
            return {"refused": str(error)}
        shares = {}
        for name in names:
            labels = schema.column(name).labels()
            own = [a for a in found.answers if a.question == f"share {name}"]
            shares[name] = [
                {"value": label, "share": a.estimate, "low": a.low, "high": a.high}
                if a.measured
                else {**dict.fromkeys(_KEYS), "value": label}
                for label, a in zip(labels, own, strict=True)
            ]
        return {
            "refused": None,
            "potential": potential,
            "rows": found.rows,
            "confidence": found.confidence,
            "shares": shares,
            "pairs": [{"columns": list(pair), "noise": noise} for pair, noise in pairs],
            "every": len(schema.names) * (len(schema.names) - 1) // 2,
            "commands": _commands(
                _label(release), names, [pair for pair, _ in pairs], tables=not potential
            ),
        }

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        (block,) = blocks.values()
        if block["refused"]:
            yield Note(f"No intervals: {block['refused']}")
            return
        yield _good_for(block)
        yield Note("Three commands to begin with", "heading")
        yield from (Note(command, "command") for command in block["commands"])
        yield (
            "They need this folder and nothing else. Intervals know the privacy noise; those of a "
            "fit on the synthetic rows do not, and are too narrow."
        )
        yield Note("Every column's shares", "heading")
        yield Note(f"{100 * block['confidence']:g}% intervals for the population.")
        charts = []
        tables = []
        for name, values in block["shares"].items():
            # What the release did not measure has no interval, and no place in a chart.
            if any(value["low"] is None for value in values):
                yield Note(f"{name}: not measured by this release")
            elif len(values) <= _CHARTED:
                bars = [Bar(v["value"], v["share"], interval=(v["low"], v["high"])) for v in values]
                charts.append(Dots(f"shares of {name}", bars, caption=name))
            else:
                rows = [[value[key] for key in _KEYS] for value in values]
                tables.append(Fold(f"{name}: {len(rows)} values", [Table(_KEYS, rows)]))
        yield Group(charts)
        yield from tables
        pairs = [(" x ".join(pair["columns"]), pair["noise"]) for pair in block["pairs"]]
        if pairs:
            title = f"Pairs that were measured, {len(pairs)} of {block['every']}"
            yield Fold(title, [Table(("pair", "noise in the share of a cell"), pairs)])


def _good_for(block: Block) -> str:
    """What the release is good for, in words."""
    pairs, every = len(block["pairs"]), block["every"]
    if block["potential"]:
        text = (
            "Its noisy potential says in part how columns go together: the commands below say how "
            "much of an answer it determines, and how uncertain the rest is."
        )
    elif not pairs:
        text = "No pair of columns was measured: take nothing from it on how columns go together."
    elif pairs == every:
        text = (
            f"All {every} pairs of columns were measured: how two columns go together is known, "
            "and not what three do at once."
        )
    else:
        text = (
            f"Of {every} pairs of columns {pairs} were measured: how these go together is known. "
            "What rests on another pair, or on three columns at once, has no interval where too "
            "little of it was measured: the commands below say so."
        )
    rows = f"{block['rows']:,}"
    return f"This release gives the shares of single columns of about {rows} private rows. {text}"


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
    share = ", ".join(pairs[0] if pairs else names[:1])
    found = [f'marginalsyn estimate RELEASE --share "{share}"']
    partners = [p[0] if p[1] == label else p[1] for p in pairs if label in p][:2]
    if label is not None and partners:
        found.append(f'marginalsyn estimate RELEASE --model "{label} ~ {" + ".join(partners)}"')
    elif len(names) > 1:
        found.append(f'marginalsyn estimate RELEASE --count "{names[1]}"')
    if not tables:
        return [*found, f'marginalsyn estimate RELEASE --mean "{names[-1] if names else ""}"']
    return [*found, "marginalsyn sample RELEASE --imputations 20 --out tables"]
