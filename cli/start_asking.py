"""What ``start`` drafts, asks and shows of one table, or of a folder of linked tables."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from marginalsyn.cli import start_forecast
from marginalsyn.cli.screen import Notes
from marginalsyn.cli.start import Choices
from marginalsyn.cli.start_forecast import LEAK, PUBLIC, prompt, prompt_most
from marginalsyn.drafting.draft import Draft, described, draft_schema
from marginalsyn.drafting.drafted import KINDS
from marginalsyn.drafting.linked_draft import LinkedDraft, draft_linked, read_tables
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.operations.drafting import (
    asked_of,
    missing_of,
    pairs_of,
    refuse_useless,
    repeats_caution,
    verdicts,
    verdicts_of_linked,
    with_unit_asked,
)
from marginalsyn.operations.generate import Generate
from marginalsyn.operations.operation import Facts
from marginalsyn.operations.origins import labelled, shown_name, with_unit
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.privacy.budget import Budget
from marginalsyn.purchases.categories import Categories
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import ROW
from marginalsyn.validation import like

# Of a column whose categories are bought: the share of rows in one of them from which all is well,
# and that below which it is not worth its budget.
WELL, LEAST = 0.5, 0.2
# Linked tables have no purchases: what the rows show is public, or it is taken from them.
ANSWERS = dict.fromkeys(start_forecast.ANSWERS, (LEAK, PUBLIC))
# Options of one table, by the fields of what names it.
SINGLE = ("unit", "max_rows", "order")


def prepared(choices: Choices, vouched: Schema | None, notes: Notes) -> tuple[Choices, Schema]:
    """The schema of one table, drafted and asked about, after what is to come was shown."""

    def read(known: Choices) -> Draft:
        with notes.progress() as progress:
            progress.report("read", text=start_forecast.stem(choices.data))
            if vouched is not None:
                public = with_unit(labelled(vouched, known.label), known)
                return described(choices.data, public, sep=choices.sep)
            return draft_schema(choices.data, sep=choices.sep, **asked_of(known))

    began = time.monotonic()
    draft = read(choices)
    seconds = time.monotonic() - began
    refuse_useless(draft, shown_name(choices.data), choices.public)
    notes.say(verdicts(draft))
    if not choices.yes:
        choices, draft = _ask(choices, draft, read)
        # Persons are counted in the column that was named.
        draft = read(choices) if vouched is not None else draft
    elif choices.unit is None and draft.schema.unit is None:
        notes.warn_all(repeats_caution(draft.repeats))
    schema = draft.schema
    if vouched is None:
        left = [one for one in draft.codes if not one.clear and one.name not in choices.missing]
        if choices.yes and left:
            listed = ", ".join(map(str, left))
            notes.warn(
                f"numbers that may mean missing: {listed}. --missing NAME=VALUE takes one so"
            )
        schema = _without_lost(choices, start_forecast.settled(schema), draft, notes)
        if not choices.yes:
            schema, bought = start_forecast.sourced(schema, start_forecast.ask_whence({"": schema}))
            choices = replace(choices, bought=bought)
    schema = with_unit_asked(choices, schema, draft)
    choices = replace(choices, drafted=schema.drafted_from_data, open=bool(schema.open))
    doubted = start_forecast.describe(choices, draft, schema, seconds, notes)
    return replace(choices, doubted=doubted), schema


def _without_lost(choices: Choices, drafted: Schema, draft: Draft, notes: Notes) -> Schema:
    """The draft without columns that would come out as OTHER or noise, or with shorter values.

    It reads how often the texts of columns occur whose categories the release is to buy, and how
    often values are missing, so the result is a draft, too. What changes is named.
    """
    schema, budget = with_unit_asked(choices, drafted, draft), Budget(eps=choices.eps)

    def left_out(name: str, why: str) -> Schema:
        notes.warn(f"{name} is left out: {why}; --keep {name}")
        reasons = {**schema.drop_reasons, name: "too few rows for its values"}
        fewer = schema.select([one for one in schema.names if one != name])
        return fewer.model_copy(update={"drop_reasons": reasons})

    def spare(name: str) -> bool:
        return len(schema.columns) > 2 and name in {*schema.names} - {*kept, schema.label}

    units = draft.rows if schema.unit is None else draft.distinct[schema.unit.column]
    # What the release sees: rows, or persons where these are protected.
    seen, kept = round(units * (1 - choices.holdout)), (*choices.keep, *choices.kinds)
    for name in [name for name in schema.open if name in draft.texts and name not in kept]:
        column = schema.column(name)
        assert isinstance(column, CategoricalColumn)
        counts = draft.texts[name]
        total = max(sum(count for _, count in counts), 1)
        lengths = [column.prefixes, *((length,) for length in reversed(column.prefixes))]
        options = [column] + [
            column.model_copy(update={"prefixes": one, "shorten": True}) for one in lengths if one
        ]
        shares = []
        for choice in options:
            plan = Categories.within(_with_column(schema, choice), budget)
            assert isinstance(plan, Categories)
            # In rows of the file: a person's rows count as one together.
            needed = plan.least * total / max(seen, 1)
            left, levels = dict(counts), []
            for length in plan.lengths[name]:
                sums: Counter[str] = Counter()
                for text, count in left.items():
                    sums[text[:length]] += count
                left = {text: n for text, n in left.items() if sums[text[:length]] < needed}
                levels.append(1 - sum(left.values()) / total)
            # Whole texts that are hardly listed are not worth counting.
            whole = choice is not column or levels[0] >= LEAST
            shares.append(levels[-1] if whole else levels[0])
        well = [at for at, share in enumerate(shares) if share >= WELL]
        best = well[0] if well else shares.index(max(shares))
        why = f"of its {len(counts):,} texts those of {needed:.0f} rows or more would be listed"
        if shares[best] < LEAST and spare(name):
            schema = left_out(name, f"{why}, {shares[0]:.0%} of the rows")
        elif best:
            schema = _with_column(schema, options[best])
            long = " or ".join(map(str, options[best].prefixes))
            notes.warn(
                f"{name} is shortened to {long} characters: {why}, {shares[0]:.0%} of the rows, "
                f"and {shares[best]:.0%} of the shortened ones; --keep {name} leaves it as it is"
            )
    for one in draft.verdicts:
        if one.missing > start_forecast.MOSTLY and spare(one.name):
            noise = start_forecast.foresee(schema, choices.method, choices.eps, seen)
            if (off := noise.errors.get(one.name, 0)) > 1 - one.missing:
                found = (
                    f"it is {one.missing:.0%} missing, and noise would fill {off:.0%} of the rows"
                )
                schema = left_out(one.name, found)
    return schema if drafted.unit else schema.with_unit(None)


def _with_column(schema: Schema, column: CategoricalColumn) -> Schema:
    """The schema with one column replaced."""
    columns = tuple(column if one.name == column.name else one for one in schema.columns)
    return schema.model_copy(update={"columns": columns})


def _ask(choices: Choices, draft: Draft, read: Callable[[Choices], Draft]) -> tuple[Choices, Draft]:
    """What only the user can know: wrong kinds, the label, who a row is about."""
    notes = Notes()

    def changed(quiet: bool = False, **fields: Any) -> bool:
        nonlocal choices, draft
        try:
            new = replace(choices, **fields)
            draft, choices = read(new), new
        except MarginalsynError as error:
            notes.warn_all([] if quiet else [str(error)])
            return False
        return True

    columns = "Columns to change, as NAME=KIND or NAME=drop (Enter: none)"
    if choices.public is None:
        notes.say(f"kinds: {', '.join(KINDS)}, drop")
    while choices.public is None and (typed := prompt(columns)):
        before = draft
        try:
            pairs = dict(pairs_of(typed))
        except UsageError as error:
            notes.warn(str(error))
            continue
        # What is right is kept where something else is wrong.
        if not changed(kinds={**choices.kinds, **pairs}, quiet=len(pairs) > 1) and len(pairs) > 1:
            for name, kind in pairs.items():
                changed(kinds={**choices.kinds, name: kind})
        if draft is not before:
            notes.say(verdicts(draft))
    _ask_missing(choices, draft, changed)
    label = "The column that models predict (Enter: none)"
    while draft.schema.label is None and (typed := prompt(label)):
        changed(label=typed)
    if choices.unit is None and draft.schema.unit is None:
        column, most = _ask_unit(draft)
        choices = replace(choices, unit=column, max_rows=most)
    return choices, draft


def _ask_missing(choices: Choices, draft: Draft, changed: Callable[..., bool]) -> None:
    """Whether numbers that stand alone mean missing; the clear ones are proposed."""
    codes = [one for one in draft.codes if one.name not in choices.missing]
    if not codes:
        return
    Notes().say(f"numbers that may mean missing: {', '.join(map(str, codes))}")
    clear = ", ".join(f"{one.name}={one.value:g}" for one in codes if one.clear) or "none"
    while typed := prompt(f"Which do, as NAME=VALUE, or none (Enter: {clear})"):
        try:
            pairs = [] if typed.lower() == "none" else pairs_of(typed)
            found = missing_of([f"{name}={value}" for name, value in pairs])
        except UsageError as error:
            Notes().warn(str(error))
            continue
        none = {one.name: () for one in codes}
        if changed(missing={**choices.missing, **none, **found}):
            return


def _ask_unit(draft: Draft) -> tuple[str, int | None]:
    """Ask whether each row is a person of its own, or one of several rows of a person."""
    notes = Notes()
    seen = draft.repeats[0].name if draft.repeats else ""
    if seen:
        notes.warn(f"{seen} looks as if it identifies persons: {draft.repeats[0]}")
    if click.confirm("Is every person in one row at most?", default=not seen, err=True):
        return ROW, None
    while True:
        hint = f"Enter: {seen}; row: rows are meant" if seen else "Enter: rows are meant"
        found = prompt(f"The column that identifies persons ({hint})") or seen or ROW
        if found == ROW:
            notes.warn("the promise is for one row: a person with k rows is protected k times less")
            return ROW, None
        if found in draft.distinct:
            return found, prompt_most("a person", 20)
        notes.warn(f"unit ({found}) must be a column of the table{like(found, draft.distinct)}")


def prepared_linked(
    choices: Choices, vouched: LinkedSchema | None, notes: Notes
) -> tuple[Choices, LinkedSchema]:
    """The schema of the tables, drafted and asked about, after what is to come was shown."""
    for name in SINGLE:
        if (value := getattr(choices, name)) is not None:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} ({value}) is for one table: of linked tables the rows of the root are "
                "the persons, each with all rows linked to it"
            )
    if vouched is not None:
        tree, persons, root = vouched, None, vouched.root
        if root.schema is not None:
            root = replace(root, schema=labelled(root.schema, choices.label))
            tree = replace(tree, tables=(root, *tree.tables[1:]))
        draft = LinkedDraft(tree, ())
    else:
        with notes.progress() as progress:
            progress.report("read", text=choices.data)
            frames = read_tables(choices.data, choices.sep, choices.rename_duplicates)

        def read(known: Choices) -> LinkedDraft:
            with notes.progress() as progress:
                progress.report("read", text=choices.data)
                return draft_linked(frames, links=known.links, most=known.most, **asked_of(known))

        draft = read(choices)
        _show(draft, notes)
        if not choices.yes:
            choices, draft = _ask_linked(choices, draft, read, notes)
        settled = {t.name: start_forecast.settled(t.schema) for t in draft.tree.tables if t.schema}
        if not choices.yes:
            answers = start_forecast.ask_whence(settled, ANSWERS)
            settled = {n: start_forecast.sourced(one, answers)[0] for n, one in settled.items()}
        tables = [replace(t, schema=settled.get(t.name)) for t in draft.tree.tables]
        tree, persons = LinkedSchema(tuple(tables), draft.tree.title), len(frames[tables[0].name])
    choices = replace(choices, drafted=tree.drafted_from_data)
    _describe(choices, draft, tree, persons, notes)
    return choices, tree


def _show(draft: LinkedDraft, notes: Notes) -> None:
    for block in verdicts_of_linked(draft):
        notes.say(block)
    notes.warn_all(draft.remarks)


def _ask_linked(
    choices: Choices, draft: LinkedDraft, read: Callable[[Choices], LinkedDraft], notes: Notes
) -> tuple[Choices, LinkedDraft]:
    """What only the user can know: wrong kinds and links, the label, how many rows count."""

    def changed(text: str, change: Callable[[str], dict[str, Any]], again: bool = True) -> None:
        nonlocal choices, draft
        while typed := prompt(text):
            try:
                new = replace(choices, **change(typed))
                draft, choices = read(new), new
            except MarginalsynError as error:
                notes.warn(str(error))
            else:
                _show(draft, notes)
                if not again:
                    return

    changed(
        "Links to change, as TABLE=PARENT.COLUMN, TABLE=root, TABLE=drop or TABLE.key=COLUMN "
        "(Enter: none)",
        lambda typed: {"links": {**choices.links, **dict(pairs_of(typed))}},
    )
    changed(
        "Columns to change, as TABLE.NAME=KIND or TABLE.NAME=drop (Enter: none)",
        lambda typed: {"kinds": {**choices.kinds, **dict(pairs_of(typed))}},
    )
    root = draft.tree.root
    if root.schema is not None and root.schema.label is None:
        changed(
            f"The column of {root.name} that models predict (Enter: none)",
            lambda typed: {"label": typed},
            again=False,
        )
    for table in draft.tree.tables[1:]:
        number = prompt_most(f"{table.name} for one row of {table.parent}", table.max_children)
        choices = replace(choices, most={**choices.most, table.name: number})
    return choices, read(choices)


def _describe(
    choices: Choices, draft: LinkedDraft, tree: LinkedSchema, persons: int | None, notes: Notes
) -> None:
    """What the budget is spent on, as ``generate --dry-run`` shows it, and what to look out for."""
    for table, one in draft.drafts.items():
        if one is not None:
            start_forecast.warn_of_columns(one.verdicts, notes, prefix=f"{table}.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(choices.public or Path(folder) / "schema.json")
        if choices.public is None:
            tree.write(path)
        plan = Generate(
            data=choices.data,
            schema=path,
            eps=choices.eps,
            method=choices.method,
            holdout=choices.holdout,
            sep=choices.sep,
            accept_nonprivate_schema=True,
        ).plan(notes)
    for block in plan.text:
        if isinstance(block, Facts):
            for name, value in block.pairs:
                notes.say(f"{name.lower() + ':' if name else '':<10} {value}")
        else:
            notes.say(block)
    notes.warn_all(plan.warnings)
    if choices.holdout:
        notes.say(f"held out:  {choices.holdout:.0%} of the persons, for the evaluation")
    if persons is not None:
        seen = max(1, round(persons * (1 - choices.holdout)))
        forecast = start_forecast.foresee(tree, choices.method, choices.eps, seen)
        notes.say(forecast.text(seen, f"rows of {tree.root.name}"))
        start_forecast.warn_of_few(persons, choices.holdout, "persons", notes)
    if tree.drafted_from_data:
        notes.warn(start_forecast.DRAFTED)
    if tree.root.schema is None or tree.root.schema.label is None:
        notes.say("no label: --label COLUMN adds how well models learn from the release")
