"""What ``start`` says before a budget is spent, and the plain commands that it runs afterwards."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli.screen import Notes
from marginalsyn.contract import make_config
from marginalsyn.drafting.drafted import widest
from marginalsyn.host import calibrate
from marginalsyn.operations.origins import PASSWORD, hides_password, shown_name
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.gdp import eps_of_mu, mu_of_amount
from marginalsyn.privacy.zcdp import DEFAULT_DELTA, eps_of, exponential_eps, gaussian_sigma, rho_of
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import MOST_ROWS, ROW

if TYPE_CHECKING:
    from marginalsyn.cli.start import Choices
    from marginalsyn.drafting.draft import Draft, Verdict

# Of the budget's rho: what bounds are bought for.
BOUNDS_SHARE = 0.2
# Of its delta: what private categories take.
DELTA_SHARE = 0.2
PASSWORD_VARIABLE = "PGPASSWORD"
# Of the rows: what lies outside of bounds that are bought, on either side.
TAIL = 0.03


def split(choices: Choices) -> tuple[float, float]:
    """What bounds are bought for, and what the release is made for: together no more than all."""
    if not choices.bought:
        return 0.0, choices.eps
    delta = DEFAULT_DELTA * (1 - DELTA_SHARE if choices.open else 1.0)
    rho = rho_of(choices.eps, delta)
    # In rho, in which the bounds are cheaper; a release whose price is mu costs mu^2 / 2.
    mu = mu_of_amount((1 - BOUNDS_SHARE) * rho)
    return _floor(eps_of(BOUNDS_SHARE * rho, DEFAULT_DELTA)), _floor(eps_of_mu(mu, delta))


def _floor(eps: float) -> float:
    """An eps in few digits and never more."""
    digits = 5 - math.floor(math.log10(eps))
    return math.floor(eps * 10.0**digits) / 10.0**digits


def commands(choices: Choices, schema: Path) -> list[tuple[str, list[str]]]:
    """The plain commands that do what was decided with the schema in a file."""
    sep, (bounds_eps, rest_eps) = ["--sep", choices.sep] if choices.sep else [], split(choices)
    path = schema
    if choices.bought:
        # With the bounds that are bought.
        path = schema.with_name(f"{schema.name.removesuffix('.schema.json')}.bounds.schema.json")
    made = ["--data", choices.data, "--schema", str(path), "--method", choices.method]
    made += ["--eps", f"{rest_eps:g}", "--out", str(choices.out), *sep]
    made += ["--holdout", f"{choices.holdout:g}"] if choices.holdout else []
    made += ["--unit", ROW] if choices.unit == ROW else []
    made += ["--as-input"] * choices.as_input
    made += ["--accept-nonprivate-schema"] * choices.drafted
    # Where nothing is asked, columns that are nearly all missing were pointed out before.
    made += ["--go-on"] * (choices.yes and not choices.several) + ["--force"] * choices.force
    judged = [str(choices.out), "--out", defaults.EVALUATION, "--force"]
    judged += [] if choices.holdout else ["--in-sample"]
    found = [("generate", made), ("evaluate", judged)]
    if choices.bought:
        bounds = [choices.data, str(schema), "--eps", f"{bounds_eps:g}"]
        bounds += [word for name in choices.bought for word in ("--column", name)]
        bounds += ["--tail", f"{TAIL:g}", "--widening", "--out", str(path), "--force", *sep]
        found.insert(0, ("schema buy-bounds", bounds))
    return found


def script(commands: Sequence[tuple[str, Sequence[str]]], choices: Choices) -> str:
    """The commands as a file for a shell; a database's password is left out."""
    own = {choices.data: shlex.quote(shown_name(choices.data)), str(choices.out): '"$out"'}
    lines = ["#!/bin/sh", "# Spends the budget again, for a release in another folder.", "set -e"]
    lines.append(f'out="${{1:-{choices.out}-again}}"')
    if hides_password(choices.data):
        lines.append(f"# The password is not kept here: {PASSWORD}.")
    for name, arguments in commands:
        words = [own.get(word) or shlex.quote(word) for word in arguments]
        lines.append(" ".join(["marginalsyn", name, *words]))
    return "\n".join(lines) + "\n"


def stem(data: str) -> str:
    """A short name for the files next to the release."""
    if "://" in data:
        parts = urlsplit(data)
        name = parts.query.partition("table=")[2].partition("&")[0] or parts.path or parts.netloc
        return Path(name.replace(".", "-")).name or "table"
    name = Path(data).name.partition(".")[0]
    return "".join(sign for sign in name if sign.isalnum() or sign in "-_") or "table"


@contextlib.contextmanager
def password_of(data: str) -> Iterator[None]:
    """Hand the password of an address to those who read the table again; it is stored nowhere."""
    parts = urlsplit(data if "://" in data else "")
    database = parts.scheme in ("postgres", "postgresql") and PASSWORD_VARIABLE not in os.environ
    password = parts.password if database else None
    if password:
        os.environ[PASSWORD_VARIABLE] = unquote(password)
    try:
        yield
    finally:
        if password:
            del os.environ[PASSWORD_VARIABLE]


def run(name: str, arguments: list[str]) -> None:
    """Another command of ours, as if it had been typed."""
    from marginalsyn.cli.main import cli

    cli.main([*name.split(), *arguments], prog_name="marginalsyn", standalone_mode=False)


# The share of rows in the wrong place from which a column is not worth its noise.
USELESS = 0.25


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of one run."""

    # The standard deviation of the noise on a count of one column.
    sigma: float
    # By column, the share of rows that noise alone puts into a wrong value or bin.
    errors: Mapping[str, float]

    @property
    def useless(self) -> list[str]:
        """The columns that would mostly show noise."""
        return [name for name, error in self.errors.items() if error >= USELESS]

    def text(self, rows: int, many: str) -> str:
        """What to expect of so many rows, or persons, in one sentence."""
        worst, share = max(self.errors.items(), key=operator.itemgetter(1))
        return (
            f"to expect: counts of one column off by about {self.sigma:.0f} of {rows:,} {many}; "
            f"shares of {worst} wrong by {share:.1%}, the most of all columns"
        )


def foresee(schema: Schema | LinkedSchema, method: str, eps: float, rows: int) -> Forecast:
    """What a run would give on about so many rows; of linked tables, on the root's.

    Nothing is read or spent. What follows from a number of rows that is private is for the curator.

    Example:
        >>> from marginalsyn.table.schema import Schema
        >>> foresee(Schema.from_domain({"a": 10}), "independent", 1.0, 50).useless
        ['a']
    """
    mechanism = calibrate(make_config(method), schema, Budget(eps=eps))[0]
    if isinstance(schema, LinkedSchema):
        mechanism = mechanism.mechanisms[schema.root.name]
    columns, budget = mechanism.schema.columns, mechanism.budget
    # A method that says nothing of single columns is taken to measure them with all it has.
    rho = sum(r for p, r in mechanism.plan.split.items() if "one-way" in p) or budget.gaussian
    sigma = gaussian_sigma(rho / max(len(columns), 1), budget.neighbours.l2)
    # Half of the mean size of a Gaussian in every cell, as a share; at most all rows are wrong.
    each = sigma * math.sqrt(2 / math.pi) / 2 / max(rows, 1)
    return Forecast(sigma, {column.name: min(1.0, column.size * each) for column in columns})


MOSTLY = 0.8  # from this share on a column is said to be nearly all missing
MISFIT = 0.05
# Where counts are off by more than this share of the rows, it is said what more would buy, up to
# the largest usual budget.
COARSE = 0.01
# Fewer rows or persons than this cannot show how good a release is.
FEWEST_HELD_OUT = 30
MOST_EPS = 8.0
# Fewer bins than a schema's own "auto": what suits a table of some thousand rows at eps 1.
MOST_BINS, FEWEST_BINS = 16, 5
# About how many steps of 1, 2 and 5 there are between the widest bounds.
CELLS = 100
# What a draft reads off the rows, in which fields of a column, and where else it may come from.
KINDS, CATEGORIES, BOUNDS = "kinds and spellings", "categories", "bounds"
VALUES = ("categories", "synonyms", "ignore_case", "other", "other_label")
ENDS = ("lower", "upper", "bins", "shape")
PRIVATE, PUBLIC, LEAK = "private", "public", "leak"
ANSWERS = {
    KINDS: (LEAK, PUBLIC),
    CATEGORIES: (PRIVATE, PUBLIC, LEAK),
    BOUNDS: (PRIVATE, PUBLIC, LEAK),
}
WHENCE = {
    PRIVATE: "bought with a part of the budget, whatever the rows have",
    PUBLIC: "a code book, or what is known without these rows, has all that stands here",
    LEAK: "taken from the rows as they are; the privacy statement will say so",
}

DRAFTED = (
    "the schema was read off the rows, which no budget pays for, and the privacy statement "
    "will say so; --public FILE names a schema that you wrote or checked"
)


def settled(schema: Schema) -> Schema:
    """The draft in coarser bins.

    How coarse they are depends on no row: the number of rows is private.
    """
    bins: dict[str, Any] = {}
    for name in [one.name for one in schema.columns if one.numeric and one.levels > MOST_BINS]:
        bins[name], column = MOST_BINS, schema.column(name)
        if isinstance(column, MomentColumn):
            # The finest periods of which there are not too many; a few would hide most of it.
            for period in ["hour"] if column.kind == "time" else ["year", "quarter", "month"]:
                levels = schema.with_bins(**{name: period}).column(name).levels
                if FEWEST_BINS <= levels <= MOST_BINS:
                    bins[name] = period
    return schema.with_bins(**bins)


def ask_whence(
    schemas: Mapping[str, Schema], possible: Mapping[str, Sequence[str]] = ANSWERS
) -> dict[str, str]:
    """Show all that drafts read off the rows, and ask where each kind of it is to come from.

    Of the ``possible`` answers to a question the first is proposed.
    """
    notes, answers = Notes(), {}
    found: dict[str, dict[str, dict[str, Any]]] = {group: {} for group in ANSWERS}
    for table, schema in schemas.items():
        place = f"{table}." if table else ""
        for column in (*schema.columns, *schema.made):
            fields = column.model_dump(mode="json", exclude_defaults=True)
            name = place + fields.pop("name")
            for group, own in ((CATEGORIES, VALUES), (BOUNDS, ENDS)):
                parts = {one: fields.pop(one) for one in own if one in fields}
                if parts and not (group == CATEGORIES and column.name in schema.open):
                    found[group][name] = parts
            found[KINDS][name] = {"kind": column.kind, **fields}
        whole = {"drop": schema.drop, "encoding": schema.encoding, "positive": schema.positive}
        found[KINDS][f"{place}the table"] = {one: value for one, value in whole.items() if value}
    for group, columns in found.items():
        if not columns:
            continue
        notes.say(f"{group}, as the rows have them:")
        for name, fields in columns.items():
            text = "; ".join(f"{field} {_written(value)}" for field, value in fields.items())
            notes.say(f"  {name}: {text}")
        for word in possible[group]:
            notes.say(f"{word}: {WHENCE[word]}")
        answers[group] = click.prompt(
            f"Where are the {group} to come from?",
            type=click.Choice(possible[group]),
            default=possible[group][0],
            err=True,
        )
    return answers


def prompt(text: str) -> str:
    """What is typed, without blanks around it; nothing for Enter."""
    return str(click.prompt(text, default="", show_default=False, err=True)).strip()


def prompt_most(whose: str, default: int) -> int:
    """How many rows are to be counted at most, which no column may say."""
    asked = f"At most how many rows of {whose} are to be counted?"
    text = f"{asked} A public number; no column tells it"
    return int(click.prompt(text, type=click.IntRange(1, MOST_ROWS), default=default, err=True))


def _written(value: Any) -> str:
    """A field's value in words; lists and mappings without signs."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_written(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_written, value))
    return str(value)


def sourced(schema: Schema, answers: Mapping[str, str]) -> tuple[Schema, list[str]]:
    """The draft without what is to be bought, and the columns whose bounds are.

    It is public where nothing of it is a leak.
    """
    columns = []
    bought = []
    kept = ("name", "description", "nullable", "missing_tokens")
    for column in schema.columns:
        fields = column.model_dump()
        if isinstance(column, CategoricalColumn) and answers.get(CATEGORIES) == PRIVATE:
            if not column.open:
                fields = {name: fields[name] for name in kept if name in fields}
                fields.update(kind="categorical", categories="private")
        elif column.numeric and answers.get(BOUNDS) == PRIVATE:
            fields = widest(column, MOST_BINS).model_dump()
            # The bounds of a day are known.
            bought += [column.name] * (column.kind != "time")
        columns.append(fields)
    found = {**schema.model_dump(), "columns": columns, "positive": None}
    found["drafted_from_data"] = LEAK in answers.values()
    if not found["drafted_from_data"]:
        # Both were read off rows.
        found.update(drop_reasons={}, proposed_rules=())
    if schema.label not in Schema(**found).open:
        found["positive"] = schema.positive
    return Schema(**found), bought


def describe(choices: Choices, draft: Draft, schema: Schema, seconds: float, notes: Notes) -> bool:
    """What the budget will buy and what would come out missing or useless, before it is spent.

    True where bounds that are bought would mostly be noise, so that nobody should go on.
    """
    needed = 0
    whole = draft.rows if schema.unit is None else draft.distinct[schema.unit.column]
    many = "rows" if schema.unit is None else "persons"
    seen = max(1, round(whole * (1 - choices.holdout)))
    bounds_eps, rest_eps = split(choices)
    forecast = foresee(schema, choices.method, rest_eps, seen)
    warn_of_columns([one for one in draft.verdicts if one.name in schema.names], notes)
    # The number of a person's rows cannot be dropped.
    useless = [name for name in forecast.useless if name not in schema.counted]
    if useless := [f"{name} ({schema.column(name).size} codes)" for name in useless]:
        notes.warn(
            f"{', '.join(useless)} would mostly show noise in {seen:,} {many}: give such a column "
            "fewer bins in the schema, drop it (--kind NAME=drop), or raise --eps"
        )
    notes.say(
        f"method {choices.method}, eps {choices.eps:g}, {choices.holdout:.0%} of the {many} "
        "held out for the evaluation"
    )
    notes.say(forecast.text(seen, many))
    warn_of_few(whole, choices.holdout, many, notes)
    if forecast.sigma > COARSE * seen:
        # What more would buy; the table's owner decides, and nothing here picks it from the rows.
        off = [
            f"eps {eps:g} by {foresee(schema, choices.method, eps, seen).sigma:.0f}"
            for eps in (2 * choices.eps, 4 * choices.eps)
            if eps <= MOST_EPS
        ]
        if off:
            notes.say(f"with more: at {', at '.join(off)}")
    if schema.unit is not None:
        notes.say(f"protected: {schema.unit.text}")
    # Reading the table some times, and what a model of so many columns takes.
    time = 6 * seconds + 5 + len(schema.names) * (0.3 if choices.method == "independent" else 1)
    notes.say(f"time: about {f'{time:.0f} s' if time < 90 else f'{time / 60:.0f} minutes'}")
    if schema.drafted_from_data:
        notes.warn(DRAFTED)
    if choices.bought:
        notes.say(
            f"bounds of {', '.join(choices.bought)} are bought at eps {bounds_eps:g}, out "
            "of the whole"
        )
        # What lies outside must be unlikely to be drawn.
        each = exponential_eps(Budget(eps=bounds_eps).rho / (2 * len(choices.bought)))
        needed = math.ceil(2 * math.log(20 * CELLS) / (TAIL * each))
        if seen < needed:
            notes.warn(
                f"bought bounds would mostly be noise: {seen:,} {many} are fewer than about "
                f"{needed:,}. Take public ones from a code book (--public FILE), drop columns, or "
                "raise --eps"
            )
    if choices.label is None:
        notes.say("no label: --label COLUMN adds how well models learn from the release")
    return seen < needed


def warn_of_columns(verdicts: Sequence[Verdict], notes: Notes, prefix: str = "") -> None:
    """Point out columns that are hardly worth their budget, or taken for the wrong kind."""
    for verdict in verdicts:
        name = f"{prefix}{verdict.name}"
        if verdict.missing > MOSTLY:
            notes.warn(
                f"{name} is {verdict.missing:.0%} missing: little is worth its budget; "
                f"--kind {name}=drop leaves it out"
            )
        if verdict.fits is not None and verdict.fits < 1 - MISFIT:
            notes.warn(
                f"{name}: {1 - verdict.fits:.0%} of its values do not fit the kind "
                f"{verdict.kind}; --kind {name}=KIND takes it for another"
            )


def warn_of_few(whole: int, holdout: float, many: str, notes: Notes) -> None:
    """Point out that too few would be held out to evaluate a release on."""
    expected = whole * holdout
    if holdout and expected < FEWEST_HELD_OUT:
        notes.warn(
            f"about {expected:.0f} of {whole:,} {many} would be held out, perhaps none: too few to "
            "evaluate a release on; raise --holdout, or test in sample with --holdout 0"
        )
