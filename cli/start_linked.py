"""What ``start`` drafts, asks and shows of a folder of linked tables."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import screen, start_forecast
from marginalsyn.cli.start_forecast import LEAK, PUBLIC, prompt, prompt_most
from marginalsyn.errors import MarginalsynError, UsageError
from marginalsyn.operations.drafting import asked_of, pairs_of
from marginalsyn.operations.generate import Generate
from marginalsyn.operations.linked_draft import LinkedDraft, draft_linked, read_tables
from marginalsyn.operations.operation import Facts
from marginalsyn.operations.origins import labelled
from marginalsyn.people.tree import LinkedSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from marginalsyn.cli.start_forecast import Choices
    from marginalsyn.operations.operation import Session

# Linked tables have no purchases: what the rows show is public, or it is taken from them.
ANSWERS = {group: (LEAK, PUBLIC) for group in start_forecast.ANSWERS}
# Options of one table, by the fields of what names it.
SINGLE = ("unit", "max_rows", "order")


def prepared(
    choices: Choices,
    vouched: LinkedSchema | None,
    session: Session,
    notes: screen.Notes,
    *,
    asks: bool,
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
        tree, persons = _labelled(vouched, choices.label), None
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
        if asks:
            choices, draft = _ask(choices, draft, read, notes)
        settled = {t.name: start_forecast.settled(t.schema) for t in draft.tree.tables if t.schema}
        if asks:
            answers = start_forecast.ask_whence(settled, ANSWERS)
            settled = {n: start_forecast.sourced(one, answers)[0] for n, one in settled.items()}
        tables = [replace(t, schema=settled.get(t.name)) for t in draft.tree.tables]
        tree, persons = LinkedSchema(tuple(tables), draft.tree.title), len(frames[tables[0].name])
    choices = replace(choices, drafted=tree.drafted_from_data, several=True)
    _describe(choices, draft, tree, persons, session, notes)
    return choices, tree


def _labelled(tree: LinkedSchema, label: str | None) -> LinkedSchema:
    """The tables with another label of the root."""
    if label is None or tree.root.schema is None:
        return tree
    root = replace(tree.root, schema=labelled(tree.root.schema, label))
    return replace(tree, tables=(root, *tree.tables[1:]))


def _show(draft: LinkedDraft, notes: screen.Notes) -> None:
    notes.say(draft.verdicts())
    notes.say()
    notes.say(draft.links())
    notes.warn_all(draft.remarks)


def _ask(
    choices: Choices,
    draft: LinkedDraft,
    read: Callable[[Choices], LinkedDraft],
    notes: screen.Notes,
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
    choices: Choices,
    draft: LinkedDraft,
    tree: LinkedSchema,
    persons: int | None,
    session: Session,
    notes: screen.Notes,
) -> None:
    """What the budget is spent on, as ``generate --dry-run`` shows it, and what to look out for."""
    for table, one in draft.drafts.items():
        if one is not None:
            start_forecast.warn_of_columns(one.verdicts, notes, prefix=f"{table}.")
    with tempfile.TemporaryDirectory() as folder:
        path = choices.public or Path(folder) / "schema.json"
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
        ).plan(session)
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
        notes.say(
            start_forecast.foresee(tree, choices.method, choices.eps, seen).text(
                seen, f"rows of {tree.root.name}"
            )
        )
        start_forecast.warn_of_few(persons, choices.holdout, "persons", notes)
    if tree.drafted_from_data:
        notes.warn(start_forecast.DRAFTED)
    if tree.root.schema is None or tree.root.schema.label is None:
        notes.say("no label: --label COLUMN adds how well models learn from the release")
