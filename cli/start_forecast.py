"""What ``start`` says before a budget is spent: what it buys, and what would come out useless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marginalsyn.cli import screen

if TYPE_CHECKING:
    from marginalsyn.cli.start_commands import Choices
    from marginalsyn.private import Draft
    from marginalsyn.table import Schema

# From this share on a column is said to be nearly all missing.
MOSTLY = 0.8
MISFIT = 0.05
# Where counts are off by more than this share of the rows, it is said what more would buy, up to
# the largest usual budget.
COARSE = 0.01
MOST_EPS = 8.0
# Fewer bins than a schema's own "auto": what suits a table of some thousand rows at eps 1.
MOST_BINS = 16


def settled(schema: Schema, *, public: bool) -> Schema:
    """The draft in coarser bins, and as public knowledge where the user vouches for it.

    How coarse they are depends on no row: the number of rows is private.
    """
    from marginalsyn.table import MomentColumn, Schema

    bins: dict[str, int | str] = {}
    for column in schema.columns:
        if isinstance(column, MomentColumn):
            coarser = [schema.with_bins(**{column.name: period}) for period in _periods(column)]
            sizes = {one.column(column.name).levels: one for one in coarser}
            fitting = [size for size in sizes if size <= MOST_BINS]
            if column.levels > MOST_BINS:
                bins[column.name] = (
                    sizes[max(fitting)].column(column.name).bins if fitting else MOST_BINS  # type: ignore[union-attr, assignment]
                )
        elif column.numeric and column.levels > MOST_BINS:
            bins[column.name] = MOST_BINS
    coarse = schema.with_bins(**bins)
    return Schema(**{**coarse.model_dump(), "drafted_from_data": False}) if public else coarse


def _periods(column: Any) -> list[str]:
    """The periods of a calendar that suit a column."""
    return ["hour"] if column.kind == "time" else ["month", "quarter", "year"]


def tell(
    choices: Choices, draft: Draft, schema: Schema, seconds: float, notes: screen.Notes
) -> None:
    """What the budget will buy and what would come out missing or useless, before it is spent."""
    from marginalsyn.budget import Budget
    from marginalsyn.contract import make_config
    from marginalsyn.curator import foresee

    whole = draft.rows if schema.unit is None else draft.distinct[schema.unit.column]
    many = "rows" if schema.unit is None else "persons"
    seen = max(1, round(whole * (1 - choices.holdout)))
    config = make_config(choices.method, {})
    told = foresee(schema, config, Budget(eps=choices.eps), seen)
    for verdict in draft.verdicts:
        if verdict.missing > MOSTLY:
            notes.warn(
                f"{verdict.name} is {verdict.missing:.0%} missing: little is worth its budget; "
                f"--kind {verdict.name}=drop leaves it out"
            )
        if verdict.fits is not None and verdict.fits < 1 - MISFIT:
            notes.warn(
                f"{verdict.name}: {1 - verdict.fits:.0%} of its values do not fit the kind "
                f"{verdict.kind}; --kind {verdict.name}=KIND takes it for another"
            )
    for name in told.useless:
        notes.warn(
            f"{name} would mostly show noise: it has {schema.column(name).size} codes for "
            f"{seen:,} {many}; give it fewer bins, drop it, or raise --eps"
        )
    worst = max(told.errors, key=lambda name: told.errors[name])
    notes.say(
        f"method {choices.method}, eps {choices.eps:g}, {choices.holdout:.0%} of the {many} held "
        "out for the evaluation"
    )
    notes.say(
        f"to expect: counts of one column off by about {told.sigma:.0f} of {seen:,} {many}; "
        f"shares of {worst} wrong by {told.errors[worst]:.1%}, the most of all columns"
    )
    if told.sigma > COARSE * seen:
        # What more would buy; the table's owner decides, and nothing here picks it from the rows.
        richer = [eps for eps in (2 * choices.eps, 4 * choices.eps) if eps <= MOST_EPS]
        bought = [foresee(schema, config, Budget(eps=eps), seen).sigma for eps in richer]
        off = [f"eps {eps:g} by {sigma:.0f}" for eps, sigma in zip(richer, bought, strict=True)]
        if off:
            notes.say(f"with more: at {', at '.join(off)}")
    if schema.unit is not None:
        notes.say(f"protected: {schema.unit.text}")
    notes.say(f"time: about {_minutes(seconds, len(schema.names), choices.method)}")
    if not choices.public:
        notes.warn(
            "the schema was read off the rows, which no budget pays for, and the privacy statement "
            "will say so; --public if it is public knowledge"
        )
    if choices.label is None:
        notes.say("no label: --label COLUMN adds how well models learn from the release")


def _minutes(read: float, columns: int, method: str) -> str:
    """A rough time: reading the table some times, and what a model of so many columns takes."""
    seconds = 6 * read + 5 + columns * (0.3 if method == "independent" else 4)
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
