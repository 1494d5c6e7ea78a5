"""``estimate`` and ``combine``: what an analyst may conclude, with honest intervals."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new, read_table
from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Session,
    argument,
    option,
    seed_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.answers.answering import Answer, Answers

VARIANCE = ("sampling", "noise", "rows")
# A picture with more intervals than this has one axis for all of them; with fewer, each gets its
# own where the widest is so many times the narrowest.
MANY, UNLIKE = 12, 8.0

_question = partial(option, (), panel="Questions", multiple=True)
_confidence = partial(option, 0.95, "How often an interval should hold the truth.", metavar="SHARE")


@dataclass(frozen=True, kw_only=True)
class Estimate(OfRelease["Answers"]):
    """Estimate quantities of the private table from a release alone.

    For analysts: it needs nothing but the release folder and costs no privacy. Every interval knows
    the privacy noise and, for the population, which rows the table happened to hold. Next to it
    stands the interval that a naive fit on the synthetic rows would have printed. What the release
    did not measure has no interval: a note names the marginals that would measure it.
    """

    json_alone = True
    examples = """
    # questions about the last release, or about a folder
    marginalsyn estimate "mean(hours-per-week) by sex where age > 40" "income ~ age * sex"
    marginalsyn estimate release "ratio(share(income = >50K) by sex)" "test(income, race)"
    # the same by options: shares and means take no time
    marginalsyn estimate release --count "sex, income" --mean hours-per-week
    marginalsyn estimate release --difference "income by sex" --target table --json
    """

    ask: Sequence[str] = argument(
        (),
        "What to estimate, such as `mean(income) by region where age > 40`, `median(age)`, "
        "`share(ill = yes where smoker = yes) / share(ill = yes where smoker = no)` or "
        "`ill ~ smoker * sex`; the page for analysts has the language.",
        metavar="QUESTION",
        nargs=-1,
    )
    model: Sequence[str] = _question(
        "A regression: logistic if the label has two values, linear if it is a number, else "
        "ordinal or multinomial. Repeatable.",
        metavar="FORMULA",
    )
    mean: Sequence[str] = _question(
        "The mean of a column; the share of each value if it is no number. Repeatable.",
        metavar="COLUMNS",
    )
    share: Sequence[str] = _question(
        "The share of every combination of values. Repeatable.", metavar="COLUMNS"
    )
    count: Sequence[str] = _question(
        "The number of rows with every combination of values. Repeatable.", metavar="COLUMNS"
    )
    quantile: Sequence[tuple[str, float]] = _question(
        "A quantile of a numeric column, such as `age 0.5` for the median. Repeatable.",
        metavar="COLUMN SHARE",
        nargs=2,
        type=(str, float),
    )
    difference: Sequence[str] = _question(
        "How the mean of A differs between the values of B. Repeatable.", metavar="'A by B'"
    )
    risk: Sequence[str] = _question(
        "How much worse this model is expected to be on the real rows. Repeatable.",
        metavar="FORMULA",
    )
    target: Literal["population", "table"] = option(
        "population",
        "What the intervals are for: the population that the private table is a sample of, or the "
        "table itself.",
    )
    confidence: float = _confidence()
    replicates: int | None = option(
        None,
        "How often the release is replayed for what is not linear in its answers; 0 takes the "
        "linear form alone.  [default=200, or 40 with --whole]",
        range=(0, None),
        metavar="N",
    )
    whole: bool = option(
        False,
        "Run the generator again in every replay, its private choices included: how much the "
        "choice of marginals adds. It takes as long as so many releases.",
    )
    refit: bool = option(
        False,
        "Fit a model in every replay, from the start. By default the linear form takes over after "
        "some, where it agrees with them.",
    )
    each: Literal["row", "person"] = option(
        "row",
        "Of a release that protects persons, what counts once: a row, as in its table, or a "
        "person.",
    )
    seed: int | None = seed_option(
        "Make the replays repeatable. This is safe: no private row is read."
    )
    out: str | Path | None = option(
        None, "Write a page with the intervals as pictures, too: an .html file.", metavar="FILE"
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Answers]:
        """Answer the questions, and write the page if it has a place."""
        from marginalsyn.answers.answering import estimate
        from marginalsyn.answers.questions import is_question
        from marginalsyn.evaluation.view import CLOSED, OPEN

        if isinstance(first := self.release, str) and is_question(first):
            return replace(self, release=None, ask=(first, *self.ask)).run(session)
        asked = {name: value for name, value in vars(self).items() if name not in NOT_ASKED}
        out = Path(self.out) if self.out is not None else None
        if out is not None and out.suffix != ".html":
            raise UsageError(f"--out ({out}) must end in .html")
        check_new(out, self.force)
        release = self.read_table()
        with session.progress(None) as progress:
            found = estimate(release, progress=progress, jobs=os.cpu_count() or 1, **asked)
        if out is not None:
            stamp = OPEN if release.statement.private else CLOSED
            out.write_text(_page(found, release.schema.title, stamp), encoding="utf-8")
            session.say(f"The page is in {out}.")
        warnings = dict.fromkeys(note for answer in found.answers for note in answer.notes)
        note = (
            f"Intervals for {_whole(found)}, from the release alone; about {found.rows:,} "
            f"{found.counted}. sampling, noise, rows: shares of the variance."
        )
        return Result(
            found, found.to_json(), list(_tables(found)), [*warnings, *found.warnings], [note]
        )


# Fields that are no arguments of ``marginalsyn.estimate``.
NOT_ASKED = ("release", "out", "force")


def _whole(found: Answers) -> str:
    return "the population" if found.target == "population" else "the private table"


def _tables(found: Answers) -> Iterator[str | Columns]:
    """A table for each question."""
    for title, own in found.by_question().items():
        yield title
        yield Columns(*_table(own, found.confidence), right=("estimate", "p", *VARIANCE))
        yield ""


def _table(own: Sequence[Answer], confidence: float) -> tuple[list[str], list[tuple[object, ...]]]:
    """A question's head and rows."""
    interval, extremes = f"{100 * confidence:g}% interval", "if unmeasured pairs differ"
    head = ["term", "estimate", interval, "p", *VARIANCE, "naive fit", extremes]
    rows = [_row(answer) for answer in own]
    empty = {name for at, name in enumerate(head) if not any(row[at] for row in rows)}
    shown = [at for at, name in enumerate(head) if name not in empty & {"p", extremes}]
    return [head[at] for at in shown], [tuple(row[at] for at in shown) for row in rows]


def _row(answer: Answer) -> tuple[object, ...]:
    ends = (answer.fitted + answer.down, answer.fitted + answer.up)
    unlike = partial(_number, width=answer.up - answer.down, size=max(map(abs, ends)))
    extremes = " to ".join(map(unlike, ends)) if answer.down != answer.up else ""
    if not answer.measured:
        # The naive figure, marked, and the extremes of pairs, if any.
        naive = "" if math.isnan(answer.naive) else f"naive, unmeasured: {answer.naive:.3g}"
        return (answer.term, "", answer.why, *[""] * 4, naive, extremes)
    size = max(abs(answer.low), abs(answer.high), abs(answer.estimate))
    exact, width = answer.exact, answer.high - answer.low
    width = answer.naive_high - answer.naive_low if exact else width
    shown = partial(_number, width=width, size=size)
    naive = " to ".join(map(shown, (answer.naive_low, answer.naive_high)))
    ends_shown = " to ".join(map(shown, (answer.low, answer.high)))
    return (
        answer.term,
        shown(answer.estimate),
        "exact: public" if exact else "" if math.isnan(answer.low) else ends_shown,
        "" if math.isnan(answer.p) else f"{answer.p:.3f}" if answer.p >= 0.001 else "<.001",
        *(
            "" if exact else f"{100 * part:.0f}%"
            for part in (answer.sampling, answer.noise, answer.rows)
        ),
        "" if math.isnan(answer.naive) else naive,
        extremes,
    )


def _number(value: float, width: float, size: float) -> str:
    """As many decimals as the interval's width bears."""
    if not math.isfinite(value) or not width > 0 or not size > 0:
        return f"{value:.4g}"
    decimals = max(0, 2 - math.floor(math.log10(width)))
    return f"{value:,.{min(decimals, 8)}f}"


def _page(found: Answers, title: str, stamp: str) -> str:
    """A page with a picture for each question."""
    from marginalsyn.evaluation.charts import Bar, Dots
    from marginalsyn.evaluation.view import OPEN, Item, Note, Page, Section, Table, render

    percent = f"{100 * found.confidence:g}%"
    about = f"{percent} intervals; below each, coloured, what the synthetic rows alone would say"
    sections = []
    for number, (question, own) in enumerate(found.by_question().items()):
        spans = [
            Bar(
                label,
                a.estimate,
                interval=(a.low, a.high),
                below=None if math.isnan(a.naive) else (a.naive_low, a.naive_high),
            )
            for a, label in zip(own, _labels([a.term for a in own]), strict=True)
            if not math.isnan(a.low)
        ]
        # On one axis the narrow intervals among wide ones could not be seen.
        widths = [span.ends[1] - span.ends[0] for span in spans]
        alike = len(spans) > MANY or max(widths, default=0) <= UNLIKE * min(widths, default=0)
        charts = [spans] if alike and spans else [[span] for span in spans]
        notes = dict.fromkeys(note for a in own for note in a.notes)
        drawn = [Dots(question, c, caption=about if c is charts[-1] else "") for c in charts]
        items: list[Item] = [*drawn, Table(*_table(own, found.confidence)), *map(Note, notes)]
        sections.append(Section(f"q{number}", question, items))
    lead = (
        f"Intervals for {_whole(found)}, computed from the release alone: they know its privacy "
        "noise.",
        "Sampling, noise and rows that stand in for answers are shares of the variance.",
        *(f"{text}." for text in found.warnings),
    )
    page = Page(
        title=f"Estimates from {title or 'a release'}",
        stamp=stamp,
        private=stamp != OPEN,
        lead=lead,
        figures={f"{found.counted}, about": found.rows},
        sections=sections,
        foot="Made by: marginalsyn estimate",
    )
    return render(page)


def _labels(terms: Sequence[str]) -> list[str]:
    """Terms without what the question's title says: a picture has little room for them."""
    short = [term.rsplit(": ", 1)[-1] for term in terms]
    heads = {term.split(" = ", 1)[0] for term in short if " = " in term}
    if len(short) > 1 and len(heads) == 1 and all(" = " in term for term in short):
        return [term.split(" = ", 1)[1] for term in short]
    return short


@dataclass(frozen=True, kw_only=True)
class Combine(Operation["pd.DataFrame"]):
    """Combine results of many tables into estimates with honest intervals.

    RESULTS has the columns `table` (a file of `sample --imputations`), `estimate`, `se` (or
    `variance`) as your own code printed them, and `term` where there is more than one. Tables that
    were drawn from one model are refused: they do not show how sure it is. A column `about` (a
    formula or columns) with --release says what a term rests on: what was not measured has no
    interval.
    """

    shell = ("as_json",)
    json_alone = True
    examples = """
    marginalsyn sample release --imputations 20 --out tables
    # results.csv: table,term,estimate,se; a row for each file of ./tables and each term
    marginalsyn combine results.csv --tables tables
    # with a column `about` in the results, such as "y ~ a * b": was that measured?
    marginalsyn combine results.csv --tables tables --release release
    """

    results: str | Path = argument(None, "A CSV or Parquet file of results.", required=True)
    tables: str | Path | None = option(
        None,
        "The folder that `sample --imputations` filled. [default=that of the results]",
        metavar="FOLDER",
    )
    release: str | Path | None = option(
        None,
        "The release that the tables are from: whether it measured what each term is about.",
        metavar="FOLDER",
    )
    confidence: float = _confidence()

    def run(self, session: Session = PYTHON) -> Result[pd.DataFrame]:
        """Combine the results of each term."""
        from marginalsyn.answers.imputations import combine
        from marginalsyn.contract import plain
        from marginalsyn.release.folder import Release

        results = Path(self.results)
        found = combine(
            read_table(results),
            Path(self.tables or results.parent),
            release=Release.read(self.release) if self.release is not None else None,
            confidence=self.confidence,
        )
        head = [str(name) for name in found.columns if name != "note"]
        cells = found[head].astype(object).fillna("not measured").to_numpy(object).tolist()
        noted = found[found["note"] != ""].groupby("note", sort=False)
        warnings = [f"{', '.join(own['term'])}: {note}" for note, own in noted]
        table = Columns(head, cells, right=head[1:])
        return Result(found, plain(found.to_dict("records")), [table], warnings)
