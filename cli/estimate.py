"""``marginalsyn estimate``: what an analyst may conclude from a release, with honest intervals."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import group, options, screen
from marginalsyn.cli.bundles import Decorator, bundle, together
from marginalsyn.cli.inputs import read_release
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from marginalsyn.answers.answering import Answer, Answers


NOT_MEASURED = "not measured by this release"
# So many intervals get an axis each where the widest is so many times the narrowest.
_APART, _UNLIKE = 12, 8.0


def _asked(flag: str, metavar: str, help: str, **about: Any) -> Decorator:
    return click.option(  # type: ignore[no-any-return]
        flag, multiple=True, metavar=metavar, panel="Questions", help=f"{help} Repeatable.", **about
    )


questions = together(
    _asked(
        "--model", "FORMULA", "A regression: logistic if the label has two values, else linear."
    ),
    _asked(
        "--mean", "COLUMNS", "The mean of a column; the share of each value if it is no number."
    ),
    _asked("--share", "COLUMNS", "The share of every combination of values."),
    _asked("--count", "COLUMNS", "The number of rows with every combination of values."),
    _asked(
        "--quantile",
        "COLUMN SHARE",
        "A quantile of a numeric column, such as `age 0.5` for the median.",
        nargs=2,
        type=(str, float),
    ),
    _asked("--difference", "'A by B'", "How the mean of A differs between the values of B."),
    _asked("--risk", "FORMULA", "How much worse this model is expected to be on the real rows."),
)


@group.command(
    examples="""
    # a regression on the last release, with intervals that know its noise
    marginalsyn estimate --model "income ~ age + education-num + sex"
    # shares, means and differences; these take no time
    marginalsyn estimate release --count "sex, income" --mean hours-per-week
    marginalsyn estimate release --difference "income by sex" --target table --json
    """,
)
@options.release
@questions
@click.option(
    "--target",
    type=click.Choice(["population", "table"]),
    default="population",
    help="What the intervals are for: the population that the private table is a sample of, or "
    "the table itself.",
)
@options.confidence
@click.option(
    "--replicates",
    type=click.IntRange(min=0),
    metavar="N",
    help="How often the release is replayed for what is not linear in its answers; 0 takes the "
    "linear form alone.  [default=200, or 40 with --whole]",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Run the generator again in every replay, its private choices included: how much the "
    "choice of marginals adds. It takes as long as so many releases.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Fit a model in every replay, from the start. By default the linear form takes over after "
    "some, where it agrees with them.",
)
@click.option(
    "--each",
    type=click.Choice(["row", "person"]),
    default="row",
    help="Of a release that protects persons, what counts once: a row, as in its table, or a "
    "person.",
)
@options.seed(help="Make the replays repeatable. This is safe: no private row is read.")
@options.out(help="Write a page with the intervals as pictures, too: an .html file.")
@options.force
@bundle(options.Output, only=("quiet", "as_json"))
def estimate(
    release: Path | None, out: Path | None, force: bool, output: options.Output, **asked: Any
) -> None:
    """Estimate quantities of the private table from a release alone.

    For analysts: it needs nothing but the release folder and costs no privacy. Every interval knows
    the privacy noise and, for the population, which rows the table happened to hold. Next to it
    stands the interval that a naive fit on the synthetic rows would have printed. What the release
    did not measure has no interval: a note names the marginals that would measure it.
    """
    from marginalsyn.answers.answering import estimate as answer

    if out is not None:
        if out.suffix != ".html":
            raise UsageError(f"--out ({out}) must end in .html")
        check_new(out, force)
    notes = screen.Notes(output.quiet)
    opened = read_release(release)
    with notes.progress() as progress:
        found = answer(opened, progress=progress, jobs=os.cpu_count() or 1, **asked)
    if out is not None:
        from marginalsyn.evaluation.publication import CLOSED, OPEN

        stamp = OPEN if opened.statement.private else CLOSED
        out.write_text(_page(found, opened.schema.title, stamp), encoding="utf-8")
        notes.say(f"The page is in {out}.")
    if output.as_json:
        screen.write_json(found.to_json())
        return
    _show(found, notes)


def _show(found: Answers, notes: screen.Notes) -> None:
    """A table for each question."""
    percent = f"{100 * found.confidence:g}%"
    for title in dict.fromkeys(answer.question for answer in found.answers):
        screen.write(title)
        own = [answer for answer in found.answers if answer.question == title]
        variance = ("sampling", "noise", "rows")
        head = ["term", "estimate", f"{percent} interval", *variance, "naive fit"]
        rows = [_row(answer) for answer in own]
        if any(answer.down != answer.up for answer in own):
            head.append("if unmeasured pairs differ")
        else:
            rows = [row[:-1] for row in rows]
        screen.write_table(head, rows, right=("estimate", *variance))
        screen.write("")
    notes.warn_all(dict.fromkeys(n for answer in found.answers for n in answer.notes))
    notes.warn_all(found.warnings)
    what = "the population" if found.target == "population" else "the private table"
    notes.say(
        f"Intervals for {what}, from the release alone; about {found.rows:,} private rows. "
        "sampling, noise, rows: shares of the variance."
    )


def _page(found: Answers, title: str, stamp: str) -> str:
    """A page with a picture for each question."""
    from marginalsyn.evaluation import page
    from marginalsyn.evaluation.charts import Span, forest
    from marginalsyn.evaluation.publication import OPEN

    sections = []
    percent = f"{100 * found.confidence:g}%"
    for number, question in enumerate(dict.fromkeys(a.question for a in found.answers)):
        own = [a for a in found.answers if a.question == question]
        spans = [
            Span(
                label,
                a.estimate,
                a.low,
                a.high,
                None if math.isnan(a.naive) else (a.naive_low, a.naive_high),
            )
            for a, label in zip(own, _labels([a.term for a in own]), strict=True)
            if a.measured
        ]
        told = f"{percent} intervals; below each, coloured, what the synthetic rows alone would say"
        head: tuple[str, ...] = ("term", "estimate", "low", "high", "sampling", "noise", "rows")
        rows: list[tuple[object, ...]] = [
            (a.term, a.estimate, a.low, a.high, a.sampling, a.noise, a.rows)
            if a.measured
            else (a.term, NOT_MEASURED, *[""] * 5)
            for a in own
        ]
        if any(a.down != a.up for a in own):
            head = (*head, "lowest if unmeasured pairs differ", "highest")
            rows = [
                (*row, a.fitted + a.down, a.fitted + a.up) for row, a in zip(rows, own, strict=True)
            ]
        # On one axis the narrow intervals among wide ones could not be seen.
        widths = [span.high - span.low for span in spans]
        alike = len(spans) > _APART or max(widths, default=0) <= _UNLIKE * min(widths, default=0)
        charts = [spans] if alike and spans else [[span] for span in spans]
        html = page.figure("".join(forest(chart, question) for chart in charts), told)
        html += page.table(head, rows)
        notes = dict.fromkeys(note for a in own for note in a.notes)
        html += "".join(page.paragraph(note, "note") for note in notes)
        sections.append(page.Section(f"q{number}", question, html))
    what = "the population" if found.target == "population" else "the private table"
    lead = (
        f"Intervals for {what}, computed from the release alone: they know its privacy noise.",
        "Sampling, noise and rows that stand in for answers are shares of the variance.",
        *(f"{text}." for text in found.warnings),
    )
    return page.render(
        f"Estimates from {title or 'a release'}",
        stamp=stamp,
        private=stamp != OPEN,
        lead=lead,
        figures=[("private rows, about", f"{found.rows:,}")],
        sections=sections,
        foot="Made by: marginalsyn estimate",
    )


def _labels(terms: Sequence[str]) -> list[str]:
    """Terms without what the question's title says: a picture has little room for them."""
    short = [term.rsplit(": ", 1)[-1] for term in terms]
    heads = {term.split(" = ", 1)[0] for term in short if " = " in term}
    if len(short) > 1 and len(heads) == 1 and all(" = " in term for term in short):
        return [term.split(" = ", 1)[1] for term in short]
    return short


def _row(answer: Answer) -> tuple[object, ...]:
    if not answer.measured:
        return _unmeasured(answer)
    size = max(abs(answer.low), abs(answer.high), abs(answer.estimate))
    shown = partial(_number, width=answer.high - answer.low, size=size)
    naive = (answer.naive_low, answer.naive_high)
    ends = (answer.fitted + answer.down, answer.fitted + answer.up)
    return (
        answer.term,
        shown(answer.estimate),
        f"{shown(answer.low)} to {shown(answer.high)}",
        *(f"{100 * part:.0f}%" for part in (answer.sampling, answer.noise, answer.rows)),
        "" if math.isnan(answer.naive) else " to ".join(map(shown, naive)),
        "" if answer.down == answer.up else " to ".join(map(shown, ends)),
    )


def _unmeasured(answer: Answer) -> tuple[object, ...]:
    """Of what has no interval: the naive figure, marked, and the extremes of pairs, if any."""
    naive = "" if math.isnan(answer.naive) else f"naive, unmeasured: {answer.naive:.3g}"
    ends = (answer.fitted + answer.down, answer.fitted + answer.up)
    extremes = "" if answer.down == answer.up else "{:.3g} to {:.3g}".format(*ends)
    return (answer.term, "", NOT_MEASURED, "", "", "", naive, extremes)


def _number(value: float, width: float, size: float) -> str:
    """As many decimals as the interval's width bears."""
    if not math.isfinite(value) or width <= 0 or size <= 0:
        return f"{value:.4g}"
    decimals = max(0, 2 - math.floor(math.log10(width)))
    return f"{value:,.{min(decimals, 8)}f}"
